/* proto/h2/memory.h - the memory of HTTP/2 sessions, a server's or a client's.
 *
 * nghttp2 asks for many small pieces for each stream. Those that one stream
 * gives back serve the next one of the same thread, so that a busy thread asks
 * malloc for nothing. What a session may hold is bounded, and what the free
 * lists keep: 4 MiB. One thread. */
#ifndef WP_PROTO_H2_MEMORY_H
#define WP_PROTO_H2_MEMORY_H

#include <nghttp2/nghttp2.h>
#include <stddef.h>

enum {
    /* 64, 128, ... 4096 bytes; larger pieces are malloc's own. */
    WP_H2_MEMORY_CLASSES = 7,
};

/* Of a thread. Zeroed: empty. */
struct wp_h2_memory {
    void *free[WP_H2_MEMORY_CLASSES];
    size_t kept; /* Bytes in the free lists. */
};

/* Of a session. */
struct wp_h2_holding {
    struct wp_h2_memory *memory;
    size_t bytes; /* That it holds. */
    size_t max;   /* It gets none beyond. */
};

/* Allocates for the session of that holding, which outlives it. */
void wp_h2_memory_for(struct wp_h2_holding *holding, nghttp2_mem *out);
/* After all sessions. */
void wp_h2_memory_free(struct wp_h2_memory *memory);

#endif
