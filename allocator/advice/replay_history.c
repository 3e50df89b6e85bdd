#include <stdlib.h>

#include "pool/history/history.h"
#include "allocator/advice/replay.h"

struct from_history {
    struct wp_history_cursor cursor;
    int64_t gaps_ns; /* Left out so far: what is before the first event, too. */
    int64_t gap_from_ns;
    bool in_gap;
};

static bool
next_claims(void *self, int64_t *mono_ns, uint32_t *n)
{
    struct from_history *from = self;
    struct wp_history_event event;

    while (wp_history_next(&from->cursor, &event)) {
        if (event.kind == WP_HISTORY_GAP) {
            from->in_gap = true;
            from->gap_from_ns = event.wall_ns;
            continue;
        }
        if (from->in_gap) {
            from->in_gap = false;
            from->gaps_ns += event.wall_ns - from->gap_from_ns;
        }
        if (event.kind == WP_HISTORY_CLAIMS && event.n > 0) {
            *mono_ns = event.wall_ns - from->gaps_ns;
            *n = event.n;
            return true;
        }
    }
    return false;
}

bool
wp_replay_source_history(const struct wp_history *history,
                         struct wp_replay_source *out)
{
    struct from_history *from = calloc(1, sizeof *from);
    int64_t until_ns;

    if (from == NULL) {
        return false;
    }
    if (!wp_history_span(history, &from->gaps_ns, &until_ns)) {
        from->gaps_ns = 0;
    }
    wp_history_first(history, &from->cursor);
    *out = (struct wp_replay_source){.next = next_claims, .self = from};
    return true;
}

void
wp_replay_source_history_end(struct wp_replay_source *source)
{
    free(source->self);
    *source = (struct wp_replay_source){0};
}
