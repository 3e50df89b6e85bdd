/* Whether what a reflector knows is what the API server has: when it says that it
 * may not be, and when that is over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/k8s/reflector_world.h"

static bool
doubtful(struct world *world)
{
    return world->doubtful;
}

static bool
sure(struct world *world)
{
    return !world->doubtful;
}

static bool
watched_twice(struct world *world)
{
    return stats(world).watches == 2 &&
           fake_api_watches_open(world->server, WP_KIND_POD) == 1;
}

/* Goal: a watch that ends before its time leaves a doubt, which the next one
 * ends by telling something, or by going on. */
static void
doubt_until_the_watch_is_proven(void **state)
{
    (void)state;
    for (int told = 0; told < 2; told++) {
        for (int cut = 0; cut < 2; cut++) {
            struct world world;

            world_begin(&world, NULL);
            put_many(&world, 3);
            world_watch(&world, 0, 0);
            until(&world, settled, "the list");
            assert_int_equal(world.doubts, 0);
            (void)fake_api_watches(world.server, WP_KIND_POD,
                                   cut ? FAKE_WATCH_CUT : FAKE_WATCH_CLOSE,
                                   NULL);
            until(&world, doubtful, "a doubt");
            until(&world, watched_twice, "the next watch");
            if (told) {
                put(&world, "new", 1);
            }
            until(&world, sure, "certainty");
            assert_int_equal(stats(&world).lists, 1);
            assert_int_equal(world.doubts, 1);
            world_end(&world);
        }
    }
}

static bool
list_held(struct world *world)
{
    json_t *answer = fake_api_control(world->server, "stats", NULL);
    bool held = json_integer_value(json_object_get(answer, "held")) > 0;

    json_decref(answer);
    return held && stats(world).gone > 0;
}

/* Goal: a version that is gone leaves one until a list is whole, however long
 * that takes. */
static void
doubt_until_the_list_is_whole(void **state)
{
    (void)state;
    for (int as_event = 0; as_event < 2; as_event++) {
        struct world world;

        world_begin_gone(&world, as_event == 1, 0);
        fake_api_compact(world.server);
        fake_api_fault(world.server, &(struct fake_fault){.verbs = FAKE_LIST,
                                                          .kind = -1,
                                                          .action = FAKE_HOLD,
                                                          .retry_after_s = -1});
        put(&world, "unheard", 1);
        fake_api_compact(world.server);
        (void)fake_api_watches(world.server, WP_KIND_POD, FAKE_WATCH_CLOSE,
                               NULL);
        put(&world, "unheard", 2);
        fake_api_compact(world.server);
        until(&world, list_held, "the list to be asked for");
        turn_for(&world, 1500);
        assert_true(world.doubtful);
        fake_api_faults_clear(world.server);
        until(&world, settled, "the list");
        assert_false(world.doubtful);
        world_end(&world);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doubt_until_the_watch_is_proven),
        cmocka_unit_test(doubt_until_the_list_is_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
