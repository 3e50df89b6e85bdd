/* One reconcile and its calls: what each answer makes of it, what it learns,
 * logs and tells the queue. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/controllers/reconcile.h"
#include "k8s/objects/json.h"
#include "tests/support/base/heard.h"
#include "tests/support/base/journal.h"

enum {
    CALLS_MAX = 8,
};

static struct {
    struct wp_parts parts;
    wp_api_done *done[CALLS_MAX];
    void *ctx[CALLS_MAX];
    size_t calls;
} rig;

static struct heard heard;
static int work; /* Its address is what counts. */

/* --- What lies below --- */

void __wrap_wp_work_done(struct wp_work *done, enum wp_work_outcome outcome,
                         int64_t after_ns);
void __wrap_wp_store_learn(struct wp_store *store, struct wp_object *object);

void
__wrap_wp_work_done(struct wp_work *done, enum wp_work_outcome outcome,
                    int64_t after_ns)
{
    assert_ptr_equal(done, &work);
    journal("  done %d after %lld", (int)outcome, (long long)after_ns);
    journal_line();
}

void
__wrap_wp_store_learn(struct wp_store *store, struct wp_object *object)
{
    assert_ptr_equal(store, &rig);
    journal("  learn %s", object->name);
    journal_line();
    wp_object_unref(object);
}

static void
call(struct wp_api *api, const char *verb, const struct wp_api_target *target,
     json_t *body, const struct wp_api_delete *how, wp_api_done *done,
     void *ctx)
{
    char *text = body == NULL ? NULL : json_dumps(body, JSON_COMPACT);

    assert_ptr_equal(api, &rig);
    journal("  %s %s %s/%s priority %d %s", verb,
            wp_kind_info(target->kind)->kind, target->ns, target->name,
            (int)target->priority, text != NULL ? text : "");
    if (how != NULL) {
        journal("uid %s version %s foreground %d", how->uid,
                how->resource_version, how->foreground);
    }
    journal_line();
    free(text);
    json_decref(body);
    assert_true(rig.calls < CALLS_MAX);
    rig.done[rig.calls] = done;
    rig.ctx[rig.calls++] = ctx;
}

void
wp_api_post(struct wp_api *api, const struct wp_api_target *target,
            json_t *body, wp_api_done *done, void *ctx)
{
    call(api, "POST", target, body, NULL, done, ctx);
}

void
wp_api_put(struct wp_api *api, const struct wp_api_target *target, json_t *body,
           wp_api_done *done, void *ctx)
{
    call(api, "PUT", target, body, NULL, done, ctx);
}

void
wp_api_patch(struct wp_api *api, const struct wp_api_target *target,
             json_t *body, wp_api_done *done, void *ctx)
{
    call(api, "PATCH", target, body, NULL, done, ctx);
}

void
wp_api_delete(struct wp_api *api, const struct wp_api_target *target,
              const struct wp_api_delete *how, wp_api_done *done, void *ctx)
{
    call(api, "DELETE", target, NULL, how, done, ctx);
}

/* --- What the test does --- */

static const struct wp_api_target target = {
    .kind = WP_KIND_POD, .ns = "n", .name = "p", .priority = WP_HTTP_CLAIM};

static const char pod[] =
    "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"namespace\":\"n\","
    "\"name\":\"p\",\"uid\":\"pu\",\"resourceVersion\":\"5\"}}";

static void
begin(void)
{
    memset(&rig, 0, sizeof rig);
    rig.parts.api = (struct wp_api *)(void *)&rig;
    rig.parts.stores[WP_KIND_POD] = (struct wp_store *)(void *)&rig;
}

static struct wp_reconcile *
begun(void)
{
    return wp_reconcile_begin(&rig.parts, (struct wp_work *)(void *)&work);
}

/* Makes call i of the four. */
static void
make(struct wp_reconcile *reconcile, size_t i)
{
    struct wp_err err;
    json_t *json;
    struct wp_object *object;

    switch (i) {
    case 0:
        wp_reconcile_post(reconcile, &target, json_pack("{s:i}", "a", 1));
        break;
    case 1:
        wp_reconcile_put(reconcile, &target, json_pack("{s:i}", "b", 2));
        break;
    case 2:
        wp_reconcile_patch(reconcile, &target, json_pack("{s:i}", "c", 3));
        break;
    default:
        json = json_loads(pod, 0, NULL);
        object = wp_object_create(WP_KIND_POD, json, &err);
        assert_non_null(object);
        wp_reconcile_delete(reconcile, object);
        wp_object_unref(object);
        json_decref(json);
        break;
    }
}

static void
answer(size_t i, const struct wp_api_result *result)
{
    const char *log;

    heard_begin(&heard);
    rig.done[i](rig.ctx[i], result);
    log = heard_end(&heard);
    if (log[0] != '\0') {
        journal("  log %s", log);
        journal_line();
    }
}

static struct wp_api_result
result_of(enum wp_status status, json_t *object)
{
    return (struct wp_api_result){.status = status,
                                  .kind = WP_KIND_POD,
                                  .object = object,
                                  .message = "no luck",
                                  .retry_after_ns = -1};
}

/* --- The tests --- */

/* Whatever is made or changed is learned; what is deleted is not. */
static void
learns_what_is_answered(void **state)
{
    json_t *json = json_loads(pod, 0, NULL);
    struct wp_api_result result = result_of(WP_OK, json);
    struct wp_reconcile *reconcile;

    (void)state;
    begin();
    reconcile = begun();
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(wp_reconcile_calls(reconcile), i);
        make(reconcile, i);
    }
    assert_int_equal(wp_reconcile_calls(reconcile), 4);
    wp_reconcile_end(reconcile);
    for (size_t i = 0; i < 4; i++) {
        answer(i, &result);
    }
    json_decref(json);
    journal_is("  POST Pod n/p priority 0 {\"a\":1}\n"
               "  PUT Pod n/p priority 0 {\"b\":2}\n"
               "  PATCH Pod n/p priority 0 {\"c\":3}\n"
               "  DELETE Pod n/p priority 1 uid pu version 5 foreground 0\n"
               "  learn p\n"
               "  learn p\n"
               "  learn p\n"
               "  done 0 after 0\n");
}

/* One that has no store, no object, or none that makes sense. */
static void
learns_nothing(void **state)
{
    json_t *json = json_loads(pod, 0, NULL);
    json_t *odd = json_object();
    const struct wp_api_result results[] = {
        result_of(WP_OK, NULL), result_of(WP_OK, odd), result_of(WP_OK, json)};

    (void)state;
    begin();
    for (size_t i = 0; i < WP_ARRAY_LEN(results); i++) {
        struct wp_reconcile *reconcile = begun();

        if (i == 2) {
            rig.parts.stores[WP_KIND_POD] = NULL;
        }
        make(reconcile, 0);
        answer(i, &results[i]);
        wp_reconcile_end(reconcile);
    }
    json_decref(json);
    json_decref(odd);
    journal_is("  POST Pod n/p priority 0 {\"a\":1}\n"
               "  done 0 after 0\n"
               "  POST Pod n/p priority 0 {\"a\":1}\n"
               "  log WARN an answer of the API server makes no sense kind=Pod "
               "error=\"Pod: metadata.name: expected a name\"|\n"
               "  done 0 after 0\n"
               "  POST Pod n/p priority 0 {\"a\":1}\n"
               "  done 0 after 0\n");
}

/* Which answers are a failure, and what is said of them. */
static void
fails_with_some_answers(void **state)
{
    static const enum wp_status all[] = {
        WP_NOT_FOUND,        WP_ABORTED,     WP_CANCELLED,
        WP_ALREADY_EXISTS,   WP_UNAVAILABLE, WP_UNKNOWN_OUTCOME,
        WP_PERMISSION_DENIED};

    (void)state;
    begin();
    for (size_t i = 0; i < WP_ARRAY_LEN(all); i++) {
        struct wp_api_result result = result_of(all[i], NULL);

        for (int leaves = 0; leaves < 2; leaves++) {
            struct wp_reconcile *reconcile = begun();

            rig.calls = 0;
            result.namespace_leaves = leaves == 1;
            journal_mute(true);
            make(reconcile, i % 4);
            journal_mute(false);
            wp_reconcile_again(reconcile, 7);
            wp_reconcile_end(reconcile);
            journal("%s%s", wp_status_name(all[i]), leaves ? " leaves" : "");
            journal_line();
            answer(0, &result);
        }
    }
    journal_is(
        "NOT_FOUND\n"
        "  done 2 after 7\n"
        "NOT_FOUND leaves\n"
        "  done 2 after 7\n"
        "ABORTED\n"
        "  done 2 after 7\n"
        "ABORTED leaves\n"
        "  done 2 after 7\n"
        "CANCELLED\n"
        "  done 2 after 7\n"
        "CANCELLED leaves\n"
        "  done 2 after 7\n"
        "ALREADY_EXISTS\n"
        "  done 1 after 0\n"
        "  log WARN the API server did not do what a controller asked for "
        "verb=delete kind=Pod status=\"already exists\" message=\"no luck\"|\n"
        "ALREADY_EXISTS leaves\n"
        "  done 2 after 7\n"
        "UNAVAILABLE\n"
        "  done 1 after 0\n"
        "  log WARN the API server did not do what a controller asked for "
        "verb=create kind=Pod status=unavailable message=\"no luck\"|\n"
        "UNAVAILABLE leaves\n"
        "  done 2 after 7\n"
        "UNKNOWN_OUTCOME\n"
        "  done 1 after 0\n"
        "  log WARN the API server did not do what a controller asked for "
        "verb=update kind=Pod status=\"outcome unknown\" message=\"no luck\"|\n"
        "UNKNOWN_OUTCOME leaves\n"
        "  done 2 after 7\n"
        "PERMISSION_DENIED\n"
        "  done 1 after 0\n"
        "  log WARN the API server did not do what a controller asked for "
        "verb=patch kind=Pod status=\"permission denied\" message=\"no "
        "luck\"|\n"
        "PERMISSION_DENIED leaves\n"
        "  done 2 after 7\n");
}

/* The earliest that was asked for counts, unless something failed. */
static void
looks_again(void **state)
{
    struct wp_reconcile *reconcile;

    (void)state;
    begin();
    reconcile = begun();
    wp_reconcile_end(reconcile);
    reconcile = begun();
    wp_reconcile_again(reconcile, 5);
    wp_reconcile_again(reconcile, 3);
    wp_reconcile_again(reconcile, 4);
    wp_reconcile_end(reconcile);
    reconcile = begun();
    wp_reconcile_again(reconcile, 0);
    wp_reconcile_end(reconcile);
    journal_is("  done 0 after 0\n"
               "  done 2 after 3\n"
               "  done 2 after 0\n");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(learns_what_is_answered),
        cmocka_unit_test(learns_nothing),
        cmocka_unit_test(fails_with_some_answers),
        cmocka_unit_test(looks_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
