#include "tests/support/http/http_rig.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <event2/event.h>

#include "pool/base/assert.h"

struct asked {
    struct rig *rig;
    int tag;
};

static void
on_request(void *ctx, const struct peer_request *request)
{
    struct rig *rig = ctx;

    if (rig->request_count < RIG_REQUESTS) {
        rig->requests[rig->request_count] = *request;
    }
    rig->request_count++;
    if (rig->on_request != NULL) {
        rig->on_request(rig, request);
    } else {
        peer_reply(request, 200, NULL, request->path);
    }
}

void
rig_init(struct rig *rig, const struct peer_config *peer)
{
    struct peer_config config = {0};

    (void)signal(SIGPIPE, SIG_IGN); /* As the daemon does. */
    memset(rig, 0, sizeof *rig);
    if (peer != NULL) {
        config = *peer;
    }
    rig->base = event_base_new();
    WP_ASSERT(rig->base != NULL);
    config.base = rig->base;
    config.on_request = on_request;
    config.ctx = rig;
    rig->peer = peer_start(&config);
    (void)snprintf(rig->url, sizeof rig->url, "%s://127.0.0.1:%d",
                   config.cert != NULL ? "https" : "http",
                   peer_port(rig->peer));
    rig->server.server = rig->url;
    wp_http_config_init(&rig->config);
    rig->config.base = rig->base;
    rig->config.server = &rig->server;
}

void
rig_connect(struct rig *rig)
{
    struct wp_err err = {.msg = ""};

    rig->http = wp_http_create(&rig->config, &err);
    assert_string_equal(err.msg, "");
    assert_non_null(rig->http);
}

void
rig_fini(struct rig *rig)
{
    wp_http_destroy(rig->http);
    if (rig->peer != NULL) {
        peer_stop(rig->peer);
    }
    event_base_free(rig->base);
}

static void
on_done(void *ctx, const struct wp_http_answer *answer)
{
    struct asked *asked = ctx;
    struct rig *rig = asked->rig;

    if (rig->answer_count < RIG_ANSWERS) {
        struct rig_answer *out = &rig->answers[rig->answer_count];

        *out = (struct rig_answer){.tag = asked->tag,
                                   .status = answer->status,
                                   .code = answer->code,
                                   .body_len = answer->body.len,
                                   .retry_after_ns = answer->retry_after_ns};
        (void)snprintf(out->body, sizeof out->body, "%.*s",
                       WP_STR_ARG(answer->body));
        (void)snprintf(out->error, sizeof out->error, "%s",
                       answer->error != NULL ? answer->error : "");
    }
    rig->answer_count++;
    rig->failed_count += answer->status != WP_OK || answer->code != 200;
    free(asked);
}

void
rig_send(struct rig *rig, const char *method, const char *path,
         const char *body, enum wp_http_priority priority, int tag)
{
    struct asked *asked = malloc(sizeof *asked);
    struct wp_http_request request = {
        .method = method,
        .path = path,
        .content_type = body != NULL ? "application/json" : NULL,
        .body = wp_str_from(body),
        .priority = priority,
        .timeout_ns = rig->timeout_ns,
        .done = on_done,
        .ctx = asked,
    };

    WP_ASSERT(asked != NULL);
    *asked = (struct asked){rig, tag};
    wp_http_send(rig->http, &request);
}

void
rig_get(struct rig *rig, const char *path, enum wp_http_priority priority,
        int tag)
{
    rig_send(rig, "GET", path, NULL, priority, tag);
}

static void
on_alarm(evutil_socket_t fd, short what, void *ctx)
{
    bool *rung = ctx;

    (void)fd;
    (void)what;
    *rung = true;
}

/* count NULL: until the time is over. */
static bool
loop_until(struct rig *rig, uint32_t (*count)(const void *ctx), const void *ctx,
           uint32_t wanted, int ms)
{
    bool rung = false;
    struct timeval wait = {ms / 1000, (ms % 1000) * 1000};
    struct event *alarm = evtimer_new(rig->base, on_alarm, &rung);

    WP_ASSERT(alarm != NULL && evtimer_add(alarm, &wait) == 0);
    while (!rung && (count == NULL || count(ctx) != wanted)) {
        (void)event_base_loop(rig->base, EVLOOP_ONCE);
    }
    event_free(alarm);
    return !rung;
}

struct counter {
    const uint32_t *count;
    uint32_t wanted;
};

static uint32_t
is_reached(const void *ctx)
{
    const struct counter *counter = ctx;

    return *counter->count >= counter->wanted;
}

void
rig_wait(struct rig *rig, const uint32_t *count, uint32_t wanted)
{
    struct counter counter = {count, wanted};

    if (!loop_until(rig, is_reached, &counter, 1, 60000)) {
        fail_msg("60 s for %u, still %u", wanted, *count);
    }
}

static uint32_t
open_at(const void *ctx)
{
    const struct rig *rig = ctx;

    return peer_open(rig->peer);
}

void
rig_wait_open(struct rig *rig, uint32_t wanted)
{
    if (!loop_until(rig, open_at, rig, wanted, 60000)) {
        fail_msg("60 s for %u connections, still %u", wanted,
                 peer_open(rig->peer));
    }
}

void
rig_pass_ms(struct rig *rig, int ms)
{
    (void)loop_until(rig, NULL, NULL, 0, ms);
}
