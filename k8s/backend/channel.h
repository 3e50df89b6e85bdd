/* k8s/backend/channel.h - messages between the cluster's thread and the control
 * thread.
 *
 * What a thread asks of the other, and what that answers, in the order in which
 * it was sent. Two linked channels, so nothing is lost when the control thread
 * can take no more posts: the one that wakes it is tried again. What waits is
 * bounded by what senders have in flight. */
#ifndef WP_K8S_BACKEND_CHANNEL_H
#define WP_K8S_BACKEND_CHANNEL_H

#include "k8s/controllers/shared.h"
#include "pool/base/channel.h"

struct wp_cluster_channel; /* Opaque. */

/* The first member of a message. run is called on the other thread, once, and
 * then owns it; drop instead of it when the channel ends first. */
struct wp_cluster_message {
    struct wp_linked_message link;
    void (*run)(struct wp_cluster_message *message);
    void (*drop)(struct wp_cluster_message *message);
};

/* parts is borrowed; its core is looked at when the first message is sent. NULL
 * when memory or descriptors lack. */
struct wp_cluster_channel *
wp_cluster_channel_create(const struct wp_parts *parts);
/* After both threads have stopped to send; what waits is dropped. NULL is
 * fine. */
void wp_cluster_channel_destroy(struct wp_cluster_channel *channel);

/* The cluster's thread. */
void wp_cluster_channel_to_control(struct wp_cluster_channel *channel,
                                   struct wp_cluster_message *message);
/* Any thread. */
void wp_cluster_channel_to_cluster(struct wp_cluster_channel *channel,
                                   struct wp_cluster_message *message);
/* Messages to the cluster that wait. Any thread; a hint. */
uint32_t wp_cluster_channel_waiting(const struct wp_cluster_channel *channel);

#endif
