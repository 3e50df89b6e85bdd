/* pool/history/parts.h - the inside of a history; for history*.c only.
 *
 * A chunk begins at a quantum and with a lead time's bin, to which its first
 * records refer, so that it can be read without the ones before it. A record is
 *
 *   varint (quanta since the record before << 2 | kind), and by kind
 *   ONE     nothing more: one claim, served at once
 *   CLAIMS  varint (n << 1 | any missed), then varint missed if any
 *   READY   varint zigzag (bin - bin of the READY before)
 *   GAP     nothing more
 *
 * None missed of "any missed" is no claim at all: CLAIMS varint 1, then varint
 * kind, and what the kind has: varint n, and times as varint zigzag
 * (nanoseconds since the quantum).
 */
#ifndef WP_POOL_HISTORY_PARTS_H
#define WP_POOL_HISTORY_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/assert.h"
#include "pool/history/history.h"
#include "pool/scale/scaler.h"

enum wp_history_record {
    WP_HISTORY_RECORD_ONE,
    WP_HISTORY_RECORD_CLAIMS,
    WP_HISTORY_RECORD_READY,
    WP_HISTORY_RECORD_GAP,
};

enum {
    WP_HISTORY_RECORD_BYTES_MAX = 40,
    /* 64 to an octave of microseconds, up to 12 hours. */
    WP_LEAD_BINS_PER_OCTAVE = 64,
    WP_LEAD_BIN_MAX = 2260,
};

/* The last quantum that a wall time in int64_t nanoseconds can name. */
#define WP_QUANTUM_MAX (INT64_MAX / WP_SCALE_QUANTUM_NS - 1)

struct wp_history_chunk {
    int64_t quantum; /* What the first record's distance counts from. */
    uint32_t lead_bin;
    uint32_t len;
    uint64_t claims;
    uint8_t bytes[];
};

struct wp_history {
    uint32_t chunk_bytes; /* Payload of each. */
    uint32_t n_chunks_max;
    uint32_t n_chunks;
    uint32_t oldest; /* Index of the ring's first. */

    /* Where the writer is. */
    int64_t last_quantum;
    int64_t encoded_quantum; /* Of the last record in a chunk. */
    uint32_t lead_bin;
    bool any;
    bool last_is_gap;
    /* Claims of the last quantum: not in a chunk yet, as more may come. */
    bool pending;
    uint32_t pending_n;
    uint32_t pending_missed;

    /* The wall at a moment of the monotonic clock, in quanta. */
    bool anchored;
    int64_t anchor_wall;
    int64_t anchor_mono;
    int64_t last_mono;

    uint64_t claims;
    uint64_t dropped;
    struct wp_history_chunk *ring[];
};

static inline const struct wp_history_chunk *
wp_history_chunk_at(const struct wp_history *history, uint32_t i)
{
    WP_ASSERT(history->n_chunks_max > 0);
    return history->ring[(history->oldest + i) % history->n_chunks_max];
}

/* Adds at a quantum that is not before the last one. */
void wp_history_put(struct wp_history *history, int64_t quantum,
                    const struct wp_history_event *event);

/* Forgets all events; the clocks stay as they are. */
void wp_history_clear(struct wp_history *history);

/* A record of claims, delta quanta after the one before; out has room for
 * WP_HISTORY_RECORD_BYTES_MAX. Returns the length. */
size_t wp_history_put_claims(uint8_t *out, uint64_t delta, uint32_t n,
                             uint32_t missed);
/* One record of bytes[*at .. len): moves *at, *quantum and *lead_bin on. False
 * when it is cut short or says what cannot be. */
WP_MUST_CHECK bool wp_history_read_record(const uint8_t *bytes, uint32_t len,
                                          uint32_t *at, int64_t *quantum,
                                          uint32_t *lead_bin,
                                          struct wp_history_event *out);

/* The same of a scaler's other inputs (inputs.c). */
size_t wp_history_put_input(uint8_t *out, uint64_t delta,
                            const struct wp_history_event *event);
/* Reads what follows its varint 1; out->wall_ns is known. */
WP_MUST_CHECK bool wp_history_get_input(const uint8_t *bytes, size_t len,
                                        size_t *at,
                                        struct wp_history_event *out);

/* out has room for 10. Returns the length. */
size_t wp_history_varint_put(uint8_t *out, uint64_t value);
/* False when it is cut short, too long or not the shortest form. */
WP_MUST_CHECK bool wp_history_varint_get(const uint8_t *bytes, size_t len,
                                         size_t *at, uint64_t *out);

#endif
