#include <event2/event.h>
#include <stdlib.h>

#include "k8s/api/http_parts.h"
#include "pool/base/assert.h"

enum {
    WORDS_MAX = 64 << 10, /* Of a refusal. */
};

struct wp_http_stream {
    struct wp_http_transfer transfer;
    struct wp_list node;
    struct wp_http_stream_config config;
    struct event *idle;
    int64_t heard_ns;
    bool closed; /* Its owner wants to hear no more. */
    char path[];
};

static int64_t
now_of(const struct wp_http_stream *stream)
{
    return wp_clock_mono_ns(stream->transfer.http->config.clock);
}

static void
stream_free(struct wp_http_stream *stream)
{
    wp_list_remove(&stream->node);
    if (stream->idle != NULL) {
        event_free(stream->idle);
    }
    wp_http_buffer_fini(&stream->transfer.in);
    free(stream);
}

/* The last word, and the end of stream. One that was closed is freed by its
 * closing instead. */
static void
finish(struct wp_http_stream *stream, const struct wp_http_answer *answer)
{
    if (stream->closed) {
        return;
    }
    /* A close by somebody in the callback would be too late. */
    stream->closed = true;
    stream->config.on_end(stream->config.ctx, answer);
    stream_free(stream);
}

static void
finish_with(struct wp_http_stream *stream, enum wp_status status,
            const char *error)
{
    struct wp_http_answer answer = {
        .status = status, .retry_after_ns = -1, .error = error};

    finish(stream, &answer);
}

static bool
on_bytes(struct wp_http_transfer *transfer, int code, struct wp_str bytes)
{
    struct wp_http_stream *stream =
        WP_CONTAINER_OF(transfer, struct wp_http_stream, transfer);

    stream->heard_ns = now_of(stream);
    if (stream->closed) {
        return false;
    }
    if (code == 200) {
        return stream->config.on_bytes(stream->config.ctx, bytes);
    }
    if (bytes.len > WORDS_MAX - transfer->in.len) {
        bytes.len = WORDS_MAX - transfer->in.len;
    }
    return wp_http_buffer_add(&transfer->in, bytes, WORDS_MAX);
}

static void
on_end(struct wp_http_transfer *transfer, struct wp_http_answer *answer)
{
    struct wp_http_stream *stream =
        WP_CONTAINER_OF(transfer, struct wp_http_stream, transfer);

    if (transfer->stopped && answer->code == 200) {
        answer->status = WP_CANCELLED;
        answer->error = "ended by its owner";
    }
    finish(stream, answer);
}

static void
watch_idle(struct wp_http_stream *stream, int64_t wait_ns)
{
    struct timeval wait = wp_timeval(wait_ns);

    (void)evtimer_add(stream->idle, &wait);
}

static void
on_idle(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_http_stream *stream = ctx;
    struct wp_http *http = stream->transfer.http;
    int64_t left_ns =
        stream->heard_ns + stream->config.idle_timeout_ns - now_of(stream);

    (void)fd;
    (void)what;
    if (stream->closed) {
        return;
    }
    if (left_ns > 0) {
        watch_idle(stream, left_ns);
        return;
    }
    wp_http_enter(http);
    wp_http_transfer_cancel(&stream->transfer);
    finish_with(stream, WP_DEADLINE_EXCEEDED, "the server has gone silent");
    wp_http_leave(http);
}

bool
wp_http_stream_answered(const struct wp_http_stream *stream)
{
    return stream->transfer.easy != NULL &&
           wp_http_easy_code(stream->transfer.easy) == 200;
}

struct wp_http_stream *
wp_http_stream_open(struct wp_http *http,
                    const struct wp_http_stream_config *config)
{
    size_t path_size = strlen(config->path) + 1;
    struct wp_http_stream *stream;

    if (http->closing) {
        return NULL;
    }
    stream = calloc(1, sizeof *stream + path_size);
    if (stream == NULL) {
        return NULL;
    }
    memcpy(stream->path, config->path, path_size);
    stream->config = *config;
    stream->config.path = stream->path;
    stream->transfer = (struct wp_http_transfer){
        .http = http,
        .method = "GET",
        .path = stream->config.path,
        .streaming = true,
        .on_bytes = on_bytes,
        .on_end = on_end,
    };
    wp_list_init(&stream->node);
    stream->heard_ns = now_of(stream);
    if (config->idle_timeout_ns > 0) {
        stream->idle = evtimer_new(http->config.base, on_idle, stream);
        if (stream->idle == NULL) {
            stream_free(stream);
            return NULL;
        }
        watch_idle(stream, config->idle_timeout_ns);
    }
    wp_list_push_back(&http->streams_waiting, &stream->node);
    wp_http_kick(http);
    return stream;
}

void
wp_http_stream_close(struct wp_http_stream *stream)
{
    struct wp_http *http = stream->transfer.http;

    WP_ASSERT(!stream->closed);
    stream->closed = true;
    wp_list_remove(&stream->node);
    wp_list_push_back(&http->streams_closing, &stream->node);
    if (!http->closing) {
        wp_http_kick(http);
    }
}

static struct wp_http_stream *
stream_of(struct wp_list *node)
{
    return WP_CONTAINER_OF(node, struct wp_http_stream, node);
}

static void
free_closed(struct wp_http *http)
{
    struct wp_list *node;

    while ((node = wp_list_pop_front(&http->streams_closing)) != NULL) {
        struct wp_http_stream *stream = stream_of(node);

        wp_http_transfer_cancel(&stream->transfer);
        stream_free(stream);
    }
}

void
wp_http_streams_work(struct wp_http *http)
{
    struct wp_list *node;

    free_closed(http);
    while ((node = wp_list_pop_front(&http->streams_waiting)) != NULL) {
        struct wp_http_stream *stream = stream_of(node);

        wp_list_push_back(&http->streams, node);
        if (!wp_http_transfer_start(&stream->transfer, http->streams_link)) {
            finish_with(stream, WP_UNAVAILABLE, "it could not be begun");
        }
    }
}

static void
end_all(struct wp_list *streams)
{
    struct wp_list *node;

    while ((node = wp_list_pop_front(streams)) != NULL) {
        struct wp_http_stream *stream = stream_of(node);

        wp_http_transfer_cancel(&stream->transfer);
        finish_with(stream, WP_CANCELLED, "the client is being closed");
    }
}

void
wp_http_streams_end(struct wp_http *http)
{
    end_all(&http->streams);
    end_all(&http->streams_waiting);
    free_closed(http);
}
