/* runtime/mcp/mcp_args.h - what arguments a tool takes: told to the client as a
 * JSON schema, and held against what it sends. */
#ifndef WP_RUNTIME_MCP_MCP_ARGS_H
#define WP_RUNTIME_MCP_MCP_ARGS_H

#include <jansson.h>
#include <stdbool.h>

#include "pool/base/compiler.h"
#include "pool/base/status.h"

enum wp_mcp_arg_type {
    WP_MCP_ARG_STRING,  /* Without NUL, which no path or command can hold. */
    WP_MCP_ARG_CONTENT, /* A string of any characters. */
    WP_MCP_ARG_WHOLE,   /* A whole number; 5.0 is one, too. */
};

struct wp_mcp_arg {
    const char *name; /* NULL ends a list. */
    enum wp_mcp_arg_type type;
    const char *description;
    bool required;
};

/* The schema, which allows no further properties. NULL on no memory. */
json_t *wp_mcp_args_schema(const struct wp_mcp_arg *args);

/* Holds given (NULL: none) against the list. INVALID_ARGUMENT names the first
 * argument that does not fit, and says what was expected. */
WP_MUST_CHECK enum wp_status wp_mcp_args_check(const struct wp_mcp_arg *args,
                                               json_t *given,
                                               struct wp_err *err);

/* Of checked arguments: "" when the string is absent; 0 when the number is, and
 * never beyond 10^12 on either side. */
const char *wp_mcp_arg_string(const json_t *given, const char *name);
int64_t wp_mcp_arg_whole(const json_t *given, const char *name);

#endif
