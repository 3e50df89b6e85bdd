/* allocator/services/service.h - the border between what an RPC does and what
 * carries it.
 *
 * A transport (allocator/grpc) decodes nothing: it finds the method by its
 * path, gives it the request's bytes, and sends what it answers. A service (the
 * other files here) knows no transport. A call belongs to one thread at a time.
 * */
#ifndef WP_ALLOCATOR_SERVICES_SERVICE_H
#define WP_ALLOCATOR_SERVICES_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocator/access/identity.h"
#include "pool/base/arena.h"
#include "pool/base/status.h"
#include "pool/base/str.h"
#include "pool/trace/tracer.h"

enum {
    WP_CALL_ARENA_SIZE = 8192, /* Scratch of one call, decoding included. */
};

struct wp_call;

/* How a service answers. Implemented by the transport. */
struct wp_call_ops {
    /* Room for a reply message of len bytes, or NULL when memory lacks; the
     * service packs into it and calls finish or send next. */
    uint8_t *(*reserve)(struct wp_call *call, size_t len);
    /* Ends the call; with WP_OK and a reservation, that message goes along. Any
     * thread that owns the call; exactly once. message may be NULL;
     * retry_after_ns > 0 adds RetryInfo. */
    void (*finish)(struct wp_call *call, enum wp_status status,
                   const char *message, int64_t retry_after_ns);
    /* Server streams: sends the reserved message. False when the last one is
     * still on its way: keep the newest state and send it on `writable`. */
    bool (*send)(struct wp_call *call);
};

/* One RPC in progress. Allocated by the transport. */
struct wp_call {
    const struct wp_call_ops *ops;
    struct wp_identity who;
    int64_t deadline_ns; /* Monotonic; never WP_TIME_NEVER. */
    /* Set before finish by a method that grants one claim: an enum wp_served,
     * by which the transport tells how long such calls took. 0: none. */
    unsigned served;
    struct wp_trace trace; /* Of the whole call; a method may add steps. */
    struct wp_arena arena;

    /* Set by a method that answers later. cancelled: the client has gone or the
     * deadline has passed; the method must still finish the call, soon (with
     * WP_CANCELLED) unless finish is already under way. Called at most once, on
     * the transport's thread, and never after finish has returned there. NULL:
     * the answer cannot be hurried, and comes by itself.
     * writable: the stream can take the next message. */
    void (*cancelled)(struct wp_call *call);
    void (*writable)(struct wp_call *call);
    /* Streams in both directions: another request has come, borrowed for it;
     * the client sends no more. Both on the transport's thread, perhaps just
     * after another one has finished the call. */
    void (*received)(struct wp_call *call, const uint8_t *request, size_t len);
    void (*ended)(struct wp_call *call);
    void *state;   /* The method's, in the arena. */
    void *service; /* What the method was registered with. */
};

/* One RPC. start runs on the transport's thread; request is borrowed for it. */
struct wp_method {
    const char *path; /* "/warmpool.v1.Allocator/Claim" */
    bool server_streaming;
    bool bidirectional; /* start is for the first request. */
    bool admin_only;
    void (*start)(struct wp_call *call, const uint8_t *request, size_t len);
};

struct wp_service {
    const char *name; /* "warmpool.v1.Allocator" */
    const struct wp_method *methods;
    size_t n_methods;
    void *self; /* Given to each call as call->service. */
};

#endif
