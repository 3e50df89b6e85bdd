#include "allocator/stores/sqlite/impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "pool/base/assert.h"
#include "pool/leases/rules.h"

/* Every use of a row names its columns in this order. */
#define COLUMNS                                                                \
    "uid, state, fence, deadline_wall_ms, granted_wall_ms, fingerprint, "      \
    "served, pool_namespace, pool, sandbox, endpoint, claim_id, tenant, "      \
    "lost_reason"

#define SNAPSHOT_COLUMNS "pool_namespace, pool, written_wall_ms, bytes"

enum column {
    COLUMN_UID,
    COLUMN_STATE,
    COLUMN_FENCE,
    COLUMN_DEADLINE,
    COLUMN_GRANTED,
    COLUMN_FINGERPRINT,
    COLUMN_SERVED,
    COLUMN_TEXTS,
};

/* The texts, from COLUMN_TEXTS on. */
enum {
    TEXT_CLAIM_ID = 4,
    TEXTS = 7,
    COLUMN_ID = COLUMN_TEXTS + TEXTS,
};

static const char *const statement_texts[WP_LEASE_SQL_COUNT] = {
    [WP_LEASE_SQL_BEGIN] = "BEGIN IMMEDIATE",
    [WP_LEASE_SQL_COMMIT] = "COMMIT",
    [WP_LEASE_SQL_FIND_UID] =
        "SELECT " COLUMNS ", id FROM lease WHERE uid = ?1",
    [WP_LEASE_SQL_FIND_CLAIM] =
        "SELECT " COLUMNS ", id FROM lease WHERE claim_id = ?1 AND "
        "tenant = ?2 AND state IN (2, 3)",
    [WP_LEASE_SQL_INSERT] =
        "INSERT INTO lease (" COLUMNS ") VALUES (?1, ?2, ?3, ?4, ?5, "
        "?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
    [WP_LEASE_SQL_UPDATE] =
        "UPDATE lease SET state = ?2, fence = ?3, deadline_wall_ms = "
        "?4, granted_wall_ms = ?5, fingerprint = ?6, served = ?7, "
        "claim_id = ?8, tenant = ?9, lost_reason = ?10 WHERE id = ?1",
    [WP_LEASE_SQL_RENEW] =
        "UPDATE lease SET deadline_wall_ms = ?2 WHERE id = ?1",
    [WP_LEASE_SQL_DELETE] = "DELETE FROM lease WHERE id = ?1",
    [WP_LEASE_SQL_ALL] = "SELECT " COLUMNS ", id FROM lease",
    [WP_LEASE_SQL_PUT_SNAPSHOT] =
        "INSERT OR REPLACE INTO note (" SNAPSHOT_COLUMNS
        ") VALUES (?1, ?2, ?3, ?4)",
    [WP_LEASE_SQL_GET_SNAPSHOT] =
        "SELECT bytes FROM note WHERE pool_namespace = ?1 AND pool = ?2",
    [WP_LEASE_SQL_DROP_SNAPSHOTS] =
        "DELETE FROM note WHERE written_wall_ms < ?1",
};

/* A record and its place. */
struct row {
    int64_t id;
    struct wp_lease_record record;
};

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

enum wp_status
wp_lease_db_prepare(struct wp_lease_db *db, struct wp_err *err)
{
    for (int i = 0; i < WP_LEASE_SQL_COUNT; i++) {
        if (sqlite3_prepare_v3(db->sqlite, statement_texts[i], -1,
                               SQLITE_PREPARE_PERSISTENT, &db->statements[i],
                               NULL) != SQLITE_OK) {
            return wp_lease_db_fail(db, err, WP_UNAVAILABLE,
                                    statement_texts[i]);
        }
    }
    return WP_OK;
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
    free(db);
}

const char *
wp_lease_db_path(const struct wp_lease_db *db)
{
    return db->path;
}

/* The record's texts in the order of their columns. */
static void
text_fields(struct wp_lease_record *record, char *texts[TEXTS],
            size_t caps[TEXTS])
{
#define TEXT(i, field)                                                         \
    (texts[i] = record->field, caps[i] = sizeof record->field)
    TEXT(0, pool_namespace);
    TEXT(1, pool);
    TEXT(2, sandbox);
    TEXT(3, endpoint);
    TEXT(TEXT_CLAIM_ID, claim_id);
    TEXT(5, tenant);
    TEXT(6, lost_reason);
#undef TEXT
}

/* The file may have been edited: nothing in it is taken on trust. */
static bool
read_row(sqlite3_stmt *row, struct row *out)
{
    struct wp_lease_record *record = &out->record;
    const void *uid = sqlite3_column_blob(row, COLUMN_UID);
    int64_t state = sqlite3_column_int64(row, COLUMN_STATE);
    int64_t served = sqlite3_column_int64(row, COLUMN_SERVED);
    char *texts[TEXTS];
    size_t caps[TEXTS];

    memset(record, 0, sizeof *record);
    if (uid == NULL || sqlite3_column_bytes(row, COLUMN_UID) != WP_UID_LEN ||
        state < WP_RECORD_OPEN || state > WP_RECORD_ENDED || served < 0 ||
        served > UINT32_MAX) {
        return false;
    }
    memcpy(record->uid, uid, WP_UID_LEN);
    record->state = (enum wp_record_state)state;
    record->fence = (uint64_t)sqlite3_column_int64(row, COLUMN_FENCE);
    record->deadline_wall_ms = sqlite3_column_int64(row, COLUMN_DEADLINE);
    record->granted_wall_ms = sqlite3_column_int64(row, COLUMN_GRANTED);
    record->fingerprint =
        (uint64_t)sqlite3_column_int64(row, COLUMN_FINGERPRINT);
    record->served = (uint32_t)served;
    text_fields(record, texts, caps);
    for (int i = 0; i < TEXTS; i++) {
        const unsigned char *text = sqlite3_column_text(row, COLUMN_TEXTS + i);
        int len = sqlite3_column_bytes(row, COLUMN_TEXTS + i);

        if (text == NULL ||
            !wp_str_copy((struct wp_str){(const char *)text, (size_t)len},
                         texts[i], caps[i])) {
            return false;
        }
    }
    out->id = sqlite3_column_int64(row, COLUMN_ID);
    return true;
}

/* What became of one statement or op within a transaction. */
enum step {
    STEP_OK,
    STEP_BAD_ROW,  /* A record that is not one: this op fails. */
    STEP_CONFLICT, /* Another row has the uid or the claim: nothing changed. */
    STEP_FAILED,   /* SQLite failed: the transaction does. */
};

/* Steps a select for at most one row; state NONE when there is none. */
static enum step
find(sqlite3_stmt *statement, struct row *out)
{
    enum step step = STEP_OK;
    int rc = sqlite3_step(statement);

    if (rc == SQLITE_ROW) {
        step = read_row(statement, out) ? STEP_OK : STEP_BAD_ROW;
    } else {
        memset(out, 0, sizeof *out);
        if (rc != SQLITE_DONE) {
            step = STEP_FAILED;
        }
    }
    (void)sqlite3_reset(statement);
    return step;
}

static enum step
find_by_uid(struct wp_lease_db *db, const uint8_t uid[WP_UID_LEN],
            struct row *out)
{
    sqlite3_stmt *statement = db->statements[WP_LEASE_SQL_FIND_UID];

    if (sqlite3_bind_blob(statement, 1, uid, WP_UID_LEN, SQLITE_STATIC) !=
        SQLITE_OK) {
        return STEP_FAILED;
    }
    return find(statement, out);
}

static int
bind_text(sqlite3_stmt *statement, int at, struct wp_str text)
{
    return sqlite3_bind_text(statement, at, text.len > 0 ? text.ptr : "",
                             (int)text.len, SQLITE_STATIC);
}

static enum step
find_by_claim(struct wp_lease_db *db, const struct wp_lease_op *op,
              struct row *out)
{
    sqlite3_stmt *statement = db->statements[WP_LEASE_SQL_FIND_CLAIM];

    if (bind_text(statement, 1, op->claim_id) != SQLITE_OK ||
        bind_text(statement, 2, op->tenant) != SQLITE_OK) {
        return STEP_FAILED;
    }
    return find(statement, out);
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
    char *texts[TEXTS];
    size_t caps[TEXTS];

    text_fields(record, texts, caps);
    for (int i = first; i < TEXTS; i++) {
        if (bind_text(to, at + i - first, wp_str_from(texts[i])) != SQLITE_OK) {
            return false;
        }
    }
    return true;
}

/* Writes after, which replaces before. */
static enum step
write_row(struct wp_lease_db *db, const struct row *before,
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
        kind = WP_LEASE_SQL_RENEW; /* Leaves the index of claims alone. */
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
                    bind_texts(statement, 8, after, TEXT_CLAIM_ID);
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
    return rc == SQLITE_DONE                ? STEP_OK
           : rc == SQLITE_CONSTRAINT_UNIQUE ? STEP_CONFLICT
                                            : STEP_FAILED;
}

/* Does what the rules say, given the record of the sandbox and that of the
 * claim, where there are any. */
static enum step
change(struct wp_lease_db *db, const struct wp_lease_op *op,
       const struct row *before, const struct row *claimed,
       enum wp_status *status, bool *wrote)
{
    struct wp_lease_record after = before->record;
    enum step step = STEP_OK;

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
        *wrote = *wrote || step == STEP_OK;
    }
    return step;
}

/* One op within the transaction. *wrote becomes true when it changed a row. A
 * sandbox that is offered is new, and a claim that is granted has no other
 * lease, as a rule: it is looked up only when the write, or the answer, says
 * otherwise. */
static enum step
apply_op(struct wp_lease_db *db, const struct wp_lease_op *op,
         enum wp_status *status, bool *wrote)
{
    bool by_claim = op->kind == WP_LEASE_FETCH && op->claim_id.len > 0;
    struct row before = {0};
    struct row claimed = {0};
    enum step step = STEP_OK;

    if (op->kind == WP_LEASE_PUT_SNAPSHOT ||
        op->kind == WP_LEASE_GET_SNAPSHOT) {
        return wp_lease_db_snapshot(db, op, status, wrote) ? STEP_OK
                                                           : STEP_FAILED;
    }
    if (op->kind != WP_LEASE_OFFER) {
        step = by_claim ? find_by_claim(db, op, &before)
                        : find_by_uid(db, op->uid, &before);
    }
    if (step == STEP_OK) {
        step = change(db, op, &before, &claimed, status, wrote);
    }
    if (step == STEP_CONFLICT ||
        (step == STEP_OK && op->kind == WP_LEASE_GRANT && *status != WP_OK)) {
        step = op->kind == WP_LEASE_OFFER ? find_by_uid(db, op->uid, &before)
                                          : find_by_claim(db, op, &claimed);
        if (step == STEP_OK) {
            step = change(db, op, &before, &claimed, status, wrote);
        }
    }
    return step;
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

    if (step_once(db->statements[WP_LEASE_SQL_BEGIN]) != SQLITE_OK) {
        return wp_lease_db_fail(db, err, WP_UNAVAILABLE, "cannot begin");
    }
    for (uint32_t i = 0; i < count; i++) {
        enum step step = apply_op(db, ops[i], &statuses[i], &wrote);

        if (step == STEP_BAD_ROW) {
            statuses[i] = wp_err_set(err, WP_UNAVAILABLE,
                                     "lease file '%s' holds a record that is "
                                     "not one; it was left as it is",
                                     db->path);
        } else if (step != STEP_OK) {
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
    struct row row;
    int rc;

    while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
        if (!read_row(statement, &row)) {
            status = wp_err_set(
                err, WP_FAILED_PRECONDITION,
                "lease file '%s': row %lld is not a lease record; it was left "
                "as it is",
                db->path,
                (long long)sqlite3_column_int64(statement, COLUMN_ID));
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
wp_lease_db_is_short(const struct wp_lease_db *db)
{
    struct statvfs disk;

    return db->wal_pages > 0 && statvfs(db->path, &disk) == 0 &&
           (uint64_t)disk.f_bavail * disk.f_frsize <
               db->wal_pages * (uint64_t)db->page_bytes;
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
