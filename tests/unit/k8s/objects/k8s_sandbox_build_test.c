/* A pool's Sandbox, against what is written here by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "k8s/objects/sandbox_build.h"
#include "tests/support/k8s/k8s_text.h"

#define POOL                                                                   \
    "{'metadata': {'name': 'test-warmpool', 'namespace': 'team', "             \
    "'uid': 'pool-uid'}, 'spec': {'replicas': 3, "                             \
    "'sandboxTemplateRef': {'name': 'template'}}}"
#define WAITING(spec)                                                          \
    "{'metadata': {'name': 'template', 'namespace': 'team', "                  \
    "'uid': 'template-uid', 'annotations': {'warmpool.dev/serving-port': "     \
    "'8494'}}, 'spec': {" spec "}}"
#define TEMPLATE(spec)                                                         \
    "{'metadata': {'name': 'template', 'namespace': 'team', "                  \
    "'uid': 'template-uid'}, 'spec': {" spec "}}"

static const uint8_t uid[WP_UID_LEN] = {0xab, 1, 2,  3,  4,  5,  6,  7,
                                        8,    9, 10, 11, 12, 13, 14, 15};

/* The hashes of the blueprint are checked apart from the rest, which is what
 * this puts "HASH" for. */
static void
check_hash(json_t *labels, const char *key, const char *expected)
{
    const char *value = json_string_value(json_object_get(labels, key));

    assert_non_null(value);
    assert_int_equal(strlen(value), WP_BLUEPRINT_HASH_LEN);
    if (expected != NULL) {
        assert_string_equal(value, expected);
    }
    wp_json_set_text(labels, key, "HASH");
}

static json_t *
build(const char *template_text, bool eviction)
{
    struct wp_object *pool = wp_test_object(WP_KIND_SANDBOX_WARM_POOL, POOL);
    struct wp_object *template_ =
        wp_test_object(WP_KIND_SANDBOX_TEMPLATE, template_text);
    const struct wp_cluster_config config = {.warm_pool_eviction = eviction};
    json_t *made = wp_sandbox_build(pool, template_, "test-warmpool-x1y2z3w4",
                                    uid, &config);
    char hash[WP_BLUEPRINT_HASH_LEN + 1];

    wp_sandbox_template_hash(template_, WP_TIER_T0, hash);
    if (made != NULL) {
        json_t *own = wp_json_at(made, "metadata", "labels", NULL);
        json_t *pod =
            wp_json_at(made, "spec", "podTemplate", "metadata", "labels", NULL);

        check_hash(own, WP_LABEL_TEMPLATE_HASH, hash);
        check_hash(own, WP_LABEL_POD_TEMPLATE_HASH, NULL);
        check_hash(pod, WP_LABEL_TEMPLATE_HASH, hash);
        check_hash(pod, WP_LABEL_POD_TEMPLATE_HASH, NULL);
    }
    wp_object_unref(pool);
    wp_object_unref(template_);
    return made;
}

#define METADATA                                                               \
    "'metadata': {'name': 'test-warmpool-x1y2z3w4', 'namespace': 'team', "     \
    "'labels': {"                                                              \
    "  'agents.x-k8s.io/warm-pool-sandbox': 'abdcc27b', "                      \
    "  'agents.x-k8s.io/sandbox-template-ref-hash': '694aaa0b', "              \
    "  'agents.x-k8s.io/sandbox-template-hash': 'HASH', "                      \
    "  'agents.x-k8s.io/sandbox-pod-template-hash': 'HASH', "                  \
    "  'agents.x-k8s.io/launch-type': 'warm', "                                \
    "  'agents.x-k8s.io/created-by': 'controller'}, "                          \
    "'annotations': {"                                                         \
    "  'agents.x-k8s.io/sandbox-template-ref': 'template', "                   \
    "  'agents.x-k8s.io/pod-name': 'test-warmpool-x1y2z3w4', "                 \
    "  'warmpool.dev/uid': 'ab0102030405060708090a0b0c0d0e0f'}, "              \
    "'ownerReferences': [{"                                                    \
    "  'apiVersion': 'extensions.agents.x-k8s.io/v1beta1', "                   \
    "  'kind': 'SandboxWarmPool', 'name': 'test-warmpool', "                   \
    "  'uid': 'pool-uid', 'controller': true, "                                \
    "  'blockOwnerDeletion': true}]}"
#define POD_LABELS                                                             \
    "'agents.x-k8s.io/warm-pool-sandbox': 'abdcc27b', "                        \
    "'agents.x-k8s.io/sandbox-template-ref-hash': '694aaa0b', "                \
    "'agents.x-k8s.io/sandbox-template-hash': 'HASH', "                        \
    "'agents.x-k8s.io/sandbox-pod-template-hash': 'HASH'"
#define EVICT "'cluster-autoscaler.kubernetes.io/safe-to-evict': "
#define SANDBOX(spec)                                                          \
    "{'apiVersion': 'agents.x-k8s.io/v1beta1', 'kind': 'Sandbox', " METADATA   \
    ", 'spec': {" spec "}}"

struct build_case {
    const char *name;
    const char *template_text;
    bool no_eviction;
    const char *expected;
};

static const struct build_case cases[] = {
    {"a port that has to serve: a probe of the first container",
     WAITING("'networkPolicyManagement': 'Unmanaged', 'podTemplate': {'spec': "
             "{'containers': [{'name': 'c'}, {'name': 'd'}]}}"),
     true,
     SANDBOX("'podTemplate': {'metadata': {'labels': {" POD_LABELS "}}, "
             "'spec': {'containers': [{'name': 'c', 'readinessProbe': "
             "{'tcpSocket': {'port': 8494}, 'periodSeconds': 1}}, {'name': "
             "'d'}], 'automountServiceAccountToken': false}}")},
    {"a probe of its own stays",
     WAITING(
         "'networkPolicyManagement': 'Unmanaged', 'podTemplate': {'spec': "
         "{'containers': [{'name': 'c', 'readinessProbe': {'exec': {}}}]}}"),
     true,
     SANDBOX("'podTemplate': {'metadata': {'labels': {" POD_LABELS "}}, "
             "'spec': {'containers': [{'name': 'c', 'readinessProbe': "
             "{'exec': {}}}], 'automountServiceAccountToken': false}}")},
    {"managed without rules: no token, public DNS",
     TEMPLATE("'podTemplate': {'spec': {'containers': [{'name': 'c'}]}}"),
     false,
     SANDBOX("'podTemplate': {'metadata': {'labels': {" POD_LABELS
             "}, 'annotations': {" EVICT "'true'}}, 'spec': {"
             "'containers': [{'name': 'c'}], "
             "'automountServiceAccountToken': false, 'dnsPolicy': 'None', "
             "'dnsConfig': {'nameservers': ['8.8.8.8', '1.1.1.1']}}}")},
    {"no eviction when it is switched off",
     TEMPLATE("'networkPolicyManagement': 'Unmanaged', "
              "'podTemplate': {'spec': {'containers': []}}"),
     true,
     SANDBOX("'podTemplate': {'metadata': {'labels': {" POD_LABELS "}}, "
             "'spec': {'containers': [], "
             "'automountServiceAccountToken': false}}")},
    {"unmanaged: DNS stays the cluster's",
     TEMPLATE("'networkPolicyManagement': 'Unmanaged', "
              "'podTemplate': {'spec': {'containers': []}}"),
     false,
     SANDBOX("'podTemplate': {'metadata': {'labels': {" POD_LABELS
             "}, 'annotations': {" EVICT "'true'}}, 'spec': {"
             "'containers': [], 'automountServiceAccountToken': false}}")},
    {"rules of its own: DNS stays the cluster's",
     TEMPLATE("'networkPolicy': {'egress': [{}]}, "
              "'podTemplate': {'spec': {'containers': []}}"),
     false,
     SANDBOX("'podTemplate': {'metadata': {'labels': {" POD_LABELS
             "}, 'annotations': {" EVICT "'true'}}, 'spec': {"
             "'containers': [], 'automountServiceAccountToken': false}}")},
    {"what the template says of token, DNS and eviction stays",
     TEMPLATE("'podTemplate': {'metadata': {'labels': {'app': 'x'}, "
              "'annotations': {" EVICT "'false', 'a': 'b'}}, 'spec': {"
              "'automountServiceAccountToken': true, "
              "'dnsPolicy': 'ClusterFirst', 'containers': []}}"),
     false,
     SANDBOX("'podTemplate': {'metadata': {'labels': {'app': 'x', " POD_LABELS
             "}, 'annotations': {" EVICT "'false', 'a': 'b'}}, 'spec': {"
             "'automountServiceAccountToken': true, "
             "'dnsPolicy': 'ClusterFirst', 'containers': []}}")},
    {"volume claims and service come along, policies do not",
     TEMPLATE("'service': true, 'networkPolicyManagement': 'Unmanaged', "
              "'envVarsInjectionPolicy': 'Allowed', "
              "'volumeClaimTemplatesPolicy': 'Overrides', "
              "'volumeClaimTemplates': [{'metadata': {'name': 'data', "
              "'labels': {'l': 'v'}}, 'spec': {'accessModes': "
              "['ReadWriteOnce']}}], "
              "'podTemplate': {'spec': {'containers': []}}"),
     true,
     SANDBOX("'service': true, 'volumeClaimTemplates': [{'metadata': "
             "{'name': 'data', 'labels': {'l': 'v'}}, 'spec': "
             "{'accessModes': ['ReadWriteOnce']}}], "
             "'podTemplate': {'metadata': {'labels': {" POD_LABELS "}}, "
             "'spec': {'containers': [], "
             "'automountServiceAccountToken': false}}")},
    {"service: false is not the same as no word of it",
     TEMPLATE("'service': false, 'volumeClaimTemplates': null, "
              "'networkPolicyManagement': 'Unmanaged', "
              "'podTemplate': {'spec': {'containers': []}}"),
     true,
     SANDBOX("'service': false, 'podTemplate': {'metadata': {'labels': "
             "{" POD_LABELS "}}, 'spec': {'containers': [], "
             "'automountServiceAccountToken': false}}")},
    {"metadata that is null, as some clients write it",
     TEMPLATE("'networkPolicyManagement': 'Unmanaged', "
              "'podTemplate': {'metadata': {'labels': null, "
              "'annotations': null}, 'spec': {'containers': []}}"),
     false,
     SANDBOX("'podTemplate': {'metadata': {'labels': {" POD_LABELS
             "}, 'annotations': {" EVICT "'true'}}, 'spec': {"
             "'containers': [], 'automountServiceAccountToken': false}}")},
};

static void
built_as_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        json_t *made = build(cases[i].template_text, !cases[i].no_eviction);

        print_message("%s\n", cases[i].name);
        assert_non_null(made);
        wp_test_json_equal(made, cases[i].expected);
    }
}

/* A template that the schema would refuse makes nothing, instead of half. */
static void
nothing_without_pod_spec(void **state)
{
    (void)state;
    assert_null(build(TEMPLATE(""), true));
    assert_null(build(TEMPLATE("'podTemplate': {}"), true));
}

/* Labels and annotations do not change the hash, what runs does. */
static void
hash_is_of_what_runs(void **state)
{
    static const char *const same[] = {
        TEMPLATE("'podTemplate': {'spec': {'containers': [{'name': 'c'}]}}"),
        TEMPLATE("'podTemplate': {'metadata': {'labels': {'a': 'b'}}, "
                 "'spec': {'containers': [{'name': 'c', 'env': []}]}}"),
    };
    struct wp_object *other = wp_test_object(
        WP_KIND_SANDBOX_TEMPLATE,
        TEMPLATE("'podTemplate': {'spec': {'containers': [{'name': 'd'}]}}"));
    char hashes[2][WP_BLUEPRINT_HASH_LEN + 1];
    char another[WP_BLUEPRINT_HASH_LEN + 1];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct wp_object *template_ =
            wp_test_object(WP_KIND_SANDBOX_TEMPLATE, same[i]);

        wp_sandbox_template_hash(template_, WP_TIER_T0, hashes[i]);
        wp_object_unref(template_);
    }
    wp_sandbox_template_hash(other, WP_TIER_T0, another);
    wp_object_unref(other);
    assert_string_equal(hashes[0], hashes[1]);
    assert_string_not_equal(hashes[0], another);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(built_as_written),
        cmocka_unit_test(nothing_without_pod_spec),
        cmocka_unit_test(hash_is_of_what_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
