/* tests/unit/allocator/advice/advice_parts_test.c - an advice without replays:
 * what it makes of a history, and how each row is replayed. The replay and its
 * policies are fakes, each of which writes down what it was asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "allocator/advice/advice_parts.h"
#include "pool/base/clock.h"
#include "pool/history/history.h"
#include "tests/support/base/journal.h"

#define MS WP_NS_PER_MS
#define S WP_NS_PER_S
#define HOUR (3600 * S)

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
bool __real_wp_replay_source_history(const struct wp_history *history,
                                     struct wp_replay_source *out);
bool __wrap_wp_replay_source_history(const struct wp_history *history,
                                     struct wp_replay_source *out);
bool __wrap_wp_replay_policy_ours(const struct wp_scale_policy *policy,
                                  enum wp_miss miss, uint32_t replicas,
                                  int64_t prior_lead_ns, int64_t start_wall_ns,
                                  struct wp_replay_policy *out);
void __wrap_wp_replay_policy_ours_at_once(const struct wp_replay_policy *ours,
                                          uint32_t n);
bool __wrap_wp_replay_policy_fixed(uint32_t size, struct wp_replay_policy *out);
bool __wrap_wp_replay_policy_clairvoyant(struct wp_replay_source future,
                                         double ahead_s,
                                         struct wp_replay_policy *out);
enum wp_status __wrap_wp_replay_run(const struct wp_replay_config *config,
                                    struct wp_replay_policy *policy,
                                    struct wp_replay_result *out,
                                    struct wp_err *err);

static unsigned
    fails_at; /* The n-th that is asked for from here on; 0: none. */

static bool
fails(void)
{
    return fails_at > 0 && --fails_at == 0;
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *
__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

/* ------------------------------------------------------ what is made of it */

static void
add(struct wp_history *history, enum wp_history_kind kind, int64_t ms,
    uint32_t n, int64_t lead_ms)
{
    wp_history_add(
        history, ms * MS,
        &(struct wp_history_event){
            .kind = kind, .wall_ns = ms * MS, .n = n, .lead_ns = lead_ms * MS});
}

static void
journal_advice(const struct wp_advice *advice)
{
    const struct wp_advice_facts *f = wp_advice_facts(advice);
    uint64_t sum = 0;

    for (uint32_t i = 0; i < advice->lead.n_measured; i++) {
        sum = sum * 31 + (uint64_t)advice->lead.measured_ns[i];
    }
    journal("  %lld to %lld ms, known %lld, run-up %lld, %llu claims %llu "
            "dropped %u gaps %u leads %.6g %.6g at once %u peaks %u",
            (long long)(f->from_wall_ns / MS),
            (long long)(f->until_wall_ns / MS), (long long)(f->known_ns / MS),
            (long long)(f->run_up_ns / MS), (unsigned long long)f->claims,
            (unsigned long long)f->dropped, f->n_gaps, f->n_leads,
            f->lead_mean_s, f->lead_p99_s, f->at_once, f->peaks);
    journal_line();
    journal("  begins %lld ends %lld, lead %.6g of %u: %llx",
            (long long)(advice->begin_ns / MS),
            (long long)(advice->end_ns / MS), advice->lead.median_s,
            advice->lead.n_measured, (unsigned long long)sum);
    journal_line();
    for (uint32_t i = 0; i < wp_advice_n_rows(advice); i++) {
        const struct wp_advice_row *row = wp_advice_row(advice, i);

        journal("    %d '%s' '%s' %g %u%s", row->kind, row->name, row->setting,
                row->objective, row->size, row->done ? " done" : "");
        journal_line();
    }
}

static void
advise(const char *what, const struct wp_advice_config *config)
{
    struct wp_advice *advice = (struct wp_advice *)1;
    struct wp_err err = {.msg = ""};
    enum wp_status status = wp_advice_create(config, &advice, &err);

    journal("%s", what);
    journal_line();
    if (status == WP_OK) {
        journal_advice(advice);
    } else {
        assert_null(advice);
        journal("  %s %s", wp_status_name(status), err.msg);
        journal_line();
    }
    wp_advice_destroy(advice);
}

static struct wp_advice_config
config_of(const struct wp_history *history)
{
    struct wp_advice_config config = {.history = history, .seed = 3};

    wp_scale_policy_init(&config.policy);
    return config;
}

/* From 0 ms on, with one claim each 10 s, and two crowds of 7 an hour apart. */
static struct wp_history *
crowds(void)
{
    struct wp_history *history = wp_history_create(1 << 20);

    assert_non_null(history);
    add(history, WP_HISTORY_GAP, 0, 0, 0);
    for (int64_t s = 10; s < 7200; s += 10) {
        add(history, WP_HISTORY_CLAIMS, 1000 * s, 1, 0);
        if (s % 30 == 0) {
            add(history, WP_HISTORY_READY, 1000 * s, 0, 20000 - s);
        }
        if (s == 1000 || s == 4600) {
            add(history, WP_HISTORY_CLAIMS, 1000 * s + 500, 7, 0);
        }
    }
    add(history, WP_HISTORY_GAP, 7200 * 1000, 0, 0);
    add(history, WP_HISTORY_CLAIMS, 7300 * 1000, 1, 0);
    return history;
}

static void
test_what_is_made_of_a_history(void **state)
{
    struct wp_history *history = crowds();
    struct wp_advice_config config = config_of(history);

    (void)state;
    advise("by itself", &config);
    config.has_today = true;
    config.replicas = 17;
    advise("with today's size", &config);
    config.policy.objective = WP_SCALE_COST;
    config.policy.miss_cost_s = 2.5;
    config.policy.min = 3;
    config.policy.max = 44;
    config.lead_ns = 12 * S;
    advise("with a price, and a lead time", &config);
    config.policy.objective = WP_SCALE_HIT_RATE;
    config.policy.hit_rate = 0.999;
    advise("with an objective that is there", &config);
    config.policy.hit_rate = 0.97;
    config.n_objectives = 3;
    config.objectives[0] = 0.5;
    config.objectives[1] = 0.9;
    config.objectives[2] = 0.9;
    config.at_once = 2;
    advise("with another one, and objectives of its own", &config);
    config.has_today = false;
    config.at_once = 4096;
    advise("so many at once", &config);
    config.at_once = 4097;
    advise("more than are looked at", &config);
    wp_history_destroy(history);
    journal_compare(WP_TEST_GOLDEN "/advice_made.txt");
}

static void
test_short_and_long_histories(void **state)
{
    static const int64_t ends_ms[] = {INT64_C(864000) * 1000,
                                      INT64_C(864000) * 1000 + 10000,
                                      INT64_C(950000) * 1000};
    struct wp_history *history = wp_history_create(1 << 20);
    struct wp_advice_config config = config_of(history);

    (void)state;
    advise("nothing", &config);
    add(history, WP_HISTORY_CLAIMS, 5000, 9, 0);
    advise("nine", &config);
    add(history, WP_HISTORY_CLAIMS, 5000, 1, 0);
    advise("ten, no lead", &config);
    config.lead_ns = 1;
    advise("ten at one moment", &config);
    config.lead_ns = 0;
    add(history, WP_HISTORY_READY, 5000, 0, 3000);
    advise("ten at one moment, a lead", &config);
    add(history, WP_HISTORY_READY, 6000, 0, 1000);
    advise("ten in a second, two leads", &config);
    wp_history_destroy(history);
    history = wp_history_create(1 << 20);
    config = config_of(history);
    add(history, WP_HISTORY_CLAIMS, 0, 10, 0);
    add(history, WP_HISTORY_READY, 0, 0, 3000);
    add(history, WP_HISTORY_GAP, 0, 0, 0);
    add(history, WP_HISTORY_CLAIMS, 10000, 1, 0);
    add(history, WP_HISTORY_CLAIMS, 30000, 1, 0);
    advise("a gap from the first moment on", &config);
    wp_history_destroy(history);
    for (size_t i = 0; i < WP_ARRAY_LEN(ends_ms); i++) {
        history = wp_history_create(1 << 20);
        config = config_of(history);
        config.lead_ns = 61 * S;
        config.n_objectives = 1;
        config.objectives[0] = 0.99;
        for (int64_t k = 0; k <= 10; k++) {
            add(history, WP_HISTORY_CLAIMS, ends_ms[i] * k / 10, 1, 0);
        }
        advise("days", &config);
        wp_history_destroy(history);
    }
    journal_compare(WP_TEST_GOLDEN "/advice_short.txt");
}

/* Of more lead times than are kept a sample stands for all. */
static void
test_a_sample_of_lead_times(void **state)
{
    static const uint32_t counts[] = {100, 101, 8191, 8192, 8193, 20000};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(counts); i++) {
        struct wp_history *history = wp_history_create(4 << 20);
        struct wp_advice_config config = config_of(history);
        struct wp_advice *advice;
        struct wp_err err;

        add(history, WP_HISTORY_CLAIMS, 0, 10, 0);
        for (uint32_t k = 0; k < counts[i]; k++) {
            add(history, WP_HISTORY_READY, 1000, 0,
                1 + (int64_t)k * 7919 % 10007);
        }
        config.n_objectives = 1;
        config.objectives[0] = 0.9;
        assert_int_equal(wp_advice_create(&config, &advice, &err), WP_OK);
        journal_advice(advice);
        for (uint32_t k = 1; k < advice->lead.n_measured; k++) {
            assert_true(advice->lead.measured_ns[k - 1] <=
                        advice->lead.measured_ns[k]);
        }
        wp_advice_destroy(advice);
        wp_history_destroy(history);
    }
    journal_compare(WP_TEST_GOLDEN "/advice_sample.txt");
}

static void
test_memory_lacks_for_an_advice(void **state)
{
    struct wp_history *history = crowds();
    struct wp_advice_config config = config_of(history);
    struct wp_advice *advice;
    enum wp_status status;
    unsigned n = 0;

    (void)state;
    config.at_once = 100;
    do {
        struct wp_err err = {.msg = ""};

        fails_at = ++n;
        status = wp_advice_create(&config, &advice, &err);
        if (status != WP_OK) {
            assert_int_equal(status, WP_RESOURCE_EXHAUSTED);
            assert_string_equal(err.msg, "advice: no memory");
            assert_null(advice);
        }
    } while (status != WP_OK);
    assert_in_range(n, 6, 30);
    fails_at = 0;
    wp_advice_destroy(advice);
    wp_history_destroy(history);
}

/* ------------------------------------------------------- how it is replayed */

static struct wp_history *history_given;
static int sources_fail_at; /* The n-th; 0: none. */
static bool policy_fails;
static bool stops;
static enum wp_status run_status;
static unsigned plays; /* What the replay does with the policy. */

static void
inner_on_claims(void *self, int64_t now_ns, uint32_t n, uint32_t missed)
{
    assert_ptr_equal(self, &plays);
    journal("    told at %lld: %u, %u", (long long)(now_ns / MS), n, missed);
    journal_line();
}

static void
inner_on_ready(void *self, int64_t now_ns, int64_t lead_ns)
{
    assert_ptr_equal(self, &plays);
    journal("    told at %lld: after %lld", (long long)(now_ns / MS),
            (long long)(lead_ns / MS));
    journal_line();
}

static uint32_t inner_asked;

/* Each time it is asked it wants one more, and to be asked 5 s later. */
static uint32_t
inner_target(void *self, const struct wp_replay_view *view, int64_t *next_ns)
{
    assert_ptr_equal(self, &plays);
    *next_ns = view->now_ns + 5 * S;
    return ++inner_asked;
}

static void
inner_destroy(void *self)
{
    assert_ptr_equal(self, &plays);
    journal("    destroyed");
    journal_line();
}

static bool
make_inner(bool learns, struct wp_replay_policy *out)
{
    *out =
        (struct wp_replay_policy){.self = &plays,
                                  .on_claims = learns ? inner_on_claims : NULL,
                                  .on_ready = learns ? inner_on_ready : NULL,
                                  .target = inner_target,
                                  .destroy = learns ? inner_destroy : NULL};
    inner_asked = 0;
    return !policy_fails;
}

bool
__wrap_wp_replay_source_history(const struct wp_history *history,
                                struct wp_replay_source *out)
{
    if (history_given != NULL) {
        assert_ptr_equal(history, history_given);
        if (sources_fail_at > 0 && --sources_fail_at == 0) {
            return false;
        }
    }
    return __real_wp_replay_source_history(history, out);
}

bool
__wrap_wp_replay_policy_ours(const struct wp_scale_policy *policy,
                             enum wp_miss miss, uint32_t replicas,
                             int64_t prior_lead_ns, int64_t start_wall_ns,
                             struct wp_replay_policy *out)
{
    journal("  ours: %d %g %g min %u max %u down %lld %g, miss %d replicas %u "
            "lead %lld from %lld",
            policy->objective, policy->hit_rate, policy->miss_cost_s,
            policy->min, policy->max, (long long)(policy->down_window_ns / S),
            policy->down_rate, miss, replicas, (long long)(prior_lead_ns / MS),
            (long long)(start_wall_ns / MS));
    journal_line();
    return make_inner(true, out);
}

void
__wrap_wp_replay_policy_ours_at_once(const struct wp_replay_policy *ours,
                                     uint32_t n)
{
    assert_ptr_equal(ours->self, &plays);
    journal("  at once %u", n);
    journal_line();
}

bool
__wrap_wp_replay_policy_fixed(uint32_t size, struct wp_replay_policy *out)
{
    journal("  fixed %u", size);
    journal_line();
    return make_inner(false, out);
}

bool
__wrap_wp_replay_policy_clairvoyant(struct wp_replay_source future,
                                    double ahead_s,
                                    struct wp_replay_policy *out)
{
    assert_non_null(future.next);
    assert_non_null(future.self);
    journal("  clairvoyant %.6g s", ahead_s);
    journal_line();
    return make_inner(true, out);
}

static void
ask(struct wp_replay_policy *policy, int64_t now_ms, uint32_t ready)
{
    const struct wp_replay_view view = {.now_ns = now_ms * MS, .ready = ready};
    int64_t next_ns = -1;
    uint32_t to = policy->target(policy->self, &view, &next_ns);

    journal("    at %lld with %u: %u, again at %lld", (long long)now_ms, ready,
            to, (long long)(next_ns / MS));
    journal_line();
}

/* The policy is asked again only when something presses, or its pause is over
 * and something has come, or it wished to be. */
static void
play_questions(struct wp_replay_policy *policy)
{
    ask(policy, 1000, 10);
    ask(policy, 1001, 10);
    policy->on_claims(policy->self, 1002 * MS, 1, 0);
    ask(policy, 1002, 9);
    ask(policy, 1003, 5);
    ask(policy, 1003, 4);
    policy->on_claims(policy->self, 1004 * MS, 2, 1);
    ask(policy, 1004, 4);
    ask(policy, 1005, 3);
    policy->on_ready(policy->self, 1006 * MS, 77 * MS);
    ask(policy, 1006, 4);
    for (int64_t ms = 1050; ms <= 1070; ms++) {
        ask(policy, ms, 4);
    }
    ask(policy, 6060, 4);
    ask(policy, 6069, 4);
    ask(policy, 6150, 4);
    policy->on_ready(policy->self, 6151 * MS, 77 * MS);
    ask(policy, 6151, 5);
    ask(policy, 12000, 5);
}

/* Claims over the whole time, of which some are missed. */
static void
play_claims(const struct wp_replay_config *config,
            struct wp_replay_policy *policy)
{
    int64_t span_ns = config->end_ns - config->begin_ns;

    policy->on_claims(policy->self, config->begin_ns - 1, 1000, 1000);
    for (int64_t i = 0; i <= 40; i++) {
        policy->on_claims(policy->self, config->begin_ns + span_ns * i / 40,
                          10 + (uint32_t)i, i % 7 == 0 ? (uint32_t)i / 2 : 0);
    }
}

enum wp_status
__wrap_wp_replay_run(const struct wp_replay_config *config,
                     struct wp_replay_policy *policy,
                     struct wp_replay_result *out, struct wp_err *err)
{
    journal("  replay of '%s' lead %.6g of %u miss %d none %d from %lld to "
            "%lld at once %u ceiling %u seed %llu%s",
            policy->name, config->lead.median_s, config->lead.n_measured,
            config->miss, config->waiting_orders_none,
            (long long)(config->begin_ns / MS),
            (long long)(config->end_ns / MS), config->inflight_max,
            config->ceiling, (unsigned long long)config->seed,
            config->progress != NULL ? " with progress" : "");
    journal_line();
    assert_non_null(config->source.next);
    if (plays == 1) {
        play_questions(policy);
    } else if (plays == 2) {
        play_claims(config, policy);
    } else if (plays == 3) {
        policy->on_claims(policy->self, config->begin_ns, 100, 0);
    } else if (plays == 4) {
        policy->on_claims(policy->self, config->end_ns, 5, 5);
    }
    *out = (struct wp_replay_result){.stock_max = 7, .stopped = stops};
    return run_status == WP_OK ? WP_OK : wp_err_set(err, run_status, "no run");
}

static bool
on_progress(void *ctx, double share)
{
    (void)ctx;
    (void)share;
    return true;
}

static void
run_row(struct wp_advice *advice, uint32_t i)
{
    struct wp_err err = {.msg = ""};
    const struct wp_advice_row *row = wp_advice_row(advice, i);
    enum wp_status status;

    journal("row %u", i);
    journal_line();
    advice->rows[i].done = false;
    advice->rows[i].hit_low = advice->rows[i].hit_high = 77;
    status =
        wp_advice_run(advice, i, i == 0 ? on_progress : NULL, advice, &err);
    journal("  %s '%s': '%s' %.9g to %.9g%s", wp_status_name(status), err.msg,
            row->setting, row->hit_low, row->hit_high,
            row->done ? " done" : "");
    journal_line();
}

static struct wp_advice *
advice_of(struct wp_history *history, enum wp_scale_objective objective)
{
    struct wp_advice_config config = config_of(history);
    struct wp_advice *advice;
    struct wp_err err;

    config.has_today = true;
    config.replicas = 5;
    config.miss = WP_MISS_QUEUED;
    config.policy.objective = objective;
    config.policy.hit_rate = 0.9;
    config.policy.miss_cost_s = 2;
    config.policy.min = 1;
    config.policy.max = 9;
    config.policy.down_window_ns = 7 * S;
    config.n_objectives = 1;
    config.objectives[0] = 0.99;
    config.lead_ns = 1500 * MS;
    assert_int_equal(wp_advice_create(&config, &advice, &err), WP_OK);
    return advice;
}

static int
begin(void **state)
{
    (void)state;
    history_given = NULL;
    sources_fail_at = 0;
    policy_fails = stops = false;
    run_status = WP_OK;
    plays = 0;
    return 0;
}

static void
test_how_rows_are_replayed(void **state)
{
    struct wp_history *history = crowds();

    (void)state;
    for (enum wp_scale_objective o = WP_SCALE_PLAIN; o <= WP_SCALE_COST; o++) {
        struct wp_advice *advice;

        history_given = NULL;
        advice = advice_of(history, o);
        history_given = history;
        for (uint32_t i = 0; i < wp_advice_n_rows(advice); i++) {
            run_row(advice, i);
        }
        advice->config.cold_start = true;
        advice->config.at_once = 3;
        advice->config.miss = WP_MISS_LOST;
        for (uint32_t i = 0; i < wp_advice_n_rows(advice); i++) {
            run_row(advice, i);
        }
        wp_advice_destroy(advice);
    }
    wp_history_destroy(history);
    journal_compare(WP_TEST_GOLDEN "/advice_rows.txt");
}

static void
test_how_often_a_policy_is_asked(void **state)
{
    struct wp_history *history = crowds();
    struct wp_advice *advice = advice_of(history, WP_SCALE_PLAIN);

    (void)state;
    plays = 1;
    run_row(advice, 0);
    advice->facts.known_ns = 150000 * 50 * MS + 149999;
    advice->facts.claims = 75000;
    run_row(advice, 1);
    advice->facts.claims = 75001;
    run_row(advice, 1);
    wp_advice_destroy(advice);
    wp_history_destroy(history);
    journal_compare(WP_TEST_GOLDEN "/advice_asked.txt");
}

static void
test_intervals(void **state)
{
    struct wp_history *history = crowds();
    struct wp_advice *advice = advice_of(history, WP_SCALE_PLAIN);

    (void)state;
    for (plays = 0; plays <= 4; plays++) {
        if (plays != 1) {
            run_row(advice, 2);
        }
    }
    wp_advice_destroy(advice);
    wp_history_destroy(history);
    journal_compare(WP_TEST_GOLDEN "/advice_intervals.txt");
}

static void
test_rows_that_fail(void **state)
{
    struct wp_history *history = crowds();
    struct wp_advice *advice = advice_of(history, WP_SCALE_PLAIN);

    (void)state;
    history_given = history;
    for (int i = 1; i <= 2; i++) {
        sources_fail_at = i;
        run_row(advice, 1);
    }
    policy_fails = true;
    for (uint32_t i = 0; i < wp_advice_n_rows(advice); i++) {
        run_row(advice, i);
    }
    policy_fails = false;
    run_status = WP_UNAVAILABLE;
    run_row(advice, 1);
    stops = true;
    run_row(advice, 1);
    run_status = WP_OK;
    run_row(advice, 1);
    wp_advice_destroy(advice);
    wp_history_destroy(history);
    journal_compare(WP_TEST_GOLDEN "/advice_fails.txt");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_what_is_made_of_a_history, begin),
        cmocka_unit_test_setup(test_short_and_long_histories, begin),
        cmocka_unit_test_setup(test_a_sample_of_lead_times, begin),
        cmocka_unit_test_setup(test_memory_lacks_for_an_advice, begin),
        cmocka_unit_test_setup(test_how_rows_are_replayed, begin),
        cmocka_unit_test_setup(test_how_often_a_policy_is_asked, begin),
        cmocka_unit_test_setup(test_intervals, begin),
        cmocka_unit_test_setup(test_rows_that_fail, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
