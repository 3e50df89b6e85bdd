/* TLS of the HTTP/2 server: handshakes, bytes and ends, against a client of the
 * test's own over a pair of sockets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "local/walls/rootfs.h"
#include "proto/h2/internal.h"
#include "tests/support/base/temp_dir.h"
#include "tests/support/http/tls_certs.h"

static const struct wp_h2_tls_ops *const ops = &wp_h2_tls_by_openssl;
static char dir[256];
static char cert[300];
static char key[300];
static struct wp_tls *tls;
static SSL_CTX *context;
static int fds[2]; /* The server's, and the client's. */
static void *served;
static SSL *client;

static int
set_up(void **state)
{
    struct wp_h2_config config = {.tls_cert = cert, .tls_key = key};
    struct wp_err err;

    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    temp_dir_make(dir, sizeof dir);
    tls_certs_make(dir);
    (void)snprintf(cert, sizeof cert, "%s/server.pem", dir);
    (void)snprintf(key, sizeof key, "%s/server.key", dir);
    tls = ops->create(&config, &err);
    assert_non_null(tls);
    assert_int_equal(ops->reloads(tls), 0);
    context = SSL_CTX_new(TLS_client_method());
    assert_non_null(context);
    SSL_CTX_set_mode(context, SSL_MODE_AUTO_RETRY);
    return 0;
}

static int
tear_down(void **state)
{
    struct wp_err err;

    (void)state;
    SSL_CTX_free(context);
    ops->destroy(tls);
    return wp_dir_remove(dir, &err) == WP_OK ? 0 : -1;
}

/* Two ends; the client offers one protocol, or none (NULL). */
static void
meet(const char *protocol)
{
    assert_int_equal(
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
        0);
    served = ops->open(tls, fds[0]);
    client = SSL_new(context);
    assert_non_null(served);
    assert_non_null(client);
    assert_int_equal(SSL_set_fd(client, fds[1]), 1);
    SSL_set_connect_state(client);
    if (protocol != NULL) {
        unsigned char list[32];
        size_t len = strlen(protocol);

        list[0] = (unsigned char)len;
        memcpy(list + 1, protocol, len);
        assert_int_equal(SSL_set_alpn_protos(client, list, (unsigned)len + 1),
                         0);
    }
}

static void
part(void)
{
    ops->free(served);
    SSL_free(client);
    ERR_clear_error();
    (void)close(fds[0]);
    (void)close(fds[1]);
}

/* Both go on until the server's part of the handshake is over. */
static enum wp_h2_handshake
shake(void)
{
    enum wp_h2_handshake result = WP_H2_SHAKE_READS;

    assert_int_equal(ops->shake(served), WP_H2_SHAKE_READS);
    for (int i = 0; i < 100 && result == WP_H2_SHAKE_READS; i++) {
        (void)SSL_do_handshake(client);
        ERR_clear_error();
        result = ops->shake(served);
    }
    (void)SSL_do_handshake(client);
    ERR_clear_error();
    return result;
}

static void
test_only_http_2_is_spoken(void **state)
{
    static const char *const others[] = {NULL, "http/1.1", "h3",
                                         "x2", "h2c",      "h"};

    (void)state;
    meet("h2");
    assert_int_equal(shake(), WP_H2_SHAKEN);
    part();
    for (size_t i = 0; i < WP_ARRAY_LEN(others); i++) {
        meet(others[i]);
        assert_int_equal(shake(), WP_H2_SHAKE_FAILED);
        part();
    }
    meet("h2");
    assert_int_equal(write(fds[1], "GET / HTTP/1.1\r\n\r\n", 18), 18);
    assert_int_equal(ops->shake(served), WP_H2_SHAKE_FAILED);
    part();
    meet("h2");
    assert_int_equal(shutdown(fds[1], SHUT_RDWR), 0);
    assert_int_equal(ops->shake(served), WP_H2_SHAKE_FAILED);
    part();
}

static void
test_bytes_go_both_ways(void **state)
{
    uint8_t bytes[100];

    (void)state;
    meet("h2");
    assert_int_equal(shake(), WP_H2_SHAKEN);
    assert_int_equal(ops->receive(served, bytes, sizeof bytes), WP_H2_AGAIN);
    assert_false(ops->has_more(served));
    assert_int_equal(SSL_write(client, "0123456789", 10), 10);
    assert_int_equal(ops->receive(served, bytes, 1), 1);
    assert_true(ops->has_more(served));
    assert_int_equal(ops->receive(served, bytes + 1, 8), 8);
    assert_true(ops->has_more(served));
    assert_int_equal(ops->receive(served, bytes + 9, 50), 1);
    assert_false(ops->has_more(served));
    assert_memory_equal(bytes, "0123456789", 10);
    assert_int_equal(ops->receive(served, bytes, sizeof bytes), WP_H2_AGAIN);
    assert_int_equal(ops->transmit(served, (const uint8_t *)"x", 1), 1);
    assert_int_equal(ops->transmit(served, (const uint8_t *)"answer", 6), 6);
    assert_int_equal(SSL_read(client, bytes, sizeof bytes), 1);
    assert_int_equal(bytes[0], 'x');
    assert_int_equal(SSL_read(client, bytes, sizeof bytes), 6);
    assert_memory_equal(bytes, "answer", 6);
    part();
}

static void
test_ends_are_told(void **state)
{
    static uint8_t block[16384];
    uint8_t bytes[10];
    ssize_t n;
    int blocks = 0;

    (void)state;
    /* What the client does not take. */
    meet("h2");
    assert_int_equal(shake(), WP_H2_SHAKEN);
    while ((n = ops->transmit(served, block, sizeof block)) > 0) {
        assert_true(++blocks < 10000);
    }
    assert_int_equal(n, WP_H2_AGAIN);
    part();
    /* It says goodbye. */
    meet("h2");
    assert_int_equal(shake(), WP_H2_SHAKEN);
    (void)SSL_shutdown(client);
    assert_int_equal(ops->receive(served, bytes, sizeof bytes), WP_H2_GONE);
    assert_int_equal(ERR_peek_error(), 0);
    part();
    /* It does not. */
    meet("h2");
    assert_int_equal(shake(), WP_H2_SHAKEN);
    assert_int_equal(shutdown(fds[1], SHUT_RDWR), 0);
    assert_int_equal(ops->receive(served, bytes, sizeof bytes), WP_H2_GONE);
    assert_int_equal(ops->transmit(served, block, 1), WP_H2_GONE);
    assert_int_equal(ERR_peek_error(), 0);
    part();
    /* What it says makes no sense. */
    meet("h2");
    assert_int_equal(shake(), WP_H2_SHAKEN);
    assert_int_equal(write(fds[1], "no record at all", 16), 16);
    assert_int_equal(ops->receive(served, bytes, sizeof bytes), WP_H2_GONE);
    assert_int_equal(ERR_peek_error(), 0);
    part();
    /* We say goodbye. */
    meet("h2");
    assert_int_equal(shake(), WP_H2_SHAKEN);
    ops->shut(served);
    n = SSL_read(client, bytes, sizeof bytes);
    assert_true(n <= 0);
    assert_int_equal(SSL_get_error(client, (int)n), SSL_ERROR_ZERO_RETURN);
    part();
}

static void
test_files_that_are_not_there_are_told(void **state)
{
    struct wp_h2_config config = {.tls_cert = cert, .tls_key = key};
    struct wp_err err = {0};

    (void)state;
    (void)snprintf(key, sizeof key, "%s/none.key", dir);
    assert_null(ops->create(&config, &err));
    assert_non_null(strstr(err.msg, "none.key"));
    (void)snprintf(key, sizeof key, "%s/server.key", dir);
    (void)snprintf(cert, sizeof cert, "%s/none.pem", dir);
    assert_null(ops->create(&config, &err));
    assert_non_null(strstr(err.msg, "none.pem"));
    (void)snprintf(cert, sizeof cert, "%s/server.pem", dir);
    config.tls_client_ca = "none.ca";
    assert_null(ops->create(&config, &err));
    assert_non_null(strstr(err.msg, "none.ca"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_http_2_is_spoken),
        cmocka_unit_test(test_bytes_go_both_ways),
        cmocka_unit_test(test_ends_are_told),
        cmocka_unit_test(test_files_that_are_not_there_are_told),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
