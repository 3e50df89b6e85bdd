/* tests/unit/allocator/conf/paths_test.c - whose the runtime directory is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "allocator/conf/paths.h"

enum {
    STRANGER = 65534
};

/* Of a user whose login left what it says; off: the machine's own. */
static struct {
    bool on;
    bool fails;
    mode_t mode;
    uid_t uid;
    char path[64];
} login;

uid_t __real_geteuid(void);
uid_t __wrap_geteuid(void);
int __real_lstat(const char *path, struct stat *st);
int __wrap_lstat(const char *path, struct stat *st);

uid_t
__wrap_geteuid(void)
{
    return login.on ? 1000 : __real_geteuid();
}

int
__wrap_lstat(const char *path, struct stat *st)
{
    if (!login.on) {
        return __real_lstat(path, st);
    }
    (void)snprintf(login.path, sizeof login.path, "%s", path);
    memset(st, 0, sizeof *st);
    st->st_mode = login.mode;
    st->st_uid = login.uid;
    return login.fails ? -1 : 0;
}

static void
expect(const char *dir, enum wp_status status, const char *words)
{
    struct wp_err err = {.msg = ""};

    assert_int_equal(wp_paths_check_dir(dir, &err), status);
    if (strstr(err.msg, words) == NULL) {
        fail_msg("'%s' does not say '%s'", err.msg, words);
    }
}

static void
test_modes(void **state)
{
    char dir[] = "/tmp/wp-paths-XXXXXX";
    char inner[64];
    char link[64];

    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(inner, sizeof inner, "%s/in", dir);
    (void)snprintf(link, sizeof link, "%s/link", dir);
    expect(inner, WP_OK, ""); /* Not there: whoever makes it owns it. */
    assert_int_equal(mkdir(inner, 0755), 0);
    assert_int_equal(symlink(inner, link), 0);
    expect(inner, WP_OK, "");
    expect(link, WP_OK, "");
    assert_int_equal(chmod(inner, 0775), 0);
    expect(inner, WP_OK, "");
    assert_int_equal(chmod(inner, 0757), 0);
    expect(inner, WP_PERMISSION_DENIED, "others can write in");
    expect(link, WP_PERMISSION_DENIED, "others can write in");
    assert_int_equal(chmod(inner, 0755), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(inner, STRANGER, 0), 0);
        expect(inner, WP_PERMISSION_DENIED, "belongs to user 65534");
        expect(link, WP_PERMISSION_DENIED, "belongs to user 65534");
        assert_int_equal(chown(inner, 0, STRANGER), 0);
        assert_int_equal(chmod(inner, 0775), 0);
        expect(inner, WP_PERMISSION_DENIED, "others can write in");
        assert_int_equal(chmod(inner, 0755), 0);
        /* A stranger's link to a directory of ours. */
        assert_int_equal(chown(inner, 0, 0), 0);
        assert_int_equal(lchown(link, STRANGER, STRANGER), 0);
        expect(link, WP_PERMISSION_DENIED, "belongs to user 65534");
    } else {
        print_message("SKIP: owners, not root\n");
    }
    assert_int_equal(unlink(link), 0);
    assert_int_equal(rmdir(inner), 0);
    assert_int_equal(rmdir(dir), 0);
}

/* Of a user that is not root, without a word from a login. */
static void
test_places(void **state)
{
    char expected[64];
    char dir[64];
    struct stat st;

    (void)state;
    if (geteuid() == 0 && seteuid(STRANGER) != 0) {
        print_message("SKIP: cannot be another user\n");
        return;
    }
    assert_int_equal(unsetenv("RUNTIME_DIRECTORY"), 0);
    assert_int_equal(setenv("XDG_RUNTIME_DIR", "/x", 1), 0);
    assert_string_equal(wp_paths_runtime_dir(dir, sizeof dir), "/x/warmpool");
    assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
    (void)snprintf(expected, sizeof expected, "/run/user/%u",
                   (unsigned)geteuid());
    if (stat(expected, &st) == 0 && st.st_uid == geteuid()) {
        (void)snprintf(expected, sizeof expected, "/run/user/%u/warmpool",
                       (unsigned)geteuid());
    } else {
        (void)snprintf(expected, sizeof expected, "/tmp/warmpool-%u",
                       (unsigned)geteuid());
    }
    assert_string_equal(wp_paths_runtime_dir(dir, sizeof dir), expected);
    if (getuid() == 0) {
        assert_int_equal(seteuid(0), 0);
    }
}

/* A login's directory is taken when it is this user's alone. */
static void
test_what_a_login_left(void **state)
{
    static const char ours[] = "/run/user/1000/warmpool";
    static const char none[] = "/tmp/warmpool-1000";
    static const struct {
        bool fails;
        mode_t mode;
        uid_t uid;
        const char *dir;
    } rows[] = {
        {false, S_IFDIR | 0700, 1000, ours},
        {false, S_IFDIR | 0755, 1000, ours},
        {true, S_IFDIR | 0700, 1000, none},
        {false, S_IFREG | 0700, 1000, none},
        {false, S_IFLNK | 0700, 1000, none},
        {false, S_IFDIR | 0700, 0, none},
        {false, S_IFDIR | 0700, 1001, none},
        {false, S_IFDIR | 0720, 1000, none},
        {false, S_IFDIR | 0702, 1000, none},
    };
    char dir[64];

    (void)state;
    assert_int_equal(unsetenv("RUNTIME_DIRECTORY"), 0);
    assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        memset(&login, 0, sizeof login);
        memset(dir, '?', sizeof dir);
        login.on = true;
        login.fails = rows[i].fails;
        login.mode = rows[i].mode;
        login.uid = rows[i].uid;
        (void)wp_paths_runtime_dir(dir, sizeof dir);
        login.on = false;
        assert_string_equal(login.path, "/run/user/1000");
        assert_string_equal(dir, rows[i].dir);
    }
}

/* Named by systemd, whoever this is; a name that is no path is not taken. */
static void
test_names_in_the_runtime_directory(void **state)
{
    char out[64];

    (void)state;
    assert_int_equal(setenv("RUNTIME_DIRECTORY", "/run/r", 1), 0);
    assert_string_equal(wp_paths_runtime_dir(out, sizeof out), "/run/r");
    assert_string_equal(wp_paths_grpc_address(out, sizeof out),
                        "unix:/run/r/warmpoold.sock");
    assert_string_equal(wp_paths_http_address(out, sizeof out),
                        "unix:/run/r/warmpoold-http.sock");
    assert_string_equal(wp_paths_access_token(out, sizeof out),
                        "/run/r/access.token");
    /* What does not fit is cut. */
    assert_string_equal(wp_paths_runtime_dir(out, 5), "/run");
    assert_int_equal(setenv("RUNTIME_DIRECTORY", "r", 1), 0);
    assert_string_not_equal(wp_paths_runtime_dir(out, sizeof out), "r");
    assert_int_equal(unsetenv("RUNTIME_DIRECTORY"), 0);
    if (geteuid() == 0) {
        assert_string_equal(wp_paths_runtime_dir(out, sizeof out),
                            "/run/warmpool");
    }
}

/* Root's directories are trusted by all. */
static void
test_directories_of_root(void **state)
{
    (void)state;
    if (geteuid() == 0 && seteuid(STRANGER) != 0) {
        print_message("SKIP: cannot be another user\n");
        return;
    }
    expect("/", WP_OK, "");
    if (getuid() == 0) {
        assert_int_equal(seteuid(0), 0);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_what_a_login_left),
        cmocka_unit_test(test_names_in_the_runtime_directory),
        cmocka_unit_test(test_directories_of_root),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
