#include "tests/support/runtime/fake_http.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    SHOWN_MAX = 2000,
};

void
fake_http_gone(struct wp_http_req *req)
{
    if (req->ops != NULL && req->ops->gone != NULL) {
        req->ops->gone(req);
    }
    if (req->out != NULL) {
        evbuffer_free(req->out);
        req->out = NULL;
    }
}

void
fake_http_flush(struct wp_http_req *req)
{
    size_t len = req->out != NULL ? evbuffer_get_length(req->out) : 0;

    if (len > 0) {
        journal("%s sends: ", req->name);
        journal_bytes((const char *)evbuffer_pullup(req->out, -1), len);
        journal_line();
        evbuffer_drain(req->out, len);
    }
}

/* ------------------------------------------------------- what clients sent */

void *__wrap_wp_http_app(const struct wp_http_req *req);
unsigned __wrap_wp_http_roles(const struct wp_http_req *req);
const char *__wrap_wp_http_method(const struct wp_http_req *req);
const char *__wrap_wp_http_path(const struct wp_http_req *req);
struct wp_str __wrap_wp_http_query(const struct wp_http_req *req);
const char *__wrap_wp_http_header(const struct wp_http_req *req,
                                  const char *name);
bool __wrap_wp_http_wants_upgrade(const struct wp_http_req *req,
                                  const char *protocol);
const char *__wrap_wp_http_body(struct wp_http_req *req, size_t *len);
void __wrap_wp_http_set_user(struct wp_http_req *req, void *user);
void *__wrap_wp_http_user(const struct wp_http_req *req);
bool __wrap_wp_http_replied(const struct wp_http_req *req);
bool __wrap_wp_http_client_left(const struct wp_http_req *req);

void *
__wrap_wp_http_app(const struct wp_http_req *req)
{
    return req->app;
}

unsigned
__wrap_wp_http_roles(const struct wp_http_req *req)
{
    return req->roles;
}

const char *
__wrap_wp_http_method(const struct wp_http_req *req)
{
    return req->method;
}

const char *
__wrap_wp_http_path(const struct wp_http_req *req)
{
    return req->path;
}

struct wp_str
__wrap_wp_http_query(const struct wp_http_req *req)
{
    return wp_str_from(req->query != NULL ? req->query : "");
}

const char *
__wrap_wp_http_header(const struct wp_http_req *req, const char *name)
{
    for (size_t i = 0; i < FAKE_HTTP_HEADERS && req->headers[i] != NULL;
         i += 2) {
        if (strcasecmp(req->headers[i], name) == 0) {
            return req->headers[i + 1];
        }
    }
    return NULL;
}

bool
__wrap_wp_http_wants_upgrade(const struct wp_http_req *req,
                             const char *protocol)
{
    journal("%s asked for %s?", req->name, protocol);
    journal_line();
    return req->upgrades;
}

const char *
__wrap_wp_http_body(struct wp_http_req *req, size_t *len)
{
    const char *body = req->body != NULL ? req->body : "";

    *len = req->body_len > 0 ? req->body_len : strlen(body);
    return body;
}

void
__wrap_wp_http_set_user(struct wp_http_req *req, void *user)
{
    req->user = user;
}

void *
__wrap_wp_http_user(const struct wp_http_req *req)
{
    return req->user;
}

bool
__wrap_wp_http_replied(const struct wp_http_req *req)
{
    return req->replied;
}

bool
__wrap_wp_http_client_left(const struct wp_http_req *req)
{
    return req->left;
}

/* ------------------------------------------------------------- the answers */

void __wrap_wp_http_add_header(struct wp_http_req *req, const char *name,
                               const char *value);
void __wrap_wp_http_set_close(struct wp_http_req *req);
void __wrap_wp_http_reply(struct wp_http_req *req, int status, const char *type,
                          const void *data, size_t len);
void __wrap_wp_http_reply_buffer(struct wp_http_req *req, int status,
                                 const char *type, struct evbuffer *body);
void __wrap_wp_http_reply_error(struct wp_http_req *req, int status,
                                const char *fmt, ...) WP_PRINTF(3, 4);
void __wrap_wp_http_reply_file(struct wp_http_req *req, int fd, uint64_t size);
void __wrap_wp_http_reply_file_part(struct wp_http_req *req, int fd,
                                    uint64_t from, uint64_t size);

static void
answered(struct wp_http_req *req)
{
    assert_false(req->replied);
    req->replied = true;
}

void
__wrap_wp_http_add_header(struct wp_http_req *req, const char *name,
                          const char *value)
{
    journal("%s header %s: %s", req->name, name, value);
    journal_line();
}

void
__wrap_wp_http_set_close(struct wp_http_req *req)
{
    journal("%s closes", req->name);
    journal_line();
}

void
__wrap_wp_http_reply(struct wp_http_req *req, int status, const char *type,
                     const void *data, size_t len)
{
    answered(req);
    journal("%s reply %d %s: ", req->name, status, type != NULL ? type : "-");
    journal_bytes(data, len);
    journal_line();
}

void
__wrap_wp_http_reply_buffer(struct wp_http_req *req, int status,
                            const char *type, struct evbuffer *body)
{
    size_t len = evbuffer_get_length(body);

    __wrap_wp_http_reply(req, status, type,
                         len > 0 ? evbuffer_pullup(body, -1) : NULL, len);
    evbuffer_drain(body, len);
}

void
__wrap_wp_http_reply_error(struct wp_http_req *req, int status, const char *fmt,
                           ...)
{
    char line[1024];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    answered(req);
    journal("%s error %d: %s", req->name, status, line);
    journal_line();
}

void
__wrap_wp_http_reply_file_part(struct wp_http_req *req, int fd, uint64_t from,
                               uint64_t size)
{
    char bytes[SHOWN_MAX + 1];
    ssize_t n = pread(fd, bytes, sizeof bytes, (off_t)from);

    answered(req);
    (void)close(fd);
    journal("%s file %llu+%llu: ", req->name, (unsigned long long)from,
            (unsigned long long)size);
    journal_bytes(bytes, n > 0 ? (size_t)n : 0);
    journal_line();
}

void
__wrap_wp_http_reply_file(struct wp_http_req *req, int fd, uint64_t size)
{
    __wrap_wp_http_reply_file_part(req, fd, 0, size);
}

/* ------------------------------------------------------------ answers that
 * take their time */

void __wrap_wp_http_upgrade(struct wp_http_req *req, const char *protocol,
                            const struct wp_http_stream_ops *ops);
void __wrap_wp_http_pieces_begin(struct wp_http_req *req, int status,
                                 const char *type,
                                 const struct wp_http_stream_ops *ops);
void __wrap_wp_http_piece(struct wp_http_req *req, const void *data,
                          size_t len);
void __wrap_wp_http_pieces_end(struct wp_http_req *req);
struct evbuffer *__wrap_wp_http_stream_output(struct wp_http_req *req);
void __wrap_wp_http_stream_read(struct wp_http_req *req, bool on);
void __wrap_wp_http_half_closed(struct wp_http_req *req);
void __wrap_wp_http_stream_end(struct wp_http_req *req);
void __wrap_wp_http_stream_drop(struct wp_http_req *req);

void
__wrap_wp_http_upgrade(struct wp_http_req *req, const char *protocol,
                       const struct wp_http_stream_ops *ops)
{
    answered(req);
    req->stream = ops;
    journal("%s upgrade %s", req->name, protocol);
    journal_line();
}

void
__wrap_wp_http_pieces_begin(struct wp_http_req *req, int status,
                            const char *type,
                            const struct wp_http_stream_ops *ops)
{
    answered(req);
    req->stream = ops;
    journal("%s pieces %d %s", req->name, status, type);
    journal_line();
}

void
__wrap_wp_http_piece(struct wp_http_req *req, const void *data, size_t len)
{
    journal("%s piece: ", req->name);
    journal_bytes(data, len);
    journal_line();
}

static void
end(struct wp_http_req *req, const char *how)
{
    fake_http_flush(req);
    journal("%s %s", req->name, how);
    journal_line();
    fake_http_gone(req);
}

void
__wrap_wp_http_pieces_end(struct wp_http_req *req)
{
    end(req, "complete");
}

struct evbuffer *
__wrap_wp_http_stream_output(struct wp_http_req *req)
{
    if (req->out == NULL) {
        req->out = evbuffer_new();
    }
    assert_non_null(req->out);
    return req->out;
}

void
__wrap_wp_http_stream_read(struct wp_http_req *req, bool on)
{
    journal("%s read %s", req->name, on ? "on" : "off");
    journal_line();
}

void
__wrap_wp_http_half_closed(struct wp_http_req *req)
{
    journal("%s half closed", req->name);
    journal_line();
}

void
__wrap_wp_http_stream_end(struct wp_http_req *req)
{
    end(req, "end");
}

void
__wrap_wp_http_stream_drop(struct wp_http_req *req)
{
    end(req, "dropped");
}
