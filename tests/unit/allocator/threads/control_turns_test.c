/* tests/unit/allocator/threads/control_turns_test.c - each call of the control
 * thread's timer, its wake-up and its turns, with fakes below it and a clock
 * that stands still. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <event2/event.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "allocator/threads/control.h"
#include "tests/support/base/journal.h"

enum {
    WAKE_FD = 1000077,
    NOW_NS = 5000000
};

static struct {
    struct wp_control *control;
    event_callback_fn on_timer, on_wake;
    void *ctx;
    int64_t now_ns;
    int64_t due_ns;   /* What a turn names. */
    bool wake_inside; /* The turn has a wake come while it runs. */
    bool on;          /* Calls of calloc are told of. */
    int fail_at;      /* Which of the calls that can fail does; 0: none. */
    int calls;
} rig;

static char a_base, a_timer, a_wake;

static const char *
name_of(const void *object)
{
    return object == (void *)&a_timer  ? "timer"
           : object == (void *)&a_wake ? "wake"
           : object == (void *)&a_base ? "base"
           : object == NULL            ? "nothing"
                                       : "?";
}

static bool
fails(void)
{
    return ++rig.calls == rig.fail_at;
}

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
int __wrap_eventfd(unsigned value, int flags);
struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd,
                               short what, event_callback_fn run, void *ctx);
int __wrap_event_add(struct event *event, const struct timeval *tv);
int __wrap_event_del(struct event *event);
void __wrap_event_free(struct event *event);
struct event_base *__wrap_wp_loop_base(struct wp_loop *loop);
ssize_t __real_read(int fd, void *buf, size_t len);
ssize_t __wrap_read(int fd, void *buf, size_t len);
ssize_t __real_write(int fd, const void *buf, size_t len);
ssize_t __wrap_write(int fd, const void *buf, size_t len);
int __real_close(int fd);
int __wrap_close(int fd);

void *
__wrap_calloc(size_t n, size_t size)
{
    return rig.on && fails() ? NULL : __real_calloc(n, size);
}

int
__wrap_eventfd(unsigned value, int flags)
{
    journal("eventfd %u%s%s", value, flags & EFD_NONBLOCK ? " nonblock" : "",
            flags & EFD_CLOEXEC ? " cloexec" : "");
    journal_line();
    return fails() ? -1 : WAKE_FD;
}

struct event *
__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what,
                 event_callback_fn run, void *ctx)
{
    bool is_timer = fd == -1;

    journal("new %s of %s, fd %d, what %#x", is_timer ? "timer" : "wake",
            name_of(base), (int)fd, (unsigned)what);
    journal_line();
    rig.ctx = ctx;
    if (is_timer) {
        rig.on_timer = run;
    } else {
        rig.on_wake = run;
    }
    return fails() ? NULL : (struct event *)(is_timer ? &a_timer : &a_wake);
}

int
__wrap_event_add(struct event *event, const struct timeval *tv)
{
    journal("add %s", name_of(event));
    if (tv != NULL) {
        journal(" %ld.%06ld", (long)tv->tv_sec, (long)tv->tv_usec);
    }
    journal_line();
    return fails() ? -1 : 0;
}

int
__wrap_event_del(struct event *event)
{
    journal("del %s", name_of(event));
    journal_line();
    return 0;
}

void
__wrap_event_free(struct event *event)
{
    journal("free %s", name_of(event));
    journal_line();
}

struct event_base *
__wrap_wp_loop_base(struct wp_loop *loop)
{
    (void)loop;
    return (struct event_base *)&a_base;
}

ssize_t
__wrap_read(int fd, void *buf, size_t len)
{
    if (fd != WAKE_FD) {
        return __real_read(fd, buf, len);
    }
    journal("read %zu", len);
    journal_line();
    memset(buf, 1, len);
    return (ssize_t)len;
}

ssize_t
__wrap_write(int fd, const void *buf, size_t len)
{
    uint64_t value = 0;

    if (fd != WAKE_FD) {
        return __real_write(fd, buf, len);
    }
    memcpy(&value, buf, len < sizeof value ? len : sizeof value);
    journal("write %" PRIu64 " of %zu", value, len);
    journal_line();
    return (ssize_t)len;
}

int
__wrap_close(int fd)
{
    if (fd != WAKE_FD) {
        return __real_close(fd);
    }
    journal("close");
    journal_line();
    return 0;
}

static int64_t
mono_ns(const struct wp_clock *clock)
{
    (void)clock;
    return rig.now_ns;
}

static const struct wp_clock still = {.mono_ns = mono_ns};

static int64_t
run(void *ctx)
{
    assert_ptr_equal(ctx, &rig);
    journal("turn");
    journal_line();
    if (rig.wake_inside) {
        rig.wake_inside = false;
        wp_control_wake(rig.control);
    }
    return rig.due_ns;
}

static bool
create(int fail_at, struct wp_err *err)
{
    const struct wp_control_config config = {
        .clock = &still, .run = run, .ctx = &rig};

    memset(&rig, 0, sizeof rig);
    rig.now_ns = NOW_NS;
    rig.due_ns = WP_TIME_NEVER;
    rig.fail_at = fail_at;
    rig.on = true;
    rig.control = wp_control_create(&config, err);
    rig.on = false;
    return rig.control != NULL;
}

static int
setup(void **state)
{
    struct wp_err err;

    (void)state;
    assert_true(create(0, &err));
    assert_ptr_equal(rig.ctx, rig.control);
    journal_is("eventfd 0 nonblock cloexec\n"
               "new timer of base, fd -1, what 0\n"
               "new wake of base, fd 1000077, what 0x12\n"
               "add wake\n");
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    journal_drop();
    wp_control_destroy(rig.control);
    journal_is("free timer\n"
               "free wake\n"
               "close\n");
    return 0;
}

static void
woken(int64_t due_ns)
{
    rig.due_ns = due_ns;
    rig.on_wake(WAKE_FD, EV_READ, rig.ctx);
}

static void
timed(int64_t due_ns)
{
    rig.due_ns = due_ns;
    rig.on_timer(-1, EV_TIMEOUT, rig.ctx);
}

static void
counts(uint64_t turns, uint64_t writes)
{
    struct wp_control_stats stats = wp_control_stats(rig.control);

    assert_int_equal(stats.turns, turns);
    assert_int_equal(stats.writes, writes);
}

/* The first wake writes; those that come before the look only leave a mark. */
static void
test_a_wake_is_written_to_a_sleeper_only(void **state)
{
    (void)state;
    counts(0, 0);
    wp_control_wake(rig.control);
    journal_is("write 1 of 8\n");
    wp_control_wake(rig.control);
    counts(0, 1);
    woken(WP_TIME_NEVER);
    journal_is("read 8\nturn\nadd timer 0.002000\n");
    counts(1, 1);
    wp_control_wake(rig.control);
    timed(WP_TIME_NEVER);
    journal_is("turn\nadd timer 0.002000\n");
    timed(WP_TIME_NEVER);
    journal_is("turn\ndel timer\n");
    counts(3, 1);
    wp_control_wake(rig.control);
    journal_is("write 1 of 8\n");
    counts(3, 2);
}

/* A wake that comes while a turn runs is not slept over. */
static void
test_a_wake_within_a_turn_has_another_one_follow(void **state)
{
    (void)state;
    rig.wake_inside = true;
    timed(WP_TIME_NEVER);
    journal_is("turn\nadd timer 0.002000\n");
    rig.wake_inside = true;
    timed(WP_TIME_NEVER);
    journal_is("turn\nadd timer 0.002000\n");
    /* This one takes the mark; the next look finds none. */
    timed(WP_TIME_NEVER);
    journal_is("turn\nadd timer 0.002000\n");
    timed(WP_TIME_NEVER);
    journal_is("turn\ndel timer\n");
    counts(4, 0);
}

/* ... and the timer never runs out before it. */
static void
test_the_time_that_a_turn_names_is_kept(void **state)
{
    static const struct {
        int64_t due_ns;
        const char *asleep, *polling;
    } rows[] = {
        {INT64_MIN + NOW_NS, "0.000000", "0.000000"},
        {NOW_NS - 1, "0.000000", "0.000000"},
        {NOW_NS, "0.000000", "0.000000"},
        {NOW_NS + 1, "0.000001", "0.000001"},
        {NOW_NS + 1000, "0.000001", "0.000001"},
        {NOW_NS + 1001, "0.000002", "0.000002"},
        {NOW_NS + WP_CONTROL_POLL_NS - 1000, "0.001999", "0.001999"},
        {NOW_NS + WP_CONTROL_POLL_NS, "0.002000", "0.002000"},
        {NOW_NS + WP_CONTROL_POLL_NS + 1, "0.002001", "0.002000"},
        {NOW_NS + 61 * WP_NS_PER_S, "61.000000", "0.002000"},
    };
    char expected[64];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        timed(rows[i].due_ns);
        (void)snprintf(expected, sizeof expected, "turn\nadd timer %s\n",
                       rows[i].asleep);
        journal_is(expected);
        wp_control_wake(rig.control);
        journal_is("write 1 of 8\n");
        woken(rows[i].due_ns);
        (void)snprintf(expected, sizeof expected,
                       "read 8\nturn\nadd timer %s\n", rows[i].polling);
        journal_is(expected);
    }
}

static void
test_a_poll_at_the_end_of_time(void **state)
{
    (void)state;
    rig.now_ns = WP_TIME_NEVER - 1000;
    wp_control_wake(rig.control);
    journal_drop();
    woken(WP_TIME_NEVER - 1);
    journal_is("read 8\nturn\nadd timer 0.000001\n");
}

/* A thread's own: it is late in all that it does from here on. */
static void *
late(void *ctx)
{
    (void)ctx;
    wp_control_wake_late(rig.control);
    journal_is("");
    wp_control_wake(rig.control);
    wp_control_wake(rig.control);
    journal_is("");
    /* Its debt is of that one, and of no other. */
    wp_control_wake_late(&rig);
    journal_is("");
    wp_control_wake_late(rig.control);
    journal_is("write 1 of 8\n");
    wp_control_wake_late(rig.control);
    journal_is("");
    counts(0, 1);
    woken(WP_TIME_NEVER);
    timed(WP_TIME_NEVER);
    journal_drop();
    /* A turn that comes of itself does not take the debt away. */
    wp_control_wake(rig.control);
    timed(WP_TIME_NEVER);
    timed(WP_TIME_NEVER);
    journal_is("turn\nadd timer 0.002000\nturn\ndel timer\n");
    /* One debt is enough: who would owe a second one writes. */
    wp_control_wake(rig.control);
    journal_is("write 1 of 8\n");
    wp_control_wake_late(rig.control);
    journal_is("write 1 of 8\n");
    counts(4, 3);
    return NULL;
}

static void
test_what_is_owed_is_written_once(void **state)
{
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, late, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    wp_control_wake(rig.control); /* This thread is not late. */
}

/* Whichever call fails, what was made before is given back. */
static void
test_no_memory_or_descriptor(void **state)
{
#define TRIED                                                                  \
    "eventfd 0 nonblock cloexec\n"                                             \
    "new timer of base, fd -1, what 0\n"
#define WAKE "new wake of base, fd 1000077, what 0x12\n"
#define WHY "no memory or descriptor for the control thread"
    static const struct {
        const char *why, *journal;
    } rows[] = {
        {"no memory", ""},
        {WHY, TRIED "free timer\n"},
        {WHY, TRIED WAKE "free wake\nclose\n"},
        {WHY, TRIED WAKE "free timer\nclose\n"},
        {WHY, TRIED WAKE "add wake\nfree timer\nfree wake\nclose\n"},
    };
    struct wp_err err;

    (void)state;
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++) {
        assert_false(create(i + 1, &err));
        assert_int_equal(err.status, WP_RESOURCE_EXHAUSTED);
        assert_string_equal(err.msg, rows[i].why);
        journal_is(rows[i].journal);
    }
    wp_control_destroy(NULL);
    journal_is("");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_wake_is_written_to_a_sleeper_only),
        TEST(test_a_wake_within_a_turn_has_another_one_follow),
        TEST(test_the_time_that_a_turn_names_is_kept),
        TEST(test_a_poll_at_the_end_of_time),
        TEST(test_what_is_owed_is_written_once),
        cmocka_unit_test(test_no_memory_or_descriptor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
