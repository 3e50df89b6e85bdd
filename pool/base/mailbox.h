/* pool/base/mailbox.h - the only way into a thread that owns an event loop.
 *
 * Bounded, many producers, one consumer. A post is a few atomic operations,
 * plus one eventfd write when the consumer may be asleep; posts that come while
 * it is awake share one wake-up. Never allocates. */
#ifndef WP_BASE_MAILBOX_H
#define WP_BASE_MAILBOX_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/compiler.h"

struct wp_mail {
    void (*run)(void *ctx, uint64_t a, uint64_t b);
    void *ctx;
    uint64_t a;
    uint64_t b;
};

struct wp_mail_cell {
    _Atomic(uint64_t) seq; /* pos: free for post pos; pos + 1: holds it. */
    struct wp_mail mail;
};

struct wp_mailbox {
    struct wp_mail_cell *cells; /* Owned; mask + 1 of them. */
    uint64_t mask;
    int event_fd;
    alignas(WP_CACHELINE) _Atomic(uint64_t) head; /* Next post. */
    alignas(WP_CACHELINE) _Atomic(bool) signalled;
    uint64_t tail; /* Consumer only. */
};

/* cap is rounded up to a power of two. False when memory or descriptors lack.
 */
WP_MUST_CHECK bool wp_mailbox_init(struct wp_mailbox *box, uint32_t cap);
/* After all producers have stopped. Undelivered mail is dropped. */
void wp_mailbox_fini(struct wp_mailbox *box);

/* False when full: the caller keeps the work and decides. Any thread. */
WP_MUST_CHECK bool wp_mailbox_post(struct wp_mailbox *box, struct wp_mail mail);
/* Readable when mail may be waiting; for the consumer's event loop. */
int wp_mailbox_fd(const struct wp_mailbox *box);
/* Runs what is there, at most max; returns how many. When it returns max, more
 * may wait and the descriptor stays readable. Consumer thread only. */
size_t wp_mailbox_drain(struct wp_mailbox *box, size_t max);

#endif
