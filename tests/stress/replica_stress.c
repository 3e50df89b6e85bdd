/* Two replicas on one store, each with its control thread, and claimers that
 * use both.
 *
 *   replica_stress [SEED] [MILLISECONDS]
 *
 * A claim goes to either replica, its renewal and release to either too, some
 * ids to both at once; the store answers at once or later, ready and claimed
 * sandboxes die. Whenever a claimer is shown a grant, the store's record must be
 * of that claim, with that fence (I1, I2), and no fence of a sandbox is shown
 * twice (I5). In the end nothing is left, in the store either. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/rng.h"
#include "pool/leases/rules.h"
#include "pool/pool.h"
#include "tests/support/pool/fake_backend.h"
#include "tests/support/stores/model_store.h"

enum {
    REPLICAS = 2,
    CLAIMERS = 3,
    SLOTS = 48,
    TARGET = 12,
    SHARED_IDS = 8,
    ROUNDS_MAX = 60,
};

static struct wp_model_store model;
/* guards: model. Recursive: an answer may lead to the next commit. */
static pthread_mutex_t model_lock;
static struct wp_lease_store_ops store_ops;
static struct wp_pools *pools[REPLICAS];
static struct wp_fake_backend backends[REPLICAS];
static _Atomic(bool) stop_claiming, stop_serving;
static _Atomic(uint64_t) granted, replayed, refused, retried;
static uint64_t seed;

struct ticket {
    struct wp_claim claim;
    char id[32];
    _Atomic(bool) answered;
};

struct ask {
    struct wp_lease_change change;
    _Atomic(bool) answered;
};

static void
nothing(void *ctx)
{
    (void)ctx;
}

static enum wp_status
commit(void *self, struct wp_lease_op *op)
{
    struct wp_model_port *port = self;
    enum wp_status status;

    (void)pthread_mutex_lock(&model_lock);
    port->later = (port->commits % 3) != 0;
    status = model.ops.commit(port, op);
    (void)pthread_mutex_unlock(&model_lock);
    return status;
}

static void
claim_done(struct wp_claim *claim)
{
    struct ticket *ticket = claim->ctx;

    atomic_store_explicit(&ticket->answered, true, memory_order_release);
}

static void
change_done(struct wp_lease_change *change)
{
    struct ask *ask = change->ctx;

    atomic_store_explicit(&ask->answered, true, memory_order_release);
}

static const struct wp_lease_record *
record_of(const struct wp_grant *grant)
{
    for (size_t i = 0; i < WP_MODEL_RECORDS; i++) {
        const struct wp_lease_record *record = &model.records[i];

        if (record->state != WP_RECORD_NONE &&
            strcmp(record->sandbox, grant->sandbox) == 0) {
            return record;
        }
    }
    return NULL;
}

/* What the claimer was shown is what the store has. */
static void
check_shown(const struct ticket *ticket)
{
    const struct wp_lease_record *record;

    (void)pthread_mutex_lock(&model_lock);
    record = record_of(&ticket->claim.grant);
    WP_ASSERT(record != NULL && wp_record_is_claimed(record->state));
    WP_ASSERT(record->fence == ticket->claim.grant.fence);
    WP_ASSERT(strcmp(record->claim_id, ticket->id) == 0);
    (void)pthread_mutex_unlock(&model_lock);
}

static enum wp_status
change_once(uint32_t replica, const struct ticket *ticket, bool renew)
{
    struct ask ask;
    enum wp_status status;

    memset(&ask, 0, sizeof ask);
    memcpy(ask.change.token, ticket->claim.grant.token,
           sizeof ask.change.token);
    ask.change.ttl_ns = renew ? 60 * WP_NS_PER_S : 0;
    ask.change.done = change_done;
    ask.change.ctx = &ask;
    status = renew ? wp_pools_renew(pools[replica], &ask.change)
                   : wp_pools_release(pools[replica], &ask.change);
    if (status != WP_PENDING) {
        return status;
    }
    while (!atomic_load_explicit(&ask.answered, memory_order_acquire)) {
        (void)sched_yield();
    }
    return ask.change.status;
}

/* As a client does: again, when it is told to try again. */
static enum wp_status
change(uint32_t replica, const struct ticket *ticket, bool renew)
{
    enum wp_status status = change_once(replica, ticket, renew);

    for (int i = 0; i < 10000 && status == WP_UNAVAILABLE; i++) {
        atomic_fetch_add(&retried, 1);
        (void)sched_yield();
        status = change_once(replica, ticket, renew);
    }
    return status;
}

static void
use(struct ticket *ticket, struct wp_rng *rng)
{
    uint32_t other = (uint32_t)wp_rng_below(rng, REPLICAS);

    switch (wp_rng_below(rng, 8)) {
    case 1:
        check_shown(ticket);
        (void)wp_fake_backend_lose(
            &backends[0],
            wp_fake_backend_find(&backends[0],
                                 wp_str_from(ticket->claim.grant.sandbox)),
            "dead");
        break;
    case 2:
    case 3: {
        enum wp_status status;

        check_shown(ticket);
        status = change(other, ticket, true);
        WP_ASSERT(status == WP_OK);
        break;
    }
    default:
        check_shown(ticket);
        break;
    }
    atomic_fetch_add(&granted, 1);
    {
        enum wp_status st = change(other, ticket, false);
        if (st != WP_OK)
            fprintf(stderr, "release: %s\n", wp_status_name(st));
        WP_ASSERT(st == WP_OK);
    }
}

static void
fill(struct ticket *ticket, struct wp_rng *rng, uint64_t me, uint64_t n,
     bool shared)
{
    int len;

    memset(ticket, 0, sizeof *ticket);
    len = shared ? snprintf(ticket->id, sizeof ticket->id, "shared-%d",
                            (int)wp_rng_below(rng, SHARED_IDS))
                 : snprintf(ticket->id, sizeof ticket->id, "%d-%lld", (int)me,
                            (long long)n);
    ticket->claim.pool_namespace = WP_STR("default");
    ticket->claim.pool = WP_STR("s");
    ticket->claim.claim_id = (struct wp_str){ticket->id, (size_t)len};
    ticket->claim.ttl_ns = 30 * WP_NS_PER_S;
    ticket->claim.wait_ns = wp_rng_below(rng, 2) == 0 ? 0 : WP_NS_PER_S;
    ticket->claim.done = claim_done;
    ticket->claim.ctx = ticket;
}

static void *
claimer(void *arg)
{
    uint64_t me = (uint64_t)(uintptr_t)arg;
    struct wp_rng rng;

    wp_rng_init(&rng, seed + me);
    for (uint64_t n = 1; !atomic_load(&stop_claiming); n++) {
        bool shared = wp_rng_below(&rng, 4) == 0;
        uint32_t replica = (uint32_t)wp_rng_below(&rng, REPLICAS);
        struct ticket ticket;

        fill(&ticket, &rng, me, n, shared);
        if (wp_pools_claim(pools[replica], &ticket.claim) == WP_PENDING) {
            while (
                !atomic_load_explicit(&ticket.answered, memory_order_acquire)) {
                (void)sched_yield();
            }
        }
        if (ticket.claim.status != WP_OK) {
            atomic_fetch_add(&refused, 1);
            (void)sched_yield();
        } else if (!shared) {
            use(&ticket, &rng);
        } else if (ticket.claim.replayed) {
            /* Its first holder may have let it go since. */
            atomic_fetch_add(&replayed, 1);
        } else {
            check_shown(&ticket);
            WP_ASSERT(change(replica, &ticket, false) == WP_OK);
        }
    }
    return NULL;
}

/* Tells the replica what the other changed, as a feed does. */
static void
hear(uint32_t replica)
{
    static struct wp_lease_record heard[REPLICAS][WP_MODEL_FEED];
    struct wp_model_port *port = &model.ports[replica];
    uint32_t n;

    (void)pthread_mutex_lock(&model_lock);
    n = port->n_feed;
    memcpy(heard[replica], port->feed, n * sizeof *heard[replica]);
    port->n_feed = 0;
    (void)pthread_mutex_unlock(&model_lock);
    for (uint32_t i = 0; i < n; i++) {
        wp_pools_on_record(pools[replica], &heard[replica][i]);
    }
}

static void *
control(void *arg)
{
    uint32_t replica = (uint32_t)(uintptr_t)arg;

    while (!atomic_load(&stop_serving)) {
        hear(replica);
        (void)wp_pools_run(pools[replica]);
        (void)sched_yield();
    }
    return NULL;
}

static void *
serve(void *arg)
{
    (void)arg;
    while (!atomic_load(&stop_serving)) {
        (void)wp_fake_backend_turn(&backends[0]);
        for (uint32_t i = 0; i < REPLICAS; i++) {
            (void)pthread_mutex_lock(&model_lock);
            (void)wp_model_answer(&model, i);
            (void)pthread_mutex_unlock(&model_lock);
        }
        (void)sched_yield();
    }
    return NULL;
}

static void
start_replica(uint32_t i)
{
    static const uint64_t ids[] = {1, 2};
    struct wp_pools_config config = {
        .slots_max = SLOTS,
        .claims_max = 2 * SLOTS,
        .clock = wp_clock_system(),
        .store = {&store_ops, wp_model_port(&model, i).self},
        .hash_key = {seed, 5},
        .seed = seed + i,
        .wake = nothing,
    };
    struct wp_pool_spec spec;
    struct wp_err err;

    wp_fake_backend_init(&backends[i], SLOTS, config.clock);
    config.backend = wp_fake_backend_port(&backends[i]);
    pools[i] = wp_pools_create(&config, &err);
    WP_ASSERT(pools[i] != NULL);
    wp_fake_backend_attach(&backends[i], pools[i]);
    wp_pool_spec_init(&spec);
    memcpy(spec.name, "s", 2);
    spec.target = TARGET;
    spec.create_inflight_max = SLOTS;
    WP_ASSERT(wp_pools_add(pools[i], &spec, NULL, &err) == WP_OK);
    wp_pools_set_keeper(pools[i], i == 0);
    wp_pools_set_replicas(pools[i], i + 1, ids, REPLICAS);
}

static void
start(void)
{
    pthread_mutexattr_t attr;

    (void)pthread_mutexattr_init(&attr);
    (void)pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    (void)pthread_mutex_init(&model_lock, &attr);
    wp_model_init(&model, true);
    store_ops = model.ops;
    store_ops.commit = commit;
    for (uint32_t i = 0; i < REPLICAS; i++) {
        start_replica(i);
    }
}

/* Both replicas empty, and the store as well. */
static bool
is_over(void)
{
    for (size_t i = 0; i < WP_MODEL_RECORDS; i++) {
        if (model.records[i].state != WP_RECORD_NONE) {
            return false;
        }
    }
    return wp_pools_quiet(pools[0]) && wp_pools_quiet(pools[1]);
}

static void
finish(void)
{
    wp_pools_stop(pools[0]);
    for (int i = 0; i < 200000 && !is_over(); i++) {
        for (uint32_t r = 0; r < REPLICAS; r++) {
            (void)wp_model_answer(&model, r);
            hear(r);
            (void)wp_pools_run(pools[r]);
        }
        (void)wp_fake_backend_turn(&backends[0]);
    }
    WP_ASSERT(is_over());
    WP_ASSERT(wp_fake_backend_counts(&backends[0]).live == 0);
    WP_ASSERT(wp_fake_backend_counts(&backends[1]).creates == 0);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        wp_pools_check(pools[i]);
        wp_pools_destroy(pools[i]);
        wp_fake_backend_fini(&backends[i]);
    }
    (void)pthread_mutex_destroy(&model_lock);
}

/* What is meant to happen has. */
static bool
has_raced(void)
{
    return granted > 0;
}

int
main(int argc, char **argv)
{
    static const struct {
        void *(*run)(void *);
        uint64_t arg;
    } work[] = {{control, 0}, {control, 1}, {serve, 0},
                {claimer, 1}, {claimer, 2}, {claimer, 3}};
    pthread_t threads[WP_ARRAY_LEN(work)];
    long millis = argc > 2 ? atol(argv[2]) : 2000;
    struct timespec pause = {millis / 1000, millis % 1000 * 1000000};

    seed = argc > 1 ? strtoull(argv[1], NULL, 10)
                    : (uint64_t)wp_clock_wall_ns(wp_clock_system());
    (void)printf("seed %llu\n", (unsigned long long)seed);
    (void)fflush(stdout);
    start();
    for (size_t i = 0; i < WP_ARRAY_LEN(work); i++) {
        WP_ASSERT(pthread_create(&threads[i], NULL, work[i].run,
                                 (void *)(uintptr_t)work[i].arg) == 0);
    }
    /* A busy machine gets there later. */
    for (int i = 0; i == 0 || (i < ROUNDS_MAX && !has_raced()); i++) {
        (void)nanosleep(&pause, NULL);
    }
    atomic_store(&stop_claiming, true);
    for (size_t i = WP_ARRAY_LEN(work) - CLAIMERS; i < WP_ARRAY_LEN(work);
         i++) {
        (void)pthread_join(threads[i], NULL);
    }
    atomic_store(&stop_serving, true);
    for (size_t i = 0; i < WP_ARRAY_LEN(work) - CLAIMERS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    finish();
    (void)printf("granted %llu, refused %llu, replayed %llu, "
                 "retried %llu\n",
                 (unsigned long long)granted, (unsigned long long)refused,
                 (unsigned long long)replayed, (unsigned long long)retried);
    return has_raced() ? 0 : 1;
}
