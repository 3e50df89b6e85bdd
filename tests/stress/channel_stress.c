/* Senders put numbered messages into a small channel; one receiver sleeps in
 * poll and runs them. Nothing is lost, nothing comes twice, each sender's
 * messages come in order, and no wake-up is missed: poll never runs into its
 * limit. */
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>

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
    return 0;
}
