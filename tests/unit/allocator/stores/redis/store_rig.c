#include "tests/unit/allocator/stores/redis/store_rig.h"

#include <stdio.h>
#include <stdlib.h>

#include <hiredis/hiredis.h>

#include "allocator/stores/redis/link/sync.h"
#include "pool/base/rng.h"
#include "tests/support/pool/manual_clock.h"

struct rig rig;

static char handles[RIG_ANSWERS_MAX]; /* Connections, links, the feed. */

void __real_freeReplyObject(void *reply);
void __wrap_freeReplyObject(void *reply);
int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);

/* --- what is noted --- */

void
rig_note_record(const char *what, const struct wp_lease_record *record)
{
    char uid[2 * WP_UID_LEN + 1];

    wp_hex_encode(record->uid, WP_UID_LEN, uid);
    journal_note(
        "%s %s state=%d fence=%llu deadline=%lld granted=%lld print=%llx"
        " served=%u %s/%s %s at '%s' claim '%s' of '%s' lost '%s'",
        what, uid, (int)record->state, (unsigned long long)record->fence,
        (long long)record->deadline_wall_ms, (long long)record->granted_wall_ms,
        (unsigned long long)record->fingerprint, record->served,
        record->pool_namespace, record->pool, record->sandbox, record->endpoint,
        record->claim_id, record->tenant, record->lost_reason);
}

static bool
is_locked(pthread_mutex_t *lock)
{
    if (pthread_mutex_trylock(lock) != 0) {
        return true;
    }
    (void)__real_pthread_mutex_unlock(lock);
    return false;
}

void
rig_note_status(enum wp_status status)
{
    journal_note("= %s '%s' %s", wp_status_name(status), rig.err.msg,
                 wp_status_name(rig.err.status));
    rig.err = (struct wp_err){.status = WP_OK};
    if (rig.redis != NULL && (is_locked(&rig.redis->admin_lock) ||
                              is_locked(&rig.redis->pools_lock) ||
                              is_locked(&rig.redis->groups_lock))) {
        journal_note("a lock is held");
    }
}

void
rig_answer(const char *answer)
{
    if (rig.n_answers == RIG_ANSWERS_MAX) {
        abort();
    }
    rig.answers[rig.n_answers++] = answer;
}

/* --- what lies below --- */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
enum wp_status __real_wp_redis_pool_add(struct wp_lease_redis *redis,
                                        const struct wp_lease_redis_pool *name,
                                        struct wp_err *err);
enum wp_status __wrap_wp_redis_pool_add(struct wp_lease_redis *redis,
                                        const struct wp_lease_redis_pool *name,
                                        struct wp_err *err);
void __wrap_wp_random_bytes(void *out, size_t len);
void __wrap_wp_log_emit(enum wp_log_level level, const char *event,
                        const struct wp_kv *kvs);
const struct wp_clock *__wrap_wp_clock_system(void);
enum wp_status __wrap_wp_redis_sync_open(const struct wp_redis_config *config,
                                         struct wp_str key,
                                         struct wp_redis_sync **out,
                                         struct wp_redis_server *server,
                                         char run_id[WP_REDIS_RUN_ID_MAX + 1],
                                         struct wp_err *err);
void __wrap_wp_redis_sync_close(struct wp_redis_sync *sync);
struct redisReply *__wrap_wp_redis_sync_ask(struct wp_redis_sync *sync,
                                            const struct wp_str *args,
                                            uint32_t n, struct wp_err *err);
enum wp_status __wrap_wp_redis_send(struct wp_redis_links *links, uint32_t link,
                                    void *call, uint32_t tag,
                                    const struct wp_str *args, uint32_t n,
                                    bool flush);
enum wp_status __wrap_wp_redis_send_asking(struct wp_redis_links *links,
                                           uint32_t link, void *call,
                                           uint32_t tag,
                                           const struct wp_str *args,
                                           uint32_t n);
enum wp_status __wrap_wp_redis_gather(struct wp_redis_links *links,
                                      uint32_t link, void *call, uint32_t tag,
                                      const struct wp_redis_entry *entry,
                                      bool flush);
void __wrap_wp_redis_flush(struct wp_redis_links *links, uint32_t index);
void __wrap_wp_redis_flush_and_wait(struct wp_redis_links *links,
                                    uint32_t index);
void __wrap_wp_redis_links_renew(struct wp_redis_links *links);
enum wp_status __wrap_wp_redis_groups_init(struct wp_lease_redis *redis,
                                           struct wp_err *err);
void __wrap_wp_redis_groups_fini(struct wp_lease_redis *redis);
void __wrap_wp_redis_groups_read_stats(struct wp_lease_redis *redis,
                                       struct wp_lease_redis_stats *out);
struct wp_redis_group *__wrap_wp_redis_pool_place(
    struct wp_lease_redis *redis, struct wp_redis_pool *pool,
    const struct wp_redis_server *server, struct wp_err *err);
void __wrap_wp_redis_server_met(struct wp_redis_group *group,
                                const char *run_id);
struct wp_redis_group *
__wrap_wp_redis_group_for(struct wp_redis_group *group,
                          const struct wp_redis_redirect *redirect);
void __wrap_wp_redis_pool_misplaced(struct wp_lease_redis *redis,
                                    struct wp_redis_pool *pool);
bool __wrap_wp_redis_feed_has_heard(struct wp_redis_feed *feed);
bool __wrap_wp_redis_feed_is_of(struct wp_redis_feed *feed, const char *run_id);
void __wrap_wp_redis_feed_wake(struct wp_redis_feed *feed);
void __wrap_wp_redis_feed_destroy(struct wp_redis_feed *feed);
uint32_t __wrap_wp_lease_redis_peers(struct wp_lease_redis *redis,
                                     struct wp_lease_redis_peer *peers,
                                     uint32_t max);

static bool
fails_now(void)
{
    return rig.fails_in > 0 && --rig.fails_in == 0;
}

void *
__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : __real_malloc(size);
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return fails_now() ? NULL : __real_calloc(n, size);
}

char *
__wrap_strdup(const char *text)
{
    return fails_now() ? NULL : __real_strdup(text);
}

/* Bytes that tell the first number from the next. */
void
__wrap_wp_random_bytes(void *out, size_t len)
{
    memset(out, 0x5a, len);
}

void
__wrap_wp_log_emit(enum wp_log_level level, const char *event,
                   const struct wp_kv *kvs)
{
    journal_log(level, event, kvs);
}

const struct wp_clock *
__wrap_wp_clock_system(void)
{
    static struct wp_clock_manual clock;

    wp_clock_manual_init(&clock, rig.now_ns, 0);
    return &clock.clock;
}

static int
number_of(const void *handle)
{
    return handle == NULL ? -1 : (int)((const char *)handle - handles);
}

static void
set_server(struct wp_redis_server *out, uint16_t port)
{
    memset(out, 0, sizeof *out);
    out->host[0] = 'h';
    out->port = port;
}

enum wp_status
__wrap_wp_redis_sync_open(const struct wp_redis_config *config,
                          struct wp_str key, struct wp_redis_sync **out,
                          struct wp_redis_server *server,
                          char run_id[WP_REDIS_RUN_ID_MAX + 1],
                          struct wp_err *err)
{
    journal_put("open db=%d", config->db);
    journal_words(&key, 1);
    if (rig.open_status != WP_OK) {
        return wp_err_set(err, rig.open_status, "not opened");
    }
    *out = (struct wp_redis_sync *)(void *)&handles[++rig.n_opened];
    set_server(server, rig.port);
    (void)snprintf(run_id, WP_REDIS_RUN_ID_MAX + 1, "%s", rig.run_id);
    return WP_OK;
}

void
__wrap_wp_redis_sync_close(struct wp_redis_sync *sync)
{
    if (sync != NULL) {
        journal_note("close %d", number_of(sync));
    }
}

static struct redisReply *
read_answer(const char *answer)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;

    if (redisReaderFeed(reader, answer, strlen(answer)) != REDIS_OK ||
        redisReaderGetReply(reader, &reply) != REDIS_OK || reply == NULL) {
        abort();
    }
    redisReaderFree(reader);
    rig.n_replies++;
    return reply;
}

void
__wrap_freeReplyObject(void *reply)
{
    rig.n_replies -= reply != NULL;
    __real_freeReplyObject(reply);
}

int
__wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    rig.n_locked++;
    return __real_pthread_mutex_lock(lock);
}

int
__wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    if (rig.n_locked-- == 0) {
        journal_note("unlocked, and was not locked");
    }
    return __real_pthread_mutex_unlock(lock);
}

enum wp_status
__wrap_wp_redis_pool_add(struct wp_lease_redis *redis,
                         const struct wp_lease_redis_pool *name,
                         struct wp_err *err)
{
    journal_note("add to pools%s",
                 is_locked(&redis->pools_lock) ? ", alone" : "");
    return __real_wp_redis_pool_add(redis, name, err);
}

struct redisReply *
__wrap_wp_redis_sync_ask(struct wp_redis_sync *sync, const struct wp_str *args,
                         uint32_t n, struct wp_err *err)
{
    const char *answer = "!nothing to say";

    journal_put("ask %d%s:", number_of(sync),
                is_locked(&rig.redis->admin_lock) ? " alone" : "");
    journal_words(args, n);
    if (rig.on_ask != NULL) {
        rig.on_ask();
    }
    if (rig.n_answered < rig.n_answers) {
        answer = rig.answers[rig.n_answered++];
    }
    if (answer[0] == '!') {
        (void)wp_err_set(err, WP_UNAVAILABLE, "%s", answer + 1);
        return NULL;
    }
    return read_answer(answer);
}

static enum wp_status
take_call(struct wp_redis_links *links, uint32_t link, void *call, uint32_t tag)
{
    journal_put(" links %d link %u tag %x:", number_of(links), link, tag);
    rig.link = link;
    rig.call = call;
    rig.tag = tag;
    return rig.send_status;
}

enum wp_status /* NOLINTNEXTLINE(readability-function-size): parameters. */
__wrap_wp_redis_send(struct wp_redis_links *links, uint32_t link, void *call,
                     uint32_t tag, const struct wp_str *args, uint32_t n,
                     bool flush)
{
    enum wp_status status;

    journal_put("%s", flush ? "send and flush" : "send");
    status = take_call(links, link, call, tag);
    journal_words(args, n);
    return status;
}

enum wp_status
__wrap_wp_redis_send_asking(struct wp_redis_links *links, uint32_t link,
                            void *call, uint32_t tag, const struct wp_str *args,
                            uint32_t n)
{
    enum wp_status status;

    journal_put("send asking");
    status = take_call(links, link, call, tag);
    journal_words(args, n);
    return status;
}

enum wp_status
__wrap_wp_redis_gather(struct wp_redis_links *links, uint32_t link, void *call,
                       uint32_t tag, const struct wp_redis_entry *entry,
                       bool flush)
{
    enum wp_status status;

    journal_put("%s", flush ? "gather and flush" : "gather");
    status = take_call(links, link, call, tag);
    journal_put(" id %llx", (unsigned long long)entry->id);
    for (uint32_t i = 0; i < entry->n_head; i++) {
        journal_word(entry->head[i]);
    }
    journal_put(" |");
    for (uint32_t i = 0; i < entry->n_keys; i++) {
        journal_word(entry->keys[i]);
    }
    journal_put(" |");
    journal_words(entry->rest, entry->n_rest);
    return status;
}

void
__wrap_wp_redis_flush(struct wp_redis_links *links, uint32_t index)
{
    journal_note("flush links %d link %u", number_of(links), index);
}

void
__wrap_wp_redis_flush_and_wait(struct wp_redis_links *links, uint32_t index)
{
    journal_note("flush and wait links %d link %u", number_of(links), index);
}

void
__wrap_wp_redis_links_renew(struct wp_redis_links *links)
{
    journal_note("renew links %d", number_of(links));
}

/* All pools are in the first group; there is another one. */
enum wp_status
__wrap_wp_redis_groups_init(struct wp_lease_redis *redis, struct wp_err *err)
{
    journal_note("groups");
    if (rig.groups_status != WP_OK) {
        return wp_err_set(err, rig.groups_status, "no groups");
    }
    for (uint32_t i = 0; i < WP_REDIS_GROUPS_MAX; i++) {
        redis->groups[i].redis = redis;
        redis->groups[i].number = i;
        redis->groups[i].links = (struct wp_redis_links *)(void *)&handles[i];
    }
    for (uint32_t i = 0; i < wp_redis_pools_len(redis); i++) {
        atomic_store(&redis->pools[i].group, &redis->groups[0]);
    }
    return WP_OK;
}

void
__wrap_wp_redis_groups_fini(struct wp_lease_redis *redis)
{
    (void)redis;
    journal_note("no groups");
}

void
__wrap_wp_redis_groups_read_stats(struct wp_lease_redis *redis,
                                  struct wp_lease_redis_stats *out)
{
    (void)redis;
    out->servers = 71;
    out->redis.links = 72;
}

struct wp_redis_group *
__wrap_wp_redis_pool_place(struct wp_lease_redis *redis,
                           struct wp_redis_pool *pool,
                           const struct wp_redis_server *server,
                           struct wp_err *err)
{
    journal_note("place %s %s:%u", pool->key, server->host, server->port);
    if (rig.no_room) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no room");
        return NULL;
    }
    return &redis->groups[0];
}

void
__wrap_wp_redis_server_met(struct wp_redis_group *group, const char *run_id)
{
    journal_note("met %s in group %u", run_id, group->number);
}

struct wp_redis_group *
__wrap_wp_redis_group_for(struct wp_redis_group *group,
                          const struct wp_redis_redirect *redirect)
{
    journal_note("group %u asks for %s:%u ask=%d slot=%u", group->number,
                 redirect->server.host, redirect->server.port, redirect->ask,
                 redirect->slot);
    return rig.other;
}

void
__wrap_wp_redis_pool_misplaced(struct wp_lease_redis *redis,
                               struct wp_redis_pool *pool)
{
    (void)redis;
    journal_note("misplaced %s", pool->key);
}

bool
__wrap_wp_redis_feed_has_heard(struct wp_redis_feed *feed)
{
    journal_note("feed %d has heard: %d", number_of(feed), rig.has_heard);
    return rig.has_heard;
}

bool
__wrap_wp_redis_feed_is_of(struct wp_redis_feed *feed, const char *run_id)
{
    journal_note("feed %d is of %s: %d", number_of(feed), run_id, rig.is_of);
    return rig.is_of;
}

void
__wrap_wp_redis_feed_wake(struct wp_redis_feed *feed)
{
    journal_note("wake feed %d", number_of(feed));
}

void
__wrap_wp_redis_feed_destroy(struct wp_redis_feed *feed)
{
    journal_note("no feed %d", number_of(feed));
}

uint32_t
__wrap_wp_lease_redis_peers(struct wp_lease_redis *redis,
                            struct wp_lease_redis_peer *peers, uint32_t max)
{
    (void)redis;
    journal_note("peers %d %u", peers != NULL, max);
    return 73;
}

static enum wp_status
find(void *self, struct wp_str key, struct wp_redis_server *out,
     struct wp_err *err)
{
    (void)self;
    journal_put("find");
    journal_words(&key, 1);
    if (rig.find_status != WP_OK) {
        return wp_err_set(err, rig.find_status, "nobody knows");
    }
    set_server(out, rig.found_port);
    return WP_OK;
}

static void
doubt(void *self, struct wp_str reply)
{
    (void)self;
    journal_put("doubt");
    journal_words(&reply, 1);
}

const struct wp_redis_router rig_router = {.find = find, .doubt = doubt};

/* --- life --- */

static void
on_doubt(void *ctx, const struct wp_lease_redis_pool *pool)
{
    (void)ctx;
    journal_note("sink: doubt about %s/%s", pool->pool_namespace, pool->pool);
}

static const struct wp_lease_redis_pool pools[] = {{"ns", "a"}, {"ns", "b"}};

const struct wp_lease_redis_pool *
rig_pool(const char *name)
{
    static const struct wp_lease_redis_pool none = {"ns", "none"};

    return name[0] == 'a' ? &pools[0] : name[0] == 'b' ? &pools[1] : &none;
}

struct wp_redis_sync *
rig_connection(void)
{
    return (struct wp_redis_sync *)(void *)&handles[8];
}

struct wp_redis_feed *
rig_feed(void)
{
    return (struct wp_redis_feed *)(void *)&handles[9];
}

struct wp_lease_redis_config
rig_config(void)
{
    return (struct wp_lease_redis_config){
        .pools = pools,
        .n_pools = WP_ARRAY_LEN(pools),
        .threads = 2,
        .replicas = true,
        .replica_id = {1, 2, 3, 4, 5, 6, 7, 0xef},
        .sink = {.on_doubt = on_doubt},
    };
}

void
rig_create(const struct wp_lease_redis_config *config)
{
    rig_note_status(wp_lease_redis_create(config, &rig.redis, &rig.err));
}

int
rig_begin(void **state)
{
    (void)state;
    memset(&rig, 0, sizeof rig);
    rig.port = 1;
    rig.run_id = "run-1";
    rig.send_status = WP_PENDING;
    rig.has_heard = true;
    rig.is_of = true;
    (void)journal_told();
    return 0;
}

int
rig_end(void **state)
{
    bool asked = rig.n_answered == rig.n_answers;

    (void)state;
    wp_lease_redis_destroy(rig.redis);
    rig.redis = NULL;
    return asked && rig.n_replies == 0 && rig.n_locked == 0 ? 0 : -1;
}
