/* k8s/api/api_config.h - which API server, and as whom.
 *
 * From a kubeconfig file or from what a Pod is given. Secrets in it never reach
 * logs or error texts. */
#ifndef WP_K8S_API_API_CONFIG_H
#define WP_K8S_API_API_CONFIG_H

#include <stdbool.h>

#include "pool/base/compiler.h"
#include "pool/base/status.h"
#include "pool/base/str.h"

/* Texts are owned; NULL where nothing was given. Of a pair (file, PEM data) at
 * most one is set. Relative paths are made relative to the file's folder. */
struct wp_api_config {
    char *server;      /* "https://host:port", without a final slash. */
    char *server_name; /* tls-server-name */
    char *ca_file;
    char *ca_pem;
    char *cert_file;
    char *cert_pem;
    char *key_file;
    char *key_pem;
    char *token_file;    /* Read again as it rotates. */
    char *token;         /* Fixed. */
    char *user;          /* Basic authentication is refused; see read. */
    char *own_namespace; /* Of the context or of the Pod; "default". */
    bool insecure;       /* insecure-skip-tls-verify */
};

/* path: a kubeconfig, of which the named context (NULL: its current one) is
 * used. Refused, each with the field and what was expected: exec plugins and
 * auth providers (with what to do instead), basic authentication, proxies, a
 * missing cluster, user or context, malformed base64, files over 1 MiB. */
WP_MUST_CHECK enum wp_status wp_api_config_read(struct wp_api_config *config,
                                                const char *path,
                                                const char *context,
                                                struct wp_err *err);
/* The same from bytes; dir: what relative paths are relative to. For tests and
 * the fuzz target. */
WP_MUST_CHECK enum wp_status
wp_api_config_parse(struct wp_api_config *config, struct wp_str yaml,
                    const char *dir, const char *context, struct wp_err *err);
/* From KUBERNETES_SERVICE_HOST, _PORT and the service account's folder (dir;
 * NULL: where every Pod has it). FAILED_PRECONDITION outside a Pod. */
WP_MUST_CHECK enum wp_status
wp_api_config_in_cluster(struct wp_api_config *config, const char *dir,
                         struct wp_err *err);
/* Overwrites secrets. A zeroed one is fine. */
void wp_api_config_fini(struct wp_api_config *config);

#endif
