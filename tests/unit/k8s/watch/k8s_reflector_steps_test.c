/* Each step of a reflector: what it asks the API server for, what it then waits
 * for and how long, what it tells its owner and the log, what it counts and what
 * the store has, is compared whole with k8s_reflector_steps.txt. */
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

#include "k8s/watch/reflector_impl.h"
#include "tests/support/base/heard.h"
#include "tests/support/base/journal.h"
#include "tests/support/k8s/reflector_fakes.h"

#define S WP_NS_PER_S
#define HALF_S (WP_NS_PER_S / 2)

static struct heard heard;

/* --- What it tells --- */

static void
say(const char *what)
{
    journal("%s", what);
    journal_line();
}

static void
on_synced(void *ctx)
{
    assert_ptr_equal(ctx, &world);
    say("  synced");
}

static void
on_refused(void *ctx, int code, const char *message)
{
    assert_ptr_equal(ctx, &world);
    journal("  refused %d '%s'", code, message);
    journal_line();
}

static void
on_went_back(void *ctx)
{
    assert_ptr_equal(ctx, &world);
    say("  went back");
}

static void
on_doubt(void *ctx, bool doubtful)
{
    assert_ptr_equal(ctx, &world);
    journal("  doubt %d", doubtful);
    journal_line();
}

static bool
show_object(void *ctx, const struct wp_object *object)
{
    (void)ctx;
    journal(" %s@%s", object->name, object->resource_version);
    return true;
}

/* What it has counted, and what is known. */
static void
shows(void)
{
    struct wp_reflector_stats stats;

    if (world.reflector == NULL) {
        return;
    }
    wp_reflector_stats(world.reflector, &stats);
    journal("  = lists %" PRIu64 " watches %" PRIu64 " probes %" PRIu64
            " events %" PRIu64 " bookmarks %" PRIu64 " gone %" PRIu64
            " stalled %" PRIu64 " broken %" PRIu64 ":",
            stats.lists, stats.watches, stats.probes, stats.events,
            stats.bookmarks, stats.gone, stats.stalled, stats.broken);
    wp_store_walk(world.store, show_object, NULL);
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

/* --- What the test does --- */

/* Its timer is due, so long later. */
static void
later(int64_t ns)
{
    journal("after %" PRId64 " ns", ns);
    journal_line();
    wp_clock_manual_advance(&world.clock, ns);
    hear();
    event_active(world.timer, EV_TIMEOUT, 1);
    assert_int_not_equal(event_base_loop(world.base, EVLOOP_NONBLOCK), -1);
    heard_that();
}

static void
passes(int64_t ns)
{
    journal("passes %" PRId64 " ns", ns);
    journal_line();
    wp_clock_manual_advance(&world.clock, ns);
}

static void
answer(const struct wp_api_result *result)
{
    wp_api_done *done = world.done;

    assert_non_null(done);
    world.done = NULL;
    hear();
    done(world.ctx, result);
    heard_that();
}

static void
refused(enum wp_status status, int code, int64_t retry_after_ns,
        const char *message)
{
    journal("answered %s %d %" PRId64, wp_status_name(status), code,
            retry_after_ns);
    journal_line();
    answer(&(struct wp_api_result){.status = status,
                                   .code = code,
                                   .retry_after_ns = retry_after_ns,
                                   .message = message});
}

static void
fails(enum wp_status status, int code)
{
    refused(status, code, -1, "words");
}

/* A list; takes it. */
static void
lists(json_t *list)
{
    assert_non_null(list);
    say("answered OK");
    answer(&(struct wp_api_result){
        .status = WP_OK, .code = 200, .object = list, .retry_after_ns = -1});
    json_decref(list);
}

static json_t *
pod(const char *name, const char *version)
{
    return json_pack("{s:{s:s, s:s, s:s, s:s}}", "metadata", "name", name,
                     "namespace", "team", "uid", name, "resourceVersion",
                     version);
}

static void
page(const char *version, const char *cont, const char *name)
{
    journal("a page at %.20s with %s", version, name);
    journal_line();
    lists(json_pack("{s:{s:s, s:s}, s:[o]}", "metadata", "resourceVersion",
                    version, "continue", cont, "items", pod(name, version)));
}

static void
says(const char *line)
{
    bool more;

    journal("says %.200s", line);
    journal_line();
    world.answered = true;
    hear();
    more = world.stream.on_bytes(world.stream.ctx, wp_str_from(line));
    heard_that();
    say(more ? "  go on" : "  no more");
}

#define CHANGE(type, name, version)                                            \
    "{\"type\":\"" type "\",\"object\":{\"metadata\":{\"name\":\"" name        \
    "\",\"namespace\":\"team\",\"uid\":\"" name                                \
    "\",\"resourceVersion\":\"" version "\"}}}\n"
#define BOOKMARK(version) CHANGE("BOOKMARK", "", version)

static void
ends_after(enum wp_status status, int code, int64_t retry_after_ns,
           const char *error)
{
    struct wp_http_stream_config ended = world.stream;

    assert_true(world.streaming);
    world.streaming = false;
    journal("ends %s %d", wp_status_name(status), code);
    journal_line();
    hear();
    ended.on_end(ended.ctx,
                 &(struct wp_http_answer){.status = status,
                                          .code = code,
                                          .retry_after_ns = retry_after_ns,
                                          .error = error});
    heard_that();
}

static void
ends(enum wp_status status, int code)
{
    ends_after(status, code, -1, NULL);
}

static void
went_back(void)
{
    say("another found that it went back");
    hear();
    wp_reflector_went_back(world.reflector);
    heard_that();
}

static void
stop(void)
{
    say("stop");
    wp_reflector_stop(world.reflector);
    world.reflector = NULL;
}

/* Nobody hears of what ends now. */
static void
end(void)
{
    stop();
    if (world.done != NULL) {
        fails(WP_CANCELLED, 0);
    }
    assert_false(world.streaming);
    wp_store_destroy(world.store);
    event_base_free(world.base);
}

static void
begin(const char *what)
{
    memset(&world, 0, sizeof world);
    world.base = event_base_new();
    assert_non_null(world.base);
    world.store = wp_store_create(WP_KIND_POD, NULL);
    assert_non_null(world.store);
    wp_clock_manual_init(&world.clock, 1000 * S, 86400 * S);
    world.draws_most = true;
    world.config = (struct wp_reflector_config){
        .base = world.base,
        .clock = &world.clock.clock,
        .api = (struct wp_api *)(void *)&world,
        .store = world.store,
        .kind = WP_KIND_POD,
        .ns = "team",
        .label_selector = "a=b",
        .seed = 3,
        .on_synced = on_synced,
        .on_refused = on_refused,
        .on_went_back = on_went_back,
        .on_doubt = on_doubt,
        .ctx = &world,
    };
    say(what);
}

static void
start(void)
{
    struct wp_rng draws;

    world.reflector = wp_reflector_start(&world.config);
    assert_non_null(world.reflector);
    wp_rng_init(&draws, world.config.seed ^ WP_KIND_POD);
    assert_memory_equal(&world.reflector->rng, &draws, sizeof draws);
}

/* It watches from there. */
static void
watch(const char *version)
{
    start();
    later(0);
    page(version, "", "p");
    later(0);
}

/* --- The stories --- */

static void
lists_and_watches(void)
{
    begin("# lists and watches");
    start();
    later(0);
    page("5", "next", "a");
    page("6", "more", "b");
    page("7", "", "c");
    world.draws_most = false;
    later(0);
    ends(WP_OK, 200);
    later(0);
    end();
    begin("# without namespace, label and listeners, as told");
    world.config.ns = NULL;
    world.config.label_selector = NULL;
    world.config.on_refused = NULL;
    world.config.on_went_back = NULL;
    world.config.on_doubt = NULL;
    world.config.page_limit = 9;
    world.config.idle_timeout_ns = 3 * S;
    start();
    later(0);
    fails(WP_NOT_FOUND, 404);
    later(0);
    page("7", "", "p");
    later(0);
    ends(WP_OK, 410);
    later(0);
    page("6", "", "p");
    end();
}

/* The pauses grow, between the bounds, and begin anew when a server that was
 * silent answers; what it asks for counts up to five minutes. */
static void
pauses(void)
{
    begin("# pauses");
    start();
    for (int i = 0; i < 8; i++) {
        later(0);
        fails(WP_UNAVAILABLE, 0);
    }
    world.draws_most = false;
    later(0);
    refused(WP_UNAVAILABLE, 503, -1, NULL);
    later(0);
    refused(WP_UNAVAILABLE, 503, 100000000, NULL);
    later(0);
    refused(WP_UNAVAILABLE, 503, 100001000, NULL);
    later(0);
    refused(WP_UNAVAILABLE, 503, 300 * S, "");
    later(0);
    refused(WP_UNAVAILABLE, 503, 301 * S, "");
    later(0);
    refused(WP_PERMISSION_DENIED, 403, 2 * S, NULL);
    later(0);
    refused(WP_NOT_FOUND, 404, -1, "no such kind");
    later(0);
    refused(WP_DEADLINE_EXCEEDED, 410, -1, "gone");
    later(0);
    page("7", "", "p");
    later(0);
    /* Only a watch that proves itself makes the pauses short. */
    ends(WP_OK, 500);
    later(0);
    says(BOOKMARK("8"));
    world.draws_most = true;
    ends_after(WP_OK, 200, 7 * S, NULL);
    later(7 * S);
    ends(WP_OK, 429);
    later(0);
    passes(S);
    ends(WP_OK, 200);
    later(0);
    ends(WP_OK, 429);
    end();
}

/* A page that cannot be had begins the list anew. */
static void
pages_fail(void)
{
    begin("# pages fail");
    start();
    later(0);
    page("7", "next", "a");
    fails(WP_DEADLINE_EXCEEDED, 410);
    later(0);
    page("8", "next", "b");
    page("9", "", "c");
    end();
}

static void
pages_shrink(void)
{
    begin("# pages shrink");
    world.config.page_limit = 9;
    start();
    later(0);
    fails(WP_UNKNOWN_OUTCOME, 500);
    later(0);
    fails(WP_UNKNOWN_OUTCOME, 200);
    later(0);
    fails(WP_UNKNOWN_OUTCOME, 200);
    later(0);
    fails(WP_UNKNOWN_OUTCOME, 200);
    later(0);
    for (int i = 0; i < 5; i++) {
        page("7", "", "p");
        later(0);
        ends(WP_OK, 410);
        later(0);
    }
    fails(WP_UNKNOWN_OUTCOME, 200);
    later(0);
    page("7", "", "p");
    later(0);
    ends(WP_OK, 410);
    later(0);
    end();
    begin("# one at a time already");
    world.config.page_limit = 1;
    start();
    later(0);
    fails(WP_UNKNOWN_OUTCOME, 200);
    later(0);
    fails(WP_UNKNOWN_OUTCOME, 200);
    later(0);
    end();
}

/* A list of so many bytes for its version and for where it goes on. */
static json_t *
long_list(size_t version, size_t cont)
{
    char text[2][2048];

    memset(text, '1', sizeof text);
    text[0][version] = '\0';
    text[1][cont] = '\0';
    return json_pack("{s:{s:s, s:s}, s:[]}", "metadata", "resourceVersion",
                     text[0], "continue", text[1], "items");
}

static void
lists_make_no_sense(void)
{
    begin("# lists make no sense");
    start();
    later(0);
    lists(json_object());
    later(0);
    lists(json_pack("{s:{s:s}, s:{}}", "metadata", "resourceVersion", "7",
                    "items"));
    later(0);
    lists(json_pack("{s:{s:s}}", "metadata", "resourceVersion", "7"));
    later(0);
    lists(json_pack("{s:{}, s:[]}", "metadata", "items"));
    later(0);
    lists(long_list(WP_VERSION_MAX, 1));
    later(0);
    lists(long_list(1, WP_CONTINUE_MAX));
    later(0);
    lists(long_list(WP_VERSION_MAX - 1, WP_CONTINUE_MAX - 1));
    /* An object that makes no sense is left out. */
    lists(json_pack("{s:{s:s}, s:[o, {}, o]}", "metadata", "resourceVersion",
                    "9", "items", pod("a", "1"), pod("b", "2")));
    later(0);
    ends(WP_OK, 410);
    later(0);
    lists(json_pack("{s:{s:s}, s:n}", "metadata", "resourceVersion", "9",
                    "items"));
    end();
}

/* --- Back in time --- */

static void
finds_an_older_server(void)
{
    begin("# finds an older server");
    watch("7");
    says(CHANGE("ADDED", "q", "8"));
    ends(WP_OK, 410);
    later(0);
    page("6", "next", "a");
    page("6", "", "b");
    later(0);
    ends(WP_OK, 410);
    later(0);
    page("6", "", "b"); /* Not older: as old. */
    later(0);
    ends(WP_OK, 410);
    later(0);
    page("x", "", "c"); /* Versions that are no numbers tell nothing. */
    later(0);
    ends(WP_OK, 410);
    later(0);
    page("1", "", "d");
    end();
    begin("# finds an older server by its objects");
    watch("7");
    says(CHANGE("MODIFIED", "p", "20"));
    ends(WP_OK, 410);
    later(0);
    lists(json_pack("{s:{s:s, s:s}, s:[o]}", "metadata", "resourceVersion",
                    "20", "continue", "next", "items", pod("p", "5")));
    lists(json_pack("{s:{s:s}, s:[]}", "metadata", "resourceVersion", "20",
                    "items"));
    later(0);
    ends(WP_OK, 410);
    later(0);
    page("21", "", "p");
    end();
}

/* In each state, and what comes of it. */
static void
is_told_of_an_older_server(void)
{
    begin("# is told before it lists");
    start();
    went_back();
    later(0);
    page("7", "", "p");
    later(0);
    end();
    begin("# is told while it lists");
    start();
    later(0);
    page("7", "next", "p");
    went_back();
    page("7", "", "q");
    later(0);
    ends(WP_OK, 410);
    later(0);
    page("6", "", "r"); /* It is heard of again. */
    end();
    begin("# is told while it lists what is older");
    watch("7");
    ends(WP_OK, 410);
    later(0);
    went_back();
    page("6", "", "r");
    end();
    begin("# is told before it watches");
    start();
    later(0);
    page("7", "", "p");
    went_back();
    later(0);
    page("6", "", "q");
    later(0);
    ends(WP_OK, 410);
    later(0);
    page("5", "", "r");
    end();
    begin("# is told while it watches");
    watch("7");
    went_back();
    later(0);
    later(0);
    page("9", "", "q");
    end();
    begin("# is told while it watches, which ends by itself");
    watch("7");
    went_back();
    passes(S);
    ends(WP_OK, 200);
    later(0);
    end();
    begin("# is told while it probes");
    watch("7");
    ends(WP_UNKNOWN_OUTCOME, 200);
    later(0);
    went_back();
    page("9", "", "q");
    page("9", "", "r");
    end();
    begin("# is told when all is over");
    watch("7");
    ends(WP_CANCELLED, 0);
    went_back();
    later(0);
    end();
}

/* --- Probes --- */

static void
probe(void)
{
    watch("7");
    ends_after(WP_UNKNOWN_OUTCOME, 0, -1, "broke");
    later(0);
}

static void
probes(void)
{
    begin("# probes: newer");
    probe();
    page("8", "x", "q");
    ends(WP_OK, 200);
    later(0);
    end();
    begin("# probes: older");
    probe();
    page("6", "x", "q");
    page("6", "", "q");
    later(0);
    ends(WP_OK, 200);
    later(0);
    end();
    begin("# probes: silent, then it lacks the version");
    probe();
    fails(WP_UNAVAILABLE, 0);
    later(0);
    fails(WP_UNAVAILABLE, 0);
    later(0);
    page("8", "", "p");
    ends(WP_OK, 410);
    end();
    begin("# probes: refused");
    probe();
    fails(WP_PERMISSION_DENIED, 403);
    page("7", "", "q");
    later(0);
    end();
    begin("# probes: not there");
    probe();
    fails(WP_NOT_FOUND, 404);
    end();
    begin("# probes: in vain");
    probe();
    refused(WP_UNAVAILABLE, 503, 4 * S, "words");
    later(4 * S);
    fails(WP_UNAVAILABLE, 0);
    later(0);
    page("7", "", "q");
    end();
    begin("# probes: cancelled");
    probe();
    fails(WP_CANCELLED, 0);
    later(0);
    end();
    begin("# lists: cancelled");
    start();
    later(0);
    fails(WP_CANCELLED, 0);
    later(0);
    end();
    begin("# lists: stopped");
    start();
    later(0);
    end();
    begin("# probes: stopped");
    probe();
    end();
    begin("# stopped before it lists");
    start();
    end();
}

/* --- Watches --- */

static void
takes_events(void)
{
    struct wp_object *object;
    json_t *written;

    begin("# takes events");
    watch("7");
    says(CHANGE("ADDED", "a", "8"));
    says(CHANGE("ADDED", "b", "8"));
    says(CHANGE("ADDED", "c", "7"));
    says(CHANGE("DELETED", "a", "9"));
    says("\n");
    says(BOOKMARK("10") CHANGE("MODIFIED", "p", "11"));
    says(CHANGE("DELETED", "p", "11"));
    /* What our own write was answered with is known. */
    written = pod("w", "13");
    object = wp_object_create(WP_KIND_POD, written, NULL);
    assert_non_null(object);
    wp_store_learn(world.store, object);
    json_decref(written);
    says(CHANGE("ADDED", "w", "12"));
    says(CHANGE("MODIFIED", "w", "13"));
    says(CHANGE("DELETED", "w", "14"));
    written = pod("v", "30");
    object = wp_object_create(WP_KIND_POD, written, NULL);
    assert_non_null(object);
    wp_store_learn(world.store, object);
    json_decref(written);
    says(CHANGE("DELETED", "v", "15"));
    says("{\"type\":\"ADDED\",\"object\":{\"metadata\":{"
         "\"resourceVersion\":\"16\"}}}\n");
    says("{\"type\":\"DELETED\",\"object\":{\"metadata\":{"
         "\"resourceVersion\":\"17\"}}}\n");
    says(CHANGE("ADDED", "x", "not a number"));
    says(CHANGE("ADDED", "y", "18"));
    ends(WP_OK, 200);
    later(0);
    end();
}

static void
ends_for_what_it_says(const char *line)
{
    begin("# ends for what it says");
    watch("7");
    passes(S);
    says(line);
    ends(WP_CANCELLED, 200);
    later(0);
    page("9", "", "p");
    if (!world.streaming) {
        later(0);
    }
    says(BOOKMARK("10"));
    ends(WP_OK, 200); /* The next one has a good name. */
    later(0);
    ends(WP_CANCELLED, 0);
    end();
}

static void
says_what_ends_it(void)
{
    static const char line[] = "{\"type\":\"ADDED\",\"object\":{\"metadata\":{"
                               "\"name\":\"a\",\"namespace\":\"team\","
                               "\"uid\":\"a\",\"resourceVersion\":\"8\"}}}";
    char *text = malloc(WP_OBJECT_BYTES_MAX + 3);

    assert_non_null(text);
    ends_for_what_it_says("{\"type\":\"ERROR\",\"object\":{\"code\":410,"
                          "\"message\":\"too old\"}}\n" BOOKMARK("9"));
    ends_for_what_it_says("{\"type\":\"ERROR\",\"object\":{\"code\":500}}\n");
    ends_for_what_it_says("nonsense\n");
    ends_for_what_it_says(BOOKMARK("8") "{}\n");
    memset(text, ' ', WP_OBJECT_BYTES_MAX + 1);
    (void)strcpy(text + WP_OBJECT_BYTES_MAX + 1, "\n");
    ends_for_what_it_says(text);
    begin("# as long as may be");
    watch("7");
    passes(S);
    memcpy(text, line, sizeof line - 1);
    (void)strcpy(text + WP_OBJECT_BYTES_MAX, "\n");
    says(text);
    end();
    begin("# no memory for an event");
    watch("7");
    passes(S);
    world.realloc_ = 1;
    says("{\"type\"");
    ends(WP_CANCELLED, 200);
    later(0);
    end();
    free(text);
}

/* A list finds out after three refusals, unless something was told between. */
static void
doubts_a_version(void)
{
    static const int codes[] = {400, 504};

    for (size_t i = 0; i < WP_ARRAY_LEN(codes); i++) {
        begin("# doubts a version");
        watch("7");
        ends(WP_OK, codes[i]);
        later(0);
        ends(WP_OK, codes[i]);
        later(0);
        says(BOOKMARK("8"));
        ends(WP_OK, 200);
        later(0);
        for (int n = 0; n < 3; n++) {
            ends(WP_OK, codes[i]);
            later(0);
        }
        page("9", "", "p");
        later(0);
        ends(WP_OK, codes[i]);
        later(0);
        end();
    }
    begin("# doubts by what it says");
    watch("7");
    for (int n = 0; n < 3; n++) {
        says("{\"type\":\"ERROR\",\"object\":{\"code\":500}}\n");
        ends(WP_CANCELLED, 200);
        later(0);
        if (n < 2) {
            page("7", "", "x"); /* It asks for the version first. */
        }
    }
    end();
}

static void
is_refused(void)
{
    static const int codes[] = {410, 403, 404, 401, 409, 201};

    for (size_t i = 0; i < WP_ARRAY_LEN(codes); i++) {
        begin("# is refused");
        watch("7");
        ends_after(WP_OK, codes[i], 2 * S, "words");
        later(0);
        end();
        begin("# is refused, and its words are cut off");
        watch("7");
        ends_after(WP_UNKNOWN_OUTCOME, codes[i], -1, "words");
        later(0);
        end();
    }
}

/* How long it lived, and how it ended. */
static void
ends_sooner_or_later(void)
{
    static const int64_t lived[] = {0, S - 1, S, 600 * S - 1, 600 * S};

    for (size_t i = 0; i < WP_ARRAY_LEN(lived); i++) {
        begin("# ends sooner or later");
        watch("7");
        passes(lived[i]);
        ends(WP_OK, 200);
        later(0);
        end();
        begin("# breaks sooner or later");
        watch("7");
        passes(lived[i]);
        ends_after(WP_UNAVAILABLE, 0, -1, "broke");
        end();
        begin("# breaks after an answer");
        watch("7");
        passes(lived[i]);
        ends_after(WP_UNKNOWN_OUTCOME, 200, -1, NULL);
        end();
    }
    begin("# begins anew in the middle of a line");
    watch("7");
    says("{\"type\":");
    ends(WP_OK, 200);
    later(0);
    says(BOOKMARK("8"));
    end();
}

static void
cannot_begin(void)
{
    begin("# has no path");
    world.no_path = true;
    watch("7");
    world.no_path = false;
    later(0);
    end();
    begin("# has no stream");
    world.no_stream = true;
    watch("7");
    later(0);
    end();
}

/* It is looked at when a line should have come, and in doubt each second. */
static void
stands_still(void)
{
    begin("# stands still");
    watch("7");
    passes(89 * S);
    says("\n");
    later(90 * S - 1);
    later(1);
    later(0);
    end();
    begin("# stands still in doubt");
    watch("7");
    ends(WP_OK, 200);
    later(0);
    world.answered = true;
    later(S - 1);
    world.answered = false;
    later(1);
    world.answered = true;
    later(0);
    end();
    begin("# has one second");
    world.config.idle_timeout_ns = S;
    watch("7");
    ends(WP_OK, 200);
    later(0);
    later(HALF_S);
    later(HALF_S);
    end();
    begin("# has a little more than a second");
    world.config.idle_timeout_ns = S + 1000;
    watch("7");
    ends(WP_OK, 200);
    later(0);
    later(S + 1);
    later(999);
    end();
    begin("# tells something in doubt");
    watch("7");
    ends(WP_OK, 200);
    later(0);
    says(BOOKMARK("8"));
    later(S);
    end();
}

static void
each_step(void **state)
{
    (void)state;
    lists_and_watches();
    pauses();
    pages_fail();
    pages_shrink();
    lists_make_no_sense();
    finds_an_older_server();
    is_told_of_an_older_server();
    probes();
    journal_compare(WP_TEST_STORY "_lists.txt");
}

static void
each_step_of_watches(void **state)
{
    (void)state;
    takes_events();
    says_what_ends_it();
    doubts_a_version();
    is_refused();
    ends_sooner_or_later();
    cannot_begin();
    stands_still();
    journal_compare(WP_TEST_STORY "_watches.txt");
}

/* Neither for itself nor for its timer. */
static void
no_memory(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 2; n++) {
        begin("# no memory");
        world.memory = n;
        assert_null(wp_reflector_start(&world.config));
        assert_int_equal(world.memory, 0);
        wp_reflector_stop(NULL);
        wp_store_destroy(world.store);
        event_base_free(world.base);
        journal_is("# no memory\n");
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_step),
        cmocka_unit_test(each_step_of_watches),
        cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
