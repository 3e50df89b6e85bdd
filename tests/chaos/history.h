/* tests/chaos/history.h - what the clients of a chaos run did and saw.
 *
 * A file for each client process: events of fixed size, one after the other, in
 * the order in which they happened there. Each is written by one system call, so
 * a client that is killed leaves all but the last. Times are of the monotonic
 * clock, which all processes of a machine share. */
#ifndef WP_TESTS_CHAOS_HISTORY_H
#define WP_TESTS_CHAOS_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/backend.h"

enum wp_chaos_what {
    WP_CHAOS_CLAIM = 1,
    WP_CHAOS_RENEW,
    WP_CHAOS_RELEASE,
    WP_CHAOS_GET,
    WP_CHAOS_DONE, /* No call of this claim follows; no edge. */
    /* Of the end of the run, by who ran the daemons; no edge, claim 0. */
    WP_CHAOS_ENDED, /* A daemon has gone. */
    WP_CHAOS_LEFT,  /* A sandbox that is there when all have. */
};

enum wp_chaos_edge {
    WP_CHAOS_START = 1,
    WP_CHAOS_END = 2, /* Answered, timed out, or its connection was lost. */
};

enum wp_chaos_flag {
    WP_CHAOS_REPLAYED = 1, /* CLAIM: as the answer says. */
    WP_CHAOS_WAS_HELD = 2, /* RELEASE: as the answer says. */
    /* CLAIM, RENEW: the lease was live and its sandbox was looked for, but it
     * was not there, or was another pool's. */
    WP_CHAOS_ABSENT = 4,
    /* CLAIM: another claim's mark lay on the sandbox. */
    WP_CHAOS_MARKED = 8,
    /* ENDED: it said that nothing is left behind. */
    WP_CHAOS_SAID_NOTHING = 16,
    /* ENDED: it said what is left, or that others go on with it. */
    WP_CHAOS_SAID_WHAT = 32,
};

enum {
    WP_CHAOS_NO_ANSWER = 255 /* In status: nobody knows what happened. */
};

struct wp_chaos_event {
    int64_t at_ns;
    int64_t started_ns; /* END: at_ns of its START. */
    /* CLAIM, RENEW, GET answered OK: of the lease. START of a CLAIM: how long the
     * lease is to be; 0: not known. */
    int64_t deadline_ns;
    uint64_t claim; /* The same id has the same number; over all clients. */
    uint64_t fence; /* CLAIM, RENEW, GET answered OK. */
    uint8_t uid[WP_UID_LEN]; /* The same: the sandbox's. */
    uint8_t what;
    uint8_t edge;
    uint8_t status; /* END: of gRPC, or WP_CHAOS_NO_ANSWER. */
    uint8_t flags;
    uint8_t replica;
    uint8_t unused[3];
};

_Static_assert(sizeof(struct wp_chaos_event) == 64, "fixed in the files");

/* Appends; false when the file cannot take it. */
bool wp_chaos_write(int fd, const struct wp_chaos_event *event);

#endif
