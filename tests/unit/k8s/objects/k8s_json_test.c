/* Times, canonical hashes and conditions of Kubernetes objects. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "k8s/objects/condition.h"
#include "k8s/objects/json.h"
#include "pool/base/clock.h"

static json_t *
parse(const char *text)
{
    json_error_t error;
    json_t *json = json_loads(text, JSON_DECODE_ANY, &error);

    if (json == NULL) {
        fail_msg("%s: %s", text, error.text);
    }
    return json;
}

static void
reading(void **state)
{
    json_t *json = parse("{\"a\":{\"b\":{\"c\":\"x\"},\"n\":3,\"z\":null}}");

    (void)state;
    assert_string_equal(wp_json_text(json, "a", "b", "c", NULL), "x");
    assert_string_equal(wp_json_text(json, "a", "n", NULL), "");
    assert_string_equal(wp_json_text(json, "a", "b", "c", "d", NULL), "");
    assert_null(wp_json_at(json, "a", "missing", "c", NULL));
    assert_int_equal(json_integer_value(wp_json_at(json, "a", "n", NULL)), 3);
    assert_null(wp_json_at(NULL, "a", NULL));
    json_decref(json);
}

static void
building(void **state)
{
    json_t *json = json_object();
    char *text;

    (void)state;
    wp_json_set_text(wp_json_set(json, "n", json_integer(1)), "t", "x");
    wp_json_set(json, "gone", wp_json_text_or_null(NULL));
    wp_json_set(json, "there", wp_json_text_or_null("y"));
    text = json_dumps(json, JSON_COMPACT);
    assert_string_equal(text,
                        "{\"n\":1,\"t\":\"x\",\"gone\":null,\"there\":\"y\"}");
    free(text);
    json_decref(json);
}

static unsigned allocations; /* Until memory lacks, once. */

static void *
scarce(size_t size)
{
    return allocations > 0 && --allocations == 0 ? NULL : malloc(size);
}

/* In a process of its own, with the n-th allocation failing. False: it has a
 * copy that is like json; else it has ended itself. */
static bool
lacks(json_t *(*copy)(const json_t *json), const json_t *json, unsigned n)
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        json_t *made;

        (void)signal(SIGABRT, SIG_DFL);
        (void)close(STDERR_FILENO);
        allocations = n;
        json_set_alloc_funcs(scarce, free);
        made = copy(json);
        _exit(!json_equal(made, json) ? 1 : allocations == 0 ? 2 : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGABRT);
        return true;
    }
    assert_int_equal(WEXITSTATUS(status), 0);
    return false;
}

/* A copy is whole, or there is none: whichever of its allocations fails. */
static void
copies_are_whole(void **state)
{
    static const char *const texts[] = {
        "{\"a\":{\"b\":[1,\"x\",{\"c\":null}],\"d\":true},\"e\":2.5,\"f\":"
        "\"y\"}",
        "[1,\"x\",{\"c\":null},[2,3,4,5,6,7,8,9,10,11,12,13]]",
        "\"text\"",
    };

    (void)state;
    assert_null(wp_json_copy(NULL));
    assert_null(wp_json_deep_copy(NULL));
    for (size_t i = 0; i < WP_ARRAY_LEN(texts); i++) {
        json_t *json = parse(texts[i]);
        json_t *flat = wp_json_copy(json);
        json_t *deep = wp_json_deep_copy(json);
        unsigned n = 1;

        assert_true(json_equal(flat, json));
        assert_true(json_equal(deep, json));
        assert_true(json_object_get(flat, "a") == json_object_get(json, "a"));
        assert_true(json_array_get(flat, 2) == json_array_get(json, 2));
        assert_true(deep != json && (i != 0 || json_object_get(deep, "a") !=
                                                   json_object_get(json, "a")));
        while (lacks(wp_json_copy, json, n)) {
            n++;
        }
        assert_true(n > 1);
        n = 1;
        while (lacks(wp_json_deep_copy, json, n)) {
            n++;
        }
        assert_true(i == 2 || n > 10);
        json_decref(flat);
        json_decref(deep);
        json_decref(json);
    }
}

/* Values from date(1). */
static void
times(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } rows[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2026-01-31T23:59:59Z", INT64_C(1769903999000)},
        {"2026-08-22T10:00:00.123456789Z", INT64_C(1787392800123)},
        {"2026-08-22T10:00:00.1Z", INT64_C(1787392800100)},
        {"2026-08-22T12:00:00+02:00", INT64_C(1787392800000)},
        {"2026-08-22T04:30:00-05:30", INT64_C(1787392800000)},
        {"2024-02-29T00:00:00Z", INT64_C(1709164800000)},
        {"2000-02-29T12:00:00Z", INT64_C(951825600000)},
        {"1969-12-31T23:59:59Z", -1000},
        {"0001-01-01T00:00:00Z", INT64_C(-62135596800000)},
    };
    static const char *const wrong[] = {
        "",
        "2026-01-31",
        "2026-01-31T23:59:59",
        "2026-02-29T00:00:00Z",
        "2100-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-01-00T00:00:00Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T23:59:59.Z",
        "2026-01-31T23:59:59Zx",
        "2026-01-31T23:59:59+2:00",
        "+026-01-31T23:59:59Z",
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        int64_t ms = 1;

        assert_true(wp_json_time(rows[i].text, &ms));
        assert_int_equal(ms, rows[i].ms);
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(wrong); i++) {
        int64_t ms;

        if (wp_json_time(wrong[i], &ms)) {
            fail_msg("'%s' was taken for a time", wrong[i]);
        }
    }
}

static void
times_are_written(void **state)
{
    const int64_t ns = INT64_C(1787392800123456789);
    char out[40];
    int64_t ms;

    (void)state;
    (void)wp_time_format_utc(ns, 0, out);
    assert_string_equal(out, "2026-08-22T10:00:00Z");
    (void)wp_time_format_utc(ns, 6, out);
    assert_string_equal(out, "2026-08-22T10:00:00.123456Z");
    (void)wp_time_format_utc(ns, 9, out);
    assert_string_equal(out, "2026-08-22T10:00:00.123456789Z");
    (void)wp_time_format_utc(-1, 9, out);
    assert_string_equal(out, "1969-12-31T23:59:59.999999999Z");
    /* Every day of four centuries comes back as it went. */
    for (int64_t day = -60000; day < 86000; day++) {
        (void)wp_time_format_utc(day * 86400 * WP_NS_PER_S, 0, out);
        assert_true(wp_json_time(out, &ms));
        assert_int_equal(ms, day * 86400 * 1000);
    }
}

static uint64_t
hash_of(const char *text)
{
    json_t *json = parse(text);
    uint64_t hash = wp_json_hash(json);

    json_decref(json);
    return hash;
}

/* The same thing in other words is the same; what differs differs. */
static void
hashes(void **state)
{
    static const char *const same[][2] = {
        {"{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}"},
        {"{\"a\":1.0}", "{\"a\":1}"},
        {"[1.0,2]", "[1,2]"},
        {"{\"a\":{\"b\":{\"c\":null}}}", "{}"},
        {"{\"args\":[],\"resources\":{},\"name\":\"\"}", "{}"},
        {"{\"tty\":false}", "{}"},
        {"{\"ports\":[{\"containerPort\":1,\"protocol\":\"TCP\"}]}",
         "{\"ports\":[{\"containerPort\":1}]}"},
    };
    static const char *const different[][2] = {
        {"{\"a\":1}", "{\"a\":2}"},
        {"{\"a\":1}", "{\"a\":\"1\"}"},
        {"{\"a\":1.5}", "{\"a\":1}"},
        {"{\"allowPrivilegeEscalation\":false}", "{}"},
        {"{\"storageClassName\":\"\"}", "{}"},
        {"{\"labelSelector\":{}}", "{}"},
        {"[1,2]", "[2,1]"},
        {"[{},{\"a\":1}]", "[{\"a\":1}]"},
        {"{\"protocol\":\"UDP\"}", "{}"},
        {"{\"terminationGracePeriodSeconds\":0}", "{}"},
        {"{\"limits\":{\"memory\":\"9007199254740993\"}}",
         "{\"limits\":{\"memory\":\"9007199254740992\"}}"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(same); i++) {
        assert_true(hash_of(same[i][0]) == hash_of(same[i][1]));
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(different); i++) {
        assert_true(hash_of(different[i][0]) != hash_of(different[i][1]));
    }
    /* It is written into labels: another version must not change it. */
    assert_true(hash_of("{}") == UINT64_C(0x08f44b07b5901a25));
}

static void
hash_leaves_value(void **state)
{
    json_t *json = parse("{\"a\":{\"b\":null},\"c\":1.0}");
    json_t *copy = json_deep_copy(json);

    (void)state;
    (void)wp_json_hash(json);
    assert_true(json_equal(json, copy));
    json_decref(json);
    json_decref(copy);
}

static const struct wp_condition_text ready = {
    .type = "Ready",
    .status = "True",
    .reason = "DependenciesReady",
    .message = "Pod is Ready",
    .observed_generation = 3,
};

/* The time of the transition moves with the status only. */
static void
condition_transition(void **state)
{
    json_t *list = json_array();
    struct wp_condition_text text = ready;

    (void)state;
    assert_true(wp_condition_set(list, &text, 0));
    assert_false(wp_condition_set(list, &text, 9 * WP_NS_PER_S));
    text.message = "other words";
    assert_true(wp_condition_set(list, &text, 9 * WP_NS_PER_S));
    assert_string_equal(wp_json_text(wp_condition_find(list, "Ready"),
                                     "lastTransitionTime", NULL),
                        "1970-01-01T00:00:00Z");
    text.status = "False";
    assert_true(wp_condition_set(list, &text, 9 * WP_NS_PER_S));
    assert_string_equal(wp_json_text(wp_condition_find(list, "Ready"),
                                     "lastTransitionTime", NULL),
                        "1970-01-01T00:00:09Z");
    assert_int_equal(json_array_size(list), 1);
    json_decref(list);
}

/* What is forwarded keeps the time that it came with. */
static void
condition_forwarded(void **state)
{
    json_t *list = json_array();
    struct wp_condition_text text = ready;

    (void)state;
    text.transition = "2026-01-01T00:00:00Z";
    assert_true(wp_condition_set(list, &text, 9 * WP_NS_PER_S));
    assert_false(wp_condition_set(list, &text, 10 * WP_NS_PER_S));
    assert_string_equal(wp_json_text(wp_condition_find(list, "Ready"),
                                     "lastTransitionTime", NULL),
                        "2026-01-01T00:00:00Z");
    text.observed_generation = 4;
    assert_true(wp_condition_set(list, &text, 10 * WP_NS_PER_S));
    text.observed_generation = 0;
    assert_true(wp_condition_set(list, &text, 10 * WP_NS_PER_S));
    assert_null(json_object_get(wp_condition_find(list, "Ready"),
                                "observedGeneration"));
    json_decref(list);
}

static void
condition_others_stay(void **state)
{
    json_t *list = parse("[{\"type\":\"A\",\"x\":1},{\"type\":\"Ready\"},7,"
                         "{\"type\":\"A\"},{\"type\":\"B\"}]");

    (void)state;
    assert_true(wp_condition_set(list, &ready, 0));
    assert_int_equal(json_array_size(list), 5);
    assert_true(wp_condition_remove(list, "A"));
    assert_false(wp_condition_remove(list, "A"));
    assert_null(wp_condition_find(list, "A"));
    assert_non_null(wp_condition_find(list, "B"));
    assert_int_equal(json_array_size(list), 3);
    assert_null(wp_condition_find(NULL, "A"));
    json_decref(list);
}

/* What a server said, cut in the middle of a character. */
static void
condition_words_that_were_cut(void **state)
{
    json_t *list = json_array();
    struct wp_condition_text text = {.type = "Ready",
                                     .status = "False",
                                     .reason = "Error",
                                     .message = "a gr\xc3\xbc\xc3"};

    (void)state;
    assert_true(wp_condition_set(list, &text, 0));
    assert_string_equal(
        wp_json_text(wp_condition_find(list, "Ready"), "message", NULL),
        "a gr???");
    assert_false(wp_condition_set(list, &text, 0));
    text.message = "a gr\xc3\xbc";
    assert_true(wp_condition_set(list, &text, 0));
    assert_string_equal(
        wp_json_text(wp_condition_find(list, "Ready"), "message", NULL),
        "a gr\xc3\xbc");
    json_decref(list);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading),
        cmocka_unit_test(building),
        cmocka_unit_test(copies_are_whole),
        cmocka_unit_test(times),
        cmocka_unit_test(times_are_written),
        cmocka_unit_test(hashes),
        cmocka_unit_test(hash_leaves_value),
        cmocka_unit_test(condition_transition),
        cmocka_unit_test(condition_forwarded),
        cmocka_unit_test(condition_others_stay),
        cmocka_unit_test(condition_words_that_were_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
