/* The list of Sandboxes that a new leader waits for: page by page, again when it
 * fails, and none of what nobody waits for any more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>

#include "k8s/backend/fresh_list.h"
#include "k8s/objects/json.h"
#include "tests/support/base/heard.h"
#include "tests/support/base/timers.h"
#include "tests/support/k8s/api_recorder.h"
#include "tests/support/k8s/k8s_text.h"

static struct wp_parts parts;
static struct wp_fresh_list *list;
static uint32_t times;
static int other; /* Another's context. */
static struct heard heard;

static int
set_up(void **state)
{
    (void)state;
    parts = (struct wp_parts){
        .base = event_base_new(),
        .api = wp_recorder_create(),
        .config.watch_ns = "team",
    };
    parts.stores[WP_KIND_SANDBOX] = wp_store_create(WP_KIND_SANDBOX, NULL);
    list = wp_fresh_list_create(&parts);
    times = 0;
    return list == NULL;
}

static int
tear_down(void **state)
{
    (void)state;
    wp_api_destroy(parts.api);
    wp_fresh_list_destroy(list);
    wp_store_destroy(parts.stores[WP_KIND_SANDBOX]);
    event_base_free(parts.base);
    return 0;
}

static void
on_done(void *ctx)
{
    assert_ptr_equal(ctx, &times);
    times++;
}

static void
on_other(void *ctx)
{
    assert_ptr_equal(ctx, &other);
    other++;
}

/* The one page that is asked for, of which the continuation is cont. */
static struct wp_recorded *
asked(const char *cont)
{
    struct wp_recorded *call =
        wp_recorder_open(parts.api, WP_VERB_LIST, WP_KIND_SANDBOX);

    assert_non_null(call);
    assert_string_equal(call->ns, "team");
    assert_string_equal(call->cont, cont);
    assert_string_equal(call->resource_version, "");
    assert_int_equal(call->limit, 500);
    return call;
}

static void
nothing_is_asked(void)
{
    assert_null(wp_recorder_open(parts.api, WP_VERB_ANY, WP_KIND_COUNT));
}

static void
answer(const char *cont, const char *page)
{
    json_t *object = wp_test_json(page);

    wp_recorder_answer(asked(cont), WP_OK, object);
    json_decref(object);
}

static double
left_s(void)
{
    return timers_left_s(parts.base, list);
}

#define SANDBOX(name)                                                          \
    "{'metadata': {'name': '" name "', 'namespace': 'team', 'uid': 'u-" name   \
    "', 'resourceVersion': '5'}, 'spec': {}}"
#define LAST(name) "{'metadata': {}, 'items': [" SANDBOX(name) "]}"

static bool
knows(const char *name)
{
    return wp_store_find(parts.stores[WP_KIND_SANDBOX], "team", name) != NULL;
}

static void
page_by_page(void **state)
{
    (void)state;
    wp_fresh_list_begin(list, on_done, &times);
    answer("", "{'metadata': {'continue': 'x'}, 'items': [" SANDBOX("a") "]}");
    assert_true(knows("a"));
    assert_int_equal(times, 0);
    /* What is no Sandbox is left out. */
    answer("x", "{'metadata': {}, 'items': [5, {}, " SANDBOX("b") "]}");
    assert_true(knows("b"));
    assert_int_equal(times, 1);
    nothing_is_asked();
    assert_true(left_s() < 0);
}

static void
it_fails_and_is_asked_again(void **state)
{
    static char cont[5000];
    json_t *page;

    (void)state;
    wp_fresh_list_begin(list, on_done, &times);
    answer("", "{'metadata': {'continue': 'x'}, 'items': []}");
    heard_begin(&heard);
    wp_recorder_answer_full(
        asked("x"),
        &(struct wp_api_result){.status = WP_UNAVAILABLE,
                                .message = "busy",
                                .retry_after_ns = 1000 * WP_NS_PER_S});
    assert_string_equal(
        heard_end(&heard),
        "WARN cannot read the Sandboxes anew: this replica does not serve as "
        "the leader yet status=unavailable message=busy\n");
    assert_true(left_s() > 900 && left_s() <= 1000.5);
    nothing_is_asked();
    timers_fire(parts.base, list);
    heard_begin(&heard);
    wp_recorder_answer_full(
        asked(""),
        &(struct wp_api_result){.status = WP_OK, .retry_after_ns = -1});
    assert_non_null(strstr(heard_end(&heard), " status=ok message=\"\"\n"));
    assert_true(left_s() > 0 && left_s() < 1.5);
    timers_fire(parts.base, list);
    answer("", "{'metadata': {'continue': 'x'}, 'items': []}");
    /* A continuation without an end. */
    memset(cont, 'c', sizeof cont - 1);
    page = json_pack("{s:{s:s}}", "metadata", "continue", cont);
    wp_recorder_answer(asked("x"), WP_OK, page);
    json_decref(page);
    assert_true(left_s() > 0 && left_s() < 1.5);
    timers_fire(parts.base, list);
    answer("", LAST("a"));
    assert_int_equal(times, 1);
}

/* Leadership is lost, and perhaps won again, while a page is under way. */
static void
nobody_waits_for_it(void **state)
{
    (void)state;
    wp_fresh_list_begin(list, on_done, &times);
    wp_fresh_list_cancel(list);
    answer("", LAST("a"));
    assert_false(knows("a"));
    nothing_is_asked();
    /* Its page is of before: it is read anew, from the first. */
    wp_fresh_list_begin(list, on_done, &times);
    answer("", "{'metadata': {'continue': 'x'}, 'items': []}");
    wp_fresh_list_begin(list, on_other, &other);
    answer("x", LAST("a"));
    assert_false(knows("a"));
    assert_int_equal(other, 0);
    answer("", LAST("b"));
    assert_true(knows("b"));
    assert_int_equal(times, 0);
    assert_int_equal(other, 1);
    /* One that waits to ask again does so no more. */
    wp_fresh_list_begin(list, on_done, &times);
    heard_begin(&heard);
    wp_recorder_answer(asked(""), WP_UNAVAILABLE, NULL);
    (void)heard_end(&heard);
    assert_true(left_s() > 0);
    wp_fresh_list_cancel(list);
    assert_true(left_s() < 0);
    nothing_is_asked();
    /* The client goes. */
    wp_fresh_list_begin(list, on_done, &times);
    heard_begin(&heard);
    wp_recorder_answer(asked(""), WP_CANCELLED, NULL);
    assert_string_equal(heard_end(&heard), "");
    nothing_is_asked();
    assert_true(left_s() < 0);
    assert_int_equal(times, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(page_by_page, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_fails_and_is_asked_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(nobody_waits_for_it, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
