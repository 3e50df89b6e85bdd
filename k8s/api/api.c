#include "k8s/api/api.h"

#include <stdlib.h>

#include "k8s/api/api_answer.h"
#include "k8s/api/url.h"
#include "pool/base/assert.h"

#define LIST_TIMEOUT_NS (30 * WP_NS_PER_S)
#define JSON_TYPE "application/json"

struct wp_api {
    struct wp_http *http;
};

/* A call under way. */
struct call {
    wp_api_done *done;
    void *ctx;
    enum wp_kind kind;
};

struct wp_api *
wp_api_create(struct wp_http *http)
{
    struct wp_api *api = calloc(1, sizeof *api);

    if (api != NULL) {
        api->http = http;
    }
    return api;
}

void
wp_api_destroy(struct wp_api *api)
{
    free(api);
}

struct wp_http *
wp_api_http(const struct wp_api *api)
{
    return api->http;
}

static void
on_answer(void *ctx, const struct wp_http_answer *answer)
{
    struct call *call = ctx;
    struct wp_api_result result;
    struct wp_api_words words;

    wp_api_answer_read(answer, &result, &words);
    result.kind = call->kind;
    call->done(call->ctx, &result);
    json_decref(result.object);
    free(call);
}

/* --- Requests. */

static void
add_collection(struct wp_url *url, const struct wp_api_target *target)
{
    const struct wp_kind_info *info = wp_kind_info(target->kind);

    if (info->group[0] == '\0') {
        wp_url_segment(url, WP_STR("api"));
    } else {
        wp_url_segment(url, WP_STR("apis"));
        wp_url_segment(url, wp_str_from(info->group));
    }
    wp_url_segment(url, wp_str_from(info->version));
    if (target->ns != NULL) {
        wp_url_segment(url, WP_STR("namespaces"));
        wp_url_segment(url, wp_str_from(target->ns));
    }
    wp_url_segment(url, wp_str_from(info->plural));
}

static void
add_object(struct wp_url *url, const struct wp_api_target *target)
{
    add_collection(url, target);
    wp_url_segment(url, wp_str_from(target->name));
    if (target->subresource != NULL) {
        wp_url_segment(url, wp_str_from(target->subresource));
    }
}

/* What differs from verb to verb. */
struct verb {
    const char *method;
    const char *content_type; /* NULL: no body. */
    int64_t timeout_ns;
};

/* Takes body. A path that did not fit is empty, and the client answers it with
 * INVALID_ARGUMENT; so does a body that is no JSON. */
static void
send_request(struct wp_api *api, const struct wp_api_target *target,
             const struct verb *verb, const char *path, json_t *body,
             struct call ending)
{
    char *text = NULL;
    struct wp_http_request request = {
        .method = verb->method,
        .path = path,
        .content_type = verb->content_type,
        .priority = target->priority,
        .timeout_ns = verb->timeout_ns,
    };

    if (verb->content_type != NULL) {
        text = json_dumps(body, JSON_COMPACT);
        request.body = wp_str_from(text);
        request.path = text != NULL ? path : "";
    }
    if (ending.done != NULL) {
        struct call *call = malloc(sizeof *call);

        WP_ASSERT(call != NULL);
        *call = ending;
        request.done = on_answer;
        request.ctx = call;
    }
    wp_http_send(api->http, &request);
    free(text);
    json_decref(body);
}

static const struct verb verb_get = {"GET", NULL, 0};
static const struct verb verb_list = {"GET", NULL, LIST_TIMEOUT_NS};
static const struct verb verb_post = {"POST", JSON_TYPE, 0};
static const struct verb verb_put = {"PUT", JSON_TYPE, 0};
static const struct verb verb_patch = {"PATCH", "application/merge-patch+json",
                                       0};
static const struct verb verb_delete = {"DELETE", JSON_TYPE, 0};

static void
send_to_object(struct wp_api *api, const struct wp_api_target *target,
               const struct verb *verb, json_t *body, wp_api_done *done,
               void *ctx)
{
    char path[WP_HTTP_PATH_MAX];
    struct wp_url url;

    wp_url_begin(&url, path, sizeof path);
    add_object(&url, target);
    (void)!wp_url_end(&url);
    send_request(api, target, verb, path, body,
                 (struct call){done, ctx, target->kind});
}

void
wp_api_get(struct wp_api *api, const struct wp_api_target *target,
           wp_api_done *done, void *ctx)
{
    send_to_object(api, target, &verb_get, NULL, done, ctx);
}

void
wp_api_post(struct wp_api *api, const struct wp_api_target *target,
            json_t *body, wp_api_done *done, void *ctx)
{
    char path[WP_HTTP_PATH_MAX];
    struct wp_url url;

    wp_url_begin(&url, path, sizeof path);
    if (target->subresource != NULL) {
        add_object(&url, target);
    } else {
        add_collection(&url, target);
    }
    (void)!wp_url_end(&url);
    send_request(api, target, &verb_post, path, body,
                 (struct call){done, ctx, target->kind});
}

void
wp_api_check(struct wp_api *api, const struct wp_api_target *target,
             json_t *body, bool strict, wp_api_done *done, void *ctx)
{
    char path[WP_HTTP_PATH_MAX];
    struct wp_url url;

    wp_url_begin(&url, path, sizeof path);
    add_collection(&url, target);
    wp_url_param(&url, "dryRun", WP_STR("All"));
    wp_url_param(&url, "fieldValidation",
                 strict ? WP_STR("Strict") : WP_STR("Ignore"));
    (void)!wp_url_end(&url);
    send_request(api, target, &verb_post, path, body,
                 (struct call){done, ctx, target->kind});
}

void
wp_api_put(struct wp_api *api, const struct wp_api_target *target, json_t *body,
           wp_api_done *done, void *ctx)
{
    send_to_object(api, target, &verb_put, body, done, ctx);
}

void
wp_api_patch(struct wp_api *api, const struct wp_api_target *target,
             json_t *body, wp_api_done *done, void *ctx)
{
    send_to_object(api, target, &verb_patch, body, done, ctx);
}

/* Left out when there is none. */
static void
set_text(json_t *object, const char *key, const char *text)
{
    if (text != NULL) {
        int failed = json_object_set_new(object, key, json_string(text));

        WP_ASSERT(failed == 0);
    }
}

void
wp_api_delete(struct wp_api *api, const struct wp_api_target *target,
              const struct wp_api_delete *how, wp_api_done *done, void *ctx)
{
    json_t *body = json_object();

    WP_ASSERT(body != NULL);
    set_text(body, "apiVersion", "v1");
    set_text(body, "kind", "DeleteOptions");
    set_text(body, "propagationPolicy",
             how->foreground ? "Foreground" : "Background");
    if (how->uid != NULL || how->resource_version != NULL) {
        json_t *preconditions = json_object();

        set_text(preconditions, "uid", how->uid);
        set_text(preconditions, "resourceVersion", how->resource_version);
        if (json_object_set_new(body, "preconditions", preconditions) != 0) {
            /* Without them it would be another deed. */
            json_decref(body);
            body = NULL;
        }
    }
    send_to_object(api, target, &verb_delete, body, done, ctx);
}

/* --- Lists and watches. */

static void
add_text_param(struct wp_url *url, const char *key, const char *text)
{
    if (text != NULL) {
        wp_url_param(url, key, wp_str_from(text));
    }
}

void
wp_api_list(struct wp_api *api, const struct wp_api_target *target,
            const struct wp_api_query *query, wp_api_done *done, void *ctx)
{
    char path[WP_HTTP_PATH_MAX];
    struct wp_url url;

    wp_url_begin(&url, path, sizeof path);
    add_collection(&url, target);
    add_text_param(&url, "labelSelector", query->label_selector);
    add_text_param(&url, "fieldSelector", query->field_selector);
    if (query->limit > 0) {
        wp_url_param_u64(&url, "limit", query->limit);
    }
    if (query->cont != NULL) {
        /* A page's token says its version; both together are refused. */
        add_text_param(&url, "continue", query->cont);
    } else if (query->resource_version != NULL) {
        add_text_param(&url, "resourceVersion", query->resource_version);
        add_text_param(&url, "resourceVersionMatch", "NotOlderThan");
    }
    (void)!wp_url_end(&url);
    send_request(api, target, &verb_list, path, NULL,
                 (struct call){done, ctx, target->kind});
}

bool
wp_api_watch_path(const struct wp_api_target *target,
                  const struct wp_api_query *query, char out[WP_HTTP_PATH_MAX])
{
    struct wp_url url;

    wp_url_begin(&url, out, WP_HTTP_PATH_MAX);
    add_collection(&url, target);
    add_text_param(&url, "watch", "true");
    add_text_param(&url, "allowWatchBookmarks", "true");
    add_text_param(&url, "labelSelector", query->label_selector);
    add_text_param(&url, "fieldSelector", query->field_selector);
    add_text_param(&url, "resourceVersion", query->resource_version);
    if (query->timeout_s > 0) {
        wp_url_param_u64(&url, "timeoutSeconds", query->timeout_s);
    }
    return wp_url_end(&url);
}
