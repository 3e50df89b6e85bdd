#include "k8s/controllers/webhook/definitions.h"

#include <string.h>

#include "k8s/objects/json.h"

const char *
wp_definition_name(size_t i)
{
    static const char *const names[WP_DEFINITIONS] = {
        "sandboxes.agents.x-k8s.io",
        "sandboxclaims.extensions.agents.x-k8s.io",
        "sandboxtemplates.extensions.agents.x-k8s.io",
        "sandboxwarmpools.extensions.agents.x-k8s.io",
    };

    return names[i];
}

json_t *
wp_definition_client(const char *url, const char *service, const char *ns,
                     json_t *bundle)
{
    json_t *client = wp_json_set(json_object(), "caBundle", bundle);
    json_t *target;

    if (url != NULL) {
        return wp_json_set_text(client, "url", url);
    }
    target = json_object();
    (void)wp_json_set_text(target, "name", service);
    (void)wp_json_set_text(target, "namespace", ns);
    (void)wp_json_set_text(target, "path", "/convert");
    (void)wp_json_set(target, "port", json_integer(443));
    return wp_json_set(client, "service", target);
}

json_t *
wp_definition_patch(const json_t *definition, const json_t *client)
{
    const json_t *spec = json_object_get(definition, "spec");
    const json_t *conversion = json_object_get(spec, "conversion");
    json_t *wanted;
    json_t *webhook;
    json_t *patch;

    if (wp_json_find(json_object_get(spec, "versions"), "name", "v1alpha1") ==
            NULL ||
        (strcmp(wp_json_text(conversion, "strategy", NULL), "Webhook") == 0 &&
         json_equal(wp_json_at(conversion, "webhook", "clientConfig", NULL),
                    client))) {
        return NULL;
    }
    wanted = wp_json_deep_copy(client);
    /* Of the two a definition has one. */
    (void)wp_json_set(
        wanted, json_object_get(client, "url") != NULL ? "service" : "url",
        json_null());
    webhook = wp_json_set(json_object(), "clientConfig", wanted);
    (void)wp_json_set(webhook, "conversionReviewVersions",
                      json_pack("[s]", "v1"));
    patch = wp_json_set_text(json_object(), "strategy", "Webhook");
    (void)wp_json_set(patch, "webhook", webhook);
    patch = wp_json_set(json_object(), "conversion", patch);
    return wp_json_set(json_object(), "spec", patch);
}
