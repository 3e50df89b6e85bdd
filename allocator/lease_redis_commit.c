/* Commits: an op as the words of a command, and its answer as a status. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/lease_codec.h"
#include "allocator/lease_redis_impl.h"
#include "allocator/redis_scripts.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/log.h"

enum {
    /* Lowest bits of a command's tag; above them the pool's number and what
     * tells its generation from the ones before. */
    TAG_AGAIN = 1, /* Sent a second time, with the script's text. */
    TAG_ASKED = 2, /* Sent a second time, to where ASK has led. */
    TAG_POOL_SHIFT = 2,
    TAG_POOL_BITS = 11,
    TAG_GENERATION_SHIFT = TAG_POOL_SHIFT + TAG_POOL_BITS,
    ARGS_MAX = 11,
};

/* Every command begins with these. */
enum {
    ARG_VERB,
    ARG_SCRIPT,
    ARG_N_KEYS,
    ARG_KEY,
    ARG_GENERATION,
    ARG_FIELD,
    ARG_WRITER,
    ARG_REST,
};

/* A commit as the words of a command; the words may lie in the buffers. */
struct command {
    struct wp_str args[ARGS_MAX];
    uint32_t n;
    char generation[WP_REDIS_GENERATION_LEN + 2];
    char field[WP_REDIS_FIELD_LEN + 1];
    char fence[WP_LEASE_NUMBER_LEN];
    char deadline[WP_LEASE_NUMBER_LEN];
    char claim[1 + WP_LEASE_CLAIM_KEY_MAX];
    char packed[WP_LEASE_PACKED_MAX];
    char note_key[WP_REDIS_KEY_MAX + 8];
    char from[24];
    char to[24];
};

/* Of a note whose pool is gone, seconds: 90 days. It is written again once a
 * minute where there is news. */
#define NOTE_KEPT_S WP_STR("7776000")

static struct wp_str
word(const char *bytes, size_t len)
{
    return (struct wp_str){bytes, len};
}

static void
add(struct command *c, const char *bytes, size_t len)
{
    WP_ASSERT(c->n < ARGS_MAX);
    c->args[c->n++] = word(bytes, len);
}

static void
add_claim_field(struct command *c, const struct wp_lease_op *op)
{
    c->claim[0] = 'c';
    add(c, c->claim,
        1 + wp_lease_pack_claim_key(op->tenant, op->claim_id, c->claim + 1));
}

static void
add_fence(struct command *c, const struct wp_lease_op *op)
{
    wp_lease_pack_number(op->fence, c->fence);
    add(c, c->fence, sizeof c->fence);
}

static void
add_deadline(struct command *c, const struct wp_lease_op *op)
{
    wp_lease_pack_number((uint64_t)op->deadline_wall_ms, c->deadline);
    add(c, c->deadline, sizeof c->deadline);
}

/* RENEW, RELEASE, UNDO, EXPIRE, LOSE. */
static void
add_lease_args(struct command *c, const struct wp_lease_op *op)
{
    const char *kind = op->kind == WP_LEASE_RENEW     ? "n"
                       : op->kind == WP_LEASE_RELEASE ? "r"
                       : op->kind == WP_LEASE_UNDO    ? "u"
                       : op->kind == WP_LEASE_EXPIRE  ? "e"
                                                      : "l";

    add_fence(c, op);
    add(c, kind, 1);
    if (op->kind == WP_LEASE_LOSE) {
        add(c, c->packed, wp_lease_pack_reason(op->reason, c->packed));
    } else {
        add_deadline(c, op);
    }
}

/* What each kind has after generation, field and writer; see the heads of the
 * scripts. */
static enum wp_redis_script_id
add_op_args(struct command *c, const struct wp_lease_op *op)
{
    switch (op->kind) {
    case WP_LEASE_OFFER:
        add(c, c->packed, wp_lease_pack_offer(op, c->packed));
        return WP_SCRIPT_OFFER;
    case WP_LEASE_GRANT:
        add_claim_field(c, op);
        add_fence(c, op);
        add_deadline(c, op);
        add(c, c->packed, wp_lease_pack_claim(op, c->packed));
        return WP_SCRIPT_GRANT;
    case WP_LEASE_RENEW:
    case WP_LEASE_RELEASE:
    case WP_LEASE_UNDO:
    case WP_LEASE_EXPIRE:
    case WP_LEASE_LOSE:
        add_lease_args(c, op);
        return WP_SCRIPT_LEASE;
    case WP_LEASE_WITHDRAW:
        add(c, "w", 1);
        return WP_SCRIPT_RETIRE;
    case WP_LEASE_FORGET:
        add(c, "f", 1);
        return WP_SCRIPT_RETIRE;
    case WP_LEASE_FETCH:
    case WP_LEASE_PUT_NOTE: /* No scripts' business. */
    case WP_LEASE_GET_NOTE:
        break;
    }
    if (op->claim_id.len > 0) {
        add_claim_field(c, op);
        c->args[ARG_FIELD] = c->args[--c->n];
    }
    return WP_SCRIPT_FETCH;
}

static void
make_command(const struct wp_lease_redis *redis,
             const struct wp_redis_pool *pool, uint64_t generation,
             const struct wp_lease_op *op, bool whole, struct command *c)
{
    enum wp_redis_script_id script;

    wp_redis_generation_make('o', generation, c->generation);
    wp_redis_field_make(op->uid, c->field);
    c->args[ARG_N_KEYS] = WP_STR("1");
    c->args[ARG_KEY] = word(pool->key, pool->key_len);
    c->args[ARG_GENERATION] = word(c->generation, WP_REDIS_GENERATION_LEN + 1);
    c->args[ARG_FIELD] = word(c->field, WP_REDIS_FIELD_LEN);
    c->args[ARG_WRITER] = wp_str_from(redis->writer);
    c->n = ARG_REST;
    script = add_op_args(c, op);
    c->args[ARG_VERB] = whole ? WP_STR("EVAL") : WP_STR("EVALSHA");
    c->args[ARG_SCRIPT] =
        whole ? wp_redis_scripts[script].text : wp_redis_scripts[script].sha;
}

static bool
is_note(const struct wp_lease_op *op)
{
    return op->kind == WP_LEASE_PUT_NOTE || op->kind == WP_LEASE_GET_NOTE;
}

/* A note is a text of its own beside the pool's hash, in the same slot: no
 * script, no generation. What replies bring is short, so it is read in pieces;
 * who writes between two of them damages what is read, which its checksum
 * shows. */
static void
make_note_command(const struct wp_redis_pool *pool,
                  const struct wp_lease_op *op, struct command *c)
{
    struct wp_str key = {c->note_key,
                         (size_t)snprintf(c->note_key, sizeof c->note_key,
                                          "%s:note", pool->key)};
    size_t at = op->note->len;

    if (op->kind == WP_LEASE_PUT_NOTE) {
        c->args[0] = WP_STR("SET");
        c->args[1] = key;
        c->args[2] = word((const char *)op->note->bytes, op->note->len);
        c->args[3] = WP_STR("EX");
        c->args[4] = NOTE_KEPT_S;
        c->n = 5;
        return;
    }
    c->args[0] = WP_STR("GETRANGE");
    c->args[1] = key;
    c->args[2] =
        word(c->from, (size_t)snprintf(c->from, sizeof c->from, "%zu", at));
    c->args[3] = word(c->to, (size_t)snprintf(c->to, sizeof c->to, "%zu",
                                              at + WP_REDIS_REPLY_MAX - 1));
    c->n = 4;
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
    bool flush;
};

static enum wp_status
send_op(struct wp_lease_redis *redis, struct wp_lease_op *op, struct way way)
{
    struct wp_redis_pool *pool =
        wp_redis_pool_find(redis, op->pool_namespace, op->pool);
    struct wp_redis_group *group = way.group;
    struct command c;
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
    if (is_note(op)) {
        make_note_command(pool, op, &c);
    } else {
        make_command(redis, pool, generation, op, (way.tag & TAG_AGAIN) != 0,
                     &c);
    }
    tag = way.tag | (uint32_t)(pool - redis->pools) << TAG_POOL_SHIFT |
          (uint32_t)generation << TAG_GENERATION_SHIFT;
    if ((way.tag & TAG_ASKED) != 0) {
        return wp_redis_send_asking(group->links, way.link, op, tag, c.args,
                                    c.n);
    }
    if (!way.flush) {
        mine.gathered |= UINT64_C(1) << group->number;
    }
    return wp_redis_send(group->links, way.link, op, tag, c.args, c.n,
                         way.flush);
}

/* The other way, for comparison: any thread leaves its op on a stack, and the
 * reading thread alone sends. */
static enum wp_status
post(struct wp_lease_redis *redis, struct wp_lease_op *op)
{
    struct wp_lease_op *head = atomic_load(&redis->posted);

    do {
        op->next = head;
    } while (!atomic_compare_exchange_weak(&redis->posted, &head, op));
    if (head == NULL) {
        wp_redis_wake(redis->groups[0].links);
    }
    return WP_PENDING;
}

/* Sends what this thread has gathered on its links. */
static void
flush_gathered(struct wp_lease_redis *redis, uint32_t link)
{
    while (mine.gathered != 0) {
        int group = __builtin_ctzll(mine.gathered);

        mine.gathered &= mine.gathered - 1;
        wp_redis_flush(redis->groups[group].links, link);
    }
}

void
wp_redis_commit_on_wake(void *self)
{
    struct wp_lease_redis *redis = ((struct wp_redis_group *)self)->redis;
    struct wp_lease_op *op = atomic_exchange(&redis->posted, NULL);
    struct wp_lease_op *first = NULL;

    while (op != NULL) { /* Oldest first. */
        struct wp_lease_op *next = op->next;

        op->next = first;
        first = op;
        op = next;
    }
    while (first != NULL) {
        enum wp_status status;

        op = first;
        first = op->next;
        status = send_op(redis, op, (struct way){.link = 0});
        if (status != WP_PENDING) {
            op->done(op, status);
        }
    }
    flush_gathered(redis, 0);
}

enum wp_status
wp_redis_commit(void *self, struct wp_lease_op *op)
{
    struct wp_lease_redis *redis = self;
    uint32_t link = mine.store == redis->id ? mine.link : 0;

    WP_REDIS_COUNT(redis->commits);
    if (op->kind == WP_LEASE_GET_NOTE) {
        op->note->len = 0;
    }
    if (redis->config.committer) {
        return post(redis, op);
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

/* --- answers; reading thread --- */

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
    if (is_time(&redis->told_ns, 5 * WP_NS_PER_S)) {
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

/* A piece of a note; a short one is its end. */
static enum wp_status
on_note(struct wp_lease_redis *redis, uint32_t link, struct wp_lease_op *op,
        struct wp_str text)
{
    struct wp_pool_note *note = op->note;

    if (op->kind != WP_LEASE_GET_NOTE || text.len > note->cap - note->len) {
        return WP_NOT_FOUND;
    }
    if (text.len > 0) {
        memcpy(note->bytes + note->len, text.ptr, text.len);
    }
    note->len += text.len;
    if (text.len == WP_REDIS_REPLY_MAX) {
        return send_op(redis, op, (struct way){.link = link, .flush = true});
    }
    return note->len > 0 ? WP_OK : WP_NOT_FOUND;
}

static enum wp_status
on_number(struct wp_lease_redis *redis, struct wp_redis_pool *pool,
          uint32_t tag, int64_t number)
{
    uint64_t now = atomic_load(&pool->generation);

    if (number < 0 || number >= (int64_t)WP_ARRAY_LEN(result_status)) {
        return WP_UNKNOWN_OUTCOME;
    }
    if (number == WP_RESULT_CORRUPT) {
        WP_REDIS_COUNT(redis->corrupt);
        wp_log_error("a record in redis cannot be read");
    } else if (number == WP_RESULT_STALE) {
        WP_REDIS_COUNT(redis->stale);
        /* Unless the pool was recovered since the command was sent. */
        if (tag >> TAG_GENERATION_SHIFT ==
            (uint32_t)now << TAG_GENERATION_SHIFT >> TAG_GENERATION_SHIFT) {
            wp_redis_pool_doubt(redis, pool, now);
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
        status = is_note(op) ? on_note(redis, link, op, reply->text)
                             : on_record(redis, op, reply->text);
        break;
    case WP_REPLY_ERROR:
        if (wp_str_starts_with(reply->text, WP_STR("NOSCRIPT ")) &&
            (tag & (TAG_AGAIN | TAG_ASKED)) == 0) {
            WP_REDIS_COUNT(redis->noscript);
            status = send_op(
                redis, op,
                (struct way){.link = link, .tag = TAG_AGAIN, .flush = true});
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
        status = op->kind == WP_LEASE_PUT_NOTE ? WP_OK : status;
        break;
    }
    if (status != WP_PENDING) {
        op->done(op, status);
    }
}

void
wp_redis_commit_on_end(void *ctx, void *call, enum wp_status status)
{
    struct wp_lease_op *op = call;

    (void)ctx;
    op->done(op, status);
}
