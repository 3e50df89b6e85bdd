/* What the system is asked when a lease file is looked at and made, and what is
 * said when it refuses: every call by every one of its errors. The system is the
 * test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocator/stores/sqlite/file.h"
#include "tests/support/base/journal.h"

int __wrap_stat(const char *path, struct stat *out);
int __wrap_lstat(const char *path, struct stat *out);
int __wrap_chmod(const char *path, mode_t mode);
int __wrap_unlink(const char *path);
int __wrap_open(const char *path, int flags, ...);
int __wrap_link(const char *from, const char *to);
int __wrap_fsync(int fd);
int __wrap_close(int fd);
pid_t __wrap_getpid(void);

/* What each call answers: 0, or an error. */
static struct {
    int stat;
    int lstat;
    int chmod;
    int unlink;
    int open;   /* Of a file; */
    int folder; /* of a folder. */
    int link;
    int fsync;
    mode_t mode;
} system_;

static int
answer(int error)
{
    if (error != 0) {
        errno = error;
        return -1;
    }
    return 0;
}

/* A long path by its length. */
static const char *
shown(const char *path)
{
    static char out[3][64];
    static int turn;

    turn = (turn + 1) % 3;
    (void)snprintf(out[turn], sizeof out[turn],
                   strlen(path) < 40 ? "'%s'" : "'%.3s' and so on, %zu bytes",
                   path, strlen(path));
    return out[turn];
}

int
__wrap_stat(const char *path, struct stat *out)
{
    memset(out, 0, sizeof *out);
    out->st_mode = system_.mode;
    journal("stat %s", shown(path));
    journal_line();
    return answer(system_.stat);
}

int
__wrap_lstat(const char *path, struct stat *out)
{
    memset(out, 0, sizeof *out);
    journal("lstat %s", shown(path));
    journal_line();
    return answer(system_.lstat);
}

int
__wrap_chmod(const char *path, mode_t mode)
{
    journal("chmod %s %o", shown(path), (unsigned)mode);
    journal_line();
    return answer(system_.chmod);
}

int
__wrap_unlink(const char *path)
{
    journal("unlink %s", shown(path));
    journal_line();
    return answer(system_.unlink);
}

int
__wrap_open(const char *path, int flags, ...)
{
    journal("open %s%s%s%s%s%s", shown(path),
            (flags & O_ACCMODE) == O_RDWR ? " to write" : "",
            (flags & O_CREAT) != 0 ? " new" : "",
            (flags & O_EXCL) != 0 ? " only" : "",
            (flags & O_DIRECTORY) == O_DIRECTORY ? " folder" : "",
            (flags & O_CLOEXEC) != 0 ? " for itself" : "");
    if ((flags & O_CREAT) != 0) {
        va_list args;

        va_start(args, flags);
        journal(" %o", va_arg(args, unsigned));
        va_end(args);
    }
    journal_line();
    return answer((flags & O_CREAT) != 0 ? system_.open : system_.folder) == 0
               ? 77
               : -1;
}

int
__wrap_link(const char *from, const char *to)
{
    journal("link %s %s", shown(from), shown(to));
    journal_line();
    return answer(system_.link);
}

int
__wrap_fsync(int fd)
{
    journal("fsync %d", fd);
    journal_line();
    return answer(system_.fsync);
}

int
__wrap_close(int fd)
{
    journal("close %d", fd);
    journal_line();
    return 0;
}

pid_t
__wrap_getpid(void)
{
    return 4321;
}

/* --- --- */

static void
tell(enum wp_status status, const struct wp_err *err)
{
    journal("=> %s", wp_status_name(status));
    if (status != WP_OK) {
        assert_int_equal(err->status, status);
        journal(" %d %.90s%s", err->os_errno, err->msg,
                strlen(err->msg) > 90 ? "..." : "");
    }
    journal_line();
}

static void
check(const char *path)
{
    struct wp_err err = {0};
    bool missing = true;
    enum wp_status status = wp_lease_file_check(path, &missing, &err);

    tell(status, &err);
    if (status == WP_OK) {
        journal("%s", missing ? "missing" : "there");
        journal_line();
    } else {
        assert_int_equal(missing, system_.stat == ENOENT);
    }
}

static int
set_up(void **state)
{
    (void)state;
    memset(&system_, 0, sizeof system_);
    system_.mode = S_IFREG | 0600;
    journal_drop();
    return 0;
}

static void
test_what_is_there(void **state)
{
    static const mode_t modes[] = {
        S_IFREG | 0600, S_IFREG | 0700, S_IFREG | 0640, S_IFREG | 0604,
        S_IFREG | 0610, S_IFDIR | 0700, S_IFIFO | 0666};

    (void)state;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        system_.mode = modes[i];
        system_.chmod = 0;
        check("a/f.db");
        system_.chmod = EPERM;
        check("a/f.db");
    }
    journal_compare(WP_TEST_GOLDEN "/file_there.txt");
}

static void
test_what_is_missing(void **state)
{
    (void)state;
    system_.stat = ENOENT;
    check("a/f.db"); /* Its log is there. */
    system_.lstat = ENOENT;
    check("a/f.db");
    system_.stat = ENOTDIR;
    check("a/f.db");
    system_.stat = EACCES;
    check("a/f.db");
    journal_compare(WP_TEST_GOLDEN "/file_missing.txt");
}

static void
test_how_long_its_path_may_be(void **state)
{
    char path[WP_LEASE_FILE_PATH_MAX + 2];

    (void)state;
    check(NULL);
    check("");
    check("f");
    memset(path, 'p', sizeof path);
    path[WP_LEASE_FILE_PATH_MAX + 1] = '\0';
    check(path);
    path[WP_LEASE_FILE_PATH_MAX] = '\0';
    check(path);
    system_.stat = ENOENT;
    check(path);
    system_.lstat = ENOENT;
    check(path);
    journal_compare(WP_TEST_GOLDEN "/file_path.txt");
}

static void
make(const char *path, const char *name)
{
    char prepared[WP_LEASE_FILE_PATH_MAX + 32];
    struct wp_err err = {0};
    enum wp_status status;

    journal("--- %s", name);
    journal_line();
    status = wp_lease_file_prepare(path, prepared, sizeof prepared, &err);
    tell(status, &err);
    if (status == WP_OK) {
        journal("prepared %s", shown(prepared));
        journal_line();
        status = wp_lease_file_place(prepared, path, &err);
        tell(status, &err);
    }
}

static void
test_how_it_is_made(void **state)
{
    char longest[WP_LEASE_FILE_PATH_MAX + 1];

    (void)state;
    memset(longest, 'p', sizeof longest);
    longest[WP_LEASE_FILE_PATH_MAX] = '\0';
    make("a/b/f.db", "in a folder");
    make("f.db", "here");
    make("/f.db", "at the root");
    make(longest, "the longest here");
    longest[WP_LEASE_FILE_PATH_MAX - 2] = '/';
    make(longest, "the longest folder");
    system_.unlink = ENOENT;
    make("a/f.db", "nothing is left of an earlier one");
    system_.unlink = EBUSY;
    make("a/f.db", "what is left does not go");
    journal_compare(WP_TEST_GOLDEN "/file_made.txt");
    wp_lease_file_drop("a/f.db.new-4321");
    journal_is("unlink 'a/f.db.new-4321'\n");
}

static void
test_what_the_system_refuses(void **state)
{
    (void)state;
    system_.link = EEXIST; /* Another process was faster. */
    make("a/f.db", "it is there by now");
    system_.link = ENOSPC;
    make("a/f.db", "link");
    system_.link = 0;
    system_.open = EROFS;
    make("a/f.db", "open");
    system_.open = 0;
    system_.folder = ENOENT;
    make("a/f.db", "folder");
    system_.folder = 0;
    system_.fsync = EIO;
    make("a/f.db", "fsync");
    journal_compare(WP_TEST_GOLDEN "/file_refused.txt");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_what_is_there, set_up),
        cmocka_unit_test_setup(test_what_is_missing, set_up),
        cmocka_unit_test_setup(test_how_long_its_path_may_be, set_up),
        cmocka_unit_test_setup(test_how_it_is_made, set_up),
        cmocka_unit_test_setup(test_what_the_system_refuses, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
