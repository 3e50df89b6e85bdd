#include <stdlib.h>
#include <string.h>

#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "k8s/objects/pod_tier.h"
#include "k8s/objects/view_read.h"
#include "pool/base/fnv.h"
#include "pool/binding.h"

enum {
    IMPLICIT_REPLICAS_MAX = 1000, /* As the setting implicit_pool. */
};

static const char *const management[] = {"Managed", "Unmanaged", NULL};
static const char *const injection[] = {"Disallowed", "Allowed", "Overrides",
                                        NULL};

void
wp_pod_secure_defaults(json_t *pod_spec, bool public_dns)
{
    if (!json_is_boolean(
            json_object_get(pod_spec, "automountServiceAccountToken"))) {
        wp_json_set(pod_spec, "automountServiceAccountToken", json_false());
    }
    if (public_dns && wp_json_text(pod_spec, "dnsPolicy", NULL)[0] == '\0') {
        json_t *servers = json_pack("[ss]", "8.8.8.8", "1.1.1.1");

        wp_json_set_text(pod_spec, "dnsPolicy", "None");
        wp_json_set(pod_spec, "dnsConfig",
                    wp_json_set(json_object(), "nameservers", servers));
    }
}

void
wp_pod_wait_for_port(json_t *pod_spec, uint16_t port)
{
    const json_t *has = json_object_get(pod_spec, "containers");
    const json_t *first = json_array_get(has, 0);
    json_t *containers;
    json_t *container;
    json_t *probe;

    if (port == 0 || !json_is_object(first) ||
        json_object_get(first, "readinessProbe") != NULL) {
        return;
    }
    containers = wp_json_copy(json_object_get(pod_spec, "containers"));
    container = wp_json_copy(json_array_get(containers, 0));
    probe = json_pack("{s:{s:i}, s:i}", "tcpSocket", "port", (int)port,
                      "periodSeconds", 1);
    (void)wp_json_set(container, "readinessProbe", probe);
    (void)json_array_set_new(containers, 0, container);
    (void)wp_json_set(pod_spec, "containers", containers);
}

/* Of each volume claim what it is, without its labels and annotations. */
static json_t *
volume_claims(const json_t *templates)
{
    json_t *out = json_array();
    json_t *claim;
    size_t i;

    json_array_foreach(templates, i, claim)
    {
        json_t *bare = json_object();

        wp_json_set_text(bare, "name",
                         wp_json_text(claim, "metadata", "name", NULL));
        if (json_object_get(claim, "spec") != NULL) {
            wp_json_set(bare, "spec",
                        json_incref(json_object_get(claim, "spec")));
        }
        if (json_array_append_new(out, bare) != 0) {
            wp_json_no_memory();
        }
    }
    return out;
}

static json_t *
pod_spec_of(const json_t *spec)
{
    const json_t *found = wp_json_at(spec, "podTemplate", "spec", NULL);

    return json_is_object(found) ? wp_json_copy(found) : json_object();
}

/* Takes pod_spec. */
static uint64_t
blueprint_hash(const json_t *spec, json_t *pod_spec)
{
    json_t *blueprint = wp_json_set(json_object(), "pod", pod_spec);
    uint64_t hash;

    wp_json_set(blueprint, "volumeClaims",
                volume_claims(json_object_get(spec, "volumeClaimTemplates")));
    if (json_is_boolean(json_object_get(spec, "service"))) {
        wp_json_set(blueprint, "service",
                    json_incref(json_object_get(spec, "service")));
    }
    hash = wp_json_hash(blueprint);
    json_decref(blueprint);
    return hash;
}

uint64_t
wp_blueprint_hash(const json_t *spec)
{
    return blueprint_hash(spec, pod_spec_of(spec));
}

static uint64_t
template_blueprint_hash(const json_t *spec, const struct wp_template_view *view,
                        enum wp_tier tier)
{
    json_t *shared = pod_spec_of(spec);
    json_t *pod_spec = wp_json_deep_copy(shared);

    json_decref(shared);
    wp_pod_apply_tier(pod_spec, tier);
    wp_pod_secure_defaults(pod_spec, wp_template_has_public_dns(view, tier));
    wp_pod_wait_for_port(pod_spec, view->serving_port);
    return blueprint_hash(spec, pod_spec);
}

enum wp_tier
wp_template_tier(const struct wp_template_view *view, enum wp_tier installed)
{
    return view->has_tier ? view->tier : installed;
}

bool
wp_template_has_public_dns(const struct wp_template_view *view,
                           enum wp_tier tier)
{
    return view->managed && !view->has_network_policy &&
           !wp_tier_info(tier)->proxied;
}

static uint64_t
pod_metadata_hash(const json_t *spec)
{
    static const char *const maps[] = {"labels", "annotations"};
    uint64_t hash = WP_FNV_BASIS;

    for (size_t i = 0; i < WP_ARRAY_LEN(maps); i++) {
        json_t *map =
            wp_json_at(spec, "podTemplate", "metadata", maps[i], NULL);
        /* None is as good as an empty one. */
        bool any = json_object_size(map) > 0;
        char *text =
            any ? json_dumps(map, JSON_COMPACT | JSON_SORT_KEYS) : NULL;

        if (any && text == NULL) {
            wp_json_no_memory();
        }
        hash = wp_fnv_str(hash, wp_str_from(any ? text : "{}"));
        free(text);
    }
    return hash;
}

static enum wp_injection_policy
read_policy(struct wp_view_reader *reader, const char *path)
{
    return (enum wp_injection_policy)wp_view_choice(reader, path, injection,
                                                    WP_INJECTION_DISALLOWED);
}

static uint16_t
read_serving_port(struct wp_view_reader *reader)
{
    const char *text = wp_json_text(reader->root, "metadata", "annotations",
                                    WP_ANNOTATION_SERVING_PORT, NULL);
    uint64_t port = 0;

    if (text[0] != '\0' && (!wp_str_to_u64(wp_str_from(text), &port) ||
                            port == 0 || port > UINT16_MAX)) {
        wp_view_wrong(reader,
                      "metadata.annotations." WP_ANNOTATION_SERVING_PORT,
                      "a port, 1 to 65535");
        return 0;
    }
    return (uint16_t)port;
}

static int32_t
read_implicit_pool(struct wp_view_reader *reader)
{
    const char *text = wp_json_text(reader->root, "metadata", "annotations",
                                    WP_ANNOTATION_IMPLICIT_POOL, NULL);
    uint64_t replicas = 0;

    if (text[0] == '\0') {
        return -1;
    }
    if (!wp_str_to_u64(wp_str_from(text), &replicas) ||
        replicas > IMPLICIT_REPLICAS_MAX) {
        wp_view_wrong(reader,
                      "metadata.annotations." WP_ANNOTATION_IMPLICIT_POOL,
                      "a number of sandboxes, 0 to 1000");
        return -1;
    }
    return (int32_t)replicas;
}

static void
read_tier(struct wp_view_reader *reader, struct wp_template_view *view)
{
    const char *text = wp_json_text(reader->root, "metadata", "annotations",
                                    WP_TIER_KEY, NULL);

    view->has_tier = wp_tier_parse(wp_str_from(text), &view->tier);
    if (text[0] != '\0' && !view->has_tier) {
        wp_view_wrong(reader, "metadata.annotations." WP_TIER_KEY, "T0 to T4");
    }
}

static bool
read_binding(struct wp_view_reader *reader)
{
    const char *text = wp_json_text(reader->root, "metadata", "annotations",
                                    WP_TEMPLATE_BINDING_KEY, NULL);
    bool allowed = strcmp(text, "allowed") == 0;

    if (text[0] != '\0' && !allowed && strcmp(text, "none") != 0) {
        wp_view_wrong(reader, "metadata.annotations." WP_TEMPLATE_BINDING_KEY,
                      "'allowed' or 'none'");
    }
    return allowed;
}

void
wp_view_read_template(struct wp_view_reader *reader, void *out)
{
    struct wp_template_view *view = out;
    const json_t *spec = wp_view_object(reader, "spec");

    view->managed = wp_view_choice(reader, "spec.networkPolicyManagement",
                                   management, 0) == 0;
    view->has_network_policy =
        wp_view_object(reader, "spec.networkPolicy") != NULL;
    view->env_policy = read_policy(reader, "spec.envVarsInjectionPolicy");
    view->volume_policy =
        read_policy(reader, "spec.volumeClaimTemplatesPolicy");
    view->serving_port = read_serving_port(reader);
    view->implicit_pool = read_implicit_pool(reader);
    read_tier(reader, view);
    view->binds = read_binding(reader);
    (void)wp_view_object(reader, "spec.podTemplate.spec");
    (void)wp_view_array(reader, "spec.volumeClaimTemplates");
    (void)wp_view_bool(reader, "spec.service", false);
    if (reader->block != NULL) { /* Once is enough: it is no small work. */
        for (int tier = 0; tier < WP_TIERS; tier++) {
            view->blueprint_hashes[tier] =
                template_blueprint_hash(spec, view, (enum wp_tier)tier);
        }
        view->pod_metadata_hash = pod_metadata_hash(spec);
    }
}

const struct wp_template_view *
wp_template_view(const struct wp_object *object)
{
    return object->kind == WP_KIND_SANDBOX_TEMPLATE ? object->view : NULL;
}
