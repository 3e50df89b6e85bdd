/* runtime/sandboxd/grpc.h - gRPC calls of one request on proto/h2, in the
 * caller's loop.
 *
 * A call begins with its whole request, and ends by wp_grpc_finish or when
 * nobody waits for it any more, whichever comes first. Loop thread only.
 *
 * Bounds: calls at once, bytes of requests that are not whole, bytes of one
 * request; and what proto/h2 bounds. */
#ifndef WP_RUNTIME_SANDBOXD_GRPC_H
#define WP_RUNTIME_SANDBOXD_GRPC_H

#include <event2/event.h>

#include "pool/base/list.h"
#include "proto/h2/h2.h"

enum {
    WP_GRPC_PREFIX = 5,            /* Before each message. */
    WP_GRPC_REQUEST_MAX = 4 << 20, /* Bytes. */
    WP_GRPC_DETAILS_MAX = 240, /* Of an error's text; a longer one is cut. */
};

struct wp_grpc;
struct wp_grpc_call;

struct wp_grpc_method {
    const char *path; /* NULL ends a table. */
    /* The request, borrowed. May already finish. */
    void (*start)(struct wp_grpc_call *call, const uint8_t *bytes, size_t len);
    /* Nobody waits: the call is gone after this, without finish. */
    void (*gone)(struct wp_grpc_call *call);
    /* Optional: a message has left; queued bytes still wait. */
    void (*sent)(struct wp_grpc_call *call, size_t queued);
};

struct wp_grpc_call {
    struct wp_h2_stream stream; /* First: what HTTP/2 sees. */
    struct wp_grpc *grpc;
    struct wp_list node; /* The method's; not in a list at first. */
    void *user;          /* The method's. */

    /* The rest is the transport's. */
    const struct wp_grpc_method *method;
    struct evbuffer *in;  /* A request that is not whole. */
    struct evbuffer *out; /* Messages that wait. */
    size_t piece;         /* Of out: with HTTP/2. */
    struct event *timer;  /* NULL: no deadline. */
    bool started;
    bool finished;
    enum wp_status status;
    char details[WP_GRPC_DETAILS_MAX + 1];
};

struct wp_grpc_config {
    struct event_base *base; /* Borrowed, as all of it, until destroy. */
    const char *listen;      /* "127.0.0.1:0" or such. */
    const struct wp_grpc_method *methods;
    void *app;
    /* Whether who shows this token may call; NULL: no token was shown. */
    bool (*admits)(void *app, const char *token);
    uint32_t connections_max;
};

/* Listens. NULL with err set. */
WP_MUST_CHECK struct wp_grpc *
wp_grpc_create(const struct wp_grpc_config *config, struct wp_err *err);
/* The port it listens on. */
int32_t wp_grpc_port(const struct wp_grpc *grpc);
/* Takes no more calls; drained() runs from the loop once none is left. */
void wp_grpc_drain(struct wp_grpc *grpc, void (*drained)(void *arg), void *arg);
/* Ends all calls. NULL is fine. */
void wp_grpc_destroy(struct wp_grpc *grpc);
void *wp_grpc_app(const struct wp_grpc_call *call);

/* Room for a message of len bytes behind its prefix; malloc'ed, NULL on no
 * memory. The message begins at WP_GRPC_PREFIX. */
uint8_t *wp_grpc_message(size_t len);
/* Sends what wp_grpc_message made, and frees it. NULL ends the call with
 * RESOURCE_EXHAUSTED. Returns how many bytes wait in all. */
size_t wp_grpc_send(struct wp_grpc_call *call, uint8_t *message, size_t len);
/* Ends the call behind what was sent; no callback follows. details may be NULL.
 */
void wp_grpc_finish(struct wp_grpc_call *call, enum wp_status status,
                    const char *details);

/* What a grpc-timeout field says, in nanoseconds. False: not 1 to 8 digits and
 * a unit. Pure. */
WP_MUST_CHECK bool wp_grpc_timeout_read(struct wp_str text, int64_t *out_ns);

#endif
