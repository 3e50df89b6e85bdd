#include "local/fetch/tree_write.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/checkout/tree_image.h"
#include "pool/base/file.h"
#include "pool/base/str.h"

enum {
    DEPTH_MAX = 128,
    BUFFER_BYTES = 256 << 10,
};

struct writing {
    int fd;
    uint64_t left;
    uint64_t max;
    uint32_t entries;
    uint32_t depth;
    char *why;
    char path[WP_TREE_PATH_MAX + 1];
    size_t path_len;
    size_t used;
    uint8_t buffer[BUFFER_BYTES];
};

static bool
refuse(struct writing *w, const char *what)
{
    char shown[WP_STR_SHOWN_MAX];

    (void)snprintf(w->why, WP_TREE_WHY_MAX, "'%s': %s",
                   wp_str_shown((struct wp_str){w->path, w->path_len}, shown),
                   what);
    return false;
}

static bool
flush(struct writing *w)
{
    size_t at = 0;

    while (at < w->used) {
        ssize_t n = write(w->fd, w->buffer + at, w->used - at);

        if (n <= 0) {
            /* Whatever entry is the next: the buffer holds several. */
            (void)snprintf(w->why, WP_TREE_WHY_MAX,
                           "its image cannot be written: %s", strerror(errno));
            return false;
        }
        at += (size_t)n;
    }
    w->used = 0;
    return true;
}

static bool
append(struct writing *w, const void *bytes, size_t len)
{
    if (len > w->left) {
        (void)snprintf(w->why, WP_TREE_WHY_MAX,
                       "it is larger than %" PRIu64
                       " bytes (setting git_repository_size)",
                       w->max);
        return false;
    }
    w->left -= len;
    while (len > 0) {
        size_t room = sizeof w->buffer - w->used;
        size_t n = len < room ? len : room;

        memcpy(w->buffer + w->used, bytes, n);
        w->used += n;
        bytes = (const uint8_t *)bytes + n;
        len -= n;
        if (w->used == sizeof w->buffer && !flush(w)) {
            return false;
        }
    }
    return true;
}

static bool
put_head(struct writing *w, enum wp_tree_kind kind, uint32_t mode, uint32_t len)
{
    const struct wp_tree_entry entry = {
        .kind = kind,
        .mode = mode,
        .path_len = (uint32_t)w->path_len,
        .content_len = len,
    };
    uint8_t head[WP_TREE_HEAD];

    wp_tree_put_head(&entry, head);
    return append(w, head, sizeof head) && append(w, w->path, w->path_len);
}

static bool
put_link(struct writing *w, int dir, const char *name)
{
    char target[WP_TREE_PATH_MAX + 1];
    ssize_t n = readlinkat(dir, name, target, sizeof target);

    if (n <= 0 || (size_t)n == sizeof target) {
        return refuse(w, "its link cannot be read");
    }
    return put_head(w, WP_TREE_LINK, 0, (uint32_t)n) &&
           append(w, target, (size_t)n);
}

static bool
put_content(struct writing *w, int fd, uint64_t len)
{
    static uint8_t piece[BUFFER_BYTES];

    while (len > 0) {
        ssize_t n = read(fd, piece, len < sizeof piece ? len : sizeof piece);

        if (n <= 0) {
            return refuse(w, "it cannot be read");
        }
        if (!append(w, piece, (size_t)n)) {
            return false;
        }
        len -= (uint64_t)n;
    }
    return true;
}

static bool
put_file(struct writing *w, int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    bool ok;

    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        ok = refuse(w, "it cannot be read");
    } else if ((uint64_t)st.st_size > UINT32_MAX) {
        ok = refuse(w, "it is too large");
    } else {
        ok = put_head(w, WP_TREE_FILE, st.st_mode & 0777,
                      (uint32_t)st.st_size) &&
             put_content(w, fd, (uint64_t)st.st_size);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return ok;
}

/* As deep as folders are, DEPTH_MAX at most. NOLINTBEGIN(misc-no-recursion) */
static bool put_folder(struct writing *w, int dir, const char *name);

static bool
put_entry(struct writing *w, int dir, const char *name)
{
    struct stat st;

    if (++w->entries > WP_TREE_ENTRIES_MAX) {
        return refuse(w, "there are more than 200000 files");
    }
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return refuse(w, strerror(errno));
    }
    if (S_ISDIR(st.st_mode)) {
        return put_head(w, WP_TREE_FOLDER, 0, 0) && put_folder(w, dir, name);
    }
    if (S_ISLNK(st.st_mode)) {
        return put_link(w, dir, name);
    }
    if (S_ISREG(st.st_mode)) {
        return put_file(w, dir, name);
    }
    return refuse(w, "a file, a folder or a link expected");
}

/* Every entry of it, with its name behind the path. */
static bool
put_entries(struct writing *w, DIR *entries)
{
    size_t own = w->path_len;
    const struct dirent *entry;
    bool ok = true;

    while (ok && (entry = wp_folder_next(entries)) != NULL) {
        size_t len = strlen(entry->d_name);
        size_t slash = own > 0 ? 1 : 0;

        if (own + slash + len > WP_TREE_PATH_MAX) {
            return refuse(w, "its path is too long");
        }
        w->path[own] = '/';
        memcpy(w->path + own + slash, entry->d_name, len);
        w->path_len = own + slash + len;
        ok = put_entry(w, dirfd(entries), entry->d_name);
    }
    if (ok && errno != 0) {
        w->path_len = own;
        return refuse(w, strerror(errno));
    }
    return ok;
}

static bool
put_folder(struct writing *w, int dir, const char *name)
{
    DIR *entries = wp_folder_open(dir, name);
    bool ok;

    if (entries == NULL) {
        return refuse(w, strerror(errno));
    }
    ok = ++w->depth <= DEPTH_MAX ? put_entries(w, entries)
                                 : refuse(w, "its folders are too deep");
    w->depth--;
    wp_folder_close(entries);
    return ok;
}
/* NOLINTEND(misc-no-recursion) */

bool
wp_tree_write(const char *dir, int fd, uint64_t max, char why[WP_TREE_WHY_MAX])
{
    static struct writing w;

    memset(&w, 0, sizeof w);
    w.fd = fd;
    w.left = max;
    w.max = max;
    w.why = why;
    return put_folder(&w, AT_FDCWD, dir) && flush(&w);
}
