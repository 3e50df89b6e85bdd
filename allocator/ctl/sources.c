#include "allocator/ctl/sources.h"

#include <stdio.h>
#include <string.h>

#include "pool/egress/policy.h"

#define DOMAINS "allowed_domains"
#define REGISTRIES "allowed_registries"
#define REMOTES_ALLOWED "allowed_remotes"
#define REMOTES_DENIED "denied_remotes"
#define LIMITS "resource_limits"
#define REPOSITORIES_MAX "max_repos"

static enum wp_status
expected(struct wp_err *err, const char *member, const char *what)
{
    return wp_err_set(err, WP_INVALID_ARGUMENT, "%s: %s expected", member,
                      what);
}

/* The texts of a member that is an array; *i goes on, and NULL ends it, or is a
 * mistake: then *status says so. */
static const char *
next_text(const json_t *whole, const char *member, size_t *i,
          enum wp_status *status, struct wp_err *err)
{
    const json_t *array = json_object_get(whole, member);
    const char *text;

    if (array == NULL) {
        return NULL;
    }
    if (!json_is_array(array)) {
        *status = expected(err, member, "an array of texts");
        return NULL;
    }
    if (*i == json_array_size(array)) {
        return NULL;
    }
    text = json_string_value(json_array_get(array, (*i)++));
    if (text == NULL) {
        *status = expected(err, member, "an array of texts");
    }
    return text;
}

static enum wp_status
read_remotes(struct wp_sources *out, const char *member, bool denies,
             struct wp_err *err)
{
    enum wp_status status = WP_OK;
    const char *text;
    size_t i = 0;

    while (status == WP_OK &&
           (text = next_text(out->whole, member, &i, &status, err)) != NULL) {
        status =
            wp_remote_rules_add(&out->rules, wp_str_from(text), denies, err);
        if (status != WP_OK) {
            return wp_err_wrap(err, "%s", member);
        }
    }
    return status;
}

/* A host, and no word that a policy reads as more than one. */
static bool
is_host(const char *text)
{
    static const char *const words[] = {"none", "open", "allowlist",
                                        WP_EGRESS_PRESET};
    struct wp_egress_policy policy;
    struct wp_err err;

    for (size_t i = 0; i < WP_ARRAY_LEN(words); i++) {
        if (strcmp(text, words[i]) == 0) {
            return false;
        }
    }
    return text[0] != '\0' && text[strcspn(text, " \t\n,")] == '\0' &&
           wp_egress_preset_parse(wp_str_from(text), &policy, &err) == WP_OK;
}

/* ".NAME" is NAME and all below it. */
static enum wp_status
read_hosts(struct wp_sources *out, const char *member, struct wp_err *err)
{
    enum wp_status status = WP_OK;
    const char *text;
    size_t i = 0;

    while (status == WP_OK &&
           (text = next_text(out->whole, member, &i, &status, err)) != NULL) {
        size_t used = strlen(out->egress);
        size_t room = sizeof out->egress - used;
        const char *space = used > 0 ? " " : "";
        int n = text[0] == '.'
                    ? snprintf(out->egress + used, room, "%s%s *%s", space,
                               text + 1, text)
                    : snprintf(out->egress + used, room, "%s%s", space, text);

        if (!is_host(text[0] == '.' ? text + 1 : text)) {
            return expected(err, member, "hosts, such as \".example.org\"");
        }
        if (n < 0 || (size_t)n >= room) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "%s: at most %d bytes of hosts in all expected",
                              member, WP_EGRESS_TEXT_MAX);
        }
    }
    return status;
}

/* A list without a host is one, too: nothing is reached. */
static enum wp_status
read_egress(struct wp_sources *out, struct wp_err *err)
{
    bool says = json_object_get(out->whole, DOMAINS) != NULL ||
                json_object_get(out->whole, REGISTRIES) != NULL;
    enum wp_status status = read_hosts(out, DOMAINS, err);

    if (status == WP_OK) {
        status = read_hosts(out, REGISTRIES, err);
    }
    if (status == WP_OK && says && out->egress[0] == '\0') {
        (void)snprintf(out->egress, sizeof out->egress, WP_EGRESS_NONE_TEXT);
    }
    return status;
}

static enum wp_status
read_limits(struct wp_sources *out, struct wp_err *err)
{
    const json_t *limits = json_object_get(out->whole, LIMITS);
    const json_t *most = json_object_get(limits, REPOSITORIES_MAX);

    out->repositories_max = WP_BINDING_REPOSITORIES_MAX;
    if (limits != NULL && !json_is_object(limits)) {
        return expected(err, LIMITS, "an object");
    }
    if (most == NULL) {
        return WP_OK;
    }
    if (!json_is_integer(most) || json_integer_value(most) < 0) {
        return expected(err, LIMITS "." REPOSITORIES_MAX, "a whole number");
    }
    if (json_integer_value(most) < WP_BINDING_REPOSITORIES_MAX) {
        out->repositories_max = (uint32_t)json_integer_value(most);
    }
    return WP_OK;
}

static enum wp_status
check_version(const struct wp_sources *out, struct wp_err *err)
{
    const json_t *version = json_object_get(out->whole, "version");
    const char *text = json_string_value(version);

    if (version == NULL || (text != NULL && text[0] == '1' &&
                            (text[1] == '\0' || text[1] == '.'))) {
        return WP_OK;
    }
    return expected(err, "version", "the text \"1.0\"");
}

enum wp_status
wp_sources_parse(struct wp_str text, struct wp_sources *out, struct wp_err *err)
{
    json_error_t why;
    enum wp_status status;

    memset(out, 0, sizeof *out);
    out->whole = json_loadb(text.ptr, text.len, JSON_REJECT_DUPLICATES, &why);
    if (!json_is_object(out->whole)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "a JSON object without a name twice expected");
    }
    out->allows_all = json_object_get(out->whole, REMOTES_ALLOWED) == NULL;
    status = check_version(out, err);
    if (status == WP_OK) {
        status = read_remotes(out, REMOTES_ALLOWED, false, err);
    }
    if (status == WP_OK) {
        status = read_remotes(out, REMOTES_DENIED, true, err);
    }
    if (status == WP_OK) {
        status = read_egress(out, err);
    }
    return status == WP_OK ? read_limits(out, err) : status;
}

void
wp_sources_fini(struct wp_sources *sources)
{
    json_decref(sources->whole);
    sources->whole = NULL;
}

enum wp_status
wp_sources_allow(const struct wp_sources *sources, struct wp_str url,
                 uint32_t n, struct wp_err *err)
{
    struct wp_remote remote;
    const char *why = "";

    if (n > sources->repositories_max) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          LIMITS "." REPOSITORIES_MAX
                                 ": at most %u repositories, got %u",
                          sources->repositories_max, n);
    }
    if (!wp_remote_parse(url, &remote, &why)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "%s", why);
    }
    if (wp_remote_rules_deny(&sources->rules, &remote)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          REMOTES_DENIED ": the repository on %s is among them",
                          remote.host.name);
    }
    if (!sources->allows_all &&
        !wp_remote_rules_allow(&sources->rules, &remote)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          REMOTES_ALLOWED
                          ": the repository on %s is not among them",
                          remote.host.name);
    }
    return WP_OK;
}
