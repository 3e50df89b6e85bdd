/* What each tier makes of a Pod's spec, against what is written here by hand,
 * and what is weaker than a tier. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/objects/names.h"
#include "k8s/objects/pod_tier.h"
#include "k8s/objects/sandbox_build.h"
#include "k8s/objects/view.h"
#include "tests/support/k8s/k8s_text.h"

#define POD_T1                                                                 \
    "'automountServiceAccountToken': false, 'securityContext': "               \
    "{'runAsNonRoot': true, 'seccompProfile': {'type': 'RuntimeDefault'}}"
#define CONTAINER_T1                                                           \
    "'securityContext': {'allowPrivilegeEscalation': false, "                  \
    "'readOnlyRootFilesystem': true, 'capabilities': {'drop': ['ALL']}}"
#define CONFINED                                                               \
    "{'name': 'WARMPOOL_RUNTIME_CONFINE', 'value': 'true'}, "                  \
    "{'name': 'WARMPOOL_RUNTIME_READABLE', 'value': "                          \
    "'/usr:/bin:/sbin:/lib:/lib64:/opt:/etc:/proc:/dev'}"
#define URL "'http://warmpool-egress:3128'"
#define NEAR "'localhost,127.0.0.1,.svc,.cluster.local'"
#define PROXIED                                                                \
    "{'name': 'HTTP_PROXY', 'value': " URL "}, {'name': 'HTTPS_PROXY', "       \
    "'value': " URL "}, {'name': 'http_proxy', 'value': " URL "}, "            \
    "{'name': 'https_proxy', 'value': " URL "}, {'name': 'NO_PROXY', "         \
    "'value': " NEAR "}, {'name': 'no_proxy', 'value': " NEAR "}"

static void
test_each_tier(void **state)
{
    static const char bare[] = "{'containers': [{'name': 'main'}]}";
    static const struct {
        enum wp_tier tier;
        const char *becomes;
    } cases[] = {
        {WP_TIER_T0, bare},
        {WP_TIER_T1,
         "{" POD_T1 ", 'containers': [{'name': 'main', " CONTAINER_T1 "}]}"},
        {WP_TIER_T2, "{" POD_T1 ", 'containers': [{'name': "
                     "'main', " CONTAINER_T1 ", 'env': [" CONFINED "]}]}"},
        {WP_TIER_T3,
         "{" POD_T1 ", 'containers': [{'name': 'main', " CONTAINER_T1
         ", 'env': [" CONFINED ", " PROXIED "]}]}"},
        {WP_TIER_T4,
         "{" POD_T1 ", 'runtimeClassName': 'gvisor', 'containers': "
         "[{'name': 'main', " CONTAINER_T1 ", 'env': [" PROXIED "]}]}"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        json_t *pod = wp_test_json(bare);

        wp_pod_apply_tier(pod, cases[i].tier);
        wp_pod_apply_tier(pod, cases[i].tier);
        wp_test_json_equal(pod, cases[i].becomes);
    }
}

/* What a template states stays, and what is beside it is filled. */
static void
test_what_is_stated_stays(void **state)
{
    static const char stated[] =
        "{'automountServiceAccountToken': true, 'runtimeClassName': 'kata', "
        "'securityContext': {'runAsNonRoot': false, 'seccompProfile': "
        "{'type': 'Localhost', 'localhostProfile': 'p'}}, "
        "'initContainers': [{'name': 'a', 'securityContext': "
        "{'capabilities': {'add': ['NET_ADMIN']}}}], "
        "'containers': [{'name': 'b', 'env': [{'name': 'HTTP_PROXY', "
        "'value': 'x'}], 'securityContext': null}, 7]}";
    static const char filled[] =
        "{'automountServiceAccountToken': true, 'runtimeClassName': 'kata', "
        "'securityContext': {'runAsNonRoot': false, 'seccompProfile': "
        "{'type': 'Localhost', 'localhostProfile': 'p'}}, "
        "'initContainers': [{'name': 'a', 'securityContext': "
        "{'allowPrivilegeEscalation': false, 'readOnlyRootFilesystem': true, "
        "'capabilities': {'add': ['NET_ADMIN'], 'drop': ['ALL']}}, "
        "'env': [" PROXIED "]}], "
        "'containers': [{'name': 'b', 'env': [{'name': 'HTTP_PROXY', 'value': "
        "'x'}, {'name': 'HTTPS_PROXY', 'value': " URL
        "}, {'name': 'http_proxy', 'value': " URL
        "}, {'name': 'https_proxy', 'value': " URL
        "}, {'name': 'NO_PROXY', 'value': " NEAR
        "}, {'name': 'no_proxy', 'value': " NEAR "}], " CONTAINER_T1 "}, 7]}";
    json_t *pod = wp_test_json(stated);

    (void)state;
    wp_pod_apply_tier(pod, WP_TIER_T4);
    wp_test_json_equal(pod, filled);
}

/* The API server refuses it in its own words. */
static void
test_variables_that_are_no_list(void **state)
{
    json_t *pod = wp_test_json("{'containers': [{'env': 7}]}");

    (void)state;
    wp_pod_apply_tier(pod, WP_TIER_T3);
    wp_test_json_equal(pod, "{" POD_T1
                            ", 'containers': [{'env': 7, " CONTAINER_T1 "}]}");
}

static void
test_what_is_weaker(void **state)
{
#define OF_CONTAINER(context)                                                  \
    "{'containers': [{'name': 'x'}, {'securityContext': {" context "}}]}"
    static const struct {
        const char *pod;
        const char *paths; /* "": it is not weaker. */
    } cases[] = {
        {"{}", ""},
        {"{" POD_T1 ", 'containers': [{" CONTAINER_T1 "}]}", ""},
        {"{'containers': 3, 'securityContext': []}", ""},
        {"{'securityContext': {'runAsNonRoot': false, 'runAsUser': 0}, "
         "'hostNetwork': true}",
         "securityContext.runAsNonRoot, securityContext.runAsUser, "
         "hostNetwork"},
        {"{'securityContext': {'seccompProfile': {'type': 'Unconfined'}}}",
         "securityContext.seccompProfile.type"},
        {"{'automountServiceAccountToken': true}",
         "automountServiceAccountToken"},
        {OF_CONTAINER("'privileged': true"),
         "containers[1].securityContext.privileged"},
        {OF_CONTAINER("'privileged': false, 'runAsUser': 1000"), ""},
        {OF_CONTAINER("'readOnlyRootFilesystem': false"),
         "containers[1].securityContext.readOnlyRootFilesystem"},
        {OF_CONTAINER("'capabilities': {'drop': ['NET_RAW']}"),
         "containers[1].securityContext.capabilities.drop"},
        {OF_CONTAINER("'capabilities': {'drop': ['ALL'], 'add': ['CHOWN']}"),
         "containers[1].securityContext.capabilities.add"},
        {OF_CONTAINER("'capabilities': {'drop': ['ALL', 'X'], 'add': []}"), ""},
        {"{'initContainers': [{'securityContext': {'runAsNonRoot': false}}]}",
         "initContainers[0].securityContext.runAsNonRoot"},
    };
    char paths[512];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        json_t *pod = wp_test_json(cases[i].pod);

        for (int tier = WP_TIER_T1; tier < WP_TIERS; tier++) {
            assert_true(wp_pod_is_weaker(pod, (enum wp_tier)tier, paths,
                                         sizeof paths) ==
                        (cases[i].paths[0] != '\0'));
            assert_string_equal(paths, cases[i].paths);
        }
        assert_false(wp_pod_is_weaker(pod, WP_TIER_T0, paths, sizeof paths));
        /* As much as there is room for. */
        for (size_t cap = 1; cap < sizeof paths; cap++) {
            memset(paths, 'x', sizeof paths);
            assert_true(wp_pod_is_weaker(pod, WP_TIER_T1, paths, cap) ==
                        (cases[i].paths[0] != '\0'));
            assert_int_equal(strlen(paths), strlen(cases[i].paths) < cap
                                                ? strlen(cases[i].paths)
                                                : cap - 1);
            assert_int_equal(strncmp(paths, cases[i].paths, strlen(paths)), 0);
            assert_int_equal(paths[cap], 'x');
        }
        json_decref(pod);
    }
}

static void
hash_of(const char *annotations, const char *pod, enum wp_tier installed,
        char out[WP_BLUEPRINT_HASH_LEN + 1])
{
    char text[512];
    struct wp_object *object;

    assert_true(snprintf(text, sizeof text,
                         "{'metadata': {'name': 't', 'namespace': 'n', 'uid': "
                         "'u', 'annotations': {%s}}, 'spec': {'podTemplate': "
                         "{'spec': %s}}}",
                         annotations, pod) < (int)sizeof text);
    object = wp_test_object(WP_KIND_SANDBOX_TEMPLATE, text);
    wp_sandbox_template_hash(object, installed, out);
    wp_object_unref(object);
}

/* Another tier is another sandbox, however it came to be; the same fields are
 * the same one. */
static void
test_it_is_part_of_what_is_made(void **state)
{
    static const char bare[] = "{'containers': [{'name': 'main'}]}";
    static const char hardened[] =
        "{" POD_T1 ", 'containers': [{'name': 'main', " CONTAINER_T1 "}]}";
    char own[WP_BLUEPRINT_HASH_LEN + 1];
    char installed[WP_BLUEPRINT_HASH_LEN + 1];
    char other[WP_BLUEPRINT_HASH_LEN + 1];

    (void)state;
    hash_of("'template.warmpool.io/tier': 'T1'", bare, WP_TIER_T0, own);
    hash_of("", bare, WP_TIER_T1, installed);
    assert_string_equal(own, installed);
    hash_of("", hardened, WP_TIER_T0, other);
    assert_string_equal(own, other);
    hash_of("", bare, WP_TIER_T0, other);
    assert_string_not_equal(own, other);
    hash_of("'template.warmpool.io/tier': 'T0'", bare, WP_TIER_T1, installed);
    assert_string_equal(other, installed);
}

static void
test_names(void **state)
{
    static const char *const wrong[] = {"", "T", "T5", "t1", "T1 ", "1"};
    enum wp_tier tier;

    (void)state;
    for (int i = 0; i < WP_TIERS; i++) {
        assert_true(wp_tier_parse(
            wp_str_from(wp_tier_info((enum wp_tier)i)->name), &tier));
        assert_int_equal(tier, i);
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(wrong); i++) {
        assert_false(wp_tier_parse(wp_str_from(wrong[i]), &tier));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_tier),
        cmocka_unit_test(test_what_is_stated_stays),
        cmocka_unit_test(test_variables_that_are_no_list),
        cmocka_unit_test(test_what_is_weaker),
        cmocka_unit_test(test_it_is_part_of_what_is_made),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
