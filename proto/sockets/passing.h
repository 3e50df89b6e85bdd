/* proto/sockets/passing.h - messages of SOCK_SEQPACKET sockets with which a
 * descriptor may come along. Any thread. */
#ifndef WP_PROTO_SOCKETS_PASSING_H
#define WP_PROTO_SOCKETS_PASSING_H

#include <stddef.h>
#include <sys/types.h>

#include "pool/base/compiler.h"

/* Sends one message; passed: -1, or what comes along, which stays the caller's.
 * flags: of sendmsg, MSG_NOSIGNAL among them. As sendmsg, which takes all or
 * nothing. */
ssize_t wp_passing_send(int fd, const void *bytes, size_t len, int passed,
                        int flags);
struct msghdr;
/* The first descriptor that came along with what recvmsg has received, even if
 * that was nothing; -1: none. Others are closed: a buffer for one has room for
 * two, and who sends them may mean harm. Call it once for each msg. */
WP_MUST_CHECK int wp_passing_take(struct msghdr *msg);
/* Receives one without waiting; *passed: -1, or what came along, close-on-exec
 * and the caller's. As recvmsg. */
WP_MUST_CHECK ssize_t wp_passing_receive(int fd, void *bytes, size_t cap,
                                         int *passed);

#endif
