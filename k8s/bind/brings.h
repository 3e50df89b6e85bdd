/* k8s/bind/brings.h - the variables of a SandboxClaim, as what it
 * brings for a warm sandbox. Pure. */
#ifndef WP_K8S_BIND_BRINGS_H
#define WP_K8S_BIND_BRINGS_H

#include <jansson.h>

#include "k8s/objects/object.h"
#include "pool/base/status.h"
#include "pool/binding.h"

struct wp_claim_brings {
    struct wp_binding binding; /* Its fingerprint is the caller's to set. */
    struct wp_binding_env env[WP_BINDING_ENV_MAX];
    json_t *whole; /* What the texts lie in. Owned. */
};

/* Reads spec.env, of a claim that has some. INVALID_ARGUMENT, and err says what
 * was expected, in words for people. Ended by fini in either case. */
WP_MUST_CHECK enum wp_status wp_claim_brings_read(const struct wp_object *claim,
                                                  struct wp_claim_brings *out,
                                                  struct wp_err *err);
void wp_claim_brings_fini(struct wp_claim_brings *brings);

/* Is it the program of the Pod's first container that each of them is for? That
 * is the one which takes what claims bring. err says which is not. */
WP_MUST_CHECK enum wp_status
wp_claim_brings_check(const struct wp_object *claim,
                      const struct wp_object *templ, struct wp_err *err);

#endif
