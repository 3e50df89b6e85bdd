/* proto/checkout/fetch_report.h - what the daemon and warmpool-fetch say to
 * each other by descriptors: its report is one message on a SOCK_SEQPACKET
 * socket, a letter and a text. */
#ifndef WP_PROTO_CHECKOUT_FETCH_REPORT_H
#define WP_PROTO_CHECKOUT_FETCH_REPORT_H

enum {
    WP_FETCH_REPORT_FD = 3,
    WP_FETCH_REPORT_MAX = 256, /* Bytes of it. */

    /* Of a checkout: a pipe with the user, NUL and the password for the remote;
     * with nothing in it, there are none. */
    WP_FETCH_CREDENTIAL_FD = 4,
    WP_FETCH_CREDENTIAL_MAX = 2048,

    /* A tree image (proto/checkout/tree_image.h) comes along, to be read; text
     * is the commit that it has. */
    WP_FETCH_KEPT = 'K',   /* It was in the cache. */
    WP_FETCH_MADE = 'M',   /* The cache has grown by it. */
    WP_FETCH_FAILED = 'F', /* Text says why. */
    WP_FETCH_SWEPT = 'S',  /* The cache is within its bounds. */
};

/* Where the repository's part of the cache is, for warmpool-fetch. */
#define WP_FETCH_CACHE_DIR "/cache"
/* The program that it runs. */
#define WP_FETCH_GIT "/usr/bin/git"

#endif
