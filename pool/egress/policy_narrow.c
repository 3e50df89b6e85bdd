/* What two policies both allow. Each rule of the result is one of theirs that
 * the other one contains, perhaps with fewer ports; so it allows nothing that
 * one of them refuses. Where the part that two rules share is no rule, it is
 * left out. */
#include "pool/egress/policy.h"

/* Is all that `in` names named by `out`? Ports apart. */
static bool
rule_within(const struct wp_egress_policy *in_policy,
            const struct wp_egress_rule *in,
            const struct wp_egress_policy *out_policy,
            const struct wp_egress_rule *out)
{
    struct wp_str inner = wp_egress_rule_name(in_policy, in);
    struct wp_str outer = wp_egress_rule_name(out_policy, out);

    if (in->kind == WP_EGRESS_NETWORK || out->kind == WP_EGRESS_NETWORK) {
        return in->kind == out->kind &&
               wp_network_within(&in->network, &out->network);
    }
    if (in->kind == out->kind && wp_str_eq(inner, outer)) {
        return true;
    }
    return out->kind == WP_EGRESS_BELOW &&
           (in->kind == WP_EGRESS_NAME || in->kind == WP_EGRESS_BELOW) &&
           inner.len > outer.len + 1 &&
           inner.ptr[inner.len - outer.len - 1] == '.' &&
           wp_str_eq(
               (struct wp_str){inner.ptr + inner.len - outer.len, outer.len},
               outer);
}

/* The port that both have; false: none. 0, the standard ports, meets 80 and 443
 * in one way of asking only, which no rule can say. */
static bool
shared_port(uint16_t a, uint16_t b, uint16_t *out)
{
    *out = a;
    return a == b;
}

/* Does an open policy, apart from its rules, allow all that the rule names? */
static bool
open_has(const struct wp_egress_policy *open, const struct wp_egress_rule *rule)
{
    if (open->mode != WP_EGRESS_OPEN || rule->port != 0) {
        return false;
    }
    switch (rule->kind) {
    case WP_EGRESS_NAME:
    case WP_EGRESS_BELOW:
    case WP_EGRESS_PACKAGES:
        return true;
    case WP_EGRESS_NETWORK:
        return wp_reach_all_public(&rule->network);
    case WP_EGRESS_KEY:
    default:
        return false;
    }
}

/* Adds the rules of a that b contains; false: too many. */
static bool
add_within(const struct wp_egress_policy *a, const struct wp_egress_policy *b,
           struct wp_egress_policy *out)
{
    for (uint32_t i = 0; i < a->rules_len; i++) {
        struct wp_egress_rule rule = a->rules[i];
        struct wp_str name = wp_egress_rule_name(a, &rule);

        if (open_has(b, &rule) && !wp_egress_policy_add(out, rule, name)) {
            return false;
        }
        for (uint32_t k = 0; k < b->rules_len; k++) {
            uint16_t port;

            if (!rule_within(a, &a->rules[i], b, &b->rules[k]) ||
                !shared_port(a->rules[i].port, b->rules[k].port, &port)) {
                continue;
            }
            rule.port = port;
            if (!wp_egress_policy_add(out, rule, name)) {
                return false;
            }
        }
    }
    return true;
}

enum wp_status
wp_egress_policy_narrow(const struct wp_egress_policy *a,
                        const struct wp_egress_policy *b,
                        struct wp_egress_policy *out, struct wp_err *err)
{
    memset(out, 0, sizeof *out);
    /* The modes are in order: nothing, what is listed, all. */
    out->mode = a->mode < b->mode ? a->mode : b->mode;
    if (out->mode == WP_EGRESS_NONE) {
        return WP_OK;
    }
    return add_within(a, b, out) && add_within(b, a, out)
               ? WP_OK
               : wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                            "the narrowed egress policy would have more than "
                            "%d rules",
                            WP_EGRESS_RULES_MAX);
}

/* ------------------------------------------------------------- in words */

/* Is each rule of `in`, an allowlist, one that `out` allows all of? */
static bool
rules_within(const struct wp_egress_policy *in,
             const struct wp_egress_policy *out)
{
    for (uint32_t i = 0; i < in->rules_len; i++) {
        bool within = open_has(out, &in->rules[i]);
        uint16_t port;

        for (uint32_t k = 0; k < out->rules_len && !within; k++) {
            within = rule_within(in, &in->rules[i], out, &out->rules[k]) &&
                     shared_port(in->rules[i].port, out->rules[k].port, &port);
        }
        if (!within) {
            return false;
        }
    }
    return true;
}

/* The first word of text that asks for more than outer allows; empty: none.
 * text, in all, is the policy `whole`, which is not `none`. */
static struct wp_str
word_beyond(struct wp_str text, const struct wp_egress_policy *whole,
            struct wp_str packages, const struct wp_egress_policy *outer)
{
    struct wp_egress_policy one;
    struct wp_str rest = text;
    struct wp_str word = wp_egress_next_word(&rest);

    if (outer->mode == WP_EGRESS_NONE ||
        (whole->mode == WP_EGRESS_OPEN && outer->mode != WP_EGRESS_OPEN)) {
        return word;
    }
    if (whole->mode != WP_EGRESS_OPEN && !wp_str_is(word, "allowlist")) {
        rest = text;
    }
    while ((word = wp_egress_next_word(&rest)).len > 0) {
        one.rules_len = 0;
        one.names_len = 0;
        /* All of the text was read before, so each word can be. */
        if (wp_egress_policy_add_rules(&one, word, packages, false, NULL) !=
                WP_OK ||
            !rules_within(&one, outer)) {
            return word;
        }
    }
    return word;
}

enum wp_status
wp_egress_policy_parse_narrowed(struct wp_str text, struct wp_str by,
                                struct wp_str packages,
                                struct wp_egress_policy *out,
                                struct wp_err *err)
{
    struct wp_egress_policy outer;
    struct wp_egress_policy inner;
    struct wp_str beyond;
    char shown[2][WP_STR_SHOWN_MAX];
    enum wp_status status;

    if (by.len == 0) {
        return wp_egress_policy_parse(text, packages, out, err);
    }
    status = wp_egress_policy_parse(text.len > 0 ? text
                                                 : WP_STR(WP_EGRESS_NONE_TEXT),
                                    packages, &outer, err);
    if (status == WP_OK) {
        status = wp_egress_policy_parse(by, packages, &inner, err);
    }
    if (status != WP_OK) {
        return status;
    }
    beyond = inner.mode != WP_EGRESS_NONE
                 ? word_beyond(by, &inner, packages, &outer)
                 : WP_STR("");
    if (beyond.len > 0) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "'%s' is not within the pool's policy, '%s'",
                          wp_str_shown(beyond, shown[0]),
                          text.len > 0 ? wp_str_shown(text, shown[1])
                                       : WP_EGRESS_NONE_TEXT);
    }
    return wp_egress_policy_narrow(&outer, &inner, out, err);
}
