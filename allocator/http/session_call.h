/* allocator/http/session_call.h - a request of the session API under way.
 * Private to it; the loop's thread. */
#ifndef WP_ALLOCATOR_HTTP_SESSION_CALL_H
#define WP_ALLOCATOR_HTTP_SESSION_CALL_H

#include "allocator/http/session.h"

#include <event2/event.h>

#include "allocator/http/answers.h"
#include "pool/base/list.h"

enum wp_session_kind {
    WP_SESSION_POST,
    WP_SESSION_GET,
    WP_SESSION_DELETE,
};

struct wp_session_call {
    struct wp_list node; /* In calls, until it ends. */
    struct wp_sessions *sessions;
    struct wp_http_req *req; /* NULL: the client has left. */
    enum wp_session_kind kind;
    bool is_tls;
    bool busy;     /* The pools have it. */
    bool releases; /* They have change, not claim. */
    bool again;    /* It waits to be tried again. */
    bool known;    /* The claim was there when it was looked for: info. */
    bool deleted;  /* By another call, while the pools had it. */
    int64_t begun_ns;
    struct wp_session_request asked;
    char tenant[WP_TENANT_MAX + 1];
    char ns[WP_NAMESPACE_MAX + 1]; /* The pool's. */
    char pool[WP_POOL_NAME_MAX + 1];
    struct wp_claim_info info;
    struct wp_claim claim;
    struct wp_lease_change change;
    struct wp_linked_message answered;
};

struct wp_sessions {
    struct wp_sessions_config config;
    struct wp_list calls;
    uint32_t n_calls;
    struct event *tick; /* Pending while there are calls. */
    struct wp_http_answers answers;
};

/* session_answer.c: each answers the request, if its client is still there, and
 * ends the call, which is gone then. */
void wp_session_end(struct wp_session_call *call); /* Says nothing. */
/* {"error": "what: why"} */
void wp_session_error(struct wp_session_call *call, int status,
                      const char *what, const char *why);
void wp_session_deleted(struct wp_session_call *call);
void wp_session_none(struct wp_session_call *call);
/* call->info's sandbox; token: its lease's, or NULL. */
void wp_session_sandbox(struct wp_session_call *call, const uint8_t *token,
                        bool ready);
/* What the pools have refused. */
void wp_session_refusal(struct wp_session_call *call, enum wp_status status,
                        const char *reason, int64_t retry_after_ns);
/* The beginning of an error's text; the call goes on. */
const char *wp_session_what_failed(const struct wp_session_call *call);

/* session_pool.c */

/* Fills ns and pool. False: it was answered. */
WP_MUST_CHECK bool wp_session_choose_pool(struct wp_session_call *call);
/* Is the sandbox that the session has, call->info, the one that is asked for?
 * What is not said is not asked for, and a pool that is gone cannot tell. */
WP_MUST_CHECK bool wp_session_matches(const struct wp_session_call *call);

#endif
