/* allocator/http/session.h - the session API: a sandbox for each session of an
 * agent platform, by HTTP and JSON.
 *
 * A session is a claim, whose id is made from the session's and the user's: so
 * the same session gets the same sandbox, from any replica and after a restart.
 * The answers' keys are those that kagent's clients read:
 * sandbox_id, mcp_url, protocol, headers and ready; errors are
 * {"error": "What: why"}.
 *
 * POST waits for a sandbox as long as the pool allows. When its client leaves
 * before, what it would have got is given back. All functions are the loop
 * thread's, unless they say otherwise. */
#ifndef WP_ALLOCATOR_HTTP_SESSION_H
#define WP_ALLOCATOR_HTTP_SESSION_H

#include "allocator/http/session_request.h"
#include "pool/pool.h"
#include "proto/formats/http_server.h"
#include "proto/formats/sandbox_token.h"
#include "proto/loop/loop.h"

struct wp_sessions; /* Opaque. */

/* Borrowed, with all it points to, until destroy. */
struct wp_sessions_config {
    struct wp_loop *loop;
    struct wp_pools *pools;
    /* Of sessions that choose none: "NAMESPACE/NAME" or "NAME"; "": none. */
    const char *pool;
    int64_t ttl_ns;  /* Of the lease; 0: until the session is deleted. */
    int64_t wait_ns; /* For a sandbox, at most. */
    uint32_t calls_max;
    /* Where clients find the daemon, "https://host:port"; "": as the request
     * says in Host. */
    const char *url;
    bool direct;      /* Clients reach sandboxes at their own address. */
    const char *path; /* Of MCP, "/mcp". */
    /* False: another replica knows the leases. NULL: always true. */
    const _Atomic(bool) *serves;
    /* As in struct wp_gateway_config; may be NULL. */
    void (*sandbox_token)(void *ctx, const struct wp_claim_info *info,
                          char out[WP_SANDBOX_TOKEN_TEXT + 1]);
    void *ctx;
};

/* NULL and err on no memory. */
struct wp_sessions *wp_sessions_create(const struct wp_sessions_config *config,
                                       struct wp_err *err);
/* The ops of a request whose path wp_session_is, or NULL: it was answered. The
 * claims are the tenant's; "": of none. is_tls: how it came. */
const struct wp_http_ops *wp_sessions_open(struct wp_sessions *sessions,
                                           struct wp_http_req *req,
                                           const char *tenant, bool is_tls);
/* After the server's end, so that no request is left: waits until the pools
 * have answered, then frees. Any thread but the loop's, while the pools still
 * answer. NULL is fine. */
void wp_sessions_destroy(struct wp_sessions *sessions);

#endif
