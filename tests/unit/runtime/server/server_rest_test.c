/* The REST API of sandbox clients: commands, files and uploads, each answer and
 * what lies there after are compared whole with golden/rest_*.txt. */
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

#include "runtime/runtime.h"
#include "tests/support/base/heard.h"
#include "tests/support/runtime/fake_http.h"
#include "tests/support/runtime/fake_process.h"
#include "tests/support/runtime/workspace_rig.h"

static struct wp_http_req req;

static void
golden(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/rest_%s.txt", name);
    journal_compare(path);
}

static void
say(const char *what)
{
    journal("-- %s", what);
    journal_line();
}

static int
begin(void **state)
{
    (void)workspace_begin(state);
    memset(&fake_processes, 0, sizeof fake_processes);
    workspace_runtime.processes =
        (struct wp_process_table *)(void *)&fake_processes;
    workspace_runtime.options.rest_timeout_ms = 60000;
    workspace_runtime.options.output_max = 4711;
    workspace_runtime.options.upload_max = 10;
    return 0;
}

/* With its log, if there is any. */
static void
with_log(void (*act)(const void *arg), const void *arg)
{
    struct heard heard;
    const char *log;

    heard_begin(&heard);
    act(arg);
    log = heard_end(&heard);
    if (*log != '\0') {
        journal("log: %s", log);
        journal_line();
    }
}

static void
ask(const struct wp_http_ops *ops, const char *path, const char *body)
{
    req = (struct wp_http_req){.name = "rest",
                               .app = &workspace_runtime,
                               .ops = ops,
                               .path = path,
                               .body = body};
    req.ops->ready(&req);
}

static void
get(const struct wp_http_ops *ops, const char *path)
{
    ask(ops, path, NULL);
    fake_http_gone(&req);
}

static void
execute(const char *body)
{
    ask(&wp_rest_execute_ops, "/execute", body);
}

static void
execute_once(const char *body)
{
    execute(body);
    fake_http_gone(&req);
}

/* -------------------------------------------------------------- commands */

static void
it_is_there(void **state)
{
    (void)state;
    get(&wp_rest_status_ops, "/");
    get(&wp_rest_health_ops, "/healthz");
    journal("bodies %llu %llu %llu %llu %llu %llu",
            (unsigned long long)wp_rest_status_ops.body_max,
            (unsigned long long)wp_rest_health_ops.body_max,
            (unsigned long long)wp_rest_execute_ops.body_max,
            (unsigned long long)wp_rest_download_ops.body_max,
            (unsigned long long)wp_rest_list_ops.body_max,
            (unsigned long long)wp_rest_exists_ops.body_max);
    journal_line();
    golden("status");
    assert_true(wp_rest_upload_ops.body_max == UINT64_C(1) << 40);
}

static void
a_command_is_asked_for_in_json(void **state)
{
    static const char *const bodies[] = {
        "{\"command\":\"echo 'a b' c\"}",
        "{\"command\":\"ls\",\"timeout_seconds\":null}",
        "{\"command\":\"ls\",\"timeout_seconds\":1}",
        "{\"command\":\"ls\",\"timeout_seconds\":1.5}",
        "{\"command\":\"ls\",\"timeout_seconds\":86400}",
        "{\"command\":\"ls\",\"timeout_seconds\":86400.001}",
        "{\"command\":\"ls\",\"timeout_seconds\":0.001}",
        "{\"command\":\"ls\",\"timeout_seconds\":0.0009}",
        "{\"command\":\"ls\",\"timeout_seconds\":0}",
        "{\"command\":\"ls\",\"timeout_seconds\":-1}",
        "{\"command\":\"ls\",\"timeout_seconds\":\"1\"}",
        "",
        "x",
        "{}",
        "{\"command\":1}",
        "{\"command\":\"\"}",
        "{\"command\":\"  \"}",
        "{\"command\":\"echo 'a\"}",
        "{\"command\":\"a\\u0000b\"}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof(bodies[0]); i++) {
        say(bodies[i]);
        execute_once(bodies[i]);
    }
    say("a folder was brought");
    fake_processes.bound = true;
    execute_once("{\"command\":\"ls\"}");
    golden("requests");
}

static void
ends_so(const void *arg)
{
    fake_process_ends(*(const struct wp_process_result *)arg, "out", "err");
}

static void
its_end_is_the_answer(void **state)
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
        execute("{\"command\":\"ls\",\"timeout_seconds\":2.5}");
        with_log(ends_so, &ends[i]);
        assert_null(req.user);
        fake_http_gone(&req);
    }
    golden("ends");
}

static void
it_waits_for_room(void **state)
{
    struct wp_process_wait *wait;

    (void)state;
    fake_processes.full = true;
    execute("{\"command\":\"ls\"}");
    say("room");
    wait = fake_processes.waiting;
    assert_non_null(wait);
    wait->room(wait->user);
    assert_false(req.replied);
    say("the client leaves");
    fake_http_gone(&req);
    execute("{\"command\":\"ls\"}");
    say("the client leaves while it waits");
    fake_http_gone(&req);
    say("no room in the line");
    fake_processes.line_full = true;
    execute_once("{\"command\":\"ls\"}");
    say("room, and then it cannot start");
    fake_processes.line_full = false;
    fake_processes.refuses = WP_NOT_FOUND;
    execute("{\"command\":\"ls\"}");
    wait = fake_processes.waiting;
    wait->room(wait->user);
    assert_null(req.user);
    fake_http_gone(&req);
    say("at once");
    fake_processes.full = false;
    execute_once("{\"command\":\"ls\"}");
    fake_processes.refuses = WP_RESOURCE_EXHAUSTED;
    execute_once("{\"command\":\"ls\"}");
    say("no memory");
    fault_set("calloc", 1, ENOMEM);
    execute_once("{\"command\":\"ls\"}");
    assert_true(fault_clear());
    golden("room");
}

/* ----------------------------------------------------------------- files */

static void
each_errno_has_its_answer(void **state)
{
    static const int kinds[] = {EXDEV,        ELOOP,  EACCES,  EPERM,
                                EROFS,        ENOENT, ENOTDIR, EINVAL,
                                ENAMETOOLONG, EISDIR, EIO,     EMFILE};

    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof(kinds[0]); i++) {
        static const struct wp_http_ops *const ops[] = {
            &wp_rest_download_ops, &wp_rest_list_ops, &wp_rest_exists_ops};

        for (size_t k = 0; k < 3; k++) {
            fault_set("wp_workspace_open", 1, kinds[i]);
            get(ops[k], "/any/a");
            assert_true(fault_clear());
        }
    }
    golden("errnos");
}

static void
files_are_had_and_looked_for(void **state)
{
    static const char *const paths[] = {
        "/any/ten",      "/any/dir",    "/any/dir/a%20b",  "/any/nothing",
        "/any//ten",     "/any/../ten", "/any/a%zz",       "/any/a%00b",
        "/any/ten/more", "/any/to-ten", "/any/to-dir",     "/any/to-outside",
        "/any",          "/any/",       "/any/dir/../ten",
    };

    (void)state;
    folder_put("dir");
    file_put("ten", "0123456789", 0644);
    file_put("dir/a b", "text", 0600);
    link_put("to-ten", "ten");
    link_put("to-dir", "dir");
    link_put("to-outside", "/etc");
    for (size_t i = 0; i < sizeof paths / sizeof(paths[0]); i++) {
        say(paths[i]);
        get(&wp_rest_download_ops, paths[i]);
        get(&wp_rest_exists_ops, paths[i]);
    }
    say("it cannot be looked at");
    fault_set("fstat", 1, EIO);
    get(&wp_rest_download_ops, "/any/ten");
    assert_true(fault_clear());
    golden("files");
}

static void
a_folder_is_listed(void **state)
{
    (void)state;
    folder_put("dir");
    file_put("dir/b", "12345", 0751);
    file_put("dir/a", "", 0600);
    folder_put("dir/sub");
    link_put("dir/to-b", "b");
    link_put("dir/to-sub", "sub");
    link_put("dir/to-nothing", "nothing");
    link_put("dir/to-outside", "/etc");
    file_put("dir/\xff", "x", 0644);
    time_put("dir");
    get(&wp_rest_list_ops, "/list/dir");
    get(&wp_rest_list_ops, "/list");
    get(&wp_rest_list_ops, "/list/");
    get(&wp_rest_list_ops, "/list/dir/sub");
    get(&wp_rest_list_ops, "/list/dir/a");
    get(&wp_rest_list_ops, "/list/..");
    say("one entry has gone");
    fault_set("fstatat", 1, ENOENT);
    get(&wp_rest_list_ops, "/list/dir");
    assert_true(fault_clear());
    say("as many as are told, and one more");
    file_put("x", "", 0644);
    scan_fake(10000);
    get(&wp_rest_list_ops, "/list/");
    scan_fake(10001);
    get(&wp_rest_list_ops, "/list/");
    say("it cannot be read");
    fault_set("scandirat", 1, EIO);
    get(&wp_rest_list_ops, "/list/dir");
    assert_true(fault_clear());
    golden("folders");
}

/* --------------------------------------------------------------- uploads */

#define PART(disposition, text)                                                \
    "--B\r\nContent-Disposition: form-data; " disposition "\r\n\r\n" text "\r" \
    "\n"
#define FILE_PART(name, text) PART("name=\"file\"; filename=\"" name "\"", text)

struct form {
    const char *type;
    const char *body;
};

static void
send_form(const void *arg)
{
    const struct form *form = arg;
    size_t len = strlen(form->body);

    req = (struct wp_http_req){.name = "upload",
                               .app = &workspace_runtime,
                               .ops = &wp_rest_upload_ops,
                               .path = "/upload",
                               .headers = {"Content-Type", form->type}};
    req.ops->begin(&req);
    for (size_t at = 0; at < len && !req.replied; at += 7) {
        req.ops->body(&req, form->body + at, len - at < 7 ? len - at : 7);
        if (req.replied) {
            journal("(at byte %zu)", at);
            journal_line();
        }
    }
    if (!req.replied) {
        req.ops->ready(&req);
    }
    /* With the answer to a failure nothing of it is left. */
    tree_show(".");
    fake_http_gone(&req);
}

static void
upload(const char *type, const char *body)
{
    const struct form form = {type, body};

    with_log(send_form, &form);
}

static void
a_form_brings_one_file(void **state)
{
    static const char type[] = "multipart/form-data; boundary=B";
    static const char *const bodies[] = {
        FILE_PART("one", "1") "--B--\r\n",
        FILE_PART("sub/two", "22") "--B--\r\n",
        FILE_PART("first", "a") FILE_PART("second", "b") "--B--\r\n",
        PART("name=\"other\"; filename=\"x\"", "0123456789abcdef")
            FILE_PART("beside", "b") "--B--\r\n",
        FILE_PART("ten", "0123456789") "--B--\r\n",
        FILE_PART("eleven", "0123456789a") "--B--\r\n",
        FILE_PART("one", "0123456789a") "--B--\r\n",
        PART("name=\"file\"", "no name") "--B--\r\n",
        FILE_PART("", "empty name") "--B--\r\n",
        PART("name=\"files\"; filename=\"x\"", "x") "--B--\r\n",
        "--B--\r\n",
        FILE_PART("cut", "x"),
        FILE_PART("bad", "x") "--Bad",
        FILE_PART("../out", "x") "--B--\r\n",
        FILE_PART("/etc/out", "x") "--B--\r\n",
        FILE_PART("sub", "x") "--B--\r\n",
        FILE_PART("one/below", "x") "--B--\r\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof(bodies[0]); i++) {
        journal("-- %zu", i);
        journal_line();
        upload(type, bodies[i]);
    }
    say("no form");
    upload("multipart/form-data", bodies[0]);
    upload("text/plain", bodies[0]);
    golden("uploads");
}

static void
a_failure_leaves_no_file(void **state)
{
    static const struct {
        const char *function;
        int os_errno;
    } faults[] = {{"calloc", ENOMEM},
                  {"openat", EMFILE},
                  {"write", ENOSPC},
                  {"renameat", EROFS}};

    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof(faults[0]); i++) {
        for (unsigned nth = 1;; nth++) {
            journal("-- %s %u", faults[i].function, nth);
            journal_line();
            fault_set(faults[i].function, nth, faults[i].os_errno);
            upload("multipart/form-data; boundary=B",
                   FILE_PART("new", "12345678") "--B--\r\n");
            if (!fault_clear()) {
                break;
            }
        }
        assert_int_equal(unlinkat(workspace_runtime.workspace.fd, "new", 0), 0);
    }
    say("the client leaves");
    req = (struct wp_http_req){
        .name = "upload",
        .app = &workspace_runtime,
        .ops = &wp_rest_upload_ops,
        .headers = {"Content-Type", "multipart/form-data; boundary=B"}};
    req.ops->begin(&req);
    req.ops->body(&req, FILE_PART("new", "12345678"),
                  strlen(FILE_PART("new", "12345678")));
    fake_http_gone(&req);
    tree_show(".");
    golden("upload_failures");
}

int
main(void)
{
#define ONE(test) cmocka_unit_test_setup_teardown(test, begin, workspace_end)
    const struct CMUnitTest tests[] = {
        ONE(it_is_there),
        ONE(a_command_is_asked_for_in_json),
        ONE(its_end_is_the_answer),
        ONE(it_waits_for_room),
        ONE(each_errno_has_its_answer),
        ONE(files_are_had_and_looked_for),
        ONE(a_folder_is_listed),
        ONE(a_form_brings_one_file),
        ONE(a_failure_leaves_no_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
