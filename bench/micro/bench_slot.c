/* bench/micro/bench_slot.c - moves of a slot, the two costs every sandbox has: its
 * whole life, and the one move a claim waits for. */
#include "bench/micro/gbench.h"
#include "pool/base/assert.h"
#include "pool/slots/slot.h"

enum {
    BATCH = 64,
};

static const uint8_t uid[WP_UID_LEN];
static const int threads[] = {1, 2, 4};
static struct wp_slots slots;

static void
setup(struct wp_bench_state *state)
{
    if (wp_bench_thread(state) == 0) {
        WP_ASSERT(wp_slots_init(&slots, 1024, 1));
    }
}

static void
teardown(struct wp_bench_state *state)
{
    if (wp_bench_thread(state) == 0) {
        wp_slots_check(&slots);
        wp_slots_fini(&slots);
    }
}

/* FREE -> WARMING -> DYING -> FREE: taken and given back. */
static void
bench_alloc(struct wp_bench_state *state)
{
    setup(state);
    while (wp_bench_keep(state, BATCH)) {
        for (int i = 0; i < BATCH; i++) {
            struct wp_slot_ref ref = wp_slots_alloc(&slots, 0, uid, 0);

            WP_ASSERT(ref.generation != 0);
            WP_ASSERT(
                wp_slot_move(&slots, ref, WP_SLOT_WARMING, WP_SLOT_DYING));
            WP_ASSERT(wp_slot_move(&slots, ref, WP_SLOT_DYING, WP_SLOT_FREE));
        }
    }
    teardown(state);
}

/* LEASED -> READY -> LEASED without the queue: the move a claim makes, and the
 * one an undo makes. Each thread has its own slot. */
static void
bench_claim_move(struct wp_bench_state *state)
{
    struct wp_slot_ref ref;

    setup(state);
    /* The barrier of the first keep orders the set-up before the others. */
    ref = WP_SLOT_REF_NONE;
    while (wp_bench_keep(state, BATCH)) {
        if (ref.generation == 0) {
            ref = wp_slots_alloc(&slots, 0, uid, 0);
            WP_ASSERT(
                wp_slot_make_ready(&slots, ref, WP_STR("unix:/run/s.sock"), 0));
            WP_ASSERT(wp_slot_dequeue(&slots, ref.index, WP_SLOT_LEASED, &ref));
        }
        for (int i = 0; i < BATCH; i++) {
            WP_ASSERT(wp_slot_reopen(&slots, ref, &(bool){false}));
            WP_ASSERT(wp_slot_dequeue(&slots, ref.index, WP_SLOT_LEASED, &ref));
        }
    }
    teardown(state);
}

/* A copy of what the slot says, as a grant needs it. */
static void
bench_read(struct wp_bench_state *state)
{
    struct wp_slot_ref ref;
    struct wp_slot_info info;

    setup(state);
    ref = wp_slots_alloc(&slots, 0, uid, 0);
    WP_ASSERT(wp_slot_make_ready(
        &slots, ref, WP_STR("unix:/run/warmpool/sandboxes/abcdefgh/s.sock"),
        0));
    while (wp_bench_keep(state, BATCH)) {
        for (int i = 0; i < BATCH; i++) {
            WP_ASSERT(wp_slot_read(&slots, ref, &info));
            wp_bench_use((uint64_t)info.endpoint[0]);
        }
    }
    teardown(state);
}

int
main(int argc, char **argv)
{
    const struct wp_bench all[] = {
        {"slot/alloc_and_free", bench_alloc, NULL, NULL, 0, threads, 3, false},
        {"slot/ready_leased_pair", bench_claim_move, NULL, NULL, 0, threads, 3,
         false},
        {"slot/read", bench_read, NULL, NULL, 0, NULL, 0, false},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(all); i++) {
        wp_bench_register(&all[i]);
    }
    return wp_bench_run(argc, argv);
}
