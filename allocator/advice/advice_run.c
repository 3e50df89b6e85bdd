/* allocator/advice/advice_run.c - one row of an advice, replayed. */
#include <math.h>
#include <stdio.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "allocator/advice/advice_parts.h"

enum {
    PARTS = 20, /* Of the time, for the interval of the hit rate. */
    INFLIGHT_MAX = 1 << 20,
    DECISIONS_MAX = 150000, /* Of one replay. */
};

/* Of the sum of 19 normals' spread: Student's t for 95 %. */
static const double T_95 = 2.093;

/* The policy of a row, and between it and the replay a count of claims and
 * misses for each part of the time. */
struct counted {
    struct wp_replay_policy inner;
    const struct wp_advice *advice;
    double claims[PARTS];
    double missed[PARTS];
    /* Ours: see is_thinned. Others are asked as they wish. */
    int64_t pause_ns;
    bool few; /* Claims. */
    bool decided;
    int64_t decided_ns; /* Last. */
    int64_t inner_next_ns;
    uint32_t ready_then;
    uint32_t target;
    bool has_event; /* Of an event since then. */
    bool has_missed;
};

static void
counted_on_claims(void *self, int64_t now_ns, uint32_t n, uint32_t missed)
{
    struct counted *counted = self;
    const struct wp_advice *advice = counted->advice;

    if (now_ns >= advice->begin_ns) {
        double share = (double)(now_ns - advice->begin_ns) /
                       (double)(advice->end_ns - advice->begin_ns);
        uint32_t part = (uint32_t)fmin(share * PARTS, PARTS - 1);

        counted->claims[part] += n;
        counted->missed[part] += missed;
    }
    counted->has_event = true;
    counted->has_missed = counted->has_missed || missed > 0;
    if (counted->inner.on_claims != NULL) {
        counted->inner.on_claims(counted->inner.self, now_ns, n, missed);
    }
}

static void
counted_on_ready(void *self, int64_t now_ns, int64_t lead_ns)
{
    struct counted *counted = self;

    counted->has_event = true;
    if (counted->inner.on_ready != NULL) {
        counted->inner.on_ready(counted->inner.self, now_ns, lead_ns);
    }
}

/* A decision costs a microsecond and more, and a week has millions of events
 * and as many moments at which the controller would look again by itself. It is
 * told all events, but asked for the target only some DECISIONS_MAX times, and
 * whenever something presses: a claim missed, or half of what was ready is
 * gone. Histories of few claims have it asked at each event, as in the
 * daemon. */
static bool
is_thinned(const struct counted *counted, const struct wp_replay_view *view)
{
    int64_t since_ns = view->now_ns - counted->decided_ns;

    if (!counted->decided || counted->has_missed ||
        view->ready < counted->ready_then / 2) {
        return false;
    }
    if (since_ns >= counted->pause_ns) {
        return view->now_ns < counted->inner_next_ns && !counted->has_event;
    }
    return counted->few ? !counted->has_event : true;
}

static uint32_t
thinned_target(void *self, const struct wp_replay_view *view, int64_t *next_ns)
{
    struct counted *counted = self;

    if (!is_thinned(counted, view)) {
        counted->target =
            counted->inner.target(counted->inner.self, view, next_ns);
        counted->inner_next_ns = *next_ns;
        counted->decided = true;
        counted->decided_ns = view->now_ns;
        counted->ready_then = view->ready;
        counted->has_missed = false;
        counted->has_event = false;
    }
    *next_ns = wp_time_add(counted->decided_ns, counted->pause_ns);
    if (!counted->has_event && *next_ns < counted->inner_next_ns) {
        *next_ns = counted->inner_next_ns;
    }
    return counted->target;
}

static uint32_t
counted_target(void *self, const struct wp_replay_view *view, int64_t *next_ns)
{
    struct counted *counted = self;

    return counted->inner.target(counted->inner.self, view, next_ns);
}

/* The interval of a ratio of sums over parts; at least as wide as one that
 * takes every claim for itself (Wilson). */
static void
set_interval(const struct counted *counted, struct wp_advice_row *row)
{
    double n = 0;
    double missed = 0;
    double spread = 0;
    double rate;
    double centre;
    double half;

    for (unsigned i = 0; i < PARTS; i++) {
        n += counted->claims[i];
        missed += counted->missed[i];
    }
    if (n <= 0) {
        row->hit_low = 0;
        row->hit_high = 1;
        return;
    }
    rate = missed / n;
    for (unsigned i = 0; i < PARTS; i++) {
        double off = counted->missed[i] - rate * counted->claims[i];

        spread += off * off;
    }
    spread = T_95 * sqrt(spread * PARTS / (PARTS - 1)) / n;
    centre = (missed + 1.92) / (n + 3.84);
    half = 1.96 * sqrt(missed * (n - missed) / n + 0.96) / (n + 3.84);
    row->hit_low = fmax(0, 1 - fmax(rate + spread, centre + half));
    row->hit_high = fmin(1, 1 - fmin(rate - spread, centre - half));
}

static bool
policy_ours(const struct wp_advice *advice, const struct wp_advice_row *row,
            struct wp_replay_policy *out)
{
    struct wp_scale_policy policy = advice->config.policy;
    int64_t prior_ns =
        (int64_t)(advice->facts.lead_mean_s * (double)WP_NS_PER_S);

    if (row->kind == WP_ADVICE_OURS) {
        wp_scale_policy_init(&policy);
        policy.objective = WP_SCALE_HIT_RATE;
        policy.hit_rate = row->objective;
    }
    if (!wp_replay_policy_ours(&policy, advice->config.miss,
                               advice->config.replicas, prior_ns,
                               advice->facts.from_wall_ns, out)) {
        return false;
    }
    wp_replay_policy_ours_at_once(out, advice->config.at_once);
    return true;
}

/* What learns nothing. */
static bool
policy_told(const struct wp_advice *advice, const struct wp_advice_row *row,
            struct wp_replay_source future, struct wp_replay_policy *out)
{
    return row->kind == WP_ADVICE_CLAIRVOYANT
               ? wp_replay_policy_clairvoyant(future, advice->facts.lead_p99_s,
                                              out)
               : wp_replay_policy_fixed(row->size, out);
}

static bool
is_ours(const struct wp_advice *advice, const struct wp_advice_row *row)
{
    return row->kind == WP_ADVICE_OURS ||
           (row->kind == WP_ADVICE_TODAY &&
            advice->config.policy.objective != WP_SCALE_PLAIN);
}

static struct wp_replay_config
replay_config(const struct wp_advice *advice)
{
    uint32_t at_once = advice->config.at_once;

    return (struct wp_replay_config){
        .lead = advice->lead,
        .miss = advice->config.miss,
        .begin_ns = advice->begin_ns,
        .end_ns = advice->end_ns,
        .inflight_max = at_once > 0 ? at_once : INFLIGHT_MAX,
        .ceiling = UINT32_MAX,
        .seed = advice->config.seed,
    };
}

/* A size that would have held it all, with a quarter on top. */
static void
name_max(struct wp_advice_row *row)
{
    if (row->kind == WP_ADVICE_OURS) {
        (void)snprintf(row->setting, sizeof row->setting,
                       "objective=%g%% max=%u", row->objective * 100,
                       row->result.stock_max + row->result.stock_max / 4 + 1);
    }
}

enum wp_status
wp_advice_run(struct wp_advice *advice, uint32_t i,
              bool (*progress)(void *ctx, double share), void *ctx,
              struct wp_err *err)
{
    struct wp_advice_row *row = &advice->rows[i];
    struct counted counted = {.advice = advice};
    struct wp_replay_config config = replay_config(advice);
    struct wp_replay_source future = {0};
    struct wp_replay_policy policy = {.name = row->name,
                                      .self = &counted,
                                      .on_claims = counted_on_claims,
                                      .on_ready = counted_on_ready,
                                      .target = counted_target};
    enum wp_status status = WP_RESOURCE_EXHAUSTED;

    WP_ASSERT(i < advice->n_rows);
    config.waiting_orders_none = !advice->config.cold_start &&
                                 !is_ours(advice, row) &&
                                 row->kind != WP_ADVICE_CLAIRVOYANT;
    config.progress = progress;
    config.ctx = ctx;
    if (is_ours(advice, row)) {
        /* A claim is two events: it comes, and another one becomes ready. */
        counted.few = 2 * advice->facts.claims <= DECISIONS_MAX;
        counted.pause_ns = advice->facts.known_ns / DECISIONS_MAX;
        policy.target = thinned_target;
    }
    if (wp_replay_source_history(advice->config.history, &config.source) &&
        wp_replay_source_history(advice->config.history, &future) &&
        (is_ours(advice, row)
             ? policy_ours(advice, row, &counted.inner)
             : policy_told(advice, row, future, &counted.inner))) {
        status = wp_replay_run(&config, &policy, &row->result, err);
        if (counted.inner.destroy != NULL) {
            counted.inner.destroy(counted.inner.self);
        }
    } else {
        (void)wp_err_set(err, status, "advice: no memory");
    }
    wp_replay_source_history_end(&config.source);
    wp_replay_source_history_end(&future);
    if (status == WP_OK && row->result.stopped) {
        return wp_err_set(err, WP_CANCELLED, "the replay was stopped");
    }
    if (status == WP_OK) {
        set_interval(&counted, row);
        name_max(row);
        row->done = true;
    }
    return status;
}
