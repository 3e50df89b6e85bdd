#include "tests/support/stores/conform.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pool/base/rng.h"
#include "tests/support/stores/rule_cells.h"

enum {
    WAIT_S = 60,
};

const struct wp_store_factory *conform_factory;
struct wp_lease_store conform_store;
static pthread_mutex_t answer_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t answered = PTHREAD_COND_INITIALIZER;

_Noreturn void
conform_die(const char *what)
{
    (void)fprintf(stderr, "store %s: %s\n", conform_factory->name, what);
    exit(1);
}

void
conform_open_store(bool fresh)
{
    conform_store = conform_factory->open(conform_factory->ctx, fresh);
}

void
conform_close_store(void)
{
    conform_factory->close(conform_factory->ctx);
}

static void
on_done(struct wp_lease_op *op, enum wp_status status)
{
    struct conform_trial *trial = WP_CONTAINER_OF(op, struct conform_trial, op);

    (void)pthread_mutex_lock(&answer_lock);
    trial->status = status;
    if (atomic_fetch_add(&trial->answers, 1) != 0) {
        conform_die("an op was answered twice");
    }
    (void)pthread_cond_broadcast(&answered);
    (void)pthread_mutex_unlock(&answer_lock);
}

void
conform_submit(struct conform_trial *trial)
{
    enum wp_status status;

    /* Every op names its pool: a store may keep pools apart. */
    trial->op.pool_namespace = WP_STR("team-a");
    trial->op.pool = WP_STR("agents");
    trial->op.done = on_done;
    trial->op.link.next = NULL;
    status = conform_store.ops->commit(conform_store.self, &trial->op);
    if (status != WP_PENDING) {
        trial->status = status;
        if (atomic_fetch_add(&trial->answers, 1) != 0) {
            conform_die("an op that was complete at once was answered as well");
        }
    }
}

void
conform_flush_store(void)
{
    if (conform_store.ops->flush != NULL) {
        conform_store.ops->flush(conform_store.self);
    }
}

void
conform_await(struct conform_trial *trial, bool turn)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    while (atomic_load(&trial->answers) == 0) {
        struct timespec now;

        if (turn && conform_factory->settle != NULL) {
            conform_factory->settle(conform_factory->ctx);
            (void)clock_gettime(CLOCK_REALTIME, &now);
            if (now.tv_sec > until.tv_sec) {
                conform_die("an op was not answered");
            }
            continue;
        }
        (void)pthread_mutex_lock(&answer_lock);
        while (atomic_load(&trial->answers) == 0) {
            if (pthread_cond_timedwait(&answered, &answer_lock, &until) ==
                ETIMEDOUT) {
                conform_die("an op was not answered");
            }
        }
        (void)pthread_mutex_unlock(&answer_lock);
    }
}

void
conform_await_all(struct conform_trial *trials, size_t n)
{
    conform_flush_store();
    for (size_t i = 0; i < n; i++) {
        conform_await(&trials[i], true);
    }
}

enum wp_status
conform_commit(const struct wp_lease_op *op)
{
    struct conform_trial trial = {.op = *op};

    trial.op.gathered = conform_store.ops->flush != NULL;
    conform_submit(&trial);
    conform_await_all(&trial, 1);
    return trial.status;
}

void
conform_fetch(const uint8_t uid[WP_UID_LEN], struct wp_lease_record *record)
{
    struct wp_lease_op op = {.kind = WP_LEASE_FETCH, .found = record};
    enum wp_status status;

    memcpy(op.uid, uid, WP_UID_LEN);
    memset(record, 0, sizeof *record);
    status = conform_commit(&op);
    assert_true(status == WP_OK || status == WP_NOT_FOUND);
    if (status == WP_NOT_FOUND) {
        assert_int_equal(record->state, WP_RECORD_NONE);
    }
}

enum wp_status
conform_fetch_claim(struct wp_str claim_id, struct wp_str tenant,
                    struct wp_lease_record *record)
{
    struct wp_lease_op op = {.kind = WP_LEASE_FETCH,
                             .claim_id = claim_id,
                             .tenant = tenant,
                             .found = record};

    memset(record, 0, sizeof *record);
    return conform_commit(&op);
}

struct loaded {
    struct wp_lease_record *records;
    size_t count;
    size_t cap;
};

static void
on_load(void *ctx, const struct wp_lease_record *record)
{
    struct loaded *loaded = ctx;

    assert_true(loaded->count < loaded->cap);
    assert_int_not_equal(record->state, WP_RECORD_NONE);
    loaded->records[loaded->count++] = *record;
}

void
conform_reopen_and_compare(const struct wp_lease_record *expected, size_t n)
{
    struct loaded loaded = {.cap = n};
    struct wp_err err = {0};
    size_t live = 0;

    conform_close_store();
    conform_open_store(false);
    loaded.records = calloc(n, sizeof *loaded.records);
    assert_non_null(loaded.records);
    if (conform_store.ops->load(conform_store.self, on_load, &loaded, &err) !=
        WP_OK) {
        fail_msg("load: %s", err.msg);
    }
    for (size_t i = 0; i < n; i++) {
        bool found = expected[i].state == WP_RECORD_NONE;

        live += found ? 0 : 1;
        for (size_t k = 0; k < loaded.count && !found; k++) {
            found =
                rule_record_differs(&expected[i], &loaded.records[k]) == NULL;
        }
        assert_true(found);
    }
    assert_int_equal(loaded.count, live);
    free(loaded.records);
}

uint64_t
conform_run_seed(void)
{
    const char *fixed = getenv("WP_SEED");
    uint64_t seed;

    wp_random_bytes(&seed, sizeof seed);
    if (fixed != NULL) {
        seed = strtoull(fixed, NULL, 10);
    }
    print_message("store %s, WP_SEED=%llu\n", conform_factory->name,
                  (unsigned long long)seed);
    return seed;
}

void
conform_crowd_uid(struct wp_lease_op *op, unsigned sandbox)
{
    memset(op->uid, 0, sizeof op->uid);
    op->uid[0] = 0xc0;
    op->uid[1] = (uint8_t)sandbox;
}

void
conform_offer_crowd(void)
{
    for (unsigned i = 0; i < CONFORM_CROWD; i++) {
        struct wp_lease_op op = {.kind = WP_LEASE_OFFER};

        conform_crowd_uid(&op, i);
        assert_int_equal(conform_commit(&op), WP_OK);
    }
}

uint32_t
conform_steps(void)
{
    return conform_factory->steps != 0 ? conform_factory->steps : 4000;
}
