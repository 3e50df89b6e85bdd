/* pool/leases/commit_queue.h - commits of many threads on their way to one.
 *
 * For stores with a thread of their own: a linked channel of ops, whose
 * receiver sleeps on a semaphore, since it has no event loop. Its bound is the
 * number of ops there are, one for each lease in progress. The receiver takes
 * all that wait at once, which is what makes group commit natural. A send wakes
 * it once for all that it then takes; that costs a system call only when it
 * sleeps. */
#ifndef WP_POOL_LEASES_COMMIT_QUEUE_H
#define WP_POOL_LEASES_COMMIT_QUEUE_H

#include <semaphore.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/base/channel.h"
#include "pool/base/compiler.h"
#include "pool/lease_store.h"

struct wp_commit_queue {
    alignas(WP_CACHELINE) struct wp_linked_channel ops;
    /* One post for each time that ops ceased to be empty, and one by close. */
    alignas(WP_CACHELINE) sem_t wake;
    _Atomic(bool) closing;
    bool ended;               /* Receiver only: take has returned NULL. */
    _Atomic(uint64_t) sleeps; /* How often the receiver slept. */
};

void wp_commit_queue_init(struct wp_commit_queue *queue);
/* After close, and after take has returned NULL. */
void wp_commit_queue_fini(struct wp_commit_queue *queue);

/* Gives op to the receiver; false when the queue is closed: the caller keeps
 * it. What one thread pushes comes out in that order. Any thread. */
WP_MUST_CHECK bool wp_commit_queue_push(struct wp_commit_queue *queue,
                                        struct wp_lease_op *op);
/* All that wait, oldest first, linked (wp_lease_op_next); sleeps until there is
 * something. NULL once the queue is closed and empty. Receiver only. */
struct wp_lease_op *wp_commit_queue_take(struct wp_commit_queue *queue);
/* The receiver gets what was pushed, then NULL. Idempotent. Any thread. */
void wp_commit_queue_close(struct wp_commit_queue *queue);

#endif
