/* k8s/controllers/template/weaker.h - tells people of templates that state less
 * than their tier asks for. Nothing is refused here: deploy/kubernetes/tiers
 * has a policy that does. Loop thread only. */
#ifndef WP_K8S_CONTROLLERS_TEMPLATE_WEAKER_H
#define WP_K8S_CONTROLLERS_TEMPLATE_WEAKER_H

#include "k8s/controllers/shared.h"

struct wp_weaker; /* Opaque. */

/* parts is borrowed. NULL when memory lacks. */
struct wp_weaker *wp_weaker_create(struct wp_parts *parts);
void wp_weaker_destroy(struct wp_weaker *weaker); /* NULL is fine. */
/* Tells once of each generation and tier of the template. */
void wp_weaker_look(struct wp_weaker *weaker,
                    const struct wp_object *template_);
/* The template is gone. */
void wp_weaker_forget(struct wp_weaker *weaker,
                      const struct wp_object *template_);

#endif
