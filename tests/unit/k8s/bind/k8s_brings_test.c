/* What the annotations of a SandboxClaim name, and the Secrets that it wants:
 * read whole, or refused in words that name the annotation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/bind/brings.h"
#include "k8s/objects/names.h"

static struct wp_claim_brings brings;
static struct wp_object *claim;
static struct wp_err err;

/* With one annotation; NULL: none. */
static void
make(const char *annotation, const char *value)
{
    json_t *json =
        json_pack("{s:{s:s, s:s, s:s, s:{}}, s:{s:[{s:s, s:s}]}}", "metadata",
                  "namespace", "ns", "name", "c", "uid", "u", "annotations",
                  "spec", "env", "name", "A", "value", "1");

    if (annotation != NULL) {
        assert_int_equal(json_object_set_new(
                             json_object_get(json_object_get(json, "metadata"),
                                             "annotations"),
                             annotation, json_string(value)),
                         0);
    }
    claim = wp_object_create(WP_KIND_SANDBOX_CLAIM, json, &err);
    assert_non_null(claim);
    json_decref(json);
}

static enum wp_status
reads(const char *annotation, const char *value, bool with_env)
{
    err.msg[0] = '\0';
    make(annotation, value);
    return wp_claim_brings_read(claim, with_env, &brings, &err);
}

static void
end(void)
{
    wp_claim_brings_fini(&brings);
    wp_object_unref(claim);
}

static void
assert_text(struct wp_str text, const char *expected)
{
    assert_int_equal(text.len, strlen(expected));
    assert_memory_equal(text.ptr, expected, text.len);
}

static void
nothing_but_variables(void **state)
{
    (void)state;
    assert_int_equal(reads(NULL, NULL, true), WP_OK);
    assert_false(wp_claim_brings_more(claim));
    assert_int_equal(brings.binding.n_env, 1);
    assert_null(wp_claim_brings_lacks(&brings));
    end();
    assert_int_equal(reads(NULL, NULL, false), WP_OK);
    assert_int_equal(brings.binding.n_env, 0);
    end();
}

/* Behind a NUL another variable would begin, whose name nobody has judged. */
static void
a_variable_with_nul(void **state)
{
    static const char value[] = "1\0WARMPOOL_X=2";
    json_t *json;

    (void)state;
    json = json_pack("{s:{s:s, s:s, s:s}, s:{s:[{s:s, s:o}]}}", "metadata",
                     "namespace", "ns", "name", "c", "uid", "u", "spec", "env",
                     "name", "A", "value",
                     json_stringn_nocheck(value, sizeof value - 1));
    claim = wp_object_create(WP_KIND_SANDBOX_CLAIM, json, &err);
    assert_non_null(claim);
    json_decref(json);
    assert_int_equal(wp_claim_brings_read(claim, true, &brings, &err),
                     WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "env: 'A': expected a value of at most"));
    assert_non_null(strstr(err.msg, "without NUL"));
    end();
}

static void
files(void **state)
{
    const struct wp_binding_file *file = brings.files;

    (void)state;
    assert_int_equal(
        reads(WP_ANNOTATION_CLAIM_FILES,
              "{\"a/b\": \"text\", \"c\": {\"contentBase64\": \"AAEC\", "
              "\"mode\": \"0755\"}, \"d\": {\"content\": \"\"}}",
              true),
        WP_OK);
    assert_true(wp_claim_brings_more(claim));
    assert_int_equal(brings.binding.n_files, 3);
    for (uint32_t i = 0; i < 3; i++) {
        if (wp_str_eq(file[i].path, WP_STR("a/b"))) {
            assert_text(file[i].content, "text");
            assert_int_equal(file[i].mode, 0644);
        } else if (wp_str_eq(file[i].path, WP_STR("c"))) {
            assert_int_equal(file[i].content.len, 3);
            assert_memory_equal(file[i].content.ptr, "\0\1\2", 3);
            assert_int_equal(file[i].mode, 0755);
        } else {
            assert_text(file[i].path, "d");
            assert_int_equal(file[i].content.len, 0);
        }
    }
    end();
}

static void
what_is_started_and_where(void **state)
{
    (void)state;
    assert_int_equal(reads(WP_ANNOTATION_CLAIM_COMMAND, "[\"a\", \"\"]", false),
                     WP_OK);
    assert_int_equal(brings.binding.n_command, 2);
    assert_text(brings.command[0], "a");
    end();
    for (int i = 0; i < 3; i++) {
        static const char *const dirs[] = {"/", "/srv/x", "x/y"};

        assert_int_equal(reads(WP_ANNOTATION_CLAIM_WORKING_DIR, dirs[i], false),
                         WP_OK);
        assert_text(brings.binding.working_dir, dirs[i]);
        end();
    }
}

static json_t *
secret_of(const char *label, const char *key, const char *value)
{
    return json_pack("{s:{s:{s:s}}, s:{s:s}}", "metadata", "labels",
                     WP_LABEL_CLAIM_SECRET, label, "data", key, value);
}

static void
secrets(void **state)
{
    static const struct {
        const char *label;
        const char *key;
        const char *value;
        const char *says; /* NULL: taken. */
    } cases[] = {
        {"allowed", "k", "c2VjcmV0", NULL},
        {"allowed", "k", "", NULL},
        {"no", "k", "c2VjcmV0", "Secret \"s\" is not for claims"},
        {"allowed", "other", "c2VjcmV0", "has no key \"k\""},
        {"allowed", "k", "?", "expected at most"},
        {"allowed", "k", "AA==", "without NUL"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        json_t *object =
            secret_of(cases[i].label, cases[i].key, cases[i].value);

        assert_int_equal(reads(WP_ANNOTATION_CLAIM_SECRETS,
                               "{\"T\": {\"name\": \"s\", \"key\": \"k\", "
                               "\"env\": true}}",
                               false),
                         WP_OK);
        assert_string_equal(wp_claim_brings_lacks(&brings), "s");
        if (cases[i].says == NULL) {
            assert_int_equal(wp_claim_brings_take(&brings, "s", object, &err),
                             WP_OK);
            assert_null(wp_claim_brings_lacks(&brings));
            assert_text(brings.secrets[0].value,
                        cases[i].value[0] != '\0' ? "secret" : "");
            assert_true(brings.secrets[0].in_env);
        } else {
            assert_int_equal(wp_claim_brings_take(&brings, "s", object, &err),
                             WP_FAILED_PRECONDITION);
            assert_non_null(strstr(err.msg, cases[i].says));
            assert_null(strstr(err.msg, "c2VjcmV0"));
        }
        json_decref(object);
        end();
    }
}

static void
what_is_refused(void **state)
{
    static const struct {
        const char *annotation;
        const char *value;
        const char *says;
    } cases[] = {
        {WP_ANNOTATION_CLAIM_FILES, "[]", "expected a JSON object"},
        {WP_ANNOTATION_CLAIM_FILES, "{\"a\": \"\", \"a\": \"\"}",
         "without a name twice"},
        {WP_ANNOTATION_CLAIM_FILES, "{\"/a\": \"\"}", "'/a': expected a path"},
        {WP_ANNOTATION_CLAIM_FILES, "{\"\": \"\"}", "'': expected a path"},
        {WP_ANNOTATION_CLAIM_FILES, "{\"a/\": \"\"}", "'a/': expected a path"},
        {WP_ANNOTATION_CLAIM_FILES, "{\"a\": 1}", "'a': expected a text"},
        {WP_ANNOTATION_CLAIM_FILES, "{\"a\": {}}", "'a': expected a text"},
        {WP_ANNOTATION_CLAIM_FILES,
         "{\"a\": {\"content\": \"\", \"contentBase64\": \"\"}}",
         "'a': expected a text"},
        {WP_ANNOTATION_CLAIM_FILES, "{\"a\": {\"contentBase64\": \"x\"}}",
         "'a': expected a text"},
        {WP_ANNOTATION_CLAIM_FILES, "{\"a\": {\"content\": \"\", \"mod\": 1}}",
         "'a': expected a text"},
        {WP_ANNOTATION_CLAIM_FILES,
         "{\"a\": {\"content\": \"\", \"mode\": \"0\"}}",
         "'a': expected a text"},
        {WP_ANNOTATION_CLAIM_FILES,
         "{\"a\": {\"content\": \"\", \"mode\": \"01777\"}}",
         "'a': expected a text"},
        {WP_ANNOTATION_CLAIM_FILES,
         "{\"a\": {\"content\": \"\", \"mode\": 420}}", "'a': expected a text"},
        {WP_ANNOTATION_CLAIM_SECRETS, "{\"a\": {\"name\": \"s\"}}",
         "'a': expected name and key"},
        {WP_ANNOTATION_CLAIM_SECRETS,
         "{\"a\": {\"name\": \"../x\", \"key\": \"k\"}}",
         "'a': expected name and key"},
        {WP_ANNOTATION_CLAIM_SECRETS,
         "{\"a\": {\"name\": \"s\", \"key\": \"k\", \"value\": \"v\"}}",
         "'a': expected name and key"},
        {WP_ANNOTATION_CLAIM_SECRETS,
         "{\"A\": {\"name\": \"s\", \"key\": \"k\", \"env\": true}}",
         "that env does not set"},
        {WP_ANNOTATION_CLAIM_SECRETS,
         "{\"a.b\": {\"name\": \"s\", \"key\": \"k\", \"env\": true}}",
         "expected the name of a variable"},
        {WP_ANNOTATION_CLAIM_SECRETS,
         "{\"../a\": {\"name\": \"s\", \"key\": \"k\"}}",
         "'../a': expected a name"},
        {WP_ANNOTATION_CLAIM_WORKING_DIR, "", "expected a path"},
        {WP_ANNOTATION_CLAIM_WORKING_DIR, "//a", "expected a path"},
        {WP_ANNOTATION_CLAIM_WORKING_DIR, "a/../b", "expected a path"},
        {WP_ANNOTATION_CLAIM_COMMAND, "[]", "expected 1 to 64 words"},
        {WP_ANNOTATION_CLAIM_COMMAND, "[\"\"]", "[0]: expected a text"},
        {WP_ANNOTATION_CLAIM_COMMAND, "[\"a\", 1]", "[1]: expected a text"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        if (reads(cases[i].annotation, cases[i].value, true) !=
                WP_INVALID_ARGUMENT ||
            strstr(err.msg, cases[i].says) == NULL ||
            strstr(err.msg, cases[i].annotation) == NULL) {
            fail_msg("%s: %s: got '%s'", cases[i].annotation, cases[i].value,
                     err.msg);
        }
        end();
    }
}

static void
as_much_as_there_may_be(void **state)
{
    json_t *many = json_object();
    char name[16];
    char *text;

    (void)state;
    for (unsigned i = 0; i <= WP_BINDING_FILES_MAX; i++) {
        (void)snprintf(name, sizeof name, "f%u", i);
        assert_int_equal(json_object_set_new(many, name, json_string("")), 0);
    }
    text = json_dumps(many, 0);
    assert_int_equal(reads(WP_ANNOTATION_CLAIM_FILES, text, false),
                     WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "expected at most 256, got 257"));
    end();
    free(text);
    assert_int_equal(json_object_del(many, name), 0);
    text = json_dumps(many, 0);
    assert_int_equal(reads(WP_ANNOTATION_CLAIM_FILES, text, false), WP_OK);
    end();
    free(text);
    json_decref(many);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_but_variables),
        cmocka_unit_test(a_variable_with_nul),
        cmocka_unit_test(files),
        cmocka_unit_test(what_is_started_and_where),
        cmocka_unit_test(secrets),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(as_much_as_there_may_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
