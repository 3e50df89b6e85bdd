/* allocator/services/services.h - what the RPCs of warmpool.v1 do, without a
 * transport.
 *
 * One wp_services per daemon. A transport is given the two services and calls
 * their methods on its own threads. Claims, renewals, releases and questions
 * are answered on those threads, or on the one that completes them; work that
 * shapes pools is posted to the control thread and answered there.
 *
 * The daemon wires it so:
 *   wp_pools_config.changed -> wp_services_changed(services, pool_index)
 *   a turn of control       -> wp_pools_run, then wp_services_run
 *   leases are waited for   -> before it, wp_services_end_streams on the
 *                              control thread
 *   leaving                 -> wp_services_stop on the control thread before
 *                              the transport's drain, so that watches end
 * When the transport has stopped, all calls have been answered, and the control
 * thread has run its messages, wp_services_destroy may be called. */
#ifndef WP_ALLOCATOR_SERVICES_SERVICES_H
#define WP_ALLOCATOR_SERVICES_SERVICES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "allocator/services/service.h"
#include "pool/base/clock.h"
#include "pool/base/channel.h"
#include "pool/base/status.h"
#include "pool/pool.h"

struct wp_services; /* Opaque. */

/* A pool to be made or removed, by who may block. */
struct wp_pool_job {
    struct wp_str manifest;       /* Of a pool to be made; else ptr is NULL. */
    struct wp_str pool_namespace; /* Of one to be removed. */
    struct wp_str pool;
    /* Ends it, from any thread: index is the pool made or removed, and counts
     * when err is NULL; err says what was refused. Once. */
    void (*done)(struct wp_pool_job *job, uint32_t index,
                 const struct wp_err *err);
};

struct wp_services_config {
    struct wp_pools *pools;       /* Borrowed until destroy. */
    const struct wp_clock *clock; /* The pools' own. */

    /* Runs message on the control thread; false when its channel is full, and
     * then the RPC answers UNAVAILABLE. Any thread. */
    bool (*post)(void *ctx, struct wp_message message);
    /* Has the control thread call wp_services_run soon. Any thread. */
    void (*wake)(void *ctx);
    /* An admin wants the whole daemon to leave: no new claims from here on, and
     * the process ends when its leases have, or grace_ns later. Returns at
     * once. Control thread. */
    void (*drain)(void *ctx, int64_t grace_ns);
    /* Has the job done and ended, later. RESOURCE_EXHAUSTED: another one is
     * under way; UNAVAILABLE: the daemon leaves. Then the job is still the
     * caller's. Any thread. */
    enum wp_status (*shape)(void *ctx, struct wp_pool_job *job,
                            struct wp_err *err);
    void *ctx;
    /* False while another replica is the only one that knows the leases: the
     * Allocator's methods then answer UNAVAILABLE. NULL: always true. */
    const _Atomic(bool) *serves;

    /* Why SetPool cannot change targets, and what can: a sentence for who calls
     * it, answered as FAILED_PRECONDITION. NULL: it can. */
    const char *targets_are_kept;
    /* The same for CreatePool and DeletePool. Not NULL: shape is not used. */
    const char *pools_are_kept;

    /* Claim calls that may wait for a sandbox, at least 1: more are tried at
     * once and then refused. What else is called finds the rest of the
     * transport's room. */
    uint32_t waiting_max;
    uint32_t batches_max;      /* ClaimBatch in progress; 1..64. */
    uint32_t watches_max;      /* WatchPools streams; 1..1024. */
    int64_t watch_interval_ns; /* Least time between two messages of one. */
};

/* 2048 waiting, 16 batches, 64 watches, 100 ms; no pools are made. The rest is
 * 0 and has to be filled in. */
void wp_services_config_init(struct wp_services_config *config);

/* Copies config. NULL and err when memory lacks or a bound is out of range. */
struct wp_services *wp_services_create(const struct wp_services_config *config,
                                       struct wp_err *err);
/* NULL is fine. */
void wp_services_destroy(struct wp_services *services);

/* warmpool.v1.Allocator and warmpool.v1.PoolAdmin; they borrow services. */
struct wp_service wp_service_allocator(struct wp_services *services);
struct wp_service wp_service_admin(struct wp_services *services);

/* The pool's numbers changed. Fits wp_pools_config.changed, with the services
 * as ctx. Control thread; wp_services_run is to follow in the same turn. */
void wp_services_changed(void *ctx, uint32_t pool_index);
/* Sends what watches and claim streams are owed, and releases what streams
 * that broke have left; returns when to be called again at the latest
 * (monotonic), WP_TIME_NEVER when nothing is owed. Control thread. */
int64_t wp_services_run(struct wp_services *services);
/* Any thread. */
struct wp_stream_stats {
    uint32_t open;   /* Streams, */
    uint32_t broken; /* and those whose client may come back. */
    uint32_t ahead;  /* Leases on both that were not said to be taken. */
};
void wp_services_stream_stats(struct wp_services *services,
                              struct wp_stream_stats *out);
/* Ends all claim streams with UNAVAILABLE and refuses new ones, so that leases
 * that nobody has taken are held no longer than the grace of a stream. Control
 * thread. */
void wp_services_end_streams(struct wp_services *services);
/* Ends all watches and claim streams with UNAVAILABLE and refuses new ones.
 * Control thread. */
void wp_services_stop(struct wp_services *services);

#endif
