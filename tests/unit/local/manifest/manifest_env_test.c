/* Variables of containers that come from elsewhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "local/manifest/manifest.h"
#include "tests/support/base/golden.h"

#define OBJECTS                                                                \
    "---\n"                                                                    \
    "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: ns},"    \
    " data: {a: alpha, dollar: $(A)}, binaryData: {zero: AGE=}}\n"             \
    "---\n"                                                                    \
    "{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: ns},"       \
    " stringData: {token: geheim}}\n"                                          \
    "---\n"                                                                    \
    "{apiVersion: v1, kind: Secret, metadata: {name: s},"                      \
    " stringData: {token: another}}\n"

enum {
    TEXT_MAX = 32 << 10
};

static struct wp_manifest *manifest;

static const struct wp_err untold = {.status = WP_INTERNAL, .msg = "untold"};

/* A template with these variables and this argument, and the objects. Of what is
 * well nothing is told; err may be NULL. */
static enum wp_status
read_env(const char *env, const char *argument, struct wp_err *err)
{
    char text[TEXT_MAX];
    enum wp_status status;

    (void)snprintf(
        text, sizeof text,
        "apiVersion: extensions.agents.x-k8s.io/v1beta1\n"
        "kind: SandboxTemplate\n"
        "metadata: {name: t, namespace: ns}\n"
        "spec:\n"
        "  podTemplate:\n"
        "    spec:\n"
        "      initContainers:\n"
        "      - {name: i, image: host, command: [init], env: [%s]}\n"
        "      containers:\n"
        "      - name: main\n"
        "        image: host\n"
        "        command: [serve, '%s']\n"
        "        env: [%s]\n"
        "        ports: [{containerPort: 8080}]\n"
        "        resources: {limits: {cpu: 1500m, memory: 1000Mi}}\n"
        "    metadata: {labels: {x.io/y: z}, annotations: {note: "
        "''}}\n" OBJECTS,
        env, argument, env);
    manifest = wp_manifest_create();
    assert_non_null(manifest);
    if (err != NULL) {
        *err = untold;
    }
    status = wp_manifest_add_bytes(manifest, "f.yaml", wp_str_from(text), err);
    status = status == WP_OK ? wp_manifest_check(manifest, err) : status;
    if (status == WP_OK && err != NULL) {
        assert_int_equal(err->status, untold.status);
        assert_string_equal(err->msg, untold.msg);
    }
    return status;
}

/* The template's only variable is that, and so is its init container's. */
static void
assert_env(const char *env, const char *wanted)
{
    const struct wp_template *tmpl;
    struct wp_err err;

    if (read_env(env, "x", &err) != WP_OK) {
        fail_msg("%s: %s", env, err.msg);
    }
    assert_int_equal(wp_manifest_templates(manifest, &tmpl), 1);
    if (wanted == NULL) {
        assert_null(tmpl->env[0]);
    } else {
        assert_string_equal(tmpl->env[0], wanted);
        assert_null(tmpl->env[1]);
        assert_string_equal(tmpl->inits[0].env[0], wanted);
    }
    wp_manifest_destroy(manifest);
}

static void
test_where_values_come_from(void **state)
{
    static const struct {
        const char *source;
        const char *wanted; /* NULL: no variable. */
    } rows[] = {
        {"configMapKeyRef: {name: c, key: a}", "A=alpha"},
        /* It is not read again for names. */
        {"configMapKeyRef: {name: c, key: dollar}", "A=$(A)"},
        {"secretKeyRef: {name: s, key: token}", "A=geheim"},
        {"secretKeyRef: {name: s, key: none, optional: true}", NULL},
        {"configMapKeyRef: {name: none, key: a, optional: true}", NULL},
        {"fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}", "A=ns"},
        {"fieldRef: {fieldPath: \"metadata.labels['x.io/y']\"}", "A=z"},
        {"fieldRef: {fieldPath: \"metadata.labels['none']\"}", "A="},
        {"fieldRef: {fieldPath: \"metadata.annotations['note']\"}", "A="},
        {"resourceFieldRef: {resource: limits.cpu}", "A=2"},
        {"resourceFieldRef: {resource: limits.cpu, divisor: 1m}", "A=1500"},
        {"resourceFieldRef: {resource: limits.memory}", "A=1048576000"},
        {"resourceFieldRef: {containerName: main, resource: limits.memory, "
         "divisor: 1Gi}",
         "A=1"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char env[300];

        (void)snprintf(env, sizeof env, "{name: A, valueFrom: {%s}}",
                       rows[i].source);
        assert_env(env, rows[i].wanted);
    }
}

/* In their order, as in Kubernetes; another value is another template. */
static void
test_values_and_arguments_name_them(void **state)
{
    const struct wp_template *tmpl;
    struct wp_err err;
    uint64_t hash;

    (void)state;
    assert_int_equal(
        read_env("{name: B, value: '$(A)'}, {name: A, valueFrom: "
                 "{configMapKeyRef: {name: c, key: a}}}, {name: C, value: "
                 "'<$(A)>'}, {name: T, valueFrom: {secretKeyRef: {name: s, "
                 "key: token}}}, {name: D, value: '$(T)!'}",
                 "$(C)$(A)", &err),
        WP_OK);
    (void)wp_manifest_templates(manifest, &tmpl);
    assert_string_equal(tmpl->env[0], "B=$(A)");
    assert_string_equal(tmpl->env[2], "C=<alpha>");
    assert_string_equal(tmpl->env[4], "D=geheim!");
    assert_string_equal(tmpl->argv[1], "<alpha>alpha");
    hash = wp_template_hash(tmpl);
    wp_manifest_destroy(manifest);
    assert_int_equal(read_env("{name: A, value: alpha}", "x", &err), WP_OK);
    (void)wp_manifest_templates(manifest, &tmpl);
    assert_int_not_equal(wp_template_hash(tmpl), hash);
    wp_manifest_destroy(manifest);
}

#define SECRET "{name: A, valueFrom: {secretKeyRef: {name: s, key: token}}}"
#define FIELD(path) "{name: A, valueFrom: {fieldRef: {fieldPath: " path "}}}"

static const struct {
    const char *env;
    const char *argument;
    const char *message;
} mistakes[] = {
    {"{name: A, valueFrom: {}}", "x",
     "env[0].valueFrom: one of configMapKeyRef, secretKeyRef, fieldRef and "
     "resourceFieldRef was expected"},
    {"{name: A, value: b, valueFrom: {fieldRef: {fieldPath: "
     "metadata.namespace}}}",
     "x", "env[0]: valueFrom: not beside a value"},
    {"{name: A, valueFrom: {fieldRef: {fieldPath: metadata.namespace}, "
     "configMapKeyRef: {name: c, key: a}}}",
     "x", "was expected"},
    {"{name: A, valueFrom: {configMapKeyRef: {name: none, key: a}}}", "x",
     "ConfigMap 'none' in namespace 'ns' was expected: add it to the "
     "manifests"},
    {"{name: A, valueFrom: {configMapKeyRef: {name: c, key: none}}}", "x",
     "ConfigMap 'c' in namespace 'ns' has not the key that is named"},
    {"{name: A, valueFrom: {configMapKeyRef: {name: c, key: zero}}}", "x",
     "has a value that is too long for a variable, or has a zero byte"},
    {"{name: A, valueFrom: {configMapKeyRef: {key: a}}}", "x",
     "configMapKeyRef.name: missing, but required"},
    {FIELD("metadata.name"), "x",
     "known only when a sandbox starts: let the program read WARMPOOL_SANDBOX"},
    {FIELD("metadata.uid"), "x", "WARMPOOL_SANDBOX_UID"},
    {FIELD("status.podIP"), "x", "was expected: give a value"},
    {FIELD("'metadata.labels['"), "x", "was expected: give a value"},
    {"{name: A, valueFrom: {resourceFieldRef: {resource: requests.cpu}}}", "x",
     "limits.cpu"},
    {"{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu, "
     "divisor: 0}}}",
     "x", "a quantity such as 1m or 1Mi was expected"},
    {"{name: A, valueFrom: {fileKeyRef: {}}}", "x",
     "fileKeyRef: not supported on one machine"},
    /* What is on a command line all may read. */
    {SECRET, "$(A)", "'$(A)' names a variable of a Secret"},
    {SECRET ", {name: B, value: 'x$(A)'}", "--b=$(B)",
     "'--b=$(B)' names a variable of a Secret"},
};

static void
test_mistakes_are_told(void **state)
{
    static struct golden golden;

    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        struct wp_err err;

        assert_int_equal(read_env(mistakes[i].env, mistakes[i].argument, &err),
                         WP_INVALID_ARGUMENT);
        if (strstr(err.msg, mistakes[i].message) == NULL ||
            strstr(err.msg, "f.yaml:") != err.msg) {
            fail_msg("%s: %s", mistakes[i].env, err.msg);
        }
        assert_null(strstr(err.msg, "geheim"));
        golden_add(&golden, "%s\n", err.msg);
        wp_manifest_destroy(manifest);
        assert_int_equal(read_env(mistakes[i].env, mistakes[i].argument, NULL),
                         WP_INVALID_ARGUMENT);
        wp_manifest_destroy(manifest);
    }
    golden_compare(golden.text, WP_TEST_GOLDEN "/env_mistakes.txt");
}

/* As far as one can tell: with the Secret's name in it, it would be too long. */
static void
test_a_secret_in_a_long_argument(void **state)
{
    static const char secret[] = "$(A_NAME_THAT_IS_LONGER_THAN_ITS_VALUE)";
    static char argument[(4 << 12) + sizeof secret];
    struct wp_err err;

    (void)state;
    for (int i = 0; i < (1 << 12) - 1; i++) {
        memcpy(argument + i * 4, "$(B)", 4);
    }
    memcpy(argument + (4 << 12) - 4, secret, sizeof secret);
    assert_int_equal(
        read_env("{name: B, value: 16-bytes-of-text}, {name: "
                 "A_NAME_THAT_IS_LONGER_THAN_ITS_VALUE, valueFrom: "
                 "{secretKeyRef: {name: s, key: token}}}",
                 argument, &err),
        WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "names a variable of a Secret"));
    wp_manifest_destroy(manifest);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_where_values_come_from),
        cmocka_unit_test(test_values_and_arguments_name_them),
        cmocka_unit_test(test_mistakes_are_told),
        cmocka_unit_test(test_a_secret_in_a_long_argument),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
