#include "k8s/controllers/claim/metadata.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "pool/base/file.h"

enum {
    NAME_MAX_LEN = 63,
    PREFIX_MAX_LEN = 253,
};

static const char *const maps[] = {"labels", "annotations", NULL};

static bool
is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9');
}

/* 1..63 letters, digits, '-', '_' and '.', of which the first and the last are
 * letters or digits. */
static bool
is_name(struct wp_str s)
{
    if (s.len == 0 || s.len > NAME_MAX_LEN || !is_alnum(s.ptr[0]) ||
        !is_alnum(s.ptr[s.len - 1])) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];

        if (!is_alnum(c) && c != '-' && c != '_' && c != '.') {
            return false;
        }
    }
    return true;
}

/* Splits "domain/name"; the domain is empty when there is none. */
static bool
split_key(const char *key, struct wp_str *domain, struct wp_str *name)
{
    const char *slash = strchr(key, '/');

    *domain = (struct wp_str){key, 0};
    *name = wp_str_from(key);
    if (slash != NULL) {
        domain->len = (size_t)(slash - key);
        *name = wp_str_from(slash + 1);
        if (!wp_str_is_dns_name(*domain, PREFIX_MAX_LEN)) {
            return false;
        }
    }
    return is_name(*name);
}

/* Is domain this one, or below it? */
static bool
is_within(struct wp_str domain, struct wp_str parent)
{
    if (domain.len <= parent.len) {
        return wp_str_eq(domain, parent);
    }
    return domain.ptr[domain.len - parent.len - 1] == '.' &&
           memcmp(domain.ptr + domain.len - parent.len, parent.ptr,
                  parent.len) == 0;
}

static bool
is_allowed(const struct wp_label_domains *domains, struct wp_str domain)
{
    const char *name = domains->text;

    for (uint32_t i = 0; i < domains->len; i++) {
        if (is_within(domain, wp_str_from(name))) {
            return true;
        }
        name += strlen(name) + 1;
    }
    return false;
}

static bool
is_system(struct wp_str domain)
{
    static const char *const system[] = {"kubernetes.io", "k8s.io",
                                         "agents.x-k8s.io", NULL};

    for (size_t i = 0; system[i] != NULL; i++) {
        if (is_within(domain, wp_str_from(system[i]))) {
            return true;
        }
    }
    return false;
}

static enum wp_status
check_label(const struct wp_label_domains *domains, struct wp_str domain,
            const char *key, const char *value, struct wp_err *err)
{
    if (strcasecmp(key, "app") == 0 &&
        strcasecmp(value, "sandbox-router") == 0) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "label %s=%s is the router's own", key, value);
    }
    if (domain.len == 0) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "label '%s': expected a domain before the name, as "
                          "in sandbox.users.io/name",
                          key);
    }
    if (!is_allowed(domains, domain)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "label '%s': its domain is not among those that are "
                          "allowed (setting allowed_label_domains_file; "
                          "without it sandbox.users.io)",
                          key);
    }
    if (value[0] != '\0' && !is_name(wp_str_from(value))) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "label '%s': expected a value of at most 63 letters, "
                          "digits, '-', '_' and '.'",
                          key);
    }
    return WP_OK;
}

static enum wp_status
check_annotation(struct wp_str domain, const char *key, struct wp_err *err)
{
    if (is_system(domain) && strcmp(key, WP_ANNOTATION_SAFE_TO_EVICT) != 0) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "annotation '%s': its domain is the system's", key);
    }
    return WP_OK;
}

static enum wp_status
check_map(const struct wp_label_domains *domains, const char *map,
          json_t *pairs, struct wp_err *err)
{
    bool labels = map == maps[0];
    const char *key;
    json_t *value;

    json_object_foreach(pairs, key, value)
    {
        struct wp_str domain;
        struct wp_str name;
        enum wp_status status;

        if (!split_key(key, &domain, &name)) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "%s key '%s': expected [domain/]name of letters, "
                              "digits, '-', '_' and '.'",
                              labels ? "label" : "annotation", key);
        }
        if (!json_is_string(value)) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "%s '%s': expected a text",
                              labels ? "label" : "annotation", key);
        }
        status = labels ? check_label(domains, domain, key,
                                      json_string_value(value), err)
                        : check_annotation(domain, key, err);
        if (status != WP_OK) {
            return status;
        }
    }
    return WP_OK;
}

enum wp_status
wp_claim_metadata_check(const struct wp_label_domains *domains,
                        const json_t *additional, struct wp_err *err)
{
    for (size_t i = 0; maps[i] != NULL; i++) {
        enum wp_status status = check_map(
            domains, maps[i], json_object_get(additional, maps[i]), err);

        if (status != WP_OK) {
            return status;
        }
    }
    return WP_OK;
}

enum wp_status
wp_claim_metadata_merge(json_t *metadata, const json_t *additional,
                        struct wp_err *err)
{
    const char *key;
    json_t *value;

    for (size_t i = 0; maps[i] != NULL; i++) {
        const json_t *have = json_object_get(metadata, maps[i]);

        json_object_foreach(json_object_get(additional, maps[i]), key, value)
        {
            const json_t *other = json_object_get(have, key);

            if (other != NULL && !json_equal(other, value)) {
                return wp_err_set(err, WP_ALREADY_EXISTS,
                                  "metadata override conflict: %s '%s' is the "
                                  "template's, with another value",
                                  i == 0 ? "label" : "annotation", key);
            }
        }
    }
    for (size_t i = 0; maps[i] != NULL; i++) {
        json_t *adds = json_object_get(additional, maps[i]);
        json_t *have;

        if (json_object_size(adds) == 0) {
            continue;
        }
        have = wp_json_object_at(metadata, maps[i]);
        json_object_foreach(adds, key, value)
        {
            (void)wp_json_set(have, key, json_incref(value));
        }
    }
    return WP_OK;
}

static bool
is_separator(char c)
{
    return c == ',' || c == '\n' || c == '\r';
}

static bool
is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* Takes one name from *text, trimmed; empty where two separators meet. */
static struct wp_str
next_name(struct wp_str *text)
{
    struct wp_str name = {text->ptr, 0};

    while (name.len < text->len && !is_separator(text->ptr[name.len])) {
        name.len++;
    }
    text->ptr += name.len;
    text->len -= name.len;
    if (text->len > 0) {
        text->ptr++;
        text->len--;
    }
    while (name.len > 0 && is_space(name.ptr[0])) {
        name.ptr++;
        name.len--;
    }
    while (name.len > 0 && is_space(name.ptr[name.len - 1])) {
        name.len--;
    }
    return name;
}

/* Copies it in lower case. */
static void
add_name(struct wp_label_domains *domains, char **out, struct wp_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        *(*out)++ = (char)tolower((unsigned char)name.ptr[i]);
    }
    *(*out)++ = '\0';
    domains->len++;
}

enum wp_status
wp_label_domains_parse(struct wp_label_domains *domains, struct wp_str text,
                       struct wp_err *err)
{
    struct wp_str fallback = WP_STR("sandbox.users.io");
    char *out;

    *domains = (struct wp_label_domains){NULL, 0};
    if (text.len > WP_LABEL_DOMAINS_BYTES_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "allowed label domains: more than %d bytes",
                          WP_LABEL_DOMAINS_BYTES_MAX);
    }
    /* Each name needs a byte beside its own: the separator's, or the end's. */
    out = domains->text = malloc(text.len + fallback.len + 2);
    if (out == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    while (text.len > 0) {
        struct wp_str name = next_name(&text);
        const char *start = out;

        if (name.len == 0) {
            continue;
        }
        add_name(domains, &out, name);
        if (!wp_str_is_dns_name(
                (struct wp_str){start, (size_t)(out - start) - 1},
                PREFIX_MAX_LEN) ||
            domains->len > WP_LABEL_DOMAINS_MAX) {
            (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                             "allowed label domains: '%.*s': expected at most "
                             "%d DNS names",
                             (int)(name.len < 80 ? name.len : 80), name.ptr,
                             WP_LABEL_DOMAINS_MAX);
            wp_label_domains_fini(domains);
            return WP_INVALID_ARGUMENT;
        }
    }
    if (domains->len == 0) {
        add_name(domains, &out, fallback);
    }
    return WP_OK;
}

enum wp_status
wp_label_domains_read(struct wp_label_domains *domains, const char *path,
                      struct wp_err *err)
{
    char *bytes = malloc(WP_LABEL_DOMAINS_BYTES_MAX + 1);
    ssize_t len;
    enum wp_status status;

    if (bytes == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    len = wp_path_read(path, 0, bytes, WP_LABEL_DOMAINS_BYTES_MAX + 1, NULL);
    if (len < 0 && (errno == ENOENT || errno == ENOTDIR)) {
        len = 0;
    }
    status = len < 0 ? wp_err_sys(err, WP_FAILED_PRECONDITION, errno,
                                  "allowed label domains: %s", path)
                     : wp_label_domains_parse(
                           domains, (struct wp_str){bytes, (size_t)len}, err);
    free(bytes);
    return status;
}

void
wp_label_domains_fini(struct wp_label_domains *domains)
{
    free(domains->text);
    *domains = (struct wp_label_domains){NULL, 0};
}
