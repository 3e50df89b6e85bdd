/* tests/unit/lease_sqlite_test.c - the SQLite store's file: who may open it,
 * what is refused and left alone, older layouts; and what is the store's own,
 * beyond the suite of all stores. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "allocator/lease_sqlite.h"
#include "tests/support/conform.h"
#include "tests/support/rule_cells.h"
#include "tests/support/temp_dir.h"

static char dir[256];
static char path[300];
static char log_path[310];
static struct wp_lease_sqlite *sqlite;

static void
close_store(void)
{
    wp_lease_sqlite_destroy(sqlite);
    sqlite = NULL;
}

static struct wp_lease_sqlite *
try_open(struct wp_err *err)
{
    const struct wp_lease_sqlite_config config = {.path = path,
                                                  .busy_timeout_ms = 50};

    memset(err, 0, sizeof *err);
    return wp_lease_sqlite_create(&config, err);
}

static void
open_store(void)
{
    struct wp_err err;

    sqlite = try_open(&err);
    if (sqlite == NULL) {
        fail_msg("%s", err.msg);
    }
    conform_store = wp_lease_sqlite_store(sqlite);
}

/* It is refused with this status and with these words, the path among them. */
static void
expect_refusal(enum wp_status status, const char *words)
{
    struct wp_err err;

    assert_null(try_open(&err));
    print_message("    refused: %s\n", err.msg);
    assert_int_equal(err.status, status);
    assert_non_null(strstr(err.msg, words));
    assert_non_null(strstr(err.msg, path));
}

static size_t
read_whole(const char *name, unsigned char *out, size_t cap)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    assert_true(fd >= 0);
    n = read(fd, out, cap);
    assert_true(n >= 0 && (size_t)n < cap);
    (void)close(fd);
    return (size_t)n;
}

static void
write_at(const char *name, off_t at, const void *bytes, size_t len)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, len, at), (ssize_t)len);
    (void)close(fd);
}

/* The refusal leaves every byte of the file as it was. */
static void
expect_refusal_leaves_it(enum wp_status status, const char *words)
{
    static unsigned char before[1 << 20];
    static unsigned char after[1 << 20];
    size_t len = read_whole(path, before, sizeof before);

    expect_refusal(status, words);
    assert_int_equal(read_whole(path, after, sizeof after), len);
    assert_memory_equal(before, after, len);
}

static void
run_sql(const char *sql)
{
    sqlite3 *db = NULL;
    char *message = NULL;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) {
        fail_msg("%s: %s", sql, message);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void
offer(unsigned sandbox)
{
    struct wp_lease_op op = {.kind = WP_LEASE_OFFER,
                             .pool = WP_STR("agents"),
                             .sandbox = WP_STR("agents-x")};

    conform_crowd_uid(&op, sandbox);
    assert_int_equal(conform_commit(&op), WP_OK);
}

static enum wp_status
grant(unsigned sandbox, const char *claim)
{
    struct wp_lease_op op = {.kind = WP_LEASE_GRANT,
                             .fence = 1,
                             .deadline_wall_ms = 77,
                             .claim_id = wp_str_from(claim)};

    conform_crowd_uid(&op, sandbox);
    return conform_commit(&op);
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

/* A closed file with some hundred records. */
static void
make_records(unsigned n)
{
    open_store();
    for (unsigned i = 0; i < n; i++) {
        offer(i);
    }
    assert_int_equal(grant(0, "claim"), WP_OK);
    close_store();
}

static int
set_up(void **state)
{
    (void)state;
    temp_dir_empty(dir);
    return 0;
}

static unsigned
mode_of(const char *name)
{
    struct stat st;

    assert_int_equal(stat(name, &st), 0);
    return st.st_mode & 0777;
}

/* Only the owner may read it, whatever the umask; others' permissions on an
 * older file are taken away. Nothing else is left in the directory. */
static void
test_only_the_owner_reads_it(void **state)
{
    mode_t before = umask(0);
    char command[600];

    (void)state;
    open_store();
    offer(1);
    assert_int_equal(mode_of(path), 0600);
    assert_int_equal(mode_of(log_path), 0600);
    close_store();
    assert_int_equal(chmod(path, 0644), 0);
    open_store();
    assert_int_equal(mode_of(path), 0600);
    close_store();
    (void)umask(before);
    (void)snprintf(command, sizeof command, "test \"$(ls %s)\" = leases.db",
                   dir);
    assert_int_equal(system(command), 0);
}

/* A second store is refused while the first lives, in this process and in
 * another; afterwards it may. */
static void
test_second_opener_is_refused(void **state)
{
    int status = 0;
    pid_t child;

    (void)state;
    open_store();
    offer(1);
    expect_refusal(WP_UNAVAILABLE, "in use by another process");
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct wp_err err;

        _exit(try_open(&err) == NULL && err.status == WP_UNAVAILABLE &&
                      strstr(err.msg, "in use by another process") != NULL
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    /* The first is none the worse for it. */
    offer(2);
    close_store();
    open_store();
    assert_int_equal(state_of(2), WP_RECORD_OPEN);
    close_store();
}

enum {
    MAKERS = 6
};

/* A child's part: tells the outcome, and keeps what it has until `over`. */
_Noreturn static void
make_with_others(int go, int told, int over)
{
    struct wp_err err;
    char verdict = 'l';
    char byte;

    (void)!read(go, &byte, 1); /* Until the parent closes it. */
    if (try_open(&err) != NULL) {
        verdict = 'w';
    } else if (err.status != WP_UNAVAILABLE ||
               strstr(err.msg, "in use") == NULL) {
        (void)fprintf(stderr, "%s\n", err.msg);
        verdict = 'x';
    }
    (void)!write(told, &verdict, 1);
    (void)!read(over, &byte, 1);
    _exit(0);
}

/* Several processes find no file at the same moment: one makes it and has it,
 * the others are told so; nothing else is left behind. */
static void
test_one_of_many_makes_the_file(void **state)
{
    char command[600];
    char verdict;
    int winners = 0;
    int told[2];
    int over[2];
    int go[2];

    (void)state;
    assert_int_equal(pipe(go) + pipe(told) + pipe(over), 0);
    for (int i = 0; i < MAKERS; i++) {
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0) {
            (void)close(go[1]);
            (void)close(over[1]);
            make_with_others(go[0], told[1], over[0]);
        }
    }
    (void)close(go[1]);
    for (int i = 0; i < MAKERS; i++) {
        assert_int_equal(read(told[0], &verdict, 1), 1);
        assert_true(verdict == 'w' || verdict == 'l');
        winners += verdict == 'w' ? 1 : 0;
    }
    assert_int_equal(winners, 1);
    (void)close(over[1]);
    for (int i = 0; i < MAKERS; i++) {
        assert_true(wait(NULL) > 0);
    }
    (void)close(go[0]);
    (void)close(told[0]);
    (void)close(told[1]);
    (void)close(over[0]);
    (void)snprintf(command, sizeof command,
                   "test -z \"$(ls %s | grep -v '^leases.db')\"", dir);
    assert_int_equal(system(command), 0);
}

static void
test_newer_layout_is_refused(void **state)
{
    (void)state;
    make_records(3);
    run_sql("PRAGMA user_version = 99");
    expect_refusal_leaves_it(WP_FAILED_PRECONDITION,
                             "layout version 99, this program knows 1 to 3");
}

static void
test_foreign_files_are_refused(void **state)
{
    static const char text[] = "These are somebody's notes, not leases. They "
                               "are longer than a database header, which has "
                               "a hundred bytes and begins with its name.";

    (void)state;
    write_at(path, 0, text, sizeof text);
    expect_refusal_leaves_it(WP_FAILED_PRECONDITION, "is not a lease file");
    assert_int_equal(unlink(path), 0);
    write_at(path, 0, "", 0);
    expect_refusal_leaves_it(WP_FAILED_PRECONDITION, "is not a lease file");
    assert_int_equal(unlink(path), 0);
    run_sql("CREATE TABLE bookmarks (url TEXT); PRAGMA user_version = 1");
    expect_refusal_leaves_it(WP_FAILED_PRECONDITION, "is not a lease file");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_refusal(WP_FAILED_PRECONDITION, "is not a regular file");
    assert_int_equal(rmdir(path), 0);
}

static void
test_damaged_header_is_refused(void **state)
{
    (void)state;
    make_records(3);
    write_at(path, 3, "\xff\xff\xff\xff", 4);
    expect_refusal_leaves_it(WP_FAILED_PRECONDITION, "header");
}

/* Garbage in each page in turn, and a file that ends too early. */
static void
test_damaged_pages_are_refused(void **state)
{
    unsigned char garbage[4096];
    unsigned char page[4096 + 1];
    struct stat st;

    (void)state;
    make_records(300);
    memset(garbage, 0xdb, sizeof garbage);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size >= 8 * 4096);
    for (off_t at = 4096; at < st.st_size; at += 4096) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);

        assert_int_equal(pread(fd, page, 4096, at), 4096);
        (void)close(fd);
        write_at(path, at, garbage, sizeof garbage);
        expect_refusal_leaves_it(WP_FAILED_PRECONDITION, "damaged");
        write_at(path, at, page, 4096);
    }
    open_store();
    close_store();
    assert_int_equal(truncate(path, st.st_size - 4096), 0);
    expect_refusal_leaves_it(WP_FAILED_PRECONDITION, "damaged");
}

/* Well-formed for SQLite, but no record: load says which row, and what it
 * knows of the others is not lost. */
static void
on_load(void *ctx, const struct wp_lease_record *record)
{
    (void)record;
    ++*(int *)ctx;
}

static void
test_edited_rows_are_told(void **state)
{
    static const char *const edits[] = {
        "UPDATE lease SET state = 9 WHERE id = 2",
        "UPDATE lease SET uid = x'00' WHERE id = 2",
        "UPDATE lease SET served = -1 WHERE id = 2",
        "UPDATE lease SET endpoint = hex(zeroblob(60)) WHERE id = 2",
    };
    struct wp_err err;
    int seen = 0;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(edits); i++) {
        temp_dir_empty(dir);
        make_records(3);
        run_sql(edits[i]);
        open_store();
        assert_int_equal(
            conform_store.ops->load(conform_store.self, on_load, &seen, &err),
            WP_FAILED_PRECONDITION);
        assert_non_null(strstr(err.msg, "row 2 is not a lease record"));
        /* One bad record does not fail the others' commits. */
        assert_int_equal(grant(2, "another"), WP_OK);
        if (strstr(edits[i], "uid") == NULL) {
            assert_int_equal(grant(1, "third"), WP_UNAVAILABLE);
        }
        close_store();
    }
}

/* The log cut at every length: what is found is a beginning of what was
 * committed, never anything else, and nothing in the file itself is lost. */
static void
test_cut_log_loses_only_its_end(void **state)
{
    static unsigned char log[1 << 18];
    static unsigned char file[1 << 18];
    size_t log_len;
    size_t file_len;
    unsigned most = 0;

    (void)state;
    make_records(1);
    open_store();
    for (unsigned i = 1; i <= 8; i++) {
        offer(i);
    }
    log_len = read_whole(log_path, log, sizeof log);
    file_len = read_whole(path, file, sizeof file);
    close_store();
    for (size_t cut = 0; cut <= log_len;
         cut += cut + 509 > log_len && cut < log_len ? log_len - cut : 509) {
        unsigned found = 0;

        temp_dir_empty(dir);
        write_at(path, 0, file, file_len);
        write_at(log_path, 0, log, cut);
        open_store();
        assert_int_equal(state_of(0), WP_RECORD_HELD);
        while (found < 8 && state_of(found + 1) == WP_RECORD_OPEN) {
            found++;
        }
        for (unsigned i = found + 1; i <= 8; i++) {
            assert_int_equal(state_of(i), WP_RECORD_NONE);
        }
        assert_true(found >= most);
        most = found;
        close_store();
    }
    assert_int_equal(most, 8);
}

static void
test_log_without_file_is_refused(void **state)
{
    struct stat st;

    (void)state;
    make_records(1);
    open_store();
    offer(5);
    assert_int_equal(unlink(path), 0);
    close_store();
    write_at(log_path, 0, "x", 1);
    expect_refusal(WP_FAILED_PRECONDITION, "is missing but its log");
    assert_int_not_equal(stat(path, &st), 0);
}

/* In a child that is not root, since root may write everywhere. */
static void
test_unwritable_places_are_refused(void **state)
{
    int status = 0;
    pid_t child;

    (void)state;
    make_records(1);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct wp_err err;
        bool ok = true;

        if (geteuid() == 0) {
            ok = chmod(dir, 0755) == 0 && chown(path, 65534, 65534) == 0 &&
                 setgid(65534) == 0 && setuid(65534) == 0;
        } else {
            ok = chmod(dir, 0500) == 0;
        }
        /* The file may be written, but no log can be made beside it. */
        ok = ok && try_open(&err) == NULL && err.status == WP_UNAVAILABLE &&
             strstr(err.msg, path) != NULL;
        print_message("    refused: %s\n", err.msg);
        (void)snprintf(path, sizeof path, "%s/other.db", dir);
        ok = ok && try_open(&err) == NULL && err.status == WP_UNAVAILABLE &&
             err.os_errno == EACCES && strstr(err.msg, path) != NULL;
        print_message("    refused: %s\n", err.msg);
        _exit(ok ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(chmod(dir, 0700), 0);
    assert_int_equal(status, 0);
    (void)snprintf(path, sizeof path, "%s/no/such/leases.db", dir);
    expect_refusal(WP_UNAVAILABLE, "No such file or directory");
    (void)snprintf(path, sizeof path, "%s/leases.db", dir);
}

/* The layout of version 1 as it was, written out: no index from claims to
 * records. It is brought up with all its records, once. */
static void
test_first_layout_is_brought_up(void **state)
{
    (void)state;
    run_sql("CREATE TABLE lease (id INTEGER PRIMARY KEY, uid BLOB NOT NULL "
            "UNIQUE, state INTEGER NOT NULL, fence INTEGER NOT NULL, "
            "deadline_wall_ms INTEGER NOT NULL, granted_wall_ms INTEGER NOT "
            "NULL, fingerprint INTEGER NOT NULL, served INTEGER NOT NULL, "
            "pool_namespace TEXT NOT NULL, pool TEXT NOT NULL, sandbox TEXT "
            "NOT NULL, endpoint TEXT NOT NULL, claim_id TEXT NOT NULL, tenant "
            "TEXT NOT NULL, lost_reason TEXT NOT NULL) STRICT;"
            "PRAGMA application_id = 0x57504c53; PRAGMA user_version = 1;"
            "INSERT INTO lease VALUES (1, "
            "x'c0010000000000000000000000000000', 2, 41, 1000, 500, -7, 1, "
            "'default', 'agents', 'agents-1', 'unix:/x', 'old', 't', ''),"
            "(2, x'c0020000000000000000000000000000', 1, 0, 0, 0, 0, 0, "
            "'default', 'agents', 'agents-2', 'unix:/y', '', '', '')");
    for (int i = 0; i < 2; i++) {
        struct wp_lease_record record;

        open_store();
        assert_int_equal(
            conform_fetch_claim(WP_STR("old"), WP_STR("t"), &record), WP_OK);
        assert_int_equal(record.state, WP_RECORD_HELD);
        assert_int_equal(record.fence, 41);
        assert_int_equal(record.fingerprint, UINT64_MAX - 6);
        assert_string_equal(record.sandbox, "agents-1");
        assert_int_equal(state_of(2), WP_RECORD_OPEN);
        close_store();
    }
    /* The index is there now: this would be a second record of one claim. */
    {
        sqlite3 *db = NULL;

        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db,
                                      "UPDATE lease SET state = 2, claim_id = "
                                      "'old', tenant = 't' WHERE id = 2",
                                      NULL, NULL, NULL),
                         SQLITE_CONSTRAINT);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
    }
}

/* A file that cannot be brought up stays as it is. */
static void
test_failed_bringing_up_changes_nothing(void **state)
{
    (void)state;
    make_records(3);
    run_sql("DROP INDEX lease_claim; DROP TABLE note; UPDATE lease SET state = "
            "2, claim_id = "
            "'twice'; PRAGMA user_version = 1");
    expect_refusal(WP_UNAVAILABLE, "from layout version 1 to 3");
    run_sql("UPDATE lease SET claim_id = 'claim-' || id");
    open_store();
    assert_int_equal(state_of(2), WP_RECORD_HELD);
    close_store();
}

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
    open_store();
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
    wp_lease_sqlite_stats(sqlite, &stats);
    assert_int_equal(stats.commits, ROUNDS * STEPS);
    assert_true(stats.transactions < ROUNDS * STEPS);
    assert_true(stats.batch_max > 1 && stats.batch_max <= 256);
    assert_int_equal(stats.transaction_ns.count, stats.transactions);
    assert_int_equal(stats.failures, 0);
    assert_int_equal(stats.last_error.status, WP_OK);
    close_store();
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
    open_store();
    for (unsigned i = 0; i < 64; i++) {
        trials[i].op.kind = WP_LEASE_OFFER;
        conform_crowd_uid(&trials[i].op, i);
        conform_submit(&trials[i]);
    }
    wp_lease_sqlite_stop(sqlite);
    for (unsigned i = 0; i < 64; i++) {
        assert_int_equal(atomic_load(&trials[i].answers), 1);
        assert_int_equal(trials[i].status, WP_OK);
    }
    conform_submit(&late);
    assert_int_equal(atomic_load(&late.answers), 1);
    assert_int_equal(late.status, WP_UNAVAILABLE);
    wp_lease_sqlite_stop(sqlite);
    close_store();
    open_store();
    assert_int_equal(state_of(63), WP_RECORD_OPEN);
    close_store();
}

/* The log is copied into the file again and again, so it stays short. */
static void
test_log_stays_short(void **state)
{
    const struct wp_lease_sqlite_config config = {.path = path,
                                                  .checkpoint_pages = 20,
                                                  .synchronous =
                                                      WP_LEASE_SQLITE_NORMAL};
    struct wp_lease_sqlite_stats stats;
    struct wp_err err;
    struct stat st;

    (void)state;
    sqlite = wp_lease_sqlite_create(&config, &err);
    assert_non_null(sqlite);
    conform_store = wp_lease_sqlite_store(sqlite);
    for (unsigned i = 0; i < 250; i++) {
        offer(i);
    }
    wp_lease_sqlite_stats(sqlite, &stats);
    assert_true(stats.checkpoints > 5);
    assert_int_equal(stats.checkpoint_ns.count, stats.checkpoints);
    assert_true(stats.wal_pages < 40);
    assert_int_equal(stat(log_path, &st), 0);
    assert_true(st.st_size < 60 * (4096 + 24));
    close_store();
}

int
main(void)
{
    static const struct wp_store_factory factory = {.name = "sqlite"};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_only_the_owner_reads_it, set_up),
        cmocka_unit_test_setup(test_second_opener_is_refused, set_up),
        cmocka_unit_test_setup(test_one_of_many_makes_the_file, set_up),
        cmocka_unit_test_setup(test_newer_layout_is_refused, set_up),
        cmocka_unit_test_setup(test_foreign_files_are_refused, set_up),
        cmocka_unit_test_setup(test_damaged_header_is_refused, set_up),
        cmocka_unit_test_setup(test_damaged_pages_are_refused, set_up),
        cmocka_unit_test_setup(test_edited_rows_are_told, set_up),
        cmocka_unit_test_setup(test_cut_log_loses_only_its_end, set_up),
        cmocka_unit_test_setup(test_log_without_file_is_refused, set_up),
        cmocka_unit_test_setup(test_unwritable_places_are_refused, set_up),
        cmocka_unit_test_setup(test_first_layout_is_brought_up, set_up),
        cmocka_unit_test_setup(test_failed_bringing_up_changes_nothing, set_up),
        cmocka_unit_test_setup(test_ops_of_one_batch_follow_each_other, set_up),
        cmocka_unit_test_setup(test_stop_answers_everything, set_up),
        cmocka_unit_test_setup(test_log_stays_short, set_up),
    };
    int failed;

    conform_factory = &factory;
    temp_dir_make(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/leases.db", dir);
    (void)snprintf(log_path, sizeof log_path, "%s-wal", path);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    temp_dir_remove(dir);
    return failed;
}
