/* WatchPools: a snapshot at once, then the newest numbers, never a backlog. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/base/held_locks.h"
#include "tests/support/services/service_world.h"

#define INTERVAL_NS (100 * WP_NS_PER_MS)

static struct wp_world world;
static struct wp_fake_call watch;
static struct wp_fake_call other;
static struct wp_fake_call third;
static struct wp_fake_call claim;

static int
setup(void **state)
{
    (void)state;
    wp_world_init(&world, 16, 4);
    wp_world_call(&world, &watch);
    wp_world_call(&world, &other);
    wp_world_call(&world, &third);
    watch.call.who.admin = true;
    wp_world_call(&world, &claim);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    held_locks_are_free();
    wp_fake_call_cancel(&watch);
    wp_fake_call_cancel(&other);
    wp_fake_call_cancel(&third);
    wp_fake_call_fini(&watch);
    wp_fake_call_fini(&other);
    wp_fake_call_fini(&third);
    wp_fake_call_fini(&claim);
    wp_world_fini(&world);
    return 0;
}

static void
start(struct wp_fake_call *fake, const char *name)
{
    const struct wp_wire_watch_pools_request request = {
        {wp_str_from(name[0] != '\0' ? "default" : ""), wp_str_from(name)}};

    WP_WORLD_START(&world.allocator, fake, "WatchPools", watch_pools_request,
                   &request);
}

/* The pool of the last message. */
static struct wp_pool_stats
last(const struct wp_fake_call *fake)
{
    struct wp_wire_pools pools;

    WP_WORLD_REPLY(&world, fake, pools, &pools);
    assert_int_equal(pools.n_pools, 1);
    return pools.pools[0];
}

/* One more lease: the pool's numbers change. */
static void
change(void)
{
    static unsigned n;
    char id[16];

    (void)snprintf(id, sizeof id, "id-%u", n++);
    wp_world_claim(&world, wp_world_again(&world, &claim), id, "", 0);
    assert_int_equal(claim.status, WP_OK);
    wp_world_settle(&world);
}

static void
test_snapshot_at_once(void **state)
{
    (void)state;
    start(&watch, "");
    assert_int_equal(watch.sends, 1);
    assert_string_equal(last(&watch).spec.name, "p");
    assert_int_equal(last(&watch).ready, 4);
    start(&other, "p");
    assert_int_equal(other.sends, 1);
    wp_world_advance(&world, 10 * INTERVAL_NS);
    assert_int_equal(watch.sends, 1); /* Nothing changed. */
    assert_int_equal(world.next_run_ns, WP_TIME_NEVER);
}

static void
test_changes_are_sent(void **state)
{
    (void)state;
    start(&watch, "p");
    wp_world_advance(&world, INTERVAL_NS);
    change();
    assert_int_equal(watch.sends, 2);
    assert_int_equal(last(&watch).leased, 1);
}

/* How others use a pool is not for everybody. */
static void
test_a_tenant_sees_a_part(void **state)
{
    struct wp_pool_stats seen;

    (void)state;
    change();
    start(&watch, "p");
    seen = last(&watch);
    assert_false(seen.partial);
    assert_int_equal(seen.leased, 1);
    assert_int_equal(seen.served_total[WP_SERVED_WARM], 1);
    start(&other, "p");
    seen = last(&other);
    assert_true(seen.partial);
    assert_string_equal(seen.spec.template_name, "t");
    assert_int_equal(seen.spec.target, 4);
    assert_int_equal(seen.ready, 4);
    assert_int_equal(seen.leased, 0);
    assert_int_equal(seen.created_total, 0);
    assert_int_equal(seen.served_total[WP_SERVED_WARM], 0);
}

/* Many changes between two messages are one message, with the newest numbers. */
static void
test_changes_are_coalesced(void **state)
{
    (void)state;
    start(&watch, "");
    for (int i = 0; i < 5; i++) {
        change();
        wp_world_advance(&world, WP_NS_PER_MS);
    }
    assert_int_equal(watch.sends, 1);
    assert_true(world.next_run_ns <= world.rig.clock.now_mono_ns + INTERVAL_NS);
    wp_world_advance(&world, INTERVAL_NS);
    assert_int_equal(watch.sends, 2);
    assert_int_equal(last(&watch).leased, 5);
    assert_int_equal(world.next_run_ns, WP_TIME_NEVER);
}

/* A client that does not read gets the newest state when it does. */
static void
test_slow_reader(void **state)
{
    uint32_t wakes;

    (void)state;
    start(&watch, "");
    watch.block_sends = true;
    for (int i = 0; i < 5; i++) {
        wp_world_advance(&world, INTERVAL_NS);
        change();
    }
    assert_int_equal(watch.sends, 1);
    assert_int_equal(world.next_run_ns, WP_TIME_NEVER); /* No busy waiting. */
    wakes = world.wakes;
    wp_fake_call_unblock(&watch);
    assert_int_equal(world.wakes, wakes + 1);
    wp_world_settle(&world);
    assert_int_equal(watch.sends, 2);
    assert_int_equal(last(&watch).leased, 5);
    wp_fake_call_unblock(&watch); /* Nothing is owed: nobody is woken. */
    assert_int_equal(world.wakes, wakes + 1);
}

static void
test_client_goes(void **state)
{
    (void)state;
    start(&watch, "");
    wp_fake_call_cancel(&watch);
    assert_true(watch.finished);
    assert_int_equal(watch.status, WP_CANCELLED);
    wp_world_advance(&world, INTERVAL_NS);
    change();
    assert_int_equal(watch.sends, 1);
    start(wp_world_again(&world, &watch), ""); /* Its place is free again. */
    start(&other, "");
    assert_int_equal(other.sends, 1);
}

/* Who takes the place of one that had stopped to read begins anew. */
static void
test_nothing_is_left_of_who_went(void **state)
{
    (void)state;
    start(&watch, "");
    watch.block_sends = true;
    wp_world_advance(&world, INTERVAL_NS);
    change();
    assert_int_equal(watch.sends, 1);
    wp_fake_call_cancel(&watch);
    wp_world_again(&world, &watch)->call.who.admin = true;
    start(&watch, "p");
    assert_int_equal(watch.sends, 1);
    assert_int_equal(world.next_run_ns, WP_TIME_NEVER);
    wp_world_advance(&world, INTERVAL_NS);
    assert_int_equal(watch.sends, 1);
    change();
    assert_int_equal(watch.sends, 2);
    assert_int_equal(last(&watch).leased, 2);
}

static void
test_watches_are_bounded(void **state)
{
    (void)state;
    start(&watch, "");
    start(&other, "");
    start(&third, "");
    assert_true(third.finished);
    assert_int_equal(third.status, WP_RESOURCE_EXHAUSTED);
    assert_string_equal(third.message, "2 watches are open, as many as may be");
    wp_fake_call_cancel(&watch);
    start(wp_world_again(&world, &third), "");
    assert_int_equal(third.sends, 1);
}

static void
test_bad_requests(void **state)
{
    (void)state;
    start(&watch, "q");
    assert_int_equal(watch.status, WP_NOT_FOUND);
    wp_fake_call_start(&other, &world.allocator, "WatchPools",
                       (const uint8_t *)"\x0a\xff", 2);
    assert_int_equal(other.status, WP_INVALID_ARGUMENT);
    assert_true(watch.finished && other.finished);
}

static void
test_no_memory(void **state)
{
    (void)state;
    start(&watch, "");
    watch.no_memory = true;
    wp_world_advance(&world, INTERVAL_NS);
    change();
    assert_true(watch.finished);
    assert_int_equal(watch.status, WP_RESOURCE_EXHAUSTED);
    assert_string_equal(watch.message, "no memory for the message");
}

static void
test_stop(void **state)
{
    (void)state;
    start(&watch, "");
    wp_services_stop(world.services);
    assert_true(watch.finished);
    assert_int_equal(watch.status, WP_UNAVAILABLE);
    start(&other, "");
    assert_true(other.finished);
    assert_int_equal(other.status, WP_UNAVAILABLE);
}

/* The control thread is woken for what could not be sent, and for nothing
 * else. */
static void
test_who_takes_a_message_wakes(void **state)
{
    uint32_t wakes;

    (void)state;
    start(&watch, "");
    change();
    assert_int_equal(watch.sends, 1); /* Its time has not come. */
    wakes = world.wakes;
    watch.call.writable(&watch.call);
    assert_int_equal(world.wakes, wakes);
    watch.block_sends = true;
    wp_world_advance(&world, INTERVAL_NS);
    assert_int_equal(watch.sends, 1);
    wakes = world.wakes;
    /* Another call's word is not this one's. */
    other.call.service = watch.call.service;
    other.call.state = watch.call.state;
    watch.call.writable(&other.call);
    watch.call.cancelled(&other.call);
    other.call.service = NULL;
    assert_int_equal(world.wakes, wakes);
    assert_false(watch.finished);
    wp_world_advance(&world, INTERVAL_NS);
    assert_int_equal(watch.sends, 1);
    wp_fake_call_unblock(&watch);
    assert_int_equal(world.wakes, wakes + 1);
    wp_world_settle(&world);
    assert_int_equal(watch.sends, 2);
    assert_int_equal(last(&watch).leased, 1);
    watch.call.writable(&watch.call);
    assert_int_equal(world.wakes, wakes + 1);
}

/* The pool that has changed, and no other: each watch is told of its own. */
static void
test_watches_of_two_pools(void **state)
{
    struct wp_pool_spec spec;
    struct wp_wire_pools pools;
    struct wp_err err;

    (void)state;
    wp_pool_spec_init(&spec);
    (void)snprintf(spec.name, sizeof spec.name, "q");
    (void)snprintf(spec.template_name, sizeof spec.template_name, "t");
    assert_int_equal(wp_pools_add(world.rig.pools, &spec, NULL, &err), WP_OK);
    wp_world_settle(&world);
    start(&watch, "q");
    start(&other, "");
    assert_string_equal(last(&watch).spec.name, "q");
    WP_WORLD_REPLY(&world, &other, pools, &pools);
    assert_int_equal(pools.n_pools, 2);
    assert_string_equal(pools.pools[0].spec.name, "p");
    assert_string_equal(pools.pools[1].spec.name, "q");
    wp_world_advance(&world, INTERVAL_NS);
    wp_services_changed(world.services, 0);
    wp_world_settle(&world);
    assert_int_equal(watch.sends, 1);
    assert_int_equal(other.sends, 2);
    assert_string_equal(last(&other).spec.name, "p");
    wp_world_advance(&world, INTERVAL_NS / 2);
    wp_services_changed(world.services, 1);
    wp_world_settle(&world);
    assert_int_equal(watch.sends, 2);
    assert_int_equal(other.sends, 2);
    assert_true(world.next_run_ns ==
                wp_clock_mono_ns(&world.rig.clock.clock) + INTERVAL_NS / 2);
    wp_services_changed(world.services, 1);
    wp_world_settle(&world);
    /* The earlier of two. */
    assert_true(world.next_run_ns ==
                wp_clock_mono_ns(&world.rig.clock.clock) + INTERVAL_NS / 2);
    wp_world_advance(&world, INTERVAL_NS / 2);
    assert_int_equal(watch.sends, 2);
    assert_int_equal(other.sends, 3);
    assert_string_equal(last(&other).spec.name, "q");
    wp_world_advance(&world, INTERVAL_NS / 2);
    assert_int_equal(watch.sends, 3);
    assert_int_equal(other.sends, 3);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_snapshot_at_once),
        TEST(test_changes_are_sent),
        TEST(test_a_tenant_sees_a_part),
        TEST(test_changes_are_coalesced),
        TEST(test_slow_reader),
        TEST(test_client_goes),
        TEST(test_nothing_is_left_of_who_went),
        TEST(test_watches_are_bounded),
        TEST(test_bad_requests),
        TEST(test_no_memory),
        TEST(test_stop),
        TEST(test_who_takes_a_message_wakes),
        TEST(test_watches_of_two_pools),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
