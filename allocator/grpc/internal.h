/* allocator/grpc/internal.h - what the files of the gRPC transport share.
 *
 * Only allocator/grpc/ include it: no other part of the product sees a call
 * from this side.
 *
 * Life of a call object (struct wp_rpc_call). It belongs to one serving thread
 * for ever.
 *
 *      free --request--> open --message--> started --finish--> free
 *
 * It counts as a call in progress from its whole message on. Until then it
 * waits among WP_RPC_WAITING_MAX of its thread, of which the oldest makes room
 * for a new one, and for 10 s at most.
 *
 * Two events end it, in any order: its stream has closed (the answer is
 * written, or the client has gone), and what finish left has been taken by the
 * serving thread. That thread alone frees the object, once both have come. What
 * another thread does to a call (finish, send) is posted to the serving thread;
 * the post is that thread's last touch of the object. */
#ifndef WP_ALLOCATOR_GRPC_INTERNAL_H
#define WP_ALLOCATOR_GRPC_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <event2/event.h>
#include <event2/event_struct.h>

#include "allocator/grpc/server.h"
#include "proto/h2/h2.h"
#include "allocator/services/service.h"
#include "pool/base/assert.h"

/* When a call that found no room may come again. */
#define WP_RPC_REFUSED_RETRY_NS (100 * WP_NS_PER_MS)

enum {
    WP_RPC_METHODS_MAX = 64,
    WP_RPC_LISTEN_MAX = WP_H2_LISTEN_MAX,
    WP_RPC_THREADS_MAX = WP_H2_THREADS_MAX,
    /* What clients accept by default; longer replies are a service's bug. */
    WP_RPC_REPLY_MAX = 4 << 20,
    /* Replies up to this length need no memory of their own. */
    WP_RPC_REPLY_INLINE = 1024,
    WP_RPC_MESSAGE_MAX = 240, /* Of a status; longer ones are cut. */
    WP_RPC_PREFIX = 5,        /* Before each message: a flag and its length. */
    /* Of a thread, whose message is not whole. */
    WP_RPC_WAITING_MAX = 1024,
    /* Objects beside those of waiting and started calls: they end in one turn,
     * but are free only after it. One read brings fewer. */
    WP_RPC_SPARE_OBJECTS = 2048,
};

enum wp_rpc_kind {
    WP_RPC_UNARY,
    WP_RPC_SERVER_STREAM,
    /* A stream in both directions in which each request gets one reply before
     * the next is read. Only reflection. */
    WP_RPC_LOCKSTEP,
    /* One whose requests and replies do not wait for each other. */
    WP_RPC_BIDIRECTIONAL,
};

struct wp_rpc_method {
    const struct wp_method *api;
    const struct wp_service *service;
    size_t path_len;
    enum wp_rpc_kind kind;
};

/* wp_rpc_call.flags */
enum {
    WP_RPC_FINISHED = 1,  /* The method has called finish. */
    WP_RPC_WRITING = 2,   /* A stream's message is on its way. */
    WP_RPC_CANCELLED = 4, /* Nobody waits for the answer. */
};

/* What is to be done with a call on its serving thread. */
struct wp_rpc_post {
    struct wp_linked_message link;
    void (*run)(struct wp_rpc_post *post);
};

/* A message with its prefix. */
struct wp_rpc_reply {
    uint8_t *bytes; /* NULL: none. */
    size_t len;
    bool is_inline; /* In the call's own room. */
};

struct wp_rpc_call {
    struct wp_h2_stream stream; /* First: what HTTP/2 sees. */
    struct wp_call base;        /* What methods see. */
    struct wp_rpc_server *server;
    struct wp_rpc_thread *thread;
    char *room; /* WP_RPC_REPLY_INLINE bytes, and the arena's. */
    uint32_t method;

    /* The owning thread's until a post. */
    struct wp_rpc_reply reserved;
    enum wp_status status;
    char details[WP_RPC_MESSAGE_MAX + 1];
    int64_t retry_after_ns;
    struct wp_rpc_post finish_post;
    struct wp_rpc_post send_post;
    _Atomic(uint32_t) flags;

    /* The serving thread's. */
    struct wp_rpc_reply outgoing;
    struct wp_list fresh; /* Of the thread's calls whose timer is not right. */
    struct wp_list waiting; /* Of the thread's calls that have not started. */
    struct event timer;
    int64_t opened_ns;
    bool has_deadline; /* The client named one. */
    bool late;         /* It has passed. */
    bool started;      /* Its message has been handed to the method. */
    bool ended;        /* The client sends no more. */
    bool closed;       /* The stream has ended. */
    bool piece_out;    /* outgoing is HTTP/2's. */
    bool finish_due;   /* Once outgoing has left. */
    bool done;         /* What finish left has been taken. */
    bool compressed;   /* A message of the client was. */
    /* What the client sent is no message, and this is the call's status. */
    enum wp_status broken;
    const char *broken_why;
    /* A message that comes in pieces. */
    uint8_t prefix[WP_RPC_PREFIX];
    uint32_t prefix_len;
    uint8_t *partial;
    uint32_t partial_len;
    uint32_t partial_cap;
    uint32_t message_len;
    /* WP_RPC_LOCKSTEP: what came while an answer is on its way. */
    uint8_t *stash;
    size_t stash_len;
};

/* How long a thread's calls of one method took that ended with one code. */
struct wp_rpc_durations {
    _Atomic(uint64_t) sum_ns;
    _Atomic(uint64_t) bucket[WP_RPC_DURATION_BUCKETS];
};

/* A serving thread's calls. Counters have one writer, that thread; anyone may
 * read them. */
struct wp_rpc_thread {
    struct wp_linked_message *first_post; /* Of this thread itself. */
    struct wp_linked_message *last_post;
    struct wp_list fresh;
    struct wp_list waiting; /* The oldest first. */
    uint32_t n_waiting;
    size_t partial_bytes; /* Of messages that are not whole. */
    uint32_t unflushed;   /* Methods started since the last flush. */
    uint32_t n_rooms;     /* Given to calls. */
    char *rooms;          /* Mapped. */
    int64_t answers_ns;   /* When this turn answers; 0: not known yet. */
    /* By method and code; owned, and never touched before it is needed. */
    struct wp_rpc_durations (*durations)[WP_RPC_CODES];
    struct wp_rpc_durations served[WP_RPC_SERVED]; /* Granted claims. */

    _Atomic(uint64_t) started;
    _Atomic(uint64_t) cancelled;
    _Atomic(uint64_t) refused;
    _Atomic(uint64_t) unknown;
    _Atomic(uint32_t) in_flight;
};

/* Single-writer increment: no locked instruction. */
#define WP_RPC_COUNT(counter, by)                                              \
    atomic_store_explicit(                                                     \
        (counter),                                                             \
        atomic_load_explicit((counter), memory_order_relaxed) + (by),          \
        memory_order_relaxed)

/* Who is at the other end of a connection. */
struct wp_rpc_peer {
    struct wp_identity who;
    bool known;    /* May call. */
    bool unproven; /* Nothing says who it is: a call's token may. */
};

struct wp_rpc_health;
struct wp_rpc_reflection;

struct wp_rpc_server {
    struct wp_rpc_config config; /* Shallow copy; bounds are checked. */
    size_t access_token_len;     /* 0: there is none. */
    const struct wp_clock *clock;
    struct wp_h2_server *h2;
    struct wp_rpc_thread *threads;
    uint32_t n_threads;
    size_t objects_per_thread; /* Calls: mapped, touched once needed. */
    struct wp_rpc_method methods[WP_RPC_METHODS_MAX];
    uint32_t n_methods;
    /* Every service, the transport's own included. */
    const struct wp_service *services[WP_RPC_METHODS_MAX];
    uint32_t n_services;
    struct wp_rpc_health *health;
    struct wp_rpc_reflection *reflection; /* NULL: not served. */
    _Atomic(size_t) reply_bytes; /* Of replies too long for their call. */
    bool started;
    bool draining;
};

static inline struct wp_rpc_method *
wp_rpc_call_method(const struct wp_rpc_call *call)
{
    return &call->server->methods[call->method];
}

/* --- request.c: headers, on the serving thread --- */

/* Handlers for struct wp_h2_handler; ctx is the server. */
void wp_rpc_request_header(void *ctx, void *scratch, struct wp_str name,
                           struct wp_str value);
void wp_rpc_request_done(void *ctx, struct wp_h2_conn *conn, int32_t id,
                         const void *scratch, bool too_long);

/* --- call.c: the life of a call, on the serving thread --- */

/* Gives a zeroed object what it keeps for ever. */
void wp_rpc_call_init(void *ctx, struct wp_h2_stream *stream);
/* A call of that method begins; timeout_ns below 0: none named. trace: what the
 * client says of its own. */
void wp_rpc_call_open(struct wp_rpc_call *call, uint32_t method,
                      const struct wp_identity *who, int64_t timeout_ns,
                      const struct wp_trace_context *trace);
/* A whole message. */
void wp_rpc_call_run(struct wp_rpc_call *call, const uint8_t *message,
                     size_t len);
/* Ends the call with a status of the transport's. */
void wp_rpc_call_fail(struct wp_rpc_call *call, enum wp_status status,
                      const char *message);
/* The same, for what comes on the call, whose method may have started: one that
 * goes on beside its client's messages is told, and finishes it. message: a
 * literal. */
void wp_rpc_call_break(struct wp_rpc_call *call, enum wp_status status,
                       const char *message);
void wp_rpc_call_closed(struct wp_h2_stream *stream);
void wp_rpc_call_sent(struct wp_h2_stream *stream);
void wp_rpc_call_turn(void *ctx, struct wp_h2_worker *worker, bool last);
void wp_rpc_call_message(void *ctx, struct wp_linked_message *message);
/* Has post.run called on the call's serving thread; the last touch of call by
 * this one. */
void wp_rpc_call_post(struct wp_rpc_call *call, struct wp_rpc_post *post);

/* --- message.c: messages out of bytes, on the serving thread --- */

void wp_rpc_message_data(struct wp_h2_stream *stream, const uint8_t *bytes,
                         size_t len);
void wp_rpc_message_ended(struct wp_h2_stream *stream);
/* WP_RPC_LOCKSTEP: the answer has left; what came meanwhile. */
void wp_rpc_message_go_on(struct wp_rpc_call *call);
void wp_rpc_message_drop(struct wp_rpc_call *call);

/* --- reply.c: sending, on the thread that owns the call --- */

extern const struct wp_call_ops wp_rpc_call_ops;
void wp_rpc_reply_drop(struct wp_rpc_call *call, struct wp_rpc_reply *reply);

/* --- method.c --- */

/* Adds all methods of the service. Before the server starts. */
WP_MUST_CHECK enum wp_status
wp_rpc_server_add_service(struct wp_rpc_server *server,
                          const struct wp_service *service, bool lockstep,
                          struct wp_err *err);
/* The index of a path, or n_methods. */
uint32_t wp_rpc_method_find(const struct wp_rpc_server *server,
                            struct wp_str path);

/* --- durations.c --- */

/* NULL when memory lacks; freed by free. */
struct wp_rpc_durations (*wp_rpc_durations_create(void))[WP_RPC_CODES];
/* A call took so long. The serving thread of d only. */
void wp_rpc_durations_add(struct wp_rpc_durations *d, int64_t duration_ns);

/* --- error.c --- */

/* The fields of a status: grpc-status, grpc-message and, when retry_after_ns is
 * not 0, RetryInfo as grpc-status-details-bin and grpc-retry-pushback-ms. They
 * live until the next call on this thread. Returns how many; at most 4. */
size_t wp_rpc_trailers_make(struct wp_h2_field *fields, enum wp_status status,
                            const char *message, int64_t retry_after_ns);
/* The same for a call; for struct wp_h2_handler. */
size_t wp_rpc_trailers_of(struct wp_h2_stream *stream,
                          struct wp_h2_field fields[WP_H2_FIELDS_MAX]);

/* --- peer.c --- */

/* For struct wp_h2_handler; the door's thread. peer: struct wp_rpc_peer. */
bool wp_rpc_peer_admit(void *ctx, const struct wp_h2_origin *origin,
                       void *peer);

/* --- health.c --- */

/* NULL when memory lacks. */
struct wp_rpc_health *wp_rpc_health_create(struct wp_rpc_server *server);
void wp_rpc_health_destroy(struct wp_rpc_health *health);
const struct wp_service *
wp_rpc_health_service(const struct wp_rpc_health *health);
/* Any thread. */
void wp_rpc_health_set(struct wp_rpc_health *health, bool serving);
/* NOT_SERVING for ever; each watch ends once it has been told. */
void wp_rpc_health_end(struct wp_rpc_health *health);

/* --- reflection.c --- */

enum {
    WP_RPC_REFLECTION_VERSIONS = 2,
};

struct wp_rpc_reflection *
wp_rpc_reflection_create(struct wp_rpc_server *server);
void wp_rpc_reflection_destroy(struct wp_rpc_reflection *reflection);
const struct wp_service *
wp_rpc_reflection_service(const struct wp_rpc_reflection *reflection,
                          int version);

#endif
