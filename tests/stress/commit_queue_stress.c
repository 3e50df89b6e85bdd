/* tests/stress/commit_queue_stress.c - many threads commit, some of which flush
 * and do what waits themselves: nobody has the turn while another has it,
 * nothing is lost, nothing comes twice, each thread's ops come in their order,
 * and nobody is left asleep. At the end the queue is closed under them. */
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "pool/leases/commit_queue.h"
#include "tests/support/base/stress.h"

struct item {
    struct wp_lease_op op;
    unsigned thread;
    uint64_t number;
};

/* What belongs to the turn: no atomics, so that TSan sees who has it wrongly.
 */
static struct {
    uint64_t taken[STRESS_THREADS_MAX];
    uint64_t total;
    struct wp_lease_op *left; /* Handed over, and not done. */
} turn;

static struct wp_commit_queue queue;
static struct item *items[STRESS_THREADS_MAX];
static uint64_t accepted[STRESS_THREADS_MAX];
static _Atomic(int) holders;
static _Atomic(uint64_t) handed_over;
static _Atomic(uint64_t) served; /* By who flushed. */
static uint64_t close_after;

static void
enter(void)
{
    STRESS_CHECK(atomic_fetch_add(&holders, 1) == 0);
}

static void
leave(void)
{
    STRESS_CHECK(atomic_fetch_sub(&holders, 1) == 1);
}

static void
do_all(struct wp_lease_op *op)
{
    while (op != NULL) {
        struct item *item = WP_CONTAINER_OF(op, struct item, op);

        op = wp_lease_op_next(op);
        STRESS_CHECK(item->number == turn.taken[item->thread]);
        turn.taken[item->thread]++;
        turn.total++;
    }
}

/* Now and then the turn, and what it has taken, is handed over. */
static void
flush(struct stress_thread *self)
{
    struct wp_lease_op *list = wp_commit_queue_try_take(&queue);

    while (list != NULL) {
        enter();
        if (wp_rng_below(&self->rng, 16) == 0) {
            turn.left = list;
            atomic_fetch_add(&handed_over, 1);
            leave();
            wp_commit_queue_hand_over(&queue);
            return;
        }
        do_all(list);
        atomic_fetch_add(&served, 1);
        leave();
        list = wp_commit_queue_take_more(&queue);
    }
}

/* Odd threads never flush. */
static void
commit_all(struct stress_thread *self)
{
    struct item *mine = items[self->number];
    bool flushes = self->number % 2 == 0;

    for (uint64_t i = 0; i < self->stress->ops; i++) {
        mine[i].thread = self->number;
        mine[i].number = i;
        if (!(flushes ? wp_commit_queue_gather(&queue, &mine[i].op)
                      : wp_commit_queue_push(&queue, &mine[i].op))) {
            break;
        }
        accepted[self->number] = i + 1;
        if (flushes && wp_rng_below(&self->rng, 8) == 0) {
            flush(self);
        }
        /* Now and then all senders pause, so that the receiver sleeps. */
        if (wp_rng_below(&self->rng, 64) == 0) {
            (void)sched_yield();
        }
    }
    flush(self);
}

static void *
receive_all(void *arg)
{
    struct wp_lease_op *list;
    bool closed = false;

    (void)arg;
    while (wp_commit_queue_take(&queue, &list)) {
        enter();
        do_all(turn.left);
        turn.left = NULL;
        do_all(list);
        leave();
        if (!closed && turn.total >= close_after) {
            wp_commit_queue_close(&queue);
            closed = true;
        }
    }
    return NULL;
}

/* close_share: of all ops, in percent, when the receiver closes; above 100: it
 * is closed once all were committed. */
static void
run(const struct stress *stress, unsigned close_share)
{
    pthread_t receiver;

    wp_commit_queue_init(&queue);
    memset(&turn, 0, sizeof turn);
    close_after = stress->ops * stress->threads / 100 * close_share;
    for (unsigned i = 0; i < stress->threads; i++) {
        accepted[i] = 0;
    }
    STRESS_CHECK(pthread_create(&receiver, NULL, receive_all, NULL) == 0);
    stress_run(stress, commit_all);
    wp_commit_queue_close(&queue);
    STRESS_CHECK(pthread_join(receiver, NULL) == 0);
    STRESS_CHECK(turn.left == NULL);
    for (unsigned i = 0; i < stress->threads; i++) {
        STRESS_CHECK(turn.taken[i] == accepted[i]);
        STRESS_CHECK(close_share <= 100 || turn.taken[i] == stress->ops);
    }
    (void)printf("closed at %u %%: %llu done, %llu sleeps, %llu times by who "
                 "flushed, %llu times handed over\n",
                 close_share, (unsigned long long)turn.total,
                 (unsigned long long)atomic_load(&queue.sleeps),
                 (unsigned long long)atomic_exchange(&served, 0),
                 (unsigned long long)atomic_exchange(&handed_over, 0));
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
