/* runtime/mcp/mcp_tools.h - the tools an agent sees: exec, read_file,
 * write_file, list_dir, get_skill.
 *
 * Names, descriptions, arguments and texts are those existing clients know.
 * File tools are not confined to the workspace: the sandbox is the jail, and
 * exec could do the same. Bounds: read_max bytes a file read, output_max bytes
 * kept of each stream of a command (the rest is dropped, and stderr says so),
 * 10000 entries a folder. Loop thread only. */
#ifndef WP_RUNTIME_MCP_MCP_TOOLS_H
#define WP_RUNTIME_MCP_MCP_TOOLS_H

#include "runtime/mcp/mcp_rpc.h"

struct wp_runtime;

enum {
    WP_MCP_DIR_ENTRIES_MAX = 10000,
};

/* The array for tools/list; skills is the text of wp_skills_list. NULL on no
 * memory. */
json_t *wp_mcp_tools_describe(const char *skills);

/* A wp_mcp_tools.call; app is the struct wp_runtime. A command goes on when
 * its client leaves. */
void wp_mcp_tools_call(void *app, const char *name, json_t *args,
                       wp_mcp_tool_done done, void *user);

#endif
