#include "pool/claims/wait_queue.h"

#include <stdlib.h>

#include "pool/base/assert.h"

enum {
    BUCKETS = 512, /* Twice the tenants; a power of two. */
};

#define NO_TENANT UINT32_MAX

/* In `turn` exactly while it has waiters; its name is that of any of them. */
struct wp_wait_tenant {
    struct wp_list turn; /* In queue->turn or queue->unused. */
    struct wp_list claims;
    uint64_t hash;
    uint32_t next; /* In its bucket. */
    uint32_t count;
};

/* The deadline is kept beside the pointer, so that moving through the heap does
 * not touch the claims compared. */
struct wp_wait_node {
    int64_t until_ns;
    struct wp_claim *claim;
};

/* --- The heap of deadlines. claim->timed is its place, counted from 1. --- */

static void
heap_put(struct wp_wait_queue *queue, uint32_t at, struct wp_wait_node node)
{
    queue->heap[at] = node;
    node.claim->timed = at + 1;
}

static void
heap_rise(struct wp_wait_queue *queue, uint32_t at, struct wp_wait_node node)
{
    while (at > 0) {
        uint32_t parent = (at - 1) / 2;

        if (queue->heap[parent].until_ns <= node.until_ns) {
            break;
        }
        heap_put(queue, at, queue->heap[parent]);
        at = parent;
    }
    heap_put(queue, at, node);
}

/* count is that of the heap without the hole at `at`, which node is to fill. */
static void
heap_sink(struct wp_wait_queue *queue, uint32_t at, struct wp_wait_node node)
{
    uint32_t count = queue->count;

    for (;;) {
        uint32_t child = 2 * at + 1;

        if (child >= count) {
            break;
        }
        if (child + 1 < count &&
            queue->heap[child + 1].until_ns < queue->heap[child].until_ns) {
            child++;
        }
        if (node.until_ns <= queue->heap[child].until_ns) {
            break;
        }
        heap_put(queue, at, queue->heap[child]);
        at = child;
    }
    heap_put(queue, at, node);
}

/* queue->count has been lowered already: the last node fills the hole. */
static void
heap_remove(struct wp_wait_queue *queue, struct wp_claim *claim)
{
    uint32_t at = claim->timed - 1;
    struct wp_wait_node last = queue->heap[queue->count];

    WP_ASSERT(at <= queue->count && queue->heap[at].claim == claim);
    claim->timed = 0;
    if (last.claim == claim) {
        return;
    }
    if (at > 0 && queue->heap[(at - 1) / 2].until_ns > last.until_ns) {
        heap_rise(queue, at, last);
    } else {
        heap_sink(queue, at, last);
    }
}

/* --- Tenants. --- */

static uint64_t
tenant_hash(const struct wp_wait_queue *queue, struct wp_str tenant)
{
    return wp_siphash128(queue->hash_key, tenant.ptr, tenant.len).low;
}

static struct wp_claim *
first_claim(const struct wp_wait_tenant *tenant)
{
    return WP_CONTAINER_OF(tenant->claims.next, struct wp_claim, waiting);
}

static uint32_t
tenant_find(const struct wp_wait_queue *queue, struct wp_str name,
            uint64_t hash)
{
    uint32_t i = queue->buckets[hash % BUCKETS];

    while (i != NO_TENANT) {
        const struct wp_wait_tenant *tenant = &queue->tenants[i];

        if (tenant->hash == hash &&
            wp_str_eq(first_claim(tenant)->tenant, name)) {
            break;
        }
        i = tenant->next;
    }
    return i;
}

/* A record for a tenant that had none, last in turn; NO_TENANT when all are in
 * use. */
static uint32_t
tenant_add(struct wp_wait_queue *queue, uint64_t hash)
{
    struct wp_list *node = wp_list_pop_front(&queue->unused);
    uint32_t *bucket = &queue->buckets[hash % BUCKETS];
    struct wp_wait_tenant *tenant;

    if (node == NULL) {
        return NO_TENANT;
    }
    tenant = WP_CONTAINER_OF(node, struct wp_wait_tenant, turn);
    tenant->hash = hash;
    tenant->next = *bucket;
    *bucket = (uint32_t)(tenant - queue->tenants);
    wp_list_push_back(&queue->turn, &tenant->turn);
    return *bucket;
}

static void
tenant_drop(struct wp_wait_queue *queue, struct wp_wait_tenant *tenant)
{
    uint32_t index = (uint32_t)(tenant - queue->tenants);
    uint32_t *link = &queue->buckets[tenant->hash % BUCKETS];

    while (*link != index) {
        WP_ASSERT(*link != NO_TENANT);
        link = &queue->tenants[*link].next;
    }
    *link = tenant->next;
    wp_list_remove(&tenant->turn);
    wp_list_push_back(&queue->unused, &tenant->turn);
}

/* --- The queue. --- */

bool
wp_wait_queue_init(struct wp_wait_queue *queue, uint32_t waiters_max,
                   uint32_t tenant_waiters_max, struct wp_hash_key hash_key)
{
    *queue = (struct wp_wait_queue){.hash_key = hash_key,
                                    .heap_max = waiters_max,
                                    .waiters_max = waiters_max,
                                    .tenant_waiters_max = tenant_waiters_max};
    wp_list_init(&queue->turn);
    wp_list_init(&queue->unused);
    /* At least one node, since calloc(0) may answer NULL. */
    queue->heap = calloc((size_t)waiters_max + 1, sizeof *queue->heap);
    queue->tenants = calloc(WP_WAIT_TENANTS_MAX, sizeof *queue->tenants);
    queue->buckets = calloc(BUCKETS, sizeof *queue->buckets);
    if (queue->heap == NULL || queue->tenants == NULL ||
        queue->buckets == NULL) {
        wp_wait_queue_fini(queue);
        return false;
    }
    for (uint32_t i = 0; i < WP_WAIT_TENANTS_MAX; i++) {
        wp_list_init(&queue->tenants[i].claims);
        wp_list_push_back(&queue->unused, &queue->tenants[i].turn);
    }
    for (uint32_t i = 0; i < BUCKETS; i++) {
        queue->buckets[i] = NO_TENANT;
    }
    return true;
}

void
wp_wait_queue_fini(struct wp_wait_queue *queue)
{
    WP_ASSERT(queue->count == 0);
    free(queue->heap);
    free(queue->tenants);
    free(queue->buckets);
    queue->heap = NULL;
    queue->tenants = NULL;
    queue->buckets = NULL;
}

bool
wp_wait_queue_resize(struct wp_wait_queue *queue, uint32_t waiters_max,
                     uint32_t tenant_waiters_max)
{
    if (waiters_max > queue->heap_max) {
        struct wp_wait_node *heap =
            realloc(queue->heap, ((size_t)waiters_max + 1) * sizeof *heap);

        if (heap == NULL) {
            return false;
        }
        queue->heap = heap;
        queue->heap_max = waiters_max;
    }
    queue->waiters_max = waiters_max;
    queue->tenant_waiters_max = tenant_waiters_max;
    return true;
}

size_t
wp_wait_queue_bytes(uint32_t waiters_max)
{
    return ((size_t)waiters_max + 1) * sizeof(struct wp_wait_node) +
           WP_WAIT_TENANTS_MAX * sizeof(struct wp_wait_tenant) +
           BUCKETS * sizeof(uint32_t);
}

enum wp_wait_result
wp_wait_queue_push(struct wp_wait_queue *queue, struct wp_claim *claim)
{
    struct wp_wait_node node = {claim->wait_until_ns, claim};
    uint64_t hash;
    uint32_t index;
    struct wp_wait_tenant *tenant;

    WP_ASSERT(claim->timed == 0);
    if (queue->count >= queue->waiters_max) {
        return WP_WAIT_FULL;
    }
    if (queue->tenant_waiters_max == 0) {
        return WP_WAIT_TENANT_FULL;
    }
    hash = tenant_hash(queue, claim->tenant);
    index = tenant_find(queue, claim->tenant, hash);
    if (index == NO_TENANT) {
        index = tenant_add(queue, hash);
        if (index == NO_TENANT) {
            return WP_WAIT_TENANTS_FULL;
        }
    }
    tenant = &queue->tenants[index];
    if (tenant->count >= queue->tenant_waiters_max) {
        return WP_WAIT_TENANT_FULL;
    }
    tenant->count++;
    if (claim->tenant_waiting != NULL) {
        (void)atomic_fetch_add_explicit(claim->tenant_waiting, 1,
                                        memory_order_relaxed);
    }
    claim->tenant_slot = index;
    wp_list_push_back(&tenant->claims, &claim->waiting);
    heap_rise(queue, queue->count++, node);
    return WP_WAIT_QUEUED;
}

bool
wp_wait_queue_remove(struct wp_wait_queue *queue, struct wp_claim *claim)
{
    struct wp_wait_tenant *tenant;

    if (claim->timed == 0) {
        return false;
    }
    tenant = &queue->tenants[claim->tenant_slot];
    queue->count--;
    if (claim->tenant_waiting != NULL) {
        (void)atomic_fetch_sub_explicit(claim->tenant_waiting, 1,
                                        memory_order_relaxed);
    }
    heap_remove(queue, claim);
    wp_list_remove(&claim->waiting);
    if (--tenant->count == 0) {
        tenant_drop(queue, tenant);
    }
    return true;
}

struct wp_claim *
wp_wait_queue_next(const struct wp_wait_queue *queue,
                   bool (*may)(const struct wp_claim *claim))
{
    WP_LIST_FOREACH (node, &queue->turn) {
        struct wp_claim *claim =
            first_claim(WP_CONTAINER_OF(node, struct wp_wait_tenant, turn));

        if (may(claim)) {
            return claim;
        }
    }
    return NULL;
}

void
wp_wait_queue_serve(struct wp_wait_queue *queue, struct wp_claim *claim)
{
    struct wp_wait_tenant *tenant = &queue->tenants[claim->tenant_slot];
    bool waited;

    wp_list_remove(&tenant->turn);
    wp_list_push_back(&queue->turn, &tenant->turn);
    waited = wp_wait_queue_remove(queue, claim);
    WP_ASSERT(waited);
}

static bool
anybody(const struct wp_claim *claim)
{
    (void)claim;
    return true;
}

struct wp_claim *
wp_wait_queue_pop_next(struct wp_wait_queue *queue)
{
    struct wp_claim *claim = wp_wait_queue_next(queue, anybody);

    if (claim != NULL) {
        wp_wait_queue_serve(queue, claim);
    }
    return claim;
}

struct wp_claim *
wp_wait_queue_pop_expired(struct wp_wait_queue *queue, int64_t now_ns)
{
    struct wp_claim *claim;

    if (queue->count == 0 || queue->heap[0].until_ns > now_ns) {
        return NULL;
    }
    claim = queue->heap[0].claim;
    WP_ASSERT(wp_wait_queue_remove(queue, claim));
    return claim;
}

int64_t
wp_wait_queue_next_deadline(const struct wp_wait_queue *queue)
{
    return queue->count == 0 ? WP_TIME_NEVER : queue->heap[0].until_ns;
}

uint32_t
wp_wait_queue_count(const struct wp_wait_queue *queue)
{
    return queue->count;
}

uint32_t
wp_wait_queue_tenant_count(const struct wp_wait_queue *queue,
                           struct wp_str tenant)
{
    uint32_t index = tenant_find(queue, tenant, tenant_hash(queue, tenant));

    return index == NO_TENANT ? 0 : queue->tenants[index].count;
}
