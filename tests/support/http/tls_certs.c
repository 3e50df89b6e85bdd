#include "tests/support/http/tls_certs.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>

#include "pool/base/assert.h"

struct issued {
    X509 *cert;
    EVP_PKEY *key;
};

static void
add_extension(X509 *cert, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

    WP_ASSERT(extension != NULL);
    WP_ASSERT(X509_add_ext(cert, extension, -1) == 1);
    X509_EXTENSION_free(extension);
}

/* by NULL: signed by itself, an authority. */
static struct issued
issue(const char *name, const char *names, const struct issued *by, long serial)
{
    struct issued out = {X509_new(), EVP_EC_gen("P-256")};
    X509_NAME *subject = X509_get_subject_name(out.cert);

    WP_ASSERT(X509_set_version(out.cert, 2) == 1);
    WP_ASSERT(ASN1_INTEGER_set(X509_get_serialNumber(out.cert), serial) == 1);
    (void)X509_gmtime_adj(X509_getm_notBefore(out.cert), -3600);
    (void)X509_gmtime_adj(X509_getm_notAfter(out.cert), 86400);
    WP_ASSERT(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                         (const unsigned char *)name, -1, -1,
                                         0) == 1);
    WP_ASSERT(X509_set_pubkey(out.cert, out.key) == 1);
    WP_ASSERT(X509_set_issuer_name(out.cert,
                                   by != NULL ? X509_get_subject_name(by->cert)
                                              : subject) == 1);
    add_extension(out.cert, NID_basic_constraints,
                  by != NULL ? "CA:FALSE" : "critical,CA:TRUE");
    if (names != NULL) {
        add_extension(out.cert, NID_subject_alt_name, names);
    }
    WP_ASSERT(
        X509_sign(out.cert, by != NULL ? by->key : out.key, EVP_sha256()) > 0);
    return out;
}

static void
write_pem(const char *dir, const char *name, const struct issued *what)
{
    char path[256];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s.pem", dir, name);
    file = fopen(path, "w");
    WP_ASSERT(file != NULL && PEM_write_X509(file, what->cert) == 1);
    WP_ASSERT(fclose(file) == 0);
    (void)snprintf(path, sizeof path, "%s/%s.key", dir, name);
    file = fopen(path, "w");
    WP_ASSERT(file != NULL && PEM_write_PrivateKey(file, what->key, NULL, NULL,
                                                   0, NULL, NULL) == 1);
    WP_ASSERT(fclose(file) == 0);
}

static void
discard(struct issued *what)
{
    X509_free(what->cert);
    EVP_PKEY_free(what->key);
}

void
tls_certs_make(const char *dir)
{
    struct issued ca = issue("warmpool test authority", NULL, NULL, 1);
    struct issued other = issue("another authority", NULL, NULL, 1);
    struct issued server =
        issue("api", "IP:127.0.0.1,DNS:localhost,DNS:api.test", &ca, 2);
    struct issued client = issue("warmpool-client", NULL, &ca, 3);

    write_pem(dir, "ca", &ca);
    write_pem(dir, "other-ca", &other);
    write_pem(dir, "server", &server);
    write_pem(dir, "client", &client);
    discard(&ca);
    discard(&other);
    discard(&server);
    discard(&client);
}
