#include "k8s/convert/certificate.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#define BACK_S 3600
#define DAY_S 86400

/* --- Making one --- */

static bool
is_address(const char *name)
{
    struct in6_addr room;

    return inet_pton(AF_INET, name, &room) == 1 ||
           inet_pton(AF_INET6, name, &room) == 1;
}

static bool
add_names(X509 *cert, const char *const *names, size_t n_names)
{
    GENERAL_NAMES *list = sk_GENERAL_NAME_new_null();
    bool good = list != NULL;

    for (size_t i = 0; good && i < n_names; i++) {
        bool address = is_address(names[i]);
        GENERAL_NAME *name =
            a2i_GENERAL_NAME(NULL, NULL, NULL, address ? GEN_IPADD : GEN_DNS,
                             (char *)(uintptr_t)names[i], 0);

        good = name != NULL && sk_GENERAL_NAME_push(list, name) > 0;
        if (!good) {
            GENERAL_NAME_free(name);
        }
    }
    good =
        good && X509_add1_ext_i2d(cert, NID_subject_alt_name, list, 0, 0) == 1;
    GENERAL_NAMES_free(list);
    return good;
}

static bool
add_extension(X509 *cert, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
    bool good = extension != NULL && X509_add_ext(cert, extension, -1) == 1;

    X509_EXTENSION_free(extension);
    return good;
}

static bool
set_serial(X509 *cert)
{
    unsigned char bytes[16];
    BIGNUM *number;
    bool good;

    if (RAND_bytes(bytes, sizeof bytes) != 1) {
        return false;
    }
    bytes[0] &= 0x7f;
    number = BN_bin2bn(bytes, sizeof bytes, NULL);
    good = number != NULL &&
           BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert)) != NULL;
    BN_free(number);
    return good;
}

static bool
fill(X509 *cert, EVP_PKEY *key, const char *const *names, size_t n_names,
     int64_t now_s)
{
    X509_NAME *subject = X509_get_subject_name(cert);
    const unsigned char common[] = "warmpool webhook";

    return X509_set_version(cert, X509_VERSION_3) == 1 && set_serial(cert) &&
           ASN1_TIME_set(X509_getm_notBefore(cert), now_s - BACK_S) != NULL &&
           ASN1_TIME_set(X509_getm_notAfter(cert),
                         now_s + (int64_t)WP_CERTIFICATE_DAYS * DAY_S) !=
               NULL &&
           X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, common,
                                      sizeof common - 1, -1, 0) == 1 &&
           X509_set_issuer_name(cert, subject) == 1 &&
           X509_set_pubkey(cert, key) == 1 &&
           add_extension(cert, NID_basic_constraints, "critical,CA:FALSE") &&
           add_extension(cert, NID_key_usage, "critical,digitalSignature") &&
           add_extension(cert, NID_ext_key_usage, "serverAuth") &&
           add_names(cert, names, n_names) &&
           X509_sign(cert, key, EVP_sha256()) > 0;
}

/* What was written into bio, terminated. */
static bool
take_text(BIO *bio, char out[WP_CERTIFICATE_PEM_MAX])
{
    int n = BIO_read(bio, out, WP_CERTIFICATE_PEM_MAX - 1);

    out[n > 0 ? n : 0] = '\0';
    return n > 0 && BIO_pending(bio) == 0;
}

static bool
write_pair(struct wp_certificate *out, X509 *cert, EVP_PKEY *key)
{
    BIO *bio = BIO_new(BIO_s_secmem());
    bool good =
        bio != NULL && PEM_write_bio_X509(bio, cert) == 1 &&
        take_text(bio, out->cert) &&
        PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1 &&
        take_text(bio, out->key);

    BIO_free(bio);
    return good;
}

enum wp_status
wp_certificate_make(struct wp_certificate *out, const char *const *names,
                    size_t n_names, int64_t now_s, struct wp_err *err)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    bool good = key != NULL && cert != NULL &&
                fill(cert, key, names, n_names, now_s) &&
                write_pair(out, cert, key);

    X509_free(cert);
    EVP_PKEY_free(key);
    ERR_clear_error();
    if (!good) {
        wp_certificate_clear(out);
        return wp_err_set(err, WP_INTERNAL,
                          "OpenSSL makes no certificate for \"%s\"", names[0]);
    }
    return WP_OK;
}

/* --- Judging one --- */

static X509 *
read_cert(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *cert = bio != NULL ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;

    BIO_free(bio);
    return cert;
}

static EVP_PKEY *
read_key(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    /* Without a way to ask for a pass phrase. */
    EVP_PKEY *key = bio != NULL
                        ? PEM_read_bio_PrivateKey(bio, NULL, NULL, (char[]){""})
                        : NULL;

    BIO_free(bio);
    return key;
}

static bool
is_good_for(X509 *cert, const char *name)
{
    return is_address(name) ? X509_check_ip_asc(cert, name, 0) == 1
                            : X509_check_host(cert, name, 0, 0, NULL) == 1;
}

static bool
seconds_of(const ASN1_TIME *time, int64_t *out_s)
{
    ASN1_TIME *epoch = ASN1_TIME_set(NULL, 0);
    int days = 0;
    int seconds = 0;
    bool good =
        epoch != NULL && ASN1_TIME_diff(&days, &seconds, epoch, time) == 1;

    ASN1_TIME_free(epoch);
    *out_s = (int64_t)days * DAY_S + seconds;
    return good;
}

enum wp_status
wp_certificate_check(const struct wp_certificate *pair,
                     const char *const *names, size_t n_names, int64_t *made_s,
                     int64_t *until_s, struct wp_err *err)
{
    X509 *cert = read_cert(pair->cert);
    EVP_PKEY *key = read_key(pair->key);
    bool good = cert != NULL && key != NULL &&
                X509_check_private_key(cert, key) == 1 &&
                seconds_of(X509_get0_notBefore(cert), made_s) &&
                seconds_of(X509_get0_notAfter(cert), until_s);

    for (size_t i = 0; good && i < n_names; i++) {
        good = is_good_for(cert, names[i]);
    }
    if (good) {
        *made_s += BACK_S;
    }
    X509_free(cert);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return good ? WP_OK
                : wp_err_set(err, WP_INVALID_ARGUMENT,
                             "expected a certificate with its key, for \"%s\"",
                             names[0]);
}

void
wp_certificate_clear(struct wp_certificate *pair)
{
    explicit_bzero(pair, sizeof *pair);
}

/* --- base64 --- */

char *
wp_base64_encode(struct wp_str bytes)
{
    char *text =
        bytes.len <= INT32_MAX / 2 ? malloc(bytes.len / 3 * 4 + 5) : NULL;

    if (text != NULL) {
        (void)EVP_EncodeBlock((unsigned char *)text,
                              (const unsigned char *)bytes.ptr, (int)bytes.len);
    }
    return text;
}

bool
wp_base64_decode(struct wp_str text, char *out, size_t cap)
{
    size_t pad = 0;
    int n;

    out[0] = '\0';
    while (pad < 2 && text.len > pad && text.ptr[text.len - 1 - pad] == '=') {
        pad++;
    }
    /* EVP_DecodeBlock takes more than base64 allows. */
    for (size_t i = 0; i + pad < text.len; i++) {
        if (text.ptr[i] == '=' || text.ptr[i] == ' ') {
            return false;
        }
    }
    if (text.len == 0 || text.len % 4 != 0 || text.len / 4 * 3 + 1 > cap) {
        return false;
    }
    n = EVP_DecodeBlock((unsigned char *)out, (const unsigned char *)text.ptr,
                        (int)text.len);
    if (n < (int)pad) {
        out[0] = '\0';
        return false;
    }
    out[(size_t)n - pad] = '\0';
    return true;
}
