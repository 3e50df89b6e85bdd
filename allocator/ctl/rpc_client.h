/* allocator/ctl/rpc_client.h - a blocking gRPC client on C-core.
 *
 * The only file of ctl/ whose implementation sees grpc's headers. One
 * thread. */
#ifndef WP_ALLOCATOR_CTL_RPC_CLIENT_H
#define WP_ALLOCATOR_CTL_RPC_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/status.h"

struct wp_rpc_client;

struct wp_rpc_target {
    const char *address;  /* "unix:/path" or "host:port". */
    const char *tls_ca;   /* PEM file; NULL: no TLS. */
    const char *tls_cert; /* Both or none. */
    const char *tls_key;
    const char *tls_name; /* NULL: the host's. */
    /* File with the token of calls over TCP. An optional one (not named by
     * anybody) is used only on loopback, and where it can be read. NULL: no
     * token. */
    const char *token_file;
    bool token_optional;
};

/* One call. */
struct wp_rpc_call {
    const char *method; /* "/package.Service/Method" */
    const uint8_t *request;
    size_t request_len;
    int64_t timeout_ns; /* WP_TIME_NEVER: no deadline. */
    /* Called with each reply message (one for a unary method), which is
     * borrowed until it returns; false ends the call. */
    bool (*on_message)(void *ctx, const uint8_t *bytes, size_t len);
    void *ctx;

    int64_t retry_after_ns; /* Out, from RetryInfo; 0: none. */
};

enum {
    WP_RPC_TOKEN_MAX = 300,
};
/* "Bearer TOKEN" from the target's file, "" when none is to be sent. Neither a
 * Unix socket, nor, unless the file was named, another machine gets it. A
 * secret: whoever has it clears it. INVALID_ARGUMENT: err names the file. */
enum wp_status wp_rpc_target_token(const struct wp_rpc_target *target,
                                   char out[WP_RPC_TOKEN_MAX],
                                   struct wp_err *err);

/* Connects on the first call. NULL and err when the target makes no sense: a
 * file cannot be read, or it is beyond loopback without TLS. */
struct wp_rpc_client *wp_rpc_client_open(const struct wp_rpc_target *target,
                                         struct wp_err *err);
/* NULL is fine. */
void wp_rpc_client_close(struct wp_rpc_client *client);

/* Makes the call and waits for its end. Not WP_OK: the status it ended with,
 * and err has the server's message; on_message may have been called before. A
 * call that on_message ended counts as WP_OK. */
enum wp_status wp_rpc_client_call(struct wp_rpc_client *client,
                                  struct wp_rpc_call *call, struct wp_err *err);

#endif
