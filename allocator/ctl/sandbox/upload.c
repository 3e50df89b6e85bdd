#include "allocator/ctl/sandbox/upload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "allocator/ctl/sandbox/sandbox_client.h"
#include "pool/limits.h"

enum {
    CHUNK = 65536,
    MODE_PLAIN = 0644,
    REST = 32, /* Of a request's path, besides the file's. */
};

char *
wp_upload_encode(const char *path, char *out)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";

    for (; *path != '\0'; path++) {
        if (strchr(plain, *path) != NULL) {
            *out++ = *path;
        } else {
            out += sprintf(out, "%%%02X", (unsigned char)*path);
        }
    }
    *out = '\0';
    return out;
}

static enum wp_status
send_from(struct wp_sandbox_client *client, const struct wp_brought_file *file,
          const volatile sig_atomic_t *stop, struct wp_err *err)
{
    int fd = open(file->from, O_RDONLY | O_CLOEXEC);
    enum wp_status status = WP_OK;
    uint64_t sent = 0;
    char chunk[CHUNK];

    if (fd < 0) {
        return wp_err_sys(err, WP_FAILED_PRECONDITION, errno,
                          "cannot read %.160s", file->from);
    }
    while (status == WP_OK && sent < file->size &&
           !wp_sandbox_client_answered(client)) {
        uint64_t left = file->size - sent;
        ssize_t n =
            read(fd, chunk, left < sizeof chunk ? (size_t)left : sizeof chunk);

        if (*stop != 0) {
            status = wp_err_set(err, WP_ABORTED, "stopped by a signal");
            break;
        }
        if (n <= 0) {
            status = wp_err_set(err, WP_ABORTED,
                                "%.160s became shorter while it was read",
                                file->from);
            break;
        }
        sent += (uint64_t)n;
        status = wp_sandbox_client_send(client, chunk, (size_t)n, err);
    }
    (void)close(fd);
    return status;
}

static enum wp_status
put(struct wp_sandbox_client *client, const struct wp_upload_target *target,
    const struct wp_brought_file *file, struct wp_err *err)
{
    char path[3 * WP_BINDING_PATH_MAX + REST];
    char *end = wp_upload_encode(file->path, stpcpy(path, "/v1/files/"));
    const struct wp_sandbox_request request = {
        .method = "PUT",
        .sandbox = target->sandbox,
        .path = path,
        .bearer = target->bearer,
        .type = "application/octet-stream",
        .body_len = file->size,
    };
    int http_status;
    enum wp_status status;

    (void)snprintf(end, sizeof path - (size_t)(end - path), "?mode=%04o",
                   file->mode != 0 ? file->mode : MODE_PLAIN);
    status = wp_sandbox_client_request(client, &request, err);
    if (status == WP_OK) {
        status = file->from != NULL
                     ? send_from(client, file, target->stop, err)
                     : wp_sandbox_client_send(client, file->content.ptr,
                                              file->content.len, err);
    }
    return status == WP_OK ? wp_sandbox_client_reply(client, &http_status, err)
                           : status;
}

enum wp_status
wp_upload_file(const struct wp_upload_target *target,
               const struct wp_brought_file *file, struct wp_err *err)
{
    char shown[WP_STR_SHOWN_MAX];
    struct wp_sandbox_client *client = NULL;
    enum wp_status status;

    if (*target->stop != 0) {
        return wp_err_set(err, WP_ABORTED, "stopped by a signal");
    }
    client = wp_sandbox_client_open(target->http, target->timeout_ns, err);
    status = client != NULL ? put(client, target, file, err) : err->status;

    wp_sandbox_client_close(client);
    return status == WP_OK
               ? WP_OK
               : wp_err_wrap(err, "'%s' is not there",
                             wp_str_shown(wp_str_from(file->path), shown));
}
