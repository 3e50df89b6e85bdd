/* The webhook's certificates: made, judged, renewed; and whom definitions
 * trust. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "k8s/controllers/webhook/definitions.h"
#include "k8s/controllers/webhook/pairs.h"
#include "k8s/objects/json.h"
#include "tests/support/k8s/k8s_text.h"

#define NOW_S INT64_C(1800000000)
#define DAY_S INT64_C(86400)

static const char *const names[] = {"webhook.system.svc", "127.0.0.1"};

static struct wp_webhook_pairs
no_pairs(void)
{
    return (struct wp_webhook_pairs){
        .names = {names[0], names[1]},
        .n_names = 2,
    };
}

static json_t *
secret_of(const struct wp_webhook_pairs *pairs)
{
    return wp_json_set(json_object(), "data", wp_webhook_pairs_data(pairs));
}

static void
a_certificate_is_good_for_its_names(void **state)
{
    static const char *const others[] = {"other.system.svc"};
    static const char *const addresses[] = {"127.0.0.2"};
    struct wp_certificate pair;
    struct wp_certificate another;
    struct wp_err err;
    int64_t made_s;
    int64_t until_s;

    (void)state;
    assert_int_equal(wp_certificate_make(&pair, names, 2, NOW_S, &err), WP_OK);
    assert_int_equal(
        wp_certificate_check(&pair, names, 2, &made_s, &until_s, &err), WP_OK);
    assert_int_equal(made_s, NOW_S);
    assert_int_equal(until_s, NOW_S + WP_CERTIFICATE_DAYS * DAY_S);
    assert_int_equal(
        wp_certificate_check(&pair, others, 1, &made_s, &until_s, &err),
        WP_INVALID_ARGUMENT);
    assert_int_equal(
        wp_certificate_check(&pair, addresses, 1, &made_s, &until_s, &err),
        WP_INVALID_ARGUMENT);
    /* The key of another one. */
    assert_int_equal(wp_certificate_make(&another, names, 2, NOW_S, &err),
                     WP_OK);
    memcpy(pair.key, another.key, sizeof pair.key);
    assert_int_equal(
        wp_certificate_check(&pair, names, 2, &made_s, &until_s, &err),
        WP_INVALID_ARGUMENT);
    memset(&pair, 0, sizeof pair);
    assert_int_equal(
        wp_certificate_check(&pair, names, 2, &made_s, &until_s, &err),
        WP_INVALID_ARGUMENT);
}

static void
a_new_one_is_trusted_before_it_is_shown(void **state)
{
    struct wp_webhook_pairs pairs = no_pairs();
    struct wp_webhook_pairs read = no_pairs();
    struct wp_certificate first;
    struct wp_err err;
    int64_t later_s = NOW_S + 61 * DAY_S;
    json_t *secret;

    (void)state;
    assert_true(wp_webhook_pairs_are_due(&pairs, NOW_S));
    assert_null(wp_webhook_pairs_shown(&pairs, NOW_S));
    assert_int_equal(wp_webhook_pairs_renew(&pairs, NOW_S, &err), WP_OK);
    assert_false(wp_webhook_pairs_are_due(&pairs, NOW_S + 59 * DAY_S));
    assert_true(wp_webhook_pairs_are_due(&pairs, later_s));
    /* The first is shown at once: nobody has another. */
    first = *wp_webhook_pairs_shown(&pairs, NOW_S);
    assert_int_equal(wp_webhook_pairs_renew(&pairs, later_s, &err), WP_OK);
    secret = secret_of(&pairs);
    wp_webhook_pairs_read(&read, secret, later_s);
    json_decref(secret);
    assert_string_equal(wp_webhook_pairs_shown(&read, later_s)->cert,
                        first.cert);
    assert_string_equal(wp_webhook_pairs_shown(&read, later_s + 600)->key,
                        pairs.newest.pem.key);
    assert_string_not_equal(first.cert, pairs.newest.pem.cert);
    /* What is over counts no more. */
    secret = secret_of(&pairs);
    wp_webhook_pairs_read(&read, secret, NOW_S + 91 * DAY_S);
    json_decref(secret);
    assert_int_equal(read.before.made_s, 0);
    assert_int_not_equal(read.newest.made_s, 0);
}

static void
a_secret_of_anything_counts_as_empty(void **state)
{
    static const char *const secrets[] = {
        "{}",
        "{'data': null}",
        "{'data': {'tls.crt': 7}}",
        "{'data': {'tls.crt': 'not base64', 'tls.key': '===='}}",
        "{'data': {'tls.crt': 'YQ==', 'tls.key': 'YQ=='}}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof secrets / sizeof secrets[0]; i++) {
        struct wp_webhook_pairs pairs = no_pairs();
        json_t *secret = wp_test_json(secrets[i]);

        wp_webhook_pairs_read(&pairs, secret, NOW_S);
        assert_true(wp_webhook_pairs_are_due(&pairs, NOW_S));
        assert_null(wp_webhook_pairs_shown(&pairs, NOW_S));
        json_decref(secret);
    }
}

static void
base64_there_and_back(void **state)
{
    static const char *const texts[] = {"a", "ab", "abc", "abcd", "\xff\x01"};
    char out[8];

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char *text = wp_base64_encode(wp_str_from(texts[i]));

        assert_non_null(text);
        memset(out, 'x', sizeof out);
        assert_true(wp_base64_decode(wp_str_from(text), out, sizeof out));
        assert_string_equal(out, texts[i]);
        free(text);
    }
    assert_false(wp_base64_decode(wp_str_from("YWJjZGVmZ2hp"), out, 8));
    assert_false(wp_base64_decode(wp_str_from("YQ"), out, 8));
    assert_false(wp_base64_decode(wp_str_from("===="), out, 8));
    assert_false(wp_base64_decode(wp_str_from(""), out, 8));
}

static size_t given;    /* The size of the last malloc. */
static uint32_t memory; /* This call that may fail does; 0: none. */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

static bool
fails(void)
{
    return memory != 0 && --memory == 0;
}

void *
__wrap_malloc(size_t size)
{
    given = size;
    return fails() ? NULL : __real_malloc(size);
}

/* Room for the text and its end, which is never short. */
static void
base64_has_room(void **state)
{
    static const char bytes[300];

    (void)state;
    for (size_t len = 0; len <= sizeof bytes; len++) {
        char *text = wp_base64_encode((struct wp_str){bytes, len});
        char out[512];

        assert_non_null(text);
        assert_int_equal(strlen(text), (len + 2) / 3 * 4);
        assert_true(given > strlen(text) && given <= strlen(text) + 5);
        assert_int_equal(strspn(text, "A="), strlen(text));
        if (len > 0) {
            size_t most = (len + 2) / 3 * 3 + 1;

            memset(out, 'x', sizeof out);
            assert_false(wp_base64_decode(wp_str_from(text), out, most - 1));
            assert_int_equal(out[0], '\0');
            assert_true(wp_base64_decode(wp_str_from(text), out, most));
            assert_memory_equal(out, bytes, len);
            assert_int_equal(out[len], '\0');
            assert_int_equal(out[most], 'x');
        }
        free(text);
    }
    memory = 1;
    assert_null(wp_base64_encode(WP_STR("a")));
    assert_int_equal(memory, 0);
    /* More than OpenSSL can count: it is not even looked at. */
    assert_null(
        wp_base64_encode((struct wp_str){bytes, (size_t)INT32_MAX / 2 + 1}));
}

static void
base64_is_read_to_the_letter(void **state)
{
    static const struct {
        const char *text;
        const char *bytes; /* NULL: refused. */
    } rows[] = {
        {"QUJD", "ABC"},      {"QUI=", "AB"},      {"QQ==", "A"},
        {"QUJDRA==", "ABCD"}, {"Q===", NULL},      {"QQ=", NULL},
        {"QQ=Q", NULL},       {"=QQ=", NULL},      {"QQ Q", NULL},
        {" QUI", NULL},       {"QUJDQQ", NULL},    {"QU-D", NULL},
        {"=", NULL},          {"==", NULL},        {"===", NULL},
        {"QUJD\n", NULL},     {"QUJDQQ=\n", NULL}, {"QUJD    ", NULL},
    };
    char out[32];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool good;

        memset(out, 'x', sizeof out);
        good = wp_base64_decode(wp_str_from(rows[i].text), out, sizeof out);
        if (good != (rows[i].bytes != NULL)) {
            fail_msg("'%s'", rows[i].text);
        }
        assert_string_equal(out, good ? rows[i].bytes : "");
    }
}

/* --- OpenSSL that cannot --- */

#define CAN_FAIL(type, name, args, pass, failure)                              \
    type __real_##name args;                                                   \
    type __wrap_##name args;                                                   \
    type __wrap_##name args                                                    \
    {                                                                          \
        return fails() ? (failure) : __real_##name pass;                       \
    }

CAN_FAIL(X509 *, X509_new, (void), (), NULL)
CAN_FAIL(int, RAND_bytes, (unsigned char *buf, int n), (buf, n), -1)
CAN_FAIL(BIGNUM *, BN_bin2bn, (const unsigned char *s, int n, BIGNUM *to),
         (s, n, to), NULL)
CAN_FAIL(ASN1_INTEGER *, BN_to_ASN1_INTEGER,
         (const BIGNUM *from, ASN1_INTEGER *to), (from, to), NULL)
CAN_FAIL(int, X509_set_version, (X509 * x, long version), (x, version), 0)
CAN_FAIL(ASN1_TIME *, ASN1_TIME_set, (ASN1_TIME * s, time_t t), (s, t), NULL)
CAN_FAIL(int, X509_NAME_add_entry_by_txt,
         (X509_NAME * name, const char *field, int type,
          const unsigned char *bytes, int len, int loc, int set),
         (name, field, type, bytes, len, loc, set), 0)
CAN_FAIL(int, X509_set_issuer_name, (X509 * x, const X509_NAME *name),
         (x, name), 0)
CAN_FAIL(int, X509_set_pubkey, (X509 * x, EVP_PKEY *key), (x, key), 0)
CAN_FAIL(X509_EXTENSION *, X509V3_EXT_conf_nid,
         (LHASH_OF(CONF_VALUE) * conf, X509V3_CTX *ctx, int nid,
          const char *value),
         (conf, ctx, nid, value), NULL)
CAN_FAIL(int, X509_add_ext, (X509 * x, X509_EXTENSION *extension, int at),
         (x, extension, at), 0)
CAN_FAIL(GENERAL_NAME *, a2i_GENERAL_NAME,
         (GENERAL_NAME * out, const X509V3_EXT_METHOD *method, X509V3_CTX *ctx,
          int type, const char *value, int is_nc),
         (out, method, ctx, type, value, is_nc), NULL)
CAN_FAIL(int, X509_add1_ext_i2d,
         (X509 * x, int nid, void *value, int crit, unsigned long flags),
         (x, nid, value, crit, flags), 0)
CAN_FAIL(int, X509_sign, (X509 * x, EVP_PKEY *key, const EVP_MD *md),
         (x, key, md), 0)
CAN_FAIL(BIO *, BIO_new, (const BIO_METHOD *method), (method), NULL)
CAN_FAIL(BIO *, BIO_new_mem_buf, (const void *bytes, int len), (bytes, len),
         NULL)
CAN_FAIL(int, PEM_write_bio_X509, (BIO * out, const X509 *x), (out, x), 0)
CAN_FAIL(int, PEM_write_bio_PrivateKey,
         (BIO * out, const EVP_PKEY *key, const EVP_CIPHER *cipher,
          const unsigned char *pass, int len, pem_password_cb *ask, void *ctx),
         (out, key, cipher, pass, len, ask, ctx), 0)
CAN_FAIL(int, BIO_read, (BIO * from, void *to, int len), (from, to, len), -1)
CAN_FAIL(int, ASN1_TIME_diff,
         (int *days, int *seconds, const ASN1_TIME *from, const ASN1_TIME *to),
         (days, seconds, from, to), 0)

/* Whatever OpenSSL cannot do, it is said, and no half of a pair is left. */
static void
makes_a_whole_one_or_none(void **state)
{
    static const struct wp_certificate zero;
    static struct wp_certificate pair;
    struct wp_err err = {.msg = ""};
    uint32_t n = 1;

    (void)state;
    for (;; n++) {
        enum wp_status status;

        memset(&pair, 'x', sizeof pair);
        memory = n;
        status = wp_certificate_make(&pair, names, 2, NOW_S, &err);
        if (memory != 0) {
            assert_int_equal(status, WP_OK);
            break;
        }
        assert_int_equal(status, WP_INTERNAL);
        assert_string_equal(
            err.msg, "OpenSSL makes no certificate for \"webhook.system.svc\"");
        assert_memory_equal(&pair, &zero, sizeof pair);
    }
    assert_in_range(n, 20, 60);
    for (n = 1;; n++) {
        int64_t made_s;
        int64_t until_s;
        enum wp_status status;

        memory = n;
        status = wp_certificate_check(&pair, names, 2, &made_s, &until_s, &err);
        if (memory != 0) {
            assert_int_equal(status, WP_OK);
            break;
        }
        assert_int_equal(status, WP_INVALID_ARGUMENT);
        assert_string_equal(err.msg, "expected a certificate with its key, for "
                                     "\"webhook.system.svc\"");
    }
    memory = 0;
    assert_in_range(n, 5, 10);
}

/* What others read of one: a serial number that is positive and its own, and
 * what it may be used for. */
static void
is_what_others_expect(void **state)
{
    static const char *const all[] = {"a.b", "127.0.0.1", "::1", "c"};
    static struct wp_certificate pair;
    struct wp_err err;

    (void)state;
    for (int i = 0; i < 40; i++) {
        static unsigned char before[20];
        const ASN1_INTEGER *serial;
        char name[64];
        BIO *bio;
        X509 *cert;

        assert_int_equal(wp_certificate_make(&pair, all, 4, NOW_S, &err),
                         WP_OK);
        bio = BIO_new_mem_buf(pair.cert, -1);
        cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
        assert_non_null(cert);
        serial = X509_get0_serialNumber(cert);
        assert_int_equal(ASN1_STRING_type(serial), V_ASN1_INTEGER);
        assert_in_range(ASN1_STRING_length(serial), 10, 16);
        assert_memory_not_equal(ASN1_STRING_get0_data(serial), before,
                                (size_t)ASN1_STRING_length(serial));
        memcpy(before, ASN1_STRING_get0_data(serial),
               (size_t)ASN1_STRING_length(serial));
        assert_int_equal(X509_get_version(cert), X509_VERSION_3);
        assert_int_equal(X509_check_ca(cert), 0);
        assert_int_equal(X509_check_ip_asc(cert, "127.0.0.1", 0), 1);
        assert_int_equal(X509_check_ip_asc(cert, "::1", 0), 1);
        assert_int_equal(X509_NAME_get_text_by_NID(X509_get_subject_name(cert),
                                                   NID_commonName, name,
                                                   sizeof name),
                         16);
        assert_string_equal(name, "warmpool webhook");
        assert_int_equal(X509_get_key_usage(cert), KU_DIGITAL_SIGNATURE);
        assert_int_equal(X509_get_extended_key_usage(cert), XKU_SSL_SERVER);
        assert_int_equal(X509_get_ext_count(cert), 4);
        assert_int_equal(X509_verify(cert, X509_get0_pubkey(cert)), 1);
        assert_int_equal(X509_NAME_cmp(X509_get_subject_name(cert),
                                       X509_get_issuer_name(cert)),
                         0);
        for (size_t n = 0; n < 4; n++) {
            int64_t made_s;
            int64_t until_s;

            assert_int_equal(wp_certificate_check(&pair, &all[n], 4 - n,
                                                  &made_s, &until_s, &err),
                             WP_OK);
        }
        X509_free(cert);
        BIO_free(bio);
    }
}

static void
definitions_are_told_once(void **state)
{
    json_t *service =
        wp_definition_client(NULL, "hook", "system", json_string("QQ=="));
    json_t *url = wp_definition_client("https://127.0.0.1:1/convert", "hook",
                                       "system", json_string("QQ=="));
    json_t *fresh = wp_test_json(
        "{'spec': {'versions': [{'name': 'v1beta1'}, {'name': 'v1alpha1'}], "
        "'conversion': {'strategy': 'None'}}}");
    json_t *one = wp_test_json("{'spec': {'versions': [{'name': 'v1beta1'}]}}");
    json_t *told;

    (void)state;
    assert_null(wp_definition_patch(one, service));
    wp_test_json_equal(
        wp_definition_patch(fresh, service),
        "{'spec': {'conversion': {'strategy': 'Webhook', 'webhook': "
        "{'conversionReviewVersions': ['v1'], 'clientConfig': {'caBundle': "
        "'QQ==', 'url': null, 'service': {'name': 'hook', 'namespace': "
        "'system', 'path': '/convert', 'port': 443}}}}}}");
    told = wp_definition_patch(fresh, service);
    (void)json_object_del(
        wp_json_at(told, "spec", "conversion", "webhook", "clientConfig", NULL),
        "url");
    (void)json_object_update(json_object_get(fresh, "spec"),
                             json_object_get(told, "spec"));
    assert_null(wp_definition_patch(fresh, service));
    json_decref(told);
    told = wp_definition_patch(fresh, url);
    assert_non_null(told);
    json_decref(told);
    json_decref(one);
    json_decref(fresh);
    json_decref(url);
    json_decref(service);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_certificate_is_good_for_its_names),
        cmocka_unit_test(a_new_one_is_trusted_before_it_is_shown),
        cmocka_unit_test(a_secret_of_anything_counts_as_empty),
        cmocka_unit_test(base64_there_and_back),
        cmocka_unit_test(base64_has_room),
        cmocka_unit_test(base64_is_read_to_the_letter),
        cmocka_unit_test(makes_a_whole_one_or_none),
        cmocka_unit_test(is_what_others_expect),
        cmocka_unit_test(definitions_are_told_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
