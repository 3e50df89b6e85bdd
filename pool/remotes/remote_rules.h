/* pool/remotes/remote_rules.h - which repositories claims may bring.
 *
 * Rules between spaces or commas, each of the form
 *
 *   [https://|http://]HOST[:PORT][/PATH]
 *
 * HOST is a name, "*.NAME" for all names below it, or an address. PATH is a
 * repository, or a folder of some; '/' at its end, with '*' or not, changes
 * nothing, nor does ".git" at the end of a repository's. No remote is allowed
 * without a rule.
 *
 *                       a rule that allows        a rule that denies
 *   without a scheme    https only                both
 *   without a port      the scheme's own only     any
 *   letters of PATH     as they are               capitals or not, for many
 *                                                 servers tell no difference
 *
 * Pure; any thread. */
#ifndef WP_POOL_REMOTES_REMOTE_RULES_H
#define WP_POOL_REMOTES_REMOTE_RULES_H

#include "pool/base/status.h"
#include "pool/remotes/remote.h"

enum {
    WP_REMOTE_RULES_MAX = 64,
};

struct wp_remote_rule {
    bool tls;   /* https:// is allowed by it. */
    bool plain; /* http:// */
    bool below; /* "*.NAME" */
    bool denies;
    uint16_t port; /* 0: see above. */
    struct wp_host host;
    struct wp_str path; /* In the text; empty: all. */
};

struct wp_remote_rules {
    uint32_t n;
    struct wp_remote_rule rule[WP_REMOTE_RULES_MAX];
};

/* Appends the rules of text, which outlives out. INVALID_ARGUMENT: err names
 * the rule and what was expected. */
WP_MUST_CHECK enum wp_status wp_remote_rules_add(struct wp_remote_rules *out,
                                                 struct wp_str text,
                                                 bool denies,
                                                 struct wp_err *err);
/* Some rule denies it. */
WP_MUST_CHECK bool wp_remote_rules_deny(const struct wp_remote_rules *rules,
                                        const struct wp_remote *remote);
/* Some rule allows it, and none denies it. */
WP_MUST_CHECK bool wp_remote_rules_allow(const struct wp_remote_rules *rules,
                                         const struct wp_remote *remote);

#endif
