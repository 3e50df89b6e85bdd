/* TLS: certificates that are read again when their files change, and the names
 * in a client's certificate.
 *
 * Before each handshake the files are looked at with stat, and read only when
 * one of them is another file or was written to. New content is checked before
 * it is used: half a renewal (the new certificate beside the old key) must not
 * break what works. */
#include "proto/tls/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/file.h"
#include "pool/base/log.h"

enum {
    FILE_CERT,
    FILE_KEY,
    FILE_CA,
    N_FILES,
    FILE_BYTES_MAX = 1 << 20,
};

static const char *const setting_names[N_FILES] = {"tls_cert", "tls_key",
                                                   "tls_client_ca"};

/* Between tries of a file that could not be read. */
#define READ_AGAIN_NS WP_NS_PER_S

/* What changes when a file is replaced or written to, or may be read now. */
struct stamp {
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec mtime;
    struct timespec ctime;
};

struct wp_tls {
    struct wp_tls_config config;
    const char *path[N_FILES]; /* Borrowed; FILE_CA may be NULL. */
    /* The rest is the listener's thread's. */
    struct stamp stamp[N_FILES];
    SSL_CTX *context; /* With the newest usable files. */
    bool unread;      /* A changed file could not be read: it is tried again. */
    int64_t again_ns; /* Not before, when unread. */
    _Atomic(uint64_t) reloads;
};

static void
clear_pem(char *pem[N_FILES])
{
    for (int i = 0; i < N_FILES; i++) {
        if (pem[i] != NULL) {
            OPENSSL_cleanse(pem[i], strlen(pem[i]));
            free(pem[i]);
            pem[i] = NULL;
        }
    }
}

static struct stamp
stamp_of(const struct stat *st)
{
    return (struct stamp){st->st_dev, st->st_ino, st->st_size, st->st_mtim,
                          st->st_ctim};
}

static bool
same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* The file's text; the caller frees it. stamp is that of what was read. */
static char *
read_file(const struct wp_tls *tls, int i, struct stamp *stamp,
          struct wp_err *err)
{
    const char *name = setting_names[i];
    const char *path = tls->path[i];
    char *text = calloc(1, FILE_BYTES_MAX + 1);
    struct stat st = {.st_mode = 0};
    ssize_t n = text != NULL ? wp_path_read(path, O_NONBLOCK, text,
                                            FILE_BYTES_MAX + 1, &st)
                             : -1;

    if (st.st_mode == 0) {
        (void)wp_err_sys(err, WP_INVALID_ARGUMENT, errno, "%s: %s", name, path);
    } else if (!S_ISREG(st.st_mode) || st.st_size <= 0 ||
               st.st_size > FILE_BYTES_MAX) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                         "%s: %s: expected a file of 1 byte to 1 MiB", name,
                         path);
    } else if (n != st.st_size) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT, "%s: %s: cannot be read",
                         name, path);
    } else {
        *stamp = stamp_of(&st);
        return text;
    }
    free(text);
    return NULL;
}

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

static EVP_PKEY *
parse_key(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key =
        bio != NULL ? PEM_read_bio_PrivateKey(bio, NULL, no_pass_phrase, NULL)
                    : NULL;

    BIO_free(bio);
    return key;
}

/* The server's own certificate and those that lead to its authority. */
static bool
use_chain(SSL_CTX *context, const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *cert = bio != NULL ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    bool good = cert != NULL && SSL_CTX_use_certificate(context, cert) == 1;

    X509_free(cert);
    while (good && (cert = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
        if (SSL_CTX_add0_chain_cert(context, cert) != 1) {
            X509_free(cert);
            good = false;
        }
    }
    BIO_free(bio);
    return good;
}

/* Whose signature on a client's certificate counts. */
static bool
use_authorities(SSL_CTX *context, const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509_STORE *store = SSL_CTX_get_cert_store(context);
    X509 *cert;
    size_t n = 0;

    while (bio != NULL &&
           (cert = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
        if (X509_STORE_add_cert(store, cert) == 1 &&
            SSL_CTX_add_client_CA(context, cert) == 1) {
            n++;
        }
        X509_free(cert);
    }
    BIO_free(bio);
    return n > 0;
}

static enum wp_status
use_files(const struct wp_tls *tls, SSL_CTX *context, char *const pem[N_FILES],
          struct wp_err *err)
{
    EVP_PKEY *key = parse_key(pem[FILE_KEY]);
    enum wp_status status = WP_OK;

    if (!use_chain(context, pem[FILE_CERT])) {
        status = wp_err_set(err, WP_INVALID_ARGUMENT,
                            "tls_cert: %s: expected a PEM certificate",
                            tls->path[FILE_CERT]);
    } else if (key == NULL) {
        status = wp_err_set(err, WP_INVALID_ARGUMENT,
                            "tls_key: %s: expected a PEM private key without "
                            "pass phrase",
                            tls->path[FILE_KEY]);
    } else if (SSL_CTX_use_PrivateKey(context, key) != 1) {
        status = wp_err_set(err, WP_INVALID_ARGUMENT,
                            "tls_key: %s: does not belong to the certificate "
                            "in %s",
                            tls->path[FILE_KEY], tls->path[FILE_CERT]);
    } else if (pem[FILE_CA] != NULL &&
               !use_authorities(context, pem[FILE_CA])) {
        status = wp_err_set(err, WP_INVALID_ARGUMENT,
                            "tls_client_ca: %s: expected PEM certificates",
                            tls->path[FILE_CA]);
    }
    EVP_PKEY_free(key);
    ERR_clear_error();
    return status;
}

/* Nothing but the listener's protocol. */
static int
select_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                const unsigned char *in, unsigned int in_len, void *arg)
{
    const struct wp_tls *tls = arg;
    unsigned char own[16];
    unsigned char *found = NULL;
    size_t len = strlen(tls->config.protocol);

    (void)ssl;
    WP_ASSERT(len < sizeof own);
    own[0] = (unsigned char)len;
    memcpy(own + 1, tls->config.protocol, len);
    if (SSL_select_next_proto(&found, out_len, own, (unsigned)len + 1, in,
                              in_len) != OPENSSL_NPN_NEGOTIATED) {
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    }
    /* What is pointed to has to outlive this call. */
    *out = (const unsigned char *)tls->config.protocol;
    return SSL_TLSEXT_ERR_OK;
}

/* Sessions are not resumed: each connection shows its certificate, to the
 * authorities of that moment. */
static SSL_CTX *
create_context(struct wp_tls *tls)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());

    if (context == NULL) {
        return NULL;
    }
    (void)SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    (void)SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20");
    (void)SSL_CTX_set_options(
        context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET |
                     SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                     SSL_OP_IGNORE_UNEXPECTED_EOF);
    (void)SSL_CTX_set_num_tickets(context, 0);
    (void)SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                        SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                        SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_alpn_select_cb(context, select_protocol, tls);
    if (tls->path[FILE_CA] != NULL) {
        SSL_CTX_set_verify(context,
                           SSL_VERIFY_PEER |
                               (tls->config.client_may_hide
                                    ? 0
                                    : SSL_VERIFY_FAIL_IF_NO_PEER_CERT),
                           NULL);
    }
    return context;
}

/* Reads all files and notes their stamps, also when they turn out unusable: the
 * same bad content is not read, and complained about, twice. What could not be
 * read is another matter: permission, descriptors and memory come back without
 * a change of the file. */
static enum wp_status
load(struct wp_tls *tls, struct wp_err *err)
{
    char *pem[N_FILES] = {NULL};
    SSL_CTX *context = create_context(tls);
    enum wp_status status =
        context != NULL
            ? WP_OK
            : wp_err_set(err, WP_RESOURCE_EXHAUSTED, "memory for TLS");

    tls->unread = status != WP_OK;
    for (int i = 0; i < N_FILES && status == WP_OK; i++) {
        if (tls->path[i] != NULL) {
            pem[i] = read_file(tls, i, &tls->stamp[i], err);
            status = pem[i] != NULL ? WP_OK : WP_INVALID_ARGUMENT;
            tls->unread = pem[i] == NULL;
        }
    }
    if (status == WP_OK) {
        status = use_files(tls, context, pem, err);
    }
    clear_pem(pem);
    if (status == WP_OK) {
        SSL_CTX_free(tls->context);
        tls->context = context;
    } else {
        SSL_CTX_free(context);
    }
    return status;
}

static bool
files_changed(struct wp_tls *tls)
{
    bool changed = false;

    for (int i = 0; i < N_FILES; i++) {
        struct stamp *old = &tls->stamp[i];
        struct stat st;

        if (tls->path[i] == NULL || stat(tls->path[i], &st) != 0) {
            continue; /* Away for a moment: what is in use stays in use. */
        }
        if (st.st_dev != old->dev || st.st_ino != old->ino ||
            st.st_size != old->size || !same_time(st.st_mtim, old->mtime) ||
            !same_time(st.st_ctim, old->ctime)) {
            *old = stamp_of(&st);
            changed = true;
        }
    }
    return changed;
}

/* Takes in files that have changed; what is not usable changes nothing. */
static void
refresh(struct wp_tls *tls)
{
    bool again = tls->unread;
    int64_t now_ns = wp_clock_mono_ns(wp_clock_system());
    struct wp_err err;

    if (!files_changed(tls) && (!again || now_ns < tls->again_ns)) {
        return;
    }
    if (load(tls, &err) != WP_OK) {
        tls->again_ns = now_ns + READ_AGAIN_NS;
        if (!again || !tls->unread) {
            wp_log_warn("changed TLS files are not usable; the old ones stay",
                        wp_kv_err(&err));
        }
        return;
    }
    wp_log_info("TLS files reloaded",
                wp_kv_str("tls_cert", tls->path[FILE_CERT]));
    (void)atomic_fetch_add_explicit(&tls->reloads, 1, memory_order_relaxed);
}

SSL *
wp_tls_open(struct wp_tls *tls, int fd)
{
    SSL *ssl;

    refresh(tls);
    ssl = SSL_new(tls->context);
    if (ssl != NULL && SSL_set_fd(ssl, fd) != 1) {
        SSL_free(ssl);
        ssl = NULL;
    }
    if (ssl != NULL) {
        SSL_set_accept_state(ssl);
    }
    return ssl;
}

struct wp_tls *
wp_tls_create(const struct wp_tls_config *config, struct wp_err *err)
{
    struct wp_tls *tls = calloc(1, sizeof(*tls));

    if (tls == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "memory for TLS");
        return NULL;
    }
    tls->config = *config;
    tls->path[FILE_CERT] = config->cert;
    tls->path[FILE_KEY] = config->key;
    tls->path[FILE_CA] = config->client_ca;
    if (load(tls, err) != WP_OK) {
        wp_tls_destroy(tls);
        return NULL;
    }
    return tls;
}

void
wp_tls_destroy(struct wp_tls *tls)
{
    if (tls != NULL) {
        SSL_CTX_free(tls->context);
        free(tls);
    }
}

uint64_t
wp_tls_reloads(const struct wp_tls *tls)
{
    return tls != NULL
               ? atomic_load_explicit(&tls->reloads, memory_order_relaxed)
               : 0;
}

/* --- who a certificate names --- */

static bool
is_spiffe(struct wp_str name)
{
    return wp_str_starts_with(name, wp_str_from("spiffe://"));
}

/* The names of one kind; spiffe: only those, or only the others. */
static bool
visit_alternatives(const GENERAL_NAMES *names, int kind, bool spiffe,
                   bool (*visit)(void *ctx, struct wp_str name), void *ctx)
{
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        int type;
        const ASN1_STRING *text =
            GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type);
        struct wp_str name;

        if (type != kind) {
            continue;
        }
        name = (struct wp_str){(const char *)ASN1_STRING_get0_data(text),
                               (size_t)ASN1_STRING_length(text)};
        if (is_spiffe(name) == spiffe && !visit(ctx, name)) {
            return false;
        }
    }
    return true;
}

static void
visit_common_name(X509 *cert, bool (*visit)(void *ctx, struct wp_str name),
                  void *ctx)
{
    const X509_NAME *subject = X509_get_subject_name(cert);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    unsigned char *text = NULL;
    int len;

    if (at < 0) {
        return;
    }
    len = ASN1_STRING_to_UTF8(
        &text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
    if (len >= 0) {
        (void)visit(ctx, (struct wp_str){(const char *)text, (size_t)len});
        OPENSSL_free(text);
    }
}

void
wp_tls_names(const SSL *ssl, bool (*visit)(void *ctx, struct wp_str name),
             void *ctx)
{
    X509 *cert = SSL_get0_peer_certificate(ssl);
    GENERAL_NAMES *names;

    if (cert == NULL) {
        return;
    }
    names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    if (names == NULL ||
        (visit_alternatives(names, GEN_URI, true, visit, ctx) &&
         visit_alternatives(names, GEN_URI, false, visit, ctx) &&
         visit_alternatives(names, GEN_DNS, false, visit, ctx))) {
        visit_common_name(cert, visit, ctx);
    }
    GENERAL_NAMES_free(names);
    ERR_clear_error();
}
