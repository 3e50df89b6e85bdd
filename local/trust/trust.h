/* local/trust/trust.h - trust on first use: may a sandbox have this checkout?
 *
 * Text in a repository tells an agent what to do. The first time that a tenant
 * brings a repository, its instruction files are recorded; later they have to
 * be the same, whatever the ref. Judged before anything of the checkout is in a
 * sandbox. One thread at a time; it may wait for the disk. */
#ifndef WP_LOCAL_TRUST_TRUST_H
#define WP_LOCAL_TRUST_TRUST_H

#include "local/trust/store.h"
#include "pool/remotes/trust_mode.h"
#include "proto/checkout/trees.h"

struct wp_trust {
    enum wp_trust_mode mode;
    struct wp_trust_store store;
    struct wp_trust_record files; /* Whose paths are looked at. */
};

/* files: a list of paths; folder: where records are. INVALID_ARGUMENT,
 * UNAVAILABLE: err says why. */
WP_MUST_CHECK enum wp_status
wp_trust_init(struct wp_trust *trust, enum wp_trust_mode mode,
              const char *files, const char *folder, struct wp_err *err);
/* Of a zeroed one, too. */
void wp_trust_fini(struct wp_trust *trust);

/* tree: a checkout that was fetched. A listed path is looked at from the top of
 * the repository, and from the workspace's. FAILED_PRECONDITION: it may not be
 * had, and err says why. */
WP_MUST_CHECK enum wp_status wp_trust_check(struct wp_trust *trust,
                                            const char *tenant,
                                            const struct wp_bind_tree *tree,
                                            struct wp_err *err);

#endif
