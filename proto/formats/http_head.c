#include "proto/formats/http_head.h"

#include <strings.h>

#include "pool/base/assert.h"

size_t
wp_http_head_len(struct wp_str bytes)
{
    size_t limit = bytes.len < WP_HTTP_HEAD_MAX ? bytes.len : WP_HTTP_HEAD_MAX;
    const char *end =
        limit > 0 ? memmem(bytes.ptr, limit, "\r\n\r\n", 4) : NULL;

    if (end != NULL) {
        return (size_t)(end - bytes.ptr) + 4;
    }
    return bytes.len >= WP_HTTP_HEAD_MAX ? SIZE_MAX : 0;
}

/* Any non-zero return makes the parser stop with an error. */
static int
refuse(struct wp_http_message *m, const char *why)
{
    m->refusal = why;
    return -1;
}

static int
on_url(http_parser *parser, const char *at, size_t len)
{
    struct wp_http_message *m = parser->data;

    if (m->target.len > 0) {
        return refuse(m, "the request line is broken");
    }
    m->target = (struct wp_str){at, len};
    return 0;
}

/* RFC 9110's token; the parser lets spaces pass, which others read anew. */
static bool
is_token(const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)at[i];

        if (c <= ' ' || c >= 0x7F || strchr("\"(),/:;<=>?@[\\]{}", c) != NULL) {
            return false;
        }
    }
    return len > 0;
}

static int
on_field(http_parser *parser, const char *at, size_t len)
{
    struct wp_http_message *m = parser->data;

    if (m->head_done) {
        return 0; /* A trailer, which nobody here reads. */
    }
    if (m->n_fields == WP_HTTP_FIELDS_MAX) {
        m->too_many = true;
        return refuse(m, "more than 100 header fields");
    }
    if (!is_token(at, len)) {
        return refuse(m, "a header field's name is broken");
    }
    m->fields[m->n_fields++].name = (struct wp_str){at, len};
    m->value_seen = false;
    return 0;
}

static int
on_value(http_parser *parser, const char *at, size_t len)
{
    struct wp_http_message *m = parser->data;

    if (m->head_done) {
        return 0;
    }
    /* A head comes in one piece, so a second part is a folded line. */
    if (m->value_seen) {
        return refuse(m, "folded header fields are not accepted");
    }
    m->value_seen = true;
    while (len > 0 && (at[len - 1] == ' ' || at[len - 1] == '\t')) {
        len--;
    }
    /* The parser shows an empty value where the next line begins. */
    m->fields[m->n_fields - 1].value =
        len > 0 ? (struct wp_str){at, len} : wp_str_from("");
    return 0;
}

bool
wp_http_status_has_body(unsigned status)
{
    return status >= 200 && status != HTTP_STATUS_NO_CONTENT &&
           status != HTTP_STATUS_NOT_MODIFIED;
}

/* Chunks by HTTP/1.1, and no other coding: it would be lost on the next hop,
 * and one that does not know it reads the body's end elsewhere. An answer
 * without chunks ends with its connection, whatever it says. */
static const char *
refuse_coding(const struct wp_http_message *m)
{
    uint32_t codings = 0;

    if (m->is_response && !m->chunked) {
        return NULL;
    }
    for (uint32_t i = 0; i < m->n_fields; i++) {
        if (wp_http_name_is(m->fields[i].name, "Transfer-Encoding")) {
            codings++;
            if (!wp_http_name_is(m->fields[i].value, "chunked")) {
                return "a Transfer-Encoding of nothing but chunked is taken";
            }
        }
    }
    if (codings > 1) {
        return "more than one Transfer-Encoding";
    }
    return codings == 1 && !m->is_response && m->minor == 0
               ? "HTTP/1.0 has no Transfer-Encoding"
               : NULL;
}

/* 1: the head is all of the message. The parser itself would wait for the body
 * that a 204 or 304 announces. */
static int
on_head(http_parser *parser)
{
    struct wp_http_message *m = parser->data;
    const char *why;

    m->head_done = true;
    m->status = parser->status_code;
    m->minor = parser->http_minor;
    m->keep_alive = http_should_keep_alive(parser) != 0;
    m->chunked = (parser->flags & F_CHUNKED) != 0;
    m->has_length = (parser->flags & F_CONTENTLENGTH) != 0;
    m->length = m->has_length ? parser->content_length : 0;
    m->upgrade = parser->upgrade != 0;
    why = refuse_coding(m);
    if (why != NULL) {
        return refuse(m, why);
    }
    return m->head_request ||
                   (m->is_response && !wp_http_status_has_body(m->status))
               ? 1
               : 0;
}

static int
on_body(http_parser *parser, const char *at, size_t len)
{
    const struct wp_http_message *m = parser->data;

    if (m->on_body != NULL) {
        m->on_body(m->ctx, at, len);
    }
    return 0;
}

static int
on_done(http_parser *parser)
{
    struct wp_http_message *m = parser->data;

    m->done = true;
    /* What follows is not of this message. */
    http_parser_pause(parser, 1);
    return 0;
}

static const http_parser_settings settings = {
    .on_url = on_url,
    .on_header_field = on_field,
    .on_header_value = on_value,
    .on_headers_complete = on_head,
    .on_body = on_body,
    .on_message_complete = on_done,
};

/* The parser takes a carriage return with anything behind it for the end of the
 * head. */
static bool
lines_end_well(struct wp_str head)
{
    for (size_t i = 0; i < head.len; i++) {
        bool after_return = i > 0 && head.ptr[i - 1] == '\r';

        if ((head.ptr[i] == '\n') != after_return) {
            return false;
        }
    }
    return true;
}

static bool
parse(struct wp_http_message *m, enum http_parser_type type, struct wp_str head,
      const char **why)
{
    size_t used;
    enum http_errno error;

    http_parser_init(&m->parser, type);
    m->parser.data = m;
    if (!lines_end_well(head)) {
        *why = "a line ends without a carriage return and a line feed";
        return false;
    }
    used = http_parser_execute(&m->parser, &settings, head.ptr, head.len);
    error = HTTP_PARSER_ERRNO(&m->parser);
    if (m->refusal != NULL) {
        *why = m->refusal;
    } else if (!m->head_done || (error != HPE_OK && error != HPE_PAUSED)) {
        *why = error != HPE_OK ? http_errno_description(error)
                               : "the head is not complete";
    } else if (used != head.len && !(m->upgrade && m->done)) {
        *why = "the head ends early";
    } else {
        return true;
    }
    return false;
}

static bool
parse_request(struct wp_http_message *m, struct wp_str head, const char **why)
{
    memset(m, 0, sizeof *m);
    if (!parse(m, HTTP_REQUEST, head, why)) {
        return false;
    }
    m->method = wp_str_from(http_method_str(m->parser.method));
    if (m->parser.http_major != 1 || m->minor > 1) {
        *why = "only HTTP/1.0 and HTTP/1.1 are spoken here";
        return false;
    }
    return true;
}

bool
wp_http_parse_request(struct wp_http_message *m, struct wp_str head,
                      const char **why)
{
    if (!parse_request(m, head, why)) {
        return false;
    }
    if (m->parser.method == HTTP_CONNECT || m->target.len == 0 ||
        m->target.ptr[0] != '/') {
        *why = "the target must be a path";
        return false;
    }
    return true;
}

bool
wp_http_parse_forward(struct wp_http_message *m, struct wp_str head,
                      const char **why)
{
    if (!parse_request(m, head, why)) {
        return false;
    }
    m->connect = m->parser.method == HTTP_CONNECT;
    if (m->connect && (m->has_length || m->chunked)) {
        *why = "CONNECT has no body";
        return false;
    }
    return true;
}

bool
wp_http_parse_response(struct wp_http_message *m, struct wp_str head,
                       bool head_request, const char **why)
{
    memset(m, 0, sizeof *m);
    m->head_request = head_request;
    m->is_response = true;
    if (!parse(m, HTTP_RESPONSE, head, why)) {
        return false;
    }
    if (m->parser.http_major != 1 || m->minor > 1 || m->status < 100 ||
        m->status > 999) {
        *why = "not an HTTP/1.x response";
        return false;
    }
    m->upgrade = m->status == 101;
    m->until_eof = !m->done && !m->chunked && !m->has_length;
    return true;
}

int64_t
wp_http_message_body(struct wp_http_message *m, struct wp_str bytes)
{
    size_t used;
    enum http_errno error;

    WP_ASSERT(m->head_done && !m->done);
    if (bytes.len == 0) {
        return 0; /* To the parser, no bytes would mean the end. */
    }
    used = http_parser_execute(&m->parser, &settings, bytes.ptr, bytes.len);
    error = HTTP_PARSER_ERRNO(&m->parser);
    if (error == HPE_OK || (error == HPE_PAUSED && m->done)) {
        return (int64_t)used;
    }
    return -1;
}

bool
wp_http_message_eof(struct wp_http_message *m)
{
    if (!m->head_done || m->done) {
        return m->done;
    }
    (void)http_parser_execute(&m->parser, &settings, NULL, 0);
    return m->done;
}

bool
wp_http_name_is(struct wp_str name, const char *other)
{
    return name.len == strlen(other) &&
           (name.len == 0 || strncasecmp(name.ptr, other, name.len) == 0);
}

const struct wp_http_field *
wp_http_field(const struct wp_http_message *m, const char *name)
{
    for (uint32_t i = 0; i < m->n_fields; i++) {
        if (wp_http_name_is(m->fields[i].name, name)) {
            return &m->fields[i];
        }
    }
    return NULL;
}

bool
wp_http_list_has(struct wp_str list, struct wp_str word)
{
    while (list.len > 0) {
        const char *comma = memchr(list.ptr, ',', list.len);
        size_t len = comma != NULL ? (size_t)(comma - list.ptr) : list.len;
        struct wp_str item = {list.ptr, len};

        while (item.len > 0 && (item.ptr[0] == ' ' || item.ptr[0] == '\t')) {
            item.ptr++;
            item.len--;
        }
        while (item.len > 0 && (item.ptr[item.len - 1] == ' ' ||
                                item.ptr[item.len - 1] == '\t')) {
            item.len--;
        }
        if (item.len == word.len && word.len > 0 &&
            strncasecmp(item.ptr, word.ptr, word.len) == 0) {
            return true;
        }
        list.ptr += comma != NULL ? len + 1 : len;
        list.len -= comma != NULL ? len + 1 : len;
    }
    return false;
}

bool
wp_http_field_stays(const struct wp_http_message *message,
                    const struct wp_http_field *field)
{
    static const char *const hops[] = {
        "Connection",
        "Keep-Alive",
        "Proxy-Connection",
        "Proxy-Authenticate",
        "Proxy-Authorization",
        "TE",
        "Upgrade",
        "Transfer-Encoding",
        "Content-Length",
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(hops); i++) {
        if (wp_http_name_is(field->name, hops[i])) {
            return true;
        }
    }
    for (uint32_t i = 0; i < message->n_fields; i++) {
        if (wp_http_name_is(message->fields[i].name, "Connection") &&
            wp_http_list_has(message->fields[i].value, field->name)) {
            return true;
        }
    }
    return false;
}
