/* runtime/files/multipart.h - multipart/form-data (RFC 7578), piece by piece.
 *
 * Feed it the body as it comes; it calls back for each part's head, bytes and
 * end. Nothing but a part's head (8 KiB at most) is ever held. Any thread, one
 * at a time. */
#ifndef WP_RUNTIME_FILES_MULTIPART_H
#define WP_RUNTIME_FILES_MULTIPART_H

#include <stdbool.h>
#include <stddef.h>

#include "pool/base/compiler.h"

enum {
    WP_MULTIPART_BOUNDARY_MAX = 70, /* RFC 2046. */
    WP_MULTIPART_HEAD_MAX = 8192,
    WP_MULTIPART_NAME_MAX = 4096,
};

/* Strings are borrowed for the call. filename is NULL when there is none. */
struct wp_multipart_events {
    void (*part)(void *user, const char *name, const char *filename);
    void (*data)(void *user, const char *data, size_t len);
    void (*end)(void *user);
};

enum wp_multipart_state {
    WP_MULTIPART_PREAMBLE, /* Before the first boundary. */
    WP_MULTIPART_MARK,     /* Just behind a boundary. */
    WP_MULTIPART_HEAD,
    WP_MULTIPART_BODY,
    WP_MULTIPART_DONE,
    WP_MULTIPART_BAD,
};

struct wp_multipart {
    const struct wp_multipart_events *events;
    void *user;
    enum wp_multipart_state state;
    char mark[4 + WP_MULTIPART_BOUNDARY_MAX + 1]; /* CR LF "--" boundary. */
    size_t mark_len;
    size_t matched; /* How much of the mark the last bytes are. */
    char after[2];  /* What follows a mark: CR LF, or "--" at the end. */
    size_t after_len;
    char head[WP_MULTIPART_HEAD_MAX];
    size_t head_len;
    const char *error; /* A sentence, once BAD. */
};

/* Reads the boundary out of a Content-Type; false when it is no
 * multipart/form-data with a boundary of 1 to 70 characters. events is
 * borrowed for as long as multipart is used. */
WP_MUST_CHECK bool wp_multipart_init(struct wp_multipart *multipart,
                                     const char *content_type,
                                     const struct wp_multipart_events *events,
                                     void *user);
/* False once the body is malformed; more may be fed, to no effect. */
bool wp_multipart_feed(struct wp_multipart *multipart, const char *data,
                       size_t len);
/* True when the closing boundary was seen. */
bool wp_multipart_complete(const struct wp_multipart *multipart);

#endif
