/* A binding's body in pieces of any size: what is of its trees, and what of its
 * parcel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/parcel/parcel.h"
#include "runtime/server/bind_body.h"
#include "tests/support/base/descriptors.h"
#include "tests/support/base/temp_dir.h"

static char dir[512];
static struct wp_workspace workspace;

static int
set_up(void **state)
{
    struct wp_err err;

    (void)state;
    temp_dir_make(dir, sizeof dir);
    return wp_workspace_init(&workspace, dir, &err) != WP_OK;
}

static int
tear_down(void **state)
{
    (void)state;
    wp_workspace_fini(&workspace);
    /* Nothing has a name in it. */
    return rmdir(dir);
}

static void
goes_where_it_belongs(void **state)
{
    static const char text[] = "treesparcel";

    (void)state;
    for (size_t i = 0; i < 2 * sizeof text * sizeof text; i++) {
        const bool keeps = i % 2 == 0;
        const size_t piece = i / 2 % sizeof text + 1;
        const size_t trees = i / 2 / sizeof text;
        const size_t len = sizeof text - 1;
        const size_t descriptors = descriptors_count();
        char got[sizeof text] = "";
        struct wp_bind_body body;

        wp_bind_body_init(&body, trees, keeps);
        assert_non_null(wp_bind_body_parcel(&body));
        for (size_t at = 0; at < len; at += piece) {
            assert_int_equal(body.got, at < trees ? at : trees);
            assert_int_equal(wp_bind_body_is_whole(&body), at >= trees);
            assert_true(wp_bind_body_feed(&body, &workspace, text + at,
                                          len - at < piece ? len - at : piece));
        }
        assert_true(wp_bind_body_is_whole(&body));
        assert_int_equal(body.got, trees);
        assert_int_equal(body.os_errno, 0);
        assert_int_equal(body.parcel_len, len - trees);
        assert_memory_equal(wp_bind_body_parcel(&body), text + trees,
                            len - trees);
        assert_int_equal(body.fd >= 0, keeps && trees > 0);
        if (body.fd >= 0) {
            assert_int_equal(pread(body.fd, got, sizeof got, 0), trees);
            assert_memory_equal(got, text, trees);
        }
        wp_bind_body_fini(&body);
        assert_int_equal(descriptors_count(), descriptors);
    }
}

static void
a_parcel_is_as_long_as_it_may_be(void **state)
{
    char *much = calloc(1, WP_PARCEL_MAX + 1);
    struct wp_bind_body body;

    (void)state;
    assert_non_null(much);
    wp_bind_body_init(&body, 1, false);
    assert_true(wp_bind_body_feed(&body, &workspace, much, 10));
    assert_int_equal(body.parcel_len, 9);
    assert_true(wp_bind_body_feed(&body, &workspace, much, WP_PARCEL_MAX - 9));
    assert_int_equal(body.parcel_len, WP_PARCEL_MAX);
    assert_true(wp_bind_body_feed(&body, &workspace, much, 0));
    assert_false(wp_bind_body_feed(&body, &workspace, much, 1));
    wp_bind_body_fini(&body);
    wp_bind_body_init(&body, 0, false);
    assert_false(wp_bind_body_feed(&body, &workspace, much, WP_PARCEL_MAX + 1));
    wp_bind_body_fini(&body);
    free(much);
}

/* What could not be kept is told, once all has come. */
static void
says_why_trees_are_not_kept(void **state)
{
    const struct wp_workspace nowhere = {.fd = -1};
    struct wp_bind_body body;

    (void)state;
    wp_bind_body_init(&body, 4, true);
    assert_true(wp_bind_body_feed(&body, &nowhere, "tr", 2));
    assert_int_equal(body.os_errno, EBADF);
    assert_true(wp_bind_body_feed(&body, &nowhere, "eep", 3));
    assert_int_equal(body.os_errno, EBADF);
    assert_int_equal(body.fd, -1);
    assert_true(wp_bind_body_is_whole(&body));
    assert_int_equal(body.parcel_len, 1);
    wp_bind_body_fini(&body);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(goes_where_it_belongs, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_parcel_is_as_long_as_it_may_be,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(says_why_trees_are_not_kept, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
