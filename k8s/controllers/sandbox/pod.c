#include "k8s/controllers/sandbox/pod.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/objects/json.h"
#include "k8s/objects/lease_annotation.h"
#include "k8s/controllers/sandbox/child.h"
#include "k8s/controllers/sandbox/volume.h"
#include "k8s/objects/sandbox_refs.h"
#include "pool/base/assert.h"
#include "proto/formats/sandbox_token.h"

const char *
wp_sandbox_pod_annotation(const struct wp_object *sandbox)
{
    const char *name = wp_object_annotation(sandbox, WP_ANNOTATION_POD_NAME);

    return name != NULL ? name : "";
}

static bool
is_system_label(const char *key)
{
    struct wp_str text = wp_str_from(key);

    return wp_str_starts_with(text, WP_STR(WP_SYSTEM_PREFIX)) ||
           wp_str_starts_with(text, WP_STR(WP_EXTENSIONS_PREFIX));
}

static bool
is_system_annotation(const char *key)
{
    return is_system_label(key) || strcmp(key, WP_ANNOTATION_TRACE) == 0;
}

/* Labels and annotations go the same way; these are their differences. */
struct metadata_part {
    const char *field;
    const char *propagated; /* The annotation that lists what we have set. */
    bool (*is_system)(const char *key);
};
static const struct metadata_part part_labels = {
    "labels", WP_ANNOTATION_PROPAGATED_LABELS, is_system_label};
static const struct metadata_part part_annotations = {
    "annotations", WP_ANNOTATION_PROPAGATED_ANNOTATIONS, is_system_annotation};

/* What the pod template asks for, without the system's keys. */
static json_t *
template_map(const json_t *json, const struct metadata_part *part)
{
    json_t *map = json_object();
    json_t *given =
        wp_json_at(json, "spec", "podTemplate", "metadata", part->field, NULL);
    const char *key;
    json_t *value;

    json_object_foreach(given, key, value)
    {
        if (json_is_string(value) && !part->is_system(key)) {
            wp_json_set(map, key, json_incref(value));
        }
    }
    return map;
}

static int
by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The keys, sorted, with commas between them. One that has a comma itself is
 * left out: read again it would be another key, or two. No Pod can have it; the
 * API server says so to whoever tries. */
static json_t *
joined_keys(json_t *map)
{
    size_t count = json_object_size(map);
    const char **keys = calloc(count + 1, sizeof *keys);
    size_t bytes = 1;
    size_t n = 0;

    WP_ASSERT(keys != NULL);
    for (void *at = json_object_iter(map); at != NULL;
         at = json_object_iter_next(map, at)) {
        const char *key = json_object_iter_key(at);

        if (strchr(key, ',') == NULL) {
            keys[n++] = key;
            bytes += strlen(key) + 1;
        }
    }
    qsort(keys, n, sizeof *keys, by_text);

    char *text = malloc(bytes);
    size_t used = 0;

    WP_ASSERT(text != NULL);
    text[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        int put = snprintf(text + used, bytes - used, "%s%s", i == 0 ? "" : ",",
                           keys[i]);

        used += (size_t)put;
    }
    json_t *joined = json_string(text);

    free(text);
    free(keys);
    return joined;
}

/* May the sandbox's own labels choose a network policy? A tenant's own Sandbox
 * must not choose the one of a template; what an extension controls may, and
 * what a gRPC client holds: that nobody controls, and its next Pod has to be as
 * isolated as its first. */
static bool
is_trusted(const struct wp_object *sandbox)
{
    if (sandbox->controller.kind[0] == '\0') {
        return wp_object_annotation(sandbox, WP_ANNOTATION_LEASE) != NULL;
    }
    return wp_kind_is_group(WP_KIND_SANDBOX_CLAIM,
                            wp_str_from(sandbox->controller.api_version));
}

/* A label that controllers put on a Sandbox and that its Pod has as well. */
static const char *
extension_label(const struct wp_object *sandbox, const char *key)
{
    const char *value = wp_object_label(sandbox, key);

    return value != NULL && value[0] != '\0' && is_trusted(sandbox) ? value
                                                                    : NULL;
}

static const char *
warm_pool_label(const struct wp_object *sandbox)
{
    return wp_object_controlled_by_kind(sandbox, WP_KIND_SANDBOX_WARM_POOL)
               ? extension_label(sandbox, WP_LABEL_WARM_POOL)
               : NULL;
}

/* By it a claim's Pod is found without its Sandbox. */
static const char *
claim_label(const struct wp_object *sandbox)
{
    return wp_object_controlled_by_kind(sandbox, WP_KIND_SANDBOX_CLAIM)
               ? extension_label(sandbox, WP_LABEL_CLAIM_UID)
               : NULL;
}

/* Known makers by name, the others together: it is a metric's label. */
static const char *
created_by(const struct wp_object *sandbox)
{
    static const char *const known[] = {"go-client", "python-client",
                                        "controller"};
    const char *value = wp_object_label(sandbox, WP_LABEL_CREATED_BY);

    if (value == NULL || value[0] == '\0') {
        return NULL;
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(known); i++) {
        if (strcmp(value, known[i]) == 0) {
            return known[i];
        }
    }
    return "unknown";
}

static void
set_or_drop(json_t *map, const char *key, const char *value)
{
    if (value == NULL) {
        (void)json_object_del(map, key);
    } else {
        wp_json_set_text(map, key, value);
    }
}

/* The label that the network policy selects by. A Pod keeps it when nobody
 * controls its sandbox any more: isolation never ends by itself. */
static const char *
template_label(const struct wp_object *sandbox, const struct wp_object *pod)
{
    const char *value = extension_label(sandbox, WP_LABEL_TEMPLATE_REF_HASH);
    const char *own = wp_object_label(sandbox, WP_LABEL_TEMPLATE_REF_HASH);
    const char *has =
        pod != NULL ? wp_object_label(pod, WP_LABEL_TEMPLATE_REF_HASH) : NULL;

    if (value == NULL && sandbox->controller.kind[0] == '\0' && own != NULL &&
        has != NULL && strcmp(own, has) == 0) {
        return own;
    }
    return value;
}

/* The system's labels, after everything that a template could say. */
static void
set_system_labels(json_t *labels, const struct wp_object *sandbox,
                  const char *hash, const struct wp_object *pod)
{
    wp_json_set_text(labels, WP_LABEL_NAME_HASH, hash);
    set_or_drop(labels, WP_LABEL_WARM_POOL, warm_pool_label(sandbox));
    set_or_drop(labels, WP_LABEL_CLAIM_UID, claim_label(sandbox));
    set_or_drop(labels, WP_LABEL_TEMPLATE_REF_HASH,
                template_label(sandbox, pod));
    set_or_drop(labels, WP_LABEL_CREATED_BY, created_by(sandbox));
}

/* Says what was set from the template; at creation only when there is any. */
static void
set_propagated(json_t *annotations, const struct metadata_part *part,
               json_t *template)
{
    if (json_object_size(template) > 0) {
        wp_json_set(annotations, part->propagated, joined_keys(template));
    }
}

static json_t *
build_spec(const struct wp_object *sandbox, const json_t *json)
{
    json_t *spec = wp_json_deep_copy(
        wp_json_at(json, "spec", "podTemplate", "spec", NULL));
    json_t *claims = wp_sandbox_volumes(sandbox, json);
    json_t *given;
    json_t *volumes;
    json_t *volume;
    size_t i;

    if (!json_is_object(spec)) {
        json_decref(spec);
        spec = json_object();
    }
    if (json_array_size(claims) == 0) {
        json_decref(claims);
        return spec;
    }
    given = json_object_get(spec, "volumes");
    volumes = json_array();
    json_array_foreach(given, i, volume)
    {
        if (!wp_sandbox_volumes_have(claims,
                                     wp_json_text(volume, "name", NULL))) {
            (void)json_array_append(volumes, volume);
        }
    }
    (void)json_array_extend(volumes, claims);
    json_decref(claims);
    return wp_json_set(spec, "volumes", volumes);
}

json_t *
wp_sandbox_pod_build(const struct wp_object *sandbox, const json_t *json,
                     const char *hash)
{
    const struct wp_kind_info *info = wp_kind_info(WP_KIND_POD);
    json_t *labels = template_map(json, &part_labels);
    json_t *annotations = template_map(json, &part_annotations);
    json_t *given = wp_json_copy(annotations);
    json_t *metadata = wp_child_metadata(sandbox, sandbox->name, hash);
    json_t *pod = json_object();

    set_propagated(annotations, &part_labels, labels);
    set_propagated(annotations, &part_annotations, given);
    json_decref(given);
    set_system_labels(labels, sandbox, hash, NULL);
    wp_json_set(metadata, "labels", labels);
    wp_json_set(metadata, "annotations", annotations);
    wp_json_set_text(pod, "apiVersion", info->api_version);
    wp_json_set_text(pod, "kind", info->kind);
    wp_json_set(pod, "metadata", metadata);
    return wp_json_set(pod, "spec", build_spec(sandbox, json));
}

static void
add_digest(json_t *containers, const char *digest)
{
    json_t *container;
    size_t i;

    json_array_foreach(containers, i, container)
    {
        json_t *env = json_object_get(container, "env");

        if (json_is_object(container) && !json_is_array(env)) {
            env = json_array();
            wp_json_set(container, "env", env);
        }
        if (env != NULL &&
            wp_json_find(env, "name", WP_SANDBOX_TOKEN_ENV) == NULL) {
            WP_ASSERT(json_array_append_new(env, json_pack("{s:s, s:s}", "name",
                                                           WP_SANDBOX_TOKEN_ENV,
                                                           "value", digest)) ==
                      0);
        }
    }
}

void
wp_sandbox_pod_add_token(json_t *pod, const struct wp_object *sandbox,
                         const uint8_t *key)
{
    char token[WP_SANDBOX_TOKEN_TEXT + 1];
    char digest[WP_SANDBOX_TOKEN_TEXT + 1];

    if (wp_object_annotation(sandbox, WP_ANNOTATION_UID) == NULL &&
        wp_object_annotation(sandbox, WP_ANNOTATION_BRINGS) == NULL) {
        return;
    }
    wp_sandbox_token(key, sandbox->ns, sandbox->name, token);
    wp_sandbox_token_digest(wp_str_from(token), digest);
    explicit_bzero(token, sizeof token);
    add_digest(wp_json_at(pod, "spec", "containers", NULL), digest);
    /* One that starts again is a server beside the others. */
    add_digest(wp_json_at(pod, "spec", "initContainers", NULL), digest);
}

static json_t *
map_of_pairs(const struct wp_pair *pairs, uint32_t len)
{
    json_t *map = json_object();

    for (uint32_t i = 0; i < len; i++) {
        wp_json_set_text(map, pairs[i].key, pairs[i].value);
    }
    return map;
}

/* Takes out of map what was once set from the template and is no longer there,
 * or never should have been; then sets what is. */
static void
follow_template(json_t *map, const char *propagated, json_t *template,
                const struct metadata_part *part)
{
    const char *at = propagated;

    while (at != NULL && *at != '\0') {
        size_t len = strcspn(at, ",");
        char key[512];

        if (wp_str_copy((struct wp_str){at, len}, key, sizeof key) &&
            strcmp(key, WP_LABEL_NAME_HASH) != 0 &&
            strcmp(key, WP_ANNOTATION_PROPAGATED_LABELS) != 0 &&
            strcmp(key, WP_ANNOTATION_PROPAGATED_ANNOTATIONS) != 0 &&
            (part->is_system(key) || json_object_get(template, key) == NULL)) {
            (void)json_object_del(map, key);
        }
        at += len + (at[len] == ',' ? 1 : 0);
    }
    (void)json_object_update(map, template);
}

/* The merge patch from pairs to map; NULL when there is nothing to say. */
static json_t *
difference(const struct wp_pair *pairs, uint32_t len, json_t *map)
{
    json_t *patch = json_object();
    json_t *before = map_of_pairs(pairs, len);
    const char *key;
    json_t *value;

    json_object_foreach(map, key, value)
    {
        if (!json_equal(value, json_object_get(before, key))) {
            wp_json_set(patch, key, json_incref(value));
        }
    }
    json_object_foreach(before, key, value)
    {
        if (json_object_get(map, key) == NULL) {
            wp_json_set(patch, key, json_null());
        }
    }
    json_decref(before);
    if (json_object_size(patch) == 0) {
        json_decref(patch);
        return NULL;
    }
    return patch;
}

/* What was set is always said in the end, "" for nothing, unless nothing ever
 * was. */
static void
say_propagated(json_t *annotations, const struct metadata_part *part,
               json_t *template)
{
    if (json_object_size(template) > 0 ||
        json_object_get(annotations, part->propagated) != NULL) {
        wp_json_set(annotations, part->propagated, joined_keys(template));
    }
}

static bool
put_part(json_t *metadata, const struct metadata_part *part, json_t *patch)
{
    if (patch == NULL) {
        return false;
    }
    /* An adoption's own labels are among these. */
    wp_json_set(metadata, part->field, patch);
    return true;
}

bool
wp_sandbox_pod_metadata(const struct wp_object *sandbox, const json_t *json,
                        const char *hash, const struct wp_object *pod,
                        json_t *patch)
{
    json_t *metadata = json_object_get(patch, "metadata");
    json_t *labels = map_of_pairs(pod->labels, pod->labels_len);
    json_t *annotations = map_of_pairs(pod->annotations, pod->annotations_len);
    json_t *template_labels = template_map(json, &part_labels);
    json_t *template_annotations = template_map(json, &part_annotations);

    follow_template(labels,
                    wp_object_annotation(pod, WP_ANNOTATION_PROPAGATED_LABELS),
                    template_labels, &part_labels);
    set_system_labels(labels, sandbox, hash, pod);
    follow_template(
        annotations,
        wp_object_annotation(pod, WP_ANNOTATION_PROPAGATED_ANNOTATIONS),
        template_annotations, &part_annotations);
    say_propagated(annotations, &part_labels, template_labels);
    say_propagated(annotations, &part_annotations, template_annotations);

    bool changed = put_part(metadata, &part_labels,
                            difference(pod->labels, pod->labels_len, labels));

    changed |= put_part(
        metadata, &part_annotations,
        difference(pod->annotations, pod->annotations_len, annotations));
    json_decref(labels);
    json_decref(annotations);
    json_decref(template_labels);
    json_decref(template_annotations);
    return changed;
}
