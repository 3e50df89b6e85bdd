/* POST /v1/exec: a command whose streams are the connection's frames. What the
 * frames look like is in exec_stream.h.
 *
 * Back-pressure: the socket is not read while more than STDIN_HIGH bytes wait
 * for the command, and the command's pipes are not read while more than
 * OUTPUT_HIGH bytes wait for the client. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/log.h"
#include "runtime/exec/bound.h"
#include "runtime/exec/environment.h"
#include "runtime/server/exec_stream.h"
#include "runtime/runtime.h"

enum {
    STDIN_HIGH = 65536,
    OUTPUT_HIGH = 262144,
    REQUEST_MAX = 4 << 20,
    ARGS_MAX = 4096,
    ENV_MAX = 1024,
};

struct session {
    struct wp_http_req *req;
    struct wp_process *process; /* NULL once it is done. */
    struct wp_exec_frame frame; /* The one being read. */
    uint32_t left;              /* Of its payload. */
    bool stdin_closed;
    bool held; /* The command's pipes are not read. */
};

static void
frame_send(struct session *session, enum wp_exec_frame_type type,
           struct evbuffer *data, uint32_t len)
{
    struct evbuffer *out = wp_http_stream_output(session->req);
    uint8_t head[WP_EXEC_HEAD_LEN];

    wp_exec_frame_pack((struct wp_exec_frame){(uint8_t)type, len}, head);
    evbuffer_add(out, head, sizeof(head));
    evbuffer_remove_buffer(data, out, len);
}

static void
text_send(struct session *session, enum wp_exec_frame_type type,
          const char *text)
{
    struct evbuffer *out = wp_http_stream_output(session->req);
    uint32_t len = (uint32_t)strlen(text);
    uint8_t head[WP_EXEC_HEAD_LEN];

    wp_exec_frame_pack((struct wp_exec_frame){(uint8_t)type, len}, head);
    evbuffer_add(out, head, sizeof(head));
    evbuffer_add(out, text, len);
}

/* ----------------------------------------------------- from the command */

static void
hold(struct session *session, bool on)
{
    session->held = on;
    if (session->process != NULL) {
        wp_process_read(session->process, WP_PROCESS_STDOUT, !on);
        wp_process_read(session->process, WP_PROCESS_STDERR, !on);
    }
}

static void
on_output(void *user, enum wp_process_stream stream, struct evbuffer *data)
{
    struct session *session = user;
    size_t len;

    while ((len = evbuffer_get_length(data)) > 0) {
        if (len > WP_EXEC_PAYLOAD_MAX) {
            len = WP_EXEC_PAYLOAD_MAX;
        }
        frame_send(session,
                   stream == WP_PROCESS_STDOUT ? WP_EXEC_STDOUT
                                               : WP_EXEC_STDERR,
                   data, (uint32_t)len);
    }
    if (evbuffer_get_length(wp_http_stream_output(session->req)) >
        OUTPUT_HIGH) {
        hold(session, true);
    }
}

static void
on_drained(struct wp_http_req *req)
{
    struct session *session = wp_http_user(req);

    if (session->held) {
        hold(session, false);
    }
}

static void
on_stdin_room(void *user)
{
    struct session *session = user;

    wp_http_stream_read(session->req, true);
}

static void
on_done(void *user, const struct wp_process_result *result)
{
    struct session *session = user;
    char text[96];

    session->process = NULL;
    wp_log_info("command ended", wp_kv_str("by", "stream"),
                wp_kv_int("exit_code", result->exit_code),
                wp_kv_int("signal", result->signal),
                wp_kv_int("timed_out", result->timed_out),
                wp_kv_ms("took_ms", result->duration_ns));
    snprintf(text, sizeof(text),
             "{\"exit_code\":%d,\"signal\":%d,\"timed_out\":%s}",
             result->exit_code, result->signal,
             result->timed_out ? "true" : "false");
    text_send(session, WP_EXEC_EXIT, text);
    wp_http_stream_end(session->req);
}

/* ------------------------------------------------------ from the client */

static void
protocol_error(struct session *session, const char *why)
{
    if (session->process != NULL) {
        wp_process_cancel(session->process);
        session->process = NULL;
    }
    text_send(session, WP_EXEC_ERROR, why);
    wp_http_stream_end(session->req);
}

/* A head was read. False when it is not one a client may send. */
static bool
frame_valid(const struct wp_exec_frame *frame)
{
    return frame->type == WP_EXEC_STDIN ||
           (frame->type == WP_EXEC_STDIN_EOF && frame->len == 0) ||
           (frame->type == WP_EXEC_SIGNAL && frame->len == 1);
}

/* Handles payload that is there; false when it must wait. */
static bool
payload_take(struct session *session, struct evbuffer *in)
{
    size_t have = evbuffer_get_length(in);
    size_t take = have < session->left ? have : session->left;

    if (session->frame.type == WP_EXEC_STDIN) {
        if (session->stdin_closed) {
            evbuffer_drain(in, take);
        } else {
            wp_process_write(session->process, in, take);
        }
        session->left -= (uint32_t)take;
        if (wp_process_stdin_queued(session->process) > STDIN_HIGH) {
            wp_http_stream_read(session->req, false);
            return false;
        }
    } else if (session->frame.type == WP_EXEC_SIGNAL) {
        uint8_t number = 0;

        evbuffer_remove(in, &number, 1);
        session->left = 0;
        if (number == 0 || number >= NSIG) {
            protocol_error(session, "SIGNAL: not a signal number");
            return false;
        }
        wp_process_signal(session->process, number);
    }
    return true;
}

static void
on_input(struct wp_http_req *req, struct evbuffer *in)
{
    struct session *session = wp_http_user(req);
    uint8_t head[WP_EXEC_HEAD_LEN];

    while (session->process != NULL &&
           wp_process_stdin_queued(session->process) <= STDIN_HIGH) {
        if (session->left > 0) {
            if (evbuffer_get_length(in) == 0 || !payload_take(session, in)) {
                return;
            }
            continue;
        }
        if (evbuffer_get_length(in) < sizeof(head)) {
            return;
        }
        evbuffer_remove(in, head, sizeof(head));
        if (!wp_exec_frame_unpack(head, &session->frame) ||
            !frame_valid(&session->frame)) {
            protocol_error(session, "malformed frame");
            return;
        }
        session->left = session->frame.len;
        if (session->frame.type == WP_EXEC_STDIN_EOF) {
            session->stdin_closed = true;
            wp_process_stdin_close(session->process);
        }
    }
}

/* ------------------------------------------------------------ the request */

/* The strings of an array as an argv (malloc'ed, strings borrowed); NULL when
 * it is not 1..ARGS_MAX strings without NUL. */
static char **
argv_of(const json_t *list)
{
    size_t count = json_array_size(list);
    char **argv;

    if (count == 0 || count > ARGS_MAX) {
        return NULL;
    }
    argv = calloc(count + 1, sizeof(*argv));
    for (size_t i = 0; argv != NULL && i < count; i++) {
        const json_t *item = json_array_get(list, i);
        const char *text = json_string_value(item);

        if (text == NULL || strlen(text) != json_string_length(item)) {
            free(argv);
            return NULL;
        }
        memcpy(&argv[i], &text, sizeof(text)); /* exec takes char *const[]. */
    }
    return argv;
}

/* False when a name or value is unfit. */
static bool
env_fill(struct wp_environment *env, json_t *asked)
{
    const char *key;
    json_t *value;

    if (!wp_environment_init(env, json_object_size(asked))) {
        return false;
    }
    json_object_foreach(asked, key, value)
    {
        if (!json_is_string(value) ||
            !wp_environment_add(env, wp_str_from(key),
                                (struct wp_str){json_string_value(value),
                                                json_string_length(value)})) {
            return false;
        }
    }
    wp_environment_inherit(env);
    return true;
}

static void
session_start(struct wp_http_req *req, const struct wp_process_spec *spec)
{
    static const struct wp_process_events events = {
        .output = on_output, .stdin_room = on_stdin_room, .done = on_done};
    static const struct wp_http_stream_ops stream = {.input = on_input,
                                                     .drained = on_drained};
    struct session *session = calloc(1, sizeof(*session));
    enum wp_status status;
    struct wp_err err;

    if (session == NULL) {
        wp_http_reply_json(req, 500, NULL);
        return;
    }
    session->req = req;
    status = wp_process_start(wp_runtime_of(req)->processes, spec, &events,
                              session, &session->process, &err);
    if (status != WP_OK) {
        free(session);
        if (status == WP_RESOURCE_EXHAUSTED) {
            wp_http_add_header(req, "Retry-After", "1");
        }
        wp_http_reply_error(req, status == WP_RESOURCE_EXHAUSTED ? 429 : 422,
                            "%s", err.msg);
        return;
    }
    wp_http_set_user(req, session);
    wp_http_upgrade(req, WP_EXEC_UPGRADE, &stream);
}

/* Reads the optional fields and starts; answers what is wrong. */
static void
request_run(struct wp_http_req *req, json_t *root, char **argv)
{
    json_t *cwd = json_object_get(root, "cwd");
    json_t *env = json_object_get(root, "env");
    json_t *timeout = json_object_get(root, "timeout_ms");
    struct wp_process_spec spec = {
        .argv = argv,
        .cwd = json_string_value(cwd),
        .cwd_fd = cwd == NULL
                      ? wp_bound_folder(wp_runtime_of(req)->workspace.fd)
                      : -1,
        .timeout_ms = json_integer_value(timeout),
        .open_stdin = true,
    };
    struct wp_environment environment = {NULL, 0};

    if (cwd != NULL && !json_is_string(cwd)) {
        wp_http_reply_error(req, 400, "cwd: a string is required");
    } else if (timeout != NULL &&
               (!json_is_integer(timeout) || spec.timeout_ms < 0)) {
        wp_http_reply_error(req, 400,
                            "timeout_ms: a whole number from 0 is required");
    } else if (env != NULL &&
               (!json_is_object(env) || json_object_size(env) > ENV_MAX ||
                !env_fill(&environment, env))) {
        wp_http_reply_error(req, 400,
                            "env: an object of at most %d strings is required",
                            ENV_MAX);
    } else {
        spec.env = environment.list;
        session_start(req, &spec);
    }
    wp_environment_fini(&environment);
}

static void
session_ready(struct wp_http_req *req)
{
    json_error_t why;
    size_t len;
    const char *text = wp_http_body(req, &len);
    json_t *root;
    char **argv;

    if (!wp_http_wants_upgrade(req, WP_EXEC_UPGRADE)) {
        wp_http_add_header(req, "Upgrade", WP_EXEC_UPGRADE);
        wp_http_reply_error(req, 426, "Upgrade: %s is required",
                            WP_EXEC_UPGRADE);
        return;
    }
    root = json_loadb(text, len, 0, &why);
    argv = argv_of(json_object_get(root, "argv"));
    if (root == NULL) {
        wp_http_reply_error(req, 400, "body: not JSON: %s", why.text);
    } else if (argv == NULL) {
        wp_http_reply_error(req, 400,
                            "argv: an array of 1 to %d strings is required",
                            ARGS_MAX);
    } else {
        request_run(req, root, argv);
    }
    free(argv);
    json_decref(root);
}

static void
session_gone(struct wp_http_req *req)
{
    struct session *session = wp_http_user(req);

    if (session == NULL) {
        return;
    }
    if (session->process != NULL) {
        wp_log_info("client left a running command, which is killed");
        wp_process_cancel(session->process);
    }
    free(session);
}

const struct wp_http_ops wp_exec_session_ops = {
    .body_max = REQUEST_MAX,
    .ready = session_ready,
    .gone = session_gone,
};
