/* tests/unit/allocator/grpc/grpc_life_test.c - the server between fakes of what
 * lies below it: what it asks of HTTP/2, what lacks when it is made, who its
 * peers are, how it leaves, and what it does between calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "pool/base/log.h"
#include "proto/tls/tls.h"
#include "tests/support/base/heard.h"
#include "tests/support/base/journal.h"
#include "tests/support/grpc/grpc_rig.h"
#include "tests/support/pool/manual_clock.h"

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_mmap(void *at, size_t len, int rights, int flags, int fd,
                  off_t offset);
void *__wrap_mmap(void *at, size_t len, int rights, int flags, int fd,
                  off_t offset);
long __real_sysconf(int name);
long __wrap_sysconf(int name);
int __wrap_nanosleep(const struct timespec *span, struct timespec *left);
struct wp_h2_server *
__real_wp_h2_server_create(const struct wp_h2_config *config,
                           const struct wp_h2_handler *handler,
                           struct wp_err *err);
struct wp_h2_server *
__wrap_wp_h2_server_create(const struct wp_h2_config *config,
                           const struct wp_h2_handler *handler,
                           struct wp_err *err);
bool __real_wp_h2_server_is_empty(const struct wp_h2_server *h2);
bool __wrap_wp_h2_server_is_empty(const struct wp_h2_server *h2);
void __real_wp_h2_server_leave(struct wp_h2_server *h2);
void __wrap_wp_h2_server_leave(struct wp_h2_server *h2);
void __real_wp_h2_server_hang_up(struct wp_h2_server *h2);
void __wrap_wp_h2_server_hang_up(struct wp_h2_server *h2);
void __wrap_wp_h2_server_stats(const struct wp_h2_server *h2,
                               struct wp_h2_stats *out);
struct wp_h2_worker *__real_wp_h2_worker_here(void);
struct wp_h2_worker *__wrap_wp_h2_worker_here(void);
void __wrap_wp_tls_names(const SSL *ssl,
                         bool (*visit)(void *ctx, struct wp_str name),
                         void *ctx);
enum wp_peer_right __wrap_wp_access_unix_peer(const struct wp_access *access,
                                              int fd, struct wp_identity *who,
                                              uint32_t *uid);

static struct wp_clock_manual mono;
static struct wp_rpc_server *server;

/* Of what is asked for while the server is made, the n-th fails; 0: none. */
static unsigned calloc_fails, mmap_fails;
static long processors; /* 0: the machine's. */

static bool journals_h2;
/* While the server leaves: its calls are those of the first thread, which end
 * after so many moments. 0: nothing is faked. */
static unsigned moments_left;
static bool leaves;
static bool is_here; /* This thread is the first worker. */
static const char *const *names;
static enum wp_peer_right right;

void *
__wrap_calloc(size_t n, size_t size)
{
    if (calloc_fails > 0 && --calloc_fails == 0) {
        errno = ENOMEM;
        return NULL;
    }
    return __real_calloc(n, size);
}

void *
__wrap_mmap(void *at, size_t len, int rights, int flags, int fd, off_t offset)
{
    if (mmap_fails > 0 && --mmap_fails == 0) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return __real_mmap(at, len, rights, flags, fd, offset);
}

long
__wrap_sysconf(int name)
{
    return processors != 0 ? processors : __real_sysconf(name);
}

struct wp_h2_server *
__wrap_wp_h2_server_create(const struct wp_h2_config *c,
                           const struct wp_h2_handler *handler,
                           struct wp_err *err)
{
    if (!journals_h2) {
        return __real_wp_h2_server_create(c, handler, err);
    }
    for (size_t i = 0; i < c->n_listen; i++) {
        journal("listen %s ", c->listen[i]);
    }
    journal("mode %o cert %s key %s ca %s openssl %d anywhere %d base %d",
            c->unix_mode, c->tls_cert, c->tls_key, c->tls_client_ca,
            c->tls == &wp_h2_tls_by_openssl, c->clear_text_anywhere,
            c->base != NULL);
    journal_line();
    journal("threads %u streams %u calls %u of a peer %u connections %u of a "
            "peer %u streams %u metadata %u",
            c->threads, c->streams_per_thread, c->calls_max, c->peer_calls_max,
            c->connections_max, c->peer_connections_max,
            c->streams_per_connection_max, c->metadata_bytes_max);
    journal_line();
    journal("keepalive %lld for %lld age %lld silent %lld spin %lld",
            (long long)c->keepalive_ns, (long long)c->keepalive_timeout_ns,
            (long long)c->connection_age_max_ns, (long long)c->silent_ns,
            (long long)c->spin_ns);
    journal_line();
    for (size_t i = 0; i < handler->n_head; i++) {
        journal("%.*s: %.*s ", (int)handler->head[i].name.len,
                handler->head[i].name.ptr, (int)handler->head[i].value.len,
                handler->head[i].value.ptr);
    }
    journal("flush %d", handler->wants_flush != NULL);
    journal_line();
    (void)wp_err_set(err, WP_UNAVAILABLE, "as the test wants");
    return NULL;
}

bool
__wrap_wp_h2_server_is_empty(const struct wp_h2_server *h2)
{
    return moments_left > 0 ? moments_left == 1
                            : __real_wp_h2_server_is_empty(h2);
}

int
__wrap_nanosleep(const struct timespec *span, struct timespec *left)
{
    (void)left;
    assert_int_equal(span->tv_sec, 0);
    assert_int_equal(span->tv_nsec, 2 * WP_NS_PER_MS);
    assert_true(moments_left > 1);
    moments_left--;
    wp_clock_manual_advance(&mono, span->tv_nsec);
    if (moments_left == 1) {
        atomic_store(&server->threads[0].in_flight, 0);
    }
    return 0;
}

static void
journal_at(const char *what)
{
    journal("%s at %lld ms", what,
            (long long)(mono.now_mono_ns / WP_NS_PER_MS));
    journal_line();
}

void
__wrap_wp_h2_server_leave(struct wp_h2_server *h2)
{
    if (leaves) {
        journal_at("leaves");
    } else {
        __real_wp_h2_server_leave(h2);
    }
}

void
__wrap_wp_h2_server_hang_up(struct wp_h2_server *h2)
{
    if (leaves) {
        journal_at("hangs up");
    } else {
        __real_wp_h2_server_hang_up(h2);
    }
}

void
__wrap_wp_h2_server_stats(const struct wp_h2_server *h2,
                          struct wp_h2_stats *out)
{
    assert_ptr_equal(h2, server->h2);
    *out = (struct wp_h2_stats){.accepted = 11,
                                .refused = 12,
                                .tls_reloads = 13,
                                .slowed = 14,
                                .cut = 15};
}

struct wp_h2_worker *
__wrap_wp_h2_worker_here(void)
{
    return is_here ? &server->h2->workers[0] : __real_wp_h2_worker_here();
}

void
__wrap_wp_tls_names(const SSL *ssl, bool (*visit)(void *ctx, struct wp_str),
                    void *ctx)
{
    assert_ptr_equal(ssl, names);
    for (size_t i = 0; names[i] != NULL; i++) {
        if (!visit(ctx, wp_str_from(names[i]))) {
            return;
        }
    }
}

enum wp_peer_right
__wrap_wp_access_unix_peer(const struct wp_access *access, int fd,
                           struct wp_identity *who, uint32_t *uid)
{
    assert_ptr_equal(access, &server->config.access);
    assert_int_equal(fd, 7);
    (void)snprintf(who->name, sizeof who->name, "uid:5");
    *uid = 5;
    return right;
}

static void
finish_at_once(struct wp_call *call, const uint8_t *request, size_t len)
{
    (void)request;
    (void)len;
    assert_non_null(call->ops->reserve(call, 0));
    call->ops->finish(call, WP_OK, NULL, 0);
}

static const struct wp_method methods[] = {
    {"/test.Life/Call", false, false, false, finish_at_once},
};
static const struct wp_service service = {"test.Life", methods, 1, NULL};
static const struct wp_service *const services[] = {&service, &service};

static struct wp_rpc_config
plain_config(void)
{
    static const char *const listen_at[] = {"127.0.0.1:0"};
    struct wp_rpc_config config;

    wp_rpc_config_init(&config);
    config.listen = listen_at;
    config.n_listen = 1;
    config.threads = 2;
    return config;
}

static int
end(void **state)
{
    (void)state;
    calloc_fails = mmap_fails = 0;
    processors = 0;
    journals_h2 = leaves = is_here = false;
    moments_left = 0;
    wp_rpc_server_stop(server);
    server = NULL;
    return 0;
}

static bool
never(void *ctx)
{
    (void)ctx;
    return false;
}

static void
nothing(void *ctx)
{
    (void)ctx;
}

static void
test_what_is_asked_of_http2(void **state)
{
    static const char *const listen_at[] = {"unix:/s", "127.0.0.1:7"};
    struct wp_rpc_config config;
    struct wp_err err;

    (void)state;
    wp_rpc_config_init(&config);
    config.listen = listen_at;
    config.n_listen = 2;
    config.unix_mode = 0640;
    config.tls_cert = "cert";
    config.tls_key = "key";
    config.tls_client_ca = "ca";
    config.threads = 3;
    config.calls_max = 1001;
    config.connections_max = 1002;
    config.peer_connections_max = 1003;
    config.streams_per_connection_max = 1004;
    config.metadata_bytes_max = 1025;
    config.keepalive_ns = 100 * WP_NS_PER_MS + 1;
    config.keepalive_timeout_ns = 100 * WP_NS_PER_MS + 2;
    config.connection_age_max_ns = 3;
    config.silent_ns = 10 * WP_NS_PER_MS + 4;
    config.spin_ns = 5;
    journals_h2 = true;
    assert_null(wp_rpc_server_create(&config, services, 1, &err));
    assert_string_equal(err.msg, "as the test wants");
    config.wants_flush = never;
    config.flush = nothing;
    assert_null(wp_rpc_server_create(&config, services, 1, &err));
    journal_compare(WP_TEST_GOLDEN "/life_asked.txt");
}

static void
test_what_lacks_when_it_is_made(void **state)
{
    struct wp_rpc_config config = plain_config();
    struct wp_err err;
    unsigned n = 0;

    (void)state;
    do {
        n++;
        err.msg[0] = '\0';
        calloc_fails = n;
        server = wp_rpc_server_create(&config, services, 1, &err);
        if (server == NULL) {
            journal("%u %s: %s", n, wp_status_name(err.status), err.msg);
            journal_line();
        }
    } while (server == NULL && n < 100);
    assert_true(calloc_fails > 0); /* It was never reached. */
    calloc_fails = 0;
    wp_rpc_server_stop(server);
    server = NULL;
    for (n = 1; n <= 2; n++) {
        mmap_fails = n;
        assert_null(wp_rpc_server_create(&config, services, 1, &err));
        journal("%s: %s", wp_status_name(err.status), err.msg);
        journal_line();
    }
    mmap_fails = 0;
    assert_null(wp_rpc_server_create(&config, services, 2, &err));
    journal("%s: %s", wp_status_name(err.status), err.msg);
    journal_line();
    journal_compare(WP_TEST_GOLDEN "/life_lacks.txt");
}

static void
test_threads_by_themselves(void **state)
{
    static const struct {
        long processors;
        uint32_t threads;
    } rows[] = {{1, 1}, {3, 1},    {4, 2},    {5, 2},
                {6, 3}, {127, 63}, {128, 64}, {130, 64}};
    struct wp_rpc_config config = plain_config();
    struct wp_err err;

    (void)state;
    config.threads = 0;
    config.calls_max = 16;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        journals_h2 = true;
        processors = rows[i].processors;
        assert_null(wp_rpc_server_create(&config, services, 1, &err));
        assert_non_null(strstr(journal_text(), "threads"));
        assert_int_equal(
            strtoul(strstr(journal_text(), "threads") + 8, NULL, 10),
            rows[i].threads);
        journal_drop();
    }
}

/* --- who is there --- */

static void
journal_peer(const struct wp_h2_origin *origin)
{
    struct wp_rpc_peer peer;
    bool admitted;

    memset(&peer, 0, sizeof peer);
    admitted = wp_rpc_peer_admit(server, origin, &peer);
    journal("%s %s '%s'%s%s%s%s", admitted ? "admitted" : "refused",
            peer.who.name, peer.who.tenant, peer.who.admin ? " admin" : "",
            peer.who.unread ? " unread" : "", peer.known ? " known" : "",
            peer.unproven ? " unproven" : "");
    journal_line();
}

static void
test_who_a_peer_is(void **state)
{
    static const struct wp_principal principals[] = {
        {"agent", "agents", true},
        {"anonymous", "all", false},
    };
    static const char *const two[] = {"other", "agent", NULL};
    static const char *const one[] = {"other", NULL};
    const struct wp_h2_origin plain = {.fd = 7};
    const struct wp_h2_origin local = {.fd = 7, .is_unix = true};
    struct wp_h2_origin tls = {.fd = 7};
    struct heard heard;

    (void)state;
    server = wp_grpc_rig_create(&service);
    for (unsigned i = 0; i < 3; i++) {
        server->config.anonymous = i == 1;
        server->config.access.principals = principals;
        server->config.access.n_principals = i == 2 ? 2 : 0;
        journal_peer(&plain);
        names = two;
        tls.tls = two;
        journal_peer(&tls);
        server->config.tls_client_ca = "ca";
        journal_peer(&plain);
        journal_peer(&tls);
        names = one;
        tls.tls = one;
        journal_peer(&tls);
        server->config.tls_client_ca = NULL;
    }
    server->config.access.n_principals = 1; /* Without the anonymous. */
    server->config.anonymous = true;
    journal_peer(&plain);
    wp_log_configure(WP_LOG_DEBUG, WP_LOG_TEXT);
    heard_begin(&heard);
    for (right = WP_PEER_REFUSED; right <= WP_PEER_KNOWN; right++) {
        journal_peer(&local);
    }
    journal("%s", heard_end(&heard));
    journal_line();
    wp_log_configure(WP_LOG_INFO, WP_LOG_TEXT);
    journal_compare(WP_TEST_GOLDEN "/life_peers.txt");
}

/* --- what is gathered --- */

static bool wants;

static bool
wants_flush(void *ctx)
{
    journal("wants? ");
    return *(const bool *)ctx;
}

static void
flush(void *ctx)
{
    assert_ptr_equal(ctx, &wants);
    journal("flush ");
}

static void
written(void *ctx)
{
    assert_ptr_equal(ctx, &wants);
    journal("written ");
}

static void
call_times(struct wp_h2_conn *conn, unsigned n)
{
    static uint32_t stream = 1;
    uint8_t bytes[512];

    for (unsigned i = 0; i < n; i++) {
        size_t len = wp_grpc_rig_head(bytes, stream, "/test.Life/Call");

        len += wp_grpc_rig_frame(bytes + len, 0, 1, stream, "\0\0\0\0\0", 5);
        assert_true(wp_grpc_rig_feed(server, conn, bytes, len));
        stream += 2;
    }
    journal("| %u ", server->threads[0].unflushed);
}

static void
test_what_busy_threads_gather_is_flushed(void **state)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                                  "\0\0\0\4\0\0\0\0\0";
    struct wp_rpc_config config = plain_config();
    struct wp_h2_conn *conn;
    struct wp_err err;

    (void)state;
    config.wants_flush = wants_flush;
    config.flush = flush;
    config.flush_ctx = &wants;
    server = wp_rpc_server_create(&config, services, 1, &err);
    assert_non_null(server);
    conn = wp_grpc_rig_connect(server);
    assert_true(wp_grpc_rig_feed(server, conn, (const uint8_t *)preface,
                                 sizeof preface - 1));
    call_times(conn, 31);
    call_times(conn, 1);
    wants = true;
    call_times(conn, 31);
    call_times(conn, 1);
    call_times(conn, 3);
    journal_line();
    /* Nothing else is to be done at once. */
    is_here = true;
    journal("%d ",
            server->h2->handler.wants_flush(server->h2->handler.flush_ctx));
    wants = false;
    journal("%d ",
            server->h2->handler.wants_flush(server->h2->handler.flush_ctx));
    server->h2->handler.flush(server->h2->handler.flush_ctx);
    journal("| %u", server->threads[0].unflushed);
    is_here = false;
    journal_line();
    server->config.written = written;
    server->config.written_ctx = &wants;
    wp_rpc_call_turn(server, &server->h2->workers[0], false);
    journal("| ");
    wp_rpc_call_turn(server, &server->h2->workers[0], true);
    journal_line();
    server->config.written = NULL;
    server->h2->handler.wants_flush = NULL; /* Its threads would ask, too. */
    wp_grpc_rig_close(server, conn);
    journal_compare(WP_TEST_GOLDEN "/life_flush.txt");
}

/* --- what it counts --- */

/* Of all its threads, and of its connections. */
static void
test_what_it_counts(void **state)
{
    struct wp_rpc_config config = plain_config();
    struct wp_rpc_stats stats;
    struct wp_err err;

    (void)state;
    server = wp_rpc_server_create(&config, services, 1, &err);
    assert_non_null(server);
    for (uint32_t i = 0; i < 2; i++) {
        struct wp_rpc_thread *thread = &server->threads[i];

        atomic_store(&thread->started, 100 + i);
        atomic_store(&thread->cancelled, 200 + i);
        atomic_store(&thread->refused, 300 + i);
        atomic_store(&thread->unknown, 400 + i);
        atomic_store(&thread->in_flight, 500 + i);
    }
    memset(&stats, 0xff, sizeof stats);
    wp_rpc_server_stats(server, &stats);
    assert_int_equal(stats.calls_started, 201);
    assert_int_equal(stats.calls_cancelled, 401);
    assert_int_equal(stats.calls_refused, 601);
    assert_int_equal(stats.calls_unknown, 801);
    assert_int_equal(stats.calls_in_flight, 1001);
    assert_int_equal(stats.peers_accepted, 11);
    assert_int_equal(stats.peers_refused, 12);
    assert_int_equal(stats.tls_reloads, 13);
    assert_int_equal(stats.peers_slowed, 14);
    assert_int_equal(stats.peers_cut, 15);
}

/* --- what is answered within a turn --- */

static struct wp_call *held[4];
static uint32_t n_held;

static void
hold(struct wp_call *call, const uint8_t *request, size_t len)
{
    (void)request;
    (void)len;
    assert_non_null(call->ops->reserve(call, 0));
    held[n_held++] = call;
}

static const struct wp_method hold_methods[] = {
    {"/test.Life/Hold", false, false, false, hold},
};
static const struct wp_service hold_service = {"test.Life", hold_methods, 1,
                                               NULL};

/* How many calls have ended, and how long they took. */
static void
has_taken(uint64_t count, int64_t ms)
{
    struct wp_rpc_duration took = {.count = 0};
    uint32_t cursor = 0;

    assert_int_equal(wp_rpc_server_duration(server, &cursor, &took), count > 0);
    assert_int_equal(took.count, count);
    assert_int_equal(took.sum_ns, ms * WP_NS_PER_MS);
}

/* On the serving thread itself: each is answered in the turn that follows, in
 * order, and the clock is read once for all of a turn. */
static void
test_answers_of_the_thread_itself(void **state)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                                  "\0\0\0\4\0\0\0\0\0";
    struct wp_h2_conn *conn;
    uint8_t bytes[4 * 512];
    size_t len = 0;

    (void)state;
    n_held = 0;
    server = wp_grpc_rig_create(&hold_service);
    wp_clock_manual_init(&mono, 1000 * WP_NS_PER_S, 0);
    server->clock = &mono.clock;
    conn = wp_grpc_rig_connect(server);
    assert_true(wp_grpc_rig_feed(server, conn, (const uint8_t *)preface,
                                 sizeof preface - 1));
    for (uint32_t i = 0; i < 4; i++) {
        len += wp_grpc_rig_head(bytes + len, 1 + 2 * i, "/test.Life/Hold");
        len += wp_grpc_rig_frame(bytes + len, 0, 1, 1 + 2 * i, "\0\0\0\0\0", 5);
    }
    is_here = true;
    assert_true(wp_grpc_rig_feed(server, conn, bytes, len));
    assert_int_equal(n_held, 4);
    wp_clock_manual_advance(&mono, 5 * WP_NS_PER_MS);
    for (size_t i = 0; i < 3; i++) {
        held[i]->ops->finish(held[i], WP_OK, NULL, 0);
    }
    assert_ptr_equal(
        WP_CONTAINER_OF(server->threads[0].first_post, struct wp_rpc_post,
                        link),
        &WP_CONTAINER_OF(held[0], struct wp_rpc_call, base)->finish_post);
    has_taken(0, 0);
    wp_h2_worker_settle(&server->h2->workers[0]);
    has_taken(3, 15);
    assert_int_equal(server->threads[0].in_flight, 1);
    assert_null(server->threads[0].first_post);
    assert_null(server->threads[0].last_post);
    wp_clock_manual_advance(&mono, 2 * WP_NS_PER_MS);
    held[3]->ops->finish(held[3], WP_OK, NULL, 0);
    wp_h2_worker_settle(&server->h2->workers[0]);
    has_taken(4, 22);
    assert_null(server->threads[0].last_post);
    assert_int_equal(server->threads[0].in_flight, 0);
    wp_grpc_rig_close(server, conn);
    is_here = false;
}

/* Another thread has ended the stream before what it sends is taken, and the
 * client has gone: the call ends once both have come. */
static void
test_an_end_before_what_is_sent(void **state)
{
    static const struct wp_method all[] = {
        {"/test.Life/Watch", true, false, false, hold},
    };
    static const struct wp_service streams = {"test.Life", all, 1, NULL};
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                                  "\0\0\0\4\0\0\0\0\0";
    struct wp_h2_conn *conn;
    struct wp_rpc_call *call;
    struct wp_rpc_stats stats;
    uint8_t bytes[512];
    size_t len;

    (void)state;
    n_held = 0;
    server = wp_grpc_rig_create(&streams);
    conn = wp_grpc_rig_connect(server);
    assert_true(wp_grpc_rig_feed(server, conn, (const uint8_t *)preface,
                                 sizeof preface - 1));
    len = wp_grpc_rig_head(bytes, 1, "/test.Life/Watch");
    len += wp_grpc_rig_frame(bytes + len, 0, 1, 1, "\0\0\0\0\0", 5);
    is_here = true;
    assert_true(wp_grpc_rig_feed(server, conn, bytes, len));
    assert_int_equal(n_held, 1);
    call = WP_CONTAINER_OF(held[0], struct wp_rpc_call, base);
    (void)atomic_fetch_or(&call->flags, WP_RPC_WRITING);
    held[0]->ops->finish(held[0], WP_ABORTED, NULL, 0);
    wp_h2_worker_settle(&server->h2->workers[0]);
    assert_true(call->finish_due);
    assert_false(call->done);
    wp_grpc_rig_close(server, conn);
    assert_true(call->closed);
    assert_int_equal(server->threads[0].in_flight, 1);
    call->send_post.run(&call->send_post);
    assert_true(call->done);
    assert_int_equal(atomic_load(&call->flags) & WP_RPC_WRITING, 0);
    assert_int_equal(server->threads[0].in_flight, 0);
    is_here = false;
    wp_rpc_server_stats(server, &stats);
    assert_int_equal(stats.calls_cancelled, 1);
}

/* Who is called how. */
static void
test_the_kinds_of_methods(void **state)
{
    static const struct wp_method all[] = {
        {"/test.Life/Call", false, false, false, finish_at_once},
        {"/test.Life/Watch", true, false, false, finish_at_once},
        {"/test.Life/Talk", true, true, true, finish_at_once},
    };
    static const struct wp_service of_all = {"test.Life", all, 3, NULL};

    (void)state;
    server = wp_grpc_rig_create(&of_all);
    for (uint32_t i = 0; i < server->n_methods; i++) {
        const struct wp_rpc_method *method = &server->methods[i];

        journal("%s of %s: %d, %zu, %u", method->api->path,
                method->service->name, method->kind, method->path_len,
                wp_rpc_method_find(server, wp_str_from(method->api->path)));
        journal_line();
    }
    journal_compare(WP_TEST_GOLDEN "/life_kinds.txt");
}

/* --- how it leaves --- */

/* With so many calls, of which the last ends after so many moments of 2 ms. */
static void
drain(uint32_t calls, unsigned moments, int64_t grace_ns)
{
    struct heard heard;
    struct wp_err err;
    bool all;

    server = wp_grpc_rig_create(&service);
    wp_clock_manual_init(&mono, 0, 0);
    server->clock = &mono.clock;
    assert_int_equal(wp_rpc_server_start(server, &err), WP_OK);
    atomic_store(&server->threads[0].in_flight, calls);
    moments_left = 1 + moments;
    leaves = true;
    heard_begin(&heard);
    all = wp_rpc_server_drain(server, grace_ns);
    journal("%s", heard_end(&heard));
    journal_at(all ? "all" : "not all");
    leaves = false;
    moments_left = 0;
    /* What was faked. */
    wp_h2_server_leave(server->h2);
    wp_h2_server_hang_up(server->h2);
    wp_rpc_server_stop(server);
    server = NULL;
}

static void
test_how_it_leaves(void **state)
{
    (void)state;
    wp_log_configure(WP_LOG_INFO, WP_LOG_TEXT);
    drain(0, 0, 0);
    drain(3, 5, 10 * WP_NS_PER_MS);
    drain(3, 6, 10 * WP_NS_PER_MS);
    drain(0, 2, 1 * WP_NS_PER_MS); /* Connections only. */
    drain(2, 6000, -WP_NS_PER_S);
    journal_compare(WP_TEST_GOLDEN "/life_leaves.txt");
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, end)
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_asked_of_http2),
        TEST(test_what_lacks_when_it_is_made),
        TEST(test_threads_by_themselves),
        TEST(test_who_a_peer_is),
        TEST(test_what_busy_threads_gather_is_flushed),
        TEST(test_answers_of_the_thread_itself),
        TEST(test_an_end_before_what_is_sent),
        TEST(test_the_kinds_of_methods),
        TEST(test_what_it_counts),
        TEST(test_how_it_leaves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
