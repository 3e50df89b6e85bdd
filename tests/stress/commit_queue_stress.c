/* tests/stress/commit_queue_stress.c - many threads push, one takes: nothing is
 * lost, nothing comes twice, each thread's ops come in their order, and the
 * receiver is never left asleep. At the end the queue is closed under them. */
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "pool/leases/commit_queue.h"
#include "tests/support/base/stress.h"

struct item {
    struct wp_lease_op op;
    unsigned thread;
    uint64_t number;
};

static struct wp_commit_queue queue;
static struct item *items[STRESS_THREADS_MAX];
static uint64_t accepted[STRESS_THREADS_MAX];
static uint64_t taken[STRESS_THREADS_MAX];
static _Atomic(uint64_t) total_taken;
static uint64_t close_after;

static void
push_all(struct stress_thread *self)
{
    struct item *mine = items[self->number];

    for (uint64_t i = 0; i < self->stress->ops; i++) {
        mine[i].thread = self->number;
        mine[i].number = i;
        if (!wp_commit_queue_push(&queue, &mine[i].op)) {
            break;
        }
        accepted[self->number] = i + 1;
        /* Now and then all senders pause, so that the receiver sleeps. */
        if (wp_rng_below(&self->rng, 64) == 0) {
            (void)sched_yield();
        }
    }
}

static void *
take_all(void *arg)
{
    struct wp_lease_op *op;
    bool closed = false;

    (void)arg;
    while ((op = wp_commit_queue_take(&queue)) != NULL) {
        while (op != NULL) {
            struct item *item = WP_CONTAINER_OF(op, struct item, op);

            op = wp_lease_op_next(op);
            STRESS_CHECK(item->number == taken[item->thread]);
            taken[item->thread]++;
            atomic_fetch_add_explicit(&total_taken, 1, memory_order_relaxed);
        }
        if (!closed && atomic_load(&total_taken) >= close_after) {
            wp_commit_queue_close(&queue);
            closed = true;
        }
    }
    STRESS_CHECK(wp_commit_queue_take(&queue) == NULL);
    return NULL;
}

/* close_share: of all pushes, in percent, when the receiver closes; above 100:
 * it is closed once all were pushed. */
static void
run(const struct stress *stress, unsigned close_share)
{
    pthread_t receiver;

    wp_commit_queue_init(&queue);
    atomic_store(&total_taken, 0);
    close_after = stress->ops * stress->threads / 100 * close_share;
    for (unsigned i = 0; i < stress->threads; i++) {
        accepted[i] = 0;
        taken[i] = 0;
    }
    STRESS_CHECK(pthread_create(&receiver, NULL, take_all, NULL) == 0);
    stress_run(stress, push_all);
    wp_commit_queue_close(&queue);
    STRESS_CHECK(pthread_join(receiver, NULL) == 0);
    for (unsigned i = 0; i < stress->threads; i++) {
        STRESS_CHECK(taken[i] == accepted[i]);
        STRESS_CHECK(close_share <= 100 || taken[i] == stress->ops);
    }
    (void)printf("closed at %u %%: %llu taken, %llu sleeps\n", close_share,
                 (unsigned long long)atomic_load(&total_taken),
                 (unsigned long long)atomic_load(&queue.sleeps));
    wp_commit_queue_fini(&queue);
}

int
main(int argc, char **argv)
{
    struct stress stress = stress_args(argc, argv, "commit_queue", 50000);

    for (unsigned i = 0; i < stress.threads; i++) {
        items[i] = calloc(stress.ops, sizeof *items[i]);
        STRESS_CHECK(items[i] != NULL);
    }
    run(&stress, 101);
    run(&stress, 50);
    run(&stress, 0);
    for (unsigned i = 0; i < stress.threads; i++) {
        free(items[i]);
    }
    return 0;
}
