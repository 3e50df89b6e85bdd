/* tests/unit/allocator/services/advise_parts_test.c - Advise between fakes: the
 * thread runs when the test says, the advice is the test's, and so is the
 * clock. Each fake writes down what it was asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>

#include "allocator/advice/advice.h"
#include "pool/base/metrics.h"
#include "pool/history/history.h"
#include "tests/support/base/held_locks.h"
#include "tests/support/base/journal.h"
#include "tests/support/services/service_world.h"

enum {
    ROWS = 3,
};

int __wrap_wp_thread_start(pthread_t *thread, void *(*run)(void *), void *ctx);
int __wrap_pthread_join(pthread_t thread, void **result);
int __wrap_setpriority(int which, id_t who, int priority);
const struct wp_clock *__real_wp_clock_system(void);
const struct wp_clock *__wrap_wp_clock_system(void);
struct wp_history *__wrap_wp_pools_history(struct wp_pools *pools,
                                           uint32_t pool_index);
const struct wp_histogram *
__wrap_wp_pools_lead_time(const struct wp_pools *pools, uint32_t pool_index);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
enum wp_status __wrap_wp_advice_create(const struct wp_advice_config *config,
                                       struct wp_advice **out,
                                       struct wp_err *err);
void __wrap_wp_advice_destroy(struct wp_advice *advice);
const struct wp_advice_facts *
__wrap_wp_advice_facts(const struct wp_advice *advice);
uint32_t __wrap_wp_advice_n_rows(const struct wp_advice *advice);
const struct wp_advice_row *__wrap_wp_advice_row(const struct wp_advice *advice,
                                                 uint32_t i);
enum wp_status __wrap_wp_advice_run(struct wp_advice *advice, uint32_t i,
                                    bool (*progress)(void *ctx, double share),
                                    void *ctx, struct wp_err *err);
void __wrap_wp_advice_conclude(const struct wp_advice_facts *facts,
                               const struct wp_advice_row *rows,
                               uint32_t n_rows, struct wp_advice_words *out);

static struct wp_world world;
static struct wp_fake_call call, next;
static struct wp_clock_manual mono;
static struct wp_histogram leads;

/* What is to come. */
static bool no_thread;
static bool calloc_fails;
static enum wp_status create_status;
static int fails_at; /* The row that fails; -1: none. */
static int gone_at;  /* The row while which the client goes. */
static bool has_history;
static void (*between)(uint32_t row); /* In the middle of each. */

/* The one that was started. */
static void *(*run)(void *);
static void *run_ctx;

static int the_advice; /* An address. */
static struct wp_advice_facts facts = {
    .from_wall_ns = 1000000, .claims = 77, .lead_mean_s = 1.5};
static struct wp_advice_row rows[ROWS] = {
    {.kind = WP_ADVICE_TODAY, .name = "today", .done = true},
    {.kind = WP_ADVICE_OURS, .name = "ours", .done = true},
    {.kind = WP_ADVICE_FIXED, .name = "fixed", .done = true}};

int
__wrap_wp_thread_start(pthread_t *thread, void *(*what)(void *), void *ctx)
{
    journal("  a thread%s", no_thread ? " cannot be had" : "");
    journal_line();
    run = what;
    run_ctx = ctx;
    *thread = (pthread_t)42;
    return no_thread ? EAGAIN : 0;
}

int
__wrap_pthread_join(pthread_t thread, void **result)
{
    assert_int_equal(thread, 42);
    assert_null(result);
    journal("  joins the last");
    journal_line();
    return 0;
}

int
__wrap_setpriority(int which, id_t who, int priority)
{
    assert_int_equal(which, PRIO_PROCESS);
    journal("  priority of %d: %d", (int)who, priority);
    journal_line();
    return 0;
}

const struct wp_clock *
__wrap_wp_clock_system(void)
{
    return &mono.clock;
}

struct wp_history *
__wrap_wp_pools_history(struct wp_pools *pools, uint32_t pool_index)
{
    struct wp_history *history = has_history ? wp_history_create(4096) : NULL;

    assert_ptr_equal(pools, world.rig.pools);
    journal("  asks for pool %u's claims", pool_index);
    journal_line();
    return history;
}

const struct wp_histogram *
__wrap_wp_pools_lead_time(const struct wp_pools *pools, uint32_t pool_index)
{
    assert_ptr_equal(pools, world.rig.pools);
    journal("  asks for pool %u's lead times", pool_index);
    journal_line();
    return &leads;
}

void *
__wrap_calloc(size_t n, size_t size)
{
    if (calloc_fails) {
        calloc_fails = false;
        return NULL;
    }
    return __real_calloc(n, size);
}

static void
journal_history(const struct wp_history *history)
{
    struct wp_history_cursor cursor;
    struct wp_history_event event;

    wp_history_first(history, &cursor);
    while (wp_history_next(&cursor, &event)) {
        journal(" %d*%u at %lld", event.kind, event.n,
                (long long)(event.wall_ns / WP_NS_PER_MS));
    }
}

enum wp_status
__wrap_wp_advice_create(const struct wp_advice_config *config,
                        struct wp_advice **out, struct wp_err *err)
{
    journal("  advice on");
    journal_history(config->history);
    journal(": today %d of objective %d %g max %u, replicas %u miss %d cold %d "
            "lead %lld at once %u seed %llu",
            config->has_today, (int)config->policy.objective,
            config->policy.hit_rate, config->policy.max, config->replicas,
            config->miss, config->cold_start, (long long)config->lead_ns,
            config->at_once, (unsigned long long)config->seed);
    for (uint32_t i = 0; i < config->n_objectives; i++) {
        journal(" %g", config->objectives[i]);
    }
    journal_line();
    if (create_status != WP_OK) {
        return wp_err_set(err, create_status, "too little of it");
    }
    *out = (struct wp_advice *)(void *)&the_advice;
    return WP_OK;
}

static void
is_the_advice(const struct wp_advice *advice)
{
    assert_ptr_equal(advice, &the_advice);
}

void
__wrap_wp_advice_destroy(struct wp_advice *advice)
{
    journal("  %s is destroyed", advice != NULL ? "the advice" : "nothing");
    journal_line();
}

const struct wp_advice_facts *
__wrap_wp_advice_facts(const struct wp_advice *advice)
{
    is_the_advice(advice);
    return &facts;
}

uint32_t
__wrap_wp_advice_n_rows(const struct wp_advice *advice)
{
    is_the_advice(advice);
    return ROWS;
}

const struct wp_advice_row *
__wrap_wp_advice_row(const struct wp_advice *advice, uint32_t i)
{
    is_the_advice(advice);
    assert_int_equal(i, 0);
    return &rows[i];
}

enum wp_status
__wrap_wp_advice_run(struct wp_advice *advice, uint32_t i,
                     bool (*progress)(void *ctx, double share), void *ctx,
                     struct wp_err *err)
{
    is_the_advice(advice);
    journal("  runs row %u", i);
    journal_line();
    if (gone_at == (int)i) {
        wp_fake_call_cancel(&call);
    }
    if (!progress(ctx, 0.25)) {
        return wp_err_set(err, WP_CANCELLED, "stopped");
    }
    if (between != NULL) {
        between(i);
    }
    if (fails_at == (int)i) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "row %u", i);
    }
    return WP_OK;
}

void
__wrap_wp_advice_conclude(const struct wp_advice_facts *f,
                          const struct wp_advice_row *r, uint32_t n_rows,
                          struct wp_advice_words *out)
{
    assert_memory_equal(f, &facts, sizeof facts);
    assert_ptr_equal(r, rows);
    assert_int_equal(n_rows, ROWS);
    memset(out, 0, sizeof *out);
    (void)snprintf(out->lines[0], sizeof out->lines[0], "So it is.");
    out->n_lines = 1;
    out->recommended = 1;
}

static void
journal_message(const struct wp_fake_call *fake)
{
    static struct wp_wire_advise_response r;

    WP_WORLD_REPLY(&world, fake, advise_response, &r);
    journal("progress %.4f", r.progress);
    if (r.has_report) {
        journal(" report: %llu claims, lead %g, %u rows:",
                (unsigned long long)r.facts.claims, r.facts.lead_mean_s,
                r.n_rows);
        for (uint32_t i = 0; i < r.n_rows; i++) {
            journal(" %s", r.rows[i].name);
        }
        journal(", %s, row %d", r.words.lines[0], r.words.recommended);
    }
}

static void
on_sent(struct wp_fake_call *fake)
{
    journal("  is told ");
    journal_message(fake);
    journal_line();
}

static void
journal_end(const struct wp_fake_call *fake)
{
    if (!fake->finished) {
        journal("  goes on");
    } else {
        journal("  ends %s '%s' %lld ", wp_status_name(fake->status),
                fake->message, (long long)fake->retry_after_ns);
        if (fake->status == WP_OK) {
            journal_message(fake);
        }
    }
    journal_line();
}

static int
setup(void **state)
{
    (void)state;
    wp_clock_manual_init(&mono, 1000 * WP_NS_PER_S, 0);
    wp_world_init(&world, 16, 4);
    wp_world_call(&world, &call);
    wp_world_call(&world, &next);
    no_thread = calloc_fails = false;
    has_history = true;
    create_status = WP_OK;
    fails_at = gone_at = -1;
    between = NULL;
    run = NULL;
    memset(&leads, 0, sizeof leads);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    held_locks_are_free();
    wp_fake_call_cancel(&call);
    wp_fake_call_cancel(&next);
    wp_fake_call_fini(&call);
    wp_fake_call_fini(&next);
    wp_world_fini(&world);
    journal_drop();
    return 0;
}

static void
start(struct wp_fake_call *fake, const struct wp_wire_advise_request *request)
{
    struct wp_wire_advise_request asked = *request;

    fake->sent = on_sent;
    asked.pool.pool_namespace = WP_STR("default");
    if (asked.pool.name.len == 0) {
        asked.pool.name = WP_STR("p");
    }
    journal("asks");
    journal_line();
    WP_WORLD_START(&world.admin, fake, "Advise", advise_request, &asked);
    journal_end(fake);
}

static void
run_thread(void)
{
    journal("the thread runs");
    journal_line();
    assert_null(run(run_ctx));
    journal_end(&call);
}

static void
set_spec(uint32_t waiters, enum wp_cold_start cold, double hit_rate)
{
    struct wp_pool_spec spec = wp_rig_stats(&world.rig).spec;
    struct wp_err err;

    spec.waiters_max = waiters;
    spec.cold_start = cold;
    wp_scale_policy_init(&spec.scale);
    if (hit_rate > 0) {
        spec.scale.objective = WP_SCALE_HIT_RATE;
        spec.scale.hit_rate = hit_rate;
        spec.scale.max = 9;
    }
    assert_int_equal(wp_pools_update(world.rig.pools, 0, &spec, &err), WP_OK);
    wp_world_settle(&world);
}

static void
add_pool(void)
{
    struct wp_pool_spec spec;
    struct wp_err err;

    wp_pool_spec_init(&spec);
    (void)snprintf(spec.name, sizeof spec.name, "q");
    (void)snprintf(spec.template_name, sizeof spec.template_name, "t");
    spec.target = 2;
    spec.create_inflight_max = 3;
    assert_int_equal(wp_pools_add(world.rig.pools, &spec, NULL, &err), WP_OK);
    wp_world_settle(&world);
}

/* What is asked of the advice, by the request and the pool. */
static void
test_what_is_replayed(void **state)
{
    static const double objectives[] = {0.9, 0.99, 0.999};
    static const uint32_t gaps[] = {0, 5, 100000};
    const struct wp_wire_advise_request recorded = {.lead_ms = 1500};
    const struct wp_wire_advise_request given = {.objectives = objectives,
                                                 .n_objectives = 3,
                                                 .claim_gaps_ms = gaps,
                                                 .n_claims = 3,
                                                 .first_wall_ms =
                                                     1700000000000};
    struct wp_wire_advise_request given_lead = given;

    (void)state;
    start(&call, &recorded);
    run_thread();
    (void)wp_world_again(&world, &call);
    start(&call, &(struct wp_wire_advise_request){.lead_ms = 0});
    run_thread();
    set_spec(0, WP_COLD_NEVER, 0.97);
    (void)wp_world_again(&world, &call);
    start(&call, &given);
    run_thread();
    set_spec(5, WP_COLD_ALLOWED, 0);
    for (int i = 1; i <= 9; i++) {
        wp_histogram_record(&leads, i * WP_NS_PER_S);
    }
    (void)wp_world_again(&world, &call);
    start(&call, &given);
    run_thread();
    given_lead.lead_ms = 1;
    (void)wp_world_again(&world, &call);
    start(&call, &given_lead);
    run_thread();
    /* The second pool has a target of its own. */
    add_pool();
    given_lead.lead_ms = 0;
    given_lead.pool.name = WP_STR("q");
    (void)wp_world_again(&world, &call);
    start(&call, &given_lead);
    run_thread();
    given_lead.n_claims = 0;
    (void)wp_world_again(&world, &call);
    start(&call, &given_lead);
    run_thread();
    journal_compare(WP_TEST_GOLDEN "/advise_replayed.txt");
}

static void
a_moment(uint32_t row)
{
    static const int64_t moments_ms[ROWS] = {99, 1, 100};

    wp_clock_manual_advance(&mono, moments_ms[row] * WP_NS_PER_MS);
}

static void
blocks_then_takes(uint32_t row)
{
    wp_clock_manual_advance(&mono, WP_NS_PER_S);
    if (row == 0) {
        call.block_sends = true;
    } else {
        journal("  %u reserved", call.reserves);
        journal_line();
        call.block_sends = false;
        if (row == 1) {
            /* Of another call: it says nothing of this one. */
            next.call.service = call.call.service;
            call.call.writable(&next.call);
            next.call.service = NULL;
        }
    }
}

static void
takes_after_the_second(uint32_t row)
{
    wp_clock_manual_advance(&mono, WP_NS_PER_S);
    call.block_sends = row == 0;
    if (row == 1) {
        call.call.writable(&call.call);
    }
}

static void
lacks_memory_in_the_second(uint32_t row)
{
    wp_clock_manual_advance(&mono, WP_NS_PER_S);
    call.no_memory = row == 0;
}

static void
test_progress_is_told_ten_times_a_second(void **state)
{
    static void (*const all[])(uint32_t) = {a_moment, blocks_then_takes,
                                            takes_after_the_second,
                                            lacks_memory_in_the_second};
    const struct wp_wire_advise_request request = {.lead_ms = 1};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(all); i++) {
        between = all[i];
        (void)wp_world_again(&world, &call);
        call.block_sends = call.no_memory = false;
        start(&call, &request);
        run_thread();
    }
    journal_compare(WP_TEST_GOLDEN "/advise_progress.txt");
}

static void
test_what_goes_wrong(void **state)
{
    const struct wp_wire_advise_request request = {.lead_ms = 1};
    static const uint32_t gaps[] = {1, 1};
    const struct wp_wire_advise_request given = {.claim_gaps_ms = gaps,
                                                 .n_claims = 2};

    (void)state;
    no_thread = true;
    start(&call, &request);
    no_thread = false;
    (void)wp_world_again(&world, &call);
    start(&call, &request);
    start(&next, &request);
    has_history = false;
    run_thread();
    (void)wp_world_again(&world, &call);
    start(&call, &given);
    calloc_fails = true;
    run_thread();
    has_history = true;
    create_status = WP_INVALID_ARGUMENT;
    (void)wp_world_again(&world, &call);
    start(&call, &request);
    run_thread();
    create_status = WP_OK;
    fails_at = 1;
    (void)wp_world_again(&world, &call);
    start(&call, &request);
    run_thread();
    fails_at = -1;
    gone_at = 1;
    (void)wp_world_again(&world, &call);
    start(&call, &request);
    run_thread();
    gone_at = -1;
    (void)wp_world_again(&world, &call);
    start(&call, &request);
    call.no_memory = true;
    run_thread();
    /* Who goes while nobody looks. */
    (void)wp_world_again(&world, &call);
    call.no_memory = false;
    start(&call, &request);
    (void)wp_world_again(&world, &next);
    start(&next, &request);
    wp_fake_call_cancel(&call);
    journal_end(&call);
    (void)wp_world_again(&world, &next);
    start(&next, &request);
    run_thread();
    wp_services_stop(world.services);
    (void)wp_world_again(&world, &call);
    start(&call, &request);
    journal_compare(WP_TEST_GOLDEN "/advise_wrong.txt");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_replayed),
        TEST(test_progress_is_told_ten_times_a_second),
        TEST(test_what_goes_wrong),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
