/* allocator/grpc/internal.h - what the files of the gRPC transport share.
 *
 * Only allocator/grpc/ include it: no other part of the product sees a gRPC
 * type.
 *
 * Life of a call object (struct wp_rpc_call). It belongs to one queue for ever
 * and is in one of three places: the queue's free list; armed, that is waiting
 * inside C-core for a call of its method; in flight.
 *
 *      free --arm--> armed --on_new--> in flight --release--> free
 *
 * In flight, two events end it, in any order: C-core says that the call is
 * closed (RECV_CLOSE_ON_SERVER), and the last batch, with the status, is done.
 * A method that answers before start returns has both in one batch, one event.
 * The queue's thread alone takes events, so it alone frees the object, exactly
 * once, and `cancelled` can never run on a freed one. Another thread that
 * finishes a call makes grpc_call_start_batch its last touch of the object. */
#ifndef WP_ALLOCATOR_GRPC_INTERNAL_H
#define WP_ALLOCATOR_GRPC_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>

#include "allocator/grpc/server.h"
#include "allocator/services/service.h"

struct wp_rpc_queue;

enum {
    /* Requests armed per method and queue: more would only cost memory, fewer
     * would make bursts go through C-core's slower list of pending calls. */
    WP_RPC_ARMED_PER_METHOD = 16,
    /* The same for unknown methods; also how many are answered at a time. */
    WP_RPC_STRAYS = 32,
    /* Call objects for refusals while all arenas are in use. */
    WP_RPC_SPARE_CALLS = 64,
    WP_RPC_METHODS_MAX = 64,
    WP_RPC_LISTEN_MAX = 16,
    WP_RPC_THREADS_MAX = 64,
    /* What clients accept by default; longer replies are a service's bug. */
    WP_RPC_REPLY_MAX = 4 << 20,
    WP_RPC_MESSAGE_MAX = 240, /* Of a status; longer ones are cut. */
};

/* The first member of whatever C-core holds for us as an event's tag. */
struct wp_rpc_tag {
    void (*done)(struct wp_rpc_tag *tag, bool ok);
};

enum wp_rpc_kind {
    WP_RPC_UNARY,
    WP_RPC_SERVER_STREAM,
    /* A stream in both directions in which each request gets one reply before
     * the next is read. Only reflection. */
    WP_RPC_LOCKSTEP,
};

struct wp_rpc_method {
    const struct wp_method *api;
    const struct wp_service *service;
    enum wp_rpc_kind kind;
    void *handle; /* C-core's name for it. */
};

/* wp_rpc_call.flags */
enum {
    WP_RPC_FINISHED = 1,  /* The method has called finish. */
    WP_RPC_WRITING = 2,   /* A stream's message is on its way. */
    WP_RPC_CANCELLED = 4, /* C-core says nobody waits for the answer. */
};

struct wp_rpc_call {
    struct wp_call base; /* First: what methods see. */
    struct wp_rpc_queue *queue;
    struct wp_rpc_call *next_free;
    uint32_t method; /* Index into the server's table. */
    uint32_t arena;  /* Index into the queue's, or WP_RPC_NO_ARENA. */

    struct wp_rpc_tag on_new;
    struct wp_rpc_tag on_closed;
    struct wp_rpc_tag on_sent; /* A stream's message. */
    struct wp_rpc_tag on_read; /* WP_RPC_LOCKSTEP: the next request. */
    struct wp_rpc_tag on_done; /* The last batch. */

    /* Filled by C-core before on_new. */
    grpc_call *handle;
    gpr_timespec deadline;
    grpc_metadata_array metadata;
    grpc_byte_buffer *request;
    int closed_early; /* RECV_CLOSE_ON_SERVER's answer. */

    /* The finishing or sending thread's. */
    grpc_slice reply;
    bool has_reply;
    bool headers_sent;
    grpc_byte_buffer *outgoing; /* Until its batch is done. */
    enum wp_status status;
    grpc_slice details; /* The status message, when has_details. */
    bool has_details;
    int64_t retry_after_ns;

    _Atomic(uint32_t) flags;
    /* Stored by a sending thread when it lets go of the object, loaded when the
     * batch's event is taken. C-core orders the two as well, but out of sight
     * of the thread sanitizer. */
    _Atomic(bool) sent;
    /* The queue's thread's: which of the two last events have come. */
    bool closed_seen;
    bool done_seen;
};

#define WP_RPC_NO_ARENA UINT32_MAX

/* A call of a method nobody registered. */
struct wp_rpc_stray {
    struct wp_rpc_tag on_new;
    struct wp_rpc_tag on_done;
    struct wp_rpc_queue *queue;
    grpc_call *handle;
    grpc_call_details details;
    grpc_metadata_array metadata;
    int closed_early;
};

/* One completion queue, its thread and its calls. Counters have one writer, the
 * queue's thread; anyone may read them. */
struct wp_rpc_queue {
    struct wp_rpc_server *server;
    grpc_completion_queue *cq;
    pthread_t thread;
    bool threaded;
    /* The last event but those of calls in flight: no connection is left. */
    struct wp_rpc_tag on_shutdown;

    struct wp_rpc_call *calls; /* n_calls of them, owned. */
    uint32_t n_calls;
    struct wp_rpc_call *free_calls;
    char *arenas; /* n_arenas * WP_CALL_ARENA_SIZE bytes, mapped. */
    uint32_t n_arenas;
    uint32_t *free_arenas; /* A stack: the last one used is still in cache. */
    uint32_t n_free_arenas;
    /* Requests that could not be armed for want of an object, per method. */
    uint32_t unarmed[WP_RPC_METHODS_MAX];
    uint32_t n_unarmed;
    struct wp_rpc_stray strays[WP_RPC_STRAYS];

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

struct wp_rpc_peers;
struct wp_rpc_tls;
struct wp_rpc_health;
struct wp_rpc_reflection;

struct wp_rpc_server {
    struct wp_rpc_config config; /* Shallow copy; bounds are checked. */
    const struct wp_clock *clock;
    grpc_server *grpc;
    struct wp_rpc_queue *queues;
    uint32_t n_queues;
    struct wp_rpc_method methods[WP_RPC_METHODS_MAX];
    uint32_t n_methods;
    /* Every service, the transport's own included. */
    const struct wp_service *services[WP_RPC_METHODS_MAX];
    uint32_t n_services;
    struct wp_rpc_peers *peers;
    struct wp_rpc_tls *tls; /* NULL: clear text only. */
    struct wp_rpc_health *health;
    struct wp_rpc_reflection *reflection; /* NULL: not served. */
    char address[WP_RPC_LISTEN_MAX][128];

    pthread_mutex_t lock; /* Guards n_open. */
    pthread_cond_t open_changed;
    /* While leaving: queues that may still bring new calls. */
    uint32_t n_open;
    bool started;
    bool draining;
};

/* --- call.c: events, all on the queue's thread --- */

/* Gives a zeroed call object of the queue its handlers. */
void wp_rpc_call_init(struct wp_rpc_queue *queue, struct wp_rpc_call *call);
static inline struct wp_rpc_method *
wp_rpc_call_method(const struct wp_rpc_call *call)
{
    return &call->queue->server->methods[call->method];
}

/* --- reply.c: sending, on the thread that owns the call --- */

extern const struct wp_call_ops wp_rpc_call_ops;
/* The call whose method is being started on this thread; NULL once that has
 * finished it: a finish from inside may send all in one batch. */
extern _Thread_local struct wp_rpc_call *wp_rpc_call_starting;
/* Sends what finish left in call. with_close: RECV_CLOSE_ON_SERVER has not been
 * started and goes along. The last touch of call by this thread. */
void wp_rpc_reply_status(struct wp_rpc_call *call, bool with_close);
/* The event of something sent has come: frees the message, if it had one. */
void wp_rpc_reply_take_back(struct wp_rpc_call *call);
/* Frees a reply that was reserved and never sent. */
void wp_rpc_reply_drop(struct wp_rpc_call *call);

/* --- queue.c: where call objects are kept, on the queue's thread --- */

/* Waits for a call of that method with a free object; when none is free, as
 * soon as there is one. */
void wp_rpc_queue_arm(struct wp_rpc_queue *queue, uint32_t method);
/* An object that never got its call. */
void wp_rpc_queue_put_free(struct wp_rpc_call *call);
/* Gives a fresh call its arena, or none when all are taken. */
void wp_rpc_queue_open(struct wp_rpc_call *call);
/* The call has ended: frees what it held. */
void wp_rpc_queue_release(struct wp_rpc_call *call);
/* Sets up the queue's call objects and arenas; server->n_methods is final.
 * calls_max: in flight on this queue. */
WP_MUST_CHECK enum wp_status wp_rpc_queue_init_calls(struct wp_rpc_queue *queue,
                                                     uint32_t calls_max,
                                                     struct wp_err *err);
/* After the completion queue has been drained. */
void wp_rpc_queue_fini_calls(struct wp_rpc_queue *queue);
/* Arms every method, and the catch-all for unknown ones. Before the queue's
 * thread runs, after grpc_server_start. */
void wp_rpc_queue_arm_all(struct wp_rpc_queue *queue);
/* The same for strays (method.c). */
void wp_rpc_stray_arm(struct wp_rpc_stray *stray);

/* --- method.c --- */

/* Registers all methods of the service with C-core. Before the server
 * starts. */
WP_MUST_CHECK enum wp_status
wp_rpc_server_add_service(struct wp_rpc_server *server,
                          const struct wp_service *service, bool lockstep,
                          struct wp_err *err);

/* --- error.c --- */

/* Room for the trailers of one status. */
struct wp_rpc_trailers {
    grpc_metadata md[2];
    size_t count;
};
/* RetryInfo as grpc-status-details-bin, and grpc-retry-pushback-ms; nothing
 * when retry_after_ns is 0. details is the status message. Give back with
 * _unref once the batch has been started. */
void wp_rpc_trailers_make(struct wp_rpc_trailers *trailers,
                          enum wp_status status, const grpc_slice *details,
                          int64_t retry_after_ns);
void wp_rpc_trailers_unref(struct wp_rpc_trailers *trailers);
/* Sends gRPC's own log lines to ours, at most a few a second. */
void wp_rpc_log_route(void);
/* True for ever once a TLS listener has died for want of descriptors. Any
 * thread. */
bool wp_rpc_accept_failed(void);

/* --- peer.c --- */

/* Binds the clear-text listeners; fills server->address. */
WP_MUST_CHECK enum wp_status wp_rpc_peers_create(struct wp_rpc_server *server,
                                                 struct wp_err *err);
WP_MUST_CHECK enum wp_status wp_rpc_peers_start(struct wp_rpc_peers *peers,
                                                struct wp_err *err);
/* Ends the accepting thread and closes the listeners. */
void wp_rpc_peers_stop(struct wp_rpc_peers *peers);
/* After the server has no connection left. */
void wp_rpc_peers_destroy(struct wp_rpc_peers *peers);
void wp_rpc_peers_stats(const struct wp_rpc_peers *peers,
                        struct wp_rpc_stats *out);
/* Who makes this call. False: nobody who may; who->name says who it was. The
 * queue's thread, while the call is alive. */
WP_MUST_CHECK bool wp_rpc_peer_identify(struct wp_rpc_server *server,
                                        grpc_call *call,
                                        struct wp_identity *who);
/* The entry for name, or NULL. */
const struct wp_rpc_principal *
wp_rpc_principal_find(const struct wp_rpc_config *config, const char *name);

/* --- tls.c --- */

/* Reads and checks the files the config names. */
WP_MUST_CHECK struct wp_rpc_tls *
wp_rpc_tls_create(const struct wp_rpc_config *config, struct wp_err *err);
/* After the server has been destroyed. NULL is ignored. */
void wp_rpc_tls_destroy(struct wp_rpc_tls *tls);
/* To be released by the caller; borrows tls. */
grpc_server_credentials *wp_rpc_tls_credentials(struct wp_rpc_tls *tls);
uint64_t wp_rpc_tls_reloads(const struct wp_rpc_tls *tls);
/* As wp_rpc_peer_identify, for a call over TLS. */
WP_MUST_CHECK bool wp_rpc_tls_identify(const struct wp_rpc_config *config,
                                       grpc_call *call,
                                       struct wp_identity *who);

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

struct wp_rpc_reflection *
wp_rpc_reflection_create(struct wp_rpc_server *server);
void wp_rpc_reflection_destroy(struct wp_rpc_reflection *reflection);
const struct wp_service *
wp_rpc_reflection_service(const struct wp_rpc_reflection *reflection);

#endif
