/* A saved history:
 *
 *   "WPH2", and for each chunk: varint quantum, varint bin, varint length, its
 *   records.
 *
 * Chunks are written as they lie in memory; only of the oldest that is taken
 * the beginning may be left out. */
#include <stdlib.h>

#include "pool/base/assert.h"
#include "pool/base/extreme.h"
#include "pool/history/history.h"
#include "pool/history/parts.h"
#include "pool/scale/scaler.h"

enum {
    HEAD_BYTES = 4,
    SUM_BEFORE = 8, /* Of "WPH1", behind its head; read, too. */
    CHUNK_HEAD_MAX = 10 + 2 + 3,
    PENDING_MAX = CHUNK_HEAD_MAX + WP_HISTORY_RECORD_BYTES_MAX,
};

static const char MAGIC[HEAD_BYTES] = {'W', 'P', 'H', '2'};

/* The part of a chunk from `at` on, whose records refer to quantum and bin. */
struct part {
    const struct wp_history_chunk *chunk;
    uint32_t at;
    int64_t quantum;
    uint32_t lead_bin;
};

/* The longest end of a chunk that fits in room; false when nothing does. */
static bool
end_that_fits(const struct wp_history_chunk *chunk, size_t room,
              struct part *out)
{
    struct wp_history_event event;

    *out = (struct part){
        .chunk = chunk, .quantum = chunk->quantum, .lead_bin = chunk->lead_bin};
    while (out->at < chunk->len) {
        if (chunk->len - out->at + CHUNK_HEAD_MAX <= room) {
            return true;
        }
        if (!wp_history_read_record(chunk->bytes, chunk->len, &out->at,
                                    &out->quantum, &out->lead_bin, &event)) {
            return false;
        }
    }
    return false;
}

static size_t
put_part(uint8_t *out, const struct part *part)
{
    uint32_t len = part->chunk->len - part->at;
    size_t n = wp_history_varint_put(out, (uint64_t)part->quantum);

    n += wp_history_varint_put(out + n, part->lead_bin);
    n += wp_history_varint_put(out + n, len);
    memcpy(out + n, part->chunk->bytes + part->at, len);
    return n + len;
}

/* The claims that are still gathered, as a chunk of their own. */
static size_t
put_pending(uint8_t *out, const struct wp_history *history)
{
    uint8_t record[WP_HISTORY_RECORD_BYTES_MAX];
    size_t len = wp_history_put_claims(record, 0, history->pending_n,
                                       history->pending_missed);
    size_t n = wp_history_varint_put(out, (uint64_t)history->last_quantum);

    n += wp_history_varint_put(out + n, history->lead_bin);
    n += wp_history_varint_put(out + n, len);
    memcpy(out + n, record, len);
    return n + len;
}

size_t
wp_history_save(const struct wp_history *history, void *out, size_t cap)
{
    uint8_t *to = out;
    size_t n = HEAD_BYTES;
    size_t room = cap > HEAD_BYTES ? cap - HEAD_BYTES : 0;
    uint32_t first;
    struct part part = {0};

    if (history->pending) {
        room = room > PENDING_MAX ? room - PENDING_MAX : 0;
    }
    for (first = history->n_chunks; first > 0; first--) {
        if (!end_that_fits(wp_history_chunk_at(history, first - 1), room,
                           &part)) {
            break;
        }
        if (part.at > 0) {
            n += put_part(to + n, &part);
            break;
        }
        room -= part.chunk->len + CHUNK_HEAD_MAX;
    }
    for (uint32_t i = first; i < history->n_chunks; i++) {
        (void)end_that_fits(wp_history_chunk_at(history, i), SIZE_MAX, &part);
        n += put_part(to + n, &part);
    }
    if (history->pending && cap >= HEAD_BYTES + PENDING_MAX) {
        n += put_pending(to + n, history);
    }
    if (n == HEAD_BYTES) {
        return 0;
    }
    memcpy(to, MAGIC, HEAD_BYTES);
    return n;
}

/* One chunk of what was saved; NULL as into: only looks whether it is whole. */
static bool
take_chunk(const uint8_t *bytes, size_t len, size_t *at, int64_t *last,
           struct wp_history *into)
{
    uint64_t quantum;
    uint64_t lead_bin;
    uint64_t chunk_len;
    uint32_t pos = 0;
    int64_t now;
    uint32_t bin;

    if (!wp_history_varint_get(bytes, len, at, &quantum) ||
        !wp_history_varint_get(bytes, len, at, &lead_bin) ||
        !wp_history_varint_get(bytes, len, at, &chunk_len) ||
        chunk_len > len - *at || chunk_len == 0 || chunk_len > UINT32_MAX ||
        quantum > (uint64_t)WP_QUANTUM_MAX || lead_bin > WP_LEAD_BIN_MAX) {
        return false;
    }
    now = (int64_t)quantum;
    bin = (uint32_t)lead_bin;
    while (pos < chunk_len) {
        struct wp_history_event event;

        if (!wp_history_read_record(bytes + *at, (uint32_t)chunk_len, &pos,
                                    &now, &bin, &event) ||
            now < *last) {
            return false;
        }
        *last = now;
        if (into != NULL) {
            wp_history_put(into, now, &event);
        }
    }
    *at += chunk_len;
    return true;
}

static bool
take_all(const uint8_t *bytes, size_t len, struct wp_history *into)
{
    size_t at = HEAD_BYTES;
    int64_t last = 0;

    while (at < len) {
        if (!take_chunk(bytes, len, &at, &last, into)) {
            return false;
        }
    }
    return true;
}

/* What came before goes in front of what is there. */
static void
append(struct wp_history *into, const struct wp_history *from)
{
    struct wp_history_cursor cursor;
    struct wp_history_event event;

    wp_history_first(from, &cursor);
    while (wp_history_next(&cursor, &event)) {
        int64_t quantum = event.wall_ns / WP_SCALE_QUANTUM_NS;

        wp_history_put(into, wp_max_i64(quantum, into->last_quantum), &event);
    }
}

enum wp_status
wp_history_load(struct wp_history *history, const void *bytes, size_t len,
                struct wp_err *err)
{
    const uint8_t *from = bytes;
    struct wp_history *was;

    if (len > HEAD_BYTES + SUM_BEFORE && memcmp(from, "WPH1", 4) == 0) {
        from += SUM_BEFORE;
        len -= SUM_BEFORE;
    } else if (len <= HEAD_BYTES || memcmp(from, MAGIC, HEAD_BYTES) != 0) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "not a saved history, or one of another version");
    }
    if (!take_all(from, len, NULL)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "a saved history is damaged");
    }
    was = wp_history_clone(history);
    if (was == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "no memory for a saved history");
    }
    wp_history_clear(history);
    if (!take_all(from, len, history)) {
        WP_ASSERT(false);
    }
    wp_history_put(history, history->last_quantum,
                   &(struct wp_history_event){.kind = WP_HISTORY_GAP});
    append(history, was);
    history->dropped += was->dropped;
    wp_history_destroy(was);
    /* The wall clock may be behind what was saved. */
    if (history->anchored) {
        int64_t now =
            history->anchor_wall + history->last_mono - history->anchor_mono;

        history->anchor_wall += wp_max_i64(history->last_quantum - now, 0);
    }
    return WP_OK;
}
