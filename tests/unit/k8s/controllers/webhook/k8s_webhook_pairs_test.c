/* The certificates of the webhook: which one is shown when, when another is
 * due, what is written, and that no key is left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/controllers/webhook/pairs.h"
#include "k8s/objects/json.h"

#define DAY_S INT64_C(86400)
#define NOW_S INT64_C(1767225600)

static struct wp_webhook_pairs pairs;
static bool makes; /* Or fails. */
static size_t wiped;

enum wp_status __wrap_wp_certificate_make(struct wp_certificate *out,
                                          const char *const *names,
                                          size_t n_names, int64_t now_s,
                                          struct wp_err *err);
void __wrap_explicit_bzero(void *data, size_t len);
void __real_explicit_bzero(void *data, size_t len);
void __wrap___explicit_bzero_chk(void *data, size_t len, size_t room);

enum wp_status
__wrap_wp_certificate_make(struct wp_certificate *out, const char *const *names,
                           size_t n_names, int64_t now_s, struct wp_err *err)
{
    assert_int_equal(n_names, 1);
    assert_string_equal(names[0], "host");
    (void)snprintf(out->cert, sizeof out->cert, "cert of %lld",
                   (long long)(now_s - NOW_S));
    (void)snprintf(out->key, sizeof out->key, "key of %lld",
                   (long long)(now_s - NOW_S));
    return makes ? WP_OK : wp_err_set(err, WP_INTERNAL, "no luck");
}

void
__wrap_explicit_bzero(void *data, size_t len)
{
    wiped += len;
    __real_explicit_bzero(data, len);
}

void
__wrap___explicit_bzero_chk(void *data, size_t len, size_t room)
{
    assert_true(len <= room);
    __wrap_explicit_bzero(data, len);
}

static int
set_up(void **state)
{
    (void)state;
    memset(&pairs, 0, sizeof pairs);
    pairs.names[0] = "host";
    pairs.n_names = 1;
    makes = true;
    wiped = 0;
    return 0;
}

static void
renew(int64_t at_s)
{
    struct wp_err err;

    assert_int_equal(wp_webhook_pairs_renew(&pairs, NOW_S + at_s, &err), WP_OK);
}

static const char *
shown(int64_t at_s)
{
    const struct wp_certificate *pem =
        wp_webhook_pairs_shown(&pairs, NOW_S + at_s);

    return pem != NULL ? pem->cert : "none";
}

static void
assert_data(const char *text)
{
    json_t *data = wp_webhook_pairs_data(&pairs);
    char *is = json_dumps(data, JSON_COMPACT);

    assert_string_equal(is, text);
    free(is);
    json_decref(data);
}

static void
assert_bundle(const char *text)
{
    json_t *bundle = wp_webhook_pairs_bundle(&pairs);

    assert_string_equal(json_string_value(bundle), text);
    json_decref(bundle);
}

/* A new one is shown ten minutes after it was made, where there is another. */
static void
the_newest_is_shown_when_it_is_known(void **state)
{
    (void)state;
    assert_string_equal(shown(0), "none");
    assert_true(wp_webhook_pairs_are_due(&pairs, NOW_S));
    assert_data("{\"tls.crt\":null,\"tls.key\":null,\"before.crt\":null,"
                "\"before.key\":null}");
    assert_bundle("");
    renew(0);
    assert_int_equal(pairs.newest.made_s, NOW_S);
    assert_int_equal(pairs.newest.until_s, NOW_S + WP_CERTIFICATE_DAYS * DAY_S);
    assert_int_equal(pairs.before.made_s, 0);
    assert_string_equal(shown(0), "cert of 0");
    assert_data("{\"tls.crt\":\"Y2VydCBvZiAw\",\"tls.key\":\"a2V5IG9mIDA=\","
                "\"before.crt\":null,\"before.key\":null}");
    assert_bundle("Y2VydCBvZiAw");
    renew(1000);
    assert_int_equal(pairs.newest.made_s, NOW_S + 1000);
    assert_int_equal(pairs.before.made_s, NOW_S);
    assert_int_equal(pairs.before.until_s, NOW_S + WP_CERTIFICATE_DAYS * DAY_S);
    assert_string_equal(shown(1000), "cert of 0");
    assert_string_equal(shown(1599), "cert of 0");
    assert_string_equal(shown(1600), "cert of 1000");
    assert_data("{\"tls.crt\":\"Y2VydCBvZiAxMDAw\",\"tls.key\":"
                "\"a2V5IG9mIDEwMDA=\",\"before.crt\":\"Y2VydCBvZiAw\","
                "\"before.key\":\"a2V5IG9mIDA=\"}");
    assert_bundle("Y2VydCBvZiAxMDAwY2VydCBvZiAw");
    /* The newest is no good any more: the one before it is shown. */
    pairs.newest.made_s = 0;
    assert_string_equal(shown(9999), "cert of 0");
}

static void
another_is_due_thirty_days_before(void **state)
{
    int64_t left_s = (WP_CERTIFICATE_DAYS - 30) * DAY_S;

    (void)state;
    renew(0);
    assert_false(wp_webhook_pairs_are_due(&pairs, NOW_S));
    assert_false(wp_webhook_pairs_are_due(&pairs, NOW_S + left_s));
    assert_true(wp_webhook_pairs_are_due(&pairs, NOW_S + left_s + 1));
}

static void
one_that_cannot_be_made_changes_nothing(void **state)
{
    struct wp_webhook_pairs before;
    struct wp_err err;

    (void)state;
    renew(0);
    memcpy(&before, &pairs, sizeof before);
    makes = false;
    assert_int_equal(wp_webhook_pairs_renew(&pairs, NOW_S + 1, &err),
                     WP_INTERNAL);
    assert_memory_equal(&pairs, &before, sizeof pairs);
}

/* What was read, made, encoded or held is wiped. */
static void
no_key_is_left(void **state)
{
    static const struct wp_webhook_pair none;
    json_t *data;

    (void)state;
    renew(0);
    assert_int_equal(wiped, sizeof(struct wp_webhook_pair));
    renew(1);
    wiped = 0;
    data = wp_webhook_pairs_data(&pairs);
    assert_int_equal(wiped, strlen("Y2VydCBvZiAw") * 4);
    wiped = 0;
    wp_webhook_pairs_clear(&pairs);
    assert_int_equal(wiped, 2 * sizeof none);
    assert_memory_equal(&pairs.newest, &none, sizeof none);
    assert_memory_equal(&pairs.before, &none, sizeof none);
    assert_string_equal(pairs.names[0], "host");
    wiped = 0;
    json_t *secret = json_pack("{s:o}", "data", data);
    wp_webhook_pairs_read(&pairs, secret,
                          NOW_S); /* They are no certificates. */
    assert_int_equal(wiped, 2 * sizeof none);
    assert_memory_equal(&pairs.newest, &none, sizeof none);
    assert_memory_equal(&pairs.before, &none, sizeof none);
    json_decref(secret);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_newest_is_shown_when_it_is_known),
        TEST(another_is_due_thirty_days_before),
        TEST(one_that_cannot_be_made_changes_nothing),
        TEST(no_key_is_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
