/* The bearer token: what a file may hold, and when it is read again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>

#include "k8s/api/token.h"
#include "tests/support/base/heard.h"
#include "tests/support/base/temp_dir.h"
#include "tests/support/pool/manual_clock.h"

struct fixture {
    char dir[64];
    char file[96];
    struct wp_clock_manual clock;
    struct wp_token *token;
};

static void
write_file(const struct fixture *fixture, const char *text)
{
    char other[128];
    FILE *file;

    /* As rotation does it: another file takes its place. */
    (void)snprintf(other, sizeof other, "%s.new", fixture->file);
    file = fopen(other, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(other, fixture->file), 0);
}

static void
setup(struct fixture *fixture, const char *text)
{
    struct wp_err err;

    temp_dir_make_fast(fixture->dir, sizeof fixture->dir);
    (void)snprintf(fixture->file, sizeof fixture->file, "%s/token",
                   fixture->dir);
    wp_clock_manual_init(&fixture->clock, WP_NS_PER_S, 0);
    write_file(fixture, text);
    fixture->token =
        wp_token_create(fixture->file, NULL, &fixture->clock.clock, &err);
    assert_non_null(fixture->token);
}

static void
teardown(struct fixture *fixture)
{
    wp_token_destroy(fixture->token);
    temp_dir_remove(fixture->dir);
}

static void
expect(struct fixture *fixture, const char *header)
{
    struct wp_token_value *value = wp_token_take(fixture->token);

    assert_non_null(value);
    assert_string_equal(value->header, header);
    wp_token_value_release(value);
}

static void
trimming(void **state)
{
    static const struct {
        const char *bytes;
        const char *token; /* NULL: none. */
    } rows[] = {
        {"abc", "abc"},  {" \r\n abc.d-e_f~+/=\n\n", "abc.d-e_f~+/="},
        {"", NULL},      {" \n", NULL},
        {"a b", NULL},   {"a\r\nX-Evil: 1", NULL},
        {"a\x7f", NULL}, {"\xC3\xA9", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct wp_str out;
        bool ok = wp_token_trim(wp_str_from(rows[i].bytes), &out);

        assert_int_equal(ok, rows[i].token != NULL);
        assert_true(!ok || wp_str_is(out, rows[i].token));
    }
    /* A NUL is no space. */
    for (size_t i = 0; i < 2; i++) {
        static const char bytes[] = {'\0', 'a', '\0'};
        struct wp_str out;

        assert_false(wp_token_trim((struct wp_str){bytes + i, 2}, &out));
    }
}

/* Another file is seen a second later at the latest, while requests are made;
 * before that the old value serves. */
static void
rotation(void **state)
{
    struct fixture fixture;

    (void)state;
    setup(&fixture, "one\n");
    expect(&fixture, "Authorization: Bearer one");
    write_file(&fixture, "two\n");
    wp_clock_manual_advance(&fixture.clock, WP_NS_PER_S - 1);
    expect(&fixture, "Authorization: Bearer one");
    wp_clock_manual_advance(&fixture.clock, 1);
    expect(&fixture, "Authorization: Bearer two");
    teardown(&fixture);
}

/* A change that leaves no trace in the file's data is seen within a minute. */
static void
age(void **state)
{
    struct fixture fixture;
    struct stat before;
    struct timespec times[2];
    int fd;

    (void)state;
    setup(&fixture, "one\n");
    fd = open(fixture.file, O_WRONLY);
    assert_true(fd >= 0 && fstat(fd, &before) == 0);
    assert_int_equal(write(fd, "two", 3), 3);
    times[0] = before.st_atim;
    times[1] = before.st_mtim;
    assert_int_equal(futimens(fd, times), 0);
    assert_int_equal(close(fd), 0);
    wp_clock_manual_advance(&fixture.clock, 59 * WP_NS_PER_S);
    expect(&fixture, "Authorization: Bearer one");
    wp_clock_manual_advance(&fixture.clock, WP_NS_PER_S);
    expect(&fixture, "Authorization: Bearer two");
    teardown(&fixture);
}

/* What cannot be used leaves the old value in use; who holds one keeps it. */
static void
bad_rotation(void **state)
{
    struct fixture fixture;
    struct wp_token_value *held;

    (void)state;
    setup(&fixture, "one");
    held = wp_token_take(fixture.token);
    write_file(&fixture, "");
    wp_clock_manual_advance(&fixture.clock, WP_NS_PER_S);
    expect(&fixture, "Authorization: Bearer one");
    assert_int_equal(unlink(fixture.file), 0);
    assert_false(wp_token_refused(fixture.token, held));
    expect(&fixture, "Authorization: Bearer one");
    write_file(&fixture, "two");
    assert_true(wp_token_refused(fixture.token, held));
    expect(&fixture, "Authorization: Bearer two");
    assert_string_equal(held->header, "Authorization: Bearer one");
    /* Somebody else has seen the new one meanwhile. */
    assert_true(wp_token_refused(fixture.token, held));
    wp_token_value_release(held);
    teardown(&fixture);
}

static void
no_file(void **state)
{
    struct wp_err err = {.msg = ""};
    struct wp_token *token;
    struct wp_token_value *value;

    (void)state;
    assert_null(
        wp_token_create("/no/such/token", NULL, wp_clock_system(), &err));
    assert_non_null(strstr(err.msg, "/no/such/token"));
    assert_null(wp_token_create(NULL, "secret\n2", wp_clock_system(), &err));
    assert_null(strstr(err.msg, "secret"));

    token = wp_token_create(NULL, NULL, wp_clock_system(), &err);
    assert_null(wp_token_take(token));
    assert_false(wp_token_refused(token, NULL));
    wp_token_destroy(token);

    token = wp_token_create(NULL, "fixed", wp_clock_system(), &err);
    value = wp_token_take(token);
    assert_string_equal(value->header, "Authorization: Bearer fixed");
    assert_false(wp_token_refused(token, value));
    wp_token_value_release(value);
    wp_token_destroy(token);
}

/* A file that is no token by its size alone. */
static void
too_long(void **state)
{
    struct fixture fixture;
    char *text = malloc(WP_TOKEN_MAX + 2);
    struct wp_token_value *value;

    (void)state;
    memset(text, 'x', WP_TOKEN_MAX + 1);
    text[WP_TOKEN_MAX + 1] = '\0';
    setup(&fixture, text + 1);
    value = wp_token_take(fixture.token);
    assert_int_equal(value->size,
                     sizeof "Authorization: Bearer " + WP_TOKEN_MAX);
    write_file(&fixture, text);
    assert_false(wp_token_refused(fixture.token, value));
    wp_token_value_release(value);
    free(text);
    teardown(&fixture);
}

static uint32_t memory; /* This allocation from now on fails; 0: none. */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *
__wrap_malloc(size_t size)
{
    return memory != 0 && --memory == 0 ? NULL : __real_malloc(size);
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return memory != 0 && --memory == 0 ? NULL : __real_calloc(n, size);
}

static void
no_memory(void **state)
{
    struct fixture fixture;
    struct wp_token_value *held;

    (void)state;
    setup(&fixture, "one");
    for (int fixed = 0; fixed < 2; fixed++) {
        for (uint32_t n = 1; n <= 2; n++) {
            struct wp_err err = {.msg = ""};

            memory = n;
            assert_null(wp_token_create(fixed ? NULL : fixture.file,
                                        fixed ? "text" : NULL,
                                        &fixture.clock.clock, &err));
            assert_int_equal(memory, 0);
            assert_int_equal(err.status, WP_RESOURCE_EXHAUSTED);
            assert_string_equal(err.msg, "out of memory");
        }
    }
    held = wp_token_take(fixture.token);
    write_file(&fixture, "two");
    memory = 1;
    assert_false(wp_token_refused(fixture.token, held));
    assert_int_equal(memory, 0);
    expect(&fixture, "Authorization: Bearer one");
    assert_true(wp_token_refused(fixture.token, held));
    wp_token_value_release(held);
    wp_token_value_release(NULL);
    wp_token_destroy(NULL);
    teardown(&fixture);
}

/* One trouble is one line, until it ends. */
static void
trouble_is_told_once(void **state)
{
    static struct heard heard;
    struct fixture fixture;
    char expected[1024];

    (void)state;
    setup(&fixture, "one");
    write_file(&fixture, "no token");
    heard_begin(&heard);
    for (int i = 0; i < 3; i++) {
        wp_clock_manual_advance(&fixture.clock, 60 * WP_NS_PER_S);
        expect(&fixture, "Authorization: Bearer one");
    }
    write_file(&fixture, "two");
    wp_clock_manual_advance(&fixture.clock, WP_NS_PER_S);
    expect(&fixture, "Authorization: Bearer two");
    assert_int_equal(unlink(fixture.file), 0);
    for (int i = 0; i < 3; i++) {
        wp_clock_manual_advance(&fixture.clock, 60 * WP_NS_PER_S);
        expect(&fixture, "Authorization: Bearer two");
    }
    (void)snprintf(
        expected, sizeof expected,
        "WARN token not renewed error=\"the token file '%s' is empty "
        "or has characters that no token has\"\n"
        "WARN token not renewed error=\"the token file '%s' cannot "
        "be read: No such file or directory\"\n",
        fixture.file, fixture.file);
    assert_string_equal(heard_end(&heard), expected);
    teardown(&fixture);
}

/* A file that differs in anything is read again within a second. */
static void
sees_each_difference(void **state)
{
    struct fixture fixture;
    struct stat before;
    struct timespec times[2];

    (void)state;
    for (int what = 0; what < 4; what++) {
        setup(&fixture, "one");
        assert_int_equal(stat(fixture.file, &before), 0);
        times[0] = before.st_atim;
        times[1] = before.st_mtim;
        if (what == 0) {
            write_file(&fixture, "two"); /* Another file. */
            assert_int_equal(utimensat(AT_FDCWD, fixture.file, times, 0), 0);
        } else {
            int fd = open(fixture.file, O_WRONLY | O_CLOEXEC);

            assert_true(fd >= 0);
            assert_int_equal(write(fd, "two+", what == 1 ? 4 : 3),
                             what == 1 ? 4 : 3);
            times[1].tv_sec += what == 2 ? 1 : 0;
            if (what == 3) {
                times[1].tv_nsec = (times[1].tv_nsec + 1) % 1000000000;
            }
            assert_int_equal(futimens(fd, times), 0);
            assert_int_equal(close(fd), 0);
        }
        wp_clock_manual_advance(&fixture.clock, WP_NS_PER_S);
        expect(&fixture, what == 1 ? "Authorization: Bearer two+"
                                   : "Authorization: Bearer two");
        teardown(&fixture);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trimming),
        cmocka_unit_test(rotation),
        cmocka_unit_test(age),
        cmocka_unit_test(bad_rotation),
        cmocka_unit_test(no_file),
        cmocka_unit_test(too_long),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(trouble_is_told_once),
        cmocka_unit_test(sees_each_difference),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
