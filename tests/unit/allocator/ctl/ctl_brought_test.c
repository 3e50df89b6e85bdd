/* The files that a claim brings along: which are taken, as what, and the bounds
 * of them all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocator/ctl/sandbox/brought.h"
#include "pool/limits.h"
#include "tests/support/base/temp_dir.h"

static struct wp_brought brought;
static struct wp_err err;
static char dir[4096];

/* The n-th room that is asked for is not there; 0: all is. */
static int no_room;
static bool no_spool;

void *__real_wp_region_alloc(struct wp_region *region, size_t size);
void *__wrap_wp_region_alloc(struct wp_region *region, size_t size);
void *
__wrap_wp_region_alloc(struct wp_region *region, size_t size)
{
    return no_room > 0 && --no_room == 0 ? NULL
                                         : __real_wp_region_alloc(region, size);
}

void *__real_reallocarray(void *old, size_t n, size_t size);
void *__wrap_reallocarray(void *old, size_t n, size_t size);
void *
__wrap_reallocarray(void *old, size_t n, size_t size)
{
    return no_room > 0 && --no_room == 0 ? NULL
                                         : __real_reallocarray(old, n, size);
}

FILE *__real_tmpfile(void);
FILE *__wrap_tmpfile(void);
FILE *
__wrap_tmpfile(void)
{
    if (no_spool) {
        errno = EMFILE;
        return NULL;
    }
    return __real_tmpfile();
}

/* So much comes from every file, and is written to none; 0: all as it is. */
static uint64_t endless;
static bool no_disk; /* For the last of it. */

size_t __real_fread(void *bytes, size_t size, size_t n, FILE *file);
size_t __wrap_fread(void *bytes, size_t size, size_t n, FILE *file);
size_t
__wrap_fread(void *bytes, size_t size, size_t n, FILE *file)
{
    size_t some = endless < n ? (size_t)endless : n;

    if (endless == 0) {
        return __real_fread(bytes, size, n, file);
    }
    endless -= some;
    return some;
}

size_t __real_fwrite(const void *bytes, size_t size, size_t n, FILE *file);
size_t __wrap_fwrite(const void *bytes, size_t size, size_t n, FILE *file);
size_t
__wrap_fwrite(const void *bytes, size_t size, size_t n, FILE *file)
{
    if (no_disk && endless == 0) {
        errno = ENOSPC;
        return 0;
    }
    return endless > 0 ? n : __real_fwrite(bytes, size, n, file);
}

static int
set_up(void **state)
{
    (void)state;
    temp_dir_make(dir, sizeof dir);
    assert_int_equal(chdir(dir), 0);
    memset(&brought, 0, sizeof brought);
    no_room = 0;
    no_spool = false;
    endless = 0;
    no_disk = false;
    return 0;
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

static int
tear_down(void **state)
{
    (void)state;
    wp_brought_fini(&brought);
    assert_int_equal(chdir("/"), 0);
    return nftw(dir, remove_one, 32, FTW_DEPTH | FTW_PHYS);
}

static void
put(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0644), 0);
}

/* A file without blocks. */
static void
put_sparse(const char *path, uint64_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    assert_int_equal(close(fd), 0);
}

static void
expect_refused(enum wp_status status, const char *expected)
{
    assert_int_equal(status, WP_INVALID_ARGUMENT);
    assert_int_equal(err.status, WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, expected);
}

static void
expect_file(uint32_t i, const char *path, const char *from, uint64_t size,
            uint32_t mode)
{
    const struct wp_brought_file *file = &brought.files[i];

    assert_true(i < brought.n);
    assert_string_equal(file->path, path);
    if (from == NULL) {
        assert_null(file->from);
        assert_int_equal(file->content.len, size);
    } else {
        assert_string_equal(file->from, from);
        assert_null(file->content.ptr);
    }
    assert_int_equal(file->size, size);
    assert_int_equal(file->mode, mode);
}

static void
test_files_and_folders(void **state)
{
    (void)state;
    put("f", "four");
    put("tool", "x");
    assert_int_equal(chmod("tool", 0100), 0);
    put("others", "yy");
    assert_int_equal(chmod("others", 0677), 0);
    assert_int_equal(mkdir("d", 0700), 0);
    assert_int_equal(mkdir("d/b", 0700), 0);
    assert_int_equal(mkdir("d/empty", 0700), 0);
    put("d/c", "c");
    put("d/a", "");
    put("d/b/.hidden", "h");
    put("d/b/...", "dots");
    assert_int_equal(wp_brought_add(&brought, "f", "to/f", &err), WP_OK);
    assert_int_equal(wp_brought_add(&brought, "others", "o", &err), WP_OK);
    assert_int_equal(wp_brought_add(&brought, "d", ".", &err), WP_OK);
    assert_int_equal(wp_brought_add(&brought, "d/b", "x/y", &err), WP_OK);
    assert_int_equal(wp_brought_add(&brought, "d/empty", "z", &err), WP_OK);
    assert_int_equal(brought.n, 8);
    assert_int_equal(brought.bytes, 4 + 2 + 5 + 1 + 5);
    expect_file(0, "to/f", "f", 4, 0644);
    expect_file(1, "o", "others", 2, 0644);
    expect_file(2, "a", "d/a", 0, 0644);
    expect_file(3, "b/...", "d/b/...", 4, 0644);
    expect_file(4, "b/.hidden", "d/b/.hidden", 1, 0644);
    expect_file(5, "c", "d/c", 1, 0644);
    expect_file(6, "x/y/...", "d/b/...", 4, 0644);
    expect_file(7, "x/y/.hidden", "d/b/.hidden", 1, 0644);
    assert_int_equal(wp_brought_check(&brought, &err), WP_OK);
    assert_int_equal(wp_brought_read(&brought, &err), WP_OK);
    assert_memory_equal(brought.files[0].content.ptr, "four", 4);
    assert_int_equal(brought.files[0].content.len, 4);
    assert_int_equal(brought.files[2].content.len, 0);
    assert_memory_equal(brought.files[3].content.ptr, "dots", 4);
    wp_brought_fini(&brought);
    assert_int_equal(brought.n, 0);
    assert_int_equal(brought.bytes, 0);
    assert_null(brought.files);
    if (geteuid() == 0) {
        assert_int_equal(wp_brought_add(&brought, "tool", "t", &err), WP_OK);
        expect_file(0, "t", "tool", 1, 0755);
    } else {
        expect_refused(wp_brought_add(&brought, "tool", "t", &err),
                       "tool: permission denied");
    }
    assert_int_equal(chmod("tool", 0500), 0);
    assert_int_equal(wp_brought_add(&brought, "tool", "u", &err), WP_OK);
    expect_file(brought.n - 1, "u", "tool", 1, 0755);
}

static void
test_paths(void **state)
{
    char path[WP_BINDING_PATH_MAX + 2];
    char expected[1024];

    (void)state;
    put("f", "four");
    for (size_t i = 0; i < sizeof path; i++) {
        path[i] = i % 100 == 99 ? '/' : 'p';
    }
    path[WP_BINDING_PATH_MAX] = '\0';
    assert_int_equal(wp_brought_add(&brought, "f", path, &err), WP_OK);
    expect_file(0, path, "f", 4, 0644);
    path[WP_BINDING_PATH_MAX] = 'p';
    path[WP_BINDING_PATH_MAX + 1] = '\0';
    assert_int_equal(wp_brought_add(&brought, "f", path, &err),
                     WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "f: 'ppp"));
    (void)snprintf(
        expected, sizeof expected,
        "f: '../\?': expected a path below the workspace, of at most "
        "%d bytes",
        WP_BINDING_PATH_MAX);
    expect_refused(wp_brought_add(&brought, "f", "../\x01", &err), expected);
    assert_int_equal(brought.n, 1);
    assert_int_equal(brought.bytes, 4);
}

static void
test_what_is_refused(void **state)
{
    (void)state;
    put("f", "four");
    assert_int_equal(mkdir("d", 0700), 0);
    assert_int_equal(symlink("../f", "d/link"), 0);
    expect_refused(wp_brought_add(&brought, "missing", "x", &err),
                   "missing: no such file or directory");
    expect_refused(wp_brought_add(&brought, "d", "x", &err),
                   "d/link: a symbolic link; only plain files can be brought");
    assert_int_equal(unlink("d/link"), 0);
    assert_int_equal(mkfifo("d/pipe", 0600), 0);
    expect_refused(wp_brought_add(&brought, "d", "x", &err),
                   "d/pipe: only plain files can be brought");
    /* The first one in the order of names is told of. */
    assert_int_equal(symlink("../f", "d/a"), 0);
    expect_refused(wp_brought_add(&brought, "d", "x", &err),
                   "d/a: a symbolic link; only plain files can be brought");
    /* A link that is named is followed. */
    assert_int_equal(symlink("f", "named"), 0);
    assert_int_equal(wp_brought_add(&brought, "named", "x", &err), WP_OK);
    expect_file(0, "x", "named", 4, 0644);
}

/* Folders in folders, as deep as may be. */
static void
test_depth(void **state)
{
    char path[4096] = "d";
    char expected[4096];

    (void)state;
    assert_int_equal(mkdir(path, 0700), 0);
    for (int depth = 1; depth <= 64; depth++) {
        (void)strcat(path, "/d");
        assert_int_equal(mkdir(path, 0700), 0);
    }
    (void)strcat(path, "/f");
    put(path, "deep");
    assert_int_equal(wp_brought_add(&brought, "d", ".", &err), WP_OK);
    assert_int_equal(brought.n, 1);
    path[strlen(path) - 1] = 'd';
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(expected, sizeof expected,
                   "%.4000s: folders in folders, deeper than 64", path);
    assert_int_equal(wp_brought_add(&brought, "d", ".", &err),
                     WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, expected);
}

/* A path here that is as long as may be, and one byte more. */
static void
test_local_paths(void **state)
{
    char path[8192];
    char name[200];
    size_t n = 0;

    (void)state;
    memset(name, 'n', sizeof name);
    put("f", "x");
    /* "./././..." leads to where it begins. */
    while (n < 4096 - 1 - 2) {
        n += (size_t)snprintf(path + n, sizeof path - n, "./");
    }
    assert_int_equal(n, 4094);
    path[4092] = '\0';
    /* 4092 bytes, a slash, and a name of one or two. */
    assert_int_equal(wp_brought_add(&brought, path, "x", &err), WP_OK);
    assert_int_equal(brought.n, 1);
    path[4092] = '.';
    path[4093] = '\0';
    assert_int_equal(wp_brought_add(&brought, path, "x", &err), WP_OK);
    assert_int_equal(brought.n, 2);
    assert_int_equal(rename("f", "ff"), 0);
    assert_int_equal(wp_brought_add(&brought, path, "x", &err),
                     WP_INVALID_ARGUMENT);
}

static void
test_how_much(void **state)
{
    (void)state;
    put("f", "x");
    put("none", "");
    put_sparse("most", WP_BROUGHT_BYTES_MAX - 1);
    put_sparse("all", WP_BROUGHT_BYTES_MAX);
    put_sparse("more", WP_BROUGHT_BYTES_MAX + 1);
    assert_int_equal(wp_brought_add(&brought, "all", "a", &err), WP_OK);
    assert_int_equal(brought.bytes, WP_BROUGHT_BYTES_MAX);
    assert_int_equal(wp_brought_add(&brought, "none", "b", &err), WP_OK);
    expect_refused(wp_brought_add(&brought, "f", "c", &err),
                   "f: at most 1 GiB in all expected");
    wp_brought_fini(&brought);
    assert_int_equal(wp_brought_add(&brought, "most", "a", &err), WP_OK);
    assert_int_equal(wp_brought_add(&brought, "f", "c", &err), WP_OK);
    assert_int_equal(brought.bytes, WP_BROUGHT_BYTES_MAX);
    expect_refused(wp_brought_add(&brought, "f", "d", &err),
                   "f: at most 1 GiB in all expected");
    wp_brought_fini(&brought);
    expect_refused(wp_brought_add(&brought, "more", "a", &err),
                   "more: at most 1 GiB in all expected");
    expect_refused(wp_brought_add_archive(&brought, "more", "", &err),
                   "more: at most 1 GiB in all expected");
    assert_int_equal(brought.n, 0);
    for (uint32_t i = 0; i < WP_BROUGHT_FILES_MAX; i++) {
        assert_int_equal(wp_brought_add(&brought, "none", "x", &err), WP_OK);
    }
    expect_refused(wp_brought_add(&brought, "none", "x", &err),
                   "none: at most 65536 files in all expected");
    assert_int_equal(brought.n, WP_BROUGHT_FILES_MAX);
}

static void
test_two_of_one_path(void **state)
{
    (void)state;
    put("f", "x");
    assert_int_equal(wp_brought_check(&brought, &err), WP_OK);
    assert_int_equal(wp_brought_add(&brought, "f", "b", &err), WP_OK);
    assert_int_equal(wp_brought_add(&brought, "f", "a", &err), WP_OK);
    assert_int_equal(wp_brought_add(&brought, "f", "c", &err), WP_OK);
    assert_int_equal(wp_brought_check(&brought, &err), WP_OK);
    assert_int_equal(wp_brought_add(&brought, "f", "b", &err), WP_OK);
    expect_refused(wp_brought_check(&brought, &err),
                   "'b' in the sandbox: two files are to be there");
}

/* What was added is what is read. */
static void
test_changes_between(void **state)
{
    (void)state;
    put("f", "four");
    assert_int_equal(wp_brought_add(&brought, "f", "f", &err), WP_OK);
    put("f", "three");
    expect_refused(wp_brought_read(&brought, &err),
                   "f: it was changed while it was read");
    put("f", "two");
    expect_refused(wp_brought_read(&brought, &err),
                   "f: it was changed while it was read");
    put("f", "3333");
    assert_int_equal(wp_brought_read(&brought, &err), WP_OK);
    assert_memory_equal(brought.files[0].content.ptr, "3333", 4);
    assert_int_equal(unlink("f"), 0);
    expect_refused(wp_brought_read(&brought, &err),
                   "f: no such file or directory");
    assert_int_equal(mkdir("f", 0700), 0);
    expect_refused(wp_brought_read(&brought, &err), "f: is a directory");
}

/* --- From standard input and pipes --- */

static void
input(const char *text, size_t len)
{
    FILE *file = fopen("input", "we");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
    assert_non_null(freopen("input", "r", stdin));
}

static void
test_standard_input(void **state)
{
    static char big[200000];

    (void)state;
    for (size_t i = 0; i < sizeof big; i++) {
        big[i] = (char)('a' + i % 23);
    }
    input(big, sizeof big);
    assert_int_equal(wp_brought_add(&brought, "-", "in", &err), WP_OK);
    expect_file(0, "in", NULL, sizeof big, 0644);
    assert_memory_equal(brought.files[0].content.ptr, big, sizeof big);
    input("", 0);
    assert_int_equal(wp_brought_add(&brought, "-", "in2", &err), WP_OK);
    expect_file(1, "in2", NULL, 0, 0644);
    input("x", 1);
    expect_refused(wp_brought_add(&brought, "-", "/in", &err),
                   "-: '/in': expected a path below the workspace, of at most "
                   "512 bytes");
    input("x", 1);
    no_spool = true;
    expect_refused(wp_brought_add(&brought, "-", "in", &err),
                   "-: too many open files");
    no_spool = false;
    assert_non_null(freopen(".", "r", stdin));
    expect_refused(wp_brought_add(&brought, "-", "in", &err),
                   "-: is a directory");
    assert_int_equal(brought.n, 2);
    assert_int_equal(brought.bytes, sizeof big);
    /* What is read at once is not read from a file again. */
    assert_int_equal(wp_brought_read(&brought, &err), WP_OK);
    assert_int_equal(brought.files[0].content.len, sizeof big);
}

static void
test_devices(void **state)
{
    (void)state;
    assert_int_equal(wp_brought_add(&brought, "/dev/null", "n", &err), WP_OK);
    expect_file(0, "n", NULL, 0, 0644);
    no_spool = true;
    expect_refused(wp_brought_add(&brought, "/dev/null", "n", &err),
                   "/dev/null: too many open files");
    /* A file's size is known before its end. */
    put_sparse("empty.tar", 1024);
    assert_int_equal(wp_brought_add_archive(&brought, "empty.tar", "", &err),
                     WP_OK);
    expect_refused(wp_brought_add_archive(&brought, "/dev/null", "", &err),
                   "/dev/null: too many open files");
    no_spool = false;
    assert_int_equal(wp_brought_add_archive(&brought, "/dev/null", "", &err),
                     WP_OK);
    assert_int_equal(brought.n, 1);
}

static void
test_endless_input(void **state)
{
    (void)state;
    input("", 0);
    endless = WP_BROUGHT_BYTES_MAX + 65536 + 1;
    expect_refused(wp_brought_add(&brought, "-", "in", &err),
                   "-: at most 1 GiB in all expected");
    assert_int_equal(endless, 1);
    endless = 0;
    input("", 0);
    endless = WP_BROUGHT_BYTES_MAX;
    assert_int_equal(wp_brought_add(&brought, "-", "in", &err), WP_OK);
    assert_int_equal(brought.n, 1);
    input("", 0);
    endless = WP_BROUGHT_BYTES_MAX;
    no_disk = true;
    expect_refused(wp_brought_add(&brought, "-", "in", &err),
                   "-: no space left on device");
    no_disk = false;
}

/* A path that the system would take is taken, and no longer one. */
static void
test_longest_local_path(void **state)
{
    static char folder[4096];

    (void)state;
    assert_int_equal(mkdir("d", 0700), 0);
    put("d/x", "text");
    for (size_t i = 0; i < 4093 - 1; i++) {
        folder[i] = i % 2 == 0 ? '.' : '/';
    }
    folder[4092] = 'd';
    assert_int_equal(wp_brought_add(&brought, folder, "in", &err), WP_OK);
    assert_int_equal(brought.n, 1);
    assert_string_equal(brought.files[0].path, "in/x");
    assert_int_equal(brought.files[0].size, 4);
    folder[4092] = '/';
    folder[4093] = 'd';
    assert_int_equal(wp_brought_add(&brought, folder, "in", &err),
                     WP_INVALID_ARGUMENT);
    /* It is cut, so that the reason is read. */
    assert_memory_equal(err.msg, folder, 160);
    assert_string_equal(err.msg + 160, ": a path in it is too long");
}

/* --- Memory --- */

static void
test_memory(void **state)
{
    static const char *const kinds[] = {"file",  "folder", "input",
                                        "check", "read",   "archive"};

    (void)state;
    put("f", "x");
    assert_int_equal(mkdir("d", 0700), 0);
    put("d/g", "x");
    put_sparse("tar", 1024);
    for (size_t kind = 0; kind < WP_ARRAY_LEN(kinds); kind++) {
        int nth = 1;
        enum wp_status status;

        do {
            wp_brought_fini(&brought);
            if (kind == 3 || kind == 4) {
                assert_int_equal(wp_brought_add(&brought, "f", "f", &err),
                                 WP_OK);
            }
            input("x", 1);
            no_room = nth;
            status = kind == 0   ? wp_brought_add(&brought, "f", "f", &err)
                     : kind == 1 ? wp_brought_add(&brought, "d", "f", &err)
                     : kind == 2 ? wp_brought_add(&brought, "-", "f", &err)
                     : kind == 3 ? wp_brought_check(&brought, &err)
                     : kind == 4
                         ? wp_brought_read(&brought, &err)
                         : wp_brought_add_archive(&brought, "tar", "", &err);
            if (status != WP_OK) {
                assert_int_equal(status, WP_INTERNAL);
                assert_string_equal(err.msg, "out of memory");
                assert_true(no_room == 0);
            }
            nth++;
        } while (status != WP_OK);
        no_room = 0;
        assert_int_equal(nth, kind == 0   ? 5
                              : kind == 1 ? 6
                              : kind == 2 ? 5
                              : kind == 5 ? 4
                                          : 3);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_files_and_folders, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_paths, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_depth, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_local_paths, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_how_much, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_two_of_one_path, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_changes_between, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_standard_input, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_devices, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_endless_input, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_longest_local_path, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_memory, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
