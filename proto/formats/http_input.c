/* What comes in of a request: its head, and its body for the handler. */
#include "proto/formats/http_conn.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "pool/base/assert.h"

/* ----------------------------------------------------------------- bodies */

static void
on_body(void *ctx, const char *data, size_t len)
{
    struct wp_http_req *req = ctx;

    if (req->replied) {
        return;
    }
    req->body_len += len;
    if (req->body_len > req->ops->body_max) {
        wp_http_reply_error(req, HTTP_STATUS_PAYLOAD_TOO_LARGE,
                            "body too large: at most %llu bytes are taken",
                            (unsigned long long)req->ops->body_max);
    } else if (req->ops->body != NULL) {
        req->ops->body(req, data, len);
    } else if (evbuffer_add(req->body, data, len) != 0) {
        wp_http_reply_error(req, HTTP_STATUS_INTERNAL_SERVER_ERROR,
                            "out of memory for the body");
    }
}

void
wp_http_read_body(struct wp_http_req *req)
{
    struct evbuffer *in = bufferevent_get_input(req->bev);
    struct evbuffer_iovec piece;

    while (!req->message.done && !req->replied &&
           evbuffer_peek(in, -1, NULL, &piece, 1) > 0 && piece.iov_len > 0) {
        int64_t used = wp_http_message_body(
            &req->message, (struct wp_str){piece.iov_base, piece.iov_len});

        if (used < 0 && !req->replied) {
            wp_http_reply_error(req, HTTP_STATUS_BAD_REQUEST,
                                "malformed request: the body is broken");
        }
        (void)evbuffer_drain(in, used > 0 ? (size_t)used : 0);
    }
    if (req->replied) {
        return;
    }
    if (!req->message.done && req->said_all) {
        wp_http_reply_error(req, HTTP_STATUS_BAD_REQUEST,
                            "malformed request: the body ends early");
        return;
    }
    if (!req->message.done) {
        wp_http_set_deadline(req, req->server->config.body_timeout_ns);
        return;
    }
    if (evbuffer_get_length(req->body) > 0 &&
        evbuffer_pullup(req->body, -1) == NULL) {
        wp_http_reply_error(req, HTTP_STATUS_INTERNAL_SERVER_ERROR,
                            "out of memory for the body");
        return;
    }
    wp_http_set_deadline(req, 0);
    req->phase = WP_HTTP_WAIT;
    req->ops->ready(req);
}

/* ------------------------------------------------------------------ heads */

/* Ends each string in place: what follows it is read already. */
static void
terminate_fields(struct wp_http_req *req)
{
    for (uint32_t i = 0; i < req->message.n_fields; i++) {
        const struct wp_http_field *field = &req->message.fields[i];

        if (field->value.len > 0) {
            req->head[field->value.ptr - req->head +
                      (ptrdiff_t)field->value.len] = '\0';
        }
    }
}

/* False: it was answered. */
static bool
parse_head(struct wp_http_req *req, struct wp_str head)
{
    struct wp_http_message *m = &req->message;
    const char *why = "";
    bool good = req->server->config.forward
                    ? wp_http_parse_forward(m, head, &why)
                    : wp_http_parse_request(m, head, &why);

    if (m->too_many || m->n_fields > req->server->config.fields_max) {
        wp_http_reply_error(req, HTTP_STATUS_REQUEST_HEADER_FIELDS_TOO_LARGE,
                            "the head has too many fields");
        return false;
    }
    if (!good) {
        wp_http_reply_error(req, HTTP_STATUS_BAD_REQUEST,
                            "malformed request: %s", why);
        return false;
    }
    terminate_fields(req);
    req->path = strndup(m->target.ptr, m->target.len);
    if (req->path == NULL) {
        wp_http_reply_error(req, HTTP_STATUS_INTERNAL_SERVER_ERROR,
                            "out of memory for the head");
        return false;
    }
    req->path[strcspn(req->path, "?#")] = '\0';
    m->on_body = on_body;
    m->ctx = req;
    req->keep_alive = m->keep_alive;
    return true;
}

/* A complete head, which ends the phase. */
static void
begin_request(struct wp_http_req *req, struct wp_str head)
{
    const struct wp_http_message *m = &req->message;
    const char *expect;

    wp_http_set_deadline(req, 0);
    req->server->stats.requests_total++;
    if (!parse_head(req, head)) {
        return;
    }
    req->ops = req->server->config.route(req);
    if (req->ops == NULL) {
        WP_ASSERT(req->replied);
        return;
    }
    if (m->length > req->ops->body_max) {
        wp_http_reply_error(req, HTTP_STATUS_PAYLOAD_TOO_LARGE,
                            "body of %llu bytes: at most %llu are taken",
                            (unsigned long long)m->length,
                            (unsigned long long)req->ops->body_max);
        return;
    }
    if (req->ops->begin != NULL) {
        req->ops->begin(req);
    }
    if (req->replied || req->phase == WP_HTTP_CLOSED) {
        return;
    }
    expect = wp_http_header(req, "Expect");
    if (expect != NULL && strcasecmp(expect, "100-continue") == 0 &&
        m->minor == 1 && !m->done) {
        static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";

        (void)bufferevent_write(req->bev, go_on, sizeof go_on - 1);
    }
    if (req->phase == WP_HTTP_HEAD) {
        req->phase = WP_HTTP_BODY;
        wp_http_read_body(req);
    }
}

/* Empty lines before a request are allowed, and ignored. */
static void
skip_empty_lines(struct evbuffer *in)
{
    char c;

    while (evbuffer_copyout(in, &c, 1) == 1 && (c == '\r' || c == '\n')) {
        (void)evbuffer_drain(in, 1);
    }
}

void
wp_http_read_head(struct wp_http_req *req)
{
    struct evbuffer *in = bufferevent_get_input(req->bev);
    const struct wp_http_server_config *config = &req->server->config;
    struct wp_str text;
    size_t have;
    size_t len;

    skip_empty_lines(in);
    have = evbuffer_get_length(in);
    if (req->said_all && have == 0) {
        wp_http_stream_end(req); /* Its last answer may still go out. */
        return;
    }
    if (req->idle) {
        req->idle = have == 0;
        wp_http_set_deadline(req, req->idle ? config->idle_timeout_ns
                                            : config->head_timeout_ns);
    }
    if (have == 0) {
        return;
    }
    text.len = have < WP_HTTP_HEAD_MAX ? have : WP_HTTP_HEAD_MAX;
    text.ptr = (const char *)evbuffer_pullup(in, (ev_ssize_t)text.len);
    if (text.ptr == NULL) {
        wp_http_conn_close(req);
        return;
    }
    len = wp_http_head_len(text);
    if (len == SIZE_MAX) {
        wp_http_reply_error(req, HTTP_STATUS_REQUEST_HEADER_FIELDS_TOO_LARGE,
                            "the head has more than %d bytes",
                            WP_HTTP_HEAD_MAX);
    } else if (len > 0) {
        req->head = malloc(len);
        if (req->head == NULL) {
            wp_http_conn_close(req);
            return;
        }
        (void)evbuffer_remove(in, req->head, len);
        begin_request(req, (struct wp_str){req->head, len});
    } else if (req->said_all) {
        wp_http_stream_end(req); /* The rest of the head is not to come. */
    }
}
