/* POST /upload: the body is parsed as it comes and written to a file beside
 * its target, which takes the target's name when all of it is there. So a full
 * disk, a lost client or a bad body leaves the old file, or none, never half a
 * new one. The first part named "file" counts; the others are read past. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pool/base/log.h"
#include "proto/formats/json_text.h"
#include "runtime/files/multipart.h"
#include "pool/base/os_error.h"
#include "runtime/runtime.h"

enum {
    UPLOAD_CEILING_LOG2 = 40, /* The route's own bound; see upload_max. */
};

struct upload {
    struct wp_http_req *req;
    struct wp_multipart multipart;
    char path[WP_WORKSPACE_PATH_MAX];
    char name[256];
    char temp[64];
    int dir;      /* -1, or the folder of both files. */
    int fd;       /* -1, or the file being written. */
    bool mine;    /* The part being read is the one to keep. */
    bool taken;   /* It was found. */
    int os_errno; /* What went wrong with it; 0 when nothing. */
    uint64_t written;
};

static void
on_part(void *user, const char *name, const char *filename)
{
    struct upload *upload = user;
    struct wp_workspace *workspace = &wp_runtime_of(upload->req)->workspace;
    static unsigned counter;
    int rc;

    upload->mine = !upload->taken && strcmp(name, "file") == 0 &&
                   filename != NULL && filename[0] != '\0';
    if (!upload->mine) {
        return;
    }
    upload->taken = true;
    rc = wp_workspace_path_plain(workspace, filename, upload->path);
    if (rc == 0) {
        rc = wp_workspace_open_parent(workspace, upload->path, upload->name);
        upload->dir = rc;
        rc = rc < 0 ? -rc : 0;
    }
    if (rc == 0) {
        snprintf(upload->temp, sizeof(upload->temp), ".warmpool-upload-%d-%u",
                 (int)getpid(), counter++);
        upload->fd =
            openat(upload->dir, upload->temp,
                   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
        rc = upload->fd < 0 ? errno : 0;
    }
    upload->os_errno = rc;
}

static void
on_data(void *user, const char *data, size_t len)
{
    struct upload *upload = user;

    while (upload->mine && upload->os_errno == 0 && len > 0) {
        ssize_t put = write(upload->fd, data, len);

        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put < 0) {
            upload->os_errno = errno;
            return;
        }
        data += put;
        len -= (size_t)put;
        upload->written += (uint64_t)put;
    }
}

static void
on_end(void *user)
{
    struct upload *upload = user;

    upload->mine = false;
}

/* Removes what was written; before the answer, so that a client that was told
 * of a failure finds nothing. */
static void
upload_discard(struct upload *upload)
{
    if (upload->fd >= 0) {
        close(upload->fd);
        upload->fd = -1;
    }
    if (upload->dir >= 0) {
        if (upload->temp[0] != '\0') {
            unlinkat(upload->dir, upload->temp, 0);
        }
        close(upload->dir);
        upload->dir = -1;
    }
}

static void
upload_begin(struct wp_http_req *req)
{
    static const struct wp_multipart_events events = {on_part, on_data, on_end};
    struct upload *upload = calloc(1, sizeof(*upload));

    if (upload == NULL) {
        wp_http_reply_json(req, 500, NULL);
        return;
    }
    upload->req = req;
    upload->dir = -1;
    upload->fd = -1;
    wp_http_set_user(req, upload);
    if (!wp_multipart_init(&upload->multipart,
                           wp_http_header(req, "Content-Type"), &events,
                           upload)) {
        wp_http_reply_error(req, 422,
                            "Content-Type: multipart/form-data with a boundary "
                            "is required");
    }
}

/* Answers at once what cannot succeed any more, rather than read it all. */
static void
upload_body(struct wp_http_req *req, const char *data, size_t len)
{
    struct upload *upload = wp_http_user(req);
    uint64_t max = wp_runtime_of(req)->options.upload_max;

    if (!wp_multipart_feed(&upload->multipart, data, len)) {
        upload_discard(upload);
        wp_http_reply_error(req, 400, "body: %s", upload->multipart.error);
    } else if (upload->os_errno != 0) {
        upload_discard(upload);
        wp_rest_reply_errno(req, upload->path, upload->os_errno);
    } else if (upload->written > max) {
        upload_discard(upload);
        wp_http_reply_error(req, 413, "file: at most %llu bytes are taken",
                            (unsigned long long)max);
    }
}

static void
upload_ready(struct wp_http_req *req)
{
    struct upload *upload = wp_http_user(req);
    char text[WP_WORKSPACE_PATH_MAX + 64];

    if (!wp_multipart_complete(&upload->multipart)) {
        upload_discard(upload);
        wp_http_reply_error(req, 400, "body: the last boundary is missing");
        return;
    }
    if (!upload->taken) {
        wp_http_reply_error(req, 422,
                            "file: a part of this name, with a file name, is "
                            "required");
        return;
    }
    if (close(upload->fd) != 0) { /* Some file systems tell only now. */
        upload->os_errno = errno;
    }
    upload->fd = -1;
    if (upload->os_errno == 0 &&
        renameat(upload->dir, upload->temp, upload->dir, upload->name) != 0) {
        upload->os_errno = errno;
    }
    if (upload->os_errno != 0) {
        upload_discard(upload);
        wp_rest_reply_errno(req, upload->path, upload->os_errno);
        return;
    }
    upload->temp[0] = '\0';
    wp_log_info("file uploaded", wp_kv_int("bytes", (int64_t)upload->written));
    snprintf(text, sizeof(text), "File '%s' uploaded successfully.",
             upload->path);
    wp_http_reply_json(req, 200,
                       json_pack("{s:o}", "message", wp_json_from_text(text)));
}

static void
upload_gone(struct wp_http_req *req)
{
    struct upload *upload = wp_http_user(req);

    if (upload != NULL) {
        upload_discard(upload);
        free(upload);
    }
}

const struct wp_http_ops wp_rest_upload_ops = {
    .body_max = UINT64_C(1) << UPLOAD_CEILING_LOG2,
    .begin = upload_begin,
    .body = upload_body,
    .ready = upload_ready,
    .gone = upload_gone,
};
