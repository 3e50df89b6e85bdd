#include "runtime/mcp/mcp_sessions.h"

#include <stddef.h>
#include <string.h>
#include <sys/random.h>

#include "pool/base/str.h"

bool
wp_mcp_id_make(char out[WP_MCP_ID_LEN + 1])
{
    unsigned char random[WP_MCP_ID_LEN / 2];

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
        return false;
    }
    wp_hex_encode(random, sizeof(random), out);
    return true;
}

static size_t
session_find(const struct wp_mcp_sessions *sessions, const char *id)
{
    size_t i = 0;

    if (*id == '\0') {
        return WP_MCP_SESSIONS_MAX;
    }
    while (i < WP_MCP_SESSIONS_MAX &&
           strcmp(sessions->entries[i].id, id) != 0) {
        i++;
    }
    return i;
}

const char *
wp_mcp_session_begin(struct wp_mcp_sessions *sessions)
{
    char id[WP_MCP_ID_LEN + 1];
    size_t oldest = 0;

    if (!wp_mcp_id_make(id)) {
        return NULL;
    }
    for (size_t i = 1; i < WP_MCP_SESSIONS_MAX; i++) {
        if (sessions->entries[i].used < sessions->entries[oldest].used) {
            oldest = i;
        }
    }
    memcpy(sessions->entries[oldest].id, id, sizeof(id));
    sessions->entries[oldest].used = ++sessions->tick;
    return sessions->entries[oldest].id;
}

bool
wp_mcp_session_touch(struct wp_mcp_sessions *sessions, const char *id)
{
    size_t i = session_find(sessions, id);

    if (i == WP_MCP_SESSIONS_MAX) {
        return false;
    }
    sessions->entries[i].used = ++sessions->tick;
    return true;
}

bool
wp_mcp_session_end(struct wp_mcp_sessions *sessions, const char *id)
{
    size_t i = session_find(sessions, id);

    if (i == WP_MCP_SESSIONS_MAX) {
        return false;
    }
    sessions->entries[i].id[0] = '\0';
    sessions->entries[i].used = 0;
    return true;
}
