/* tests/unit/local/sandbox/sandbox_egress_test.c - a claim narrows what its
 * sandbox may reach: it is checked, written down and then in force, in that
 * order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "local/sandbox/sandbox_impl.h"
#include "pool/egress/policy.h"
#include "tests/support/local/journal.h"

static struct wp_local local;
static struct wp_sandbox box;
static int calls;
static int fails_at; /* The call that fails; 0: none. */
static bool at_once; /* The proxy says. */

static enum wp_status
outcome(struct wp_err *err, const char *what)
{
    return ++calls == fails_at ? wp_err_set(err, WP_UNAVAILABLE, "no %s", what)
                               : WP_OK;
}

enum wp_status __wrap_wp_egress_policy_parse_narrowed(
    struct wp_str policy, struct wp_str by, struct wp_str packages,
    struct wp_egress_policy *out, struct wp_err *err);

enum wp_status
__wrap_wp_egress_policy_parse_narrowed(struct wp_str policy, struct wp_str by,
                                       struct wp_str packages,
                                       struct wp_egress_policy *out,
                                       struct wp_err *err)
{
    assert_non_null(out);
    NOTE("'%.*s' by '%.*s', packages '%.*s'\n", WP_STR_ARG(policy),
         WP_STR_ARG(by), WP_STR_ARG(packages));
    return outcome(err, "policy");
}

enum wp_status
wp_sandbox_record_claimed(const struct wp_sandbox *sandbox, struct wp_err *err)
{
    assert_ptr_equal(sandbox, &box);
    NOTE("record '%s'\n", sandbox->narrowed);
    return outcome(err, "record");
}

bool
wp_egress_proxy_narrow(struct wp_egress_proxy *proxy,
                       struct wp_egress_member *member, const char *by)
{
    assert_ptr_equal(proxy, local.egress);
    assert_ptr_equal(member, box.egress_member);
    NOTE("tell the proxy '%s'\n", by);
    return at_once;
}

static void
begin(const char *egress, const char *narrowed)
{
    memset(&local, 0, sizeof local);
    memset(&box, 0, sizeof box);
    local.config.egress_packages = "pypi";
    local.egress = (struct wp_egress_proxy *)(uintptr_t)64;
    box.local = &local;
    box.egress_member = (struct wp_egress_member *)(uintptr_t)128;
    (void)snprintf(box.egress, sizeof box.egress, "%s", egress);
    (void)snprintf(box.narrowed, sizeof box.narrowed, "%s", narrowed);
    fails_at = 0;
    at_once = true;
}

static void
narrow(const char *what, const char *by)
{
    struct wp_err err = {.status = WP_OK};
    enum wp_status status;

    NOTE("--- %s\n", what);
    calls = 0;
    status = wp_sandbox_narrow(&box, by, &err);
    journal_status("narrow", status, status == WP_PENDING ? NULL : &err);
    NOTE("= narrowed '%s'\n", box.narrowed);
}

static void
test_it_is_checked_written_down_and_in_force(void **state)
{
    char longest[WP_EGRESS_TEXT_MAX + 1];

    (void)state;
    journal_begin();
    begin("wide", "");
    narrow("a first time", "less");
    narrow("again", "less");
    narrow("to something else", "least");
    at_once = false;
    narrow("the proxy has to say so", "little");
    begin("wide", "");
    box.egress_member = NULL;
    narrow("nobody knows of it yet", "less");
    begin("", "");
    narrow("it reaches nothing anyway", "less");
    for (int n = 1; n <= 3; n++) {
        begin("wide", "before");
        fails_at = n;
        narrow("a call fails", "less");
    }
    begin("wide", "");
    fails_at = 2;
    narrow("it cannot be written down", "less");
    fails_at = 0;
    narrow("a repeat is", "less");
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    begin("wide", "");
    narrow("the longest", longest);
    memset(longest, 'y', sizeof longest - 1);
    fails_at = 2;
    narrow("another one, which cannot be written down", longest);
    journal_compare("egress_narrowed");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_checked_written_down_and_in_force),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
