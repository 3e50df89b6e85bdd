#include "runtime/mcp/mcp_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/bufferevent.h>

#include "pool/base/clock.h"
#include "pool/base/str.h"
#include "runtime/http/json_reply.h"

#define EVENT_STREAM "text/event-stream"

enum {
    HIGH_WATER = 64 << 10, /* A client this far behind is told nothing new. */
};

struct wp_mcp_stream {
    struct wp_list link; /* In streams->open or streams->kept. */
    struct wp_mcp_streams *streams;
    struct wp_http_req *req;          /* NULL: nobody listens. */
    struct wp_mcp_exchange *exchange; /* NULL: answered, or a GET's stream. */
    char session[WP_MCP_ID_LEN + 1];  /* "" for none. */
    char id[WP_MCP_ID_LEN + 1];
    bool events;   /* It takes a stream of events. */
    bool json;     /* It takes a plain answer, too. */
    bool primed;   /* It takes an event that is nothing but an id. */
    bool begun;    /* It was given an id, and may come back. */
    bool is_get;   /* Without a call. */
    uint64_t next; /* Number of the next event. */
    char *text;    /* Kept: the answer's event, which is the last. */
    size_t text_len;
    int64_t began_ns;
};

static int64_t
now_ns(void)
{
    return wp_clock_mono_ns(wp_clock_system());
}

static void
tick_set(struct wp_mcp_streams *streams)
{
    struct timeval every = wp_timeval(streams->every_ms * WP_NS_PER_MS);

    if (wp_list_empty(&streams->open)) {
        event_del(streams->tick);
    } else if (!event_pending(streams->tick, EV_TIMEOUT, NULL)) {
        event_add(streams->tick, &every);
    }
}

/* Out of its list, and freed. */
static void
stream_free(struct wp_mcp_stream *stream)
{
    struct wp_mcp_streams *streams = stream->streams;

    if (stream->text != NULL) {
        streams->kept_count--;
        streams->kept_bytes -= stream->text_len;
    }
    wp_list_remove(&stream->link);
    tick_set(streams);
    free(stream->text);
    free(stream);
}

/* No more of the request's callbacks reach the stream. */
static struct wp_http_req *
stream_detach(struct wp_mcp_stream *stream)
{
    struct wp_http_req *req = stream->req;

    if (req != NULL) {
        wp_http_set_user(req, NULL);
    }
    stream->req = NULL;
    return req;
}

/* ---------------------------------------------------------------- events */

/* A client that has closed its sending side may still be there. */
static void
on_event(struct wp_http_req *req, short what)
{
    if ((what & BEV_EVENT_EOF) != 0 && !wp_http_client_left(req)) {
        wp_http_half_closed(req);
    } else {
        wp_http_stream_drop(req);
    }
}

static void
events_begin(struct wp_http_req *req)
{
    static const struct wp_http_stream_ops ops = {.event = on_event};

    wp_http_add_header(req, "Cache-Control", "no-cache, no-transform");
    wp_http_pieces_begin(req, 200, EVENT_STREAM, &ops);
}

/* The text of an event, malloc'ed; NULL on no memory. Takes message. */
static char *
event_text(struct wp_mcp_stream *stream, json_t *message, size_t *len)
{
    char *data = message != NULL ? json_dumps(message, JSON_COMPACT) : NULL;
    char *text = NULL;
    int got = -1;

    json_decref(message);
    if (data != NULL) {
        got = asprintf(&text, "event: message\nid: %s-%llu\ndata: %s\n\n",
                       stream->id, (unsigned long long)stream->next, data);
    }
    free(data);
    if (got < 0) {
        return NULL;
    }
    stream->next++;
    *len = (size_t)got;
    return text;
}

static void
emit(void *user, json_t *message)
{
    struct wp_mcp_stream *stream = user;
    size_t len = 0;
    char *text = event_text(stream, message, &len);

    if (text != NULL) {
        wp_http_piece(stream->req, text, len);
    }
    free(text);
}

static void
prime(struct wp_mcp_stream *stream)
{
    char text[WP_MCP_ID_LEN + 48];
    int len = snprintf(text, sizeof(text), "id: %s-%llu\ndata: \n\n",
                       stream->id, (unsigned long long)stream->next++);

    wp_http_piece(stream->req, text, (size_t)len);
}

static void
tell_that_it_goes_on(struct wp_mcp_stream *stream)
{
    static const char comment[] = ": it goes on\n\n";
    int64_t elapsed_ms = (now_ns() - stream->began_ns) / WP_NS_PER_MS;

    if (evbuffer_get_length(wp_http_stream_output(stream->req)) > HIGH_WATER) {
        return;
    }
    if (stream->exchange == NULL ||
        wp_mcp_exchange_progress(stream->exchange, elapsed_ms, emit, stream) ==
            0) {
        wp_http_piece(stream->req, comment, sizeof(comment) - 1);
    }
}

static void
on_tick(evutil_socket_t fd, short what, void *arg)
{
    struct wp_mcp_streams *streams = arg;

    (void)fd;
    (void)what;
    WP_LIST_FOREACH (node, &streams->open) {
        struct wp_mcp_stream *stream =
            WP_CONTAINER_OF(node, struct wp_mcp_stream, link);

        if (stream->req != NULL && stream->begun) {
            tell_that_it_goes_on(stream);
        }
    }
    tick_set(streams);
}

/* ------------------------------------------------------------- the answer */

/* What has waited longest makes room. */
static void
kept_bound(struct wp_mcp_streams *streams)
{
    while (
        streams->kept_count > WP_MCP_KEPT_MAX ||
        (streams->kept_count > 1 && streams->kept_bytes > WP_MCP_KEPT_BYTES)) {
        struct wp_mcp_stream *first =
            WP_CONTAINER_OF(streams->kept.next, struct wp_mcp_stream, link);

        /* It leaves its list. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        stream_free(first);
    }
}

/* Takes text, the last event. */
static void
keep(struct wp_mcp_stream *stream, char *text, size_t len)
{
    struct wp_mcp_streams *streams = stream->streams;

    stream->text = text;
    stream->text_len = len;
    wp_list_remove(&stream->link);
    wp_list_push_back(&streams->kept, &stream->link);
    streams->kept_count++;
    streams->kept_bytes += len;
    kept_bound(streams);
    tick_set(streams);
}

/* The answer to a stream that has begun. */
static void
answer_last(struct wp_mcp_stream *stream, json_t *body)
{
    struct wp_http_req *req = stream_detach(stream);
    size_t len = 0;
    char *text = body != NULL ? event_text(stream, body, &len) : NULL;

    if (req != NULL && text != NULL) {
        wp_http_piece(req, text, len);
    }
    if (req != NULL) {
        wp_http_pieces_end(req);
    }
    if (text != NULL) {
        keep(stream, text, len);
    } else {
        stream_free(stream);
    }
}

/* An answer that is there at once. */
static void
reply_one_event(struct wp_http_req *req, int status, json_t *body,
                bool json_taken)
{
    char *text = json_dumps(body, JSON_COMPACT);
    char *event = NULL;
    int len = -1;

    json_decref(body);
    if (text != NULL && json_taken && strlen(text) > WP_MCP_EVENT_BYTES) {
        wp_http_reply(req, status, "application/json", text, strlen(text));
        free(text);
        return;
    }
    if (text != NULL) {
        len = asprintf(&event, "event: message\ndata: %s\n\n", text);
    }
    free(text);
    if (len < 0) {
        wp_http_reply_json(req, 500, NULL);
        return;
    }
    wp_http_add_header(req, "Cache-Control", "no-cache, no-transform");
    wp_http_reply(req, status, EVENT_STREAM, event, (size_t)len);
    free(event);
}

void
wp_mcp_stream_answer(struct wp_mcp_stream *stream,
                     const struct wp_mcp_reply *reply, const char *session)
{
    struct wp_http_req *req;

    stream->exchange = NULL;
    if (stream->begun) {
        answer_last(stream, reply->body);
        return;
    }
    req = stream_detach(stream);
    if (req == NULL) { /* It left without an id to come back with. */
        json_decref(reply->body);
        stream_free(stream);
        return;
    }
    if (session != NULL) {
        wp_http_add_header(req, "Mcp-Session-Id", session);
    }
    if (reply->http_status == 202) {
        wp_http_reply(req, 202, NULL, NULL, 0);
    } else if (stream->events && reply->http_status == 200) {
        reply_one_event(req, 200, reply->body, stream->json);
    } else {
        wp_http_reply_json(req, reply->http_status, reply->body);
    }
    stream_free(stream);
}

/* ------------------------------------------------------------------- life */

struct wp_mcp_stream *
wp_mcp_stream_open(struct wp_mcp_streams *streams, struct wp_http_req *req,
                   const struct wp_mcp_manner *manner)
{
    struct wp_mcp_stream *stream = calloc(1, sizeof(*stream));

    if (stream == NULL || !wp_mcp_id_make(stream->id) ||
        (manner->session != NULL &&
         !wp_str_copy(wp_str_from(manner->session), stream->session,
                      sizeof(stream->session)))) {
        free(stream);
        return NULL;
    }
    stream->streams = streams;
    stream->req = req;
    stream->events = manner->events;
    stream->json = manner->json;
    stream->primed = manner->primed;
    stream->began_ns = now_ns();
    wp_http_set_user(req, stream);
    wp_list_push_back(&streams->open, &stream->link);
    return stream;
}

void
wp_mcp_stream_wait(struct wp_mcp_stream *stream,
                   struct wp_mcp_exchange *exchange)
{
    stream->exchange = exchange;
    if (stream->events) {
        stream->begun = true;
        events_begin(stream->req);
        if (stream->primed) {
            prime(stream);
        }
    }
    tick_set(stream->streams);
}

void
wp_mcp_stream_gone(struct wp_mcp_stream *stream)
{
    stream->req = NULL;
    if (stream->is_get) {
        stream_free(stream);
    }
}

/* The newest connection counts: the client knows best which one it has. */
static void
drop_older(struct wp_mcp_stream *stream)
{
    struct wp_http_req *older = stream_detach(stream);

    if (older != NULL) {
        wp_http_stream_drop(older);
    }
}

void
wp_mcp_stream_listen(struct wp_mcp_streams *streams, struct wp_http_req *req,
                     const char *session)
{
    const struct wp_mcp_manner manner = {.session = session, .events = true};
    struct wp_mcp_stream *stream;

    WP_LIST_FOREACH (node, &streams->open) {
        stream = WP_CONTAINER_OF(node, struct wp_mcp_stream, link);
        if (stream->is_get && strcmp(stream->session, session) == 0) {
            drop_older(stream);
            stream_free(stream);
            break;
        }
    }
    stream = wp_mcp_stream_open(streams, req, &manner);
    if (stream == NULL) {
        wp_http_reply_json(req, 500, NULL);
        return;
    }
    stream->is_get = true;
    stream->begun = true;
    events_begin(req);
    tick_set(streams);
}

static struct wp_mcp_stream *
find(struct wp_list *list, const char *session, const char *id)
{
    WP_LIST_FOREACH (node, list) {
        struct wp_mcp_stream *stream =
            WP_CONTAINER_OF(node, struct wp_mcp_stream, link);

        if (stream->begun && !stream->is_get && strcmp(stream->id, id) == 0 &&
            strcmp(stream->session, session != NULL ? session : "") == 0) {
            return stream;
        }
    }
    return NULL;
}

/* "STREAM-NUMBER"; false when it is nothing that was given out here. */
static bool
last_parse(const char *last, char id[WP_MCP_ID_LEN + 1], uint64_t *number)
{
    if (strlen(last) < WP_MCP_ID_LEN + 2 || last[WP_MCP_ID_LEN] != '-') {
        return false;
    }
    memcpy(id, last, WP_MCP_ID_LEN);
    id[WP_MCP_ID_LEN] = '\0';
    return wp_str_to_u64(wp_str_from(last + WP_MCP_ID_LEN + 1), number);
}

void
wp_mcp_stream_resume(struct wp_mcp_streams *streams, struct wp_http_req *req,
                     const char *session, const char *last)
{
    char id[WP_MCP_ID_LEN + 1];
    struct wp_mcp_stream *stream = NULL;
    uint64_t number = 0;

    if (last_parse(last, id, &number)) {
        stream = find(&streams->open, session, id);
        if (stream == NULL) {
            stream = find(&streams->kept, session, id);
        }
    }
    /* Who has heard all would ask again and again for an empty stream. */
    if (stream == NULL ||
        (stream->text != NULL && number >= stream->next - 1)) {
        wp_http_reply_json(
            req, 400,
            wp_mcp_error(NULL, WP_MCP_INVALID_REQUEST,
                         "Last-Event-ID: no such stream, or its answer is not "
                         "kept any more, or nothing follows"));
    } else if (stream->text != NULL) {
        wp_http_add_header(req, "Cache-Control", "no-cache, no-transform");
        wp_http_reply(req, 200, EVENT_STREAM, stream->text, stream->text_len);
    } else {
        drop_older(stream);
        stream->req = req;
        wp_http_set_user(req, stream);
        events_begin(req);
    }
}

void
wp_mcp_streams_cancel(struct wp_mcp_streams *streams, const char *session,
                      const json_t *id)
{
    WP_LIST_FOREACH (node, &streams->open) {
        struct wp_mcp_stream *stream =
            WP_CONTAINER_OF(node, struct wp_mcp_stream, link);

        if (stream->exchange != NULL &&
            strcmp(stream->session, session != NULL ? session : "") == 0 &&
            wp_mcp_exchange_cancel(stream->exchange, id)) {
            return;
        }
    }
}

/* Its client hears no more of it. What is under way stays until it is over. */
static void
stream_end(struct wp_mcp_stream *stream)
{
    struct wp_http_req *req = stream_detach(stream);

    if (req != NULL && stream->begun) {
        wp_http_pieces_end(req);
    } else if (req != NULL) {
        wp_http_reply_json(
            req, 404,
            wp_mcp_error(NULL, WP_MCP_INVALID_REQUEST, "session not found"));
    }
    stream->begun = false;
    if (stream->exchange == NULL) {
        stream_free(stream);
    }
}

static void
list_end(struct wp_list *list, const char *session)
{
    struct wp_list *node = list->next;

    while (node != list) {
        struct wp_mcp_stream *stream =
            WP_CONTAINER_OF(node, struct wp_mcp_stream, link);

        node = node->next;
        if (session == NULL ? stream->is_get
                            : strcmp(stream->session, session) == 0) {
            stream_end(stream);
        }
    }
}

void
wp_mcp_streams_end(struct wp_mcp_streams *streams, const char *session)
{
    list_end(&streams->open, session);
    list_end(&streams->kept, session);
}

void
wp_mcp_streams_drain(struct wp_mcp_streams *streams)
{
    list_end(&streams->open, NULL);
}

bool
wp_mcp_streams_init(struct wp_mcp_streams *streams, struct event_base *base,
                    int64_t every_ms)
{
    wp_list_init(&streams->open);
    wp_list_init(&streams->kept);
    streams->every_ms = every_ms;
    streams->tick = evtimer_new(base, on_tick, streams);
    return streams->tick != NULL;
}

void
wp_mcp_streams_fini(struct wp_mcp_streams *streams)
{
    while (!wp_list_empty(&streams->open)) {
        struct wp_mcp_stream *first =
            WP_CONTAINER_OF(streams->open.next, struct wp_mcp_stream, link);

        /* It leaves its list. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        stream_free(first);
    }
    while (!wp_list_empty(&streams->kept)) {
        struct wp_mcp_stream *first =
            WP_CONTAINER_OF(streams->kept.next, struct wp_mcp_stream, link);

        /* It leaves its list. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        stream_free(first);
    }
    if (streams->tick != NULL) {
        event_free(streams->tick);
    }
}
