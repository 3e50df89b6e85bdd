/* allocator/http/session_request.h - what a request of the session API asks
 * for.
 *
 * POST, GET and DELETE of /api/sessions/ID/sandbox, as kagent's clients send
 * them, and DELETE of /api/sessions/ID. Who asks is said by X-User-Id or
 * ?user_id=; an agent adds X-Agent-Name. ?template=, ?pool= and ?namespace=, or
 * the same keys of a JSON object in the body, choose what the sandbox is made
 * from. No I/O; any thread. */
#ifndef WP_ALLOCATOR_HTTP_SESSION_REQUEST_H
#define WP_ALLOCATOR_HTTP_SESSION_REQUEST_H

#include <stdbool.h>

#include "pool/limits.h"
#include "proto/formats/http_head.h"

enum {
    WP_SESSION_BODY_MAX = 4096, /* Bytes of a body. */
    WP_SESSION_WHY_MAX = 200,   /* Of a sentence for the client, NUL too. */
};

struct wp_session_request {
    bool is_sandbox; /* .../sandbox; else the session itself. */
    /* "session/USER/ID". '/' and '%' of either are %2F and %25, so that no two
     * sessions have one id. */
    char claim_id[WP_CLAIM_ID_MAX + 1];
    /* Asked for; "" where the client names none. */
    char ns[WP_NAMESPACE_MAX + 1];
    char pool[WP_POOL_NAME_MAX + 1];
    char template_name[WP_TEMPLATE_NAME_MAX + 1];
    /* Of X-Agent-Name: what its template is called, and where; "" without
     * one. */
    char agent_ns[WP_NAMESPACE_MAX + 1];
    char agent_template[WP_TEMPLATE_NAME_MAX + 1];
};

/* Is the path, without its query, one of the session API? */
WP_MUST_CHECK bool wp_session_is(struct wp_str path);
/* Reads the head of a request whose path is. False: the client is at fault, and
 * why says how; *found is false when there is no such path. */
WP_MUST_CHECK bool wp_session_read_head(const struct wp_http_message *request,
                                        struct wp_session_request *out,
                                        bool *found,
                                        char why[WP_SESSION_WHY_MAX]);
/* Adds what the body says; an empty one says nothing. The query and the body
 * may not contradict each other. */
WP_MUST_CHECK bool wp_session_read_body(struct wp_str body,
                                        struct wp_session_request *out,
                                        char why[WP_SESSION_WHY_MAX]);

#endif
