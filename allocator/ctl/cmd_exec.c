/* exec: a command in a claim's sandbox, with this process's streams. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocator/ctl/commands.h"
#include "allocator/ctl/sandbox/exec_stream_client.h"
#include "allocator/ctl/lease.h"
#include "allocator/ctl/print.h"
#include "allocator/ctl/sandbox/sandbox_client.h"
#include "pool/base/clock.h"

/* The request's JSON (malloc'ed), or NULL when a word is not UTF-8. */
static char *
request_body(const struct wp_ctl_options *options)
{
    json_t *argv = json_array();
    json_t *env = json_object();
    json_t *root = json_pack("{s:O, s:O}", "argv", argv, "env", env);
    bool ok = root != NULL;
    char *text;

    for (int i = 0; i < options->n_rest; i++) {
        ok = json_array_append_new(argv, json_string(options->rest[i])) == 0 &&
             ok;
    }
    for (uint32_t i = 0; i < options->n_env; i++) {
        const char *equals = strchr(options->env[i], '=');
        char *key =
            strndup(options->env[i], (size_t)(equals - options->env[i]));

        ok = key != NULL &&
             json_object_set_new(env, key, json_string(equals + 1)) == 0 && ok;
        free(key);
    }
    if (options->cwd != NULL) {
        ok = json_object_set_new(root, "cwd", json_string(options->cwd)) == 0 &&
             ok;
    }
    if (options->time_limit_ns > 0) {
        json_int_t ms = options->time_limit_ns / WP_NS_PER_MS;

        ok = json_object_set_new(root, "timeout_ms", json_integer(ms)) == 0 &&
             ok;
    }
    text = ok ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(argv);
    json_decref(env);
    json_decref(root);
    return text;
}

/* A command that did not start: as a shell would say it. */
static int
not_started(struct wp_ctl *ctl, int http_status, struct wp_err *err)
{
    int code;

    wp_ctl_explain(ctl, ctl->options.args[0], err);
    code = wp_ctl_fail(ctl, err, 0);
    if (http_status == 422 && strncmp(err->msg, "exec ", 5) == 0) {
        return strstr(err->msg, "no such file") != NULL ? WP_EXIT_NO_COMMAND
                                                        : WP_EXIT_CANNOT_RUN;
    }
    return code;
}

static int
run_in(struct wp_ctl *ctl, struct wp_sandbox_client *client,
       const struct wp_sandbox_request *request, const char *body)
{
    struct wp_exec_exit end;
    struct wp_err err;
    int http_status = 0;
    size_t extra_len;
    const uint8_t *extra;
    int in_fd = ctl->options.no_stdin ? -1 : STDIN_FILENO;

    if (wp_sandbox_client_request(client, request, &err) != WP_OK ||
        wp_sandbox_client_send(client, body, strlen(body), &err) != WP_OK ||
        wp_sandbox_client_reply(client, &http_status, &err) != WP_OK) {
        return not_started(ctl, http_status, &err);
    }
    if (http_status != 101) {
        (void)wp_err_set(&err, WP_INTERNAL,
                         "the sandbox does not speak " WP_EXEC_UPGRADE);
        return wp_ctl_fail(ctl, &err, 0);
    }
    extra = wp_sandbox_client_extra(client, &extra_len);
    if (wp_exec_session_run(wp_sandbox_client_fd(client), in_fd, extra,
                            extra_len, &end, &err) != WP_OK) {
        int code;

        wp_ctl_explain(ctl, ctl->options.args[0], &err);
        code = wp_ctl_fail(ctl, &err, 0);
        return err.status == WP_CANCELLED ? 128 + SIGINT : code;
    }
    if (end.timed_out) {
        (void)fprintf(ctl->errors,
                      "warmpoolctl: stopped: the time limit was over\n");
    }
    return wp_exec_exit_code(&end);
}

int
wp_cmd_exec(struct wp_ctl *ctl)
{
    struct wp_token_record record;
    char bearer[2 * WP_TOKEN_LEN + 1];
    struct wp_err err;
    struct wp_sandbox_client *client;
    struct wp_sandbox_request request = {
        .method = "POST",
        .path = WP_EXEC_PATH,
        .bearer = bearer,
        .type = "application/json",
        .upgrade = WP_EXEC_UPGRADE,
    };
    char *body = request_body(&ctl->options);
    int code;

    if (body == NULL) {
        (void)wp_err_set(&err, WP_INVALID_ARGUMENT,
                         "the command and its variables must be UTF-8");
        return wp_ctl_usage(ctl, &err);
    }
    request.body_len = strlen(body);
    if (wp_ctl_find_sandbox(ctl, ctl->options.args[0], &record, bearer, &err) !=
        WP_OK) {
        free(body);
        return wp_ctl_fail(ctl, &err, 0);
    }
    request.sandbox = record.sandbox;
    client = wp_sandbox_client_open(ctl->options.http, ctl->options.timeout_ns,
                                    &err);
    code = client != NULL ? run_in(ctl, client, &request, body)
                          : wp_ctl_fail(ctl, &err, 0);
    wp_sandbox_client_close(client);
    free(body);
    return code;
}
