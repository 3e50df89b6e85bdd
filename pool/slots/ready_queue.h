/* pool/slots/ready_queue.h - the ready sandboxes of one pool, oldest first.
 *
 * A Michael-Scott queue: lock-free for any number of producers and consumers,
 * linearizable, so empty means empty, also while another thread is stopped in
 * the middle of a push. It never allocates and is never full: every slot brings
 * its node. Nodes are named by index with a tag beside it in one 64-bit word.
 *
 * First in, first out: scale-down must drop the stalest, every ready sandbox
 * gets its turn so ages stay bounded, and a batch made together is used
 * together. A stack would be warmer in the cache by some nanoseconds; pop gets
 * these back by fetching the next slot's lines ahead.
 *
 * Empty and waiting: the link a push makes and the look at it that lets pop say
 * "empty" are both sequentially consistent. So a claim that first announces
 * itself (a seq_cst store or RMW) and then pops in vain, and a producer that
 * first pushes and then looks for such claims (a seq_cst load), cannot miss
 * each other: one of the two sees the other. */
#ifndef WP_POOL_SLOTS_READY_QUEUE_H
#define WP_POOL_SLOTS_READY_QUEUE_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/slots/slot.h"

struct wp_ready_queue {
    alignas(WP_CACHELINE) _Atomic(uint64_t) head; /* {tag, node}: the dummy. */
    alignas(WP_CACHELINE) _Atomic(uint64_t) tail; /* {tag, node} */
    alignas(WP_CACHELINE) struct wp_slots *slots; /* Borrowed from init. */
    uint32_t pool_index;
};

/* Empty queue of pool pool_index; each pool_index has one queue for as long as
 * the table lives, and one more by init_second. Before sharing. */
void wp_ready_queue_init(struct wp_ready_queue *queue, struct wp_slots *slots,
                         uint32_t pool_index);
void wp_ready_queue_init_second(struct wp_ready_queue *queue,
                                struct wp_slots *slots, uint32_t pool_index);

/* An empty queue that goes on where from, which is empty and which nobody uses
 * any more, has stopped. Before sharing. */
void wp_ready_queue_take_over(struct wp_ready_queue *queue,
                              const struct wp_ready_queue *from);

/* Appends a slot that the caller has moved to READY; once for each such move.
 * It may have died since. Any thread. */
void wp_ready_queue_push(struct wp_ready_queue *queue, struct wp_slot_ref ref);

/* Takes the oldest ready slot, already moved READY -> to: WP_SLOT_LEASED for a
 * claim, WP_SLOT_DYING for scale-down. It is the caller's. Skips and unlinks
 * tombstones, each once. WP_SLOT_REF_NONE when the queue was empty at one
 * moment of the call. Any thread. */
WP_MUST_CHECK struct wp_slot_ref
wp_ready_queue_pop(struct wp_ready_queue *queue, enum wp_slot_state to);

/* True when nothing is linked, not even a tombstone. Any thread; a hint. */
bool wp_ready_queue_is_empty(const struct wp_ready_queue *queue);

/* Frees tombstones that a live head keeps from being popped: takes at most
 * steps slots from the head and appends again those that are ready; returns how
 * many tombstones it freed. A whole turn keeps the order, but for what is
 * pushed meanwhile; a partial one leaves a part of the queue out of age order.
 *
 * While it holds one slot in its hand, another thread's pop may say empty
 * though the pool has that one: call it under the lock under which "empty" is
 * finally decided. One thread at a time per queue. It is due when
 * wp_ready_queue_purge_due says so; called then with steps = UINT32_MAX its
 * cost is O(1) for each slot that died. */
uint32_t wp_ready_queue_purge(struct wp_ready_queue *queue, uint32_t steps);

/* More dead than ready slots are linked, and enough of them to matter. */
bool wp_ready_queue_purge_due(const struct wp_ready_queue *queue);

#endif
