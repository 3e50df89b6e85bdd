/* Which installations meet: every pair of scopes, in both orders. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "k8s/lead/scope.h"
#include "pool/base/compiler.h"

static void
each_pair(void **state)
{
    static const char *const scopes[] = {
        "* pool",  "* pool,claim", "* claim,pools", "* tool", "a pool",
        "a claim", "ab pool",      "b tool,pool",   "* p",    "a",
        "*",
    };
    /* Of each with each, from the first on. */
    static const char *const meet[] = {
        "11001011000", "11101111000", "01100100000", "00010001000",
        "11001000000", "01100100000", "11000010000", "11010001000",
        "00000000100", "00000000000", "00000000000",
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(scopes); i++) {
        for (size_t j = 0; j < WP_ARRAY_LEN(scopes); j++) {
            if (wp_scopes_meet(scopes[i], scopes[j]) != (meet[i][j] == '1')) {
                fail_msg("'%s' and '%s'", scopes[i], scopes[j]);
            }
        }
        /* What theirs does not say is all of it. */
        assert_true(wp_scopes_meet(scopes[i], ""));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_pair)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
