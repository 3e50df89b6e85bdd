/* The HTTP client: what each kind of end is called. A server in the same event
 * loop does what the test says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/assert.h"
#include "tests/support/http/http_rig.h"
#include "tests/support/base/temp_dir.h"

/* The rig is large; one at a time. */
static struct rig rig;

static int multis_left = 100; /* As many can be made. */

void *__real_curl_multi_init(void);
void *__wrap_curl_multi_init(void);

void *
__wrap_curl_multi_init(void)
{
    return multis_left-- > 0 ? __real_curl_multi_init() : NULL;
}

/* Neither the link of requests nor that of streams can be done without. */
static void
no_memory(void **state)
{
    (void)state;
    for (int n = 0; n < 2; n++) {
        struct wp_err err;

        rig_init(&rig, NULL);
        multis_left = n;
        rig.http = wp_http_create(&rig.config, &err);
        multis_left = 100;
        assert_null(rig.http);
        assert_int_equal(err.status, WP_RESOURCE_EXHAUSTED);
        rig_fini(&rig);
    }
}

static void
ignore(struct rig *r, const struct peer_request *request)
{
    (void)r;
    (void)request;
}

static void
get_and_send(void **state)
{
    (void)state;
    rig_init(&rig, NULL);
    rig_connect(&rig);
    rig_get(&rig, "/a?b=c", WP_HTTP_NORMAL, 1);
    assert_int_equal(rig.answer_count, 0);
    rig_wait(&rig, &rig.answer_count, 1);
    assert_int_equal(rig.answers[0].status, WP_OK);
    assert_int_equal(rig.answers[0].code, 200);
    assert_string_equal(rig.answers[0].body, "/a?b=c");
    assert_int_equal(rig.answers[0].retry_after_ns, -1);
    assert_string_equal(rig.requests[0].method, "GET");
    assert_string_equal(rig.requests[0].authorization, "");
    rig_send(&rig, "PATCH", "/p", "{\"x\":1}", WP_HTTP_CLAIM, 2);
    rig_wait(&rig, &rig.answer_count, 2);
    assert_string_equal(rig.requests[1].method, "PATCH");
    assert_string_equal(rig.requests[1].content_type, "application/json");
    assert_string_equal(rig.requests[1].body, "{\"x\":1}");
    /* And a GET on the same handle has no body again. */
    rig_get(&rig, "/g", WP_HTTP_NORMAL, 3);
    rig_wait(&rig, &rig.answer_count, 3);
    assert_string_equal(rig.requests[2].method, "GET");
    assert_string_equal(rig.requests[2].content_type, "");
    assert_int_equal(rig.requests[2].body_len, 0);
    assert_int_equal(peer_accepted(rig.peer), 1);
    rig_fini(&rig);
}

/* A path that could not be built never reaches the server. */
static void
no_path(void **state)
{
    (void)state;
    rig_init(&rig, NULL);
    rig_connect(&rig);
    rig_get(&rig, "", WP_HTTP_NORMAL, 1);
    assert_int_equal(rig.answer_count, 0);
    rig_wait(&rig, &rig.answer_count, 1);
    assert_int_equal(rig.answers[0].status, WP_INVALID_ARGUMENT);
    assert_int_equal(rig.request_count, 0);
    rig_fini(&rig);
}

/* No answer in time: a write is in doubt, a read is not. Then a connection that
 * was silent is not used again. */
static void
deadline(void **state)
{
    (void)state;
    rig_init(&rig, NULL);
    rig.on_request = ignore;
    rig.config.timeout_ns = 500 * WP_NS_PER_MS;
    rig_connect(&rig);
    rig_send(&rig, "POST", "/p", "{}", WP_HTTP_NORMAL, 1);
    rig_wait(&rig, &rig.answer_count, 1);
    assert_int_equal(rig.request_count, 1);
    assert_int_equal(rig.answers[0].status, WP_UNKNOWN_OUTCOME);
    assert_non_null(strstr(rig.answers[0].error, "timed out"));
    rig_get(&rig, "/g", WP_HTTP_NORMAL, 2);
    rig_wait(&rig, &rig.answer_count, 2);
    assert_int_equal(rig.request_count, 2);
    assert_int_equal(rig.answers[1].status, WP_UNAVAILABLE);
    assert_int_equal(peer_accepted(rig.peer), 2);
    rig_fini(&rig);
}

static void
cut(struct rig *r, const struct peer_request *request)
{
    if (strcmp(request->path, "/ok") == 0) {
        peer_reply(request, 200, NULL, "");
        return;
    }
    if (strcmp(request->path, "/half") == 0) {
        peer_write(request, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
    } else if (strcmp(request->path, "/head") == 0) {
        peer_write(request, "HTTP/1.1 200 O");
    }
    (void)r;
    peer_cut(request);
}

/* The connection breaks after the request was sent: in doubt, and never sent
 * twice, on a new connection as well as on one that was used before. */
static void
cut_answers(void **state)
{
    static const char *const paths[] = {"/none", "/head", "/half"};
    uint32_t answers = 0;
    uint32_t requests = 0;

    (void)state;
    rig_init(&rig, NULL);
    rig.on_request = cut;
    rig_connect(&rig);
    for (size_t i = 0; i < 6; i++) {
        if (i >= 3) {
            rig_get(&rig, "/ok", WP_HTTP_NORMAL, 0);
            rig_wait(&rig, &rig.answer_count, ++answers);
            requests++;
        }
        rig_send(&rig, "POST", paths[i % 3], "{}", WP_HTTP_NORMAL, 0);
        rig_wait(&rig, &rig.answer_count, ++answers);
        requests++;
        assert_int_equal(rig.answers[answers - 1].status, WP_UNKNOWN_OUTCOME);
        assert_int_equal(rig.request_count, requests);
        assert_true(strlen(rig.answers[answers - 1].error) > 0);
    }
    rig_fini(&rig);
}

static void
cut_second(struct rig *r, const struct peer_request *request)
{
    if (r->request_count == 2) {
        peer_cut(request);
    } else {
        peer_reply(request, 200, NULL, "");
    }
}

/* A read that meets a connection the server is just closing is sent again. */
static void
get_again(void **state)
{
    (void)state;
    rig_init(&rig, NULL);
    rig.on_request = cut_second;
    rig_connect(&rig);
    rig_get(&rig, "/g", WP_HTTP_NORMAL, 1);
    rig_wait(&rig, &rig.answer_count, 1);
    rig_get(&rig, "/g", WP_HTTP_NORMAL, 2);
    rig_wait(&rig, &rig.answer_count, 2);
    assert_int_equal(rig.request_count, 3);
    assert_int_equal(rig.answers[1].code, 200);
    rig_fini(&rig);
}

/* Nobody listens: certainly not done, writes too. */
static void
refused_connection(void **state)
{
    (void)state;
    rig_init(&rig, NULL);
    peer_stop(rig.peer);
    rig.peer = NULL;
    rig_connect(&rig);
    rig_send(&rig, "POST", "/p", "{}", WP_HTTP_CLAIM, 1);
    rig_wait(&rig, &rig.answer_count, 1);
    assert_int_equal(rig.answers[0].status, WP_UNAVAILABLE);
    assert_non_null(strstr(rig.answers[0].error, "cannot be reached"));
    rig_fini(&rig);
}

static void
unknown_host(void **state)
{
    (void)state;
    rig_init(&rig, NULL);
    (void)snprintf(rig.url, sizeof rig.url, "http://no-such-host.invalid:1");
    rig_connect(&rig);
    rig_send(&rig, "POST", "/p", "{}", WP_HTTP_CLAIM, 1);
    rig_wait(&rig, &rig.answer_count, 1);
    assert_int_equal(rig.answers[0].status, WP_UNAVAILABLE);
    rig_fini(&rig);
}

static char token_path[128];

static void
need_new_token(struct rig *r, const struct peer_request *request)
{
    FILE *file;

    if (strcmp(request->authorization, "Bearer new") == 0) {
        peer_reply(request, 200, NULL, "");
        return;
    }
    if (r->request_count == 1) {
        file = fopen(token_path, "w");
        WP_ASSERT(file != NULL && fputs("new\n", file) >= 0);
        WP_ASSERT(fclose(file) == 0);
    }
    peer_reply(request, 401, NULL, "");
}

/* 401: the file is read again, and the request sent once more. Once. */
static void
token_rotates(void **state)
{
    char dir[64];
    FILE *file;

    (void)state;
    temp_dir_make_fast(dir, sizeof dir);
    (void)snprintf(token_path, sizeof token_path, "%s/token", dir);
    file = fopen(token_path, "w");
    assert_non_null(file);
    assert_true(fputs("old\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    rig_init(&rig, NULL);
    rig.server.token_file = token_path;
    rig.on_request = need_new_token;
    rig_connect(&rig);
    rig_send(&rig, "POST", "/p", "{}", WP_HTTP_CLAIM, 1);
    rig_wait(&rig, &rig.answer_count, 1);
    assert_int_equal(rig.answers[0].code, 200);
    assert_int_equal(rig.request_count, 2);
    assert_string_equal(rig.requests[0].authorization, "Bearer old");
    assert_string_equal(rig.requests[1].body, "{}");
    rig_fini(&rig);
    temp_dir_remove(dir);
}

static void
unauthorized(struct rig *r, const struct peer_request *request)
{
    (void)r;
    peer_reply(request, 401, NULL, "no");
}

static void
token_refused(void **state)
{
    (void)state;
    rig_init(&rig, NULL);
    rig.server.token = (char[]){"fixed"};
    rig.on_request = unauthorized;
    rig_connect(&rig);
    rig_get(&rig, "/g", WP_HTTP_CLAIM, 1);
    rig_wait(&rig, &rig.answer_count, 1);
    assert_int_equal(rig.answers[0].code, 401);
    assert_int_equal(rig.request_count, 1);
    assert_string_equal(rig.requests[0].authorization, "Bearer fixed");
    rig_fini(&rig);
}

static void
flood(struct rig *r, const struct peer_request *request)
{
    char chunk[70000];

    (void)r;
    peer_write(request,
               "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    memset(chunk, 'x', sizeof chunk);
    (void)snprintf(chunk, sizeof chunk, "10000\r\n");
    memset(chunk + 7, 'x', 0x10000);
    (void)snprintf(chunk + 7 + 0x10000, 3, "\r\n");
    for (int i = 0; i < 65; i++) {
        peer_write(request, chunk);
    }
}

/* More than the cap, and no length that says so before. */
static void
body_cap(void **state)
{
    (void)state;
    rig_init(&rig, NULL);
    rig.on_request = flood;
    rig_connect(&rig);
    rig_send(&rig, "POST", "/p", "{}", WP_HTTP_NORMAL, 1);
    rig_wait(&rig, &rig.answer_count, 1);
    assert_int_equal(rig.answers[0].status, WP_UNKNOWN_OUTCOME);
    assert_non_null(strstr(rig.answers[0].error, "longer than 4194304"));
    rig_get(&rig, "/g", WP_HTTP_NORMAL, 2);
    rig_wait(&rig, &rig.answer_count, 2);
    assert_int_equal(rig.answers[1].status, WP_UNAVAILABLE);
    rig_fini(&rig);
}

static void
send_again(void *ctx, const struct wp_http_answer *answer)
{
    struct rig *r = ctx;

    assert_int_equal(answer->status, WP_CANCELLED);
    r->answer_count++;
    if (r->answer_count <= 3) {
        struct wp_http_request again = {.method = "GET",
                                        .path = "/again",
                                        .priority = WP_HTTP_CLAIM,
                                        .done = send_again,
                                        .ctx = r};

        wp_http_send(r->http, &again);
    }
}

/* Under way, waiting, refused, and sent from within the last callbacks: each is
 * told once that it is over. */
static void
destroy_under_way(void **state)
{
    struct wp_http_request request = {.method = "GET",
                                      .path = "/x",
                                      .priority = WP_HTTP_NORMAL,
                                      .done = send_again,
                                      .ctx = &rig};

    (void)state;
    rig_init(&rig, NULL);
    rig.config.queue_max = 20;
    rig.on_request = ignore;
    rig_connect(&rig);
    for (int i = 0; i < 20; i++) {
        wp_http_send(rig.http, &request);
    }
    rig_wait(&rig, &rig.request_count, 12);
    for (int i = 0; i < 20; i++) {
        wp_http_send(rig.http, &request);
    }
    wp_http_destroy(rig.http);
    assert_int_equal(rig.answer_count, 43);
    rig.http = NULL;
    rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(get_and_send),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(no_path),
        cmocka_unit_test(deadline),
        cmocka_unit_test(cut_answers),
        cmocka_unit_test(get_again),
        cmocka_unit_test(refused_connection),
        cmocka_unit_test(unknown_host),
        cmocka_unit_test(token_rotates),
        cmocka_unit_test(token_refused),
        cmocka_unit_test(body_cap),
        cmocka_unit_test(destroy_under_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
