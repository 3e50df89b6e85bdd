/* The reflector's watches: ones that end, stall or tell what makes no sense
 * leave the store the same as the server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/k8s/reflector_world.h"

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

/* --- what makes no sense --- */

enum {
    LONG_LINE = WP_OBJECT_BYTES_MAX + (1 << 20),
};

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

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(watch_ends),    cmocka_unit_test(watch_stalls),
        cmocka_unit_test(watch_drips),   cmocka_unit_test(watch_closes_at_once),
        cmocka_unit_test(lines_broken),  cmocka_unit_test(line_too_long),
        cmocka_unit_test(object_broken), cmocka_unit_test(twice_and_late),
        cmocka_unit_test(text_with_nul),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
