/* The reflector and versions: ones that are gone, and a server that went
 * back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/k8s/reflector_world.h"

static void
compact_behind(struct world *world)
{
    fake_api_down(world->server);
    put(world, "unheard", 1);
    assert_true(fake_api_delete(world->server, WP_KIND_POD, "ns", "p00002"));
    fake_api_compact(world->server);
    fake_api_up(world->server);
}

/* Goal: 410, as a status or as an event, leads to one list; what is known stays
 * until that is whole. */
static void
version_gone(void **state)
{
    (void)state;
    for (int as_event = 0; as_event < 2; as_event++) {
        struct world world;

        world_begin_gone(&world, as_event == 1, 2);
        compact_behind(&world);
        until(&world, settled, "all that was not heard of");
        assert_int_equal(stats(&world).gone, 1);
        assert_int_equal(stats(&world).lists, 2);
        assert_int_equal(world.synced, 2);
        assert_int_equal(world.removals, 1);
        world_end(&world);
    }
}

/* Goal: a server whose every version is gone is not asked in a loop. */
static void
always_gone(void **state)
{
    struct world world;
    uint64_t before;

    (void)state;
    world_begin(&world, NULL);
    put_many(&world, 3);
    fault(&world, FAKE_WATCH, FAKE_STATUS, 410, 0);
    world_watch(&world, 0, 0);
    until(&world, same, "the list");
    before = fake_api_count(world.server, FAKE_ANY, -1);
    turn_for(&world, 2000);
    assert_in_range(fake_api_count(world.server, FAKE_ANY, -1) - before, 1, 30);
    fake_api_faults_clear(world.server);
    until(&world, settled, "the watch");
    world_end(&world);
}

static bool
listed_twice(struct world *world)
{
    return stats(world).lists == 2;
}

/* Goal: a server whose storage was restored is followed, however it is. */
static void
server_went_back(void **state)
{
    static void (*const ways[])(struct fake_api *) = {
        fake_api_restore, fake_api_restore, fake_api_restore_bumped};

    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct fake_api_options options;
        struct world world;

        fake_api_options_init(&options);
        options.future_silent = i > 0; /* As the real one. */
        world_begin(&world, &options);
        put_many(&world, 5);
        fake_api_save(world.server);
        world_watch(&world, 2, 0);
        until(&world, settled, "the list");
        put(&world, "p00001", 77);
        put(&world, "lost", 1);
        until(&world, settled, "the changes");
        ways[i](world.server);
        fault(&world, FAKE_CONTINUE, FAKE_STATUS, 500, 1);
        until(&world, settled, "what there was");
        put(&world, "p00001", 78);
        until(&world, settled, "a change after");
        assert_int_equal(world.went_back, 1);
        world_end(&world);
    }
}

/* Goal: who is told that the server went back lists, and tells nobody. */
static void
told_that_it_went_back(void **state)
{
    struct world world;

    (void)state;
    world_begin(&world, NULL);
    put_many(&world, 5);
    world_watch(&world, 0, 0);
    until(&world, settled, "the list");
    wp_reflector_went_back(world.reflector);
    until(&world, listed_twice, "another list");
    until(&world, settled, "its watch");
    assert_int_equal(world.went_back, 0);
    world_end(&world);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_gone),
        cmocka_unit_test(always_gone),
        cmocka_unit_test(server_went_back),
        cmocka_unit_test(told_that_it_went_back),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
