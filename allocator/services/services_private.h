/* allocator/services/services_private.h - what the services share. */
#ifndef WP_ALLOCATOR_SERVICES_SERVICES_PRIVATE_H
#define WP_ALLOCATOR_SERVICES_SERVICES_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "allocator/services/services.h"
#include "proto/wire/wire.h"

enum {
    WP_BATCHES_MAX = 64,
    WP_WATCHES_MAX = 1024,
};

struct wp_advise; /* refusal.c: all write err->msg. Any thread. */
/* Why the claim got nothing: claim->reason, or err->msg, which says more. The
 * claim's pool and namespace must still be there. */
const char *wp_service_claim_reason(struct wp_services *services,
                                    const struct wp_claim *claim,
                                    struct wp_err *err);
enum wp_status wp_service_no_pool(struct wp_str pool_namespace,
                                  struct wp_str pool, struct wp_err *err);
void wp_service_ttl_too_long(int64_t ttl_max_ns, struct wp_err *err);
enum wp_status wp_service_no_claim(struct wp_services *services,
                                   struct wp_str tenant, struct wp_str claim_id,
                                   struct wp_err *err);

/* advise.c */
struct wp_batch;        /* batch.c */
struct wp_claim_stream; /* claim_stream.h */
struct wp_watch;        /* watch.c */

/* Locks: a watch's lock, then page_lock, or that of Advise; streams_lock, then
 * one of the streams'. Nothing else is taken under them but what the
 * transport's reserve, send and finish take. */
struct wp_services {
    struct wp_services_config config;

    /* Room for one page of claims or pools, so that a reply's size is known
     * before the transport is asked for that much. */
    pthread_mutex_t page_lock;    /* guards: claims, pools */
    struct wp_claim_info *claims; /* Owned; WP_PAGE_MAX. */
    struct wp_pool_stats *pools;  /* Owned; WP_POOLS_MAX. */

    _Atomic(uint32_t) waiting;     /* Claim calls that may wait. */
    _Atomic(size_t) binding_bytes; /* Of what claims under way bring. */

    struct wp_batch *batches;         /* Owned; config.batches_max. */
    _Atomic(uint64_t) batches_in_use; /* One bit each. */

    struct wp_watch *watches; /* Owned; config.watches_max. */
    /* Of them, those with a call; changed under their locks, read without. */
    _Atomic(uint32_t) watches_open;
    struct wp_advise *advise; /* Owned. */
    _Atomic(bool) stopping;

    pthread_mutex_t streams_lock;     /* guards: which stream has which id */
    struct wp_claim_stream *streams;  /* Owned; WP_STREAMS_MAX. */
    _Atomic(uint64_t) streams_opened; /* Ever. */
    _Atomic(bool) streams_end;
};

static inline struct wp_services *
wp_services_of(const struct wp_call *call)
{
    return call->service;
}

/* Zeroed memory in the call's arena; NULL after having finished the call. */
void *wp_service_state(struct wp_call *call, size_t size);
/* False after having finished the call with UNAVAILABLE: another replica knows
 * the leases. */
WP_MUST_CHECK bool wp_service_serves(struct wp_call *call);
/* Ends the call with what err says. */
void wp_service_refuse(struct wp_call *call, const struct wp_err *err);
/* Room for a reply; NULL after having finished the call. */
uint8_t *wp_service_reserve(struct wp_call *call, size_t len);
/* Whose claims the call is about: the tenant the caller's credentials fix, or
 * else the one asked for. False after having finished the call with
 * PERMISSION_DENIED, when they fix one and it asks for another's. An admin may
 * ask for anybody's. */
WP_MUST_CHECK bool wp_service_tenant(struct wp_call *call, struct wp_str asked,
                                     struct wp_str *tenant);
/* UINT32_MAX after having finished the call with NOT_FOUND. */
uint32_t wp_service_find_pool(struct wp_call *call,
                              const struct wp_wire_pool_ref *pool);
/* How long a claim may wait: what was asked for, but so much less than the
 * call's deadline that its answer still arrives. */
int64_t wp_service_wait_ns(const struct wp_call *call, int64_t wait_ms);
/* Runs run(call, 0, 0) on the control thread, which owns the call from here on;
 * or finishes it with UNAVAILABLE. */
void wp_service_post(struct wp_call *call,
                     void (*run)(void *call, uint64_t a, uint64_t b));

/* advise.c */
WP_MUST_CHECK bool wp_service_advise_create(struct wp_services *services);
void wp_service_advise_destroy(struct wp_services *services);
void wp_service_advise_start(struct wp_call *call, const uint8_t *bytes,
                             size_t len);
/* After the watches' stop. */
void wp_service_advise_stop(struct wp_services *services);

/* shape.c */
void wp_service_create_pool_start(struct wp_call *call, const uint8_t *bytes,
                                  size_t len);
void wp_service_delete_pool_start(struct wp_call *call, const uint8_t *bytes,
                                  size_t len);

/* admin.c: answers with all that there is to say of the pool. */
void wp_service_reply_pool(struct wp_call *call, uint32_t index);

/* batch.c */
WP_MUST_CHECK bool wp_service_batch_create(struct wp_services *services);
void wp_service_batch_destroy(struct wp_services *services);
void wp_service_batch_start(struct wp_call *call, const uint8_t *bytes,
                            size_t len);

/* claim_stream.c; start is in claim_stream_client.c */
WP_MUST_CHECK bool wp_service_stream_create(struct wp_services *services);
void wp_service_stream_destroy(struct wp_services *services);
void wp_service_stream_start(struct wp_call *call, const uint8_t *bytes,
                             size_t len);
void wp_service_stream_changed(struct wp_services *services,
                               uint32_t pool_index);
int64_t wp_service_stream_run(struct wp_services *services);
void wp_service_stream_end(struct wp_services *services);

/* watch.c */
WP_MUST_CHECK bool wp_service_watch_create(struct wp_services *services);
void wp_service_watch_destroy(struct wp_services *services);
void wp_service_watch_start(struct wp_call *call, const uint8_t *bytes,
                            size_t len);
void wp_service_watch_changed(struct wp_services *services,
                              uint32_t pool_index);
int64_t wp_service_watch_run(struct wp_services *services);
void wp_service_watch_stop(struct wp_services *services);

#endif
