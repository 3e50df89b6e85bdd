/* allocator/http/http_claim.h - what the routes that claim sandboxes by HTTP
 * share. The loop's thread. */
#ifndef WP_ALLOCATOR_HTTP_HTTP_CLAIM_H
#define WP_ALLOCATOR_HTTP_HTTP_CLAIM_H

#include "pool/pool.h"
#include "proto/formats/http_server.h"

/* A pool of the template in that namespace: one with something ready, else any.
 * False: there is none. */
WP_MUST_CHECK bool wp_http_pool_of(struct wp_pools *pools, const char *ns,
                                   const char *template_name,
                                   char pool[WP_POOL_NAME_MAX + 1]);
/* Answers with what the pools have refused: the status, when to come again, and
 * {"error": "what: reason"}. reason NULL: the status' own text. */
void wp_http_refuse_claim(struct wp_http_req *req, enum wp_status status,
                          const char *what, const char *reason,
                          int64_t retry_after_ns);

#endif
