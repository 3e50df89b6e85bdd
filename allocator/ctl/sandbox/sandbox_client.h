/* allocator/ctl/sandbox/sandbox_client.h - one HTTP/1.1 request to a sandbox,
 * through the daemon's way to the sandboxes (/sandboxes/NAME/...).
 *
 * Blocking; every wait is bounded by the timeout given at open. One thread; one
 * request for each client. */
#ifndef WP_ALLOCATOR_CTL_SANDBOX_SANDBOX_CLIENT_H
#define WP_ALLOCATOR_CTL_SANDBOX_SANDBOX_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/status.h"

struct wp_sandbox_client;

struct wp_sandbox_request {
    const char *method;  /* "GET" */
    const char *sandbox; /* A sandbox's name. */
    const char *path;    /* "/download/a%20b": percent-encoded. */
    const char *bearer;  /* "": none. */
    const char *type;    /* Content-Type; NULL: no body. */
    uint64_t body_len;
    const char *upgrade; /* Asks for this protocol; NULL: for none. */
};

/* Connects; address NULL: the daemon's default socket. NULL and err when nobody
 * answers there. */
struct wp_sandbox_client *wp_sandbox_client_open(const char *address,
                                                 int64_t timeout_ns,
                                                 struct wp_err *err);
/* NULL is fine. */
void wp_sandbox_client_close(struct wp_sandbox_client *client);

/* Sends the head of the request. */
enum wp_status wp_sandbox_client_request(struct wp_sandbox_client *client,
                                         const struct wp_sandbox_request *req,
                                         struct wp_err *err);
/* Sends a piece of the body. Once the answer begins to come the rest is not
 * sent: read it. */
enum wp_status wp_sandbox_client_send(struct wp_sandbox_client *client,
                                      const void *bytes, size_t len,
                                      struct wp_err *err);
/* True when the answer came before the whole body was sent. */
bool wp_sandbox_client_answered(const struct wp_sandbox_client *client);

/* Reads the head of the answer. Any HTTP status but 2xx and 101 is an error:
 * the body's "error" or "message" is in err, and the status in *http_status. */
enum wp_status wp_sandbox_client_reply(struct wp_sandbox_client *client,
                                       int *http_status, struct wp_err *err);
/* The next bytes of the body into buf; *n is 0 at its end. */
enum wp_status wp_sandbox_client_read(struct wp_sandbox_client *client,
                                      void *buf, size_t cap, size_t *n,
                                      struct wp_err *err);

/* After 101: the socket (non-blocking), and what has been read from it already.
 * Both belong to the client. */
int wp_sandbox_client_fd(const struct wp_sandbox_client *client);
const uint8_t *wp_sandbox_client_extra(const struct wp_sandbox_client *client,
                                       size_t *len);

#endif
