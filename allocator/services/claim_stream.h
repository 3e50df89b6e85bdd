/* allocator/services/claim_stream.h - ClaimStream: leases granted ahead of
 * need; what its files share. Private to allocator/services.
 *
 *         open                 its client ends its side, or the grace is over
 *   FREE ------> OPEN ---------------------------------------> CLOSING --> FREE
 *                 | ^                                             ^
 *    the call     | | resumed, by the same id                     |
 *    breaks       v |                                             |
 *               PARKED -------------------------------------------'
 *
 * A lease of a stream is on its way (in a cell: asked for, then granted), or
 * shown (sent to the client), or taken, and then no concern of the stream any
 * more. One that is only granted goes back to the pool when the stream breaks;
 * one that is shown is released, and its sandbox destroyed, for the client may
 * have used its token. Numbers are never used twice, and an answer that repeats
 * an older claim is never shown: so no lease is shown under two numbers.
 *
 * A stream's lock guards all of it but the claim of a cell that is ASKED or
 * LEAVING, which belongs to whoever made it so. Under that lock the pools are
 * only asked what they know; claims, undos and ends come after it. */
#ifndef WP_ALLOCATOR_SERVICES_CLAIM_STREAM_H
#define WP_ALLOCATOR_SERVICES_CLAIM_STREAM_H

#include "allocator/services/services_private.h"

/* How long what was shown stays as it is when the call has broken. */
#define WP_STREAM_GRACE_NS (5 * WP_NS_PER_S)

enum {
    WP_STREAMS_MAX = 128,       /* Of a daemon; */
    WP_STREAMS_TENANT_MAX = 32, /* of them, one tenant's. */
    WP_STREAM_CELLS = 32,       /* Leases of one stream on their way. */
    WP_STREAM_TOLD_MAX = 2 * WP_AHEAD_MAX, /* Confirmations not yet sent. */
};

enum wp_stream_state {
    WP_STREAM_FREE,
    WP_STREAM_OPEN,
    WP_STREAM_PARKED,
    WP_STREAM_CLOSING,
};

enum wp_stream_cell_state {
    WP_CELL_FREE,
    WP_CELL_ASKED,   /* The pool has its claim. */
    WP_CELL_GRANTED, /* Waits to be sent. */
    WP_CELL_LEAVING, /* Its grant is being taken back. */
};

/* A lease on its way to the client. */
struct wp_stream_cell {
    struct wp_claim_stream *stream;
    enum wp_stream_cell_state state;
    uint64_t number;
    char claim_id[WP_CLAIM_ID_MAX + 1];
    struct wp_claim claim;
};

/* A lease that the client was told of, and has not said to have taken. */
struct wp_stream_shown {
    uint64_t number;
    struct wp_slot_ref ref;
    int64_t deadline_wall_ms; /* As the client's renewals have moved it. */
};

/* What the client is to be told of a number. */
struct wp_stream_told {
    uint64_t number;
    bool taken; /* Else it has ended. */
};

struct wp_claim_stream {
    pthread_mutex_t lock;
    struct wp_services *services;
    enum wp_stream_state state;
    struct wp_call *call; /* While OPEN. */

    char id[WP_STREAM_ID_MAX + 1];
    char tenant[WP_TENANT_MAX + 1];
    char pool_namespace[WP_NAMESPACE_MAX + 1];
    char pool[WP_POOL_NAME_MAX + 1];
    int64_t ttl_ns;
    uint32_t pool_index;
    uint32_t ahead;
    uint64_t next; /* The next lease's number. */

    bool blocked;     /* The last message is on its way. */
    bool greets;      /* The answer to the opening is owed. */
    bool starved;     /* The pool had nothing: its next change may help. */
    bool lacking_due; /* Why it lacks leases is owed. */
    struct wp_err lacking;

    int64_t retry_ns;  /* Not claimed again before; 0: now. */
    int64_t check_ns;  /* When shown leases are looked at. */
    uint32_t check_at; /* Which of them next. */
    int64_t grace_ns;  /* While PARKED: until then. */
    int64_t timed_ns;  /* When the control thread comes by itself. */

    uint32_t n_busy; /* Cells that are not FREE. */
    uint32_t n_shown;
    uint32_t n_told;
    struct wp_stream_shown shown[WP_AHEAD_MAX];
    struct wp_stream_told told[WP_STREAM_TOLD_MAX];
    struct wp_stream_cell cells[WP_STREAM_CELLS];
};

/* It may have more leases than it has, and is on the way to. Under the lock. */
static inline bool
wp_stream_lacks(const struct wp_claim_stream *stream)
{
    return stream->state == WP_STREAM_OPEN &&
           stream->n_busy < WP_STREAM_CELLS &&
           stream->n_shown + stream->n_busy < stream->ahead;
}

/* Sandboxes whose leases are to end once the lock is free. */
struct wp_stream_ends {
    uint32_t n;
    struct wp_slot_ref ref[WP_AHEAD_MAX];
};

static inline int64_t
wp_stream_now_ns(const struct wp_claim_stream *stream)
{
    return wp_clock_mono_ns(stream->services->config.clock);
}

/* --- claim_stream.c --- */

/* Under the lock: its index among those shown, or n_shown. */
uint32_t wp_stream_find_shown(const struct wp_claim_stream *stream,
                              uint64_t number);
void wp_stream_forget_shown(struct wp_claim_stream *stream, uint32_t i);
/* What is to be told of a number. False when there is no room: the client reads
 * nothing. */
WP_MUST_CHECK bool wp_stream_tell(struct wp_claim_stream *stream,
                                  uint64_t number, bool taken);
/* What the pools know of the number's claim; false: it is held no more. */
WP_MUST_CHECK bool wp_stream_look_up(const struct wp_claim_stream *stream,
                                     uint64_t number,
                                     struct wp_claim_info *info);
/* The call ends so, and what was shown waits for the client's return.
 * wp_stream_take_back is to follow. */
void wp_stream_park(struct wp_claim_stream *stream, enum wp_status status,
                    const char *message);

/* Without the lock. */
void wp_stream_end_all(struct wp_claim_stream *stream,
                       const struct wp_stream_ends *ends);
/* Releases what was shown. After a grace, what its holder has renewed meanwhile
 * is held: the client says so in this way where it cannot resume. The stream is
 * CLOSING, and FREE when it returns. */
void wp_stream_close(struct wp_claim_stream *stream, bool after_grace);
/* Has the control thread come when the stream next needs it. */
void wp_stream_keep_time(struct wp_claim_stream *stream);

/* --- claim_stream_grant.c --- */

/* The claim's id of a number. */
void wp_stream_claim_id(const struct wp_claim_stream *stream, uint64_t number,
                        char out[WP_CLAIM_ID_MAX + 1]);
/* Claims what is lacking, and sends what is owed. Any thread, without the
 * lock. */
void wp_stream_work(struct wp_claim_stream *stream);
/* Gives back to the pool what a stream that is not open any more was granted
 * and has not sent. The same. */
void wp_stream_take_back(struct wp_claim_stream *stream);

#endif
