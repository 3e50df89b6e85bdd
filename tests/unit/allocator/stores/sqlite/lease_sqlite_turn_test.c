/* tests/unit/allocator/stores/sqlite/lease_sqlite_turn_test.c - what is done to
 * the file, in which order, by whom and when, and what is counted and said of
 * it. The file is the test's, and so is the clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "allocator/stores/sqlite/turn.h"
#include "pool/base/clock.h"
#include "tests/support/base/heard.h"

enum {
    OPS = 8,
    BATCH = 3,
    CHECKPOINT = 102, /* Pages; a quarter of them is 25. */
};

int __real_clock_gettime(clockid_t which, struct timespec *out);
int __wrap_clock_gettime(clockid_t which, struct timespec *out);
enum wp_status __wrap_wp_lease_db_apply(struct wp_lease_db *db,
                                        struct wp_lease_op *const *ops,
                                        uint32_t count,
                                        enum wp_status *statuses,
                                        struct wp_err *err);
bool __wrap_wp_lease_db_syncs(const struct wp_lease_db *db,
                              const struct wp_lease_op *op);
uint32_t __wrap_wp_lease_db_wal_pages(const struct wp_lease_db *db);
bool __wrap_wp_lease_db_is_full(const struct wp_lease_db *db);
bool __wrap_wp_lease_db_is_short(struct wp_lease_db *db, int64_t now_ns);
enum wp_status __wrap_wp_lease_db_checkpoint(struct wp_lease_db *db,
                                             bool give_back,
                                             struct wp_err *err);
bool __wrap_wp_lease_log_sync_done(struct wp_lease_log_sync *sync);
void __wrap_wp_lease_log_sync_reset(struct wp_lease_log_sync *sync);

static struct wp_lease_turn turn;
static struct wp_lease_op ops[OPS];
static char story[2048]; /* What was done, a word for each. */
static int64_t clock_ns;

/* What the file does. */
static struct {
    uint32_t pages;
    uint32_t pages_of_a_transaction;
    int64_t takes_ns;          /* A transaction; a checkpoint twice as long. */
    enum wp_status applies[8]; /* WP_OK once they are over. */
    bool one_fails; /* The first op of a transaction that is committed. */
    uint32_t n_applies;
    bool is_full;
    bool is_short;
    bool checkpoint_fails;
    bool log_done;
} file;

static void
tell(const char *text)
{
    (void)snprintf(story + strlen(story), sizeof story - strlen(story), "%s ",
                   text);
}

int
__wrap_clock_gettime(clockid_t which, struct timespec *out)
{
    if (which != CLOCK_MONOTONIC) {
        return __real_clock_gettime(which, out);
    }
    out->tv_sec = clock_ns / WP_NS_PER_S;
    out->tv_nsec = clock_ns % WP_NS_PER_S;
    return 0;
}

enum wp_status
__wrap_wp_lease_db_apply(struct wp_lease_db *db,
                         struct wp_lease_op *const *todo, uint32_t count,
                         enum wp_status *statuses, struct wp_err *err)
{
    enum wp_status status = file.n_applies < WP_ARRAY_LEN(file.applies)
                                ? file.applies[file.n_applies]
                                : WP_OK;
    char text[32] = "apply";

    (void)db;
    file.n_applies++;
    for (uint32_t i = 0; i < count; i++) {
        size_t len = strlen(text);

        (void)snprintf(text + len, sizeof text - len, "%c%u", i > 0 ? ',' : ':',
                       (unsigned)(todo[i] - ops));
        statuses[i] = status;
    }
    tell(text);
    clock_ns += file.takes_ns;
    file.pages += file.pages_of_a_transaction;
    if (status != WP_OK) {
        return wp_err_set(err, status, "no %u", file.n_applies);
    }
    if (file.one_fails) {
        statuses[0] = wp_err_set(err, WP_UNAVAILABLE, "odd record");
    }
    return WP_OK;
}

bool
__wrap_wp_lease_db_syncs(const struct wp_lease_db *db,
                         const struct wp_lease_op *op)
{
    (void)db;
    return op->kind == WP_LEASE_PUT_SNAPSHOT;
}

uint32_t
__wrap_wp_lease_db_wal_pages(const struct wp_lease_db *db)
{
    (void)db;
    return file.pages;
}

bool
__wrap_wp_lease_db_is_full(const struct wp_lease_db *db)
{
    (void)db;
    return file.is_full;
}

bool
__wrap_wp_lease_db_is_short(struct wp_lease_db *db, int64_t now_ns)
{
    (void)db;
    assert_int_equal(now_ns, clock_ns);
    return file.is_short;
}

enum wp_status
__wrap_wp_lease_db_checkpoint(struct wp_lease_db *db, bool give_back,
                              struct wp_err *err)
{
    (void)db;
    tell(give_back ? "give-back" : "copy");
    clock_ns += 2 * file.takes_ns;
    if (file.checkpoint_fails) {
        return wp_err_set(err, WP_UNAVAILABLE, "cannot copy");
    }
    file.pages = 0;
    return WP_OK;
}

bool
__wrap_wp_lease_log_sync_done(struct wp_lease_log_sync *sync)
{
    assert_ptr_equal(sync, turn.log);
    tell(file.log_done ? "synced" : "syncing");
    return file.log_done;
}

void
__wrap_wp_lease_log_sync_reset(struct wp_lease_log_sync *sync)
{
    assert_ptr_equal(sync, turn.log);
    tell("anew");
}

static void
done(struct wp_lease_op *op, enum wp_status status)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%u=%s", (unsigned)(op - ops),
                   wp_status_name(status));
    tell(text);
}

static int
begin(void **state)
{
    static const struct wp_lease_sqlite_config config = {
        .path = "/the/file",
        .batch_max = BATCH,
        .checkpoint_pages = CHECKPOINT,
    };
    static struct wp_lease_log_sync log;

    (void)state;
    memset(&turn, 0, sizeof turn);
    memset(&file, 0, sizeof file);
    story[0] = '\0';
    clock_ns = 1000 * WP_NS_PER_S;
    wp_lease_turn_init(&turn, &config, NULL, &log);
    return 0;
}

static int
end(void **state)
{
    (void)state;
    wp_lease_turn_fini(&turn);
    return 0;
}

/* A list of ops: 's' waits for the disk, 'x' does not. */
static struct wp_lease_op *
list_of(const char *kinds)
{
    uint32_t n = (uint32_t)strlen(kinds);

    memset(ops, 0, sizeof ops);
    for (uint32_t i = 0; i < n; i++) {
        ops[i].kind = kinds[i] == 's' ? WP_LEASE_PUT_SNAPSHOT : WP_LEASE_RENEW;
        ops[i].done = done;
        ops[i].link.next = i + 1 < n ? &ops[i + 1].link : NULL;
    }
    return n > 0 ? &ops[0] : NULL;
}

static void
assert_story(const char *expected)
{
    assert_string_equal(story, expected);
    story[0] = '\0';
}

static void
assert_stats(const struct wp_lease_sqlite_stats *wanted)
{
    struct wp_lease_sqlite_stats is;

    memset(&is, 0, sizeof is);
    wp_lease_turn_stats(&turn, &is);
    assert_int_equal(is.commits, wanted->commits);
    assert_int_equal(is.transactions, wanted->transactions);
    assert_int_equal(is.failures, wanted->failures);
    assert_int_equal(is.checkpoints, wanted->checkpoints);
    assert_int_equal(is.batch_max, wanted->batch_max);
    assert_int_equal(is.wal_pages, wanted->wal_pages);
    assert_int_equal(is.transaction_ns.count, wanted->transactions);
    assert_int_equal(is.transaction_ns.sum_ns, wanted->transaction_ns.sum_ns);
    assert_int_equal(is.checkpoint_ns.count, wanted->checkpoints);
    assert_int_equal(is.checkpoint_ns.sum_ns, wanted->checkpoint_ns.sum_ns);
    assert_int_equal(is.last_error.status, wanted->last_error.status);
    assert_string_equal(is.last_error.msg, wanted->last_error.msg);
}

static void
test_who_serves_does_what_waits_for_no_disk(void **state)
{
    (void)state;
    file.pages_of_a_transaction = 2;
    file.takes_ns = 1000;
    assert_true(wp_lease_turn_serve(&turn, list_of("xxxxx")));
    assert_story("apply:0,1,2 0=OK 1=OK 2=OK apply:3,4 3=OK 4=OK ");
    assert_true(wp_lease_turn_serve(&turn, NULL));
    assert_story("");
    assert_false(wp_lease_turn_serve(&turn, list_of("xsxx")));
    assert_story("apply:0 0=OK ");
    wp_lease_turn_finish(&turn, NULL);
    assert_story("apply:1 1=OK apply:2,3 2=OK 3=OK ");
    wp_lease_turn_finish(&turn, list_of("ssssx"));
    assert_story("apply:0,1,2 0=OK 1=OK 2=OK apply:3 3=OK apply:4 4=OK ");
    assert_stats(&(struct wp_lease_sqlite_stats){
        .commits = 14,
        .transactions = 8,
        .batch_max = 3,
        .wal_pages = 16,
        .transaction_ns.sum_ns = 8000,
    });
}

/* What has failed is told of, or tried once more where nothing is there. */
static void
test_what_a_server_leaves_when_it_fails(void **state)
{
    struct heard heard;
    bool served[3];

    (void)state;
    heard_begin(&heard);
    file.applies[0] = WP_UNAVAILABLE;
    served[0] = wp_lease_turn_serve(&turn, list_of("xx"));
    wp_lease_turn_finish(&turn, NULL);
    file.applies[2] = WP_UNKNOWN_OUTCOME;
    served[1] = wp_lease_turn_serve(&turn, list_of("xx"));
    wp_lease_turn_finish(&turn, NULL);
    file.one_fails = true;
    served[2] = wp_lease_turn_serve(&turn, list_of("xx"));
    file.one_fails = false;
    wp_lease_turn_finish(&turn, NULL);
    wp_lease_turn_finish(&turn, list_of("x"));
    (void)heard_end(&heard);
    for (int i = 0; i < 3; i++) {
        assert_false(served[i]);
    }
    assert_string_equal(heard.text,
                        "ERROR lease commit failed error=\"no 3\""
                        " outcome=UNKNOWN_OUTCOME\n"
                        "INFO lease commits succeed again file=/the/file\n");
    assert_story("apply:0,1 apply:0,1 0=OK 1=OK "
                 "apply:0,1 0=UNKNOWN_OUTCOME 1=UNKNOWN_OUTCOME "
                 "apply:0,1 0=UNAVAILABLE 1=OK "
                 "apply:0 0=OK ");
    assert_stats(&(struct wp_lease_sqlite_stats){
        .commits = 7,
        .transactions = 4,
        .failures = 1,
        .batch_max = 2,
        .last_error = {.status = WP_UNAVAILABLE, .msg = "odd record"},
    });
}

static void
test_failures_are_said_not_too_often(void **state)
{
    static const struct {
        int64_t after_ns;
        bool fails;
    } commits[] = {
        {0, true},
        {WP_NS_PER_S, true},
        {2 * WP_NS_PER_S, false},
        {10 * WP_NS_PER_S - 1, true},
        {10 * WP_NS_PER_S - 1, false},
        {10 * WP_NS_PER_S, true},
        {10 * WP_NS_PER_S, false},
    };
    int64_t begin_ns = clock_ns;
    struct heard heard;

    (void)state;
    heard_begin(&heard);
    for (uint32_t i = 0; i < WP_ARRAY_LEN(commits); i++) {
        clock_ns = begin_ns + commits[i].after_ns;
        file.applies[i] = commits[i].fails ? WP_UNAVAILABLE : WP_OK;
        wp_lease_turn_finish(&turn, list_of("x"));
    }
    (void)heard_end(&heard);
    assert_string_equal(heard.text,
                        "ERROR lease commit failed error=\"no 1\""
                        " outcome=UNAVAILABLE\n"
                        "INFO lease commits succeed again file=/the/file\n"
                        "ERROR lease commit failed error=\"no 6\""
                        " outcome=UNAVAILABLE\n"
                        "INFO lease commits succeed again file=/the/file\n");
}

static void
test_who_is_slow(void **state)
{
    (void)state;
    assert_false(wp_lease_turn_is_slow(&turn));
    file.takes_ns = 50 * WP_NS_PER_MS;
    assert_true(wp_lease_turn_serve(&turn, list_of("x")));
    assert_false(wp_lease_turn_is_slow(&turn));
    file.takes_ns++;
    assert_true(wp_lease_turn_serve(&turn, list_of("x")));
    assert_true(wp_lease_turn_is_slow(&turn));
    clock_ns += WP_NS_PER_S - 1;
    assert_true(wp_lease_turn_is_slow(&turn));
    clock_ns++;
    assert_false(wp_lease_turn_is_slow(&turn));
    wp_lease_turn_finish(&turn, list_of("x")); /* It has the time. */
    assert_false(wp_lease_turn_is_slow(&turn));
}

/* In the last quarter once the disk has the log; at the end in any case. */
static void
test_when_the_log_is_copied(void **state)
{
    (void)state;
    file.takes_ns = 10;
    file.pages = CHECKPOINT - CHECKPOINT / 4 - 1;
    assert_true(wp_lease_turn_serve(&turn, list_of("x")));
    assert_story("apply:0 0=OK ");
    file.pages++;
    assert_true(wp_lease_turn_serve(&turn, list_of("x")));
    assert_story("apply:0 0=OK syncing ");
    file.log_done = true;
    assert_false(wp_lease_turn_serve(&turn, list_of("x")));
    assert_story("apply:0 0=OK synced ");
    wp_lease_turn_finish(&turn, NULL);
    assert_story("synced copy anew ");
    file.log_done = false;
    file.pages = CHECKPOINT - 1;
    assert_true(wp_lease_turn_serve(&turn, list_of("x")));
    assert_story("apply:0 0=OK syncing ");
    file.pages = CHECKPOINT;
    assert_false(wp_lease_turn_serve(&turn, list_of("x")));
    assert_story("apply:0 0=OK ");
    /* Before what has come since, and again behind that if need be. */
    file.pages_of_a_transaction = CHECKPOINT;
    wp_lease_turn_finish(&turn, list_of("x"));
    assert_story("copy anew apply:0 0=OK copy anew ");
    /* Without a log of its own there is no last quarter. */
    turn.log = NULL;
    file.pages_of_a_transaction = 0;
    file.pages = CHECKPOINT - 1;
    wp_lease_turn_finish(&turn, list_of("x"));
    assert_story("apply:0 0=OK ");
    file.pages++;
    wp_lease_turn_finish(&turn, NULL);
    assert_story("copy ");
    assert_stats(&(struct wp_lease_sqlite_stats){
        .commits = 7,
        .transactions = 7,
        .checkpoints = 4,
        .batch_max = 1,
        .transaction_ns.sum_ns = 70,
        .checkpoint_ns.sum_ns = 80,
    });
}

/* A disk that is short of room gets the log's back: told of on any turn, and
 * behind each transaction. */
static void
test_a_disk_that_is_short_of_room(void **state)
{
    (void)state;
    file.is_short = true;
    file.pages_of_a_transaction = 1;
    assert_false(wp_lease_turn_serve(&turn, list_of("x")));
    assert_story("apply:0 0=OK ");
    wp_lease_turn_finish(&turn, NULL);
    assert_story("give-back anew ");
    wp_lease_turn_finish(&turn, list_of("xs"));
    assert_story("apply:0 0=OK give-back anew apply:1 1=OK give-back anew ");
}

/* It is tried once more, when the log has given back its room. */
static void
test_a_full_disk(void **state)
{
    struct heard heard;

    (void)state;
    heard_begin(&heard);
    file.applies[0] = WP_UNAVAILABLE;
    wp_lease_turn_finish(&turn, list_of("x")); /* Not for want of room. */
    file.is_full = true;
    file.applies[1] = WP_UNAVAILABLE;
    wp_lease_turn_finish(&turn, list_of("x"));
    file.applies[3] = WP_UNKNOWN_OUTCOME;
    wp_lease_turn_finish(&turn, list_of("x"));
    file.applies[4] = WP_UNAVAILABLE;
    file.checkpoint_fails = true;
    wp_lease_turn_finish(&turn, list_of("x"));
    file.applies[5] = file.applies[6] = WP_UNAVAILABLE;
    file.checkpoint_fails = false;
    wp_lease_turn_finish(&turn, list_of("x"));
    (void)heard_end(&heard);
    assert_story("apply:0 0=UNAVAILABLE "
                 "apply:0 give-back anew apply:0 0=OK "
                 "apply:0 0=UNKNOWN_OUTCOME "
                 "apply:0 give-back 0=UNAVAILABLE "
                 "apply:0 give-back anew apply:0 0=UNAVAILABLE ");
    assert_stats(&(struct wp_lease_sqlite_stats){
        .commits = 5,
        .transactions = 5,
        .failures = 4,
        .checkpoints = 2,
        .batch_max = 1,
        .last_error = {.status = WP_UNAVAILABLE, .msg = "no 7"},
    });
}

/* It grows by as much again before the next try. */
static void
test_a_log_that_cannot_be_copied(void **state)
{
    struct heard heard;

    (void)state;
    turn.log = NULL;
    heard_begin(&heard);
    file.checkpoint_fails = true;
    file.pages = CHECKPOINT + 1;
    wp_lease_turn_finish(&turn, list_of("x"));
    file.pages = 2 * CHECKPOINT;
    wp_lease_turn_finish(&turn, list_of("x"));
    clock_ns += 10 * WP_NS_PER_S - 1;
    file.pages++;
    wp_lease_turn_finish(&turn, list_of("x"));
    clock_ns++;
    file.pages = 3 * CHECKPOINT + 1;
    wp_lease_turn_finish(&turn, list_of("x"));
    (void)heard_end(&heard);
    assert_string_equal(
        heard.text, "WARN lease log cannot be copied into its file, and grows"
                    " error=\"cannot copy\" pages=103\n"
                    "WARN lease log cannot be copied into its file, and grows"
                    " error=\"cannot copy\" pages=307\n");
    assert_story("copy apply:0 0=OK apply:0 0=OK copy apply:0 0=OK "
                 "copy apply:0 0=OK ");
    assert_stats(&(struct wp_lease_sqlite_stats){
        .commits = 4,
        .transactions = 4,
        .batch_max = 1,
        .wal_pages = 3 * CHECKPOINT + 1,
        .last_error = {.status = WP_UNAVAILABLE, .msg = "cannot copy"},
    });
    /* Once it could be, as soon as ever. */
    file.checkpoint_fails = false;
    file.pages = 4 * CHECKPOINT + 1;
    wp_lease_turn_finish(&turn, list_of("x"));
    file.pages = CHECKPOINT;
    wp_lease_turn_finish(&turn, list_of("x"));
    assert_story("copy apply:0 0=OK copy apply:0 0=OK ");
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(test_who_serves_does_what_waits_for_no_disk),
        TEST(test_what_a_server_leaves_when_it_fails),
        TEST(test_failures_are_said_not_too_often),
        TEST(test_who_is_slow),
        TEST(test_when_the_log_is_copied),
        TEST(test_a_disk_that_is_short_of_room),
        TEST(test_a_full_disk),
        TEST(test_a_log_that_cannot_be_copied),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
