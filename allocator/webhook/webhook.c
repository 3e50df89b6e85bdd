#include "allocator/webhook/webhook.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/h2/h2.h"
#include "k8s/convert/certificate.h"
#include "k8s/convert/review.h"
#include "pool/base/clock.h"
#include "pool/base/log.h"

enum {
    CALLS_MAX = 4, /* Each may hold a body of WP_REVIEW_BYTES_MAX. */
    CONNECTIONS_MAX = 64,
    PATH_CAP = 4096,
};

struct wp_webhook {
    struct wp_h2_server *h2;
    const char *listen[1]; /* The server borrows it. */
    char cert_path[PATH_CAP];
    char key_path[PATH_CAP];
};

/* What is kept of a header block. */
struct request {
    bool is_post;
    bool is_convert;
};

struct call {
    struct wp_h2_stream stream; /* First. */
    char *body;
    size_t len;
    size_t cap;
    char *answer;
};

static struct call *
from_stream(struct wp_h2_stream *stream)
{
    return WP_CONTAINER_OF(stream, struct call, stream);
}

/* --- A stream's life; its thread --- */

static void
on_init(void *ctx, struct wp_h2_stream *stream)
{
    struct call *call = from_stream(stream);

    (void)ctx;
    call->body = NULL;
    call->answer = NULL;
    call->len = 0;
    call->cap = 0;
}

static bool
on_admit(void *ctx, const struct wp_h2_origin *origin, void *peer)
{
    (void)ctx;
    (void)peer;
    return origin->tls != NULL;
}

static void
on_header(void *ctx, void *scratch, struct wp_str name, struct wp_str value)
{
    struct request *request = scratch;

    (void)ctx;
    if (wp_str_is(name, ":method")) {
        request->is_post = wp_str_is(value, "POST");
    } else if (wp_str_is(name, ":path")) {
        struct wp_str path = WP_STR("/convert");

        /* The API server puts its time limit behind it. */
        request->is_convert =
            wp_str_starts_with(value, path) &&
            (value.len == path.len || value.ptr[path.len] == '?');
    }
}

static void
refuse(struct wp_h2_conn *conn, int32_t id, const char *status)
{
    const struct wp_h2_field field = {WP_STR(":status"), wp_str_from(status)};

    wp_h2_conn_refuse(conn, id, &field, 1);
}

static void
on_request(void *ctx, struct wp_h2_conn *conn, int32_t id, const void *scratch,
           bool too_long)
{
    const struct request *request = scratch;
    struct wp_h2_stream *stream;

    (void)ctx;
    if (too_long) {
        refuse(conn, id, "431");
    } else if (!request->is_convert) {
        refuse(conn, id, "404");
    } else if (!request->is_post) {
        refuse(conn, id, "405");
    } else {
        stream = wp_h2_stream_open(conn, id);
        if (stream == NULL) {
            refuse(conn, id, "503");
        } else if (wp_h2_stream_count(stream) != WP_PEER_ADMITTED) {
            wp_h2_stream_turn_away(stream);
        }
    }
}

static void
on_data(struct wp_h2_stream *stream, const uint8_t *bytes, size_t len)
{
    struct call *call = from_stream(stream);

    if (len > WP_REVIEW_BYTES_MAX - call->len) {
        wp_log_warn("a list is too long to be converted: ask for it in pages",
                    wp_kv_int("bytes_max", WP_REVIEW_BYTES_MAX));
        wp_h2_stream_reset(stream);
        return;
    }
    if (len > call->cap - call->len) {
        size_t cap = call->cap == 0 ? 16384 : call->cap * 2;
        char *body;

        while (cap < call->len + len) {
            cap *= 2;
        }
        body = realloc(call->body, cap);
        if (body == NULL) {
            wp_h2_stream_reset(stream);
            return;
        }
        call->body = body;
        call->cap = cap;
    }
    memcpy(call->body + call->len, bytes, len);
    call->len += len;
}

static void
drop_body(struct call *call)
{
    free(call->body);
    call->body = NULL;
    call->len = 0;
    call->cap = 0;
}

static void
on_ended(struct wp_h2_stream *stream)
{
    struct call *call = from_stream(stream);
    struct wp_err err;
    size_t len = 0;

    call->answer =
        wp_review_answer((struct wp_str){call->body, call->len}, &len, &err);
    drop_body(call);
    if (call->answer == NULL) {
        wp_log_warn("a request for a conversion makes no sense",
                    wp_kv_err(&err));
        wp_h2_stream_reset(stream);
        return;
    }
    wp_h2_stream_send(stream, (const uint8_t *)call->answer, len);
    wp_h2_stream_end(stream);
}

static void
on_closed(struct wp_h2_stream *stream)
{
    struct call *call = from_stream(stream);

    drop_body(call);
    free(call->answer);
    call->answer = NULL;
    wp_h2_stream_free(stream);
}

static void
on_sent(struct wp_h2_stream *stream)
{
    (void)stream;
}

static size_t
no_trailers(struct wp_h2_stream *stream,
            struct wp_h2_field fields[WP_H2_FIELDS_MAX])
{
    (void)stream;
    fields[0] = (struct wp_h2_field){WP_STR("warmpool"), WP_STR("converted")};
    return 1;
}

static void
on_turn(void *ctx, struct wp_h2_worker *worker, bool last)
{
    (void)ctx;
    (void)worker;
    (void)last;
}

/* Nobody sends any. */
static void
on_message(void *ctx, struct wp_linked_message *message)
{
    (void)ctx;
    (void)message;
}

/* --- Its certificate --- */

/* A new file in the old one's place, or nothing. */
static enum wp_status
write_file(const char *path, const char *text, struct wp_err *err)
{
    char temporary[PATH_CAP + 8];
    ssize_t len = (ssize_t)strlen(text);
    bool good = false;
    ssize_t written;
    int fd;

    (void)snprintf(temporary, sizeof temporary, "%s.new", path);
    (void)unlink(temporary);
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
              0600);
    if (fd >= 0) {
        written = write(fd, text, (size_t)len);
        if (written >= 0 && written < len) {
            errno = ENOSPC; /* Only a full disk takes a part. */
        }
        good = close(fd) == 0 && written == len;
    }
    if (!good || rename(temporary, path) != 0) {
        (void)wp_err_sys(err, WP_INTERNAL, errno, "%s", path);
        (void)unlink(temporary);
        return err->status;
    }
    return WP_OK;
}

enum wp_status
wp_webhook_use(struct wp_webhook *self, const char *cert, const char *key,
               struct wp_err *err)
{
    enum wp_status status = write_file(self->key_path, key, err);

    return status == WP_OK ? write_file(self->cert_path, cert, err) : status;
}

static enum wp_status
use_untrusted(struct wp_webhook *self, struct wp_err *err)
{
    static const char *const names[] = {"untrusted.invalid"};
    struct wp_certificate pair;
    enum wp_status status = wp_certificate_make(
        &pair, names, 1, wp_clock_wall_ns(wp_clock_system()) / WP_NS_PER_S,
        err);

    if (status == WP_OK) {
        status = wp_webhook_use(self, pair.cert, pair.key, err);
    }
    wp_certificate_clear(&pair);
    return status;
}

/* --- Life --- */

static enum wp_status
create_server(struct wp_webhook *self, struct wp_err *err)
{
    const struct wp_h2_config config = {
        .listen = self->listen,
        .n_listen = 1,
        .unix_mode = 0600,
        .tls = &wp_h2_tls_by_openssl,
        .tls_cert = self->cert_path,
        .tls_key = self->key_path,
        .threads = 1,
        .streams_per_thread = CALLS_MAX * 4,
        .calls_max = CALLS_MAX,
        .peer_calls_max = CALLS_MAX,
        .connections_max = CONNECTIONS_MAX,
        .peer_connections_max = CONNECTIONS_MAX / 2,
        .streams_per_connection_max = CALLS_MAX,
        .metadata_bytes_max = 16384,
        .keepalive_ns = 60 * WP_NS_PER_S,
        .keepalive_timeout_ns = 20 * WP_NS_PER_S,
        .silent_ns = 10 * WP_NS_PER_S,
    };
    const struct wp_h2_handler handler = {
        .ctx = self,
        .peer_size = 1,
        .stream_size = sizeof(struct call),
        .init = on_init,
        .admit = on_admit,
        .header = on_header,
        .request = on_request,
        .data = on_data,
        .ended = on_ended,
        .closed = on_closed,
        .sent = on_sent,
        .trailers = no_trailers,
        .turn = on_turn,
        .message = on_message,
        .head = {{WP_STR(":status"), WP_STR("200")},
                 {WP_STR("content-type"), WP_STR("application/json")}},
        .n_head = 2,
    };

    self->h2 = wp_h2_server_create(&config, &handler, err);
    return self->h2 != NULL ? WP_OK : err->status;
}

struct wp_webhook *
wp_webhook_create(const char *listen, const char *dir, struct wp_err *err)
{
    struct wp_webhook *self = calloc(1, sizeof *self);
    int n;

    if (self == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    self->listen[0] = listen;
    n = snprintf(self->key_path, sizeof self->key_path, "%s/webhook.key", dir);
    if (n < 0 || (size_t)n >= sizeof self->key_path) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT, "%s: too long", dir);
        wp_webhook_destroy(self);
        return NULL;
    }
    (void)snprintf(self->cert_path, sizeof self->cert_path, "%s/webhook.crt",
                   dir);
    if (use_untrusted(self, err) != WP_OK ||
        create_server(self, err) != WP_OK) {
        wp_webhook_destroy(self);
        return NULL;
    }
    return self;
}

enum wp_status
wp_webhook_start(struct wp_webhook *self, struct wp_err *err)
{
    return wp_h2_server_start(self->h2, err);
}

const char *
wp_webhook_address(const struct wp_webhook *self)
{
    return wp_h2_server_address(self->h2, 0);
}

void
wp_webhook_stop(struct wp_webhook *self)
{
    wp_h2_server_leave(self->h2);
    wp_h2_server_hang_up(self->h2);
    wp_h2_server_stop(self->h2);
}

void
wp_webhook_destroy(struct wp_webhook *self)
{
    if (self == NULL) {
        return;
    }
    wp_h2_server_destroy(self->h2);
    (void)unlink(self->key_path);
    (void)unlink(self->cert_path);
    free(self);
}
