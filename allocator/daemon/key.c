/* The key of lease tokens, and other secrets that the daemon makes once and
 * keeps. */
#include "allocator/daemon/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "pool/base/rng.h"

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
    errno = ENOSPC; /* A write that is cut short says nothing. */
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

enum wp_status
wp_daemon_make_secret(const char *path, bool *made, struct wp_err *err)
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
    /* In a cluster Sandboxes tell of leases whose tokens are to stay good. */
    if (!wp_conf_is_durable(conf) && !wp_conf_is_cluster(conf)) {
        wp_random_bytes(out, WP_TOKEN_KEY_LEN);
        return WP_OK;
    }
    (void)snprintf(path, sizeof path, "%s/token.key", conf->state_dir);
    if (access(path, F_OK) != 0) {
        status = wp_daemon_make_secret(path, made, err);
    }
    return status == WP_OK ? read_key(path, out, err) : status;
}

enum wp_status
wp_daemon_read_egress_key(const struct wp_conf *conf,
                          uint8_t out[WP_EGRESS_KEY_LEN], struct wp_err *err)
{
    uint8_t key[WP_TOKEN_KEY_LEN];

    if (conf->token_key_file[0] == '\0') {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "setting 'token_key_file': expected, for keys of "
                          "passes are made from it");
    }
    if (read_key(conf->token_key_file, key, err) != WP_OK) {
        return err->status;
    }
    wp_token_key_derive(key, "egress passes", out, WP_EGRESS_KEY_LEN);
    explicit_bzero(key, sizeof key);
    return WP_OK;
}
