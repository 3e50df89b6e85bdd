/* Whether the API server takes a Pod of a template: what is asked, what each
 * answer means, and what people are told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>

#include "k8s/controllers/template/checker.h"
#include "k8s/controllers/template/pod_check.h"
#include "k8s/controllers/verdicts.h"
#include "k8s/objects/json.h"
#include "tests/support/k8s/api_recorder.h"
#include "tests/support/k8s/k8s_text.h"
#include "tests/support/pool/manual_clock.h"

#define UNKNOWN                                                                \
    "Pod in version \"v1\" cannot be handled as a Pod: strict decoding "       \
    "error: "                                                                  \
    "unknown field \"spec.containers[0].imagee\""
#define NO_IMAGE "spec.containers[0].image: Required value"

/* --- The Pod --- */

static void
pod_of_a_template(void **state)
{
    struct wp_object *template_ = wp_test_object(
        WP_KIND_SANDBOX_TEMPLATE,
        "{'metadata': {'name': 't', 'namespace': 'team', 'uid': 'u'}, 'spec': "
        "{'networkPolicyManagement': 'Unmanaged', 'podTemplate': {'metadata': "
        "{'labels': {'a': 'b'}}, 'spec': {'containers': [{'name': 'c', "
        "'imagee': 'i'}], 'volumes': [{'name': 'data', 'emptyDir': {}}, "
        "{'name': 'tmp', 'emptyDir': {}}]}}, 'volumeClaimTemplates': "
        "[{'metadata': {'name': 'data'}, 'spec': {}}]}}");
    json_t *before = wp_object_json(template_);
    json_t *after;

    (void)state;
    wp_test_json_equal(
        wp_pod_check_build(template_, WP_TIER_T0),
        "{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'generateName': "
        "'t-', 'namespace': 'team', 'labels': {'a': 'b'}}, 'spec': "
        "{'containers': [{'name': 'c', 'imagee': 'i'}], "
        "'automountServiceAccountToken': false, 'volumes': [{'name': 'tmp', "
        "'emptyDir': {}}, {'name': 'data', 'persistentVolumeClaim': "
        "{'claimName': 'data'}}]}}");
    after = wp_object_json(template_);
    assert_true(json_equal(before, after));
    json_decref(before);
    json_decref(after);
    wp_object_unref(template_);
}

static const struct {
    int code;
    enum wp_status status;
    const char *message;
    const char *object; /* NULL: none. */
    enum wp_pod_answer means;
    const char *words;
} answers[] = {
    {201, WP_OK, "", NULL, WP_POD_TAKEN, ""},
    {400, WP_INVALID_ARGUMENT, UNKNOWN, NULL, WP_POD_UNKNOWN_FIELDS, UNKNOWN},
    {400, WP_INVALID_ARGUMENT,
     "Pod in version \"v1\" cannot be handled as a Pod: json: cannot "
     "unmarshal string",
     NULL, WP_POD_REFUSED,
     "Pod in version \"v1\" cannot be handled as a Pod: json: cannot "
     "unmarshal string"},
    {400, WP_INVALID_ARGUMENT,
     "admission webhook \"w\" does not support dry run", NULL,
     WP_POD_NOT_ALLOWED, "admission webhook \"w\" does not support dry run"},
    {422, WP_INVALID_ARGUMENT, "Pod \"t-abcde\" is invalid: " NO_IMAGE,
     "{'details': {'causes': [{'field': 'spec.containers[0].image'}]}}",
     WP_POD_REFUSED, NO_IMAGE},
    {422, WP_INVALID_ARGUMENT, "admission webhook \"w\" denied the request",
     "{'details': {'causes': [{'message': 'no'}]}}", WP_POD_NOT_ALLOWED,
     "admission webhook \"w\" denied the request"},
    {422, WP_INVALID_ARGUMENT, "no", NULL, WP_POD_NOT_ALLOWED, "no"},
    {422, WP_INVALID_ARGUMENT, "Pod \"t-abcde\" does not fit", NULL,
     WP_POD_NOT_ALLOWED, "Pod \"t-abcde\" does not fit"},
    {422, WP_INVALID_ARGUMENT, "Node \"n\" is invalid: no", NULL,
     WP_POD_NOT_ALLOWED, "Node \"n\" is invalid: no"},
    {404, WP_NOT_FOUND, "no namespace", NULL, WP_POD_NOT_ALLOWED,
     "no namespace"},
    {413, WP_INVALID_ARGUMENT, "too large", NULL, WP_POD_NOT_ALLOWED,
     "too large"},
    {409, WP_ALREADY_EXISTS, "there", NULL, WP_POD_TAKEN, "there"},
    {409, WP_ABORTED, "changed", NULL, WP_POD_UNANSWERED, "changed"},
    {403, WP_PERMISSION_DENIED, "exceeded quota: q", NULL, WP_POD_NOT_ALLOWED,
     "exceeded quota: q"},
    {429, WP_RESOURCE_EXHAUSTED, "later", NULL, WP_POD_UNANSWERED, "later"},
    {500, WP_UNKNOWN_OUTCOME, "etcd", NULL, WP_POD_UNANSWERED, "etcd"},
    {0, WP_UNAVAILABLE, NULL, NULL, WP_POD_UNANSWERED, ""},
};

static void
answers_mean(void **state)
{
    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(answers); i++) {
        json_t *object =
            answers[i].object != NULL ? wp_test_json(answers[i].object) : NULL;
        const struct wp_api_result result = {.status = answers[i].status,
                                             .code = answers[i].code,
                                             .object = object,
                                             .message = answers[i].message};
        char words[256];
        char cut[5];

        print_message("%zu\n", i);
        assert_int_equal(wp_pod_check_read(&result, words, sizeof(words)),
                         answers[i].means);
        assert_string_equal(words, answers[i].words);
        assert_int_equal(wp_pod_check_read(&result, cut, sizeof(cut)),
                         answers[i].means);
        assert_true(strlen(cut) < sizeof(cut));
        json_decref(object);
    }
}

/* --- Asking --- */

struct world {
    struct wp_clock_manual clock;
    struct wp_api *api;
    struct wp_parts parts;
    struct wp_template_checker *checker;
    json_t *causes;
    uint32_t changes; /* That a listener heard of. */
};

static void
on_verdict(void *ctx, const struct wp_object *template_)
{
    struct world *world = ctx;

    assert_string_equal(template_->name, "t");
    world->changes++;
}

static void
set_up(struct world *world)
{
    memset(world, 0, sizeof(*world));
    wp_clock_manual_init(&world->clock, WP_NS_PER_S,
                         INT64_C(1700000000) * WP_NS_PER_S);
    world->api = wp_recorder_create();
    wp_recorder_serve(world->api);
    world->parts.base = event_base_new();
    world->parts.clock = &world->clock.clock;
    world->parts.api = world->api;
    world->parts.verdicts = wp_verdicts_create();
    assert_non_null(world->parts.verdicts);
    wp_verdicts_listen(world->parts.verdicts, on_verdict, world);
    world->parts.events = wp_events_create(&(struct wp_events_config){
        .base = world->parts.base,
        .clock = world->parts.clock,
        .api = world->api,
        .instance = "test",
    });
    world->parts.stores[WP_KIND_SANDBOX_TEMPLATE] =
        wp_store_create(WP_KIND_SANDBOX_TEMPLATE, NULL);
    wp_recorder_feed(world->api, world->parts.stores[WP_KIND_SANDBOX_TEMPLATE],
                     WP_KIND_SANDBOX_TEMPLATE);
    world->checker = wp_template_checker_create(&world->parts);
    assert_non_null(world->checker);
    wp_template_checker_pause(world->checker, false);
    world->causes = wp_test_json(
        "{'details': {'causes': [{'field': 'spec.containers[0].image'}]}}");
}

static void
tear_down(struct world *world)
{
    assert_int_equal(wp_recorder_planned(world->api), 0);
    wp_template_checker_pause(world->checker, true);
    wp_api_destroy(world->api);
    wp_template_checker_destroy(world->checker);
    wp_verdicts_destroy(world->parts.verdicts);
    wp_events_destroy(world->parts.events);
    wp_store_destroy(world->parts.stores[WP_KIND_SANDBOX_TEMPLATE]);
    event_base_free(world->parts.base);
    json_decref(world->causes);
}

static const struct wp_object *
template_of(struct world *world)
{
    return wp_store_find(world->parts.stores[WP_KIND_SANDBOX_TEMPLATE], "team",
                         "t");
}

/* Whatever is due now, and what follows from it. */
static void
settle(struct world *world)
{
    do {
        wp_recorder_notify(world->api);
        /* So that the queue looks at the clock, which no timer knows. */
        wp_template_checker_pause(world->checker, true);
        wp_template_checker_pause(world->checker, false);
        assert_int_not_equal(
            event_base_loop(world->parts.base, EVLOOP_NONBLOCK), -1);
    } while (wp_recorder_run(world->api) > 0);
}

static void
advance(struct world *world, int64_t seconds)
{
    wp_clock_manual_advance(&world->clock, seconds * WP_NS_PER_S);
    settle(world);
}

/* The template is made or changed, and looked at. */
static void
put(struct world *world, const char *image)
{
    json_t *json = wp_test_json(
        "{'metadata': {'name': 't', 'namespace': 'team', 'uid': 't-uid'}, "
        "'spec': {'podTemplate': {'spec': {'containers': [{'name': 'c'}]}}}}");
    char *text;

    wp_json_set_text(json_array_get(wp_json_at(json, "spec", "podTemplate",
                                               "spec", "containers", NULL),
                                    0),
                     "image", image);
    text = json_dumps(json, 0);
    if (template_of(world) == NULL) {
        (void)wp_recorder_put(world->api, WP_KIND_SANDBOX_TEMPLATE, text);
    } else {
        (void)wp_recorder_merge(world->api, WP_KIND_SANDBOX_TEMPLATE, "team",
                                "t", text);
    }
    free(text);
    json_decref(json);
    wp_recorder_notify(world->api);
    wp_template_checker_look(world->checker, template_of(world));
    settle(world);
}

static void
plan(struct world *world, int code, const char *message, uint32_t times)
{
    wp_recorder_plan(world->api,
                     &(struct wp_recorder_fault){
                         .verb = WP_VERB_CHECK,
                         .kind = WP_KIND_POD,
                         .times = times,
                         .status = code == 403   ? WP_PERMISSION_DENIED
                                   : code == 500 ? WP_UNKNOWN_OUTCOME
                                                 : WP_INVALID_ARGUMENT,
                         .code = code,
                         .message = message,
                         .object = code == 422 ? world->causes : NULL,
                     });
}

static uint32_t
checks(struct world *world)
{
    return wp_recorder_count(world->api, WP_VERB_CHECK, WP_KIND_POD);
}

static uint32_t
events(struct world *world)
{
    return wp_recorder_count(world->api, WP_VERB_POST, WP_KIND_EVENT);
}

static const char *
last_event(struct world *world, const char *field)
{
    return wp_recorded_text(
        wp_recorder_last(world->api, WP_VERB_POST, WP_KIND_EVENT), field, NULL);
}

/* Once for each generation, and nothing is told. */
static void
good_template_is_asked_about_once(void **state)
{
    struct world world;

    (void)state;
    set_up(&world);
    put(&world, "a");
    assert_int_equal(checks(&world), 1);
    assert_true(
        wp_recorder_last(world.api, WP_VERB_CHECK, WP_KIND_POD)->strict);
    for (int i = 0; i < 10; i++) {
        wp_template_checker_look(world.checker, template_of(&world));
        advance(&world, 600);
    }
    assert_int_equal(checks(&world), 1);
    put(&world, "b");
    assert_int_equal(checks(&world), 2);
    assert_int_equal(events(&world), 0);
    assert_int_equal(world.changes, 0);
    assert_null(wp_verdicts_refusal(world.parts.verdicts, template_of(&world)));
    tear_down(&world);
}

/* The field that the server does not know, and what it then misses. */
static void
misspelt_field(void **state)
{
    struct world world;

    (void)state;
    set_up(&world);
    plan(&world, 400, UNKNOWN, 1);
    plan(&world, 422, "Pod \"t-abcde\" is invalid: " NO_IMAGE, 1);
    put(&world, "a");
    assert_int_equal(checks(&world), 2);
    assert_false(
        wp_recorder_last(world.api, WP_VERB_CHECK, WP_KIND_POD)->strict);
    assert_string_equal(
        wp_verdicts_refusal(world.parts.verdicts, template_of(&world)),
        UNKNOWN "; " NO_IMAGE);
    assert_int_equal(world.changes, 1);
    assert_string_equal(last_event(&world, "reason"), "PodRefused");
    assert_string_equal(
        last_event(&world, "note"),
        "The API server refuses every Pod of this template: " UNKNOWN
        "; " NO_IMAGE);
    /* The next generation is good. */
    put(&world, "b");
    assert_null(wp_verdicts_refusal(world.parts.verdicts, template_of(&world)));
    assert_int_equal(world.changes, 2);
    assert_string_equal(last_event(&world, "reason"), "PodAccepted");
    assert_int_equal(events(&world), 2);
    tear_down(&world);
}

/* A Pod starts without what the server does not know: told, and no more. */
static void
unknown_field_that_is_left_out(void **state)
{
    struct world world;

    (void)state;
    set_up(&world);
    plan(&world, 400, UNKNOWN, 1);
    put(&world, "a");
    assert_int_equal(checks(&world), 2);
    assert_null(wp_verdicts_refusal(world.parts.verdicts, template_of(&world)));
    assert_int_equal(world.changes, 0);
    assert_string_equal(last_event(&world, "reason"), "UnknownPodFields");
    advance(&world, 3600);
    assert_int_equal(checks(&world), 2);
    assert_int_equal(events(&world), 1);
    tear_down(&world);
}

/* Asked about again, in case the API server is another one now; the same words
 * are told once, others are news. */
static void
refused_is_asked_again(void **state)
{
    struct world world;

    (void)state;
    set_up(&world);
    plan(&world, 422, "Pod \"t-abcde\" is invalid: " NO_IMAGE, 1);
    plan(&world, 422, "Pod \"t-fghij\" is invalid: " NO_IMAGE, 1);
    plan(&world, 422, "Pod \"t-klmno\" is invalid: spec.x: no", 1);
    put(&world, "a");
    wp_template_checker_look(world.checker, template_of(&world));
    advance(&world, 290);
    assert_int_equal(checks(&world), 1);
    advance(&world, 11);
    assert_int_equal(checks(&world), 2);
    assert_int_equal(events(&world), 1);
    assert_int_equal(world.changes, 1);
    advance(&world, 301);
    assert_string_equal(
        wp_verdicts_refusal(world.parts.verdicts, template_of(&world)),
        "spec.x: no");
    assert_int_equal(events(&world), 2);
    advance(&world, 301);
    assert_string_equal(last_event(&world, "reason"), "PodAccepted");
    advance(&world, 3600);
    assert_int_equal(checks(&world), 4);
    tear_down(&world);
}

/* Our own label on it comes while the answer is under way: no other question.
 */
static void
change_of_its_metadata_is_no_question(void **state)
{
    struct world world;

    (void)state;
    set_up(&world);
    plan(&world, 422, "Pod \"t-abcde\" is invalid: " NO_IMAGE, 1);
    (void)wp_recorder_put(
        world.api, WP_KIND_SANDBOX_TEMPLATE,
        "{\"metadata\":{\"name\":\"t\",\"namespace\":\"team\"},\"spec\":"
        "{\"podTemplate\":{\"spec\":{}}}}");
    wp_recorder_notify(world.api);
    wp_template_checker_look(world.checker, template_of(&world));
    assert_int_not_equal(event_base_loop(world.parts.base, EVLOOP_NONBLOCK),
                         -1);
    assert_int_equal(checks(&world), 1);
    (void)wp_recorder_merge(world.api, WP_KIND_SANDBOX_TEMPLATE, "team", "t",
                            "{\"metadata\":{\"labels\":{\"a\":\"b\"}}}");
    wp_recorder_notify(world.api);
    wp_template_checker_look(world.checker, template_of(&world));
    for (int i = 0; i < 5; i++) {
        advance(&world, 10);
    }
    assert_int_equal(checks(&world), 1);
    assert_non_null(
        wp_verdicts_refusal(world.parts.verdicts, template_of(&world)));
    tear_down(&world);
}

/* A quota says nothing of the template: told as such, asked again with growing
 * pauses; what was known of an earlier generation counts no more. */
static void
quota_is_no_mistake(void **state)
{
    struct world world;
    uint32_t asked;

    (void)state;
    set_up(&world);
    plan(&world, 422, "Pod \"t-abcde\" is invalid: " NO_IMAGE, 1);
    put(&world, "a");
    plan(&world, 403, "exceeded quota: q", 6);
    put(&world, "b");
    assert_null(wp_verdicts_refusal(world.parts.verdicts, template_of(&world)));
    assert_int_equal(world.changes, 2);
    assert_string_equal(last_event(&world, "reason"), "PodNotChecked");
    for (int i = 0; i < 20; i++) {
        advance(&world, 1);
    }
    asked = checks(&world);
    assert_in_range(asked, 3, 8); /* Of 20 s, from a pause of 1 s on. */
    for (int i = 0; i < 10; i++) {
        advance(&world, 400);
    }
    assert_int_equal(checks(&world), 8);
    assert_true(wp_verdicts_have(world.parts.verdicts, template_of(&world)));
    tear_down(&world);
}

/* Its template goes as well: nobody is told, and nothing asked again. */
static void
namespace_that_goes(void **state)
{
    struct world world;

    (void)state;
    set_up(&world);
    wp_recorder_plan(world.api, &(struct wp_recorder_fault){
                                    .verb = WP_VERB_CHECK,
                                    .kind = WP_KIND_POD,
                                    .status = WP_PERMISSION_DENIED,
                                    .code = 403,
                                    .namespace_leaves = true,
                                });
    put(&world, "a");
    advance(&world, 3600);
    assert_int_equal(checks(&world), 1);
    assert_int_equal(events(&world), 0);
    tear_down(&world);
}

/* Nobody is told that an answer is missing. */
static void
server_error(void **state)
{
    struct world world;

    (void)state;
    set_up(&world);
    plan(&world, 500, "etcd", 3);
    put(&world, "a");
    for (int i = 0; i < 10; i++) {
        advance(&world, 400);
    }
    assert_int_equal(checks(&world), 4);
    assert_int_equal(events(&world), 0);
    assert_true(wp_verdicts_have(world.parts.verdicts, template_of(&world)));
    tear_down(&world);
}

/* One that was just made waits until it may ask, and asks of what it was to look
 * at meanwhile. */
static void
nothing_is_asked_before_it_may(void **state)
{
    struct world world;

    (void)state;
    set_up(&world);
    wp_template_checker_pause(world.checker, true);
    wp_template_checker_destroy(world.checker);
    world.checker = wp_template_checker_create(&world.parts);
    assert_non_null(world.checker);
    (void)wp_recorder_put(
        world.api, WP_KIND_SANDBOX_TEMPLATE,
        "{\"metadata\":{\"name\":\"t\",\"namespace\":\"team\",\"uid\":\"u\"},"
        "\"spec\":{\"podTemplate\":{\"spec\":{}}}}");
    wp_recorder_notify(world.api);
    wp_template_checker_look(world.checker, template_of(&world));
    assert_int_not_equal(event_base_loop(world.parts.base, EVLOOP_NONBLOCK),
                         -1);
    assert_int_equal(wp_recorder_calls(world.api), 0);
    settle(&world);
    assert_int_equal(checks(&world), 1);
    tear_down(&world);
}

/* It goes, and another of its name comes. */
static void
template_that_goes(void **state)
{
    struct world world;
    const struct wp_object *gone;

    (void)state;
    set_up(&world);
    plan(&world, 422, "Pod \"t-abcde\" is invalid: " NO_IMAGE, 1);
    put(&world, "a");
    gone = wp_object_ref(template_of(&world));
    wp_recorder_remove(world.api, WP_KIND_SANDBOX_TEMPLATE, "team", "t");
    wp_recorder_notify(world.api);
    wp_template_checker_forget(world.checker, gone);
    assert_null(wp_verdicts_refusal(world.parts.verdicts, gone));
    assert_int_equal(world.changes, 2);
    wp_object_unref(gone);
    advance(&world, 3600);
    assert_int_equal(checks(&world), 1);
    tear_down(&world);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pod_of_a_template),
        cmocka_unit_test(answers_mean),
        cmocka_unit_test(good_template_is_asked_about_once),
        cmocka_unit_test(misspelt_field),
        cmocka_unit_test(unknown_field_that_is_left_out),
        cmocka_unit_test(refused_is_asked_again),
        cmocka_unit_test(change_of_its_metadata_is_no_question),
        cmocka_unit_test(quota_is_no_mistake),
        cmocka_unit_test(namespace_that_goes),
        cmocka_unit_test(server_error),
        cmocka_unit_test(template_that_goes),
        cmocka_unit_test(nothing_is_asked_before_it_may),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
