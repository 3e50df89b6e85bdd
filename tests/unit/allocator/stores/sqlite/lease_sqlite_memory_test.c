/* tests/unit/allocator/stores/sqlite/lease_sqlite_memory_test.c - the SQLite
 * store when memory lacks: a piece of memory that SQLite asks for is refused, one
 * after the other, while the store opens, loads and commits. It says so, nothing
 * that it answered otherwise is lost, and it serves as soon as there is memory
 * again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <dirent.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "pool/base/assert.h"
#include "tests/support/base/temp_dir.h"
#include "tests/support/stores/sqlite_rig.h"

enum {
    PIECES_MAX = 20000, /* Nothing takes as many. */
    EACH = 100,         /* Of so many each one; then every so many. */
    STRIDE = 7,
};

static sqlite3_mem_methods real;
static _Atomic(int) countdown = -1; /* Below 0: nothing is refused. */

static bool
is_refused(void)
{
    return atomic_load(&countdown) >= 0 && atomic_fetch_sub(&countdown, 1) == 0;
}

static void *
take(int len)
{
    return is_refused() ? NULL : real.xMalloc(len);
}

static void *
take_again(void *old, int len)
{
    return is_refused() ? NULL : real.xRealloc(old, len);
}

/* True when a piece was refused. */
static bool
disarm(void)
{
    return atomic_exchange(&countdown, -1) < 0;
}

static void
install(void)
{
    sqlite3_mem_methods methods;

    WP_ASSERT(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real) == SQLITE_OK);
    methods = real;
    methods.xMalloc = take;
    methods.xRealloc = take_again;
    WP_ASSERT(sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) == SQLITE_OK);
}

/* The number of the piece to refuse next. */
static int
after_that(int after)
{
    return after + (after < EACH ? 1 : STRIDE);
}

static void
open_grown(void)
{
    temp_dir_empty(sqlite_rig.dir);
    sqlite_rig_open();
    conform_offer_crowd();
    for (unsigned i = 0; i < CONFORM_CROWD; i++) {
        char claim[] = {'c', (char)('a' + i), '\0'};

        assert_int_equal(sqlite_rig_grant(i, claim), WP_OK);
    }
}

/* No half of a file stays beside the place of the whole. */
static void
assert_nothing_half_made(void)
{
    DIR *dir = opendir(sqlite_rig.dir);
    struct dirent *entry;

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        if (strstr(entry->d_name, ".new") != NULL) {
            fail_msg("%s was left", entry->d_name);
        }
    }
    (void)closedir(dir);
}

/* Opens it with the piece number `after` refused; false when it asks for fewer.
 * What could not be opened then opens after. */
static bool
open_without(int after)
{
    struct wp_err err;
    bool refused;

    atomic_store(&countdown, after);
    sqlite_rig.store = sqlite_rig_try_open(&err);
    refused = disarm();
    if (sqlite_rig.store == NULL) {
        assert_true(refused);
        assert_int_equal(err.status, WP_UNAVAILABLE);
        assert_non_null(strstr(err.msg, sqlite_rig.path));
        assert_nothing_half_made();
        sqlite_rig_open();
    }
    conform_store = wp_lease_sqlite_store(sqlite_rig.store);
    return refused;
}

static void
test_a_new_file_is_made_or_is_not(void **state)
{
    bool refused = true;
    int after = 0;

    (void)state;
    for (; refused; after = after_that(after)) {
        assert_true(after < PIECES_MAX);
        temp_dir_empty(sqlite_rig.dir);
        refused = open_without(after);
        sqlite_rig_offer(0);
        sqlite_rig_close();
        sqlite_rig_open();
        assert_int_equal(sqlite_rig_state(0), WP_RECORD_OPEN);
        sqlite_rig_close();
    }
    assert_true(after > EACH);
}

static void
test_a_file_is_opened_or_left_as_it_is(void **state)
{
    bool refused = true;
    int after = 0;

    (void)state;
    open_grown();
    sqlite_rig_close();
    for (; refused; after = after_that(after)) {
        assert_true(after < PIECES_MAX);
        refused = open_without(after);
        for (unsigned i = 0; i < CONFORM_CROWD; i++) {
            assert_int_equal(sqlite_rig_state(i), WP_RECORD_HELD);
        }
        sqlite_rig_close();
    }
    assert_true(after > EACH);
}

static void
count_record(void *ctx, const struct wp_lease_record *record)
{
    *(uint32_t *)ctx += record->state == WP_RECORD_HELD;
}

static void
test_all_is_loaded_or_that_is_said(void **state)
{
    bool refused = true;
    int after = 0;

    (void)state;
    open_grown();
    for (; refused; after++) {
        struct wp_err err = {.status = WP_OK};
        enum wp_status status;
        uint32_t n = 0;

        assert_true(after < PIECES_MAX);
        atomic_store(&countdown, after);
        status =
            conform_store.ops->load(conform_store.self, count_record, &n, &err);
        refused = disarm();
        if (status == WP_OK) {
            assert_int_equal(n, CONFORM_CROWD);
        } else {
            assert_true(refused);
            assert_int_equal(status, WP_UNAVAILABLE);
            assert_non_null(strstr(err.msg, "cannot be read"));
        }
    }
    sqlite_rig_close();
}

/* The store has released what it said that it has, and nothing else. */
static void
assert_answers(const struct conform_trial *trials, bool refused)
{
    for (unsigned i = 0; i < CONFORM_CROWD; i++) {
        bool done = trials[i].status == WP_OK;

        assert_true(done || trials[i].status == WP_UNAVAILABLE);
        assert_true(done || refused);
        assert_int_equal(sqlite_rig_state(i) == WP_RECORD_HELD, !done);
    }
}

/* Each sandbox released and a snapshot kept, in one transaction or in two. */
static bool
release_without(int after)
{
    static uint8_t bytes[3000];
    struct wp_pool_snapshot kept = {bytes, sizeof bytes, sizeof bytes};
    static struct conform_trial trials[CONFORM_CROWD + 1];
    bool refused;

    memset(trials, 0, sizeof trials);
    for (unsigned i = 0; i < CONFORM_CROWD; i++) {
        trials[i].op.kind = WP_LEASE_RELEASE;
        trials[i].op.fence = 1;
        conform_crowd_uid(&trials[i].op, i);
    }
    trials[CONFORM_CROWD].op.kind = WP_LEASE_PUT_SNAPSHOT;
    trials[CONFORM_CROWD].op.snapshot = &kept;
    atomic_store(&countdown, after);
    for (unsigned i = 0; i < WP_ARRAY_LEN(trials); i++) {
        conform_submit(&trials[i]);
    }
    conform_await_all(trials, WP_ARRAY_LEN(trials));
    refused = disarm();
    assert_answers(trials, refused);
    sqlite_rig_close();
    sqlite_rig_open();
    assert_answers(trials, refused);
    return refused;
}

static void
test_a_commit_is_whole_or_is_not(void **state)
{
    bool refused = true;
    int after = 0;

    (void)state;
    for (; refused; after++) {
        assert_true(after < PIECES_MAX);
        open_grown();
        refused = release_without(after);
        sqlite_rig_close();
    }
    assert_true(after > 1);
}

/* The disk is not what is tried. */
static int
make_fast(void **state)
{
    (void)sqlite_rig_make(state);
    temp_dir_remove(sqlite_rig.dir);
    temp_dir_make_fast(sqlite_rig.dir, sizeof sqlite_rig.dir);
    (void)snprintf(sqlite_rig.path, sizeof sqlite_rig.path, "%s/leases.db",
                   sqlite_rig.dir);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_new_file_is_made_or_is_not),
        cmocka_unit_test(test_a_file_is_opened_or_left_as_it_is),
        cmocka_unit_test(test_all_is_loaded_or_that_is_said),
        cmocka_unit_test(test_a_commit_is_whole_or_is_not),
    };

    install();
    return cmocka_run_group_tests(tests, make_fast, sqlite_rig_remove);
}
