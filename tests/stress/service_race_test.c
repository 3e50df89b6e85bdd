/* Answers and cancellations at the same moment, from different threads.
 *
 * One thread plays the transport: it starts Claim and ClaimBatch and has their
 * clients go at random moments. Another answers the lease store's commits, the
 * main thread is control. However they interleave: each call ends once (the
 * fake transport aborts otherwise), and when all is quiet nothing is leased that
 * no client was told of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "allocator/services/services.h"
#include "pool/base/assert.h"
#include "pool/base/rng.h"
#include "proto/wire/wire.h"
#include "tests/support/pool/fake_backend.h"
#include "tests/support/services/fake_call.h"

enum {
    SLOTS = 64,
    TARGET = 12,
    ROUNDS = 4000,  /* Fewer on a busy machine: */
    ROUNDS_S = 20,  /* none is begun after so long, */
    SETTLE_S = 120, /* and all is quiet so long after the last. */
    PATIENCE = 8,   /* Turns of the scheduler; the most patient never goes. */
    BATCH = 6,
    TRANSPORTS = 2,
};

static struct {
    struct wp_fake_backend backend;
    struct wp_pools *pools;
    struct wp_services *services;

    struct wp_linked_channel ops;
    _Atomic(bool) stop;
    _Atomic(uint32_t) running;
    _Atomic(uint32_t) granted;
    _Atomic(uint32_t) cancelled;
} world;

static enum wp_status
store_commit(void *self, struct wp_lease_op *op)
{
    (void)self;
    /* The store's thread looks again and again. */
    (void)!wp_linked_send(&world.ops, &op->link);
    return WP_PENDING;
}

static void *
store_main(void *arg)
{
    (void)arg;
    while (!atomic_load(&world.stop)) {
        struct wp_lease_op *op = wp_lease_op_of(wp_linked_receive(&world.ops));

        if (op == NULL) {
            (void)sched_yield();
        }
        while (op != NULL) {
            struct wp_lease_op *next = wp_lease_op_next(op);

            op->done(op, WP_OK);
            op = next;
        }
    }
    return NULL;
}

static void
ignore(void *ctx)
{
    (void)ctx;
}

static bool
post(void *ctx, struct wp_message message)
{
    (void)ctx;
    (void)message;
    return false;
}

static void
ignore_drain(void *ctx, int64_t grace_ns)
{
    (void)ctx;
    (void)grace_ns;
}

static void
release(const struct wp_service *service, const uint8_t *token)
{
    struct wp_wire_release_request request;
    uint8_t buf[128];
    struct wp_fake_call *fake = malloc(sizeof *fake);

    WP_ASSERT(fake != NULL);
    memcpy(request.token, token, sizeof request.token);
    wp_fake_call_init(fake);
    WP_ASSERT(wp_wire_size_release_request(&request) <= sizeof buf);
    wp_fake_call_start(fake, service, "Release", buf,
                       wp_wire_pack_release_request(&request, buf));
    WP_ASSERT(wp_fake_call_wait(fake));
    WP_ASSERT(fake->status == WP_OK);
    wp_fake_call_fini(fake);
    free(fake);
}

/* Whatever the answer grants is released. */
static void
use_answer(const struct wp_service *service, struct wp_fake_call *fake,
           bool batch)
{
    static _Thread_local char memory[65536];
    struct wp_wire_batch_response items;
    struct wp_wire_claim_response lease;
    struct wp_arena arena;
    struct wp_err err;

    wp_arena_init(&arena, memory, sizeof memory);
    if (fake->status == WP_CANCELLED) {
        (void)atomic_fetch_add(&world.cancelled, 1);
    }
    if (fake->status != WP_OK) {
        return;
    }
    if (!batch) {
        WP_ASSERT(wp_wire_unpack_claim_response(&arena, fake->reply,
                                                fake->reply_len, &lease,
                                                &err) == WP_OK);
        (void)atomic_fetch_add(&world.granted, 1);
        release(service, lease.grant->token);
        return;
    }
    WP_ASSERT(wp_wire_unpack_batch_response(
                  &arena, fake->reply, fake->reply_len, &items, &err) == WP_OK);
    for (uint32_t i = 0; i < items.n_items; i++) {
        if (items.items[i].grant != NULL) {
            (void)atomic_fetch_add(&world.granted, 1);
            release(service, items.items[i].grant->token);
        }
    }
}

static size_t
pack_request(uint8_t *buf, unsigned who, uint32_t round, bool batch, bool all)
{
    const struct wp_wire_pool_ref pool = {WP_STR("default"), WP_STR("p")};
    struct wp_str ids[BATCH];
    char text[BATCH][32];

    for (uint32_t i = 0; i < BATCH; i++) {
        (void)snprintf(text[i], sizeof text[i], "%u-%u-%u", who, round, i);
        ids[i] = wp_str_from(text[i]);
    }
    if (batch) {
        return wp_wire_pack_batch_request(
            &(struct wp_wire_batch_request){.pool = pool,
                                            .claim_ids = ids,
                                            .n_claims = BATCH,
                                            .wait_ms = 2000,
                                            .all_or_nothing = all},
            buf);
    }
    return wp_wire_pack_claim_request(
        &(struct wp_wire_claim_request){
            .pool = pool, .claim_id = ids[0], .wait_ms = 2000},
        buf);
}

static int64_t
now_s(void)
{
    return wp_clock_mono_ns(wp_clock_system()) / WP_NS_PER_S;
}

/* Threads that spin for one another have few rounds where others work, too. */
static bool
is_enough(uint32_t round, int64_t begun_s)
{
    return round == ROUNDS ||
           (now_s() - begun_s > ROUNDS_S && atomic_load(&world.granted) > 0 &&
            atomic_load(&world.cancelled) > 0);
}

static void *
transport_main(void *arg)
{
    const unsigned who = (unsigned)(uintptr_t)arg;
    const struct wp_service service = wp_service_allocator(world.services);
    struct wp_fake_call *fake = malloc(sizeof *fake);
    const int64_t begun_s = now_s();
    struct wp_rng rng;
    uint8_t buf[1024];

    WP_ASSERT(fake != NULL);
    wp_rng_init(&rng, who + 1);
    for (uint32_t round = 0; !is_enough(round, begun_s); round++) {
        bool batch = wp_rng_below(&rng, 2) == 0;
        size_t len =
            pack_request(buf, who, round, batch, wp_rng_below(&rng, 2) == 0);
        uint64_t patience = wp_rng_below(&rng, PATIENCE + 1);

        wp_fake_call_init(fake);
        wp_fake_call_start(fake, &service, batch ? "ClaimBatch" : "Claim", buf,
                           len);
        if (patience < PATIENCE) {
            for (uint64_t i = 0; i < patience; i++) {
                (void)sched_yield();
            }
            wp_fake_call_cancel(fake);
        }
        WP_ASSERT(wp_fake_call_wait(fake));
        use_answer(&service, fake, batch);
        wp_fake_call_fini(fake);
    }
    free(fake);
    (void)atomic_fetch_sub(&world.running, 1);
    return NULL;
}

static void
control_turn(void)
{
    (void)wp_pools_run(world.pools);
    (void)wp_fake_backend_turn(&world.backend);
    (void)wp_services_run(world.services);
    (void)sched_yield();
}

static void
world_init(void)
{
    static const struct wp_lease_store_ops store_ops = {.name = "slow",
                                                        .commit = store_commit};
    struct wp_pools_config config = {
        .slots_max = SLOTS,
        .claims_max = 4 * SLOTS,
        .clock = wp_clock_system(),
        .store = {&store_ops, NULL},
        .hash_key = {1, 2},
        .wake = ignore,
    };
    struct wp_services_config services;
    struct wp_pool_spec spec;
    struct wp_err err;

    wp_linked_init(&world.ops);
    wp_fake_backend_init(&world.backend, SLOTS, config.clock);
    config.backend = wp_fake_backend_port(&world.backend);
    world.pools = wp_pools_create(&config, &err);
    WP_ASSERT(world.pools != NULL);
    wp_fake_backend_attach(&world.backend, world.pools);
    wp_pool_spec_init(&spec);
    (void)snprintf(spec.name, sizeof spec.name, "p");
    (void)snprintf(spec.template_name, sizeof spec.template_name, "t");
    spec.target = TARGET;
    WP_ASSERT(wp_pools_add(world.pools, &spec, NULL, &err) == WP_OK);
    wp_services_config_init(&services);
    services.pools = world.pools;
    services.clock = config.clock;
    services.post = post;
    services.wake = ignore;
    services.drain = ignore_drain;
    world.services = wp_services_create(&services, &err);
    WP_ASSERT(world.services != NULL);
}

/* The store answers until the pool has let go of everything. */
static void
world_fini(pthread_t store)
{
    wp_pools_stop(world.pools);
    while (!wp_pools_quiet(world.pools)) {
        control_turn();
    }
    atomic_store(&world.stop, true);
    assert_int_equal(pthread_join(store, NULL), 0);
    wp_services_destroy(world.services);
    wp_pools_destroy(world.pools);
    wp_fake_backend_fini(&world.backend);
}

static void
test_answers_and_cancellations(void **state)
{
    int64_t until_s;
    pthread_t transports[TRANSPORTS];
    struct wp_pool_stats stats;
    pthread_t store;

    (void)state;
    world_init();
    atomic_store(&world.running, TRANSPORTS);
    assert_int_equal(pthread_create(&store, NULL, store_main, NULL), 0);
    for (uintptr_t i = 0; i < TRANSPORTS; i++) {
        assert_int_equal(
            pthread_create(&transports[i], NULL, transport_main, (void *)i), 0);
    }
    while (atomic_load(&world.running) > 0) {
        control_turn();
    }
    for (int i = 0; i < TRANSPORTS; i++) {
        assert_int_equal(pthread_join(transports[i], NULL), 0);
    }
    until_s = now_s() + SETTLE_S;
    do {
        control_turn();
        wp_pools_stats(world.pools, 0, &stats);
    } while ((stats.leased > 0 || stats.ready != TARGET || stats.dying > 0) &&
             now_s() < until_s);
    assert_int_equal(stats.leased, 0);
    assert_int_equal(stats.ready, TARGET);
    assert_int_equal(stats.waiting, 0);
    wp_pools_check(world.pools);
    print_message("%u leases granted and released, %u calls cancelled, %llu "
                  "grants taken back\n",
                  atomic_load(&world.granted), atomic_load(&world.cancelled),
                  (unsigned long long)stats.undone_total);
    assert_true(atomic_load(&world.granted) > 0);
    assert_true(atomic_load(&world.cancelled) > 0);
    world_fini(store);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_and_cancellations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
