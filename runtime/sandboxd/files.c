/* GET and PUT of files; what the calls have in common. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "pool/base/log.h"
#include "pool/base/os_error.h"
#include "proto/formats/json_text.h"
#include "runtime/files/incoming.h"
#include "runtime/files/multipart.h"
#include "runtime/sandboxd/query.h"
#include "runtime/sandboxd/rest.h"

enum {
    ENTRIES_MAX = 65536, /* Of one folder's listing. */
    PUT_CEILING_LOG2 = 40,
    BODY_MAX = 4096, /* Of calls that need none. */
};

static const char prefix[] = "/v1/files";

void
wp_sandboxd_fail(struct wp_http_req *req, int status, const char *code,
                 const char *message)
{
    wp_http_reply_json(req, status,
                       json_pack("{s:s, s:o}", "code", code, "message",
                                 wp_json_from_text(message)));
}

void
wp_sandboxd_fail_errno(struct wp_http_req *req, int os_errno)
{
    static const struct {
        int os_errno;
        int status;
        const char *code;
        const char *message; /* NULL: the system's. */
    } kinds[] = {
        {EXDEV, 403, "PERMISSION_DENIED",
         "path: it leads out of the workspace"},
        {ELOOP, 403, "PERMISSION_DENIED",
         "path: it leads out of the workspace"},
        {EACCES, 403, "PERMISSION_DENIED", NULL},
        {EPERM, 403, "PERMISSION_DENIED", NULL},
        {EROFS, 403, "PERMISSION_DENIED", NULL},
        {ENOENT, 404, "NOT_FOUND", "path: it does not exist in the workspace"},
        {ENOTDIR, 404, "NOT_FOUND", "path: a part of it is no folder"},
        {EISDIR, 400, "INVALID_ARGUMENT",
         "path: a file is expected, not a "
         "folder"},
        {EINVAL, 400, "INVALID_ARGUMENT",
         "path: a relative path is expected, "
         "percent-encoded, without NUL"},
        {ENAMETOOLONG, 400, "INVALID_ARGUMENT", "path: it is too long"},
        {ENOTEMPTY, 409, "CONFLICT",
         "path: the folder is not empty; recursive=true removes it whole"},
        {ENOSPC, 507, "RESOURCE_EXHAUSTED", NULL},
        {EDQUOT, 507, "RESOURCE_EXHAUSTED", NULL},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(kinds); i++) {
        if (kinds[i].os_errno == os_errno) {
            wp_sandboxd_fail(req, kinds[i].status, kinds[i].code,
                             kinds[i].message != NULL ? kinds[i].message
                                                      : wp_os_error(os_errno));
            return;
        }
    }
    wp_sandboxd_fail(req, 500, "INTERNAL", wp_os_error(os_errno));
}

/* The workspace is the root that these clients see. */
int
wp_sandboxd_path_plain(const struct wp_workspace *workspace, const char *path,
                       char out[WP_WORKSPACE_PATH_MAX])
{
    int rc = wp_workspace_path_plain(workspace, path, out);

    if (rc == EXDEV && path[0] == '/') {
        path += strspn(path, "/");
        rc = wp_workspace_path_plain(workspace, path, out);
    }
    return rc;
}

bool
wp_sandboxd_path(struct wp_http_req *req, char out[WP_WORKSPACE_PATH_MAX])
{
    const struct wp_workspace *workspace = &wp_runtime_of(req)->workspace;
    const char *encoded = wp_http_path(req) + strlen(prefix);
    char relative[WP_WORKSPACE_PATH_MAX + 2];
    int rc = ENAMETOOLONG;

    encoded += *encoded == '/' ? 1 : 0;
    if (strlen(encoded) < WP_WORKSPACE_PATH_MAX) {
        /* Decoded as a relative path: "./" before it keeps an absolute one
         * from being refused before it could be taken from the workspace. */
        (void)snprintf(relative, sizeof(relative), "./%s", encoded);
        rc = wp_workspace_path(workspace, relative, out);
    }
    if (rc == 0) {
        char plain[WP_WORKSPACE_PATH_MAX];

        (void)snprintf(plain, sizeof(plain), "%s", out + 2);
        rc = wp_sandboxd_path_plain(workspace, plain, out);
    }
    if (rc != 0) {
        wp_sandboxd_fail_errno(req, rc);
    }
    return rc == 0;
}

/* ----------------------------------------------------------------- reading */

/* What an entry is, as far as it lies in the workspace; a link is shown as what
 * it leads to. False: it is not shown. */
static bool
entry_stat(const struct wp_workspace *workspace, const char *folder, int dir,
           const char *name, struct stat *st)
{
    char path[WP_WORKSPACE_PATH_MAX];
    int fd;
    bool there;

    if (fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW) != 0) {
        return false;
    }
    if (!S_ISLNK(st->st_mode)) {
        return true;
    }
    if (snprintf(path, sizeof(path), "%s/%s", folder, name) >=
        (int)sizeof(path)) {
        return false;
    }
    fd = wp_workspace_open(workspace, path, O_PATH, 0);
    there = fd >= 0 && fstat(fd, st) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return there;
}

static json_t *
entry_json(const char *name, const struct stat *st)
{
    char modified[sizeof("-2147483648-01-01T00:00:00Z")];
    char mode[8];
    struct tm tm;

    if (gmtime_r(&st->st_mtim.tv_sec, &tm) == NULL ||
        strftime(modified, sizeof(modified), "%Y-%m-%dT%H:%M:%SZ", &tm) == 0) {
        (void)snprintf(modified, sizeof(modified), "1970-01-01T00:00:00Z");
    }
    (void)snprintf(mode, sizeof(mode), "%04o", (unsigned)st->st_mode & 0777);
    return json_pack("{s:o, s:I, s:s, s:s, s:s}", "name",
                     wp_json_from_text(name), "size", (json_int_t)st->st_size,
                     "type", S_ISDIR(st->st_mode) ? "directory" : "file",
                     "modified_at", modified, "mode", mode);
}

static void
folder_reply(struct wp_http_req *req, const char *path, int dir)
{
    const struct wp_workspace *workspace = &wp_runtime_of(req)->workspace;
    char shown[WP_WORKSPACE_PATH_MAX + 1];
    struct dirent **names = NULL;
    int count = wp_workspace_scan(dir, &names);
    json_t *list = json_array();
    struct stat st;

    if (count < 0) {
        wp_sandboxd_fail_errno(req, errno);
        json_decref(list);
        return;
    }
    for (int i = 0; i < count; i++) {
        if (i < ENTRIES_MAX &&
            entry_stat(workspace, path, dir, names[i]->d_name, &st)) {
            json_array_append_new(list, entry_json(names[i]->d_name, &st));
        }
        free(names[i]);
    }
    free(names);
    if (count > ENTRIES_MAX) {
        json_decref(list);
        wp_sandboxd_fail(req, 413, "RESOURCE_EXHAUSTED",
                         "path: the folder has more than 65536 entries");
        return;
    }
    (void)snprintf(shown, sizeof(shown), "/%s",
                   strcmp(path, ".") == 0 ? "" : path);
    wp_http_reply_json(req, 200,
                       json_pack("{s:o, s:o}", "path", wp_json_from_text(shown),
                                 "entries", list));
}

static void
file_reply(struct wp_http_req *req, int fd, uint64_t size)
{
    const char *range = wp_http_header(req, "Range");
    uint64_t from = 0;
    uint64_t len = 0;
    char text[96];

    wp_http_add_header(req, "Accept-Ranges", "bytes");
    switch (range != NULL
                ? wp_byte_range_read(wp_str_from(range), size, &from, &len)
                : WP_RANGE_WHOLE) {
    case WP_RANGE_WHOLE:
        wp_http_reply_file(req, fd, size);
        return;
    case WP_RANGE_PART:
        (void)snprintf(text, sizeof(text), "bytes %llu-%llu/%llu",
                       (unsigned long long)from,
                       (unsigned long long)(from + len - 1),
                       (unsigned long long)size);
        wp_http_add_header(req, "Content-Range", text);
        wp_http_reply_file_part(req, fd, from, len);
        return;
    case WP_RANGE_BEYOND:
        close(fd);
        (void)snprintf(text, sizeof(text), "bytes */%llu",
                       (unsigned long long)size);
        wp_http_add_header(req, "Content-Range", text);
        wp_sandboxd_fail(req, 416, "OUT_OF_RANGE",
                         "Range: it begins behind the end of the file");
        return;
    }
}

static void
get_ready(struct wp_http_req *req)
{
    char path[WP_WORKSPACE_PATH_MAX];
    struct stat st;
    int fd;

    if (!wp_sandboxd_path(req, path)) {
        return;
    }
    fd = wp_workspace_open(&wp_runtime_of(req)->workspace, path, O_RDONLY, 0);
    if (fd < 0) {
        wp_sandboxd_fail_errno(req, -fd);
    } else if (fstat(fd, &st) != 0) {
        close(fd);
        wp_sandboxd_fail_errno(req, EIO);
    } else if (S_ISDIR(st.st_mode)) {
        folder_reply(req, path, fd);
        close(fd);
    } else if (S_ISREG(st.st_mode)) {
        file_reply(req, fd, (uint64_t)st.st_size);
    } else {
        close(fd);
        wp_sandboxd_fail(req, 400, "INVALID_ARGUMENT",
                         "path: neither a file nor a folder");
    }
}

const struct wp_http_ops wp_sandboxd_get_ops = {.body_max = BODY_MAX,
                                                .ready = get_ready};

/* ----------------------------------------------------------------- writing */

struct put {
    struct wp_http_req *req;
    struct wp_incoming file;
    struct wp_multipart multipart;
    bool in_parts;
    bool mine;  /* The part being read is the one to keep. */
    bool taken; /* It was found. */
    int os_errno;
};

static void
on_part(void *user, const char *name, const char *filename)
{
    struct put *put = user;

    (void)filename;
    put->mine = !put->taken && strcmp(name, "file") == 0;
    put->taken = put->taken || put->mine;
}

static void
on_data(void *user, const char *data, size_t len)
{
    struct put *put = user;

    if (put->os_errno == 0 && (put->mine || !put->in_parts)) {
        put->os_errno = wp_incoming_write(&put->file, data, len);
    }
}

static void
on_end(void *user)
{
    struct put *put = user;

    put->mine = false;
}

static bool
begin_parts(struct put *put)
{
    static const struct wp_multipart_events events = {on_part, on_data, on_end};
    static const char form[] = "multipart/form-data";
    const char *type = wp_http_header(put->req, "Content-Type");

    if (type == NULL || strncasecmp(type, form, sizeof(form) - 1) != 0) {
        return true;
    }
    put->in_parts = true;
    return wp_multipart_init(&put->multipart, type, &events, put);
}

/* The file is there, and as private or public as was asked. False when
 * answered. */
static bool
begin_file(struct put *put)
{
    struct wp_http_req *req = put->req;
    struct wp_str text;
    mode_t mode = 0;
    bool has_mode = wp_query_find(wp_http_query(req), "mode", &text);
    int rc;

    if (has_mode && !wp_query_mode(text, &mode)) {
        wp_sandboxd_fail(req, 400, "INVALID_ARGUMENT",
                         "mode: 0 and three octal digits are expected");
        return false;
    }
    if (!wp_sandboxd_path(req, put->file.path)) {
        return false;
    }
    rc = wp_incoming_open(&put->file, &wp_runtime_of(req)->workspace);
    if (rc == 0 && has_mode && fchmod(put->file.fd, mode) != 0) {
        rc = errno;
    }
    if (rc != 0) {
        wp_incoming_discard(&put->file);
        wp_sandboxd_fail_errno(req, rc);
    }
    return rc == 0;
}

static void
put_begin(struct wp_http_req *req)
{
    struct put *put = calloc(1, sizeof(*put));

    if (put == NULL) {
        wp_sandboxd_fail(req, 500, "INTERNAL", "out of memory");
        return;
    }
    put->req = req;
    wp_incoming_init(&put->file);
    wp_http_set_user(req, put);
    if (begin_file(put) && !begin_parts(put)) {
        wp_incoming_discard(&put->file);
        wp_sandboxd_fail(req, 400, "INVALID_ARGUMENT",
                         "Content-Type: multipart/form-data needs a boundary");
    }
}

/* Answers at once what cannot succeed any more, rather than read it all. */
static void
put_body(struct wp_http_req *req, const char *data, size_t len)
{
    struct put *put = wp_http_user(req);

    if (!put->in_parts) {
        on_data(put, data, len);
    } else if (!wp_multipart_feed(&put->multipart, data, len)) {
        wp_incoming_discard(&put->file);
        wp_sandboxd_fail(req, 400, "INVALID_ARGUMENT", put->multipart.error);
        return;
    }
    if (put->os_errno != 0) {
        wp_incoming_discard(&put->file);
        wp_sandboxd_fail_errno(req, put->os_errno);
    } else if (put->file.written > wp_runtime_of(req)->options.upload_max) {
        wp_incoming_discard(&put->file);
        wp_sandboxd_fail(req, 413, "RESOURCE_EXHAUSTED",
                         "body: longer than --upload-max allows");
    }
}

static void
put_ready(struct wp_http_req *req)
{
    struct put *put = wp_http_user(req);
    int rc;

    if (put->in_parts &&
        (!put->taken || !wp_multipart_complete(&put->multipart))) {
        wp_incoming_discard(&put->file);
        wp_sandboxd_fail(req, 400, "INVALID_ARGUMENT",
                         "body: a whole part named file is expected");
        return;
    }
    rc = put->os_errno != 0 ? put->os_errno : wp_incoming_commit(&put->file);
    if (rc != 0) {
        wp_incoming_discard(&put->file);
        wp_sandboxd_fail_errno(req, rc);
        return;
    }
    wp_log_info("file written", wp_kv_int("bytes", (int64_t)put->file.written));
    wp_http_reply(req, 204, NULL, NULL, 0);
}

static void
put_gone(struct wp_http_req *req)
{
    struct put *put = wp_http_user(req);

    if (put != NULL) {
        wp_incoming_discard(&put->file);
        free(put);
    }
}

const struct wp_http_ops wp_sandboxd_put_ops = {
    .body_max = UINT64_C(1) << PUT_CEILING_LOG2,
    .begin = put_begin,
    .body = put_body,
    .ready = put_ready,
    .gone = put_gone,
};
