#include "pool/egress/policy.h"

#include <stdlib.h>

#define KEY_PREFIX "key:"

enum {
    KEY_NAME_MAX = 63,
};

static bool
is_separator(char c)
{
    return c == ' ' || c == ',';
}

struct wp_str
wp_egress_next_word(struct wp_str *text)
{
    struct wp_str word;
    size_t len = 0;

    while (text->len > 0 && is_separator(text->ptr[0])) {
        text->ptr++;
        text->len--;
    }
    while (len < text->len && !is_separator(text->ptr[len])) {
        len++;
    }
    word = (struct wp_str){text->ptr, len};
    text->ptr += len;
    text->len -= len;
    return word;
}

bool
wp_egress_policy_add(struct wp_egress_policy *policy,
                     struct wp_egress_rule rule, struct wp_str name)
{
    for (uint32_t i = 0; i < policy->rules_len; i++) {
        const struct wp_egress_rule *is = &policy->rules[i];

        if (is->kind == rule.kind && is->port == rule.port &&
            memcmp(&is->network, &rule.network, sizeof rule.network) == 0 &&
            wp_str_eq(wp_egress_rule_name(policy, is), name)) {
            return true;
        }
    }
    if (policy->rules_len == WP_EGRESS_RULES_MAX ||
        name.len > sizeof policy->names - policy->names_len) {
        return false;
    }
    rule.at = (uint16_t)policy->names_len;
    rule.len = (uint16_t)name.len;
    if (name.len > 0) {
        memcpy(policy->names + policy->names_len, name.ptr, name.len);
    }
    policy->names_len += (uint32_t)name.len;
    policy->rules[policy->rules_len++] = rule;
    return true;
}

static bool
add_host(struct wp_egress_policy *policy, struct wp_str word)
{
    struct wp_egress_rule rule = {.kind = WP_EGRESS_NAME};
    struct wp_host host;
    const char *why;
    /* Not one of an address in brackets: that is no name anyway. */
    bool has_port = memrchr(word.ptr, ':', word.len) != NULL;

    if (word.len > 2 && word.ptr[0] == '*' && word.ptr[1] == '.') {
        rule.kind = WP_EGRESS_BELOW;
        word.ptr += 2;
        word.len -= 2;
    }
    return (has_port ? wp_host_port_parse(word, 0, &host, &rule.port, &why)
                     : wp_host_parse(word, &host, &why)) &&
           !host.is_address &&
           wp_egress_policy_add(policy, rule, wp_str_from(host.name));
}

/* "10.0.0.0/8", "10.0.0.1:8080", "fd00::/8", "[fd00::/8]:8080" */
static bool
add_network(struct wp_egress_policy *policy, struct wp_str word)
{
    struct wp_egress_rule rule = {.kind = WP_EGRESS_NETWORK};
    struct wp_str network = word;
    const char *end =
        word.ptr[0] == '[' ? memchr(word.ptr, ']', word.len) : NULL;
    const char *colon = memrchr(word.ptr, ':', word.len);
    struct wp_str port = {NULL, 0};
    uint64_t value = 0;

    if (end != NULL) {
        network = (struct wp_str){word.ptr + 1, (size_t)(end - word.ptr) - 1};
        port = (struct wp_str){end + 1, word.len - network.len - 2};
    } else if (colon != NULL && memchr(word.ptr, ':', word.len) == colon) {
        network.len = (size_t)(colon - word.ptr);
        port = (struct wp_str){colon, word.len - network.len};
    }
    if (port.len > 0) {
        if (port.ptr[0] != ':' || port.len > 6 ||
            !wp_str_to_u64((struct wp_str){port.ptr + 1, port.len - 1},
                           &value) ||
            value == 0 || value > UINT16_MAX) {
            return false;
        }
        rule.port = (uint16_t)value;
    }
    return wp_network_parse(network, &rule.network, NULL) == WP_OK &&
           wp_egress_policy_add(policy, rule, (struct wp_str){NULL, 0});
}

static bool
add_key(struct wp_egress_policy *policy, struct wp_str word)
{
    const struct wp_egress_rule rule = {.kind = WP_EGRESS_KEY};
    struct wp_str name = {word.ptr + strlen(KEY_PREFIX),
                          word.len - strlen(KEY_PREFIX)};

    return wp_str_is_dns_name(name, KEY_NAME_MAX) &&
           wp_egress_policy_add(policy, rule, name);
}

/* Presets have no presets in them.
 * NOLINTBEGIN(misc-no-recursion) */
static enum wp_status
add_packages(struct wp_egress_policy *policy, struct wp_str packages,
             struct wp_err *err)
{
    const struct wp_egress_rule rule = {.kind = WP_EGRESS_PACKAGES};

    if (packages.ptr != NULL) {
        return wp_egress_policy_add_rules(policy, packages, packages, true,
                                          err);
    }
    return wp_egress_policy_add(policy, rule, (struct wp_str){NULL, 0})
               ? WP_OK
               : wp_err_set(err, WP_INVALID_ARGUMENT, "too many rules");
}

enum wp_status
wp_egress_policy_add_rules(struct wp_egress_policy *policy, struct wp_str text,
                           struct wp_str packages, bool in_preset,
                           struct wp_err *err)
{
    struct wp_str word;

    while ((word = wp_egress_next_word(&text)).len > 0) {
        char shown[WP_STR_SHOWN_MAX];
        bool is_key = wp_str_starts_with(word, WP_STR(KEY_PREFIX));

        if (policy->rules_len == WP_EGRESS_RULES_MAX) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "at most %d rules were expected",
                              WP_EGRESS_RULES_MAX);
        }
        if (!in_preset && wp_str_is(word, WP_EGRESS_PRESET)) {
            enum wp_status status = add_packages(policy, packages, err);

            if (status != WP_OK) {
                return status;
            }
            continue;
        }
        if (is_key ? in_preset || !add_key(policy, word)
                   : !add_network(policy, word) && !add_host(policy, word)) {
            return wp_err_set(
                err, WP_INVALID_ARGUMENT,
                "'%s': expected a name, *.NAME, an address or a network, "
                "perhaps "
                "with :PORT%s",
                wp_str_shown(word, shown),
                in_preset ? "" : ", or " WP_EGRESS_PRESET ", or key:NAME");
        }
    }
    return WP_OK;
}
/* NOLINTEND(misc-no-recursion) */

enum wp_status
wp_egress_policy_parse(struct wp_str text, struct wp_str packages,
                       struct wp_egress_policy *out, struct wp_err *err)
{
    struct wp_str rest = text;
    struct wp_str mode = wp_egress_next_word(&rest);
    enum wp_status status;

    memset(out, 0, sizeof *out);
    if (text.len > WP_EGRESS_TEXT_MAX || packages.len > WP_EGRESS_PRESET_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "at most %d characters were expected",
                          WP_EGRESS_TEXT_MAX);
    }
    out->mode = WP_EGRESS_ALLOWLIST;
    if (wp_str_is(mode, WP_EGRESS_NONE_TEXT)) {
        out->mode = WP_EGRESS_NONE;
        return wp_egress_next_word(&rest).len == 0
                   ? WP_OK
                   : wp_err_set(err, WP_INVALID_ARGUMENT,
                                "no rule was expected behind 'none'");
    }
    if (wp_str_is(mode, "open")) {
        out->mode = WP_EGRESS_OPEN;
    } else if (!wp_str_is(mode, "allowlist")) {
        rest = text;
    }
    status = wp_egress_policy_add_rules(out, rest, packages, false, err);
    if (status == WP_OK && out->mode == WP_EGRESS_ALLOWLIST &&
        out->rules_len == 0 && packages.ptr == NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "none, open or a list of rules was expected");
    }
    return status;
}

enum wp_status
wp_egress_preset_parse(struct wp_str text, struct wp_egress_policy *out,
                       struct wp_err *err)
{
    memset(out, 0, sizeof *out);
    out->mode = WP_EGRESS_ALLOWLIST;
    return wp_egress_policy_add_rules(out, text, text, true, err);
}

/* ------------------------------------------------------------- the verdict */

static bool
port_fits(uint16_t rule_port, uint16_t port, bool secure)
{
    if (rule_port != 0) {
        return rule_port == port;
    }
    return port == (secure ? WP_EGRESS_TLS_PORT : WP_EGRESS_HTTP_PORT);
}

static bool
is_below(struct wp_str name, struct wp_str domain)
{
    return name.len > domain.len + 1 &&
           name.ptr[name.len - domain.len - 1] == '.' &&
           memcmp(name.ptr + name.len - domain.len, domain.ptr, domain.len) ==
               0;
}

static bool
rule_names(const struct wp_egress_policy *policy,
           const struct wp_egress_rule *rule, const struct wp_host *host)
{
    struct wp_str name = wp_str_from(host->name);
    struct wp_str ruled = wp_egress_rule_name(policy, rule);

    switch (rule->kind) {
    case WP_EGRESS_NAME:
        return !host->is_address && wp_str_eq(name, ruled);
    case WP_EGRESS_BELOW:
        return !host->is_address && is_below(name, ruled);
    case WP_EGRESS_NETWORK:
        return host->is_address &&
               wp_network_has(&rule->network,
                              (const struct sockaddr *)&host->address);
    case WP_EGRESS_KEY:
    case WP_EGRESS_PACKAGES:
    default:
        return false;
    }
}

bool
wp_egress_allows_host(const struct wp_egress_policy *policy,
                      const struct wp_host *host, uint16_t port, bool secure)
{
    if (policy->mode == WP_EGRESS_NONE) {
        return false;
    }
    for (uint32_t i = 0; i < policy->rules_len; i++) {
        if (port_fits(policy->rules[i].port, port, secure) &&
            rule_names(policy, &policy->rules[i], host)) {
            return true;
        }
    }
    return policy->mode == WP_EGRESS_OPEN && port_fits(0, port, secure) &&
           (!host->is_address ||
            wp_reach_of((const struct sockaddr *)&host->address) ==
                WP_REACH_PUBLIC);
}

bool
wp_egress_allows_address(const struct wp_egress_policy *policy,
                         const struct sockaddr *address, uint16_t port,
                         bool secure)
{
    if (policy->mode == WP_EGRESS_NONE) {
        return false;
    }
    for (uint32_t i = 0; i < policy->rules_len; i++) {
        const struct wp_egress_rule *rule = &policy->rules[i];

        if (rule->kind == WP_EGRESS_NETWORK &&
            port_fits(rule->port, port, secure) &&
            wp_network_has(&rule->network, address)) {
            return true;
        }
    }
    return wp_reach_of(address) == WP_REACH_PUBLIC;
}

bool
wp_egress_allows_key(const struct wp_egress_policy *policy, struct wp_str name)
{
    for (uint32_t i = 0; i < policy->rules_len; i++) {
        if (policy->rules[i].kind == WP_EGRESS_KEY &&
            wp_str_eq(wp_egress_rule_name(policy, &policy->rules[i]), name)) {
            return true;
        }
    }
    return false;
}
