/* allocator/stores/sqlite/rows.h - records as rows of the lease file: the
 * statements, reading a row, finding it. For files that speak SQLite. */
#ifndef WP_ALLOCATOR_STORES_SQLITE_ROWS_H
#define WP_ALLOCATOR_STORES_SQLITE_ROWS_H

#include "allocator/stores/sqlite/impl.h"

/* A record and its place. */
struct wp_lease_row {
    int64_t id;
    struct wp_lease_record record;
};

/* What became of one statement or op within a transaction. */
enum wp_lease_step {
    WP_LEASE_STEP_OK,
    WP_LEASE_STEP_BAD_ROW, /* A record that is not one: this op fails. */
    WP_LEASE_STEP_FAILED,  /* SQLite failed: the transaction does. */
};

enum {
    WP_LEASE_ROW_TEXTS = 7,
    WP_LEASE_ROW_CLAIM_ID = 4, /* The first text that a claim changes. */
    WP_LEASE_ROW_ID = 14,      /* The column behind those of the record. */
};

/* The record's texts in the order of their columns. */
void wp_lease_row_texts(struct wp_lease_record *record,
                        char *texts[WP_LEASE_ROW_TEXTS],
                        size_t caps[WP_LEASE_ROW_TEXTS]);
/* Of a statement that selects records. False: it is none. The file may have
 * been edited, so nothing in it is taken on trust. */
WP_MUST_CHECK bool wp_lease_row_read(sqlite3_stmt *statement,
                                     struct wp_lease_row *out);
/* The state is NONE when there is none. */
WP_MUST_CHECK enum wp_lease_step
wp_lease_row_find_uid(struct wp_lease_db *db, const uint8_t uid[WP_UID_LEN],
                      struct wp_lease_row *out);
/* Of a claim that holds a sandbox, or has lost it. The same. */
WP_MUST_CHECK enum wp_lease_step
wp_lease_row_find_claim(struct wp_lease_db *db, struct wp_str claim_id,
                        struct wp_str tenant, struct wp_lease_row *out);

#endif
