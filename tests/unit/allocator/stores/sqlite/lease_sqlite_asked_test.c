/* What SQLite is asked for each thing that the store does, with every value;
 * and what becomes of it when any one of these calls fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "allocator/stores/sqlite/impl.h"
#include "pool/base/clock.h"
#include "tests/support/base/journal.h"
#include "tests/support/base/temp_dir.h"

enum {
    CALLS_MAX = 400,
    RECORDS = 3,
    DAY_MS = 24 * 3600 * 1000,
};

#define NAME "leases.db"

int __real_sqlite3_open_v2(const char *name, sqlite3 **out, int flags,
                           const char *vfs);
int __wrap_sqlite3_open_v2(const char *name, sqlite3 **out, int flags,
                           const char *vfs);
int __real_sqlite3_busy_timeout(sqlite3 *db, int ms);
int __wrap_sqlite3_busy_timeout(sqlite3 *db, int ms);
int __real_sqlite3_db_config(sqlite3 *db, int op, ...);
int __wrap_sqlite3_db_config(sqlite3 *db, int op, ...);
int __real_sqlite3_exec(sqlite3 *db, const char *sql,
                        int (*each)(void *, int, char **, char **), void *ctx,
                        char **error);
int __wrap_sqlite3_exec(sqlite3 *db, const char *sql,
                        int (*each)(void *, int, char **, char **), void *ctx,
                        char **error);
int __real_sqlite3_prepare_v2(sqlite3 *db, const char *sql, int len,
                              sqlite3_stmt **out, const char **tail);
int __wrap_sqlite3_prepare_v2(sqlite3 *db, const char *sql, int len,
                              sqlite3_stmt **out, const char **tail);
int __real_sqlite3_prepare_v3(sqlite3 *db, const char *sql, int len,
                              unsigned flags, sqlite3_stmt **out,
                              const char **tail);
int __wrap_sqlite3_prepare_v3(sqlite3 *db, const char *sql, int len,
                              unsigned flags, sqlite3_stmt **out,
                              const char **tail);
int __real_sqlite3_step(sqlite3_stmt *statement);
int __wrap_sqlite3_step(sqlite3_stmt *statement);
int __real_sqlite3_bind_int64(sqlite3_stmt *to, int at, sqlite3_int64 value);
int __wrap_sqlite3_bind_int64(sqlite3_stmt *to, int at, sqlite3_int64 value);
int __real_sqlite3_bind_text(sqlite3_stmt *to, int at, const char *text,
                             int len, void (*drop)(void *));
int __wrap_sqlite3_bind_text(sqlite3_stmt *to, int at, const char *text,
                             int len, void (*drop)(void *));
int __real_sqlite3_bind_blob(sqlite3_stmt *to, int at, const void *bytes,
                             int len, void (*drop)(void *));
int __wrap_sqlite3_bind_blob(sqlite3_stmt *to, int at, const void *bytes,
                             int len, void (*drop)(void *));
int __real_sqlite3_wal_checkpoint_v2(sqlite3 *db, const char *name, int mode,
                                     int *len, int *done);
int __wrap_sqlite3_wal_checkpoint_v2(sqlite3 *db, const char *name, int mode,
                                     int *len, int *done);
const unsigned char *__real_sqlite3_column_text(sqlite3_stmt *row, int at);
const unsigned char *__wrap_sqlite3_column_text(sqlite3_stmt *row, int at);
int __real_sqlite3_errcode(sqlite3 *db);
int __wrap_sqlite3_errcode(sqlite3 *db);
int __wrap_sqlite3_extended_errcode(sqlite3 *db);
int __wrap_sqlite3_system_errno(sqlite3 *db);
const char *__wrap_sqlite3_errmsg(sqlite3 *db);
pid_t __wrap_getpid(void);

static struct {
    int countdown; /* Below 0: nothing fails. */
    int again;     /* The countdown after one that failed. */
    int code;      /* What the one that fails answers. */
    int os_errno;
    bool failed;
    bool quiet;  /* Only what fails is written down. */
    bool judges; /* Whether the pages are whole: */
    const char *verdict;
} calls;

/* Whether this call fails, and is not made. */
static bool
is_asked(const char *call, const char *of)
{
    bool fails = calls.countdown >= 0 && calls.countdown-- == 0;

    if (fails) {
        calls.countdown = calls.again;
        calls.again = -1;
        calls.failed = true;
    }
    if (fails || !calls.quiet) {
        journal("%s %s%s", call, of, fails ? " FAILS" : "");
        journal_line();
    }
    return fails;
}

int
__wrap_sqlite3_open_v2(const char *name, sqlite3 **out, int flags,
                       const char *vfs)
{
    char of[100];

    (void)snprintf(of, sizeof of, "%s %x %s", name, (unsigned)flags, vfs);
    return is_asked("open", of) ? calls.code
                                : __real_sqlite3_open_v2(name, out, flags, vfs);
}

int
__wrap_sqlite3_busy_timeout(sqlite3 *db, int ms)
{
    char of[20];

    (void)snprintf(of, sizeof of, "%d", ms);
    return is_asked("busy", of) ? calls.code
                                : __real_sqlite3_busy_timeout(db, ms);
}

/* Of those with an int and the place of one. */
int
__wrap_sqlite3_db_config(sqlite3 *db, int op, ...)
{
    char of[40];
    va_list args;
    int value;

    va_start(args, op);
    value = va_arg(args, int);
    assert_null(va_arg(args, int *));
    va_end(args);
    (void)snprintf(of, sizeof of, "%d %d", op, value);
    return is_asked("config", of)
               ? calls.code
               : __real_sqlite3_db_config(db, op, value, NULL);
}

int
__wrap_sqlite3_exec(sqlite3 *db, const char *sql,
                    int (*each)(void *, int, char **, char **), void *ctx,
                    char **error)
{
    return is_asked("exec", sql)
               ? calls.code
               : __real_sqlite3_exec(db, sql, each, ctx, error);
}

int
__wrap_sqlite3_prepare_v2(sqlite3 *db, const char *sql, int len,
                          sqlite3_stmt **out, const char **tail)
{
    return is_asked("ask", sql)
               ? calls.code
               : __real_sqlite3_prepare_v2(db, sql, len, out, tail);
}

int
__wrap_sqlite3_prepare_v3(sqlite3 *db, const char *sql, int len, unsigned flags,
                          sqlite3_stmt **out, const char **tail)
{
    return is_asked("prepare", sql)
               ? calls.code
               : __real_sqlite3_prepare_v3(db, sql, len, flags, out, tail);
}

int
__wrap_sqlite3_step(sqlite3_stmt *statement)
{
    char *sql = sqlite3_expanded_sql(statement);
    bool fails;

    assert_non_null(sql);
    fails = is_asked("step", sql);
    sqlite3_free(sql);
    return fails ? calls.code : __real_sqlite3_step(statement);
}

/* What is bound is seen when the statement is done. */
static bool
is_bound(int at)
{
    char of[20];

    if (calls.countdown != 0) {
        calls.countdown -= calls.countdown > 0 ? 1 : 0;
        return true;
    }
    (void)snprintf(of, sizeof of, "%d", at);
    return !is_asked("bind", of);
}

int
__wrap_sqlite3_bind_int64(sqlite3_stmt *to, int at, sqlite3_int64 value)
{
    return is_bound(at) ? __real_sqlite3_bind_int64(to, at, value) : calls.code;
}

int
__wrap_sqlite3_bind_text(sqlite3_stmt *to, int at, const char *text, int len,
                         void (*drop)(void *))
{
    return is_bound(at) ? __real_sqlite3_bind_text(to, at, text, len, drop)
                        : calls.code;
}

int
__wrap_sqlite3_bind_blob(sqlite3_stmt *to, int at, const void *bytes, int len,
                         void (*drop)(void *))
{
    return is_bound(at) ? __real_sqlite3_bind_blob(to, at, bytes, len, drop)
                        : calls.code;
}

int
__wrap_sqlite3_wal_checkpoint_v2(sqlite3 *db, const char *name, int mode,
                                 int *len, int *done)
{
    return is_asked("checkpoint",
                    mode == SQLITE_CHECKPOINT_TRUNCATE ? "truncate" : "passive")
               ? calls.code
               : __real_sqlite3_wal_checkpoint_v2(db, name, mode, len, done);
}

const unsigned char *
__wrap_sqlite3_column_text(sqlite3_stmt *row, int at)
{
    if (calls.judges &&
        strcmp(sqlite3_sql(row), "PRAGMA integrity_check(1)") == 0) {
        return (const unsigned char *)calls.verdict;
    }
    return __real_sqlite3_column_text(row, at);
}

int
__wrap_sqlite3_errcode(sqlite3 *db)
{
    return calls.failed ? calls.code : __real_sqlite3_errcode(db);
}

int
__wrap_sqlite3_extended_errcode(sqlite3 *db)
{
    (void)db;
    return calls.code;
}

int
__wrap_sqlite3_system_errno(sqlite3 *db)
{
    (void)db;
    return calls.os_errno;
}

const char *
__wrap_sqlite3_errmsg(sqlite3 *db)
{
    (void)db;
    return "what it says";
}

/* It is in the name of a file that is being made. */
pid_t
__wrap_getpid(void)
{
    return 4321;
}

/* --- what is done --- */

static struct wp_lease_db *db;

static void
tell_err(const struct wp_err *err)
{
    journal(" = %s %d: %s", wp_status_name(err->status), err->os_errno,
            err->msg);
}

static void
open_file(enum wp_lease_sqlite_sync level)
{
    const struct wp_lease_sqlite_config config = {.path = NAME,
                                                  .synchronous = level,
                                                  .checkpoint_pages = 1000,
                                                  .busy_timeout_ms = 1234,
                                                  .batch_max = 8,
                                                  .records = 8};
    struct wp_err err = {0};

    db = wp_lease_db_open(&config, &err);
    journal("%s", db != NULL ? "opened" : "not opened");
    if (db == NULL) {
        tell_err(&err);
    } else {
        journal(" '%s' %d pages of %" PRId64, wp_lease_db_path(db),
                (int)wp_lease_db_wal_pages(db), db->page_bytes);
        journal("%s", db->places.n_moves != 0 ? " moves" : "");
    }
    journal_line();
}

static void
close_file(void)
{
    wp_lease_db_close(db);
    db = NULL;
}

static struct wp_lease_record found[3];
static uint8_t bytes[6];
static struct wp_pool_snapshot room = {bytes, 0, sizeof bytes};
static uint8_t learned[] = {'l', 'e', 'a', 'r', 'n', 0xff};
static struct wp_pool_snapshot known = {learned, sizeof learned, 0};
static struct wp_pool_snapshot nothing = {learned, 0, 0};

/* Of sandbox i, and of its claim. */
static struct wp_lease_op
op_of(enum wp_lease_op_kind kind, unsigned i)
{
    static const char *const sandboxes[RECORDS] = {"sa", "sb", "sc"};
    static const char *const claims[RECORDS] = {"ca", "cb", "cc"};

    return (struct wp_lease_op){.kind = kind,
                                .uid = {(uint8_t)(i + 1), 0xee, [15] = 7},
                                .fence = 10 + i,
                                .deadline_wall_ms = 2000 + i,
                                .granted_wall_ms = 1000 + i,
                                .served = 5 + i,
                                .fingerprint = UINT64_C(0x8000000000000000) + i,
                                .pool_namespace = WP_STR("ns"),
                                .pool = WP_STR("pl"),
                                .sandbox = wp_str_from(sandboxes[i]),
                                .endpoint = WP_STR("1.2.3.4:5"),
                                .claim_id = wp_str_from(claims[i]),
                                .tenant = WP_STR("te"),
                                .reason = WP_STR("died"),
                                .found = &found[i]};
}

static void
tell_record(const struct wp_lease_record *r)
{
    journal("  %d of %02x%02x..%02x fence %" PRIu64 " until %" PRId64
            " from %" PRId64 " fp %" PRIx64 " served %u '%s' '%s' '%s' '%s' "
            "'%s' '%s' '%s'",
            (int)r->state, r->uid[0], r->uid[1], r->uid[15], r->fence,
            r->deadline_wall_ms, r->granted_wall_ms, r->fingerprint, r->served,
            r->pool_namespace, r->pool, r->sandbox, r->endpoint, r->claim_id,
            r->tenant, r->lost_reason);
    journal_line();
}

static void
apply(const char *name, struct wp_lease_op *ops, uint32_t count)
{
    struct wp_lease_op *list[8] = {NULL};
    enum wp_status statuses[8];
    struct wp_err err = {0};
    enum wp_status status;

    memset(found, 0, sizeof found);
    memset(bytes, '.', sizeof bytes);
    room.len = 0;
    for (uint32_t i = 0; i < count; i++) {
        list[i] = &ops[i];
        statuses[i] = WP_INTERNAL;
    }
    status = wp_lease_db_apply(db, list, count, statuses, &err);
    journal("%s: %s", name, wp_status_name(status));
    for (uint32_t i = 0; i < count; i++) {
        journal(" %s", wp_status_name(statuses[i]));
    }
    if (err.status != WP_OK) {
        tell_err(&err);
    }
    journal("%s%s", wp_lease_db_is_full(db) ? " full" : "",
            db->places.n_moves != 0 ? " moves" : "");
    journal_line();
    for (unsigned i = 0; i < RECORDS; i++) {
        if (found[i].state != WP_RECORD_NONE) {
            tell_record(&found[i]);
        }
    }
    if (room.len > 0) {
        journal("  ");
        journal_bytes((const char *)bytes, sizeof bytes);
        journal_line();
    }
}

static void
offer_and_grant(void)
{
    struct wp_lease_op ops[] = {
        op_of(WP_LEASE_OFFER, 0), op_of(WP_LEASE_OFFER, 1),
        op_of(WP_LEASE_OFFER, 2), op_of(WP_LEASE_GRANT, 0),
        op_of(WP_LEASE_GRANT, 1), op_of(WP_LEASE_GRANT, 1),
        op_of(WP_LEASE_FETCH, 0), op_of(WP_LEASE_FETCH, 2),
    };

    ops[7].claim_id = (struct wp_str){0};
    for (int i = 0; i < 3; i++) {
        ops[i].fence = (uint64_t)i;
    }
    apply("offer, grant, fetch", ops, 8);
}

static void
change(void)
{
    struct wp_lease_op ops[] = {
        op_of(WP_LEASE_RENEW, 0),  op_of(WP_LEASE_LOSE, 1),
        op_of(WP_LEASE_EXPIRE, 0), op_of(WP_LEASE_RELEASE, 1),
        op_of(WP_LEASE_FETCH, 2),  op_of(WP_LEASE_WITHDRAW, 2),
        op_of(WP_LEASE_FORGET, 1),
    };

    ops[0].deadline_wall_ms = 9000;
    apply("renew, lose, expire, release, fetch, withdraw, forget", ops, 7);
}

static void
note(struct wp_pool_snapshot *what)
{
    struct wp_lease_op put = op_of(WP_LEASE_PUT_SNAPSHOT, 0);
    struct wp_lease_op get[2] = {op_of(WP_LEASE_GET_SNAPSHOT, 0),
                                 op_of(WP_LEASE_GET_SNAPSHOT, 0)};

    put.granted_wall_ms = INT64_C(100) * DAY_MS;
    put.snapshot = what;
    get[0].snapshot = &room;
    get[1].snapshot = &room;
    get[1].pool = WP_STR("other");
    apply("put", &put, 1);
    apply("get", get, 2);
}

static void
each(void *ctx, const struct wp_lease_record *record)
{
    ++*(int *)ctx;
    tell_record(record);
}

static void
load(void)
{
    struct wp_err err = {0};
    int n = 0;
    enum wp_status status = wp_lease_db_load(db, each, &n, &err);

    journal("load: %s, %d", wp_status_name(status), n);
    if (status != WP_OK) {
        tell_err(&err);
    }
    journal_line();
}

static void
checkpoint(bool give_back)
{
    struct wp_err err = {0};
    bool had = wp_lease_db_wal_pages(db) > 0;
    enum wp_status status = wp_lease_db_checkpoint(db, give_back, &err);

    journal("checkpoint: %s, from %s to %s", wp_status_name(status),
            had ? "some" : "none",
            wp_lease_db_wal_pages(db) > 0 ? "some" : "none");
    if (status != WP_OK) {
        tell_err(&err);
    }
    journal_line();
}

static void
note_something(void)
{
    note(&known);
}

static void
note_nothing(void)
{
    note(&nothing);
}

static void
copy_log(void)
{
    checkpoint(false);
}

static void
give_back_log(void)
{
    checkpoint(true);
}

/* On an open file, one after the other. */
static const struct {
    const char *name;
    void (*run)(void);
} steps[] = {
    {"grant", offer_and_grant},
    {"change", change},
    {"note", note_something},
    {"note_nothing", note_nothing},
    {"load", load},
    {"copy_log", copy_log},
    {"give_back", give_back_log},
};

static void
use(size_t n_steps)
{
    for (size_t i = 0; i < n_steps; i++) {
        steps[i].run();
    }
}

static char home[256];

/* Paths are within a folder of the test's own. */
static int
set_up(void **state)
{
    (void)state;
    memset(&calls, 0, sizeof calls);
    calls.countdown = -1;
    calls.again = -1;
    calls.code = SQLITE_IOERR_WRITE;
    calls.os_errno = EIO;
    temp_dir_empty(home);
    journal_drop();
    return 0;
}

static void
test_all_that_it_is_asked(void **state)
{
    (void)state;
    for (int level = 0; level < 2; level++) {
        open_file(level == 0 ? WP_LEASE_SQLITE_NORMAL : WP_LEASE_SQLITE_FULL);
        use(WP_ARRAY_LEN(steps));
        close_file();
        if (level == 0) {
            temp_dir_empty(home);
        }
    }
    open_file(WP_LEASE_SQLITE_FULL);
    load();
    close_file();
    journal_compare(WP_TEST_GOLDEN "/asked.txt");
}

/* Each call of opening a new file, and of opening one with records. */
static void
test_no_call_of_opening_may_fail(void **state)
{
    (void)state;
    calls.quiet = true;
    for (int found_there = 0; found_there < 2; found_there++) {
        bool opened = false;

        for (int n = 0; !opened; n++) {
            assert_true(n < CALLS_MAX);
            if (found_there == 0) {
                temp_dir_empty(home);
            }
            calls.countdown = n;
            calls.failed = false;
            open_file(WP_LEASE_SQLITE_NORMAL);
            opened = !calls.failed;
            calls.countdown = -1;
            calls.failed = false;
            if (db != NULL) {
                close_file();
            }
        }
        open_file(WP_LEASE_SQLITE_NORMAL);
        offer_and_grant();
        close_file();
    }
    journal_compare(WP_TEST_GOLDEN "/opening_fails.txt");
}

/* Steps of a layout that were begun are taken back before the file is closed. */
static void
test_a_layout_is_all_or_nothing(void **state)
{
    (void)state;
    calls.countdown = 9; /* The second table. */
    open_file(WP_LEASE_SQLITE_NORMAL);
    assert_null(db);
    journal_compare(WP_TEST_GOLDEN "/layout_fails.txt");
}

/* What people can do depends on why it cannot be opened. */
static void
test_why_it_cannot_be_opened(void **state)
{
    static const int codes[] = {SQLITE_BUSY,
                                SQLITE_BUSY_RECOVERY,
                                SQLITE_NOTADB,
                                SQLITE_CORRUPT,
                                SQLITE_CORRUPT_INDEX,
                                SQLITE_READONLY,
                                SQLITE_READONLY_DIRECTORY,
                                SQLITE_CANTOPEN,
                                SQLITE_FULL};

    (void)state;
    calls.quiet = true;
    open_file(WP_LEASE_SQLITE_NORMAL);
    close_file();
    journal_drop();
    for (size_t i = 0; i < WP_ARRAY_LEN(codes); i++) {
        calls.code = codes[i];
        calls.countdown = 0;
        calls.failed = false;
        open_file(WP_LEASE_SQLITE_NORMAL);
        assert_null(db);
    }
    journal_compare(WP_TEST_GOLDEN "/not_opened.txt");
}

/* The finding without its heading, as much of it as there is room for. */
static void
test_what_is_wrong_with_its_pages(void **state)
{
    static char longest[200];
    static const char *const verdicts[] = {
        "ok",    "okay",    "*** in database main ***\nPage 3: never used",
        "one\n", "a\nb\nc", longest,
        NULL,    "",
    };

    (void)state;
    memset(longest, 'x', sizeof longest - 1);
    calls.quiet = true;
    open_file(WP_LEASE_SQLITE_NORMAL);
    close_file();
    calls.judges = true;
    for (size_t i = 0; i < WP_ARRAY_LEN(verdicts); i++) {
        calls.verdict = verdicts[i];
        open_file(WP_LEASE_SQLITE_NORMAL);
        if (db != NULL) {
            close_file();
        }
    }
    journal_compare(WP_TEST_GOLDEN "/pages.txt");
}

/* Each call of a step fails once: what was before it is there, and the file
 * serves on. */
static void
each_fails_once(size_t step)
{
    bool done = false;

    for (int n = 0; !done; n++) {
        assert_true(n < CALLS_MAX);
        temp_dir_empty(home);
        journal_mute(true);
        open_file(WP_LEASE_SQLITE_NORMAL);
        assert_non_null(db);
        use(step);
        journal_mute(false);
        calls.countdown = n;
        steps[step].run();
        done = !calls.failed;
        calls.countdown = -1;
        calls.failed = false;
        load();
        close_file();
    }
}

static void
test_each_call_fails_once(void **state)
{
    char path[1000];

    (void)state;
    calls.quiet = true;
    for (size_t i = 0; i < WP_ARRAY_LEN(steps); i++) {
        each_fails_once(i);
        (void)snprintf(path, sizeof path, "%s/%s_fails.txt", WP_TEST_GOLDEN,
                       steps[i].name);
        journal_compare(path);
    }
}

/* From which answers on the disk is said to be full. */
static void
test_what_is_a_full_disk(void **state)
{
    static const struct {
        int code;
        int os_errno;
    } cases[] = {
        {SQLITE_FULL, 0},          {SQLITE_FULL, EDQUOT},
        {SQLITE_IOERR_WRITE, EIO}, {SQLITE_IOERR_WRITE, EDQUOT},
        {SQLITE_IOERR, EDQUOT},    {SQLITE_IOERR_WRITE, 0},
        {SQLITE_CORRUPT, EDQUOT},  {SQLITE_NOMEM, 0},
    };
    struct wp_err err;

    (void)state;
    calls.quiet = true;
    open_file(WP_LEASE_SQLITE_NORMAL);
    journal_drop();
    calls.failed = true;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        calls.code = cases[i].code;
        calls.os_errno = cases[i].os_errno;
        for (int full = 0; full < 2; full++) {
            memset(&err, 0, sizeof err);
            db->full = full != 0;
            journal("%s",
                    wp_status_name(wp_lease_db_fail(db, full == 0 ? NULL : &err,
                                                    WP_UNAVAILABLE, "word")));
            tell_err(&err);
            journal("%s", wp_lease_db_is_full(db) ? " full" : "");
            journal_line();
        }
    }
    calls.failed = false;
    close_file();
    journal_compare(WP_TEST_GOLDEN "/full.txt");
}

/* Its COMMIT fails, which comes after that many calls; and the one after the
 * ROLLBACK, or not. */
static void
fail_commit(const char *name, enum wp_lease_op_kind kind, int n, int again)
{
    struct wp_lease_op op = op_of(kind, 0);

    calls.countdown = n;
    calls.again = again;
    calls.failed = false;
    apply(name, &op, 1);
    assert_true(calls.failed);
    calls.again = -1;
    calls.countdown = -1;
}

/* After a COMMIT that failed: on a full disk nothing is there, and else what is
 * written over it makes sure; when that fails as well, nobody knows. */
static void
test_what_a_failed_commit_has_done(void **state)
{
    static const int codes[] = {SQLITE_FULL, SQLITE_IOERR_WRITE};

    (void)state;
    open_file(WP_LEASE_SQLITE_NORMAL);
    journal_drop();
    for (size_t i = 0; i < WP_ARRAY_LEN(codes); i++) {
        calls.code = codes[i];
        /* After the BEGIN, what is bound, and the INSERT. */
        fail_commit("offer", WP_LEASE_OFFER, 16, -1);
        fail_commit("offer", WP_LEASE_OFFER, 16, 1);
        fail_commit("fetch", WP_LEASE_FETCH, 1, 1);
    }
    calls.failed = false;
    load();
    close_file();
    journal_compare(WP_TEST_GOLDEN "/commit_fails.txt");
}

static int
make_home(void **state)
{
    (void)state;
    temp_dir_make_fast(home, sizeof home);
    return chdir(home);
}

static int
remove_home(void **state)
{
    (void)state;
    temp_dir_empty(home);
    return chdir("..") != 0 || rmdir(home) != 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_all_that_it_is_asked, set_up),
        cmocka_unit_test_setup(test_no_call_of_opening_may_fail, set_up),
        cmocka_unit_test_setup(test_a_layout_is_all_or_nothing, set_up),
        cmocka_unit_test_setup(test_why_it_cannot_be_opened, set_up),
        cmocka_unit_test_setup(test_what_is_wrong_with_its_pages, set_up),
        cmocka_unit_test_setup(test_each_call_fails_once, set_up),
        cmocka_unit_test_setup(test_what_is_a_full_disk, set_up),
        cmocka_unit_test_setup(test_what_a_failed_commit_has_done, set_up),
    };

    return cmocka_run_group_tests(tests, make_home, remove_home);
}
