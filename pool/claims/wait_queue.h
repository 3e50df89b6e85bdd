/* pool/claims/wait_queue.h - the claims of one pool that wait for a sandbox.
 *
 * First come, first served within a tenant; tenants take turns. Ordered a
 * second time by wait_until_ns, for time-outs. Bounded three ways: claims,
 * claims of one tenant, tenants. The claims are the nodes; nothing is allocated
 * after init. The claim's tenant_waiting, unless NULL, is counted up and down.
 *
 * Not thread-safe: the caller holds the pool's wait lock around every call. */
#ifndef WP_POOL_CLAIMS_WAIT_QUEUE_H
#define WP_POOL_CLAIMS_WAIT_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/list.h"
#include "pool/base/siphash.h"
#include "pool/claim.h"

enum {
    WP_WAIT_TENANTS_MAX = 256, /* Different tenants waiting in one pool. */
};

enum wp_wait_result {
    WP_WAIT_QUEUED,
    WP_WAIT_FULL,         /* waiters_max claims wait already. */
    WP_WAIT_TENANT_FULL,  /* tenant_waiters_max claims of its tenant wait. */
    WP_WAIT_TENANTS_FULL, /* WP_WAIT_TENANTS_MAX other tenants wait. */
};

struct wp_wait_tenant;
struct wp_wait_node;

/* Private; read through the functions. */
struct wp_wait_queue {
    struct wp_wait_tenant *tenants; /* WP_WAIT_TENANTS_MAX, owned. */
    struct wp_wait_node *heap;      /* heap_max, owned; earliest first. */
    struct wp_list turn;   /* Tenants with waiters; next to serve first. */
    struct wp_list unused; /* Tenant records without waiters. */
    uint32_t *buckets;     /* Tenant records by hash; owned. */
    struct wp_hash_key hash_key;
    uint32_t count;
    uint32_t heap_max; /* What heap has room for. */
    uint32_t waiters_max;
    uint32_t tenant_waiters_max;
};

/* hash_key keeps tenants from choosing names that collide. A maximum of 0 means
 * that nobody may wait. False when memory lacks. */
WP_MUST_CHECK bool wp_wait_queue_init(struct wp_wait_queue *queue,
                                      uint32_t waiters_max,
                                      uint32_t tenant_waiters_max,
                                      struct wp_hash_key hash_key);
/* The queue must be empty: its claims would never be answered. */
void wp_wait_queue_fini(struct wp_wait_queue *queue);
/* Other maxima from now on; claims beyond them stay. False when memory lacks:
 * nothing was changed. */
WP_MUST_CHECK bool wp_wait_queue_resize(struct wp_wait_queue *queue,
                                        uint32_t waiters_max,
                                        uint32_t tenant_waiters_max);
/* Bytes that init reserves. */
size_t wp_wait_queue_bytes(uint32_t waiters_max);

/* Takes the claim until it is popped or removed; its tenant and wait_until_ns
 * stay as they are meanwhile. Not WP_WAIT_QUEUED: nothing was changed. The
 * claim must not be waiting already. O(log n). */
enum wp_wait_result wp_wait_queue_push(struct wp_wait_queue *queue,
                                       struct wp_claim *claim);
/* The oldest claim of the tenant whose turn it is; it stays in the queue. A
 * tenant whose oldest claim may(claim) denies is passed over and keeps its
 * turn. NULL when nobody waits, or nobody may. O(tenants passed over). */
struct wp_claim *wp_wait_queue_next(const struct wp_wait_queue *queue,
                                    bool (*may)(const struct wp_claim *claim));
/* Takes a claim out that wp_wait_queue_next has just given; its tenant's next
 * turn is after all the others'. O(log n). */
void wp_wait_queue_serve(struct wp_wait_queue *queue, struct wp_claim *claim);
/* Both, with nobody passed over; NULL when nobody waits. */
struct wp_claim *wp_wait_queue_pop_next(struct wp_wait_queue *queue);
/* Gives a claim with wait_until_ns <= now_ns, earliest first, or NULL. Does not
 * count as its tenant's turn. O(log n). */
struct wp_claim *wp_wait_queue_pop_expired(struct wp_wait_queue *queue,
                                           int64_t now_ns);
/* False when the claim is not waiting, which includes never having been pushed
 * (all zero). It must not be waiting in another queue. O(1) in the order of
 * service, O(log n) in that of deadlines. */
bool wp_wait_queue_remove(struct wp_wait_queue *queue, struct wp_claim *claim);

/* The earliest wait_until_ns; WP_TIME_NEVER when nobody waits. O(1). */
int64_t wp_wait_queue_next_deadline(const struct wp_wait_queue *queue);
uint32_t wp_wait_queue_count(const struct wp_wait_queue *queue);
uint32_t wp_wait_queue_tenant_count(const struct wp_wait_queue *queue,
                                    struct wp_str tenant);

#endif
