/* k8s/controllers/reconcile.h - one reconcile, and the API calls that it has
 * under way.
 *
 * For controllers whose reconciles look, decide, and send all they want to
 * change at once: the pass ends the work when the last call has been answered.
 * What a write answered is learned by the kind's store. An object that is gone,
 * or that somebody else has changed, is no failure: the watch tells of it, and
 * the next pass decides anew. Everything else is logged and leads to another
 * pass after a growing pause. Loop thread only. */
#ifndef WP_K8S_CONTROLLERS_RECONCILE_H
#define WP_K8S_CONTROLLERS_RECONCILE_H

#include "k8s/controllers/shared.h"

struct wp_pass; /* Opaque. */

struct wp_pass *wp_pass_begin(struct wp_parts *parts, struct wp_work *work);

/* As those of k8s/api/api.h; body is taken. */
void wp_pass_post(struct wp_pass *pass, const struct wp_api_target *target,
                  json_t *body);
void wp_pass_put(struct wp_pass *pass, const struct wp_api_target *target,
                 json_t *body);
void wp_pass_patch(struct wp_pass *pass, const struct wp_api_target *target,
                   json_t *body);
/* Only this version of the object. */
void wp_pass_delete(struct wp_pass *pass, const struct wp_object *object);
/* Calls so far. */
uint32_t wp_pass_calls(const struct wp_pass *pass);

/* Look again after at most so long, if nothing failed. */
void wp_pass_again(struct wp_pass *pass, int64_t delay_ns);

/* No more calls will follow. pass is gone afterwards. */
void wp_pass_end(struct wp_pass *pass);

/* The object's name and kind, as a target of NORMAL priority. */
struct wp_api_target wp_pass_target(const struct wp_object *object);

#endif
