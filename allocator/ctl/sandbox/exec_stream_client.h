/* allocator/ctl/sandbox/exec_stream_client.h - this side of a streaming exec:
 * the command's streams are this process's. The frames are in
 * runtime/server/exec_stream.h. */
#ifndef WP_ALLOCATOR_CTL_SANDBOX_EXEC_STREAM_CLIENT_H
#define WP_ALLOCATOR_CTL_SANDBOX_EXEC_STREAM_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/status.h"
#include "runtime/server/exec_stream.h"

/* How the command ended. */
struct wp_exec_exit {
    int exit_code; /* -1 when a signal ended it. */
    int signal;    /* 0: none. */
    bool timed_out;
};

/* Reads frames out of bytes that come in any pieces. */
struct wp_exec_reader {
    uint8_t head[WP_EXEC_HEAD_LEN];
    size_t head_len;
    struct wp_exec_frame frame;
    uint32_t left;   /* Of the frame's payload. */
    char text[4096]; /* The payload of EXIT or ERROR. */
    size_t text_len;
    bool ended; /* EXIT or ERROR has come. */
    struct wp_exec_exit exit;
};

struct wp_exec_sink {
    /* Takes output; false, with errno, ends the session. */
    bool (*write)(void *ctx, bool is_stderr, const uint8_t *bytes, size_t len);
    void *ctx;
};

void wp_exec_reader_init(struct wp_exec_reader *reader);
/* Takes len bytes. Not WP_OK: err says what the sandbox said (its ERROR frame),
 * or what is wrong with its frames; FAILED_PRECONDITION when the sink could
 * not take it. Bytes after the end are ignored. */
enum wp_status wp_exec_reader_feed(struct wp_exec_reader *reader,
                                   const uint8_t *bytes, size_t len,
                                   const struct wp_exec_sink *sink,
                                   struct wp_err *err);

/* The exit code a shell would give: 124 when timed out, 128 + N for signal
 * N. */
int wp_exec_exit_code(const struct wp_exec_exit *end);

/* Runs a session on a connected non-blocking socket until the command ends:
 * in_fd (-1: empty) is its input, descriptors 1 and 2 its outputs; SIGINT,
 * SIGTERM, SIGHUP and SIGQUIT are passed on, and the second SIGINT gives up
 * (CANCELLED). FAILED_PRECONDITION: output could not be written here. extra
 * are bytes that have been read from the socket already. */
enum wp_status wp_exec_session_run(int socket_fd, int in_fd,
                                   const uint8_t *extra, size_t extra_len,
                                   struct wp_exec_exit *end,
                                   struct wp_err *err);

#endif
