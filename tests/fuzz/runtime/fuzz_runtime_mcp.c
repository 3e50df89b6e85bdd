/* MCP messages: every input is answered once, with JSON or with nothing. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "runtime/mcp/mcp_args.h"
#include "runtime/mcp/mcp_rpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the real tools take, one of each kind. */
static const struct wp_mcp_arg taken[] = {
    {"command", WP_MCP_ARG_STRING, "", true},
    {"content", WP_MCP_ARG_CONTENT, "", false},
    {"timeout_ms", WP_MCP_ARG_WHOLE, "", false},
    {NULL, WP_MCP_ARG_STRING, NULL, false},
};

/* A call that is answered when the input has been looked at. */
static struct later {
    wp_mcp_tool_done done;
    void *user;
} later[WP_MCP_BATCH_MAX];
static size_t n_later;

/* Arguments are looked at by a tool that needs no sandbox. */
static void
on_call(void *app, const char *name, json_t *args, wp_mcp_tool_done done,
        void *user)
{
    struct wp_err err;

    (void)app;
    if (name[0] == 'x') {
        done(user, NULL, WP_MCP_INVALID_PARAMS, name);
    } else if (name[0] == 'l') {
        later[n_later++] = (struct later){done, user};
    } else if (wp_mcp_args_check(taken, args, &err) != WP_OK) {
        WP_ASSERT(strncmp(err.msg, "arguments.", 10) == 0);
        done(user, NULL, WP_MCP_INVALID_PARAMS, err.msg);
    } else {
        WP_ASSERT(wp_mcp_arg_whole(args, "timeout_ms") <= 1000000000000);
        WP_ASSERT(wp_mcp_arg_whole(args, "timeout_ms") >= -1000000000000);
        char *text = json_dumps(args, JSON_COMPACT);

        done(user,
             wp_mcp_text_result(json_string(text != NULL ? text : ""), false),
             0, NULL);
        free(text);
    }
}

static void
on_reply(void *user, const struct wp_mcp_reply *reply)
{
    int *replies = user;

    ++*replies;
    WP_ASSERT((reply->http_status == 202) == (reply->body == NULL));
    if (reply->body != NULL) {
        char *text = json_dumps(reply->body, JSON_COMPACT);

        WP_ASSERT(text != NULL);
        free(text);
    }
    json_decref(reply->body);
}

static void
on_cancelled(void *user, const json_t *id)
{
    (void)user;
    WP_ASSERT(id != NULL);
}

static void
on_progress(void *user, json_t *message)
{
    (void)user;
    WP_ASSERT(message != NULL);
    json_decref(message);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_mcp_tools tools = {json_array(), on_call, NULL};
    int replies = 0;
    struct wp_mcp_peer peer = {.batch_allowed = size > 0 && (data[0] & 1) == 0,
                               .reply = on_reply,
                               .cancelled = on_cancelled,
                               .user = &replies};
    json_t *one = json_integer(1);

    n_later = 0;
    if (size > 0) {
        struct wp_mcp_exchange *exchange =
            wp_mcp_rpc_handle(&tools, (const char *)data + 1, size - 1, &peer);

        WP_ASSERT((replies == 1) == (exchange == NULL));
        if (exchange != NULL) {
            (void)wp_mcp_exchange_progress(exchange, 1500, on_progress, NULL);
            (void)wp_mcp_exchange_cancel(exchange, one);
        }
        for (size_t i = 0; i < n_later; i++) {
            later[i].done(later[i].user,
                          wp_mcp_text_result(json_string("late"), false), 0,
                          NULL);
        }
        WP_ASSERT(replies == 1);
    }
    json_decref(one);
    json_decref(tools.list);
    return 0;
}
