/* runtime/mcp/mcp_sessions.h - the sessions of MCP clients.
 *
 * At most WP_MCP_SESSIONS_MAX are known; the one unused longest makes room.
 * Loop thread only. */
#ifndef WP_RUNTIME_MCP_MCP_SESSIONS_H
#define WP_RUNTIME_MCP_MCP_SESSIONS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    WP_MCP_SESSIONS_MAX = 1024,
    WP_MCP_ID_LEN = 32,
};

struct wp_mcp_sessions {
    struct {
        char id[WP_MCP_ID_LEN + 1]; /* "" when free. */
        uint64_t used;              /* The tick of its last use. */
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

/* A new random id; false when the system has no randomness to give. */
bool wp_mcp_id_make(char out[WP_MCP_ID_LEN + 1]);

#endif
