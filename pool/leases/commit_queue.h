/* pool/leases/commit_queue.h - commits of many threads on their way to one.
 *
 * For stores with a thread of their own. Ops are linked through op->next, so a
 * push takes no lock and no memory; its bound is the number of ops there are,
 * one for each lease in progress. The consumer takes all that wait at once,
 * which is what makes group commit natural, and is woken only when it sleeps:
 * once for however many pushes. */
#ifndef WP_POOL_LEASES_COMMIT_QUEUE_H
#define WP_POOL_LEASES_COMMIT_QUEUE_H

#include <semaphore.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/lease_store.h"

struct wp_commit_queue {
    /* The newest op, each leading to the one before it; or NULL, or one of two
     * marks: the consumer sleeps, the queue is closed. */
    alignas(WP_CACHELINE) _Atomic(struct wp_lease_op *) newest;
    alignas(WP_CACHELINE) sem_t wake; /* One post for each sleep. */
    _Atomic(bool) closing;
    _Atomic(uint64_t) sleeps; /* How often the consumer slept. */
};

void wp_commit_queue_init(struct wp_commit_queue *queue);
/* After close, and after take has returned NULL. */
void wp_commit_queue_fini(struct wp_commit_queue *queue);

/* Gives op to the consumer; false when the queue is closed: the caller keeps
 * it. What one thread pushes comes out in that order. Any thread. */
WP_MUST_CHECK bool wp_commit_queue_push(struct wp_commit_queue *queue,
                                        struct wp_lease_op *op);
/* All that wait, oldest first, linked through next; sleeps until there is
 * something. NULL once the queue is closed and empty. Consumer only. */
struct wp_lease_op *wp_commit_queue_take(struct wp_commit_queue *queue);
/* The consumer gets what was pushed, then NULL. Idempotent. Any thread. */
void wp_commit_queue_close(struct wp_commit_queue *queue);

#endif
