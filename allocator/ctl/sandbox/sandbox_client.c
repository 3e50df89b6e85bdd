#include "allocator/ctl/sandbox/sandbox_client.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <http_parser.h>
#include <jansson.h>

#include "pool/base/address.h"
#include "allocator/conf/paths.h"
#include "pool/base/clock.h"

enum {
    IN_MAX = 65536,
    HEAD_MAX = 16384,
    ERROR_BODY_MAX = 4096,
};

struct wp_sandbox_client {
    int fd;
    int timeout_ms;
    bool answered;
    bool head_done;
    bool body_done;
    char address[300];
    http_parser parser;
    /* What the parser has made of the bytes received last. */
    char body[IN_MAX];
    size_t body_at;
    size_t body_len;
    /* What follows a 101's head. */
    uint8_t extra[IN_MAX];
    size_t extra_len;
};

/* --- The socket. --- */

static enum wp_status
wait_for(struct wp_sandbox_client *client, short events, short *got,
         struct wp_err *err)
{
    struct pollfd p = {client->fd, events, 0};
    int n;

    do {
        n = poll(&p, 1, client->timeout_ms);
    } while (n < 0 && errno == EINTR);
    if (n == 0) {
        return wp_err_set(err, WP_DEADLINE_EXCEEDED,
                          "no answer from %s within %d ms", client->address,
                          client->timeout_ms);
    }
    *got = p.revents;
    return n > 0 ? WP_OK : wp_err_sys(err, WP_INTERNAL, errno, "poll");
}

static enum wp_status
unreachable(const struct wp_sandbox_client *client, int os_errno,
            struct wp_err *err)
{
    return wp_err_sys(err, WP_UNAVAILABLE, os_errno,
                      "cannot reach warmpoold's HTTP at %s", client->address);
}

static enum wp_status
connect_socket(struct wp_sandbox_client *client, struct wp_err *err)
{
    struct wp_address to;
    socklen_t size = sizeof(int);
    int error = 0;
    short got;
    enum wp_status status =
        wp_address_parse(wp_str_from(client->address), &to, err);

    if (status != WP_OK) {
        return wp_err_wrap(err, "--http");
    }
    client->fd =
        socket(to.sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (client->fd < 0) {
        return wp_err_sys(err, WP_INTERNAL, errno, "socket");
    }
    if (connect(client->fd, (const void *)&to.sa, to.len) == 0) {
        return WP_OK;
    }
    /* EAGAIN: a Unix socket's backlog is full. */
    if (errno != EINPROGRESS) {
        return unreachable(client, errno, err);
    }
    status = wait_for(client, POLLOUT, &got, err);
    if (status == WP_OK &&
        getsockopt(client->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
        error = errno;
    }
    if (status == WP_OK && error != 0) {
        status = unreachable(client, error, err);
    }
    return status;
}

struct wp_sandbox_client *
wp_sandbox_client_open(const char *address, int64_t timeout_ns,
                       struct wp_err *err)
{
    struct wp_sandbox_client *client = calloc(1, sizeof *client);
    int64_t timeout_ms = timeout_ns / WP_NS_PER_MS;

    if (client == NULL) {
        (void)wp_err_set(err, WP_INTERNAL, "out of memory");
        return NULL;
    }
    client->fd = -1;
    client->timeout_ms = timeout_ms < INT_MAX ? (int)timeout_ms : INT_MAX;
    http_parser_init(&client->parser, HTTP_RESPONSE);
    client->parser.data = client;
    if (address != NULL) {
        (void)snprintf(client->address, sizeof client->address, "%s", address);
    } else if (wp_paths_check_dir(wp_paths_runtime_dir(client->address,
                                                       sizeof client->address),
                                  err) != WP_OK) {
        wp_sandbox_client_close(client);
        return NULL;
    } else {
        (void)wp_paths_http_address(client->address, sizeof client->address);
    }
    if (connect_socket(client, err) != WP_OK) {
        wp_sandbox_client_close(client);
        return NULL;
    }
    return client;
}

void
wp_sandbox_client_close(struct wp_sandbox_client *client)
{
    if (client == NULL) {
        return;
    }
    if (client->fd >= 0) {
        (void)close(client->fd);
    }
    free(client);
}

/* --- The request. --- */

enum wp_status
wp_sandbox_client_send(struct wp_sandbox_client *client, const void *bytes,
                       size_t len, struct wp_err *err)
{
    const char *p = bytes;

    while (len > 0 && !client->answered) {
        short got = 0;
        ssize_t n;
        enum wp_status status = wait_for(client, POLLIN | POLLOUT, &got, err);

        if (status != WP_OK) {
            return status;
        }
        if ((got & (POLLIN | POLLHUP | POLLERR)) != 0) {
            client->answered = true;
            break;
        }
        n = send(client->fd, p, len, MSG_NOSIGNAL);
        if (n < 0 && (errno == EPIPE || errno == ECONNRESET)) {
            client->answered = true; /* If so, what was said can be read. */
            break;
        }
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            return wp_err_sys(err, WP_UNAVAILABLE, errno,
                              "the connection to %s broke", client->address);
        }
        if (n > 0) {
            p += n;
            len -= (size_t)n;
        }
    }
    return WP_OK;
}

bool
wp_sandbox_client_answered(const struct wp_sandbox_client *client)
{
    return client->answered;
}

enum wp_status
wp_sandbox_client_request(struct wp_sandbox_client *client,
                          const struct wp_sandbox_request *req,
                          struct wp_err *err)
{
    char head[HEAD_MAX];
    bool has_body = req->type != NULL;
    bool bearer = req->bearer[0] != '\0';
    char length[64] = "";
    int n;

    if (has_body) {
        (void)snprintf(length, sizeof length, "\r\nContent-Length: %llu",
                       (unsigned long long)req->body_len);
    }
    n = snprintf(head, sizeof head,
                 "%s /sandboxes/%s%s HTTP/1.1\r\nHost: warmpool\r\n"
                 "User-Agent: warmpoolctl/" WP_VERSION "\r\n"
                 "Connection: %s%s%s%s%s%s%s\r\n\r\n",
                 req->method, req->sandbox, req->path,
                 req->upgrade != NULL ? "Upgrade\r\nUpgrade: " : "close",
                 req->upgrade != NULL ? req->upgrade : "",
                 bearer ? "\r\nAuthorization: Bearer " : "", req->bearer,
                 has_body ? "\r\nContent-Type: " : "",
                 has_body ? req->type : "", length);
    if (n < 0 || (size_t)n >= sizeof head) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "the path is too long");
    }
    return wp_sandbox_client_send(client, head, (size_t)n, err);
}

/* --- The answer. --- */

static int
on_headers_complete(http_parser *parser)
{
    struct wp_sandbox_client *client = parser->data;

    client->head_done = true;
    return 0;
}

static int
on_body(http_parser *parser, const char *at, size_t len)
{
    struct wp_sandbox_client *client = parser->data;

    /* Never more than was received, which fits. */
    memcpy(client->body + client->body_len, at, len);
    client->body_len += len;
    return 0;
}

static int
on_message_complete(http_parser *parser)
{
    struct wp_sandbox_client *client = parser->data;

    client->body_done = true;
    return 0;
}

/* Receives once and has it parsed. */
static enum wp_status
receive(struct wp_sandbox_client *client, struct wp_err *err)
{
    static const http_parser_settings settings = {
        .on_headers_complete = on_headers_complete,
        .on_body = on_body,
        .on_message_complete = on_message_complete,
    };
    char in[IN_MAX];
    short got;
    size_t parsed;
    ssize_t n;
    enum wp_status status = wait_for(client, POLLIN, &got, err);

    if (status != WP_OK) {
        return status;
    }
    n = recv(client->fd, in, sizeof in, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return WP_OK;
    }
    if (n < 0) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno,
                          "the connection to %s broke", client->address);
    }
    client->body_at = 0;
    client->body_len = 0;
    parsed = http_parser_execute(&client->parser, &settings, in, (size_t)n);
    if (client->parser.upgrade != 0 && client->head_done) {
        client->extra_len = (size_t)n - parsed;
        memcpy(client->extra, in + parsed, client->extra_len);
        return WP_OK;
    }
    if (parsed != (size_t)n || (n == 0 && !client->body_done)) {
        return wp_err_set(err, WP_UNAVAILABLE,
                          n == 0 ? "%s closed the connection before the end of "
                                   "its answer"
                                 : "%s does not answer in HTTP",
                          client->address);
    }
    return WP_OK;
}

static enum wp_status
status_of_http(int http_status)
{
    switch (http_status) {
    case 401:
        return WP_UNAUTHENTICATED;
    case 403:
        return WP_PERMISSION_DENIED;
    case 404:
        return WP_NOT_FOUND;
    case 429:
        return WP_RESOURCE_EXHAUSTED;
    case 502:
    case 503:
        return WP_UNAVAILABLE;
    case 504:
        return WP_DEADLINE_EXCEEDED;
    default:
        return http_status >= 400 && http_status < 500 ? WP_INVALID_ARGUMENT
                                                       : WP_INTERNAL;
    }
}

/* What the body of an error says, into err. */
static enum wp_status
read_error(struct wp_sandbox_client *client, int http_status,
           struct wp_err *err)
{
    char text[ERROR_BODY_MAX];
    size_t len = 0;
    size_t n = 1;
    json_t *body;
    const char *message;
    struct wp_err ignored;
    enum wp_status status = status_of_http(http_status);

    while (n > 0 && len < sizeof text &&
           wp_sandbox_client_read(client, text + len, sizeof text - len, &n,
                                  &ignored) == WP_OK) {
        len += n;
    }
    body = json_loadb(text, len, 0, NULL);
    message = json_string_value(json_object_get(body, "error"));
    if (message == NULL) {
        message = json_string_value(json_object_get(body, "message"));
    }
    if (message == NULL) {
        message = json_string_value(json_object_get(body, "detail"));
    }
    if (message != NULL) {
        /* The daemon's own refusals are 401: 403 comes from inside. */
        (void)wp_err_set(err, status, "%s%s",
                         http_status == 403 ? "the sandbox refuses: " : "",
                         message);
    } else {
        (void)wp_err_set(err, status, "%s answered with HTTP status %d",
                         client->address, http_status);
    }
    json_decref(body);
    return status;
}

enum wp_status
wp_sandbox_client_reply(struct wp_sandbox_client *client, int *http_status,
                        struct wp_err *err)
{
    while (!client->head_done) {
        enum wp_status status = receive(client, err);

        if (status != WP_OK) {
            return status;
        }
    }
    *http_status = (int)client->parser.status_code;
    if (*http_status == 101 || (*http_status >= 200 && *http_status < 300)) {
        return WP_OK;
    }
    return read_error(client, *http_status, err);
}

enum wp_status
wp_sandbox_client_read(struct wp_sandbox_client *client, void *buf, size_t cap,
                       size_t *n, struct wp_err *err)
{
    while (client->body_at == client->body_len && !client->body_done) {
        enum wp_status status = receive(client, err);

        if (status != WP_OK) {
            return status;
        }
    }
    *n = client->body_len - client->body_at;
    if (*n > cap) {
        *n = cap;
    }
    memcpy(buf, client->body + client->body_at, *n);
    client->body_at += *n;
    return WP_OK;
}

int
wp_sandbox_client_fd(const struct wp_sandbox_client *client)
{
    return client->fd;
}

const uint8_t *
wp_sandbox_client_extra(const struct wp_sandbox_client *client, size_t *len)
{
    *len = client->extra_len;
    return client->extra;
}
