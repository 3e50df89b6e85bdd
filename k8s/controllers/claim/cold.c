#include "k8s/controllers/claim/cold.h"

#include <string.h>

#include "k8s/bind/brings.h"
#include "k8s/controllers/claim/adopt.h"
#include "k8s/controllers/claim/metadata.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "k8s/objects/owner.h"
#include "k8s/objects/sandbox_build.h"
#include "k8s/objects/view.h"
#include "pool/base/assert.h"

/* One variable into one container. *reason stays as it is, unless a policy does
 * not let that be. */
static enum wp_status
add_variable(json_t *container, const char *name, const json_t *value,
             int policy, const char **reason, struct wp_err *err)
{
    json_t *env = json_object_get(container, "env");
    json_t *have;
    json_t *wanted;

    if (policy == WP_INJECTION_ALLOWED &&
        json_array_size(json_object_get(container, "envFrom")) > 0) {
        *reason = WP_REASON_ENV_REJECTED;
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "env: container '%s' takes variables from elsewhere "
                          "(envFrom), which policy Allowed cannot protect",
                          wp_json_text(container, "name", NULL));
    }
    if (!json_is_array(env)) {
        env = json_array();
        (void)wp_json_set(container, "env", env);
    }
    have = wp_json_find(env, "name", name);
    if (have != NULL && policy != WP_INJECTION_OVERRIDES) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "env: '%s' is the template's, and its policy does "
                          "not let a claim change it",
                          name);
    }
    wanted = wp_json_set_text(json_object(), "name", name);
    (void)wp_json_set_text(wanted, "value", json_string_value(value));
    if (have != NULL) {
        (void)json_object_clear(have);
        (void)json_object_update(have, wanted);
        json_decref(wanted);
    } else {
        (void)json_array_append_new(env, wanted);
    }
    return WP_OK;
}

/* The claim's part of a Sandbox's spec; *reason as above. */
static enum wp_status
add_env(json_t *spec, const json_t *env, int policy, const char **reason,
        struct wp_err *err)
{
    json_t *pod = wp_json_at(spec, "podTemplate", "spec", NULL);
    json_t *containers = json_object_get(pod, "containers");
    json_t *variable;
    size_t i;

    if (json_array_size(env) == 0) {
        return WP_OK;
    }
    if (policy != WP_INJECTION_ALLOWED && policy != WP_INJECTION_OVERRIDES) {
        *reason = WP_REASON_ENV_REJECTED;
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "env: the template's envVarsInjectionPolicy lets no "
                          "claim set variables");
    }
    json_array_foreach(env, i, variable)
    {
        const char *target = wp_json_text(variable, "containerName", NULL);
        const char *name = wp_json_text(variable, "name", NULL);
        json_t *container = wp_json_find(containers, "name", target);
        json_t *value = json_object_get(variable, "value");
        enum wp_status status;

        if (target[0] == '\0') {
            container = json_array_get(containers, 0);
        } else if (container == NULL) {
            container = wp_json_find(json_object_get(pod, "initContainers"),
                                     "name", target);
        }
        if (!json_is_object(container) || name[0] == '\0' ||
            !json_is_string(value)) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "env: '%s': expected a name, a value and a "
                              "container of the template, not '%s'",
                              name, target);
        }
        status = add_variable(container, name, value, policy, reason, err);
        if (status != WP_OK) {
            return status;
        }
    }
    return WP_OK;
}

static const char *
volume_name(const json_t *volume)
{
    return wp_json_text(volume, "metadata", "name", NULL);
}

static size_t
find_volume(const json_t *volumes, const char *name)
{
    size_t i;
    json_t *volume;

    json_array_foreach(volumes, i, volume)
    {
        if (strcmp(volume_name(volume), name) == 0) {
            return i;
        }
    }
    return SIZE_MAX;
}

static enum wp_status
check_volumes(const json_t *volumes, const char *whose, struct wp_err *err)
{
    size_t i;
    json_t *volume;

    json_array_foreach(volumes, i, volume)
    {
        const char *name = volume_name(volume);

        if (name[0] == '\0') {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "volumeClaimTemplates: the %s's number %zu has "
                              "no name",
                              whose, i);
        }
        if (find_volume(volumes, name) != i) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "volumeClaimTemplates: the %s has '%s' twice",
                              whose, name);
        }
    }
    return WP_OK;
}

static enum wp_status
add_volumes(json_t *spec, const json_t *volumes, int policy, struct wp_err *err)
{
    json_t *have = json_object_get(spec, "volumeClaimTemplates");
    size_t i;
    json_t *volume;
    enum wp_status status = check_volumes(have, "template", err);

    if (status != WP_OK || json_array_size(volumes) == 0) {
        return status;
    }
    status = check_volumes(volumes, "claim", err);
    if (status != WP_OK) {
        return status;
    }
    if (policy != WP_INJECTION_ALLOWED && policy != WP_INJECTION_OVERRIDES) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "volumeClaimTemplates: the template's "
                          "volumeClaimTemplatesPolicy lets no claim bring any");
    }
    if (!json_is_array(have)) {
        have = json_array();
        (void)wp_json_set(spec, "volumeClaimTemplates", have);
    }
    json_array_foreach(volumes, i, volume)
    {
        size_t at = find_volume(have, volume_name(volume));

        if (at == SIZE_MAX) {
            (void)json_array_append(have, volume);
        } else if (policy == WP_INJECTION_OVERRIDES) {
            (void)json_array_set(have, at, volume);
        } else {
            return wp_err_set(err, WP_FAILED_PRECONDITION,
                              "volumeClaimTemplates: '%s' is the template's, "
                              "and its policy does not let a claim change it",
                              volume_name(volume));
        }
    }
    return WP_OK;
}

static json_t *
metadata_of(const struct wp_object *claim, const struct wp_object *templ,
            const char *template_hash)
{
    const char *trace = wp_object_annotation(claim, WP_ANNOTATION_TRACE);
    json_t *metadata = json_object();
    json_t *labels = wp_json_object_at(metadata, "labels");
    json_t *annotations = wp_json_object_at(metadata, "annotations");
    json_t *owners = json_array();

    (void)wp_json_set_text(metadata, "namespace", claim->ns);
    (void)wp_json_set_text(metadata, "name", claim->name);
    (void)json_array_append_new(owners, wp_owner_reference(claim));
    (void)wp_json_set(metadata, "ownerReferences", owners);
    wp_claim_identity_set(labels, claim);
    (void)wp_json_set_text(labels, WP_LABEL_LAUNCH_TYPE, "cold");
    (void)wp_json_set_text(labels, WP_LABEL_TEMPLATE_REF_HASH, template_hash);
    (void)wp_json_set_text(annotations, WP_ANNOTATION_TEMPLATE_REF,
                           templ->name);
    /* Known already, so the sandbox controller need not write it. */
    (void)wp_json_set_text(annotations, WP_ANNOTATION_POD_NAME, claim->name);
    if (wp_claim_brings_more(claim)) {
        (void)wp_json_set_text(annotations, WP_ANNOTATION_BRINGS, "true");
    }
    if (trace != NULL) {
        (void)wp_json_set_text(annotations, WP_ANNOTATION_TRACE, trace);
    }
    return metadata;
}

/* What the claim brings along, into the spec. */
static enum wp_status
add_wishes(json_t *spec, const struct wp_object *claim,
           const struct wp_template_view *templ, const char *template_hash,
           const char **reason, struct wp_err *err)
{
    json_t *whole = wp_object_json(claim);
    json_t *wishes = json_object_get(whole, "spec");
    json_t *metadata =
        wp_json_object_at(wp_json_object_at(spec, "podTemplate"), "metadata");
    json_t *labels = wp_json_object_at(metadata, "labels");
    enum wp_status status;

    WP_ASSERT(whole != NULL);
    wp_claim_identity_set(labels, claim);
    (void)wp_json_set_text(labels, WP_LABEL_TEMPLATE_REF_HASH, template_hash);
    *reason = WP_REASON_VOLUMES_REJECTED;
    status = add_volumes(spec, json_object_get(wishes, "volumeClaimTemplates"),
                         (int)templ->volume_policy, err);
    if (status == WP_OK) {
        *reason = WP_REASON_ERROR;
        status = wp_claim_metadata_merge(
            metadata, json_object_get(wishes, "additionalPodMetadata"), err);
    }
    if (status == WP_OK) {
        status = add_env(spec, json_object_get(wishes, "env"),
                         (int)templ->env_policy, reason, err);
    }
    json_decref(whole);
    return status;
}

json_t *
wp_cold_sandbox(const struct wp_object *claim, const struct wp_object *templ,
                enum wp_tier installed, const char **reason, struct wp_err *err)
{
    const struct wp_kind_info *kind = wp_kind_info(WP_KIND_SANDBOX);
    json_t *spec = wp_sandbox_blueprint(templ);
    char template_hash[WP_NAME_HASH_LEN + 1];
    json_t *sandbox;

    if (spec == NULL) {
        *reason = WP_REASON_ERROR;
        (void)wp_err_set(err, WP_FAILED_PRECONDITION,
                         "template \"%s\": spec.podTemplate.spec: expected an "
                         "object",
                         templ->name);
        return NULL;
    }
    wp_name_hash(wp_str_from(templ->name), template_hash);
    if (add_wishes(spec, claim, wp_template_view(templ), template_hash, reason,
                   err) != WP_OK) {
        json_decref(spec);
        return NULL;
    }
    wp_sandbox_secure_defaults(spec, templ, installed);
    sandbox = json_object();
    (void)wp_json_set_text(sandbox, "apiVersion", kind->api_version);
    (void)wp_json_set_text(sandbox, "kind", kind->kind);
    (void)wp_json_set(sandbox, "metadata",
                      metadata_of(claim, templ, template_hash));
    return wp_json_set(sandbox, "spec", spec);
}
