/* Which methods there are. */
#include "allocator/grpc/internal.h"

#include <string.h>

static enum wp_rpc_kind
kind_of(const struct wp_method *method, bool lockstep)
{
    if (lockstep) {
        return WP_RPC_LOCKSTEP;
    }
    if (method->bidirectional) {
        return WP_RPC_BIDIRECTIONAL;
    }
    return method->server_streaming ? WP_RPC_SERVER_STREAM : WP_RPC_UNARY;
}

uint32_t
wp_rpc_method_find(const struct wp_rpc_server *server, struct wp_str path)
{
    /* Few enough that their lengths tell most of them apart. */
    for (uint32_t i = 0; i < server->n_methods; i++) {
        if (server->methods[i].path_len == path.len &&
            memcmp(server->methods[i].api->path, path.ptr, path.len) == 0) {
            return i;
        }
    }
    return server->n_methods;
}

enum wp_status
wp_rpc_server_add_service(struct wp_rpc_server *server,
                          const struct wp_service *service, bool lockstep,
                          struct wp_err *err)
{
    for (size_t i = 0; i < service->n_methods; i++) {
        const struct wp_method *api = &service->methods[i];

        if (server->n_methods == WP_RPC_METHODS_MAX) {
            return wp_err_set(err, WP_INTERNAL, "more than %d methods",
                              WP_RPC_METHODS_MAX);
        }
        if (wp_rpc_method_find(server, wp_str_from(api->path)) <
            server->n_methods) {
            return wp_err_set(err, WP_INTERNAL, "method %s is there twice",
                              api->path);
        }
        server->methods[server->n_methods++] =
            (struct wp_rpc_method){.api = api,
                                   .service = service,
                                   .path_len = strlen(api->path),
                                   .kind = kind_of(api, lockstep)};
    }
    server->services[server->n_services++] = service;
    return WP_OK;
}
