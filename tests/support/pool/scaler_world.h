/* tests/support/pool/scaler_world.h - a scaler with a policy, and the world it is
 * told of: both clocks, and stock that is at once what was decided.
 *
 * Include cmocka.h before. */
#ifndef WP_TESTS_SUPPORT_POOL_SCALER_WORLD_H
#define WP_TESTS_SUPPORT_POOL_SCALER_WORLD_H

#include <stdint.h>

#include "pool/scale/scaler.h"

#define S WP_NS_PER_S
#define WALL0 (INT64_C(1767225600) * WP_NS_PER_S) /* 2026-01-01 */

/* A scaler, and the world it is told of. */
struct world {
    struct wp_scaler *scaler;
    struct wp_scale_policy policy;
    struct wp_scale_view view;
    int64_t next_ns;
};

static inline struct world
world_make(uint32_t replicas)
{
    struct world w = {.view = {.wall_ns = WALL0,
                               .replicas = replicas,
                               .room = UINT32_MAX,
                               .budget = UINT32_MAX}};

    w.scaler = wp_scaler_create(WP_MISS_LOST, replicas, 8 * S, 0, WALL0);
    assert_non_null(w.scaler);
    wp_scale_policy_init(&w.policy);
    w.policy.objective = WP_SCALE_HIT_RATE;
    w.policy.hit_rate = 0.999;
    w.policy.max = 1000;
    return w;
}

static inline void
world_start(struct world *w)
{
    wp_scaler_set_policy(w->scaler, &w->policy);
}

static inline struct wp_scale_decision
world_decide(struct world *w)
{
    struct wp_scale_decision decision =
        wp_scaler_decide(w->scaler, &w->view, &w->next_ns);

    w->view.ready = decision.target;
    assert_true(w->next_ns > w->view.mono_ns);
    return decision;
}

static inline void
world_pass(struct world *w, double s)
{
    w->view.mono_ns += (int64_t)(s * S);
    w->view.wall_ns += (int64_t)(s * S);
}

/* n claims, one each so many seconds in the mean, and as uneven as independent
 * ones: the quantiles of their gaps, in turn; the latest decision. */
static inline struct wp_scale_decision
world_uneven_claims(struct world *w, int n, double each_s)
{
    static const double gaps[] = {0.03, 1.83, 0.42, 0.10, 1.05, 0.22,
                                  3.35, 0.61, 0.16, 1.37, 0.35, 0.28,
                                  0.83, 2.62, 0.52, 2.26};
    struct wp_scale_decision decision = {0};

    for (int i = 0; i < n; i++) {
        world_pass(w, each_s * gaps[i % 16]);
        wp_scaler_on_claims(w->scaler, w->view.mono_ns, 1, 0);
        decision = world_decide(w);
    }
    return decision;
}

/* The same, exactly so many seconds apart: such regular traffic needs less. */
static inline struct wp_scale_decision
world_claims(struct world *w, int n, double each_s)
{
    struct wp_scale_decision decision = {0};

    for (int i = 0; i < n; i++) {
        world_pass(w, each_s);
        wp_scaler_on_claims(w->scaler, w->view.mono_ns, 1, 0);
        decision = world_decide(w);
    }
    return decision;
}

#endif
