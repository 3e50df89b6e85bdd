#include "runtime/mcp/mcp_rpc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/compiler.h"
#include "pool/base/list.h"
#include "proto/formats/json_text.h"

/* Newest first: it is what a client with an unknown revision is offered. */
static const struct {
    const char *name;
    bool batch;
} versions[] = {
    {"2025-11-25", false},
    {"2025-06-18", false},
    {"2025-03-26", true},
    {"2024-11-05", true},
};

/* One HTTP body and the answers it is owed. `owed` counts the calls under
 * way, and one more while messages are still being dispatched. */
struct wp_mcp_exchange {
    const struct wp_mcp_tools *tools;
    struct wp_mcp_peer peer;
    struct wp_list calls; /* Under way, and wanted. */
    json_t *answers;      /* An array. */
    bool batch;
    bool initialized;
    bool refused; /* The only message was no request at all. */
    unsigned owed;
};

struct call {
    struct wp_list link;
    struct wp_mcp_exchange *exchange; /* NULL: cancelled. */
    json_t *id;
    json_t *progress_token; /* NULL: no progress is asked for. */
};

bool
wp_mcp_version_known(const char *version)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(versions); i++) {
        if (strcmp(version, versions[i].name) == 0) {
            return true;
        }
    }
    return false;
}

bool
wp_mcp_version_has_batch(const char *version)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(versions); i++) {
        if (strcmp(version, versions[i].name) == 0) {
            return versions[i].batch;
        }
    }
    return false;
}

json_t *
wp_mcp_error(json_t *id, int code, const char *message)
{
    return json_pack("{s:s, s:O?, s:{s:i, s:o}}", "jsonrpc", "2.0", "id",
                     id != NULL ? id : json_null(), "error", "code", code,
                     "message", wp_json_from_text(message));
}

json_t *
wp_mcp_text_result(json_t *text, bool is_error)
{
    if (text == NULL) {
        return NULL;
    }
    return is_error ? json_pack("{s:[{s:s, s:o}], s:b}", "content", "type",
                                "text", "text", text, "isError", 1)
                    : json_pack("{s:[{s:s, s:o}]}", "content", "type", "text",
                                "text", text);
}

static void
answer_error(struct wp_mcp_exchange *exchange, json_t *id, int code,
             const char *message)
{
    json_array_append_new(exchange->answers, wp_mcp_error(id, code, message));
}

/* Takes result. */
static void
answer_result(struct wp_mcp_exchange *exchange, json_t *id, json_t *result)
{
    if (result == NULL) {
        answer_error(exchange, id, WP_MCP_INTERNAL_ERROR, "out of memory");
        return;
    }
    json_array_append_new(exchange->answers,
                          json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id",
                                    id, "result", result));
}

/* Replies once nothing is owed any more; true when it did. */
static bool
exchange_check(struct wp_mcp_exchange *exchange)
{
    struct wp_mcp_reply reply = {.initialized = exchange->initialized};

    if (--exchange->owed > 0) {
        return false;
    }
    if (json_array_size(exchange->answers) == 0) {
        reply.http_status = 202;
    } else {
        reply.http_status = exchange->refused ? 400 : 200;
        reply.body = exchange->batch
                         ? json_incref(exchange->answers)
                         : json_incref(json_array_get(exchange->answers, 0));
    }
    json_decref(exchange->answers);
    exchange->peer.reply(exchange->peer.user, &reply);
    free(exchange);
    return true;
}

static void
on_tool_done(void *user, json_t *payload, int code, const char *message)
{
    struct call *call = user;
    struct wp_mcp_exchange *exchange = call->exchange;

    if (exchange == NULL) {
        json_decref(payload);
    } else if (code != 0) {
        answer_error(exchange, call->id, code, message);
    } else {
        answer_result(exchange, call->id, payload);
    }
    wp_list_remove(&call->link);
    json_decref(call->id);
    json_decref(call->progress_token);
    free(call);
    if (exchange != NULL) {
        (void)exchange_check(exchange);
    }
}

unsigned
wp_mcp_exchange_progress(const struct wp_mcp_exchange *exchange,
                         int64_t elapsed_ms,
                         void (*emit)(void *user, json_t *message), void *user)
{
    double seconds = (double)elapsed_ms / 1000;
    unsigned count = 0;

    WP_LIST_FOREACH (node, &exchange->calls) {
        const struct call *call = WP_CONTAINER_OF(node, struct call, link);
        char text[64];

        if (call->progress_token == NULL) {
            continue;
        }
        snprintf(text, sizeof(text), "running for %.0f s", seconds);
        emit(user, json_pack("{s:s, s:s, s:{s:O, s:f, s:s}}", "jsonrpc", "2.0",
                             "method", "notifications/progress", "params",
                             "progressToken", call->progress_token, "progress",
                             seconds, "message", text));
        count++;
    }
    return count;
}

bool
wp_mcp_exchange_cancel(struct wp_mcp_exchange *exchange, const json_t *id)
{
    WP_LIST_FOREACH (node, &exchange->calls) {
        struct call *call = WP_CONTAINER_OF(node, struct call, link);

        if (json_equal(call->id, id)) {
            call->exchange = NULL;
            wp_list_remove(&call->link);
            (void)exchange_check(exchange);
            return true;
        }
    }
    return false;
}

/* -------------------------------------------------------------- requests */

static void
initialize(struct wp_mcp_exchange *exchange, json_t *id, const json_t *params)
{
    const char *asked =
        json_string_value(json_object_get(params, "protocolVersion"));
    const char *version =
        asked != NULL && wp_mcp_version_known(asked) ? asked : versions[0].name;

    if (exchange->batch) {
        answer_error(exchange, id, WP_MCP_INVALID_REQUEST,
                     "initialize must not be part of a batch");
        return;
    }
    exchange->initialized = true;
    answer_result(exchange, id,
                  json_pack("{s:s, s:{s:{}, s:{s:b}}, s:{s:s, s:s}}",
                            "protocolVersion", version, "capabilities",
                            "logging", "tools", "listChanged", 1, "serverInfo",
                            "name", WP_MCP_SERVER_NAME, "version",
                            WP_MCP_SERVER_VERSION));
}

static void
nothing(struct wp_mcp_exchange *exchange, json_t *id, const json_t *params)
{
    (void)params;
    answer_result(exchange, id, json_object());
}

static void
tools_list(struct wp_mcp_exchange *exchange, json_t *id, const json_t *params)
{
    (void)params;
    answer_result(exchange, id,
                  json_pack("{s:O}", "tools", exchange->tools->list));
}

static void
prompts_list(struct wp_mcp_exchange *exchange, json_t *id, const json_t *params)
{
    (void)params;
    answer_result(exchange, id, json_pack("{s:[]}", "prompts"));
}

static void
resources_list(struct wp_mcp_exchange *exchange, json_t *id,
               const json_t *params)
{
    (void)params;
    answer_result(exchange, id, json_pack("{s:[]}", "resources"));
}

static void
templates_list(struct wp_mcp_exchange *exchange, json_t *id,
               const json_t *params)
{
    (void)params;
    answer_result(exchange, id, json_pack("{s:[]}", "resourceTemplates"));
}

static void
tools_call(struct wp_mcp_exchange *exchange, json_t *id, const json_t *params)
{
    const char *name = json_string_value(json_object_get(params, "name"));
    json_t *args = json_object_get(params, "arguments");
    struct call *call;
    json_t *token;

    if (name == NULL) {
        answer_error(exchange, id, WP_MCP_INVALID_PARAMS,
                     "params.name: the name of a tool is required");
        return;
    }
    if (args != NULL && !json_is_object(args) && !json_is_null(args)) {
        answer_error(exchange, id, WP_MCP_INVALID_PARAMS,
                     "params.arguments: an object is required");
        return;
    }
    call = malloc(sizeof(*call));
    if (call == NULL) {
        answer_result(exchange, id, NULL);
        return;
    }
    token = json_object_get(json_object_get(params, "_meta"), "progressToken");
    if (!json_is_string(token) && !json_is_integer(token)) {
        token = NULL;
    }
    *call = (struct call){.exchange = exchange,
                          .id = json_incref(id),
                          .progress_token = json_incref(token)};
    wp_list_push_back(&exchange->calls, &call->link);
    exchange->owed++;
    exchange->tools->call(exchange->tools->app, name,
                          json_is_object(args) ? args : NULL, on_tool_done,
                          call);
}

static const struct {
    const char *name;
    void (*run)(struct wp_mcp_exchange *exchange, json_t *id,
                const json_t *params);
} methods[] = {
    {"tools/call", tools_call},
    {"tools/list", tools_list},
    {"initialize", initialize},
    {"ping", nothing},
    {"logging/setLevel", nothing},
    {"prompts/list", prompts_list},
    {"resources/list", resources_list},
    {"resources/templates/list", templates_list},
};

static void
request(struct wp_mcp_exchange *exchange, json_t *id, const char *method,
        const json_t *params)
{
    char text[160];

    if (params != NULL && !json_is_object(params)) {
        answer_error(exchange, id, WP_MCP_INVALID_PARAMS,
                     "params: an object is required");
        return;
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(methods); i++) {
        if (strcmp(method, methods[i].name) == 0) {
            methods[i].run(exchange, id, params);
            return;
        }
    }
    snprintf(text, sizeof(text), "method not found: %s", method);
    answer_error(exchange, id, WP_MCP_METHOD_NOT_FOUND, text);
}

/* Of all notifications only one asks for an action. */
static void
notification(struct wp_mcp_exchange *exchange, const char *method,
             const json_t *params)
{
    const json_t *id = json_object_get(params, "requestId");

    if (strcmp(method, "notifications/cancelled") == 0 && id != NULL &&
        exchange->peer.cancelled != NULL) {
        exchange->peer.cancelled(exchange->peer.user, id);
    }
}

static void
refuse(struct wp_mcp_exchange *exchange, json_t *id, const char *why)
{
    exchange->refused = !exchange->batch;
    answer_error(exchange, id, WP_MCP_INVALID_REQUEST, why);
}

static void
message(struct wp_mcp_exchange *exchange, json_t *msg)
{
    json_t *id = json_object_get(msg, "id");
    const char *version = json_string_value(json_object_get(msg, "jsonrpc"));
    const json_t *method = json_object_get(msg, "method");
    bool id_good = json_is_string(id) || json_is_integer(id);

    if (!json_is_object(msg)) {
        refuse(exchange, NULL, "a message must be an object");
    } else if (version == NULL || strcmp(version, "2.0") != 0) {
        refuse(exchange, id_good ? id : NULL, "jsonrpc: must be \"2.0\"");
    } else if (id != NULL && !id_good) {
        refuse(exchange, NULL, "id: must be a string or a whole number");
    } else if (method == NULL && id != NULL &&
               (json_object_get(msg, "result") != NULL ||
                json_object_get(msg, "error") != NULL)) {
        return; /* An answer, though we never ask: accepted, as by the spec. */
    } else if (!json_is_string(method)) {
        refuse(exchange, id, "method: a string is required");
    } else if (id != NULL) {
        request(exchange, id, json_string_value(method),
                json_object_get(msg, "params"));
    } else {
        notification(exchange, json_string_value(method),
                     json_object_get(msg, "params"));
    }
}

static void
reply_error(const struct wp_mcp_peer *peer, int code, const char *text)
{
    struct wp_mcp_reply answer = {400, wp_mcp_error(NULL, code, text), false};

    peer->reply(peer->user, &answer);
}

/* The messages of an HTTP body; NULL when it was refused. */
static json_t *
body_parse(const char *text, size_t len, const struct wp_mcp_peer *peer)
{
    json_error_t why;
    json_t *root =
        json_loadb(text, len, JSON_ALLOW_NUL | JSON_DECODE_ANY, &why);

    if (root == NULL) {
        char msg[256];

        snprintf(msg, sizeof(msg), "parse error at byte %d: %s", why.position,
                 why.text);
        reply_error(peer, WP_MCP_PARSE_ERROR, msg);
    } else if (json_is_array(root) &&
               (!peer->batch_allowed || json_array_size(root) == 0 ||
                json_array_size(root) > WP_MCP_BATCH_MAX)) {
        reply_error(peer, WP_MCP_INVALID_REQUEST,
                    !peer->batch_allowed
                        ? "batches are not part of this protocol revision"
                        : "a batch must hold 1 to 64 messages");
        json_decref(root);
        root = NULL;
    }
    return root;
}

struct wp_mcp_exchange *
wp_mcp_rpc_handle(const struct wp_mcp_tools *tools, const char *text,
                  size_t len, const struct wp_mcp_peer *peer)
{
    json_t *root = body_parse(text, len, peer);
    struct wp_mcp_exchange *exchange;

    if (root == NULL) {
        return NULL;
    }
    exchange = calloc(1, sizeof(*exchange));
    if (exchange == NULL) {
        json_decref(root);
        reply_error(peer, WP_MCP_INTERNAL_ERROR, "out of memory");
        return NULL;
    }
    exchange->tools = tools;
    exchange->peer = *peer;
    wp_list_init(&exchange->calls);
    exchange->answers = json_array();
    exchange->batch = json_is_array(root);
    exchange->owed = 1;
    if (exchange->batch) {
        for (size_t i = 0; i < json_array_size(root); i++) {
            message(exchange, json_array_get(root, i));
        }
    } else {
        message(exchange, root);
    }
    json_decref(root);
    return exchange_check(exchange) ? NULL : exchange;
}
