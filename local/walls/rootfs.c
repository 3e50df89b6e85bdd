#include "local/walls/rootfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/checkout/inside.h"
#include "pool/base/compiler.h"
#include "pool/base/file.h"
#include "pool/base/str.h"

/* Of the machine's root: programs and libraries; nothing that holds state. */
static const char *const host_dirs[] = {
    "usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32",
};

/* Mount points that every root has. */
static const char *const points[] = {
    "proc",
    "dev",
    "tmp",
    "workspace",
    "opt/warmpool/bin",
    "opt/warmpool/bound",
    "run",
    "var",
    "home",
    "root",
    "mnt",
    "srv",
};

/* Not taken from an image: made anew, or a sandbox's own. */
static const char *const image_skipped[] = {
    "proc", "dev", "sys", "tmp", "run", "workspace", "opt", "lost+found",
};

static bool
join(char out[WP_ROOT_PATH_MAX], const char *a, const char *b)
{
    int n = snprintf(out, WP_ROOT_PATH_MAX, "%s/%s", a, b);

    return n > 0 && n < WP_ROOT_PATH_MAX;
}

static enum wp_status
add_bind(struct wp_root *root, const char *from, const char *to,
         struct wp_err *err)
{
    struct wp_root_bind *bind = &root->binds[root->binds_len];

    if (root->binds_len == WP_ROOT_BINDS_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "the image has more than %d directories and files"
                          " at its top",
                          (int)WP_ROOT_BINDS_MAX);
    }
    bind->from = strdup(from);
    bind->to = strdup(to);
    root->binds_len++;
    if (bind->from == NULL || bind->to == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    return WP_OK;
}

/* A directory of the image whose entries are shown in the root's `below`. */
struct shown {
    int fd;
    const char *path;  /* Of fd, on the machine, without any link in it. */
    const char *below; /* "" or "/opt". */
};

/* An empty file, for a file of the image to be mounted on. Not opened to be
 * written: it may be there from before, and its owner need not be root. */
static enum wp_status
make_place(const char *here, struct wp_err *err)
{
    int fd = open(here, O_CREAT | O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0444);

    if (fd < 0) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno, "cannot make %s", here);
    }
    (void)close(fd);
    return WP_OK;
}

/* A link stays a link, which leads where it leads inside; a directory is
 * mounted, and so is a file, such as an image's program. */
static enum wp_status
show_entry(struct wp_root *root, const struct shown *shown, const char *name,
           struct wp_err *err)
{
    char from[WP_ROOT_PATH_MAX];
    char here[WP_ROOT_PATH_MAX];
    char target[WP_ROOT_PATH_MAX];
    struct stat st;
    enum wp_status status;
    ssize_t n;

    if (!join(from, shown->path, name) ||
        snprintf(here, sizeof here, "%s%s/%s", root->dir, shown->below, name) >=
            (int)sizeof here) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "image path is too long");
    }
    if (fstatat(shown->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return WP_OK;
    }
    if (S_ISLNK(st.st_mode)) {
        n = readlinkat(shown->fd, name, target, sizeof target - 1);
        if (n < 0) {
            return WP_OK;
        }
        target[n] = '\0';
        if (symlink(target, here) != 0 && errno != EEXIST) {
            return wp_err_sys(err, WP_UNAVAILABLE, errno, "cannot make %s",
                              here);
        }
        return WP_OK;
    }
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)) {
        return WP_OK;
    }
    status = S_ISDIR(st.st_mode) ? wp_dir_make(here, 0755, err)
                                 : make_place(here, err);
    if (status != WP_OK) {
        return status;
    }
    return add_bind(root, from, here + strlen(root->dir), err);
}

static enum wp_status
make_host(struct wp_root *root, struct wp_err *err)
{
    struct shown shown = {
        .fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC),
        .path = "",
        .below = "",
    };
    enum wp_status status = WP_OK;

    if (shown.fd < 0) {
        return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, errno, "cannot open /");
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(host_dirs) && status == WP_OK; i++) {
        status = show_entry(root, &shown, host_dirs[i], err);
    }
    (void)close(shown.fd);
    return status == WP_OK ? wp_root_make_etc(root, err) : status;
}

static bool
is_skipped(const char *name)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(image_skipped); i++) {
        if (strcmp(name, image_skipped[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Shows every entry of a directory, without those skipped. */
static enum wp_status
show_all(struct wp_root *root, const struct shown *shown, struct wp_err *err)
{
    enum wp_status status = WP_OK;
    const struct dirent *entry;
    DIR *dir = wp_folder_open(shown->fd, ".");

    while (dir != NULL && status == WP_OK &&
           (entry = wp_folder_next(dir)) != NULL) {
        const char *name = entry->d_name;

        if (shown->below[0] == '\0' ? is_skipped(name)
                                    : strcmp(name, "warmpool") == 0) {
            continue;
        }
        status = show_entry(root, shown, name, err);
    }
    if (status == WP_OK && errno != 0) {
        status = wp_err_sys(err, WP_NOT_FOUND, errno, "image directory %s",
                            shown->path);
    }
    wp_folder_close(dir);
    return status;
}

/* Does the error say that there is no such directory, rather than that it
 * cannot be opened now? */
static bool
is_no_directory(int error)
{
    return error == ENOENT || error == ENOTDIR || error == ELOOP;
}

/* Who made the image decides where its links lead: every path of it is resolved
 * inside it. */
static enum wp_status
make_image(struct wp_root *root, const char *image_dir, struct wp_err *err)
{
    char opt[WP_ROOT_PATH_MAX];
    struct shown shown = {
        .fd = open(image_dir, O_PATH | O_DIRECTORY | O_CLOEXEC),
        .path = image_dir,
        .below = "",
    };
    struct shown below = {.fd = -1, .path = opt, .below = "/opt"};
    enum wp_status status;

    if (shown.fd < 0) {
        return wp_err_sys(err, WP_NOT_FOUND, errno, "image directory %s",
                          image_dir);
    }
    status = show_all(root, &shown, err);
    if (status == WP_OK) {
        below.fd = wp_inside_open(shown.fd, "opt", WP_INSIDE_FOLLOW);
        if (below.fd < 0 && !is_no_directory(errno)) {
            status = wp_err_sys(err, WP_UNAVAILABLE, errno,
                                "/opt of image directory %s", image_dir);
        }
    }
    if (below.fd >= 0) {
        char here[WP_ROOT_PATH_MAX];

        status = wp_inside_path(below.fd, opt, sizeof opt) &&
                         join(here, root->dir, "opt")
                     ? wp_dir_make(here, 0755, err)
                     : wp_err_set(err, WP_INVALID_ARGUMENT,
                                  "the path of the image's /opt is too long");
        if (status == WP_OK) {
            status = show_all(root, &below, err);
        }
        (void)close(below.fd);
    }
    (void)close(shown.fd);
    return status;
}

static enum wp_status
refuse_point(const char *point, const struct wp_root_bind *bind, int error,
             struct wp_err *err)
{
    if (error == ELOOP || bind == NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "mountPath %s passes through a link of the image:"
                          " name the directory that the link leads to",
                          point);
    }
    return wp_err_set(err, WP_INVALID_ARGUMENT,
                      "mountPath %s is not a directory of the image, and"
                      " %s is read-only",
                      point, bind->to);
}

/* A volume's mount point is made here, or must be in the image already. */
static enum wp_status
make_point(const struct wp_root *root, int root_fd, const char *point,
           struct wp_err *err)
{
    for (size_t i = 0; i < root->binds_len; i++) {
        const struct wp_root_bind *bind = &root->binds[i];
        size_t len = strlen(bind->to);
        int error;
        int fd;

        if (strncmp(point, bind->to, len) != 0 || point[len] != '/') {
            continue;
        }
        fd = open(bind->from, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0) {
            int there = wp_inside_open(fd, point + len + 1, WP_INSIDE_NO_LINKS);

            error = errno;
            (void)close(fd);
            fd = there;
        } else {
            error = errno;
        }
        if (fd < 0) {
            return refuse_point(point, bind, error, err);
        }
        (void)close(fd);
        return WP_OK;
    }
    if (!wp_inside_make(root_fd, point, 0755)) {
        return errno == ENOTDIR || errno == ELOOP
                   ? refuse_point(point, NULL, errno, err)
                   : wp_err_sys(err, WP_UNAVAILABLE, errno,
                                "cannot make mountPath %s", point);
    }
    return WP_OK;
}

/* The directory that a file's mount point is in: the image's, or one that is
 * made here (*made). -1 with errno. */
static int
open_parent(const struct wp_root *root, int root_fd, struct wp_str parent,
            bool *made)
{
    char path[WP_ROOT_PATH_MAX];

    *made = false;
    if (!wp_str_copy(parent, path, sizeof path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    for (size_t i = 0; i < root->binds_len; i++) {
        const struct wp_root_bind *bind = &root->binds[i];
        size_t len = strlen(bind->to);
        int there;
        int fd;

        if (strncmp(path, bind->to, len) != 0 ||
            (path[len] != '/' && path[len] != '\0')) {
            continue;
        }
        fd = open(bind->from, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || path[len] == '\0') {
            return fd;
        }
        there = wp_inside_open(fd, path + len + 1, WP_INSIDE_NO_LINKS);
        (void)close(fd);
        return there;
    }
    *made = true;
    return path[0] == '\0' || wp_inside_make(root_fd, path + 1, 0755)
               ? wp_inside_open(root_fd, path[0] != '\0' ? path + 1 : ".",
                                WP_INSIDE_NO_LINKS)
               : -1;
}

/* The file of a volume covers one that is there, or an empty one that is made
 * here. */
static enum wp_status
make_file_point(const struct wp_root *root, int root_fd, const char *point,
                struct wp_err *err)
{
    const char *base = strrchr(point, '/') + 1;
    struct stat st;
    bool made;
    bool fits;
    int fd =
        open_parent(root, root_fd,
                    (struct wp_str){point, (size_t)(base - point) - 1}, &made);

    if (fd >= 0 && made) {
        int file =
            openat(fd, base, O_CREAT | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0444);

        if (file >= 0) {
            (void)close(file);
        }
    }
    fits = fd >= 0 && fstatat(fd, base, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISREG(st.st_mode);
    if (fd >= 0) {
        (void)close(fd);
    }
    return fits ? WP_OK
                : wp_err_set(err, WP_INVALID_ARGUMENT,
                             "mountPath %s with subPath is not a file of the"
                             " image, which is read-only",
                             point);
}

static enum wp_status
make_mount_point(const struct wp_root *root, int root_fd,
                 const struct wp_template_mount *mount, struct wp_err *err)
{
    switch (mount->kind) {
    case WP_MOUNT_FILE:
        return make_file_point(root, root_fd, mount->path, err);
    case WP_MOUNT_EMPTY:
    case WP_MOUNT_FILES:
        return make_point(root, root_fd, mount->path, err);
    case WP_MOUNT_NONE:
        break;
    }
    return WP_OK;
}

static enum wp_status
make_points(const struct wp_root *root, const struct wp_template *tmpl,
            struct wp_err *err)
{
    int fd = open(root->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    enum wp_status status = WP_OK;

    if (fd < 0) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno, "%s", root->dir);
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(points) && status == WP_OK; i++) {
        /* An image may have a link there, where nothing of ours is mounted. */
        if (!wp_inside_make(fd, points[i], 0755) && errno != ENOTDIR) {
            status = wp_err_sys(err, WP_UNAVAILABLE, errno, "cannot make %s/%s",
                                root->dir, points[i]);
        }
    }
    for (uint32_t i = 0; i < tmpl->mounts_len && status == WP_OK; i++) {
        status = make_mount_point(root, fd, &tmpl->mounts[i], err);
    }
    (void)close(fd);
    return status;
}

enum wp_status
wp_root_make(struct wp_root *root, const char *dir, const char *image_dir,
             const struct wp_template *tmpl, struct wp_err *err)
{
    enum wp_status status;
    char path[WP_ROOT_PATH_MAX];

    root->binds_len = 0;
    if (!wp_str_copy(wp_str_from(dir), root->dir, sizeof root->dir)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "state path is too long");
    }
    status = wp_dir_make(dir, 0755, err);
    if (status == WP_OK) {
        status = image_dir == NULL ? make_host(root, err)
                                   : make_image(root, image_dir, err);
    }
    if (status == WP_OK) {
        status = make_points(root, tmpl, err);
    }
    /* Programs that insist on /var get places that lead to writable ones. */
    if (status == WP_OK && image_dir == NULL && join(path, dir, "var/tmp") &&
        symlink("/tmp", path) != 0 && errno != EEXIST) {
        status = wp_err_sys(err, WP_UNAVAILABLE, errno, "cannot make %s", path);
    }
    return status;
}

void
wp_root_fini(struct wp_root *root)
{
    while (root->binds_len > 0) {
        root->binds_len--;
        free(root->binds[root->binds_len].from);
        free(root->binds[root->binds_len].to);
    }
}
