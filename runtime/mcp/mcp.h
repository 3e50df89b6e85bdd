/* runtime/mcp/mcp.h - MCP over Streamable HTTP: the transport of mcp_rpc.h.
 *
 * POST takes one message, or a batch in revisions that have them, and answers
 * application/json, or one text/event-stream event when the client accepts
 * only that. GET has no stream to offer (405). initialize gives out an
 * Mcp-Session-Id; DELETE ends it. A request with an unknown session is 404, so
 * the client starts anew; one without is served all the same, as nothing is
 * kept between requests. At most WP_MCP_SESSIONS_MAX sessions are known; the
 * one unused longest makes room. Loop thread only. */
#ifndef WP_RUNTIME_MCP_MCP_H
#define WP_RUNTIME_MCP_MCP_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/mcp/mcp_rpc.h"

enum {
    WP_MCP_SESSIONS_MAX = 1024,
    WP_MCP_SESSION_ID_LEN = 32,
};

struct wp_mcp_sessions {
    struct {
        char id[WP_MCP_SESSION_ID_LEN + 1]; /* "" when free. */
        uint64_t used;                      /* The tick of its last use. */
    } entries[WP_MCP_SESSIONS_MAX];
    uint64_t tick;
};

/* A new random id, valid until the entry is dropped; NULL when the system has
 * no randomness to give. */
const char *wp_mcp_session_begin(struct wp_mcp_sessions *sessions);
/* Whether id is known; marks it as used. */
bool wp_mcp_session_touch(struct wp_mcp_sessions *sessions, const char *id);
/* False when it was not known. */
bool wp_mcp_session_end(struct wp_mcp_sessions *sessions, const char *id);

struct wp_mcp {
    struct wp_mcp_tools tools;
    struct wp_mcp_sessions sessions;
};

struct wp_runtime;
/* Reads the skills and fixes the list of tools. NULL on no memory. */
struct wp_mcp *wp_mcp_create(struct wp_runtime *runtime);
void wp_mcp_destroy(struct wp_mcp *mcp);

#endif
