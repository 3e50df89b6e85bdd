/* The tools that an agent sees: how they are told of, what each call answers,
 * what it asks of a command and what lies there after are compared whole with
 * golden/tools_*.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/mcp/mcp_tools.h"
#include "runtime/runtime.h"
#include "tests/support/base/heard.h"
#include "tests/support/runtime/fake_http.h"
#include "tests/support/runtime/fake_process.h"
#include "tests/support/runtime/workspace_rig.h"

static int answers;

char *__wrap_strdup(const char *text);
char *__real_strdup(const char *text);

static unsigned strdup_fails_in; /* 0: it does not. */

char *
__wrap_strdup(const char *text)
{
    if (strdup_fails_in > 0 && --strdup_fails_in == 0) {
        return NULL;
    }
    return __real_strdup(text);
}

static void
golden(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/tools_%s.txt", name);
    journal_compare(path);
}

static void
say(const char *what)
{
    journal("-- %s", what);
    journal_line();
}

static void
on_done(void *user, json_t *payload, int code, const char *message)
{
    char *text = payload != NULL ? json_dumps(payload, JSON_COMPACT) : NULL;

    assert_ptr_equal(user, &answers);
    answers++;
    journal("= %d %s: ", code, message != NULL ? message : "-");
    journal_bytes(text != NULL ? text : "nothing",
                  strlen(text != NULL ? text : "nothing"));
    journal_line();
    free(text);
    json_decref(payload);
}

/* args are JSON; NULL: none. */
static void
call(const char *name, const char *args)
{
    json_t *given =
        args != NULL ? json_loads(args, JSON_ALLOW_NUL, NULL) : NULL;

    assert_true(args == NULL || given != NULL);
    journal("%s %s", name, args != NULL && strlen(args) < 200 ? args : "-");
    journal_line();
    wp_mcp_tools_call(&workspace_runtime, name, given, on_done, &answers);
    json_decref(given);
}

static int
begin(void **state)
{
    (void)workspace_begin(state);
    memset(&fake_processes, 0, sizeof fake_processes);
    workspace_runtime.processes =
        (struct wp_process_table *)(void *)&fake_processes;
    workspace_runtime.options.read_max = 10;
    workspace_runtime.options.output_max = 4711;
    workspace_runtime.options.background_ms = 250;
    workspace_runtime.options.skills_dir = "skills";
    answers = 0;
    /* What they name is not confined: "." is the workspace. */
    assert_int_equal(fchdir(workspace_runtime.workspace.fd), 0);
    return 0;
}

static int
end(void **state)
{
    assert_int_equal(chdir("/"), 0);
    return workspace_end(state);
}

/* ----------------------------------------------------------------- tests */

static void
they_are_told_of(void **state)
{
    static const char *const skills[] = {"", "- one: the first\n- two: \xff"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        json_t *list = wp_mcp_tools_describe(skills[i]);
        char *text = json_dumps(list, JSON_INDENT(1));

        assert_non_null(text);
        for (const char *at = text; *at != '\0';) {
            size_t len = strcspn(at, "\n");

            journal_bytes(at, len);
            journal_line();
            at += len + (at[len] == '\n' ? 1 : 0);
        }
        journal_line();
        free(text);
        json_decref(list);
    }
    golden("list");
}

static void
arguments_are_held_against_the_list(void **state)
{
    char name[200];

    (void)state;
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    call("no_such", NULL);
    call(name, "{}");
    call("read_file", NULL);
    call("read_file", "{}");
    call("read_file", "{\"path\":1}");
    call("read_file", "{\"path\":\"a\\u0000b\"}");
    call("read_file", "{\"path\":\"a\",\"paths\":\"a\"}");
    call("write_file", "{\"path\":\"a\"}");
    call("write_file", "{\"content\":\"a\"}");
    call("exec", "{\"command\":\"a\",\"timeout_ms\":1.5}");
    call("exec", "{\"command\":\"a\",\"timeout_ms\":\"1\"}");
    call("list_dir", "{\"path\":null}");
    call("get_skill", "{}");
    golden("arguments");
}

static void
files_are_read(void **state)
{
    (void)state;
    folder_put("dir");
    file_put("ten", "0123456789", 0644);
    file_put("eleven", "0123456789a", 0644);
    file_put("empty", "", 0644);
    file_put("odd", "a\xff\xc3\xa9", 0644);
    call("read_file", "{\"path\":\"ten\"}");
    call("read_file", "{\"path\":\"eleven\"}");
    call("read_file", "{\"path\":\"empty\"}");
    call("read_file", "{\"path\":\"odd\"}");
    call("read_file", "{\"path\":\"\"}");
    call("read_file", "{\"path\":\"nothing\"}");
    call("read_file", "{\"path\":\"dir\"}");
    golden("read");
}

static void
files_are_written(void **state)
{
    static const char *const functions[] = {"open", "write", "mkdir"};
    static char path[PATH_MAX + 8];
    char args[PATH_MAX + 64];

    (void)state;
    folder_put("dir");
    call("write_file", "{\"path\":\"a\",\"content\":\"one\\u0000two\"}");
    call("write_file", "{\"path\":\"dir/b\",\"content\":\"\"}");
    call("write_file", "{\"path\":\"new/er/c\",\"content\":\"x\"}");
    call("write_file", "{\"path\":\"a\",\"content\":\"less\"}");
    call("write_file", "{\"path\":\"\",\"content\":\"x\"}");
    call("write_file", "{\"path\":\"dir\",\"content\":\"x\"}");
    call("write_file", "{\"path\":\"a/b/c\",\"content\":\"x\"}");
    call("write_file", "{\"path\":\"/dev\",\"content\":\"x\"}");
    tree_show(".");
    say("folders with the longest path, and one more");
    for (size_t more = 0; more < 2; more++) {
        memset(path, 'x', sizeof path);
        for (size_t i = 1; i < PATH_MAX; i += 200) {
            path[i] = '/';
        }
        path[PATH_MAX - 1] = 'x';
        path[PATH_MAX - 1 + more] = '/';
        path[PATH_MAX + more] = 'y';
        path[PATH_MAX + 1 + more] = '\0';
        (void)snprintf(args, sizeof args, "{\"path\":\"%s\",\"content\":\"\"}",
                       path);
        answers = 0;
        call("write_file", args);
        assert_int_equal(answers, 1);
    }
    say("calls that fail");
    for (size_t i = 0; i < sizeof functions / sizeof(functions[0]); i++) {
        fault_set(functions[i], 1, ENOSPC);
        call("write_file", "{\"path\":\"q/r\",\"content\":\"x\"}");
        assert_true(fault_clear());
        (void)unlink("q/r");
        (void)rmdir("q");
    }
    golden("written");
}

static void
folders_are_listed(void **state)
{
    (void)state;
    folder_put("dir");
    file_put("dir/b", "12345", 0644);
    file_put("dir/a", "", 0600);
    folder_put("dir/sub");
    link_put("dir/to-b", "b");
    file_put("dir/\xff", "x", 0644);
    call("list_dir", "{\"path\":\"dir\"}");
    call("list_dir", NULL);
    call("list_dir", "{\"path\":\"\"}");
    call("list_dir", "{\"path\":\"dir/sub\"}");
    call("list_dir", "{\"path\":\"dir/a\"}");
    call("list_dir", "{\"path\":\"nothing\"}");
    say("one entry has gone");
    fault_set("fstatat", 1, ENOENT);
    call("list_dir", "{\"path\":\"dir\"}");
    assert_true(fault_clear());
    say("as many as are told, and one more");
    file_put("x", "", 0644);
    scan_fake(10000);
    call("list_dir", NULL);
    scan_fake(10001);
    call("list_dir", NULL);
    say("it cannot be read");
    fault_set("scandirat", 1, EIO);
    call("list_dir", "{\"path\":\"dir\"}");
    assert_true(fault_clear());
    golden("folders");
}

static void
skills_are_read(void **state)
{
    (void)state;
    folder_put("skills");
    folder_put("skills/one");
    file_put("skills/one/SKILL.md", "text", 0644);
    call("get_skill", "{\"name\":\"one\"}");
    call("get_skill", "{\"name\":\"two\"}");
    call("get_skill", "{\"name\":\"../one\"}");
    call("get_skill", "{\"name\":\"\"}");
    golden("skills");
}

static void
ends_so(const struct wp_process_result *result)
{
    struct heard heard;
    const char *log;

    heard_begin(&heard);
    fake_process_ends(*result, "out", "err");
    log = heard_end(&heard);
    journal("log: %s", log);
    journal_line();
}

static void
commands_are_run(void **state)
{
    static const struct wp_process_result ends[] = {
        {.exit_code = 0},
        {.exit_code = 3, .duration_ns = 1234567890},
        {.exit_code = -1, .signal = 9},
        {.exit_code = -1, .signal = 15, .timed_out = true},
        {.exit_code = 0, .dropped = {12, 34}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ends / sizeof(ends[0]); i++) {
        call("exec", "{\"command\":\"ls 'a b'\"}");
        ends_so(&ends[i]);
    }
    say("arguments");
    call("exec", "{\"command\":\"\"}");
    call("exec", "{\"command\":\"x\",\"timeout_ms\":1}");
    ends_so(&ends[0]);
    call("exec", "{\"command\":\"x\",\"timeout_ms\":0}");
    ends_so(&ends[0]);
    call("exec", "{\"command\":\"x\",\"timeout_ms\":-5}");
    ends_so(&ends[0]);
    call("exec", "{\"command\":\"x\",\"timeout_ms\":2.0,"
                 "\"working_dir\":\"/tmp\"}");
    ends_so(&ends[0]);
    fake_processes.bound = true;
    call("exec", "{\"command\":\"x\"}");
    ends_so(&ends[0]);
    call("exec", "{\"command\":\"x\",\"working_dir\":\"dir\"}");
    ends_so(&ends[0]);
    golden("commands");
}

static void
commands_wait_for_room(void **state)
{
    static const struct wp_process_result good = {.exit_code = 0};
    struct wp_process_wait *wait;

    (void)state;
    fake_processes.full = true;
    call("exec", "{\"command\":\"x\"}");
    wait = fake_processes.waiting;
    say("room");
    wait->room(wait->user);
    ends_so(&good);
    call("exec", "{\"command\":\"x\"}");
    wait = fake_processes.waiting;
    say("room, and then it cannot start");
    fake_processes.refuses = WP_NOT_FOUND;
    wait->room(wait->user);
    say("the line is full");
    fake_processes.line_full = true;
    call("exec", "{\"command\":\"x\"}");
    say("at once");
    fake_processes.full = false;
    call("exec", "{\"command\":\"x\"}");
    say("no memory");
    fault_set("calloc", 1, ENOMEM);
    call("exec", "{\"command\":\"x\"}");
    assert_true(fault_clear());
    for (unsigned nth = 1; nth <= 2; nth++) {
        strdup_fails_in = nth;
        call("exec", "{\"command\":\"x\"}");
    }
    strdup_fails_in = 0;
    golden("room");
}

int
main(void)
{
#define ONE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        ONE(they_are_told_of),   ONE(arguments_are_held_against_the_list),
        ONE(files_are_read),     ONE(files_are_written),
        ONE(folders_are_listed), ONE(skills_are_read),
        ONE(commands_are_run),   ONE(commands_wait_for_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
