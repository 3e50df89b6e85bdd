/* tests/unit/pool/leases/lease_memory_test.c - the lease store that keeps nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "pool/leases/memory.h"

static void
must_not_be_called(struct wp_lease_op *op, enum wp_status status)
{
    (void)op;
    (void)status;
    fail_msg("a commit that is complete at once must not call done");
}

/* Every kind of commit is complete at once, and done is not called as well. */
static void
test_commits_at_once(void **state)
{
    static const enum wp_lease_op_kind kinds[] = {
        WP_LEASE_GRANT, WP_LEASE_RENEW, WP_LEASE_RELEASE};
    struct wp_lease_store store = wp_lease_memory();

    (void)state;
    assert_string_equal(store.ops->name, "memory");
    for (size_t i = 0; i < WP_ARRAY_LEN(kinds); i++) {
        struct wp_lease_op op = {
            .kind = kinds[i], .fence = 7, .done = must_not_be_called};

        assert_int_equal(store.ops->commit(store.self, &op), WP_OK);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commits_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
