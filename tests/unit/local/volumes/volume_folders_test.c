/* local/volumes/volumes.h: keys, and folders that are made. What sandboxes make
 * of them is tried in tests/integration/allocator/volumes_test.py. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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

#include "local/volumes/volumes.h"
#include "pool/base/compiler.h"
#include "tests/support/base/descriptors.h"

DIR *__real_fdopendir(int fd);
DIR *__wrap_fdopendir(int fd);
struct dirent *__real_readdir(DIR *from);
struct dirent *__wrap_readdir(DIR *from);

/* 0: they do as they should. */
static int fdopendir_error;
static int readdir_error;

DIR *
__wrap_fdopendir(int fd)
{
    errno = fdopendir_error;
    return fdopendir_error != 0 ? NULL : __real_fdopendir(fd);
}

struct dirent *
__wrap_readdir(DIR *from)
{
    errno = readdir_error != 0 ? readdir_error : errno;
    return readdir_error != 0 ? NULL : __real_readdir(from);
}

static void
test_keys_of_a_claim(void **state)
{
    static const struct {
        const char *tenant;
        const char *key;
    } cases[] = {
        {"", "%/data"},
        {"team-a_1", "team-a_1/data"},
        {"..", "%2E%2E/data"},
        {"a/b %", "a%2Fb%20%25/data"},
        {"\xc3\xa9", "%C3%A9/data"},
    };
    const struct wp_binding_volume volumes[] = {{WP_STR("data"), WP_STR("")},
                                                {WP_STR("b.c"), WP_STR("d/e")}};
    const struct wp_binding binding = {.volumes = volumes, .n_volumes = 2};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        struct wp_bind_volumes *made =
            wp_bind_volumes_make(&binding, wp_str_from(cases[i].tenant));

        assert_non_null(made);
        assert_int_equal(made->n, 2);
        assert_string_equal(made->at[0].key, cases[i].key);
        assert_string_equal(made->at[0].dir, "data");
        assert_string_equal(made->at[1].name, "b.c");
        assert_string_equal(made->at[1].dir, "d/e");
        free(made);
    }
}

static void
test_longest_key(void **state)
{
    char tenant[WP_TENANT_MAX + 1];
    char name[WP_VOLUME_NAME_MAX + 1];
    struct wp_binding_volume volume;
    const struct wp_binding binding = {.volumes = &volume, .n_volumes = 1};
    struct wp_bind_volumes *made;

    (void)state;
    memset(tenant, '.', sizeof tenant);
    memset(name, 'n', sizeof name);
    volume = (struct wp_binding_volume){{name, WP_VOLUME_NAME_MAX}, WP_STR("")};
    made =
        wp_bind_volumes_make(&binding, (struct wp_str){tenant, WP_TENANT_MAX});
    assert_non_null(made);
    assert_int_equal(strlen(made->at[0].key), WP_VOLUME_KEY_MAX);
    free(made);
}

static void
test_sets_of_keys(void **state)
{
    char keys[WP_VOLUME_KEYS_MAX + 1] = "";
    char key[WP_VOLUME_KEY_MAX + 2];

    (void)state;
    assert_false(wp_volume_keys_have(keys, "a/b"));
    assert_true(wp_volume_keys_add(keys, WP_STR("a/bc")));
    assert_true(wp_volume_keys_add(keys, WP_STR("x/y")));
    assert_true(wp_volume_keys_add(keys, WP_STR("x/y")));
    assert_string_equal(keys, "a/bc\nx/y\n");
    assert_true(wp_volume_keys_have(keys, "x/y"));
    assert_false(wp_volume_keys_have(keys, "a/b"));
    assert_false(wp_volume_keys_have(keys, "bc"));
    assert_false(wp_volume_keys_have(keys, ""));
    /* No part of one that does not fit. */
    memset(key, 'k', sizeof key);
    assert_false(wp_volume_keys_add(keys, (struct wp_str){key, sizeof key}));
    keys[0] = '\0';
    for (int i = 0; i < WP_BINDING_VOLUMES_MAX; i++) {
        key[0] = (char)('a' + i);
        assert_true(
            wp_volume_keys_add(keys, (struct wp_str){key, WP_VOLUME_KEY_MAX}));
    }
    assert_false(wp_volume_keys_add(keys, WP_STR("z/z")));
    assert_false(wp_volume_keys_have(keys, "z/z"));
    /* One that fits without its newline. */
    keys[sizeof keys - 1 - sizeof key + 1] = '\0';
    assert_true(wp_volume_keys_add(keys, WP_STR("z/z")));
    assert_false(wp_volume_keys_add(
        keys, (struct wp_str){key, sizeof keys - 1 - strlen(keys)}));
    assert_true(wp_volume_keys_add(
        keys, (struct wp_str){key, sizeof keys - 2 - strlen(keys)}));
    assert_int_equal(strlen(keys), WP_VOLUME_KEYS_MAX);
}

/* What a daemon that died left half made, and what is no folder. */
/* A folder that cannot be counted is no full one. */
static void
cannot_be_counted(const struct wp_volumes *volumes, int *failing, int error,
                  const char *words)
{
    size_t before = descriptors_count();
    char path[WP_VOLUME_PATH_MAX];
    enum wp_status status;
    struct wp_err err;

    *failing = error;
    status = wp_volumes_make(volumes, "u/c", path, &err);
    *failing = 0;
    assert_int_equal(status, WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "cannot be read"));
    assert_non_null(strstr(err.msg, words));
    assert_int_equal(descriptors_count(), before);
}

static void
test_folders(void **state)
{
    char dir[] = "/tmp/wp-volumes-XXXXXX";
    struct wp_volumes volumes = {.dir = dir, .max = 2, .dir_fd = -1};
    char path[WP_VOLUME_PATH_MAX];
    char command[128];
    struct wp_err err;
    struct stat st;
    int fd;

    (void)state;
    assert_non_null(mkdtemp(dir));
    volumes.dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(volumes.dir_fd >= 0);
    assert_int_equal(mkdirat(volumes.dir_fd, "t", 0700), 0);
    assert_int_equal(mkdirat(volumes.dir_fd, "t/.new", 0700), 0);
    assert_int_equal(wp_volumes_make(&volumes, "t/a", path, &err), WP_OK);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    assert_int_equal(wp_volumes_make(&volumes, "t/a", path, &err), WP_OK);
    fd = openat(volumes.dir_fd, "t/file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_int_equal(wp_volumes_make(&volumes, "t/file", path, &err),
                     WP_FAILED_PRECONDITION);
    assert_int_equal(wp_volumes_make(&volumes, "t/b", path, &err),
                     WP_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(err.msg, "volumes_max"));
    assert_int_equal(wp_volumes_make(&volumes, "u/b", path, &err), WP_OK);
    cannot_be_counted(&volumes, &fdopendir_error, EMFILE,
                      "Too many open files");
    cannot_be_counted(&volumes, &readdir_error, EIO, "Input/output error");
    assert_int_equal(symlinkat("/tmp", volumes.dir_fd, "l"), 0);
    assert_int_equal(wp_volumes_make(&volumes, "l/b", path, &err),
                     WP_UNAVAILABLE);
    (void)close(volumes.dir_fd);
    (void)snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c) */
}

/* A folder of a test's own. */
static void
begin(char dir[], struct wp_volumes *volumes)
{
    assert_non_null(mkdtemp(dir));
    *volumes = (struct wp_volumes){.dir = dir, .max = 1};
    volumes->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(volumes->dir_fd >= 0);
}

static void
end(const char *dir, struct wp_volumes *volumes)
{
    char command[128];

    wp_volumes_close(volumes);
    assert_int_equal(volumes->dir_fd, -1);
    (void)snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c) */
}

static void
test_names_that_are_too_long(void **state)
{
    char dir[] = "/tmp/wp-volumes-XXXXXX";
    char long_dir[WP_VOLUME_PATH_MAX] = "";
    char key[300] = "t/";
    char path[WP_VOLUME_PATH_MAX];
    struct wp_volumes volumes;
    struct wp_err err;

    (void)state;
    begin(dir, &volumes);
    memset(key + 2, 'n', sizeof key - 3);
    assert_int_equal(wp_volumes_make(&volumes, key, path, &err),
                     WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "cannot be looked at: File name too long"));
    memset(long_dir, 'd', sizeof long_dir - sizeof "/t/a");
    volumes.dir = long_dir;
    assert_int_equal(wp_volumes_make(&volumes, "t/aa", path, &err),
                     WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "volumes_dir is too long"));
    assert_int_equal(wp_volumes_make(&volumes, "t/a", path, &err), WP_OK);
    assert_int_equal(strlen(path), WP_VOLUME_PATH_MAX - 1);
    end(dir, &volumes);
}

static void
test_owners(void **state)
{
    char dir[] = "/tmp/wp-volumes-XXXXXX";
    char path[WP_VOLUME_PATH_MAX];
    struct wp_volumes volumes;
    struct wp_err err;
    struct stat st;

    (void)state;
    begin(dir, &volumes);
    volumes.own_users = true;
    volumes.owner = geteuid() == 0 ? 4711 : geteuid();
    assert_int_equal(wp_volumes_make(&volumes, "t/a", path, &err), WP_OK);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_uid, volumes.owner);
    end(dir, &volumes);
}

/* Why not is said, and nothing stays open. */
static void
test_not_opened(void **state)
{
    static const mode_t modes[] = {0710, 0701};
    char dir[] = "/tmp/wp-volumes-XXXXXX";
    struct wp_volumes volumes;
    struct wp_volumes other = {.max = 1};
    char path[64];
    struct wp_err err;
    int fd;

    (void)state;
    begin(dir, &volumes);
    other.dir = path;
    (void)snprintf(path, sizeof path, "%s/a/b", dir);
    assert_int_equal(wp_volumes_open(&other, &err), WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "/a/b: No such file"));
    assert_int_equal(other.dir_fd, -1);
    (void)snprintf(path, sizeof path, "%s/file", dir);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_int_equal(wp_volumes_open(&other, &err), WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "/file: Not a directory"));
    (void)snprintf(path, sizeof path, "%s/open", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    for (size_t i = 0; i < WP_ARRAY_LEN(modes); i++) {
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_int_equal(wp_volumes_open(&other, &err), WP_FAILED_PRECONDITION);
        assert_non_null(strstr(err.msg, "mode 0700"));
        assert_int_equal(other.dir_fd, -1);
    }
    end(dir, &volumes);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_of_a_claim),
        cmocka_unit_test(test_longest_key),
        cmocka_unit_test(test_sets_of_keys),
        cmocka_unit_test(test_folders),
        cmocka_unit_test(test_names_that_are_too_long),
        cmocka_unit_test(test_owners),
        cmocka_unit_test(test_not_opened),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
