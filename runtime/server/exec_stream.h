/* runtime/server/exec_stream.h - the wire format of a streaming exec.
 *
 * A client asks with
 *
 *     POST /v1/exec HTTP/1.1
 *     Connection: Upgrade
 *     Upgrade: warmpool-exec/1
 *     Content-Length: N
 *
 *     {"argv":["sh","-c","..."],"cwd":"/workspace","env":{"K":"V"},
 *      "timeout_ms":0}
 *
 * Only argv is required. cwd defaults to the workspace; env is added to the
 * server's own environment; timeout_ms 0 or absent means none. A request that
 * cannot start is answered with a plain HTTP error (4xx, 5xx) and
 * {"error":"..."}. Otherwise the answer is "101 Switching Protocols", and from
 * then on both sides send frames:
 *
 *     +--------+-----------+--------------------------+---------+
 *     | type 1 | zeroes 3  | length 4, big-endian     | payload |
 *     +--------+-----------+--------------------------+---------+
 *
 * A length above WP_EXEC_PAYLOAD_MAX, an unknown type, a type that the other
 * side alone may send, or a non-zero reserved byte is a protocol error: the
 * server answers with an ERROR frame, kills the command and closes.
 *
 * The stream ends with exactly one EXIT or ERROR frame; the server then shuts
 * its side down and closes when the client has, or 2 s later: what the client
 * still sends is thrown away. A client that closes first has its command
 * killed, with the whole process group. Either side may stop reading: the
 * other's pipe fills.
 *
 * Depends on nothing but the C library, so that a client may include it. */
#ifndef WP_RUNTIME_SERVER_EXEC_STREAM_H
#define WP_RUNTIME_SERVER_EXEC_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#define WP_EXEC_PATH "/v1/exec"
#define WP_EXEC_UPGRADE "warmpool-exec/1"

enum {
    WP_EXEC_HEAD_LEN = 8,
    WP_EXEC_PAYLOAD_MAX = 65536,
};

enum wp_exec_frame_type {
    /* From the client. */
    WP_EXEC_STDIN = 0,     /* Bytes for the command's standard input. */
    WP_EXEC_STDIN_EOF = 1, /* Length 0; what follows of STDIN is ignored. */
    WP_EXEC_SIGNAL = 2,    /* One byte: a signal number for the group. */
    /* From the server. */
    WP_EXEC_STDOUT = 16,
    WP_EXEC_STDERR = 17,
    WP_EXEC_EXIT = 18,  /* {"exit_code":n,"signal":n,"timed_out":bool} */
    WP_EXEC_ERROR = 19, /* A sentence in UTF-8. */
};

/* EXIT: exit_code is the command's, or -1 when a signal ended it; signal is
 * that signal, or 0. */

struct wp_exec_frame {
    uint8_t type;
    uint32_t len;
};

/* Writes the eight bytes that precede a payload of frame.len bytes. */
static inline void
wp_exec_frame_pack(struct wp_exec_frame frame, uint8_t out[WP_EXEC_HEAD_LEN])
{
    out[0] = frame.type;
    out[1] = 0;
    out[2] = 0;
    out[3] = 0;
    out[4] = (uint8_t)(frame.len >> 24);
    out[5] = (uint8_t)(frame.len >> 16);
    out[6] = (uint8_t)(frame.len >> 8);
    out[7] = (uint8_t)frame.len;
}

/* Reads a head; false when a reserved byte is set or the length is too great.
 * Whether the type is one the sender may use is for the caller to judge. */
static inline bool
wp_exec_frame_unpack(const uint8_t in[WP_EXEC_HEAD_LEN],
                     struct wp_exec_frame *out)
{
    out->type = in[0];
    out->len = (uint32_t)in[4] << 24 | (uint32_t)in[5] << 16 |
               (uint32_t)in[6] << 8 | (uint32_t)in[7];
    return in[1] == 0 && in[2] == 0 && in[3] == 0 &&
           out->len <= WP_EXEC_PAYLOAD_MAX;
}

#endif
