#include "allocator/daemon/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "local/sandbox/lock.h"
#include "pool/base/clock.h"
#include "pool/base/log.h"
#include "pool/base/rng.h"

enum {
    LOCK_TRIES = 2000, /* A millisecond apart. */
};

enum wp_status
wp_daemon_make_dir(const char *path, uint32_t mode, struct wp_err *err)
{
    char part[WP_CONF_TEXT_MAX + 1];
    struct stat st;

    if (!wp_str_copy(wp_str_from(path), part, sizeof part)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "path too long");
    }
    for (char *slash = strchr(part + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(part, 0755); /* What matters is whether the last works. */
        *slash = '/';
    }
    if (mkdir(part, mode) != 0 && errno != EEXIST) {
        return wp_err_sys(err, WP_FAILED_PRECONDITION, errno,
                          "cannot make the directory '%.120s'", path);
    }
    if (stat(part, &st) != 0 || !S_ISDIR(st.st_mode)) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "'%.120s' is not a directory", path);
    }
    return WP_OK;
}

enum wp_status
wp_daemon_check_passable(const char *path, struct wp_err *err)
{
    char part[WP_CONF_TEXT_MAX + 1];
    struct stat st;

    if (!wp_str_copy(wp_str_from(path), part, sizeof part)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "path too long");
    }
    for (char *slash = strchr(part + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (stat(part, &st) == 0 && (st.st_mode & S_IXOTH) == 0) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "setting 'state_dir': sandboxes run as users of "
                              "their own and cannot pass through '%.80s' "
                              "(chmod o+x it, or choose another directory)",
                              part);
        }
        *slash = '/';
    }
    return WP_OK;
}

static enum wp_status
lock_refused(const struct wp_daemon *daemon, int fd, struct wp_err *err)
{
    char pid[16] = "";
    ssize_t n = read(fd, pid, sizeof pid - 1);

    pid[n > 0 ? strcspn(pid, "\n") : 0] = '\0';
    return wp_err_set(err, WP_ALREADY_EXISTS,
                      "another warmpoold (pid %s) runs with the state "
                      "directory '%.120s'",
                      pid[0] != '\0' ? pid : "unknown",
                      daemon->conf->state_dir);
}

/* The holder before may have removed the file after it was opened here. */
static bool
is_still_there(int fd, const char *path)
{
    struct stat mine;
    struct stat there;

    return fstat(fd, &mine) == 0 && stat(path, &there) == 0 &&
           mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
}

/* Waits only for what is left of a holder that was killed: a child that it was
 * just starting has its descriptors until it executes. */
static bool
take_lock(int fd)
{
    const struct timespec again = {0, WP_NS_PER_MS};

    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; i++) {
        char text[16] = "";
        ssize_t n = pread(fd, text, sizeof text - 1, 0);

        if (i == LOCK_TRIES || n <= 0 ||
            !wp_lock_holder_is_dead((pid_t)strtol(text, NULL, 10))) {
            return false;
        }
        (void)nanosleep(&again, NULL);
    }
    return true;
}

enum wp_status
wp_daemon_lock(struct wp_daemon *daemon, struct wp_err *err)
{
    char pid[16];
    int n = snprintf(pid, sizeof pid, "%d\n", (int)getpid());
    int fd;

    (void)snprintf(daemon->lock_path, sizeof daemon->lock_path,
                   "%.480s/warmpoold.pid", daemon->conf->state_dir);
    fd = open(daemon->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
              0644);
    if (fd < 0) {
        return wp_err_sys(err, WP_FAILED_PRECONDITION, errno, "'%.160s'",
                          daemon->lock_path);
    }
    if (!take_lock(fd) || !is_still_there(fd, daemon->lock_path)) {
        enum wp_status status = lock_refused(daemon, fd, err);

        (void)close(fd);
        return status;
    }
    if (ftruncate(fd, 0) != 0 || pwrite(fd, pid, (size_t)n, 0) != n) {
        enum wp_status status =
            wp_err_sys(err, WP_UNAVAILABLE, errno, "cannot write '%.160s'",
                       daemon->lock_path);

        (void)close(fd);
        return status;
    }
    daemon->lock_fd = fd;
    return WP_OK;
}

enum wp_status
wp_daemon_lock_shared(struct wp_daemon *daemon, struct wp_err *err)
{
    enum wp_status status = wp_daemon_lock(daemon, err);
    bool follows = status == WP_ALREADY_EXISTS;

    if (status == WP_OK) {
        status = wp_lock_take(daemon->conf->state_dir, &daemon->backend_lock_fd,
                              err);
        /* Another one is just taking over: it has that lock, and needs the pid
         * file. */
        follows = status == WP_FAILED_PRECONDITION;
        if (follows) {
            (void)close(daemon->lock_fd);
            daemon->lock_fd = -1;
        }
    }
    if (follows) {
        atomic_store(&daemon->keeper, false);
        status = WP_OK;
    }
    return status;
}

/* Nobody but its owner may read it; or it is root's, and the daemon's group may
 * as well: so Kubernetes mounts a Secret for a Pod that is not root. */
static bool
is_private(const struct stat *st)
{
    if (!S_ISREG(st->st_mode)) {
        return false;
    }
    return (st->st_mode & 077) == 0 ||
           (st->st_uid == 0 && geteuid() != 0 && (st->st_mode & 037) == 0);
}

enum wp_status
wp_daemon_read_secret(const char *what, const char *path, char *out, size_t cap,
                      struct wp_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    struct stat st;
    ssize_t n = -1;

    if (fd < 0 || fstat(fd, &st) != 0) {
        enum wp_status status =
            wp_err_sys(err, WP_FAILED_PRECONDITION, errno,
                       "setting '%s': cannot read '%.100s'", what, path);

        if (fd >= 0) {
            (void)close(fd);
        }
        return status;
    }
    if (is_private(&st)) {
        n = read(fd, out, cap - 1);
    }
    (void)close(fd);
    if (n < 0) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "setting '%s': expected a file that only its owner "
                          "can read (chmod 600 '%.100s')",
                          what, path);
    }
    while (n > 0 && (out[n - 1] == '\n' || out[n - 1] == '\r')) {
        n--;
    }
    out[n] = '\0';
    return WP_OK;
}

static enum wp_status
read_key(const char *path, uint8_t out[WP_TOKEN_KEY_LEN], struct wp_err *err)
{
    char text[80];
    enum wp_status status =
        wp_daemon_read_secret("token_key_file", path, text, sizeof text, err);

    if (status == WP_OK &&
        !wp_hex_decode(wp_str_from(text), out, WP_TOKEN_KEY_LEN)) {
        status = wp_err_set(err, WP_INVALID_ARGUMENT,
                            "setting 'token_key_file': expected 64 "
                            "hexadecimal digits in '%.80s' (openssl rand -hex "
                            "32 makes them)",
                            path);
    }
    explicit_bzero(text, sizeof text);
    return status;
}

/* Writes a new key to the file part, for its owner only. */
static enum wp_status
write_key(const char *part, struct wp_err *err)
{
    uint8_t bytes[WP_TOKEN_KEY_LEN];
    char text[2 * WP_TOKEN_KEY_LEN + 2];
    int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool written;

    if (fd < 0) {
        return wp_err_sys(err, WP_FAILED_PRECONDITION, errno,
                          "cannot make '%.160s'", part);
    }
    wp_random_bytes(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++) {
        (void)snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    }
    text[sizeof text - 2] = '\n';
    written = write(fd, text, sizeof text - 1) == (ssize_t)sizeof text - 1 &&
              fsync(fd) == 0;
    explicit_bzero(bytes, sizeof bytes);
    explicit_bzero(text, sizeof text);
    if (close(fd) != 0 || !written) {
        (void)unlink(part);
        return wp_err_sys(err, WP_UNAVAILABLE, errno, "cannot write '%.160s'",
                          part);
    }
    return WP_OK;
}

/* Makes the key file whole or not at all; several daemons may try at once, and
 * the first one's stays. */
static enum wp_status
make_key(const char *path, bool *made, struct wp_err *err)
{
    char part[WP_CONF_TEXT_MAX + 64];
    enum wp_status status;

    (void)snprintf(part, sizeof part, "%s.%d", path, (int)getpid());
    (void)unlink(part);
    status = write_key(part, err);
    if (status != WP_OK) {
        return status;
    }
    *made = link(part, path) == 0;
    if (!*made && errno != EEXIST) {
        status = wp_err_sys(err, WP_FAILED_PRECONDITION, errno,
                            "cannot make '%.160s'", path);
    }
    (void)unlink(part);
    return status;
}

enum wp_status
wp_daemon_read_key(const struct wp_conf *conf, uint8_t out[WP_TOKEN_KEY_LEN],
                   bool *made, struct wp_err *err)
{
    char path[WP_CONF_TEXT_MAX + 32];
    enum wp_status status = WP_OK;

    *made = false;
    if (conf->token_key_file[0] != '\0') {
        return read_key(conf->token_key_file, out, err);
    }
    if (!wp_conf_is_durable(conf)) {
        wp_random_bytes(out, WP_TOKEN_KEY_LEN);
        return WP_OK;
    }
    (void)snprintf(path, sizeof path, "%s/token.key", conf->state_dir);
    if (access(path, F_OK) != 0) {
        status = make_key(path, made, err);
    }
    return status == WP_OK ? read_key(path, out, err) : status;
}

enum wp_status
wp_daemon_read_token(const char *path, char *out, size_t cap,
                     struct wp_err *err)
{
    enum wp_status status;
    size_t len;

    out[0] = '\0';
    if (path[0] == '\0') {
        return WP_OK;
    }
    status = wp_daemon_read_secret("http_token_file", path, out, cap, err);
    len = strlen(out);
    if (status == WP_OK &&
        (len < 16 || len > 256 || strcspn(out, " \t\r\n") != len ||
         !wp_str_is_printable(wp_str_from(out)))) {
        out[0] = '\0';
        status = wp_err_set(err, WP_INVALID_ARGUMENT,
                            "setting 'http_token_file': expected one word of "
                            "16 to 256 characters in '%.100s'",
                            path);
    }
    return status;
}

struct wp_manifest *
wp_daemon_read_manifests(const struct wp_conf *conf, struct wp_err *err)
{
    struct wp_manifest *manifest = wp_manifest_create();
    enum wp_status status = WP_OK;

    if (manifest == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    for (uint32_t i = 0; status == WP_OK && i < conf->manifests.len; i++) {
        status = wp_manifest_add_file(manifest, conf->manifests.items[i], err);
    }
    if (status == WP_OK) {
        status = wp_manifest_check(manifest, err);
    }
    if (status != WP_OK) {
        wp_manifest_destroy(manifest);
        manifest = NULL;
    }
    return manifest;
}

void
wp_daemon_find_program(const char *setting, const char *name, char *out,
                       size_t cap)
{
    /* Installed, then as the build leaves them. */
    static const char *const beside[] = {"", "../bin/", "../libexec/warmpool/",
                                         "../local/", "../runtime/"};
    char self[400];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash;

    if (setting[0] != '\0') {
        (void)snprintf(out, cap, "%s", setting);
        return;
    }
    self[n > 0 ? n : 0] = '\0';
    slash = strrchr(self, '/');
    if (slash != NULL) {
        slash[1] = '\0';
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(beside); i++) {
        (void)snprintf(out, cap, "%s%s%s", self, beside[i], name);
        if (access(out, X_OK) == 0) {
            return;
        }
    }
    out[0] = '\0';
}
