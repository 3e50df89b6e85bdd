/* Threads pop, check, and push again or replace; in three parts.
 *
 * 1. Order: half of the threads push numbered slots, the others pop them. What
 *    one consumer sees of one producer is in the order of the pushes, nothing
 * is
 *    lost and nothing comes twice.
 * 2. Empty means empty: with fewer threads than slots in circulation, each with
 *    at most one slot in its hand, a pop that says empty is false.
 * 3. Tombstones: sandboxes die in the queue, while others pop, and slots are
 * used
 *    anew; nothing is held twice and every slot is found again at the end. */
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "pool/slots/ready_queue.h"
#include "tests/support/base/stress.h"

#define UID ((const uint8_t *)"0123456789abcdef")

enum {
    SLOTS = 64,
    POOLS = 2,
};

static struct wp_slots slots;
static struct wp_ready_queue queues[POOLS];
/* Who has a slot, by index: 0 nobody, else thread number + 1. */
static _Atomic(uint32_t) holder[SLOTS];
/* Part 1: what the slot stands for, {producer, number}; written by its producer
 * before the push, read by its consumer after the pop. */
static uint64_t label[SLOTS];
static _Atomic(uint64_t) consumed;
static _Atomic(uint32_t) killed;

static void
reset(void)
{
    STRESS_CHECK(wp_slots_init(&slots, SLOTS, POOLS));
    for (uint32_t i = 0; i < POOLS; i++) {
        wp_ready_queue_init(&queues[i], &slots, i);
    }
    for (uint32_t i = 0; i < SLOTS; i++) {
        atomic_init(&holder[i], 0);
    }
}

static void
hold(struct wp_slot_ref ref, unsigned number)
{
    uint32_t nobody = 0;

    STRESS_CHECK(ref.index < SLOTS);
    STRESS_CHECK(atomic_compare_exchange_strong_explicit(
        &holder[ref.index], &nobody, number + 1, memory_order_relaxed,
        memory_order_relaxed));
}

static void
let_go(struct wp_slot_ref ref, unsigned number)
{
    uint32_t me = number + 1;

    STRESS_CHECK(atomic_compare_exchange_strong_explicit(
        &holder[ref.index], &me, 0, memory_order_relaxed,
        memory_order_relaxed));
}

static void
destroy(struct wp_slot_ref ref, enum wp_slot_state from)
{
    STRESS_CHECK(wp_slot_move(&slots, ref, from, WP_SLOT_DYING));
    STRESS_CHECK(wp_slot_move(&slots, ref, WP_SLOT_DYING, WP_SLOT_FREE));
}

static bool
push_new(uint32_t pool, uint64_t what)
{
    struct wp_slot_ref ref = wp_slots_alloc(&slots, pool, UID, 0);

    if (ref.generation == 0) {
        return false;
    }
    label[ref.index] = what;
    STRESS_CHECK(wp_slot_make_ready(&slots, ref, WP_STR("unix:/e"), 1));
    wp_ready_queue_push(&queues[pool], ref);
    return true;
}

static void
produce(struct stress_thread *self)
{
    for (uint64_t n = 1; n <= self->stress->ops;) {
        if (push_new(0, (uint64_t)self->number << 48 | n)) {
            n++;
        } else {
            (void)sched_yield();
        }
    }
}

static void
consume(struct stress_thread *self, uint64_t total)
{
    uint64_t last[STRESS_THREADS_MAX] = {0};

    while (atomic_load_explicit(&consumed, memory_order_relaxed) < total) {
        struct wp_slot_ref ref = wp_ready_queue_pop(&queues[0], WP_SLOT_LEASED);
        uint64_t what;

        if (ref.generation == 0) {
            (void)sched_yield();
            continue;
        }
        hold(ref, self->number);
        what = label[ref.index];
        STRESS_CHECK(what >> 48 < self->stress->threads);
        STRESS_CHECK((what & UINT64_C(0xffffffffffff)) > last[what >> 48]);
        last[what >> 48] = what & UINT64_C(0xffffffffffff);
        atomic_fetch_add_explicit(&consumed, 1, memory_order_relaxed);
        let_go(ref, self->number);
        destroy(ref, WP_SLOT_LEASED);
    }
}

static void
order_body(struct stress_thread *self)
{
    unsigned producers = (self->stress->threads + 1) / 2;

    if (self->number < producers) {
        produce(self);
    } else {
        consume(self, self->stress->ops * producers);
    }
}

static void
circulate_body(struct stress_thread *self)
{
    for (uint64_t i = 0; i < self->stress->ops; i++) {
        struct wp_slot_ref ref = wp_ready_queue_pop(&queues[0], WP_SLOT_LEASED);

        /* As many slots as threads: there is one left for each. */
        STRESS_CHECK(ref.generation != 0);
        hold(ref, self->number);
        if (wp_rng_below(&self->rng, 64) == 0) {
            (void)sched_yield();
        }
        let_go(ref, self->number);
        STRESS_CHECK(wp_slot_reopen(&slots, ref, &(bool){false}));
        wp_ready_queue_push(&queues[0], ref);
    }
}

/* Kills whatever slot it hits while that is ready. */
static void
kill_one(struct stress_thread *self)
{
    uint32_t index = (uint32_t)wp_rng_below(&self->rng, SLOTS);
    struct wp_slot_ref ref = wp_slot_ref_at(&slots, index);

    if (wp_slot_move(&slots, ref, WP_SLOT_READY, WP_SLOT_DYING)) {
        atomic_fetch_add_explicit(&killed, 1, memory_order_relaxed);
        if (wp_rng_below(&self->rng, 2) == 0) {
            (void)sched_yield();
        }
        STRESS_CHECK(wp_slot_move(&slots, ref, WP_SLOT_DYING, WP_SLOT_FREE));
    }
}

static void
mortal_body(struct stress_thread *self)
{
    for (uint64_t i = 0; i < self->stress->ops; i++) {
        uint32_t pool = (uint32_t)wp_rng_below(&self->rng, POOLS);
        uint64_t what = wp_rng_below(&self->rng, 16);
        struct wp_slot_ref ref;

        if (what < 7) {
            (void)push_new(pool, 0);
            continue;
        }
        if (what < 10) {
            kill_one(self);
            continue;
        }
        ref = wp_ready_queue_pop(&queues[pool],
                                 what == 10 ? WP_SLOT_DYING : WP_SLOT_LEASED);
        if (ref.generation == 0) {
            continue;
        }
        hold(ref, self->number);
        let_go(ref, self->number);
        if (what == 10) {
            STRESS_CHECK(
                wp_slot_move(&slots, ref, WP_SLOT_DYING, WP_SLOT_FREE));
        } else if (what < 13) {
            STRESS_CHECK(wp_slot_reopen(&slots, ref, &(bool){false}));
            wp_ready_queue_push(&queues[pool], ref);
        } else {
            destroy(ref, WP_SLOT_LEASED);
        }
        /* The purge's lock is this thread being the only one to call it. */
        if (self->number == 0 && wp_ready_queue_purge_due(&queues[pool])) {
            (void)wp_ready_queue_purge(&queues[pool], UINT32_MAX);
        }
    }
}

/* Every slot is to be had again once both queues are emptied. */
static void
check_all_come_back(void)
{
    struct wp_slot_ref ref;

    for (uint32_t i = 0; i < POOLS; i++) {
        while (
            (ref = wp_ready_queue_pop(&queues[i], WP_SLOT_DYING)).generation !=
            0) {
            STRESS_CHECK(
                wp_slot_move(&slots, ref, WP_SLOT_DYING, WP_SLOT_FREE));
        }
        STRESS_CHECK(wp_ready_queue_is_empty(&queues[i]));
        STRESS_CHECK(wp_slots_tombstones(&slots, i) == 0);
        STRESS_CHECK(wp_slots_created(&slots, i) ==
                     wp_slots_destroyed(&slots, i));
    }
    for (uint32_t i = 0; i < SLOTS; i++) {
        STRESS_CHECK(wp_slots_alloc(&slots, 0, UID, 0).generation != 0);
    }
    STRESS_CHECK(wp_slots_alloc(&slots, 0, UID, 0).generation == 0);
    wp_slots_check(&slots);
    wp_slots_fini(&slots);
}

int
main(int argc, char **argv)
{
    struct stress stress = stress_args(argc, argv, "ready_queue", 200000);

    STRESS_CHECK(stress.threads >= 2);
    reset();
    stress_run(&stress, order_body);
    check_all_come_back();

    reset();
    for (unsigned i = 0; i < stress.threads; i++) {
        STRESS_CHECK(push_new(0, 0));
    }
    stress_run(&stress, circulate_body);
    check_all_come_back();

    reset();
    stress_run(&stress, mortal_body);
    STRESS_CHECK(stress.ops < 1000 || atomic_load(&killed) > 0);
    check_all_come_back();
    (void)printf("ready_queue: ok, %u killed while ready\n",
                 atomic_load(&killed));
    return 0;
}
