/* tests/unit/allocator/stores/sqlite/lease_sqlite_path_test.c - a commit on its way through the SQLite
 * store, from the caller to the answer: our code allocates nothing, takes no
 * lock and enters the kernel for nothing but waking and SQLite's own files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "allocator/stores/sqlite/store.h"
#include "tests/support/base/call_counts.h"
#include "tests/support/base/temp_dir.h"

enum {
    OPS = 64,
    ROUNDS = 20,
};

static struct wp_lease_op ops[OPS];
static _Atomic(int) answered;
static _Atomic(int) refused;

static void
on_done(struct wp_lease_op *op, enum wp_status status)
{
    (void)op;
    atomic_fetch_add(&refused, status == WP_OK ? 0 : 1);
    atomic_fetch_add(&answered, 1);
}

static void
commit_all(struct wp_lease_store store, enum wp_lease_op_kind kind,
           uint64_t fence)
{
    atomic_store(&answered, 0);
    for (int i = 0; i < OPS; i++) {
        static const char ids[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQR"
                                  "STUVWXYZ0123456789-_";

        ops[i] = (struct wp_lease_op){.kind = kind,
                                      .uid = {(uint8_t)(i + 1)},
                                      .fence = fence,
                                      .deadline_wall_ms = 1 + (int64_t)fence,
                                      .claim_id = {&ids[i], 1},
                                      .sandbox = WP_STR("agents-x"),
                                      .gathered = store.ops->flush != NULL,
                                      .done = on_done};
        assert_int_equal(store.ops->commit(store.self, &ops[i]), WP_PENDING);
    }
    if (store.ops->flush != NULL) {
        store.ops->flush(store.self);
    }
    while (atomic_load(&answered) < OPS) {
        (void)sched_yield();
    }
}

static void
walk(enum wp_lease_sqlite_sync synchronous)
{
    struct wp_lease_sqlite_config config = {.synchronous = synchronous};
    struct wp_lease_sqlite *sqlite;
    struct wp_lease_store store;
    struct wp_err err = {0};
    char dir[256];
    char path[300];

    temp_dir_make_fast(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/leases.db", dir);
    config.path = path;
    sqlite = wp_lease_sqlite_create(&config, &err);
    assert_non_null(sqlite);
    store = wp_lease_sqlite_store(sqlite);
    wp_call_counts_reset();
    commit_all(store, WP_LEASE_OFFER, 0);
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        commit_all(store, WP_LEASE_GRANT, i);
        commit_all(store, WP_LEASE_RENEW, i);
        commit_all(store, WP_LEASE_UNDO, i);
    }
    assert_int_equal(atomic_load(&refused), 0);
    assert_int_equal(wp_call_counts_allocations(), 0);
    assert_int_equal(wp_call_counts_locks(), 0);
    assert_int_equal(wp_call_counts_kernel(), 0);
    wp_lease_sqlite_destroy(sqlite);
    /* The counters do count. */
    assert_true(wp_call_counts_allocations() > 0);
    temp_dir_remove(dir);
}

static void
test_path_through_the_committer(void **state)
{
    (void)state;
    walk(WP_LEASE_SQLITE_FULL);
}

static void
test_path_of_who_flushes(void **state)
{
    (void)state;
    walk(WP_LEASE_SQLITE_NORMAL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_path_through_the_committer),
        cmocka_unit_test(test_path_of_who_flushes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
