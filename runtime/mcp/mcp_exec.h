/* runtime/mcp/mcp_exec.h - the tool exec. */
#ifndef WP_RUNTIME_MCP_MCP_EXEC_H
#define WP_RUNTIME_MCP_MCP_EXEC_H

#include "runtime/mcp/mcp_answer.h"

struct wp_runtime;

/* Runs args' command by sh -c, at once or when there is room for it; answers
 * from the loop. args are checked, and borrowed for the call. The command goes
 * on when its client leaves. Loop thread only. */
void wp_mcp_exec(struct wp_runtime *runtime, const json_t *args,
                 const struct wp_mcp_answer *answer);

#endif
