/* tests/unit/allocator/stores/redis/redis_reopen_test.c - a set of links comes,
 * ends, and leads to another server: without what its threads do, which are the
 * test's; and writers whose link breaks or has no room. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "allocator/stores/redis/link/link_impl.h"
#include "pool/base/clock.h"
#include "tests/support/base/descriptors.h"

enum {
    KEY_MAX = 512,
    STEPS_MAX = 60,
};

static int fails_in; /* The step of that number fails, from 1. */
static const char *failed;
static bool counts;   /* Steps count only then. */
static sem_t ends[2]; /* The reading and the connecting thread go on. */
static _Atomic(struct wp_redis_links *) seen; /* By the threads. */
static char ended[512];
static size_t ended_len;
static char names[256]; /* Of threads. */
static size_t names_len;
static int n_locked;
static uint32_t watched[4]; /* What links were to be heard of. */
static uint32_t n_watched;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __real_epoll_create1(int flags);
int __wrap_epoll_create1(int flags);
int __real_eventfd(unsigned value, int flags);
int __wrap_eventfd(unsigned value, int flags);
int __real_epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*run)(void *ctx), void *ctx);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*run)(void *ctx), void *ctx);
void *__wrap_wp_redis_reader_run(void *arg);
void *__wrap_wp_redis_connector_run(void *arg);

int __wrap_pthread_setname_np(pthread_t thread, const char *name);
int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __real_pthread_mutex_trylock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *lock);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);
void __wrap_wp_random_bytes(void *out, size_t len);

/* Only the test's own thread locks: the others do nothing. */
int
__wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    n_locked++;
    return __real_pthread_mutex_lock(lock);
}

int
__wrap_pthread_mutex_trylock(pthread_mutex_t *lock)
{
    int error = __real_pthread_mutex_trylock(lock);

    n_locked += error == 0;
    return error;
}

int
__wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    assert_true(n_locked-- > 0);
    return __real_pthread_mutex_unlock(lock);
}

int
__wrap_pthread_setname_np(pthread_t thread, const char *name)
{
    (void)thread;
    names_len += (size_t)snprintf(names + names_len, sizeof names - names_len,
                                  "%s ", name);
    assert_true(names_len < sizeof names);
    return 0;
}

void
__wrap_wp_random_bytes(void *out, size_t len)
{
    memset(out, 0x5a, len);
}

static bool
fails_now(const char *what, int error)
{
    if (!counts || fails_in == 0 || --fails_in > 0) {
        return false;
    }
    failed = what;
    errno = error;
    return true;
}

void *
__wrap_malloc(size_t size)
{
    return fails_now("malloc", ENOMEM) ? NULL : __real_malloc(size);
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return fails_now("calloc", ENOMEM) ? NULL : __real_calloc(n, size);
}

void *
__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails_now("aligned_alloc", ENOMEM)
               ? NULL
               : __real_aligned_alloc(alignment, size);
}

int
__wrap_epoll_create1(int flags)
{
    return fails_now("epoll_create1", EMFILE) ? -1
                                              : __real_epoll_create1(flags);
}

int
__wrap_eventfd(unsigned value, int flags)
{
    return fails_now("eventfd", EMFILE) ? -1 : __real_eventfd(value, flags);
}

int
__wrap_epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event)
{
    if (op == EPOLL_CTL_MOD && n_watched < WP_ARRAY_LEN(watched)) {
        watched[n_watched++] = event->events;
    }
    return fails_now("epoll_ctl", ENOSPC)
               ? -1
               : __real_epoll_ctl(epoll_fd, op, fd, event);
}

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                      void *(*run)(void *ctx), void *ctx)
{
    if (fails_now("pthread_create", EAGAIN)) {
        return EAGAIN;
    }
    return __real_pthread_create(thread, attr, run, ctx);
}

static void *
run_until(struct wp_redis_links *links, sem_t *end)
{
    seen = links;
    (void)sem_wait(end);
    return NULL;
}

void *
__wrap_wp_redis_reader_run(void *arg)
{
    return run_until(arg, &ends[0]);
}

void *
__wrap_wp_redis_connector_run(void *arg)
{
    return run_until(arg, &ends[1]);
}

static void
on_end(void *ctx, void *call, enum wp_status status)
{
    int n =
        snprintf(ended + ended_len, sizeof ended - ended_len, "%s %s %s\n",
                 (const char *)ctx, (const char *)call, wp_status_name(status));

    assert_in_range(n, 1, sizeof ended - ended_len - 1);
    ended_len += (size_t)n;
}

static int
setup(void **state)
{
    (void)state;
    fails_in = 0;
    counts = false;
    ended_len = 0;
    ended[0] = '\0';
    names[0] = '\0';
    names_len = 0;
    n_locked = 0;
    n_watched = 0;
    return sem_init(&ends[0], 0, 0) == 0 && sem_init(&ends[1], 0, 0) == 0 ? 0
                                                                          : -1;
}

static void
let_end(void)
{
    (void)sem_post(&ends[0]);
    (void)sem_post(&ends[1]);
}

static char ctx[] = "ctx";

static enum wp_status
create_with(uint32_t pending_max, struct wp_str key, uint32_t n,
            struct wp_redis_links **out, struct wp_err *err)
{
    const struct wp_redis_hooks hooks = {.ctx = ctx, .on_end = on_end};
    const struct wp_redis_config config = {.server = {.host = "h", .port = 1},
                                           .pending_max = pending_max};

    return wp_redis_links_create(&config, &hooks, key, n, out, err);
}

static struct wp_redis_links *
create(uint32_t n)
{
    struct wp_redis_links *links = NULL;
    struct wp_err err;

    assert_int_equal(create_with(5, WP_STR("key"), n, &links, &err), WP_OK);
    return links;
}

/* Of each step the first that fails ends it, and leaves nothing. */
static void
test_a_set_without_means(void **state)
{
    static const char *const steps[] = {
        "calloc", "epoll_create1", "eventfd", "aligned_alloc", "epoll_ctl",
    };
    struct wp_redis_links *links = NULL;
    size_t before = descriptors_count();
    int threads = 0;
    int n = 0;

    (void)state;
    for (;;) {
        struct wp_err err = {.msg = ""};
        enum wp_status status;

        assert_in_range(++n, 1, STEPS_MAX);
        failed = "nothing";
        fails_in = n;
        counts = true;
        /* A thread that was started is to end at once. */
        let_end();
        status = create_with(5, WP_STR("key"), 2, &links, &err);
        counts = false;
        if (status == WP_OK) {
            assert_string_equal(failed, "nothing");
            break;
        }
        assert_int_equal(status, WP_RESOURCE_EXHAUSTED);
        assert_int_equal(err.status, WP_RESOURCE_EXHAUSTED);
        assert_null(links);
        assert_int_equal(descriptors_count(), before);
        if (n <= (int)WP_ARRAY_LEN(steps)) {
            assert_string_equal(failed, steps[n - 1]);
        }
        threads += strcmp(failed, "pthread_create") == 0;
        if (n == 1) {
            assert_string_equal(err.msg, "memory for redis");
        } else {
            const char *whole = "memory, descriptors and threads for 2"
                                " connections to redis: ";

            assert_memory_equal(err.msg, whole, strlen(whole));
        }
    }
    assert_int_equal(threads, 2);
    /* Who was started before the other could not be; and those of now. */
    assert_string_equal(names, "redis-read redis-read redis-connect ");
    assert_int_equal(n_locked, 0);
    wp_redis_links_destroy(links);
    assert_int_equal(descriptors_count(), before);
    wp_redis_links_destroy(NULL);
}

static void
test_what_a_set_begins_with(void **state)
{
    static const uint32_t most[][2] = {{1, 1}, {2, 2}, {3, 4}, {8, 8}, {9, 16}};
    char key[KEY_MAX];
    struct wp_redis_stats stats;
    struct wp_rng rng;
    struct wp_err err;

    (void)state;
    wp_rng_init(&rng, UINT64_C(0x5a5a5a5a5a5a5a5a));
    memset(key, 'k', sizeof key);
    for (size_t i = 0; i < WP_ARRAY_LEN(most); i++) {
        struct wp_redis_links *links = NULL;

        assert_int_equal(create_with(most[i][0],
                                     (struct wp_str){key, sizeof key}, 3,
                                     &links, &err),
                         WP_OK);
        assert_int_equal(links->calls_max, most[i][1]);
        assert_int_equal(links->config.pending_max, most[i][0]);
        assert_int_equal(links->config.commit_timeout_ns, WP_NS_PER_S);
        assert_ptr_equal(links->hooks.ctx, ctx);
        assert_int_equal(links->key_len, KEY_MAX);
        assert_memory_equal(links->key, key, KEY_MAX);
        assert_int_equal(links->n, 3);
        assert_true(links->some_down);
        assert_memory_equal(&links->rng, &rng, sizeof rng);
        for (uint32_t k = 0; k < 3; k++) {
            assert_ptr_equal(links->links[k].links, links);
            assert_int_equal(links->links[k].index, k);
            assert_int_equal(links->links[k].stream.fd, -1);
            assert_int_equal(links->links[k].state, WP_LINK_DOWN);
        }
        wp_redis_links_read_stats(links, &stats);
        assert_int_equal(stats.links, 3);
        assert_int_equal(stats.links_up, 0);
        assert_true(wp_redis_links_are_quiet(links));
        let_end();
        wp_redis_links_destroy(links);
        assert_ptr_equal(seen, links);
    }
}

/* The link leads to the test's end of a pair of sockets. */
static int
bring_up(struct wp_redis_links *links, uint32_t i)
{
    struct wp_redis_link *link = &links->links[i];
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = link};
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX,
                                SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                                pair),
                     0);
    link->stream.fd = pair[0];
    link->state = WP_LINK_UP;
    link->watched = EPOLLIN;
    assert_int_equal(epoll_ctl(links->epoll_fd, EPOLL_CTL_ADD, pair[0], &event),
                     0);
    return pair[1];
}

static enum wp_status
send_word(struct wp_redis_links *links, uint32_t i, const char *word,
          bool flush)
{
    const struct wp_str words[] = {wp_str_from(word)};
    static char calls[3][2] = {"0", "1", "2"};

    return wp_redis_send(links, i, calls[i], 0, words, 1, flush);
}

/* Threads may be connecting: they are asked to end, and not waited for. */
static bool
close_at_last(struct wp_redis_links *links)
{
    for (int i = 0; i < 60000; i++) {
        if (wp_redis_links_close(links)) {
            return true;
        }
        (void)usleep(1000);
    }
    return false;
}

static uint64_t
wakes_of(struct wp_redis_links *links)
{
    uint64_t n = 0;

    return read(links->wake_fd, &n, sizeof n) == sizeof n ? n : 0;
}

/* One thread after the other ends; what is under way ends with the last. */
static void
test_a_set_is_closed(void **state)
{
    struct wp_redis_links *links = create(3);
    char byte;
    int end;

    (void)state;
    end = bring_up(links, 1);
    assert_int_equal(send_word(links, 1, "sent", true), WP_PENDING);
    assert_int_equal(send_word(links, 1, "gathered", false), WP_PENDING);
    assert_false(wp_redis_links_are_quiet(links));
    assert_int_equal(wakes_of(links), 0);
    assert_false(wp_redis_links_close(links));
    assert_true(links->stop);
    assert_int_equal(wakes_of(links), 1);
    (void)sem_post(&ends[1]);
    for (int i = 0; i < 60000 && links->connector_runs; i++) {
        assert_false(wp_redis_links_close(links));
        (void)usleep(1000);
    }
    assert_false(links->connector_runs);
    assert_true(links->reader_runs);
    assert_string_equal(ended, "");
    (void)sem_post(&ends[0]);
    assert_true(close_at_last(links));
    assert_string_equal(ended, "ctx 1 UNKNOWN_OUTCOME\nctx 1 UNAVAILABLE\n");
    assert_int_equal(links->links[1].state, WP_LINK_DOWN);
    assert_int_equal(links->links[1].stream.fd, -1);
    /* What was sent, and then its end. */
    while (recv(end, &byte, 1, 0) == 1) {
    }
    assert_int_equal(recv(end, &byte, 1, 0), 0);
    (void)close(end);
    assert_int_equal(send_word(links, 1, "late", true), WP_UNAVAILABLE);
    assert_true(wp_redis_links_close(links));
    assert_int_equal(n_locked, 0);
    wp_redis_links_destroy(links);
}

/* Closed, with traces of a server that is gone. */
static struct wp_redis_links *
closed(void)
{
    struct wp_redis_links *links = create(3);

    let_end();
    assert_true(close_at_last(links));
    (void)snprintf(links->run_id, sizeof links->run_id, "run");
    links->logged = true;
    links->lost_logged_ns = 7;
    links->some_down = false;
    links->breaker = links->renew = links->check = links->asleep = true;
    for (uint32_t i = 0; i < 3; i++) {
        links->links[i].client_id = 7;
    }
    assert_int_equal(sem_init(&ends[0], 0, 0), 0);
    assert_int_equal(sem_init(&ends[1], 0, 0), 0);
    return links;
}

static void
test_a_closed_set_leads_elsewhere(void **state)
{
    const struct wp_redis_server other = {.host = "i", .port = 2};
    struct wp_redis_links *links = closed();
    struct wp_err err;

    (void)state;
    assert_int_equal(wp_redis_links_reopen(links, &other, &err), WP_OK);
    assert_string_equal(links->config.server.host, "i");
    assert_int_equal(links->config.server.port, 2);
    assert_string_equal(links->run_id, "");
    assert_false(links->logged);
    assert_int_equal(links->lost_logged_ns, 0);
    assert_true(links->some_down);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(links->links[i].client_id, 0);
    }
    assert_false(links->breaker);
    assert_false(links->renew);
    assert_false(links->check);
    assert_false(links->asleep);
    assert_false(links->stop);
    assert_true(links->reader_runs);
    assert_true(links->connector_runs);
    let_end();
    wp_redis_links_destroy(links);
}

static void
test_a_set_that_cannot_be_opened_again_stays_closed(void **state)
{
    const struct wp_redis_server other = {.host = "i", .port = 2};
    struct wp_redis_links *links = closed();
    struct wp_err err = {.msg = ""};

    (void)state;
    counts = true;
    for (int n = 1; n <= 2; n++) {
        fails_in = n;
        let_end();
        assert_int_equal(wp_redis_links_reopen(links, &other, &err),
                         WP_RESOURCE_EXHAUSTED);
        assert_memory_equal(err.msg, "threads for connections to redis: ", 34);
        assert_false(links->reader_runs);
        assert_false(links->connector_runs);
        assert_true(links->stop);
        assert_true(wp_redis_links_close(links));
    }
    wp_redis_links_destroy(links);
}

/* --- writers --- */

static void
test_a_link_that_breaks_while_it_is_written_to(void **state)
{
    struct wp_redis_links *links = create(2);
    struct wp_redis_stats stats;
    int end = bring_up(links, 0);

    (void)state;
    (void)close(end);
    assert_int_equal(send_word(links, 0, "lost", true), WP_PENDING);
    assert_int_equal(links->links[0].state, WP_LINK_BROKEN);
    assert_int_equal(send_word(links, 0, "late", true), WP_UNAVAILABLE);
    assert_int_equal(links->links[0].out_sent, 0);
    assert_false(wp_link_send(&links->links[0]));
    wp_redis_flush(links, 0);
    wp_redis_flush_and_wait(links, 0);
    wp_redis_links_read_stats(links, &stats);
    assert_int_equal(stats.refused, 1);
    assert_int_equal(stats.links_up, 0);
    let_end();
    wp_redis_links_destroy(links);
    assert_string_equal(ended, "ctx 0 UNAVAILABLE\n");
}

/* Who waits reads itself, so the reading thread is not to hear of the answer
 * until it has waited long enough. */
static void
test_the_reading_thread_hears_nothing_meanwhile(void **state)
{
    struct wp_redis_links *links = create(1);
    struct wp_redis_link *link = &links->links[0];
    int end = bring_up(links, 0);

    (void)state;
    assert_int_equal(send_word(links, 0, "awaited", false), WP_PENDING);
    wp_redis_flush_and_wait(links, 0);
    assert_int_equal(n_watched, 2);
    assert_int_equal(watched[0], EPOLLRDHUP);
    assert_int_equal(watched[1], EPOLLRDHUP | EPOLLIN);
    assert_false(link->awaited);
    assert_int_equal(n_locked, 0);
    let_end();
    wp_redis_links_destroy(links);
    (void)close(end);
}

static void
test_a_set_that_was_stopped_has_no_threads(void **state)
{
    struct wp_redis_links *links = create(1);

    (void)state;
    let_end();
    wp_redis_links_stop(links);
    assert_true(links->stop);
    assert_false(links->connector_runs);
    assert_false(links->reader_runs);
    assert_int_equal(wakes_of(links), 1);
    wp_redis_links_stop(links);
    assert_int_equal(wakes_of(links), 0);
    wp_redis_links_destroy(links);
}

static void
test_who_sleeps_is_roused(void **state)
{
    struct wp_redis_links *links = create(1);
    int end = bring_up(links, 0);

    (void)state;
    assert_int_equal(send_word(links, 0, "awake", true), WP_PENDING);
    assert_int_equal(wakes_of(links), 0);
    links->asleep = true;
    assert_int_equal(send_word(links, 0, "asleep", false), WP_PENDING);
    assert_int_equal(wakes_of(links), 1);
    wp_redis_flush(links, 0);
    assert_int_equal(wakes_of(links), 0);
    links->breaker = true;
    assert_int_equal(send_word(links, 0, "refused", true), WP_UNAVAILABLE);
    assert_int_equal(wakes_of(links), 0);
    links->breaker = false;
    wp_redis_links_renew(links);
    assert_true(links->renew);
    assert_int_equal(wakes_of(links), 1);
    let_end();
    wp_redis_links_destroy(links);
    (void)close(end);
    assert_int_equal(n_locked, 0);
}

/* Only links that lead elsewhere are made again, and only those that are up. */
static void
test_links_that_lead_elsewhere_are_told(void **state)
{
    struct wp_redis_server here = {.host = "h", .port = 1};
    struct wp_redis_server there = {.host = "h", .port = 2};
    struct wp_redis_links *links = create(4);
    int end[2] = {bring_up(links, 0), bring_up(links, 1)};

    (void)state;
    for (int i = 0; i < 4; i++) {
        links->links[i].server = here;
    }
    links->links[3].state = WP_LINK_BROKEN;
    wp_redis_links_lead_to(links, &here);
    assert_false(links->check);
    assert_int_equal(wakes_of(links), 0);
    links->links[1].server = there;
    wp_redis_links_lead_to(links, &there);
    assert_true(links->check);
    assert_int_equal(wakes_of(links), 1);
    assert_true(links->links[0].renew);
    for (int i = 1; i < 4; i++) {
        assert_false(links->links[i].renew);
    }
    links->check = false;
    wp_redis_links_lead_to(links, &there);
    assert_false(links->check);
    assert_int_equal(wakes_of(links), 0);
    assert_int_equal(send_word(links, 0, "late", true), WP_UNAVAILABLE);
    assert_int_equal(send_word(links, 1, "right", true), WP_PENDING);
    assert_int_equal(n_locked, 0);
    links->links[3].state = WP_LINK_DOWN;
    let_end();
    wp_redis_links_destroy(links);
    (void)close(end[0]);
    (void)close(end[1]);
}

static char wanted[3 * WP_LINK_BUFFER];
static size_t wanted_len;

/* A command of one word, until it is gathered; and so it is wanted. */
static void
gather(struct wp_redis_links *links, const char *text, size_t len, bool flush)
{
    static char call[] = "call";
    const struct wp_str word = {text, len};
    int n = snprintf(wanted + wanted_len, sizeof wanted - wanted_len,
                     "*1\r\n$%zu\r\n%.*s\r\n", len, (int)len, text);

    assert_in_range(n, 1, sizeof wanted - wanted_len - 1);
    wanted_len += (size_t)n;
    assert_int_equal(wp_redis_send(links, 0, call, 0, &word, 1, flush),
                     WP_PENDING);
}

static size_t
take(int end, char *out, size_t cap)
{
    size_t at = 0;
    ssize_t n;

    while ((n = recv(end, out + at, cap - at, 0)) > 0) {
        at += (size_t)n;
    }
    return at;
}

/* The socket takes a part, and the rest goes when it takes more. */
static void
test_what_the_socket_does_not_take_stays(void **state)
{
    static char text[WP_LINK_BUFFER - 100];
    static char got[3 * WP_LINK_BUFFER];
    struct wp_redis_links *links = create(1);
    struct wp_redis_link *link = &links->links[0];
    int end = bring_up(links, 0);
    size_t at = 0;

    (void)state;
    wanted_len = 0;
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (char)('a' + i % 23);
    }
    gather(links, text, sizeof text, true);
    assert_true(link->wants_write);
    assert_int_equal(link->watched, EPOLLIN | EPOLLOUT);
    assert_in_range(link->out_sent, 1, link->out_len - 1);
    assert_int_equal(link->stream_len - link->stream_sent,
                     link->out_len - link->out_sent);
    /* There is room for it where the bytes were that have left. */
    gather(links, text, 1000, false);
    assert_int_equal(link->out_sent, 0);
    gather(links, "x", 1, false);
    wp_redis_flush(links, 0);
    wp_redis_flush_and_wait(links, 0);
    assert_true(link->wants_write);
    assert_int_equal(link->out_sent, 0);
    do {
        at += take(end, got + at, sizeof got - at);
        (void)pthread_mutex_lock(&link->lock);
        assert_true(wp_link_send(link));
        (void)pthread_mutex_unlock(&link->lock);
    } while (link->out_len > 0);
    at += take(end, got + at, sizeof got - at);
    assert_int_equal(at, wanted_len);
    assert_memory_equal(got, wanted, wanted_len);
    assert_int_equal(at, link->stream_len);
    assert_int_equal(at, link->stream_sent);
    assert_false(link->wants_write);
    assert_int_equal(link->watched, EPOLLIN);
    assert_int_equal(link->out_sent, 0);
    assert_int_equal(n_locked, 0);
    let_end();
    wp_redis_links_destroy(links);
    (void)close(end);
}

/* Words of just so many bytes, and one that is too long. */
static void
test_how_much_a_link_gathers(void **state)
{
    static char text[WP_LINK_BUFFER];
    struct wp_redis_links *links = create(1);
    struct wp_redis_link *link = &links->links[0];
    struct wp_redis_stats stats;
    struct wp_str word = {text, WP_LINK_BUFFER - 63};
    char call[] = "big";
    int end = bring_up(links, 0);

    (void)state;
    memset(text, 't', sizeof text);
    assert_int_equal(wp_redis_send(links, 0, call, 0, &word, 1, false),
                     WP_UNAVAILABLE);
    assert_int_equal(link->out_len, 0);
    wp_redis_links_read_stats(links, &stats);
    assert_int_equal(stats.full, 1);
    assert_true(wp_redis_links_are_quiet(links));
    word.len--;
    assert_int_equal(wp_redis_send(links, 0, call, 0, &word, 1, false),
                     WP_PENDING);
    wp_redis_links_read_stats(links, &stats);
    assert_int_equal(stats.full, 1);
    let_end();
    wp_redis_links_destroy(links);
    (void)close(end);
}

/* From half of the buffer on it is sent, asked for or not. */
static void
test_much_is_sent_at_once(void **state)
{
    static char text[WP_LINK_BUFFER];
    struct wp_redis_links *links = create(1);
    struct wp_redis_link *link = &links->links[0];
    int end = bring_up(links, 0);
    struct wp_str word = {text, WP_LINK_BUFFER / 2 - 15};
    char call[] = "big";

    (void)state;
    /* "*1\r\n$131057\r\n" and "\r\n": just half. */
    assert_int_equal(wp_redis_send(links, 0, call, 0, &word, 1, false),
                     WP_PENDING);
    assert_int_equal(link->out_len, WP_LINK_BUFFER / 2);
    assert_int_equal(link->out_sent, 0);
    assert_int_equal(link->stream_sent, 0);
    word.len = 1;
    assert_int_equal(wp_redis_send(links, 0, call, 0, &word, 1, false),
                     WP_PENDING);
    assert_int_not_equal(link->stream_sent, 0);
    let_end();
    wp_redis_links_destroy(links);
    (void)close(end);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_set_without_means, setup),
        cmocka_unit_test_setup(test_what_a_set_begins_with, setup),
        cmocka_unit_test_setup(test_a_set_is_closed, setup),
        cmocka_unit_test_setup(test_a_closed_set_leads_elsewhere, setup),
        cmocka_unit_test_setup(
            test_a_set_that_cannot_be_opened_again_stays_closed, setup),
        cmocka_unit_test_setup(test_a_link_that_breaks_while_it_is_written_to,
                               setup),
        cmocka_unit_test_setup(test_the_reading_thread_hears_nothing_meanwhile,
                               setup),
        cmocka_unit_test_setup(test_a_set_that_was_stopped_has_no_threads,
                               setup),
        cmocka_unit_test_setup(test_who_sleeps_is_roused, setup),
        cmocka_unit_test_setup(test_links_that_lead_elsewhere_are_told, setup),
        cmocka_unit_test_setup(test_what_the_socket_does_not_take_stays, setup),
        cmocka_unit_test_setup(test_how_much_a_link_gathers, setup),
        cmocka_unit_test_setup(test_much_is_sent_at_once, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
