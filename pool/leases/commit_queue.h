/* pool/leases/commit_queue.h - commits of many threads on their way to a store,
 * and whose turn it is to do them.
 *
 * A linked list of ops, the newest first, and the turn: the right to use what
 * the store has only one of, as its connection to a file. Both are one word, so
 * that no thread can see one of them without the other:
 *
 *      nobody's turn -- try_take, by who commits ----------> its own turn
 *         |    ^                                              |    |
 *         |    '------- take_more, when nothing waits --------'    |
 *         |                                                        |
 *         '-- push ---> the receiver's turn <------- hand_over ----'
 *                         |        ^
 *                         '- take -'  and back to nobody, as above
 *
 * So a commit needs no other thread while nobody has the turn: who has put it
 * there with gather takes the turn itself. Otherwise the op waits for the
 * thread that has it. That one gets all that wait at once, which is what makes
 * group commit natural. The receiver is a thread of the store's own, which
 * sleeps on a semaphore. It is woken once for each time that the turn becomes
 * its, and that costs a system call only when it sleeps.
 *
 * The bound of the list is the number of ops there are, one for each lease in
 * progress. */
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
    /* The newest op's link, and two marks in its lowest bits: somebody has the
     * turn; it is closed. 0: nobody's turn, and nothing waits. */
    alignas(WP_CACHELINE) _Atomic(uintptr_t) state;
    /* One post for each time that the turn becomes the receiver's. */
    alignas(WP_CACHELINE) sem_t wake;
    bool mine;                /* Receiver only: it has the turn. */
    _Atomic(uint64_t) sleeps; /* How often the receiver slept. */
};

void wp_commit_queue_init(struct wp_commit_queue *queue);
/* After take has returned false, when no thread is inside any call. */
void wp_commit_queue_fini(struct wp_commit_queue *queue);

/* Adds op; nobody's turn becomes the receiver's. False when the queue is
 * closed: the caller keeps op. What one thread adds, here and by gather, comes
 * out in that order. Any thread. */
WP_MUST_CHECK bool wp_commit_queue_push(struct wp_commit_queue *queue,
                                        struct wp_lease_op *op);
/* The same, but nobody's turn stays so: the caller calls try_take before it
 * sleeps. */
WP_MUST_CHECK bool wp_commit_queue_gather(struct wp_commit_queue *queue,
                                          struct wp_lease_op *op);

/* When it is nobody's turn and something waits: the turn is the caller's, with
 * all that wait, oldest first, linked (wp_lease_op_next). Else NULL; whoever
 * has the turn does what waits. Any thread but the receiver. */
WP_MUST_CHECK struct wp_lease_op *
wp_commit_queue_try_take(struct wp_commit_queue *queue);
/* Whose turn it is by try_take: all that wait. NULL: nothing did, and the turn
 * is given back. */
WP_MUST_CHECK struct wp_lease_op *
wp_commit_queue_take_more(struct wp_commit_queue *queue);
/* Whose turn it is by try_take: it is the receiver's from here on, with what
 * was taken and is not done. */
void wp_commit_queue_hand_over(struct wp_commit_queue *queue);

/* Gives the turn back when nothing waits, and sleeps until it is the receiver's
 * again. True with all that wait in *list; NULL there: somebody has handed the
 * turn over with nothing new. False once the queue is closed and empty: the
 * turn stays the receiver's for ever. Receiver only. */
WP_MUST_CHECK bool wp_commit_queue_take(struct wp_commit_queue *queue,
                                        struct wp_lease_op **list);
/* The receiver gets what was added, then false. Idempotent. Any thread. */
void wp_commit_queue_close(struct wp_commit_queue *queue);

#endif
