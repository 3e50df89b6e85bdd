/* tests/unit/pool/refill/refill_test.c - the refill policy: what is created and given up,
 * the breaker, the advice to refused claims, and a simulated pool that must
 * never hold more than it should (I7). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "pool/refill/refill.h"

#define S WP_NS_PER_S
#define MS WP_NS_PER_MS

static struct wp_refill_view
view_of(uint32_t target, uint32_t ready, uint32_t warming, uint32_t waiting)
{
    return (struct wp_refill_view){
        .target = target,
        .ready = ready,
        .warming = warming,
        .waiting = waiting,
        .create_inflight_max = 32,
        .slots_free = 1000,
        .now_ns = 100 * S,
    };
}

static void
expect_plan(struct wp_refill *refill, struct wp_refill_view view,
            uint32_t create, uint32_t destroy, int64_t ask_again_ns)
{
    struct wp_refill_plan plan = wp_refill_plan(refill, &view);

    assert_int_equal(plan.create, create);
    assert_int_equal(plan.destroy, destroy);
    assert_int_equal(plan.ask_again_ns, ask_again_ns);
}

/* Each row: what is, and what follows. */
static void
test_plan(void **state)
{
    const struct {
        struct wp_refill_view view;
        uint32_t waiting_max;
        bool draining;
        uint32_t create;
        uint32_t destroy;
    } rows[] = {
        {view_of(0, 0, 0, 0), 0, false, 0, 0},
        {view_of(8, 0, 0, 0), 0, false, 8, 0},
        {view_of(8, 5, 3, 0), 0, false, 0, 0},
        {view_of(8, 5, 1, 0), 0, false, 2, 0},
        /* Bounded in flight. */
        {view_of(100, 0, 0, 0), 0, false, 32, 0},
        {view_of(100, 0, 30, 0), 0, false, 2, 0},
        {view_of(100, 0, 40, 0), 0, false, 0, 0},
        /* Waiting claims add to the target, up to a bound. */
        {view_of(8, 0, 8, 5), 0, false, 0, 0},
        {view_of(8, 0, 8, 5), UINT32_MAX, false, 5, 0},
        {view_of(8, 0, 8, 5), 8, false, 0, 0},
        {view_of(8, 0, 8, 5), 11, false, 3, 0},
        {view_of(8, 0, 5, 5), 4, false, 3, 0},
        {view_of(0, 0, 0, 5), UINT32_MAX, false, 5, 0},
        {view_of(0, 0, 2, 5), UINT32_MAX, false, 3, 0},
        /* Scale-down takes ready ones beyond the target, not because others are
         * warming, and never one that a waiting claim is about to get. */
        {view_of(2, 5, 0, 0), 0, false, 0, 3},
        {view_of(2, 2, 7, 0), 0, false, 0, 0},
        {view_of(2, 5, 0, 2), 0, false, 0, 1},
        {view_of(0, 500, 0, 0), 0, false, 0, WP_REFILL_BATCH_MAX},
        /* Draining. */
        {view_of(8, 5, 0, 0), 0, true, 0, 5},
        {view_of(8, 0, 0, 3), UINT32_MAX, true, 0, 0},
        /* Sums beyond 32 bits. */
        {view_of(UINT32_MAX, 0, 0, UINT32_MAX), UINT32_MAX, false, 32, 0},
        {view_of(0, UINT32_MAX, UINT32_MAX, 0), 0, false, 0,
         WP_REFILL_BATCH_MAX},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_refill refill;
        struct wp_refill_view view = rows[i].view;
        struct wp_refill_plan plan;

        view.waiting_max = rows[i].waiting_max;
        view.draining = rows[i].draining;
        wp_refill_init(&refill, 1);
        plan = wp_refill_plan(&refill, &view);
        if (plan.create != rows[i].create || plan.destroy != rows[i].destroy) {
            fail_msg("row %zu: create %u, destroy %u", i, plan.create,
                     plan.destroy);
        }
    }
}

/* What a batch did not hold is asked for again at once. */
static void
test_batches(void **state)
{
    struct wp_refill refill;
    struct wp_refill_view view = view_of(1000, 0, 0, 0);

    (void)state;
    wp_refill_init(&refill, 1);
    view.create_inflight_max = 500;
    expect_plan(&refill, view, WP_REFILL_BATCH_MAX, 0, view.now_ns);
    view.warming = 500 - WP_REFILL_BATCH_MAX;
    expect_plan(&refill, view, WP_REFILL_BATCH_MAX, 0, WP_TIME_NEVER);
    view = view_of(0, WP_REFILL_BATCH_MAX + 1, 0, 0);
    expect_plan(&refill, view, 0, WP_REFILL_BATCH_MAX, view.now_ns);
    view.ready = WP_REFILL_BATCH_MAX;
    expect_plan(&refill, view, 0, WP_REFILL_BATCH_MAX, WP_TIME_NEVER);
    view = view_of(10, 0, 0, 0);
    view.slots_free = 3;
    expect_plan(&refill, view, 3, 0, WP_TIME_NEVER);
}

static void
fail_times(struct wp_refill *refill, int n, int64_t now_ns)
{
    for (int i = 0; i < n; i++) {
        wp_refill_on_failed(refill, now_ns);
    }
}

/* Five failures in a row open it; one ready in between starts the count
 * anew. */
static void
test_breaker_opens_and_closes(void **state)
{
    struct wp_refill refill;
    struct wp_refill_view view = view_of(8, 0, 0, 0);
    int64_t wait;

    (void)state;
    wp_refill_init(&refill, 1);
    fail_times(&refill, WP_REFILL_BREAKER_FAILURES - 1, view.now_ns);
    assert_false(wp_refill_breaker_open(&refill));
    wp_refill_on_ready(&refill, 1 * S);
    fail_times(&refill, WP_REFILL_BREAKER_FAILURES - 1, view.now_ns);
    assert_false(wp_refill_breaker_open(&refill));
    expect_plan(&refill, view, 8, 0, WP_TIME_NEVER);

    wp_refill_on_failed(&refill, view.now_ns);
    assert_true(wp_refill_breaker_open(&refill));
    wait = wp_refill_breaker_retry_in_ns(&refill, view.now_ns);
    assert_in_range(wait, 750 * MS, 1 * S);
    expect_plan(&refill, view, 0, 0, view.now_ns + wait);

    /* One that was warming all along becomes ready: no reason to wait. */
    wp_refill_on_ready(&refill, 1 * S);
    assert_false(wp_refill_breaker_open(&refill));
    assert_int_equal(wp_refill_breaker_retry_in_ns(&refill, view.now_ns), 0);
    expect_plan(&refill, view, 8, 0, WP_TIME_NEVER);
}

/* Sandboxes that become ready and die soon: they open the breaker as failures
 * do, and it closes when one has lived, not when one is ready. */
static void
test_young_deaths(void **state)
{
    struct wp_refill refill;
    struct wp_refill_view view = view_of(8, 0, 0, 0);
    int64_t retry_ns;
    int64_t proven_ns;

    (void)state;
    wp_refill_init(&refill, 1);
    for (int i = 1; i < WP_REFILL_BREAKER_FAILURES; i++) {
        wp_refill_on_ready(&refill, 1 * S);
        wp_refill_on_died_young(&refill, view.now_ns);
    }
    assert_false(wp_refill_breaker_open(&refill));
    expect_plan(&refill, view, 8, 0, WP_TIME_NEVER);
    /* One is ready: until when it will have lived it counts for nothing. */
    wp_refill_on_ready(&refill, 1 * S);
    view.ready = 1;
    proven_ns = view.now_ns + WP_REFILL_YOUNG_NS;
    expect_plan(&refill, view, 7, 0, proven_ns);
    view.now_ns = proven_ns - 1;
    expect_plan(&refill, view, 7, 0, proven_ns);
    wp_refill_on_died_young(&refill, view.now_ns);
    view.ready = 0;
    assert_true(wp_refill_breaker_open(&refill));
    retry_ns =
        view.now_ns + wp_refill_breaker_retry_in_ns(&refill, view.now_ns);
    assert_in_range(retry_ns - view.now_ns, 750 * MS, 1 * S);
    expect_plan(&refill, view, 0, 0, retry_ns);
    view.now_ns = retry_ns - 1;
    expect_plan(&refill, view, 0, 0, retry_ns);
    view.now_ns = retry_ns;
    expect_plan(&refill, view, 1, 0, WP_TIME_NEVER);
    /* The probe is ready, and on trial: no other is made. */
    wp_refill_on_ready(&refill, 1 * S);
    view.ready = 1;
    proven_ns = view.now_ns + WP_REFILL_YOUNG_NS;
    expect_plan(&refill, view, 0, 0, proven_ns);
    assert_true(wp_refill_breaker_open(&refill));
    view.now_ns = proven_ns - 1;
    expect_plan(&refill, view, 0, 0, proven_ns);
    view.now_ns = proven_ns;
    expect_plan(&refill, view, 7, 0, WP_TIME_NEVER);
    assert_false(wp_refill_breaker_open(&refill));
    /* It has lived: as many must die again, and the waits begin anew. */
    for (int i = 1; i < WP_REFILL_BREAKER_FAILURES; i++) {
        wp_refill_on_died_young(&refill, view.now_ns);
    }
    assert_false(wp_refill_breaker_open(&refill));
    wp_refill_on_died_young(&refill, view.now_ns);
    assert_true(wp_refill_breaker_open(&refill));
    assert_in_range(wp_refill_breaker_retry_in_ns(&refill, view.now_ns),
                    750 * MS, 1 * S);
}

/* When the wait is over a single probe goes out; each that fails doubles the
 * wait up to a minute; the first that succeeds sets all back. */
/* Once those that became ready have lived, it is as if nothing had been. */
static void
test_a_trial_that_is_passed_leaves_nothing(void **state)
{
    struct wp_refill refill;
    struct wp_refill_view view = view_of(8, 0, 0, 0);
    int64_t proven_ns;

    (void)state;
    wp_refill_init(&refill, 1);
    wp_refill_on_create_refused(&refill, WP_RESOURCE_EXHAUSTED, view.now_ns);
    for (int i = 0; i < WP_REFILL_BREAKER_FAILURES; i++) {
        wp_refill_on_died_young(&refill, view.now_ns);
    }
    assert_true(wp_refill_breaker_open(&refill));
    view.now_ns += 10 * S;
    assert_int_equal(wp_refill_plan(&refill, &view).create, 1);
    wp_refill_on_ready(&refill, 3 * S);
    view.ready = 1;
    proven_ns = view.now_ns + WP_REFILL_YOUNG_NS;
    expect_plan(&refill, view, 0, 0, proven_ns);
    view.now_ns = proven_ns - 1;
    expect_plan(&refill, view, 0, 0, proven_ns);
    view.now_ns++;
    expect_plan(&refill, view, 7, 0, WP_TIME_NEVER);
    assert_int_equal(refill.breaker, WP_BREAKER_CLOSED);
    assert_int_equal(refill.failures_in_row, 0);
    assert_int_equal(refill.backoff_ns, WP_REFILL_BACKOFF_MIN_NS);
    assert_int_equal(refill.pause_ns, WP_REFILL_PAUSE_MIN_NS);
    assert_int_equal(refill.young_in_row, 0);
    assert_int_equal(refill.proven_at_ns, 0);
    assert_false(refill.on_trial);
    assert_int_equal(refill.lead_ns, 3 * S);
}

static void
test_breaker_probes_with_backoff(void **state)
{
    struct wp_refill refill;
    struct wp_refill_view view = view_of(8, 0, 0, 0);
    int64_t full = 1 * S;

    (void)state;
    wp_refill_init(&refill, 1);
    fail_times(&refill, WP_REFILL_BREAKER_FAILURES, view.now_ns);
    for (int i = 0; i < 10; i++) {
        int64_t wait = wp_refill_breaker_retry_in_ns(&refill, view.now_ns);

        assert_in_range(wait, full / 4 * 3, full);
        view.now_ns += wait - 1;
        expect_plan(&refill, view, 0, 0, view.now_ns + 1);
        view.now_ns += 1;
        expect_plan(&refill, view, 1, 0, WP_TIME_NEVER);
        view.warming = 1;
        view.now_ns += 10 * S;
        expect_plan(&refill, view, 0, 0, WP_TIME_NEVER);
        view.warming = 0;
        wp_refill_on_failed(&refill, view.now_ns);
        full = 2 * full > 60 * S ? 60 * S : 2 * full;
    }
    view.now_ns += 60 * S;
    expect_plan(&refill, view, 1, 0, WP_TIME_NEVER);
    wp_refill_on_ready(&refill, 1 * S);
    view.ready = 1;
    expect_plan(&refill, view, 7, 0, WP_TIME_NEVER);
    fail_times(&refill, WP_REFILL_BREAKER_FAILURES, view.now_ns);
    assert_in_range(wp_refill_breaker_retry_in_ns(&refill, view.now_ns),
                    750 * MS, 1 * S);
}

/* Sandboxes ordered before the breaker opened do not lengthen its wait when
 * they fail too, and hold the probe back while they may still become ready. */
static void
test_breaker_and_stragglers(void **state)
{
    struct wp_refill refill;
    struct wp_refill_view view = view_of(8, 0, 3, 0);
    int64_t wait;

    (void)state;
    wp_refill_init(&refill, 1);
    fail_times(&refill, WP_REFILL_BREAKER_FAILURES, view.now_ns);
    wait = wp_refill_breaker_retry_in_ns(&refill, view.now_ns);
    fail_times(&refill, 2, view.now_ns);
    view.warming = 1;
    assert_int_equal(wp_refill_breaker_retry_in_ns(&refill, view.now_ns), wait);
    view.now_ns += wait + 1 * S;
    expect_plan(&refill, view, 0, 0, WP_TIME_NEVER);
    wp_refill_on_failed(&refill, view.now_ns);
    view.warming = 0;
    expect_plan(&refill, view, 1, 0, WP_TIME_NEVER);
}

/* A probe that went away unreported (its pool was scaled down) is replaced. */
static void
test_lost_probe_is_replaced(void **state)
{
    struct wp_refill refill;
    struct wp_refill_view view = view_of(8, 0, 0, 0);

    (void)state;
    wp_refill_init(&refill, 1);
    fail_times(&refill, WP_REFILL_BREAKER_FAILURES, 0);
    expect_plan(&refill, view, 1, 0, WP_TIME_NEVER);
    view.warming = 1;
    expect_plan(&refill, view, 0, 0, WP_TIME_NEVER);
    view.warming = 0;
    expect_plan(&refill, view, 1, 0, WP_TIME_NEVER);
}

/* A full backend is asked again after pauses that double; another refusal is a
 * failure like any. */
static void
test_refused_creations(void **state)
{
    struct wp_refill refill;
    struct wp_refill_view view = view_of(8, 0, 0, 0);
    int64_t pause = WP_REFILL_PAUSE_MIN_NS;

    (void)state;
    wp_refill_init(&refill, 1);
    for (int i = 0; i < 10; i++) {
        wp_refill_on_create_refused(&refill, WP_RESOURCE_EXHAUSTED,
                                    view.now_ns);
        expect_plan(&refill, view, 0, 0, view.now_ns + pause);
        view.now_ns += pause;
        expect_plan(&refill, view, 8, 0, WP_TIME_NEVER);
        pause = 2 * pause > 1 * S ? 1 * S : 2 * pause;
    }
    assert_false(wp_refill_breaker_open(&refill));
    /* One that becomes ready shows that there is room: it begins anew. */
    wp_refill_on_ready(&refill, S);
    wp_refill_on_create_refused(&refill, WP_RESOURCE_EXHAUSTED, view.now_ns);
    expect_plan(&refill, view, 0, 0, view.now_ns + WP_REFILL_PAUSE_MIN_NS);
    for (int i = 0; i < WP_REFILL_BREAKER_FAILURES; i++) {
        wp_refill_on_create_refused(&refill, WP_INTERNAL, view.now_ns);
    }
    assert_true(wp_refill_breaker_open(&refill));
}

/* Two pools whose breakers open together do not probe together. */
static void
test_jitter_differs_by_seed(void **state)
{
    struct wp_refill a;
    struct wp_refill b;

    (void)state;
    wp_refill_init(&a, 1);
    wp_refill_init(&b, 2);
    fail_times(&a, WP_REFILL_BREAKER_FAILURES, 0);
    fail_times(&b, WP_REFILL_BREAKER_FAILURES, 0);
    assert_int_not_equal(wp_refill_breaker_retry_in_ns(&a, 0),
                         wp_refill_breaker_retry_in_ns(&b, 0));
}

static void
test_lead_time_decays(void **state)
{
    struct wp_refill refill;

    (void)state;
    wp_refill_init(&refill, 1);
    assert_int_equal(wp_refill_lead_ns(&refill), WP_REFILL_LEAD_GUESS_NS);
    /* It was found, not ordered here: it says nothing of lead times. */
    wp_refill_on_ready(&refill, -1);
    assert_false(wp_refill_lead_measured(&refill));
    assert_int_equal(wp_refill_lead_ns(&refill), WP_REFILL_LEAD_GUESS_NS);
    wp_refill_on_ready(&refill, 100 * MS);
    assert_true(wp_refill_lead_measured(&refill));
    assert_int_equal(wp_refill_lead_ns(&refill), 100 * MS);
    wp_refill_on_ready(&refill, 200 * MS);
    assert_int_equal(wp_refill_lead_ns(&refill), 120 * MS);
    for (int i = 0; i < 100; i++) {
        wp_refill_on_ready(&refill, 2 * S);
    }
    assert_in_range(wp_refill_lead_ns(&refill), 1999 * MS, 2 * S);
}

static int64_t
retry_after(const struct wp_refill *refill, struct wp_refill_view view)
{
    return wp_refill_retry_after_ns(refill, &view);
}

/* The formula in the header, worked through by hand for a lead time of 1 s. */
static void
test_retry_after(void **state)
{
    struct wp_refill refill;
    struct wp_refill_view view;

    (void)state;
    wp_refill_init(&refill, 1);
    wp_refill_on_ready(&refill, 1 * S);
    assert_int_equal(retry_after(&refill, view_of(3, 0, 3, 0)), 250 * MS);
    assert_int_equal(retry_after(&refill, view_of(3, 0, 3, 2)), 750 * MS);
    /* One more than are warming: a lead time, and a quarter of the next lot. */
    assert_int_equal(retry_after(&refill, view_of(3, 0, 3, 3)), 1250 * MS);
    assert_int_equal(retry_after(&refill, view_of(4, 0, 0, 0)), 1200 * MS);
    /* Bounds. */
    assert_int_equal(retry_after(&refill, view_of(1, 0, 1, 4000000)), 60 * S);
    assert_int_equal(retry_after(&refill, view_of(0, 0, 0, 0)), 60 * S);
    assert_int_equal(retry_after(&refill, view_of(4096, 0, 4096, 0)), 10 * MS);
    view = view_of(4, 0, 0, 0);
    view.slots_free = 0;
    assert_int_equal(retry_after(&refill, view), 60 * S);
    view = view_of(4, 0, 0, 0);
    view.draining = true;
    assert_int_equal(retry_after(&refill, view), 60 * S);
    /* The breaker's wait comes before the first creation. */
    view = view_of(4, 0, 0, 0);
    fail_times(&refill, WP_REFILL_BREAKER_FAILURES, view.now_ns);
    assert_in_range(retry_after(&refill, view), 1950 * MS, 2200 * MS);
}

/* --- A pool whose sandboxes live, fail and are claimed at random. --- */

struct sim {
    struct wp_refill refill;
    struct wp_refill_view view;
    struct wp_rng rng;
    uint32_t fail_percent;
    uint32_t created;
};

static void
sim_plan(struct sim *sim)
{
    struct wp_refill_view *view = &sim->view;
    struct wp_refill_plan plan = wp_refill_plan(&sim->refill, view);
    uint64_t most = view->target;

    if (most < view->waiting_max) {
        most = most + view->waiting < view->waiting_max ? most + view->waiting
                                                        : view->waiting_max;
    }
    assert_true(plan.create == 0 || plan.destroy == 0);
    assert_true(plan.destroy <= view->ready);
    assert_true(plan.create <= WP_REFILL_BATCH_MAX);
    assert_true(plan.create == 0 || !view->draining);
    assert_true(plan.create == 0 ||
                view->ready + view->warming + plan.create <= most);
    assert_true(plan.create == 0 ||
                view->warming + plan.create <= view->create_inflight_max);
    assert_true(plan.create <= view->slots_free);
    view->ready -= plan.destroy;
    view->warming += plan.create;
    sim->created += plan.create;
}

static void
sim_step(struct sim *sim)
{
    struct wp_refill_view *view = &sim->view;

    view->now_ns += (int64_t)wp_rng_below(&sim->rng, 400 * MS);
    switch (wp_rng_below(&sim->rng, 8)) {
    case 0:
    case 1:
    case 2:
        if (view->warming == 0) {
            break;
        }
        view->warming--;
        if (wp_rng_below(&sim->rng, 100) < sim->fail_percent) {
            wp_refill_on_failed(&sim->refill, view->now_ns);
        } else {
            wp_refill_on_ready(&sim->refill, 50 * MS);
            if (view->waiting > 0) {
                view->waiting--;
            } else {
                view->ready++;
            }
        }
        break;
    case 3:
    case 4:
        if (view->ready > 0) {
            view->ready--;
        } else if (view->waiting < 20) {
            view->waiting++;
        }
        break;
    case 5:
        view->waiting -= view->waiting > 0;
        break;
    case 6:
        if (wp_rng_below(&sim->rng, 20) == 0) {
            view->target = (uint32_t)wp_rng_below(&sim->rng, 50);
            view->draining = wp_rng_below(&sim->rng, 10) == 0;
        }
        break;
    default:
        if (wp_rng_below(&sim->rng, 10) == 0) {
            wp_refill_on_create_refused(&sim->refill, WP_RESOURCE_EXHAUSTED,
                                        view->now_ns);
        }
        break;
    }
    sim_plan(sim);
}

/* I7 at every step, whatever fails; and once things go well, the target. */
static void
test_never_more_than_wanted(void **state)
{
    const char *given = getenv("WP_TEST_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : 20260131;

    (void)state;
    print_message("seed %llu (set WP_TEST_SEED to change)\n",
                  (unsigned long long)seed);
    for (uint64_t run = 0; run < 60; run++) {
        struct sim sim = {.view = view_of(20, 0, 0, 0),
                          .fail_percent = (uint32_t)(run % 4) * 33};

        sim.view.waiting_max = run % 3 == 0   ? UINT32_MAX
                               : run % 3 == 1 ? 30
                                              : 0;
        wp_rng_init(&sim.rng, seed + run);
        wp_refill_init(&sim.refill, seed + run);
        for (int i = 0; i < 2000; i++) {
            sim_step(&sim);
        }
        sim.view.draining = false;
        sim.view.target = 20;
        sim.view.waiting = 0;
        for (int i = 0; i < 500; i++) {
            sim.view.now_ns += 1 * S;
            if (sim.view.warming > 0) {
                sim.view.warming--;
                sim.view.ready++;
                wp_refill_on_ready(&sim.refill, 50 * MS);
            }
            sim_plan(&sim);
        }
        assert_int_equal(sim.view.ready, 20);
        assert_int_equal(sim.view.warming, 0);
    }
}

/* With a backend where nothing ever becomes ready, an hour costs five and then
 * about one creation a minute, not thousands. */
static void
test_no_runaway(void **state)
{
    struct sim sim = {.view = view_of(5, 0, 0, 0)};

    (void)state;
    wp_refill_init(&sim.refill, 1);
    for (int64_t ms = 0; ms < 3600 * 1000; ms += 10) {
        sim.view.now_ns = ms * MS;
        sim_plan(&sim);
        while (sim.view.warming > 0) {
            sim.view.warming--;
            wp_refill_on_failed(&sim.refill, sim.view.now_ns);
        }
    }
    assert_in_range(sim.created, 60, 95);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_breaker_opens_and_closes),
        cmocka_unit_test(test_young_deaths),
        cmocka_unit_test(test_a_trial_that_is_passed_leaves_nothing),
        cmocka_unit_test(test_breaker_probes_with_backoff),
        cmocka_unit_test(test_breaker_and_stragglers),
        cmocka_unit_test(test_lost_probe_is_replaced),
        cmocka_unit_test(test_refused_creations),
        cmocka_unit_test(test_jitter_differs_by_seed),
        cmocka_unit_test(test_lead_time_decays),
        cmocka_unit_test(test_retry_after),
        cmocka_unit_test(test_never_more_than_wanted),
        cmocka_unit_test(test_no_runaway),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
