/* allocator/stores/sqlite/db.h - lease records in a SQLite file: opening and
 * checking it, its layouts, transactions. One thread at a time. Everything that
 * touches SQLite is behind this header. */
#ifndef WP_ALLOCATOR_STORES_SQLITE_DB_H
#define WP_ALLOCATOR_STORES_SQLITE_DB_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/stores/sqlite/store.h"

struct wp_lease_db;

/* See wp_lease_sqlite_create; every field of config is set. */
struct wp_lease_db *
wp_lease_db_open(const struct wp_lease_sqlite_config *config,
                 struct wp_err *err);
/* NULL is allowed. */
void wp_lease_db_close(struct wp_lease_db *db);

/* Of the file; valid until close. */
const char *wp_lease_db_path(const struct wp_lease_db *db);

/* As the port's load. */
enum wp_status
wp_lease_db_load(struct wp_lease_db *db,
                 void (*each)(void *ctx, const struct wp_lease_record *record),
                 void *ctx, struct wp_err *err);

/* Whether a transaction with this op waits for the disk: each does with FULL.
 * With NORMAL a snapshot does, which others must not wait for: it is not among
 * the ops of an apply with those for which this is false. Any thread. */
bool wp_lease_db_syncs(const struct wp_lease_db *db,
                       const struct wp_lease_op *op);

/* Does the ops in order, each on what the ones before it left, in one
 * transaction. WP_OK: statuses are the outcomes, and changes are on the disk
 * where wp_lease_db_syncs says so. Else UNAVAILABLE or UNKNOWN_OUTCOME, the
 * outcome of all of them, is in statuses as well, and err says why. A single op
 * whose record cannot be read is UNAVAILABLE within a transaction that
 * succeeds; err tells of it. */
enum wp_status wp_lease_db_apply(struct wp_lease_db *db,
                                 struct wp_lease_op *const *ops, uint32_t count,
                                 enum wp_status *statuses, struct wp_err *err);

/* Pages in the log that are not yet copied into the file. */
uint32_t wp_lease_db_wal_pages(const struct wp_lease_db *db);
/* The last apply that failed did so because the disk, or the quota, is full. */
bool wp_lease_db_is_full(const struct wp_lease_db *db);
/* The disk has less room left than the log's pages need in the file, at worst:
 * copied any later, they might not fit any more. now_ns is monotonic: where
 * there is plenty, the disk is looked at once a second. */
bool wp_lease_db_is_short(struct wp_lease_db *db, int64_t now_ns);
/* Copies the log into the file, so that the next transaction starts it anew;
 * give_back: the disk gets the log's room again. Waits for the disk, so that
 * transactions that need not wait do not. */
enum wp_status wp_lease_db_checkpoint(struct wp_lease_db *db, bool give_back,
                                      struct wp_err *err);

#endif
