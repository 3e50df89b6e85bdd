#include "k8s/controllers/template/pod_check.h"

#include <stdio.h>
#include <string.h>

#include "k8s/objects/json.h"
#include "k8s/objects/sandbox_build.h"
#include "pool/base/str.h"

/* The API server's words for what it cannot read as a Pod at all, and in strict
 * mode for fields that it does not know. A webhook's 400 has neither. */
#define NOT_A_POD "cannot be handled as a Pod"
#define STRICT_ONLY "strict decoding error"
#define NAMED " is invalid: "

/* --- The Pod --- */

static bool
is_volume_claim(const json_t *claims, const char *name)
{
    size_t i;
    json_t *claim;

    json_array_foreach(claims, i, claim)
    {
        if (strcmp(wp_json_text(claim, "metadata", "name", NULL), name) == 0) {
            return true;
        }
    }
    return false;
}

/* A claim takes the place of a volume of its name. */
static json_t *
volumes_of(const json_t *given, const json_t *claims)
{
    json_t *volumes = json_array();
    size_t i;
    json_t *one;

    json_array_foreach(given, i, one)
    {
        if (!is_volume_claim(claims, wp_json_text(one, "name", NULL))) {
            (void)json_array_append(volumes, one);
        }
    }
    json_array_foreach(claims, i, one)
    {
        const char *name = wp_json_text(one, "metadata", "name", NULL);

        (void)json_array_append_new(
            volumes, json_pack("{s:s, s:{s:s}}", "name", name,
                               "persistentVolumeClaim", "claimName", name));
    }
    return volumes;
}

static json_t *
metadata_of(const struct wp_object *template_, const json_t *pod_template)
{
    static const char *const maps[] = {"labels", "annotations"};
    json_t *metadata = json_object();
    char prefix[300];

    (void)snprintf(prefix, sizeof prefix, "%s-", template_->name);
    wp_json_set_text(metadata, "generateName", prefix);
    wp_json_set_text(metadata, "namespace", template_->ns);
    for (size_t i = 0; i < WP_ARRAY_LEN(maps); i++) {
        json_t *map = wp_json_at(pod_template, "metadata", maps[i], NULL);

        if (json_is_object(map)) {
            wp_json_set(metadata, maps[i], json_incref(map));
        }
    }
    return metadata;
}

json_t *
wp_pod_check_build(const struct wp_object *template_, enum wp_tier installed)
{
    const struct wp_kind_info *info = wp_kind_info(WP_KIND_POD);
    json_t *blueprint = wp_sandbox_blueprint(template_);
    json_t *pod_template = json_object_get(blueprint, "podTemplate");
    json_t *claims = json_object_get(blueprint, "volumeClaimTemplates");
    json_t *pod;
    json_t *spec;

    if (blueprint == NULL) {
        return NULL;
    }
    wp_sandbox_secure_defaults(blueprint, template_, installed);
    spec = json_incref(json_object_get(pod_template, "spec"));
    if (json_array_size(claims) > 0) {
        wp_json_set(spec, "volumes",
                    volumes_of(json_object_get(spec, "volumes"), claims));
    }
    pod = json_object();
    wp_json_set_text(pod, "apiVersion", info->api_version);
    wp_json_set_text(pod, "kind", info->kind);
    wp_json_set(pod, "metadata", metadata_of(template_, pod_template));
    wp_json_set(pod, "spec", spec);
    json_decref(blueprint);
    return pod;
}

/* --- The answer --- */

static bool
names_a_field(const json_t *status)
{
    size_t i;
    json_t *cause;

    json_array_foreach(wp_json_at(status, "details", "causes", NULL), i, cause)
    {
        if (wp_json_text(cause, "field", NULL)[0] != '\0') {
            return true;
        }
    }
    return false;
}

/* `Pod "t-x7f2p" is invalid: spec...`: another name with each answer. */
static const char *
without_name(const char *message)
{
    const char *at = strstr(message, NAMED);

    return strncmp(message, "Pod \"", 5) == 0 && at != NULL
               ? at + sizeof NAMED - 1
               : message;
}

enum wp_pod_answer
wp_pod_check_read(const struct wp_api_result *result, char *words, size_t cap)
{
    const char *message = result->message != NULL ? result->message : "";

    (void)snprintf(words, cap, "%s", without_name(message));
    switch (result->code) {
    case 400:
        if (strstr(message, NOT_A_POD) == NULL) {
            return WP_POD_NOT_ALLOWED;
        }
        return strstr(message, STRICT_ONLY) != NULL ? WP_POD_UNKNOWN_FIELDS
                                                    : WP_POD_REFUSED;
    case 422:
        return names_a_field(result->object) ? WP_POD_REFUSED
                                             : WP_POD_NOT_ALLOWED;
    case 403:
    case 404: /* The namespace is not there any more. */
    case 413:
        return WP_POD_NOT_ALLOWED;
    default:
        return result->status == WP_OK || result->status == WP_ALREADY_EXISTS
                   ? WP_POD_TAKEN
                   : WP_POD_UNANSWERED;
    }
}
