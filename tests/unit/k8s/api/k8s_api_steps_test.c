/* What each call on a kind becomes as a request, and what its answer becomes
 * for who made it, is compared whole with k8s_api_steps.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/api/api.h"
#include "tests/support/base/journal.h"

static struct wp_api *api;
static struct wp_http_request sent;
static char sent_path[WP_HTTP_PATH_MAX];
static uint32_t memory; /* This allocation of jansson fails; 0: none. */
static bool no_memory;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void __wrap_wp_http_send(struct wp_http *http,
                         const struct wp_http_request *request);

void *
__wrap_calloc(size_t n, size_t size)
{
    return no_memory ? NULL : __real_calloc(n, size);
}

static void *
jansson_malloc(size_t size)
{
    return memory != 0 && --memory == 0 ? NULL : malloc(size);
}

void
__wrap_wp_http_send(struct wp_http *http, const struct wp_http_request *request)
{
    assert_ptr_equal(http, &sent);
    journal("  %s %s type %s priority %d timeout %" PRId64 " ", request->method,
            request->path,
            request->content_type != NULL ? request->content_type : "-",
            (int)request->priority, request->timeout_ns);
    journal_bytes(request->body.ptr, request->body.len);
    journal_line();
    sent = *request;
    (void)snprintf(sent_path, sizeof sent_path, "%s", request->path);
}

static void
on_done(void *ctx, const struct wp_api_result *result)
{
    char *text = result->object != NULL
                     ? json_dumps(result->object, JSON_COMPACT)
                     : NULL;

    assert_ptr_equal(ctx, &memory);
    journal("  = %s of kind %d, code %d, after %" PRId64 ", leaves %d '%s' %s",
            wp_status_name(result->status), (int)result->kind, result->code,
            result->retry_after_ns, result->namespace_leaves,
            result->message != NULL ? result->message : "",
            text != NULL ? text : "");
    journal_line();
    free(text);
}

static void
answer(int code, const char *body)
{
    if (sent.done == NULL) {
        journal("  nobody waits");
        journal_line();
        return;
    }
    sent.done(sent.ctx, &(struct wp_http_answer){.status = WP_OK,
                                                 .code = code,
                                                 .body = wp_str_from(body),
                                                 .retry_after_ns = -1});
}

/* Each verb on one target. */
static void
each_verb(const struct wp_api_target *target)
{
    const struct wp_api_query query = {.label_selector = "l=1",
                                       .field_selector = "f=2",
                                       .resource_version = "3",
                                       .limit = 4,
                                       .timeout_s = 5};
    const struct wp_api_query next = {
        .resource_version = "3", .cont = "x/y", .limit = 1};
    const struct wp_api_query plain = {.timeout_s = 1};
    const struct wp_api_delete how = {.uid = "u"};
    const struct wp_api_delete other = {.resource_version = "7",
                                        .foreground = true};
    const struct wp_api_delete any = {.uid = NULL};
    char path[WP_HTTP_PATH_MAX];

    journal("# kind %d", (int)target->kind);
    journal_line();
    wp_api_get(api, target, on_done, &memory);
    answer(200, "{\"a\":1}");
    wp_api_post(api, target, json_pack("{s:i}", "b", 1), on_done, &memory);
    answer(404, "{}");
    wp_api_check(api, target, json_object(), true, on_done, &memory);
    answer(201, "{}");
    wp_api_check(api, target, json_object(), false, on_done, &memory);
    answer(201, "{}");
    wp_api_put(api, target, json_pack("{s:i}", "c", 1), on_done, &memory);
    answer(409, "{}");
    wp_api_patch(api, target, json_pack("{s:n}", "d"), NULL, NULL);
    answer(200, "{}");
    wp_api_delete(api, target, &how, on_done, &memory);
    answer(200, "{}");
    wp_api_delete(api, target, &other, on_done, &memory);
    answer(200, "{}");
    wp_api_delete(api, target, &any, NULL, NULL);
    answer(200, "{}");
    wp_api_list(api, target, &query, on_done, &memory);
    answer(200, "{\"items\":[]}");
    wp_api_list(api, target, &next, on_done, &memory);
    answer(410, "{}");
    wp_api_list(api, target, &plain, on_done, &memory);
    answer(200, "{}");
    journal("  %d", wp_api_watch_path(target, &query, path));
    journal(" %s", path);
    journal_line();
    journal("  %d", wp_api_watch_path(target, &plain, path));
    journal(" %s", path);
    journal_line();
}

static void
each_kind(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        each_verb(
            &(struct wp_api_target){.kind = (enum wp_kind)kind,
                                    .ns = kind == 1 ? NULL : "ns",
                                    .name = "name",
                                    .subresource = kind == 2 ? "status" : NULL,
                                    .priority = (enum wp_http_priority)kind});
    }
    each_verb(&(struct wp_api_target){.kind = WP_KIND_POD,
                                      .ns = "ns",
                                      .name = "name",
                                      .priority = WP_HTTP_EVENT});
    journal_compare(WP_TEST_STORY);
}

/* The path and its end have room for so many bytes; what is longer is sent to
 * no path, which the client refuses. */
static void
long_paths(void **state)
{
    struct wp_api_target target = {.kind = WP_KIND_POD, .ns = "ns"};
    char name[WP_HTTP_PATH_MAX];
    char path[WP_HTTP_PATH_MAX];
    const size_t most =
        WP_HTTP_PATH_MAX - 1 - strlen("/api/v1/namespaces/ns/pods/");

    (void)state;
    for (int more = 0; more < 2; more++) {
        struct wp_api_query query = {.label_selector = name};

        memset(name, 'n', sizeof name);
        name[most + (size_t)more] = '\0';
        target.name = name;
        journal_mute(true);
        wp_api_get(api, &target, NULL, NULL);
        journal_mute(false);
        journal("%d", sent_path[0] != '\0');
        name[WP_HTTP_PATH_MAX - 1 -
             strlen("/api/v1/namespaces/ns/pods?watch=true&allowWatchBookmarks"
                    "=true&labelSelector=") +
             (size_t)more] = '\0';
        journal(" %d", wp_api_watch_path(&target, &query, path));
        journal_line();
    }
    journal_is("1 1\n0 0\n");
}

/* The same of a namespace, for those without a name. */
static void
long_namespaces(void **state)
{
    char ns[WP_HTTP_PATH_MAX];
    const struct wp_api_target target = {.kind = WP_KIND_POD, .ns = ns};
    const struct wp_api_query query = {.limit = 0};

    (void)state;
    memset(ns, 'n', sizeof ns);
    ns[sizeof ns - 1] = '\0';
    for (int verb = 0; verb < 3; verb++) {
        (void)strcpy(sent_path, "none");
        journal_mute(true);
        if (verb == 0) {
            wp_api_post(api, &target, json_object(), NULL, NULL);
        } else if (verb == 1) {
            wp_api_check(api, &target, json_object(), true, NULL, NULL);
        } else {
            wp_api_list(api, &target, &query, NULL, NULL);
        }
        journal_mute(false);
        assert_string_equal(sent_path, "");
    }
}

/* A body that cannot be written is never sent: the client refuses an empty
 * path. */
static void
no_memory_for_a_body(void **state)
{
    const struct wp_api_target target = {
        .kind = WP_KIND_POD, .ns = "ns", .name = "p"};
    json_t *body = json_object();
    uint32_t n = 1;

    (void)state;
    for (;; n++) {
        memory = n;
        journal_mute(true);
        wp_api_put(api, &target, json_incref(body), NULL, NULL);
        journal_mute(false);
        if (memory != 0) {
            break;
        }
        assert_string_equal(sent_path, "");
    }
    memory = 0;
    assert_true(n > 1);
    assert_string_equal(sent_path, "/api/v1/namespaces/ns/pods/p");
    json_decref(body);
    no_memory = true;
    assert_null(wp_api_create(NULL));
    no_memory = false;
    wp_api_destroy(NULL);
}

static int
set_up(void **state)
{
    (void)state;
    json_set_alloc_funcs(jansson_malloc, free);
    api = wp_api_create((struct wp_http *)(void *)&sent);
    assert_non_null(api);
    assert_ptr_equal(wp_api_http(api), &sent);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    wp_api_destroy(api);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind),
        cmocka_unit_test(long_paths),
        cmocka_unit_test(long_namespaces),
        cmocka_unit_test(no_memory_for_a_body),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
