/* tests/unit/allocator/services/services_test.c - what the services are made
 * of, and what all methods share: limits of the configuration, memory that
 * lacks, whose a call is and how long it may wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "allocator/services/services_private.h"
#include "pool/base/assert.h"
#include "tests/support/services/service_world.h"

static struct wp_world world;
static struct wp_fake_call a;
/* Which calloc from here on gives nothing; 0: none. */
static int calloc_fails;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *
__wrap_calloc(size_t n, size_t size)
{
    return calloc_fails > 0 && --calloc_fails == 0 ? NULL
                                                   : __real_calloc(n, size);
}

static int
setup(void **state)
{
    (void)state;
    wp_world_init(&world, 64, 4);
    wp_world_call(&world, &a);
    a.call.service = world.allocator.self;
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    a.finished = true;
    wp_fake_call_fini(&a);
    wp_world_fini(&world);
    return 0;
}

static void
again(void)
{
    a.finished = true;
    wp_world_again(&world, &a);
    a.call.service = world.allocator.self;
}

static void
refused(enum wp_status status, const char *message, int64_t retry_after_ns)
{
    assert_true(a.finished);
    assert_int_equal(a.status, status);
    assert_string_equal(a.message, message);
    assert_int_equal(a.retry_after_ns, retry_after_ns);
    again();
}

static bool
post(void *ctx, struct wp_message message)
{
    (void)ctx;
    (void)message;
    return true;
}

static void
wake(void *ctx)
{
    (void)ctx;
}

static void
drain(void *ctx, int64_t grace_ns)
{
    (void)ctx;
    (void)grace_ns;
}

static struct wp_services_config
config_of(void)
{
    struct wp_services_config config;

    wp_services_config_init(&config);
    config.pools = world.rig.pools;
    config.clock = &world.rig.clock.clock;
    config.post = post;
    config.wake = wake;
    config.drain = drain;
    return config;
}

static void
test_defaults(void **state)
{
    struct wp_services_config config;

    (void)state;
    wp_services_config_init(&config);
    assert_string_equal(config.pools_are_kept,
                        "pool: this daemon neither makes nor removes any");
    assert_int_equal(config.waiting_max, 2048);
    assert_int_equal(config.batches_max, 16);
    assert_int_equal(config.watches_max, 64);
    assert_int_equal(config.watch_interval_ns, 100 * WP_NS_PER_MS);
}

static void
test_each_limit_at_its_bounds(void **state)
{
    static const struct {
        uint32_t waiting, batches, watches;
        int64_t interval_ns;
        const char *why; /* NULL: taken. */
    } rows[] = {
        {1, 1, 1, 0, NULL},
        {UINT32_MAX, 64, 1024, INT64_MAX, NULL},
        {0, 1, 1, 0, "waiting_max: 1 or more expected"},
        {1, 0, 1, 0, "batches_max: 1 to 64 expected, got 0"},
        {1, 65, 1, 0, "batches_max: 1 to 64 expected, got 65"},
        {1, 1, 0, 0, "watches_max: 1 to 1024 expected, got 0"},
        {1, 1, 1025, 0, "watches_max: 1 to 1024 expected, got 1025"},
        {1, 1, 1, -1, "watch_interval: 0 or more expected"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_services_config config = config_of();
        struct wp_services *services;
        struct wp_err err = {0};

        config.waiting_max = rows[i].waiting;
        config.batches_max = rows[i].batches;
        config.watches_max = rows[i].watches;
        config.watch_interval_ns = rows[i].interval_ns;
        services = wp_services_create(&config, &err);
        if (rows[i].why == NULL) {
            assert_non_null(services);
            wp_services_destroy(services);
            continue;
        }
        assert_null(services);
        assert_int_equal(err.status, WP_INVALID_ARGUMENT);
        assert_string_equal(err.msg, rows[i].why);
    }
}

/* Whichever part finds no memory, the others are given back. */
static void
test_no_memory(void **state)
{
    struct wp_services_config config = config_of();
    struct wp_services *services = NULL;
    int n = 0;

    (void)state;
    while (services == NULL) {
        struct wp_err err = {0};

        calloc_fails = ++n;
        services = wp_services_create(&config, &err);
        if (services == NULL) {
            assert_int_equal(calloc_fails, 0);
            assert_int_equal(err.status, WP_RESOURCE_EXHAUSTED);
            assert_string_equal(err.msg, "services: out of memory");
        }
    }
    calloc_fails = 0;
    /* Itself, two pages, and four kinds of calls. */
    assert_int_equal(n, 8);
    wp_services_destroy(services);
    wp_services_destroy(NULL);
}

static void
test_who_does_not_lead_refuses(void **state)
{
    (void)state;
    assert_true(wp_service_serves(&a.call));
    assert_false(a.finished);
    atomic_store(&world.serves, false);
    assert_false(wp_service_serves(&a.call));
    refused(WP_UNAVAILABLE,
            "this replica does not lead, and its lease store is not shared; "
            "the leader serves",
            0);
    atomic_store(&world.serves, true);
}

static void
test_whose_a_call_is(void **state)
{
    static const char other[] =
        "tenant: your credentials name another tenant; leave it empty";
    static const char own[] =
        "tenant: those that begin with '" WP_TENANT_OWN_PREFIX
        "' are the daemon's own";
    static const struct {
        const char *own, *asked;
        bool admin;
        const char *tenant; /* NULL: refused. */
        const char *why;
    } rows[] = {
        {"", "", false, "", NULL},
        {"", "t", false, "t", NULL},
        {"me", "", false, "me", NULL},
        {"me", "me", false, "me", NULL},
        {"me", "mee", false, NULL, other},
        {"me", "m", false, NULL, other},
        {"me", "", true, "me", NULL},
        {"me", "t", true, "t", NULL},
        {"", WP_TENANT_OWN_PREFIX, false, NULL, own},
        {"me", WP_TENANT_OWN_PREFIX "x", true, NULL, own},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_str tenant = WP_STR("?");

        (void)snprintf(a.call.who.tenant, sizeof a.call.who.tenant, "%s",
                       rows[i].own);
        a.call.who.admin = rows[i].admin;
        if (wp_service_tenant(&a.call, wp_str_from(rows[i].asked), &tenant)) {
            assert_non_null(rows[i].tenant);
            assert_true(wp_str_is(tenant, rows[i].tenant));
            assert_false(a.finished);
            again();
        } else {
            assert_null(rows[i].tenant);
            refused(WP_PERMISSION_DENIED, rows[i].why, 0);
        }
    }
}

/* 5 ms before its deadline a claim is answered. */
static void
test_how_long_a_call_may_wait(void **state)
{
    const int64_t ms = WP_NS_PER_MS;
    const struct {
        int64_t wait_ms, left_ns, expected_ns;
    } rows[] = {
        {0, 3600 * WP_NS_PER_S, 0},   {1, 6 * ms, 1 * ms},
        {2, 6 * ms, 1 * ms},          {1, 6 * ms - 1, 1 * ms - 1},
        {1, 6 * ms + 1, 1 * ms},      {1000, 5 * ms, 0},
        {1000, 5 * ms + 1, 1},        {1000, 5 * ms - 1, 0},
        {1000, -WP_NS_PER_S, 0},      {0, -WP_NS_PER_S, 0},
        {1000, 1005 * ms, 1000 * ms}, {1000, 1004 * ms, 999 * ms},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        a.call.deadline_ns = world.rig.clock.now_mono_ns + rows[i].left_ns;
        assert_int_equal(wp_service_wait_ns(&a.call, rows[i].wait_ms),
                         rows[i].expected_ns);
    }
}

static void
test_a_pool_that_is_not_there(void **state)
{
    const struct wp_wire_pool_ref here = {WP_STR("default"), WP_STR("p")};
    const struct wp_wire_pool_ref there = {WP_STR("elsewhere"), WP_STR("p")};
    struct wp_err err;

    (void)state;
    assert_int_equal(wp_service_find_pool(&a.call, &here), 0);
    assert_false(a.finished);
    assert_int_equal(wp_service_find_pool(&a.call, &there), UINT32_MAX);
    (void)wp_service_no_pool(there.pool_namespace, there.name, &err);
    assert_int_equal(err.status, WP_NOT_FOUND);
    refused(WP_NOT_FOUND, err.msg, 0);
}

static void
run(void *call, uint64_t x, uint64_t y)
{
    (void)call;
    (void)x;
    (void)y;
}

static void
test_what_is_posted(void **state)
{
    (void)state;
    wp_service_post(&a.call, run);
    assert_false(a.finished);
    assert_int_equal(world.n_messages, 1);
    assert_ptr_equal(world.messages[0].run, run);
    assert_ptr_equal(world.messages[0].ctx, &a.call);
    assert_int_equal(world.messages[0].a, 0);
    assert_int_equal(world.messages[0].b, 0);
    world.channel_full = true;
    wp_service_post(&a.call, run);
    assert_int_equal(world.n_messages, 1);
    refused(WP_UNAVAILABLE, "the control thread has too much to do; try again",
            100 * WP_NS_PER_MS);
    world.n_messages = 0;
}

static void
test_memory_of_a_call(void **state)
{
    static const uint8_t zeros[64];
    uint8_t *buf;
    void *first;

    (void)state;
    memset(a.arena, 0xff, sizeof a.arena);
    first = wp_service_state(&a.call, sizeof zeros);
    assert_non_null(first);
    assert_memory_equal(first, zeros, sizeof zeros);
    assert_false(a.finished);
    assert_null(wp_service_state(&a.call, WP_CALL_ARENA_SIZE));
    refused(WP_INTERNAL, "the call's memory is too small", 0);
    buf = wp_service_reserve(&a.call, 7);
    assert_ptr_equal(buf, a.reserved);
    assert_int_equal(a.reserved_len, 7);
    assert_false(a.finished);
    a.no_memory = true;
    assert_null(wp_service_reserve(&a.call, 7));
    refused(WP_RESOURCE_EXHAUSTED, "no memory for the reply", 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_defaults),
        TEST(test_each_limit_at_its_bounds),
        TEST(test_no_memory),
        TEST(test_who_does_not_lead_refuses),
        TEST(test_whose_a_call_is),
        TEST(test_how_long_a_call_may_wait),
        TEST(test_a_pool_that_is_not_there),
        TEST(test_what_is_posted),
        TEST(test_memory_of_a_call),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
