#include "pool/remotes/remote_rules.h"

#include <string.h>
#include <strings.h>

static struct wp_str
next_word(struct wp_str *text)
{
    struct wp_str word;

    while (text->len > 0 && strchr(" ,\t\n", text->ptr[0]) != NULL) {
        text->ptr++;
        text->len--;
    }
    word = (struct wp_str){text->ptr, 0};
    while (text->len > 0 && strchr(" ,\t\n", text->ptr[0]) == NULL) {
        text->ptr++;
        text->len--;
        word.len++;
    }
    return word;
}

static bool
take_prefix(struct wp_str *text, struct wp_str prefix)
{
    if (!wp_str_starts_with(*text, prefix)) {
        return false;
    }
    text->ptr += prefix.len;
    text->len -= prefix.len;
    return true;
}

static bool
ends_with(struct wp_str text, struct wp_str end)
{
    return text.len >= end.len &&
           memcmp(text.ptr + text.len - end.len, end.ptr, end.len) == 0;
}

/* Without what changes nothing at its end. */
static struct wp_str
trim_path(struct wp_str path)
{
    if (ends_with(path, WP_STR("*"))) {
        path.len--;
    }
    while (ends_with(path, WP_STR("/"))) {
        path.len--;
    }
    if (path.len > 4 && ends_with(path, WP_STR(".git"))) {
        path.len -= 4;
    }
    return path;
}

/* What follows the host stays in *text. */
static bool
read_host(struct wp_str *text, struct wp_remote_rule *out, const char **why)
{
    const char *slash = memchr(text->ptr, '/', text->len);
    struct wp_str authority = *text;
    uint16_t none =
        out->plain && !out->tls ? WP_REMOTE_PLAIN_PORT : WP_REMOTE_TLS_PORT;
    bool given;

    if (slash != NULL) {
        authority.len = (size_t)(slash - text->ptr);
    }
    text->ptr += authority.len;
    text->len -= authority.len;
    out->below = take_prefix(&authority, WP_STR("*."));
    /* The colon of a port, not one of an address in brackets. */
    given = memrchr(authority.ptr, ':', authority.len) != NULL &&
            !ends_with(authority, WP_STR("]"));
    if (!wp_host_port_parse(authority, none, &out->host, &out->port, why)) {
        return false;
    }
    if (!given) {
        out->port = 0;
    }
    if (out->below && out->host.is_address) {
        *why = "a name expected behind '*.'";
        return false;
    }
    return true;
}

static bool
read_rule(struct wp_str word, bool denies, struct wp_remote_rule *out,
          const char **why)
{
    struct wp_remote check;
    char url[WP_REMOTE_URL_MAX + 1] = "https://h/";
    size_t len = strlen(url);

    *out = (struct wp_remote_rule){.denies = denies};
    out->tls = take_prefix(&word, WP_STR("https://"));
    out->plain = !out->tls && take_prefix(&word, WP_STR("http://"));
    if (!out->tls && !out->plain) {
        if (memmem(word.ptr, word.len, "://", 3) != NULL) {
            *why = "https:// or http:// expected in front, or neither";
            return false;
        }
        out->tls = true;
        out->plain = denies;
    }
    if (!read_host(&word, out, why)) {
        return false;
    }
    if (word.len > 0) {
        word.ptr++;
        word.len--;
    }
    /* "evil*" is not what a rule can mean, and a rule that denies must not mean
     * less than it seems to. */
    if (word.len > 1 && ends_with(word, WP_STR("*")) &&
        word.ptr[word.len - 2] != '/') {
        *why = "'*' expected as the whole last part of a path";
        return false;
    }
    out->path = trim_path(word);
    if (out->path.len == 0) {
        return true;
    }
    if (out->path.len >= sizeof url - len) {
        *why = "a shorter path expected";
        return false;
    }
    memcpy(url + len, out->path.ptr, out->path.len);
    return wp_remote_parse((struct wp_str){url, len + out->path.len}, &check,
                           why);
}

enum wp_status
wp_remote_rules_add(struct wp_remote_rules *out, struct wp_str text,
                    bool denies, struct wp_err *err)
{
    struct wp_str word;
    const char *why = "";

    while ((word = next_word(&text)).len > 0) {
        if (out->n == WP_REMOTE_RULES_MAX) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "at most %d rules expected", WP_REMOTE_RULES_MAX);
        }
        if (!read_rule(word, denies, &out->rule[out->n], &why)) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "'%.*s': HOST[:PORT][/PATH] expected: %s",
                              (int)(word.len < 80 ? word.len : 80), word.ptr,
                              why);
        }
        out->n++;
    }
    return WP_OK;
}

static bool
host_matches(const struct wp_remote_rule *rule, const struct wp_host *host)
{
    size_t len = strlen(host->name);
    size_t own = strlen(rule->host.name);

    if (!rule->below) {
        return strcmp(rule->host.name, host->name) == 0;
    }
    return len > own + 1 && host->name[len - own - 1] == '.' &&
           strcmp(host->name + len - own, rule->host.name) == 0;
}

static bool
path_matches(const struct wp_remote_rule *rule, const char *path)
{
    struct wp_str whole = trim_path(wp_str_from(path));
    size_t len = rule->path.len;
    bool same;

    if (len == 0) {
        return true;
    }
    if (whole.len < len) {
        return false;
    }
    same = rule->denies ? strncasecmp(whole.ptr, rule->path.ptr, len) == 0
                        : memcmp(whole.ptr, rule->path.ptr, len) == 0;
    return same && (whole.len == len || whole.ptr[len] == '/');
}

static bool
port_matches(const struct wp_remote_rule *rule, const struct wp_remote *remote)
{
    if (rule->port != 0) {
        return rule->port == remote->port;
    }
    return rule->denies || remote->port == (remote->tls ? WP_REMOTE_TLS_PORT
                                                        : WP_REMOTE_PLAIN_PORT);
}

static bool
matches(const struct wp_remote_rule *rule, const struct wp_remote *remote)
{
    return (remote->tls ? rule->tls : rule->plain) &&
           port_matches(rule, remote) && host_matches(rule, &remote->host) &&
           path_matches(rule, remote->path);
}

bool
wp_remote_rules_deny(const struct wp_remote_rules *rules,
                     const struct wp_remote *remote)
{
    for (uint32_t i = 0; i < rules->n; i++) {
        if (rules->rule[i].denies && matches(&rules->rule[i], remote)) {
            return true;
        }
    }
    return false;
}

bool
wp_remote_rules_allow(const struct wp_remote_rules *rules,
                      const struct wp_remote *remote)
{
    bool allowed = false;

    for (uint32_t i = 0; i < rules->n && !allowed; i++) {
        allowed = !rules->rule[i].denies && matches(&rules->rule[i], remote);
    }
    return allowed && !wp_remote_rules_deny(rules, remote);
}
