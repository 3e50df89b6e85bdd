/* k8s/controllers/claim/events.h - what people are told of a SandboxClaim, as
 * Events. */
#ifndef WP_K8S_CONTROLLERS_CLAIM_EVENTS_H
#define WP_K8S_CONTROLLERS_CLAIM_EVENTS_H

#include "k8s/controllers/events.h"

enum wp_claim_happening {
    WP_CLAIM_ADOPTED,     /* detail: the Sandbox's name */
    WP_CLAIM_PROVISIONED, /* detail: the Sandbox's name */
    WP_CLAIM_EXPIRED,     /* detail: "" */
    WP_CLAIM_DELETED,     /* detail: the shutdown policy */
};

void wp_claim_event(struct wp_events *events, const struct wp_object *claim,
                    enum wp_claim_happening what, const char *detail);

#endif
