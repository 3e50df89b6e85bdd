/* tests/unit/allocator/stores/sqlite/lease_sqlite_log_sync_test.c - the thread
 * that has the disk take the log. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "allocator/stores/sqlite/file.h"
#include "allocator/stores/sqlite/log_sync.h"
#include "proto/loop/thread.h"

enum {
    PATIENCE_MS = 60000,
};

int __wrap_open(const char *path, int flags, ...);
int __wrap_fdatasync(int fd);
int __real_wp_thread_start(pthread_t *thread, void *(*run)(void *), void *arg);
int __wrap_wp_thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

static struct {
    char path[WP_LEASE_FILE_PATH_MAX + 32];
    int flags;
    int error;
} opened;
static int thread_error;
static int first_fd; /* What descriptor 0 is without the test. */
static _Atomic(int) n_syncs;
static _Atomic(int) synced_fd;
static _Atomic(bool) holds; /* A sync takes until it is false. */

/* The lowest descriptor is as good as any. */
int
__wrap_open(const char *path, int flags, ...)
{
    int file;

    (void)snprintf(opened.path, sizeof opened.path, "%s", path);
    opened.flags = flags;
    errno = opened.error;
    if (opened.error != 0) {
        return -1;
    }
    file = memfd_create("log", MFD_CLOEXEC);
    assert_int_equal(dup2(file, 0), 0);
    (void)close(file);
    return 0;
}

int
__wrap_fdatasync(int fd)
{
    synced_fd = fd;
    (void)atomic_fetch_add(&n_syncs, 1);
    while (holds) {
        (void)usleep(1000);
    }
    return 0;
}

int
__wrap_wp_thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    return thread_error != 0 ? thread_error
                             : __real_wp_thread_start(thread, run, arg);
}

static int
begin(void **state)
{
    (void)state;
    first_fd = dup(0);
    memset(&opened, 0, sizeof opened);
    thread_error = 0;
    n_syncs = 0;
    synced_fd = -1;
    holds = false;
    return 0;
}

static int
end(void **state)
{
    (void)state;
    (void)dup2(first_fd, 0);
    (void)close(first_fd);
    return 0;
}

#define AWAIT(condition)                                                       \
    do {                                                                       \
        for (int waits = 0; !(condition); waits++) {                           \
            assert_true(waits < PATIENCE_MS);                                  \
            (void)usleep(1000);                                                \
        }                                                                      \
    } while (0)

static void
test_it_is_asked_once_until_the_log_begins_anew(void **state)
{
    char path[WP_LEASE_FILE_PATH_MAX + 1];
    char log[sizeof path + 4];
    struct wp_lease_log_sync sync;
    struct wp_err err;

    (void)state;
    memset(&sync, 0xff, sizeof sync); /* Whatever was in that memory. */
    memset(path, 'p', sizeof path);
    path[sizeof path - 1] = '\0';
    (void)snprintf(log, sizeof log, "%s-wal", path);
    assert_int_equal(wp_lease_log_sync_start(&sync, path, &err), WP_OK);
    assert_string_equal(opened.path, log);
    assert_int_equal(opened.flags, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(n_syncs, i - 1);
        holds = true;
        assert_false(wp_lease_log_sync_done(&sync));
        AWAIT(n_syncs == i);
        assert_false(wp_lease_log_sync_done(&sync));
        holds = false;
        AWAIT(wp_lease_log_sync_done(&sync));
        assert_true(wp_lease_log_sync_done(&sync));
        assert_int_equal(n_syncs, i);
        assert_int_equal(synced_fd, 0);
        wp_lease_log_sync_reset(&sync);
    }
    assert_true(sync.running);
    wp_lease_log_sync_stop(&sync);
    assert_false(sync.running);
    assert_int_equal(n_syncs, 3); /* The end is no reason for one. */
    assert_int_equal(fcntl(0, F_GETFD), -1);
    wp_lease_log_sync_stop(&sync);
}

/* Nobody waits for what was asked before: it is asked again. */
static void
test_what_is_asked_before_the_log_begins_anew(void **state)
{
    struct wp_lease_log_sync sync = {.fd = -1};
    struct wp_err err;

    (void)state;
    assert_int_equal(wp_lease_log_sync_start(&sync, "/f", &err), WP_OK);
    holds = true;
    assert_false(wp_lease_log_sync_done(&sync));
    AWAIT(n_syncs == 1);
    wp_lease_log_sync_reset(&sync);
    assert_false(wp_lease_log_sync_done(&sync));
    holds = false;
    AWAIT(wp_lease_log_sync_done(&sync));
    AWAIT(n_syncs == 2);
    wp_lease_log_sync_stop(&sync);
}

static void
test_why_it_does_not_start(void **state)
{
    struct wp_lease_log_sync sync = {.fd = -1};
    struct wp_err err;

    (void)state;
    opened.error = ELOOP;
    assert_int_equal(wp_lease_log_sync_start(&sync, "/a/file", &err),
                     WP_UNAVAILABLE);
    assert_string_equal(err.msg,
                        "the lease file's log '/a/file-wal' cannot be opened:"
                        " Too many levels of symbolic links");
    wp_lease_log_sync_stop(&sync);
    opened.error = 0;
    thread_error = EAGAIN;
    assert_int_equal(wp_lease_log_sync_start(&sync, "/a/file", &err),
                     WP_UNAVAILABLE);
    assert_string_equal(err.msg, "the lease store's thread cannot start:"
                                 " Resource temporarily unavailable");
    assert_int_equal(fcntl(0, F_GETFD), -1);
    wp_lease_log_sync_stop(&sync);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(test_it_is_asked_once_until_the_log_begins_anew),
        TEST(test_what_is_asked_before_the_log_begins_anew),
        TEST(test_why_it_does_not_start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
