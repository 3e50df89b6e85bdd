/* cp: one file into a sandbox (/upload) or out of it (/download). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocator/ctl/commands.h"
#include "allocator/ctl/lease.h"
#include "allocator/ctl/print.h"
#include "allocator/ctl/sandbox/sandbox_client.h"
#include "allocator/ctl/sandbox/upload.h"
#include "pool/base/rng.h"
#include "proto/formats/json_text.h"

enum {
    PATH_LEN_MAX = 4096,
    CHUNK = 65536,
};

/* One side of a copy. */
struct side {
    bool remote;
    char claim[WP_CLAIM_ID_MAX + 1];
    const char *path;
};

struct copy {
    struct wp_sandbox_client *client;
    struct wp_token_record record;
    char bearer[2 * WP_TOKEN_LEN + 1];
    uint64_t bytes;
};

/* "ID:PATH", unless it begins like a path: "./a:b" is a file here. */
static void
side_parse(const char *text, struct side *out)
{
    const char *colon = strchr(text, ':');

    *out = (struct side){.path = text};
    if (colon == NULL || colon == text || text[0] == '.' || text[0] == '/' ||
        !wp_str_copy((struct wp_str){text, (size_t)(colon - text)}, out->claim,
                     sizeof out->claim)) {
        return;
    }
    out->remote = true;
    out->path = colon + 1;
}

static const char *
base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

/* Where the file goes: path itself, or the name of `from` in it when path is a
 * folder (folder: it is known to be one). False when that is too long. */
static bool
target_path(const char *path, bool folder, const char *from,
            char out[PATH_LEN_MAX])
{
    size_t len = strlen(path);
    int n;

    if (len > 0 && path[len - 1] != '/' && !folder) {
        n = snprintf(out, PATH_LEN_MAX, "%s", path);
    } else {
        n = snprintf(out, PATH_LEN_MAX, "%s%s%s", path,
                     len > 0 && path[len - 1] != '/' ? "/" : "",
                     base_name(from));
    }
    return n < PATH_LEN_MAX;
}

/* --- Into the sandbox. --- */

/* A multipart body in three pieces: head, the file, tail. */
struct upload {
    char head[2 * PATH_LEN_MAX + 300];
    char tail[64];
    char type[100];
    int fd;
    uint64_t size;
};

static enum wp_status
upload_prepare(struct upload *upload, const char *target, struct wp_err *err)
{
    uint8_t random[12];
    char boundary[2 * sizeof random + 1];

    if (strpbrk(target, "\"\r\n\\") != NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "the path in the sandbox must not have quotes, "
                          "backslashes or line ends; use exec and tar");
    }
    wp_random_bytes(random, sizeof random);
    wp_hex_encode(random, sizeof random, boundary);
    (void)snprintf(upload->type, sizeof upload->type,
                   "multipart/form-data; boundary=%s", boundary);
    (void)snprintf(upload->head, sizeof upload->head,
                   "--%s\r\nContent-Disposition: form-data; name=\"file\"; "
                   "filename=\"%s\"\r\nContent-Type: "
                   "application/octet-stream\r\n\r\n",
                   boundary, target);
    (void)snprintf(upload->tail, sizeof upload->tail, "\r\n--%s--\r\n",
                   boundary);
    return WP_OK;
}

/* The length must be known first: what is no regular file is kept in an
 * unnamed one. */
static enum wp_status
upload_open(struct upload *upload, const char *path, struct wp_err *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    FILE *copy;
    char chunk[CHUNK];
    ssize_t n;

    if (fd < 0 || fstat(fd, &st) != 0) {
        return wp_err_sys(
            err, errno == ENOENT ? WP_NOT_FOUND : WP_FAILED_PRECONDITION, errno,
            "cannot read %s", path);
    }
    upload->fd = fd;
    upload->size = (uint64_t)st.st_size;
    if (S_ISDIR(st.st_mode)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s is a directory; copy it with: tar c %s | "
                          "warmpoolctl exec ID -- tar x",
                          path, path);
    }
    if (S_ISREG(st.st_mode) && !is_stdin) {
        return WP_OK;
    }
    copy = tmpfile();
    if (copy == NULL) {
        return wp_err_sys(err, WP_INTERNAL, errno, "no temporary file");
    }
    upload->size = 0;
    while ((n = read(fd, chunk, sizeof chunk)) > 0) {
        upload->size += (uint64_t)n;
        if (fwrite(chunk, 1, (size_t)n, copy) != (size_t)n) {
            n = -1;
            break;
        }
    }
    if (n < 0 || fflush(copy) != 0 || lseek(fileno(copy), 0, SEEK_SET) != 0) {
        return wp_err_sys(err, WP_INTERNAL, errno, "cannot read %s", path);
    }
    upload->fd = fileno(copy); /* Open until the program ends. */
    return WP_OK;
}

static enum wp_status
upload_send(struct copy *copy, const struct upload *upload, struct wp_err *err)
{
    char chunk[CHUNK];
    enum wp_status status = wp_sandbox_client_send(copy->client, upload->head,
                                                   strlen(upload->head), err);

    while (status == WP_OK && copy->bytes < upload->size &&
           !wp_sandbox_client_answered(copy->client)) {
        uint64_t left = upload->size - copy->bytes;
        ssize_t n = read(upload->fd, chunk,
                         left < sizeof chunk ? (size_t)left : sizeof chunk);

        if (n <= 0) {
            return wp_err_set(err, WP_ABORTED,
                              "the file became shorter while it was read");
        }
        copy->bytes += (uint64_t)n;
        status = wp_sandbox_client_send(copy->client, chunk, (size_t)n, err);
    }
    if (status == WP_OK) {
        status = wp_sandbox_client_send(copy->client, upload->tail,
                                        strlen(upload->tail), err);
    }
    return status;
}

static enum wp_status
copy_in(struct copy *copy, const char *from, const char *to, struct wp_err *err)
{
    struct upload upload = {.fd = -1};
    char target[PATH_LEN_MAX];
    bool from_stdin = strcmp(from, "-") == 0;
    int http_status;
    enum wp_status status;
    struct wp_sandbox_request request = {
        .method = "POST",
        .path = "/upload",
        .bearer = copy->bearer,
        .sandbox = copy->record.sandbox,
        .type = upload.type,
    };

    if (!target_path(to, false, from, target) ||
        (from_stdin && base_name(to)[0] == '\0')) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "'%.60s': expected a file's path in the sandbox", to);
    }
    status = upload_open(&upload, from, err);
    if (status == WP_OK) {
        status = upload_prepare(&upload, target, err);
    }
    if (status != WP_OK) {
        return status;
    }
    request.body_len = strlen(upload.head) + upload.size + strlen(upload.tail);
    status = wp_sandbox_client_request(copy->client, &request, err);
    if (status == WP_OK) {
        status = upload_send(copy, &upload, err);
    }
    return status == WP_OK
               ? wp_sandbox_client_reply(copy->client, &http_status, err)
               : status;
}

/* --- Out of it. --- */

static enum wp_status
save_body(struct copy *copy, int fd, struct wp_err *err)
{
    char chunk[CHUNK];
    size_t n;

    for (;;) {
        enum wp_status status =
            wp_sandbox_client_read(copy->client, chunk, sizeof chunk, &n, err);

        if (status != WP_OK || n == 0) {
            return status;
        }
        for (size_t at = 0; at < n;) {
            ssize_t put = write(fd, chunk + at, n - at);

            if (put < 0 && errno != EINTR) {
                return wp_err_sys(err, WP_FAILED_PRECONDITION, errno,
                                  "cannot write the copy");
            }
            at += put > 0 ? (size_t)put : 0;
        }
        copy->bytes += n;
    }
}

static enum wp_status
cannot_write(const char *target, struct wp_err *err)
{
    return wp_err_sys(err, WP_FAILED_PRECONDITION, errno, "cannot write %.100s",
                      target);
}

/* Through a link, into a device, a pipe, or a file that somebody else shares:
 * what is there stays what it is. */
static enum wp_status
save_through(struct copy *copy, const char *target, struct wp_err *err)
{
    int fd =
        open(target, O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY | O_CLOEXEC, 0666);
    enum wp_status status;

    if (fd < 0) {
        return cannot_write(target, err);
    }
    status = save_body(copy, fd, err);
    if (close(fd) != 0 && status == WP_OK) {
        status = cannot_write(target, err);
    }
    return status;
}

static mode_t
fresh_mode(void)
{
    mode_t mask = umask(0);

    (void)umask(mask);
    return 0666 & ~mask;
}

/* Into a file beside the target, which takes its name, and the mode of the one
 * before, when all is there. */
static enum wp_status
save_beside(struct copy *copy, const char *target, mode_t mode,
            struct wp_err *err)
{
    char draft[PATH_LEN_MAX + 8];
    int fd;
    enum wp_status status;

    (void)snprintf(draft, sizeof draft, "%s.XXXXXX", target);
    fd = mkostemp(draft, O_CLOEXEC);
    if (fd < 0) {
        return cannot_write(target, err);
    }
    status = save_body(copy, fd, err);
    if (status == WP_OK && fchmod(fd, mode) != 0) {
        status = cannot_write(target, err);
    }
    if ((close(fd) != 0 || (status == WP_OK && rename(draft, target) != 0)) &&
        status == WP_OK) {
        status = cannot_write(target, err);
    }
    if (status != WP_OK) {
        (void)unlink(draft);
    }
    return status;
}

/* A new file, or one of ours that has no other name, is replaced as a whole.
 * One that may not be written is not replaced either. */
static enum wp_status
save_file(struct copy *copy, const char *target, struct wp_err *err)
{
    struct stat st;

    if (lstat(target, &st) != 0) {
        return save_beside(copy, target, fresh_mode(), err);
    }
    if (S_ISREG(st.st_mode) && st.st_nlink == 1 && st.st_uid == geteuid() &&
        st.st_gid == getegid() && access(target, W_OK) == 0) {
        return save_beside(copy, target, st.st_mode & 07777, err);
    }
    return save_through(copy, target, err);
}

static enum wp_status
copy_out(struct copy *copy, const char *from, const char *to,
         struct wp_err *err)
{
    char encoded[3 * PATH_LEN_MAX + 16];
    char target[PATH_LEN_MAX];
    struct stat st;
    int http_status;
    enum wp_status status;
    bool folder = stat(to, &st) == 0 && S_ISDIR(st.st_mode);
    struct wp_sandbox_request request = {
        .method = "GET",
        .path = encoded,
        .bearer = copy->bearer,
        .sandbox = copy->record.sandbox,
    };

    if (strlen(from) >= PATH_LEN_MAX || base_name(from)[0] == '\0' ||
        !target_path(to, folder, from, target)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "'%.60s': expected a file's path in the sandbox",
                          from);
    }
    (void)wp_upload_encode(from, stpcpy(encoded, "/download/"));
    status = wp_sandbox_client_request(copy->client, &request, err);
    if (status == WP_OK) {
        status = wp_sandbox_client_reply(copy->client, &http_status, err);
    }
    if (status != WP_OK) {
        return status;
    }
    return strcmp(to, "-") == 0 ? save_body(copy, STDOUT_FILENO, err)
                                : save_file(copy, target, err);
}

int
wp_cmd_cp(struct wp_ctl *ctl)
{
    struct copy copy = {.client = NULL};
    struct side from;
    struct side to;
    struct wp_err err;
    enum wp_status status;

    side_parse(ctl->options.args[0], &from);
    side_parse(ctl->options.args[1], &to);
    if (from.remote == to.remote) {
        (void)wp_err_set(&err, WP_INVALID_ARGUMENT,
                         "one of the two must be ID:PATH, the other a path "
                         "here (write ./a:b for a file with a colon)");
        return wp_ctl_usage(ctl, &err);
    }
    status = wp_ctl_find_sandbox(ctl, from.remote ? from.claim : to.claim,
                                 &copy.record, copy.bearer, &err);
    if (status != WP_OK) {
        return wp_ctl_fail(ctl, &err, 0);
    }
    copy.client = wp_sandbox_client_open(ctl->options.http,
                                         ctl->options.timeout_ns, &err);
    if (copy.client == NULL) {
        return wp_ctl_fail(ctl, &err, 0);
    }
    status = from.remote ? copy_out(&copy, from.path, to.path, &err)
                         : copy_in(&copy, from.path, to.path, &err);
    wp_sandbox_client_close(copy.client);
    if (status != WP_OK) {
        wp_ctl_explain(ctl, from.remote ? from.claim : to.claim, &err);
        (void)wp_err_wrap(&err, "%.80s to %.80s", ctl->options.args[0],
                          ctl->options.args[1]);
        return wp_ctl_fail(ctl, &err, 0);
    }
    if (ctl->options.output == WP_OUTPUT_JSON && strcmp(to.path, "-") != 0) {
        wp_print_json(ctl->out,
                      json_pack("{s:o, s:o, s:I}", "from",
                                wp_json_from_text(ctl->options.args[0]), "to",
                                wp_json_from_text(ctl->options.args[1]),
                                "bytes", (json_int_t)copy.bytes),
                      true);
    }
    return WP_EXIT_OK;
}
