#include "tests/unit/allocator/stores/redis/redis_feed_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <hiredis/hiredis.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "allocator/stores/redis/link/sync.h"
#include "tests/support/base/heard.h"
#include "tests/unit/allocator/stores/redis/redis_journal.h"

enum {
    SYNCS_MAX = 64,
    BEGIN_MS = 50000,
};

int __real_clock_gettime(clockid_t which, struct timespec *out);
int __wrap_clock_gettime(clockid_t which, struct timespec *out);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
int __real_eventfd(unsigned initial, int flags);
int __wrap_eventfd(unsigned initial, int flags);
int __wrap_eventfd_read(int fd, eventfd_t *value);
int __wrap_eventfd_write(int fd, eventfd_t value);
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_poll(struct pollfd *fds, nfds_t n, int wait_ms);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*run)(void *), void *arg);
int __wrap_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_setname_np(pthread_t thread, const char *name);
int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);
enum wp_status __wrap_wp_redis_pool_open(struct wp_lease_redis *redis,
                                         struct wp_redis_pool *pool,
                                         struct wp_redis_sync **out,
                                         struct wp_redis_place *place,
                                         struct wp_err *err);
enum wp_status __wrap_wp_redis_pool_learn(struct wp_lease_redis *redis,
                                          struct wp_redis_pool *pool,
                                          struct wp_redis_sync *context,
                                          struct wp_err *err);
void __wrap_wp_redis_sync_close(struct wp_redis_sync *sync);
struct redisReply *__wrap_wp_redis_sync_call(struct wp_redis_sync *sync,
                                             const struct wp_str *args,
                                             uint32_t n, struct wp_err *err);
enum wp_status __wrap_wp_redis_sync_send(struct wp_redis_sync *sync,
                                         const struct wp_str *args, uint32_t n,
                                         struct wp_err *err);
struct redisReply *__wrap_wp_redis_sync_receive(struct wp_redis_sync *sync,
                                                const char *what,
                                                struct wp_err *err);
void __wrap_wp_redis_feed_on_message(struct wp_redis_feed *feed,
                                     const struct redisReply *reply);
bool __wrap_wp_redis_feed_listen(struct wp_redis_feed *feed, int wait_ms);
void __wrap_wp_redis_feed_drop_silent(struct wp_redis_feed *feed);
bool __wrap_wp_redis_feed_read_wanted(struct wp_redis_feed *feed);

int64_t clock_ns;
bool keep_wanted;
struct wp_lease_redis *redis;
static char syncs[SYNCS_MAX]; /* The connection of that number, from 1. */
static void *(*thread_run)(void *);
static int locks_held;
uint32_t n_locks;

struct feed_plan plan;

static bool
fails(uint32_t *n, uint32_t mask)
{
    ++*n;
    return *n < 32 && (mask >> *n & 1) != 0;
}

static int
number_of(const struct wp_redis_sync *sync)
{
    return sync == NULL ? 0 : (int)((const char *)sync - syncs);
}

/* Many of them in a row are one line. */
static void
note_more(size_t *at, const char *what, int number)
{
    if (*at != 0 && *at == journal_len) {
        journal_len--;
        note(", %d\n", number);
    } else {
        note("%s %d\n", what, number);
    }
    *at = journal_len;
}

static void
take_step(struct wp_redis_feed *feed, const struct step **out)
{
    static const struct step nothing;

    *out = &nothing;
    if (plan.step < plan.n_steps) {
        *out = &plan.steps[plan.step];
        clock_ns += (*out)->lasts_us * WP_NS_PER_US;
        if ((*out)->act != NULL) {
            (*out)->act(feed);
        }
    }
    if (++plan.step >= plan.n_steps) {
        atomic_store(&feed->stop, true);
    }
}

int
__wrap_clock_gettime(clockid_t which, struct timespec *out)
{
    if (which != CLOCK_MONOTONIC) {
        return __real_clock_gettime(which, out);
    }
    out->tv_sec = clock_ns / WP_NS_PER_S;
    out->tv_nsec = clock_ns % WP_NS_PER_S;
    return 0;
}

void *
__wrap_calloc(size_t n, size_t size)
{
    if (fails(&plan.allocs, plan.alloc_fails)) {
        errno = ENOMEM;
        return NULL;
    }
    return __real_calloc(n, size);
}

int
__wrap_eventfd(unsigned initial, int flags)
{
    note("eventfd %u%s\n", initial,
         flags == (EFD_CLOEXEC | EFD_NONBLOCK) ? "" : " with other flags");
    if (plan.eventfd_fails) {
        errno = EMFILE;
        return -1;
    }
    return plan.eventfd_is_0 ? 0 : __real_eventfd(initial, flags);
}

int
__wrap_eventfd_read(int fd, eventfd_t *value)
{
    note("awake%s\n", fd == redis->feed->stop_fd ? "" : " elsewhere");
    *value = 0;
    return 0;
}

int
__wrap_eventfd_write(int fd, eventfd_t value)
{
    note("wake %llu%s\n", (unsigned long long)value,
         fd == redis->feed->stop_fd ? "" : " elsewhere");
    return 0;
}

int
__wrap_close(int fd)
{
    if (fd <= 0) {
        note("close of %d\n", fd);
        return 0;
    }
    return __real_close(fd);
}

int
__wrap_poll(struct pollfd *fds, nfds_t n, int wait_ms)
{
    const struct step *step;

    note("pause %d ms%s\n", wait_ms,
         n == 1 && fds->fd == redis->feed->stop_fd && fds->events == POLLIN &&
                 redis->feed->listens_since_ns == 0
             ? ""
             : " for something else");
    take_step(redis->feed, &step);
    return 0;
}

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                      void *(*run)(void *), void *arg)
{
    (void)attr;
    if (plan.thread_fails != 0) {
        errno = EBADF; /* It says nothing of it. */
        return plan.thread_fails;
    }
    *thread = pthread_self();
    thread_run = run;
    note("thread%s\n", arg != NULL ? "" : " without a feed");
    return 0;
}

int
__wrap_pthread_join(pthread_t thread, void **result)
{
    note("join%s%s\n",
         thread == pthread_self() && result == NULL ? "" : " another",
         atomic_load(&redis->feed->stop) ? "" : " without an end");
    return 0;
}

int
__wrap_pthread_setname_np(pthread_t thread, const char *name)
{
    note("named %s%s\n", name, thread == pthread_self() ? "" : ", another");
    return 0;
}

static bool
is_peers_lock(const pthread_mutex_t *lock)
{
    return redis != NULL && redis->feed != NULL &&
           lock == &redis->feed->peers_lock;
}

int
__wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    if (is_peers_lock(lock)) {
        n_locks++;
        if (++locks_held != 1) {
            abort();
        }
    }
    return __real_pthread_mutex_lock(lock);
}

int
__wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    if (is_peers_lock(lock) && --locks_held != 0) {
        abort();
    }
    return __real_pthread_mutex_unlock(lock);
}

enum wp_status
__wrap_wp_redis_pool_open(struct wp_lease_redis *of, struct wp_redis_pool *pool,
                          struct wp_redis_sync **out,
                          struct wp_redis_place *place, struct wp_err *err)
{
    bool refused = fails(&plan.opens, plan.open_fails);
    union {
        char *at;
        struct wp_redis_sync *sync;
    } sync = {&syncs[plan.opens]};

    note("open %u%s %s%s\n", plan.opens, of == redis ? "" : " of another",
         pool->key, place != NULL ? " and where" : "");
    *out = sync.sync; /* Nothing that may be used when it is refused. */
    if (refused) {
        return wp_err_set(err, WP_UNAVAILABLE, "no open %u", plan.opens);
    }
    if (place != NULL) {
        (void)snprintf(place->run_id, sizeof place->run_id, "run%u",
                       plan.opens);
    }
    return WP_OK;
}

enum wp_status
__wrap_wp_redis_pool_learn(struct wp_lease_redis *of,
                           struct wp_redis_pool *pool,
                           struct wp_redis_sync *context, struct wp_err *err)
{
    note("learn %s%s by %d\n", of == redis ? "" : "of another ", pool->key,
         number_of(context));
    return fails(&plan.learns, plan.learn_fails)
               ? wp_err_set(err, WP_UNAVAILABLE, "no learn %u", plan.learns)
               : WP_OK;
}

void
__wrap_wp_redis_sync_close(struct wp_redis_sync *sync)
{
    if (sync != NULL) {
        note_more(&plan.closed_at, "close", number_of(sync));
    }
}

struct redisReply *
__wrap_wp_redis_sync_call(struct wp_redis_sync *sync, const struct wp_str *args,
                          uint32_t n, struct wp_err *err)
{
    note("call %d:", number_of(sync));
    note_words(args, n);
    if (fails(&plan.calls, plan.call_fails)) {
        (void)wp_err_set(err, WP_UNAVAILABLE, "no call %u", plan.calls);
        return NULL;
    }
    return reply_of(":1\r\n");
}

enum wp_status
__wrap_wp_redis_sync_send(struct wp_redis_sync *sync, const struct wp_str *args,
                          uint32_t n, struct wp_err *err)
{
    note("send %d:", number_of(sync));
    note_words(args, n);
    return fails(&plan.sends, plan.send_fails)
               ? wp_err_set(err, WP_UNAVAILABLE, "no send %u", plan.sends)
               : WP_OK;
}

struct redisReply *
__wrap_wp_redis_sync_receive(struct wp_redis_sync *sync, const char *what,
                             struct wp_err *err)
{
    const char *reply =
        plan.receives < REPLIES_MAX ? plan.replies[plan.receives] : NULL;

    plan.receives++;
    assert_string_equal(what, "SUBSCRIBE");
    note_more(&plan.received_at, "receive", number_of(sync));
    if (reply == NULL) {
        reply = "*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n";
    }
    if (reply[0] == '\0') {
        (void)wp_err_set(err, WP_UNAVAILABLE, "no answer %u", plan.receives);
        return NULL;
    }
    return reply_of(reply);
}

void
__wrap_wp_redis_feed_on_message(struct wp_redis_feed *feed,
                                const struct redisReply *reply)
{
    note("message%s %s\n", feed == redis->feed ? "" : " of another",
         reply->element[1]->str);
}

long long
since_begin_ms(int64_t at_ns)
{
    return at_ns == 0 ? -1 : (long long)(at_ns / WP_NS_PER_MS) - BEGIN_MS;
}

bool
__wrap_wp_redis_feed_listen(struct wp_redis_feed *feed, int wait_ms)
{
    const struct step *step;

    note("listen %d, to %s since %lld, pause %lld\n", wait_ms, feed->heard,
         since_begin_ms(feed->listens_since_ns), (long long)feed->pause_ms);
    take_step(feed, &step);
    return !step->breaks;
}

void
__wrap_wp_redis_feed_drop_silent(struct wp_redis_feed *feed)
{
    note(" drop");
    for (uint32_t i = 0; i < feed->n_peers; i++) {
        note(" %s of %lld%s", feed->peers[i].peer.host,
             since_begin_ms(feed->peers[i].heard_ns),
             feed->peers[i].met ? " met" : "");
    }
    note("; ");
}

bool
__wrap_wp_redis_feed_read_wanted(struct wp_redis_feed *feed)
{
    note("read");
    for (uint32_t i = 0; i < feed->n_pools; i++) {
        note(" %s", feed->pools[i].wanted ? "wanted" : "-");
        if (feed->pools[i].read_at_ns != 0) {
            note(" at %lld", since_begin_ms(feed->pools[i].read_at_ns));
        }
        feed->pools[i].wanted = feed->pools[i].wanted && keep_wanted;
    }
    note(";");
    return !fails(&plan.reads, plan.read_fails);
}

/* --- the rig --- */

void
feed_begin(uint32_t n_pools)
{
    static struct wp_lease_redis_pool names[40];
    struct wp_lease_redis_config config = {.pools = names, .n_pools = n_pools};
    struct wp_err err;

    memset(&plan, 0, sizeof plan);
    clock_ns = BEGIN_MS * WP_NS_PER_MS;
    locks_held = 0;
    n_locks = 0;
    for (uint32_t i = 0; i < n_pools; i++) {
        (void)snprintf(names[i].pool_namespace, sizeof names[i].pool_namespace,
                       "ns");
        (void)snprintf(names[i].pool, sizeof names[i].pool, "p%u", i);
    }
    redis = __real_calloc(1, sizeof *redis);
    assert_non_null(redis);
    redis->config = (struct wp_lease_redis_config){
        .prefix = "wp",
        .replicas = true,
        .replica_id = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef},
        .host = "here",
        .heartbeat_ns = 1000 * WP_NS_PER_MS,
        .peer_gone_ns = 3000 * WP_NS_PER_MS,
    };
    config.grows = true;
    assert_int_equal(wp_redis_pools_init(redis, &config, &err), WP_OK);
    journal_begin();
}

struct wp_redis_feed *
follow(uint32_t n_pools)
{
    struct wp_err err;

    feed_begin(n_pools);
    assert_int_equal(wp_lease_redis_follow(redis, &err), WP_OK);
    assert_string_equal(journal_take(), "eventfd 0\n"
                                        "thread\n"
                                        "named redis-feed\n");
    journal_begin();
    return redis->feed;
}

static struct heard heard;

const char *
feed_run_for(const struct step *steps, uint32_t n)
{
    plan.steps = steps;
    plan.n_steps = n;
    plan.step = 0;
    atomic_store(&redis->feed->stop, false);
    heard_begin(&heard);
    (void)thread_run(redis->feed);
    return heard_end(&heard);
}

void
feed_end(void)
{
    journal_begin();
    if (redis->feed != NULL) {
        wp_redis_feed_destroy(redis->feed);
        assert_string_equal(journal_take(), "wake 1\n"
                                            "join\n");
    }
    free(redis->pools);
    free(redis->index);
    free(redis);
    redis = NULL;
}

void
hears_itself(struct wp_redis_feed *feed)
{
    feed->heard_self_ns = clock_ns;
}

static void
make_brief(char *text, const char *whole, const char *brief)
{
    size_t len = strlen(whole);

    for (char *at = strstr(text, whole); at != NULL; at = strstr(at, whole)) {
        memcpy(at, brief, strlen(brief));
        memmove(at + strlen(brief), at + len, strlen(at + len) + 1);
    }
}

const char *
said(void)
{
    char *text = journal_take();

    for (unsigned i = 1; i < SYNCS_MAX; i++) {
        char whole[512];
        char brief[32];

        (void)snprintf(whole, sizeof whole,
                       "awake\n"
                       "open %u wp:{ns/p0} and where\n"
                       "open %u wp:{ns/p0}\n"
                       "send %u: SUBSCRIBE wp:peers\n"
                       "send %u: SUBSCRIBE wp:{ns/p0}:feed\n"
                       "receive %u, %u\n",
                       i, i + 1, i, i, i, i);
        (void)snprintf(brief, sizeof brief, "UP %u %u\n", i, i + 1);
        make_brief(text, whole, brief);
        (void)snprintf(whole, sizeof whole,
                       "call %u: PUBLISH wp:peers "
                       "10123456789abcdef00000000000here\n",
                       i);
        (void)snprintf(brief, sizeof brief, "SAYS %u, ", i);
        make_brief(text, whole, brief);
    }
    return text;
}
