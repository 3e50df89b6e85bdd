/* The calls of the session API. A call is one request, and its claim or change
 * in the pools. These answer on any thread: the call is then put on a stack,
 * from where the loop takes it. */
#include "allocator/http/session.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/list.h"
#include "pool/base/log.h"

/* Between two tries of a claim whose id's last lease is just ending; how long
 * it is tried: longer than a store takes to end a lease. */
#define AGAIN_NS (5 * WP_NS_PER_MS)
#define AGAIN_FOR_NS (10 * WP_NS_PER_S)
/* The loop looks for answers by itself so often, should its channel have been
 * full when one came. */
#define LOOK_NS (100 * WP_NS_PER_MS)

enum {
    HOST_MAX = 255,    /* Bytes of a Host header. */
    URL_MAX = 1024,    /* Of the setting, and the path. */
    CLOSE_WAIT_S = 30, /* For the pools to answer what they still have. */
    CLOSE_LOOK_NS = 1000000,
};

enum kind {
    KIND_POST,
    KIND_GET,
    KIND_DELETE,
};

struct call {
    struct wp_list node; /* In calls, until it ends. */
    struct wp_sessions *sessions;
    struct wp_http_req *req; /* NULL: the client has left. */
    enum kind kind;
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
    struct call *next; /* On the stack of those that were answered. */
};

struct wp_sessions {
    struct wp_sessions_config config;
    struct wp_list calls;
    uint32_t n_calls;
    struct event *tick; /* Pending while there are calls. */
    _Atomic(struct call *) answered;
};

static void run(struct call *call);
static void on_answer(struct call *call);

/* ----------------------------------------------------------------- answers */

static void
end_call(struct call *call)
{
    struct wp_sessions *sessions = call->sessions;

    if (call->req != NULL) {
        wp_http_set_user(call->req, NULL);
    }
    wp_list_remove(&call->node);
    sessions->n_calls--;
    free(call);
}

static void
answer_error(struct call *call, int status, const char *what, const char *why)
{
    if (call->req != NULL) {
        wp_http_reply_error(call->req, status, "%s: %s", what, why);
    }
    end_call(call);
}

static void
answer_json(struct call *call, json_t *body)
{
    char *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;

    json_decref(body);
    if (text == NULL) {
        answer_error(call, 500, "Failed to answer", "out of memory");
        return;
    }
    if (call->req != NULL) {
        wp_http_add_header(call->req, "Cache-Control", "no-store");
        wp_http_reply(call->req, 200, "application/json", text, strlen(text));
    }
    free(text);
    end_call(call);
}

static void
answer_deleted(struct call *call)
{
    answer_json(call, json_pack("{s:{},s:s,s:b}", "data", "message",
                                "Session deleted successfully", "error", 0));
}

static void
answer_none(struct call *call)
{
    if (call->req != NULL) {
        wp_http_reply_error(call->req, 404, "No sandbox found for session");
    }
    end_call(call);
}

/* The Host that the client has used; it alone is told what it has said. */
static const char *
host_of(const struct call *call)
{
    const char *host = wp_http_header(call->req, "Host");

    if (host == NULL || host[0] == '\0' || strlen(host) > HOST_MAX ||
        host[strspn(host, "abcdefghijklmnopqrstuvwxyz"
                          "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]")] !=
            '\0') {
        return "localhost";
    }
    return host;
}

static void
put_url(const struct call *call, const char *sandbox, const char *endpoint,
        char *out, size_t cap)
{
    const struct wp_sessions_config *config = &call->sessions->config;

    if (config->direct) {
        (void)snprintf(out, cap, "http://%s%s", endpoint, config->path);
    } else if (config->url[0] != '\0') {
        (void)snprintf(out, cap, "%s/sandboxes/%s%s", config->url, sandbox,
                       config->path);
    } else {
        (void)snprintf(out, cap, "%s://%s/sandboxes/%s%s",
                       call->is_tls ? "https" : "http", host_of(call), sandbox,
                       config->path);
    }
}

/* What opens the URL: the lease's token to the daemon, the sandbox's own token
 * to the sandbox. NULL: nothing is needed, or known. */
static json_t *
headers_of(const struct call *call, const uint8_t *token)
{
    const struct wp_sessions_config *config = &call->sessions->config;
    char text[2 * WP_TOKEN_LEN + 1];
    char sandbox_token[WP_SANDBOX_TOKEN_TEXT + 1] = "";
    json_t *headers = NULL;

    if (config->direct) {
        if (config->sandbox_token != NULL) {
            config->sandbox_token(config->ctx, &call->info, sandbox_token);
        }
        if (sandbox_token[0] != '\0') {
            headers = json_pack("{s:s}", WP_SANDBOX_TOKEN_FIELD, sandbox_token);
        }
    } else if (token != NULL) {
        wp_hex_encode(token, WP_TOKEN_LEN, text);
        headers = json_pack("{s:s++}", "Authorization", "Bearer ", text, "");
    }
    return headers;
}

/* Of info; token: the lease's, or NULL. */
static void
answer_sandbox(struct call *call, const uint8_t *token, bool ready)
{
    const struct wp_claim_info *info = &call->info;
    char url[URL_MAX + HOST_MAX + WP_SANDBOX_NAME_MAX] = "";
    json_t *body;
    json_t *headers;

    if (call->req == NULL) {
        end_call(call);
        return;
    }
    if (ready) {
        put_url(call, info->sandbox, info->endpoint, url, sizeof url);
    }
    body =
        json_pack("{s:s,s:s,s:s,s:b}", "sandbox_id", info->sandbox, "mcp_url",
                  url, "protocol", "streamable-http", "ready", ready ? 1 : 0);
    headers = body != NULL && ready ? headers_of(call, token) : NULL;
    if (headers != NULL) {
        (void)json_object_set_new(body, "headers", headers);
    }
    answer_json(call, body);
}

static int
http_status_of(enum wp_status status)
{
    static const struct {
        enum wp_status status;
        int http;
    } table[] = {
        {WP_ALREADY_EXISTS, 409},     {WP_PERMISSION_DENIED, 403},
        {WP_RESOURCE_EXHAUSTED, 429}, {WP_ABORTED, 503},
        {WP_UNAVAILABLE, 503},        {WP_UNKNOWN_OUTCOME, 503},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(table); i++) {
        if (table[i].status == status) {
            return table[i].http;
        }
    }
    return 500;
}

static const char *
what_failed(const struct call *call)
{
    return call->kind == KIND_POST     ? "Failed to create sandbox"
           : call->kind == KIND_DELETE ? "Failed to delete session"
                                       : "Failed to get sandbox";
}

static void
answer_refusal(struct call *call, enum wp_status status, const char *reason,
               int64_t retry_after_ns)
{
    char seconds[24];

    if (retry_after_ns > 0 && call->req != NULL) {
        (void)snprintf(seconds, sizeof seconds, "%lld",
                       (long long)((retry_after_ns - 1) / WP_NS_PER_S + 1));
        wp_http_add_header(call->req, "Retry-After", seconds);
    }
    answer_error(call, http_status_of(status), what_failed(call),
                 reason != NULL ? reason : wp_status_text(status));
}

/* ------------------------------------------------------------ the way back */

static void
take_answers(struct wp_sessions *sessions)
{
    /* Acquire pairs with the release in put_answer: the answer is whole. */
    struct call *call = atomic_exchange_explicit(&sessions->answered, NULL,
                                                 memory_order_acquire);

    while (call != NULL) {
        struct call *next = call->next;

        call->busy = false;
        on_answer(call);
        call = next;
    }
}

static void
take_posted(void *ctx, uint64_t a, uint64_t b)
{
    (void)a;
    (void)b;
    take_answers(ctx);
}

/* Any thread. */
static void
put_answer(struct call *call)
{
    struct wp_sessions *sessions = call->sessions;
    struct call *head =
        atomic_load_explicit(&sessions->answered, memory_order_relaxed);

    do {
        call->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&sessions->answered, &head,
                                                    call, memory_order_release,
                                                    memory_order_relaxed));
    /* The call may be gone from here on. When the channel is full, the loop
     * looks by itself. */
    if (head == NULL) {
        (void)!wp_loop_post(sessions->config.loop, take_posted, sessions, 0, 0);
    }
}

static void
claim_done(struct wp_claim *claim)
{
    put_answer(claim->ctx);
}

static void
change_done(struct wp_lease_change *change)
{
    put_answer(change->ctx);
}

/* ------------------------------------------------------------------- steps */

/* Asks for the lease. A look creates none: a claim that may not wait is refused
 * when fewer sandboxes are ready than claims are said to follow it. */
static void
submit_claim(struct call *call)
{
    const struct wp_sessions_config *config = &call->sessions->config;
    bool looks = call->kind != KIND_POST || call->known;

    memset(&call->claim, 0, sizeof call->claim);
    call->claim.pool_namespace = wp_str_from(call->ns);
    call->claim.pool = wp_str_from(call->pool);
    call->claim.claim_id = wp_str_from(call->asked.claim_id);
    call->claim.tenant = wp_str_from(call->tenant);
    call->claim.lasting = config->ttl_ns == 0;
    call->claim.ttl_ns = config->ttl_ns;
    call->claim.wait_ns = looks ? 0 : config->wait_ns;
    call->claim.n_after = looks ? UINT32_MAX : 0;
    call->claim.done = claim_done;
    call->claim.ctx = call;
    call->releases = false;
    call->busy = true;
    if (wp_pools_claim(config->pools, &call->claim) != WP_PENDING) {
        call->busy = false;
        on_answer(call);
    }
}

static void
submit_release(struct call *call)
{
    memset(&call->change, 0, sizeof call->change);
    memcpy(call->change.token, call->claim.grant.token,
           sizeof call->change.token);
    call->change.done = change_done;
    call->change.ctx = call;
    call->releases = true;
    call->busy = true;
    if (wp_pools_release(call->sessions->config.pools, &call->change) !=
        WP_PENDING) {
        call->busy = false;
        on_answer(call);
    }
}

static void
set_tick(struct wp_sessions *sessions, int64_t in_ns)
{
    struct timeval tv = wp_timeval(in_ns);

    (void)event_add(sessions->tick, &tv);
}

static void
try_again(struct call *call, const char *reason)
{
    int64_t now_ns = wp_clock_mono_ns(wp_clock_system());

    if (call->req == NULL) {
        end_call(call);
        return;
    }
    if (now_ns - call->begun_ns > AGAIN_FOR_NS) {
        answer_refusal(call, WP_ABORTED, reason, WP_NS_PER_S);
        return;
    }
    call->again = true;
    set_tick(call->sessions, AGAIN_NS);
}

/* Nobody is to hear of what was granted. */
static void
give_back(struct call *call)
{
    if (call->claim.status == WP_OK && !call->claim.replayed) {
        wp_pools_undo(call->sessions->config.pools, &call->claim);
    }
}

static void
use_grant(struct call *call)
{
    const struct wp_grant *grant = &call->claim.grant;
    struct wp_claim_info *info = &call->info;

    memset(info, 0, sizeof *info);
    info->ref = grant->ref;
    (void)snprintf(info->sandbox, sizeof info->sandbox, "%s", grant->sandbox);
    (void)snprintf(info->endpoint, sizeof info->endpoint, "%s",
                   grant->endpoint);
    (void)snprintf(info->pool, sizeof info->pool, "%s", grant->pool);
    (void)snprintf(info->pool_namespace, sizeof info->pool_namespace, "%s",
                   grant->pool_namespace);
    answer_sandbox(call, grant->token, true);
}

/* The claim is there, but does not repeat as it was asked for: its pool is
 * removed, or it came with another time to live. */
static void
use_info(struct call *call)
{
    if (call->kind == KIND_DELETE || call->info.lost) {
        wp_pools_end(call->sessions->config.pools, call->info.ref);
        if (call->kind == KIND_DELETE) {
            answer_deleted(call);
        } else {
            try_again(call, "its sandbox is lost and is just ending");
        }
        return;
    }
    answer_sandbox(call, NULL, true);
}

static void
on_look(struct call *call)
{
    const struct wp_claim *claim = &call->claim;

    if (claim->status == WP_OK && !claim->replayed) {
        give_back(call);
        try_again(call, "the session is just changing");
    } else if (claim->status == WP_OK &&
               (call->kind == KIND_DELETE || call->info.lost)) {
        submit_release(call);
    } else if (claim->status == WP_OK) {
        use_grant(call);
    } else if (claim->status == WP_ALREADY_EXISTS ||
               claim->status == WP_INVALID_ARGUMENT ||
               claim->status == WP_NOT_FOUND) {
        use_info(call);
    } else if (claim->status == WP_ABORTED ||
               claim->status == WP_RESOURCE_EXHAUSTED) {
        try_again(call, "the session is just changing");
    } else {
        answer_refusal(call, claim->status, claim->reason,
                       claim->retry_after_ns);
    }
}

static void
on_created(struct call *call)
{
    const struct wp_claim *claim = &call->claim;

    if (claim->status == WP_OK) {
        use_grant(call);
    } else if (claim->status == WP_ABORTED ||
               claim->status == WP_ALREADY_EXISTS) {
        try_again(call, claim->reason);
    } else {
        answer_refusal(call, claim->status, claim->reason,
                       claim->retry_after_ns);
    }
}

static void
on_released(struct call *call)
{
    enum wp_status status = call->change.status;

    if (status != WP_OK && status != WP_NOT_FOUND) {
        answer_refusal(call, status, call->change.reason, 0);
    } else if (call->kind == KIND_DELETE) {
        answer_deleted(call);
    } else {
        try_again(call, "its sandbox is lost and is just ending");
    }
}

/* The pools have answered. */
static void
on_answer(struct call *call)
{
    if (call->releases) {
        on_released(call);
    } else if (call->req == NULL) {
        give_back(call);
        end_call(call);
    } else if (call->deleted) {
        give_back(call);
        answer_error(call, 500, what_failed(call), "the session was deleted");
    } else if (call->kind != KIND_POST || call->known) {
        on_look(call);
    } else {
        on_created(call);
    }
}

/* ------------------------------------------------------------- which pool */

static bool
is_of_template(const struct wp_pool_stats *pool, const char *ns,
               const char *template_name)
{
    return !pool->removed && !pool->gone &&
           strcmp(pool->spec.pool_namespace, ns) == 0 &&
           strcmp(pool->spec.template_name, template_name) == 0;
}

/* A pool of the template: one with something ready, else any. */
static bool
find_pool(struct call *call, const char *ns, const char *template_name)
{
    struct wp_pools *pools = call->sessions->config.pools;
    uint32_t count = wp_pools_count(pools);
    struct wp_pool_stats stats;
    bool found = false;

    for (uint32_t i = 0; i < count; i++) {
        wp_pools_stats(pools, i, &stats);
        if (is_of_template(&stats, ns, template_name) &&
            (!found || stats.ready > 0)) {
            (void)!wp_str_copy(wp_str_from(stats.spec.pool_namespace), call->ns,
                               sizeof call->ns);
            (void)!wp_str_copy(wp_str_from(stats.spec.name), call->pool,
                               sizeof call->pool);
            found = true;
            if (stats.ready > 0) {
                break;
            }
        }
    }
    return found;
}

/* The default pool's namespace, and where nothing else is said, everybody's. */
static void
split_default(const struct call *call, char ns[WP_NAMESPACE_MAX + 1],
              char pool[WP_POOL_NAME_MAX + 1])
{
    const char *text = call->sessions->config.pool;
    const char *slash = strchr(text, '/');
    struct wp_str where = {text, slash != NULL ? (size_t)(slash - text) : 0};

    (void)!wp_str_copy(wp_str_from(slash != NULL ? slash + 1 : text), pool,
                       WP_POOL_NAME_MAX + 1);
    if (slash == NULL || !wp_str_copy(where, ns, WP_NAMESPACE_MAX + 1)) {
        (void)snprintf(ns, WP_NAMESPACE_MAX + 1, "default");
    }
}

/* Fills ns and pool. False: it was answered. */
static bool
choose_pool(struct call *call)
{
    const struct wp_session_request *asked = &call->asked;
    char ns[WP_NAMESPACE_MAX + 1];
    char pool[WP_POOL_NAME_MAX + 1];
    char why[WP_SESSION_WHY_MAX];

    split_default(call, ns, pool);
    if (asked->ns[0] != '\0') {
        memcpy(ns, asked->ns, sizeof ns);
    }
    if (asked->pool[0] != '\0') {
        memcpy(call->ns, ns, sizeof ns);
        memcpy(call->pool, asked->pool, sizeof call->pool);
        return true;
    }
    if (asked->template_name[0] != '\0') {
        if (find_pool(call, ns, asked->template_name)) {
            return true;
        }
        (void)snprintf(why, sizeof why,
                       "TemplateNotFound: no pool of '%s' has "
                       "the template '%s'",
                       ns, asked->template_name);
        answer_error(call, 500, what_failed(call), why);
        return false;
    }
    if (asked->agent_template[0] != '\0' &&
        find_pool(call, asked->agent_ns[0] != '\0' ? asked->agent_ns : ns,
                  asked->agent_template)) {
        return true;
    }
    if (pool[0] != '\0') {
        memcpy(call->ns, ns, sizeof ns);
        memcpy(call->pool, pool, sizeof pool);
        return true;
    }
    answer_error(call, 400,
                 asked->agent_template[0] != '\0'
                     ? "Workspace is not enabled for this agent"
                     : "Session has no agent reference",
                 "no pool has the agent's template, none was asked for, and "
                 "the setting session_pool names none");
    return false;
}

/* Is the sandbox that the session has the one that is asked for? What is not
 * said is not asked for, and a pool that is gone cannot tell. */
static bool
matches(const struct call *call)
{
    struct wp_pools *pools = call->sessions->config.pools;
    const struct wp_session_request *asked = &call->asked;
    const struct wp_claim_info *info = &call->info;
    struct wp_pool_stats stats;
    uint32_t index;

    if ((asked->ns[0] != '\0' &&
         strcmp(asked->ns, info->pool_namespace) != 0) ||
        (asked->pool[0] != '\0' && strcmp(asked->pool, info->pool) != 0)) {
        return false;
    }
    index = asked->template_name[0] != '\0'
                ? wp_pools_index(pools, wp_str_from(info->pool_namespace),
                                 wp_str_from(info->pool))
                : UINT32_MAX;
    if (index == UINT32_MAX) {
        return true;
    }
    wp_pools_stats(pools, index, &stats);
    return strcmp(stats.spec.template_name, asked->template_name) == 0;
}

/* ------------------------------------------------------------------- calls */

static void
run_known(struct call *call)
{
    memcpy(call->ns, call->info.pool_namespace, sizeof call->ns);
    memcpy(call->pool, call->info.pool, sizeof call->pool);
    if (call->kind == KIND_POST && !matches(call)) {
        answer_error(call, 409, what_failed(call),
                     "the session has a sandbox of another pool or template; "
                     "delete it first");
    } else if (call->kind == KIND_GET && call->info.lost) {
        answer_none(call);
    } else {
        submit_claim(call);
    }
}

/* What still waits for a sandbox is not to get one after the delete. */
static void
withdraw_others(const struct call *call)
{
    struct wp_sessions *sessions = call->sessions;
    struct wp_list *node = sessions->calls.next;

    while (node != &sessions->calls) {
        struct call *other = WP_CONTAINER_OF(node, struct call, node);

        node = node->next;
        if (other->kind != KIND_POST || !other->busy || other->releases ||
            strcmp(other->asked.claim_id, call->asked.claim_id) != 0 ||
            strcmp(other->tenant, call->tenant) != 0) {
            continue;
        }
        other->deleted = true;
        if (wp_pools_cancel(sessions->config.pools, &other->claim)) {
            other->busy = false;
            other->claim.status = WP_CANCELLED;
            on_answer(other);
        }
    }
}

/* Looks what there is, then acts on it; also when it is tried again. */
static void
run(struct call *call)
{
    const struct wp_sessions_config *config = &call->sessions->config;
    bool found =
        wp_pools_get(config->pools, wp_str_from(call->tenant),
                     wp_str_from(call->asked.claim_id), &call->info) == WP_OK;

    call->again = false;
    call->known = found && !call->info.waiting;
    if (call->kind == KIND_DELETE && !call->known) {
        withdraw_others(call);
        answer_deleted(call);
    } else if (call->kind == KIND_GET && !found) {
        answer_none(call);
    } else if (call->kind == KIND_GET && !call->known) {
        answer_sandbox(call, NULL, false);
    } else if (call->known) {
        run_known(call);
    } else if (choose_pool(call)) {
        submit_claim(call);
    }
}

static void
on_tick(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_sessions *sessions = ctx;
    struct wp_list *node;
    uint32_t n;

    (void)fd;
    (void)what;
    take_answers(sessions);
    /* A call that is run may end, and no other with it but by a delete, which
     * ends busy ones only. */
    n = sessions->n_calls;
    for (node = sessions->calls.next; n > 0 && node != &sessions->calls; n--) {
        struct call *call = WP_CONTAINER_OF(node, struct call, node);

        node = node->next;
        if (call->again) {
            run(call);
            node = sessions->calls.next; /* The list may be another. */
        }
    }
    if (sessions->n_calls > 0 && !evtimer_pending(sessions->tick, NULL)) {
        set_tick(sessions, LOOK_NS);
    }
}

static void
ready(struct wp_http_req *req)
{
    struct call *call = wp_http_user(req);
    char why[WP_SESSION_WHY_MAX];
    struct wp_str body;

    body.ptr = wp_http_body(req, &body.len);
    if (!wp_session_read_body(body, &call->asked, why)) {
        wp_http_reply_error(req, 400, "%s", why);
        end_call(call);
        return;
    }
    run(call);
}

static void
gone(struct wp_http_req *req)
{
    struct call *call = wp_http_user(req);

    if (call == NULL) {
        return;
    }
    call->req = NULL;
    if (call->busy &&
        (call->releases ||
         !wp_pools_cancel(call->sessions->config.pools, &call->claim))) {
        return; /* It will be answered, and ends then. */
    }
    end_call(call);
}

/* Which of the API's methods it is; false: it was answered. */
static bool
kind_of(struct wp_http_req *req, bool is_sandbox, enum kind *out)
{
    const char *method = wp_http_method(req);

    *out = KIND_DELETE;
    if (strcmp(method, "DELETE") == 0) {
        return true;
    }
    *out = strcmp(method, "POST") == 0 ? KIND_POST : KIND_GET;
    if (is_sandbox && (*out == KIND_POST || strcmp(method, "GET") == 0)) {
        return true;
    }
    wp_http_add_header(req, "Allow",
                       is_sandbox ? "POST, GET, DELETE" : "DELETE");
    wp_http_reply_error(req, 405, "expected %s",
                        is_sandbox ? "POST, GET or DELETE" : "DELETE");
    return false;
}

const struct wp_http_ops *
wp_sessions_open(struct wp_sessions *sessions, struct wp_http_req *req,
                 const char *tenant, bool is_tls)
{
    static const struct wp_http_ops ops = {
        .body_max = WP_SESSION_BODY_MAX, .ready = ready, .gone = gone};
    const struct wp_sessions_config *config = &sessions->config;
    struct wp_session_request asked;
    char why[WP_SESSION_WHY_MAX] = "";
    struct call *call;
    enum kind kind;
    bool found;

    if (!wp_session_read_head(wp_http_message(req), &asked, &found, why)) {
        wp_http_reply_error(req, found ? 400 : 404, "%s", why);
        return NULL;
    }
    if (!kind_of(req, asked.is_sandbox, &kind)) {
        return NULL;
    }
    if (config->serves != NULL &&
        !atomic_load_explicit(config->serves, memory_order_acquire)) {
        wp_http_add_header(req, "Retry-After", "1");
        wp_http_reply_error(req, 503,
                            "this replica does not lead, and its "
                            "lease store is not shared; the leader "
                            "serves");
        return NULL;
    }
    call =
        sessions->n_calls < config->calls_max ? calloc(1, sizeof *call) : NULL;
    if (call == NULL) {
        wp_http_add_header(req, "Retry-After", "1");
        wp_http_reply_error(req, 503, "too many requests of sessions wait");
        return NULL;
    }
    call->sessions = sessions;
    call->req = req;
    call->kind = kind;
    call->is_tls = is_tls;
    call->asked = asked;
    call->begun_ns = wp_clock_mono_ns(wp_clock_system());
    (void)snprintf(call->tenant, sizeof call->tenant, "%s", tenant);
    wp_list_push_back(&sessions->calls, &call->node);
    if (sessions->n_calls++ == 0) {
        set_tick(sessions, LOOK_NS);
    }
    wp_http_set_user(req, call);
    return &ops;
}

/* -------------------------------------------------------------------- life */

struct wp_sessions *
wp_sessions_create(const struct wp_sessions_config *config, struct wp_err *err)
{
    struct wp_sessions *sessions = calloc(1, sizeof *sessions);

    if (sessions != NULL) {
        sessions->config = *config;
        wp_list_init(&sessions->calls);
        sessions->tick =
            evtimer_new(wp_loop_base(config->loop), on_tick, sessions);
    }
    if (sessions == NULL || sessions->tick == NULL) {
        free(sessions);
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    return sessions;
}

static void
close_some(void *ctx)
{
    take_answers(ctx);
}

static void
close_all(void *ctx)
{
    struct wp_sessions *sessions = ctx;

    event_free(sessions->tick);
    sessions->tick = NULL;
}

void
wp_sessions_destroy(struct wp_sessions *sessions)
{
    const struct timespec pause = {0, CLOSE_LOOK_NS};
    struct wp_loop *loop;

    if (sessions == NULL) {
        return;
    }
    loop = sessions->config.loop;
    /* Each look is a turn of the loop, so that what was posted is run before. */
    wp_loop_call(loop, close_some, sessions);
    for (int64_t left = CLOSE_WAIT_S * WP_NS_PER_S;
         sessions->n_calls > 0 && left > 0; left -= CLOSE_LOOK_NS) {
        (void)nanosleep(&pause, NULL);
        wp_loop_call(loop, close_some, sessions);
    }
    wp_loop_call(loop, close_all, sessions);
    if (sessions->n_calls > 0) {
        wp_log_warn("requests of sessions are not answered yet; their memory "
                    "stays");
        return;
    }
    free(sessions);
}
