/* Where Sandboxes are that no pool has given out, as they come, change and go.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/cluster/sandbox_routes.h"
#include "k8s/objects/names.h"
#include "tests/support/base/lock_once.h"

static struct wp_store *store;
static struct wp_sandbox_routes *routes;
static unsigned version;
static const char *ns_of = "ns"; /* Of what is made. */

static int
set_up(void **state)
{
    (void)state;
    store = wp_store_create(WP_KIND_SANDBOX, NULL);
    assert_non_null(store);
    routes = wp_sandbox_routes_create(store);
    assert_non_null(routes);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    wp_store_destroy(store);
    wp_sandbox_routes_destroy(routes);
    return 0;
}

/* owner: the kind of its controller, "": none; more is put into metadata. */
static struct wp_object *
make(const char *name, const char *owner, const char *ip, const char *more)
{
    char text[2048];
    struct wp_object *object;
    struct wp_err err;
    json_t *json;

    (void)snprintf(
        text, sizeof text,
        "{\"metadata\":{\"namespace\":\"%s\",\"name\":\"%s\",\"uid\":\"u\","
        "\"resourceVersion\":\"%u\"%s%s%s%s},\"status\":{\"podIPs\":[%s%s%s]}}",
        ns_of, name, ++version,
        owner[0] != '\0' ? ",\"ownerReferences\":[{\"apiVersion\":"
                           "\"extensions.agents.x-k8s.io/v1beta1\","
                           "\"name\":\"o\",\"uid\":\"o\",\"controller\":true,"
                           "\"kind\":\""
                         : "",
        owner, owner[0] != '\0' ? "\"}]" : "", more, ip[0] != '\0' ? "\"" : "",
        ip, ip[0] != '\0' ? "\"" : "");
    json = json_loads(text, 0, NULL);
    assert_non_null(json);
    object = wp_object_create(WP_KIND_SANDBOX, json, &err);
    json_decref(json);
    assert_non_null(object);
    return object;
}

static void
put(const char *name, const char *owner, const char *ip, const char *more)
{
    wp_store_put(store, make(name, owner, ip, more));
}

/* endpoint NULL: there is none. */
static void
expect(const char *ns, const char *name, const char *endpoint)
{
    char found[WP_ENDPOINT_MAX + 1] = "";

    assert_int_equal(held, 0);
    assert_int_equal(wp_sandbox_routes_find(routes, wp_str_from(ns),
                                            wp_str_from(name), 8888, found),
                     endpoint != NULL);
    assert_string_equal(found, endpoint != NULL ? endpoint : "");
    assert_int_equal(held, 0);
}

static void
a_claims_own_is_found(void **state)
{
    (void)state;
    put("a", "SandboxClaim", "", "");
    expect("ns", "a", NULL);
    put("a", "SandboxClaim", "10.0.0.1", "");
    expect("ns", "a", "10.0.0.1:8888");
    expect("other", "a", NULL);
    expect("ns", "b", NULL);
    /* Its next Pod; then suspended; then on its way out. */
    put("a", "SandboxClaim", "10.0.0.2", "");
    expect("ns", "a", "10.0.0.2:8888");
    put("a", "SandboxClaim", "", "");
    expect("ns", "a", NULL);
    put("a", "SandboxClaim", "10.0.0.3", "");
    put("a", "SandboxClaim", "10.0.0.3",
        ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"");
    expect("ns", "a", NULL);
}

static void
somebodys_is_found(void **state)
{
    struct wp_object *object;

    (void)state;
    put("bare", "", "2001:db8::1", "");
    expect("ns", "bare", "[2001:db8::1]:8888");
    object = make("bare", "", "2001:db8::1", "");
    wp_store_remove(store, object);
    wp_object_unref(object);
    expect("ns", "bare", NULL);
}

static void
what_waits_in_a_pool_is_not(void **state)
{
    (void)state;
    put("p-1", "SandboxWarmPool", "10.0.0.1", "");
    expect("ns", "p-1", NULL);
    put("p-1", "", "10.0.0.1",
        ",\"labels\":{\"" WP_LABEL_WARM_POOL "\":\"1\"}");
    expect("ns", "p-1", NULL);
    /* Until a claim has it. */
    put("p-1", "SandboxClaim", "10.0.0.1", "");
    expect("ns", "p-1", "10.0.0.1:8888");
}

static void
names_that_are_too_long_are_nobodys(void **state)
{
    char name[400];

    (void)state;
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    expect("ns", name, NULL);
    expect(name, "a", NULL);
}

/* As long as they may be, and one more. */
static void
the_longest_names_are_found(void **state)
{
    char name[255];
    char ip[64];
    char ns[WP_NAMESPACE_MAX + 2];

    (void)state;
    memset(name, 'a', sizeof name - 1);
    name[253] = '\0';
    put(name, "", "10.0.0.1", "");
    expect("ns", name, "10.0.0.1:8888");
    name[252] = 'b';
    expect("ns", name, NULL);
    name[253] = 'a';
    name[254] = '\0';
    put(name, "", "10.0.0.1", "");
    expect("ns", name, NULL);
    memset(ns, 'n', sizeof ns - 1);
    ns[WP_NAMESPACE_MAX] = '\0';
    ns_of = ns;
    put("e", "", "10.0.0.2", "");
    expect(ns, "e", "10.0.0.2:8888");
    ns[WP_NAMESPACE_MAX] = 'n';
    ns[WP_NAMESPACE_MAX + 1] = '\0';
    put("e", "", "10.0.0.2", "");
    expect(ns, "e", NULL);
    ns_of = "ns";
    /* No address is longer than one of version 6. */
    memset(ip, '1', sizeof ip);
    ip[45] = '\0';
    put("c", "", ip, "");
    ip[45] = ':';
    ip[46] = '\0';
    put("d", "", ip, "");
    expect("ns", "c", "111111111111111111111111111111111111111111111:8888");
    expect("ns", "d", NULL);
}

/* Nobody waits for what nobody can ask for. */
static void
the_lock_is_taken_for_routes_only(void **state)
{
    unsigned before = taken;

    (void)state;
    put("p-1", "SandboxWarmPool", "10.0.0.1", "");
    put("p-1", "SandboxWarmPool", "10.0.0.2", "");
    assert_int_equal(taken, before);
    put("p-1", "SandboxClaim", "10.0.0.2", "");
    assert_int_equal(taken, before + 1);
    expect("ns", "p-1", "10.0.0.2:8888");
    assert_int_equal(taken, before + 2);
    expect("ns", "p-2", NULL);
    assert_int_equal(taken, before + 3);
}

static void
without_memory_there_are_none(void **state)
{
    struct wp_sandbox_routes *none;

    (void)state;
    no_memory = true;
    none = wp_sandbox_routes_create(store);
    no_memory = false;
    assert_null(none);
    wp_sandbox_routes_destroy(NULL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_claims_own_is_found, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(somebodys_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_waits_in_a_pool_is_not, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_longest_names_are_found, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_lock_is_taken_for_routes_only,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_memory_there_are_none, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(names_that_are_too_long_are_nobodys,
                                        set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
