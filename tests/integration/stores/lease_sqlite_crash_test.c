/* tests/integration/stores/lease_sqlite_crash_test.c - the SQLite store in processes
 * that are killed in the midst of committing, and on disks that run full. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "allocator/stores/sqlite/store.h"
#include "pool/base/rng.h"
#include "tests/support/stores/conform.h"
#include "tests/support/base/temp_dir.h"

enum {
    SANDBOXES = 24,
    KILLS = 12,
    ACKS_MAX = 1500, /* Before a kill. */
};

static char dir[256];
static char path[300];
/* The log is copied now and then, so that some kills fall into that. */
static uint32_t checkpoint_pages = 100;

static struct wp_lease_sqlite *
open_store(void)
{
    const struct wp_lease_sqlite_config config = {
        .path = path, .checkpoint_pages = checkpoint_pages};
    struct wp_err err = {0};
    struct wp_lease_sqlite *sqlite = wp_lease_sqlite_create(&config, &err);

    if (sqlite == NULL) {
        (void)fprintf(stderr, "%s\n", err.msg);
        abort();
    }
    conform_store = wp_lease_sqlite_store(sqlite);
    return sqlite;
}

/* Where a sandbox stands: it is granted and the grant undone, again and again,
 * each time with the next fence; 2 * fence is granted, one more is undone. */
struct ack {
    uint32_t sandbox;
    uint32_t step;
};

struct cycle {
    struct wp_lease_op op;
    struct ack at;
    char claim[16];
};

static struct cycle cycles[SANDBOXES];
static int ack_fd;

static void on_step_done(struct wp_lease_op *op, enum wp_status status);

static void
take_next_step(struct cycle *cycle)
{
    struct wp_lease_op *op = &cycle->op;

    cycle->at.step++;
    op->kind = cycle->at.step % 2 == 0 ? WP_LEASE_GRANT : WP_LEASE_UNDO;
    op->fence = cycle->at.step / 2;
    op->deadline_wall_ms = 1;
    op->claim_id = wp_str_from(cycle->claim);
    op->done = on_step_done;
    if (conform_store.ops->commit(conform_store.self, op) != WP_PENDING) {
        _exit(3);
    }
}

/* Committer thread. Told means: on its way to the parent, kill or no kill. */
static void
on_step_done(struct wp_lease_op *op, enum wp_status status)
{
    struct cycle *cycle = WP_CONTAINER_OF(op, struct cycle, op);

    if (status != WP_OK ||
        write(ack_fd, &cycle->at, sizeof cycle->at) != sizeof cycle->at) {
        _exit(4);
    }
    take_next_step(cycle);
}

_Noreturn static void
commit_until_killed(const uint32_t steps[SANDBOXES])
{
    (void)open_store();
    for (uint32_t i = 0; i < SANDBOXES; i++) {
        cycles[i].at = (struct ack){i, steps[i]};
        (void)snprintf(cycles[i].claim, sizeof cycles[i].claim, "c%u", i);
        conform_crowd_uid(&cycles[i].op, i);
        take_next_step(&cycles[i]);
    }
    for (;;) {
        (void)pause();
    }
}

static uint32_t
step_of(unsigned sandbox)
{
    struct wp_lease_record record;
    struct wp_lease_op op;

    conform_crowd_uid(&op, sandbox);
    conform_fetch(op.uid, &record);
    assert_true(record.state == WP_RECORD_OPEN ||
                record.state == WP_RECORD_HELD);
    return (uint32_t)record.fence * 2 +
           (record.state == WP_RECORD_OPEN ? 1 : 0);
}

/* Lets a child commit, kills it after some answers, and compares what is found
 * with what it was told. steps: what is known to be committed, in and out. */
static uint32_t
kill_once(uint32_t steps[SANDBOXES], uint32_t acks_wanted)
{
    struct wp_lease_sqlite *sqlite;
    struct ack ack;
    uint32_t acks = 0;
    int status = 0;
    int fds[2];
    pid_t child;

    assert_int_equal(pipe(fds), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)close(fds[0]);
        ack_fd = fds[1];
        commit_until_killed(steps);
    }
    (void)close(fds[1]);
    while (read(fds[0], &ack, sizeof ack) == sizeof ack) {
        assert_true(ack.sandbox < SANDBOXES);
        assert_int_equal(ack.step, steps[ack.sandbox] + 1);
        steps[ack.sandbox] = ack.step;
        if (++acks == acks_wanted) {
            assert_int_equal(kill(child, SIGKILL), 0);
        }
    }
    (void)close(fds[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    sqlite = open_store();
    for (unsigned i = 0; i < SANDBOXES; i++) {
        uint32_t found = step_of(i);

        /* What was told, or the one commit that was under way. */
        assert_true(found == steps[i] || found == steps[i] + 1);
        steps[i] = found;
    }
    wp_lease_sqlite_destroy(sqlite);
    return acks;
}

/* Every answered commit is there after kill -9, at whatever moment. */
static void
test_answered_commits_survive_kills(void **state)
{
    uint32_t steps[SANDBOXES];
    struct wp_lease_sqlite *sqlite;
    uint64_t acks = 0;
    struct wp_rng rng;
    uint64_t seed;

    (void)state;
    wp_random_bytes(&seed, sizeof seed);
    print_message("    seed %llu\n", (unsigned long long)seed);
    wp_rng_init(&rng, seed);
    temp_dir_empty(dir);
    sqlite = open_store();
    for (unsigned i = 0; i < SANDBOXES; i++) {
        struct wp_lease_op op = {.kind = WP_LEASE_OFFER};

        conform_crowd_uid(&op, i);
        assert_int_equal(conform_commit(&op), WP_OK);
        steps[i] = 1; /* OPEN with fence 0. */
    }
    wp_lease_sqlite_destroy(sqlite);
    for (int i = 0; i < KILLS; i++) {
        acks += kill_once(steps, 1 + (uint32_t)wp_rng_below(&rng, ACKS_MAX));
    }
    print_message("    %d kills, %llu answered commits, none lost\n", KILLS,
                  (unsigned long long)acks);
}

static enum wp_status
offer_numbered(unsigned number)
{
    struct wp_lease_op op = {.kind = WP_LEASE_OFFER,
                             .endpoint = WP_STR("unix:/run/of-some-length")};

    op.uid[0] = 1;
    op.uid[1] = (uint8_t)(number >> 8);
    op.uid[2] = (uint8_t)number;
    return conform_commit(&op);
}

static bool
is_there(unsigned number)
{
    struct wp_lease_record record;
    uint8_t uid[WP_UID_LEN] = {1, (uint8_t)(number >> 8), (uint8_t)number};

    conform_fetch(uid, &record);
    return record.state == WP_RECORD_OPEN;
}

/* Fills the place until the store says no, makes room, and goes on in the same
 * store. */
static void
run_full(bool (*make_room)(void), enum wp_status refusal)
{
    struct wp_lease_sqlite *sqlite = open_store();
    struct wp_lease_sqlite_stats stats;
    enum wp_status status = WP_OK;
    unsigned told = 0;

    while (told < 60000 && (status = offer_numbered(told)) == WP_OK) {
        told++;
    }
    print_message("    %u commits, then %s\n", told, wp_status_name(status));
    assert_int_equal(status, refusal);
    assert_true(told > 0);
    /* It still reads, and refuses as often as it is asked. */
    assert_true(is_there(0) && is_there(told - 1) && !is_there(told));
    assert_int_equal(offer_numbered(told), refusal);
    wp_lease_sqlite_stats(sqlite, &stats);
    assert_int_equal(stats.failures, 2);
    print_message("    %s\n", stats.last_error.msg);
    assert_true(make_room());
    assert_int_equal(offer_numbered(told), WP_OK);
    assert_int_equal(offer_numbered(told + 1), WP_OK);
    wp_lease_sqlite_destroy(sqlite);
    sqlite = open_store();
    for (unsigned i = 0; i <= told + 1; i++) {
        assert_true(is_there(i));
    }
    wp_lease_sqlite_destroy(sqlite);
}

static bool
grow_tmpfs(void)
{
    return mount("tmpfs", dir, "tmpfs", MS_REMOUNT, "size=16m") == 0;
}

static bool
lift_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) != 0) {
        return false;
    }
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_FSIZE, &limit) == 0;
}

/* A file system that is full: certainly nothing was changed. */
static void
on_small_tmpfs(void **state)
{
    (void)state;
    run_full(grow_tmpfs, WP_UNAVAILABLE);
}

/* A file that may not grow is an I/O error to SQLite, not a full disk. */
static void
under_size_limit(void **state)
{
    (void)state;
    run_full(lift_limit, WP_UNKNOWN_OUTCOME);
}

static off_t
log_bytes(void)
{
    char log[320];
    struct stat st;

    (void)snprintf(log, sizeof log, "%s-wal", path);
    return stat(log, &st) == 0 ? st.st_size : 0;
}

/* A log that is copied only when it is long would fill this one: what is in the
 * file has a few pages. */
static void
on_8_mib(void **state)
{
    struct wp_lease_sqlite_stats stats;
    struct wp_lease_sqlite *sqlite;
    struct wp_lease_op op = {
        .kind = WP_LEASE_GRANT, .fence = 1, .claim_id = WP_STR("held")};

    (void)state;
    checkpoint_pages = 0; /* The default. The process is this test's own. */
    sqlite = open_store();
    conform_offer_crowd();
    conform_crowd_uid(&op, 0);
    assert_int_equal(conform_commit(&op), WP_OK);
    op.kind = WP_LEASE_RENEW;
    for (int64_t i = 1; i <= 5000; i++) {
        op.deadline_wall_ms = i;
        assert_int_equal(conform_commit(&op), WP_OK);
        assert_true(log_bytes() < 5LL << 20);
    }
    wp_lease_sqlite_stats(sqlite, &stats);
    assert_true(stats.checkpoints > 0);
    assert_int_equal(stats.failures, 0);
    wp_lease_sqlite_destroy(sqlite);
}

/* cmocka's verdict on one test, from a child that can be changed for good. */
static int
run_in_child(CMUnitTestFunction test, const char *tmpfs_size)
{
    const struct CMUnitTest tests[] = {{"full", test, NULL, NULL, NULL}};
    int status = 0;
    pid_t child;

    (void)fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit limit;

        if (tmpfs_size != NULL &&
            (unshare(CLONE_NEWNS) != 0 ||
             mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
             mount("tmpfs", dir, "tmpfs", 0, tmpfs_size) != 0)) {
            _exit(77);
        }
        if (tmpfs_size == NULL) {
            (void)signal(SIGXFSZ, SIG_IGN);
            if (getrlimit(RLIMIT_FSIZE, &limit) != 0) {
                _exit(2);
            }
            limit.rlim_cur = 300000;
            if (setrlimit(RLIMIT_FSIZE, &limit) != 0) {
                _exit(2);
            }
        }
        _exit(cmocka_run_group_tests(tests, NULL, NULL));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void
run_on_tmpfs(CMUnitTestFunction test, const char *size)
{
    int rc;

    temp_dir_empty(dir);
    rc = run_in_child(test, size);
    if (rc == 77) {
        print_message("SKIP: no small file system can be mounted here\n");
        skip();
    }
    assert_int_equal(rc, 0);
}

static void
test_full_disk(void **state)
{
    (void)state;
    run_on_tmpfs(on_small_tmpfs, "size=512k");
}

static void
test_small_disk(void **state)
{
    (void)state;
    run_on_tmpfs(on_8_mib, "size=8m");
}

static void
test_size_limit(void **state)
{
    (void)state;
    temp_dir_empty(dir);
    assert_int_equal(run_in_child(under_size_limit, NULL), 0);
}

int
main(void)
{
    static const struct wp_store_factory factory = {.name = "sqlite"};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answered_commits_survive_kills),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_small_disk),
        cmocka_unit_test(test_size_limit),
    };
    int failed;

    conform_factory = &factory;
    temp_dir_make(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/leases.db", dir);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    temp_dir_remove(dir);
    return failed;
}
