/* tests/unit/allocator/stores/redis/redis_tls_test.c - TLS to Redis: which
 * files are taken, what is asked of OpenSSL, which servers are trusted, and how
 * a session's bytes go and come. The server is the test's own, in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "allocator/stores/redis/link/tls.h"
#include "tests/support/base/temp_dir.h"
#include "tests/support/http/tls_certs.h"
#include "tests/support/pool/manual_clock.h"
#include "tests/unit/allocator/stores/redis/journal.h"

enum {
    POLLS_MAX = 8,
    BYTES_MAX = 4 << 20,
};

static char dir[4096];
static char before[4096];

/* What the test has OpenSSL, the clock and poll() do. */
static bool journals; /* What is asked of OpenSSL is noted. */
static int fails_in;  /* The step of that number fails, from 1. */
static bool is_manual;
static struct wp_clock_manual manual;
static int polls[POLLS_MAX]; /* Each: 0, 1, or an error number below 0. */
static uint32_t n_polls;     /* 0: the real one. */
static uint32_t polled;
static int error_kind;   /* What OpenSSL says of its failures; 0: the truth. */
static int system_error; /* That it notes then. */
static int n_locked;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
int __real_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
const struct wp_clock *__real_wp_clock_system(void);
const struct wp_clock *__wrap_wp_clock_system(void);
SSL_CTX *__real_SSL_CTX_new(const SSL_METHOD *method);
SSL_CTX *__wrap_SSL_CTX_new(const SSL_METHOD *method);
SSL *__real_SSL_new(SSL_CTX *context);
SSL *__wrap_SSL_new(SSL_CTX *context);
int __real_SSL_set_fd(SSL *ssl, int fd);
int __wrap_SSL_set_fd(SSL *ssl, int fd);
int __real_SSL_set1_host(SSL *ssl, const char *name);
int __wrap_SSL_set1_host(SSL *ssl, const char *name);
void __real_SSL_set_hostflags(SSL *ssl, unsigned flags);
void __wrap_SSL_set_hostflags(SSL *ssl, unsigned flags);
long __real_SSL_ctrl(SSL *ssl, int what, long number, void *arg);
long __wrap_SSL_ctrl(SSL *ssl, int what, long number, void *arg);
long __real_SSL_CTX_ctrl(SSL_CTX *context, int what, long number, void *arg);
long __wrap_SSL_CTX_ctrl(SSL_CTX *context, int what, long number, void *arg);
uint64_t __real_SSL_CTX_set_options(SSL_CTX *context, uint64_t options);
uint64_t __wrap_SSL_CTX_set_options(SSL_CTX *context, uint64_t options);
void __real_SSL_CTX_set_verify(SSL_CTX *context, int mode,
                               SSL_verify_cb callback);
void __wrap_SSL_CTX_set_verify(SSL_CTX *context, int mode,
                               SSL_verify_cb callback);
int __real_SSL_CTX_set_default_verify_paths(SSL_CTX *context);
int __wrap_SSL_CTX_set_default_verify_paths(SSL_CTX *context);

int __real_SSL_get_error(const SSL *ssl, int rc);
int __wrap_SSL_get_error(const SSL *ssl, int rc);
int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);

static bool
fails_now(void)
{
    return fails_in > 0 && --fails_in == 0;
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return fails_now() ? NULL : __real_calloc(n, size);
}

int
__wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    int result;

    if (n_polls == 0) {
        return __real_poll(fds, n, timeout_ms);
    }
    if (polled == n_polls) {
        abort();
    }
    journal_note("poll %d for %s within %d ms", (int)n,
                 fds[0].events == POLLIN ? "reading" : "writing", timeout_ms);
    wp_clock_manual_advance(&manual, WP_NS_PER_MS);
    result = polls[polled++];
    if (result < 0) {
        errno = -result;
        return -1;
    }
    return result;
}

const struct wp_clock *
__wrap_wp_clock_system(void)
{
    return is_manual ? &manual.clock : __real_wp_clock_system();
}

int
__wrap_SSL_get_error(const SSL *ssl, int rc)
{
    if (error_kind == 0) {
        return __real_SSL_get_error(ssl, rc);
    }
    ERR_clear_error();
    if (system_error != 0) {
        ERR_raise(ERR_LIB_SYS, system_error);
    }
    return error_kind;
}

int
__wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    n_locked++;
    return __real_pthread_mutex_lock(lock);
}

int
__wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    assert_int_equal(n_locked--, 1);
    return __real_pthread_mutex_unlock(lock);
}

SSL_CTX *
__wrap_SSL_CTX_new(const SSL_METHOD *method)
{
    return fails_now() ? NULL : __real_SSL_CTX_new(method);
}

SSL *
__wrap_SSL_new(SSL_CTX *context)
{
    return fails_now() ? NULL : __real_SSL_new(context);
}

int
__wrap_SSL_set_fd(SSL *ssl, int fd)
{
    return fails_now() ? 0 : __real_SSL_set_fd(ssl, fd);
}

int
__wrap_SSL_set1_host(SSL *ssl, const char *name)
{
    if (journals) {
        journal_note("expect host %s", name);
    }
    return fails_now() ? 0 : __real_SSL_set1_host(ssl, name);
}

void
__wrap_SSL_set_hostflags(SSL *ssl, unsigned flags)
{
    if (journals) {
        journal_note("flags of hosts %x", flags);
    }
    __real_SSL_set_hostflags(ssl, flags);
}

long
__wrap_SSL_ctrl(SSL *ssl, int what, long number, void *arg)
{
    if (journals) {
        journal_note("ask server for %s: %d %ld", (const char *)arg, what,
                     number);
    }
    return fails_now() ? 0 : __real_SSL_ctrl(ssl, what, number, arg);
}

long
__wrap_SSL_CTX_ctrl(SSL_CTX *context, int what, long number, void *arg)
{
    if (journals) {
        journal_note("set %d to %lx", what, (unsigned long)number);
    }
    return __real_SSL_CTX_ctrl(context, what, number, arg);
}

uint64_t
__wrap_SSL_CTX_set_options(SSL_CTX *context, uint64_t options)
{
    if (journals) {
        journal_note("options %llx", (unsigned long long)options);
    }
    return __real_SSL_CTX_set_options(context, options);
}

void
__wrap_SSL_CTX_set_verify(SSL_CTX *context, int mode, SSL_verify_cb callback)
{
    if (journals) {
        journal_note("verify %d callback=%d", mode, callback != NULL);
    }
    __real_SSL_CTX_set_verify(context, mode, callback);
}

int
__wrap_SSL_CTX_set_default_verify_paths(SSL_CTX *context)
{
    if (journals) {
        journal_note("authorities of the system");
    }
    return fails_now() ? 0 : __real_SSL_CTX_set_default_verify_paths(context);
}

/* --- files --- */

static void
write_file(const char *name, const char *text)
{
    FILE *file = fopen(name, "we");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* The server's key, with a pass phrase. */
static void
write_locked_key(void)
{
    FILE *file = fopen("server.key", "re");
    EVP_PKEY *key = PEM_read_PrivateKey(file, NULL, NULL, NULL);

    assert_non_null(key);
    assert_int_equal(fclose(file), 0);
    file = fopen("locked.key", "we");
    assert_int_equal(PEM_write_PrivateKey(file, key, EVP_aes_128_cbc(), NULL, 0,
                                          NULL, "phrase"),
                     1);
    assert_int_equal(fclose(file), 0);
    EVP_PKEY_free(key);
}

static int
begin(void **state)
{
    (void)state;
    assert_non_null(getcwd(before, sizeof before));
    temp_dir_make(dir, sizeof dir);
    assert_int_equal(chdir(dir), 0);
    tls_certs_make(".");
    write_file("garbage.pem", "nothing of use\n");
    write_locked_key();
    return 0;
}

static int
end(void **state)
{
    (void)state;
    assert_int_equal(chdir(before), 0);
    temp_dir_empty(dir);
    return rmdir(dir);
}

static int
setup(void **state)
{
    (void)state;
    journals = false;
    fails_in = 0;
    is_manual = false;
    n_polls = 0;
    polled = 0;
    error_kind = 0;
    system_error = 0;
    n_locked = 0;
    return 0;
}

static void
note_status(enum wp_status status, struct wp_err *err)
{
    journal_note("= %s '%s' %s", wp_status_name(status), err->msg,
                 wp_status_name(err->status));
    *err = (struct wp_err){.status = WP_OK};
    /* Nothing is left for who uses OpenSSL next. */
    if (ERR_peek_error() != 0) {
        journal_note("an error is left");
    }
}

static void
check(const char *ca, const char *cert, const char *key)
{
    const struct wp_redis_tls tls = {.ca = ca, .cert = cert, .key = key};
    struct wp_err err = {.status = WP_OK};

    journal_note("# ca %s cert %s key %s", ca != NULL ? ca : "-",
                 cert != NULL ? cert : "-", key != NULL ? key : "-");
    note_status(wp_redis_tls_check(&tls, &err), &err);
}

static void
test_which_files_are_taken(void **state)
{
    (void)state;
    journals = true;
    check(NULL, NULL, NULL);
    check("", "", "");
    journals = false;
    check("", "", "missing");
    check("ca.pem", NULL, NULL);
    check("missing", NULL, NULL);
    check(".", NULL, NULL);
    check("garbage.pem", NULL, NULL);
    check("server.key", NULL, NULL);
    check("ca.pem", "client.pem", "client.key");
    check("ca.pem", "missing", "client.key");
    check("ca.pem", ".", "client.key");
    check("ca.pem", "garbage.pem", "client.key");
    check("ca.pem", "client.pem", "missing");
    check("ca.pem", "client.pem", ".");
    check("ca.pem", "client.pem", NULL);
    check("ca.pem", "client.pem", "garbage.pem");
    check("ca.pem", "client.pem", "server.key");
    check("ca.pem", "server.pem", "locked.key");
    fails_in = 1;
    check("", NULL, NULL);
    fails_in = 2;
    check("", NULL, NULL);
    journal_compare("tls_files");
}

/* --- greetings --- */

struct server {
    pthread_t thread;
    int ends[2]; /* Its own is the second. */
    SSL_CTX *context;
    SSL *ssl;
    int rc;        /* Of the greeting. */
    char name[64]; /* That it was asked for. */
};

static void *
greet(void *ctx)
{
    struct server *server = ctx;
    const char *name;

    server->rc = SSL_accept(server->ssl);
    name = SSL_get_servername(server->ssl, TLSEXT_NAMETYPE_host_name);
    (void)snprintf(server->name, sizeof server->name, "%s",
                   name != NULL ? name : "-");
    ERR_clear_error();
    return NULL;
}

static void
open_sockets(int ends[2])
{
    assert_int_equal(socketpair(AF_UNIX,
                                SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                                ends),
                     0);
}

/* wants: it lets nobody in without a certificate. */
static void
start(struct server *server, bool wants)
{
    memset(server, 0, sizeof *server);
    open_sockets(server->ends);
    assert_int_equal(fcntl(server->ends[1], F_SETFL, 0), 0);
    server->context = __real_SSL_CTX_new(TLS_server_method());
    assert_int_equal(
        SSL_CTX_use_certificate_chain_file(server->context, "server.pem"), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(server->context, "server.key",
                                                 SSL_FILETYPE_PEM),
                     1);
    if (wants) {
        assert_int_equal(SSL_CTX_load_verify_file(server->context, "ca.pem"),
                         1);
        __real_SSL_CTX_set_verify(
            server->context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
            NULL);
    }
    server->ssl = __real_SSL_new(server->context);
    assert_int_equal(__real_SSL_set_fd(server->ssl, server->ends[1]), 1);
    assert_int_equal(pthread_create(&server->thread, NULL, greet, server), 0);
}

/* Its greeting is over; nothing waits at its end any more. */
static void
join(struct server *server)
{
    assert_int_equal(pthread_join(server->thread, NULL), 0);
    assert_int_equal(fcntl(server->ends[1], F_SETFL, O_NONBLOCK), 0);
}

static void
stop(struct server *server)
{
    SSL_free(server->ssl);
    SSL_CTX_free(server->context);
    for (int i = 0; i < 2; i++) {
        if (server->ends[i] >= 0) {
            (void)close(server->ends[i]);
        }
    }
}

static struct wp_redis_session *
open_session(const struct wp_redis_tls *tls, const char *host, int fd,
             int64_t timeout_ns)
{
    struct wp_redis_session *session = NULL;
    struct wp_err err = {.status = WP_OK};

    note_status(
        wp_redis_session_open(tls, host, fd, timeout_ns, &session, &err), &err);
    return session;
}

static void
greet_as(const char *ca, const char *host, const char *name, bool shows)
{
    const struct wp_redis_tls tls = {.ca = ca,
                                     .name = name,
                                     .cert = shows ? "client.pem" : NULL,
                                     .key = shows ? "client.key" : NULL};
    struct wp_redis_session *session;
    struct server server;

    journal_note("# %s of %s, by %s", name != NULL ? name : "-", host, ca);
    start(&server, shows);
    journals = true;
    session = open_session(&tls, host, server.ends[0], 60 * WP_NS_PER_S);
    journals = false;
    /* Who is not trusted sees that at last. */
    (void)shutdown(server.ends[0], SHUT_RDWR);
    join(&server);
    journal_note("session=%d server=%d asked for %s", session != NULL,
                 server.rc == 1, server.name);
    wp_redis_session_close(session);
    stop(&server);
}

static void
test_whom_to_trust(void **state)
{
    (void)state;
    greet_as("ca.pem", "localhost", NULL, false);
    greet_as("ca.pem", "api.test", "", false);
    greet_as("ca.pem", "127.0.0.1", NULL, false);
    greet_as("ca.pem", "127.0.0.2", "localhost", false);
    greet_as("ca.pem", "localhost", "127.0.0.1", false);
    greet_as("ca.pem", "localhost", NULL, true);
    greet_as("ca.pem", "other.test", NULL, false);
    greet_as("ca.pem", "127.0.0.2", NULL, false);
    greet_as("ca.pem", "localhost", "::1", false);
    greet_as("other-ca.pem", "localhost", NULL, false);
    journal_compare("tls_trust");
}

static void
test_files_count_for_each_session(void **state)
{
    const struct wp_redis_tls tls = {.ca = "missing"};
    int ends[2];

    (void)state;
    open_sockets(ends);
    assert_null(open_session(&tls, "localhost", ends[0], WP_NS_PER_S));
    (void)close(ends[0]);
    (void)close(ends[1]);
    assert_string_equal(journal_told(),
                        "= INVALID_ARGUMENT 'setting 'redis_tls_ca': missing:"
                        " No such file or directory' INVALID_ARGUMENT\n");
}

/* What comes instead of a greeting; NULL: the end. */
static void
greet_with(const char *text, const char *what)
{
    const struct wp_redis_tls tls = {.ca = "ca.pem"};
    int ends[2];

    journal_note("# %s", what);
    open_sockets(ends);
    if (text != NULL) {
        assert_int_equal(send(ends[1], text, strlen(text), MSG_NOSIGNAL),
                         strlen(text));
    } else {
        (void)shutdown(ends[1], SHUT_WR);
    }
    assert_null(open_session(&tls, "localhost", ends[0], 60 * WP_NS_PER_S));
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void
test_what_is_no_greeting(void **state)
{
    int ends[2];

    (void)state;
    greet_with("-ERR unknown command\r\n", "an answer of Redis");
    greet_with("+OK\r\n+OK\r\n", "another one");
    greet_with(NULL, "nothing");
    greet_with("\x15\x03\x03\x7f\x7f\x7f\x7f", "a long record");
    /* Closed before it is written to. */
    open_sockets(ends);
    (void)close(ends[1]);
    journal_note("# closed");
    assert_null(open_session(&(struct wp_redis_tls){.ca = "ca.pem"},
                             "localhost", ends[0], WP_NS_PER_S));
    (void)close(ends[0]);
    journal_compare("tls_no_greeting");
}

/* The server's own reason. */
static void
test_a_greeting_that_is_refused(void **state)
{
    static const char refusal[] = "\x15\x03\x03\x00\x02\x02\x28";
    const struct wp_redis_tls tls = {.ca = "ca.pem"};
    struct wp_redis_session *session;
    struct wp_err err;
    int ends[2];

    (void)state;
    open_sockets(ends);
    assert_int_equal(send(ends[1], refusal, 7, MSG_NOSIGNAL), 7);
    assert_int_equal(wp_redis_session_open(&tls, "localhost", ends[0],
                                           60 * WP_NS_PER_S, &session, &err),
                     WP_UNAVAILABLE);
    assert_memory_equal(err.msg, "TLS: ", 5);
    assert_non_null(strstr(err.msg, "alert handshake failure"));
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void
wait_with(int64_t timeout_ns, const int *results, uint32_t n, const char *what)
{
    const struct wp_redis_tls tls = {.ca = "ca.pem"};
    int ends[2];

    journal_note("# %s", what);
    open_sockets(ends);
    is_manual = true;
    wp_clock_manual_init(&manual, 5 * WP_NS_PER_S, 0);
    memcpy(polls, results, n * sizeof *results);
    n_polls = n;
    polled = 0;
    assert_null(open_session(&tls, "localhost", ends[0], timeout_ns));
    assert_int_equal(polled, n);
    n_polls = 0;
    (void)close(ends[0]);
    (void)close(ends[1]);
}

/* All waits together. */
static void
test_a_greeting_has_its_time(void **state)
{
    static const int silent[] = {0};
    static const int late[] = {1, -EINTR, 1, 0};
    static const int broken[] = {-EINTR, -EIO};

    (void)state;
    wait_with(0, silent, 1, "no time");
    wait_with(1, silent, 1, "less than a millisecond");
    wait_with(WP_NS_PER_MS - 1, silent, 1, "almost one");
    wait_with(WP_NS_PER_MS, silent, 1, "one");
    wait_with(INT_MAX * WP_NS_PER_MS - WP_NS_PER_MS, silent, 1,
              "as many as poll() takes");
    wait_with(INT_MAX * WP_NS_PER_MS, silent, 1, "more");
    wait_with(WP_TIME_NEVER, silent, 1, "no end");
    wait_with(3 * WP_NS_PER_MS, late, WP_ARRAY_LEN(late), "a little at a time");
    wait_with(3 * WP_NS_PER_MS, broken, WP_ARRAY_LEN(broken), "broken");
    journal_compare("tls_time");
}

/* The socket takes nothing yet. */
static void
test_a_greeting_waits_for_room(void **state)
{
    static const int results[] = {1, 0};
    const struct wp_redis_tls tls = {.ca = "ca.pem"};
    static const char fill[4096];
    int ends[2];

    (void)state;
    open_sockets(ends);
    while (send(ends[0], fill, sizeof fill, MSG_NOSIGNAL) > 0) {
    }
    while (send(ends[0], fill, 1, MSG_NOSIGNAL) > 0) {
    }
    is_manual = true;
    wp_clock_manual_init(&manual, 0, 0);
    memcpy(polls, results, sizeof results);
    n_polls = 2;
    assert_null(open_session(&tls, "localhost", ends[0], 9 * WP_NS_PER_MS));
    (void)close(ends[0]);
    (void)close(ends[1]);
    journal_compare("tls_room");
}

static void
test_a_session_without_memory(void **state)
{
    const struct wp_redis_tls tls = {.ca = "ca.pem"};
    struct wp_redis_session *session = NULL;
    int n = 0;

    (void)state;
    while (session == NULL) {
        struct server server;

        assert_in_range(++n, 1, 20);
        start(&server, false);
        fails_in = n;
        session =
            open_session(&tls, "localhost", server.ends[0], 60 * WP_NS_PER_S);
        fails_in = 0;
        (void)shutdown(server.ends[0], SHUT_RDWR);
        join(&server);
        wp_redis_session_close(session);
        stop(&server);
    }
    journal_compare("tls_memory");
}

/* --- bytes --- */

static struct wp_redis_session *
greeted(struct server *server)
{
    const struct wp_redis_tls tls = {.ca = "ca.pem"};
    struct wp_redis_session *session;

    start(server, false);
    session =
        open_session(&tls, "localhost", server->ends[0], 60 * WP_NS_PER_S);
    assert_non_null(session);
    join(server);
    assert_int_equal(server->rc, 1);
    assert_string_equal(journal_told(), "= OK '' OK\n");
    return session;
}

static void
test_bytes_go_and_come(void **state)
{
    static char out[BYTES_MAX];
    static char in[BYTES_MAX];
    struct server server;
    struct wp_redis_session *session = greeted(&server);
    const char *why = "unset";
    size_t sent = 0;
    size_t got = 0;
    bool was_full = false;

    (void)state;
    assert_int_equal(wp_redis_session_receive(session, in, sizeof in, &why),
                     WP_REDIS_AGAIN);
    assert_string_equal(why, "unset");
    assert_int_equal(SSL_write(server.ssl, "hello", 5), 5);
    assert_int_equal(wp_redis_session_receive(session, in, 3, &why), 3);
    assert_memory_equal(in, "hel", 3);
    assert_int_equal(wp_redis_session_receive(session, in, sizeof in, &why), 2);
    assert_memory_equal(in, "lo", 2);
    assert_int_equal(wp_redis_session_send(session, "x", 1), 1);
    assert_int_equal(SSL_read(server.ssl, in, 10), 1);
    assert_int_equal(in[0], 'x');
    for (size_t i = 0; i < sizeof out; i++) {
        out[i] = (char)(i * 7 + i / 251);
    }
    while (got < sizeof out) {
        ssize_t n =
            sent < sizeof out
                ? wp_redis_session_send(session, out + sent, sizeof out - sent)
                : WP_REDIS_AGAIN;
        int read;

        assert_true(n >= 0);
        sent += (size_t)n;
        was_full = was_full || n == WP_REDIS_AGAIN;
        if (n != WP_REDIS_AGAIN) {
            continue;
        }
        while ((read = SSL_read(server.ssl, in + got, 65536)) > 0) {
            got += (size_t)read;
        }
        ERR_clear_error();
    }
    assert_true(was_full);
    assert_int_equal(sent, sizeof out);
    assert_memory_equal(in, out, sizeof out);
    wp_redis_session_close(session);
    stop(&server);
}

static void
test_how_a_session_ends(void **state)
{
    static char in[64];
    struct server server;
    struct wp_redis_session *session;
    const char *why = "unset";

    (void)state;
    session = greeted(&server);
    assert_int_equal(SSL_shutdown(server.ssl), 0);
    assert_int_equal(wp_redis_session_receive(session, in, sizeof in, &why),
                     WP_REDIS_OVER);
    assert_string_equal(why, "closed by the other side");
    assert_int_equal(ERR_peek_error(), 0);
    wp_redis_session_close(session);
    stop(&server);

    session = greeted(&server);
    (void)close(server.ends[1]);
    server.ends[1] = -1;
    why = "unset";
    assert_int_equal(wp_redis_session_receive(session, in, sizeof in, &why),
                     WP_REDIS_OVER);
    assert_string_equal(why, "closed by the other side");
    assert_int_equal(ERR_peek_error(), 0);
    assert_int_equal(wp_redis_session_send(session, "x", 1), WP_REDIS_OVER);
    assert_int_equal(ERR_peek_error(), 0);
    wp_redis_session_close(session);
    stop(&server);

    /* Said in the clear. */
    session = greeted(&server);
    assert_int_equal(send(server.ends[1], "+OK\r\n+OK\r\n", 10, MSG_NOSIGNAL),
                     10);
    assert_int_equal(wp_redis_session_receive(session, in, sizeof in, &why),
                     WP_REDIS_OVER);
    assert_string_equal(why, "wrong version number");
    assert_int_equal(ERR_peek_error(), 0);
    wp_redis_session_close(session);
    stop(&server);
    wp_redis_session_close(NULL);
}

static void
test_what_is_said_of_a_failure(void **state)
{
    static const struct {
        int kind;
        int error;
        const char *why;
    } cases[] = {
        {SSL_ERROR_ZERO_RETURN, 0, "closed by the other side"},
        {SSL_ERROR_ZERO_RETURN, EIO, "closed by the other side"},
        {SSL_ERROR_SYSCALL, 0, "closed by the other side"},
        {SSL_ERROR_SYSCALL, EIO, "TLS has failed"},
        {SSL_ERROR_SSL, 0, "TLS has failed"},
    };
    struct server server;
    struct wp_redis_session *session = greeted(&server);
    char in[8];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        const char *why = "unset";

        error_kind = cases[i].kind;
        system_error = cases[i].error;
        assert_int_equal(wp_redis_session_receive(session, in, sizeof in, &why),
                         WP_REDIS_OVER);
        assert_string_equal(why, cases[i].why);
        assert_int_equal(ERR_peek_error(), 0);
    }
    error_kind = SSL_ERROR_WANT_WRITE;
    assert_int_equal(wp_redis_session_receive(session, in, sizeof in, NULL),
                     WP_REDIS_AGAIN);
    error_kind = 0;
    assert_int_equal(n_locked, 0);
    wp_redis_session_close(session);
    stop(&server);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_which_files_are_taken, setup),
        cmocka_unit_test_setup(test_whom_to_trust, setup),
        cmocka_unit_test_setup(test_files_count_for_each_session, setup),
        cmocka_unit_test_setup(test_what_is_no_greeting, setup),
        cmocka_unit_test_setup(test_a_greeting_that_is_refused, setup),
        cmocka_unit_test_setup(test_a_greeting_has_its_time, setup),
        cmocka_unit_test_setup(test_a_greeting_waits_for_room, setup),
        cmocka_unit_test_setup(test_a_session_without_memory, setup),
        cmocka_unit_test_setup(test_bytes_go_and_come, setup),
        cmocka_unit_test_setup(test_how_a_session_ends, setup),
        cmocka_unit_test_setup(test_what_is_said_of_a_failure, setup),
    };

    /* As the product. */
    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, begin, end);
}
