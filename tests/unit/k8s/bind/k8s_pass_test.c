/* The pass of a sandbox for its egress proxy: what is put before a parcel, byte
 * for byte, and who may narrow what. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/bind/pass.h"
#include "pool/egress/pass.h"
#include "proto/parcel/pack.h"

static const uint8_t key[WP_EGRESS_KEY_LEN] = {4, 5, 6};
static const struct wp_cluster_egress egress = {.proxy = "proxy.ns:3128",
                                                .key = key};
static bool memory_lacks;
static bool buffer_fails;
static size_t wiped[32]; /* The lengths of what was. */
static size_t wiped_len;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *
__wrap_malloc(size_t size)
{
    return memory_lacks ? NULL : __real_malloc(size);
}

int __real_evbuffer_prepend(struct evbuffer *to, const void *bytes,
                            size_t size);
int __wrap_evbuffer_prepend(struct evbuffer *to, const void *bytes,
                            size_t size);
int
__wrap_evbuffer_prepend(struct evbuffer *to, const void *bytes, size_t size)
{
    return buffer_fails ? -1 : __real_evbuffer_prepend(to, bytes, size);
}

void __wrap_explicit_bzero(void *at, size_t len);
void
__wrap_explicit_bzero(void *at, size_t len)
{
    memset(at, 0, len);
    wiped[wiped_len++ % WP_ARRAY_LEN(wiped)] = len;
}

void __wrap___explicit_bzero_chk(void *at, size_t len, size_t room);
void
__wrap___explicit_bzero_chk(void *at, size_t len, size_t room)
{
    assert_true(len <= room);
    __wrap_explicit_bzero(at, len);
}

/* As the proxy reads the URL of it. */
static void
check_url(struct wp_str url, const char *proxy, const struct wp_bind_pass *pass)
{
    static const char head[] = "http://sandbox:";
    char room[WP_EGRESS_PASS_BYTES_MAX];
    uint8_t ns_key[WP_EGRESS_KEY_LEN];
    struct wp_egress_pass out;
    const char *at = memchr(url.ptr, '@', url.len);
    struct wp_str text;

    assert_non_null(at);
    assert_memory_equal(url.ptr, head, sizeof head - 1);
    assert_true(
        wp_str_eq((struct wp_str){at + 1, url.len - (size_t)(at + 1 - url.ptr)},
                  wp_str_from(proxy)));
    text = (struct wp_str){url.ptr + sizeof head - 1,
                           (size_t)(at - url.ptr) - (sizeof head - 1)};
    wp_egress_key_derive(key, wp_str_from(pass->ns), ns_key);
    assert_true(wp_egress_pass_read(ns_key, text, room, &out));
    assert_true(wp_str_eq(out.pool_namespace, wp_str_from(pass->ns)));
    assert_true(wp_str_eq(out.sandbox, wp_str_from(pass->sandbox)));
    assert_true(wp_str_eq(out.address, wp_str_from(pass->ip)));
    assert_true(wp_str_eq(out.policy, pass->policy));
    assert_true(wp_str_eq(out.by, pass->by));
}

/* The four names with that URL, and then what was there. */
static void
check(const struct wp_cluster_egress *of, const struct wp_bind_pass *pass)
{
    static const char *const names[] = {"HTTP_PROXY", "HTTPS_PROXY",
                                        "http_proxy", "https_proxy"};
    struct wp_binding_env env[WP_ARRAY_LEN(names)];
    const struct wp_binding binding = {.env = env,
                                       .n_env = WP_ARRAY_LEN(names)};
    struct evbuffer *parcel = evbuffer_new();
    const char *bytes;
    const char *end;
    struct wp_str url;
    uint8_t *want;
    size_t size;

    assert_non_null(parcel);
    assert_int_equal(evbuffer_add(parcel, "own", 3), 0);
    assert_true(wp_bind_pass_add(of, pass, parcel));
    bytes = (const char *)evbuffer_pullup(parcel, -1);
    size = evbuffer_get_length(parcel);
    url.ptr = memmem(bytes, size, "http://", 7);
    assert_non_null(url.ptr);
    end = memmem(url.ptr, size, of->proxy, strlen(of->proxy));
    assert_non_null(end);
    url.len = (size_t)(end - url.ptr) + strlen(of->proxy);
    check_url(url, of->proxy, pass);
    for (size_t i = 0; i < WP_ARRAY_LEN(names); i++) {
        env[i] = (struct wp_binding_env){wp_str_from(names[i]), url};
    }
    assert_int_equal(size, wp_parcel_size(&binding, WP_STR("")) + 3);
    want = malloc(size);
    assert_non_null(want);
    wp_parcel_fill(&binding, WP_STR(""), want);
    memcpy(want + size - 3, "own", 3);
    assert_memory_equal(bytes, want, size);
    free(want);
    evbuffer_free(parcel);
}

static const struct wp_bind_pass usual = {.ns = "team",
                                          .sandbox = "box-1",
                                          .ip = "10.1.2.3",
                                          .policy = {"*.example.org", 13},
                                          .by = {"a.example.org", 13}};

static void
variables_of_the_proxy_go_before_what_is_brought(void **state)
{
    struct wp_bind_pass pass = usual;

    (void)state;
    check(&egress, &pass);
    pass.by = WP_STR("");
    check(&egress, &pass);
}

static void
the_longest_pass_is_whole(void **state)
{
    char policy[WP_EGRESS_TEXT_MAX];
    char ns[WP_NAMESPACE_MAX + 1] = {0};
    char sandbox[WP_EGRESS_PASS_SANDBOX_MAX + 1] = {0};
    char ip[WP_EGRESS_PASS_ADDRESS_MAX + 1] = {0};
    char proxy[WP_EGRESS_PROXY_MAX + 1] = {0};
    struct wp_cluster_egress of = {.proxy = proxy, .key = key};

    (void)state;
    memset(policy, 'p', sizeof policy);
    memset(ns, 'n', sizeof ns - 1);
    memset(sandbox, 's', sizeof sandbox - 1);
    memset(ip, '1', sizeof ip - 1);
    memset(proxy, 'x', sizeof proxy - 1);
    check(&of, &(struct wp_bind_pass){.ns = ns,
                                      .sandbox = sandbox,
                                      .ip = ip,
                                      .policy = {policy, sizeof policy},
                                      .by = {policy, sizeof policy}});
}

/* Nothing is put there then, which is fine. */
static void
without_a_proxy_or_a_policy_there_is_none(void **state)
{
    const struct wp_cluster_egress none = {.key = key};
    struct wp_bind_pass pass = usual;
    struct evbuffer *parcel = evbuffer_new();

    (void)state;
    assert_non_null(parcel);
    assert_true(wp_bind_pass_add(&none, &pass, parcel));
    pass.policy.len = 0;
    assert_true(wp_bind_pass_add(&egress, &pass, parcel));
    assert_int_equal(evbuffer_get_length(parcel), 0);
    evbuffer_free(parcel);
}

static void
without_memory_it_says_so_and_puts_nothing(void **state)
{
    struct evbuffer *parcel = evbuffer_new();

    (void)state;
    assert_non_null(parcel);
    memory_lacks = true;
    assert_false(wp_bind_pass_add(&egress, &usual, parcel));
    memory_lacks = false;
    buffer_fails = true;
    assert_false(wp_bind_pass_add(&egress, &usual, parcel));
    buffer_fails = false;
    assert_int_equal(evbuffer_get_length(parcel), 0);
    assert_true(wp_bind_pass_add(&egress, &usual, parcel));
    evbuffer_free(parcel);
}

static bool
is_wiped(size_t len)
{
    for (size_t i = 0; i < wiped_len; i++) {
        if (wiped[i] == len) {
            return true;
        }
    }
    return false;
}

/* What lies below wipes its own. */
static void
what_is_secret_is_wiped(void **state)
{
    const size_t room_of_url = 7 + sizeof WP_EGRESS_PASS_USER +
                               WP_EGRESS_PASS_TEXT_MAX + 1 +
                               WP_EGRESS_PROXY_MAX + 1;
    struct evbuffer *parcel = evbuffer_new();

    (void)state;
    assert_non_null(parcel);
    wiped_len = 0;
    assert_true(wp_bind_pass_add(&egress, &usual, parcel));
    assert_true(wiped_len <= WP_ARRAY_LEN(wiped));
    assert_true(is_wiped(WP_EGRESS_KEY_LEN));
    assert_true(is_wiped(WP_EGRESS_PASS_TEXT_MAX + 1));
    assert_true(is_wiped(room_of_url));
    assert_true(is_wiped(evbuffer_get_length(parcel)));
    evbuffer_free(parcel);
}

static void
who_may_narrow_what(void **state)
{
    const struct wp_cluster_egress none = {.key = key};
    static const struct {
        const char *policy;
        const char *by;
        enum wp_status status;
    } cases[] = {
        {"*.example.org", "a.example.org", WP_OK},
        {"*.example.org", "*.example.org", WP_OK},
        {"*.example.org", "other.example.com", WP_FAILED_PRECONDITION},
        {"*.example.org", "not a policy !", WP_INVALID_ARGUMENT},
    };
    struct wp_err err;

    (void)state;
    assert_int_equal(wp_bind_pass_check(&none, WP_STR("*.example.org"),
                                        WP_STR("a.example.org"), &err),
                     WP_FAILED_PRECONDITION);
    assert_string_equal(err.msg,
                        "the daemon has no egress_proxy, by which a claim "
                        "could narrow what its sandbox reaches");
    assert_int_equal(
        wp_bind_pass_check(&egress, WP_STR(""), WP_STR("a.example.org"), &err),
        WP_FAILED_PRECONDITION);
    assert_string_equal(err.msg, "the pool has no policy that could be "
                                 "narrowed: the annotation "
                                 "pool.warmpool.io/egress was expected");
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        assert_int_equal(wp_bind_pass_check(&egress,
                                            wp_str_from(cases[i].policy),
                                            wp_str_from(cases[i].by), &err),
                         cases[i].status);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_of_the_proxy_go_before_what_is_brought),
        cmocka_unit_test(the_longest_pass_is_whole),
        cmocka_unit_test(without_a_proxy_or_a_policy_there_is_none),
        cmocka_unit_test(without_memory_it_says_so_and_puts_nothing),
        cmocka_unit_test(what_is_secret_is_wiped),
        cmocka_unit_test(who_may_narrow_what),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
