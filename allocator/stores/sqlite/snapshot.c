/* The snapshots of pools, in the lease file. */
#include <string.h>

#include "allocator/stores/sqlite/impl.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"

/* Of a pool that is gone; written again once a minute where there is news. */
#define KEPT_MS (90 * 24 * 3600 * (WP_NS_PER_S / WP_NS_PER_MS))

static bool
bind_pool(sqlite3_stmt *statement, const struct wp_lease_op *op)
{
    return sqlite3_bind_text(statement, 1, op->pool_namespace.ptr,
                             (int)op->pool_namespace.len,
                             SQLITE_STATIC) == SQLITE_OK &&
           sqlite3_bind_text(statement, 2, op->pool.ptr, (int)op->pool.len,
                             SQLITE_STATIC) == SQLITE_OK;
}

static bool
put(struct wp_lease_db *db, const struct wp_lease_op *op)
{
    sqlite3_stmt *drop = db->statements[WP_LEASE_SQL_DROP_SNAPSHOTS];
    sqlite3_stmt *statement = db->statements[WP_LEASE_SQL_PUT_SNAPSHOT];
    int rc = SQLITE_ERROR;

    WP_ASSERT(op->snapshot->len <= WP_SNAPSHOT_MAX);
    if (bind_pool(statement, op) &&
        sqlite3_bind_int64(statement, 3, op->granted_wall_ms) == SQLITE_OK &&
        sqlite3_bind_blob(statement, 4,
                          op->snapshot->len > 0 ? op->snapshot->bytes
                                                : (const uint8_t *)"",
                          (int)op->snapshot->len, SQLITE_STATIC) == SQLITE_OK) {
        rc = sqlite3_step(statement);
        (void)sqlite3_reset(statement);
    }
    if (rc == SQLITE_DONE) {
        rc = sqlite3_bind_int64(drop, 1, op->granted_wall_ms - KEPT_MS);
        if (rc == SQLITE_OK) {
            rc = sqlite3_step(drop);
            (void)sqlite3_reset(drop);
        }
    }
    return rc == SQLITE_DONE;
}

static bool
get(struct wp_lease_db *db, const struct wp_lease_op *op,
    enum wp_status *status)
{
    sqlite3_stmt *statement = db->statements[WP_LEASE_SQL_GET_SNAPSHOT];
    int rc = SQLITE_ERROR;

    *status = WP_NOT_FOUND;
    if (bind_pool(statement, op)) {
        rc = sqlite3_step(statement);
        if (rc == SQLITE_ROW) {
            const void *bytes = sqlite3_column_blob(statement, 0);
            size_t len = (size_t)sqlite3_column_bytes(statement, 0);

            if (len <= op->snapshot->cap) {
                if (len > 0) {
                    memcpy(op->snapshot->bytes, bytes, len);
                }
                op->snapshot->len = len;
                *status = WP_OK;
            }
            rc = SQLITE_DONE;
        }
        (void)sqlite3_reset(statement);
    }
    return rc == SQLITE_DONE;
}

bool
wp_lease_db_snapshot(struct wp_lease_db *db, const struct wp_lease_op *op,
                     enum wp_status *status, bool *wrote)
{
    if (op->kind == WP_LEASE_GET_SNAPSHOT) {
        return get(db, op, status);
    }
    *status = WP_OK;
    *wrote = true;
    return put(db, op);
}
