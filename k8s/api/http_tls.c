#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "k8s/api/http_parts.h"

/* A file and PEM bytes for the same thing, and where curl wants them. */
struct material {
    const char *what;
    const char *file;
    const char *pem;
    CURLoption file_option;
    CURLoption pem_option;
};

enum {
    MATERIALS = 3,
};

static void
materials(const struct wp_api_config *server, struct material out[MATERIALS])
{
    const struct material rows[MATERIALS] = {
        {"certificate-authority", server->ca_file, server->ca_pem,
         CURLOPT_CAINFO, CURLOPT_CAINFO_BLOB},
        {"client-certificate", server->cert_file, server->cert_pem,
         CURLOPT_SSLCERT, CURLOPT_SSLCERT_BLOB},
        {"client-key", server->key_file, server->key_pem, CURLOPT_SSLKEY,
         CURLOPT_SSLKEY_BLOB},
    };

    memcpy(out, rows, sizeof rows);
}

/* "https://10.0.0.1:6443" with a server name "api" becomes
 * "https://api:6443", connected to 10.0.0.1: curl asks for, and checks, the
 * name in the URL. */
static enum wp_status
use_server_name(struct wp_http *http, struct wp_err *err)
{
    const char *server = http->config.server->server;
    const char *name = http->config.server->server_name;
    CURLU *url = curl_url();
    char *host = NULL;
    char *port = NULL;
    char *route = NULL;
    enum wp_status status = WP_OK;

    if (url == NULL || curl_url_set(url, CURLUPART_URL, server, 0) != 0 ||
        curl_url_get(url, CURLUPART_HOST, &host, 0) != 0 ||
        curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) != 0) {
        status = wp_err_set(err, WP_INVALID_ARGUMENT,
                            "server: '%s' is no URL with a host", server);
    } else if (curl_url_set(url, CURLUPART_HOST, name, 0) != 0 ||
               curl_url_get(url, CURLUPART_URL, &http->base_url, 0) != 0) {
        status = wp_err_set(err, WP_INVALID_ARGUMENT,
                            "tls-server-name: '%s' is no host name", name);
    } else if (asprintf(&route, "%s:%s:%s:%s", name, port, host, port) < 0 ||
               asprintf(&http->host_header, "Host: %s:%s", host, port) < 0 ||
               (http->connect_to = curl_slist_append(NULL, route)) == NULL) {
        status = wp_err_set(err, WP_RESOURCE_EXHAUSTED, "out of memory");
    } else if (http->base_url[strlen(http->base_url) - 1] == '/') {
        /* curl puts one there when there is no path; ours begin with one. */
        http->base_url[strlen(http->base_url) - 1] = '\0';
    }
    free(route);
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(url);
    return status;
}

enum wp_status
wp_http_server_init(struct wp_http *http, struct wp_err *err)
{
    const struct wp_api_config *server = http->config.server;
    struct material rows[MATERIALS];

    materials(server, rows);
    for (size_t i = 0; i < MATERIALS; i++) {
        if (rows[i].file != NULL && access(rows[i].file, R_OK) != 0) {
            return wp_err_sys(err, WP_FAILED_PRECONDITION, errno,
                              "%s: '%s' cannot be read", rows[i].what,
                              rows[i].file);
        }
    }
    if (server->server_name != NULL) {
        return use_server_name(http, err);
    }
    http->base_url = strdup(server->server);
    if (http->base_url == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "out of memory");
    }
    return WP_OK;
}

void
wp_http_server_fini(struct wp_http *http)
{
    curl_slist_free_all(http->connect_to);
    curl_free(http->base_url);
    free(http->host_header);
}

static bool
apply_material(CURL *curl, const struct material *row)
{
    /* Not copied: the configuration outlives the client. */
    struct curl_blob blob = {.flags = CURL_BLOB_NOCOPY};
    bool ok = true;

    if (row->file != NULL) {
        ok = curl_easy_setopt(curl, row->file_option, row->file) == CURLE_OK;
    } else if (row->pem != NULL) {
        memcpy(&blob.data, &row->pem, sizeof blob.data);
        blob.len = strlen(row->pem);
        ok = curl_easy_setopt(curl, row->pem_option, &blob) == CURLE_OK;
    }
    return ok;
}

bool
wp_http_server_apply(const struct wp_http *http, void *curl)
{
    const struct wp_api_config *server = http->config.server;
    struct material rows[MATERIALS];
    bool ok = true;

    materials(server, rows);
    for (size_t i = 0; i < MATERIALS; i++) {
        ok = ok && apply_material(curl, &rows[i]);
    }
    if (http->connect_to != NULL) {
        ok = ok && curl_easy_setopt(curl, CURLOPT_CONNECT_TO,
                                    http->connect_to) == CURLE_OK;
    }
    /* A new connection is to see the files as they are now: curl would keep a
     * parsed CA file for a day, and a resumed session is checked by nobody. */
    ok = ok && curl_easy_setopt(curl, CURLOPT_CA_CACHE_TIMEOUT, 0L) == CURLE_OK;
    ok = ok &&
         curl_easy_setopt(curl, CURLOPT_SSL_SESSIONID_CACHE, 0L) == CURLE_OK;
    ok = ok && curl_easy_setopt(curl, CURLOPT_SSLVERSION,
                                (long)CURL_SSLVERSION_TLSv1_2) == CURLE_OK;
    ok = ok && curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER,
                                server->insecure ? 0L : 1L) == CURLE_OK;
    return ok && curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST,
                                  server->insecure ? 0L : 2L) == CURLE_OK;
}
