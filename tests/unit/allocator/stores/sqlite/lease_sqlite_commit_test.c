/* tests/unit/allocator/stores/sqlite/lease_sqlite_commit_test.c - commits to the SQLite store beyond
 * the suite of all stores: they share transactions, are answered before it
 * stops, and its log stays short. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

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

/* The log is copied into the file again and again, so it stays short. */
static void
test_log_stays_short(void **state)
{
    const struct wp_lease_sqlite_config config = {.path = sqlite_rig.path,
                                                  .checkpoint_pages = 20,
                                                  .synchronous =
                                                      WP_LEASE_SQLITE_NORMAL};
    struct wp_lease_sqlite_stats stats;
    struct wp_err err;
    struct stat st;

    (void)state;
    sqlite_rig.store = wp_lease_sqlite_create(&config, &err);
    assert_non_null(sqlite_rig.store);
    conform_store = wp_lease_sqlite_store(sqlite_rig.store);
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

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_ops_of_one_batch_follow_each_other,
                               sqlite_rig_set_up),
        cmocka_unit_test_setup(test_stop_answers_everything, sqlite_rig_set_up),
        cmocka_unit_test_setup(test_log_stays_short, sqlite_rig_set_up),
    };

    return cmocka_run_group_tests(tests, sqlite_rig_make, sqlite_rig_remove);
}
