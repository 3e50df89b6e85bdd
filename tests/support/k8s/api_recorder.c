#include "tests/support/k8s/api_recorder.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/objects/json.h"
#include "pool/base/assert.h"
#include "tests/support/k8s/api_memory.h"

enum {
    CALLS_MAX = 200000,
    FAULTS_MAX = 64,
    ROUNDS_MAX = 100000,
};

struct planned {
    struct wp_recorder_fault fault;
    uint32_t skip;
    uint32_t left;
};

struct wp_api {
    struct wp_recorded **calls;
    uint32_t len;
    uint32_t cap;
    uint32_t first_open;          /* All before it are answered. */
    struct wp_api_memory *memory; /* NULL: by hand only. */
    bool held;
    struct planned faults[FAULTS_MAX];
    uint32_t faults_len;
};

struct wp_api *
wp_recorder_create(void)
{
    struct wp_api *api = calloc(1, sizeof *api);

    WP_ASSERT(api != NULL);
    return api;
}

/* Nobody calls it: tests make a recorder themselves. */
struct wp_api *
wp_api_create(struct wp_http *http)
{
    (void)http;
    return wp_recorder_create();
}

void
wp_api_destroy(struct wp_api *api)
{
    if (api == NULL) {
        return;
    }
    /* A callback may call again: what it asks for is cancelled too. */
    for (uint32_t i = 0; i < api->len; i++) {
        if (!api->calls[i]->answered) {
            wp_recorder_answer(api->calls[i], WP_CANCELLED, NULL);
        }
    }
    for (uint32_t i = 0; i < api->len; i++) {
        json_decref(api->calls[i]->body);
        free(api->calls[i]);
    }
    free(api->calls);
    wp_api_memory_destroy(api->memory);
    free(api);
}

struct wp_http *
wp_api_http(const struct wp_api *api)
{
    (void)api;
    return NULL;
}

bool
wp_api_watch_path(const struct wp_api_target *target,
                  const struct wp_api_query *query, char out[WP_HTTP_PATH_MAX])
{
    (void)target;
    (void)query;
    out[0] = '\0';
    return false;
}

/* --- Recording --- */

static void
keep_text(char *out, size_t cap, const char *text)
{
    int n = snprintf(out, cap, "%s", text != NULL ? text : "");

    WP_ASSERT(n >= 0 && (size_t)n < cap);
}

static struct wp_recorded *
record(struct wp_api *api, enum wp_verb verb,
       const struct wp_api_target *target, wp_api_done *done, void *ctx)
{
    struct wp_recorded *call = calloc(1, sizeof *call);

    WP_ASSERT(call != NULL && api->len < CALLS_MAX);
    if (api->len == api->cap) {
        api->cap = api->cap == 0 ? 64 : api->cap * 2;
        api->calls = realloc(api->calls, api->cap * sizeof(*api->calls));
        WP_ASSERT(api->calls != NULL);
    }
    call->api = api;
    call->verb = verb;
    call->kind = target->kind;
    call->priority = target->priority;
    keep_text(call->ns, sizeof call->ns, target->ns);
    keep_text(call->name, sizeof call->name, target->name);
    keep_text(call->subresource, sizeof call->subresource, target->subresource);
    call->done = done;
    call->ctx = ctx;
    api->calls[api->len] = call;
    api->len++;
    return call;
}

void
wp_api_get(struct wp_api *api, const struct wp_api_target *target,
           wp_api_done *done, void *ctx)
{
    (void)record(api, WP_VERB_GET, target, done, ctx);
}

void
wp_api_post(struct wp_api *api, const struct wp_api_target *target,
            json_t *body, wp_api_done *done, void *ctx)
{
    record(api, WP_VERB_POST, target, done, ctx)->body = body;
}

void
wp_api_check(struct wp_api *api, const struct wp_api_target *target,
             json_t *body, bool strict, wp_api_done *done, void *ctx)
{
    struct wp_recorded *call = record(api, WP_VERB_CHECK, target, done, ctx);

    call->body = body;
    call->strict = strict;
}

void
wp_api_put(struct wp_api *api, const struct wp_api_target *target, json_t *body,
           wp_api_done *done, void *ctx)
{
    record(api, WP_VERB_PUT, target, done, ctx)->body = body;
}

void
wp_api_patch(struct wp_api *api, const struct wp_api_target *target,
             json_t *body, wp_api_done *done, void *ctx)
{
    record(api, WP_VERB_PATCH, target, done, ctx)->body = body;
}

void
wp_api_delete(struct wp_api *api, const struct wp_api_target *target,
              const struct wp_api_delete *how, wp_api_done *done, void *ctx)
{
    struct wp_recorded *call = record(api, WP_VERB_DELETE, target, done, ctx);

    if (how != NULL) {
        keep_text(call->uid, sizeof call->uid, how->uid);
        keep_text(call->resource_version, sizeof call->resource_version,
                  how->resource_version);
        call->foreground = how->foreground;
    }
}

void
wp_api_list(struct wp_api *api, const struct wp_api_target *target,
            const struct wp_api_query *query, wp_api_done *done, void *ctx)
{
    struct wp_recorded *call = record(api, WP_VERB_LIST, target, done, ctx);

    if (query != NULL) {
        keep_text(call->label_selector, sizeof call->label_selector,
                  query->label_selector);
        keep_text(call->cont, sizeof call->cont, query->cont);
        keep_text(call->resource_version, sizeof call->resource_version,
                  query->resource_version);
        call->limit = query->limit;
    }
}

/* --- Looking --- */

static bool
matches(const struct wp_recorded *call, enum wp_verb verb, enum wp_kind kind)
{
    return (verb == WP_VERB_ANY ||
            (verb == WP_VERB_WRITES ? call->verb >= WP_VERB_POST
                                    : call->verb == verb)) &&
           (kind == WP_KIND_COUNT || call->kind == kind);
}

uint32_t
wp_recorder_calls(const struct wp_api *api)
{
    return api->len;
}

struct wp_recorded *
wp_recorder_call(const struct wp_api *api, uint32_t i)
{
    WP_ASSERT(i < api->len);
    return api->calls[i];
}

uint32_t
wp_recorder_count(const struct wp_api *api, enum wp_verb verb,
                  enum wp_kind kind)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < api->len; i++) {
        count += matches(api->calls[i], verb, kind) ? 1 : 0;
    }
    return count;
}

struct wp_recorded *
wp_recorder_open(const struct wp_api *api, enum wp_verb verb, enum wp_kind kind)
{
    for (uint32_t i = 0; i < api->len; i++) {
        if (!api->calls[i]->answered && matches(api->calls[i], verb, kind)) {
            return api->calls[i];
        }
    }
    return NULL;
}

struct wp_recorded *
wp_recorder_last(const struct wp_api *api, enum wp_verb verb, enum wp_kind kind)
{
    for (uint32_t i = api->len; i > 0; i--) {
        if (matches(api->calls[i - 1], verb, kind)) {
            return api->calls[i - 1];
        }
    }
    return NULL;
}

const char *
wp_recorded_text(const struct wp_recorded *call, const char *key, ...)
{
    const json_t *at = call->body;
    va_list keys;

    va_start(keys, key);
    for (; key != NULL && at != NULL; key = va_arg(keys, const char *)) {
        at = json_object_get(at, key);
    }
    va_end(keys);
    return json_is_string(at) ? json_string_value(at) : "";
}

/* --- Answers --- */

static int
code_of(enum wp_status status)
{
    static const struct {
        enum wp_status status;
        int code;
    } codes[] = {
        {WP_OK, 200},
        {WP_NOT_FOUND, 404},
        {WP_ALREADY_EXISTS, 409},
        {WP_ABORTED, 409},
        {WP_INVALID_ARGUMENT, 422},
        {WP_PERMISSION_DENIED, 403},
        {WP_UNAUTHENTICATED, 401},
        {WP_DEADLINE_EXCEEDED, 410},
        {WP_RESOURCE_EXHAUSTED, 429},
        {WP_UNAVAILABLE, 503},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(codes); i++) {
        if (codes[i].status == status) {
            return codes[i].code;
        }
    }
    return 0; /* No answer. */
}

void
wp_recorder_answer_full(struct wp_recorded *call,
                        const struct wp_api_result *result)
{
    struct wp_api_result told = *result;

    WP_ASSERT(!call->answered);
    call->answered = true;
    told.kind = call->kind;
    if (call->done != NULL) {
        call->done(call->ctx, &told);
    }
}

void
wp_recorder_answer(struct wp_recorded *call, enum wp_status status,
                   json_t *object)
{
    const struct wp_api_result result = {
        .status = status,
        .code = code_of(status),
        .object = object,
        .message = status == WP_OK ? "" : wp_status_text(status),
        .retry_after_ns = -1,
    };

    wp_recorder_answer_full(call, &result);
}

/* --- Faults --- */

void
wp_recorder_plan(struct wp_api *api, const struct wp_recorder_fault *fault)
{
    WP_ASSERT(api->faults_len < FAULTS_MAX);
    api->faults[api->faults_len] = (struct planned){
        *fault, fault->skip, fault->times == 0 ? 1 : fault->times};
    api->faults_len++;
}

uint32_t
wp_recorder_planned(const struct wp_api *api)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < api->faults_len; i++) {
        count += api->faults[i].left;
    }
    return count;
}

/* The fault this call meets; NULL: none. */
static const struct wp_recorder_fault *
take_fault(struct wp_api *api, const struct wp_recorded *call)
{
    for (uint32_t i = 0; i < api->faults_len; i++) {
        struct planned *planned = &api->faults[i];
        const struct wp_recorder_fault *fault = &planned->fault;

        if (planned->left == 0 || !matches(call, fault->verb, fault->kind) ||
            (fault->name != NULL && strcmp(fault->name, call->name) != 0) ||
            (fault->subresource != NULL &&
             strcmp(fault->subresource, call->subresource) != 0)) {
            continue;
        }
        if (planned->skip > 0) {
            planned->skip--;
            continue;
        }
        planned->left--;
        return fault;
    }
    return NULL;
}

/* --- The server's turn --- */

void
wp_recorder_serve(struct wp_api *api)
{
    WP_ASSERT(api->memory == NULL);
    api->memory = wp_api_memory_create();
}

static enum wp_status
carry_out(struct wp_api *api, const struct wp_recorded *call, json_t **object)
{
    struct wp_api_memory *memory = api->memory;

    switch (call->verb) {
    case WP_VERB_GET:
        return wp_api_memory_get(memory, call, object);
    case WP_VERB_LIST:
        return wp_api_memory_list(memory, call, object);
    case WP_VERB_CHECK:
        *object = json_incref(call->body);
        return WP_OK;
    case WP_VERB_POST:
        return wp_api_memory_post(memory, call, object);
    case WP_VERB_PUT:
    case WP_VERB_PATCH:
        return wp_api_memory_change(memory, call, object);
    case WP_VERB_DELETE:
        return wp_api_memory_delete(memory, call, object);
    case WP_VERB_WRITES:
    case WP_VERB_ANY:
        break;
    }
    return WP_INTERNAL;
}

bool
wp_recorder_step(struct wp_api *api)
{
    const struct wp_recorder_fault *fault;
    struct wp_recorded *call;
    struct wp_api_result result = {.retry_after_ns = -1};
    json_t *object = NULL;

    WP_ASSERT(api->memory != NULL);
    while (api->first_open < api->len &&
           api->calls[api->first_open]->answered) {
        api->first_open++;
    }
    if (api->first_open == api->len) {
        return false;
    }
    call = api->calls[api->first_open];
    fault = take_fault(api, call);
    result.status = WP_OK;
    if (fault == NULL || fault->effect) {
        result.status = carry_out(api, call, &object);
    }
    if (fault != NULL) {
        json_decref(object);
        object = json_incref(fault->object); /* NULL stays NULL. */
        result.status = fault->status;
        result.retry_after_ns =
            fault->retry_after_ns > 0 ? fault->retry_after_ns : -1;
    }
    result.code = code_of(result.status);
    result.object = object;
    result.message =
        result.status == WP_OK ? "" : wp_status_text(result.status);
    if (fault != NULL) {
        result.namespace_leaves = fault->namespace_leaves;
        result.code = fault->code != 0 ? fault->code : result.code;
        result.message =
            fault->message != NULL ? fault->message : result.message;
    }
    wp_recorder_answer_full(call, &result);
    json_decref(object);
    return true;
}

void
wp_recorder_notify(struct wp_api *api)
{
    if (api->memory != NULL && !api->held) {
        wp_api_memory_notify(api->memory);
    }
}

void
wp_recorder_hold(struct wp_api *api, bool held)
{
    api->held = held;
    wp_recorder_notify(api);
}

uint32_t
wp_recorder_run(struct wp_api *api)
{
    uint32_t count = 0;

    wp_recorder_notify(api);
    while (wp_recorder_step(api)) {
        wp_recorder_notify(api);
        count++;
        WP_ASSERT(count < ROUNDS_MAX);
    }
    return count;
}

struct wp_api_memory *
wp_recorder_memory(const struct wp_api *api)
{
    WP_ASSERT(api->memory != NULL);
    return api->memory;
}
