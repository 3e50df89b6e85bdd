/* k8s/bind/repositories.h - repositories that claims bring: which may be, and
 * who fetches them. */
#ifndef WP_K8S_BIND_REPOSITORIES_H
#define WP_K8S_BIND_REPOSITORIES_H

#include <event2/event.h>

#include "k8s/config.h"
#include "pool/base/status.h"
#include "proto/checkout/fetcher.h"
#include "proto/checkout/trees.h"

struct wp_repositories; /* Opaque. */

/* NULL: err says which of the rules is none, or that memory lacks. */
struct wp_repositories *
wp_repositories_create(const struct wp_cluster_git *config,
                       struct event_base *base, struct wp_err *err);
/* NULL is fine. Nothing fetches any more. */
void wp_repositories_destroy(struct wp_repositories *self);

/* May these be brought? FAILED_PRECONDITION: err says which may not. Any
 * thread. */
WP_MUST_CHECK enum wp_status
wp_repositories_check(const struct wp_repositories *self,
                      const struct wp_binding *binding, struct wp_err *err);
/* The loop's thread. */
struct wp_fetcher *wp_repositories_fetcher(struct wp_repositories *self);

#endif
