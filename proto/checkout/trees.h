/* proto/checkout/trees.h - the repositories of one binding, on their way from
 * the fetcher to a sandbox. */
#ifndef WP_PROTO_CHECKOUT_TREES_H
#define WP_PROTO_CHECKOUT_TREES_H

#include "proto/checkout/fetcher.h"
#include "proto/checkout/trust_look.h"
#include "pool/binding.h"
#include "pool/remotes/remote_rules.h"

struct wp_bind_trees;

/* May they be brought? FAILED_PRECONDITION: err names one that may not. Any
 * thread. */
WP_MUST_CHECK enum wp_status
wp_bind_trees_check(const struct wp_remote_rules *rules,
                    const struct wp_binding *binding, struct wp_err *err);

/* A copy of what binding, which was checked, says of them; NULL: memory lacks.
 * Any thread. */
WP_MUST_CHECK struct wp_bind_trees *
wp_bind_trees_make(const struct wp_binding *binding, struct wp_str tenant);
/* Ends what is under way for them. NULL is fine. As the fetcher's thread, if
 * they were fetched. */
void wp_bind_trees_drop(struct wp_bind_trees *trees);

/* Has all of them fetched. done comes once, perhaps within this call: WP_OK, or
 * which could not be had, and why. Afterwards, and in it, they may be dropped.
 * The fetcher's thread. */
void wp_bind_trees_fetch(struct wp_bind_trees *trees,
                         struct wp_fetcher *fetcher,
                         void (*done)(void *ctx, enum wp_status status,
                                      const char *reason),
                         void *ctx);
/* What was fetched, by its number from 0; NULL: there are no more. Valid until
 * they are dropped. */
struct wp_bind_tree {
    int fd;        /* Of its image, to be read; the trees'. */
    uint64_t size; /* Of the image, when it came. */
    const char *url;
    const char *dir;               /* Below the workspace; "": the workspace. */
    struct wp_trust_covers covers; /* By the others of the binding. */
};
const struct wp_bind_tree *wp_bind_trees_at(const struct wp_bind_trees *trees,
                                            uint32_t i);
/* Whose they are. */
const char *wp_bind_trees_tenant(const struct wp_bind_trees *trees);

#endif
