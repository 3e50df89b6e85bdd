/* TLS of the egress proxy to the servers behind it: whom it believes, what it
 * offers, and who it has to be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "runtime/egress/upstream_tls.h"
#include "tests/support/base/journal.h"
#include "tests/support/base/temp_dir.h"
#include "tests/support/http/tls_certs.h"

static char dir[512];
static struct event_base *base;
static const char *failing; /* A function. */

void *__wrap_calloc(size_t n, size_t size);
void *__real_calloc(size_t n, size_t size);
SSL_CTX *__wrap_SSL_CTX_new(const SSL_METHOD *method);
SSL_CTX *__real_SSL_CTX_new(const SSL_METHOD *method);
SSL *__wrap_SSL_new(SSL_CTX *context);
SSL *__real_SSL_new(SSL_CTX *context);

static bool
fails(const char *function)
{
    bool now = failing != NULL && strcmp(failing, function) == 0;

    failing = now ? NULL : failing;
    return now;
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return fails("calloc") ? NULL : __real_calloc(n, size);
}

SSL_CTX *
__wrap_SSL_CTX_new(const SSL_METHOD *method)
{
    return fails("SSL_CTX_new") ? NULL : __real_SSL_CTX_new(method);
}

SSL *
__wrap_SSL_new(SSL_CTX *context)
{
    return fails("SSL_new") ? NULL : __real_SSL_new(context);
}

/* What libevent allocates with. */
static void *
take_memory(size_t size)
{
    return fails("libevent") ? NULL : malloc(size);
}

static int
set_up(void **state)
{
    (void)state;
    event_set_mem_functions(take_memory, realloc, free);
    temp_dir_make_fast(dir, sizeof dir);
    assert_int_equal(chdir(dir), 0);
    tls_certs_make(".");
    base = event_base_new();
    assert_non_null(base);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    event_base_free(base);
    assert_int_equal(chdir("/"), 0);
    temp_dir_remove(dir);
    return 0;
}

static struct wp_upstream_tls *
make(const char *ca)
{
    struct wp_err err = {0};
    struct wp_upstream_tls *tls = wp_upstream_tls_create(ca, &err);

    if (tls == NULL) {
        journal("%s: %d %s", ca != NULL ? ca : "the system's", (int)err.status,
                err.msg);
        journal_line();
    }
    ERR_clear_error();
    return tls;
}

static struct wp_host
host_of(const char *text)
{
    struct wp_host host;
    const char *why;

    assert_true(wp_host_parse(wp_str_from(text), &host, &why));
    return host;
}

static int
choose(SSL *ssl, const unsigned char **out, unsigned char *out_len,
       const unsigned char *in, unsigned in_len, void *arg)
{
    (void)ssl;
    (void)arg;
    journal(" offers ");
    journal_bytes((const char *)in, in_len);
    *out = in + 1;
    *out_len = in[0];
    return SSL_TLSEXT_ERR_OK;
}

/* A handshake in memory with a server of that certificate. max 0: of any
 * revision. */
static void
shake(struct wp_upstream_tls *tls, const char *text, int max)
{
    const struct wp_host host = host_of(text);
    struct bufferevent *bev = wp_upstream_tls_open(tls, base, &host);
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    SSL *client;
    SSL *server;
    BIO *ends[2];
    int rc = -1;

    assert_non_null(bev);
    assert_int_equal(bufferevent_getfd(bev), -1);
    client = bufferevent_openssl_get_ssl(bev);
    assert_int_equal(SSL_is_server(client), 0);
    assert_int_equal(
        SSL_CTX_use_certificate_file(context, "server.pem", SSL_FILETYPE_PEM),
        1);
    assert_int_equal(
        SSL_CTX_use_PrivateKey_file(context, "server.key", SSL_FILETYPE_PEM),
        1);
    if (max != 0) {
        SSL_CTX_set_security_level(context, 0);
        (void)SSL_CTX_set_min_proto_version(context, TLS1_VERSION);
        (void)SSL_CTX_set_max_proto_version(context, max);
    }
    SSL_CTX_set_alpn_select_cb(context, choose, NULL);
    server = SSL_new(context);
    assert_non_null(server);
    assert_int_equal(BIO_new_bio_pair(&ends[0], 1 << 16, &ends[1], 1 << 16), 1);
    SSL_set_bio(client, ends[0], ends[0]);
    SSL_set_bio(server, ends[1], ends[1]);
    SSL_set_accept_state(server);
    journal("%s:", text);
    for (int i = 0; i < 10; i++) {
        rc = SSL_do_handshake(client);
        (void)SSL_do_handshake(server);
    }
    journal(" %s, asks for %s, %s", rc == 1 ? "good" : "bad",
            SSL_get_servername(server, TLSEXT_NAMETYPE_host_name) != NULL
                ? SSL_get_servername(server, TLSEXT_NAMETYPE_host_name)
                : "nobody",
            X509_verify_cert_error_string(SSL_get_verify_result(client)));
    journal_line();
    SSL_free(server);
    SSL_CTX_free(context);
    /* What is no socket would be closed as descriptor 0. */
    SSL_set_bio(client, NULL, NULL);
    bufferevent_free(bev);
    (void)event_base_loop(base, EVLOOP_NONBLOCK);
    ERR_clear_error();
}

/* ----------------------------------------------------------------- tests */

static void
a_server_proves_to_be_the_host(void **state)
{
    struct wp_upstream_tls *tls = make("ca.pem");

    (void)state;
    assert_non_null(tls);
    shake(tls, "localhost", 0);
    shake(tls, "api.test", TLS1_2_VERSION);
    shake(tls, "api.test", TLS1_1_VERSION);
    shake(tls, "127.0.0.1", 0);
    shake(tls, "127.0.0.2", 0);
    shake(tls, "other.test", 0);
    wp_upstream_tls_destroy(tls);
    tls = make("other-ca.pem");
    assert_non_null(tls);
    shake(tls, "localhost", 0);
    wp_upstream_tls_destroy(tls);
    journal_is(
        "localhost: offers \\08http/1.1 good, asks for localhost, ok\n"
        "api.test: offers \\08http/1.1 good, asks for api.test, ok\n"
        "api.test: bad, asks for nobody, ok\n"
        "127.0.0.1: offers \\08http/1.1 good, asks for nobody, ok\n"
        "127.0.0.2: offers \\08http/1.1 bad, asks for nobody, IP address "
        "mismatch\n"
        "other.test: offers \\08http/1.1 bad, asks for other.test, hostname "
        "mismatch\n"
        "localhost: offers \\08http/1.1 bad, asks for localhost, unable to get "
        "local issuer certificate\n");
}

static void
without_a_file_the_systems_authorities_count(void **state)
{
    struct wp_upstream_tls *tls;

    (void)state;
    assert_int_equal(setenv("SSL_CERT_FILE", "ca.pem", 1), 0);
    tls = make(NULL);
    assert_non_null(tls);
    shake(tls, "localhost", 0);
    wp_upstream_tls_destroy(tls);
    assert_int_equal(setenv("SSL_CERT_FILE", "other-ca.pem", 1), 0);
    tls = make(NULL);
    assert_non_null(tls);
    shake(tls, "localhost", 0);
    wp_upstream_tls_destroy(tls);
    journal_is("localhost: offers \\08http/1.1 good, asks for localhost, ok\n"
               "localhost: offers \\08http/1.1 bad, asks for localhost, unable "
               "to get local issuer certificate\n");
}

static void
what_is_not_usable_is_told(void **state)
{
    (void)state;
    assert_null(make("nothing"));
    assert_null(make("server.key"));
    failing = "calloc";
    assert_null(make("ca.pem"));
    failing = "SSL_CTX_new";
    assert_null(make("ca.pem"));
    wp_upstream_tls_destroy(NULL);
    journal_is("nothing: 3 cannot use the authorities of nothing for TLS\n"
               "server.key: 3 cannot use the authorities of server.key for "
               "TLS\n"
               "ca.pem: 8 no memory for TLS\n"
               "ca.pem: 8 no memory for TLS\n");
}

/* What is freed twice ends this program, or shows in its next use. */
static void
a_connection_needs_memory(void **state)
{
    const struct wp_host host = host_of("localhost");
    struct wp_upstream_tls *tls = make("ca.pem");
    struct bufferevent *bev;

    (void)state;
    assert_non_null(tls);
    failing = "SSL_new";
    assert_null(wp_upstream_tls_open(tls, base, &host));
    failing = "libevent";
    assert_null(wp_upstream_tls_open(tls, base, &host));
    assert_null(failing);
    bev = wp_upstream_tls_open(tls, base, &host);
    assert_non_null(bev);
    bufferevent_free(bev);
    (void)event_base_loop(base, EVLOOP_NONBLOCK);
    wp_upstream_tls_destroy(tls);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_proves_to_be_the_host),
        cmocka_unit_test(without_a_file_the_systems_authorities_count),
        cmocka_unit_test(what_is_not_usable_is_told),
        cmocka_unit_test(a_connection_needs_memory),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
