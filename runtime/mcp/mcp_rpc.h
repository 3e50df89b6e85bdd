/* runtime/mcp/mcp_rpc.h - the Model Context Protocol as JSON-RPC, apart from
 * HTTP.
 *
 * Revisions 2025-06-18, 2025-03-26 and 2024-11-05: initialize, ping,
 * tools/list, tools/call, notifications. Knows no socket and runs no tool, so
 * that it can be tested and fuzzed alone. Loop thread only. */
#ifndef WP_RUNTIME_MCP_MCP_RPC_H
#define WP_RUNTIME_MCP_MCP_RPC_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define WP_MCP_SERVER_NAME "kagent-sandbox-mcp"
#define WP_MCP_SERVER_VERSION "0.1.0"

enum {
    WP_MCP_PARSE_ERROR = -32700,
    WP_MCP_INVALID_REQUEST = -32600,
    WP_MCP_METHOD_NOT_FOUND = -32601,
    WP_MCP_INVALID_PARAMS = -32602,
    WP_MCP_INTERNAL_ERROR = -32603,
    WP_MCP_BATCH_MAX = 64,
};

/* A tool's outcome. Takes payload: a CallToolResult, or, when code is not 0,
 * NULL, with a borrowed message. */
typedef void (*wp_mcp_tool_done)(void *user, json_t *payload, int code,
                                 const char *message);

struct wp_mcp_tools {
    json_t *list; /* The array that tools/list shows. Owned by the user. */
    /* Runs a tool; args is borrowed and is an object or NULL. done is called
     * once, from inside this call or later from the loop. */
    void (*call)(void *app, const char *name, const json_t *args,
                 wp_mcp_tool_done done, void *user);
    void *app;
};

struct wp_mcp_reply {
    int http_status;  /* 200, 202 (body NULL) or 400. */
    json_t *body;     /* Given. */
    bool initialized; /* A session may begin. */
};
typedef void (*wp_mcp_reply_fn)(void *user, const struct wp_mcp_reply *reply);

/* Answers one HTTP body. reply is called once, perhaps from inside. A batch
 * longer than WP_MCP_BATCH_MAX, or one when !batch_allowed, is refused. */
void wp_mcp_rpc_handle(const struct wp_mcp_tools *tools, const char *text,
                       size_t len, bool batch_allowed, wp_mcp_reply_fn reply,
                       void *user);

/* Whether a revision is spoken here; and whether it knows batches. */
bool wp_mcp_version_known(const char *version);
bool wp_mcp_version_has_batch(const char *version);

/* {"jsonrpc":"2.0","id":id,"error":{...}}; id is borrowed, NULL means null. */
json_t *wp_mcp_error(json_t *id, int code, const char *message);
/* {"content":[{"type":"text","text":...}]} and isError; takes text. NULL on no
 * memory. */
json_t *wp_mcp_text_result(json_t *text, bool is_error);

#endif
