/* k8s/controllers/claim/annotations.c - the annotations of a claim, written off
 * the way.
 *
 * They are written without a precondition: nobody else writes these keys. The
 * answers find the claim by its name and uid, for the reconcile may be over. */
#include <stdlib.h>
#include <string.h>

#include "k8s/controllers/claim/reconcile.h"
#include "k8s/controllers/fault.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"

/* Annotations that failed are tried again after this. */
#define ANNOTATIONS_AGAIN_NS (5 * WP_NS_PER_S)

struct annotation_call {
    struct wp_claim_controller *self;
    char *ns; /* These three lie behind it. */
    char *name;
    char *uid;
};

static struct annotation_call *
call_create(struct wp_claim_reconcile *reconcile)
{
    const struct wp_claim_entry *entry = reconcile->entry;
    size_t ns = strlen(entry->key.ns) + 1;
    size_t name = strlen(entry->key.name) + 1;
    size_t uid = strlen(entry->uid) + 1;
    struct annotation_call *call = calloc(1, sizeof *call + ns + name + uid);

    WP_ASSERT(call != NULL);
    call->self = reconcile->self;
    call->ns = (char *)(call + 1);
    call->name = call->ns + ns;
    call->uid = call->name + name;
    memcpy(call->ns, entry->key.ns, ns);
    memcpy(call->name, entry->key.name, name);
    memcpy(call->uid, entry->uid, uid);
    return call;
}

/* The entry of the claim that it was written for; NULL when that is gone. */
static struct wp_claim_entry *
call_entry(const struct annotation_call *call)
{
    struct wp_claim_entry *entry =
        wp_claim_cache_find(call->self->cache, call->ns, call->name);

    return entry != NULL && strcmp(entry->uid, call->uid) == 0 ? entry : NULL;
}

/* The current time as an annotation; never on a whole second, so that readers
 * see that it is finer than that. */
static json_t *
time_text(int64_t wall_ns)
{
    char text[40];

    (void)wp_time_format_utc(wall_ns % WP_NS_PER_S == 0 ? wall_ns + 1 : wall_ns,
                             9, text);
    return json_string(text);
}

static json_t *
annotations_patch(const struct wp_claim_entry *entry, json_t *annotations)
{
    json_t *metadata = json_object();

    /* Not of another claim that has got the name meanwhile. */
    (void)wp_json_set_text(metadata, "uid", entry->uid);
    (void)wp_json_set(metadata, "annotations", annotations);
    return wp_json_set(json_object(), "metadata", metadata);
}

static bool
has_annotation(const struct wp_object *claim, const char *key)
{
    const char *text = wp_object_annotation(claim, key);

    return text != NULL && text[0] != '\0';
}

/* A reconcile that had something to write has left it until now. */
static bool
look_again(struct wp_claim_controller *self, struct wp_claim_entry *entry)
{
    bool again = entry->again;

    entry->again = false;
    if (again) {
        wp_work_add(self->queue, entry->key.ns, entry->key.name, false);
    }
    return again;
}

/* The answer may be for an earlier entry of the same object, which the watch
 * had lost for a while: only a write that is on its way moves. */
static void
settle(enum wp_claim_state *state, const struct wp_api_result *result)
{
    if (*state == WP_WRITE_SENT) {
        wp_claim_state_move(state, result->status == WP_OK ? WP_WRITE_DONE
                                                           : WP_WRITE_NONE);
    }
}

/* --- First observed --- */

static void
observed_answered(void *ctx, const struct wp_api_result *result)
{
    struct annotation_call *call = ctx;
    struct wp_claim_controller *self = call->self;
    struct wp_claim_entry *entry = call_entry(call);
    struct wp_claim_reconcile *reconcile;

    wp_object_unref(wp_claim_learn(self, result));
    free(call);
    if (entry == NULL) {
        return;
    }
    /* When it failed, all go after Ready. */
    settle(&entry->observed, result);
    if (entry->first_ready == WP_FIRST_READY_AHEAD && result->status != WP_OK) {
        wp_claim_state_move(&entry->first_ready, WP_FIRST_READY_AFTER);
    }
    reconcile = entry->joins;
    entry->joins = NULL;
    if (reconcile != NULL) {
        wp_claim_reconcile_arrive(reconcile);
    } else {
        (void)look_again(self, entry);
    }
}

/* Is there none, and is none on its way? */
static bool
wants_observed(const struct wp_claim_reconcile *reconcile)
{
    return reconcile->self->parts->config.observability_annotations &&
           reconcile->entry->observed != WP_WRITE_DONE &&
           !has_annotation(reconcile->claim, WP_ANNOTATION_FIRST_OBSERVED);
}

/* Sends it, with more beside it; takes annotations. */
static void
send_observed(struct wp_claim_reconcile *reconcile, json_t *annotations)
{
    struct wp_claim_entry *entry = reconcile->entry;
    struct wp_api_target target =
        wp_object_target(reconcile->claim, WP_HTTP_CLAIM);

    (void)wp_json_set(annotations, WP_ANNOTATION_FIRST_OBSERVED,
                      time_text(entry->seen_wall_ns));
    wp_claim_state_move(&entry->observed, WP_WRITE_SENT);
    wp_counter_add(&reconcile->self->metrics.writes[WP_CLAIM_WRITE_OBSERVED],
                   1);
    wp_api_patch(reconcile->self->parts->api, &target,
                 annotations_patch(entry, annotations), observed_answered,
                 call_create(reconcile));
}

/* The reconcile goes on once it is answered. */
static void
await(struct wp_claim_reconcile *reconcile)
{
    reconcile->entry->joins = reconcile;
    reconcile->awaited++;
}

void
wp_claim_annotations_observed(struct wp_claim_reconcile *reconcile, bool joins)
{
    if (!wants_observed(reconcile)) {
        return;
    }
    if (joins) {
        await(reconcile);
    }
    if (reconcile->entry->observed != WP_WRITE_SENT) {
        send_observed(reconcile, json_object());
    }
}

void
wp_claim_annotations_adopting(struct wp_claim_reconcile *reconcile)
{
    struct wp_claim_entry *entry = reconcile->entry;
    json_t *annotations;

    if (!wants_observed(reconcile)) {
        return;
    }
    await(reconcile);
    if (entry->observed == WP_WRITE_SENT) {
        return;
    }
    entry->announced = true;
    annotations = wp_json_set_text(json_object(), WP_ANNOTATION_SANDBOX_NAME,
                                   reconcile->sandbox->name);
    if (wp_sandbox_view(reconcile->sandbox)->ready.status ==
            WP_CONDITION_TRUE &&
        !has_annotation(reconcile->claim, WP_ANNOTATION_FIRST_READY)) {
        (void)wp_json_set(annotations, WP_ANNOTATION_FIRST_READY,
                          time_text(wp_claim_reconcile_wall_ns(reconcile)));
        wp_claim_state_move(&entry->first_ready, WP_FIRST_READY_AHEAD);
    }
    send_observed(reconcile, annotations);
}

void
wp_claim_annotations_too_early(struct wp_claim_reconcile *reconcile)
{
    if (reconcile->entry->first_ready == WP_FIRST_READY_AHEAD &&
        !reconcile->entry->measured) {
        wp_claim_state_move(&reconcile->entry->first_ready,
                            WP_FIRST_READY_ANEW);
    }
}

/* --- After Ready --- */

static void
ready_answered(void *ctx, const struct wp_api_result *result)
{
    struct annotation_call *call = ctx;
    struct wp_claim_controller *self = call->self;
    struct wp_claim_entry *entry = call_entry(call);

    wp_object_unref(wp_claim_learn(self, result));
    if (entry != NULL) {
        settle(&entry->annotated, result);
        if (entry->first_ready == WP_FIRST_READY_ANEW &&
            result->status == WP_OK) {
            wp_claim_state_move(&entry->first_ready, WP_FIRST_READY_AFTER);
        }
        if (!look_again(self, entry) && result->status != WP_OK &&
            result->status != WP_NOT_FOUND && result->status != WP_CANCELLED) {
            wp_work_add_after(self->queue, call->ns, call->name,
                              ANNOTATIONS_AGAIN_NS);
        }
    }
    free(call);
}

/* What is missing of them; empty: nothing. */
static json_t *
missing_annotations(const struct wp_claim_reconcile *reconcile)
{
    const struct wp_object *claim = reconcile->claim;
    const char *reserved =
        wp_object_annotation(claim, WP_ANNOTATION_SANDBOX_NAME);
    const char *name = reconcile->outcome.sandbox->name;
    json_t *annotations = json_object();

    /* Made for the claim, a Sandbox has its name and needs no pointer. */
    if (strcmp(name, claim->name) != 0 &&
        (reserved == NULL || strcmp(reserved, name) != 0)) {
        (void)wp_json_set_text(annotations, WP_ANNOTATION_SANDBOX_NAME, name);
    }
    if (!has_annotation(claim, WP_ANNOTATION_FIRST_READY) ||
        reconcile->entry->first_ready == WP_FIRST_READY_ANEW) {
        /* Ready before this process looked: nobody knows since when. */
        (void)wp_json_set(annotations, WP_ANNOTATION_FIRST_READY,
                          reconcile->entry->measured
                              ? time_text(wp_claim_reconcile_wall_ns(reconcile))
                              : json_string("unknown"));
    }
    if (reconcile->self->parts->config.observability_annotations &&
        reconcile->entry->observed == WP_WRITE_NONE &&
        !has_annotation(claim, WP_ANNOTATION_FIRST_OBSERVED)) {
        (void)wp_json_set(annotations, WP_ANNOTATION_FIRST_OBSERVED,
                          time_text(reconcile->entry->seen_wall_ns));
    }
    return annotations;
}

void
wp_claim_annotations_ready(struct wp_claim_reconcile *reconcile)
{
    struct wp_claim_entry *entry = reconcile->entry;
    struct wp_api_target target =
        wp_object_target(reconcile->claim, WP_HTTP_EVENT);
    json_t *annotations;

    if (entry->annotated == WP_WRITE_SENT) {
        return;
    }
    annotations = missing_annotations(reconcile);
    if (json_object_size(annotations) == 0) {
        json_decref(annotations);
        if (entry->annotated != WP_WRITE_DONE) {
            wp_claim_state_move(&entry->annotated, WP_WRITE_DONE);
        }
        return;
    }
    wp_fault("claim.before_annotations");
    wp_claim_state_move(&entry->annotated, WP_WRITE_SENT);
    wp_counter_add(&reconcile->self->metrics.writes[WP_CLAIM_WRITE_ANNOTATIONS],
                   1);
    wp_api_patch(reconcile->self->parts->api, &target,
                 annotations_patch(entry, annotations), ready_answered,
                 call_create(reconcile));
}
