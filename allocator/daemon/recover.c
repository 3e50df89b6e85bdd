#include "allocator/daemon/recover.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/log.h"

enum {
    ASSERT_CHUNK = 64,
};

/* Between attempts, and between questions whether the others are ready. */
#define AGAIN_NS (50 * WP_NS_PER_MS)

/* How long a follower whose leases were refused waits for a keeper. */
#define KEEPER_NS (5 * WP_NS_PER_S)

enum phase {
    CALM,
    DOUBTED,  /* To be closed and restored. */
    REFUSED,  /* Restored, but for leases that Redis refuses. */
    RESTORED, /* This replica's part is done. */
};

struct pool_state {
    enum phase phase;   /* The thread's. */
    int64_t begun_ns;   /* The thread's. */
    int64_t refused_ns; /* The thread's: since when REFUSED. */
    /* Of wp_recovery.left, the thread's: as of the latest restore, and as of
     * the latest recovery that was completed. What was idle when a replica
     * went may have been granted by it, unheard; after a recovery nothing is
     * unheard. */
    uint64_t left_begun;
    uint64_t left_done;
    bool is_doubted; /* Under lock: for the thread to take. */
};

struct wp_recovery {
    struct wp_daemon_core *core;
    wp_recovery_catch_up catch_up;
    void *catch_up_ctx;
    struct wp_lease_redis *redis;
    const struct wp_lease_redis_pool *pools;
    struct pool_state *states; /* Owned; as many as there may be. */

    pthread_mutex_t lock; /* Guards what is said to be under it. */
    pthread_cond_t changed;
    uint32_t n_pools; /* Under lock; grows. */
    bool stop;        /* Under lock. */
    uint64_t left;    /* Under lock: replicas that went without a word. */

    pthread_t thread;
    bool runs;
};

/* What the core knows, a chunk at a time. */
struct known {
    struct wp_recovery *recovery;
    const struct wp_lease_redis_pool *pool;
    bool retire_idle;
    uint32_t cursor;
    uint32_t n;
    struct wp_lease_record records[ASSERT_CHUNK];
};

/* Control thread. A pool that the core has not is one of which nothing is
 * known. */
static void
ask_known(void *ctx)
{
    struct known *known = ctx;
    struct wp_pools *pools = known->recovery->core->pools;
    uint32_t index = wp_pools_index_of_records(
        pools, wp_str_from(known->pool->pool_namespace),
        wp_str_from(known->pool->pool));

    known->n = 0;
    if (known->cursor == 0) {
        known->recovery->catch_up(known->recovery->catch_up_ctx);
    }
    if (index == UINT32_MAX) {
        known->cursor = 0;
        return;
    }
    known->n =
        wp_pools_known_records(pools, index, known->retire_idle, &known->cursor,
                               known->records, ASSERT_CHUNK);
}

/* Each question may last as long as Redis is silent: looked at between any two
 * of them. */
static bool
stops(struct wp_recovery *recovery)
{
    bool stop;

    (void)pthread_mutex_lock(&recovery->lock);
    stop = recovery->stop;
    (void)pthread_mutex_unlock(&recovery->lock);
    return stop;
}

static enum wp_status
tell(struct wp_recovery *recovery, const struct wp_lease_record *record,
     bool last, struct wp_err *err)
{
    return stops(recovery) ? wp_err_set(err, WP_CANCELLED, "the daemon stops")
           : last ? wp_lease_redis_assert_last(recovery->redis, record, err)
                  : wp_lease_redis_assert_record(recovery->redis, record, err);
}

/* *refused is set when a claim has another sandbox in Redis. NULL: it is the
 * last time that this is told. */
static enum wp_status
assert_chunk(const struct known *known, bool *refused, struct wp_err *err)
{
    for (uint32_t i = 0; i < known->n; i++) {
        enum wp_status status =
            tell(known->recovery, &known->records[i], refused == NULL, err);

        if (status == WP_ALREADY_EXISTS && refused != NULL) {
            *refused = true;
        }
        /* Where Redis knows more, it tells. */
        if (status != WP_OK && status != WP_ABORTED &&
            status != WP_ALREADY_EXISTS) {
            return status;
        }
    }
    return WP_OK;
}

static uint64_t
left(struct wp_recovery *recovery)
{
    uint64_t n;

    (void)pthread_mutex_lock(&recovery->lock);
    n = recovery->left;
    (void)pthread_mutex_unlock(&recovery->lock);
    return n;
}

static enum wp_status
assert_all(struct wp_recovery *recovery, const struct wp_lease_redis_pool *pool,
           bool *refused, struct wp_err *err)
{
    struct known *known = calloc(1, sizeof *known);
    const struct pool_state *state = &recovery->states[pool - recovery->pools];
    enum wp_status status = WP_OK;

    if (known == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    known->recovery = recovery;
    known->pool = pool;
    known->retire_idle = state->left_begun != state->left_done;
    do {
        wp_loop_call(recovery->core->loop, ask_known, known);
        status = assert_chunk(known, refused, err);
    } while (status == WP_OK && known->cursor != 0);
    free(known);
    return status;
}

/* What Redis has of the pool, and what of it the core does not know. */
struct had {
    struct wp_pools *pools;
    struct wp_lease_record *records; /* Owned. */
    size_t n;
    size_t cap;
    bool full; /* Memory lacks. */
};

static void
note_had(void *ctx, const struct wp_lease_record *record)
{
    struct had *had = ctx;

    if (had->n == had->cap) {
        size_t cap = had->cap > 0 ? 2 * had->cap : ASSERT_CHUNK;
        struct wp_lease_record *more =
            realloc(had->records, cap * sizeof *more);

        if (more == NULL) {
            had->full = true;
            return;
        }
        had->records = more;
        had->cap = cap;
    }
    had->records[had->n++] = *record;
}

/* Control thread. Keeps those that the core does not know. */
static void
keep_unknown(void *ctx)
{
    struct had *had = ctx;
    size_t n = 0;

    for (size_t i = 0; i < had->n; i++) {
        if (!wp_pools_knows(had->pools, had->records[i].uid)) {
            had->records[n++] = had->records[i];
        }
    }
    had->n = n;
}

/* An old copy of Redis may have records of sandboxes that were forgotten since.
 * The keeper knows every sandbox there is: the others are over. */
static enum wp_status
end_unknown(struct wp_recovery *recovery,
            const struct wp_lease_redis_pool *pool, struct wp_err *err)
{
    struct had had = {.pools = recovery->core->pools};
    enum wp_status status =
        wp_lease_redis_read_pool(recovery->redis, pool, note_had, &had, err);

    if (status == WP_OK && had.full) {
        status = wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    if (status == WP_OK) {
        wp_loop_call(recovery->core->loop, keep_unknown, &had);
    }
    for (size_t i = 0; i < had.n && status == WP_OK; i++) {
        had.records[i].state = WP_RECORD_ENDED;
        status = tell(recovery, &had.records[i], false, err);
        if (status == WP_ABORTED || status == WP_ALREADY_EXISTS) {
            status = WP_OK;
        }
    }
    free(had.records);
    return status;
}

/* A claim whose lease is over may have had another one since. If Redis has
 * forgotten both, the end and the new lease, it refuses the new one: so that is
 * restored again, after what has ended. Of some sandboxes that are over only
 * the keeper knows so. */
static enum wp_status
restore_again(struct wp_recovery *recovery,
              const struct wp_lease_redis_pool *pool, struct wp_err *err)
{
    return assert_all(recovery, pool, NULL, err);
}

/* *refused, false before: some are to be restored again once the keeper has
 * ended. */
static enum wp_status
restore(struct wp_recovery *recovery, const struct wp_lease_redis_pool *pool,
        bool *refused, struct wp_err *err)
{
    enum wp_status status =
        wp_lease_redis_begin_recovery(recovery->redis, pool, err);

    if (status == WP_OK) {
        status = assert_all(recovery, pool, refused, err);
    }
    if (status == WP_OK && wp_daemon_is_keeper(recovery->core)) {
        status = end_unknown(recovery, pool, err);
        if (status == WP_OK && *refused) {
            *refused = false;
            status = restore_again(recovery, pool, err);
        }
    }
    return status == WP_OK && !*refused
               ? wp_lease_redis_end_assert(recovery->redis, pool, err)
               : status;
}

/* PENDING: the keeper has not ended; when none is heard of, one may take over.
 */
static enum wp_status
await_keeper(struct wp_recovery *recovery,
             const struct wp_lease_redis_pool *pool, int64_t since_ns,
             struct wp_err *err)
{
    struct wp_lease_redis_peer peers[WP_PEERS_MAX];
    uint32_t n = wp_lease_redis_peers(recovery->redis, peers, WP_PEERS_MAX);

    for (uint32_t i = 0; i < n && i < WP_PEERS_MAX; i++) {
        if (peers[i].keeper) {
            return wp_lease_redis_has_ended(recovery->redis, pool,
                                            peers[i].replica_id, err);
        }
    }
    return wp_daemon_is_keeper(recovery->core) ||
                   wp_clock_mono_ns(wp_clock_system()) - since_ns > KEEPER_NS
               ? WP_OK
               : WP_PENDING;
}

static enum wp_status
tell_refused(struct wp_recovery *recovery,
             const struct wp_lease_redis_pool *pool, int64_t since_ns,
             struct wp_err *err)
{
    enum wp_status status = await_keeper(recovery, pool, since_ns, err);

    if (status == WP_OK && wp_daemon_is_keeper(recovery->core)) {
        status = end_unknown(recovery, pool, err); /* It took over. */
    }
    if (status == WP_OK) {
        status = restore_again(recovery, pool, err);
    }
    return status == WP_OK
               ? wp_lease_redis_end_assert(recovery->redis, pool, err)
               : status;
}

static enum wp_status
try_open(struct wp_recovery *recovery, const struct wp_lease_redis_pool *pool,
         struct wp_err *err)
{
    struct wp_lease_redis_peer peers[WP_PEERS_MAX];
    uint32_t n = wp_lease_redis_peers(recovery->redis, peers, WP_PEERS_MAX);

    return wp_lease_redis_open_generation(
        recovery->redis, pool, peers, n < WP_PEERS_MAX ? n : WP_PEERS_MAX, err);
}

static void
take_doubt(struct wp_recovery *recovery, uint32_t i)
{
    struct pool_state *state = &recovery->states[i];
    bool doubted;

    (void)pthread_mutex_lock(&recovery->lock);
    doubted = state->is_doubted;
    state->is_doubted = false;
    (void)pthread_mutex_unlock(&recovery->lock);
    if (!doubted) {
        return;
    }
    if (state->phase == CALM) {
        state->begun_ns = wp_clock_mono_ns(wp_clock_system());
        wp_log_warn("Redis may have forgotten: claims wait until what is "
                    "known here is restored",
                    wp_kv_str("pool", recovery->pools[i].pool));
    }
    state->phase = DOUBTED;
}

static void
opened(struct wp_recovery *recovery, uint32_t i)
{
    int64_t took_ns =
        wp_clock_mono_ns(wp_clock_system()) - recovery->states[i].begun_ns;

    recovery->states[i].phase = CALM;
    recovery->states[i].left_done = recovery->states[i].left_begun;
    wp_log_info("Redis has been restored, claims go on",
                wp_kv_str("pool", recovery->pools[i].pool),
                wp_kv_ms("took_ms", took_ns));
    wp_control_wake(recovery->core->control);
}

/* A step of the pool; false when there is none left. */
static bool
step(struct wp_recovery *recovery, uint32_t i)
{
    struct pool_state *state = &recovery->states[i];
    const struct wp_lease_redis_pool *pool = &recovery->pools[i];
    struct wp_err err = {.msg = ""};
    enum wp_status status;
    bool refused = false;

    take_doubt(recovery, i);
    if (state->phase == RESTORED && state->left_begun != left(recovery)) {
        state->phase = DOUBTED; /* One has gone since, that was waited for. */
    }
    if (state->phase == DOUBTED) {
        state->left_begun = left(recovery);
        status = restore(recovery, pool, &refused, &err);
        state->phase = status != WP_OK ? DOUBTED : refused ? REFUSED : RESTORED;
        state->refused_ns = wp_clock_mono_ns(wp_clock_system());
    }
    if (state->phase == REFUSED) {
        status = tell_refused(recovery, pool, state->refused_ns, &err);
        state->phase = status == WP_OK        ? RESTORED
                       : status == WP_PENDING ? REFUSED
                                              : DOUBTED;
    }
    if (state->phase == RESTORED) {
        status = try_open(recovery, pool, &err);
        if (status == WP_OK) {
            opened(recovery, i);
        } else if (status != WP_PENDING) {
            state->phase = DOUBTED; /* Closed again, or out of reach. */
        }
    }
    return state->phase != CALM;
}

/* Until there is doubt, or for a moment when there is some already. False when
 * the thread is to end. */
static bool
await_work(struct wp_recovery *recovery, bool busy)
{
    int64_t until_ns = wp_clock_mono_ns(wp_clock_system()) + AGAIN_NS;
    const struct timespec until = {.tv_sec = (time_t)(until_ns / WP_NS_PER_S),
                                   .tv_nsec = (long)(until_ns % WP_NS_PER_S)};
    bool doubted = false;
    bool stop;

    (void)pthread_mutex_lock(&recovery->lock);
    if (busy && !recovery->stop) {
        (void)pthread_cond_timedwait(&recovery->changed, &recovery->lock,
                                     &until);
    }
    while (!busy && !recovery->stop && !doubted) {
        for (uint32_t i = 0; i < recovery->n_pools; i++) {
            doubted = doubted || recovery->states[i].is_doubted;
        }
        if (!doubted) {
            (void)pthread_cond_wait(&recovery->changed, &recovery->lock);
        }
    }
    stop = recovery->stop;
    (void)pthread_mutex_unlock(&recovery->lock);
    return !stop;
}

static uint32_t
pools_len(struct wp_recovery *recovery)
{
    uint32_t n;

    (void)pthread_mutex_lock(&recovery->lock);
    n = recovery->n_pools;
    (void)pthread_mutex_unlock(&recovery->lock);
    return n;
}

static void *
run(void *arg)
{
    struct wp_recovery *recovery = arg;
    bool busy = false;

    while (await_work(recovery, busy)) {
        uint32_t n = pools_len(recovery);

        busy = false;
        for (uint32_t i = 0; i < n && !stops(recovery); i++) {
            busy = step(recovery, i) || busy;
        }
    }
    return NULL;
}

struct wp_recovery *
wp_recovery_create(struct wp_daemon_core *core, wp_recovery_catch_up catch_up,
                   void *catch_up_ctx, const struct wp_lease_redis_pool *pools,
                   uint32_t n_pools, struct wp_err *err)
{
    struct wp_recovery *recovery = calloc(1, sizeof *recovery);
    pthread_condattr_t attr;

    if (recovery != NULL) {
        recovery->states =
            calloc(n_pools + WP_POOLS_MAX, sizeof *recovery->states);
    }
    if (recovery == NULL || recovery->states == NULL) {
        free(recovery);
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    recovery->core = core;
    recovery->catch_up = catch_up;
    recovery->catch_up_ctx = catch_up_ctx;
    recovery->pools = pools;
    recovery->n_pools = n_pools;
    (void)pthread_mutex_init(&recovery->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&recovery->changed, &attr);
    (void)pthread_condattr_destroy(&attr);
    return recovery;
}

enum wp_status
wp_recovery_start(struct wp_recovery *recovery, struct wp_lease_redis *redis,
                  struct wp_err *err)
{
    int error;

    recovery->redis = redis;
    error = pthread_create(&recovery->thread, NULL, run, recovery);
    if (error != 0) {
        return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, error,
                          "the thread that recovers pools");
    }
    recovery->runs = true;
    (void)pthread_setname_np(recovery->thread, "recovery");
    return WP_OK;
}

void
wp_recovery_grow(struct wp_recovery *recovery, uint32_t n_pools)
{
    (void)pthread_mutex_lock(&recovery->lock);
    for (uint32_t i = recovery->n_pools; i < n_pools; i++) {
        recovery->states[i].left_done = recovery->left;
    }
    recovery->n_pools = n_pools;
    (void)pthread_mutex_unlock(&recovery->lock);
}

void
wp_recovery_doubt(struct wp_recovery *recovery,
                  const struct wp_lease_redis_pool *pool)
{
    (void)pthread_mutex_lock(&recovery->lock);
    for (uint32_t i = 0; i < recovery->n_pools; i++) {
        const struct wp_lease_redis_pool *mine = &recovery->pools[i];

        if (strcmp(mine->pool, pool->pool) == 0 &&
            strcmp(mine->pool_namespace, pool->pool_namespace) == 0) {
            recovery->states[i].is_doubted = true;
        }
    }
    (void)pthread_cond_signal(&recovery->changed);
    (void)pthread_mutex_unlock(&recovery->lock);
}

void
wp_recovery_one_left(struct wp_recovery *recovery)
{
    (void)pthread_mutex_lock(&recovery->lock);
    recovery->left++;
    (void)pthread_mutex_unlock(&recovery->lock);
}

void
wp_recovery_stop(struct wp_recovery *recovery)
{
    if (recovery == NULL || !recovery->runs) {
        return;
    }
    (void)pthread_mutex_lock(&recovery->lock);
    recovery->stop = true;
    (void)pthread_cond_signal(&recovery->changed);
    (void)pthread_mutex_unlock(&recovery->lock);
    (void)pthread_join(recovery->thread, NULL);
    recovery->runs = false;
}

void
wp_recovery_destroy(struct wp_recovery *recovery)
{
    if (recovery != NULL) {
        (void)pthread_cond_destroy(&recovery->changed);
        (void)pthread_mutex_destroy(&recovery->lock);
        free(recovery->states);
        free(recovery);
    }
}
