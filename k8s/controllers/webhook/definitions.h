/* k8s/controllers/webhook/definitions.h - who converts a kind, as its
 * definition says it. Pure. */
#ifndef WP_K8S_CONTROLLERS_WEBHOOK_DEFINITIONS_H
#define WP_K8S_CONTROLLERS_WEBHOOK_DEFINITIONS_H

#include <jansson.h>

enum {
    WP_DEFINITIONS = 4,
};

/* The name of definition i. Static. */
const char *wp_definition_name(size_t i);
/* spec.conversion.webhook.clientConfig, with this bundle (taken): of the url,
 * or of the Service when that is NULL. A new reference. */
json_t *wp_definition_client(const char *url, const char *service,
                             const char *ns, json_t *bundle);
/* The merge patch that makes the definition ask there; NULL when it does so
 * already, or does not have two versions, so that nothing is converted. */
json_t *wp_definition_patch(const json_t *definition, const json_t *client);

#endif
