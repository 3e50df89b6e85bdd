/* tests/unit/allocator/stores/sqlite/lease_sqlite_commit_test.c - commits to the SQLite store beyond
 * the suite of all stores: they share transactions, are done by who flushes when
 * nobody else does any, are answered before it stops, and its log stays short.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <pthread.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/stores/sqlite_rig.h"

/* Many ops at once share transactions, in the order they came: each sees what
 * the ones before it did. */
static void
test_ops_of_one_batch_follow_each_other(void **state)
{
    enum {
        ROUNDS = 40,
        STEPS = 6
    };
    static struct conform_trial trials[ROUNDS * STEPS];
    static const enum wp_lease_op_kind kinds[STEPS] = {
        WP_LEASE_OFFER, WP_LEASE_GRANT,   WP_LEASE_GRANT,
        WP_LEASE_RENEW, WP_LEASE_RELEASE, WP_LEASE_FORGET};
    static const enum wp_status expected[STEPS] = {WP_OK, WP_OK, WP_TAKEN,
                                                   WP_OK, WP_OK, WP_OK};
    struct wp_lease_sqlite_stats stats;

    (void)state;
    memset(trials, 0, sizeof trials);
    sqlite_rig_open();
    for (unsigned i = 0; i < ROUNDS * STEPS; i++) {
        struct wp_lease_op *op = &trials[i].op;

        op->kind = kinds[i % STEPS];
        op->fence = op->kind == WP_LEASE_OFFER ? 0 : 1;
        op->claim_id = i % STEPS == 2 ? WP_STR("other") : WP_STR("claim");
        op->deadline_wall_ms = 9;
        conform_crowd_uid(op, i / STEPS);
        conform_submit(&trials[i]);
    }
    conform_await_all(trials, ROUNDS * STEPS);
    for (unsigned i = 0; i < ROUNDS * STEPS; i++) {
        assert_int_equal(trials[i].status, expected[i % STEPS]);
    }
    wp_lease_sqlite_stats(sqlite_rig.store, &stats);
    assert_int_equal(stats.commits, ROUNDS * STEPS);
    assert_true(stats.transactions < ROUNDS * STEPS);
    assert_true(stats.batch_max > 1 && stats.batch_max <= 256);
    assert_int_equal(stats.transaction_ns.count, stats.transactions);
    assert_int_equal(stats.failures, 0);
    assert_int_equal(stats.last_error.status, WP_OK);
    sqlite_rig_close();
}

/* What was committed before stop is answered; what comes later is not taken.
 */
static void
test_stop_answers_everything(void **state)
{
    static struct conform_trial trials[64];
    struct conform_trial late = {.op = {.kind = WP_LEASE_OFFER, .uid = {1}}};

    (void)state;
    memset(trials, 0, sizeof trials);
    sqlite_rig_open();
    for (unsigned i = 0; i < 64; i++) {
        trials[i].op.kind = WP_LEASE_OFFER;
        conform_crowd_uid(&trials[i].op, i);
        conform_submit(&trials[i]);
    }
    wp_lease_sqlite_stop(sqlite_rig.store);
    for (unsigned i = 0; i < 64; i++) {
        assert_int_equal(atomic_load(&trials[i].answers), 1);
        assert_int_equal(trials[i].status, WP_OK);
    }
    conform_submit(&late);
    assert_int_equal(atomic_load(&late.answers), 1);
    assert_int_equal(late.status, WP_UNAVAILABLE);
    wp_lease_sqlite_stop(sqlite_rig.store);
    sqlite_rig_close();
    sqlite_rig_open();
    assert_int_equal(sqlite_rig_state(63), WP_RECORD_OPEN);
    sqlite_rig_close();
}

static void
open_normal(uint32_t checkpoint_pages)
{
    const struct wp_lease_sqlite_config config = {
        .path = sqlite_rig.path,
        .checkpoint_pages = checkpoint_pages,
        .synchronous = WP_LEASE_SQLITE_NORMAL};
    struct wp_err err;

    sqlite_rig.store = wp_lease_sqlite_create(&config, &err);
    assert_non_null(sqlite_rig.store);
    conform_store = wp_lease_sqlite_store(sqlite_rig.store);
}

/* An op, and the thread that did it. */
struct told {
    struct wp_lease_op op;
    pthread_t by;
    _Atomic(int) answers;
    enum wp_status status;
};

static void
on_told(struct wp_lease_op *op, enum wp_status status)
{
    struct told *told = WP_CONTAINER_OF(op, struct told, op);

    told->by = pthread_self();
    told->status = status;
    atomic_fetch_add(&told->answers, 1);
}

static void
offer_told(struct told *told, unsigned sandbox)
{
    memset(told, 0, sizeof *told);
    told->op.kind = WP_LEASE_OFFER;
    told->op.gathered = true;
    told->op.done = on_told;
    conform_crowd_uid(&told->op, sandbox);
    assert_int_equal(conform_store.ops->commit(conform_store.self, &told->op),
                     WP_PENDING);
}

/* Nothing is done before the flush, and all of it in the flush, in one
 * transaction on this thread. */
static void
test_who_flushes_does_what_is_gathered(void **state)
{
    static struct told told[20];
    struct wp_lease_sqlite_stats stats;

    (void)state;
    open_normal(0);
    for (unsigned i = 0; i < WP_ARRAY_LEN(told); i++) {
        offer_told(&told[i], i);
    }
    for (unsigned i = 0; i < WP_ARRAY_LEN(told); i++) {
        assert_int_equal(atomic_load(&told[i].answers), 0);
    }
    conform_flush_store();
    for (unsigned i = 0; i < WP_ARRAY_LEN(told); i++) {
        assert_int_equal(atomic_load(&told[i].answers), 1);
        assert_int_equal(told[i].status, WP_OK);
        assert_true(pthread_equal(told[i].by, pthread_self()));
    }
    conform_flush_store(); /* Nothing is there. */
    wp_lease_sqlite_stats(sqlite_rig.store, &stats);
    assert_int_equal(stats.transactions, 1);
    assert_int_equal(stats.batch_max, WP_ARRAY_LEN(told));
    sqlite_rig_close();
}

/* A snapshot waits for the disk, so it is not for who flushes; the leases that
 * were gathered with it are, as far as they came before. */
static void
test_snapshots_are_left_to_the_committer(void **state)
{
    static uint8_t bytes[] = "learned";
    struct wp_pool_snapshot snapshot = {bytes, sizeof bytes, sizeof bytes};
    struct wp_lease_sqlite_stats stats;
    struct told put = {.op = {.kind = WP_LEASE_PUT_SNAPSHOT,
                              .pool_namespace = WP_STR("team-a"),
                              .pool = WP_STR("agents"),
                              .snapshot = &snapshot,
                              .gathered = true,
                              .done = on_told}};
    struct told before;
    struct told after;

    (void)state;
    open_normal(0);
    offer_told(&before, 0);
    assert_int_equal(conform_store.ops->commit(conform_store.self, &put.op),
                     WP_PENDING);
    offer_told(&after, 1);
    conform_flush_store();
    assert_int_equal(atomic_load(&before.answers), 1);
    assert_true(pthread_equal(before.by, pthread_self()));
    /* Comes after both. */
    assert_int_equal(sqlite_rig_state(1), WP_RECORD_OPEN);
    assert_int_equal(atomic_load(&put.answers), 1);
    assert_int_equal(put.status, WP_OK);
    assert_false(pthread_equal(put.by, pthread_self()));
    assert_int_equal(atomic_load(&after.answers), 1);
    wp_lease_sqlite_stats(sqlite_rig.store, &stats);
    assert_int_equal(stats.commits, 4);
    assert_int_equal(stats.transactions, 4);
    sqlite_rig_close();
}

/* What was gathered and not flushed is answered all the same. */
static void
test_stop_answers_what_is_gathered(void **state)
{
    struct told told;

    (void)state;
    open_normal(0);
    offer_told(&told, 0);
    wp_lease_sqlite_stop(sqlite_rig.store);
    assert_int_equal(atomic_load(&told.answers), 1);
    assert_int_equal(told.status, WP_OK);
    conform_flush_store();
    sqlite_rig_close();
}

/* The log is copied into the file again and again, so it stays short: by the
 * committer, while who flushes does the commits. */
static void
test_log_stays_short(void **state)
{
    struct wp_lease_sqlite_stats stats;
    struct stat st;

    (void)state;
    open_normal(20);
    for (unsigned i = 0; i < 250; i++) {
        sqlite_rig_offer(i);
    }
    wp_lease_sqlite_stats(sqlite_rig.store, &stats);
    assert_true(stats.checkpoints > 5);
    assert_int_equal(stats.checkpoint_ns.count, stats.checkpoints);
    assert_true(stats.wal_pages < 40);
    assert_int_equal(stat(sqlite_rig.log_path, &st), 0);
    assert_true(st.st_size < 60 * (4096 + 24));
    sqlite_rig_close();
}

/* The log is on the disk before the committer must copy it, so a checkpoint
 * comes in the last quarter already, when the thread that syncs has been asked
 * and is done. */
static void
test_log_is_synced_before_it_is_copied(void **state)
{
    struct wp_lease_sqlite_stats stats;
    uint64_t most = 0;

    (void)state;
    open_normal(4000);
    for (uint16_t i = 0; i < 4000; i++) {
        struct wp_lease_op op = {.kind = WP_LEASE_OFFER,
                                 .uid = {(uint8_t)(i >> 8), (uint8_t)i},
                                 .pool = WP_STR("agents"),
                                 .sandbox = WP_STR("agents-x")};

        assert_int_equal(conform_commit(&op), WP_OK);
        wp_lease_sqlite_stats(sqlite_rig.store, &stats);
        most = stats.wal_pages > most ? stats.wal_pages : most;
        if (stats.checkpoints > 0) {
            break;
        }
        if (most > 3000) {
            /* The disk may take its time: three seconds in all. */
            (void)poll(NULL, 0, 10);
        }
    }
    assert_int_equal(stats.checkpoints, 1);
    assert_true(most > 2900);
    assert_true(most < 4000);
    sqlite_rig_close();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_ops_of_one_batch_follow_each_other,
                               sqlite_rig_set_up),
        cmocka_unit_test_setup(test_stop_answers_everything, sqlite_rig_set_up),
        cmocka_unit_test_setup(test_who_flushes_does_what_is_gathered,
                               sqlite_rig_set_up),
        cmocka_unit_test_setup(test_snapshots_are_left_to_the_committer,
                               sqlite_rig_set_up),
        cmocka_unit_test_setup(test_stop_answers_what_is_gathered,
                               sqlite_rig_set_up),
        cmocka_unit_test_setup(test_log_stays_short, sqlite_rig_set_up),
        cmocka_unit_test_setup(test_log_is_synced_before_it_is_copied,
                               sqlite_rig_set_up),
    };

    return cmocka_run_group_tests(tests, sqlite_rig_make, sqlite_rig_remove);
}
