/* Folders within another: how they are opened, part by part where the system
 * call is not to be had, and made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool/base/compiler.h"
#include "local/walls/rootfs.h"
#include "proto/checkout/inside.h"
#include "tests/support/base/descriptors.h"
#include "tests/support/base/journal.h"
#include "tests/support/base/temp_dir.h"

static char dir[256];
static int top;
static char longest[256];  /* A name of 255 letters. */
static char too_long[257]; /* One letter more. */
static int openat2_errno;
static struct open_how asked;
static int fails_in; /* The calls of fchmodat. */

long __wrap_syscall(long number, ...);
int __wrap_fchmodat(int at, const char *name, mode_t mode, int flags);
int __real_fchmodat(int at, const char *name, mode_t mode, int flags);

long
__wrap_syscall(long number, ...)
{
    va_list args;
    const struct open_how *how;

    assert_int_equal(number, SYS_openat2);
    va_start(args, number);
    assert_int_equal(va_arg(args, int), top);
    assert_non_null(va_arg(args, const char *));
    how = va_arg(args, const struct open_how *);
    assert_int_equal(va_arg(args, size_t), sizeof *how);
    va_end(args);
    asked = *how;
    errno = openat2_errno;
    return -1;
}

int
__wrap_fchmodat(int at, const char *name, mode_t mode, int flags)
{
    if (fails_in > 0 && --fails_in == 0) {
        errno = EROFS;
        return -1;
    }
    return __real_fchmodat(at, name, mode, flags);
}

static int
set_up(void **state)
{
    mode_t before = umask(022);
    int fd;

    (void)state;
    temp_dir_make_fast(dir, sizeof dir);
    top = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(top >= 0);
    memset(longest, 'l', sizeof longest - 1);
    memset(too_long, 't', sizeof too_long - 1);
    assert_int_equal(mkdirat(top, "a", 0755), 0);
    assert_int_equal(mkdirat(top, "a/b", 0755), 0);
    assert_int_equal(mkdirat(top, "a/..b", 0755), 0);
    assert_int_equal(mkdirat(top, longest, 0755), 0);
    assert_int_equal(symlinkat("b", top, "a/link"), 0);
    fd = openat(top, "a/file", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    (void)close(fd);
    (void)umask(before);
    openat2_errno = ENOSYS;
    fails_in = 0;
    journal_drop();
    return 0;
}

static int
tear_down(void **state)
{
    struct wp_err err;

    (void)state;
    (void)close(top);
    return wp_dir_remove(dir, &err) == WP_OK ? 0 : -1;
}

/* Where a descriptor leads, beneath the folder. */
static void
journal_place(int fd)
{
    char at[4096];
    size_t len = strlen(dir);

    assert_true(wp_inside_path(fd, at, sizeof at));
    /* The folder itself may lie behind links. */
    {
        char real[4096];

        assert_true(wp_inside_path(top, real, sizeof real));
        len = strlen(real);
        assert_memory_equal(at, real, len);
    }
    journal(" .%.20s", at + len);
    assert_true((fcntl(fd, F_GETFL) & O_PATH) != 0);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
}

static void
opens(const char *path, enum wp_inside_links links)
{
    size_t before = descriptors_count();
    int fd;

    errno = 0;
    fd = wp_inside_open(top, path, links);
    if (fd < 0) {
        journal(" %d", errno);
    } else {
        journal_place(fd);
        (void)close(fd);
    }
    assert_int_equal(descriptors_count(), before);
}

static void
without_the_system_call_folders_are_opened_part_by_part(void **state)
{
    static const char *const paths[] = {
        "",       ".",       "/",        "a",       "/a",          "a/",
        "a//b",   "./a/./b", "..",       "a/..",    "a/../a",      "a/..b",
        "a/link", "a/file",  "a/file/x", "nothing", "a/nothing/b",
    };
    static const int errors[] = {ENOSYS, EPERM};

    (void)state;
    for (size_t e = 0; e < WP_ARRAY_LEN(errors); e++) {
        openat2_errno = errors[e];
        for (size_t i = 0; i < WP_ARRAY_LEN(paths); i++) {
            journal("%s:", paths[i]);
            opens(paths[i], WP_INSIDE_NO_LINKS);
            journal_line();
        }
        opens(longest, WP_INSIDE_NO_LINKS);
        opens(too_long, WP_INSIDE_NO_LINKS);
        journal_line();
    }
    journal_compare(WP_TEST_GOLDEN "/inside_opened.txt");
}

/* Who follows links follows them within the folder alone: that the walk part by
 * part cannot do. */
static void
only_without_links_it_is_walked(void **state)
{
    static const struct {
        enum wp_inside_links links;
        uint64_t resolve;
    } all[] = {
        {WP_INSIDE_FOLLOW, RESOLVE_NO_MAGICLINKS | RESOLVE_IN_ROOT},
        {WP_INSIDE_STAY, RESOLVE_NO_MAGICLINKS | RESOLVE_BENEATH},
        {WP_INSIDE_NO_LINKS,
         RESOLVE_NO_MAGICLINKS | RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS},
    };
    static const int errors[] = {ENOSYS, EPERM, EACCES, ENOENT};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(all); i++) {
        for (size_t e = 0; e < WP_ARRAY_LEN(errors); e++) {
            openat2_errno = errors[e];
            opens("a/b", all[i].links);
            assert_true(asked.resolve == all[i].resolve);
            assert_true(asked.flags == (O_PATH | O_DIRECTORY | O_CLOEXEC));
            assert_true(asked.mode == 0);
        }
        journal_line();
    }
    journal_is(" 38 1 13 2\n"
               " 38 1 13 2\n"
               " ./a/b ./a/b 13 2\n");
}

static void
a_place_fits_with_its_end_or_is_not_told(void **state)
{
    char real[4096];
    char at[4096];
    int fds[2];
    size_t len;

    (void)state;
    assert_true(wp_inside_path(top, real, sizeof real));
    assert_int_equal(real[0], '/');
    len = strlen(real);
    memset(at, 'x', sizeof at);
    assert_true(wp_inside_path(top, at, len + 1));
    assert_string_equal(at, real);
    assert_int_equal(at[len + 1], 'x');
    assert_false(wp_inside_path(top, at, len));
    assert_false(wp_inside_path(top, at, len - 1));
    assert_int_equal(pipe(fds), 0);
    assert_false(wp_inside_path(fds[0], at, sizeof at));
    (void)close(fds[0]);
    (void)close(fds[1]);
    at[0] = '/';
    assert_false(wp_inside_path(fds[0], at, sizeof at));
}

static void
makes(const char *path, mode_t mode)
{
    size_t before = descriptors_count();
    bool made;

    errno = 0;
    made = wp_inside_make(top, path, mode);
    journal(" %d", made ? 0 : errno);
    assert_int_equal(descriptors_count(), before);
}

static void
has_mode(const char *path)
{
    struct stat st;

    if (fstatat(top, path, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        journal(" [%s: none]", path);
    } else {
        journal(" [%s: %o]", path, (unsigned)st.st_mode);
    }
}

static void
folders_are_made_whatever_the_umask(void **state)
{
    static const char *const bad[] = {".",      "..",       "a/.",   "a/../x",
                                      "a/file", "a/file/x", "a/link"};
    mode_t before = umask(077);

    (void)state;
    makes("", 0711);
    makes("/", 0711);
    makes("a", 0711);
    has_mode("a");
    journal_line();
    makes("/a/new//newer/", 0711);
    has_mode("a/new");
    has_mode("a/new/newer");
    makes("a/new/newer", 0755);
    has_mode("a/new/newer");
    journal_line();
    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        journal("%s:", bad[i]);
        makes(bad[i], 0711);
        journal_line();
    }
    makes(longest, 0711);
    makes(too_long, 0711);
    journal_line();
    fails_in = 2;
    makes("p/q/r", 0711);
    has_mode("p");
    has_mode("p/q/r");
    journal_line();
    (void)umask(before);
    journal_compare(WP_TEST_GOLDEN "/inside_made.txt");
}

int
main(void)
{
#define ONE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        ONE(without_the_system_call_folders_are_opened_part_by_part),
        ONE(only_without_links_it_is_walked),
        ONE(a_place_fits_with_its_end_or_is_not_told),
        ONE(folders_are_made_whatever_the_umask),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
