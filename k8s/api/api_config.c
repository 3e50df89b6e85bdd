#include "k8s/api/api_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/api/api_config_impl.h"
#include "pool/base/assert.h"
#include "proto/formats/base64.h"
#include "proto/formats/yaml_tree.h"

enum {
    TOKEN_MAX = 64 << 10,
    SERVER_MAX = 512,
};

/* What is being read: for messages, and for what paths are relative to. */
struct reading {
    struct wp_api_config *config;
    const char *dir;
    const char *list; /* "clusters" */
    const char *name; /* Of the entry. */
    struct wp_err *err;
};

static enum wp_status
refuse(struct reading *r, const char *field, const char *expected)
{
    return wp_err_set(r->err, WP_INVALID_ARGUMENT, "%s '%.60s': %s: %s",
                      r->list, r->name, field, expected);
}

static enum wp_status
no_memory(struct wp_err *err)
{
    return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
}

/* --- Single values --- */

/* NULL when map is no map, or has no such key, or a null there. */
static const struct wp_yaml *
value_at(const struct wp_yaml *map, const char *key)
{
    const struct wp_yaml *node = wp_yaml_find(map, key);

    return node != NULL && node->kind != WP_YAML_NULL ? node : NULL;
}

/* *text borrowed; NULL when the field is not there, or is empty. */
static enum wp_status
text_at(struct reading *r, const struct wp_yaml *map, const char *field,
        const char **text)
{
    const struct wp_yaml *node = value_at(map, field);

    *text = NULL;
    if (node == NULL) {
        return WP_OK;
    }
    if (!wp_yaml_is_scalar(node)) {
        return refuse(r, field, "a text was expected");
    }
    if (!wp_str_is_printable(node->text) && node->text.len > 0) {
        return refuse(r, field,
                      "a text without control characters was "
                      "expected");
    }
    *text = node->text.len > 0 ? node->text.ptr : NULL;
    return WP_OK;
}

static enum wp_status
copy_at(struct reading *r, const struct wp_yaml *map, const char *field,
        char **out)
{
    const char *text;
    enum wp_status status = text_at(r, map, field, &text);

    if (status == WP_OK && text != NULL) {
        *out = strdup(text);
        return *out != NULL ? WP_OK : no_memory(r->err);
    }
    return status;
}

static enum wp_status
path_at(struct reading *r, const struct wp_yaml *map, const char *field,
        char **out)
{
    const char *text;
    enum wp_status status = text_at(r, map, field, &text);

    if (status != WP_OK || text == NULL) {
        return status;
    }
    if (text[0] == '/') {
        *out = strdup(text);
    } else if (asprintf(out, "%s/%s", r->dir, text) < 0) {
        *out = NULL;
    }
    return *out != NULL ? WP_OK : no_memory(r->err);
}

static enum wp_status
bool_at(struct reading *r, const struct wp_yaml *map, const char *field,
        bool *out)
{
    const char *text;
    enum wp_status status = text_at(r, map, field, &text);

    if (status != WP_OK || text == NULL) {
        return status;
    }
    if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0) {
        return refuse(r, field, "true or false was expected");
    }
    *out = strcmp(text, "true") == 0;
    return WP_OK;
}

static enum wp_status
pem_at(struct reading *r, const struct wp_yaml *map, const char *field,
       char **out)
{
    const struct wp_yaml *node = value_at(map, field);
    size_t len;
    char *pem;

    if (node == NULL) {
        return WP_OK;
    }
    if (!wp_yaml_is_scalar(node)) {
        return refuse(r, field, "a text was expected");
    }
    if (node->text.len == 0) {
        return WP_OK;
    }
    pem = calloc(1, node->text.len + 4);
    if (pem == NULL) {
        return no_memory(r->err);
    }
    *out = pem; /* Owned by config, which overwrites it. */
    if (!wp_base64_read(node->text.ptr, pem, &len)) {
        return refuse(r, field, "base64 was expected");
    }
    if (strlen(pem) != len || strstr(pem, "-----BEGIN ") == NULL) {
        explicit_bzero(pem, len);
        return refuse(r, field, "PEM in base64 was expected");
    }
    return WP_OK;
}

/* Overwrites and frees it, and forgets it. */
static void
wipe(char **text)
{
    if (*text != NULL) {
        explicit_bzero(*text, strlen(*text));
        free(*text);
        *text = NULL;
    }
}

/* The data when both are given, else the file, as kubectl has it. */
static enum wp_status
pair_at(struct reading *r, const struct wp_yaml *map, const char *field,
        char **file, char **pem)
{
    char data_field[64];
    enum wp_status status = path_at(r, map, field, file);

    (void)snprintf(data_field, sizeof data_field, "%s-data", field);
    if (status == WP_OK) {
        status = pem_at(r, map, data_field, pem);
    }
    if (status == WP_OK && *pem != NULL) {
        wipe(file);
    }
    return status;
}

/* --- Entries --- */

bool
wp_api_config_is_server(const char *text)
{
    struct wp_str url = wp_str_from(text);
    size_t scheme = wp_str_starts_with(url, WP_STR("https://"))  ? 8
                    : wp_str_starts_with(url, WP_STR("http://")) ? 7
                                                                 : 0;

    if (scheme == 0 || url.len > SERVER_MAX || text[scheme] == '/' ||
        text[scheme] == ':' || text[scheme] == '\0') {
        return false;
    }
    for (const char *c = text + scheme; *c != '\0'; c++) {
        /* Credentials, queries and what no URL has. */
        if (*c <= ' ' || *c >= 0x7f || strchr("@?#\\\"<>^`{|}", *c) != NULL) {
            return false;
        }
    }
    return true;
}

static enum wp_status
take_cluster(struct reading *r, const struct wp_yaml *cluster)
{
    struct wp_api_config *config = r->config;
    enum wp_status status = copy_at(r, cluster, "server", &config->server);
    size_t len;

    if (status != WP_OK) {
        return status;
    }
    if (config->server == NULL || !wp_api_config_is_server(config->server)) {
        return refuse(r, "server", "https://HOST[:PORT] was expected");
    }
    for (len = strlen(config->server);
         len > 0 && config->server[len - 1] == '/'; len--) {
        config->server[len - 1] = '\0';
    }
    if (value_at(cluster, "proxy-url") != NULL) {
        return refuse(r, "proxy-url",
                      "proxies are not supported; the API "
                      "server must be reachable directly");
    }
    status = copy_at(r, cluster, "tls-server-name", &config->server_name);
    if (status == WP_OK) {
        status = pair_at(r, cluster, "certificate-authority", &config->ca_file,
                         &config->ca_pem);
    }
    if (status == WP_OK) {
        status =
            bool_at(r, cluster, "insecure-skip-tls-verify", &config->insecure);
    }
    if (status == WP_OK && config->insecure &&
        (config->ca_file != NULL || config->ca_pem != NULL)) {
        return refuse(r, "insecure-skip-tls-verify",
                      "false was expected beside a certificate authority");
    }
    return status;
}

/* What this client does not do; ignoring it would be another identity. */
static enum wp_status
check_user(struct reading *r, const struct wp_yaml *user)
{
    static const struct {
        const char *field;
        const char *instead;
    } refused[] = {
        {"exec", "exec plugins are not supported; use a client certificate, a "
                 "token or a token file, or run in the cluster with a service "
                 "account"},
        {"auth-provider",
         "auth providers are not supported; use a client certificate, a token "
         "or a token file"},
        {"username", "basic authentication is not supported by API servers any "
                     "more; use a token or a client certificate"},
        {"password", "basic authentication is not supported by API servers any "
                     "more; use a token or a client certificate"},
        {"as", "impersonation is not supported; use the credentials of the "
               "user that is meant"},
        {"as-uid", "impersonation is not supported"},
        {"as-groups", "impersonation is not supported"},
        {"as-user-extra", "impersonation is not supported"},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(refused); i++) {
        if (value_at(user, refused[i].field) != NULL) {
            return refuse(r, refused[i].field, refused[i].instead);
        }
    }
    return WP_OK;
}

/* A header may carry it as it is. */
static bool
is_token(const char *text)
{
    size_t len = strlen(text);

    for (size_t i = 0; i < len; i++) {
        if (text[i] <= ' ' || text[i] >= 0x7f) {
            return false;
        }
    }
    return len > 0 && len <= TOKEN_MAX;
}

static enum wp_status
take_user(struct reading *r, const struct wp_yaml *user)
{
    struct wp_api_config *config = r->config;
    enum wp_status status = check_user(r, user);

    if (status == WP_OK) {
        status = pair_at(r, user, "client-certificate", &config->cert_file,
                         &config->cert_pem);
    }
    if (status == WP_OK) {
        status =
            pair_at(r, user, "client-key", &config->key_file, &config->key_pem);
    }
    if (status == WP_OK) {
        status = path_at(r, user, "tokenFile", &config->token_file);
    }
    if (status == WP_OK) {
        status = copy_at(r, user, "token", &config->token);
    }
    if (status != WP_OK) {
        return status;
    }
    if ((config->cert_file != NULL || config->cert_pem != NULL) !=
        (config->key_file != NULL || config->key_pem != NULL)) {
        return refuse(r, "client-certificate",
                      "a certificate and its key were expected together");
    }
    if (config->token != NULL && !is_token(config->token)) {
        return refuse(r, "token", "visible ASCII characters were expected");
    }
    if (config->token_file != NULL) {
        wipe(&config->token); /* The file is what rotates. */
    }
    return WP_OK;
}

/* --- Finding them --- */

/* The map that the list's entry of this name has under key. */
static enum wp_status
find_entry(struct reading *r, const struct wp_yaml *root, const char *key,
           const struct wp_yaml **out)
{
    const struct wp_yaml *list = value_at(root, r->list);
    const struct wp_yaml *found = NULL;

    WP_ASSERT(r->name != NULL);
    if (list != NULL && list->kind != WP_YAML_LIST) {
        return wp_err_set(r->err, WP_INVALID_ARGUMENT,
                          "%s: a list was expected", r->list);
    }
    for (const struct wp_yaml *entry = list != NULL ? list->first : NULL;
         entry != NULL; entry = entry->next) {
        const struct wp_yaml *name = value_at(entry, "name");

        if (name == NULL || !wp_yaml_is_scalar(name)) {
            return wp_err_set(r->err, WP_INVALID_ARGUMENT,
                              "%s: line %u: a map with a name was expected",
                              r->list, entry->line);
        }
        if (!wp_str_is(name->text, r->name)) {
            continue;
        }
        if (found != NULL) {
            return wp_err_set(r->err, WP_INVALID_ARGUMENT,
                              "%s: '%.60s' is there twice", r->list, r->name);
        }
        found = entry;
    }
    if (found == NULL) {
        return wp_err_set(r->err, WP_INVALID_ARGUMENT,
                          "%s: '%.60s' was expected there, but is not", r->list,
                          r->name);
    }
    *out = value_at(found, key);
    /* An absent one is an empty one: users: [{name: anonymous}]. */
    return *out == NULL || (*out)->kind == WP_YAML_MAP
               ? WP_OK
               : refuse(r, key, "a map was expected");
}

static enum wp_status
take_context(struct reading *r, const struct wp_yaml *context,
             const char **cluster, const char **user)
{
    struct wp_api_config *config = r->config;
    enum wp_status status = text_at(r, context, "cluster", cluster);

    if (status == WP_OK) {
        status = text_at(r, context, "user", user);
    }
    if (status == WP_OK) {
        status = copy_at(r, context, "namespace", &config->own_namespace);
    }
    if (status != WP_OK) {
        return status;
    }
    if (*cluster == NULL || *user == NULL) {
        return refuse(r, *cluster == NULL ? "cluster" : "user",
                      "a name was expected");
    }
    if (config->own_namespace != NULL &&
        !wp_str_is_dns_name(wp_str_from(config->own_namespace),
                            WP_API_CONFIG_NAMESPACE_MAX)) {
        return refuse(r, "namespace", "a namespace's name was expected");
    }
    return WP_OK;
}

static enum wp_status
take_root(struct reading *r, const struct wp_yaml *root,
          const char *context_name)
{
    const struct wp_yaml *map = NULL;
    const char *cluster = NULL;
    const char *user = NULL;
    enum wp_status status;

    if (root == NULL || root->kind != WP_YAML_MAP) {
        return wp_err_set(r->err, WP_INVALID_ARGUMENT,
                          "a kubeconfig was expected: a map with clusters, "
                          "users and contexts");
    }
    if (context_name == NULL || context_name[0] == '\0') {
        const struct wp_yaml *current = value_at(root, "current-context");

        if (current == NULL || !wp_yaml_is_scalar(current) ||
            current->text.len == 0) {
            return wp_err_set(r->err, WP_INVALID_ARGUMENT,
                              "current-context: a context's name was expected, "
                              "since no context was asked for");
        }
        context_name = current->text.ptr;
    }
    r->list = "contexts";
    r->name = context_name;
    status = find_entry(r, root, "context", &map);
    if (status == WP_OK) {
        status = take_context(r, map, &cluster, &user);
    }
    if (status == WP_OK) {
        r->list = "clusters";
        r->name = cluster;
        status = find_entry(r, root, "cluster", &map);
    }
    if (status == WP_OK) {
        status = take_cluster(r, map);
    }
    if (status == WP_OK) {
        r->list = "users";
        r->name = user;
        status = find_entry(r, root, "user", &map);
    }
    return status == WP_OK ? take_user(r, map) : status;
}

enum wp_status
wp_api_config_default_namespace(struct wp_api_config *config,
                                struct wp_err *err)
{
    if (config->own_namespace == NULL) {
        config->own_namespace = strdup("default");
    }
    return config->own_namespace != NULL ? WP_OK : no_memory(err);
}

/* --- Outside --- */

enum wp_status
wp_api_config_parse(struct wp_api_config *config, struct wp_str yaml,
                    const char *dir, const char *context, struct wp_err *err)
{
    const struct wp_yaml_rules rules = {
        .documents_max = 1,
        .depth_max = 16,
        .nodes_max = 50000,
        .keys_max = 256,
    };
    struct wp_region region = {.blocks = NULL};
    struct wp_yaml *root;
    struct reading r = {.config = config, .dir = dir, .err = err};
    enum wp_status status;

    *config = (struct wp_api_config){.server = NULL};
    if (yaml.len > WP_API_CONFIG_BYTES_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "larger than 1 MiB; a kubeconfig was expected");
    }
    status = wp_yaml_read_one(&rules, yaml, &region, &root, err);
    if (status == WP_OK) {
        status = take_root(&r, root, context);
    }
    if (status == WP_OK) {
        status = wp_api_config_default_namespace(config, err);
    }
    wp_region_wipe(&region); /* Any text may be a secret. */
    if (status != WP_OK) {
        wp_api_config_fini(config);
    }
    return status;
}

void
wp_api_config_fini(struct wp_api_config *config)
{
    wipe(&config->server);
    wipe(&config->server_name);
    wipe(&config->ca_file);
    wipe(&config->ca_pem);
    wipe(&config->cert_file);
    wipe(&config->cert_pem);
    wipe(&config->key_file);
    wipe(&config->key_pem);
    wipe(&config->token_file);
    wipe(&config->token);
    wipe(&config->user);
    wipe(&config->own_namespace);
    config->insecure = false;
}
