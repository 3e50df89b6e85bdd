/* pool/sizing/snapshot.c - what is kept of a pool, in the lease store.
 *
 * The keeper saves it behind: once a minute when there is something new, after
 * a change by hand or a reservation, when the pool leaves, and when the daemon
 * does. Whoever becomes the keeper takes it up before a scaler orders anything,
 * unless the store keeps silent for too long; then what comes late replaces
 * what was learned meanwhile. A pool without a scaler waits for nothing.
 *
 * One snapshot is on its way at a time, of whichever pool, so one buffer is
 * enough; pools with a scaler ask first.
 *
 *   bytes  0..3    "WPN1"
 *          4       1: the replicas were set by SetPool; 2: the pool had no
 *                  scaler, and what one had learned is carried on
 *          5       1: the pool was removed; declared anew, nobody has it by
 *                  hand
 *          6..7    the length of what a scaler had learned (wp_scaler_save),
 *                  little-endian; 0: all that is left, of a pool that had one
 *          8..11   replicas as declared, little-endian
 *          12..15  replicas as SetPool set them
 *          16..23  SipHash-2-4, with a key of zeros, of all other bytes
 *          24..31  the same of the policy that was in force
 *          32..    what was learned; then the latest part of the history
 *                  (wp_history_save) */
#include <stdlib.h>

#include "pool/base/assert.h"
#include "pool/base/siphash.h"
#include "pool/sizing/history.h"
#include "pool/sizing/scale.h"
#include "pool/sizing/snapshot_state.h"

enum {
    FLAGS_AT = 4,
    REMOVED_AT = 5,
    LEARNED_LEN_AT = 6,
    DECLARED_AT = 8,
    TARGET_AT = 12,
    SUM_AT = 16,
    POLICY_AT = 24,
    HEAD_LEN = 32,
};

_Static_assert(WP_SCALE_STATE_MAX <= WP_SNAPSHOT_MAX - HEAD_LEN,
               "what a scaler has learned fits");

#define SAVE_EVERY_NS (60 * WP_NS_PER_S)
#define ASK_AGAIN_NS (100 * WP_NS_PER_MS)

enum flag {
    FLAG_SET_BY_CALL = 1,
    FLAG_CARRIED = 2,
};

static const uint8_t magic[4] = {'W', 'P', 'N', '1'};

struct wp_snapshots {
    struct wp_pools *pools;
    struct wp_lease_op op;
    struct wp_pool_snapshot kept;
    struct wp_pool *pool; /* Whose it is; NULL: none is on its way. */
    enum wp_status status;
    _Atomic(bool) back; /* Answered; releases status. */
    bool wanted;        /* Another pool waits for its turn. */
    uint32_t served;    /* Index of the pool that had it last. */
    uint8_t bytes[WP_SNAPSHOT_MAX];
};

/* --- The bytes --- */

static void
put_u32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        to[i] = (uint8_t)(value >> 8 * i);
    }
}

static uint32_t
get_u32(const uint8_t *from)
{
    uint32_t value = 0;

    for (int i = 0; i < 4; i++) {
        value |= (uint32_t)from[i] << 8 * i;
    }
    return value;
}

static void
put_u64(uint8_t *to, uint64_t value)
{
    put_u32(to, (uint32_t)value);
    put_u32(to + 4, (uint32_t)(value >> 32));
}

static uint64_t
get_u64(const uint8_t *from)
{
    return get_u32(from) | (uint64_t)get_u32(from + 4) << 32;
}

static uint64_t
hash_of(const void *bytes, size_t len)
{
    return wp_siphash128((struct wp_hash_key){0, 0}, bytes, len).low;
}

static uint64_t
policy_print(const struct wp_scale_policy *policy)
{
    char value[WP_SCALE_VALUE_MAX];
    uint64_t print = 0;
    const char *key;

    for (unsigned i = 0; (key = wp_scale_policy_key(i)) != NULL; i++) {
        if (wp_scale_policy_get(policy, wp_str_from(key), value,
                                sizeof value)) {
            print = print * 31 + (hash_of(value, strlen(value)) ^ i);
        }
    }
    return print;
}

static size_t
history_room(const struct wp_pool *pool, size_t room)
{
    return pool->pools->closing || room < WP_SNAPSHOT_HISTORY_MAX
               ? room
               : WP_SNAPSHOT_HISTORY_MAX;
}

/* Of a pool with a scaler: what it knows and the record, both as of one moment:
 * where the record ends, that is what was known. */
static size_t
put_learned(struct wp_pool *pool, struct wp_pool_scale *scale, int64_t now_ns,
            uint8_t *to, size_t room, size_t *learned)
{
    size_t len;

    (void)pthread_mutex_lock(&scale->lock);
    wp_pool_scale_pass(pool, scale, now_ns);
    *learned = wp_scaler_save(scale->scaler, now_ns,
                              wp_scaler_wall_ns(scale->scaler), to, room);
    WP_ASSERT(*learned <= room);
    room -= *learned;
    len = wp_pool_history_save(pool, now_ns, to + *learned,
                               history_room(pool, room));
    (void)pthread_mutex_unlock(&scale->lock);
    return *learned + len;
}

/* Of a pool without one. */
static size_t
put_carried(struct wp_pool *pool, int64_t now_ns, uint8_t *to, size_t room,
            size_t *learned)
{
    *learned = pool->snapshot->n_carried;
    WP_ASSERT(*learned <= room);
    if (*learned > 0) {
        memcpy(to, pool->snapshot->carried, *learned);
    }
    room -= *learned;
    return *learned + wp_pool_history_save(pool, now_ns, to + *learned,
                                           history_room(pool, room));
}

static size_t
make_snapshot(struct wp_pool *pool, int64_t now_ns,
              uint8_t bytes[WP_SNAPSHOT_MAX])
{
    struct wp_pool_scale *scale = wp_pool_scale_of(pool);
    size_t room = WP_SNAPSHOT_MAX - HEAD_LEN;
    size_t learned;
    size_t len;

    memset(bytes, 0, HEAD_LEN);
    memcpy(bytes, magic, sizeof magic);
    bytes[REMOVED_AT] =
        atomic_load_explicit(&pool->removed, memory_order_relaxed);
    put_u32(bytes + TARGET_AT, pool->spec.target);
    put_u64(bytes + POLICY_AT, policy_print(&pool->spec.scale));
    if (scale != NULL) {
        bytes[FLAGS_AT] = scale->set_by_call ? FLAG_SET_BY_CALL : 0;
        put_u32(bytes + DECLARED_AT, scale->declared);
        len =
            put_learned(pool, scale, now_ns, bytes + HEAD_LEN, room, &learned);
    } else {
        bytes[FLAGS_AT] = FLAG_CARRIED;
        len = put_carried(pool, now_ns, bytes + HEAD_LEN, room, &learned);
    }
    bytes[LEARNED_LEN_AT] = (uint8_t)learned;
    bytes[LEARNED_LEN_AT + 1] = (uint8_t)(learned >> 8);
    put_u64(bytes + SUM_AT, hash_of(bytes, HEAD_LEN + len));
    return HEAD_LEN + len;
}

/* What a snapshot is made of. */
struct parts {
    const uint8_t *head;
    struct wp_str learned;
    struct wp_str history;
};

static enum wp_status
take_apart(uint8_t *bytes, size_t len, struct parts *out, struct wp_err *err)
{
    uint64_t sum;
    size_t learned;

    if (len < HEAD_LEN || memcmp(bytes, magic, sizeof magic) != 0) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "the pool's snapshot is none of this version's");
    }
    sum = get_u64(bytes + SUM_AT);
    put_u64(bytes + SUM_AT, 0);
    learned = bytes[LEARNED_LEN_AT] | (size_t)bytes[LEARNED_LEN_AT + 1] << 8;
    if (learned == 0 && (bytes[FLAGS_AT] & FLAG_CARRIED) == 0) {
        learned = len - HEAD_LEN;
    }
    if (sum != hash_of(bytes, len)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "the pool's snapshot is damaged");
    }
    if (learned > len - HEAD_LEN) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "the pool's snapshot is shorter than it says");
    }
    bytes += HEAD_LEN;
    len -= HEAD_LEN;
    *out = (struct parts){
        .head = bytes - HEAD_LEN,
        .learned = {(const char *)bytes, learned},
        .history = {(const char *)bytes + learned, len - learned},
    };
    return WP_OK;
}

/* What the scaler knew, and the record of its inputs. */
static enum wp_status
restore(struct wp_pool *pool, struct wp_pool_scale *scale, int64_t now_ns,
        const struct parts *parts, struct wp_err *err)
{
    bool carried = (parts->head[FLAGS_AT] & FLAG_CARRIED) != 0;
    enum wp_status status = WP_OK;
    bool whole = false;
    bool loaded;

    (void)pthread_mutex_lock(&scale->lock);
    wp_pool_scale_pass(pool, scale, now_ns);
    if (parts->learned.len > 0 || !carried) {
        status = wp_scaler_load(scale->scaler, now_ns,
                                wp_scaler_wall_ns(scale->scaler),
                                parts->learned.ptr, parts->learned.len, err);
    }
    loaded = status == WP_OK;
    if (loaded) {
        status = wp_pool_history_load(pool, parts->history, &whole, err);
    }
    if (loaded && parts->learned.len > 0) {
        /* What was carried is not what was known where the record ends. */
        wp_pool_scale_record(
            pool, scale, now_ns,
            (struct wp_history_event){.kind = WP_HISTORY_RESTORED,
                                      .n = whole && !carried ? 0 : 1});
    }
    (void)pthread_mutex_unlock(&scale->lock);
    return status;
}

/* SetPool's word outlives the daemon, unless the manifest has another one
 * since, or another policy. */
static void
restore_hand(struct wp_pool *pool, struct wp_pool_scale *scale,
             const uint8_t *head)
{
    if ((head[FLAGS_AT] & FLAG_SET_BY_CALL) != 0 &&
        get_u32(head + DECLARED_AT) == scale->declared &&
        get_u64(head + POLICY_AT) == policy_print(&pool->spec.scale) &&
        get_u32(head + TARGET_AT) <= WP_TARGET_MAX) {
        (void)pthread_mutex_lock(&pool->wait_lock);
        pool->spec.target = get_u32(head + TARGET_AT);
        (void)pthread_mutex_unlock(&pool->wait_lock);
        scale->set_by_call = true;
    }
}

/* Nobody reads what a scaler has learned before there is one. */
static enum wp_status
carry_on(struct wp_pool *pool, const struct parts *parts, struct wp_err *err)
{
    bool taken;

    if (parts->learned.len > 0) {
        pool->snapshot->carried = malloc(parts->learned.len);
        if (pool->snapshot->carried == NULL) {
            return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                              "no memory for what the pool's scaler had "
                              "learned");
        }
        memcpy(pool->snapshot->carried, parts->learned.ptr, parts->learned.len);
        pool->snapshot->n_carried = parts->learned.len;
    }
    return wp_pool_history_load(pool, parts->history, &taken, err);
}

static enum wp_status
read_snapshot(struct wp_pool *pool, int64_t now_ns, uint8_t *bytes, size_t len,
              struct wp_err *err)
{
    struct wp_pool_scale *scale = wp_pool_scale_of(pool);
    struct parts parts = {.head = bytes};
    enum wp_status status = take_apart(bytes, len, &parts, err);

    wp_snapshot_drop_carried(pool);
    if (status != WP_OK) {
        return status;
    }
    if (scale == NULL) {
        return carry_on(pool, &parts, err);
    }
    status = restore(pool, scale, now_ns, &parts, err);
    if (status != WP_OK || scale->set_by_call) {
        return status; /* What was said since counts. */
    }
    if (parts.head[REMOVED_AT] == 1) {
        wp_pool_scale_forget_hand(pool, scale);
    } else {
        restore_hand(pool, scale, parts.head);
    }
    return WP_OK;
}

/* --- One on its way --- */

static void
on_done(struct wp_lease_op *op, enum wp_status status)
{
    struct wp_snapshots *snapshots =
        WP_CONTAINER_OF(op, struct wp_snapshots, op);
    struct wp_pools *pools = snapshots->pools;

    snapshots->status = status;
    atomic_store_explicit(&snapshots->back, true, memory_order_release);
    wp_pools_look_again(pools);
    wp_pools_wake(pools);
}

static void
submit(struct wp_snapshots *snapshots, struct wp_pool *pool,
       enum wp_lease_op_kind kind, size_t len, int64_t now_ns)
{
    const struct wp_lease_store *store = &snapshots->pools->config.store;
    enum wp_status status;

    snapshots->pool = pool;
    snapshots->kept = (struct wp_pool_snapshot){
        .bytes = snapshots->bytes, .len = len, .cap = sizeof snapshots->bytes};
    snapshots->op = (struct wp_lease_op){
        .kind = kind,
        .ref = WP_SLOT_REF_NONE,
        .granted_wall_ms = wp_pools_wall_ms(snapshots->pools, now_ns),
        .pool_namespace = pool->pool_namespace,
        .pool = pool->name,
        .snapshot = &snapshots->kept,
        .done = on_done,
    };
    status = store->ops->commit(store->self, &snapshots->op);
    if (status != WP_PENDING) {
        on_done(&snapshots->op, status);
    }
}

static void
complain(struct wp_pool *pool, const struct wp_err *err)
{
    const struct wp_pools_config *config = &pool->pools->config;

    if (config->unlearned != NULL) {
        config->unlearned(config->ctx, pool->index, err);
    }
}

/* Nothing more is awaited: the pool may be scaled. */
static void
set_known(struct wp_pool *pool, int64_t now_ns)
{
    pool->snapshot->learned = WP_LEARNED_KNOWN;
    pool->snapshot->save_at_ns = wp_time_add(now_ns, SAVE_EVERY_NS);
    wp_pools_touch(pool);
}

static void
take_in(struct wp_pool *pool, struct wp_snapshots *snapshots, int64_t now_ns)
{
    struct wp_snapshot_state *state = pool->snapshot;
    struct wp_err err;

    if (state->learned != WP_LEARNED_ASKED) {
        return; /* Asked for anew meanwhile, or not wanted any more. */
    }
    if (snapshots->status == WP_OK || snapshots->status == WP_NOT_FOUND) {
        if (snapshots->status == WP_OK &&
            read_snapshot(pool, now_ns, snapshots->bytes, snapshots->kept.len,
                          &err) != WP_OK) {
            complain(pool, &err);
        }
        set_known(pool, now_ns);
    } else {
        state->learned = WP_LEARNED_WANTED;
        state->ask_at_ns = wp_time_add(now_ns, ASK_AGAIN_NS);
        wp_pools_touch(pool);
    }
}

static void
on_saved(struct wp_pool *pool, const struct wp_snapshots *snapshots)
{
    struct wp_err err;

    if (snapshots->status != WP_OK) {
        pool->snapshot->dirty = true;
        wp_pools_touch(pool); /* It finds when to try again. */
        (void)wp_err_set(&err, snapshots->status,
                         "the lease store did not take the pool's note");
        complain(pool, &err);
    }
}

/* --- Whose turn it is --- */

/* When something is to be done for the pool. */
static int64_t
due_at_ns(const struct wp_pool *pool)
{
    const struct wp_pool_scale *scale = wp_pool_scale_active(pool);
    const struct wp_snapshot_state *state = pool->snapshot;

    switch (state->learned) {
    case WP_LEARNED_WANTED:
        return scale == NULL || scale->scales ? state->ask_at_ns
                                              : WP_TIME_NEVER;
    case WP_LEARNED_KNOWN:
        return state->dirty ? state->save_at_ns : WP_TIME_NEVER;
    case WP_LEARNED_NOT:
    case WP_LEARNED_ASKED:
        break;
    }
    return WP_TIME_NEVER;
}

/* What is due; the snapshot that is on its way is this pool's then. */
static void
begin(struct wp_pool *pool, int64_t now_ns)
{
    struct wp_snapshots *snapshots = pool->pools->snapshots;
    struct wp_snapshot_state *state = pool->snapshot;

    snapshots->served = pool->index;
    if (state->learned == WP_LEARNED_WANTED) {
        state->learned = WP_LEARNED_ASKED;
        submit(snapshots, pool, WP_LEASE_GET_SNAPSHOT, 0, now_ns);
    } else {
        state->dirty = false;
        state->save_at_ns = wp_time_add(now_ns, SAVE_EVERY_NS);
        submit(snapshots, pool, WP_LEASE_PUT_SNAPSHOT,
               make_snapshot(pool, now_ns, snapshots->bytes), now_ns);
    }
}

/* The next pool for which something is due, in turns; one whose scaler waits
 * for its snapshot comes first. NULL: none. */
static struct wp_pool *
next_due(struct wp_pools *pools, int64_t now_ns)
{
    uint32_t count = wp_pools_count(pools);
    struct wp_pool *due = NULL;

    for (uint32_t i = 1; i <= count; i++) {
        struct wp_pool *pool =
            wp_pools_at(pools, (pools->snapshots->served + i) % count);

        if (due_at_ns(pool) > now_ns) {
            continue;
        }
        if (pool->snapshot->learned == WP_LEARNED_WANTED &&
            wp_pool_scale_active(pool) != NULL) {
            return pool;
        }
        due = due != NULL ? due : pool;
    }
    return due;
}

bool
wp_snapshots_run(struct wp_pools *pools, int64_t now_ns)
{
    struct wp_snapshots *snapshots = pools->snapshots;
    struct wp_pool *pool;

    if (snapshots == NULL || snapshots->pool == NULL ||
        !atomic_exchange_explicit(&snapshots->back, false,
                                  memory_order_acquire)) {
        return false;
    }
    pool = snapshots->pool;
    snapshots->pool = NULL;
    if (snapshots->op.kind == WP_LEASE_GET_SNAPSHOT) {
        take_in(pool, snapshots, now_ns);
    } else {
        on_saved(pool, snapshots);
    }
    if (snapshots->wanted) {
        pool = wp_pools_is_keeper(pools) ? next_due(pools, now_ns) : NULL;
        snapshots->wanted = pool != NULL;
        if (pool != NULL) {
            begin(pool, now_ns);
        }
    }
    return true;
}

bool
wp_snapshots_create(struct wp_pools *pools)
{
    if (pools->durable) {
        pools->snapshots = wp_pools_reserve(pools, 1, sizeof *pools->snapshots);
        if (pools->snapshots == NULL) {
            return false;
        }
        pools->snapshots->pools = pools;
    }
    return true;
}

bool
wp_pools_learned_saved(struct wp_pools *pools)
{
    int64_t now_ns = wp_pools_now(pools);

    if (pools->snapshots == NULL) {
        return true;
    }
    for (uint32_t i = 0; i < wp_pools_count(pools); i++) {
        const struct wp_snapshot_state *state = wp_pools_at(pools, i)->snapshot;

        if (state->learned == WP_LEARNED_KNOWN && state->dirty &&
            state->save_at_ns <= now_ns) {
            return !wp_pools_is_keeper(pools);
        }
    }
    return pools->snapshots->pool == NULL ||
           pools->snapshots->op.kind != WP_LEASE_PUT_SNAPSHOT;
}

/* --- When --- */

/* Nobody waits for the snapshot of a pool that no scaler has, but it is to
 * go on from there. */
static bool
wants_by_itself(const struct wp_pool *pool)
{
    return pool->snapshot->learned == WP_LEARNED_NOT &&
           wp_pool_scale_active(pool) == NULL &&
           (pool->history != NULL || wp_pool_scale_of(pool) != NULL) &&
           !atomic_load_explicit(&pool->draining, memory_order_relaxed);
}

int64_t
wp_snapshot_turn(struct wp_pool *pool, int64_t now_ns)
{
    struct wp_snapshots *snapshots = pool->pools->snapshots;
    int64_t due_ns;

    if (snapshots == NULL) {
        return WP_TIME_NEVER;
    }
    if (!wp_pools_is_keeper(pool->pools)) {
        pool->snapshot->learned = WP_LEARNED_NOT;
        return WP_TIME_NEVER;
    }
    if (wants_by_itself(pool)) {
        wp_snapshot_want(pool, now_ns);
    }
    due_ns = due_at_ns(pool);
    if (due_ns > now_ns) {
        return due_ns;
    }
    if (snapshots->pool != NULL) {
        snapshots->wanted = true; /* It has its turn when that one is back. */
    } else {
        begin(pool, now_ns);
    }
    return WP_TIME_NEVER;
}
