/* Heads, body ends and routes of HTTP messages, without any socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/formats/http_head.h"
#include "allocator/http/route.h"
#include "pool/base/clock.h"

static struct wp_http_message message;
static const char *why;

static bool
request(const char *head)
{
    why = "";
    return wp_http_parse_request(&message, wp_str_from(head), &why);
}

static bool
response(const char *head)
{
    why = "";
    return wp_http_parse_response(&message, wp_str_from(head), false, &why);
}

static void
assert_str(struct wp_str s, const char *text)
{
    assert_int_equal(s.len, strlen(text));
    assert_memory_equal(s.len > 0 ? s.ptr : "", text, s.len);
}

static void
test_head_len(void **state)
{
    static char big[WP_HTTP_HEAD_MAX + 10];

    (void)state;
    assert_int_equal(wp_http_head_len(WP_STR("")), 0);
    assert_int_equal(wp_http_head_len(WP_STR("GET / HTTP/1.1\r\n")), 0);
    assert_int_equal(wp_http_head_len(WP_STR("a\r\n\r\nb")), 5);
    memset(big, 'a', sizeof big);
    assert_int_equal(
        wp_http_head_len((struct wp_str){big, WP_HTTP_HEAD_MAX - 1}), 0);
    assert_int_equal(wp_http_head_len((struct wp_str){big, WP_HTTP_HEAD_MAX}),
                     SIZE_MAX);
    memcpy(big + WP_HTTP_HEAD_MAX - 4, "\r\n\r\n", 4);
    assert_int_equal(wp_http_head_len((struct wp_str){big, sizeof big}),
                     WP_HTTP_HEAD_MAX);
}

static void
test_request(void **state)
{
    (void)state;
    assert_true(request("POST /a/b?c=d HTTP/1.1\r\nHost: x\r\nEmpty:\r\n"
                        "Content-Length: 3\r\nX-Y:  z \r\n\r\n"));
    assert_str(message.method, "POST");
    assert_str(message.target, "/a/b?c=d");
    assert_int_equal(message.n_fields, 4);
    assert_str(wp_http_field(&message, "x-y")->value, "z");
    assert_str(wp_http_field(&message, "EMPTY")->value, "");
    /* Of its own: a string that ends there must not end the next name. */
    assert_string_equal(wp_http_field(&message, "EMPTY")->value.ptr, "");
    assert_null(wp_http_field(&message, "absent"));
    assert_true(message.keep_alive && message.has_length);
    assert_false(message.done);
    assert_int_equal(wp_http_message_body(&message, WP_STR("ab")), 2);
    assert_false(message.done);
    assert_int_equal(wp_http_message_body(&message, WP_STR("cGET /next")), 1);
    assert_true(message.done);
    /* Blanks around a value are none of it, those within are. */
    assert_true(request("GET / HTTP/1.1\r\nA: \t a\tb c\t \t\r\nB:c\t\r\n"
                        "C: \t\r\nD:d\r\n\r\n"));
    assert_str(wp_http_field(&message, "A")->value, "a\tb c");
    assert_str(wp_http_field(&message, "B")->value, "c");
    assert_str(wp_http_field(&message, "C")->value, "");
    assert_str(wp_http_field(&message, "D")->value, "d");
}

static void
test_request_without_body(void **state)
{
    (void)state;
    assert_true(request("GET / HTTP/1.1\r\n\r\n"));
    assert_true(message.done && message.keep_alive);
    assert_true(request("GET / HTTP/1.0\r\n\r\n"));
    assert_true(message.done);
    assert_false(message.keep_alive);
    assert_true(request("GET / HTTP/1.1\r\nConnection: close\r\n\r\n"));
    assert_false(message.keep_alive);
}

static void
test_chunked(void **state)
{
    const char *body = "3;ext=1\r\nabc\r\n0\r\nTrailer: x\r\n\r\nrest";
    struct wp_str left = wp_str_from(body);

    (void)state;
    assert_true(request("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked"
                        "\r\n\r\n"));
    assert_true(message.chunked);
    while (!message.done) { /* Byte by byte, as a slow client would. */
        assert_int_equal(
            wp_http_message_body(&message, (struct wp_str){left.ptr, 1}), 1);
        left.ptr++;
    }
    assert_string_equal(left.ptr, "rest");
    assert_int_equal(message.n_fields, 1); /* Trailers are not fields. */
    assert_true(request("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked"
                        "\r\n\r\n"));
    assert_int_equal(wp_http_message_body(&message, wp_str_from(body)),
                     (int64_t)strlen(body) - 4);
    assert_true(request("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked"
                        "\r\n\r\n"));
    assert_int_equal(wp_http_message_body(&message, WP_STR("zz\r\n")), -1);
}

static void
test_request_refusals(void **state)
{
    static const char *const heads[] = {
        "GET / HTTP/2.0\r\n\r\n",
        "GET / HTTP/1.7\r\n\r\n",
        "GET http://x/ HTTP/1.1\r\n\r\n",
        "GET * HTTP/1.1\r\n\r\n",
        "CONNECT a:1 HTTP/1.1\r\n\r\n",
        "NONSENSE / HTTP/1.1\r\n\r\n",
        "GET /\r\n\r\n",
        "GET / HTTP/1.1\r\nA: b\n\r\n\r\n",
        "GET / HTTP/1.1\nA: b\r\n\r\n",
        "GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\nA b\r\n\r\n",
        "GET / HTTP/1.1\r\nA : b\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        ("POST / HTTP/1.1\r\nContent-Length: 1\r\n"
         "Transfer-Encoding: chunked\r\n\r\n"),
        "POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
        /* The coding that is not chunked would not reach the next reader. */
        "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: identity, chunked\r\n\r\n",
        ("POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n"
         "Transfer-Encoding: chunked\r\n\r\n"),
        ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"
         "Transfer-Encoding: chunked\r\n\r\n"),
        "GET / HTTP/1.1\r\nTransfer-Encoding:\r\n\r\n",
        /* To HTTP/1.0 the chunks are the next request. */
        "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        "\x16\x03\x01\r\n\r\n",
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(heads); i++) {
        if (request(heads[i])) {
            fail_msg("accepted: %s", heads[i]);
        }
        assert_string_not_equal(why, "");
    }
}

static void
test_too_many_fields(void **state)
{
    static char head[WP_HTTP_HEAD_MAX];

    (void)state;
    (void)strcpy(head, "GET / HTTP/1.1\r\n");
    for (int i = 0; i <= WP_HTTP_FIELDS_MAX; i++) {
        (void)strcat(head, "A: b\r\n");
    }
    (void)strcat(head, "\r\n");
    assert_false(request(head));
    assert_string_equal(why, "more than 100 header fields");
}

static void
test_response(void **state)
{
    (void)state;
    assert_true(response("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    assert_true(message.done);
    assert_int_equal(message.status, 200);
    /* A parser that takes any byte behind a carriage return for the line feed
     * would find the body inside of this head. */
    assert_false(response("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
                          "\r\x02"
                          "5\r\nhello\r\n0\r\n\r\n"));
    assert_false(response("HTTP/1.1 200 OK\r\n"
                          "Transfer-Encoding: gzip, chunked\r\n\r\n"));
    assert_true(response("HTTP/1.0 200 OK\r\n"
                         "Transfer-Encoding: Chunked\r\n\r\n"));
    assert_true(response("HTTP/1.1 200 OK\r\n"
                         "Transfer-Encoding: identity\r\n\r\n"));
    assert_true(message.until_eof);
    assert_true(response("HTTP/1.1 204 No Content\r\n\r\n"));
    assert_true(message.done);
    assert_true(response("HTTP/1.1 100 Continue\r\n\r\n"));
    assert_true(message.done);
    assert_true(response("HTTP/1.1 200 OK\r\n\r\n"));
    assert_true(message.until_eof && !message.done);
    assert_int_equal(wp_http_message_body(&message, WP_STR("abc")), 3);
    assert_true(wp_http_message_eof(&message));
    assert_true(response("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"));
    assert_int_equal(wp_http_message_body(&message, WP_STR("abc")), 3);
    assert_false(wp_http_message_eof(&message));
    assert_true(response("HTTP/1.1 101 Switching Protocols\r\n"
                         "Connection: Upgrade\r\nUpgrade: x\r\n\r\n"));
    assert_true(message.upgrade);
    assert_true(wp_http_parse_response(
        &message, WP_STR("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"), true,
        &why));
    assert_true(message.done); /* It answers HEAD. */
    assert_false(response("SSH-2.0-x\r\n\r\n"));
    assert_false(response("HTTP/1.1 99 x\r\n\r\n"));
}

static void
test_list_has(void **state)
{
    (void)state;
    assert_true(
        wp_http_list_has(WP_STR("a, Keep-Alive ,b"), WP_STR("keep-alive")));
    assert_false(
        wp_http_list_has(WP_STR("keep-alive-x"), WP_STR("keep-alive")));
    assert_false(wp_http_list_has(WP_STR(""), WP_STR("a")));
    assert_false(wp_http_list_has(WP_STR(", ,"), WP_STR("")));
    assert_true(wp_http_list_has(WP_STR("\ta\t,\t b \t"), WP_STR("a")));
    assert_true(wp_http_list_has(WP_STR("\ta\t,\t b \t"), WP_STR("B")));
    assert_false(wp_http_list_has(WP_STR("a\tb, c"), WP_STR("a")));
    assert_false(wp_http_list_has(WP_STR("\t, \t,c"), WP_STR("b")));
}

static struct wp_http_route
route_of(const char *head)
{
    struct wp_http_route route;

    assert_true(request(head));
    assert_true(wp_http_route(&message, &route, &why));
    return route;
}

static void
test_routes(void **state)
{
    struct wp_http_route r;

    (void)state;
    r = route_of("GET /metrics?x=1 HTTP/1.1\r\n\r\n");
    assert_false(r.proxy);
    assert_str(r.path, "/metrics");
    r = route_of("GET /sandboxes/box-1/a/b?c HTTP/1.1\r\n"
                 "Authorization: bearer abc\r\n\r\n");
    assert_true(r.proxy);
    assert_str(r.sandbox, "box-1");
    assert_str(r.rest, "/a/b?c");
    assert_str(r.bearer, "abc");
    r = route_of("GET /sandboxes/box-1?c HTTP/1.1\r\n\r\n");
    assert_str(r.rest, "?c");
    r = route_of("GET /sandboxes/box-1 HTTP/1.1\r\n\r\n");
    assert_str(r.rest, "");
    r = route_of("POST /execute HTTP/1.1\r\nX-Sandbox-ID: box-2\r\n"
                 "X-Sandbox-Namespace: ns\r\nX-Sandbox-Port: 8888\r\n"
                 "X-Sandbox-Timeout: 60\r\n\r\n");
    assert_true(r.proxy);
    assert_str(r.sandbox, "box-2");
    assert_str(r.sandbox_namespace, "ns");
    assert_str(r.rest, "/execute");
    assert_int_equal(r.port, 8888);
    assert_int_equal(r.timeout_ns, 60 * WP_NS_PER_S);
    r = route_of("GET / HTTP/1.1\r\nX-Sandbox-ID: b\r\n"
                 "X-Sandbox-Timeout: 1.5\r\n\r\n");
    assert_int_equal(r.timeout_ns, 2 * WP_NS_PER_S);
    r = route_of("GET / HTTP/1.1\r\nX-Sandbox-ID: b\r\n"
                 "X-Sandbox-Timeout: soon\r\n\r\n");
    assert_int_equal(r.timeout_ns, 0);
    r = route_of("GET / HTTP/1.1\r\nX-Sandbox-ID: b\r\n"
                 "X-Sandbox-Timeout: 86400\r\n\r\n");
    assert_int_equal(r.timeout_ns, 86400 * WP_NS_PER_S);
    r = route_of("GET / HTTP/1.1\r\nX-Sandbox-ID: b\r\n"
                 "X-Sandbox-Timeout: 86401\r\n\r\n");
    assert_int_equal(r.timeout_ns, 0);
    r = route_of("GET / HTTP/1.1\r\nX-Sandbox-ID: b\r\n"
                 "X-Sandbox-Timeout: -1\r\n\r\n");
    assert_int_equal(r.timeout_ns, 0);
    r = route_of("GET / HTTP/1.1\r\nX-Sandbox-ID: b\r\n"
                 "X-Sandbox-Timeout: 0.5\r\n\r\n");
    assert_int_equal(r.timeout_ns, WP_NS_PER_S);
    r = route_of("GET / HTTP/1.1\r\nAuthorization: Basic abc\r\n\r\n");
    assert_int_equal(r.bearer.len, 0);
}

static void
test_route_refusals(void **state)
{
    static const char *const heads[] = {
        "GET /sandboxes/ HTTP/1.1\r\n\r\n",
        "GET /sandboxes/../etc HTTP/1.1\r\n\r\n",
        "GET /sandboxes/UPPER/x HTTP/1.1\r\n\r\n",
        "GET /sandboxes/a%2fb/x HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nX-Sandbox-ID: a/b\r\n\r\n",
        "GET / HTTP/1.1\r\nX-Sandbox-ID: a\r\nX-Sandbox-Port: 0\r\n\r\n",
        "GET / HTTP/1.1\r\nX-Sandbox-ID: a\r\nX-Sandbox-Port: 70000\r\n\r\n",
        ("GET / HTTP/1.1\r\nX-Sandbox-ID: a\r\n"
         "X-Sandbox-Namespace: -x\r\n\r\n"),
    };
    struct wp_http_route route;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(heads); i++) {
        assert_true(request(heads[i]));
        if (wp_http_route(&message, &route, &why)) {
            fail_msg("accepted: %s", heads[i]);
        }
    }
}

static void
test_fields_that_stay(void **state)
{
    static const char *const stay[] = {
        "Connection", "keep-alive",     "TE",
        "X-Mine",     "Content-Length", "Upgrade"};

    (void)state;
    assert_true(request("POST / HTTP/1.1\r\nConnection: X-Mine, close\r\n"
                        "Keep-Alive: 5\r\nTE: x\r\nX-Mine: 1\r\n"
                        "Content-Length: 0\r\nUpgrade: h\r\n"
                        "Host: a\r\nX-Minor: 1\r\n\r\n"));
    for (size_t i = 0; i < WP_ARRAY_LEN(stay); i++) {
        assert_true(
            wp_http_field_stays(&message, wp_http_field(&message, stay[i])));
    }
    assert_false(
        wp_http_field_stays(&message, wp_http_field(&message, "Host")));
    assert_false(
        wp_http_field_stays(&message, wp_http_field(&message, "X-Minor")));
}

static bool
forward(const char *head)
{
    why = "";
    return wp_http_parse_forward(&message, wp_str_from(head), &why);
}

/* Goal: a forward proxy takes targets that others refuse, and no body with
 * CONNECT, whose tunnel would be taken for one. */
static void
test_forward(void **state)
{
    (void)state;
    assert_true(forward("CONNECT a.test:443 HTTP/1.1\r\n\r\n"));
    assert_true(message.connect && message.done);
    assert_str(message.target, "a.test:443");
    assert_true(forward("GET http://a.test/x HTTP/1.1\r\n\r\n"));
    assert_false(message.connect);
    assert_str(message.target, "http://a.test/x");
    assert_true(forward("GET /x HTTP/1.0\r\n\r\n"));
    assert_false(forward("CONNECT a.test:443 HTTP/1.1\r\n"
                         "Content-Length: 3\r\n\r\n"));
    assert_false(forward("CONNECT a.test:443 HTTP/1.1\r\n"
                         "Transfer-Encoding: chunked\r\n\r\n"));
    assert_string_equal(why, "CONNECT has no body");
    assert_false(request("CONNECT a.test:443 HTTP/1.1\r\n\r\n"));
    assert_false(request("GET http://a.test/x HTTP/1.1\r\n\r\n"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_head_len),
        cmocka_unit_test(test_request),
        cmocka_unit_test(test_request_without_body),
        cmocka_unit_test(test_chunked),
        cmocka_unit_test(test_request_refusals),
        cmocka_unit_test(test_too_many_fields),
        cmocka_unit_test(test_response),
        cmocka_unit_test(test_list_has),
        cmocka_unit_test(test_routes),
        cmocka_unit_test(test_route_refusals),
        cmocka_unit_test(test_fields_that_stay),
        cmocka_unit_test(test_forward),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
