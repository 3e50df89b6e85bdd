/* runtime/mcp/mcp.h - MCP over Streamable HTTP: the transport of mcp_rpc.h.
 *
 * POST takes one message, or a batch in revisions that have them. It answers
 * with a stream of events when the client names text/event-stream as one it
 * accepts, else with application/json. A stream can be taken up again by GET
 * (mcp_stream.h). initialize gives out an Mcp-Session-Id; DELETE ends it. A
 * request with an unknown session is 404, so the client starts anew; one
 * without is served all the same. Loop thread only. */
#ifndef WP_RUNTIME_MCP_MCP_H
#define WP_RUNTIME_MCP_MCP_H

#include "runtime/mcp/mcp_rpc.h"
#include "runtime/mcp/mcp_sessions.h"
#include "runtime/mcp/mcp_stream.h"

struct wp_mcp {
    struct wp_mcp_tools tools;
    struct wp_mcp_sessions sessions;
    struct wp_mcp_streams streams;
};

struct wp_runtime;
/* Reads the skills and fixes the list of tools. NULL on no memory. The
 * runtime's event base is borrowed until destroy. */
struct wp_mcp *wp_mcp_create(struct wp_runtime *runtime);
/* Ends what would stay open for ever: the server is to stop. */
void wp_mcp_drain(struct wp_mcp *mcp);
/* After the HTTP server. NULL is fine. */
void wp_mcp_destroy(struct wp_mcp *mcp);

#endif
