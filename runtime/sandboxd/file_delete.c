/* DELETE of a file or a folder. A tree is taken down a piece at a time, so that
 * a large one keeps nobody waiting; no link is followed. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/base/log.h"
#include "runtime/sandboxd/query.h"
#include "runtime/sandboxd/rest.h"

enum {
    DEPTH_MAX = 128, /* Each level holds a descriptor. */
    ENTRIES_PER_TURN = 256,
    BODY_MAX = 4096,
};

struct level {
    DIR *dir;
    char name[256]; /* In the level above. */
};

/* Lives until the answer; user of the request. */
struct removal {
    struct wp_http_req *req;
    struct event *turn;
    int parent;     /* The folder of what is removed; -1: none is left. */
    bool keep_root; /* Only what is in it. */
    size_t depth;
    struct level levels[DEPTH_MAX];
};

static void
removal_free(struct removal *removal)
{
    while (removal->depth > 0) {
        closedir(removal->levels[--removal->depth].dir);
    }
    if (removal->parent >= 0) {
        close(removal->parent);
    }
    if (removal->turn != NULL) {
        event_free(removal->turn);
    }
    free(removal);
}

static void
removal_end(struct removal *removal, int os_errno)
{
    struct wp_http_req *req = removal->req;

    wp_http_set_user(req, NULL);
    removal_free(removal);
    if (os_errno != 0) {
        wp_sandboxd_fail_errno(req, os_errno);
        return;
    }
    wp_log_info("files removed");
    wp_http_reply(req, 204, NULL, NULL, 0);
}

/* Takes fd. 0 or an errno. */
static int
enter(struct removal *removal, int fd, const char *name)
{
    struct level *level = &removal->levels[removal->depth];

    level->dir = fdopendir(fd);
    if (level->dir == NULL) {
        int os_errno = errno;

        close(fd);
        return os_errno;
    }
    memcpy(level->name, name, strlen(name) + 1);
    removal->depth++;
    return 0;
}

/* Removes an entry, or goes into it. 0 or an errno. */
static int
remove_entry(struct removal *removal, const char *name)
{
    int dir = dirfd(removal->levels[removal->depth - 1].dir);
    int fd;

    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT) {
        return 0;
    }
    if (errno != EISDIR && errno != EPERM) {
        return errno;
    }
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0) {
        return 0;
    }
    if (errno != ENOTEMPTY && errno != EEXIST) {
        return errno;
    }
    if (removal->depth == DEPTH_MAX) {
        return ENAMETOOLONG;
    }
    fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? errno : enter(removal, fd, name);
}

/* The innermost folder is empty: goes out of it, and removes it. 0 or an
 * errno. */
static int
leave(struct removal *removal)
{
    struct level *level = &removal->levels[--removal->depth];
    int above;

    closedir(level->dir);
    if (removal->depth == 0 && removal->keep_root) {
        return 0;
    }
    above = removal->depth > 0 ? dirfd(removal->levels[removal->depth - 1].dir)
                               : removal->parent;
    return unlinkat(above, level->name, AT_REMOVEDIR) == 0 || errno == ENOENT
               ? 0
               : errno;
}

static void
on_turn(evutil_socket_t fd, short what, void *arg)
{
    struct removal *removal = arg;
    int rc = 0;

    (void)fd;
    (void)what;
    for (int i = 0; i < ENTRIES_PER_TURN && rc == 0 && removal->depth > 0;
         i++) {
        const struct dirent *entry =
            readdir(removal->levels[removal->depth - 1].dir);

        if (entry == NULL) {
            rc = leave(removal);
        } else if (strcmp(entry->d_name, ".") != 0 &&
                   strcmp(entry->d_name, "..") != 0) {
            rc = remove_entry(removal, entry->d_name);
        }
    }
    if (rc != 0 || removal->depth == 0) {
        removal_end(removal, rc);
    } else {
        event_active(removal->turn, EV_TIMEOUT, 0);
    }
}

/* Takes parent. name lies in it, or is "." with keep_root. */
static void
removal_begin(struct wp_http_req *req, int parent, const char *name,
              bool keep_root)
{
    struct removal *removal = calloc(1, sizeof(*removal));
    int rc = ENOMEM;
    int fd;

    if (removal == NULL) {
        close(parent);
        wp_sandboxd_fail_errno(req, rc);
        return;
    }
    removal->req = req;
    removal->parent = parent;
    removal->keep_root = keep_root;
    removal->turn = evtimer_new(wp_runtime_of(req)->base, on_turn, removal);
    if (removal->turn != NULL) {
        fd = openat(parent, name,
                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        rc = fd < 0 ? errno : enter(removal, fd, name);
    }
    if (rc != 0) {
        removal_end(removal, rc);
        return;
    }
    wp_http_set_user(req, removal);
    event_active(removal->turn, EV_TIMEOUT, 0);
}

/* The folder of path, which is not made when missing, and the last component. A
 * descriptor or a negative errno. */
static int
open_parent(const struct wp_workspace *workspace, char *path, char name[256])
{
    size_t len = strlen(path);
    char *slash;

    while (len > 0 && path[len - 1] == '/') {
        path[--len] = '\0';
    }
    slash = strrchr(path, '/');
    if (strcmp(slash != NULL ? slash + 1 : path, ".") == 0) {
        return -EINVAL;
    }
    if (strcmp(slash != NULL ? slash + 1 : path, "..") == 0) {
        return -EXDEV;
    }
    if (!wp_str_copy(wp_str_from(slash != NULL ? slash + 1 : path), name,
                     256)) {
        return -ENAMETOOLONG;
    }
    if (slash != NULL) {
        *slash = '\0';
    }
    return wp_workspace_open(workspace, slash != NULL ? path : ".",
                             O_RDONLY | O_DIRECTORY, 0);
}

static void
remove_path(struct wp_http_req *req, char *path, bool recursive)
{
    const struct wp_workspace *workspace = &wp_runtime_of(req)->workspace;
    char name[256];
    int parent;
    int rc = 0;

    if (strcmp(path, ".") == 0) {
        parent = wp_workspace_open(workspace, ".", O_RDONLY | O_DIRECTORY, 0);
        if (parent < 0) {
            wp_sandboxd_fail_errno(req, -parent);
        } else if (recursive) {
            removal_begin(req, parent, ".", true);
        } else {
            close(parent);
            wp_sandboxd_fail(req, 409, "CONFLICT",
                             "path: the workspace itself stays; "
                             "recursive=true empties it");
        }
        return;
    }
    parent = open_parent(workspace, path, name);
    if (parent < 0) {
        wp_sandboxd_fail_errno(req, -parent);
        return;
    }
    if (unlinkat(parent, name, 0) != 0) {
        rc = errno;
        if ((rc == EISDIR || rc == EPERM) &&
            unlinkat(parent, name, AT_REMOVEDIR) != 0) {
            rc = errno == ENOTDIR ? rc : errno;
        } else if (rc == EISDIR || rc == EPERM) {
            rc = 0;
        }
    }
    if (recursive && (rc == ENOTEMPTY || rc == EEXIST)) {
        removal_begin(req, parent, name, false);
        return;
    }
    close(parent);
    if (rc != 0) {
        wp_sandboxd_fail_errno(req, rc == EEXIST ? ENOTEMPTY : rc);
        return;
    }
    wp_log_info("file removed");
    wp_http_reply(req, 204, NULL, NULL, 0);
}

static void
delete_ready(struct wp_http_req *req)
{
    char path[WP_WORKSPACE_PATH_MAX];
    struct wp_str text;
    bool recursive = false;

    if (wp_query_find(wp_http_query(req), "recursive", &text) &&
        !wp_query_bool(text, &recursive)) {
        wp_sandboxd_fail(req, 400, "INVALID_ARGUMENT",
                         "recursive: true or false is expected");
    } else if (wp_sandboxd_path(req, path)) {
        remove_path(req, path, recursive);
    }
}

/* Nobody waits for the answer: what is gone is gone, and the rest stays. */
static void
delete_gone(struct wp_http_req *req)
{
    if (wp_http_user(req) != NULL) {
        removal_free(wp_http_user(req));
    }
}

const struct wp_http_ops wp_sandboxd_delete_ops = {
    .body_max = BODY_MAX,
    .ready = delete_ready,
    .gone = delete_gone,
};
