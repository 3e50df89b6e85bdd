/* Commits: an op on its way, and its answer as a status. */
#include <stdlib.h>
#include <string.h>

#include "allocator/stores/codec.h"
#include "allocator/stores/redis/impl.h"
#include "allocator/stores/redis/command.h"
#include "allocator/stores/redis/link/scripts.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/log.h"

enum {
    /* Lowest bits of a command's tag; above them the pool's number and what
     * tells its generation from the ones before. */
    TAG_AGAIN = 1, /* Sent a second time, since Redis had lost the script. */
    TAG_ASKED = 2, /* Sent a second time, to where ASK has led. */
    TAG_POOL_SHIFT = 2,
    TAG_POOL_BITS = 11,
    TAG_GENERATION_SHIFT = TAG_POOL_SHIFT + TAG_POOL_BITS,
};

static bool
is_snapshot(const struct wp_lease_op *op)
{
    return op->kind == WP_LEASE_PUT_SNAPSHOT ||
           op->kind == WP_LEASE_GET_SNAPSHOT;
}

/* --- commits --- */

/* Which link this thread has been given, in which store. */
static _Thread_local struct {
    uint64_t store;
    uint32_t link;
    uint64_t gathered; /* Groups where something waits for a flush. */
} mine;

/* How a commit is sent. */
struct way {
    struct wp_redis_group *group; /* NULL: the pool's. */
    uint32_t link;
    uint32_t tag; /* TAG_AGAIN, TAG_ASKED */
    bool whole;   /* With the script's text. */
    bool flush;
};

/* Alone, or with what else the link gathers for this pool and generation. */
static enum wp_status
send_command(struct wp_redis_group *group, struct wp_lease_op *op, uint32_t tag,
             uint64_t generation, const struct wp_redis_command *c,
             struct way way)
{
    const struct wp_str *keys = c->args + c->n_head + 1;
    struct wp_redis_entry entry;

    if (c->n_head == 0) {
        return wp_redis_send(group->links, way.link, op, tag, c->args, c->n,
                             way.flush);
    }
    entry = (struct wp_redis_entry){
        .id = generation,
        .head = c->args,
        .keys = keys,
        .rest = keys + c->n_keys,
        .n_head = c->n_head,
        .n_keys = c->n_keys,
        .n_rest = c->n - c->n_head - 1 - c->n_keys,
    };
    return wp_redis_gather(group->links, way.link, op, tag, &entry, way.flush);
}

static enum wp_status
send_op(struct wp_lease_redis *redis, struct wp_lease_op *op, struct way way)
{
    struct wp_redis_pool *pool =
        wp_redis_pool_find(redis, op->pool_namespace, op->pool);
    struct wp_redis_group *group = way.group;
    struct wp_redis_command c;
    uint64_t generation;
    uint32_t tag;

    if (pool == NULL) {
        return WP_UNAVAILABLE;
    }
    generation = atomic_load_explicit(&pool->generation, memory_order_acquire);
    if (group == NULL) {
        group = atomic_load_explicit(&pool->group, memory_order_acquire);
    }
    if (generation == 0 || group == NULL) {
        return WP_UNAVAILABLE;
    }
    wp_redis_command_make(&c, pool, generation, wp_str_from(redis->writer), op,
                          way.whole);
    tag = way.tag | (uint32_t)(pool - redis->pools) << TAG_POOL_SHIFT |
          (uint32_t)generation << TAG_GENERATION_SHIFT;
    if ((way.tag & TAG_ASKED) != 0) {
        return wp_redis_send_asking(group->links, way.link, op, tag, c.args,
                                    c.n);
    }
    if (!way.flush) {
        mine.gathered |= UINT64_C(1) << group->number;
    }
    return send_command(group, op, tag, generation, &c, way);
}

/* Sends what this thread has gathered on its links; nothing is gathered on
 * links 0, which are everybody's. The answer to one alone it waits for itself:
 * a thread that has to be woken for it takes longer. */
static void
flush_gathered(struct wp_lease_redis *redis, uint32_t link)
{
    bool alone = (mine.gathered & (mine.gathered - 1)) == 0;

    while (mine.gathered != 0) {
        struct wp_redis_group *group =
            &redis->groups[__builtin_ctzll(mine.gathered)];

        mine.gathered &= mine.gathered - 1;
        if (alone) {
            wp_redis_flush_and_wait(group->links, link);
        } else {
            wp_redis_flush(group->links, link);
        }
    }
}

enum wp_status
wp_redis_commit(void *self, struct wp_lease_op *op)
{
    struct wp_lease_redis *redis = self;
    uint32_t link = mine.store == redis->id ? mine.link : 0;

    WP_REDIS_COUNT(redis->commits);
    if (op->kind == WP_LEASE_GET_SNAPSHOT) {
        op->snapshot->len = 0;
    }
    return send_op(redis, op, (struct way){.link = link, .flush = link == 0});
}

void
wp_redis_commit_flush(void *self)
{
    struct wp_lease_redis *redis = self;

    if (mine.store != redis->id) {
        uint32_t next = atomic_fetch_add(&redis->links_given, 1) + 1;

        mine.store = redis->id;
        mine.link = next < redis->n_links ? next : 0;
        mine.gathered = 0;
    } else {
        flush_gathered(redis, mine.link);
    }
}

/* --- answers; reading thread, or the one that waits for its own --- */

static const enum wp_status result_status[] = {
    [WP_RESULT_OK] = WP_OK,
    [WP_RESULT_STALE] = WP_UNAVAILABLE,
    [WP_RESULT_NOT_FOUND] = WP_NOT_FOUND,
    [WP_RESULT_ALREADY_EXISTS] = WP_ALREADY_EXISTS,
    [WP_RESULT_TAKEN] = WP_TAKEN,
    [WP_RESULT_ABORTED] = WP_ABORTED,
    [WP_RESULT_FAILED_PRECONDITION] = WP_FAILED_PRECONDITION,
    [WP_RESULT_PENDING] = WP_UNAVAILABLE,
    [WP_RESULT_CORRUPT] = WP_UNAVAILABLE,
};

/* Errors that Redis gives before a script has written anything. */
static const char *const refusals[] = {
    "NOSCRIPT ", "LOADING ",    "READONLY ",    "OOM ",     "MISCONF ",
    "NOAUTH ",   "NOREPLICAS ", "CLUSTERDOWN ", "MOVED ",   "ASK ",
    "TRYAGAIN ", "MASTERDOWN ", "CROSSSLOT ",   "NOPERM ",  "BUSY ",
    "BUSYKEY ",  "DENIED ",     "WRONGTYPE ",   "NOTBUSY ",
};

/* This server will not take writes of this pool, another one may. ASK is not
 * among them: the slot is here still. */
static const char *const elsewhere[] = {
    "READONLY ",
    "MOVED ",
    "MASTERDOWN ",
    "CLUSTERDOWN ",
};

static bool
begins_with_any(struct wp_str text, const char *const *heads, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (wp_str_starts_with(text, wp_str_from(heads[i]))) {
            return true;
        }
    }
    return false;
}

/* True once in every interval_ns. */
static bool
is_time(_Atomic(int64_t) *last_ns, int64_t interval_ns)
{
    int64_t now_ns = wp_clock_mono_ns(wp_clock_system());
    int64_t last = atomic_load(last_ns);

    return (last == 0 || now_ns - last >= interval_ns) &&
           atomic_compare_exchange_strong(last_ns, &last, now_ns);
}

static enum wp_status
refusal(struct wp_str text)
{
    return begins_with_any(text, refusals, WP_ARRAY_LEN(refusals))
               ? WP_UNAVAILABLE
               : WP_UNKNOWN_OUTCOME;
}

/* The slot is leaving this server, the pool has left: where it went takes this
 * one command. The pool stays placed here, where the slot is. UNAVAILABLE: this
 * is not said, or cannot be followed. */
static enum wp_status
follow_ask(struct wp_redis_group *group, uint32_t link, struct wp_lease_op *op,
           struct wp_str text)
{
    struct wp_redis_redirect redirect;
    struct wp_redis_group *other = NULL;

    if (wp_str_starts_with(text, WP_STR("ASK ")) &&
        wp_redis_redirect_parse(text, &redirect)) {
        other = wp_redis_group_for(group, &redirect);
    }
    if (other == NULL || other == group) {
        return WP_UNAVAILABLE;
    }
    return send_op(
        group->redis, op,
        (struct way){.group = other, .link = link, .tag = TAG_ASKED});
}

static enum wp_status
on_error(struct wp_redis_group *group, struct wp_redis_pool *pool,
         struct wp_str text)
{
    struct wp_lease_redis *redis = group->redis;
    const struct wp_redis_router *router = redis->config.redis.router;

    WP_REDIS_COUNT(redis->errors);
    if (is_time(&redis->logged_ns, 5 * WP_NS_PER_S)) {
        wp_log_warn("redis refused a commit", wp_kv_slice("error", text),
                    wp_kv_int("errors", (int64_t)atomic_load(&redis->errors)));
    }
    if (begins_with_any(text, elsewhere, WP_ARRAY_LEN(elsewhere))) {
        if (router != NULL) {
            router->doubt(router->self, text);
        }
        if (redis->config.redis.cluster) {
            wp_redis_pool_misplaced(redis, pool);
        } else if (is_time(&redis->renewed_ns, WP_NS_PER_S)) {
            wp_redis_links_renew(group->links);
        }
    }
    return refusal(text);
}

/* A text is a record with its field: what FETCH asked for, or what EXPIRE met
 * instead of the deadline it knew. */
static enum wp_status
on_record(struct wp_lease_redis *redis, struct wp_lease_op *op,
          struct wp_str text)
{
    struct wp_lease_record ignored;
    struct wp_lease_record *found = op->found != NULL ? op->found : &ignored;
    struct wp_str field = text;
    struct wp_str packed = {text.ptr + WP_REDIS_FIELD_LEN,
                            text.len - WP_REDIS_FIELD_LEN};

    field.len = WP_REDIS_FIELD_LEN;
    if (text.len < WP_REDIS_FIELD_LEN || !wp_redis_field_parse(field, found) ||
        !wp_lease_unpack(packed, found)) {
        WP_REDIS_COUNT(redis->corrupt);
        wp_log_error("a record in redis cannot be read");
        return WP_UNAVAILABLE;
    }
    return op->kind == WP_LEASE_FETCH ? WP_OK : WP_ABORTED;
}

/* A piece of a snapshot; a short one is its end. */
static enum wp_status
on_snapshot(struct wp_lease_redis *redis, uint32_t link, struct wp_lease_op *op,
            struct wp_str text)
{
    struct wp_pool_snapshot *snapshot = op->snapshot;

    if (op->kind != WP_LEASE_GET_SNAPSHOT ||
        text.len > snapshot->cap - snapshot->len) {
        return WP_NOT_FOUND;
    }
    if (text.len > 0) {
        memcpy(snapshot->bytes + snapshot->len, text.ptr, text.len);
    }
    snapshot->len += text.len;
    if (text.len == WP_REDIS_REPLY_MAX) {
        return send_op(redis, op, (struct way){.link = link, .flush = true});
    }
    return snapshot->len > 0 ? WP_OK : WP_NOT_FOUND;
}

/* The generation that the command was sent under is not believed in any more:
 * the pool is in doubt, or was recovered since. */
static bool
is_outdated(const struct wp_redis_pool *pool, uint32_t tag)
{
    return tag >> TAG_GENERATION_SHIFT !=
           (uint32_t)atomic_load(&pool->generation) << TAG_GENERATION_SHIFT >>
               TAG_GENERATION_SHIFT;
}

/* What a server says that may have been replaced: what it has done may be
 * forgotten, and was perhaps too late to be restored in the recovery; what it
 * has refused it has not done. */
static enum wp_status
doubted(const struct wp_lease_op *op, enum wp_status status)
{
    return (status == WP_OK && op->kind != WP_LEASE_FETCH) ||
                   status == WP_UNKNOWN_OUTCOME
               ? WP_UNKNOWN_OUTCOME
               : WP_UNAVAILABLE;
}

static enum wp_status
on_number(struct wp_lease_redis *redis, struct wp_redis_pool *pool,
          uint32_t tag, int64_t number)
{
    /* Before it is compared: doubt is about this one. */
    uint64_t generation = atomic_load(&pool->generation);

    if (number < 0 || number >= (int64_t)WP_ARRAY_LEN(result_status)) {
        return WP_UNKNOWN_OUTCOME;
    }
    if (number == WP_RESULT_CORRUPT) {
        WP_REDIS_COUNT(redis->corrupt);
        wp_log_error("a record in redis cannot be read");
    } else if (number == WP_RESULT_STALE) {
        WP_REDIS_COUNT(redis->stale);
        if (!is_outdated(pool, tag)) {
            wp_redis_pool_doubt(redis, pool, generation);
        }
    }
    return result_status[number];
}

void
wp_redis_commit_on_reply(void *ctx, uint32_t link, void *call, uint32_t tag,
                         const struct wp_redis_reply *reply)
{
    struct wp_redis_group *group = ctx;
    struct wp_lease_redis *redis = group->redis;
    struct wp_lease_op *op = call;
    uint32_t number = tag >> TAG_POOL_SHIFT & ((1U << TAG_POOL_BITS) - 1);
    enum wp_status status = WP_UNKNOWN_OUTCOME;

    switch (reply->kind) {
    case WP_REPLY_NUMBER:
        status = on_number(redis, &redis->pools[number], tag, reply->number);
        break;
    case WP_REPLY_TEXT:
        status = is_snapshot(op) ? on_snapshot(redis, link, op, reply->text)
                                 : on_record(redis, op, reply->text);
        break;
    case WP_REPLY_ERROR:
        if (wp_str_starts_with(reply->text, WP_STR("NOSCRIPT ")) &&
            (tag & (TAG_AGAIN | TAG_ASKED)) == 0) {
            WP_REDIS_COUNT(redis->noscript);
            /* The first brings it with it; those that shared its command come
             * after it on the same link. */
            status = send_op(redis, op,
                             (struct way){.link = link,
                                          .tag = TAG_AGAIN,
                                          .whole = reply->place == 0,
                                          .flush = true});
        } else if ((tag & TAG_ASKED) == 0) {
            status = follow_ask(group, link, op, reply->text);
            if (status == WP_UNAVAILABLE) {
                status = on_error(group, &redis->pools[number], reply->text);
            }
        } else {
            /* What that server says does not concern the pool's. */
            status = refusal(reply->text);
        }
        break;
    case WP_REPLY_OTHER:
        status = op->kind == WP_LEASE_PUT_SNAPSHOT ? WP_OK : status;
        break;
    }
    if (status != WP_PENDING) {
        op->done(op, !is_snapshot(op) && is_outdated(&redis->pools[number], tag)
                         ? doubted(op, status)
                         : status);
    }
}

void
wp_redis_commit_on_end(void *ctx, void *call, enum wp_status status)
{
    struct wp_lease_op *op = call;

    (void)ctx;
    op->done(op, status);
}
