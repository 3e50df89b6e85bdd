/* k8s/controllers/claim/warm.c - a claim gets a warm sandbox.
 *
 *   ask     the core grants one, or the claim waits for the next
 *   adopt   PATCH Sandbox with its resourceVersion || the claim's annotations
 *             409, lost answer: GET it and see
 *               the claim's: done | still the pool's: again | else: lost
 *   tell    one status patch
 *
 * Two claims never have one Sandbox: the core grants it once, and should
 * anybody else write it, the resourceVersion lets one through. An adoption that
 * may have come through is never given up for another Sandbox before that was
 * read. */
#include <string.h>

#include "k8s/controllers/claim/cold.h"
#include "k8s/controllers/claim/events.h"
#include "k8s/controllers/claim/reconcile.h"
#include "k8s/controllers/fault.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"

/* creationTimestamp knows whole seconds only: a claim that was seen so soon
 * after it has its time counted from when it was seen. */
#define CREATION_SLACK_NS (3 * WP_NS_PER_S / 2)

static struct wp_adoption
adoption_of(const struct wp_claim_pass *pass)
{
    return (struct wp_adoption){pass->claim, pass->additional,
                                wp_claim_pass_template(pass)};
}

/* --- Asking --- */

/* What is left of the time in which it rather waits than starts cold. */
static int64_t
grace_left_ns(const struct wp_claim_pass *pass)
{
    int64_t created = pass->claim->created_wall_ms * WP_NS_PER_MS;
    int64_t seen = pass->entry->seen_wall_ns;
    int64_t start = seen - created < CREATION_SLACK_NS ? seen : created;
    int64_t grace = pass->self->parts->config.cold_grace_ns;
    int64_t left = start + grace - wp_claim_pass_wall_ns(pass);

    return left > grace ? grace : left > 0 ? left : 0;
}

/* Is a sandbox of its pool being made, or about to be? */
static bool
has_candidates(const struct wp_claim_pass *pass)
{
    struct wp_pools *pools = pass->self->parts->core.pools;
    const char *name = wp_claim_view(pass->claim)->pool;
    uint32_t index =
        wp_pools_index(pools, wp_str_from(pass->claim->ns), wp_str_from(name));
    struct wp_pool_stats stats;

    if (index == UINT32_MAX) {
        return false;
    }
    wp_pools_stats(pools, index, &stats);
    return !stats.draining && (stats.ready > 0 || stats.warming > 0 ||
                               (stats.spec.target > 0 && !stats.breaker_open));
}

static void
ask(struct wp_claim_pass *pass)
{
    struct wp_parts *parts = pass->self->parts;
    int64_t wait_ns = !parts->config.cold_start ? WP_WAIT_MAX_NS
                      : has_candidates(pass)    ? grace_left_ns(pass)
                                                : 0;

    wp_fault("claim.before_claim");
    pass->entry->ask =
        wp_claim_ask_begin(pass->self->asks, pass->claim, wait_ns);
    wp_fault("claim.after_claim");
    if (wp_claim_ask_status(pass->entry->ask) == WP_PENDING) {
        wp_counter_add(&pass->self->metrics.queued, 1);
    }
}

/* It waits in the core's queue, which holds no worker: the pass ends, and the
 * answer begins another one. People are told once the wait is a long one, or
 * when it had a sandbox that is gone. */
static void
leave_waiting(struct wp_claim_pass *pass)
{
    bool cold = pass->self->parts->config.cold_start;
    int64_t left = grace_left_ns(pass);

    if (!cold && left == 0) {
        (void)wp_err_set(&pass->err, WP_PENDING,
                         "Waiting for a warm sandbox of SandboxWarmPool "
                         "\"%s\"; cold starts are off",
                         wp_claim_view(pass->claim)->pool);
        wp_claim_refuse_pass(pass, "SandboxNotReady", pass->err.msg, WP_WORK_OK,
                             WP_TIME_NEVER);
        return;
    }
    wp_claim_stamp_observed(pass, false);
    pass->after_ns = cold ? WP_TIME_NEVER : left;
    wp_claim_pass_end(pass, cold ? WP_WORK_OK : WP_WORK_AFTER, left);
}

/* The core has a lease for this claim that is of no use: its sandbox has died,
 * or it is of a pool that the claim named before. */
static void
end_old_lease(struct wp_claim_pass *pass)
{
    struct wp_pools *pools = pass->self->parts->core.pools;
    struct wp_claim_info info;

    if (wp_pools_get(pools, WP_STR(WP_TENANT_SANDBOX_CLAIMS),
                     wp_str_from(pass->claim->uid), &info) == WP_OK &&
        !info.waiting) {
        wp_pools_end(pools, info.ref);
    }
    wp_claim_pass_end(pass, WP_WORK_FAILED, 0);
}

static void take_granted(struct wp_claim_pass *pass);

/* The core did not grant one. */
static void
refused(struct wp_claim_pass *pass, enum wp_status status)
{
    bool cold = pass->self->parts->config.cold_start;

    wp_claim_entry_drop_ask(pass->entry);
    if (status == WP_FAILED_PRECONDITION || status == WP_ALREADY_EXISTS) {
        end_old_lease(pass);
        return;
    }
    /* NOT_FOUND: the core has not heard of the pool yet. UNAVAILABLE: the pool
     * drains, or the lease store is out of reach. ABORTED: the last lease of
     * this claim is just ending. */
    if (cold && (status == WP_RESOURCE_EXHAUSTED ||
                 (status != WP_ABORTED && grace_left_ns(pass) == 0))) {
        wp_claim_pass_go(pass, WP_CLAIM_CREATE);
        return;
    }
    wp_claim_pass_end(pass, WP_WORK_FAILED, 0);
}

static void
go_by_answer(struct wp_claim_pass *pass)
{
    enum wp_status status = wp_claim_ask_status(pass->entry->ask);

    if (status == WP_PENDING) {
        leave_waiting(pass);
    } else if (status == WP_OK) {
        take_granted(pass);
    } else {
        refused(pass, status);
    }
}

void
wp_claim_warm(struct wp_claim_pass *pass)
{
    struct wp_claim_entry *entry = pass->entry;
    const char *pool = wp_claim_view(pass->claim)->pool;

    if (pass->additional != NULL) {
        /* It must not take a sandbox that it cannot adopt then. */
        const struct wp_object *templ = wp_claim_pass_template(pass);

        if (templ == NULL) {
            wp_claim_pass_miss(
                pass, WP_KIND_SANDBOX_TEMPLATE,
                wp_warm_pool_view(wp_claim_pass_pool(pass))->template_name);
            return;
        }
        if (wp_adoption_check(templ, pass->additional, &pass->err) != WP_OK) {
            (void)wp_err_wrap(&pass->err, "Error seen");
            wp_claim_refuse_pass(pass, WP_REASON_ERROR, pass->err.msg,
                                 WP_WORK_FAILED, 0);
            return;
        }
    }
    if (entry->ask != NULL &&
        strcmp(wp_claim_ask_pool(entry->ask), pool) != 0) {
        wp_claim_entry_drop_ask(entry);
    }
    if (entry->ask == NULL) {
        ask(pass);
    }
    go_by_answer(pass);
}

/* --- Adopting --- */

/* The sandbox that was granted is not to be had: on with another one. */
static void
lost(struct wp_claim_pass *pass, const char *why)
{
    struct wp_claim_ask *held = pass->entry->ask;

    wp_log_warn("claim: its sandbox was lost before it was adopted",
                wp_kv_str("namespace", pass->claim->ns),
                wp_kv_str("claim", pass->claim->name),
                wp_kv_str("reason", why));
    wp_counter_add(&pass->self->metrics.lost, 1);
    wp_claim_stamp_too_early(pass);
    if (held != NULL) {
        pass->entry->ask = NULL;
        wp_claim_ask_lose(held, why);
    }
    wp_claim_pass_go(pass, WP_CLAIM_AGAIN);
}

/* The Sandbox is the claim's, for good. */
static void
adopted(struct wp_claim_pass *pass)
{
    struct wp_claim_entry *entry = pass->entry;
    struct wp_claim_ask *held = entry->ask;

    wp_fault("claim.after_adopt");
    entry->ask = NULL;
    if (held != NULL) {
        wp_claim_ask_keep(held);
    }
    wp_claim_pass_brought(pass);
    wp_claim_count_created(pass, WP_LAUNCH_WARM);
    if (pass->self->parts->config.claim_events) {
        wp_claim_event(pass->self->parts->events, pass->claim, WP_CLAIM_ADOPTED,
                       pass->sandbox->name);
    }
    pass->outcome.sandbox = pass->sandbox;
    wp_claim_tell(pass);
}

/* What the API server says of the Sandbox. */
static void
see_sandbox(struct wp_claim_pass *pass)
{
    const struct wp_object *sandbox = pass->sandbox;

    if (wp_object_controlled_by(sandbox, pass->claim->uid)) {
        adopted(pass);
    } else if (!sandbox->deleting && wp_object_controlled_by_kind(
                                         sandbox, WP_KIND_SANDBOX_WARM_POOL)) {
        if (++pass->rounds > WP_CLAIM_ROUNDS_MAX) {
            wp_claim_pass_end(pass, WP_WORK_FAILED, 0);
        } else {
            wp_claim_adopt(pass);
        }
    } else {
        lost(pass, "somebody else has taken the sandbox");
    }
}

static void
sandbox_read(void *ctx, const struct wp_api_result *result)
{
    struct wp_claim_pass *pass = ctx;
    const struct wp_object *sandbox = NULL;

    if (result->status == WP_NOT_FOUND) {
        lost(pass, "the sandbox is gone");
        return;
    }
    if (result->status == WP_OK && result->object != NULL) {
        sandbox = wp_claim_learn(pass->self, WP_KIND_SANDBOX, result->object);
    }
    if (sandbox == NULL) {
        wp_claim_pass_retry(pass, result);
        return;
    }
    wp_claim_pass_set_sandbox(pass, sandbox);
    wp_object_unref(sandbox);
    see_sandbox(pass);
}

static void
read_sandbox(struct wp_claim_pass *pass, const char *name)
{
    struct wp_api_target target = {.kind = WP_KIND_SANDBOX,
                                   .ns = pass->claim->ns,
                                   .name = name,
                                   .priority = WP_HTTP_CLAIM};

    wp_api_get(pass->self->parts->api, &target, sandbox_read, pass);
}

/* The API server will not have this adoption: the sandbox goes back to others,
 * and people are told why. */
static void
adoption_refused(struct wp_claim_pass *pass)
{
    wp_claim_entry_drop_ask(pass->entry);
    (void)wp_err_wrap(&pass->err, "Error seen: adopting sandbox \"%s\"",
                      pass->sandbox->name);
    wp_claim_refuse_pass(pass, WP_REASON_ERROR, pass->err.msg, WP_WORK_FAILED,
                         0);
}

/* Patch and annotation are both back. */
static void
adopt_settled(struct wp_claim_pass *pass)
{
    pass->entry->adopting = false;
    switch (wp_claim_fate(pass->answered)) {
    case WP_FATE_DONE:
        adopted(pass);
        return;
    case WP_FATE_LOOK:
        if (pass->answered == WP_ABORTED) {
            wp_counter_add(&pass->self->metrics.conflicts, 1);
        }
        read_sandbox(pass, pass->sandbox->name);
        return;
    case WP_FATE_REFUSED:
        adoption_refused(pass);
        return;
    case WP_FATE_RETRY:
        wp_claim_pass_end(pass,
                          pass->after_ns != WP_TIME_NEVER ? WP_WORK_AFTER
                                                          : WP_WORK_FAILED,
                          pass->after_ns);
        return;
    case WP_FATE_STOP:
        wp_claim_pass_end(pass, WP_WORK_OK, 0);
        return;
    }
}

static void
adopt_answered(void *ctx, const struct wp_api_result *result)
{
    wp_claim_keep_answer(ctx, result);
}

void
wp_claim_adopt(struct wp_claim_pass *pass)
{
    struct wp_adoption adoption = adoption_of(pass);
    struct wp_api_target target = wp_claim_target(pass->sandbox, WP_HTTP_CLAIM);
    json_t *patch;

    if (!wp_claim_pass_may_write(pass)) {
        return;
    }
    patch = wp_adoption_patch(&adoption, pass->sandbox, &pass->err);
    if (patch == NULL) {
        adoption_refused(pass);
        return;
    }
    wp_fault("claim.before_adopt");
    wp_claim_pass_brings(pass, adoption.templ);
    pass->entry->adopting = true;
    pass->next = adopt_settled;
    pass->awaited = 1;
    wp_counter_add(&pass->self->metrics.writes[WP_CLAIM_WRITE_SANDBOX], 1);
    wp_api_patch(pass->self->parts->api, &target, patch, adopt_answered, pass);
    wp_claim_stamp_adopting(pass);
    wp_fault("claim.adopt_sent");
}

static bool
is_ready(const struct wp_object *sandbox)
{
    const struct wp_sandbox_view *view = wp_sandbox_view(sandbox);

    return view->ready.status == WP_CONDITION_TRUE && view->pod_ip[0] != '\0';
}

/* The core has granted one: the object must be there, for it became ready by a
 * watch event. */
static void
take_granted(struct wp_claim_pass *pass)
{
    const struct wp_grant *grant =
        &wp_claim_ask_answer(pass->entry->ask)->grant;
    const struct wp_object *sandbox =
        wp_store_find(pass->self->parts->stores[WP_KIND_SANDBOX],
                      pass->claim->ns, grant->sandbox);

    if (sandbox == NULL) {
        read_sandbox(pass, grant->sandbox);
        return;
    }
    wp_claim_pass_set_sandbox(pass, sandbox);
    if (!wp_object_controlled_by_kind(sandbox, WP_KIND_SANDBOX_WARM_POOL) ||
        sandbox->deleting) {
        see_sandbox(pass);
    } else if (is_ready(sandbox)) {
        wp_claim_adopt(pass);
    } else {
        /* The core has not heard of it yet. */
        lost(pass, "the sandbox is not Ready any more");
    }
}
