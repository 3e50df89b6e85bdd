/* tests/support/stores/sqlite_rig.h - a SQLite store with a file of its own, one for
 * each test program. What does not hold fails the test. */
#ifndef WP_TESTS_SUPPORT_STORES_SQLITE_RIG_H
#define WP_TESTS_SUPPORT_STORES_SQLITE_RIG_H

#include <stddef.h>
#include <sys/types.h>

#include "allocator/stores/sqlite/store.h"
#include "tests/support/stores/conform.h"

extern struct sqlite_rig {
    char dir[256]; /* Nothing is in it but the store's file and its log. */
    char path[300];
    char log_path[310];
    struct wp_lease_sqlite *store; /* NULL: closed. */
} sqlite_rig;

/* For cmocka: around all tests of a program, and before each: no files. */
int sqlite_rig_make(void **state);
int sqlite_rig_remove(void **state);
int sqlite_rig_set_up(void **state);

/* The store, and conform_store with it. */
void sqlite_rig_open(void);
void sqlite_rig_close(void);
/* Or NULL and why; sqlite_rig.store is left alone. */
struct wp_lease_sqlite *sqlite_rig_try_open(struct wp_err *err);
/* It is refused with this status and with these words, the path among them. */
void sqlite_rig_refused(enum wp_status status, const char *words);
/* And every byte of the file is as it was. */
void sqlite_rig_refused_leaves_it(enum wp_status status, const char *words);

/* A file as the system has it. */
size_t sqlite_rig_read(const char *name, unsigned char *out, size_t cap);
void sqlite_rig_write(const char *name, off_t at, const void *bytes,
                      size_t len);
/* Past the store, which is closed. */
void sqlite_rig_sql(const char *sql);

/* Ops of the open store on sandboxes by number. */
void sqlite_rig_offer(unsigned sandbox);
enum wp_status sqlite_rig_grant(unsigned sandbox, const char *claim);
enum wp_record_state sqlite_rig_state(unsigned sandbox);
/* Leaves a closed file with that many records; "claim" holds the first. */
void sqlite_rig_fill(unsigned n);

#endif
