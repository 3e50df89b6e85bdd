/* Senders put numbered messages into a small channel; one receiver sleeps in
 * poll and runs them. Nothing is lost, nothing comes twice, each sender's
 * messages come in order, and no wake-up is missed: poll never runs into its
 * limit. Then the same with a linked channel, of messages that each sender sends
 * again once they were received. */
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "pool/base/channel.h"
#include "tests/support/base/stress.h"

enum {
    CAP = 16,
    WAKE_LIMIT_MS = 20000,
};

static struct wp_channel channel;
static uint64_t last[STRESS_THREADS_MAX]; /* The receiver's. */
static uint64_t received;                 /* The receiver's. */

static void
take(void *ctx, uint64_t sender, uint64_t number)
{
    STRESS_CHECK(ctx == &channel && sender < STRESS_THREADS_MAX);
    STRESS_CHECK(number == last[sender] + 1);
    last[sender] = number;
    received++;
}

static void
receive(uint64_t total)
{
    while (received < total) {
        struct pollfd fd = {wp_channel_fd(&channel), POLLIN, 0};

        STRESS_CHECK(poll(&fd, 1, WAKE_LIMIT_MS) == 1);
        /* A few at a time, so that the limit's wake-up is tested as well. */
        (void)wp_channel_run(&channel, 5);
    }
}

static void
body(struct stress_thread *self)
{
    if (self->number == 0) {
        receive(self->stress->ops * (self->stress->threads - 1));
        return;
    }
    for (uint64_t i = 1; i <= self->stress->ops; i++) {
        struct wp_message message = {take, &channel, self->number, i};

        while (!wp_channel_send(&channel, message)) {
            (void)sched_yield();
        }
        if (wp_rng_below(&self->rng, 256) == 0) {
            (void)sched_yield();
        }
    }
}

/* --- linked --- */

struct numbered {
    struct wp_linked_message message;
    _Atomic(bool) away; /* Sent, and not yet received. */
    unsigned sender;
    uint64_t number;
};

enum {
    IN_FLIGHT = 256, /* Of one sender. */
};

static struct wp_linked_channel linked;
static struct numbered numbered[STRESS_THREADS_MAX][IN_FLIGHT];
static int wake_fd;

static void
take_linked(struct wp_linked_message *list)
{
    while (list != NULL) {
        struct numbered *one = WP_CONTAINER_OF(list, struct numbered, message);

        list = list->next; /* From here on the sender may use it again. */
        take(&channel, one->sender, one->number);
        atomic_store_explicit(&one->away, false, memory_order_release);
    }
}

static void
receive_linked(uint64_t expected)
{
    while (received < expected) {
        struct pollfd fd = {wake_fd, POLLIN, 0};
        eventfd_t value;

        STRESS_CHECK(poll(&fd, 1, WAKE_LIMIT_MS) == 1);
        STRESS_CHECK(eventfd_read(wake_fd, &value) == 0);
        take_linked(wp_linked_receive(&linked));
    }
    STRESS_CHECK(wp_linked_receive(&linked) == NULL);
}

static void
body_linked(struct stress_thread *self)
{
    if (self->number == 0) {
        receive_linked(self->stress->ops * (self->stress->threads - 1));
        return;
    }
    for (uint64_t i = 1; i <= self->stress->ops; i++) {
        struct numbered *one = &numbered[self->number][i % IN_FLIGHT];

        while (atomic_load_explicit(&one->away, memory_order_acquire)) {
            (void)sched_yield();
        }
        one->sender = self->number;
        one->number = i;
        atomic_store_explicit(&one->away, true, memory_order_relaxed);
        if (wp_linked_send(&linked, &one->message) == WP_LINKED_WAKE) {
            STRESS_CHECK(eventfd_write(wake_fd, 1) == 0);
        }
    }
}

static void
run_linked(const struct stress *stress)
{
    wp_linked_init(&linked);
    wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    STRESS_CHECK(wake_fd >= 0);
    memset(last, 0, sizeof last);
    received = 0;
    stress_run(stress, body_linked);
    for (unsigned i = 1; i < stress->threads; i++) {
        STRESS_CHECK(last[i] == stress->ops);
    }
    (void)close(wake_fd);
    (void)printf("linked: ok, %llu received\n", (unsigned long long)received);
}

int
main(int argc, char **argv)
{
    struct stress stress = stress_args(argc, argv, "channel", 500000);

    STRESS_CHECK(stress.threads >= 2);
    STRESS_CHECK(wp_channel_init(&channel, CAP));
    stress_run(&stress, body);
    STRESS_CHECK(wp_channel_run(&channel, CAP) == 0);
    wp_channel_fini(&channel);
    (void)printf("channel: ok, %llu received\n", (unsigned long long)received);
    run_linked(&stress);
    return 0;
}
