/* tests/unit/local/manifest/manifest_bounds_test.c - how many there may be of
 * each thing in a manifest: so many are read, one more is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/compiler.h"
#include "tests/support/local/manifest_text.h"

enum {
    TEXT_CAP = 1 << 21
};

static char text[TEXT_CAP];

struct row {
    const char *head;
    const char *each; /* With %d, a number that no other has. */
    const char *tail;
    int most;
    const char *words; /* When there is one more. */
};

static void
fill(const struct row *row, int n)
{
    size_t len = (size_t)sprintf(text, "%s", row->head);

    for (int i = 0; i < n; i++) {
        const char *number = strstr(row->each, "%d");
        const char *rest = number != NULL ? number + 2 : "";

        assert_true(len + strlen(row->each) + 1000 < TEXT_CAP);
        len +=
            (size_t)sprintf(text + len, "%.*s",
                            (int)(number != NULL ? (size_t)(number - row->each)
                                                 : strlen(row->each)),
                            row->each);
        if (number != NULL) {
            len += (size_t)sprintf(text + len, "%d%s", i, rest);
        }
    }
    (void)sprintf(text + len, "%s", row->tail);
}

static void
check(const struct row *row)
{
    struct wp_manifest *manifest;
    struct wp_err err;

    fill(row, row->most);
    if (manifest_text_read(&manifest, text, &err) != WP_OK) {
        fail_msg("%d of '%s': %s", row->most, row->each, err.msg);
    }
    wp_manifest_destroy(manifest);
    fill(row, row->most + 1);
    if (manifest_text_read(&manifest, text, &err) == WP_OK) {
        fail_msg("%d of '%s' are read", row->most + 1, row->each);
    }
    if (strstr(err.msg, row->words) == NULL) {
        fail_msg("'%s' does not say '%s'", err.msg, row->words);
    }
    wp_manifest_destroy(manifest);
}

#define BEFORE_COMMAND                                                         \
    MANIFEST_HEAD "      containers:\n"                                        \
                  "      - name: c\n"                                          \
                  "        image: host\n"                                      \
                  "        ports: [{containerPort: 8080}]\n"

#define TEMPLATE                                                               \
    "apiVersion: extensions.agents.x-k8s.io/v1beta1\n"                         \
    "kind: SandboxTemplate\n"

/* Mounts at /s0 and on. */
#define SAME(at) "{name: v, mountPath: /s" #at "}, "
#define SAME_8 SAME(0) SAME(1) SAME(2) SAME(3) SAME(4) SAME(5) SAME(6) SAME(7)
#define SAME_16                                                                \
    SAME_8 SAME(8) SAME(9) SAME(10) SAME(11) SAME(12) SAME(13) SAME(14) SAME(15)
#define MORE_8                                                                 \
    SAME(16) SAME(17) SAME(18) SAME(19) SAME(20) SAME(21) SAME(22) SAME(23)
#define MORE_16                                                                \
    MORE_8 SAME(24) SAME(25) SAME(26) SAME(27) SAME(28) SAME(29) SAME(30)      \
        SAME(31)

static void
test_most_in_a_template(void **state)
{
    static const struct row rows[] = {
        {BEFORE_COMMAND "        command:\n", "        - a%d\n", "", 256,
         "command[256]: at most 256 were expected"},
        {BEFORE_COMMAND "        command: [", "a", "]\n", 65536,
         "command[0]: at most 65536 bytes were expected"},
        {MANIFEST_HEAD MANIFEST_CONTAINER "        env:\n",
         "        - {name: A%d, value: x}\n", "", 256,
         "env[256]: at most 256 were expected"},
        {MANIFEST_HEAD MANIFEST_CONTAINER "      volumes:\n",
         "      - {name: v%d, emptyDir: {}}\n", "", 32,
         "volumes[32]: at most 32 were expected"},
        {MANIFEST_MAP MANIFEST_HEAD
         "      volumes: [{name: v, configMap: {name: c}}]\n" MANIFEST_CONTAINER
         "        volumeMounts:\n",
         "        - {name: v, mountPath: /v%d}\n", "", 32,
         "volumeMounts[32]: at most 32 were expected"},
        {MANIFEST_MAP MANIFEST_HEAD
         "      volumes: [{name: v, configMap: {name: c}}]\n"
         "      initContainers: [{name: i, image: host, command: [a], "
         "volumeMounts: [{name: v, mountPath: /other}]}]\n" MANIFEST_CONTAINER
         "        volumeMounts:\n",
         "        - {name: v, mountPath: /v%d}\n", "", 31,
         "at most 32 mounts in one sandbox were expected"},
        {MANIFEST_MAP MANIFEST_HEAD
         "      volumes: [{name: v, configMap: {name: c}}]\n" MANIFEST_CONTAINER
         "        volumeMounts: [" SAME_16 MORE_16 "]\n"
         "      initContainers:\n"
         "      - {name: i, image: host, command: [a], volumeMounts: "
         "[" SAME_16 MORE_8 "]}\n"
         "      - name: j\n"
         "        image: host\n"
         "        command: [a]\n"
         "        volumeMounts:\n",
         "        - {name: v, mountPath: /s%d}\n", "", 8,
         "volumeMounts[8]: at most 64 in all were expected"},
        {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n",
         "  k%d: x\n",
         "---\n" MANIFEST_HEAD MANIFEST_CONTAINER
         "        volumeMounts: [{name: v, mountPath: /v}]\n"
         "      volumes: [{name: v, configMap: {name: c}}]\n",
         128,
         "volumeMounts[0]: more than 128 files of ConfigMaps and Secrets in one"
         " template"},
        {MANIFEST_HEAD MANIFEST_CONTAINER "        env:\n        - {name: A, "
                                          "value: aaaaaaaaaaaaaaaa}\n"
                                          "        - {name: B, value: \"",
         "$(A)", "\"}\n", 4096, "env[1]: the value is too long"},
        {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: ",
         "a",
         "}\n---\n" MANIFEST_HEAD MANIFEST_CONTAINER
         "        env: [{name: A, valueFrom: {configMapKeyRef: {name: c, key: "
         "a}}}]\n",
         65535, "has a value that is too long for a variable"},
        {BEFORE_COMMAND "        env: [{name: A, value: aaaaaaaaaaaaaaaa}]\n"
                        "        command: [\"",
         "$(A)", "\"]\n", 4096, "an argument is too long"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        check(&rows[i]);
    }
}

static void
test_most_files_of_all_mounts(void **state)
{
    static const struct row rows[] = {
        /* Of all its mounts together. */
        {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n",
         "  k%d: x\n",
         "---\n" MANIFEST_HEAD MANIFEST_CONTAINER
         "        volumeMounts: [{name: v, mountPath: /v}, {name: v, "
         "mountPath: /w}]\n"
         "      volumes: [{name: v, configMap: {name: c}}]\n",
         64,
         "more than 128 files of ConfigMaps and Secrets in one"
         " template"},
        /* Another template's do not count. */
        {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n",
         "  k%d: x\n",
         "---\n" MANIFEST_HEAD MANIFEST_CONTAINER
         "        volumeMounts: [{name: v, mountPath: /v}]\n"
         "      volumes: [{name: v, configMap: {name: c}}]\n---\n" TEMPLATE
         "metadata: {name: other}\nspec:\n  podTemplate:\n"
         "    spec:\n" MANIFEST_CONTAINER
         "        volumeMounts: [{name: v, mountPath: /v}]\n"
         "      volumes: [{name: v, configMap: {name: c}}]\n",
         128,
         "volumeMounts[0]: more than 128 files of ConfigMaps and Secrets in one"
         " template"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        check(&rows[i]);
    }
}

/* --- How long texts may be, and how large numbers --- */

#define CONFIG "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
#define SPEC                                                                   \
    "spec: {podTemplate: {spec: {containers: [{image: host, command: "         \
    "[a], ports: [{containerPort: 1}]}]}}}\n"

static void
test_longest_texts(void **state)
{
    static const struct row rows[] = {
        {TEMPLATE "metadata: {name: a", "a", "}\n" SPEC, 62,
         "metadata: name: a DNS name of at most 63 characters was expected, "
         "not 'aaaa"},
        {TEMPLATE "metadata: {name: a, namespace: a", "a", "}\n" SPEC, 62,
         "metadata: namespace: a DNS label was expected, not 'aaaa"},
        {"apiVersion: v1\nkind: Secret\nmetadata: {name: a", "a.a", "}\n", 84,
         "metadata.name: at most 253 bytes were expected"},
        {BEFORE_COMMAND "        command: [a]\n        workingDir: /", "a",
         "\n", 254, "workingDir: at most 255 bytes were expected"},
        {MANIFEST_HEAD
         "      containers:\n      - ports: [{containerPort: 1}]\n"
         "        command: [a]\n        image: ",
         "a", "\n", 255, "image: at most 255 bytes were expected"},
        {MANIFEST_HEAD "      containers:\n      - {command: [a], image: host, "
                       "ports: [{containerPort: 1, name: ",
         "a", "}]}\n", 63, "ports[0].name: at most 63 bytes were expected"},
        {MANIFEST_HEAD MANIFEST_CONTAINER
         "        readinessProbe: {httpGet: {port: 8080, path: /",
         "a", "}}\n", 1023, "path: at most 1024 bytes were expected"},
        {MANIFEST_HEAD MANIFEST_CONTAINER "        env: [{name: ", "a", "}]\n",
         255, "env[0].name: at most 255 bytes were expected"},
        {MANIFEST_HEAD MANIFEST_CONTAINER "        env: [{name: a, value: ",
         "a", "}]\n", 65536, "env[0].value: at most 65536 bytes were expected"},
        {MANIFEST_HEAD MANIFEST_CONTAINER
         "        env: [{name: a, valueFrom: {secretKeyRef: {optional: true, "
         "key: k, name: ",
         "a", "}}}]\n", 253, "name: at most 253 bytes were expected"},
        {MANIFEST_HEAD MANIFEST_CONTAINER
         "        env: [{name: a, valueFrom: {secretKeyRef: {optional: true, "
         "name: k, key: ",
         "a", "}}}]\n", 253, "key: at most 253 bytes were expected"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        check(&rows[i]);
    }
}

static void
test_longest_lists_and_texts_of_volumes(void **state)
{
    static const struct row rows[] = {
        {MANIFEST_HEAD MANIFEST_CONTAINER
         "      volumes: [{emptyDir: {}, name: ",
         "a", "}]\n", 63, "volumes[0].name: at most 63 bytes were expected"},
        {MANIFEST_HEAD MANIFEST_CONTAINER
         "        volumeMounts: [{name: v, mountPath: /",
         "a", "}]\n      volumes: [{name: v, emptyDir: {}}]\n", 254,
         "mountPath: at most 255 bytes were expected"},
        {MANIFEST_HEAD MANIFEST_CONTAINER
         "        volumeMounts: [{name: v, mountPath: /v, subPath: ",
         "a",
         "}]\n      volumes: [{name: v, configMap: {name: c, optional: "
         "true}}]\n",
         255, "subPath: at most 255 bytes were expected"},
        {MANIFEST_HEAD MANIFEST_CONTAINER
         "      volumes: [{name: v, configMap: {optional: true, name: ",
         "a", "}}]\n", 253, "configMap.name: at most 253 bytes were expected"},
        {MANIFEST_HEAD MANIFEST_CONTAINER
         "      volumes: [{name: v, secret: {secretName: s, items: [{path: a, "
         "key: ",
         "a", "}]}}]\n", 253, "items[0].key: at most 253 bytes were expected"},
        {MANIFEST_HEAD MANIFEST_CONTAINER
         "      volumes: [{name: v, secret: {secretName: s, items: [{key: a, "
         "path: ",
         "a", "}]}}]\n", 255, "items[0].path: at most 255 bytes were expected"},
        {MANIFEST_HEAD MANIFEST_CONTAINER
         "      volumes: [{name: v, secret: {secretName: s, items: [",
         "{key: a, path: p%d}, ", "]}}]\n", 128,
         "items[128]: at most 128 were expected"},
        {MANIFEST_HEAD MANIFEST_CONTAINER
         "      initContainers: [{image: host, command: [a], name: ",
         "a", "}]\n", 63, "initContainers[0].name: at most 63 bytes"},
        {MANIFEST_HEAD MANIFEST_CONTAINER "      initContainers:\n",
         "      - {name: i%d, image: host, command: [a]}\n", "", 16,
         "initContainers[16]: at most 16 were expected"},
        {MANIFEST_HEAD "      containers:\n      - image: host\n"
                       "        command: [a]\n        ports:\n",
         "        - {containerPort: 1, name: p%d}\n", "", 32,
         "ports[32]: at most 32 were expected"},
        {CONFIG "data: {", "a", ": x}\n", 253,
         "a key of letters, digits, '-', '_' and '.' was expected, at most 253 "
         "of them"},
        {CONFIG "data: {b: \"1234567890\", a: \"", "aaaaaaaa", "aaaaaa\"}\n",
         131070, "data.a: at most 1048576 bytes in all were expected"},
        {MANIFEST_HEAD MANIFEST_CONTAINER
         "        readinessProbe: {exec: {command: [",
         "a,", "]}}\n", 256, "command[256]: at most 256 were expected"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        check(&rows[i]);
    }
}

#define LIMIT(name, value)                                                     \
    MANIFEST_HEAD MANIFEST_CONTAINER "        resources: {limits: {" name      \
                                     ": " value "}}\n"
#define TIMEOUT(value)                                                         \
    MANIFEST_HEAD MANIFEST_CONTAINER "        readinessProbe: {exec: "         \
                                     "{command: [a]}, timeoutSeconds: " value  \
                                     "}\n"
#define PORT(value)                                                            \
    MANIFEST_HEAD "      containers: [{image: host, command: [a], ports: "     \
                  "[{containerPort: " value "}]}]\n"
#define PROBE_PORT(value)                                                      \
    MANIFEST_HEAD "      containers: [{image: host, command: [a], "            \
                  "readinessProbe: {tcpSocket: {port: " value "}}}]\n"
#define DIVISOR(value)                                                         \
    LIMIT("cpu", "1")                                                          \
    "        env: [{name: A, valueFrom: {resourceFieldRef: {resource: "        \
    "limits.cpu, divisor: " value "}}}]\n"
#define SIZE_LIMIT(value)                                                      \
    MANIFEST_HEAD MANIFEST_CONTAINER                                           \
        "      volumes: [{name: v, emptyDir: {sizeLimit: " value "}}]\n"
#define MODE(value)                                                            \
    MANIFEST_HEAD MANIFEST_CONTAINER "      volumes: [{name: v, secret: "      \
                                     "{secretName: s, defaultMode: " value     \
                                     "}}]\n"

static void
test_least_and_largest_numbers(void **state)
{
    static const struct {
        const char *text;
        bool read;
    } rows[] = {
        {LIMIT("cpu", "1m"), true},
        {LIMIT("cpu", "0.9m"), true},
        {LIMIT("cpu", "0"), false},
        {LIMIT("cpu", "1000"), true},
        {LIMIT("cpu", "1000001m"), false},
        {LIMIT("cpu", "1k"), true},
        {LIMIT("memory", "4096"), true},
        {LIMIT("memory", "4095"), false},
        {LIMIT("memory", "4097"), true},
        {LIMIT("memory", "9x"), false},
        {LIMIT("memory", "5000x"), false},
        {SIZE_LIMIT("4096"), true},
        {SIZE_LIMIT("4095"), false},
        {TIMEOUT("1"), true},
        {TIMEOUT("3600"), true},
        {TIMEOUT("0"), false},
        {TIMEOUT("3601"), false},
        {PORT("1"), true},
        {PORT("65535"), true},
        {PORT("0"), false},
        {PORT("65536"), false},
        {PROBE_PORT("1"), true},
        {PROBE_PORT("65535"), true},
        {PROBE_PORT("0"), false},
        {PROBE_PORT("65536"), false},
        {DIVISOR("1m"), true},
        {DIVISOR("0"), false},
        {DIVISOR("[]"), false},
        {MODE("0"), true},
        {MODE("0777"), true},
        {MODE("01000"), false},
        {MODE("511"), true},
        {MODE("512"), false},
        {MODE("0o777"), true},
        {MODE("0o1000"), false},
        {MODE("-1"), false},
        {MODE("+1"), false},
        {MODE("0o"), false},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_manifest *manifest;
        struct wp_err err;

        if ((manifest_text_read(&manifest, rows[i].text, &err) == WP_OK) !=
            rows[i].read) {
            fail_msg("%s%s", rows[i].text, err.msg);
        }
        wp_manifest_destroy(manifest);
    }
}

/* A path that is too long to show ends where it still fits. */
static void
test_longest_path_in_a_message(void **state)
{
    (void)state;
    for (int n = 142; n <= 145; n++) {
        struct wp_manifest *manifest;
        struct wp_err err;
        char expected[400];
        char key[200];

        memset(key, 'k', sizeof key);
        (void)sprintf(text,
                      TEMPLATE
                      "metadata:\n  name: a\n  labels:\n    %.*s: 1\n" SPEC,
                      n, key);
        assert_int_equal(manifest_text_read(&manifest, text, &err),
                         WP_INVALID_ARGUMENT);
        (void)sprintf(expected,
                      "f.yaml:6: SandboxTemplate: metadata.labels%s%.*s: a "
                      "string was expected, not a whole number; put quotes "
                      "around 1",
                      n <= 143 ? "." : "", n <= 143 ? n : 0, key);
        expected[sizeof err.msg - 1] = '\0';
        assert_string_equal(err.msg, expected);
        wp_manifest_destroy(manifest);
    }
}

/* The last note says that there are more. */
static void
test_most_notes(void **state)
{
    static const char last[] = "further notes are left out";

    (void)state;
    for (int n = 1023; n <= 1025; n++) {
        const struct row row = {"", "---\n#%d\nkind: Namespace\n", "", 0, ""};
        struct wp_manifest *manifest = wp_manifest_create();
        struct wp_err err;
        size_t len;

        assert_non_null(manifest);
        fill(&row, n < 1024 ? n : 1024);
        assert_int_equal(
            wp_manifest_add_bytes(manifest, "f", wp_str_from(text), &err),
            WP_OK);
        if (n > 1024) {
            fill(&row, 1);
            /* Its note is not that of the other file. */
            assert_int_equal(
                wp_manifest_add_bytes(manifest, "g", wp_str_from(text), &err),
                WP_OK);
        }
        len = wp_manifest_notes_count(manifest);
        assert_int_equal(len, n < 1024 ? n : 1024);
        assert_int_equal(strcmp(wp_manifest_note(manifest, len - 1), last) == 0,
                         n >= 1024);
        assert_null(wp_manifest_note(manifest, len));
        wp_manifest_destroy(manifest);
    }
}

static void
test_same_note_is_kept_once(void **state)
{
    static const char namespace_[] = "kind: Namespace\n";
    struct wp_manifest *manifest = wp_manifest_create();
    struct wp_err err;

    (void)state;
    assert_non_null(manifest);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            wp_manifest_add_bytes(manifest, "f", wp_str_from(namespace_), &err),
            WP_OK);
        assert_int_equal(wp_manifest_notes_count(manifest), 1);
        assert_string_equal(wp_manifest_note(manifest, 0),
                            "f:1: Namespace: ignored on one machine");
    }
    wp_manifest_destroy(manifest);
}

/* More than one file has documents. */
static void
check_objects(const char *each, const char *words)
{
    const struct row row = {"", each, "", 0, ""};
    struct wp_manifest *manifest = wp_manifest_create();
    struct wp_err err = {.msg = ""};

    assert_non_null(manifest);
    fill(&row, 1024);
    if (wp_manifest_add_bytes(manifest, "f", wp_str_from(text), &err) !=
        WP_OK) {
        fail_msg("%s", err.msg);
    }
    fill(&row, 1);
    assert_int_equal(
        wp_manifest_add_bytes(manifest, "f", wp_str_from(text), &err),
        WP_INVALID_ARGUMENT);
    if (strstr(err.msg, words) == NULL) {
        fail_msg("'%s' does not say '%s'", err.msg, words);
    }
    wp_manifest_destroy(manifest);
}

static void
test_most_objects(void **state)
{
    (void)state;
    check_objects("---\n"
                  "apiVersion: extensions.agents.x-k8s.io/v1beta1\n"
                  "kind: SandboxTemplate\n"
                  "metadata: {name: t%d}\n"
                  "spec: {podTemplate: {spec: {containers: [{name: c, image: "
                  "host, command: [a], ports: [{containerPort: 1}]}]}}}\n",
                  "more than 1024 templates");
    check_objects("---\n"
                  "apiVersion: v1\n"
                  "kind: ConfigMap\n"
                  "metadata: {name: t%d}\n",
                  "more than 1024 ConfigMaps and Secrets");
}

/* --- Two manifests --- */

/* n of them, by name, from number `from` on. */
static void
add_numbered(struct wp_manifest *manifest, const char *each, int from, int n)
{
    struct wp_err err;
    size_t len = 0;

    for (int i = from; i < from + n; i++) {
        const char *number = strstr(each, "%d");

        assert_true(len + strlen(each) + 20 < TEXT_CAP);
        len += (size_t)sprintf(text + len, "%.*s%d%s", (int)(number - each),
                               each, i, number + 2);
    }
    if (wp_manifest_add_bytes(manifest, "f", (struct wp_str){text, len},
                              &err) != WP_OK ||
        wp_manifest_resolve(manifest, &err) != WP_OK) {
        fail_msg("%s", err.msg);
    }
}

/* As many as fit are joined; with one more nothing is. */
static void
test_most_in_two_manifests(void **state)
{
    static const char *const objects[] = {
        "---\n" TEMPLATE "metadata: {name: t%d}\n" SPEC,
        "---\napiVersion: extensions.agents.x-k8s.io/v1beta1\n"
        "kind: SandboxWarmPool\nmetadata: {name: p%d}\n"
        "spec: {sandboxTemplateRef: {name: t0}}\n"};
    static const int most[] = {WP_MANIFEST_TEMPLATES_MAX, WP_POOLS_MAX};

    (void)state;
    for (int which = 0; which < 2; which++) {
        for (int more = 0; more < 2; more++) {
            struct wp_manifest *one = wp_manifest_create();
            struct wp_manifest *two = wp_manifest_create();
            const struct wp_template *templates;
            const struct wp_pool_spec *pools;
            char expected[100];
            struct wp_err err;

            assert_true(one != NULL && two != NULL);
            if (which == 1) {
                add_numbered(one, objects[0], 0, 1);
            }
            add_numbered(one, objects[which], 0, most[which] - 1);
            add_numbered(two, objects[which], most[which] - 1, 1 + more);
            assert_int_equal(wp_manifest_join(one, two, &err),
                             more == 0 ? WP_OK : WP_RESOURCE_EXHAUSTED);
            assert_int_equal(which == 0 ? wp_manifest_templates(one, &templates)
                                        : wp_manifest_pools(one, &pools),
                             most[which] - more);
            if (more != 0) {
                (void)sprintf(expected, "more than %d templates or %d pools",
                              (int)WP_MANIFEST_TEMPLATES_MAX,
                              (int)WP_POOLS_MAX);
                assert_string_equal(err.msg, expected);
                wp_manifest_destroy(two);
            }
            wp_manifest_destroy(one);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_most_in_a_template),
        cmocka_unit_test(test_most_files_of_all_mounts),
        cmocka_unit_test(test_most_objects),
        cmocka_unit_test(test_longest_texts),
        cmocka_unit_test(test_longest_lists_and_texts_of_volumes),
        cmocka_unit_test(test_least_and_largest_numbers),
        cmocka_unit_test(test_longest_path_in_a_message),
        cmocka_unit_test(test_most_notes),
        cmocka_unit_test(test_same_note_is_kept_once),
        cmocka_unit_test(test_most_in_two_manifests),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
