/* HTTP/1.1, one request at a time, with answers that can be made wrong. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pool/base/clock.h"
#include "pool/base/str.h"
#include "tests/support/fake_api/fake_api_impl.h"

enum {
    HEAD_MAX = 64 << 10,
    BODY_MAX = 8 << 20,
};

static void read_request(struct fake_conn *conn);

static void
request_free(struct fake_request *request)
{
    free(request->path);
    free(request->query);
    json_decref(request->body);
    memset(request, 0, sizeof *request);
}

void
fake_conn_close(struct fake_conn *conn)
{
    if (conn->watching) {
        fake_watch_end(conn);
    }
    wp_list_remove(&conn->node);
    request_free(&conn->request);
    if (conn->delay != NULL) {
        event_free(conn->delay);
    }
    if (conn->drip != NULL) {
        event_free(conn->drip_timer);
        evbuffer_free(conn->drip);
    }
    bufferevent_free(conn->bev);
    free(conn);
}

/* --- what goes out --- */

static bool
dripping(const struct fake_conn *conn)
{
    return conn->drip != NULL && evbuffer_get_length(conn->drip) > 0;
}

static void
on_drip(evutil_socket_t fd, short what, void *arg)
{
    struct fake_conn *conn = arg;

    (void)fd;
    (void)what;
    (void)evbuffer_remove_buffer(conn->drip, bufferevent_get_output(conn->bev),
                                 conn->drip_bytes);
    read_request(conn);
}

static void
drip_begin(struct fake_conn *conn, const struct fake_fault *fault)
{
    struct timeval each = {
        .tv_sec = fault->ms / 1000,
        .tv_usec = fault->ms % 1000 * 1000,
    };

    if (conn->drip == NULL) {
        conn->drip = evbuffer_new();
        conn->drip_timer =
            event_new(conn->api->base, -1, EV_PERSIST, on_drip, conn);
        fake_must(conn->drip != NULL && conn->drip_timer != NULL, "memory");
    }
    conn->drip_bytes = fault->bytes;
    fake_must(event_add(conn->drip_timer, &each) == 0, "timer");
}

static void
out(struct fake_conn *conn, const char *bytes, size_t len)
{
    struct evbuffer *to =
        conn->drip != NULL ? conn->drip : bufferevent_get_output(conn->bev);

    if (!conn->stalled) {
        fake_must(evbuffer_add(to, bytes, len) == 0, "memory");
    }
}

static void
on_next(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    read_request(arg);
}

static void
log_end(struct fake_conn *conn, int code)
{
    json_t *entry = json_array_get(conn->api->log, conn->log);

    if (entry != NULL && conn->request.verb != 0) {
        (void)json_object_set_new(entry, "code", json_integer(code));
        (void)json_object_set_new(entry, "end_ns", json_integer(fake_now_ns()));
    }
}

/* The next request may come. Not at once: this is deep within the last one. */
static void
request_over(struct fake_conn *conn)
{
    static const struct timeval now = {0};

    request_free(&conn->request);
    conn->busy = false;
    conn->fault = NULL;
    if (conn->delay == NULL) {
        conn->delay = event_new(conn->api->base, -1, 0, on_next, conn);
        fake_must(conn->delay != NULL, "memory");
    }
    (void)event_assign(conn->delay, conn->api->base, -1, 0, on_next, conn);
    fake_must(event_add(conn->delay, &now) == 0, "timer");
}

static void
on_close_now(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    fake_conn_close(arg);
}

/* Closes from the loop, since callers are within this connection's events. */
static void
close_soon(struct fake_conn *conn)
{
    static const struct timeval now = {0};

    conn->busy = true;
    if (conn->delay == NULL) {
        conn->delay = event_new(conn->api->base, -1, 0, on_close_now, conn);
        fake_must(conn->delay != NULL, "memory");
    }
    (void)event_del(conn->delay);
    (void)event_assign(conn->delay, conn->api->base, -1, 0, on_close_now, conn);
    fake_must(event_add(conn->delay, &now) == 0, "timer");
}

static const char *
code_text(int code)
{
    return code < 300 ? "OK" : code == 409 ? "Conflict" : "Refused";
}

static void
send_answer(struct fake_conn *conn, const struct fake_answer *answer)
{
    char *body = answer->object != NULL
                     ? json_dumps(answer->object, JSON_COMPACT)
                     : strdup("{}");
    char head[256];
    char retry[48] = "";
    size_t len;
    int n;

    fake_must(body != NULL, "memory");
    len = strlen(body);
    if (conn->fault != NULL && conn->fault->action == FAKE_MANGLE) {
        len /= 2;
    }
    if (answer->retry_after_s >= 0) {
        (void)snprintf(retry, sizeof retry, "Retry-After: %lld\r\n",
                       (long long)answer->retry_after_s);
    }
    n = snprintf(head, sizeof head,
                 "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\n%s"
                 "Content-Length: %zu\r\n\r\n",
                 answer->code, code_text(answer->code), retry, len);
    out(conn, head, (size_t)n);
    out(conn, body, len);
    free(body);
}

void
fake_conn_reply(struct fake_conn *conn, struct fake_answer answer)
{
    const struct fake_fault *fault = conn->fault;

    log_end(conn, answer.code);
    if (fault != NULL && fault->action == FAKE_HANG) {
        json_decref(answer.object);
        return; /* Busy for good. */
    }
    if (fault != NULL && fault->action == FAKE_DROP_AFTER) {
        json_decref(answer.object);
        close_soon(conn);
        return;
    }
    send_answer(conn, &answer);
    json_decref(answer.object);
    request_over(conn);
}

void
fake_conn_stream_begin(struct fake_conn *conn)
{
    static const char head[] = "HTTP/1.1 200 OK\r\n"
                               "Content-Type: application/json\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n";

    log_end(conn, 200);
    out(conn, head, sizeof head - 1);
}

void
fake_conn_chunk(struct fake_conn *conn, const char *bytes, size_t len)
{
    char head[24];
    int n = snprintf(head, sizeof head, "%zx\r\n", len);

    if (len > 0) {
        out(conn, head, (size_t)n);
        out(conn, bytes, len);
        out(conn, "\r\n", 2);
    }
}

void
fake_conn_stream_end(struct fake_conn *conn)
{
    out(conn, "0\r\n\r\n", 5);
    if (!conn->stalled) {
        request_over(conn);
    }
}

/* --- what comes in --- */

static int
hex(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = strchr(digits, c | 32);

    return c != '\0' && at != NULL ? (int)(at - digits) : -1;
}

/* In place. */
static void
percent_decode(char *text)
{
    char *to = text;

    for (const char *from = text; *from != '\0'; from++) {
        if (*from == '%' && hex(from[1]) >= 0 && hex(from[2]) >= 0) {
            *to++ = (char)(hex(from[1]) * 16 + hex(from[2]));
            from += 2;
        } else {
            *to++ = *from;
        }
    }
    *to = '\0';
}

static void
header(const char *head, const char *name, char *value, size_t cap)
{
    size_t len = strlen(name);

    value[0] = '\0';
    for (const char *line = strstr(head, "\r\n"); line != NULL;
         line = strstr(line + 2, "\r\n")) {
        if (strncasecmp(line + 2, name, len) == 0 && line[2 + len] == ':') {
            const char *from = line + 3 + len;

            from += strspn(from, " ");
            (void)snprintf(value, cap, "%.*s", (int)strcspn(from, "\r"), from);
            return;
        }
    }
}

/* The request's line and headers; false when it is no HTTP/1.1. */
static bool
parse_head(struct fake_request *request, char *head, size_t *body_len)
{
    char length[24];
    char token[64];
    char *target = strchr(head, ' ');
    char *end = target != NULL ? strchr(target + 1, ' ') : NULL;
    char *question;

    header(head, "content-type", request->content_type,
           sizeof request->content_type);
    header(head, "user-agent", request->agent, sizeof request->agent);
    header(head, "authorization", token, sizeof token);
    (void)snprintf(request->token, sizeof request->token, "%s",
                   strncmp(token, "Bearer ", 7) == 0 ? token + 7 : "");
    header(head, "content-length", length, sizeof length);
    *body_len = strtoul(length, NULL, 10);
    if (end == NULL || strncmp(end, " HTTP/1.1\r\n", 11) != 0 ||
        *body_len > BODY_MAX ||
        (size_t)(target - head) >= sizeof request->method) {
        return false;
    }
    *target++ = '\0';
    *end = '\0';
    (void)snprintf(request->method, sizeof request->method, "%s", head);
    question = strchr(target, '?');
    request->query = strdup(question != NULL ? question + 1 : "");
    if (question != NULL) {
        *question = '\0';
    }
    request->path = strdup(target);
    fake_must(request->path != NULL && request->query != NULL, "memory");
    percent_decode(request->path);
    return true;
}

static void
parse_body(struct fake_request *request, const char *body, size_t len)
{
    if (len > 0) {
        request->body = json_loadb(body, len, JSON_ALLOW_NUL, NULL);
        request->bad_body = request->body == NULL;
    }
}

/* True when a whole request was there. */
static bool
take_request(struct fake_conn *conn)
{
    struct evbuffer *in = bufferevent_get_input(conn->bev);
    struct evbuffer_ptr end = evbuffer_search(in, "\r\n\r\n", 4, NULL);
    char *bytes;
    size_t head_len;
    size_t body_len = 0;
    bool whole = false;

    if (end.pos < 0) {
        return false;
    }
    head_len = (size_t)end.pos + 4;
    bytes = calloc(1, head_len + 1);
    fake_must(bytes != NULL, "memory");
    (void)evbuffer_copyout(in, bytes, head_len);
    request_free(&conn->request);
    if (!parse_head(&conn->request, bytes, &body_len)) {
        close_soon(conn);
    } else if (evbuffer_get_length(in) >= head_len + body_len) {
        char *body = calloc(1, body_len + 1);

        fake_must(body != NULL, "memory");
        (void)evbuffer_drain(in, head_len);
        (void)evbuffer_remove(in, body, body_len);
        parse_body(&conn->request, body, body_len);
        free(body);
        whole = true;
    }
    free(bytes);
    return whole;
}

static void
on_delayed(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    fake_route(arg);
}

static void
delay(struct fake_conn *conn, int64_t ms)
{
    struct timeval after = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};

    if (conn->delay == NULL) {
        conn->delay = event_new(conn->api->base, -1, 0, on_delayed, conn);
        fake_must(conn->delay != NULL, "memory");
    }
    (void)event_assign(conn->delay, conn->api->base, -1, 0, on_delayed, conn);
    fake_must(event_add(conn->delay, &after) == 0, "timer");
}

static struct fake_conn *
first_held(const struct fake_api *api)
{
    WP_LIST_FOREACH (node, &api->conns) {
        struct fake_conn *conn = WP_CONTAINER_OF(node, struct fake_conn, node);

        if (conn->held) {
            return conn;
        }
    }
    return NULL;
}

uint32_t
fake_conns_held(const struct fake_api *api)
{
    uint32_t held = 0;

    WP_LIST_FOREACH (node, &api->conns) {
        held += WP_CONTAINER_OF(node, struct fake_conn, node)->held;
    }
    return held;
}

void
fake_conns_let_go(struct fake_api *api)
{
    struct fake_conn *conn;

    while ((conn = first_held(api)) != NULL) {
        conn->held = false;
        fake_route(conn);
    }
}

static void
log_begin(struct fake_conn *conn)
{
    struct fake_api *api = conn->api;
    const struct fake_request *request = &conn->request;
    json_t *entry;

    conn->log = json_array_size(api->log);
    if (request->verb == 0 || conn->log >= FAKE_LOG_MAX) {
        return;
    }
    entry =
        json_pack("{s:I,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:I}", "n",
                  (json_int_t)conn->log, "verb", fake_verb_name(request->verb),
                  "kind", wp_kind_info((enum wp_kind)request->kind)->plural,
                  "ns", request->ns, "name", request->name, "subresource",
                  request->subresource, "agent", request->agent, "token",
                  request->token, "begin_ns", (json_int_t)fake_now_ns());
    fake_must(entry != NULL, "memory");
    if ((request->verb & FAKE_WRITES) != 0 && request->body != NULL) {
        (void)json_object_set_new(entry, "body", json_deep_copy(request->body));
    }
    (void)json_array_append_new(api->log, entry);
}

/* Does what a rule says before anything was done; false: nothing to do. */
static bool
misbehave(struct fake_conn *conn)
{
    const struct fake_fault *fault = conn->fault;
    struct fake_answer answer;

    if (fault == NULL) {
        return false;
    }
    switch (fault->action) {
    case FAKE_STATUS:
        answer = fake_status(fault->code,
                             fault->code == 409   ? "Conflict"
                             : fault->code == 410 ? "Expired"
                             : fault->code == 429 ? "TooManyRequests"
                                                  : "InternalError",
                             "said so by a rule of the test");
        answer.retry_after_s = fault->retry_after_s;
        fake_conn_reply(conn, answer);
        return true;
    case FAKE_DROP_BEFORE:
        close_soon(conn);
        return true;
    case FAKE_DELAY:
        delay(conn, fault->ms);
        return true;
    case FAKE_HOLD:
        conn->held = true;
        return true;
    case FAKE_DRIP:
        drip_begin(conn, fault);
        return false;
    case FAKE_DROP_AFTER:
    case FAKE_HANG:
    case FAKE_MANGLE:
        break;
    }
    return false;
}

static void
read_request(struct fake_conn *conn)
{
    const struct fake_fault *fault;

    if (conn->busy || dripping(conn) || !take_request(conn)) {
        return;
    }
    conn->busy = true;
    fake_request_name(&conn->request);
    log_begin(conn);
    fault = fake_rule_for(conn->api, &conn->request);
    if (fault != NULL) {
        conn->fault_copy = *fault;
        conn->fault = &conn->fault_copy;
    }
    if (!misbehave(conn)) {
        fake_route(conn);
    }
}

static void
on_read(struct bufferevent *bev, void *arg)
{
    (void)bev;
    read_request(arg);
}

static void
on_written(struct bufferevent *bev, void *arg)
{
    struct fake_conn *conn = arg;

    (void)bev;
    if (conn->closing) {
        fake_conn_close(conn);
    }
}

static void
on_event(struct bufferevent *bev, short what, void *arg)
{
    (void)bev;
    (void)what;
    fake_conn_close(arg);
}

void
fake_conn_open(struct fake_api *api, int fd)
{
    struct fake_conn *conn = calloc(1, sizeof *conn);
    int one = 1;

    fake_must(conn != NULL, "memory");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    conn->api = api;
    conn->bev = bufferevent_socket_new(api->base, fd, BEV_OPT_CLOSE_ON_FREE);
    fake_must(conn->bev != NULL, "memory");
    wp_list_push_back(&api->conns, &conn->node);
    bufferevent_setcb(conn->bev, on_read, on_written, on_event, conn);
    bufferevent_setwatermark(conn->bev, EV_READ, 0, HEAD_MAX + BODY_MAX);
    fake_must(bufferevent_enable(conn->bev, EV_READ | EV_WRITE) == 0, "enable");
}
