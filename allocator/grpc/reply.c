/* What leaves for the client: struct wp_call_ops. */
#include "allocator/grpc/internal.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* Of all replies that are too long for their call's own room. */
    REPLY_BYTES_MAX = 64 << 20,
};

static struct wp_rpc_call *
from_base(struct wp_call *base)
{
    return WP_CONTAINER_OF(base, struct wp_rpc_call, base);
}

void
wp_rpc_reply_drop(struct wp_rpc_call *call, struct wp_rpc_reply *reply)
{
    if (reply->bytes != NULL && !reply->is_inline) {
        free(reply->bytes);
        (void)atomic_fetch_sub_explicit(&call->server->reply_bytes, reply->len,
                                        memory_order_relaxed);
    }
    reply->bytes = NULL;
}

static uint8_t *
take_memory(struct wp_rpc_server *server, size_t len)
{
    uint8_t *bytes = NULL;

    if (atomic_fetch_add_explicit(&server->reply_bytes, len,
                                  memory_order_relaxed) +
            len <=
        REPLY_BYTES_MAX) {
        bytes = malloc(len);
    }
    if (bytes == NULL) {
        (void)atomic_fetch_sub_explicit(&server->reply_bytes, len,
                                        memory_order_relaxed);
    }
    return bytes;
}

static uint8_t *
call_reserve(struct wp_call *base, size_t len)
{
    struct wp_rpc_call *call = from_base(base);
    struct wp_rpc_reply *reply = &call->reserved;

    wp_rpc_reply_drop(call, reply);
    if (len > WP_RPC_REPLY_MAX) {
        return NULL;
    }
    reply->len = len + WP_RPC_PREFIX;
    /* Acquire: pairs with the release when the last message has left, which may
     * have been in the call's room. */
    reply->is_inline =
        reply->len <= WP_RPC_REPLY_INLINE &&
        (atomic_load_explicit(&call->flags, memory_order_acquire) &
         WP_RPC_WRITING) == 0;
    reply->bytes = reply->is_inline ? (uint8_t *)call->room
                                    : take_memory(call->server, reply->len);
    if (reply->bytes == NULL) {
        return NULL;
    }
    reply->bytes[0] = 0;
    reply->bytes[1] = (uint8_t)(len >> 24);
    reply->bytes[2] = (uint8_t)(len >> 16);
    reply->bytes[3] = (uint8_t)(len >> 8);
    reply->bytes[4] = (uint8_t)len;
    return reply->bytes + WP_RPC_PREFIX;
}

static void
call_finish(struct wp_call *base, enum wp_status status, const char *message,
            int64_t retry_after_ns)
{
    struct wp_rpc_call *call = from_base(base);
    uint32_t before;

    WP_ASSERT(status != WP_PENDING);
    WP_ASSERT(status != WP_OK || call->reserved.bytes != NULL ||
              wp_rpc_call_method(call)->kind != WP_RPC_UNARY);
    call->status = status;
    call->retry_after_ns = retry_after_ns;
    if (message != NULL && message[0] != '\0') {
        size_t len = strnlen(message, WP_RPC_MESSAGE_MAX);

        memcpy(call->details, message, len);
        call->details[len] = '\0';
    }
    before = atomic_fetch_or_explicit(&call->flags, WP_RPC_FINISHED,
                                      memory_order_acq_rel);
    WP_ASSERT((before & WP_RPC_FINISHED) == 0);
    wp_rpc_call_post(call, &call->finish_post);
}

static bool
call_send(struct wp_call *base)
{
    struct wp_rpc_call *call = from_base(base);
    uint32_t before;

    WP_ASSERT(call->reserved.bytes != NULL);
    before = atomic_fetch_or_explicit(&call->flags, WP_RPC_WRITING,
                                      memory_order_acq_rel);
    WP_ASSERT((before & WP_RPC_FINISHED) == 0);
    if ((before & WP_RPC_WRITING) != 0) {
        wp_rpc_reply_drop(call, &call->reserved);
        return false;
    }
    call->outgoing = call->reserved;
    call->reserved.bytes = NULL;
    wp_rpc_call_post(call, &call->send_post);
    return true;
}

const struct wp_call_ops wp_rpc_call_ops = {
    .reserve = call_reserve,
    .finish = call_finish,
    .send = call_send,
};
