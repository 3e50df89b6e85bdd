#include "k8s/controllers/claim/events.h"

#include "k8s/controllers/claim/expiry.h"

#define CONTROLLER "sandboxclaim-controller"

void
wp_claim_event(struct wp_events *events, const struct wp_object *claim,
               enum wp_claim_happening what, const char *detail)
{
    static const struct wp_event table[] = {
        [WP_CLAIM_ADOPTED] = {CONTROLLER, "Adoption", "SandboxAdopted", false},
        [WP_CLAIM_PROVISIONED] = {CONTROLLER, "Provisioning",
                                  "SandboxProvisioned", false},
        [WP_CLAIM_EXPIRED] = {CONTROLLER, "Claim Expired",
                              WP_REASON_CLAIM_EXPIRED, false},
        [WP_CLAIM_DELETED] = {CONTROLLER, "Deleting", WP_REASON_CLAIM_EXPIRED,
                              false},
    };

    switch (what) {
    case WP_CLAIM_ADOPTED:
        wp_events_record(events, claim, &table[what],
                         "Adopted warm pool Sandbox \"%s\"", detail);
        return;
    case WP_CLAIM_PROVISIONED:
        wp_events_record(events, claim, &table[what], "Created Sandbox \"%s\"",
                         detail);
        return;
    case WP_CLAIM_EXPIRED:
        wp_events_record(events, claim, &table[what],
                         "The claim's time is over");
        return;
    case WP_CLAIM_DELETED:
        wp_events_record(events, claim, &table[what],
                         "Deleting the claim, by shutdownPolicy %s", detail);
        return;
    }
}
