/* All that a SandboxClaim may bring, field by field; and the most and the least
 * that there may be of each. */
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
#include "tests/support/k8s/k8s_text.h"

static struct wp_claim_brings brings;
static struct wp_err err;

/* With annotations and variables, which are taken; NULL: none. */
static enum wp_status
reads(json_t *annotations, json_t *env)
{
    json_t *json = json_pack("{s:{s:s, s:s, s:s, s:o*}, s:{s:o*}}", "metadata",
                             "namespace", "ns", "name", "c", "uid", "u",
                             "annotations", annotations, "spec", "env", env);
    struct wp_object *claim =
        wp_object_create(WP_KIND_SANDBOX_CLAIM, json, &err);
    enum wp_status status;

    if (claim == NULL) {
        fail_msg("%s", err.msg);
    }
    json_decref(json);
    err.msg[0] = '\0';
    memset(&brings, 0xa5, sizeof brings); /* Nothing of before counts. */
    status = wp_claim_brings_read(claim, true, &brings, &err);
    wp_object_unref(claim);
    return status;
}

/* With one annotation, whose JSON is taken. */
static enum wp_status
reads_json(const char *annotation, json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT);
    enum wp_status status = reads(json_pack("{s:s}", annotation, text), NULL);

    assert_non_null(text);
    free(text);
    json_decref(value);
    return status;
}

/* A text of that many letters; valid until the next one. */
static const char *
letters(size_t len)
{
    static char text[WP_BINDING_VALUE_MAX + 2];

    assert_true(len < sizeof text);
    memset(text, 'a', len);
    text[len] = '\0';
    return text;
}

static json_t *
text_of(size_t len)
{
    return json_string(letters(len));
}

/* A path of that many, in parts. */
static const char *
path_of(size_t len)
{
    char *path = (char *)(uintptr_t)letters(len);

    for (size_t i = 100; i + 1 < len; i += 100) {
        path[i] = '/';
    }
    return path;
}

#define STR(text) (int)(text).len, (text).ptr

static const char *
told(void)
{
    static char out[4096];
    const struct wp_binding *binding = &brings.binding;
    FILE *file = fmemopen(out, sizeof out, "w");

    assert_non_null(file);
    for (uint32_t i = 0; i < binding->n_env; i++) {
        (void)fprintf(file, "env %.*s=%.*s\n", STR(binding->env[i].name),
                      STR(binding->env[i].value));
    }
    for (uint32_t i = 0; i < binding->n_files; i++) {
        (void)fprintf(file, "file %.*s %04o \"%.*s\"\n",
                      STR(binding->files[i].path), binding->files[i].mode,
                      STR(binding->files[i].content));
    }
    for (uint32_t i = 0; i < binding->n_secrets; i++) {
        (void)fprintf(file, "secret %.*s%s of %.*s %.*s\n",
                      STR(binding->secrets[i].name),
                      binding->secrets[i].in_env ? " in env" : "",
                      STR(brings.refs[i].secret), STR(brings.refs[i].key));
    }
    for (uint32_t i = 0; i < binding->n_repositories; i++) {
        const struct wp_binding_repository *it = &binding->repositories[i];

        (void)fprintf(file,
                      "repository %.*s ref \"%.*s\" in \"%.*s\" of "
                      "\"%.*s\" password \"%.*s\" \"%.*s\"\n",
                      STR(it->url), STR(it->ref), STR(it->dir), STR(it->user),
                      STR(brings.logins[i].secret), STR(brings.logins[i].key));
    }
    (void)fprintf(file, "in \"%.*s\" runs", STR(binding->working_dir));
    for (uint32_t i = 0; i < binding->n_command; i++) {
        (void)fprintf(file, " \"%.*s\"", STR(binding->command[i]));
    }
    (void)fprintf(file, "\negress \"%.*s\" for \"%.*s\" %d ms\n",
                  STR(binding->egress), STR(binding->audience),
                  (int)binding->identity_ttl_ms);
    (void)fprintf(file, "%zu bytes, files %zu\n", brings.text_bytes,
                  brings.file_bytes);
    assert_int_equal(fclose(file), 0);
    return out;
}

static void
all_that_there_may_be(void **state)
{
    (void)state;
    assert_int_equal(
        reads(json_pack(
                  "{s:s, s:s, s:s, s:s, s:s, s:s, s:s}",
                  WP_ANNOTATION_CLAIM_FILES,
                  "{\"a/b\": \"text\", \"c\": {\"contentBase64\": "
                  "\"aGFsbG8=\", \"mode\": \"0755\"}, \"d\": {\"content\": "
                  "\"more\", \"mode\": \"7\"}}",
                  WP_ANNOTATION_CLAIM_SECRETS,
                  "{\"T\": {\"name\": \"s\", \"key\": \"k\", \"env\": true}, "
                  "\"u.v\": {\"name\": \"s2\", \"key\": \"k2\", \"env\": "
                  "false}}",
                  WP_ANNOTATION_CLAIM_WORKING_DIR, "/srv/x",
                  WP_ANNOTATION_CLAIM_COMMAND, "[\"run\", \"\", \"me\"]",
                  WP_ANNOTATION_CLAIM_REPOSITORIES,
                  "[{\"url\": \"https://e.org/r\"}, {\"url\": "
                  "\"https://e.org/s\", \"ref\": \"main\", \"directory\": "
                  "\"src\", \"user\": \"me\", \"password\": {\"name\": \"pw\", "
                  "\"key\": \"pk\"}}]",
                  WP_ANNOTATION_CLAIM_IDENTITY,
                  "{\"audience\": \"https://who\", \"ttl\": \"10m\"}",
                  WP_ANNOTATION_CLAIM_EGRESS, "e.org"),
              json_pack("[{s:s, s:s}, {s:s, s:s}]", "name", "A", "value", "12",
                        "name", "B", "value", "")),
        WP_OK);
    assert_string_equal(
        told(), "env A=12\n"
                "env B=\n"
                "file a/b 0644 \"text\"\n"
                "file c 0755 \"hallo\"\n"
                "file d 0007 \"more\"\n"
                "secret T in env of s k\n"
                "secret u.v of s2 k2\n"
                "repository https://e.org/r ref \"\" in \"\" of \"\" password "
                "\"\" \"\"\n"
                "repository https://e.org/s ref \"main\" in \"src\" of \"me\" "
                "password \"pw\" \"pk\"\n"
                "in \"/srv/x\" runs \"run\" \"\" \"me\"\n"
                "egress \"e.org\" for \"https://who\" 600000 ms\n"
                "50 bytes, files 13\n");
    wp_claim_brings_fini(&brings);
}

/* --- Numbers and lengths --- */

static json_t *
file_of(const char *path, const char *mode)
{
    return json_pack("{s:{s:s, s:s}}", path, "content", "", "mode", mode);
}

static void
modes(void **state)
{
    static const struct {
        const char *text;
        uint32_t mode; /* 0: refused. */
    } cases[] = {
        {"0", 0},
        {"1", 01},
        {"7", 07},
        {"8", 0},
        {"/", 0},
        {":", 0},
        {"", 0},
        {"0777", 0777},
        {"777", 0777},
        {"01000", 0},
        {"0778", 0},
        {"07 ", 0},
        {" 7", 0},
        {"-1", 0},
        {"99999999999999999999999", 0},
        {"77777777777777777777777777777", 0},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        enum wp_status status =
            reads_json(WP_ANNOTATION_CLAIM_FILES, file_of("f", cases[i].text));

        assert_int_equal(status,
                         cases[i].mode != 0 ? WP_OK : WP_INVALID_ARGUMENT);
        if (status == WP_OK) {
            assert_int_equal(brings.files[0].mode, cases[i].mode);
        }
        wp_claim_brings_fini(&brings);
    }
}

static json_t *
one_file(size_t len)
{
    return file_of(path_of(len), "1");
}

static json_t *
one_secret(size_t len)
{
    return json_pack("{s:{s:s, s:s}}", letters(len), "name", "s", "key", "k");
}

static json_t *
secret_named(size_t len)
{
    return json_pack("{s:{s:s, s:s}}", "x", "name", letters(len), "key", "k");
}

static json_t *
secret_keyed(size_t len)
{
    return json_pack("{s:{s:s, s:s}}", "x", "name", "s", "key", letters(len));
}

static json_t *
secrets_of(size_t n)
{
    json_t *secrets = json_object();

    for (size_t i = 0; i < n; i++) {
        char name[32];

        (void)snprintf(name, sizeof name, "s%zu", i);
        assert_int_equal(json_object_set_new(
                             secrets, name,
                             json_pack("{s:s, s:s}", "name", "s", "key", "k")),
                         0);
    }
    return secrets;
}

static json_t *
words_of(size_t n)
{
    json_t *words = json_array();

    for (size_t i = 0; i < n; i++) {
        assert_int_equal(json_array_append_new(words, json_string("w")), 0);
    }
    return words;
}

static json_t *
one_word(size_t len)
{
    return json_pack("[s]", letters(len));
}

static json_t *
words_with(size_t len)
{
    size_t third = len - 2 * (size_t)WP_BINDING_VALUE_MAX + 10;

    return json_pack("[o, o, o]", text_of(WP_BINDING_VALUE_MAX),
                     text_of(WP_BINDING_VALUE_MAX - 10), text_of(third));
}

static json_t *
repositories_of(size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++) {
        char dir[32];

        (void)snprintf(dir, sizeof dir, "d%zu", i);
        assert_int_equal(
            json_array_append_new(list, json_pack("{s:s, s:s}", "url",
                                                  "https://e.org/r",
                                                  "directory", dir)),
            0);
    }
    return list;
}

static json_t *
repository_in(size_t len)
{
    return json_pack("[{s:s, s:s}]", "url", "https://e.org/r", "directory",
                     path_of(len));
}

static json_t *
identity_for(size_t len)
{
    return json_pack("{s:s}", "audience", letters(len));
}

static json_t *
identity_of_minutes(size_t minutes)
{
    char ttl[32];

    (void)snprintf(ttl, sizeof ttl, "%zum", minutes);
    return json_pack("{s:s, s:s}", "audience", "a", "ttl", ttl);
}

/* The words that say so hold the text itself: what is too long is cut. */
static void
sizes(void **state)
{
    static const struct {
        const char *annotation;
        json_t *(*make)(size_t n);
        size_t least;
        size_t most;
        const char *says;
    } cases[] = {
        {WP_ANNOTATION_CLAIM_FILES, one_file, 1, WP_BINDING_PATH_MAX,
         "expected a path of at most 512 bytes below the workspace, without "
         "empty parts, '.' and '..'"},
        {WP_ANNOTATION_CLAIM_SECRETS, one_secret, 1, WP_BINDING_NAME_MAX,
         "expected a name of 1 to 128 letters, digits, '.', '_' and '-', not "
         "'.' or '-' first"},
        {WP_ANNOTATION_CLAIM_SECRETS, secret_named, 1, 253,
         "'x': expected name and key of a Secret, and perhaps env: true; a "
         "value is not written here"},
        {WP_ANNOTATION_CLAIM_SECRETS, secret_keyed, 1, 253,
         "'x': expected name and key of a Secret"},
        {WP_ANNOTATION_CLAIM_SECRETS, secrets_of, 0, WP_BINDING_SECRETS_MAX,
         "expected at most 64, got 65"},
        {WP_ANNOTATION_CLAIM_COMMAND, words_of, 1, WP_BINDING_ARGS_MAX,
         "expected 1 to 64 words, got "},
        {WP_ANNOTATION_CLAIM_COMMAND, one_word, 1, WP_BINDING_VALUE_MAX,
         "[0]: expected a text of at most 65536 bytes without NUL"},
        {WP_ANNOTATION_CLAIM_COMMAND, words_with, 2 * WP_BINDING_VALUE_MAX - 10,
         WP_BINDING_TEXT_MAX,
         "binding: expected at most 131072 bytes of names, values and words, "
         "got 131073"},
        {WP_ANNOTATION_CLAIM_REPOSITORIES, repositories_of, 0,
         WP_BINDING_REPOSITORIES_MAX, "expected at most 8, got 9"},
        {WP_ANNOTATION_CLAIM_REPOSITORIES, repository_in, 0,
         WP_BINDING_PATH_MAX,
         "[0].directory: expected a path of at most 512 bytes below the "
         "workspace, without empty parts, '.' and '..'"},
        {WP_ANNOTATION_CLAIM_IDENTITY, identity_for, 1, WP_AUDIENCE_MAX,
         "expected audience, a text of 1 to 255 bytes, and perhaps ttl"},
        {WP_ANNOTATION_CLAIM_IDENTITY, identity_of_minutes, 1, 24 * 60,
         "ttl: expected a time from 1m to 24h"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        const size_t most = cases[i].most;
        const size_t least = cases[i].least;

        if (reads_json(cases[i].annotation, cases[i].make(most)) != WP_OK ||
            (wp_claim_brings_fini(&brings), false) ||
            reads_json(cases[i].annotation, cases[i].make(least)) != WP_OK) {
            fail_msg("case %zu: %s", i, err.msg);
        }
        wp_claim_brings_fini(&brings);
        assert_int_equal(
            reads_json(cases[i].annotation, cases[i].make(most + 1)),
            WP_INVALID_ARGUMENT);
        if (strstr(err.msg, cases[i].says) == NULL) {
            fail_msg("case %zu: %s", i, err.msg);
        }
        wp_claim_brings_fini(&brings);
        if (least == 1) {
            assert_int_equal(reads_json(cases[i].annotation, cases[i].make(0)),
                             WP_INVALID_ARGUMENT);
            wp_claim_brings_fini(&brings);
        }
    }
}

static enum wp_status
reads_text(const char *annotation, size_t len, bool absolute)
{
    static char text[2 * WP_EGRESS_TEXT_MAX];

    assert_in_range(snprintf(text, sizeof text, "%s%s", absolute ? "/" : "",
                             path_of(len - absolute)),
                    0, sizeof text - 1);
    return reads(json_pack("{s:s}", annotation, text), NULL);
}

static void
lengths_of_texts(void **state)
{
    static const struct {
        const char *annotation;
        size_t most;
        bool absolute;
        const char *says;
    } cases[] = {
        {WP_ANNOTATION_CLAIM_WORKING_DIR, WP_BINDING_PATH_MAX, false,
         "annotation " WP_ANNOTATION_CLAIM_WORKING_DIR
         ": expected a path of at most 512 bytes, absolute or below the "
         "workspace, without empty parts, '.' and '..'"},
        {WP_ANNOTATION_CLAIM_WORKING_DIR, WP_BINDING_PATH_MAX, true, NULL},
        {WP_ANNOTATION_CLAIM_EGRESS, WP_EGRESS_TEXT_MAX, false, NULL},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        assert_int_equal(
            reads_text(cases[i].annotation, cases[i].most, cases[i].absolute),
            WP_OK);
        wp_claim_brings_fini(&brings);
        assert_int_equal(reads_text(cases[i].annotation, cases[i].most + 1,
                                    cases[i].absolute),
                         WP_INVALID_ARGUMENT);
        if (cases[i].says != NULL) {
            assert_string_equal(err.msg, cases[i].says);
        }
        wp_claim_brings_fini(&brings);
        assert_int_equal(reads_text(cases[i].annotation, 1, false), WP_OK);
        wp_claim_brings_fini(&brings);
    }
    assert_int_equal(reads_text(WP_ANNOTATION_CLAIM_EGRESS, 0, false),
                     WP_INVALID_ARGUMENT);
    wp_claim_brings_fini(&brings);
}

/* --- Variables --- */

static json_t *
env_of(size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++) {
        char name[32];

        (void)snprintf(name, sizeof name, "E%zu", i);
        assert_int_equal(
            json_array_append_new(
                list, json_pack("{s:s, s:s}", "name", name, "value", "v")),
            0);
    }
    return list;
}

static json_t *
variable_named(size_t len)
{
    return json_pack("[{s:s, s:s}]", "name", letters(len), "value", "v");
}

static json_t *
variable_with(size_t len)
{
    return json_pack("[{s:s, s:s}]", "name", "E", "value", letters(len));
}

static json_t *
variables_with(size_t len)
{
    size_t third = len + 3 - 2 * (size_t)WP_BINDING_VALUE_MAX;

    return json_pack("[{s:s, s:o}, {s:s, s:o}, {s:s, s:o}]", "name", "E",
                     "value", text_of(WP_BINDING_VALUE_MAX - 3), "name", "F",
                     "value", text_of(WP_BINDING_VALUE_MAX - 3), "name", "G",
                     "value", text_of(third));
}

static void
variables(void **state)
{
    static const struct {
        json_t *(*make)(size_t n);
        size_t most;
        const char *says;
    } cases[] = {
        {env_of, WP_BINDING_ENV_MAX,
         "env: expected at most 256 variables, got 257"},
        {variable_named, WP_BINDING_NAME_MAX,
         "env: 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa': "
         "expected a name of 1 to 128 bytes, without '=', that does not begin "
         "with WARMPOOL_"},
        {variable_with, WP_BINDING_VALUE_MAX,
         "env: 'E': expected a value of at most 65536 bytes without NUL"},
        {variables_with, WP_BINDING_TEXT_MAX,
         "env: expected at most 131072 bytes of names, values and words, got "
         "131073"},
    };
    static const char *const names[] = {"", "A=B", "=", "WARMPOOL_"};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        assert_int_equal(reads(NULL, cases[i].make(cases[i].most)), WP_OK);
        wp_claim_brings_fini(&brings);
        assert_int_equal(reads(NULL, cases[i].make(cases[i].most + 1)),
                         WP_INVALID_ARGUMENT);
        assert_string_equal(err.msg, cases[i].says);
        wp_claim_brings_fini(&brings);
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(names); i++) {
        assert_int_equal(reads(NULL, json_pack("[{s:s, s:s}]", "name", names[i],
                                               "value", "v")),
                         WP_INVALID_ARGUMENT);
        wp_claim_brings_fini(&brings);
    }
    assert_int_equal(reads(NULL, json_pack("[{s:s}]", "name", "A")),
                     WP_INVALID_ARGUMENT);
    wp_claim_brings_fini(&brings);
}

/* --- Repositories --- */

static void
repositories_that_are_refused(void **state)
{
#define AT "annotation " WP_ANNOTATION_CLAIM_REPOSITORIES "[0]"
#define MALFORMED                                                              \
    AT ": expected an object with url, and perhaps ref, directory, user, and " \
       "password, which names name and key of a Secret"
    static const struct {
        const char *text;
        const char *says;
    } cases[] = {
        {"[1]", MALFORMED},
        {"[{}]", MALFORMED},
        {"[{'url': ''}]", MALFORMED},
        {"[{'ref': 'main'}]", MALFORMED},
        {"[{'url': 'https://e.org/r', 'more': 'x'}]", MALFORMED},
        {"[{'url': 'https://e.org/r', 'ref': 1}]", MALFORMED},
        {"[{'url': 'https://e.org/r', 'password': 'x'}]", MALFORMED},
        {"[{'url': 'https://e.org/r', 'password': {'name': 'n'}}]", MALFORMED},
        {"[{'url': 'https://e.org/r', 'password': {'name': '', 'key': 'k'}}]",
         MALFORMED},
        {"[{'url': 'https://e.org/r', 'password': {'name': 'n', 'key': 'k', "
         "'x': 1}}]",
         MALFORMED},
        {"[{'url': 'https://e.org/r', 'directory': '../x'}]",
         AT ".directory: expected a path of at most 512 bytes below the "
            "workspace, without empty parts, '.' and '..'"},
        {"[{'url': 'https://e.org/r'}, {'url': 'https://e.org/s'}]",
         "annotation " WP_ANNOTATION_CLAIM_REPOSITORIES
         "[1].directory: another one has that directory"},
        {"{}", "annotation " WP_ANNOTATION_CLAIM_REPOSITORIES
               ": expected a JSON array without a name twice"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        assert_int_equal(reads_json(WP_ANNOTATION_CLAIM_REPOSITORIES,
                                    wp_test_json(cases[i].text)),
                         WP_INVALID_ARGUMENT);
        assert_string_equal(err.msg, cases[i].says);
        wp_claim_brings_fini(&brings);
    }
    /* What no annotation speaks of is not read, and nobody's fault. */
    assert_int_equal(reads(NULL, NULL), WP_OK);
    assert_string_equal(told(), "in \"\" runs\negress \"\" for \"\" 0 ms\n"
                                "0 bytes, files 0\n");
    wp_claim_brings_fini(&brings);
}

/* --- Values --- */

static size_t wiped; /* Bytes, in all. */

void __wrap_explicit_bzero(void *at, size_t len);
void
__wrap_explicit_bzero(void *at, size_t len)
{
    memset(at, 0, len);
    wiped += len;
}

void __wrap___explicit_bzero_chk(void *at, size_t len, size_t room);
void
__wrap___explicit_bzero_chk(void *at, size_t len, size_t room)
{
    assert_true(len <= room);
    __wrap_explicit_bzero(at, len);
}

static json_t *
secret_with(const char *coded)
{
    return json_pack("{s:{s:{s:s}}, s:{s:s, s:s}}", "metadata", "labels",
                     WP_LABEL_CLAIM_SECRET, "allowed", "data", "k", coded,
                     "other", "Yg==");
}

/* Takes a value of that many bytes, all of them zero. */
static enum wp_status
takes_zeros(const char *annotation, const char *text, size_t len)
{
    size_t coded_len = (len + 2) / 3 * 4;
    char *coded = malloc(coded_len + 1);
    json_t *object;
    enum wp_status status;

    assert_non_null(coded);
    memset(coded, 'A', coded_len);
    memset(coded + coded_len - (3 - len % 3) % 3, '=', (3 - len % 3) % 3);
    coded[coded_len] = '\0';
    object = secret_with(coded);
    assert_int_equal(reads_json(annotation, wp_test_json(text)), WP_OK);
    err.msg[0] = '\0';
    status = wp_claim_brings_take(&brings, "s", object, &err);
    json_decref(object);
    free(coded);
    return status;
}

static void
values(void **state)
{
    static const char one[] = "{'T': {'name': 's', 'key': 'k'}}";

    (void)state;
    assert_int_equal(
        takes_zeros(WP_ANNOTATION_CLAIM_SECRETS, one, WP_BINDING_VALUE_MAX),
        WP_OK);
    assert_int_equal(brings.secrets[0].value.len, WP_BINDING_VALUE_MAX);
    assert_int_equal(brings.text_bytes, WP_BINDING_VALUE_MAX + 1);
    assert_null(wp_claim_brings_lacks(&brings));
    wp_claim_brings_fini(&brings);
    assert_int_equal(
        takes_zeros(WP_ANNOTATION_CLAIM_SECRETS, one, WP_BINDING_VALUE_MAX + 1),
        WP_FAILED_PRECONDITION);
    assert_string_equal(err.msg, "secret 'T': key \"k\" of Secret \"s\": "
                                 "expected at most 65536 bytes");
    wp_claim_brings_fini(&brings);
    /* Two values fit beside their names, or do not. */
    assert_int_equal(
        takes_zeros(WP_ANNOTATION_CLAIM_SECRETS,
                    "{'T': {'name': 's', 'key': 'k'}, 'U': {'name': 's', "
                    "'key': 'k'}}",
                    WP_BINDING_VALUE_MAX - 1),
        WP_OK);
    wp_claim_brings_fini(&brings);
    assert_int_equal(
        takes_zeros(WP_ANNOTATION_CLAIM_SECRETS,
                    "{'T': {'name': 's', 'key': 'k'}, 'U2': {'name': 's', "
                    "'key': 'k'}}",
                    WP_BINDING_VALUE_MAX - 1),
        WP_FAILED_PRECONDITION);
    assert_string_equal(err.msg, "secrets: expected at most 131072 bytes of "
                                 "names, values and words in all, got 131073");
    wp_claim_brings_fini(&brings);
}

/* One Secret fills each place that names it, and no other. */
static void
values_go_where_they_are_named(void **state)
{
    json_t *object = secret_with("YWJj");

    (void)state;
    assert_int_equal(
        reads(json_pack("{s:s, s:s}", WP_ANNOTATION_CLAIM_SECRETS,
                        "{\"T\": {\"name\": \"s\", \"key\": \"k\"}, \"U\": "
                        "{\"name\": \"s2\", \"key\": \"k\"}, \"V\": {\"name\": "
                        "\"s\", \"key\": \"other\"}}",
                        WP_ANNOTATION_CLAIM_REPOSITORIES,
                        "[{\"url\": \"https://e.org/r\", \"directory\": \"d\"}"
                        ", {\"url\": \"https://e.org/s\", \"password\": "
                        "{\"name\": \"s\", \"key\": \"k\"}}]"),
              NULL),
        WP_OK);
    assert_string_equal(wp_claim_brings_lacks(&brings), "s");
    assert_int_equal(wp_claim_brings_take(&brings, "s", object, &err), WP_OK);
    assert_true(wp_str_is(brings.secrets[0].value, "abc"));
    assert_int_equal(brings.secrets[1].value.len, 0);
    assert_true(wp_str_is(brings.secrets[2].value, "b"));
    assert_int_equal(brings.repositories[0].password.len, 0);
    assert_string_equal(brings.repositories[0].ref.ptr, "");
    assert_string_equal(brings.repositories[0].user.ptr, "");
    assert_string_equal(brings.repositories[1].dir.ptr, "");
    assert_true(wp_str_is(brings.repositories[1].password, "abc"));
    assert_string_equal(wp_claim_brings_lacks(&brings), "s2");
    assert_int_equal(wp_claim_brings_take(&brings, "s2", object, &err), WP_OK);
    assert_null(wp_claim_brings_lacks(&brings));
    json_decref(object);
    /* In the end nothing of them is left, nor of all that was read. */
    wiped = 0;
    wp_claim_brings_wipe(&brings);
    assert_string_equal(wp_claim_brings_lacks(&brings), "s");
    wp_claim_brings_fini(&brings);
    assert_int_equal(wiped, 4 * (4 / 4 * 3 + 4));
    for (size_t i = 0; i < sizeof brings; i++) {
        assert_int_equal(((const char *)&brings)[i], 0);
    }
}

/* What lies behind a list that is full is no part of it. */
static void
full_lists_end_where_they_end(void **state)
{
    json_t *files = json_object();
    json_t *repositories = json_array();
    char text[64];
    char *dumped;

    (void)state;
    for (int i = 0; i < WP_BINDING_FILES_MAX; i++) {
        (void)snprintf(text, sizeof text, "f%d", i);
        assert_int_equal(
            json_object_set_new(files, text,
                                json_pack("{s:s}", "contentBase64", "YQ==")),
            0);
    }
    assert_int_equal(reads_json(WP_ANNOTATION_CLAIM_FILES, files), WP_OK);
    assert_int_equal(brings.n_contents, WP_BINDING_FILES_MAX);
    wp_claim_brings_fini(&brings);
    for (int i = 0; i < WP_BINDING_REPOSITORIES_MAX; i++) {
        (void)snprintf(text, sizeof text, "d%d", i);
        assert_int_equal(
            json_array_append_new(repositories, json_pack("{s:s, s:s}", "url",
                                                          "https://e.org/r",
                                                          "directory", text)),
            0);
    }
    dumped = json_dumps(repositories, JSON_COMPACT);
    json_decref(repositories);
    assert_int_equal(
        reads(json_pack("{s:s, s:s}", WP_ANNOTATION_CLAIM_REPOSITORIES, dumped,
                        WP_ANNOTATION_CLAIM_COMMAND, "[\"run\", \"it\"]"),
              NULL),
        WP_OK);
    free(dumped);
    assert_int_equal(brings.binding.n_repositories,
                     WP_BINDING_REPOSITORIES_MAX);
    assert_null(wp_claim_brings_lacks(&brings));
    wp_claim_brings_fini(&brings);
}

/* A message names it whole, however long it is. */
static void
the_longest_name_is_said_whole(void **state)
{
    char text[512];
    char says[512];

    (void)state;
    (void)snprintf(text, sizeof text, "{'%.128s': {'name': 's', 'key': 'k'}}",
                   letters(WP_BINDING_NAME_MAX));
    (void)snprintf(
        says, sizeof says,
        "secret '%.128s': key \"k\" of Secret \"s\": expected at most "
        "65536 bytes",
        letters(WP_BINDING_NAME_MAX));
    assert_int_equal(takes_zeros(WP_ANNOTATION_CLAIM_SECRETS, text,
                                 WP_BINDING_VALUE_MAX + 1),
                     WP_FAILED_PRECONDITION);
    assert_string_equal(err.msg, says);
    wp_claim_brings_fini(&brings);
}

/* What is not said is said to be nothing, whatever was there before. */
static void
an_identity_may_say_no_time(void **state)
{
    static const struct {
        const char *text;
        int64_t ttl_ms;
        bool read;
    } rows[] = {
        {"{'audience': 'a'}", 0, true},
        {"{'audience': 'a', 'ttl': '1m'}", 60000, true},
        {"{'audience': 'a', 'ttl': '24h'}", 86400000, true},
        {"{'audience': 'a', 'ttl': '59999ms'}", 0, false},
        {"{'audience': 'a', 'ttl': '86400001ms'}", 0, false},
        {"{'audience': 'a', 'ttl': 60}", 0, false},
        {"{'audience': 'a', 'ttl': 'soon'}", 0, false},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        json_t *identity = wp_test_json(rows[i].text);
        struct wp_str audience = WP_STR("of before");
        int64_t ttl_ms = 7;

        assert_int_equal(
            wp_claim_brings_read_identity(identity, &audience, &ttl_ms, &err),
            rows[i].read ? WP_OK : WP_INVALID_ARGUMENT);
        assert_true(wp_str_is(audience, "a"));
        assert_int_equal(ttl_ms, rows[i].ttl_ms);
        json_decref(identity);
    }
}

static void
passwords(void **state)
{
    static const struct {
        const char *coded;
        const char *says; /* NULL: taken. */
    } cases[] = {
        {"YQ==", NULL},
        {"", "repositories[0]: key \"k\" of Secret \"s\": expected a password "
             "of 1 to 1024 bytes without control characters"},
        {"Cg==", "repositories[0]: key \"k\" of Secret \"s\": expected a "
                 "password of 1 to 1024 bytes without control characters"},
        {"!", "repositories[0]: key \"k\" of Secret \"s\": expected at most "
              "65536 bytes"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        json_t *object = secret_with(cases[i].coded);

        assert_int_equal(
            reads_json(WP_ANNOTATION_CLAIM_REPOSITORIES,
                       wp_test_json("[{'url': 'https://e.org/r', 'password': "
                                    "{'name': 's', 'key': 'k'}}]")),
            WP_OK);
        assert_int_equal(wp_claim_brings_take(&brings, "s", object, &err),
                         cases[i].says == NULL ? WP_OK
                                               : WP_FAILED_PRECONDITION);
        if (cases[i].says != NULL) {
            assert_string_equal(err.msg, cases[i].says);
        }
        json_decref(object);
        wp_claim_brings_fini(&brings);
    }
}

/* --- Whose they are --- */

/* Only the first container's program takes what claims bring. */
static void
only_the_first_container_takes(void **state)
{
    static const struct {
        const char *env;
        const char *says; /* NULL: taken. */
    } cases[] = {
        {"[]", NULL},
        {"[{'name': 'A', 'value': '1'}]", NULL},
        {"[{'name': 'A', 'value': '1', 'containerName': 'main'}]", NULL},
        {"[{'name': 'A', 'value': '1', 'containerName': 'side'}, {'name': "
         "'B', 'value': '1', 'containerName': 'third'}]",
         "env: 'A' is for container 'side'; only the first container's "
         "program takes what claims bring"},
        {"[{'name': 'A', 'value': '1'}, {'name': 'B', 'value': '1', "
         "'containerName': 'side'}]",
         "env: 'B' is for container 'side'; only the first container's "
         "program takes what claims bring"},
    };
    struct wp_object *templ = wp_test_object(
        WP_KIND_SANDBOX_TEMPLATE,
        "{'metadata': {'namespace': 'ns', 'name': 't', 'uid': 'u'}, 'spec': "
        "{'podTemplate': {'spec': {'containers': [{'name': 'main'}, {'name': "
        "'side'}]}}}}");

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        char text[512];
        struct wp_object *claim;

        (void)snprintf(text, sizeof text,
                       "{'metadata': {'namespace': 'ns', 'name': 'c', 'uid': "
                       "'u'}, 'spec': {'env': %s}}",
                       cases[i].env);
        claim = wp_test_object(WP_KIND_SANDBOX_CLAIM, text);
        assert_int_equal(wp_claim_brings_check(claim, templ, &err),
                         cases[i].says == NULL ? WP_OK
                                               : WP_FAILED_PRECONDITION);
        if (cases[i].says != NULL) {
            assert_string_equal(err.msg, cases[i].says);
        }
        wp_object_unref(claim);
    }
    wp_object_unref(templ);
}

static void
any_annotation_brings_more(void **state)
{
    static const char *const annotations[] = {
        WP_ANNOTATION_CLAIM_FILES,        WP_ANNOTATION_CLAIM_SECRETS,
        WP_ANNOTATION_CLAIM_WORKING_DIR,  WP_ANNOTATION_CLAIM_COMMAND,
        WP_ANNOTATION_CLAIM_REPOSITORIES, WP_ANNOTATION_CLAIM_IDENTITY,
        WP_ANNOTATION_CLAIM_EGRESS,       "example.com/none",
    };
    struct wp_object *none = wp_test_object(
        WP_KIND_SANDBOX_CLAIM,
        "{'metadata': {'namespace': 'ns', 'name': 'c', 'uid': 'u'}}");

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(annotations); i++) {
        bool counts = i < WP_ARRAY_LEN(annotations) - 1;
        struct wp_object *made[2];

        for (size_t j = 0; j < 2; j++) {
            char text[512];

            (void)snprintf(text, sizeof text,
                           "{'metadata': {'namespace': 'ns', 'name': 'c', "
                           "'uid': 'u', 'annotations': {'%s': '%zu'}}}",
                           annotations[i], j);
            made[j] = wp_test_object(WP_KIND_SANDBOX_CLAIM, text);
        }
        assert_int_equal(wp_claim_brings_more(made[0]), counts);
        assert_true(wp_claim_brings_same(made[0], made[0]));
        assert_int_equal(wp_claim_brings_same(made[0], made[1]), !counts);
        assert_int_equal(wp_claim_brings_same(none, made[0]), !counts);
        assert_int_equal(wp_claim_brings_same(made[0], none), !counts);
        wp_object_unref(made[0]);
        wp_object_unref(made[1]);
    }
    wp_object_unref(none);
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_that_there_may_be),
        cmocka_unit_test(modes),
        cmocka_unit_test(sizes),
        cmocka_unit_test(lengths_of_texts),
        cmocka_unit_test(variables),
        cmocka_unit_test(repositories_that_are_refused),
        cmocka_unit_test(values),
        cmocka_unit_test(values_go_where_they_are_named),
        cmocka_unit_test(full_lists_end_where_they_end),
        cmocka_unit_test(the_longest_name_is_said_whole),
        cmocka_unit_test(an_identity_may_say_no_time),
        cmocka_unit_test(passwords),
        cmocka_unit_test(only_the_first_container_takes),
        cmocka_unit_test(any_annotation_brings_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
