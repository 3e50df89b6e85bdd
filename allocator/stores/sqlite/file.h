/* allocator/stores/sqlite/file.h - the lease file as the system sees it.
 *
 * Everything about it that needs no SQLite: may it be used, whose is it, and
 * how a new one takes its place. An existing file is never opened here: closing
 * a second descriptor would drop the locks that SQLite holds on it. */
#ifndef WP_ALLOCATOR_STORES_SQLITE_FILE_H
#define WP_ALLOCATOR_STORES_SQLITE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "pool/base/status.h"

enum {
    WP_LEASE_FILE_PATH_MAX = 1023,
};

/* Says in *missing whether the file has to be made. A file that is there must
 * be a regular one; others' permissions on it are taken away. Not WP_OK: err
 * says why the file cannot be used. */
enum wp_status wp_lease_file_check(const char *path, bool *missing,
                                   struct wp_err *err);
/* The name under which a new file is prepared, beside path, into out; nothing
 * is there afterwards but an empty file of mode 0600. */
enum wp_status wp_lease_file_prepare(const char *path, char *out, size_t cap,
                                     struct wp_err *err);
/* Removes what was prepared. */
void wp_lease_file_drop(const char *prepared);
/* Moves what was prepared to path, durably, unless something is there by now;
 * then it only goes. */
enum wp_status wp_lease_file_place(const char *prepared, const char *path,
                                   struct wp_err *err);

#endif
