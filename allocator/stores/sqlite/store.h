/* allocator/stores/sqlite/store.h - the lease store of one machine: a SQLite
 * file.
 *
 * Commits come from any thread onto a lock-free list; whatever waits there goes
 * into one transaction (group commit). One thread at a time has the turn to use
 * the file (pool/leases/commit_queue.h). Ops that are gathered are done by the
 * thread that flushes, when nobody has the turn: no other thread is woken for
 * them. All others, and what waits for the disk, are done by a thread of the
 * store's own, the committer. op->done is called by the one or the other, after
 * the transaction is as durable as `synchronous` says.
 *
 * Waiting: commit itself never waits, and flush for no sync of the disk. An op
 * is answered when the transactions before it and its own are through, each at
 * most batch_max ops; a disk that hangs is waited for. When a flush has met a
 * disk that makes writers wait, the committer does what comes in the next
 * second.
 *
 * A full disk makes the committer copy the log into the file, give back the
 * log's room and try once more.
 *
 * When the file cannot be written (full disk, I/O error) the transaction is
 * rolled back and its ops are answered UNAVAILABLE; UNKNOWN_OUTCOME when the
 * failure came so late that it may yet be found after a crash. The store stays
 * in service and tries again with the next commit. */
#ifndef WP_ALLOCATOR_STORES_SQLITE_STORE_H
#define WP_ALLOCATOR_STORES_SQLITE_STORE_H

#include <stdint.h>

#include "pool/base/metrics.h"
#include "pool/base/status.h"
#include "pool/lease_store.h"

struct wp_lease_sqlite;

/* What survives when the machine (not only the process) stops. */
enum wp_lease_sqlite_sync {
    /* Everything that was answered. flush is NULL: the committer does all. */
    WP_LEASE_SQLITE_FULL = 0,
    /* All but the last commits of leases before a power loss, from some moment
     * on; every snapshot; and the file is whole. Nothing is lost when only the
     * process dies. */
    WP_LEASE_SQLITE_NORMAL = 1,
};

/* Zero means the default for every field but path. */
struct wp_lease_sqlite_config {
    /* The file; made with mode 0600 when it is missing, in a directory that
     * exists and can be written. Beside it lies PATH-wal while it is open. */
    const char *path;
    enum wp_lease_sqlite_sync synchronous;
    /* How long create waits for another process that has the file open.
     * Default 2000. */
    uint32_t busy_timeout_ms;
    uint32_t batch_max; /* Ops in one transaction, 1..1024. Default 256. */
    /* As many records are found without more memory being taken for that, by
     * whoever commits. Default 4096. */
    uint32_t records;
    /* Pages in PATH-wal after which it is copied into the file, by the
     * committer, between two transactions; from three quarters on once the disk
     * has them; sooner when they are more than it has room for. Default 4000
     * (16 MiB). */
    uint32_t checkpoint_pages;
};

struct wp_lease_sqlite_stats {
    uint64_t commits;      /* Ops answered, whatever the outcome. */
    uint64_t transactions; /* Tried, the failed ones included. */
    uint64_t failures;     /* Transactions that were not committed. */
    uint64_t checkpoints;
    uint64_t wakeups;   /* Times the committer slept and was woken. */
    uint64_t batch_max; /* Most ops in one transaction so far. */
    uint64_t wal_pages; /* In PATH-wal, not yet copied into the file. */
    /* A transaction from its begin to the disk's answer; checkpoints are not
     * part of it. */
    struct wp_histogram_view transaction_ns;
    struct wp_histogram_view checkpoint_ns;
    struct wp_err last_error; /* status WP_OK: none so far. */
};

/* Opens or makes the file, checks all of it, brings an older layout up to date,
 * and starts the committer. Main thread.
 *
 * NULL with err (UNAVAILABLE: another process has the file open, or the system
 * refused; FAILED_PRECONDITION: it is not a lease file, damaged, or of a newer
 * version). A file that is refused is left as it is. */
struct wp_lease_sqlite *
wp_lease_sqlite_create(const struct wp_lease_sqlite_config *config,
                       struct wp_err *err);

/* The port; valid until destroy. `load` is for the thread that called create,
 * before the first commit. */
struct wp_lease_store wp_lease_sqlite_store(struct wp_lease_sqlite *sqlite);

/* Answers what is waiting, then ends the committer. Commits that come later
 * are UNAVAILABLE. Blocks until then; not from op->done. Idempotent. Main
 * thread. */
void wp_lease_sqlite_stop(struct wp_lease_sqlite *sqlite);

/* Stops, closes the file and frees. NULL is allowed. No thread may commit or
 * flush any more. */
void wp_lease_sqlite_destroy(struct wp_lease_sqlite *sqlite);

/* Any thread; the figures are each exact, not of one moment. */
void wp_lease_sqlite_stats(struct wp_lease_sqlite *sqlite,
                           struct wp_lease_sqlite_stats *stats);

#endif
