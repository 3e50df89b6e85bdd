/* tests/unit/allocator/ctl/ctl_print_test.c - tables, durations and JSON of warmpoolctl. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "allocator/ctl/lease.h"
#include "allocator/ctl/print.h"
#include "pool/base/clock.h"

static char *text;
static size_t text_len;

static FILE *
text_open(void)
{
    FILE *file = open_memstream(&text, &text_len);

    assert_non_null(file);
    return file;
}

static void
text_expect(FILE *file, const char *expected)
{
    assert_int_equal(fclose(file), 0);
    assert_string_equal(text, expected);
    free(text);
}

/* Columns are as wide as their widest cell, in characters and not in bytes;
 * numbers stand at the right; no spaces at the end of a line. */
static void
test_table(void **state)
{
    static const char *const titles[] = {"NAME", "N", "STATE"};
    struct wp_table table;
    FILE *out = text_open();

    (void)state;
    wp_table_init(&table, titles, 3, 2);
    wp_table_add(&table, "é");
    wp_table_add(&table, "%d", 5);
    wp_table_add(&table, "full");
    wp_table_add(&table, "agents");
    wp_table_add(&table, "%d", 1000);
    wp_table_add(&table, "x");
    wp_table_add(&table, "of a row that is not full");
    wp_table_print(&table, out);
    wp_table_fini(&table);
    text_expect(out, "NAME        N   STATE\n"
                     "é           5   full\n"
                     "agents   1000   x\n");
}

static void
test_empty_table(void **state)
{
    static const char *const titles[] = {"A", "B"};
    struct wp_table table;
    FILE *out = text_open();

    (void)state;
    wp_table_init(&table, titles, 2, 0);
    wp_table_print(&table, out);
    wp_table_fini(&table);
    text_expect(out, "A   B\n");
}

/* Nothing the daemon says can move the cursor: C0, DEL, C1, broken UTF-8. */
static void
test_control_characters(void **state)
{
    FILE *out = text_open();

    (void)state;
    wp_print_field(out, 4, "a", "x\033[2Jy\177z\n");
    wp_print_field(out, 4, "b", "\302\233H\303\251");
    wp_print_field(out, 4, "c", "\377\303");
    /* The last that is none, the first behind them, and what is no UTF-8. */
    wp_print_field(out, 4, "d", "\302\237\302\240\037 ~");
    wp_print_field(out, 4, "e", "a\200\302b");
    text_expect(out, "a   x?[2Jy?z?\n"
                     "b   ??H\303\251\n"
                     "c   ??\n"
                     "d   ??\302\240? ~\n"
                     "e   a??b\n");
}

#define TEN "123456789 "
#define EIGHTY "1234567890" TEN TEN TEN TEN TEN TEN "1234567890"

/* Lines of 80 at most, but for a word that is longer. */
static void
test_paragraphs(void **state)
{
    FILE *out = text_open();

    (void)state;
    wp_print_paragraph(out, EIGHTY " and more");
    wp_print_paragraph(out, "x" EIGHTY);
    wp_print_paragraph(out, "1234567890" TEN TEN TEN TEN TEN TEN TEN
                            "1234567890123456789012345678901234567890"
                            "12345678901234567890123456789012345678901"
                            " end");
    text_expect(out,
                EIGHTY "\nand more\n"
                       "x1234567890123456789 123456789 123456789 123456789 "
                       "123456789 123456789\n1234567890\n"
                       "1234567890123456789 123456789 123456789 123456789 "
                       "123456789 123456789 123456789\n"
                       "1234567890123456789012345678901234567890"
                       "12345678901234567890123456789012345678901\nend\n");
}

static void
test_durations(void **state)
{
    static const struct {
        int64_t ns;
        const char *text;
    } rows[] = {
        {-5, "0s"},
        {0, "0s"},
        {1, "0us"},
        {999, "0us"},
        {WP_NS_PER_MS - 1, "999us"},
        {WP_NS_PER_MS, "1ms"},
        {WP_NS_PER_S - 1, "999ms"},
        {WP_NS_PER_S, "1.0s"},
        {60 * WP_NS_PER_S - 1, "59.9s"},
        {3600 * WP_NS_PER_S - 1, "59m59s"},
        {3600 * WP_NS_PER_S, "1h00m"},
        {48 * 3600 * WP_NS_PER_S - 1, "47h59m"},
        {48 * 3600 * WP_NS_PER_S, "2d00h"},
        {4 * WP_NS_PER_US, "4us"},
        {350 * WP_NS_PER_MS, "350ms"},
        {12 * WP_NS_PER_S + 390 * WP_NS_PER_MS, "12.3s"},
        {60 * WP_NS_PER_S, "1m00s"},
        {(29 * 60 + 12) * WP_NS_PER_S, "29m12s"},
        {(3600 + 120) * WP_NS_PER_S, "1h02m"},
        {30 * 24 * 3600 * WP_NS_PER_S, "30d00h"},
        {WP_TIME_NEVER, "106751d23h"},
    };
    char out[32];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        assert_string_equal(wp_print_duration(rows[i].ns, out), rows[i].text);
    }
}

static void
test_seconds(void **state)
{
    char out[32];

    (void)state;
    assert_string_equal(wp_print_seconds(1.25, out), "1.2s");
    assert_string_equal(wp_print_seconds(-1, out), "0s");
    assert_string_equal(wp_print_seconds(1e300, out), "11574d01h");
}

/* More cells than a table begins with, and its last column at the right. */
static void
test_many_rows(void **state)
{
    static const char *const titles[] = {"ROW", "É"};
    char expected[4096] = "ROW     É\n";
    struct wp_table table;
    FILE *out = text_open();

    (void)state;
    wp_table_init(&table, titles, 2, 2);
    for (int i = 0; i < 200; i++) {
        wp_table_add(&table, "r%d", i);
        wp_table_add(&table, "%d", i % 2 == 0 ? 7 : 42);
        (void)snprintf(expected + strlen(expected),
                       sizeof expected - strlen(expected), "r%-3d   %2d\n", i,
                       i % 2 == 0 ? 7 : 42);
    }
    wp_table_print(&table, out);
    wp_table_fini(&table);
    text_expect(out, expected);
}

/* The names are a contract with scripts: this test changes only with it. */
static void
test_lease_json(void **state)
{
    struct wp_grant grant = {
        .pool_namespace = "default",
        .pool = "agents",
        .sandbox = "agents-abc",
        .endpoint = "unix:/s",
        .fence = 7,
        .deadline_wall_ms = 1000,
        .waited_ns = 2500,
        .served = WP_SERVED_QUEUED,
    };
    FILE *out = text_open();
    char expected[700];
    char token[2 * WP_TOKEN_LEN + 1];

    (void)state;
    memset(grant.token, 0xab, sizeof grant.token);
    wp_hex_encode(grant.token, sizeof grant.token, token);
    wp_print_json(out, wp_ctl_lease_json(WP_STR("id\"1"), &grant, true), false);
    (void)snprintf(
        expected, sizeof expected,
        "{\"claim_id\":\"id\\\"1\",\"namespace\":\"default\",\"pool\":"
        "\"agents\",\"sandbox\":\"agents-abc\",\"endpoint\":\"unix:/s\","
        "\"token\":\"%s\",\"fence\":7,\"deadline\":"
        "\"1970-01-01T00:00:01.000Z\",\"deadline_unix_ms\":1000,"
        "\"served\":\"queued\",\"waited_us\":2,\"replayed\":true}\n",
        token);
    text_expect(out, expected);
}

static void
test_claim_json(void **state)
{
    struct wp_claim_info info = {.claim_id = "\377", .lost = true};
    FILE *out = text_open();

    (void)state;
    memcpy(info.lost_reason, "exited", 7);
    wp_print_json(out, wp_ctl_claim_json(&info), false);
    text_expect(
        out,
        "{\"claim_id\":\"\357\277\275\",\"tenant\":\"\",\"namespace\":\"\","
        "\"pool\":\"\",\"state\":\"lost\",\"sandbox\":\"\","
        "\"endpoint\":\"\",\"fence\":0,\"granted\":null,"
        "\"deadline\":null,\"deadline_unix_ms\":0,\"served\":\"-\","
        "\"lost_reason\":\"exited\"}\n");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_empty_table),
        cmocka_unit_test(test_control_characters),
        cmocka_unit_test(test_paragraphs),
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_seconds),
        cmocka_unit_test(test_many_rows),
        cmocka_unit_test(test_lease_json),
        cmocka_unit_test(test_claim_json),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
