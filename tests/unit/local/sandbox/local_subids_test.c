/* tests/unit/local/sandbox/local_subids_test.c - users that rootless containers
 * have are not for sandboxes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/sandbox/backend_local.h"
#include "local/sandbox/subids.h"

static char path[] = "/tmp/wp-subids-XXXXXX";

static enum wp_status
check(const char *text, uint32_t first, uint32_t count, struct wp_err *err)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    (void)fputs(text, file);
    (void)fclose(file);
    err->msg[0] = '\0';
    return wp_subids_check(path, first, count, err);
}

static void
test_ranges(void **state)
{
    static const struct {
        const char *text;
        uint32_t first;
        uint32_t count;
        enum wp_status status;
    } cases[] = {
        {"", 1000, 10, WP_OK},
        {"ann:1010:5\n", 1000, 10, WP_OK},
        {"ann:1009:1\n", 1000, 10, WP_FAILED_PRECONDITION},
        {"ann:995:5\n", 1000, 10, WP_OK},
        {"ann:995:6\n", 1000, 10, WP_FAILED_PRECONDITION},
        {"ann:1:1000000\n", 1000, 10, WP_FAILED_PRECONDITION},
        {"ann:1004:2", 1000, 10, WP_FAILED_PRECONDITION},
        {"ann:1004:0\n", 1000, 10, WP_OK},
        /* Lines that are none. */
        {"# ann\nann:\nann:x:5\nann:1004:-1\n\n", 1000, 10, WP_OK},
        {"ann:1:2\nbob:1003:4\n", 1000, 10, WP_FAILED_PRECONDITION},
        {"ann:18446744073709551615:18446744073709551615\n", 1000, 10, WP_OK},
        {"ann:0:18446744073709551615\n", 1000, 10, WP_FAILED_PRECONDITION},
    };
    char expected[sizeof path + 256];
    struct wp_err err;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    (void)close(fd);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (check(cases[i].text, cases[i].first, cases[i].count, &err) !=
            cases[i].status) {
            fail_msg("case %zu: '%s'", i, err.msg);
        }
    }
    assert_int_equal(check("bob:165536:65536\n", 200000, 4096, &err),
                     WP_FAILED_PRECONDITION);
    (void)snprintf(expected, sizeof expected,
                   "setting 'sandbox_uid_first': users 200000 to 204095 "
                   "overlap those that %s gives to bob (165536 and 65535 more)"
                   ": choose others",
                   path);
    expected[sizeof err.msg - 1] = '\0';
    assert_string_equal(err.msg, expected);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(wp_subids_check(path, 1, 1, &err), WP_OK);
}

/* What useradd gives out (100000 to 600100000) and what systemd takes for
 * containers (524288 to 1879048191) is left alone. */
static void
test_default_is_outside(void **state)
{
    struct wp_local_config config;
    struct wp_err err;
    int fd;

    (void)state;
    memcpy(path + strlen(path) - 6, "XXXXXX", 6);
    fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd);
    wp_local_config_init(&config);
    assert_int_equal(check("a:100000:600000001\nb:524288:1878523904\n",
                           config.uid_first, 1 << 20, &err),
                     WP_OK);
    assert_true(config.uid_first < INT32_MAX - (1 << 20));
    assert_int_equal(unlink(path), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_default_is_outside),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
