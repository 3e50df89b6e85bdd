/* allocator/ctl/sources.h - a policy of sources: which repositories a claim may
 * bring, and what its sandbox may reach.
 *
 * A JSON object, in files that are called sources.json; all members may be
 * absent, and others are passed over:
 *
 *   version                             "1" or "1.N"
 *   allowed_remotes, denied_remotes     rules of pool/remotes/remote_rules.h,
 *                                       as patterns of URLs. What is denied is
 *                                       not allowed. Without the first all
 *                                       others are.
 *   allowed_domains, allowed_registries hosts; ".NAME" is NAME and all below
 *   resource_limits.max_repos           how many repositories
 *
 * It narrows what the daemon allows; it opens nothing. Any thread. */
#ifndef WP_ALLOCATOR_CTL_SOURCES_H
#define WP_ALLOCATOR_CTL_SOURCES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/limits.h"
#include "pool/remotes/remote_rules.h"

struct wp_sources {
    struct wp_remote_rules rules;
    bool allows_all; /* Unless it is denied. */
    uint32_t repositories_max;
    /* A policy of pool/egress/policy.h; "": it says nothing of that. */
    char egress[WP_EGRESS_TEXT_MAX + 1];
    json_t *whole; /* What the rules point into. */
};

/* INVALID_ARGUMENT: err names the member and what was expected. Ended by fini
 * in either case. */
WP_MUST_CHECK enum wp_status wp_sources_parse(struct wp_str text,
                                              struct wp_sources *out,
                                              struct wp_err *err);
void wp_sources_fini(struct wp_sources *sources);

/* May a claim that brings n repositories bring this one? Else err says why
 * not. */
WP_MUST_CHECK enum wp_status wp_sources_allow(const struct wp_sources *sources,
                                              struct wp_str url, uint32_t n,
                                              struct wp_err *err);

#endif
