/* k8s/controllers/claim/warm.c - a claim gets a warm sandbox.
 *
 *   ask     the core grants one, or the claim waits for the next
 *   adopt   PATCH Sandbox with its resourceVersion || the claim's annotations
 *             409, lost answer: GET it and see
 *               the claim's: done | still the pool's: again | else: lost
 *   bring   its variables, where the pool binds them (bring.c)
 *   write   one status patch
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
#include "k8s/controllers/verdicts.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "k8s/objects/owner.h"
#include "pool/base/assert.h"
#include "pool/base/extreme.h"
#include "pool/base/log.h"

/* creationTimestamp knows whole seconds only: a claim that was seen so soon
 * after it has its time counted from when it was seen. */
#define CREATION_SLACK_NS (3 * WP_NS_PER_S / 2)

static struct wp_adoption
adoption_of(const struct wp_claim_reconcile *reconcile)
{
    return (struct wp_adoption){reconcile->claim, reconcile->additional,
                                wp_claim_reconcile_template(reconcile),
                                wp_claim_brings(reconcile)};
}

/* --- Asking --- */

/* By its pool's annotation cold-start, else by the setting. */
static bool
may_start_cold(const struct wp_claim_reconcile *reconcile)
{
    struct wp_pools *pools = reconcile->self->parts->core.pools;
    uint32_t index = wp_pools_index(pools, wp_str_from(reconcile->claim->ns),
                                    wp_str_from(reconcile->pool));
    struct wp_pool_stats stats;

    if (index != UINT32_MAX) {
        wp_pools_stats(pools, index, &stats);
        if (stats.spec.cold_start_said) {
            return stats.spec.cold_start == WP_COLD_ALLOWED;
        }
    }
    return reconcile->self->parts->config.cold_start;
}

/* What is left of the time in which it rather waits than starts cold. */
static int64_t
grace_left_ns(const struct wp_claim_reconcile *reconcile)
{
    int64_t created = reconcile->claim->created_wall_ms * WP_NS_PER_MS;
    int64_t seen = reconcile->entry->seen_wall_ns;
    int64_t start = seen - created < CREATION_SLACK_NS ? seen : created;
    int64_t grace = reconcile->self->parts->config.cold_grace_ns;
    int64_t left = start + grace - wp_claim_reconcile_wall_ns(reconcile);

    return wp_min_i64(wp_max_i64(left, 0), grace);
}

/* How long it is to wait for a sandbox of its pool. Not at all when none is
 * being made, or about to be, nor when waiting is in vain: the grace would be
 * over before its turn, or a sandbox of its own is there sooner. That one is
 * taken to need as long as the pool's. */
static int64_t
wait_ns(const struct wp_claim_reconcile *reconcile)
{
    struct wp_pools *pools = reconcile->self->parts->core.pools;
    const char *name = reconcile->pool;
    uint32_t index = wp_pools_index(pools, wp_str_from(reconcile->claim->ns),
                                    wp_str_from(name));
    int64_t grace = grace_left_ns(reconcile);
    struct wp_pool_stats stats;
    struct wp_pool_outlook outlook;

    if (index == UINT32_MAX) {
        return 0;
    }
    wp_pools_stats(pools, index, &stats);
    if (stats.draining || (stats.ready == 0 && stats.warming == 0 &&
                           (stats.spec.target == 0 || stats.breaker_open))) {
        return 0;
    }
    return wp_pools_outlook(pools, index, &outlook) &&
                   outlook.wait_ns > wp_min_i64(grace, outlook.lead_ns)
               ? 0
               : grace;
}

static void
ask(struct wp_claim_reconcile *reconcile)
{
    int64_t wait =
        may_start_cold(reconcile) ? wait_ns(reconcile) : WP_WAIT_MAX_NS;

    wp_fault("claim.before_claim");
    reconcile->entry->ask = wp_claim_ask_begin(
        reconcile->self->asks, reconcile->claim, reconcile->pool, wait);
    wp_fault("claim.after_claim");
    if (wp_claim_ask_status(reconcile->entry->ask) == WP_PENDING) {
        wp_counter_add(&reconcile->self->metrics.queued, 1);
    }
}

/* Why no sandbox of its pool can be made; NULL. */
static const char *
template_refusal(const struct wp_claim_reconcile *reconcile)
{
    const struct wp_object *templ = wp_claim_reconcile_template(reconcile);

    return templ == NULL
               ? NULL
               : wp_verdicts_refusal(reconcile->self->parts->verdicts, templ);
}

/* It waits on all the same: another template may take this one's place. One
 * that starts cold hears it from its own Sandbox. */
static void
say_refusal(struct wp_claim_reconcile *reconcile, const char *refusal)
{
    (void)wp_err_set(&reconcile->err, WP_FAILED_PRECONDITION,
                     "The API server refuses every Pod of SandboxTemplate "
                     "\"%.63s\": %s",
                     wp_claim_reconcile_template(reconcile)->name, refusal);
    wp_claim_reconcile_say(reconcile, WP_REASON_ERROR, reconcile->err.msg,
                           WP_WORK_OK, WP_TIME_NEVER);
}

/* It waits in the core's queue, which holds no worker: the reconcile ends, and
 * the answer begins another one, or the end of the claim's time does. People
 * are told once the wait is a long one, or when it had a sandbox that is
 * gone. */
static void
leave_waiting(struct wp_claim_reconcile *reconcile)
{
    bool cold = may_start_cold(reconcile);
    int64_t left = grace_left_ns(reconcile);
    const char *refusal = template_refusal(reconcile);

    if (!cold && refusal != NULL) {
        say_refusal(reconcile, refusal);
        return;
    }
    if (!cold && left == 0) {
        (void)wp_err_set(&reconcile->err, WP_PENDING,
                         "Waiting for a warm sandbox of SandboxWarmPool "
                         "\"%s\"; cold starts are off",
                         reconcile->pool);
        wp_claim_reconcile_say(reconcile, "SandboxNotReady", reconcile->err.msg,
                               WP_WORK_OK, WP_TIME_NEVER);
        return;
    }
    wp_claim_annotations_observed(reconcile, false);
    reconcile->after_ns = cold ? WP_TIME_NEVER : left;
    wp_claim_reconcile_rest(reconcile);
}

/* The core has a lease for this claim that is of no use: its sandbox has died,
 * or it is of a pool that the claim named before. */
static void
end_old_lease(struct wp_claim_reconcile *reconcile)
{
    struct wp_pools *pools = reconcile->self->parts->core.pools;
    struct wp_claim_info info;

    if (wp_pools_get(pools, WP_STR(WP_TENANT_SANDBOX_CLAIMS),
                     wp_str_from(reconcile->claim->uid), &info) == WP_OK &&
        !info.waiting) {
        wp_pools_end(pools, info.ref);
    }
    wp_claim_reconcile_end(reconcile, WP_WORK_FAILED, 0);
}

static void take_granted(struct wp_claim_reconcile *reconcile);

/* The pool allows no more: a Sandbox beside it would go round the quota. */
static void
say_over_quota(struct wp_claim_reconcile *reconcile, enum wp_quota_kind kind,
               uint32_t most, int64_t after_ns)
{
    static const char *const what[] = {
        [WP_QUOTA_LEASES] = "held or waiting at most",
        [WP_QUOTA_WAITING] = "waiting at most",
        [WP_QUOTA_RATE] = "new in a minute at most",
    };

    (void)wp_err_set(
        &reconcile->err, WP_RESOURCE_EXHAUSTED,
        "SandboxWarmPool \"%s\" allows SandboxClaims no more: %s %u; "
        "delete some, or raise the quota",
        reconcile->pool, what[kind], most);
    wp_claim_reconcile_say(reconcile, WP_REASON_QUOTA, reconcile->err.msg,
                           WP_WORK_AFTER, after_ns);
}

/* The core did not grant one. */
static void
refused(struct wp_claim_reconcile *reconcile, enum wp_status status)
{
    const struct wp_claim *answer = wp_claim_ask_answer(reconcile->entry->ask);
    enum wp_quota_kind kind = answer->quota;
    uint32_t most = answer->quota_max;
    int64_t after_ns = answer->retry_after_ns;
    bool cold = may_start_cold(reconcile);

    wp_claim_entry_drop_ask(reconcile->entry);
    if (status == WP_FAILED_PRECONDITION || status == WP_ALREADY_EXISTS) {
        end_old_lease(reconcile);
        return;
    }
    if (status == WP_RESOURCE_EXHAUSTED && kind != WP_QUOTA_NOT) {
        say_over_quota(reconcile, kind, most,
                       after_ns > WP_NS_PER_S ? after_ns : WP_NS_PER_S);
        return;
    }
    /* NOT_FOUND: the core has not heard of the pool yet. UNAVAILABLE: the pool
     * drains, or the lease store is out of reach. ABORTED: the last lease of
     * this claim is just ending. */
    if (cold && (status == WP_RESOURCE_EXHAUSTED ||
                 (status != WP_ABORTED && grace_left_ns(reconcile) == 0))) {
        wp_claim_reconcile_go(reconcile, WP_CLAIM_CREATE);
        return;
    }
    wp_claim_reconcile_end(reconcile, WP_WORK_FAILED, 0);
}

static void
go_by_answer(struct wp_claim_reconcile *reconcile)
{
    enum wp_status status = wp_claim_ask_status(reconcile->entry->ask);

    if (status == WP_PENDING) {
        leave_waiting(reconcile);
        return;
    }
    wp_claim_reconcile_traced(reconcile, "grant", status);
    if (status == WP_OK) {
        take_granted(reconcile);
    } else {
        refused(reconcile, status);
    }
}

void
wp_claim_warm(struct wp_claim_reconcile *reconcile)
{
    struct wp_claim_entry *entry = reconcile->entry;
    const char *pool = reconcile->pool;

    if (reconcile->additional != NULL || wp_claim_brings(reconcile)) {
        /* It must not take a sandbox that it cannot adopt then. */
        const struct wp_object *templ = wp_claim_reconcile_template(reconcile);

        if (templ == NULL) {
            wp_claim_reconcile_miss(
                reconcile, WP_KIND_SANDBOX_TEMPLATE,
                wp_warm_pool_view(wp_claim_reconcile_pool(reconcile))
                    ->template_name);
            return;
        }
        if (wp_claim_brings(reconcile) &&
            !wp_claim_may_bring(reconcile, templ)) {
            return;
        }
        if (wp_adoption_check(templ, reconcile->additional, &reconcile->err) !=
            WP_OK) {
            (void)wp_err_wrap(&reconcile->err, "Error seen");
            wp_claim_reconcile_refuse(reconcile, WP_REASON_ERROR,
                                      reconcile->err.msg, WP_WORK_FAILED, 0);
            return;
        }
    }
    if (entry->ask != NULL &&
        strcmp(wp_claim_ask_pool(entry->ask), pool) != 0) {
        wp_claim_entry_drop_ask(entry);
    }
    if (entry->ask == NULL) {
        ask(reconcile);
    }
    go_by_answer(reconcile);
}

/* --- Adopting --- */

/* The sandbox that was granted is not to be had: on with another one. */
static void
lost(struct wp_claim_reconcile *reconcile, const char *why)
{
    struct wp_claim_ask *held = reconcile->entry->ask;

    wp_log_warn("claim: its sandbox was lost before it was adopted",
                wp_kv_str("namespace", reconcile->claim->ns),
                wp_kv_str("claim", reconcile->claim->name),
                wp_kv_str("reason", why));
    wp_counter_add(&reconcile->self->metrics.lost, 1);
    wp_claim_annotations_too_early(reconcile);
    if (held != NULL) {
        reconcile->entry->ask = NULL;
        wp_claim_ask_lose(held, why);
    }
    wp_claim_reconcile_go(reconcile, WP_CLAIM_AGAIN);
}

/* The Sandbox is the claim's, for good. */
static void
adopted(struct wp_claim_reconcile *reconcile)
{
    struct wp_claim_entry *entry = reconcile->entry;
    struct wp_claim_ask *held = entry->ask;

    wp_fault("claim.after_adopt");
    entry->ask = NULL;
    if (held != NULL) {
        wp_claim_ask_keep(held);
    }
    wp_claim_reconcile_brought(reconcile);
    wp_claim_count_created(reconcile, WP_LAUNCH_WARM);
    if (reconcile->self->parts->config.claim_events) {
        wp_claim_event(reconcile->self->parts->events, reconcile->claim,
                       WP_CLAIM_ADOPTED, reconcile->sandbox->name);
    }
    reconcile->outcome.sandbox = reconcile->sandbox;
    wp_claim_bring(reconcile);
}

/* In the pool that the claim names; not in one of that name which is gone. */
static bool
is_to_be_had(const struct wp_claim_reconcile *reconcile,
             const struct wp_object *sandbox)
{
    return !sandbox->deleting &&
           wp_owner_is_pool(sandbox, wp_claim_reconcile_pool(reconcile));
}

/* What the API server says of the Sandbox. */
static void
see_sandbox(struct wp_claim_reconcile *reconcile)
{
    const struct wp_object *sandbox = reconcile->sandbox;

    if (wp_object_controlled_by(sandbox, reconcile->claim->uid)) {
        adopted(reconcile);
    } else if (is_to_be_had(reconcile, sandbox)) {
        if (++reconcile->rounds > WP_CLAIM_ROUNDS_MAX) {
            wp_claim_reconcile_end(reconcile, WP_WORK_FAILED, 0);
        } else {
            wp_claim_adopt(reconcile);
        }
    } else {
        lost(reconcile, "somebody else has taken the sandbox");
    }
}

static void
sandbox_read(void *ctx, const struct wp_api_result *result)
{
    struct wp_claim_reconcile *reconcile = ctx;
    const struct wp_object *sandbox;

    if (result->status == WP_NOT_FOUND) {
        reconcile->entry->in_doubt = false;
        lost(reconcile, "the sandbox is gone");
        return;
    }
    sandbox = wp_claim_learn(reconcile->self, result);
    if (sandbox == NULL) {
        wp_claim_reconcile_retry(reconcile, result);
        return;
    }
    wp_claim_reconcile_set_sandbox(reconcile, sandbox);
    wp_object_unref(sandbox);
    reconcile->entry->in_doubt = false;
    see_sandbox(reconcile);
}

static void
read_sandbox(struct wp_claim_reconcile *reconcile, const char *name)
{
    struct wp_api_target target = {.kind = WP_KIND_SANDBOX,
                                   .ns = reconcile->claim->ns,
                                   .name = name,
                                   .priority = WP_HTTP_CLAIM};

    wp_api_get(reconcile->self->parts->api, &target, sandbox_read, reconcile);
}

/* The API server will not have this adoption: the sandbox goes back to others,
 * and people are told why. */
static void
adoption_refused(struct wp_claim_reconcile *reconcile)
{
    (void)wp_err_wrap(&reconcile->err, "Error seen: adopting sandbox \"%s\"",
                      reconcile->sandbox->name);
    wp_claim_reconcile_refuse(reconcile, WP_REASON_ERROR, reconcile->err.msg,
                              WP_WORK_FAILED, 0);
}

/* Patch and annotation are both back. */
static void
adopt_settled(struct wp_claim_reconcile *reconcile)
{
    wp_claim_state_move(&reconcile->entry->adoption, WP_WRITE_NONE);
    reconcile->entry->in_doubt =
        wp_claim_fate(reconcile->answered) == WP_FATE_LOOK;
    switch (wp_claim_fate(reconcile->answered)) {
    case WP_FATE_DONE:
        wp_claim_reconcile_traced(reconcile, "adopt", WP_OK);
        adopted(reconcile);
        return;
    case WP_FATE_LOOK:
        if (reconcile->answered == WP_ABORTED) {
            wp_counter_add(&reconcile->self->metrics.conflicts, 1);
        }
        read_sandbox(reconcile, reconcile->sandbox->name);
        return;
    case WP_FATE_REFUSED:
        adoption_refused(reconcile);
        return;
    case WP_FATE_RETRY:
        wp_claim_reconcile_end(reconcile,
                               reconcile->after_ns != WP_TIME_NEVER
                                   ? WP_WORK_AFTER
                                   : WP_WORK_FAILED,
                               reconcile->after_ns);
        return;
    case WP_FATE_STOP:
        wp_claim_reconcile_end(reconcile, WP_WORK_OK, 0);
        return;
    }
}

void
wp_claim_adopt(struct wp_claim_reconcile *reconcile)
{
    struct wp_adoption adoption = adoption_of(reconcile);
    struct wp_api_target target =
        wp_object_target(reconcile->sandbox, WP_HTTP_CLAIM);
    json_t *patch;

    if (!wp_claim_reconcile_may_write(reconcile)) {
        return;
    }
    patch = wp_adoption_patch(&adoption, reconcile->sandbox, &reconcile->err);
    if (patch == NULL) {
        adoption_refused(reconcile);
        return;
    }
    wp_fault("claim.before_adopt");
    wp_claim_reconcile_brings(reconcile, adoption.templ);
    wp_claim_state_move(&reconcile->entry->adoption, WP_WRITE_SENT);
    reconcile->next = adopt_settled;
    reconcile->awaited = 1;
    wp_counter_add(&reconcile->self->metrics.writes[WP_CLAIM_WRITE_SANDBOX], 1);
    wp_api_patch(reconcile->self->parts->api, &target, patch,
                 wp_claim_reconcile_keep_answer, reconcile);
    wp_claim_annotations_adopting(reconcile);
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
take_granted(struct wp_claim_reconcile *reconcile)
{
    const struct wp_grant *grant =
        &wp_claim_ask_answer(reconcile->entry->ask)->grant;
    const struct wp_object *sandbox =
        wp_store_find(reconcile->self->parts->stores[WP_KIND_SANDBOX],
                      reconcile->claim->ns, grant->sandbox);

    if (sandbox == NULL) {
        read_sandbox(reconcile, grant->sandbox);
        return;
    }
    wp_claim_reconcile_set_sandbox(reconcile, sandbox);
    if (!is_to_be_had(reconcile, sandbox)) {
        see_sandbox(reconcile);
    } else if (is_ready(sandbox)) {
        wp_claim_adopt(reconcile);
    } else {
        /* The core has not heard of it yet. */
        lost(reconcile, "the sandbox is not Ready any more");
    }
}
