/* k8s/watch/line.h - cuts a stream of bytes into lines, as they come.
 *
 * A watch is one JSON text a line. Each byte is looked at once and copied at
 * most once: a line that comes whole within a piece is given from there; only
 * what begins a line is kept, in a buffer that grows up to the bound and is
 * given back after a long line. One owner. */
#ifndef WP_K8S_WATCH_LINE_H
#define WP_K8S_WATCH_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "pool/base/compiler.h"
#include "pool/base/str.h"

enum wp_line_result {
    WP_LINE_OK,       /* Every line that is whole was given. */
    WP_LINE_STOPPED,  /* each returned false. */
    WP_LINE_TOO_LONG, /* Longer than len_max. */
    WP_LINE_NO_MEMORY,
};

struct wp_line {
    char *buf; /* The beginning of a line; owned. */
    size_t len;
    size_t cap;
    size_t len_max;
};

/* A line without its newline; may be empty. Borrowed for the call. False: no
 * more lines. */
typedef bool wp_line_each(void *ctx, struct wp_str line);

/* Allocates nothing. len_max > 0: the longest line that is taken. */
void wp_line_init(struct wp_line *line, size_t len_max);
void wp_line_fini(struct wp_line *line);
/* Forgets the beginning of a line: the stream begins anew. */
void wp_line_reset(struct wp_line *line);
/* After anything but WP_LINE_OK the rest of bytes is dropped, and only reset
 * makes sense. each must not feed or reset the same line. */
WP_MUST_CHECK enum wp_line_result wp_line_feed(struct wp_line *line,
                                               struct wp_str bytes,
                                               wp_line_each *each, void *ctx);

#endif
