#include "k8s/api/api_config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "k8s/api/api_config_impl.h"
#include "pool/base/file.h"

#define POD_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

static enum wp_status
no_memory(struct wp_err *err)
{
    return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
}

static enum wp_status
cannot_read(struct wp_err *err, const char *what, const char *path)
{
    return wp_err_sys(err,
                      errno == ENOENT ? WP_NOT_FOUND : WP_FAILED_PRECONDITION,
                      errno, "%s%.120s", what, path);
}

enum wp_status
wp_api_config_read(struct wp_api_config *config, const char *path,
                   const char *context, struct wp_err *err)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash == NULL   ? strdup(".")
                : slash == path ? strdup("/")
                                : strndup(path, (size_t)(slash - path));
    char *bytes = calloc(1, WP_API_CONFIG_BYTES_MAX + 2);
    enum wp_status status;
    ssize_t len;

    *config = (struct wp_api_config){.server = NULL};
    if (dir == NULL || bytes == NULL) {
        free(bytes);
        free(dir);
        return no_memory(err);
    }
    len = wp_path_read(path, 0, bytes, WP_API_CONFIG_BYTES_MAX + 1, NULL);
    if (len < 0) {
        status = cannot_read(err, "kubeconfig: ", path);
    } else {
        status = wp_api_config_parse(
            config, (struct wp_str){bytes, (size_t)len}, dir, context, err);
        if (status != WP_OK) {
            status = wp_err_wrap(err, "kubeconfig %.80s", path);
        }
    }
    explicit_bzero(bytes, WP_API_CONFIG_BYTES_MAX + 2);
    free(bytes);
    free(dir);
    return status;
}

/* --- In a Pod --- */

static enum wp_status
take_pod_namespace(struct wp_api_config *config, const char *dir,
                   struct wp_err *err)
{
    char path[512];
    char text[WP_API_CONFIG_NAMESPACE_MAX + 3] = "";

    (void)snprintf(path, sizeof path, "%s/namespace", dir);
    if (wp_path_read(path, 0, text, sizeof text - 1, NULL) < 0) {
        return errno == ENOENT ? WP_OK : cannot_read(err, "", path);
    }
    text[strcspn(text, "\r\n")] = '\0';
    if (!wp_str_is_dns_name(wp_str_from(text), WP_API_CONFIG_NAMESPACE_MAX)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%.120s: a namespace's name was expected", path);
    }
    config->own_namespace = strdup(text);
    return config->own_namespace != NULL ? WP_OK : no_memory(err);
}

/* Where the service is and where the account's files lie. */
static enum wp_status
name_pod_parts(struct wp_api_config *config, const char *host, const char *port,
               const char *dir, struct wp_err *err)
{
    bool v6 = strchr(host, ':') != NULL && host[0] != '[';

    if (asprintf(&config->server, "https://%s%s%s:%s", v6 ? "[" : "", host,
                 v6 ? "]" : "", port) < 0) {
        config->server = NULL;
    }
    if (asprintf(&config->token_file, "%s/token", dir) < 0) {
        config->token_file = NULL;
    }
    if (asprintf(&config->ca_file, "%s/ca.crt", dir) < 0) {
        config->ca_file = NULL;
    }
    if (config->server == NULL || config->token_file == NULL ||
        config->ca_file == NULL) {
        return no_memory(err);
    }
    if (!wp_api_config_is_server(config->server)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "KUBERNETES_SERVICE_HOST: an address was expected");
    }
    if (access(config->token_file, R_OK) != 0 ||
        access(config->ca_file, R_OK) != 0) {
        return wp_err_sys(err, WP_FAILED_PRECONDITION, errno,
                          "%.120s: the service account's token and ca.crt were "
                          "expected there",
                          dir);
    }
    return WP_OK;
}

enum wp_status
wp_api_config_in_cluster(struct wp_api_config *config, const char *dir,
                         struct wp_err *err)
{
    /* Read once, at the start. NOLINTBEGIN(concurrency-mt-unsafe) */
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    const char *port = getenv("KUBERNETES_SERVICE_PORT");
    /* NOLINTEND(concurrency-mt-unsafe) */
    enum wp_status status;
    uint64_t number;

    *config = (struct wp_api_config){.server = NULL};
    if (host == NULL || port == NULL || host[0] == '\0') {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT "
                          "were expected: outside of a Pod a kubeconfig is "
                          "needed");
    }
    if (!wp_str_to_u64(wp_str_from(port), &number) || number == 0 ||
        number > UINT16_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "KUBERNETES_SERVICE_PORT: a port was expected");
    }
    dir = dir != NULL ? dir : POD_DIR;
    status = name_pod_parts(config, host, port, dir, err);
    if (status == WP_OK) {
        status = take_pod_namespace(config, dir, err);
    }
    if (status == WP_OK) {
        status = wp_api_config_default_namespace(config, err);
    }
    if (status != WP_OK) {
        wp_api_config_fini(config);
    }
    return status;
}
