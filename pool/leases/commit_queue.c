#include "pool/leases/commit_queue.h"

#include <errno.h>

#include "pool/base/assert.h"

void
wp_commit_queue_init(struct wp_commit_queue *queue)
{
    int rc = sem_init(&queue->wake, 0, 0);

    WP_ASSERT(rc == 0);
    wp_linked_init(&queue->ops);
    atomic_init(&queue->closing, false);
    atomic_init(&queue->sleeps, 0);
    queue->ended = false;
}

void
wp_commit_queue_fini(struct wp_commit_queue *queue)
{
    (void)sem_destroy(&queue->wake);
}

static void
wake_receiver(struct wp_commit_queue *queue)
{
    int rc = sem_post(&queue->wake);

    WP_ASSERT(rc == 0);
}

bool
wp_commit_queue_push(struct wp_commit_queue *queue, struct wp_lease_op *op)
{
    enum wp_linked_sent sent = wp_linked_send(&queue->ops, &op->link);

    if (sent == WP_LINKED_WAKE) {
        wake_receiver(queue);
    }
    return sent != WP_LINKED_CLOSED;
}

static void
await_wake(struct wp_commit_queue *queue)
{
    if (sem_trywait(&queue->wake) == 0) {
        return;
    }
    atomic_fetch_add_explicit(&queue->sleeps, 1, memory_order_relaxed);
    while (sem_wait(&queue->wake) != 0) {
        WP_ASSERT(errno == EINTR);
    }
}

/* Each call that returns ops takes one post, and so does the one that returns
 * NULL: as many as there are, so that nobody is about to post when the queue
 * ends. */
struct wp_lease_op *
wp_commit_queue_take(struct wp_commit_queue *queue)
{
    struct wp_linked_message *list = NULL;

    while (list == NULL && !queue->ended) {
        await_wake(queue);
        /* The post that close made comes after its store. */
        if (atomic_load_explicit(&queue->closing, memory_order_acquire)) {
            list = wp_linked_close(&queue->ops);
            queue->ended = list == NULL;
        } else {
            list = wp_linked_receive(&queue->ops);
        }
    }
    return wp_lease_op_of(list);
}

void
wp_commit_queue_close(struct wp_commit_queue *queue)
{
    if (!atomic_exchange_explicit(&queue->closing, true,
                                  memory_order_release)) {
        wake_receiver(queue);
    }
}
