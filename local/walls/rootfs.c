#include "local/walls/rootfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/base/compiler.h"
#include "pool/base/str.h"

enum {
    ETC_FILE_MAX = 1 << 20,
    ETC_FILES_MAX = 20000,
};

/* Of the machine's root: programs and libraries; nothing that holds state. */
static const char *const host_dirs[] = {
    "usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32",
};

/* Of the machine's /etc: what programs need to run, world-readable files only.
 * Accounts, hosts and resolver are written anew. */
static const char *const host_etc[] = {
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "debian_version",
    "fonts",
    "java-11-openjdk",
    "java-17-openjdk",
    "java-21-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "locale.alias",
    "locale.conf",
    "locale.gen",
    "lsb-release",
    "magic",
    "mailcap",
    "mime.types",
    "nanorc",
    "networks",
    "os-release",
    "perl",
    "php",
    "pki",
    "profile",
    "profile.d",
    "protocols",
    "python3",
    "python3.11",
    "python3.12",
    "python3.13",
    "R",
    "services",
    "skel",
    "ssl",
    "terminfo",
    "timezone",
    "vim",
    "xattr.conf",
};

static const struct {
    const char *name;
    const char *text;
} written_etc[] = {
    {"passwd", "root:x:0:0:root:/root:/bin/sh\n"
               "sandbox:x:1000:1000:sandbox:" WP_ROOT_WORKSPACE ":/bin/sh\n"
               "nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"},
    {"group", "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n"},
    {"hosts", "127.0.0.1 localhost\n::1 localhost\n"},
    {"nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"
                      "services: files\nprotocols: files\n"},
    {"resolv.conf", "# A sandbox has no network beyond its own loopback.\n"},
    {"shells", "/bin/sh\n/bin/bash\n"},
};

/* Mount points that every root has. */
static const char *const points[] = {
    "proc", "dev",  "tmp", "workspace", "opt/warmpool/bin", "run", "var",
    "home", "root", "mnt", "srv",
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

enum wp_status
wp_dir_remove(const char *dir, struct wp_err *err)
{
    char *const paths[] = {strdup(dir), NULL};
    enum wp_status status = WP_OK;
    FTSENT *entry;
    FTS *fts;

    if (paths[0] == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    fts = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
    while (fts != NULL && (entry = fts_read(fts)) != NULL) {
        int rc = 0;

        if (entry->fts_info == FTS_DP) {
            rc = rmdir(entry->fts_accpath);
        } else if (entry->fts_info != FTS_D && entry->fts_info != FTS_NS) {
            rc = unlink(entry->fts_accpath);
        }
        if (rc != 0 && errno != ENOENT && status == WP_OK) {
            status = wp_err_sys(err, WP_UNAVAILABLE, errno, "cannot remove %s",
                                entry->fts_path);
        }
    }
    if (fts != NULL) {
        (void)fts_close(fts);
    }
    free(paths[0]);
    return status;
}

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

    if (in < 0) {
        return wp_err_sys(err, WP_NOT_FOUND, errno, "cannot read %s", from);
    }
    if (snprintf(part, sizeof part, "%s.part", to) < (int)sizeof part) {
        (void)unlink(part);
        out = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    }
    if (out < 0 || !copy_bytes(in, out) || fchmod(out, mode) != 0 ||
        close(out) != 0 || rename(part, to) != 0) {
        status = wp_err_sys(err, WP_UNAVAILABLE, errno, "cannot write %s", to);
        (void)unlink(part);
    }
    (void)close(in);
    return status;
}

static enum wp_status
write_file(const char *path, const char *text, struct wp_err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    size_t len = strlen(text);

    if (fd < 0 || write(fd, text, len) != (ssize_t)len ||
        fchmod(fd, 0644) != 0) {
        enum wp_status status =
            wp_err_sys(err, WP_UNAVAILABLE, errno, "cannot write %s", path);

        if (fd >= 0) {
            (void)close(fd);
        }
        return status;
    }
    (void)close(fd);
    return WP_OK;
}

static enum wp_status
add_bind(struct wp_root *root, const char *from, const char *to,
         struct wp_err *err)
{
    struct wp_root_bind *bind = &root->binds[root->binds_len];

    if (root->binds_len == WP_ROOT_BINDS_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "the image has more than %d top directories",
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

/* Shows image_dir/name as /name: a link stays a link, a directory is mounted.
 */
static enum wp_status
show_entry(struct wp_root *root, const char *image_dir, const char *name,
           struct wp_err *err)
{
    char from[WP_ROOT_PATH_MAX];
    char here[WP_ROOT_PATH_MAX];
    char target[WP_ROOT_PATH_MAX];
    struct stat st;
    enum wp_status status;
    ssize_t n;

    if (!join(from, image_dir, name) || !join(here, root->dir, name)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "image path is too long");
    }
    if (lstat(from, &st) != 0) {
        return WP_OK;
    }
    if (S_ISLNK(st.st_mode)) {
        n = readlink(from, target, sizeof target - 1);
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
    if (!S_ISDIR(st.st_mode)) {
        return WP_OK;
    }
    status = wp_dir_make(here, 0755, err);
    if (status != WP_OK) {
        return status;
    }
    return add_bind(root, from, here + strlen(root->dir), err);
}

static bool
copied(const FTSENT *entry)
{
    return (entry->fts_statp->st_mode & S_IROTH) != 0 &&
           entry->fts_statp->st_size <= ETC_FILE_MAX;
}

static enum wp_status
copy_entry(const FTSENT *entry, const char *to, struct wp_err *err)
{
    char target[WP_ROOT_PATH_MAX];
    ssize_t n;

    switch (entry->fts_info) {
    case FTS_D:
        return wp_dir_make(to, 0755, err);
    case FTS_F:
        return copied(entry) ? wp_file_copy(entry->fts_accpath, to, 0644, err)
                             : WP_OK;
    case FTS_SL:
    case FTS_SLNONE:
        n = readlink(entry->fts_accpath, target, sizeof target - 1);
        if (n > 0) {
            target[n] = '\0';
            if (symlink(target, to) != 0 && errno != EEXIST) {
                return wp_err_sys(err, WP_UNAVAILABLE, errno, "cannot make %s",
                                  to);
            }
        }
        return WP_OK;
    default:
        return WP_OK;
    }
}

static enum wp_status
copy_etc(struct wp_root *root, const char *name, unsigned *files,
         struct wp_err *err)
{
    char from[WP_ROOT_PATH_MAX];
    char to[WP_ROOT_PATH_MAX];
    char *const paths[] = {from, NULL};
    enum wp_status status = WP_OK;
    FTSENT *entry;
    FTS *fts;

    if (!join(from, "/etc", name)) {
        return WP_OK;
    }
    fts = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
    while (fts != NULL && status == WP_OK && (entry = fts_read(fts)) != NULL) {
        if (entry->fts_info == FTS_D &&
            (entry->fts_statp->st_mode & S_IROTH) == 0) {
            (void)fts_set(fts, entry, FTS_SKIP); /* Closed to all but root. */
            continue;
        }
        if (++*files > ETC_FILES_MAX) {
            status = wp_err_set(err, WP_INVALID_ARGUMENT,
                                "/etc/%s has too many files", name);
        } else if (join(to, root->dir, entry->fts_path + 1)) {
            status = copy_entry(entry, to, err);
        }
    }
    if (fts != NULL) {
        (void)fts_close(fts);
    }
    return status;
}

static enum wp_status
make_host_etc(struct wp_root *root, struct wp_err *err)
{
    enum wp_status status;
    char path[WP_ROOT_PATH_MAX];
    unsigned files = 0;

    if (!join(path, root->dir, "etc")) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "state path is too long");
    }
    status = wp_dir_make(path, 0755, err);
    for (size_t i = 0; i < WP_ARRAY_LEN(host_etc) && status == WP_OK; i++) {
        status = copy_etc(root, host_etc[i], &files, err);
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(written_etc) && status == WP_OK; i++) {
        char file[WP_ROOT_PATH_MAX];

        if (join(file, path, written_etc[i].name)) {
            status = write_file(file, written_etc[i].text, err);
        }
    }
    return status;
}

static enum wp_status
make_host(struct wp_root *root, struct wp_err *err)
{
    enum wp_status status = WP_OK;

    for (size_t i = 0; i < WP_ARRAY_LEN(host_dirs) && status == WP_OK; i++) {
        status = show_entry(root, "", host_dirs[i], err);
    }
    return status == WP_OK ? make_host_etc(root, err) : status;
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

/* Shows every entry of image_dir/below (or image_dir), without those skipped.
 */
static enum wp_status
show_all(struct wp_root *root, const char *image_dir, const char *below,
         struct wp_err *err)
{
    char path[WP_ROOT_PATH_MAX];
    enum wp_status status = WP_OK;
    struct dirent *entry;
    DIR *dir;

    if (!join(path, image_dir, below)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "image path is too long");
    }
    dir = opendir(path);
    if (dir == NULL) {
        return *below != '\0' && errno == ENOENT
                   ? WP_OK
                   : wp_err_sys(err, WP_NOT_FOUND, errno, "image directory %s",
                                path);
    }
    while (status == WP_OK && (entry = readdir(dir)) != NULL) {
        char name[WP_ROOT_PATH_MAX];

        if (strcmp(entry->d_name, ".") == 0 ||
            strcmp(entry->d_name, "..") == 0 ||
            (*below == '\0' && is_skipped(entry->d_name)) ||
            (*below != '\0' && strcmp(entry->d_name, "warmpool") == 0)) {
            continue;
        }
        if (*below == '\0') {
            status = show_entry(root, image_dir, entry->d_name, err);
        } else if (join(name, below, entry->d_name)) {
            status = show_entry(root, image_dir, name, err);
        }
    }
    (void)closedir(dir);
    return status;
}

/* A volume's mount point is made here, or must be in the image already. */
static enum wp_status
make_point(struct wp_root *root, const char *point, struct wp_err *err)
{
    char path[WP_ROOT_PATH_MAX];

    if (!join(path, root->dir, point)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "mountPath is too long");
    }
    for (size_t i = 0; i < root->binds_len; i++) {
        const struct wp_root_bind *bind = &root->binds[i];
        size_t len = strlen(bind->to);
        struct stat st;

        if (strncmp(point, bind->to, len) != 0 || point[len] != '/') {
            continue;
        }
        if (!join(path, bind->from, point + len + 1) || stat(path, &st) != 0 ||
            !S_ISDIR(st.st_mode)) {
            return wp_err_set(
                err, WP_INVALID_ARGUMENT,
                "mountPath %s is not a directory of the image, and"
                " %s is read-only",
                point, bind->to);
        }
        return WP_OK;
    }
    return wp_dir_make(path, 0755, err);
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
    if (status == WP_OK && image_dir == NULL) {
        status = make_host(root, err);
    } else if (status == WP_OK) {
        status = show_all(root, image_dir, "", err);
        if (status == WP_OK) {
            status = show_all(root, image_dir, "opt", err);
        }
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(points) && status == WP_OK; i++) {
        if (join(path, dir, points[i])) {
            status = wp_dir_make(path, 0755, err);
        }
    }
    for (uint32_t i = 0; i < tmpl->mounts_len && status == WP_OK; i++) {
        status = make_point(root, tmpl->mounts[i].path, err);
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
