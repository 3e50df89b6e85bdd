/* The proxy's keys: what a line says, and which lines are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

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

/* What a line says: all of it. */
static void
a_line_says(void **state)
{
    static const char name_63[] =
        "a23456789012345678901234567890123456789012345678901234567890123";
    static const char plain_63[] =
        "a23456789012345678901234567890123456789012345678901234567890123 "
        "http://h X: y";
    static const struct {
        const char *line;
        const char *name;
        const char *host;
        const char *path;
        const char *field;
        const char *value;
        uint16_t port;
        bool secure;
    } cases[] = {
        {"a http://h X: y", "a", "h", "", "X", "y", 80, false},
        {"a https://h X: y", "a", "h", "", "X", "y", 443, true},
        {" \ta\t  https://H.Example:8443/v1/b \t X:\t y z", "a", "h.example",
         "/v1/b", "X", "y z", 8443, true},
        {"a-b.c http://[::1]:1/ X:y", "a-b.c", "::1", "", "X", "y", 1, false},
        {"a http://10.0.0.1:65535// X: :", "a", "10.0.0.1", "/", "X", ":",
         65535, false},
        {"a http://h/!~%20/;=& X: !~ y ", "a", "h", "/!~%20/;=&", "X", "!~ y ",
         80, false},
        {"a http://h abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
         "0123456789-_: v",
         "a", "h", "",
         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_",
         "v", 80, false},
        {plain_63, name_63, "h", "", "X", "y", 80, false},
        {"a http://h X: y\r", "a", "h", "", "X", "y", 80, false},
        {"# b http://h X: y\n  #\n\t\na http://h X: y\n", "a", "h", "", "X",
         "y", 80, false},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        struct wp_err err;
        struct wp_egress_keys *keys =
            wp_egress_keys_parse(wp_str_from(cases[i].line), &err);
        const struct wp_egress_key *key;

        assert_non_null(keys);
        key = wp_egress_keys_find(keys, wp_str_from(cases[i].name));
        assert_non_null(key);
        assert_string_equal(key->name, cases[i].name);
        assert_string_equal(key->host.name, cases[i].host);
        assert_string_equal(key->path, cases[i].path);
        assert_string_equal(key->field, cases[i].field);
        assert_string_equal(key->value, cases[i].value);
        assert_int_equal(key->port, cases[i].port);
        assert_int_equal(key->secure, cases[i].secure);
        assert_null(wp_egress_keys_find(keys, WP_STR("b")));
        wp_egress_keys_destroy(keys);
    }
}

static void
refused(struct wp_str text, unsigned line)
{
    char expected[128];
    struct wp_err err;

    (void)snprintf(expected, sizeof expected,
                   "keys, line %u: a new NAME, an http or https URL and FIELD: "
                   "VALUE were expected",
                   line);
    assert_null(wp_egress_keys_parse(text, &err));
    assert_int_equal(err.status, WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, expected);
}

/* The line is named, and nothing of it shown. */
static void
a_wrong_line_is_refused(void **state)
{
    static const char *const wrong[] = {
        "a",
        "a http://h",
        "a http://h ",
        "a http://h A",
        "a http://h A s3cret",
        "a http://h A:",
        "a http://h A: ",
        "a http://h A: \t",
        "a http://h : s3cret",
        "a http://h A.B: s3cret",
        "a http://h A : s3cret",
        "a http://h A: s3\tcret",
        "a http://h A: s3cret\x1f",
        "a http://h A: s3cret\x7f",
        "a http://h A: s3cret\xc3\xa9",
        "a http://h A: s3\rcret",
        "a ftp://h A: s3cret",
        "a http:/h A: s3cret",
        "a https:/h A: s3cret",
        "a https//h A: s3cret",
        "a HTTP://h A: s3cret",
        "a http:// A: s3cret",
        "a http:///v1 A: s3cret",
        "a http://h:0 A: s3cret",
        "a http://h:65536 A: s3cret",
        "a http://h/v1?x A: s3cret",
        "a http://h/v1#x A: s3cret",
        "a http://h/v\x01 A: s3cret",
        "a http://h/v\x7f A: s3cret",
        "a http://h/v\xc3\xa9 A: s3cret",
        "A http://h A: s3cret",
        "a_b http://h A: s3cret",
        "a234567890123456789012345678901234567890123456789012345678901234 "
        "http://h A: s3cret",
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(wrong); i++) {
        refused(wp_str_from(wrong[i]), 1);
    }
    refused(WP_STR("a http://h A: b\na https://i B: c\n"), 2);
    refused(WP_STR("a http://h A: b\r\n\r\nb http://h A: b\r\nc\r\n"), 4);
    refused(WP_STR("\n#\n\nb"), 4);
}

static void
no_line_is_no_key(void **state)
{
    const struct wp_str texts[] = {{NULL, 0},
                                   WP_STR(""),
                                   WP_STR("\n"),
                                   WP_STR("# a http://h X: y"),
                                   WP_STR("\r\n \t\r\n")};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(texts); i++) {
        struct wp_err err;
        struct wp_egress_keys *keys = wp_egress_keys_parse(texts[i], &err);

        assert_non_null(keys);
        assert_null(wp_egress_keys_find(keys, WP_STR("a")));
        assert_null(wp_egress_keys_find(keys, WP_STR("")));
        wp_egress_keys_destroy(keys);
    }
    wp_egress_keys_destroy(NULL);
}

/* A descriptor of those bytes, at its begin. */
static int
file_of(const char *bytes, size_t len)
{
    int fd = memfd_create("keys", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), len);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

static void
so_many_keys_and_no_more(void **state)
{
    static char text[(WP_EGRESS_KEYS_MAX + 2) * 32];
    size_t len = 0;
    struct wp_egress_keys *keys;
    struct wp_err err;

    (void)state;
    for (int i = 0; i < WP_EGRESS_KEYS_MAX; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "k%d http://h%d X: y%d\n", i, i, i);
    }
    (void)snprintf(text + len, sizeof text - len, "# more\n\n");
    keys = wp_egress_keys_parse(wp_str_from(text), &err);
    assert_non_null(keys);
    for (int i = 0; i < WP_EGRESS_KEYS_MAX; i++) {
        const struct wp_egress_key *key;
        char name[16];

        (void)snprintf(name, sizeof name, "k%d", i);
        key = wp_egress_keys_find(keys, wp_str_from(name));
        assert_non_null(key);
        assert_string_equal(key->name, name);
        assert_string_equal(key->host.name + 1, name + 1);
        assert_string_equal(key->value + 1, name + 1);
    }
    wp_egress_keys_destroy(keys);
    (void)snprintf(text + len, sizeof text - len, "one\n");
    assert_null(wp_egress_keys_parse(wp_str_from(text), &err));
    assert_int_equal(err.status, WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg,
                        "keys, line 257: at most 256 keys were expected");
}

/* To its end, by however many pieces; as many bytes as may, and one more. */
static void
a_file_is_read_whole(void **state)
{
    static const char first[] = "a http://h X: y\n";
    static const char last[] = "\nb http://i X: y";
    static char text[WP_EGRESS_KEYS_BYTES_MAX + 1];
    struct wp_egress_keys *keys;
    struct wp_err err;
    int ends[2];
    int fd;

    (void)state;
    memset(text, '#', sizeof text);
    memcpy(text, first, sizeof first - 1);
    memcpy(text + WP_EGRESS_KEYS_BYTES_MAX - (sizeof last - 1), last,
           sizeof last - 1);
    fd = file_of(text, WP_EGRESS_KEYS_BYTES_MAX);
    keys = wp_egress_keys_read(fd, &err);
    assert_int_equal(close(fd), 0);
    assert_non_null(keys);
    assert_non_null(wp_egress_keys_find(keys, WP_STR("a")));
    assert_string_equal(wp_egress_keys_find(keys, WP_STR("b"))->value, "y");
    wp_egress_keys_destroy(keys);

    fd = file_of(text, sizeof text);
    assert_null(wp_egress_keys_read(fd, &err));
    assert_int_equal(close(fd), 0);
    assert_int_equal(err.status, WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, "keys: at most 262144 bytes were expected");

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    assert_int_equal(write(ends[1], "a htt", 5), 5);
    assert_int_equal(write(ends[1], "p://h X: y", 10), 10);
    assert_int_equal(close(ends[1]), 0);
    keys = wp_egress_keys_read(ends[0], &err);
    assert_int_equal(close(ends[0]), 0);
    assert_non_null(keys);
    assert_string_equal(wp_egress_keys_find(keys, WP_STR("a"))->value, "y");
    wp_egress_keys_destroy(keys);

    assert_null(wp_egress_keys_read(-1, &err));
    assert_int_equal(err.status, WP_UNAVAILABLE);
    assert_string_equal(err.msg, "cannot read the keys: Bad file descriptor");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_found_by_its_name),
        cmocka_unit_test(a_line_says),
        cmocka_unit_test(a_wrong_line_is_refused),
        cmocka_unit_test(no_line_is_no_key),
        cmocka_unit_test(so_many_keys_and_no_more),
        cmocka_unit_test(a_file_is_read_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
