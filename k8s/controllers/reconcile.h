/* k8s/controllers/reconcile.h - one reconcile, and the API calls that it has
 * under way.
 *
 * For controllers whose reconciles look, decide, and send all they want to
 * change at once: the reconcile ends the work when the last call has been
 * answered. What a write answered is learned by the kind's store. An object
 * that is gone, or that somebody else has changed, is no failure: the watch
 * tells of it, and the next reconcile decides anew. Everything else is logged
 * and leads to another reconcile after a growing pause. Loop thread only. */
#ifndef WP_K8S_CONTROLLERS_RECONCILE_H
#define WP_K8S_CONTROLLERS_RECONCILE_H

#include "k8s/controllers/shared.h"

struct wp_reconcile; /* Opaque. */

struct wp_reconcile *wp_reconcile_begin(struct wp_parts *parts,
                                        struct wp_work *work);

/* As those of k8s/api/api.h; body is taken. */
void wp_reconcile_post(struct wp_reconcile *reconcile,
                       const struct wp_api_target *target, json_t *body);
void wp_reconcile_put(struct wp_reconcile *reconcile,
                      const struct wp_api_target *target, json_t *body);
void wp_reconcile_patch(struct wp_reconcile *reconcile,
                        const struct wp_api_target *target, json_t *body);
/* Only this version of the object. */
void wp_reconcile_delete(struct wp_reconcile *reconcile,
                         const struct wp_object *object);
/* Calls so far. */
uint32_t wp_reconcile_calls(const struct wp_reconcile *reconcile);

/* Look again after at most so long, if nothing failed. */
void wp_reconcile_again(struct wp_reconcile *reconcile, int64_t delay_ns);

/* No more calls will follow. reconcile is gone afterwards. */
void wp_reconcile_end(struct wp_reconcile *reconcile);

#endif
