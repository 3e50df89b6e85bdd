#include "k8s/bind/bind_call.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/bufferevent.h>

#include "pool/base/address.h"
#include "pool/base/clock.h"
#include "proto/formats/sandbox_token.h"
#include "proto/checkout/trees_body.h"
#include "proto/parcel/request.h"

enum {
    PIECE_BYTES = 64 << 10,
    UNPACK_BYTES_PER_MS = 16 << 10,
    AHEAD_BYTES = 256 << 10, /* Of trees, before the kernel takes them. */
};

struct wp_bind_call {
    struct bufferevent *bev;
    struct event *timer;
    struct timeval within;
    struct wp_trees_body trees; /* What is not sent of them. */
    struct evbuffer *parcel;    /* Until they are; NULL: it is on its way. */
    bool connected;
    char fingerprint[WP_BIND_FINGERPRINT_TEXT + 1];
    struct wp_bind_brought brought;
    void (*done)(void *ctx, const struct wp_bind_answer *answer);
    void *ctx;
};

void
wp_bind_call_cancel(struct wp_bind_call *call)
{
    if (call != NULL) {
        if (call->bev != NULL) {
            bufferevent_free(call->bev);
        }
        if (call->timer != NULL) {
            event_free(call->timer);
        }
        if (call->parcel != NULL) {
            evbuffer_free(call->parcel);
        }
        free(call);
    }
}

static void
end(struct wp_bind_call *call, const struct wp_bind_answer *answer)
{
    void (*done)(void *, const struct wp_bind_answer *) = call->done;
    void *ctx = call->ctx;

    wp_bind_call_cancel(call);
    done(ctx, answer);
}

/* Once the answer is there the call is gone. */
static void
look(struct wp_bind_call *call, bool ended)
{
    struct evbuffer *in = bufferevent_get_input(call->bev);
    size_t len = evbuffer_get_length(in);
    struct wp_bind_answer answer;

    len = len < WP_BIND_ANSWER_MAX ? len : WP_BIND_ANSWER_MAX;
    if (wp_bind_answer_read(
            (struct wp_str){
                len > 0 ? (const char *)evbuffer_pullup(in, (ev_ssize_t)len)
                        : "",
                len},
            ended, &call->brought, &answer)) {
        end(call, &answer);
    }
}

static void
on_read(struct bufferevent *bev, void *ctx)
{
    (void)bev;
    look(ctx, false);
}

static void
on_event(struct bufferevent *bev, short what, void *ctx)
{
    struct wp_bind_call *call = ctx;
    struct wp_bind_answer answer;

    (void)bev;
    if ((what & BEV_EVENT_CONNECTED) != 0) {
        call->connected = true;
    } else if (!call->connected) {
        wp_bind_answer_set(&answer, WP_UNAVAILABLE, false,
                           WP_STR("the sandbox's server cannot be reached"));
        end(call, &answer);
    } else {
        look(call, true);
    }
}

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_bind_answer answer;

    (void)fd;
    (void)what;
    wp_bind_answer_set(&answer, WP_DEADLINE_EXCEEDED, false,
                       WP_STR("the sandbox did not answer in time"));
    end(ctx, &answer);
}

/* Some more of the trees, then the parcel. -1 with errno: a tree cannot be
 * read. */
static int
put_more(struct wp_bind_call *call)
{
    struct evbuffer *out = bufferevent_get_output(call->bev);
    uint8_t piece[PIECE_BYTES];

    while (call->parcel != NULL && evbuffer_get_length(out) < AHEAD_BYTES) {
        ssize_t n = wp_trees_body_read(&call->trees, piece, sizeof piece);

        if (n < 0 || evbuffer_add(out, piece, (size_t)n) != 0) {
            return -1;
        }
        if (n == 0) {
            (void)evbuffer_add_buffer(out, call->parcel);
            evbuffer_free(call->parcel);
            call->parcel = NULL;
        }
    }
    return 0;
}

/* What was put is on its way. */
static void
on_written(struct bufferevent *bev, void *ctx)
{
    struct wp_bind_call *call = ctx;
    struct wp_bind_answer answer;

    (void)bev;
    (void)evtimer_add(call->timer, &call->within);
    if (put_more(call) != 0) {
        wp_bind_answer_set(&answer, WP_UNAVAILABLE, false,
                           WP_STR("what was fetched cannot be read"));
        end(call, &answer);
    }
}

static void
put_head(struct evbuffer *out, const struct wp_bind_request *request,
         const struct wp_address *address)
{
    char host[128];

    (void)evbuffer_add_printf(
        out,
        "POST %s HTTP/1.1\r\n"
        "Host: %s\r\n" WP_SANDBOX_TOKEN_FIELD ": %s\r\n",
        request->fingerprint != NULL ? WP_BIND_PATH : WP_IDENTITY_PATH,
        wp_address_format(address, host, sizeof host), request->token);
    if (request->identity != NULL) {
        (void)evbuffer_add_printf(out, WP_IDENTITY_FIELD ": %s\r\n",
                                  request->identity);
    }
}

static bool
put_request(struct wp_bind_call *call, const struct wp_bind_request *request,
            const struct wp_address *address)
{
    struct evbuffer *out = bufferevent_get_output(call->bev);
    uint64_t trees =
        request->trees != NULL ? wp_trees_body_size(request->trees) : 0;

    put_head(out, request, address);
    if (request->fingerprint == NULL) {
        (void)evbuffer_add_printf(out, "Content-Length: 0\r\n"
                                       "Connection: close\r\n\r\n");
        return true;
    }
    (void)evbuffer_add_printf(
        out,
        WP_BIND_FIELD
        ": %s\r\n"
        "Content-Type: application/octet-stream\r\n" WP_BIND_TREES_FIELD
        ": %" PRIu64 "\r\n"
        "Content-Length: %" PRIu64 "\r\n"
        "Connection: close\r\n\r\n",
        request->fingerprint, trees,
        trees + evbuffer_get_length(request->parcel));
    if (request->trees == NULL) {
        (void)evbuffer_add_buffer(out, request->parcel);
        return true;
    }
    call->trees.trees = request->trees;
    call->parcel = evbuffer_new();
    return call->parcel != NULL &&
           evbuffer_add_buffer(call->parcel, request->parcel) == 0 &&
           put_more(call) == 0;
}

static bool
read_address(const struct wp_bind_request *request, struct wp_address *out)
{
    bool v6 = strchr(request->ip, ':') != NULL;
    char text[128];
    int n = snprintf(text, sizeof text, "%s%s%s:%u", v6 ? "[" : "", request->ip,
                     v6 ? "]" : "", (unsigned)request->port);

    return n > 0 && n < (int)sizeof text &&
           wp_address_parse(wp_str_from(text), out, NULL) == WP_OK;
}

/* What putting the trees in their place may take besides. */
static int64_t
unpack_ns(const struct wp_bind_request *request)
{
    return request->trees == NULL
               ? 0
               : (int64_t)(wp_trees_body_size(request->trees) /
                           UNPACK_BYTES_PER_MS) *
                     WP_NS_PER_MS;
}

struct wp_bind_call *
wp_bind_call_start(struct event_base *base,
                   const struct wp_bind_request *request)
{
    struct wp_bind_call *call = calloc(1, sizeof *call);
    struct wp_address address;

    if (call == NULL || !read_address(request, &address)) {
        free(call);
        return NULL;
    }
    call->done = request->done;
    call->ctx = request->ctx;
    call->within = wp_timeval(request->within_ns + unpack_ns(request));
    if (request->fingerprint != NULL) {
        memcpy(call->fingerprint, request->fingerprint,
               sizeof call->fingerprint - 1);
        call->brought.fingerprint = call->fingerprint;
    }
    call->brought.identity = request->identity != NULL;
    call->bev = bufferevent_socket_new(
        base, -1, BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
    call->timer = evtimer_new(base, on_timer, call);
    if (call->bev == NULL || call->timer == NULL ||
        evtimer_add(call->timer, &call->within) != 0) {
        wp_bind_call_cancel(call);
        return NULL;
    }
    bufferevent_setcb(call->bev, on_read, on_written, on_event, call);
    bufferevent_setwatermark(call->bev, EV_READ, 0, WP_BIND_ANSWER_MAX);
    bufferevent_setwatermark(call->bev, EV_WRITE, AHEAD_BYTES / 2, 0);
    if (!put_request(call, request, &address) ||
        bufferevent_socket_connect(call->bev, (struct sockaddr *)&address.sa,
                                   (int)address.len) != 0 ||
        bufferevent_enable(call->bev, EV_READ | EV_WRITE) != 0) {
        wp_bind_call_cancel(call);
        return NULL;
    }
    return call;
}
