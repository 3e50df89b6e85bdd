/* What a binding's body asks of the system: the file that its trees are kept
 * in, how they are put into the workspace, and what is said when that cannot
 * be. Everything below is a fake that writes into the journal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/checkout/tree_frame.h"
#include "proto/checkout/unpack.h"
#include "proto/parcel/parcel.h"
#include "runtime/server/bind_body.h"
#include "tests/support/base/journal.h"

enum {
    FOLDER = 77, /* The workspace's. */
};

#define FAKE(type, name, ...)                                                  \
    type __wrap_##name(__VA_ARGS__);                                           \
    type __wrap_##name(__VA_ARGS__)

static const struct wp_workspace workspace = {.fd = FOLDER, .root = "/root"};
static bool faked; /* While the body is at work. */
static int file = -1;
static int open_errors[2]; /* Of the first and the second. */
static int opens;
static int unlink_error;
static int map_error;
static bool no_memory;
static const ssize_t *writes; /* Bytes taken, or -errno; ended by 0: all. */
static const char *refused;   /* The folder that is not unpacked to. */

int __real_openat(int dir, const char *path, int flags, ...);
ssize_t __real_write(int fd, const void *data, size_t len);
int __real_close(int fd);
void *__real_malloc(size_t size);
void *__real_mmap(void *at, size_t len, int protection, int flags, int fd,
                  off_t offset);
int __real_munmap(void *at, size_t len);

FAKE(int, openat, int dir, const char *path, int flags, ...)
{
    char mine[64];
    va_list ap;
    int mode;
    int error;

    va_start(ap, flags);
    mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(ap, int) : 0;
    va_end(ap);
    if (!faked) {
        return __real_openat(dir, path, flags, mode);
    }
    (void)snprintf(mine, sizeof mine, ".warmpool-trees-%d", (int)getpid());
    error = open_errors[opens++];
    journal("open %d %s %s mode %o", dir,
            strcmp(path, mine) == 0 ? "its own" : path,
            flags == (O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC) ? "without name"
            : flags == (O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC)
                ? "anew"
                : "otherwise",
            (unsigned)mode);
    journal_line();
    if (error != 0) {
        errno = error;
        return -1;
    }
    file = memfd_create("trees", MFD_CLOEXEC);
    assert_true(file >= 0);
    return file;
}

FAKE(int, unlinkat, int dir, const char *path, int flags)
{
    char mine[64];

    (void)snprintf(mine, sizeof mine, ".warmpool-trees-%d", (int)getpid());
    journal("unlink %d %s %d", dir, strcmp(path, mine) == 0 ? "its own" : path,
            flags);
    journal_line();
    errno = unlink_error;
    return unlink_error != 0 ? -1 : 0;
}

FAKE(ssize_t, write, int fd, const void *data, size_t len)
{
    if (!faked) {
        return __real_write(fd, data, len);
    }
    assert_int_equal(fd, file);
    journal("write %zu", len);
    journal_line();
    if (writes == NULL || *writes == 0) {
        return __real_write(fd, data, len);
    }
    if (*writes < 0) {
        errno = (int)-*writes++;
        return -1;
    }
    assert_true((size_t)*writes <= len);
    return __real_write(fd, data, (size_t)*writes++);
}

FAKE(int, close, int fd)
{
    if (!faked) {
        return __real_close(fd);
    }
    journal("close %s", fd == file ? "the file" : "?");
    journal_line();
    if (fd == file) {
        file = -1;
        (void)__real_close(fd);
    }
    errno = EBADF;
    return -1;
}

FAKE(void *, malloc, size_t size)
{
    if (faked && size == WP_PARCEL_MAX) {
        journal("room for a parcel");
        journal_line();
    }
    return faked && no_memory ? NULL : __real_malloc(size);
}

FAKE(void *, mmap, void *at, size_t len, int protection, int flags, int fd,
     off_t offset)
{
    if (!faked) {
        return __real_mmap(at, len, protection, flags, fd, offset);
    }
    journal("map %zu %d %d %s from %lld", len, protection, flags,
            fd == file ? "the file" : "?", (long long)offset);
    journal_line();
    if (map_error != 0) {
        errno = map_error;
        return MAP_FAILED;
    }
    return __real_mmap(at, len, protection, flags, fd, offset);
}

FAKE(int, munmap, void *at, size_t len)
{
    if (faked) {
        journal("unmap %zu", len);
        journal_line();
    }
    return __real_munmap(at, len);
}

FAKE(int, fallocate, int fd, int mode, off_t offset, off_t len)
{
    journal("free %s %d %lld+%lld", fd == file ? "the file" : "?", mode,
            (long long)offset, (long long)len);
    journal_line();
    errno = EOPNOTSUPP;
    return -1;
}

FAKE(void, explicit_bzero, void *at, size_t len)
{
    memset(at, 0, len);
    journal("wipe %zu", len);
    journal_line();
}

FAKE(void, __explicit_bzero_chk, void *at, size_t len, size_t room)
{
    assert_true(len <= room);
    __wrap_explicit_bzero(at, len);
}

FAKE(bool, wp_unpack, const char *root, const char *dir, const uint8_t *image,
     size_t len, char *why)
{
    journal("unpack %s %s: ", root, dir);
    journal_bytes((const char *)image, len);
    journal_line();
    if (refused != NULL && strcmp(dir, refused) == 0) {
        (void)snprintf(why, WP_UNPACK_WHY_MAX, "%s: it is full", dir);
        return false;
    }
    return true;
}

/* --------------------------------------------------------------- the rig */

static int
begin(void **state)
{
    (void)state;
    faked = false;
    opens = 0;
    open_errors[0] = open_errors[1] = 0;
    unlink_error = map_error = 0;
    no_memory = false;
    writes = NULL;
    refused = NULL;
    journal_drop();
    return 0;
}

static size_t
put_tree(char *out, const char *dir, const char *image)
{
    wp_tree_frame_put_head((uint32_t)strlen(dir), strlen(image),
                           (uint8_t *)out);
    memcpy(out + WP_TREE_FRAME_HEAD, dir, strlen(dir));
    memcpy(out + WP_TREE_FRAME_HEAD + strlen(dir), image, strlen(image));
    return WP_TREE_FRAME_HEAD + strlen(dir) + strlen(image);
}

/* Takes all, in pieces; unpacks, if it is to; and says what became of it. */
static void
take(const char *text, size_t len, size_t trees, size_t piece, bool unpacks)
{
    char why[WP_UNPACK_WHY_MAX] = "nothing";
    json_t *names = json_object();
    struct wp_bind_body body;
    char *shown;
    bool ok = true;

    opens = 0;
    wp_bind_body_init(&body, trees, true);
    faked = true;
    for (size_t at = 0; at < len; at += piece) {
        ok = wp_bind_body_feed(&body, &workspace, text + at,
                               len - at < piece ? len - at : piece) &&
             ok;
    }
    faked = false;
    journal("= %d got %llu errno %d file %d parcel %zu", ok,
            (unsigned long long)body.got, body.os_errno, body.fd >= 0,
            body.parcel_len);
    journal_line();
    if (unpacks) {
        faked = true;
        ok = wp_bind_body_unpack(&body, &workspace, names, why, sizeof why);
        faked = false;
        shown = json_dumps(names, JSON_COMPACT);
        assert_non_null(shown);
        journal("= %d %s %s", ok, shown, why);
        journal_line();
        free(shown);
    }
    json_decref(names);
    faked = true;
    wp_bind_body_fini(&body);
    faked = false;
    assert_int_equal(body.fd, -1);
    assert_null(body.parcel);
}

/* ----------------------------------------------------------------- tests */

static void
each_tree_is_put_and_its_room_given_back(void **state)
{
    char text[2048];
    char longest[WP_TREE_DIR_MAX + 1];
    size_t len = 0;

    (void)state;
    take("", 0, 0, 1, true);
    journal_is("= 1 got 0 errno 0 file 0 parcel 0\n"
               "= 1 {} nothing\n");
    len += put_tree(text, "", "one");
    len += put_tree(text + len, "a/b", "second");
    memcpy(text + len, "parcel", 6);
    take(text, len + 6, len, sizeof text, true);
    journal_is("open 77 . without name mode 600\n"
               "write 36\n"
               "room for a parcel\n"
               "= 1 got 36 errno 0 file 1 parcel 6\n"
               "map 36 1 1 the file from 0\n"
               "unpack /root : one\n"
               "free the file 3 12+3\n"
               "unpack /root a/b: second\n"
               "free the file 3 30+6\n"
               "unmap 36\n"
               "= 1 {\"repositories\":[\"\",\"a/b\"]} repository: \n"
               "close the file\n"
               "wipe 6\n");
    for (size_t i = 0; i < WP_TREE_DIR_MAX; i++) {
        longest[i] = (char)('0' + i % 10);
    }
    longest[WP_TREE_DIR_MAX] = '\0';
    len = put_tree(text, longest, "x");
    take(text, len, len, sizeof text, true);
    assert_non_null(strstr(journal_text(), longest));
    assert_non_null(strstr(journal_text(), "free the file 3 1035+1\n"));
}

static void
what_cannot_be_put_is_said(void **state)
{
    char text[256];
    size_t len = 0;

    (void)state;
    len += put_tree(text, "a", "one");
    len += put_tree(text + len, "b", "two");
    len += put_tree(text + len, "c", "three");
    refused = "b";
    take(text, len, len, sizeof text, true);
    journal_is("open 77 . without name mode 600\n"
               "write 50\n"
               "= 1 got 50 errno 0 file 1 parcel 0\n"
               "map 50 1 1 the file from 0\n"
               "unpack /root a: one\n"
               "free the file 3 13+3\n"
               "unpack /root b: two\n"
               "unmap 50\n"
               "= 0 {\"repositories\":[\"a\"]} repository: b: it is full\n"
               "close the file\n");
    refused = NULL;
    len = put_tree(text, "a", "one");
    take(text, len + 1, len + 1, sizeof text, true);
    journal_is("open 77 . without name mode 600\n"
               "write 17\n"
               "= 1 got 17 errno 0 file 1 parcel 0\n"
               "map 17 1 1 the file from 0\n"
               "unpack /root a: one\n"
               "free the file 3 13+3\n"
               "unmap 17\n"
               "= 0 {\"repositories\":[\"a\"]} repository: what came are no "
               "trees\n"
               "close the file\n");
    map_error = ENODEV;
    take(text, len, len, sizeof text, true);
    journal_is("open 77 . without name mode 600\n"
               "write 16\n"
               "= 1 got 16 errno 0 file 1 parcel 0\n"
               "map 16 1 1 the file from 0\n"
               "= 0 {} repositories in the workspace: no such device\n"
               "close the file\n");
}

static void
a_file_system_without_nameless_files_will_do(void **state)
{
    static const int enough[] = {ENOSPC, EACCES};

    (void)state;
    open_errors[0] = EOPNOTSUPP;
    take("tree", 4, 4, 2, false);
    journal_is("open 77 . without name mode 600\n"
               "open 77 its own anew mode 600\n"
               "unlink 77 its own 0\n"
               "write 2\n"
               "write 2\n"
               "= 1 got 4 errno 0 file 1 parcel 0\n"
               "close the file\n");
    unlink_error = EPERM;
    take("tree", 4, 4, 2, true);
    journal_is("open 77 . without name mode 600\n"
               "open 77 its own anew mode 600\n"
               "unlink 77 its own 0\n"
               "close the file\n"
               "= 1 got 4 errno 1 file 0 parcel 0\n"
               "= 0 {} repositories in the workspace: operation not "
               "permitted\n");
    open_errors[1] = EEXIST;
    take("tree", 4, 4, 2, true);
    journal_is("open 77 . without name mode 600\n"
               "open 77 its own anew mode 600\n"
               "= 1 got 4 errno 17 file 0 parcel 0\n"
               "= 0 {} repositories in the workspace: file exists\n");
    for (size_t i = 0; i < 2; i++) {
        open_errors[0] = enough[i];
        take("tree", 4, 4, 2, false);
        journal("that was %d", enough[i]);
        journal_line();
    }
    journal_is("open 77 . without name mode 600\n"
               "= 1 got 4 errno 28 file 0 parcel 0\n"
               "that was 28\n"
               "open 77 . without name mode 600\n"
               "= 1 got 4 errno 13 file 0 parcel 0\n"
               "that was 13\n");
}

static void
all_is_written_or_nothing_more(void **state)
{
    static const ssize_t pieces[] = {-EINTR, 1, -EINTR, 9, 0};
    static const ssize_t full[] = {5, -ENOSPC, 0};
    char text[64];
    size_t len = put_tree(text, "a", "one");

    (void)state;
    writes = pieces;
    take(text, len, len, sizeof text, true);
    journal_is("open 77 . without name mode 600\n"
               "write 16\n"
               "write 16\n"
               "write 15\n"
               "write 15\n"
               "write 6\n"
               "= 1 got 16 errno 0 file 1 parcel 0\n"
               "map 16 1 1 the file from 0\n"
               "unpack /root a: one\n"
               "free the file 3 13+3\n"
               "unmap 16\n"
               "= 1 {\"repositories\":[\"a\"]} repository: \n"
               "close the file\n");
    writes = full;
    take(text, len, len, 8, true);
    journal_is("open 77 . without name mode 600\n"
               "write 8\n"
               "write 3\n"
               "= 1 got 16 errno 28 file 1 parcel 0\n"
               "= 0 {} repositories in the workspace: no space left on "
               "device\n"
               "close the file\n");
}

static void
a_parcel_without_memory_is_not_taken(void **state)
{
    (void)state;
    no_memory = true;
    take("parcel", 6, 0, 6, false);
    journal_is("room for a parcel\n"
               "= 0 got 0 errno 0 file 0 parcel 0\n");
    no_memory = false;
    take("parcel", 6, 0, 4, false);
    journal_is("room for a parcel\n"
               "= 1 got 0 errno 0 file 0 parcel 6\n"
               "wipe 6\n");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_tree_is_put_and_its_room_given_back, begin),
        cmocka_unit_test_setup(what_cannot_be_put_is_said, begin),
        cmocka_unit_test_setup(a_file_system_without_nameless_files_will_do,
                               begin),
        cmocka_unit_test_setup(all_is_written_or_nothing_more, begin),
        cmocka_unit_test_setup(a_parcel_without_memory_is_not_taken, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
