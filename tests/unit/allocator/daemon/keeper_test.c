/* tests/unit/allocator/daemon/keeper_test.c - how a daemon becomes the one that
 * makes sandboxes: at its start, a little later, and when another one ends. The
 * thread that waits is run by the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "allocator/daemon/keeper.h"
#include "tests/unit/allocator/daemon/journal.h"

int __wrap_eventfd(unsigned int value, int flags);
int __real_eventfd(unsigned int value, int flags);
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*run)(void *), void *arg);
int __wrap_pthread_join(pthread_t thread, void **out);
int __wrap_pthread_setname_np(pthread_t thread, const char *called);
void __wrap_wp_control_wake(void *ctx);
enum wp_status __wrap_wp_daemon_backend_open(struct wp_daemon_backend *self,
                                             bool untried, struct wp_err *err);
enum wp_status
__wrap_wp_daemon_backend_probe(const struct wp_daemon_backend *self,
                               struct wp_err *err);
enum wp_status __wrap_wp_daemon_backend_start(struct wp_daemon_backend *self,
                                              struct wp_lease_store store,
                                              uint32_t *adopted,
                                              struct wp_err *err);
void __wrap_wp_daemon_fail(struct wp_daemon_core *of);
enum wp_status __wrap_wp_daemon_lock(struct wp_daemon_locks *of,
                                     struct wp_err *err);
enum wp_status
__wrap_wp_daemon_redis_note_pools(const struct wp_daemon_redis *redis,
                                  struct wp_err *err);
bool __wrap_wp_daemon_redis_other_keeper(struct wp_daemon_redis *redis,
                                         char *host, size_t cap);
struct wp_lease_store
__wrap_wp_daemon_store_port(const struct wp_daemon_store *self);
struct wp_daemon_redis *
__wrap_wp_daemon_store_redis(const struct wp_daemon_store *self);
void __wrap_wp_daemon_unlock_backend(struct wp_daemon_locks *of);
enum wp_status __wrap_wp_local_lock_wait(const char *dir, int stop_fd, int *fd,
                                         struct wp_err *err);
void __wrap_wp_loop_call(struct wp_loop *loop, void (*call)(void *ctx),
                         void *ctx);
void __wrap_wp_pools_lose_unseen(struct wp_pools *pools);
void __wrap_wp_pools_set_keeper(struct wp_pools *pools, bool keeper);

static struct wp_conf conf;
static struct wp_daemon_core core;
static struct wp_daemon_locks locks;
static struct wp_daemon_keeping keeping;
static bool is_redis;
static void *(*thread_run)(void *);
static void *thread_arg;
static int stop_fd;

/* --- The system --- */

int
__wrap_eventfd(unsigned int value, int flags)
{
    assert_int_equal(value, 0);
    assert_int_equal(flags, EFD_CLOEXEC | EFD_NONBLOCK);
    if (journal_said("eventfd", true) == 0) {
        errno = EMFILE;
        return -1;
    }
    stop_fd = __real_eventfd(value, flags);
    if (journal_said("first", false) != 0) { /* The lowest there is. */
        assert_int_equal(dup2(stop_fd, 0), 0);
        assert_int_equal(close(stop_fd), 0);
        stop_fd = 0;
    }
    return stop_fd;
}

int
__wrap_poll(struct pollfd *fds, nfds_t n, int ms)
{
    bool stops = journal_said("stops", false) != 0;

    assert_int_equal(n, 1);
    assert_int_equal(fds->events, POLLIN);
    journal("wait %d ms%s%s", ms,
            fds->fd < 0          ? ""
            : fds->fd == stop_fd ? ", or until it stops"
                                 : ", of ?",
            stops ? ": it stops" : "");
    journal_pass(ms * WP_NS_PER_MS);
    return stops ? 1 : 0;
}

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                      void *(*run)(void *), void *arg)
{
    assert_null(attr);
    memset(thread, 0, sizeof *thread);
    thread_run = run;
    thread_arg = arg;
    return (int)journal_said("thread", 0);
}

int
__wrap_pthread_setname_np(pthread_t thread, const char *called)
{
    (void)thread;
    journal("thread %s", called);
    return 0;
}

int
__wrap_pthread_join(pthread_t thread, void **out)
{
    uint64_t n = 0;

    (void)thread;
    assert_null(out);
    journal("join, told to stop: %d, stopping: %d",
            read(stop_fd, &n, sizeof n) == (ssize_t)sizeof n && n == 1,
            core.stopping);
    return 0;
}

/* --- Parts --- */

void
__wrap_wp_control_wake(void *ctx)
{
    journal("  wake %s, keeper: %d", journal_name(ctx), core.keeper);
}

enum wp_status
__wrap_wp_daemon_backend_open(struct wp_daemon_backend *self, bool untried,
                              struct wp_err *err)
{
    journal("open %s, untried: %d", journal_name(self), untried);
    return journal_status("open", err);
}

enum wp_status
__wrap_wp_daemon_backend_probe(const struct wp_daemon_backend *self,
                               struct wp_err *err)
{
    journal("probe %s", journal_name(self));
    return journal_status("probe", err);
}

enum wp_status
__wrap_wp_daemon_backend_start(struct wp_daemon_backend *self,
                               struct wp_lease_store store, uint32_t *adopted,
                               struct wp_err *err)
{
    assert_int_equal(*adopted, 0);
    *adopted = (uint32_t)journal_said("adopted", 5);
    journal("start %s with %s, adopted: %u", journal_name(self),
            journal_name(store.self), *adopted);
    return journal_status("start", err);
}

void
__wrap_wp_daemon_fail(struct wp_daemon_core *of)
{
    assert_ptr_equal(of, &core);
    journal("the daemon fails");
}

enum wp_status
__wrap_wp_daemon_lock(struct wp_daemon_locks *of, struct wp_err *err)
{
    assert_ptr_equal(of, &locks);
    journal("take the pid file");
    return journal_status("lock", err);
}

void
__wrap_wp_daemon_unlock_backend(struct wp_daemon_locks *of)
{
    assert_ptr_equal(of, &locks);
    journal("unlock the backend");
}

enum wp_status
__wrap_wp_local_lock_wait(const char *dir, int fd_stop, int *fd,
                          struct wp_err *err)
{
    assert_int_equal(fd_stop, stop_fd);
    assert_ptr_equal(fd, &locks.backend_fd);
    journal("wait for the lock of %s", dir);
    return journal_status("lock wait", err);
}

enum wp_status
__wrap_wp_daemon_redis_note_pools(const struct wp_daemon_redis *redis,
                                  struct wp_err *err)
{
    journal("note pools in %s", journal_name(redis));
    return journal_status("note", err);
}

bool
__wrap_wp_daemon_redis_other_keeper(struct wp_daemon_redis *redis, char *host,
                                    size_t cap)
{
    bool other = journal_said("other", false) != 0;

    assert_int_equal(cap, WP_PEER_HOST_MAX + 1);
    (void)snprintf(host, cap, "elsewhere");
    journal("another keeper of %s: %d", journal_name(redis), other);
    return other;
}

struct wp_lease_store
__wrap_wp_daemon_store_port(const struct wp_daemon_store *self)
{
    assert_string_equal(journal_name(self), "store");
    return (struct wp_lease_store){.self = journal_thing("port")};
}

struct wp_daemon_redis *
__wrap_wp_daemon_store_redis(const struct wp_daemon_store *self)
{
    assert_string_equal(journal_name(self), "store");
    return is_redis ? journal_thing("redis") : NULL;
}

void
__wrap_wp_loop_call(struct wp_loop *loop, void (*call)(void *ctx), void *ctx)
{
    journal("on %s:", journal_name(loop));
    call(ctx);
}

void
__wrap_wp_pools_lose_unseen(struct wp_pools *pools)
{
    journal("  %s lose what was not seen", journal_name(pools));
}

void
__wrap_wp_pools_set_keeper(struct wp_pools *pools, bool keeper)
{
    journal("  %s keep: %d", journal_name(pools), keeper);
}

/* --- The tests --- */

static int
begin(void **state)
{
    static char dir[] = "/var/w";
    static char prefix[] = "warm";

    (void)journal_begin(state);
    memset(&conf, 0, sizeof conf);
    memset(&core, 0, sizeof core);
    conf.state_dir = dir;
    conf.redis_prefix = prefix;
    conf.heartbeat_timeout = 3 * WP_NS_PER_S + WP_NS_PER_MS;
    core.conf = &conf;
    core.loop = journal_thing("control thread");
    core.control = journal_thing("control");
    core.pools = journal_thing("pools");
    keeping = (struct wp_daemon_keeping){
        &core, &locks, journal_thing("backend"), journal_thing("store")};
    is_redis = true;
    stop_fd = -2;
    return 0;
}

static void
keep(uint32_t restored)
{
    struct wp_err err = {.msg = ""};
    enum wp_status status = wp_daemon_keep(&keeping, restored, &err);

    journal("- %u restored: %s: %s", restored, wp_status_name(status), err.msg);
}

static void
test_daemon_keeps_from_its_start(void **state)
{
    (void)state;
    is_redis = false;
    keep(99);
    is_redis = true;
    core.keeper = false;
    keep(5);
    keep(4);
    keep(6); /* One is missing, and nobody has it. */
    journal_say("other", true);
    keep(6);
    journal_say("start", WP_UNAVAILABLE);
    keep(6);
    journal_say("note", WP_UNAVAILABLE);
    core.keeper = false;
    keep(5);
    journal("keeper: %d", core.keeper);
    journal_is("keeper_start");
}

/* Half of the time by which others are taken for gone, in whole milliseconds. */
static void
test_another_keeper_is_waited_for(void **state)
{
    static const int64_t timeouts[] = {3 * WP_NS_PER_S, 2 * WP_NS_PER_MS - 1,
                                       2 * WP_NS_PER_MS};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(timeouts); i++) {
        conf.heartbeat_timeout = timeouts[i];
        keep(6);
    }
    journal_is("keeper_other");
}

/* Starts, runs what the thread does, and ends it. */
static void
run_thread(struct wp_daemon_follower *follower, const struct wp_err *err)
{
    if (follower == NULL) {
        journal("- no follower: %s: %s", wp_status_name(err->status), err->msg);
        return;
    }
    journal("- the thread:");
    assert_null(thread_run(thread_arg));
    journal("- keeper: %d", core.keeper);
    wp_daemon_unfollow(&follower);
    assert_null(follower);
    core.stopping = false;
    core.keeper = false;
}

static void
follow(void)
{
    struct wp_err err = {.msg = ""};

    run_thread(wp_daemon_follow(&keeping, &err), &err);
}

static void
keep_later(uint32_t restored)
{
    struct wp_err err = {.msg = ""};

    run_thread(wp_daemon_keep_later(&keeping, restored, &err), &err);
}

static void
test_follower_takes_over(void **state)
{
    (void)state;
    journal_say("adopted", 0); /* None is asked for. */
    follow();
    is_redis = false;
    follow();
    journal_is("keeper_follows");
}

static void
test_follower_waits_for_the_pid_file(void **state)
{
    (void)state;
    journal_say("lock", WP_ALREADY_EXISTS);
    journal_say("lock", WP_ALREADY_EXISTS);
    follow();
    journal_is("keeper_pid_file");
    /* What is wrong is said once. */
    journal_say("lock", WP_ALREADY_EXISTS);
    journal_say("lock", WP_PERMISSION_DENIED);
    journal_say("lock", WP_ALREADY_EXISTS);
    journal_say("lock", WP_UNAVAILABLE);
    follow();
    journal_is("keeper_pid_file_wrong");
    journal_say("lock", WP_ALREADY_EXISTS);
    journal_say("stops", true);
    follow();
    journal_is("keeper_pid_file_stops");
}

static void
test_follower_that_cannot_take_over_fails(void **state)
{
    static const char *const calls[] = {"lock wait", "open", "start", "note"};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(calls); i++) {
        journal_say(calls[i], WP_UNAVAILABLE);
        follow();
    }
    /* But not when the daemon stops. */
    journal_say("lock wait", WP_CANCELLED);
    follow();
    journal_say("start", WP_CANCELLED);
    follow();
    journal_is("keeper_follows_not");
}

static void
test_one_that_has_the_locks_keeps_later(void **state)
{
    static const char *const calls[] = {"open", "start", "note", "probe"};

    (void)state;
    keep_later(5);
    journal_is("keeper_later");
    keep_later(6);
    journal_say("other", true);
    keep_later(6);
    journal_say("stops", true);
    keep_later(6);
    journal_is("keeper_later_missing");
    for (size_t i = 0; i < WP_ARRAY_LEN(calls); i++) {
        journal_say(calls[i], WP_UNAVAILABLE);
        keep_later(5);
    }
    journal_is("keeper_later_not");
}

static void
test_no_thread_no_follower(void **state)
{
    struct wp_daemon_follower *none = NULL;
    int saved = dup(0);

    (void)state;
    journal_say("first", true);
    follow();
    assert_int_equal(dup2(saved, 0), 0);
    assert_int_equal(close(saved), 0);
    journal_no_memory(1);
    follow();
    journal_no_memory(0);
    journal_say("eventfd", false);
    follow();
    journal_say("thread", EAGAIN);
    keep_later(1);
    wp_daemon_unfollow(&none);
    journal_is("keeper_no_thread");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_daemon_keeps_from_its_start, begin),
        cmocka_unit_test_setup(test_another_keeper_is_waited_for, begin),
        cmocka_unit_test_setup(test_follower_takes_over, begin),
        cmocka_unit_test_setup(test_follower_waits_for_the_pid_file, begin),
        cmocka_unit_test_setup(test_follower_that_cannot_take_over_fails,
                               begin),
        cmocka_unit_test_setup(test_one_that_has_the_locks_keeps_later, begin),
        cmocka_unit_test_setup(test_no_thread_no_follower, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
