#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pool/claims/claim_table.h"
#include "pool/slots/ready_queue.h"
#include "pool/slots/slot.h"

#define UID ((const uint8_t *)"0123456789abcdef")

enum {
    SLOTS = 8,
    POOLS = 2,
};

static struct wp_slots slots;
static struct wp_ready_queue queue;

static int
setup(void **state)
{
    (void)state;
    assert_true(wp_slots_init(&slots, SLOTS, POOLS));
    wp_ready_queue_init(&queue, &slots, 0);
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
alloc(void)
{
    return wp_slots_alloc(&slots, 0, UID, 7);
}

static struct wp_slot_ref
alloc_ready(void)
{
    struct wp_slot_ref ref = alloc();

    assert_true(wp_slot_make_ready(&slots, ref, WP_STR("unix:/s"), 9));
    wp_ready_queue_push(&queue, ref);
    return ref;
}

static void
finish(struct wp_slot_ref ref, enum wp_slot_state from)
{
    assert_true(wp_slot_move(&slots, ref, from, WP_SLOT_DYING));
    assert_true(wp_slot_move(&slots, ref, WP_SLOT_DYING, WP_SLOT_FREE));
}

/* The table of edges is what the design says, no more and no less. */
static void
allows_only_the_known_edges(void **state)
{
    static const struct {
        enum wp_slot_state from;
        enum wp_slot_state to;
    } wanted[] = {
        {WP_SLOT_FREE, WP_SLOT_WARMING},
        {WP_SLOT_WARMING, WP_SLOT_READY},
        {WP_SLOT_WARMING, WP_SLOT_DYING},
        {WP_SLOT_WARMING, WP_SLOT_QUARANTINED},
        {WP_SLOT_READY, WP_SLOT_LEASED},
        {WP_SLOT_WARMING, WP_SLOT_LEASED},
        {WP_SLOT_READY, WP_SLOT_QUARANTINED},
        {WP_SLOT_QUARANTINED, WP_SLOT_LEASED},
        {WP_SLOT_READY, WP_SLOT_DYING},
        {WP_SLOT_LEASED, WP_SLOT_READY},
        {WP_SLOT_LEASED, WP_SLOT_LOST},
        {WP_SLOT_LEASED, WP_SLOT_DYING},
        {WP_SLOT_LEASED, WP_SLOT_QUARANTINED},
        {WP_SLOT_LOST, WP_SLOT_DYING},
        {WP_SLOT_QUARANTINED, WP_SLOT_DYING},
        {WP_SLOT_DYING, WP_SLOT_FREE},
    };
    size_t allowed = 0;

    (void)state;
    for (int from = 0; from < WP_SLOT_STATE_COUNT; from++) {
        for (int to = 0; to < WP_SLOT_STATE_COUNT; to++) {
            allowed += wp_slot_edge_allowed((enum wp_slot_state)from,
                                            (enum wp_slot_state)to);
        }
    }
    assert_int_equal(allowed, WP_ARRAY_LEN(wanted));
    for (size_t i = 0; i < WP_ARRAY_LEN(wanted); i++) {
        assert_true(wp_slot_edge_allowed(wanted[i].from, wanted[i].to));
    }
}

/* A full life is counted at each step, and the slot comes back with another
 * generation. */
static void
counts_a_full_life(void **state)
{
    struct wp_slot_ref ref = alloc_ready();
    struct wp_slot_ref got;

    (void)state;
    assert_int_equal(wp_slots_count(&slots, 0, WP_SLOT_READY), 1);
    assert_int_equal(wp_slots_created(&slots, 0), 1);
    got = wp_ready_queue_pop(&queue, WP_SLOT_LEASED);
    assert_true(wp_slot_ref_eq(got, ref));
    assert_int_equal(wp_slots_count(&slots, 0, WP_SLOT_READY), 0);
    assert_int_equal(wp_slots_count(&slots, 0, WP_SLOT_LEASED), 1);
    wp_slots_check(&slots);
    finish(ref, WP_SLOT_LEASED);
    assert_int_equal(wp_slots_destroyed(&slots, 0), 1);
    assert_int_equal(wp_slot_state(&slots, ref), WP_SLOT_FREE);
    got = wp_slots_alloc(&slots, 1, UID, 0);
    assert_int_equal(got.index, ref.index);
    assert_int_not_equal(got.generation, ref.generation);
    assert_int_equal(wp_slots_count(&slots, 1, WP_SLOT_WARMING), 1);
    assert_int_equal(wp_slots_count(&slots, 0, WP_SLOT_WARMING), 0);
}

/* A stale or wrong name moves nothing. */
static void
refuses_what_does_not_match(void **state)
{
    struct wp_slot_ref ref = alloc();
    struct wp_slot_ref other = {ref.index, ref.generation + 1};
    struct wp_slot_ref outside = {SLOTS, 1};
    struct wp_slot_info info;

    (void)state;
    assert_false(wp_slot_move(&slots, other, WP_SLOT_WARMING, WP_SLOT_DYING));
    assert_false(wp_slot_move(&slots, outside, WP_SLOT_WARMING, WP_SLOT_DYING));
    assert_false(
        wp_slot_move(&slots, WP_SLOT_REF_NONE, WP_SLOT_WARMING, WP_SLOT_DYING));
    assert_false(wp_slot_move(&slots, ref, WP_SLOT_LEASED, WP_SLOT_DYING));
    assert_false(wp_slot_make_ready(&slots, other, WP_STR("x"), 0));
    assert_false(wp_slot_lose(&slots, ref, WP_STR("x")));
    assert_false(wp_slot_read(&slots, other, &info));
    assert_int_equal(wp_slots_count(&slots, 0, WP_SLOT_WARMING), 1);
}

/* Every slot can be had, once; then NONE, until one is freed. */
static void
hands_out_every_slot_once(void **state)
{
    struct wp_slot_ref refs[SLOTS];
    bool seen[SLOTS] = {false};

    (void)state;
    for (int i = 0; i < SLOTS; i++) {
        refs[i] = alloc();
        assert_true(refs[i].index < SLOTS && !seen[refs[i].index]);
        seen[refs[i].index] = true;
    }
    assert_true(wp_slot_ref_eq(alloc(), WP_SLOT_REF_NONE));
    finish(refs[3], WP_SLOT_WARMING);
    assert_int_equal(alloc().index, refs[3].index);
    assert_true(wp_slot_ref_eq(alloc(), WP_SLOT_REF_NONE));
}

/* A slot that is still linked in its queue is not used anew, though its sandbox
 * is destroyed; the pop that skips it frees it. */
static void
keeps_tombstones_until_popped(void **state)
{
    struct wp_slot_ref refs[SLOTS];

    (void)state;
    for (int i = 0; i < SLOTS; i++) {
        refs[i] = alloc_ready();
    }
    for (int i = 0; i < SLOTS - 1; i++) {
        finish(refs[i], WP_SLOT_READY);
    }
    assert_int_equal(wp_slots_tombstones(&slots, 0), SLOTS - 1);
    assert_true(wp_slot_ref_eq(alloc(), WP_SLOT_REF_NONE));
    assert_true(wp_slot_ref_eq(wp_ready_queue_pop(&queue, WP_SLOT_LEASED),
                               refs[SLOTS - 1]));
    assert_int_equal(wp_slots_tombstones(&slots, 0), 0);
    for (int i = 0; i < SLOTS - 1; i++) {
        assert_int_not_equal(alloc().index, refs[SLOTS - 1].index);
    }
}

/* The other order: popped as a tombstone while its sandbox is being destroyed,
 * the slot is freed by the end of that. */
static void
frees_a_popped_tombstone_when_destroyed(void **state)
{
    struct wp_slot_ref ref = alloc_ready();

    (void)state;
    assert_true(wp_slot_move(&slots, ref, WP_SLOT_READY, WP_SLOT_DYING));
    assert_true(wp_slot_ref_eq(wp_ready_queue_pop(&queue, WP_SLOT_LEASED),
                               WP_SLOT_REF_NONE));
    assert_int_equal(wp_slot_state(&slots, ref), WP_SLOT_DYING);
    assert_true(wp_slot_move(&slots, ref, WP_SLOT_DYING, WP_SLOT_FREE));
    assert_int_equal(alloc().index, ref.index);
}

/* A sandbox that dies between its move to READY and its push: the push is still
 * due, and the slot is not used anew before. */
static void
survives_death_before_push(void **state)
{
    struct wp_slot_ref ref = alloc();
    struct wp_slot_ref next;

    (void)state;
    assert_true(wp_slot_make_ready(&slots, ref, WP_STR("e"), 1));
    finish(ref, WP_SLOT_READY);
    next = alloc_ready();
    assert_int_not_equal(next.index, ref.index);
    wp_ready_queue_push(&queue, ref);
    assert_true(
        wp_slot_ref_eq(wp_ready_queue_pop(&queue, WP_SLOT_LEASED), next));
    assert_true(wp_slot_ref_eq(wp_ready_queue_pop(&queue, WP_SLOT_LEASED),
                               WP_SLOT_REF_NONE));
    assert_int_equal(alloc().index, ref.index);
}

/* What is read is what was written, with texts of the greatest length. */
static void
reads_back_what_was_written(void **state)
{
    char endpoint[WP_ENDPOINT_MAX + 1];
    char reason[WP_REASON_MAX + 20];
    struct wp_slot_ref ref = alloc();
    struct wp_slot_info info;

    (void)state;
    memset(endpoint, 'e', sizeof endpoint);
    memset(reason, 'r', sizeof reason);
    wp_slot_set_suffix(&slots, ref, WP_STR("abcd2345"));
    assert_true(wp_slot_read(&slots, ref, &info));
    assert_int_equal(info.state, WP_SLOT_WARMING);
    assert_memory_equal(info.uid, UID, WP_UID_LEN);
    assert_string_equal(info.suffix, "abcd2345");
    assert_string_equal(info.endpoint, "");
    assert_int_equal(info.created_ns, 7);
    assert_int_equal(info.ready_ns, 0);

    assert_true(wp_slot_make_ready(
        &slots, ref, (struct wp_str){endpoint, WP_ENDPOINT_MAX}, 99));
    wp_ready_queue_push(&queue, ref);
    assert_true(wp_slot_read(&slots, ref, &info));
    endpoint[WP_ENDPOINT_MAX] = '\0';
    assert_string_equal(info.endpoint, endpoint);
    assert_int_equal(info.ready_ns, 99);

    ref = wp_ready_queue_pop(&queue, WP_SLOT_LEASED);
    assert_true(
        wp_slot_lose(&slots, ref, (struct wp_str){reason, sizeof reason}));
    assert_false(wp_slot_lose(&slots, ref, WP_STR("again")));
    assert_true(wp_slot_read(&slots, ref, &info));
    reason[WP_REASON_MAX] = '\0';
    assert_int_equal(info.state, WP_SLOT_LOST);
    assert_string_equal(info.lost_reason, reason);
    assert_string_equal(info.endpoint, "");
    finish(ref, WP_SLOT_LOST);
    assert_false(wp_slot_read(&slots, ref, &info));

    ref = alloc();
    assert_true(wp_slot_read(&slots, ref, &info));
    assert_string_equal(info.suffix, "");
    assert_string_equal(info.endpoint, "");
    assert_string_equal(info.lost_reason, "");
}

/* An empty reason is a reason. */
static void
takes_an_empty_reason(void **state)
{
    struct wp_slot_info info;
    struct wp_slot_ref ref;

    (void)state;
    (void)alloc_ready();
    ref = wp_ready_queue_pop(&queue, WP_SLOT_LEASED);
    assert_true(wp_slot_lose(&slots, ref, (struct wp_str){NULL, 0}));
    assert_true(wp_slot_read(&slots, ref, &info));
    assert_string_equal(info.lost_reason, "");
    assert_string_equal(info.endpoint, "");
}

/* An undone lease goes back and can be had again; the fence has grown, and
 * grows on when the slot gets another sandbox (I5). */
static void
fences_only_grow(void **state)
{
    struct wp_slot_ref ref;
    uint64_t first;
    uint64_t second;

    (void)state;
    (void)alloc_ready();
    ref = wp_ready_queue_pop(&queue, WP_SLOT_LEASED);
    first = wp_slot_fence_next(&slots, ref);
    assert_true(first > 0);
    assert_true(wp_slot_reopen(&slots, ref, &(bool){false}));
    wp_ready_queue_push(&queue, ref);
    assert_true(
        wp_slot_ref_eq(wp_ready_queue_pop(&queue, WP_SLOT_LEASED), ref));
    second = wp_slot_fence_next(&slots, ref);
    assert_true(second > first);
    finish(ref, WP_SLOT_LEASED);
    ref = alloc();
    assert_true(wp_slot_fence_next(&slots, ref) > second);
}

/* Generation 0 names nothing, also after 2^32 lives. */
static void
generation_skips_zero(void **state)
{
    struct wp_slot_ref ref = alloc();

    (void)state;
    finish(ref, WP_SLOT_WARMING);
    atomic_store(&slots.hot[ref.index].word,
                 (uint64_t)UINT32_MAX << 32 | WP_SLOT_FREE);
    ref = alloc();
    assert_int_equal(ref.generation, 1);
    assert_int_equal(wp_slot_state(&slots, ref), WP_SLOT_WARMING);
}

/* One million slots with their claims fit in one GiB, 512 bytes each. */
static void
keeps_the_memory_promise(void **state)
{
    struct wp_claim_table claims;
    struct wp_slots million;
    size_t bytes;

    (void)state;
    assert_true(wp_slots_init(&million, 1000000, 1));
    assert_true(wp_claim_table_init(&claims, 1000000, NULL));
    bytes =
        wp_slots_memory_bytes(&million) + wp_claim_table_memory_bytes(&claims);
    assert_true(bytes <= (size_t)WP_SLOT_BYTES_MAX * 1000000);
    wp_claim_table_fini(&claims);
    wp_slots_fini(&million);
}

/* Goal: a late or foreign report changes nothing of what is served. */
static void
what_is_not_warming_keeps_its_endpoint(void **state)
{
    static const struct wp_slot_ref beyond = {SLOTS, 1};
    struct wp_slot_ref ref = alloc_ready();
    struct wp_slot_info info;
    bool push = false;

    (void)state;
    assert_false(wp_slot_make_ready(&slots, ref, WP_STR("unix:/late"), 11));
    assert_false(wp_slot_restore_leased(&slots, ref, WP_STR("unix:/late"), 11));
    assert_true(wp_slot_read(&slots, ref, &info));
    assert_int_equal(info.state, WP_SLOT_READY);
    assert_string_equal(info.endpoint, "unix:/s");
    assert_int_equal(info.ready_ns, 9);
    assert_false(wp_slot_reopen(&slots, ref, &push));
    assert_false(wp_slot_lose(&slots, ref, WP_STR("late")));
    /* There is no such slot. */
    assert_false(wp_slot_make_ready(&slots, beyond, WP_STR("unix:/s"), 11));
    assert_false(wp_slot_restore_leased(&slots, beyond, WP_STR("unix:/s"), 11));
    assert_false(wp_slot_reopen(&slots, beyond, &push));
    assert_false(wp_slot_lose(&slots, beyond, WP_STR("late")));
    assert_false(
        wp_slot_move(&slots, beyond, WP_SLOT_READY, WP_SLOT_QUARANTINED));
    assert_false(wp_slot_read(&slots, beyond, &info));
    assert_false(push);
}

/* Goal: of a reason that is too long the beginning is kept. */
static void
a_long_reason_is_cut(void **state)
{
    char reason[WP_REASON_MAX + 40];
    struct wp_slot_ref ref = alloc();
    struct wp_slot_info info;

    (void)state;
    memset(reason, 'r', sizeof reason);
    reason[WP_REASON_MAX - 1] = 'z';
    assert_true(wp_slot_restore_leased(&slots, ref, WP_STR("unix:/s"), 9));
    assert_true(
        wp_slot_lose(&slots, ref, (struct wp_str){reason, sizeof reason}));
    assert_true(wp_slot_read(&slots, ref, &info));
    assert_int_equal(strlen(info.lost_reason), WP_REASON_MAX);
    assert_memory_equal(info.lost_reason, reason, WP_REASON_MAX);
    assert_string_equal(info.endpoint, "");
}

/* Goal: nothing of one life is in the next one. */
static void
a_new_life_begins_with_nothing(void **state)
{
    struct wp_slot_ref ref = alloc();
    struct wp_slot_ref next;
    struct wp_slot_info info;

    (void)state;
    wp_slot_set_suffix(&slots, ref, WP_STR("abcde"));
    wp_slot_set_started_ns(&slots, ref, 8);
    assert_int_equal(wp_slot_started_ns(&slots, ref), 8);
    assert_true(wp_slot_make_ready(&slots, ref, WP_STR("unix:/s"), 9));
    atomic_store(&wp_slot_at(&slots, ref.index)->claim_entry, 3);
    atomic_store(&wp_slot_at(&slots, ref.index)->deadline_ns, 3);
    wp_ready_queue_push(&queue, ref);
    assert_true(
        wp_slot_ref_eq(wp_ready_queue_pop(&queue, WP_SLOT_LEASED), ref));
    finish(ref, WP_SLOT_LEASED);
    assert_false(wp_slot_read(&slots, ref, &info));
    next = alloc();
    assert_int_equal(next.index, ref.index);
    assert_true(wp_slot_read(&slots, next, &info));
    assert_int_equal(info.state, WP_SLOT_WARMING);
    assert_int_equal(info.created_ns, 7);
    assert_int_equal(info.ready_ns, 0);
    assert_int_equal(wp_slot_started_ns(&slots, next), 0);
    assert_string_equal(info.suffix, "");
    assert_string_equal(info.endpoint, "");
    assert_string_equal(info.lost_reason, "");
    assert_int_equal(atomic_load(&wp_slot_at(&slots, next.index)->claim_entry),
                     0);
    assert_int_equal(atomic_load(&wp_slot_at(&slots, next.index)->deadline_ns),
                     WP_TIME_NEVER);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allows_only_the_known_edges),
        cmocka_unit_test_setup_teardown(counts_a_full_life, setup, teardown),
        cmocka_unit_test_setup_teardown(refuses_what_does_not_match, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(hands_out_every_slot_once, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(keeps_tombstones_until_popped, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(frees_a_popped_tombstone_when_destroyed,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(survives_death_before_push, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(reads_back_what_was_written, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(takes_an_empty_reason, setup, teardown),
        cmocka_unit_test_setup_teardown(fences_only_grow, setup, teardown),
        cmocka_unit_test_setup_teardown(generation_skips_zero, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_not_warming_keeps_its_endpoint,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_long_reason_is_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(a_new_life_begins_with_nothing, setup,
                                        teardown),
        cmocka_unit_test(keeps_the_memory_promise),
    };

    return cmocka_run_group_tests_name("slot", tests, NULL, NULL);
}
