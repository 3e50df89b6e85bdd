/* k8s/bind/trust.h - is a checkout as it was when its tenant first brought it?
 *
 * For repositories.c, which says where records are. A record that cannot be
 * read or written counts as a difference. Loop thread. */
#ifndef WP_K8S_BIND_TRUST_H
#define WP_K8S_BIND_TRUST_H

#include "k8s/api/api.h"
#include "pool/remotes/trust_mode.h"
#include "pool/remotes/trust_record.h"
#include "proto/checkout/trees.h"

struct wp_trust_judge {
    enum wp_trust_mode mode;
    struct wp_api *api; /* Borrowed, as ns is. */
    const char *ns;
    struct wp_trust_record files; /* Whose paths are looked at. */
};

struct wp_trust_case; /* Opaque. */

/* files: a list of paths. INVALID_ARGUMENT: err says what was expected. */
WP_MUST_CHECK enum wp_status
wp_trust_judge_init(struct wp_trust_judge *judge, enum wp_trust_mode mode,
                    const char *files, struct wp_api *api, const char *ns,
                    struct wp_err *err);
/* False: nothing is judged. */
bool wp_trust_judge_asks(const struct wp_trust_judge *judge);

/* done comes once, never from within this call. WP_OK with a reason: it is not
 * as first trusted, which is only reported. CANCELLED: the API client ends.
 * FAILED_PRECONDITION: a sandbox may not have it. NULL: memory lacks. */
struct wp_trust_case *wp_trust_judge_begin(
    const struct wp_trust_judge *judge, const char *tenant,
    const struct wp_bind_tree *tree,
    void (*done)(void *ctx, enum wp_status status, const char *reason),
    void *ctx);
/* done is not called any more. NULL is fine. */
void wp_trust_judge_cancel(struct wp_trust_case *judged);

#endif
