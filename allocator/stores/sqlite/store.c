#include "allocator/stores/sqlite/store.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/stores/sqlite/db.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/log.h"
#include "pool/leases/commit_queue.h"

enum {
    DEFAULT_BUSY_TIMEOUT_MS = 2000,
    DEFAULT_BATCH_MAX = 256,
    DEFAULT_CHECKPOINT_PAGES = 4000,
    BATCH_LIMIT = 1024,
};

#define LOG_PAUSE_NS (10 * WP_NS_PER_S)

struct wp_lease_sqlite {
    struct wp_lease_sqlite_config config;
    struct wp_lease_db *db; /* The committer's while it runs. */
    pthread_t committer;
    bool running; /* Main thread. */
    struct wp_commit_queue queue;

    /* The committer's. */
    struct wp_lease_op *waiting; /* Taken, for the next transactions. */
    uint64_t checkpoint_at;      /* Pages in the log. */
    bool logged;                 /* The log says that commits fail. */
    int64_t log_again_ns;
    int64_t log_growth_again_ns; /* Of a log that cannot be copied. */
    struct wp_lease_op *batch[BATCH_LIMIT];
    enum wp_status statuses[BATCH_LIMIT];

    /* Written by the committer, read by any thread. */
    _Atomic(uint64_t) commits;
    _Atomic(uint64_t) transactions;
    _Atomic(uint64_t) failures;
    _Atomic(uint64_t) checkpoints;
    _Atomic(uint64_t) batch_max;
    _Atomic(uint64_t) wal_pages;
    struct wp_histogram transaction_ns;
    struct wp_histogram checkpoint_ns;
    pthread_mutex_t error_lock; /* Guards: last_error. */
    struct wp_err last_error;
};

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

static void
note_error(struct wp_lease_sqlite *sqlite, const struct wp_err *err)
{
    (void)pthread_mutex_lock(&sqlite->error_lock);
    sqlite->last_error = *err;
    (void)pthread_mutex_unlock(&sqlite->error_lock);
}

/* Moves ops from the waiting ones to the batch; returns how many. */
static uint32_t
fill_batch(struct wp_lease_sqlite *sqlite)
{
    uint32_t count = 0;

    while (sqlite->waiting != NULL && count < sqlite->config.batch_max) {
        sqlite->batch[count] = sqlite->waiting;
        sqlite->waiting = wp_lease_op_next(sqlite->waiting);
        count++;
    }
    return count;
}

/* Says so when it begins to fail, and when that is over; not more often than
 * people read. */
static void
note_outcome(struct wp_lease_sqlite *sqlite, const struct wp_err *err,
             int64_t now_ns)
{
    if (err->status != WP_OK) {
        note_error(sqlite, err);
        if (!sqlite->logged && now_ns >= sqlite->log_again_ns) {
            wp_log_error("lease commit failed", wp_kv_err(err),
                         wp_kv_str("outcome", wp_status_name(err->status)));
            sqlite->logged = true;
            sqlite->log_again_ns = now_ns + LOG_PAUSE_NS;
        }
    } else if (sqlite->logged) {
        wp_log_info("lease commits succeed again",
                    wp_kv_str("file", sqlite->config.path));
        sqlite->logged = false;
    }
}

/* Copies the log into the file now. */
static enum wp_status
checkpoint(struct wp_lease_sqlite *sqlite, bool give_back, struct wp_err *err)
{
    const struct wp_clock *clock = wp_clock_system();
    int64_t start_ns = wp_clock_mono_ns(clock);

    if (wp_lease_db_checkpoint(sqlite->db, give_back, err) != WP_OK) {
        return err->status;
    }
    add(&sqlite->checkpoints, 1);
    wp_histogram_record(&sqlite->checkpoint_ns,
                        wp_clock_mono_ns(clock) - start_ns);
    sqlite->checkpoint_at = sqlite->config.checkpoint_pages;
    return WP_OK;
}

/* Applies the batch; on a full disk a second time, when the log could be copied
 * into the file and has given back its room. */
static enum wp_status
apply_batch(struct wp_lease_sqlite *sqlite, uint32_t count, struct wp_err *err)
{
    enum wp_status status = wp_lease_db_apply(sqlite->db, sqlite->batch, count,
                                              sqlite->statuses, err);
    struct wp_err ignored;

    if (status == WP_UNAVAILABLE && wp_lease_db_is_full(sqlite->db) &&
        checkpoint(sqlite, true, &ignored) == WP_OK) {
        *err = (struct wp_err){.status = WP_OK};
        status = wp_lease_db_apply(sqlite->db, sqlite->batch, count,
                                   sqlite->statuses, err);
    }
    return status;
}

static void
run_batch(struct wp_lease_sqlite *sqlite, uint32_t count)
{
    const struct wp_clock *clock = wp_clock_system();
    int64_t start_ns = wp_clock_mono_ns(clock);
    struct wp_err err = {.status = WP_OK};
    enum wp_status status;
    int64_t end_ns;

    status = apply_batch(sqlite, count, &err);
    end_ns = wp_clock_mono_ns(clock);
    wp_histogram_record(&sqlite->transaction_ns, end_ns - start_ns);
    add(&sqlite->transactions, 1);
    add(&sqlite->commits, count);
    add(&sqlite->failures, status != WP_OK);
    if (count > get(&sqlite->batch_max)) {
        atomic_store_explicit(&sqlite->batch_max, count, memory_order_relaxed);
    }
    note_outcome(sqlite, &err, end_ns);
    for (uint32_t i = 0; i < count; i++) {
        sqlite->batch[i]->done(sqlite->batch[i], sqlite->statuses[i]);
    }
}

/* Keeps the log short, and shorter than the room that the disk has left. When
 * it cannot be copied now, it grows by as much again before the next try; on a
 * disk without room each transaction tries. */
static void
checkpoint_if_due(struct wp_lease_sqlite *sqlite)
{
    uint64_t pages = wp_lease_db_wal_pages(sqlite->db);
    bool is_short = wp_lease_db_is_short(sqlite->db);
    struct wp_err err = {.status = WP_OK};
    int64_t now_ns;

    if ((pages < sqlite->checkpoint_at && !is_short) ||
        checkpoint(sqlite, is_short, &err) == WP_OK) {
        return;
    }
    note_error(sqlite, &err);
    now_ns = wp_clock_mono_ns(wp_clock_system());
    if (now_ns >= sqlite->log_growth_again_ns) {
        wp_log_warn("lease log cannot be copied into its file, and grows",
                    wp_kv_err(&err), wp_kv_int("pages", (int64_t)pages));
        sqlite->log_growth_again_ns = now_ns + LOG_PAUSE_NS;
    }
    sqlite->checkpoint_at = pages + sqlite->config.checkpoint_pages;
}

static void *
committer_main(void *arg)
{
    struct wp_lease_sqlite *sqlite = arg;

    (void)pthread_setname_np(pthread_self(), "wp-leases");
    while ((sqlite->waiting = wp_commit_queue_take(&sqlite->queue)) != NULL) {
        while (sqlite->waiting != NULL) {
            run_batch(sqlite, fill_batch(sqlite));
            checkpoint_if_due(sqlite);
            atomic_store_explicit(&sqlite->wal_pages,
                                  wp_lease_db_wal_pages(sqlite->db),
                                  memory_order_relaxed);
        }
    }
    return NULL;
}

static enum wp_status
sqlite_commit(void *self, struct wp_lease_op *op)
{
    struct wp_lease_sqlite *sqlite = self;

    return wp_commit_queue_push(&sqlite->queue, op) ? WP_PENDING
                                                    : WP_UNAVAILABLE;
}

static enum wp_status
sqlite_load(void *self,
            void (*each)(void *ctx, const struct wp_lease_record *record),
            void *ctx, struct wp_err *err)
{
    struct wp_lease_sqlite *sqlite = self;

    return wp_lease_db_load(sqlite->db, each, ctx, err);
}

static void
fill_defaults(struct wp_lease_sqlite_config *config)
{
    if (config->busy_timeout_ms == 0) {
        config->busy_timeout_ms = DEFAULT_BUSY_TIMEOUT_MS;
    }
    if (config->batch_max == 0) {
        config->batch_max = DEFAULT_BATCH_MAX;
    }
    if (config->checkpoint_pages == 0) {
        config->checkpoint_pages = DEFAULT_CHECKPOINT_PAGES;
    }
}

/* Signals are the main thread's. */
static int
start_committer(struct wp_lease_sqlite *sqlite)
{
    sigset_t all;
    sigset_t before;
    int error;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&sqlite->committer, NULL, committer_main, sqlite);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

struct wp_lease_sqlite *
wp_lease_sqlite_create(const struct wp_lease_sqlite_config *config,
                       struct wp_err *err)
{
    struct wp_lease_sqlite *sqlite =
        aligned_alloc(_Alignof(struct wp_lease_sqlite), sizeof *sqlite);
    struct wp_err ignored;
    int error;

    err = err != NULL ? err : &ignored;
    if (sqlite == NULL) {
        (void)wp_err_set(err, WP_UNAVAILABLE, "no memory for the lease store");
        return NULL;
    }
    memset(sqlite, 0, sizeof *sqlite);
    sqlite->config = *config;
    fill_defaults(&sqlite->config);
    WP_ASSERT(sqlite->config.batch_max <= BATCH_LIMIT);
    sqlite->checkpoint_at = sqlite->config.checkpoint_pages;
    sqlite->db = wp_lease_db_open(&sqlite->config, err);
    if (sqlite->db == NULL) {
        free(sqlite);
        return NULL;
    }
    sqlite->config.path = wp_lease_db_path(sqlite->db);
    (void)pthread_mutex_init(&sqlite->error_lock, NULL);
    wp_commit_queue_init(&sqlite->queue);
    error = start_committer(sqlite);
    if (error != 0) {
        (void)wp_err_sys(err, WP_UNAVAILABLE, error,
                         "the lease store's thread cannot start");
        wp_lease_sqlite_destroy(sqlite);
        return NULL;
    }
    sqlite->running = true;
    return sqlite;
}

struct wp_lease_store
wp_lease_sqlite_store(struct wp_lease_sqlite *sqlite)
{
    static const struct wp_lease_store_ops ops = {.name = "sqlite",
                                                  .durable = true,
                                                  .commit = sqlite_commit,
                                                  .load = sqlite_load};

    return (struct wp_lease_store){&ops, sqlite};
}

void
wp_lease_sqlite_stop(struct wp_lease_sqlite *sqlite)
{
    if (sqlite->running) {
        wp_commit_queue_close(&sqlite->queue);
        (void)pthread_join(sqlite->committer, NULL);
        sqlite->running = false;
    }
}

void
wp_lease_sqlite_destroy(struct wp_lease_sqlite *sqlite)
{
    if (sqlite != NULL) {
        wp_lease_sqlite_stop(sqlite);
        wp_commit_queue_fini(&sqlite->queue);
        wp_lease_db_close(sqlite->db);
        (void)pthread_mutex_destroy(&sqlite->error_lock);
        free(sqlite);
    }
}

void
wp_lease_sqlite_stats(struct wp_lease_sqlite *sqlite,
                      struct wp_lease_sqlite_stats *stats)
{
    memset(stats, 0, sizeof *stats);
    stats->commits = get(&sqlite->commits);
    stats->transactions = get(&sqlite->transactions);
    stats->failures = get(&sqlite->failures);
    stats->checkpoints = get(&sqlite->checkpoints);
    stats->wakeups = get(&sqlite->queue.sleeps);
    stats->batch_max = get(&sqlite->batch_max);
    stats->wal_pages = get(&sqlite->wal_pages);
    wp_histogram_read(&sqlite->transaction_ns, &stats->transaction_ns);
    wp_histogram_read(&sqlite->checkpoint_ns, &stats->checkpoint_ns);
    (void)pthread_mutex_lock(&sqlite->error_lock);
    stats->last_error = sqlite->last_error;
    (void)pthread_mutex_unlock(&sqlite->error_lock);
}
