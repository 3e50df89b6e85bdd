/* A server on the product's transport with a service made for tests.
 *
 *   rpc_fixture [key=value ...]
 *
 * Keys are the fields of struct wp_rpc_config (listen may be repeated; a
 * principal is NAME,TENANT,admin|user) and grace_ms. When it serves it prints
 * "listening ADDRESS" for each listener and "ready"; SIGTERM makes it drain,
 * SIGUSR1 and SIGUSR2 flip its health off and on, SIGHUP prints statistics.
 *
 * Service test.Fixture; requests and replies are plain bytes:
 *   Echo     the request
 *   Whoami   "name|tenant|admin or user"
 *   Left     how many milliseconds the call has left
 *   Delay    the request, after as many milliseconds as its digits say, from
 *            another thread
 *   Deaf     as Delay, but takes no notice when its client leaves
 *   Wake     the request, and all that wait for their time are answered now
 *   Hang     never answers by itself
 *   Fail     RESOURCE_EXHAUSTED, "none ready", retry after 1500 ms
 *   Stream   request "COUNT SIZE": that many messages of that size; each starts
 *            with its number, and numbers are skipped while the reader is slow
 *   Forever  a message "n" whenever the last has left, without end
 *   Admin    needs the admin right
 *   Gather   answered when its thread flushes, with how many were until then */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "allocator/grpc/server.h"
#include "pool/base/list.h"
#include "pool/base/str.h"

enum {
    LIST_MAX = 32,
};

/* A call that waits: for its time, or for its client to leave. */
struct waiter {
    struct wp_list node;
    struct wp_call *call;
    int64_t due_ns;
    size_t len;
    char reply[64];
};

static pthread_mutex_t waiters_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t waiters_changed;
static struct wp_list waiters = {&waiters, &waiters}; /* Guarded. */
static bool waiters_end;                              /* Guarded. */
static _Atomic(long) stream_messages;

static void
reply_bytes(struct wp_call *call, const void *bytes, size_t len)
{
    uint8_t *buf = call->ops->reserve(call, len);

    if (buf == NULL) {
        call->ops->finish(call, WP_RESOURCE_EXHAUSTED, "reply too long", 0);
        return;
    }
    if (len > 0) {
        memcpy(buf, bytes, len);
    }
    call->ops->finish(call, WP_OK, NULL, 0);
}

static void
echo_start(struct wp_call *call, const uint8_t *request, size_t len)
{
    reply_bytes(call, request, len);
}

static void
whoami_start(struct wp_call *call, const uint8_t *request, size_t len)
{
    char text[256];
    int n = snprintf(text, sizeof(text), "%s|%s|%s", call->who.name,
                     call->who.tenant, call->who.admin ? "admin" : "user");

    (void)request;
    (void)len;
    reply_bytes(call, text, (size_t)n);
}

static void
left_start(struct wp_call *call, const uint8_t *request, size_t len)
{
    char text[32];
    int64_t left = call->deadline_ns - wp_clock_mono_ns(wp_clock_system());
    int n =
        snprintf(text, sizeof(text), "%lld", (long long)(left / WP_NS_PER_MS));

    (void)request;
    (void)len;
    reply_bytes(call, text, (size_t)n);
}

static _Thread_local struct wp_call *gathered[64];
static _Thread_local unsigned n_gathered;

static void
gather_start(struct wp_call *call, const uint8_t *request, size_t len)
{
    (void)request;
    (void)len;
    if (n_gathered == WP_ARRAY_LEN(gathered)) {
        call->ops->finish(call, WP_RESOURCE_EXHAUSTED, "never flushed", 0);
        return;
    }
    gathered[n_gathered++] = call;
}

static bool
wants_flush(void *ctx)
{
    (void)ctx;
    return n_gathered > 0;
}

static void
flush(void *ctx)
{
    char text[16];
    int n = snprintf(text, sizeof(text), "%u", n_gathered);

    (void)ctx;
    while (n_gathered > 0) {
        reply_bytes(gathered[--n_gathered], text, (size_t)n);
    }
}

static void
fail_start(struct wp_call *call, const uint8_t *request, size_t len)
{
    (void)request;
    (void)len;
    call->ops->finish(call, WP_RESOURCE_EXHAUSTED, "none ready",
                      1500 * WP_NS_PER_MS);
}

/* Whoever takes the waiter off the list finishes its call. */
static void
waiter_cancelled(struct wp_call *call)
{
    struct waiter *waiter = call->state;
    bool mine;

    (void)pthread_mutex_lock(&waiters_lock);
    mine = waiter->node.next != &waiter->node;
    wp_list_remove(&waiter->node);
    (void)pthread_mutex_unlock(&waiters_lock);
    if (mine) {
        call->ops->finish(call, WP_CANCELLED, NULL, 0);
    }
}

static void
wait_start(struct wp_call *call, const uint8_t *request, size_t len,
           int64_t due_ns)
{
    struct waiter *waiter = wp_arena_alloc(&call->arena, sizeof(*waiter));

    if (waiter == NULL || len > sizeof(waiter->reply)) {
        call->ops->finish(call, WP_INVALID_ARGUMENT, "too long", 0);
        return;
    }
    *waiter = (struct waiter){.call = call, .due_ns = due_ns, .len = len};
    if (len > 0) {
        memcpy(waiter->reply, request, len);
    }
    call->state = waiter;
    call->cancelled = waiter_cancelled;
    (void)pthread_mutex_lock(&waiters_lock);
    wp_list_push_back(&waiters, &waiter->node);
    (void)pthread_cond_signal(&waiters_changed);
    (void)pthread_mutex_unlock(&waiters_lock);
}

static void
delay_start(struct wp_call *call, const uint8_t *request, size_t len)
{
    uint64_t ms = 0;

    if (!wp_str_to_u64((struct wp_str){(const char *)request, len}, &ms) ||
        ms > 60000) {
        call->ops->finish(call, WP_INVALID_ARGUMENT,
                          "request: expected 0 to 60000", 0);
        return;
    }
    wait_start(call, request, len,
               wp_clock_mono_ns(wp_clock_system()) +
                   (int64_t)ms * WP_NS_PER_MS);
}

static void
deaf_start(struct wp_call *call, const uint8_t *request, size_t len)
{
    delay_start(call, request, len);
    call->cancelled = NULL;
}

static void
hang_start(struct wp_call *call, const uint8_t *request, size_t len)
{
    (void)request;
    (void)len;
    wait_start(call, NULL, 0, WP_TIME_NEVER);
}

static void
wake_start(struct wp_call *call, const uint8_t *request, size_t len)
{
    (void)pthread_mutex_lock(&waiters_lock);
    WP_LIST_FOREACH (node, &waiters) {
        WP_CONTAINER_OF(node, struct waiter, node)->due_ns = 0;
    }
    (void)pthread_cond_signal(&waiters_changed);
    (void)pthread_mutex_unlock(&waiters_lock);
    reply_bytes(call, request, len);
}

static struct waiter *
take_due(int64_t now_ns, int64_t *next_ns)
{
    *next_ns = now_ns + WP_NS_PER_S;
    WP_LIST_FOREACH (node, &waiters) {
        struct waiter *waiter = WP_CONTAINER_OF(node, struct waiter, node);

        if (waiter->due_ns <= now_ns) {
            wp_list_remove(node);
            return waiter;
        }
        if (waiter->due_ns < *next_ns) {
            *next_ns = waiter->due_ns;
        }
    }
    return NULL;
}

static void *
waiters_run(void *arg)
{
    (void)pthread_mutex_lock(&waiters_lock);
    while (!waiters_end) {
        int64_t next_ns;
        struct waiter *waiter =
            take_due(wp_clock_mono_ns(wp_clock_system()), &next_ns);
        struct timespec until = {.tv_sec = next_ns / WP_NS_PER_S,
                                 .tv_nsec = next_ns % WP_NS_PER_S};

        if (waiter == NULL) {
            (void)pthread_cond_timedwait(&waiters_changed, &waiters_lock,
                                         &until);
            continue;
        }
        (void)pthread_mutex_unlock(&waiters_lock);
        reply_bytes(waiter->call, waiter->reply, waiter->len);
        (void)pthread_mutex_lock(&waiters_lock);
    }
    (void)pthread_mutex_unlock(&waiters_lock);
    return arg;
}

/* Streams run on the call's own thread only. */
struct stream {
    uint64_t next;
    uint64_t count;
    uint64_t size;
};

static void
stream_go_on(struct wp_call *call)
{
    struct stream *stream = call->state;
    uint8_t *buf;

    if (stream->next == stream->count) {
        call->ops->finish(call, WP_OK, NULL, 0);
        return;
    }
    buf = call->ops->reserve(call, stream->size);
    if (buf == NULL) {
        call->ops->finish(call, WP_RESOURCE_EXHAUSTED, "reply too long", 0);
        return;
    }
    memset(buf, '.', stream->size);
    (void)snprintf((char *)buf, stream->size, "%llu",
                   (unsigned long long)stream->next);
    stream->next++;
    if (call->ops->send(call)) {
        atomic_fetch_add(&stream_messages, 1);
    }
}

static void
stream_cancelled(struct wp_call *call)
{
    call->ops->finish(call, WP_CANCELLED, NULL, 0);
}

static bool
parse_stream(char *text, struct stream *stream)
{
    char *size = text;
    const char *count = strsep(&size, " ");

    return wp_str_to_u64(wp_str_from(count), &stream->count) &&
           wp_str_to_u64(wp_str_from(size), &stream->size) &&
           stream->size >= 24;
}

static void
stream_start(struct wp_call *call, const uint8_t *request, size_t len)
{
    struct stream *stream = wp_arena_alloc(&call->arena, sizeof(*stream));
    char text[64];

    if (stream == NULL ||
        !wp_str_copy((struct wp_str){(const char *)request, len}, text,
                     sizeof(text)) ||
        !parse_stream(text, stream)) {
        call->ops->finish(call, WP_INVALID_ARGUMENT,
                          "request: expected COUNT SIZE, SIZE at least 24", 0);
        return;
    }
    stream->next = 0;
    call->state = stream;
    call->cancelled = stream_cancelled;
    call->writable = stream_go_on;
    stream_go_on(call);
}

static void
forever_start(struct wp_call *call, const uint8_t *request, size_t len)
{
    static const char endless[] = "4000000000 32";

    (void)request;
    (void)len;
    stream_start(call, (const uint8_t *)endless, sizeof(endless) - 1);
}

static const struct wp_method methods[] = {
    {"/test.Fixture/Echo", false, false, false, echo_start},
    {"/test.Fixture/Whoami", false, false, false, whoami_start},
    {"/test.Fixture/Left", false, false, false, left_start},
    {"/test.Fixture/Delay", false, false, false, delay_start},
    {"/test.Fixture/Deaf", false, false, false, deaf_start},
    {"/test.Fixture/Wake", false, false, false, wake_start},
    {"/test.Fixture/Hang", false, false, false, hang_start},
    {"/test.Fixture/Fail", false, false, false, fail_start},
    {"/test.Fixture/Stream", true, false, false, stream_start},
    {"/test.Fixture/Forever", true, false, false, forever_start},
    {"/test.Fixture/Gather", false, false, false, gather_start},
    {"/test.Fixture/Admin", false, false, true, echo_start},
};

static const struct wp_service service = {"test.Fixture", methods,
                                          WP_ARRAY_LEN(methods), NULL};

/* --- options --- */

static struct {
    struct wp_rpc_config config;
    const char *listen[LIST_MAX];
    uint32_t uids[LIST_MAX];
    uint32_t gids[LIST_MAX];
    struct wp_principal principals[LIST_MAX];
    int64_t grace_ms;
} options;

static void
die(const char *what, const char *more)
{
    (void)fprintf(stderr, "rpc_fixture: %s%s\n", what, more);
    exit(2);
}

static void
add_principal(const char *value)
{
    size_t i = options.config.access.n_principals++;
    char *copy = strdup(value);
    char *rest = copy;
    const char *name = strsep(&rest, ",");
    const char *tenant = strsep(&rest, ",");

    if (i >= LIST_MAX || tenant == NULL || rest == NULL) {
        die("principal: expected NAME,TENANT,admin|user: ", value);
    }
    options.principals[i] =
        (struct wp_principal){name, tenant, strcmp(rest, "admin") == 0};
}

static void
set_text(const char *key, const char *value)
{
    struct wp_rpc_config *c = &options.config;

    if (strcmp(key, "listen") == 0 && c->n_listen < LIST_MAX) {
        options.listen[c->n_listen++] = value;
    } else if (strcmp(key, "principal") == 0) {
        add_principal(value);
    } else if (strcmp(key, "tls_cert") == 0) {
        c->tls_cert = value;
    } else if (strcmp(key, "tls_key") == 0) {
        c->tls_key = value;
    } else if (strcmp(key, "tls_client_ca") == 0) {
        c->tls_client_ca = value;
    } else {
        die("unknown key: ", key);
    }
}

static void
set_option(char *arg)
{
    struct wp_rpc_config *c = &options.config;
    const struct {
        const char *key;
        uint32_t *u32;
        int64_t *ms;
    } numbers[] = {
        {"threads", &c->threads, NULL},
        {"calls_max", &c->calls_max, NULL},
        {"connections_max", &c->connections_max, NULL},
        {"peer_connections_max", &c->peer_connections_max, NULL},
        {"streams_per_connection_max", &c->streams_per_connection_max, NULL},
        {"receive_bytes_max", &c->receive_bytes_max, NULL},
        {"metadata_bytes_max", &c->metadata_bytes_max, NULL},
        {"unix_mode", &c->unix_mode, NULL},
        {"allow_uid", &options.uids[c->access.n_allow_uids % LIST_MAX], NULL},
        {"allow_gid", &options.gids[c->access.n_allow_gids % LIST_MAX], NULL},
        {"deadline_default_ms", NULL, &c->deadline_default_ns},
        {"keepalive_ms", NULL, &c->keepalive_ns},
        {"keepalive_timeout_ms", NULL, &c->keepalive_timeout_ns},
        {"connection_age_max_ms", NULL, &c->connection_age_max_ns},
        {"silent_ms", NULL, &c->silent_ns},
        {"grace_ms", NULL, &options.grace_ms},
    };
    char *value = strchr(arg, '=');
    uint64_t number = 0;

    if (value == NULL) {
        die("expected key=value: ", arg);
    }
    *value++ = '\0';
    if (!wp_str_to_u64(wp_str_from(value), &number)) {
        set_text(arg, value);
        return;
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(numbers); i++) {
        if (strcmp(arg, numbers[i].key) != 0) {
            continue;
        }
        if (numbers[i].u32 != NULL) {
            *numbers[i].u32 = (uint32_t)number;
        } else {
            *numbers[i].ms = (int64_t)number * WP_NS_PER_MS;
        }
        c->access.n_allow_uids +=
            numbers[i].u32 == &options.uids[c->access.n_allow_uids];
        c->access.n_allow_gids +=
            numbers[i].u32 == &options.gids[c->access.n_allow_gids];
        return;
    }
    if (strcmp(arg, "anonymous") == 0) {
        c->anonymous = number != 0;
        return;
    }
    if (strcmp(arg, "reflection") == 0) {
        c->reflection = number != 0;
        return;
    }
    die("unknown key: ", arg);
}

/* --- main --- */

static void
print_stats(const struct wp_rpc_server *server)
{
    struct wp_rpc_stats s;

    wp_rpc_server_stats(server, &s);
    (void)printf(
        "stats {\"started\": %llu, \"cancelled\": %llu, "
        "\"refused\": %llu, \"unknown\": %llu, \"accepted\": %llu, "
        "\"peers_refused\": %llu, \"reloads\": %llu, "
        "\"slowed\": %llu, \"cut\": %llu, "
        "\"in_flight\": %u, \"stream_messages\": %ld}\n",
        (unsigned long long)s.calls_started,
        (unsigned long long)s.calls_cancelled,
        (unsigned long long)s.calls_refused,
        (unsigned long long)s.calls_unknown,
        (unsigned long long)s.peers_accepted,
        (unsigned long long)s.peers_refused, (unsigned long long)s.tls_reloads,
        (unsigned long long)s.peers_slowed, (unsigned long long)s.peers_cut,
        s.calls_in_flight, atomic_load(&stream_messages));
    (void)fflush(stdout);
}

static void
serve(struct wp_rpc_server *server, const sigset_t *signals)
{
    for (size_t i = 0; i < options.config.n_listen; i++) {
        (void)printf("listening %s\n", wp_rpc_server_address(server, i));
    }
    (void)printf("ready\n");
    (void)fflush(stdout);
    for (;;) {
        int sig = 0;

        if (sigwait(signals, &sig) != 0 || sig == SIGTERM) {
            break;
        }
        if (sig == SIGHUP) {
            print_stats(server);
        } else {
            wp_rpc_server_set_serving(server, sig == SIGUSR2);
        }
    }
    (void)printf("drained %s\n", wp_rpc_server_drain(server, options.grace_ms)
                                     ? "clean"
                                     : "cancelled");
    print_stats(server);
}

int
main(int argc, char **argv)
{
    const struct wp_service *services[] = {&service};
    struct wp_rpc_server *server;
    pthread_condattr_t attr;
    pthread_t thread;
    struct wp_err err;
    sigset_t signals;

    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGHUP);
    (void)sigaddset(&signals, SIGUSR1);
    (void)sigaddset(&signals, SIGUSR2);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&waiters_changed, &attr);
    wp_rpc_config_init(&options.config);
    options.config.listen = options.listen;
    options.config.anonymous = true;
    options.config.access.allow_uids = options.uids;
    options.config.access.allow_gids = options.gids;
    options.config.access.principals = options.principals;
    options.config.wants_flush = wants_flush;
    options.config.flush = flush;
    for (int i = 1; i < argc; i++) {
        set_option(argv[i]);
    }
    server = wp_rpc_server_create(&options.config, services, 1, &err);
    if (server == NULL) {
        die("", err.msg);
    }
    if (pthread_create(&thread, NULL, waiters_run, NULL) != 0 ||
        wp_rpc_server_start(server, &err) != WP_OK) {
        die("start: ", err.msg);
    }
    serve(server, &signals);
    wp_rpc_server_stop(server);
    (void)pthread_mutex_lock(&waiters_lock);
    waiters_end = true;
    (void)pthread_cond_signal(&waiters_changed);
    (void)pthread_mutex_unlock(&waiters_lock);
    (void)pthread_join(thread, NULL);
    (void)printf("stopped\n");
    return 0;
}
