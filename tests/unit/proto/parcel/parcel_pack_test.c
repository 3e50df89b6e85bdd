/* A binding as a parcel: every part of it, each byte, and what is no parcel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "proto/parcel/pack.h"
#include "proto/parcel/parcel.h"
#include "tests/support/base/journal.h"

enum {
    GUARD = 0xee,
};

static uint8_t bytes[4096];

static const struct wp_binding_env env[] = {
    {.name = {"A", 1}, .value = {"one", 3}},
    {.name = {"LONGER", 6}, .value = {"", 0}},
};
static const struct wp_binding_secret secrets[] = {
    {.name = {"TOKEN", 5}, .value = {"s", 1}, .in_env = true},
    {.name = {"tls.key", 7}, .value = {"kk", 2}, .in_env = false},
};
static const struct wp_binding_file files[] = {
    {.path = {"a/b", 3}, .content = {"content", 7}, .mode = 0640},
    {.path = {"empty", 5}, .content = {"", 0}, .mode = 0755},
};
static const struct wp_str command[] = {{"sh", 2}, {"", 0}, {"-c", 2}};

/* What the bytes say, entry by entry, and where they end. */
static size_t
journal_entries(const uint8_t *from, size_t len)
{
    struct wp_parcel parcel = {from, from + len};
    struct wp_parcel_entry entry;
    size_t n = 0;

    while (wp_parcel_next(&parcel, &entry)) {
        journal(" %u,%u %.*s=%.*s;", entry.kind, entry.number,
                (int)entry.first_len, entry.first, (int)entry.second_len,
                entry.second);
        n++;
    }
    journal(" %zu of %zu", (size_t)(parcel.pos - from), len);
    journal_line();
    return n;
}

static size_t
packs(const struct wp_binding *binding, const char *identity)
{
    size_t size = wp_parcel_size(binding, wp_str_from(identity));

    assert_true(size < sizeof bytes);
    memset(bytes, GUARD, sizeof bytes);
    wp_parcel_fill(binding, wp_str_from(identity), bytes);
    assert_int_equal(bytes[size], GUARD);
    (void)journal_entries(bytes, size);
    return size;
}

static void
test_each_part_is_packed(void **state)
{
    const struct wp_binding all = {
        .env = env,
        .n_env = 2,
        .secrets = secrets,
        .n_secrets = 2,
        .files = files,
        .n_files = 2,
        .working_dir = {"dir", 3},
        .command = command,
        .n_command = 3,
        .audience = {"who", 3},
    };
    struct wp_binding one;

    (void)state;
    journal_drop();
    assert_int_equal(packs(&all, "/i"), 11 * WP_PARCEL_HEAD + 4 + 6 + 6 + 9 +
                                            10 + 5 + 3 + 4 + 22 + 2);
    one = (struct wp_binding){.env = env, .n_env = 2};
    (void)packs(&one, "/i");
    one = (struct wp_binding){.secrets = secrets, .n_secrets = 2};
    (void)packs(&one, "/i");
    one = (struct wp_binding){.files = files, .n_files = 2};
    (void)packs(&one, "");
    one = (struct wp_binding){.command = command, .n_command = 3};
    (void)packs(&one, "");
    one = (struct wp_binding){.working_dir = {"w", 1}};
    (void)packs(&one, "");
    one = (struct wp_binding){.audience = {"w", 1}};
    (void)packs(&one, "");
    (void)packs(&one, "/somewhere");
    one = (struct wp_binding){.egress = {"w", 1}, .identity_ttl_ms = 5};
    assert_int_equal(packs(&one, "/i"), 0);
    journal_compare(WP_TEST_GOLDEN "/parcel_packed.txt");
}

/* However early it ends, what was whole is told, and nothing of the rest. */
static void
test_what_is_cut_off_is_no_entry(void **state)
{
    const struct wp_binding binding = {.env = env, .n_env = 2};
    size_t size;

    (void)state;
    journal_drop();
    size = packs(&binding, "");
    for (size_t len = 0; len <= size; len++) {
        assert_int_equal(journal_entries(bytes, len),
                         len < 20 ? 0 : (len < size ? 1 : 2));
    }
    journal_compare(WP_TEST_GOLDEN "/parcel_cut.txt");
}

static void
test_what_has_other_numbers_is_no_entry(void **state)
{
    static const uint32_t numbers[] = {0, 1, 2, 3,   4,         5,
                                       6, 7, 8, 255, UINT32_MAX};

    (void)state;
    journal_drop();
    for (size_t field = 0; field < 4; field++) {
        for (size_t i = 0; i < WP_ARRAY_LEN(numbers); i++) {
            uint32_t head[] = {WP_PARCEL_FILE, 9, 2, 3};
            struct wp_parcel_entry entry;

            head[field] = numbers[i];
            entry = (struct wp_parcel_entry){.kind = head[0],
                                             .number = head[1],
                                             .first_len = head[2],
                                             .second_len = head[3]};
            wp_parcel_put_head(&entry, bytes);
            memcpy(bytes + WP_PARCEL_HEAD, "abcdefg", 7);
            journal("%zu %u:", field, numbers[i]);
            (void)journal_entries(bytes, WP_PARCEL_HEAD + 5);
        }
    }
    journal_compare(WP_TEST_GOLDEN "/parcel_numbers.txt");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_part_is_packed),
        cmocka_unit_test(test_what_is_cut_off_is_no_entry),
        cmocka_unit_test(test_what_has_other_numbers_is_no_entry),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
