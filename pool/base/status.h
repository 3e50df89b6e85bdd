/* pool/base/status.h - the outcome of every fallible call.
 *
 * Hot paths return the bare enum. Control-plane functions take a last
 * `struct wp_err *` that carries a sentence for people; it is filled without
 * allocating, wrapped outward by each layer, and logged once, where handled. */
#ifndef WP_BASE_STATUS_H
#define WP_BASE_STATUS_H

#include <stdbool.h>

#include "pool/base/compiler.h"

/* X(name, text, grpc_code): grpc_code is the status an RPC ends with. */
#define WP_STATUS_TABLE(X)                                                     \
    X(OK, "ok", 0)                                                             \
    X(PENDING, "pending", 2) /* Answered later, through a callback. */         \
    X(CANCELLED, "cancelled", 1)                                               \
    X(INVALID_ARGUMENT, "invalid argument", 3)                                 \
    X(DEADLINE_EXCEEDED, "deadline exceeded", 4)                               \
    X(NOT_FOUND, "not found", 5)                                               \
    X(ALREADY_EXISTS, "already exists", 6)                                     \
    X(PERMISSION_DENIED, "permission denied", 7)                               \
    X(RESOURCE_EXHAUSTED, "resource exhausted", 8)                             \
    X(FAILED_PRECONDITION, "failed precondition", 9)                           \
    X(ABORTED, "aborted", 10)                                                  \
    X(UNIMPLEMENTED, "unimplemented", 12)                                      \
    X(INTERNAL, "internal", 13)                                                \
    X(UNAVAILABLE, "unavailable", 14)                                          \
    X(UNAUTHENTICATED, "unauthenticated", 16)                                  \
    X(TAKEN, "taken by another", 10)                                           \
    X(UNKNOWN_OUTCOME, "outcome unknown", 14)

enum wp_status {
#define X(name, text, code) WP_##name,
    WP_STATUS_TABLE(X)
#undef X
    WP_STATUS_COUNT
};

struct wp_err {
    enum wp_status status;
    int os_errno;  /* 0 when the system had no part in it. */
    char msg[240]; /* A full sentence without a final stop; never a secret. */
};

/* Any thread; static storage. */
const char *wp_status_text(enum wp_status status);
/* "NOT_FOUND": the name used on the wire, in logs and metrics. */
const char *wp_status_name(enum wp_status status);
int wp_status_grpc_code(enum wp_status status);

/* Fills err (which may be NULL) and returns status, so that a function can say
 * `return wp_err_set(err, WP_NOT_FOUND, "pool '%s' ...", name);`. Too long a
 * message is cut, never overrun. */
enum wp_status wp_err_set(struct wp_err *err, enum wp_status status,
                          const char *fmt, ...) WP_PRINTF(3, 4);
/* The same for a failed system call; appends the text of errno. */
enum wp_status wp_err_sys(struct wp_err *err, enum wp_status status,
                          int os_errno, const char *fmt, ...) WP_PRINTF(4, 5);
/* Puts "context: " before the message already in err; returns err->status. */
enum wp_status wp_err_wrap(struct wp_err *err, const char *fmt, ...)
    WP_PRINTF(2, 3);

#endif
