/* GET and PUT of files as clients of sandboxd call them: every answer is
 * compared whole with golden/files_*.txt, and so is what lies there after. */
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

#define REQUEST(ops_, name_, path_, query_, ...)                               \
    (struct wp_http_req)                                                       \
    {                                                                          \
        .name = (name_), .app = &workspace_runtime, .ops = (ops_),             \
        .path = (path_), .query = (query_), .headers = {__VA_ARGS__},          \
    }

static void
golden(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/files_%s.txt", name);
    journal_compare(path);
}

static void
say(const char *what)
{
    journal("-- %s", what);
    journal_line();
}

static void
get_with(const char *name, const char *path, const char *range)
{
    struct wp_http_req req = REQUEST(&wp_sandboxd_get_ops, name, path, NULL,
                                     range != NULL ? "Range" : NULL, range);

    req.ops->ready(&req);
    fake_http_gone(&req);
}

static void
get(const char *path)
{
    get_with("GET", path, NULL);
}

/* Whether there is a file at the top that is being written. */
static bool
has_remains(void)
{
    struct dirent **names = NULL;
    int count = wp_workspace_scan(workspace_runtime.workspace.fd, &names);
    bool any = false;

    assert_true(count >= 0);
    for (int i = 0; i < count; i++) {
        any = any || strncmp(names[i]->d_name, ".warmpool", 9) == 0;
        free(names[i]);
    }
    free(names);
    return any;
}

/* A body in pieces of that many bytes. With the answer to a failure nothing of
 * it is left. */
static void
put_pieces(struct wp_http_req req, const char *body, size_t piece)
{
    size_t len = strlen(body);

    req.ops->begin(&req);
    for (size_t at = 0; at < len && !req.replied; at += piece) {
        req.ops->body(&req, body + at, len - at < piece ? len - at : piece);
        if (req.replied) {
            journal("(at byte %zu)", at);
            journal_line();
        }
    }
    if (!req.replied) {
        req.ops->ready(&req);
    }
    assert_false(has_remains());
    fake_http_gone(&req);
}

static void
put(const char *path, const char *query, const char *body)
{
    put_pieces(REQUEST(&wp_sandboxd_put_ops, "PUT", path, query, NULL), body,
               3);
}

static int
begin(void **state)
{
    (void)workspace_begin(state);
    workspace_runtime.options.upload_max = 10;
    return 0;
}

/* ----------------------------------------------------------------- tests */

static void
each_errno_has_its_answer(void **state)
{
    static const int kinds[] = {EXDEV,  ELOOP,        EACCES,    EPERM,
                                EROFS,  ENOENT,       ENOTDIR,   EISDIR,
                                EINVAL, ENAMETOOLONG, ENOTEMPTY, ENOSPC,
                                EDQUOT, EIO,          EMFILE};

    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof(kinds[0]); i++) {
        journal("%d ", (int)i);
        fault_set("wp_workspace_open", 1, kinds[i]);
        get("/v1/files/a");
        assert_true(fault_clear());
    }
    golden("errnos");
}

static void
paths_lie_in_the_workspace(void **state)
{
    static char long_path[5000];
    const size_t prefix = strlen("/v1/files/");

    (void)state;
    folder_put("dir");
    file_put("dir/a b", "text", 0644);
    file_put("top", "top", 0600);
    say("as they are");
    get("/v1/files/top");
    get("/v1/files/dir/a%20b");
    get("/v1/files/dir/../top");
    say("absolute ones are taken from there");
    get("/v1/files//top");
    get("/v1/files/%2Ftop");
    get("/v1/files///top");
    get("/v1/files/%2F%2Fdir%2Fa%20b");
    say("what leads out");
    get("/v1/files/../top");
    get("/v1/files/%2e%2e/x");
    say("what is no path");
    get("/v1/files/a%00b");
    get("/v1/files/a%zz");
    get("/v1/files/nothing");
    get("/v1/files/top/below");
    say("long ones");
    memset(long_path, 'x', sizeof long_path - 1);
    memcpy(long_path, "/v1/files/", prefix);
    for (size_t i = prefix + 1; i < sizeof long_path - 1; i += 2) {
        long_path[i] = '/';
    }
    long_path[prefix + WP_WORKSPACE_PATH_MAX] = '\0';
    get(long_path);
    long_path[prefix + WP_WORKSPACE_PATH_MAX - 1] = '\0';
    get(long_path);
    long_path[prefix + WP_WORKSPACE_PATH_MAX - 3] = '\0';
    get(long_path);
    long_path[prefix + WP_WORKSPACE_PATH_MAX - 4] = '\0';
    get(long_path);
    golden("paths");
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
    file_put("dir/timeless", "x", 04644);
    file_put("dir/\xff\xc3\xa9", "x", 0644);
    time_put("dir");
    say("the folder");
    get("/v1/files/dir");
    say("the workspace itself");
    get("/v1/files");
    get("/v1/files/");
    get("/v1/files/.");
    say("an empty one");
    get("/v1/files/dir/sub/");
    say("one entry has gone");
    fault_set("fstatat", 1, ENOENT);
    get("/v1/files/dir");
    assert_true(fault_clear());
    say("one link cannot be looked at");
    fault_set("fstat", 2, EIO);
    get("/v1/files/dir");
    assert_true(fault_clear());
    say("as many entries as are told, and one more");
    file_put("x", "", 0644);
    scan_fake(65536);
    get("/v1/files/");
    scan_fake(65537);
    get("/v1/files/");
    say("it cannot be read");
    fault_set("scandirat", 1, EIO);
    get("/v1/files/dir");
    assert_true(fault_clear());
    golden("folders");
}

static void
a_link_is_shown_as_far_as_its_path_goes(void **state)
{
    char path[WP_WORKSPACE_PATH_MAX + 16] = "";
    char shown[WP_WORKSPACE_PATH_MAX + 64];
    const size_t name_len = 200;
    int dir = dup(workspace_runtime.workspace.fd);
    size_t len = 0;

    (void)state;
    assert_true(dir >= 0);
    /* Folders within each other, until a link's path is just too long. */
    while (len < WP_WORKSPACE_PATH_MAX - 3) {
        size_t n = WP_WORKSPACE_PATH_MAX - 3 - len;
        int below;

        n = n > name_len ? name_len - (n - name_len < 2 ? 3 : 0) : n;
        memset(path + len, 'd', n);
        path[len + n] = '\0';
        assert_int_equal(mkdirat(dir, path + len, 0755), 0);
        below = openat(dir, path + len, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(below >= 0);
        assert_int_equal(close(dir), 0);
        dir = below;
        len += n;
        if (len < WP_WORKSPACE_PATH_MAX - 3) {
            path[len++] = '/';
        }
    }
    assert_int_equal(strlen(path), WP_WORKSPACE_PATH_MAX - 3);
    assert_int_equal(symlinkat("..", dir, "l"), 0);
    assert_int_equal(symlinkat("..", dir, "ll"), 0);
    assert_int_equal(close(dir), 0);
    (void)snprintf(shown, sizeof shown, "/v1/files/%s", path);
    journal_drop();
    get(shown);
    golden("long_links");
}

static void
a_file_is_sent_whole_or_in_part(void **state)
{
    static const char *const ranges[] = {
        "bytes=0-0",   "bytes=3-5",     "bytes=8-",  "bytes=-2",    "bytes=9-9",
        "bytes=9-100", "bytes=10-",     "bytes=-0",  "bytes=5-3",   "bytes=0-9",
        "lines=1-2",   "bytes=0-0,2-3", "bytes=-50", "bytes=11-12", "bytes=x-3",
    };
    int fd;

    (void)state;
    file_put("ten", "0123456789", 0644);
    file_put("empty", "", 0644);
    get("/v1/files/ten");
    get("/v1/files/empty");
    for (size_t i = 0; i < sizeof ranges / sizeof(ranges[0]); i++) {
        get_with(ranges[i], "/v1/files/ten", ranges[i]);
    }
    get_with("empty", "/v1/files/empty", "bytes=0-");
    say("it cannot be looked at");
    fault_set("fstat", 1, ENOENT);
    get("/v1/files/ten");
    assert_true(fault_clear());
    say("neither a file nor a folder");
    assert_int_equal(mkfifoat(workspace_runtime.workspace.fd, "fifo", 0644), 0);
    /* Opened for both, so that nobody waits for a writer. */
    fd = openat(workspace_runtime.workspace.fd, "fifo",
                O_RDWR | O_NONBLOCK | O_CLOEXEC);
    assert_true(fd >= 0);
    get("/v1/files/fifo");
    assert_int_equal(close(fd), 0);
    golden("contents");
    assert_int_equal(wp_sandboxd_get_ops.body_max, 4096);
}

static void
a_file_is_written_whole(void **state)
{
    struct heard heard;
    const char *log;

    (void)state;
    folder_put("dir");
    file_put("old", "old text", 0640);
    heard_begin(&heard);
    put("/v1/files/new", NULL, "1234567");
    put("/v1/files/old", NULL, "new");
    put("/v1/files/a/b/c", NULL, "");
    put("/v1/files/full", NULL, "0123456789");
    say("modes");
    put("/v1/files/modes/run", "mode=0755", "#!");
    put("/v1/files/modes/private", "x=y&mode=0600", "secret");
    put("/v1/files/modes/none", "mode=", "x");
    put("/v1/files/modes/short", "mode=755", "x");
    put("/v1/files/modes/long", "mode=01755", "x");
    put("/v1/files/modes/octal", "mode=0758", "x");
    say("too long");
    put("/v1/files/longer", NULL, "0123456789a");
    put("/v1/files/old", NULL, "0123456789a");
    say("nothing can be there");
    put("/v1/files/dir", NULL, "x");
    put("/v1/files/", NULL, "x");
    put("/v1/files/../out", NULL, "x");
    put("/v1/files/old/below", NULL, "x");
    log = heard_end(&heard);
    say("the log");
    journal("%s", log);
    journal_line();
    say("what is there");
    tree_show(".");
    golden("written");
    assert_true(wp_sandboxd_put_ops.body_max == UINT64_C(1) << 40);
}

static void
a_failure_leaves_the_old_file(void **state)
{
    static const struct {
        const char *function;
        int os_errno;
    } faults[] = {{"calloc", ENOMEM}, {"openat", EMFILE}, {"fchmod", EPERM},
                  {"write", ENOSPC},  {"write", EINTR},   {"renameat", EROFS},
                  {"fstatat", ENOENT}};

    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof(faults[0]); i++) {
        /* Each call in turn, until none is left. */
        for (unsigned nth = 1;; nth++) {
            struct heard heard;
            bool fired;

            file_put("old", "old text", 0640);
            journal("-- %s %u", faults[i].function, nth);
            journal_line();
            fault_set(faults[i].function, nth, faults[i].os_errno);
            heard_begin(&heard);
            put("/v1/files/old", "mode=0604", "1234567");
            (void)heard_end(&heard);
            fired = fault_clear();
            tree_show(".");
            if (!fired) {
                break;
            }
        }
    }
    say("the client leaves");
    {
        struct wp_http_req req =
            REQUEST(&wp_sandboxd_put_ops, "PUT", "/v1/files/x", NULL, NULL);

        req.ops->begin(&req);
        req.ops->body(&req, "12", 2);
        fake_http_gone(&req);
        tree_show(".");
    }
    golden("failures");
}

#define PART(name, text)                                                       \
    "--B\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n" text    \
    "\r\n"

static void
put_form(const char *name, const char *type, const char *body)
{
    struct heard heard;

    file_put("form", "old", 0600);
    heard_begin(&heard);
    put_pieces(REQUEST(&wp_sandboxd_put_ops, name, "/v1/files/form", NULL,
                       "Content-Type", type),
               body, 7);
    (void)heard_end(&heard);
    tree_show(".");
}

static void
a_form_brings_one_file(void **state)
{
    static const char form[] = "multipart/form-data; boundary=B";
    static const struct {
        const char *name;
        const char *type;
        const char *body;
    } cases[] = {
        {"one", form, PART("file", "one") "--B--\r\n"},
        {"any case", "Multipart/Form-Data; boundary=B",
         PART("file", "case") "--B--\r\n"},
        {"others beside it", form,
         PART("a", "before") PART("file", "mine")
             PART("b", "after") "--B--\r\n"},
        {"the first counts", form,
         PART("file", "first") PART("file", "second") "--B--\r\n"},
        {"empty", form, PART("file", "") "--B--\r\n"},
        {"none of that name", form, PART("files", "x") "--B--\r\n"},
        {"no end", form, PART("file", "x")},
        {"no part", form, "--B--\r\n"},
        {"malformed", form, PART("file", "x") "--Bad"},
        {"too long", form, PART("file", "0123456789a") "--B--\r\n"},
        {"others may be long", form,
         PART("other", "0123456789abcdef") PART("file", "x") "--B--\r\n"},
        {"no boundary", "multipart/form-data", "x"},
        {"another type", "multipart/form-dat", "raw"},
        {"octets", "application/octet-stream", "raw"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof(cases[0]); i++) {
        put_form(cases[i].name, cases[i].type, cases[i].body);
    }
    say("bad in two ways is answered once");
    put_pieces(REQUEST(&wp_sandboxd_put_ops, "PUT", "/v1/files/form", "mode=9",
                       "Content-Type", "multipart/form-data"),
               "x", 1);
    golden("forms");
}

int
main(void)
{
#define ONE(test) cmocka_unit_test_setup_teardown(test, begin, workspace_end)
    const struct CMUnitTest tests[] = {
        ONE(each_errno_has_its_answer),
        ONE(paths_lie_in_the_workspace),
        ONE(a_folder_is_listed),
        ONE(a_link_is_shown_as_far_as_its_path_goes),
        ONE(a_file_is_sent_whole_or_in_part),
        ONE(a_file_is_written_whole),
        ONE(a_failure_leaves_the_old_file),
        ONE(a_form_brings_one_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
