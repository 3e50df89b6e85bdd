#include "k8s/watch/line.h"

#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"

enum {
    CAP_FIRST = 4096,
    CAP_KEPT = 64 << 10, /* What is larger goes back after its line. */
};

void
wp_line_init(struct wp_line *line, size_t len_max)
{
    WP_ASSERT(len_max > 0);
    *line = (struct wp_line){.len_max = len_max};
}

void
wp_line_fini(struct wp_line *line)
{
    free(line->buf);
    *line = (struct wp_line){.len_max = line->len_max};
}

void
wp_line_reset(struct wp_line *line)
{
    line->len = 0;
    if (line->cap > CAP_KEPT) {
        wp_line_fini(line);
    }
}

/* Appends to the beginning that is kept. */
static enum wp_line_result
keep(struct wp_line *line, struct wp_str bytes)
{
    if (bytes.len > line->len_max - line->len) {
        return WP_LINE_TOO_LONG;
    }
    if (bytes.len == 0) {
        return WP_LINE_OK;
    }
    if (line->len + bytes.len > line->cap) {
        size_t cap = line->cap > 0 ? line->cap : CAP_FIRST;
        char *buf;

        while (cap < line->len + bytes.len) {
            cap *= 2;
        }
        buf = realloc(line->buf, cap);
        if (buf == NULL) {
            return WP_LINE_NO_MEMORY;
        }
        line->buf = buf;
        line->cap = cap;
    }
    memcpy(line->buf + line->len, bytes.ptr, bytes.len);
    line->len += bytes.len;
    return WP_LINE_OK;
}

/* Gives the line that ends with tail. */
static enum wp_line_result
give(struct wp_line *line, struct wp_str tail, wp_line_each *each, void *ctx)
{
    struct wp_str whole = tail;
    enum wp_line_result result = WP_LINE_OK;
    bool more;

    if (line->len > 0) {
        result = keep(line, tail);
        whole = (struct wp_str){line->buf, line->len};
    } else if (tail.len > line->len_max) {
        result = WP_LINE_TOO_LONG;
    }
    if (result != WP_LINE_OK) {
        return result;
    }
    more = each(ctx, whole);
    wp_line_reset(line);
    return more ? WP_LINE_OK : WP_LINE_STOPPED;
}

enum wp_line_result
wp_line_feed(struct wp_line *line, struct wp_str bytes, wp_line_each *each,
             void *ctx)
{
    while (bytes.len > 0) {
        const char *end = memchr(bytes.ptr, '\n', bytes.len);
        struct wp_str piece = bytes;
        enum wp_line_result result;

        if (end == NULL) {
            return keep(line, bytes);
        }
        piece.len = (size_t)(end - bytes.ptr);
        result = give(line, piece, each, ctx);
        if (result != WP_LINE_OK) {
            return result;
        }
        bytes.ptr += piece.len + 1;
        bytes.len -= piece.len + 1;
    }
    return WP_LINE_OK;
}
