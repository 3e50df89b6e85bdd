/* tests/unit/runtime/runtime_file_text_test.c - whole files, and no parts of them
 * that pass for the whole. */
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "pool/base/compiler.h"
#include "runtime/files/file_text.h"
#include "tests/support/base/temp_dir.h"

enum {
    BYTES = 20000
};

static bool no_memory;

void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);

void *
__wrap_realloc(void *p, size_t size)
{
    return no_memory ? NULL : __real_realloc(p, size);
}

/* A pipe says nothing of its size, so the buffer must grow. */
static void
test_growing(void **state)
{
    static char bytes[BYTES];
    char dir[] = "/tmp/wp-text-XXXXXX";
    struct wp_err err = {.msg = ""};
    char path[64];
    json_t *text = NULL;
    size_t len;
    char *head;
    int fd;

    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/pipe", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    memset(bytes, 'x', sizeof bytes);
    assert_int_equal(write(fd, bytes, sizeof bytes), BYTES);
    no_memory = true;
    assert_int_not_equal(wp_file_read(path, 1 << 20, &text, &err), WP_OK);
    assert_non_null(strstr(err.msg, "memory"));
    no_memory = false;
    (void)close(fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, sizeof bytes), BYTES);
    /* What was asked for is all there. */
    head = wp_file_read_head(path, 4096, &len);
    assert_non_null(head);
    assert_int_equal(len, 4096);
    free(head);
    (void)close(fd);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

static char dir[512];

static int
set_up(void **state)
{
    (void)state;
    temp_dir_make(dir, sizeof dir);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    temp_dir_remove(dir);
    return access(dir, F_OK) == 0;
}

/* One that is good until the next of the same name. */
static const char *
at(const char *name)
{
    static char path[600];

    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

/* Text of which no two neighbouring pieces are alike. */
static char *
text_make(size_t len)
{
    char *text = calloc(1, len + 1);

    assert_non_null(text);
    for (size_t i = 0; i < len; i++) {
        text[i] = (char)('a' + (i / 7 + i) % 26);
    }
    return text;
}

static void
put(const char *name, const char *text, size_t len)
{
    FILE *file = fopen(at(name), "we");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

/* It fails, and says so. */
static void
check_failure(enum wp_status got, enum wp_status status,
              const struct wp_err *err, const char *what, const char *path,
              const char *why)
{
    struct wp_err expected;

    assert_int_equal(got, status);
    (void)wp_err_set(&expected, status, "%s %s: %s", what, path, why);
    assert_string_equal(err->msg, expected.msg);
}

static const size_t sizes[] = {0,    1,    4095, 4096,  4097,
                               8191, 8192, 8193, 16384, 40000};

/* As much as is wanted; with one byte more nothing. */
static void
a_file_is_read_up_to_a_limit(void **state)
{
    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(sizes); i++) {
        char *text = text_make(sizes[i]);
        struct wp_err err;
        char why[64];
        json_t *got = NULL;

        put("file", text, sizes[i]);
        for (size_t more = 0; more < 2; more++) {
            assert_int_equal(
                wp_file_read(at("file"), sizes[i] + more, &got, &err), WP_OK);
            assert_int_equal(json_string_length(got), sizes[i]);
            assert_string_equal(json_string_value(got), text);
            json_decref(got);
        }
        if (sizes[i] > 0) {
            (void)snprintf(why, sizeof why, "larger than %zu bytes",
                           sizes[i] - 1);
            check_failure(wp_file_read(at("file"), sizes[i] - 1, &got, &err),
                          WP_FAILED_PRECONDITION, &err, "read", at("file"),
                          why);
        }
        free(text);
    }
}

static void
of_a_head_there_is_so_much(void **state)
{
    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(sizes); i++) {
        char *text = text_make(sizes[i] + 1);

        put("file", text, sizes[i]);
        text[sizes[i]] = '\0';
        for (size_t max = sizes[i] + 1; max + 2 > sizes[i] && max > 0; max--) {
            size_t len = 12345;
            char *head = wp_file_read_head(at("file"), max, &len);

            assert_non_null(head);
            text[max < sizes[i] ? max : sizes[i]] = '\0';
            assert_int_equal(len, strlen(text));
            assert_string_equal(head, text);
            free(head);
        }
        free(text);
    }
    assert_null(wp_file_read_head(at("nothing"), 10, &(size_t){0}));
    assert_null(wp_file_read_head(dir, 10, &(size_t){0}));
}

/* Its size is not known before. */
static void
a_pipe_is_read_to_its_end(void **state)
{
    char *text = text_make(BYTES);
    struct wp_err err;
    json_t *got = NULL;
    int reader;
    int writer;

    (void)state;
    assert_int_equal(mkfifo(at("pipe"), 0600), 0);
    /* Nobody writes, and nobody is waited for. */
    assert_int_equal(wp_file_read(at("pipe"), 10, &got, &err), WP_OK);
    assert_string_equal(json_string_value(got), "");
    json_decref(got);
    reader = open(at("pipe"), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    writer = open(at("pipe"), O_WRONLY | O_CLOEXEC);
    assert_true(reader >= 0 && writer >= 0);
    check_failure(wp_file_read(at("pipe"), 10, &got, &err),
                  WP_FAILED_PRECONDITION, &err, "read", at("pipe"),
                  "resource temporarily unavailable");
    assert_int_equal(write(writer, text, BYTES), BYTES);
    assert_int_equal(close(writer), 0);
    assert_int_equal(wp_file_read(at("pipe"), BYTES, &got, &err), WP_OK);
    assert_int_equal(close(reader), 0);
    assert_string_equal(json_string_value(got), text);
    json_decref(got);
    free(text);
}

static void
what_cannot_be_read_is_said(void **state)
{
    struct wp_err err;
    json_t *got = NULL;

    (void)state;
    check_failure(wp_file_read(at("nothing"), 10, &got, &err), WP_NOT_FOUND,
                  &err, "open", at("nothing"), "no such file or directory");
    check_failure(wp_file_read(dir, 10, &got, &err), WP_FAILED_PRECONDITION,
                  &err, "read", dir, "is a directory");
    put("file", "x", 1);
    check_failure(wp_file_read(at("file/x"), 10, &got, &err),
                  WP_FAILED_PRECONDITION, &err, "open", at("file/x"),
                  "not a directory");
}

static void
a_file_is_written_whole(void **state)
{
    static const size_t lens[] = {5, 3, 0, 40000};
    mode_t mask = umask(0);
    struct wp_err err;
    struct stat st;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(lens); i++) {
        char *text = text_make(lens[i]);
        size_t len = 0;
        char *got;

        assert_int_equal(
            wp_file_write(at("file"), (struct wp_str){text, lens[i]}, &err),
            WP_OK);
        got = wp_file_read_head(at("file"), 100000, &len);
        assert_int_equal(len, lens[i]);
        assert_string_equal(got, text);
        free(got);
        free(text);
    }
    (void)umask(mask);
    assert_int_equal(stat(at("file"), &st), 0);
    assert_int_equal(st.st_mode, S_IFREG | 0644);
    check_failure(wp_file_write(dir, WP_STR("x"), &err), WP_FAILED_PRECONDITION,
                  &err, "open", dir, "is a directory");
    check_failure(wp_file_write(at("no/file"), WP_STR("x"), &err), WP_NOT_FOUND,
                  &err, "open", at("no/file"), "no such file or directory");
    check_failure(wp_file_write("/dev/full", WP_STR("x"), &err),
                  WP_FAILED_PRECONDITION, &err, "write", "/dev/full",
                  "no space left on device");
    assert_int_equal(wp_file_write("/dev/full", WP_STR(""), &err), WP_OK);
}

static void
folders_are_made_down_to_the_last(void **state)
{
    static char path[PATH_MAX + 1];
    mode_t mask = umask(0);
    size_t len = strlen(dir);
    struct wp_err err;
    struct stat st;

    (void)state;
    assert_int_equal(wp_file_make_dirs(at("a//b/c/"), &err), WP_OK);
    assert_int_equal(wp_file_make_dirs(at("a/b/c"), &err), WP_OK);
    assert_int_equal(wp_file_make_dirs("/", &err), WP_OK);
    (void)umask(mask);
    assert_int_equal(stat(at("a/b/c"), &st), 0);
    assert_int_equal(st.st_mode, S_IFDIR | 0755);
    put("file", "x", 1);
    check_failure(wp_file_make_dirs(at("file"), &err), WP_FAILED_PRECONDITION,
                  &err, "mkdir", at("file"), "not a directory");
    (void)strcpy(path, at("file"));
    check_failure(wp_file_make_dirs(at("file/x"), &err), WP_FAILED_PRECONDITION,
                  &err, "mkdir", path, "not a directory");
    check_failure(wp_file_make_dirs("", &err), WP_FAILED_PRECONDITION, &err,
                  "mkdir", "", "not a directory");

    /* As long as a path may be, and one more. */
    memcpy(path, dir, len);
    while (len < PATH_MAX) {
        path[len++] = '/';
    }
    path[PATH_MAX - 2] = 'd';
    path[PATH_MAX - 1] = '\0';
    assert_int_equal(wp_file_make_dirs(path, &err), WP_OK);
    path[PATH_MAX - 1] = 'e';
    check_failure(wp_file_make_dirs(path, &err), WP_FAILED_PRECONDITION, &err,
                  "mkdir", "a long path", "file name too long");
    assert_int_equal(rmdir(at("d")), 0);
    assert_int_equal(rmdir(at("a/b/c")), 0);
    assert_int_equal(rmdir(at("a/b")), 0);
    assert_int_equal(rmdir(at("a")), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_growing),
        cmocka_unit_test_setup_teardown(a_file_is_read_up_to_a_limit, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(of_a_head_there_is_so_much, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_pipe_is_read_to_its_end, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_read_is_said, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_file_is_written_whole, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(folders_are_made_down_to_the_last,
                                        set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
