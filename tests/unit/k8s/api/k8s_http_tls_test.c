/* The HTTP client over TLS: certificates, names, and HTTP/2 as API servers
 * speak it, with what they do to its streams. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/assert.h"
#include "tests/support/http/http_rig.h"
#include "tests/support/base/temp_dir.h"
#include "tests/support/http/tls_certs.h"

enum {
    REFUSED_STREAM = 7,
};

static struct rig rig;
static char dir[64];

/* A path in the folder of certificates; a few at a time. */
static char *
in_dir(const char *name)
{
    static char paths[8][96];
    static size_t next;
    char *path = paths[next++ % 8];

    (void)snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

static int
make_certs(void **state)
{
    (void)state;
    temp_dir_make_fast(dir, sizeof dir);
    tls_certs_make(dir);
    return 0;
}

static int
remove_certs(void **state)
{
    (void)state;
    temp_dir_remove(dir);
    return 0;
}

static void
init(bool http2, bool client_cert)
{
    struct peer_config config = {
        .cert = in_dir("server.pem"),
        .key = in_dir("server.key"),
        .client_ca = client_cert ? in_dir("ca.pem") : NULL,
        .http2 = http2,
    };

    rig_init(&rig, &config);
    rig.server.ca_file = in_dir("ca.pem");
}

static void
expect_ok(void)
{
    rig_send(&rig, "POST", "/p", "{}", WP_HTTP_CLAIM, 1);
    rig_wait(&rig, &rig.answer_count, 1);
    assert_string_equal(rig.answers[0].error, "");
    assert_int_equal(rig.answers[0].code, 200);
    assert_string_equal(rig.answers[0].body, "/p");
    assert_string_equal(rig.requests[0].body, "{}");
}

/* With an error that has words in it, and certainly without effect. */
static void
expect_refused(const char *words)
{
    rig_send(&rig, "POST", "/p", "{}", WP_HTTP_CLAIM, 1);
    rig_wait(&rig, &rig.answer_count, 1);
    assert_int_equal(rig.answers[0].status, WP_UNAVAILABLE);
    if (strstr(rig.answers[0].error, words) == NULL) {
        fail_msg("'%s' in: %s", words, rig.answers[0].error);
    }
    assert_int_equal(rig.request_count, 0);
}

static void
http1(void **state)
{
    (void)state;
    init(false, false);
    rig_connect(&rig);
    expect_ok();
    assert_int_equal(rig.requests[0].stream, 0);
    rig_fini(&rig);
}

static void
wrong_ca(void **state)
{
    (void)state;
    init(true, false);
    rig.server.ca_file = in_dir("other-ca.pem");
    rig_connect(&rig);
    expect_refused("certificate is not trusted");
    rig_fini(&rig);
}

/* What is no PEM is said when it is used; what is not there, at the start. */
static void
bad_material(void **state)
{
    struct wp_err err = {.msg = ""};

    (void)state;
    init(true, false);
    rig.server.ca_file = in_dir("server.key");
    rig_connect(&rig);
    expect_refused("certificate-authority cannot be used");
    rig_fini(&rig);

    init(true, false);
    rig.server.key_file = in_dir("none.key");
    assert_null(wp_http_create(&rig.config, &err));
    assert_non_null(strstr(err.msg, "client-key"));
    assert_non_null(strstr(err.msg, "none.key"));
    rig_fini(&rig);
}

static void
client_certificate(void **state)
{
    (void)state;
    init(true, true);
    rig.server.cert_file = in_dir("client.pem");
    rig.server.key_file = in_dir("client.key");
    rig_connect(&rig);
    expect_ok();
    assert_string_equal(rig.requests[0].client, "warmpool-client");
    rig_fini(&rig);
}

static void
no_client_certificate(void **state)
{
    (void)state;
    init(false, true);
    rig_connect(&rig);
    rig_get(&rig, "/g", WP_HTTP_CLAIM, 1);
    rig_wait(&rig, &rig.answer_count, 1);
    assert_int_equal(rig.answers[0].status, WP_UNAVAILABLE);
    assert_int_equal(rig.request_count, 0);
    rig_fini(&rig);
}

static char *
slurp(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(1, 4096);

    WP_ASSERT(file != NULL && text != NULL);
    (void)!fread(text, 1, 4095, file);
    WP_ASSERT(fclose(file) == 0);
    return text;
}

/* The same from bytes, as a kubeconfig has them. */
static void
pem_bytes(void **state)
{
    char *ca = slurp(in_dir("ca.pem"));
    char *cert = slurp(in_dir("client.pem"));
    char *key = slurp(in_dir("client.key"));

    (void)state;
    init(true, true);
    rig.server.ca_file = NULL;
    rig.server.ca_pem = ca;
    rig.server.cert_pem = cert;
    rig.server.key_pem = key;
    rig_connect(&rig);
    expect_ok();
    assert_string_equal(rig.requests[0].client, "warmpool-client");
    rig_fini(&rig);
    free(ca);
    free(cert);
    free(key);
}

/* tls-server-name: that name is asked for and checked, at the same address. */
static void
server_name(void **state)
{
    char host[64];

    (void)state;
    init(true, false);
    rig.server.server_name = (char[]){"api.test"};
    rig_connect(&rig);
    expect_ok();
    (void)snprintf(host, sizeof host, "127.0.0.1:%d", peer_port(rig.peer));
    assert_string_equal(rig.requests[0].host, host);
    rig_fini(&rig);

    init(true, false);
    rig.server.server_name = (char[]){"other.test"};
    rig_connect(&rig);
    expect_refused("not trusted");
    rig_fini(&rig);
}

static void
write_text(const char *name, const char *text)
{
    FILE *file = fopen(in_dir(name), "w");

    WP_ASSERT(file != NULL && fputs(text, file) >= 0);
    WP_ASSERT(fclose(file) == 0);
}

/* A rotated authority counts for the next connection: nothing is remembered. */
static void
ca_rotates(void **state)
{
    char *good = slurp(in_dir("ca.pem"));
    char *bad = slurp(in_dir("other-ca.pem"));
    const char *const texts[] = {good, bad, good};
    uint32_t answers = 0;

    (void)state;
    init(false, false);
    rig.server.ca_file = in_dir("rotating.pem");
    write_text("rotating.pem", good);
    rig_connect(&rig);
    for (size_t i = 0; i < 3; i++) {
        write_text("rotating.pem", texts[i]);
        rig_get(&rig, "/g", WP_HTTP_CLAIM, 0);
        rig_wait(&rig, &rig.answer_count, ++answers);
        assert_int_equal(rig.answers[i].status,
                         i == 1 ? WP_UNAVAILABLE : WP_OK);
        if (i == 0) {
            peer_cut(&rig.requests[0]);
        }
    }
    rig_fini(&rig);
    free(good);
    free(bad);
}

static void
insecure(void **state)
{
    (void)state;
    init(true, false);
    rig.server.ca_file = NULL;
    rig.server.insecure = true;
    rig_connect(&rig);
    expect_ok();
    rig_fini(&rig);
}

/* The server speaks no TLS at all. */
static void
no_tls(void **state)
{
    (void)state;
    rig_init(&rig, NULL);
    (void)snprintf(rig.url, sizeof rig.url, "https://127.0.0.1:%d",
                   peer_port(rig.peer));
    rig_connect(&rig);
    rig_send(&rig, "POST", "/p", "{}", WP_HTTP_CLAIM, 1);
    rig_wait(&rig, &rig.request_count, 0);
    rig_pass_ms(&rig, 20);
    /* It waits for the rest of what it takes for a request. */
    peer_stop(rig.peer);
    rig.peer = NULL;
    rig_wait(&rig, &rig.answer_count, 1);
    assert_int_equal(rig.answers[0].status, WP_UNAVAILABLE);
    rig_fini(&rig);
}

static void
hold(struct rig *r, const struct peer_request *request)
{
    if (r->request_count == 1) {
        peer_reply(request, 200, NULL, "");
    }
}

/* Many at once share one connection; what is answered last does not hold up
 * what is answered first. */
static void
multiplexed(void **state)
{
    (void)state;
    init(true, false);
    rig.on_request = hold;
    rig_connect(&rig);
    rig_get(&rig, "/first", WP_HTTP_CLAIM, 0);
    rig_wait(&rig, &rig.answer_count, 1);
    for (int i = 1; i <= 60; i++) {
        rig_send(&rig, "POST", "/p", "{}", WP_HTTP_CLAIM, i);
    }
    rig_wait(&rig, &rig.request_count, 61);
    assert_int_equal(peer_accepted(rig.peer), 1);
    for (int i = 60; i >= 1; i--) {
        peer_reply(&rig.requests[i], 200, NULL, "x");
        rig_wait(&rig, &rig.answer_count, (uint32_t)(62 - i));
        assert_int_equal(rig.answers[61 - i].tag, i);
    }
    assert_int_equal(rig.failed_count, 0);
    rig_fini(&rig);
}

/* A thousand and more requests on one connection, bodies in both directions;
 * no stream is lost, none sent twice. */
static void
many(void **state)
{
    uint32_t sent = 0;

    (void)state;
    init(true, false);
    rig_connect(&rig);
    while (sent < 3000) {
        for (int i = 0; i < 50; i++) {
            rig_send(&rig, "PATCH", "/p", "{\"x\":1}", WP_HTTP_NORMAL, 0);
            sent++;
        }
        rig_wait(&rig, &rig.answer_count, sent);
    }
    assert_int_equal(rig.failed_count, 0);
    assert_int_equal(rig.request_count, 3000);
    assert_int_equal(peer_accepted(rig.peer), 1);
    rig_fini(&rig);
}

static void
watch_end(void *ctx, const struct wp_http_answer *answer)
{
    (void)ctx;
    (void)answer;
}

static uint32_t watched;

static bool
watch_bytes(void *ctx, struct wp_str bytes)
{
    (void)ctx;
    watched += (uint32_t)bytes.len;
    return true;
}

static void
begin_watch(struct rig *r, const struct peer_request *request)
{
    (void)r;
    if (strcmp(request->path, "/watch") == 0) {
        peer_write(request, "HTTP/1.1 200 OK\r\n"
                            "Transfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
    } else {
        peer_reply(request, 200, NULL, "");
    }
}

/* A stream never shares a connection, HTTP/2 or not. */
static void
stream_apart(void **state)
{
    struct wp_http_stream_config config = {
        .path = "/watch", .on_bytes = watch_bytes, .on_end = watch_end};

    (void)state;
    watched = 0;
    init(true, false);
    rig.on_request = begin_watch;
    rig_connect(&rig);
    rig_get(&rig, "/g", WP_HTTP_NORMAL, 0);
    rig_wait(&rig, &rig.answer_count, 1);
    assert_true(rig.requests[0].stream > 0);
    assert_non_null(wp_http_stream_open(rig.http, &config));
    rig_wait(&rig, &watched, 3);
    assert_int_equal(rig.requests[1].stream, 0);
    assert_int_equal(peer_accepted(rig.peer), 2);
    rig_fini(&rig);
}

static void
reset_once(struct rig *r, const struct peer_request *request)
{
    if (r->request_count == 2) {
        peer_reset(request, 2); /* INTERNAL_ERROR */
    } else {
        peer_reply(request, 200, NULL, "");
    }
}

/* A stream that the server resets is in doubt; the others go on. */
static void
reset_stream(void **state)
{
    (void)state;
    init(true, false);
    rig.on_request = reset_once;
    rig_connect(&rig);
    for (int i = 1; i <= 3; i++) {
        rig_send(&rig, "POST", "/p", "{}", WP_HTTP_NORMAL, i);
        rig_wait(&rig, &rig.answer_count, (uint32_t)i);
    }
    assert_int_equal(rig.answers[0].code, 200);
    assert_int_equal(rig.answers[1].status, WP_UNKNOWN_OUTCOME);
    assert_int_equal(rig.answers[2].code, 200);
    assert_int_equal(rig.request_count, 3);
    rig_fini(&rig);
}

static void
go_away(struct rig *r, const struct peer_request *request)
{
    /* It says that it will take no more, and answers what it has. */
    if (r->request_count == 5) {
        peer_goaway(request, request->stream);
    }
    peer_reply(request, 200, NULL, "");
}

/* A server that is about to restart: requests go on, on a new connection. */
static void
goaway(void **state)
{
    (void)state;
    init(true, false);
    rig.on_request = go_away;
    rig_connect(&rig);
    for (int i = 1; i <= 10; i++) {
        rig_send(&rig, "POST", "/p", "{}", WP_HTTP_NORMAL, i);
        rig_wait(&rig, &rig.answer_count, (uint32_t)i);
        assert_string_equal(rig.answers[i - 1].error, "");
    }
    assert_int_equal(rig.failed_count, 0);
    assert_int_equal(rig.request_count, 10);
    assert_int_equal(peer_accepted(rig.peer), 2);
    rig_fini(&rig);
}

static void
cut_at_five(struct rig *r, const struct peer_request *request)
{
    if (r->request_count == 1) {
        peer_reply(request, 200, NULL, "");
    } else if (r->request_count == 6) {
        peer_cut(request);
    }
}

/* The connection breaks under five writes: each is in doubt, none goes twice.
 * The next one is answered. */
static void
cut_connection(void **state)
{
    (void)state;
    init(true, false);
    rig.on_request = cut_at_five;
    rig_connect(&rig);
    rig_get(&rig, "/g", WP_HTTP_NORMAL, 0);
    rig_wait(&rig, &rig.answer_count, 1);
    for (int i = 1; i <= 5; i++) {
        rig_send(&rig, "POST", "/p", "{}", WP_HTTP_NORMAL, i);
    }
    rig_wait(&rig, &rig.answer_count, 6);
    for (int i = 1; i <= 5; i++) {
        assert_int_equal(rig.answers[i].status, WP_UNKNOWN_OUTCOME);
    }
    assert_int_equal(rig.request_count, 6);
    rig.on_request = NULL;
    rig_send(&rig, "POST", "/p", "{}", WP_HTTP_NORMAL, 6);
    rig_wait(&rig, &rig.answer_count, 7);
    assert_int_equal(rig.answers[6].code, 200);
    rig_fini(&rig);
}

static void
refuse_stream(struct rig *r, const struct peer_request *request)
{
    if (r->request_count == 2) {
        peer_reset(request, REFUSED_STREAM);
    } else {
        peer_reply(request, 200, NULL, "");
    }
}

/* REFUSED_STREAM says that nothing was done; a read is sent again. */
static void
refused_stream(void **state)
{
    (void)state;
    init(true, false);
    rig.on_request = refuse_stream;
    rig_connect(&rig);
    rig_get(&rig, "/g", WP_HTTP_NORMAL, 1);
    rig_wait(&rig, &rig.answer_count, 1);
    rig_get(&rig, "/g", WP_HTTP_NORMAL, 2);
    rig_wait(&rig, &rig.answer_count, 2);
    assert_int_equal(rig.answers[1].code, 200);
    assert_int_equal(rig.request_count, 3);
    rig_fini(&rig);
}

static void
never(struct rig *r, const struct peer_request *request)
{
    if (peer_accepted(r->peer) > 1 || r->request_count == 1) {
        peer_reply(request, 200, NULL, "");
    }
}

/* A connection that leads nowhere any more: the first request on it runs into
 * its deadline, the next one gets a new connection. */
static void
silent_connection(void **state)
{
    (void)state;
    init(true, false);
    rig.on_request = never;
    rig_connect(&rig);
    rig_get(&rig, "/g", WP_HTTP_NORMAL, 1);
    rig_wait(&rig, &rig.answer_count, 1);
    rig.timeout_ns = 500 * WP_NS_PER_MS;
    rig_send(&rig, "POST", "/p", "{}", WP_HTTP_NORMAL, 2);
    rig_wait(&rig, &rig.answer_count, 2);
    assert_int_equal(rig.answers[1].status, WP_UNKNOWN_OUTCOME);
    rig.timeout_ns = 0;
    rig_send(&rig, "POST", "/p", "{}", WP_HTTP_NORMAL, 3);
    rig_wait(&rig, &rig.answer_count, 3);
    assert_int_equal(rig.answers[2].code, 200);
    assert_int_equal(peer_accepted(rig.peer), 2);
    rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(http1),
        cmocka_unit_test(wrong_ca),
        cmocka_unit_test(bad_material),
        cmocka_unit_test(client_certificate),
        cmocka_unit_test(no_client_certificate),
        cmocka_unit_test(pem_bytes),
        cmocka_unit_test(server_name),
        cmocka_unit_test(ca_rotates),
        cmocka_unit_test(insecure),
        cmocka_unit_test(no_tls),
        cmocka_unit_test(multiplexed),
        cmocka_unit_test(many),
        cmocka_unit_test(stream_apart),
        cmocka_unit_test(reset_stream),
        cmocka_unit_test(goaway),
        cmocka_unit_test(cut_connection),
        cmocka_unit_test(refused_stream),
        cmocka_unit_test(silent_connection),
    };

    return cmocka_run_group_tests(tests, make_certs, remove_certs);
}
