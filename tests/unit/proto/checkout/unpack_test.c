/* Trees as bytes: their frames and entries, what is none, and how they are put
 * into a folder, on a machine whose calls fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "local/walls/rootfs.h"
#include "proto/checkout/tree_frame.h"
#include "proto/checkout/tree_image.h"
#include "proto/checkout/unpack.h"
#include "tests/support/base/descriptors.h"
#include "tests/support/base/journal.h"
#include "tests/support/base/temp_dir.h"

static char dir[256];
static uint8_t image[1 << 17];
static size_t image_len;
static char why[WP_UNPACK_WHY_MAX];
static const char *failing; /* A function. */
static unsigned fails_in;
static size_t write_max; /* 0: all of it. */

int __wrap_open(const char *path, int flags, ...);
int __real_open(const char *path, int flags, ...);
int __wrap_openat(int at, const char *path, int flags, ...);
int __real_openat(int at, const char *path, int flags, ...);
ssize_t __wrap_write(int fd, const void *bytes, size_t len);
ssize_t __real_write(int fd, const void *bytes, size_t len);
int __wrap_fchmod(int fd, mode_t mode);
int __real_fchmod(int fd, mode_t mode);
int __wrap_fchmodat(int at, const char *path, mode_t mode, int flags);
int __real_fchmodat(int at, const char *path, mode_t mode, int flags);
int __wrap_mkdirat(int at, const char *path, mode_t mode);
int __real_mkdirat(int at, const char *path, mode_t mode);
int __wrap_fstatat(int at, const char *path, struct stat *st, int flags);
int __real_fstatat(int at, const char *path, struct stat *st, int flags);
int __wrap_unlinkat(int at, const char *path, int flags);
int __real_unlinkat(int at, const char *path, int flags);
int __wrap_symlinkat(const char *target, int at, const char *path);
int __real_symlinkat(const char *target, int at, const char *path);
long __wrap_syscall(long number, ...);
int __wrap_close(int fd);
int __real_close(int fd);

static void
fail_at(const char *function, unsigned nth)
{
    failing = function;
    fails_in = nth;
}

static bool
fails(const char *function, int error)
{
    if (failing == NULL || strcmp(failing, function) != 0 || fails_in == 0 ||
        --fails_in != 0) {
        return false;
    }
    errno = error;
    return true;
}

int
__wrap_open(const char *path, int flags, ...)
{
    return fails("open", EMFILE) ? -1 : __real_open(path, flags, 0);
}

int
__wrap_openat(int at, const char *path, int flags, ...)
{
    va_list args;
    mode_t mode = 0;

    if ((flags & O_CREAT) != 0) {
        va_start(args, flags);
        mode = va_arg(args, mode_t);
        va_end(args);
    }
    return fails("openat", EMFILE) ? -1 : __real_openat(at, path, flags, mode);
}

ssize_t
__wrap_write(int fd, const void *bytes, size_t len)
{
    if (fails("write", ENOSPC)) {
        return -1;
    }
    if (fails("nothing written", ENOSPC)) {
        return 0;
    }
    return __real_write(fd, bytes,
                        write_max > 0 && len > write_max ? write_max : len);
}

int
__wrap_fchmod(int fd, mode_t mode)
{
    return fails("fchmod", EROFS) ? -1 : __real_fchmod(fd, mode);
}

int
__wrap_fchmodat(int at, const char *path, mode_t mode, int flags)
{
    return fails("fchmodat", EROFS) ? -1
                                    : __real_fchmodat(at, path, mode, flags);
}

int
__wrap_mkdirat(int at, const char *path, mode_t mode)
{
    return fails("mkdirat", EDQUOT) ? -1 : __real_mkdirat(at, path, mode);
}

int
__wrap_fstatat(int at, const char *path, struct stat *st, int flags)
{
    return fails("fstatat", EACCES) ? -1 : __real_fstatat(at, path, st, flags);
}

int
__wrap_unlinkat(int at, const char *path, int flags)
{
    return fails("unlinkat", EBUSY) ? -1 : __real_unlinkat(at, path, flags);
}

int
__wrap_symlinkat(const char *target, int at, const char *path)
{
    return fails("symlinkat", EDQUOT) ? -1 : __real_symlinkat(target, at, path);
}

/* No openat2: folders are opened part by part, here as anywhere. */
long
__wrap_syscall(long number, ...)
{
    assert_int_equal(number, SYS_openat2);
    errno = ENOSYS;
    return -1;
}

/* Tells something else than what came before it. */
int
__wrap_close(int fd)
{
    int rc = __real_close(fd);

    errno = EIO;
    return rc;
}

/* --------------------------------------------------------------- the rig */

static void
golden(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/unpack_%s.txt", name);
    journal_compare(path);
}

static int
set_up(void **state)
{
    (void)state;
    temp_dir_make_fast(dir, sizeof dir);
    image_len = 0;
    why[0] = '\0';
    failing = NULL;
    write_max = 0;
    journal_drop();
    return 0;
}

static int
tear_down(void **state)
{
    struct wp_err err;

    (void)state;
    return wp_dir_remove(dir, &err) == WP_OK ? 0 : -1;
}

/* The folder, empty again. */
static void
anew(void)
{
    struct wp_err err;

    assert_int_equal(wp_dir_remove(dir, &err), WP_OK);
    temp_dir_make_fast(dir, sizeof dir);
}

static void
put_bytes(enum wp_tree_kind kind, uint32_t mode, const char *path,
          const char *content, size_t len)
{
    const struct wp_tree_entry entry = {
        .kind = kind,
        .mode = mode,
        .path_len = (uint32_t)strlen(path),
        .content_len = (uint32_t)len,
    };

    assert_true(image_len + WP_TREE_HEAD + entry.path_len + len <=
                sizeof image);
    wp_tree_put_head(&entry, image + image_len);
    image_len += WP_TREE_HEAD;
    memcpy(image + image_len, path, entry.path_len);
    image_len += entry.path_len;
    memcpy(image + image_len, content, len);
    image_len += len;
}

static void
put(enum wp_tree_kind kind, uint32_t mode, const char *path,
    const char *content)
{
    put_bytes(kind, mode, path, content, strlen(content));
}

/* Everything below a folder, in order: kind, permissions, content. */
static void
journal_tree(const char *below)
{
    static char paths[16][400];
    FILE *list;
    char *line = NULL;
    size_t cap = 0;
    size_t n = 0;
    char command[700];

    (void)snprintf(command, sizeof command,
                   "cd '%s' && LC_ALL=C find . -mindepth 1 | LC_ALL=C sort",
                   below);
    list = popen(command, "re");
    assert_non_null(list);
    while (getline(&line, &cap, list) > 0) {
        assert_true(n < WP_ARRAY_LEN(paths));
        line[strcspn(line, "\n")] = '\0';
        (void)snprintf(paths[n++], sizeof paths[0], "%s", line);
    }
    free(line);
    assert_int_equal(pclose(list), 0);
    for (size_t i = 0; i < n; i++) {
        char whole[700];
        char content[64] = "";
        struct stat st;

        (void)snprintf(whole, sizeof whole, "%.299s/%.399s", below, paths[i]);
        assert_int_equal(lstat(whole, &st), 0);
        if (S_ISLNK(st.st_mode)) {
            assert_true(readlink(whole, content, sizeof content - 1) >= 0);
            journal(" %s->%s", paths[i], content);
        } else if (S_ISREG(st.st_mode)) {
            FILE *file = fopen(whole, "re");
            size_t len;

            assert_non_null(file);
            len = fread(content, 1, sizeof content - 1, file);
            (void)fclose(file);
            journal(" %s %o %.*s", paths[i], (unsigned)st.st_mode & 07777,
                    (int)len, content);
        } else {
            journal(" %s/ %o", paths[i], (unsigned)st.st_mode & 07777);
        }
    }
}

static bool
unpacks(const char *below)
{
    size_t before = descriptors_count();
    bool ok;

    why[0] = '\0';
    ok = wp_unpack(dir, below, image, image_len, why);
    journal("%s%s", ok ? "good" : why, ok && why[0] != '\0' ? why : "");
    assert_int_equal(descriptors_count(), before);
    return ok;
}

/* ----------------------------------------------------------------- tests */

static void
test_a_tree_is_put_into_its_folder(void **state)
{
    static const char *const folders[] = {"", "below", "below/deeper"};

    (void)state;
    put(WP_TREE_FOLDER, 0, "a", "");
    put(WP_TREE_FILE, 0640, "a/file", "whole");
    put(WP_TREE_FILE, 0755, "a/run", "");
    put(WP_TREE_FOLDER, 0, "ab", "");
    put(WP_TREE_FILE, 0600, "ab/file", "other");
    put(WP_TREE_LINK, 0, "a/link", "../ab/file");
    put(WP_TREE_FILE, 0444, "top", "t");
    put(WP_TREE_LINK, 0, "link", "nowhere");
    for (size_t i = 0; i < WP_ARRAY_LEN(folders); i++) {
        char at[300];

        write_max = i;
        (void)snprintf(at, sizeof at, "%s/%s", dir, folders[i]);
        journal("%s: ", folders[i]);
        assert_true(unpacks(folders[i]));
        journal_tree(at);
        journal_line();
        /* And over what is there. */
        assert_true(unpacks(folders[i]));
        journal_tree(at);
        journal_line();
        anew();
    }
    golden("trees");
}

/* By name, length, and what is there already. */
static void
test_what_is_no_way_is_refused(void **state)
{
    static const char *const paths[] = {
        "/a", "..",     "a/..",   ".",      "a/.",   "a/",     "a//b",
        "a",  "none/x", "file/x", "link/x", "../up", "folder",
    };
    static const enum wp_tree_kind kinds[] = {WP_TREE_FOLDER, WP_TREE_FILE,
                                              WP_TREE_LINK};

    (void)state;
    for (size_t k = 0; k < WP_ARRAY_LEN(kinds); k++) {
        for (size_t i = 0; i < WP_ARRAY_LEN(paths); i++) {
            image_len = 0;
            put(WP_TREE_FOLDER, 0, "folder", "");
            put(WP_TREE_FILE, 0600, "file", "f");
            put(WP_TREE_LINK, 0, "link", "folder");
            put(kinds[k], 0600, paths[i], "x");
            journal("%d %s: ", (int)kinds[k], paths[i]);
            (void)unpacks("");
            journal_tree(dir);
            journal_line();
            anew();
        }
    }
    golden("refused");
}

static void
test_where_a_link_leads_is_bounded(void **state)
{
    static char target[4200];

    (void)state;
    memset(target, 't', sizeof target);
    for (size_t len = 4094; len <= 4097; len++) {
        image_len = 0;
        put_bytes(WP_TREE_LINK, 0, "l", target, len);
        journal("%zu: ", len);
        (void)unpacks("");
        journal_line();
        anew();
    }
    image_len = 0;
    put(WP_TREE_LINK, 0, "l", "");
    (void)unpacks("");
    journal_line();
    golden("links");
}

static void
test_each_call_that_fails_is_told(void **state)
{
    static const char *const calls[] = {
        "open",     "openat",  "write",   "nothing written", "fchmod",
        "fchmodat", "mkdirat", "fstatat", "unlinkat",        "symlinkat",
    };

    (void)state;
    put(WP_TREE_FOLDER, 0, "a", "");
    put(WP_TREE_FILE, 0640, "a/file", "whole");
    put(WP_TREE_LINK, 0, "a/link", "file");
    /* All of it again, over what is there. */
    put(WP_TREE_FOLDER, 0, "a", "");
    put(WP_TREE_FILE, 0600, "a/file", "new");
    put(WP_TREE_LINK, 0, "a/link", "other");
    for (size_t i = 0; i < WP_ARRAY_LEN(calls); i++) {
        bool good = false;

        for (unsigned nth = 1; !good; nth++) {
            journal("%s %u: ", calls[i], nth);
            fail_at(calls[i], nth);
            good = unpacks("x/y");
            fail_at(NULL, 0);
            journal_tree(dir);
            journal_line();
            anew();
        }
    }
    golden("failures");
}

static void
test_what_is_no_tree_is_refused(void **state)
{
    (void)state;
    put(WP_TREE_FILE, 0600, "a", "whole");
    put(WP_TREE_FILE, 0600, "b", "");
    for (size_t whole = image_len; image_len > 0; image_len--) {
        journal("%zu of %zu: ", image_len, whole);
        (void)unpacks("");
        journal_tree(dir);
        journal_line();
        anew();
    }
    (void)unpacks("");
    journal_line();
    golden("no_tree");
}

/* Each of the four numbers of an entry's head, and what is behind it. */
static void
test_entries_are_bounded(void **state)
{
    static const uint32_t numbers[] = {0,    1,    2,    3,    4,
                                       5,    6,    511,  512,  4094,
                                       4095, 4096, 4097, 5000, UINT32_MAX};
    static uint8_t bytes[WP_TREE_HEAD + 5000];

    (void)state;
    memset(bytes, 'p', sizeof bytes);
    for (size_t field = 0; field < 4; field++) {
        for (size_t i = 0; i < WP_ARRAY_LEN(numbers); i++) {
            uint32_t head[] = {WP_TREE_FILE, 0640, 2, 3};
            size_t lens[] = {WP_TREE_HEAD + 5, sizeof bytes};

            head[field] = numbers[i];
            journal("%zu %u:", field, numbers[i]);
            wp_tree_put_head(&(struct wp_tree_entry){.kind = head[0],
                                                     .mode = head[1],
                                                     .path_len = head[2],
                                                     .content_len = head[3]},
                             bytes);
            for (size_t l = 0; l < WP_ARRAY_LEN(lens); l++) {
                struct wp_tree_image rest = {bytes, bytes + lens[l]};
                struct wp_tree_entry entry;

                if (wp_tree_next(&rest, &entry)) {
                    journal(" %u %o %u@%td %u@%td, %td", entry.kind, entry.mode,
                            entry.path_len, entry.path - (const char *)bytes,
                            entry.content_len,
                            entry.content - (const char *)bytes,
                            rest.pos - bytes);
                } else {
                    journal(" none, %td", rest.pos - bytes);
                }
            }
            journal_line();
        }
    }
    golden("entries");
}

static void
test_frames_are_bounded(void **state)
{
    static const struct {
        uint32_t dir_len;
        uint64_t image_len;
        size_t len; /* Behind the head. */
    } cases[] = {
        {0, 0, 0},          {1, 0, 0},          {1, 0, 1},
        {0, 1, 0},          {0, 1, 1},          {2, 3, 4},
        {2, 3, 5},          {2, 3, 6},          {6, 0, 5},
        {17, 0, 5},         {0, 17, 5},         {2, 16, 6},
        {1022, 1, 1100},    {1023, 1, 1100},    {1024, 1, 1100},
        {1, UINT64_MAX, 9}, {UINT32_MAX, 0, 9},
    };
    static uint8_t bytes[WP_TREE_FRAME_HEAD + 1100];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        struct wp_tree_frames frames = {bytes, bytes + WP_TREE_FRAME_HEAD +
                                                   cases[i].len};
        struct wp_tree_frame frame;

        memset(bytes, 'd', sizeof bytes);
        wp_tree_frame_put_head(cases[i].dir_len, cases[i].image_len, bytes);
        journal("%u %ju of %zu:", cases[i].dir_len,
                (uintmax_t)cases[i].image_len, cases[i].len);
        if (wp_tree_frame_next(&frames, &frame)) {
            journal(" %zu@%td %zu@%td", frame.dir_len,
                    frame.dir - (const char *)bytes, frame.image_len,
                    frame.image - bytes);
        } else {
            journal(" none");
        }
        journal(", %td", frames.pos - bytes);
        journal_line();
    }
    /* An end within the folder's name; and less than a head. */
    for (size_t i = 0; i < 5; i++) {
        struct wp_tree_frames frames = {bytes, bytes + WP_TREE_FRAME_HEAD + 4};
        struct wp_tree_frame frame;

        memset(bytes, 'd', sizeof bytes);
        wp_tree_frame_put_head(3, 1, bytes);
        bytes[WP_TREE_FRAME_HEAD + i] = '\0';
        journal(" %d", wp_tree_frame_next(&frames, &frame));
    }
    for (size_t len = 0; len <= WP_TREE_FRAME_HEAD; len++) {
        struct wp_tree_frames frames = {bytes, bytes + len};
        struct wp_tree_frame frame;

        wp_tree_frame_put_head(0, 0, bytes);
        journal(" %d", wp_tree_frame_next(&frames, &frame));
    }
    journal_line();
    golden("frames");
}

int
main(void)
{
#define ONE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        ONE(test_a_tree_is_put_into_its_folder),
        ONE(test_what_is_no_way_is_refused),
        ONE(test_where_a_link_leads_is_bounded),
        ONE(test_each_call_that_fails_is_told),
        ONE(test_what_is_no_tree_is_refused),
        ONE(test_entries_are_bounded),
        ONE(test_frames_are_bounded),
    };

    (void)umask(077); /* The modes are the entries' own. */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
