/* k8s/controllers/implicit/implicit.h - SandboxWarmPools that nobody made.
 *
 * Clients of v1alpha1 name a template and make no pool. Where the setting
 * implicit_pool, or the template's annotation of that name, allows it, a
 * template gets a pool of its own behind the first claim that found none: so
 * that one starts cold, and later ones are warm. The pool is named after the
 * template, has a label and the template for its owner, and is an object as any
 * other. It goes when no claim has named the template for a while, when
 * somebody makes a pool of the template, and when it is allowed no more. When a
 * claim came last is kept in memory only: whoever leads next waits anew. Loop
 * thread only. */
#ifndef WP_K8S_CONTROLLERS_IMPLICIT_IMPLICIT_H
#define WP_K8S_CONTROLLERS_IMPLICIT_IMPLICIT_H

#include "k8s/controllers/shared.h"

struct wp_implicit_pools; /* Opaque. */

/* Listens to the stores of pools and templates. Paused. NULL when memory lacks.
 * parts is borrowed. */
struct wp_implicit_pools *wp_implicit_pools_create(struct wp_parts *parts);
/* NULL is fine. */
void wp_implicit_pools_destroy(struct wp_implicit_pools *pools);
/* Looks at every implicit pool there is, as one that was used just now; before
 * the pause ends. */
void wp_implicit_pools_look(struct wp_implicit_pools *pools);
void wp_implicit_pools_pause(struct wp_implicit_pools *pools, bool paused);

/* A claim that any pool of this template would do for has got a sandbox. */
void wp_implicit_pools_use(struct wp_implicit_pools *pools, const char *ns,
                           const char *templ);

/* The name of a template's implicit pool: shadow-pool-TEMPLATE, as converted
 * claims have it. Where that is too long for a pool, the template's name is
 * cut, and its hash follows. */
void wp_implicit_pool_name(const char *templ, char out[WP_POOL_NAME_MAX + 1]);

#endif
