/* The input side of a request: head, route, body. */
#include "runtime/http/server.h"

#include <string.h>
#include <strings.h>

#include "pool/base/assert.h"
#include "runtime/http/conn.h"

void *
wp_http_app(const struct wp_http_req *req)
{
    return req->server->app;
}

unsigned
wp_http_roles(const struct wp_http_req *req)
{
    return req->roles;
}

const char *
wp_http_method(const struct wp_http_req *req)
{
    return http_method_str((enum http_method)req->parser.method);
}

const char *
wp_http_path(const struct wp_http_req *req)
{
    return req->head;
}

const char *
wp_http_header(const struct wp_http_req *req, const char *name)
{
    for (uint32_t i = 0; i < req->fields_count; i++) {
        if (strcasecmp(req->fields[i].name, name) == 0) {
            return req->fields[i].value;
        }
    }
    return NULL;
}

bool
wp_http_wants_upgrade(const struct wp_http_req *req, const char *protocol)
{
    const char *upgrade = wp_http_header(req, "Upgrade");

    return req->parser.upgrade && upgrade != NULL &&
           strcasecmp(upgrade, protocol) == 0;
}

const char *
wp_http_body(struct wp_http_req *req, size_t *len)
{
    unsigned char *data = evbuffer_pullup(req->body, -1);

    *len = data != NULL ? evbuffer_get_length(req->body) : 0;
    return data != NULL ? (const char *)data : "";
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

/* ------------------------------------------------------------ the parser */

static struct wp_http_req *
req_of(http_parser *parser)
{
    return parser->data;
}

/* Appends to the head; the room for a final NUL is always kept. */
static int
head_add(struct wp_http_req *req, const char *at, size_t len)
{
    if (len >= WP_HTTP_HEAD_MAX - req->head_len ||
        memchr(at, '\0', len) != NULL) {
        req->head_error = HTTP_STATUS_REQUEST_HEADER_FIELDS_TOO_LARGE;
        return -1;
    }
    memcpy(req->head + req->head_len, at, len);
    req->head_len += len;
    req->head[req->head_len] = '\0';
    return 0;
}

static int
head_next(struct wp_http_req *req)
{
    if (req->head_len + 2 > WP_HTTP_HEAD_MAX) {
        req->head_error = HTTP_STATUS_REQUEST_HEADER_FIELDS_TOO_LARGE;
        return -1;
    }
    req->head[req->head_len++] = '\0';
    req->head[req->head_len] = '\0';
    return 0;
}

static int
on_url(http_parser *parser, const char *at, size_t len)
{
    struct wp_http_req *req = req_of(parser);

    req->at = WP_HTTP_AT_URL;
    return head_add(req, at, len);
}

static int
on_field(http_parser *parser, const char *at, size_t len)
{
    struct wp_http_req *req = req_of(parser);

    if (req->at != WP_HTTP_AT_FIELD) {
        if (req->fields_count == WP_HTTP_HEADERS_MAX) {
            req->head_error = HTTP_STATUS_REQUEST_HEADER_FIELDS_TOO_LARGE;
            return -1;
        }
        if (head_next(req) != 0) {
            return -1;
        }
        req->fields[req->fields_count].name = req->head + req->head_len;
        req->fields[req->fields_count].value = "";
        req->fields_count++;
        req->at = WP_HTTP_AT_FIELD;
    }
    return head_add(req, at, len);
}

static int
on_value(http_parser *parser, const char *at, size_t len)
{
    struct wp_http_req *req = req_of(parser);

    if (req->at == WP_HTTP_AT_FIELD) {
        if (head_next(req) != 0) {
            return -1;
        }
        req->fields[req->fields_count - 1].value = req->head + req->head_len;
        req->at = WP_HTTP_AT_VALUE;
    }
    if (req->at != WP_HTTP_AT_VALUE) {
        return 0;
    }
    return head_add(req, at, len);
}

static int
on_head(http_parser *parser)
{
    struct wp_http_req *req = req_of(parser);
    const char *expect = wp_http_header(req, "Expect");
    char *query = strpbrk(req->head, "?#");

    if (query != NULL) {
        *query = '\0';
    }
    req->keep_alive = http_should_keep_alive(parser) != 0;
    req->ops = req->server->route(req);
    if (req->ops == NULL) {
        WP_ASSERT(req->replied);
        return 0;
    }
    if (parser->content_length != UINT64_MAX &&
        parser->content_length > req->ops->body_max) {
        wp_http_reply_error(req, HTTP_STATUS_PAYLOAD_TOO_LARGE,
                            "body of %llu bytes: at most %llu are taken",
                            (unsigned long long)parser->content_length,
                            (unsigned long long)req->ops->body_max);
        return 0;
    }
    if (req->ops->begin != NULL) {
        req->ops->begin(req);
    }
    if (!req->replied && expect != NULL &&
        strcasecmp(expect, "100-continue") == 0) {
        static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";

        bufferevent_write(req->bev, go_on, sizeof(go_on) - 1);
    }
    return 0;
}

static int
on_body(http_parser *parser, const char *at, size_t len)
{
    struct wp_http_req *req = req_of(parser);

    if (req->replied) {
        return 0;
    }
    req->body_len += len;
    if (req->body_len > req->ops->body_max) {
        wp_http_reply_error(req, HTTP_STATUS_PAYLOAD_TOO_LARGE,
                            "body too large: at most %llu bytes are taken",
                            (unsigned long long)req->ops->body_max);
    } else if (req->ops->body != NULL) {
        req->ops->body(req, at, len);
    } else if (evbuffer_add(req->body, at, len) != 0) {
        wp_http_reply_error(req, HTTP_STATUS_INTERNAL_SERVER_ERROR,
                            "out of memory for the body");
    }
    return 0;
}

static int
on_whole(http_parser *parser)
{
    req_of(parser)->whole = true;
    http_parser_pause(parser, 1);
    return 0;
}

static const http_parser_settings parser_settings = {
    .on_url = on_url,
    .on_header_field = on_field,
    .on_header_value = on_value,
    .on_headers_complete = on_head,
    .on_body = on_body,
    .on_message_complete = on_whole,
};

/* The bytes could not be understood: say so, then close. */
static void
parse_failed(struct wp_http_req *req)
{
    int status = req->head_error;

    if (req->replied) {
        return;
    }
    if (status == 0) {
        status = HTTP_STATUS_BAD_REQUEST;
    }
    wp_http_reply_error(
        req, status, "malformed request: %s",
        status != HTTP_STATUS_BAD_REQUEST
            ? "head too large"
            : http_errno_description(HTTP_PARSER_ERRNO(&req->parser)));
}

void
wp_http_parse(struct wp_http_req *req)
{
    struct evbuffer *in = bufferevent_get_input(req->bev);
    struct evbuffer_iovec piece;

    while (!req->whole && !req->replied &&
           evbuffer_peek(in, -1, NULL, &piece, 1) > 0 && piece.iov_len > 0) {
        size_t used = http_parser_execute(&req->parser, &parser_settings,
                                          piece.iov_base, piece.iov_len);
        enum http_errno error = HTTP_PARSER_ERRNO(&req->parser);

        evbuffer_drain(in, used);
        if (error != HPE_OK && error != HPE_PAUSED) {
            req->keep_alive = false;
            parse_failed(req);
            return;
        }
    }
}
