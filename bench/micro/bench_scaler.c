/* bench/micro/bench_scaler.c - what the autoscaler costs: a decision at all rates of
 * claims and with reservations, and 10,000 pools in turn on one core. */
#include <stdio.h>
#include <stdlib.h>

#include "bench/micro/gbench.h"
#include "pool/base/assert.h"
#include "pool/base/rng.h"
#include "pool/scale/scaler.h"

enum {
    POOLS = 10000,
    WARM_UP = 2000, /* Moments with claims before anything is timed. */
};

#define MOMENT_NS (100 * WP_NS_PER_MS)
/* What is reserved begins within so long: twice the longest lead time. */
#define RESERVED_NS (20 * WP_NS_PER_S)

struct rig {
    struct wp_scaler *scaler;
    struct wp_scale_view view;
    struct wp_rng rng;
    bool bursty;
    /* Reservations, evenly spread: the first of them begins next. */
    uint32_t reservations;
    uint32_t reserved; /* Made so far. */
    int64_t reserve_ns;
};

static void
rig_init(struct rig *rig, uint64_t seed, bool bursty)
{
    struct wp_scale_policy policy;

    *rig = (struct rig){
        .view = {.replicas = 10, .room = UINT32_MAX, .budget = UINT32_MAX},
        .bursty = bursty};
    wp_rng_init(&rig->rng, seed);
    rig->scaler = wp_scaler_create(WP_MISS_LOST, 10, 8 * WP_NS_PER_S, 0, 0);
    WP_ASSERT(rig->scaler != NULL);
    wp_scale_policy_init(&policy);
    policy.objective = WP_SCALE_HIT_RATE;
    policy.hit_rate = 0.999;
    wp_scaler_set_policy(rig->scaler, &policy);
}

/* Makes those that begin within reach, as far as there is room: one is over
 * when the next one begins, so that there are always as many. */
static void
rig_reserve(struct rig *rig, int64_t rate_per_s)
{
    int64_t gap_ns = RESERVED_NS / rig->reservations;
    uint32_t n = (uint32_t)(rate_per_s * gap_ns / WP_NS_PER_S) + 1;

    while (rig->reserve_ns <= rig->view.wall_ns + RESERVED_NS - gap_ns) {
        struct wp_err err;
        char id[32];
        int len = snprintf(id, sizeof id, "job%u", rig->reserved);
        enum wp_status status =
            wp_scaler_reserve(rig->scaler, (struct wp_str){id, (size_t)len}, n,
                              rig->reserve_ns, rig->reserve_ns + gap_ns, &err);

        if (status != WP_OK) {
            WP_ASSERT(status == WP_RESOURCE_EXHAUSTED);
            return; /* Those that are over go with the next decision. */
        }
        rig->reserved++;
        rig->reserve_ns += gap_ns;
    }
}

/* One moment: claims at the given rate, one that became ready, the decision. */
static uint32_t
rig_moment(struct rig *rig, int64_t rate_per_s)
{
    int64_t next_ns;
    uint64_t mean = (uint64_t)rate_per_s / 10 + 1;
    bool on = !rig->bursty || rig->view.mono_ns / (30 * WP_NS_PER_S) % 8 == 0;
    uint32_t n = (uint32_t)(on ? wp_rng_below(&rig->rng, 2 * mean) : 0);

    rig->view.mono_ns += MOMENT_NS;
    rig->view.wall_ns += MOMENT_NS;
    if (rig->reservations > 0) {
        rig_reserve(rig, rate_per_s);
    }
    wp_scaler_on_claims(rig->scaler, rig->view.mono_ns, n,
                        rig->bursty ? n / 4 : 0);
    wp_scaler_on_ready(
        rig->scaler, rig->view.mono_ns,
        6 * WP_NS_PER_S +
            (int64_t)wp_rng_below(&rig->rng, (uint64_t)(4 * WP_NS_PER_S)));
    return wp_scaler_decide(rig->scaler, &rig->view, &next_ns).target;
}

/* As many claims a second, while there are so many reservations of them. */
static void
bench_reserved(struct wp_bench_state *state)
{
    const int64_t *rate = wp_bench_ctx(state);
    struct rig rig;

    rig_init(&rig, 1, false);
    rig.reservations = (uint32_t)wp_bench_arg(state);
    for (int i = 0; i < WARM_UP; i++) {
        (void)rig_moment(&rig, *rate);
    }
    while (wp_bench_keep(state, 16)) {
        for (int i = 0; i < 16; i++) {
            wp_bench_use(rig_moment(&rig, *rate));
        }
    }
    wp_scaler_destroy(rig.scaler);
}

static void
bench_moments(struct wp_bench_state *state)
{
    const bool *bursty = wp_bench_ctx(state);
    int64_t rate = wp_bench_arg(state);
    struct rig rig;

    rig_init(&rig, 1, *bursty);
    for (int i = 0; i < WARM_UP * (*bursty ? 10 : 1); i++) {
        (void)rig_moment(&rig, rate);
    }
    while (wp_bench_keep(state, 16)) {
        for (int i = 0; i < 16; i++) {
            wp_bench_use(rig_moment(&rig, rate));
        }
    }
    wp_scaler_destroy(rig.scaler);
}

/* Each iteration is a moment of the next pool. */
static void
bench_pools(struct wp_bench_state *state)
{
    struct rig *rigs = malloc(POOLS * sizeof *rigs);
    uint32_t at = 0;

    WP_ASSERT(rigs != NULL);
    for (uint32_t i = 0; i < POOLS; i++) {
        rig_init(&rigs[i], i, false);
        for (int k = 0; k < 20; k++) {
            (void)rig_moment(&rigs[i], 50);
        }
    }
    while (wp_bench_keep(state, 16)) {
        for (int i = 0; i < 16; i++) {
            wp_bench_use(rig_moment(&rigs[at], 50));
            at = at + 1 < POOLS ? at + 1 : 0;
        }
    }
    for (uint32_t i = 0; i < POOLS; i++) {
        wp_scaler_destroy(rigs[i].scaler);
    }
    free(rigs);
}

int
main(int argc, char **argv)
{
    static const int64_t rates[] = {1, 10, 100, 1000, 10000, 100000};
    static const int64_t reservations[] = {0, 16, WP_SCALE_RESERVATIONS_MAX};
    static const int64_t busy = 100;
    static const int64_t busiest = 10000;
    static const bool steady = false;
    static const bool bursty = true;
    const struct wp_bench all[] = {
        {"scaler/moment_steady", bench_moments, &steady, rates,
         WP_ARRAY_LEN(rates), NULL, 0, false},
        {"scaler/moment_bursty", bench_moments, &bursty, rates,
         WP_ARRAY_LEN(rates), NULL, 0, false},
        {"scaler/moment_reserved", bench_reserved, &busy, reservations,
         WP_ARRAY_LEN(reservations), NULL, 0, false},
        {"scaler/moment_reserved_10000_per_s", bench_reserved, &busiest,
         reservations, WP_ARRAY_LEN(reservations), NULL, 0, false},
        {"scaler/moment_10000_pools", bench_pools, NULL, NULL, 0, NULL, 0,
         false},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(all); i++) {
        wp_bench_register(&all[i]);
    }
    return wp_bench_run(argc, argv);
}
