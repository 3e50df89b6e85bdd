/* The daemon's words to the egress proxy: who joins with what, who leaves, and
 * what the daemon is answered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include "pool/egress/channel.h"
#include "proto/sockets/passing.h"
#include "runtime/egress/members.h"
#include "tests/support/base/descriptors.h"
#include "tests/support/base/heard.h"
#include "tests/support/base/journal.h"

static struct event_base *base;
static struct wp_egress_members *members;
static int daemon_end;
static int proxy_end;
static bool refuses;
static const char *failing; /* A function. */
static char egress;         /* Stands for one. */

enum wp_status __wrap_wp_egress_join(struct wp_egress *at, struct wp_str name,
                                     struct wp_str policy, struct wp_str by,
                                     int fd, struct wp_err *err);
void __wrap_wp_egress_leave(struct wp_egress *at, struct wp_str name);
int __wrap_event_base_loopbreak(struct event_base *at);
void *__wrap_calloc(size_t n, size_t size);
void *__real_calloc(size_t n, size_t size);
struct event *__wrap_event_new(struct event_base *at, evutil_socket_t fd,
                               short what, event_callback_fn on, void *arg);
struct event *__real_event_new(struct event_base *at, evutil_socket_t fd,
                               short what, event_callback_fn on, void *arg);
int __wrap_event_add(struct event *event, const struct timeval *tv);
int __real_event_add(struct event *event, const struct timeval *tv);

static bool
fails(const char *function)
{
    return failing != NULL && strcmp(failing, function) == 0;
}

/* It takes fd. */
enum wp_status
__wrap_wp_egress_join(struct wp_egress *at, struct wp_str name,
                      struct wp_str policy, struct wp_str by, int fd,
                      struct wp_err *err)
{
    assert_ptr_equal(at, &egress);
    journal("join [%.*s] [%.*s] [%.*s] blocking %d", (int)name.len, name.ptr,
            (int)policy.len, policy.ptr, (int)by.len, by.ptr,
            (fcntl(fd, F_GETFL) & O_NONBLOCK) == 0);
    journal_line();
    assert_int_equal(close(fd), 0);
    return refuses ? wp_err_set(err, WP_INVALID_ARGUMENT, "no policy") : WP_OK;
}

void
__wrap_wp_egress_leave(struct wp_egress *at, struct wp_str name)
{
    assert_ptr_equal(at, &egress);
    journal("leave [%.*s]", (int)name.len, name.ptr);
    journal_line();
}

int
__wrap_event_base_loopbreak(struct event_base *at)
{
    assert_ptr_equal(at, base);
    journal("the end");
    journal_line();
    /* Who ends no loop looks at the channel no more. */
    wp_egress_members_destroy(members);
    members = NULL;
    return 0;
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return fails("calloc") ? NULL : __real_calloc(n, size);
}

struct event *
__wrap_event_new(struct event_base *at, evutil_socket_t fd, short what,
                 event_callback_fn on, void *arg)
{
    return fails("event_new") ? NULL : __real_event_new(at, fd, what, on, arg);
}

int
__wrap_event_add(struct event *event, const struct timeval *tv)
{
    return fails("event_add") ? -1 : __real_event_add(event, tv);
}

static struct wp_egress_members *
create(void)
{
    return wp_egress_members_create(base, (struct wp_egress *)(void *)&egress,
                                    proxy_end);
}

static int
begin(void **state)
{
    int ends[2];

    (void)state;
    failing = NULL;
    refuses = false;
    base = event_base_new();
    assert_non_null(base);
    assert_int_equal(
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    daemon_end = ends[0];
    proxy_end = ends[1];
    members = create();
    assert_non_null(members);
    journal_drop();
    return 0;
}

static int
end(void **state)
{
    (void)state;
    wp_egress_members_destroy(members);
    members = NULL;
    assert_int_equal(close(proxy_end), 0);
    if (daemon_end >= 0) {
        assert_int_equal(close(daemon_end), 0);
    }
    event_base_free(base);
    return 0;
}

static void
turn(void)
{
    struct heard heard;
    const char *log;

    heard_begin(&heard);
    (void)event_base_loop(base, EVLOOP_NONBLOCK);
    log = heard_end(&heard);
    if (*log != '\0') {
        journal("log: %s", log);
        journal_line();
    }
}

/* A word, with a socket or without, and what is answered. */
static void
say(const void *word, size_t len, bool with_socket)
{
    const size_t before = descriptors_count();
    char bytes[64];
    int socket_ends[2] = {-1, -1};
    ssize_t n;

    if (with_socket) {
        assert_int_equal(
            socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socket_ends), 0);
    }
    assert_int_equal(
        wp_passing_send(daemon_end, word, len, socket_ends[0], MSG_NOSIGNAL),
        len);
    if (with_socket) {
        assert_int_equal(close(socket_ends[0]), 0);
        assert_int_equal(close(socket_ends[1]), 0);
    }
    turn();
    while ((n = recv(daemon_end, bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
        journal("answer ");
        journal_bytes(bytes, (size_t)n);
        journal_line();
    }
    assert_int_equal(descriptors_count(), before);
}

static void
sandboxes_join_and_leave(void **state)
{
    const char join = WP_EGRESS_JOIN;
    const char leave = WP_EGRESS_LEAVE;
    char word[64];

    (void)state;
#define WITH(letter, text, with_socket)                                        \
    (word[0] = (letter), memcpy(word + 1, text, sizeof(text)),                 \
     say(word, sizeof(text), with_socket))
    WITH(join, "one\0policy\0by", true);
    WITH(join, "one\0policy\0", true);
    WITH(join, "one\0policy", true);
    WITH(join, "one", true);
    WITH(join, "", true);
    WITH(leave, "one", false);
    WITH(leave, "", false);
    WITH(leave, "two", true);
    WITH('?', "what", false);
    WITH('?', "what", true);
    journal("-- without a socket");
    journal_line();
    WITH(join, "one\0policy\0by", false);
    WITH(join, "one\0policy", false);
    journal("-- refused");
    journal_line();
    refuses = true;
    WITH(join, "one\0policy\0by", true);
    WITH(join, "one\0policy", true);
    journal_is("join [one] [policy] [by] blocking 0\n"
               "answer None\n"
               "join [one] [policy] [] blocking 0\n"
               "join [one] [policy] [] blocking 0\n"
               "join [one] [] [] blocking 0\n"
               "join [] [] [] blocking 0\n"
               "leave [one]\n"
               "leave []\n"
               "leave [two]\n"
               "log: WARN a word of the daemon's that is not known|\n"
               "log: WARN a word of the daemon's that is not known|\n"
               "-- without a socket\n"
               "leave [one]\n"
               "log: WARN egress of a sandbox without a socket sandbox=one|\n"
               "answer Rone\n"
               "leave [one]\n"
               "log: WARN egress of a sandbox without a socket sandbox=one|\n"
               "-- refused\n"
               "join [one] [policy] [by] blocking 0\n"
               "log: ERROR no egress sandbox=one error=\"no policy\"|\n"
               "answer Rone\n"
               "join [one] [policy] [] blocking 0\n"
               "log: ERROR no egress sandbox=one error=\"no policy\"|\n");
}

static void
the_end_of_the_channel_ends_the_loop(void **state)
{
    (void)state;
    turn();
    assert_int_equal(close(daemon_end), 0);
    daemon_end = -1;
    turn();
    journal_is("the end\n");
}

static void
memory_may_lack(void **state)
{
    static const char *const steps[] = {"calloc", "event_new", "event_add"};

    (void)state;
    for (size_t i = 0; i < sizeof steps / sizeof(steps[0]); i++) {
        failing = steps[i];
        assert_null(create());
    }
    wp_egress_members_destroy(NULL);
}

int
main(void)
{
#define ONE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        ONE(sandboxes_join_and_leave),
        ONE(the_end_of_the_channel_ends_the_loop),
        ONE(memory_may_lack),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
