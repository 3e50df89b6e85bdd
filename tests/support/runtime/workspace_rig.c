#include "tests/support/runtime/workspace_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/base/descriptors.h"
#include "tests/support/base/temp_dir.h"
#include "tests/support/runtime/fake_http.h"

enum {
    FOLDER_SIZE = 4096, /* File systems are not of one mind. */
};

struct wp_runtime workspace_runtime;

static char root[WP_WORKSPACE_PATH_MAX];
static mode_t umask_before;
static size_t open_before; /* Descriptors. */

static const char *faulty;
static unsigned fault_left;
static int fault_errno;
static bool fault_fired;
static bool unlinks_told;
static unsigned made_active;
static int scan_count; /* 0: it is read as it is. */

/* ------------------------------------------------------------------ faults */

void
fault_set(const char *function, unsigned nth, int os_errno)
{
    faulty = function;
    fault_left = nth;
    fault_errno = os_errno;
    fault_fired = false;
}

bool
fault_clear(void)
{
    faulty = NULL;
    return fault_fired;
}

void
fault_tell_unlinks(bool on)
{
    unlinks_told = on;
}

void
scan_fake(int count)
{
    scan_count = count;
}

static bool
fails(const char *function)
{
    if (faulty == NULL || strcmp(faulty, function) != 0 || --fault_left > 0) {
        return false;
    }
    faulty = NULL;
    fault_fired = true;
    errno = fault_errno;
    return true;
}

void *__wrap_calloc(size_t n, size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t size);
void *__real_malloc(size_t size);
struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd,
                               short what, event_callback_fn on, void *arg);
struct event *__real_event_new(struct event_base *base, evutil_socket_t fd,
                               short what, event_callback_fn on, void *arg);
void __wrap_event_active(struct event *event, int what, short calls);
void __real_event_active(struct event *event, int what, short calls);
int __wrap_fchmod(int fd, mode_t mode);
int __real_fchmod(int fd, mode_t mode);
DIR *__wrap_fdopendir(int fd);
DIR *__real_fdopendir(int fd);
int __wrap_fstat(int fd, struct stat *st);
int __real_fstat(int fd, struct stat *st);
int __wrap_fstatat(int dir, const char *name, struct stat *st, int flags);
int __real_fstatat(int dir, const char *name, struct stat *st, int flags);
int __wrap_mkdir(const char *path, mode_t mode);
int __real_mkdir(const char *path, mode_t mode);
int __wrap_open(const char *path, int flags, ...);
int __real_open(const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, ...);
int __real_openat(int dir, const char *path, int flags, ...);
ssize_t __wrap_read(int fd, void *buf, size_t len);
ssize_t __real_read(int fd, void *buf, size_t len);
int __wrap_renameat(int from, const char *name, int to, const char *as);
int __real_renameat(int from, const char *name, int to, const char *as);
int __wrap_scandirat(int fd, const char *path, struct dirent ***names,
                     int (*keep)(const struct dirent *),
                     int (*order)(const struct dirent **,
                                  const struct dirent **));
int __real_scandirat(int fd, const char *path, struct dirent ***names,
                     int (*keep)(const struct dirent *),
                     int (*order)(const struct dirent **,
                                  const struct dirent **));
int __wrap_unlinkat(int dir, const char *name, int flags);
int __real_unlinkat(int dir, const char *name, int flags);
ssize_t __wrap_write(int fd, const void *buf, size_t len);
ssize_t __real_write(int fd, const void *buf, size_t len);
int __wrap_wp_workspace_open(const struct wp_workspace *workspace,
                             const char *path, int flags, mode_t mode);
int __real_wp_workspace_open(const struct wp_workspace *workspace,
                             const char *path, int flags, mode_t mode);

void *
__wrap_calloc(size_t n, size_t size)
{
    return fails("calloc") ? NULL : __real_calloc(n, size);
}

void *
__wrap_malloc(size_t size)
{
    return fails("malloc") ? NULL : __real_malloc(size);
}

struct event *
__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what,
                 event_callback_fn on, void *arg)
{
    return fails("event_new") ? NULL
                              : __real_event_new(base, fd, what, on, arg);
}

void
__wrap_event_active(struct event *event, int what, short calls)
{
    made_active++;
    __real_event_active(event, what, calls);
}

int
__wrap_fchmod(int fd, mode_t mode)
{
    return fails("fchmod") ? -1 : __real_fchmod(fd, mode);
}

DIR *
__wrap_fdopendir(int fd)
{
    return fails("fdopendir") ? NULL : __real_fdopendir(fd);
}

int
__wrap_fstat(int fd, struct stat *st)
{
    int rc = fails("fstat") ? -1 : __real_fstat(fd, st);

    if (rc == 0 && S_ISDIR(st->st_mode)) {
        st->st_size = FOLDER_SIZE;
    }
    return rc;
}

/* What is named "timeless" has a time that no calendar has. */
int
__wrap_fstatat(int dir, const char *name, struct stat *st, int flags)
{
    int rc = fails("fstatat") ? -1 : __real_fstatat(dir, name, st, flags);

    if (rc == 0 && S_ISDIR(st->st_mode)) {
        st->st_size = FOLDER_SIZE;
    }
    if (rc == 0 && strcmp(name, "timeless") == 0) {
        st->st_mtim.tv_sec = INT64_MAX;
    }
    return rc;
}

int
__wrap_mkdir(const char *path, mode_t mode)
{
    return fails("mkdir") ? -1 : __real_mkdir(path, mode);
}

static mode_t
mode_of(int flags, va_list ap)
{
    return (flags & O_CREAT) != 0 ? va_arg(ap, mode_t) : 0;
}

int
__wrap_open(const char *path, int flags, ...)
{
    va_list ap;
    mode_t mode;

    va_start(ap, flags);
    mode = mode_of(flags, ap);
    va_end(ap);
    return fails("open") ? -1 : __real_open(path, flags, mode);
}

int
__wrap_openat(int dir, const char *path, int flags, ...)
{
    va_list ap;
    mode_t mode;

    va_start(ap, flags);
    mode = mode_of(flags, ap);
    va_end(ap);
    return fails("openat") ? -1 : __real_openat(dir, path, flags, mode);
}

ssize_t
__wrap_read(int fd, void *buf, size_t len)
{
    return fails("read") ? -1 : __real_read(fd, buf, len);
}

int
__wrap_renameat(int from, const char *name, int to, const char *as)
{
    return fails("renameat") ? -1 : __real_renameat(from, name, to, as);
}

static int
scan_same(struct dirent ***names)
{
    int count = scan_count;

    scan_count = 0;
    *names = __real_calloc((size_t)count, sizeof **names);
    assert_non_null(*names);
    for (int i = 0; i < count; i++) {
        (*names)[i] = __real_calloc(1, sizeof ***names);
        assert_non_null((*names)[i]);
        (*names)[i]->d_name[0] = 'x';
    }
    return count;
}

int
__wrap_scandirat(int fd, const char *path, struct dirent ***names,
                 int (*keep)(const struct dirent *),
                 int (*order)(const struct dirent **, const struct dirent **))
{
    if (fails("scandirat")) {
        return -1;
    }
    return scan_count > 0 ? scan_same(names)
                          : __real_scandirat(fd, path, names, keep, order);
}

int
__wrap_unlinkat(int dir, const char *name, int flags)
{
    if (unlinks_told) {
        journal("unlink %s%s", name, flags == AT_REMOVEDIR ? "/" : "");
        journal_line();
    }
    return fails("unlinkat") ? -1 : __real_unlinkat(dir, name, flags);
}

ssize_t
__wrap_write(int fd, const void *buf, size_t len)
{
    return fails("write") ? -1 : __real_write(fd, buf, len);
}

int
__wrap_wp_workspace_open(const struct wp_workspace *workspace, const char *path,
                         int flags, mode_t mode)
{
    return fails("wp_workspace_open")
               ? -errno
               : __real_wp_workspace_open(workspace, path, flags, mode);
}

/* ------------------------------------------------------------- the folder */

int
workspace_begin(void **state)
{
    struct wp_err err;

    (void)state;
    umask_before = umask(022);
    memset(&workspace_runtime, 0, sizeof workspace_runtime);
    temp_dir_make_fast(root, sizeof root);
    assert_int_equal(
        wp_workspace_init(&workspace_runtime.workspace, root, &err), WP_OK);
    workspace_runtime.base = event_base_new();
    assert_non_null(workspace_runtime.base);
    journal_drop();
    open_before = descriptors_count();
    return 0;
}

static int
take_away(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

int
workspace_end(void **state)
{
    (void)state;
    assert_int_equal(descriptors_count(), open_before);
    wp_workspace_fini(&workspace_runtime.workspace);
    event_base_free(workspace_runtime.base);
    (void)nftw(root, take_away, 16, FTW_DEPTH | FTW_PHYS);
    (void)umask(umask_before);
    return 0;
}

void
time_put(const char *path)
{
    const struct timespec times[2] = {{981173106, 750000000},
                                      {981173106, 750000000}};

    assert_int_equal(utimensat(workspace_runtime.workspace.fd, path, times,
                               AT_SYMLINK_NOFOLLOW),
                     0);
}

void
file_put(const char *path, const char *text, unsigned mode)
{
    int fd = __real_openat(workspace_runtime.workspace.fd, path,
                           O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    size_t len = strlen(text);

    assert_true(fd >= 0);
    assert_int_equal(__real_write(fd, text, len), len);
    assert_int_equal(__real_fchmod(fd, (mode_t)mode), 0);
    assert_int_equal(close(fd), 0);
    time_put(path);
}

void
folder_put(const char *path)
{
    assert_int_equal(mkdirat(workspace_runtime.workspace.fd, path, 0755), 0);
    time_put(path);
}

void
link_put(const char *path, const char *target)
{
    assert_int_equal(symlinkat(target, workspace_runtime.workspace.fd, path),
                     0);
    time_put(path);
}

static void
entry_show(const char *path, int dir, const char *name)
{
    char bytes[256];
    struct stat st;
    ssize_t n;
    int fd;

    assert_int_equal(__real_fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW), 0);
    journal("  %s %o", path, (unsigned)st.st_mode);
    if (S_ISREG(st.st_mode)) {
        fd = __real_openat(dir, name, O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        n = __real_read(fd, bytes, sizeof bytes);
        assert_true(n >= 0);
        journal(" %lld: ", (long long)st.st_size);
        journal_bytes(bytes, (size_t)n);
        assert_int_equal(close(fd), 0);
    }
    journal_line();
}

void
tree_show(const char *path)
{
    struct dirent **names = NULL;
    int dir = __real_openat(workspace_runtime.workspace.fd, path,
                            O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int count;

    assert_true(dir >= 0);
    count = __real_scandirat(dir, ".", &names, NULL, alphasort);
    assert_true(count >= 0);
    for (int i = 0; i < count; i++) {
        const char *name = names[i]->d_name;
        char below[WP_WORKSPACE_PATH_MAX];
        struct stat st;

        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
            (void)snprintf(below, sizeof below, "%s/%s", path, name);
            entry_show(below, dir, name);
            if (__real_fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                S_ISDIR(st.st_mode)) {
                tree_show(below);
            }
        }
        free(names[i]);
    }
    free(names);
    assert_int_equal(close(dir), 0);
}

unsigned
loop_settle(void)
{
    unsigned times;

    while (event_base_get_num_events(workspace_runtime.base,
                                     EVENT_BASE_COUNT_ACTIVE) > 0) {
        assert_true(event_base_loop(workspace_runtime.base, EVLOOP_NONBLOCK) !=
                    -1);
    }
    times = made_active;
    made_active = 0;
    return times;
}
