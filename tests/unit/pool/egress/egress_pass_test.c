/* Passes for egress proxies: what was written is read, and nothing else is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/compiler.h"
#include "pool/egress/pass.h"

static const uint8_t key[WP_EGRESS_KEY_LEN] = {1, 2, 3};

static const struct wp_egress_pass usual = {
    .pool_namespace = {"team", 4},
    .sandbox = {"box-1", 5},
    .address = {"10.1.2.3", 8},
    .policy = {"packages *.example.org", 22},
    .by = {"packages", 8},
};

static bool
same(const struct wp_egress_pass *a, const struct wp_egress_pass *b)
{
    return wp_str_eq(a->pool_namespace, b->pool_namespace) &&
           wp_str_eq(a->sandbox, b->sandbox) &&
           wp_str_eq(a->address, b->address) &&
           wp_str_eq(a->policy, b->policy) && wp_str_eq(a->by, b->by);
}

static void
check_round(const struct wp_egress_pass *pass)
{
    char text[WP_EGRESS_PASS_TEXT_MAX + 1];
    char room[WP_EGRESS_PASS_BYTES_MAX];
    struct wp_egress_pass out;

    wp_egress_pass_write(key, pass, text);
    assert_true(wp_egress_pass_read(key, wp_str_from(text), room, &out));
    assert_true(same(pass, &out));
}

static void
test_round(void **state)
{
    char long_text[WP_EGRESS_TEXT_MAX];
    struct wp_egress_pass pass = usual;

    (void)state;
    check_round(&pass);
    pass.by = WP_STR("");
    check_round(&pass);
    memset(long_text, 'x', sizeof long_text);
    pass.policy = (struct wp_str){long_text, sizeof long_text};
    pass.by = pass.policy;
    pass.pool_namespace = (struct wp_str){long_text, WP_NAMESPACE_MAX};
    pass.sandbox = (struct wp_str){long_text, WP_EGRESS_PASS_SANDBOX_MAX};
    pass.address = (struct wp_str){long_text, WP_EGRESS_PASS_ADDRESS_MAX};
    check_round(&pass);
    check_round(&(struct wp_egress_pass){.by = WP_STR("")});
}

/* Goal: no text but the very one that was written is a pass. */
static void
test_changed(void **state)
{
    char text[WP_EGRESS_PASS_TEXT_MAX + 1];
    char room[WP_EGRESS_PASS_BYTES_MAX];
    struct wp_egress_pass out;
    size_t len;

    (void)state;
    wp_egress_pass_write(key, &usual, text);
    len = strlen(text);
    for (size_t i = 0; i < len; i++) {
        char was = text[i];

        assert_false(
            wp_egress_pass_read(key, (struct wp_str){text, i}, room, &out));
        text[i] = was == '0' ? '1' : '0';
        assert_false(wp_egress_pass_read(key, wp_str_from(text), room, &out));
        text[i] = 'g';
        assert_false(wp_egress_pass_read(key, wp_str_from(text), room, &out));
        text[i] = was;
    }
    assert_true(wp_egress_pass_read(key, wp_str_from(text), room, &out));
}

static void
test_of_another_namespace(void **state)
{
    uint8_t own[WP_EGRESS_KEY_LEN];
    uint8_t other[WP_EGRESS_KEY_LEN];
    char text[WP_EGRESS_PASS_TEXT_MAX + 1];
    char room[WP_EGRESS_PASS_BYTES_MAX];
    struct wp_egress_pass out;

    (void)state;
    wp_egress_key_derive(key, WP_STR("team"), own);
    wp_egress_key_derive(key, WP_STR("teams"), other);
    wp_egress_pass_write(own, &usual, text);
    assert_true(wp_egress_pass_read(own, wp_str_from(text), room, &out));
    assert_false(wp_egress_pass_read(other, wp_str_from(text), room, &out));
    assert_false(wp_egress_pass_read(key, wp_str_from(text), room, &out));
}

/* Goal: what its key signed has five fields, or is none. */
static void
test_fields(void **state)
{
    static const uint8_t four[] = "a\0b\0c\0d";
    char text[WP_EGRESS_PASS_TEXT_MAX + 1];
    uint8_t bytes[WP_EGRESS_KEY_LEN + sizeof four - 1];
    char room[WP_EGRESS_PASS_BYTES_MAX];
    struct wp_egress_pass out;

    (void)state;
    /* The MAC of a namespace's key is that of any text. */
    wp_egress_key_derive(
        key, (struct wp_str){(const char *)four, sizeof four - 1}, bytes);
    memcpy(bytes + WP_EGRESS_KEY_LEN, four, sizeof four - 1);
    wp_hex_encode(bytes, sizeof bytes, text);
    assert_false(wp_egress_pass_read(key, wp_str_from(text), room, &out));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round),
        cmocka_unit_test(test_changed),
        cmocka_unit_test(test_of_another_namespace),
        cmocka_unit_test(test_fields),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
