/* local/sandbox/sweep.c: which control groups go, against folders that stand
 * for groups. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/sandbox/local_impl.h"

static char top[] = "/tmp/wp-sweep-XXXXXX";

static const char *
at(const char *part)
{
    static char path[128];

    (void)snprintf(path, sizeof path, "%s/%s", top, part);
    return path;
}

static void
add_tree(struct wp_cgroups *groups, const char *part)
{
    groups->kind = WP_CGROUP_V2;
    groups->trees_len = 1;
    (void)snprintf(groups->trees[0].dir, sizeof groups->trees[0].dir, "%s",
                   at(part));
}

/* Those of sandboxes that are there stay; in the daemon's own group, and in
 * that of an earlier one. */
static void
test_groups_without_a_sandbox(void **state)
{
    static struct wp_local local;
    static const char *const folders[] = {
        "sandboxes",    "sandboxes/lives", "sandboxes/dead", "now",
        "now/lives",    "now/orphan",      "now/dead",       "before",
        "before/lives", "before/orphan2",  "before/dead",
    };
    static const char *const left[] = {"sandboxes/lives", "now/lives",
                                       "before/lives"};
    static const char *const gone[] = {"sandboxes/dead", "now/orphan",
                                       "now/dead", "before/orphan2",
                                       "before/dead"};
    struct wp_local_sweep counts;
    struct wp_sweep *sweep;
    char command[128];

    (void)state;
    assert_non_null(mkdtemp(top));
    for (size_t i = 0; i < WP_ARRAY_LEN(folders); i++) {
        assert_int_equal(mkdir(at(folders[i]), 0700), 0);
    }
    (void)snprintf(local.sandboxes_dir, sizeof local.sandboxes_dir, "%s",
                   at("sandboxes"));
    add_tree(&local.cgroups, "now");
    add_tree(&local.old_cgroups[0], "before");
    local.old_cgroups_len = 1;
    sweep = wp_sweep_create(&local, &counts);
    assert_non_null(sweep);
    wp_sweep_add(sweep, "dead");
    wp_sweep_finish(sweep);
    for (size_t i = 0; i < WP_ARRAY_LEN(left); i++) {
        assert_int_equal(access(at(left[i]), F_OK), 0);
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(gone); i++) {
        assert_int_equal(access(at(gone[i]), F_OK), -1);
    }
    assert_int_equal(counts.sandboxes, 1);
    assert_int_equal(counts.cgroups, 2);
    assert_int_equal(counts.killed, 0);
    assert_int_equal(counts.failed, 0);
    (void)snprintf(command, sizeof command, "rm -r %s", top);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c) */
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_without_a_sandbox),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
