#include "k8s/bind/bind_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/bufferevent.h>

#include "pool/base/address.h"
#include "pool/base/clock.h"
#include "proto/formats/sandbox_token.h"
#include "proto/parcel/request.h"

struct wp_bind_call {
    struct bufferevent *bev;
    struct event *timer;
    bool connected;
    char fingerprint[WP_BIND_FINGERPRINT_TEXT + 1];
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

/* True: the answer was there, and the call is gone. */
static bool
look(struct wp_bind_call *call, bool ended)
{
    struct evbuffer *in = bufferevent_get_input(call->bev);
    size_t len = evbuffer_get_length(in);
    struct wp_bind_answer answer;

    len = len < WP_BIND_ANSWER_MAX ? len : WP_BIND_ANSWER_MAX;
    if (!wp_bind_answer_read(
            (struct wp_str){
                len > 0 ? (const char *)evbuffer_pullup(in, (ev_ssize_t)len)
                        : "",
                len},
            ended, call->fingerprint, &answer)) {
        return false;
    }
    end(call, &answer);
    return true;
}

static void
on_read(struct bufferevent *bev, void *ctx)
{
    (void)bev;
    (void)look(ctx, false);
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
        (void)look(call, true);
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

static void
put_request(struct evbuffer *out, const struct wp_bind_request *request,
            const struct wp_address *address)
{
    char host[128];

    (void)evbuffer_add_printf(out,
                              "POST " WP_BIND_PATH " HTTP/1.1\r\n"
                              "Host: %s\r\n" WP_SANDBOX_TOKEN_FIELD
                              ": %s\r\n" WP_BIND_FIELD ": %s\r\n"
                              "Content-Type: application/octet-stream\r\n"
                              "Content-Length: %zu\r\n"
                              "Connection: close\r\n\r\n",
                              wp_address_format(address, host, sizeof host),
                              request->token, request->fingerprint,
                              evbuffer_get_length(request->parcel));
    (void)evbuffer_add_buffer(out, request->parcel);
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

struct wp_bind_call *
wp_bind_call_start(struct event_base *base,
                   const struct wp_bind_request *request)
{
    struct timeval within = wp_timeval(request->within_ns);
    struct wp_bind_call *call = calloc(1, sizeof *call);
    struct wp_address address;

    if (call == NULL || !read_address(request, &address)) {
        free(call);
        return NULL;
    }
    call->done = request->done;
    call->ctx = request->ctx;
    memcpy(call->fingerprint, request->fingerprint,
           sizeof call->fingerprint - 1);
    call->bev = bufferevent_socket_new(
        base, -1, BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
    call->timer = evtimer_new(base, on_timer, call);
    if (call->bev == NULL || call->timer == NULL ||
        evtimer_add(call->timer, &within) != 0) {
        wp_bind_call_cancel(call);
        return NULL;
    }
    bufferevent_setcb(call->bev, on_read, NULL, on_event, call);
    bufferevent_setwatermark(call->bev, EV_READ, 0, WP_BIND_ANSWER_MAX);
    put_request(bufferevent_get_output(call->bev), request, &address);
    if (bufferevent_socket_connect(call->bev, (struct sockaddr *)&address.sa,
                                   (int)address.len) != 0 ||
        bufferevent_enable(call->bev, EV_READ | EV_WRITE) != 0) {
        wp_bind_call_cancel(call);
        return NULL;
    }
    return call;
}
