#include "allocator/http/trigger.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "allocator/http/answers.h"
#include "allocator/http/http_claim.h"
#include "allocator/http/trigger_signature.h"
#include "pool/base/list.h"
#include "pool/base/rng.h"
#include "pool/trace/context.h"

#define FAILED "Failed to trigger a sandbox"
/* Answers are looked for so often, should the loop's channel have been full
 * when one came. */
#define LOOK_NS (100 * WP_NS_PER_MS)

enum {
    NAMES_MAX = 4, /* Tried, should others have them already. */
    VARIABLE_MAX = 32,
};

struct call {
    struct wp_linked_message answered;
    struct wp_triggers *triggers;
    struct wp_http_req *req; /* NULL: the client has left. */
    bool busy;               /* Somebody was asked, and answers. */
    bool binds;              /* The sandbox is to have what the trigger says. */
    uint32_t names;          /* Tried. */
    struct wp_trigger trigger;
    char tenant[WP_TENANT_MAX + 1];
    char ns[WP_NAMESPACE_MAX + 1];
    char template_name[WP_TEMPLATE_NAME_MAX + 1];
    char pool[WP_POOL_NAME_MAX + 1];
    char name[WP_SANDBOX_NAME_MAX + 1]; /* Of the claim. */
    char traceparent[WP_TRACEPARENT_LEN + 1];
    struct wp_trigger_order order;
    struct wp_claim claim;
    struct wp_bind bind;
    struct wp_binding binding;
    struct wp_binding_env env[WP_TRIGGER_MARKS_MAX];
    char variables[WP_TRIGGER_MARKS_MAX][VARIABLE_MAX];
};

struct wp_triggers {
    struct wp_triggers_config config;
    struct wp_http_answers answers;
    uint32_t n_calls;
    struct event *tick; /* Pending while there are calls. */
};

static void begin(struct call *call);

/* ----------------------------------------------------------------- answers */

static void
end_call(struct call *call)
{
    struct wp_triggers *triggers = call->triggers;

    if (call->req != NULL) {
        wp_http_set_user(call->req, NULL);
    }
    if (--triggers->n_calls == 0) {
        (void)event_del(triggers->tick);
    }
    free(call);
}

static void
refuse(struct call *call, enum wp_status status, const char *reason,
       int64_t retry_after_ns)
{
    if (call->req != NULL) {
        wp_http_refuse_claim(call->req, status, FAILED, reason, retry_after_ns);
    }
    end_call(call);
}

static void
answer(struct call *call)
{
    json_t *body = json_pack("{s:s, s:s}", "sandbox_claim", call->name,
                             "namespace", call->ns);
    char *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;

    json_decref(body);
    if (text == NULL) {
        refuse(call, WP_RESOURCE_EXHAUSTED, "out of memory", WP_NS_PER_S);
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
on_made(struct call *call)
{
    const struct wp_trigger_order *order = &call->order;

    if (order->status == WP_ALREADY_EXISTS && call->names < NAMES_MAX) {
        begin(call);
    } else if (order->status == WP_OK) {
        answer(call);
    } else {
        refuse(call, order->status, order->reason, order->retry_after_ns);
    }
}

static void
on_claimed(struct call *call)
{
    struct wp_pools *pools = call->triggers->config.pools;
    const struct wp_claim *claim = &call->claim;
    /* Another trigger's, or another client's: it is not for this one. */
    bool is_taken = claim->status == WP_ALREADY_EXISTS ||
                    (claim->status == WP_OK && claim->replayed);

    if (claim->status == WP_OK && (call->req == NULL || claim->replayed)) {
        wp_pools_undo(pools, claim);
    }
    if (call->req == NULL) {
        end_call(call);
    } else if (is_taken && call->names < NAMES_MAX) {
        begin(call);
    } else if (claim->status == WP_OK && !is_taken) {
        answer(call);
    } else {
        refuse(call, is_taken ? WP_ALREADY_EXISTS : claim->status,
               is_taken ? "no free name was found" : claim->reason,
               claim->retry_after_ns);
    }
}

static void
take_answer(struct wp_linked_message *message)
{
    struct call *call = WP_CONTAINER_OF(message, struct call, answered);

    if (call->triggers->config.make != NULL) {
        on_made(call);
    } else {
        on_claimed(call);
    }
}

/* Any thread, as the three that follow. */
static void
put_answer(struct call *call)
{
    wp_http_answers_put(&call->triggers->answers, &call->answered);
}

static void
order_done(struct wp_trigger_order *order)
{
    put_answer(WP_CONTAINER_OF(order, struct call, order));
}

static void
bind_done(struct wp_bind *bind)
{
    put_answer(bind->ctx);
}

static void
claim_done(struct wp_claim *claim)
{
    struct call *call = claim->ctx;

    if (claim->status != WP_OK || claim->replayed || !call->binds ||
        wp_pools_bind(call->triggers->config.pools, &call->bind) !=
            WP_PENDING) {
        put_answer(call);
    }
}

/* ------------------------------------------------------------------- steps */

/* "trigger-skill" is the variable TRIGGER_SKILL. */
static void
fill_binding(struct call *call, struct wp_str body)
{
    const struct wp_trigger *trigger = &call->trigger;

    for (uint32_t i = 0; i < trigger->n_marks; i++) {
        const char *key = trigger->marks[i].key;
        char *variable = call->variables[i];
        size_t len = 0;

        for (; key[len] != '\0' && len < VARIABLE_MAX; len++) {
            variable[len] = (char)(key[len] - 'a' + 'A');
            if (key[len] == '-') {
                variable[len] = '_';
            }
        }
        call->env[i] = (struct wp_binding_env){
            {variable, len}, wp_str_from(trigger->marks[i].value)};
    }
    call->binding.env = call->env;
    call->binding.n_env = trigger->n_marks;
    call->binding.fingerprint =
        wp_pools_fingerprint(call->triggers->config.pools, body);
    call->bind.claim = &call->claim;
    call->bind.binding = &call->binding;
    call->bind.done = bind_done;
    call->bind.ctx = call;
}

static void
claim_sandbox(struct call *call)
{
    const struct wp_triggers_config *config = &call->triggers->config;

    memset(&call->claim, 0, sizeof call->claim);
    call->claim.pool_namespace = wp_str_from(call->ns);
    call->claim.pool = wp_str_from(call->pool);
    call->claim.claim_id = wp_str_from(call->name);
    call->claim.tenant = wp_str_from(call->tenant);
    call->claim.ttl_ns = call->trigger.ttl_ns;
    call->claim.wait_ns = config->wait_ns;
    call->claim.binding = call->binds ? call->binding.fingerprint : 0;
    call->claim.done = claim_done;
    call->claim.ctx = call;
    call->busy = true;
    if (wp_pools_claim(config->pools, &call->claim) != WP_PENDING) {
        claim_done(&call->claim);
    }
}

static void
order_claim(struct call *call)
{
    const struct wp_triggers_config *config = &call->triggers->config;

    call->order = (struct wp_trigger_order){
        .ns = call->ns,
        .name = call->name,
        .template_name = call->template_name,
        .trigger = &call->trigger,
        .traceparent = call->traceparent,
        .done = order_done,
    };
    call->busy = true;
    if (!config->make(config->ctx, &call->order)) {
        refuse(call, WP_UNAVAILABLE, "too many claims are being made",
               WP_NS_PER_S);
    }
}

static void
begin(struct call *call)
{
    uint8_t random[WP_TRIGGER_SUFFIX_LEN / 2];
    char suffix[WP_TRIGGER_SUFFIX_LEN + 1];

    wp_random_bytes(random, sizeof random);
    wp_hex_encode(random, sizeof random, suffix);
    (void)snprintf(call->name, sizeof call->name, "%s-%s", call->trigger.stem,
                   suffix);
    call->names++;
    if (call->triggers->config.make != NULL) {
        order_claim(call);
    } else {
        claim_sandbox(call);
    }
}

/* A pool of this machine that has the template. False: it was refused. */
static bool
choose_pool(struct call *call, struct wp_str body)
{
    struct wp_pools *pools = call->triggers->config.pools;
    char why[WP_TRIGGER_WHY_MAX];
    struct wp_err err;
    enum wp_status status;

    if (!wp_http_pool_of(pools, call->ns, call->template_name, call->pool)) {
        (void)snprintf(why, sizeof why, "no pool of '%s' has the template '%s'",
                       call->ns, call->template_name);
        refuse(call, WP_NOT_FOUND, why, 0);
        return false;
    }
    status = wp_pools_may_bind(pools, wp_str_from(call->ns),
                               wp_str_from(call->pool), &err);
    if (status == WP_UNAVAILABLE) {
        refuse(call, status, err.msg, WP_NS_PER_S);
        return false;
    }
    call->binds = status == WP_OK;
    if (call->binds) {
        fill_binding(call, body);
    }
    return true;
}

/* Where the template is, and where else it is asked for. */
static void
choose_template(struct call *call)
{
    const char *text = call->triggers->config.template_name;
    const char *slash = strchr(text, '/');
    struct wp_str ns = {text, (size_t)(slash - text)};

    if (call->trigger.ns[0] != '\0') {
        ns = wp_str_from(call->trigger.ns);
    }
    (void)!wp_str_copy(ns, call->ns, sizeof call->ns);
    (void)!wp_str_copy(wp_str_from(slash + 1), call->template_name,
                       sizeof call->template_name);
}

/* ------------------------------------------------------------------- calls */

/* What is no traceparent is left out. */
static void
read_trace(struct call *call)
{
    const char *text = wp_http_header(call->req, "traceparent");
    struct wp_trace_context context;

    if (wp_trace_context_parse(wp_str_from(text), &context)) {
        wp_trace_context_format(&context, call->traceparent);
    }
}

/* False: it was refused. */
static bool
check_signature(struct call *call, struct wp_str body)
{
    const char *secret = call->triggers->config.secret;
    const char *shown = wp_http_header(call->req, WP_TRIGGER_SIGNATURE_FIELD);

    if (!call->trigger.is_webhook || secret[0] == '\0' ||
        wp_trigger_is_signed(wp_str_from(secret), body, wp_str_from(shown))) {
        return true;
    }
    wp_http_reply_error(call->req, 401,
                        FAILED ": " WP_TRIGGER_SIGNATURE_FIELD
                               ": expected sha256= and the HMAC of the body "
                               "by the secret of trigger_secret_file");
    end_call(call);
    return false;
}

static void
ready(struct wp_http_req *req)
{
    struct call *call = wp_http_user(req);
    char why[WP_TRIGGER_WHY_MAX];
    struct wp_str body;
    int status;

    body.ptr = wp_http_body(req, &body.len);
    status = wp_trigger_read(body, &call->trigger, why);
    if (status != 0) {
        wp_http_reply_error(req, status, FAILED ": %s", why);
        end_call(call);
        return;
    }
    if (!check_signature(call, body)) {
        return;
    }
    choose_template(call);
    read_trace(call);
    if (call->triggers->config.make != NULL || choose_pool(call, body)) {
        begin(call);
    }
}

static void
gone(struct wp_http_req *req)
{
    struct call *call = wp_http_user(req);
    struct wp_pools *pools;

    if (call == NULL) {
        return;
    }
    pools = call->triggers->config.pools;
    call->req = NULL;
    if (call->busy && (call->triggers->config.make != NULL ||
                       !wp_pools_cancel(pools, &call->claim))) {
        return; /* It will be answered, and ends then. */
    }
    end_call(call);
}

static void
on_tick(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_triggers *triggers = ctx;

    (void)fd;
    (void)what;
    wp_http_answers_take(&triggers->answers);
}

const struct wp_http_ops *
wp_triggers_open(struct wp_triggers *triggers, struct wp_http_req *req,
                 const char *tenant)
{
    static const struct wp_http_ops ops = {
        .body_max = WP_TRIGGER_BODY_MAX, .ready = ready, .gone = gone};
    const struct wp_triggers_config *config = &triggers->config;
    const struct timeval look = wp_timeval(LOOK_NS);
    struct call *call;

    if (strcmp(wp_http_method(req), "POST") != 0) {
        wp_http_add_header(req, "Allow", "POST");
        wp_http_reply_error(req, 405, "expected POST");
        return NULL;
    }
    if (config->template_name[0] == '\0') {
        wp_http_reply_error(req, 501,
                            FAILED ": the setting trigger_template names no "
                                   "template");
        return NULL;
    }
    if (config->make != NULL && tenant[0] != '\0') {
        wp_http_reply_error(req, 403, FAILED ": SandboxClaims are no tenant's");
        return NULL;
    }
    call =
        triggers->n_calls < config->calls_max ? calloc(1, sizeof *call) : NULL;
    if (call == NULL) {
        wp_http_add_header(req, "Retry-After", "1");
        wp_http_reply_error(req, 503, FAILED ": too many triggers wait");
        return NULL;
    }
    call->triggers = triggers;
    call->req = req;
    (void)snprintf(call->tenant, sizeof call->tenant, "%s", tenant);
    if (triggers->n_calls++ == 0) {
        (void)event_add(triggers->tick, &look);
    }
    wp_http_set_user(req, call);
    return &ops;
}

/* -------------------------------------------------------------------- life */

struct wp_triggers *
wp_triggers_create(const struct wp_triggers_config *config, struct wp_err *err)
{
    struct wp_triggers *triggers = calloc(1, sizeof *triggers);

    if (triggers != NULL) {
        triggers->config = *config;
        wp_http_answers_init(&triggers->answers, config->loop, take_answer);
        triggers->tick = event_new(wp_loop_base(config->loop), -1, EV_PERSIST,
                                   on_tick, triggers);
    }
    if (triggers == NULL || triggers->tick == NULL) {
        free(triggers);
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    return triggers;
}

static void
close_all(void *ctx)
{
    struct wp_triggers *triggers = ctx;

    event_free(triggers->tick);
}

void
wp_triggers_destroy(struct wp_triggers *triggers)
{
    bool is_over;

    if (triggers == NULL) {
        return;
    }
    is_over = wp_http_answers_end(&triggers->answers, &triggers->n_calls);
    if (is_over) {
        wp_loop_call(triggers->config.loop, close_all, triggers);
        free(triggers);
    }
}
