/* runtime/http/json_reply.h - answers in JSON. */
#ifndef WP_RUNTIME_HTTP_JSON_REPLY_H
#define WP_RUNTIME_HTTP_JSON_REPLY_H

#include <jansson.h>

#include "proto/formats/http_server.h"

/* Answers with compact JSON; takes one reference of body. NULL becomes 500. */
void wp_http_reply_json(struct wp_http_req *req, int status, json_t *body);

#endif
