#include "allocator/stores/sqlite/turn.h"

#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/log.h"

#define LOG_PAUSE_NS (10 * WP_NS_PER_S)
/* A transaction that takes so long on a serving thread leaves the next ones to
 * the committer for a while. */
#define SLOW_NS (50 * WP_NS_PER_MS)
#define SLOW_PAUSE_NS WP_NS_PER_S

static void
add(_Atomic(uint64_t) *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static uint64_t
get(const _Atomic(uint64_t) *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static int64_t
now(void)
{
    return wp_clock_mono_ns(wp_clock_system());
}

void
wp_lease_turn_init(struct wp_lease_turn *turn,
                   const struct wp_lease_sqlite_config *config,
                   struct wp_lease_db *db, struct wp_lease_log_sync *log)
{
    WP_ASSERT(config->batch_max <= WP_LEASE_TURN_BATCH);
    turn->config = *config;
    turn->db = db;
    turn->log = log;
    turn->checkpoint_at = config->checkpoint_pages;
    (void)pthread_mutex_init(&turn->error_lock, NULL);
}

void
wp_lease_turn_fini(struct wp_lease_turn *turn)
{
    (void)pthread_mutex_destroy(&turn->error_lock);
}

static void
note_error(struct wp_lease_turn *turn, const struct wp_err *err)
{
    (void)pthread_mutex_lock(&turn->error_lock);
    turn->last_error = *err;
    (void)pthread_mutex_unlock(&turn->error_lock);
}

/* Moves ops from the waiting ones to the batch: those that wait for the disk,
 * or those that do not. A batch that is there stays as it is. False when there
 * is none. */
static bool
fill_batch(struct wp_lease_turn *turn)
{
    bool syncs =
        turn->waiting != NULL && wp_lease_db_syncs(turn->db, turn->waiting);

    if (turn->batch_len > 0) {
        return true;
    }
    while (turn->waiting != NULL && turn->batch_len < turn->config.batch_max &&
           wp_lease_db_syncs(turn->db, turn->waiting) == syncs) {
        turn->batch[turn->batch_len++] = turn->waiting;
        turn->waiting = wp_lease_op_next(turn->waiting);
    }
    return turn->batch_len > 0;
}

static void
try_batch(struct wp_lease_turn *turn)
{
    turn->err.status = WP_OK;
    turn->outcome = wp_lease_db_apply(turn->db, turn->batch, turn->batch_len,
                                      turn->statuses, &turn->err);
}

/* The batch has been tried, and its ops have their statuses. */
static void
answer_batch(struct wp_lease_turn *turn, int64_t took_ns)
{
    uint32_t count = turn->batch_len;

    wp_histogram_record(&turn->transaction_ns, took_ns);
    add(&turn->transactions, 1);
    add(&turn->commits, count);
    add(&turn->failures, turn->outcome != WP_OK);
    if (count > get(&turn->batch_max)) {
        atomic_store_explicit(&turn->batch_max, count, memory_order_relaxed);
    }
    atomic_store_explicit(&turn->wal_pages, wp_lease_db_wal_pages(turn->db),
                          memory_order_relaxed);
    turn->batch_len = 0;
    turn->tried = false;
    turn->err.status = WP_OK;
    for (uint32_t i = 0; i < count; i++) {
        turn->batch[i]->done(turn->batch[i], turn->statuses[i]);
    }
}

/* --- on a thread that serves --- */

/* In the last quarter before it must, the log is copied once the disk has most
 * of it. */
static bool
is_due(const struct wp_lease_turn *turn, bool is_short)
{
    uint64_t pages = wp_lease_db_wal_pages(turn->db);

    return is_short || pages >= turn->checkpoint_at ||
           (turn->log != NULL &&
            pages >= turn->checkpoint_at - turn->config.checkpoint_pages / 4 &&
            wp_lease_log_sync_done(turn->log));
}

/* False: for the committer, to be told of, or to be done once more where
 * nothing of it is there. */
static bool
serve_batch(struct wp_lease_turn *turn)
{
    int64_t start_ns = now();
    int64_t end_ns;

    try_batch(turn);
    if (turn->err.status != WP_OK) {
        turn->tried = turn->outcome != WP_UNAVAILABLE;
        return false;
    }
    end_ns = now();
    if (end_ns - start_ns > SLOW_NS) {
        atomic_store_explicit(&turn->slow_until_ns, end_ns + SLOW_PAUSE_NS,
                              memory_order_relaxed);
    }
    answer_batch(turn, end_ns - start_ns);
    return true;
}

bool
wp_lease_turn_serve(struct wp_lease_turn *turn, struct wp_lease_op *list)
{
    turn->waiting = list;
    while (fill_batch(turn)) {
        if (wp_lease_db_syncs(turn->db, turn->batch[0]) || !serve_batch(turn)) {
            return false;
        }
    }
    return !is_due(turn, wp_lease_db_is_short(turn->db, now()));
}

bool
wp_lease_turn_is_slow(const struct wp_lease_turn *turn)
{
    int64_t until_ns =
        atomic_load_explicit(&turn->slow_until_ns, memory_order_relaxed);

    return until_ns != 0 && now() < until_ns;
}

/* --- the committer --- */

/* Says so when it begins to fail, and when that is over; not more often than
 * people read. */
static void
note_outcome(struct wp_lease_turn *turn, const struct wp_err *err,
             int64_t now_ns)
{
    if (err->status != WP_OK) {
        note_error(turn, err);
        if (!turn->logged && now_ns >= turn->log_again_ns) {
            wp_log_error("lease commit failed", wp_kv_err(err),
                         wp_kv_str("outcome", wp_status_name(err->status)));
            turn->logged = true;
            turn->log_again_ns = now_ns + LOG_PAUSE_NS;
        }
    } else if (turn->logged) {
        wp_log_info("lease commits succeed again",
                    wp_kv_str("file", turn->config.path));
        turn->logged = false;
    }
}

/* Copies the log into the file now. */
static enum wp_status
checkpoint(struct wp_lease_turn *turn, bool give_back, struct wp_err *err)
{
    int64_t start_ns = now();

    if (wp_lease_db_checkpoint(turn->db, give_back, err) != WP_OK) {
        return err->status;
    }
    add(&turn->checkpoints, 1);
    wp_histogram_record(&turn->checkpoint_ns, now() - start_ns);
    turn->checkpoint_at = turn->config.checkpoint_pages;
    if (turn->log != NULL) {
        wp_lease_log_sync_reset(turn->log);
    }
    return WP_OK;
}

/* Tries the batch; on a full disk a second time, when the log could be copied
 * into the file and has given back its room. */
static void
try_hard(struct wp_lease_turn *turn)
{
    struct wp_err ignored;

    try_batch(turn);
    if (turn->outcome == WP_UNAVAILABLE && wp_lease_db_is_full(turn->db) &&
        checkpoint(turn, true, &ignored) == WP_OK) {
        try_batch(turn);
    }
}

static void
finish_batch(struct wp_lease_turn *turn)
{
    int64_t start_ns = now();
    int64_t end_ns;

    if (!turn->tried) {
        try_hard(turn);
    }
    end_ns = now();
    note_outcome(turn, &turn->err, end_ns);
    answer_batch(turn, end_ns - start_ns);
}

/* Keeps the log short, and shorter than the room that the disk has left. When
 * it cannot be copied now, it grows by as much again before the next try; on a
 * disk without room each transaction tries. */
static void
checkpoint_if_due(struct wp_lease_turn *turn)
{
    uint64_t pages = wp_lease_db_wal_pages(turn->db);
    bool is_short = wp_lease_db_is_short(turn->db, now());
    struct wp_err err = {.status = WP_OK};

    if (!is_due(turn, is_short) || checkpoint(turn, is_short, &err) == WP_OK) {
        return;
    }
    note_error(turn, &err);
    if (now() >= turn->log_growth_again_ns) {
        wp_log_warn("lease log cannot be copied into its file, and grows",
                    wp_kv_err(&err), wp_kv_int("pages", (int64_t)pages));
        turn->log_growth_again_ns = now() + LOG_PAUSE_NS;
    }
    turn->checkpoint_at = pages + turn->config.checkpoint_pages;
}

static void
finish_waiting(struct wp_lease_turn *turn)
{
    while (fill_batch(turn)) {
        finish_batch(turn);
        checkpoint_if_due(turn);
    }
}

void
wp_lease_turn_finish(struct wp_lease_turn *turn, struct wp_lease_op *list)
{
    finish_waiting(turn);
    if (list == NULL || is_due(turn, false)) {
        checkpoint_if_due(turn);
    }
    turn->waiting = list;
    finish_waiting(turn);
    atomic_store_explicit(&turn->wal_pages, wp_lease_db_wal_pages(turn->db),
                          memory_order_relaxed);
}

/* --- numbers --- */

void
wp_lease_turn_stats(struct wp_lease_turn *turn,
                    struct wp_lease_sqlite_stats *stats)
{
    stats->commits = get(&turn->commits);
    stats->transactions = get(&turn->transactions);
    stats->failures = get(&turn->failures);
    stats->checkpoints = get(&turn->checkpoints);
    stats->batch_max = get(&turn->batch_max);
    stats->wal_pages = get(&turn->wal_pages);
    wp_histogram_read(&turn->transaction_ns, &stats->transaction_ns);
    wp_histogram_read(&turn->checkpoint_ns, &stats->checkpoint_ns);
    (void)pthread_mutex_lock(&turn->error_lock);
    stats->last_error = turn->last_error;
    (void)pthread_mutex_unlock(&turn->error_lock);
}
