#include "k8s/controllers/claim/adopt.h"

#include <string.h>

#include "k8s/controllers/claim/metadata.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "k8s/objects/owner.h"
#include "pool/base/assert.h"

void
wp_claim_identity_set(json_t *labels, const struct wp_object *claim)
{
    const char *creator = wp_object_label(claim, WP_LABEL_CREATED_BY);

    (void)wp_json_set_text(labels, WP_LABEL_CLAIM_UID, claim->uid);
    if (creator != NULL && creator[0] != '\0') {
        (void)wp_json_set_text(labels, WP_LABEL_CREATED_BY, creator);
    } else {
        (void)json_object_del(labels, WP_LABEL_CREATED_BY);
    }
}

/* What a merge patch has to say to turn one map of texts into another. */
static json_t *
map_patch(json_t *from, json_t *to)
{
    json_t *patch = json_object();
    const char *key;
    json_t *value;

    json_object_foreach(from, key, value)
    {
        if (json_object_get(to, key) == NULL) {
            (void)wp_json_set(patch, key, json_null());
        }
    }
    json_object_foreach(to, key, value)
    {
        if (!json_equal(value, json_object_get(from, key))) {
            (void)wp_json_set(patch, key, json_incref(value));
        }
    }
    return patch;
}

/* Puts it under key unless it is empty. Takes it. */
static bool
set_unless_empty(json_t *parent, const char *key, json_t *value)
{
    bool some = json_object_size(value) > 0;

    if (some) {
        (void)wp_json_set(parent, key, value);
    } else {
        json_decref(value);
    }
    return some;
}

/* labels and annotations of from as they are to be in to. True when there is
 * anything to say. */
static bool
metadata_patch(json_t *patch, const json_t *from, const json_t *to)
{
    bool labels = set_unless_empty(patch, "labels",
                                   map_patch(json_object_get(from, "labels"),
                                             json_object_get(to, "labels")));
    bool annotations =
        set_unless_empty(patch, "annotations",
                         map_patch(json_object_get(from, "annotations"),
                                   json_object_get(to, "annotations")));

    return labels || annotations;
}

/* A copy of a Pod template's labels and annotations. */
static json_t *
pod_metadata_copy(const json_t *whole)
{
    static const char *const maps[] = {"labels", "annotations", NULL};
    json_t *copy = json_object();

    for (size_t i = 0; maps[i] != NULL; i++) {
        json_t *map = json_object_get(
            wp_json_at(whole, "spec", "podTemplate", "metadata", NULL),
            maps[i]);

        (void)wp_json_set(copy, maps[i],
                          json_is_object(map) ? wp_json_copy(map)
                                              : json_object());
    }
    return copy;
}

static void
drop_default_eviction(json_t *metadata)
{
    json_t *annotations = json_object_get(metadata, "annotations");

    if (strcmp(wp_json_text(annotations, WP_ANNOTATION_SAFE_TO_EVICT, NULL),
               "true") == 0) {
        (void)json_object_del(annotations, WP_ANNOTATION_SAFE_TO_EVICT);
    }
}

/* The Pod template's metadata that the Sandbox is to have: the template's with
 * the claim's identity and wishes. Without the template: its own, without what
 * the pool put there. NULL and err: the wishes contradict it. */
static json_t *
pod_metadata(const struct wp_adoption *adoption, const json_t *sandbox,
             const char *template_hash, struct wp_err *err)
{
    json_t *metadata;
    json_t *labels;

    if (adoption->templ != NULL) {
        json_t *whole = wp_object_json(adoption->templ);

        metadata = pod_metadata_copy(whole);
        json_decref(whole);
    } else {
        metadata = pod_metadata_copy(sandbox);
        drop_default_eviction(metadata);
    }
    labels = json_object_get(metadata, "labels");
    wp_claim_identity_set(labels, adoption->claim);
    if (template_hash[0] != '\0') {
        (void)wp_json_set_text(labels, WP_LABEL_TEMPLATE_REF_HASH,
                               template_hash);
    }
    if (wp_claim_metadata_merge(metadata, adoption->additional, err) != WP_OK) {
        json_decref(metadata);
        return NULL;
    }
    return metadata;
}

enum wp_status
wp_adoption_check(const struct wp_object *templ, const json_t *additional,
                  struct wp_err *err)
{
    json_t *whole = wp_object_json(templ);
    json_t *metadata = pod_metadata_copy(whole);
    enum wp_status status = wp_claim_metadata_merge(metadata, additional, err);

    json_decref(metadata);
    json_decref(whole);
    return status;
}

static void
template_hash_of(const struct wp_adoption *adoption,
                 const struct wp_object *sandbox,
                 char out[WP_NAME_HASH_LEN + 1])
{
    const char *own =
        sandbox == NULL ? NULL
                        : wp_object_label(sandbox, WP_LABEL_TEMPLATE_REF_HASH);

    out[0] = '\0';
    if (own != NULL && strlen(own) == WP_NAME_HASH_LEN) {
        memcpy(out, own, WP_NAME_HASH_LEN + 1);
    } else if (adoption->templ != NULL) {
        wp_name_hash(wp_str_from(adoption->templ->name), out);
    }
}

/* Adds spec.podTemplate.metadata to the patch as far as it differs. */
static bool
add_pod_metadata(json_t *patch, const json_t *sandbox, json_t *wanted)
{
    json_t *differs = json_object();
    bool some = metadata_patch(
        differs, wp_json_at(sandbox, "spec", "podTemplate", "metadata", NULL),
        wanted);

    if (some) {
        json_t *pod = wp_json_set(json_object(), "metadata", differs);
        json_t *spec = wp_json_set(json_object(), "podTemplate", pod);

        (void)wp_json_set(patch, "spec", spec);
    } else {
        json_decref(differs);
    }
    return some;
}

/* metadata of the Sandbox as it is once the claim has it. */
static json_t *
adopted_metadata(const struct wp_adoption *adoption,
                 const struct wp_object *sandbox, const json_t *own,
                 const char *template_hash)
{
    const char *trace =
        wp_object_annotation(adoption->claim, WP_ANNOTATION_TRACE);
    json_t *metadata = wp_json_deep_copy(own);
    json_t *labels = wp_json_object_at(metadata, "labels");
    json_t *annotations = wp_json_object_at(metadata, "annotations");

    (void)json_object_del(labels, WP_LABEL_WARM_POOL);
    (void)json_object_del(labels, WP_LABEL_POD_TEMPLATE_HASH);
    (void)json_object_del(labels, WP_LABEL_TEMPLATE_HASH);
    (void)wp_json_set_text(labels, WP_LABEL_LAUNCH_TYPE, "warm");
    wp_claim_identity_set(labels, adoption->claim);
    if (template_hash[0] != '\0') {
        (void)wp_json_set_text(labels, WP_LABEL_TEMPLATE_REF_HASH,
                               template_hash);
    }
    (void)wp_json_set_text(annotations, WP_ANNOTATION_POD_NAME, sandbox->name);
    if (adoption->brings) {
        (void)wp_json_set_text(annotations, WP_ANNOTATION_BRINGS, "true");
    }
    if (trace != NULL) {
        (void)wp_json_set_text(annotations, WP_ANNOTATION_TRACE, trace);
    }
    return metadata;
}

json_t *
wp_adoption_patch(const struct wp_adoption *adoption,
                  const struct wp_object *sandbox, struct wp_err *err)
{
    json_t *whole = wp_object_json(sandbox);
    const json_t *own = json_object_get(whole, "metadata");
    char template_hash[WP_NAME_HASH_LEN + 1];
    json_t *patch = NULL;
    json_t *wanted;

    WP_ASSERT(own != NULL);
    template_hash_of(adoption, sandbox, template_hash);
    wanted = pod_metadata(adoption, whole, template_hash, err);
    if (wanted != NULL) {
        json_t *metadata =
            adopted_metadata(adoption, sandbox, own, template_hash);
        json_t *differs = json_object();
        json_t *owners = json_array();

        (void)wp_json_set_text(differs, "resourceVersion",
                               sandbox->resource_version);
        (void)metadata_patch(differs, own, metadata);
        (void)json_array_append_new(owners,
                                    wp_owner_reference(adoption->claim));
        (void)wp_json_set(differs, "ownerReferences", owners);
        patch = wp_json_set(json_object(), "metadata", differs);
        (void)add_pod_metadata(patch, whole, wanted);
        json_decref(metadata);
        json_decref(wanted);
    }
    json_decref(whole);
    return patch;
}

enum wp_status
wp_adoption_refresh(const struct wp_adoption *adoption,
                    const struct wp_object *sandbox, json_t **patch,
                    struct wp_err *err)
{
    json_t *whole = wp_object_json(sandbox);
    json_t *own = json_object_get(whole, "metadata");
    char template_hash[WP_NAME_HASH_LEN + 1];
    json_t *wanted;
    json_t *metadata;
    json_t *differs;
    json_t *labels;
    bool some;

    WP_ASSERT(own != NULL && adoption->templ != NULL);
    *patch = NULL;
    template_hash_of(adoption, NULL, template_hash);
    wanted = pod_metadata(adoption, whole, template_hash, err);
    if (wanted == NULL) {
        json_decref(whole);
        return WP_ALREADY_EXISTS;
    }
    metadata = wp_json_deep_copy(own);
    labels = wp_json_object_at(metadata, "labels");
    wp_claim_identity_set(labels, adoption->claim);
    (void)wp_json_set_text(labels, WP_LABEL_TEMPLATE_REF_HASH, template_hash);
    if (json_object_get(labels, WP_LABEL_LAUNCH_TYPE) == NULL) {
        /* One that was made for the claim has its name. */
        bool cold = strcmp(sandbox->name, adoption->claim->name) == 0;

        (void)wp_json_set_text(labels, WP_LABEL_LAUNCH_TYPE,
                               cold ? "cold" : "warm");
    }
    differs = json_object();
    *patch = json_object();
    some = metadata_patch(differs, own, metadata);
    (void)set_unless_empty(*patch, "metadata", differs);
    some = add_pod_metadata(*patch, whole, wanted) || some;
    if (!some) {
        json_decref(*patch);
        *patch = NULL;
    }
    json_decref(metadata);
    json_decref(wanted);
    json_decref(whole);
    return WP_OK;
}
