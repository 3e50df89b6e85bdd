#include "pool/leases/commit_queue.h"

#include <errno.h>

#include "pool/base/assert.h"

/* Never read as ops: only their addresses mean something. */
static struct wp_lease_op asleep_mark;
static struct wp_lease_op closed_mark;

#define ASLEEP (&asleep_mark)
#define CLOSED (&closed_mark)

void
wp_commit_queue_init(struct wp_commit_queue *queue)
{
    int rc = sem_init(&queue->wake, 0, 0);

    WP_ASSERT(rc == 0);
    atomic_init(&queue->newest, NULL);
    atomic_init(&queue->closing, false);
    atomic_init(&queue->sleeps, 0);
}

void
wp_commit_queue_fini(struct wp_commit_queue *queue)
{
    (void)sem_destroy(&queue->wake);
}

static void
wake_consumer(struct wp_commit_queue *queue)
{
    int rc = sem_post(&queue->wake);

    WP_ASSERT(rc == 0);
}

bool
wp_commit_queue_push(struct wp_commit_queue *queue, struct wp_lease_op *op)
{
    struct wp_lease_op *newest =
        atomic_load_explicit(&queue->newest, memory_order_relaxed);

    do {
        if (newest == CLOSED) {
            return false;
        }
        op->next = newest == ASLEEP ? NULL : newest;
        /* Publishes op: pairs with the acquire in take. */
    } while (!atomic_compare_exchange_weak_explicit(&queue->newest, &newest, op,
                                                    memory_order_release,
                                                    memory_order_relaxed));
    if (newest == ASLEEP) {
        wake_consumer(queue);
    }
    return true;
}

static struct wp_lease_op *
oldest_first(struct wp_lease_op *newest)
{
    struct wp_lease_op *list = NULL;

    while (newest != NULL) {
        struct wp_lease_op *before = newest->next;

        newest->next = list;
        list = newest;
        newest = before;
    }
    return list;
}

/* Nothing was waiting: returns once that may have changed. */
static void
fall_asleep(struct wp_commit_queue *queue)
{
    struct wp_lease_op *expected = NULL;

    /* seq_cst, as in close: either this thread sees `closing`, or close sees
     * that it sleeps. */
    if (!atomic_compare_exchange_strong(&queue->newest, &expected, ASLEEP)) {
        return;
    }
    expected = ASLEEP;
    if (atomic_load(&queue->closing) &&
        atomic_compare_exchange_strong(&queue->newest, &expected, NULL)) {
        return;
    }
    /* Who takes the mark away posts, once. */
    atomic_fetch_add_explicit(&queue->sleeps, 1, memory_order_relaxed);
    while (sem_wait(&queue->wake) != 0) {
        WP_ASSERT(errno == EINTR);
    }
}

struct wp_lease_op *
wp_commit_queue_take(struct wp_commit_queue *queue)
{
    for (;;) {
        struct wp_lease_op *newest =
            atomic_load_explicit(&queue->newest, memory_order_relaxed);

        if (newest == CLOSED) {
            return NULL;
        }
        if (newest != NULL) {
            /* Pairs with the release in push. */
            return oldest_first(atomic_exchange_explicit(&queue->newest, NULL,
                                                         memory_order_acquire));
        }
        if (!atomic_load(&queue->closing)) {
            fall_asleep(queue);
        } else if (atomic_compare_exchange_strong(&queue->newest, &newest,
                                                  CLOSED)) {
            return NULL;
        }
    }
}

void
wp_commit_queue_close(struct wp_commit_queue *queue)
{
    struct wp_lease_op *expected = ASLEEP;

    atomic_store(&queue->closing, true);
    if (atomic_compare_exchange_strong(&queue->newest, &expected, NULL)) {
        wake_consumer(queue);
    }
}
