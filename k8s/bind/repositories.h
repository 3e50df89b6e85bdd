/* k8s/bind/repositories.h - repositories that claims bring: which may be, who
 * fetches them, and whether they are as they were first trusted.
 *
 * What is trusted is recorded in ConfigMaps of the daemon's own namespace, one
 * for each tenant and URL: data.record, as pool/remotes/trust_record.h has it.
 * Who has looked at a change deletes the ConfigMap. Loop thread, but for
 * wp_repositories_check. */
#ifndef WP_K8S_BIND_REPOSITORIES_H
#define WP_K8S_BIND_REPOSITORIES_H

#include <event2/event.h>

#include "k8s/api/api.h"
#include "k8s/config.h"
#include "pool/base/status.h"
#include "proto/checkout/trees.h"

struct wp_repositories; /* Opaque. */

struct wp_repositories_config {
    const struct wp_cluster_git *git;
    struct event_base *base;
    struct wp_api *api;
    const char *ns; /* Of the records. */
};

/* All of it is borrowed until destroy. NULL: err says which of the rules or
 * paths is none, or that memory lacks. */
struct wp_repositories *
wp_repositories_create(const struct wp_repositories_config *config,
                       struct wp_err *err);
/* After the API client has ended its calls. NULL is fine. */
void wp_repositories_destroy(struct wp_repositories *self);

/* May these be brought? FAILED_PRECONDITION: err says which may not. Any
 * thread. */
WP_MUST_CHECK enum wp_status
wp_repositories_check(const struct wp_repositories *self,
                      const struct wp_binding *binding, struct wp_err *err);

/* Of one claim: fetched, and judged. */
struct wp_fetching; /* Opaque. */

/* WP_OK: the trees are here; reason, if it is not empty, says what is not as
 * first trusted, where that is only reported. CANCELLED: the API client ends.
 * Else reason says what cannot be had, or may not be. */
typedef void wp_fetching_done(void *ctx, enum wp_status status,
                              const char *reason);

/* The trees are borrowed. NULL: memory lacks. */
struct wp_fetching *wp_fetching_create(struct wp_repositories *self,
                                       struct wp_bind_trees *trees,
                                       wp_fetching_done *done, void *ctx);
/* Begins; done comes once, perhaps within this call, and it is gone then. */
void wp_fetching_go(struct wp_fetching *fetching);
/* Before done was called: it will not be. The trees are to be dropped then, for
 * they may be on their way. */
void wp_fetching_cancel(struct wp_fetching *fetching);

#endif
