#include "allocator/stores/feed.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "pool/base/compiler.h"

struct message {
    enum wp_feed_kind kind;
    struct wp_lease_record record;
};

struct wp_feed {
    struct wp_feed_config config;
    uint32_t mask;
    struct message *messages; /* Owned; mask + 1. */
    _Atomic(uint64_t) refused;
    alignas(WP_CACHELINE) _Atomic(uint32_t) head; /* Next to be written. */
    alignas(WP_CACHELINE) _Atomic(uint32_t) tail; /* Next to be read. */
};

static uint32_t
round_up(uint32_t n)
{
    uint32_t size = 2;

    while (size < n && size < UINT32_C(1) << 31) {
        size *= 2;
    }
    return size;
}

struct wp_feed *
wp_feed_create(const struct wp_feed_config *config, struct wp_err *err)
{
    struct wp_feed *feed = aligned_alloc(alignof(struct wp_feed), sizeof *feed);
    uint32_t size = round_up(config->messages_max);

    if (feed == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    feed->config = *config;
    feed->mask = size - 1;
    feed->messages = calloc(size, sizeof *feed->messages);
    atomic_init(&feed->refused, 0);
    atomic_init(&feed->head, 0);
    atomic_init(&feed->tail, 0);
    if (feed->messages == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        wp_feed_destroy(feed);
        return NULL;
    }
    return feed;
}

void
wp_feed_destroy(struct wp_feed *feed)
{
    if (feed != NULL) {
        free(feed->messages);
        free(feed);
    }
}

bool
wp_feed_push(struct wp_feed *feed, enum wp_feed_kind kind,
             const struct wp_lease_record *record)
{
    uint32_t head = atomic_load_explicit(&feed->head, memory_order_relaxed);
    /* Pairs with the release in run: what was there has been read. */
    uint32_t tail = atomic_load_explicit(&feed->tail, memory_order_acquire);
    struct message *message = &feed->messages[head & feed->mask];

    if (head - tail > feed->mask) {
        atomic_fetch_add_explicit(&feed->refused, 1, memory_order_relaxed);
        return false;
    }
    message->kind = kind;
    message->record = *record;
    /* Pairs with the acquire in run. */
    atomic_store_explicit(&feed->head, head + 1, memory_order_release);
    feed->config.wake(feed->config.ctx);
    return true;
}

bool
wp_feed_run(struct wp_feed *feed, uint32_t max)
{
    uint32_t tail = atomic_load_explicit(&feed->tail, memory_order_relaxed);
    /* Pairs with the release in push. */
    uint32_t head = atomic_load_explicit(&feed->head, memory_order_acquire);

    while (tail != head && max > 0) {
        const struct message *message = &feed->messages[tail & feed->mask];

        feed->config.take(feed->config.ctx, message->kind, &message->record);
        tail++;
        max--;
        /* Pairs with the acquire in push. */
        atomic_store_explicit(&feed->tail, tail, memory_order_release);
    }
    return tail != head;
}

uint64_t
wp_feed_refused(const struct wp_feed *feed)
{
    return atomic_load_explicit(&feed->refused, memory_order_relaxed);
}
