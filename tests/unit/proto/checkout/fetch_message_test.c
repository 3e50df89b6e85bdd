/* What a warmpool-fetch that serves is asked, byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "pool/base/compiler.h"
#include "proto/checkout/fetch_message.h"
#include "proto/checkout/fetch_report.h"

static void
check(const struct wp_fetch_run *run, const struct wp_fetch_run *expected)
{
    if (expected->part == NULL) {
        assert_null(run->part);
        assert_null(run->url);
        assert_null(run->ref);
    } else {
        assert_string_equal(run->part, expected->part);
        assert_string_equal(run->url, expected->url);
        assert_string_equal(run->ref, expected->ref);
    }
    assert_int_equal(run->bytes_max, expected->bytes_max);
    assert_int_equal(run->age_s, expected->age_s);
    assert_int_equal(run->credential.len, 0);
}

static void
each_run_there_and_back(void **state)
{
    static const struct {
        struct wp_fetch_run run;
        const char *bytes;
        size_t len;
    } cases[] = {
        {{.part = "p", .url = "https://a/b", .ref = "main", .bytes_max = 70},
         "checkout\0p\0https://a/b\0main\0"
         "70",
         31},
        {{.part = "p", .url = "", .ref = "", .bytes_max = UINT64_MAX},
         "checkout\0p\0\0\0"
         "18446744073709551615",
         34},
        {{.bytes_max = 0, .age_s = 0},
         "sweep\0"
         "0\0"
         "0",
         10},
        {{.bytes_max = 9, .age_s = INT32_MAX},
         "sweep\0"
         "9\0"
         "2147483647",
         19},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        char bytes[WP_FETCH_MESSAGE_MAX];
        struct wp_fetch_run out;

        memset(&out, 0xff, sizeof out);
        assert_int_equal(wp_fetch_message_write(&cases[i].run, bytes),
                         cases[i].len);
        assert_memory_equal(bytes, cases[i].bytes, cases[i].len);
        assert_true(wp_fetch_message_read(bytes, cases[i].len, &out));
        check(&out, &cases[i].run);
        /* Nor is a part of it a message. */
        for (size_t len = 0; len < cases[i].len; len++) {
            assert_false(wp_fetch_message_read(bytes, len, &out));
        }
    }
}

/* A text with its last NUL. */
#define MESSAGE(text)                                                          \
    {                                                                          \
        text, sizeof(text)                                                     \
    }

static void
what_is_no_message_is_refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
    } cases[] = {
        {"", 0},
        MESSAGE(""),
        {"sweep\0"
         "1\0"
         "1",
         9},
        MESSAGE("sweep"),
        MESSAGE("sweep\0"
                "1"),
        MESSAGE("sweep\0"
                "1\0"
                "1\0"),
        MESSAGE("sweep\0"
                "1\0"
                "1\0"
                "\0"),
        MESSAGE("sweep\0"
                "1\0"
                "1\0"
                "\0"
                "\0"),
        MESSAGE("sweep\0"
                "1\0"
                "2147483648"),
        MESSAGE("sweep\0"
                "1\0"
                "-1"),
        MESSAGE("sweep\0"
                "x\0"
                "1"),
        MESSAGE("sweep\0"
                "\0"
                "1"),
        MESSAGE("sweep\0"
                "18446744073709551616\0"
                "1"),
        MESSAGE("Sweep\0"
                "1\0"
                "1"),
        MESSAGE("checkout\0"
                "1\0"
                "1"),
        MESSAGE("checkout\0p\0u\0r"),
        MESSAGE("checkout\0p\0u\0r\0"
                "1\0"),
        MESSAGE("checkout\0p\0u\0r\0"
                "1\0"
                "x"),
        MESSAGE("checkout\0p\0u\0r\0x"),
        MESSAGE("checkout\0p\0u\0r\0"),
        MESSAGE("sweep\0p\0u\0r\0"
                "1"),
        MESSAGE("checkout\0\0u\0r\0"
                "1"),
        MESSAGE("checkout\0.\0u\0r\0"
                "1"),
        MESSAGE("checkout\0..\0u\0r\0"
                "1"),
        MESSAGE("checkout\0a/b\0u\0r\0"
                "1"),
        MESSAGE("checkout\0/\0u\0r\0"
                "1"),
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        struct wp_fetch_run out;

        if (wp_fetch_message_read(cases[i].bytes, cases[i].len, &out)) {
            fail_msg("case %zu is taken", i);
        }
    }
}

static void
a_part_is_the_name_of_one_file(void **state)
{
    char name[WP_FETCH_PART_MAX + 2];
    char bytes[WP_FETCH_MESSAGE_MAX];
    struct wp_fetch_run run = {
        .part = name, .url = "u", .ref = "r", .bytes_max = 1};
    struct wp_fetch_run out;

    (void)state;
    for (size_t len = WP_FETCH_PART_MAX; len <= WP_FETCH_PART_MAX + 1; len++) {
        memset(name, 'n', len);
        name[len] = '\0';
        assert_int_equal(wp_fetch_message_read(
                             bytes, wp_fetch_message_write(&run, bytes), &out),
                         len == WP_FETCH_PART_MAX);
    }
    for (size_t i = 0; i < 3; i++) {
        static const char *const fine[] = {"...", ".a", "a."};

        (void)strcpy(name, fine[i]);
        assert_true(wp_fetch_message_read(
            bytes, wp_fetch_message_write(&run, bytes), &out));
        check(&out, &run);
    }
}

static void
a_credential_waits_in_its_pipe(void **state)
{
    static char most[WP_FETCH_CREDENTIAL_MAX];
    const struct wp_str cases[] = {
        WP_STR(""), {"user\0pass", 9}, {most, sizeof most}};

    (void)state;
    memset(most, 'x', sizeof most);
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        char text[WP_FETCH_CREDENTIAL_MAX + 1];
        int fd = wp_fetch_credential_pipe(cases[i]);

        assert_true(fd >= 0);
        assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
        assert_int_equal(read(fd, text, sizeof text), cases[i].len);
        assert_memory_equal(text, cases[i].ptr, cases[i].len);
        assert_int_equal(read(fd, text, sizeof text), 0); /* Its end. */
        assert_int_equal(close(fd), 0);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_run_there_and_back),
        cmocka_unit_test(what_is_no_message_is_refused),
        cmocka_unit_test(a_part_is_the_name_of_one_file),
        cmocka_unit_test(a_credential_waits_in_its_pipe),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
