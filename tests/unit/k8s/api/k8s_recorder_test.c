/* The recorder that stands in for the API client, and its small server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/objects/json.h"
#include "k8s/objects/view.h"
#include "tests/support/k8s/api_recorder.h"

struct heard {
    uint32_t answers;
    enum wp_status status;
    int code;
    char version[32];
    char name[64];
};

static void
hear(void *ctx, const struct wp_api_result *result)
{
    struct heard *heard = ctx;

    heard->answers++;
    heard->status = result->status;
    heard->code = result->code;
    (void)snprintf(
        heard->version, sizeof heard->version, "%s",
        wp_json_text(result->object, "metadata", "resourceVersion", NULL));
    (void)snprintf(heard->name, sizeof heard->name, "%s",
                   wp_json_text(result->object, "metadata", "name", NULL));
}

static const struct wp_api_target sandbox = {
    .kind = WP_KIND_SANDBOX, .ns = "ns", .name = "x"};

static json_t *
body(const char *text)
{
    json_t *json = json_loads(text, 0, NULL);

    assert_non_null(json);
    return json;
}

#define SANDBOX_X                                                              \
    "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"x\"},\"spec\":{\"a\":1}}"

/* Calls wait for the test, in order, with all that was said. */
static void
by_hand(void **state)
{
    struct wp_api *api = wp_recorder_create();
    struct heard heard = {0};
    const struct wp_api_delete how = {.uid = "u", .foreground = true};
    struct wp_recorded *call;

    (void)state;
    wp_api_patch(api, &sandbox, body("{\"metadata\":{\"name\":\"y\"}}"), hear,
                 &heard);
    wp_api_delete(api, &sandbox, &how, hear, &heard);
    assert_int_equal(heard.answers, 0);
    assert_int_equal(wp_recorder_calls(api), 2);
    assert_int_equal(wp_recorder_count(api, WP_VERB_WRITES, WP_KIND_COUNT), 2);
    assert_int_equal(wp_recorder_count(api, WP_VERB_PATCH, WP_KIND_POD), 0);
    call = wp_recorder_call(api, 0);
    assert_int_equal(call->verb, WP_VERB_PATCH);
    assert_string_equal(wp_recorded_text(call, "metadata", "name", NULL), "y");
    assert_string_equal(wp_recorded_text(call, "spec", "name", NULL), "");
    call = wp_recorder_open(api, WP_VERB_DELETE, WP_KIND_SANDBOX);
    assert_string_equal(call->uid, "u");
    assert_true(call->foreground);
    wp_recorder_answer(call, WP_ABORTED, NULL);
    assert_int_equal(heard.status, WP_ABORTED);
    assert_int_equal(heard.code, 409);
    assert_null(wp_recorder_open(api, WP_VERB_DELETE, WP_KIND_SANDBOX));
    wp_api_destroy(api);
    assert_int_equal(heard.answers, 2);
    assert_int_equal(heard.status, WP_CANCELLED);
}

static void
server_makes(void **state)
{
    struct wp_api *api = wp_recorder_create();
    struct heard heard = {0};
    struct wp_api_target target = sandbox;
    const json_t *made;

    (void)state;
    wp_recorder_serve(api);
    target.name = NULL;
    wp_api_post(api, &target,
                body("{\"metadata\":{\"generateName\":\"p-\"},\"status\":{}}"),
                hear, &heard);
    assert_int_equal(wp_recorder_run(api), 1);
    assert_int_equal(heard.status, WP_OK);
    made = wp_recorder_object(api, WP_KIND_SANDBOX, "ns", heard.name);
    assert_int_equal(strncmp(heard.name, "p-", 2), 0);
    assert_string_equal(wp_json_text(made, "kind", NULL), "Sandbox");
    assert_int_equal(strlen(wp_json_text(made, "metadata", "uid", NULL)), 36);
    assert_null(json_object_get(made, "status"));
    wp_api_post(api, &target, json_deep_copy(made), hear, &heard);
    wp_recorder_run(api);
    assert_int_equal(heard.status, WP_ALREADY_EXISTS);
    wp_api_destroy(api);
}

/* Generations count specs; a status is written by its own; nothing changed,
 * nothing written. */
static void
server_patches(void **state)
{
    struct wp_api *api = wp_recorder_create();
    struct heard heard = {0};
    struct wp_api_target status = sandbox;
    const json_t *now;
    char version[32];

    (void)state;
    wp_recorder_serve(api);
    wp_recorder_put(api, WP_KIND_SANDBOX, SANDBOX_X);
    wp_api_patch(api, &sandbox,
                 body("{\"spec\":{\"a\":null,\"b\":{\"c\":2}},"
                      "\"status\":{\"no\":1}}"),
                 hear, &heard);
    wp_recorder_run(api);
    now = wp_recorder_object(api, WP_KIND_SANDBOX, "ns", "x");
    assert_null(wp_json_at(now, "spec", "a", NULL));
    assert_non_null(wp_json_at(now, "spec", "b", "c", NULL));
    assert_null(json_object_get(now, "status"));
    assert_int_equal(
        json_integer_value(wp_json_at(now, "metadata", "generation", NULL)), 2);

    status.subresource = "status";
    wp_api_patch(api, &status,
                 body("{\"spec\":{\"a\":1},\"status\":{\"s\":1}}"), hear,
                 &heard);
    wp_recorder_run(api);
    now = wp_recorder_object(api, WP_KIND_SANDBOX, "ns", "x");
    assert_null(wp_json_at(now, "spec", "a", NULL));
    assert_non_null(wp_json_at(now, "status", "s", NULL));
    assert_int_equal(
        json_integer_value(wp_json_at(now, "metadata", "generation", NULL)), 2);

    (void)strcpy(version, heard.version);
    wp_api_patch(api, &status, body("{\"status\":{\"s\":1}}"), hear, &heard);
    wp_recorder_run(api);
    assert_string_equal(heard.version, version);
    wp_api_destroy(api);
}

static void
server_preconditions(void **state)
{
    struct wp_api *api = wp_recorder_create();
    struct heard heard = {0};
    struct wp_api_delete how = {.uid = "another"};

    (void)state;
    wp_recorder_serve(api);
    wp_recorder_put(api, WP_KIND_SANDBOX, SANDBOX_X);
    wp_api_patch(api, &sandbox,
                 body("{\"metadata\":{\"resourceVersion\":\"1\"}}"), hear,
                 &heard);
    wp_recorder_run(api);
    assert_int_equal(heard.status, WP_ABORTED);
    wp_api_delete(api, &sandbox, &how, hear, &heard);
    wp_recorder_run(api);
    assert_int_equal(heard.status, WP_ABORTED);
    assert_int_equal(wp_recorder_objects(api, WP_KIND_SANDBOX), 1);
    how = (struct wp_api_delete){.foreground = true};
    wp_api_delete(api, &sandbox, &how, hear, &heard);
    wp_recorder_run(api);
    assert_int_equal(heard.status, WP_OK);
    assert_int_equal(wp_recorder_objects(api, WP_KIND_SANDBOX), 1);
    wp_api_patch(api, &sandbox, body("{\"metadata\":{\"finalizers\":null}}"),
                 hear, &heard);
    wp_recorder_run(api);
    assert_int_equal(wp_recorder_objects(api, WP_KIND_SANDBOX), 0);
    wp_api_get(api, &sandbox, hear, &heard);
    wp_recorder_run(api);
    assert_int_equal(heard.status, WP_NOT_FOUND);
    wp_api_destroy(api);
}

/* A lost answer: done or not done, and nobody can tell. */
static void
server_faults(void **state)
{
    struct wp_api *api = wp_recorder_create();
    struct heard heard = {0};

    (void)state;
    wp_recorder_serve(api);
    wp_recorder_put(api, WP_KIND_SANDBOX, SANDBOX_X);
    wp_recorder_plan(api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_PATCH,
                                                 .kind = WP_KIND_SANDBOX,
                                                 .skip = 1,
                                                 .status = WP_UNKNOWN_OUTCOME,
                                                 .effect = true});
    wp_recorder_plan(api, &(struct wp_recorder_fault){.verb = WP_VERB_WRITES,
                                                      .kind = WP_KIND_COUNT,
                                                      .name = "other",
                                                      .status = WP_ABORTED});
    assert_int_equal(wp_recorder_planned(api), 2);
    wp_api_patch(api, &sandbox, body("{\"spec\":{\"n\":1}}"), hear, &heard);
    wp_recorder_run(api);
    assert_int_equal(heard.status, WP_OK);
    wp_api_patch(api, &sandbox, body("{\"spec\":{\"n\":2}}"), hear, &heard);
    wp_recorder_run(api);
    assert_int_equal(heard.status, WP_UNKNOWN_OUTCOME);
    assert_int_equal(heard.code, 0);
    assert_int_equal(json_integer_value(wp_json_at(
                         wp_recorder_object(api, WP_KIND_SANDBOX, "ns", "x"),
                         "spec", "n", NULL)),
                     2);
    assert_int_equal(wp_recorder_planned(api), 1);
    wp_api_destroy(api);
}

/* Stores hear what a watch would tell, when they may. */
static void
server_feeds(void **state)
{
    struct wp_store *store = wp_store_create(WP_KIND_SANDBOX, NULL);
    struct wp_api *api = wp_recorder_create();
    const struct wp_object *found;

    (void)state;
    wp_recorder_serve(api);
    wp_recorder_put(api, WP_KIND_SANDBOX, SANDBOX_X);
    wp_recorder_feed(api, store, WP_KIND_SANDBOX);
    assert_non_null(wp_store_find(store, "ns", "x"));
    wp_recorder_hold(api, true);
    wp_recorder_merge(api, WP_KIND_SANDBOX, "ns", "x",
                      "{\"status\":{\"podIPs\":[\"10.0.0.7\"]}}");
    wp_recorder_run(api);
    found = wp_store_find(store, "ns", "x");
    assert_string_equal(wp_sandbox_view(found)->pod_ip, "");
    wp_recorder_hold(api, false);
    found = wp_store_find(store, "ns", "x");
    assert_string_equal(wp_sandbox_view(found)->pod_ip, "10.0.0.7");
    wp_recorder_remove(api, WP_KIND_SANDBOX, "ns", "x");
    wp_recorder_notify(api);
    assert_int_equal(wp_store_count(store), 0);
    wp_api_destroy(api);
    wp_store_destroy(store);
}

static void
server_collects(void **state)
{
    struct wp_api *api = wp_recorder_create();
    struct heard heard = {0};
    struct wp_api_target pods = {.kind = WP_KIND_POD, .ns = "ns"};
    struct wp_api_query query = {.label_selector = "a=b"};

    (void)state;
    wp_recorder_serve(api);
    wp_recorder_put(api, WP_KIND_SANDBOX,
                    "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"x\","
                    "\"uid\":\"u\"}}");
    wp_recorder_put(api, WP_KIND_POD,
                    "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"p\","
                    "\"labels\":{\"a\":\"b\"},"
                    "\"ownerReferences\":[{\"uid\":\"u\"}]}}");
    wp_recorder_collect(api);
    assert_int_equal(wp_recorder_objects(api, WP_KIND_POD), 1);
    wp_api_list(api, &pods, &query, hear, &heard);
    wp_recorder_run(api);
    assert_int_equal(heard.status, WP_OK);
    wp_recorder_remove(api, WP_KIND_SANDBOX, "ns", "x");
    wp_recorder_collect(api);
    assert_int_equal(wp_recorder_objects(api, WP_KIND_POD), 0);
    wp_api_destroy(api);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(server_makes),
        cmocka_unit_test(server_patches),
        cmocka_unit_test(server_preconditions),
        cmocka_unit_test(server_faults),
        cmocka_unit_test(server_feeds),
        cmocka_unit_test(server_collects),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
