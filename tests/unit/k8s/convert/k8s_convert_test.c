/* Objects of both versions, there and back again: a table of what one looks
 * like in the other, and that no way loses anything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/convert/convert.h"
#include "k8s/objects/json.h"
#include "tests/support/k8s/k8s_text.h"

#define CORE "agents.x-k8s.io"
#define EXTENSIONS "extensions.agents.x-k8s.io"

static const struct {
    const char *kind;
    const char *group;
    const char *state; /* The annotation. */
} kinds[] = {
    {"Sandbox", CORE, "api.agents.x-k8s.io/v1alpha1-sandbox-state"},
    {"SandboxClaim", EXTENSIONS,
     "api.agents.x-k8s.io/v1alpha1-sandboxclaim-state"},
    {"SandboxTemplate", EXTENSIONS,
     "api.agents.x-k8s.io/v1alpha1-sandboxtemplate-state"},
    {"SandboxWarmPool", EXTENSIONS,
     "api.agents.x-k8s.io/v1alpha1-sandboxwarmpool-state"},
};

/* body: what stands behind the metadata. */
static json_t *
make(size_t kind, const char *version, const char *body)
{
    char text[2048];
    int n = snprintf(text, sizeof text,
                     "{'apiVersion': '%s/%s', 'kind': '%s', 'metadata': "
                     "{'name': 'my', 'annotations': {'a': 'b'}}, %s}",
                     kinds[kind].group, version, kinds[kind].kind, body);

    assert_true(n > 0 && (size_t)n < sizeof text);
    return wp_test_json(text);
}

static json_t *
convert(json_t *object, size_t kind, const char *version)
{
    char desired[64];
    struct wp_err err;
    json_t *made;

    (void)snprintf(desired, sizeof desired, "%s/%s", kinds[kind].group,
                   version);
    made = wp_convert(object, desired, &err);
    if (made == NULL) {
        fail_msg("%s", err.msg);
    }
    return made;
}

static void
expect_equal(const json_t *actual, const json_t *expected)
{
    char *text = json_dumps(expected, JSON_SORT_KEYS);

    wp_test_json_equal(json_deep_copy(actual), text);
    free(text);
}

/* --- Tables --- */

static const struct row {
    const char *what;
    size_t kind;
    const char *from; /* As it came. */
    const char *to;   /* In the other version, without metadata. */
} from_alpha[] = {
    {"no replicas", 0, "'spec': {'podTemplate': {'spec': {}}}",
     "'spec': {'podTemplate': {'spec': {}}, 'operatingMode': 'Running'}"},
    {"one", 0, "'spec': {'replicas': 1}, 'status': {'replicas': 1}",
     "'spec': {'operatingMode': 'Running'}, 'status': {}"},
    {"none", 0, "'spec': {'replicas': 0}, 'status': {'replicas': 0}",
     "'spec': {'operatingMode': 'Suspended'}, 'status': {}"},
    {"starting", 0, "'spec': {'replicas': 1}, 'status': {'replicas': 0}",
     "'spec': {'operatingMode': 'Running'}, 'status': {}"},
    {"a pool", 1,
     "'spec': {'sandboxTemplateRef': {'name': 't'}, 'warmpool': 'p'}",
     "'spec': {'warmPoolRef': {'name': 'p'}}"},
    {"none", 1,
     "'spec': {'sandboxTemplateRef': {'name': 't'}, 'warmpool': 'none'}",
     "'spec': {'warmPoolRef': {'name': 'shadow-pool-t'}}"},
    {"default", 1,
     "'spec': {'sandboxTemplateRef': {'name': 't'}, 'warmpool': 'default'}",
     "'spec': {'warmPoolRef': {'name': 'shadow-pool-t'}}"},
    {"no word", 1,
     "'spec': {'sandboxTemplateRef': {'name': 't'}, 'env': [{'name': 'A', "
     "'value': 'B'}], 'lifecycle': {'shutdownPolicy': 'Delete', "
     "'shutdownTime': '2026-01-01T00:00:00Z'}}, "
     "'status': {'sandbox': {'name': 'p-x1y2z', 'podIPs': ['10.0.0.1']}}",
     "'spec': {'warmPoolRef': {'name': 'shadow-pool-t'}, 'env': [{'name': "
     "'A', 'value': 'B'}], 'lifecycle': {'shutdownPolicy': 'Delete', "
     "'shutdownTime': '2026-01-01T00:00:00Z'}}, "
     "'status': {'sandbox': {'name': 'p-x1y2z', 'podIPs': ['10.0.0.1']}}"},
    {"no service", 2, "'spec': {'podTemplate': {'spec': {}}}",
     "'spec': {'podTemplate': {'spec': {}}, 'service': true}"},
    {"a service", 2, "'spec': {'podTemplate': {'spec': {}}, 'service': true}",
     "'spec': {'podTemplate': {'spec': {}}, 'service': true}"},
    {"no service, it says", 2,
     "'spec': {'podTemplate': {'spec': {}}, 'service': false}",
     "'spec': {'podTemplate': {'spec': {}}, 'service': false}"},
    {"a pool", 3,
     "'spec': {'replicas': 3, 'sandboxTemplateRef': {'name': 't'}}",
     "'spec': {'replicas': 3, 'sandboxTemplateRef': {'name': 't'}}"},
};

static const struct row from_beta[] = {
    {"running", 0,
     "'spec': {'operatingMode': 'Running'}, 'status': {'nodeName': 'n', "
     "'podIPs': ['10.0.0.1']}",
     "'spec': {'replicas': 1}, 'status': {'replicas': 1, 'podIPs': "
     "['10.0.0.1']}"},
    {"suspended", 0, "'spec': {'operatingMode': 'Suspended'}",
     "'spec': {'replicas': 0}"},
    {"a pool", 1, "'spec': {'warmPoolRef': {'name': 'p'}}",
     "'spec': {'sandboxTemplateRef': {'name': 'p'}, 'warmpool': 'p'}"},
    {"no pool's name", 1, "'spec': {'warmPoolRef': {'name': ''}}",
     "'spec': {'sandboxTemplateRef': {'name': ''}, 'warmpool': ''}"},
    {"a pool of a word's name", 1, "'spec': {'warmPoolRef': {'name': 'none'}}",
     "'spec': {'sandboxTemplateRef': {'name': 'none'}, 'warmpool': 'none'}"},
    {"a shadow", 1, "'spec': {'warmPoolRef': {'name': 'shadow-pool-t'}}",
     "'spec': {'sandboxTemplateRef': {'name': 't'}, 'warmpool': 'default'}"},
    {"volumes", 1,
     "'spec': {'warmPoolRef': {'name': 'p'}, 'volumeClaimTemplates': "
     "[{'metadata': {'name': 'v'}, 'spec': {'a': 1}}]}",
     "'spec': {'sandboxTemplateRef': {'name': 'p'}, 'warmpool': 'p'}"},
    {"a policy", 2,
     "'spec': {'podTemplate': {'spec': {}}, 'volumeClaimTemplatesPolicy': "
     "'Overrides', 'service': true}",
     "'spec': {'podTemplate': {'spec': {}}, 'service': true}"},
    {"a pool", 3,
     "'spec': {'replicas': 3}, 'status': {'replicas': 2, "
     "'observedGeneration': 4}",
     "'spec': {'replicas': 3}, 'status': {'replicas': 2}"},
};

/* What is left out there comes back as the default. */
static const struct row filled[] = {
    {"no mode", 0, "'spec': {}", "'spec': {'replicas': 1}"},
    {"a pool of one", 3, "'spec': {'sandboxTemplateRef': {'name': 't'}}",
     "'spec': {'replicas': 1, 'sandboxTemplateRef': {'name': 't'}}"},
};

static void
check_rows(const struct row *rows, size_t n, const char *from, const char *to)
{
    for (size_t i = 0; i < n; i++) {
        json_t *before = make(rows[i].kind, from, rows[i].from);
        json_t *given = json_deep_copy(before);
        json_t *expected = make(rows[i].kind, to, rows[i].to);
        json_t *there = convert(given, rows[i].kind, to);
        json_t *shown = json_deep_copy(there);
        json_t *back = convert(there, rows[i].kind, from);
        json_t *again;

        print_message("%s %s\n", kinds[rows[i].kind].kind, rows[i].what);
        (void)json_object_set(shown, "metadata",
                              json_object_get(expected, "metadata"));
        expect_equal(shown, expected);
        expect_equal(given, before);
        /* Nothing is lost on the way back; who writes in v1alpha1 leaves the
         * words that say so. */
        (void)json_object_del(wp_json_at(back, "metadata", "annotations", NULL),
                              kinds[rows[i].kind].state);
        if (rows != filled) {
            expect_equal(back, before);
        }
        again = convert(there, rows[i].kind, to);
        expect_equal(again, there);
        json_decref(again);
        json_decref(back);
        json_decref(shown);
        json_decref(there);
        json_decref(expected);
        json_decref(given);
        json_decref(before);
    }
}

static void
v1alpha1_there_and_back(void **state)
{
    (void)state;
    check_rows(from_alpha, WP_ARRAY_LEN(from_alpha), "v1alpha1", "v1beta1");
}

static void
v1beta1_there_and_back(void **state)
{
    (void)state;
    check_rows(from_beta, WP_ARRAY_LEN(from_beta), "v1beta1", "v1alpha1");
    check_rows(filled, WP_ARRAY_LEN(filled), "v1beta1", "v1alpha1");
}

/* --- Changes in between --- */

/* What is asked in one version holds, though the other one kept words of its
 * own. */
static void
a_later_change_wins(void **state)
{
    static const struct {
        size_t kind;
        const char *first;
        const char *field;
        const char *value;
        const char *expected;
    } rows[] = {
        {0, "'spec': {'replicas': 1}", "operatingMode", "'Suspended'",
         "'spec': {'replicas': 0}"},
        {0, "'spec': {'replicas': 0}, 'status': {'replicas': 0}",
         "operatingMode", "'Running'", "'spec': {'replicas': 1}, 'status': {}"},
        {1, "'spec': {'sandboxTemplateRef': {'name': 't'}}", "warmPoolRef",
         "{'name': 'q'}",
         "'spec': {'sandboxTemplateRef': {'name': 't'}, 'warmpool': 'q'}"},
        {1, "'spec': {'sandboxTemplateRef': {'name': 't'}, 'warmpool': 'p'}",
         "warmPoolRef", "{'name': 'p'}",
         "'spec': {'sandboxTemplateRef': {'name': 't'}, 'warmpool': 'p'}"},
        {2, "'spec': {}", "service", "false", "'spec': {'service': false}"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        json_t *first = make(rows[i].kind, "v1alpha1", rows[i].first);
        json_t *stored = convert(first, rows[i].kind, "v1beta1");
        json_t *expected = make(rows[i].kind, "v1alpha1", rows[i].expected);
        char text[64];
        json_t *value;
        json_t *back;

        (void)snprintf(text, sizeof text, "{'it': %s}", rows[i].value);
        value = wp_test_json(text);
        (void)wp_json_set(json_object_get(stored, "spec"), rows[i].field,
                          json_incref(json_object_get(value, "it")));
        back = convert(stored, rows[i].kind, "v1alpha1");
        expect_equal(back, expected);
        json_decref(back);
        json_decref(value);
        json_decref(expected);
        json_decref(stored);
        json_decref(first);
    }
}

/* A pool may have a name that v1alpha1 has for something else. */
static void
an_odd_pool_that_is_asked_for_later_is_kept(void **state)
{
    static const char *const names[] = {"none", "default", ""};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(names); i++) {
        json_t *first = make(1, "v1alpha1",
                             "'spec': {'sandboxTemplateRef': {'name': 't'}, "
                             "'warmpool': 'p'}");
        json_t *stored = convert(first, 1, "v1beta1");
        json_t *shown;
        json_t *back;

        (void)wp_json_set_text(wp_json_at(stored, "spec", "warmPoolRef", NULL),
                               "name", names[i]);
        shown = convert(stored, 1, "v1alpha1");
        assert_string_equal(wp_json_text(shown, "spec", "warmpool", NULL),
                            names[i]);
        assert_null(wp_json_at(shown, "spec", "warmPoolRef", NULL));
        back = convert(shown, 1, "v1beta1");
        assert_string_equal(
            wp_json_text(back, "spec", "warmPoolRef", "name", NULL), names[i]);
        json_decref(back);
        json_decref(shown);
        json_decref(stored);
        json_decref(first);
    }
}

/* Whatever v1beta1's field says in an object of v1alpha1. */
static void
a_field_of_the_other_version_is_not_read(void **state)
{
    json_t *object = make(1, "v1alpha1",
                          "'spec': {'sandboxTemplateRef': {'name': 't'}, "
                          "'warmpool': 'p', 'warmPoolRef': {'name': 'p', "
                          "'more': 1}}");
    json_t *made = convert(object, 1, "v1beta1");

    (void)state;
    wp_test_json_equal(
        json_incref(wp_json_at(made, "spec", "warmPoolRef", NULL)),
        "{'name': 'p'}");
    json_decref(made);
    json_decref(object);
}

/* The pool of its Sandbox stands for what v1alpha1 said; no other one does. */
static void
which_pool_stands_for_the_words(void **state)
{
    static const struct {
        const char *pool;
        const char *sandbox;
        const char *expected; /* warmpool */
    } rows[] = {
        {"my-pool", "my-pool-abcde", "default"},
        {"my-pool-2", "my-pool-abcde", "my-pool-2"},
        {"my", "my-pool-abcde", "my"},
        {"mine", "mine", "default"},
        {"min", "mine", "min"},
        {"", "", ""},
        {"t", "", "default"},
        {"shadow-pool-t", "", "default"},
        {"shadow-pool-u", "", "shadow-pool-u"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        json_t *first = make(1, "v1alpha1",
                             "'spec': {'sandboxTemplateRef': {'name': 't'}, "
                             "'warmpool': 'default'}");
        json_t *stored = convert(first, 1, "v1beta1");
        json_t *shown;

        (void)wp_json_set_text(wp_json_at(stored, "spec", "warmPoolRef", NULL),
                               "name", rows[i].pool);
        (void)wp_json_set_text(
            wp_json_object_at(wp_json_object_at(stored, "status"), "sandbox"),
            "name", rows[i].sandbox);
        shown = convert(stored, 1, "v1alpha1");
        assert_string_equal(wp_json_text(shown, "spec", "warmpool", NULL),
                            rows[i].expected);
        json_decref(shown);
        json_decref(stored);
        json_decref(first);
    }
}

/* Upstream keeps the whole template, and gives none a Service. */
static void
a_service_beside_upstreams_words_was_asked_for(void **state)
{
    json_t *stored =
        make(2, "v1beta1", "'spec': {'podTemplate': {}, 'service': true}");
    json_t *shown;

    (void)state;
    (void)wp_json_set_text(wp_json_at(stored, "metadata", "annotations", NULL),
                           kinds[2].state, "{\"spec\":{\"podTemplate\":{}}}");
    shown = convert(stored, 2, "v1alpha1");
    assert_true(json_is_true(wp_json_at(shown, "spec", "service", NULL)));
    json_decref(shown);
    json_decref(stored);
}

/* Upstream's converter keeps the whole object, and puts the pool of the Sandbox
 * in the place of the template's: its claims are read as well. */
static void
upstreams_words_are_read(void **state)
{
    json_t *stored = wp_test_json(
        "{'apiVersion': '" EXTENSIONS "/v1beta1', 'kind': 'SandboxClaim', "
        "'metadata': {'name': 'my'}, 'spec': {'warmPoolRef': {'name': "
        "'my-pool'}}, 'status': {'sandbox': {'name': 'my-pool-abcde'}}}");
    json_t *back;

    (void)state;
    (void)wp_json_set_text(
        wp_json_object_at(json_object_get(stored, "metadata"), "annotations"),
        WP_ANNOTATION_ALPHA_CLAIM,
        "{\"kind\":\"SandboxClaim\",\"metadata\":{\"name\":\"my\"},\"spec\":{"
        "\"sandboxTemplateRef\":{\"name\":\"t\"},\"warmpool\":\"default\"},"
        "\"status\":{}}");
    back = convert(stored, 1, "v1alpha1");
    wp_test_json_equal(
        back,
        "{'apiVersion': '" EXTENSIONS "/v1alpha1', 'kind': 'SandboxClaim', "
        "'metadata': {'name': 'my'}, 'spec': {'sandboxTemplateRef': {'name': "
        "'t'}, 'warmpool': 'default'}, 'status': {'sandbox': {'name': "
        "'my-pool-abcde'}}}");
    json_decref(stored);
}

/* --- What others wrote into the annotations --- */

static void
nonsense_counts_as_absent(void **state)
{
    static const struct {
        size_t kind;
        const char *version;
        const char *annotation;
        const char *text;
    } rows[] = {
        {0, "v1beta1", "api.agents.x-k8s.io/v1alpha1-sandbox-state", "{"},
        {0, "v1beta1", "api.agents.x-k8s.io/v1alpha1-sandbox-state", "[]"},
        {0, "v1beta1", "api.agents.x-k8s.io/v1alpha1-sandbox-state",
         "{\"spec\":{\"replicas\":1},\"status\":{\"replicas\":\"x\"}}"},
        {1, "v1beta1", WP_ANNOTATION_ALPHA_CLAIM, "[]"},
        {1, "v1beta1", WP_ANNOTATION_ALPHA_CLAIM, "{\"spec\":7}"},
        {1, "v1beta1", WP_ANNOTATION_ALPHA_CLAIM,
         "{\"spec\":{\"sandboxTemplateRef\":7,\"warmpool\":[]}}"},
        {1, "v1alpha1", "warmpool.dev/v1beta1-state",
         "{\"spec\":{\"volumeClaimTemplates\":{}}}"},
        {1, "v1alpha1", "warmpool.dev/v1beta1-state",
         "{\"spec\":{\"volumeClaimTemplates\":[{\"spec\":{},\"metadata\":{"
         "\"name\":7}}]}}"},
        {1, "v1alpha1", "warmpool.dev/v1beta1-state",
         "{\"spec\":{\"volumeClaimTemplates\":[{\"spec\":{},\"metadata\":7}]}"
         "}"},
        {1, "v1alpha1", "warmpool.dev/v1beta1-state",
         "{\"spec\":{\"volumeClaimTemplates\":[{\"spec\":{},\"metadata\":{"
         "\"labels\":{\"a\":7}}}]}}"},
        {1, "v1alpha1", "warmpool.dev/v1beta1-state",
         "{\"spec\":{\"volumeClaimTemplates\":[{\"spec\":{},\"metadata\":{"
         "\"annotations\":[]}}]}}"},
        {2, "v1alpha1",
         "api.agents.x-k8s.io/v1beta1-volume-claim-templates-policy",
         "Everything"},
        {3, "v1alpha1", "warmpool.dev/v1beta1-state",
         "{\"status\":{\"observedGeneration\":\"x\"}}"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        bool alpha = strcmp(rows[i].version, "v1alpha1") == 0;
        const char *other = alpha ? "v1beta1" : "v1alpha1";
        json_t *plain = make(rows[i].kind, rows[i].version, "'spec': {}");
        json_t *odd = json_deep_copy(plain);
        json_t *expected = convert(plain, rows[i].kind, other);
        json_t *made;

        (void)wp_json_set_text(wp_json_at(odd, "metadata", "annotations", NULL),
                               rows[i].annotation, rows[i].text);
        made = convert(odd, rows[i].kind, other);
        expect_equal(made, expected);
        json_decref(made);
        json_decref(expected);
        json_decref(odd);
        json_decref(plain);
    }
}

static void
what_is_not_ours_is_refused(void **state)
{
    static const struct {
        const char *object;
        const char *desired;
        const char *names;
    } rows[] = {
        {"{}", CORE "/v1beta1", "kind"},
        {"{'apiVersion': 'v1', 'kind': 'Pod'}", "v1", "kind"},
        {"{'apiVersion': 'example.com/v1beta1', 'kind': 'Sandbox'}",
         CORE "/v1alpha1", "kind"},
        {"{'apiVersion': '" CORE "/v1', 'kind': 'Sandbox'}", CORE "/v1beta1",
         "apiVersion"},
        {"{'apiVersion': '" CORE "/v1beta1', 'kind': 'Sandbox'}", CORE "/v2",
         "desiredAPIVersion"},
        {"{'apiVersion': '" CORE "/v1beta1', 'kind': 'Sandbox'}",
         EXTENSIONS "/v1alpha1", "desiredAPIVersion"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        json_t *object = wp_test_json(rows[i].object);
        struct wp_err err;

        assert_null(wp_convert(object, rows[i].desired, &err));
        assert_int_equal(err.status, WP_INVALID_ARGUMENT);
        assert_non_null(strstr(err.msg, rows[i].names));
        json_decref(object);
    }
}

static void
its_own_version_comes_back_as_it_is(void **state)
{
    json_t *object = make(0, "v1beta1", "'spec': {'a': 1}");
    json_t *made = convert(object, 0, "v1beta1");

    (void)state;
    assert_ptr_equal(made, object);
    json_decref(made);
    json_decref(object);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(v1alpha1_there_and_back),
        cmocka_unit_test(v1beta1_there_and_back),
        cmocka_unit_test(a_later_change_wins),
        cmocka_unit_test(an_odd_pool_that_is_asked_for_later_is_kept),
        cmocka_unit_test(a_field_of_the_other_version_is_not_read),
        cmocka_unit_test(which_pool_stands_for_the_words),
        cmocka_unit_test(a_service_beside_upstreams_words_was_asked_for),
        cmocka_unit_test(upstreams_words_are_read),
        cmocka_unit_test(nonsense_counts_as_absent),
        cmocka_unit_test(what_is_not_ours_is_refused),
        cmocka_unit_test(its_own_version_comes_back_as_it_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
