#include "allocator/ctl/sandbox/exec_stream_client.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <jansson.h>

#include "pool/base/str.h"

/* --- Reading frames. --- */

void
wp_exec_reader_init(struct wp_exec_reader *reader)
{
    memset(reader, 0, sizeof *reader);
}

static enum wp_status
parse_exit(struct wp_exec_reader *reader, struct wp_err *err)
{
    json_t *body = json_loadb(reader->text, reader->text_len, 0, NULL);
    const json_t *code = json_object_get(body, "exit_code");
    const json_t *number = json_object_get(body, "signal");
    enum wp_status status = WP_OK;

    if (!json_is_integer(code)) {
        status = wp_err_set(err, WP_INTERNAL,
                            "the sandbox's exit frame cannot be read");
    }
    reader->exit = (struct wp_exec_exit){
        .exit_code = (int)json_integer_value(code),
        .signal = (int)json_integer_value(number),
        .timed_out = json_is_true(json_object_get(body, "timed_out")),
    };
    json_decref(body);
    return status;
}

/* A whole frame has been read. */
static enum wp_status
end_frame(struct wp_exec_reader *reader, struct wp_err *err)
{
    reader->head_len = 0;
    if (reader->frame.type == WP_EXEC_EXIT) {
        reader->ended = true;
        return parse_exit(reader, err);
    }
    if (reader->frame.type == WP_EXEC_ERROR) {
        reader->ended = true;
        return wp_err_set(
            err, WP_INTERNAL, "the sandbox says: %.*s",
            (int)(reader->text_len < 180 ? reader->text_len : 180),
            reader->text);
    }
    return WP_OK;
}

static enum wp_status
take_head(struct wp_exec_reader *reader, struct wp_err *err)
{
    bool ok = wp_exec_frame_unpack(reader->head, &reader->frame);

    reader->left = reader->frame.len;
    reader->text_len = 0;
    if (!ok || reader->frame.type < WP_EXEC_STDOUT ||
        reader->frame.type > WP_EXEC_ERROR) {
        return wp_err_set(err, WP_INTERNAL,
                          "the sandbox does not speak " WP_EXEC_UPGRADE);
    }
    return reader->left == 0 ? end_frame(reader, err) : WP_OK;
}

static enum wp_status
take_payload(struct wp_exec_reader *reader, const uint8_t *bytes, size_t len,
             const struct wp_exec_sink *sink, struct wp_err *err)
{
    reader->left -= (uint32_t)len;
    if (reader->frame.type == WP_EXEC_STDOUT ||
        reader->frame.type == WP_EXEC_STDERR) {
        if (!sink->write(sink->ctx, reader->frame.type == WP_EXEC_STDERR, bytes,
                         len)) {
            return wp_err_sys(err, WP_FAILED_PRECONDITION, errno,
                              "cannot write the command's output");
        }
    } else {
        size_t room = sizeof reader->text - reader->text_len;
        size_t kept = len < room ? len : room;

        memcpy(reader->text + reader->text_len, bytes, kept);
        reader->text_len += kept;
    }
    return reader->left == 0 ? end_frame(reader, err) : WP_OK;
}

enum wp_status
wp_exec_reader_feed(struct wp_exec_reader *reader, const uint8_t *bytes,
                    size_t len, const struct wp_exec_sink *sink,
                    struct wp_err *err)
{
    enum wp_status status = WP_OK;

    while (len > 0 && !reader->ended && status == WP_OK) {
        size_t n = 1;

        if (reader->left > 0) {
            n = len < reader->left ? len : reader->left;
            status = take_payload(reader, bytes, n, sink, err);
        } else {
            reader->head[reader->head_len++] = *bytes;
            if (reader->head_len == WP_EXEC_HEAD_LEN) {
                status = take_head(reader, err);
            }
        }
        bytes += n;
        len -= n;
    }
    return status;
}

int
wp_exec_exit_code(const struct wp_exec_exit *end)
{
    if (end->timed_out) {
        return 124;
    }
    return end->signal != 0 ? 128 + end->signal : end->exit_code & 0xff;
}

/* --- The session. --- */

enum {
    CHUNK = 32768,
    OUT_MAX = WP_EXEC_HEAD_LEN + CHUNK + 4 * (WP_EXEC_HEAD_LEN + 1),
};

struct session {
    int socket_fd;
    int in_fd; /* -1: at its end, which has been told. */
    int signal_fd;
    int interrupts;
    uint8_t out[OUT_MAX]; /* Frames on their way. */
    size_t out_at;
    size_t out_len;
    struct wp_exec_reader reader;
};

/* Frames that do not fit are dropped: only signals can be that many. */
static void
put_frame(struct session *session, enum wp_exec_frame_type type,
          const void *payload, uint32_t len)
{
    if (OUT_MAX - session->out_len < WP_EXEC_HEAD_LEN + (size_t)len) {
        return;
    }
    wp_exec_frame_pack((struct wp_exec_frame){(uint8_t)type, len},
                       session->out + session->out_len);
    session->out_len += WP_EXEC_HEAD_LEN;
    if (len > 0) {
        memcpy(session->out + session->out_len, payload, len);
        session->out_len += len;
    }
}

/* Blocks until it is written: a slow reader of ours slows the command. */
static bool
write_all(void *ctx, bool is_stderr, const uint8_t *bytes, size_t len)
{
    int fd = is_stderr ? STDERR_FILENO : STDOUT_FILENO;

    (void)ctx;
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);

        if (n < 0 && errno == EAGAIN) {
            struct pollfd p = {fd, POLLOUT, 0};

            (void)poll(&p, 1, -1);
        } else if (n < 0 && errno != EINTR) {
            return false;
        } else if (n > 0) {
            bytes += n;
            len -= (size_t)n;
        }
    }
    return true;
}

static void
end_input(struct session *session)
{
    put_frame(session, WP_EXEC_STDIN_EOF, NULL, 0);
    session->in_fd = -1;
}

static void
read_input(struct session *session)
{
    uint8_t chunk[CHUNK];
    ssize_t n = read(session->in_fd, chunk, sizeof chunk);

    if (n > 0) {
        put_frame(session, WP_EXEC_STDIN, chunk, (uint32_t)n);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        end_input(session);
    }
}

static enum wp_status
read_signal(struct session *session, struct wp_err *err)
{
    struct signalfd_siginfo info;
    uint8_t number;

    if (read(session->signal_fd, &info, sizeof info) != sizeof info) {
        return WP_OK;
    }
    number = (uint8_t)info.ssi_signo;
    if (number == SIGINT && ++session->interrupts > 1) {
        return wp_err_set(err, WP_CANCELLED, "interrupted");
    }
    put_frame(session, WP_EXEC_SIGNAL, &number, 1);
    return WP_OK;
}

static enum wp_status
connection_broke(int os_errno, struct wp_err *err)
{
    if (os_errno == 0) {
        return wp_err_set(err, WP_UNAVAILABLE,
                          "the sandbox closed the connection before the "
                          "command's end: it or its lease has ended");
    }
    return wp_err_sys(err, WP_UNAVAILABLE, os_errno,
                      "the connection to the sandbox broke");
}

static enum wp_status
send_frames(struct session *session, struct wp_err *err)
{
    ssize_t n = send(session->socket_fd, session->out + session->out_at,
                     session->out_len - session->out_at, MSG_NOSIGNAL);

    if (n < 0) {
        /* The peer's last words, if any, are still to be read. */
        if (errno == EPIPE || errno == ECONNRESET) {
            session->out_at = session->out_len = 0;
            session->in_fd = -1;
            return WP_OK;
        }
        return errno == EAGAIN || errno == EINTR ? WP_OK
                                                 : connection_broke(errno, err);
    }
    session->out_at += (size_t)n;
    if (session->out_at == session->out_len) {
        session->out_at = session->out_len = 0;
    }
    return WP_OK;
}

static enum wp_status
receive_frames(struct session *session, struct wp_err *err)
{
    static const struct wp_exec_sink sink = {write_all, NULL};
    uint8_t in[65536];
    ssize_t n = recv(session->socket_fd, in, sizeof in, 0);

    if (n > 0) {
        return wp_exec_reader_feed(&session->reader, in, (size_t)n, &sink, err);
    }
    if (n == 0) {
        return connection_broke(0, err);
    }
    return errno == EAGAIN || errno == EINTR ? WP_OK
                                             : connection_broke(errno, err);
}

static enum wp_status
turn(struct session *session, struct wp_err *err)
{
    bool sending = session->out_len > 0;
    struct pollfd p[] = {
        {session->socket_fd, (short)(POLLIN | (sending ? POLLOUT : 0)), 0},
        {session->signal_fd, POLLIN, 0},
        /* Not read while something is on its way: back-pressure. */
        {sending ? -1 : session->in_fd, POLLIN, 0},
    };
    enum wp_status status = WP_OK;

    if (poll(p, 3, -1) < 0) {
        return errno == EINTR ? WP_OK
                              : wp_err_sys(err, WP_INTERNAL, errno, "poll");
    }
    if ((p[0].revents & POLLIN) != 0 ||
        (p[0].revents & (POLLHUP | POLLERR)) != 0) {
        status = receive_frames(session, err);
    }
    if (status == WP_OK && p[1].revents != 0) {
        status = read_signal(session, err);
    }
    if (status == WP_OK && p[2].revents != 0) {
        read_input(session);
    }
    if (status == WP_OK && session->out_len > 0) {
        status = send_frames(session, err);
    }
    return status;
}

enum wp_status
wp_exec_session_run(int socket_fd, int in_fd, const uint8_t *extra,
                    size_t extra_len, struct wp_exec_exit *end,
                    struct wp_err *err)
{
    static const struct wp_exec_sink sink = {write_all, NULL};
    struct session session = {.socket_fd = socket_fd, .in_fd = in_fd};
    sigset_t signals;
    sigset_t before;
    enum wp_status status;

    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGHUP);
    (void)sigaddset(&signals, SIGQUIT);
    (void)pthread_sigmask(SIG_BLOCK, &signals, &before);
    session.signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    wp_exec_reader_init(&session.reader);
    if (in_fd < 0) {
        end_input(&session);
    }
    status = wp_exec_reader_feed(&session.reader, extra, extra_len, &sink, err);
    while (status == WP_OK && !session.reader.ended) {
        status = turn(&session, err);
    }
    if (session.signal_fd >= 0) {
        (void)close(session.signal_fd);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    *end = session.reader.exit;
    return status;
}
