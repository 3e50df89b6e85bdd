/* Threads that want the same few sandboxes with the same few claims. */
#include <pthread.h>
#include <stdlib.h>

#include "pool/base/rng.h"
#include "tests/support/stores/conform.h"

enum {
    THREADS = 4,
    THREAD_SANDBOXES = 8,
    THREAD_CLAIMS = 6,
    ROUND_OPS = 3, /* Grant, renew, undo. */
};

static const char *const thread_claims[THREAD_CLAIMS] = {"a", "b", "c",
                                                         "d", "e", "f"};
static _Atomic(uint64_t) next_fence[THREAD_SANDBOXES];
static _Atomic(int) sandbox_holder[THREAD_SANDBOXES];
static _Atomic(int) claim_holder[THREAD_CLAIMS];
static _Atomic(int) wins;
static _Atomic(int) finished;

struct worker {
    pthread_t thread;
    int number; /* From 1. */
    uint32_t rounds;
    struct wp_rng rng;
    struct conform_trial
        *trials; /* rounds * ROUND_OPS, each used at most once. */
    size_t used;
};

static enum wp_status
worker_commit(struct worker *worker, enum wp_lease_op_kind kind,
              unsigned sandbox, uint64_t fence, unsigned claim)
{
    struct conform_trial *trial = &worker->trials[worker->used++];

    trial->op.kind = kind;
    conform_crowd_uid(&trial->op, sandbox);
    trial->op.fence = fence;
    trial->op.deadline_wall_ms = 1 + (int64_t)fence;
    trial->op.claim_id = wp_str_from(thread_claims[claim]);
    conform_submit(trial);
    conform_flush_store();
    conform_await(trial, false);
    return trial->status;
}

static void
hold_a_while(struct worker *worker, unsigned sandbox, uint64_t fence,
             unsigned claim)
{
    if (atomic_exchange(&sandbox_holder[sandbox], worker->number) != 0) {
        conform_die("a sandbox has two holders");
    }
    if (atomic_exchange(&claim_holder[claim], worker->number) != 0) {
        conform_die("a claim has two sandboxes");
    }
    atomic_fetch_add(&wins, 1);
    if (wp_rng_below(&worker->rng, 2) == 0 &&
        worker_commit(worker, WP_LEASE_RENEW, sandbox, fence, claim) != WP_OK) {
        conform_die("a holder could not renew");
    }
    atomic_store(&sandbox_holder[sandbox], 0);
    atomic_store(&claim_holder[claim], 0);
    if (worker_commit(worker, WP_LEASE_UNDO, sandbox, fence, claim) != WP_OK) {
        conform_die("a holder could not undo");
    }
}

static void *
worker_main(void *arg)
{
    struct worker *worker = arg;

    for (uint32_t i = 0; i < worker->rounds; i++) {
        unsigned sandbox =
            (unsigned)wp_rng_below(&worker->rng, THREAD_SANDBOXES);
        unsigned claim = (unsigned)wp_rng_below(&worker->rng, THREAD_CLAIMS);
        uint64_t fence = atomic_fetch_add(&next_fence[sandbox], 1) + 1;
        enum wp_status status =
            worker_commit(worker, WP_LEASE_GRANT, sandbox, fence, claim);

        if (!conform_store.ops->durable) {
            if (status != WP_OK) {
                conform_die("a store that keeps nothing refused");
            }
        } else if (status == WP_OK) {
            hold_a_while(worker, sandbox, fence, claim);
        } else if (status != WP_TAKEN && status != WP_ABORTED &&
                   status != WP_ALREADY_EXISTS) {
            conform_die("a grant ended in a way that the rules do not know");
        }
    }
    atomic_fetch_add(&finished, 1);
    return NULL;
}

static void
run_workers(struct worker workers[THREADS])
{
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(
            pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]),
            0);
    }
    while (conform_factory->settle != NULL &&
           atomic_load(&finished) < THREADS) {
        conform_factory->settle(conform_factory->ctx);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    }
}

/* Threads that want the same few sandboxes with the same few claims: nobody
 * ever shares one, and each op is answered exactly once. */
void
conform_test_threads_never_share(void **state)
{
    uint32_t steps = conform_steps();
    struct worker workers[THREADS] = {0};
    uint64_t seed;

    (void)state;
    conform_open_store(true);
    seed = conform_run_seed();
    atomic_store(&finished, 0);
    if (conform_store.ops->durable) {
        conform_offer_crowd();
    }
    for (int i = 0; i < THREADS; i++) {
        workers[i].number = i + 1;
        workers[i].rounds = steps / THREADS;
        wp_rng_init(&workers[i].rng, seed + (uint64_t)i);
        workers[i].trials = calloc((size_t)workers[i].rounds * ROUND_OPS,
                                   sizeof *workers[i].trials);
        assert_non_null(workers[i].trials);
    }
    run_workers(workers);
    if (conform_store.ops->durable) {
        assert_true(atomic_load(&wins) > 0);
        for (unsigned i = 0; i < THREAD_SANDBOXES; i++) {
            struct wp_lease_op op = {0};
            struct wp_lease_record record;

            conform_crowd_uid(&op, i);
            conform_fetch(op.uid, &record);
            assert_int_equal(record.state, WP_RECORD_OPEN);
            assert_true(record.fence <= atomic_load(&next_fence[i]));
        }
    }
    conform_close_store();
    for (int i = 0; i < THREADS; i++) {
        for (size_t k = 0; k < workers[i].used; k++) {
            assert_int_equal(atomic_load(&workers[i].trials[k].answers), 1);
        }
        free(workers[i].trials);
    }
}
