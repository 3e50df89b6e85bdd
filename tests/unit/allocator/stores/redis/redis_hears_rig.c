#include "tests/unit/allocator/stores/redis/redis_hears_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <hiredis/hiredis.h>
#include <sys/eventfd.h>

#include "allocator/stores/codec.h"
#include "allocator/stores/redis/link/sync.h"
#include "tests/unit/allocator/stores/redis/redis_journal.h"

enum {
    STOP_FD = 500,
    LISTEN_FD = 501,
};

#define BEGIN_NS (50 * WP_NS_PER_S)

int __real_clock_gettime(clockid_t which, struct timespec *out);
int __wrap_clock_gettime(clockid_t which, struct timespec *out);
int __wrap_eventfd_read(int fd, eventfd_t *value);
int __wrap_poll(struct pollfd *fds, nfds_t n, int wait_ms);
int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_wp_redis_sync_fd(const struct wp_redis_sync *sync);
bool __wrap_wp_redis_sync_take_in(struct wp_redis_sync *sync);
bool __wrap_wp_redis_sync_next(struct wp_redis_sync *sync,
                               struct redisReply **out);
bool __wrap_wp_redis_sync_is_broken(const struct wp_redis_sync *sync);
void __wrap_wp_redis_sync_close(struct wp_redis_sync *sync);
enum wp_status __wrap_wp_redis_pool_open(struct wp_lease_redis *of,
                                         struct wp_redis_pool *pool,
                                         struct wp_redis_sync **out,
                                         struct wp_redis_place *place,
                                         struct wp_err *err);
enum wp_status __wrap_wp_redis_pool_scan(struct wp_lease_redis *of,
                                         struct wp_redis_sync *context,
                                         struct wp_redis_pool *pool,
                                         const struct wp_redis_scan *scan,
                                         struct wp_err *err);

struct hears_plan plan;
int64_t clock_ns;
struct wp_lease_redis *redis;
struct wp_redis_feed *feed;
static char syncs[16];
static int locks_held;

static struct wp_redis_sync *
sync_of(unsigned number)
{
    union {
        char *at;
        struct wp_redis_sync *sync;
    } sync = {&syncs[number]};

    return sync.sync;
}

static int
number_of(const struct wp_redis_sync *sync)
{
    return (int)((const char *)sync - syncs);
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

int
__wrap_eventfd_read(int fd, eventfd_t *value)
{
    note("awake%s\n", fd == STOP_FD ? "" : " elsewhere");
    *value = 0;
    return 0;
}

int
__wrap_poll(struct pollfd *fds, nfds_t n, int wait_ms)
{
    bool ours = fds[0].fd == STOP_FD && fds[0].events == POLLIN &&
                fds[1].fd == LISTEN_FD && fds[1].events == POLLIN;

    note("poll %d for %d ms%s\n", (int)n, wait_ms,
         ours ? "" : " for something else");
    fds[0].revents = plan.woken ? POLLIN : 0;
    fds[1].revents = plan.has_come && n > 1 ? POLLIN : 0;
    return plan.poll_result;
}

static bool
is_ours(const pthread_mutex_t *lock)
{
    return feed != NULL && lock == &feed->peers_lock;
}

int
__wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    if (is_ours(lock)) {
        plan.locks++;
        if (++locks_held != 1) {
            abort();
        }
    }
    return __real_pthread_mutex_lock(lock);
}

int
__wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    if (is_ours(lock) && --locks_held != 0) {
        abort();
    }
    return __real_pthread_mutex_unlock(lock);
}

int
__wrap_wp_redis_sync_fd(const struct wp_redis_sync *sync)
{
    return sync == feed->listen ? LISTEN_FD : -1;
}

bool
__wrap_wp_redis_sync_take_in(struct wp_redis_sync *sync)
{
    note("take in %d\n", number_of(sync));
    return !plan.take_fails;
}

bool
__wrap_wp_redis_sync_next(struct wp_redis_sync *sync, struct redisReply **out)
{
    if (plan.come[plan.came] == NULL) {
        note("no next %d\n", number_of(sync));
        return !plan.next_fails;
    }
    *out = reply_of(plan.come[plan.came++]);
    return true;
}

bool
__wrap_wp_redis_sync_is_broken(const struct wp_redis_sync *sync)
{
    note("is %d broken? %d\n", number_of(sync), plan.broken);
    return plan.broken;
}

void
__wrap_wp_redis_sync_close(struct wp_redis_sync *sync)
{
    note("close %d\n", number_of(sync));
}

enum wp_status
__wrap_wp_redis_pool_open(struct wp_lease_redis *of, struct wp_redis_pool *pool,
                          struct wp_redis_sync **out,
                          struct wp_redis_place *place, struct wp_err *err)
{
    note("open %s%s%s\n", of == redis ? "" : "of another ", pool->key,
         place == NULL ? "" : " and where");
    if (plan.open_fails) {
        return wp_err_set(err, WP_UNAVAILABLE, "no open");
    }
    *out = sync_of(3);
    return WP_OK;
}

enum wp_status
__wrap_wp_redis_pool_scan(struct wp_lease_redis *of,
                          struct wp_redis_sync *context,
                          struct wp_redis_pool *pool,
                          const struct wp_redis_scan *scan, struct wp_err *err)
{
    note("scan %s%s by %d", of == redis ? "" : "of another ", pool->key,
         number_of(context));
    note_feed();
    *err = (struct wp_err){.msg = ""};
    return plan.scan != NULL ? plan.scan(scan, err) : WP_OK;
}

/* --- the sink --- */

static bool
on_record(void *ctx, const struct wp_lease_record *record)
{
    assert_ptr_equal(ctx, &plan);
    note("record %02x of %s/%s, state %d, fence %llu%s\n",
         record->uid[WP_UID_LEN - 1], record->pool_namespace, record->pool,
         (int)record->state, (unsigned long long)record->fence,
         locks_held > 0 ? " locked" : "");
    return !plan.full;
}

static bool
on_sync(void *ctx, const struct wp_lease_redis_pool *pool, bool begin)
{
    assert_ptr_equal(ctx, &plan);
    note("%s of %s/%s\n", begin ? "begin" : "end", pool->pool_namespace,
         pool->pool);
    return !(begin ? plan.begin_full : plan.end_full);
}

static void
on_peer(void *ctx, const struct wp_lease_redis_peer *peer, bool gone)
{
    assert_ptr_equal(ctx, &plan);
    note("%s %s%s\n", gone ? "gone" : "peer", peer->host,
         locks_held > 0 ? " locked" : "");
}

static void
on_doubt(void *ctx, const struct wp_lease_redis_pool *pool)
{
    assert_ptr_equal(ctx, &plan);
    note("in doubt: %s\n", pool->pool);
}

/* --- for tests --- */

/* Pools ns/p and ns/p2 and ns/q, whose generations are 1, 2 and 3. */
void
hears_begin(void)
{
    static const struct wp_lease_redis_pool names[3] = {
        {"ns", "p"}, {"ns", "p2"}, {"ns", "q"}};
    const struct wp_lease_redis_config config = {
        .pools = names, .n_pools = 3, .grows = true};
    struct wp_err err;

    memset(&plan, 0, sizeof plan);
    clock_ns = BEGIN_NS;
    redis = calloc(1, sizeof *redis);
    feed = calloc(1, sizeof *feed);
    assert_non_null(redis);
    assert_non_null(feed);
    redis->config = (struct wp_lease_redis_config){
        .prefix = "wp",
        .replica_id = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef},
        .heartbeat_ns = WP_NS_PER_S,
        .peer_gone_ns = 3 * WP_NS_PER_S,
        .sink = {.ctx = &plan,
                 .on_record = on_record,
                 .on_sync = on_sync,
                 .on_peer = on_peer,
                 .on_doubt = on_doubt},
    };
    assert_int_equal(wp_redis_pools_init(redis, &config, &err), WP_OK);
    feed->redis = redis;
    feed->stop_fd = STOP_FD;
    feed->pools = calloc(redis->pools_max, sizeof feed->pools[0]);
    assert_non_null(feed->pools);
    (void)pthread_mutex_init(&feed->peers_lock, NULL);
    (void)snprintf(feed->peers_channel, sizeof feed->peers_channel, "wp:peers");
    feed->n_pools = 3;
    feed->listen = sync_of(1);
    feed->talk = sync_of(2);
    for (uint32_t i = 0; i < 3; i++) {
        atomic_store(&redis->pools[i].generation, i + 1);
    }
    journal_begin();
}

void
hears_end(void)
{
    assert_int_equal(locks_held, 0);
    (void)pthread_mutex_destroy(&feed->peers_lock);
    free(feed->pools);
    free(feed);
    free(redis->pools);
    free(redis->index);
    free(redis);
    feed = NULL;
    redis = NULL;
}

static long long
since_begin_us(int64_t at_ns)
{
    return at_ns == 0 ? -1 : (long long)(at_ns - BEGIN_NS) / WP_NS_PER_US;
}

void
note_feed(void)
{
    for (uint32_t i = 0; i < 3; i++) {
        const struct wp_feed_pool *pool = &feed->pools[i];

        note(" |%llu %lld%s%s", (unsigned long long)pool->expect,
             (long long)pool->base, pool->wanted ? " wanted" : "",
             pool == feed->reading ? " read" : "");
        if (pool->read_at_ns != 0) {
            note(" at %lld", since_begin_us(pool->read_at_ns));
        }
        if (pool->again_ms != 0) {
            note(" again %lld", (long long)pool->again_ms);
        }
    }
    note("| heard %llu, gaps %llu, corrupt %llu, syncs %llu - %llu%s%s\n",
         (unsigned long long)redis->records_heard,
         (unsigned long long)redis->gaps, (unsigned long long)redis->corrupt,
         (unsigned long long)redis->syncs,
         (unsigned long long)redis->sync_failures,
         feed->heard_other ? ", another" : "", feed->says_now ? ", says" : "");
}

void
note_peers(void)
{
    for (uint32_t i = 0; i < feed->n_peers; i++) {
        const struct wp_feed_peer *peer = &feed->peers[i];

        note("%02x %s waits %u%s%s, heard at %lld%s\n",
             peer->peer.replica_id[WP_REPLICA_ID_LEN - 1], peer->peer.host,
             peer->peer.waiting, peer->peer.keeper ? " keeps" : "",
             peer->peer.leaves ? " leaves" : "", since_begin_us(peer->heard_ns),
             peer->met ? " met" : "");
    }
    note("itself at %lld, locks %u%s\n", since_begin_us(feed->heard_self_ns),
         plan.locks, feed->says_now ? ", says" : "");
}

const char *
message_text(const char *channel, const char *payload)
{
    static char text[4096];

    (void)snprintf(text, sizeof text,
                   "*3\r\n$7\r\nmessage\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
                   strlen(channel), channel, strlen(payload), payload);
    return text;
}

void
hear(const char *channel, const char *payload)
{
    struct redisReply *reply = reply_of(message_text(channel, payload));

    wp_redis_feed_on_message(feed, reply);
    freeReplyObject(reply);
}

/* Its last byte is the number. */
struct wp_lease_record
record_of(const char *pool, uint8_t number)
{
    struct wp_lease_record record = {.state = WP_RECORD_OPEN,
                                     .fence = 1000U + number};

    record.uid[WP_UID_LEN - 1] = number;
    (void)snprintf(record.pool_namespace, sizeof record.pool_namespace, "ns");
    (void)snprintf(record.pool, sizeof record.pool, "%s", pool);
    (void)snprintf(record.sandbox, sizeof record.sandbox, "box");
    (void)snprintf(record.endpoint, sizeof record.endpoint, "1.2.3.4:5");
    return record;
}

const char *
packed_text(const char *pool, uint8_t number)
{
    static char text[WP_LEASE_PACKED_MAX + 1];
    const struct wp_lease_record record = record_of(pool, number);

    text[wp_lease_pack(&record, text)] = '\0';
    return text;
}

const char *
change_text(const char *writer, unsigned n, const char *pool, uint8_t uid)
{
    static char text[2048];

    (void)snprintf(text, sizeof text, "1%s%020u%032x%s", writer, n, uid,
                   packed_text(pool, uid));
    return text;
}
