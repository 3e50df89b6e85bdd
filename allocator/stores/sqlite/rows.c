#include "allocator/stores/sqlite/rows.h"

#include <string.h>

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

_Static_assert(WP_LEASE_ROW_ID == COLUMN_TEXTS + WP_LEASE_ROW_TEXTS,
               "the id comes last");

static const char *const statement_texts[WP_LEASE_SQL_COUNT] = {
    [WP_LEASE_SQL_BEGIN] = "BEGIN IMMEDIATE",
    [WP_LEASE_SQL_COMMIT] = "COMMIT",
    [WP_LEASE_SQL_ROW] = "SELECT " COLUMNS ", id FROM lease WHERE id = ?1",
    [WP_LEASE_SQL_PLACES] =
        "SELECT id, uid, state, claim_id, tenant FROM lease",
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

void
wp_lease_row_texts(struct wp_lease_record *record,
                   char *texts[WP_LEASE_ROW_TEXTS],
                   size_t caps[WP_LEASE_ROW_TEXTS])
{
#define TEXT(i, field)                                                         \
    (texts[i] = record->field, caps[i] = sizeof record->field)
    TEXT(0, pool_namespace);
    TEXT(1, pool);
    TEXT(2, sandbox);
    TEXT(3, endpoint);
    TEXT(WP_LEASE_ROW_CLAIM_ID, claim_id);
    TEXT(5, tenant);
    TEXT(6, lost_reason);
#undef TEXT
}

bool
wp_lease_row_read(sqlite3_stmt *row, struct wp_lease_row *out)
{
    struct wp_lease_record *record = &out->record;
    const void *uid = sqlite3_column_blob(row, COLUMN_UID);
    int64_t state = sqlite3_column_int64(row, COLUMN_STATE);
    int64_t served = sqlite3_column_int64(row, COLUMN_SERVED);
    char *texts[WP_LEASE_ROW_TEXTS];
    size_t caps[WP_LEASE_ROW_TEXTS];

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
    wp_lease_row_texts(record, texts, caps);
    for (int i = 0; i < WP_LEASE_ROW_TEXTS; i++) {
        const unsigned char *text = sqlite3_column_text(row, COLUMN_TEXTS + i);
        int len = sqlite3_column_bytes(row, COLUMN_TEXTS + i);

        if (text == NULL ||
            !wp_str_copy((struct wp_str){(const char *)text, (size_t)len},
                         texts[i], caps[i])) {
            return false;
        }
    }
    out->id = sqlite3_column_int64(row, WP_LEASE_ROW_ID);
    return !wp_record_is_claimed(record->state) || record->claim_id[0] != '\0';
}

/* Reads the row with that id; state NONE when there is none. */
static enum wp_lease_step
read_id(struct wp_lease_db *db, int64_t id, struct wp_lease_row *out)
{
    sqlite3_stmt *statement = db->statements[WP_LEASE_SQL_ROW];
    enum wp_lease_step step = WP_LEASE_STEP_OK;
    int rc = sqlite3_bind_int64(statement, 1, id);

    if (rc == SQLITE_OK) {
        rc = sqlite3_step(statement);
    }
    if (rc == SQLITE_ROW) {
        step = wp_lease_row_read(statement, out) ? WP_LEASE_STEP_OK
                                                 : WP_LEASE_STEP_BAD_ROW;
    } else {
        memset(out, 0, sizeof *out);
        if (rc != SQLITE_DONE) {
            step = WP_LEASE_STEP_FAILED;
        }
    }
    (void)sqlite3_reset(statement);
    return step;
}

enum wp_lease_step
wp_lease_row_find_uid(struct wp_lease_db *db, const uint8_t uid[WP_UID_LEN],
                      struct wp_lease_row *out)
{
    enum wp_lease_step step = WP_LEASE_STEP_OK;
    uint64_t at = 0;
    int64_t id;

    while (step == WP_LEASE_STEP_OK &&
           (id = wp_lease_places_of_sandbox(&db->places, uid, &at)) != 0) {
        step = read_id(db, id, out);
        if (step == WP_LEASE_STEP_OK &&
            memcmp(out->record.uid, uid, WP_UID_LEN) == 0) {
            return WP_LEASE_STEP_OK;
        }
    }
    memset(out, 0, sizeof *out);
    return step;
}

enum wp_lease_step
wp_lease_row_find_claim(struct wp_lease_db *db, struct wp_str claim_id,
                        struct wp_str tenant, struct wp_lease_row *out)
{
    enum wp_lease_step step = WP_LEASE_STEP_OK;
    uint64_t at = 0;
    int64_t id;

    while (step == WP_LEASE_STEP_OK &&
           (id = wp_lease_places_of_claim(&db->places, claim_id, tenant,
                                          &at)) != 0) {
        step = read_id(db, id, out);
        if (step == WP_LEASE_STEP_OK &&
            wp_str_is(claim_id, out->record.claim_id) &&
            wp_str_is(tenant, out->record.tenant)) {
            return WP_LEASE_STEP_OK;
        }
    }
    memset(out, 0, sizeof *out);
    return step;
}

/* --- Opening --- */

static struct wp_str
text_of(sqlite3_stmt *row, int column)
{
    const unsigned char *text = sqlite3_column_text(row, column);

    return (struct wp_str){text != NULL ? (const char *)text : "",
                           (size_t)sqlite3_column_bytes(row, column)};
}

/* The row that WP_LEASE_SQL_PLACES is at. One that is no record is found by
 * nobody, or by its uid, and is told of then. False: there is another one of
 * its sandbox or its claim. */
static bool
take_place(struct wp_lease_db *db, sqlite3_stmt *at)
{
    static const struct wp_lease_record none = {.state = WP_RECORD_NONE};
    struct wp_lease_record record = {.state = WP_RECORD_OPEN};
    int64_t state = sqlite3_column_int64(at, 2);
    const void *uid = sqlite3_column_blob(at, 1);
    struct wp_str claim_id = text_of(at, 3);
    struct wp_str tenant = text_of(at, 4);
    struct wp_lease_row other;

    if (uid == NULL || sqlite3_column_bytes(at, 1) != WP_UID_LEN) {
        return true;
    }
    memcpy(record.uid, uid, WP_UID_LEN);
    if ((state == WP_RECORD_HELD || state == WP_RECORD_LOST) &&
        wp_str_copy(claim_id, record.claim_id, sizeof record.claim_id) &&
        wp_str_copy(tenant, record.tenant, sizeof record.tenant)) {
        record.state = WP_RECORD_HELD;
    }
    if (wp_lease_row_find_uid(db, record.uid, &other) != WP_LEASE_STEP_OK ||
        other.record.state != WP_RECORD_NONE) {
        return false;
    }
    if (record.state == WP_RECORD_HELD &&
        (wp_lease_row_find_claim(db, claim_id, tenant, &other) !=
             WP_LEASE_STEP_OK ||
         other.record.state != WP_RECORD_NONE)) {
        return false;
    }
    wp_lease_places_move(&db->places, sqlite3_column_int64(at, 0), &none,
                         &record);
    return true;
}

static enum wp_status
find_places(struct wp_lease_db *db, struct wp_err *err)
{
    sqlite3_stmt *statement = db->statements[WP_LEASE_SQL_PLACES];
    enum wp_status status = WP_OK;
    int rc;

    while (status == WP_OK && (rc = sqlite3_step(statement)) != SQLITE_DONE) {
        if (rc != SQLITE_ROW) {
            status =
                wp_lease_db_fail(db, err, WP_UNAVAILABLE, "cannot be read");
        } else if (!wp_lease_places_begin(&db->places, 1)) {
            status = wp_err_set(err, WP_UNAVAILABLE,
                                "no memory for lease file '%s'", db->path);
        } else if (!take_place(db, statement)) {
            status = wp_err_set(
                err, WP_FAILED_PRECONDITION,
                "lease file '%s': row %lld is a second record of a sandbox or "
                "a claim; it was left as it is",
                db->path, (long long)sqlite3_column_int64(statement, 0));
        }
    }
    (void)sqlite3_reset(statement);
    wp_lease_places_keep(&db->places);
    return status;
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
    return find_places(db, err);
}
