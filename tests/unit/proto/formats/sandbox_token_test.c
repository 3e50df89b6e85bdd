/* The token of a sandbox's own server, and the digest that the sandbox has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "proto/formats/sandbox_token.h"

static void
test_known_values(void **state)
{
    /* By another implementation: HMAC-SHA256 with the key 00 01 .. 1f of
     * "team-a/box-1", and SHA-256 of its text. */
    static const char want[] =
        "dcb72f5511ea9ef58e6ad410a6bbf3014ab2a1c497a4e81ffe744ca80be7e185";
    static const char want_digest[] =
        "4966a40649baaf503069d35e7480fa929f2e50b86edbf4212872dce883a123f5";
    uint8_t key[WP_SANDBOX_KEY_LEN];
    char token[WP_SANDBOX_TOKEN_TEXT + 1];
    char digest[WP_SANDBOX_TOKEN_TEXT + 1];

    (void)state;
    for (size_t i = 0; i < sizeof key; i++) {
        key[i] = (uint8_t)i;
    }
    wp_sandbox_token(key, "team-a", "box-1", token);
    assert_string_equal(token, want);
    wp_sandbox_token_digest(wp_str_from(token), digest);
    assert_string_equal(digest, want_digest);
}

static void
test_one_token_fits_one_sandbox(void **state)
{
    uint8_t key[WP_SANDBOX_KEY_LEN] = {1};
    char token[WP_SANDBOX_TOKEN_TEXT + 1];
    char other[WP_SANDBOX_TOKEN_TEXT + 1];
    char digest[WP_SANDBOX_TOKEN_TEXT + 1];

    (void)state;
    wp_sandbox_token(key, "a", "box", token);
    wp_sandbox_token_digest(wp_str_from(token), digest);
    assert_true(wp_sandbox_token_fits(wp_str_from(token), digest));
    /* What stands in the Pod opens nothing. */
    assert_false(wp_sandbox_token_fits(wp_str_from(digest), digest));
    assert_false(wp_sandbox_token_fits(wp_str_from(""), digest));
    assert_false(wp_sandbox_token_fits(wp_str_from(token), ""));
    wp_sandbox_token(key, "b", "box", other);
    assert_false(wp_sandbox_token_fits(wp_str_from(other), digest));
    wp_sandbox_token(key, "a", "box2", other);
    assert_false(wp_sandbox_token_fits(wp_str_from(other), digest));
    key[31] = 1;
    wp_sandbox_token(key, "a", "box", other);
    assert_false(wp_sandbox_token_fits(wp_str_from(other), digest));
    token[0] = token[0] == '0' ? '1' : '0';
    assert_false(wp_sandbox_token_fits(wp_str_from(token), digest));
}

static void
test_a_seal_is_of_one_text(void **state)
{
    uint8_t key[WP_SANDBOX_KEY_LEN] = {1};
    char seal[WP_SANDBOX_TOKEN_TEXT + 1];
    char token[WP_SANDBOX_TOKEN_TEXT + 1];

    (void)state;
    wp_sandbox_seal(key, WP_STR("a/box"), seal);
    assert_true(wp_sandbox_seal_fits(key, WP_STR("a/box"), seal));
    assert_false(wp_sandbox_seal_fits(key, WP_STR("a/bo"), seal));
    assert_false(wp_sandbox_seal_fits(key, WP_STR("a/box"), ""));
    wp_sandbox_token(key, "a", "box", token);
    assert_string_not_equal(token, seal);
    seal[63] = seal[63] == '0' ? '1' : '0';
    assert_false(wp_sandbox_seal_fits(key, WP_STR("a/box"), seal));
    seal[63] = '\0';
    assert_false(wp_sandbox_seal_fits(key, WP_STR("a/box"), seal));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_one_token_fits_one_sandbox),
        cmocka_unit_test(test_a_seal_is_of_one_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
