/* tests/unit/runtime/runtime_bound_test.c - what a claim brings reaches the
 * commands that start after it. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/exec/bound.h"
#include "runtime/exec/environment.h"
#include "tests/support/base/temp_dir.h"

enum {
    ENV_BYTES_MAX = 1 << 20,
    PATH_BYTES = 1024, /* Of a file's path, with its NUL. */
};

static char dir[512];

static void
put(const char *name, const char *bytes, size_t len)
{
    char path[600];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

/* How often a command's environment has that entry. */
static size_t
count(const char *entry)
{
    struct wp_environment environment;
    size_t found = 0;

    assert_true(wp_environment_init(&environment, 0));
    wp_environment_inherit(&environment);
    for (size_t i = 0; environment.list[i] != NULL; i++) {
        found += strcmp(environment.list[i], entry) == 0 ? 1 : 0;
    }
    wp_environment_fini(&environment);
    return found;
}

/* In the order of a sandbox's life, for a process is bound once. */
static void
test_bound(void **state)
{
    static const char env[] = "WP_A=1\0WP_B=x=y\nz\0WP_EMPTY=\0NOTHING\0=odd";
    static char much[ENV_BYTES_MAX + 1];
    char longest[PATH_BYTES];
    struct wp_environment environment;
    struct stat folder;
    struct stat own;

    (void)state;
    (void)setenv("WP_A", "old", 1);
    assert_int_equal(count("WP_A=old"), 1);
    assert_int_equal(wp_bound_folder(7), 7);
    temp_dir_make(dir, sizeof dir);
    (void)setenv("WARMPOOL_BOUND_DIR", dir, 1);
    assert_int_equal(count("WP_A=old"), 1);
    assert_int_equal(wp_bound_folder(7), 7);
    put("cwd", "/no/such/folder", 15);
    assert_int_equal(wp_bound_folder(7), 7);

    /* A path that is too long by one character stands for no shorter one. */
    (void)snprintf(longest, sizeof longest, "%s", dir);
    memset(longest + strlen(dir), '/', sizeof longest - strlen(dir));
    longest[PATH_BYTES - strlen("/env")] = '\0';
    (void)setenv("WARMPOOL_BOUND_DIR", longest, 1);
    put("en", "WP_A=2", 7);
    put("env", "WP_A=2", 7);
    put("cw", dir, strlen(dir));
    put("cwd", dir, strlen(dir));
    assert_int_equal(count("WP_A=old"), 1);
    assert_int_equal(wp_bound_folder(7), 7);
    /* As long as it may be. */
    longest[PATH_BYTES - strlen("/env") - 1] = '\0';
    (void)setenv("WARMPOOL_BOUND_DIR", longest, 1);

    /* As much as is taken, and one byte more. */
    memcpy(much, env, sizeof env);
    put("env", much, sizeof much);
    assert_int_equal(count("WP_A=old"), 1);
    put("env", much, ENV_BYTES_MAX);
    assert_int_equal(count("WP_A=1"), 1);
    assert_int_equal(count("WP_A=old"), 0);
    assert_int_equal(count("WP_B=x=y\nz"), 1);
    assert_null(getenv("x")); /* What is behind it is no other one. */
    assert_int_equal(count("WP_EMPTY="), 1);
    assert_int_equal(count("NOTHING"), 0);
    /* What a command is given itself goes first. */
    assert_true(wp_environment_init(&environment, 1));
    assert_true(
        wp_environment_add(&environment, WP_STR("WP_A"), WP_STR("own")));
    wp_environment_inherit(&environment);
    assert_string_equal(environment.list[0], "WP_A=own");
    wp_environment_fini(&environment);

    put("cwd", dir, strlen(dir));
    assert_int_equal(fstat(wp_bound_folder(7), &folder), 0);
    assert_int_equal(stat(dir, &own), 0);
    assert_int_equal(folder.st_ino, own.st_ino);
    /* Once for all. */
    put("env", "WP_A=2", 7);
    assert_int_equal(count("WP_A=1"), 1);
    assert_int_equal(close(wp_bound_folder(7)), 0);
    temp_dir_remove(dir);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
