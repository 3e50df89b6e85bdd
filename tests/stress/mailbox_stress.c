/* Producers post numbered mail into a small mailbox; one consumer sleeps in
 * poll and drains. Nothing is lost, nothing comes twice, each producer's mail
 * comes in order, and no wake-up is missed: poll never runs into its limit. */
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>

#include "pool/base/mailbox.h"
#include "tests/support/base/stress.h"

enum {
    CAP = 16,
    WAKE_LIMIT_MS = 20000,
};

static struct wp_mailbox box;
static uint64_t last[STRESS_THREADS_MAX]; /* The consumer's. */
static uint64_t received;                 /* The consumer's. */

static void
take(void *ctx, uint64_t producer, uint64_t number)
{
    STRESS_CHECK(ctx == &box && producer < STRESS_THREADS_MAX);
    STRESS_CHECK(number == last[producer] + 1);
    last[producer] = number;
    received++;
}

static void
consume(uint64_t total)
{
    while (received < total) {
        struct pollfd fd = {wp_mailbox_fd(&box), POLLIN, 0};

        STRESS_CHECK(poll(&fd, 1, WAKE_LIMIT_MS) == 1);
        /* A few at a time, so that the limit's wake-up is tested as well. */
        (void)wp_mailbox_drain(&box, 5);
    }
}

static void
body(struct stress_thread *self)
{
    if (self->number == 0) {
        consume(self->stress->ops * (self->stress->threads - 1));
        return;
    }
    for (uint64_t i = 1; i <= self->stress->ops; i++) {
        struct wp_mail mail = {take, &box, self->number, i};

        while (!wp_mailbox_post(&box, mail)) {
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
    struct stress stress = stress_args(argc, argv, "mailbox", 500000);

    STRESS_CHECK(stress.threads >= 2);
    STRESS_CHECK(wp_mailbox_init(&box, CAP));
    stress_run(&stress, body);
    STRESS_CHECK(wp_mailbox_drain(&box, CAP) == 0);
    wp_mailbox_fini(&box);
    (void)printf("mailbox: ok, %llu received\n", (unsigned long long)received);
    return 0;
}
