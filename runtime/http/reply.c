/* The answers of the HTTP server: status line, headers, body, files. */
#include "proto/formats/json_text.h"
#include "runtime/http/server.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pool/base/assert.h"
#include "runtime/http/conn.h"

static const char *
status_reason(int status)
{
    switch (status) {
#define X(code, name, text)                                                    \
    case code:                                                                 \
        return #text;
        HTTP_STATUS_MAP(X)
#undef X
    default:
        return "Unknown";
    }
}

void
wp_http_add_header(struct wp_http_req *req, const char *name, const char *value)
{
    WP_ASSERT(strpbrk(name, "\r\n:") == NULL && strpbrk(value, "\r\n") == NULL);
    evbuffer_add_printf(req->extra, "%s: %s\r\n", name, value);
}

/* Puts the head out. After an answer that comes before the whole body, or to
 * a head that could not be read, the connection cannot be used again. */
static void
head_send(struct wp_http_req *req, int status, const char *type, uint64_t len)
{
    struct evbuffer *out = bufferevent_get_output(req->bev);

    WP_ASSERT(!req->replied);
    req->replied = true;
    req->keep_alive = req->keep_alive && req->whole && !req->server->draining;
    evbuffer_add_printf(out, "HTTP/1.1 %d %s\r\n", status,
                        status_reason(status));
    if (type != NULL) {
        evbuffer_add_printf(out, "Content-Type: %s\r\n", type);
    }
    if (status != HTTP_STATUS_NO_CONTENT) {
        evbuffer_add_printf(out, "Content-Length: %llu\r\n",
                            (unsigned long long)len);
    }
    evbuffer_add_buffer(out, req->extra);
    evbuffer_add_printf(out, "Connection: %s\r\n\r\n",
                        req->keep_alive ? "keep-alive" : "close");
    req->state = WP_HTTP_SENDING;
}

static bool
is_head_request(const struct wp_http_req *req)
{
    return req->parser.method == HTTP_HEAD;
}

void
wp_http_reply(struct wp_http_req *req, int status, const char *type,
              const void *data, size_t len)
{
    head_send(req, status, type, len);
    if (len > 0 && !is_head_request(req)) {
        evbuffer_add(bufferevent_get_output(req->bev), data, len);
    }
}

static void
free_text(const void *data, size_t len, void *arg)
{
    (void)data;
    (void)len;
    free(arg);
}

void
wp_http_reply_json(struct wp_http_req *req, int status, json_t *body)
{
    char *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;
    size_t len;

    json_decref(body);
    if (text == NULL) {
        static const char sorry[] = "{\"error\":\"out of memory\"}";

        wp_http_reply(req, HTTP_STATUS_INTERNAL_SERVER_ERROR,
                      "application/json", sorry, sizeof(sorry) - 1);
        return;
    }
    len = strlen(text);
    head_send(req, status, "application/json", len);
    if (is_head_request(req) ||
        evbuffer_add_reference(bufferevent_get_output(req->bev), text, len,
                               free_text, text) != 0) {
        free(text);
    }
}

void
wp_http_reply_error(struct wp_http_req *req, int status, const char *fmt, ...)
{
    char msg[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(msg, sizeof(msg), fmt, args);
    va_end(args);
    wp_http_reply_json(req, status,
                       json_pack("{s:o}", "error", wp_json_from_text(msg)));
}

void
wp_http_reply_file(struct wp_http_req *req, int fd, uint64_t size)
{
    head_send(req, HTTP_STATUS_OK, "application/octet-stream", size);
    if (is_head_request(req)) {
        close(fd);
        return;
    }
    req->file_fd = fd;
    req->file_left = size;
    req->file_offset = 0;
    (void)wp_http_reply_continue(req);
}

bool
wp_http_reply_continue(struct wp_http_req *req)
{
    struct evbuffer *out = bufferevent_get_output(req->bev);
    struct evbuffer_iovec space;
    size_t want;
    ssize_t got;

    if (req->file_fd < 0) {
        return evbuffer_get_length(out) == 0;
    }
    want = req->file_left < WP_HTTP_FILE_CHUNK ? (size_t)req->file_left
                                               : (size_t)WP_HTTP_FILE_CHUNK;
    if (want > 0) {
        if (evbuffer_reserve_space(out, (ev_ssize_t)want, &space, 1) != 1) {
            got = -1;
        } else {
            got = pread(req->file_fd, space.iov_base, want,
                        (off_t)req->file_offset);
        }
        if (got <= 0) {
            /* The promised length cannot be kept: a short body says so. */
            req->keep_alive = false;
            req->file_left = 0;
        } else {
            space.iov_len = (size_t)got;
            evbuffer_commit_space(out, &space, 1);
            req->file_left -= (uint64_t)got;
            req->file_offset += (uint64_t)got;
        }
    }
    if (req->file_left == 0) {
        close(req->file_fd);
        req->file_fd = -1;
    }
    return req->file_fd < 0 && evbuffer_get_length(out) == 0;
}

void
wp_http_upgrade(struct wp_http_req *req, const char *protocol,
                const struct wp_http_stream_ops *ops)
{
    WP_ASSERT(!req->replied && req->whole);
    req->replied = true;
    req->keep_alive = false;
    req->stream = ops;
    req->state = WP_HTTP_UPGRADED;
    evtimer_del(req->timer);
    bufferevent_set_timeouts(req->bev, NULL, NULL);
    wp_http_watch_close(req);
    evbuffer_add_printf(bufferevent_get_output(req->bev),
                        "HTTP/1.1 101 Switching Protocols\r\n"
                        "Connection: Upgrade\r\nUpgrade: %s\r\n\r\n",
                        protocol);
    /* What came with the request is handed over from the loop. */
    bufferevent_trigger(req->bev, EV_READ, BEV_TRIG_DEFER_CALLBACKS);
}

struct evbuffer *
wp_http_stream_output(struct wp_http_req *req)
{
    return bufferevent_get_output(req->bev);
}

void
wp_http_stream_read(struct wp_http_req *req, bool on)
{
    if (on && !req->ending) {
        bufferevent_enable(req->bev, EV_READ);
        bufferevent_trigger(req->bev, EV_READ, BEV_TRIG_DEFER_CALLBACKS);
    } else {
        bufferevent_disable(req->bev, EV_READ);
    }
}

void
wp_http_stream_end(struct wp_http_req *req)
{
    const struct timeval limit = {.tv_sec = WP_HTTP_SEND_TIMEOUT_S};

    req->ending = true;
    bufferevent_set_timeouts(req->bev, NULL, &limit);
    bufferevent_trigger(req->bev, EV_WRITE, BEV_TRIG_DEFER_CALLBACKS);
}
