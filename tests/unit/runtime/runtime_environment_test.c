/* The environment of a command: what it is given, then what is inherited. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/compiler.h"
#include "runtime/exec/environment.h"

extern char **environ;

static void
check(const struct wp_environment *environment, const char *const *expected)
{
    size_t i = 0;

    while (expected[i] != NULL) {
        assert_non_null(environment->list[i]);
        assert_string_equal(environment->list[i], expected[i]);
        i++;
    }
    assert_null(environment->list[i]);
}

static bool
add(struct wp_environment *environment, const char *name, const char *value)
{
    return wp_environment_add(environment, wp_str_from(name),
                              wp_str_from(value));
}

static void
what_is_given_goes_first_and_once(void **state)
{
    char *const inherited[] = {(char[]){"WP_A=old"}, (char[]){"WP_AB=kept"},
                               (char[]){"WP_=short"}, (char[]){"WP_C=gone"},
                               NULL};
    static const char *const own[] = {"WP_A=3", "WP_B=2",
                                      "WP_=", "WP_C==x=", NULL};
    static const char *const all[] = {
        "WP_A=3", "WP_B=2", "WP_=", "WP_C==x=", "WP_AB=kept", NULL};
    struct wp_environment environment;
    char **before = environ;

    (void)state;
    environ = (char **)(uintptr_t)inherited;
    assert_true(wp_environment_init(&environment, 5));
    assert_int_equal(environment.own, 0);
    assert_null(environment.list[0]);
    assert_true(add(&environment, "WP_A", "1"));
    assert_true(add(&environment, "WP_B", "2"));
    assert_true(add(&environment, "WP_A", "3"));
    assert_true(add(&environment, "WP_", ""));
    assert_true(add(&environment, "WP_C", "=x="));
    check(&environment, own);
    assert_int_equal(environment.own, 4);
    wp_environment_inherit(&environment);
    check(&environment, all);
    assert_int_equal(environment.own, 4);
    wp_environment_fini(&environment);
    assert_null(environment.list);
    assert_int_equal(environment.own, 0);

    /* Nothing given: all that is here. */
    assert_true(wp_environment_init(&environment, 0));
    wp_environment_inherit(&environment);
    check(&environment, (const char *const *)(uintptr_t)inherited);
    assert_int_equal(environment.own, 0);
    wp_environment_fini(&environment);
    environ = before;
}

static void
what_cannot_be_in_an_environment_is_refused(void **state)
{
    static const struct {
        struct wp_str name;
        struct wp_str value;
    } cases[] = {
        {{"", 0}, {"x", 1}},    {{NULL, 0}, {"x", 1}},  {{"=", 1}, {"x", 1}},
        {{"A=", 2}, {"x", 1}},  {{"A=B", 3}, {"x", 1}}, {{"A\0B", 3}, {"x", 1}},
        {{"A\0", 2}, {"x", 1}}, {{"A", 1}, {"\0", 1}},  {{"A", 1}, {"x\0y", 3}},
    };
    static const char *const none[] = {NULL};
    static const char *const empty[] = {"A=", NULL};
    struct wp_environment environment;

    (void)state;
    assert_true(wp_environment_init(&environment, WP_ARRAY_LEN(cases)));
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        assert_false(
            wp_environment_add(&environment, cases[i].name, cases[i].value));
    }
    check(&environment, none);
    assert_int_equal(environment.own, 0);
    assert_true(wp_environment_add(&environment, WP_STR("A"),
                                   (struct wp_str){NULL, 0}));
    check(&environment, empty);
    wp_environment_fini(&environment);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_given_goes_first_and_once),
        cmocka_unit_test(what_cannot_be_in_an_environment_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
