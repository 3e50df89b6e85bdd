/* Any bytes as a saved history. What is taken is whole events in order, and is
 * the same events again when it is saved and loaded once more. */
#include <stdlib.h>

#include "pool/history/history.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    ROOMY = 16 * WP_HISTORY_BYTES_MIN,
};

static void
expect(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void
expect_in_order(const struct wp_history *history)
{
    struct wp_history_cursor cursor;
    struct wp_history_event event;
    int64_t last_ns = 0;

    wp_history_first(history, &cursor);
    while (wp_history_next(&cursor, &event)) {
        expect(event.wall_ns >= last_ns && event.missed <= event.n &&
               event.lead_ns >= 0);
        last_ns = event.wall_ns;
    }
}

static void
expect_same(const struct wp_history *a, const struct wp_history *b)
{
    struct wp_history_cursor at_a;
    struct wp_history_cursor at_b;
    struct wp_history_event event_a;
    struct wp_history_event event_b;

    wp_history_first(a, &at_a);
    wp_history_first(b, &at_b);
    while (wp_history_next(&at_a, &event_a)) {
        expect(wp_history_next(&at_b, &event_b));
        expect(event_a.kind == event_b.kind && event_a.n == event_b.n &&
               event_a.wall_ns == event_b.wall_ns &&
               event_a.missed == event_b.missed &&
               event_a.lead_ns == event_b.lead_ns);
    }
}

static void
load(const uint8_t *bytes, size_t len)
{
    struct wp_history *history = wp_history_create(WP_HISTORY_BYTES_MIN);
    struct wp_history *again = wp_history_create(ROOMY);
    struct wp_err err;
    uint8_t saved[8192];
    size_t n;

    expect(history != NULL && again != NULL);
    if (wp_history_load(history, bytes, len, &err) == WP_OK) {
        expect_in_order(history);
        expect(wp_history_bytes(history) <= WP_HISTORY_BYTES_MIN);
        n = wp_history_save(history, saved, sizeof saved);
        if (n > 0) {
            expect(wp_history_load(again, saved, n, &err) == WP_OK);
            expect_same(history, again);
        }
    } else {
        expect(wp_history_claims(history) == 0);
    }
    wp_history_destroy(history);
    wp_history_destroy(again);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);

    expect(copy != NULL);
    load(data, size);
    if (size > 4) {
        memcpy(copy, data, size);
        memcpy(copy, "WPH2", 4);
        load(copy, size);
    }
    free(copy);
    return 0;
}
