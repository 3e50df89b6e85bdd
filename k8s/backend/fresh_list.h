/* k8s/backend/fresh_list.h - reads all Sandboxes once more from the API server,
 * into the store.
 *
 * The watch may lag behind: that the store has no object is no proof that there
 * is none. What this list has was there after it was asked for; the store keeps
 * what is newer. Loop thread only. */
#ifndef WP_K8S_BACKEND_FRESH_LIST_H
#define WP_K8S_BACKEND_FRESH_LIST_H

#include "k8s/controllers/shared.h"

struct wp_fresh_list; /* Opaque. */

/* parts is borrowed. NULL when memory lacks. */
struct wp_fresh_list *wp_fresh_list_create(struct wp_parts *parts);
/* After the API client has ended all calls. NULL is fine. */
void wp_fresh_list_destroy(struct wp_fresh_list *list);
/* Calls done(ctx) once, when all were read; never from within. What fails is
 * tried again after a pause. One that is under way ends without its done. */
void wp_fresh_list_begin(struct wp_fresh_list *list, void (*done)(void *ctx),
                         void *ctx);
/* done will not be called. */
void wp_fresh_list_cancel(struct wp_fresh_list *list);

#endif
