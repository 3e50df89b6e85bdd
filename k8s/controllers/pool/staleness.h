/* k8s/controllers/pool/staleness.h - was a sandbox made from the template as it
 * is now?
 *
 * A sandbox of our own says by a label from what it was made; one of another
 * controller's making carries another hash there, and is compared in full. What
 * that found is remembered for the label's value, so that a pool of thousands
 * costs one comparison. Loop thread only. */
#ifndef WP_K8S_CONTROLLERS_POOL_STALENESS_H
#define WP_K8S_CONTROLLERS_POOL_STALENESS_H

#include "k8s/objects/object.h"
#include "pool/annotations/tier.h"

struct wp_staleness; /* Opaque; of fixed size. */

/* installed: the tier of templates that name none. NULL when memory lacks. */
struct wp_staleness *wp_staleness_create(enum wp_tier installed);
void wp_staleness_destroy(struct wp_staleness *staleness); /* NULL is fine. */

/* Would the template make another sandbox today? Its labels, annotations and
 * policies do not matter, nor do those of pod or volume claims. A sandbox that
 * nobody controls is always compared in full: its labels are not trusted. */
WP_MUST_CHECK bool wp_sandbox_is_stale(struct wp_staleness *staleness,
                                       const struct wp_object *sandbox,
                                       const struct wp_object *template_);

/* Full comparisons so far. */
uint64_t wp_staleness_compared(const struct wp_staleness *staleness);

#endif
