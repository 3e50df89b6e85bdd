#include "tests/support/http/http_server_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <event2/buffer.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pool/base/address.h"
#include "pool/base/clock.h"

struct rig rig;

/* --- Sockets with patience --- */

static bool
wait_for(int fd, short events)
{
    struct pollfd p = {fd, events, 0};

    return poll(&p, 1, RIG_PATIENCE_MS) == 1;
}

int
rig_dial(const char *text)
{
    struct wp_address address;
    struct wp_err err;
    int fd;

    assert_int_equal(wp_address_parse(wp_str_from(text), &address, &err),
                     WP_OK);
    fd = socket(address.sa.ss_family, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address.sa, address.len),
                     0);
    return fd;
}

void
rig_send(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);

        if (n <= 0) {
            return; /* The other side has gone; the test sees it by reading. */
        }
        bytes += n;
        len -= (size_t)n;
    }
}

void
rig_send_text(int fd, const char *text)
{
    rig_send(fd, text, strlen(text));
}

size_t
rig_read_until(int fd, const char *text, char *out, size_t cap)
{
    size_t len = 0;

    out[0] = '\0';
    while (len < cap - 1 && (text == NULL || strstr(out, text) == NULL) &&
           wait_for(fd, POLLIN)) {
        ssize_t n = recv(fd, out + len, cap - 1 - len, 0);

        if (n <= 0) {
            break;
        }
        len += (size_t)n;
        out[len] = '\0';
    }
    return len;
}

const char *
rig_ask(const char *where, const char *request)
{
    int fd = rig_dial(where);

    rig_send_text(fd, request);
    (void)rig_read_until(fd, NULL, rig.answer, sizeof rig.answer);
    (void)close(fd);
    return rig.answer;
}

/* --- What is expected of a text --- */

void
assert_begins(const char *text, const char *start)
{
    if (strncmp(text, start, strlen(start)) != 0) {
        fail_msg("expected \"%s...\", got \"%.300s\"", start, text);
    }
}

void
assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("expected \"%s\" in \"%.600s\"", part, text);
    }
}

void
assert_lacks(const char *text, const char *part)
{
    if (strstr(text, part) != NULL) {
        fail_msg("did not expect \"%s\" in \"%.600s\"", part, text);
    }
}

/* --- The world around the server --- */

static enum wp_status
find(void *ctx, struct wp_str ns, struct wp_str sandbox,
     struct wp_claim_info *out)
{
    (void)ctx;
    (void)ns;
    if (!wp_str_is(sandbox, "box-1") && !wp_str_is(sandbox, "gone")) {
        return WP_NOT_FOUND;
    }
    (void)strcpy(out->pool_namespace, "default");
    (void)snprintf(out->tenant, sizeof out->tenant, "%s",
                   rig.tenant != NULL ? rig.tenant : "blue");
    (void)snprintf(out->endpoint, sizeof out->endpoint, "%s",
                   wp_str_is(sandbox, "gone") ? "unix:/nonexistent/s"
                                              : rig.endpoint);
    out->lost = rig.lost;
    return WP_OK;
}

static void
sandbox_token(void *ctx, const struct wp_claim_info *info,
              char out[WP_SANDBOX_TOKEN_TEXT + 1])
{
    (void)ctx;
    (void)snprintf(out, WP_SANDBOX_TOKEN_TEXT + 1, "%s%.16s",
                   rig.has_sandbox_tokens ? "token of " : "",
                   rig.has_sandbox_tokens ? info->pool_namespace : "");
}

static bool
token_valid(void *ctx, const uint8_t *token, struct wp_str sandbox)
{
    (void)ctx;
    return token[0] == 0xAB && token[WP_TOKEN_LEN - 1] == 0xCD &&
           wp_str_is(sandbox, "box-1");
}

const char *
rig_lease_token(void)
{
    static char hex[2 * WP_TOKEN_LEN + 1];
    uint8_t token[WP_TOKEN_LEN] = {0xAB};

    token[WP_TOKEN_LEN - 1] = 0xCD;
    wp_hex_encode(token, sizeof token, hex);
    return hex;
}

static unsigned
render_hello(void *ctx, enum wp_view view, struct evbuffer *body,
             const char **type)
{
    (void)ctx;
    (void)view;
    (void)type;
    (void)evbuffer_add_printf(body, "hello\n");
    return 200;
}

static unsigned
render_big(void *ctx, enum wp_view view, struct evbuffer *body,
           const char **type)
{
    static const char line[] = "0123456789abcdef0123456789abcdef"
                               "0123456789abcdef0123456789abcde\n";

    (void)ctx;
    (void)view;
    (void)type;
    for (size_t i = 0; i < RIG_BIG / (sizeof line - 1); i++) {
        (void)evbuffer_add(body, line, sizeof line - 1);
    }
    return 200;
}

static unsigned
render_view(void *ctx, enum wp_view view, struct evbuffer *body,
            const char **type)
{
    (void)ctx;
    (void)type;
    (void)evbuffer_add_printf(body, "seen: %s\n",
                              view == WP_VIEW_ALL ? "all" : "a tenant's part");
    return 200;
}

static const struct wp_http_page pages[] = {
    {"/hello", true, render_hello, NULL},
    {"/big", true, render_big, NULL},
    {"/metrics", false, render_view, NULL},
};

static void *
sandbox_main(void *ctx)
{
    (void)ctx;
    for (;;) {
        int fd = accept(rig.sandbox_fd, NULL, NULL);

        if (fd < 0) {
            return NULL;
        }
        atomic_load (&rig.script)(fd);
        (void)close(fd);
    }
}

void
rig_sandbox_start(rig_script_fn script)
{
    struct wp_address address;
    struct wp_err err;

    rig.script = script;
    assert_int_equal(
        wp_address_parse(wp_str_from(rig.endpoint), &address, &err), WP_OK);
    rig.sandbox_fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(
        bind(rig.sandbox_fd, (struct sockaddr *)&address.sa, address.len), 0);
    assert_int_equal(listen(rig.sandbox_fd, 16), 0);
    assert_int_equal(pthread_create(&rig.sandbox, NULL, sandbox_main, NULL), 0);
    rig.sandbox_runs = true;
}

int
rig_setup(void **state)
{
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    memset((void *)&rig, 0, sizeof rig);
    (void)strcpy(rig.dir, "/tmp/wp-http-XXXXXX");
    if (mkdtemp(rig.dir) == NULL) {
        return -1;
    }
    (void)snprintf(rig.unix_listen, sizeof rig.unix_listen, "unix:%s/h",
                   rig.dir);
    (void)snprintf(rig.endpoint, sizeof rig.endpoint, "unix:%s/s", rig.dir);
    rig.listen[0] = rig.unix_listen;
    rig.listen[1] = "127.0.0.1:0";
    rig.loop = wp_loop_create("http", 64, NULL);
    rig.config = (struct wp_gateway_config){
        .loop = rig.loop,
        .listen = rig.listen,
        .n_listen = 2,
        .unix_mode = 0666,
        .admin_token = RIG_ADMIN,
        .connections_max = 64,
        .spares_max = 256,
        .head_timeout_ns = 60 * WP_NS_PER_S,
        .idle_timeout_ns = 60 * WP_NS_PER_S,
        .upstream_timeout_ns = 60 * WP_NS_PER_S,
        .pages = pages,
        .n_pages = WP_ARRAY_LEN(pages),
        .find = find,
        .token_valid = token_valid,
        .sandbox_token = sandbox_token,
    };
    return rig.loop == NULL;
}

void
rig_start(void)
{
    struct wp_err err = {.msg = ""};

    rig.server = wp_gateway_create(&rig.config, &err);
    assert_string_equal(err.msg, "");
    assert_non_null(rig.server);
    assert_int_equal(wp_loop_start(rig.loop, &err), WP_OK);
}

static void
read_stats(void *ctx)
{
    *(struct wp_gateway_stats *)ctx = wp_gateway_stats(rig.server);
}

struct wp_gateway_stats
rig_stats(void)
{
    struct wp_gateway_stats out;

    wp_loop_call(rig.loop, read_stats, &out);
    return out;
}

int
rig_teardown(void **state)
{
    char path[128];

    (void)state;
    wp_gateway_destroy(rig.server);
    wp_loop_stop(rig.loop);
    wp_loop_destroy(rig.loop);
    if (rig.sandbox_runs) {
        (void)shutdown(rig.sandbox_fd, SHUT_RDWR);
        (void)pthread_join(rig.sandbox, NULL);
        (void)close(rig.sandbox_fd);
    }
    (void)snprintf(path, sizeof path, "%s/s", rig.dir);
    (void)unlink(path);
    return rmdir(rig.dir); /* Fails if the server left its socket. */
}

const char *
rig_tcp(void)
{
    return wp_gateway_address(rig.server, 1);
}
