/* Each step of the HTTP client, with curl and the event loop as fakes: which
 * options a request is sent with, which one goes when, what each end means and
 * what is said and counted, is compared whole with k8s_http_steps_*.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/k8s/api/http_rig.h"

/* --- Options --- */

/* One of each kind. */
static void
sends_each_kind(void)
{
    fake.shows_options = true;
    create();
    assert_non_null(rig.http);
    gets("/get");
    sends("DELETE", "/delete", NULL, WP_STR(""), WP_HTTP_CLAIM);
    sends("POST", "/post", "application/json", WP_STR("{}"), WP_HTTP_REFILL);
    sends("PUT", "/put", "text/plain", WP_STR(""), WP_HTTP_CLAIM);
    opens(0);
    turn();
    destroy();
}

static void
options(void)
{
    begin("# http, with nothing");
    sends_each_kind();
    begin("# https, with files and a token");
    rig.server = (struct wp_api_config){.server = "https://10.0.0.1:6443",
                                        .ca_file = "the/ca",
                                        .cert_file = "the/cert",
                                        .key_file = "the/key",
                                        .token = "sekret"};
    sends_each_kind();
    begin("# https, with texts, a name of its own, insecure");
    rig.server = (struct wp_api_config){.server = "https://10.0.0.1:6443",
                                        .server_name = "api",
                                        .ca_pem = "ca",
                                        .cert_pem = "cert",
                                        .key_pem = "key",
                                        .insecure = true};
    sends_each_kind();
}

/* Where it connects to, and which name it asks for. */
static void
servers(void)
{
    static const struct {
        char *server;
        char *name;
    } rows[] = {
        {"https://10.0.0.1", "api"},      {"https://[::1]:6443", "api"},
        {"https://10.0.0.1/base", "api"}, {"http://10.0.0.1", "api.local"},
        {"nonsense://", "api"},           {"https://10.0.0.1:6443", "a b"},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        begin("# a server");
        rig.server = (struct wp_api_config){.server = rows[i].server,
                                            .server_name = rows[i].name};
        fake.shows_options = true;
        create();
        if (rig.http != NULL) {
            journal("%s, %s, host %s", rig.http->base_url,
                    ((struct curl_slist *)rig.http->connect_to)->data,
                    rig.http->host_header);
            journal_line();
            destroy();
        } else {
            event_base_free(rig.base);
        }
    }
    for (int i = 0; i < 4; i++) {
        begin("# a file that cannot be read");
        rig.server.ca_file = "the/ca";
        rig.server.cert_file = "the/cert";
        rig.server.key_file = "the/key";
        fake.unreadable = i == 0   ? "the/ca"
                          : i == 1 ? "the/cert"
                          : i == 2 ? "the/key"
                                   : NULL;
        rig.server.token = i == 3 ? "no\ntoken" : NULL;
        fake.shows_options = true;
        create();
        assert_null(rig.http);
        event_base_free(rig.base);
    }
}

/* --- Ends --- */

static void
answers(void)
{
    static const struct {
        const char *method;
        CURLcode result;
        long code;
        long sent;
        curl_off_t after_s;
    } rows[] = {
        {"GET", CURLE_OK, 200, 100, 0},
        {"GET", CURLE_OK, 404, 100, 0},
        {"PUT", CURLE_OK, 409, 100, 0},
        {"GET", CURLE_OK, 503, 100, 1},
        {"GET", CURLE_OK, 200, 100, -1},
        {"GET", CURLE_OK, 200, 100, 86400},
        {"GET", CURLE_OK, 200, 100, 86401},
        {"GET", CURLE_OPERATION_TIMEDOUT, 0, 100, 0},
        {"PUT", CURLE_OPERATION_TIMEDOUT, 0, 1, 0},
        {"PUT", CURLE_OPERATION_TIMEDOUT, 0, 0, 0},
        {"PUT", CURLE_RECV_ERROR, 0, 1, 0},
        {"GET", CURLE_RECV_ERROR, 0, 1, 0},
        {"PUT", CURLE_RECV_ERROR, 200, 1, 2},
        {"GET", CURLE_PEER_FAILED_VERIFICATION, 0, 0, 0},
        {"GET", CURLE_SSL_CACERT_BADFILE, 0, 0, 0},
        {"GET", CURLE_SSL_CERTPROBLEM, 0, 0, 0},
        {"GET", CURLE_SSL_CONNECT_ERROR, 0, 0, 0},
        {"GET", CURLE_COULDNT_RESOLVE_HOST, 0, 0, 0},
        {"GET", CURLE_COULDNT_CONNECT, 0, 0, 0},
        {"PUT", CURLE_COULDNT_CONNECT, 0, 1, 0},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        begin("# an answer");
        create();
        sends(rows[i].method, "/p", NULL, WP_STR(""), WP_HTTP_NORMAL);
        turn();
        if (i % 2 == 0) {
            (void)strcpy(fake.easies[0].error, "curl's words");
        }
        ends_with(0, rows[i].result, rows[i].code, rows[i].sent,
                  rows[i].after_s);
        gets("/next");
        turn();
        if (fake.easies[0].multi >= 0) { /* Nothing is left of the first. */
            ends_with(0, CURLE_RECV_ERROR, 0, 1, 0);
        }
        destroy();
    }
}

static void
bodies(void)
{
    begin("# a body as long as may be, and longer");
    create();
    gets("/p");
    turn();
    bytes_of(0, 200);
    bytes_of(1, 200);
    bytes_of(4095, 200);
    bytes_of(WP_HTTP_BODY_MAX - 4096, 200);
    bytes_of(1, 200);
    ends_with(0, CURLE_WRITE_ERROR, 200, 100, 0);
    gets("/p");
    turn();
    bytes_of(3, 200);
    fake.fails = 1;
    bytes_of(2, 200); /* There is room. */
    assert_int_equal(fake.fails, 1);
    fake.fails = 0;
    ends(0);
    gets("/p");
    turn();
    bytes_of(5000, 200);
    fake.fails = 1;
    bytes_of(WP_HTTP_BODY_MAX / 2, 200);
    ends_with(0, CURLE_WRITE_ERROR, 200, 100, 0);
    destroy();
    begin("# a refusal's words");
    create();
    opens(0);
    turn();
    bytes_of(40000, 500);
    bytes_of(25536, 500);
    bytes_of(1, 500);
    ends_with(0, CURLE_OK, 500, 100, 0);
    opens(0);
    turn();
    bytes_of(70000, 403);
    ends_with(0, CURLE_OK, 403, 100, 0);
    destroy();
}

/* --- Which one goes when --- */

static void
sends_some(int n)
{
    static const char *const paths[] = {"/claim", "/normal", "/refill",
                                        "/spare", "/event"};

    for (int i = 0; i < n; i++) {
        for (int p = WP_HTTP_PRIORITIES - 1; p >= 0; p--) {
            sends("GET", paths[p], NULL, WP_STR(""), (enum wp_http_priority)p);
        }
    }
}

static void
priorities(void)
{
    begin("# priorities: more than may be under way");
    create();
    sends_some(3);
    turn();
    for (int i = 0; i < 15; i++) {
        ends(busy());
    }
    later(20 * WP_NS_PER_MS - 1);
    later(1);
    destroy();
    begin("# priorities: one of each alone");
    rig.config.inflight_max = 64;
    rig.config.connections_max = 16;
    create();
    for (int p = WP_HTTP_PRIORITIES - 1; p >= 0; p--) {
        for (int i = 0; i < 70; i++) {
            sends("GET", "/p", NULL, WP_STR(""), (enum wp_http_priority)p);
        }
        journal_mute(true);
        fake_turn();
        journal_mute(false);
        shows();
    }
    journal_mute(true);
    destroy();
    journal_mute(false);
}

static void
yields(void)
{
    begin("# spare ones make way while claims are served");
    create();
    sends("GET", "/claim", NULL, WP_STR(""), WP_HTTP_CLAIM);
    sends("GET", "/spare1", NULL, WP_STR(""), WP_HTTP_SPARE);
    sends("GET", "/spare2", NULL, WP_STR(""), WP_HTTP_SPARE);
    turn();
    ends(0);
    later(20 * WP_NS_PER_MS - 1);
    later(1);
    destroy();
}

static void
holds(void)
{
    static const long codes[] = {429, 503, 500};

    for (size_t i = 0; i < WP_ARRAY_LEN(codes); i++) {
        for (int p = 0; p < 2; p++) {
            begin("# a server wants to be left alone");
            create();
            sends("GET", "/one", NULL, WP_STR(""), (enum wp_http_priority)p);
            turn();
            ends_with(0, CURLE_OK, codes[i], 100, 5);
            sends("GET", "/two", NULL, WP_STR(""), (enum wp_http_priority)p);
            turn();
            if (fake.easies[0].multi < 0) {
                later(5 * WP_NS_PER_S - 1);
                later(1);
            }
            destroy();
        }
    }
    begin("# for a minute at the most, and no shorter than it said first");
    rig.config.timeout_ns = 0;
    create();
    gets("/one");
    gets("/two");
    gets("/three");
    turn();
    ends_with(0, CURLE_OK, 429, 100, 61);
    gets("/four");
    turn();
    ends_with(1, CURLE_OK, 429, 100, 3);
    ends_with(2, CURLE_OK, 429, 100, 60);
    passes(59 * WP_NS_PER_S);
    gets("/five");
    turn();
    later(WP_NS_PER_S);
    destroy();
    begin("# a date that has passed");
    create();
    gets("/one");
    turn();
    ends_with(0, CURLE_OK, 429, 100, -7);
    gets("/two");
    turn();
    ends_with(0, CURLE_OK, 429, 100, 0);
    destroy();
}

static void
waits_too_long(void)
{
    begin("# waits too long");
    rig.config.inflight_max = 1;
    create();
    sends("GET", "/first", NULL, WP_STR(""), WP_HTTP_CLAIM);
    turn();
    sends_some(1);
    turn();
    later(10 * WP_NS_PER_S - 1);
    later(1);
    later(50 * WP_NS_PER_S - 1);
    later(1);
    ends(0);
    destroy();
}

static void
has_a_bucket(void)
{
    begin("# a bucket");
    rig.config.qps = 10;
    rig.config.burst = 8;
    rig.config.inflight_max = 64;
    rig.config.connections_max = 16;
    create();
    sends_some(4);
    turn();
    later(100 * WP_NS_PER_MS);
    later(400 * WP_NS_PER_MS);
    destroy();
}

/* --- Refusals --- */

static void
refuses(void)
{
    char path[WP_HTTP_PATH_MAX + 1];

    begin("# refuses");
    rig.config.queue_max = 2;
    create();
    memset(path, 'p', sizeof path);
    path[0] = '/';
    path[WP_HTTP_PATH_MAX] = '\0';
    wp_http_send(rig.http, &(struct wp_http_request){.method = "GET",
                                                     .path = path,
                                                     .done = on_done,
                                                     .ctx = "long"});
    wp_http_send(rig.http, &(struct wp_http_request){.method = "GET",
                                                     .path = "",
                                                     .done = on_done,
                                                     .ctx = "empty"});
    gets("no-slash");
    gets("/one");
    gets("/two");
    gets("/three");
    rig.sends_more = 1;
    turn();
    path[WP_HTTP_PATH_MAX - 1] = '\0';
    journal_mute(true);
    wp_http_send(rig.http,
                 &(struct wp_http_request){.method = "GET", .path = path});
    fake_turn();
    journal_mute(false);
    shows();
    destroy();
}

static void
forbids(void)
{
    begin("# forbids");
    rig.config.may_send = may_send;
    rig.config.ctx = &rig;
    create();
    rig.forbidden = "/no";
    gets("/no");
    gets("/yes");
    turn();
    journal("before it goes: %d",
            fake.easies[0].before(fake.easies[0].before_ctx, NULL, NULL, 0, 0));
    journal_line();
    rig.forbidden = "/yes";
    journal("before it goes: %d",
            fake.easies[0].before(fake.easies[0].before_ctx, NULL, NULL, 0, 0));
    journal_line();
    ends_with(0, CURLE_ABORTED_BY_CALLBACK, 0, 0, 0);
    rig.forbidden = NULL;
    sends("PUT", "/a", NULL, WP_STR(""), WP_HTTP_CLAIM);
    sends("PUT", "/b", NULL, WP_STR(""), WP_HTTP_CLAIM);
    sends("PUT", "/a", NULL, WP_STR(""), WP_HTTP_NORMAL);
    turn();
    rig.forbidden = "/a";
    say("asks again");
    wp_http_ask_again(rig.http);
    turn();
    say("once");
    fake_fire(1, EV_TIMEOUT);
    turn();
    ends(1);
    destroy();
}

/* What a handle has sent before is of no interest. */
static void
sends_at_first(void)
{
    struct fake_easy *easy = &fake.easies[0];

    begin("# sends at first");
    rig.server.token = "sekret";
    create();
    sends("POST", "/p", "text/plain", WP_STR("x"), WP_HTTP_NORMAL);
    turn();
    easy->sent = 7;
    journal("before it goes: %d",
            easy->before(easy->before_ctx, NULL, NULL, 0, 0));
    journal_line();
    bytes_of(3, 401);
    fake.token_changes = true;
    ends_with(0, CURLE_OK, 401, 100, 0);
    easy = &fake.easies[busy()];
    easy->sent = 7;
    journal("before it goes again: %d",
            easy->before(easy->before_ctx, NULL, NULL, 0, 0));
    journal_line();
    ends(busy());
    destroy();
}

/* A request that changes something is not sent twice. */
static void
sends_once(void)
{
    static const char *const methods[] = {"GET", "POST"};

    for (size_t i = 0; i < 2; i++) {
        begin("# sends once");
        create();
        sends(methods[i], "/p", NULL, WP_STR(""), WP_HTTP_NORMAL);
        turn();
        for (long sent = 0; sent < 2; sent++) {
            for (int n = 0; n < 2; n++) {
                struct fake_easy *easy = &fake.easies[0];

                easy->sent = sent;
                journal("%ld bytes sent: %d", sent,
                        easy->before(easy->before_ctx, NULL, NULL, 0, 0));
                journal_line();
            }
        }
        destroy();
    }
}

/* --- Connections --- */

static void
learns_what_it_speaks(void)
{
    begin("# learns what it speaks");
    rig.config.inflight_max = 64;
    rig.config.connections_max = 2;
    create();
    opens(0);
    for (int i = 0; i < 12; i++) {
        gets("/p");
    }
    turn();
    fake.easies[0].version = CURL_HTTP_VERSION_2_0;
    fake.easies[1].version = CURL_HTTP_VERSION_2_0;
    fake.easies[2].version = CURL_HTTP_VERSION_2_0;
    say("2 of a stream tells nothing");
    ends(0);
    say("2");
    ends(1);
    say("2 again");
    ends(2);
    say("1.1");
    fake.easies[3].version = CURL_HTTP_VERSION_1_1;
    ends(3);
    for (int i = 0; i < 3; i++) {
        gets("/more");
    }
    turn();
    destroy();
}

/* A server that says nothing for a whole request gets a new connection. */
static void
connects_anew(void)
{
    static const struct {
        CURLcode result;
        uint32_t attempts;
        int64_t heard_ms; /* After it began; -1: before. */
    } rows[] = {
        {CURLE_OPERATION_TIMEDOUT, 1, -1}, {CURLE_OPERATION_TIMEDOUT, 0, -1},
        {CURLE_OPERATION_TIMEDOUT, 1, 0},  {CURLE_OPERATION_TIMEDOUT, 1, 1},
        {CURLE_COULDNT_CONNECT, 1, -1},    {CURLE_OPERATION_TIMEDOUT, 1, -1},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        begin("# connects anew");
        create();
        gets("/heard");
        turn();
        if (rows[i].heard_ms < 0) {
            ends(0);
            passes(1);
        }
        gets("/silent");
        turn();
        if (rows[i].heard_ms >= 0) {
            passes(rows[i].heard_ms * WP_NS_PER_MS);
            ends(0);
        }
        gets("/beside");
        turn();
        for (uint32_t n = 0; n < rows[i].attempts; n++) {
            struct fake_easy *easy = &fake.easies[rows[i].heard_ms >= 0];

            (void)easy->before(easy->before_ctx, NULL, NULL, 0, 0);
        }
        ends_with(rows[i].heard_ms >= 0, rows[i].result, 0, 9, 0);
        gets("/next");
        turn();
        for (int h = 0; h < 3 && i != 5; h++) {
            if (h < fake.easies_len && fake.easies[h].multi >= 0 &&
                strstr(fake.easies[h].url, "beside") != NULL) {
                ends(h);
                break;
            }
        }
        destroy();
    }
}

static void
asks_with_a_newer_token(void)
{
    begin("# asks with a newer token");
    rig.server.token = "sekret";
    create();
    fake.shows_options = false;
    gets("/one");
    turn();
    passes(3 * WP_NS_PER_S);
    fake.token_changes = true;
    fake.shows_options = true;
    ends_with(0, CURLE_OK, 401, 100, 0);
    fake.shows_options = false;
    ends_with(busy(), CURLE_OK, 401, 100, 0);
    fake.token_changes = false;
    gets("/two");
    turn();
    ends_with(busy(), CURLE_OK, 401, 100, 0);
    gets("/three");
    turn();
    fake.token_changes = true;
    ends_with(busy(), CURLE_RECV_ERROR, 401, 100, 0);
    destroy();
}

/* --- Sockets and timers --- */

static void
sockets(void)
{
    static const int whats[] = {CURL_POLL_IN, CURL_POLL_OUT, CURL_POLL_INOUT};
    struct fake_multi *multi = &fake.multis[0];
    struct event *known = NULL;

    begin("# sockets");
    create();
    for (size_t i = 0; i < WP_ARRAY_LEN(whats); i++) {
        journal("curl wants %d", whats[i]);
        journal_line();
        assert_int_equal(
            multi->socket(NULL, 77, whats[i], multi->socket_ctx, known), 0);
        known = fake.events[fake.events_len - 1].event;
        fake_fire(fake.events_len - 1, EV_READ);
        fake_fire(fake.events_len - 1, EV_WRITE);
        fake_fire(fake.events_len - 1, EV_READ | EV_WRITE);
    }
    say("curl wants no more");
    assert_int_equal(
        multi->socket(NULL, 77, CURL_POLL_REMOVE, multi->socket_ctx, known), 0);
    assert_int_equal(
        multi->socket(NULL, 78, CURL_POLL_REMOVE, multi->socket_ctx, NULL), 0);
    say("no event for it");
    fake.fails = 1;
    assert_int_equal(
        multi->socket(NULL, 77, CURL_POLL_IN, multi->socket_ctx, NULL), -1);
    fake.adds_fail = 1;
    assert_int_equal(
        multi->socket(NULL, 77, CURL_POLL_IN, multi->socket_ctx, NULL), -1);
    say("timers");
    assert_int_equal(multi->timer(multi, 0, multi->timer_ctx), 0);
    assert_int_equal(multi->timer(multi, 1500, multi->timer_ctx), 0);
    assert_int_equal(multi->timer(multi, -1, multi->timer_ctx), 0);
    fake.adds_fail = 1;
    assert_int_equal(multi->timer(multi, 1, multi->timer_ctx), -1);
    fake_fire(2, EV_TIMEOUT);
    fake_fire(3, EV_TIMEOUT);
    destroy();
}

/* What the kernel is told of each connection. */
static void
socket_options(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int probes = 0;
    int silence_ms = 0;
    socklen_t len = sizeof probes;

    begin("# socket options");
    create();
    gets("/p");
    fake_turn();
    assert_true(fd >= 0);
    assert_int_equal(fake.easies[0].socket_made(NULL, fd, CURLSOCKTYPE_IPCXN),
                     CURL_SOCKOPT_OK);
    /* TCP_KEEPCNT and TCP_USER_TIMEOUT of the kernel. */
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, 6, &probes, &len), 0);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, 18, &silence_ms, &len), 0);
    assert_int_equal(probes, 3);
    assert_int_equal(silence_ms, 15000);
    (void)close(fd);
    destroy();
}

/* --- Streams --- */

static void
streams(void)
{
    begin("# a stream");
    create();
    opens(2 * WP_NS_PER_S);
    turn();
    journal("answered %d", wp_http_stream_answered(rig.stream));
    fake.easies[0].code = 403;
    journal(" %d", wp_http_stream_answered(rig.stream));
    fake.easies[0].code = 200;
    journal(" %d", wp_http_stream_answered(rig.stream));
    journal_line();
    bytes_of(3, 200);
    passes(2 * WP_NS_PER_S - 1);
    fake_fire(4, EV_TIMEOUT);
    bytes_of(4, 200);
    passes(2 * WP_NS_PER_S - 1);
    fake_fire(4, EV_TIMEOUT);
    passes(1);
    fake_fire(4, EV_TIMEOUT);
    turn();
    destroy();
    begin("# a stream that is silent from the beginning");
    create();
    passes(WP_NS_PER_S);
    opens(2 * WP_NS_PER_S);
    turn();
    passes(2 * WP_NS_PER_S - 1);
    fake_fire(4, EV_TIMEOUT);
    passes(1);
    fake_fire(4, EV_TIMEOUT);
    destroy();
    begin("# a stream that is closed at the end of all");
    create();
    opens(0);
    turn();
    wp_http_stream_close(rig.stream);
    destroy();
    begin("# a stream that its owner ends");
    create();
    opens(0);
    turn();
    rig.stops = true;
    bytes_of(3, 200);
    ends_with(0, CURLE_WRITE_ERROR, 200, 100, 0);
    destroy();
    begin("# a stream that is closed");
    create();
    opens(WP_NS_PER_S);
    journal("answered %d", wp_http_stream_answered(rig.stream));
    journal_line();
    turn();
    wp_http_stream_close(rig.stream);
    bytes_of(3, 200);
    passes(WP_NS_PER_S);
    fake_fire(4, EV_TIMEOUT);
    turn();
    opens(0);
    wp_http_stream_close(rig.stream);
    turn();
    destroy();
    begin("# streams that end");
    create();
    opens(0);
    turn();
    ends(0);
    opens(0);
    turn();
    ends_with(0, CURLE_RECV_ERROR, 0, 50, 0);
    opens(0);
    turn();
    fake.easies[0].code = 500;
    rig.stops = true;
    bytes_of(3, 500);
    ends_with(0, CURLE_OK, 500, 50, 0);
    destroy();
}

/* --- The end --- */

static void
ends_all(void)
{
    begin("# ends all");
    rig.config.inflight_max = 1;
    create();
    opens(0);
    gets("/one");
    turn();
    opens(WP_NS_PER_S);
    gets("/two");
    sends("GET", "/claim", NULL, WP_STR(""), WP_HTTP_CLAIM);
    gets("no-slash");
    rig.sends_more = 3;
    destroy();
    wp_http_destroy(NULL);
}

/* --- The tests --- */

#define STORY(name) WP_TEST_STORY "_" name ".txt"

static void
how_it_asks(void **state)
{
    (void)state;
    options();
    servers();
    journal_compare(STORY("options"));
}

static void
what_ends_mean(void **state)
{
    (void)state;
    answers();
    bodies();
    sends_at_first();
    sends_once();
    refuses();
    forbids();
    socket_options();
    journal_compare(STORY("ends"));
}

static void
which_goes_when(void **state)
{
    (void)state;
    priorities();
    yields();
    holds();
    waits_too_long();
    has_a_bucket();
    journal_compare(STORY("order"));
}

static void
how_it_connects(void **state)
{
    (void)state;
    learns_what_it_speaks();
    connects_anew();
    asks_with_a_newer_token();
    sockets();
    streams();
    ends_all();
    journal_compare(STORY("links"));
}

/* Whatever fails while it is made, nothing of it is left. */
static void
no_client(void **state)
{
    uint32_t n = 1;

    (void)state;
    for (;; n++) {
        struct wp_err err = {.msg = ""};

        begin("# no client");
        rig.server.server_name = "api";
        rig.server.token = "sekret";
        fake.fails = n;
        rig.http = wp_http_create(&rig.config, &err);
        if (rig.http != NULL) {
            break;
        }
        assert_int_equal(fake.fails, 0);
        assert_true(err.status == WP_RESOURCE_EXHAUSTED ||
                    err.status == WP_INTERNAL);
        assert_true(err.msg[0] != '\0');
        for (int i = 0; i < fake.events_len; i++) {
            assert_null(fake.events[i].event);
        }
        for (int i = 0; i < fake.multis_len; i++) {
            assert_false(fake.multis[i].alive);
        }
        event_base_free(rig.base);
    }
    fake.fails = 0;
    assert_in_range(n, 20, 60);
    destroy();
    journal_drop();
}

#define NOT_BEGUN "UNAVAILABLE 0 after -1 'it could not be begun' \n"

/* Whatever fails while a request or a stream is begun, it ends unsent, and the
 * next one is sent. */
static void
nothing_begun(void **state)
{
    (void)state;
    for (int streams_ = 0; streams_ < 2; streams_++) {
        uint32_t n = 1;
        bool begun = false;

        for (; !begun; n++) {
            begin("# nothing begun");
            rig.server.ca_file = "the/ca";
            rig.server.cert_file = "the/cert";
            rig.server.key_pem = "key";
            rig.server.server_name = "api";
            rig.server.token = "sekret";
            create();
            assert_non_null(rig.http);
            journal_drop();
            if (streams_) {
                opens(0);
            } else {
                sends("POST", "/p", "text/plain", WP_STR("x"), WP_HTTP_NORMAL);
                gets("/second");
            }
            journal_drop();
            fake.fails = n;
            fake_turn();
            begun = fake.fails != 0;
            fake.fails = 0;
            if (!begun) {
                /* Of two the second waits when there was none for the first. */
                bool first =
                    strstr(journal_text(), streams_ ? "stream ends " NOT_BEGUN
                                                    : "/p " NOT_BEGUN) != NULL;

                assert_true(first ? strstr(journal_text(), "begins") == NULL
                                  : strstr(journal_text(),
                                           "/second " NOT_BEGUN) != NULL);
                gets("/next");
                fake_turn();
                assert_non_null(strstr(journal_text(), "begins"));
            }
            journal_mute(true);
            destroy();
            journal_mute(false);
            journal_drop();
        }
        assert_in_range(n, 25, 120);
    }
}

/* A stream that has no memory for itself or its timer is none, and leaves
 * nothing. */
static void
no_stream(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 3; n++) {
        begin("# no stream");
        create();
        fake.fails = n;
        opens(WP_NS_PER_S);
        fake.fails = 0;
        journal_is(n < 3 ? "# no stream\nopens no stream\n"
                         : "# no stream\n  e4 in 1.000000\nopens a stream\n");
        journal_mute(true);
        destroy();
        journal_mute(false);
        journal_drop();
    }
}

/* No more handles are kept than may be of use. */
static void
keeps_some_handles(void **state)
{
    int kept = 0;

    (void)state;
    begin("# keeps some handles");
    journal_mute(true);
    rig.config.inflight_max = 100;
    rig.config.connections_max = 25;
    create();
    for (int i = 0; i < 70; i++) {
        sends("GET", "/p", NULL, WP_STR(""), WP_HTTP_CLAIM);
    }
    fake_turn();
    assert_int_equal(fake.easies_len, 70);
    for (int i = 0; i < 70; i++) {
        fake_end(i, CURLE_OK);
    }
    for (int i = 0; i < 70; i++) {
        kept += fake.easies[i].curl != NULL;
    }
    assert_int_equal(kept, 64);
    for (int i = 0; i < 66; i++) {
        sends("GET", "/p", NULL, WP_STR(""), WP_HTTP_CLAIM);
    }
    fake_turn();
    assert_int_equal(fake.easies_len, 72);
    kept = 0;
    for (int i = 0; i < 72; i++) {
        if (fake.easies[i].multi >= 0) {
            fake_end(i, CURLE_OK);
        }
    }
    for (int i = 0; i < 72; i++) {
        kept += fake.easies[i].curl != NULL;
    }
    assert_int_equal(kept, 64);
    destroy();
    journal_mute(false);
    journal_drop();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(how_it_asks),     cmocka_unit_test(what_ends_mean),
        cmocka_unit_test(which_goes_when), cmocka_unit_test(how_it_connects),
        cmocka_unit_test(no_client),       cmocka_unit_test(nothing_begun),
        cmocka_unit_test(no_stream),       cmocka_unit_test(keeps_some_handles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
