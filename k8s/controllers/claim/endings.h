/* k8s/controllers/claim/endings.h - Sandboxes that claims leave behind, and
 * that are to go: tried until they do. Private to this room. Loop thread only.
 */
#ifndef WP_K8S_CONTROLLERS_CLAIM_ENDINGS_H
#define WP_K8S_CONTROLLERS_CLAIM_ENDINGS_H

#include "k8s/controllers/claim/metrics.h"
#include "k8s/controllers/shared.h"

struct wp_claim_endings; /* Opaque. */

/* metrics is borrowed. NULL when memory lacks. */
struct wp_claim_endings *
wp_claim_endings_create(struct wp_parts *parts,
                        struct wp_claim_metrics *metrics);
/* After the API client has ended all calls. NULL is fine. */
void wp_claim_endings_destroy(struct wp_claim_endings *endings);
/* The Sandbox goes while it is the same object with the same controller. Known
 * already: once is enough. This replica leads; what it had to end when it does
 * no more is its successor's to find. */
void wp_claim_endings_add(struct wp_claim_endings *endings,
                          const struct wp_object *sandbox);
/* Begins nothing while paused, as from the beginning; or goes on. */
void wp_claim_endings_pause(struct wp_claim_endings *endings, bool paused);

#endif
