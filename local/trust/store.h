/* local/trust/store.h - records of trust, a file each, in a folder that only
 * the daemon may enter.
 *
 * A record is there whole or not at all, and after a power loss as well: it is
 * synced, and its folder, before anybody is told. People read the files, and
 * remove one to trust anew. One thread at a time; it waits for the disk. */
#ifndef WP_LOCAL_TRUST_STORE_H
#define WP_LOCAL_TRUST_STORE_H

#include "pool/remotes/trust_record.h"

enum {
    WP_TRUST_RECORDS_MAX = 16384, /* Files; more are refused. */
};

struct wp_trust_store {
    int dir_fd; /* -1: none. */
};

/* Makes the folder if it is missing. UNAVAILABLE: err says why not. */
WP_MUST_CHECK enum wp_status wp_trust_store_open(struct wp_trust_store *store,
                                                 const char *path,
                                                 struct wp_err *err);
void wp_trust_store_close(struct wp_trust_store *store);

/* Reads the record of out's tenant and url into out. NOT_FOUND: there is none.
 * UNAVAILABLE: it cannot be read. FAILED_PRECONDITION: the file is no record.
 * err names the file. */
WP_MUST_CHECK enum wp_status
wp_trust_store_load(const struct wp_trust_store *store,
                    struct wp_trust_record *out, struct wp_err *err);
/* Writes it, in the place of one that is there. RESOURCE_EXHAUSTED: there are
 * as many as there may be; UNAVAILABLE: the disk did not take it, and a record
 * that was not there is not there now. */
WP_MUST_CHECK enum wp_status
wp_trust_store_save(struct wp_trust_store *store,
                    const struct wp_trust_record *record, struct wp_err *err);

#endif
