#include "allocator/stores/sqlite/impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/stores/sqlite/log_vfs.h"
#include "pool/base/assert.h"

enum {
    APPLICATION_ID = 0x57504c53, /* "WPLS" */
    CACHE_KIB = 16384,
};

/* Step i makes layout i + 1 of layout i; a new file takes all of them. What has
 * been released is never changed, only added to. */
static const char *const layout_steps[] = {
    "CREATE TABLE lease ("
    " id INTEGER PRIMARY KEY,"
    " uid BLOB NOT NULL UNIQUE,"
    " state INTEGER NOT NULL,"
    " fence INTEGER NOT NULL,"
    " deadline_wall_ms INTEGER NOT NULL,"
    " granted_wall_ms INTEGER NOT NULL,"
    " fingerprint INTEGER NOT NULL,"
    " served INTEGER NOT NULL,"
    " pool_namespace TEXT NOT NULL,"
    " pool TEXT NOT NULL,"
    " sandbox TEXT NOT NULL,"
    " endpoint TEXT NOT NULL,"
    " claim_id TEXT NOT NULL,"
    " tenant TEXT NOT NULL,"
    " lost_reason TEXT NOT NULL"
    ") STRICT",
    /* The way from a claim to its record; also makes two impossible. */
    "CREATE UNIQUE INDEX lease_claim ON lease (claim_id, tenant)"
    " WHERE state IN (2, 3)",
    /* A pool's snapshot, as it gave it. */
    "CREATE TABLE note ("
    " pool_namespace TEXT NOT NULL,"
    " pool TEXT NOT NULL,"
    " written_wall_ms INTEGER NOT NULL,"
    " bytes BLOB NOT NULL,"
    " PRIMARY KEY (pool_namespace, pool)"
    ") STRICT",
    /* Without indexes: the way to a record is in memory (places.h). */
    "CREATE TABLE record ("
    " id INTEGER PRIMARY KEY,"
    " uid BLOB NOT NULL,"
    " state INTEGER NOT NULL,"
    " fence INTEGER NOT NULL,"
    " deadline_wall_ms INTEGER NOT NULL,"
    " granted_wall_ms INTEGER NOT NULL,"
    " fingerprint INTEGER NOT NULL,"
    " served INTEGER NOT NULL,"
    " pool_namespace TEXT NOT NULL,"
    " pool TEXT NOT NULL,"
    " sandbox TEXT NOT NULL,"
    " endpoint TEXT NOT NULL,"
    " claim_id TEXT NOT NULL,"
    " tenant TEXT NOT NULL,"
    " lost_reason TEXT NOT NULL"
    ") STRICT;"
    "INSERT INTO record SELECT * FROM lease;"
    "DROP TABLE lease;"
    "ALTER TABLE record RENAME TO lease",
};
static const int64_t layout_latest = WP_ARRAY_LEN(layout_steps);

int64_t
wp_lease_db_layout(void)
{
    return layout_latest;
}

/* The same while opening: what people can do about it depends on the code. */
static enum wp_status
refuse(struct wp_lease_db *db, struct wp_err *err, const char *what)
{
    switch (sqlite3_errcode(db->sqlite) & WP_LEASE_SQL_PRIMARY_CODE) {
    case SQLITE_BUSY:
        return wp_err_set(err, WP_UNAVAILABLE,
                          "lease file '%s' is in use by another process",
                          db->path);
    case SQLITE_NOTADB:
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "lease file '%s' is not a lease file, or its header "
                          "is damaged; it was left as it is",
                          db->path);
    case SQLITE_CORRUPT:
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "lease file '%s' is damaged (%s) and was left as it "
                          "is; restore a copy, or move it and its -wal away "
                          "to start without leases",
                          db->path, sqlite3_errmsg(db->sqlite));
    case SQLITE_READONLY:
        return wp_err_set(err, WP_UNAVAILABLE,
                          "lease file '%s', or its directory, cannot be "
                          "written",
                          db->path);
    default:
        return wp_lease_db_fail(db, err, WP_UNAVAILABLE, what);
    }
}

static enum wp_status
run(struct wp_lease_db *db, const char *sql, struct wp_err *err)
{
    return sqlite3_exec(db->sqlite, sql, NULL, NULL, NULL) == SQLITE_OK
               ? WP_OK
               : refuse(db, err, sql);
}

/* The first column of the first row of sql, as a number and as text. */
static enum wp_status
ask(struct wp_lease_db *db, const char *sql, int64_t *number, char *text,
    size_t cap, struct wp_err *err)
{
    enum wp_status status = WP_OK;
    sqlite3_stmt *statement = NULL;

    if (sqlite3_prepare_v2(db->sqlite, sql, -1, &statement, NULL) !=
            SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW) {
        status = refuse(db, err, sql);
    } else if (text != NULL) {
        const unsigned char *value = sqlite3_column_text(statement, 0);

        (void)snprintf(text, cap, "%s",
                       value != NULL ? (const char *)value : "");
    } else {
        *number = sqlite3_column_int64(statement, 0);
    }
    (void)sqlite3_finalize(statement);
    return status;
}

static int
on_wal(void *ctx, sqlite3 *sqlite, const char *name, int pages)
{
    struct wp_lease_db *db = ctx;

    (void)sqlite;
    (void)name;
    db->wal_pages = (uint32_t)pages;
    return SQLITE_OK;
}

/* Until the file is accepted, nothing writes to it, not even the end of this
 * connection; and nothing that stands in it is carried out. */
static bool
accept_nothing(struct wp_lease_db *db,
               const struct wp_lease_sqlite_config *config)
{
    return sqlite3_busy_timeout(db->sqlite, (int)config->busy_timeout_ms) ==
               SQLITE_OK &&
           sqlite3_db_config(db->sqlite, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1,
                             NULL) == SQLITE_OK &&
           sqlite3_db_config(db->sqlite, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL) ==
               SQLITE_OK &&
           sqlite3_db_config(db->sqlite, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0,
                             NULL) == SQLITE_OK;
}

static struct wp_lease_db *
connect_file(const char *path, const struct wp_lease_sqlite_config *config,
             struct wp_err *err)
{
    struct wp_lease_db *db = calloc(1, sizeof *db);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
                SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE;
    bool ok;

    if (db == NULL || !wp_lease_places_init(&db->places, config->records,
                                            config->batch_max)) {
        wp_lease_db_close(db);
        (void)wp_err_set(err, WP_UNAVAILABLE, "no memory for lease file '%s'",
                         path);
        return NULL;
    }
    /* A name like "file:x" or ":memory:" means something else to SQLite. */
    (void)snprintf(db->path, sizeof db->path, "%s%s",
                   path[0] == '/' ? "" : "./", path);
    if (sqlite3_open_v2(db->path, &db->sqlite, flags, wp_lease_log_vfs()) !=
        SQLITE_OK) {
        (void)refuse(db, err, "cannot be opened");
        wp_lease_db_close(db);
        return NULL;
    }
    ok = accept_nothing(db, config);
    if (!ok) {
        (void)refuse(db, err, "cannot be set up");
    }
    /* Before the first read: so the lock of that is kept until the end, and the
     * log needs no shared memory. */
    ok = ok && run(db, "PRAGMA locking_mode = EXCLUSIVE", err) == WP_OK;
    if (ok && sqlite3_db_readonly(db->sqlite, "main") != 0) {
        (void)wp_err_set(err, WP_UNAVAILABLE,
                         "lease file '%s' cannot be written", path);
        ok = false;
    }
    if (!ok) {
        wp_lease_db_close(db);
        return NULL;
    }
    return db;
}

/* Whose file it is and which layout it has; reads only. */
static enum wp_status
check_identity(struct wp_lease_db *db, int64_t *layout, struct wp_err *err)
{
    int64_t id = 0;

    if (ask(db, "PRAGMA application_id", &id, NULL, 0, err) != WP_OK ||
        ask(db, "PRAGMA user_version", layout, NULL, 0, err) != WP_OK) {
        return err->status;
    }
    if (id != APPLICATION_ID) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "file '%s' is not a lease file (application id %lld "
                          "instead of %d); it was left as it is",
                          db->path, (long long)id, APPLICATION_ID);
    }
    if (*layout < 1 || *layout > layout_latest) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "lease file '%s' has layout version %lld, this "
                          "program knows 1 to %lld; it was left as it is",
                          db->path, (long long)*layout,
                          (long long)layout_latest);
    }
    return WP_OK;
}

static enum wp_status
check_pages(struct wp_lease_db *db, struct wp_err *err)
{
    char verdict[120];
    const char *finding;

    if (ask(db, "PRAGMA integrity_check(1)", NULL, verdict, sizeof verdict,
            err) != WP_OK) {
        return err->status;
    }
    if (strcmp(verdict, "ok") != 0) {
        /* Some findings come under a heading of their own. */
        finding = strrchr(verdict, '\n');
        finding = finding != NULL ? finding + 1 : verdict;
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "lease file '%s' is damaged (%s) and was left as it "
                          "is; restore a copy, or move it and its -wal away "
                          "to start without leases",
                          db->path, finding);
    }
    return WP_OK;
}

/* All the steps from layout to the latest, or none. */
static enum wp_status
bring_up(struct wp_lease_db *db, int64_t layout, struct wp_err *err)
{
    char version[64];

    if (layout == layout_latest) {
        return WP_OK;
    }
    (void)snprintf(version, sizeof version, "PRAGMA user_version = %lld",
                   (long long)layout_latest);
    if (run(db, "BEGIN IMMEDIATE", err) != WP_OK) {
        return err->status;
    }
    for (int64_t i = layout; i < layout_latest; i++) {
        if (run(db, layout_steps[i], err) != WP_OK) {
            goto back;
        }
    }
    if (run(db, version, err) == WP_OK && run(db, "COMMIT", err) == WP_OK) {
        return WP_OK;
    }
back:
    (void)sqlite3_exec(db->sqlite, "ROLLBACK", NULL, NULL, NULL);
    return wp_err_wrap(err, "from layout version %lld to %lld",
                       (long long)layout, (long long)layout_latest);
}

/* A new file is made whole beside its place and then put there, so that no
 * crash leaves half of one, and an empty file is never taken for a new one. */
static enum wp_status
make_file(const struct wp_lease_sqlite_config *config, struct wp_err *err)
{
    char prepared[WP_LEASE_FILE_PATH_MAX + 32];
    struct wp_lease_db *db;
    char identity[64];
    enum wp_status status;

    status =
        wp_lease_file_prepare(config->path, prepared, sizeof prepared, err);
    if (status != WP_OK) {
        return status;
    }
    db = connect_file(prepared, config, err);
    if (db == NULL) {
        status = err->status;
    } else {
        (void)snprintf(identity, sizeof identity, "PRAGMA application_id = %d",
                       APPLICATION_ID);
        status = run(db, identity, err);
        if (status == WP_OK) {
            status = bring_up(db, 0, err);
        }
    }
    wp_lease_db_close(db);
    if (status != WP_OK) {
        wp_lease_file_drop(prepared);
        return status;
    }
    return wp_lease_file_place(prepared, config->path, err);
}

static enum wp_status
set_up(struct wp_lease_db *db, const struct wp_lease_sqlite_config *config,
       struct wp_err *err)
{
    char mode[16];
    char cache[48];
    char limit[64];

    if (ask(db, "PRAGMA journal_mode = WAL", NULL, mode, sizeof mode, err) !=
        WP_OK) {
        return err->status;
    }
    if (strcmp(mode, "wal") != 0) {
        return wp_err_set(err, WP_UNAVAILABLE,
                          "lease file '%s' cannot have a write-ahead log (its "
                          "mode stays '%s')",
                          db->path, mode);
    }
    (void)snprintf(cache, sizeof cache, "PRAGMA cache_size = -%d", CACHE_KIB);
    if (ask(db, "PRAGMA page_size", &db->page_bytes, NULL, 0, err) != WP_OK) {
        return err->status;
    }
    /* What a log has grown beyond that, while it could not be copied, it gives
     * back. */
    (void)snprintf(limit, sizeof limit, "PRAGMA journal_size_limit = %lld",
                   (long long)config->checkpoint_pages * db->page_bytes);
    db->level = config->synchronous;
    if (!wp_lease_db_set_level(db, db->level)) {
        return refuse(db, err, "PRAGMA synchronous");
    }
    if (run(db, cache, err) != WP_OK || run(db, limit, err) != WP_OK ||
        run(db, "PRAGMA temp_store = MEMORY", err) != WP_OK ||
        /* What ends is no secret: wiping it would cost a write more. */
        run(db, "PRAGMA secure_delete = OFF", err) != WP_OK) {
        return err->status;
    }
    /* In place of SQLite's own checkpoints, which come inside a commit. */
    (void)sqlite3_wal_hook(db->sqlite, on_wal, db);
    return WP_OK;
}

struct wp_lease_db *
wp_lease_db_open(const struct wp_lease_sqlite_config *config,
                 struct wp_err *err)
{
    struct wp_lease_db *db;
    int64_t layout = 0;
    bool missing;

    if (wp_lease_file_check(config->path, &missing, err) != WP_OK ||
        (missing && make_file(config, err) != WP_OK)) {
        return NULL;
    }
    db = connect_file(config->path, config, err);
    if (db == NULL) {
        return NULL;
    }
    if (check_identity(db, &layout, err) != WP_OK ||
        check_pages(db, err) != WP_OK || set_up(db, config, err) != WP_OK ||
        bring_up(db, layout, err) != WP_OK ||
        wp_lease_db_prepare(db, err) != WP_OK) {
        wp_lease_db_close(db);
        return NULL;
    }
    wp_lease_db_begin_log(db);
    (void)sqlite3_db_config(db->sqlite, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0,
                            NULL);
    return db;
}
