/* One call to the server in a Pod, which the test plays: what is sent, byte by
 * byte, and each way in which it ends. The trees are the test's. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "k8s/bind/bind_call.h"
#include "pool/base/clock.h"
#include "proto/checkout/trees_body.h"

#define PATIENCE_NS (60 * WP_NS_PER_S)
#define FINGERPRINT "0123456789abcdef"

enum {
    TREES_BYTES = 700001, /* More than lies ready for the kernel at once. */
    HEARD_MAX = 1 << 20,
};

static struct event_base *base;
static int listener;
static uint16_t port;
static int pod; /* The connection; -1. */
static char heard[HEARD_MAX];
static size_t heard_len;
static size_t tree_fails_at; /* SIZE_MAX: never. */
/* What came of the call. */
static uint32_t done;
static struct wp_bind_answer answer;

/* --- Instead of what reads trees --- */

static uint8_t
tree_byte(size_t i)
{
    return (uint8_t)(i * 31 >> 3);
}

uint64_t
wp_trees_body_size(const struct wp_bind_trees *trees)
{
    assert_ptr_equal(trees, &done);
    return TREES_BYTES;
}

ssize_t
wp_trees_body_read(struct wp_trees_body *body, void *out, size_t cap)
{
    size_t left = TREES_BYTES - (size_t)body->done;
    size_t n = left < cap ? left : cap;

    assert_ptr_equal(body->trees, &done);
    if (body->done + n > tree_fails_at) {
        errno = EIO;
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        ((uint8_t *)out)[i] = tree_byte((size_t)body->done + i);
    }
    body->done += n;
    return (ssize_t)n;
}

/* --- The time that it has --- */

static struct timeval within; /* The last that a timer was set for. */
static uint32_t armed;        /* How often. */

int __real_event_add(struct event *event, const struct timeval *after);
int __wrap_event_add(struct event *event, const struct timeval *after);
int
__wrap_event_add(struct event *event, const struct timeval *after)
{
    if (after != NULL) {
        within = *after;
        armed++;
    }
    return __real_event_add(event, after);
}

/* --- The world --- */

static int
set_up(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof address;

    (void)state;
    base = event_base_new();
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len),
                     0);
    port = ntohs(address.sin_port);
    pod = -1;
    heard_len = 0;
    tree_fails_at = SIZE_MAX;
    done = 0;
    armed = 0;
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    if (pod >= 0) {
        (void)close(pod);
    }
    (void)close(listener);
    event_base_free(base);
    return 0;
}

static void
on_done(void *ctx, const struct wp_bind_answer *its)
{
    assert_ptr_equal(ctx, &heard);
    done++;
    answer = *its;
}

static struct wp_bind_request
request(void)
{
    return (struct wp_bind_request){
        .ip = "127.0.0.1",
        .port = port,
        .token = "token",
        .within_ns = PATIENCE_NS,
        .done = on_done,
        .ctx = &heard,
    };
}

/* Of the parcel "parcel". */
static struct wp_bind_call *
start(struct wp_bind_request *asked)
{
    struct evbuffer *parcel = evbuffer_new();
    struct wp_bind_call *call;

    assert_non_null(parcel);
    assert_int_equal(evbuffer_add(parcel, "parcel", 6), 0);
    asked->parcel = asked->fingerprint != NULL ? parcel : NULL;
    call = wp_bind_call_start(base, asked);
    assert_int_equal(done, 0);
    evbuffer_free(parcel);
    return call;
}

/* Until so many bytes were heard, or it is done. */
static void
hear(size_t bytes)
{
    int64_t end = wp_clock_mono_ns(wp_clock_system()) + PATIENCE_NS;

    while (heard_len < bytes && done == 0) {
        ssize_t n;

        assert_true(wp_clock_mono_ns(wp_clock_system()) < end);
        assert_int_not_equal(event_base_loop(base, EVLOOP_NONBLOCK), -1);
        if (pod < 0) {
            pod = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        }
        n = pod < 0 ? -1
                    : recv(pod, heard + heard_len, sizeof heard - heard_len, 0);
        heard_len += n > 0 ? (size_t)n : 0;
    }
}

/* All of it, unless the call ends before. */
static void
say(const char *text)
{
    size_t len = strlen(text);

    while (len > 0 && done == 0) {
        ssize_t n = send(pod, text, len, MSG_NOSIGNAL);

        if (n > 0) {
            text += n;
            len -= (size_t)n;
        }
        assert_int_not_equal(event_base_loop(base, EVLOOP_NONBLOCK), -1);
    }
}

static void
wait_done(void)
{
    while (done == 0) {
        assert_int_not_equal(event_base_loop(base, EVLOOP_ONCE), -1);
    }
    assert_int_equal(done, 1);
}

static void
assert_answer(enum wp_status status, bool lost, const char *reason)
{
    assert_int_equal(answer.status, status);
    assert_int_equal(answer.lost, lost);
    assert_string_equal(answer.reason, reason);
}

/* --- What is sent --- */

static void
trees_go_before_the_parcel(void **state)
{
    struct wp_bind_request asked = request();
    char head[512];
    size_t len;

    (void)state;
    assert_int_equal(listen(listener, 1), 0);
    asked.fingerprint = FINGERPRINT;
    asked.identity = "who";
    asked.trees = (const struct wp_bind_trees *)(const void *)&done;
    assert_non_null(start(&asked));
    assert_int_equal(armed, 1);
    /* A millisecond for each 16 KiB of trees, besides. */
    assert_int_equal(within.tv_sec, 60);
    assert_int_equal(within.tv_usec, TREES_BYTES / 16384 * 1000);
    len = (size_t)snprintf(head, sizeof head,
                           "POST /v1/bind HTTP/1.1\r\n"
                           "Host: 127.0.0.1:%u\r\n"
                           "X-Warmpool-Token: token\r\n"
                           "X-Warmpool-Identity: who\r\n"
                           "X-Warmpool-Binding: " FINGERPRINT "\r\n"
                           "Content-Type: application/octet-stream\r\n"
                           "X-Warmpool-Trees: %d\r\n"
                           "Content-Length: %d\r\n"
                           "Connection: close\r\n\r\n",
                           (unsigned)port, TREES_BYTES, TREES_BYTES + 6);
    hear(len + TREES_BYTES + 6);
    assert_int_equal(heard_len, len + TREES_BYTES + 6);
    /* As long as it takes them its time begins anew. */
    assert_true(armed > 1);
    assert_int_equal(within.tv_sec, 60);
    assert_int_equal(within.tv_usec, TREES_BYTES / 16384 * 1000);
    assert_memory_equal(heard, head, len);
    for (size_t i = 0; i < TREES_BYTES; i++) {
        if ((uint8_t)heard[len + i] != tree_byte(i)) {
            fail_msg("byte %zu of the trees is another one", i);
        }
    }
    assert_memory_equal(heard + len + TREES_BYTES, "parcel", 6);
    say("HTTP/1.1 200 OK\r\nX-Warmpool-Binding: " FINGERPRINT
        "\r\nX-Warmpool-Identity: taken\r\nContent-Length: 2\r\n\r\n");
    wait_done();
    assert_answer(WP_OK, false, "");
}

static void
an_identity_goes_alone(void **state)
{
    struct wp_bind_request asked = request();
    char head[256];

    (void)state;
    assert_int_equal(listen(listener, 1), 0);
    asked.identity = "who";
    assert_non_null(start(&asked));
    assert_int_equal(within.tv_sec, 60);
    assert_int_equal(within.tv_usec, 0);
    (void)snprintf(head, sizeof head,
                   "POST /v1/identity HTTP/1.1\r\n"
                   "Host: 127.0.0.1:%u\r\n"
                   "X-Warmpool-Token: token\r\n"
                   "X-Warmpool-Identity: who\r\n"
                   "Content-Length: 0\r\n"
                   "Connection: close\r\n\r\n",
                   (unsigned)port);
    hear(strlen(head));
    assert_int_equal(heard_len, strlen(head));
    assert_memory_equal(heard, head, heard_len);
    /* An answer that comes in parts. */
    say("HTTP/1.1 200 OK\r\nX-Warmpool-Iden");
    for (int i = 0; i < 20; i++) {
        assert_int_not_equal(event_base_loop(base, EVLOOP_NONBLOCK), -1);
    }
    assert_int_equal(done, 0);
    say("tity: taken\r\nContent-Length: 0\r\n\r\n");
    wait_done();
    assert_answer(WP_OK, false, "");
}

/* --- How it ends --- */

static void
trees_that_cannot_be_read(void **state)
{
    struct wp_bind_request asked = request();

    (void)state;
    assert_int_equal(listen(listener, 1), 0);
    asked.fingerprint = FINGERPRINT;
    asked.trees = (const struct wp_bind_trees *)(const void *)&done;
    tree_fails_at = 0; /* Before anything is sent. */
    assert_null(start(&asked));
    tree_fails_at = TREES_BYTES - 1; /* The last piece. */
    assert_non_null(start(&asked));
    hear(HEARD_MAX);
    assert_int_equal(done, 1);
    assert_answer(WP_UNAVAILABLE, false,
                  "binding: what was fetched cannot be read");
}

static void
nobody_answers(void **state)
{
    struct wp_bind_request asked = request();

    (void)state;
    asked.fingerprint = FINGERPRINT;
    assert_non_null(start(&asked)); /* Nobody listens yet. */
    wait_done();
    assert_answer(WP_UNAVAILABLE, false,
                  "binding: the sandbox's server cannot be reached");
    done = 0;
    assert_int_equal(listen(listener, 1), 0);
    asked.within_ns = WP_NS_PER_MS;
    assert_non_null(start(&asked));
    wait_done();
    assert_answer(WP_DEADLINE_EXCEEDED, false,
                  "binding: the sandbox did not answer in time");
    done = 0;
    asked.ip = "nowhere";
    assert_null(start(&asked));
    asked.ip = "127.0.0.1";
    asked.within_ns = PATIENCE_NS;
    wp_bind_call_cancel(start(&asked));
    assert_int_not_equal(event_base_loop(base, EVLOOP_NONBLOCK), -1);
    assert_int_equal(done, 0);
}

/* Another server's word, or an older one's, is not taken for this one's. */
static void
what_was_brought_is_confirmed(void **state)
{
    static const struct {
        const char *answer;
        const char *reason;
        bool lost;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nX-Warmpool-Binding: 0123456789abcdee\r\n"
         "X-Warmpool-Identity: taken\r\nContent-Length: 0\r\n\r\n",
         "binding: the sandbox's server takes none", false},
        {"HTTP/1.1 200 OK\r\nX-Warmpool-Binding: " FINGERPRINT
         "\r\nContent-Length: 0\r\n\r\n",
         "binding: the sandbox's server takes no identity", true},
    };

    (void)state;
    assert_int_equal(listen(listener, 1), 0);
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_bind_request asked = request();

        asked.fingerprint = FINGERPRINT;
        asked.identity = "who";
        done = 0;
        heard_len = 0;
        assert_non_null(start(&asked));
        hear(1);
        say(rows[i].answer);
        wait_done();
        assert_answer(WP_FAILED_PRECONDITION, rows[i].lost, rows[i].reason);
        (void)close(pod);
        pod = -1;
    }
}

/* Of an answer that does not end so much is read as is looked at. */
static void
a_long_refusal_is_not_waited_for(void **state)
{
    struct wp_bind_request asked = request();
    char body[WP_BIND_ANSWER_MAX];

    (void)state;
    assert_int_equal(listen(listener, 1), 0);
    asked.fingerprint = FINGERPRINT;
    assert_non_null(start(&asked));
    hear(1);
    memset(body, ' ', sizeof body - 1);
    body[sizeof body - 1] = '\0';
    say("HTTP/1.1 422 X\r\nContent-Length: 1000000\r\n\r\n");
    say(body);
    wait_done();
    assert_int_equal(answer.status, WP_FAILED_PRECONDITION);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(trees_go_before_the_parcel),
        TEST(an_identity_goes_alone),
        TEST(trees_that_cannot_be_read),
        TEST(nobody_answers),
        TEST(a_long_refusal_is_not_waited_for),
        TEST(what_was_brought_is_confirmed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
