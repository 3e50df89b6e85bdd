/* Some hours in the life of a pool, again and again: everything that is shown
 * of each decision that is kept, and all that is known in the end, compared
 * whole with golden/. Digits that another compiler may round otherwise are left
 * out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/rng.h"
#include "pool/scale/scaler_impl.h"
#include "tests/support/base/golden.h"
#include "tests/support/pool/scaler_world.h"

enum {
    STORY_MAX = 1 << 18
};

struct story {
    struct world w;
    struct wp_rng rng;
    FILE *out;
    struct wp_scale_decision told; /* The latest that is written. */
    bool seen[WP_SCALE_REASON_COUNT];
    double target_s; /* Sum of the target over time. */
    char text[STORY_MAX];
};

static struct story the_story;

static struct story *
begin(enum wp_miss miss, uint32_t replicas)
{
    struct story *s = &the_story;

    s->w = world_make(replicas);
    wp_scaler_destroy(s->w.scaler);
    s->w.scaler = wp_scaler_create(miss, replicas, 8 * S, 0, WALL0);
    assert_non_null(s->w.scaler);
    wp_rng_init(&s->rng, 1);
    s->told = (struct wp_scale_decision){.number = 0};
    s->target_s = 0;
    memset(s->seen, 0, sizeof s->seen);
    s->out = fmemopen(s->text, sizeof s->text, "w");
    assert_non_null(s->out);
    return s;
}

/* What is shown, but for what is in the sentence anyway. */
static void
tell(struct story *s, const struct wp_scale_decision *d)
{
    char text[WP_SCALE_TEXT_MAX];

    wp_scale_decision_format(d, text, sizeof text);
    (void)fprintf(s->out, "%llu %.2f s, %s: %s\n",
                  (unsigned long long)d->number, (double)d->mono_ns / S,
                  wp_scale_reason_word(d->reason), text);
    (void)fprintf(s->out,
                  "    rates %.5g %.5g %.5g lead %.5g p99 %.5g = %.5g + %.4g"
                  " z %.4g%s hits %.6f idle %.4g seen %.5f of %.5g",
                  d->rate_per_s, d->rate_fast_per_s, d->rate_slow_per_s,
                  d->lead_mean_s, d->lead_p99_s, d->expected, d->spread,
                  d->dispersion, d->learned ? " learned" : "", d->hit_rate,
                  d->idle, d->hit_rate_seen, d->seen_claims);
    if (d->burst_unix_ms != 0 || d->due_unix_ms != 0) {
        (void)fprintf(s->out, " burst %lld due %lld",
                      (long long)d->burst_unix_ms, (long long)d->due_unix_ms);
    }
    if (d->at_once > 0 || d->queue_s > 0) {
        (void)fprintf(s->out, " at once %u%s %.5g/s queue %.3g s", d->at_once,
                      d->shared_bound ? " shared" : "", d->makes_per_s,
                      d->queue_s);
    }
    (void)fprintf(s->out, " best %.5f marginal %.3e wall %lld\n",
                  d->hit_rate_best, wp_scaler_marginal(s->w.scaler, d->target),
                  (long long)(d->wall_ns / WP_NS_PER_MS));
}

/* The first of each reason, and later one when much has changed. */
static void
decide(struct story *s)
{
    struct wp_scale_decision d = world_decide(&s->w);
    uint64_t passed = d.number - s->told.number;
    double moved = fabs((double)d.target - s->told.target);

    if (passed > 0 && (!s->seen[d.reason] || passed >= 100 ||
                       (passed >= 10 && moved > 4 + 0.4 * s->told.target))) {
        tell(s, &d);
        s->told = d;
        s->seen[d.reason] = true;
    }
}

/* Until then; what is due meanwhile is asked for when it is. */
static void
pass_to(struct story *s, int64_t mono_ns)
{
    while (s->w.next_ns <= mono_ns) {
        int64_t dt_ns = s->w.next_ns - s->w.view.mono_ns;

        s->target_s += s->w.view.ready * (double)dt_ns / S;
        s->w.view.mono_ns += dt_ns;
        s->w.view.wall_ns += dt_ns;
        decide(s);
    }
    s->target_s += s->w.view.ready * (double)(mono_ns - s->w.view.mono_ns) / S;
    s->w.view.wall_ns += mono_ns - s->w.view.mono_ns;
    s->w.view.mono_ns = mono_ns;
}

static void
pass(struct story *s, double dt_s)
{
    pass_to(s, s->w.view.mono_ns + (int64_t)(dt_s * S));
}

/* Claims of which what the target does not cover misses, as uneven as that:
 * 0: at equal distances, 1: independent of each other. */
static void
claims(struct story *s, int n, double each_s, double uneven)
{
    for (int i = 0; i < n; i++) {
        double gap = -log(1 - wp_rng_unit(&s->rng));
        uint32_t at_once = wp_rng_below(&s->rng, 16) == 0 ? 2 : 1;

        pass(s, each_s * (uneven * gap + 1 - uneven));
        wp_scaler_on_claims(s->w.scaler, s->w.view.mono_ns, at_once,
                            wp_rng_below(&s->rng, 500) == 0 ? 1 : 0);
        decide(s);
        if (i % 4 == 0) {
            wp_scaler_on_ready(s->w.scaler, s->w.view.mono_ns,
                               (int64_t)((6 + 5 * wp_rng_unit(&s->rng)) * S));
        }
    }
}

static void
doubles(struct story *s, const char *name, const double *values, size_t n)
{
    (void)fprintf(s->out, "%s", name);
    for (size_t i = 0; i < n; i++) {
        if (values[i] > 0) {
            (void)fprintf(s->out, " %zu:%.5g", i, values[i]);
        }
    }
    (void)fprintf(s->out, "\n");
}

static void
tell_learn(struct story *s, const struct wp_learn *learn)
{
    (void)fprintf(s->out,
                  "learn unit %.5g worth %.4g grouped %.5g %.5g missed %.4g "
                  "idle %.4g\n",
                  learn->unit, learn->worth_s, learn->grouped_claims,
                  learn->grouped_s, learn->missed, learn->idle);
    for (unsigned i = 0; i < WP_LEARN_STATES; i++) {
        double claims_of = 0;
        double least = -1;

        for (unsigned bin = 0; bin < WP_LEARN_BINS; bin++) {
            double in = (double)learn->claims[i][bin];

            claims_of += in * (bin + 1);
            least = least < 0 && learn->seconds[i][bin] > 0 ? bin : least;
        }
        if (claims_of > 0 || least >= 0) {
            (void)fprintf(s->out,
                          "  %u in %u: stock %u claims %.5g seen %.5g s %.5g s"
                          " from %g\n",
                          i, learn->group[i], learn->stock[i],
                          claims_of / learn->unit, wp_learn_seen_s(learn, i),
                          wp_learn_group_s(learn, i), least);
        }
    }
}

static void
tell_need(struct story *s, const struct wp_need *need)
{
    (void)fprintf(s->out,
                  "need slot %lld of %lld ms, %u a lead, at once %u behind %.5g"
                  " before %u %u%s now %u state %u least %u %u:",
                  (long long)need->slot, (long long)(need->slot_ns / 1000000),
                  need->n_slots, need->at_once, need->behind, need->plan_before,
                  need->state_before, need->due ? " due" : "",
                  wp_need_now(need), wp_need_state(need),
                  wp_need_least_state(need), wp_need_least_plan(need));
    for (unsigned i = 0; i < WP_NEED_SLOTS; i++) {
        (void)fprintf(s->out, " %u/%u/%u/%u", need->count[i], need->plan[i],
                      need->most[i], need->state[i]);
    }
    (void)fprintf(s->out, "\n");
}

static void
tell_reservations(struct story *s)
{
    struct wp_scale_reservation r;

    for (uint32_t i = 0; wp_scaler_reservation(s->w.scaler, i, &r); i++) {
        (void)fprintf(s->out, "reservation %s: %u of %u, %.2f to %.2f s\n",
                      r.id, r.left, r.n, (double)(r.from_wall_ns - WALL0) / S,
                      (double)(r.until_wall_ns - WALL0) / S);
    }
}

/* All that is known. */
static void
tell_all(struct story *s)
{
    const struct wp_scaler *scaler = s->w.scaler;

    (void)fprintf(s->out, "%llu decisions, mean target %.6g\n",
                  (unsigned long long)scaler->decisions,
                  s->target_s * S / (double)s->w.view.mono_ns);
    doubles(s, "count", scaler->windows.count, WP_WINDOWS);
    doubles(s, "seen", scaler->windows.seen, WP_WINDOWS);
    doubles(s, "lead", scaler->lead.weight, WP_LEAD_BINS);
    (void)fprintf(s->out,
                  "lead sum %.5g total %.5g unit %.5g long %.5g %.5g %.5g\n",
                  scaler->lead.sum_s, scaler->lead.total, scaler->lead.unit,
                  scaler->lead.long_sum_s, scaler->lead.long_sum_s2,
                  scaler->lead.long_total);
    tell_need(s, &scaler->need);
    (void)fprintf(s->out,
                  "trial %.5g missed %.5g in %.5g since %.5g apart %.5g%s\n",
                  scaler->trial.claims, scaler->trial.missed,
                  scaler->trial.episodes, scaler->trial.since_s,
                  scaler->trial.apart_s, scaler->trial.failed ? " failed" : "");
    for (uint32_t i = 0; i < scaler->bursts.n; i++) {
        (void)fprintf(s->out, "burst %.2f s: %u, missed %.5g\n",
                      (double)scaler->bursts.of[i].began_ns / S,
                      scaler->bursts.of[i].needed, scaler->bursts.of[i].missed);
    }
    (void)fprintf(s->out, "bursts latest %.2f s, spread %.5g, due %.4g s\n",
                  (double)scaler->bursts.latest_ns / S,
                  wp_bursts_spread(&scaler->bursts),
                  (double)wp_bursts_due_ns(&scaler->bursts, 0.001) / S);
    if (scaler->learn != NULL) {
        tell_learn(s, scaler->learn);
    }
    (void)fprintf(s->out,
                  "theory %u solve %.2f s slack %.5g %.5g %.5g background %.5g"
                  " %.2f s gap %.5g gaps %.5g %.5g %.5g last %.2f s seen %.5g"
                  " %.5g of %llu due %.2f s ordered %.2f s\n",
                  scaler->theory_stock, (double)scaler->solve_at_ns / S,
                  scaler->slack_log, scaler->slack_allowed,
                  scaler->theory_slack_log, scaler->background,
                  (double)scaler->background_ns / S, scaler->gap_s,
                  scaler->gaps.n, scaler->gaps.sum_s, scaler->gaps.squares_s2,
                  (double)scaler->last_claim_ns / S, scaler->claims_seen,
                  scaler->missed_seen, (unsigned long long)scaler->claims,
                  (double)scaler->due_ns / S, (double)scaler->ordered_ns / S);
    (void)fprintf(s->out, "hold part %lld step to %.2f s least %u:",
                  (long long)scaler->hold.part,
                  (double)scaler->hold.step_ends_ns / S, scaler->hold.least);
    for (unsigned i = 0; i < WP_HOLD_PARTS; i++) {
        (void)fprintf(s->out, " %u", scaler->hold.needed[i]);
    }
    (void)fprintf(s->out, "\n");
    tell_reservations(s);
}

/* The story is over: is it the one that is written down? */
static void
end(struct story *s, const char *name)
{
    char path[4096];

    tell_all(s);
    assert_true(ftell(s->out) < STORY_MAX - 1);
    assert_int_equal(fclose(s->out), 0);
    wp_scaler_destroy(s->w.scaler);
    (void)snprintf(path, sizeof path, "%s/%s.txt", WP_TEST_GOLDEN, name);
    golden_compare(s->text, path);
}

/* Traffic that rises and falls; then nothing comes, and it goes down to 0. */
static void
usual_traffic(void **state)
{
    struct story *s = begin(WP_MISS_LOST, 10);

    (void)state;
    world_start(&s->w);
    decide(s);
    claims(s, 600, 0.5, 1);
    claims(s, 2000, 0.1, 1);
    claims(s, 600, 0.6, 0.2);
    claims(s, 20, 30, 1);
    pass(s, 1800);
    claims(s, 30, 1, 1);
    end(s, "usual_traffic");
}

/* Claims wait, and what they cost is weighed. */
static void
cost(void **state)
{
    struct story *s = begin(WP_MISS_QUEUED, 0);

    (void)state;
    s->w.policy.objective = WP_SCALE_COST;
    s->w.policy.miss_cost_s = 90;
    s->w.policy.min = 2;
    world_start(&s->w);
    decide(s);
    claims(s, 500, 0.3, 1);
    for (int i = 0; i < 12; i++) {
        claims(s, 25, 6, 1);
        claims(s, 80, 0.02, 1);
    }
    end(s, "cost");
}

/* A batch every ten minutes, until it is known when it is due; and few can be
 * made at once. */
static void
bursts(void **state)
{
    struct story *s = begin(WP_MISS_LOST, 10);

    (void)state;
    s->w.policy.hit_rate = 0.98;
    world_start(&s->w);
    decide(s);
    for (int i = 0; i < 24; i++) {
        claims(s, 20, 29, 0.5);
        if (i == 12) {
            wp_scaler_set_at_once(s->w.scaler, s->w.view.mono_ns, 25);
        }
        claims(s, 90 + i % 5, 0.02, 1);
    }
    pass(s, 500);
    end(s, "bursts");
}

/* More come than can be made, by the pool's bound and by the backend's. */
static void
saturated(void **state)
{
    struct story *s = begin(WP_MISS_QUEUED, 5);

    (void)state;
    world_start(&s->w);
    decide(s);
    wp_scaler_set_at_once(s->w.scaler, 0, 12);
    claims(s, 300, 0.9, 1);
    claims(s, 200, 0.4, 1);
    claims(s, 200, 0.9, 1);
    s->w.view.backend_at_once = 40;
    s->w.view.others = 33.5;
    s->w.view.queue_s = 1.25;
    claims(s, 400, 0.5, 1);
    s->w.view.backend_at_once = 12;
    s->w.view.others = 0;
    claims(s, 400, 0.9, 0.3);
    wp_scaler_set_at_once(s->w.scaler, s->w.view.mono_ns, 0);
    claims(s, 100, 2, 1);
    end(s, "saturated");
}

static void
reserve(struct story *s, const char *id, uint32_t n, int64_t in_s, int64_t to_s)
{
    struct wp_err err;
    int64_t now_ns = s->w.view.wall_ns;

    assert_int_equal(wp_scaler_reserve(s->w.scaler, wp_str_from(id), n,
                                       now_ns + in_s * S, now_ns + to_s * S,
                                       &err),
                     WP_OK);
    decide(s);
}

/* What is announced is ordered, used up, cancelled and given up. */
static void
announced(void **state)
{
    struct story *s = begin(WP_MISS_LOST, 3);

    (void)state;
    world_start(&s->w);
    decide(s);
    claims(s, 300, 1, 1);
    reserve(s, "job", 200, 60, 90);
    reserve(s, "job-2", 50, 90, 200);
    reserve(s, "late", 7, 120, 500);
    reserve(s, "never", 9, 3000, 5000);
    pass(s, 58);
    claims(s, 150, 0.1, 1);
    pass(s, 5);
    claims(s, 30, 1, 1);
    assert_int_equal(wp_scaler_cancel(s->w.scaler, WP_STR("job-2")), WP_OK);
    decide(s);
    claims(s, 100, 1, 1);
    tell_reservations(s);
    claims(s, 100, 5, 1);
    end(s, "announced");
}

static void
set(struct world *w, const char *key, const char *value)
{
    struct wp_err err;

    assert_int_equal(wp_scale_policy_set(&w->policy, wp_str_from(key),
                                         wp_str_from(value), &err),
                     WP_OK);
}

/* Floors by the clock, a group's budget, no room, nothing that becomes ready,
 * and a hand. */
static void
bounded(void **state)
{
    struct story *s = begin(WP_MISS_LOST, 10);
    struct world *w = &s->w;

    (void)state;
    set(w, "schedule", "10 * * * * for 5m at least 60");
    set(w, "scale-down-window", "2m");
    set(w, "scale-down-rate", "20%");
    w->policy.max = 80;
    world_start(w);
    decide(s);
    claims(s, 900, 1, 1);
    w->view.budget = 12;
    claims(s, 100, 0.5, 1);
    w->view.budget = UINT32_MAX;
    w->view.room = 3;
    claims(s, 100, 0.3, 1);
    w->view.room = 0;
    w->view.warming = 4;
    claims(s, 100, 0.2, 1);
    w->view.room = UINT32_MAX;
    w->view.stuck = true;
    claims(s, 100, 0.1, 1);
    w->view.stuck = false;
    claims(s, 300, 0.05, 1);
    w->view.replicas = 17;
    claims(s, 20, 1, 1);
    set(w, "resume", "now");
    world_start(w);
    claims(s, 300, 2, 1);
    /* Nobody looks for a while; then the wall is set. */
    w->view.mono_ns += 300 * S;
    w->view.wall_ns += 300 * S;
    decide(s);
    w->view.wall_ns += 900 * S;
    decide(s);
    claims(s, 50, 2, 1);
    end(s, "bounded");
}

/* A day with a new image whose sandboxes take ten times as long. */
static void
slower(void **state)
{
    struct story *s = begin(WP_MISS_LOST, 10);

    (void)state;
    world_start(&s->w);
    decide(s);
    claims(s, 500, 0.5, 1);
    for (int i = 0; i < 400; i++) {
        pass(s, 0.7);
        wp_scaler_on_claims(s->w.scaler, s->w.view.mono_ns, 1, i % 40 == 0);
        wp_scaler_on_ready(s->w.scaler, s->w.view.mono_ns, (60 + i % 37) * S);
        decide(s);
    }
    for (int i = 0; i < 400; i++) {
        pass(s, 0.3);
        wp_scaler_on_claims(s->w.scaler, s->w.view.mono_ns, 1, 0);
        wp_scaler_on_ready(s->w.scaler, s->w.view.mono_ns,
                           (1 + i % 7) * S / 1000);
        decide(s);
    }
    end(s, "slower");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usual_traffic), cmocka_unit_test(cost),
        cmocka_unit_test(bursts),        cmocka_unit_test(saturated),
        cmocka_unit_test(announced),     cmocka_unit_test(bounded),
        cmocka_unit_test(slower),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
