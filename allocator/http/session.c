/* The calls of the session API. A call is one request, and its claim or change
 * in the pools. These answer on any thread, and the loop takes the answer. */
#include "allocator/http/session_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/clock.h"

/* Between two tries of a claim whose id's last lease is just ending; how long
 * it is tried: longer than a store takes to end a lease. */
#define AGAIN_NS (5 * WP_NS_PER_MS)
#define AGAIN_FOR_NS (10 * WP_NS_PER_S)
/* The loop looks for answers by itself so often, should its channel have been
 * full when one came. */
#define LOOK_NS (100 * WP_NS_PER_MS)

static void run(struct wp_session_call *call);
static void on_answer(struct wp_session_call *call);

/* ------------------------------------------------------------ the way back */

static void
take_answer(struct wp_linked_message *message)
{
    struct wp_session_call *call =
        WP_CONTAINER_OF(message, struct wp_session_call, answered);

    call->busy = false;
    on_answer(call);
}

/* Any thread. The call may be gone when this returns. */
static void
put_answer(struct wp_session_call *call)
{
    wp_http_answers_put(&call->sessions->answers, &call->answered);
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

/* An answer leads to one further step, of which there are few.
 * NOLINTBEGIN(misc-no-recursion) */

/* Asks for the lease. A look creates none: a claim that may not wait is refused
 * when fewer sandboxes are ready than claims are said to follow it. */
static void
submit_claim(struct wp_session_call *call)
{
    const struct wp_sessions_config *config = &call->sessions->config;
    bool looks = call->kind != WP_SESSION_POST || call->known;

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
    call->busy = true;
    if (wp_pools_claim(config->pools, &call->claim) != WP_PENDING) {
        call->busy = false;
        on_answer(call);
    }
}

static void
submit_release(struct wp_session_call *call)
{
    memcpy(call->change.token, call->claim.grant.token,
           sizeof call->change.token);
    call->change.done = change_done;
    call->change.ctx = call;
    call->releases = true;
    call->busy = true;
    if (wp_pools_release(call->sessions->config.pools, &call->change) !=
        WP_PENDING) {
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
try_again(struct wp_session_call *call, const char *reason)
{
    int64_t now_ns = wp_clock_mono_ns(wp_clock_system());

    if (call->req == NULL) {
        wp_session_end(call);
        return;
    }
    if (now_ns - call->begun_ns > AGAIN_FOR_NS) {
        wp_session_refusal(call, WP_ABORTED, reason, WP_NS_PER_S);
        return;
    }
    call->again = true;
    set_tick(call->sessions, AGAIN_NS);
}

/* Nobody is to hear of what was granted. */
static void
give_back(struct wp_session_call *call)
{
    if (call->claim.status == WP_OK) {
        wp_pools_undo(call->sessions->config.pools, &call->claim);
    }
}

static void
use_grant(struct wp_session_call *call)
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
    wp_session_sandbox(call, grant->token, true);
}

/* The claim is there, but does not repeat as it was asked for: its pool is
 * removed, its sandbox is lost, or it came with another time to live. */
static void
use_info(struct wp_session_call *call)
{
    if (call->kind == WP_SESSION_DELETE || call->info.lost) {
        wp_pools_end(call->sessions->config.pools, call->info.ref);
        if (call->kind == WP_SESSION_DELETE) {
            wp_session_deleted(call);
        } else {
            try_again(call, "its sandbox is lost and is just ending");
        }
        return;
    }
    wp_session_sandbox(call, NULL, true);
}

static void
on_look(struct wp_session_call *call)
{
    const struct wp_claim *claim = &call->claim;

    if (claim->status == WP_OK && !claim->replayed) {
        give_back(call);
        try_again(call, "the session is just changing");
    } else if (claim->status == WP_OK && call->kind == WP_SESSION_DELETE) {
        submit_release(call);
    } else if (claim->status == WP_OK) {
        use_grant(call);
    } else if (claim->status == WP_FAILED_PRECONDITION) {
        call->info.lost = true; /* If only since the look. */
        use_info(call);
    } else if (claim->status == WP_ALREADY_EXISTS ||
               claim->status == WP_INVALID_ARGUMENT ||
               claim->status == WP_NOT_FOUND) {
        use_info(call);
    } else if (claim->status == WP_ABORTED ||
               claim->status == WP_RESOURCE_EXHAUSTED) {
        try_again(call, "the session is just changing");
    } else {
        wp_session_refusal(call, claim->status, claim->reason,
                           claim->retry_after_ns);
    }
}

static void
refuse_pool(struct wp_session_call *call)
{
    char why[WP_SESSION_WHY_MAX];

    (void)snprintf(why, sizeof why, "no pool '%s' in namespace '%s'",
                   call->pool, call->ns);
    wp_session_refusal(call, WP_NOT_FOUND, why, 0);
}

static void
on_created(struct wp_session_call *call)
{
    const struct wp_claim *claim = &call->claim;

    if (claim->status == WP_OK) {
        use_grant(call);
    } else if (claim->status == WP_NOT_FOUND) {
        refuse_pool(call);
    } else if (claim->status == WP_ABORTED ||
               claim->status == WP_ALREADY_EXISTS) {
        try_again(call, claim->reason);
    } else {
        wp_session_refusal(call, claim->status, claim->reason,
                           claim->retry_after_ns);
    }
}

static void
on_released(struct wp_session_call *call)
{
    enum wp_status status = call->change.status;

    if (status != WP_OK && status != WP_NOT_FOUND) {
        wp_session_refusal(call, status, call->change.reason, 0);
    } else {
        wp_session_deleted(call);
    }
}

/* The pools have answered. */
static void
on_answer(struct wp_session_call *call)
{
    if (call->releases) {
        on_released(call);
    } else if (call->req == NULL) {
        give_back(call);
        wp_session_end(call);
    } else if (call->deleted) {
        give_back(call);
        wp_session_error(call, 500, wp_session_what_failed(call),
                         "the session was deleted");
    } else if (call->kind != WP_SESSION_POST || call->known) {
        on_look(call);
    } else {
        on_created(call);
    }
}

/* NOLINTEND(misc-no-recursion) */

/* ------------------------------------------------------------------- calls */

static void
run_known(struct wp_session_call *call)
{
    memcpy(call->ns, call->info.pool_namespace, sizeof call->ns);
    memcpy(call->pool, call->info.pool, sizeof call->pool);
    if (call->kind == WP_SESSION_POST && !wp_session_matches(call)) {
        wp_session_error(
            call, 409, wp_session_what_failed(call),
            "the session has a sandbox of another pool or template; "
            "delete it first");
    } else if (call->kind == WP_SESSION_GET && call->info.lost) {
        wp_session_none(call);
    } else {
        submit_claim(call);
    }
}

/* What still waits for a sandbox is not to get one after the delete. */
static void
withdraw_others(const struct wp_session_call *call)
{
    struct wp_sessions *sessions = call->sessions;
    struct wp_list *node = sessions->calls.next;

    while (node != &sessions->calls) {
        struct wp_session_call *other =
            WP_CONTAINER_OF(node, struct wp_session_call, node);

        node = node->next;
        if (other->kind != WP_SESSION_POST || !other->busy || other->releases ||
            strcmp(other->asked.claim_id, call->asked.claim_id) != 0 ||
            strcmp(other->tenant, call->tenant) != 0) {
            continue;
        }
        other->deleted = true;
        if (wp_pools_cancel(sessions->config.pools, &other->claim)) {
            other->claim.status = WP_CANCELLED;
            on_answer(other);
        }
    }
}

/* Looks what there is, then acts on it; also when it is tried again. */
static void
run(struct wp_session_call *call)
{
    const struct wp_sessions_config *config = &call->sessions->config;
    bool found =
        wp_pools_get(config->pools, wp_str_from(call->tenant),
                     wp_str_from(call->asked.claim_id), &call->info) == WP_OK;

    call->again = false;
    call->known = found && !call->info.waiting;
    if (call->kind == WP_SESSION_DELETE && !call->known) {
        withdraw_others(call);
        wp_session_deleted(call);
    } else if (call->kind == WP_SESSION_GET && !found) {
        wp_session_none(call);
    } else if (call->kind == WP_SESSION_GET && !call->known) {
        wp_session_sandbox(call, NULL, false);
    } else if (call->known) {
        run_known(call);
    } else if (wp_session_choose_pool(call)) {
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
    wp_http_answers_take(&sessions->answers);
    /* A call that is run may end, and no other with it but by a delete, which
     * ends busy ones only. */
    n = sessions->n_calls;
    for (node = sessions->calls.next; n > 0 && node != &sessions->calls; n--) {
        struct wp_session_call *call =
            WP_CONTAINER_OF(node, struct wp_session_call, node);

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
    struct wp_session_call *call = wp_http_user(req);
    char why[WP_SESSION_WHY_MAX];
    struct wp_str body;

    body.ptr = wp_http_body(req, &body.len);
    if (!wp_session_read_body(body, &call->asked, why)) {
        wp_http_reply_error(req, 400, "%s", why);
        wp_session_end(call);
        return;
    }
    run(call);
}

static void
gone(struct wp_http_req *req)
{
    struct wp_session_call *call = wp_http_user(req);

    if (call == NULL) {
        return;
    }
    call->req = NULL;
    if (call->busy &&
        (call->releases ||
         !wp_pools_cancel(call->sessions->config.pools, &call->claim))) {
        return; /* It will be answered, and ends then. */
    }
    wp_session_end(call);
}

/* Which of the API's methods it is; false: it was answered. */
static bool
kind_of(struct wp_http_req *req, bool is_sandbox, enum wp_session_kind *out)
{
    const char *method = wp_http_method(req);

    *out = WP_SESSION_DELETE;
    if (strcmp(method, "DELETE") == 0) {
        return true;
    }
    *out = strcmp(method, "POST") == 0 ? WP_SESSION_POST : WP_SESSION_GET;
    if (is_sandbox && (*out == WP_SESSION_POST || strcmp(method, "GET") == 0)) {
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
    struct wp_session_call *call;
    enum wp_session_kind kind;
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
        wp_http_answers_init(&sessions->answers, config->loop, take_answer);
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
close_all(void *ctx)
{
    struct wp_sessions *sessions = ctx;

    event_free(sessions->tick);
    sessions->tick = NULL;
}

void
wp_sessions_destroy(struct wp_sessions *sessions)
{
    bool is_over;

    if (sessions == NULL) {
        return;
    }
    is_over = wp_http_answers_end(&sessions->answers, &sessions->n_calls);
    wp_loop_call(sessions->config.loop, close_all, sessions);
    if (is_over) {
        free(sessions);
    }
}
