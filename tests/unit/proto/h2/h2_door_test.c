/* The door of the HTTP/2 server, with all that it calls replaced: listeners,
 * the loop, TLS, bounds and serving threads. Who is let in, who waits and who
 * is refused is compared whole with golden/door_*.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/h2/internal.h"
#include "proto/loop/loop.h"
#include "proto/sockets/accept.h"
#include "tests/support/base/heard.h"
#include "tests/support/base/journal.h"
#include "tests/support/pool/manual_clock.h"

enum {
    WORKERS = 3,
    STOP_FD = 99,
    LISTEN_FD = 500,
    CONN_FD = 1000,
    EVENTS_MAX = 128,
    ME = 4711, /* The user of this process. */
};

static struct wp_h2_server server;
static struct wp_h2_worker workers[WORKERS];
static struct wp_clock_manual hands;
static char base; /* Stands for a loop. */
static char ssl;

static struct {
    struct event *event;
    event_callback_fn on;
    void *arg;
} events[EVENTS_MAX];
static size_t n_events;

static const char *failing; /* A function. */
static unsigned fails_in;
static int listeners;   /* That were opened. */
static int connections; /* That were accepted. */
static int waiting;     /* Connections that are there. */
static bool exhausted;  /* Behind those: no descriptors. */
static enum wp_peer_verdict verdict;
static int64_t wait_ns;
static bool admits;
static uid_t peer_uid;
static enum wp_h2_handshake shaking;
static void *(*run_thread)(void *arg);
static int loops; /* Of the thread, until it is told to stop. */

/* --------------------------------------------------- what lies below */

struct wp_h2_conn *__wrap_wp_h2_conn_create(struct wp_h2_server *at, int fd);
void __wrap_wp_h2_conn_free(struct wp_h2_conn *conn);
void __wrap_wp_h2_worker_hand(struct wp_h2_worker *worker,
                              struct wp_h2_conn *conn);
struct wp_peer_limits *
__wrap_wp_peer_limits_create(const struct wp_peer_limits_config *config,
                             struct wp_err *err);
enum wp_peer_verdict __wrap_wp_peer_limits_enter(struct wp_peer_limits *limits,
                                                 struct wp_peer peer,
                                                 struct wp_peer_ticket *ticket);
int64_t __wrap_wp_peer_limits_wait_ns(struct wp_peer_limits *limits,
                                      struct wp_peer_ticket ticket,
                                      int64_t now_ns);
enum wp_accept __wrap_wp_accept_next(int listen_fd, int *fd,
                                     struct sockaddr_storage *peer);
enum wp_status __wrap_wp_listener_open(struct wp_listener *listener,
                                       const struct wp_address *address,
                                       uint32_t unix_mode, struct wp_err *err);
void __wrap_wp_listener_close(struct wp_listener *listener);
struct event_base *__wrap_wp_loop_base_create(void);
void __wrap_event_base_free(struct event_base *at);
int __wrap_event_assign(struct event *event, struct event_base *at,
                        evutil_socket_t fd, short what, event_callback_fn on,
                        void *arg);
int __wrap_event_add(struct event *event, const struct timeval *tv);
int __wrap_event_del(struct event *event);
int __wrap_event_base_loop(struct event_base *at, int flags);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int __wrap_setsockopt(int fd, int level, int name, const void *value,
                      socklen_t len);
uid_t __wrap_geteuid(void);
int __wrap_eventfd(unsigned initial, int flags);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*run)(void *arg), void *arg);
int __wrap_pthread_join(pthread_t thread, void **value);
int __wrap_pthread_setname_np(pthread_t thread, const char *name);
ssize_t __wrap_write(int fd, const void *bytes, size_t len);
ssize_t __real_write(int fd, const void *bytes, size_t len);
int __wrap_close(int fd);
int __real_close(int fd);
void *__wrap_calloc(size_t n, size_t size);
void *__real_calloc(size_t n, size_t size);

static void
fail_at(const char *function, unsigned nth)
{
    failing = function;
    fails_in = nth;
}

static bool
fails(const char *function)
{
    return failing != NULL && strcmp(failing, function) == 0 && fails_in > 0 &&
           --fails_in == 0;
}

/* The number that an event was given when it was assigned last. */
static int
number_of(const struct event *event)
{
    for (size_t i = n_events; i-- > 0;) {
        if (events[i].event == event) {
            return (int)i;
        }
    }
    return -1;
}

struct wp_h2_conn *
__wrap_wp_h2_conn_create(struct wp_h2_server *at, int fd)
{
    struct wp_h2_conn *conn;

    assert_ptr_equal(at, &server);
    if (fails("wp_h2_conn_create")) {
        return NULL;
    }
    conn = __real_calloc(1, sizeof *conn + 64);
    assert_non_null(conn);
    conn->server = at;
    conn->fd = fd;
    conn->begun_ns = hands.now_mono_ns;
    wp_list_init(&conn->node);
    return conn;
}

void
__wrap_wp_h2_conn_free(struct wp_h2_conn *conn)
{
    wp_list_remove(&conn->node);
    journal(" free(%d%s%s)", conn->fd, conn->counted ? ",counted" : "",
            conn->tls != NULL ? ",tls" : "");
    free(conn);
}

void
__wrap_wp_h2_worker_hand(struct wp_h2_worker *worker, struct wp_h2_conn *conn)
{
    journal(" hand(%d,%d%s%s begun %lld)", (int)(worker - workers), conn->fd,
            conn->counted ? ",counted" : "", conn->is_unix ? ",unix" : "",
            (long long)conn->begun_ns);
    assert_true(wp_list_empty(&conn->node));
    worker->n_conns++;
    free(conn);
}

struct wp_peer_limits *
__wrap_wp_peer_limits_create(const struct wp_peer_limits_config *config,
                             struct wp_err *err)
{
    journal("limits all %u peer %u privileged %u unix %u calls %u peer %u "
            "privileged %u",
            config->all_max, config->peer_max, config->privileged_kept,
            config->unix_kept, config->calls_max, config->peer_calls_max,
            config->privileged_calls_kept);
    journal_line();
    if (fails("limits")) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no limits");
        return NULL;
    }
    return (struct wp_peer_limits *)(void *)&server;
}

enum wp_peer_verdict
__wrap_wp_peer_limits_enter(struct wp_peer_limits *limits, struct wp_peer peer,
                            struct wp_peer_ticket *ticket)
{
    assert_ptr_equal(limits, &server);
    *ticket = (struct wp_peer_ticket){3, 4};
    journal(" enter(%d,%d,%llx)", (int)peer.kind, peer.privileged,
            (unsigned long long)peer.id);
    return verdict;
}

int64_t
__wrap_wp_peer_limits_wait_ns(struct wp_peer_limits *limits,
                              struct wp_peer_ticket ticket, int64_t now_ns)
{
    assert_ptr_equal(limits, &server);
    assert_int_equal(ticket.entry, 3);
    assert_true(now_ns == hands.now_mono_ns);
    return wait_ns;
}

enum wp_accept
__wrap_wp_accept_next(int listen_fd, int *fd, struct sockaddr_storage *peer)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_addr = {htonl(0x0a000001)}};

    if (waiting == 0) {
        journal(" none(%d)", listen_fd);
        errno = EMFILE;
        return exhausted ? WP_ACCEPT_EXHAUSTED : WP_ACCEPT_NONE;
    }
    waiting--;
    *fd = CONN_FD + connections++;
    memcpy(peer, &address, sizeof address);
    journal(" accept(%d)", listen_fd);
    return WP_ACCEPT_TAKEN;
}

enum wp_status
__wrap_wp_listener_open(struct wp_listener *listener,
                        const struct wp_address *address, uint32_t unix_mode,
                        struct wp_err *err)
{
    char text[128];

    journal("listen %s mode %o", wp_address_format(address, text, sizeof text),
            unix_mode);
    journal_line();
    if (fails("wp_listener_open")) {
        return wp_err_set(err, WP_UNAVAILABLE, "it is in use");
    }
    listener->fd = LISTEN_FD + listeners++;
    listener->address = *address;
    return WP_OK;
}

void
__wrap_wp_listener_close(struct wp_listener *listener)
{
    journal(" unlisten(%d)", listener->fd);
}

struct event_base *
__wrap_wp_loop_base_create(void)
{
    return fails("wp_loop_base_create") ? NULL
                                        : (struct event_base *)(void *)&base;
}

void
__wrap_event_base_free(struct event_base *at)
{
    assert_ptr_equal(at, &base);
    journal(" free-base");
}

int
__wrap_event_assign(struct event *event, struct event_base *at,
                    evutil_socket_t fd, short what, event_callback_fn on,
                    void *arg)
{
    assert_ptr_equal(at, &base);
    if (fails("event_assign")) {
        return -1;
    }
    assert_true(n_events < EVENTS_MAX);
    events[n_events].event = event;
    events[n_events].on = on;
    events[n_events].arg = arg;
    journal(" e%zu=(%d,%x)", n_events, (int)fd, (unsigned)what);
    n_events++;
    return 0;
}

int
__wrap_event_add(struct event *event, const struct timeval *tv)
{
    if (fails("event_add")) {
        return -1;
    }
    journal(" +e%d", number_of(event));
    if (tv != NULL) {
        journal("(%lld.%06ld)", (long long)tv->tv_sec, (long)tv->tv_usec);
    }
    return 0;
}

int
__wrap_event_del(struct event *event)
{
    journal(" -e%d", number_of(event));
    return 0;
}

/* In the third turn the end is asked for. */
int
__wrap_event_base_loop(struct event_base *at, int flags)
{
    assert_ptr_equal(at, &base);
    assert_int_equal(flags, EVLOOP_ONCE);
    if (++loops == 3) {
        events[0].on(STOP_FD, EV_READ, events[0].arg);
    }
    return 0;
}

int
__wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
    struct ucred cred = {.uid = peer_uid};

    assert_true(fd >= CONN_FD && level == SOL_SOCKET && name == SO_PEERCRED);
    assert_int_equal(*len, sizeof cred);
    if (fails("getsockopt")) {
        return -1;
    }
    memcpy(value, &cred, sizeof cred);
    return 0;
}

int
__wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
    assert_true(level == IPPROTO_TCP && name == TCP_NODELAY);
    assert_int_equal(len, sizeof(int));
    journal(" nodelay(%d,%d)", fd, *(const int *)value);
    return 0;
}

uid_t
__wrap_geteuid(void)
{
    return ME;
}

int
__wrap_eventfd(unsigned initial, int flags)
{
    assert_int_equal(initial, 0);
    assert_int_equal(flags, EFD_CLOEXEC | EFD_NONBLOCK);
    return fails("eventfd") ? -1 : STOP_FD;
}

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                      void *(*run)(void *arg), void *arg)
{
    assert_null(attr);
    assert_non_null(run);
    assert_ptr_equal(arg, server.door);
    journal(" thread");
    *thread = pthread_self();
    run_thread = run;
    return fails("pthread_create") ? EAGAIN : 0;
}

int
__wrap_pthread_join(pthread_t thread, void **value)
{
    assert_true(pthread_equal(thread, pthread_self()));
    assert_null(value);
    journal(" join");
    return 0;
}

int
__wrap_pthread_setname_np(pthread_t thread, const char *name)
{
    assert_true(pthread_equal(thread, pthread_self()));
    journal(" named %s", name);
    return 0;
}

ssize_t
__wrap_write(int fd, const void *bytes, size_t len)
{
    if (fd != STOP_FD) {
        return __real_write(fd, bytes, len);
    }
    journal(" stop(%zu)", len);
    if (fails("write")) {
        errno = EINTR;
        return -1;
    }
    return (ssize_t)len;
}

int
__wrap_close(int fd)
{
    if (fd != STOP_FD && fd < CONN_FD && fd > 2) {
        return __real_close(fd);
    }
    journal(" close(%d)", fd);
    return 0;
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return fails("calloc") ? NULL : __real_calloc(n, size);
}

/* TLS and the handler. */

static void *
tls_open(struct wp_tls *tls, int fd)
{
    assert_ptr_equal(tls, &ssl);
    journal(" tls-open(%d)", fd);
    return fails("tls_open") ? NULL : &ssl;
}

static enum wp_h2_handshake
tls_shake(void *tls)
{
    assert_ptr_equal(tls, &ssl);
    journal(" shake");
    return shaking;
}

static const struct wp_h2_tls_ops tls_ops = {.open = tls_open,
                                             .shake = tls_shake};

static bool
on_admit(void *ctx, const struct wp_h2_origin *origin, void *peer)
{
    assert_ptr_equal(ctx, &base);
    assert_non_null(peer);
    journal(" admit(%d,%d,%d)", origin->fd, origin->is_unix,
            origin->tls != NULL);
    return admits;
}

/* --------------------------------------------------------------- the rig */

static void
golden(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/door_%s.txt", name);
    journal_compare(path);
}

static void
say(const char *what)
{
    journal("-- %s", what);
    journal_line();
}

static void
counts(void)
{
    struct wp_h2_stats stats;

    wp_h2_door_stats(server.door, &stats);
    journal(" accepted %llu refused %llu starved %d",
            (unsigned long long)stats.accepted,
            (unsigned long long)stats.refused, (int)server.starved);
    journal_line();
}

/* An event happens, with its log. */
static void
happens(size_t i, short what)
{
    struct heard heard;
    const char *log;

    journal("e%zu:", i);
    heard_begin(&heard);
    events[i].on(-1, what, events[i].arg);
    log = heard_end(&heard);
    if (*log != '\0') {
        journal(" log: %s", log);
    }
    counts();
}

static const char *const loopback[] = {"127.0.0.1:80", "unix:/a/b"};
static const char *const open_to_all[] = {"127.0.0.1:80", "10.0.0.1:80"};

static enum wp_status
create(struct wp_err *err)
{
    enum wp_status status;

    n_events = 0;
    listeners = connections = waiting = 0;
    status = wp_h2_door_create(&server, err);
    journal_line();
    return status;
}

static void
destroy(void)
{
    journal("destroy:");
    wp_h2_door_destroy(server.door);
    server.door = NULL;
    journal_line();
}

/* e0 stops it, e1 ends a pause, e2 is the TCP gate and e3 the Unix one. */
static void
created(void)
{
    struct wp_err err;

    assert_int_equal(create(&err), WP_OK);
    journal_drop();
}

static int
begin(void **state)
{
    (void)state;
    wp_clock_manual_init(&hands, 1000, 0);
    memset(&server, 0, sizeof server);
    for (size_t i = 0; i < WORKERS; i++) {
        workers[i].n_conns = 0;
    }
    server.clock = &hands.clock;
    server.workers = workers;
    server.n_workers = WORKERS;
    server.config = (struct wp_h2_config){
        .listen = loopback,
        .n_listen = 2,
        .unix_mode = 0660,
        .tls = &tls_ops,
        .connections_max = 320,
        .peer_connections_max = 7,
        .calls_max = 160,
        .peer_calls_max = 9,
        .silent_ns = 2 * WP_NS_PER_S,
    };
    server.handler.ctx = &base;
    server.handler.admit = on_admit;
    failing = NULL;
    fails_in = 0;
    verdict = WP_PEER_ADMITTED;
    wait_ns = 0;
    admits = true;
    exhausted = false;
    peer_uid = 1;
    shaking = WP_H2_SHAKEN;
    journal_drop();
    return 0;
}

static int
end(void **state)
{
    (void)state;
    if (server.door != NULL) {
        destroy();
    }
    journal_drop();
    return 0;
}

/* ----------------------------------------------------------------- tests */

static void
it_is_made_and_ended(void **state)
{
    struct wp_err err;

    (void)state;
    assert_int_equal(create(&err), WP_OK);
    journal("%s %s", server.address[0], server.address[1]);
    journal_line();
    say("in a thread");
    assert_int_equal(wp_h2_door_start(server.door, &err), WP_OK);
    loops = 0;
    assert_null(run_thread(server.door));
    assert_int_equal(loops, 3);
    fail_at("write", 1);
    wp_h2_door_stop(server.door);
    journal_line();
    wp_h2_door_stop(server.door);
    journal_line();
    destroy();
    say("no thread");
    assert_int_equal(create(&err), WP_OK);
    fail_at("pthread_create", 1);
    assert_int_equal(wp_h2_door_start(server.door, &err),
                     WP_RESOURCE_EXHAUSTED);
    journal(" %s", err.msg);
    journal_line();
    destroy();
    say("in the loop of another");
    server.config.base = (struct event_base *)(void *)&base;
    assert_int_equal(create(&err), WP_OK);
    assert_int_equal(wp_h2_door_start(server.door, &err), WP_OK);
    destroy();
    wp_h2_door_destroy(NULL);
    golden("life");
}

static void
what_cannot_be_made_is_taken_down(void **state)
{
    static const char *const steps[] = {
        "calloc",       "limits",    "eventfd",          "wp_loop_base_create",
        "event_assign", "event_add", "wp_listener_open",
    };

    (void)state;
    for (size_t i = 0; i < sizeof steps / sizeof(steps[0]); i++) {
        for (unsigned nth = 1;; nth++) {
            struct wp_err err = {0};
            enum wp_status status;

            journal("-- %s %u", steps[i], nth);
            journal_line();
            fail_at(steps[i], nth);
            status = create(&err);
            journal("= %d %s", (int)status, err.msg);
            journal_line();
            destroy();
            if (status == WP_OK) {
                break;
            }
        }
    }
    golden("failures");
}

static void
clear_text_is_for_loopback(void **state)
{
    static const char *const bad[] = {"nowhere"};
    struct wp_err err = {0};

    (void)state;
    server.config.listen = open_to_all;
    journal("= %d", (int)create(&err));
    journal(" %s", err.msg);
    journal_line();
    destroy();
    server.config.clear_text_anywhere = true;
    journal("= %d", (int)create(&err));
    journal_line();
    destroy();
    server.config.clear_text_anywhere = false;
    server.tls = (struct wp_tls *)(void *)&ssl;
    journal("= %d", (int)create(&err));
    journal_line();
    destroy();
    server.config.listen = bad;
    server.config.n_listen = 1;
    journal("= %d", (int)create(&err));
    journal(" %s", err.msg);
    journal_line();
    golden("clear_text");
}

static void
connections_are_handed_to_who_has_the_fewest(void **state)
{
    (void)state;
    created();
    waiting = 5;
    happens(2, EV_READ);
    workers[0].n_conns = 10;
    workers[1].n_conns = 9;
    workers[2].n_conns = 9;
    waiting = 4;
    happens(3, EV_READ);
    say("as many as are taken before others get their turn");
    waiting = WP_ACCEPTS_PER_TURN + 1;
    journal_mute(true);
    happens(2, EV_READ);
    journal_mute(false);
    journal("%d wait", waiting);
    journal_line();
    golden("hands");
}

static void
who_is_there_is_told(void **state)
{
    static const uid_t users[] = {0, 1, ME, ME + 1};

    (void)state;
    created();
    for (size_t i = 0; i < sizeof users / sizeof(users[0]); i++) {
        peer_uid = users[i];
        waiting = 1;
        happens(3, EV_READ);
    }
    fail_at("getsockopt", 1);
    waiting = 1;
    happens(3, EV_READ);
    say("no memory");
    fail_at("wp_h2_conn_create", 1);
    waiting = 1;
    happens(2, EV_READ);
    say("not let in");
    admits = false;
    waiting = 1;
    happens(2, EV_READ);
    golden("peers");
}

static void
too_many_are_refused_with_one_word(void **state)
{
    (void)state;
    created();
    for (int i = 0; i < 2; i++) {
        verdict = i == 0 ? WP_PEER_OVER_ALL : WP_PEER_OVER_ITS_BOUND;
        waiting = 2;
        happens(2, EV_READ);
        verdict = WP_PEER_ADMITTED;
        waiting = 1;
        happens(2, EV_READ);
    }
    golden("bounds");
}

static void
who_comes_often_waits_for_a_turn(void **state)
{
    (void)state;
    created();
    wait_ns = WP_TIME_NEVER;
    waiting = 1;
    happens(2, EV_READ);
    wait_ns = 1500000000;
    waiting = 2;
    happens(2, EV_READ);
    say("its turn");
    hands.now_mono_ns = 7777;
    happens(4, EV_TIMEOUT);
    say("the other is refused at the end");
    destroy();
    golden("turns");
}

static void
handshakes_take_their_time(void **state)
{
    (void)state;
    created();
    server.tls = (struct wp_tls *)(void *)&ssl;
    say("at once");
    waiting = 1;
    happens(2, EV_READ);
    say("not on a Unix socket");
    waiting = 1;
    happens(3, EV_READ);
    say("it reads, it writes, and it is done");
    shaking = WP_H2_SHAKE_READS;
    waiting = 1;
    happens(2, EV_READ);
    hands.now_mono_ns += WP_NS_PER_S / 2;
    shaking = WP_H2_SHAKE_WRITES;
    happens(n_events - 1, EV_READ);
    shaking = WP_H2_SHAKEN;
    happens(n_events - 1, EV_WRITE);
    say("it fails");
    shaking = WP_H2_SHAKE_FAILED;
    waiting = 1;
    happens(2, EV_READ);
    say("it takes too long");
    shaking = WP_H2_SHAKE_READS;
    waiting = 1;
    happens(2, EV_READ);
    shaking = WP_H2_SHAKEN;
    happens(n_events - 1, EV_TIMEOUT);
    say("no memory");
    fail_at("tls_open", 1);
    waiting = 1;
    happens(2, EV_READ);
    say("one is under way at the end");
    shaking = WP_H2_SHAKE_READS;
    waiting = 1;
    happens(2, EV_READ);
    destroy();
    golden("handshakes");
}

static void
without_descriptors_nothing_is_accepted_for_a_moment(void **state)
{
    (void)state;
    created();
    exhausted = true;
    waiting = 1;
    happens(2, EV_READ);
    assert_true(server.starved);
    say("the moment is over, and there are none");
    happens(1, EV_TIMEOUT);
    say("there are again");
    exhausted = false;
    happens(1, EV_TIMEOUT);
    happens(2, EV_READ);
    say("the end is asked for");
    happens(0, EV_READ);
    golden("descriptors");
}

int
main(void)
{
#define ONE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        ONE(it_is_made_and_ended),
        ONE(what_cannot_be_made_is_taken_down),
        ONE(clear_text_is_for_loopback),
        ONE(connections_are_handed_to_who_has_the_fewest),
        ONE(who_is_there_is_told),
        ONE(too_many_are_refused_with_one_word),
        ONE(who_comes_often_waits_for_a_turn),
        ONE(handshakes_take_their_time),
        ONE(without_descriptors_nothing_is_accepted_for_a_moment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
