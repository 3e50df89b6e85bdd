/* The webhook's certificates: made, judged, renewed; and whom definitions
 * trust. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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
        cmocka_unit_test(definitions_are_told_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
