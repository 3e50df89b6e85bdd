/* Which methods there are: those of the services, registered with C-core, and
 * every other one, which a catch-all answers with UNIMPLEMENTED. Without it
 * C-core would let such calls wait for their deadline. */
#include "allocator/grpc/internal.h"

#include <string.h>

#include "pool/base/assert.h"

static enum wp_rpc_kind
kind_of(const struct wp_method *method, bool lockstep)
{
    if (lockstep) {
        return WP_RPC_LOCKSTEP;
    }
    return method->server_streaming ? WP_RPC_SERVER_STREAM : WP_RPC_UNARY;
}

enum wp_status
wp_rpc_server_add_service(struct wp_rpc_server *server,
                          const struct wp_service *service, bool lockstep,
                          struct wp_err *err)
{
    for (size_t i = 0; i < service->n_methods; i++) {
        const struct wp_method *api = &service->methods[i];
        void *handle;

        if (server->n_methods == WP_RPC_METHODS_MAX) {
            return wp_err_set(err, WP_INTERNAL, "more than %d methods",
                              WP_RPC_METHODS_MAX);
        }
        handle = grpc_server_register_method(
            server->grpc, api->path, NULL,
            GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
        if (handle == NULL) {
            return wp_err_set(err, WP_INTERNAL, "method %s is there twice",
                              api->path);
        }
        server->methods[server->n_methods++] =
            (struct wp_rpc_method){.api = api,
                                   .service = service,
                                   .kind = kind_of(api, lockstep),
                                   .handle = handle};
    }
    server->services[server->n_services++] = service;
    return WP_OK;
}

static void
on_stray_done(struct wp_rpc_tag *tag, bool ok)
{
    struct wp_rpc_stray *stray =
        WP_CONTAINER_OF(tag, struct wp_rpc_stray, on_done);

    (void)ok;
    grpc_call_unref(stray->handle);
    wp_rpc_stray_arm(stray);
}

static void
on_stray_new(struct wp_rpc_tag *tag, bool ok)
{
    struct wp_rpc_stray *stray =
        WP_CONTAINER_OF(tag, struct wp_rpc_stray, on_new);
    grpc_slice details = grpc_slice_from_static_string("unknown method");
    grpc_call_error error;
    grpc_op ops[3];

    grpc_metadata_array_destroy(&stray->metadata);
    grpc_call_details_destroy(&stray->details);
    if (!ok) { /* The server is shutting down. */
        return;
    }
    WP_RPC_COUNT(&stray->queue->unknown, 1);
    memset(ops, 0, sizeof(ops));
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[1].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    ops[1].data.send_status_from_server.status = GRPC_STATUS_UNIMPLEMENTED;
    ops[1].data.send_status_from_server.status_details = &details;
    ops[2].op = GRPC_OP_RECV_CLOSE_ON_SERVER;
    ops[2].data.recv_close_on_server.cancelled = &stray->closed_early;
    error = grpc_call_start_batch(stray->handle, ops, 3, &stray->on_done, NULL);
    WP_ASSERT(error == GRPC_CALL_OK);
}

void
wp_rpc_stray_arm(struct wp_rpc_stray *stray)
{
    struct wp_rpc_queue *queue = stray->queue;
    grpc_call_error error;

    stray->on_new.done = on_stray_new;
    stray->on_done.done = on_stray_done;
    grpc_call_details_init(&stray->details);
    grpc_metadata_array_init(&stray->metadata);
    error = grpc_server_request_call(queue->server->grpc, &stray->handle,
                                     &stray->details, &stray->metadata,
                                     queue->cq, queue->cq, &stray->on_new);
    if (error != GRPC_CALL_OK) { /* The queue is being emptied for good. */
        WP_ASSERT(error == GRPC_CALL_ERROR_COMPLETION_QUEUE_SHUTDOWN);
        grpc_call_details_destroy(&stray->details);
        grpc_metadata_array_destroy(&stray->metadata);
    }
}
