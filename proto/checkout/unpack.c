#include "proto/checkout/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/checkout/tree_image.h"
#include "proto/checkout/inside.h"
#include "pool/base/str.h"

struct unpacking {
    int top;    /* The folder below which all goes. */
    int parent; /* Of the latest entry; -1: none yet. */
    size_t parent_len;
    char path[WP_TREE_PATH_MAX + 1];
    char parent_path[WP_TREE_PATH_MAX + 1];
};

/* Opens the folder that holds u->path, unless the last entry was in it, too.
 * Returns the last part of the path; NULL with errno. */
static const char *
enter_parent(struct unpacking *u)
{
    char *slash = strrchr(u->path, '/');
    size_t len = slash != NULL ? (size_t)(slash - u->path) : 0;
    const char *name = slash != NULL ? slash + 1 : u->path;

    if (u->path[0] == '/' || name[0] == '\0' || strcmp(name, ".") == 0 ||
        strcmp(name, "..") == 0) {
        errno = EINVAL;
        return NULL;
    }
    if (u->parent >= 0 && len == u->parent_len &&
        memcmp(u->path, u->parent_path, len) == 0) {
        return name;
    }
    if (u->parent >= 0) {
        (void)close(u->parent);
    }
    memcpy(u->parent_path, u->path, len);
    u->parent_path[len] = '\0';
    u->parent_len = len;
    u->parent = wp_inside_open(u->top, len > 0 ? u->parent_path : ".",
                               WP_INSIDE_NO_LINKS);
    return u->parent >= 0 ? name : NULL;
}

static bool
write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);

        if (n <= 0) {
            return false;
        }
        bytes += n;
        len -= (size_t)n;
    }
    return true;
}

static bool
put_folder(int parent, const char *name)
{
    struct stat st;

    if (mkdirat(parent, name, 0755) == 0) {
        return fchmodat(parent, name, 0755, 0) == 0;
    }
    if (errno != EEXIST ||
        fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return false;
    }
    errno = ENOTDIR;
    return S_ISDIR(st.st_mode);
}

static bool
put_file(int parent, const char *name, const struct wp_tree_entry *entry)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(parent, name, flags, 0600);
    bool ok;
    int error;

    if (fd < 0 && errno == EEXIST && unlinkat(parent, name, 0) == 0) {
        fd = openat(parent, name, flags, 0600);
    }
    if (fd < 0) {
        return false;
    }
    ok = write_all(fd, entry->content, entry->content_len) &&
         fchmod(fd, (mode_t)entry->mode) == 0;
    error = errno;
    (void)close(fd);
    errno = error;
    return ok;
}

static bool
put_link(int parent, const char *name, const struct wp_tree_entry *entry)
{
    char target[WP_TREE_PATH_MAX + 1];

    if (entry->content_len == 0 || entry->content_len >= sizeof target) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(target, entry->content, entry->content_len);
    target[entry->content_len] = '\0';
    return symlinkat(target, parent, name) == 0 ||
           (errno == EEXIST && unlinkat(parent, name, 0) == 0 &&
            symlinkat(target, parent, name) == 0);
}

static bool
put_entry(struct unpacking *u, const struct wp_tree_entry *entry)
{
    const char *name;

    memcpy(u->path, entry->path, entry->path_len);
    u->path[entry->path_len] = '\0';
    name = enter_parent(u);
    if (name == NULL) {
        return false;
    }
    switch ((enum wp_tree_kind)entry->kind) {
    case WP_TREE_FOLDER:
        return put_folder(u->parent, name);
    case WP_TREE_FILE:
        return put_file(u->parent, name, entry);
    case WP_TREE_LINK:
        return put_link(u->parent, name, entry);
    }
    return false;
}

/* The folder that all goes into; -1 with errno. */
static int
open_top(const char *workspace, const char *dir)
{
    int fd = open(workspace, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int top = -1;
    int error;

    if (fd < 0 || dir[0] == '\0') {
        return fd;
    }
    if (wp_inside_make(fd, dir, 0755)) {
        top = wp_inside_open(fd, dir, WP_INSIDE_NO_LINKS);
    }
    error = errno;
    (void)close(fd);
    errno = error;
    return top;
}

bool
wp_unpack(const char *workspace, const char *dir, const uint8_t *image,
          size_t len, char why[WP_UNPACK_WHY_MAX])
{
    struct unpacking u = {.top = open_top(workspace, dir), .parent = -1};
    struct wp_tree_image rest = {image, image + len};
    struct wp_tree_entry entry;
    char shown[WP_STR_SHOWN_MAX];
    bool ok = u.top >= 0;

    if (!ok) {
        (void)snprintf(why, WP_UNPACK_WHY_MAX, "folder '%s': %s",
                       wp_str_shown(wp_str_from(dir), shown), strerror(errno));
    }
    while (ok && wp_tree_next(&rest, &entry)) {
        ok = put_entry(&u, &entry);
        if (!ok) {
            (void)snprintf(why, WP_UNPACK_WHY_MAX, "'%s': %s",
                           wp_str_shown(wp_str_from(u.path), shown),
                           strerror(errno));
        }
    }
    if (ok && rest.pos != rest.end) {
        (void)snprintf(why, WP_UNPACK_WHY_MAX, "what came is no tree");
        ok = false;
    }
    if (u.parent >= 0) {
        (void)close(u.parent);
    }
    if (u.top >= 0) {
        (void)close(u.top);
    }
    return ok;
}
