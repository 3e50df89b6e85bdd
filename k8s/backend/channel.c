#include "k8s/backend/channel.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "pool/base/assert.h"

enum {
    RETRY_US = 5000, /* Control's mailbox was full. */
};

struct wp_courier {
    const struct wp_parts *parts;
    int wake_fd;
    struct event *wake;
    struct event *retry;
    pthread_mutex_t lock; /* guards: everything below */
    struct wp_list to_control;
    struct wp_list to_cluster;
    uint32_t n_to_cluster;
    bool posted; /* A mail to control is under way. */
};

/* Takes all of a list, in order. */
static void
take_all(struct wp_courier *courier, struct wp_list *from, struct wp_list *out)
{
    wp_list_init(out);
    (void)pthread_mutex_lock(&courier->lock);
    for (struct wp_list *node; (node = wp_list_pop_front(from)) != NULL;) {
        wp_list_push_back(out, node);
    }
    if (from == &courier->to_control) {
        courier->posted = false;
    } else {
        courier->n_to_cluster = 0;
    }
    (void)pthread_mutex_unlock(&courier->lock);
}

static void
run_all(struct wp_list *letters)
{
    for (struct wp_list *node; (node = wp_list_pop_front(letters)) != NULL;) {
        struct wp_letter *letter =
            WP_CONTAINER_OF(node, struct wp_letter, node);

        letter->run(letter);
    }
}

/* On the control thread. */
static void
run_on_control(void *arg, uint64_t a, uint64_t b)
{
    struct wp_courier *courier = arg;
    struct wp_list letters;

    (void)a;
    (void)b;
    take_all(courier, &courier->to_control, &letters);
    run_all(&letters);
}

/* Sees that a mail is under way while letters wait. */
static void
post(struct wp_courier *courier)
{
    const struct wp_cluster_core *core = &courier->parts->core;
    struct timeval soon = {.tv_sec = 0, .tv_usec = RETRY_US};
    bool due;

    (void)pthread_mutex_lock(&courier->lock);
    due = !courier->posted && !wp_list_empty(&courier->to_control);
    courier->posted = courier->posted || due;
    (void)pthread_mutex_unlock(&courier->lock);
    if (due && !core->post(core->ctx, run_on_control, courier, 0, 0)) {
        (void)pthread_mutex_lock(&courier->lock);
        courier->posted = false;
        (void)pthread_mutex_unlock(&courier->lock);
        (void)event_add(courier->retry, &soon);
    }
}

static void
on_retry(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    post(arg);
}

static void
on_wake(evutil_socket_t fd, short what, void *arg)
{
    struct wp_courier *courier = arg;
    struct wp_list letters;
    eventfd_t value;

    (void)what;
    (void)eventfd_read((int)fd, &value);
    take_all(courier, &courier->to_cluster, &letters);
    run_all(&letters);
}

struct wp_courier *
wp_courier_create(const struct wp_parts *parts)
{
    struct wp_courier *courier = calloc(1, sizeof *courier);

    if (courier == NULL) {
        return NULL;
    }
    courier->parts = parts;
    (void)pthread_mutex_init(&courier->lock, NULL);
    wp_list_init(&courier->to_control);
    wp_list_init(&courier->to_cluster);
    courier->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (courier->wake_fd >= 0) {
        courier->wake = event_new(parts->base, courier->wake_fd,
                                  EV_READ | EV_PERSIST, on_wake, courier);
        courier->retry = evtimer_new(parts->base, on_retry, courier);
    }
    if (courier->wake == NULL || courier->retry == NULL ||
        event_add(courier->wake, NULL) != 0) {
        wp_courier_destroy(courier);
        return NULL;
    }
    return courier;
}

static void
drop_all(struct wp_list *letters)
{
    for (struct wp_list *node; (node = wp_list_pop_front(letters)) != NULL;) {
        struct wp_letter *letter =
            WP_CONTAINER_OF(node, struct wp_letter, node);

        letter->drop(letter);
    }
}

void
wp_courier_destroy(struct wp_courier *courier)
{
    if (courier == NULL) {
        return;
    }
    drop_all(&courier->to_control);
    drop_all(&courier->to_cluster);
    if (courier->wake != NULL) {
        event_free(courier->wake);
    }
    if (courier->retry != NULL) {
        event_free(courier->retry);
    }
    if (courier->wake_fd >= 0) {
        (void)close(courier->wake_fd);
    }
    (void)pthread_mutex_destroy(&courier->lock);
    free(courier);
}

void
wp_courier_to_control(struct wp_courier *courier, struct wp_letter *letter)
{
    (void)pthread_mutex_lock(&courier->lock);
    wp_list_push_back(&courier->to_control, &letter->node);
    (void)pthread_mutex_unlock(&courier->lock);
    post(courier);
}

void
wp_courier_to_cluster(struct wp_courier *courier, struct wp_letter *letter)
{
    bool first;

    (void)pthread_mutex_lock(&courier->lock);
    first = wp_list_empty(&courier->to_cluster);
    wp_list_push_back(&courier->to_cluster, &letter->node);
    courier->n_to_cluster++;
    (void)pthread_mutex_unlock(&courier->lock);
    if (first) {
        (void)eventfd_write(courier->wake_fd, 1);
    }
}

uint32_t
wp_courier_waiting(struct wp_courier *courier)
{
    uint32_t n;

    (void)pthread_mutex_lock(&courier->lock);
    n = courier->n_to_cluster;
    (void)pthread_mutex_unlock(&courier->lock);
    return n;
}
