/* k8s/backend/channel.h - letters between the cluster's thread and the control
 * thread.
 *
 * What a thread asks of the other, and what that answers, in the order in which
 * it was sent. A letter is the sender's memory with a way to run it, so nothing
 * is lost when a mailbox is full: letters to control wait in a list, with one
 * mail under way that takes them all, tried again while control's mailbox is
 * full. The list is bounded by what senders have in flight. */
#ifndef WP_K8S_BACKEND_CHANNEL_H
#define WP_K8S_BACKEND_CHANNEL_H

#include "k8s/controllers/shared.h"
#include "pool/base/list.h"

struct wp_courier; /* Opaque. */

/* The first member of a letter. run is called on the other thread, once, and
 * then owns it; drop instead of it when the courier ends first. */
struct wp_letter {
    struct wp_list node;
    void (*run)(struct wp_letter *letter);
    void (*drop)(struct wp_letter *letter);
};

/* parts is borrowed; its core is looked at when the first letter is sent. NULL
 * when memory or descriptors lack. */
struct wp_courier *wp_courier_create(const struct wp_parts *parts);
/* After both threads have stopped to send; what waits is dropped. NULL is
 * fine. */
void wp_courier_destroy(struct wp_courier *courier);

/* The cluster's thread. */
void wp_courier_to_control(struct wp_courier *courier,
                           struct wp_letter *letter);
/* Any thread. */
void wp_courier_to_cluster(struct wp_courier *courier,
                           struct wp_letter *letter);
/* Letters to the cluster that wait. Any thread; a hint. */
uint32_t wp_courier_waiting(struct wp_courier *courier);

#endif
