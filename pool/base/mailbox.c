#include "pool/base/mailbox.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "pool/base/assert.h"

bool
wp_mailbox_init(struct wp_mailbox *box, uint32_t cap)
{
    uint64_t size = 1;

    while (size < cap) {
        size *= 2;
    }
    box->cells = calloc(size, sizeof *box->cells);
    if (box->cells == NULL) {
        return false;
    }
    box->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (box->event_fd < 0) {
        free(box->cells);
        box->cells = NULL;
        return false;
    }
    for (uint64_t i = 0; i < size; i++) {
        atomic_init(&box->cells[i].seq, i);
    }
    box->mask = size - 1;
    atomic_init(&box->head, 0);
    atomic_init(&box->signalled, false);
    box->tail = 0;
    return true;
}

void
wp_mailbox_fini(struct wp_mailbox *box)
{
    if (box->cells != NULL) {
        (void)close(box->event_fd);
        free(box->cells);
        box->cells = NULL;
    }
}

static void
signal_consumer(struct wp_mailbox *box)
{
    /* seq_cst pairs with the clear in drain: either this thread sees false and
     * writes, or the consumer's later read of the cells sees our mail. */
    if (!atomic_exchange_explicit(&box->signalled, true,
                                  memory_order_seq_cst)) {
        uint64_t one = 1;
        ssize_t n = write(box->event_fd, &one, sizeof one);

        WP_ASSERT(n == (ssize_t)sizeof one);
    }
}

bool
wp_mailbox_post(struct wp_mailbox *box, struct wp_mail mail)
{
    uint64_t pos = atomic_load_explicit(&box->head, memory_order_relaxed);

    for (;;) {
        struct wp_mail_cell *cell = &box->cells[pos & box->mask];
        /* Pairs with the release in drain: the cell's last mail has been read.
         */
        uint64_t seq = atomic_load_explicit(&cell->seq, memory_order_acquire);

        if (seq == pos) {
            if (atomic_compare_exchange_weak_explicit(&box->head, &pos, pos + 1,
                                                      memory_order_relaxed,
                                                      memory_order_relaxed)) {
                cell->mail = mail;
                /* Publishes mail: pairs with the acquire in drain. */
                atomic_store_explicit(&cell->seq, pos + 1,
                                      memory_order_release);
                signal_consumer(box);
                return true;
            }
        } else if ((int64_t)(seq - pos) < 0) {
            return false;
        } else {
            pos = atomic_load_explicit(&box->head, memory_order_relaxed);
        }
    }
}

int
wp_mailbox_fd(const struct wp_mailbox *box)
{
    return box->event_fd;
}

size_t
wp_mailbox_drain(struct wp_mailbox *box, size_t max)
{
    size_t done = 0;
    uint64_t ignored;
    ssize_t n = read(box->event_fd, &ignored, sizeof ignored);

    (void)n; /* Empty when called without a wake-up: harmless. */
    atomic_store_explicit(&box->signalled, false, memory_order_seq_cst);
    while (done < max) {
        struct wp_mail_cell *cell = &box->cells[box->tail & box->mask];
        struct wp_mail mail;

        /* Pairs with the release in post. */
        if (atomic_load_explicit(&cell->seq, memory_order_acquire) !=
            box->tail + 1) {
            return done;
        }
        mail = cell->mail;
        /* Frees the cell for the post one lap later. */
        atomic_store_explicit(&cell->seq, box->tail + box->mask + 1,
                              memory_order_release);
        box->tail++;
        mail.run(mail.ctx, mail.a, mail.b);
        done++;
    }
    signal_consumer(box);
    return done;
}
