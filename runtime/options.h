/* runtime/options.h - the settings of warmpool-runtime. Each is a flag and an
 * environment variable; a flag wins. */
#ifndef WP_RUNTIME_OPTIONS_H
#define WP_RUNTIME_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/log.h"
#include "pool/base/status.h"

enum {
    WP_OPTIONS_ORIGINS_MAX = 16,
    WP_OPTIONS_PORT_NONE = -1,
};

/* What needs the token. */
enum wp_token_scope {
    WP_TOKEN_FOR_CONTROL, /* What no client of agent-sandbox knows: /v1/exec,
                             /v1/bind, /v1/identity. */
    WP_TOKEN_FOR_ALL,     /* All but /healthz. */
};

struct wp_options {
    const char *bind;      /* Address the ports listen on. */
    int32_t port;          /* Serves everything; 0: the system's choice. */
    int32_t mcp_port;      /* Serves MCP only; WP_OPTIONS_PORT_NONE: none. */
    int32_t rest_port;     /* Serves REST only. */
    int32_t grpc_port;     /* Serves process.v1 over gRPC. */
    const char *unix_path; /* NULL, or a socket that serves everything. */
    const char *port_file; /* NULL, or where to write the chosen ports. */
    const char *workspace; /* NULL: /workspace if it is there, else ".". */
    const char *skills_dir;
    const char *origins[WP_OPTIONS_ORIGINS_MAX];
    uint32_t origins_count;
    uint32_t execs_max;
    uint32_t execs_waiting_max;
    int64_t background_ms;
    int64_t progress_ms;
    int64_t exec_timeout_max_ms; /* 0: none. */
    int64_t rest_timeout_ms;
    uint64_t output_max;
    uint64_t upload_max;
    uint64_t read_max;
    uint32_t conns_max;
    int64_t grace_ms;
    bool confine;
    const char *readable;     /* For wp_confine; NULL: everything is. */
    const char *token_digest; /* NULL: nobody is asked for a token. */
    enum wp_token_scope token_for;
    const char *bound_dir; /* Where what a claim brings goes. */
    enum wp_log_level log_level;
    enum wp_log_format log_format;
};

enum wp_options_outcome {
    WP_OPTIONS_RUN,
    WP_OPTIONS_HELP,    /* --help or --version was printed: exit 0. */
    WP_OPTIONS_INVALID, /* *err says what is wrong: exit 2. */
};

/* Fills out from defaults, environment, then arguments. Strings are borrowed
 * from both. Before threads start. */
WP_MUST_CHECK enum wp_options_outcome wp_options_parse(int argc, char **argv,
                                                       struct wp_options *out,
                                                       struct wp_err *err);

#endif
