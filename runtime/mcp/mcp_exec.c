#include "runtime/mcp/mcp_exec.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/exec/bound.h"
#include "runtime/exec/exec_result.h"
#include "runtime/mcp/mcp_args.h"
#include "runtime/runtime.h"

/* From the call to the command's end. */
struct exec {
    struct wp_runtime *runtime;
    struct wp_mcp_answer answer;
    struct wp_process_wait wait;
    char *command;
    char *dir; /* "" for none. */
    int64_t timeout_ms;
};

static void
exec_free(struct exec *exec)
{
    free(exec->command);
    free(exec->dir);
    free(exec);
}

static void
exec_fail(struct exec *exec, struct wp_err *err)
{
    (void)wp_err_wrap(err, "failed to run command");
    wp_mcp_answer_failure(&exec->answer, err->msg);
    exec_free(exec);
}

static void
on_done(void *user, const struct wp_process_result *result)
{
    struct exec *exec = user;

    wp_exec_result_log("mcp", result);
    wp_mcp_answer_json(&exec->answer,
                       wp_exec_result_json(result, result->exit_code));
    exec_free(exec);
}

static void
exec_start(void *user)
{
    static const struct wp_process_events events = {.done = on_done};
    struct exec *exec = user;
    const struct wp_options *options = &exec->runtime->options;
    char sh[] = "sh";
    char flag[] = "-c";
    char *argv[] = {sh, flag, exec->command, NULL};
    const struct wp_process_spec spec = {
        .argv = argv,
        .cwd = *exec->dir != '\0' ? exec->dir : NULL,
        .cwd_fd = *exec->dir != '\0' ? -1 : wp_bound_folder(-1),
        .timeout_ms = exec->timeout_ms,
        .drain_ms = options->background_ms,
        .output_max = options->output_max,
        .timeout_spares_children = true,
    };
    struct wp_process *process;
    struct wp_err err;

    if (wp_process_start(exec->runtime->processes, &spec, &events, exec,
                         &process, &err) != WP_OK) {
        exec_fail(exec, &err);
    }
}

void
wp_mcp_exec(struct wp_runtime *runtime, const json_t *args,
            const struct wp_mcp_answer *answer)
{
    const char *command = wp_mcp_arg_string(args, "command");
    int64_t timeout_ms = wp_mcp_arg_whole(args, "timeout_ms");
    struct exec *exec;
    struct wp_err err;

    if (*command == '\0') {
        wp_mcp_answer_failure(answer, "command must not be empty");
        return;
    }
    exec = calloc(1, sizeof(*exec));
    if (exec == NULL) {
        wp_mcp_answer_text(answer, NULL);
        return;
    }
    exec->runtime = runtime;
    exec->answer = *answer;
    exec->command = strdup(command);
    exec->dir = strdup(wp_mcp_arg_string(args, "working_dir"));
    exec->timeout_ms = timeout_ms > 0 ? timeout_ms : 0;
    exec->wait.room = exec_start;
    exec->wait.user = exec;
    if (exec->command == NULL || exec->dir == NULL) {
        wp_mcp_answer_text(answer, NULL);
        exec_free(exec);
    } else if (wp_process_has_room(runtime->processes)) {
        exec_start(exec);
    } else if (wp_process_wait(runtime->processes, &exec->wait, &err) !=
               WP_OK) {
        exec_fail(exec, &err);
    }
}
