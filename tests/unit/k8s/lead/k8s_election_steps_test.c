/* Each step of one contender: what it asks the API server for, what it then
 * waits for and how long, what it tells its owner and the log, is compared
 * whole with k8s_election_steps.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <event2/event.h>
#include <event2/event_struct.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/lead/election.h"
#include "k8s/objects/json.h"
#include "tests/support/base/heard.h"
#include "tests/support/base/journal.h"
#include "tests/support/pool/manual_clock.h"

enum {
    CALLS_MAX = 64,
};

static struct {
    struct event_base *base;
    struct wp_clock_manual clock;
    struct wp_election *election;
    struct wp_election_config config;
    struct event *timer;
    wp_api_done *done[CALLS_MAX];
    void *ctx[CALLS_MAX];
    size_t calls;
    uint32_t memory; /* This allocation from now on fails; 0: none. */
    bool frees;      /* In released. */
} rig;

static struct heard heard;

/* --- What lies below --- */

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
struct event *__real_event_new(struct event_base *base, evutil_socket_t fd,
                               short what, event_callback_fn run, void *ctx);
struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd,
                               short what, event_callback_fn run, void *ctx);
int __real_event_add(struct event *event, const struct timeval *tv);
int __wrap_event_add(struct event *event, const struct timeval *tv);
int __real_event_del(struct event *event);
int __wrap_event_del(struct event *event);

void *
__wrap_calloc(size_t n, size_t size)
{
    return rig.memory != 0 && --rig.memory == 0 ? NULL : __real_calloc(n, size);
}

struct event *
__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what,
                 event_callback_fn run, void *ctx)
{
    return rig.memory != 0 && --rig.memory == 0
               ? NULL
               : __real_event_new(base, fd, what, run, ctx);
}

int
__wrap_event_add(struct event *event, const struct timeval *tv)
{
    rig.timer = event;
    journal("  timer %ld.%06ld", (long)tv->tv_sec, (long)tv->tv_usec);
    journal_line();
    return __real_event_add(event, &(struct timeval){3600, 0});
}

int
__wrap_event_del(struct event *event)
{
    journal("  no timer");
    journal_line();
    return __real_event_del(event);
}

static void
call(const char *verb, const struct wp_api_target *target, json_t *body,
     wp_api_done *done, void *ctx)
{
    char *text =
        body == NULL ? NULL : json_dumps(body, JSON_COMPACT | JSON_SORT_KEYS);

    journal("  %zu: %s kind %d ns %s name %s priority %d %s", rig.calls, verb,
            (int)target->kind, target->ns,
            target->name != NULL ? target->name : "-", (int)target->priority,
            text != NULL ? text : "");
    journal_line();
    free(text);
    json_decref(body);
    assert_true(rig.calls < CALLS_MAX);
    rig.done[rig.calls] = done;
    rig.ctx[rig.calls++] = ctx;
}

void
wp_api_get(struct wp_api *api, const struct wp_api_target *target,
           wp_api_done *done, void *ctx)
{
    assert_ptr_equal(api, rig.config.api);
    call("GET", target, NULL, done, ctx);
}

void
wp_api_post(struct wp_api *api, const struct wp_api_target *target,
            json_t *body, wp_api_done *done, void *ctx)
{
    assert_ptr_equal(api, rig.config.api);
    call("POST", target, body, done, ctx);
}

void
wp_api_put(struct wp_api *api, const struct wp_api_target *target, json_t *body,
           wp_api_done *done, void *ctx)
{
    assert_ptr_equal(api, rig.config.api);
    call("PUT", target, body, done, ctx);
}

/* --- What the test does --- */

static void
say(const char *what)
{
    journal("%s", what);
    journal_line();
}

static void
shows(void)
{
    if (rig.election == NULL) {
        return;
    }
    journal("  = leads %d until %" PRId64 " refused %d",
            wp_election_leads(rig.election),
            wp_election_valid_until_ns(rig.election),
            wp_election_refused(rig.election));
    journal_line();
}

static void
hear(void)
{
    heard_begin(&heard);
}

static void
heard_that(void)
{
    const char *log = heard_end(&heard);

    if (log[0] != '\0') {
        journal("  log %s", log);
        journal_line();
    }
    shows();
}

static void
on_leading(void *ctx)
{
    assert_ptr_equal(ctx, &rig);
    say("  leading");
}

static void
on_following(void *ctx, const char *leader)
{
    assert_ptr_equal(ctx, &rig);
    journal("  following \"%s\"", leader);
    journal_line();
}

static void
released(void *ctx)
{
    assert_ptr_equal(ctx, &rig);
    say("  released");
    if (rig.frees) {
        wp_election_stop(rig.election);
        rig.election = NULL;
    }
}

/* So long later, by the timer. */
static void
later(int64_t us)
{
    journal("after %" PRId64 " us", us);
    journal_line();
    wp_clock_manual_advance(&rig.clock, us * WP_NS_PER_US);
    hear();
    event_active(rig.timer, EV_TIMEOUT, 1);
    assert_int_not_equal(event_base_loop(rig.base, EVLOOP_NONBLOCK), -1);
    heard_that();
}

static void
start(const char *what)
{
    say(what);
    hear();
    rig.election = wp_election_start(&rig.config);
    heard_that();
    later(0);
}

/* Call i ends so, if it has not yet. */
static void
answer(size_t i, enum wp_status status, const char *lease)
{
    struct wp_api_result result = {.status = status,
                                   .message =
                                       status == WP_OK ? NULL : "no such luck",
                                   .retry_after_ns = -1};

    if (i >= rig.calls || rig.done[i] == NULL) {
        say("nothing is under way");
        return;
    }
    journal("%zu is answered %s %s", i, wp_status_name(status),
            lease != NULL ? lease : "");
    journal_line();
    if (lease != NULL) {
        result.object = json_loads(lease, JSON_DECODE_ANY, NULL);
        assert_non_null(result.object);
    }
    hear();
    rig.done[i](rig.ctx[i], &result);
    rig.done[i] = NULL;
    heard_that();
    json_decref(result.object);
}

/* The last one. */
static void
answered(enum wp_status status, const char *lease)
{
    answer(rig.calls - 1, status, lease);
}

static void
held(const char *holder, int version, int seconds)
{
    char lease[512];

    (void)snprintf(lease, sizeof lease,
                   "{\"metadata\":{\"name\":\"lead\",\"resourceVersion\":"
                   "\"%d\",\"labels\":{\"theirs\":\"1\",\"" WP_ELECTION_SERVING
                   "\":\"true\"}},\"spec\":{\"holderIdentity\":\"%s\","
                   "\"leaseDurationSeconds\":%d,\"acquireTime\":\"long ago\","
                   "\"leaseTransitions\":7}}",
                   version, holder, seconds);
    answered(WP_OK, lease);
}

static void
release(void (*done)(void *ctx))
{
    say("release");
    hear();
    wp_election_release(rig.election, done, &rig);
    heard_that();
}

/* What is under way ends after it, and nobody is told. */
static void
stop(void)
{
    const struct wp_api_result cancelled = {.status = WP_CANCELLED,
                                            .retry_after_ns = -1};

    say("stop");
    wp_election_stop(rig.election);
    rig.election = NULL;
    for (size_t i = 0; i < rig.calls; i++) {
        if (rig.done[i] != NULL) {
            rig.done[i](rig.ctx[i], &cancelled);
        }
    }
    rig.calls = 0;
}

static int
begin(void **state)
{
    (void)state;
    memset(&rig, 0, sizeof rig);
    rig.base = event_base_new();
    assert_non_null(rig.base);
    wp_clock_manual_init(&rig.clock, 1000 * WP_NS_PER_S,
                         86400 * WP_NS_PER_S + 123456789);
    rig.config = (struct wp_election_config){
        .base = rig.base,
        .clock = &rig.clock.clock,
        .api = (struct wp_api *)(void *)&rig,
        .ns = "home",
        .name = "lead",
        .identity = "me",
        .scope = "all of it",
        .seed = 11,
        .on_leading = on_leading,
        .on_following = on_following,
        .ctx = &rig,
    };
    return 0;
}

static int
end(void **state)
{
    (void)state;
    stop();
    event_base_free(rig.base);
    return 0;
}

/* It leads, by a Lease of version 1 that it made. */
static void
lead(void)
{
    start("start");
    answered(WP_NOT_FOUND, NULL);
    held("me", 1, 3);
}

/* --- The stories --- */

static void
makes_renews_and_loses_it(void)
{
    say("# makes, renews and loses it");
    lead();
    wp_election_serving(rig.election, true);
    later(750000);
    held("me", 2, 3);
    wp_election_serving(rig.election, false);
    later(750000);
    held("me", 3, 3);
    wp_election_serving(rig.election, true);
    later(749999);
    later(1);
    answered(WP_UNAVAILABLE, NULL);
    later(749999);
    answered(WP_UNKNOWN_OUTCOME, NULL);
    later(200000);
    later(550000 - 1);
    later(2);
    later(750000);
    held("me", 3, 3);
    held("me", 4, 3);
    later(100);
    later(750000);
    answered(WP_UNKNOWN_OUTCOME, NULL); /* It is said once more. */
    later(1499900 - 1);
    later(1);
}

static void
late_answers_hold_nothing(void)
{
    say("# late answers hold nothing");
    lead();
    later(750000);
    later(1499999);
    answer(2, WP_OK,
           "{\"metadata\":{\"resourceVersion\":\"2\"},\"spec\":{"
           "\"holderIdentity\":\"me\"}}");
    held("me", 2, 3);
    wp_clock_manual_advance(&rig.clock, 2250 * WP_NS_PER_MS);
    held("me", 3, 3);
    later(0);
}

static void
waits_for_others(void)
{
    say("# waits for others");
    start("start");
    held("other", 5, 4);
    for (int i = 0; i < 4; i++) {
        later(450000);
        held("other", 5, 4);
    }
    later(2200000 - 1);
    held("other", 5, 4);
    later(1);
    held("other", 5, 4);
    answered(WP_ABORTED, NULL);
    later(0);
    held("third", 6, 1);
    later(3000000 - 1);
    held("third", 6, 1);
    later(1);
    held("third", 6, 1);
    held("fourth", 7, 1);
    later(450000);
    held("", 8, 1);
    held("me", 9, 1);
}

static void
believes_ten_minutes(void)
{
    say("# believes ten minutes");
    start("start");
    held("other", 5, 601);
    later(600000000 - 1);
    held("other", 5, 601);
    later(1);
    held("other", 5, 601);
    answered(WP_NOT_FOUND, NULL);
    later(0);
    answered(WP_NOT_FOUND, NULL);
    answered(WP_ALREADY_EXISTS, NULL);
    later(0);
    held("other", 6, 600);
    later(599999999);
    held("other", 6, 600);
    later(1);
    held("other", 6, 600);
}

static void
is_taken_or_deleted(void)
{
    say("# is taken, or deleted");
    lead();
    later(750000);
    held("force", 2, 3);
    later(3000000);
    held("force", 2, 3);
    held("me", 3, 3);
    later(750000);
    answered(WP_NOT_FOUND, NULL);
    later(0);
    answered(WP_NOT_FOUND, NULL);
    answered(WP_OK, "{\"spec\":{\"holderIdentity\":\"me\"}}");
    later(750000);
    answered(WP_OK, "[]");
    later(200000);
    answered(WP_OK, "{\"spec\":{\"holderIdentity\":\"else\"}}");
    later(750000);
    answered(WP_OK, "{\"spec\":{\"holderIdentity\":\"else\"}}");
}

static void
is_refused(void)
{
    say("# is refused");
    start("start");
    answered(WP_PERMISSION_DENIED, NULL);
    later(250000);
    answered(WP_PERMISSION_DENIED, NULL);
    later(250000);
    held("", 5, 4);
    answered(WP_PERMISSION_DENIED, NULL);
    later(250000);
    held("other", 6, 4);
    answered(WP_CANCELLED, NULL);
    wp_election_look(rig.election);
    release(released);
}

static void
is_given_up(void)
{
    say("# is given up");
    lead();
    wp_election_serving(rig.election, true);
    release(released);
    later(0);
    held("", 2, 1);
    wp_election_look(rig.election);
    stop();
    say("# is given up during a renewal");
    lead();
    later(750000);
    release(released);
    held("me", 2, 3);
    later(750000);
    answered(WP_UNAVAILABLE, NULL);
    later(200000);
    held("me", 2, 3);
    rig.frees = true;
    held("", 3, 3);
    stop();
    say("# is given up, and nobody answers");
    lead();
    later(750000);
    release(released);
    later(749999);
    later(1);
    later(1250000 - 1);
    later(1);
    stop();
    say("# is given up by one that does not have it, and does not listen");
    start("start");
    held("other", 5, 4);
    release(NULL);
    later(0);
    held("other", 5, 4);
    stop();
    say("# is given up when it is gone");
    start("start");
    release(released);
    answered(WP_NOT_FOUND, NULL);
    stop();
    say("# is given up after the client has gone");
    lead();
    later(750000);
    answered(WP_CANCELLED, NULL);
    release(released);
    later(0);
}

static void
has_other_times(void)
{
    say("# has other times, no scope and nobody who listens");
    rig.config.duration_ns = 4 * WP_NS_PER_S + 1;
    rig.config.deadline_ns = 3 * WP_NS_PER_S;
    rig.config.renew_ns = 1 * WP_NS_PER_S;
    rig.config.scope = NULL;
    rig.config.on_leading = NULL;
    rig.config.on_following = NULL;
    rig.config.seed = 12;
    start("start");
    held("other", 5, 3);
    later(4000000);
    held("other", 5, 3);
    later(1);
    held("other", 5, 3);
    held("me", 6, 5);
    later(1000000);
    held("other", 7, 5);
}

/* --- All of them --- */

typedef void story(void);

static void
each_step(void **state)
{
    static story *const stories[] = {
        makes_renews_and_loses_it,
        late_answers_hold_nothing,
        waits_for_others,
        believes_ten_minutes,
        is_taken_or_deleted,
        is_refused,
        is_given_up,
        has_other_times,
    };

    for (size_t i = 0; i < sizeof stories / sizeof stories[0]; i++) {
        assert_int_equal(begin(state), 0);
        stories[i]();
        assert_int_equal(end(state), 0);
    }
    journal_compare(WP_TEST_STORY);
}

/* Neither for itself nor for its timer. */
static void
no_memory(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 2; n++) {
        assert_int_equal(begin(state), 0);
        rig.memory = n;
        assert_null(wp_election_start(&rig.config));
        journal_is("");
        event_base_free(rig.base);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_step),
        cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
