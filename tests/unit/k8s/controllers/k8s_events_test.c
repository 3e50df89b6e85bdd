/* Events: what is written of each, series instead of repetitions, and that
 * nobody ever waits for one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>

#include "k8s/controllers/events.h"
#include "k8s/objects/json.h"
#include "tests/support/pool/manual_clock.h"

enum {
    WRITES_MAX = 3000
};

struct write {
    bool patch;
    char ns[64];
    char name[256];
    json_t *body;
    wp_api_done *done;
    void *ctx;
};

struct wp_api {
    struct write writes[WRITES_MAX];
    size_t len;
};

struct rig {
    struct wp_api api;
    struct event_base *base;
    struct wp_clock_manual clock;
    struct wp_events *events;
    struct wp_object *about;
};

static void
record(struct wp_api *api, const struct wp_api_target *target, bool patch,
       json_t *body, wp_api_done *done, void *ctx)
{
    struct write *write = &api->writes[api->len++];

    assert_true(api->len < WRITES_MAX);
    assert_int_equal(target->kind, WP_KIND_EVENT);
    assert_int_equal(target->priority, WP_HTTP_EVENT);
    *write =
        (struct write){.patch = patch, .body = body, .done = done, .ctx = ctx};
    (void)snprintf(write->ns, sizeof write->ns, "%s", target->ns);
    (void)snprintf(write->name, sizeof write->name, "%s",
                   patch ? target->name
                         : wp_json_text(body, "metadata", "name", NULL));
}

void
wp_api_post(struct wp_api *api, const struct wp_api_target *target,
            json_t *body, wp_api_done *done, void *ctx)
{
    record(api, target, false, body, done, ctx);
}

void
wp_api_patch(struct wp_api *api, const struct wp_api_target *target,
             json_t *body, wp_api_done *done, void *ctx)
{
    record(api, target, true, body, done, ctx);
}

static void
answer(struct rig *rig, size_t i, enum wp_status status)
{
    const struct wp_api_result result = {.status = status,
                                         .retry_after_ns = -1};
    struct write *write = &rig->api.writes[i];

    assert_non_null(write->done);
    write->done(write->ctx, &result);
    write->done = NULL;
}

static const struct wp_event adopted = {"sandboxclaim-controller", "Adoption",
                                        "SandboxAdopted", false};

static void
create_events(struct rig *rig, bool off)
{
    rig->events = wp_events_create(&(struct wp_events_config){
        .base = rig->base,
        .clock = &rig->clock.clock,
        .api = &rig->api,
        .instance = "replica-1",
        .off = off,
    });
    assert_non_null(rig->events);
}

static int
set_up(void **state)
{
    struct rig *rig = calloc(1, sizeof *rig);
    json_t *json = json_pack(
        "{s:s, s:s, s:{s:s, s:s, s:s, s:s}, s:{s:{s:s}}}", "apiVersion",
        "extensions.agents.x-k8s.io/v1beta1", "kind", "SandboxClaim",
        "metadata", "namespace", "team", "name", "mine", "uid", "u-1",
        "resourceVersion", "7", "spec", "warmPoolRef", "name", "pool");
    struct wp_err err;

    assert_non_null(rig);
    assert_non_null(json);
    rig->base = event_base_new();
    wp_clock_manual_init(&rig->clock, WP_NS_PER_S,
                         INT64_C(1700000000) * WP_NS_PER_S);
    rig->about = wp_object_create(WP_KIND_SANDBOX_CLAIM, json, &err);
    assert_non_null(rig->about);
    json_decref(json);
    create_events(rig, false);
    *state = rig;
    return 0;
}

static int
tear_down(void **state)
{
    struct rig *rig = *state;

    wp_events_destroy(rig->events);
    for (size_t i = 0; i < rig->api.len; i++) {
        if (rig->api.writes[i].done != NULL) {
            answer(rig, i, WP_CANCELLED); /* After they are gone. */
        }
        json_decref(rig->api.writes[i].body);
    }
    wp_object_unref(rig->about);
    event_base_free(rig->base);
    free(rig);
    return 0;
}

/* All fields that events.k8s.io/v1 wants. */
static void
fields(void **state)
{
    struct rig *rig = *state;
    const json_t *body;

    wp_events_record(rig->events, rig->about, &adopted,
                     "Adopted warm pool Sandbox %s", "\"sb\"");
    assert_int_equal(rig->api.len, 1);
    assert_string_equal(rig->api.writes[0].ns, "team");
    body = rig->api.writes[0].body;
    assert_string_equal(wp_json_text(body, "apiVersion", NULL),
                        "events.k8s.io/v1");
    assert_string_equal(wp_json_text(body, "kind", NULL), "Event");
    assert_string_equal(wp_json_text(body, "metadata", "namespace", NULL),
                        "team");
    assert_memory_equal(wp_json_text(body, "metadata", "name", NULL), "mine.",
                        5);
    assert_string_equal(wp_json_text(body, "eventTime", NULL),
                        "2023-11-14T22:13:20.000000Z");
    assert_string_equal(wp_json_text(body, "reportingController", NULL),
                        "sandboxclaim-controller");
    assert_string_equal(wp_json_text(body, "reportingInstance", NULL),
                        "replica-1");
    assert_string_equal(wp_json_text(body, "action", NULL), "Adoption");
    assert_string_equal(wp_json_text(body, "reason", NULL), "SandboxAdopted");
    assert_string_equal(wp_json_text(body, "type", NULL), "Normal");
    assert_string_equal(wp_json_text(body, "note", NULL),
                        "Adopted warm pool Sandbox \"sb\"");
    assert_string_equal(wp_json_text(body, "regarding", "kind", NULL),
                        "SandboxClaim");
    assert_string_equal(wp_json_text(body, "regarding", "uid", NULL), "u-1");
    assert_string_equal(wp_json_text(body, "regarding", "namespace", NULL),
                        "team");
    assert_string_equal(wp_json_text(body, "regarding", "apiVersion", NULL),
                        "extensions.agents.x-k8s.io/v1beta1");
}

static void
assert_written(const struct rig *rig, size_t i, const char *text)
{
    char *is = json_dumps(rig->api.writes[i].body, JSON_COMPACT);

    assert_string_equal(is, text);
    free(is);
}

/* The whole of the first, and of a repetition, to the moment when it is
 * written: a look comes ten seconds after another at the earliest, and the
 * count a minute after the last write. */
static void
whole(void **state)
{
    struct rig *rig = *state;

    wp_events_record(rig->events, rig->about, &adopted, "a");
    assert_written(
        rig, 0,
        "{\"apiVersion\":\"events.k8s.io/v1\",\"kind\":\"Event\","
        "\"metadata\":{\"name\":\"mine.17979cfe362a0000\",\"namespace\":"
        "\"team\"},\"eventTime\":\"2023-11-14T22:13:20.000000Z\","
        "\"reportingController\":\"sandboxclaim-controller\","
        "\"reportingInstance\":\"replica-1\",\"action\":\"Adoption\","
        "\"reason\":\"SandboxAdopted\",\"type\":\"Normal\",\"note\":\"a\","
        "\"regarding\":{\"apiVersion\":\"extensions.agents.x-k8s.io/v1beta1\","
        "\"kind\":\"SandboxClaim\",\"namespace\":\"team\",\"name\":\"mine\","
        "\"uid\":\"u-1\",\"resourceVersion\":\"7\"}}");
    answer(rig, 0, WP_OK);
    wp_clock_manual_advance(&rig->clock, 1 * WP_NS_PER_S);
    wp_events_record(rig->events, rig->about, &adopted, "a");
    wp_clock_manual_advance(&rig->clock, 59 * WP_NS_PER_S - 1);
    wp_events_record(rig->events, rig->about, &adopted, "b");
    wp_clock_manual_advance(&rig->clock, 10 * WP_NS_PER_S - 1);
    wp_events_record(rig->events, rig->about, &adopted, "c");
    assert_int_equal(rig->api.len, 3);
    assert_string_equal(rig->api.writes[1].name, "mine.17979d0c2e715800");
    wp_clock_manual_advance(&rig->clock, 1);
    wp_events_record(rig->events, rig->about, &adopted, "d");
    assert_int_equal(rig->api.len, 5); /* The series, and d. */
    assert_written(rig, 3,
                   "{\"series\":{\"count\":2,\"lastObservedTime\":"
                   "\"2023-11-14T22:13:21.000000Z\"}}");
    answer(rig, 3, WP_OK);
    wp_events_record(rig->events, rig->about, &adopted, "a");
    for (int s = 10; s < 60; s += 10) {
        wp_clock_manual_advance(&rig->clock, 10 * WP_NS_PER_S);
        wp_events_record(rig->events, rig->about, &adopted, "a");
    }
    assert_int_equal(rig->api.len, 5);
    wp_clock_manual_advance(&rig->clock, 10 * WP_NS_PER_S);
    wp_events_record(rig->events, rig->about, &adopted, "e");
    assert_int_equal(rig->api.len, 7);
    assert_written(rig, 5,
                   "{\"series\":{\"count\":8,\"lastObservedTime\":"
                   "\"2023-11-14T22:15:19.999999Z\"}}");
}

/* Of what is in no namespace, as the API server wants it. */
static void
in_no_namespace(void **state)
{
    struct rig *rig = *state;
    json_t *json =
        json_pack("{s:{s:s, s:s}}", "metadata", "name", "mine", "uid", "u-2");
    struct wp_err err;
    struct wp_object *about =
        wp_object_create(WP_KIND_SANDBOX_CLAIM, json, &err);

    assert_non_null(about);
    wp_events_record(rig->events, about, &adopted, "a");
    assert_string_equal(rig->api.writes[0].ns, "default");
    assert_null(
        wp_json_at(rig->api.writes[0].body, "regarding", "namespace", NULL));
    wp_object_unref(about);
    json_decref(json);
}

/* Another word, reason, action, controller or type is another event, under
 * another name. */
static void
differences(void **state)
{
    struct rig *rig = *state;
    struct wp_event warning = adopted;
    struct wp_event action = adopted;
    struct wp_event reason = adopted;
    struct wp_event controller = adopted;

    warning.warning = true;
    wp_events_record(rig->events, rig->about, &adopted, "a");
    wp_events_record(rig->events, rig->about, &adopted, "b");
    wp_events_record(rig->events, rig->about, &warning, "a");
    assert_int_equal(rig->api.len, 3);
    assert_string_not_equal(rig->api.writes[0].name, rig->api.writes[1].name);
    assert_string_equal(wp_json_text(rig->api.writes[2].body, "type", NULL),
                        "Warning");
    action.action = "Other";
    reason.reason = "Other";
    controller.controller = "Other";
    wp_events_record(rig->events, rig->about, &action, "a");
    wp_events_record(rig->events, rig->about, &reason, "a");
    wp_events_record(rig->events, rig->about, &controller, "a");
    assert_int_equal(rig->api.len, 6);
}

static json_int_t
count_of(const struct rig *rig, size_t i)
{
    return json_integer_value(
        wp_json_at(rig->api.writes[i].body, "series", "count", NULL));
}

/* Repetitions are counted, and written once a minute, into the same event. */
static void
series(void **state)
{
    struct rig *rig = *state;

    wp_events_record(rig->events, rig->about, &adopted, "a");
    answer(rig, 0, WP_OK);
    for (int i = 0; i < 50; i++) {
        wp_clock_manual_advance(&rig->clock, WP_NS_PER_S);
        wp_events_record(rig->events, rig->about, &adopted, "a");
    }
    assert_int_equal(rig->api.len, 1);
    for (int i = 0; i < 60; i++) {
        wp_clock_manual_advance(&rig->clock, WP_NS_PER_S);
        wp_events_record(rig->events, rig->about, &adopted, "a");
        if (rig->api.len == 2 && rig->api.writes[1].done != NULL) {
            answer(rig, 1, WP_OK);
        }
    }
    assert_int_equal(rig->api.len, 2);
    assert_true(rig->api.writes[1].patch);
    assert_string_equal(rig->api.writes[1].name, rig->api.writes[0].name);
    assert_in_range(count_of(rig, 1), 55, 75);
    assert_non_null(wp_json_at(rig->api.writes[1].body, "series",
                               "lastObservedTime", NULL));
    assert_int_equal(json_object_size(rig->api.writes[1].body), 1);
}

/* What is heard before the first answer is written later, and while a write is
 * under way there is no other one. */
static void
heard_while_it_is_written(void **state)
{
    struct rig *rig = *state;

    wp_events_record(rig->events, rig->about, &adopted, "a");
    wp_events_record(rig->events, rig->about, &adopted, "a");
    answer(rig, 0, WP_OK);
    wp_clock_manual_advance(&rig->clock, 61 * WP_NS_PER_S);
    wp_events_record(rig->events, rig->about, &adopted, "b");
    assert_int_equal(rig->api.len, 3); /* The series, and b. */
    assert_true(rig->api.writes[1].patch);
    assert_int_equal(count_of(rig, 1), 2);
    wp_events_record(rig->events, rig->about, &adopted, "a");
    wp_clock_manual_advance(&rig->clock, 61 * WP_NS_PER_S);
    wp_events_record(rig->events, rig->about, &adopted, "c");
    assert_int_equal(rig->api.len, 4); /* c. */
    answer(rig, 1, WP_OK);
    wp_clock_manual_advance(&rig->clock, 11 * WP_NS_PER_S);
    wp_events_record(rig->events, rig->about, &adopted, "d");
    assert_int_equal(rig->api.len, 6); /* The series, and d. */
    assert_int_equal(count_of(rig, 4), 3);
}

/* It is tried each minute until then, however long nobody has said it. */
static void
a_count_is_written_at_last(void **state)
{
    struct rig *rig = *state;
    size_t patches = 0;

    wp_events_record(rig->events, rig->about, &adopted, "a");
    answer(rig, 0, WP_OK);
    wp_events_record(rig->events, rig->about, &adopted, "a");
    for (int i = 0; i < 70; i++) {
        wp_clock_manual_advance(&rig->clock, 11 * WP_NS_PER_S);
        /* Any makes it look. */
        wp_events_record(rig->events, rig->about, &adopted, "other %d", i);
        for (size_t w = 0; w < rig->api.len; w++) {
            if (rig->api.writes[w].done != NULL) {
                patches += rig->api.writes[w].patch;
                answer(rig, w,
                       rig->api.writes[w].patch ? WP_UNAVAILABLE : WP_OK);
            }
        }
    }
    assert_int_equal(patches, 70 / 6);
}

/* After ten minutes of silence it is news again, also between two looks. */
static void
forgotten_between_looks(void **state)
{
    struct rig *rig = *state;

    wp_events_record(rig->events, rig->about, &adopted, "a");
    answer(rig, 0, WP_OK);
    wp_clock_manual_advance(&rig->clock, 595 * WP_NS_PER_S);
    wp_events_record(rig->events, rig->about, &adopted, "b");
    wp_clock_manual_advance(&rig->clock, 5 * WP_NS_PER_S);
    wp_events_record(rig->events, rig->about, &adopted, "a");
    assert_int_equal(rig->api.len, 3);
    assert_false(rig->api.writes[2].patch);
}

/* After ten minutes of silence it is news again. */
static void
forgotten(void **state)
{
    struct rig *rig = *state;

    wp_events_record(rig->events, rig->about, &adopted, "a");
    answer(rig, 0, WP_OK);
    wp_clock_manual_advance(&rig->clock, 600 * WP_NS_PER_S);
    wp_events_record(rig->events, rig->about, &adopted, "a");
    assert_int_equal(rig->api.len, 2);
    assert_false(rig->api.writes[1].patch);
}

/* What is refused is counted, not tried again by itself; the next repetition
 * begins anew. So does one whose event has gone. */
static void
dropped(void **state)
{
    struct rig *rig = *state;

    wp_events_record(rig->events, rig->about, &adopted, "a");
    answer(rig, 0, WP_RESOURCE_EXHAUSTED);
    assert_int_equal(wp_events_dropped(rig->events), 1);
    assert_int_equal(rig->api.len, 1);
    wp_events_record(rig->events, rig->about, &adopted, "a");
    assert_int_equal(rig->api.len, 2);
    answer(rig, 1, WP_OK);
    wp_clock_manual_advance(&rig->clock, 61 * WP_NS_PER_S);
    wp_events_record(rig->events, rig->about, &adopted, "a");
    wp_clock_manual_advance(&rig->clock, 61 * WP_NS_PER_S);
    wp_events_record(rig->events, rig->about, &adopted, "b");
    assert_int_equal(rig->api.len, 4); /* The series, and b. */
    answer(rig, 2, WP_NOT_FOUND);
    wp_events_record(rig->events, rig->about, &adopted, "a");
    assert_int_equal(rig->api.len, 5);
    assert_false(rig->api.writes[4].patch);
    assert_int_equal(wp_events_dropped(rig->events), 2);
}

/* More kinds of words than are remembered: the oldest is forgotten. */
static void
bounded(void **state)
{
    struct rig *rig = *state;

    for (int i = 0; i < WP_EVENTS_SERIES_MAX + 1; i++) {
        wp_events_record(rig->events, rig->about, &adopted, "a %d", i);
    }
    assert_int_equal(rig->api.len, WP_EVENTS_SERIES_MAX + 1);
    wp_events_record(rig->events, rig->about, &adopted, "a 1");
    assert_int_equal(rig->api.len, WP_EVENTS_SERIES_MAX + 1);
    wp_events_record(rig->events, rig->about, &adopted, "a 0");
    assert_int_equal(rig->api.len, WP_EVENTS_SERIES_MAX + 2);
    /* That was 2; and 1 was said again meanwhile. */
    wp_events_record(rig->events, rig->about, &adopted, "a 1");
    assert_int_equal(rig->api.len, WP_EVENTS_SERIES_MAX + 2);
    wp_events_record(rig->events, rig->about, &adopted, "a 2");
    assert_int_equal(rig->api.len, WP_EVENTS_SERIES_MAX + 3);
    for (size_t i = 0; i < rig->api.len; i++) {
        answer(rig, i, WP_OK); /* Also those of series that are forgotten. */
    }
}

/* Too many words are cut, between characters; bad ones are replaced. */
static void
words(void **state)
{
    struct rig *rig = *state;
    char text[2000];
    const char *note;

    memset(text, 'x', sizeof text);
    for (size_t i = 1; i + 1 < sizeof text; i += 2) {
        memcpy(text + i, "\xc3\xa4", 2);
    }
    text[sizeof text - 1] = '\0';
    wp_events_record(rig->events, rig->about, &adopted, "%s", text);
    note = wp_json_text(rig->api.writes[0].body, "note", NULL);
    assert_int_equal(strlen(note), WP_EVENTS_NOTE_MAX - 1);
    assert_memory_equal(note, text, WP_EVENTS_NOTE_MAX - 1);
    wp_events_record(rig->events, rig->about, &adopted, "a\xff%s", "b");
    assert_string_equal(wp_json_text(rig->api.writes[1].body, "note", NULL),
                        "a?b");
    wp_events_record(rig->events, rig->about, &adopted, "a\x80%s", "c");
    assert_string_equal(wp_json_text(rig->api.writes[2].body, "note", NULL),
                        "a?c");
    /* As many as there may be stay. */
    memset(text, 'y', WP_EVENTS_NOTE_MAX);
    text[WP_EVENTS_NOTE_MAX] = '\0';
    wp_events_record(rig->events, rig->about, &adopted, "%s", text);
    assert_string_equal(wp_json_text(rig->api.writes[3].body, "note", NULL),
                        text);
}

/* Switched off, nothing is said. */
static void
off(void **state)
{
    struct rig *rig = *state;

    wp_events_destroy(NULL);
    wp_events_destroy(rig->events);
    create_events(rig, true);
    wp_events_record(rig->events, rig->about, &adopted, "a");
    assert_int_equal(rig->api.len, 0);
}

/* Names that are too long are cut: the replica's, and the object's within the
 * event's. Whatever its length, what is said again is no news. */
static void
long_names(void **state)
{
    struct rig *rig = *state;
    char text[3000];
    struct wp_event event = adopted;
    const char *instance;

    memset(text, 'r', sizeof text);
    text[129] = '\0';
    wp_events_destroy(rig->events);
    rig->events = wp_events_create(&(struct wp_events_config){
        .base = rig->base,
        .clock = &rig->clock.clock,
        .api = &rig->api,
        .instance = text,
    });
    assert_non_null(rig->events);
    wp_events_record(rig->events, rig->about, &adopted, "a");
    instance = wp_json_text(rig->api.writes[0].body, "reportingInstance", NULL);
    assert_int_equal(strlen(instance), 128);
    assert_memory_equal(instance, text, 128);
    text[129] = 'r';
    text[sizeof text - 1] = '\0';
    event.controller = text;
    wp_events_record(rig->events, rig->about, &event, "a");
    wp_events_record(rig->events, rig->about, &event, "a");
    assert_int_equal(rig->api.len, 2);
}

static size_t random_len;

void __wrap_wp_random_bytes(void *out, size_t len);
void __real_wp_random_bytes(void *out, size_t len);

void
__wrap_wp_random_bytes(void *out, size_t len)
{
    random_len += len;
    __real_wp_random_bytes(out, len);
}

/* Nobody can choose words that meet those of others. */
static void
its_hash_is_keyed(void **state)
{
    struct rig *rig = *state;

    wp_events_destroy(rig->events);
    random_len = 0;
    create_events(rig, false);
    assert_int_equal(random_len, 16);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(fields),
        TEST(whole),
        TEST(differences),
        TEST(series),
        TEST(forgotten),
        TEST(in_no_namespace),
        TEST(heard_while_it_is_written),
        TEST(a_count_is_written_at_last),
        TEST(forgotten_between_looks),
        TEST(dropped),
        TEST(bounded),
        TEST(words),
        TEST(off),
        TEST(long_names),
        TEST(its_hash_is_keyed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
