/* local/sandbox/sweep.c, call by call: who is killed, waited for and removed, in
 * which order, and what is counted and said. Nothing real is killed; descriptors
 * are numbers. The journals are in golden/. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/sandbox/local_impl.h"
#include "pool/base/log.h"
#include "tests/support/base/golden.h"

enum {
    FDS = 1000, /* A process's is that and its number. */
    GROUP_TRIES = 1000,
    BATCH = 64,
};

static struct {
    bool on;
    bool quiet; /* Calls are only counted. */
    bool no_memory;
    const char *record_boot; /* NULL: there is no record. */
    bool inner_gone;
    bool outer_gone;
    bool unkillable;
    int busy;   /* So often groups are not gone. */
    bool stuck; /* Directories cannot be removed. */
    int kills;
    int waits;
    int removals;
} rig;
static struct golden seen;
/* The process whose descriptor is 0, as where the daemon began without a
 * standard input; 0: none. The journals are the same. */
static int zero;
static struct wp_local local;
static struct wp_local_sweep counts;

static void note(const char *fmt, ...) WP_PRINTF(1, 2);

static void
note(const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    if (rig.quiet) {
        return;
    }
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    golden_add(&seen, "%s\n", text);
}

static const char *
group_name(const struct wp_cgroups *groups)
{
    return groups == &local.cgroups          ? "now"
           : groups == &local.old_cgroups[0] ? "before"
           : groups == &local.old_cgroups[1] ? "long before"
                                             : "?";
}

/* As it is noted. */
static int
named(int fd)
{
    return fd == 0 && zero != 0 ? FDS + zero : fd;
}

/* --- What lies below --- */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __real_close(int fd);
int __wrap_close(int fd);
long __wrap_syscall(long number, ...);
int __wrap_nanosleep(const struct timespec *wait, struct timespec *left);
bool __wrap_wp_record_read(const char *dir, struct wp_record *record);
int __wrap_wp_process_open(pid_t pid, uint64_t start);
bool __wrap_wp_cgroup_remove(const struct wp_cgroups *groups, const char *name);
void __wrap_wp_cgroup_kill(const struct wp_cgroups *groups, const char *name);
void __wrap_wp_cgroup_list(const struct wp_cgroups *groups,
                           void (*fn)(void *ctx, const char *name), void *ctx);
enum wp_status __wrap_wp_dir_remove(const char *dir, struct wp_err *err);
void __wrap_wp_log_emit(enum wp_log_level level, const char *event,
                        const struct wp_kv *kvs);

void *
__wrap_malloc(size_t size)
{
    void *at = rig.no_memory ? NULL : __real_malloc(size);

    return at != NULL ? memset(at, 'x', size) : NULL;
}

int
__wrap_access(const char *path, int mode)
{
    if (!rig.on) {
        return __real_access(path, mode);
    }
    note("access %s%s", path, mode == F_OK ? "" : " ?");
    return strstr(path, "/adopted") != NULL ? 0 : -1;
}

int
__wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    note("poll %d%s, %d ms", named(fds[0].fd),
         n == 1 && fds[0].events == POLLIN ? "" : " ?", timeout_ms);
    return 1;
}

int
__wrap_close(int fd)
{
    if (named(fd) < FDS) {
        return __real_close(fd);
    }
    note("close %d", named(fd));
    return 0;
}

long
__wrap_syscall(long number, ...)
{
    va_list ap;
    int fd;
    int sig;
    const void *info;
    unsigned flags;

    va_start(ap, number);
    fd = va_arg(ap, int);
    sig = va_arg(ap, int);
    info = va_arg(ap, const void *);
    flags = va_arg(ap, unsigned);
    va_end(ap);
    note("%s %d, %s %u", number == SYS_pidfd_send_signal ? "signal" : "?",
         named(fd), sig == SIGKILL && info == NULL ? "kill" : "?", flags);
    return rig.unkillable ? -1 : 0;
}

int
__wrap_nanosleep(const struct timespec *wait, struct timespec *left)
{
    assert_null(left);
    rig.waits++;
    note("sleep %ld.%09ld", (long)wait->tv_sec, wait->tv_nsec);
    return 0;
}

bool
__wrap_wp_record_read(const char *dir, struct wp_record *record)
{
    note("record of %s", dir);
    memset(record, 0, sizeof *record);
    record->inner_pid = 12;
    record->inner_start = 112;
    record->outer_pid = 11;
    record->outer_start = 111;
    (void)snprintf(record->boot_id, sizeof record->boot_id, "%s",
                   rig.record_boot != NULL ? rig.record_boot : "");
    return rig.record_boot != NULL;
}

int
__wrap_wp_process_open(pid_t pid, uint64_t start)
{
    note("open process %d of %u", (int)pid, (unsigned)start);
    if (pid == 12 ? rig.inner_gone : rig.outer_gone) {
        return -1;
    }
    return (int)pid == zero ? 0 : FDS + (int)pid;
}

bool
__wrap_wp_cgroup_remove(const struct wp_cgroups *groups, const char *name)
{
    rig.removals++;
    note("remove group %s of %s", name, group_name(groups));
    if (rig.busy > 0) {
        rig.busy--;
        return false;
    }
    return true;
}

void
__wrap_wp_cgroup_kill(const struct wp_cgroups *groups, const char *name)
{
    rig.kills++;
    note("kill group %s of %s", name, group_name(groups));
}

void
__wrap_wp_cgroup_list(const struct wp_cgroups *groups,
                      void (*fn)(void *ctx, const char *name), void *ctx)
{
    note("groups of %s", group_name(groups));
    if (!rig.quiet) {
        fn(ctx, "adopted");
        fn(ctx, "orphan");
    }
}

enum wp_status
__wrap_wp_dir_remove(const char *dir, struct wp_err *err)
{
    note("remove %s", dir);
    return rig.stuck ? wp_err_set(err, WP_UNAVAILABLE, "it is stuck") : WP_OK;
}

void
__wrap_wp_log_emit(enum wp_log_level level, const char *event,
                   const struct wp_kv *kvs)
{
    golden_add(&seen, "log %d: %s", (int)level, event);
    for (; kvs->key != NULL; kvs++) {
        golden_add(&seen, ", %s '%.*s'", kvs->key, (int)kvs->str.len,
                   kvs->str.ptr);
    }
    golden_add(&seen, "\n");
}

/* --- The test's side --- */

static struct wp_sweep *
begin(const char *what)
{
    struct wp_sweep *sweep;

    golden_add(&seen, "--- %s\n", what);
    memset(&rig, 0, sizeof rig);
    memset(&local, 0, sizeof local);
    memset(&counts, 'x', sizeof counts);
    rig.record_boot = "boot";
    (void)snprintf(local.sandboxes_dir, sizeof local.sandboxes_dir, "/s");
    (void)snprintf(local.boot_id, sizeof local.boot_id, "boot");
    local.old_cgroups_len = 2;
    sweep = wp_sweep_create(&local, &counts);
    assert_non_null(sweep);
    rig.on = true;
    return sweep;
}

static void
finish(struct wp_sweep *sweep)
{
    wp_sweep_finish(sweep);
    rig.on = false;
    golden_add(&seen, "=> sandboxes %u, killed %u, cgroups %u, failed %u\n",
               counts.sandboxes, counts.killed, counts.cgroups, counts.failed);
}

static int
set_up(void **state)
{
    (void)state;
    seen.len = 0;
    return 0;
}

static void
who_is_recorded_is_killed_and_removed(void **state)
{
    struct wp_sweep *sweep = begin("both");

    (void)state;
    wp_sweep_add(sweep, "a");
    wp_sweep_add(sweep, "b");
    finish(sweep);
    sweep = begin("the inner one");
    rig.outer_gone = true;
    wp_sweep_add(sweep, "a");
    finish(sweep);
    sweep = begin("the outer one");
    rig.inner_gone = true;
    wp_sweep_add(sweep, "a");
    finish(sweep);
    sweep = begin("none");
    rig.inner_gone = true;
    rig.outer_gone = true;
    wp_sweep_add(sweep, "a");
    finish(sweep);
    sweep = begin("none that can be killed");
    rig.unkillable = true;
    wp_sweep_add(sweep, "a");
    finish(sweep);
    sweep = begin("no record");
    rig.record_boot = NULL;
    wp_sweep_add(sweep, "a");
    finish(sweep);
    sweep = begin("of another boot");
    rig.record_boot = "other";
    wp_sweep_add(sweep, "a");
    finish(sweep);
    sweep = begin("of no boot that is known");
    rig.record_boot = "";
    wp_sweep_add(sweep, "a");
    finish(sweep);
    golden_compare(seen.text, WP_TEST_GOLDEN "/sweep/kills.txt");
}

static void
what_cannot_be_removed_is_counted_and_told(void **state)
{
    struct wp_sweep *sweep = begin("a group that takes a while");

    (void)state;
    rig.busy = 2;
    wp_sweep_add(sweep, "a");
    finish(sweep);
    sweep = begin("a directory");
    rig.stuck = true;
    wp_sweep_add(sweep, "a");
    finish(sweep);
    golden_compare(seen.text, WP_TEST_GOLDEN "/sweep/failures.txt");
}

/* Each group is tried so often, with a wait behind each try. */
static void
groups_are_tried_often(void **state)
{
    (void)state;
    for (int of = 0; of < 3; of++) {
        for (int more = 0; more < 2; more++) {
            struct wp_sweep *sweep = begin("busy");

            rig.quiet = true;
            local.old_cgroups_len = (uint32_t)of;
            rig.busy = (of + 1) * GROUP_TRIES - 1 + more;
            wp_sweep_add(sweep, "a");
            finish(sweep);
            golden_add(&seen, "removals %d, kills %d, waits %d\n", rig.removals,
                       rig.kills, rig.waits);
        }
    }
    golden_compare(seen.text, WP_TEST_GOLDEN "/sweep/tries.txt");
}

static void
a_group_that_stays_is_counted(void **state)
{
    struct wp_sweep *sweep = begin("orphans");

    (void)state;
    rig.busy = GROUP_TRIES;
    finish(sweep);
    /* All but the first of its tries are alike. */
    assert_int_equal(rig.waits, GROUP_TRIES);
    assert_int_equal(counts.failed, 1);
    assert_int_equal(counts.cgroups, 2);
    assert_int_equal(counts.sandboxes, 0);
}

/* A full batch is ended at once, and the next begins. */
static void
a_batch_is_ended_when_it_is_full(void **state)
{
    struct wp_sweep *sweep = begin("a batch and one");
    char longest[256];

    (void)state;
    rig.quiet = true;
    for (int i = 1; i <= BATCH + 1; i++) {
        wp_sweep_add(sweep, "a");
        assert_int_equal(rig.removals, i < BATCH ? 0 : 3 * BATCH);
    }
    memset(longest, 'n', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    rig.quiet = false;
    wp_sweep_add(sweep, longest);
    finish(sweep);
    golden_compare(seen.text, WP_TEST_GOLDEN "/sweep/batch.txt");
}

static void
no_memory_is_no_sweep(void **state)
{
    (void)state;
    memset(&rig, 0, sizeof rig);
    memset(&counts, 'x', sizeof counts);
    rig.no_memory = true;
    assert_null(wp_sweep_create(&local, &counts));
    rig.no_memory = false;
    assert_int_equal(counts.sandboxes + counts.killed + counts.cgroups +
                         counts.failed + counts.adopted,
                     0);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(who_is_recorded_is_killed_and_removed),
        TEST(what_cannot_be_removed_is_counted_and_told),
        TEST(groups_are_tried_often),
        TEST(a_group_that_stays_is_counted),
        TEST(a_batch_is_ended_when_it_is_full),
        TEST(no_memory_is_no_sweep),
    };

    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    for (zero = 11; zero <= 12; zero++) {
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}
