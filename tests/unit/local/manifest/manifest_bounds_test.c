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
    TEXT_CAP = 1 << 20
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

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_most_in_a_template),
        cmocka_unit_test(test_most_objects),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
