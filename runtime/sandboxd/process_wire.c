#include "runtime/sandboxd/process_wire.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "process/v1/process.pb-c.h"
#include "runtime/sandboxd/grpc.h"

enum {
    ARGS_MAX = 4096,
    ENV_MAX = 1024,
    CWD_MAX = 4096,
};

static struct wp_str
text_of(ProtobufCBinaryData data)
{
    return (struct wp_str){(const char *)data.data, data.len};
}

static bool
has_nul(ProtobufCBinaryData data)
{
    return data.len > 0 && memchr(data.data, '\0', data.len) != NULL;
}

static enum wp_status
malformed(struct wp_err *err)
{
    return wp_err_set(err, WP_INVALID_ARGUMENT,
                      "request: a message of process.v1 is expected");
}

/* --------------------------------------------------------------- commands */

/* The array and its texts in one piece. */
static enum wp_status
read_command(const Process__V1__ProcessConfig *config,
             struct wp_process_ask *ask, struct wp_err *err)
{
    size_t bytes = (config->n_command + 1) * sizeof(char *);
    char *at;

    if (config->n_command == 0 || config->n_command > ARGS_MAX ||
        config->command[0].len == 0) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "config.command: 1 to %d arguments are expected, the "
                          "first not empty",
                          ARGS_MAX);
    }
    for (size_t i = 0; i < config->n_command; i++) {
        bytes += config->command[i].len + 1;
        if (has_nul(config->command[i])) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "config.command: text without NUL is expected");
        }
    }
    ask->argv = malloc(bytes);
    if (ask->argv == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "out of memory");
    }
    at = (char *)(ask->argv + config->n_command + 1);
    for (size_t i = 0; i < config->n_command; i++) {
        ProtobufCBinaryData word = config->command[i];

        ask->argv[i] = at;
        if (word.len > 0) {
            memcpy(at, word.data, word.len);
        }
        at[word.len] = '\0';
        at += word.len + 1;
    }
    ask->argv[config->n_command] = NULL;
    return WP_OK;
}

static enum wp_status
read_environment(const Process__V1__ProcessConfig *config,
                 struct wp_process_ask *ask, struct wp_err *err)
{
    if (config->n_env_vars > ENV_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "config.env_vars: at most %d are taken", ENV_MAX);
    }
    if (!wp_environment_init(&ask->environment, config->n_env_vars)) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "out of memory");
    }
    for (size_t i = 0; i < config->n_env_vars; i++) {
        const Process__V1__Variable *variable = config->env_vars[i];

        if (!wp_environment_add(&ask->environment, text_of(variable->name),
                                text_of(variable->value))) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "config.env_vars: names that are not empty and "
                              "have no '=' are expected, and text without NUL");
        }
    }
    wp_environment_inherit(&ask->environment);
    return WP_OK;
}

static enum wp_status
read_config(const Process__V1__ProcessConfig *config,
            struct wp_process_ask *ask, struct wp_err *err)
{
    enum wp_status status;

    if (config == NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "config: a command is expected");
    }
    status = read_command(config, ask, err);
    if (status == WP_OK) {
        status = read_environment(config, ask, err);
    }
    if (status != WP_OK || config->cwd.len == 0) {
        return status;
    }
    if (config->cwd.len >= CWD_MAX || has_nul(config->cwd)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "config.cwd: a path of less than %d bytes without "
                          "NUL is expected",
                          CWD_MAX);
    }
    ask->cwd = strndup((const char *)config->cwd.data, config->cwd.len);
    return ask->cwd != NULL
               ? WP_OK
               : wp_err_set(err, WP_RESOURCE_EXHAUSTED, "out of memory");
}

static enum wp_status
read_size(const char *field, uint32_t cols, uint32_t rows, struct winsize *size,
          struct wp_err *err)
{
    if (cols > UINT16_MAX || rows > UINT16_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%scols and rows: at most 65535 are expected", field);
    }
    *size = (struct winsize){.ws_col = (unsigned short)cols,
                             .ws_row = (unsigned short)rows};
    return WP_OK;
}

enum wp_status
wp_process_ask_read(const uint8_t *bytes, size_t len, bool start,
                    struct wp_process_ask *ask, struct wp_err *err)
{
    Process__V1__StartRequest *request;
    enum wp_status status;

    *ask = (struct wp_process_ask){.argv = NULL};
    if (len > WP_PROCESS_CONFIG_MAX) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "config: at most %d bytes are taken",
                          WP_PROCESS_CONFIG_MAX);
    }
    /* An ExecuteRequest is one without a terminal. */
    request = process__v1__start_request__unpack(NULL, len, bytes);
    if (request == NULL) {
        return malformed(err);
    }
    status = read_config(request->config, ask, err);
    if (status == WP_OK && start && request->pty != NULL) {
        ask->on_terminal = true;
        status = read_size("pty.", request->pty->cols, request->pty->rows,
                           &ask->terminal, err);
    }
    process__v1__start_request__free_unpacked(request, NULL);
    if (status != WP_OK) {
        wp_process_ask_free(ask);
    }
    return status;
}

void
wp_process_ask_free(struct wp_process_ask *ask)
{
    free(ask->argv);
    free(ask->cwd);
    wp_environment_fini(&ask->environment);
    *ask = (struct wp_process_ask){.argv = NULL};
}

/* ------------------------------------------------------------ other calls */

enum wp_status
wp_process_input_read(const uint8_t *bytes, size_t len,
                      struct wp_process_input *in, struct wp_err *err)
{
    Process__V1__WriteStdinRequest *request =
        process__v1__write_stdin_request__unpack(NULL, len, bytes);
    bool whole;

    if (request == NULL) {
        return malformed(err);
    }
    in->id = request->process_id;
    in->eof =
        request->payload_case == PROCESS__V1__WRITE_STDIN_REQUEST__PAYLOAD_EOF;
    in->data = evbuffer_new();
    whole =
        in->data != NULL &&
        (request->payload_case !=
             PROCESS__V1__WRITE_STDIN_REQUEST__PAYLOAD_INPUT ||
         evbuffer_add(in->data, request->input.data, request->input.len) == 0);
    process__v1__write_stdin_request__free_unpacked(request, NULL);
    if (whole) {
        return WP_OK;
    }
    if (in->data != NULL) {
        evbuffer_free(in->data);
    }
    return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "out of memory");
}

enum wp_status
wp_process_signal_read(const uint8_t *bytes, size_t len, int32_t *id,
                       int *signal, struct wp_err *err)
{
    Process__V1__SendSignalRequest *request =
        process__v1__send_signal_request__unpack(NULL, len, bytes);

    if (request == NULL) {
        return malformed(err);
    }
    *id = request->process_id;
    *signal = request->signal;
    process__v1__send_signal_request__free_unpacked(request, NULL);
    if (*signal != SIGINT && *signal != SIGKILL && *signal != SIGTERM) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "signal: SIGINT, SIGKILL or SIGTERM is expected");
    }
    return WP_OK;
}

enum wp_status
wp_process_resize_read(const uint8_t *bytes, size_t len, int32_t *id,
                       struct winsize *size, struct wp_err *err)
{
    Process__V1__ResizeTTYRequest *request =
        process__v1__resize_ttyrequest__unpack(NULL, len, bytes);
    enum wp_status status;

    if (request == NULL) {
        return malformed(err);
    }
    *id = request->process_id;
    status = read_size("", request->cols, request->rows, size, err);
    process__v1__resize_ttyrequest__free_unpacked(request, NULL);
    return status;
}

/* ---------------------------------------------------------------- answers */

static uint8_t *
put(const ProtobufCMessage *message, size_t *len)
{
    uint8_t *out;

    *len = protobuf_c_message_get_packed_size(message);
    out = wp_grpc_message(*len);
    if (out != NULL) {
        (void)protobuf_c_message_pack(message, out + WP_GRPC_PREFIX);
    }
    return out;
}

static ProtobufCBinaryData
data_of(struct wp_str text)
{
    return (ProtobufCBinaryData){text.len, (uint8_t *)(uintptr_t)text.ptr};
}

uint8_t *
wp_process_init_write(int32_t id, size_t *len)
{
    Process__V1__Init init = PROCESS__V1__INIT__INIT;
    Process__V1__StartResponse event = PROCESS__V1__START_RESPONSE__INIT;

    init.process_id = id;
    event.event_case = PROCESS__V1__START_RESPONSE__EVENT_INIT;
    event.init = &init;
    return put(&event.base, len);
}

uint8_t *
wp_process_output_write(enum wp_process_stream stream, struct wp_str data,
                        size_t *len)
{
    Process__V1__StartResponse event = PROCESS__V1__START_RESPONSE__INIT;

    event.event_case = stream == WP_PROCESS_STDOUT
                           ? PROCESS__V1__START_RESPONSE__EVENT_OUT
                           : PROCESS__V1__START_RESPONSE__EVENT_ERRORS;
    event.out = data_of(data); /* Both are this one member of the union. */
    return put(&event.base, len);
}

uint8_t *
wp_process_exit_write(int32_t exit_code, size_t *len)
{
    Process__V1__Exit done = PROCESS__V1__EXIT__INIT;
    Process__V1__StartResponse event = PROCESS__V1__START_RESPONSE__INIT;

    done.exit_code = exit_code;
    event.event_case = PROCESS__V1__START_RESPONSE__EVENT_EXIT;
    event.exit = &done;
    return put(&event.base, len);
}

uint8_t *
wp_process_result_write(int32_t exit_code, struct wp_str out,
                        struct wp_str errors, size_t *len)
{
    Process__V1__ExecuteResponse result = PROCESS__V1__EXECUTE_RESPONSE__INIT;

    result.exit_code = exit_code;
    result.out = data_of(out);
    result.errors = data_of(errors);
    return put(&result.base, len);
}
