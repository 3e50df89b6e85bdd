/* k8s/controllers/claim/step.c - what every step of a reconcile may use: its
 * end, its objects, and what a call's status means. */
#include <stdlib.h>
#include <string.h>

#include "k8s/controllers/claim/reconcile.h"
#include "k8s/objects/names.h"
#include "k8s/objects/trace.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"

enum wp_claim_fate
wp_claim_fate(enum wp_status status)
{
    static const enum wp_claim_fate fates[WP_STATUS_COUNT] = {
        [WP_OK] = WP_FATE_DONE,
        [WP_PENDING] = WP_FATE_RETRY,
        [WP_CANCELLED] = WP_FATE_STOP,
        [WP_INVALID_ARGUMENT] = WP_FATE_REFUSED,
        [WP_DEADLINE_EXCEEDED] = WP_FATE_RETRY,
        [WP_NOT_FOUND] = WP_FATE_LOOK,
        [WP_ALREADY_EXISTS] = WP_FATE_LOOK,
        [WP_PERMISSION_DENIED] = WP_FATE_REFUSED,
        [WP_RESOURCE_EXHAUSTED] = WP_FATE_RETRY,
        [WP_FAILED_PRECONDITION] = WP_FATE_RETRY,
        [WP_ABORTED] = WP_FATE_LOOK,
        [WP_UNIMPLEMENTED] = WP_FATE_RETRY,
        [WP_INTERNAL] = WP_FATE_RETRY,
        [WP_UNAVAILABLE] = WP_FATE_RETRY,
        [WP_UNAUTHENTICATED] = WP_FATE_RETRY,
        [WP_TAKEN] = WP_FATE_RETRY,
        [WP_UNKNOWN_OUTCOME] = WP_FATE_LOOK,
    };

    return fates[status];
}

void
wp_claim_reconcile_end(struct wp_claim_reconcile *reconcile,
                       enum wp_work_outcome outcome, int64_t after_ns)
{
    struct wp_work *work = reconcile->work;

    WP_ASSERT(reconcile->awaited == 0);
    wp_object_unref(reconcile->claim);
    wp_object_unref(reconcile->sandbox);
    json_decref(reconcile->additional);
    free(reconcile);
    wp_work_done(work, outcome, after_ns);
}

void
wp_claim_reconcile_retry(struct wp_claim_reconcile *reconcile,
                         const struct wp_api_result *result)
{
    if (result->status == WP_CANCELLED) {
        wp_claim_reconcile_end(reconcile, WP_WORK_OK, 0);
    } else if (result->retry_after_ns > 0) {
        wp_claim_reconcile_end(reconcile, WP_WORK_AFTER,
                               result->retry_after_ns);
    } else {
        wp_log_debug(
            "claim: a call failed",
            wp_kv_str("namespace", reconcile->claim->ns),
            wp_kv_str("claim", reconcile->claim->name),
            wp_kv_str("status", wp_status_name(result->status)),
            wp_kv_str("error", result->message != NULL ? result->message : ""));
        wp_claim_reconcile_end(reconcile, WP_WORK_FAILED, 0);
    }
}

void
wp_claim_reconcile_arrive(struct wp_claim_reconcile *reconcile)
{
    WP_ASSERT(reconcile->awaited > 0);
    if (--reconcile->awaited == 0) {
        reconcile->next(reconcile);
    }
}

/* --- Its client's trace --- */

struct wp_claim_entry *
wp_claim_first_seen(struct wp_claim_controller *self,
                    const struct wp_object *claim)
{
    struct wp_claim_entry *entry = wp_claim_cache_enter(self->cache, claim);
    struct wp_trace_context client;

    entry->seen_mono_ns = wp_clock_mono_ns(self->parts->clock);
    entry->seen_wall_ns = wp_clock_wall_ns(self->parts->clock);
    if (self->parts->config.tracer != NULL) {
        (void)wp_object_trace(claim, &client);
        wp_trace_begin(&entry->trace, self->parts->config.tracer, &client,
                       entry->seen_mono_ns);
    }
    return entry;
}

static struct wp_span
span_of(const struct wp_claim_reconcile *reconcile, const char *name,
        enum wp_status status)
{
    struct wp_span span = {
        .name = name, .kind = WP_SPAN_INTERNAL, .status = status};

    WP_SPAN_TEXT(span.pool_namespace, wp_str_from(reconcile->claim->ns));
    WP_SPAN_TEXT(span.pool, wp_str_from(reconcile->pool));
    WP_SPAN_TEXT(span.claim, wp_str_from(reconcile->claim->name));
    if (reconcile->sandbox != NULL) {
        WP_SPAN_TEXT(span.sandbox, wp_str_from(reconcile->sandbox->name));
    }
    return span;
}

void
wp_claim_reconcile_traced(struct wp_claim_reconcile *reconcile,
                          const char *what, enum wp_status status)
{
    struct wp_trace *trace = &reconcile->entry->trace;

    if (trace->tracer != NULL) {
        struct wp_span span = span_of(reconcile, what, status);

        wp_trace_step(trace, &span,
                      wp_clock_mono_ns(reconcile->self->parts->clock));
    }
}

void
wp_claim_reconcile_trace_ends(struct wp_claim_reconcile *reconcile)
{
    struct wp_trace *trace = &reconcile->entry->trace;

    if (trace->tracer != NULL) {
        struct wp_span span = span_of(reconcile, "SandboxClaim", WP_OK);

        wp_trace_end(trace, &span,
                     wp_clock_mono_ns(reconcile->self->parts->clock));
    }
}

bool
wp_claim_reconcile_may_write(struct wp_claim_reconcile *reconcile)
{
    if (!reconcile->self->parts->active) {
        /* Whoever leads now looks at every claim. */
        wp_claim_reconcile_end(reconcile, WP_WORK_OK, 0);
        return false;
    }
    return true;
}

int64_t
wp_claim_reconcile_wall_ns(const struct wp_claim_reconcile *reconcile)
{
    return wp_clock_wall_ns(reconcile->self->parts->clock);
}

const struct wp_object *
wp_claim_learn(struct wp_claim_controller *self,
               const struct wp_api_result *result)
{
    struct wp_store *store = self->parts->stores[result->kind];
    struct wp_object *object;
    const struct wp_object *known;
    struct wp_err err;

    if (result->status != WP_OK || result->object == NULL) {
        return NULL;
    }
    object = wp_object_create(result->kind, result->object, &err);
    if (object == NULL) {
        wp_log_warn("claim: an answer makes no sense",
                    wp_kv_str("kind", wp_kind_info(result->kind)->kind),
                    wp_kv_err(&err));
        return NULL;
    }
    if (object->kind == WP_KIND_SANDBOX &&
        wp_object_label(object, WP_LABEL_ALIAS) != NULL) {
        wp_object_unref(object); /* It only shows another one. */
        return NULL;
    }
    wp_store_learn(store, wp_object_ref(object));
    known = wp_store_find(store, object->ns, object->name);
    if (known != NULL && known != object &&
        strcmp(known->uid, object->uid) == 0) {
        known = wp_object_ref(known);
        wp_object_unref(object);
        return known;
    }
    return object;
}

void
wp_claim_reconcile_reread(void *ctx, const struct wp_api_result *result)
{
    struct wp_claim_reconcile *reconcile = ctx;

    if (result->status == WP_OK && result->object != NULL) {
        wp_object_unref(wp_claim_learn(reconcile->self, result));
        wp_claim_reconcile_go(reconcile, WP_CLAIM_AGAIN);
    } else if (result->status == WP_NOT_FOUND) {
        wp_claim_reconcile_end(reconcile, WP_WORK_OK, 0);
    } else {
        wp_claim_reconcile_retry(reconcile, result);
    }
}

void
wp_claim_reconcile_set_sandbox(struct wp_claim_reconcile *reconcile,
                               const struct wp_object *sandbox)
{
    const struct wp_object *before = reconcile->sandbox;

    reconcile->sandbox = sandbox == NULL ? NULL : wp_object_ref(sandbox);
    wp_object_unref(before);
}

bool
wp_claim_reconcile_refresh(struct wp_claim_reconcile *reconcile)
{
    const struct wp_object *known =
        wp_store_find(reconcile->self->parts->stores[WP_KIND_SANDBOX_CLAIM],
                      reconcile->claim->ns, reconcile->claim->name);

    if (known == NULL || known->deleting ||
        strcmp(known->uid, reconcile->claim->uid) != 0) {
        /* Its own events bring it back, if there is anything to do. */
        wp_claim_reconcile_end(reconcile, WP_WORK_OK, 0);
        return false;
    }
    if (known != reconcile->claim) {
        known = wp_object_ref(known);
        wp_object_unref(reconcile->claim);
        reconcile->claim = known;
    }
    return true;
}

void
wp_claim_reconcile_go(struct wp_claim_reconcile *reconcile,
                      enum wp_claim_step step)
{
    WP_ASSERT(step < WP_CLAIM_STEP_COUNT && reconcile->steps[step] != NULL);
    reconcile->steps[step](reconcile);
}

bool
wp_claim_reconcile_holds(struct wp_claim_reconcile *reconcile)
{
    if (reconcile->claim->generation == reconcile->decided_on) {
        return true;
    }
    wp_claim_reconcile_go(reconcile, WP_CLAIM_AGAIN);
    return false;
}
