/* tests/unit/allocator/stores/redis/redis_stream_test.c - connecting to a
 * server, how long each step is waited for, and what is said when it fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "allocator/stores/redis/link/stream.h"
#include "allocator/stores/redis/link/sync.h"
#include "pool/base/clock.h"

#define SOME_NS (7 * WP_NS_PER_S)

int __real_getaddrinfo(const char *host, const char *port,
                       const struct addrinfo *wanted, struct addrinfo **out);
int __wrap_getaddrinfo(const char *host, const char *port,
                       const struct addrinfo *wanted, struct addrinfo **out);
int __real_connect(int fd, const struct sockaddr *at, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr *at, socklen_t len);
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
redisReader *__real_redisReaderCreate(void);
redisReader *__wrap_redisReaderCreate(void);
void __real_redisReaderFree(redisReader *reader);
void __wrap_redisReaderFree(redisReader *reader);

/* Where the name leads to: ports of 127.0.0.1. */
static struct {
    uint16_t ports[3];
    unsigned n;
    int error;
    char asked[64];
} names;

/* How connecting begins, when not 0, and what each wait after it gives. */
static int connect_errno;
static int poll_results[2]; /* Negative: an errno. */
static struct {
    unsigned n;
    int ms[2];
    short events[2];
    int fd;
} polls;

/* Memory lacks for these. */
static bool no_malloc;
static bool no_reader;
static int readers; /* That are not freed. */

void *
__wrap_malloc(size_t size)
{
    return no_malloc ? NULL : __real_malloc(size);
}

redisReader *
__wrap_redisReaderCreate(void)
{
    readers += !no_reader;
    return no_reader ? NULL : __real_redisReaderCreate();
}

void
__wrap_redisReaderFree(redisReader *reader)
{
    readers -= reader != NULL;
    __real_redisReaderFree(reader);
}

int
__wrap_getaddrinfo(const char *host, const char *port,
                   const struct addrinfo *wanted, struct addrinfo **out)
{
    *out = NULL;
    (void)snprintf(names.asked, sizeof names.asked, "%s %s %d %d %d", host,
                   port, wanted->ai_family, wanted->ai_socktype,
                   wanted->ai_flags);
    for (unsigned i = names.n; i-- > 0;) {
        struct addrinfo *rest = *out;
        char number[8];

        (void)snprintf(number, sizeof number, "%u", names.ports[i]);
        assert_int_equal(__real_getaddrinfo("127.0.0.1", number, wanted, out),
                         0);
        assert_null((*out)->ai_next);
        (*out)->ai_next = rest;
    }
    return names.error;
}

int
__wrap_connect(int fd, const struct sockaddr *at, socklen_t len)
{
    int flags = fcntl(fd, F_GETFL);
    int failed;
    int rc;

    if (connect_errno != 0) {
        errno = connect_errno;
        return -1;
    }
    /* What comes of it is known at once, however busy the machine is. */
    (void)fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
    rc = __real_connect(fd, at, len);
    failed = errno;
    (void)fcntl(fd, F_SETFL, flags);
    errno = failed;
    return rc;
}

int
__wrap_poll(struct pollfd *fds, nfds_t n, int ms)
{
    unsigned i = polls.n++;
    int result;

    assert_true(i < WP_ARRAY_LEN(poll_results));
    assert_int_equal(n, 1);
    polls.fd = fds->fd;
    polls.events[i] = fds->events;
    polls.ms[i] = ms;
    result = poll_results[i];
    errno = result < 0 ? -result : 0;
    return result < 0 ? -1 : result;
}

static void
forget_polls(int first, int second)
{
    memset(&polls, 0, sizeof polls);
    poll_results[0] = first;
    poll_results[1] = second;
}

static int
begin(void **state)
{
    (void)state;
    memset(&names, 0, sizeof names);
    connect_errno = 0;
    forget_polls(0, 0);
    return 0;
}

/* On a busy machine what was sent is not there at once. */
static void
await(int fd, short events)
{
    const struct timespec most = {.tv_sec = 60};
    struct pollfd there = {.fd = fd, .events = events};

    assert_int_equal(ppoll(&there, 1, &most, NULL), 1);
}

/* A port of 127.0.0.1: one that is heard of (listener), or one that is not. */
static uint16_t
take_port(bool heard, int *fd)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;

    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(*fd >= 0);
    assert_int_equal(bind(*fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(*fd, (struct sockaddr *)&at, &len), 0);
    if (heard) {
        assert_int_equal(listen(*fd, 8), 0);
    }
    return ntohs(at.sin_port);
}

static const struct wp_redis_server somewhere = {.host = "somewhere",
                                                 .port = 65535};

static int
option(int fd, int level, int name)
{
    socklen_t len = sizeof(int);
    int value = -1;

    assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
    return value;
}

static void
assert_opens(int64_t timeout_ns, struct wp_redis_stream *out)
{
    struct wp_err err = {.msg = ""};

    assert_int_equal(
        wp_redis_stream_open(&somewhere, NULL, timeout_ns, out, &err), WP_OK);
    assert_string_equal(err.msg, "");
    assert_true(out->fd >= 0);
    assert_null(out->session);
}

static void
test_the_first_address_that_takes_it(void **state)
{
    struct wp_redis_stream stream;
    int fds[3];
    int got;

    (void)state;
    names.n = 3;
    names.ports[0] = take_port(false, &fds[0]);
    names.ports[1] = take_port(true, &fds[1]);
    names.ports[2] = take_port(true, &fds[2]);
    assert_opens(SOME_NS, &stream);
    assert_string_equal(names.asked, "somewhere 65535 0 1 0");
    await(fds[1], POLLIN);
    got = accept(fds[1], NULL, NULL);
    assert_true(got >= 0);
    assert_int_equal(accept(fds[2], NULL, NULL), -1);
    assert_int_equal(errno, EAGAIN);

    assert_int_equal(option(stream.fd, IPPROTO_TCP, TCP_NODELAY), 1);
    assert_int_equal(option(stream.fd, SOL_SOCKET, SO_KEEPALIVE), 1);
    assert_int_equal(option(stream.fd, IPPROTO_TCP, TCP_KEEPIDLE), 15);
    assert_int_equal(option(stream.fd, IPPROTO_TCP, TCP_KEEPINTVL), 5);
    assert_int_equal(option(stream.fd, IPPROTO_TCP, TCP_KEEPCNT), 3);
    assert_int_equal(fcntl(stream.fd, F_GETFD), FD_CLOEXEC);
    assert_true((fcntl(stream.fd, F_GETFL) & O_NONBLOCK) != 0);

    wp_redis_stream_close(&stream);
    assert_int_equal(stream.fd, -1);
    wp_redis_stream_close(&stream); /* Harmless. */
    assert_int_equal(stream.fd, -1);
    (void)close(got);
    for (int i = 0; i < 3; i++) {
        (void)close(fds[i]);
    }
}

static void
assert_refused(const char *why)
{
    struct wp_redis_stream stream = {.fd = 99};
    struct wp_err err = {.msg = ""};

    assert_int_equal(
        wp_redis_stream_open(&somewhere, NULL, SOME_NS, &stream, &err),
        WP_UNAVAILABLE);
    assert_string_equal(err.msg, why);
    assert_int_equal(err.status, WP_UNAVAILABLE);
    assert_int_equal(stream.fd, -1);
    assert_null(stream.session);
}

static void
test_why_there_is_no_connection(void **state)
{
    struct wp_redis_server server = {.path = "/nowhere/at/all"};
    struct wp_redis_stream stream;
    struct wp_err err;
    int fds[2];

    (void)state;
    names.error = EAI_NONAME;
    assert_refused(gai_strerror(EAI_NONAME));
    names.error = 0;
    assert_refused("connect: Cannot assign requested address");
    names.n = 2;
    names.ports[0] = take_port(false, &fds[0]);
    names.ports[1] = take_port(false, &fds[1]);
    assert_refused("connect: Connection refused");
    connect_errno = ENETUNREACH;
    assert_refused("connect: Network is unreachable");
    assert_int_equal(
        wp_redis_stream_open(&server, NULL, SOME_NS, &stream, &err),
        WP_UNAVAILABLE);
    assert_string_equal(err.msg, "connect: Network is unreachable");
    connect_errno = 0;
    assert_int_equal(
        wp_redis_stream_open(&server, NULL, SOME_NS, &stream, &err),
        WP_UNAVAILABLE);
    assert_string_equal(err.msg, "connect: No such file or directory");

    names.n = 1;
    connect_errno = EINPROGRESS;
    forget_polls(0, 0);
    assert_refused("no answer in time");
    assert_int_equal(polls.n, 1);
    forget_polls(-EBADF, 0);
    assert_refused("connect: Bad file descriptor");
    assert_int_equal(polls.n, 1);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

/* Never less than what was said: a wait has whole milliseconds. */
static const struct {
    int64_t timeout_ns;
    int ms;
} waits[] = {
    {1, 1},
    {WP_NS_PER_MS - 1, 1},
    {WP_NS_PER_MS, 2},
    {SOME_NS, 7001},
    {(INT_MAX - 2) * WP_NS_PER_MS, INT_MAX - 1},
    {(INT_MAX - 1) * WP_NS_PER_MS, INT_MAX},
    {INT_MAX * WP_NS_PER_MS, INT_MAX},
    {INT64_MAX, INT_MAX},
};

static void
test_how_long_a_connection_is_waited_for(void **state)
{
    struct wp_redis_stream stream;
    int fd;

    (void)state;
    names.n = 1;
    names.ports[0] = take_port(true, &fd);
    connect_errno = EINPROGRESS;
    for (size_t i = 0; i < WP_ARRAY_LEN(waits); i++) {
        forget_polls(-EINTR, 1);
        assert_opens(waits[i].timeout_ns, &stream);
        assert_int_equal(polls.n, 2); /* A signal is no end. */
        assert_int_equal(polls.fd, stream.fd);
        for (int k = 0; k < 2; k++) {
            assert_int_equal(polls.ms[k], waits[i].ms);
            assert_int_equal(polls.events[k], POLLOUT);
        }
        wp_redis_stream_close(&stream);
    }
    (void)close(fd);
}

/* A connection, and the server's end of it. */
static struct wp_redis_sync *
reach(int64_t timeout_ns, int *server)
{
    struct wp_redis_sync *sync;
    struct wp_err err;
    int listener;

    names.n = 1;
    names.ports[0] = take_port(true, &listener);
    assert_int_equal(
        wp_redis_sync_reach(&somewhere, NULL, timeout_ns, &sync, &err), WP_OK);
    await(listener, POLLIN);
    *server = accept(listener, NULL, NULL);
    assert_true(*server >= 0);
    (void)close(listener);
    forget_polls(0, 0);
    assert_false(wp_redis_sync_is_broken(sync));
    return sync;
}

static const struct wp_str ping[] = {{"PING", 4}, {NULL, 0}};

static void
assert_asks_in_vain(struct wp_redis_sync *sync, const char *why)
{
    struct wp_err err = {.msg = ""};

    assert_null(wp_redis_sync_ask(sync, ping, 2, &err));
    assert_string_equal(err.msg, why);
    assert_int_equal(err.status, WP_UNAVAILABLE);
    assert_true(wp_redis_sync_is_broken(sync));
}

static void
test_how_long_an_answer_is_waited_for(void **state)
{
    int server;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(waits) * 2; i++) {
        int64_t timeout_ns = waits[i / 2].timeout_ns;
        struct wp_redis_sync *sync =
            reach(i % 2 == 0 ? timeout_ns : SOME_NS - 1, &server);

        if (i % 2 != 0) {
            wp_redis_sync_set_timeout(sync, timeout_ns);
        }
        forget_polls(-EINTR, 0);
        assert_asks_in_vain(sync, "redis: PING: no answer in time");
        assert_int_equal(polls.n, 2);
        assert_int_equal(polls.fd, wp_redis_sync_fd(sync));
        for (int k = 0; k < 2; k++) {
            assert_int_equal(polls.ms[k], waits[i / 2].ms);
            assert_int_equal(polls.events[k], POLLIN);
        }
        /* Nothing more is asked of it, and nothing waited for. */
        assert_asks_in_vain(sync, "redis: PING: no answer in time");
        assert_false(wp_redis_sync_take_in(sync));
        assert_int_equal(polls.n, 2);
        wp_redis_sync_close(sync);
        (void)close(server);
    }
}

static void
say(int server, int to, const char *text)
{
    assert_int_equal(send(server, text, strlen(text), MSG_NOSIGNAL),
                     strlen(text));
    await(to, POLLIN);
}

static void
test_what_a_connection_breaks_by(void **state)
{
    struct wp_redis_sync *sync;
    char heard[64] = "";
    struct wp_err err;
    int server;

    (void)state;
    sync = reach(SOME_NS, &server);
    poll_results[0] = -EBADF;
    assert_asks_in_vain(sync, "redis: PING: poll failed");
    assert_int_equal(polls.n, 1);
    assert_int_equal(recv(server, heard, 20, MSG_WAITALL), 20);
    assert_string_equal(heard, "*2\r\n$4\r\nPING\r\n$0\r\n\r\n");
    wp_redis_sync_close(sync);
    (void)close(server);

    sync = reach(SOME_NS, &server);
    say(server, wp_redis_sync_fd(sync), "?\r\n");
    assert_asks_in_vain(sync, "redis: PING: the answer is not what Redis says");
    wp_redis_sync_close(sync);
    (void)close(server);

    /* Whatever was said last is kept. */
    sync = reach(SOME_NS, &server);
    say(server, wp_redis_sync_fd(sync), "-NO not now\r\n");
    assert_int_equal(wp_redis_sync_send(sync, ping, 1, &err), WP_OK);
    assert_null(wp_redis_sync_ask(sync, ping, 1, &err));
    assert_string_equal(err.msg, "redis: PING: NO not now");
    assert_false(wp_redis_sync_is_broken(sync));
    assert_int_equal(shutdown(server, SHUT_WR), 0);
    await(wp_redis_sync_fd(sync), POLLRDHUP);
    assert_asks_in_vain(sync, "redis: PING: closed by the other side");
    wp_redis_sync_close(sync);
    (void)close(server);
}

static void
test_what_comes_unasked(void **state)
{
    struct redisReply *reply = (struct redisReply *)1;
    struct wp_redis_stream stream;
    struct wp_redis_sync *sync;
    const char *why = NULL;
    char bytes[8];
    int server;

    (void)state;
    sync = reach(SOME_NS, &server);
    assert_true(wp_redis_sync_take_in(sync)); /* Nothing, without a wait. */
    assert_true(wp_redis_sync_next(sync, &reply));
    assert_null(reply);
    say(server, wp_redis_sync_fd(sync), ":1\r\n:2\r\n:");
    assert_true(wp_redis_sync_take_in(sync));
    for (int i = 1; i <= 2; i++) {
        assert_true(wp_redis_sync_next(sync, &reply));
        assert_non_null(reply);
        assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
        assert_int_equal(reply->integer, i);
        freeReplyObject(reply);
    }
    assert_true(wp_redis_sync_next(sync, &reply));
    assert_null(reply);
    assert_int_equal(polls.n, 0);

    /* Its socket lives on without it. */
    stream = wp_redis_sync_take(sync);
    assert_int_equal(wp_redis_stream_receive(&stream, bytes, 8, &why),
                     WP_REDIS_AGAIN);
    assert_null(why);
    say(server, stream.fd, "abcdefghi");
    assert_int_equal(wp_redis_stream_receive(&stream, bytes, 8, &why), 8);
    assert_memory_equal(bytes, "abcdefgh", 8);
    assert_int_equal(wp_redis_stream_send(&stream, "xyz", 2), 2);
    assert_int_equal(recv(server, bytes, 8, 0), 2);
    assert_int_equal(wp_redis_stream_receive(&stream, bytes, 8, &why), 1);
    assert_null(why);
    (void)close(server);
    await(stream.fd, POLLRDHUP);
    errno = EAGAIN; /* Of something before. */
    assert_int_equal(wp_redis_stream_receive(&stream, bytes, 8, &why),
                     WP_REDIS_OVER);
    assert_string_equal(why, "closed by the other side");
    wp_redis_stream_close(&stream);
    stream.fd = open("/dev/null", O_RDONLY | O_CLOEXEC); /* No socket. */
    assert_int_equal(wp_redis_stream_receive(&stream, bytes, 8, &why),
                     WP_REDIS_OVER);
    assert_string_equal(why, "reading failed");
    assert_int_equal(wp_redis_stream_send(&stream, "x", 1), WP_REDIS_OVER);
    wp_redis_stream_close(&stream);
}

/* A socket that is full: what is sent waits for room, as long as for an
 * answer. */
static void
test_a_full_socket_is_waited_for(void **state)
{
    static char much[WP_NS_PER_MS * 16];
    struct wp_str word = {much, sizeof much};
    struct wp_redis_sync *sync;
    struct wp_err err;
    int server;

    (void)state;
    sync = reach(SOME_NS, &server);
    assert_int_equal(wp_redis_sync_send(sync, &word, 1, &err), WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, ": no answer in time"));
    assert_int_equal(polls.n, 1);
    assert_int_equal(polls.ms[0], 7001);
    assert_int_equal(polls.events[0], POLLOUT);
    wp_redis_sync_close(sync);
    (void)close(server);
}

static void
test_memory_lacks(void **state)
{
    const struct wp_redis_server server = {.host = "r", .port = 1};
    struct wp_redis_sync *sync;
    struct wp_err err;

    (void)state;
    readers = 0;
    for (int i = 0; i < 3; i++) {
        enum wp_status status;

        no_malloc = i != 1;
        no_reader = i != 0;
        status = wp_redis_sync_reach(&server, NULL, SOME_NS, &sync, &err);
        no_malloc = no_reader = false;
        assert_int_equal(status, WP_RESOURCE_EXHAUSTED);
        assert_string_equal(err.msg, "memory for a connection to redis");
        assert_int_equal(readers, 0);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_memory_lacks, begin),
        cmocka_unit_test_setup(test_the_first_address_that_takes_it, begin),
        cmocka_unit_test_setup(test_why_there_is_no_connection, begin),
        cmocka_unit_test_setup(test_how_long_a_connection_is_waited_for, begin),
        cmocka_unit_test_setup(test_how_long_an_answer_is_waited_for, begin),
        cmocka_unit_test_setup(test_what_a_connection_breaks_by, begin),
        cmocka_unit_test_setup(test_what_comes_unasked, begin),
        cmocka_unit_test_setup(test_a_full_socket_is_waited_for, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
