/* tests/unit/allocator/http/proxy_parts_test.c - the way to a sandbox, between
 * fakes of the exchange that carries it: what it is told, and what is answered
 * where there is no way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "allocator/http/proxy.h"
#include "pool/base/address.h"
#include "pool/base/clock.h"
#include "pool/base/compiler.h"
#include "proto/formats/http_exchange.h"
#include "tests/support/base/journal.h"

/* Addresses that stand for what they are named after. */
static struct {
    char base, req, upstream, opened;
} fake;
#define FAKE(type, name) ((type *)(void *)&fake.name)

static unsigned fails_at; /* The n-th calloc; 0: none. */
static bool no_exchange;
static void *visit; /* What the exchange was opened with. */
static struct wp_http_exchange_config config;
static struct wp_http_exchange_ops ops;
static struct wp_http_message request;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
const struct wp_http_ops *
__wrap_wp_http_exchange_open(const struct wp_http_exchange_config *with,
                             const struct wp_http_exchange_ops *its,
                             struct wp_http_req *req, void *ctx);
void *__wrap_wp_http_exchange_ctx(const struct wp_http_exchange *x);
struct wp_http_req *
__wrap_wp_http_exchange_req(const struct wp_http_exchange *x);
bool __wrap_wp_http_exchange_connect(struct wp_http_exchange *x,
                                     struct bufferevent *upstream,
                                     const struct sockaddr *address, int len);
struct wp_http_message *__wrap_wp_http_message(struct wp_http_req *req);
void __wrap_wp_http_set_close(struct wp_http_req *req);
void __wrap_wp_http_reply_error(struct wp_http_req *req, int status,
                                const char *fmt, ...);
struct bufferevent *__wrap_bufferevent_socket_new(struct event_base *base,
                                                  evutil_socket_t fd,
                                                  int options);

void *
__wrap_calloc(size_t n, size_t size)
{
    return fails_at > 0 && --fails_at == 0 ? NULL : __real_calloc(n, size);
}

const struct wp_http_ops *
__wrap_wp_http_exchange_open(const struct wp_http_exchange_config *with,
                             const struct wp_http_exchange_ops *its,
                             struct wp_http_req *req, void *ctx)
{
    assert_ptr_equal(req, &fake.req);
    assert_ptr_equal(with->base, &fake.base);
    visit = ctx;
    config = *with;
    ops = *its;
    journal("  opens '%s' idle %lld answer %lld connect %lld silence %lld%s%s",
            with->server, (long long)with->idle_timeout_ns,
            (long long)with->answer_timeout_ns,
            (long long)with->connect_timeout_ns,
            (long long)with->silence_timeout_ns,
            its->unreached != NULL ? " unreached" : "",
            its->moved != NULL ? " moved" : "");
    journal_line();
    return no_exchange ? NULL : FAKE(const struct wp_http_ops, opened);
}

void *
__wrap_wp_http_exchange_ctx(const struct wp_http_exchange *x)
{
    return (void *)(uintptr_t)x;
}

struct wp_http_req *
__wrap_wp_http_exchange_req(const struct wp_http_exchange *x)
{
    assert_ptr_equal(x, visit);
    return FAKE(struct wp_http_req, req);
}

bool
__wrap_wp_http_exchange_connect(struct wp_http_exchange *x,
                                struct bufferevent *upstream,
                                const struct sockaddr *address, int len)
{
    struct wp_address at = {.len = (socklen_t)len};
    char text[200];

    assert_ptr_equal(x, visit);
    memcpy(&at.sa, address, (size_t)len);
    at.is_unix = address->sa_family == AF_UNIX;
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)&at.sa;

        assert_non_null(inet_ntop(AF_INET, &in->sin_addr, text, sizeof text));
        journal("  connects to %s port %u", text, ntohs(in->sin_port));
    } else {
        journal("  connects to %s",
                ((const struct sockaddr_un *)(const void *)&at.sa)->sun_path);
    }
    journal(upstream != NULL ? "" : " without memory");
    journal_line();
    return upstream != NULL;
}

struct wp_http_message *
__wrap_wp_http_message(struct wp_http_req *req)
{
    assert_ptr_equal(req, &fake.req);
    return &request;
}

void
__wrap_wp_http_set_close(struct wp_http_req *req)
{
    assert_ptr_equal(req, &fake.req);
    journal("  closes");
    journal_line();
}

void
__wrap_wp_http_reply_error(struct wp_http_req *req, int status, const char *fmt,
                           ...)
{
    va_list args;

    assert_ptr_equal(req, &fake.req);
    assert_string_equal(fmt, "%s");
    va_start(args, fmt);
    journal("  replies %d %s", status, va_arg(args, const char *));
    va_end(args);
    journal_line();
}

struct bufferevent *
__wrap_bufferevent_socket_new(struct event_base *base, evutil_socket_t fd,
                              int options)
{
    assert_ptr_equal(base, &fake.base);
    assert_int_equal(fd, -1);
    assert_int_equal(options, BEV_OPT_CLOSE_ON_FREE);
    return FAKE(struct bufferevent, upstream);
}

static struct wp_http_proxy proxy;

static void
open_way(const char *what, const struct wp_http_route *route,
         const char *endpoint, bool strip, const char *token)
{
    const struct wp_http_ops *opened;

    journal("%s", what);
    journal_line();
    visit = NULL;
    opened = wp_http_proxy_open(&proxy, FAKE(struct wp_http_req, req), route,
                                endpoint, strip, token);
    assert_true(opened == NULL || (const void *)opened == &fake.opened);
    journal("  %s, proxied %llu failed %llu", opened != NULL ? "open" : "none",
            (unsigned long long)proxy.proxied_total,
            (unsigned long long)proxy.failed_total);
    journal_line();
    if (opened == NULL) {
        visit = NULL;
        return;
    }
    assert_ptr_equal(config.failed, &proxy.failed_total);
}

static const struct wp_http_exchange *
way(void)
{
    return visit;
}

static void
journal_head(void)
{
    struct evbuffer *to = evbuffer_new();

    ops.put_head(way(), to);
    journal("  head ");
    journal_bytes((const char *)evbuffer_pullup(to, -1),
                  evbuffer_get_length(to));
    journal_line();
    evbuffer_free(to);
}

static void
journal_drops(void)
{
    static const char *const names[] = {"Authorization", "authorization",
                                        "X-Other", "Authorizatio",
                                        WP_SANDBOX_TOKEN_FIELD};
    struct wp_http_message answer = {.minor = 1};

    for (size_t i = 0; i < WP_ARRAY_LEN(names); i++) {
        const struct wp_http_field field = {.name = wp_str_from(names[i])};

        journal("  %s%s%s", names[i],
                ops.drops(way(), &request, &field) ? " not asked" : "",
                ops.drops(way(), &answer, &field) ? " not answered" : "");
        journal_line();
    }
}

static int
begin(void **state)
{
    (void)state;
    no_exchange = false;
    fails_at = 0;
    proxy = (struct wp_http_proxy){.base = FAKE(struct event_base, base),
                                   .idle_timeout_ns = 700,
                                   .upstream_timeout_ns = 500};
    request = (struct wp_http_message){.method = WP_STR("GET"), .minor = 1};
    return 0;
}

static void
test_the_way_to_a_sandbox(void **state)
{
    struct wp_http_route route = {.rest = WP_STR("/a?b")};

    (void)state;
    open_way("as it is", &route, "10.1.2.3:80", false, "");
    (void)ops.begin(visit);
    journal_head();
    journal_drops();
    ops.gone(visit);
    route = (struct wp_http_route){
        .rest = WP_STR("a"), .port = 8080, .timeout_ns = 499};
    request.method = WP_STR("POST");
    request.minor = 0;
    open_way("a port, a time, a token of its own", &route, "10.1.2.3:80", true,
             "secret");
    (void)ops.begin(visit);
    journal_head();
    journal_drops();
    ops.gone(visit);
    route = (struct wp_http_route){.rest = WP_STR(""), .timeout_ns = 501};
    open_way("a longer time, and nothing behind it", &route, "unix:/box", false,
             "");
    (void)ops.begin(visit);
    journal_head();
    ops.gone(visit);
    journal_compare(WP_TEST_GOLDEN "/proxy_way.txt");
}

static void
test_no_way_to_a_sandbox(void **state)
{
    const struct wp_http_route route = {.rest = WP_STR("/")};

    (void)state;
    open_way("no address", &route, "nowhere", false, "");
    fails_at = 1;
    open_way("no memory", &route, "10.1.2.3:80", false, "");
    no_exchange = true;
    open_way("no exchange", &route, "10.1.2.3:80", false, "");
    journal_compare(WP_TEST_GOLDEN "/proxy_no_way.txt");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_the_way_to_a_sandbox, begin),
        cmocka_unit_test_setup(test_no_way_to_a_sandbox, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
