/* M. Michael and M. Scott, "Simple, fast, and practical non-blocking and
 * blocking concurrent queue algorithms", PODC 1996, on indexes instead of
 * pointers.
 *
 * A link is {tag, node + 1}; every change of a link adds one to its tag, for as
 * long as the table lives, so a CAS by a thread that slept while its node went
 * through the queue again fails. The tag has 38 bits: to be fooled, a thread
 * has to sleep through exactly 2^38 changes of one link, hours at any real
 * rate.
 *
 * The head's node is a dummy. When it is popped, its successor becomes the
 * dummy and the popped slot inherits the old one: so a queue of n slots has n +
 * 1 nodes, and a slot that is in no queue has one to bring. */
#include "pool/slots/ready_queue.h"

#include "pool/base/assert.h"

#define INDEX_BITS 26
#define INDEX_MASK ((UINT64_C(1) << INDEX_BITS) - 1)

_Static_assert(WP_SLOTS_MAX + WP_QUEUES_PER_POOL * WP_POOLS_MAX + 1 <
                   INDEX_MASK,
               "a node fits");

enum {
    /* Dead slots that are not worth a purge. */
    PURGE_SLACK = 8,
    /* How far ahead of the head pop fetches: memory answers later than the next
     * pop comes. */
    PREFETCH_AHEAD = 3,
};

static inline bool
link_is_nil(uint64_t link)
{
    return (link & INDEX_MASK) == 0;
}

static inline uint32_t
link_node(uint64_t link)
{
    return (uint32_t)(link & INDEX_MASK) - 1;
}

/* What replaces old and leads to node. */
static inline uint64_t
link_to(uint64_t old, uint32_t node)
{
    return ((old >> INDEX_BITS) + 1) << INDEX_BITS | ((uint64_t)node + 1);
}

static inline uint64_t
link_to_nil(uint64_t old)
{
    return ((old >> INDEX_BITS) + 1) << INDEX_BITS;
}

static void
init(struct wp_ready_queue *queue, struct wp_slots *slots, uint32_t pool_index,
     uint32_t dummy)
{
    WP_ASSERT(pool_index < slots->pools_max);
    queue->slots = slots;
    queue->pool_index = pool_index;
    atomic_init(&queue->head, link_to(0, dummy));
    atomic_init(&queue->tail, link_to(0, dummy));
}

void
wp_ready_queue_init(struct wp_ready_queue *queue, struct wp_slots *slots,
                    uint32_t pool_index)
{
    init(queue, slots, pool_index, pool_index);
}

void
wp_ready_queue_init_second(struct wp_ready_queue *queue, struct wp_slots *slots,
                           uint32_t pool_index)
{
    init(queue, slots, pool_index, slots->pools_max + pool_index);
}

void
wp_ready_queue_take_over(struct wp_ready_queue *queue,
                         const struct wp_ready_queue *from)
{
    WP_ASSERT(wp_ready_queue_is_empty(from));
    queue->slots = from->slots;
    queue->pool_index = from->pool_index;
    /* Its dummy need not be the first one; and whoever was late with a change
     * of the old words finds that their tags have gone on. */
    atomic_init(&queue->head,
                atomic_load_explicit(&from->head, memory_order_acquire));
    atomic_init(&queue->tail,
                atomic_load_explicit(&from->tail, memory_order_acquire));
}

/* Moves the tail on to the node its node leads to; harmless when another
 * did. */
static void
tail_help(struct wp_ready_queue *queue, uint64_t tail, uint64_t next)
{
    /* Release, paired with the acquire loads of tail: who finds the node
     * through the tail sees the node as its pusher wrote it. */
    (void)atomic_compare_exchange_strong_explicit(
        &queue->tail, &tail, link_to(tail, link_node(next)),
        memory_order_release, memory_order_relaxed);
}

static void
append(struct wp_ready_queue *queue, uint32_t index)
{
    struct wp_ready_node *nodes = queue->slots->nodes;
    /* Ours with the slot: written by who unlinked it last, before the move of
     * the slot's word that began its way here. */
    uint32_t mine = atomic_load_explicit(&queue->slots->hot[index].queue_node,
                                         memory_order_relaxed);
    uint64_t old =
        atomic_load_explicit(&nodes[mine].next, memory_order_relaxed);

    atomic_store_explicit(&nodes[mine].slot, index, memory_order_relaxed);
    /* Release: a thread that still holds this node as a tail or head of old and
     * reads this nil, then looks at tail or head again and sees it moved. */
    atomic_store_explicit(&nodes[mine].next, link_to_nil(old),
                          memory_order_release);
    for (;;) {
        /* Pairs with the release in tail_help. */
        uint64_t tail =
            atomic_load_explicit(&queue->tail, memory_order_acquire);
        uint32_t last = link_node(tail);
        uint64_t next =
            atomic_load_explicit(&nodes[last].next, memory_order_acquire);

        if (tail != atomic_load_explicit(&queue->tail, memory_order_relaxed)) {
            continue;
        }
        if (!link_is_nil(next)) {
            tail_help(queue, tail, next);
            continue;
        }
        /* The push happens here. Release pairs with the load of next in unlink;
         * seq_cst so that a producer which then looks for waiting claims and a
         * claim which announced itself and then looked here cannot miss each
         * other (see the header). */
        if (atomic_compare_exchange_weak_explicit(
                &nodes[last].next, &next, link_to(next, mine),
                memory_order_seq_cst, memory_order_relaxed)) {
            tail_help(queue, tail, link_to(next, mine));
            return;
        }
    }
}

/* Fetches what later pops will read: a node PREFETCH_AHEAD places behind the
 * new dummy first, and the lines of the slot one place before it. The nodes
 * walked over here were fetched by the pops before this one. Other threads may
 * use any of them for something else by now: then wrong lines are fetched, no
 * more. */
static void
prefetch_after(const struct wp_slots *slots, uint32_t first)
{
    const struct wp_slot_cold *cold;
    uint32_t node = first;
    uint64_t next = 0;
    uint32_t slot;

    for (int i = 0; i < PREFETCH_AHEAD; i++) {
        next = atomic_load_explicit(&slots->nodes[node].next,
                                    memory_order_relaxed);
        if (link_is_nil(next)) {
            return;
        }
        if (i + 1 < PREFETCH_AHEAD) {
            node = link_node(next);
        }
    }
    WP_PREFETCH(&slots->nodes[link_node(next)]);
    slot = atomic_load_explicit(&slots->nodes[node].slot, memory_order_relaxed);
    cold = &slots->cold[slot];
    WP_PREFETCH(&slots->hot[slot]);
    WP_PREFETCH(cold);
    WP_PREFETCH((const char *)cold + WP_CACHELINE);
    WP_PREFETCH((const char *)cold + 2 * WP_CACHELINE);
}

/* Unlinks the oldest slot, whatever its state, and gives it its new node. The
 * slot keeps its queued bit. False when empty. */
static bool
unlink_oldest(struct wp_ready_queue *queue, uint32_t *index)
{
    struct wp_slots *slots = queue->slots;

    for (;;) {
        /* Acquire pairs with the release of the CAS below. */
        uint64_t head =
            atomic_load_explicit(&queue->head, memory_order_acquire);
        uint64_t tail =
            atomic_load_explicit(&queue->tail, memory_order_acquire);
        /* Acquire pairs with the release of the link in append. When this is
         * nil and the head is still the same, the queue was empty just now. */
        uint64_t next = atomic_load_explicit(
            &slots->nodes[link_node(head)].next, memory_order_seq_cst);
        uint32_t first;

        if (head != atomic_load_explicit(&queue->head, memory_order_relaxed)) {
            continue;
        }
        if (link_is_nil(next)) {
            return false;
        }
        if (link_node(head) == link_node(tail)) {
            /* The head never overtakes the tail: a pusher must not find a node
             * there that is out of the queue. */
            tail_help(queue, tail, next);
            continue;
        }
        first = link_node(next);
        *index = atomic_load_explicit(&slots->nodes[first].slot,
                                      memory_order_relaxed);
        if (atomic_compare_exchange_weak_explicit(
                &queue->head, &head, link_to(head, first), memory_order_acq_rel,
                memory_order_relaxed)) {
            atomic_store_explicit(&slots->hot[*index].queue_node,
                                  link_node(head), memory_order_relaxed);
            prefetch_after(slots, first);
            return true;
        }
    }
}

void
wp_ready_queue_push(struct wp_ready_queue *queue, struct wp_slot_ref ref)
{
    WP_ASSERT(ref.index < queue->slots->slots_max);
    append(queue, ref.index);
}

struct wp_slot_ref
wp_ready_queue_pop(struct wp_ready_queue *queue, enum wp_slot_state to)
{
    struct wp_slot_ref ref;
    uint32_t index;

    while (unlink_oldest(queue, &index)) {
        if (wp_slot_dequeue(queue->slots, index, to, &ref)) {
            return ref;
        }
    }
    return WP_SLOT_REF_NONE;
}

bool
wp_ready_queue_is_empty(const struct wp_ready_queue *queue)
{
    uint64_t head = atomic_load_explicit(&queue->head, memory_order_acquire);

    return link_is_nil(atomic_load_explicit(
        &queue->slots->nodes[link_node(head)].next, memory_order_acquire));
}

/* The slot behind this node, which another thread may unlink meanwhile;
 * WP_SLOT_NONE when there is none. */
static uint32_t
slot_behind(const struct wp_slots *slots, uint64_t link)
{
    uint64_t next = atomic_load_explicit(&slots->nodes[link_node(link)].next,
                                         memory_order_acquire);

    return link_is_nil(next)
               ? WP_SLOT_NONE
               : atomic_load_explicit(&slots->nodes[link_node(next)].slot,
                                      memory_order_relaxed);
}

static uint32_t
oldest(const struct wp_ready_queue *queue)
{
    return slot_behind(
        queue->slots, atomic_load_explicit(&queue->head, memory_order_acquire));
}

/* When the tail lags behind, the slot that was pushed after it. */
static uint32_t
youngest(const struct wp_ready_queue *queue)
{
    uint64_t tail = atomic_load_explicit(&queue->tail, memory_order_acquire);
    uint32_t after = slot_behind(queue->slots, tail);

    return after != WP_SLOT_NONE
               ? after
               : atomic_load_explicit(
                     &queue->slots->nodes[link_node(tail)].slot,
                     memory_order_relaxed);
}

/* Appends the slot, which was unlinked, again when it is ready. */
static bool
append_ready(struct wp_ready_queue *queue, uint32_t index)
{
    struct wp_slots *slots = queue->slots;
    struct wp_slot_ref ref;

    if (!wp_slot_is_ready(slots, index)) {
        bool push;
        bool back;

        if (!wp_slot_dequeue(slots, index, WP_SLOT_LEASED, &ref)) {
            return false;
        }
        /* Reopened between the two looks. */
        back = wp_slot_reopen(slots, ref, &push);
        WP_ASSERT(back && push); /* It was ours for that moment. */
    }
    append(queue, index);
    return true;
}

uint32_t
wp_ready_queue_purge(struct wp_ready_queue *queue, uint32_t steps)
{
    const struct wp_slots *slots = queue->slots;
    /* Of this pool, in both its queues. */
    uint32_t linked = wp_slots_count(slots, queue->pool_index, WP_SLOT_READY) +
                      wp_slots_tombstones(slots, queue->pool_index);
    uint32_t last = youngest(queue);
    uint32_t first = WP_SLOT_NONE; /* Of those that are appended again. */
    uint32_t freed = 0;

    for (uint32_t i = 0; i < linked && i < steps; i++) {
        uint32_t index;

        /* The turn ends with the slot that was the youngest; when a claim has
         * taken that, with the one that begins the next turn. */
        if ((first != WP_SLOT_NONE && oldest(queue) == first) ||
            !unlink_oldest(queue, &index)) {
            break;
        }
        if (!append_ready(queue, index)) {
            freed++;
        } else if (first == WP_SLOT_NONE) {
            first = index;
        }
        if (index == last) {
            break;
        }
    }
    return freed;
}

bool
wp_ready_queue_purge_due(const struct wp_ready_queue *queue)
{
    const struct wp_slots *slots = queue->slots;
    uint32_t dead = wp_slots_tombstones(slots, queue->pool_index);

    return dead > PURGE_SLACK &&
           dead - PURGE_SLACK >
               wp_slots_count(slots, queue->pool_index, WP_SLOT_READY);
}
