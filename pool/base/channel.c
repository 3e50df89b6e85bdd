#include "pool/base/channel.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "pool/base/assert.h"

bool
wp_channel_init(struct wp_channel *channel, uint32_t messages_max)
{
    uint64_t size = 1;

    while (size < messages_max) {
        size *= 2;
    }
    channel->cells = calloc(size, sizeof *channel->cells);
    if (channel->cells == NULL) {
        return false;
    }
    channel->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (channel->event_fd < 0) {
        free(channel->cells);
        channel->cells = NULL;
        return false;
    }
    for (uint64_t i = 0; i < size; i++) {
        atomic_init(&channel->cells[i].seq, i);
    }
    channel->mask = size - 1;
    atomic_init(&channel->head, 0);
    atomic_init(&channel->signalled, false);
    channel->tail = 0;
    return true;
}

void
wp_channel_fini(struct wp_channel *channel)
{
    if (channel->cells != NULL) {
        (void)close(channel->event_fd);
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
    if (!atomic_exchange_explicit(&channel->signalled, true,
                                  memory_order_seq_cst)) {
        uint64_t one = 1;
        ssize_t n = write(channel->event_fd, &one, sizeof one);

        WP_ASSERT(n == (ssize_t)sizeof one);
    }
}

bool
wp_channel_send(struct wp_channel *channel, struct wp_message message)
{
    uint64_t pos = atomic_load_explicit(&channel->head, memory_order_relaxed);

    for (;;) {
        struct wp_channel_cell *cell = &channel->cells[pos & channel->mask];
        /* Pairs with the release in run: the cell's last message was read. */
        uint64_t seq = atomic_load_explicit(&cell->seq, memory_order_acquire);

        if (seq == pos) {
            if (atomic_compare_exchange_weak_explicit(
                    &channel->head, &pos, pos + 1, memory_order_relaxed,
                    memory_order_relaxed)) {
                cell->message = message;
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

int
wp_channel_fd(const struct wp_channel *channel)
{
    return channel->event_fd;
}

static bool
receive(struct wp_channel *channel, struct wp_message *out)
{
    struct wp_channel_cell *cell =
        &channel->cells[channel->tail & channel->mask];

    /* Takes over message, and see wake_receiver. */
    if (atomic_load_explicit(&cell->seq, memory_order_seq_cst) !=
        channel->tail + 1) {
        return false;
    }
    *out = cell->message;
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
        if (!receive(channel, &message)) {
            return done;
        }
        message.run(message.ctx, message.a, message.b);
    }
    wake_receiver(channel);
    return max;
}

/* --- linked --- */

/* Never read as a message: only its address means something. */
static struct wp_linked_message closed_mark;

#define CLOSED (&closed_mark)

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
        if (newest == CLOSED) {
            return WP_LINKED_CLOSED;
        }
        message->next = newest;
        /* Publishes message: pairs with the acquire in take_all. */
    } while (!atomic_compare_exchange_weak_explicit(
        &channel->newest, &newest, message, memory_order_release,
        memory_order_relaxed));
    return newest == NULL ? WP_LINKED_WAKE : WP_LINKED_SENT;
}

static struct wp_linked_message *
take_all(struct wp_linked_channel *channel, struct wp_linked_message *instead)
{
    /* Pairs with the release in send. */
    struct wp_linked_message *newest = atomic_exchange_explicit(
        &channel->newest, instead, memory_order_acquire);
    struct wp_linked_message *list = NULL;

    while (newest != NULL && newest != CLOSED) {
        struct wp_linked_message *before = newest->next;

        newest->next = list;
        list = newest;
        newest = before;
    }
    return list;
}

struct wp_linked_message *
wp_linked_receive(struct wp_linked_channel *channel)
{
    /* Closed by this thread, or not at all. */
    bool closed =
        atomic_load_explicit(&channel->newest, memory_order_relaxed) == CLOSED;

    return closed ? NULL : take_all(channel, NULL);
}

struct wp_linked_message *
wp_linked_close(struct wp_linked_channel *channel)
{
    return take_all(channel, CLOSED);
}
