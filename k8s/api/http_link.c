#include <curl/curl.h>
#include <event2/event.h>
#include <stdlib.h>

#include "k8s/api/http_parts.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"

struct wp_http_link {
    struct wp_list node;
    struct wp_http *http;
    CURLM *multi;
    struct event *timer;
    uint32_t running;
    int64_t heard_ns; /* The last answer. */
    bool shared;
    bool http2; /* By the last answer. */
};

/* --- Sockets and time, as curl asks for them. */

static void drain(struct wp_http_link *link);

static void
act(struct wp_http_link *link, curl_socket_t fd, int what)
{
    struct wp_http *http = link->http;
    int running;

    wp_http_enter(http);
    (void)curl_multi_socket_action(link->multi, fd, what, &running);
    drain(link);
    wp_http_leave(http);
}

static void
on_socket(evutil_socket_t fd, short what, void *ctx)
{
    act(ctx, fd,
        ((what & EV_READ) != 0 ? CURL_CSELECT_IN : 0) |
            ((what & EV_WRITE) != 0 ? CURL_CSELECT_OUT : 0));
}

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    act(ctx, CURL_SOCKET_TIMEOUT, 0);
}

/* curl keeps our event of a socket for us, as known. */
static int
watch_socket(CURL *curl, curl_socket_t fd, int what, void *ctx, void *known)
{
    struct wp_http_link *link = ctx;
    struct event *event = known;
    short wanted = EV_PERSIST;

    (void)curl;
    if (event != NULL) {
        event_free(event);
        (void)curl_multi_assign(link->multi, fd, NULL);
    }
    if (what == CURL_POLL_REMOVE) {
        return 0;
    }
    wanted = (short)(wanted | ((what & CURL_POLL_IN) != 0 ? EV_READ : 0) |
                     ((what & CURL_POLL_OUT) != 0 ? EV_WRITE : 0));
    event = event_new(link->http->config.base, fd, wanted, on_socket, link);
    if (event == NULL || event_add(event, NULL) != 0) {
        if (event != NULL) {
            event_free(event);
        }
        return -1;
    }
    (void)curl_multi_assign(link->multi, fd, event);
    return 0;
}

static int
set_timer(CURLM *multi, long timeout_ms, void *ctx)
{
    struct wp_http_link *link = ctx;
    struct timeval wait = wp_timeval(timeout_ms * WP_NS_PER_MS);

    (void)multi;
    if (timeout_ms < 0) {
        (void)evtimer_del(link->timer);
        return 0;
    }
    return evtimer_add(link->timer, &wait);
}

/* --- A link's life. */

static bool
set_bounds(struct wp_http_link *link, uint32_t connections)
{
    CURLM *multi = link->multi;
    long host_max = link->shared ? (long)connections : 0;

    return curl_multi_setopt(multi, CURLMOPT_MAX_HOST_CONNECTIONS, host_max) ==
               CURLM_OK &&
           curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS,
                             link->shared ? (long)connections : 1L) == CURLM_OK;
}

struct wp_http_link *
wp_http_link_create(struct wp_http *http, bool shared)
{
    struct wp_http_link *link = calloc(1, sizeof *link);
    long pipelining = shared ? CURLPIPE_MULTIPLEX : CURLPIPE_NOTHING;
    CURLM *multi;

    if (link == NULL) {
        return NULL;
    }
    wp_list_init(&link->node);
    link->http = http;
    link->shared = shared;
    link->timer = evtimer_new(http->config.base, on_timer, link);
    multi = link->multi = curl_multi_init();
    if (link->timer == NULL || multi == NULL ||
        curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, watch_socket) != 0 ||
        curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, link) != 0 ||
        curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, set_timer) != 0 ||
        curl_multi_setopt(multi, CURLMOPT_TIMERDATA, link) != 0 ||
        curl_multi_setopt(multi, CURLMOPT_PIPELINING, pipelining) != 0 ||
        curl_multi_setopt(multi, CURLMOPT_MAX_CONCURRENT_STREAMS,
                          (long)WP_HTTP_STREAMS_PER_CONNECTION) != 0 ||
        !set_bounds(link,
                    http->config.connections_max * WP_HTTP_FACTOR_HTTP1)) {
        wp_http_link_destroy(link);
        return NULL;
    }
    return link;
}

void
wp_http_link_destroy(struct wp_http_link *link)
{
    if (link == NULL) {
        return;
    }
    WP_ASSERT(link->running == 0);
    wp_list_remove(&link->node);
    if (link->multi != NULL) {
        /* Sockets are given back through watch_socket. */
        (void)curl_multi_cleanup(link->multi);
    }
    if (link->timer != NULL) {
        event_free(link->timer);
    }
    free(link);
}

void
wp_http_links_sweep(struct wp_http *http)
{
    struct wp_list *next;

    for (struct wp_list *node = http->links.next; node != &http->links;
         node = next) {
        struct wp_http_link *link =
            WP_CONTAINER_OF(node, struct wp_http_link, node);

        next = node->next;
        if (link->running == 0) {
            wp_http_link_destroy(link);
        }
    }
}

/* Nothing at all was heard since the request began, so its connection may lead
 * nowhere any more, and curl would put the next request on it, too. New
 * requests get new connections; what is under way may still be answered. */
static void
retire(struct wp_http_link *link)
{
    struct wp_http *http = link->http;
    struct wp_http_link *fresh = wp_http_link_create(http, true);

    if (fresh != NULL) {
        wp_log_warn("api server is silent, connecting anew",
                    wp_kv_int("waiting", (int64_t)link->running));
        http->requests_link = fresh;
        wp_list_push_back(&http->links, &link->node);
    }
}

/* What the server speaks is known by its answers, and may change. */
static void
learn(struct wp_http_link *link, bool http2)
{
    struct wp_http *http = link->http;
    uint32_t connections = http->config.connections_max;

    if (link->shared && link->http2 != http2) {
        link->http2 = http2;
        http->parallel = wp_http_parallel(http, http2);
        (void)set_bounds(link, http2 ? connections
                                     : connections * WP_HTTP_FACTOR_HTTP1);
    }
}

/* --- Transfers. */

bool
wp_http_transfer_start(struct wp_http_transfer *transfer,
                       struct wp_http_link *link)
{
    struct wp_http *http = transfer->http;
    struct wp_http_easy *easy = wp_http_easy_get(http);

    WP_ASSERT(transfer->link == NULL);
    if (easy == NULL) {
        return false;
    }
    if (!transfer->reauthorized) {
        transfer->started_ns = wp_clock_mono_ns(http->config.clock);
    }
    transfer->easy = easy;
    transfer->attempts = 0;
    transfer->stopped = false;
    transfer->forbidden = false;
    transfer->in.len = 0;
    transfer->token = wp_token_take(http->token);
    if (!wp_http_easy_prepare(easy, transfer) ||
        curl_multi_add_handle(link->multi, wp_http_easy_curl(easy)) !=
            CURLM_OK) {
        wp_token_value_release(transfer->token);
        transfer->token = NULL;
        transfer->easy = NULL;
        wp_http_easy_put(http, easy);
        return false;
    }
    transfer->link = link;
    link->running++;
    return true;
}

/* Takes the handle out of curl; the caller puts it back. */
static struct wp_http_easy *
detach(struct wp_http_transfer *transfer)
{
    struct wp_http_easy *easy = transfer->easy;
    struct wp_http_link *link = transfer->link;

    (void)curl_multi_remove_handle(link->multi, wp_http_easy_curl(easy));
    link->running--;
    transfer->link = NULL;
    transfer->easy = NULL;
    return easy;
}

void
wp_http_transfer_cancel(struct wp_http_transfer *transfer)
{
    struct wp_http *http = transfer->http;

    if (transfer->link != NULL) {
        struct wp_http_easy *easy = detach(transfer);

        wp_token_value_release(transfer->token);
        transfer->token = NULL;
        wp_http_easy_put(http, easy);
    }
}

/* True: it was begun once more, with a newer token. */
static bool
reauthorize(struct wp_http_transfer *transfer, struct wp_http_link *link,
            struct wp_token_value *used)
{
    if (transfer->reauthorized ||
        !wp_token_refused(transfer->http->token, used)) {
        return false;
    }
    transfer->reauthorized = true;
    return wp_http_transfer_start(transfer, link);
}

static void
end(struct wp_http_transfer *transfer, CURLcode result)
{
    struct wp_http *http = transfer->http;
    struct wp_http_link *link = transfer->link;
    struct wp_http_easy *easy = detach(transfer);
    struct wp_token_value *used = transfer->token;
    struct wp_http_answer answer;

    transfer->token = NULL;
    wp_http_easy_answer(easy, transfer, (int)result, &answer);
    if (answer.code > 0) {
        link->heard_ns = wp_clock_mono_ns(http->config.clock);
        learn(link, wp_http_easy_is_http2(easy));
    } else if (result == CURLE_OPERATION_TIMEDOUT && transfer->attempts > 0 &&
               link == http->requests_link &&
               link->heard_ns < transfer->started_ns) {
        retire(link);
    }
    if (answer.status != WP_OK || answer.code != 401 ||
        !reauthorize(transfer, link, used)) {
        transfer->on_end(transfer, &answer);
    }
    wp_token_value_release(used);
    wp_http_easy_put(http, easy);
}

static void
drain(struct wp_http_link *link)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(link->multi, &left)) != NULL) {
        struct wp_http_transfer *transfer = NULL;
        CURLcode result = message->data.result;

        if (message->msg == CURLMSG_DONE) {
            (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE,
                                    &transfer);
            end(transfer, result);
        }
    }
}
