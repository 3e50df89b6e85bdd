/* The verbs: paths, bodies, and what each answer is called. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/api/api.h"
#include "pool/base/assert.h"
#include "tests/support/http/http_rig.h"

static struct rig rig;
static struct wp_api *api;

/* What the last call ended with. */
static uint32_t done_count;
static struct wp_api_result last;
static char last_message[256];
static char last_name[64];

static void
on_done(void *ctx, const struct wp_api_result *result)
{
    const json_t *metadata = json_object_get(result->object, "metadata");
    const char *name = json_string_value(json_object_get(metadata, "name"));

    assert_ptr_equal(ctx, &rig);
    last = *result;
    (void)snprintf(last_message, sizeof last_message, "%s",
                   result->message != NULL ? result->message : "");
    (void)snprintf(last_name, sizeof last_name, "%s", name != NULL ? name : "");
    done_count++;
}

static int answer_code;
static const char *answer_headers;
static const char *answer_body;

static void
answer(struct rig *r, const struct peer_request *request)
{
    (void)r;
    peer_reply(request, answer_code, answer_headers, answer_body);
}

static int
setup(void **state)
{
    (void)state;
    rig_init(&rig, NULL);
    rig.on_request = answer;
    answer_code = 200;
    answer_headers = NULL;
    answer_body = "{\"metadata\":{\"name\":\"x\"}}";
    done_count = 0;
    rig_connect(&rig);
    api = wp_api_create(rig.http);
    assert_non_null(api);
    assert_ptr_equal(wp_api_http(api), rig.http);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    rig_fini(&rig);
    wp_api_destroy(api);
    return 0;
}

static struct wp_api_target
target(enum wp_kind kind, const char *ns, const char *name,
       const char *subresource)
{
    return (struct wp_api_target){.kind = kind,
                                  .ns = ns,
                                  .name = name,
                                  .subresource = subresource,
                                  .priority = WP_HTTP_NORMAL};
}

/* Waits for the call that was just made; not one is answered from within. */
static const struct peer_request *
wait_call(void)
{
    static uint32_t calls;

    if (rig.request_count == 0 && done_count == 0) {
        calls = 0;
    }
    assert_int_equal(done_count, calls);
    calls++;
    rig_wait(&rig, &done_count, calls);
    return rig.request_count > 0 ? &rig.requests[rig.request_count - 1] : NULL;
}

static void
expect_request(const char *method, const char *path, const char *type,
               const char *body)
{
    const struct peer_request *request = wait_call();

    assert_string_equal(request->method, method);
    assert_string_equal(request->path, path);
    assert_string_equal(request->content_type, type);
    assert_string_equal(request->body, body);
    assert_int_equal(last.status, WP_OK);
    assert_string_equal(last_name, "x");
}

static void
verbs(void **state)
{
    struct wp_api_target pod = target(WP_KIND_POD, "ns", "p", NULL);
    struct wp_api_target pods = target(WP_KIND_POD, "ns", NULL, NULL);
    struct wp_api_target claim =
        target(WP_KIND_SANDBOX_CLAIM, "ns", "c", "status");

    (void)state;
    wp_api_get(api, &pod, on_done, &rig);
    expect_request("GET", "/api/v1/namespaces/ns/pods/p", "", "");
    wp_api_post(api, &pods, json_pack("{s:i}", "a", 1), on_done, &rig);
    expect_request("POST", "/api/v1/namespaces/ns/pods", "application/json",
                   "{\"a\":1}");
    wp_api_check(api, &pods, json_pack("{s:i}", "a", 1), true, on_done, &rig);
    expect_request(
        "POST", "/api/v1/namespaces/ns/pods?dryRun=All&fieldValidation=Strict",
        "application/json", "{\"a\":1}");
    wp_api_check(api, &pods, json_pack("{s:i}", "a", 1), false, on_done, &rig);
    expect_request(
        "POST", "/api/v1/namespaces/ns/pods?dryRun=All&fieldValidation=Ignore",
        "application/json", "{\"a\":1}");
    wp_api_put(api, &claim, json_pack("{s:i}", "a", 2), on_done, &rig);
    expect_request("PUT",
                   "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/ns/"
                   "sandboxclaims/c/status",
                   "application/json", "{\"a\":2}");
    wp_api_patch(api, &claim, json_pack("{s:n}", "a"), on_done, &rig);
    expect_request("PATCH",
                   "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/ns/"
                   "sandboxclaims/c/status",
                   "application/merge-patch+json", "{\"a\":null}");
}

static void
deletes(void **state)
{
    struct wp_api_target pod = target(WP_KIND_POD, "ns", "p", NULL);
    struct wp_api_delete how = {.uid = "u-1", .resource_version = "7"};

    (void)state;
    wp_api_delete(api, &pod, &how, on_done, &rig);
    expect_request("DELETE", "/api/v1/namespaces/ns/pods/p", "application/json",
                   "{\"apiVersion\":\"v1\",\"kind\":\"DeleteOptions\","
                   "\"propagationPolicy\":\"Background\",\"preconditions\":"
                   "{\"uid\":\"u-1\",\"resourceVersion\":\"7\"}}");
    how = (struct wp_api_delete){.foreground = true};
    wp_api_delete(api, &pod, &how, on_done, &rig);
    expect_request("DELETE", "/api/v1/namespaces/ns/pods/p", "application/json",
                   "{\"apiVersion\":\"v1\",\"kind\":\"DeleteOptions\","
                   "\"propagationPolicy\":\"Foreground\"}");
}

static void
lists(void **state)
{
    struct wp_api_target all = target(WP_KIND_SANDBOX, NULL, NULL, NULL);
    struct wp_api_query query = {.label_selector = "a=b,c in (d,e)",
                                 .field_selector = "status.phase!=Failed",
                                 .limit = 500};
    char path[WP_HTTP_PATH_MAX];

    (void)state;
    wp_api_list(api, &all, &query, on_done, &rig);
    expect_request("GET",
                   "/apis/agents.x-k8s.io/v1beta1/sandboxes?labelSelector="
                   "a%3Db%2Cc%20in%20%28d%2Ce%29&fieldSelector="
                   "status.phase%21%3DFailed&limit=500",
                   "", "");
    /* The next page: its token says which version. */
    query = (struct wp_api_query){
        .cont = "a/b+c=", .resource_version = "5", .limit = 500};
    wp_api_list(api, &all, &query, on_done, &rig);
    expect_request("GET",
                   "/apis/agents.x-k8s.io/v1beta1/sandboxes?limit=500"
                   "&continue=a%2Fb%2Bc%3D",
                   "", "");
    query = (struct wp_api_query){.resource_version = "0"};
    wp_api_list(api, &all, &query, on_done, &rig);
    expect_request("GET",
                   "/apis/agents.x-k8s.io/v1beta1/sandboxes?resourceVersion=0"
                   "&resourceVersionMatch=NotOlderThan",
                   "", "");
    query = (struct wp_api_query){
        .resource_version = "12", .label_selector = "x", .timeout_s = 300};
    assert_true(wp_api_watch_path(&all, &query, path));
    assert_string_equal(path, "/apis/agents.x-k8s.io/v1beta1/sandboxes"
                              "?watch=true&allowWatchBookmarks=true"
                              "&labelSelector=x&resourceVersion=12"
                              "&timeoutSeconds=300");
}

#define STATUS(reason, message)                                                \
    "{\"kind\":\"Status\",\"reason\":\"" reason "\",\"message\":\"" message    \
    "\"}"

static void
results(void **state)
{
    static const struct {
        int code;
        const char *body;
        enum wp_status status;
        const char *message;
    } rows[] = {
        {200, "{}", WP_OK, ""},
        {201, "{}", WP_OK, ""},
        {202, "", WP_OK, ""},
        {400, STATUS("BadRequest", "m"), WP_INVALID_ARGUMENT, "m"},
        {401, STATUS("Unauthorized", "m"), WP_UNAUTHENTICATED, "m"},
        {403, STATUS("Forbidden", "m"), WP_PERMISSION_DENIED, "m"},
        {404, STATUS("NotFound", "m"), WP_NOT_FOUND, "m"},
        {404, "404 page not found", WP_NOT_FOUND,
         "the API server answered "
         "404"},
        {405, "", WP_INVALID_ARGUMENT, "the API server answered 405"},
        {406, "", WP_INVALID_ARGUMENT, "the API server answered 406"},
        {409, STATUS("AlreadyExists", "m"), WP_ALREADY_EXISTS, "m"},
        {409, STATUS("Conflict", "m"), WP_ABORTED, "m"},
        {409, "", WP_ABORTED, "the API server answered 409"},
        {410, STATUS("Expired", "m"), WP_DEADLINE_EXCEEDED, "m"},
        {415, "", WP_INVALID_ARGUMENT, "the API server answered 415"},
        {422, STATUS("Invalid", "m"), WP_INVALID_ARGUMENT, "m"},
        {429, STATUS("TooManyRequests", "m"), WP_RESOURCE_EXHAUSTED, "m"},
        {500, STATUS("InternalError", "m"), WP_UNKNOWN_OUTCOME, "m"},
        {503, STATUS("ServiceUnavailable", "m"), WP_UNAVAILABLE, "m"},
        {504, "", WP_UNKNOWN_OUTCOME, "the API server answered 504"},
        {302, "", WP_INVALID_ARGUMENT, "the API server answered 302"},
        {200, "[1]", WP_UNKNOWN_OUTCOME,
         "the API server's answer is no JSON object"},
        {200, "{\"a\":", WP_UNKNOWN_OUTCOME,
         "the API server's answer is no JSON object"},
    };
    struct wp_api_target pods = target(WP_KIND_POD, "ns", NULL, NULL);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        answer_code = rows[i].code;
        answer_body = rows[i].body;
        wp_api_post(api, &pods, json_object(), on_done, &rig);
        (void)wait_call();
        assert_int_equal(last.code, rows[i].code);
        assert_int_equal(last.status, rows[i].status);
        assert_string_equal(last_message, rows[i].message);
        assert_int_equal(last.retry_after_ns, -1);
    }
}

/* In the header, or in the words only. */
/* Only the cause tells this 403 from one for want of rights. */
static void
leaving_namespace(void **state)
{
    struct wp_api_target pod = target(WP_KIND_POD, "ns", NULL, NULL);

    (void)state;
    answer_code = 403;
    answer_body = "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"details\":"
                  "{\"causes\":[{\"reason\":\"NamespaceTerminating\"}]}}";
    wp_api_post(api, &pod, json_object(), on_done, &rig);
    (void)wait_call();
    assert_int_equal(last.status, WP_PERMISSION_DENIED);
    assert_true(last.namespace_leaves);
    answer_body = STATUS("Forbidden", "m");
    wp_api_post(api, &pod, json_object(), on_done, &rig);
    (void)wait_call();
    assert_false(last.namespace_leaves);
}

static void
retry_after(void **state)
{
    struct wp_api_target pod = target(WP_KIND_POD, "ns", "p", NULL);

    (void)state;
    pod.priority = WP_HTTP_CLAIM;
    answer_code = 429;
    answer_headers = "Retry-After: 7\r\n";
    answer_body = "";
    wp_api_get(api, &pod, on_done, &rig);
    (void)wait_call();
    assert_int_equal(last.status, WP_RESOURCE_EXHAUSTED);
    assert_int_equal(last.retry_after_ns, 7 * WP_NS_PER_S);
    answer_code = 500;
    answer_headers = NULL;
    answer_body = "{\"reason\":\"ServerTimeout\",\"details\":"
                  "{\"retryAfterSeconds\":3}}";
    wp_api_get(api, &pod, on_done, &rig);
    (void)wait_call();
    assert_int_equal(last.status, WP_UNKNOWN_OUTCOME);
    assert_int_equal(last.retry_after_ns, 3 * WP_NS_PER_S);
}

/* Names that would lead elsewhere, and texts that do not fit: refused, never
 * sent, never from within the call. The body is freed (ASan looks). */
static void
refused(void **state)
{
    char selector[WP_HTTP_PATH_MAX];
    char path[WP_HTTP_PATH_MAX];
    struct wp_api_target up = target(WP_KIND_POD, "ns", "..", NULL);
    struct wp_api_target none = target(WP_KIND_POD, "ns", "", NULL);
    struct wp_api_target pods = target(WP_KIND_POD, "ns", NULL, NULL);
    struct wp_api_query query = {.label_selector = selector};

    (void)state;
    memset(selector, 'x', sizeof selector - 1);
    selector[sizeof selector - 1] = '\0';
    wp_api_patch(api, &up, json_object(), on_done, &rig);
    (void)wait_call();
    assert_int_equal(last.status, WP_INVALID_ARGUMENT);
    wp_api_get(api, &none, on_done, &rig);
    (void)wait_call();
    assert_int_equal(last.status, WP_INVALID_ARGUMENT);
    wp_api_list(api, &pods, &query, on_done, &rig);
    (void)wait_call();
    assert_int_equal(last.status, WP_INVALID_ARGUMENT);
    assert_false(wp_api_watch_path(&pods, &query, path));
    assert_int_equal(rig.request_count, 0);
}

/* Nobody asks how it ended. */
static void
no_callback(void **state)
{
    struct wp_api_target pod = target(WP_KIND_POD, "ns", "p", NULL);

    (void)state;
    wp_api_post(api, &pod, json_object(), NULL, NULL);
    rig_wait(&rig, &rig.request_count, 1);
    wp_api_get(api, &pod, on_done, &rig);
    rig_wait(&rig, &done_count, 1);
    wp_api_post(api, &pod, json_object(), NULL, NULL);
}

/* Calls under way when the client goes. */
static void
cancelled(void **state)
{
    struct wp_api_target pod = target(WP_KIND_POD, "ns", "p", NULL);

    (void)state;
    wp_api_put(api, &pod, json_object(), on_done, &rig);
    wp_http_destroy(rig.http);
    rig.http = NULL;
    assert_int_equal(done_count, 1);
    assert_int_equal(last.status, WP_CANCELLED);
    assert_null(last.object);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(verbs, setup, teardown),
        cmocka_unit_test_setup_teardown(deletes, setup, teardown),
        cmocka_unit_test_setup_teardown(lists, setup, teardown),
        cmocka_unit_test_setup_teardown(results, setup, teardown),
        cmocka_unit_test_setup_teardown(leaving_namespace, setup, teardown),
        cmocka_unit_test_setup_teardown(retry_after, setup, teardown),
        cmocka_unit_test_setup_teardown(refused, setup, teardown),
        cmocka_unit_test_setup_teardown(no_callback, setup, teardown),
        cmocka_unit_test_setup_teardown(cancelled, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
