/* Reading pools: at the start, and when the feed has to begin anew. */
#include <stdio.h>

#include <hiredis/hiredis.h>

#include "allocator/stores/codec.h"
#include "allocator/stores/redis/impl.h"
#include "allocator/stores/redis/link/scripts.h"
#include "allocator/stores/redis/link/sync.h"
#include "pool/base/log.h"

enum wp_status
wp_redis_pool_open(struct wp_lease_redis *redis, struct wp_redis_pool *pool,
                   struct wp_redis_sync **out, struct wp_redis_place *place,
                   struct wp_err *err)
{
    struct wp_redis_place found = {.run_id = ""};
    struct wp_redis_group *group;
    enum wp_status status = wp_redis_sync_open(
        &redis->config.redis, (struct wp_str){pool->key, pool->key_len}, out,
        &found.server, found.run_id, err);

    if (status != WP_OK) {
        return status;
    }
    group = wp_redis_pool_place(redis, pool, &found.server, err);
    if (group == NULL) {
        wp_redis_sync_close(*out);
        *out = NULL;
        return WP_RESOURCE_EXHAUSTED;
    }
    if (place != NULL) {
        *place = found;
    }
    wp_redis_server_met(group, found.run_id);
    return WP_OK;
}

/* One field and its value. Claims and the rest are passed over. */
static bool
scan_pair(struct wp_lease_redis *redis, const struct wp_redis_pool *pool,
          const struct wp_redis_scan *scan, const redisReply *field,
          const redisReply *value)
{
    struct wp_lease_record record;
    struct wp_str name = {field->str, field->len};

    if (field->type != REDIS_REPLY_STRING ||
        value->type != REDIS_REPLY_STRING || name.len == 0 ||
        name.ptr[0] != 'r') {
        return true;
    }
    if (!wp_redis_field_parse(name, &record) ||
        !wp_lease_unpack((struct wp_str){value->str, value->len}, &record) ||
        record.state == WP_RECORD_NONE) {
        WP_REDIS_COUNT(redis->corrupt);
        wp_log_error("a record in redis cannot be read: it is passed over",
                     wp_kv_str("key", pool->key), wp_kv_slice("field", name));
        return true;
    }
    return scan->each(scan->ctx, &record);
}

/* One page; cursor is replaced by the next one, "0" after the last. */
static enum wp_status
scan_page(struct wp_lease_redis *redis, struct wp_redis_sync *context,
          const struct wp_redis_pool *pool, const struct wp_redis_scan *scan,
          char cursor[24], struct wp_err *err)
{
    const struct wp_str args[] = {WP_STR("HSCAN"),
                                  {pool->key, pool->key_len},
                                  wp_str_from(cursor),
                                  WP_STR("COUNT"),
                                  WP_STR("256")};
    redisReply *reply = wp_redis_sync_ask(context, args, 5, err);
    enum wp_status status = WP_OK;
    const redisReply *pairs;

    if (reply == NULL) {
        return WP_UNAVAILABLE;
    }
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
        reply->element[0]->type != REDIS_REPLY_STRING ||
        reply->element[0]->len >= 24 ||
        reply->element[1]->type != REDIS_REPLY_ARRAY) {
        freeReplyObject(reply);
        return wp_err_set(err, WP_UNAVAILABLE,
                          "redis: HSCAN: not the answer expected");
    }
    (void)snprintf(cursor, 24, "%s", reply->element[0]->str);
    pairs = reply->element[1];
    for (size_t i = 0; i + 1 < pairs->elements && status == WP_OK; i += 2) {
        if (!scan_pair(redis, pool, scan, pairs->element[i],
                       pairs->element[i + 1])) {
            status = wp_err_set(err, WP_CANCELLED, "the receiver is full");
        }
    }
    freeReplyObject(reply);
    return status;
}

/* The number of the last change; and the generation, while at it. */
static enum wp_status
read_number(struct wp_lease_redis *redis, struct wp_redis_sync *context,
            struct wp_redis_pool *pool, uint64_t *number, struct wp_err *err)
{
    const struct wp_str args[] = {
        WP_STR("HMGET"), {pool->key, pool->key_len}, WP_STR("q"), WP_STR("g")};
    redisReply *reply = wp_redis_sync_ask(context, args, 4, err);
    const redisReply *q;
    const redisReply *g;
    uint64_t last;

    *number = 0;
    if (reply == NULL) {
        return WP_UNAVAILABLE;
    }
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2) {
        q = reply->element[0];
        g = reply->element[1];
        if (q->type == REDIS_REPLY_STRING &&
            wp_str_to_u64((struct wp_str){q->str, q->len}, &last)) {
            *number = last;
        }
        wp_redis_generation_met(redis, pool,
                                g->type == REDIS_REPLY_STRING
                                    ? (struct wp_str){g->str, g->len}
                                    : WP_STR(""));
    }
    freeReplyObject(reply);
    return WP_OK;
}

enum wp_status
wp_redis_pool_scan(struct wp_lease_redis *redis, struct wp_redis_sync *context,
                   struct wp_redis_pool *pool, const struct wp_redis_scan *scan,
                   struct wp_err *err)
{
    char cursor[24] = "0";
    enum wp_status status = WP_OK;
    uint64_t after;

    if (scan->number != NULL) {
        status = read_number(redis, context, pool, scan->number, err);
    }
    while (status == WP_OK) {
        status = scan_page(redis, context, pool, scan, cursor, err);
        if (status == WP_OK && scan->page != NULL && !scan->page(scan->ctx)) {
            status = wp_err_set(err, WP_CANCELLED, "the receiver is full");
        }
        if (cursor[0] == '0' && cursor[1] == '\0') {
            break;
        }
    }
    if (status == WP_OK && scan->number != NULL) {
        /* Forgotten meanwhile? The generation tells. */
        status = read_number(redis, context, pool, &after, err);
    }
    return status;
}

/* --- at the start --- */

struct loading {
    void (*each)(void *ctx, const struct wp_lease_record *record);
    void *ctx;
};

static bool
load_each(void *ctx, const struct wp_lease_record *record)
{
    const struct loading *loading = ctx;

    loading->each(loading->ctx, record);
    return true;
}

/* The pool's generation, as it is or a first one. */
static enum wp_status
learn_generation(struct wp_redis_pool *pool, struct wp_redis_sync *context,
                 uint64_t *generation, bool *open, struct wp_err *err)
{
    char fresh[WP_REDIS_GENERATION_LEN + 2];
    const struct wp_str args[] = {
        WP_STR("EVALSHA"), wp_redis_scripts[WP_SCRIPT_RECOVER].sha,
        WP_STR("1"),       {pool->key, pool->key_len},
        WP_STR("init"),    {fresh + 1, WP_REDIS_GENERATION_LEN}};
    redisReply *reply;

    wp_redis_generation_make('o', wp_redis_generation_new(), fresh);
    reply = wp_redis_sync_ask(context, args, 6, err);
    if (reply == NULL) {
        return WP_UNAVAILABLE;
    }
    *generation = reply->type == REDIS_REPLY_STRING
                      ? wp_redis_generation_parse(
                            (struct wp_str){reply->str, reply->len}, open)
                      : 0;
    freeReplyObject(reply);
    if (*generation == 0) {
        return wp_err_set(err, WP_UNAVAILABLE,
                          "redis: the generation in '%s' cannot be read",
                          pool->key);
    }
    return WP_OK;
}

/* It may be closed: then it has to be recovered first. */
static void
believe(struct wp_lease_redis *redis, struct wp_redis_pool *pool,
        uint64_t generation, bool open)
{
    const struct wp_lease_redis_sink *sink = &redis->config.sink;

    if (open) {
        atomic_store_explicit(&pool->generation, generation,
                              memory_order_release);
    } else if (sink->on_doubt != NULL) {
        sink->on_doubt(sink->ctx, &pool->name);
    }
}

enum wp_status
wp_redis_pool_learn(struct wp_lease_redis *redis, struct wp_redis_pool *pool,
                    struct wp_redis_sync *context, struct wp_err *err)
{
    uint64_t generation = 0;
    bool open = false;
    enum wp_status status =
        learn_generation(pool, context, &generation, &open, err);

    if (status == WP_OK) {
        believe(redis, pool, generation, open);
    }
    return status;
}

static enum wp_status
load_pool(struct wp_lease_redis *redis, struct wp_redis_pool *pool,
          struct wp_redis_sync *context, const struct wp_redis_scan *scan,
          struct wp_err *err)
{
    const struct wp_redis_group *group = atomic_load(&pool->group);
    uint64_t generation = 0;
    bool open = false;
    enum wp_status status =
        learn_generation(pool, context, &generation, &open, err);

    if (status == WP_OK) {
        status = wp_redis_pool_scan(redis, context, pool, scan, err);
    }
    if (status == WP_OK && atomic_load(&pool->group) != group) {
        status = wp_err_set(err, WP_UNAVAILABLE, "it moves to another server");
    }
    if (status != WP_OK) {
        return wp_err_wrap(err, "pool '%s/%s'", pool->name.pool_namespace,
                           pool->name.pool);
    }
    believe(redis, pool, generation, open);
    return WP_OK;
}

enum wp_status
wp_redis_load(void *self,
              void (*each)(void *ctx, const struct wp_lease_record *record),
              void *ctx, struct wp_err *err)
{
    struct wp_lease_redis *redis = self;
    struct loading loading = {each, ctx};
    const struct wp_redis_scan scan = {.ctx = &loading, .each = load_each};
    struct wp_redis_sync *context = NULL;
    enum wp_status status = WP_OK;

    for (uint32_t i = 0; i < wp_redis_pools_len(redis) && status == WP_OK;
         i++) {
        struct wp_redis_pool *pool = &redis->pools[i];

        /* Behind a router each pool may be somewhere else. */
        if (context != NULL && redis->config.redis.router != NULL) {
            wp_redis_sync_close(context);
            context = NULL;
        }
        if (context == NULL) {
            status = wp_redis_pool_open(redis, pool, &context, NULL, err);
        }
        if (status == WP_OK) {
            status = load_pool(redis, pool, context, &scan, err);
        }
    }
    wp_redis_sync_close(context);
    return status;
}

enum wp_status
wp_lease_redis_read_pool(struct wp_lease_redis *redis,
                         const struct wp_lease_redis_pool *name,
                         void (*each)(void *ctx,
                                      const struct wp_lease_record *record),
                         void *ctx, struct wp_err *err)
{
    struct wp_redis_pool *pool = wp_redis_pool_find(
        redis, wp_str_from(name->pool_namespace), wp_str_from(name->pool));
    struct loading loading = {each, ctx};
    const struct wp_redis_scan scan = {.ctx = &loading, .each = load_each};
    struct wp_redis_sync *context = NULL;
    enum wp_status status;

    if (pool == NULL) {
        return wp_err_set(err, WP_NOT_FOUND,
                          "pool '%s/%s' is not configured for redis",
                          name->pool_namespace, name->pool);
    }
    status = wp_redis_pool_open(redis, pool, &context, NULL, err);
    if (status == WP_OK) {
        status = wp_redis_pool_scan(redis, context, pool, &scan, err);
        wp_redis_sync_close(context);
    }
    return status;
}
