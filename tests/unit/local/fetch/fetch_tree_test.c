/* A folder into an image, and an image into a workspace: all of it arrives, and
 * nothing lands elsewhere, whatever is there before. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/fetch/tree_write.h"
#include "proto/checkout/unpack.h"
#include "proto/checkout/tree_image.h"
#include "local/walls/rootfs.h"
#include "tests/support/base/descriptors.h"
#include "tests/support/base/temp_dir.h"

/* What the writer of an image meets. */
static struct {
    bool on;
    int calls;
    int fail_at;
    size_t piece;  /* Bytes that one write takes; 0: all. */
    size_t repeat; /* So often each folder's only entry is there; 0: once. */
    char failed[16];
} rig;

static char dir[256];
static char from[272];
static char workspace[272];
static char why[WP_UNPACK_WHY_MAX];
static uint8_t image[1 << 20];
static size_t image_len;

static bool
fails(const char *what)
{
    if (!rig.on || ++rig.calls != rig.fail_at) {
        return false;
    }
    (void)snprintf(rig.failed, sizeof rig.failed, "%s", what);
    errno = EIO;
    return true;
}

ssize_t __real_write(int fd, const void *bytes, size_t len);
ssize_t __wrap_write(int fd, const void *bytes, size_t len);
ssize_t __real_read(int fd, void *out, size_t cap);
ssize_t __wrap_read(int fd, void *out, size_t cap);
ssize_t __real_readlinkat(int at, const char *path, char *out, size_t cap);
ssize_t __wrap_readlinkat(int at, const char *path, char *out, size_t cap);
int __real_openat(int at, const char *path, int flags, ...);
int __wrap_openat(int at, const char *path, int flags, ...);
int __real_fstat(int fd, struct stat *out);
int __wrap_fstat(int fd, struct stat *out);
int __real_fstatat(int at, const char *path, struct stat *out, int flags);
int __wrap_fstatat(int at, const char *path, struct stat *out, int flags);
DIR *__real_fdopendir(int fd);
DIR *__wrap_fdopendir(int fd);
struct dirent *__real_readdir(DIR *dir);
struct dirent *__wrap_readdir(DIR *dir);

ssize_t
__wrap_write(int fd, const void *bytes, size_t len)
{
    return fails("write")
               ? -1
               : __real_write(fd, bytes,
                              rig.on && rig.piece > 0 && rig.piece < len
                                  ? rig.piece
                                  : len);
}

ssize_t
__wrap_read(int fd, void *out, size_t cap)
{
    return fails("read") ? -1 : __real_read(fd, out, cap);
}

ssize_t
__wrap_readlinkat(int at_fd, const char *path, char *out, size_t cap)
{
    return fails("readlinkat") ? -1 : __real_readlinkat(at_fd, path, out, cap);
}

int
__wrap_openat(int at_fd, const char *path, int flags, ...)
{
    mode_t mode;
    va_list ap;

    va_start(ap, flags);
    mode = (flags & O_CREAT) != 0 ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return fails("openat") ? -1 : __real_openat(at_fd, path, flags, mode);
}

int
__wrap_fstat(int fd, struct stat *out)
{
    return fails("fstat") ? -1 : __real_fstat(fd, out);
}

int
__wrap_fstatat(int at_fd, const char *path, struct stat *out, int flags)
{
    return fails("fstatat") ? -1 : __real_fstatat(at_fd, path, out, flags);
}

DIR *
__wrap_fdopendir(int fd)
{
    return fails("fdopendir") ? NULL : __real_fdopendir(fd);
}

struct dirent *
__wrap_readdir(DIR *entries)
{
    static struct dirent *last;

    if (rig.on && rig.repeat > 0 && last != NULL && last->d_name[0] != '.') {
        if (--rig.repeat == 0) {
            last = NULL;
        }
        return last;
    }
    last = __real_readdir(entries);
    if (last == NULL) { /* At its end: a folder's order is not known. */
        (void)fails("readdir");
    }
    return last;
}

static int
set_up(void **state)
{
    (void)state;
    memset(&rig, 0, sizeof rig);
    temp_dir_make(dir, sizeof dir);
    (void)snprintf(from, sizeof from, "%s/from", dir);
    (void)snprintf(workspace, sizeof workspace, "%s/work", dir);
    assert_int_equal(mkdir(from, 0755), 0);
    assert_int_equal(mkdir(workspace, 0755), 0);
    image_len = 0;
    why[0] = '\0';
    return 0;
}

static int
tear_down(void **state)
{
    struct wp_err err;

    (void)state;
    return wp_dir_remove(dir, &err) == WP_OK ? 0 : -1;
}

static const char *
at(const char *base, const char *name)
{
    static char path[1024];

    (void)snprintf(path, sizeof path, "%s/%s", base, name);
    return path;
}

static void
make_file(const char *base, const char *name, const char *text, mode_t mode)
{
    int fd = open(at(base, name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    (void)close(fd);
}

static void
expect_file(const char *name, const char *text, mode_t mode)
{
    char got[64] = "";
    struct stat st;
    int fd = open(at(workspace, name), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    assert_true(fd >= 0);
    assert_int_equal(read(fd, got, sizeof got), strlen(text));
    assert_memory_equal(got, text, strlen(text));
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 07777, mode);
    (void)close(fd);
}

static bool
write_image(uint64_t max)
{
    int fd =
        open(at(dir, "image"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool ok;

    assert_true(fd >= 0);
    ok = wp_tree_write(from, fd, max, why);
    image_len = (size_t)pread(fd, image, sizeof image, 0);
    (void)close(fd);
    return ok;
}

static void
put(enum wp_tree_kind kind, uint32_t mode, const char *path,
    const char *content)
{
    const struct wp_tree_entry entry = {
        .kind = kind,
        .mode = mode,
        .path_len = (uint32_t)strlen(path),
        .content_len = (uint32_t)strlen(content),
    };

    wp_tree_put_head(&entry, image + image_len);
    image_len += WP_TREE_HEAD;
    memcpy(image + image_len, path, entry.path_len);
    image_len += entry.path_len;
    memcpy(image + image_len, content, entry.content_len);
    image_len += entry.content_len;
}

static bool
unpack(const char *into)
{
    return wp_unpack(workspace, into, image, image_len, why);
}

/* A link leads as far as the kernel lets one, and comes out as it was. */
static void
test_longest_link(void **state)
{
    static char target[WP_TREE_PATH_MAX + 1];
    static char seen[WP_TREE_PATH_MAX + 1];

    (void)state;
    for (size_t i = 0; i < WP_TREE_PATH_MAX; i++) {
        target[i] = (char)(i % 200 == 199 ? '/' : 'a' + (int)(i % 26));
    }
    if (symlink(target, at(from, "link")) != 0) {
        skip(); /* This file system keeps none as long. */
    }
    if (!write_image(sizeof image)) {
        fail_msg("%s", why);
    }
    assert_true(unpack(""));
    assert_int_equal(readlink(at(workspace, "link"), seen, sizeof seen),
                     WP_TREE_PATH_MAX);
    assert_string_equal(seen, target);
}

static void
test_round_trip(void **state)
{
    char target[32] = "";

    (void)state;
    make_file(from, "a", "one", 0644);
    make_file(from, "run.sh", "two", 0755);
    make_file(from, "empty", "", 0400);
    assert_int_equal(mkdir(at(from, "d"), 0700), 0);
    assert_int_equal(mkdir(at(from, "d/e"), 0755), 0);
    make_file(from, "d/e/f", "three", 0600);
    assert_int_equal(symlink("/etc/passwd", at(from, "link")), 0);
    assert_true(write_image(sizeof image));
    assert_true(unpack(""));
    assert_true(unpack("x/y"));
    expect_file("a", "one", 0644);
    expect_file("run.sh", "two", 0755);
    expect_file("empty", "", 0400);
    expect_file("x/y/d/e/f", "three", 0600);
    assert_int_equal(
        readlink(at(workspace, "x/y/link"), target, sizeof target - 1), 11);
    assert_string_equal(target, "/etc/passwd");
    /* The same again, over what is there. */
    assert_true(unpack(""));
    expect_file("empty", "", 0400);
}

static void
test_what_is_no_tree(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(at(from, "pipe"), 0600), 0);
    assert_false(write_image(sizeof image));
    assert_string_equal(why, "'pipe': a file, a folder or a link expected");
}

static void
test_too_large(void **state)
{
    (void)state;
    make_file(from, "a", "0123456789", 0644);
    assert_true(write_image(WP_TREE_HEAD + 1 + 10));
    assert_false(write_image(WP_TREE_HEAD + 1 + 9));
    assert_string_equal(why, "it is larger than 26 bytes (setting "
                             "git_repository_size)");
}

static void
test_too_deep(void **state)
{
    char path[600] = "";

    (void)state;
    for (int i = 0; i < 127; i++) {
        (void)strcat(path, i == 0 ? "d" : "/d");
        assert_int_equal(mkdir(at(from, path), 0755), 0);
    }
    assert_true(write_image(sizeof image));
    (void)strcat(path, "/d");
    assert_int_equal(mkdir(at(from, path), 0755), 0);
    assert_false(write_image(sizeof image));
    assert_non_null(strstr(why, "its folders are too deep"));
}

/* A file that cannot be written whole is told of: here, one that is larger than
 * this process may write. */
static void
test_no_room(void **state)
{
    struct rlimit old;
    struct rlimit small;
    bool fits;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){.rlim_cur = 3, .rlim_max = old.rlim_max};
    put(WP_TREE_FILE, 0644, "a", "0123");
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    fits = unpack("");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_false(fits);
    assert_string_equal(why, "'a': File too large");
    assert_true(unpack(""));
    expect_file("a", "0123", 0644);
}

/* The longest path there can be, and one that is longer by a name. */
static void
test_too_long(void **state)
{
    char name[256];
    int folder = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    (void)state;
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (int i = 0; i < (WP_TREE_PATH_MAX + 1) / 256; i++) {
        int below;

        assert_int_equal(mkdirat(folder, name, 0755), 0);
        below = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(below >= 0);
        (void)close(folder);
        folder = below;
    }
    assert_true(write_image(sizeof image));
    assert_int_equal(mkdirat(folder, "n", 0755), 0);
    assert_false(write_image(sizeof image));
    assert_non_null(strstr(why, "its path is too long"));
    (void)close(folder);
}

/* Many beside each other are not deep, and each has its own name. */
static void
test_many_folders(void **state)
{
    struct stat st;
    char path[32];

    (void)state;
    for (int i = 0; i < 130; i++) {
        (void)snprintf(path, sizeof path, "d%d", i);
        assert_int_equal(mkdir(at(from, path), 0755), 0);
        (void)snprintf(path, sizeof path, "d%d/f", i);
        make_file(from, path, "x", 0644);
    }
    assert_true(write_image(sizeof image));
    assert_true(unpack(""));
    for (int i = 0; i < 130; i++) {
        (void)snprintf(path, sizeof path, "d%d/f", i);
        assert_int_equal(stat(at(workspace, path), &st), 0);
    }
}

/* Its length has no room in an image, whatever the setting is. */
static void
test_file_too_large(void **state)
{
    (void)state;
    make_file(from, "a", "", 0644);
    if (truncate(at(from, "a"), (off_t)UINT32_MAX + 1) != 0) {
        (void)printf("SKIP: no file can be so large here\n");
        skip();
    }
    assert_false(write_image(sizeof image));
    assert_string_equal(why, "'a': it is too large");
    assert_int_equal(truncate(at(from, "a"), (off_t)UINT32_MAX), 0);
    assert_false(write_image(sizeof image));
    assert_non_null(strstr(why, "it is larger than"));
}

/* The program of the sandbox has put links where the tree goes. */
static void
test_links_in_the_way(void **state)
{
    (void)state;
    make_file(dir, "outside", "kept", 0644);
    assert_int_equal(mkdir(at(dir, "other"), 0755), 0);
    assert_int_equal(symlink("../outside", at(workspace, "a")), 0);
    put(WP_TREE_FILE, 0644, "a", "new");
    assert_true(unpack(""));
    expect_file("a", "new", 0644);
    expect_file("../outside", "kept", 0644);
    assert_int_equal(symlink("../other", at(workspace, "d")), 0);
    image_len = 0;
    put(WP_TREE_FOLDER, 0, "d", "");
    assert_false(unpack(""));
    assert_string_equal(why, "'d': Not a directory");
    image_len = 0;
    put(WP_TREE_FILE, 0644, "d/a", "new");
    assert_false(unpack(""));
    assert_false(unpack("d"));
    assert_int_not_equal(access(at(dir, "other/a"), F_OK), 0);
}

/* Images that warmpool-fetch does not write. */
static void
test_hostile_images(void **state)
{
    static const char *const paths[][2] = {
        {"../x", "Invalid cross-device link"},
        {"..", "Invalid argument"},
        {".", "Invalid argument"},
        {"a/", "Invalid argument"},
        {"a/..", "Invalid argument"},
        {"/", "Invalid argument"},
        {"/x", "Invalid argument"},
        {"none/x", "No such file or directory"},
        {"d/../../x", "Invalid cross-device link"},
    };
    char expected[64];

    (void)state;
    put(WP_TREE_FOLDER, 0, "d", "");
    assert_true(unpack(""));
    for (size_t i = 0; i < WP_ARRAY_LEN(paths); i++) {
        image_len = 0;
        put(WP_TREE_FILE, 0644, paths[i][0], "x");
        (void)snprintf(expected, sizeof expected, "'%s': %s", paths[i][0],
                       paths[i][1]);
        errno = 0;
        assert_false(unpack(""));
        assert_string_equal(why, expected);
    }
    assert_int_not_equal(access(at(dir, "x"), F_OK), 0);
    /* A link of its own, and then through it. */
    image_len = 0;
    put(WP_TREE_LINK, 0, "l", "..");
    put(WP_TREE_FILE, 0644, "l/x", "x");
    assert_false(unpack(""));
    assert_int_not_equal(access(at(dir, "x"), F_OK), 0);
    image_len = 0;
    put(WP_TREE_LINK, 0, "m", "");
    assert_false(unpack(""));
    /* Cut off, and no entry at all. */
    image_len = 0;
    put(WP_TREE_FILE, 0644, "f", "content");
    image_len -= 1;
    assert_false(unpack(""));
    assert_string_equal(why, "what came is no tree");
    memset(image, 0xFF, WP_TREE_HEAD);
    image_len = WP_TREE_HEAD;
    assert_false(unpack(""));
}

/* A file that is larger than what is written at once, byte by byte the same,
 * however little each write takes. */
static void
test_large_file(void **state)
{
    static char text[600000];
    static char got[sizeof text];
    static const size_t pieces[] = {0, 777, 65536};
    FILE *file = fopen(at(from, "large"), "we");

    (void)state;
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (char)('a' + (i * i + i / 1000) % 26);
    }
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, sizeof text, file), sizeof text);
    assert_int_equal(fclose(file), 0);
    for (size_t i = 0; i < WP_ARRAY_LEN(pieces); i++) {
        rig.piece = pieces[i];
        rig.on = true;
        assert_true(write_image(sizeof image));
        rig.on = false;
        assert_true(unpack(""));
        file = fopen(at(workspace, "large"), "re");
        assert_non_null(file);
        assert_int_equal(fread(got, 1, sizeof got, file), sizeof got);
        assert_int_equal(fgetc(file), EOF);
        assert_int_equal(fclose(file), 0);
        assert_memory_equal(got, text, sizeof text);
    }
}

/* Each call in turn, until all go through: it is told, with the path so far.
 * The content comes in three pieces. */
static void
test_each_failure(void **state)
{
    static char zeros[600000];
    static const char want[] = "openat: '': Input/output error\n"
                               "fdopendir: '': Input/output error\n"
                               "fstatat: 'd': Input/output error\n"
                               "openat: 'd': Input/output error\n"
                               "fdopendir: 'd': Input/output error\n"
                               "fstatat: 'd/f': Input/output error\n"
                               "openat: 'd/f': it cannot be read\n"
                               "fstat: 'd/f': it cannot be read\n"
                               "read: 'd/f': it cannot be read\n"
                               "write: its image cannot be written: "
                               "Input/output error\n"
                               "read: 'd/f': it cannot be read\n"
                               "write: its image cannot be written: "
                               "Input/output error\n"
                               "read: 'd/f': it cannot be read\n"
                               "readdir: 'd': Input/output error\n"
                               "readdir: '': Input/output error\n"
                               "write: its image cannot be written: "
                               "Input/output error\n";
    char seen[2048] = "";
    size_t before;
    FILE *file;
    bool ok;

    (void)state;
    assert_int_equal(mkdir(at(from, "d"), 0755), 0);
    file = fopen(at(from, "d/f"), "we");
    assert_non_null(file);
    assert_int_equal(fwrite(zeros, 1, sizeof zeros, file), sizeof zeros);
    assert_int_equal(fclose(file), 0);
    before = descriptors_count();
    do {
        rig.fail_at++;
        rig.calls = 0;
        rig.on = true;
        ok = write_image(sizeof image);
        rig.on = false;
        assert_int_equal(descriptors_count(), before);
        if (!ok) {
            size_t len = strlen(seen);

            (void)snprintf(seen + len, sizeof seen - len, "%s: %s\n",
                           rig.failed, why);
        }
    } while (!ok);
    assert_string_equal(seen, want);
}

static void
test_link_that_cannot_be_read(void **state)
{
    (void)state;
    assert_int_equal(symlink("x", at(from, "l")), 0);
    rig.fail_at = 4;
    rig.on = true;
    assert_false(write_image(sizeof image));
    rig.on = false;
    assert_string_equal(rig.failed, "readlinkat");
    assert_string_equal(why, "'l': its link cannot be read");
}

/* As many entries as there may be, and one more. */
static void
test_too_many(void **state)
{
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(symlink("x", at(from, "l")), 0);
    for (size_t n = WP_TREE_ENTRIES_MAX; n <= WP_TREE_ENTRIES_MAX + 1; n++) {
        rig.repeat = n;
        rig.on = true;
        assert_int_equal(wp_tree_write(from, fd, UINT64_MAX, why),
                         n == WP_TREE_ENTRIES_MAX);
        rig.on = false;
    }
    assert_string_equal(why, "'l': there are more than 200000 files");
    assert_int_equal(close(fd), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_longest_link, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_round_trip, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_no_tree, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_too_large, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_too_deep, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_too_long, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_folders, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_file_too_large, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_links_in_the_way, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_hostile_images, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_large_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_each_failure, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_link_that_cannot_be_read, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_too_many, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
