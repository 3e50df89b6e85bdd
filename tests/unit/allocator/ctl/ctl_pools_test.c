/* warmpoolctl pools, scale, watch, drain, create, delete, set, explain, reserve
 * and unreserve: what is asked, and what is said of the answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/clock.h"
#include "tests/support/ctl/ctl_rig.h"

#define GOLDEN(name) WP_TEST_GOLDEN "/" name ".txt"

static const char *const formats[] = {"table", "json", "name"};

/* Numbers that all differ. */
static struct wp_pool_stats
pool_of(const char *name)
{
    struct wp_pool_stats pool = {
        .spec = {.target = 10,
                 .cold_start = WP_COLD_ALLOWED,
                 .ttl_default_ns = 600 * WP_NS_PER_S,
                 .ttl_max_ns = 3600 * WP_NS_PER_S},
        .ready = 9,
        .warming = 1,
        .leased = 11,
        .quarantined = 12,
        .dying = 13,
        .waiting = 14,
        .created_total = 101,
        .destroyed_total = 102,
        .failed_total = 103,
        .lost_total = 104,
        .served_total = {0, 96, 3, 1},
        .refused_total = 108,
        .released_total = 109,
        .expired_total = 110,
        .missed_total = 111,
    };

    (void)strcpy(pool.spec.pool_namespace, "default");
    (void)strcpy(pool.spec.name, name);
    (void)strcpy(pool.spec.template_name, "python");
    return pool;
}

/* In each state that a pool can be in. */
static uint32_t
make_pools(struct wp_pool_stats pools[8])
{
    static const char *const names[] = {"filling", "full", "beyond",  "short",
                                        "failing", "mute", "drained", "partly"};

    for (size_t i = 0; i < WP_ARRAY_LEN(names); i++) {
        pools[i] = pool_of(names[i]);
    }
    pools[1].ready = 10;
    pools[1].spec.cold_start = WP_COLD_NEVER;
    pools[2].ready = 11;
    pools[2].served_total[WP_SERVED_WARM] = 0;
    pools[3].warming = 0;
    memset(pools[3].served_total, 0, sizeof pools[3].served_total);
    pools[4].breaker_open = true;
    (void)strcpy(pools[4].last_failure, "no image");
    pools[5].breaker_open = true;
    pools[6].draining = true;
    pools[6].breaker_open = true;
    (void)strcpy(pools[6].last_failure, "no disk");
    pools[7].partial = true;
    (void)strcpy(pools[7].last_failure, "long ago");
    return WP_ARRAY_LEN(names);
}

static void
test_pools(void **state)
{
    static struct wp_pool_stats pools[8];
    const struct wp_wire_pools all = {pools, make_pools(pools)};
    char line[200];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(formats); i++) {
        (void)snprintf(line, sizeof line, "pools -o %s", formats[i]);
        CTL_REPLY(pools, &all);
        ctl_run(line);
        (void)snprintf(line, sizeof line, "pools n/failing -o %s", formats[i]);
        CTL_REPLY(pool, &pools[4]);
        ctl_run(line);
    }
    ctl_answer(WP_NOT_FOUND, "pool: 'n/x' does not exist", 0);
    ctl_run("pools n/x");
    ctl_answer(WP_UNAVAILABLE, "leaving", WP_NS_PER_S);
    ctl_run("pools");
    /* Names of lengths that lie side by side in memory. */
    ctl_run("pools n234567/a");
    ctl_run("pools n2345678/a");
    ctl_run("pools n234567890123456/a");
    ctl_run("pools n2345678901234567/a");
    ctl_run("pools N");
    ctl_compare(GOLDEN("pools"));
}

static void
test_changes_of_size(void **state)
{
    static struct wp_pool_stats pool;

    (void)state;
    pool = pool_of("agents");
    CTL_REPLY(pool, &pool);
    ctl_run("scale agents 0");
    CTL_REPLY(pool, &pool);
    ctl_run("scale n/agents 1048576 -o json");
    ctl_run("scale agents 1048577");
    ctl_run("scale agents -- -1");
    ctl_run("scale agents x");
    ctl_run("scale A 1");
    ctl_answer(WP_PERMISSION_DENIED, "not yours", WP_NS_PER_S);
    ctl_run("scale agents 1");
    ctl_compare(GOLDEN("scale"));
}

static void
test_watch(void **state)
{
    static struct wp_pool_stats pools[2];
    const struct wp_wire_pools both = {pools, 2};
    const struct wp_wire_pools one = {pools, 1};
    char line[200];

    (void)state;
    pools[0] = pool_of("a");
    pools[1] = pool_of("b");
    for (size_t i = 0; i < WP_ARRAY_LEN(formats); i++) {
        for (int tty = 0; tty < 2; tty++) {
            (void)snprintf(line, sizeof line, "watch -o %s", formats[i]);
            ctl_answer(WP_OK, NULL, 0);
            CTL_MESSAGE(pools, &both);
            CTL_MESSAGE(pools, &one);
            ctl_rig.tty = tty != 0;
            ctl_run(line);
        }
    }
    ctl_rig.tty = false;
    ctl_answer(WP_NOT_FOUND, "pool: gone", 0);
    CTL_MESSAGE(pools, &one);
    ctl_run("watch n/a -o name");
    ctl_run("watch A");
    /* Whoever reads it has gone. */
    ctl_rig.full = true;
    ctl_answer(WP_OK, NULL, 0);
    CTL_MESSAGE(pools, &both);
    CTL_MESSAGE(pools, &one);
    ctl_run("watch -o json");
    CTL_REPLY(pools, &both);
    ctl_run("pools");
    ctl_answer(WP_NOT_FOUND, "pool: none", 0);
    ctl_run("pools x");
    ctl_rig.full = false;
    ctl_rig.refused = "it is refused";
    ctl_run("watch");
    ctl_compare(GOLDEN("watch"));
}

static void
test_drain(void **state)
{
    const struct wp_wire_drain_response response = {.leased = 5};

    (void)state;
    CTL_REPLY(drain_response, &response);
    ctl_run("drain");
    CTL_REPLY(drain_response, &response);
    ctl_run("drain --grace 5m -o json");
    CTL_REPLY(drain_response, &response);
    ctl_run("drain n/agents --grace 5m");
    CTL_REPLY(drain_response, &response);
    ctl_run("drain agents --undo -o name");
    ctl_run("drain --undo");
    ctl_run("drain A");
    ctl_answer(WP_PERMISSION_DENIED, "not yours", WP_NS_PER_S);
    ctl_run("drain agents");
    ctl_compare(GOLDEN("drain"));
}

static void
test_create(void **state)
{
    static char text[WP_WIRE_MANIFEST_MAX + 2];
    static struct wp_pool_stats pool;

    (void)state;
    pool = pool_of("ci");
    ctl_file("pool.yaml", "kind: SandboxWarmPool\n");
    ctl_file_bytes("zero", "a\0b", 3);
    CTL_REPLY(pool, &pool);
    ctl_run("create ci --template python --target 8");
    CTL_REPLY(pool, &pool);
    ctl_run("create n/ci --template python -s objective=99% -s max=a=b -o "
            "name");
    CTL_REPLY(pool, &pool);
    ctl_run("create ci --template \xff --target 1048576 -s x=y -o json");
    ctl_run("create ci --template python --target 1048577");
    ctl_run("create ci --template python --target x");
    ctl_run("create ci --template python");
    ctl_run("create ci --target 8");
    ctl_run("create ci");
    ctl_run("create");
    ctl_run("create C --template python --target 8");
    ctl_run("create ci --file pool.yaml");
    ctl_run("create --file pool.yaml --template python");
    ctl_run("create --file pool.yaml --target 1");
    ctl_run("create --file pool.yaml -s a=b");
    CTL_REPLY(pool, &pool);
    ctl_run("create --file pool.yaml -o name");
    ctl_stdin("kind: Other\n");
    CTL_REPLY(pool, &pool);
    ctl_run("create -f - -o name");
    ctl_run("create --file missing.yaml");
    ctl_run("create --file .");
    ctl_run("create --file zero");
    memset(text, 'm', sizeof text);
    ctl_file_bytes("long", text, WP_WIRE_MANIFEST_MAX);
    ctl_answer(WP_INVALID_ARGUMENT, "manifest: what is that", 0);
    ctl_run("create --file long");
    ctl_file_bytes("long", text, WP_WIRE_MANIFEST_MAX + 1);
    ctl_run("create --file long");
    ctl_answer(WP_UNAVAILABLE, "later", WP_NS_PER_S);
    ctl_run("create ci --template python --target 8");
    ctl_compare(GOLDEN("create"));
}

static void
test_delete(void **state)
{
    const struct wp_wire_delete_pool_response response = {.leased = 6};

    (void)state;
    CTL_REPLY(delete_pool_response, &response);
    ctl_run("delete ci");
    CTL_REPLY(delete_pool_response, &response);
    ctl_run("delete n/ci -o json");
    ctl_run("delete C");
    ctl_answer(WP_FAILED_PRECONDITION, "a manifest has it", WP_NS_PER_S);
    ctl_run("delete ci");
    ctl_compare(GOLDEN("delete"));
}

/* --- With a policy --- */

static struct wp_scale_decision
decision_of(uint64_t number)
{
    return (struct wp_scale_decision){
        .number = number,
        .wall_ns = (CTL_NOW_MS - 60 * 1000 * (int64_t)number) * WP_NS_PER_MS,
        .target_before = 21,
        .target = 22,
        .wanted = 23,
        .reason = WP_SCALE_FORECAST,
        .rate_per_s = 1.5,
        .rate_fast_per_s = 2.25,
        .rate_slow_per_s = 0.0005,
        .lead_mean_s = 4.5,
        .lead_p99_s = 8.25,
        .expected = 6.75,
        .spread = 3.5,
        .dispersion = 1.25,
        .learned = true,
        .reserved = 24,
        .floor = 25,
        .hit_rate = 0.999,
        .idle = 7.5,
        .hit_rate_seen = 0.998,
        .seen_claims = 400,
        .hit_rate_best = 0.97,
        .at_once = 26,
        .shared_bound = true,
        .makes_per_s = 3.125,
        .queue_s = 0.5,
        .burst_unix_ms = CTL_NOW_MS - 1000,
        .due_unix_ms = CTL_NOW_MS + 1000,
    };
}

/* Little is known as yet. */
static struct wp_scale_decision
first_decision(uint64_t number)
{
    struct wp_scale_decision decision = decision_of(number);

    decision.rate_per_s = 0.00049;
    decision.rate_slow_per_s = 0;
    decision.lead_mean_s = 0;
    decision.lead_p99_s = 2e9;
    decision.learned = false;
    decision.reserved = 0;
    decision.floor = 0;
    decision.hit_rate = (double)NAN;
    decision.hit_rate_seen = (double)NAN;
    decision.hit_rate_best = (double)NAN;
    decision.makes_per_s = (double)NAN;
    decision.at_once = 0;
    decision.shared_bound = false;
    return decision;
}

static const char *const explain_lines[] = {
    "explain agents", "explain agents --terms", "explain n/agents -o json",
    "explain agents -o name"};

static void
explain_all(const struct wp_wire_pool_detail *detail)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(explain_lines); i++) {
        CTL_REPLY(pool_detail, detail);
        ctl_run(explain_lines[i]);
    }
}

static void
test_explain(void **state)
{
    static struct wp_pool_stats pool;
    struct wp_scale_decision decisions[3] = {decision_of(7), decision_of(6),
                                             first_decision(5)};
    struct wp_scale_reservation reservations[2] = {
        {.id = "nightly",
         .n = 200,
         .left = 150,
         .from_wall_ns = CTL_NOW_MS * WP_NS_PER_MS,
         .until_wall_ns = (CTL_NOW_MS + 300000) * WP_NS_PER_MS},
        {.id = "r2",
         .n = 1,
         .left = 1,
         .from_wall_ns = 0,
         .until_wall_ns = WP_NS_PER_S}};
    const struct wp_wire_setting settings[2] = {
        {WP_STR("max"), WP_STR("50")}, {WP_STR("objective"), WP_STR("99.9%")}};
    struct wp_wire_pool_detail detail = {.stats = &pool};

    (void)state;
    pool = pool_of("agents");
    pool.replicas = 8;
    explain_all(&detail);
    pool.scaled = true;
    detail.autoscale = settings;
    detail.n_autoscale = 2;
    explain_all(&detail);
    detail.decisions = decisions;
    detail.n_decisions = 3;
    detail.reservations = reservations;
    detail.n_reservations = 2;
    explain_all(&detail);
    /* The latest changed nothing. */
    decisions[0].number = 6;
    decisions[0].lead_mean_s = 0.0099;
    detail.n_reservations = 0;
    explain_all(&detail);
    decisions[0] = first_decision(1);
    decisions[0].at_once = 3;
    decisions[0].lead_mean_s = 0.01;
    detail.n_decisions = 1;
    explain_all(&detail);
    ctl_answer(WP_NOT_FOUND, "pool: none", WP_NS_PER_S);
    ctl_run("explain agents");
    ctl_run("explain A");
    ctl_compare(GOLDEN("explain"));
}

static void
test_set(void **state)
{
    static struct wp_pool_stats pool;
    const struct wp_wire_setting settings[2] = {
        {WP_STR("max"), WP_STR("50")}, {WP_STR("objective"), WP_STR("99.9%")}};
    struct wp_wire_pool_detail detail = {
        .stats = &pool, .autoscale = settings, .n_autoscale = 2};
    char line[200];

    (void)state;
    pool = pool_of("agents");
    pool.replicas = 8;
    for (size_t i = 0; i < WP_ARRAY_LEN(formats); i++) {
        for (int scaled = 0; scaled < 2; scaled++) {
            pool.scaled = scaled != 0;
            (void)snprintf(line, sizeof line, "set agents --target 16 -o %s",
                           formats[i]);
            CTL_REPLY(pool_detail, &detail);
            ctl_run(line);
        }
    }
    detail.n_autoscale = 0;
    CTL_REPLY(pool_detail, &detail);
    ctl_run("set n/agents -s objective=99.9% -s max= -s schedule=a=b");
    /* Keys of lengths that lie side by side in memory. */
    CTL_REPLY(pool_detail, &detail);
    ctl_run("set agents -s a234567=1 -s b2345678=2 -s c23456789=3 -s "
            "d23456789012345=4 -s e234567890123456=5 -s f2345678901234567=6");
    CTL_REPLY(pool_detail, &detail);
    ctl_run("set agents -s max=4 --target 0");
    CTL_REPLY(pool_detail, &detail);
    ctl_run("set agents --target 1048576");
    ctl_run("set agents --target 1048577");
    ctl_run("set agents --target x");
    ctl_run("set agents");
    ctl_run("set A --target 1");
    ctl_answer(WP_INVALID_ARGUMENT, "target: too many", WP_NS_PER_S);
    ctl_run("set agents --target 1");
    ctl_compare(GOLDEN("set"));
}

static void
test_reservations(void **state)
{
    const struct wp_scale_reservation reservation = {
        .id = "nightly",
        .n = 200,
        .left = 150,
        .from_wall_ns = (CTL_NOW_MS + 900000) * WP_NS_PER_MS,
        .until_wall_ns = (CTL_NOW_MS + 1200000) * WP_NS_PER_MS};
    const struct wp_wire_cancel_reservation_response cancelled = {0};
    char line[200];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(formats); i++) {
        (void)snprintf(line, sizeof line,
                       "reserve agents 200 --in 15m --for 5m --id nightly -o "
                       "%s",
                       formats[i]);
        CTL_REPLY(reservation, &reservation);
        ctl_run(line);
        (void)snprintf(line, sizeof line, "unreserve n/agents nightly -o %s",
                       formats[i]);
        CTL_REPLY(cancel_reservation_response, &cancelled);
        ctl_run(line);
    }
    CTL_REPLY(reservation, &reservation);
    ctl_run("reserve n/agents 1 --in 1ms");
    CTL_REPLY(reservation, &reservation);
    ctl_run("reserve agents 1048576");
    ctl_run("reserve agents 1048577");
    ctl_run("reserve agents 0");
    ctl_run("reserve agents x");
    ctl_run("reserve A 1");
    ctl_answer(WP_FAILED_PRECONDITION, "no objective", WP_NS_PER_S);
    ctl_run("reserve agents 1");
    ctl_run("unreserve A x");
    ctl_answer(WP_NOT_FOUND, "id: none", WP_NS_PER_S);
    ctl_run("unreserve agents x");
    ctl_compare(GOLDEN("reserve"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CTL_TEST(test_pools),        CTL_TEST(test_changes_of_size),
        CTL_TEST(test_watch),        CTL_TEST(test_drain),
        CTL_TEST(test_create),       CTL_TEST(test_delete),
        CTL_TEST(test_explain),      CTL_TEST(test_set),
        CTL_TEST(test_reservations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
