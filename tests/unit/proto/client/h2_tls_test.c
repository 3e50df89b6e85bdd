/* TLS of the light client, against a server of the test's own in a thread:
 * which files and names are taken, what is said of a handshake that fails, and
 * what bytes and ends look like. Compared whole with golden/tls_*.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "proto/client/h2_tls.h"
#include "tests/support/base/journal.h"
#include "tests/support/base/temp_dir.h"
#include "tests/support/http/tls_certs.h"

static char dir[512];

/* What the server does. */
struct peer {
    const char *cert; /* NULL: it hangs up at once. */
    const char *key;
    bool speaks_h2; /* Else another protocol. */
    bool silent;    /* It speaks none at all. */
    bool asks;      /* For a certificate of ours. */
    int max;        /* 0: any revision of TLS. */
    int fd;
    SSL *ssl; /* After the handshake; NULL: it failed. */
    SSL_CTX *context;
    pthread_t thread;
};

static const char *failing; /* A function. */
static unsigned fails_in;   /* 0: it does not fail. */
static unsigned sends;
static int send_errno; /* 0: it goes through. */

void *__wrap_calloc(size_t n, size_t size);
void *__real_calloc(size_t n, size_t size);
ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags);
ssize_t __real_send(int fd, const void *bytes, size_t len, int flags);

SSL_CTX *__wrap_SSL_CTX_new(const SSL_METHOD *method);
SSL_CTX *__real_SSL_CTX_new(const SSL_METHOD *method);
SSL *__wrap_SSL_new(SSL_CTX *context);
SSL *__real_SSL_new(SSL_CTX *context);
BIO *__wrap_BIO_new(const BIO_METHOD *method);
BIO *__real_BIO_new(const BIO_METHOD *method);
BIO_METHOD *__wrap_BIO_meth_new(int type, const char *name);
BIO_METHOD *__real_BIO_meth_new(int type, const char *name);

/* On the client's thread, while there is no server. */
static bool
fails(const char *function)
{
    return failing != NULL && strcmp(failing, function) == 0 && fails_in > 0 &&
           --fails_in == 0;
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

BIO *
__wrap_BIO_new(const BIO_METHOD *method)
{
    return fails("BIO_new") ? NULL : __real_BIO_new(method);
}

BIO_METHOD *
__wrap_BIO_meth_new(int type, const char *name)
{
    return fails("BIO_meth_new") ? NULL : __real_BIO_meth_new(type, name);
}

ssize_t
__wrap_send(int fd, const void *bytes, size_t len, int flags)
{
    sends++;
    assert_int_equal(flags, MSG_NOSIGNAL);
    if (send_errno != 0) {
        errno = send_errno;
        return -1;
    }
    return __real_send(fd, bytes, len, flags);
}

static void
golden(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/tls_%s.txt", name);
    journal_compare(path);
}

static void
say(const char *what)
{
    journal("-- %s", what);
    journal_line();
}

static int
set_up(void **state)
{
    FILE *file;

    (void)state;
    /* Of the server here; the client has to see to itself, which send shows. */
    (void)signal(SIGPIPE, SIG_IGN);
    temp_dir_make_fast(dir, sizeof dir);
    assert_int_equal(chdir(dir), 0);
    tls_certs_make(".");
    file = fopen("words", "we");
    assert_non_null(file);
    assert_true(fputs("words\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    assert_int_equal(chdir("/"), 0);
    temp_dir_remove(dir);
    return 0;
}

/* ------------------------------------------------------------- the server */

static int
choose(SSL *ssl, const unsigned char **out, unsigned char *out_len,
       const unsigned char *in, unsigned in_len, void *arg)
{
    const struct peer *peer = arg;

    (void)ssl;
    /* All that is offered is HTTP/2. */
    if (in_len != 3 || memcmp(in, "\2h2", 3) != 0 || peer->silent) {
        return SSL_TLSEXT_ERR_NOACK;
    }
    *out = (const unsigned char *)(peer->speaks_h2 ? "h2" : "h3");
    *out_len = 2;
    return SSL_TLSEXT_ERR_OK;
}

static void *
serve(void *arg)
{
    struct peer *peer = arg;
    SSL *ssl;

    if (peer->cert == NULL) {
        (void)shutdown(peer->fd, SHUT_RDWR);
        return NULL;
    }
    peer->context = SSL_CTX_new(TLS_server_method());
    (void)SSL_CTX_use_certificate_file(peer->context, peer->cert,
                                       SSL_FILETYPE_PEM);
    (void)SSL_CTX_use_PrivateKey_file(peer->context, peer->key,
                                      SSL_FILETYPE_PEM);
    (void)SSL_CTX_set_num_tickets(peer->context, 0);
    if (peer->max != 0) {
        SSL_CTX_set_security_level(peer->context, 0);
        (void)SSL_CTX_set_min_proto_version(peer->context, TLS1_VERSION);
        (void)SSL_CTX_set_max_proto_version(peer->context, peer->max);
    }
    SSL_CTX_set_alpn_select_cb(peer->context, choose, peer);
    if (peer->asks) {
        SSL_CTX_set_verify(peer->context,
                           SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                           NULL);
        (void)SSL_CTX_load_verify_locations(peer->context, "ca.pem", NULL);
    }
    ssl = SSL_new(peer->context);
    (void)SSL_set_fd(ssl, peer->fd);
    if (SSL_accept(ssl) == 1) {
        peer->ssl = ssl;
    } else {
        SSL_free(ssl);
        (void)shutdown(peer->fd, SHUT_RDWR);
    }
    return NULL;
}

/* The client's end of a connection. */
static int
peer_begin(struct peer *peer)
{
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends),
                     0);
    peer->fd = ends[1];
    assert_int_equal(pthread_create(&peer->thread, NULL, serve, peer), 0);
    return ends[0];
}

static void
peer_end(struct peer *peer)
{
    SSL_free(peer->ssl);
    SSL_CTX_free(peer->context);
    if (peer->fd >= 0) {
        assert_int_equal(close(peer->fd), 0);
    }
}

/* A handshake; NULL: it failed. *fd is to be closed. */
static void *
shake(struct wp_h2_tls *tls, struct peer *peer, int *fd)
{
    struct wp_err err = {0};
    void *conn;

    *fd = peer_begin(peer);
    conn = wp_h2_tls_connect(tls, *fd, &err);
    if (conn == NULL) {
        (void)shutdown(*fd, SHUT_RDWR);
    }
    assert_int_equal(pthread_join(peer->thread, NULL), 0);
    if (conn != NULL) {
        journal("= connected, %s", peer->ssl != NULL ? "both" : "one side");
        if ((fcntl(*fd, F_GETFL) & O_NONBLOCK) == 0) {
            journal(", blocking");
        }
        if (peer->ssl != NULL) {
            const char *asked =
                SSL_get_servername(peer->ssl, TLSEXT_NAMETYPE_host_name);

            journal(", asked for %s", asked != NULL ? asked : "no name");
        }
    } else {
        journal("= %d %s", (int)err.status, err.msg);
    }
    journal_line();
    return conn;
}

static void
shake_once(const char *name, const char *ca, struct peer peer, bool certified)
{
    struct wp_err err;
    struct wp_h2_tls *tls =
        wp_h2_tls_create(ca, certified ? "client.pem" : NULL,
                         certified ? "client.key" : NULL, name, &err);
    int fd;

    assert_non_null(tls);
    journal("%s, by %s, shown %s, %s%s%s max %x", name, ca,
            peer.cert != NULL ? peer.cert : "nothing",
            peer.silent      ? "no protocol"
            : peer.speaks_h2 ? "h2"
                             : "h3",
            peer.asks ? ", asks" : "", certified ? ", certified" : "",
            (unsigned)peer.max);
    journal_line();
    wp_h2_tls_close(shake(tls, &peer, &fd));
    assert_int_equal(close(fd), 0); /* It stayed open. */
    peer_end(&peer);
    wp_h2_tls_destroy(tls);
}

/* ----------------------------------------------------------------- tests */

static void
make(const char *ca, const char *cert, const char *key, const char *name)
{
    struct wp_err err = {0};
    struct wp_h2_tls *tls = wp_h2_tls_create(ca, cert, key, name, &err);

    journal("%s %s %s %zu: %d %s", ca, cert != NULL ? cert : "-",
            key != NULL ? key : "-", strlen(name),
            tls != NULL ? 0 : (int)err.status, tls != NULL ? "good" : err.msg);
    journal_line();
    wp_h2_tls_destroy(tls);
}

static void
only_good_files_are_taken(void **state)
{
    char name[300];

    (void)state;
    memset(name, 'n', sizeof name);
    name[255] = '\0';
    /* What others have left is not told of. */
    ERR_raise(ERR_LIB_SYS, EPERM);
    make("ca.pem", NULL, NULL, "localhost");
    make("ca.pem", "client.pem", "client.key", "localhost");
    make("nothing", NULL, NULL, "localhost");
    make("words", NULL, NULL, "localhost");
    make("ca.pem", "nothing", "client.key", "localhost");
    make("ca.pem", "words", "client.key", "localhost");
    make("ca.pem", "client.pem", "nothing", "localhost");
    make("ca.pem", "client.pem", "words", "localhost");
    make("ca.pem", "client.pem", "server.key", "localhost");
    make("ca.pem", NULL, NULL, name);
    name[255] = 'n';
    name[256] = '\0';
    make("ca.pem", NULL, NULL, name);
    for (size_t i = 0; i < 3; i++) {
        static const char *const steps[] = {"calloc", "SSL_CTX_new",
                                            "BIO_meth_new"};

        failing = steps[i];
        fails_in = 1;
        make("ca.pem", NULL, NULL, "localhost");
    }
    failing = NULL;
    wp_h2_tls_destroy(NULL);
    wp_h2_tls_close(NULL);
    golden("files");
}

static const struct peer good = {
    .cert = "server.pem", .key = "server.key", .speaks_h2 = true};

static void
the_certificate_is_for_the_host(void **state)
{
    (void)state;
    shake_once("localhost", "ca.pem", good, false);
    shake_once("api.test", "ca.pem", good, false);
    shake_once("127.0.0.1", "ca.pem", good, false);
    shake_once("127.0.0.2", "ca.pem", good, false);
    shake_once("other.test", "ca.pem", good, false);
    shake_once("localhost", "other-ca.pem", good, false);
    golden("hosts");
}

static void
a_handshake_that_fails_says_why(void **state)
{
    struct peer peer = good;

    (void)state;
    peer.speaks_h2 = false;
    shake_once("localhost", "ca.pem", peer, false);
    peer.silent = true;
    shake_once("localhost", "ca.pem", peer, false);
    peer = good;
    peer.asks = true;
    shake_once("localhost", "ca.pem", peer, true);
    peer = good;
    peer.max = TLS1_2_VERSION;
    shake_once("localhost", "ca.pem", peer, false);
    peer.max = TLS1_1_VERSION;
    shake_once("localhost", "ca.pem", peer, false);
    golden("handshakes");
}

static void
a_connection_needs_memory(void **state)
{
    static const char *const steps[] = {"SSL_new", "BIO_new"};
    struct wp_err err = {0};
    struct wp_h2_tls *tls =
        wp_h2_tls_create("ca.pem", NULL, NULL, "localhost", &err);

    (void)state;
    assert_non_null(tls);
    for (size_t i = 0; i < sizeof steps / sizeof(steps[0]); i++) {
        failing = steps[i];
        fails_in = 1;
        assert_null(wp_h2_tls_connect(tls, -1, &err));
        journal("%s: %d %s", steps[i], (int)err.status, err.msg);
        journal_line();
    }
    failing = NULL;
    wp_h2_tls_destroy(tls);
    golden("no_memory");
}

static void
io(const char *what, ssize_t n, const uint8_t *bytes)
{
    int error = errno;

    journal("%s: %zd", what, n);
    if (n < 0) {
        journal(" %s", strerror(error));
    } else if (bytes != NULL && n > 0) {
        journal(" %.*s", (int)n, (const char *)bytes);
    }
    journal_line();
}

static void
bytes_go_both_ways(void **state)
{
    static uint8_t many[1 << 20];
    uint8_t got[64];
    struct wp_err err;
    struct wp_h2_tls *tls =
        wp_h2_tls_create("ca.pem", NULL, NULL, "localhost", &err);
    struct peer peer = good;
    int fd;
    void *conn = shake(tls, &peer, &fd);
    size_t sent = 0;
    ssize_t n;

    (void)state;
    assert_non_null(conn);
    io("nothing yet", wp_h2_tls_recv(conn, got, sizeof got), got);
    sends = 0;
    io("sent", wp_h2_tls_send(conn, (const uint8_t *)"question", 8), NULL);
    assert_int_equal(sends, 1);
    assert_int_equal(SSL_read(peer.ssl, got, sizeof got), 8);
    assert_memory_equal(got, "question", 8);
    assert_int_equal(SSL_write(peer.ssl, "answer", 6), 6);
    io("four bytes", wp_h2_tls_recv(conn, got, 4), got);
    io("the rest", wp_h2_tls_recv(conn, got, sizeof got), got);
    say("as much as the socket takes");
    while ((n = wp_h2_tls_send(conn, many + sent, sizeof many - sent)) > 0) {
        sent += (size_t)n;
    }
    journal("some: %d", sent > 0 && sent < sizeof many);
    journal_line();
    io("then", n, NULL);
    say("the end");
    assert_int_equal(SSL_shutdown(peer.ssl), 0);
    io("closed", wp_h2_tls_recv(conn, got, sizeof got), got);
    wp_h2_tls_close(conn);
    assert_int_equal(close(fd), 0);
    peer_end(&peer);
    wp_h2_tls_destroy(tls);
    golden("bytes");
}

/* A connection, and what the peer does to it. */
static void
with_peer(void (*act)(struct peer *peer))
{
    uint8_t got[64];
    struct wp_err err = {0};
    struct wp_h2_tls *tls =
        wp_h2_tls_create("ca.pem", NULL, NULL, "localhost", &err);
    struct peer peer = good;
    int fd;
    void *conn = shake(tls, &peer, &fd);

    assert_non_null(conn);
    act(&peer);
    io("received", wp_h2_tls_recv(conn, got, sizeof got), got);
    journal("%d", (int)wp_h2_tls_error(&err));
    journal(" %s", err.msg);
    journal_line();
    io("sent", wp_h2_tls_send(conn, (const uint8_t *)"x", 1), NULL);
    wp_h2_tls_close(conn);
    assert_int_equal(close(fd), 0);
    peer_end(&peer);
    wp_h2_tls_destroy(tls);
}

static void
says_what_is_no_tls(struct peer *peer)
{
    assert_int_equal(write(peer->fd, "no TLS at all", 13), 13);
}

static void
hangs_up(struct peer *peer)
{
    assert_int_equal(close(peer->fd), 0);
    peer->fd = -1;
}

static void
breaks(struct peer *peer)
{
    (void)peer;
    send_errno = EPIPE;
}

static void
ends_are_told_apart(void **state)
{
    (void)state;
    say("what is no TLS");
    with_peer(says_what_is_no_tls);
    say("hung up");
    with_peer(hangs_up);
    say("broken");
    with_peer(breaks);
    send_errno = EAGAIN;
    say("full");
    {
        struct wp_err err;
        struct wp_h2_tls *tls =
            wp_h2_tls_create("ca.pem", NULL, NULL, "localhost", &err);
        struct peer peer = good;
        int fd;
        void *conn;

        send_errno = 0;
        conn = shake(tls, &peer, &fd);
        send_errno = EAGAIN;
        io("sent", wp_h2_tls_send(conn, (const uint8_t *)"x", 1), NULL);
        send_errno = 0;
        io("sent", wp_h2_tls_send(conn, (const uint8_t *)"x", 1), NULL);
        wp_h2_tls_close(conn);
        assert_int_equal(close(fd), 0);
        peer_end(&peer);
        wp_h2_tls_destroy(tls);
    }
    golden("ends");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_good_files_are_taken),
        cmocka_unit_test(the_certificate_is_for_the_host),
        cmocka_unit_test(a_handshake_that_fails_says_why),
        cmocka_unit_test(a_connection_needs_memory),
        cmocka_unit_test(bytes_go_both_ways),
        cmocka_unit_test(ends_are_told_apart),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
