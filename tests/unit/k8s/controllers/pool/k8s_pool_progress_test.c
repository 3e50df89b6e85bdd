/* Events of pools that do not get on: once each, and bounded memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>

#include "k8s/controllers/pool/progress.h"
#include "pool/limits.h"
#include "tests/support/k8s/api_recorder.h"
#include "tests/support/k8s/k8s_text.h"
#include "tests/support/pool/manual_clock.h"

struct world {
    struct event_base *base;
    struct wp_clock_manual clock;
    struct wp_api *api;
    struct wp_events *events;
    struct wp_pool_progress *progress;
};

static int
set_up(void **state)
{
    static struct world world;

    world.base = event_base_new();
    wp_clock_manual_init(&world.clock, WP_NS_PER_S, WP_NS_PER_S);
    world.api = wp_recorder_create();
    wp_recorder_serve(world.api);
    world.events = wp_events_create(&(struct wp_events_config){
        .base = world.base,
        .clock = &world.clock.clock,
        .api = world.api,
        .instance = "test",
    });
    world.progress = wp_pool_progress_create(world.events, WP_POOL_SANDBOXES);
    assert_non_null(world.progress);
    *state = &world;
    return 0;
}

static int
tear_down(void **state)
{
    struct world *world = *state;

    wp_api_destroy(world->api);
    wp_pool_progress_destroy(world->progress);
    wp_events_destroy(world->events);
    event_base_free(world->base);
    return 0;
}

/* Returns the reason of the event that it led to; "" when there was none. */
static const char *
tell_words(struct world *world, int number, enum wp_pool_hindrance hindrance,
           const char *words)
{
    uint32_t before =
        wp_recorder_count(world->api, WP_VERB_WRITES, WP_KIND_EVENT);
    char text[128];
    struct wp_object *pool;

    (void)snprintf(text, sizeof(text),
                   "{'metadata': {'name': 'p%d', 'namespace': 'team', "
                   "'uid': 'u%d'}, 'spec': {'sandboxTemplateRef': "
                   "{'name': 't'}}}",
                   number, number);
    pool = wp_test_object(WP_KIND_SANDBOX_WARM_POOL, text);
    wp_pool_progress_report(world->progress, pool, hindrance, words);
    wp_object_unref(pool);
    (void)wp_recorder_run(world->api);
    if (wp_recorder_count(world->api, WP_VERB_WRITES, WP_KIND_EVENT) ==
        before) {
        return "";
    }
    return wp_recorded_text(
        wp_recorder_last(world->api, WP_VERB_POST, WP_KIND_EVENT), "reason",
        NULL);
}

static const char *
tell(struct world *world, int number, enum wp_pool_hindrance hindrance)
{
    return tell_words(world, number, hindrance, "words");
}

/* Only changes are told, and what is in the way is one of them. */
static void
changes_are_told(void **state)
{
    struct world *world = *state;

    assert_string_equal(tell(world, 1, WP_POOL_PROGRESSING), "");
    assert_string_equal(tell(world, 1, WP_POOL_UNSCHEDULABLE),
                        "WarmPoolNotProgressing");
    assert_string_equal(tell(world, 1, WP_POOL_UNSCHEDULABLE), "");
    assert_string_equal(tell(world, 2, WP_POOL_PROGRESSING), "");
    assert_string_equal(tell(world, 1, WP_POOL_PROGRESSING),
                        "WarmPoolProgressing");
    assert_string_equal(tell(world, 1, WP_POOL_PROGRESSING), "");
}

static const char *
last_note(struct world *world)
{
    return wp_recorded_text(
        wp_recorder_last(world->api, WP_VERB_POST, WP_KIND_EVENT), "note",
        NULL);
}

/* Something else in the way is told in its own words; of the same thing only
 * the template's words count. */
static void
another_hindrance_is_told(void **state)
{
    struct world *world = *state;

    (void)tell_words(world, 1, WP_POOL_UNSCHEDULABLE, "no room");
    assert_string_equal(last_note(world), "no room");
    assert_string_equal(
        tell_words(world, 1, WP_POOL_UNSCHEDULABLE, "still no room"), "");
    assert_string_equal(last_note(world), "no room");
    (void)tell_words(world, 1, WP_POOL_FAILING, "they fail");
    assert_string_equal(last_note(world), "they fail");
    (void)tell_words(world, 1, WP_POOL_BAD_TEMPLATE, "bad");
    assert_string_equal(last_note(world), "bad");
    assert_string_equal(tell_words(world, 1, WP_POOL_BAD_TEMPLATE, "bad"), "");
    (void)tell_words(world, 1, WP_POOL_BAD_TEMPLATE, "worse");
    assert_string_equal(last_note(world), "worse");
}

/* A pool of the same name that is made anew begins anew. */
static void
forgotten(void **state)
{
    struct world *world = *state;

    assert_string_equal(tell(world, 1, WP_POOL_FAILING),
                        "WarmPoolNotProgressing");
    wp_pool_progress_forget(world->progress, "u1");
    wp_pool_progress_forget(world->progress, "u1");
    assert_string_equal(tell(world, 1, WP_POOL_PROGRESSING), "");
}

/* One more than there is room for: the first is not known any more, so that it
 * gets on is not told; the others are. */
static void
bounded(void **state)
{
    struct world *world = *state;

    for (int i = 0; i <= WP_POOLS_MAX; i++) {
        assert_string_equal(tell(world, i, WP_POOL_NO_TEMPLATE),
                            "WarmPoolNotProgressing");
    }
    assert_string_equal(tell(world, 0, WP_POOL_PROGRESSING), "");
    for (int i = 1; i <= WP_POOLS_MAX; i++) {
        assert_string_equal(tell(world, i, WP_POOL_PROGRESSING),
                            "WarmPoolProgressing");
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(changes_are_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_hindrance_is_told, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(forgotten, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bounded, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
