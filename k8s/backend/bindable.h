/* k8s/backend/bindable.h - the SandboxTemplates that say that the program of
 * their sandboxes takes bindings. The store's thread keeps it, any thread
 * reads. */
#ifndef WP_K8S_BACKEND_BINDABLE_H
#define WP_K8S_BACKEND_BINDABLE_H

#include "k8s/watch/store.h"
#include "pool/base/str.h"

struct wp_bindable; /* Opaque. */

/* Listens to templates, so before any is put in; NULL: there are none. NULL
 * when memory lacks. */
struct wp_bindable *wp_bindable_create(struct wp_store *templates);
/* After the store. NULL is fine. */
void wp_bindable_destroy(struct wp_bindable *self);
/* Any thread. */
WP_MUST_CHECK bool wp_bindable_has(struct wp_bindable *self, struct wp_str ns,
                                   struct wp_str name);

#endif
