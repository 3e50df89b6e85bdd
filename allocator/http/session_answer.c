#include "allocator/http/session_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "allocator/http/http_claim.h"

enum {
    HOST_MAX = 255, /* Bytes of a Host header. */
    URL_MAX = 1024, /* Of the setting, and the path. */
};

void
wp_session_end(struct wp_session_call *call)
{
    struct wp_sessions *sessions = call->sessions;

    if (call->req != NULL) {
        wp_http_set_user(call->req, NULL);
    }
    wp_list_remove(&call->node);
    sessions->n_calls--;
    free(call);
}

void
wp_session_error(struct wp_session_call *call, int status, const char *what,
                 const char *why)
{
    if (call->req != NULL) {
        wp_http_reply_error(call->req, status, "%s: %s", what, why);
    }
    wp_session_end(call);
}

static void
answer_json(struct wp_session_call *call, json_t *body)
{
    char *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;

    json_decref(body);
    if (text == NULL) {
        wp_session_error(call, 500, "Failed to answer", "out of memory");
        return;
    }
    if (call->req != NULL) {
        wp_http_add_header(call->req, "Cache-Control", "no-store");
        wp_http_reply(call->req, 200, "application/json", text, strlen(text));
    }
    free(text);
    wp_session_end(call);
}

void
wp_session_deleted(struct wp_session_call *call)
{
    answer_json(call, json_pack("{s:{},s:s,s:b}", "data", "message",
                                "Session deleted successfully", "error", 0));
}

void
wp_session_none(struct wp_session_call *call)
{
    if (call->req != NULL) {
        wp_http_reply_error(call->req, 404, "No sandbox found for session");
    }
    wp_session_end(call);
}

/* The Host that the client has used; it alone is told what it has said. */
static const char *
host_of(const struct wp_session_call *call)
{
    const char *host = wp_http_header(call->req, "Host");

    if (host == NULL || host[0] == '\0' || strlen(host) > HOST_MAX ||
        host[strspn(host, "abcdefghijklmnopqrstuvwxyz"
                          "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]")] !=
            '\0') {
        return "localhost";
    }
    return host;
}

static void
put_url(const struct wp_session_call *call, const char *sandbox,
        const char *endpoint, char *out, size_t cap)
{
    const struct wp_sessions_config *config = &call->sessions->config;

    if (config->direct) {
        (void)snprintf(out, cap, "http://%s%s", endpoint, config->path);
    } else if (config->url[0] != '\0') {
        (void)snprintf(out, cap, "%s/sandboxes/%s%s", config->url, sandbox,
                       config->path);
    } else {
        (void)snprintf(out, cap, "%s://%s/sandboxes/%s%s",
                       call->is_tls ? "https" : "http", host_of(call), sandbox,
                       config->path);
    }
}

/* What opens the URL: the lease's token to the daemon, the sandbox's own token
 * to the sandbox; nothing where nothing is needed, or known. False: no memory.
 */
static bool
add_headers(const struct wp_session_call *call, const uint8_t *token,
            json_t *body)
{
    const struct wp_sessions_config *config = &call->sessions->config;
    char text[2 * WP_TOKEN_LEN + 1];
    char sandbox_token[WP_SANDBOX_TOKEN_TEXT + 1] = "";
    json_t *headers;

    if (config->direct) {
        if (config->sandbox_token != NULL) {
            config->sandbox_token(config->ctx, &call->info, sandbox_token);
        }
        if (sandbox_token[0] == '\0') {
            return true;
        }
        headers = json_pack("{s:s}", WP_SANDBOX_TOKEN_FIELD, sandbox_token);
    } else if (token != NULL) {
        wp_hex_encode(token, WP_TOKEN_LEN, text);
        headers = json_pack("{s:s++}", "Authorization", "Bearer ", text, "");
    } else {
        return true;
    }
    return json_object_set_new(body, "headers", headers) == 0;
}

void
wp_session_sandbox(struct wp_session_call *call, const uint8_t *token,
                   bool ready)
{
    const struct wp_claim_info *info = &call->info;
    char url[URL_MAX + HOST_MAX + WP_SANDBOX_NAME_MAX] = "";
    json_t *body;

    if (call->req == NULL) {
        wp_session_end(call);
        return;
    }
    if (ready) {
        put_url(call, info->sandbox, info->endpoint, url, sizeof url);
    }
    body =
        json_pack("{s:s,s:s,s:s,s:b}", "sandbox_id", info->sandbox, "mcp_url",
                  url, "protocol", "streamable-http", "ready", ready ? 1 : 0);
    if (body != NULL && ready && !add_headers(call, token, body)) {
        json_decref(body);
        body = NULL;
    }
    answer_json(call, body);
}

const char *
wp_session_what_failed(const struct wp_session_call *call)
{
    return call->kind == WP_SESSION_POST     ? "Failed to create sandbox"
           : call->kind == WP_SESSION_DELETE ? "Failed to delete session"
                                             : "Failed to get sandbox";
}

void
wp_session_refusal(struct wp_session_call *call, enum wp_status status,
                   const char *reason, int64_t retry_after_ns)
{
    if (call->req != NULL) {
        wp_http_refuse_claim(call->req, status, wp_session_what_failed(call),
                             reason, retry_after_ns);
    }
    wp_session_end(call);
}
