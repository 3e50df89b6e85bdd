/* What handlers ask of a request and answer it with. */
#include "proto/formats/http_conn.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "pool/base/assert.h"
#include "proto/formats/json_text.h"

enum {
    FILE_CHUNK = 64 << 10,
};

/* ------------------------------------------------------------ the request */

void *
wp_http_app(const struct wp_http_req *req)
{
    return req->server->config.app;
}

void *
wp_http_peer(struct wp_http_req *req)
{
    return req->peer;
}

unsigned
wp_http_roles(const struct wp_http_req *req)
{
    return req->roles;
}

const char *
wp_http_method(const struct wp_http_req *req)
{
    return req->message.method.ptr;
}

const char *
wp_http_path(const struct wp_http_req *req)
{
    return req->path;
}

struct wp_str
wp_http_query(const struct wp_http_req *req)
{
    struct wp_str target = req->message.target;
    size_t at = strlen(req->path);
    size_t len;

    if (at >= target.len || target.ptr[at] != '?') {
        return (struct wp_str){"", 0};
    }
    target.ptr += at + 1;
    target.len -= at + 1;
    for (len = 0; len < target.len && target.ptr[len] != '#'; len++) {
    }
    return (struct wp_str){target.ptr, len};
}

const char *
wp_http_header(const struct wp_http_req *req, const char *name)
{
    const struct wp_http_field *field = wp_http_field(&req->message, name);

    if (field == NULL) {
        return NULL;
    }
    return field->value.ptr != NULL ? field->value.ptr : "";
}

bool
wp_http_wants_upgrade(const struct wp_http_req *req, const char *protocol)
{
    const char *upgrade = wp_http_header(req, "Upgrade");

    return req->message.upgrade && upgrade != NULL &&
           strcasecmp(upgrade, protocol) == 0;
}

struct wp_http_message *
wp_http_message(struct wp_http_req *req)
{
    return &req->message;
}

const char *
wp_http_body(struct wp_http_req *req, size_t *len)
{
    struct evbuffer_iovec piece;
    /* One piece since ready(), or none. */
    bool some = evbuffer_peek(req->body, -1, NULL, &piece, 1) > 0;

    *len = some ? piece.iov_len : 0;
    return some ? piece.iov_base : "";
}

void
wp_http_set_user(struct wp_http_req *req, void *user)
{
    req->user = user;
}

void *
wp_http_user(const struct wp_http_req *req)
{
    return req->user;
}

bool
wp_http_replied(const struct wp_http_req *req)
{
    return req->replied;
}

/* ------------------------------------------------------------- the answer */

void
wp_http_add_header(struct wp_http_req *req, const char *name, const char *value)
{
    WP_ASSERT(strpbrk(name, "\r\n:") == NULL && strpbrk(value, "\r\n") == NULL);
    (void)evbuffer_add_printf(req->extra, "%s: %s\r\n", name, value);
}

void
wp_http_set_close(struct wp_http_req *req)
{
    req->keep_alive = false;
}

void
wp_http_put_status(struct wp_http_req *req, unsigned status)
{
    static const char start[] = WP_HTTP_STATUS_START;
    const char *words = http_status_str((enum http_status)status);

    /* The library has a word of its own for those that it does not know. */
    (void)evbuffer_add_printf(bufferevent_get_output(req->bev), "%s%u %s\r\n",
                              start + req->early, status,
                              words[0] != '<' ? words : "");
    req->early = 0;
    req->answer_begun = true;
}

/* Puts the head out; false when no body may follow. After an answer that comes
 * before the whole body, or to a head that could not be read, the connection
 * cannot be used again. */
static bool
send_head(struct wp_http_req *req, int status, const char *type, uint64_t len)
{
    struct evbuffer *out = bufferevent_get_output(req->bev);

    WP_ASSERT(!req->replied);
    req->replied = true;
    req->keep_alive =
        req->keep_alive && req->message.done && !req->server->draining;
    wp_http_put_status(req, (unsigned)status);
    if (type != NULL) {
        (void)evbuffer_add_printf(out, "Content-Type: %s\r\n", type);
    }
    if (wp_http_status_has_body((unsigned)status)) {
        (void)evbuffer_add_printf(out, "Content-Length: %llu\r\n",
                                  (unsigned long long)len);
    }
    (void)evbuffer_add_buffer(out, req->extra);
    (void)evbuffer_add_printf(out, "Connection: %s\r\n\r\n",
                              req->keep_alive ? "keep-alive" : "close");
    req->phase = WP_HTTP_SEND;
    wp_http_set_deadline(req, 0);
    return !wp_str_is(req->message.method, "HEAD") &&
           wp_http_status_has_body((unsigned)status);
}

void
wp_http_reply(struct wp_http_req *req, int status, const char *type,
              const void *data, size_t len)
{
    if (send_head(req, status, type, len) && len > 0) {
        (void)evbuffer_add(bufferevent_get_output(req->bev), data, len);
    }
}

void
wp_http_reply_buffer(struct wp_http_req *req, int status, const char *type,
                     struct evbuffer *body)
{
    if (send_head(req, status, type, evbuffer_get_length(body))) {
        (void)evbuffer_add_buffer(bufferevent_get_output(req->bev), body);
    }
}

void
wp_http_reply_error(struct wp_http_req *req, int status, const char *fmt, ...)
{
    struct evbuffer *body = evbuffer_new();
    char msg[512];
    json_t *object;
    char *text;
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(msg, sizeof msg, fmt, args);
    va_end(args);
    object = json_pack("{s:o}", "error", wp_json_from_text(msg));
    text = object != NULL ? json_dumps(object, JSON_COMPACT) : NULL;
    if (body != NULL && text != NULL) {
        (void)evbuffer_add_printf(body, "%s\n", text);
        wp_http_reply_buffer(req, status, "application/json", body);
    } else {
        wp_http_reply(req, status, NULL, NULL, 0);
    }
    free(text);
    json_decref(object);
    if (body != NULL) {
        evbuffer_free(body);
    }
}

static void
send_file(struct wp_http_req *req, int status, int fd, uint64_t from,
          uint64_t size)
{
    if (!send_head(req, status, "application/octet-stream", size)) {
        (void)close(fd);
        return;
    }
    req->file_fd = fd;
    req->file_left = size;
    req->file_offset = from;
    (void)wp_http_reply_continue(req);
}

void
wp_http_reply_file(struct wp_http_req *req, int fd, uint64_t size)
{
    send_file(req, HTTP_STATUS_OK, fd, 0, size);
}

void
wp_http_reply_file_part(struct wp_http_req *req, int fd, uint64_t from,
                        uint64_t size)
{
    send_file(req, HTTP_STATUS_PARTIAL_CONTENT, fd, from, size);
}

bool
wp_http_reply_continue(struct wp_http_req *req)
{
    struct evbuffer *out = bufferevent_get_output(req->bev);
    struct evbuffer_iovec space;
    size_t want;
    ssize_t got = -1;

    if (req->file_fd < 0) {
        return evbuffer_get_length(out) == 0;
    }
    want = req->file_left < FILE_CHUNK ? (size_t)req->file_left
                                       : (size_t)FILE_CHUNK;
    if (want > 0) {
        if (evbuffer_reserve_space(out, (ev_ssize_t)want, &space, 1) == 1) {
            got = pread(req->file_fd, space.iov_base, want,
                        (off_t)req->file_offset);
        }
        if (got <= 0) {
            /* The promised length cannot be kept: a short body says so. */
            req->keep_alive = false;
            req->file_left = 0;
        } else {
            space.iov_len = (size_t)got;
            (void)evbuffer_commit_space(out, &space, 1);
            req->file_left -= (uint64_t)got;
            req->file_offset += (uint64_t)got;
        }
    }
    if (req->file_left == 0) {
        (void)close(req->file_fd);
        req->file_fd = -1;
    }
    return req->file_fd < 0 && evbuffer_get_length(out) == 0;
}
