/* tests/unit/allocator/stores/sqlite/lease_sqlite_fault_test.c - the SQLite store on a disk that fails:
 * every write and every sync of a transaction in turn, and the power at any
 * moment. What was answered OK is there, what was answered UNAVAILABLE is not,
 * also after a crash right then; and the store serves again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocator/stores/sqlite/store.h"
#include "tests/support/stores/conform.h"
#include "tests/support/stores/fault_vfs.h"
#include "tests/support/base/temp_dir.h"

enum {
    NOTED_AT = CONFORM_CROWD / 2, /* After which grant there is a snapshot. */
};

static char dir[256];
static char copy_dir[256];
static char path[300];
static char copy_path[300];
static struct wp_lease_sqlite *sqlite;
static enum wp_lease_sqlite_sync synchronous;
static uint32_t checkpoint_pages;

static void
open_store(const char *name)
{
    const struct wp_lease_sqlite_config config = {.path = name,
                                                  .synchronous = synchronous,
                                                  .checkpoint_pages =
                                                      checkpoint_pages};
    struct wp_err err = {0};

    sqlite = wp_lease_sqlite_create(&config, &err);
    if (sqlite == NULL) {
        fail_msg("%s", err.msg);
    }
    conform_store = wp_lease_sqlite_store(sqlite);
}

static void
close_store(void)
{
    wp_lease_sqlite_destroy(sqlite);
    sqlite = NULL;
}

static void
copy_file(const char *from_dir, const char *to_dir, const char *name)
{
    static char bytes[1 << 20];
    char file[600];
    ssize_t n;
    int fd;

    (void)snprintf(file, sizeof file, "%s/%s", from_dir, name);
    fd = open(file, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    n = read(fd, bytes, sizeof bytes);
    assert_true(n >= 0 && n < (ssize_t)sizeof bytes);
    (void)close(fd);
    (void)snprintf(file, sizeof file, "%s/%s", to_dir, name);
    fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, (size_t)n), n);
    (void)close(fd);
}

/* The files as they are now: what the next process finds after a kill. */
static void
copy_all(const char *from_dir, const char *to_dir)
{
    DIR *from = opendir(from_dir);
    struct dirent *entry;

    assert_non_null(from);
    temp_dir_empty(to_dir);
    while ((entry = readdir(from)) != NULL) {
        if (entry->d_name[0] != '.') {
            copy_file(from_dir, to_dir, entry->d_name);
        }
    }
    (void)closedir(from);
}

static enum wp_record_state
state_of(unsigned sandbox)
{
    struct wp_lease_record record;
    struct wp_lease_op op;

    conform_crowd_uid(&op, sandbox);
    conform_fetch(op.uid, &record);
    return record.state;
}

static struct conform_trial trials[CONFORM_CROWD];
static struct conform_trial reads[3]; /* What comes with them. */
static unsigned n_reads;
static char claims[CONFORM_CROWD][8];

/* On the thread that has the turn: what is committed here is one transaction.
 */
static void
submit_crowd(struct wp_lease_op *op, enum wp_status status)
{
    (void)op;
    if (status != WP_NOT_FOUND) {
        conform_die("a store without that record found it");
    }
    for (unsigned i = 0; i < CONFORM_CROWD; i++) {
        conform_submit(&trials[i]);
    }
    for (unsigned i = 0; i < n_reads; i++) {
        conform_submit(&reads[i]);
    }
}

/* All sandboxes granted in one transaction, each to a claim of its own. */
static void
grant_crowd(void)
{
    struct wp_lease_op first = {.kind = WP_LEASE_FETCH,
                                .gathered = conform_store.ops->flush != NULL,
                                .done = submit_crowd};

    memset(trials, 0, sizeof trials);
    for (unsigned i = 0; i < CONFORM_CROWD; i++) {
        struct wp_lease_op *op = &trials[i].op;

        (void)snprintf(claims[i], sizeof claims[i], "c%u", i);
        op->kind = WP_LEASE_GRANT;
        op->fence = 1;
        op->deadline_wall_ms = 1;
        op->claim_id = wp_str_from(claims[i]);
        conform_crowd_uid(op, i);
    }
    assert_int_equal(conform_store.ops->commit(conform_store.self, &first),
                     WP_PENDING);
    conform_await_all(trials, CONFORM_CROWD);
    conform_await_all(reads, n_reads);
}

/* Waits until the committer has nothing to do: the log is copied after every
 * transaction, or not at all. */
static void
await_quiet(void)
{
    struct wp_lease_sqlite_stats stats;

    do {
        wp_lease_sqlite_stats(sqlite, &stats);
    } while (checkpoint_pages == 1 && stats.checkpoints < stats.transactions);
}

/* The open store has what was answered. */
static void
check_answers(void)
{
    for (unsigned i = 0; i < CONFORM_CROWD; i++) {
        enum wp_record_state is = state_of(i);

        if (trials[i].status == WP_OK) {
            assert_int_equal(is, WP_RECORD_HELD);
        } else if (trials[i].status == WP_UNAVAILABLE) {
            assert_int_equal(is, WP_RECORD_OPEN);
        } else {
            assert_int_equal(trials[i].status, WP_UNKNOWN_OUTCOME);
            assert_true(is == WP_RECORD_HELD || is == WP_RECORD_OPEN);
        }
    }
}

struct fault {
    const char *name;
    unsigned kinds;
    int code;
    bool sticky;
    bool torn;
    enum wp_status worst; /* Of any answer. */
};

static const struct fault faults[] = {
    {"disk full, once", FAULT_WRITE, SQLITE_FULL, false, false, WP_OK},
    {"disk full, half written", FAULT_WRITE, SQLITE_FULL, false, true, WP_OK},
    {"disk full for a while", FAULT_WRITE, SQLITE_FULL, true, false,
     WP_UNAVAILABLE},
    {"write error, once", FAULT_WRITE, SQLITE_IOERR_WRITE, false, true,
     WP_UNAVAILABLE},
    {"write errors", FAULT_WRITE, SQLITE_IOERR_WRITE, true, true,
     WP_UNKNOWN_OUTCOME},
    {"sync error, once", FAULT_SYNC, SQLITE_IOERR_FSYNC, false, false,
     WP_UNAVAILABLE},
    {"sync errors", FAULT_SYNC, SQLITE_IOERR_FSYNC, true, false,
     WP_UNKNOWN_OUTCOME},
    {"everything fails", FAULT_WRITE | FAULT_SYNC, SQLITE_IOERR, true, false,
     WP_UNKNOWN_OUTCOME},
};

/* One fault at call number `after`; false when it never came to that. */
static bool
try_fault(const struct fault *fault, int after, bool *worst_seen)
{
    struct wp_lease_sqlite_stats stats;
    enum wp_status answers[CONFORM_CROWD];
    bool fired;

    temp_dir_empty(dir);
    open_store(path);
    conform_offer_crowd();
    await_quiet();
    fault_vfs_arm(fault->kinds, after, fault->code, fault->sticky, fault->torn);
    grant_crowd();
    /* Comes after whatever the committer still had to do. */
    (void)state_of(0);
    fired = fault_vfs_disarm();
    for (unsigned i = 0; i < CONFORM_CROWD; i++) {
        assert_true(trials[i].status == WP_OK ||
                    trials[i].status == fault->worst ||
                    (trials[i].status == WP_UNAVAILABLE &&
                     fault->worst == WP_UNKNOWN_OUTCOME));
        *worst_seen = *worst_seen || trials[i].status == fault->worst;
        answers[i] = trials[i].status;
    }
    wp_lease_sqlite_stats(sqlite, &stats);
    if (stats.failures > 0) {
        assert_int_not_equal(stats.last_error.status, WP_OK);
        assert_non_null(strstr(stats.last_error.msg, path));
    }
    /* Another process that finds the files as they are, after a kill. */
    copy_all(dir, copy_dir);
    check_answers();
    /* The disk has recovered: the store serves again. */
    for (unsigned i = 0; i < CONFORM_CROWD; i++) {
        trials[i].op.kind = WP_LEASE_RENEW;
        assert_int_equal(conform_commit(&trials[i].op),
                         state_of(i) == WP_RECORD_HELD ? WP_OK : WP_NOT_FOUND);
    }
    close_store();
    open_store(path);
    check_answers();
    close_store();
    open_store(copy_path);
    for (unsigned i = 0; i < CONFORM_CROWD; i++) {
        trials[i].status = answers[i];
    }
    check_answers();
    close_store();
    return fired;
}

/* Returns how many calls there are that can fail. */
static int
sweep(const struct fault *fault, bool reaches_commit)
{
    bool worst_seen = false;
    int after = 0;

    while (try_fault(fault, after, &worst_seen)) {
        after++;
        assert_true(after < 2000);
    }
    print_message("    %s: %d calls, each failed once\n", fault->name, after);
    assert_true(after > 0);
    assert_true(worst_seen || !reaches_commit);
    return after;
}

static void
test_every_call_fails_once(void **state)
{
    (void)state;
    synchronous = WP_LEASE_SQLITE_FULL;
    checkpoint_pages = 0;
    for (size_t i = 0; i < WP_ARRAY_LEN(faults); i++) {
        (void)sweep(&faults[i], true);
    }
}

/* The same where who flushes does the transaction. What fails there the
 * committer does once more, so that a fault that passes fails no commit. */
static void
test_every_call_of_a_flush_fails_once(void **state)
{
    (void)state;
    synchronous = WP_LEASE_SQLITE_NORMAL;
    checkpoint_pages = 0;
    for (size_t i = 0; i < WP_ARRAY_LEN(faults); i++) {
        if ((faults[i].kinds & FAULT_WRITE) != 0) {
            int calls = sweep(&faults[i], faults[i].sticky);

            assert_int_equal(calls, 1); /* It is written in one piece. */
        }
    }
}

/* The same with the log being copied after every transaction: what fails there
 * fails no commit. */
static void
test_checkpoints_fail(void **state)
{
    (void)state;
    checkpoint_pages = 1;
    for (int level = 0; level < 2; level++) {
        synchronous =
            level == 0 ? WP_LEASE_SQLITE_FULL : WP_LEASE_SQLITE_NORMAL;
        for (size_t i = 0; i < WP_ARRAY_LEN(faults); i++) {
            (void)sweep(&faults[i], false);
        }
    }
    checkpoint_pages = 0;
}

static enum wp_status
renew_crowd(int64_t deadline_wall_ms)
{
    enum wp_status worst = WP_OK;

    for (unsigned i = 0; i < CONFORM_CROWD; i++) {
        enum wp_status status;

        trials[i].op.kind = WP_LEASE_RENEW;
        trials[i].op.deadline_wall_ms = deadline_wall_ms;
        status = conform_commit(&trials[i].op);
        worst = status != WP_OK ? status : worst;
    }
    return worst;
}

static void
serve_on_a_small_disk(void)
{
    temp_dir_empty(dir);
    open_store(path);
    conform_offer_crowd();
    grant_crowd();
    close_store(); /* Its pages have their place now. */
    open_store(path);
    fault_vfs_room(64LL * 1024);
    for (int64_t i = 0; i < 100; i++) {
        assert_int_equal(renew_crowd(1000 + i), WP_OK);
    }
    /* Another one takes what is left, and gives it back. */
    fault_vfs_arm(FAULT_WRITE, 0, SQLITE_FULL, true, true);
    assert_int_equal(renew_crowd(2000), WP_UNAVAILABLE);
    assert_true(fault_vfs_disarm());
    for (int64_t i = 0; i < 100; i++) {
        assert_int_equal(renew_crowd(3000 + i), WP_OK);
    }
    close_store();
    fault_vfs_room(-1);
    open_store(path);
    check_answers();
    close_store();
}

static void
test_small_disk(void **state)
{
    (void)state;
    checkpoint_pages = 0;
    synchronous = WP_LEASE_SQLITE_FULL;
    serve_on_a_small_disk();
    synchronous = WP_LEASE_SQLITE_NORMAL;
    serve_on_a_small_disk();
}

static enum wp_status
snapshot(enum wp_lease_op_kind kind)
{
    static uint8_t bytes[8] = "learned";
    struct wp_pool_snapshot kept = {bytes, sizeof bytes, sizeof bytes};
    struct wp_lease_op op = {.kind = kind, .snapshot = &kept};

    return conform_commit(&op);
}

/* What is read in the transaction of the grants: a sandbox, a claim that is
 * granted there, and the pool's snapshot. */
static void
prepare_reads(struct wp_pool_snapshot *room)
{
    memset(reads, 0, sizeof reads);
    for (unsigned i = 0; i < WP_ARRAY_LEN(reads); i++) {
        reads[i].op.kind = WP_LEASE_FETCH;
        reads[i].op.found = &reads[i].found;
    }
    conform_crowd_uid(&reads[0].op, 0);
    reads[1].op.claim_id = WP_STR("c1");
    reads[2].op.kind = WP_LEASE_GET_SNAPSHOT;
    reads[2].op.snapshot = room;
}

/* Nobody knows whether what was written is there; but who only read has lost
 * nothing, and may ask again. */
static void
test_who_only_reads_knows_the_outcome(void **state)
{
    static uint8_t bytes[8];
    struct wp_pool_snapshot room = {bytes, 0, sizeof bytes};
    struct wp_lease_sqlite_stats stats;

    (void)state;
    checkpoint_pages = 0;
    for (int level = 0; level < 2; level++) {
        synchronous =
            level == 0 ? WP_LEASE_SQLITE_FULL : WP_LEASE_SQLITE_NORMAL;
        temp_dir_empty(dir);
        open_store(path);
        conform_offer_crowd();
        assert_int_equal(snapshot(WP_LEASE_PUT_SNAPSHOT), WP_OK);
        prepare_reads(&room);
        n_reads = WP_ARRAY_LEN(reads);
        fault_vfs_arm(FAULT_WRITE, 0, SQLITE_IOERR_WRITE, true, false);
        grant_crowd();
        assert_true(fault_vfs_disarm());
        n_reads = 0;
        wp_lease_sqlite_stats(sqlite, &stats);
        assert_int_equal(stats.batch_max, CONFORM_CROWD + WP_ARRAY_LEN(reads));
        for (unsigned i = 0; i < CONFORM_CROWD; i++) {
            assert_int_equal(trials[i].status, WP_UNKNOWN_OUTCOME);
        }
        for (unsigned i = 0; i < WP_ARRAY_LEN(reads); i++) {
            assert_int_equal(reads[i].status, WP_UNAVAILABLE);
        }
        assert_int_equal(snapshot(WP_LEASE_GET_SNAPSHOT), WP_OK);
        close_store();
    }
}

/* What the store that is open has of the grants up to number i: what is lost is
 * the latest, and nothing that was granted before the snapshot, if there is
 * one. Returns how many are lost. */
static int
count_lost(unsigned i)
{
    bool noted = i >= NOTED_AT;
    int lost = 0;

    for (unsigned k = 0; k <= i; k++) {
        bool held = state_of(k) == WP_RECORD_HELD;

        assert_false(held && lost > 0);
        lost += held ? 0 : 1;
        assert_false(!held && noted && k <= NOTED_AT);
    }
    assert_int_equal(snapshot(WP_LEASE_GET_SNAPSHOT),
                     noted ? WP_OK : WP_NOT_FOUND);
    return lost;
}

/* The power goes after each of some transactions: the next start has whatever
 * was answered by then. Returns how many answered commits were lost. */
static int
lose_power(void)
{
    int lost = 0;

    temp_dir_empty(dir);
    temp_dir_empty(copy_dir);
    fault_vfs_shadow(dir, copy_dir);
    open_store(path);
    conform_offer_crowd();
    for (unsigned i = 0; i < CONFORM_CROWD; i++) {
        struct wp_lease_op op = {.kind = WP_LEASE_GRANT,
                                 .fence = 1,
                                 .deadline_wall_ms = 1,
                                 .claim_id = wp_str_from(claims[i])};
        char after_dir[256];
        char after[300];
        struct wp_lease_sqlite *living = sqlite;
        struct wp_lease_store living_store = conform_store;

        (void)snprintf(claims[i], sizeof claims[i], "c%u", i);
        op.claim_id = wp_str_from(claims[i]);
        conform_crowd_uid(&op, i);
        assert_int_equal(conform_commit(&op), WP_OK);
        if (i == NOTED_AT) {
            assert_int_equal(snapshot(WP_LEASE_PUT_SNAPSHOT), WP_OK);
        }
        temp_dir_make_fast(after_dir, sizeof after_dir);
        copy_all(copy_dir, after_dir);
        /* A new file is made under another name and then moved. */
        if (access(copy_path, F_OK) != 0) {
            copy_file(dir, after_dir, "leases.db");
        }
        (void)snprintf(after, sizeof after, "%s/leases.db", after_dir);
        open_store(after);
        lost += count_lost(i);
        close_store();
        temp_dir_remove(after_dir);
        sqlite = living;
        conform_store = living_store;
    }
    close_store();
    return lost;
}

/* FULL keeps every answered commit. NORMAL may lose the last ones, and does
 * here: so this test would see it. It loses no snapshot, and nothing before
 * one. */
static void
test_power_loss(void **state)
{
    (void)state;
    for (uint32_t pages = 0; pages <= 8; pages += 4) {
        checkpoint_pages = pages;
        synchronous = WP_LEASE_SQLITE_FULL;
        assert_int_equal(lose_power(), 0);
    }
    checkpoint_pages = 0;
    synchronous = WP_LEASE_SQLITE_NORMAL;
    assert_true(lose_power() > 0);
}

int
main(void)
{
    static const struct wp_store_factory factory = {.name = "sqlite"};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call_fails_once),
        cmocka_unit_test(test_every_call_of_a_flush_fails_once),
        cmocka_unit_test(test_checkpoints_fail),
        cmocka_unit_test(test_small_disk),
        cmocka_unit_test(test_who_only_reads_knows_the_outcome),
        cmocka_unit_test(test_power_loss),
    };
    int failed;

    conform_factory = &factory;
    fault_vfs_install();
    temp_dir_make_fast(dir, sizeof dir);
    temp_dir_make_fast(copy_dir, sizeof copy_dir);
    (void)snprintf(path, sizeof path, "%s/leases.db", dir);
    (void)snprintf(copy_path, sizeof copy_path, "%s/leases.db", copy_dir);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    temp_dir_remove(dir);
    temp_dir_remove(copy_dir);
    return failed;
}
