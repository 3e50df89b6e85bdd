/* pool/base/channel.h - the way from any thread into one other.
 *
 * Many senders, one receiver, no lock, no memory. There are two kinds:
 *
 *   wp_channel         Copies messages into a queue with a bound. A full one
 *                      refuses; the sender keeps the message and decides.
 *   wp_linked_channel  Links messages that live in objects of the senders. It
 *                      is never full: those objects are its bound.
 *
 * To send takes a few atomic operations, and one wake-up when the receiver may
 * be asleep; what is sent before it looks again shares that wake-up. */
#ifndef WP_BASE_CHANNEL_H
#define WP_BASE_CHANNEL_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/compiler.h"

struct wp_message {
    void (*run)(void *ctx, uint64_t a, uint64_t b);
    void *ctx;
    uint64_t a;
    uint64_t b;
};

struct wp_channel_cell {
    _Atomic(uint64_t) seq; /* pos: free for send pos; pos + 1: holds it. */
    unsigned char message[];
};

struct wp_channel {
    unsigned char *cells; /* Owned; mask + 1 of them. */
    uint64_t mask;
    size_t message_size;
    size_t cell_size;
    int event_fd;                                 /* -1: none. */
    alignas(WP_CACHELINE) _Atomic(uint64_t) head; /* Next send. */
    alignas(WP_CACHELINE) _Atomic(bool) signalled;
    uint64_t tail; /* Receiver only. */
};

/* For struct wp_message, with a descriptor that wakes the receiver's event
 * loop. messages_max is rounded up to a power of two. False when memory or
 * descriptors lack. */
WP_MUST_CHECK bool wp_channel_init(struct wp_channel *channel,
                                   uint32_t messages_max);
/* For messages of another kind, of so many bytes, and a receiver that has no
 * loop of its own here: who sends wakes it, by what orders the send before the
 * receive. */
WP_MUST_CHECK bool wp_channel_init_sized(struct wp_channel *channel,
                                         uint32_t messages_max, size_t size);
/* After all senders have stopped. What was not received is dropped. */
void wp_channel_fini(struct wp_channel *channel);

/* False when full: the caller keeps the work and decides. What one thread sends
 * is received in that order. Any thread. */
WP_MUST_CHECK bool wp_channel_send(struct wp_channel *channel,
                                   struct wp_message message);
WP_MUST_CHECK bool wp_channel_send_sized(struct wp_channel *channel,
                                         const void *message);
/* Copies the oldest message out; false: there is none. Receiver only. */
WP_MUST_CHECK bool wp_channel_receive(struct wp_channel *channel, void *out);

/* --- with a descriptor --- */

/* Readable when messages may be waiting; for the receiver's event loop. */
int wp_channel_fd(const struct wp_channel *channel);
/* Runs the messages that are there, at most max; returns how many. When it
 * returns max, more may wait and the descriptor stays readable. Receiver only.
 */
size_t wp_channel_run(struct wp_channel *channel, size_t max);

/* --- linked --- */

/* In an object of the sender, which is the receiver's from send on. */
struct wp_linked_message {
    struct wp_linked_message *next; /* Of what was received; the later one. */
};

struct wp_linked_channel {
    /* Each message leads to the one sent before it. */
    _Atomic(struct wp_linked_message *) newest;
};

enum wp_linked_sent {
    WP_LINKED_SENT,
    WP_LINKED_WAKE, /* Sent, as the first that waits: wake the receiver. */
};

void wp_linked_init(struct wp_linked_channel *channel);
/* On WAKE the caller wakes the receiver, by an eventfd, a semaphore or a
 * message: something that orders what was before it against the receive. What
 * one thread sends is received in that order. Any thread. */
WP_MUST_CHECK enum wp_linked_sent
wp_linked_send(struct wp_linked_channel *channel,
               struct wp_linked_message *message);
/* All that wait, oldest first; NULL: nothing. Receiver only. */
WP_MUST_CHECK struct wp_linked_message *
wp_linked_receive(struct wp_linked_channel *channel);

#endif
