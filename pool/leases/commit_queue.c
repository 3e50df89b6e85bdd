#include "pool/leases/commit_queue.h"

#include <errno.h>

#include "pool/base/assert.h"

/* Marks of the state. Links are aligned to more than that. */
#define BUSY ((uintptr_t)1) /* Somebody has the turn. */
#define CLOSED ((uintptr_t)2)
#define MARKS (BUSY | CLOSED)

_Static_assert(alignof(struct wp_linked_message) > MARKS,
               "no room for the marks");

/* Every change of the state is a read-modify-write, so all of them are in one
 * order, and each reads the one before it. Only who finds no BUSY there sets
 * it, and only who has the turn clears it: so nobody has it twice.
 *
 * What one holder of the turn did is seen by the next. Its release is the
 * change that gives the turn back (take_or_leave). The next one's acquire is
 * the change that takes what waits (try_take, take_all). Between the two there
 * are only read-modify-writes, which pass the release on. hand_over passes the
 * turn by a semaphore, which orders as well. */

static struct wp_linked_message *
newest_of(uintptr_t state)
{
    return (struct wp_linked_message *)(state & ~MARKS);
}

void
wp_commit_queue_init(struct wp_commit_queue *queue)
{
    int rc = sem_init(&queue->wake, 0, 0);

    WP_ASSERT(rc == 0);
    atomic_init(&queue->state, 0);
    atomic_init(&queue->sleeps, 0);
    queue->mine = false;
}

void
wp_commit_queue_fini(struct wp_commit_queue *queue)
{
    (void)sem_destroy(&queue->wake);
}

void
wp_commit_queue_hand_over(struct wp_commit_queue *queue)
{
    int rc = sem_post(&queue->wake);

    WP_ASSERT(rc == 0);
}

/* Adds op, and the mark; what was before is in *before. */
static bool
add(struct wp_commit_queue *queue, struct wp_lease_op *op, uintptr_t mark,
    uintptr_t *before)
{
    *before = atomic_load_explicit(&queue->state, memory_order_relaxed);
    do {
        if ((*before & CLOSED) != 0) {
            return false;
        }
        op->link.next = newest_of(*before);
        /* Publishes op: pairs with the acquire of who takes it. */
    } while (!atomic_compare_exchange_weak_explicit(
        &queue->state, before, (uintptr_t)&op->link | (*before & BUSY) | mark,
        memory_order_release, memory_order_relaxed));
    return true;
}

bool
wp_commit_queue_push(struct wp_commit_queue *queue, struct wp_lease_op *op)
{
    uintptr_t before;

    if (!add(queue, op, BUSY, &before)) {
        return false;
    }
    if ((before & BUSY) == 0) {
        wp_commit_queue_hand_over(queue);
    }
    return true;
}

bool
wp_commit_queue_gather(struct wp_commit_queue *queue, struct wp_lease_op *op)
{
    uintptr_t before;

    return add(queue, op, 0, &before);
}

/* The ops of a state that was taken out, oldest first. */
static struct wp_lease_op *
in_order(uintptr_t taken)
{
    struct wp_linked_message *newest = newest_of(taken);
    struct wp_linked_message *list = NULL;

    while (newest != NULL) {
        struct wp_linked_message *before = newest->next;

        newest->next = list;
        list = newest;
        newest = before;
    }
    return wp_lease_op_of(list);
}

struct wp_lease_op *
wp_commit_queue_try_take(struct wp_commit_queue *queue)
{
    uintptr_t before =
        atomic_load_explicit(&queue->state, memory_order_relaxed);

    do {
        if ((before & MARKS) != 0 || before == 0) {
            return NULL;
        }
        /* Takes over what add published, and the turn from take_or_leave. */
    } while (!atomic_compare_exchange_weak_explicit(&queue->state, &before,
                                                    BUSY, memory_order_acquire,
                                                    memory_order_relaxed));
    return in_order(before);
}

/* All that wait; the turn stays the caller's. */
static struct wp_lease_op *
take_all(struct wp_commit_queue *queue)
{
    /* Takes over what add published, and what was done in the turns before. */
    return in_order(
        atomic_fetch_and_explicit(&queue->state, MARKS, memory_order_acquire));
}

/* The same; when nothing waits the turn is nobody's, unless it is closed. */
static struct wp_lease_op *
take_or_leave(struct wp_commit_queue *queue, bool *closed)
{
    uintptr_t before = BUSY;
    bool left;

    /* Gives the turn back: pairs with the acquire of who takes it next. */
    left = atomic_compare_exchange_strong_explicit(
        &queue->state, &before, 0, memory_order_release, memory_order_relaxed);
    *closed = before == MARKS;
    return left ? NULL : take_all(queue);
}

struct wp_lease_op *
wp_commit_queue_take_more(struct wp_commit_queue *queue)
{
    bool closed;
    struct wp_lease_op *list = take_or_leave(queue, &closed);

    if (closed) {
        wp_commit_queue_hand_over(queue);
    }
    return list;
}

static void
await_turn(struct wp_commit_queue *queue)
{
    if (sem_trywait(&queue->wake) == 0) {
        return;
    }
    atomic_fetch_add_explicit(&queue->sleeps, 1, memory_order_relaxed);
    while (sem_wait(&queue->wake) != 0) {
        WP_ASSERT(errno == EINTR);
    }
}

bool
wp_commit_queue_take(struct wp_commit_queue *queue, struct wp_lease_op **list)
{
    if (queue->mine) {
        bool closed;

        *list = take_or_leave(queue, &closed);
        if (*list != NULL || closed) {
            return !closed;
        }
    }
    await_turn(queue);
    queue->mine = true;
    *list = take_all(queue);
    return true;
}

void
wp_commit_queue_close(struct wp_commit_queue *queue)
{
    /* Acquire, release: the turn may pass through here to the receiver. */
    uintptr_t before =
        atomic_fetch_or_explicit(&queue->state, MARKS, memory_order_acq_rel);

    if ((before & MARKS) == 0) {
        wp_commit_queue_hand_over(queue);
    }
}
