/* Where Sandboxes are that no pool has given out, as they come, change and go.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/cluster/sandbox_routes.h"
#include "k8s/objects/names.h"

static struct wp_store *store;
static struct wp_sandbox_routes *routes;
static unsigned version;

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
    char text[1024];
    struct wp_object *object;
    struct wp_err err;
    json_t *json;

    (void)snprintf(
        text, sizeof text,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\",\"uid\":\"u\","
        "\"resourceVersion\":\"%u\"%s%s%s%s},\"status\":{\"podIPs\":[%s%s%s]}}",
        name, ++version,
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

    assert_int_equal(wp_sandbox_routes_find(routes, wp_str_from(ns),
                                            wp_str_from(name), 8888, found),
                     endpoint != NULL);
    assert_string_equal(found, endpoint != NULL ? endpoint : "");
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

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_claims_own_is_found, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(somebodys_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_waits_in_a_pool_is_not, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(names_that_are_too_long_are_nobodys,
                                        set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
