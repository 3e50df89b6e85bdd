/* The reflector against an API server that does everything wrong: whatever
 * happens, the store ends up the same as the server, a list is made exactly when
 * one is needed, and nothing spins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/rng.h"
#include "tests/support/reflector_world.h"

enum {
    LONG_LINE = WP_OBJECT_BYTES_MAX + (1 << 20),
};

/* --- what goes well --- */

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
    assert_true(wp_store_synced(world.store));
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

/* --- watches that end --- */

/* Goal: a watch that ends goes on where it was, without a list. */
static void
watch_ends(void **state)
{
    static const enum fake_watch_act acts[] = {FAKE_WATCH_CLOSE,
                                               FAKE_WATCH_CUT};

    (void)state;
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++) {
        struct world world;

        world_begin(&world, NULL);
        put_many(&world, 5);
        world_watch(&world, 0, 0);
        until(&world, settled, "the list");
        put(&world, "before", 1);
        until(&world, settled, "the change before");
        assert_int_equal(
            fake_api_watches(world.server, WP_KIND_POD, acts[i], NULL), 1);
        put(&world, "after", 1);
        until(&world, settled, "the change after");
        assert_int_equal(stats(&world).lists, 1);
        assert_int_equal(stats(&world).watches, 2);
        assert_int_equal(stats(&world).broken, 0);
        world_end(&world);
    }
}

/* Goal: a watch that says nothing is begun anew; one with bookmarks is not. */
static void
watch_stalls(void **state)
{
    struct fake_api_options options;
    struct world world;

    (void)state;
    fake_api_options_init(&options);
    options.bookmark_ms = 100;
    world_begin(&world, &options);
    put_many(&world, 5);
    world_watch(&world, 0, 1500);
    until(&world, settled, "the list");
    turn_for(&world, 2500);
    assert_int_equal(stats(&world).stalled, 0);
    assert_int_equal(stats(&world).watches, 1);
    assert_true(stats(&world).bookmarks >= 2);
    assert_int_equal(
        fake_api_watches(world.server, WP_KIND_POD, FAKE_WATCH_STALL, NULL), 1);
    put(&world, "unheard", 1);
    until(&world, settled, "the change that was not heard of");
    assert_int_equal(stats(&world).stalled, 1);
    /* Of a server that was restored it would say nothing, either. */
    assert_int_equal(stats(&world).lists, 2);
    world_end(&world);
}

/* Goal: bytes that never become a line do not keep a watch alive. */
static void
watch_drips(void **state)
{
    struct world world;

    (void)state;
    world_begin(&world, NULL);
    put_many(&world, 3);
    fake_api_fault(world.server, &(struct fake_fault){.verbs = FAKE_WATCH,
                                                      .kind = -1,
                                                      .action = FAKE_DRIP,
                                                      .ms = 30,
                                                      .bytes = 1,
                                                      .count = 1});
    world_watch(&world, 0, 700);
    until(&world, same, "the list");
    put(&world, "slow", 1);
    until(&world, settled, "the change");
    assert_true(stats(&world).stalled == 1);
    assert_int_equal(stats(&world).lists, 2);
    world_end(&world);
}

/* Goal: a watch that is closed as soon as it opens does not make a loop. */
static void
watch_closes_at_once(void **state)
{
    struct world world;
    uint64_t before;

    (void)state;
    world_begin(&world, NULL);
    put_many(&world, 3);
    fault(&world, FAKE_WATCH, FAKE_DROP_BEFORE, 0, 0);
    world_watch(&world, 0, 0);
    until(&world, same, "the list");
    before = fake_api_count(world.server, FAKE_ANY, -1);
    turn_for(&world, 2000);
    assert_in_range(fake_api_count(world.server, FAKE_ANY, -1) - before, 1, 15);
    fake_api_faults_clear(world.server);
    put(&world, "after", 1);
    until(&world, settled, "the change after");
    assert_int_equal(stats(&world).lists, 1);
    world_end(&world);
}

/* --- versions that are gone --- */

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
        struct fake_api_options options;
        struct world world;

        fake_api_options_init(&options);
        options.gone_as_event = as_event == 1;
        world_begin(&world, &options);
        put_many(&world, 5);
        world_watch(&world, 2, 0);
        until(&world, settled, "the list");
        compact_behind(&world);
        until(&world, settled, "all that was not heard of");
        assert_int_equal(stats(&world).gone, 1);
        assert_int_equal(stats(&world).lists, 2);
        assert_int_equal(world.synced, 2);
        assert_int_equal(world.removals, 1);
        world_end(&world);
    }
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

/* --- what makes no sense --- */

/* Goal: a line that cannot be read leads to one list, not to a wrong store. */
static void
lines_broken(void **state)
{
    static const char *const lines[] = {
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":\n",
        "{\"type\":\"STRANGE\",\"object\":{}}\n",
        "{\"type\":\"MODIFIED\",\"object\":{}}\n",
        "[]\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct world world;

        world_begin(&world, NULL);
        put_many(&world, 3);
        world_watch(&world, 0, 0);
        until(&world, settled, "the list");
        assert_int_equal(fake_api_watches(world.server, WP_KIND_POD,
                                          FAKE_WATCH_SEND, lines[i]),
                         1);
        put(&world, "after", 1);
        until(&world, settled, "the change after");
        assert_int_equal(stats(&world).broken, 1);
        assert_int_equal(stats(&world).lists, 2);
        assert_int_equal(world.removals, 0);
        world_end(&world);
    }
}

/* Goal: a line without an end is given up at the bound, not at its end. */
static void
line_too_long(void **state)
{
    struct world world;
    char *line = malloc(LONG_LINE + 1);

    (void)state;
    assert_non_null(line);
    memset(line, 'x', LONG_LINE);
    line[LONG_LINE] = '\0';
    world_begin(&world, NULL);
    put_many(&world, 3);
    world_watch(&world, 0, 0);
    until(&world, settled, "the list");
    assert_int_equal(
        fake_api_watches(world.server, WP_KIND_POD, FAKE_WATCH_SEND, line), 1);
    put(&world, "after", 1);
    until(&world, settled, "the change after");
    assert_int_equal(stats(&world).broken, 1);
    assert_int_equal(stats(&world).lists, 2);
    world_end(&world);
    free(line);
}

/* Goal: one object that makes no sense costs only itself. */
static void
object_broken(void **state)
{
    static const char line[] =
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"odd\","
        "\"namespace\":\"ns\",\"labels\":7,\"uid\":\"u\","
        "\"resourceVersion\":\"%llu\"}}}\n";
    char text[sizeof line + 24];
    struct world world;

    (void)state;
    world_begin(&world, NULL);
    put_many(&world, 3);
    world_watch(&world, 0, 0);
    until(&world, settled, "the list");
    (void)snprintf(text, sizeof text, line,
                   (unsigned long long)fake_api_version(world.server) + 1);
    assert_int_equal(
        fake_api_watches(world.server, WP_KIND_POD, FAKE_WATCH_SEND, text), 1);
    put(&world, "after", 1);
    put(&world, "after", 2);
    until(&world, settled, "the change after");
    assert_int_equal(stats(&world).broken, 1);
    assert_int_equal(stats(&world).lists, 1);
    world_end(&world);
}

/* An event as it once was, to be told again. */
static void
tell_again(struct world *world, const char *type, json_t *object)
{
    json_t *event = json_pack("{s:s,s:o}", "type", type, "object", object);
    char *text = json_dumps(event, JSON_COMPACT);
    char *line = malloc(strlen(text) + 2);

    assert_non_null(line);
    (void)sprintf(line, "%s\n", text);
    assert_int_equal(
        fake_api_watches(world->server, WP_KIND_POD, FAKE_WATCH_SEND, line), 1);
    free(line);
    free(text);
    json_decref(event);
}

/* Goal: events that come twice or late change nothing: what is gone stays gone,
 * what is newer stays. */
static void
twice_and_late(void **state)
{
    struct world world;
    json_t *gone;
    json_t *old;

    (void)state;
    world_begin(&world, NULL);
    put_many(&world, 3);
    gone = fake_api_get(world.server, WP_KIND_POD, "ns", "p00000");
    old = fake_api_get(world.server, WP_KIND_POD, "ns", "p00001");
    world_watch(&world, 0, 0);
    until(&world, settled, "the list");
    assert_true(fake_api_delete(world.server, WP_KIND_POD, "ns", "p00000"));
    put(&world, "p00001", 9);
    until(&world, settled, "the changes");
    tell_again(&world, "MODIFIED", gone);
    tell_again(&world, "ADDED", json_incref(old));
    tell_again(&world, "DELETED", old);
    put(&world, "after", 1);
    until(&world, settled, "the change after");
    assert_int_equal(world.removals, 1);
    assert_int_equal(stats(&world).lists, 1);
    assert_int_equal(stats(&world).watches, 1);
    world_end(&world);
}

/* Goal: a text with a NUL, which JSON may hold, stops nothing. */
static void
text_with_nul(void **state)
{
    struct world world;
    json_t *object = pod("nul", "");

    (void)state;
    (void)json_object_set_new(json_object_get(object, "spec"), "hostname",
                              json_stringn("a\0b", 3));
    world_begin(&world, NULL);
    json_decref(fake_api_put(world.server, WP_KIND_POD, json_incref(object)));
    world_watch(&world, 0, 0);
    until(&world, settled, "the list");
    assert_true(fake_api_delete(world.server, WP_KIND_POD, "ns", "nul"));
    json_decref(fake_api_put(world.server, WP_KIND_POD, object));
    until(&world, settled, "the change");
    assert_int_equal(stats(&world).lists, 1);
    world_end(&world);
}

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
        cmocka_unit_test(pages_and_changes),
        cmocka_unit_test(nothing_there),
        cmocka_unit_test(watch_ends),
        cmocka_unit_test(watch_stalls),
        cmocka_unit_test(watch_drips),
        cmocka_unit_test(watch_closes_at_once),
        cmocka_unit_test(version_gone),
        cmocka_unit_test(page_gone),
        cmocka_unit_test(always_gone),
        cmocka_unit_test(server_went_back),
        cmocka_unit_test(told_that_it_went_back),
        cmocka_unit_test(lines_broken),
        cmocka_unit_test(line_too_long),
        cmocka_unit_test(object_broken),
        cmocka_unit_test(twice_and_late),
        cmocka_unit_test(text_with_nul),
        cmocka_unit_test(outage),
        cmocka_unit_test(retry_after),
        cmocka_unit_test(lists_fail),
        cmocka_unit_test(list_drips),
        cmocka_unit_test(refused),
        cmocka_unit_test(page_too_large),
        cmocka_unit_test(stops),
        cmocka_unit_test(random_troubles),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
