/* See h2_session_rig.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/support/base/journal.h"
#include "tests/unit/proto/h2/h2_session_rig.h"

struct session_rig rig;

void __wrap_wp_h2_conn_touch(struct wp_h2_conn *at);
int __wrap_nghttp2_session_callbacks_new(nghttp2_session_callbacks **out);
int __real_nghttp2_session_callbacks_new(nghttp2_session_callbacks **out);
int __wrap_nghttp2_option_new(nghttp2_option **out);
int __real_nghttp2_option_new(nghttp2_option **out);
int __wrap_nghttp2_session_server_new3(nghttp2_session **out,
                                       const nghttp2_session_callbacks *calls,
                                       void *user, const nghttp2_option *option,
                                       nghttp2_mem *mem);
int __real_nghttp2_session_server_new3(nghttp2_session **out,
                                       const nghttp2_session_callbacks *calls,
                                       void *user, const nghttp2_option *option,
                                       nghttp2_mem *mem);
int __wrap_nghttp2_submit_settings(nghttp2_session *session, uint8_t flags,
                                   const nghttp2_settings_entry *entries,
                                   size_t n);
int __real_nghttp2_submit_settings(nghttp2_session *session, uint8_t flags,
                                   const nghttp2_settings_entry *entries,
                                   size_t n);
int __wrap_nghttp2_session_set_local_window_size(nghttp2_session *session,
                                                 uint8_t flags, int32_t id,
                                                 int32_t size);
int __real_nghttp2_session_set_local_window_size(nghttp2_session *session,
                                                 uint8_t flags, int32_t id,
                                                 int32_t size);
ssize_t __wrap_nghttp2_session_mem_recv(nghttp2_session *session,
                                        const uint8_t *bytes, size_t len);
ssize_t __real_nghttp2_session_mem_recv(nghttp2_session *session,
                                        const uint8_t *bytes, size_t len);
ssize_t __wrap_nghttp2_session_mem_send(nghttp2_session *session,
                                        const uint8_t **data);
ssize_t __real_nghttp2_session_mem_send(nghttp2_session *session,
                                        const uint8_t **data);
int __wrap_nghttp2_session_set_stream_user_data(nghttp2_session *session,
                                                int32_t id, void *data);
int __real_nghttp2_session_set_stream_user_data(nghttp2_session *session,
                                                int32_t id, void *data);
void __wrap_nghttp2_session_callbacks_del(nghttp2_session_callbacks *of);
void __real_nghttp2_session_callbacks_del(nghttp2_session_callbacks *of);
void __wrap_nghttp2_option_del(nghttp2_option *option);
void __real_nghttp2_option_del(nghttp2_option *option);
int __wrap_nghttp2_submit_rst_stream(nghttp2_session *session, uint8_t flags,
                                     int32_t id, uint32_t code);
int __real_nghttp2_submit_rst_stream(nghttp2_session *session, uint8_t flags,
                                     int32_t id, uint32_t code);
enum wp_peer_verdict
__wrap_wp_peer_limits_begin_call(struct wp_peer_limits *limits,
                                 struct wp_peer_ticket ticket);
void __wrap_wp_peer_limits_end_call(struct wp_peer_limits *limits,
                                    struct wp_peer_ticket ticket);
int __wrap_munmap(void *at, size_t len);
int __real_munmap(void *at, size_t len);
void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd,
                  off_t offset);
void *__real_mmap(void *at, size_t len, int prot, int flags, int fd,
                  off_t offset);

void
__wrap_wp_h2_conn_touch(struct wp_h2_conn *at)
{
    assert_ptr_equal(at, rig.conn);
    journal(" touch");
}

/* ------------------------------------------------ what fails of the library */

void
rig_fail(const char *function, unsigned nth, int with)
{
    rig.failing = function;
    rig.fails_in = nth;
    rig.fails_with = with;
}

static bool
fails(const char *function)
{
    return rig.failing != NULL && strcmp(rig.failing, function) == 0 &&
           rig.fails_in > 0 && --rig.fails_in == 0;
}

int
__wrap_nghttp2_session_callbacks_new(nghttp2_session_callbacks **out)
{
    if (fails("callbacks")) {
        return rig.fails_with;
    }
    rig.made++;
    return __real_nghttp2_session_callbacks_new(out);
}

int
__wrap_nghttp2_option_new(nghttp2_option **out)
{
    if (fails("option")) {
        return rig.fails_with;
    }
    rig.made++;
    return __real_nghttp2_option_new(out);
}

/* Like the library's: what it leaves there on failure is not to be used. */
int
__wrap_nghttp2_session_server_new3(nghttp2_session **out,
                                   const nghttp2_session_callbacks *calls,
                                   void *user, const nghttp2_option *option,
                                   nghttp2_mem *mem)
{
    if (fails("session")) {
        *out = (nghttp2_session *)(void *)rig.in;
        return rig.fails_with;
    }
    return __real_nghttp2_session_server_new3(out, calls, user, option, mem);
}

int
__wrap_nghttp2_submit_settings(nghttp2_session *session, uint8_t flags,
                               const nghttp2_settings_entry *entries, size_t n)
{
    return fails("settings")
               ? rig.fails_with
               : __real_nghttp2_submit_settings(session, flags, entries, n);
}

int
__wrap_nghttp2_session_set_local_window_size(nghttp2_session *session,
                                             uint8_t flags, int32_t id,
                                             int32_t size)
{
    return fails("window") ? rig.fails_with
                           : __real_nghttp2_session_set_local_window_size(
                                 session, flags, id, size);
}

ssize_t
__wrap_nghttp2_session_mem_recv(nghttp2_session *session, const uint8_t *bytes,
                                size_t len)
{
    return fails("receive")
               ? rig.fails_with
               : __real_nghttp2_session_mem_recv(session, bytes, len);
}

ssize_t
__wrap_nghttp2_session_mem_send(nghttp2_session *session, const uint8_t **data)
{
    return fails("send") ? rig.fails_with
                         : __real_nghttp2_session_mem_send(session, data);
}

int
__wrap_nghttp2_session_set_stream_user_data(nghttp2_session *session,
                                            int32_t id, void *data)
{
    if (rig.tells) {
        journal(" %s(%d)", data != NULL ? "keep" : "forget", id);
    }
    return fails("user data")
               ? rig.fails_with
               : __real_nghttp2_session_set_stream_user_data(session, id, data);
}

void *
__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
    if (fails("mmap")) {
        errno = rig.fails_with;
        return MAP_FAILED;
    }
    rig.mapped++;
    return __real_mmap(at, len, prot, flags, fd, offset);
}

int
__wrap_munmap(void *at, size_t len)
{
    rig.mapped--;
    return __real_munmap(at, len);
}

void
__wrap_nghttp2_session_callbacks_del(nghttp2_session_callbacks *of)
{
    rig.made -= of != NULL;
    __real_nghttp2_session_callbacks_del(of);
}

void
__wrap_nghttp2_option_del(nghttp2_option *option)
{
    rig.made -= option != NULL;
    __real_nghttp2_option_del(option);
}

int
__wrap_nghttp2_submit_rst_stream(nghttp2_session *session, uint8_t flags,
                                 int32_t id, uint32_t code)
{
    if (rig.tells) {
        journal(" reset(%d, %u)", id, code);
    }
    return __real_nghttp2_submit_rst_stream(session, flags, id, code);
}

/* The bounds of calls: every second is admitted. */
enum wp_peer_verdict
__wrap_wp_peer_limits_begin_call(struct wp_peer_limits *limits,
                                 struct wp_peer_ticket ticket)
{
    assert_ptr_equal(limits, rig.server.limits);
    journal(" begin-call(%u, %u)", ticket.entry, ticket.share);
    return ticket.entry % 2 == 0 ? WP_PEER_ADMITTED : WP_PEER_OVER_ALL;
}

void
__wrap_wp_peer_limits_end_call(struct wp_peer_limits *limits,
                               struct wp_peer_ticket ticket)
{
    assert_ptr_equal(limits, rig.server.limits);
    journal(" end-call(%u, %u)", ticket.entry, ticket.share);
}

/* ------------------------------------------------------------- the handler */

static void
on_init(void *ctx, struct wp_h2_stream *stream)
{
    assert_ptr_equal(ctx, &rig.server);
    journal(" init(%d)", (int)((char *)stream - rig.worker.streams));
}

static void
on_header(void *ctx, void *request, struct wp_str name, struct wp_str value)
{
    assert_ptr_equal(ctx, &rig.server);
    *(unsigned char *)request += 1;
    journal(" %.*s=%.20s(%zu)", WP_STR_ARG(name), value.ptr, value.len);
}

static void
on_request(void *ctx, struct wp_h2_conn *of, int32_t id, const void *request,
           bool too_long)
{
    static const struct wp_h2_field no[] = {{LIT(":status"), LIT("404")}};

    assert_ptr_equal(ctx, &rig.server);
    journal(" request(%d %d of %u%s)", id, of == rig.conn,
            *(const unsigned char *)request, too_long ? " too long" : "");
    if (rig.refuses) {
        wp_h2_conn_refuse(of, id, no, 1);
        return;
    }
    rig.last = wp_h2_stream_open(of, id);
    if (rig.last == NULL) {
        journal(" full");
    }
}

static void
on_data(struct wp_h2_stream *stream, const uint8_t *bytes, size_t len)
{
    journal(" data(%d ", stream->id);
    journal_bytes((const char *)bytes, len);
    journal(")");
}

static void
on_ended(struct wp_h2_stream *stream)
{
    journal(" ended(%d)", stream->id);
}

static void
on_closed(struct wp_h2_stream *stream)
{
    journal(" closed(%d%s)", stream->id, stream->answered ? " answered" : "");
    assert_null(stream->conn);
    wp_h2_stream_free(stream);
}

static void
on_sent(struct wp_h2_stream *stream)
{
    journal(" sent(%d)", stream->id);
}

static size_t
on_trailers(struct wp_h2_stream *stream,
            struct wp_h2_field fields[WP_H2_FIELDS_MAX])
{
    journal(" trailers(%d)", stream->id);
    fields[0] = (struct wp_h2_field){WP_STR("end"), WP_STR("well")};
    return 1;
}

/* ---------------------------------------------------------------- the rig */

/* A new connection in place of the one that has ended. */
void
rig_anew(void)
{
    memset(rig.conn, 0, sizeof *rig.conn);
    rig.conn->server = &rig.server;
    rig.conn->worker = &rig.worker;
    rig.conn->fd = -1;
    wp_list_init(&rig.conn->streams);
}

int
rig_begin(void **state)
{
    struct wp_err err;

    (void)state;
    rig.failing = NULL;
    rig.made = rig.mapped = 0;
    memset(&rig.server, 0, sizeof rig.server);
    memset(&rig.worker, 0, sizeof rig.worker);
    rig.server.handler = (struct wp_h2_handler){
        .ctx = &rig.server,
        .stream_size = sizeof(struct wp_h2_stream),
        .init = on_init,
        .header = on_header,
        .request = on_request,
        .data = on_data,
        .ended = on_ended,
        .closed = on_closed,
        .sent = on_sent,
        .trailers = on_trailers,
        .head = {{LIT(":status"), LIT("200")}, {LIT("x"), LIT("head")}},
        .n_head = 2,
    };
    rig.server.config.streams_per_connection_max = 3;
    rig.server.config.metadata_bytes_max = RIG_METADATA_MAX;
    rig.worker.server = &rig.server;
    rig.server.limits = (struct wp_peer_limits *)(void *)rig.in;
    assert_int_equal(wp_h2_session_set_up(&rig.server, &err), WP_OK);
    assert_int_equal(wp_h2_stream_pool_create(&rig.worker, RIG_STREAMS, &err),
                     WP_OK);
    rig.conn = calloc(1, sizeof *rig.conn);
    assert_non_null(rig.conn);
    rig_anew();
    rig.last = NULL;
    rig.refuses = false;
    rig.tells = false;
    rig.in_len = 0;
    journal_drop();
    return 0;
}

int
rig_end(void **state)
{
    (void)state;
    wp_h2_session_end(rig.conn);
    free(rig.conn);
    wp_h2_stream_pool_destroy(&rig.worker);
    wp_h2_memory_free(&rig.worker.memory);
    wp_h2_session_tear_down(&rig.server);
    assert_int_equal(rig.made, 0);
    assert_int_equal(rig.mapped, 0);
    return 0;
}

void
rig_put(const void *bytes, size_t len)
{
    assert_true(rig.in_len + len <= sizeof rig.in);
    memcpy(rig.in + rig.in_len, bytes, len);
    rig.in_len += len;
}

void
rig_frame(uint8_t type, uint8_t flags, uint32_t id, const void *payload,
          size_t len)
{
    const uint8_t head[] = {(uint8_t)(len >> 16),
                            (uint8_t)(len >> 8),
                            (uint8_t)len,
                            type,
                            flags,
                            (uint8_t)(id >> 24),
                            (uint8_t)(id >> 16),
                            (uint8_t)(id >> 8),
                            (uint8_t)id};

    rig_put(head, sizeof head);
    rig_put(payload, len);
}

/* What is known of the connection, once bytes were said and written. */
void
rig_show(void)
{
    uint8_t *out = rig.worker.out;
    size_t n = wp_h2_session_produce(rig.conn, out, WP_H2_WRITE_SIZE);

    journal(" | tokens %lld unknown %lld%s%s", (long long)rig.conn->tokens_x,
            (long long)rig.conn->unknown, rig.conn->doomed ? " doomed" : "",
            rig.conn->pinged ? " pinged" : "");
    if (rig.conn->doomed) {
        journal(" %u", rig.conn->doom);
    }
    /* Whole frames, each with its head and, when it is short, all of it. */
    for (size_t at = 0; at + 9 <= n;) {
        size_t len = (size_t)out[at] << 16 | (size_t)out[at + 1] << 8 |
                     (size_t)out[at + 2];

        /* What a GOAWAY says beyond its code are the library's words. */
        size_t shown = out[at + 3] == NGHTTP2_GOAWAY ? 8 : len;

        journal(" <%zu type %u flags %u stream %u:", shown, out[at + 3],
                out[at + 4], out[at + 8]);
        for (size_t i = 0; i < shown && i < 40; i++) {
            journal("%02x", out[at + 9 + i]);
        }
        journal(">");
        at += 9 + len;
    }
    if (wp_h2_stream_tell_sent(&rig.worker)) {
        journal(" told");
    }
    journal_line();
}

void
rig_say(const char *what)
{
    bool good;

    journal("= %s:", what);
    good = wp_h2_session_receive(rig.conn, rig.in, rig.in_len);
    rig.in_len = 0;
    journal("%s", good ? "" : " bad");
    rig_show();
}

void
rig_hello(void)
{
    rig_put("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
    rig_frame(NGHTTP2_SETTINGS, 0, 0, "", 0);
    rig_say("hello");
}

void
rig_put_ask(uint32_t id, bool ends)
{
    rig_frame(NGHTTP2_HEADERS,
              NGHTTP2_FLAG_END_HEADERS | (ends ? NGHTTP2_FLAG_END_STREAM : 0),
              id, RIG_GET, sizeof RIG_GET - 1);
}

void
rig_ask(uint32_t id, bool ends)
{
    rig_put_ask(id, ends);
    rig_say("ask");
}
