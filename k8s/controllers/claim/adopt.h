/* k8s/controllers/claim/adopt.h - the write that makes a warm Sandbox a claim's
 * own.
 *
 * One merge patch with the Sandbox's resourceVersion: whoever gets it through
 * has the Sandbox, and everybody who reads it sees that it is the pool's no
 * more. Only what differs is sent. Pure. */
#ifndef WP_K8S_CONTROLLERS_CLAIM_ADOPT_H
#define WP_K8S_CONTROLLERS_CLAIM_ADOPT_H

#include <jansson.h>

#include "k8s/objects/object.h"
#include "pool/base/status.h"

/* What an adopted Sandbox is to carry. Borrowed. */
struct wp_adoption {
    const struct wp_object *claim;
    const json_t *additional;      /* spec.additionalPodMetadata; NULL. */
    const struct wp_object *templ; /* Its pool's; NULL: not known. */
    bool brings; /* The Sandbox is marked: its claim's variables are brought. */
};

/* Could a claim that asks for this adopt a Sandbox of the template? err says
 * why not. */
WP_MUST_CHECK enum wp_status wp_adoption_check(const struct wp_object *templ,
                                               const json_t *additional,
                                               struct wp_err *err);

/* The patch that hands sandbox to the claim; NULL and err when its metadata
 * asks for another value than the template's (ALREADY_EXISTS). A new reference.
 */
WP_MUST_CHECK json_t *wp_adoption_patch(const struct wp_adoption *adoption,
                                        const struct wp_object *sandbox,
                                        struct wp_err *err);
/* For a Sandbox that is the claim's already: brings its metadata up to what
 * template and claim say now. *patch is NULL when nothing differs. Needs the
 * template. */
WP_MUST_CHECK enum wp_status
wp_adoption_refresh(const struct wp_adoption *adoption,
                    const struct wp_object *sandbox, json_t **patch,
                    struct wp_err *err);

/* Sets what tells whose Sandbox it is: claim-uid, and created-by as the claim
 * has it, or not. */
void wp_claim_identity_set(json_t *labels, const struct wp_object *claim);

#endif
