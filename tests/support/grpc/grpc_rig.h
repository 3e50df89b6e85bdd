/* tests/support/grpc/grpc_rig.h - the gRPC server on one connection without
 * a socket. The calling thread does what a serving thread does. */
#ifndef WP_TESTS_SUPPORT_GRPC_GRPC_RIG_H
#define WP_TESTS_SUPPORT_GRPC_GRPC_RIG_H

#include "allocator/grpc/internal.h"
#include "proto/h2/internal.h"

/* A server of that service with 16 calls at most, never started. */
struct wp_rpc_server *wp_grpc_rig_create(const struct wp_service *service);
/* A peer that may call, and is no admin. */
struct wp_h2_conn *wp_grpc_rig_connect(struct wp_rpc_server *server);
/* Bytes of the peer, and all that follows from them. False: the connection has
 * been let go. */
bool wp_grpc_rig_feed(struct wp_rpc_server *server, struct wp_h2_conn *conn,
                      const uint8_t *bytes, size_t len);
/* The peer hangs up. */
void wp_grpc_rig_close(struct wp_rpc_server *server, struct wp_h2_conn *conn);
/* What other threads' answers would have the serving thread do. */
void wp_grpc_rig_run(struct wp_rpc_server *server);
/* A frame of HTTP/2; returns its length. */
size_t wp_grpc_rig_frame(uint8_t *out, uint8_t type, uint8_t flags,
                         uint32_t stream, const void *payload, size_t len);
/* The headers of a call of that path, of less than 100 bytes, that has a
 * minute: at most 256 bytes. */
size_t wp_grpc_rig_head(uint8_t *out, uint32_t stream, const char *path);

#endif
