/* Each step of the look for another controller: what it asks the API server
 * for, what it then waits for and how long, what it tells its owner and the log,
 * is compared whole with k8s_competitor_steps.txt. */
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

#include "k8s/lead/competitor.h"
#include "k8s/objects/json.h"
#include "tests/support/base/heard.h"
#include "tests/support/base/journal.h"
#include "tests/support/pool/manual_clock.h"

#define WALL_NS (86400 * WP_NS_PER_S)

static struct {
    struct event_base *base;
    struct wp_clock_manual clock;
    struct wp_competitor *competitor;
    struct wp_competitor_config config;
    struct event *timer;
    /* The call under way. */
    wp_api_done *done;
    void (*http_done)(void *ctx, const struct wp_http_answer *answer);
    void *ctx;
    uint32_t memory; /* This allocation from now on fails; 0: none. */
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

static void
call(const char *verb, const struct wp_api_target *target, wp_api_done *done,
     void *ctx)
{
    journal("  %s kind %d ns %s name %s sub %d priority %d", verb,
            (int)target->kind, target->ns != NULL ? target->ns : "-",
            target->name != NULL ? target->name : "-",
            target->subresource != NULL, (int)target->priority);
    assert_true(rig.done == NULL && rig.http_done == NULL);
    rig.done = done;
    rig.ctx = ctx;
}

void
wp_api_get(struct wp_api *api, const struct wp_api_target *target,
           wp_api_done *done, void *ctx)
{
    assert_ptr_equal(api, rig.config.api);
    call("GET", target, done, ctx);
    journal_line();
}

void
wp_api_list(struct wp_api *api, const struct wp_api_target *target,
            const struct wp_api_query *query, wp_api_done *done, void *ctx)
{
    assert_ptr_equal(api, rig.config.api);
    call("LIST", target, done, ctx);
    journal(" labels %s limit %u other %d", query->label_selector, query->limit,
            query->field_selector != NULL || query->resource_version != NULL ||
                query->cont != NULL || query->timeout_s != 0);
    journal_line();
}

struct wp_http *
wp_api_http(const struct wp_api *api)
{
    assert_ptr_equal(api, rig.config.api);
    return (struct wp_http *)(void *)&rig.clock;
}

void
wp_http_send(struct wp_http *http, const struct wp_http_request *request)
{
    assert_ptr_equal(http, &rig.clock);
    journal("  %s %s type %d body %zu priority %d timeout %" PRId64,
            request->method, request->path, request->content_type != NULL,
            request->body.len, (int)request->priority, request->timeout_ns);
    journal_line();
    assert_true(rig.done == NULL && rig.http_done == NULL);
    rig.http_done = request->done;
    rig.ctx = request->ctx;
}

/* --- What the test does --- */

static void
say(const char *what)
{
    journal("%s", what);
    journal_line();
}

static void
heard_that(void)
{
    const char *log = heard_end(&heard);

    if (log[0] != '\0') {
        journal("  log %s", log);
        journal_line();
    }
}

/* After a conflict the search is over. */
static void
on_done(void *ctx, const char *conflict)
{
    assert_ptr_equal(ctx, &rig);
    journal("  done %s", conflict != NULL ? conflict : "nobody");
    journal_line();
    if (conflict != NULL) {
        wp_competitor_stop(rig.competitor);
        rig.competitor = NULL;
    }
}

static void
tick(void)
{
    heard_begin(&heard);
    event_active(rig.timer, EV_TIMEOUT, 1);
    assert_int_not_equal(event_base_loop(rig.base, EVLOOP_NONBLOCK), -1);
    heard_that();
}

/* So long later, by the timer. */
static void
later(int64_t ms)
{
    journal("after %" PRId64 " ms", ms);
    journal_line();
    wp_clock_manual_advance(&rig.clock, ms * WP_NS_PER_MS);
    tick();
}

/* The same, a nanosecond short of it. */
static void
just_before(int64_t ms)
{
    journal("just before %" PRId64 " ms", ms);
    journal_line();
    wp_clock_manual_advance(&rig.clock, ms * WP_NS_PER_MS - 1);
    tick();
    say("after 1 ns");
    wp_clock_manual_advance(&rig.clock, 1);
    tick();
}

static void
stop(void)
{
    wp_competitor_stop(rig.competitor);
    rig.competitor = NULL;
}

static void
answered_json(enum wp_status status, json_t *object)
{
    const struct wp_api_result result = {
        .status = status, .object = object, .retry_after_ns = -1};
    wp_api_done *done = rig.done;

    assert_non_null(done);
    journal("%s", wp_status_name(status));
    journal_line();
    rig.done = NULL;
    heard_begin(&heard);
    done(rig.ctx, &result);
    heard_that();
    json_decref(object);
}

static void
answered(enum wp_status status)
{
    answered_json(status, NULL);
}

/* A Lease that was renewed just now. */
static void
held(const char *holder, const char *version)
{
    char renewed[40];

    (void)wp_time_format_utc(rig.clock.now_wall_ns, 6, renewed);
    answered_json(WP_OK,
                  json_pack("{s:{s:s}, s:{s:s, s:s}}", "metadata",
                            "resourceVersion", version, "spec",
                            "holderIdentity", holder, "renewTime", renewed));
}

/* A Lease in these words; "NOW" is when it was renewed. */
static void
held_as(const char *words)
{
    json_t *lease = json_loads(words, 0, NULL);
    json_t *spec = json_object_get(lease, "spec");
    char renewed[40];

    assert_non_null(lease);
    if (strcmp(wp_json_text(spec, "renewTime", NULL), "NOW") == 0) {
        (void)wp_time_format_utc(rig.clock.now_wall_ns, 6, renewed);
        wp_json_set_text(spec, "renewTime", renewed);
    }
    answered_json(WP_OK, lease);
}

static void
deployed(enum wp_status status, int code, const char *body)
{
    void (*done)(void *ctx, const struct wp_http_answer *answer) =
        rig.http_done;
    const struct wp_http_answer answer = {.status = status,
                                          .code = code,
                                          .body = wp_str_from(body),
                                          .retry_after_ns = -1};

    assert_non_null(done);
    journal("%s %d %s", wp_status_name(status), code, body);
    journal_line();
    rig.http_done = NULL;
    heard_begin(&heard);
    done(rig.ctx, &answer);
    heard_that();
}

static void
begin(const char *what)
{
    memset(&rig, 0, sizeof rig);
    rig.base = event_base_new();
    assert_non_null(rig.base);
    wp_clock_manual_init(&rig.clock, 1000 * WP_NS_PER_S, WALL_NS);
    rig.config = (struct wp_competitor_config){
        .base = rig.base,
        .clock = &rig.clock.clock,
        .api = (struct wp_api *)(void *)&rig,
        .ns = "home",
        .name = "ours",
        .pools = true,
        .sandboxes = true,
    };
    say(what);
}

/* What is under way ends after it, and nobody is told. */
static void
end(void)
{
    const struct wp_api_result result = {.status = WP_NOT_FOUND,
                                         .retry_after_ns = -1};
    const struct wp_http_answer answer = {.status = WP_OK, .code = 404};

    say("stop");
    stop();
    if (rig.done != NULL) {
        rig.done(rig.ctx, &result);
    }
    if (rig.http_done != NULL) {
        rig.http_done(rig.ctx, &answer);
    }
    event_base_free(rig.base);
}

static void
start(void)
{
    rig.competitor = wp_competitor_start(&rig.config, on_done, &rig);
    assert_non_null(rig.competitor);
    later(0);
}

/* --- The stories --- */

static void
finds_nobody_and_looks_again(void)
{
    begin("# finds nobody, and looks again");
    start();
    later(0); /* A question is under way. */
    say("look");
    wp_competitor_look(rig.competitor);
    answered(WP_NOT_FOUND);
    later(0);
    answered(WP_PERMISSION_DENIED);
    say("look");
    wp_competitor_look(rig.competitor);
    just_before(30000);
    answered(WP_UNAVAILABLE);
    just_before(1000);
    answered(WP_UNKNOWN_OUTCOME);
    later(1500);
    answered(WP_NOT_FOUND);
    answered(WP_NOT_FOUND);
    later(30000);
    answered(WP_CANCELLED);
    end();
}

static void
looks_into_one_namespace(void)
{
    begin("# looks into one namespace");
    rig.config.ns = WP_COMPETITOR_NAMESPACE;
    start();
    answered(WP_NOT_FOUND);
    end();
}

/* By the times that it was given; its patience begins anew with each look. */
static void
waits_as_long_as_told(void)
{
    begin("# waits as long as told");
    rig.config.sandboxes = false;
    rig.config.wait_ns = 5 * WP_NS_PER_S;
    rig.config.period_ns = 7 * WP_NS_PER_S;
    start();
    held("them", "1");
    later(4000);
    held("them", "2");
    just_before(1000);
    held("them", "3");
    deployed(WP_OK, 200, "{}");
    answered(WP_NOT_FOUND);
    just_before(7000);
    held("them", "4");
    wp_clock_manual_advance(&rig.clock, 5 * WP_NS_PER_S - 1);
    later(0);
    held("them", "5");
    just_before(1000);
    held("them", "6");
    deployed(WP_OK, 404, "{}");
    end();
}

/* It renews: after 20 s that is an answer, and not a nanosecond before. */
static void
is_alive_for_so_long(void)
{
    begin("# is alive for so long");
    start();
    held("them", "1");
    for (int i = 2; i <= 21; i++) {
        char version[16];

        (void)snprintf(version, sizeof version, "%d", i);
        later(1000);
        held("them", version);
    }
    end();
    begin("# to the end of its patience");
    start();
    wp_clock_manual_advance(&rig.clock, 20 * WP_NS_PER_S - 1);
    held("them", "1");
    later(1000);
    held("them", "2");
    end();
    begin("# and at its very end");
    start();
    wp_clock_manual_advance(&rig.clock, 20 * WP_NS_PER_S);
    held("them", "1");
    end();
}

/* Its Lease stands still for as long as it says, or for 15 s. */
static void
stands_still(void)
{
    static const char *const words[] = {
        "{\"metadata\":{\"resourceVersion\":\"4\"},\"spec\":{"
        "\"holderIdentity\":\"x\",\"renewTime\":\"NOW\"}}",
        "{\"metadata\":{\"resourceVersion\":\"4\"},\"spec\":{"
        "\"holderIdentity\":\"x\",\"renewTime\":\"NOW\","
        "\"leaseDurationSeconds\":\"4\"}}",
        "{\"metadata\":{\"resourceVersion\":\"4\"},\"spec\":{"
        "\"holderIdentity\":\"x\",\"renewTime\":\"NOW\","
        "\"leaseDurationSeconds\":4}}",
        "{\"metadata\":{\"resourceVersion\":\"4\"},\"spec\":{"
        "\"holderIdentity\":\"x\",\"renewTime\":\"NOW\","
        "\"leaseDurationSeconds\":-1}}",
    };
    static const int64_t ms[] = {15000, 15000, 4000, 1000};

    for (size_t i = 0; i < WP_ARRAY_LEN(ms); i++) {
        begin("# stands still");
        start();
        held_as(words[i]);
        wp_clock_manual_advance(&rig.clock, ms[i] * WP_NS_PER_MS - 1);
        later(0);
        if (rig.done != NULL) {
            held_as(words[i]);
        }
        wp_clock_manual_advance(&rig.clock, 1);
        later(0);
        if (rig.done == NULL) {
            later(1000);
        }
        held_as(words[i]);
        end();
    }
}

/* Words that make no living controller. */
static void
is_none(void)
{
    static const char *const words[] = {
        "{}",
        "{\"metadata\":{\"resourceVersion\":\"4\"},\"spec\":{"
        "\"renewTime\":\"NOW\"}}",
        "{\"metadata\":{\"resourceVersion\":\"4\"},\"spec\":{"
        "\"holderIdentity\":\"\",\"renewTime\":\"NOW\"}}",
        "{\"metadata\":{\"resourceVersion\":\"4\"},\"spec\":{"
        "\"holderIdentity\":\"x\"}}",
        "{\"metadata\":{\"resourceVersion\":\"4\"},\"spec\":{"
        "\"holderIdentity\":\"x\",\"renewTime\":\"yesterday\"}}",
        "{\"metadata\":{\"resourceVersion\":\"4\"},\"spec\":{"
        "\"holderIdentity\":\"x\",\"renewTime\":\"1970-01-01T23:58:44Z\"}}",
        "{\"spec\":{\"holderIdentity\":\"x\",\"renewTime\":\"NOW\"}}",
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(words); i++) {
        begin("# is none");
        start();
        held_as(words[i]);
        end();
    }
    begin("# was just alive");
    start();
    held_as(
        "{\"metadata\":{\"resourceVersion\":\"4\"},\"spec\":{"
        "\"holderIdentity\":\"x\",\"renewTime\":\"1970-01-01T23:58:45Z\"}}");
    end();
}

#define CONTAINERS(list)                                                       \
    "{\"spec\":{\"template\":{\"spec\":{\"containers\":[" list "]}}}}"

/* What its Deployment says, for one who serves so much. */
static void
judges(enum wp_status status, int code, const char *body, bool pools,
       bool sandboxes)
{
    begin("# judges");
    journal("pools %d sandboxes %d", pools, sandboxes);
    journal_line();
    rig.config.pools = pools;
    rig.config.sandboxes = sandboxes;
    journal_mute(true); /* How it came to look is told elsewhere. */
    start();
    answered(WP_NOT_FOUND);
    wp_clock_manual_advance(&rig.clock, 20 * WP_NS_PER_S);
    later(0);
    held("them", "1");
    journal_mute(false);
    deployed(status, code, body);
    if (rig.competitor != NULL) {
        later(30000);
        answered(WP_NOT_FOUND);
        wp_clock_manual_advance(&rig.clock, 20 * WP_NS_PER_S);
        held("them", "2");
        deployed(status, code, body);
    }
    end();
}

static void
judges_by_the_deployment(void)
{
    static const char with[] = CONTAINERS("{\"args\":[\"--extensions\"]}");
    static const char without[] = CONTAINERS("{\"args\":[\"--leader\"]}");

    for (int i = 0; i < 4; i++) {
        bool pools = (i & 1) != 0;
        bool sandboxes = (i & 2) != 0;

        judges(WP_OK, 200, with, pools, sandboxes);
        judges(WP_OK, 200, without, pools, sandboxes);
        judges(WP_OK, 200, "{\"spec\":", pools, sandboxes);
        judges(WP_OK, 404, without, pools, sandboxes);
        judges(WP_OK, 201, without, pools, sandboxes);
        judges(WP_UNAVAILABLE, 200, without, pools, sandboxes);
    }
}

/* Which words switch the extensions on. */
static void
reads_flags(void)
{
    static const char *const rows[] = {
        "{\"args\":[\"-extensions\"]}",
        "{\"args\":[\"---extensions\"]}",
        "{\"args\":[\"extensions\"]}",
        "{\"args\":[\"-extension\"]}",
        "{\"args\":[\"-extensionss\"]}",
        "{\"args\":[\"-extensions=\"]}",
        "{\"args\":[\"--extensions=t\"]}",
        "{\"args\":[\"--extensions=true\"]}",
        "{\"args\":[\"--extensions=TRUE\"]}",
        "{\"args\":[\"--extensions=tRUE\"]}",
        "{\"args\":[\"--extensions=on\"]}",
        "{\"args\":[\"--extensions=11\"]}",
        "{\"args\":[1, null, \"\", \"-\", \"--\"]}",
        "{\"command\":[\"controller\", \"--extensions\"]}",
        "{\"command\":[\"--extensions\"], \"args\":[\"--extensions=0\"]}",
        "{\"command\":[\"--extensions=0\"], \"args\":[\"--extensions\", "
        "\"x\"]}",
        "{}, {\"args\":[\"x\", \"--extensions\", \"y\", 1]}",
        "{\"args\":[\"--extensions\"]}, {\"args\":[\"--extensions=0\"]}",
        "{\"args\":[\"--extensions=0\"]}, {\"args\":[\"--extensions=1\"]}, {}",
        "{\"args\":[\"--extensions=0\"]}, {}",
        "{\"args\":\"--extensions\"}",
        "",
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        char body[512];

        (void)snprintf(body, sizeof body, CONTAINERS("%s"), rows[i]);
        judges(WP_OK, 200, body, true, false);
    }
    judges(WP_OK, 200, "[]", true, false);
}

/* --- Other installations --- */

static json_t *
lease_of(const char *ns, const char *name, const char *created, const char *uid,
         const char *scope)
{
    json_t *lease =
        json_pack("{s:{s:s, s:s, s:s, s:s, s:{s:s}}}", "metadata", "namespace",
                  ns, "name", name, "creationTimestamp", created, "uid", uid,
                  "annotations", "warmpool.dev/scope", scope);

    assert_non_null(lease);
    return lease;
}

/* Takes the Leases, to the NULL. */
static void
listed(json_t *first, ...)
{
    json_t *items = json_array();
    va_list args;

    va_start(args, first);
    for (json_t *item = first; item != NULL; item = va_arg(args, json_t *)) {
        assert_int_equal(json_array_append_new(items, item), 0);
    }
    va_end(args);
    answered_json(WP_OK, json_pack("{s:o}", "items", items));
}

static void
lists_the_others(void)
{
    begin("# lists the others");
    rig.config.scope = "* pool";
    start();
    answered(WP_UNAVAILABLE);
    just_before(1000);
    answered(WP_PERMISSION_DENIED);
    answered(WP_NOT_FOUND);
    answered(WP_NOT_FOUND);
    later(30000);
    answered(WP_NOT_FOUND); /* Not the Leases: the kind. */
    later(1000);
    answered_json(WP_OK, json_object());
    answered(WP_NOT_FOUND);
    answered(WP_NOT_FOUND);
    later(30000);
    answered(WP_CANCELLED);
    end();
}

/* Only those that have an older Lease than ours, and serve what we do. */
static void
looks_at_the_older(void)
{
    begin("# looks at the older");
    rig.config.scope = "a pool";
    start();
    listed(lease_of("n1", "ours", "2026-01-02", "d", "* pool"),
           lease_of("n2", "x", "2026-01-03", "c", "a pool"),
           lease_of("n3", "x", "2026-01-03", "e", "* sandbox"),
           lease_of("n4", "x", "2026-01-03", "e", "b pool"), NULL);
    for (int i = 0; i < 4; i++) {
        answered(WP_NOT_FOUND);
    }
    later(30000);
    listed(lease_of("n1", "ours", "2026-01-02", "d", "* pool"),
           lease_of("home", "x", "2026-01-03", "b", "a pool"),
           lease_of("home", "ours", "2026-01-03", "d", "* pool"),
           lease_of("n2", "x", "2026-01-03", "c", "a pool"),
           lease_of("n3", "x", "2026-01-03", "d", "a pool"),
           lease_of("n4", "x", "2026-01-03", "e", "a pool"),
           lease_of("n5", "x", "2026-01-04", "a", "a pool"), NULL);
    for (int i = 0; i < 5; i++) {
        answered(WP_NOT_FOUND);
    }
    end();
}

static void
tells_of_another(void)
{
    begin("# tells of another");
    rig.config.scope = "a pool";
    rig.config.pools = false;
    rig.config.sandboxes = false;
    start();
    listed(lease_of("n1", "theirs", "2026-01-02", "d", "a pool"), NULL);
    answered(WP_NOT_FOUND);
    wp_clock_manual_advance(&rig.clock, 20 * WP_NS_PER_S - 1);
    answered(WP_NOT_FOUND);
    held("them", "1");
    wp_clock_manual_advance(&rig.clock, 1);
    later(999);
    later(1);
    held("them", "2");
    end();
}

/* A Lease that stands still is known to do so in the next round, by its
 * namespace and its name; one that was away is new. */
static void
remembers_each(void)
{
    begin("# remembers each");
    rig.config.scope = "a pool";
    rig.config.wait_ns = 1000 * WP_NS_PER_S;
    start();
    listed(lease_of("n1", "x", "1", "a", "a pool"),
           lease_of("n1", "y", "1", "b", "a pool"),
           lease_of("n2", "x", "1", "c", "a pool"), NULL);
    answered(WP_NOT_FOUND);
    answered(WP_NOT_FOUND);
    for (int i = 0; i < 3; i++) {
        static const char *const versions[] = {"5", "6", "7"};

        held("them", versions[i]);
        later(15000);
        held("them", versions[i]);
    }
    later(30000);
    listed(lease_of("n2", "x", "1", "c", "a pool"),
           lease_of("n1", "y", "1", "b", "a pool"), NULL);
    answered(WP_NOT_FOUND);
    answered(WP_NOT_FOUND);
    held("them", "7");
    held("them", "6");
    later(30000);
    listed(lease_of("n2", "y", "1", "d", "a pool"),
           lease_of("n1", "x", "1", "a", "a pool"),
           lease_of("n1", "y", "1", "b", "a pool"), NULL);
    answered(WP_NOT_FOUND);
    answered(WP_NOT_FOUND);
    held("them", "7");
    later(1000);
    answered(WP_NOT_FOUND);
    held("them", "6");
    later(1000);
    answered(WP_NOT_FOUND);
    held("them", "6");
    later(30000);
    listed(lease_of("n2", "y", "1", "d", "a pool"), NULL);
    for (int i = 0; i < 3; i++) {
        answered(WP_NOT_FOUND);
    }
    later(30000);
    listed(lease_of("n1", "x", "1", "a", "a pool"), NULL);
    answered(WP_NOT_FOUND);
    answered(WP_NOT_FOUND);
    held("them", "6");
    end();
}

/* Sixteen places at the most, and only names that can be ones. */
static void
looks_at_so_many(void)
{
    for (int one = 0; one < 2; one++) {
        json_t *items = json_array();
        char ns[66] = "";
        char name[258] = "";

        begin("# looks at so many");
        rig.config.scope = "a pool";
        rig.config.ns = one ? WP_COMPETITOR_NAMESPACE : "home";
        start();
        memset(ns, 'n', 64);
        memset(name, 'm', 256);
        (void)json_array_append_new(items,
                                    lease_of(ns, "x", "1", "a", "a pool"));
        (void)json_array_append_new(items,
                                    lease_of("n", name, "1", "a", "a pool"));
        ns[63] = '\0';
        name[255] = '\0';
        (void)json_array_append_new(items,
                                    lease_of(ns, name, "1", "a", "a pool"));
        for (int i = 0; i < 15; i++) {
            char other[16];

            (void)snprintf(other, sizeof other, "n%d", i);
            (void)json_array_append_new(
                items, lease_of(other, "x", "1", "a", "a pool"));
        }
        answered_json(WP_OK, json_pack("{s:o}", "items", items));
        while (rig.done != NULL) {
            answered(WP_NOT_FOUND);
        }
        later(30000);
        listed(lease_of("last", "x", "1", "a", "a pool"), NULL);
        while (rig.done != NULL) {
            answered(WP_NOT_FOUND);
        }
        end();
    }
}

/* Whatever is under way when it is stopped. */
static void
ends_early(void)
{
    begin("# ends early: a list");
    rig.config.scope = "a pool";
    start();
    end();
    begin("# ends early: a Deployment");
    start();
    wp_clock_manual_advance(&rig.clock, 20 * WP_NS_PER_S);
    held("them", "1");
    end();
    wp_competitor_stop(NULL);
}

static void
each_step(void **state)
{
    (void)state;
    finds_nobody_and_looks_again();
    looks_into_one_namespace();
    waits_as_long_as_told();
    is_alive_for_so_long();
    stands_still();
    is_none();
    judges_by_the_deployment();
    reads_flags();
    lists_the_others();
    looks_at_the_older();
    tells_of_another();
    remembers_each();
    looks_at_so_many();
    ends_early();
    journal_compare(WP_TEST_STORY);
}

/* Neither for itself nor for its timer. */
static void
no_memory(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 2; n++) {
        begin("# no memory");
        rig.memory = n;
        assert_null(wp_competitor_start(&rig.config, on_done, &rig));
        assert_int_equal(rig.memory, 0);
        event_base_free(rig.base);
        journal_is("# no memory\n");
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
