/* What a proven name is without principals. Peers of real sockets are tested
 * with the servers that have them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "allocator/access/identity.h"
#include "pool/base/str.h"

static const char *
tenant_of(struct wp_identity *who, const char *name)
{
    memset(who, 0, sizeof *who);
    (void)snprintf(who->name, sizeof who->name, "%s", name);
    wp_identity_own_tenant(who);
    assert_false(who->admin);
    return who->tenant;
}

static void
test_proven_name_is_the_tenant(void **state)
{
    static const char longest[] =
        "spiffe://cluster.example/ns/default/sa/agent-of-the-first-team1";
    char longer[128];
    struct wp_identity who;
    struct wp_identity other;

    (void)state;
    assert_string_equal(tenant_of(&who, "uid:1000"), "uid:1000");
    assert_int_equal(strlen(longest), WP_TENANT_MAX);
    assert_string_equal(tenant_of(&who, longest), longest);
    /* Names that differ behind the longest tenant do not share one. */
    (void)snprintf(longer, sizeof longer, "%s1", longest);
    assert_int_equal(tenant_of(&who, longer)[0], '~');
    longer[WP_TENANT_MAX] = '2';
    assert_string_not_equal(tenant_of(&other, longer), who.tenant);
    /* Nobody becomes one of the daemon's own by a certificate's name. */
    assert_int_equal(tenant_of(&who, WP_TENANT_OWN_PREFIX "sandboxclaims")[0],
                     '~');
    assert_int_equal(tenant_of(&who, "\xff\xfe")[0], '~');
    assert_true(wp_str_is_utf8(wp_str_from(who.tenant)));
}

static void
test_principals_are_found_by_the_whole_name(void **state)
{
    static const struct wp_principal principals[] = {
        {"uid:10", "ten", false},
        {"uid:100", "hundred", true},
    };
    const struct wp_access access = {.principals = principals,
                                     .n_principals = 2};
    struct wp_identity who = {.name = "uid:100"};

    (void)state;
    assert_null(wp_access_find(&access, "uid:1"));
    assert_ptr_equal(wp_access_find(&access, "uid:100"), &principals[1]);
    wp_identity_take(&who, &principals[1]);
    assert_string_equal(who.tenant, "hundred");
    assert_true(who.admin);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_proven_name_is_the_tenant),
        cmocka_unit_test(test_principals_are_found_by_the_whole_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
