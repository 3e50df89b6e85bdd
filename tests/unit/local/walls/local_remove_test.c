/* Folders that are removed with all that somebody else put into them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/walls/rootfs.h"
#include "pool/base/compiler.h"

static char place[64]; /* With a folder `it`, which is removed. */
static char it[80];
static struct wp_err err;

static int
setup(void **state)
{
    (void)state;
    (void)snprintf(place, sizeof place, "/tmp/wp-remove-XXXXXX");
    if (mkdtemp(place) == NULL) {
        return -1;
    }
    (void)snprintf(it, sizeof it, "%s/it", place);
    return mkdir(it, 0755);
}

static int
teardown(void **state)
{
    (void)state;
    return rmdir(place); /* So nothing else was left. */
}

static void
put_file(int dir, const char *name)
{
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
}

/* A new folder of dir. */
static int
put_folder(int dir, const char *name)
{
    int fd;

    assert_int_equal(mkdirat(dir, name, 0755), 0);
    fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

/* Two chains of folders, deeper than any path can say. */
static void
deeper_than_a_path(void **state)
{
    (void)state;
    for (int chain = 0; chain < 2; chain++) {
        int at = open(it, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        for (int i = 0; i < 3000; i++) {
            int next = put_folder(at, i == 0 && chain == 1 ? "e" : "d");

            put_file(next, "file");
            assert_int_equal(close(at), 0);
            at = next;
        }
        assert_int_equal(close(at), 0);
    }
    assert_int_equal(wp_dir_remove(it, &err), WP_OK);
    assert_int_not_equal(access(it, F_OK), 0);
}

/* What is lifted to the top finds its name taken. */
static void
names_that_are_taken(void **state)
{
    int top = open(it, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    (void)state;
    for (int i = 0; i < 40; i++) {
        char name[32];

        (void)snprintf(name, sizeof name, ".removed-%d", i);
        if (i % 3 == 0) {
            put_file(top, name);
        } else {
            int folder = put_folder(top, name);
            int inner = put_folder(folder, "folder");

            put_file(inner, i % 3 == 1 ? "file" : ".removed-1");
            assert_int_equal(close(inner), 0);
            assert_int_equal(close(folder), 0);
        }
    }
    assert_int_equal(close(top), 0);
    assert_int_equal(wp_dir_remove(it, &err), WP_OK);
    assert_int_not_equal(access(it, F_OK), 0);
}

static void
links_are_not_followed(void **state)
{
    char outside[80];
    char kept[96];
    int top = open(it, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int folder = put_folder(top, "folder");

    (void)state;
    (void)snprintf(outside, sizeof outside, "%s/outside", place);
    (void)snprintf(kept, sizeof kept, "%s/kept", outside);
    assert_int_equal(mkdir(outside, 0755), 0);
    put_file(AT_FDCWD, kept);
    assert_int_equal(symlinkat(outside, top, "link"), 0);
    assert_int_equal(symlinkat(outside, folder, "link"), 0);
    assert_int_equal(symlinkat("/nowhere", folder, "dangling"), 0);
    assert_int_equal(mkfifoat(folder, "pipe", 0600), 0);
    assert_int_equal(close(folder), 0);
    assert_int_equal(close(top), 0);
    assert_int_equal(wp_dir_remove(it, &err), WP_OK);
    /* Nor is one in its own place. */
    assert_int_equal(symlink(outside, it), 0);
    assert_int_equal(wp_dir_remove(it, &err), WP_OK);
    assert_int_not_equal(faccessat(AT_FDCWD, it, F_OK, AT_SYMLINK_NOFOLLOW), 0);
    put_file(AT_FDCWD, it);
    assert_int_equal(wp_dir_remove(it, &err), WP_OK);
    assert_int_equal(wp_dir_remove(it, &err), WP_OK);
    assert_int_equal(unlink(kept), 0);
    assert_int_equal(rmdir(outside), 0);
}

/* The first thing that stays is told, and the others are gone. */
static void
what_stays_is_told(void **state)
{
    int top = open(it, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int shut = put_folder(top, "shut");

    (void)state;
    put_file(top, "file");
    put_file(shut, "inner");
    assert_int_equal(fchmod(shut, 0500), 0);
    if (faccessat(top, "shut", W_OK, 0) == 0) {
        assert_int_equal(fchmod(shut, 0700), 0); /* To root all is open. */
        assert_int_equal(wp_dir_remove(it, &err), WP_OK);
    } else {
        assert_int_equal(wp_dir_remove(it, &err), WP_UNAVAILABLE);
        assert_non_null(strstr(err.msg, "cannot remove 'inner'"));
        assert_int_not_equal(faccessat(top, "file", F_OK, 0), 0);
        assert_int_equal(fchmod(shut, 0700), 0);
        assert_int_equal(wp_dir_remove(it, &err), WP_OK);
    }
    assert_int_equal(close(shut), 0);
    assert_int_equal(close(top), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(deeper_than_a_path, setup, teardown),
        cmocka_unit_test_setup_teardown(names_that_are_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(links_are_not_followed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_stays_is_told, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
