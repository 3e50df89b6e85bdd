#include "allocator/stores/sqlite/store.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/stores/sqlite/db.h"
#include "allocator/stores/sqlite/log_sync.h"
#include "allocator/stores/sqlite/turn.h"
#include "pool/leases/commit_queue.h"
#include "proto/loop/thread.h"

enum {
    DEFAULT_BUSY_TIMEOUT_MS = 2000,
    DEFAULT_BATCH_MAX = 256,
    DEFAULT_RECORDS = 4096,
    DEFAULT_CHECKPOINT_PAGES = 4000,
    /* How often one flush does what has come meanwhile, before it leaves that
     * to the committer. */
    ROUNDS_MAX = 2,
};

struct wp_lease_sqlite {
    struct wp_lease_turn turn; /* Whose turn it is in the queue. */
    struct wp_commit_queue queue;
    struct wp_lease_db *db;
    struct wp_lease_log_sync log; /* Not with FULL. */
    pthread_t committer;
    bool running; /* Main thread. */
};

static void *
committer_main(void *arg)
{
    struct wp_lease_sqlite *sqlite = arg;
    struct wp_lease_op *list;

    (void)pthread_setname_np(pthread_self(), "wp-leases");
    while (wp_commit_queue_take(&sqlite->queue, &list)) {
        wp_lease_turn_finish(&sqlite->turn, list);
    }
    return NULL;
}

static enum wp_status
commit_gathered(void *self, struct wp_lease_op *op)
{
    struct wp_lease_sqlite *sqlite = self;
    bool ok = op->gathered ? wp_commit_queue_gather(&sqlite->queue, op)
                           : wp_commit_queue_push(&sqlite->queue, op);

    return ok ? WP_PENDING : WP_UNAVAILABLE;
}

static enum wp_status
commit_synced(void *self, struct wp_lease_op *op)
{
    struct wp_lease_sqlite *sqlite = self;

    return wp_commit_queue_push(&sqlite->queue, op) ? WP_PENDING
                                                    : WP_UNAVAILABLE;
}

static void
flush(void *self)
{
    struct wp_lease_sqlite *sqlite = self;
    struct wp_lease_op *list = wp_commit_queue_try_take(&sqlite->queue);

    for (int i = 0; list != NULL; i++) {
        if (i == ROUNDS_MAX || wp_lease_turn_is_slow(&sqlite->turn)) {
            sqlite->turn.waiting = list;
            wp_commit_queue_hand_over(&sqlite->queue);
            return;
        }
        if (!wp_lease_turn_serve(&sqlite->turn, list)) {
            wp_commit_queue_hand_over(&sqlite->queue);
            return;
        }
        list = wp_commit_queue_take_more(&sqlite->queue);
    }
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
    if (config->records == 0) {
        config->records = DEFAULT_RECORDS;
    }
    if (config->batch_max == 0) {
        config->batch_max = DEFAULT_BATCH_MAX;
    }
    if (config->checkpoint_pages == 0) {
        config->checkpoint_pages = DEFAULT_CHECKPOINT_PAGES;
    }
}

struct wp_lease_sqlite *
wp_lease_sqlite_create(const struct wp_lease_sqlite_config *config,
                       struct wp_err *err)
{
    struct wp_lease_sqlite *sqlite =
        aligned_alloc(_Alignof(struct wp_lease_sqlite), sizeof *sqlite);
    struct wp_lease_sqlite_config filled = *config;
    struct wp_err ignored;
    bool full;
    int error;

    err = err != NULL ? err : &ignored;
    if (sqlite == NULL) {
        (void)wp_err_set(err, WP_UNAVAILABLE, "no memory for the lease store");
        return NULL;
    }
    memset(sqlite, 0, sizeof *sqlite);
    fill_defaults(&filled);
    sqlite->db = wp_lease_db_open(&filled, err);
    if (sqlite->db == NULL) {
        free(sqlite);
        return NULL;
    }
    filled.path = wp_lease_db_path(sqlite->db);
    full = filled.synchronous == WP_LEASE_SQLITE_FULL;
    wp_lease_turn_init(&sqlite->turn, &filled, sqlite->db,
                       full ? NULL : &sqlite->log);
    wp_commit_queue_init(&sqlite->queue);
    if (!full &&
        wp_lease_log_sync_start(&sqlite->log, filled.path, err) != WP_OK) {
        wp_lease_sqlite_destroy(sqlite);
        return NULL;
    }
    error = wp_thread_start(&sqlite->committer, committer_main, sqlite);
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
    static const struct wp_lease_store_ops synced = {.name = "sqlite",
                                                     .durable = true,
                                                     .commit = commit_synced,
                                                     .load = sqlite_load};
    static const struct wp_lease_store_ops gathered = {.name = "sqlite",
                                                       .durable = true,
                                                       .commit =
                                                           commit_gathered,
                                                       .flush = flush,
                                                       .load = sqlite_load};

    return (struct wp_lease_store){
        sqlite->turn.config.synchronous == WP_LEASE_SQLITE_FULL ? &synced
                                                                : &gathered,
        sqlite};
}

void
wp_lease_sqlite_stop(struct wp_lease_sqlite *sqlite)
{
    if (sqlite->running) {
        wp_commit_queue_close(&sqlite->queue);
        (void)pthread_join(sqlite->committer, NULL);
        sqlite->running = false;
    }
    wp_lease_log_sync_stop(&sqlite->log);
}

void
wp_lease_sqlite_destroy(struct wp_lease_sqlite *sqlite)
{
    if (sqlite != NULL) {
        wp_lease_sqlite_stop(sqlite);
        wp_commit_queue_fini(&sqlite->queue);
        wp_lease_turn_fini(&sqlite->turn);
        wp_lease_db_close(sqlite->db);
        free(sqlite);
    }
}

void
wp_lease_sqlite_stats(struct wp_lease_sqlite *sqlite,
                      struct wp_lease_sqlite_stats *stats)
{
    memset(stats, 0, sizeof *stats);
    wp_lease_turn_stats(&sqlite->turn, stats);
    stats->wakeups =
        atomic_load_explicit(&sqlite->queue.sleeps, memory_order_relaxed);
}
