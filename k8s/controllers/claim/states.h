/* k8s/controllers/claim/states.h - the lives in a SandboxClaim's entry, and the
 * one place where they move. What they mean: claim_states.def. */
#ifndef WP_K8S_CONTROLLERS_CLAIM_STATES_H
#define WP_K8S_CONTROLLERS_CLAIM_STATES_H

#include <stdbool.h>

/* Of all lives; a field of this type keeps to the states of one. */
enum wp_claim_state {
#define WP_CLAIM_STATE(life, name, meaning) WP_##life##_##name,
#define WP_CLAIM_EDGE(life, from, to, reason)
#include "k8s/controllers/claim/claim_states.def"
#undef WP_CLAIM_STATE
#undef WP_CLAIM_EDGE
    WP_CLAIM_STATE_COUNT,
};

bool wp_claim_state_edge_allowed(enum wp_claim_state from,
                                 enum wp_claim_state to);
/* The edge must be in claim_states.def (asserted). */
void wp_claim_state_move(enum wp_claim_state *state, enum wp_claim_state to);

#endif
