/* proto/formats/http_head.h - an HTTP/1.1 message: its head, and where it ends.
 *
 * Bytes in, views out; no I/O. The head is parsed in one piece; of the body
 * only its end is looked for, so that a proxy can hand on the bytes as they
 * are; who wants its content sets on_body. What two parsers could read in two
 * ways is refused: both lengths at once, folded headers, bare line feeds, a
 * transfer coding other than chunked. One thread. */
#ifndef WP_PROTO_FORMATS_HTTP_HEAD_H
#define WP_PROTO_FORMATS_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <http_parser.h>

#include "pool/base/str.h"

enum {
    WP_HTTP_HEAD_MAX = 16384, /* Bytes of a head, its empty line included. */
    WP_HTTP_FIELDS_MAX = 100,
};

struct wp_http_field {
    struct wp_str name;
    struct wp_str value;
};

struct wp_http_message {
    /* Valid after parse. Views into the bytes it was given. */
    struct wp_str method; /* Request. */
    /* Request: path and query, starts with '/'. To a forward proxy, also what
     * is asked for: "http://HOST/PATH", or "HOST:PORT" of CONNECT. */
    struct wp_str target;
    unsigned status; /* Response. */
    unsigned minor;  /* HTTP/1.minor */
    struct wp_http_field fields[WP_HTTP_FIELDS_MAX];
    uint32_t n_fields;
    bool keep_alive; /* What the message itself says or implies. */
    bool chunked;
    bool has_length;
    bool until_eof; /* Response: the body ends with the connection. */
    bool connect;   /* Request to a forward proxy: CONNECT. */
    bool upgrade;   /* Asks for (request) or grants (101) another protocol. */
    uint64_t length;

    bool done;     /* The body has ended too. */
    bool too_many; /* Refused for more than WP_HTTP_FIELDS_MAX fields. */

    /* Optional, to be set after parse: the body's content, chunks decoded. */
    void (*on_body)(void *ctx, const char *data, size_t len);
    void *ctx;

    /* Private. */
    http_parser parser;
    bool head_request; /* The response to it has no body. */
    bool is_response;
    bool value_seen;
    bool head_done;
    const char *refusal;
};

/* How many bytes the head at the start of bytes has, 0 when it is not yet
 * complete; SIZE_MAX when it is longer than allowed. */
size_t wp_http_head_len(struct wp_str bytes);

/* Parses a complete head of a request. False: it is refused, and *why is a
 * sentence for the client. */
WP_MUST_CHECK bool wp_http_parse_request(struct wp_http_message *message,
                                         struct wp_str head, const char **why);
/* The same as a forward proxy takes requests: with any target, which the caller
 * judges. */
WP_MUST_CHECK bool wp_http_parse_forward(struct wp_http_message *message,
                                         struct wp_str head, const char **why);
/* May an answer with this status have a body? Not with 1xx, 204 and 304,
 * whatever its head says; nor may one to HEAD, which is for callers to know. */
bool wp_http_status_has_body(unsigned status);
/* The same for a response; head_request: it answers HEAD, so has no body. */
WP_MUST_CHECK bool wp_http_parse_response(struct wp_http_message *message,
                                          struct wp_str head, bool head_request,
                                          const char **why);

/* Bytes of the body as they come. How many of them belong to this message;
 * then message->done tells whether it has ended. -1: the framing is broken. Not
 * to be called when done. */
WP_MUST_CHECK int64_t wp_http_message_body(struct wp_http_message *message,
                                           struct wp_str bytes);
/* The connection has ended. False: in the middle of the message. */
WP_MUST_CHECK bool wp_http_message_eof(struct wp_http_message *message);

/* The first field of that name (any case), or NULL. */
const struct wp_http_field *wp_http_field(const struct wp_http_message *message,
                                          const char *name);
/* Names are compared without case. */
bool wp_http_name_is(struct wp_str name, const char *other);
/* Is word one of the comma-separated words of list? Without case. */
bool wp_http_list_has(struct wp_str list, struct wp_str word);
/* Must this field stay behind when a message is handed on? Those that concern
 * the connection only, and the lengths, which are written anew. */
bool wp_http_field_stays(const struct wp_http_message *message,
                         const struct wp_http_field *field);

#endif
