#include "allocator/stores/redis/link/tls.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"

struct wp_redis_session {
    SSL *ssl;
    pthread_mutex_t lock; /* OpenSSL lets one thread at a time use ssl. */
};

static const char *
text_of(const char *text)
{
    return text != NULL ? text : "";
}

/* --- whom to trust --- */

/* A key that needs a pass phrase is not usable: the daemon cannot ask. */
static int /* OpenSSL gives its type. */
/* NOLINTNEXTLINE(readability-non-const-parameter) */
no_pass_phrase(char *buf, int size, int writing, void *arg)
{
    (void)buf;
    (void)size;
    (void)writing;
    (void)arg;
    return -1;
}

/* Opening a pipe would wait for its other end. */
static enum wp_status
check_file(const char *setting, const char *path, struct wp_err *err)
{
    struct stat st;

    if (stat(path, &st) != 0) {
        return wp_err_sys(err, WP_INVALID_ARGUMENT, errno, "setting '%s': %s",
                          setting, path);
    }
    if (!S_ISREG(st.st_mode)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "setting '%s': %s: expected a file", setting, path);
    }
    return WP_OK;
}

static enum wp_status
use_authorities(SSL_CTX *context, const char *path, struct wp_err *err)
{
    if (path[0] == '\0') {
        return SSL_CTX_set_default_verify_paths(context) == 1
                   ? WP_OK
                   : wp_err_set(err, WP_INVALID_ARGUMENT,
                                "setting 'redis_tls_ca': the system has no "
                                "authorities, expected a file of them");
    }
    if (check_file("redis_tls_ca", path, err) != WP_OK) {
        return WP_INVALID_ARGUMENT;
    }
    return SSL_CTX_load_verify_file(context, path) == 1
               ? WP_OK
               : wp_err_set(err, WP_INVALID_ARGUMENT,
                            "setting 'redis_tls_ca': %s: expected readable PEM "
                            "certificates",
                            path);
}

static enum wp_status
use_certificate(SSL_CTX *context, const char *cert, const char *key,
                struct wp_err *err)
{
    if (check_file("redis_tls_cert", cert, err) != WP_OK ||
        check_file("redis_tls_key", key, err) != WP_OK) {
        return WP_INVALID_ARGUMENT;
    }
    if (SSL_CTX_use_certificate_chain_file(context, cert) != 1) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "setting 'redis_tls_cert': %s: expected readable PEM "
                          "certificates",
                          cert);
    }
    if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1) {
        bool other =
            ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH;

        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "setting 'redis_tls_key': %s: expected %s", key,
                          other ? "the key of redis_tls_cert"
                                : "a readable PEM key without pass phrase");
    }
    return WP_OK;
}

/* Without renegotiation, what is read never has to wait for what is written. */
static enum wp_status
make_context(const struct wp_redis_tls *tls, SSL_CTX **out, struct wp_err *err)
{
    const char *cert = text_of(tls->cert);
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    enum wp_status status;

    if (context == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "memory for TLS");
    }
    (void)SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    (void)SSL_CTX_set_options(context,
                              SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    (void)SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                        SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    (void)SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_default_passwd_cb(context, no_pass_phrase);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    status = use_authorities(context, text_of(tls->ca), err);
    if (status == WP_OK && cert[0] != '\0') {
        status = use_certificate(context, cert, text_of(tls->key), err);
    }
    ERR_clear_error();
    if (status == WP_OK) {
        *out = context;
    } else {
        SSL_CTX_free(context);
    }
    return status;
}

enum wp_status
wp_redis_tls_check(const struct wp_redis_tls *tls, struct wp_err *err)
{
    SSL_CTX *context = NULL;
    enum wp_status status = make_context(tls, &context, err);

    SSL_CTX_free(context);
    return status;
}

/* --- the greeting --- */

/* OpenSSL takes it for writable, and copies it. */
static bool
choose_by_name(SSL *ssl, const char *name)
{
    union {
        const char *text;
        void *given;
    } n = {name};

    return SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME,
                    TLSEXT_NAMETYPE_host_name, n.given) == 1;
}

/* An address is looked for among the certificate's addresses, and is no name
 * that a server could choose its certificate by. */
static bool
expect_name(SSL *ssl, const char *name)
{
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1 ||
           (SSL_set1_host(ssl, name) == 1 && choose_by_name(ssl, name));
}

/* Why a step has failed, from what OpenSSL noted on this thread. */
static const char *
reason_of(SSL *ssl, int rc)
{
    int kind = SSL_get_error(ssl, rc);
    unsigned long code = ERR_peek_error();
    const char *reason = code != 0 ? ERR_reason_error_string(code) : NULL;

    if (kind == SSL_ERROR_ZERO_RETURN ||
        (kind == SSL_ERROR_SYSCALL && code == 0) ||
        ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
        return "closed by the other side";
    }
    return reason != NULL ? reason : "TLS has failed";
}

static enum wp_status
not_greeted(SSL *ssl, int rc, const char *name, struct wp_err *err)
{
    long verified = SSL_get_verify_result(ssl);
    int reason = ERR_GET_REASON(ERR_peek_error());

    if (verified == X509_V_ERR_HOSTNAME_MISMATCH ||
        verified == X509_V_ERR_IP_ADDRESS_MISMATCH) {
        return wp_err_set(err, WP_UNAVAILABLE,
                          "TLS: the server's certificate is not for '%s' (%s)",
                          name, X509_verify_cert_error_string(verified));
    }
    if (verified != X509_V_OK) {
        return wp_err_set(err, WP_UNAVAILABLE,
                          "TLS: the server's certificate is not trusted by "
                          "redis_tls_ca: %s",
                          X509_verify_cert_error_string(verified));
    }
    if (reason == SSL_R_WRONG_VERSION_NUMBER ||
        reason == SSL_R_PACKET_LENGTH_TOO_LONG) {
        return wp_err_set(err, WP_UNAVAILABLE,
                          "TLS: the server does not speak TLS");
    }
    return wp_err_set(err, WP_UNAVAILABLE, "TLS: %s", reason_of(ssl, rc));
}

/* All steps together take timeout_ns at most, however many there are. */
static enum wp_status
greet(SSL *ssl, int fd, const char *name, int64_t timeout_ns,
      struct wp_err *err)
{
    const struct wp_clock *clock = wp_clock_system();
    int64_t end_ns = wp_time_add(wp_clock_mono_ns(clock), timeout_ns);

    for (;;) {
        struct pollfd socket = {.fd = fd};
        int64_t left_ns;
        int64_t ms;
        int rc;
        int kind;

        ERR_clear_error();
        rc = SSL_connect(ssl);
        if (rc == 1) {
            return WP_OK;
        }
        kind = SSL_get_error(ssl, rc);
        if (kind != SSL_ERROR_WANT_READ && kind != SSL_ERROR_WANT_WRITE) {
            enum wp_status status = not_greeted(ssl, rc, name, err);

            ERR_clear_error();
            return status;
        }
        socket.events = kind == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
        left_ns = end_ns - wp_clock_mono_ns(clock);
        ms = left_ns > 0 ? left_ns / WP_NS_PER_MS + 1 : 0;
        rc = poll(&socket, 1, ms < INT_MAX ? (int)ms : INT_MAX);
        if (rc == 0) {
            return wp_err_set(err, WP_UNAVAILABLE,
                              "TLS: no answer to the greeting in time: the "
                              "server may not speak TLS");
        }
        if (rc < 0 && errno != EINTR) {
            return wp_err_sys(err, WP_UNAVAILABLE, errno, "TLS: poll");
        }
    }
}

enum wp_status
wp_redis_session_open(const struct wp_redis_tls *tls, const char *host, int fd,
                      int64_t timeout_ns, struct wp_redis_session **out,
                      struct wp_err *err)
{
    const char *name = text_of(tls->name);
    struct wp_redis_session *session;
    SSL_CTX *context = NULL;
    enum wp_status status = make_context(tls, &context, err);

    if (status != WP_OK) {
        return status;
    }
    name = name[0] != '\0' ? name : host;
    session = calloc(1, sizeof *session);
    if (session != NULL) {
        (void)pthread_mutex_init(&session->lock, NULL);
        session->ssl = SSL_new(context);
    }
    SSL_CTX_free(context); /* The session has its own reference. */
    if (session == NULL || session->ssl == NULL ||
        SSL_set_fd(session->ssl, fd) != 1 || !expect_name(session->ssl, name)) {
        wp_redis_session_close(session);
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "memory for TLS");
    }
    status = greet(session->ssl, fd, name, timeout_ns, err);
    if (status == WP_OK) {
        *out = session;
    } else {
        wp_redis_session_close(session);
    }
    return status;
}

void
wp_redis_session_close(struct wp_redis_session *session)
{
    if (session != NULL) {
        SSL_free(session->ssl);
        (void)pthread_mutex_destroy(&session->lock);
        free(session);
    }
}

/* --- bytes --- */

/* The lock is held: OpenSSL notes errors for the thread. */
static ssize_t
again_or_over(SSL *ssl, int rc, const char **why)
{
    int kind = SSL_get_error(ssl, rc);

    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) {
        return WP_REDIS_AGAIN;
    }
    *why = reason_of(ssl, rc);
    ERR_clear_error();
    return WP_REDIS_OVER;
}

ssize_t
wp_redis_session_send(struct wp_redis_session *session, const char *bytes,
                      size_t len)
{
    const char *why;
    size_t n = 0;
    ssize_t sent;
    int rc;

    WP_ASSERT(len > 0);
    (void)pthread_mutex_lock(&session->lock);
    ERR_clear_error();
    rc = SSL_write_ex(session->ssl, bytes, len, &n);
    sent = rc == 1 ? (ssize_t)n : again_or_over(session->ssl, rc, &why);
    (void)pthread_mutex_unlock(&session->lock);
    return sent;
}

ssize_t
wp_redis_session_receive(struct wp_redis_session *session, char *bytes,
                         size_t cap, const char **why)
{
    ssize_t received;
    size_t n = 0;
    int rc;

    (void)pthread_mutex_lock(&session->lock);
    ERR_clear_error();
    rc = SSL_read_ex(session->ssl, bytes, cap, &n);
    received = rc == 1 ? (ssize_t)n : again_or_over(session->ssl, rc, why);
    (void)pthread_mutex_unlock(&session->lock);
    return received;
}
