/* local/walls/rootfs_files.c, call by call: what is removed, lifted, copied and
 * made, what is done again, and what is said of what stays. The folders are the
 * test's own, in memory; the journals are in golden/. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/walls/rootfs.h"
#include "pool/base/compiler.h"
#include "tests/support/base/journal.h"

#define LINE(...) (journal(__VA_ARGS__), journal_line())

enum {
    NODES = 12,
    NAME_BYTES = 32,
    FDS = 1000, /* A folder's is that and its place. */
};

/* A file, or a folder; the first is the one that is removed, "/it". */
struct node {
    const char *name; /* NULL: it is not, or no longer, there. */
    int in;
    bool folder;
    int device;
    int stays;   /* Why it cannot be removed. */
    bool once;   /* So the first time only. */
    int shut;    /* Why it cannot be opened. */
    int no_stat; /* Why nothing is told of it. */
    int no_read; /* Why it cannot be read. */
    int held;    /* Why it cannot be lifted. */
    char fresh[NAME_BYTES];
};

static struct {
    struct node nodes[NODES];
    int len;
    int at[NODES]; /* Where each folder's reading is. */
    struct dirent entries[NODES];
    int taken; /* So many names that are lifted to are. */
    int taken_error;
    const char *fails; /* A call, */
    int nth;           /* when it is made for the n-th time. */
    int error;
    int chunks; /* Of a file; then its end. */
    int in;     /* Its descriptor; and of the copy. */
    int out;
} rig;

int __wrap_openat(int dir, const char *name, int flags, ...);
int __wrap_fstat(int fd, struct stat *st);
DIR *__wrap_fdopendir(int fd);
int __wrap_dirfd(DIR *dir);
void __wrap_rewinddir(DIR *dir);
struct dirent *__wrap_readdir(DIR *dir);
int __wrap_closedir(DIR *dir);
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_unlinkat(int dir, const char *name, int flags);
int __wrap_renameat(int from, const char *name, int to, const char *fresh);
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
ssize_t __wrap_sendfile(int out, int in, off_t *at, size_t n);
int __wrap_fchmod(int fd, mode_t mode);
int __wrap_rename(const char *from, const char *to);
int __wrap_unlink(const char *path);
int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_chmod(const char *path, mode_t mode);

/* --- Folders --- */

static int
find(int dir, const char *name)
{
    for (int i = 0; i < rig.len; i++) {
        const struct node *node = &rig.nodes[i];

        if (node->name != NULL && strcmp(node->name, name) == 0 &&
            (dir == AT_FDCWD ? i == 0 : i > 0 && node->in == dir - FDS)) {
            return i;
        }
    }
    return -1;
}

static const char *
dir_name(int dir)
{
    return dir == AT_FDCWD ? "here" : rig.nodes[dir - FDS].name;
}

/* The result of a call that says nothing but that; errno is never left. */
static int
result(int error)
{
    errno = error != 0 ? error : EBADMSG;
    if (error != 0) {
        journal(": %s", strerror(error));
    }
    journal_line();
    return error != 0 ? -1 : 0;
}

int
__wrap_openat(int dir, const char *name, int flags, ...)
{
    int i = find(dir, name);
    int error = i < 0                    ? ENOENT
                : !rig.nodes[i].folder   ? ENOTDIR
                : rig.nodes[i].shut != 0 ? rig.nodes[i].shut
                                         : 0;

    journal("openat %s %s%s", dir_name(dir), name,
            flags == (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) ? ""
                                                                       : " ?");
    return result(error) != 0 ? -1 : FDS + i;
}

int
__wrap_fstat(int fd, struct stat *st)
{
    const struct node *node = &rig.nodes[fd - FDS];

    memset(st, 0, sizeof *st);
    st->st_dev = (dev_t)node->device;
    journal("fstat %s", node->name);
    /* Of the one that is removed, the second fails. */
    rig.at[fd - FDS]++;
    return result(fd > FDS || rig.at[0] > 1 ? node->no_stat : 0);
}

DIR *
__wrap_fdopendir(int fd)
{
    struct node *node = &rig.nodes[fd - FDS];

    journal("fdopendir %s", node->name);
    if (fd > FDS) {
        rig.at[fd - FDS] = 0;
    }
    return result(node->no_read) != 0 ? NULL : (DIR *)node;
}

int
__wrap_dirfd(DIR *dir)
{
    return FDS + (int)((struct node *)dir - rig.nodes);
}

void
__wrap_rewinddir(DIR *dir)
{
    struct node *node = (struct node *)dir;

    LINE("rewind %s", node->name);
    rig.at[node - rig.nodes] = 0;
}

/* "." and "..", and what is there; what was lifted to it meanwhile as well. */
struct dirent *
__wrap_readdir(DIR *dir)
{
    int at = (int)((struct node *)dir - rig.nodes);

    for (int i = rig.at[at]++; i < rig.len + 2; i = rig.at[at]++) {
        const struct node *node = i >= 2 ? &rig.nodes[i - 2] : NULL;

        if (node == NULL || (node->name != NULL && i > 2 && node->in == at)) {
            (void)snprintf(rig.entries[at].d_name, NAME_BYTES, "%s",
                           i == 0   ? "."
                           : i == 1 ? ".."
                                    : node->name);
            return &rig.entries[at];
        }
    }
    return NULL;
}

int
__wrap_closedir(DIR *dir)
{
    LINE("closedir %s", ((struct node *)dir)->name);
    errno = EBADMSG;
    return 0;
}

int
__wrap_unlinkat(int dir, const char *name, int flags)
{
    int i = find(dir, name);
    struct node *node = &rig.nodes[i < 0 ? 0 : i];
    bool filled = false;
    int error;

    for (int k = 1; k < rig.len; k++) {
        filled = filled || (node->folder && rig.nodes[k].name != NULL &&
                            rig.nodes[k].in == i);
    }
    error = i < 0                                    ? ENOENT
            : node->folder && flags == 0             ? EISDIR
            : !node->folder && flags == AT_REMOVEDIR ? ENOTDIR
            : node->stays != 0                       ? node->stays
            : filled                                 ? ENOTEMPTY
                                                     : 0;
    if (error == node->stays && node->once) {
        node->stays = 0;
    }
    journal("%s %s %s", flags == 0 ? "unlinkat" : "rmdirat", dir_name(dir),
            name);
    if (error == 0 || error == ENOENT) {
        node->name = i < 0 ? node->name : NULL;
    }
    return result(error);
}

int
__wrap_renameat(int from, const char *name, int to, const char *fresh)
{
    struct node *node = &rig.nodes[find(from, name)];
    bool taken = rig.taken > 0;

    journal("renameat %s %s %s %s", dir_name(from), name, dir_name(to), fresh);
    if (node->held != 0 || taken) {
        rig.taken -= taken;
        return result(taken ? rig.taken_error : node->held);
    }
    node->in = to - FDS;
    (void)snprintf(node->fresh, sizeof node->fresh, "%s", fresh);
    node->name = node->fresh;
    return result(0);
}

/* --- Files --- */

/* Why this call fails; 0: it does not. */
static int
failure(const char *call)
{
    return rig.fails != NULL && strcmp(rig.fails, call) == 0 && --rig.nth == 0
               ? rig.error
               : 0;
}

int
__wrap_close(int fd)
{
    if (fd < FDS && fd != rig.in && fd != rig.out) {
        return __real_close(fd);
    }
    journal("close %s", fd == rig.in    ? "in"
                        : fd == rig.out ? "out"
                                        : rig.nodes[fd - FDS].name);
    return result(failure(fd == rig.out ? "close" : ""));
}

int
__wrap_open(const char *path, int flags, ...)
{
    va_list ap;
    int mode;

    if (strncmp(path, "/x/", 3) != 0) {
        return __real_open(path, flags);
    }
    va_start(ap, flags);
    mode = (flags & O_CREAT) != 0 ? va_arg(ap, int) : 0;
    va_end(ap);
    journal("open %.12s.. of %zu, %s, %o", path, strlen(path),
            flags == (O_RDONLY | O_CLOEXEC)                      ? "read"
            : flags == (O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC) ? "make"
                                                                 : "?",
            (unsigned)mode);
    return result(failure("open")) != 0 ? -1 : mode != 0 ? rig.out : rig.in;
}

ssize_t
__wrap_sendfile(int out, int in, off_t *at, size_t n)
{
    int error = failure("sendfile");

    journal("sendfile %d %d %zu%s", out, in, n, at != NULL ? " ?" : "");
    if (result(error) != 0) {
        return -1;
    }
    return rig.chunks > 0 ? rig.chunks-- : 0;
}

int
__wrap_fchmod(int fd, mode_t mode)
{
    journal("fchmod %d %o", fd, mode);
    return result(failure("fchmod"));
}

int
__wrap_rename(const char *from, const char *to)
{
    journal("rename %s %s", from, to);
    return result(failure("rename"));
}

int
__wrap_unlink(const char *path)
{
    journal("unlink %s", path);
    return result(ENOENT);
}

int
__wrap_mkdir(const char *path, mode_t mode)
{
    journal("mkdir %.40s %o", path, mode);
    return result(failure("mkdir"));
}

int
__wrap_chmod(const char *path, mode_t mode)
{
    journal("chmod %.40s %o", path, mode);
    return result(failure("chmod"));
}

/* --- --- */

static void
show(enum wp_status status, const struct wp_err *err)
{
    LINE("= %d%s%s", (int)status, status != WP_OK ? " " : "",
         status != WP_OK ? err->msg : "");
}

/* "/it" with a file, a folder with a file and two folders, of which one is
 * empty; and an empty folder. */
static void
begin(const char *what)
{
    static const struct node nodes[] = {
        {.name = "/it", .in = -1, .folder = true},
        {.name = "file", .in = 0},
        {.name = "folder", .in = 0, .folder = true},
        {.name = "a", .in = 2},
        {.name = "b", .in = 2, .folder = true},
        {.name = "c", .in = 4},
        {.name = "d", .in = 2, .folder = true},
        {.name = "empty", .in = 0, .folder = true},
    };

    memset(&rig, 0, sizeof rig);
    memcpy(rig.nodes, nodes, sizeof nodes);
    for (size_t i = 0; i < WP_ARRAY_LEN(nodes); i++) {
        rig.nodes[i].device = 7;
    }
    rig.len = WP_ARRAY_LEN(nodes);
    rig.in = rig.out = -1;
    LINE("--- %s", what);
}

static void
remove_it(void)
{
    struct wp_err err = {.msg = ""};

    errno = 0;
    show(wp_dir_remove("/it", &err), &err);
}

static void
removes_all_that_it_can(void **state)
{
    (void)state;
    begin("all");
    remove_it();
    begin("not there");
    rig.nodes[0].name = NULL;
    remove_it();
    begin("a file");
    rig.nodes[0].folder = false;
    remove_it();
    begin("a file that stays");
    rig.nodes[0].folder = false;
    rig.nodes[0].stays = EROFS;
    remove_it();
    begin("shut");
    rig.nodes[0].shut = EACCES;
    remove_it();
    begin("it stays itself");
    rig.nodes[0].stays = EBUSY;
    remove_it();
    begin("nothing is told of it");
    rig.nodes[0].no_stat = EIO;
    remove_it();
    begin("it cannot be read");
    rig.nodes[0].no_read = ENOMEM;
    remove_it();
    begin("of another file system");
    rig.nodes[2].device = 8;
    remove_it();
    begin("a folder in it is shut");
    rig.nodes[2].shut = EACCES;
    remove_it();
    begin("nothing is told of a folder in it");
    rig.nodes[2].no_stat = EIO;
    remove_it();
    begin("a folder in it cannot be read");
    rig.nodes[2].no_read = ENOMEM;
    remove_it();
    journal_compare(WP_TEST_GOLDEN "/remove_all.txt");
}

static void
says_what_stays_first(void **state)
{
    (void)state;
    begin("a file");
    rig.nodes[1].stays = EACCES;
    remove_it();
    begin("a folder");
    rig.nodes[2].stays = EBUSY;
    remove_it();
    begin("an empty folder");
    rig.nodes[7].stays = EACCES;
    remove_it();
    begin("the first in a folder");
    rig.nodes[3].stays = EACCES;
    remove_it();
    begin("the last in a folder");
    rig.nodes[6].stays = EIO;
    remove_it();
    begin("a folder in a folder");
    rig.nodes[4].stays = EBUSY;
    remove_it();
    begin("all in a folder");
    rig.nodes[3].stays = EACCES;
    rig.nodes[4].stays = EIO;
    rig.nodes[6].stays = EBUSY;
    remove_it();
    begin("a file deeper");
    rig.nodes[5].stays = EACCES;
    remove_it();
    begin("two");
    rig.nodes[1].stays = EACCES;
    rig.nodes[7].stays = EIO;
    remove_it();
    /* It is the same: something is in it. */
    begin("full");
    rig.nodes[7].stays = EEXIST;
    remove_it();
    begin("gone meanwhile");
    rig.nodes[1].stays = ENOENT;
    rig.nodes[7].stays = ENOENT;
    remove_it();
    begin("not a folder's error");
    rig.nodes[1].stays = EPERM;
    remove_it();
    journal_compare(WP_TEST_GOLDEN "/remove_stays.txt");
}

/* Only a folder, and in it "b", which comes before it when it is lifted. */
static void
begin_few(const char *what)
{
    begin(what);
    rig.nodes[1] =
        (struct node){.name = "b", .in = 3, .folder = true, .device = 7};
    rig.nodes[2] = (struct node){.name = "c", .in = 1};
    rig.nodes[3] =
        (struct node){.name = "folder", .in = 0, .folder = true, .device = 7};
    rig.len = 4;
}

/* What one pass has begun the next one ends; and only what the last one left is
 * told. */
static void
goes_over_it_again(void **state)
{
    (void)state;
    begin_few("lifted to where it has been");
    rig.nodes[3].stays = EEXIST;
    remove_it();
    begin_few("no name is free, and nothing else moves");
    rig.taken = 64;
    rig.taken_error = ENOTEMPTY;
    remove_it();
    begin_few("one name is");
    rig.taken = 63;
    rig.taken_error = EEXIST;
    remove_it();
    begin("busy for a while, and it stays itself");
    rig.nodes[1].stays = EBUSY;
    rig.nodes[1].once = true;
    rig.nodes[0].stays = EACCES;
    remove_it();
    journal_compare(WP_TEST_GOLDEN "/remove_again.txt");
}

static void
lifts_to_a_free_name(void **state)
{
    static const struct {
        const char *what;
        int taken;
        int error;
        int held;
    } cases[] = {
        {"taken by a folder", 1, ENOTEMPTY, 0},
        {"taken by a folder, said otherwise", 1, EEXIST, 0},
        {"taken by a file", 2, ENOTDIR, 0},
        {"the last name is free", 63, ENOTEMPTY, 0},
        {"no name is free", 64, ENOTEMPTY, 0},
        {"two rounds", 65, ENOTDIR, 0},
        {"another error", 1, EACCES, 0},
        {"it is held", 0, 0, EXDEV},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        begin(cases[i].what);
        rig.taken = cases[i].taken;
        rig.taken_error = cases[i].error;
        rig.nodes[4].held = cases[i].held;
        remove_it();
    }
    journal_compare(WP_TEST_GOLDEN "/remove_lifts.txt");
}

static void
copy(const char *to)
{
    struct wp_err err = {.msg = ""};

    errno = 0;
    show(wp_file_copy("/x/from", to, 0640, &err), &err);
}

static void
begin_copy(const char *call, int nth, int error)
{
    memset(&rig, 0, sizeof rig);
    rig.fails = call;
    rig.nth = nth;
    rig.error = error;
    rig.chunks = 2;
    rig.in = 50;
    rig.out = 51;
    LINE("--- %s %d", call, nth);
}

static void
copies_all_or_nothing(void **state)
{
    static const char *const calls[] = {"open", "sendfile", "fchmod", "close",
                                        "rename"};
    static char longest[WP_ROOT_PATH_MAX + 1] = "/x/";

    (void)state;
    begin_copy("none", 1, 0);
    copy("/x/to");
    for (size_t i = 0; i < WP_ARRAY_LEN(calls); i++) {
        for (int nth = 1; nth <= (i == 0 ? 2 : i == 1 ? 3 : 1); nth++) {
            begin_copy(calls[i], nth, EIO);
            copy("/x/to");
        }
    }
    begin_copy("sendfile", 2, EINTR);
    copy("/x/to");
    /* Descriptors may be any. */
    begin_copy("rename", 1, EPERM);
    rig.in = 0;
    copy("/x/to");
    begin_copy("rename", 1, EPERM);
    rig.out = 0;
    copy("/x/to");
    memset(longest + 3, 'y', sizeof longest - 4);
    for (int more = 0; more < 2; more++) {
        longest[WP_ROOT_PATH_MAX - 1 - 5 + more] = '\0';
        begin_copy("rename", 1, ENOSPC);
        copy(longest);
        longest[WP_ROOT_PATH_MAX - 1 - 5 + more] = 'y';
    }
    journal_compare(WP_TEST_GOLDEN "/copy.txt");
}

static void
make(const char *dir)
{
    struct wp_err err = {.msg = ""};

    show(wp_dir_make(dir, 0751, &err), &err);
}

static void
makes_each_part(void **state)
{
    static char longest[WP_ROOT_PATH_MAX + 1];

    (void)state;
    begin_copy("none", 1, 0);
    make("/a/bc/d");
    make("a");
    make("/");
    make("a/");
    make("");
    for (int nth = 1; nth <= 3; nth++) {
        begin_copy("mkdir", nth, EEXIST);
        make("/a/bc/d");
        begin_copy("mkdir", nth, EROFS);
        make("/a/bc/d");
        begin_copy("chmod", nth, EEXIST);
        make("/a/bc/d");
    }
    memset(longest, 'y', sizeof longest - 1);
    make(longest);
    longest[WP_ROOT_PATH_MAX - 1] = '\0';
    make(longest);
    journal_compare(WP_TEST_GOLDEN "/make.txt");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(removes_all_that_it_can),
        cmocka_unit_test(says_what_stays_first),
        cmocka_unit_test(lifts_to_a_free_name),
        cmocka_unit_test(goes_over_it_again),
        cmocka_unit_test(copies_all_or_nothing),
        cmocka_unit_test(makes_each_part),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
