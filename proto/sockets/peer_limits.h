/* proto/sockets/peer_limits.h - how many connections each peer may have, and
 * how many calls it may have in progress on all of them.
 *
 * A peer is an IPv4 address, the /64 of an IPv6 address, or the user of a Unix
 * socket. One peer holds at most peer_max connections. All together hold at
 * most all_max. Of these a share is kept for the privileged and another for
 * Unix sockets: what others hold never reaches into what is unused of a share.
 * Calls are bounded alike, with a share for the privileged only. A call may
 * outlive the connection it came on.
 *
 * A peer whose connection was cut for what it did is watched for 2 s: its new
 * connections get their turns 20 ms apart. So a peer that comes again as soon
 * as it is cut cannot have a handshake as often as it likes.
 *
 * Each operation takes constant time (wp_peer_limits_enter in the mean), and
 * the memory is fixed by all_max. One thread at a time enters, that of the
 * listener. Leaving waits for nobody and is allowed on any thread, and so is
 * beginning and ending a call. */
#ifndef WP_PROTO_SOCKETS_PEER_LIMITS_H
#define WP_PROTO_SOCKETS_PEER_LIMITS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "pool/base/clock.h"
#include "pool/base/status.h"

struct wp_peer_limits; /* Opaque. */

struct wp_peer_limits_config {
    uint32_t all_max; /* At least 1. */
    /* Of one peer; 0: no bound. The privileged are bounded by all_max only. */
    uint32_t peer_max;
    uint32_t privileged_kept; /* Of all_max. */
    uint32_t unix_kept;       /* Of all_max, for users without privilege. */
    /* Calls in progress; 0: none are counted. */
    uint32_t calls_max;
    uint32_t peer_calls_max; /* Of one peer; the privileged have no bound. */
    uint32_t privileged_calls_kept; /* Of calls_max. */
};

enum wp_peer_kind {
    WP_PEER_IPV4,
    WP_PEER_IPV6,
    WP_PEER_UNIX,
};

/* Two connections belong to one peer when kind and id are the same. */
struct wp_peer {
    enum wp_peer_kind kind;
    bool privileged; /* Root, the daemon's own user, an administrator. */
    uint64_t id;
};

/* The peer of a TCP connection. An IPv4 address inside an IPv6 one is IPv4, and
 * all of the loopback network 127/8 is one peer. Any other family is taken as
 * one peer, the address 0.0.0.0. Any thread. */
struct wp_peer wp_peer_from_address(const struct sockaddr *address);
/* The peer of a Unix connection. Any thread. */
struct wp_peer wp_peer_from_uid(uid_t uid, bool privileged);

enum wp_peer_verdict {
    WP_PEER_ADMITTED,
    WP_PEER_OVER_ITS_BOUND, /* peer_max. */
    WP_PEER_OVER_ALL,       /* all_max, less what is kept for others. */
};

/* What an admitted connection holds until it leaves. */
struct wp_peer_ticket {
    uint32_t entry; /* Its peer's, while any connection of that is counted. */
    uint32_t share;
};

/* NULL and err when there is no memory, or when what is kept leaves less than
 * one connection to others. */
struct wp_peer_limits *
wp_peer_limits_create(const struct wp_peer_limits_config *config,
                      struct wp_err *err);
/* All entries of tickets are below it. Any thread. */
uint32_t wp_peer_limits_entries(const struct wp_peer_limits *limits);
/* Nobody may be about to leave. NULL is fine. */
void wp_peer_limits_destroy(struct wp_peer_limits *limits);

/* Writes *ticket when it admits. One thread at a time. */
WP_MUST_CHECK enum wp_peer_verdict
wp_peer_limits_enter(struct wp_peer_limits *limits, struct wp_peer peer,
                     struct wp_peer_ticket *ticket);
/* How long the connection that has just entered must wait for its turn; 0: it
 * need not. WP_TIME_NEVER: more of its peer's connections wait than get their
 * turns in 2 s, refuse it. The privileged never wait. Times are of one
 * monotonic clock. Once for each ticket, on the thread that entered. */
int64_t wp_peer_limits_wait_ns(struct wp_peer_limits *limits,
                               struct wp_peer_ticket ticket, int64_t now_ns);
/* The ticket's connection, which has not left yet, was cut for what it did. Its
 * peer is watched for as long as any connection of it is counted, but no longer
 * than 2 s: let the cut one leave no sooner. Any thread. */
void wp_peer_limits_watch(struct wp_peer_limits *limits,
                          struct wp_peer_ticket ticket, int64_t now_ns);
/* Once for each ticket. Any thread. */
void wp_peer_limits_leave(struct wp_peer_limits *limits,
                          struct wp_peer_ticket ticket);

/* Counts a call that came on the ticket's connection, which has not left yet.
 * Any thread. While several begin at the bound, each may be refused though one
 * would have fitted. */
WP_MUST_CHECK enum wp_peer_verdict
wp_peer_limits_begin_call(struct wp_peer_limits *limits,
                          struct wp_peer_ticket ticket);
/* Once for each call that was admitted, with the same ticket; the connection
 * may have left. Any thread. */
void wp_peer_limits_end_call(struct wp_peer_limits *limits,
                             struct wp_peer_ticket ticket);

#endif
