/* local/fetch/listing.h - what git lists: the refs of a remote, and the files
 * of a commit. The remote's words are in it. Pure. */
#ifndef WP_LOCAL_FETCH_LISTING_H
#define WP_LOCAL_FETCH_LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/str.h"

enum {
    WP_COMMIT_LEN = 40,
    WP_REF_NAME_MAX = 255,
};

/* Of "git ls-remote" the commit of exactly that ref. False: it has none, or not
 * in 40 digits. */
WP_MUST_CHECK bool wp_listing_commit(struct wp_str listing, const char *ref,
                                     char out[WP_COMMIT_LEN + 1]);
/* Of "git ls-remote --symref" what HEAD names. False: nothing, or it is too
 * long. */
WP_MUST_CHECK bool wp_listing_head(struct wp_str listing,
                                   char out[WP_REF_NAME_MAX + 1]);

/* Of "git ls-tree -r -t -l -z", as it comes. All 0 at first. */
struct wp_listing_sum {
    uint64_t files; /* And folders. */
    uint64_t bytes;
    uint64_t size;  /* Of the entry that is being read. */
    uint32_t field; /* The same: spaces before its size are fields' ends. */
    bool in_field;
    bool in_path;
};

/* False: what came is no such listing, or the sum is beyond 2^62. */
WP_MUST_CHECK bool wp_listing_add(struct wp_listing_sum *sum, const char *bytes,
                                  size_t len);

#endif
