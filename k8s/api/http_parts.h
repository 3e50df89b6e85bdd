/* k8s/api/http_parts.h - what the files of the HTTP client share, and nobody
 * else.
 *
 *   http.c         queues, priorities, the bucket: which request goes next
 *   http_stream.c  endless answers
 *   http_link.c    curl's multi interface in the event loop
 *   http_easy.c    a transfer's options, and what its end means
 *   http_tls.c     options that follow from the configuration
 *
 * Nothing is given to curl or taken from it within one of curl's callbacks, in
 * which a stream's owner may well send requests: whatever is asked for is noted
 * and done by wp_http_work, once curl has returned. */
#ifndef WP_K8S_API_HTTP_PARTS_H
#define WP_K8S_API_HTTP_PARTS_H

#include "k8s/api/api_config.h"
#include "k8s/api/http.h"
#include "k8s/api/rate.h"
#include "k8s/api/token.h"
#include "pool/base/list.h"

struct event;
struct wp_http_easy; /* A handle of curl with what it borrows. */
struct wp_http_link; /* A multi handle of curl: a set of connections. */

enum {
    /* Connections times this: requests at once with HTTP/2, and connections
     * with HTTP/1.1, where each carries one request. */
    WP_HTTP_STREAMS_PER_CONNECTION = 100,
    WP_HTTP_FACTOR_HTTP1 = 4,
    WP_HTTP_ERROR_MAX = 400,
};

/* What is said of a request that may not be sent. */
#define WP_HTTP_FORBIDDEN "it may not be sent any more"

struct wp_http_buffer {
    char *ptr;
    size_t len;
    size_t cap;
    bool lacks; /* Memory did, not room. */
};

/* What requests and streams have in common. The owner fills the first part and
 * keeps what it points at until the end. */
struct wp_http_transfer {
    struct wp_http *http;
    const char *method;
    const char *path;
    const char *content_type; /* NULL: no body. */
    struct wp_str body;
    int64_t timeout_ns; /* 0: none. */
    bool streaming;
    /* Within curl, the moment before a connection takes it: it may have waited
     * for one. False: it ends UNAVAILABLE, unsent. NULL: it may always go. */
    bool (*may_send)(struct wp_http_transfer *transfer);
    /* Within curl. False stops the transfer. */
    bool (*on_bytes)(struct wp_http_transfer *transfer, int code,
                     struct wp_str bytes);
    /* Once, outside of curl; the transfer is under way no more. */
    void (*on_end)(struct wp_http_transfer *transfer,
                   struct wp_http_answer *answer);

    struct wp_http_link *link; /* NULL: not under way. */
    struct wp_http_easy *easy;
    struct wp_token_value *token;
    struct wp_http_buffer in; /* For on_bytes. */
    int64_t started_ns;
    uint32_t attempts; /* How often curl has begun to send it. */
    bool stopped;      /* on_bytes said so. */
    bool forbidden;    /* may_send said so. */
    bool reauthorized;
};

struct wp_http {
    struct wp_http_config config;
    struct wp_token *token;
    struct wp_rate rate;
    struct wp_list queues[WP_HTTP_PRIORITIES];
    int64_t hold_until_ns[WP_HTTP_PRIORITIES];
    struct wp_list refused; /* To be told so. */
    struct wp_list running;
    uint32_t of_priority[WP_HTTP_PRIORITIES]; /* Under way. */
    int64_t claim_ended_ns;                   /* The last request of a claim. */
    uint32_t parallel;                        /* Requests under way at most. */
    struct wp_list streams;                   /* Under way. */
    struct wp_list streams_waiting;           /* To be begun. */
    struct wp_list streams_closing;
    struct wp_http_link *requests_link;
    struct wp_http_link *streams_link;
    struct wp_list links;       /* Retired ones. */
    struct wp_list idle_easies; /* A few, to be used again. */
    uint32_t idle_count;
    char *base_url;
    void *connect_to; /* curl_slist */
    char *host_header;
    struct event *kick;
    struct event *timer;
    uint32_t depth; /* wp_http_enter without wp_http_leave. */
    bool asks_again;
    bool closing;
    struct wp_http_stats stats;
};

/* --- http.c */

/* Around everything that the event loop calls: work that was asked for within
 * is done by the last leave. */
void wp_http_enter(struct wp_http *http);
void wp_http_leave(struct wp_http *http);
/* Work waits. */
void wp_http_kick(struct wp_http *http);
/* How many requests may be under way, with or without HTTP/2. */
uint32_t wp_http_parallel(const struct wp_http *http, bool http2);
/* False: that would be more than max bytes, or memory lacks. */
WP_MUST_CHECK bool wp_http_buffer_add(struct wp_http_buffer *buffer,
                                      struct wp_str bytes, size_t max);
void wp_http_buffer_fini(struct wp_http_buffer *buffer);

/* --- http_stream.c */

void wp_http_streams_work(struct wp_http *http); /* Opens and closes. */
void wp_http_streams_end(struct wp_http *http);  /* All, with CANCELLED. */

/* --- http_link.c */

/* NULL when memory lacks. shared: transfers may share connections. */
struct wp_http_link *wp_http_link_create(struct wp_http *http, bool shared);
/* No transfer is under way. NULL is fine. */
void wp_http_link_destroy(struct wp_http_link *link);
/* Retired links with nothing under way are destroyed. */
void wp_http_links_sweep(struct wp_http *http);
/* Starts it; the end comes through on_end. False: no memory, nothing begun. */
WP_MUST_CHECK bool wp_http_transfer_start(struct wp_http_transfer *transfer,
                                          struct wp_http_link *link);
/* Ends it without on_end. Harmless when it is not under way. */
void wp_http_transfer_cancel(struct wp_http_transfer *transfer);

/* --- http_easy.c */

/* NULL when memory lacks. */
struct wp_http_easy *wp_http_easy_get(struct wp_http *http);
void wp_http_easy_put(struct wp_http *http, struct wp_http_easy *easy);
void wp_http_easies_free(struct wp_http *http);
void *wp_http_easy_curl(struct wp_http_easy *easy);
WP_MUST_CHECK bool wp_http_easy_prepare(struct wp_http_easy *easy,
                                        struct wp_http_transfer *transfer);
/* curl_result is a CURLcode. The answer's texts live as long as easy is with
 * the caller and transfer's buffer is not touched. */
void wp_http_easy_answer(struct wp_http_easy *easy,
                         const struct wp_http_transfer *transfer,
                         int curl_result, struct wp_http_answer *answer);
/* Of the answer that comes; 0: none has begun. */
int wp_http_easy_code(struct wp_http_easy *easy);
/* Of the last answer. */
bool wp_http_easy_is_http2(struct wp_http_easy *easy);

/* --- http_tls.c */

/* Fills base_url, connect_to and host_header; are the files there? */
WP_MUST_CHECK enum wp_status wp_http_server_init(struct wp_http *http,
                                                 struct wp_err *err);
void wp_http_server_fini(struct wp_http *http);
WP_MUST_CHECK bool wp_http_server_apply(const struct wp_http *http, void *curl);

#endif
