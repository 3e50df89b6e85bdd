/* local/walls/rootfs_files.c - directories made and removed, files copied. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "local/walls/rootfs.h"

enum wp_status
wp_dir_make(const char *dir, unsigned mode, struct wp_err *err)
{
    char path[WP_ROOT_PATH_MAX];
    size_t len = strlen(dir);

    if (len == 0 || len >= sizeof path) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "directory path is empty or too long");
    }
    memcpy(path, dir, len + 1);
    for (size_t i = 1; i <= len; i++) {
        if (path[i] != '/' && path[i] != '\0') {
            continue;
        }
        path[i] = '\0';
        /* The daemon's umask must not decide what sandboxes can read. */
        if (mkdir(path, mode) == 0 ? chmod(path, mode) != 0 : errno != EEXIST) {
            return wp_err_sys(err, WP_UNAVAILABLE, errno,
                              "cannot make directory %s", path);
        }
        path[i] = dir[i];
    }
    return WP_OK;
}

/* --- Removal --- */

enum {
    NAME_BYTES = 256,
    LIFTED_TRIES = 64, /* Names of one that is lifted. */
};

struct removal {
    int top;
    dev_t device;
    uint32_t lifted;
    bool moves; /* This pass has removed or lifted something. */
    int error;  /* The first of this pass; 0: none. */
    char name[NAME_BYTES];
};

static void
note(struct removal *removal, const char *name)
{
    if (removal->error == 0) {
        removal->error = errno;
        (void)snprintf(removal->name, sizeof removal->name, "%s", name);
    }
}

/* A file, or an empty folder. False with errno. */
static bool
remove_one(int dir, const char *name)
{
    return unlinkat(dir, name, 0) == 0 || errno == ENOENT ||
           ((errno == EISDIR || errno == EPERM) &&
            unlinkat(dir, name, AT_REMOVEDIR) == 0);
}

static bool
is_full(int error)
{
    return error == ENOTEMPTY || error == EEXIST;
}

/* The folder of dir becomes one of top's. False with errno. */
static bool
lift(struct removal *removal, int dir, const char *name)
{
    char fresh[32];

    for (int i = 0; i < LIFTED_TRIES; i++) {
        (void)snprintf(fresh, sizeof fresh, ".removed-%u", removal->lifted++);
        if (renameat(dir, name, removal->top, fresh) == 0) {
            return true;
        }
        if (!is_full(errno) && errno != ENOTDIR) {
            return false;
        }
    }
    return false;
}

/* A folder of dir that can be read; NULL with errno. EXDEV: it is of another
 * file system. */
static DIR *
open_folder(const struct removal *removal, int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = NULL;
    struct stat st;

    if (fd >= 0 && fstat(fd, &st) == 0) {
        if (removal == NULL || st.st_dev == removal->device) {
            folder = fdopendir(fd);
        } else {
            errno = EXDEV;
        }
    }
    if (folder == NULL && fd >= 0) {
        int error = errno;

        (void)close(fd);
        errno = error;
    }
    return folder;
}

static bool
is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* What is in a folder of top: files go, folders with something in them become
 * top's own. */
static void
empty_folder(struct removal *removal, const char *name)
{
    DIR *folder = open_folder(removal, removal->top, name);
    const struct dirent *entry;

    if (folder == NULL) {
        note(removal, name);
        return;
    }
    while ((entry = readdir(folder)) != NULL) {
        if (is_dots(entry->d_name)) {
            continue;
        }
        if (remove_one(dirfd(folder), entry->d_name) ||
            (is_full(errno) && lift(removal, dirfd(folder), entry->d_name))) {
            removal->moves = true;
        } else {
            note(removal, entry->d_name);
        }
    }
    (void)closedir(folder);
}

static void
pass_over(struct removal *removal, DIR *top)
{
    const struct dirent *entry;

    removal->moves = false;
    removal->error = 0;
    rewinddir(top);
    while ((entry = readdir(top)) != NULL) {
        if (is_dots(entry->d_name)) {
            continue;
        }
        if (!remove_one(removal->top, entry->d_name)) {
            if (!is_full(errno)) {
                note(removal, entry->d_name);
                continue;
            }
            empty_folder(removal, entry->d_name);
            if (!remove_one(removal->top, entry->d_name)) {
                note(removal, entry->d_name);
                continue;
            }
        }
        removal->moves = true;
    }
}

/* No path is ever longer than one name, for folders may be deeper than a path
 * can say: whoever fills them goes down step by step. */
enum wp_status
wp_dir_remove(const char *dir, struct wp_err *err)
{
    struct removal removal = {.top = -1};
    DIR *top = open_folder(NULL, AT_FDCWD, dir);
    struct stat st;

    if (top == NULL) {
        return errno == ENOENT || remove_one(AT_FDCWD, dir)
                   ? WP_OK
                   : wp_err_sys(err, WP_UNAVAILABLE, errno, "cannot remove %s",
                                dir);
    }
    removal.top = dirfd(top);
    if (fstat(removal.top, &st) == 0) {
        removal.device = st.st_dev;
        do {
            pass_over(&removal, top);
        } while (removal.moves);
    }
    (void)closedir(top);
    if (remove_one(AT_FDCWD, dir)) {
        return WP_OK;
    }
    return removal.error != 0
               ? wp_err_sys(err, WP_UNAVAILABLE, removal.error,
                            "cannot remove '%s' in %s", removal.name, dir)
               : wp_err_sys(err, WP_UNAVAILABLE, errno, "cannot remove %s",
                            dir);
}

/* --- Copies --- */

static bool
copy_bytes(int in, int out)
{
    ssize_t n;

    do {
        n = sendfile(out, in, NULL, 1 << 20);
    } while (n > 0 || (n < 0 && errno == EINTR));
    return n == 0;
}

enum wp_status
wp_file_copy(const char *from, const char *to, unsigned mode,
             struct wp_err *err)
{
    char part[WP_ROOT_PATH_MAX];
    enum wp_status status = WP_OK;
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = -1;
    int error;
    bool ok;

    if (in < 0) {
        return wp_err_sys(err, WP_NOT_FOUND, errno, "cannot read %s", from);
    }
    if (snprintf(part, sizeof part, "%s.part", to) < (int)sizeof part) {
        (void)unlink(part);
        out = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    }
    ok = out >= 0 && copy_bytes(in, out) && fchmod(out, mode) == 0;
    error = errno;
    if (out >= 0 && close(out) != 0 && ok) {
        ok = false;
        error = errno;
    }
    if (ok && rename(part, to) != 0) {
        ok = false;
        error = errno;
    }
    if (!ok) {
        status = wp_err_sys(err, WP_UNAVAILABLE, error, "cannot write %s", to);
        if (out >= 0) {
            (void)unlink(part);
        }
    }
    (void)close(in);
    return status;
}
