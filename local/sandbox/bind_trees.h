/* local/sandbox/bind_trees.h - the repositories of one binding, on their way
 * from the fetcher to a sandbox's init. Private to the backend. */
#ifndef WP_LOCAL_SANDBOX_BIND_TREES_H
#define WP_LOCAL_SANDBOX_BIND_TREES_H

#include "local/sandbox/fetcher.h"
#include "local/trust/trust.h"
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
/* May a sandbox have all that was fetched? FAILED_PRECONDITION: err names one
 * that it may not have. The fetcher's thread; it may wait for the disk. */
WP_MUST_CHECK enum wp_status
wp_bind_trees_trust(const struct wp_bind_trees *trees, struct wp_trust *trust,
                    struct wp_err *err);
/* Hands all of them to the init behind a control channel. False: it does not
 * read. */
WP_MUST_CHECK bool wp_bind_trees_send(const struct wp_bind_trees *trees,
                                      int control_fd, uint64_t fingerprint);

#endif
