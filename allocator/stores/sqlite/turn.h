/* allocator/stores/sqlite/turn.h - what is done to the lease file by whoever
 * has the turn (pool/leases/commit_queue.h): transactions, checkpoints, and
 * what is told of them.
 *
 * All of it but the counters belongs to the turn, and goes with it from thread
 * to thread. */
#ifndef WP_ALLOCATOR_STORES_SQLITE_TURN_H
#define WP_ALLOCATOR_STORES_SQLITE_TURN_H

#include <pthread.h>
#include <stdatomic.h>

#include "allocator/stores/sqlite/db.h"
#include "allocator/stores/sqlite/log_sync.h"

enum {
    WP_LEASE_TURN_BATCH = 1024, /* Most ops in one transaction. */
};

struct wp_lease_turn {
    struct wp_lease_sqlite_config config;
    struct wp_lease_db *db;        /* Borrowed. */
    struct wp_lease_log_sync *log; /* Borrowed. NULL: commits sync it. */

    struct wp_lease_op *waiting; /* Taken, for the next transactions. */
    uint32_t batch_len;          /* Ops of one transaction, not answered. */
    struct wp_lease_op *batch[WP_LEASE_TURN_BATCH];
    enum wp_status statuses[WP_LEASE_TURN_BATCH];
    bool tried; /* What follows, and the statuses, are its outcome. */
    enum wp_status outcome;
    struct wp_err err; /* Of the whole, or of one op. WP_OK between batches. */
    uint64_t checkpoint_at; /* Pages in the log. */
    bool logged;            /* The log says that commits fail. */
    int64_t log_again_ns;
    int64_t log_growth_again_ns; /* Of a log that cannot be copied. */

    /* Any thread reads them. */
    _Atomic(int64_t) slow_until_ns;
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

/* turn is zeroed; config is copied, and every field of it is set. log: NULL
 * where every commit syncs the log. */
void wp_lease_turn_init(struct wp_lease_turn *turn,
                        const struct wp_lease_sqlite_config *config,
                        struct wp_lease_db *db, struct wp_lease_log_sync *log);
void wp_lease_turn_fini(struct wp_lease_turn *turn);

/* Does the ops of list, as far as that waits for no disk: on a thread that has
 * other things to do. False: the rest is for wp_lease_turn_finish, as ops that
 * wait for the disk, a transaction that failed, a checkpoint. No lock, no
 * allocation of ours, nothing logged. */
WP_MUST_CHECK bool wp_lease_turn_serve(struct wp_lease_turn *turn,
                                       struct wp_lease_op *list);
/* A transaction in wp_lease_turn_serve has taken long of late: the disk, or the
 * system, makes writers wait. Any thread. */
bool wp_lease_turn_is_slow(const struct wp_lease_turn *turn);
/* Does what serve has left, then the ops of list, which may be NULL. The
 * committer's. */
void wp_lease_turn_finish(struct wp_lease_turn *turn, struct wp_lease_op *list);

/* All but what is the queue's. Any thread. */
void wp_lease_turn_stats(struct wp_lease_turn *turn,
                         struct wp_lease_sqlite_stats *stats);

#endif
