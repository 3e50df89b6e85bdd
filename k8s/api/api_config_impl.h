/* k8s/api/api_config_impl.h - what api_config*.c share. Private to them. */
#ifndef WP_K8S_API_API_CONFIG_IMPL_H
#define WP_K8S_API_API_CONFIG_IMPL_H

#include "k8s/api/api_config.h"

enum {
    WP_API_CONFIG_BYTES_MAX = 1 << 20, /* Of a kubeconfig. */
    WP_API_CONFIG_NAMESPACE_MAX = 63,
};

/* An http or https URL with a host, without credentials or a query. */
WP_MUST_CHECK bool wp_api_config_is_server(const char *text);
/* "default", where nothing said another one. */
WP_MUST_CHECK enum wp_status
wp_api_config_default_namespace(struct wp_api_config *config,
                                struct wp_err *err);

#endif
