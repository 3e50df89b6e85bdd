/* runtime/runtime.h - what the handlers of the in-sandbox server share. */
#ifndef WP_RUNTIME_RUNTIME_H
#define WP_RUNTIME_RUNTIME_H

#include <event2/event.h>
#include <jansson.h>

#include "runtime/http/json_reply.h"
#include "runtime/options.h"
#include "runtime/exec/process.h"
#include "runtime/files/workspace.h"

/* What a listening socket serves; a bit mask. */
enum wp_runtime_role {
    WP_ROLE_MCP = 1,
    WP_ROLE_REST = 2,
};

/* What became of the binding; see runtime/server/bind.c. */
enum wp_bound_state {
    WP_BOUND_FREE, /* None has come. */
    WP_BOUND_PART, /* Not all of one is there, and no other is taken. */
    WP_BOUND_WHOLE,
};

struct wp_mcp;

/* The app pointer of the HTTP server. Loop thread only. */
struct wp_runtime {
    struct wp_options options;
    struct event_base *base;
    struct wp_process_table *processes;
    struct wp_workspace workspace;
    struct wp_mcp *mcp;
    int64_t started_ns;
    enum wp_bound_state bound;
    char fingerprint[17]; /* WHOLE: of the binding; terminated. */
};

static inline struct wp_runtime *
wp_runtime_of(const struct wp_http_req *req)
{
    return wp_http_app(req);
}

/* routes.c: every request passes here first.
 *
 *   any port     GET /healthz, POST /v1/exec, POST /v1/bind,
 *                POST /v1/identity
 *   REST         GET /, POST /execute, POST /upload, GET /download/PATH,
 *                GET /list[/PATH], GET /exists/PATH; HEAD as GET; and those of
 *                sandboxd (runtime/sandboxd/rest.h)
 *   MCP          every other path and method; on a port that serves only REST
 *                they are 404 (405 for a known path)
 *
 * With --token-digest /v1/exec, /v1/bind and /v1/identity need the token (401);
 * with --token-for all everything but /healthz and /v1/health does. Without a
 * digest nothing can be bound (403).
 *
 * A request with an Origin that is neither a loopback one nor allowed by name
 * is refused (403): a page of some site must not reach a sandbox by DNS
 * rebinding. */
const struct wp_http_ops *wp_runtime_route(struct wp_http_req *req);
/* The same by method, path and roles, without a request; NULL means 404 or
 * 405. For tests too. */
const struct wp_http_ops *wp_runtime_find(const char *method, const char *path,
                                          unsigned roles);
/* Whether a request for path may come without a token, or has the right one
 * (NULL: none). */
bool wp_runtime_token_fits(const struct wp_options *options, const char *path,
                           const char *token);
/* Whether an Origin header's value may talk to us. */
bool wp_runtime_origin_allowed(const struct wp_options *options,
                               const char *origin);

/* rest_api.c */
extern const struct wp_http_ops wp_rest_status_ops;
extern const struct wp_http_ops wp_rest_health_ops;
extern const struct wp_http_ops wp_rest_execute_ops;
extern const struct wp_http_ops wp_rest_download_ops;
extern const struct wp_http_ops wp_rest_list_ops;
extern const struct wp_http_ops wp_rest_exists_ops;
/* rest_upload.c */
extern const struct wp_http_ops wp_rest_upload_ops;
/* exec_session.c */
extern const struct wp_http_ops wp_exec_session_ops;
/* mcp.c */
extern const struct wp_http_ops wp_mcp_ops;

/* 403, 404, 409... with {"message":...} and {"error":...} for an errno met on
 * a path of the workspace. */
void wp_rest_reply_errno(struct wp_http_req *req, const char *path,
                         int os_errno);

#endif
