/* The channel between the cluster's thread and the core's: in which order
 * messages run, when the other side is woken, and what becomes of those that
 * wait when it ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>
#include <event2/event.h>

#include "k8s/backend/channel.h"
#include "tests/support/base/journal.h"
#include "tests/support/base/timers.h"

struct message {
    struct wp_cluster_message base; /* First. */
    const char *name;
    struct message *sends; /* When it runs; NULL: none. */
};

static struct wp_parts parts;
static struct wp_cluster_channel *channel;
static void (*posted)(void *arg, uint64_t a, uint64_t b);
static void *posted_arg;
static bool full;
static int fail_at; /* The part of this number cannot be had; 0: all can. */
static int made;

static bool
fails(void)
{
    made++;
    return made == fail_at;
}

#define FAKE(type, name, ...)                                                  \
    type __wrap_##name(__VA_ARGS__);                                           \
    type __wrap_##name(__VA_ARGS__)

void *__real_calloc(size_t n, size_t size);
FAKE(void *, calloc, size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

int __real_eventfd(unsigned count, int flags);
FAKE(int, eventfd, unsigned count, int flags)
{
    assert_int_equal(count, 0);
    assert_int_equal(flags, EFD_NONBLOCK | EFD_CLOEXEC);
    return fails() ? -1 : __real_eventfd(count, flags);
}

struct event *__real_event_new(struct event_base *of, evutil_socket_t fd,
                               short what, event_callback_fn run, void *ctx);
FAKE(struct event *, event_new, struct event_base *of, evutil_socket_t fd,
     short what, event_callback_fn run, void *ctx)
{
    return fails() ? NULL : __real_event_new(of, fd, what, run, ctx);
}

int __real_event_add(struct event *event, const struct timeval *within);
FAKE(int, event_add, struct event *event, const struct timeval *within)
{
    if (within != NULL) {
        journal("again in %ld us;",
                (long)(within->tv_sec * 1000000L + within->tv_usec));
    }
    return fails() ? -1 : __real_event_add(event, within);
}

void __real_event_free(struct event *event);
FAKE(void, event_free, struct event *event)
{
    journal("event ends;");
    __real_event_free(event);
}

int __real_close(int fd);
FAKE(int, close, int fd)
{
    journal("close;");
    return __real_close(fd);
}

static bool
post(void *ctx, void (*run)(void *arg, uint64_t a, uint64_t b), void *arg,
     uint64_t a, uint64_t b)
{
    assert_ptr_equal(ctx, &posted);
    assert_int_equal(a, 0);
    assert_int_equal(b, 0);
    assert_ptr_equal(arg, channel);
    journal("post%s;", full ? " refused" : "");
    posted = run;
    posted_arg = arg;
    return !full;
}

static void
run(struct wp_cluster_message *from)
{
    struct message *message = (struct message *)(void *)from;

    journal("%s, %u wait;", message->name, wp_cluster_channel_waiting(channel));
    if (message->sends != NULL) {
        wp_cluster_channel_to_cluster(channel, &message->sends->base);
        wp_cluster_channel_to_control(channel, &message->sends[1].base);
    }
}

static void
drop(struct wp_cluster_message *from)
{
    journal("drop %s;", ((struct message *)(void *)from)->name);
}

#define MESSAGE(text)                                                          \
    {                                                                          \
        .base = {.run = run, .drop = drop}, .name = (text)                     \
    }

static void
begin(void)
{
    full = false;
    fail_at = 0;
    parts = (struct wp_parts){.core = {.ctx = &posted, .post = post},
                              .base = event_base_new()};
    assert_non_null(parts.base);
    channel = wp_cluster_channel_create(&parts);
    assert_non_null(channel);
    assert_int_equal(wp_cluster_channel_waiting(channel), 0);
}

static void
end(void)
{
    wp_cluster_channel_destroy(channel);
    channel = NULL;
    event_base_free(parts.base);
}

static void
turn(void)
{
    assert_int_not_equal(event_base_loop(parts.base, EVLOOP_NONBLOCK), -1);
}

#define ENDED "event ends;event ends;close;"

static void
the_core_is_woken_once(void **state)
{
    struct message first = MESSAGE("first");
    struct message second = MESSAGE("second");
    struct message third = MESSAGE("third");

    (void)state;
    begin();
    wp_cluster_channel_to_control(channel, &first.base);
    wp_cluster_channel_to_control(channel, &second.base);
    journal_is("post;");
    posted(posted_arg, 0, 0);
    journal_is("first, 0 wait;second, 0 wait;");
    posted(posted_arg, 0, 0);
    journal_is("");
    wp_cluster_channel_to_control(channel, &third.base);
    journal_is("post;");
    posted(posted_arg, 0, 0);
    journal_is("third, 0 wait;");
    end();
    journal_is(ENDED);
}

static void
a_core_that_is_full_is_asked_again(void **state)
{
    struct message first = MESSAGE("first");
    struct message second = MESSAGE("second");

    (void)state;
    begin();
    full = true;
    wp_cluster_channel_to_control(channel, &first.base);
    journal_is("post refused;again in 5000 us;");
    wp_cluster_channel_to_control(channel, &second.base);
    journal_is("");
    timers_fire(parts.base, channel);
    journal_is("post refused;again in 5000 us;");
    full = false;
    timers_fire(parts.base, channel);
    journal_is("post;");
    posted(posted_arg, 0, 0);
    journal_is("first, 0 wait;second, 0 wait;");
    end();
    journal_is(ENDED);
}

static void
the_cluster_runs_them_in_order(void **state)
{
    struct message then[] = {MESSAGE("third"), MESSAGE("back")};
    struct message first = MESSAGE("first");
    struct message second = MESSAGE("second");

    (void)state;
    begin();
    turn();
    journal_is("");
    first.sends = then;
    wp_cluster_channel_to_cluster(channel, &first.base);
    wp_cluster_channel_to_cluster(channel, &second.base);
    assert_int_equal(wp_cluster_channel_waiting(channel), 2);
    journal_is("");
    turn();
    turn();
    journal_is("first, 1 wait;post;second, 1 wait;third, 0 wait;");
    assert_int_equal(wp_cluster_channel_waiting(channel), 0);
    turn();
    journal_is("");
    wp_cluster_channel_to_cluster(channel, &second.base);
    turn();
    journal_is("second, 0 wait;");
    posted(posted_arg, 0, 0);
    journal_is("back, 0 wait;");
    end();
    journal_is(ENDED);
}

static void
what_waits_at_the_end_is_dropped(void **state)
{
    struct message out[] = {MESSAGE("out 1"), MESSAGE("out 2")};
    struct message in[] = {MESSAGE("in 1"), MESSAGE("in 2")};

    (void)state;
    begin();
    for (size_t i = 0; i < WP_ARRAY_LEN(out); i++) {
        wp_cluster_channel_to_control(channel, &out[i].base);
        wp_cluster_channel_to_cluster(channel, &in[i].base);
    }
    journal_is("post;");
    end();
    journal_is("drop out 1;drop out 2;drop in 1;drop in 2;" ENDED);
    wp_cluster_channel_destroy(NULL);
    journal_is("");
}

static void
without_a_part_there_is_none(void **state)
{
    static const char *const undone[] = {"", "", "event ends;close;",
                                         "event ends;close;", ENDED};

    (void)state;
    parts = (struct wp_parts){.base = event_base_new()};
    assert_non_null(parts.base);
    for (int i = 1; i <= (int)WP_ARRAY_LEN(undone); i++) {
        made = 0;
        fail_at = i;
        assert_null(wp_cluster_channel_create(&parts));
        journal_is(undone[i - 1]);
    }
    event_base_free(parts.base);
    fail_at = 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_core_is_woken_once),
        cmocka_unit_test(a_core_that_is_full_is_asked_again),
        cmocka_unit_test(the_cluster_runs_them_in_order),
        cmocka_unit_test(what_waits_at_the_end_is_dropped),
        cmocka_unit_test(without_a_part_there_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
