/* pool/history/history.h - what a pool's claims were: compact, bounded.
 *
 * Recorded by the daemon, read by advise and the simulator. A ring of chunks of
 * varints (pool/history/history.c): for each quantum (WP_SCALE_QUANTUM_NS) with
 * events the distance to the one before it, how many claims came, how many of
 * them missed, and lead times of sandboxes that became ready. One or two bytes
 * for a claim alone, twice as much for a lead time, less for busy times.
 * When full the oldest chunk goes. One writer; who reads on another thread
 * clones first.
 *
 * Times are those of the monotonic clock, put beside the wall once: what is
 * recorded neither jumps nor stretches when the wall clock is set. */
#ifndef WP_POOL_HISTORY_HISTORY_H
#define WP_POOL_HISTORY_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/status.h"
#include "pool/base/str.h"

enum {
    WP_HISTORY_BYTES_MIN = 4096,
    WP_HISTORY_BYTES_MAX = 1 << 30,
};

struct wp_history; /* Opaque. */

enum wp_history_kind {
    WP_HISTORY_CLAIMS, /* n claims, missed of them. n = 0: nothing came until
                        * now, and that is known. */
    WP_HISTORY_READY,  /* A sandbox became ready after lead_ns. */
    WP_HISTORY_GAP,    /* Nothing is known from here to the next event: the
                        * daemon was not there. */

    /* A scaler's other inputs, and when it decided on them, so that the
     * record replays to its decisions (retrace.h). Each time of a claim is one
     * at which it decided, too. */
    WP_HISTORY_BEGIN,    /* It begins, with n replicas; clock_ns. */
    WP_HISTORY_POLICY,   /* It has the policy whose print ends in n. */
    WP_HISTORY_REPLICAS, /* They are n now. */
    WP_HISTORY_CLOCK,    /* The wall was followed to clock_ns. */
    WP_HISTORY_UNSEEN, /* Nobody looked for n quanta, and something was due. */
    WP_HISTORY_RESTORED,  /* It knows again what it knew at the last gap; n = 1:
                           * what another one has learned. */
    WP_HISTORY_RESERVED,  /* n for from_ns to until_ns, by the wall. */
    WP_HISTORY_CANCELLED, /* The n-th reservation, from 0, of those left. */
    WP_HISTORY_STEP,      /* It decided on the inputs since. */
    WP_HISTORY_AT_ONCE,   /* At most n are made at once; 0: no bound. */
    WP_HISTORY_KIND_COUNT,
};

struct wp_history_event {
    enum wp_history_kind kind;
    int64_t wall_ns; /* Rounded down to a quantum. Never goes back. */
    uint32_t n;
    uint32_t missed;
    /* Claims: not joined with those before, of the same quantum; true of all
     * that are read. */
    bool apart;
    int64_t lead_ns; /* As wp_history_lead_round leaves it. */
    int64_t clock_ns;
    int64_t from_ns;
    int64_t until_ns;
};

/* NULL when memory lacks. bytes_max: WP_HISTORY_BYTES_MIN to _MAX; no more is
 * ever held, and no more than was recorded. */
struct wp_history *wp_history_create(size_t bytes_max);
void wp_history_destroy(struct wp_history *history);
/* NULL when memory lacks. */
struct wp_history *wp_history_clone(const struct wp_history *history);
/* Claims of one quantum that follow each other become one event, if they are
 * not apart; the order of events stays. A wall clock that went back is not
 * followed: times go on by mono_ns; one that is over a minute ahead of that
 * leaves a gap. wall_ns and mono_ns are not negative, missed is at most n. */
void wp_history_add(struct wp_history *history, int64_t mono_ns,
                    const struct wp_history_event *event);
/* The claims that are still kept, and those that had to go for newer ones. */
uint64_t wp_history_claims(const struct wp_history *history);
uint64_t wp_history_dropped(const struct wp_history *history);
/* Memory held now. */
size_t wp_history_bytes(const struct wp_history *history);
/* Wall time of the first and last event; false when there is none. */
WP_MUST_CHECK bool wp_history_span(const struct wp_history *history,
                                   int64_t *from_wall_ns,
                                   int64_t *until_wall_ns);
/* A lead time as it is recorded: to 1/64 of an octave, half a per cent; at most
 * 12 hours. Whoever must see the same as a replay will rounds first. */
int64_t wp_history_lead_round(int64_t lead_ns);

/* Iteration; the history must not change meanwhile. */
struct wp_history_cursor {
    const struct wp_history *history;
    uint32_t chunk; /* From the oldest. */
    uint32_t at;
    int64_t quantum;
    uint32_t lead_bin;
    bool ended;
};
void wp_history_first(const struct wp_history *history,
                      struct wp_history_cursor *cursor);
WP_MUST_CHECK bool wp_history_next(struct wp_history_cursor *cursor,
                                   struct wp_history_event *out);

/* As bytes for the lease store (versioned; who keeps them sees damage): the
 * latest events that fit in cap. Returns the length; 0 when not even one fits.
 */
size_t wp_history_save(const struct wp_history *history, void *out, size_t cap);
/* Adds what was saved, as events before everything recorded here, with a gap
 * behind them. INVALID_ARGUMENT: no history or of another version;
 * RESOURCE_EXHAUSTED: no memory; nothing was added. */
enum wp_status wp_history_load(struct wp_history *history, const void *bytes,
                               size_t len, struct wp_err *err);
/* A CSV of claim times: one a line, seconds or RFC 3339, or "time,count"; a
 * header line and empty lines are allowed. Times must not go back and not be
 * negative: the first bad line is named. Equal times are several claims; a
 * count of 0 says that nothing came until then. The text is added as it comes:
 * call with each piece, and with an empty one at the end. */
struct wp_history_csv {
    struct wp_history *history;
    uint64_t line;
    char pending[256];
    size_t n_pending;
    int64_t last_ns;
    bool began; /* A time was read: no header any more. */
};
void wp_history_csv_init(struct wp_history_csv *csv,
                         struct wp_history *history);
/* After an error nothing more may be fed; what came before it was added. */
enum wp_status wp_history_csv_feed(struct wp_history_csv *csv,
                                   struct wp_str text, struct wp_err *err);

#endif
