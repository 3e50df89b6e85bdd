/* POST /v1/bind: what the claim brings that has this sandbox, in a cluster.
 *
 *   FREE --> PART --all of it is there--> WHOLE
 *
 * One binding in the life of the sandbox, which may be longer than that of this
 * process: a container that starts again finds its folders as they were. So a
 * file in the folder of what was bound, which is in memory as long as the Pod
 * is there, says what became of it: it is made before anything is taken, and
 * has the fingerprint once all is there. */
#include "runtime/server/bind.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/base/log.h"
#include "pool/base/os_error.h"
#include "proto/formats/json_text.h"
#include "proto/parcel/bind.h"
#include "proto/parcel/parcel.h"
#include "runtime/exec/bound.h"
#include "runtime/exec/exec_result.h"
#include "runtime/server/bind_body.h"
#include "runtime/server/identity.h"

#define MARK "binding"
#define FOLDER_ENV "WARMPOOL_BOUND_DIR"

/* Bytes; the workspace's own bound comes first. */
#define TREES_MAX (UINT64_C(1) << 40)

enum {
    MARK_MODE = 0400,
};

/* --- The folder, and the file in it --- */

/* -1 with errno: it is not there, or others may write there. */
static int
open_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
        (st.st_mode & 0077) == 0) {
        return fd;
    }
    if (fd >= 0) {
        (void)close(fd);
        errno = EPERM;
    }
    return -1;
}

/* -1 with errno; EEXIST: a binding was begun before. */
static int
begin(const struct wp_runtime *runtime)
{
    const char *path = runtime->options.bound_dir;
    int error;
    int mark;
    int dir;

    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return -1;
    }
    dir = open_folder(path);
    if (dir < 0) {
        return -1;
    }
    mark =
        openat(dir, MARK, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, MARK_MODE);
    error = errno;
    (void)close(dir);
    errno = error;
    return mark;
}

/* Commands look there from here on. */
static void
show_folder(const struct wp_runtime *runtime)
{
    /* One thread. NOLINTNEXTLINE(concurrency-mt-unsafe) */
    (void)setenv(FOLDER_ENV, runtime->options.bound_dir, 1);
}

static void
be_whole(struct wp_runtime *runtime, const char *fingerprint)
{
    memcpy(runtime->fingerprint, fingerprint, WP_BIND_FINGERPRINT_TEXT);
    runtime->bound = WP_BOUND_WHOLE;
}

static bool
is_fingerprint(const char *text)
{
    return strlen(text) == WP_BIND_FINGERPRINT_TEXT &&
           strspn(text, "0123456789abcdef") == WP_BIND_FINGERPRINT_TEXT;
}

void
wp_runtime_bind_init(struct wp_runtime *runtime)
{
    char text[WP_BIND_FINGERPRINT_TEXT + 1] = "";
    int dir = runtime->options.token_digest != NULL
                  ? open_folder(runtime->options.bound_dir)
                  : -1;
    int mark =
        dir >= 0 ? openat(dir, MARK, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;

    if (mark >= 0) {
        runtime->bound = WP_BOUND_PART;
        if (read(mark, text, WP_BIND_FINGERPRINT_TEXT) ==
                WP_BIND_FINGERPRINT_TEXT &&
            is_fingerprint(text)) {
            be_whole(runtime, text);
            show_folder(runtime);
        }
        (void)close(mark);
    }
    if (dir >= 0) {
        (void)close(dir);
    }
}

/* --- The command --- */

static void
on_brought_done(void *user, const struct wp_process_result *result)
{
    (void)user;
    wp_exec_result_log("binding", result);
}

/* Starts it beside the server; its output is thrown away. */
static bool
start_brought(const struct wp_runtime *runtime,
              const struct wp_bind_command *command, char why[WP_BIND_WHY_MAX])
{
    static const struct wp_process_events events = {.done = on_brought_done};
    const struct wp_process_spec spec = {
        .argv = command->argv,
        .env = command->env,
        .cwd_fd =
            command->dir_fd >= 0 ? command->dir_fd : runtime->workspace.fd,
    };
    struct wp_process *process;
    struct wp_err err;

    if (command->argv == NULL ||
        wp_process_start(runtime->processes, &spec, &events, NULL, &process,
                         &err) == WP_OK) {
        return true;
    }
    (void)snprintf(why, WP_BIND_WHY_MAX, "command: %.140s", err.msg);
    return false;
}

/* --- Taking it --- */

/* The names of what was bound. NULL on no memory. */
static json_t *
no_names(void)
{
    return json_pack("{s:[], s:[], s:[]}", "env", "secrets", "files");
}

static bool
take(struct wp_http_req *req, const char *fingerprint,
     struct wp_bind_body *body, json_t *names, char why[WP_BIND_WHY_MAX])
{
    struct wp_runtime *runtime = wp_runtime_of(req);
    struct wp_bind_command command;
    int mark = begin(runtime);
    bool ok;

    if (mark < 0) {
        (void)snprintf(why, WP_BIND_WHY_MAX, "%.100s: %s",
                       runtime->options.bound_dir, wp_os_error(errno));
        return false;
    }
    runtime->bound = WP_BOUND_PART;
    show_folder(runtime);
    ok = wp_runtime_identity_take(req, why, WP_BIND_WHY_MAX) &&
         wp_bind_body_unpack(body, &runtime->workspace, names, why,
                             WP_BIND_WHY_MAX);
    if (ok) {
        ok = wp_bind_take(runtime->options.bound_dir, runtime->workspace.root,
                          wp_bind_body_parcel(body), body->parcel_len, &command,
                          why) &&
             wp_bind_is_identified(runtime->options.bound_dir, &command, why) &&
             start_brought(runtime, &command, why);
        wp_bind_command_fini(&command);
    }
    if (ok && write(mark, fingerprint, WP_BIND_FINGERPRINT_TEXT) !=
                  WP_BIND_FINGERPRINT_TEXT) {
        (void)snprintf(why, WP_BIND_WHY_MAX, "%.100s: %s",
                       runtime->options.bound_dir, wp_os_error(errno));
        ok = false;
    }
    (void)close(mark);
    if (ok) {
        be_whole(runtime, fingerprint);
    }
    return ok;
}

static void
add_names(json_t *names, struct wp_parcel parcel)
{
    static const char *const lists[] = {
        [WP_PARCEL_ENV] = "env",
        [WP_PARCEL_SECRET] = "secrets",
        [WP_PARCEL_FILE] = "files",
    };
    struct wp_parcel_entry entry;
    bool started = false;

    while (names != NULL && wp_parcel_next(&parcel, &entry)) {
        struct wp_str name = {entry.first, entry.first_len};

        if (entry.kind < WP_ARRAY_LEN(lists) && lists[entry.kind] != NULL) {
            (void)json_array_append_new(
                json_object_get(names, lists[entry.kind]),
                wp_json_from_str(name));
        } else if (entry.kind == WP_PARCEL_DIR) {
            (void)json_object_set_new(names, "working_dir",
                                      wp_json_from_str(name));
        } else if (entry.kind == WP_PARCEL_WORD) {
            started = true;
        }
    }
    (void)json_object_set_new(names, "started", json_boolean(started));
}

/* Takes names. */
static void
reply_bound(struct wp_http_req *req, const struct wp_bind_body *body,
            json_t *names)
{
    const uint8_t *parcel = wp_bind_body_parcel(body);

    add_names(names, (struct wp_parcel){parcel, parcel + body->parcel_len});
    wp_http_add_header(req, WP_BIND_FIELD, wp_runtime_of(req)->fingerprint);
    wp_runtime_identity_confirm(req);
    wp_http_reply_json(req, 200, names);
}

/* --- The request --- */

static void
bind_begin(struct wp_http_req *req)
{
    const char *trees = wp_http_header(req, WP_BIND_TREES_FIELD);
    struct wp_bind_body *body = malloc(sizeof *body);
    uint64_t trees_len = 0;

    if (body == NULL) {
        wp_http_reply_json(req, 500, NULL);
        return;
    }
    wp_http_set_user(req, body);
    wp_bind_body_init(body, 0, false);
    if (trees != NULL && (!wp_str_to_u64(wp_str_from(trees), &trees_len) ||
                          trees_len > TREES_MAX)) {
        wp_http_reply_error(req, 400,
                            WP_BIND_TREES_FIELD ": a number of bytes is "
                                                "expected");
        return;
    }
    /* What is not taken is read all the same: whoever sends it hears why. */
    wp_bind_body_init(body, trees_len,
                      wp_runtime_of(req)->bound == WP_BOUND_FREE &&
                          wp_runtime_of(req)->options.token_digest != NULL);
}

static void
bind_body(struct wp_http_req *req, const char *data, size_t len)
{
    if (!wp_bind_body_feed(wp_http_user(req), &wp_runtime_of(req)->workspace,
                           data, len)) {
        wp_http_reply_error(req, 413, "the parcel: at most %d bytes are taken",
                            WP_PARCEL_MAX);
    }
}

static void
take_new(struct wp_http_req *req, const char *fingerprint)
{
    struct wp_bind_body *body = wp_http_user(req);
    char why[WP_BIND_WHY_MAX] = "";
    json_t *names = no_names();

    if (take(req, fingerprint, body, names, why)) {
        wp_log_info("bound");
        reply_bound(req, body, names);
        return;
    }
    json_decref(names);
    wp_log_warn("not bound", wp_kv_str("why", why));
    wp_http_reply_error(req, 422, "%s", why);
}

/* It has all of it; its identity may be a new one. */
static void
take_again(struct wp_http_req *req)
{
    char why[WP_BIND_WHY_MAX] = "";

    if (wp_runtime_identity_take(req, why, sizeof why)) {
        reply_bound(req, wp_http_user(req), no_names());
    } else {
        wp_http_reply_error(req, 422, "%s", why);
    }
}

static void
bind_ready(struct wp_http_req *req)
{
    struct wp_runtime *runtime = wp_runtime_of(req);
    const char *fingerprint = wp_http_header(req, WP_BIND_FIELD);
    struct wp_bind_body *body = wp_http_user(req);

    if (runtime->options.token_digest == NULL) {
        wp_http_reply_error(req, 403,
                            "this server takes no binding: it was given no "
                            "token's digest");
    } else if (fingerprint == NULL || !is_fingerprint(fingerprint)) {
        wp_http_reply_error(req, 400,
                            WP_BIND_FIELD
                            ": %d hexadecimal digits, 0 to 9 and a to f, are "
                            "expected",
                            WP_BIND_FINGERPRINT_TEXT);
    } else if (!wp_bind_body_is_whole(body)) {
        wp_http_reply_error(req, 400,
                            WP_BIND_TREES_FIELD ": more bytes than came");
    } else if (runtime->bound == WP_BOUND_PART) {
        wp_http_reply_error(req, 422, "it took a part of a binding only");
    } else if (runtime->bound == WP_BOUND_FREE) {
        take_new(req, fingerprint);
    } else if (strcmp(fingerprint, runtime->fingerprint) == 0) {
        take_again(req);
    } else {
        wp_http_reply_error(req, 409, "it has another binding");
    }
}

static void
bind_gone(struct wp_http_req *req)
{
    struct wp_bind_body *body = wp_http_user(req);

    if (body != NULL) {
        wp_bind_body_fini(body);
        free(body);
    }
}

const struct wp_http_ops wp_bind_ops = {
    .body_max = TREES_MAX + WP_PARCEL_MAX,
    .begin = bind_begin,
    .body = bind_body,
    .ready = bind_ready,
    .gone = bind_gone,
};
