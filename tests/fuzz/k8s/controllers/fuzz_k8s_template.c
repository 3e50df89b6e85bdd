/* tests/fuzz/k8s/controllers/fuzz_k8s_template.c - any JSON as a SandboxTemplate, and what is
 * made from it: a sandbox that is not stale, and a policy that is the same as
 * itself. A sandbox made from the text is compared with it, too. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "k8s/objects/json.h"
#include "k8s/controllers/template/network_policy.h"
#include "pool/annotations/quantity.h"
#include "k8s/objects/pod_tier.h"
#include "k8s/objects/sandbox_build.h"
#include "k8s/controllers/pool/staleness.h"
#include "pool/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Named and dated, as the API server would do; what is there otherwise stays. */
static struct wp_object *
object_of(enum wp_kind kind, const json_t *json)
{
    json_t *copy = json_deep_copy(json);
    json_t *metadata = json_object_get(copy, "metadata");
    struct wp_object *object;
    struct wp_err err;

    if (!json_is_object(metadata)) {
        metadata = json_object();
        wp_json_set(copy, "metadata", metadata);
    }
    wp_json_set_text(metadata, "name", "t");
    wp_json_set_text(metadata, "namespace", "n");
    wp_json_set_text(metadata, "uid", "u");
    object = wp_object_create(kind, copy, &err);
    json_decref(copy);
    return object;
}

static void
check_sandbox(const struct wp_object *template_, const struct wp_object *other,
              enum wp_tier tier)
{
    static const uint8_t uid[WP_UID_LEN];
    const struct wp_cluster_config config = {.warm_pool_eviction = true,
                                             .default_tier = tier};
    struct wp_staleness *staleness = wp_staleness_create(tier);
    json_t *built = wp_sandbox_build(template_, template_, "t", uid, &config);
    json_t *own;

    WP_ASSERT(staleness != NULL);
    if (other != NULL && wp_sandbox_is_stale(staleness, other, template_)) {
        /* And so it stays. */
        WP_ASSERT(wp_sandbox_is_stale(staleness, other, template_));
    }
    if (built != NULL) {
        struct wp_object *sandbox;
        char paths[64];

        (void)!wp_pod_is_weaker(
            wp_json_at(built, "spec", "podTemplate", "spec", NULL), tier, paths,
            sizeof paths);
        /* Without a controller it is compared in full. */
        own = wp_json_at(built, "metadata", NULL);
        (void)json_object_del(own, "ownerReferences");
        sandbox = object_of(WP_KIND_SANDBOX, built);
        if (sandbox != NULL) {
            WP_ASSERT(!wp_sandbox_is_stale(staleness, sandbox, template_));
        }
        wp_object_unref(sandbox);
    }
    json_decref(built);
    wp_staleness_destroy(staleness);
}

static void
check_policy(const struct wp_object *template_, enum wp_tier tier)
{
    json_t *spec = wp_network_policy_spec(template_, tier);
    json_t *policy = wp_network_policy_build(template_, json_deep_copy(spec));

    WP_ASSERT(wp_network_policy_same(spec, json_object_get(policy, "spec")));
    json_decref(policy);
    json_decref(spec);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_str text = {(const char *)data, size};
    json_t *json = size == 0 ? NULL : json_loadb(text.ptr, size, 0, NULL);
    char quantity[WP_QUANTITY_TEXT_MAX];
    struct wp_object *template_;
    struct wp_object *sandbox;

    if (size > 0 && wp_quantity_canonical(text, quantity)) {
        WP_ASSERT(quantity[0] != '\0');
    }
    if (!json_is_object(json)) {
        json_decref(json);
        return 0;
    }
    template_ = object_of(WP_KIND_SANDBOX_TEMPLATE, json);
    sandbox = object_of(WP_KIND_SANDBOX, json);
    for (int tier = 0; template_ != NULL && tier < WP_TIERS; tier++) {
        check_sandbox(template_, sandbox, (enum wp_tier)tier);
        check_policy(template_, (enum wp_tier)tier);
    }
    wp_object_unref(template_);
    wp_object_unref(sandbox);
    json_decref(json);
    return 0;
}
