#include "k8s/controllers/claim/states.h"

#include "pool/base/assert.h"

static const bool edges[WP_CLAIM_STATE_COUNT][WP_CLAIM_STATE_COUNT] = {
#define WP_CLAIM_STATE(life, name, meaning)
#define WP_CLAIM_EDGE(life, from, to, reason)                                  \
    [WP_##life##_##from][WP_##life##_##to] = true,
#include "k8s/controllers/claim/claim_states.def"
#undef WP_CLAIM_STATE
#undef WP_CLAIM_EDGE
};

bool
wp_claim_state_edge_allowed(enum wp_claim_state from, enum wp_claim_state to)
{
    WP_ASSERT(from < WP_CLAIM_STATE_COUNT && to < WP_CLAIM_STATE_COUNT);
    return edges[from][to];
}

void
wp_claim_state_move(enum wp_claim_state *state, enum wp_claim_state to)
{
    WP_ASSERT(wp_claim_state_edge_allowed(*state, to));
    *state = to;
}
