/* k8s/controllers/claim/annotations.c - the annotations of a claim, written off
 * the way.
 *
 * They are written without a precondition: nobody else writes these keys. The
 * answers find the claim by its name and uid, for the pass may be over. */
#include <stdlib.h>
#include <string.h>

#include "k8s/controllers/claim/reconcile.h"
#include "k8s/controllers/fault.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"

/* A stamp that failed is tried again after this. */
#define STAMP_AGAIN_NS (5 * WP_NS_PER_S)

struct stamp {
    struct wp_claim_controller *self;
    char *ns; /* These three lie behind it. */
    char *name;
    char *uid;
};

static struct stamp *
stamp_create(struct wp_claim_pass *pass)
{
    const struct wp_claim_entry *entry = pass->entry;
    size_t ns = strlen(entry->ns) + 1;
    size_t name = strlen(entry->name) + 1;
    size_t uid = strlen(entry->uid) + 1;
    struct stamp *stamp = calloc(1, sizeof *stamp + ns + name + uid);

    WP_ASSERT(stamp != NULL);
    stamp->self = pass->self;
    stamp->ns = (char *)(stamp + 1);
    stamp->name = stamp->ns + ns;
    stamp->uid = stamp->name + name;
    memcpy(stamp->ns, entry->ns, ns);
    memcpy(stamp->name, entry->name, name);
    memcpy(stamp->uid, entry->uid, uid);
    return stamp;
}

/* The entry of the claim that it was written for; NULL when that is gone. */
static struct wp_claim_entry *
stamp_entry(const struct stamp *stamp)
{
    struct wp_claim_entry *entry =
        wp_claim_book_find(stamp->self->book, stamp->ns, stamp->name);

    return entry != NULL && strcmp(entry->uid, stamp->uid) == 0 ? entry : NULL;
}

static void
learn_claim(struct wp_claim_controller *self,
            const struct wp_api_result *result)
{
    if (result->status == WP_OK && result->object != NULL) {
        wp_object_unref(
            wp_claim_learn(self, WP_KIND_SANDBOX_CLAIM, result->object));
    }
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

/* A pass that had something to write has left it until now. */
static bool
look_again(struct wp_claim_controller *self, struct wp_claim_entry *entry)
{
    bool again = entry->again;

    entry->again = false;
    if (again) {
        wp_work_add(self->queue, entry->ns, entry->name, false);
    }
    return again;
}

/* --- First observed --- */

static void
observed_answered(void *ctx, const struct wp_api_result *result)
{
    struct stamp *stamp = ctx;
    struct wp_claim_controller *self = stamp->self;
    struct wp_claim_entry *entry = stamp_entry(stamp);
    struct wp_claim_pass *pass;

    learn_claim(self, result);
    free(stamp);
    if (entry == NULL) {
        return;
    }
    /* When it failed, all go after Ready. */
    entry->observed = result->status == WP_OK ? WP_STAMP_DONE : WP_STAMP_NONE;
    entry->early = entry->early && result->status == WP_OK;
    pass = entry->joins;
    entry->joins = NULL;
    if (pass != NULL) {
        wp_claim_pass_arrive(pass);
    } else {
        (void)look_again(self, entry);
    }
}

/* Is there none, and is none on its way? */
static bool
wants_observed(const struct wp_claim_pass *pass)
{
    return pass->self->parts->config.observability_annotations &&
           pass->entry->observed != WP_STAMP_DONE &&
           !has_annotation(pass->claim, WP_ANNOTATION_FIRST_OBSERVED);
}

/* Sends it, with more beside it; takes annotations. */
static void
send_observed(struct wp_claim_pass *pass, json_t *annotations)
{
    struct wp_claim_entry *entry = pass->entry;
    struct wp_api_target target = wp_claim_target(pass->claim, WP_HTTP_CLAIM);

    (void)wp_json_set(annotations, WP_ANNOTATION_FIRST_OBSERVED,
                      time_text(entry->seen_wall_ns));
    entry->observed = WP_STAMP_SENT;
    wp_counter_add(&pass->self->metrics.writes[WP_CLAIM_WRITE_OBSERVED], 1);
    wp_api_patch(pass->self->parts->api, &target,
                 annotations_patch(entry, annotations), observed_answered,
                 stamp_create(pass));
}

/* The pass goes on once it is answered. */
static void
await(struct wp_claim_pass *pass)
{
    pass->entry->joins = pass;
    pass->awaited++;
}

void
wp_claim_stamp_observed(struct wp_claim_pass *pass, bool joins)
{
    if (!wants_observed(pass)) {
        return;
    }
    if (joins) {
        await(pass);
    }
    if (pass->entry->observed != WP_STAMP_SENT) {
        send_observed(pass, json_object());
    }
}

void
wp_claim_stamp_adopting(struct wp_claim_pass *pass)
{
    struct wp_claim_entry *entry = pass->entry;
    json_t *annotations;

    if (!wants_observed(pass)) {
        return;
    }
    await(pass);
    if (entry->observed == WP_STAMP_SENT) {
        return;
    }
    entry->announced = true;
    annotations = wp_json_set_text(json_object(), WP_ANNOTATION_SANDBOX_NAME,
                                   pass->sandbox->name);
    if (wp_sandbox_view(pass->sandbox)->ready.status == WP_CONDITION_TRUE &&
        !has_annotation(pass->claim, WP_ANNOTATION_FIRST_READY)) {
        (void)wp_json_set(annotations, WP_ANNOTATION_FIRST_READY,
                          time_text(wp_claim_pass_wall_ns(pass)));
        entry->early = true;
    }
    send_observed(pass, annotations);
}

void
wp_claim_stamp_too_early(struct wp_claim_pass *pass)
{
    if (pass->entry->early && !pass->entry->measured) {
        pass->entry->early = false;
        pass->entry->again_ready = true;
    }
}

/* --- After Ready --- */

static void
ready_answered(void *ctx, const struct wp_api_result *result)
{
    struct stamp *stamp = ctx;
    struct wp_claim_controller *self = stamp->self;
    struct wp_claim_entry *entry = stamp_entry(stamp);

    learn_claim(self, result);
    if (entry != NULL) {
        entry->stamped =
            result->status == WP_OK ? WP_STAMP_DONE : WP_STAMP_NONE;
        entry->again_ready = entry->again_ready && result->status != WP_OK;
        if (!look_again(self, entry) && result->status != WP_OK &&
            result->status != WP_NOT_FOUND && result->status != WP_CANCELLED) {
            wp_work_add_after(self->queue, stamp->ns, stamp->name,
                              STAMP_AGAIN_NS);
        }
    }
    free(stamp);
}

/* What is missing of them; empty: nothing. */
static json_t *
missing_stamps(const struct wp_claim_pass *pass)
{
    const struct wp_object *claim = pass->claim;
    const char *reserved =
        wp_object_annotation(claim, WP_ANNOTATION_SANDBOX_NAME);
    const char *name = pass->outcome.sandbox->name;
    json_t *annotations = json_object();

    /* Made for the claim, a Sandbox has its name and needs no pointer. */
    if (strcmp(name, claim->name) != 0 &&
        (reserved == NULL || strcmp(reserved, name) != 0)) {
        (void)wp_json_set_text(annotations, WP_ANNOTATION_SANDBOX_NAME, name);
    }
    if (!has_annotation(claim, WP_ANNOTATION_FIRST_READY) ||
        pass->entry->again_ready) {
        /* Ready before this process looked: nobody knows since when. */
        (void)wp_json_set(annotations, WP_ANNOTATION_FIRST_READY,
                          pass->entry->measured
                              ? time_text(wp_claim_pass_wall_ns(pass))
                              : json_string("unknown"));
    }
    if (pass->self->parts->config.observability_annotations &&
        pass->entry->observed == WP_STAMP_NONE &&
        !has_annotation(claim, WP_ANNOTATION_FIRST_OBSERVED)) {
        (void)wp_json_set(annotations, WP_ANNOTATION_FIRST_OBSERVED,
                          time_text(pass->entry->seen_wall_ns));
    }
    return annotations;
}

bool
wp_claim_stamp_ready(struct wp_claim_pass *pass)
{
    struct wp_claim_entry *entry = pass->entry;
    struct wp_api_target target = wp_claim_target(pass->claim, WP_HTTP_EVENT);
    json_t *annotations;

    if (entry->stamped == WP_STAMP_SENT) {
        return true;
    }
    annotations = missing_stamps(pass);
    if (json_object_size(annotations) == 0) {
        json_decref(annotations);
        entry->stamped = WP_STAMP_DONE;
        return false;
    }
    wp_fault("claim.before_stamps");
    entry->stamped = WP_STAMP_SENT;
    wp_counter_add(&pass->self->metrics.writes[WP_CLAIM_WRITE_STAMPS], 1);
    wp_api_patch(pass->self->parts->api, &target,
                 annotations_patch(entry, annotations), ready_answered,
                 stamp_create(pass));
    return true;
}
