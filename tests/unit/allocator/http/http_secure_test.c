/* Connections over TLS of the daemon's HTTP server, when memory lacks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <openssl/ssl.h>

#include "allocator/http/secure.h"
#include "tests/support/base/descriptors.h"
#include "tests/support/base/temp_dir.h"
#include "tests/support/http/tls_certs.h"

static bool fails; /* The next that libevent asks for. */

static void *
take_memory(size_t size)
{
    bool now = fails;

    fails = false;
    return now ? NULL : malloc(size);
}

/* What is freed twice ends this program, or shows in its next use. */
static void
a_connection_needs_memory(void **state)
{
    const size_t before = descriptors_count();
    const struct wp_tls_config config = {
        .cert = "server.pem", .key = "server.key", .protocol = "http/1.1"};
    char dir[512];
    struct wp_http_secure secure;
    struct event_base *base;
    struct bufferevent *bev;
    struct wp_tls *tls;
    struct wp_err err;
    int fds[2];

    (void)state;
    event_set_mem_functions(take_memory, realloc, free);
    temp_dir_make_fast(dir, sizeof dir);
    assert_int_equal(chdir(dir), 0);
    tls_certs_make(".");
    base = event_base_new();
    tls = wp_tls_create(&config, &err);
    assert_non_null(base);
    assert_non_null(tls);
    secure = wp_secure(tls);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds),
                     0);
    fails = true;
    assert_null(secure.open(secure.ctx, base, fds[0]));
    assert_false(fails);
    /* It is the caller's still. */
    assert_true(fcntl(fds[0], F_GETFD) >= 0);
    bev = secure.open(secure.ctx, base, fds[0]);
    assert_non_null(bev);
    assert_int_equal(bufferevent_getfd(bev), fds[0]);
    assert_int_equal(bufferevent_openssl_get_allow_dirty_shutdown(bev), 1);
    assert_int_equal(SSL_is_server(bufferevent_openssl_get_ssl(bev)), 1);
    /* Before its handshake there is nobody to say goodbye to. */
    secure.end(bev);
    bufferevent_free(bev);
    (void)event_base_loop(base, EVLOOP_NONBLOCK);
    assert_int_equal(close(fds[1]), 0);
    wp_tls_destroy(tls);
    event_base_free(base);
    assert_int_equal(descriptors_count(), before);
    assert_int_equal(chdir("/"), 0);
    temp_dir_remove(dir);
}

static bool is_through; /* The handshake. */
static unsigned goodbyes;

int __wrap_SSL_is_init_finished(const SSL *ssl);
int __wrap_SSL_shutdown(SSL *ssl);

int
__wrap_SSL_is_init_finished(const SSL *ssl)
{
    assert_non_null(ssl);
    return is_through;
}

int
__wrap_SSL_shutdown(SSL *ssl)
{
    assert_non_null(ssl);
    goodbyes++;
    return 1;
}

/* Its certificate, which is a fake, and the names in it. */
static bool has_certificate;
static const SSL *asked;

X509 *__wrap_SSL_get0_peer_certificate(const SSL *ssl);
void __wrap_wp_tls_names(const SSL *ssl,
                         bool (*visit)(void *ctx, struct wp_str name),
                         void *ctx);

X509 *
__wrap_SSL_get0_peer_certificate(const SSL *ssl)
{
    asked = ssl;
    return has_certificate ? (X509 *)(void *)&has_certificate : NULL;
}

void
__wrap_wp_tls_names(const SSL *ssl, bool (*visit)(void *ctx, struct wp_str),
                    void *ctx)
{
    assert_true(has_certificate);
    assert_ptr_equal(ssl, asked);
    assert_true(visit(ctx, WP_STR("other")));
    (void)visit(ctx, WP_STR("agent"));
}

/* Who shows no certificate is nobody, and may not call. */
static void
who_is_at_the_other_end(void **state)
{
    static const struct wp_principal principals[] = {{"agent", "blue", true}};
    static const struct wp_principal others[] = {{"nobody", "blue", true}};
    const struct wp_access open_to_all = {NULL};
    const struct wp_access named = {.principals = principals,
                                    .n_principals = 1};
    const struct wp_access unnamed = {.principals = others, .n_principals = 1};
    SSL_CTX *ctx = SSL_CTX_new(TLS_method());
    struct event_base *base = event_base_new();
    struct bufferevent *bev;
    struct wp_identity who = {.name = ""};

    (void)state;
    assert_non_null(ctx);
    assert_non_null(base);
    bev = bufferevent_openssl_socket_new(base, -1, SSL_new(ctx),
                                         BUFFEREVENT_SSL_ACCEPTING,
                                         BEV_OPT_CLOSE_ON_FREE);
    assert_non_null(bev);
    has_certificate = false;
    assert_false(wp_secure_peer(bev, &open_to_all, &who));
    assert_ptr_equal(asked, bufferevent_openssl_get_ssl(bev));
    assert_string_equal(who.name, "");
    assert_string_equal(who.tenant, "");
    has_certificate = true;
    assert_true(wp_secure_peer(bev, &open_to_all, &who));
    assert_string_equal(who.name, "other");
    assert_string_equal(who.tenant, "other");
    assert_false(who.admin);
    memset(&who, 0, sizeof who);
    assert_true(wp_secure_peer(bev, &named, &who));
    assert_string_equal(who.name, "agent");
    assert_string_equal(who.tenant, "blue");
    assert_true(who.admin);
    memset(&who, 0, sizeof who);
    assert_false(wp_secure_peer(bev, &unnamed, &who));
    assert_string_equal(who.name, "other");
    /* It is said goodbye to once it has been greeted. */
    is_through = false;
    goodbyes = 0;
    wp_secure(NULL).end(bev);
    assert_int_equal(goodbyes, 0);
    is_through = true;
    wp_secure(NULL).end(bev);
    assert_int_equal(goodbyes, 1);
    is_through = false;
    bufferevent_free(bev);
    (void)event_base_loop(base, EVLOOP_NONBLOCK);
    event_base_free(base);
    SSL_CTX_free(ctx);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_needs_memory),
        cmocka_unit_test(who_is_at_the_other_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
