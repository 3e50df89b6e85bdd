/* tests/unit/bench/bench_baselines_test.c - the baselines do what their descriptions
 * say, step by step, so that a comparison with them is fair. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "bench/micro/baseline_mutex_array.h"
#include "bench/micro/baseline_slice.h"
#include "bench/micro/baseline_sorted_list.h"

static void
test_array_is_last_in_first_out(void **state)
{
    struct wp_base_array array;
    uint32_t id = 99;

    (void)state;
    assert_true(wp_base_array_init(&array, 2));
    assert_false(wp_base_array_pop(&array, &id));
    assert_true(wp_base_array_push(&array, 7));
    assert_true(wp_base_array_push(&array, 8));
    assert_false(wp_base_array_push(&array, 9));
    assert_true(wp_base_array_pop(&array, &id));
    assert_int_equal(id, 8);
    assert_true(wp_base_array_pop(&array, &id));
    assert_int_equal(id, 7);
    assert_false(wp_base_array_pop(&array, &id));
    wp_base_array_fini(&array);
}

static void
slice_push(struct wp_base_slice *slice, uint32_t id, uint32_t node)
{
    wp_base_slice_push(slice, (struct wp_base_item){id, node});
}

static void
test_slice_pops_the_oldest(void **state)
{
    struct wp_base_slice slice;
    struct wp_base_item item;

    (void)state;
    assert_true(wp_base_slice_init(&slice, 4));
    assert_false(wp_base_slice_pop(&slice, &item));
    slice_push(&slice, 2, 0);
    slice_push(&slice, 0, 0);
    slice_push(&slice, 3, 0);
    slice_push(&slice, 2, 5); /* Known: keeps its place, learns its node. */
    assert_int_equal(slice.len, 3);
    assert_true(wp_base_slice_remove(&slice, 0));
    assert_false(wp_base_slice_remove(&slice, 0));
    assert_true(wp_base_slice_pop(&slice, &item));
    assert_int_equal(item.id, 2);
    assert_int_equal(item.node, 5);
    assert_true(wp_base_slice_pop(&slice, &item));
    assert_int_equal(item.id, 3);
    assert_false(wp_base_slice_pop(&slice, &item));
    wp_base_slice_fini(&slice);
}

/* The room of a slice is reused: it can be pushed and popped for ever. */
static void
test_slice_wraps(void **state)
{
    struct wp_base_slice slice;
    struct wp_base_item item;

    (void)state;
    assert_true(wp_base_slice_init(&slice, 3));
    slice_push(&slice, 0, 0);
    slice_push(&slice, 1, 0);
    for (uint32_t i = 0; i < 20; i++) {
        slice_push(&slice, (i + 2) % 3, 0);
        assert_true(wp_base_slice_pop(&slice, &item));
        assert_int_equal(item.id, i % 3);
    }
    assert_int_equal(slice.len, 2);
    wp_base_slice_fini(&slice);
}

/* Nodes 1, 2, 2, 3, 3, 3, 2: node 2 and 3 have three each; the lower wins, its
 * oldest is item 1. Then 3 leads with 3 against 2: its oldest is item 3. */
static void
test_slice_strategy_spreads(void **state)
{
    static const uint32_t nodes[] = {1, 2, 2, 3, 3, 3, 2};
    struct wp_base_slice slice;
    struct wp_base_item item;

    (void)state;
    assert_true(wp_base_slice_init(&slice, 7));
    assert_false(wp_base_slice_pop_with(&slice, wp_base_choose_spread, &item));
    for (uint32_t i = 0; i < 7; i++) {
        slice_push(&slice, i, nodes[i]);
    }
    assert_true(wp_base_slice_pop_with(&slice, wp_base_choose_spread, &item));
    assert_int_equal(item.id, 1);
    assert_true(wp_base_slice_pop_with(&slice, wp_base_choose_spread, &item));
    assert_int_equal(item.id, 3);
    assert_int_equal(slice.len, 5);
    assert_true(wp_base_slice_pop(&slice, &item));
    assert_int_equal(item.id, 0);
    assert_true(wp_base_slice_pop(&slice, &item));
    assert_int_equal(item.id, 2);
    wp_base_slice_fini(&slice);
}

/* Sorted by node use 9, 9, 4, 1: ids 1, 3, 2, 0. Fleet 7 is ids 3 and 0. */
static void
test_list_takes_first_match_of_sorted(void **state)
{
    struct wp_base_list list;
    struct wp_base_server server;

    (void)state;
    assert_true(wp_base_list_init(&list, 8));
    assert_false(wp_base_list_take(&list, 7, &server));
    wp_base_list_add(&list, (struct wp_base_server){0, 7, 1});
    wp_base_list_add(&list, (struct wp_base_server){1, 6, 9});
    wp_base_list_add(&list, (struct wp_base_server){2, 6, 4});
    wp_base_list_add(&list, (struct wp_base_server){3, 7, 9});
    wp_base_list_refresh(&list);
    assert_true(wp_base_list_take(&list, 7, &server));
    assert_int_equal(server.id, 3);
    assert_true(wp_base_list_take(&list, 6, &server));
    assert_int_equal(server.id, 1);
    assert_true(wp_base_list_take(&list, 7, &server));
    assert_int_equal(server.id, 0);
    assert_false(wp_base_list_take(&list, 7, &server));
    assert_true(wp_base_list_take(&list, 6, &server));
    assert_int_equal(server.id, 2);
    assert_int_equal(list.len, 0);
    wp_base_list_fini(&list);
}

/* What is added is seen after the list has served its number, not before. */
static void
test_list_refreshes_after_its_number(void **state)
{
    struct wp_base_list list;
    struct wp_base_server server;

    (void)state;
    assert_true(wp_base_list_init(&list, 300));
    for (uint32_t id = 0; id < 150; id++) {
        wp_base_list_add(&list, (struct wp_base_server){id + 100, 0, 0});
    }
    assert_true(wp_base_list_take(&list, 0, &server));
    assert_int_equal(server.id, 100);
    wp_base_list_add(&list, (struct wp_base_server){5, 0, 0});
    for (uint32_t i = 1; i < WP_BASE_LIST_REFRESH; i++) {
        assert_true(wp_base_list_take(&list, 0, &server));
        assert_int_equal(server.id, 100 + i);
    }
    assert_true(wp_base_list_take(&list, 0, &server));
    assert_int_equal(server.id, 5);
    wp_base_list_fini(&list);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_array_is_last_in_first_out),
        cmocka_unit_test(test_slice_pops_the_oldest),
        cmocka_unit_test(test_slice_wraps),
        cmocka_unit_test(test_slice_strategy_spreads),
        cmocka_unit_test(test_list_takes_first_match_of_sorted),
        cmocka_unit_test(test_list_refreshes_after_its_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
