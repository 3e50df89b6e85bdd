#include "runtime/mcp/mcp.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "runtime/mcp/mcp_tools.h"
#include "runtime/runtime.h"
#include "runtime/mcp/skills.h"

/* A POST that is being answered. req is NULL once the client has left. */
struct post {
    struct wp_http_req *req;
    struct wp_mcp *mcp;
    bool as_events;
};

/* -------------------------------------------------------------- sessions */

static size_t
session_find(const struct wp_mcp_sessions *sessions, const char *id)
{
    size_t i = 0;

    if (*id == '\0') {
        return WP_MCP_SESSIONS_MAX;
    }
    while (i < WP_MCP_SESSIONS_MAX &&
           strcmp(sessions->entries[i].id, id) != 0) {
        i++;
    }
    return i;
}

const char *
wp_mcp_session_begin(struct wp_mcp_sessions *sessions)
{
    unsigned char random[WP_MCP_SESSION_ID_LEN / 2];
    size_t oldest = 0;

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
        return NULL;
    }
    for (size_t i = 1; i < WP_MCP_SESSIONS_MAX; i++) {
        if (sessions->entries[i].used < sessions->entries[oldest].used) {
            oldest = i;
        }
    }
    wp_hex_encode(random, sizeof(random), sessions->entries[oldest].id);
    sessions->entries[oldest].used = ++sessions->tick;
    return sessions->entries[oldest].id;
}

bool
wp_mcp_session_touch(struct wp_mcp_sessions *sessions, const char *id)
{
    size_t i = session_find(sessions, id);

    if (i == WP_MCP_SESSIONS_MAX) {
        return false;
    }
    sessions->entries[i].used = ++sessions->tick;
    return true;
}

bool
wp_mcp_session_end(struct wp_mcp_sessions *sessions, const char *id)
{
    size_t i = session_find(sessions, id);

    if (i == WP_MCP_SESSIONS_MAX) {
        return false;
    }
    sessions->entries[i].id[0] = '\0';
    sessions->entries[i].used = 0;
    return true;
}

/* --------------------------------------------------------------- answers */

static void
rpc_error(struct wp_http_req *req, int status, const char *text)
{
    wp_http_reply_json(req, status,
                       wp_mcp_error(NULL, WP_MCP_INVALID_REQUEST, text));
}

static void
reply_as_event(struct wp_http_req *req, int status, json_t *body)
{
    char *text = json_dumps(body, JSON_COMPACT);
    char *event = NULL;
    int len = -1;

    json_decref(body);
    if (text != NULL) {
        len = asprintf(&event, "event: message\ndata: %s\n\n", text);
    }
    free(text);
    if (len < 0) {
        wp_http_reply_json(req, 500, NULL);
        return;
    }
    wp_http_add_header(req, "Cache-Control", "no-cache");
    wp_http_reply(req, status, "text/event-stream", event, (size_t)len);
    free(event);
}

static void
on_reply(void *user, const struct wp_mcp_reply *reply)
{
    struct post *post = user;
    struct wp_http_req *req = post->req;

    if (req ==
        NULL) { /* The client has left; the work was done all the same. */
        json_decref(reply->body);
        free(post);
        return;
    }
    wp_http_set_user(req, NULL);
    if (reply->initialized) {
        const char *id = wp_mcp_session_begin(&post->mcp->sessions);

        if (id != NULL) {
            wp_http_add_header(req, "Mcp-Session-Id", id);
        }
    }
    if (reply->http_status == 202) {
        wp_http_reply(req, 202, NULL, NULL, 0);
    } else if (post->as_events && reply->body != NULL) {
        reply_as_event(req, reply->http_status, reply->body);
    } else {
        wp_http_reply_json(req, reply->http_status, reply->body);
    }
    free(post);
}

/* --------------------------------------------------------------- methods */

/* Both false: the client takes neither. */
struct accepts {
    bool json;
    bool events;
};

static struct accepts
accepts_of(const char *header)
{
    struct accepts accepts;

    if (header == NULL || strstr(header, "*/*") != NULL) {
        return (struct accepts){true, true};
    }
    accepts.json = strcasestr(header, "application/json") != NULL ||
                   strcasestr(header, "application/*") != NULL;
    accepts.events = strcasestr(header, "text/event-stream") != NULL ||
                     strcasestr(header, "text/*") != NULL;
    return accepts;
}

/* Checks the headers of a POST; false when it was answered. */
static bool
post_headers_good(struct wp_http_req *req, struct wp_mcp *mcp,
                  struct accepts accepts)
{
    const char *type = wp_http_header(req, "Content-Type");
    const char *version = wp_http_header(req, "MCP-Protocol-Version");
    const char *session = wp_http_header(req, "Mcp-Session-Id");

    if (type != NULL && strncasecmp(type, "application/json", 16) != 0) {
        rpc_error(req, 415, "Content-Type must be application/json");
    } else if (!accepts.json && !accepts.events) {
        rpc_error(req, 406,
                  "Accept must allow application/json or text/event-stream");
    } else if (version != NULL && !wp_mcp_version_known(version)) {
        rpc_error(req, 400, "MCP-Protocol-Version: not a supported revision");
    } else if (session != NULL &&
               !wp_mcp_session_touch(&mcp->sessions, session)) {
        rpc_error(req, 404, "session not found");
    }
    return !wp_http_replied(req);
}

static void
post_ready(struct wp_http_req *req)
{
    struct wp_mcp *mcp = wp_runtime_of(req)->mcp;
    const char *version = wp_http_header(req, "MCP-Protocol-Version");
    struct accepts accepts = accepts_of(wp_http_header(req, "Accept"));
    struct post *post;
    const char *text;
    size_t len;

    if (!post_headers_good(req, mcp, accepts)) {
        return;
    }
    post = malloc(sizeof(*post));
    if (post == NULL) {
        wp_http_reply_json(req, 500, NULL);
        return;
    }
    *post = (struct post){req, mcp, !accepts.json};
    wp_http_set_user(req, post);
    text = wp_http_body(req, &len);
    wp_mcp_rpc_handle(&mcp->tools, text, len,
                      version == NULL || wp_mcp_version_has_batch(version),
                      on_reply, post);
}

static void
delete_ready(struct wp_http_req *req)
{
    struct wp_mcp *mcp = wp_runtime_of(req)->mcp;
    const char *session = wp_http_header(req, "Mcp-Session-Id");

    if (session == NULL) {
        rpc_error(req, 400, "Mcp-Session-Id is required");
    } else if (!wp_mcp_session_end(&mcp->sessions, session)) {
        rpc_error(req, 404, "session not found");
    } else {
        wp_http_reply(req, 204, NULL, NULL, 0);
    }
}

static void
mcp_ready(struct wp_http_req *req)
{
    const char *method = wp_http_method(req);

    if (strcmp(method, "POST") == 0) {
        post_ready(req);
    } else if (strcmp(method, "DELETE") == 0) {
        delete_ready(req);
    } else {
        wp_http_add_header(req, "Allow", "POST, DELETE");
        rpc_error(req, 405, "only POST and DELETE are served here");
    }
}

static void
mcp_gone(struct wp_http_req *req)
{
    struct post *post = wp_http_user(req);

    if (post != NULL) {
        post->req = NULL;
    }
}

/* write_file carries a file's content in its JSON. */
const struct wp_http_ops wp_mcp_ops = {
    .body_max = 32U << 20,
    .ready = mcp_ready,
    .gone = mcp_gone,
};

struct wp_mcp *
wp_mcp_create(struct wp_runtime *runtime)
{
    struct wp_mcp *mcp = calloc(1, sizeof(*mcp));
    char *skills = wp_skills_list(runtime->options.skills_dir);

    if (mcp != NULL && skills != NULL) {
        mcp->tools.list = wp_mcp_tools_describe(skills);
        mcp->tools.call = wp_mcp_tools_call;
        mcp->tools.app = runtime;
    }
    free(skills);
    if (mcp != NULL && mcp->tools.list == NULL) {
        free(mcp);
        return NULL;
    }
    return mcp;
}

void
wp_mcp_destroy(struct wp_mcp *mcp)
{
    if (mcp != NULL) {
        json_decref(mcp->tools.list);
        free(mcp);
    }
}
