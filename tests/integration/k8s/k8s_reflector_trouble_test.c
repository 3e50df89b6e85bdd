/* The reflector and a server in trouble: nothing spins, it can be stopped at
 * any time, and whatever comes together, the store is the server's at last. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "pool/base/rng.h"
#include "tests/support/k8s/reflector_world.h"

/* --- servers in trouble --- */

/* Goal: through an outage nothing spins, and no list is made for it. */
static void
outage(void **state)
{
    struct world world;

    (void)state;
    world_begin(&world, NULL);
    put_many(&world, 5);
    world_watch(&world, 0, 0);
    until(&world, settled, "the list");
    fake_api_down(world.server);
    put(&world, "meanwhile", 1);
    turn_for(&world, 2000);
    assert_in_range(stats(&world).watches + stats(&world).probes, 2, 16);
    fake_api_up(world.server);
    until(&world, settled, "the change meanwhile");
    assert_int_equal(stats(&world).lists, 1);
    assert_int_equal(world.removals, 0);
    world_end(&world);
}

/* Goal: Retry-After is kept to, for lists and for watches. */
static void
retry_after(void **state)
{
    static const uint32_t verbs[] = {FAKE_LIST, FAKE_WATCH};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct world world;
        int64_t begin_ns = wp_clock_mono_ns(wp_clock_system());

        world_begin(&world, NULL);
        put_many(&world, 3);
        fake_api_fault(world.server, &(struct fake_fault){
                                         .verbs = verbs[i],
                                         .kind = -1,
                                         .action = FAKE_STATUS,
                                         .code = 429,
                                         .retry_after_s = 1,
                                         .count = 1,
                                     });
        world_watch(&world, 0, 0);
        until(&world, settled, "the list");
        /* A loop's timer may be some milliseconds early. */
        assert_true(wp_clock_mono_ns(wp_clock_system()) - begin_ns >=
                    950 * WP_NS_PER_MS);
        assert_int_equal(fake_api_count(world.server, verbs[i], WP_KIND_POD),
                         2);
        assert_int_equal(world.synced, 1);
        world_end(&world);
    }
}

static bool
listed_again(struct world *world)
{
    return stats(world).lists == 2 && settled(world);
}

static uint32_t wanted_watches;

static bool
watched(struct world *world)
{
    /* The one before is closed once the server has this one alone. */
    return fake_api_count(world->server, FAKE_WATCH, WP_KIND_POD) ==
               wanted_watches &&
           settled(world);
}

/* Goal: a server that ends watch after watch with an error may mean the version:
 * after the third a list finds out. */
static void
errors_in_a_row(void **state)
{
    struct world world;

    (void)state;
    world_begin(&world, NULL);
    put_many(&world, 3);
    world_watch(&world, 0, 0);
    for (uint32_t i = 1; i <= 3; i++) {
        wanted_watches = i;
        until(&world, watched, "the watch");
        assert_int_equal(stats(&world).lists, 1);
        (void)fake_api_watches(world.server, WP_KIND_POD, FAKE_WATCH_SEND,
                               "{\"type\":\"ERROR\",\"object\":{\"kind\":"
                               "\"Status\",\"code\":500,\"message\":\"m\"}}\n");
    }
    until(&world, listed_again, "the list");
    world_end(&world);
}

/* --- ends --- */

/* Goal: it can be stopped whatever it is doing, the client gone or not; the
 * sanitizers judge. */
static void
stops(void **state)
{
    (void)state;
    for (uint32_t after_ms = 0; after_ms < 20; after_ms++) {
        for (int client_first = 0; client_first < 2; client_first++) {
            struct world world;

            world_begin(&world, NULL);
            put_many(&world, 30);
            fake_api_fault(world.server, &(struct fake_fault){
                                             .verbs = FAKE_ANY,
                                             .kind = -1,
                                             .action = FAKE_DELAY,
                                             .ms = 2,
                                         });
            world_watch(&world, 5, 0);
            turn_for(&world, after_ms);
            if (client_first == 1) {
                wp_http_destroy(world.http);
                world.http = NULL;
            }
            world_end(&world);
        }
    }
}

/* --- all together --- */

static void
random_change(struct world *world, struct wp_rng *rng)
{
    char name[16];

    (void)snprintf(name, sizeof name, "p%05u", (unsigned)wp_rng_below(rng, 40));
    if (wp_rng_below(rng, 3) == 0) {
        (void)fake_api_delete(world->server, WP_KIND_POD, "ns", name);
    } else {
        put(world, name, wp_rng_next(rng));
    }
}

static void
random_trouble(struct world *world, struct wp_rng *rng)
{
    switch (wp_rng_below(rng, 8)) {
    case 0:
        (void)fake_api_watches(world->server, -1, FAKE_WATCH_CLOSE, NULL);
        break;
    case 1:
        (void)fake_api_watches(world->server, -1, FAKE_WATCH_CUT, NULL);
        break;
    case 2:
        (void)fake_api_watches(world->server, -1, FAKE_WATCH_STALL, NULL);
        break;
    case 3:
        (void)fake_api_watches(world->server, -1, FAKE_WATCH_SEND, "{\n");
        break;
    case 4:
        fake_api_compact(world->server);
        break;
    case 5:
        fake_api_down(world->server);
        fake_api_up(world->server);
        break;
    case 6:
        fault(world, FAKE_LIST | FAKE_CONTINUE | FAKE_WATCH, FAKE_STATUS, 500,
              1);
        break;
    default:
        fault(world, FAKE_CONTINUE, FAKE_STATUS, 410, 1);
        break;
    }
}

/* Goal: whatever comes together, the store is the server's again in the end. */
static void
random_troubles(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct fake_api_options options;
        struct world world;
        struct wp_rng rng;

        wp_rng_init(&rng, seed);
        fake_api_options_init(&options);
        options.bookmark_ms = 50;
        options.gone_as_event = seed % 2 == 0;
        world_begin(&world, &options);
        put_many(&world, 30);
        world_watch(&world, 7, 300);
        for (uint32_t step = 0; step < 40; step++) {
            random_change(&world, &rng);
            if (step % 5 == 0) {
                random_trouble(&world, &rng);
            }
            turn_for(&world, (int64_t)wp_rng_below(&rng, 8));
        }
        fake_api_faults_clear(world.server);
        until(&world, settled, "the store to be the same");
        world_end(&world);
    }
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outage),          cmocka_unit_test(retry_after),
        cmocka_unit_test(errors_in_a_row), cmocka_unit_test(stops),
        cmocka_unit_test(random_troubles),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
