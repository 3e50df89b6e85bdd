/* local/fetch/checkout.h - a tree image of a repository at a ref, by way of the
 * cache.
 *
 * The current folder is the repository's part of the cache:
 *
 *   COMMIT-KEY.image  what sandboxes get; KEY is of the ref. Never changed once
 *                     it is there; its time is that of its last use
 *   mirror.git        the commits so far, each without its history
 *   scratch           a checkout in the making
 *   lock              held by who makes one
 *   dirty             there while one is made: found there, mirror.git may be
 *                     half written, and is made anew
 *
 * The remote is asked each time what the ref names, unless that is a commit
 * that is there. One thread. */
#ifndef WP_LOCAL_FETCH_CHECKOUT_H
#define WP_LOCAL_FETCH_CHECKOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "local/fetch/listing.h"
#include "pool/base/compiler.h"

enum {
    WP_CHECKOUT_WHY_MAX = 200,
};

#define WP_CHECKOUT_MIRROR "mirror.git"
#define WP_CHECKOUT_SCRATCH "scratch"
#define WP_CHECKOUT_LOCK "lock"
#define WP_CHECKOUT_DIRTY "dirty"
#define WP_CHECKOUT_UNFINISHED "image.new"
#define WP_CHECKOUT_IMAGE ".image"

struct wp_checkout {
    const char *url;
    const char *ref;    /* "": what the remote's HEAD names. */
    uint64_t bytes_max; /* Of an image. */
    int config_fd;      /* Of git's when it asks the remote; 0: none. */
    /* Answer. */
    int fd; /* Of the image, to be read. */
    bool made;
    char commit[WP_COMMIT_LEN + 1];
    char why[WP_CHECKOUT_WHY_MAX];
};

/* False: why says what was not to be had. */
WP_MUST_CHECK bool wp_checkout(struct wp_checkout *checkout);

/* Removes what a checkout that was cut off has left; the lock is held. False:
 * it cannot be removed. */
WP_MUST_CHECK bool wp_checkout_clean(void);

#endif
