/* pool/egress/policy.h - what a sandbox may reach.
 *
 * In text, as the annotation pool.warmpool.io/egress has it:
 *
 *   none                                    nothing
 *   open [RULE ...]                         all names and public addresses
 *   [allowlist] RULE ...                    what a rule names
 *
 * with rules between spaces or commas:
 *
 *   example.org        this name          *.example.org   all names below it
 *   10.1.0.0/16        these addresses    [fd00::/8]      in brackets: IPv6
 *   packages           the preset: what the installation's setting names
 *   key:NAME           the installation's key of that name may be used
 *
 * A rule counts for the standard ports, 443 with CONNECT and 80 without; with
 * ":PORT" behind it, for that port only. A name is not enough to reach an
 * address that is not public: a rule must name the address, too.
 *
 * Pure; any thread. */
#ifndef WP_POOL_EGRESS_POLICY_H
#define WP_POOL_EGRESS_POLICY_H

#include "pool/base/status.h"
#include "pool/egress/host.h"
#include "pool/egress/reach.h"
#include "pool/limits.h"

enum {
    WP_EGRESS_PRESET_MAX = 4095,
    WP_EGRESS_RULES_MAX = 128,
    WP_EGRESS_NAMES_MAX = WP_EGRESS_TEXT_MAX + WP_EGRESS_PRESET_MAX + 1,
    WP_EGRESS_HTTP_PORT = 80,
    WP_EGRESS_TLS_PORT = 443,
};

#define WP_EGRESS_PRESET "packages"
#define WP_EGRESS_NONE_TEXT "none"

enum wp_egress_mode {
    WP_EGRESS_NONE,
    WP_EGRESS_ALLOWLIST,
    WP_EGRESS_OPEN,
};

enum wp_egress_rule_kind {
    WP_EGRESS_NAME,
    WP_EGRESS_BELOW, /* "*.NAME" */
    WP_EGRESS_NETWORK,
    WP_EGRESS_KEY,
    WP_EGRESS_PACKAGES, /* The preset, where it is not known. */
};

struct wp_egress_rule {
    enum wp_egress_rule_kind kind;
    uint16_t port; /* 0: the standard ports. */
    uint16_t at;   /* Of the name in the policy's names. */
    uint16_t len;
    struct wp_network network;
};

struct wp_egress_policy {
    enum wp_egress_mode mode;
    uint32_t rules_len;
    uint32_t names_len;
    struct wp_egress_rule rules[WP_EGRESS_RULES_MAX];
    char names[WP_EGRESS_NAMES_MAX];
};

/* packages: the preset's rules in the same form, names and addresses only; ptr
 * NULL: not known here, and nothing is reached by it. INVALID_ARGUMENT: err
 * names the rule and what was expected. */
WP_MUST_CHECK enum wp_status
wp_egress_policy_parse(struct wp_str text, struct wp_str packages,
                       struct wp_egress_policy *out, struct wp_err *err);

/* The same for the text of a preset: rules, with no mode before and neither
 * preset nor key among them. */
WP_MUST_CHECK enum wp_status
wp_egress_preset_parse(struct wp_str text, struct wp_egress_policy *out,
                       struct wp_err *err);

/* May it ask for host at port? secure: by CONNECT. An address that is not
 * public must be named by a rule. What a name's addresses are is asked
 * below. */
WP_MUST_CHECK bool wp_egress_allows_host(const struct wp_egress_policy *policy,
                                         const struct wp_host *host,
                                         uint16_t port, bool secure);
/* The host was allowed, and has this address: may it be connected to? */
WP_MUST_CHECK bool
wp_egress_allows_address(const struct wp_egress_policy *policy,
                         const struct sockaddr *address, uint16_t port,
                         bool secure);
WP_MUST_CHECK bool wp_egress_allows_key(const struct wp_egress_policy *policy,
                                        struct wp_str name);

/* out: what both allow, or less where no rule can say it. It never allows what
 * one of them refuses. out may be neither of them. RESOURCE_EXHAUSTED: it would
 * have too many rules. */
WP_MUST_CHECK enum wp_status
wp_egress_policy_narrow(const struct wp_egress_policy *a,
                        const struct wp_egress_policy *b,
                        struct wp_egress_policy *out, struct wp_err *err);

/* What a claim makes of its pool's policy: text, narrowed by `by`; "": by
 * nothing. packages is known. INVALID_ARGUMENT: one of them is no policy.
 * FAILED_PRECONDITION: `by` asks for more than text allows; err names what, and
 * text. RESOURCE_EXHAUSTED: as of narrow. */
WP_MUST_CHECK enum wp_status wp_egress_policy_parse_narrowed(
    struct wp_str text, struct wp_str by, struct wp_str packages,
    struct wp_egress_policy *out, struct wp_err *err);

/* For policy*.c only: the next word of *text, which is moved behind it; empty
 * at the end. */
struct wp_str wp_egress_next_word(struct wp_str *text);
/* For policy*.c only: appends the rules of text; as wp_egress_policy_parse. */
WP_MUST_CHECK enum wp_status
wp_egress_policy_add_rules(struct wp_egress_policy *policy, struct wp_str text,
                           struct wp_str packages, bool in_preset,
                           struct wp_err *err);
/* For policy*.c only: appends the rule with that name, once; false: full. */
WP_MUST_CHECK bool wp_egress_policy_add(struct wp_egress_policy *policy,
                                        struct wp_egress_rule rule,
                                        struct wp_str name);
/* The name of a rule of policy. */
static inline struct wp_str
wp_egress_rule_name(const struct wp_egress_policy *policy,
                    const struct wp_egress_rule *rule)
{
    return (struct wp_str){policy->names + rule->at, rule->len};
}

#endif
