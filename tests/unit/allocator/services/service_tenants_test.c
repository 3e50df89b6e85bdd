/* ListTenants page by page, and who is shown whom; and what every method says to
 * bytes that are no message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/base/held_locks.h"
#include "tests/support/services/service_world.h"

enum {
    TENANTS = 150, /* More than two pages. */
};

static struct wp_world world;
static struct wp_fake_call call;

static int
setup(void **state)
{
    (void)state;
    wp_world_init(&world, 2 * TENANTS, TENANTS);
    wp_world_call(&world, &call);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    held_locks_are_free();
    wp_fake_call_fini(&call);
    wp_world_fini(&world);
    return 0;
}

static void
ask_as(const char *tenant, bool admin)
{
    (void)wp_world_again(&world, &call);
    call.call.who.admin = admin;
    (void)snprintf(call.call.who.tenant, sizeof call.call.who.tenant, "%s",
                   tenant);
}

/* One page; how many it has, each counted in seen by its number. */
static uint32_t
list(const char *tenant, char page_token[65], uint8_t *seen)
{
    const struct wp_wire_list_tenants_request request = {
        .tenant = wp_str_from(tenant),
        .page_token = wp_str_from(page_token),
    };
    struct wp_wire_list_tenants_response response;

    WP_WORLD_START(&world.allocator, &call, "ListTenants", list_tenants_request,
                   &request);
    wp_world_assert_ended(&call, WP_OK);
    WP_WORLD_REPLY(&world, &call, list_tenants_response, &response);
    assert_true(wp_str_copy(response.next_page_token, page_token, 65));
    for (uint32_t i = 0; i < response.n_tenants; i++) {
        unsigned number = TENANTS;

        assert_int_equal(sscanf(response.tenants[i].tenant, "t%u", &number), 1);
        assert_true(number < TENANTS);
        assert_int_equal(response.tenants[i].leases, 1);
        seen[number]++;
    }
    return response.n_tenants;
}

static void
test_every_tenant_is_on_one_page(void **state)
{
    uint8_t seen[TENANTS] = {0};
    char token[65] = "";
    uint32_t n = 0;
    uint32_t pages = 0;

    (void)state;
    for (unsigned i = 0; i < TENANTS; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "t%u", i);
        ask_as("", true);
        wp_world_claim(&world, &call, name, name, 0);
        wp_world_assert_ended(&call, WP_OK);
    }
    do {
        ask_as("", true);
        n += list("", token, seen);
        pages++;
    } while (token[0] != '\0');
    assert_int_equal(n, TENANTS);
    assert_true(pages >= 3);
    for (unsigned i = 0; i < TENANTS; i++) {
        assert_int_equal(seen[i], 1);
    }
    /* One by name, and nobody but oneself. */
    ask_as("", true);
    assert_int_equal(list("t7", token, seen), 1);
    assert_int_equal(seen[7], 2);
    assert_string_equal(token, "");
    ask_as("t9", false);
    assert_int_equal(list("", token, seen), 1);
    assert_int_equal(seen[9], 2);
    ask_as("t9", false);
    wp_fake_call_start(&call, &world.allocator, "ListTenants",
                       (const uint8_t *)"\x12\x02t7", 4);
    wp_world_assert_ended(&call, WP_PERMISSION_DENIED);
}

/* Those of one pool only, when one is named. */
static void
test_tenants_of_a_pool(void **state)
{
    struct wp_wire_list_tenants_request request = {
        .pool = {WP_STR("default"), WP_STR("q")}};
    struct wp_wire_list_tenants_response response;
    struct wp_pool_spec spec;
    struct wp_err err;

    (void)state;
    wp_pool_spec_init(&spec);
    (void)snprintf(spec.name, sizeof spec.name, "q");
    (void)snprintf(spec.template_name, sizeof spec.template_name, "t");
    assert_int_equal(wp_pools_add(world.rig.pools, &spec, NULL, &err), WP_OK);
    wp_world_settle(&world);
    ask_as("", true);
    wp_world_claim(&world, &call, "one", "t1", 0);
    wp_world_assert_ended(&call, WP_OK);
    ask_as("", true);
    WP_WORLD_START(&world.allocator, &call, "ListTenants", list_tenants_request,
                   &request);
    wp_world_assert_ended(&call, WP_OK);
    WP_WORLD_REPLY(&world, &call, list_tenants_response, &response);
    assert_int_equal(response.n_tenants, 0);
    request.pool.name = WP_STR("p");
    ask_as("", true);
    WP_WORLD_START(&world.allocator, &call, "ListTenants", list_tenants_request,
                   &request);
    wp_world_assert_ended(&call, WP_OK);
    WP_WORLD_REPLY(&world, &call, list_tenants_response, &response);
    assert_int_equal(response.n_tenants, 1);
    assert_string_equal(response.tenants[0].tenant, "t1");
    request.pool.name = WP_STR("r");
    ask_as("", true);
    WP_WORLD_START(&world.allocator, &call, "ListTenants", list_tenants_request,
                   &request);
    wp_world_assert_ended(&call, WP_NOT_FOUND);
}

static void
test_no_such_page(void **state)
{
    const struct wp_wire_list_tenants_request request = {.page_token =
                                                             WP_STR("here")};

    (void)state;
    WP_WORLD_START(&world.allocator, &call, "ListTenants", list_tenants_request,
                   &request);
    wp_world_assert_ended(&call, WP_INVALID_ARGUMENT);
    assert_non_null(strstr(call.message, "page_token"));
}

/* Refused, in words, and nothing is changed. */
static void
refuses_what_is_no_message(const struct wp_service *service)
{
    for (size_t i = 0; i < service->n_methods; i++) {
        const char *name = strrchr(service->methods[i].path, '/') + 1;

        ask_as("", true);
        wp_fake_call_start(&call, service, name, (const uint8_t *)"\xff", 1);
        if (!call.finished) {
            /* It takes more than one message. */
            wp_fake_call_receive(&call, (const uint8_t *)"\xff", 1);
        }
        if (call.status != WP_INVALID_ARGUMENT || call.message[0] == '\0') {
            fail_msg("%s: status %d, '%s'", name, call.status, call.message);
        }
    }
}

static void
test_no_messages(void **state)
{
    struct wp_pool_stats before = wp_rig_stats(&world.rig);
    struct wp_pool_stats after;

    (void)state;
    refuses_what_is_no_message(&world.allocator);
    refuses_what_is_no_message(&world.admin);
    after = wp_rig_stats(&world.rig);
    assert_int_equal(after.leased, before.leased);
    assert_int_equal(after.replicas, before.replicas);
    assert_int_equal(world.drains, 0);
    assert_null(world.job);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_every_tenant_is_on_one_page),
        TEST(test_no_such_page),
        TEST(test_tenants_of_a_pool),
        TEST(test_no_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
