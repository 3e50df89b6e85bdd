#include "local/manifest/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "local/manifest/manifest_impl.h"
#include "pool/annotations/tier.h"
#include "pool/base/assert.h"
#include "pool/base/file.h"

enum {
    PLACE_MAX = 300
};

static const char api_version[] = "extensions.agents.x-k8s.io/v1beta1";

struct wp_manifest *
wp_manifest_create(void)
{
    struct wp_manifest *manifest = calloc(1, sizeof *manifest);

    if (manifest == NULL) {
        return NULL;
    }
    manifest->templates =
        calloc(WP_MANIFEST_TEMPLATES_MAX, sizeof *manifest->templates);
    manifest->pools = calloc(WP_POOLS_MAX, sizeof *manifest->pools);
    manifest->pool_places = calloc(WP_POOLS_MAX, sizeof *manifest->pool_places);
    manifest->notes.texts = calloc(WP_NOTES_MAX, sizeof *manifest->notes.texts);
    if (manifest->templates == NULL || manifest->pools == NULL ||
        manifest->pool_places == NULL || manifest->notes.texts == NULL) {
        wp_manifest_destroy(manifest);
        return NULL;
    }
    return manifest;
}

void
wp_manifest_set_inflight_max(struct wp_manifest *manifest, uint32_t n)
{
    manifest->inflight_max = n;
}

void
wp_manifest_destroy(struct wp_manifest *manifest)
{
    while (manifest != NULL) {
        struct wp_manifest *joined = manifest->joined;

        wp_region_free(&manifest->region);
        free(manifest->templates);
        free(manifest->pools);
        free(manifest->pool_places);
        free(manifest->notes.texts);
        free(manifest);
        manifest = joined;
    }
}

/* --- metadata --- */

static bool
use_name(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_object_meta *meta = out;

    return wp_decode_text(d, node, 253, &meta->name);
}

static bool
use_namespace(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_object_meta *meta = out;

    return wp_decode_text(d, node, 253, &meta->object_namespace);
}

static bool
each_is_text(struct wp_decode *d, const struct wp_yaml *node)
{
    if (!wp_decode_is(d, node, WP_YAML_MAP)) {
        return false;
    }
    for (const struct wp_yaml *child = node->first; child != NULL;
         child = child->next) {
        size_t mark = wp_decode_enter(d, child->key);

        if (child->kind != WP_YAML_NULL &&
            !wp_decode_is(d, child, WP_YAML_STRING)) {
            return false;
        }
        wp_decode_leave(d, mark);
    }
    return true;
}

static bool
use_annotations(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_object_meta *meta = out;

    meta->annotations = node;
    return each_is_text(d, node);
}

static bool
use_labels(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    (void)out;
    return each_is_text(d, node);
}

static bool
read_meta(struct wp_decode *d, const struct wp_yaml *root,
          struct wp_object_meta *meta, size_t name_max)
{
    static const struct wp_field fields[] = {
        WP_REQUIRED("name", use_name),
        WP_USED("namespace", use_namespace),
        WP_USED("annotations", use_annotations),
        WP_USED("labels", use_labels),
        /* An API server's own, present in what kubectl get prints. */
        WP_PLAIN("uid"),
        WP_PLAIN("resourceVersion"),
        WP_PLAIN("generation"),
        WP_PLAIN("creationTimestamp"),
        WP_PLAIN("managedFields"),
        WP_PLAIN("ownerReferences"),
        WP_PLAIN("finalizers"),
        WP_PLAIN("selfLink"),
        WP_REFUSED("generateName", "give a name"),
    };
    const struct wp_yaml *node = wp_yaml_find(root, "metadata");
    size_t mark;

    if (node == NULL) {
        return wp_decode_fail(d, root, "metadata: missing, but required");
    }
    mark = wp_decode_enter(d, node->key);
    meta->object_namespace = "default";
    if (!WP_DECODE_MAP(d, node, fields, meta)) {
        return false;
    }
    if (!wp_str_is_dns_name(wp_str_from(meta->name), name_max)) {
        return wp_decode_fail(d, node,
                              "name: a DNS name of at most %zu characters was"
                              " expected, not '%.60s'",
                              name_max, meta->name);
    }
    if (!wp_str_is_dns_name(wp_str_from(meta->object_namespace),
                            WP_NAMESPACE_MAX)) {
        return wp_decode_fail(
            d, node, "namespace: a DNS label was expected, not '%.60s'",
            meta->object_namespace);
    }
    wp_decode_leave(d, mark);
    return true;
}

/* --- Objects --- */

/* All that a tier asks for is so here, but for gVisor. */
static bool
read_tier(struct wp_decode *d, const struct wp_yaml *node,
          struct wp_template *tmpl)
{
    enum wp_tier tier;

    if (!wp_tier_parse(node->text, &tier)) {
        return wp_decode_fail(d, node,
                              "metadata.annotations: " WP_TIER_KEY
                              ": T0 to T4 was expected, not '%.40s'",
                              node->text.ptr);
    }
    if (wp_tier_info(tier)->runtime_class != NULL) {
        tmpl->runtime_class = WP_RUNTIME_GVISOR;
    }
    return true;
}

/* Of the group template.warmpool.io/; those of others are passed over. */
static bool
read_template_note(struct wp_decode *d, const struct wp_yaml *node,
                   struct wp_template *tmpl)
{
    if (!wp_str_starts_with(node->key, WP_STR("template.warmpool.io/")) ||
        node->kind == WP_YAML_NULL) {
        return true;
    }
    if (wp_str_is(node->key, WP_TIER_KEY)) {
        return read_tier(d, node, tmpl);
    }
    if (!wp_str_is(node->key, WP_TEMPLATE_BINDING_KEY)) {
        return wp_decode_fail(d, node,
                              "metadata.annotations: %.*s: unknown annotation",
                              WP_STR_ARG(node->key));
    }
    tmpl->unbound = wp_str_is(node->text, "none");
    return tmpl->unbound || wp_str_is(node->text, "allowed") ||
           wp_decode_fail(d, node,
                          "metadata.annotations: " WP_TEMPLATE_BINDING_KEY
                          ": 'allowed' or 'none' was expected, not '%.40s'",
                          node->text.ptr);
}

static bool
read_template_notes(struct wp_decode *d, const struct wp_object_meta *meta,
                    struct wp_template *tmpl)
{
    const struct wp_yaml *node =
        meta->annotations != NULL ? meta->annotations->first : NULL;

    while (node != NULL && read_template_note(d, node, tmpl)) {
        node = node->next;
    }
    return node == NULL;
}

static bool
add_template(struct wp_manifest *manifest, struct wp_decode *d,
             const struct wp_yaml *root)
{
    struct wp_template *tmpl = &manifest->templates[manifest->templates_len];
    struct wp_object_meta meta = {.name = NULL};

    if (manifest->templates_len == WP_MANIFEST_TEMPLATES_MAX) {
        return wp_decode_fail(d, root, "more than %d templates",
                              (int)WP_MANIFEST_TEMPLATES_MAX);
    }
    if (!read_meta(d, root, &meta, WP_TEMPLATE_NAME_MAX)) {
        return false;
    }
    WP_ASSERT(meta.name != NULL && meta.object_namespace != NULL);
    d->object = meta.name;
    for (size_t i = 0; i < manifest->templates_len; i++) {
        if (strcmp(manifest->templates[i].name, meta.name) == 0 &&
            strcmp(manifest->templates[i].template_namespace,
                   meta.object_namespace) == 0) {
            return wp_decode_fail(d, root,
                                  "a second template of this name in namespace"
                                  " '%s'",
                                  meta.object_namespace);
        }
    }
    *tmpl = (struct wp_template){.probe = WP_READY_TCP};
    if (!wp_str_copy(wp_str_from(meta.name), tmpl->name, sizeof tmpl->name) ||
        !wp_str_copy(wp_str_from(meta.object_namespace),
                     tmpl->template_namespace,
                     sizeof tmpl->template_namespace)) {
        return wp_decode_fail(d, root, "the name is too long");
    }
    if (!read_template_notes(d, &meta, tmpl) ||
        !wp_manifest_template(d, wp_yaml_find(root, "spec"), tmpl,
                              &manifest->waits)) {
        return false;
    }
    manifest->templates_len++;
    return true;
}

static bool
add_pool(struct wp_manifest *manifest, struct wp_decode *d,
         const struct wp_yaml *root)
{
    struct wp_pool_spec *pool = &manifest->pools[manifest->pools_len];
    struct wp_object_meta meta = {.name = NULL};
    char place[PLACE_MAX];

    if (manifest->pools_len == WP_POOLS_MAX) {
        return wp_decode_fail(d, root, "more than %d pools", (int)WP_POOLS_MAX);
    }
    if (!read_meta(d, root, &meta, WP_POOL_NAME_MAX)) {
        return false;
    }
    WP_ASSERT(meta.name != NULL && meta.object_namespace != NULL);
    d->object = meta.name;
    for (size_t i = 0; i < manifest->pools_len; i++) {
        if (strcmp(manifest->pools[i].name, meta.name) == 0 &&
            strcmp(manifest->pools[i].pool_namespace, meta.object_namespace) ==
                0) {
            return wp_decode_fail(
                d, root, "a second pool of this name in namespace '%s'",
                meta.object_namespace);
        }
    }
    wp_pool_spec_init(pool);
    if (manifest->inflight_max > 0) {
        pool->create_inflight_max = manifest->inflight_max;
    }
    if (!wp_str_copy(wp_str_from(meta.name), pool->name, sizeof pool->name) ||
        !wp_str_copy(wp_str_from(meta.object_namespace), pool->pool_namespace,
                     sizeof pool->pool_namespace)) {
        return wp_decode_fail(d, root, "the name is too long");
    }
    if (!wp_manifest_pool(d, wp_yaml_find(root, "spec"), &meta, pool)) {
        return false;
    }
    (void)snprintf(place, sizeof place, "%s:%u", d->file, root->line);
    manifest->pool_places[manifest->pools_len] =
        wp_region_str(&manifest->region, wp_str_from(place));
    if (manifest->pool_places[manifest->pools_len] == NULL) {
        return wp_decode_fail(d, root, "no memory");
    }
    manifest->pools_len++;
    return true;
}

static bool
add_config(struct wp_manifest *manifest, struct wp_decode *d,
           const struct wp_yaml *root)
{
    const struct wp_yaml *api = wp_yaml_find(root, "apiVersion");
    struct wp_object_meta meta = {.name = NULL};
    struct wp_config_object *object;

    if (api == NULL || api->kind != WP_YAML_STRING ||
        !wp_str_is(api->text, "v1")) {
        return wp_decode_fail(d, api != NULL ? api : root,
                              "apiVersion: 'v1' was expected");
    }
    if (manifest->objects_len == WP_MANIFEST_OBJECTS_MAX) {
        return wp_decode_fail(d, root, "more than %d ConfigMaps and Secrets",
                              (int)WP_MANIFEST_OBJECTS_MAX);
    }
    object = wp_decode_reserve(d, root, sizeof *object);
    if (object == NULL || !read_meta(d, root, &meta, 253)) {
        return false;
    }
    d->object = meta.name;
    *object = (struct wp_config_object){
        .next = manifest->objects,
        .secret = strcmp(d->kind, "Secret") == 0,
        .object_namespace = meta.object_namespace,
        .name = meta.name,
    };
    for (const struct wp_config_object *other = manifest->objects;
         other != NULL; other = other->next) {
        if (other->secret == object->secret &&
            strcmp(other->name, object->name) == 0 &&
            strcmp(other->object_namespace, object->object_namespace) == 0) {
            return wp_decode_fail(d, root,
                                  "a second %s of this name in namespace '%s'",
                                  d->kind, object->object_namespace);
        }
    }
    if (!wp_config_object_read(d, root, object)) {
        return false;
    }
    manifest->objects = object;
    manifest->objects_len++;
    return true;
}

/* The top of an object: what it is, and nothing beside the four known fields.
 */
static bool
check_head(struct wp_decode *d, const struct wp_yaml *root)
{
    static const struct wp_field fields[] = {
        WP_PLAIN("apiVersion"), /* Looked at before, as the next. */
        WP_PLAIN("kind"),
        {"metadata", WP_FIELD_PLAIN, true, NULL, NULL},
        {"spec", WP_FIELD_PLAIN, true, NULL, NULL},
        WP_PLAIN("status"), /* An API server's own. */
    };
    const struct wp_yaml *api;
    const struct wp_yaml *kind;

    if (!wp_decode_is(d, root, WP_YAML_MAP)) {
        return false;
    }
    kind = wp_yaml_find(root, "kind");
    api = wp_yaml_find(root, "apiVersion");
    if (kind == NULL || kind->kind != WP_YAML_STRING) {
        return wp_decode_fail(
            d, kind != NULL ? kind : root,
            "kind: SandboxTemplate, SandboxWarmPool, ConfigMap"
            " or Secret was expected");
    }
    if (!wp_str_is(kind->text, "SandboxTemplate") &&
        !wp_str_is(kind->text, "SandboxWarmPool")) {
        return wp_decode_fail(
            d, kind,
            "kind: SandboxTemplate, SandboxWarmPool, ConfigMap"
            " or Secret was expected, not '%.60s'",
            kind->text.ptr);
    }
    d->kind = kind->text.ptr;
    if (api == NULL || api->kind != WP_YAML_STRING ||
        !wp_str_is(api->text, api_version)) {
        return wp_decode_fail(d, api != NULL ? api : root,
                              "apiVersion: '%s' was expected", api_version);
    }
    return WP_DECODE_MAP(d, root, fields, NULL);
}

static bool
add_object(struct wp_manifest *manifest, struct wp_decode *d,
           const struct wp_yaml *root)
{
    if (root->kind == WP_YAML_MAP) {
        const struct wp_yaml *kind = wp_yaml_find(root, "kind");

        /* Manifests often start with their namespace; it means nothing here. */
        if (kind != NULL && wp_str_is(kind->text, "Namespace")) {
            d->kind = "Namespace";
            return wp_decode_note(d, root, "ignored on one machine");
        }
        if (kind != NULL && wp_config_is_kind(kind->text)) {
            d->kind = kind->text.ptr;
            return add_config(manifest, d, root);
        }
    }
    if (!check_head(d, root)) {
        return false;
    }
    return strcmp(d->kind, "SandboxTemplate") == 0
               ? add_template(manifest, d, root)
               : add_pool(manifest, d, root);
}

/* --- Files --- */

enum wp_status
wp_manifest_add_bytes(struct wp_manifest *manifest, const char *name,
                      struct wp_str bytes, struct wp_err *err)
{
    const struct wp_yaml_rules rules = {
        .file = name,
        .documents_max = WP_MANIFEST_DOCUMENTS_MAX,
        .depth_max = 32,
        .nodes_max = 100000,
        .keys_max = 1024,
    };
    struct wp_yaml_reader *reader;
    enum wp_status status = WP_OK;
    struct wp_err local_err;

    if (err == NULL) {
        err = &local_err;
    }
    if (bytes.len > WP_MANIFEST_BYTES_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s: a manifest of at most %d bytes was expected",
                          name, (int)WP_MANIFEST_BYTES_MAX);
    }
    reader = wp_yaml_open(&rules, bytes);
    if (reader == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    while (status == WP_OK) {
        struct wp_region scratch = {.blocks = NULL};
        struct wp_decode d = {
            .file = name,
            .region = &manifest->region,
            .notes = &manifest->notes,
            .err = err,
        };
        struct wp_yaml *root = NULL;

        status = wp_yaml_next(reader, &scratch, &root, err);
        if (status == WP_OK && root != NULL && root->kind != WP_YAML_NULL &&
            !add_object(manifest, &d, root)) {
            status = err->status;
        }
        wp_region_free(&scratch);
    }
    wp_yaml_close(reader);
    return status == WP_NOT_FOUND ? WP_OK : status;
}

enum wp_status
wp_manifest_add_file(struct wp_manifest *manifest, const char *path,
                     struct wp_err *err)
{
    char *bytes = malloc(WP_MANIFEST_BYTES_MAX + 1);
    enum wp_status status;
    struct stat st;
    ssize_t len;

    if (bytes == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    len = wp_path_read(path, O_NONBLOCK, bytes, WP_MANIFEST_BYTES_MAX + 1, &st);
    if (len >= 0) {
        status = wp_manifest_add_bytes(
            manifest, path, (struct wp_str){bytes, (size_t)len}, err);
    } else if (errno == EISDIR) {
        status = wp_err_set(err, WP_INVALID_ARGUMENT,
                            "manifest %s: a file was expected", path);
    } else {
        status =
            wp_err_sys(err, st.st_mode == 0 ? WP_NOT_FOUND : WP_UNAVAILABLE,
                       errno, "manifest %s", path);
    }
    free(bytes);
    return status;
}

static const struct wp_template *
find_template(const struct wp_manifest *manifest, const char *namespace_,
              const char *name)
{
    for (size_t i = 0; i < manifest->templates_len; i++) {
        const struct wp_template *tmpl = &manifest->templates[i];

        if (strcmp(tmpl->name, name) == 0 &&
            strcmp(tmpl->template_namespace, namespace_) == 0) {
            return tmpl;
        }
    }
    return NULL;
}

enum wp_status
wp_manifest_resolve(struct wp_manifest *manifest, struct wp_err *err)
{
    struct wp_manifest_waits *waits = &manifest->waits;
    enum wp_status status = wp_file_mounts_resolve(
        waits->file_mounts, manifest->objects, &manifest->region, err);

    if (status == WP_OK) {
        status = wp_programs_resolve(waits->programs, manifest->objects,
                                     &manifest->region, err);
    }
    if (status == WP_OK) {
        *waits = (struct wp_manifest_waits){NULL, NULL};
    }
    return status;
}

enum wp_status
wp_manifest_check(struct wp_manifest *manifest, struct wp_err *err)
{
    enum wp_status status = wp_manifest_resolve(manifest, err);

    if (status != WP_OK) {
        return status;
    }
    for (size_t p = 0; p < manifest->pools_len; p++) {
        const struct wp_pool_spec *pool = &manifest->pools[p];

        if (find_template(manifest, pool->pool_namespace,
                          pool->template_name) == NULL) {
            return wp_err_set(
                err, WP_INVALID_ARGUMENT,
                "%s: SandboxWarmPool %s: spec.sandboxTemplateRef"
                ".name: no SandboxTemplate '%s' in namespace '%s'",
                manifest->pool_places[p], pool->name, pool->template_name,
                pool->pool_namespace);
        }
    }
    return WP_OK;
}

/* --- Two of them --- */

static bool
has_pool(const struct wp_manifest *manifest, const struct wp_pool_spec *pool)
{
    for (size_t i = 0; i < manifest->pools_len; i++) {
        if (strcmp(manifest->pools[i].name, pool->name) == 0 &&
            strcmp(manifest->pools[i].pool_namespace, pool->pool_namespace) ==
                0) {
            return true;
        }
    }
    return false;
}

static enum wp_status
check_join(const struct wp_manifest *manifest, const struct wp_manifest *other,
           struct wp_err *err)
{
    if (manifest->templates_len + other->templates_len >
            WP_MANIFEST_TEMPLATES_MAX ||
        manifest->pools_len + other->pools_len > WP_POOLS_MAX) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "more than %d templates or %d pools",
                          (int)WP_MANIFEST_TEMPLATES_MAX, (int)WP_POOLS_MAX);
    }
    for (size_t i = 0; i < other->templates_len; i++) {
        const struct wp_template *tmpl = &other->templates[i];
        const struct wp_template *known =
            find_template(manifest, tmpl->template_namespace, tmpl->name);

        if (known != NULL &&
            wp_template_hash(known) != wp_template_hash(tmpl)) {
            return wp_err_set(err, WP_ALREADY_EXISTS,
                              "SandboxTemplate %s: there is another one of "
                              "this name in namespace '%s'",
                              tmpl->name, tmpl->template_namespace);
        }
    }
    for (size_t i = 0; i < other->pools_len; i++) {
        const struct wp_pool_spec *pool = &other->pools[i];

        if (has_pool(manifest, pool)) {
            return wp_err_set(err, WP_ALREADY_EXISTS,
                              "SandboxWarmPool %s: there is one of this name "
                              "in namespace '%s'",
                              pool->name, pool->pool_namespace);
        }
        if (find_template(manifest, pool->pool_namespace,
                          pool->template_name) == NULL &&
            find_template(other, pool->pool_namespace, pool->template_name) ==
                NULL) {
            return wp_err_set(err, WP_FAILED_PRECONDITION,
                              "SandboxWarmPool %s: "
                              "spec.sandboxTemplateRef.name: no "
                              "SandboxTemplate '%s' in namespace '%s'",
                              pool->name, pool->template_name,
                              pool->pool_namespace);
        }
    }
    return WP_OK;
}

enum wp_status
wp_manifest_join(struct wp_manifest *manifest, struct wp_manifest *other,
                 struct wp_err *err)
{
    enum wp_status status = check_join(manifest, other, err);
    struct wp_manifest **last = &manifest->joined;

    if (status != WP_OK) {
        return status;
    }
    for (size_t i = 0; i < other->templates_len; i++) {
        const struct wp_template *tmpl = &other->templates[i];

        if (find_template(manifest, tmpl->template_namespace, tmpl->name) ==
            NULL) {
            manifest->templates[manifest->templates_len++] = *tmpl;
        }
    }
    for (size_t i = 0; i < other->pools_len; i++) {
        manifest->pool_places[manifest->pools_len] = other->pool_places[i];
        manifest->pools[manifest->pools_len++] = other->pools[i];
    }
    for (size_t i = 0; i < other->notes.len; i++) {
        /* One that finds no memory is left out. */
        (void)!wp_notes_add(&manifest->notes, &manifest->region,
                            other->notes.texts[i]);
    }
    while (*last != NULL) {
        last = &(*last)->joined;
    }
    *last = other;
    return WP_OK;
}

size_t
wp_manifest_templates(const struct wp_manifest *manifest,
                      const struct wp_template **out)
{
    *out = manifest->templates;
    return manifest->templates_len;
}

size_t
wp_manifest_pools(const struct wp_manifest *manifest,
                  const struct wp_pool_spec **out)
{
    *out = manifest->pools;
    return manifest->pools_len;
}

size_t
wp_manifest_notes_count(const struct wp_manifest *manifest)
{
    return manifest->notes.len;
}

const char *
wp_manifest_note(const struct wp_manifest *manifest, size_t index)
{
    return index < manifest->notes.len ? manifest->notes.texts[index] : NULL;
}
