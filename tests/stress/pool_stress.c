/* Claimers, a control thread and a backend on one pool, all at once.
 *
 *   pool_stress [SEED] [MILLISECONDS]
 *
 * Each claimer claims, sometimes waits, cancels, undoes, renews, releases or
 * forgets; sandboxes die at random. Checked from outside the pool: no sandbox
 * is held by two claimers at once (I1), a claim id that is tried by several
 * threads gets one sandbox (I2), fences of a sandbox grow (I5), never more
 * creations than the target asks for (I7), and in the end nothing is left. */
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
    CLAIMERS = 3,
    SLOTS = 64,
    TARGET = 24,
    SHARED_IDS = 8,
    ROUNDS_MAX = 60,
};

struct holder {
    _Atomic(uint64_t) by; /* 0, or who holds it: hash of claim id, made odd. */
    _Atomic(uint64_t) fence;
    _Atomic(uint32_t) generation;
};

static struct wp_pools *pools;
static struct wp_fake_backend backend;
static struct holder holders[SLOTS];
static _Atomic(bool) stop_claiming, stop_serving;
static _Atomic(uint64_t) granted, refused, cancelled, undone, replayed, lost;
static uint64_t seed;

struct ticket {
    struct wp_claim claim;
    char id[32];
    _Atomic(bool) answered;
    uint64_t mark;
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
take(const struct ticket *ticket)
{
    const struct wp_grant *grant = &ticket->claim.grant;
    struct holder *holder = &holders[grant->ref.index];
    uint64_t none = 0;
    uint32_t generation =
        atomic_exchange(&holder->generation, grant->ref.generation);
    uint64_t fence;

    WP_ASSERT(atomic_compare_exchange_strong(&holder->by, &none, ticket->mark));
    fence = atomic_exchange(&holder->fence, grant->fence);
    WP_ASSERT(generation != grant->ref.generation || fence < grant->fence);
    WP_ASSERT(grant->sandbox[0] == 's' && grant->endpoint[0] != '\0');
}

static void
give(const struct ticket *ticket)
{
    uint64_t mine = ticket->mark;

    WP_ASSERT(atomic_compare_exchange_strong(
        &holders[ticket->claim.grant.ref.index].by, &mine, 0));
}

static void
release(const struct ticket *ticket)
{
    struct wp_lease_change change;

    memset(&change, 0, sizeof change);
    memcpy(change.token, ticket->claim.grant.token, sizeof change.token);
    WP_ASSERT(wp_pools_release(pools, &change) == WP_OK && change.was_held);
}

static void
renew(const struct ticket *ticket)
{
    struct wp_lease_change change;
    enum wp_status status;

    memset(&change, 0, sizeof change);
    memcpy(change.token, ticket->claim.grant.token, sizeof change.token);
    change.ttl_ns = 60 * WP_NS_PER_S;
    status = wp_pools_renew(pools, &change);
    WP_ASSERT(status == WP_OK || status == WP_FAILED_PRECONDITION);
}

static void
use(struct ticket *ticket, struct wp_rng *rng)
{
    switch (wp_rng_below(rng, 8)) {
    case 0:
        /* Nobody has seen it: not taken. */
        wp_pools_undo(pools, &ticket->claim);
        atomic_fetch_add(&undone, 1);
        return;
    case 1:
        take(ticket);
        (void)wp_fake_backend_lose(&backend, ticket->claim.grant.ref, "dead");
        atomic_fetch_add(&lost, 1);
        break;
    case 2:
        take(ticket);
        renew(ticket);
        break;
    default:
        take(ticket);
        break;
    }
    atomic_fetch_add(&granted, 1);
    give(ticket);
    release(ticket);
}

/* The same id from several threads: one of them holds it, the others see it. */
static void
use_shared(struct ticket *ticket)
{
    struct wp_claim_info info;

    if (ticket->claim.replayed) {
        atomic_fetch_add(&replayed, 1);
        return;
    }
    take(ticket);
    WP_ASSERT(wp_pools_get(pools, ticket->claim.tenant, ticket->claim.claim_id,
                           &info) == WP_OK);
    WP_ASSERT(strcmp(info.sandbox, ticket->claim.grant.sandbox) == 0);
    give(ticket);
    release(ticket);
}

static bool
ask(struct ticket *ticket, struct wp_rng *rng)
{
    enum wp_status status = wp_pools_claim(pools, &ticket->claim);

    if (status != WP_PENDING) {
        return true;
    }
    if (wp_rng_below(rng, 4) == 0 && wp_pools_cancel(pools, &ticket->claim)) {
        atomic_fetch_add(&cancelled, 1);
        return false;
    }
    while (!atomic_load_explicit(&ticket->answered, memory_order_acquire)) {
        (void)sched_yield();
    }
    return true;
}

static void *
claimer(void *arg)
{
    uint64_t me = (uint64_t)(uintptr_t)arg;
    struct wp_rng rng;

    wp_rng_init(&rng, seed + me);
    for (uint64_t n = 1; !atomic_load(&stop_claiming); n++) {
        bool shared = wp_rng_below(&rng, 4) == 0;
        struct ticket ticket;
        int len;

        memset(&ticket, 0, sizeof ticket);
        len = shared ? snprintf(ticket.id, sizeof ticket.id, "shared-%d",
                                (int)wp_rng_below(&rng, SHARED_IDS))
                     : snprintf(ticket.id, sizeof ticket.id, "%d-%lld", (int)me,
                                (long long)n);
        ticket.mark = n * 16 + me * 2 + 1;
        ticket.claim.pool_namespace = WP_STR("default");
        ticket.claim.pool = WP_STR("s");
        ticket.claim.claim_id = (struct wp_str){ticket.id, (size_t)len};
        ticket.claim.tenant = shared ? WP_STR("") : WP_STR("t");
        ticket.claim.ttl_ns = 30 * WP_NS_PER_S;
        ticket.claim.wait_ns =
            wp_rng_below(&rng, 2) == 0 ? 0 : 100 * WP_NS_PER_MS;
        ticket.claim.done = claim_done;
        ticket.claim.ctx = &ticket;
        if (!ask(&ticket, &rng)) {
            continue;
        }
        if (ticket.claim.status != WP_OK) {
            atomic_fetch_add(&refused, 1);
            (void)sched_yield();
        } else if (shared) {
            use_shared(&ticket);
        } else {
            use(&ticket, &rng);
        }
    }
    return NULL;
}

static void *
control(void *arg)
{
    (void)arg;
    while (!atomic_load(&stop_serving)) {
        struct wp_fake_counts counts;

        (void)wp_pools_run(pools);
        counts = wp_fake_backend_counts(&backend);
        WP_ASSERT(counts.warming <= TARGET);
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

static void
start_pool(void)
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
    struct wp_pool_spec spec;
    struct wp_err err;

    wp_fake_backend_init(&backend, SLOTS, config.clock);
    config.backend = wp_fake_backend_port(&backend);
    pools = wp_pools_create(&config, &err);
    WP_ASSERT(pools != NULL);
    wp_fake_backend_attach(&backend, pools);
    wp_pool_spec_init(&spec);
    memcpy(spec.name, "s", 2);
    spec.target = TARGET;
    spec.create_inflight_max = SLOTS;
    WP_ASSERT(wp_pools_add(pools, &spec, NULL, &err) == WP_OK);
}

static void
drain_pool(void)
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
    return granted > 0 && undone > 0 && replayed > 0;
}

int
main(int argc, char **argv)
{
    static void *(*const work[])(void *) = {control, reporter, claimer, claimer,
                                            claimer};
    pthread_t threads[WP_ARRAY_LEN(work)];
    long millis = argc > 2 ? atol(argv[2]) : 2000;
    struct timespec pause = {millis / 1000, millis % 1000 * 1000000};

    seed = argc > 1 ? strtoull(argv[1], NULL, 10)
                    : (uint64_t)wp_clock_wall_ns(wp_clock_system());
    (void)printf("seed %llu\n", (unsigned long long)seed);
    start_pool();
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
    for (size_t i = 2; i < WP_ARRAY_LEN(work); i++) {
        (void)pthread_join(threads[i], NULL);
    }
    atomic_store(&stop_serving, true);
    (void)pthread_join(threads[0], NULL);
    (void)pthread_join(threads[1], NULL);
    drain_pool();
    (void)printf("granted %llu, refused %llu, cancelled %llu, undone %llu, "
                 "replayed %llu, lost %llu\n",
                 (unsigned long long)granted, (unsigned long long)refused,
                 (unsigned long long)cancelled, (unsigned long long)undone,
                 (unsigned long long)replayed, (unsigned long long)lost);
    return has_raced() ? 0 : 1;
}
