/* The table of kinds, and the hash that labels carry. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "k8s/objects/kind.h"
#include "k8s/objects/names.h"

/* The core group has no slash in its apiVersion; the others do. */
static void
api_versions(void **state)
{
    (void)state;
    assert_string_equal(wp_kind_info(WP_KIND_POD)->api_version, "v1");
    assert_string_equal(wp_kind_info(WP_KIND_SANDBOX)->api_version,
                        "agents.x-k8s.io/v1beta1");
    assert_string_equal(wp_kind_info(WP_KIND_LEASE)->api_version,
                        "coordination.k8s.io/v1");
}

/* Old references carry versions that are gone; the group decides. */
static void
groups(void **state)
{
    (void)state;
    assert_true(wp_kind_is_group(
        WP_KIND_SANDBOX_CLAIM, WP_STR("extensions.agents.x-k8s.io/v1alpha1")));
    assert_false(
        wp_kind_is_group(WP_KIND_SANDBOX_CLAIM, WP_STR("agents.x-k8s.io/v1")));
    assert_true(wp_kind_is_group(WP_KIND_POD, WP_STR("v1")));
    assert_false(wp_kind_is_group(WP_KIND_POD, WP_STR("apps/v1")));
    assert_false(wp_kind_is_group(WP_KIND_SANDBOX, (struct wp_str){NULL, 0}));
}

/* Vectors computed by the other implementation's definition: FNV-1a, 32 bits. */
static void
hashes(void **state)
{
    static const struct {
        const char *name;
        const char *hash;
    } rows[] = {{"", "811c9dc5"},
                {"warmpool", "8c6a35c6"},
                {"template", "694aaa0b"},
                {"test-warmpool", "abdcc27b"},
                {"python-sdk-warmpool", "d937650a"}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char out[WP_NAME_HASH_LEN + 1];

        wp_name_hash(wp_str_from(rows[i].name), out);
        assert_string_equal(out, rows[i].hash);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(api_versions),
        cmocka_unit_test(groups),
        cmocka_unit_test(hashes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
