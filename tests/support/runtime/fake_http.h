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

/* Appends to the journal. A line feed in what was given shows as "|", what is
 * not printable as "\XX", and a random id (32 times the digits XX) as "#XX". */
void journal(const char *fmt, ...) WP_PRINTF(1, 2);
/* The same of bytes, shortened to their number when there are more than 2000. */
void journal_bytes(const char *data, size_t len);
/* The end of a line. */
void journal_line(void);
/* Compares the whole journal, and empties it. */
void journal_check(const char *expected, const char *file, int line);
#define journal_is(expected) journal_check(expected, __FILE__, __LINE__)
/* What follows is left out of it; or not any more. */
void journal_mute(bool on);
/* Empties it: what comes next is what the test is about. */
void journal_drop(void);
/* Compares it with a file (tests/support/base/golden.h). */
void journal_compare(const char *path);

/* The client has gone, or the server has sent the answer. */
void fake_http_gone(struct wp_http_req *req);
/* What waits to be sent goes to the journal. */
void fake_http_flush(struct wp_http_req *req);

#endif
