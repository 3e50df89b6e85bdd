#include "allocator/stores/sqlite/rows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/leases/rules.h"

/* A disk with so many times the room that is needed is looked at once in a
 * while: a look takes a claim's time. */
#define ROOM_PLENTY 64
#define ROOM_LOOK_NS WP_NS_PER_S

enum wp_status
wp_lease_db_fail(struct wp_lease_db *db, struct wp_err *err,
                 enum wp_status status, const char *what)
{
    int code = sqlite3_errcode(db->sqlite) & WP_LEASE_SQL_PRIMARY_CODE;
    int os_errno = sqlite3_system_errno(db->sqlite);

    /* SQLite takes a quota that is used up for an I/O error. */
    db->full =
        code == SQLITE_FULL || (code == SQLITE_IOERR && os_errno == EDQUOT);
    (void)wp_err_set(err, status, "lease file '%s': %s: %s (SQLite code %d)",
                     db->path, what, sqlite3_errmsg(db->sqlite),
                     sqlite3_extended_errcode(db->sqlite));
    if (err != NULL) {
        err->os_errno = os_errno;
    }
    return status;
}

bool
wp_lease_db_set_level(struct wp_lease_db *db, enum wp_lease_sqlite_sync level)
{
    return sqlite3_exec(db->sqlite,
                        level == WP_LEASE_SQLITE_NORMAL
                            ? "PRAGMA synchronous = NORMAL"
                            : "PRAGMA synchronous = FULL",
                        NULL, NULL, NULL) == SQLITE_OK;
}

void
wp_lease_db_close(struct wp_lease_db *db)
{
    int rc;

    if (db == NULL) {
        return;
    }
    for (int i = 0; i < WP_LEASE_SQL_COUNT; i++) {
        (void)sqlite3_finalize(db->statements[i]);
    }
    rc = sqlite3_close(db->sqlite);
    WP_ASSERT(rc == SQLITE_OK);
    wp_lease_places_fini(&db->places);
    free(db);
}

const char *
wp_lease_db_path(const struct wp_lease_db *db)
{
    return db->path;
}

static int
bind_text(sqlite3_stmt *statement, int at, struct wp_str text)
{
    return sqlite3_bind_text(statement, at, text.len > 0 ? text.ptr : "",
                             (int)text.len, SQLITE_STATIC);
}

/* Binds what a claim changes, from parameter `at` on. */
static bool
bind_lease(sqlite3_stmt *to, int at, const struct wp_lease_record *record)
{
    return sqlite3_bind_int64(to, at, record->state) == SQLITE_OK &&
           sqlite3_bind_int64(to, at + 1, (int64_t)record->fence) ==
               SQLITE_OK &&
           sqlite3_bind_int64(to, at + 2, record->deadline_wall_ms) ==
               SQLITE_OK &&
           sqlite3_bind_int64(to, at + 3, record->granted_wall_ms) ==
               SQLITE_OK &&
           sqlite3_bind_int64(to, at + 4, (int64_t)record->fingerprint) ==
               SQLITE_OK &&
           sqlite3_bind_int64(to, at + 5, record->served) == SQLITE_OK;
}

static bool
bind_texts(sqlite3_stmt *to, int at, struct wp_lease_record *record, int first)
{
    char *texts[WP_LEASE_ROW_TEXTS];
    size_t caps[WP_LEASE_ROW_TEXTS];

    wp_lease_row_texts(record, texts, caps);
    for (int i = first; i < WP_LEASE_ROW_TEXTS; i++) {
        if (bind_text(to, at + i - first, wp_str_from(texts[i])) != SQLITE_OK) {
            return false;
        }
    }
    return true;
}

/* Writes after, which replaces before. */
static enum wp_lease_step
write_row(struct wp_lease_db *db, const struct wp_lease_row *before,
          struct wp_lease_record *after)
{
    enum wp_lease_statement kind = WP_LEASE_SQL_UPDATE;
    sqlite3_stmt *statement;
    bool bound;
    int rc = SQLITE_ERROR;

    if (before->record.state == WP_RECORD_NONE) {
        kind = WP_LEASE_SQL_INSERT;
    } else if (after->state == WP_RECORD_NONE) {
        kind = WP_LEASE_SQL_DELETE;
    } else if (before->record.state == after->state) {
        kind = WP_LEASE_SQL_RENEW;
    }
    statement = db->statements[kind];
    if (kind == WP_LEASE_SQL_INSERT) {
        bound = sqlite3_bind_blob(statement, 1, after->uid, WP_UID_LEN,
                                  SQLITE_STATIC) == SQLITE_OK &&
                bind_lease(statement, 2, after) &&
                bind_texts(statement, 8, after, 0);
    } else {
        bound = sqlite3_bind_int64(statement, 1, before->id) == SQLITE_OK;
        if (kind == WP_LEASE_SQL_UPDATE) {
            bound = bound && bind_lease(statement, 2, after) &&
                    bind_texts(statement, 8, after, WP_LEASE_ROW_CLAIM_ID);
        } else if (kind == WP_LEASE_SQL_RENEW) {
            bound = bound &&
                    sqlite3_bind_int64(statement, 2, after->deadline_wall_ms) ==
                        SQLITE_OK;
        }
    }
    if (bound) {
        rc = sqlite3_step(statement);
        (void)sqlite3_reset(statement);
    }
    if (rc != SQLITE_DONE) {
        return WP_LEASE_STEP_FAILED;
    }
    wp_lease_places_move(&db->places,
                         kind == WP_LEASE_SQL_INSERT
                             ? sqlite3_last_insert_rowid(db->sqlite)
                             : before->id,
                         &before->record, after);
    return WP_LEASE_STEP_OK;
}

/* Does what the rules say, given the record of the sandbox and that of the
 * claim, where there are any. */
static enum wp_lease_step
change(struct wp_lease_db *db, const struct wp_lease_op *op,
       const struct wp_lease_row *before, const struct wp_lease_row *claimed,
       enum wp_status *status, bool *wrote)
{
    struct wp_lease_record after = before->record;
    enum wp_lease_step step = WP_LEASE_STEP_OK;

    *status = wp_lease_rules_apply(
        op, claimed->record.state != WP_RECORD_NONE ? &claimed->record : NULL,
        &after);
    if (op->found != NULL &&
        ((op->kind == WP_LEASE_FETCH && *status == WP_OK) ||
         (op->kind == WP_LEASE_EXPIRE && *status == WP_ABORTED))) {
        *op->found = after;
    }
    /* Whatever a rule changes shows in one of these. */
    if (*status == WP_OK &&
        (after.state != before->record.state ||
         after.deadline_wall_ms != before->record.deadline_wall_ms)) {
        step = write_row(db, before, &after);
        *wrote = *wrote || step == WP_LEASE_STEP_OK;
    }
    return step;
}

/* One op within the transaction. *wrote becomes true when it changed a row. */
static enum wp_lease_step
apply_op(struct wp_lease_db *db, const struct wp_lease_op *op,
         enum wp_status *status, bool *wrote)
{
    bool by_claim = op->kind == WP_LEASE_FETCH && op->claim_id.len > 0;
    struct wp_lease_row before = {0};
    struct wp_lease_row claimed = {0};
    enum wp_lease_step step;

    if (op->kind == WP_LEASE_PUT_SNAPSHOT ||
        op->kind == WP_LEASE_GET_SNAPSHOT) {
        return wp_lease_db_snapshot(db, op, status, wrote)
                   ? WP_LEASE_STEP_OK
                   : WP_LEASE_STEP_FAILED;
    }
    step = by_claim
               ? wp_lease_row_find_claim(db, op->claim_id, op->tenant, &before)
               : wp_lease_row_find_uid(db, op->uid, &before);
    if (step == WP_LEASE_STEP_OK && op->kind == WP_LEASE_GRANT) {
        step = wp_lease_row_find_claim(db, op->claim_id, op->tenant, &claimed);
    }
    return step == WP_LEASE_STEP_OK
               ? change(db, op, &before, &claimed, status, wrote)
               : step;
}

static int
step_once(sqlite3_stmt *statement)
{
    int rc = sqlite3_step(statement);

    (void)sqlite3_reset(statement);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static void
roll_back(struct wp_lease_db *db)
{
    /* Some failures have rolled back already. */
    if (sqlite3_get_autocommit(db->sqlite) == 0) {
        (void)sqlite3_exec(db->sqlite, "ROLLBACK", NULL, NULL, NULL);
    }
    wp_lease_places_undo(&db->places);
}

/* A transaction that changes nothing: true when it is in the log. */
static bool
write_nothing(struct wp_lease_db *db)
{
    char sql[96];

    (void)snprintf(sql, sizeof sql,
                   "BEGIN IMMEDIATE; PRAGMA user_version = %lld; COMMIT",
                   (long long)wp_lease_db_layout());
    if (sqlite3_exec(db->sqlite, sql, NULL, NULL, NULL) == SQLITE_OK) {
        return true;
    }
    roll_back(db);
    return false;
}

/* After a COMMIT that failed: what may be said of its ops. When the disk was
 * full, the frame that makes a transaction count was not written. What any
 * other failure may have left in the log, where a crash would find it whole,
 * counts for nothing once something else is written over it. */
static enum wp_status
judge_commit(struct wp_lease_db *db, int rc, bool wrote)
{
    roll_back(db);
    if (!wrote || (rc & WP_LEASE_SQL_PRIMARY_CODE) == SQLITE_FULL ||
        write_nothing(db)) {
        return WP_UNAVAILABLE;
    }
    return WP_UNKNOWN_OUTCOME;
}

static enum wp_status
apply_all(struct wp_lease_db *db, struct wp_lease_op *const *ops,
          uint32_t count, enum wp_status *statuses, struct wp_err *err)
{
    bool wrote = false;
    int rc;

    if (!wp_lease_places_begin(&db->places, count)) {
        return wp_err_set(err, WP_UNAVAILABLE, "no memory for lease file '%s'",
                          db->path);
    }
    if (step_once(db->statements[WP_LEASE_SQL_BEGIN]) != SQLITE_OK) {
        return wp_lease_db_fail(db, err, WP_UNAVAILABLE, "cannot begin");
    }
    for (uint32_t i = 0; i < count; i++) {
        enum wp_lease_step step = apply_op(db, ops[i], &statuses[i], &wrote);

        if (step == WP_LEASE_STEP_BAD_ROW) {
            statuses[i] = wp_err_set(err, WP_UNAVAILABLE,
                                     "lease file '%s' holds a record that is "
                                     "not one; it was left as it is",
                                     db->path);
        } else if (step != WP_LEASE_STEP_OK) {
            (void)wp_lease_db_fail(db, err, WP_UNAVAILABLE,
                                   "cannot read or write");
            roll_back(db);
            return WP_UNAVAILABLE;
        }
    }
    rc = step_once(db->statements[WP_LEASE_SQL_COMMIT]);
    if (rc != SQLITE_OK) {
        (void)wp_lease_db_fail(db, err, WP_UNAVAILABLE, "cannot commit");
        return judge_commit(db, rc, wrote);
    }
    wp_lease_places_keep(&db->places);
    return WP_OK;
}

bool
wp_lease_db_syncs(const struct wp_lease_db *db, const struct wp_lease_op *op)
{
    return db->level == WP_LEASE_SQLITE_FULL ||
           op->kind == WP_LEASE_PUT_SNAPSHOT;
}

/* One transaction that waits for the disk, where others do not. */
static enum wp_status
apply_synced(struct wp_lease_db *db, struct wp_lease_op *const *ops,
             uint32_t count, enum wp_status *statuses, struct wp_err *err)
{
    enum wp_status status;

    if (!wp_lease_db_set_level(db, WP_LEASE_SQLITE_FULL)) {
        return wp_lease_db_fail(db, err, WP_UNAVAILABLE, "cannot sync");
    }
    status = apply_all(db, ops, count, statuses, err);
    /* Else the next ones are slower than they need be. */
    (void)!wp_lease_db_set_level(db, WP_LEASE_SQLITE_NORMAL);
    return status;
}

enum wp_status
wp_lease_db_apply(struct wp_lease_db *db, struct wp_lease_op *const *ops,
                  uint32_t count, enum wp_status *statuses, struct wp_err *err)
{
    bool synced_alone =
        db->level == WP_LEASE_SQLITE_NORMAL && wp_lease_db_syncs(db, ops[0]);
    enum wp_status status;

    db->full = false;
    status = synced_alone ? apply_synced(db, ops, count, statuses, err)
                          : apply_all(db, ops, count, statuses, err);
    if (status != WP_OK) {
        err->status = status;
        for (uint32_t i = 0; i < count; i++) {
            /* Who only reads has changed nothing, whatever became of it. */
            statuses[i] = ops[i]->kind == WP_LEASE_FETCH ||
                                  ops[i]->kind == WP_LEASE_GET_SNAPSHOT
                              ? WP_UNAVAILABLE
                              : status;
        }
    }
    return status;
}

enum wp_status
wp_lease_db_load(struct wp_lease_db *db,
                 void (*each)(void *ctx, const struct wp_lease_record *record),
                 void *ctx, struct wp_err *err)
{
    sqlite3_stmt *statement = db->statements[WP_LEASE_SQL_ALL];
    enum wp_status status = WP_OK;
    struct wp_lease_row row;
    int rc;

    while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
        if (!wp_lease_row_read(statement, &row)) {
            status = wp_err_set(
                err, WP_FAILED_PRECONDITION,
                "lease file '%s': row %lld is not a lease record; it was left "
                "as it is",
                db->path,
                (long long)sqlite3_column_int64(statement, WP_LEASE_ROW_ID));
            break;
        }
        each(ctx, &row.record);
    }
    if (status == WP_OK && rc != SQLITE_DONE) {
        status = wp_lease_db_fail(db, err, WP_UNAVAILABLE, "cannot be read");
    }
    (void)sqlite3_reset(statement);
    return status;
}

uint32_t
wp_lease_db_wal_pages(const struct wp_lease_db *db)
{
    return db->wal_pages;
}

bool
wp_lease_db_is_full(const struct wp_lease_db *db)
{
    return db->full;
}

bool
wp_lease_db_is_short(struct wp_lease_db *db, int64_t now_ns)
{
    uint64_t needed = db->wal_pages * (uint64_t)db->page_bytes;
    struct statvfs disk;

    if (needed == 0 || (needed < db->room / ROOM_PLENTY &&
                        now_ns - db->room_ns < ROOM_LOOK_NS)) {
        return false;
    }
    if (statvfs(db->path, &disk) != 0) {
        return false;
    }
    db->room = (uint64_t)disk.f_bavail * disk.f_frsize;
    db->room_ns = now_ns;
    return db->room < needed;
}

void
wp_lease_db_begin_log(struct wp_lease_db *db)
{
    if (db->level == WP_LEASE_SQLITE_NORMAL) {
        (void)write_nothing(db);
    }
}

enum wp_status
wp_lease_db_checkpoint(struct wp_lease_db *db, bool give_back,
                       struct wp_err *err)
{
    if (sqlite3_wal_checkpoint_v2(db->sqlite, NULL,
                                  give_back ? SQLITE_CHECKPOINT_TRUNCATE
                                            : SQLITE_CHECKPOINT_PASSIVE,
                                  NULL, NULL) != SQLITE_OK) {
        return wp_lease_db_fail(db, err, WP_UNAVAILABLE, "cannot checkpoint");
    }
    db->wal_pages = 0;
    if (!give_back) {
        wp_lease_db_begin_log(db);
    }
    return WP_OK;
}
