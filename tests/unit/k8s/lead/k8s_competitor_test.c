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
#include "tests/support/base/heard.h"
#include "tests/support/pool/manual_clock.h"

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
    int lease_s;
    uint32_t version;
    const char *deployment; /* NULL: 403. */
    bool silent;            /* The API server does not answer. */
    json_t *others;         /* Leases of installations that serve; NULL: 403. */
    uint32_t lists;
    const char *scope;
    bool looks_on; /* Also after a look that found nobody. */
    /* What came out. */
    uint32_t done;
    uint32_t reads;
    char conflict[512];
    /* A call that waits for its answer. */
    wp_api_done *get_done;
    void *get_ctx;
    char get_ns[64]; /* "": a list. */
    char get_name[64];
    struct wp_http_request http;
    char http_path[256];
};

void
wp_api_get(struct wp_api *api, const struct wp_api_target *target,
           wp_api_done *done, void *ctx)
{
    struct rig *rig = api->rig;

    assert_int_equal(target->kind, WP_KIND_LEASE);
    assert_null(rig->get_done);
    (void)snprintf(rig->get_name, sizeof rig->get_name, "%s", target->name);
    rig->get_done = done;
    rig->get_ctx = ctx;
    rig->reads++;
    (void)snprintf(rig->get_ns, sizeof rig->get_ns, "%s", target->ns);
}

void
wp_api_list(struct wp_api *api, const struct wp_api_target *target,
            const struct wp_api_query *query, wp_api_done *done, void *ctx)
{
    struct rig *rig = api->rig;

    assert_int_equal(target->kind, WP_KIND_LEASE);
    assert_null(target->ns);
    assert_string_equal(query->label_selector, "warmpool.dev/serving=true");
    assert_null(rig->get_done);
    rig->get_done = done;
    rig->get_ctx = ctx;
    rig->get_ns[0] = '\0';
    rig->lists++;
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

/* One of the other installations; it renews while all do. */
static json_t *
find_other(struct rig *rig)
{
    json_t *item;
    size_t i;

    json_array_foreach(rig->others, i, item)
    {
        if (strcmp(wp_json_text(item, "metadata", "namespace", NULL),
                   rig->get_ns) == 0) {
            char renewed[40];
            char version[16];

            (void)wp_time_format_utc(rig->renewed_ns, 6, renewed);
            (void)snprintf(version, sizeof version, "%u", rig->version);
            wp_json_set_text(json_object_get(item, "metadata"),
                             "resourceVersion", version);
            wp_json_set(item, "spec",
                        json_pack("{s:s, s:i, s:s}", "holderIdentity", "them",
                                  "leaseDurationSeconds", 3, "renewTime",
                                  renewed));
            return item;
        }
    }
    return NULL;
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
    if (rig->get_ns[0] == '\0') {
        result.status = rig->others != NULL ? WP_OK : WP_PERMISSION_DENIED;
        result.object = json_pack("{s:o}", "items",
                                  rig->others != NULL ? json_incref(rig->others)
                                                      : json_array());
    } else if (strcmp(rig->get_name, "a3317529.agent-sandbox.x-k8s.io") != 0) {
        result.status = WP_OK;
        result.object = json_incref(find_other(rig));
        assert_non_null(result.object);
    } else if (rig->silent) {
        result.status = WP_UNAVAILABLE;
    } else if (rig->holder != NULL && strcmp(rig->ns, rig->get_ns) == 0) {
        (void)wp_time_format_utc(rig->renewed_ns, 6, renewed);
        (void)snprintf(version, sizeof version, "%u", rig->version);
        result.status = WP_OK;
        result.object = json_pack(
            "{s:{s:s}, s:{s:s, s:i, s:s}}", "metadata", "resourceVersion",
            version, "spec", "holderIdentity", rig->holder,
            "leaseDurationSeconds", rig->lease_s, "renewTime", renewed);
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
    if (!rig->looks_on || conflict != NULL) {
        wp_competitor_stop(rig->competitor);
        rig->competitor = NULL;
    }
}

static void
start(struct rig *rig, bool pools, bool sandboxes)
{
    rig->competitor = wp_competitor_start(
        &(struct wp_competitor_config){.base = rig->base,
                                       .clock = &rig->clock.clock,
                                       .api = &rig->api,
                                       .ns = "home",
                                       .name = "warmpool-controller",
                                       .scope = rig->scope,
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
    rig->lease_s = 15;
    *state = rig;
    return 0;
}

static int
tear_down(void **state)
{
    struct rig *rig = *state;

    wp_competitor_stop(rig->competitor);
    event_base_free(rig->base);
    json_decref(rig->others);
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

/* What its Lease says of its time is believed from a second to ten minutes, and
 * clocks that are a minute apart: at that very end it is waited for. */
static void
ends_of_its_time(void **state)
{
    static const struct {
        int lease_s;
        int64_t ago_ms;
        int answer_s;
    } rows[] = {{15, 75000, 1},   {15, 75001, 0},   {0, 61000, 1},
                {0, 61001, 0},    {-5, 61001, 0},   {1, 61000, 1},
                {600, 660000, 1}, {600, 660001, 0}, {601, 660000, 1},
                {601, 660001, 0}, {1, 0, 1}};
    struct rig *rig = *state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        rig->holder = "old";
        rig->done = 0;
        rig->version++;
        rig->lease_s = rows[i].lease_s;
        rig->renewed_ns =
            rig->clock.now_wall_ns - rows[i].ago_ms * WP_NS_PER_MS;
        start(rig, true, true);
        assert_int_equal(seconds_to_answer(rig, 700), rows[i].answer_s);
        assert_string_equal(rig->conflict, "");
    }
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

/* One that goes on beside us is told of once, however often it is seen. */
static void
alive_without_is_told_once(void **state)
{
    static struct heard heard;
    struct rig *rig = *state;

    rig->holder = "pod_1";
    rig->renews = true;
    rig->deployment = WITH("\"--extensions=false\"");
    rig->looks_on = true;
    heard_begin(&heard);
    start(rig, true, false);
    for (int minutes = 0; minutes < 10; minutes++) {
        rig->done = 0;
        (void)seconds_to_answer(rig, 60);
    }
    assert_string_equal(
        heard_end(&heard),
        "INFO waiting for another controller to let go of its Lease "
        "lease=a3317529.agent-sandbox.x-k8s.io "
        "namespace=agent-sandbox-system holder=pod_1\n"
        "INFO agent-sandbox-controller is active without --extensions: it "
        "makes the Pods, this one keeps the pools "
        "namespace=agent-sandbox-system holder=pod_1\n");
    assert_string_equal(rig->conflict, "");
    assert_true(rig->reads > 20);
}

/* The flag as Go reads it: some of these are on, and the last one counts. */
static void
flags(void **state)
{
    static const struct {
        const char *args;
        bool on;
    } rows[] = {
        {"\"--extensions=1\"", true},
        {"\"-extensions=T\"", true},
        {"\"--extensions=True\"", true},
        {"\"--extensions=false\", \"--extensions\"", true},
        {"\"--extensions=0\"", false},
        {"\"--extensions\", \"--extensions=f\"", false},
        {"\"--extensions-of=1\", \"extensions\"", false},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct rig *rig = *state;
        char text[256];

        (void)snprintf(text, sizeof text, WITH("%s"), rows[i].args);
        rig->holder = "pod_1";
        rig->renews = true;
        rig->renewed_ns = rig->clock.now_wall_ns;
        rig->deployment = text;
        rig->done = 0;
        start(rig, true, false);
        assert_int_equal(seconds_to_answer(rig, 30), 20);
        assert_int_equal(rig->conflict[0] != '\0', rows[i].on);
    }
}

/* It is started when this one leads already: that is seen, too. */
static void
comes_later(void **state)
{
    struct rig *rig = *state;

    rig->looks_on = true;
    start(rig, true, true);
    assert_int_equal(seconds_to_answer(rig, 0), 0);
    assert_string_equal(rig->conflict, "");
    rig->looks_on = false;
    rig->done = 0;
    rig->holder = "pod_1";
    rig->renews = true;
    rig->deployment = WITH("\"--extensions\"");
    assert_in_range(seconds_to_answer(rig, 120), 20, 60);
    assert_non_null(strstr(rig->conflict, "pod_1"));
}

#define ALL "* pool,claim,template,sandbox"

static void
add_lease(struct rig *rig, const char *ns, const char *created,
          const char *scope)
{
    if (rig->others == NULL) {
        rig->others = json_array();
    }
    (void)json_array_append_new(
        rig->others, json_pack("{s:{s:s, s:s, s:s, s:s, s:{s:s}}}", "metadata",
                               "namespace", ns, "name", "warmpool-controller",
                               "uid", ns, "creationTimestamp", created,
                               "annotations", "warmpool.dev/scope", scope));
}

/* Another installation serves: this one refuses, unless they share nothing, or
 * the other one has the younger Lease while both serve, or stands still. */
static void
other_installation(void **state)
{
    static const struct {
        const char *ours;
        const char *theirs;
        const char *own_since; /* NULL: we do not serve yet. */
        bool renews;
        bool conflict;
    } rows[] = {
        {ALL, ALL, NULL, true, true},
        {ALL, "", NULL, true, true},
        {ALL, "team pool", NULL, true, true},
        {"team claim,pool", "team pool", NULL, true, true},
        {"team pool", "other pool", NULL, true, false},
        {"* sandbox", "* pool,claim,template", NULL, true, false},
        {ALL, ALL, "2026-01-01T00:00:00Z", true, false},
        {ALL, ALL, "2026-03-01T00:00:00Z", true, true},
        {ALL, ALL, NULL, false, false},
    };
    struct rig *rig = *state;

    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        json_decref(rig->others);
        rig->others = NULL;
        add_lease(rig, "other", "2026-02-01T00:00:00Z", rows[i].theirs);
        if (rows[i].own_since != NULL) {
            add_lease(rig, "home", rows[i].own_since, rows[i].ours);
        }
        rig->scope = rows[i].ours;
        rig->renews = rows[i].renews;
        rig->renewed_ns = rig->clock.now_wall_ns;
        rig->done = 0;
        rig->conflict[0] = '\0';
        start(rig, true, true);
        assert_in_range(seconds_to_answer(rig, 30), 0, 20);
        assert_int_equal(rig->conflict[0] != '\0', rows[i].conflict);
        assert_true(!rows[i].conflict ||
                    strstr(rig->conflict, "in the namespace other") != NULL);
    }
    /* Who may not list all Leases sees none, and goes on. */
    json_decref(rig->others);
    rig->others = NULL;
    rig->done = 0;
    rig->conflict[0] = '\0';
    start(rig, true, true);
    assert_int_equal(seconds_to_answer(rig, 0), 0);
    assert_string_equal(rig->conflict, "");
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
        TEST(nobody),
        TEST(stopped),
        TEST(ends_of_its_time),
        TEST(killed),
        TEST(skewed),
        TEST(alive),
        TEST(alive_without),
        TEST(unreadable),
        TEST(unanswered),
        TEST(stop_early),
        TEST(flags),
        TEST(comes_later),
        TEST(other_installation),
        TEST(alive_without_is_told_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
