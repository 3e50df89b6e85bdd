/* tests/integration/local/local_odd_init_test.c - a warmpool-init that says what it should
 * not, too much, or nothing: each sandbox comes to the end that fits, for the reason that
 * fits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/compiler.h"
#include "tests/support/local/local_rig.h"

/* Sandbox 0 of an init that acts like this; see odd_init.c. */
static void
begin(struct local_rig *rig, const char *script)
{
    static const char *argv[2];

    argv[0] = script;
    local_rig_init(rig, argv);
    rig->config.init_path = WP_TEST_ODD_INIT;
    rig->config.untried = true; /* The trial would fail. */
    rig->config.probe_every_ms = 20;
    rig->config.probe_failures = 3;
}

static void
expect_lost_within(const char *script, int64_t start_ms, const char *reason)
{
    static struct local_rig rig;

    begin(&rig, script);
    local_rig_start(&rig);
    local_rig_create(&rig, 0, start_ms);
    local_rig_wait(&rig, 0, RIG_READY_OR_LOST, PATIENCE_MS);
    local_rig_wait(&rig, 0, RIG_LOST, PATIENCE_MS);
    if (strcmp(rig.slots[0].reason, reason) != 0) {
        fail_msg("%s: '%s', not '%s'", script, rig.slots[0].reason, reason);
    }
    local_rig_destroy(&rig, 0);
    local_rig_wait(&rig, 0, RIG_DESTROYED, PATIENCE_MS);
    assert_false(local_rig_has_dir(&rig, 0));
    assert_int_equal(rig.slots[0].lost, 1);
    local_rig_fini(&rig);
}

static void
expect_lost(const char *script, const char *reason)
{
    expect_lost_within(script, PATIENCE_MS, reason);
}

static void
test_it_never_becomes_ready(void **state)
{
    static const struct {
        const char *script;
        const char *reason;
    } rows[] = {
        {"x", "bwrap exited with status 7"},
        {"ex", "a word on standard error"},
        {"HFw", "no such program"},
        {"HXw", "it is done"},
        /* What it says before its hello counts, what nobody knows does not. */
        {"Fw", "no such program"},
        {"ZHZFw", "no such program"},
        /* An answer to a question that was not asked. */
        {"HYNNNFw", "no such program"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        expect_lost(rows[i].script, rows[i].reason);
    }
    expect_lost_within("Hw", 500, "its port did not answer in time");
    /* It says that it takes connections, twice, and takes none. */
    expect_lost_within("HcOOw", 500, "not healthy in time through its socket");
}

static void
test_it_is_lost_once_ready(void **state)
{
    (void)state;
    expect_lost("HOs", "its port does not answer, 3 times in a row");
    expect_lost("HOOYXw", "it is done");
}

/* Seen from outside it is not healthy at first: asked again until it is. */
static void
test_it_is_asked_until_it_is_healthy(void **state)
{
    static struct local_rig rig;

    (void)state;
    begin(&rig, "HOaw");
    rig.tmpl.probe = WP_READY_HTTP;
    rig.tmpl.probe_path = "/";
    rig.config.probe_every_ms = 0;
    local_rig_start_one(&rig);
    assert_int_equal(rig.slots[0].ready, 1);
    assert_int_equal(rig.slots[0].lost, 0);
    local_rig_fini(&rig);
}

/* A sandbox that is to outlive the daemon must have heard so. */
static void
test_it_does_not_hear_that_it_stays(void **state)
{
    static struct local_rig rig;

    (void)state;
    begin(&rig, "HdOp");
    rig.config.outlive = true;
    local_rig_start(&rig);
    local_rig_create(&rig, 0, PATIENCE_MS);
    local_rig_wait(&rig, 0, RIG_LOST, PATIENCE_MS);
    assert_int_equal(rig.slots[0].ready, 0);
    assert_string_equal(rig.slots[0].reason, "its init does not read");
    local_rig_fini(&rig);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_never_becomes_ready),
        cmocka_unit_test(test_it_is_lost_once_ready),
        cmocka_unit_test(test_it_is_asked_until_it_is_healthy),
        cmocka_unit_test(test_it_does_not_hear_that_it_stays),
    };

    if (!local_rig_begin(argc, argv, NULL)) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
