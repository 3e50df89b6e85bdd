/* runtime/mcp/mcp_stream.h - answers that outlive their connection.
 *
 * A POST whose call is not over at once is answered by a stream of events
 * (text/event-stream). Each event has an id, "STREAM-NUMBER". While the call
 * lasts, the client hears each every_ms that it goes on: a progress
 * notification for who has asked for them, else a comment. A client that lost
 * its connection takes the stream up again by a GET with Last-Event-ID; then
 * the older connection, should it still seem to be there, is dropped.
 *
 * Every answer of such a stream is kept, as it may get lost on its way to a
 * client that seemed to be there: at most WP_MCP_KEPT_MAX of them, and
 * WP_MCP_KEPT_BYTES together unless one alone has more. The oldest goes first.
 *
 * A GET without Last-Event-ID opens a stream that nothing is ever sent on.
 * Loop thread only. */
#ifndef WP_RUNTIME_MCP_MCP_STREAM_H
#define WP_RUNTIME_MCP_MCP_STREAM_H

#include <event2/event.h>

#include "pool/base/list.h"
#include "proto/formats/http_server.h"
#include "runtime/mcp/mcp_rpc.h"
#include "runtime/mcp/mcp_sessions.h"

enum {
    WP_MCP_KEPT_MAX = 64,
    WP_MCP_KEPT_BYTES = 16 << 20,
    /* Clients bound an event, but not a plain answer: a longer one that is
     * there at once is plain, for who takes both. */
    WP_MCP_EVENT_BYTES = 512 << 10,
};

struct wp_mcp_streams {
    struct wp_list open; /* Calls under way, and the streams of GET. */
    struct wp_list kept; /* Answered; the oldest first. */
    uint32_t kept_count;
    size_t kept_bytes;
    struct event *tick; /* Pending while something is open. */
    int64_t every_ms;
};

struct wp_mcp_stream; /* One POST, or one GET. */

/* False on no memory. */
bool wp_mcp_streams_init(struct wp_mcp_streams *streams,
                         struct event_base *base, int64_t every_ms);
void wp_mcp_streams_fini(struct wp_mcp_streams *streams);
/* Ends the streams of GETs, and keeps no more: the server is to stop. */
void wp_mcp_streams_drain(struct wp_mcp_streams *streams);

/* How a client is answered. */
struct wp_mcp_manner {
    const char *session; /* NULL: none. Copied. */
    bool events;         /* It takes a stream of events. */
    bool json;           /* It takes a plain answer, too. */
    bool primed;         /* It takes an event that is nothing but an id. */
};

/* Becomes the request's user; wp_mcp_stream_gone() is to be called when it has
 * gone. NULL on no memory. */
struct wp_mcp_stream *wp_mcp_stream_open(struct wp_mcp_streams *streams,
                                         struct wp_http_req *req,
                                         const struct wp_mcp_manner *manner);
/* The answer is not there yet: begins a stream of events, if that is the
 * client's manner. */
void wp_mcp_stream_wait(struct wp_mcp_stream *stream,
                        struct wp_mcp_exchange *exchange);
/* The answer, which is taken; session is NULL, or a new one to tell. The stream
 * is not to be used any more. */
void wp_mcp_stream_answer(struct wp_mcp_stream *stream,
                          const struct wp_mcp_reply *reply,
                          const char *session);
/* The request of the stream has gone. */
void wp_mcp_stream_gone(struct wp_mcp_stream *stream);

/* A GET: a stream that stays open, one for each session; the newest counts. */
void wp_mcp_stream_listen(struct wp_mcp_streams *streams,
                          struct wp_http_req *req, const char *session);
/* A GET with Last-Event-ID last: takes that stream up again, or answers 400. */
void wp_mcp_stream_resume(struct wp_mcp_streams *streams,
                          struct wp_http_req *req, const char *session,
                          const char *last);

/* The session's call of that id is not to be answered. */
void wp_mcp_streams_cancel(struct wp_mcp_streams *streams, const char *session,
                           const json_t *id);
/* The session has ended: so do its streams. Its calls go on, unheard. */
void wp_mcp_streams_end(struct wp_mcp_streams *streams, const char *session);

#endif
