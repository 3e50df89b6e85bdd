#include "k8s/api/http.h"

#include <curl/curl.h>
#include <event2/event.h>
#include <stdlib.h>

#include "k8s/api/http_parts.h"
#include "pool/base/assert.h"

/* For so long after a claim's request others still make way: its next one
 * follows at once, or another claim comes. */
#define YIELD_NS (20 * WP_NS_PER_MS)
/* A Retry-After longer than this is obeyed no longer than this. */
#define HOLD_MAX_NS (60 * WP_NS_PER_S)
#define CLOSING "the client is being closed"

struct call {
    struct wp_http_transfer transfer;
    struct wp_list node; /* In a queue, among the refused, or running. */
    enum wp_http_priority priority;
    enum wp_status refusal; /* WP_OK: it was queued. */
    int64_t queued_ns;
    void (*done)(void *ctx, const struct wp_http_answer *answer);
    void *ctx;
    char bytes[]; /* Path and body. */
};

/* eighths: which part of the bounds on requests under way and on the bucket a
 * priority may use up; what it may not stays for those above it. wait_ns: how
 * long a request may stay in the queue. */
static const struct {
    uint32_t eighths;
    bool held;   /* Retry-After holds the queue. */
    bool yields; /* One at a time while claims are served. */
    int64_t wait_ns;
} rules[WP_HTTP_PRIORITIES] = {
    [WP_HTTP_CLAIM] = {8, false, false, 10 * WP_NS_PER_S},
    [WP_HTTP_NORMAL] = {6, true, false, 60 * WP_NS_PER_S},
    [WP_HTTP_REFILL] = {4, true, false, 60 * WP_NS_PER_S},
    [WP_HTTP_SPARE] = {2, true, true, 60 * WP_NS_PER_S},
    [WP_HTTP_EVENT] = {1, true, true, 60 * WP_NS_PER_S},
};

static int64_t
now_of(const struct wp_http *http)
{
    return wp_clock_mono_ns(http->config.clock);
}

static struct call *
call_of(struct wp_list *node)
{
    return WP_CONTAINER_OF(node, struct call, node);
}

/* --- Buffers. */

bool
wp_http_buffer_add(struct wp_http_buffer *buffer, struct wp_str bytes,
                   size_t max)
{
    size_t cap = buffer->cap > 0 ? buffer->cap : 4096;
    char *ptr;

    if (bytes.len > max - buffer->len) {
        return false;
    }
    while (cap < buffer->len + bytes.len) {
        cap *= 2;
    }
    if (cap != buffer->cap) {
        ptr = realloc(buffer->ptr, cap);
        if (ptr == NULL) {
            buffer->lacks = true;
            return false;
        }
        buffer->ptr = ptr;
        buffer->cap = cap;
    }
    if (bytes.len > 0) {
        memcpy(buffer->ptr + buffer->len, bytes.ptr, bytes.len);
    }
    buffer->len += bytes.len;
    return true;
}

void
wp_http_buffer_fini(struct wp_http_buffer *buffer)
{
    free(buffer->ptr);
    *buffer = (struct wp_http_buffer){.ptr = NULL};
}

/* --- The end of a request. */

static void
call_finish(struct call *call, const struct wp_http_answer *answer)
{
    wp_list_remove(&call->node);
    if (call->done != NULL) {
        call->done(call->ctx, answer);
    }
    wp_http_buffer_fini(&call->transfer.in);
    free(call);
}

static void
call_fail(struct call *call, enum wp_status status, const char *error)
{
    struct wp_http_answer answer = {
        .status = status, .retry_after_ns = -1, .error = error};

    call_finish(call, &answer);
}

/* As it could not even be queued. */
static void
call_refuse(struct call *call)
{
    static const char *const texts[WP_STATUS_COUNT] = {
        [WP_CANCELLED] = CLOSING,
        [WP_INVALID_ARGUMENT] = "a path is too long, or has an empty part",
        [WP_RESOURCE_EXHAUSTED] = "too many requests wait to be sent",
    };

    call_fail(call, call->refusal, texts[call->refusal]);
}

static bool
on_bytes(struct wp_http_transfer *transfer, int code, struct wp_str bytes)
{
    (void)code;
    return wp_http_buffer_add(&transfer->in, bytes, WP_HTTP_BODY_MAX);
}

static void
note_answer(struct wp_http *http, enum wp_http_priority priority,
            const struct wp_http_answer *answer)
{
    if (answer->status != WP_OK) {
        http->stats.failed++;
        return;
    }
    if (answer->code == 409) {
        http->stats.conflicts++;
    }
    if ((answer->code == 429 || answer->code == 503) &&
        answer->retry_after_ns >= 0) {
        int64_t hold_ns = answer->retry_after_ns < HOLD_MAX_NS
                              ? answer->retry_after_ns
                              : HOLD_MAX_NS;
        int64_t until_ns = now_of(http) + hold_ns;

        http->stats.throttled++;
        if (rules[priority].held && until_ns > http->hold_until_ns[priority]) {
            http->hold_until_ns[priority] = until_ns;
        }
    }
}

static bool
may_send(struct wp_http_transfer *transfer)
{
    const struct wp_http_config *config = &transfer->http->config;
    const struct call *call = WP_CONTAINER_OF(transfer, struct call, transfer);

    return config->may_send == NULL ||
           config->may_send(config->ctx, transfer->method, transfer->path,
                            call->priority);
}

/* It is under way no more. */
static void
note_end(struct wp_http *http, const struct call *call)
{
    http->stats.inflight--;
    http->of_priority[call->priority]--;
    if (call->priority == WP_HTTP_CLAIM) {
        http->claim_ended_ns = now_of(http);
    }
}

static void
on_end(struct wp_http_transfer *transfer, struct wp_http_answer *answer)
{
    struct call *call = WP_CONTAINER_OF(transfer, struct call, transfer);
    struct wp_http *http = transfer->http;

    note_end(http, call);
    note_answer(http, call->priority, answer);
    call_finish(call, answer);
}

/* --- Which one goes next. */

uint32_t
wp_http_parallel(const struct wp_http *http, bool http2)
{
    uint32_t most =
        http->config.connections_max *
        (http2 ? WP_HTTP_STREAMS_PER_CONNECTION : WP_HTTP_FACTOR_HTTP1);

    return most < http->config.inflight_max ? most : http->config.inflight_max;
}

/* When the claims that are served now, or were just now, will have been. */
static int64_t
yields_until_ns(const struct wp_http *http)
{
    return http->of_priority[WP_HTTP_CLAIM] > 0 ||
                   http->stats.queued[WP_HTTP_CLAIM] > 0
               ? WP_TIME_NEVER
               : http->claim_ended_ns + YIELD_NS;
}

/* May one more of this priority be under way? */
static bool
has_room(const struct wp_http *http, enum wp_http_priority priority,
         int64_t now_ns)
{
    uint32_t bound = http->parallel * rules[priority].eighths / 8;

    if (rules[priority].yields && http->of_priority[priority] > 0 &&
        yields_until_ns(http) > now_ns) {
        return false;
    }
    return http->stats.inflight < (bound > 0 ? bound : 1);
}

static double
bucket_reserve(const struct wp_http *http, enum wp_http_priority priority)
{
    return (double)http->config.burst * (8 - rules[priority].eighths) / 8;
}

static bool
start(struct wp_http *http, struct call *call)
{
    wp_list_remove(&call->node);
    if (!may_send(&call->transfer)) {
        call_fail(call, WP_UNAVAILABLE, WP_HTTP_FORBIDDEN);
        return true;
    }
    if (!wp_http_transfer_start(&call->transfer, http->requests_link)) {
        call_fail(call, WP_UNAVAILABLE, "it could not be begun");
        return false;
    }
    wp_list_push_back(&http->running, &call->node);
    http->stats.inflight++;
    http->of_priority[call->priority]++;
    http->stats.sent[call->priority]++;
    return true;
}

/* Sends what may go now. */
static void
dispatch_one(struct wp_http *http, enum wp_http_priority priority)
{
    struct wp_list *queue = &http->queues[priority];
    int64_t now = now_of(http);
    bool going = true;

    while (going && !wp_list_empty(queue) && has_room(http, priority, now) &&
           http->hold_until_ns[priority] <= now &&
           wp_rate_take(&http->rate, bucket_reserve(http, priority), now)) {
        http->stats.queued[priority]--;
        going = start(http, call_of(queue->next));
    }
}

/* Queues are in the order of time, so only their heads can be too old. NULL:
 * none is. */
static struct call *
take_expired(struct wp_http *http, enum wp_http_priority priority)
{
    struct wp_list *queue = &http->queues[priority];
    int64_t before_ns = now_of(http) - rules[priority].wait_ns;

    /* The analyzer does not see that a call which was freed is off the queue.
     * NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    if (wp_list_empty(queue) || call_of(queue->next)->queued_ns > before_ns) {
        return NULL;
    }
    http->stats.queued[priority]--;
    return call_of(wp_list_pop_front(queue));
}

static void
expire_one(struct wp_http *http, enum wp_http_priority priority)
{
    struct call *call;

    while ((call = take_expired(http, priority)) != NULL) {
        call_fail(call, WP_UNAVAILABLE, "waited too long to be sent");
    }
}

/* When something changes for a queue by time alone. What waits for the bound on
 * requests under way is woken by their ends. */
static int64_t
next_change_ns(const struct wp_http *http, enum wp_http_priority priority)
{
    const struct wp_list *queue = &http->queues[priority];
    int64_t now = now_of(http);
    int64_t expires_ns;
    int64_t goes_ns = WP_TIME_NEVER;

    if (wp_list_empty(queue)) {
        return WP_TIME_NEVER;
    }
    expires_ns = call_of(queue->next)->queued_ns + rules[priority].wait_ns;
    if (has_room(http, priority, now)) {
        goes_ns = now + wp_rate_wait_ns(&http->rate,
                                        bucket_reserve(http, priority), now);
        if (goes_ns < http->hold_until_ns[priority]) {
            goes_ns = http->hold_until_ns[priority];
        }
    } else if (rules[priority].yields && yields_until_ns(http) > now) {
        goes_ns = yields_until_ns(http);
    }
    return goes_ns < expires_ns ? goes_ns : expires_ns;
}

static void
set_timer(struct wp_http *http)
{
    int64_t next_ns = WP_TIME_NEVER;
    struct timeval wait;

    for (int i = 0; i < WP_HTTP_PRIORITIES; i++) {
        int64_t at_ns = next_change_ns(http, (enum wp_http_priority)i);

        next_ns = at_ns < next_ns ? at_ns : next_ns;
    }
    if (next_ns == WP_TIME_NEVER) {
        (void)evtimer_del(http->timer);
        return;
    }
    wait = wp_timeval(next_ns - now_of(http));
    (void)evtimer_add(http->timer, &wait);
}

static void
tell_refused(struct wp_http *http)
{
    struct wp_list now;
    struct wp_list *node;

    /* Those that a callback adds have their turn the next time. */
    wp_list_init(&now);
    while ((node = wp_list_pop_front(&http->refused)) != NULL) {
        wp_list_push_back(&now, node);
    }
    while ((node = wp_list_pop_front(&now)) != NULL) {
        call_refuse(call_of(node));
    }
}

/* NULL: all that is under way may go on. */
static struct call *
find_forbidden(struct wp_http *http)
{
    WP_LIST_FOREACH (node, &http->running) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it leaves the list. */
        if (!may_send(&call_of(node)->transfer)) {
            return call_of(node);
        }
    }
    return NULL;
}

static void
cut_forbidden(struct wp_http *http)
{
    struct call *call;

    /* From the beginning each time: callbacks may change the list. */
    while ((call = find_forbidden(http)) != NULL) {
        wp_http_transfer_cancel(&call->transfer);
        note_end(http, call);
        http->stats.failed++;
        call_fail(call, WP_UNKNOWN_OUTCOME, "cut off: " WP_HTTP_FORBIDDEN);
    }
}

static void
work(struct wp_http *http)
{
    if (http->asks_again) {
        http->asks_again = false;
        cut_forbidden(http);
    }
    tell_refused(http);
    wp_http_streams_work(http);
    for (int i = 0; i < WP_HTTP_PRIORITIES; i++) {
        expire_one(http, (enum wp_http_priority)i);
        dispatch_one(http, (enum wp_http_priority)i);
    }
    wp_http_links_sweep(http);
    set_timer(http);
    if (!wp_list_empty(&http->refused)) {
        wp_http_kick(http);
    }
}

void
wp_http_enter(struct wp_http *http)
{
    http->depth++;
}

void
wp_http_leave(struct wp_http *http)
{
    WP_ASSERT(http->depth > 0);
    if (http->depth == 1 && !http->closing) {
        work(http);
    }
    http->depth--;
}

void
wp_http_kick(struct wp_http *http)
{
    event_active(http->kick, EV_TIMEOUT, 0);
}

static void
on_event(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    wp_http_enter(ctx);
    wp_http_leave(ctx);
}

/* --- What others call. */

void
wp_http_config_init(struct wp_http_config *config)
{
    *config = (struct wp_http_config){
        .clock = wp_clock_system(),
        .user_agent = "warmpool/" WP_VERSION,
        .queue_max = 8192,
        .inflight_max = 64,
        .connections_max = 4,
        .burst = 1,
        .timeout_ns = 10 * WP_NS_PER_S,
    };
}

static enum wp_status
fill(struct wp_http *http, struct wp_err *err)
{
    const struct wp_api_config *server = http->config.server;
    enum wp_status status;

    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        return wp_err_set(err, WP_INTERNAL, "libcurl cannot be used");
    }
    status = wp_http_server_init(http, err);
    if (status != WP_OK) {
        return status;
    }
    http->token = wp_token_create(server->token_file, server->token,
                                  http->config.clock, err);
    if (http->token == NULL) {
        return WP_FAILED_PRECONDITION;
    }
    http->kick = event_new(http->config.base, -1, 0, on_event, http);
    http->timer = evtimer_new(http->config.base, on_event, http);
    if (http->kick != NULL && http->timer != NULL) {
        http->requests_link = wp_http_link_create(http, true);
        http->streams_link = wp_http_link_create(http, false);
    }
    if (http->requests_link == NULL || http->streams_link == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "out of memory");
    }
    return WP_OK;
}

struct wp_http *
wp_http_create(const struct wp_http_config *config, struct wp_err *err)
{
    struct wp_http *http = calloc(1, sizeof *http);

    WP_ASSERT(config->base != NULL && config->server != NULL);
    WP_ASSERT(config->inflight_max > 0 && config->connections_max > 0);
    if (http == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "out of memory");
        return NULL;
    }
    http->config = *config;
    for (int i = 0; i < WP_HTTP_PRIORITIES; i++) {
        wp_list_init(&http->queues[i]);
    }
    wp_list_init(&http->refused);
    wp_list_init(&http->running);
    wp_list_init(&http->streams);
    wp_list_init(&http->streams_waiting);
    wp_list_init(&http->streams_closing);
    wp_list_init(&http->links);
    wp_list_init(&http->idle_easies);
    http->parallel = wp_http_parallel(http, false);
    wp_rate_init(&http->rate, config->qps, config->burst, now_of(http));
    if (fill(http, err) != WP_OK) {
        wp_http_destroy(http);
        return NULL;
    }
    return http;
}

/* Everything in the list, and what the callbacks add to it. */
static void
cancel_all(struct wp_list *list)
{
    struct wp_list *node;

    while ((node = wp_list_pop_front(list)) != NULL) {
        struct call *call = call_of(node);

        wp_http_transfer_cancel(&call->transfer);
        call_fail(call, WP_CANCELLED, CLOSING);
    }
}

void
wp_http_destroy(struct wp_http *http)
{
    if (http == NULL) {
        return;
    }
    WP_ASSERT(http->depth == 0);
    http->closing = true;
    wp_http_streams_end(http);
    cancel_all(&http->running);
    /* From here on there is one queue for all that is sent by callbacks. */
    for (int i = 0; i < WP_HTTP_PRIORITIES; i++) {
        cancel_all(&http->queues[i]);
    }
    cancel_all(&http->refused);
    wp_http_link_destroy(http->requests_link);
    wp_http_link_destroy(http->streams_link);
    wp_http_links_sweep(http);
    wp_http_easies_free(http);
    wp_token_destroy(http->token);
    wp_http_server_fini(http);
    if (http->kick != NULL) {
        event_free(http->kick);
    }
    if (http->timer != NULL) {
        event_free(http->timer);
    }
    free(http);
}

static enum wp_status
check(const struct wp_http *http, const struct wp_http_request *request)
{
    if (http->closing) {
        return WP_CANCELLED;
    }
    if (request->path[0] != '/' || strlen(request->path) >= WP_HTTP_PATH_MAX) {
        return WP_INVALID_ARGUMENT;
    }
    return http->stats.queued[request->priority] < http->config.queue_max
               ? WP_OK
               : WP_RESOURCE_EXHAUSTED;
}

/* A request that is refused needs neither path nor body. */
static struct call *
call_create(struct wp_http *http, const struct wp_http_request *request,
            enum wp_status refusal)
{
    size_t path_len = refusal == WP_OK ? strlen(request->path) : 0;
    size_t body_len = refusal == WP_OK ? request->body.len : 0;
    struct call *call = calloc(1, sizeof *call + path_len + 1 + body_len);

    /* Without memory for a request there is no way on. */
    WP_ASSERT(call != NULL);
    memcpy(call->bytes, request->path, path_len);
    if (body_len > 0) {
        memcpy(call->bytes + path_len + 1, request->body.ptr, body_len);
    }
    call->transfer = (struct wp_http_transfer){
        .http = http,
        .method = request->method,
        .path = call->bytes,
        .content_type = request->content_type,
        .body = {call->bytes + path_len + 1, body_len},
        .timeout_ns = request->timeout_ns > 0 ? request->timeout_ns
                                              : http->config.timeout_ns,
        .may_send = may_send,
        .on_bytes = on_bytes,
        .on_end = on_end,
    };
    wp_list_init(&call->node);
    call->priority = request->priority;
    call->refusal = refusal;
    call->done = request->done;
    call->ctx = request->ctx;
    call->queued_ns = now_of(http);
    return call;
}

void
wp_http_send(struct wp_http *http, const struct wp_http_request *request)
{
    enum wp_http_priority priority = request->priority;
    enum wp_status refusal;
    struct call *call;

    WP_ASSERT(priority < WP_HTTP_PRIORITIES);
    refusal = check(http, request);
    call = call_create(http, request, refusal);
    if (refusal == WP_OK) {
        http->stats.queued[priority]++;
        wp_list_push_back(&http->queues[priority], &call->node);
    } else {
        http->stats.refused[priority] += refusal == WP_RESOURCE_EXHAUSTED;
        wp_list_push_back(&http->refused, &call->node);
    }
    if (http->depth == 0 && !http->closing) {
        wp_http_kick(http);
    }
}

void
wp_http_ask_again(struct wp_http *http)
{
    http->asks_again = true;
    if (http->depth == 0 && !http->closing) {
        wp_http_kick(http);
    }
}

void
wp_http_stats(const struct wp_http *http, struct wp_http_stats *out)
{
    *out = http->stats;
}
