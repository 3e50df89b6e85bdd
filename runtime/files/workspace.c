#include "runtime/files/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool/base/str.h"
#include "pool/base/os_error.h"

static int
open_beneath(int dir, const char *path, int flags, mode_t mode)
{
    struct open_how how = {
        .flags = (uint64_t)(unsigned)flags,
        .mode = (flags & O_CREAT) != 0 ? mode : 0,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
    };
    long fd = -1;

    /* EAGAIN: something was renamed while ".." was resolved. */
    for (int tries = 0; tries < 8; tries++) {
        fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));
        if (fd >= 0 || (errno != EAGAIN && errno != EINTR)) {
            break;
        }
    }
    return fd >= 0 ? (int)fd : -errno;
}

enum wp_status
wp_workspace_init(struct wp_workspace *workspace, const char *path,
                  struct wp_err *err)
{
    char *root = realpath(path, NULL);
    bool fits;
    int probe;

    if (root == NULL) {
        return wp_err_set(err, WP_NOT_FOUND, "workspace %s: %s", path,
                          wp_os_error(errno));
    }
    fits = wp_str_copy(wp_str_from(root), workspace->root,
                       sizeof(workspace->root));
    free(root);
    if (!fits) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "workspace: path too long");
    }
    workspace->fd = open(workspace->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (workspace->fd < 0) {
        return wp_err_set(err, WP_FAILED_PRECONDITION, "workspace %s: %s",
                          workspace->root, wp_os_error(errno));
    }
    /* ENOSYS on old kernels and under gVisor, EPERM under some seccomp. */
    probe = open_beneath(workspace->fd, ".", O_PATH | O_CLOEXEC, 0);
    workspace->by_hand = probe < 0;
    if (probe >= 0) {
        close(probe);
    }
    return WP_OK;
}

void
wp_workspace_fini(struct wp_workspace *workspace)
{
    close(workspace->fd);
    workspace->fd = -1;
}

/* ----------------------------------------------------------------- paths */

int
wp_workspace_path_plain(const struct wp_workspace *workspace, const char *path,
                        char out[WP_WORKSPACE_PATH_MAX])
{
    size_t root_len = strlen(workspace->root);
    const char *rest = path;

    if (path[0] == '/' && path[strspn(path, "/")] != '\0') {
        if (strncmp(path, workspace->root, root_len) != 0) {
            return EXDEV;
        }
        rest = path + root_len;
        if (root_len > 1 && *rest != '\0' && *rest != '/') {
            return EXDEV;
        }
    }
    rest += strspn(rest, "/");
    if (!wp_str_copy(wp_str_from(*rest != '\0' ? rest : "."), out,
                     WP_WORKSPACE_PATH_MAX)) {
        return ENAMETOOLONG;
    }
    return 0;
}

int
wp_workspace_path(const struct wp_workspace *workspace, const char *encoded,
                  char out[WP_WORKSPACE_PATH_MAX])
{
    char plain[WP_WORKSPACE_PATH_MAX];
    size_t len = 0;

    for (const char *p = encoded; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;

        if (len + 1 >= sizeof(plain)) {
            return ENAMETOOLONG;
        }
        if (c == '%') {
            if (p[1] == '\0' ||
                !wp_hex_decode((struct wp_str){p + 1, 2}, &c, 1)) {
                return EINVAL;
            }
            p += 2;
        }
        if (c == '\0') {
            return EINVAL;
        }
        plain[len++] = (char)c;
    }
    plain[len] = '\0';
    return wp_workspace_path_plain(workspace, plain, out);
}

/* ----------------------------------------------------- the walk by hand */

/* Folders from the root down to where the walk is; [0] is the root. */
struct walk {
    int fds[WP_WORKSPACE_DEPTH_MAX];
    int depth; /* Index of the current folder. */
    int links;
    char rest[2 * WP_WORKSPACE_PATH_MAX]; /* What is still to be walked. */
};

/* Puts a link's target before what is left. 0 or an errno. */
static int
walk_link(struct walk *walk, const char *name, const char *rest)
{
    char target[2 * WP_WORKSPACE_PATH_MAX];
    ssize_t len = readlinkat(walk->fds[walk->depth], name, target,
                             WP_WORKSPACE_PATH_MAX - 1);
    size_t rest_len = strlen(rest);

    if (len < 0) {
        return errno;
    }
    if (target[0] == '/') {
        return EXDEV;
    }
    if (++walk->links > WP_WORKSPACE_LINKS_MAX) {
        return ELOOP;
    }
    if ((size_t)len + 1 + rest_len >= WP_WORKSPACE_PATH_MAX) {
        return ENAMETOOLONG;
    }
    target[len] = '/';
    memcpy(target + len + 1, rest, rest_len + 1);
    if (rest_len == 0) {
        target[len] = '\0';
    }
    memcpy(walk->rest, target, (size_t)len + 1 + rest_len + 1);
    return 0;
}

/* Handles the last component. A descriptor or a negative errno. */
static int
walk_last(const struct walk *walk, const char *name, int flags, mode_t mode)
{
    int fd = openat(walk->fds[walk->depth], name,
                    flags | O_NOFOLLOW | O_CLOEXEC, mode);

    return fd >= 0 ? fd : -errno;
}

static bool
is_link(const struct walk *walk, const char *name)
{
    struct stat st;

    return fstatat(walk->fds[walk->depth], name, &st, AT_SYMLINK_NOFOLLOW) ==
               0 &&
           S_ISLNK(st.st_mode);
}

/* Takes one component off walk->rest. Returns 1 to go on, else the result. */
static int
walk_step(struct walk *walk, int flags, mode_t mode)
{
    char name[WP_WORKSPACE_PATH_MAX];
    char *at = walk->rest + strspn(walk->rest, "/");
    size_t len = strcspn(at, "/");
    char *rest = at + len + strspn(at + len, "/");
    bool slash = at[len] == '/';
    int rc;

    memcpy(name, at, len);
    name[len] = '\0';
    if (len == 0 || strcmp(name, ".") == 0) {
        memmove(walk->rest, rest, strlen(rest) + 1);
        return *walk->rest != '\0' ? 1 : walk_last(walk, ".", flags, mode);
    }
    if (strcmp(name, "..") == 0) {
        if (walk->depth == 0) {
            return -EXDEV;
        }
        close(walk->fds[walk->depth--]);
        memmove(walk->rest, rest, strlen(rest) + 1);
        return *walk->rest != '\0' ? 1 : walk_last(walk, ".", flags, mode);
    }
    if (is_link(walk, name) && (*rest != '\0' || (flags & O_NOFOLLOW) == 0)) {
        rc = walk_link(walk, name, rest);
        return rc == 0 ? 1 : -rc;
    }
    if (*rest == '\0') {
        return walk_last(walk, name, flags | (slash ? O_DIRECTORY : 0), mode);
    }
    if (walk->depth + 1 == WP_WORKSPACE_DEPTH_MAX) {
        return -ENAMETOOLONG;
    }
    rc = openat(walk->fds[walk->depth], name,
                O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (rc < 0) {
        return -errno;
    }
    walk->fds[++walk->depth] = rc;
    memmove(walk->rest, rest, strlen(rest) + 1);
    return 1;
}

static int
open_by_hand(int dir, const char *path, int flags, mode_t mode)
{
    struct walk walk = {.depth = 0, .links = 0};
    size_t len = strlen(path);
    int rc = 1;

    if (path[0] == '/') {
        return -EXDEV;
    }
    if (len >= WP_WORKSPACE_PATH_MAX) {
        return -ENAMETOOLONG;
    }
    walk.fds[0] = dir;
    memcpy(walk.rest, path, len + 1);
    /* Ends: each step shortens rest, or spends one of the links. */
    while (rc == 1) {
        rc = walk_step(&walk, flags, mode);
        if (rc == 1 && walk.rest[0] == '\0') {
            rc = walk_last(&walk, ".", flags, mode);
            break;
        }
    }
    while (walk.depth > 0) {
        close(walk.fds[walk.depth--]);
    }
    return rc;
}

int
wp_workspace_open(const struct wp_workspace *workspace, const char *path,
                  int flags, mode_t mode)
{
    flags |= O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    if ((flags & O_PATH) != 0) {
        flags &= ~(O_NOCTTY | O_NONBLOCK);
    }
    return workspace->by_hand ? open_by_hand(workspace->fd, path, flags, mode)
                              : open_beneath(workspace->fd, path, flags, mode);
}

/* Opens the first len bytes of path as a folder, which it makes if missing. */
static int
open_or_make(const struct wp_workspace *workspace, const char *path, size_t len)
{
    char folder[WP_WORKSPACE_PATH_MAX];
    char *slash;
    int parent;
    int fd;

    memcpy(folder, path, len);
    folder[len] = '\0';
    fd = wp_workspace_open(workspace, folder, O_PATH | O_DIRECTORY, 0);
    if (fd != -ENOENT) {
        return fd;
    }
    slash = strrchr(folder, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
    parent = wp_workspace_open(workspace, slash != NULL ? folder : ".",
                               O_PATH | O_DIRECTORY, 0);
    if (parent < 0) {
        return parent;
    }
    if (mkdirat(parent, slash != NULL ? slash + 1 : folder, 0755) != 0 &&
        errno != EEXIST) {
        int os_errno = errno;

        close(parent);
        return -os_errno;
    }
    close(parent);
    memcpy(folder, path, len);
    folder[len] = '\0';
    return wp_workspace_open(workspace, folder, O_PATH | O_DIRECTORY, 0);
}

int
wp_workspace_open_parent(const struct wp_workspace *workspace, const char *path,
                         char name[256])
{
    const char *slash = strrchr(path, '/');
    const char *last = slash != NULL ? slash + 1 : path;
    int fd = -1;

    if (*last == '\0' || strcmp(last, ".") == 0 || strcmp(last, "..") == 0) {
        return strstr(path, "..") != NULL ? -EXDEV : -EISDIR;
    }
    if (!wp_str_copy(wp_str_from(last), name, 256)) {
        return -ENAMETOOLONG;
    }
    if (slash == NULL) {
        return wp_workspace_open(workspace, ".", O_PATH | O_DIRECTORY, 0);
    }
    for (size_t i = 1; path + i <= slash; i++) {
        if (path[i] != '/' || path[i - 1] == '/') {
            continue;
        }
        if (fd >= 0) {
            close(fd);
        }
        fd = open_or_make(workspace, path, i);
        if (fd < 0) {
            return fd;
        }
    }
    return fd >= 0 ? fd : -EINVAL;
}

static int
no_dots(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static int
by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

int
wp_workspace_scan(int dir, struct dirent ***names)
{
    return scandirat(dir, ".", names, no_dots, by_bytes);
}
