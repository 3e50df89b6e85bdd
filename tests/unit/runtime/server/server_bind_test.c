/* POST /v1/bind and /v1/identity, and what a later process finds: each answer,
 * what is asked of the parcel's taker and of the command, and the folder after
 * are compared whole with golden/bind_*.txt. */
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

#include "proto/parcel/bind.h"
#include "proto/parcel/parcel.h"
#include "runtime/server/bind.h"
#include "runtime/server/bind_body.h"
#include "runtime/server/identity.h"
#include "tests/support/base/heard.h"
#include "tests/support/runtime/fake_http.h"
#include "tests/support/runtime/fake_process.h"
#include "tests/support/runtime/workspace_rig.h"

#define PRINT "0123456789abcdef"

static struct wp_http_req req;
static const char *refusing; /* A step that says no; NULL: none. */
static bool nothing_to_run;
static bool in_bound; /* The command runs in a folder that was brought. */
static bool not_mine; /* The folder is another user's. */

bool __wrap_wp_bind_take(const char *dir, const char *workspace,
                         const uint8_t *parcel, size_t len,
                         struct wp_bind_command *command,
                         char why[WP_BIND_WHY_MAX]);
bool __wrap_wp_bind_is_identified(const char *dir,
                                  const struct wp_bind_command *command,
                                  char why[WP_BIND_WHY_MAX]);
void __wrap_wp_bind_command_fini(struct wp_bind_command *command);
bool __wrap_wp_bind_identity(const char *dir, const char *token, size_t len);
bool __wrap_wp_bind_body_unpack(struct wp_bind_body *body,
                                const struct wp_workspace *workspace,
                                json_t *names, char *why, size_t cap);
uid_t __wrap_geteuid(void);
uid_t __real_geteuid(void);

static bool
refuses(const char *step, char *why)
{
    if (refusing == NULL || strcmp(refusing, step) != 0) {
        return false;
    }
    if (why != NULL) {
        (void)snprintf(why, WP_BIND_WHY_MAX, "%s: no", step);
    }
    errno = EROFS;
    return true;
}

bool
__wrap_wp_bind_take(const char *dir, const char *workspace,
                    const uint8_t *parcel, size_t len,
                    struct wp_bind_command *command, char why[WP_BIND_WHY_MAX])
{
    static char first[] = "run";
    static char second[] = "it";
    static char variable[] = "WPT_BROUGHT=1";
    static char *argv[] = {first, second, NULL};
    static char *env[] = {variable, NULL};

    assert_string_equal(workspace, workspace_runtime.workspace.root);
    journal("take %s: ", dir);
    journal_bytes((const char *)parcel, len);
    journal(" (folder shown: %s)", getenv("WARMPOOL_BOUND_DIR") != NULL
                                       ? getenv("WARMPOOL_BOUND_DIR")
                                       : "no");
    journal_line();
    *command = (struct wp_bind_command){
        .argv = nothing_to_run ? NULL : argv,
        .env = env,
        .dir_fd = in_bound ? FAKE_BOUND_FD : -1,
    };
    return !refuses("take", why);
}

bool
__wrap_wp_bind_is_identified(const char *dir,
                             const struct wp_bind_command *command,
                             char why[WP_BIND_WHY_MAX])
{
    assert_string_equal(dir, "bound");
    assert_non_null(command);
    journal("identified?");
    journal_line();
    return !refuses("identified", why);
}

void
__wrap_wp_bind_command_fini(struct wp_bind_command *command)
{
    assert_non_null(command);
    journal("forget the command");
    journal_line();
}

bool
__wrap_wp_bind_identity(const char *dir, const char *token, size_t len)
{
    journal("identity %s (%zu) %.20s", dir, len, token);
    journal_line();
    return !refuses("identity", NULL);
}

bool
__wrap_wp_bind_body_unpack(struct wp_bind_body *body,
                           const struct wp_workspace *workspace, json_t *names,
                           char *why, size_t cap)
{
    assert_ptr_equal(workspace, &workspace_runtime.workspace);
    assert_int_equal(cap, WP_BIND_WHY_MAX);
    journal("unpack %llu", (unsigned long long)body->trees_len);
    journal_line();
    if (body->trees_len > 0) {
        (void)json_object_set_new(names, "repositories",
                                  json_pack("[s]", "here"));
    }
    return !refuses("unpack", why);
}

uid_t
__wrap_geteuid(void)
{
    return __real_geteuid() + (not_mine ? 1 : 0);
}

/* --------------------------------------------------------------- the rig */

static void
golden(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/bind_%s.txt", name);
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
    workspace_runtime.options.token_digest = "digest";
    workspace_runtime.options.bound_dir = "bound";
    refusing = NULL;
    nothing_to_run = in_bound = not_mine = false;
    assert_int_equal(unsetenv("WARMPOOL_BOUND_DIR"), 0);
    assert_int_equal(fchdir(workspace_runtime.workspace.fd), 0);
    return 0;
}

static int
end(void **state)
{
    assert_int_equal(chdir("/"), 0);
    return workspace_end(state);
}

static void
state_show(void)
{
    static const char *const states[] = {"free", "part", "whole"};

    journal("= %s %s, folder shown: %s", states[workspace_runtime.bound],
            workspace_runtime.fingerprint,
            getenv("WARMPOOL_BOUND_DIR") != NULL ? getenv("WARMPOOL_BOUND_DIR")
                                                 : "no");
    journal_line();
    tree_show(".");
}

/* A sandbox of its own again. */
static void
fresh(void)
{
    (void)unlink("bound/binding");
    (void)rmdir("bound");
    workspace_runtime.bound = WP_BOUND_FREE;
    memset(workspace_runtime.fingerprint, 0,
           sizeof workspace_runtime.fingerprint);
    assert_int_equal(unsetenv("WARMPOOL_BOUND_DIR"), 0);
}

static size_t
entry(uint8_t *out, uint32_t kind, const char *first, const char *second)
{
    const struct wp_parcel_entry head = {
        .kind = kind,
        .first = first,
        .first_len = strlen(first),
        .second = second,
        .second_len = strlen(second),
    };

    wp_parcel_put_head(&head, out);
    memcpy(out + WP_PARCEL_HEAD, first, head.first_len);
    memcpy(out + WP_PARCEL_HEAD + head.first_len, second, head.second_len);
    return WP_PARCEL_HEAD + head.first_len + head.second_len;
}

/* fields: "name", "value", ... NULL. */
static void
bind_with(const char *const *fields, const void *bytes, size_t len)
{
    struct heard heard;
    const char *log;

    req = (struct wp_http_req){
        .name = "bind", .app = &workspace_runtime, .ops = &wp_bind_ops};
    for (size_t i = 0; fields[i] != NULL; i++) {
        req.headers[i] = fields[i];
    }
    heard_begin(&heard);
    req.ops->begin(&req);
    for (size_t at = 0; at < len && !req.replied; at += 1 << 20) {
        size_t n = len - at < 1 << 20 ? len - at : 1 << 20;

        req.ops->body(&req, (const char *)bytes + at, n);
    }
    if (!req.replied) {
        req.ops->ready(&req);
    }
    fake_http_gone(&req);
    log = heard_end(&heard);
    if (*log != '\0') {
        journal("log: %s", log);
        journal_line();
    }
}

#define BIND(bytes, len, ...)                                                  \
    bind_with((const char *const[]){__VA_ARGS__, NULL}, bytes, len)

/* ----------------------------------------------------------------- tests */

static void
what_was_bound_is_told_by_name(void **state)
{
    uint8_t parcel[1024];
    size_t len = 0;

    (void)state;
    len += entry(parcel + len, WP_PARCEL_ENV, "ONE", "1");
    len += entry(parcel + len, WP_PARCEL_ENV, "TWO", "");
    len += entry(parcel + len, WP_PARCEL_SECRET, "key", "secret");
    len += entry(parcel + len, WP_PARCEL_FILE, "a/b", "text");
    len += entry(parcel + len, WP_PARCEL_DIR, "src", "");
    len += entry(parcel + len, WP_PARCEL_IDENTITY, "ID", "");
    BIND(parcel, len, WP_BIND_FIELD, PRINT);
    state_show();
    say("again, with an identity");
    BIND(parcel, len, WP_BIND_FIELD, PRINT, WP_IDENTITY_FIELD, "a.b-c_9");
    say("again, with a bad one");
    BIND(parcel, len, WP_BIND_FIELD, PRINT, WP_IDENTITY_FIELD, "a b");
    say("another");
    BIND(parcel, len, WP_BIND_FIELD, "0123456789abcdee");
    fresh();
    say("with a command in a folder, trees and an identity");
    in_bound = true;
    len += entry(parcel + len, WP_PARCEL_WORD, "run", "");
    len += entry(parcel + len, 99, "unknown", "");
    memmove(parcel + 7, parcel, len);
    memcpy(parcel, "7 bytes", 7);
    BIND(parcel, len + 7, WP_BIND_FIELD, PRINT, WP_BIND_TREES_FIELD, "7",
         WP_IDENTITY_FIELD, "token");
    {
        const struct wp_process_result result = {.exit_code = 3};
        struct heard heard;
        const char *log;

        heard_begin(&heard);
        fake_process_ends(result, "", "");
        log = heard_end(&heard);
        journal("log: %s", log);
        journal_line();
    }
    fresh();
    say("with nothing to run, and nothing at all");
    nothing_to_run = true;
    BIND("", 0, WP_BIND_FIELD, PRINT);
    state_show();
    golden("names");
    assert_true(wp_bind_ops.body_max ==
                (UINT64_C(1) << 40) + (UINT64_C(2) << 20));
}

static void
the_request_is_judged_first(void **state)
{
    static const char *const prints[] = {
        "0123456789abcde",
        "0123456789abcdeff",
        "0123456789abcdeF",
        "0123456789abcdeg",
        "",
    };
    static const char *const trees[] = {"x", "-1", "", "1099511627777"};
    uint8_t *parcel = calloc(1, WP_PARCEL_MAX + 1);

    (void)state;
    assert_non_null(parcel);
    BIND("", 0, NULL);
    for (size_t i = 0; i < sizeof prints / sizeof(prints[0]); i++) {
        say(prints[i]);
        BIND("", 0, WP_BIND_FIELD, prints[i]);
    }
    for (size_t i = 0; i < sizeof trees / sizeof(trees[0]); i++) {
        say(trees[i]);
        BIND("", 0, WP_BIND_FIELD, PRINT, WP_BIND_TREES_FIELD, trees[i]);
    }
    say("more trees than came");
    BIND("1234567", 7, WP_BIND_FIELD, PRINT, WP_BIND_TREES_FIELD,
         "1099511627776");
    BIND("1234567", 7, WP_BIND_FIELD, PRINT, WP_BIND_TREES_FIELD, "8");
    say("too long a parcel");
    BIND(parcel, WP_PARCEL_MAX + 1, WP_BIND_FIELD, PRINT);
    say("no memory");
    fault_set("malloc", 1, ENOMEM);
    BIND("", 0, WP_BIND_FIELD, PRINT);
    assert_true(fault_clear());
    say("a part is there");
    workspace_runtime.bound = WP_BOUND_PART;
    BIND("", 0, WP_BIND_FIELD, PRINT);
    say("no digest");
    workspace_runtime.options.token_digest = NULL;
    BIND("", 0, WP_BIND_FIELD, PRINT);
    tree_show(".");
    free(parcel);
    golden("requests");
}

static void
trees_are_kept_by_who_may_take_them_only(void **state)
{
    (void)state;
    req = (struct wp_http_req){.name = "bind",
                               .app = &workspace_runtime,
                               .ops = &wp_bind_ops,
                               .headers = {WP_BIND_TREES_FIELD, "5"}};
    for (int i = 0; i < 4; i++) {
        const struct wp_bind_body *body;

        workspace_runtime.bound = i == 1   ? WP_BOUND_PART
                                  : i == 2 ? WP_BOUND_WHOLE
                                           : WP_BOUND_FREE;
        workspace_runtime.options.token_digest = i == 3 ? NULL : "digest";
        req.ops->begin(&req);
        body = req.user;
        assert_int_equal(body->keeps, i == 0);
        assert_int_equal(body->trees_len, 5);
        fake_http_gone(&req);
        req.user = NULL;
    }
    fake_http_gone(&req);
    journal_is("");
}

static void
what_is_not_taken_is_told(void **state)
{
    static const char *const steps[] = {"take", "identified", "identity",
                                        "unpack"};
    static const struct {
        const char *function;
        int os_errno;
        unsigned nth;
    } faults[] = {{"mkdir", EROFS, 1},  {"open", EACCES, 1},
                  {"fstat", EIO, 1},    {"openat", ENOSPC, 1},
                  {"write", ENOSPC, 1}, {"mkdir", EEXIST, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof steps / sizeof(steps[0]); i++) {
        say(steps[i]);
        refusing = steps[i];
        BIND("", 0, WP_BIND_FIELD, PRINT, WP_IDENTITY_FIELD, "token");
        state_show();
        fresh();
    }
    refusing = NULL;
    for (size_t i = 0; i < sizeof faults / sizeof(faults[0]); i++) {
        say(faults[i].function);
        fault_set(faults[i].function, faults[i].nth, faults[i].os_errno);
        BIND("", 0, WP_BIND_FIELD, PRINT);
        assert_true(fault_clear());
        state_show();
        fresh();
    }
    say("the command cannot start");
    fake_processes.refuses = WP_NOT_FOUND;
    BIND("", 0, WP_BIND_FIELD, PRINT);
    state_show();
    fresh();
    fake_processes.refuses = WP_OK;
    say("a bad identity");
    BIND("", 0, WP_BIND_FIELD, PRINT, WP_IDENTITY_FIELD, "");
    fresh();
    say("a binding was begun before");
    assert_int_equal(mkdir("bound", 0700), 0);
    file_put("bound/binding", "", 0400);
    BIND("", 0, WP_BIND_FIELD, PRINT);
    fresh();
    say("others may write there");
    assert_int_equal(mkdir("bound", 0700), 0);
    assert_int_equal(chmod("bound", 0710), 0);
    BIND("", 0, WP_BIND_FIELD, PRINT);
    assert_int_equal(chmod("bound", 0701), 0);
    BIND("", 0, WP_BIND_FIELD, PRINT);
    fresh();
    say("it is another's");
    not_mine = true;
    BIND("", 0, WP_BIND_FIELD, PRINT);
    not_mine = false;
    fresh();
    say("it is a link");
    assert_int_equal(symlink(".", "bound"), 0);
    BIND("", 0, WP_BIND_FIELD, PRINT);
    assert_int_equal(unlink("bound"), 0);
    golden("refused");
}

static void
a_later_process_finds_it(void **state)
{
    static const char *const marks[] = {
        "", "0123456789abcde", PRINT, PRINT "more", "0123456789abcdeF",
    };

    (void)state;
    wp_runtime_bind_init(&workspace_runtime);
    state_show();
    for (size_t i = 0; i < sizeof marks / sizeof(marks[0]); i++) {
        say(marks[i]);
        assert_int_equal(mkdir("bound", 0700), 0);
        file_put("bound/binding", marks[i], 0400);
        wp_runtime_bind_init(&workspace_runtime);
        state_show();
        fresh();
    }
    assert_int_equal(mkdir("bound", 0700), 0);
    say("without a mark");
    wp_runtime_bind_init(&workspace_runtime);
    state_show();
    file_put("bound/binding", PRINT, 0400);
    say("it cannot be read");
    fault_set("read", 1, EIO);
    wp_runtime_bind_init(&workspace_runtime);
    assert_true(fault_clear());
    state_show();
    workspace_runtime.bound = WP_BOUND_FREE;
    say("without a digest");
    workspace_runtime.options.token_digest = NULL;
    wp_runtime_bind_init(&workspace_runtime);
    state_show();
    workspace_runtime.options.token_digest = "digest";
    say("the folder is another's");
    not_mine = true;
    wp_runtime_bind_init(&workspace_runtime);
    state_show();
    not_mine = false;
    say("others may look into it");
    assert_int_equal(chmod("bound", 0740), 0);
    wp_runtime_bind_init(&workspace_runtime);
    state_show();
    golden("later");
}

static void
identify(const char *token)
{
    struct heard heard;
    const char *log;

    req = (struct wp_http_req){
        .name = "identity",
        .app = &workspace_runtime,
        .ops = &wp_identity_ops,
        .headers = {token != NULL ? WP_IDENTITY_FIELD : NULL, token}};
    heard_begin(&heard);
    req.ops->ready(&req);
    log = heard_end(&heard);
    fake_http_gone(&req);
    if (*log != '\0') {
        journal("log: %s", log);
        journal_line();
    }
}

static void
an_identity_is_replaced(void **state)
{
    static char token[WP_IDENTITY_TEXT_MAX + 2];

    (void)state;
    memset(token, 't', sizeof token - 1);
    identify("token");
    workspace_runtime.bound = WP_BOUND_PART;
    identify("token");
    workspace_runtime.bound = WP_BOUND_WHOLE;
    identify("AZaz09-_.");
    identify(NULL);
    identify("");
    identify("a b");
    identify("a\xff");
    identify(token);
    token[WP_IDENTITY_TEXT_MAX] = '\0';
    identify(token);
    refusing = "identity";
    identify("token");
    workspace_runtime.options.token_digest = NULL;
    identify("token");
    golden("identity");
}

int
main(void)
{
#define ONE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        ONE(what_was_bound_is_told_by_name),
        ONE(the_request_is_judged_first),
        ONE(trees_are_kept_by_who_may_take_them_only),
        ONE(what_is_not_taken_is_told),
        ONE(a_later_process_finds_it),
        ONE(an_identity_is_replaced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
