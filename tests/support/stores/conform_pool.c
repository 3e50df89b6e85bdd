/* A pool on the store under test: what its clients are told of it is true. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pool/pool.h"
#include "tests/support/pool/fake_backend.h"
#include "tests/support/stores/conform.h"

enum {
    SANDBOXES = 5,
    WAIT_S = 60,
};

struct ticket {
    struct wp_claim claim;
    char id[8];
    _Atomic(bool) answered;
};

static struct wp_fake_backend backend;
static struct wp_pools *pools;

static void
wake(void *ctx)
{
    (void)ctx;
}

static void
on_answer(struct wp_claim *claim)
{
    struct ticket *ticket = claim->ctx;

    atomic_store(&ticket->answered, true);
}

static void
turn(const char *what, time_t until)
{
    const struct timespec pause = {.tv_nsec = 1000000};

    (void)wp_pools_run(pools);
    (void)wp_fake_backend_turn(&backend);
    conform_flush_store();
    if (conform_factory->settle != NULL) {
        conform_factory->settle(conform_factory->ctx);
    }
    if (time(NULL) > until) {
        conform_die(what);
    }
    (void)nanosleep(&pause, NULL);
}

/* Turns until all sandboxes are ready and nothing else is there. */
static void
await_idle(void)
{
    time_t until = time(NULL) + WAIT_S;
    struct wp_pool_stats stats;

    for (;;) {
        wp_pools_stats(pools, 0, &stats);
        if (stats.ready == SANDBOXES &&
            stats.warming + stats.leased + stats.quarantined + stats.dying ==
                0) {
            return;
        }
        turn("a pool did not come to rest", until);
    }
}

static void
claim(struct ticket *ticket, int number)
{
    time_t until = time(NULL) + WAIT_S;

    memset(ticket, 0, sizeof *ticket);
    (void)snprintf(ticket->id, sizeof ticket->id, "b%d", number);
    ticket->claim.pool_namespace = WP_STR("team-a");
    ticket->claim.pool = WP_STR("agents");
    ticket->claim.claim_id = wp_str_from(ticket->id);
    ticket->claim.tenant = WP_STR("t");
    ticket->claim.wait_ns = WAIT_S * WP_NS_PER_S;
    ticket->claim.done = on_answer;
    ticket->claim.ctx = ticket;
    if (wp_pools_claim(pools, &ticket->claim) == WP_PENDING) {
        conform_flush_store();
        while (!atomic_load(&ticket->answered)) {
            turn("a claim was not answered", until);
        }
    }
}

static void
open_pool(void)
{
    struct wp_pools_config config = {
        .slots_max = 4 * SANDBOXES,
        .claims_max = 4 * SANDBOXES,
        .clock = wp_clock_system(),
        .store = conform_store,
        .hash_key = {1, 2},
        .seed = 1,
        .wake = wake,
    };
    struct wp_pool_spec spec;
    struct wp_err err;

    wp_fake_backend_init(&backend, 4 * SANDBOXES, wp_clock_system());
    config.backend = wp_fake_backend_port(&backend);
    pools = wp_pools_create(&config, &err);
    assert_non_null(pools);
    wp_fake_backend_attach(&backend, pools);
    wp_pool_spec_init(&spec);
    (void)snprintf(spec.pool_namespace, sizeof spec.pool_namespace, "team-a");
    (void)snprintf(spec.name, sizeof spec.name, "agents");
    (void)snprintf(spec.template_name, sizeof spec.template_name, "t");
    spec.target = SANDBOXES;
    spec.create_inflight_max = SANDBOXES;
    assert_int_equal(wp_pools_add(pools, &spec, NULL, &err), WP_OK);
    wp_pools_set_keeper(pools, true);
    await_idle();
}

static void
close_pool(void)
{
    time_t until = time(NULL) + WAIT_S;

    wp_pools_stop(pools);
    while (!wp_pools_quiet(pools)) {
        turn("a pool did not stop", until);
    }
    wp_pools_destroy(pools);
    wp_fake_backend_fini(&backend);
}

/* A batch that is refused, for one of its claims gets nothing: none of the
 * others stays held, by the pool nor by the store, and each id is free. */
void
conform_test_nothing_stays_held_unshown(void **state)
{
    static struct ticket tickets[SANDBOXES];
    static struct ticket again;
    struct wp_lease_record record;
    struct wp_pool_stats stats;

    (void)state;
    conform_open_store(true);
    open_pool();
    for (int round = 1; round <= 3; round++) {
        for (int i = 0; i < SANDBOXES; i++) {
            claim(&tickets[i], i);
            assert_int_equal(tickets[i].claim.status, WP_OK);
            assert_false(tickets[i].claim.replayed);
        }
        for (int i = 0; i < SANDBOXES; i++) {
            wp_pools_undo(pools, &tickets[i].claim);
        }
        await_idle();
        wp_pools_stats(pools, 0, &stats);
        assert_int_equal(stats.undone_total, round * SANDBOXES);
        for (int i = 0; conform_factory->durable && i < SANDBOXES; i++) {
            assert_int_equal(conform_fetch_claim(tickets[i].claim.claim_id,
                                                 WP_STR("t"), &record),
                             WP_NOT_FOUND);
        }
    }
    /* What a repeat was shown stays. */
    claim(&tickets[0], 0);
    claim(&again, 0);
    assert_int_equal(again.claim.status, WP_OK);
    assert_true(again.claim.replayed);
    assert_string_equal(again.claim.grant.sandbox,
                        tickets[0].claim.grant.sandbox);
    wp_pools_undo(pools, &tickets[0].claim);
    (void)wp_pools_run(pools);
    if (conform_factory->durable) {
        assert_int_equal(
            conform_fetch_claim(WP_STR("b0"), WP_STR("t"), &record), WP_OK);
    }
    wp_pools_stats(pools, 0, &stats);
    assert_int_equal(stats.leased, 1);
    /* Unless it is taken back from the repeat, too, and no other replica may
     * have shown it. */
    wp_pools_undo(pools, &again.claim);
    if (!conform_factory->shared) {
        await_idle();
    }
    if (conform_factory->durable && !conform_factory->shared) {
        assert_int_equal(
            conform_fetch_claim(WP_STR("b0"), WP_STR("t"), &record),
            WP_NOT_FOUND);
    }
    close_pool();
    conform_close_store();
}
