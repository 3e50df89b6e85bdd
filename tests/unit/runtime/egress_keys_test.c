/* The proxy's keys: what a line says, and which lines are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "pool/base/str.h"
#include "runtime/egress/keys.h"

static void
a_key_is_found_by_its_name(void **state)
{
    struct wp_err err;
    struct wp_egress_keys *keys = wp_egress_keys_parse(
        WP_STR("# two of them\n"
               "models https://api.example.com/v1/ Authorization: Bearer s\n"
               "\n"
               "plain http://10.0.0.1:8080 X-Key: k\n"),
        &err);
    const struct wp_egress_key *key;

    (void)state;
    assert_non_null(keys);
    key = wp_egress_keys_find(keys, WP_STR("models"));
    assert_non_null(key);
    assert_string_equal(key->name, "models");
    assert_true(key->secure);
    assert_string_equal(key->host.name, "api.example.com");
    assert_int_equal(key->port, 443);
    assert_string_equal(key->path, "/v1");
    assert_string_equal(key->field, "Authorization");
    assert_string_equal(key->value, "Bearer s");
    key = wp_egress_keys_find(keys, WP_STR("plain"));
    assert_non_null(key);
    assert_false(key->secure);
    assert_int_equal(key->port, 8080);
    assert_string_equal(key->path, "");
    assert_string_equal(key->value, "k");
    assert_null(wp_egress_keys_find(keys, WP_STR("")));
    assert_null(wp_egress_keys_find(keys, WP_STR("model")));
    assert_null(wp_egress_keys_find(NULL, WP_STR("models")));
    wp_egress_keys_destroy(keys);
}

/* The line is named, and nothing of it shown. */
static void
a_wrong_line_is_refused(void **state)
{
    static const char *const wrong[] = {
        "models\n",
        "models https://api.example.com\n",
        "models ftp://api.example.com A: s3cret\n",
        "models https://api.example.com A s3cret\n",
        "models https://api.example.com A: s3cret\n"
        "models https://api.example.com A: s3cret\n",
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(wrong); i++) {
        struct wp_err err;

        assert_null(wp_egress_keys_parse(wp_str_from(wrong[i]), &err));
        assert_int_equal(err.status, WP_INVALID_ARGUMENT);
        assert_non_null(strstr(err.msg, i == WP_ARRAY_LEN(wrong) - 1
                                            ? "keys, line 2: "
                                            : "keys, line 1: "));
        assert_null(strstr(err.msg, "s3cret"));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_found_by_its_name),
        cmocka_unit_test(a_wrong_line_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
