/* k8s/api/http.h - HTTP requests to one API server, in one event loop.
 *
 * curl's multi interface driven by libevent: HTTP/2 where the server has it, so
 * that requests share connections; a watch has a connection of its own. Nothing
 * here blocks. Everything belongs to the loop's thread. The process ignores
 * SIGPIPE: OpenSSL writes to sockets as to files.
 *
 * What is not under way waits in bounded queues, one for each priority; a token
 * bucket and a bound on requests under way say when the next one may go. Lower
 * priorities may use up only a part of both, so that something is always left
 * for claims. SPARE and EVENT go one by one while a claim's request is under
 * way, and for 20 ms after it: an API server with few cores serves all that it
 * has at once. What has waited too long (claims 10 s, others 60 s) ends with
 * UNAVAILABLE. A 429 or 503 with Retry-After holds that priority's queue for
 * that long (claims excepted: theirs are told at once). The bearer token's file
 * is read again when it changes, at least once a minute, and once more after a
 * 401. */
#ifndef WP_K8S_API_HTTP_H
#define WP_K8S_API_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/clock.h"
#include "pool/base/compiler.h"
#include "pool/base/status.h"
#include "pool/base/str.h"

struct event_base;
struct wp_api_config;
struct wp_http; /* Opaque. */

enum wp_http_priority {
    WP_HTTP_CLAIM,  /* A client waits for it; also leader election. */
    WP_HTTP_NORMAL, /* Status, deletes, reads. */
    WP_HTTP_REFILL, /* Making sandboxes and pods. */
    WP_HTTP_SPARE,  /* What may well wait while claims are served. */
    WP_HTTP_EVENT,  /* What nobody waits for; dropped first. */
    WP_HTTP_PRIORITIES
};

enum {
    WP_HTTP_PATH_MAX = 2048,
    WP_HTTP_BODY_MAX = 4 << 20, /* Of an answer; a list page stays below. */
};

/* wp_http_config_init fills the defaults. */
struct wp_http_config {
    struct event_base *base;
    const struct wp_clock *clock;
    const struct wp_api_config *server; /* Borrowed until destroy. */
    const char *user_agent;
    uint32_t queue_max; /* 8192 of each priority; more: RESOURCE_EXHAUSTED */
    /* 64 requests under way, watches apart. More would only wait in the server,
     * where a claim or the election cannot overtake them. */
    uint32_t inflight_max;
    /* 4 for requests, four times as many where the server knows HTTP/1.1 only;
     * each watch has its own. */
    uint32_t connections_max;
    double qps;         /* 0, the default: no bucket. */
    uint32_t burst;     /* Its size; claims may always use what is left. */
    int64_t timeout_ns; /* 10 s; of a request from when it is sent. */
    /* Asked the moment before a request leaves its queue, and again before a
     * connection takes it: what was right when it was queued may be no more.
     * False: it ends UNAVAILABLE, unsent. Must call nothing of this client.
     * NULL: all may go. */
    bool (*may_send)(void *ctx, const char *method, const char *path,
                     enum wp_http_priority priority);
    void *ctx;
};
void wp_http_config_init(struct wp_http_config *config);

/* What came back. Borrowed for the callback. */
struct wp_http_answer {
    /* WP_OK: the server answered, whatever it said: see code. UNAVAILABLE: the
     * request certainly had no effect. UNKNOWN_OUTCOME: it was sent, whether it
     * had an effect is not known. RESOURCE_EXHAUSTED: the queue was full.
     * INVALID_ARGUMENT: the path is none. DEADLINE_EXCEEDED: a stream was
     * silent for its idle timeout. CANCELLED: wp_http_destroy, or on_bytes has
     * ended the stream. GET has no effect, so it never ends in doubt. */
    enum wp_status status;
    int code; /* HTTP status. */
    struct wp_str body;
    int64_t retry_after_ns; /* -1: the server did not say. */
    const char *error;      /* For people, when status is not WP_OK. */
};

struct wp_http_request {
    const char *method;       /* Static storage. */
    const char *path;         /* With query, from the first '/'; copied. */
    const char *content_type; /* Static; NULL without body. */
    struct wp_str body;       /* Copied. */
    enum wp_http_priority priority;
    int64_t timeout_ns; /* 0: the default. */
    /* Exactly once, never from within wp_http_send. May be NULL. */
    void (*done)(void *ctx, const struct wp_http_answer *answer);
    void *ctx;
};

/* An endless answer. */
struct wp_http_stream_config {
    const char *path; /* Copied. */
    /* Ends the stream when no byte came for so long. 0: never. */
    int64_t idle_timeout_ns;
    /* Bytes as they come, after a 200; any length. False ends the stream. */
    bool (*on_bytes)(void *ctx, struct wp_str bytes);
    /* Once, last: how it ended. WP_OK with code 200: the server closed it. With
     * another code: body has (the beginning of) its words. */
    void (*on_end)(void *ctx, const struct wp_http_answer *answer);
    void *ctx;
};
struct wp_http_stream; /* Opaque. */

/* NULL and err: no memory, or the TLS material cannot be read. */
struct wp_http *wp_http_create(const struct wp_http_config *config,
                               struct wp_err *err);
/* Ends every request and stream with CANCELLED, and what their callbacks send.
 * Not from within a callback. NULL is fine. */
void wp_http_destroy(struct wp_http *http);

/* Copies what it needs; the answer comes through done, also when the queue is
 * full. */
void wp_http_send(struct wp_http *http, const struct wp_http_request *request);

/* What may_send says has changed: soon it is asked again of each request under
 * way. Where it says no, what has not gone out yet is cut off, and the request
 * ends UNKNOWN_OUTCOME. */
void wp_http_ask_again(struct wp_http *http);

/* NULL when memory lacks: on_end will not be called. */
WP_MUST_CHECK struct wp_http_stream *
wp_http_stream_open(struct wp_http *http,
                    const struct wp_http_stream_config *config);
/* The server has begun to answer, with 200. */
bool wp_http_stream_answered(const struct wp_http_stream *stream);
/* Ends it without on_end. Not from within its own callbacks. */
void wp_http_stream_close(struct wp_http_stream *stream);

struct wp_http_stats {
    uint64_t sent[WP_HTTP_PRIORITIES];
    uint64_t refused[WP_HTTP_PRIORITIES]; /* The queue was full. */
    uint64_t throttled; /* Answers 429 and 503 with Retry-After. */
    uint64_t failed;    /* No answer. */
    uint64_t conflicts; /* Answers 409. */
    uint32_t inflight;
    uint64_t queued[WP_HTTP_PRIORITIES];
};
void wp_http_stats(const struct wp_http *http, struct wp_http_stats *out);

#endif
