/* TLS: certificates that are read again when their files change, and the name a
 * client's certificate gives it.
 *
 * C-core asks for the certificates before each handshake, one handshake at a
 * time. The files are looked at with stat then, and read only when one of them
 * is another file or was written to. New content is checked before C-core gets
 * it: half a renewal (the new certificate beside the old key) must not break
 * what works. */
#include "allocator/grpc/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>
#include <unistd.h>

#include <grpc/grpc_security.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

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

/* What changes when a file is replaced or written to. */
struct stamp {
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec mtime;
};

struct wp_rpc_tls {
    const char *path[N_FILES]; /* Borrowed; FILE_CA may be NULL. */
    /* The rest is for whoever fetches; C-core does so under a lock. */
    struct stamp stamp[N_FILES];
    char *pem[N_FILES]; /* Checked, and not yet given to C-core; or NULL. */
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

/* The file's text; the caller frees it. stamp is that of what was read. */
static char *
read_file(const struct wp_rpc_tls *tls, int i, struct stamp *stamp,
          struct wp_err *err)
{
    const char *name = setting_names[i];
    const char *path = tls->path[i];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    char *text = NULL;
    ssize_t n = 0;

    if (fd < 0 || fstat(fd, &st) != 0) {
        (void)wp_err_sys(err, WP_INVALID_ARGUMENT, errno, "%s: %s", name, path);
        goto out;
    }
    if (!S_ISREG(st.st_mode) || st.st_size <= 0 ||
        st.st_size > FILE_BYTES_MAX) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                         "%s: %s: expected a file of 1 byte to 1 MiB", name,
                         path);
        goto out;
    }
    text = calloc(1, (size_t)st.st_size + 1);
    n = text != NULL ? read(fd, text, (size_t)st.st_size) : -1;
    if (n != st.st_size) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT, "%s: %s: cannot be read",
                         name, path);
        free(text);
        text = NULL;
        goto out;
    }
    *stamp = (struct stamp){st.st_dev, st.st_ino, st.st_size, st.st_mtim};
out:
    if (fd >= 0) {
        (void)close(fd);
    }
    return text;
}

static X509 *
parse_certificate(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *cert = bio != NULL ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;

    BIO_free(bio);
    return cert;
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

static enum wp_status
check_pem(const struct wp_rpc_tls *tls, char *const pem[N_FILES],
          struct wp_err *err)
{
    X509 *cert = parse_certificate(pem[FILE_CERT]);
    EVP_PKEY *key = parse_key(pem[FILE_KEY]);
    X509 *ca = pem[FILE_CA] != NULL ? parse_certificate(pem[FILE_CA]) : NULL;
    enum wp_status status = WP_OK;

    if (cert == NULL) {
        status = wp_err_set(err, WP_INVALID_ARGUMENT,
                            "tls_cert: %s: expected a PEM certificate",
                            tls->path[FILE_CERT]);
    } else if (key == NULL) {
        status = wp_err_set(err, WP_INVALID_ARGUMENT,
                            "tls_key: %s: expected a PEM private key without "
                            "pass phrase",
                            tls->path[FILE_KEY]);
    } else if (X509_check_private_key(cert, key) != 1) {
        status = wp_err_set(err, WP_INVALID_ARGUMENT,
                            "tls_key: %s: does not belong to the certificate "
                            "in %s",
                            tls->path[FILE_KEY], tls->path[FILE_CERT]);
    } else if (pem[FILE_CA] != NULL && ca == NULL) {
        status = wp_err_set(err, WP_INVALID_ARGUMENT,
                            "tls_client_ca: %s: expected PEM certificates",
                            tls->path[FILE_CA]);
    }
    X509_free(cert);
    EVP_PKEY_free(key);
    X509_free(ca);
    ERR_clear_error();
    return status;
}

/* Reads all files into tls->pem and notes their stamps, also when they turn out
 * unusable: the same bad content is not read, and complained about, twice. */
static enum wp_status
load(struct wp_rpc_tls *tls, struct wp_err *err)
{
    char *pem[N_FILES] = {NULL};
    enum wp_status status = WP_OK;

    for (int i = 0; i < N_FILES && status == WP_OK; i++) {
        if (tls->path[i] != NULL) {
            pem[i] = read_file(tls, i, &tls->stamp[i], err);
            status = pem[i] != NULL ? WP_OK : WP_INVALID_ARGUMENT;
        }
    }
    if (status == WP_OK) {
        status = check_pem(tls, pem, err);
    }
    if (status == WP_OK) {
        clear_pem(tls->pem);
        memcpy(tls->pem, pem, sizeof(pem));
    } else {
        clear_pem(pem);
    }
    return status;
}

static bool
files_changed(struct wp_rpc_tls *tls)
{
    bool changed = false;

    for (int i = 0; i < N_FILES; i++) {
        struct stamp *old = &tls->stamp[i];
        struct stat st;

        if (tls->path[i] == NULL || stat(tls->path[i], &st) != 0) {
            continue; /* Away for a moment: what is in use stays in use. */
        }
        if (st.st_dev != old->dev || st.st_ino != old->ino ||
            st.st_size != old->size || st.st_mtim.tv_sec != old->mtime.tv_sec ||
            st.st_mtim.tv_nsec != old->mtime.tv_nsec) {
            *old = (struct stamp){st.st_dev, st.st_ino, st.st_size, st.st_mtim};
            changed = true;
        }
    }
    return changed;
}

/* C-core calls it when the server starts and before each handshake. */
static grpc_ssl_certificate_config_reload_status
fetch(void *user_data, grpc_ssl_server_certificate_config **config)
{
    struct wp_rpc_tls *tls = user_data;
    grpc_ssl_pem_key_cert_pair pair;
    bool first = tls->pem[FILE_CERT] != NULL;
    struct wp_err err;

    if (!first) {
        if (!files_changed(tls)) {
            return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
        }
        if (load(tls, &err) != WP_OK) {
            wp_log_warn("changed TLS files are not usable; the old ones stay",
                        wp_kv_err(&err));
            return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
        }
        wp_log_info("TLS files reloaded",
                    wp_kv_str("tls_cert", tls->path[FILE_CERT]));
        WP_RPC_COUNT(&tls->reloads, 1);
    }
    pair.private_key = tls->pem[FILE_KEY];
    pair.cert_chain = tls->pem[FILE_CERT];
    /* C-core 1.51 asserts that a fetched configuration has roots, also when no
     * client certificate is asked for; any will do then. */
    *config = grpc_ssl_server_certificate_config_create(
        tls->pem[FILE_CA] != NULL ? tls->pem[FILE_CA] : tls->pem[FILE_CERT],
        &pair, 1);
    clear_pem(tls->pem);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

struct wp_rpc_tls *
wp_rpc_tls_create(const struct wp_rpc_config *config, struct wp_err *err)
{
    struct wp_rpc_tls *tls = calloc(1, sizeof(*tls));

    if (tls == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "memory for TLS");
        return NULL;
    }
    tls->path[FILE_CERT] = config->tls_cert;
    tls->path[FILE_KEY] = config->tls_key;
    tls->path[FILE_CA] = config->tls_client_ca;
    if (load(tls, err) != WP_OK) {
        wp_rpc_tls_destroy(tls);
        return NULL;
    }
    return tls;
}

void
wp_rpc_tls_destroy(struct wp_rpc_tls *tls)
{
    if (tls != NULL) {
        clear_pem(tls->pem);
        free(tls);
    }
}

grpc_server_credentials *
wp_rpc_tls_credentials(struct wp_rpc_tls *tls)
{
    grpc_ssl_client_certificate_request_type request =
        tls->path[FILE_CA] != NULL
            ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
            : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;

    return grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(
            request, fetch, tls));
}

uint64_t
wp_rpc_tls_reloads(const struct wp_rpc_tls *tls)
{
    return tls != NULL
               ? atomic_load_explicit(&tls->reloads, memory_order_relaxed)
               : 0;
}

/* --- who a certificate names --- */

static void
set_name(struct wp_identity *who, const char *value, size_t len)
{
    /* A name that is cut could be another's. */
    if (!wp_str_copy((struct wp_str){value, len}, who->name,
                     sizeof(who->name)) ||
        !wp_str_is_printable(wp_str_from(who->name))) {
        who->name[0] = '\0';
    }
}

/* Looks through the names of one kind. The first of all names becomes the
 * caller's; the first that has an entry decides. */
static const struct wp_rpc_principal *
match_names(const struct wp_rpc_config *config,
            const grpc_auth_context *context, const char *kind,
            struct wp_identity *who)
{
    grpc_auth_property_iterator it =
        grpc_auth_context_find_properties_by_name(context, kind);
    const grpc_auth_property *property;

    while ((property = grpc_auth_property_iterator_next(&it)) != NULL) {
        struct wp_identity candidate;
        const struct wp_rpc_principal *principal;

        set_name(&candidate, property->value, property->value_length);
        if (candidate.name[0] == '\0') {
            continue;
        }
        principal = wp_rpc_principal_find(config, candidate.name);
        if (principal != NULL || who->name[0] == '\0') {
            memcpy(who->name, candidate.name, sizeof(who->name));
        }
        if (principal != NULL) {
            return principal;
        }
    }
    return NULL;
}

bool
wp_rpc_tls_identify(const struct wp_rpc_config *config, grpc_call *call,
                    struct wp_identity *who)
{
    static const char *const kinds[] = {
        GRPC_PEER_SPIFFE_ID_PROPERTY_NAME, GRPC_PEER_URI_PROPERTY_NAME,
        GRPC_PEER_DNS_PROPERTY_NAME, GRPC_X509_CN_PROPERTY_NAME};
    grpc_auth_context *context = grpc_call_auth_context(call);
    const struct wp_rpc_principal *principal = NULL;

    memset(who, 0, sizeof(*who));
    if (context != NULL && config->tls_client_ca != NULL) {
        for (size_t i = 0; i < WP_ARRAY_LEN(kinds) && principal == NULL; i++) {
            principal = match_names(config, context, kinds[i], who);
        }
    }
    if (context != NULL) {
        grpc_auth_context_release(context);
    }
    if (config->tls_client_ca == NULL) {
        (void)snprintf(who->name, sizeof(who->name), "anonymous");
        principal = wp_rpc_principal_find(config, who->name);
    } else if (who->name[0] == '\0') {
        (void)snprintf(who->name, sizeof(who->name), "certificate");
    }
    if (principal != NULL) {
        (void)snprintf(who->tenant, sizeof(who->tenant), "%s",
                       principal->tenant);
        who->admin = principal->admin;
    }
    return principal != NULL || config->n_principals == 0;
}
