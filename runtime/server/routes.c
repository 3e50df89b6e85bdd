#include <string.h>
#include <strings.h>

#include "proto/formats/sandbox_token.h"
#include "runtime/server/bind.h"
#include "runtime/server/exec_stream.h"
#include "runtime/server/identity.h"
#include "runtime/sandboxd/rest.h"
#include "runtime/runtime.h"

struct route {
    const char *method;
    const char *path;
    bool prefix; /* path or path/... */
    unsigned roles;
    const struct wp_http_ops *ops;
};

static const struct route routes[] = {
    {"GET", "/healthz", false, WP_ROLE_MCP | WP_ROLE_REST, &wp_rest_health_ops},
    {"POST", WP_EXEC_PATH, false, WP_ROLE_MCP | WP_ROLE_REST,
     &wp_exec_session_ops},
    {"POST", WP_BIND_PATH, false, WP_ROLE_MCP | WP_ROLE_REST, &wp_bind_ops},
    {"POST", WP_IDENTITY_PATH, false, WP_ROLE_MCP | WP_ROLE_REST,
     &wp_identity_ops},
    {"GET", "/", false, WP_ROLE_REST, &wp_rest_status_ops},
    {"POST", "/execute", false, WP_ROLE_REST, &wp_rest_execute_ops},
    {"POST", "/upload", false, WP_ROLE_REST, &wp_rest_upload_ops},
    {"GET", "/download", true, WP_ROLE_REST, &wp_rest_download_ops},
    {"GET", "/list", true, WP_ROLE_REST, &wp_rest_list_ops},
    {"GET", "/exists", true, WP_ROLE_REST, &wp_rest_exists_ops},
    {"GET", "/v1/files", true, WP_ROLE_REST, &wp_sandboxd_get_ops},
    {"PUT", "/v1/files", true, WP_ROLE_REST, &wp_sandboxd_put_ops},
    {"DELETE", "/v1/files", true, WP_ROLE_REST, &wp_sandboxd_delete_ops},
    {"GET", "/v1/health", false, WP_ROLE_REST, &wp_sandboxd_health_ops},
    {"GET", "/v1/metadata", false, WP_ROLE_REST, &wp_sandboxd_metadata_ops},
};

static bool
path_matches(const struct route *route, const char *path)
{
    size_t len = strlen(route->path);

    return strncmp(path, route->path, len) == 0 &&
           (path[len] == '\0' || (route->prefix && path[len] == '/'));
}

/* The route for path that wants another method; NULL when there is none. */
static const struct route *
other_method(const char *path, unsigned roles)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(routes); i++) {
        if ((routes[i].roles & roles) != 0 && path_matches(&routes[i], path)) {
            return &routes[i];
        }
    }
    return NULL;
}

const struct wp_http_ops *
wp_runtime_find(const char *method, const char *path, unsigned roles)
{
    if (strcmp(method, "HEAD") == 0) {
        method = "GET";
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(routes); i++) {
        if ((routes[i].roles & roles) != 0 && path_matches(&routes[i], path) &&
            strcmp(method, routes[i].method) == 0) {
            return routes[i].ops;
        }
    }
    return (roles & WP_ROLE_MCP) != 0 ? &wp_mcp_ops : NULL;
}

/* "scheme://host[:port]": host is compared with the loopback names. */
static bool
origin_is_loopback(const char *origin)
{
    static const char *const hosts[] = {"localhost", "127.0.0.1", "[::1]"};
    const char *host = strstr(origin, "://");

    if (host == NULL) {
        return false;
    }
    host += 3;
    for (size_t i = 0; i < WP_ARRAY_LEN(hosts); i++) {
        size_t len = strlen(hosts[i]);

        if (strncasecmp(host, hosts[i], len) == 0 &&
            (host[len] == '\0' ||
             (host[len] == ':' &&
              host[len + 1 + strspn(host + len + 1, "0123456789")] == '\0'))) {
            return true;
        }
    }
    return false;
}

bool
wp_runtime_origin_allowed(const struct wp_options *options, const char *origin)
{
    for (uint32_t i = 0; i < options->origins_count; i++) {
        if (strcmp(options->origins[i], "*") == 0 ||
            strcasecmp(options->origins[i], origin) == 0) {
            return true;
        }
    }
    return origin_is_loopback(origin);
}

bool
wp_runtime_token_fits(const struct wp_options *options, const char *path,
                      const char *token)
{
    bool needs =
        options->token_for == WP_TOKEN_FOR_ALL
            ? strcmp(path, "/healthz") != 0 && strcmp(path, "/v1/health") != 0
            : strcmp(path, WP_EXEC_PATH) == 0 ||
                  strcmp(path, WP_BIND_PATH) == 0 ||
                  strcmp(path, WP_IDENTITY_PATH) == 0;

    return options->token_digest == NULL || !needs ||
           (token != NULL &&
            wp_sandbox_token_fits(wp_str_from(token), options->token_digest));
}

const struct wp_http_ops *
wp_runtime_route(struct wp_http_req *req)
{
    struct wp_runtime *runtime = wp_runtime_of(req);
    const char *path = wp_http_path(req);
    const char *origin = wp_http_header(req, "Origin");
    const struct wp_http_ops *ops;
    const struct route *other;

    if (origin != NULL &&
        !wp_runtime_origin_allowed(&runtime->options, origin)) {
        wp_http_reply_error(req, 403, "Origin is not allowed here");
        return NULL;
    }
    if (!wp_runtime_token_fits(&runtime->options, path,
                               wp_http_header(req, WP_SANDBOX_TOKEN_FIELD))) {
        wp_http_reply_error(req, 401,
                            "the sandbox's token is needed in "
                            "the field " WP_SANDBOX_TOKEN_FIELD);
        return NULL;
    }
    ops = wp_runtime_find(wp_http_method(req), path, wp_http_roles(req));
    if (ops != NULL) {
        return ops;
    }
    other = other_method(path, wp_http_roles(req));
    if (other != NULL) {
        wp_http_add_header(req, "Allow", other->method);
        wp_http_reply_error(req, 405, "only %s is served here", other->method);
    } else {
        wp_http_reply_error(req, 404, "no such path");
    }
    return NULL;
}
