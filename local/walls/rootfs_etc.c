/* local/walls/rootfs_etc.c - the /etc of `image: host`: a short copy of the
 * machine's, without anything that is its own. */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "local/walls/rootfs.h"
#include "pool/base/compiler.h"

enum {
    ETC_FILE_MAX = 1 << 20,
    ETC_FILES_MAX = 20000,
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

static bool
join(char out[WP_ROOT_PATH_MAX], const char *a, const char *b)
{
    int n = snprintf(out, WP_ROOT_PATH_MAX, "%s/%s", a, b);

    return n > 0 && n < WP_ROOT_PATH_MAX;
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
copy_etc(const struct wp_root *root, const char *name, unsigned *files,
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

enum wp_status
wp_root_make_etc(const struct wp_root *root, struct wp_err *err)
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
