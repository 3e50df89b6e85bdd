/* Is upstream's controller active beside us? Its Lease and its Deployment say,
 * on a clock that moves when told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>

#include "k8s/objects/json.h"
#include "k8s/lead/competitor.h"
#include "pool/base/clock.h"

#define WALL_NS (INT64_C(1700000000) * WP_NS_PER_S)

struct wp_api {
    struct rig *rig;
};

struct rig {
    struct wp_api api;
    struct event_base *base;
    struct wp_clock_manual clock;
    struct wp_competitor *competitor;
    /* The world: upstream's Lease in one namespace, and its Deployment. */
    const char *ns;
    const char *holder;
    int64_t renewed_ns; /* By the wall clock; it renews while renews. */
    bool renews;
    uint32_t version;
    const char *deployment; /* NULL: 403. */
    bool silent;            /* The API server does not answer. */
    /* What came out. */
    uint32_t done;
    uint32_t reads;
    char conflict[512];
    /* A call that waits for its answer. */
    wp_api_done *get_done;
    void *get_ctx;
    char get_ns[64];
    struct wp_http_request http;
    char http_path[256];
};

void
wp_api_get(struct wp_api *api, const struct wp_api_target *target,
           wp_api_done *done, void *ctx)
{
    struct rig *rig = api->rig;

    assert_int_equal(target->kind, WP_KIND_LEASE);
    assert_string_equal(target->name, "a3317529.agent-sandbox.x-k8s.io");
    assert_null(rig->get_done);
    rig->get_done = done;
    rig->get_ctx = ctx;
    rig->reads++;
    (void)snprintf(rig->get_ns, sizeof rig->get_ns, "%s", target->ns);
}

/* The client is never looked into. */
struct wp_http {
    struct rig *rig;
};

static struct wp_http http;

struct wp_http *
wp_api_http(const struct wp_api *api)
{
    http.rig = api->rig;
    return &http;
}

void
wp_http_send(struct wp_http *to, const struct wp_http_request *request)
{
    struct rig *rig = to->rig;

    assert_string_equal(request->method, "GET");
    assert_null(rig->http.done);
    rig->http = *request;
    (void)snprintf(rig->http_path, sizeof rig->http_path, "%s", request->path);
}

static void
answer_get(struct rig *rig)
{
    wp_api_done *done = rig->get_done;
    struct wp_api_result result = {
        .status = WP_NOT_FOUND, .code = 404, .retry_after_ns = -1};
    char renewed[40];
    char version[16];

    rig->get_done = NULL;
    if (rig->silent) {
        result.status = WP_UNAVAILABLE;
    } else if (rig->holder != NULL && strcmp(rig->ns, rig->get_ns) == 0) {
        (void)wp_time_format_utc(rig->renewed_ns, 6, renewed);
        (void)snprintf(version, sizeof version, "%u", rig->version);
        result.status = WP_OK;
        result.object = json_pack(
            "{s:{s:s}, s:{s:s, s:i, s:s}}", "metadata", "resourceVersion",
            version, "spec", "holderIdentity", rig->holder,
            "leaseDurationSeconds", 15, "renewTime", renewed);
        assert_non_null(result.object);
    }
    done(rig->get_ctx, &result);
    json_decref(result.object);
}

static void
answer_http(struct rig *rig)
{
    void (*done)(void *ctx, const struct wp_http_answer *answer) =
        rig->http.done;
    const struct wp_http_answer answer = {
        .status = WP_OK,
        .code = rig->deployment != NULL ? 200 : 403,
        .body = wp_str_from(rig->deployment != NULL ? rig->deployment : "{}"),
        .retry_after_ns = -1,
    };
    char path[256];

    (void)snprintf(path, sizeof path,
                   "/apis/apps/v1/namespaces/%s/deployments/"
                   "agent-sandbox-controller",
                   rig->ns);
    assert_string_equal(rig->http_path, path);
    rig->http.done = NULL;
    done(rig->http.ctx, &answer);
}

static void
on_done(void *ctx, const char *conflict)
{
    struct rig *rig = ctx;

    rig->done++;
    (void)snprintf(rig->conflict, sizeof rig->conflict, "%s",
                   conflict != NULL ? conflict : "");
    wp_competitor_stop(rig->competitor);
    rig->competitor = NULL;
}

static void
start(struct rig *rig, bool pools, bool sandboxes)
{
    rig->competitor = wp_competitor_start(
        &(struct wp_competitor_config){.base = rig->base,
                                       .clock = &rig->clock.clock,
                                       .api = &rig->api,
                                       .ns = "home",
                                       .pools = pools,
                                       .sandboxes = sandboxes},
        on_done, rig);
    assert_non_null(rig->competitor);
}

static void
settle(struct rig *rig)
{
    bool any;

    do {
        any = false;
        if (rig->competitor != NULL) {
            wp_competitor_look(rig->competitor);
        }
        assert_int_not_equal(event_base_loop(rig->base, EVLOOP_NONBLOCK), -1);
        if (rig->get_done != NULL) {
            answer_get(rig);
            any = true;
        }
        if (rig->http.done != NULL) {
            answer_http(rig);
            any = true;
        }
    } while (any);
}

/* Until it has said something, for so many seconds. */
static int
seconds_to_answer(struct rig *rig, int max)
{
    for (int s = 0; s <= max; s++) {
        settle(rig);
        if (rig->done > 0) {
            return s;
        }
        wp_clock_manual_advance(&rig->clock, WP_NS_PER_S);
        if (rig->renews && s % 2 == 0) {
            rig->renewed_ns = rig->clock.now_wall_ns;
            rig->version++;
        }
    }
    return -1;
}

static int
set_up(void **state)
{
    struct rig *rig = calloc(1, sizeof *rig);

    assert_non_null(rig);
    rig->api.rig = rig;
    rig->base = event_base_new();
    wp_clock_manual_init(&rig->clock, WP_NS_PER_S, WALL_NS);
    rig->ns = "agent-sandbox-system";
    rig->renewed_ns = WALL_NS;
    rig->version = 1;
    *state = rig;
    return 0;
}

static int
tear_down(void **state)
{
    struct rig *rig = *state;

    wp_competitor_stop(rig->competitor);
    event_base_free(rig->base);
    free(rig);
    return 0;
}

#define WITH(args)                                                             \
    "{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"args\":[" args      \
    "]}]}}}}"

/* No Lease: nothing is waited for. */
static void
nobody(void **state)
{
    struct rig *rig = *state;

    start(rig, true, true);
    assert_int_equal(seconds_to_answer(rig, 0), 0);
    assert_string_equal(rig->conflict, "");
    assert_int_equal(rig->reads, 2); /* There, and at home. */
}

/* One that was given up, or renewed long ago, is nobody. */
static void
stopped(void **state)
{
    struct rig *rig = *state;

    rig->holder = "";
    start(rig, true, true);
    assert_int_equal(seconds_to_answer(rig, 0), 0);
    rig->done = 0;
    rig->holder = "old";
    rig->renewed_ns = WALL_NS - 600 * WP_NS_PER_S;
    start(rig, true, true);
    assert_int_equal(seconds_to_answer(rig, 0), 0);
    assert_string_equal(rig->conflict, "");
}

/* It was killed a moment ago: its Lease stands still, and is waited out. */
static void
killed(void **state)
{
    struct rig *rig = *state;

    rig->holder = "dead";
    start(rig, true, true);
    assert_int_equal(seconds_to_answer(rig, 30), 15);
    assert_string_equal(rig->conflict, "");
}

/* A clock that is ahead says nothing: what stands still is dead. */
static void
skewed(void **state)
{
    struct rig *rig = *state;

    rig->holder = "ahead";
    rig->renewed_ns = WALL_NS + 3600 * WP_NS_PER_S;
    start(rig, true, true);
    assert_int_equal(seconds_to_answer(rig, 30), 15);
    assert_string_equal(rig->conflict, "");
}

/* It lives, with the extensions: we cannot. The words say where it is. */
static void
alive(void **state)
{
    struct rig *rig = *state;

    rig->holder = "pod_1";
    rig->renews = true;
    rig->deployment = WITH("\"--leader-elect=true\", \"--extensions\"");
    start(rig, true, false);
    assert_int_equal(seconds_to_answer(rig, 30), 20);
    assert_non_null(strstr(rig->conflict, "agent-sandbox-system"));
    assert_non_null(strstr(rig->conflict, "pod_1"));
    assert_non_null(strstr(rig->conflict, "take --extensions from"));
}

/* Without them it makes Pods only, which is fine unless we do. */
static void
alive_without(void **state)
{
    struct rig *rig = *state;

    rig->ns = "home";
    rig->holder = "pod_1";
    rig->renews = true;
    rig->deployment = WITH("\"--extensions=false\"");
    start(rig, true, false);
    assert_int_equal(seconds_to_answer(rig, 30), 20);
    assert_string_equal(rig->conflict, "");
    rig->done = 0;
    start(rig, true, true);
    assert_int_equal(seconds_to_answer(rig, 30), 20);
    assert_non_null(strstr(rig->conflict, "home"));
}

/* A Deployment that may not be read is taken to have them. */
static void
unreadable(void **state)
{
    struct rig *rig = *state;

    rig->holder = "pod_1";
    rig->renews = true;
    start(rig, true, false);
    assert_int_equal(seconds_to_answer(rig, 30), 20);
    assert_non_null(strstr(rig->conflict, "could not be read"));
    rig->done = 0;
    rig->conflict[0] = '\0';
    start(rig, false, false);
    assert_int_equal(seconds_to_answer(rig, 30), 20);
    assert_string_equal(rig->conflict, "");
}

/* An API server that is out of reach answers some day. */
static void
unanswered(void **state)
{
    struct rig *rig = *state;

    rig->silent = true;
    start(rig, true, true);
    assert_int_equal(seconds_to_answer(rig, 40), -1);
    rig->silent = false;
    assert_int_equal(seconds_to_answer(rig, 2), 0);
    assert_string_equal(rig->conflict, "");
}

/* Stopped while a question is under way: its answer finds nobody. */
static void
stop_early(void **state)
{
    struct rig *rig = *state;

    start(rig, true, true);
    assert_int_not_equal(event_base_loop(rig->base, EVLOOP_NONBLOCK), -1);
    assert_non_null(rig->get_done);
    wp_competitor_stop(rig->competitor);
    rig->competitor = NULL;
    answer_get(rig);
    assert_int_equal(rig->done, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nobody),     TEST(stopped),    TEST(killed),
        TEST(skewed),     TEST(alive),      TEST(alive_without),
        TEST(unreadable), TEST(unanswered), TEST(stop_early),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
