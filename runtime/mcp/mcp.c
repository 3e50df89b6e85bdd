#include "runtime/mcp/mcp.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/mcp/mcp_tools.h"
#include "runtime/runtime.h"
#include "runtime/mcp/skills.h"

/* The first revision whose clients take an event that is nothing but an id. */
#define PRIMED_SINCE "2025-11-25"

static void
rpc_error(struct wp_http_req *req, int status, const char *text)
{
    wp_http_reply_json(req, status,
                       wp_mcp_error(NULL, WP_MCP_INVALID_REQUEST, text));
}

/* What is being answered is the user of its request. */
static struct wp_mcp *
mcp_of(const struct wp_http_req *req)
{
    return wp_runtime_of(req)->mcp;
}

/* ------------------------------------------------------------------ POST */

/* A POST while its messages are looked at. */
struct post {
    struct wp_mcp *mcp;
    const char *session; /* NULL: none. Valid while messages are looked at. */
    struct wp_mcp_stream *stream;
};

static void
on_reply(void *user, const struct wp_mcp_reply *reply)
{
    struct post *post = user;
    const char *session = NULL;

    if (reply->initialized) {
        session = wp_mcp_session_begin(&post->mcp->sessions);
    }
    wp_mcp_stream_answer(post->stream, reply, session);
    free(post);
}

static void
on_cancelled(void *user, const json_t *id)
{
    struct post *post = user;

    wp_mcp_streams_cancel(&post->mcp->streams, post->session, id);
}

/* Both false: the client takes neither. Who names no kind gets plain JSON. */
struct accepts {
    bool json;
    bool events;
};

static struct accepts
accepts_of(const char *header)
{
    if (header == NULL) {
        return (struct accepts){.json = true};
    }
    return (struct accepts){
        .json = strcasestr(header, "application/json") != NULL ||
                strcasestr(header, "application/*") != NULL ||
                strstr(header, "*/*") != NULL,
        .events = strcasestr(header, "text/event-stream") != NULL ||
                  strcasestr(header, "text/*") != NULL,
    };
}

/* Checks the headers of a POST or GET; false when it was answered. */
static bool
headers_good(struct wp_http_req *req)
{
    const char *type = wp_http_header(req, "Content-Type");
    const char *version = wp_http_header(req, "MCP-Protocol-Version");
    const char *session = wp_http_header(req, "Mcp-Session-Id");
    struct accepts accepts = accepts_of(wp_http_header(req, "Accept"));
    bool is_get = strcmp(wp_http_method(req), "GET") == 0;

    if (!is_get && type != NULL &&
        strncasecmp(type, "application/json", 16) != 0) {
        rpc_error(req, 415, "Content-Type must be application/json");
    } else if (is_get && !accepts.events) {
        rpc_error(req, 400, "Accept must allow text/event-stream");
    } else if (!accepts.json && !accepts.events) {
        rpc_error(req, 400,
                  "Accept must allow application/json or text/event-stream");
    } else if (version != NULL && !wp_mcp_version_known(version)) {
        rpc_error(req, 400, "MCP-Protocol-Version: not a supported revision");
    } else if (session != NULL &&
               !wp_mcp_session_touch(&mcp_of(req)->sessions, session)) {
        rpc_error(req, 404, "session not found");
    }
    return !wp_http_replied(req);
}

static void
post_ready(struct wp_http_req *req)
{
    const char *version = wp_http_header(req, "MCP-Protocol-Version");
    struct accepts accepts = accepts_of(wp_http_header(req, "Accept"));
    const struct wp_mcp_manner manner = {
        .session = wp_http_header(req, "Mcp-Session-Id"),
        .events = accepts.events,
        .json = accepts.json,
        .primed = version != NULL && strcmp(version, PRIMED_SINCE) >= 0,
    };
    struct wp_mcp *mcp = mcp_of(req);
    struct post *post = calloc(1, sizeof(*post));
    struct wp_mcp_peer peer = {
        .batch_allowed = version == NULL || wp_mcp_version_has_batch(version),
        .reply = on_reply,
        .cancelled = on_cancelled,
        .user = post,
    };
    struct wp_mcp_exchange *exchange;
    struct wp_mcp_stream *stream = NULL;
    const char *text;
    size_t len;

    if (post != NULL) {
        stream = wp_mcp_stream_open(&mcp->streams, req, &manner);
    }
    if (stream == NULL) {
        free(post);
        wp_http_reply_json(req, 500, NULL);
        return;
    }
    *post = (struct post){mcp, manner.session, stream};
    text = wp_http_body(req, &len);
    exchange = wp_mcp_rpc_handle(&mcp->tools, text, len, &peer);
    if (exchange != NULL) {
        post->session = NULL;
        wp_mcp_stream_wait(stream, exchange);
    }
}

/* ----------------------------------------------------------- GET, DELETE */

static void
get_ready(struct wp_http_req *req)
{
    struct wp_mcp_streams *streams = &mcp_of(req)->streams;
    const char *session = wp_http_header(req, "Mcp-Session-Id");
    const char *last = wp_http_header(req, "Last-Event-ID");

    if (last != NULL) {
        wp_mcp_stream_resume(streams, req, session, last);
    } else if (session == NULL) {
        rpc_error(req, 400, "Mcp-Session-Id is required");
    } else {
        wp_mcp_stream_listen(streams, req, session);
    }
}

static void
delete_ready(struct wp_http_req *req)
{
    struct wp_mcp *mcp = mcp_of(req);
    const char *session = wp_http_header(req, "Mcp-Session-Id");

    if (session == NULL) {
        rpc_error(req, 400, "Mcp-Session-Id is required");
    } else if (!wp_mcp_session_end(&mcp->sessions, session)) {
        rpc_error(req, 404, "session not found");
    } else {
        wp_mcp_streams_end(&mcp->streams, session);
        wp_http_reply(req, 204, NULL, NULL, 0);
    }
}

static void
mcp_ready(struct wp_http_req *req)
{
    const char *method = wp_http_method(req);

    if (strcmp(method, "POST") == 0) {
        if (headers_good(req)) {
            post_ready(req);
        }
    } else if (strcmp(method, "GET") == 0) {
        if (headers_good(req)) {
            get_ready(req);
        }
    } else if (strcmp(method, "DELETE") == 0) {
        delete_ready(req);
    } else {
        wp_http_add_header(req, "Allow", "GET, POST, DELETE");
        rpc_error(req, 405, "only GET, POST and DELETE are served here");
    }
}

static void
mcp_gone(struct wp_http_req *req)
{
    struct wp_mcp_stream *stream = wp_http_user(req);

    if (stream != NULL) {
        wp_mcp_stream_gone(stream);
    }
}

/* write_file carries a file's content in its JSON. */
const struct wp_http_ops wp_mcp_ops = {
    .body_max = 32U << 20,
    .ready = mcp_ready,
    .gone = mcp_gone,
};

/* ------------------------------------------------------------------- life */

struct wp_mcp *
wp_mcp_create(struct wp_runtime *runtime)
{
    struct wp_mcp *mcp = calloc(1, sizeof(*mcp));
    char *skills = wp_skills_list(runtime->options.skills_dir);
    bool good = mcp != NULL && skills != NULL &&
                wp_mcp_streams_init(&mcp->streams, runtime->base,
                                    runtime->options.progress_ms);

    if (good) {
        mcp->tools.list = wp_mcp_tools_describe(skills);
        mcp->tools.call = wp_mcp_tools_call;
        mcp->tools.app = runtime;
        good = mcp->tools.list != NULL;
        if (!good) {
            wp_mcp_streams_fini(&mcp->streams);
        }
    }
    free(skills);
    if (!good) {
        free(mcp);
        return NULL;
    }
    return mcp;
}

void
wp_mcp_drain(struct wp_mcp *mcp)
{
    wp_mcp_streams_drain(&mcp->streams);
}

void
wp_mcp_destroy(struct wp_mcp *mcp)
{
    if (mcp != NULL) {
        wp_mcp_streams_fini(&mcp->streams);
        json_decref(mcp->tools.list);
        free(mcp);
    }
}
