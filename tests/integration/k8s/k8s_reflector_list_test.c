/* The reflector's lists: whole whatever the answers are, and made no oftener
 * than needed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/k8s/reflector_world.h"

/* Goal: a list comes in pages and is told once; then changes come. */
static void
pages_and_changes(void **state)
{
    struct world world;

    (void)state;
    world_begin(&world, NULL);
    put_many(&world, 105);
    world_watch(&world, 10, 0);
    until(&world, settled, "the list");
    assert_int_equal(world.synced, 1);
    assert_int_equal(fake_api_count(world.server, FAKE_LIST, WP_KIND_POD), 1);
    assert_int_equal(fake_api_count(world.server, FAKE_CONTINUE, WP_KIND_POD),
                     10);
    put(&world, "p00003", 99);
    put(&world, "new", 1);
    assert_true(fake_api_delete(world.server, WP_KIND_POD, "ns", "p00004"));
    until(&world, settled, "the changes");
    assert_int_equal(stats(&world).lists, 1);
    assert_int_equal(stats(&world).watches, 1);
    assert_int_equal(stats(&world).events, 3);
    assert_int_equal(world.removals, 1);
    world_end(&world);
}

/* Goal: an empty kind is a whole list, too. */
static void
nothing_there(void **state)
{
    struct world world;

    (void)state;
    world_begin(&world, NULL);
    world_watch(&world, 0, 0);
    until(&world, settled, "the list");
    assert_int_equal(world.synced, 1);
    put(&world, "first", 1);
    until(&world, settled, "the first object");
    assert_int_equal(stats(&world).lists, 1);
    world_end(&world);
}

/* Goal: a page that is gone leads to a list from its start. */
static void
page_gone(void **state)
{
    struct world world;

    (void)state;
    world_begin(&world, NULL);
    put_many(&world, 9);
    fake_api_fault(world.server, &(struct fake_fault){.verbs = FAKE_CONTINUE,
                                                      .kind = -1,
                                                      .action = FAKE_STATUS,
                                                      .code = 410,
                                                      .retry_after_s = -1,
                                                      .skip = 1,
                                                      .count = 1});
    world_watch(&world, 2, 0);
    until(&world, settled, "the list");
    assert_int_equal(stats(&world).lists, 2);
    assert_int_equal(stats(&world).gone, 1);
    assert_int_equal(world.synced, 1);
    assert_int_equal(world.removals, 0);
    world_end(&world);
}

/* Goal: every kind of bad answer to a list is tried again, from its start. */
static void
lists_fail(void **state)
{
    static const struct {
        enum fake_action action;
        int code;
    } rows[] = {{FAKE_STATUS, 500},
                {FAKE_STATUS, 503},
                {FAKE_DROP_BEFORE, 0},
                {FAKE_DROP_AFTER, 0},
                {FAKE_MANGLE, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct world world;

        world_begin(&world, NULL);
        put_many(&world, 9);
        fault(&world, FAKE_CONTINUE, rows[i].action, rows[i].code, 1);
        world_watch(&world, 3, 0);
        until(&world, settled, "the list");
        assert_int_equal(world.synced, 1);
        assert_int_equal(world.removals, 0);
        world_end(&world);
    }
}

/* Goal: an answer that drips in is a good answer. */
static void
list_drips(void **state)
{
    struct world world;

    (void)state;
    world_begin(&world, NULL);
    put_many(&world, 5);
    fake_api_fault(world.server, &(struct fake_fault){.verbs = FAKE_LIST,
                                                      .kind = -1,
                                                      .action = FAKE_DRIP,
                                                      .ms = 1,
                                                      .bytes = 11,
                                                      .count = 1});
    world_watch(&world, 0, 0);
    until(&world, settled, "the list");
    assert_int_equal(stats(&world).lists, 1);
    world_end(&world);
}

/* Goal: who may not list is told so, and it goes on when that has changed. */
static void
refused(void **state)
{
    static const int codes[] = {403, 404};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct world world;

        world_begin(&world, NULL);
        put_many(&world, 3);
        fault(&world, FAKE_LIST, FAKE_STATUS, codes[i], 2);
        world_watch(&world, 0, 0);
        until(&world, settled, "the list");
        assert_int_equal(world.refused, 2);
        assert_int_equal(world.refused_code, codes[i]);
        assert_int_equal(world.synced, 1);
        world_end(&world);
    }
}

/* Goal: a page too large for the client is asked for in smaller ones. */
static void
page_too_large(void **state)
{
    enum {
        LARGE = 300 << 10,
        PODS = 20,
    };
    struct world world;
    char *text = malloc(LARGE + 1);
    char name[16];

    (void)state;
    assert_non_null(text);
    memset(text, 'x', LARGE);
    text[LARGE] = '\0';
    world_begin(&world, NULL);
    for (uint32_t i = 0; i < PODS; i++) {
        (void)snprintf(name, sizeof name, "large%u", i);
        json_decref(fake_api_put(world.server, WP_KIND_POD, pod(name, text)));
    }
    world_watch(&world, 0, 0);
    until(&world, settled, "the list");
    assert_int_equal(world.synced, 1);
    world_end(&world);
    free(text);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_and_changes), cmocka_unit_test(nothing_there),
        cmocka_unit_test(page_gone),         cmocka_unit_test(lists_fail),
        cmocka_unit_test(list_drips),        cmocka_unit_test(refused),
        cmocka_unit_test(page_too_large),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
