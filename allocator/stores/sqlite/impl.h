/* allocator/stores/sqlite/impl.h - what the two files that speak SQLite share:
 * the connection and its statements. */
#ifndef WP_ALLOCATOR_STORES_SQLITE_IMPL_H
#define WP_ALLOCATOR_STORES_SQLITE_IMPL_H

#include <sqlite3.h>

#include "allocator/stores/sqlite/db.h"
#include "allocator/stores/sqlite/file.h"
#include "allocator/stores/sqlite/places.h"

enum {
    WP_LEASE_SQL_PRIMARY_CODE = 0xff, /* Of SQLite's extended codes. */
};

enum wp_lease_statement {
    WP_LEASE_SQL_BEGIN,
    WP_LEASE_SQL_COMMIT,
    WP_LEASE_SQL_ROW,
    WP_LEASE_SQL_PLACES,
    WP_LEASE_SQL_INSERT,
    WP_LEASE_SQL_UPDATE,
    WP_LEASE_SQL_RENEW,
    WP_LEASE_SQL_DELETE,
    WP_LEASE_SQL_ALL,
    WP_LEASE_SQL_PUT_SNAPSHOT,
    WP_LEASE_SQL_GET_SNAPSHOT,
    WP_LEASE_SQL_DROP_SNAPSHOTS,
    WP_LEASE_SQL_COUNT,
};

struct wp_lease_db {
    sqlite3 *sqlite;
    sqlite3_stmt *statements[WP_LEASE_SQL_COUNT];
    struct wp_lease_places places;
    enum wp_lease_sqlite_sync level; /* As configured. */
    uint32_t wal_pages;
    int64_t page_bytes;
    uint64_t room;   /* On the disk, in bytes, when it was looked at: */
    int64_t room_ns; /* monotonic. */
    bool full;       /* The last failure was a disk without room. */
    char path[WP_LEASE_FILE_PATH_MAX + 32];
};

/* Makes the statements of an accepted file, and finds its records. */
enum wp_status wp_lease_db_prepare(struct wp_lease_db *db, struct wp_err *err);

/* What commits wait for from here on. Between transactions. */
WP_MUST_CHECK bool wp_lease_db_set_level(struct wp_lease_db *db,
                                         enum wp_lease_sqlite_sync level);

/* Writes the log's first transaction, for which SQLite syncs the disk at any
 * level, where the later ones do not wait for it. When it fails, the next one
 * waits. */
void wp_lease_db_begin_log(struct wp_lease_db *db);

/* Fills err from what SQLite said last; returns status. */
enum wp_status wp_lease_db_fail(struct wp_lease_db *db, struct wp_err *err,
                                enum wp_status status, const char *what);

/* PUT_SNAPSHOT or GET_SNAPSHOT within a transaction. False: SQLite failed.
 * *wrote becomes true when it changed a row. */
WP_MUST_CHECK bool wp_lease_db_snapshot(struct wp_lease_db *db,
                                        const struct wp_lease_op *op,
                                        enum wp_status *status, bool *wrote);

/* The newest layout this program knows. */
int64_t wp_lease_db_layout(void);

#endif
