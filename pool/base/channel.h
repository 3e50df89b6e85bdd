/* pool/base/channel.h - the way from any thread into one that owns a loop.
 *
 * A bounded queue of messages: many senders, one receiver. A full channel
 * refuses, and the sender keeps the message and decides. To send takes a few
 * atomic operations, and one eventfd write when the receiver may be asleep;
 * what is sent while it is awake shares one wake-up. Never allocates. */
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
    struct wp_message message;
};

struct wp_channel {
    struct wp_channel_cell *cells; /* Owned; mask + 1 of them. */
    uint64_t mask;
    int event_fd;
    alignas(WP_CACHELINE) _Atomic(uint64_t) head; /* Next send. */
    alignas(WP_CACHELINE) _Atomic(bool) signalled;
    uint64_t tail; /* Receiver only. */
};

/* messages_max is rounded up to a power of two. False when memory or
 * descriptors lack. */
WP_MUST_CHECK bool wp_channel_init(struct wp_channel *channel,
                                   uint32_t messages_max);
/* After all senders have stopped. What was not received is dropped. */
void wp_channel_fini(struct wp_channel *channel);

/* False when full: the caller keeps the work and decides. What one thread sends
 * is received in that order. Any thread. */
WP_MUST_CHECK bool wp_channel_send(struct wp_channel *channel,
                                   struct wp_message message);
/* Readable when messages may be waiting; for the receiver's event loop. */
int wp_channel_fd(const struct wp_channel *channel);
/* Runs the messages that are there, at most max; returns how many. When it
 * returns max, more may wait and the descriptor stays readable. Receiver only.
 */
size_t wp_channel_run(struct wp_channel *channel, size_t max);

#endif
