/* What a server is asked, and what a client is answered, in full. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pool/base/clock.h"
#include "tests/support/http/exchange_rig.h"

struct row {
    const char *ask;
    const char *say; /* "" and ends: it closes without a word. */
    bool ends;
    const char *asked;
    const char *answered;
    bool stays; /* The client's connection. */
    uint32_t failed;
    size_t sent;
    size_t received;
};

static void
check(const struct row *row)
{
    exchange_dial();
    exchange_say(&exchange.client, row->ask);
    exchange_say(&exchange.server, row->say);
    if (row->ends) {
        assert_int_equal(shutdown(exchange.server.fd, SHUT_WR), 0);
        exchange_settle();
    }
    assert_string_equal(exchange.server.text, row->asked);
    assert_string_equal(exchange.client.text, row->answered);
    assert_int_equal(exchange.client.ended, !row->stays);
    assert_int_equal(exchange.failed, row->failed);
    assert_int_equal(exchange.sent, row->sent);
    assert_int_equal(exchange.received, row->received);
    assert_true(exchange.server.ended);
    assert_int_equal(exchange.begun, 1);
    if (exchange.client.ended) {
        exchange_over();
    }
    assert_int_equal(exchange.gone, 1);
}

static const struct row whole[] = {
    /* Fields of one hop, those the proxy drops, and Expect stay behind. */
    {"GET /a?b HTTP/1.1\r\nHost: h\r\nConnection: close, X-Hop\r\n"
     "X-Hop: 1\r\nX-Asked: 1\r\nX-Answered: 2\r\nX-Empty:\r\nTE: x\r\n\r\n",
     "HTTP/1.1 200 OK\r\nX-Asked: 3\r\nX-Answered: 4\r\nKeep-Alive: 5\r\n"
     "Expect: 6\r\nContent-Length: 5\r\n\r\nhello",
     false,
     "GET /a?b HTTP/1.1\r\nVia: test\r\nHost: h\r\nX-Answered: 2\r\n"
     "X-Empty: \r\nConnection: close\r\n\r\n",
     "HTTP/1.1 200 OK\r\nX-Asked: 3\r\nContent-Length: 5\r\n"
     "Connection: close\r\n\r\nhello",
     false, 0, 86, 96},
    /* The connection is used again, whatever the server does with its own. */
    {EXCHANGE_GET, "HTTP/1.0 404 Not Found\r\nContent-Length: 2\r\n\r\nno!",
     false, EXCHANGE_GOT,
     "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", true, 0,
     EXCHANGE_GOT_LEN, 47},
    /* Chunks are written anew, without extensions and trailers. */
    {"PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
     "003;x=y\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nX-T: 1\r\n\r\n",
     "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n"
     "01\r\nx\r\n00\r\nX-T: 2\r\n\r\n",
     false,
     "PUT /a HTTP/1.1\r\nVia: test\r\nTransfer-Encoding: chunked\r\n"
     "Connection: close\r\n\r\n"
     "3\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n",
     "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n"
     "1\r\nx\r\n0\r\n\r\n",
     true, 0, 126, 73},
    {"PUT /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
     "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false,
     "PUT /a HTTP/1.1\r\nVia: test\r\nContent-Length: 3\r\n"
     "Connection: close\r\n\r\nabc",
     "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true, 0, 71, 38},
    /* Up to the end of the connection. */
    {EXCHANGE_GET, "HTTP/1.1 200 OK\r\n\r\nall of it", true, EXCHANGE_GOT,
     "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it", false, 0,
     EXCHANGE_GOT_LEN, 28},
    /* No body, whatever is announced; HEAD is told the length. */
    {"HEAD /a HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n",
     false, "HEAD /a HTTP/1.1\r\nVia: test\r\nConnection: close\r\n\r\n",
     "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", true, 0, 50, 38},
    {"HEAD /a HTTP/1.1\r\n\r\n",
     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false,
     "HEAD /a HTTP/1.1\r\nVia: test\r\nConnection: close\r\n\r\n",
     "HTTP/1.1 200 OK\r\n\r\n", true, 0, 50, 47},
    {EXCHANGE_GET, "HTTP/1.1 204 No Content\r\nContent-Length: 7\r\n\r\n",
     false, EXCHANGE_GOT, "HTTP/1.1 204 No Content\r\n\r\n", true, 0,
     EXCHANGE_GOT_LEN, 46},
    {EXCHANGE_GET, "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n",
     false, EXCHANGE_GOT, "HTTP/1.1 304 Not Modified\r\n\r\n", true, 0,
     EXCHANGE_GOT_LEN, 48},
    /* HTTP/1.0 knows neither 1xx nor chunks, and its connection ends. */
    {"GET /a?b HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
     "HTTP/1.1 102 Processing\r\nLink: x\r\n\r\n"
     "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
     false, EXCHANGE_GOT,
     "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx",
     false, 0, EXCHANGE_GOT_LEN, 75},
    {"GET /a?b HTTP/1.0\r\n\r\n",
     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false,
     EXCHANGE_GOT,
     EXCHANGE_ERROR_HEAD(
         "502 Bad Gateway",
         "48") "{\"error\":\"the test answers HTTP/1.0 in chunks\"}\n",
     false, 1, EXCHANGE_GOT_LEN, 47},
    {EXCHANGE_GET,
     "HTTP/1.1 102 Processing\r\nLink: x\r\nContent-Length: 2\r\n\r\n"
     "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
     false, EXCHANGE_GOT,
     "HTTP/1.1 102 Processing\r\nLink: x\r\n\r\n"
     "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
     true, 0, EXCHANGE_GOT_LEN, 94},
    /* Whatever number it is, words are the server's own affair. */
    {EXCHANGE_GET,
     "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
     "HTTP/1.1 299 Fine\r\nContent-Length: 1\r\n\r\nx",
     false, EXCHANGE_GOT,
     "HTTP/1.1 103 \r\nLink: x\r\n\r\n"
     "HTTP/1.1 299 \r\nContent-Length: 1\r\n\r\nx",
     true, 0, EXCHANGE_GOT_LEN, 78},
    /* An upgrade that the server refuses. */
    {"GET /a HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: x/1\r\n\r\n",
     "HTTP/1.1 400 Bad Request\r\nContent-Length: 1\r\n\r\nx", false,
     "GET /a HTTP/1.1\r\nVia: test\r\nUpgrade: x/1\r\n"
     "Connection: Upgrade\r\n\r\n",
     "HTTP/1.1 400 Bad Request\r\nContent-Length: 1\r\n"
     "Connection: close\r\n\r\nx",
     false, 0, 65, 48},
};

static const struct row broken[] = {
    {EXCHANGE_GET, "HTTP/1.1 101 Switching Protocols\r\n\r\n", false,
     EXCHANGE_GOT,
     EXCHANGE_ERROR_HEAD("502 Bad Gateway",
                         "58") "{\"error\":\"the test changes "
                               "protocol without being asked\"}\n",
     false, 1, EXCHANGE_GOT_LEN, 36},
    {EXCHANGE_GET, "", true, EXCHANGE_GOT,
     EXCHANGE_ERROR_HEAD(
         "502 Bad Gateway",
         "46") "{\"error\":\"the test closed without an answer\"}\n",
     false, 1, EXCHANGE_GOT_LEN, 0},
    {EXCHANGE_GET, "garbage\r\n\r\n", false, EXCHANGE_GOT,
     EXCHANGE_ERROR_HEAD(
         "502 Bad Gateway",
         "46") "{\"error\":\"the test's answer is not HTTP/1.1\"}\n",
     false, 1, EXCHANGE_GOT_LEN, 0},
    /* Once a head is out, a cut answer says so. */
    {EXCHANGE_GET, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", true,
     EXCHANGE_GOT, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", false, 1,
     EXCHANGE_GOT_LEN, 42},
    {EXCHANGE_GET,
     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n?", false,
     EXCHANGE_GOT,
     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", false,
     1, EXCHANGE_GOT_LEN, 47},
    {"PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n", "",
     false,
     "PUT /a HTTP/1.1\r\nVia: test\r\nTransfer-Encoding: chunked\r\n"
     "Connection: close\r\n\r\n1\r\nx\r\n",
     EXCHANGE_ERROR_HEAD("400 Bad Request",
                         "41") "{\"error\":\"the request's body is broken\"}\n",
     false, 0, 77, 0},
    /* Answered before the body has come: it is not waited for. */
    {"PUT /a HTTP/1.1\r\nContent-Length: 3\r\n\r\na",
     "HTTP/1.1 413 Payload Too Large\r\nContent-Length: 0\r\n\r\n", false,
     "PUT /a HTTP/1.1\r\nVia: test\r\nContent-Length: 3\r\n"
     "Connection: close\r\n\r\na",
     "HTTP/1.1 413 Payload Too Large\r\nContent-Length: 0\r\n\r\n", false, 0,
     69, 53},
};

static void
test_all_that_both_sides_see(void **state)
{
    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(whole); i++) {
        check(&whole[i]);
    }
}

static void
test_all_that_both_sides_see_of_a_failure(void **state)
{
    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(broken); i++) {
        check(&broken[i]);
    }
}

/* A text n times, and one more behind it. */
static const char *
repeat(const char *text, int n, const char *then)
{
    static char out[4096];
    int len = 0;

    for (int i = 0; i < n; i++) {
        len += snprintf(out + len, sizeof out - (size_t)len, "%s", text);
    }
    (void)snprintf(out + len, sizeof out - (size_t)len, "%s", then);
    return out;
}

static void
test_sixteen_heads_may_come_before_the_answer(void **state)
{
    static const char hint[] = "HTTP/1.1 102 Processing\r\n\r\n";
    static const char answer[] = "HTTP/1.1 204 No Content\r\n\r\n";

    (void)state;
    exchange_dial();
    exchange_say(&exchange.client, EXCHANGE_GET);
    exchange_say(&exchange.server, repeat(hint, 16, answer));
    assert_string_equal(exchange.client.text, repeat(hint, 16, answer));
    assert_int_equal(exchange.failed, 0);
    exchange_dial();
    exchange_say(&exchange.client, EXCHANGE_GET);
    exchange_say(&exchange.server, repeat(hint, 17, answer));
    assert_string_equal(
        exchange.client.text,
        repeat(hint, 16,
               EXCHANGE_ERROR_HEAD("502 Bad Gateway",
                                   "51") "{\"error\":\"the test "
                                         "sends one 1xx after the "
                                         "other\"}\n"));
    assert_int_equal(exchange.failed, 1);
}

static void
test_a_head_has_16384_bytes_at_most(void **state)
{
    static char head[WP_HTTP_HEAD_MAX + 8];
    static char expected[WP_HTTP_HEAD_MAX + 64];
    static const char start[] = "HTTP/1.1 204 No Content\r\nX: ";

    (void)state;
    for (size_t over = 0; over <= 1; over++) {
        size_t len = WP_HTTP_HEAD_MAX + over;

        memset(head, 'x', sizeof head);
        memcpy(head, start, sizeof start - 1);
        memcpy(head + len - 4, "\r\n\r\n", 5);
        (void)snprintf(expected, sizeof expected, "%s", head);
        if (over > 0) {
            (void)snprintf(
                expected, sizeof expected, "%s",
                EXCHANGE_ERROR_HEAD("502 Bad Gateway",
                                    "50") "{\"error\":\"the test's answer "
                                          "has too long a head\"}\n");
        }
        exchange_dial();
        exchange_say(&exchange.client, EXCHANGE_GET);
        exchange_say_bytes(&exchange.server, head, len);
        assert_string_equal(exchange.client.text, expected);
        assert_int_equal(exchange.failed, over);
        assert_int_equal(exchange.received, over > 0 ? 0 : len);
    }
}

/* The next request goes to a server of its own. */
static void
test_a_connection_takes_the_next_request(void **state)
{
    (void)state;
    exchange_dial();
    exchange_say(&exchange.client,
                 EXCHANGE_GET "PUT /c HTTP/1.1\r\nContent-Length: 1\r\n\r\nx");
    assert_string_equal(exchange.server.text, EXCHANGE_GOT);
    exchange_say(&exchange.server,
                 "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1");
    assert_true(exchange.server.ended);
    exchange_leave(&exchange.server);
    exchange_settle();
    assert_string_equal(exchange.server.text,
                        "PUT /c HTTP/1.1\r\nVia: test\r\nContent-Length: 1\r\n"
                        "Connection: close\r\n\r\nx");
    exchange_say(&exchange.server,
                 "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2");
    assert_string_equal(exchange.client.text,
                        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1"
                        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2");
    assert_false(exchange.client.ended);
    assert_int_equal(exchange.gone, 2);
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_that_both_sides_see,
                                        exchange_set_up, exchange_tear_down),
        cmocka_unit_test_setup_teardown(
            test_all_that_both_sides_see_of_a_failure, exchange_set_up,
            exchange_tear_down),
        cmocka_unit_test_setup_teardown(
            test_sixteen_heads_may_come_before_the_answer, exchange_set_up,
            exchange_tear_down),
        cmocka_unit_test_setup_teardown(test_a_head_has_16384_bytes_at_most,
                                        exchange_set_up, exchange_tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_connection_takes_the_next_request, exchange_set_up,
            exchange_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
