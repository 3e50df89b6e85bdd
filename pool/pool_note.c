/* pool/pool_note.c - what a pool's scaler has learned, in the lease store.
 *
 * The keeper saves it behind: once a minute when there is something new, after
 * a change by hand or a reservation, when the pool leaves, and when the daemon
 * does. Whoever becomes the keeper takes it up before it orders anything,
 * unless the store keeps silent for too long; then what comes late replaces
 * what was learned meanwhile.
 *
 * One note is on its way at a time, of whichever pool, so one buffer is enough.
 *
 *   bytes  0..3    "WPN1"
 *          4       1: the replicas were set by SetPool
 *          5       1: the pool was removed; declared anew, nobody has it by
 *                  hand
 *          6..7    the length of what wp_scaler_save wrote, little-endian; 0:
 *                  all that is left
 *          8..11   replicas as declared, little-endian
 *          12..15  replicas as SetPool set them
 *          16..23  SipHash-2-4, with a key of zeros, of all other bytes
 *          24..31  the same of the policy that was in force
 *          32..    what wp_scaler_save wrote; then the latest part of the
 *                  history (wp_history_save), as far as HISTORY_MAX goes */
#include <stdlib.h>

#include "pool/base/assert.h"
#include "pool/base/siphash.h"
#include "pool/pool_history.h"
#include "pool/pool_scale.h"

enum {
    SUM_AT = 16,
    POLICY_AT = 24,
    HEAD_LEN = 32,
    /* So that saving each minute stays cheap: some thousand claims. */
    HISTORY_MAX = 24 * 1024,
};

#define SAVE_EVERY_NS (60 * WP_NS_PER_S)
/* How long nothing is ordered for want of the note. */
#define WAIT_NS (2 * WP_NS_PER_S)
#define ASK_AGAIN_NS (100 * WP_NS_PER_MS)

static const uint8_t magic[4] = {'W', 'P', 'N', '1'};

struct wp_pool_notes {
    struct wp_pools *pools;
    struct wp_lease_op op;
    struct wp_pool_note note;
    struct wp_pool *pool; /* Whose it is; NULL: none is on its way. */
    enum wp_status status;
    _Atomic(bool) back; /* Answered; releases status. */
    bool wanted;        /* Another pool waits for its turn. */
    uint8_t bytes[WP_NOTE_MAX];
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
make_note(struct wp_pool *pool, struct wp_pool_scale *scale, int64_t now_ns,
          uint8_t bytes[WP_NOTE_MAX])
{
    size_t len;
    size_t room;

    memset(bytes, 0, HEAD_LEN);
    memcpy(bytes, magic, sizeof magic);
    bytes[4] = scale->set_by_call ? 1 : 0;
    bytes[5] = atomic_load_explicit(&pool->removed, memory_order_relaxed);
    put_u32(bytes + 8, scale->declared);
    put_u32(bytes + 12, pool->spec.target);
    put_u64(bytes + POLICY_AT, policy_print(&pool->spec.scale));
    /* Both as of one moment: where the record ends, that is what was known. */
    (void)pthread_mutex_lock(&scale->lock);
    wp_pool_scale_pass(pool, scale, now_ns);
    len =
        wp_scaler_save(scale->scaler, now_ns, wp_scaler_wall_ns(scale->scaler),
                       bytes + HEAD_LEN, WP_NOTE_MAX - HEAD_LEN);
    WP_ASSERT(len <= WP_NOTE_MAX - HEAD_LEN);
    bytes[6] = (uint8_t)len;
    bytes[7] = (uint8_t)(len >> 8);
    room = WP_NOTE_MAX - HEAD_LEN - len;
    len += wp_pool_history_save(pool, now_ns, bytes + HEAD_LEN + len,
                                room < HISTORY_MAX ? room : HISTORY_MAX);
    (void)pthread_mutex_unlock(&scale->lock);
    put_u64(bytes + SUM_AT, hash_of(bytes, HEAD_LEN + len));
    return HEAD_LEN + len;
}

/* What the scaler knew, and the record of what it was told. */
static enum wp_status
restore(struct wp_pool *pool, struct wp_pool_scale *scale, int64_t now_ns,
        struct wp_str learned, struct wp_str history, struct wp_err *err)
{
    enum wp_status status;
    bool whole = false;
    bool loaded;

    (void)pthread_mutex_lock(&scale->lock);
    wp_pool_scale_pass(pool, scale, now_ns);
    status =
        wp_scaler_load(scale->scaler, now_ns, wp_scaler_wall_ns(scale->scaler),
                       learned.ptr, learned.len, err);
    loaded = status == WP_OK;
    if (loaded && history.len > 0) {
        status =
            wp_pool_history_load(pool, history.ptr, history.len, &whole, err);
    }
    if (loaded) {
        wp_pool_scale_told(
            pool, scale, now_ns,
            (struct wp_history_event){.kind = WP_HISTORY_RESTORED,
                                      .n = whole ? 0 : 1});
    }
    (void)pthread_mutex_unlock(&scale->lock);
    return status;
}

static enum wp_status
read_note(struct wp_pool *pool, struct wp_pool_scale *scale, int64_t now_ns,
          uint8_t *bytes, size_t len, struct wp_err *err)
{
    enum wp_status status;
    uint64_t sum;
    size_t learned;

    if (len < HEAD_LEN || memcmp(bytes, magic, sizeof magic) != 0) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "the pool's note is none of this version's");
    }
    sum = get_u64(bytes + SUM_AT);
    put_u64(bytes + SUM_AT, 0);
    if (sum != hash_of(bytes, len)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "the pool's note is damaged");
    }
    learned = bytes[6] | (size_t)bytes[7] << 8;
    learned = learned == 0 ? len - HEAD_LEN : learned;
    if (learned > len - HEAD_LEN) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "the pool's note is damaged");
    }
    status = restore(pool, scale, now_ns,
                     (struct wp_str){(const char *)bytes + HEAD_LEN, learned},
                     (struct wp_str){(const char *)bytes + HEAD_LEN + learned,
                                     len - HEAD_LEN - learned},
                     err);
    if (status == WP_OK && bytes[5] == 1) {
        wp_pool_scale_forget_hand(pool, scale);
        return WP_OK;
    }
    /* SetPool's word outlives the daemon, unless the manifest has another one
     * since, or another policy. */
    if (status == WP_OK && bytes[4] == 1 && !scale->set_by_call &&
        get_u32(bytes + 8) == scale->declared &&
        get_u64(bytes + POLICY_AT) == policy_print(&pool->spec.scale) &&
        get_u32(bytes + 12) <= WP_TARGET_MAX) {
        (void)pthread_mutex_lock(&pool->wait_lock);
        pool->spec.target = get_u32(bytes + 12);
        (void)pthread_mutex_unlock(&pool->wait_lock);
        scale->set_by_call = true;
    }
    return status;
}

/* --- One on its way --- */

static void
on_done(struct wp_lease_op *op, enum wp_status status)
{
    struct wp_pool_notes *notes = WP_CONTAINER_OF(op, struct wp_pool_notes, op);
    struct wp_pools *pools = notes->pools;

    notes->status = status;
    atomic_store_explicit(&notes->back, true, memory_order_release);
    atomic_store_explicit(&pools->mail, true, memory_order_seq_cst);
    wp_pools_wake(pools);
}

static void
submit(struct wp_pool_notes *notes, struct wp_pool *pool,
       enum wp_lease_op_kind kind, size_t len, int64_t now_ns)
{
    const struct wp_lease_store *store = &notes->pools->config.store;
    enum wp_status status;

    notes->pool = pool;
    notes->note = (struct wp_pool_note){
        .bytes = notes->bytes, .len = len, .cap = sizeof notes->bytes};
    notes->op = (struct wp_lease_op){
        .kind = kind,
        .ref = WP_SLOT_REF_NONE,
        .granted_wall_ms = wp_pools_wall_ms(notes->pools, now_ns),
        .pool_namespace = pool->pool_namespace,
        .pool = pool->name,
        .note = &notes->note,
        .done = on_done,
    };
    status = store->ops->commit(store->self, &notes->op);
    if (status != WP_PENDING) {
        on_done(&notes->op, status);
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
set_known(struct wp_pool *pool, struct wp_pool_scale *scale, int64_t now_ns)
{
    scale->learned = WP_LEARNED_KNOWN;
    scale->save_at_ns = wp_time_add(now_ns, SAVE_EVERY_NS);
    wp_pools_touch(pool);
}

static void
take_in(struct wp_pool *pool, struct wp_pool_notes *notes, int64_t now_ns)
{
    struct wp_pool_scale *scale = wp_pool_scale_of(pool);
    struct wp_err err;

    if (scale->learned != WP_LEARNED_ASKED) {
        return; /* Asked for anew meanwhile, or not wanted any more. */
    }
    if (notes->status == WP_OK || notes->status == WP_NOT_FOUND) {
        if (notes->status == WP_OK &&
            read_note(pool, scale, now_ns, notes->bytes, notes->note.len,
                      &err) != WP_OK) {
            complain(pool, &err);
        }
        set_known(pool, scale, now_ns);
    } else {
        scale->learned = WP_LEARNED_WANTED;
        scale->ask_at_ns = wp_time_add(now_ns, ASK_AGAIN_NS);
        wp_pools_touch(pool);
    }
}

static void
note_saved(struct wp_pool *pool, const struct wp_pool_notes *notes)
{
    struct wp_pool_scale *scale = wp_pool_scale_of(pool);
    struct wp_err err;

    if (notes->status != WP_OK) {
        scale->dirty = true;
        (void)wp_err_set(&err, notes->status,
                         "the lease store did not take the pool's note");
        complain(pool, &err);
    }
}

bool
wp_pool_notes_run(struct wp_pools *pools)
{
    struct wp_pool_notes *notes = pools->notes;
    int64_t now_ns;
    struct wp_pool *pool;

    if (notes == NULL || notes->pool == NULL ||
        !atomic_exchange_explicit(&notes->back, false, memory_order_acquire)) {
        return false;
    }
    now_ns = wp_pools_now(pools);
    pool = notes->pool;
    notes->pool = NULL;
    if (notes->op.kind == WP_LEASE_GET_NOTE) {
        take_in(pool, notes, now_ns);
    } else {
        note_saved(pool, notes);
    }
    if (notes->wanted) {
        notes->wanted = false;
        for (uint32_t i = 0; i < wp_pools_count(pools); i++) {
            if (wp_pool_scale_of(wp_pools_at(pools, i)) != NULL) {
                wp_pools_touch(wp_pools_at(pools, i));
            }
        }
    }
    return true;
}

static bool
is_keeper(const struct wp_pools *pools)
{
    return atomic_load_explicit(&pools->keeper, memory_order_relaxed);
}

bool
wp_pool_notes_create(struct wp_pools *pools)
{
    if (pools->durable) {
        pools->notes = wp_pools_reserve(pools, 1, sizeof *pools->notes);
        if (pools->notes == NULL) {
            return false;
        }
        pools->notes->pools = pools;
    }
    return true;
}

bool
wp_pools_learned_saved(struct wp_pools *pools)
{
    int64_t now_ns = wp_pools_now(pools);

    if (pools->notes == NULL) {
        return true;
    }
    for (uint32_t i = 0; i < wp_pools_count(pools); i++) {
        const struct wp_pool_scale *scale =
            wp_pool_scale_of(wp_pools_at(pools, i));

        if (scale != NULL && scale->learned == WP_LEARNED_KNOWN &&
            scale->dirty && scale->save_at_ns <= now_ns) {
            return !is_keeper(pools);
        }
    }
    return pools->notes->pool == NULL ||
           pools->notes->op.kind != WP_LEASE_PUT_NOTE;
}

/* --- When --- */

void
wp_pool_note_want(struct wp_pool *pool, int64_t now_ns)
{
    struct wp_pool_scale *scale = wp_pool_scale_of(pool);

    if (pool->pools->notes == NULL) {
        scale->learned = WP_LEARNED_KNOWN;
        return;
    }
    scale->learned = WP_LEARNED_WANTED;
    scale->ask_at_ns = now_ns;
    scale->wait_until_ns = wp_time_add(now_ns, WAIT_NS);
}

void
wp_pool_note_save_soon(struct wp_pool *pool, int64_t now_ns)
{
    struct wp_pool_scale *scale = wp_pool_scale_of(pool);

    if (scale != NULL && scale->dirty && scale->learned == WP_LEARNED_KNOWN) {
        scale->save_at_ns = now_ns;
        wp_pools_touch(pool);
    }
}

static void
save(struct wp_pool *pool, struct wp_pool_scale *scale, int64_t now_ns)
{
    struct wp_pool_notes *notes = pool->pools->notes;

    scale->dirty = false;
    scale->save_at_ns = wp_time_add(now_ns, SAVE_EVERY_NS);
    submit(notes, pool, WP_LEASE_PUT_NOTE,
           make_note(pool, scale, now_ns, notes->bytes), now_ns);
}

/* When something is to be done for the pool; now_ns or earlier: now. */
static int64_t
due_at_ns(const struct wp_pool_scale *scale)
{
    switch (scale->learned) {
    case WP_LEARNED_WANTED:
        return scale->scales ? scale->ask_at_ns : WP_TIME_NEVER;
    case WP_LEARNED_ASKED:
        break;
    case WP_LEARNED_KNOWN:
        return scale->dirty ? scale->save_at_ns : WP_TIME_NEVER;
    }
    return WP_TIME_NEVER;
}

int64_t
wp_pool_note_turn(struct wp_pool *pool, int64_t now_ns)
{
    struct wp_pool_notes *notes = pool->pools->notes;
    struct wp_pool_scale *scale = wp_pool_scale_of(pool);
    int64_t due_ns;

    if (scale == NULL || notes == NULL || !is_keeper(pool->pools)) {
        return WP_TIME_NEVER;
    }
    due_ns = due_at_ns(scale);
    if (due_ns > now_ns) {
        return due_ns;
    }
    if (notes->pool != NULL) {
        notes->wanted = true; /* It is touched when that one is back. */
    } else if (scale->learned == WP_LEARNED_WANTED) {
        scale->learned = WP_LEARNED_ASKED;
        submit(notes, pool, WP_LEASE_GET_NOTE, 0, now_ns);
    } else {
        save(pool, scale, now_ns);
    }
    return WP_TIME_NEVER;
}
