#include "runtime/mcp/mcp_rpc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/compiler.h"
#include "proto/formats/json_text.h"

/* Newest first: it is what a client with an unknown revision is offered. */
static const struct {
    const char *name;
    bool batch;
} versions[] = {
    {"2025-06-18", false},
    {"2025-03-26", true},
    {"2024-11-05", true},
};

/* One HTTP body and the answers it is owed. `owed` counts the calls under
 * way, and one more while messages are still being dispatched. */
struct exchange {
    const struct wp_mcp_tools *tools;
    wp_mcp_reply_fn reply;
    void *user;
    json_t *answers; /* An array. */
    bool batch;
    bool initialized;
    bool refused; /* The only message was no request at all. */
    unsigned owed;
};

struct call {
    struct exchange *exchange;
    json_t *id;
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
answer_error(struct exchange *exchange, json_t *id, int code,
             const char *message)
{
    json_array_append_new(exchange->answers, wp_mcp_error(id, code, message));
}

/* Takes result. */
static void
answer_result(struct exchange *exchange, json_t *id, json_t *result)
{
    if (result == NULL) {
        answer_error(exchange, id, WP_MCP_INTERNAL_ERROR, "out of memory");
        return;
    }
    json_array_append_new(exchange->answers,
                          json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id",
                                    id, "result", result));
}

/* Replies once nothing is owed any more. */
static void
exchange_check(struct exchange *exchange)
{
    struct wp_mcp_reply reply = {.initialized = exchange->initialized};

    if (--exchange->owed > 0) {
        return;
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
    exchange->reply(exchange->user, &reply);
    free(exchange);
}

static json_t *
initialize_result(const json_t *params)
{
    const char *asked =
        json_string_value(json_object_get(params, "protocolVersion"));
    const char *version =
        asked != NULL && wp_mcp_version_known(asked) ? asked : versions[0].name;

    return json_pack("{s:s, s:{s:{}}, s:{s:s, s:s}}", "protocolVersion",
                     version, "capabilities", "tools", "serverInfo", "name",
                     WP_MCP_SERVER_NAME, "version", WP_MCP_SERVER_VERSION);
}

static void
on_tool_done(void *user, json_t *payload, int code, const char *message)
{
    struct call *call = user;
    struct exchange *exchange = call->exchange;

    if (code != 0) {
        answer_error(exchange, call->id, code, message);
    } else {
        answer_result(exchange, call->id, payload);
    }
    json_decref(call->id);
    free(call);
    exchange_check(exchange);
}

static void
tools_call(struct exchange *exchange, json_t *id, const json_t *params)
{
    const char *name = json_string_value(json_object_get(params, "name"));
    const json_t *args = json_object_get(params, "arguments");
    struct call *call;

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
    *call = (struct call){exchange, json_incref(id)};
    exchange->owed++;
    exchange->tools->call(exchange->tools->app, name,
                          json_is_object(args) ? args : NULL, on_tool_done,
                          call);
}

static void
request(struct exchange *exchange, json_t *id, const char *method,
        const json_t *params)
{
    if (params != NULL && !json_is_object(params)) {
        answer_error(exchange, id, WP_MCP_INVALID_PARAMS,
                     "params: an object is required");
    } else if (strcmp(method, "initialize") == 0) {
        if (exchange->batch) {
            answer_error(exchange, id, WP_MCP_INVALID_REQUEST,
                         "initialize must not be part of a batch");
            return;
        }
        exchange->initialized = true;
        answer_result(exchange, id, initialize_result(params));
    } else if (strcmp(method, "ping") == 0) {
        answer_result(exchange, id, json_object());
    } else if (strcmp(method, "tools/list") == 0) {
        answer_result(exchange, id,
                      json_pack("{s:O}", "tools", exchange->tools->list));
    } else if (strcmp(method, "tools/call") == 0) {
        tools_call(exchange, id, params);
    } else {
        char text[160];

        snprintf(text, sizeof(text), "method not found: %s", method);
        answer_error(exchange, id, WP_MCP_METHOD_NOT_FOUND, text);
    }
}

static void
refuse(struct exchange *exchange, json_t *id, const char *why)
{
    exchange->refused = !exchange->batch;
    answer_error(exchange, id, WP_MCP_INVALID_REQUEST, why);
}

static void
message(struct exchange *exchange, json_t *msg)
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
    }
    /* Without an id it is a notification, of which none needs an action. */
}

static void
reply_error(wp_mcp_reply_fn reply, void *user, int code, const char *text)
{
    struct wp_mcp_reply answer = {400, wp_mcp_error(NULL, code, text), false};

    reply(user, &answer);
}

void
wp_mcp_rpc_handle(const struct wp_mcp_tools *tools, const char *text,
                  size_t len, bool batch_allowed, wp_mcp_reply_fn reply,
                  void *user)
{
    json_error_t why;
    json_t *root =
        json_loadb(text, len, JSON_ALLOW_NUL | JSON_DECODE_ANY, &why);
    struct exchange *exchange;

    if (root == NULL) {
        char msg[256];

        snprintf(msg, sizeof(msg), "parse error at byte %d: %s", why.position,
                 why.text);
        reply_error(reply, user, WP_MCP_PARSE_ERROR, msg);
        return;
    }
    if (json_is_array(root) && (!batch_allowed || json_array_size(root) == 0 ||
                                json_array_size(root) > WP_MCP_BATCH_MAX)) {
        reply_error(reply, user, WP_MCP_INVALID_REQUEST,
                    !batch_allowed
                        ? "batches are not part of this protocol revision"
                        : "a batch must hold 1 to 64 messages");
        json_decref(root);
        return;
    }
    exchange = calloc(1, sizeof(*exchange));
    if (exchange == NULL) {
        json_decref(root);
        reply_error(reply, user, WP_MCP_INTERNAL_ERROR, "out of memory");
        return;
    }
    exchange->tools = tools;
    exchange->reply = reply;
    exchange->user = user;
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
    exchange_check(exchange);
}
