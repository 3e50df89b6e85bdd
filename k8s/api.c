#include "k8s/api.h"

#include <stdio.h>
#include <stdlib.h>

#include "k8s/url.h"
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

/* --- What an answer means. */

/* What is not named here is decided by its class. 409 depends on the reason. */
static const struct {
    int code;
    enum wp_status status;
} codes[] = {
    {401, WP_UNAUTHENTICATED},   {403, WP_PERMISSION_DENIED},
    {404, WP_NOT_FOUND},         {409, WP_ABORTED},
    {410, WP_DEADLINE_EXCEEDED}, {429, WP_RESOURCE_EXHAUSTED},
    {503, WP_UNAVAILABLE},
};

static enum wp_status
status_of(int code, const char *reason)
{
    if (code >= 200 && code < 300) {
        return WP_OK;
    }
    if (code == 409 && strcmp(reason, "AlreadyExists") == 0) {
        return WP_ALREADY_EXISTS;
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(codes); i++) {
        if (codes[i].code == code) {
            return codes[i].status;
        }
    }
    return code >= 500 ? WP_UNKNOWN_OUTCOME : WP_INVALID_ARGUMENT;
}

static const char *
text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

/* Fills what a metav1.Status says; others leave it as it is. */
static void
read_refusal(struct wp_api_result *result, const json_t *object, char *words,
             size_t words_size)
{
    const char *message = text_of(object, "message");
    json_t *seconds = json_object_get(json_object_get(object, "details"),
                                      "retryAfterSeconds");
    json_int_t retry_s = json_integer_value(seconds);

    result->status = status_of(result->code, text_of(object, "reason"));
    if (message[0] != '\0') {
        result->message = message;
    } else {
        (void)snprintf(words, words_size, "the API server answered %d",
                       result->code);
        result->message = words;
    }
    if (result->retry_after_ns < 0 && retry_s > 0 && retry_s <= 86400) {
        result->retry_after_ns = (int64_t)retry_s * WP_NS_PER_S;
    }
}

static void
on_answer(void *ctx, const struct wp_http_answer *answer)
{
    struct call *call = ctx;
    struct wp_api_result result = {.status = answer->status,
                                   .code = answer->code,
                                   .message = answer->error,
                                   .retry_after_ns = answer->retry_after_ns};
    json_t *object = NULL;
    json_error_t error;
    char words[80];

    /* A text with a NUL in one object is no reason to lose a whole list. */
    if (answer->status == WP_OK && answer->body.len > 0) {
        object = json_loadb(answer->body.ptr, answer->body.len, JSON_ALLOW_NUL,
                            &error);
    }
    if (answer->status != WP_OK) {
        /* message says why. */
    } else if (answer->code < 200 || answer->code >= 300) {
        read_refusal(&result, object, words, sizeof words);
    } else if (answer->body.len > 0 && !json_is_object(object)) {
        result.status = WP_UNKNOWN_OUTCOME;
        result.message = "the API server's answer is no JSON object";
    }
    result.object = json_is_object(object) ? object : NULL;
    call->done(call->ctx, &result);
    json_decref(object);
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
             wp_api_done *done, void *ctx)
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
    if (done != NULL) {
        struct call *call = malloc(sizeof *call);

        WP_ASSERT(call != NULL);
        *call = (struct call){done, ctx};
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
/* JSON is YAML. */
static const struct verb verb_apply = {"PATCH", "application/apply-patch+yaml",
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
    if (verb == &verb_apply) {
        wp_url_param(&url, "fieldManager", WP_STR("warmpool"));
        wp_url_param(&url, "force", WP_STR("true"));
    }
    (void)!wp_url_end(&url);
    send_request(api, target, verb, path, body, done, ctx);
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
    send_request(api, target, &verb_post, path, body, done, ctx);
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

void
wp_api_apply(struct wp_api *api, const struct wp_api_target *target,
             json_t *body, wp_api_done *done, void *ctx)
{
    send_to_object(api, target, &verb_apply, body, done, ctx);
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
    send_request(api, target, &verb_list, path, NULL, done, ctx);
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
