/* ClaimStream: leases ahead of need, and what becomes of them when their client
 * takes them, breaks, comes back, lies or reads nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "allocator/services/claim_stream.h"
#include "tests/support/base/held_locks.h"
#include "tests/support/services/stream_peer.h"

enum {
    AHEAD = 4,
    TARGET = 8,
};

static struct wp_world world;
static struct wp_stream_peer peer;
static struct wp_stream_peer other;
static struct wp_fake_call call;

static int
setup(void **state)
{
    (void)state;
    wp_world_init(&world, 128, TARGET);
    wp_peer_init(&peer, &world, "s", AHEAD);
    wp_peer_init(&other, &world, "other", AHEAD);
    wp_world_call(&world, &call);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    held_locks_are_free();
    wp_peer_fini(&peer);
    wp_peer_fini(&other);
    wp_fake_call_fini(&call);
    wp_world_fini(&world);
    return 0;
}

/* Until the pool is full and the stream has what it can have. */
static void
settle(void)
{
    for (int i = 0; i < 8; i++) {
        wp_world_settle(&world);
    }
}

static void
advance(int64_t ns)
{
    wp_clock_manual_advance(&world.rig.clock, ns);
    settle();
}

static void
set_target(uint32_t target)
{
    struct wp_err err;

    assert_int_equal(wp_pools_set_target(world.rig.pools, 0, target, &err),
                     WP_OK);
    settle();
}

static bool
is_held(const struct wp_peer_lease *lease)
{
    struct wp_claim_info info;

    return wp_pools_get(world.rig.pools, WP_STR(""),
                        wp_str_from(lease->claim_id), &info) == WP_OK &&
           strcmp(info.sandbox, lease->sandbox) == 0;
}

static void
test_gives_takes_and_replaces(void **state)
{
    struct wp_peer_lease *lease;
    struct wp_pool_stats stats;

    (void)state;
    wp_peer_open(&peer, false);
    assert_int_equal(wp_peer_count(&peer, WP_PEER_HAS), AHEAD);
    settle();
    lease = wp_peer_first(&peer);
    assert_string_equal(lease->claim_id, "s/1");
    assert_true(is_held(lease));
    wp_peer_take(&peer, lease, false);
    assert_int_equal(lease->state, WP_PEER_CONFIRMED);
    assert_int_equal(wp_peer_count(&peer, WP_PEER_HAS), AHEAD);
    settle();
    stats = wp_rig_stats(&world.rig);
    assert_int_equal(stats.leased, AHEAD + 1);
    assert_int_equal(stats.ready, TARGET);
    /* Each lease ahead is one arrival, when it is granted. */
    assert_int_equal(stats.missed_total, 0);
    assert_int_equal(stats.served_total[WP_SERVED_WARM], AHEAD + 1);
}

static void
test_end_releases_what_was_not_taken(void **state)
{
    struct wp_peer_lease *lease;

    (void)state;
    wp_peer_open(&peer, false);
    lease = wp_peer_first(&peer);
    wp_peer_take(&peer, lease, false);
    wp_fake_call_end(&peer.fake);
    wp_world_assert_ended(&peer.fake, WP_OK);
    settle();
    assert_true(is_held(lease));
    assert_int_equal(wp_rig_stats(&world.rig).leased, 1);
    /* They were shown, so nobody else gets them. */
    assert_int_equal(wp_rig_stats(&world.rig).undone_total, 0);
    assert_int_equal(wp_rig_stats(&world.rig).released_total, AHEAD);
}

static void
test_break_waits_and_resumes(void **state)
{
    struct wp_peer_lease *taken;

    (void)state;
    wp_peer_open(&peer, false);
    taken = wp_peer_first(&peer);
    wp_peer_take(&peer, taken, true);
    wp_fake_call_cancel(&peer.fake);
    wp_world_assert_ended(&peer.fake, WP_CANCELLED);
    advance(WP_STREAM_GRACE_NS - WP_NS_PER_MS);
    assert_int_equal(wp_rig_stats(&world.rig).leased, AHEAD);
    wp_peer_open(&peer, true);
    assert_int_equal(taken->state, WP_PEER_CONFIRMED);
    assert_int_equal(wp_peer_count(&peer, WP_PEER_HAS), AHEAD);
    advance(2 * WP_STREAM_GRACE_NS);
    assert_int_equal(wp_rig_stats(&world.rig).leased, AHEAD + 1);
    assert_true(is_held(taken));
}

static void
test_break_without_return_releases(void **state)
{
    struct wp_peer_lease *taken;
    struct wp_peer_lease *renewed;
    struct wp_lease_change change = {.ttl_ns = 600 * WP_NS_PER_S};

    (void)state;
    wp_peer_open(&peer, false);
    taken = wp_peer_first(&peer);
    wp_peer_take(&peer, taken, false);
    renewed = wp_peer_first(&peer);
    wp_peer_take(&peer, renewed, true);
    wp_fake_call_cancel(&peer.fake);
    /* Where it cannot resume it renews what it took. */
    memcpy(change.token, renewed->token, sizeof change.token);
    assert_int_equal(wp_pools_renew(world.rig.pools, &change), WP_OK);
    advance(WP_STREAM_GRACE_NS);
    assert_int_equal(wp_rig_stats(&world.rig).leased, 2);
    assert_true(is_held(taken));
    assert_true(is_held(renewed));
    wp_peer_open(&peer, true);
    wp_world_assert_ended(&peer.fake, WP_NOT_FOUND);
}

/* How long the control thread may sleep. */
static int64_t
sleeps_ns(void)
{
    wp_world_settle(&world);
    return world.next_run_ns == WP_TIME_NEVER
               ? WP_TIME_NEVER
               : world.next_run_ns - wp_clock_mono_ns(&world.rig.clock.clock);
}

static void
assert_stats(uint32_t open, uint32_t broken, uint32_t ahead)
{
    struct wp_stream_stats stats;

    wp_services_stream_stats(world.services, &stats);
    assert_int_equal(stats.open, open);
    assert_int_equal(stats.broken, broken);
    assert_int_equal(stats.ahead, ahead);
}

/* Leases that nobody has taken are looked at four times a second; a stream that
 * broke, when its time is over; none, never. */
static void
test_is_looked_at_in_time(void **state)
{
    (void)state;
    settle();
    assert_int_equal(sleeps_ns(), WP_TIME_NEVER);
    assert_stats(0, 0, 0);
    wp_peer_open(&peer, false);
    settle();
    assert_in_range(sleeps_ns(), 1, 250 * WP_NS_PER_MS);
    assert_stats(1, 0, AHEAD);
    advance(250 * WP_NS_PER_MS);
    assert_int_equal(sleeps_ns(), 250 * WP_NS_PER_MS);
    advance(100 * WP_NS_PER_MS);
    assert_int_equal(sleeps_ns(), 150 * WP_NS_PER_MS);
    wp_fake_call_cancel(&peer.fake);
    assert_int_equal(sleeps_ns(), WP_STREAM_GRACE_NS);
    assert_stats(0, 1, AHEAD);
    advance(WP_STREAM_GRACE_NS - 1);
    assert_int_equal(sleeps_ns(), 1);
    assert_int_equal(wp_rig_stats(&world.rig).leased, AHEAD);
    advance(1);
    assert_int_equal(sleeps_ns(), WP_TIME_NEVER);
    assert_int_equal(wp_rig_stats(&world.rig).leased, 0);
    assert_stats(0, 0, 0);
}

/* Who comes back is looked at at once, and then in the same time as before. */
static void
test_is_looked_at_when_it_comes_back(void **state)
{
    (void)state;
    wp_peer_open(&peer, false);
    settle();
    advance(250 * WP_NS_PER_MS);
    advance(100 * WP_NS_PER_MS);
    assert_int_equal(sleeps_ns(), 150 * WP_NS_PER_MS);
    wp_fake_call_cancel(&peer.fake);
    wp_peer_open(&peer, true);
    assert_int_equal(sleeps_ns(), 250 * WP_NS_PER_MS);
    assert_stats(1, 0, AHEAD);
}

/* A lease that was renewed before the stream broke, and seen so, is no sign
 * that its client still has it. */
static void
test_renewed_before_the_break_is_released(void **state)
{
    struct wp_lease_change change = {.ttl_ns = 600 * WP_NS_PER_S};

    (void)state;
    wp_peer_open(&peer, false);
    memcpy(change.token, wp_peer_first(&peer)->token, sizeof change.token);
    assert_int_equal(wp_pools_renew(world.rig.pools, &change), WP_OK);
    advance(250 * WP_NS_PER_MS);
    wp_fake_call_cancel(&peer.fake);
    assert_int_equal(wp_rig_stats(&world.rig).leased, AHEAD);
    advance(WP_STREAM_GRACE_NS);
    assert_int_equal(wp_rig_stats(&world.rig).leased, 0);
}

static void
test_lost_messages_are_released_on_resume(void **state)
{
    (void)state;
    peer.deaf = true;
    wp_peer_open(&peer, false);
    wp_fake_call_cancel(&peer.fake);
    assert_int_equal(wp_peer_count(&peer, WP_PEER_HAS), 0);
    peer.deaf = false;
    wp_peer_open(&peer, true);
    settle();
    assert_int_equal(wp_peer_count(&peer, WP_PEER_HAS), AHEAD);
    assert_int_equal(wp_rig_stats(&world.rig).leased, AHEAD);
    assert_int_equal(wp_rig_stats(&world.rig).released_total, AHEAD);
}

static void
test_another_call_takes_over(void **state)
{
    (void)state;
    wp_peer_open(&peer, false);
    wp_peer_open(&other, false);
    (void)snprintf(other.id, sizeof other.id, "s");
    /* The half-dead connection's call is still open. */
    wp_fake_call_end(&other.fake);
    wp_peer_open(&other, false);
    wp_world_assert_ended(&other.fake, WP_ALREADY_EXISTS);
    other.n_leases = peer.n_leases;
    memcpy(other.leases, peer.leases, sizeof peer.leases);
    wp_peer_open(&other, true);
    wp_world_assert_ended(&peer.fake, WP_ABORTED);
    assert_false(other.fake.finished);
    wp_peer_take(&other, wp_peer_first(&other), false);
    settle();
    assert_int_equal(wp_peer_count(&other, WP_PEER_HAS), AHEAD);
    assert_int_equal(wp_peer_count(&other, WP_PEER_CONFIRMED), 1);
    other.ttl_ms = 5000;
    wp_fake_call_cancel(&other.fake);
    wp_peer_open(&other, true);
    wp_world_assert_ended(&other.fake, WP_INVALID_ARGUMENT);
}

/* The opening comes a second time, on a stream that is open. */
static void
open_again(struct wp_stream_peer *to)
{
    static uint8_t buf[WP_WIRE_MESSAGE_MAX];
    const struct wp_wire_stream_request request = {
        .has_open = true,
        .open = {.pool = {WP_STR("default"), WP_STR("p")},
                 .stream_id = wp_str_from(to->id),
                 .ahead = AHEAD}};

    wp_fake_call_receive(&to->fake, buf,
                         wp_wire_pack_stream_request(&request, buf));
}

static void
test_lies_end_the_stream(void **state)
{
    const uint64_t never = AHEAD + 1;
    const uint64_t first = 1;
    const uint64_t none = 0;

    (void)state;
    wp_peer_open(&peer, false);
    wp_peer_say(&peer, &first, 1, &never, 1);
    wp_world_assert_ended(&peer.fake, WP_INVALID_ARGUMENT);
    assert_string_equal(peer.fake.message,
                        "back: a number that this stream was given expected, "
                        "got 5");
    /* Nothing is half applied, and nothing is lost. */
    wp_peer_open(&peer, true);
    assert_int_equal(wp_peer_count(&peer, WP_PEER_HAS), AHEAD);
    wp_peer_say(&peer, &none, 1, NULL, 0);
    wp_world_assert_ended(&peer.fake, WP_INVALID_ARGUMENT);
    wp_peer_open(&peer, true);
    wp_fake_call_receive(&peer.fake, (const uint8_t *)"\xff", 1);
    wp_world_assert_ended(&peer.fake, WP_INVALID_ARGUMENT);
    wp_peer_open(&peer, true);
    wp_fake_call_receive(&peer.fake, (const uint8_t *)"\x0a\x00", 2);
    wp_world_assert_ended(&peer.fake, WP_INVALID_ARGUMENT);
    wp_peer_open(&peer, true);
    open_again(&peer);
    wp_world_assert_ended(&peer.fake, WP_INVALID_ARGUMENT);
    assert_string_equal(peer.fake.message,
                        "open: expected in the first request only");
}

static void
test_took_twice_changes_nothing(void **state)
{
    struct wp_peer_lease *lease;
    uint64_t number;

    (void)state;
    wp_peer_open(&peer, false);
    lease = wp_peer_first(&peer);
    number = lease->number;
    wp_peer_take(&peer, lease, false);
    lease->state = WP_PEER_TOOK;
    wp_peer_say(&peer, &number, 1, &number, 1);
    assert_int_equal(lease->state, WP_PEER_CONFIRMED);
    settle();
    assert_true(is_held(lease));
    /* One whose lease has ended since is told so. */
    wp_world_release(&world, &call, lease->token);
    settle();
    wp_peer_say(&peer, &number, 1, NULL, 0);
    assert_int_equal(lease->state, WP_PEER_OVER);
}

static void
test_given_back_is_released_and_replaced(void **state)
{
    struct wp_peer_lease *lease;
    uint64_t number;

    (void)state;
    wp_peer_open(&peer, false);
    lease = wp_peer_first(&peer);
    number = lease->number;
    lease->state = WP_PEER_OVER;
    wp_peer_say(&peer, NULL, 0, &number, 1);
    wp_peer_say(&peer, NULL, 0, &number, 1);
    settle();
    assert_false(is_held(lease));
    assert_int_equal(wp_peer_count(&peer, WP_PEER_HAS), AHEAD);
    assert_int_equal(wp_rig_stats(&world.rig).leased, AHEAD);
}

static void
test_never_read_is_bounded(void **state)
{
    (void)state;
    set_target(100);
    peer.ahead = 64;
    peer.fake.block_sends = true;
    wp_peer_open(&peer, false);
    peer.fake.block_sends = true;
    settle();
    assert_true(wp_rig_stats(&world.rig).leased <= 64);
    wp_fake_call_cancel(&peer.fake);
    settle();
    peer.fake.block_sends = false;
}

/* Each message is made when the transport can take one, and not for every lease
 * that is granted meanwhile. */
static void
test_nothing_is_made_before_the_transport_is_writable(void **state)
{
    struct wp_peer_lease *lease;
    uint32_t reserves;

    (void)state;
    wp_peer_open(&peer, false);
    lease = wp_peer_first(&peer);
    assert_int_equal(peer.fake.reserves, peer.fake.sends);
    reserves = peer.fake.reserves;
    peer.fake.block_sends = true;
    wp_peer_take(&peer, lease, false);
    assert_int_equal(peer.fake.reserves, reserves + 1);
    wp_peer_take(&peer, wp_peer_first(&peer), false);
    set_target(2 * TARGET);
    advance(2 * WP_NS_PER_S);
    assert_int_equal(peer.fake.reserves, reserves + 1);
    assert_int_equal(lease->state, WP_PEER_TOOK);
    wp_fake_call_unblock(&peer.fake);
    assert_int_equal(wp_peer_count(&peer, WP_PEER_CONFIRMED), 2);
    assert_int_equal(wp_peer_count(&peer, WP_PEER_HAS), AHEAD);
}

/* What it is told of waits for it to read, and no more of that than has a bound:
 * a client that takes on and on and reads nothing is sent away. */
static void
test_who_takes_and_reads_nothing_is_sent_away(void **state)
{
    const uint64_t first = 1;
    int said = 0;

    (void)state;
    wp_peer_open(&peer, false);
    wp_peer_take(&peer, wp_peer_first(&peer), false);
    peer.fake.block_sends = true;
    for (; !peer.fake.finished && said <= WP_STREAM_TOLD_MAX; said++) {
        wp_peer_say(&peer, &first, 1, NULL, 0);
    }
    assert_int_equal(said, WP_STREAM_TOLD_MAX + 1);
    wp_world_assert_ended(&peer.fake, WP_RESOURCE_EXHAUSTED);
    assert_string_equal(peer.fake.message,
                        "took: the client reads too few of the answers");
    wp_peer_open(&peer, true);
    assert_false(peer.fake.finished);
}

/* One that has been told of as much as there is room for is told of what has
 * ended once it has read. */
static void
test_what_has_ended_is_told_once_there_is_room(void **state)
{
    const uint64_t first = 1;

    (void)state;
    peer.ttl_ms = 5000;
    wp_peer_open(&peer, false);
    wp_peer_take(&peer, wp_peer_first(&peer), false);
    settle();
    peer.fake.block_sends = true;
    for (int i = 0; i < WP_STREAM_TOLD_MAX; i++) {
        wp_peer_say(&peer, &first, 1, NULL, 0);
    }
    advance(6 * WP_NS_PER_S);
    assert_int_equal(wp_peer_count(&peer, WP_PEER_OVER), 0);
    wp_fake_call_unblock(&peer.fake);
    advance(WP_NS_PER_S);
    assert_false(peer.fake.finished);
    assert_int_equal(wp_peer_count(&peer, WP_PEER_OVER), AHEAD);
    assert_int_equal(wp_peer_count(&peer, WP_PEER_HAS), AHEAD);
}

/* A stream whose message found no memory is broken, and may be resumed: what
 * was granted for that message is offered again. */
static void
test_no_memory_breaks_the_stream(void **state)
{
    (void)state;
    peer.fake.no_memory = true;
    wp_peer_open(&peer, false);
    wp_world_assert_ended(&peer.fake, WP_RESOURCE_EXHAUSTED);
    assert_string_equal(peer.fake.message, "no memory for the message");
    settle();
    assert_int_equal(wp_rig_stats(&world.rig).leased, 0);
    assert_int_equal(wp_rig_stats(&world.rig).undone_total, AHEAD);
    wp_peer_open(&peer, true);
    assert_int_equal(wp_peer_count(&peer, WP_PEER_HAS), AHEAD);
}

static void
test_breaks_in_mid_grant(void **state)
{
    (void)state;
    world.rig.store_later = true;
    wp_peer_open(&peer, false);
    assert_int_equal(world.rig.store_kept, AHEAD);
    assert_int_equal(peer.messages, 1); /* The greeting. */
    wp_fake_call_cancel(&peer.fake);
    assert_int_equal(wp_rig_store_answer(&world.rig, WP_OK), AHEAD);
    world.rig.store_later = false;
    settle();
    /* Nobody was shown them: they are offered again. */
    assert_int_equal(wp_rig_stats(&world.rig).undone_total, AHEAD);
    assert_int_equal(wp_rig_stats(&world.rig).leased, 0);
    wp_peer_open(&peer, true);
    assert_int_equal(wp_peer_count(&peer, WP_PEER_HAS), AHEAD);
}

/* What was shown and has come to an end is nobody's by being taken. */
static void
test_what_was_lost_cannot_be_taken(void **state)
{
    struct wp_peer_lease *lease;
    struct wp_claim_info info;

    (void)state;
    wp_peer_open(&peer, false);
    lease = wp_peer_first(&peer);
    assert_int_equal(wp_pools_get(world.rig.pools, WP_STR(""),
                                  wp_str_from(lease->claim_id), &info),
                     WP_OK);
    wp_pools_on_lost(world.rig.pools, info.ref, WP_STR("crashed"));
    wp_peer_take(&peer, lease, false);
    assert_int_equal(lease->state, WP_PEER_OVER);
    settle();
    assert_int_equal(wp_peer_count(&peer, WP_PEER_HAS), AHEAD);
    assert_int_equal(wp_rig_stats(&world.rig).leased, AHEAD);
    /* Another has the claim's id now, and another sandbox. */
    lease = wp_peer_first(&peer);
    wp_world_release(&world, &call, lease->token);
    wp_world_claim(&world, wp_world_again(&world, &call), lease->claim_id, "",
                   0);
    wp_world_assert_ended(&call, WP_OK);
    wp_peer_take(&peer, lease, false);
    assert_int_equal(lease->state, WP_PEER_OVER);
    settle();
    assert_int_equal(wp_rig_stats(&world.rig).leased, AHEAD + 1);
}

/* What was granted and not sent is the pool's again, and that
 * does not wait for the client's return. */
static void
test_breaks_before_it_is_sent(void **state)
{
    (void)state;
    wp_peer_open(&peer, false);
    peer.fake.block_sends = true;
    wp_peer_take(&peer, wp_peer_first(&peer), false); /* On its way. */
    wp_peer_take(&peer, wp_peer_first(&peer), false);
    wp_peer_take(&peer, wp_peer_first(&peer), false);
    assert_int_equal(wp_rig_stats(&world.rig).leased, AHEAD + 3);
    assert_int_equal(wp_rig_stats(&world.rig).undone_total, 0);
    wp_fake_call_cancel(&peer.fake);
    settle();
    assert_int_equal(wp_rig_stats(&world.rig).leased, AHEAD);
    assert_int_equal(wp_rig_stats(&world.rig).undone_total, 3);
}

static void
test_store_stands_still(void **state)
{
    (void)state;
    world.rig.store_later = true;
    wp_peer_open(&peer, false);
    world.rig.store_later = false;
    /* Others are served meanwhile, and it is served when the store answers. */
    wp_world_claim(&world, &call, "person", "", 0);
    wp_world_assert_ended(&call, WP_OK);
    assert_int_equal(wp_rig_store_answer(&world.rig, WP_UNAVAILABLE), AHEAD);
    settle();
    assert_int_equal(peer.lacking_code, 14);
    advance(2 * WP_NS_PER_S);
    assert_int_equal(wp_peer_count(&peer, WP_PEER_HAS), AHEAD);
}

static void
test_empty_pool_fills_after_those_who_wait(void **state)
{
    struct wp_pool_stats before;

    (void)state;
    set_target(0);
    before = wp_rig_stats(&world.rig);
    wp_world_claim(&world, &call, "person", "", 30000);
    assert_false(call.finished);
    wp_peer_open(&peer, false);
    assert_int_equal(peer.messages, 1);
    assert_int_equal(peer.lacking_code, 8);
    set_target(1);
    assert_true(call.finished);
    assert_int_equal(call.status, WP_OK);
    set_target(2);
    assert_true(wp_peer_count(&peer, WP_PEER_HAS) >= 2);
    assert_int_equal(wp_peer_count(&peer, WP_PEER_HAS) +
                         (uint32_t)wp_rig_stats(&world.rig).waiting,
                     AHEAD);
    assert_int_equal(wp_rig_stats(&world.rig).refused_total,
                     before.refused_total);
    assert_int_equal(wp_rig_stats(&world.rig).missed_total,
                     before.missed_total + 1); /* The person's. */
}

static void
set_quota(uint32_t leases)
{
    struct wp_pool_spec spec = wp_rig_stats(&world.rig).spec;
    struct wp_err err;

    spec.tenant_leases_max = leases;
    assert_int_equal(wp_pools_update(world.rig.pools, 0, &spec, &err), WP_OK);
    settle();
    advance(2 * WP_NS_PER_S);
}

/* What is owed waits while the client takes nothing, and may be over then. */
static void
test_reason_that_is_over_is_not_told(void **state)
{
    (void)state;
    set_quota(1);
    wp_peer_open(&peer, false);
    assert_int_equal(peer.lacking_code, 8);
    wp_fake_call_end(&peer.fake);
    settle();
    other.fake.block_sends = true;
    wp_peer_open(&other, false);
    settle();
    set_quota(0);
    assert_int_equal(wp_peer_count(&other, WP_PEER_HAS), 0);
    wp_fake_call_unblock(&other.fake);
    assert_int_equal(wp_peer_count(&other, WP_PEER_HAS), AHEAD);
    assert_string_equal(other.lacking, "");
}

/* A stream of more leases than it has cells is served in one go, without the
 * control thread. */
static void
test_more_than_one_message_holds_comes_at_once(void **state)
{
    const uint32_t more = 2 * WP_STREAM_CELLS + 1;

    (void)state;
    set_target(100);
    peer.ahead = more;
    wp_peer_open(&peer, false);
    assert_int_equal(wp_peer_count(&peer, WP_PEER_HAS), more);
    assert_int_equal(peer.messages, 3);
    for (uint32_t i = 0; i < more; i++) {
        assert_int_equal(peer.leases[i].number, i + 1);
    }
    assert_stats(1, 0, more);
}

/* Why it lacks leases is told once, and again only after it had some, or when it
 * comes back and lacks them still. */
static void
test_why_leases_are_lacking_is_told_anew(void **state)
{
    char first[sizeof peer.lacking];

    (void)state;
    set_target(0);
    wp_peer_open(&peer, false);
    assert_int_equal(peer.lacking_code, 8);
    (void)snprintf(first, sizeof first, "%s", peer.lacking);
    assert_int_equal(peer.messages, 1);
    advance(3 * WP_NS_PER_S);
    assert_int_equal(peer.messages, 1);
    wp_fake_call_cancel(&peer.fake);
    peer.lacking_code = 0;
    wp_peer_open(&peer, true);
    assert_int_equal(peer.lacking_code, 8);
    assert_string_equal(peer.lacking, first);
    set_target(AHEAD);
    advance(2 * WP_NS_PER_S);
    assert_int_equal(wp_peer_count(&peer, WP_PEER_HAS), AHEAD);
    set_target(0);
    peer.lacking_code = 0;
    wp_peer_take(&peer, wp_peer_first(&peer), false);
    settle();
    assert_int_equal(wp_peer_count(&peer, WP_PEER_HAS), AHEAD - 1);
    assert_int_equal(peer.lacking_code, 8);
    assert_string_equal(peer.lacking, first);
}

/* What it lacked before it broke holds it up no more, and is not told again. */
static void
test_comes_back_without_what_it_lacked(void **state)
{
    (void)state;
    set_target(0);
    wp_peer_open(&peer, false);
    assert_int_equal(peer.lacking_code, 8);
    wp_fake_call_cancel(&peer.fake);
    set_target(TARGET);
    peer.lacking_code = 0;
    peer.lacking[0] = '\0';
    wp_peer_open(&peer, true);
    assert_int_equal(wp_peer_count(&peer, WP_PEER_HAS), AHEAD);
    wp_fake_call_cancel(&peer.fake);
    wp_peer_open(&peer, true);
    assert_int_equal(wp_peer_count(&peer, WP_PEER_HAS), AHEAD);
    assert_int_equal(peer.lacking_code, 0);
    assert_string_equal(peer.lacking, "");
}

/* What no change of the pool cures is claimed again a second later, and not
 * before; the control thread comes for it by itself. */
static void
test_claims_again_after_a_second(void **state)
{
    struct wp_pool_spec spec = wp_rig_stats(&world.rig).spec;
    struct wp_err err;

    (void)state;
    settle();
    spec.tenant_leases_max = 1;
    assert_int_equal(wp_pools_update(world.rig.pools, 0, &spec, &err), WP_OK);
    settle();
    wp_world_claim(&world, &call, "person", "", 0);
    wp_world_assert_ended(&call, WP_OK);
    settle();
    assert_int_equal(sleeps_ns(), WP_TIME_NEVER);
    world.wakes = 0;
    wp_peer_open(&peer, false);
    assert_int_equal(world.wakes, 1);
    assert_int_equal(wp_peer_count(&peer, WP_PEER_HAS), 0);
    assert_int_equal(sleeps_ns(), WP_NS_PER_S);
    spec.tenant_leases_max = 0;
    assert_int_equal(wp_pools_update(world.rig.pools, 0, &spec, &err), WP_OK);
    settle();
    advance(WP_NS_PER_S - 1);
    assert_int_equal(wp_peer_count(&peer, WP_PEER_HAS), 0);
    assert_int_equal(sleeps_ns(), 1);
    advance(1);
    assert_int_equal(wp_peer_count(&peer, WP_PEER_HAS), AHEAD);
}

static void
test_quota_counts_what_is_ahead(void **state)
{
    (void)state;
    set_quota(2);
    wp_peer_open(&peer, false);
    assert_int_equal(wp_peer_count(&peer, WP_PEER_HAS), 2);
    assert_int_equal(peer.lacking_code, 8);
    assert_non_null(strstr(peer.lacking, "may have 2 claims"));
    /* Another reason of the same kind is told as well. */
    set_quota(1);
    assert_non_null(strstr(peer.lacking, "may have 1 claims"));
    set_quota(2);
    wp_world_claim(&world, &call, "person", "", 0);
    wp_world_assert_ended(&call, WP_RESOURCE_EXHAUSTED);
    set_quota(0);
    assert_int_equal(wp_peer_count(&peer, WP_PEER_HAS), AHEAD);
}

static void
test_expired_and_lost_are_replaced(void **state)
{
    struct wp_claim_info info;

    (void)state;
    peer.ttl_ms = 5000;
    wp_peer_open(&peer, false);
    advance(6 * WP_NS_PER_S);
    advance(WP_NS_PER_S);
    assert_int_equal(wp_peer_count(&peer, WP_PEER_OVER), AHEAD);
    assert_int_equal(wp_peer_count(&peer, WP_PEER_HAS), AHEAD);
    assert_int_equal(wp_pools_get(world.rig.pools, WP_STR(""),
                                  wp_str_from(wp_peer_first(&peer)->claim_id),
                                  &info),
                     WP_OK);
    wp_pools_on_lost(world.rig.pools, info.ref, WP_STR("crashed"));
    advance(WP_NS_PER_S);
    assert_int_equal(wp_peer_count(&peer, WP_PEER_OVER), AHEAD + 1);
    assert_int_equal(wp_peer_count(&peer, WP_PEER_HAS), AHEAD);
    settle();
    assert_int_equal(wp_rig_stats(&world.rig).leased, AHEAD);
}

static void
test_ids_of_others_are_not_shown(void **state)
{
    (void)state;
    wp_world_claim(&world, &call, "s/1", "", 0);
    wp_world_assert_ended(&call, WP_OK);
    wp_peer_open(&peer, false);
    settle();
    assert_int_equal(wp_peer_count(&peer, WP_PEER_HAS), AHEAD);
    assert_int_equal(wp_peer_first(&peer)->number, 2);
}

static void
test_streams_are_bounded(void **state)
{
    static struct wp_stream_peer many[WP_STREAMS_TENANT_MAX];

    (void)state;
    set_target(100);
    for (uint32_t i = 0; i < WP_STREAMS_TENANT_MAX; i++) {
        char id[16];

        (void)snprintf(id, sizeof id, "many-%u", i);
        wp_peer_init(&many[i], &world, id, 1);
        wp_peer_open(&many[i], false);
        assert_false(many[i].fake.finished);
    }
    wp_peer_open(&peer, false);
    wp_world_assert_ended(&peer.fake, WP_RESOURCE_EXHAUSTED);
    {
        char expected[80];

        (void)snprintf(expected, sizeof expected,
                       "%d streams are open, as many as one tenant may have",
                       WP_STREAMS_TENANT_MAX);
        assert_string_equal(peer.fake.message, expected);
    }
    (void)snprintf(other.tenant, sizeof other.tenant, "acme");
    wp_peer_open(&other, false);
    assert_int_equal(wp_peer_count(&other, WP_PEER_HAS), AHEAD);
    for (uint32_t i = 0; i < WP_STREAMS_TENANT_MAX; i++) {
        wp_peer_fini(&many[i]);
    }
}

/* The daemon's bound, by tenants who keep to theirs. */
static void
test_streams_of_all_tenants_are_bounded(void **state)
{
    static struct wp_stream_peer many[WP_STREAMS_MAX];
    char expected[80];

    (void)state;
    for (uint32_t i = 0; i < WP_STREAMS_MAX; i++) {
        char id[16];

        (void)snprintf(id, sizeof id, "many-%u", i);
        wp_peer_init(&many[i], &world, id, 1);
        (void)snprintf(many[i].tenant, sizeof many[i].tenant, "t%u",
                       i / WP_STREAMS_TENANT_MAX);
        wp_peer_open(&many[i], false);
        assert_false(many[i].fake.finished);
    }
    (void)snprintf(expected, sizeof expected,
                   "%d streams are open, as many as may be", WP_STREAMS_MAX);
    wp_peer_open(&peer, false);
    wp_world_assert_ended(&peer.fake, WP_RESOURCE_EXHAUSTED);
    assert_string_equal(peer.fake.message, expected);
    /* The place of one that has ended is another's, and nothing of it is left.
     */
    wp_fake_call_end(&many[0].fake);
    wp_peer_open(&peer, false);
    assert_false(peer.fake.finished);
    for (uint32_t i = 0; i < WP_STREAMS_MAX; i++) {
        wp_peer_fini(&many[i]);
    }
}

static void
test_leaving_ends_streams(void **state)
{
    struct wp_peer_lease *taken;

    (void)state;
    wp_peer_open(&peer, false);
    taken = wp_peer_first(&peer);
    wp_peer_take(&peer, taken, false);
    wp_services_end_streams(world.services);
    wp_world_assert_ended(&peer.fake, WP_UNAVAILABLE);
    wp_peer_open(&other, false);
    wp_world_assert_ended(&other.fake, WP_UNAVAILABLE);
    advance(WP_STREAM_GRACE_NS);
    assert_true(is_held(taken));
    assert_int_equal(wp_rig_stats(&world.rig).leased, 1);
}

static void
test_bad_requests(void **state)
{
    (void)state;
    peer.ahead = 1000000;
    wp_peer_open(&peer, false);
    wp_world_assert_ended(&peer.fake, WP_INVALID_ARGUMENT);
    assert_string_equal(peer.fake.message, "ahead: 1 to 256 expected, got "
                                           "1000000");
    peer.ahead = AHEAD;
    peer.id[0] = '\0';
    wp_peer_open(&peer, false);
    wp_world_assert_ended(&peer.fake, WP_INVALID_ARGUMENT);
    (void)snprintf(peer.id, sizeof peer.id, "s");
    wp_peer_open(&peer, true);
    wp_world_assert_ended(&peer.fake, WP_NOT_FOUND);
    wp_fake_call_start(wp_world_again(&world, &call), &world.allocator,
                       "ClaimStream", (const uint8_t *)"", 0);
    wp_world_assert_ended(&call, WP_INVALID_ARGUMENT);
    atomic_store(&world.serves, false);
    wp_peer_open(&peer, false);
    wp_world_assert_ended(&peer.fake, WP_UNAVAILABLE);
}

#define STREAM_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        STREAM_TEST(test_gives_takes_and_replaces),
        STREAM_TEST(test_end_releases_what_was_not_taken),
        STREAM_TEST(test_break_waits_and_resumes),
        STREAM_TEST(test_break_without_return_releases),
        STREAM_TEST(test_is_looked_at_in_time),
        STREAM_TEST(test_is_looked_at_when_it_comes_back),
        STREAM_TEST(test_renewed_before_the_break_is_released),
        STREAM_TEST(test_lost_messages_are_released_on_resume),
        STREAM_TEST(test_another_call_takes_over),
        STREAM_TEST(test_lies_end_the_stream),
        STREAM_TEST(test_took_twice_changes_nothing),
        STREAM_TEST(test_given_back_is_released_and_replaced),
        STREAM_TEST(test_never_read_is_bounded),
        STREAM_TEST(test_nothing_is_made_before_the_transport_is_writable),
        STREAM_TEST(test_who_takes_and_reads_nothing_is_sent_away),
        STREAM_TEST(test_what_has_ended_is_told_once_there_is_room),
        STREAM_TEST(test_no_memory_breaks_the_stream),
        STREAM_TEST(test_breaks_in_mid_grant),
        STREAM_TEST(test_what_was_lost_cannot_be_taken),
        STREAM_TEST(test_breaks_before_it_is_sent),
        STREAM_TEST(test_store_stands_still),
        STREAM_TEST(test_empty_pool_fills_after_those_who_wait),
        STREAM_TEST(test_reason_that_is_over_is_not_told),
        STREAM_TEST(test_more_than_one_message_holds_comes_at_once),
        STREAM_TEST(test_why_leases_are_lacking_is_told_anew),
        STREAM_TEST(test_comes_back_without_what_it_lacked),
        STREAM_TEST(test_claims_again_after_a_second),
        STREAM_TEST(test_quota_counts_what_is_ahead),
        STREAM_TEST(test_expired_and_lost_are_replaced),
        STREAM_TEST(test_ids_of_others_are_not_shown),
        STREAM_TEST(test_streams_are_bounded),
        STREAM_TEST(test_streams_of_all_tenants_are_bounded),
        STREAM_TEST(test_leaving_ends_streams),
        STREAM_TEST(test_bad_requests),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
