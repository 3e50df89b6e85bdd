/* A reflector step by step: what it asks for, what each answer leads to, and
 * what is told of it. The test plays the API server and its streams. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>

#include "k8s/watch/reflector_impl.h"
#include "tests/support/base/timers.h"
#include "tests/support/k8s/api_recorder.h"
#include "tests/support/pool/manual_clock.h"

static struct event_base *base;
static struct wp_clock_manual clock_;
static struct wp_api *api;
static struct wp_store *store;
static struct wp_reflector *reflector;
/* What it told. */
static uint32_t synced;
static uint32_t backs;
static uint32_t doubts;
static bool doubtful;
static uint32_t refusals;
static char refusal[128];
/* The stream, while there is one. */
static struct wp_http_stream_config stream;
static bool streaming;
static bool answered;
static char version[64];
static uint32_t timeout_s;

/* --- The client's part --- */

bool __wrap_wp_api_watch_path(const struct wp_api_target *target,
                              const struct wp_api_query *query,
                              char out[WP_HTTP_PATH_MAX]);
struct wp_http_stream *
__wrap_wp_http_stream_open(struct wp_http *http,
                           const struct wp_http_stream_config *config);
void __wrap_wp_http_stream_close(struct wp_http_stream *closed);
bool __wrap_wp_http_stream_answered(const struct wp_http_stream *asked);

bool
__wrap_wp_api_watch_path(const struct wp_api_target *target,
                         const struct wp_api_query *query,
                         char out[WP_HTTP_PATH_MAX])
{
    assert_int_equal(target->kind, WP_KIND_POD);
    assert_string_equal(target->ns, "team");
    assert_string_equal(query->label_selector, "a=b");
    assert_in_range(query->timeout_s, 300, 600);
    timeout_s = query->timeout_s;
    (void)snprintf(version, sizeof version, "%s", query->resource_version);
    out[0] = '\0';
    return true;
}

struct wp_http_stream *
__wrap_wp_http_stream_open(struct wp_http *http,
                           const struct wp_http_stream_config *config)
{
    (void)http;
    assert_false(streaming);
    stream = *config;
    streaming = true;
    answered = false;
    return (struct wp_http_stream *)(void *)&stream;
}

void
__wrap_wp_http_stream_close(struct wp_http_stream *closed)
{
    assert_ptr_equal(closed, &stream);
    streaming = false;
}

bool
__wrap_wp_http_stream_answered(const struct wp_http_stream *asked)
{
    assert_ptr_equal(asked, &stream);
    return answered;
}

/* --- What it tells --- */

static void
on_synced(void *ctx)
{
    (void)ctx;
    synced++;
}

static void
on_refused(void *ctx, int code, const char *message)
{
    (void)ctx;
    refusals++;
    (void)snprintf(refusal, sizeof refusal, "%d %s", code, message);
}

static void
on_went_back(void *ctx)
{
    (void)ctx;
    backs++;
}

static void
on_doubt(void *ctx, bool now)
{
    (void)ctx;
    assert_true(doubtful != now);
    doubtful = now;
    doubts += now;
}

static int
set_up(void **state)
{
    (void)state;
    base = event_base_new();
    wp_clock_manual_init(&clock_, 100 * WP_NS_PER_S, 100 * WP_NS_PER_S);
    api = wp_recorder_create();
    store = wp_store_create(WP_KIND_POD, NULL);
    synced = backs = doubts = refusals = 0;
    doubtful = streaming = false;
    refusal[0] = version[0] = '\0';
    reflector = wp_reflector_start(&(struct wp_reflector_config){
        .base = base,
        .clock = &clock_.clock,
        .api = api,
        .store = store,
        .kind = WP_KIND_POD,
        .ns = "team",
        .label_selector = "a=b",
        .seed = 3,
        .on_synced = on_synced,
        .on_refused = on_refused,
        .on_went_back = on_went_back,
        .on_doubt = on_doubt,
    });
    assert_non_null(reflector);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    wp_reflector_stop(reflector);
    wp_api_destroy(api);
    wp_store_destroy(store);
    event_base_free(base);
    return 0;
}

/* Its pause is over, which may be none. */
static void
fire(void)
{
    if (reflector->state == WP_REFLECTOR_LIST_SOON ||
        reflector->state == WP_REFLECTOR_WATCH_SOON) {
        timers_fire(base, reflector);
    }
}

/* It looks at its watch. */
static void
look(void)
{
    assert_int_equal(reflector->state, WP_REFLECTOR_WATCHING);
    timers_fire(base, reflector);
}

static struct wp_recorded *
asked(void)
{
    struct wp_recorded *call = wp_recorder_open(api, WP_VERB_LIST, WP_KIND_POD);

    assert_non_null(call);
    assert_string_equal(call->ns, "team");
    assert_string_equal(call->label_selector, "a=b");
    return call;
}

static json_t *
pod(const char *name, const char *its_version)
{
    return json_pack("{s:{s:s, s:s, s:s, s:s}}", "metadata", "name", name,
                     "namespace", "team", "uid", name, "resourceVersion",
                     its_version);
}

/* A page with one Pod. */
static void
page(const char *its_version, const char *cont, const char *name)
{
    json_t *list = json_pack("{s:{s:s, s:s}, s:[o]}", "metadata",
                             "resourceVersion", its_version, "continue", cont,
                             "items", pod(name, its_version));

    wp_recorder_answer(asked(), WP_OK, list);
    json_decref(list);
}

static void
refuse(enum wp_status status, int code)
{
    wp_recorder_answer_full(asked(),
                            &(struct wp_api_result){.status = status,
                                                    .code = code,
                                                    .message = "words",
                                                    .retry_after_ns = -1});
}

static struct wp_reflector_stats
stats(void)
{
    struct wp_reflector_stats out;

    wp_reflector_stats(reflector, &out);
    return out;
}

/* A whole list, and the watch from there. */
static void
watch_from(const char *its_version)
{
    fire();
    page(its_version, "", "p");
    assert_false(streaming);
    fire();
    assert_true(streaming);
    assert_string_equal(version, its_version);
}

static bool
says(const char *line)
{
    answered = true;
    return stream.on_bytes(stream.ctx, wp_str_from(line));
}

static void
ends(enum wp_status status, int code)
{
    struct wp_http_stream_config ended = stream;

    streaming = false;
    ended.on_end(ended.ctx, &(struct wp_http_answer){.status = status,
                                                     .code = code,
                                                     .retry_after_ns = -1,
                                                     .error = "words"});
}

#define CHANGE(type, name, version)                                            \
    "{\"type\":\"" type "\",\"object\":{\"metadata\":{\"name\":\"" name        \
    "\",\"namespace\":\"team\",\"uid\":\"" name                                \
    "\",\"resourceVersion\":\"" version "\"}}}\n"

static const char *
known_version(const char *name)
{
    const struct wp_object *object = wp_store_find(store, "team", name);

    return object != NULL ? object->resource_version : "";
}

/* --- Lists --- */

/* What the list has counts beside what was known before it was made, older or
 * not; what is known from after it stays. */
static void
lists_overrule_what_was_before_them(void **state)
{
    struct wp_object *object;
    json_t *written; /* By this client, and answered. */
    json_t *list;

    (void)state;
    watch_from("7");
    assert_true(says(CHANGE("MODIFIED", "p", "20")));
    assert_true(says(CHANGE("ADDED", "q", "18")));
    assert_true(says(CHANGE("ADDED", "r", "19")));
    written = pod("q", "21");
    object = wp_object_create(WP_KIND_POD, written, NULL);
    assert_non_null(object);
    wp_store_learn(store, object);
    json_decref(written);
    assert_string_equal(known_version("p"), "20");
    ends(WP_OK, 410);
    fire();
    list = json_pack("{s:{s:s}, s:[o, o]}", "metadata", "resourceVersion", "20",
                     "items", pod("p", "5"), pod("q", "6"));
    wp_recorder_answer(asked(), WP_OK, list);
    json_decref(list);
    assert_string_equal(known_version("p"), "5");
    assert_string_equal(known_version("q"), "21");
    assert_string_equal(known_version("r"), "");
}

static void
page_by_page(void **state)
{
    (void)state;
    fire();
    assert_int_equal(asked()->limit, 500);
    assert_string_equal(asked()->cont, "");
    page("7", "next", "a");
    assert_int_equal(synced, 0);
    assert_string_equal(asked()->cont, "next");
    assert_int_equal(asked()->limit, 500);
    page("7", "", "b");
    assert_int_equal(synced, 1);
    assert_int_equal(wp_store_count(store), 2);
    assert_int_equal(stats().lists, 1);
    fire();
    assert_true(streaming);
    assert_string_equal(version, "7");
    assert_int_equal(stats().watches, 1);
    /* It is looked at when a bookmark should have come. */
    assert_true(timers_left_s(base, reflector) > 0 &&
                timers_left_s(base, reflector) < 91);
    assert_int_equal(doubts + refusals + backs, 0);
}

static void
lists_that_fail(void **state)
{
    static const struct {
        enum wp_status status;
        int code;
        bool refused;
        bool gone;
    } cases[] = {
        {WP_UNKNOWN_OUTCOME, 500, false, false},
        {WP_PERMISSION_DENIED, 403, true, false},
        {WP_NOT_FOUND, 404, true, false},
        {WP_DEADLINE_EXCEEDED, 410, false, true},
        {WP_UNAVAILABLE, 0, false, false},
    };
    uint64_t gone = 0;
    uint32_t refused = 0;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        char words[32];

        fire();
        assert_int_equal(asked()->limit, 500);
        refuse(cases[i].status, cases[i].code);
        gone += cases[i].gone;
        refused += cases[i].refused;
        assert_int_equal(stats().gone, gone);
        assert_int_equal(refusals, refused);
        if (cases[i].refused) {
            (void)snprintf(words, sizeof words, "%d words", cases[i].code);
            assert_string_equal(refusal, words);
        }
        assert_int_equal(reflector->failures, i + 1);
        assert_true(timers_left_s(base, reflector) >= 0);
        assert_int_equal(stats().lists, i + 1);
    }
    fire();
    page("7", "", "p");
    assert_int_equal(synced, 1);
}

/* What cannot be used because it is too long is asked for in smaller parts, and
 * those grow again. */
static void
pages_shrink_and_grow(void **state)
{
    static const uint32_t down[] = {500, 125, 31, 7, 1, 1};
    static const uint32_t up[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 500};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(down); i++) {
        fire();
        assert_int_equal(asked()->limit, down[i]);
        if (i < WP_ARRAY_LEN(down) - 1) {
            refuse(WP_UNKNOWN_OUTCOME, 200);
            /* No long pause, unless there is nothing left to shrink. */
            assert_int_equal(reflector->failures, down[i] > 1 ? 1 : 2);
        }
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(up); i++) {
        assert_int_equal(asked()->limit, up[i]);
        page("7", "", "p");
        fire();
        ends(WP_OK, 410);
        fire();
    }
}

static void
lists_that_make_no_sense(void **state)
{
    static const char *const texts[] = {
        "{}",
        "{\"metadata\":{\"resourceVersion\":\"7\"},\"items\":{}}",
        "{\"metadata\":{\"resourceVersion\":\"\"},\"items\":[]}",
        "{\"metadata\":{},\"items\":[]}",
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(texts); i++) {
        json_t *list = json_loads(texts[i], 0, NULL);

        fire();
        wp_recorder_answer(asked(), WP_OK, list);
        json_decref(list);
        assert_int_equal(stats().broken, i + 1);
        assert_int_equal(synced, 0);
    }
}

/* --- Watches --- */

static void
changes_are_taken_once(void **state)
{
    (void)state;
    watch_from("7");
    assert_true(says(CHANGE("ADDED", "a", "8")));
    assert_int_equal(wp_store_count(store), 2);
    assert_true(says(CHANGE("DELETED", "a", "8")));
    assert_true(says(CHANGE("DELETED", "a", "6")));
    assert_int_equal(wp_store_count(store), 2);
    assert_true(says(CHANGE("BOOKMARK", "x", "9")));
    assert_true(says("\n"));
    assert_true(says(CHANGE("DELETED", "a", "10")));
    assert_int_equal(wp_store_count(store), 1);
    assert_int_equal(stats().events, 4);
    assert_int_equal(stats().bookmarks, 1);
    /* It goes on from the last one, in no hurry, and is sure of nothing. */
    ends(WP_OK, 200);
    assert_int_equal(doubts, 1);
    fire();
    assert_true(streaming);
    assert_string_equal(version, "10");
    assert_true(doubtful);
    assert_true(says(CHANGE("BOOKMARK", "x", "11")));
    assert_false(doubtful);
    assert_int_equal(stats().lists, 1);
}

/* One that lasted as long as was asked for leaves no doubt. */
static void
a_watch_that_lasted(void **state)
{
    (void)state;
    watch_from("7");
    answered = true;
    wp_clock_manual_advance(&clock_, 600 * WP_NS_PER_S);
    ends(WP_OK, 200);
    assert_int_equal(doubts, 0);
    assert_int_equal(reflector->failures, 0);
    fire();
    assert_true(streaming);
    assert_string_equal(version, "7");
    assert_int_equal(stats().probes, 0);
}

/* They are spread over five minutes, both ends included. */
static void
watches_are_asked_for_five_to_ten_minutes(void **state)
{
    static const uint32_t extras[] = {0, 150, 300};

    (void)state;
    watch_from("7");
    for (size_t i = 0; i < WP_ARRAY_LEN(extras); i++) {
        struct wp_rng draws;
        uint64_t seed = 0;

        do {
            wp_rng_init(&draws, ++seed);
        } while (wp_rng_below(&draws, 301) != extras[i]);
        ends(WP_OK, 200);
        assert_int_equal(reflector->state, WP_REFLECTOR_WATCH_SOON);
        wp_rng_init(&reflector->rng, seed);
        fire();
        assert_true(streaming);
        assert_int_equal(timeout_s, 300 + extras[i]);
    }
}

/* In doubt, one that goes on for a second has proved itself. */
static void
a_watch_that_goes_on(void **state)
{
    (void)state;
    watch_from("7");
    ends(WP_OK, 200);
    assert_true(doubtful);
    fire();
    answered = true;
    look();
    assert_true(doubtful); /* Not for so long yet. */
    answered = false;
    wp_clock_manual_advance(&clock_, WP_NS_PER_S);
    look();
    assert_true(doubtful); /* Nobody has answered yet. */
    answered = true;
    look();
    assert_false(doubtful);
    assert_true(streaming);
}

static void
a_watch_that_stands_still(void **state)
{
    (void)state;
    watch_from("7");
    wp_clock_manual_advance(&clock_, 85 * WP_NS_PER_S);
    look();
    assert_true(streaming);
    assert_true(says("\n"));
    wp_clock_manual_advance(&clock_, 85 * WP_NS_PER_S);
    look();
    assert_true(streaming);
    wp_clock_manual_advance(&clock_, 5 * WP_NS_PER_S);
    look();
    assert_false(streaming);
    assert_int_equal(stats().stalled, 1);
    assert_true(doubtful);
    fire();
    page("9", "", "p");
    assert_false(doubtful);
    assert_int_equal(stats().lists, 2);
}

/* What the server says of a version, or as a refusal. */
static void
watches_that_are_refused(void **state)
{
    static const struct {
        int code;
        uint32_t times; /* Until a list is asked for. */
        bool gone;
    } cases[] = {
        {410, 1, true},  {403, 1, false}, {404, 1, false},
        {400, 3, false}, {504, 3, false},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        uint64_t gone = stats().gone;
        uint64_t lists = stats().lists;

        watch_from("7");
        for (uint32_t n = 1; n <= cases[i].times; n++) {
            ends(WP_OK, cases[i].code);
            assert_true(doubtful);
            if (n < cases[i].times) {
                fire();
                assert_true(streaming);
            }
        }
        assert_int_equal(stats().gone - gone, cases[i].gone);
        fire();
        assert_false(streaming);
        assert_int_equal(stats().lists - lists, 2);
        page("7", "", "p");
        fire();
        assert_true(streaming);
        ends(WP_OK, 410); /* So that the next one begins with a list. */
    }
}

static void
watches_that_end_in_an_error(void **state)
{
    (void)state;
    watch_from("7");
    assert_false(says("{\"type\":\"ERROR\",\"object\":{\"code\":410}}\n"));
    ends(WP_CANCELLED, 200);
    assert_int_equal(stats().gone, 1);
    watch_from("8");
    for (int n = 0; n < 3; n++) {
        assert_false(says("{\"type\":\"ERROR\",\"object\":{\"code\":500}}\n"));
        ends(WP_OK, 200);
        if (n < 2) {
            fire();
            assert_true(streaming);
        }
    }
    watch_from("9");
    assert_false(says("nonsense\n"));
    ends(WP_OK, 200);
    assert_int_equal(stats().broken, 1);
    watch_from("10");
    assert_int_equal(stats().gone, 1);
    assert_int_equal(stats().lists, 4);
}

/* --- A connection that broke --- */

static void
probe_with(const char *its_version)
{
    watch_from("7");
    ends(WP_UNKNOWN_OUTCOME, 200);
    fire();
    assert_false(streaming);
    assert_int_equal(asked()->limit, 1);
    assert_int_equal(stats().probes, 1);
    assert_int_equal(reflector->state, WP_REFLECTOR_PROBING);
    page(its_version, "", "q");
}

static void
the_same_server_is_watched_on(void **state)
{
    (void)state;
    probe_with("7");
    assert_true(streaming);
    assert_string_equal(version, "7");
    assert_int_equal(stats().lists, 1);
    assert_int_equal(backs, 0);
    /* It is sure now: the next end is one like any other. */
    ends(WP_OK, 200);
    fire();
    assert_true(streaming);
    assert_int_equal(stats().probes, 1);
}

static void
an_older_server_is_listed_whole(void **state)
{
    (void)state;
    probe_with("6");
    assert_false(streaming);
    assert_int_equal(backs, 0);
    page("6", "", "r");
    assert_int_equal(backs, 1);
    assert_int_equal(wp_store_count(store), 1);
    assert_non_null(wp_store_find(store, "team", "r"));
    assert_int_equal(stats().lists, 2);
    fire();
    assert_true(streaming);
    assert_string_equal(version, "6");
    /* That is over. */
    ends(WP_OK, 200);
    fire();
    assert_int_equal(stats().probes, 1);
}

static void
a_probe_that_fails(void **state)
{
    (void)state;
    watch_from("7");
    ends(WP_UNKNOWN_OUTCOME, 200);
    fire();
    refuse(WP_UNAVAILABLE, 0);
    fire();
    assert_int_equal(stats().probes, 2);
    assert_int_equal(asked()->limit, 1);
    refuse(WP_NOT_FOUND, 404);
    assert_int_equal(refusals, 0);
    assert_int_equal(asked()->limit, 500);
    assert_int_equal(stats().lists, 2);
}

/* Another one has found it: what this one knows goes, and nobody is told
 * again. */
static void
an_older_server_that_another_found(void **state)
{
    (void)state;
    watch_from("7");
    wp_reflector_went_back(reflector);
    look();
    assert_false(streaming);
    assert_int_equal(stats().stalled, 0);
    fire();
    page("5", "", "r");
    assert_int_equal(backs, 0);
    assert_int_equal(wp_store_count(store), 1);
    assert_non_null(wp_store_find(store, "team", "r"));
    assert_int_equal(stats().lists, 2);
    assert_int_equal(stats().probes, 0);
}

/* --- The end --- */

static void
without_a_client_all_ends(void **state)
{
    (void)state;
    watch_from("7");
    ends(WP_CANCELLED, 0);
    assert_true(timers_left_s(base, reflector) < 0);
    assert_int_equal(doubts, 0);
    wp_reflector_went_back(reflector);
    assert_true(timers_left_s(base, reflector) < 0);
}

#define REFLECTOR(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        REFLECTOR(page_by_page),
        REFLECTOR(lists_overrule_what_was_before_them),
        REFLECTOR(watches_are_asked_for_five_to_ten_minutes),
        REFLECTOR(lists_that_fail),
        REFLECTOR(pages_shrink_and_grow),
        REFLECTOR(lists_that_make_no_sense),
        REFLECTOR(changes_are_taken_once),
        REFLECTOR(a_watch_that_lasted),
        REFLECTOR(a_watch_that_goes_on),
        REFLECTOR(a_watch_that_stands_still),
        REFLECTOR(watches_that_are_refused),
        REFLECTOR(watches_that_end_in_an_error),
        REFLECTOR(the_same_server_is_watched_on),
        REFLECTOR(an_older_server_is_listed_whole),
        REFLECTOR(an_older_server_that_another_found),
        REFLECTOR(a_probe_that_fails),
        REFLECTOR(without_a_client_all_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
