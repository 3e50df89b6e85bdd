#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pool/slots/ready_queue.h"

#define UID ((const uint8_t *)"0123456789abcdef")

enum {
    SLOTS = 64,
    POOLS = 3,
};

static struct wp_slots slots;
static struct wp_ready_queue queues[POOLS];

static int
setup(void **state)
{
    (void)state;
    assert_true(wp_slots_init(&slots, SLOTS, POOLS));
    for (uint32_t i = 0; i < POOLS; i++) {
        wp_ready_queue_init(&queues[i], &slots, i);
    }
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    wp_slots_check(&slots);
    wp_slots_fini(&slots);
    return 0;
}

static struct wp_slot_ref
push_new(uint32_t pool)
{
    struct wp_slot_ref ref = wp_slots_alloc(&slots, pool, UID, 0);

    assert_int_not_equal(ref.generation, 0);
    assert_true(wp_slot_make_ready(&slots, ref, WP_STR("e"), 1));
    wp_ready_queue_push(&queues[pool], ref);
    return ref;
}

static struct wp_slot_ref
pop(uint32_t pool)
{
    return wp_ready_queue_pop(&queues[pool], WP_SLOT_LEASED);
}

static void
destroy(struct wp_slot_ref ref, enum wp_slot_state from)
{
    assert_true(wp_slot_move(&slots, ref, from, WP_SLOT_DYING));
    assert_true(wp_slot_move(&slots, ref, WP_SLOT_DYING, WP_SLOT_FREE));
}

/* Empty at first, and empty again after what was pushed has been popped. */
static void
starts_and_ends_empty(void **state)
{
    struct wp_slot_ref ref;

    (void)state;
    assert_true(wp_ready_queue_is_empty(&queues[0]));
    assert_true(wp_slot_ref_eq(pop(0), WP_SLOT_REF_NONE));
    ref = push_new(0);
    assert_false(wp_ready_queue_is_empty(&queues[0]));
    assert_true(wp_slot_ref_eq(pop(0), ref));
    assert_true(wp_slot_ref_eq(pop(0), WP_SLOT_REF_NONE));
    assert_true(wp_ready_queue_is_empty(&queues[0]));
}

/* Oldest first, over many more pushes than there are nodes. */
static void
keeps_the_order(void **state)
{
    struct wp_slot_ref ring[8];

    (void)state;
    for (int i = 0; i < 8; i++) {
        ring[i] = push_new(0);
    }
    for (int i = 0; i < 10 * SLOTS; i++) {
        struct wp_slot_ref ref = pop(0);

        assert_true(wp_slot_ref_eq(ref, ring[i % 8]));
        destroy(ref, WP_SLOT_LEASED);
        ring[i % 8] = push_new(0);
    }
}

/* All slots can be in one queue, and none of another pool's shows up. */
static void
holds_every_slot_and_keeps_pools_apart(void **state)
{
    struct wp_slot_ref refs[SLOTS];

    (void)state;
    for (uint32_t i = 0; i < SLOTS; i++) {
        refs[i] = push_new(i % POOLS);
    }
    for (uint32_t i = 0; i < SLOTS; i++) {
        assert_true(wp_slot_ref_eq(pop(i % POOLS), refs[i]));
    }
    /* Nodes have wandered between the pools; once more the other way round. */
    for (uint32_t i = 0; i < SLOTS; i++) {
        assert_true(wp_slot_reopen(&slots, refs[i], &(bool){false}));
        wp_ready_queue_push(&queues[i % POOLS], refs[i]);
    }
    for (uint32_t i = SLOTS; i-- > 0;) {
        assert_false(wp_slot_ref_eq(pop(i % POOLS), WP_SLOT_REF_NONE));
    }
    for (uint32_t i = 0; i < POOLS; i++) {
        assert_true(wp_slot_ref_eq(pop(i), WP_SLOT_REF_NONE));
    }
}

/* Scale-down takes the stalest, and takes it for good. */
static void
pops_for_scale_down(void **state)
{
    struct wp_slot_ref first = push_new(0);
    struct wp_slot_ref second = push_new(0);

    (void)state;
    assert_true(
        wp_slot_ref_eq(wp_ready_queue_pop(&queues[0], WP_SLOT_DYING), first));
    assert_int_equal(wp_slot_state(&slots, first), WP_SLOT_DYING);
    assert_int_equal(wp_slots_tombstones(&slots, 0), 0);
    assert_true(wp_slot_ref_eq(pop(0), second));
}

/* Dead slots between live ones are skipped, and only they. */
static void
skips_tombstones(void **state)
{
    struct wp_slot_ref refs[SLOTS];

    (void)state;
    for (int i = 0; i < SLOTS; i++) {
        refs[i] = push_new(0);
    }
    for (int i = 0; i < SLOTS; i++) {
        if (i % 3 != 0) {
            destroy(refs[i], WP_SLOT_READY);
        }
    }
    for (int i = 0; i < SLOTS; i += 3) {
        assert_true(wp_slot_ref_eq(pop(0), refs[i]));
    }
    assert_true(wp_slot_ref_eq(pop(0), WP_SLOT_REF_NONE));
    assert_int_equal(wp_slots_tombstones(&slots, 0), 0);
}

/* A sandbox that crashes idle again and again behind a live one does not use up
 * the table: purge is due in time, frees all, and keeps order and live ones. */
static void
purge_frees_what_is_stuck(void **state)
{
    struct wp_slot_ref first = push_new(0);
    struct wp_slot_ref second = push_new(0);
    uint32_t purges = 0;

    (void)state;
    for (int i = 0; i < 50 * SLOTS; i++) {
        destroy(push_new(0), WP_SLOT_READY);
        if (wp_ready_queue_purge_due(&queues[0])) {
            uint32_t dead = wp_slots_tombstones(&slots, 0);

            assert_int_equal(wp_ready_queue_purge(&queues[0], UINT32_MAX),
                             dead);
            purges++;
        }
    }
    assert_true(purges > 0);
    assert_int_equal(wp_slots_count(&slots, 0, WP_SLOT_READY), 2);
    assert_true(wp_slot_ref_eq(pop(0), first));
    assert_true(wp_slot_ref_eq(pop(0), second));
    assert_true(wp_slot_ref_eq(pop(0), WP_SLOT_REF_NONE));
}

/* A pool's two queues share its counts; each keeps its order. */
static void
purge_of_two_queues_keeps_the_order_of_both(void **state)
{
    struct wp_ready_queue both[2];
    struct wp_slot_ref live[2][5];

    (void)state;
    both[0] = queues[0];
    wp_ready_queue_init_second(&queues[0], &slots, 0);
    both[1] = queues[0];
    for (int i = 0; i < 5; i++) {
        for (int q = 0; q < (i < 4 ? 2 : 1); q++) {
            queues[0] = both[q];
            live[q][i] = push_new(0);
            for (int k = 0; k <= q; k++) {
                destroy(push_new(0), WP_SLOT_READY);
            }
            both[q] = queues[0];
        }
    }
    assert_int_equal(wp_ready_queue_purge(&both[0], UINT32_MAX), 5);
    assert_int_equal(wp_ready_queue_purge(&both[1], UINT32_MAX), 8);
    assert_int_equal(wp_ready_queue_purge(&both[1], UINT32_MAX), 0);
    for (int q = 0; q < 2; q++) {
        queues[0] = both[q];
        for (int i = 0; i < 5 - q; i++) {
            assert_true(wp_slot_ref_eq(pop(0), live[q][i]));
        }
        assert_true(wp_slot_ref_eq(pop(0), WP_SLOT_REF_NONE));
    }
}

/* A purge in steps does as many as it was told, and loses nothing. */
static void
purge_obeys_its_steps(void **state)
{
    struct wp_slot_ref refs[4];
    bool seen[4] = {false};

    (void)state;
    assert_int_equal(wp_ready_queue_purge(&queues[0], UINT32_MAX), 0);
    for (int i = 0; i < 4; i++) {
        refs[i] = push_new(0);
    }
    destroy(refs[0], WP_SLOT_READY);
    destroy(refs[3], WP_SLOT_READY);
    assert_int_equal(wp_ready_queue_purge(&queues[0], 2), 1);
    assert_int_equal(wp_slots_tombstones(&slots, 0), 1);
    for (int i = 0; i < 2; i++) {
        struct wp_slot_ref ref = pop(0);

        for (int j = 1; j <= 2; j++) {
            if (wp_slot_ref_eq(ref, refs[j])) {
                assert_false(seen[j]);
                seen[j] = true;
            }
        }
    }
    assert_true(seen[1] && seen[2]);
    assert_true(wp_slot_ref_eq(pop(0), WP_SLOT_REF_NONE));
}

/* A purge is due when more than eight are dead beyond those that are ready. */
static void
purge_is_due_to_the_one(void **state)
{
    (void)state;
    for (uint32_t ready = 0; ready < 4; ready++) {
        if (ready > 0) {
            (void)push_new(0);
        }
        for (uint32_t dead = 0; dead <= 8 + ready; dead++) {
            assert_int_equal(wp_slots_tombstones(&slots, 0), dead);
            assert_false(wp_ready_queue_purge_due(&queues[0]));
            destroy(push_new(0), WP_SLOT_READY);
        }
        assert_true(wp_ready_queue_purge_due(&queues[0]));
        assert_int_equal(wp_ready_queue_purge(&queues[0], UINT32_MAX),
                         9 + ready);
    }
}

/* Who takes a queue over goes on with the counts and the nodes of its pool. */
static void
is_taken_over_whole(void **state)
{
    struct wp_ready_queue before;
    struct wp_slot_ref ref = push_new(2);

    (void)state;
    assert_true(wp_slot_ref_eq(pop(2), ref));
    before = queues[2];
    memset(&queues[2], 0, sizeof queues[2]);
    wp_ready_queue_take_over(&queues[2], &before);
    assert_ptr_equal(queues[2].slots, before.slots);
    assert_int_equal(queues[2].pool_index, 2);
    assert_true(wp_ready_queue_is_empty(&queues[2]));
    for (int i = 0; i < 9; i++) {
        destroy(push_new(2), WP_SLOT_READY);
    }
    assert_true(wp_ready_queue_purge_due(&queues[2]));
    assert_int_equal(wp_ready_queue_purge(&queues[2], UINT32_MAX), 9);
    ref = push_new(2);
    assert_true(wp_slot_ref_eq(pop(2), ref));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(starts_and_ends_empty, setup, teardown),
        cmocka_unit_test_setup_teardown(keeps_the_order, setup, teardown),
        cmocka_unit_test_setup_teardown(purge_is_due_to_the_one, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(is_taken_over_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(holds_every_slot_and_keeps_pools_apart,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(pops_for_scale_down, setup, teardown),
        cmocka_unit_test_setup_teardown(skips_tombstones, setup, teardown),
        cmocka_unit_test_setup_teardown(purge_frees_what_is_stuck, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            purge_of_two_queues_keeps_the_order_of_both, setup, teardown),
        cmocka_unit_test_setup_teardown(purge_obeys_its_steps, setup, teardown),
    };

    return cmocka_run_group_tests_name("ready_queue", tests, NULL, NULL);
}
