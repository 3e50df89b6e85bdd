/* runtime/sandboxd/process_wire.h - the messages of process.v1, read and
 * written; the only code of the sandbox's server that speaks protobuf. Pure;
 * any thread. Errors name the field. */
#ifndef WP_RUNTIME_SANDBOXD_PROCESS_WIRE_H
#define WP_RUNTIME_SANDBOXD_PROCESS_WIRE_H

#include <sys/ioctl.h>

#include "pool/base/status.h"
#include "runtime/exec/environment.h"
#include "runtime/exec/process.h"

enum {
    WP_PROCESS_CONFIG_MAX = 1 << 20, /* Bytes of Start and Execute. */
};

/* What Start and Execute ask for. */
struct wp_process_ask {
    char **argv; /* Ends with NULL; one allocation. */
    struct wp_environment environment;
    char *cwd; /* NULL: none was named. */
    bool on_terminal;
    struct winsize terminal;
};

/* start: of StartRequest, which may ask for a terminal. On failure there is
 * nothing to free. */
WP_MUST_CHECK enum wp_status wp_process_ask_read(const uint8_t *bytes,
                                                 size_t len, bool start,
                                                 struct wp_process_ask *ask,
                                                 struct wp_err *err);
void wp_process_ask_free(struct wp_process_ask *ask);

/* What WriteStdin says. */
struct wp_process_input {
    int32_t id;
    bool eof;
    struct evbuffer *data; /* Owned. */
};
WP_MUST_CHECK enum wp_status wp_process_input_read(const uint8_t *bytes,
                                                   size_t len,
                                                   struct wp_process_input *in,
                                                   struct wp_err *err);
/* signal is one that the contract knows. */
WP_MUST_CHECK enum wp_status wp_process_signal_read(const uint8_t *bytes,
                                                    size_t len, int32_t *id,
                                                    int *signal,
                                                    struct wp_err *err);
WP_MUST_CHECK enum wp_status wp_process_resize_read(const uint8_t *bytes,
                                                    size_t len, int32_t *id,
                                                    struct winsize *size,
                                                    struct wp_err *err);

/* Messages as wp_grpc_message makes them; NULL on no memory. */
uint8_t *wp_process_init_write(int32_t id, size_t *len);
uint8_t *wp_process_output_write(enum wp_process_stream stream,
                                 struct wp_str data, size_t *len);
uint8_t *wp_process_exit_write(int32_t exit_code, size_t *len);
uint8_t *wp_process_result_write(int32_t exit_code, struct wp_str out,
                                 struct wp_str errors, size_t *len);

#endif
