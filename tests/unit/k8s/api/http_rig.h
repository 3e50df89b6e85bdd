/* tests/unit/k8s/api/http_rig.h - an HTTP client on fakes of curl and the event
 * loop, and the words with which a test drives it. All goes into the journal. */
#ifndef WP_TESTS_UNIT_K8S_API_HTTP_RIG_H
#define WP_TESTS_UNIT_K8S_API_HTTP_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/api/http_parts.h"
#include "tests/support/base/heard.h"
#include "tests/support/base/journal.h"
#include "tests/unit/k8s/api/curl_fake.h"
#include "tests/support/pool/manual_clock.h"

static struct {
    struct event_base *base;
    struct wp_clock_manual clock;
    struct wp_api_config server;
    struct wp_http_config config;
    struct wp_http *http;
    struct wp_http_stream *stream;
    const char *forbidden; /* This path may not be sent. */
    bool stops;            /* The stream's owner has had enough. */
    int sends_more;        /* So many more, in callbacks. */
} rig;

static struct heard heard;

/* --- What it tells --- */

static inline void
say(const char *what)
{
    journal("%s", what);
    journal_line();
}

static inline void
show_answer(const char *what, const struct wp_http_answer *answer)
{
    journal("  %s %s %d after %" PRId64 " '%s' ", what,
            wp_status_name(answer->status), answer->code,
            answer->retry_after_ns, answer->error != NULL ? answer->error : "");
    journal_bytes(answer->body.ptr, answer->body.len);
    journal_line();
}

static inline void sends(const char *method, const char *path, const char *type,
                         struct wp_str body, enum wp_http_priority priority);

static inline void
on_done(void *ctx, const struct wp_http_answer *answer)
{
    show_answer(ctx, answer);
    if (rig.sends_more > 0) {
        rig.sends_more--;
        sends("GET", "/more", NULL, WP_STR(""), WP_HTTP_NORMAL);
    }
}

static inline bool
on_bytes(void *ctx, struct wp_str bytes)
{
    assert_ptr_equal(ctx, &rig);
    journal("  stream says ");
    journal_bytes(bytes.ptr, bytes.len);
    journal_line();
    return !rig.stops;
}

static inline void
on_end(void *ctx, const struct wp_http_answer *answer)
{
    assert_ptr_equal(ctx, &rig);
    rig.stream = NULL;
    show_answer("stream ends", answer);
    if (rig.sends_more > 0) {
        rig.sends_more--;
        sends("GET", "/more", NULL, WP_STR(""), WP_HTTP_NORMAL);
    }
}

static inline bool
may_send(void *ctx, const char *method, const char *path,
         enum wp_http_priority priority)
{
    assert_ptr_equal(ctx, &rig);
    journal("  may %s %s %d", method, path, (int)priority);
    journal_line();
    return rig.forbidden == NULL || strcmp(path, rig.forbidden) != 0;
}

static inline void
shows(void)
{
    struct wp_http_stats stats;

    wp_http_stats(rig.http, &stats);
    journal("  =");
    for (int i = 0; i < WP_HTTP_PRIORITIES; i++) {
        journal(" %" PRIu64 "/%" PRIu64 "/%" PRIu64, stats.sent[i],
                stats.queued[i], stats.refused[i]);
    }
    journal(" throttled %" PRIu64 " failed %" PRIu64 " conflicts %" PRIu64
            " under way %u",
            stats.throttled, stats.failed, stats.conflicts, stats.inflight);
    journal_line();
}

/* --- What the test does --- */

static inline void
begin(const char *what)
{
    memset(&rig, 0, sizeof rig);
    memset(&fake, 0, sizeof fake);
    rig.base = event_base_new();
    assert_non_null(rig.base);
    wp_clock_manual_init(&rig.clock, 1000 * WP_NS_PER_S, 0);
    rig.server = (struct wp_api_config){.server = "http://a:1"};
    wp_http_config_init(&rig.config);
    rig.config.base = rig.base;
    rig.config.clock = &rig.clock.clock;
    rig.config.server = &rig.server;
    rig.config.user_agent = "agent/1";
    rig.config.inflight_max = 8;
    rig.config.connections_max = 2;
    say(what);
}

/* How it is made shows where options do. */
static inline void
create(void)
{
    struct wp_err err = {.msg = ""};

    journal_mute(!fake.shows_options);
    rig.http = wp_http_create(&rig.config, &err);
    journal_mute(false);
    if (rig.http == NULL) {
        journal("  no client: %s '%s'", wp_status_name(err.status), err.msg);
        journal_line();
    }
}

static inline void
turn(void)
{
    heard_begin(&heard);
    fake_turn();
    journal("%s", heard_end(&heard));
    shows();
}

static inline void
sends(const char *method, const char *path, const char *type,
      struct wp_str body, enum wp_http_priority priority)
{
    wp_http_send(rig.http, &(struct wp_http_request){
                               .method = method,
                               .path = path,
                               .content_type = type,
                               .body = body,
                               .priority = priority,
                               .done = on_done,
                               .ctx = (void *)(uintptr_t)path,
                           });
}

static inline void
gets(const char *path)
{
    sends("GET", path, NULL, WP_STR(""), WP_HTTP_NORMAL);
}

static inline void
passes(int64_t ns)
{
    journal("after %" PRId64 " ns", ns);
    journal_line();
    wp_clock_manual_advance(&rig.clock, ns);
}

/* The client's timer is due, so long later. */
static inline void
later(int64_t ns)
{
    passes(ns);
    fake_fire(1, EV_TIMEOUT);
    turn();
}

/* A transfer ends so. */
static inline void
ends_with(int easy, CURLcode result, long code, long sent, curl_off_t after_s)
{
    journal("h%d ends with %d, code %ld, %ld bytes sent", easy, (int)result,
            code, sent);
    journal_line();
    fake.easies[easy].code = code;
    fake.easies[easy].sent = sent;
    fake.easies[easy].retry_after_s = after_s;
    heard_begin(&heard);
    fake_end(easy, result);
    assert_false(fake.kicked); /* All was done already. */
    journal("%s", heard_end(&heard));
    turn();
}

/* The first that is under way. */
static inline int
busy(void)
{
    int h = 0;

    while (h < fake.easies_len && fake.easies[h].multi < 0) {
        h++;
    }
    assert_true(h < fake.easies_len);
    return h;
}

static inline void
ends(int easy)
{
    ends_with(easy, CURLE_OK, 200, 100, 0);
}

static inline void
destroy(void)
{
    say("destroy");
    fake.kicked = false;
    wp_http_destroy(rig.http);
    assert_false(fake.kicked);
    rig.http = NULL;
    for (int i = 0; i < fake.easies_len; i++) {
        assert_null(fake.easies[i].curl);
    }
    for (int i = 0; i < fake.events_len; i++) {
        assert_null(fake.events[i].event);
    }
    for (int i = 0; i < fake.multis_len; i++) {
        assert_false(fake.multis[i].alive);
    }
    event_base_free(rig.base);
}

static inline void
opens(int64_t idle_ns)
{
    char path[] = "/watch"; /* Copied. */

    rig.stream = wp_http_stream_open(rig.http, &(struct wp_http_stream_config){
                                                   .path = path,
                                                   .idle_timeout_ns = idle_ns,
                                                   .on_bytes = on_bytes,
                                                   .on_end = on_end,
                                                   .ctx = &rig,
                                               });
    memset(path, 'x', sizeof path - 1);
    say(rig.stream != NULL ? "opens a stream" : "opens no stream");
}

static inline void
bytes_of(size_t len, long code)
{
    char *bytes = malloc(len > 0 ? len : 1);

    assert_non_null(bytes);
    memset(bytes, 'x', len);
    fake.easies[0].code = code;
    journal("%zu bytes of %ld: taken %zu", len, code,
            fake_bytes(0, bytes, len));
    journal_line();
    free(bytes);
}

#endif
