#include "runtime/sandboxd/process_service.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "pool/base/clock.h"
#include "pool/base/os_error.h"
#include "runtime/exec/bound.h"
#include "runtime/exec/exec_result.h"
#include "runtime/sandboxd/grpc.h"
#include "runtime/sandboxd/process_wire.h"
#include "runtime/sandboxd/rest.h"

enum {
    OUTPUT_HIGH = 256 << 10,
    STDIN_HIGH = 64 << 10,
    WAITING_MAX = 256,       /* Executes without room. */
    WAITING_BYTES = 8 << 20, /* Of their requests. */
};

/* How often it is looked whether commands of other callers have made room. */
#define LOOK_NS (20 * WP_NS_PER_MS)

struct wp_process_service {
    struct wp_runtime *runtime;
    struct wp_grpc *grpc;
    struct wp_list started; /* struct command, by Start. */
    struct wp_list waiting; /* Calls of Execute. */
    uint32_t n_waiting;
    size_t waiting_bytes;
    struct event *look;
    int32_t last_id;
};

/* What a call of Start or Execute has; its user. */
struct command {
    struct wp_process_service *service;
    struct wp_grpc_call *call;  /* NULL: it has ended before the command. */
    struct wp_process *process; /* NULL: not started, or done. */
    struct wp_list node;        /* Of the service's started ones. */
    struct wp_list writers;     /* Calls of WriteStdin that wait. */
    int32_t id;
    bool streams; /* By Start. */
    bool held;    /* Its pipes are not read. */
    bool eof;     /* Its input was closed. */
    struct wp_process_ask ask;
    size_t ask_bytes;
};

static struct wp_process_service *
service_of(const struct wp_grpc_call *call)
{
    return wp_grpc_app(call);
}

static void
writers_end(struct command *command, enum wp_status status, const char *why)
{
    struct wp_list *node;

    while ((node = wp_list_pop_front(&command->writers)) != NULL) {
        struct wp_grpc_call *call =
            WP_CONTAINER_OF(node, struct wp_grpc_call, node);

        if (status == WP_OK) {
            (void)wp_grpc_send(call, wp_grpc_message(0), 0);
        }
        if (!call->finished) {
            wp_grpc_finish(call, status, why);
        }
    }
}

static void
command_free(struct command *command)
{
    writers_end(command, WP_FAILED_PRECONDITION, "the process has ended");
    wp_list_remove(&command->node);
    wp_process_ask_free(&command->ask);
    free(command);
}

/* A call that sends one message, and ends. */
static void
answer(struct wp_grpc_call *call, uint8_t *message, size_t len)
{
    (void)wp_grpc_send(call, message, len);
    if (!call->finished) {
        wp_grpc_finish(call, WP_OK, NULL);
    }
}

/* Sends, as long as there is a call. Where memory lacks for it the command is
 * killed: what it says cannot be told any more. */
static size_t
tell(struct command *command, uint8_t *message, size_t len)
{
    size_t queued = wp_grpc_send(command->call, message, len);

    if (command->call->finished) {
        command->call = NULL;
        wp_process_signal(command->process, SIGKILL);
    }
    return queued;
}

/* ------------------------------------------------------- from the command */

static void
hold(struct command *command, bool on)
{
    command->held = on;
    if (command->process != NULL) {
        wp_process_read(command->process, WP_PROCESS_STDOUT, !on);
        wp_process_read(command->process, WP_PROCESS_STDERR, !on);
    }
}

static void
on_output(void *user, enum wp_process_stream stream, struct evbuffer *data)
{
    struct command *command = user;
    size_t len = evbuffer_get_length(data);
    const char *bytes = (const char *)evbuffer_pullup(data, -1);
    size_t size = 0;
    uint8_t *message;

    if (command->call == NULL) {
        evbuffer_drain(data, len);
        return;
    }
    message =
        wp_process_output_write(stream, (struct wp_str){bytes, len}, &size);
    evbuffer_drain(data, len);
    if (tell(command, message, size) > OUTPUT_HIGH) {
        hold(command, true);
    }
}

static void
on_stdin_room(void *user)
{
    writers_end(user, WP_OK, NULL);
}

static void waiting_start(struct wp_process_service *service);

static void
start_done(struct command *command, const struct wp_process_result *result)
{
    size_t len = 0;
    uint8_t *message = wp_process_exit_write(result->exit_code, &len);

    answer(command->call, message, len);
}

static struct wp_str
text_of(struct evbuffer *buffer)
{
    size_t len = evbuffer_get_length(buffer);

    return (struct wp_str){(const char *)evbuffer_pullup(buffer, -1), len};
}

static void
execute_done(struct command *command, const struct wp_process_result *result)
{
    uint8_t *message;
    size_t len = 0;

    if (result->timed_out) {
        wp_grpc_finish(command->call, WP_DEADLINE_EXCEEDED,
                       "the command ran longer than --exec-timeout-max-ms");
        return;
    }
    wp_exec_result_note(result);
    message =
        wp_process_result_write(result->exit_code, text_of(result->output[0]),
                                text_of(result->output[1]), &len);
    answer(command->call, message, len);
}

static void
on_done(void *user, const struct wp_process_result *result)
{
    struct command *command = user;
    struct wp_process_service *service = command->service;

    wp_exec_result_log(command->streams ? "grpc stream" : "grpc", result);
    command->process = NULL;
    if (command->call != NULL) {
        if (command->streams) {
            start_done(command, result);
        } else {
            execute_done(command, result);
        }
    }
    command_free(command);
    waiting_start(service);
}

/* ------------------------------------------------------------- starting it */

static const struct wp_process_events stream_events = {
    .output = on_output, .stdin_room = on_stdin_room, .done = on_done};
static const struct wp_process_events execute_events = {.done = on_done};

/* A descriptor, or -1 and err. */
static int
open_folder(const struct wp_workspace *workspace, const char *cwd,
            struct wp_err *err)
{
    char path[WP_WORKSPACE_PATH_MAX];
    int rc = wp_sandboxd_path_plain(workspace, cwd, path);
    int fd = -rc;

    if (rc == 0) {
        fd = wp_workspace_open(workspace, path, O_PATH | O_DIRECTORY, 0);
    }
    if (fd >= 0 && rc == 0) {
        return fd;
    }
    if (wp_workspace_is_escape(-fd) || fd == -EACCES) {
        (void)wp_err_set(err, WP_PERMISSION_DENIED,
                         "config.cwd: a folder of the workspace is expected");
    } else {
        (void)wp_err_set(err, WP_NOT_FOUND, "config.cwd: %s", wp_os_error(-fd));
    }
    return -1;
}

static enum wp_status
command_start(struct command *command, struct wp_err *err)
{
    struct wp_runtime *runtime = command->service->runtime;
    const struct wp_process_ask *ask = &command->ask;
    struct wp_process_spec spec = {
        .argv = ask->argv,
        .env = ask->environment.list,
        .output_max = runtime->options.output_max,
        .open_stdin = command->streams,
        .terminal = ask->on_terminal ? &ask->terminal : NULL,
    };
    enum wp_status status;
    int opened = -1;

    if (ask->cwd == NULL) {
        spec.cwd_fd = wp_bound_folder(runtime->workspace.fd);
    } else {
        opened = open_folder(&runtime->workspace, ask->cwd, err);
        if (opened < 0) {
            return err->status;
        }
        spec.cwd_fd = opened;
    }
    status =
        wp_process_start(runtime->processes, &spec,
                         command->streams ? &stream_events : &execute_events,
                         command, &command->process, err);
    if (opened >= 0) {
        close(opened);
    }
    return status;
}

static struct command *
command_create(struct wp_grpc_call *call, const uint8_t *bytes, size_t len,
               bool streams)
{
    struct command *command = calloc(1, sizeof(*command));
    struct wp_err err;

    if (command == NULL) {
        wp_grpc_finish(call, WP_RESOURCE_EXHAUSTED, "out of memory");
        return NULL;
    }
    command->service = service_of(call);
    command->call = call;
    command->streams = streams;
    command->ask_bytes = len;
    wp_list_init(&command->node);
    wp_list_init(&command->writers);
    if (wp_process_ask_read(bytes, len, streams, &command->ask, &err) !=
        WP_OK) {
        wp_grpc_finish(call, err.status, err.msg);
        command_free(command);
        return NULL;
    }
    return command;
}

static void
start_start(struct wp_grpc_call *call, const uint8_t *bytes, size_t len)
{
    struct command *command = command_create(call, bytes, len, true);
    struct wp_process_service *service = service_of(call);
    size_t size = 0;
    uint8_t *message;
    struct wp_err err;

    if (command == NULL) {
        return;
    }
    if (command_start(command, &err) != WP_OK) {
        wp_grpc_finish(call, err.status, err.msg);
        command_free(command);
        return;
    }
    service->last_id = service->last_id == INT32_MAX ? 1 : service->last_id + 1;
    command->id = service->last_id;
    wp_list_push_back(&service->started, &command->node);
    call->user = command;
    message = wp_process_init_write(command->id, &size);
    (void)tell(command, message, size);
}

/* Nobody waits for it, started or not. */
static void
command_gone(struct wp_grpc_call *call)
{
    struct command *command = call->user;

    if (command == NULL) {
        return;
    }
    call->user = NULL;
    if (command->process != NULL) {
        wp_process_cancel(command->process);
    } else if (!wp_list_empty(&call->node)) {
        wp_list_remove(&call->node);
        command->service->n_waiting--;
        command->service->waiting_bytes -= command->ask_bytes;
    }
    command_free(command);
}

static void
start_sent(struct wp_grpc_call *call, size_t queued)
{
    struct command *command = call->user;

    if (command != NULL && command->held && queued <= OUTPUT_HIGH / 2) {
        hold(command, false);
    }
}

/* ----------------------------------------------------------------- Execute */

static void
look_again(struct wp_process_service *service)
{
    struct timeval tv = wp_timeval(LOOK_NS);

    if (!wp_list_empty(&service->waiting)) {
        evtimer_add(service->look, &tv);
    }
}

static bool
has_room(const struct wp_process_service *service)
{
    return wp_process_table_running(service->runtime->processes) <
           service->runtime->options.execs_max;
}

/* Starts a command of Execute, or ends its call. */
static void
execute_begin(struct command *command)
{
    struct wp_grpc_call *call = command->call;
    struct wp_err err;

    if (command_start(command, &err) != WP_OK) {
        wp_grpc_finish(call, err.status, err.msg);
        command_free(command);
    }
}

static void
waiting_start(struct wp_process_service *service)
{
    while (!wp_list_empty(&service->waiting) && has_room(service)) {
        struct wp_grpc_call *call = WP_CONTAINER_OF(
            wp_list_pop_front(&service->waiting), struct wp_grpc_call, node);
        struct command *command = call->user;

        service->n_waiting--;
        /* It has left the list. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        service->waiting_bytes -= command->ask_bytes;
        execute_begin(command);
    }
    look_again(service);
}

static void
on_look(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    waiting_start(arg);
}

static void
execute_start(struct wp_grpc_call *call, const uint8_t *bytes, size_t len)
{
    struct command *command = command_create(call, bytes, len, false);
    struct wp_process_service *service = service_of(call);

    if (command == NULL) {
        return;
    }
    call->user = command;
    if (wp_list_empty(&service->waiting) && has_room(service)) {
        execute_begin(command);
        return;
    }
    if (service->n_waiting >= WAITING_MAX ||
        service->waiting_bytes + len > WAITING_BYTES) {
        wp_grpc_finish(call, WP_RESOURCE_EXHAUSTED,
                       "as many commands run and wait as may");
        command_free(command);
        return;
    }
    service->n_waiting++;
    service->waiting_bytes += len;
    wp_list_push_back(&service->waiting, &call->node);
    look_again(service);
}

/* --------------------------------------------- to what Start has started */

/* NULL when the call has been told that there is none. */
static struct command *
find(struct wp_grpc_call *call, int32_t id)
{
    WP_LIST_FOREACH (node, &service_of(call)->started) {
        struct command *command = WP_CONTAINER_OF(node, struct command, node);

        if (command->id == id) {
            return command;
        }
    }
    wp_grpc_finish(call, WP_NOT_FOUND,
                   "process_id: no running process of Start has it");
    return NULL;
}

static void
input_take(struct wp_grpc_call *call, struct command *command,
           struct wp_process_input *input)
{
    if (command->eof) {
        wp_grpc_finish(call, WP_FAILED_PRECONDITION,
                       "the input of the process is closed");
        return;
    }
    wp_process_write(command->process, input->data,
                     evbuffer_get_length(input->data));
    if (input->eof) {
        command->eof = !command->ask.on_terminal;
        wp_process_stdin_close(command->process);
    }
    if (wp_process_stdin_queued(command->process) > STDIN_HIGH) {
        wp_list_push_back(&command->writers, &call->node);
    } else {
        answer(call, wp_grpc_message(0), 0);
    }
}

static void
input_start(struct wp_grpc_call *call, const uint8_t *bytes, size_t len)
{
    struct wp_process_input input;
    struct command *command;
    struct wp_err err;

    if (wp_process_input_read(bytes, len, &input, &err) != WP_OK) {
        wp_grpc_finish(call, err.status, err.msg);
        return;
    }
    command = find(call, input.id);
    if (command != NULL) {
        input_take(call, command, &input);
    }
    evbuffer_free(input.data);
}

/* What it wrote is with the command. */
static void
input_gone(struct wp_grpc_call *call)
{
    wp_list_remove(&call->node);
}

static void
signal_start(struct wp_grpc_call *call, const uint8_t *bytes, size_t len)
{
    struct command *command;
    struct wp_err err;
    int32_t id = 0;
    int signal = 0;

    if (wp_process_signal_read(bytes, len, &id, &signal, &err) != WP_OK) {
        wp_grpc_finish(call, err.status, err.msg);
        return;
    }
    command = find(call, id);
    if (command != NULL) {
        wp_process_signal(command->process, signal);
        answer(call, wp_grpc_message(0), 0);
    }
}

static void
resize_start(struct wp_grpc_call *call, const uint8_t *bytes, size_t len)
{
    struct command *command;
    struct winsize size;
    struct wp_err err;
    int32_t id = 0;

    if (wp_process_resize_read(bytes, len, &id, &size, &err) != WP_OK) {
        wp_grpc_finish(call, err.status, err.msg);
        return;
    }
    command = find(call, id);
    if (command == NULL) {
        return;
    }
    if (wp_process_resize(command->process, &size)) {
        answer(call, wp_grpc_message(0), 0);
    } else {
        wp_grpc_finish(call, WP_FAILED_PRECONDITION,
                       "the process has no terminal");
    }
}

static void
nothing_gone(struct wp_grpc_call *call)
{
    (void)call;
}

/* ------------------------------------------------------------- the service */

static const struct wp_grpc_method methods[] = {
    {"/process.v1.ProcessService/Start", start_start, command_gone, start_sent},
    {"/process.v1.ProcessService/Execute", execute_start, command_gone, NULL},
    {"/process.v1.ProcessService/WriteStdin", input_start, input_gone, NULL},
    {"/process.v1.ProcessService/SendSignal", signal_start, nothing_gone, NULL},
    {"/process.v1.ProcessService/ResizeTTY", resize_start, nothing_gone, NULL},
    {NULL, NULL, NULL, NULL},
};

/* As for /execute, which is what its callers know beside this. */
static bool
admits(void *app, const char *token)
{
    const struct wp_process_service *service = app;

    return wp_runtime_token_fits(&service->runtime->options, "/execute", token);
}

struct wp_process_service *
wp_process_service_create(struct wp_runtime *runtime, const char *listen,
                          uint32_t connections_max, struct wp_err *err)
{
    struct wp_process_service *service = calloc(1, sizeof(*service));
    const struct wp_grpc_config config = {
        .base = runtime->base,
        .listen = listen,
        .methods = methods,
        .app = service,
        .admits = admits,
        .connections_max = connections_max,
    };

    if (service == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "out of memory");
        return NULL;
    }
    service->runtime = runtime;
    wp_list_init(&service->started);
    wp_list_init(&service->waiting);
    service->look = evtimer_new(runtime->base, on_look, service);
    if (service->look == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "out of memory");
    } else {
        service->grpc = wp_grpc_create(&config, err);
    }
    if (service->grpc == NULL) {
        wp_process_service_destroy(service);
        return NULL;
    }
    return service;
}

int32_t
wp_process_service_port(const struct wp_process_service *service)
{
    return wp_grpc_port(service->grpc);
}

void
wp_process_service_drain(struct wp_process_service *service,
                         void (*drained)(void *arg), void *arg)
{
    wp_grpc_drain(service->grpc, drained, arg);
}

void
wp_process_service_destroy(struct wp_process_service *service)
{
    if (service == NULL) {
        return;
    }
    wp_grpc_destroy(service->grpc);
    if (service->look != NULL) {
        event_free(service->look);
    }
    free(service);
}
