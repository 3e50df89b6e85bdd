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
