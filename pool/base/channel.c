#include "pool/base/channel.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "pool/base/assert.h"

static struct wp_channel_cell *
cell_at(const struct wp_channel *channel, uint64_t pos)
{
    return (void *)(channel->cells +
                    (pos & channel->mask) * channel->cell_size);
}

bool
wp_channel_init_sized(struct wp_channel *channel, uint32_t messages_max,
                      size_t size)
{
    const size_t align = alignof(struct wp_channel_cell);
    uint64_t n = 1;

    while (n < messages_max) {
        n *= 2;
    }
    channel->mask = n - 1;
    channel->message_size = size;
    channel->cell_size =
        sizeof(struct wp_channel_cell) + (size + align - 1) / align * align;
    channel->event_fd = -1;
    channel->cells = calloc(n, channel->cell_size);
    if (channel->cells == NULL) {
        return false;
    }
    for (uint64_t i = 0; i < n; i++) {
        atomic_init(&cell_at(channel, i)->seq, i);
    }
    atomic_init(&channel->head, 0);
    atomic_init(&channel->signalled, false);
    channel->tail = 0;
    return true;
}

bool
wp_channel_init(struct wp_channel *channel, uint32_t messages_max)
{
    if (!wp_channel_init_sized(channel, messages_max,
                               sizeof(struct wp_message))) {
        return false;
    }
    channel->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (channel->event_fd < 0) {
        wp_channel_fini(channel);
        return false;
    }
    return true;
}

void
wp_channel_fini(struct wp_channel *channel)
{
    if (channel->cells != NULL) {
        if (channel->event_fd >= 0) {
            (void)close(channel->event_fd);
        }
        free(channel->cells);
        channel->cells = NULL;
    }
}

/* No wake-up is lost. A sender stores seq and then exchanges `signalled`; the
 * receiver clears `signalled` and then loads seq. All four are seq_cst, hence
 * in one order that every thread agrees on. A load that misses the message
 * comes before its store there, so the clear comes before the exchange, which
 * then finds false, and writes, or finds true from a sender that exchanged
 * after the clear, and that one writes. Weaker loads would not do: an acquire
 * load may pass an earlier store of another object. */
static void
wake_receiver(struct wp_channel *channel)
{
    if (channel->event_fd >= 0 &&
        !atomic_exchange_explicit(&channel->signalled, true,
                                  memory_order_seq_cst)) {
        uint64_t one = 1;
        ssize_t n = write(channel->event_fd, &one, sizeof one);

        WP_ASSERT(n == (ssize_t)sizeof one);
    }
}

bool
wp_channel_send_sized(struct wp_channel *channel, const void *message)
{
    uint64_t pos = atomic_load_explicit(&channel->head, memory_order_relaxed);

    for (;;) {
        struct wp_channel_cell *cell = cell_at(channel, pos);
        /* Pairs with the release in receive: its last message was read. */
        uint64_t seq = atomic_load_explicit(&cell->seq, memory_order_acquire);

        if (seq == pos) {
            if (atomic_compare_exchange_weak_explicit(
                    &channel->head, &pos, pos + 1, memory_order_relaxed,
                    memory_order_relaxed)) {
                memcpy(cell->message, message, channel->message_size);
                /* Publishes message, and see wake_receiver. */
                atomic_store_explicit(&cell->seq, pos + 1,
                                      memory_order_seq_cst);
                wake_receiver(channel);
                return true;
            }
        } else if ((int64_t)(seq - pos) < 0) {
            return false;
        } else {
            pos = atomic_load_explicit(&channel->head, memory_order_relaxed);
        }
    }
}

bool
wp_channel_send(struct wp_channel *channel, struct wp_message message)
{
    return wp_channel_send_sized(channel, &message);
}

int
wp_channel_fd(const struct wp_channel *channel)
{
    return channel->event_fd;
}

bool
wp_channel_receive(struct wp_channel *channel, void *out)
{
    struct wp_channel_cell *cell = cell_at(channel, channel->tail);

    /* Takes over message, and see wake_receiver. */
    if (atomic_load_explicit(&cell->seq, memory_order_seq_cst) !=
        channel->tail + 1) {
        return false;
    }
    memcpy(out, cell->message, channel->message_size);
    /* Frees the cell for the send one lap later. */
    atomic_store_explicit(&cell->seq, channel->tail + channel->mask + 1,
                          memory_order_release);
    channel->tail++;
    return true;
}

size_t
wp_channel_run(struct wp_channel *channel, size_t max)
{
    struct wp_message message;
    uint64_t ignored;
    ssize_t n = read(channel->event_fd, &ignored, sizeof ignored);

    (void)n; /* Empty when called without a wake-up: harmless. */
    atomic_store_explicit(&channel->signalled, false, memory_order_seq_cst);
    for (size_t done = 0; done < max; done++) {
        if (!wp_channel_receive(channel, &message)) {
            return done;
        }
        message.run(message.ctx, message.a, message.b);
    }
    wake_receiver(channel);
    return max;
}

/* --- linked --- */

void
wp_linked_init(struct wp_linked_channel *channel)
{
    atomic_init(&channel->newest, NULL);
}

/* No wake-up is lost, and none is asked for twice. Send and receive are both
 * read-modify-writes of the one object `newest`, which see each other in its
 * modification order whatever the CPU. Who finds NULL there wakes, once for all
 * that join the list before the receiver takes it whole; and the receive that
 * follows the wake-up comes after that send. */
enum wp_linked_sent
wp_linked_send(struct wp_linked_channel *channel,
               struct wp_linked_message *message)
{
    struct wp_linked_message *newest =
        atomic_load_explicit(&channel->newest, memory_order_relaxed);

    do {
        message->next = newest;
        /* Publishes message: pairs with the acquire in receive. */
    } while (!atomic_compare_exchange_weak_explicit(
        &channel->newest, &newest, message, memory_order_release,
        memory_order_relaxed));
    return newest == NULL ? WP_LINKED_WAKE : WP_LINKED_SENT;
}

struct wp_linked_message *
wp_linked_receive(struct wp_linked_channel *channel)
{
    /* Pairs with the release in send. */
    struct wp_linked_message *newest =
        atomic_exchange_explicit(&channel->newest, NULL, memory_order_acquire);
    struct wp_linked_message *list = NULL;

    while (newest != NULL) {
        struct wp_linked_message *before = newest->next;

        newest->next = list;
        list = newest;
        newest = before;
    }
    return list;
}
