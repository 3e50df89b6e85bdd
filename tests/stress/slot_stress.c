/* Threads move few slots through all their states while others read them.
 *
 * What wp_slot_read returns is of one generation and one kind of text; of all
 * threads that try one move, one succeeds; fences only grow; and the counts are
 * right at the end (I4). */
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "pool/slots/ready_queue.h"
#include "tests/support/base/stress.h"

enum {
    SLOTS = 8,
    POOLS = 2,
};

static struct wp_slots slots;
static struct wp_ready_queue queues[POOLS];
static _Atomic(uint64_t) last_fence[SLOTS];
/* The generation of a lease whose fence was taken: whoever moves it on takes
 * this first. Before it, nobody but the thread that popped it may touch it, as
 * in the core; else two would take its next fence at once. */
static _Atomic(uint32_t) fenced[SLOTS];
static _Atomic(uint64_t) serial;
static _Atomic(uint64_t) reads;

/* "kind-NNN...": a text long enough for many words, which says its serial. */
static struct wp_str
text_of(char *out, char kind, uint64_t number, size_t len)
{
    char digits[24];
    size_t n = (size_t)snprintf(digits, sizeof digits, "%llu,",
                                (unsigned long long)number);

    out[0] = kind;
    for (size_t i = 1; i < len; i++) {
        out[i] = digits[(i - 1) % n];
    }
    return (struct wp_str){out, len};
}

static void
check_info(const struct wp_slot_info *info)
{
    char text[WP_ENDPOINT_MAX];
    uint64_t halves[2];
    uint64_t number;

    memcpy(halves, info->uid, sizeof halves);
    number = halves[0];
    STRESS_CHECK(halves[1] == ~number);
    STRESS_CHECK(info->created_ns == (int64_t)number);
    STRESS_CHECK(info->pool_index == number % POOLS);
    STRESS_CHECK(info->endpoint[0] == '\0' || info->lost_reason[0] == '\0');
    if (info->endpoint[0] != '\0') {
        struct wp_str wanted = text_of(text, 'e', number, 20 + number % 80);

        STRESS_CHECK(wp_str_is(wanted, info->endpoint));
        STRESS_CHECK(info->ready_ns == (int64_t)number + 1);
        STRESS_CHECK(info->state != WP_SLOT_WARMING);
        STRESS_CHECK(info->state != WP_SLOT_LOST);
    } else if (info->lost_reason[0] != '\0') {
        struct wp_str wanted = text_of(text, 'r', number, 20 + number % 70);

        STRESS_CHECK(wp_str_is(wanted, info->lost_reason));
        STRESS_CHECK(info->state == WP_SLOT_LOST ||
                     info->state == WP_SLOT_DYING);
    }
}

static void
make(struct stress_thread *self)
{
    uint64_t number =
        atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed);
    uint64_t uid[2] = {number, ~number};

    (void)self;
    (void)!wp_slots_alloc(&slots, (uint32_t)(number % POOLS),
                          (const uint8_t *)uid, (int64_t)number)
        .generation;
}

/* One of the moves that fit the slot's state; others may be faster. */
static void
move_on(struct stress_thread *self, struct wp_slot_ref ref,
        const struct wp_slot_info *info)
{
    char text[WP_ENDPOINT_MAX];
    uint64_t number;
    bool die = wp_rng_below(&self->rng, 3) == 0;

    memcpy(&number, info->uid, sizeof number);
    switch (info->state) {
    case WP_SLOT_WARMING:
        if (die) {
            (void)!wp_slot_move(&slots, ref, WP_SLOT_WARMING, WP_SLOT_DYING);
        } else if (wp_slot_make_ready(
                       &slots, ref,
                       text_of(text, 'e', number, 20 + number % 80),
                       (int64_t)number + 1)) {
            wp_ready_queue_push(&queues[info->pool_index], ref);
        }
        break;
    case WP_SLOT_READY:
        if (die) {
            (void)!wp_slot_move(&slots, ref, WP_SLOT_READY, WP_SLOT_DYING);
        }
        break;
    case WP_SLOT_LEASED:
        if (!atomic_compare_exchange_strong(&fenced[ref.index],
                                            &(uint32_t){ref.generation}, 0)) {
            break;
        }
        if (die) {
            (void)!wp_slot_lose(&slots, ref,
                                text_of(text, 'r', number, 20 + number % 70));
        } else if (number % 5 == 0) {
            (void)!wp_slot_move(&slots, ref, WP_SLOT_LEASED,
                                WP_SLOT_QUARANTINED);
        } else if (number % 5 < 3) {
            (void)!wp_slot_move(&slots, ref, WP_SLOT_LEASED, WP_SLOT_DYING);
        } else if (wp_slot_reopen(&slots, ref, &(bool){false})) {
            wp_ready_queue_push(&queues[info->pool_index], ref);
        }
        break;
    case WP_SLOT_LOST:
        (void)!wp_slot_move(&slots, ref, WP_SLOT_LOST, WP_SLOT_DYING);
        break;
    case WP_SLOT_QUARANTINED:
        (void)!wp_slot_move(&slots, ref, WP_SLOT_QUARANTINED, WP_SLOT_DYING);
        break;
    case WP_SLOT_DYING:
        (void)!wp_slot_move(&slots, ref, WP_SLOT_DYING, WP_SLOT_FREE);
        break;
    case WP_SLOT_FREE:
    case WP_SLOT_STATE_COUNT:
        STRESS_CHECK(info->state != info->state);
        break;
    }
}

static void
lease(struct stress_thread *self)
{
    uint32_t pool = (uint32_t)wp_rng_below(&self->rng, POOLS);
    struct wp_slot_ref ref = wp_ready_queue_pop(&queues[pool], WP_SLOT_LEASED);
    struct wp_slot_info info;

    if (ref.generation != 0) {
        uint64_t fence = wp_slot_fence_next(&slots, ref);
        uint64_t before = atomic_exchange_explicit(&last_fence[ref.index],
                                                   fence, memory_order_relaxed);

        /* Another may have leased the slot since, and passed us here. */
        STRESS_CHECK(fence != before);
        atomic_store(&fenced[ref.index], ref.generation);
        if (wp_slot_read(&slots, ref, &info)) {
            STRESS_CHECK(info.pool_index == pool);
        }
    }
}

static void
body(struct stress_thread *self)
{
    for (uint64_t i = 0; i < self->stress->ops; i++) {
        uint32_t index = (uint32_t)wp_rng_below(&self->rng, SLOTS);
        struct wp_slot_ref ref = wp_slot_ref_at(&slots, index);
        struct wp_slot_info info;

        switch (wp_rng_below(&self->rng, 8)) {
        case 0:
            make(self);
            continue;
        case 1:
        case 2:
            lease(self);
            continue;
        default:
            break;
        }
        if (!wp_slot_read(&slots, ref, &info)) {
            continue;
        }
        check_info(&info);
        atomic_fetch_add_explicit(&reads, 1, memory_order_relaxed);
        if (wp_rng_below(&self->rng, 2) == 0) {
            move_on(self, ref, &info);
        }
    }
}

int
main(int argc, char **argv)
{
    struct stress stress = stress_args(argc, argv, "slot", 400000);

    STRESS_CHECK(wp_slots_init(&slots, SLOTS, POOLS));
    for (uint32_t i = 0; i < POOLS; i++) {
        wp_ready_queue_init(&queues[i], &slots, i);
    }
    stress_run(&stress, body);
    wp_slots_check(&slots);
    STRESS_CHECK(stress.ops < 1000 || wp_slots_destroyed(&slots, 0) > 0);
    (void)printf("slot: ok, %llu created, %llu read\n",
                 (unsigned long long)(wp_slots_created(&slots, 0) +
                                      wp_slots_created(&slots, 1)),
                 (unsigned long long)atomic_load(&reads));
    wp_slots_fini(&slots);
    return 0;
}
