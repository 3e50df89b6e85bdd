#include "pool/history/history.h"

#include <math.h>
#include <stdlib.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/extreme.h"
#include "pool/history/parts.h"
#include "pool/scale/scaler.h"

enum {
    CHUNK_BYTES_MIN = 448,
    CHUNK_BYTES_MAX = 64 * 1024,
    CHUNKS_WANTED = 256,
    /* So far ahead of the monotonic clock the wall was set, or the machine was
     * asleep. */
    JUMP_QUANTA = 60 * 100,
};

size_t
wp_history_varint_put(uint8_t *out, uint64_t value)
{
    size_t n = 0;

    while (value >= 0x80) {
        out[n++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    out[n++] = (uint8_t)value;
    return n;
}

bool
wp_history_varint_get(const uint8_t *bytes, size_t len, size_t *at,
                      uint64_t *out)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64 && *at < len; shift += 7) {
        uint8_t byte = bytes[(*at)++];

        if (shift == 63 && byte > 1) {
            return false;
        }
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = value;
            return byte != 0 || shift == 0;
        }
    }
    return false;
}

static uint32_t
lead_bin_of(int64_t lead_ns)
{
    double us = (double)lead_ns / (double)WP_NS_PER_US;
    double bin;

    if (us < 1) {
        return 0;
    }
    bin = floor(log2(us) * WP_LEAD_BINS_PER_OCTAVE) + 1;
    return bin > WP_LEAD_BIN_MAX ? WP_LEAD_BIN_MAX : (uint32_t)bin;
}

/* The middle of the bin, so that rounding again changes nothing. */
static int64_t
lead_of_bin(uint32_t bin)
{
    if (bin == 0) {
        return 0;
    }
    return llround(exp2(((double)bin - 0.5) / WP_LEAD_BINS_PER_OCTAVE) *
                   (double)WP_NS_PER_US);
}

int64_t
wp_history_lead_round(int64_t lead_ns)
{
    return lead_of_bin(lead_bin_of(lead_ns));
}

struct wp_history *
wp_history_create(size_t bytes_max)
{
    size_t per_chunk;
    size_t n;
    size_t chunk_bytes;
    struct wp_history *history;

    WP_ASSERT(bytes_max >= WP_HISTORY_BYTES_MIN &&
              bytes_max <= WP_HISTORY_BYTES_MAX);
    chunk_bytes = bytes_max / CHUNKS_WANTED;
    chunk_bytes = chunk_bytes < CHUNK_BYTES_MIN   ? CHUNK_BYTES_MIN
                  : chunk_bytes > CHUNK_BYTES_MAX ? CHUNK_BYTES_MAX
                                                  : chunk_bytes;
    per_chunk = sizeof(struct wp_history_chunk) + chunk_bytes +
                sizeof(struct wp_history_chunk *);
    n = (bytes_max - sizeof *history) / per_chunk;
    history =
        calloc(1, sizeof *history + n * sizeof(struct wp_history_chunk *));
    if (history != NULL) {
        history->chunk_bytes = (uint32_t)chunk_bytes;
        history->n_chunks_max = (uint32_t)n;
    }
    return history;
}

void
wp_history_destroy(struct wp_history *history)
{
    if (history != NULL) {
        for (uint32_t i = 0; i < history->n_chunks_max; i++) {
            free(history->ring[i]);
        }
        free(history);
    }
}

struct wp_history *
wp_history_clone(const struct wp_history *history)
{
    size_t size = sizeof *history +
                  history->n_chunks_max * sizeof(struct wp_history_chunk *);
    struct wp_history *out = malloc(size);

    if (out == NULL) {
        return NULL;
    }
    memcpy(out, history, size);
    for (uint32_t i = 0; i < history->n_chunks_max; i++) {
        out->ring[i] = NULL;
    }
    for (uint32_t i = 0; i < history->n_chunks; i++) {
        const struct wp_history_chunk *chunk = wp_history_chunk_at(history, i);
        uint32_t at = (history->oldest + i) % history->n_chunks_max;

        out->ring[at] = malloc(sizeof *chunk + history->chunk_bytes);
        if (out->ring[at] == NULL) {
            wp_history_destroy(out);
            return NULL;
        }
        memcpy(out->ring[at], chunk, sizeof *chunk + chunk->len);
    }
    return out;
}

void
wp_history_clear(struct wp_history *history)
{
    history->n_chunks = 0;
    history->oldest = 0;
    history->any = false;
    history->pending = false;
    history->lead_bin = 0;
    history->claims = 0;
    history->dropped = 0;
}

/* The oldest chunk's events are gone; the ring begins behind it. */
static void
drop_oldest(struct wp_history *history)
{
    struct wp_history_chunk *chunk = history->ring[history->oldest];

    WP_ASSERT(history->n_chunks_max > 0);
    history->dropped += chunk->claims;
    history->claims -= chunk->claims;
    history->oldest = (history->oldest + 1) % history->n_chunks_max;
    history->n_chunks--;
}

/* A chunk with room for any record. Without memory for another one the oldest
 * makes place; NULL when there is none. */
static struct wp_history_chunk *
chunk_with_room(struct wp_history *history)
{
    struct wp_history_chunk *chunk = NULL;
    uint32_t at;

    WP_ASSERT(history->n_chunks_max > 0);
    if (history->n_chunks > 0) {
        at = (history->oldest + history->n_chunks - 1) % history->n_chunks_max;
        chunk = history->ring[at];
        if (history->chunk_bytes - chunk->len >= WP_HISTORY_RECORD_BYTES_MAX) {
            return chunk;
        }
    }
    if (history->n_chunks == history->n_chunks_max) {
        drop_oldest(history);
    }
    at = (history->oldest + history->n_chunks) % history->n_chunks_max;
    if (history->ring[at] == NULL) {
        history->ring[at] = malloc(sizeof *chunk + history->chunk_bytes);
    }
    if (history->ring[at] == NULL && history->n_chunks > 0) {
        uint32_t from = history->oldest;

        drop_oldest(history);
        history->ring[at] = history->ring[from];
        history->ring[from] = NULL;
    }
    chunk = history->ring[at];
    if (chunk != NULL) {
        chunk->quantum = history->encoded_quantum;
        chunk->lead_bin = history->lead_bin;
        chunk->len = 0;
        chunk->claims = 0;
        history->n_chunks++;
    }
    return chunk;
}

size_t
wp_history_put_claims(uint8_t *out, uint64_t delta, uint32_t n, uint32_t missed)
{
    size_t len;

    if (n == 1 && missed == 0) {
        return wp_history_varint_put(out, delta << 2 | WP_HISTORY_RECORD_ONE);
    }
    len = wp_history_varint_put(out, delta << 2 | WP_HISTORY_RECORD_CLAIMS);
    len += wp_history_varint_put(out + len,
                                 (uint64_t)n << 1 | (missed > 0 ? 1 : 0));
    if (missed > 0) {
        len += wp_history_varint_put(out + len, missed);
    }
    return len;
}

static uint32_t
claims_of(const struct wp_history_event *event)
{
    return event->kind == WP_HISTORY_CLAIMS ? event->n : 0;
}

static void
encode(struct wp_history *history, int64_t quantum,
       const struct wp_history_event *event)
{
    struct wp_history_chunk *chunk = chunk_with_room(history);
    uint64_t delta = (uint64_t)(quantum - history->encoded_quantum);
    uint8_t *out;

    if (chunk == NULL) {
        history->claims -= claims_of(event);
        history->dropped += claims_of(event);
        return;
    }
    if (chunk->len == 0) {
        chunk->quantum = quantum;
        delta = 0;
    }
    out = chunk->bytes + chunk->len;
    if (event->kind == WP_HISTORY_CLAIMS) {
        out += wp_history_put_claims(out, delta, event->n, event->missed);
    } else if (event->kind == WP_HISTORY_GAP) {
        out += wp_history_varint_put(out, delta << 2 | WP_HISTORY_RECORD_GAP);
    } else if (event->kind != WP_HISTORY_READY) {
        struct wp_history_event rounded = *event;

        rounded.wall_ns = quantum * WP_SCALE_QUANTUM_NS;
        out += wp_history_put_input(out, delta, &rounded);
    } else {
        uint32_t bin = lead_bin_of(event->lead_ns);
        int64_t step = (int64_t)bin - (int64_t)history->lead_bin;

        out += wp_history_varint_put(out, delta << 2 | WP_HISTORY_RECORD_READY);
        out += wp_history_varint_put(out, step < 0 ? (uint64_t)-step * 2 - 1
                                                   : (uint64_t)step * 2);
        history->lead_bin = bin;
    }
    chunk->len = (uint32_t)(out - chunk->bytes);
    history->encoded_quantum = quantum;
    chunk->claims += claims_of(event);
}

static void
flush_pending(struct wp_history *history)
{
    if (history->pending) {
        struct wp_history_event event = {.kind = WP_HISTORY_CLAIMS,
                                         .n = history->pending_n,
                                         .missed = history->pending_missed};

        history->pending = false;
        encode(history, history->last_quantum, &event);
    }
}

/* Claims that join those of the quantum they came in; also, "nothing came until
 * now" said again. */
static bool
joins_pending(const struct wp_history *history, int64_t quantum,
              const struct wp_history_event *event)
{
    if (!history->pending || event->kind != WP_HISTORY_CLAIMS ||
        event->n > UINT32_MAX - history->pending_n ||
        (event->apart && history->pending_n > 0)) {
        return false;
    }
    return quantum == history->last_quantum ||
           (history->pending_n == 0 && event->n == 0);
}

void
wp_history_put(struct wp_history *history, int64_t quantum,
               const struct wp_history_event *event)
{
    bool gap = event->kind == WP_HISTORY_GAP;

    if (gap && (history->last_is_gap || !history->any)) {
        return;
    }
    if (!history->any) {
        history->any = true;
        history->encoded_quantum = quantum;
    }
    if (joins_pending(history, quantum, event)) {
        history->pending_n += event->n;
        history->pending_missed += event->missed;
    } else {
        flush_pending(history);
        if (event->kind == WP_HISTORY_CLAIMS) {
            history->pending = true;
            history->pending_n = event->n;
            history->pending_missed = event->missed;
        } else {
            encode(history, quantum, event);
        }
    }
    history->claims += claims_of(event);
    history->last_quantum = quantum;
    history->last_is_gap = gap;
}

void
wp_history_add(struct wp_history *history, int64_t mono_ns,
               const struct wp_history_event *event)
{
    int64_t mono = mono_ns / WP_SCALE_QUANTUM_NS;
    int64_t wall = event->wall_ns / WP_SCALE_QUANTUM_NS;
    int64_t quantum;

    WP_ASSERT(mono_ns >= 0 && event->wall_ns >= 0);
    WP_ASSERT(event->kind != WP_HISTORY_CLAIMS || event->missed <= event->n);
    if (!history->anchored) {
        history->anchored = true;
        history->anchor_mono = mono;
        history->last_mono = mono;
        history->anchor_wall = history->any && wall < history->last_quantum
                                   ? history->last_quantum
                                   : wall;
    }
    if (mono < history->last_mono) {
        mono = history->last_mono;
    }
    history->last_mono = mono;
    quantum = history->anchor_wall + (mono - history->anchor_mono);
    if (wall - quantum > JUMP_QUANTA) {
        wp_history_put(history, wp_min_i64(quantum, WP_QUANTUM_MAX),
                       &(struct wp_history_event){.kind = WP_HISTORY_GAP});
        history->anchor_wall = wall;
        history->anchor_mono = mono;
        quantum = wall;
    }
    wp_history_put(history, wp_min_i64(quantum, WP_QUANTUM_MAX), event);
}

uint64_t
wp_history_claims(const struct wp_history *history)
{
    return history->claims;
}

uint64_t
wp_history_dropped(const struct wp_history *history)
{
    return history->dropped;
}

size_t
wp_history_bytes(const struct wp_history *history)
{
    size_t bytes = sizeof *history +
                   history->n_chunks_max * sizeof(struct wp_history_chunk *);

    for (uint32_t i = 0; i < history->n_chunks_max; i++) {
        if (history->ring[i] != NULL) {
            bytes += sizeof(struct wp_history_chunk) + history->chunk_bytes;
        }
    }
    return bytes;
}

static void
enter_chunk(struct wp_history_cursor *cursor, uint32_t i)
{
    cursor->chunk = i;
    cursor->at = 0;
    if (i < cursor->history->n_chunks) {
        const struct wp_history_chunk *chunk =
            wp_history_chunk_at(cursor->history, i);

        cursor->quantum = chunk->quantum;
        cursor->lead_bin = chunk->lead_bin;
    }
}

void
wp_history_first(const struct wp_history *history,
                 struct wp_history_cursor *cursor)
{
    *cursor = (struct wp_history_cursor){.history = history};
    enter_chunk(cursor, 0);
}

/* What follows the head of a record of claims, or of other inputs. */
static bool
read_claims(const uint8_t *bytes, uint32_t len, size_t *at,
            struct wp_history_event *out)
{
    uint64_t value;
    uint64_t missed = 0;

    if (!wp_history_varint_get(bytes, len, at, &value)) {
        return false;
    }
    if (value == 1) {
        out->apart = false;
        return wp_history_get_input(bytes, len, at, out);
    }
    if (value >> 1 > UINT32_MAX ||
        ((value & 1) != 0 && (!wp_history_varint_get(bytes, len, at, &missed) ||
                              missed == 0 || missed > value >> 1))) {
        return false;
    }
    out->n = (uint32_t)(value >> 1);
    out->missed = (uint32_t)missed;
    return true;
}

bool
wp_history_read_record(const uint8_t *bytes, uint32_t len, uint32_t *at,
                       int64_t *quantum, uint32_t *lead_bin,
                       struct wp_history_event *out)
{
    size_t pos = *at;
    uint64_t head;
    uint64_t value = 0;

    if (!wp_history_varint_get(bytes, len, &pos, &head) ||
        head >> 2 > (uint64_t)(WP_QUANTUM_MAX - *quantum)) {
        return false;
    }
    *quantum += (int64_t)(head >> 2);
    *out = (struct wp_history_event){.kind = WP_HISTORY_CLAIMS,
                                     .wall_ns = *quantum * WP_SCALE_QUANTUM_NS,
                                     .n = 1,
                                     .apart = true};
    switch ((enum wp_history_record)(head & 3)) {
    case WP_HISTORY_RECORD_ONE:
        break;
    case WP_HISTORY_RECORD_CLAIMS:
        if (!read_claims(bytes, len, &pos, out)) {
            return false;
        }
        break;
    case WP_HISTORY_RECORD_READY: {
        int64_t bin;

        if (!wp_history_varint_get(bytes, len, &pos, &value) ||
            value > 2 * WP_LEAD_BIN_MAX) {
            return false;
        }
        bin =
            (int64_t)*lead_bin + ((value & 1) != 0 ? -(int64_t)((value + 1) / 2)
                                                   : (int64_t)(value / 2));
        if (bin < 0 || bin > WP_LEAD_BIN_MAX) {
            return false;
        }
        *lead_bin = (uint32_t)bin;
        out->kind = WP_HISTORY_READY;
        out->n = 0;
        out->lead_ns = lead_of_bin(*lead_bin);
        break;
    }
    case WP_HISTORY_RECORD_GAP:
        out->kind = WP_HISTORY_GAP;
        out->n = 0;
        break;
    }
    *at = (uint32_t)pos;
    return true;
}

bool
wp_history_next(struct wp_history_cursor *cursor, struct wp_history_event *out)
{
    const struct wp_history *history = cursor->history;

    while (cursor->chunk < history->n_chunks) {
        const struct wp_history_chunk *chunk =
            wp_history_chunk_at(history, cursor->chunk);

        if (cursor->at < chunk->len) {
            bool whole = wp_history_read_record(chunk->bytes, chunk->len,
                                                &cursor->at, &cursor->quantum,
                                                &cursor->lead_bin, out);

            WP_ASSERT(whole);
            return true;
        }
        enter_chunk(cursor, cursor->chunk + 1);
    }
    if (history->pending && !cursor->ended) {
        cursor->ended = true;
        *out = (struct wp_history_event){
            .kind = WP_HISTORY_CLAIMS,
            .wall_ns = history->last_quantum * WP_SCALE_QUANTUM_NS,
            .n = history->pending_n,
            .missed = history->pending_missed,
            .apart = true,
        };
        return true;
    }
    return false;
}

bool
wp_history_span(const struct wp_history *history, int64_t *from_wall_ns,
                int64_t *until_wall_ns)
{
    struct wp_history_cursor cursor;
    struct wp_history_event event;

    wp_history_first(history, &cursor);
    if (!wp_history_next(&cursor, &event)) {
        return false;
    }
    *from_wall_ns = event.wall_ns;
    *until_wall_ns = history->last_quantum * WP_SCALE_QUANTUM_NS;
    return true;
}
