/* pool/annotations/tier.h - how strong the walls of a template's sandboxes are.
 *
 * The annotation WP_TIER_KEY of a SandboxTemplate names a tier, in a cluster as
 * on one machine. Each tier has what the one before has, but for confinement,
 * which is not for gVisor. On one machine every sandbox has what T2 asks for,
 * whatever its template says. deploy/man/warmpoold.8.md has the table. Pure. */
#ifndef WP_POOL_ANNOTATIONS_TIER_H
#define WP_POOL_ANNOTATIONS_TIER_H

#include <stdbool.h>

#include "pool/base/str.h"

#define WP_TIER_KEY "template.warmpool.io/tier"

enum wp_tier {
    WP_TIER_T0,
    WP_TIER_T1,
    WP_TIER_T2,
    WP_TIER_T3,
    WP_TIER_T4,
    WP_TIERS,
};

struct wp_tier_info {
    const char *name;          /* "T1" */
    bool hardened;             /* No root, no way to more rights, no writes. */
    bool confined;             /* By Landlock. */
    bool proxied;              /* The world is behind the egress proxy. */
    const char *runtime_class; /* NULL: any. */
};

/* Static storage. */
const struct wp_tier_info *wp_tier_info(enum wp_tier tier);
/* False: text is none of their names. */
WP_MUST_CHECK bool wp_tier_parse(struct wp_str text, enum wp_tier *out);

#endif
