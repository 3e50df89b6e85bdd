/* When a pool's sandbox is not what its template makes any more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/objects/names.h"
#include "k8s/objects/sandbox_build.h"
#include "k8s/controllers/pool/staleness.h"
#include "tests/support/k8s/k8s_text.h"

#define REF "694aaa0b" /* Of "template". */
#define OLD "0badcafe" /* Another controller's hash. */

static struct wp_object *
template_of(const char *spec)
{
    char text[4096];

    (void)snprintf(text, sizeof(text),
                   "{'metadata': {'name': 'template', 'namespace': 'team', "
                   "'uid': 't'}, 'spec': {%s}}",
                   spec);
    return wp_test_object(WP_KIND_SANDBOX_TEMPLATE, text);
}

static struct wp_object *
sandbox_of(const char *spec, const char *ref, const char *hash, bool orphan)
{
    char text[4096];

    (void)snprintf(
        text, sizeof(text),
        "{'metadata': {'name': 's', 'namespace': 'team', 'uid': 's', "
        "'labels': {'" WP_LABEL_TEMPLATE_REF_HASH "': '%s', "
        "'" WP_LABEL_TEMPLATE_HASH "': '%s'}, 'ownerReferences': [%s]}, "
        "'spec': {%s}}",
        ref, hash,
        orphan ? ""
               : "{'apiVersion': 'extensions.agents.x-k8s.io/v1alpha1', "
                 "'kind': 'SandboxWarmPool', 'name': 'p', 'uid': 'p', "
                 "'controller': true}",
        spec);
    return wp_test_object(WP_KIND_SANDBOX, text);
}

static bool
check(struct wp_staleness *staleness, const char *template_spec,
      const char *sandbox_spec, const char *hash, bool orphan)
{
    struct wp_object *template_ = template_of(template_spec);
    struct wp_object *sandbox = sandbox_of(sandbox_spec, REF, hash, orphan);
    bool stale = wp_sandbox_is_stale(staleness, sandbox, template_);

    wp_object_unref(template_);
    wp_object_unref(sandbox);
    return stale;
}

#define POD(spec) "'podTemplate': {'spec': {" spec "}}"
#define OPEN "'networkPolicyManagement': 'Unmanaged', "
#define NO_TOKEN "'automountServiceAccountToken': false"
#define DNS                                                                    \
    "'dnsPolicy': 'None', 'dnsConfig': {'nameservers': ['8.8.8.8', "           \
    "'1.1.1.1']}"
#define CLAIM(name, meta, spec)                                                \
    "{'metadata': {'name': '" name "'" meta "}, 'spec': {" spec "}}"
#define CLAIMS(list) "'volumeClaimTemplates': [" list "]"
#define MIN POD(NO_TOKEN)

static const struct {
    const char *name;
    const char *template_spec;
    const char *sandbox_spec;
    bool stale;
} cases[] = {
    {"the same", OPEN POD("'containers': [{'name': 'c', 'image': 'i'}]"),
     POD("'containers': [{'name': 'c', 'image': 'i'}], " NO_TOKEN), false},
    {"another image", OPEN POD("'containers': [{'name': 'c', 'image': 'j'}]"),
     POD("'containers': [{'name': 'c', 'image': 'i'}], " NO_TOKEN), true},
    {"token: nothing said, none given", OPEN POD(""), POD(NO_TOKEN), false},
    {"token: wanted now", OPEN POD("'automountServiceAccountToken': true"),
     POD(NO_TOKEN), true},
    {"a sandbox that was made without the defaults", OPEN POD(""), POD(""),
     true},
    {"DNS of the default policy", POD(""), POD(NO_TOKEN ", " DNS), false},
    {"DNS after the policy was opened", OPEN POD(""), POD(NO_TOKEN ", " DNS),
     true},
    {"DNS said otherwise", POD("'dnsPolicy': 'ClusterFirst'"),
     POD(NO_TOKEN ", 'dnsPolicy': 'Default'"), true},
    {"a port's protocol, as the schema fills it in",
     OPEN POD("'containers': [{'name': 'c', 'ports': "
              "[{'containerPort': 80}]}]"),
     POD("'containers': [{'name': 'c', 'ports': [{'containerPort': 80, "
         "'protocol': 'TCP'}]}], " NO_TOKEN),
     false},
    {"a port's protocol that is another",
     OPEN POD("'containers': [{'name': 'c', 'ports': "
              "[{'containerPort': 80}]}]"),
     POD("'containers': [{'name': 'c', 'ports': [{'containerPort': 80, "
         "'protocol': 'UDP'}]}], " NO_TOKEN),
     true},
    {"a probe's service, as the schema fills it in",
     OPEN POD("'containers': [{'name': 'c', 'readinessProbe': {'grpc': "
              "{'port': 1}}}]"),
     POD("'containers': [{'name': 'c', 'readinessProbe': {'grpc': "
         "{'port': 1, 'service': ''}}}], " NO_TOKEN),
     false},
    {"what Go writes of what is not there",
     OPEN POD("'containers': [{'name': 'c'}]"),
     "'podTemplate': {'metadata': {}, 'spec': {'containers': [{'name': 'c', "
     "'resources': {}}], " NO_TOKEN "}}",
     false},
    {"amounts in another spelling",
     OPEN POD("'containers': [{'name': 'c', 'resources': {'limits': "
              "{'cpu': '1000m', 'memory': '0.5Gi'}, 'requests': {'cpu': 1}}, "
              "'env': [{'name': 'e', 'valueFrom': {'resourceFieldRef': "
              "{'resource': 'limits.cpu'}}}]}], 'volumes': [{'name': 'v', "
              "'emptyDir': {'sizeLimit': '1024Ki'}}]"),
     POD("'containers': [{'name': 'c', 'resources': {'limits': "
         "{'cpu': '1', 'memory': '512Mi'}, 'requests': {'cpu': '1'}}, "
         "'env': [{'name': 'e', 'valueFrom': {'resourceFieldRef': "
         "{'resource': 'limits.cpu', 'divisor': '0'}}}]}], 'volumes': "
         "[{'name': 'v', 'emptyDir': {'sizeLimit': '1Mi'}}], " NO_TOKEN),
     false},
    {"another amount",
     OPEN POD("'containers': [{'name': 'c', 'resources': {'limits': "
              "{'cpu': '100m'}}}]"),
     POD("'containers': [{'name': 'c', 'resources': {'limits': "
         "{'cpu': '101m'}}}], " NO_TOKEN),
     true},
    {"numbers that Go leaves out",
     OPEN POD("'containers': [{'name': 'c', 'livenessProbe': {'httpGet': "
              "{'port': 80}, 'initialDelaySeconds': 0}}]"),
     POD("'containers': [{'name': 'c', 'livenessProbe': {'httpGet': "
         "{'port': 80}}}], " NO_TOKEN),
     false},
    {"numbers that it does not",
     OPEN POD("'securityContext': {'runAsUser': 0}"),
     POD("'securityContext': {}, " NO_TOKEN), true},
    {"hardening: false is not the same as nothing",
     OPEN POD("'containers': [{'name': 'c', 'securityContext': "
              "{'allowPrivilegeEscalation': false}}]"),
     POD("'containers': [{'name': 'c', 'securityContext': {}}], " NO_TOKEN),
     true},
    {"labels and annotations of the pod",
     OPEN "'podTemplate': {'metadata': {'labels': {'a': 'b'}}, 'spec': {}}",
     MIN, false},
    {"a volume claim more",
     OPEN MIN ", " CLAIMS(CLAIM("a", "", "'accessModes': ['x']")), MIN, true},
    {"a volume claim less", OPEN MIN,
     MIN ", " CLAIMS(CLAIM("a", "", "'accessModes': ['x']")), true},
    {"a volume claim's labels",
     OPEN MIN
     ", " CLAIMS(CLAIM("a", ", 'labels': {'l': 'v'}", "'accessModes': ['x']")),
     MIN ", " CLAIMS(CLAIM("a", "", "'accessModes': ['x']")), false},
    {"a volume claim's name",
     OPEN MIN ", " CLAIMS(CLAIM("a", "", "'accessModes': ['x']")),
     MIN ", " CLAIMS(CLAIM("b", "", "'accessModes': ['x']")), true},
    {"a volume claim's storage class",
     OPEN MIN ", " CLAIMS(CLAIM("a", "", "'storageClassName': 'fast'")),
     MIN ", " CLAIMS(CLAIM("a", "", "'storageClassName': 'slow'")), true},
    {"volume claims in another order",
     OPEN MIN ", " CLAIMS(CLAIM("a", "", "") ", " CLAIM("b", "", "")),
     MIN ", " CLAIMS(CLAIM("b", "", "") ", " CLAIM("a", "", "")), true},
    {"service on", OPEN MIN ", 'service': true", MIN ", 'service': true",
     false},
    {"service added", OPEN MIN ", 'service': true", MIN, true},
    {"service off", OPEN MIN ", 'service': true", MIN ", 'service': false",
     true},
    {"service off, or no word of it", OPEN MIN ", 'service': false", MIN, true},
    {"policies of the template",
     OPEN "'envVarsInjectionPolicy': 'Allowed', " MIN, MIN, false},
};

static void
compared_by_meaning(void **state)
{
    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        struct wp_staleness *staleness = wp_staleness_create(WP_TIER_T0);

        print_message("%s\n", cases[i].name);
        for (int orphan = 0; orphan < 2; orphan++) {
            assert_int_equal(check(staleness, cases[i].template_spec,
                                   cases[i].sandbox_spec, OLD, orphan == 1),
                             cases[i].stale);
        }
        wp_staleness_destroy(staleness);
    }
}

/* Another template of the same contents is another template. */
static void
other_template(void **state)
{
    struct wp_staleness *staleness = wp_staleness_create(WP_TIER_T0);
    struct wp_object *template_ = template_of(OPEN MIN);
    struct wp_object *sandbox = sandbox_of(MIN, "ffffffff", OLD, false);

    (void)state;
    assert_true(wp_sandbox_is_stale(staleness, sandbox, template_));
    assert_int_equal(wp_staleness_compared(staleness), 0);
    wp_object_unref(sandbox);
    wp_object_unref(template_);
    wp_staleness_destroy(staleness);
}

/* Our own label is enough, except of one that nobody controls. */
static void
own_label_is_enough(void **state)
{
    struct wp_staleness *staleness = wp_staleness_create(WP_TIER_T0);
    struct wp_object *template_ = template_of(OPEN MIN);
    char hash[WP_BLUEPRINT_HASH_LEN + 1];

    (void)state;
    wp_sandbox_template_hash(template_, WP_TIER_T0, hash);
    wp_object_unref(template_);
    assert_false(check(staleness, OPEN MIN, POD("'x': 1"), hash, false));
    assert_int_equal(wp_staleness_compared(staleness), 0);
    assert_true(check(staleness, OPEN MIN, POD("'x': 1"), hash, true));
    assert_int_equal(wp_staleness_compared(staleness), 1);
    wp_staleness_destroy(staleness);
}

/* One comparison for all sandboxes of one hash, as long as the template stays;
 * none is remembered for sandboxes without a hash, or without a controller. */
static void
remembered_per_hash(void **state)
{
    struct wp_staleness *staleness = wp_staleness_create(WP_TIER_T0);

    (void)state;
    for (int i = 0; i < 10; i++) {
        assert_true(check(staleness, OPEN POD("'x': 1"), MIN, OLD, false));
        assert_false(check(staleness, OPEN MIN, MIN, OLD, false));
        assert_true(check(staleness, OPEN POD("'x': 1"), MIN, "0ld", false));
    }
    assert_int_equal(wp_staleness_compared(staleness), 3);
    for (int i = 0; i < 10; i++) {
        assert_false(check(staleness, OPEN MIN, MIN, "", false));
        assert_false(check(staleness, OPEN MIN, MIN, OLD, true));
    }
    assert_int_equal(wp_staleness_compared(staleness), 23);
    wp_staleness_destroy(staleness);
}

/* However many hashes come along, what is answered stays right. */
static void
memory_is_bounded(void **state)
{
    struct wp_staleness *staleness = wp_staleness_create(WP_TIER_T0);
    char hash[32];

    (void)state;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 2000; i++) {
            (void)snprintf(hash, sizeof(hash), "h%d", i);
            assert_int_equal(check(staleness, OPEN MIN,
                                   i % 2 == 0 ? MIN : POD("'x': 1"), hash,
                                   false),
                             i % 2);
        }
    }
    wp_staleness_destroy(staleness);
}

/* The longest value that a label may have is remembered; what is longer, or
 * nothing, is compared each time, and so is what nobody controls. And the same
 * label is compared anew with another template. */
static void
what_is_remembered(void **state)
{
    static const struct {
        size_t len;
        bool orphan;
        uint64_t compared; /* In three looks. */
    } rows[] = {{0, false, 3},  {1, false, 1},  {62, false, 1},
                {63, false, 1}, {64, false, 3}, {63, true, 3}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct wp_staleness *staleness = wp_staleness_create(WP_TIER_T0);
        char label[65];

        assert_non_null(staleness);
        memset(label, 'x', rows[i].len);
        label[rows[i].len] = '\0';
        for (int n = 0; n < 3; n++) {
            assert_false(check(staleness, OPEN POD(""), POD(NO_TOKEN), label,
                               rows[i].orphan));
        }
        assert_int_equal(wp_staleness_compared(staleness), rows[i].compared);
        assert_true(check(staleness, OPEN POD("'hostNetwork': true"),
                          POD(NO_TOKEN), label, rows[i].orphan));
        assert_int_equal(wp_staleness_compared(staleness),
                         rows[i].compared + 1);
        assert_false(check(staleness, OPEN POD(""), POD(NO_TOKEN), label,
                           rows[i].orphan));
        wp_staleness_destroy(staleness);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_remembered),
        cmocka_unit_test(compared_by_meaning),
        cmocka_unit_test(other_template),
        cmocka_unit_test(own_label_is_enough),
        cmocka_unit_test(remembered_per_hash),
        cmocka_unit_test(memory_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
