/* The REST API that sandbox clients know: status, execute, download, list,
 * exists. Uploads are in rest_upload.c. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/formats/json_text.h"
#include "runtime/exec/bound.h"
#include "runtime/exec/exec_result.h"
#include "pool/base/os_error.h"
#include "runtime/runtime.h"
#include "runtime/exec/shell_words.h"

enum {
    LIST_ENTRIES_MAX = 10000,
    EXECUTE_BODY_MAX = 4 << 20,
    TIMEOUT_MAX_S = 86400,
};

static void
status_ready(struct wp_http_req *req)
{
    wp_http_reply_json(req, 200,
                       json_pack("{s:s, s:s}", "status", "ok", "message",
                                 "Sandbox Runtime is active."));
}

const struct wp_http_ops wp_rest_status_ops = {.body_max = 4096,
                                               .ready = status_ready};

static void
health_ready(struct wp_http_req *req)
{
    static const char ok[] = "ok\n";

    wp_http_reply(req, 200, "text/plain", ok, sizeof(ok) - 1);
}

const struct wp_http_ops wp_rest_health_ops = {.body_max = 4096,
                                               .ready = health_ready};

/* --------------------------------------------------------------- execute */

/* Lives from the request to the command's end; user of the request. */
struct execute {
    struct wp_http_req *req;
    struct wp_process *process; /* NULL while it waits for room. */
    struct wp_process_wait wait;
    struct wp_shell_words words;
    int64_t timeout_ms;
};

static void
execute_free(struct execute *execute)
{
    wp_process_wait_cancel(&execute->wait);
    wp_shell_words_free(&execute->words);
    free(execute);
}

static void
on_execute_done(void *user, const struct wp_process_result *result)
{
    struct execute *execute = user;
    int exit_code = result->exit_code;
    json_t *answer;

    wp_exec_result_log("rest", result);
    if (result->timed_out) {
        evbuffer_add_printf(
            result->output[1],
            "\n[warmpool-runtime: killed after the limit of %lld ms]\n",
            (long long)execute->timeout_ms);
    } else if (result->signal != 0) {
        exit_code = -result->signal;
    }
    answer = wp_exec_result_json(result, exit_code);
    (void)json_object_set_new(answer, "timed_out",
                              json_boolean(result->timed_out));
    wp_http_set_user(execute->req, NULL);
    wp_http_reply_json(execute->req, 200, answer);
    execute_free(execute);
}

/* What cannot start is a command that failed: 200, exit code 1. */
static void
execute_failed(struct wp_http_req *req, const char *why)
{
    char text[300];

    snprintf(text, sizeof(text), "Failed to execute command: %s", why);
    wp_http_reply_json(req, 200,
                       json_pack("{s:s, s:o, s:i, s:b}", "stdout", "", "stderr",
                                 wp_json_from_text(text), "exit_code", 1,
                                 "timed_out", 0));
}

/* Clients do not repeat a POST by themselves when it is refused: this is for
 * the case that the line is full, too. */
static void
execute_refused(struct wp_http_req *req, const char *why)
{
    wp_http_add_header(req, "Retry-After", "1");
    wp_http_reply_error(req, 429, "%s", why);
}

static void
execute_start(void *user)
{
    static const struct wp_process_events events = {.done = on_execute_done};
    struct execute *execute = user;
    struct wp_http_req *req = execute->req;
    struct wp_runtime *runtime = wp_runtime_of(req);
    const struct wp_process_spec spec = {
        .argv = execute->words.argv,
        .cwd_fd = wp_bound_folder(runtime->workspace.fd),
        .timeout_ms = execute->timeout_ms,
        .output_max = runtime->options.output_max,
    };
    enum wp_status status;
    struct wp_err err;

    status = wp_process_start(runtime->processes, &spec, &events, execute,
                              &execute->process, &err);
    if (status == WP_OK) {
        return;
    }
    wp_http_set_user(req, NULL);
    execute_free(execute);
    if (status == WP_RESOURCE_EXHAUSTED) {
        execute_refused(req, err.msg);
    } else {
        execute_failed(req, err.msg);
    }
}

/* Starts the command, or lets it wait for room. Takes words. */
static void
execute_begin(struct wp_http_req *req, const struct wp_shell_words *words,
              int64_t timeout_ms)
{
    struct wp_process_table *table = wp_runtime_of(req)->processes;
    struct execute *execute = calloc(1, sizeof(*execute));
    struct wp_shell_words unused = *words;
    struct wp_err err;

    if (execute == NULL) {
        wp_shell_words_free(&unused);
        wp_http_reply_json(req, 500, NULL);
        return;
    }
    execute->req = req;
    execute->words = *words;
    execute->timeout_ms = timeout_ms;
    execute->wait.room = execute_start;
    execute->wait.user = execute;
    wp_http_set_user(req, execute);
    if (wp_process_has_room(table)) {
        execute_start(execute);
    } else if (wp_process_wait(table, &execute->wait, &err) != WP_OK) {
        wp_http_set_user(req, NULL);
        execute_free(execute);
        execute_refused(req, err.msg);
    }
}

/* The limit that was asked for, else the server's own; -1, and answered, when
 * it is unfit. */
static int64_t
execute_timeout_ms(struct wp_http_req *req, const json_t *asked)
{
    double seconds = json_number_value(asked);

    if (asked == NULL || json_is_null(asked)) {
        return wp_runtime_of(req)->options.rest_timeout_ms;
    }
    if (!json_is_number(asked) || !(seconds > 0) || seconds > TIMEOUT_MAX_S) {
        wp_http_reply_error(req, 422,
                            "timeout_seconds: a number above 0 and up to %d "
                            "is required",
                            TIMEOUT_MAX_S);
        return -1;
    }
    return seconds < 0.001 ? 1 : (int64_t)(seconds * 1000);
}

static void
execute_ready(struct wp_http_req *req)
{
    json_error_t why;
    size_t len;
    const char *text = wp_http_body(req, &len);
    json_t *root = json_loadb(text, len, JSON_ALLOW_NUL, &why);
    const json_t *command = json_object_get(root, "command");
    struct wp_shell_words words;
    int64_t timeout_ms = 0;
    struct wp_err err;

    if (root == NULL) {
        wp_http_reply_error(req, 400, "body: not JSON: %s", why.text);
    } else if (!json_is_string(command)) {
        wp_http_reply_error(req, 422, "command: a string is required");
    } else {
        timeout_ms =
            execute_timeout_ms(req, json_object_get(root, "timeout_seconds"));
    }
    if (wp_http_replied(req)) {
        json_decref(root);
        return;
    }
    if (wp_shell_words_split((struct wp_str){json_string_value(command),
                                             json_string_length(command)},
                             &words, &err) != WP_OK) {
        execute_failed(req, err.msg);
    } else if (words.count == 0) {
        execute_failed(req, "the command is empty");
        wp_shell_words_free(&words);
    } else {
        execute_begin(req, &words, timeout_ms);
    }
    json_decref(root);
}

/* Nobody waits for the output any more. */
static void
execute_gone(struct wp_http_req *req)
{
    struct execute *execute = wp_http_user(req);

    if (execute != NULL) {
        if (execute->process != NULL) {
            wp_process_cancel(execute->process);
        }
        execute_free(execute);
    }
}

const struct wp_http_ops wp_rest_execute_ops = {
    .body_max = EXECUTE_BODY_MAX,
    .ready = execute_ready,
    .gone = execute_gone,
};

/* ----------------------------------------------------------------- files */

void
wp_rest_reply_errno(struct wp_http_req *req, const char *path, int os_errno)
{
    const char *message = wp_os_error(os_errno);
    int status = 500;

    if (wp_workspace_is_escape(os_errno)) {
        status = 403;
        message = "Access denied: the path leads out of the workspace";
    } else if (os_errno == EACCES || os_errno == EPERM || os_errno == EROFS) {
        status = 403;
    } else if (os_errno == ENOENT || os_errno == ENOTDIR) {
        status = 404;
    } else if (os_errno == EINVAL || os_errno == ENAMETOOLONG) {
        status = 400;
    } else if (os_errno == EISDIR) {
        status = 404;
        message = "not a file but a directory";
    }
    wp_http_reply_json(req, status,
                       json_pack("{s:s, s:s, s:o}", "message", message, "error",
                                 message, "path", wp_json_from_text(path)));
}

/* The path of the request after its first component; false when answered. */
static bool
request_path(struct wp_http_req *req, char out[WP_WORKSPACE_PATH_MAX])
{
    const char *encoded = strchr(wp_http_path(req) + 1, '/');
    int rc;

    /* "/list/a" names a; "/list//a" the absolute path "/a". */
    encoded = encoded != NULL ? encoded + 1 : "";
    rc = wp_workspace_path(&wp_runtime_of(req)->workspace, encoded, out);
    if (rc != 0) {
        wp_rest_reply_errno(req, encoded, rc);
    }
    return rc == 0;
}

static void
download_ready(struct wp_http_req *req)
{
    struct wp_workspace *workspace = &wp_runtime_of(req)->workspace;
    char path[WP_WORKSPACE_PATH_MAX];
    struct stat st = {.st_mode = 0};
    int fd;

    if (!request_path(req, path)) {
        return;
    }
    fd = wp_workspace_open(workspace, path, O_RDONLY, 0);
    if (fd < 0) {
        wp_rest_reply_errno(req, path, -fd);
    } else if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        wp_rest_reply_errno(req, path, S_ISDIR(st.st_mode) ? EISDIR : ENOENT);
    } else {
        wp_http_reply_file(req, fd, (uint64_t)st.st_size);
    }
}

const struct wp_http_ops wp_rest_download_ops = {.body_max = 4096,
                                                 .ready = download_ready};

/* A link is shown as what it leads to, if that is in the workspace. */
static json_t *
entry_json(const struct wp_workspace *workspace, const char *folder, int dir,
           const char *name)
{
    char path[WP_WORKSPACE_PATH_MAX];
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return NULL;
    }
    if (S_ISLNK(st.st_mode) && snprintf(path, sizeof(path), "%s/%s", folder,
                                        name) < (int)sizeof(path)) {
        int fd = wp_workspace_open(workspace, path, O_PATH, 0);

        if (fd >= 0) {
            (void)fstat(fd, &st);
            close(fd);
        }
    }
    return json_pack("{s:o, s:I, s:s, s:f}", "name", wp_json_from_text(name),
                     "size", (json_int_t)st.st_size, "type",
                     S_ISDIR(st.st_mode) ? "directory" : "file", "mod_time",
                     (double)st.st_mtim.tv_sec +
                         (double)st.st_mtim.tv_nsec / 1e9);
}

static void
list_ready(struct wp_http_req *req)
{
    struct wp_workspace *workspace = &wp_runtime_of(req)->workspace;
    char path[WP_WORKSPACE_PATH_MAX];
    struct dirent **names = NULL;
    json_t *list;
    int count;
    int dir;

    if (!request_path(req, path)) {
        return;
    }
    dir = wp_workspace_open(workspace, path, O_RDONLY | O_DIRECTORY, 0);
    if (dir < 0) {
        wp_rest_reply_errno(req, path, -dir);
        return;
    }
    count = wp_workspace_scan(dir, &names);
    if (count < 0) {
        wp_rest_reply_errno(req, path, errno);
        close(dir);
        return;
    }
    list = json_array();
    for (int i = 0; i < count; i++) {
        if (i < LIST_ENTRIES_MAX) {
            json_array_append_new(
                list, entry_json(workspace, path, dir, names[i]->d_name));
        }
        free(names[i]);
    }
    free(names);
    close(dir);
    wp_http_reply_json(req, 200, list);
}

const struct wp_http_ops wp_rest_list_ops = {.body_max = 4096,
                                             .ready = list_ready};

static void
exists_ready(struct wp_http_req *req)
{
    struct wp_workspace *workspace = &wp_runtime_of(req)->workspace;
    char path[WP_WORKSPACE_PATH_MAX];
    int fd;

    if (!request_path(req, path)) {
        return;
    }
    fd = wp_workspace_open(workspace, path, O_PATH, 0);
    if (fd < 0 && wp_workspace_is_escape(-fd)) {
        wp_rest_reply_errno(req, path, -fd);
        return;
    }
    if (fd >= 0) {
        close(fd);
    }
    wp_http_reply_json(req, 200,
                       json_pack("{s:o, s:b}", "path", wp_json_from_text(path),
                                 "exists", fd >= 0));
}

const struct wp_http_ops wp_rest_exists_ops = {.body_max = 4096,
                                               .ready = exists_ready};
