/* tests/support/runtime/fake_http.h - requests without an HTTP server.
 *
 * A test lays out what a client sent, and calls the ops. Each call that the
 * code under test makes to the server is a line of the journal, in order:
 *
 *     struct wp_http_req req = {.name = "A", .app = &runtime, ...};
 *     ops->ready(&req);
 *     journal_is("A reply 204 -: \n");
 *
 * What links this library has no other HTTP server. One thread. */
#ifndef WP_TESTS_SUPPORT_RUNTIME_FAKE_HTTP_H
#define WP_TESTS_SUPPORT_RUNTIME_FAKE_HTTP_H

#include "pool/base/compiler.h"
#include "proto/formats/http_server.h"
#include "tests/support/base/journal.h"

enum {
    FAKE_HTTP_HEADERS = 16,
};

struct wp_http_req {
    const char *name; /* In the journal. */
    void *app;
    const struct wp_http_ops *ops; /* NULL, or whose gone() ends it. */
    const char *method;
    const char *path;
    const char *query;                      /* NULL: none. */
    const char *headers[FAKE_HTTP_HEADERS]; /* Name, value, ... NULL. */
    const char *body;                       /* NULL: none. */
    size_t body_len;                        /* 0: up to its NUL. */
    unsigned roles;
    bool left;     /* The client has. */
    bool upgrades; /* It asks for that. */

    /* What became of it. */
    void *user;
    bool replied;
    const struct wp_http_stream_ops *stream;
    struct evbuffer *out; /* Made when it is first asked for. */
};

/* The client has gone, or the server has sent the answer. */
void fake_http_gone(struct wp_http_req *req);
/* What waits to be sent goes to the journal. */
void fake_http_flush(struct wp_http_req *req);

#endif
