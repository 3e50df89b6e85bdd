/* The HTTP client: which request goes next, and which waits. A server in the same
 * event loop does what the test says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <event2/event.h>

#include "tests/support/http/http_rig.h"
#include "tests/support/pool/manual_clock.h"

/* The rig is large; one at a time. */
static struct rig rig;

static void
ignore(struct rig *r, const struct peer_request *request)
{
    (void)r;
    (void)request;
}

/* While the server is slow: lower priorities leave room, and what waits goes by
 * priority, whatever came first. HTTP/1.1 and 2 connections: 8 at once. */
static void
priorities(void **state)
{
    uint32_t seen;

    (void)state;
    rig_init(&rig, NULL);
    rig.config.connections_max = 2;
    rig.on_request = ignore;
    rig_connect(&rig);
    for (int i = 0; i < 20; i++) {
        rig_get(&rig, "/event", WP_HTTP_EVENT, 0);
        rig_get(&rig, "/refill", WP_HTTP_REFILL, 0);
        rig_get(&rig, "/normal", WP_HTTP_NORMAL, 0);
    }
    rig_wait(&rig, &rig.request_count, 6);
    rig_pass_ms(&rig, 30);
    assert_int_equal(rig.request_count, 6);
    for (uint32_t i = 0; i < 6; i++) {
        assert_string_equal(rig.requests[i].path, "/normal");
    }
    rig_get(&rig, "/claim", WP_HTTP_CLAIM, 0);
    rig_get(&rig, "/claim", WP_HTTP_CLAIM, 0);
    rig_wait(&rig, &rig.request_count, 8);
    assert_string_equal(rig.requests[6].path, "/claim");
    assert_string_equal(rig.requests[7].path, "/claim");
    /* All answered at once: a claim that comes now is the next. */
    for (uint32_t i = 0; i < 8; i++) {
        peer_reply(&rig.requests[i], 200, NULL, "");
    }
    rig_get(&rig, "/claim", WP_HTTP_CLAIM, 0);
    rig_wait(&rig, &rig.request_count, 9);
    assert_string_equal(rig.requests[8].path, "/claim");
    rig.on_request = NULL;
    seen = rig.request_count;
    for (uint32_t i = 8; i < seen; i++) {
        peer_reply(&rig.requests[i], 200, NULL, "");
    }
    rig_wait(&rig, &rig.answer_count, 63);
    /* Normal ones went before refill, refill before events. */
    assert_string_equal(rig.requests[62].path, "/event");
    assert_int_equal(rig.failed_count, 0);
    rig_fini(&rig);
}

/* What is spare goes one by one while a claim's request is under way, and all
 * of it soon after that. */
static void
spare_makes_way(void **state)
{
    uint32_t claim;

    (void)state;
    rig_init(&rig, NULL);
    rig.config.connections_max = 16; /* 64 at once. */
    rig.on_request = ignore;
    rig_connect(&rig);
    rig_get(&rig, "/claim", WP_HTTP_CLAIM, 0);
    for (int i = 0; i < 6; i++) {
        rig_get(&rig, "/spare", WP_HTTP_SPARE, 0);
    }
    rig_wait(&rig, &rig.request_count, 2);
    rig_pass_ms(&rig, 50);
    assert_int_equal(rig.request_count, 2);
    /* On connections of their own, of which either may come first. */
    claim = strcmp(rig.requests[0].path, "/claim") == 0 ? 0 : 1;
    assert_string_equal(rig.requests[claim].path, "/claim");
    assert_string_equal(rig.requests[1 - claim].path, "/spare");
    /* The next one, as the first was answered. */
    peer_reply(&rig.requests[1 - claim], 200, NULL, "");
    rig_wait(&rig, &rig.request_count, 3);
    rig_pass_ms(&rig, 50);
    assert_int_equal(rig.request_count, 3);
    /* No claim any more: the rest, without anything else happening. */
    peer_reply(&rig.requests[claim], 200, NULL, "");
    rig_wait(&rig, &rig.request_count, 7);
    for (uint32_t i = 2; i < 7; i++) {
        peer_reply(&rig.requests[i], 200, NULL, "");
    }
    rig_wait(&rig, &rig.answer_count, 7);
    assert_int_equal(rig.failed_count, 0);
    rig_fini(&rig);
}

/* For so long after a claim's request; another's does not count. */
static void
spare_waits_after_a_claim(void **state)
{
    const enum wp_http_priority first[] = {WP_HTTP_CLAIM, WP_HTTP_NORMAL};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(first); i++) {
        struct wp_clock_manual clock;
        uint32_t at_once = first[i] == WP_HTTP_CLAIM ? 2 : 4;

        wp_clock_manual_init(&clock, WP_NS_PER_S, 0);
        rig_init(&rig, NULL);
        rig.config.connections_max = 16;
        rig.config.clock = &clock.clock;
        rig.on_request = ignore;
        rig_connect(&rig);
        rig_get(&rig, "/first", first[i], 0);
        rig_wait(&rig, &rig.request_count, 1);
        peer_reply(&rig.requests[0], 200, NULL, "");
        rig_wait(&rig, &rig.answer_count, 1);
        for (int n = 0; n < 3; n++) {
            rig_get(&rig, "/spare", WP_HTTP_SPARE, 0);
        }
        rig_wait(&rig, &rig.request_count, at_once);
        rig_pass_ms(&rig, 50);
        assert_int_equal(rig.request_count, at_once);
        wp_clock_manual_advance(&clock, 20 * WP_NS_PER_MS);
        rig_wait(&rig, &rig.request_count, 4);
        for (uint32_t n = 1; n < 4; n++) {
            peer_reply(&rig.requests[n], 200, NULL, "");
        }
        rig_wait(&rig, &rig.answer_count, 4);
        rig_fini(&rig);
    }
}

static bool may_write;

static bool
may_send(void *ctx, const char *method, const char *path,
         enum wp_http_priority priority)
{
    (void)ctx;
    assert_int_equal(priority, WP_HTTP_CLAIM);
    assert_int_equal(path[0], '/');
    return may_write || strcmp(method, "GET") == 0;
}

/* What may be sent is asked when it is sent, not when it is queued. */
static void
asked_when_sent(void **state)
{
    uint32_t sent;

    (void)state;
    rig_init(&rig, NULL);
    rig.config.connections_max = 1;
    rig.config.may_send = may_send;
    rig.on_request = ignore;
    may_write = true;
    rig_connect(&rig);
    for (int i = 0; i < 10; i++) {
        rig_send(&rig, "PATCH", "/p", "{}", WP_HTTP_CLAIM, 0);
    }
    rig_wait(&rig, &rig.request_count, 4);
    sent = rig.request_count;
    may_write = false;
    peer_reply(&rig.requests[0], 200, NULL, "");
    rig_wait(&rig, &rig.answer_count, 1 + 10 - sent);
    assert_int_equal(rig.request_count, sent);
    for (uint32_t i = 1; i < rig.answer_count; i++) {
        assert_int_equal(rig.answers[i].status, WP_UNAVAILABLE);
    }
    rig_get(&rig, "/g", WP_HTTP_CLAIM, 0);
    rig_wait(&rig, &rig.request_count, sent + 1);
    assert_string_equal(rig.requests[sent].method, "GET");
    rig_fini(&rig);
}

static uint32_t asked;

static bool
once_only(void *ctx, const char *method, const char *path,
          enum wp_http_priority priority)
{
    (void)ctx;
    (void)method;
    (void)path;
    (void)priority;
    return asked++ == 0;
}

/* It left its queue, and waited for a connection: a process that stands still
 * there sends nothing when it goes on. */
static void
asked_again_by_its_connection(void **state)
{
    (void)state;
    rig_init(&rig, NULL);
    rig.config.may_send = once_only;
    asked = 0;
    rig_connect(&rig);
    rig_send(&rig, "POST", "/p", "{}", WP_HTTP_REFILL, 0);
    rig_wait(&rig, &rig.answer_count, 1);
    assert_int_equal(rig.answers[0].status, WP_UNAVAILABLE);
    assert_string_equal(rig.answers[0].error, "it may not be sent any more");
    assert_int_equal(rig.request_count, 0);
    assert_int_equal(asked, 2);
    rig_fini(&rig);
}

/* What is under way is cut off when it may not be sent any more; a read goes
 * on. */
static void
cut_off(void **state)
{
    struct wp_http_stats stats;

    (void)state;
    rig_init(&rig, NULL);
    rig.config.may_send = may_send;
    rig.on_request = ignore;
    may_write = true;
    rig_connect(&rig);
    rig_send(&rig, "PATCH", "/p", "{}", WP_HTTP_CLAIM, 1);
    rig_send(&rig, "POST", "/q", "{}", WP_HTTP_CLAIM, 2);
    rig_get(&rig, "/g", WP_HTTP_CLAIM, 3);
    rig_wait(&rig, &rig.request_count, 3);
    may_write = false;
    wp_http_ask_again(rig.http);
    /* At once, with nothing else that wakes it. */
    assert_true(event_base_loop(rig.base, EVLOOP_NONBLOCK) >= 0);
    assert_int_equal(rig.answer_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(rig.answers[i].status, WP_UNKNOWN_OUTCOME);
        assert_int_not_equal(rig.answers[i].tag, 3);
        assert_string_equal(rig.answers[i].error,
                            "cut off: it may not be sent any more");
    }
    wp_http_stats(rig.http, &stats);
    assert_int_equal(stats.inflight, 1);
    for (uint32_t i = 0; i < 3; i++) {
        if (strcmp(rig.requests[i].path, "/g") == 0) {
            peer_reply(&rig.requests[i], 200, NULL, "");
        }
    }
    rig_wait(&rig, &rig.answer_count, 3);
    assert_int_equal(rig.answers[2].status, WP_OK);
    rig_fini(&rig);
}

/* The first one too many is told so, not from within the call. */
static void
full_queue(void **state)
{
    struct wp_http_stats stats;

    (void)state;
    rig_init(&rig, NULL);
    rig.config.queue_max = 4;
    rig_connect(&rig);
    for (int i = 0; i < 6; i++) {
        rig_get(&rig, "/r", WP_HTTP_REFILL, i);
    }
    rig_get(&rig, "/c", WP_HTTP_CLAIM, 6);
    assert_int_equal(rig.answer_count, 0);
    wp_http_stats(rig.http, &stats);
    assert_int_equal(stats.queued[WP_HTTP_REFILL], 4);
    rig_wait(&rig, &rig.answer_count, 7);
    assert_int_equal(rig.answers[0].tag, 4);
    assert_int_equal(rig.answers[0].status, WP_RESOURCE_EXHAUSTED);
    assert_int_equal(rig.answers[1].tag, 5);
    assert_int_equal(rig.answers[1].status, WP_RESOURCE_EXHAUSTED);
    assert_int_equal(rig.failed_count, 2);
    wp_http_stats(rig.http, &stats);
    assert_int_equal(stats.refused[WP_HTTP_REFILL], 2);
    assert_int_equal(stats.sent[WP_HTTP_REFILL], 4);
    assert_int_equal(stats.sent[WP_HTTP_CLAIM], 1);
    assert_int_equal(stats.inflight, 0);
    rig_fini(&rig);
}

static int64_t
mono_ns(void)
{
    return wp_clock_mono_ns(wp_clock_system());
}

/* Refill may have half of a burst, and waits for the rate then; a claim has the
 * other half. */
static void
bucket(void **state)
{
    int64_t start;

    (void)state;
    rig_init(&rig, NULL);
    rig.config.qps = 1;
    rig.config.burst = 8;
    rig_connect(&rig);
    start = mono_ns();
    for (int i = 0; i < 5; i++) {
        rig_get(&rig, "/r", WP_HTTP_REFILL, i);
    }
    rig_wait(&rig, &rig.answer_count, 4);
    rig_get(&rig, "/c", WP_HTTP_CLAIM, 100);
    rig_wait(&rig, &rig.answer_count, 6);
    assert_int_equal(rig.answers[4].tag, 100);
    /* And the claim's is made up for first. */
    assert_true(mono_ns() - start >= 1950 * WP_NS_PER_MS);
    assert_int_equal(rig.failed_count, 0);
    rig_fini(&rig);
}

/* Four claims are under way; what waits behind them is told after 10 s, and
 * what is not for claims later. */
static void
waited_too_long(void **state)
{
    struct wp_clock_manual clock;

    (void)state;
    wp_clock_manual_init(&clock, WP_NS_PER_S, 0);
    rig_init(&rig, NULL);
    rig.config.clock = &clock.clock;
    rig.config.connections_max = 1;
    rig.on_request = ignore;
    rig_connect(&rig);
    for (int i = 0; i < 5; i++) {
        rig_get(&rig, "/c", WP_HTTP_CLAIM, i);
    }
    rig_get(&rig, "/n", WP_HTTP_NORMAL, 5);
    rig_wait(&rig, &rig.request_count, 4);
    wp_clock_manual_advance(&clock, 10 * WP_NS_PER_S - 1);
    rig_get(&rig, "/n", WP_HTTP_NORMAL, 6);
    rig_pass_ms(&rig, 20);
    assert_int_equal(rig.answer_count, 0);
    wp_clock_manual_advance(&clock, 1);
    rig_get(&rig, "/n", WP_HTTP_NORMAL, 7);
    rig_wait(&rig, &rig.answer_count, 1);
    assert_int_equal(rig.answers[0].tag, 4);
    assert_int_equal(rig.answers[0].status, WP_UNAVAILABLE);
    wp_clock_manual_advance(&clock, 50 * WP_NS_PER_S);
    rig_get(&rig, "/n", WP_HTTP_NORMAL, 8);
    rig_wait(&rig, &rig.answer_count, 2);
    assert_int_equal(rig.answers[1].tag, 5);
    assert_int_equal(rig.request_count, 4);
    rig_fini(&rig);
}

static void
throttle_once(struct rig *r, const struct peer_request *request)
{
    if (r->request_count == 1) {
        peer_reply(request, 429, "Retry-After: 1\r\n", "slow down");
    } else {
        peer_reply(request, 200, NULL, "");
    }
}

/* The answer goes to its caller; what comes after it in that priority waits,
 * and nothing else does. */
static void
retry_after(void **state)
{
    struct wp_http_stats stats;
    int64_t start;

    (void)state;
    rig_init(&rig, NULL);
    rig.on_request = throttle_once;
    rig_connect(&rig);
    start = mono_ns();
    rig_get(&rig, "/r", WP_HTTP_REFILL, 1);
    rig_wait(&rig, &rig.answer_count, 1);
    assert_int_equal(rig.answers[0].status, WP_OK);
    assert_int_equal(rig.answers[0].code, 429);
    assert_string_equal(rig.answers[0].body, "slow down");
    assert_int_equal(rig.answers[0].retry_after_ns, WP_NS_PER_S);
    rig_get(&rig, "/r", WP_HTTP_REFILL, 2);
    rig_get(&rig, "/n", WP_HTTP_NORMAL, 3);
    rig_wait(&rig, &rig.answer_count, 2);
    assert_int_equal(rig.answers[1].tag, 3);
    rig_wait(&rig, &rig.answer_count, 3);
    assert_int_equal(rig.answers[2].tag, 2);
    assert_true(mono_ns() - start >= 900 * WP_NS_PER_MS);
    wp_http_stats(rig.http, &stats);
    assert_int_equal(stats.throttled, 1);
    rig_fini(&rig);
}

/* Claims are told, and the next claim goes at once. */
static void
retry_after_claim(void **state)
{
    (void)state;
    rig_init(&rig, NULL);
    rig.on_request = throttle_once;
    rig_connect(&rig);
    rig_get(&rig, "/c", WP_HTTP_CLAIM, 1);
    rig_wait(&rig, &rig.answer_count, 1);
    assert_int_equal(rig.answers[0].retry_after_ns, WP_NS_PER_S);
    rig_get(&rig, "/c", WP_HTTP_CLAIM, 2);
    rig_wait(&rig, &rig.request_count, 2);
    rig_wait(&rig, &rig.answer_count, 2);
    assert_int_equal(rig.answers[1].code, 200);
    rig_fini(&rig);
}

static char date_header[96];

static void
throttle_by_date(struct rig *r, const struct peer_request *request)
{
    (void)r;
    peer_reply(request, 503, date_header, "");
}

/* Retry-After as a date, to come and past. */
static void
retry_after_date(void **state)
{
    static const int offsets_s[] = {30, -30};
    time_t at;
    struct tm utc;

    (void)state;
    rig_init(&rig, NULL);
    rig.on_request = throttle_by_date;
    rig_connect(&rig);
    for (size_t i = 0; i < 2; i++) {
        at = time(NULL) + offsets_s[i];
        (void)strftime(date_header, sizeof date_header,
                       "Retry-After: %a, %d %b %Y %H:%M:%S GMT\r\n",
                       gmtime_r(&at, &utc));
        rig_get(&rig, "/c", WP_HTTP_CLAIM, 0);
        rig_wait(&rig, &rig.answer_count, (uint32_t)i + 1);
    }
    assert_in_range(rig.answers[0].retry_after_ns / WP_NS_PER_S, 10, 30);
    assert_int_equal(rig.answers[1].retry_after_ns, 0);
    rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(priorities),
        cmocka_unit_test(spare_makes_way),
        cmocka_unit_test(spare_waits_after_a_claim),
        cmocka_unit_test(asked_when_sent),
        cmocka_unit_test(asked_again_by_its_connection),
        cmocka_unit_test(cut_off),
        cmocka_unit_test(full_queue),
        cmocka_unit_test(bucket),
        cmocka_unit_test(waited_too_long),
        cmocka_unit_test(retry_after),
        cmocka_unit_test(retry_after_claim),
        cmocka_unit_test(retry_after_date),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
