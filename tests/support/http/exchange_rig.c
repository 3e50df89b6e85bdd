#include "tests/support/http/exchange_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <malloc.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "pool/base/clock.h"

struct exchange exchange;

static int
listen_anywhere(struct sockaddr_un *at, socklen_t *len)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    /* An abstract name of the kernel's choice. */
    *at = (struct sockaddr_un){.sun_family = AF_UNIX};
    *len = sizeof *at;
    assert_true(fd >= 0);
    assert_int_equal(
        bind(fd, (const struct sockaddr *)at, sizeof at->sun_family), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)at, len), 0);
    return fd;
}

/* --------------------------------------------------------- the proxy's own */

static bool
connect_now(struct wp_http_exchange *x)
{
    exchange.upstream =
        bufferevent_socket_new(exchange.base, -1, BEV_OPT_CLOSE_ON_FREE);
    return wp_http_exchange_connect(x, exchange.upstream,
                                    (const struct sockaddr *)&exchange.at,
                                    (int)exchange.at_len);
}

static bool
begin(struct wp_http_exchange *x)
{
    exchange.x = x;
    exchange.begun++;
    assert_ptr_equal(wp_http_exchange_ctx(x), &exchange);
    return exchange.waits || connect_now(x);
}

static void
put_head(const struct wp_http_exchange *x, struct evbuffer *to)
{
    const struct wp_http_message *m = wp_http_message(wp_http_exchange_req(x));

    (void)evbuffer_add_printf(to, "%.*s %.*s HTTP/1.1\r\nVia: test\r\n",
                              WP_STR_ARG(m->method), WP_STR_ARG(m->target));
}

static bool
drops(const struct wp_http_exchange *x, const struct wp_http_message *message,
      const struct wp_http_field *field)
{
    bool is_request = message == wp_http_message(wp_http_exchange_req(x));

    return wp_http_name_is(field->name, is_request ? "X-Asked" : "X-Answered");
}

static bool
unreached(struct wp_http_exchange *x)
{
    exchange.unreached++;
    return exchange.unreached <= exchange.unreached_tries && connect_now(x);
}

static bool
moved(struct wp_http_exchange *x, size_t sent, size_t received)
{
    assert_ptr_equal(x, exchange.x);
    exchange.sent += sent;
    exchange.received += received;
    return exchange.sent <= exchange.sent_max;
}

static void
gone(struct wp_http_exchange *x)
{
    assert_ptr_equal(x, exchange.x);
    exchange.x = NULL;
    exchange.gone++;
}

static const struct wp_http_ops *
route(struct wp_http_req *req)
{
    return wp_http_exchange_open(&exchange.config, &exchange.ops, req,
                                 &exchange);
}

/* -------------------------------------------------------------- both sides */

static bool
hear(struct exchange_side *side)
{
    ssize_t n;

    if (side->fd < 0 || side->ended || side->held) {
        return false;
    }
    n = recv(side->fd, side->text + side->len,
             EXCHANGE_TEXT_MAX - 1 - side->len, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) {
        return false;
    }
    side->ended = n <= 0;
    side->len += n > 0 ? (size_t)n : 0;
    side->text[side->len] = '\0';
    return true;
}

bool
exchange_turn(void)
{
    bool busy = false;

    (void)event_base_loop(exchange.base, EVLOOP_NONBLOCK);
    if (exchange.server.fd < 0) {
        exchange.server.fd =
            accept4(exchange.listener, NULL, NULL, SOCK_CLOEXEC);
        busy = exchange.server.fd >= 0;
    }
    busy = hear(&exchange.server) || busy;
    return hear(&exchange.client) || busy;
}

void
exchange_settle(void)
{
    for (int still = 0; still < EXCHANGE_STILL_ROUNDS; still++) {
        if (exchange_turn()) {
            still = 0;
        }
    }
}

void
exchange_wait_end(void)
{
    time_t until = time(NULL) + 120;

    while (!exchange.client.ended) {
        (void)exchange_turn();
        (void)usleep(1000);
        assert_true(time(NULL) < until);
    }
    exchange_settle();
}

void
exchange_say_bytes(const struct exchange_side *side, const char *text,
                   size_t len)
{
    while (len > 0) {
        ssize_t n = send(side->fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL);

        assert_true(n > 0 || errno == EAGAIN);
        text += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
        (void)exchange_turn();
    }
    exchange_settle();
}

void
exchange_say(const struct exchange_side *side, const char *text)
{
    exchange_say_bytes(side, text, strlen(text));
}

void
exchange_forget(struct exchange_side *side)
{
    side->len = 0;
    side->text[0] = '\0';
}

void
exchange_leave(struct exchange_side *side)
{
    if (side->fd >= 0) {
        assert_int_equal(close(side->fd), 0);
    }
    side->fd = -1;
    side->ended = false;
    exchange_forget(side);
}

void
exchange_over(void)
{
    assert_true(exchange.client.ended);
    exchange_leave(&exchange.client);
    exchange_settle();
    assert_int_equal(exchange.gone, 1);
}

void
exchange_dial(void)
{
    exchange_leave(&exchange.client);
    exchange_leave(&exchange.server);
    exchange_settle();
    assert_null(exchange.x);
    exchange.failed = exchange.begun = exchange.gone = exchange.unreached = 0;
    exchange.sent = exchange.received = 0;
    exchange.client.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(exchange.client.fd,
                             (const struct sockaddr *)&exchange.front_at,
                             exchange.front_len),
                     0);
    exchange_settle();
}

int
exchange_set_up(void **state)
{
    struct wp_http_server_config config = {
        .route = route,
        .conns_max = 10,
        .fields_max = WP_HTTP_FIELDS_MAX,
        .forward = true,
        .head_timeout_ns = 300 * WP_NS_PER_S,
        .body_timeout_ns = 300 * WP_NS_PER_S,
        .idle_timeout_ns = 300 * WP_NS_PER_S,
        .send_timeout_ns = 300 * WP_NS_PER_S,
    };
    struct wp_err err;

    /* Who uses an exchange that is gone stumbles, and finds nothing as it was. */
    (void)mallopt(M_PERTURB, 0xa5);
    (void)state;
    memset(&exchange, 0, sizeof exchange);
    exchange.client.fd = exchange.server.fd = -1;
    exchange.sent_max = SIZE_MAX;
    exchange.base = event_base_new();
    exchange.config = (struct wp_http_exchange_config){
        .base = exchange.base,
        .server = "the test",
        .idle_timeout_ns = 300 * WP_NS_PER_S,
        .answer_timeout_ns = 300 * WP_NS_PER_S,
        .failed = &exchange.failed,
    };
    exchange.ops = (struct wp_http_exchange_ops){
        .begin = begin,
        .put_head = put_head,
        .drops = drops,
        .unreached = unreached,
        .moved = moved,
        .gone = gone,
    };
    config.base = exchange.base;
    exchange.front = wp_http_server_create(&config);
    assert_non_null(exchange.front);
    assert_int_equal(wp_http_server_listen(exchange.front,
                                           listen_anywhere(&exchange.front_at,
                                                           &exchange.front_len),
                                           1, &err),
                     WP_OK);
    exchange.listener = listen_anywhere(&exchange.at, &exchange.at_len);
    assert_int_equal(listen(exchange.listener, 8), 0);
    return 0;
}

int
exchange_tear_down(void **state)
{
    (void)state;
    exchange_leave(&exchange.client);
    exchange_leave(&exchange.server);
    wp_http_server_destroy(exchange.front);
    assert_null(exchange.x);
    if (exchange.listener >= 0) {
        (void)close(exchange.listener);
    }
    event_base_free(exchange.base);
    return 0;
}
