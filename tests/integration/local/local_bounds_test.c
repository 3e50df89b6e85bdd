/* tests/integration/local/local_bounds_test.c - orders with too long texts, and
 * a daemon that has too few descriptors: what it cannot do it says, and nothing
 * is left of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/sandbox/spawn.h"
#include "pool/base/clock.h"
#include "pool/base/compiler.h"
#include "tests/support/local/local_rig.h"

static struct local_rig rig;

/* --- Orders --- */

static void
refused(const struct wp_sandbox_order *order, enum wp_status status,
        const char *words)
{
    struct wp_err err = {.msg = ""};

    assert_int_equal(rig.backend.ops->create(rig.backend.self, order, &err),
                     status);
    if (strstr(err.msg, words) == NULL) {
        fail_msg("'%s' does not say '%s'", err.msg, words);
    }
}

static void
test_texts_of_orders(void **state)
{
    static char longest[WP_EGRESS_TEXT_MAX + 2];
    const uint8_t uid[WP_UID_LEN] = {0};
    struct wp_sandbox_order order = {
        .ref = {0, 1},
        .pool_namespace = WP_STR("default"),
        .template_name = WP_STR("t"),
        .name = WP_STR("p-1"),
        .uid = uid,
        .ready_within_ns = WP_NS_PER_S,
    };

    (void)state;
    local_rig_init_runtime(&rig);
    rig.config.sandboxes_max = 1;
    local_rig_start(&rig);
    memset(longest, 'a', sizeof longest - 1);
    order.pool = (struct wp_str){longest, WP_POOL_NAME_MAX + 1};
    refused(&order, WP_INVALID_ARGUMENT,
            "pool: at most 54 printable characters were expected");
    order.pool = WP_STR("a\nb");
    refused(&order, WP_INVALID_ARGUMENT,
            "pool: at most 54 printable characters were expected");
    order.pool = WP_STR("p");
    /* It is a name, but no socket can have it. */
    order.name = (struct wp_str){longest, WP_SANDBOX_NAME_MAX};
    refused(&order, WP_INVALID_ARGUMENT,
            "a DNS label was expected, and a socket path of at most 102"
            " characters; use a shorter state directory or pool name");
    order.name = WP_STR("p-00000000");
    order.egress = WP_STR("example.com");
    refused(&order, WP_FAILED_PRECONDITION,
            "the pool has an egress policy, but warmpool-egress was not found:"
            " see the setting egress_path");
    order.template_name = WP_STR("u");
    refused(&order, WP_NOT_FOUND, "template 'u' in namespace 'default'");
    /* None of them has taken the one place. */
    local_rig_create(&rig, 0, PATIENCE_MS);
    order.ref.index = 1;
    order.template_name = WP_STR("t");
    refused(&order, WP_RESOURCE_EXHAUSTED,
            "this machine's 1 sandboxes are in use");
    local_rig_fini(&rig);

    local_rig_init_runtime(&rig);
    rig.config.egress_path = "/nonexistent";
    local_rig_start(&rig);
    order.egress = (struct wp_str){longest, WP_EGRESS_TEXT_MAX + 1};
    refused(&order, WP_INVALID_ARGUMENT, "egress: at most");
    local_rig_fini(&rig);
}

/* --- Descriptors --- */

static int
count_open(void)
{
    int n = 0;

    for (int fd = 0; fd < 256; fd++) {
        n += fcntl(fd, F_GETFD) >= 0;
    }
    return n;
}

static void
allow(rlim_t files)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = files;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void
check_reason(const char *reason)
{
    static const char *const beginnings[] = {
        "no descriptors: ",
        "cannot make socket /",
        "cannot make control group /",
        "cannot open the control group of p-0000",
        "cannot start a process: ",
    };
    size_t i = 0;

    while (i < WP_ARRAY_LEN(beginnings) &&
           strncmp(reason, beginnings[i], strlen(beginnings[i])) != 0) {
        i++;
    }
    /* One that is as long as reasons may be was cut. */
    if (i == WP_ARRAY_LEN(beginnings) ||
        (strlen(reason) < WP_REASON_MAX &&
         strstr(reason, ": Too many open files") == NULL)) {
        fail_msg("'%s'", reason);
    }
}

/* However many descriptors it gets, a sandbox that they do not suffice for is
 * lost, for this reason, and leaves neither a descriptor nor anything else. */
static void
test_too_few_descriptors(void **state)
{
    static const char *const argv[] = {"HOw", NULL};
    struct rlimit before;
    uint32_t index = 0;
    uint32_t failed = 0;
    int open_before;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    local_rig_init(&rig, argv);
    rig.config.init_path = WP_TEST_ODD_INIT;
    rig.config.untried = true;
    rig.config.outlive = true;
    rig.config.probe_every_ms = 0;
    local_rig_start(&rig);
    open_before = count_open();
    for (rlim_t files = WP_SPAWN_FD_FLOOR + 1;; files++) {
        allow(files);
        local_rig_create(&rig, index, PATIENCE_MS);
        local_rig_wait(&rig, index, RIG_READY_OR_LOST, PATIENCE_MS);
        if (rig.slots[index].ready > 0) {
            break;
        }
        check_reason(rig.slots[index].reason);
        allow(256);
        local_rig_destroy(&rig, index);
        local_rig_wait(&rig, index, RIG_DESTROYED, PATIENCE_MS);
        assert_false(local_rig_has_dir(&rig, index));
        assert_int_equal(count_open(), open_before);
        failed++;
        index++;
    }
    assert_in_range(failed, 6, LOCAL_RIG_SLOTS - 1);
    allow(256);
    local_rig_fini(&rig);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_of_orders),
        cmocka_unit_test(test_too_few_descriptors),
    };

    if (!local_rig_begin(argc, argv, NULL)) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
