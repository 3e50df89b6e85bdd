/* tests/unit/allocator/services/stream_story_test.c - ClaimStream as one story:
 * after each step all that the daemon keeps of its streams is written down, and
 * all that their clients have been told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "allocator/services/claim_stream.h"
#include "tests/support/base/held_locks.h"
#include "tests/support/base/journal.h"
#include "tests/support/services/service_world.h"

enum {
    PEERS = 4,
    TARGET = 6,
};

struct peer {
    struct wp_fake_call fake;
    const char *name;
    bool begun;
    bool has_ended; /* It was written down. */
};

static struct wp_world world;
static struct peer peers[PEERS];

void __real_wp_stream_work(struct wp_claim_stream *stream);
void __wrap_wp_stream_work(struct wp_claim_stream *stream);

/* As the other files ask for it. */
void
__wrap_wp_stream_work(struct wp_claim_stream *stream)
{
    journal("  %d works", (int)(stream - world.services->streams));
    journal_line();
    __real_wp_stream_work(stream);
}

/* --- what is written down --- */

static void
journal_numbers(const char *what, const uint64_t *numbers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        journal("%s%llu", i == 0 ? what : ",", (unsigned long long)numbers[i]);
    }
}

static void
on_sent(struct wp_fake_call *fake)
{
    const struct peer *peer = fake->ctx;
    struct wp_wire_stream_response r;

    WP_WORLD_REPLY(&world, fake, stream_response, &r);
    journal("  %s is told", peer->name);
    for (uint32_t i = 0; i < r.n_leases; i++) {
        const struct wp_wire_lease_ahead *lease = &r.leases[i];

        journal(" %llu:%.*s/%.2s/%s/%lld", (unsigned long long)lease->number,
                (int)lease->claim_id.len, lease->claim_id.ptr,
                lease->grant->sandbox, wp_served_text(lease->grant->served),
                (long long)(lease->grant->deadline_wall_ms == 0
                                ? 0
                                : lease->grant->deadline_wall_ms -
                                      wp_clock_wall_ns(&world.rig.clock.clock) /
                                          WP_NS_PER_MS));
    }
    journal_numbers(" taken ", r.taken, r.n_taken);
    journal_numbers(" ended ", r.ended, r.n_ended);
    if (r.lacking_code != 0 || r.lacking.len > 0) {
        journal(" lacks %d %.*s", r.lacking_code, (int)r.lacking.len,
                r.lacking.ptr);
    }
    journal_line();
}

static const char *
after(int64_t ns, char out[32])
{
    if (ns == WP_TIME_NEVER) {
        return "never";
    }
    (void)snprintf(out, 32, "%lld",
                   (long long)(ns - wp_clock_mono_ns(&world.rig.clock.clock)));
    return ns == 0 ? "0" : out;
}

static void
journal_stream(uint32_t at, const struct wp_claim_stream *s)
{
    static const char *const states[] = {"free", "open", "parked", "closing"};
    char retry[32], check[32], grace[32], timed[32];

    journal("  %u %s '%s' of '%s' in %s/%s (%u) ttl %lld ahead %u next %llu "
            "busy %u:",
            at, states[s->state], s->id, s->tenant, s->pool_namespace, s->pool,
            s->pool_index, (long long)(s->ttl_ns / WP_NS_PER_MS), s->ahead,
            (unsigned long long)s->next, s->n_busy);
    for (uint32_t i = 0; i < s->n_shown; i++) {
        journal(" %llu", (unsigned long long)s->shown[i].number);
    }
    for (uint32_t i = 0; i < s->n_told; i++) {
        journal(" tells %llu%s", (unsigned long long)s->told[i].number,
                s->told[i].taken ? "+" : "-");
    }
    for (uint32_t i = 0; i < WP_STREAM_CELLS; i++) {
        const struct wp_stream_cell *cell = &s->cells[i];

        if (cell->state != WP_CELL_FREE) {
            journal(" [%u %d %s]", i, cell->state, cell->claim_id);
        }
    }
    journal("%s%s%s%s", s->blocked ? " blocked" : "",
            s->greets ? " greets" : "", s->starved ? " starved" : "",
            s->lacking_due ? " lacking due" : "");
    if (s->lacking.status != WP_OK) {
        journal(" lacks %s", wp_status_name(s->lacking.status));
    }
    journal(" retry %s", after(s->retry_ns, retry));
    if (s->state == WP_STREAM_PARKED) {
        journal(" grace %s", after(s->grace_ns, grace));
    } else {
        journal(" check %s at %u", after(s->check_ns, check), s->check_at);
    }
    journal(" timed %s", after(s->timed_ns, timed));
    journal_line();
}

static void
journal_world(void)
{
    struct wp_stream_stats stats;
    char next[32];

    for (size_t i = 0; i < PEERS; i++) {
        struct peer *peer = &peers[i];

        if (peer->begun && peer->fake.finished && !peer->has_ended) {
            peer->has_ended = true;
            journal("  %s ends %s '%s' %lld", peer->name,
                    wp_status_name(peer->fake.status), peer->fake.message,
                    (long long)peer->fake.retry_after_ns);
            journal_line();
        }
    }
    for (uint32_t i = 0; i < WP_STREAMS_MAX; i++) {
        if (world.services->streams[i].state != WP_STREAM_FREE) {
            journal_stream(i, &world.services->streams[i]);
        }
    }
    wp_services_stream_stats(world.services, &stats);
    journal("  open %u broken %u ahead %u wakes %u next %s", stats.open,
            stats.broken, stats.ahead, world.wakes,
            after(world.next_run_ns, next));
    for (uint32_t i = 0; i < 2; i++) {
        struct wp_pool_stats pool;

        wp_pools_stats(world.rig.pools, i, &pool);
        journal(" | %s ready %u leased %u undone %llu released %llu",
                pool.spec.name, pool.ready, pool.leased,
                (unsigned long long)pool.undone_total,
                (unsigned long long)pool.released_total);
    }
    journal_line();
    world.wakes = 0;
}

/* --- what is done --- */

static void
step(const char *what)
{
    journal("%s", what);
    journal_line();
}

static void
settle(void)
{
    for (int i = 0; i < 4; i++) {
        wp_world_settle(&world);
        wp_services_changed(world.services, 1);
    }
    journal_world();
}

static void
advance(const char *what, int64_t ns)
{
    step(what);
    wp_clock_manual_advance(&world.rig.clock, ns);
    settle();
}

struct opening {
    const char *id;
    const char *tenant;
    const char *pool;
    int64_t ttl_ms;
    uint32_t ahead;
    bool resume;
    uint32_t n_keep, n_took, n_back;
    uint64_t keep[8], took[8], back[8];
};

static void
open_stream(size_t at, const struct opening *o)
{
    struct peer *peer = &peers[at];
    const char *tenant = o->tenant != NULL ? o->tenant : "";
    const struct wp_wire_stream_request request = {
        .has_open = true,
        .open = {.pool = {WP_STR("default"), wp_str_from(o->pool)},
                 .stream_id = wp_str_from(o->id),
                 .tenant = wp_str_from(tenant),
                 .ttl_ms = o->ttl_ms,
                 .ahead = o->ahead,
                 .resume = o->resume,
                 .keep = o->keep,
                 .n_keep = o->n_keep},
        .took = o->took,
        .n_took = o->n_took,
        .back = o->back,
        .n_back = o->n_back,
    };

    journal("%s opens '%s' of '%s' in %s%s", peer->name, o->id, tenant, o->pool,
            o->resume ? " again" : "");
    journal_line();
    if (peer->begun) {
        (void)wp_world_again(&world, &peer->fake);
    }
    peer->begun = true;
    peer->has_ended = false;
    peer->fake.sent = on_sent;
    peer->fake.ctx = peer;
    WP_WORLD_START(&world.allocator, &peer->fake, "ClaimStream", stream_request,
                   &request);
    journal_world();
}

static void
say(size_t at, uint64_t took, uint64_t back)
{
    static uint8_t buf[WP_WIRE_MESSAGE_MAX];
    const struct wp_wire_stream_request request = {
        .took = &took, .n_took = took != 0, .back = &back, .n_back = back != 0};

    journal("%s took %llu, gives back %llu", peers[at].name,
            (unsigned long long)took, (unsigned long long)back);
    journal_line();
    wp_fake_call_receive(&peers[at].fake, buf,
                         wp_wire_pack_stream_request(&request, buf));
    journal_world();
}

static void
cancel(size_t at)
{
    journal("%s breaks", peers[at].name);
    journal_line();
    wp_fake_call_cancel(&peers[at].fake);
    journal_world();
}

static void
set_targets(uint32_t p, uint32_t q)
{
    struct wp_err err;

    journal("targets %u and %u", p, q);
    journal_line();
    assert_int_equal(wp_pools_set_target(world.rig.pools, 0, p, &err), WP_OK);
    assert_int_equal(wp_pools_set_target(world.rig.pools, 1, q, &err), WP_OK);
    settle();
}

static int
setup(void **state)
{
    static const char *const names[PEERS] = {"A", "B", "C", "D"};
    struct wp_pool_spec spec;
    struct wp_err err;

    (void)state;
    wp_world_init(&world, 192, TARGET);
    wp_pool_spec_init(&spec);
    (void)snprintf(spec.name, sizeof spec.name, "q");
    (void)snprintf(spec.template_name, sizeof spec.template_name, "t");
    spec.create_inflight_max = 64;
    spec.target = 3;
    assert_int_equal(wp_pools_add(world.rig.pools, &spec, NULL, &err), WP_OK);
    wp_world_settle(&world);
    memset(peers, 0, sizeof peers);
    for (size_t i = 0; i < PEERS; i++) {
        peers[i].name = names[i];
        wp_world_call(&world, &peers[i].fake);
    }
    world.wakes = 0;
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    held_locks_are_free();
    journal_mute(true);
    for (size_t i = 0; i < PEERS; i++) {
        wp_fake_call_cancel(&peers[i].fake);
        wp_fake_call_fini(&peers[i].fake);
    }
    journal_mute(false);
    wp_world_fini(&world);
    return 0;
}

static void
test_two_pools_and_their_streams(void **state)
{
    (void)state;
    step("all is ready");
    settle();
    open_stream(0, &(struct opening){
                       .id = "s", .pool = "p", .ttl_ms = 60000, .ahead = 2});
    open_stream(1, &(struct opening){
                       .id = "s", .tenant = "acme", .pool = "q", .ahead = 3});
    settle();
    say(1, 2, 0);
    settle();
    say(0, 1, 2);
    settle();
    /* Only the pool that has more is asked again. */
    set_targets(0, 0);
    open_stream(2, &(struct opening){
                       .id = "t", .pool = "p", .ttl_ms = 1000, .ahead = 2});
    open_stream(3, &(struct opening){
                       .id = "t", .tenant = "acme", .pool = "q", .ahead = 5});
    say(0, 3, 0);
    settle();
    set_targets(0, 2);
    set_targets(2, 2);
    advance("a moment", 100 * WP_NS_PER_MS);
    advance("a second", WP_NS_PER_S);
    cancel(2);
    cancel(1);
    settle();
    advance("most of the grace", WP_STREAM_GRACE_NS - 1);
    open_stream(1, &(struct opening){.id = "s",
                                     .tenant = "acme",
                                     .pool = "p",
                                     .ahead = 3,
                                     .resume = true});
    open_stream(1, &(struct opening){.id = "s",
                                     .tenant = "acme",
                                     .pool = "q",
                                     .ttl_ms = 1000,
                                     .ahead = 3,
                                     .resume = true});
    open_stream(1, &(struct opening){
                       .id = "s", .tenant = "acme", .pool = "q", .ahead = 3});
    open_stream(1, &(struct opening){.id = "s",
                                     .tenant = "acme",
                                     .pool = "q",
                                     .ahead = 1,
                                     .resume = true,
                                     .keep = {1},
                                     .n_keep = 1,
                                     .took = {3},
                                     .n_took = 1});
    settle();
    advance("the rest of the grace", 1);
    journal_compare(WP_TEST_GOLDEN "/stream_two_pools.txt");
}

static void
test_what_a_client_keeps_and_what_it_has_lost(void **state)
{
    (void)state;
    open_stream(0, &(struct opening){
                       .id = "s", .pool = "p", .ttl_ms = 2000, .ahead = 4});
    settle();
    cancel(0);
    /* 1 it does not have, 2 is given back, 3 and 4 are kept. */
    open_stream(0, &(struct opening){.id = "s",
                                     .pool = "p",
                                     .ttl_ms = 2000,
                                     .ahead = 4,
                                     .resume = true,
                                     .keep = {3, 4},
                                     .n_keep = 2,
                                     .back = {2},
                                     .n_back = 1});
    settle();
    cancel(0);
    open_stream(0, &(struct opening){.id = "s",
                                     .pool = "p",
                                     .ttl_ms = 2000,
                                     .ahead = 4,
                                     .resume = true,
                                     .took = {9},
                                     .n_took = 1});
    advance("all have expired", 3 * WP_NS_PER_S);
    cancel(0);
    open_stream(0, &(struct opening){.id = "s",
                                     .pool = "p",
                                     .ttl_ms = 2000,
                                     .ahead = 1,
                                     .resume = true,
                                     .keep = {1, 4, 7},
                                     .n_keep = 3});
    settle();
    open_stream(1, &(struct opening){.id = "s",
                                     .pool = "p",
                                     .ttl_ms = 2000,
                                     .ahead = 2,
                                     .resume = true});
    settle();
    peers[1].fake.block_sends = true;
    say(1, 8, 0);
    say(1, 0, 9);
    settle();
    say(1, 8, 8);
    settle();
    step("B takes what is sent");
    wp_fake_call_unblock(&peers[1].fake);
    journal_world();
    step("B ends");
    wp_fake_call_end(&peers[1].fake);
    settle();
    journal_compare(WP_TEST_GOLDEN "/stream_kept.txt");
}

static void
test_refusals_and_the_end(void **state)
{
    (void)state;
    open_stream(0, &(struct opening){.id = "s", .pool = "none", .ahead = 1});
    open_stream(0, &(struct opening){.id = "s", .pool = "p", .ahead = 0});
    open_stream(0, &(struct opening){
                       .id = "s", .pool = "p", .ahead = 1, .resume = true});
    open_stream(
        0, &(struct opening){
               .id = "s", .pool = "p", .ahead = 1, .took = {1}, .n_took = 1});
    open_stream(1, &(struct opening){
                       .id = "s", .pool = "p", .ahead = 1, .resume = true});
    settle();
    open_stream(2, &(struct opening){.id = "later", .pool = "q", .ahead = 2});
    settle();
    step("the daemon leaves");
    wp_services_end_streams(world.services);
    settle();
    open_stream(3, &(struct opening){.id = "late", .pool = "q", .ahead = 2});
    advance("the grace", WP_STREAM_GRACE_NS);
    journal_compare(WP_TEST_GOLDEN "/stream_end.txt");
}

/* More than are looked at in one turn: the next turn looks at the others. */
static void
test_turns_of_many_leases(void **state)
{
    struct wp_claim_stream *stream = &world.services->streams[127];

    (void)state;
    journal_mute(true);
    set_targets(60, 3);
    open_stream(0, &(struct opening){.id = "s", .pool = "p", .ahead = 70});
    for (int i = 0; i < 5; i++) {
        advance("a turn", 250 * WP_NS_PER_MS);
    }
    journal_mute(false);
    assert_int_equal(stream->n_shown, 70);
    stream->check_at = 3;
    for (int i = 0; i < 4; i++) {
        if (i == 2) {
            step("numbers 10 and 70 are lost");
            wp_pools_on_lost(world.rig.pools, stream->shown[9].ref,
                             WP_STR("crashed"));
            wp_pools_on_lost(world.rig.pools, stream->shown[69].ref,
                             WP_STR("crashed"));
        }
        advance("a turn", 250 * WP_NS_PER_MS);
    }
    journal_compare(WP_TEST_GOLDEN "/stream_turns.txt");
}

/* The longest id that a stream may have, and the last number there is. */
static void
test_the_longest_id_of_a_claim(void **state)
{
    static struct wp_claim_stream stream;
    char id[WP_CLAIM_ID_MAX + 1];
    char expected[WP_CLAIM_ID_MAX + 1];

    (void)state;
    memset(stream.id, 's', WP_STREAM_ID_MAX);
    wp_stream_claim_id(&stream, UINT64_MAX, id);
    (void)snprintf(expected, sizeof expected, "%s/18446744073709551615",
                   stream.id);
    assert_string_equal(id, expected);
    assert_int_equal(strlen(id), WP_STREAM_ID_MAX + 21);
}

#define STREAM_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        STREAM_TEST(test_two_pools_and_their_streams),
        STREAM_TEST(test_what_a_client_keeps_and_what_it_has_lost),
        STREAM_TEST(test_refusals_and_the_end),
        STREAM_TEST(test_turns_of_many_leases),
        cmocka_unit_test(test_the_longest_id_of_a_claim),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
