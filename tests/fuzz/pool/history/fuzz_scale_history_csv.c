/* Any text as a CSV of claim times, whole and cut into pieces: both give the
 * same events, or name the same line. */
#include <stdlib.h>

#include "pool/history/history.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
expect(bool holds)
{
    if (!holds) {
        abort();
    }
}

static enum wp_status
read_all(struct wp_history *history, const uint8_t *data, size_t size,
         size_t piece, struct wp_err *err)
{
    struct wp_history_csv csv;
    enum wp_status status = WP_OK;

    wp_history_csv_init(&csv, history);
    for (size_t at = 0; at < size && status == WP_OK; at += piece) {
        size_t n = size - at < piece ? size - at : piece;

        status = wp_history_csv_feed(
            &csv, (struct wp_str){(const char *)data + at, n}, err);
    }
    return status != WP_OK
               ? status
               : wp_history_csv_feed(&csv, (struct wp_str){NULL, 0}, err);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_history *whole = wp_history_create(WP_HISTORY_BYTES_MIN);
    struct wp_history *pieces = wp_history_create(WP_HISTORY_BYTES_MIN);
    struct wp_err err_whole = {0};
    struct wp_err err_pieces = {0};
    size_t piece = size > 0 ? 1 + data[0] % 16u : 1;
    struct wp_history_cursor a;
    struct wp_history_cursor b;
    struct wp_history_event event_a;
    struct wp_history_event event_b;

    expect(whole != NULL && pieces != NULL);
    expect(read_all(whole, data, size, size + 1, &err_whole) ==
           read_all(pieces, data, size, piece, &err_pieces));
    wp_history_first(whole, &a);
    wp_history_first(pieces, &b);
    while (wp_history_next(&a, &event_a)) {
        expect(wp_history_next(&b, &event_b));
        expect(event_a.wall_ns == event_b.wall_ns && event_a.n == event_b.n);
    }
    expect(!wp_history_next(&b, &event_b));
    wp_history_destroy(whole);
    wp_history_destroy(pieces);
    return 0;
}
