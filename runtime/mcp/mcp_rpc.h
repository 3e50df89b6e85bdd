/* runtime/mcp/mcp_rpc.h - the Model Context Protocol as JSON-RPC, apart from
 * HTTP.
 *
 * Revisions 2025-11-25, 2025-06-18, 2025-03-26 and 2024-11-05: initialize,
 * ping, tools/list, tools/call with progress and cancellation,
 * logging/setLevel (nothing is ever logged), and empty lists of prompts and
 * resources. Knows no socket and runs no tool, so that it can be tested and
 * fuzzed alone. Loop thread only. */
#ifndef WP_RUNTIME_MCP_MCP_RPC_H
#define WP_RUNTIME_MCP_MCP_RPC_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
    void (*call)(void *app, const char *name, json_t *args,
                 wp_mcp_tool_done done, void *user);
    void *app;
};

struct wp_mcp_reply {
    int http_status;  /* 200, 202 (body NULL) or 400. */
    json_t *body;     /* Given. */
    bool initialized; /* A session may begin. */
};

/* Who sent an HTTP body. */
struct wp_mcp_peer {
    bool batch_allowed;
    /* Called once, perhaps from inside wp_mcp_rpc_handle(). */
    void (*reply)(void *user, const struct wp_mcp_reply *reply);
    /* Optional: the answer to the request of that id is not wanted any more. */
    void (*cancelled)(void *user, const json_t *id);
    void *user;
};

/* An HTTP body that is owed answers. */
struct wp_mcp_exchange;

/* Answers one HTTP body. A batch longer than WP_MCP_BATCH_MAX, or one when
 * !batch_allowed, is refused. peer is copied. NULL: reply() was called. Else
 * the exchange, which is valid until reply(). */
struct wp_mcp_exchange *wp_mcp_rpc_handle(const struct wp_mcp_tools *tools,
                                          const char *text, size_t len,
                                          const struct wp_mcp_peer *peer);

/* Gives a notification for each call under way that has asked for progress;
 * emit() takes message. Returns how many there were. */
unsigned wp_mcp_exchange_progress(const struct wp_mcp_exchange *exchange,
                                  int64_t elapsed_ms,
                                  void (*emit)(void *user, json_t *message),
                                  void *user);

/* The call of that id is not to be answered: its tool goes on, and what it says
 * is dropped. May call reply(), with 202 when nothing else was owed. False: no
 * such call is under way. */
bool wp_mcp_exchange_cancel(struct wp_mcp_exchange *exchange, const json_t *id);

/* Whether a revision is spoken here; and whether it knows batches. */
bool wp_mcp_version_known(const char *version);
bool wp_mcp_version_has_batch(const char *version);

/* {"jsonrpc":"2.0","id":id,"error":{...}}; id is borrowed, NULL means null. */
json_t *wp_mcp_error(json_t *id, int code, const char *message);
/* {"content":[{"type":"text","text":...}]} and isError; takes text. NULL on no
 * memory. */
json_t *wp_mcp_text_result(json_t *text, bool is_error);

#endif
