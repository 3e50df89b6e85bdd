/* POST /upload: the body is parsed as it comes and written to a file that
 * appears whole (runtime/files/incoming.h). The first part named "file" counts;
 * the others are read past. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/log.h"
#include "proto/formats/json_text.h"
#include "runtime/files/incoming.h"
#include "runtime/files/multipart.h"
#include "runtime/runtime.h"

enum {
    UPLOAD_CEILING_LOG2 = 40, /* The route's own bound; see upload_max. */
};

struct upload {
    struct wp_http_req *req;
    struct wp_multipart multipart;
    struct wp_incoming file;
    bool mine;    /* The part being read is the one to keep. */
    bool taken;   /* It was found. */
    int os_errno; /* What went wrong with it; 0 when nothing. */
};

static void
on_part(void *user, const char *name, const char *filename)
{
    struct upload *upload = user;
    struct wp_workspace *workspace = &wp_runtime_of(upload->req)->workspace;
    int rc;

    upload->mine = !upload->taken && strcmp(name, "file") == 0 &&
                   filename != NULL && filename[0] != '\0';
    if (!upload->mine) {
        return;
    }
    upload->taken = true;
    rc = wp_workspace_path_plain(workspace, filename, upload->file.path);
    if (rc == 0) {
        rc = wp_incoming_open(&upload->file, workspace);
    }
    upload->os_errno = rc;
}

static void
on_data(void *user, const char *data, size_t len)
{
    struct upload *upload = user;

    if (upload->mine && upload->os_errno == 0) {
        upload->os_errno = wp_incoming_write(&upload->file, data, len);
    }
}

static void
on_end(void *user)
{
    struct upload *upload = user;

    upload->mine = false;
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
    wp_incoming_init(&upload->file);
    wp_http_set_user(req, upload);
    if (!wp_multipart_init(&upload->multipart,
                           wp_http_header(req, "Content-Type"), &events,
                           upload)) {
        wp_http_reply_error(req, 422,
                            "Content-Type: multipart/form-data with a boundary "
                            "is required");
    }
}

/* Answers at once what cannot succeed any more, rather than read it all. What
 * was written goes before the answer: who was told of a failure finds none. */
static void
upload_body(struct wp_http_req *req, const char *data, size_t len)
{
    struct upload *upload = wp_http_user(req);
    uint64_t max = wp_runtime_of(req)->options.upload_max;

    if (!wp_multipart_feed(&upload->multipart, data, len)) {
        wp_incoming_discard(&upload->file);
        wp_http_reply_error(req, 400, "body: %s", upload->multipart.error);
    } else if (upload->os_errno != 0) {
        wp_incoming_discard(&upload->file);
        wp_rest_reply_errno(req, upload->file.path, upload->os_errno);
    } else if (upload->file.written > max) {
        wp_incoming_discard(&upload->file);
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
        wp_incoming_discard(&upload->file);
        wp_http_reply_error(req, 400, "body: the last boundary is missing");
        return;
    }
    if (!upload->taken) {
        wp_http_reply_error(req, 422,
                            "file: a part of this name, with a file name, is "
                            "required");
        return;
    }
    if (upload->os_errno == 0) {
        upload->os_errno = wp_incoming_commit(&upload->file);
    }
    if (upload->os_errno != 0) {
        wp_incoming_discard(&upload->file);
        wp_rest_reply_errno(req, upload->file.path, upload->os_errno);
        return;
    }
    wp_log_info("file uploaded",
                wp_kv_int("bytes", (int64_t)upload->file.written));
    snprintf(text, sizeof(text), "File '%s' uploaded successfully.",
             upload->file.path);
    wp_http_reply_json(req, 200,
                       json_pack("{s:o}", "message", wp_json_from_text(text)));
}

static void
upload_gone(struct wp_http_req *req)
{
    struct upload *upload = wp_http_user(req);

    if (upload != NULL) {
        wp_incoming_discard(&upload->file);
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
