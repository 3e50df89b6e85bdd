/* The NetworkPolicy of a template, against what is written here by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/controllers/template/network_policy.h"
#include "tests/support/k8s/k8s_text.h"

#define TEMPLATE(spec)                                                         \
    "{'metadata': {'name': 'template', 'namespace': 'team', 'uid': 't'}, "     \
    "'spec': {" spec "'podTemplate': {'spec': {}}}}"
#define SELECTOR                                                               \
    "'podSelector': {'matchLabels': "                                          \
    "{'agents.x-k8s.io/sandbox-template-ref-hash': '694aaa0b'}}, "             \
    "'policyTypes': ['Ingress', 'Egress']"

static json_t *
spec_of(const char *text)
{
    struct wp_object *template_ =
        wp_test_object(WP_KIND_SANDBOX_TEMPLATE, text);
    json_t *spec = wp_network_policy_spec(template_, WP_TIER_T0);

    wp_object_unref(template_);
    return spec;
}

#define FROM(label, value)                                                     \
    "{'namespaceSelector': {'matchLabels': "                                   \
    "{'kubernetes.io/metadata.name': 'agent-sandbox-system'}}, "               \
    "'podSelector': {'matchLabels': {'" label "': '" value "'}}}"
#define IN                                                                     \
    "'ingress': [{'from': [" FROM("app", "sandbox-router") ", " FROM(          \
        "app.kubernetes.io/name", "warmpool") "]}]"

/* In: the router and the daemon only. Out: public addresses only. */
static void
default_rules(void **state)
{
    struct wp_object *template_ =
        wp_test_object(WP_KIND_SANDBOX_TEMPLATE, TEMPLATE(""));

    (void)state;
    wp_test_json_equal(
        wp_network_policy_build(template_,
                                wp_network_policy_spec(template_, WP_TIER_T0)),
        "{'apiVersion': 'networking.k8s.io/v1', 'kind': 'NetworkPolicy', "
        "'metadata': {'name': 'template-network-policy', 'namespace': 'team', "
        "'ownerReferences': [{'apiVersion': "
        "'extensions.agents.x-k8s.io/v1beta1', 'kind': 'SandboxTemplate', "
        "'name': 'template', 'uid': 't', 'controller': true, "
        "'blockOwnerDeletion': true}]}, 'spec': {" SELECTOR ", " IN ", "
        "'egress': [{'to': [{'ipBlock': {'cidr': '0.0.0.0/0', 'except': "
        "['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', "
        "'169.254.0.0/16']}}, {'ipBlock': {'cidr': '::/0', 'except': "
        "['fc00::/7', 'fe80::/10']}}]}]}}");
    wp_object_unref(template_);
}

/* What a tier lets out, whether the template names it or the installation. */
static void
tiers(void **state)
{
#define DNS                                                                    \
    "'ports': [{'port': 53, 'protocol': 'UDP'}, "                              \
    "{'port': 53, 'protocol': 'TCP'}]"
    static const char *const out[] = {
        [WP_TIER_T1] = "[{" DNS "}]",
        [WP_TIER_T2] = "[{" DNS "}]",
        [WP_TIER_T3] = "[{'to': [{'podSelector': {'matchLabels': {'app': "
                       "'warmpool-egress'}}}], 'ports': [{'port': 3128, "
                       "'protocol': 'TCP'}]}, {'to': [{'namespaceSelector': "
                       "{'matchLabels': {'kubernetes.io/metadata.name': "
                       "'kube-system'}}}], " DNS "}]",
    };

    (void)state;
    for (int tier = WP_TIER_T1; tier < WP_TIERS; tier++) {
        const char *egress = out[tier < WP_TIER_T3 ? tier : WP_TIER_T3];
        struct wp_object *bare =
            wp_test_object(WP_KIND_SANDBOX_TEMPLATE, TEMPLATE(""));
        char text[512];
        char expected[1024];

        (void)snprintf(expected, sizeof expected,
                       "{" SELECTOR ", " IN ", 'egress': %s}", egress);
        wp_test_json_equal(wp_network_policy_spec(bare, (enum wp_tier)tier),
                           expected);
        (void)snprintf(text, sizeof text,
                       "{'metadata': {'name': 'template', 'namespace': 'team', "
                       "'uid': 't', 'annotations': "
                       "{'template.warmpool.io/tier': '%s'}}, 'spec': "
                       "{'podTemplate': {'spec': {}}}}",
                       wp_tier_info((enum wp_tier)tier)->name);
        wp_test_json_equal(spec_of(text), expected);
        wp_object_unref(bare);
    }
}

/* A template with rules of its own gets those and no others: {} shuts all. */
static void
own_rules(void **state)
{
    (void)state;
    wp_test_json_equal(
        spec_of(TEMPLATE("'networkPolicy': {'ingress': [{'ports': "
                         "[{'port': 80}]}]}, ")),
        "{" SELECTOR ", 'ingress': [{'ports': [{'port': 80}]}]}");
    wp_test_json_equal(spec_of(TEMPLATE("'networkPolicy': {}, ")),
                       "{" SELECTOR "}");
    wp_test_json_equal(
        spec_of(TEMPLATE("'networkPolicy': {'ingress': [], 'egress': [{}]}, ")),
        "{" SELECTOR ", 'egress': [{}]}");
}

static const struct {
    const char *a;
    const char *b;
    bool same;
} pairs[] = {
    {"{}", "{}", true},
    {"{'ingress': []}", "{}", true},
    {"{'ingress': [{}]}", "{}", false},
    {"{'ingress': [{}]}", "{'ingress': [{'from': [], 'ports': []}]}", true},
    {"{'egress': [{'ports': [{'port': 1}]}]}",
     "{'egress': [{'ports': [{'port': 1, 'protocol': 'TCP'}]}]}", true},
    {"{'egress': [{'ports': [{'port': 1}]}]}",
     "{'egress': [{'ports': [{'port': 1, 'protocol': 'UDP'}]}]}", false},
    {"{'ingress': [{'from': [{'podSelector': {}}]}]}",
     "{'ingress': [{'from': [{'podSelector': {'matchLabels': {}}}]}]}", true},
    {"{'ingress': [{'from': [{'podSelector': {}}]}]}",
     "{'ingress': [{'from': [{'podSelector': {'matchExpressions': []}}]}]}",
     true},
    {"{'ingress': [{'from': [{'podSelector': {}}]}]}",
     "{'ingress': [{'from': [{'podSelector': {'matchExpressions': [{'key': "
     "'k', 'operator': 'Exists'}]}}]}]}",
     false},
    {"{'ingress': [{'from': [{'namespaceSelector': {'matchExpressions': "
     "[{'key': 'k', 'operator': 'Exists'}]}}]}]}",
     "{'ingress': [{'from': [{'namespaceSelector': {'matchExpressions': "
     "[{'key': 'k', 'operator': 'Exists', 'values': []}]}}]}]}",
     true},
    {"{'podSelector': {}}", "{'podSelector': {'matchExpressions': []}}", true},
    {"{'podSelector': {}}", "{'podSelector': {'matchLabels': {}}}", true},
    {"{'ingress': [{'from': [{'podSelector': {}}]}]}",
     "{'ingress': [{'from': [{'namespaceSelector': {}}]}]}", false},
    {"{'ingress': [{'from': [{'podSelector': {}}]}]}",
     "{'ingress': [{'from': [{'podSelector': {}, 'namespaceSelector': {}}]}]}",
     false},
    {"{'ingress': [{'from': [{'podSelector': {}}]}]}",
     "{'ingress': [{'from': [{'podSelector': {}, 'ipBlock': null}]}]}", true},
    {"{'egress': [{'to': [{'ipBlock': {'cidr': 'x', 'except': []}}]}]}",
     "{'egress': [{'to': [{'ipBlock': {'cidr': 'x'}}]}]}", true},
    {"{'egress': [{'to': [{'ipBlock': {'cidr': 'x', 'except': ['y']}}]}]}",
     "{'egress': [{'to': [{'ipBlock': {'cidr': 'x'}}]}]}", false},
    {"{'podSelector': {'matchLabels': {'a': 'b'}}}",
     "{'podSelector': {'matchLabels': {'a': 'b', 'c': 'd'}}}", false},
    {"{'policyTypes': ['Ingress']}", "{'policyTypes': ['Ingress', 'Egress']}",
     false},
    {"{'egress': [{'ports': [{'port': 1, 'endPort': 2}]}]}",
     "{'egress': [{'ports': [{'port': 1, 'endPort': 3}]}]}", false},
    {"{'egress': [{'ports': [{'port': 1, 'endPort': 2}]}]}",
     "{'egress': [{'ports': [{'port': 1}]}]}", false},
    {"{'ingress': [{'ports': [{'port': 1, 'endPort': null}]}]}",
     "{'ingress': [{'ports': [{'port': 1}]}]}", true},
    {"{'ingress': [{'ports': [{'port': 1, 'protocol': null}, 7]}]}",
     "{'ingress': [{'ports': [{'port': 1, 'protocol': 'TCP'}, 7]}]}", true},
    {"{'egress': []}", "{}", true},
    {"{'egress': null}", "{'egress': []}", true},
    {"{'egress': [{'to': [], 'ports': []}]}", "{'egress': [{}]}", true},
    {"{'egress': [{'to': [{'podSelector': null}]}]}",
     "{'egress': [{'to': "
     "[{}]}]}",
     true},
    {"{'egress': [{'from': []}]}", "{'egress': [{}]}", false},
    {"{'podSelector': {'matchExpressions': [{'key': 'k', 'values': ['v']}]}}",
     "{'podSelector': {'matchExpressions': [{'key': 'k', 'values': []}]}}",
     false},
};

static void
sameness(void **state)
{
    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(pairs); i++) {
        json_t *a = wp_test_json(pairs[i].a);
        json_t *b = wp_test_json(pairs[i].b);

        print_message("%s %s\n", pairs[i].a, pairs[i].b);
        assert_int_equal(wp_network_policy_same(a, b), pairs[i].same);
        assert_int_equal(wp_network_policy_same(b, a), pairs[i].same);
        json_decref(a);
        json_decref(b);
    }
}

static void
names(void **state)
{
    char name[WP_NETWORK_POLICY_NAME_MAX + 1];
    char last[WP_NETWORK_POLICY_NAME_MAX + 1] = "";
    char long_name[300];

    (void)state;
    assert_true(wp_network_policy_name("t", name));
    assert_string_equal(name, "t-network-policy");
    assert_true(wp_str_is(wp_network_policy_template(name), "t"));
    assert_int_equal(wp_network_policy_template("-network-policy").len, 0);
    assert_null(wp_network_policy_template("-network-policy").ptr);
    assert_int_equal(wp_network_policy_template("policy").len, 0);
    memset(long_name, 'a', sizeof(long_name));
    long_name[254] = '\0';
    assert_false(wp_network_policy_name(long_name, name));
    /* What is too long with the rest is cut; no two lead to one name. */
    for (size_t len = 253; len > 236; len--) {
        long_name[len] = '\0';
        assert_true(wp_network_policy_name(long_name, name));
        assert_int_equal(strlen(name), len > 238 ? 253 : len + 15);
        assert_memory_equal(name, long_name, len > 238 ? 229 : len);
        assert_string_equal(name + strlen(name) - 15, "-network-policy");
        assert_string_not_equal(name, last);
        (void)snprintf(last, sizeof last, "%s", name);
    }
    /* A label that is cut ends with no separator. */
    memset(long_name, 'a', 239);
    memcpy(long_name + 226, ".-.b", 4);
    long_name[239] = '\0';
    assert_true(wp_network_policy_name(long_name, name));
    assert_memory_equal(name + 224, "aa-", 3);
    assert_int_equal(strlen(name), 250);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_rules), cmocka_unit_test(tiers),
        cmocka_unit_test(own_rules),     cmocka_unit_test(sameness),
        cmocka_unit_test(names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
