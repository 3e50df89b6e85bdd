/* k8s/controllers/template/checker.h - asks the API server about a Pod of each
 * template, once for each generation, and tells what it found: as an event on
 * the template, and to wp_parts.verdicts.
 *
 * A question that was not answered is asked again after a growing pause; one
 * that was refused is asked again every five minutes, since a new API server
 * may take what an old one did not. Loop thread only. */
#ifndef WP_K8S_CONTROLLERS_TEMPLATE_CHECKER_H
#define WP_K8S_CONTROLLERS_TEMPLATE_CHECKER_H

#include "k8s/controllers/shared.h"

struct wp_template_checker; /* Opaque. */

/* Paused at first. parts is borrowed; NULL when memory lacks. */
struct wp_template_checker *wp_template_checker_create(struct wp_parts *parts);
/* What is under way must have ended. NULL is fine. */
void wp_template_checker_destroy(struct wp_template_checker *checker);
/* The template is new, or may have changed. */
void wp_template_checker_look(struct wp_template_checker *checker,
                              const struct wp_object *template_);
/* It is gone. */
void wp_template_checker_forget(struct wp_template_checker *checker,
                                const struct wp_object *template_);
/* Asks nothing new, or goes on. */
void wp_template_checker_pause(struct wp_template_checker *checker,
                               bool paused);

#endif
