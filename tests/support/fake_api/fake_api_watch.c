/* Watches: each has its place in the history. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/compiler.h"
#include "tests/support/fake_api/fake_api_impl.h"

static void
send_event(struct fake_conn *conn, const char *type, const json_t *object)
{
    json_t *event = json_pack("{s:s,s:O}", "type", type, "object", object);
    char *text = json_dumps(event, JSON_COMPACT);
    size_t len;

    fake_must(text != NULL, "memory");
    len = strlen(text);
    text[len] = '\n'; /* In the place of the terminator. */
    fake_conn_chunk(conn, text, len + 1);
    free(text);
    json_decref(event);
}

static void
send_bookmark(struct fake_conn *conn)
{
    const struct wp_kind_info *info =
        wp_kind_info((enum wp_kind)conn->request.kind);
    char version[24];
    json_t *object;

    (void)snprintf(version, sizeof version, "%llu",
                   (unsigned long long)conn->api->version);
    object = json_pack("{s:s,s:s,s:{s:s,s:n}}", "kind", info->kind,
                       "apiVersion", info->api_version, "metadata",
                       "resourceVersion", version, "creationTimestamp");
    send_event(conn, "BOOKMARK", object);
    json_decref(object);
}

static struct timeval
after_ms(int64_t ms)
{
    return (struct timeval){.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
}

static void
on_bookmark(evutil_socket_t fd, short what, void *arg)
{
    struct fake_conn *conn = arg;

    (void)fd;
    (void)what;
    if (conn->api->version >= conn->watch.after) {
        send_bookmark(conn);
    }
}

void
fake_watch_end(struct fake_conn *conn)
{
    if (conn->watch.bookmark != NULL) {
        event_free(conn->watch.bookmark);
    }
    if (conn->watch.timeout != NULL) {
        event_free(conn->watch.timeout);
    }
    free(conn->watch.labels);
    free(conn->watch.fields);
    memset(&conn->watch, 0, sizeof conn->watch);
    conn->watching = false;
}

static void
on_timeout(evutil_socket_t fd, short what, void *arg)
{
    struct fake_conn *conn = arg;

    (void)fd;
    (void)what;
    if (!conn->stalled) {
        fake_watch_end(conn);
        fake_conn_stream_end(conn);
    }
}

static void
send_error(struct fake_conn *conn, int code, const char *reason,
           const char *message)
{
    struct fake_answer answer = fake_status(code, reason, message);

    send_event(conn, "ERROR", answer.object);
    json_decref(answer.object);
}

static struct event *
timer(struct fake_conn *conn, event_callback_fn run, short flags, int64_t ms)
{
    struct timeval after = after_ms(ms);
    struct event *event = event_new(conn->api->base, -1, flags, run, conn);

    fake_must(event != NULL && event_add(event, &after) == 0, "timer");
    return event;
}

/* Where in the history it begins; false when it was refused. */
static bool
watch_from(struct fake_conn *conn, const char *text)
{
    static const char gone[] = "too old resource version";
    struct fake_api *api = conn->api;
    uint64_t version = strtoull(text, NULL, 10);

    if (version > api->version && api->options.future_silent) {
        fake_conn_stream_begin(conn);
        conn->watch.next = api->history_len;
        conn->watch.after = version;
        return true;
    }
    if (version > api->version) {
        fake_conn_reply(
            conn, fake_status(504, "Timeout", "Too large resource version"));
        return false;
    }
    if (version < api->compacted && !api->options.gone_as_event) {
        fake_conn_reply(conn, fake_status(410, "Expired", gone));
        return false;
    }
    fake_conn_stream_begin(conn);
    if (version < api->compacted) {
        send_error(conn, 410, "Expired", gone);
        fake_conn_stream_end(conn);
        return false;
    }
    conn->watch.next = api->history_len;
    while (conn->watch.next > 0 &&
           api->history[conn->watch.next - 1].version > version) {
        conn->watch.next--;
    }
    return true;
}

/* Without a version: all there is first. */
static void
send_all(struct fake_conn *conn)
{
    json_t *all = fake_sorted(conn->api, conn->request.kind, conn->request.ns,
                              conn->watch.labels, conn->watch.fields);
    size_t i;
    json_t *object;

    conn->watch.next = conn->api->history_len;
    fake_conn_stream_begin(conn);
    json_array_foreach(all, i, object)
    {
        send_event(conn, "ADDED", object);
    }
    json_decref(all);
}

void
fake_watch_begin(struct fake_conn *conn)
{
    struct fake_api *api = conn->api;
    char text[512];
    char version[24];
    int64_t timeout_s;

    (void)fake_query(&conn->request, "labelSelector", text, sizeof text);
    conn->watch.labels = strdup(text);
    (void)fake_query(&conn->request, "fieldSelector", text, sizeof text);
    conn->watch.fields = strdup(text);
    (void)fake_query(&conn->request, "allowWatchBookmarks", text, sizeof text);
    conn->watch.bookmarks = strcmp(text, "true") == 0;
    (void)fake_query(&conn->request, "timeoutSeconds", text, sizeof text);
    timeout_s = strtol(text, NULL, 10);
    if (fake_query(&conn->request, "resourceVersion", version,
                   sizeof version) &&
        version[0] != '\0' && strcmp(version, "0") != 0) {
        if (!watch_from(conn, version)) {
            free(conn->watch.labels);
            free(conn->watch.fields);
            memset(&conn->watch, 0, sizeof conn->watch);
            return;
        }
    } else {
        send_all(conn);
    }
    conn->watching = true;
    if (conn->watch.bookmarks) {
        conn->watch.bookmark = timer(
            conn, on_bookmark, EV_PERSIST,
            api->options.bookmark_ms > 0 ? api->options.bookmark_ms : 60000);
    }
    conn->watch.timeout =
        timer(conn, on_timeout, 0, timeout_s > 0 ? timeout_s * 1000 : 1800000);
    fake_watch_pump(conn);
}

/* As this watch sees it: an object that begins to match comes, one that does so
 * no more goes. */
static void
send_change(struct fake_conn *conn, const struct fake_event *event)
{
    const struct fake_watch *watch = &conn->watch;
    const char *ns = conn->request.ns;
    bool was = fake_selects(event->before, ns, watch->labels, watch->fields);
    bool is = strcmp(event->type, "DELETED") != 0 &&
              fake_selects(event->object, ns, watch->labels, watch->fields);

    if (is) {
        send_event(conn, was ? "MODIFIED" : "ADDED", event->object);
    } else if (was) {
        send_event(conn, "DELETED", event->object);
    }
}

void
fake_watch_pump(struct fake_conn *conn)
{
    struct fake_api *api = conn->api;

    while (conn->watch.next < api->history_len) {
        const struct fake_event *event = &api->history[conn->watch.next++];

        if (event->kind == conn->request.kind &&
            event->version > conn->watch.after) {
            send_change(conn, event);
        }
    }
}

void
fake_watch_pump_all(struct fake_api *api)
{
    WP_LIST_FOREACH (node, &api->conns) {
        struct fake_conn *conn = WP_CONTAINER_OF(node, struct fake_conn, node);

        if (conn->watching) {
            fake_watch_pump(conn);
        }
    }
}

void
fake_watch_half_line(struct fake_conn *conn)
{
    static const char half[] = "{\"type\":\"ADDED\",\"object\":{\"metadata\":"
                               "{\"name\":\"hal";

    fake_conn_chunk(conn, half, sizeof half - 1);
}

uint32_t
fake_watches_count(struct fake_api *api, int kind)
{
    uint32_t n = 0;

    WP_LIST_FOREACH (node, &api->conns) {
        struct fake_conn *conn = WP_CONTAINER_OF(node, struct fake_conn, node);

        if (conn->watching && !conn->stalled && !conn->closing &&
            (kind < 0 || conn->request.kind == kind)) {
            n++;
        }
    }
    return n;
}

static void
act_on(struct fake_conn *conn, enum fake_watch_act act, const char *bytes)
{
    switch (act) {
    case FAKE_WATCH_CLOSE:
        fake_watch_end(conn);
        fake_conn_stream_end(conn);
        break;
    case FAKE_WATCH_CUT:
        fake_watch_half_line(conn);
        fake_watch_end(conn);
        conn->closing = true;
        break;
    case FAKE_WATCH_STALL:
        conn->stalled = true;
        break;
    case FAKE_WATCH_SEND:
        fake_conn_chunk(conn, bytes, strlen(bytes));
        break;
    }
}

uint32_t
fake_watches_act(struct fake_api *api, int kind, enum fake_watch_act act,
                 const char *bytes)
{
    uint32_t n = 0;

    WP_LIST_FOREACH (node, &api->conns) {
        struct fake_conn *conn = WP_CONTAINER_OF(node, struct fake_conn, node);

        if (conn->watching && !conn->stalled &&
            (kind < 0 || conn->request.kind == kind)) {
            act_on(conn, act, bytes);
            n++;
        }
    }
    return n;
}
