/* k8s/controllers/template/pod_check.h - would the API server take a Pod of a
 * template?
 *
 * The Pod to ask about, and what an answer means. Pure: objects in, JSON and
 * words out. Loop thread only. */
#ifndef WP_K8S_CONTROLLERS_TEMPLATE_POD_CHECK_H
#define WP_K8S_CONTROLLERS_TEMPLATE_POD_CHECK_H

#include <jansson.h>
#include <stddef.h>

#include "k8s/controllers/shared.h"
#include "k8s/objects/object.h"

/* The Pod that a sandbox of this template has, as far as the template says it:
 * with the secure defaults, and with the volumes of its volume claims. It has
 * no name of its own, so it is in nobody's way. A new reference; NULL when the
 * template has no podTemplate.spec that is an object. */
WP_MUST_CHECK json_t *wp_pod_check_build(const struct wp_object *template_,
                                         enum wp_tier installed);

enum wp_pod_answer {
    WP_POD_TAKEN,
    /* Fields that this API server does not know; nothing else was looked at. */
    WP_POD_UNKNOWN_FIELDS,
    /* The API server names a field or a type that is wrong. */
    WP_POD_REFUSED,
    /* It says nothing of the template: a quota, a policy or a webhook of the
     * namespace is in the way, or the right to make Pods lacks. What is so may
     * pass; people are told. */
    WP_POD_NOT_ALLOWED,
    /* Not answered, or told to come later. */
    WP_POD_UNANSWERED,
};

/* words: the server's, without the name that it gave the Pod; cut to cap. */
enum wp_pod_answer wp_pod_check_read(const struct wp_api_result *result,
                                     char *words, size_t cap);

#endif
