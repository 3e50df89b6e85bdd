/* tests/unit/local/sandbox/local_config_test.c - which settings of the local
 * backend are refused, and with which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "local/sandbox/local_impl.h"
#include "pool/base/compiler.h"

/* A whole configuration that is as the defaults but for one. */
#define NUMBER(field, value)                                                   \
    {                                                                          \
        offsetof(struct wp_local_config, field), sizeof config.field, value,   \
            NULL                                                               \
    }
#define TEXT(field, value)                                                     \
    {                                                                          \
        offsetof(struct wp_local_config, field), 0, 0, value                   \
    }

#define TEN "/123456789"
#define SEVENTY TEN TEN TEN TEN TEN TEN TEN

static struct wp_local_config config;

struct change {
    size_t at;
    size_t size; /* 0: it is a text. */
    uint64_t number;
    const char *text;
};

static enum wp_status
check(const struct change *change, struct wp_err *err)
{
    char *field = (char *)&config + change->at;
    uint32_t number = (uint32_t)change->number;

    wp_local_config_init(&config);
    config.state_dir = "/s";
    config.sandboxes_max = 100;
    config.uid_first = 1900000000;
    if (change->size == 0) {
        memcpy(field, &change->text, sizeof change->text);
    } else if (change->size == sizeof number) {
        memcpy(field, &number, sizeof number);
    } else {
        memcpy(field, &change->number, sizeof change->number);
    }
    err->msg[0] = '\0';
    return wp_local_check_config(&config, err);
}

static void
test_settings_that_are_refused(void **state)
{
    static const char odd[] = "a limit of the local backend is out of bounds";
    static const char most[] = "most sandboxes: 1 to 1048576 was expected";
    static const char user[] = "first host user: 1 to 4294967291 less the"
                               " number of sandboxes was expected";
    static const struct {
        struct change change;
        const char *words;
    } rows[] = {
        {TEXT(state_dir, NULL),
         "state directory: an absolute path was expected"},
        {TEXT(state_dir, "s"),
         "state directory: an absolute path was expected"},
        {TEXT(state_dir, SEVENTY "/12345"),
         "state directory: at most 75 characters, since socket paths (at most"
         " 107) hold it: " SEVENTY "/12345"},
        {TEXT(rootfs_dir, "r"),
         "rootfs directory: an absolute path was expected"},
        {TEXT(volumes_dir, "v"),
         "setting 'volumes_dir': an absolute path was expected"},
        {NUMBER(sandboxes_max, 0), most},
        {NUMBER(sandboxes_max, 1048577), most},
        {NUMBER(uid_first, 0), user},
        {NUMBER(uid_first, UINT32_MAX - 103), user},
        {NUMBER(pids_max, 3), odd},
        {NUMBER(connections_max, 0), odd},
        {NUMBER(connections_max, 4097), odd},
        {NUMBER(tmpfs_bytes, 4095), odd},
        {NUMBER(probe_timeout_ms, 0), odd},
        {NUMBER(probe_failures, 0), odd},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_err err;

        assert_int_equal(check(&rows[i].change, &err), WP_INVALID_ARGUMENT);
        assert_string_equal(err.msg, rows[i].words);
    }
}

/* The last that are not. */
static void
test_settings_that_just_do(void **state)
{
    static const struct change rows[] = {
        TEXT(state_dir, SEVENTY "/1234"),
        TEXT(rootfs_dir, "/r"),
        TEXT(volumes_dir, "/v"),
        NUMBER(sandboxes_max, 1),
        NUMBER(sandboxes_max, 1048576),
        NUMBER(uid_first, 1),
        NUMBER(uid_first, UINT32_MAX - 104),
        NUMBER(pids_max, 4),
        NUMBER(connections_max, 1),
        NUMBER(connections_max, 4096),
        NUMBER(tmpfs_bytes, 4096),
        NUMBER(probe_timeout_ms, 1),
        NUMBER(probe_failures, 1),
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_err err;

        if (check(&rows[i], &err) != WP_OK) {
            fail_msg("row %zu: %s", i, err.msg);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings_that_are_refused),
        cmocka_unit_test(test_settings_that_just_do),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
