/* See h2_worker_rig.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "proto/loop/loop.h"
#include "tests/support/base/journal.h"
#include "tests/unit/proto/h2/h2_worker_rig.h"

enum {
    WAKE_FD = 700, /* Of the first thread; the next has the next. */
};

struct worker_rig rig;

/* ----------------------------------------------------- what lies below */

void __wrap_wp_h2_conn_begin(struct wp_h2_conn *conn);
void __wrap_wp_h2_conn_write(struct wp_h2_conn *conn);
void __wrap_wp_h2_conn_leave(struct wp_h2_conn *conn);
void __wrap_wp_h2_conn_close(struct wp_h2_conn *conn);
void __wrap_wp_h2_conn_free(struct wp_h2_conn *conn);
bool __wrap_wp_h2_stream_tell_sent(struct wp_h2_worker *worker);
enum wp_status __wrap_wp_h2_stream_pool_create(struct wp_h2_worker *worker,
                                               size_t n, struct wp_err *err);
void __wrap_wp_h2_stream_pool_destroy(struct wp_h2_worker *worker);
void __wrap_wp_h2_memory_free(struct wp_h2_memory *memory);
enum wp_status __wrap_wp_h2_session_set_up(struct wp_h2_server *at,
                                           struct wp_err *err);
void __wrap_wp_h2_session_tear_down(struct wp_h2_server *at);
enum wp_status __wrap_wp_h2_door_create(struct wp_h2_server *at,
                                        struct wp_err *err);
enum wp_status __wrap_wp_h2_door_start(struct wp_h2_door *at,
                                       struct wp_err *err);
void __wrap_wp_h2_door_stop(struct wp_h2_door *at);
void __wrap_wp_h2_door_destroy(struct wp_h2_door *at);
void __wrap_wp_h2_door_stats(const struct wp_h2_door *at,
                             struct wp_h2_stats *out);
void __wrap_wp_peer_limits_destroy(struct wp_peer_limits *at);
struct event_base *__wrap_wp_loop_base_create(void);
void __wrap_event_base_free(struct event_base *base);
int __wrap_event_assign(struct event *event, struct event_base *base,
                        evutil_socket_t fd, short what, event_callback_fn on,
                        void *arg);
int __wrap_event_add(struct event *event, const struct timeval *tv);
int __wrap_event_del(struct event *event);
int __wrap_event_base_loop(struct event_base *base, int flags);
int __wrap_eventfd(unsigned initial, int flags);
ssize_t __wrap_read(int fd, void *bytes, size_t len);
ssize_t __real_read(int fd, void *bytes, size_t len);
ssize_t __wrap_write(int fd, const void *bytes, size_t len);
ssize_t __real_write(int fd, const void *bytes, size_t len);
int __wrap_close(int fd);
int __real_close(int fd);
int __wrap_sched_getaffinity(pid_t pid, size_t len, cpu_set_t *cpus);
int __wrap_getrusage(int who, struct rusage *usage);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*run)(void *arg), void *arg);
int __wrap_pthread_join(pthread_t thread, void **value);
int __wrap_pthread_setname_np(pthread_t thread, const char *name);
void *__wrap_calloc(size_t n, size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);

void
worker_rig_fail(const char *function, unsigned nth)
{
    rig.failing = function;
    rig.fails_in = nth;
}

static bool
fails(const char *function)
{
    return rig.failing != NULL && strcmp(rig.failing, function) == 0 &&
           rig.fails_in > 0 && --rig.fails_in == 0;
}

/* The number of the thread that this is; -1: none. */
int
worker_rig_here(void)
{
    return wp_h2_worker_here() != NULL
               ? (int)wp_h2_worker_number(wp_h2_worker_here())
               : -1;
}

void
__wrap_wp_h2_conn_begin(struct wp_h2_conn *conn)
{
    journal(" begin(%d)", conn->fd);
    wp_list_push_back(&conn->worker->conns, &conn->node);
}

void
__wrap_wp_h2_conn_write(struct wp_h2_conn *conn)
{
    assert_false(conn->dirty);
    journal(" write(%d)", conn->fd);
}

void
__wrap_wp_h2_conn_leave(struct wp_h2_conn *conn)
{
    journal(" leave(%d)", conn->fd);
}

void
__wrap_wp_h2_conn_close(struct wp_h2_conn *conn)
{
    journal(" close(%d)", conn->fd);
    conn->next_dead = conn->worker->dead;
    conn->worker->dead = conn;
}

void
__wrap_wp_h2_conn_free(struct wp_h2_conn *conn)
{
    journal(" free(%d, %u left)", conn->fd, conn->worker->n_conns);
    wp_list_remove(&conn->node);
}

bool
__wrap_wp_h2_stream_tell_sent(struct wp_h2_worker *worker)
{
    journal(" tell(%u)", worker->number);
    return rig.told > 0 && rig.told-- > 0;
}

enum wp_status
__wrap_wp_h2_stream_pool_create(struct wp_h2_worker *worker, size_t n,
                                struct wp_err *err)
{
    journal(" streams(%u, %zu)", worker->number, n);
    return fails("streams") ? wp_err_set(err, WP_RESOURCE_EXHAUSTED, "streams")
                            : WP_OK;
}

void
__wrap_wp_h2_stream_pool_destroy(struct wp_h2_worker *worker)
{
    journal(" -streams(%u)", worker->number);
}

void
__wrap_wp_h2_memory_free(struct wp_h2_memory *memory)
{
    journal(" -memory(%u)",
            WP_CONTAINER_OF(memory, struct wp_h2_worker, memory)->number);
}

enum wp_status
__wrap_wp_h2_session_set_up(struct wp_h2_server *at, struct wp_err *err)
{
    assert_non_null(at);
    journal(" sessions");
    return fails("sessions")
               ? wp_err_set(err, WP_RESOURCE_EXHAUSTED, "sessions")
               : WP_OK;
}

void
__wrap_wp_h2_session_tear_down(struct wp_h2_server *at)
{
    assert_non_null(at);
    journal(" -sessions");
}

enum wp_status
__wrap_wp_h2_door_create(struct wp_h2_server *at, struct wp_err *err)
{
    journal(" door(%u)", at->n_workers);
    at->limits = (struct wp_peer_limits *)(void *)&rig.limits;
    if (fails("door")) {
        return wp_err_set(err, WP_UNAVAILABLE, "door");
    }
    at->door = (struct wp_h2_door *)(void *)&rig.door;
    return WP_OK;
}

enum wp_status
__wrap_wp_h2_door_start(struct wp_h2_door *at, struct wp_err *err)
{
    assert_ptr_equal(at, &rig.door);
    journal(" open-door");
    return fails("open-door") ? wp_err_set(err, WP_UNAVAILABLE, "door") : WP_OK;
}

void
__wrap_wp_h2_door_stop(struct wp_h2_door *at)
{
    assert_ptr_equal(at, &rig.door);
    journal(" shut-door");
}

void
__wrap_wp_h2_door_destroy(struct wp_h2_door *at)
{
    assert_true(at == NULL || at == (void *)&rig.door);
    journal(" -door%s", at == NULL ? "?" : "");
}

void
__wrap_wp_h2_door_stats(const struct wp_h2_door *at, struct wp_h2_stats *out)
{
    assert_ptr_equal(at, &rig.door);
    out->accepted += 5;
    out->refused += 6;
}

void
__wrap_wp_peer_limits_destroy(struct wp_peer_limits *at)
{
    assert_true(at == NULL || at == (void *)&rig.limits);
    journal(" -limits%s", at == NULL ? "?" : "");
}

struct event_base *
__wrap_wp_loop_base_create(void)
{
    return fails("base")
               ? NULL
               : (struct event_base *)(void *)&rig.bases[rig.n_bases++];
}

static int
number_of_base(const struct event_base *base)
{
    return (int)((const char *)(const void *)base - rig.bases);
}

void
__wrap_event_base_free(struct event_base *base)
{
    journal(" -base(%d)", number_of_base(base));
}

int
__wrap_event_assign(struct event *event, struct event_base *base,
                    evutil_socket_t fd, short what, event_callback_fn on,
                    void *arg)
{
    assert_int_equal(what, EV_READ | EV_PERSIST);
    if (fails("assign")) {
        return -1;
    }
    assert_true(rig.n_events < RIG_THREADS_MAX);
    rig.events[rig.n_events].event = event;
    rig.events[rig.n_events].on = on;
    rig.events[rig.n_events].arg = arg;
    rig.n_events++;
    journal(" event(%d, %d)", number_of_base(base), (int)fd);
    return 0;
}

int
__wrap_event_add(struct event *event, const struct timeval *tv)
{
    assert_ptr_equal(event, rig.events[rig.n_events - 1].event);
    assert_null(tv);
    journal(" +event");
    return fails("add") ? -1 : 0;
}

int
__wrap_event_del(struct event *event)
{
    journal(" -event(%u)",
            WP_CONTAINER_OF(event, struct wp_h2_worker, on_wake)->number);
    return 0;
}

/* The bytes of its eventfd wake a thread. */
void
worker_rig_wake(struct wp_h2_worker *worker)
{
    journal(" | %u wakes:", worker->number);
    rig.events[worker->number].on(WAKE_FD + (int)worker->number, EV_READ,
                                  rig.events[worker->number].arg);
}

/* Behind the last step the thread is told to end. */
int
__wrap_event_base_loop(struct event_base *base, int flags)
{
    struct wp_h2_worker *worker = &rig.server->workers[number_of_base(base)];
    const struct worker_step *step = &rig.steps[rig.step_at];

    assert_true(flags == EVLOOP_ONCE ||
                flags == (EVLOOP_ONCE | EVLOOP_NONBLOCK));
    journal(" %s", flags == EVLOOP_ONCE ? "sleep" : "look");
    assert_ptr_equal(wp_h2_worker_here(), worker);
    if (rig.step_at == rig.n_steps) {
        (void)atomic_fetch_or(&worker->orders, WP_H2_ORDER_END);
        worker_rig_wake(worker);
        return 0;
    }
    rig.step_at++;
    worker->events += step->events;
    rig.hands.now_mono_ns += step->ns;
    rig.wanted = step->wanted;
    rig.preempted += step->preemptions;
    return 0;
}

int
__wrap_eventfd(unsigned initial, int flags)
{
    assert_int_equal(initial, 0);
    assert_int_equal(flags, EFD_CLOEXEC | EFD_NONBLOCK);
    return fails("eventfd") ? -1 : WAKE_FD + rig.n_fds++;
}

static bool
is_ours(int fd)
{
    return fd >= WAKE_FD && fd < WAKE_FD + RIG_THREADS_MAX;
}

ssize_t
__wrap_read(int fd, void *bytes, size_t len)
{
    if (!is_ours(fd)) {
        return __real_read(fd, bytes, len);
    }
    assert_int_equal(len, sizeof(uint64_t));
    journal(" read(%d)", fd);
    return (ssize_t)len;
}

ssize_t
__wrap_write(int fd, const void *bytes, size_t len)
{
    uint64_t count;

    if (!is_ours(fd)) {
        return __real_write(fd, bytes, len);
    }
    assert_int_equal(len, sizeof count);
    memcpy(&count, bytes, sizeof count);
    journal(" wake(%d by %llu)", fd, (unsigned long long)count);
    if (fails("write")) {
        errno = EINTR;
        return -1;
    }
    if (fails("write for good")) {
        errno = EAGAIN;
        return -1;
    }
    return (ssize_t)len;
}

int
__wrap_close(int fd)
{
    if (!is_ours(fd)) {
        return __real_close(fd);
    }
    journal(" close-fd(%d)", fd);
    return 0;
}

int
__wrap_sched_getaffinity(pid_t pid, size_t len, cpu_set_t *cpus)
{
    assert_int_equal(pid, 0);
    assert_int_equal(len, sizeof *cpus);
    CPU_ZERO(cpus);
    for (int i = 0; i < rig.n_cpus; i++) {
        CPU_SET(2 * (size_t)i, cpus);
    }
    return fails("affinity") ? -1 : 0;
}

int
__wrap_getrusage(int who, struct rusage *usage)
{
    assert_int_equal(who, RUSAGE_THREAD);
    memset(usage, 0, sizeof *usage);
    usage->ru_nvcsw = 1000000;
    usage->ru_nivcsw = rig.preempted;
    return fails("rusage") ? -1 : 0;
}

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                      void *(*run)(void *arg), void *arg)
{
    assert_null(attr);
    if (fails("thread")) {
        return EAGAIN;
    }
    assert_true(rig.n_threads < RIG_THREADS_MAX);
    rig.threads[rig.n_threads].run = run;
    rig.threads[rig.n_threads].worker = arg;
    *thread = (pthread_t)(uintptr_t)(100 + rig.n_threads);
    journal(" thread(%u)", rig.threads[rig.n_threads++].worker->number);
    return 0;
}

/* The thread runs here, from its beginning to its end. */
int
__wrap_pthread_join(pthread_t thread, void **value)
{
    size_t i = (size_t)(uintptr_t)thread - 100;

    assert_null(value);
    journal(" join(%zu)", i);
    assert_null(rig.threads[i].run(rig.threads[i].worker));
    return 0;
}

int
__wrap_pthread_setname_np(pthread_t thread, const char *name)
{
    journal(" named(%d %s)", (int)(uintptr_t)thread - 100, name);
    return 0;
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return fails("calloc") ? NULL : __real_calloc(n, size);
}

/* Whole cache lines, and none too many; what was there before is in them. Behind
 * the last thread lies one that is not the server's. */
void *
__wrap_aligned_alloc(size_t alignment, size_t size)
{
    size_t needed = rig.config.threads * sizeof(struct wp_h2_worker);
    struct wp_h2_worker *memory;

    if (fails("aligned_alloc")) {
        return NULL;
    }
    assert_int_equal(alignment, 64);
    assert_true(size % 64 == 0 && size >= needed && size < needed + 64);
    size = (needed + sizeof *memory + 63) / 64 * 64;
    memory = __real_aligned_alloc(alignment, size);
    assert_non_null(memory);
    memset(memory, 0xa5, size);
    memory[rig.config.threads].wake_fd = WAKE_FD + RIG_THREADS_MAX - 1;
    return memory;
}

bool
worker_rig_is_behind(const struct wp_h2_worker *worker)
{
    return worker->wake_fd == WAKE_FD + RIG_THREADS_MAX - 1;
}

/* --- TLS and the handler --- */

static struct wp_tls *
tls_create(const struct wp_h2_config *at, struct wp_err *err)
{
    journal(" tls(%s)", at->tls_cert);
    if (fails("tls")) {
        (void)wp_err_set(err, WP_NOT_FOUND, "no certificate");
        return NULL;
    }
    return (struct wp_tls *)(void *)&rig.tls;
}

static void
tls_destroy(struct wp_tls *at)
{
    assert_ptr_equal(at, &rig.tls);
    journal(" -tls");
}

static uint64_t
tls_reloads(const struct wp_tls *at)
{
    assert_ptr_equal(at, &rig.tls);
    return 7;
}

static const struct wp_h2_tls_ops tls_ops = {
    .create = tls_create,
    .destroy = tls_destroy,
    .reloads = tls_reloads,
};

void
worker_rig_dirty(struct wp_h2_conn *conn)
{
    conn->dirty = true;
    conn->next_dirty = conn->worker->dirty;
    conn->worker->dirty = conn;
}

static void
on_turn(void *ctx, struct wp_h2_worker *worker, bool last)
{
    assert_ptr_equal(ctx, &rig.handler);
    assert_true(worker->settling);
    journal(" %s(%u)", last ? "last" : "turn", worker->number);
    if (worker == rig.touches) {
        rig.touches = NULL;
        worker_rig_dirty(rig.conns[0]);
    }
}

static void
on_message(void *ctx, struct wp_linked_message *message)
{
    assert_ptr_equal(ctx, &rig.handler);
    journal(" message(%d)",
            WP_CONTAINER_OF(message, struct wp_h2_conn, handed)->fd);
    message->next = message; /* It is the handler's again. */
}

static bool
on_wants_flush(void *ctx)
{
    assert_ptr_equal(ctx, &rig.wanted);
    return rig.wanted;
}

static void
on_flush(void *ctx)
{
    assert_ptr_equal(ctx, &rig.wanted);
    rig.wanted = false;
    journal(" flush");
}

int
worker_rig_begin(void **state)
{
    static const char *const listen[] = {"unix:/a"};

    (void)state;
    wp_clock_manual_init(&rig.hands, 1000, 0);
    rig.config = (struct wp_h2_config){
        .listen = listen,
        .n_listen = 1,
        .tls = &tls_ops,
        .threads = 2,
        .streams_per_thread = 33,
        .spin_ns = 100,
    };
    rig.handler = (struct wp_h2_handler){
        .ctx = &rig.handler,
        .turn = on_turn,
        .message = on_message,
        .wants_flush = on_wants_flush,
        .flush = on_flush,
        .flush_ctx = &rig.wanted,
    };
    rig.server = NULL;
    rig.n_fds = rig.n_bases = rig.n_threads = 0;
    rig.n_events = 0;
    rig.failing = NULL;
    rig.n_cpus = 1;
    rig.preempted = 0;
    rig.wanted = false;
    rig.told = 0;
    rig.touches = NULL;
    rig.n_steps = rig.step_at = 0;
    for (int i = 0; i < RIG_CONNS; i++) {
        rig.conns[i] = __real_calloc(1, sizeof *rig.conns[i]);
        assert_non_null(rig.conns[i]);
        rig.conns[i]->fd = i;
        wp_list_init(&rig.conns[i]->node);
    }
    journal_drop();
    return 0;
}

int
worker_rig_end(void **state)
{
    (void)state;
    wp_h2_server_destroy(rig.server);
    for (int i = 0; i < RIG_CONNS; i++) {
        free(rig.conns[i]);
    }
    journal_drop();
    return 0;
}
