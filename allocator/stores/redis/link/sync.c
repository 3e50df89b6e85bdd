#include "allocator/stores/redis/link/sync.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include <hiredis/hiredis.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"

enum {
    READ_BUFFER = WP_REDIS_RECORD_MAX,
};

struct wp_redis_sync {
    struct wp_redis_stream stream;
    redisReader *reader;
    int64_t timeout_ns;
    const char *broken; /* Why; NULL: it is not. */
    char bytes[READ_BUFFER];
};

enum wp_status
wp_redis_sync_reach(const struct wp_redis_server *server,
                    const struct wp_redis_tls *tls, int64_t timeout_ns,
                    struct wp_redis_sync **out, struct wp_err *err)
{
    struct wp_redis_sync *sync = malloc(sizeof *sync);
    redisReader *reader = redisReaderCreate();
    enum wp_status status;

    if (sync == NULL || reader == NULL) {
        free(sync);
        redisReaderFree(reader);
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "memory for a connection to redis");
    }
    sync->reader = reader;
    sync->timeout_ns = timeout_ns;
    sync->broken = NULL;
    status = wp_redis_stream_open(server, tls, timeout_ns, &sync->stream, err);
    if (status != WP_OK) {
        char text[WP_REDIS_HOST_MAX + 16];

        wp_redis_sync_close(sync);
        (void)wp_err_wrap(err, "redis: %s", wp_redis_server_text(server, text));
        return status;
    }
    *out = sync;
    return WP_OK;
}

void
wp_redis_sync_close(struct wp_redis_sync *sync)
{
    if (sync != NULL) {
        wp_redis_stream_close(&sync->stream);
        redisReaderFree(sync->reader);
        free(sync);
    }
}

struct wp_redis_stream
wp_redis_sync_take(struct wp_redis_sync *sync)
{
    struct wp_redis_stream stream = sync->stream;

    sync->stream = (struct wp_redis_stream){.fd = -1};
    wp_redis_sync_close(sync);
    return stream;
}

void
wp_redis_sync_set_timeout(struct wp_redis_sync *sync, int64_t timeout_ns)
{
    sync->timeout_ns = timeout_ns;
}

bool
wp_redis_sync_is_broken(const struct wp_redis_sync *sync)
{
    return sync->broken != NULL;
}

int
wp_redis_sync_fd(const struct wp_redis_sync *sync)
{
    return sync->stream.fd;
}

/* Until the socket is ready, or broken says why that was in vain. */
static void
wait_for(struct wp_redis_sync *sync, short events)
{
    struct pollfd socket = {.fd = sync->stream.fd, .events = events};
    int64_t ms = sync->timeout_ns / WP_NS_PER_MS + 1;
    int rc;

    do {
        rc = poll(&socket, 1, ms < INT_MAX ? (int)ms : INT_MAX);
    } while (rc < 0 && errno == EINTR);
    if (rc <= 0) {
        sync->broken = rc == 0 ? "no answer in time" : "poll failed";
    }
}

/* The number of bytes, or AGAIN or OVER. */
static ssize_t
receive(struct wp_redis_sync *sync)
{
    ssize_t n = wp_redis_stream_receive(&sync->stream, sync->bytes,
                                        sizeof sync->bytes, &sync->broken);

    if (n > 0 &&
        redisReaderFeed(sync->reader, sync->bytes, (size_t)n) != REDIS_OK) {
        sync->broken = "no memory";
        return WP_REDIS_OVER;
    }
    return n;
}

/* Nothing can be sent any more: what was said before tells why, such as that a
 * certificate was wanted. */
static void
note_last_words(struct wp_redis_sync *sync)
{
    while (sync->broken == NULL && receive(sync) > 0) {
    }
    if (sync->broken == NULL) {
        sync->broken = "closed by the other side";
    }
}

static bool
send_all(struct wp_redis_sync *sync, const char *bytes, size_t len)
{
    while (len > 0 && sync->broken == NULL) {
        ssize_t n = wp_redis_stream_send(&sync->stream, bytes, len);

        if (n == WP_REDIS_OVER) {
            note_last_words(sync);
        } else if (n == WP_REDIS_AGAIN) {
            wait_for(sync, POLLOUT);
        } else {
            bytes += n;
            len -= (size_t)n;
        }
    }
    return len == 0;
}

bool
wp_redis_sync_take_in(struct wp_redis_sync *sync)
{
    return sync->broken == NULL && receive(sync) != WP_REDIS_OVER;
}

bool
wp_redis_sync_next(struct wp_redis_sync *sync, struct redisReply **out)
{
    void *reply = NULL;

    if (redisReaderGetReply(sync->reader, &reply) != REDIS_OK) {
        sync->broken = "the answer is not what Redis says";
        return false;
    }
    *out = reply;
    return true;
}

enum wp_status
wp_redis_sync_send(struct wp_redis_sync *sync, const struct wp_str *args,
                   uint32_t n, struct wp_err *err)
{
    const char *argv[WP_REDIS_ARGS_MAX + WP_REDIS_LINKS_MAX];
    size_t lens[WP_REDIS_ARGS_MAX + WP_REDIS_LINKS_MAX];
    char *command = NULL;
    bool sent;
    int len;

    WP_ASSERT(n > 0 && n <= WP_ARRAY_LEN(argv));
    for (uint32_t i = 0; i < n; i++) {
        argv[i] = args[i].len > 0 ? args[i].ptr : "";
        lens[i] = args[i].len;
    }
    len = redisFormatCommandArgv(&command, (int)n, argv, lens);
    if (len < 0) {
        sync->broken = "no memory";
    }
    sent = len >= 0 && send_all(sync, command, (size_t)len);
    if (len >= 0) {
        redisFreeCommand(command);
    }
    return sent ? WP_OK
                : wp_err_set(err, WP_UNAVAILABLE, "redis: %.*s: %s",
                             WP_STR_ARG(args[0]), sync->broken);
}

struct redisReply *
wp_redis_sync_receive(struct wp_redis_sync *sync, const char *what,
                      struct wp_err *err)
{
    struct redisReply *reply = NULL;

    while (sync->broken == NULL && wp_redis_sync_next(sync, &reply) &&
           reply == NULL) {
        if (receive(sync) == WP_REDIS_AGAIN) {
            wait_for(sync, POLLIN);
        }
    }
    if (reply == NULL) {
        (void)wp_err_set(err, WP_UNAVAILABLE, "redis: %s: %s", what,
                         sync->broken);
    }
    return reply;
}

struct redisReply *
wp_redis_sync_call(struct wp_redis_sync *sync, const struct wp_str *args,
                   uint32_t n, struct wp_err *err)
{
    char what[32];

    if (wp_redis_sync_send(sync, args, n, err) != WP_OK) {
        return NULL;
    }
    (void)snprintf(what, sizeof what, "%.*s", WP_STR_ARG(args[0]));
    return wp_redis_sync_receive(sync, what, err);
}

struct redisReply *
wp_redis_sync_ask(struct wp_redis_sync *sync, const struct wp_str *args,
                  uint32_t n, struct wp_err *err)
{
    struct redisReply *reply = wp_redis_sync_call(sync, args, n, err);

    if (reply != NULL && reply->type == REDIS_REPLY_ERROR) {
        (void)wp_err_set(err, WP_UNAVAILABLE, "redis: %.*s: %s",
                         WP_STR_ARG(args[0]), reply->str);
        freeReplyObject(reply);
        return NULL;
    }
    return reply;
}

enum wp_status
wp_redis_sync_log_in(struct wp_redis_sync *sync, const char *user,
                     const char *password, struct wp_err *err)
{
    const struct wp_str args[] = {
        WP_STR("AUTH"), wp_str_from(user[0] != '\0' ? user : password),
        wp_str_from(password)};
    struct redisReply *reply;

    if (password[0] == '\0') {
        return WP_OK;
    }
    reply = wp_redis_sync_ask(sync, args, user[0] != '\0' ? 3 : 2, err);
    if (reply == NULL) {
        return WP_UNAVAILABLE;
    }
    freeReplyObject(reply);
    return WP_OK;
}
