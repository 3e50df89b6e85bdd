/* allocator/client/stock_impl.h - leases ahead: what stock*.c share; private to
 * them.
 *
 *         shown           take               confirmed, or ended
 *   FREE -----> STOCKED ------> TAKEN ------------------------> FREE
 *                 |  ^            (also: too old, then given back)
 *                 v  | renewed
 *              RENEWING
 *
 * A stocked lease's slot is in a queue of indexes; who takes the index owns the
 * lease. So the lease is copied out without a lock, and the slot's state, set
 * afterwards, hands it on. A confirmed lease was no more than told: it is the
 * taker's from the moment of taking.
 *
 * stock.c         what any thread may do; all else is the client's thread's
 * stock_stream.c  the stream: turns, what is said on it, its end
 * stock_heard.c   what the daemon says on it
 * stock_calls.c   renewals, and leases whose stream is gone
 * stock_slots.c   slots, and the queue of those to take from */
#ifndef WP_ALLOCATOR_CLIENT_STOCK_IMPL_H
#define WP_ALLOCATOR_CLIENT_STOCK_IMPL_H

#include <stdalign.h>

#include "allocator/client/internal.h"

/* The number of a lease whose stream is gone: it is settled by calls. */
#define WP_STOCK_NUMBER_NONE UINT64_MAX

enum {
    WP_STOCK_ARENA = 512 << 10,
    WP_STOCK_OUT = 16 << 10,
};

enum wp_stock_slot_state {
    WP_STOCK_SLOT_FREE,
    WP_STOCK_SLOT_STOCKED,
    WP_STOCK_SLOT_RENEWING,
    WP_STOCK_SLOT_TAKEN,
    WP_STOCK_SLOT_OLD, /* Taken out because too little of it is left. */
};

/* A place in the queue of slots: a bounded queue of many takers, in which each
 * place says whose turn it is. */
struct wp_stock_place {
    _Atomic(uint32_t) turn;
    uint32_t slot;
};

struct wp_stock_slot {
    uint64_t number;
    int64_t renew_ns;           /* Monotonic: renewed from then on. */
    _Atomic(int64_t) useful_ns; /* Until then it may be taken. */
    int64_t ask_ns; /* Without a stream: whether it is held, from then on. */
    bool told; /* That it was taken, on this stream; or it is being settled. */
    bool settled; /* It was taken, and its holder has renewed or released it. */
    struct warmpool_lease lease;
};

enum wp_stock_stream_state {
    WP_STOCK_STREAM_NONE,
    WP_STOCK_STREAM_OPENING, /* Not answered yet. */
    WP_STOCK_STREAM_OPEN,
    WP_STOCK_STREAM_ENDING, /* Ours to end: its last words are on their way. */
};

struct warmpool_stock {
    /* What takers touch. */
    alignas(64) _Atomic(uint32_t) head; /* The next place to take from. */
    alignas(64) struct wp_stock_place places[WP_STOCK_SLOTS];
    _Atomic(uint8_t) states[WP_STOCK_SLOTS]; /* enum wp_stock_slot_state */
    struct wp_stock_slot slots[WP_STOCK_SLOTS];
    _Atomic(bool) usable; /* The daemon can be told. */
    _Atomic(bool) dozes;  /* Who takes a slot out wakes the client's thread. */
    _Atomic(uint32_t) n_stocked;
    _Atomic(int) lacking; /* A code; its text is under the client's lock. */
    char lacking_text[sizeof(((struct warmpool_error *)0)->message)];

    /* Set when opened. */
    struct warmpool *client;
    struct wp_list node; /* Of client->stocks. */
    struct wp_pool_name pool;
    struct warmpool_stock_options options;

    /* Under the client's lock. */
    bool closing;
    bool left;
    struct warmpool_stock *next_closed; /* Of wp_stock_close_all. */

    /* The client's thread's. */
    uint32_t tail; /* The next place to put into. */
    enum wp_stock_stream_state state;
    bool resumes; /* The daemon may know the stream. */
    bool has_orphans;
    uint32_t n_streams;
    char id[WP_STREAM_ID_MAX + 1];
    int64_t reopen_ns;
    uint32_t failures;
    int64_t busy_until_ns;
    int64_t close_ns; /* 0: not closing. */
    uint32_t n_jobs;  /* Renewals and ends under way. */
    uint32_t n_in;
    struct wp_h2_call call;
    uint8_t out[WP_H2_FRAME_HEAD + WP_STOCK_OUT];
    uint8_t in[WP_STOCK_IN];
    char details[sizeof(((struct warmpool_error *)0)->message)];
    char arena[WP_STOCK_ARENA];
};

/* --- stock_slots.c --- */

/* Any thread. */
static inline enum wp_stock_slot_state
wp_stock_slot_state(const struct warmpool_stock *stock, uint32_t i)
{
    /* Acquire pairs with the release of who took the slot out. */
    return (enum wp_stock_slot_state)atomic_load_explicit(&stock->states[i],
                                                          memory_order_acquire);
}

/* Of the caller's own slot, which the state may hand on. Any thread. */
static inline void
wp_stock_set_slot_state(struct warmpool_stock *stock, uint32_t i,
                        enum wp_stock_slot_state state)
{
    atomic_store_explicit(&stock->states[i], (uint8_t)state,
                          memory_order_release);
}

/* Hands the slot, which is STOCKED, to those who take. There is room: as many
 * places as slots. The client's thread. */
void wp_stock_put(struct warmpool_stock *stock, uint32_t slot);
/* A slot out of the queue, the caller's until it sets its state; UINT32_MAX:
 * there is none. Any thread. */
WP_MUST_CHECK uint32_t wp_stock_get(struct warmpool_stock *stock);
/* The deadline as the other's clock has it, by ours. What is left of it is
 * trusted up to what was asked for. The client's thread, before the slot is
 * put. */
void wp_stock_set_deadline(struct warmpool_stock *stock,
                           struct wp_stock_slot *slot, int64_t unix_ms);
/* So much is left of the lease from at_ns on (monotonic). For a renewal that is
 * all it asked for, from when it was sent: no clock of the other's is needed.
 * The same. */
void wp_stock_set_left(struct warmpool_stock *stock, struct wp_stock_slot *slot,
                       int64_t at_ns, int64_t left_ns);
/* A lease that was taken is not held: tells options.lost, but where its holder
 * has released it, and frees the slot.
 * The client's thread. */
void wp_stock_lose(struct warmpool_stock *stock, uint32_t i);

/* --- stock_heard.c --- */

/* The stream's call.received. The bytes are of messages, each with five before
 * it. False, which ends the connection: they make no sense. */
bool wp_stock_received(struct wp_h2_call *call, const uint8_t *bytes,
                       size_t len);
/* Why there is nothing to take, for warmpool_stock_state; WARMPOOL_OK: it lacks
 * nothing. Takes the client's lock. */
void wp_stock_note_lacking(struct warmpool_stock *stock, int code,
                           const char *text);
/* The same, under that lock. */
void wp_stock_set_lacking(struct warmpool_stock *stock, int code,
                          const char *text);

/* --- stock_calls.c --- */

/* Renews what is half over; returns when more will be, or WP_TIME_NEVER. While
 * the stream is open. */
int64_t wp_stock_renew_due(struct warmpool_stock *stock, int64_t now_ns);
/* The daemon does not know the stream any more, or not for long: nothing of it
 * may be taken, and all of it is to be settled. */
void wp_stock_orphan_all(struct warmpool_stock *stock);
/* Those whose stream is gone: asks whether what was taken is held, and releases
 * the rest. Each turn, until all are; returns when to be called again at the
 * latest. */
int64_t wp_stock_settle_orphans(struct warmpool_stock *stock, int64_t now_ns);

#endif
