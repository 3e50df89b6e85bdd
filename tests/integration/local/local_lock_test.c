/* tests/integration/local/local_lock_test.c - the lock of a state directory goes
 * from a daemon to the next, though its sandboxes live. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/sandbox/backend_local.h"
#include "pool/base/clock.h"
#include "tests/support/local/adopt_rig.h"

struct waiter {
    pthread_t thread;
    const char *state_dir;
    int stop_fd;
    int lock_fd;
    enum wp_status status;
    int64_t done_ns;
};

static void *
wait_for_lock(void *arg)
{
    struct waiter *waiter = arg;
    struct wp_err err;

    waiter->status = wp_local_lock_wait(waiter->state_dir, waiter->stop_fd,
                                        &waiter->lock_fd, &err);
    waiter->done_ns = wp_clock_mono_ns(wp_clock_system());
    return NULL;
}

static void
waiter_start(struct waiter *waiter, const char *state_dir, int stop_fd)
{
    *waiter = (struct waiter){.state_dir = state_dir, .stop_fd = stop_fd};
    assert_int_equal(
        pthread_create(&waiter->thread, NULL, wait_for_lock, waiter), 0);
}

/* The lock goes from a killed daemon to who waits for it, though its sandboxes
 * live; and the waiter's backend takes it over with them. */
static void
test_lock_handed_over(void **state)
{
    static struct local_rig rig;
    struct adopt_daemon daemon;
    struct waiter waiter;
    struct wp_err err = {.msg = ""};
    struct stat file;
    char path[160];
    int outer;
    int inner;
    int64_t killed_ns;

    (void)state;
    adopt_rig_init(&rig);
    daemon = adopt_daemon_start(&rig, "4", "4");
    (void)snprintf(path, sizeof path, "%s/lock", rig.state_dir);
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(local_rig_lock_holder(&file), daemon.pid);
    assert_true(local_rig_holds(daemon.pid, &file));
    assert_null(wp_local_create(&rig.config, &err));
    assert_int_equal(err.status, WP_FAILED_PRECONDITION);
    waiter_start(&waiter, rig.state_dir, -1);
    (void)usleep(20000); /* So that it waits, most likely. */
    killed_ns = wp_clock_mono_ns(wp_clock_system());
    adopt_daemon_kill(&daemon);
    assert_int_equal(pthread_join(waiter.thread, NULL), 0);
    assert_int_equal(waiter.status, WP_OK);
    print_message("the lock was handed over %.2f ms after the kill\n",
                  (double)(waiter.done_ns - killed_ns) / 1e6);
    assert_int_equal(local_rig_lock_holder(&file), getpid());
    for (uint32_t i = 0; i < 4; i++) {
        local_rig_pids(&rig, i, &outer, &inner);
        assert_true(local_rig_alive(inner));
        assert_false(local_rig_holds(outer, &file));
        assert_false(local_rig_holds(inner, &file));
    }
    rig.config.lock_fd = waiter.lock_fd;
    local_rig_start(&rig);
    assert_int_equal(rig.sweep.adopted, 4);
    adopt_rig_expect_answer(&rig, 3);
    local_rig_fini(&rig);
}

/* Killed while it starts sandboxes, of which each has its descriptors for a
 * moment. */
static void
test_lock_while_starting(void **state)
{
    static struct local_rig rig;
    struct waiter waiter;

    (void)state;
    adopt_rig_init(&rig);
    for (int round = 0; round < 5; round++) {
        struct adopt_daemon daemon = adopt_daemon_start(&rig, "24", "0");
        int64_t killed_ns;

        waiter_start(&waiter, rig.state_dir, -1);
        (void)usleep((useconds_t)round * 7000);
        killed_ns = wp_clock_mono_ns(wp_clock_system());
        adopt_daemon_kill(&daemon);
        assert_int_equal(pthread_join(waiter.thread, NULL), 0);
        assert_int_equal(waiter.status, WP_OK);
        print_message("handed over %.2f ms after the kill\n",
                      (double)(waiter.done_ns - killed_ns) / 1e6);
        rig.config.lock_fd = waiter.lock_fd;
        local_rig_start(&rig);
        assert_int_equal(rig.sweep.failed, 0);
        assert_int_equal(wp_local_stop(rig.local, 20 * WP_NS_PER_S), 0);
        wp_local_destroy(rig.local);
        rig.local = NULL;
        rig.config.lock_fd = -1;
        memset(rig.slots, 0, sizeof rig.slots);
    }
    local_rig_fini(&rig);
}

/* Two wait; one is told to stop, the other gets it when the holder closes it,
 * though that lives on. */
static void
test_lock_wait_ends(void **state)
{
    static struct local_rig rig;
    struct waiter first;
    struct waiter second;
    struct wp_err err = {.msg = ""};
    int stop = eventfd(0, EFD_CLOEXEC);
    int other;
    int lock;

    (void)state;
    adopt_rig_init(&rig);
    assert_int_equal(wp_local_lock_wait(rig.state_dir, -1, &lock, &err), WP_OK);
    waiter_start(&first, rig.state_dir, stop);
    waiter_start(&second, rig.state_dir, -1);
    assert_int_equal(eventfd_write(stop, 1), 0);
    assert_int_equal(pthread_join(first.thread, NULL), 0);
    assert_int_equal(first.status, WP_CANCELLED);
    assert_int_equal(first.lock_fd, -1);
    (void)close(lock);
    assert_int_equal(pthread_join(second.thread, NULL), 0);
    assert_int_equal(second.status, WP_OK);
    /* A lock of another directory is no lock of this one. */
    other = open("/dev/null", O_RDWR | O_CLOEXEC);
    rig.config.lock_fd = other;
    assert_null(wp_local_create(&rig.config, &err));
    assert_int_equal(err.status, WP_FAILED_PRECONDITION);
    assert_non_null(strstr(err.msg, "the lock given is not"));
    assert_int_equal(fcntl(other, F_GETFD), -1);
    (void)close(second.lock_fd);
    (void)close(stop);
    local_rig_fini(&rig);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_lock_handed_over, adopt_rig_clean_up),
        cmocka_unit_test_teardown(test_lock_while_starting, adopt_rig_clean_up),
        cmocka_unit_test_teardown(test_lock_wait_ends, adopt_rig_clean_up),
    };

    if (argc == 4) {
        return adopt_daemon_main(argv);
    }
    if (!local_rig_begin(argc, argv, NULL)) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
