/* The steps of recovery; see allocator/stores/redis/store.h. */
#include <stdlib.h>

#include <hiredis/hiredis.h>

#include "allocator/stores/codec.h"
#include "allocator/stores/redis/impl.h"
#include "allocator/stores/redis/link/scripts.h"
#include "allocator/stores/redis/link/sync.h"
#include "pool/leases/rules.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"

enum {
    ARGS_FIRST = 4, /* EVALSHA, the script, 1, the key; then these. */
};

static struct wp_redis_pool *
find_pool(struct wp_lease_redis *redis, const char *pool_namespace,
          const char *pool, struct wp_err *err)
{
    struct wp_redis_pool *found = wp_redis_pool_find(
        redis, wp_str_from(pool_namespace), wp_str_from(pool));

    if (found == NULL) {
        (void)wp_err_set(err, WP_NOT_FOUND,
                         "pool '%s/%s' is not configured for redis",
                         pool_namespace, pool);
    }
    return found;
}

static void
close_admin(struct wp_lease_redis *redis)
{
    wp_redis_sync_close(redis->admin);
    redis->admin = NULL;
}

/* Behind a router each pool may be somewhere else, and a pool's server may have
 * changed. False: nobody says where it is. */
static bool
leads_there(struct wp_lease_redis *redis, const struct wp_redis_pool *pool,
            struct wp_err *err)
{
    const struct wp_redis_router *router = redis->config.redis.router;
    struct wp_redis_server server;

    if (router == NULL || redis->admin == NULL) {
        return true;
    }
    if (router->find(router->self, (struct wp_str){pool->key, pool->key_len},
                     &server, err) != WP_OK) {
        return false;
    }
    if (!wp_redis_server_eq(&server, &redis->admin_place.server)) {
        close_admin(redis);
    }
    return true;
}

/* What is restored in one server process counts nothing at another: that one
 * may know that this replica has ended its assertions, and not have all of
 * them. */
static bool
goes_on_there(struct wp_lease_redis *redis, struct wp_redis_pool *pool,
              bool begins, struct wp_err *err)
{
    if (begins) {
        memcpy(pool->restored_to, redis->admin_place.run_id,
               sizeof pool->restored_to);
        return true;
    }
    if (strcmp(pool->restored_to, redis->admin_place.run_id) == 0) {
        return true;
    }
    wp_redis_pool_distrust(pool);
    (void)wp_err_set(err, WP_UNAVAILABLE,
                     "redis: another server process than the one that the "
                     "recovery was begun with");
    return false;
}

/* Asks the script; once more on a new connection, since the old one may have
 * been lost long ago. args[ARGS_FIRST...] are the caller's. begins: the answer
 * is the generation that the rest is restored under, and the last argument is
 * the server process that is asked. admin_lock is held. */
static redisReply *
ask(struct wp_lease_redis *redis, struct wp_redis_pool *pool,
    struct wp_str *args, uint32_t n, bool begins, struct wp_err *err)
{
    redisReply *reply = NULL;
    bool fresh = false;

    args[0] = WP_STR("EVALSHA");
    args[1] = wp_redis_scripts[WP_SCRIPT_RECOVER].sha;
    args[2] = WP_STR("1");
    args[3] = (struct wp_str){pool->key, pool->key_len};
    if (!leads_there(redis, pool, err)) {
        return NULL;
    }
    while (reply == NULL && !fresh) {
        if (redis->admin == NULL) {
            fresh = true;
            if (wp_redis_pool_open(redis, pool, &redis->admin,
                                   &redis->admin_place, err) != WP_OK) {
                return NULL;
            }
        }
        if (!goes_on_there(redis, pool, begins, err)) {
            return NULL;
        }
        if (begins) {
            args[n - 1] = wp_str_from(pool->restored_to);
        }
        reply = wp_redis_sync_ask(redis->admin, args, n, err);
        if (reply == NULL) {
            close_admin(redis);
        }
    }
    return reply;
}

static enum wp_status
not_expected(struct wp_err *err)
{
    return wp_err_set(err, WP_UNAVAILABLE, "redis: not the answer expected");
}

/* The script's number, or -1: err says why there is none. */
static int64_t
ask_number(struct wp_lease_redis *redis, struct wp_redis_pool *pool,
           struct wp_str *args, uint32_t n, struct wp_err *err)
{
    redisReply *reply = ask(redis, pool, args, n, false, err);
    int64_t number = -1;

    if (reply != NULL) {
        if (reply->type == REDIS_REPLY_INTEGER && reply->integer >= 0) {
            number = reply->integer;
        } else {
            (void)not_expected(err);
        }
        freeReplyObject(reply);
    }
    return number;
}

static enum wp_status
not_closed(const struct wp_redis_pool *pool, struct wp_err *err)
{
    return wp_err_set(err, WP_FAILED_PRECONDITION,
                      "pool '%s/%s' is not closed for this recovery: begin it"
                      " again",
                      pool->name.pool_namespace, pool->name.pool);
}

/* What a server of before tells of the others, while it takes itself for the
 * master still, is never told to this one: it is not to be heard any more when
 * what is known is restored. In a cluster all nodes pass on what each one
 * tells. The lock is held. */
static enum wp_status
check_feed(struct wp_lease_redis *redis, struct wp_err *err)
{
    if (redis->feed == NULL || redis->config.redis.cluster ||
        wp_redis_feed_is_of(redis->feed, redis->admin_place.run_id)) {
        return WP_OK;
    }
    return wp_err_set(err, WP_UNAVAILABLE,
                      "redis: another server process is listened to than the "
                      "one that is to be restored");
}

enum wp_status
wp_lease_redis_begin_recovery(struct wp_lease_redis *redis,
                              const struct wp_lease_redis_pool *name,
                              struct wp_err *err)
{
    struct wp_redis_pool *pool =
        find_pool(redis, name->pool_namespace, name->pool, err);
    char fresh[WP_REDIS_GENERATION_LEN + 2];
    char distrusted[WP_REDIS_GENERATION_LEN + 2];
    struct wp_str args[ARGS_FIRST + 4];
    enum wp_status status = WP_UNAVAILABLE;
    redisReply *reply;
    bool open = false;

    if (pool == NULL) {
        return WP_NOT_FOUND;
    }
    wp_redis_generation_make('c', wp_redis_generation_new(), fresh);
    args[ARGS_FIRST] = WP_STR("begin");
    args[ARGS_FIRST + 1] = (struct wp_str){fresh + 1, WP_REDIS_GENERATION_LEN};
    wp_redis_generation_make('c', atomic_load(&pool->distrusted), distrusted);
    args[ARGS_FIRST + 2] = wp_str_from(distrusted);
    (void)pthread_mutex_lock(&redis->admin_lock);
    reply = ask(redis, pool, args, WP_ARRAY_LEN(args), true, err);
    if (reply != NULL && reply->type == REDIS_REPLY_STRING) {
        uint64_t generation = wp_redis_generation_parse(
            (struct wp_str){reply->str, reply->len}, &open);

        if (generation != 0 && !open) {
            atomic_store(&pool->recovering, generation);
            /* No commits of this replica either. */
            atomic_store(&pool->generation, 0);
            status = WP_OK;
        }
    }
    if (reply != NULL) {
        freeReplyObject(reply);
        status = status == WP_OK ? check_feed(redis, err) : not_expected(err);
    }
    (void)pthread_mutex_unlock(&redis->admin_lock);
    return status;
}

/* The generation that begin_recovery gave, as text; false: it gave none. The
 * lock is held. */
static bool
recovering(const struct wp_redis_pool *pool,
           char out[WP_REDIS_GENERATION_LEN + 2], struct wp_str *arg)
{
    uint64_t generation = atomic_load(&pool->recovering);

    wp_redis_generation_make('c', generation, out);
    *arg = (struct wp_str){out + 1, WP_REDIS_GENERATION_LEN};
    return generation != 0;
}

static enum wp_status
assert_record(struct wp_lease_redis *redis,
              const struct wp_lease_record *record, bool last,
              struct wp_err *err)
{
    struct wp_redis_pool *pool =
        find_pool(redis, record->pool_namespace, record->pool, err);
    char generation[WP_REDIS_GENERATION_LEN + 2];
    char field[WP_REDIS_FIELD_LEN + 1];
    char packed[WP_LEASE_PACKED_MAX];
    char claim[1 + WP_LEASE_CLAIM_KEY_MAX] = "c";
    struct wp_str args[ARGS_FIRST + 7];
    int64_t result = WP_RESULT_STALE;

    if (pool == NULL) {
        return WP_NOT_FOUND;
    }
    WP_ASSERT(record->state != WP_RECORD_NONE);
    wp_redis_field_make(record->uid, field);
    args[ARGS_FIRST] = WP_STR("assert");
    args[ARGS_FIRST + 2] = (struct wp_str){field, WP_REDIS_FIELD_LEN};
    args[ARGS_FIRST + 3] = wp_str_from(redis->writer);
    args[ARGS_FIRST + 4] =
        (struct wp_str){packed, wp_lease_pack(record, packed)};
    args[ARGS_FIRST + 5] = WP_STR("");
    args[ARGS_FIRST + 6] = last ? WP_STR("last") : WP_STR("");
    if (wp_record_is_claimed(record->state)) {
        args[ARGS_FIRST + 5].ptr = claim;
        args[ARGS_FIRST + 5].len =
            1 + wp_lease_pack_claim_key(wp_str_from(record->tenant),
                                        wp_str_from(record->claim_id),
                                        claim + 1);
    }
    (void)pthread_mutex_lock(&redis->admin_lock);
    if (recovering(pool, generation, &args[ARGS_FIRST + 1])) {
        result = ask_number(redis, pool, args, WP_ARRAY_LEN(args), err);
    }
    (void)pthread_mutex_unlock(&redis->admin_lock);
    switch (result) {
    case WP_RESULT_OK:
        return WP_OK;
    case WP_RESULT_STALE:
        return not_closed(pool, err);
    case WP_RESULT_ABORTED:
        return wp_err_set(err, WP_ABORTED, "redis knows more of '%s'",
                          record->sandbox);
    case WP_RESULT_ALREADY_EXISTS:
        return wp_err_set(err, WP_ALREADY_EXISTS,
                          "the claim of '%s' has another sandbox",
                          record->sandbox);
    case WP_RESULT_CORRUPT:
        WP_REDIS_COUNT(redis->corrupt);
        return wp_err_set(err, WP_INTERNAL,
                          "the record of '%s' in redis cannot be read",
                          record->sandbox);
    default:
        return result < 0 ? WP_UNAVAILABLE : not_expected(err);
    }
}

enum wp_status
wp_lease_redis_assert_record(struct wp_lease_redis *redis,
                             const struct wp_lease_record *record,
                             struct wp_err *err)
{
    return assert_record(redis, record, false, err);
}

enum wp_status
wp_lease_redis_assert_last(struct wp_lease_redis *redis,
                           const struct wp_lease_record *record,
                           struct wp_err *err)
{
    return assert_record(redis, record, true, err);
}

/* kind: "end", "ended". */
static enum wp_status
ask_of_replica(struct wp_lease_redis *redis,
               const struct wp_lease_redis_pool *name, struct wp_str kind,
               const uint8_t replica_id[WP_REPLICA_ID_LEN], struct wp_err *err)
{
    struct wp_redis_pool *pool =
        find_pool(redis, name->pool_namespace, name->pool, err);
    char generation[WP_REDIS_GENERATION_LEN + 2];
    char replica[WP_REDIS_WRITER_LEN + 1];
    struct wp_str args[ARGS_FIRST + 3];
    int64_t result = WP_RESULT_STALE;

    if (pool == NULL) {
        return WP_NOT_FOUND;
    }
    wp_hex_encode(replica_id, WP_REPLICA_ID_LEN, replica);
    args[ARGS_FIRST] = kind;
    args[ARGS_FIRST + 2] = wp_str_from(replica);
    (void)pthread_mutex_lock(&redis->admin_lock);
    if (recovering(pool, generation, &args[ARGS_FIRST + 1])) {
        result = ask_number(redis, pool, args, WP_ARRAY_LEN(args), err);
    }
    (void)pthread_mutex_unlock(&redis->admin_lock);
    switch (result) {
    case WP_RESULT_OK:
        return WP_OK;
    case WP_RESULT_PENDING:
        return WP_PENDING;
    case WP_RESULT_STALE:
        return not_closed(pool, err);
    default:
        return result < 0 ? WP_UNAVAILABLE : not_expected(err);
    }
}

enum wp_status
wp_lease_redis_end_assert(struct wp_lease_redis *redis,
                          const struct wp_lease_redis_pool *name,
                          struct wp_err *err)
{
    return ask_of_replica(redis, name, WP_STR("end"), redis->config.replica_id,
                          err);
}

enum wp_status
wp_lease_redis_has_ended(struct wp_lease_redis *redis,
                         const struct wp_lease_redis_pool *name,
                         const uint8_t replica_id[WP_REPLICA_ID_LEN],
                         struct wp_err *err)
{
    return ask_of_replica(redis, name, WP_STR("ended"), replica_id, err);
}

/* The lock is held. */
static int64_t
ask_open(struct wp_lease_redis *redis, struct wp_redis_pool *pool,
         const struct wp_lease_redis_peer *peers, uint32_t n_peers,
         struct wp_err *err)
{
    char generation[WP_REDIS_GENERATION_LEN + 2];
    char replicas[1 + WP_PEERS_MAX][WP_REDIS_WRITER_LEN + 1];
    struct wp_str args[ARGS_FIRST + 3 + WP_PEERS_MAX];
    uint64_t opened = atomic_load(&pool->recovering);
    int64_t result;

    if (redis->feed != NULL && !wp_redis_feed_has_heard(redis->feed)) {
        return WP_RESULT_PENDING;
    }
    WP_ASSERT(n_peers <= WP_PEERS_MAX);
    args[ARGS_FIRST] = WP_STR("open");
    if (!recovering(pool, generation, &args[ARGS_FIRST + 1])) {
        return WP_RESULT_STALE;
    }
    wp_hex_encode(redis->config.replica_id, WP_REPLICA_ID_LEN, replicas[0]);
    args[ARGS_FIRST + 2] = wp_str_from(replicas[0]);
    for (uint32_t i = 0; i < n_peers; i++) {
        wp_hex_encode(peers[i].replica_id, WP_REPLICA_ID_LEN, replicas[1 + i]);
        args[ARGS_FIRST + 3 + i] = wp_str_from(replicas[1 + i]);
    }
    result = ask_number(redis, pool, args, ARGS_FIRST + 3 + n_peers, err);
    if (result != WP_RESULT_OK) {
        return result;
    }
    /* Unless the server was lost meanwhile. */
    if (!atomic_compare_exchange_strong(&pool->recovering, &opened, 0)) {
        return WP_RESULT_STALE;
    }
    atomic_store(&pool->generation, opened);
    return result;
}

enum wp_status
wp_lease_redis_open_generation(struct wp_lease_redis *redis,
                               const struct wp_lease_redis_pool *name,
                               const struct wp_lease_redis_peer *peers,
                               uint32_t n_peers, struct wp_err *err)
{
    struct wp_redis_pool *pool =
        find_pool(redis, name->pool_namespace, name->pool, err);
    int64_t result;

    if (pool == NULL) {
        return WP_NOT_FOUND;
    }
    (void)pthread_mutex_lock(&redis->admin_lock);
    result = ask_open(redis, pool, peers, n_peers, err);
    (void)pthread_mutex_unlock(&redis->admin_lock);
    switch (result) {
    case WP_RESULT_OK:
        wp_log_info("pool recovered",
                    wp_kv_str("namespace", pool->name.pool_namespace),
                    wp_kv_str("pool", pool->name.pool));
        return WP_OK;
    case WP_RESULT_STALE:
        return not_closed(pool, err);
    case WP_RESULT_PENDING:
        return wp_err_set(
            err, WP_PENDING,
            "other replicas have not restored what they know yet");
    default:
        return result < 0 ? WP_UNAVAILABLE : not_expected(err);
    }
}
