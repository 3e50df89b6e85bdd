/* Tunnels, what waits on its way, and how an exchange ends when one of its sides
 * does not come, leaves, or says no more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <event2/event.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pool/base/clock.h"
#include "tests/support/http/exchange_rig.h"

/* Both halves of a tunnel, and their ends. */
static void
tunnel(const char *ask, const char *asked, const char *grant,
       const char *granted)
{
    size_t head = strlen(asked);

    exchange_dial();
    exchange_say(&exchange.client, ask);
    assert_string_equal(exchange.server.text, asked);
    exchange_say(&exchange.server, grant);
    assert_string_equal(exchange.client.text, granted);
    exchange_forget(&exchange.server);
    exchange_forget(&exchange.client);
    exchange_say(&exchange.client, "ping\r\n\r\n");
    assert_string_equal(exchange.server.text, "ping\r\n\r\n");
    exchange_say(&exchange.server, "pong, HTTP/1.1 400\r\n");
    assert_string_equal(exchange.client.text, "pong, HTTP/1.1 400\r\n");
    assert_int_equal(exchange.sent, head + 8);
    assert_int_equal(exchange.received, strlen(grant) + 20);
    /* One side has said all, the other goes on. */
    assert_int_equal(shutdown(exchange.client.fd, SHUT_WR), 0);
    exchange_settle();
    assert_true(exchange.server.ended);
    assert_false(exchange.client.ended);
    exchange_say(&exchange.server, "!");
    assert_string_equal(exchange.client.text, "pong, HTTP/1.1 400\r\n!");
    assert_int_equal(shutdown(exchange.server.fd, SHUT_WR), 0);
    exchange_settle();
    exchange_over();
    assert_int_equal(exchange.failed, 0);
}

static void
test_an_upgrade_that_is_granted_is_a_tunnel(void **state)
{
    (void)state;
    tunnel("GET /a HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: x/1\r\n\r\n",
           "GET /a HTTP/1.1\r\nVia: test\r\nUpgrade: x/1\r\n"
           "Connection: Upgrade\r\n\r\n",
           "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x/2\r\n"
           "Connection: Upgrade\r\nX: 1\r\n\r\n",
           "HTTP/1.1 101 Switching Protocols\r\nX: 1\r\nUpgrade: x/2\r\n"
           "Connection: Upgrade\r\n\r\n");
}

static void
test_connect_is_a_tunnel(void **state)
{
    (void)state;
    tunnel("CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\n", "", "",
           "HTTP/1.1 200 OK\r\n\r\n");
}

/* What a side has sent before it closes reaches the other. */
static void
test_a_tunnel_that_the_server_closes_ends(void **state)
{
    (void)state;
    exchange_dial();
    exchange_say(&exchange.client, "CONNECT h:1 HTTP/1.1\r\n\r\nearly");
    assert_string_equal(exchange.server.text, "early");
    assert_int_equal(send(exchange.server.fd, "bye", 3, 0), 3);
    assert_int_equal(shutdown(exchange.server.fd, SHUT_WR), 0);
    exchange_settle();
    assert_string_equal(exchange.client.text, "HTTP/1.1 200 OK\r\n\r\nbye");
    exchange_over();
    assert_int_equal(exchange.failed, 0);
    assert_int_equal(exchange.sent, 5);
    assert_int_equal(exchange.received, 3);
}

static size_t
queued(struct bufferevent *side)
{
    return evbuffer_get_length(bufferevent_get_output(side));
}

/* Sends until it is not taken; how much was. */
static size_t
fill(const struct exchange_side *side)
{
    static const char block[4096];
    size_t all = 0;

    for (int still = 0; still < EXCHANGE_STILL_ROUNDS; still++) {
        ssize_t n =
            send(side->fd, block, sizeof block, MSG_DONTWAIT | MSG_NOSIGNAL);

        all += n > 0 ? (size_t)n : 0;
        still = n > 0 ? 0 : still;
        (void)exchange_turn();
    }
    return all;
}

/* 64 KiB wait on their way out, and as many for those; the rest waits in the
 * sender's socket. All arrives once it is taken. */
static void
test_a_tunnel_holds_64_KiB_each_way(void **state)
{
    size_t up;
    size_t down;

    (void)state;
    exchange_dial();
    exchange_say(&exchange.client, "CONNECT h:1 HTTP/1.1\r\n\r\n");
    exchange_forget(&exchange.client);
    exchange.server.held = exchange.client.held = true;
    up = fill(&exchange.client);
    assert_int_equal(queued(exchange.upstream), WP_HTTP_BUFFER);
    down = fill(&exchange.server);
    assert_int_equal(
        queued(wp_http_bufferevent(wp_http_exchange_req(exchange.x))),
        WP_HTTP_BUFFER);
    exchange.server.held = exchange.client.held = false;
    exchange_settle();
    assert_int_equal(exchange.server.len, up);
    assert_int_equal(exchange.client.len, down);
    assert_int_equal(exchange.sent, up);
    assert_int_equal(exchange.received, down);
}

/* Takes so much of what waits for a side that holds still. */
static size_t
sip(const struct exchange_side *side, size_t len)
{
    static char bytes[WP_HTTP_BUFFER];
    size_t all = 0;

    assert_true(len <= sizeof bytes);
    while (all < len) {
        ssize_t n = recv(side->fd, bytes, len - all, MSG_DONTWAIT);

        all += n > 0 ? (size_t)n : 0;
        (void)exchange_turn();
    }
    return all;
}

/* Also when a part of them has just been taken. */
static void
test_a_tunnel_never_holds_more(void **state)
{
    struct bufferevent *client;

    (void)state;
    exchange_dial();
    exchange_say(&exchange.client, "CONNECT h:1 HTTP/1.1\r\n\r\n");
    exchange_forget(&exchange.client);
    client = wp_http_bufferevent(wp_http_exchange_req(exchange.x));
    exchange.server.held = exchange.client.held = true;
    (void)fill(&exchange.client);
    (void)fill(&exchange.server);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(sip(&exchange.server, 7000), 7000);
        assert_int_equal(sip(&exchange.client, 7000), 7000);
        assert_true(queued(exchange.upstream) <= WP_HTTP_BUFFER);
        assert_true(queued(client) <= WP_HTTP_BUFFER);
        (void)fill(&exchange.client);
        (void)fill(&exchange.server);
        assert_true(queued(exchange.upstream) <= WP_HTTP_BUFFER);
        assert_true(queued(client) <= WP_HTTP_BUFFER);
    }
}

/* What both have said before there was a tunnel goes through it, and counts,
 * were it as much in one direction as in the other. */
static void
test_what_was_said_before_a_tunnel_goes_through_it(void **state)
{
    static const char grant[] =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x/1\r\n"
        "Connection: Upgrade\r\n\r\n";
    size_t head;

    (void)state;
    exchange_dial();
    exchange_say(&exchange.client, "GET /a HTTP/1.1\r\nConnection: Upgrade\r\n"
                                   "Upgrade: x/1\r\n\r\n");
    head = exchange.sent;
    exchange_forget(&exchange.server);
    exchange_say(&exchange.client, "ping");
    assert_string_equal(exchange.server.text, "");
    assert_int_equal(exchange.sent, head);
    {
        char both[sizeof grant + 4];

        (void)snprintf(both, sizeof both, "%spong", grant);
        exchange_say(&exchange.server, both);
    }
    assert_string_equal(exchange.server.text, "ping");
    assert_non_null(strstr(exchange.client.text, "\r\n\r\npong"));
    assert_int_equal(exchange.sent, head + 4);
    assert_int_equal(exchange.received, sizeof grant - 1 + 4);
}

/* However many pieces of a body came before its server was there. */
static void
test_a_body_that_waited_is_sent_at_once(void **state)
{
    static char body[50000];

    (void)state;
    for (size_t i = 0; i < sizeof body; i++) {
        body[i] = (char)('a' + i % 26);
    }
    exchange.waits = true;
    exchange_dial();
    exchange_say(&exchange.client,
                 "PUT /a HTTP/1.1\r\nContent-Length: 50000\r\n\r\n");
    for (size_t at = 0; at < sizeof body; at += 1000) {
        exchange_say_bytes(&exchange.client, body + at, 1000);
    }
    exchange.upstream =
        bufferevent_socket_new(exchange.base, -1, BEV_OPT_CLOSE_ON_FREE);
    assert_true(wp_http_exchange_connect(exchange.x, exchange.upstream,
                                         (const struct sockaddr *)&exchange.at,
                                         (int)exchange.at_len));
    exchange_settle();
    assert_true(exchange.server.len > sizeof body);
    assert_memory_equal(exchange.server.text + exchange.server.len -
                            sizeof body,
                        body, sizeof body);
}

/* While 64 KiB of the next requests wait, nobody is asked to take them again
 * and again. */
static void
test_what_waits_costs_nothing(void **state)
{
    (void)state;
    exchange.waits = true;
    exchange_dial();
    exchange_say(&exchange.client, EXCHANGE_GET);
    assert_true(fill(&exchange.client) > WP_HTTP_BUFFER);
    assert_int_equal(
        event_base_get_num_events(exchange.base, EVENT_BASE_COUNT_ACTIVE), 0);
}

/* A body is moved by pieces of what was read, until 64 KiB are there. */
static void
test_a_body_on_its_way_is_bounded(void **state)
{
    size_t up;
    size_t down;
    size_t sent;
    size_t received;

    (void)state;
    exchange_dial();
    exchange_say(&exchange.client,
                 "PUT /a HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n");
    exchange_say(&exchange.server,
                 "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n");
    exchange_forget(&exchange.client);
    exchange_forget(&exchange.server);
    sent = exchange.sent;
    received = exchange.received;
    exchange.server.held = exchange.client.held = true;
    up = fill(&exchange.client);
    assert_in_range(queued(exchange.upstream), WP_HTTP_BUFFER / 2 + 1,
                    2 * WP_HTTP_BUFFER - 1);
    down = fill(&exchange.server);
    assert_in_range(
        queued(wp_http_bufferevent(wp_http_exchange_req(exchange.x))),
        WP_HTTP_BUFFER / 2 + 1, 2 * WP_HTTP_BUFFER - 1);
    exchange.server.held = exchange.client.held = false;
    exchange_settle();
    assert_int_equal(exchange.server.len, up);
    assert_int_equal(exchange.client.len, down);
    assert_int_equal(exchange.sent - sent, up);
    assert_int_equal(exchange.received - received, down);
}

/* ------------------------------------------------------- who does not come */

static void
nobody_listens(void)
{
    assert_int_equal(close(exchange.listener), 0);
    exchange.listener = -1;
}

#define UNREACHED                                                              \
    EXCHANGE_ERROR_HEAD("502 Bad Gateway", "39")                               \
    "{\"error\":\"the test cannot be reached\"}\n"

static void
test_a_server_that_is_not_reached_is_tried_as_often_as_wished(void **state)
{
    (void)state;
    nobody_listens();
    for (uint32_t tries = 0; tries < 3; tries++) {
        exchange.unreached_tries = tries;
        exchange_dial();
        exchange_say(&exchange.client, EXCHANGE_GET);
        assert_string_equal(exchange.client.text, UNREACHED);
        assert_int_equal(exchange.unreached, tries + 1);
        exchange_over();
    }
    exchange.ops.unreached = NULL;
    exchange_dial();
    exchange_say(&exchange.client, EXCHANGE_GET);
    assert_string_equal(exchange.client.text, UNREACHED);
    assert_int_equal(exchange.failed, 1);
}

static void
test_no_memory_for_a_connection_is_a_failure(void **state)
{
    (void)state;
    exchange.waits = true;
    exchange_dial();
    exchange_say(&exchange.client, EXCHANGE_GET);
    assert_string_equal(exchange.client.text, "");
    assert_false(wp_http_exchange_connect(exchange.x, NULL,
                                          (const struct sockaddr *)&exchange.at,
                                          (int)exchange.at_len));
    exchange_settle();
    assert_string_equal(exchange.client.text, UNREACHED);
    assert_int_equal(exchange.failed, 1);
}

/* An answer in the server's place; none once the client has seen a head. */
static void
test_a_failure_of_the_owner_is_told_in_his_words(void **state)
{
    (void)state;
    exchange.waits = true;
    exchange_dial();
    exchange_say(&exchange.client, EXCHANGE_GET);
    assert_false(wp_http_exchange_fail(exchange.x, 503, "no \"room\""));
    exchange_settle();
    assert_string_equal(
        exchange.client.text,
        EXCHANGE_ERROR_HEAD("503 Service Unavailable",
                            "24") "{\"error\":\"no \\\"room\\\"\"}\n");
    assert_int_equal(exchange.failed, 1);
    exchange.waits = false;
    exchange_dial();
    exchange_say(&exchange.client, EXCHANGE_GET);
    exchange_say(&exchange.server,
                 "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx");
    assert_false(wp_http_exchange_fail(exchange.x, 503, "no room"));
    exchange_settle();
    assert_string_equal(exchange.client.text,
                        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx");
    assert_true(exchange.client.ended);
    assert_int_equal(exchange.failed, 1);
}

/* Both sides are dropped, with what is still queued. */
static void
test_what_may_not_move_drops_both_sides(void **state)
{
    (void)state;
    exchange.sent_max = EXCHANGE_GOT_LEN - 1;
    exchange_dial();
    exchange_say(&exchange.client, EXCHANGE_GET);
    assert_string_equal(exchange.client.text, "");
    exchange_over();
    assert_int_equal(exchange.sent, EXCHANGE_GOT_LEN);
    exchange.ops.moved = NULL;
    exchange_dial();
    exchange_say(&exchange.client, EXCHANGE_GET);
    exchange_say(&exchange.server, "HTTP/1.1 204 No Content\r\n\r\n");
    assert_string_equal(exchange.client.text,
                        "HTTP/1.1 204 No Content\r\n\r\n");
}

/* -------------------------------------------------------- who says no more */

static void
test_a_client_that_has_said_all_is_answered(void **state)
{
    (void)state;
    exchange_dial();
    exchange_say(&exchange.client, EXCHANGE_GET);
    assert_int_equal(shutdown(exchange.client.fd, SHUT_WR), 0);
    exchange_settle();
    assert_non_null(exchange.x);
    exchange_say(&exchange.server,
                 "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx");
    assert_string_equal(exchange.client.text,
                        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx");
    exchange_over();
}

static void
test_a_client_that_leaves_takes_its_server_along(void **state)
{
    static const char *const asks[] = {
        EXCHANGE_GET,
        "PUT /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nab",
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(asks); i++) {
        exchange_dial();
        exchange_say(&exchange.client, asks[i]);
        assert_non_null(exchange.x);
        assert_int_equal(close(exchange.client.fd), 0);
        exchange.client.fd = -1;
        exchange_settle();
        assert_null(exchange.x);
        assert_true(exchange.server.ended);
        assert_int_equal(exchange.gone, 1);
        assert_int_equal(exchange.failed, 0);
    }
}

/* The rest of a body is not to come: half of it is no request. */
static void
test_a_client_that_ends_in_its_body_is_dropped(void **state)
{
    (void)state;
    exchange_dial();
    exchange_say(&exchange.client,
                 "PUT /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nab");
    assert_int_equal(shutdown(exchange.client.fd, SHUT_WR), 0);
    exchange_settle();
    assert_true(exchange.client.ended);
    assert_string_equal(exchange.client.text, "");
    assert_string_equal(exchange.server.text,
                        "PUT /a HTTP/1.1\r\nVia: test\r\nContent-Length: 3\r\n"
                        "Connection: close\r\n\r\nab");
    assert_true(exchange.server.ended);
}

/* Asks, lets the server say something, and waits for the end that a clock
 * brings about. */
static void
until_late(const char *ask, const char *answer, const char *expected,
           uint32_t failed)
{
    exchange_dial();
    exchange_say(&exchange.client, ask);
    exchange_say(&exchange.server, answer);
    exchange_wait_end();
    assert_string_equal(exchange.client.text, expected);
    assert_int_equal(exchange.failed, failed);
    exchange_over();
}

#define LATE                                                                   \
    EXCHANGE_ERROR_HEAD("504 Gateway Timeout", "44")                           \
    "{\"error\":\"the test did not answer in time\"}\n"

static void
test_an_answer_is_waited_for_from_the_end_of_the_request(void **state)
{
    (void)state;
    exchange.config.answer_timeout_ns = 500 * WP_NS_PER_MS;
    until_late(EXCHANGE_GET, "", LATE, 1);
    until_late("PUT /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "", LATE, 1);
    until_late(EXCHANGE_GET, "HTTP/1.1 102 Processing\r\n\r\n",
               "HTTP/1.1 102 Processing\r\n\r\n" LATE, 1);
}

static void
test_a_body_that_stalls_is_answered_408(void **state)
{
    (void)state;
    exchange.config.idle_timeout_ns = 500 * WP_NS_PER_MS;
    until_late(
        "PUT /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nab", "",
        EXCHANGE_ERROR_HEAD("408 Request Timeout",
                            "42") "{\"error\":\"the body did not come in "
                                  "time\"}\n",
        0);
}

static void
test_a_silence_is_bounded_once_there_is_an_answer(void **state)
{
    (void)state;
    exchange.config.silence_timeout_ns = 500 * WP_NS_PER_MS;
    until_late(EXCHANGE_GET, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
               "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", 1);
    until_late("CONNECT h:1 HTTP/1.1\r\n\r\n", "", "HTTP/1.1 200 OK\r\n\r\n",
               1);
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_tunnel_never_holds_more,
                                        exchange_set_up, exchange_tear_down),
        cmocka_unit_test_setup_teardown(
            test_what_was_said_before_a_tunnel_goes_through_it, exchange_set_up,
            exchange_tear_down),
        cmocka_unit_test_setup_teardown(test_a_body_that_waited_is_sent_at_once,
                                        exchange_set_up, exchange_tear_down),
        cmocka_unit_test_setup_teardown(
            test_an_upgrade_that_is_granted_is_a_tunnel, exchange_set_up,
            exchange_tear_down),
        cmocka_unit_test_setup_teardown(test_connect_is_a_tunnel,
                                        exchange_set_up, exchange_tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_tunnel_that_the_server_closes_ends, exchange_set_up,
            exchange_tear_down),
        cmocka_unit_test_setup_teardown(test_a_tunnel_holds_64_KiB_each_way,
                                        exchange_set_up, exchange_tear_down),
        cmocka_unit_test_setup_teardown(test_what_waits_costs_nothing,
                                        exchange_set_up, exchange_tear_down),
        cmocka_unit_test_setup_teardown(test_a_body_on_its_way_is_bounded,
                                        exchange_set_up, exchange_tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_server_that_is_not_reached_is_tried_as_often_as_wished,
            exchange_set_up, exchange_tear_down),
        cmocka_unit_test_setup_teardown(
            test_no_memory_for_a_connection_is_a_failure, exchange_set_up,
            exchange_tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_failure_of_the_owner_is_told_in_his_words, exchange_set_up,
            exchange_tear_down),
        cmocka_unit_test_setup_teardown(test_what_may_not_move_drops_both_sides,
                                        exchange_set_up, exchange_tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_client_that_has_said_all_is_answered, exchange_set_up,
            exchange_tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_client_that_leaves_takes_its_server_along, exchange_set_up,
            exchange_tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_client_that_ends_in_its_body_is_dropped, exchange_set_up,
            exchange_tear_down),
        cmocka_unit_test_setup_teardown(
            test_an_answer_is_waited_for_from_the_end_of_the_request,
            exchange_set_up, exchange_tear_down),
        cmocka_unit_test_setup_teardown(test_a_body_that_stalls_is_answered_408,
                                        exchange_set_up, exchange_tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_silence_is_bounded_once_there_is_an_answer, exchange_set_up,
            exchange_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
