/* DELETE of files and folders: each answer, each name that is taken away and
 * what is left are compared whole with golden/delete_*.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/sandboxd/rest.h"
#include "tests/support/base/heard.h"
#include "tests/support/runtime/fake_http.h"
#include "tests/support/runtime/workspace_rig.h"

static void
golden(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/delete_%s.txt", name);
    journal_compare(path);
}

static void
say(const char *what)
{
    journal("-- %s", what);
    journal_line();
}

/* Up to the answer. Returns the turns of the loop that it took. */
static unsigned
remove_at(const char *path, const char *query)
{
    struct wp_http_req req = {.name = "DELETE",
                              .app = &workspace_runtime,
                              .ops = &wp_sandboxd_delete_ops,
                              .path = path,
                              .query = query};
    struct heard heard;
    const char *log;
    unsigned turns;

    heard_begin(&heard);
    req.ops->ready(&req);
    turns = loop_settle();
    log = heard_end(&heard);
    if (*log != '\0') {
        journal("log: %s", log);
        journal_line();
    }
    if (!req.replied) {
        journal("no answer");
        journal_line();
    }
    fake_http_gone(&req);
    return turns;
}

/* ----------------------------------------------------------------- tests */

static void
what_is_named_goes_and_nothing_else(void **state)
{
    (void)state;
    folder_put("dir");
    folder_put("dir/empty");
    folder_put("dir/full");
    file_put("dir/full/file", "x", 0644);
    file_put("dir/file", "x", 0644);
    file_put("dir/other", "x", 0644);
    link_put("dir/link", "full");
    file_put("top", "x", 0644);
    fault_tell_unlinks(true);
    say("a file");
    (void)remove_at("/v1/files/dir/file", NULL);
    (void)remove_at("/v1/files/top", "recursive=false");
    say("a link, not what it leads to");
    (void)remove_at("/v1/files/dir/link", NULL);
    say("folders");
    (void)remove_at("/v1/files/dir/full", NULL);
    (void)remove_at("/v1/files/dir/empty/", NULL);
    (void)remove_at("/v1/files/dir/full//", "recursive=true");
    say("what is not there");
    (void)remove_at("/v1/files/dir/file", NULL);
    (void)remove_at("/v1/files/nothing", "recursive=1");
    (void)remove_at("/v1/files/no/thing", NULL);
    say("what has no name of its own");
    (void)remove_at("/v1/files/dir/.", "recursive=true");
    (void)remove_at("/v1/files/dir/..", "recursive=true");
    (void)remove_at("/v1/files/..", "recursive=true");
    (void)remove_at("/v1/files/dir/other/", NULL);
    say("flags");
    (void)remove_at("/v1/files/dir", "recursive=yes");
    (void)remove_at("/v1/files/dir", "recursive=");
    (void)remove_at("/v1/files/dir", "recursive");
    say("the workspace itself");
    file_put("top", "x", 0644);
    (void)remove_at("/v1/files", NULL);
    (void)remove_at("/v1/files/", "recursive=false");
    fault_tell_unlinks(false);
    tree_show(".");
    (void)remove_at("/v1/files/", "recursive=true");
    tree_show(".");
    say("an empty one");
    (void)remove_at("/v1/files/.", "recursive=true");
    tree_show(".");
    golden("named");
    assert_int_equal(wp_sandboxd_delete_ops.body_max, 4096);
}

static void
names_may_be_as_long_as_a_file_system_has_them(void **state)
{
    char path[300] = "/v1/files/";
    const size_t prefix = strlen(path);

    (void)state;
    memset(path + prefix, 'n', 256);
    path[prefix + 255] = '\0';
    file_put(path + prefix, "x", 0644);
    (void)remove_at(path, NULL);
    (void)remove_at(path, NULL);
    folder_put(path + prefix);
    (void)remove_at(path, "recursive=true");
    path[prefix + 255] = 'n';
    (void)remove_at(path, NULL);
    tree_show(".");
    golden("long_names");
}

/* Folders in each other: d/d/d... */
static void
nest(int depth, char *path)
{
    path[0] = '\0';
    for (int i = 0; i < depth; i++) {
        strcat(path, i > 0 ? "/d" : "d");
        folder_put(path);
    }
}

static void
a_tree_is_taken_down_from_its_leaves(void **state)
{
    char path[1024];

    (void)state;
    nest(4, path);
    file_put("d/d/d/d/leaf", "x", 0644);
    link_put("beside", "d");
    fault_tell_unlinks(true);
    (void)remove_at("/v1/files/d", "recursive=true");
    fault_tell_unlinks(false);
    tree_show(".");
    say("a link stays a link");
    folder_put("keep");
    file_put("keep/file", "x", 0644);
    folder_put("gone");
    link_put("gone/to-keep", "../keep");
    fault_tell_unlinks(true);
    (void)remove_at("/v1/files/gone", "recursive=T");
    fault_tell_unlinks(false);
    tree_show(".");
    say("names of any length, one after the other");
    folder_put("n");
    for (int i = 0; i < 4; i++) {
        static const char *const names[] = {"n/ccc", "n/a", "n/ddd", "n/b"};
        char file[16];

        folder_put(names[i]);
        (void)snprintf(file, sizeof file, "%s/f", names[i]);
        file_put(file, "x", 0644);
    }
    (void)remove_at("/v1/files/n", "recursive=true");
    tree_show(".");
    golden("trees");
}

static void
a_tree_has_at_most_128_levels(void **state)
{
    char path[1024];

    (void)state;
    /* The innermost one is empty, and goes without being entered. */
    nest(129, path);
    (void)remove_at("/v1/files/d", "recursive=true");
    tree_show(".");
    nest(129, path);
    strcat(path, "/leaf");
    file_put(path, "x", 0644);
    (void)remove_at("/v1/files/d", "recursive=true");
    assert_int_equal(faccessat(workspace_runtime.workspace.fd, path, F_OK, 0),
                     0);
    golden("deep");
}

static void
a_turn_is_256_entries_long(void **state)
{
    /* With "." and "..", and the end. */
    const int full = 2 * 256 - 3;

    (void)state;
    for (int more = 0; more < 2; more++) {
        folder_put("many");
        for (int i = 0; i < full + more; i++) {
            char name[32];

            (void)snprintf(name, sizeof name, "many/%d", i);
            file_put(name, "", 0644);
        }
        assert_int_equal(remove_at("/v1/files/many", "recursive=true"),
                         2 + more);
        tree_show(".");
    }
    journal_is("DELETE reply 204 -: \nlog: INFO files removed|\n"
               "DELETE reply 204 -: \nlog: INFO files removed|\n");
}

static void
who_leaves_stops_it(void **state)
{
    struct wp_http_req req = {.name = "DELETE",
                              .app = &workspace_runtime,
                              .ops = &wp_sandboxd_delete_ops,
                              .path = "/v1/files/d",
                              .query = "recursive=true"};
    char path[64];

    (void)state;
    nest(2, path);
    req.ops->ready(&req);
    assert_non_null(req.user);
    fake_http_gone(&req);
    assert_int_equal(loop_settle(), 1);
    tree_show(".");
    journal_is("  ./d 40755\n  ./d/d 40755\n");
}

/* The same with each call failing in turn. */
static void
with_faults(const char *function, int os_errno, const char *path,
            const char *query)
{
    for (unsigned nth = 1;; nth++) {
        char nested[64];

        if (faccessat(workspace_runtime.workspace.fd, "d", F_OK, 0) != 0) {
            nest(3, nested);
            file_put("d/d/d/leaf", "x", 0644);
        }
        journal("-- %s %u: %s", function, nth, strerror(os_errno));
        journal_line();
        fault_set(function, nth, os_errno);
        (void)remove_at(path, query);
        if (!fault_clear()) {
            break;
        }
        tree_show(".");
        (void)remove_at("/v1/files/d", "recursive=true");
        journal_line();
    }
}

static void
a_failure_is_told_and_leaves_the_rest(void **state)
{
    static const char d[] = "/v1/files/d";
    static const char all[] = "recursive=true";

    (void)state;
    with_faults("calloc", ENOMEM, d, all);
    with_faults("event_new", ENOMEM, d, all);
    with_faults("openat", EMFILE, d, all);
    with_faults("fdopendir", ENOMEM, d, all);
    with_faults("wp_workspace_open", EACCES, d, all);
    with_faults("wp_workspace_open", EACCES, "/v1/files/", all);
    with_faults("wp_workspace_open", EACCES, "/v1/files/", NULL);
    with_faults("unlinkat", EBUSY, d, all);
    with_faults("unlinkat", ENOENT, d, all);
    with_faults("unlinkat", EPERM, d, all);
    with_faults("unlinkat", EISDIR, d, all);
    with_faults("unlinkat", EEXIST, d, all);
    with_faults("unlinkat", ENOTEMPTY, d, all);
    with_faults("unlinkat", ENOTDIR, d, all);
    with_faults("unlinkat", EEXIST, d, NULL);
    with_faults("unlinkat", ENOTDIR, d, NULL);
    with_faults("unlinkat", EPERM, "/v1/files/d/d/d/leaf", NULL);
    golden("failures");
}

int
main(void)
{
#define ONE(test)                                                              \
    cmocka_unit_test_setup_teardown(test, workspace_begin, workspace_end)
    const struct CMUnitTest tests[] = {
        ONE(what_is_named_goes_and_nothing_else),
        ONE(names_may_be_as_long_as_a_file_system_has_them),
        ONE(a_tree_is_taken_down_from_its_leaves),
        ONE(a_tree_has_at_most_128_levels),
        ONE(a_turn_is_256_entries_long),
        ONE(who_leaves_stops_it),
        ONE(a_failure_is_told_and_leaves_the_rest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
