/* runtime/mcp/mcp_answer.h - a tool's way to its answer. */
#ifndef WP_RUNTIME_MCP_MCP_ANSWER_H
#define WP_RUNTIME_MCP_MCP_ANSWER_H

#include "runtime/mcp/mcp_rpc.h"

/* Small, and copied by who answers later. One of the functions below is to be
 * called, once. */
struct wp_mcp_answer {
    wp_mcp_tool_done done;
    void *user;
};

/* Takes text. NULL becomes an internal error. */
void wp_mcp_answer_text(const struct wp_mcp_answer *answer, json_t *text);
/* The tool has failed: isError, with this text. */
void wp_mcp_answer_failure(const struct wp_mcp_answer *answer,
                           const char *text);
/* The text is itself JSON. Takes value; NULL becomes an internal error. */
void wp_mcp_answer_json(const struct wp_mcp_answer *answer, json_t *value);

#endif
