#include "k8s/backend/channel.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    RETRY_US = 5000, /* Control's own channel was full. */
};

struct wp_cluster_channel {
    const struct wp_parts *parts;
    int wake_fd;
    struct event *wake;
    struct event *retry;
    struct wp_linked_channel to_control;
    struct wp_linked_channel to_cluster;
    _Atomic(uint32_t) n_to_cluster;
};

static struct wp_cluster_message *
next(struct wp_linked_message **list)
{
    struct wp_cluster_message *message =
        WP_CONTAINER_OF(*list, struct wp_cluster_message, link);

    *list = (*list)->next; /* Now: the message may be sent on, or freed. */
    return message;
}

/* On the control thread. */
static void
run_on_control(void *arg, uint64_t a, uint64_t b)
{
    struct wp_cluster_channel *channel = arg;
    struct wp_linked_message *list = wp_linked_receive(&channel->to_control);

    (void)a;
    (void)b;
    while (list != NULL) {
        struct wp_cluster_message *message = next(&list);

        message->run(message);
    }
}

static void
wake_control(struct wp_cluster_channel *channel)
{
    const struct wp_cluster_core *core = &channel->parts->core;
    struct timeval soon = {.tv_sec = 0, .tv_usec = RETRY_US};

    if (!core->post(core->ctx, run_on_control, channel, 0, 0)) {
        (void)event_add(channel->retry, &soon);
    }
}

static void
on_retry(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    wake_control(arg);
}

static void
on_wake(evutil_socket_t fd, short what, void *arg)
{
    struct wp_cluster_channel *channel = arg;
    struct wp_linked_message *list;
    eventfd_t value;

    (void)what;
    (void)eventfd_read((int)fd, &value);
    list = wp_linked_receive(&channel->to_cluster);
    while (list != NULL) {
        struct wp_cluster_message *message = next(&list);

        atomic_fetch_sub_explicit(&channel->n_to_cluster, 1,
                                  memory_order_relaxed);
        message->run(message);
    }
}

struct wp_cluster_channel *
wp_cluster_channel_create(const struct wp_parts *parts)
{
    struct wp_cluster_channel *channel = calloc(1, sizeof *channel);

    if (channel == NULL) {
        return NULL;
    }
    channel->parts = parts;
    wp_linked_init(&channel->to_control);
    wp_linked_init(&channel->to_cluster);
    channel->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (channel->wake_fd >= 0) {
        channel->wake = event_new(parts->base, channel->wake_fd,
                                  EV_READ | EV_PERSIST, on_wake, channel);
        channel->retry = evtimer_new(parts->base, on_retry, channel);
    }
    if (channel->wake == NULL || channel->retry == NULL ||
        event_add(channel->wake, NULL) != 0) {
        wp_cluster_channel_destroy(channel);
        return NULL;
    }
    return channel;
}

static void
drop_all(struct wp_linked_channel *from)
{
    struct wp_linked_message *list = wp_linked_receive(from);

    while (list != NULL) {
        struct wp_cluster_message *message = next(&list);

        message->drop(message);
    }
}

void
wp_cluster_channel_destroy(struct wp_cluster_channel *channel)
{
    if (channel == NULL) {
        return;
    }
    drop_all(&channel->to_control);
    drop_all(&channel->to_cluster);
    if (channel->wake != NULL) {
        event_free(channel->wake);
    }
    if (channel->retry != NULL) {
        event_free(channel->retry);
    }
    if (channel->wake_fd >= 0) {
        (void)close(channel->wake_fd);
    }
    free(channel);
}

void
wp_cluster_channel_to_control(struct wp_cluster_channel *channel,
                              struct wp_cluster_message *message)
{
    if (wp_linked_send(&channel->to_control, &message->link) ==
        WP_LINKED_WAKE) {
        wake_control(channel);
    }
}

void
wp_cluster_channel_to_cluster(struct wp_cluster_channel *channel,
                              struct wp_cluster_message *message)
{
    atomic_fetch_add_explicit(&channel->n_to_cluster, 1, memory_order_relaxed);
    if (wp_linked_send(&channel->to_cluster, &message->link) ==
        WP_LINKED_WAKE) {
        (void)eventfd_write(channel->wake_fd, 1);
    }
}

uint32_t
wp_cluster_channel_waiting(const struct wp_cluster_channel *channel)
{
    return atomic_load_explicit(&channel->n_to_cluster, memory_order_relaxed);
}
