/* k8s/controllers/claim/bring.c - what a claim brings reaches its Sandbox
 * before the claim is Ready.
 *
 *   with a mark --> Secrets read --> fetched --> brought --> status
 *                        |              |           | not all of it: Ready is
 *                        |              |           | False, and stays so
 *                        '--------------'-----------'- no answer: the same, and
 *                                                      again
 *
 * The pool's annotation bind-env says that variables are brought; without it
 * they make the claim start cold. What the claim's annotations name is brought
 * to a cold Sandbox, too. The mark is an annotation of the Sandbox, which the
 * adoption writes, or the creation: so a later leader brings what an earlier
 * one did not. What is there already is brought again when the Sandbox becomes
 * Ready anew, since it may be another Pod; a Pod that has it answers as before.
 *
 * Secrets are read when they are needed, and kept no longer.
 *
 * A signed identity goes with the request, and each next one in a request of
 * its own, as long as the claim has the Sandbox. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/bind/bind_call.h"
#include "k8s/bind/brings.h"
#include "k8s/bind/claim_identity.h"
#include "k8s/bind/pass.h"
#include "k8s/bind/repositories.h"
#include "k8s/controllers/claim/cold.h"
#include "k8s/controllers/claim/expiry.h"
#include "k8s/controllers/claim/reconcile.h"
#include "k8s/objects/names.h"
#include "pool/base/assert.h"
#include "proto/formats/sandbox_token.h"

/* One that is under way. */
struct bringing {
    struct wp_list node; /* In the controller's list, once all is read. */
    struct wp_claim_reconcile *reconcile;
    struct wp_bind_call *call;
    struct wp_claim_parcel parcel;
    struct wp_fetching *fetching;    /* NULL: all trees are here. */
    int64_t identity_until_ms;       /* 0: no new one is brought. */
    bool renews;                     /* It is all that is brought. */
    char by[WP_EGRESS_TEXT_MAX + 1]; /* Of what its Sandbox may reach. */
    struct wp_claim_brings brings;   /* Until it is packed. */
};

/* --- Whether --- */

/* False: the core does not know its pool. */
static bool
find_pool(const struct wp_claim_reconcile *reconcile,
          struct wp_pool_stats *stats)
{
    struct wp_pools *pools = reconcile->self->parts->core.pools;
    uint32_t index = wp_pools_index(pools, wp_str_from(reconcile->claim->ns),
                                    wp_str_from(reconcile->pool));

    if (index != UINT32_MAX) {
        wp_pools_stats(pools, index, stats);
    }
    return index != UINT32_MAX;
}

bool
wp_claim_brings_env(const struct wp_claim_reconcile *reconcile)
{
    const struct wp_claim_view *view = wp_claim_view(reconcile->claim);
    struct wp_pool_stats stats;

    return view->has_env && !view->has_volume_claims &&
           find_pool(reconcile, &stats) && stats.spec.bind_env;
}

bool
wp_claim_brings_pass(const struct wp_claim_reconcile *reconcile)
{
    const struct wp_cluster_config *config = &reconcile->self->parts->config;
    const struct wp_object *templ;
    struct wp_pool_stats stats;

    if (config->egress.proxy == NULL || config->sandbox_key == NULL ||
        !find_pool(reconcile, &stats) || stats.spec.egress[0] == '\0') {
        return false;
    }
    templ = wp_claim_reconcile_template(reconcile);
    return templ != NULL && wp_template_view(templ)->binds;
}

bool
wp_claim_brings(const struct wp_claim_reconcile *reconcile)
{
    return wp_claim_brings_more(reconcile->claim) ||
           wp_claim_brings_env(reconcile) || wp_claim_brings_pass(reconcile);
}

/* May its sandbox reach less than its pool says, by that? */
static enum wp_status
check_egress(struct wp_claim_reconcile *reconcile, struct wp_str by)
{
    struct wp_pool_stats stats = {.spec.egress = ""};

    (void)find_pool(reconcile, &stats);
    return by.len == 0 ||
                   wp_bind_pass_check(&reconcile->self->parts->config.egress,
                                      wp_str_from(stats.spec.egress), by,
                                      &reconcile->err) == WP_OK
               ? WP_OK
               : wp_err_wrap(&reconcile->err,
                             "annotation " WP_ANNOTATION_CLAIM_EGRESS);
}

/* Until claim, template or settings change that stays so. */
static bool
refuse(struct wp_claim_reconcile *reconcile, const char *reason)
{
    wp_claim_reconcile_refuse(reconcile, reason, reconcile->err.msg, WP_WORK_OK,
                              WP_TIME_NEVER);
    return false;
}

/* The template's policy says of variables what it says of cold ones. */
static enum wp_status
check_env(struct wp_claim_reconcile *reconcile, const struct wp_object *templ,
          const char **reason)
{
    struct wp_err *err = &reconcile->err;
    json_t *cold;

    *reason = WP_REASON_ENV_REJECTED;
    cold = wp_cold_sandbox(reconcile->claim, templ,
                           reconcile->self->parts->config.default_tier, reason,
                           err);
    if (cold == NULL) {
        return err->status;
    }
    json_decref(cold);
    *reason = WP_REASON_BINDING;
    return wp_claim_brings_env(reconcile)
               ? wp_claim_brings_check(reconcile->claim, templ, err)
               : WP_OK;
}

/* What it brings now: the claim may have changed since its sandbox was taken,
 * and is judged as it was then. */
static enum wp_status
read_brings(struct wp_claim_reconcile *reconcile, struct wp_claim_brings *out)
{
    enum wp_status status = wp_claim_brings_read(
        reconcile->claim, wp_claim_brings_env(reconcile), out, &reconcile->err);

    return status == WP_OK
               ? wp_repositories_check(reconcile->self->parts->repositories,
                                       &out->binding, &reconcile->err)
               : status;
}

bool
wp_claim_may_bring(struct wp_claim_reconcile *reconcile,
                   const struct wp_object *templ)
{
    struct wp_err *err = &reconcile->err;
    const char *reason;
    bool env = wp_claim_brings_env(reconcile);
    struct wp_claim_brings *brings;
    enum wp_status status;

    if (reconcile->self->parts->config.sandbox_key == NULL ||
        !wp_template_view(templ)->binds) {
        (void)wp_err_set(err, WP_FAILED_PRECONDITION, "binding: %s, but %s",
                         env ? "its pool binds variables"
                             : "its annotations bring something",
                         wp_template_view(templ)->binds
                             ? "the daemon has no token_key_file"
                             : "its template does not say that its program "
                               "takes them (" WP_TEMPLATE_BINDING_KEY
                               ": allowed)");
        return refuse(reconcile, WP_REASON_BINDING);
    }
    status = check_env(reconcile, templ, &reason);
    if (status == WP_OK) {
        brings = malloc(sizeof *brings);
        WP_ASSERT(brings != NULL);
        status = read_brings(reconcile, brings);
        if (status == WP_OK && brings->binding.audience.len > 0 &&
            reconcile->self->parts->config.identities == NULL) {
            status = wp_err_set(err, WP_FAILED_PRECONDITION,
                                "annotation " WP_ANNOTATION_CLAIM_IDENTITY
                                ": the daemon has no identity_secret");
        }
        if (status == WP_OK) {
            status = check_egress(reconcile, brings->binding.egress);
        }
        wp_claim_brings_fini(brings);
        free(brings);
    }
    return status == WP_OK || refuse(reconcile, reason);
}

/* --- When --- */

/* Changes with the Sandbox and its Pod, and when it becomes Ready anew. */
static void
time_of(const struct wp_object *sandbox, char out[WP_CLAIM_BROUGHT_MAX])
{
    const struct wp_sandbox_view *view = wp_sandbox_view(sandbox);

    (void)snprintf(out, WP_CLAIM_BROUGHT_MAX, "%s %s %s", sandbox->uid,
                   view->pod_ip, view->ready.transition);
}

static bool
is_due(const struct wp_claim_reconcile *reconcile)
{
    const struct wp_claim_view *view = wp_claim_view(reconcile->claim);
    const struct wp_object *sandbox = reconcile->sandbox;
    struct wp_claim_entry *entry = reconcile->entry;
    char now[WP_CLAIM_BROUGHT_MAX];

    if (wp_object_annotation(sandbox, WP_ANNOTATION_BRINGS) == NULL ||
        wp_sandbox_view(sandbox)->ready.status != WP_CONDITION_TRUE ||
        wp_sandbox_view(sandbox)->pod_ip[0] == '\0') {
        return false;
    }
    time_of(sandbox, now);
    if (entry->brought[0] == '\0' && view->ready.status == WP_CONDITION_TRUE &&
        strcmp(view->sandbox, sandbox->name) == 0) {
        /* An earlier leader has told so. */
        memcpy(entry->brought, now, sizeof entry->brought);
    }
    return strcmp(entry->brought, now) != 0;
}

/* --- Bringing --- */

static struct wp_identity_renewals *
renewals_of(const struct wp_claim_reconcile *reconcile)
{
    return reconcile->self->parts->renewals;
}

static void
drop(struct bringing *bringing)
{
    wp_list_remove(&bringing->node);
    if (bringing->renews) {
        wp_identity_renewal_drop(renewals_of(bringing->reconcile));
    }
    wp_claim_brings_fini(&bringing->brings);
    wp_fetching_cancel(bringing->fetching);
    wp_bind_trees_drop(bringing->parcel.trees);
    if (bringing->parcel.bytes != NULL) {
        evbuffer_free(bringing->parcel.bytes);
    }
    free(bringing);
}

static void
on_answer(void *ctx, const struct wp_bind_answer *answer)
{
    struct bringing *bringing = ctx;
    struct wp_claim_reconcile *reconcile = bringing->reconcile;

    if (answer->status == WP_OK && bringing->identity_until_ms > 0) {
        wp_identity_given(&reconcile->entry->identity,
                          bringing->identity_until_ms,
                          reconcile->self->parts->clock);
    }
    drop(bringing);
    wp_claim_reconcile_traced(reconcile, "bind", answer->status);
    if (answer->status == WP_OK || answer->other) {
        /* Another one is what the claim said before. */
        time_of(reconcile->sandbox, reconcile->entry->brought);
        wp_claim_status_write(reconcile);
        return;
    }
    (void)wp_err_set(&reconcile->err, answer->status, "%s", answer->reason);
    if (answer->status == WP_FAILED_PRECONDITION) {
        wp_claim_reconcile_say(reconcile, WP_REASON_BINDING, reconcile->err.msg,
                               WP_WORK_OK, WP_TIME_NEVER);
    } else {
        wp_claim_reconcile_say(reconcile, "SandboxNotReady", reconcile->err.msg,
                               WP_WORK_FAILED, 0);
    }
}

/* NULL: it cannot be reached. Takes what request has, and adds where it is
 * sent. */
static struct wp_bind_call *
send_to_pod(const struct wp_claim_reconcile *reconcile,
            struct wp_bind_request *request)
{
    const struct wp_parts *parts = reconcile->self->parts;
    const struct wp_object *sandbox = reconcile->sandbox;
    char token[WP_SANDBOX_TOKEN_TEXT + 1];
    struct wp_bind_call *call;

    wp_sandbox_token(parts->config.sandbox_key, sandbox->ns, sandbox->name,
                     token);
    request->ip = wp_sandbox_view(sandbox)->pod_ip;
    request->port = parts->config.sandbox_port;
    request->token = token;
    request->within_ns = WP_BIND_MAX_NS;
    call = wp_bind_call_start(parts->base, request);
    explicit_bzero(token, sizeof token);
    return call;
}

/* token.text "": the claim asks for none, or its Sandbox has it. */
static enum wp_status
sign(struct wp_claim_reconcile *reconcile, struct wp_identity_token *token)
{
    const struct wp_claim_view *view = wp_claim_view(reconcile->claim);
    const struct wp_claim_identity about = {
        .claim = reconcile->claim,
        .pool = reconcile->pool,
        .sandbox = reconcile->sandbox->name,
        .ends_wall_ms = wp_claim_expires_wall_ms(view),
    };

    return wp_claim_identity_sign(&about, &reconcile->entry->identity,
                                  reconcile->self->parts->config.identities,
                                  token, &reconcile->err);
}

static void lacks(struct bringing *bringing);

/* Of the Pod as it is now. */
static enum wp_status
add_pass(const struct bringing *bringing)
{
    struct wp_claim_reconcile *reconcile = bringing->reconcile;
    const struct wp_object *sandbox = reconcile->sandbox;
    struct wp_pool_stats stats = {.spec.egress = ""};
    struct wp_bind_pass pass = {.ns = sandbox->ns,
                                .sandbox = sandbox->name,
                                .ip = wp_sandbox_view(sandbox)->pod_ip,
                                .by = wp_str_from(bringing->by)};

    if (check_egress(reconcile, pass.by) != WP_OK) {
        return reconcile->err.status;
    }
    (void)find_pool(reconcile, &stats);
    pass.policy = wp_str_from(stats.spec.egress);
    WP_ASSERT(wp_bind_pass_add(&reconcile->self->parts->config.egress, &pass,
                               bringing->parcel.bytes));
    return WP_OK;
}

static void
call(struct bringing *bringing)
{
    struct wp_claim_reconcile *reconcile = bringing->reconcile;
    struct wp_identity_token identity;

    /* It may be another Pod now, that has none. */
    reconcile->entry->identity = (struct wp_identity){.due_ns = 0};
    if (add_pass(bringing) != WP_OK || sign(reconcile, &identity) != WP_OK) {
        lacks(bringing);
        return;
    }
    bringing->identity_until_ms = identity.until_wall_ms;
    bringing->call = send_to_pod(
        reconcile,
        &(struct wp_bind_request){
            .fingerprint = bringing->parcel.fingerprint,
            .identity = identity.text[0] != '\0' ? identity.text : NULL,
            .parcel = bringing->parcel.bytes,
            .trees = bringing->parcel.trees,
            .done = on_answer,
            .ctx = bringing});
    explicit_bzero(&identity, sizeof identity);
    if (bringing->call == NULL) {
        drop(bringing);
        wp_claim_reconcile_say(reconcile, "SandboxNotReady",
                               "binding: the sandbox's server cannot be "
                               "reached",
                               WP_WORK_FAILED, 0);
    }
}

/* Ends the reconcile: what lacks may come, so it is tried again. */
static void
lacks(struct bringing *bringing)
{
    struct wp_claim_reconcile *reconcile = bringing->reconcile;

    drop(bringing);
    (void)wp_err_wrap(&reconcile->err, "binding");
    wp_claim_reconcile_say(reconcile, WP_REASON_BINDING, reconcile->err.msg,
                           WP_WORK_FAILED, 0);
}

static void
on_fetched(void *ctx, enum wp_status status, const char *reason)
{
    static const struct wp_event changed = {.controller =
                                                "sandboxclaim-controller",
                                            .action = "Binding",
                                            .reason = "RepositoryNotTrusted",
                                            .warning = true};
    struct bringing *bringing = ctx;
    struct wp_claim_reconcile *reconcile = bringing->reconcile;

    bringing->fetching = NULL;
    if (status == WP_CANCELLED) {
        drop(bringing);
        wp_claim_reconcile_end(reconcile, WP_WORK_OK, 0);
        return;
    }
    if (status != WP_OK) {
        (void)wp_err_set(&reconcile->err, status, "%s", reason);
        lacks(bringing);
        return;
    }
    if (reason[0] != '\0') {
        wp_events_record(reconcile->self->parts->events, reconcile->claim,
                         &changed, "%s", reason);
    }
    call(bringing);
}

/* All values are there. */
static void
bring(struct bringing *bringing)
{
    struct wp_claim_reconcile *reconcile = bringing->reconcile;
    struct wp_claim_controller *self = reconcile->self;

    if (!self->parts->active) {
        drop(bringing); /* Another replica leads, or will. */
        wp_claim_reconcile_end(reconcile, WP_WORK_OK, 0);
        return;
    }
    WP_ASSERT(wp_str_copy(bringing->brings.binding.egress, bringing->by,
                          sizeof bringing->by));
    wp_claim_brings_pack(&bringing->brings, self->parts->core.pools,
                         reconcile->claim->ns, &bringing->parcel);
    wp_list_push_back(&self->bringing, &bringing->node);
    if (bringing->parcel.trees == NULL) {
        call(bringing);
        return;
    }
    bringing->fetching =
        wp_fetching_create(self->parts->repositories, bringing->parcel.trees,
                           on_fetched, bringing);
    WP_ASSERT(bringing->fetching != NULL);
    wp_fetching_go(bringing->fetching);
}

static void go_on(struct bringing *bringing);

static void
secret_read(void *ctx, const struct wp_api_result *result)
{
    struct bringing *bringing = ctx;
    struct wp_claim_reconcile *reconcile = bringing->reconcile;
    struct wp_err *err = &reconcile->err;
    const char *secret = wp_claim_brings_lacks(&bringing->brings);
    enum wp_status status = result->status;

    if (status == WP_CANCELLED) {
        drop(bringing);
        wp_claim_reconcile_end(reconcile, WP_WORK_OK, 0);
        return;
    }
    if (status == WP_OK) {
        status = wp_claim_brings_take(&bringing->brings, secret, result->object,
                                      err);
    } else if (status == WP_PERMISSION_DENIED) {
        (void)wp_err_set(err, status,
                         "the daemon may not read Secret \"%s\": apply "
                         "deploy/kubernetes/claim-secrets in this namespace, "
                         "or name it in the chart's claimSecretsNamespaces",
                         secret);
    } else {
        (void)wp_err_set(err, status, "Secret \"%s\": %s", secret,
                         status == WP_NOT_FOUND ? "there is none of that name"
                                                : "it cannot be read now");
    }
    if (status == WP_OK) {
        go_on(bringing);
    } else {
        lacks(bringing);
    }
}

static void
go_on(struct bringing *bringing)
{
    struct wp_claim_reconcile *reconcile = bringing->reconcile;
    struct wp_api_target target = {.kind = WP_KIND_SECRET,
                                   .ns = reconcile->claim->ns,
                                   .name =
                                       wp_claim_brings_lacks(&bringing->brings),
                                   .priority = WP_HTTP_CLAIM};

    if (target.name == NULL) {
        bring(bringing);
    } else {
        wp_api_get(reconcile->self->parts->api, &target, secret_read, bringing);
    }
}

static void
begin(struct wp_claim_reconcile *reconcile)
{
    struct bringing *bringing = calloc(1, sizeof *bringing);
    const struct wp_object *templ = wp_claim_reconcile_template(reconcile);
    const char *reason = WP_REASON_BINDING;
    enum wp_status status = WP_OK;

    WP_ASSERT(bringing != NULL);
    bringing->reconcile = reconcile;
    wp_list_init(&bringing->node);
    /* A template that has changed meanwhile is for others. */
    if (templ != NULL && reconcile->claim->generation > 1 &&
        wp_claim_brings_env(reconcile)) {
        status = check_env(reconcile, templ, &reason);
    }
    if (status == WP_OK) {
        status = read_brings(reconcile, &bringing->brings);
    }
    if (status == WP_OK) {
        go_on(bringing);
        return;
    }
    drop(bringing);
    wp_claim_reconcile_say(reconcile, reason, reconcile->err.msg, WP_WORK_OK,
                           WP_TIME_NEVER);
}

/* --- The next identity --- */

static bool
may_renew(const struct wp_claim_reconcile *reconcile)
{
    const struct wp_object *sandbox = reconcile->sandbox;

    return wp_claim_identity_wants(reconcile->claim) && sandbox != NULL &&
           wp_object_annotation(sandbox, WP_ANNOTATION_BRINGS) != NULL &&
           wp_sandbox_view(sandbox)->pod_ip[0] != '\0' &&
           reconcile->entry->brought[0] != '\0' &&
           reconcile->self->parts->config.sandbox_key != NULL;
}

static void
renewal_failed(const struct wp_claim_reconcile *reconcile, const char *reason)
{
    wp_identity_not_renewed(renewals_of(reconcile), &reconcile->entry->identity,
                            reconcile->sandbox->ns, reconcile->sandbox->name,
                            reason);
}

static void
on_renewed(void *ctx, const struct wp_bind_answer *answer)
{
    struct bringing *bringing = ctx;
    struct wp_claim_reconcile *reconcile = bringing->reconcile;

    bringing->renews = false; /* It has ended. */
    if (answer->status == WP_OK) {
        wp_identity_renewed(renewals_of(reconcile), &reconcile->entry->identity,
                            bringing->identity_until_ms);
    } else {
        renewal_failed(reconcile, answer->reason);
    }
    drop(bringing);
    wp_claim_status_write(reconcile);
}

/* True: it is on its way, and the status is written afterwards. */
static bool
send_next(struct wp_claim_reconcile *reconcile,
          const struct wp_identity_token *identity)
{
    struct bringing *bringing = calloc(1, sizeof *bringing);

    WP_ASSERT(bringing != NULL);
    bringing->reconcile = reconcile;
    bringing->identity_until_ms = identity->until_wall_ms;
    wp_list_init(&bringing->node);
    bringing->call = send_to_pod(
        reconcile, &(struct wp_bind_request){.identity = identity->text,
                                             .done = on_renewed,
                                             .ctx = bringing});
    if (bringing->call == NULL) {
        drop(bringing);
        renewal_failed(reconcile, "the sandbox's server cannot be reached");
        return false;
    }
    bringing->renews = true;
    wp_list_push_back(&reconcile->self->bringing, &bringing->node);
    return true;
}

static bool
renew(struct wp_claim_reconcile *reconcile)
{
    struct wp_identity *given = &reconcile->entry->identity;
    struct wp_identity_token identity;
    bool sent = false;

    if (!may_renew(reconcile) ||
        !wp_identity_renewal_begin(renewals_of(reconcile), given)) {
        return false;
    }
    if (sign(reconcile, &identity) != WP_OK) {
        renewal_failed(reconcile, reconcile->err.msg);
    } else if (identity.text[0] == '\0') {
        wp_identity_renewed(renewals_of(reconcile), given,
                            identity.until_wall_ms);
    } else {
        sent = send_next(reconcile, &identity);
    }
    explicit_bzero(&identity, sizeof identity);
    return sent;
}

int64_t
wp_claim_identity_due_ns(const struct wp_claim_reconcile *reconcile)
{
    return may_renew(reconcile)
               ? wp_identity_look_ns(&reconcile->entry->identity,
                                     reconcile->self->parts->clock)
               : WP_TIME_NEVER;
}

void
wp_claim_bring(struct wp_claim_reconcile *reconcile)
{
    if (!is_due(reconcile)) {
        if (!renew(reconcile)) {
            wp_claim_status_write(reconcile);
        }
    } else if (reconcile->self->parts->config.sandbox_key == NULL) {
        wp_claim_reconcile_say(reconcile, WP_REASON_BINDING,
                               "binding: the daemon has no token_key_file any "
                               "more",
                               WP_WORK_OK, WP_TIME_NEVER);
    } else {
        begin(reconcile);
    }
}

void
wp_claim_bring_none(struct wp_claim_controller *self)
{
    struct wp_list *node;

    while ((node = wp_list_pop_front(&self->bringing)) != NULL) {
        struct bringing *bringing =
            WP_CONTAINER_OF(node, struct bringing, node);
        struct wp_claim_reconcile *reconcile = bringing->reconcile;

        wp_bind_call_cancel(bringing->call);
        drop(bringing);
        wp_claim_reconcile_end(reconcile, WP_WORK_OK, 0);
    }
}
