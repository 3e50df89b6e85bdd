/* k8s/controllers/template/network_policy.h - the NetworkPolicy that a
 * SandboxTemplate's sandboxes share.
 *
 * Pure: objects in, JSON out. Loop thread only. */
#ifndef WP_K8S_CONTROLLERS_TEMPLATE_NETWORK_POLICY_H
#define WP_K8S_CONTROLLERS_TEMPLATE_NETWORK_POLICY_H

#include <jansson.h>
#include <stdbool.h>

#include "k8s/objects/object.h"
#include "pool/annotations/tier.h"

enum {
    WP_NETWORK_POLICY_NAME_MAX = 253,
};

/* "<template>-network-policy"; where that would be longer than a Kubernetes
 * name can be, the template's name is cut, and its hash stands behind. False
 * when the template's name alone is longer. */
WP_MUST_CHECK bool
wp_network_policy_name(const char *template_name,
                       char out[WP_NETWORK_POLICY_NAME_MAX + 1]);
/* The template's name in such a name; empty when it is none. One that was cut
 * stays so: the policy's owner tells. Borrowed. */
struct wp_str wp_network_policy_template(const char *policy_name);

/* What its spec must be: the template's own rules, or, without any, this: in
 * comes what the sandbox router sends, out goes what the template's tier lets
 * out, or the installed one where it names none. That is what is for public
 * addresses (T0), questions for names (T1, T2), or these to the cluster's DNS
 * and what is for the egress proxy. A new reference. */
WP_MUST_CHECK json_t *wp_network_policy_spec(const struct wp_object *template_,
                                             enum wp_tier installed);

/* The whole object, for a POST. spec is taken. A new reference. */
WP_MUST_CHECK json_t *wp_network_policy_build(const struct wp_object *template_,
                                              json_t *spec);

/* Do both specs say the same? What the API server fills in (a port's protocol)
 * or leaves out (empty lists) makes no difference; an empty selector, which
 * selects all, is not the same as none. */
WP_MUST_CHECK bool wp_network_policy_same(const json_t *a, const json_t *b);

#endif
