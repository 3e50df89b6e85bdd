/* MCP messages: every input is answered once, with JSON or with nothing. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "pool/base/assert.h"
#include "runtime/mcp/mcp_rpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Arguments are looked at by a tool that needs no sandbox. */
static void
on_call(void *app, const char *name, const json_t *args, wp_mcp_tool_done done,
        void *user)
{
    (void)app;
    if (name[0] == 'x') {
        done(user, NULL, WP_MCP_INVALID_PARAMS, name);
    } else {
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

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_mcp_tools tools = {json_array(), on_call, NULL};
    int replies = 0;

    if (size > 0) {
        wp_mcp_rpc_handle(&tools, (const char *)data + 1, size - 1,
                          (data[0] & 1) == 0, on_reply, &replies);
        WP_ASSERT(replies == 1);
    }
    json_decref(tools.list);
    return 0;
}
