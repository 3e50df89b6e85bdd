/* Pools that come, change and go under the hands of claimers.
 *
 *   pool_shape_stress [SEED] [MILLISECONDS]
 *
 * All indexes but a few are taken by pools that stay; in the few pools of ever
 * new names follow each other, so that each index is used again and again while
 * claims for its last pool are still under way. A meddler ends leases and
 * retires sandboxes, with stale names too. Checked from outside: a grant is of
 * the pool that was asked for, no sandbox is held twice, and in the end nothing
 * is left. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/rng.h"
#include "pool/leases/memory.h"
#include "pool/pool.h"
#include "tests/support/pool/fake_backend.h"

enum {
    SLOTS = 64,
    PLACES = 4, /* Pools that come and go. */
    ROUNDS_MAX = 60,
};

static struct wp_pools *pools;
static struct wp_fake_backend backend;
static _Atomic(uint32_t) names[PLACES];  /* Of the pool that is there. */
static _Atomic(uint64_t) holders[SLOTS]; /* {generation, claimer} */
static _Atomic(uint64_t) granted[SLOTS]; /* The latest ref, packed. */
static _Atomic(bool) stop_claiming, stop_serving;
static _Atomic(uint64_t) grants, refused, gone, ended, retired, added, updated;
static uint64_t seed;

struct ticket {
    struct wp_claim claim;
    char pool[16];
    char id[32];
    _Atomic(bool) answered;
};

static void
nothing(void *ctx)
{
    (void)ctx;
}

static void
claim_done(struct wp_claim *claim)
{
    struct ticket *ticket = claim->ctx;

    atomic_store_explicit(&ticket->answered, true, memory_order_release);
}

static void
use(const struct ticket *ticket, uint64_t me, struct wp_rng *rng)
{
    const struct wp_grant *grant = &ticket->claim.grant;
    uint64_t mine = (uint64_t)grant->ref.generation << 32 | me;
    struct wp_lease_change change;
    uint64_t before;

    WP_ASSERT(strcmp(grant->pool, ticket->pool) == 0);
    WP_ASSERT(strncmp(grant->sandbox, ticket->pool, strlen(ticket->pool)) == 0);
    WP_ASSERT(grant->sandbox[strlen(ticket->pool)] == '-');
    before = atomic_exchange(&holders[grant->ref.index], mine);
    /* The one before may not know that its lease was ended; but then its
     * sandbox is gone, and this is another one. */
    WP_ASSERT(before == 0 || before >> 32 != grant->ref.generation);
    atomic_store(&granted[grant->ref.index],
                 (uint64_t)grant->ref.generation << 32 | grant->ref.index);
    atomic_fetch_add(&grants, 1);
    if (wp_rng_below(rng, 4) == 0) {
        (void)sched_yield();
    }
    memset(&change, 0, sizeof change);
    memcpy(change.token, grant->token, sizeof change.token);
    (void)atomic_compare_exchange_strong(&holders[grant->ref.index], &mine, 0);
    WP_ASSERT(wp_pools_release(pools, &change) == WP_OK);
}

static void *
claimer(void *arg)
{
    uint64_t me = (uint64_t)(uintptr_t)arg + 1;
    struct wp_rng rng;

    wp_rng_init(&rng, seed + me);
    for (uint64_t n = 1; !atomic_load(&stop_claiming); n++) {
        struct ticket ticket;

        memset(&ticket, 0, sizeof ticket);
        (void)snprintf(ticket.pool, sizeof ticket.pool, "n%u",
                       atomic_load(&names[wp_rng_below(&rng, PLACES)]));
        (void)snprintf(ticket.id, sizeof ticket.id, "%d-%lld", (int)me,
                       (long long)n);
        ticket.claim.pool_namespace = WP_STR("default");
        ticket.claim.pool = wp_str_from(ticket.pool);
        ticket.claim.claim_id = wp_str_from(ticket.id);
        ticket.claim.lasting = true;
        ticket.claim.wait_ns =
            wp_rng_below(&rng, 2) == 0 ? 0 : 20 * WP_NS_PER_MS;
        ticket.claim.done = claim_done;
        ticket.claim.ctx = &ticket;
        if (wp_pools_claim(pools, &ticket.claim) == WP_PENDING) {
            while (
                !atomic_load_explicit(&ticket.answered, memory_order_acquire)) {
                (void)sched_yield();
            }
        }
        if (ticket.claim.status == WP_OK && wp_rng_below(&rng, 8) == 0) {
            wp_pools_undo(pools, &ticket.claim);
        } else if (ticket.claim.status == WP_OK) {
            use(&ticket, me, &rng);
        } else {
            atomic_fetch_add(
                ticket.claim.status == WP_NOT_FOUND ? &gone : &refused, 1);
            (void)sched_yield();
        }
    }
    return NULL;
}

static void *
meddler(void *arg)
{
    struct wp_rng rng;

    wp_rng_init(&rng, seed + (uint64_t)(uintptr_t)arg + 100);
    while (!atomic_load(&stop_claiming)) {
        uint64_t at = atomic_load(&granted[wp_rng_below(&rng, SLOTS)]);
        struct wp_slot_ref ref = {(uint32_t)at, (uint32_t)(at >> 32)};

        if (wp_rng_below(&rng, 2) == 0) {
            wp_pools_end(pools, ref);
            atomic_fetch_add(&ended, 1);
        } else {
            ref.generation += (uint32_t)wp_rng_below(&rng, 2);
            wp_pools_retire(pools, ref, WP_STR("meddled"));
            atomic_fetch_add(&retired, 1);
        }
        for (int i = 0; i < 20; i++) {
            (void)sched_yield();
        }
    }
    return NULL;
}

static struct wp_pool_spec
spec_of(uint32_t number, struct wp_rng *rng)
{
    struct wp_pool_spec spec;

    wp_pool_spec_init(&spec);
    (void)snprintf(spec.name, sizeof spec.name, "n%u", number);
    (void)snprintf(spec.template_name, sizeof spec.template_name, "t%u",
                   (unsigned)wp_rng_below(rng, 100));
    spec.target = 2 + (uint32_t)wp_rng_below(rng, 6);
    spec.create_inflight_max = (uint32_t)wp_rng_below(rng, 8);
    spec.waiters_max = (uint32_t)wp_rng_below(rng, 16);
    spec.tenant_waiters_max = spec.waiters_max;
    return spec;
}

/* The pool of a place changes, or goes and is followed by the next. */
static void
shape(struct wp_rng *rng, uint32_t *next, bool *empty)
{
    uint32_t place = (uint32_t)wp_rng_below(rng, PLACES);
    uint32_t number = atomic_load(&names[place]);
    struct wp_pool_spec spec = spec_of(number, rng);
    uint32_t index =
        wp_pools_index(pools, WP_STR("default"), wp_str_from(spec.name));

    if (!empty[place] && wp_rng_below(rng, 3) != 0) {
        WP_ASSERT(wp_pools_update(pools, index, &spec, NULL) == WP_OK);
        atomic_fetch_add(&updated, 1);
        return;
    }
    if (!empty[place]) {
        wp_pools_remove(pools, index);
        empty[place] = true;
    }
    /* The same once more, or a new one, once there is an index for it. */
    spec = spec_of(wp_rng_below(rng, 4) == 0 ? number : *next, rng);
    if (wp_pools_add(pools, &spec, NULL, NULL) == WP_OK) {
        number = (uint32_t)strtoul(spec.name + 1, NULL, 10);
        atomic_store(&names[place], number);
        *next += number == *next ? 1 : 0;
        empty[place] = false;
        atomic_fetch_add(&added, 1);
    }
}

static void *
control(void *arg)
{
    bool empty[PLACES] = {false};
    uint32_t next = WP_POOLS_MAX;
    struct wp_rng rng;

    wp_rng_init(&rng, seed + (uint64_t)(uintptr_t)arg + 200);
    while (!atomic_load(&stop_serving)) {
        (void)wp_pools_run(pools);
        if (!atomic_load(&stop_claiming)) {
            shape(&rng, &next, empty);
        }
        (void)sched_yield();
    }
    return NULL;
}

static void *
reporter(void *arg)
{
    (void)arg;
    while (!atomic_load(&stop_serving)) {
        (void)wp_fake_backend_turn(&backend);
        (void)sched_yield();
    }
    return NULL;
}

/* Numbers, as a scraper reads them. */
static void *
reader(void *arg)
{
    struct wp_rng rng;

    wp_rng_init(&rng, seed + (uint64_t)(uintptr_t)arg + 300);
    while (!atomic_load(&stop_serving)) {
        struct wp_pool_stats stats;

        wp_pools_stats(pools,
                       WP_POOLS_MAX - 1 - (uint32_t)wp_rng_below(&rng, PLACES),
                       &stats);
        WP_ASSERT(stats.spec.name[0] == 'n' && stats.index < WP_POOLS_MAX);
        (void)sched_yield();
    }
    return NULL;
}

static void
start_pools(void)
{
    struct wp_pools_config config = {
        .slots_max = SLOTS,
        .claims_max = 2 * SLOTS,
        .clock = wp_clock_system(),
        .store = wp_lease_memory(),
        .hash_key = {seed, 5},
        .seed = seed,
        .wake = nothing,
    };
    struct wp_err err;

    wp_fake_backend_init(&backend, SLOTS, config.clock);
    config.backend = wp_fake_backend_foreign_port(&backend);
    pools = wp_pools_create(&config, &err);
    WP_ASSERT(pools != NULL);
    wp_fake_backend_attach(&backend, pools);
    for (uint32_t i = 0; i < WP_POOLS_MAX; i++) {
        struct wp_pool_spec spec;

        wp_pool_spec_init(&spec);
        (void)snprintf(spec.name, sizeof spec.name, "n%u", i);
        spec.waiters_max = 4;
        spec.target = i < WP_POOLS_MAX - PLACES ? 0 : 4;
        WP_ASSERT(wp_pools_add(pools, &spec, NULL, &err) == WP_OK);
    }
    for (uint32_t i = 0; i < PLACES; i++) {
        atomic_store(&names[i], WP_POOLS_MAX - PLACES + i);
    }
}

static void
drain_pools(void)
{
    wp_pools_stop(pools);
    for (int i = 0; i < 100000 && !wp_pools_quiet(pools); i++) {
        (void)wp_pools_run(pools);
        (void)wp_fake_backend_turn(&backend);
        (void)sched_yield();
    }
    WP_ASSERT(wp_pools_quiet(pools));
    WP_ASSERT(wp_fake_backend_counts(&backend).live == 0);
    wp_pools_check(pools);
    wp_pools_destroy(pools);
    wp_fake_backend_fini(&backend);
}

/* What is meant to happen has. */
static bool
has_raced(void)
{
    return grants > 0 && gone > 0 && added > PLACES && updated > 0;
}

int
main(int argc, char **argv)
{
    static void *(*const work[])(void *) = {control, reporter, reader,
                                            meddler, claimer,  claimer};
    pthread_t threads[WP_ARRAY_LEN(work)];
    long millis = argc > 2 ? strtol(argv[2], NULL, 10) : 2000;
    struct timespec pause = {millis / 1000, millis % 1000 * 1000000};

    seed = argc > 1 ? strtoull(argv[1], NULL, 10)
                    : (uint64_t)wp_clock_wall_ns(wp_clock_system());
    (void)printf("seed %llu\n", (unsigned long long)seed);
    start_pools();
    for (size_t i = 0; i < WP_ARRAY_LEN(work); i++) {
        WP_ASSERT(pthread_create(&threads[i], NULL, work[i],
                                 (void *)(uintptr_t)i) == 0);
    }
    /* A busy machine gets there later. */
    for (int i = 0; i == 0 || (i < ROUNDS_MAX && !has_raced()); i++) {
        (void)nanosleep(&pause, NULL);
    }
    /* The claimers first: the others serve those that still wait. */
    atomic_store(&stop_claiming, true);
    for (size_t i = 3; i < WP_ARRAY_LEN(work); i++) {
        (void)pthread_join(threads[i], NULL);
    }
    atomic_store(&stop_serving, true);
    for (size_t i = 0; i < 3; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    drain_pools();
    (void)printf("granted %llu, refused %llu, not found %llu, ended %llu, "
                 "retired %llu, pools added %llu, updated %llu\n",
                 (unsigned long long)grants, (unsigned long long)refused,
                 (unsigned long long)gone, (unsigned long long)ended,
                 (unsigned long long)retired, (unsigned long long)added,
                 (unsigned long long)updated);
    return has_raced() ? 0 : 1;
}
