#include "bench/scaling/figure_cost.h"

#include <stdlib.h>
#include <time.h>

#include "pool/base/clock.h"
#include "pool/base/rng.h"
#include "allocator/advice/replay_parts.h"
#include "pool/scale/scaler.h"

enum {
    WARM_S = 120,  /* Claims before anything is measured. */
    ROUNDS = 6000, /* Of 10 ms. */
    POOLS_S = 20,
};

static int64_t
cpu_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * WP_NS_PER_S + now.tv_nsec;
}

static struct wp_scaler *
make_scaler(void)
{
    struct wp_scaler *scaler =
        wp_scaler_create(WP_MISS_LOST, 1, WP_NS_PER_S, 0, 0);
    struct wp_scale_policy policy;

    if (scaler != NULL) {
        wp_scale_policy_init(&policy);
        policy.objective = WP_SCALE_HIT_RATE;
        policy.hit_rate = 0.999;
        wp_scaler_set_policy(scaler, &policy);
    }
    return scaler;
}

static uint32_t
decide(struct wp_scaler *scaler, int64_t now_ns, int64_t *next_ns)
{
    const struct wp_scale_view view = {.mono_ns = now_ns,
                                       .wall_ns = now_ns,
                                       .replicas = 1,
                                       .ready = 1,
                                       .room = 1U << 30,
                                       .budget = UINT32_MAX};

    return wp_scaler_decide(scaler, &view, next_ns).target;
}

double
wp_figure_decision_ns(double rate_per_s)
{
    struct wp_scaler *scaler = make_scaler();
    double per_round = rate_per_s / 100;
    double owed = 0;
    int64_t now_ns = 0;
    int64_t next_ns;
    int64_t began = 0;
    uint32_t asked = 0;

    if (scaler == NULL) {
        return -1;
    }
    for (int i = 0; i < 100 * WARM_S + ROUNDS; i++) {
        uint32_t n;

        if (i == 100 * WARM_S) {
            began = cpu_ns();
            asked = 0;
        }
        now_ns += 10 * WP_NS_PER_MS;
        owed += per_round;
        n = (uint32_t)owed;
        owed -= n;
        if (n > 0) {
            wp_scaler_on_claims(scaler, now_ns, n, 0);
            wp_scaler_on_ready(scaler, now_ns, WP_NS_PER_S);
            (void)decide(scaler, now_ns, &next_ns);
            asked++;
        }
    }
    began = cpu_ns() - began;
    wp_scaler_destroy(scaler);
    return asked == 0 ? 0 : (double)began / asked;
}

/* The i-th pool's turn: a claim, half of the times it is asked, and when it is
 * next due. */
static bool
turn(struct wp_scaler *scaler, struct wp_replay_heap *heap, struct wp_rng *rng,
     int64_t gap_ns, struct wp_replay_due due)
{
    int64_t next_ns = WP_TIME_NEVER;
    bool claims = due.what % 2 != 0;

    if (claims) {
        int64_t wait = (int64_t)(2 * wp_rng_unit(rng) * (double)gap_ns) + 1;

        wp_scaler_on_claims(scaler, due.at_ns, 1, 0);
        if (!wp_replay_heap_push(heap, due.at_ns + wait, due.what)) {
            return false;
        }
    }
    (void)decide(scaler, due.at_ns, &next_ns);
    /* Asked again when it says, unless a claim's turn did so already. */
    return claims || next_ns == WP_TIME_NEVER ||
           wp_replay_heap_push(
               heap, next_ns > due.at_ns ? next_ns : due.at_ns + WP_NS_PER_MS,
               due.what);
}

double
wp_figure_pools_share(uint32_t pools, double rate_per_s)
{
    struct wp_scaler **scalers = calloc(pools, sizeof(struct wp_scaler *));
    int64_t gap_ns = (int64_t)((double)WP_NS_PER_S / rate_per_s);
    struct wp_replay_heap heap = {0};
    struct wp_rng rng;
    bool ok = scalers != NULL;
    int64_t began = 0;
    int64_t took = 0;

    wp_rng_init(&rng, 1);
    for (uint32_t i = 0; i < pools && ok; i++) {
        int64_t at = (int64_t)(wp_rng_unit(&rng) * (double)gap_ns);

        scalers[i] = make_scaler();
        ok = scalers[i] != NULL &&
             wp_replay_heap_push(&heap, at, 2 * (int64_t)i + 1) &&
             wp_replay_heap_push(&heap, at / 2, 2 * (int64_t)i);
    }
    while (ok && wp_replay_heap_next_ns(&heap) < 2 * POOLS_S * WP_NS_PER_S) {
        struct wp_replay_due due = wp_replay_heap_pop(&heap);

        if (began == 0 && due.at_ns >= POOLS_S * WP_NS_PER_S) {
            began = cpu_ns();
        }
        ok = turn(scalers[due.what / 2], &heap, &rng, gap_ns, due);
    }
    took = cpu_ns() - began;
    for (uint32_t i = 0; scalers != NULL && i < pools; i++) {
        wp_scaler_destroy(scalers[i]);
    }
    free(scalers);
    wp_replay_heap_fini(&heap);
    return ok ? (double)took / (POOLS_S * (double)WP_NS_PER_S) : -1;
}
