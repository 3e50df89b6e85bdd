/* What each setting of warmpool-runtime may be, as a flag and in the
 * environment, what it comes to, and how others are refused. Compared whole
 * with golden/options_*.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/formats/sandbox_token.h"
#include "runtime/options.h"
#include "tests/support/base/journal.h"

enum {
    FIELDS_MAX = 48,
    ARGS_MAX = 64,
};

static const struct {
    const char *flag;
    const char *env;
    const char *values[8];
} settings[] = {
    {"--bind", "WARMPOOL_RUNTIME_BIND", {"::1"}},
    {"--port", "PORT", {"0", "1", "65535", "65536", "-1", "x", "1x"}},
    {"--mcp-port", "MCP_PORT", {"0", "65535", "65536"}},
    {"--rest-port", "REST_PORT", {"0", "65535", "65536"}},
    {"--grpc-port", "GRPC_PORT", {"0", "65535", "65536"}},
    {"--unix", "WARMPOOL_RUNTIME_UNIX", {"/run/socket"}},
    {"--port-file", "WARMPOOL_RUNTIME_PORT_FILE", {"/run/ports"}},
    {"--workspace", "WORKSPACE_DIR", {"/work"}},
    {"--skills-dir", "SKILLS_DIR", {"/of/skills"}},
    {"--allowed-origin",
     "WARMPOOL_RUNTIME_ALLOWED_ORIGIN",
     {"*", "https://example.com"}},
    {"--execs-max", "WARMPOOL_RUNTIME_EXECS_MAX", {"0", "1", "1024", "1025"}},
    {"--execs-waiting-max",
     "WARMPOOL_RUNTIME_EXECS_WAITING_MAX",
     {"0", "65536", "65537"}},
    {"--background-ms",
     "WARMPOOL_RUNTIME_BACKGROUND_MS",
     {"0", "3600000", "3600001"}},
    {"--progress-ms",
     "WARMPOOL_RUNTIME_PROGRESS_MS",
     {"99", "100", "600000", "600001"}},
    {"--exec-timeout-max-ms",
     "WARMPOOL_RUNTIME_EXEC_TIMEOUT_MAX_MS",
     {"0", "1", "86400000", "86400001"}},
    {"--rest-timeout-ms",
     "WARMPOOL_RUNTIME_REST_TIMEOUT_MS",
     {"0", "1", "86400000", "86400001"}},
    {"--output-max",
     "WARMPOOL_RUNTIME_OUTPUT_MAX",
     {"1023", "1024", "268435456", "268435457"}},
    {"--read-max",
     "WARMPOOL_RUNTIME_READ_MAX",
     {"1023", "1024", "1073741824", "1073741825"}},
    {"--upload-max",
     "WARMPOOL_RUNTIME_UPLOAD_MAX",
     {"1023", "1024", "1099511627776", "1099511627777"}},
    {"--conns-max", "WARMPOOL_RUNTIME_CONNS_MAX", {"0", "1", "65536", "65537"}},
    {"--grace-ms", "WARMPOOL_RUNTIME_GRACE_MS", {"0", "600000", "600001"}},
    {"--confine",
     "WARMPOOL_RUNTIME_CONFINE",
     {"0", "1", "false", "true", "yes"}},
    {"--readable", "WARMPOOL_RUNTIME_READABLE", {"/usr:/lib"}},
    {"--token-digest",
     WP_SANDBOX_TOKEN_ENV,
     {"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
      "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde",
      "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0",
      "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdeg",
      "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdeF",
      "A123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}},
    {"--token-for", "WARMPOOL_RUNTIME_TOKEN_FOR", {"control", "all", "none"}},
    {"--bound-dir", "WARMPOOL_BOUND_DIR", {"/bound"}},
    {"--log-level",
     "WARMPOOL_RUNTIME_LOG_LEVEL",
     {"debug", "info", "warn", "error", "warning"}},
    {"--log-format", "WARMPOOL_RUNTIME_LOG_FORMAT", {"text", "json", "xml"}},
};

#define SETTINGS (sizeof settings / sizeof(settings[0]))

/* Each field as text, in the order of the struct. */
struct fields {
    char text[FIELDS_MAX][128];
    size_t len;
};

static struct fields usual;

__attribute__((format(printf, 2, 3))) static void
field(struct fields *fields, const char *fmt, ...)
{
    va_list ap;

    assert_true(fields->len < FIELDS_MAX);
    va_start(ap, fmt);
    (void)vsnprintf(fields->text[fields->len++], sizeof fields->text[0], fmt,
                    ap);
    va_end(ap);
}

#define TEXT(name) field(fields, #name " %s", o->name != NULL ? o->name : "-")
#define NUMBER(name) field(fields, #name " %lld", (long long)o->name)

static void
fields_of(const struct wp_options *o, struct fields *fields)
{
    fields->len = 0;
    TEXT(bind);
    NUMBER(port);
    NUMBER(mcp_port);
    NUMBER(rest_port);
    NUMBER(grpc_port);
    TEXT(unix_path);
    TEXT(port_file);
    TEXT(workspace);
    TEXT(skills_dir);
    for (size_t i = 0; i < WP_OPTIONS_ORIGINS_MAX; i++) {
        field(fields, "origin %s", o->origins[i] != NULL ? o->origins[i] : "-");
    }
    NUMBER(origins_count);
    NUMBER(execs_max);
    NUMBER(execs_waiting_max);
    NUMBER(background_ms);
    NUMBER(progress_ms);
    NUMBER(exec_timeout_max_ms);
    NUMBER(rest_timeout_ms);
    NUMBER(output_max);
    NUMBER(upload_max);
    NUMBER(read_max);
    NUMBER(conns_max);
    NUMBER(grace_ms);
    NUMBER(confine);
    TEXT(readable);
    TEXT(token_digest);
    NUMBER(token_for);
    TEXT(bound_dir);
    NUMBER(log_level);
    NUMBER(log_format);
}

/* --------------------------------------------------------------- the rig */

/* What is said on the standard output, each line; the version has no number. */
static void
tell_said(int fd)
{
    static char text[16384];
    static const char version[] = "warmpool-runtime " WP_VERSION;
    ssize_t len = pread(fd, text, sizeof text - 1, 0);
    char *rest = text;
    char *line;

    assert_true(len >= 0);
    text[len] = '\0';
    while ((line = strsep(&rest, "\n")) != NULL && rest != NULL) {
        journal("> %s",
                strcmp(line, version) == 0 ? "warmpool-runtime VERSION" : line);
        journal_line();
    }
    assert_string_equal(line, "");
}

/* args: words, each ended by a '\n', but for the last. What differs from what
 * is usual is shown. */
static void
parse(const char *args)
{
    static struct fields fields;
    char name[] = "name";
    char *argv[ARGS_MAX] = {name};
    char *words = strdup(args);
    char *rest = words;
    char *word;
    int argc = 1;
    int saved = dup(STDOUT_FILENO);
    int out = memfd_create("out", MFD_CLOEXEC);
    enum wp_options_outcome outcome;
    struct wp_options options;
    struct wp_err err = {0};

    assert_non_null(words);
    assert_true(saved >= 0 && out >= 0);
    while (*args != '\0' && (word = strsep(&rest, "\n")) != NULL) {
        assert_true(argc < ARGS_MAX - 1);
        argv[argc++] = word;
    }
    (void)fflush(stdout);
    assert_true(dup2(out, STDOUT_FILENO) >= 0);
    outcome = wp_options_parse(argc, argv, &options, &err);
    (void)fflush(stdout);
    assert_true(dup2(saved, STDOUT_FILENO) >= 0);
    journal("%s = %d", args, (int)outcome);
    if (outcome == WP_OPTIONS_INVALID) {
        journal(" %d %s", (int)err.status, err.msg);
    }
    fields_of(&options, &fields);
    for (size_t i = 0; outcome == WP_OPTIONS_RUN && i < fields.len; i++) {
        if (usual.len == 0 || strcmp(fields.text[i], usual.text[i]) != 0) {
            journal(" [%s]", fields.text[i]);
        }
    }
    journal_line();
    tell_said(out);
    assert_int_equal(close(out), 0);
    assert_int_equal(close(saved), 0);
    free(words);
}

static void
golden(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/options_%s.txt", name);
    journal_compare(path);
}

static int
begin(void **state)
{
    char name[] = "name";
    char *argv[] = {name, NULL};
    struct wp_options options;
    struct wp_err err;

    (void)state;
    for (size_t i = 0; i < SETTINGS; i++) {
        assert_int_equal(unsetenv(settings[i].env), 0);
    }
    assert_int_equal(wp_options_parse(1, argv, &options, &err), WP_OPTIONS_RUN);
    fields_of(&options, &usual);
    journal_drop();
    return 0;
}

/* ----------------------------------------------------------------- tests */

static void
it_says_what_can_be_set(void **state)
{
    (void)state;
    usual.len = 0;
    parse("");
    parse("--help");
    parse("-h");
    parse("--version");
    /* Whatever else is asked for. */
    parse("--what\n--version");
    parse("--port\n-1\n--version\n--help");
    golden("words");
}

static void
each_flag_takes_what_it_may_be(void **state)
{
    char args[256];

    (void)state;
    for (size_t i = 0; i < SETTINGS; i++) {
        for (size_t k = 0; settings[i].values[k] != NULL; k++) {
            (void)snprintf(args, sizeof args, "%s\n%s", settings[i].flag,
                           settings[i].values[k]);
            parse(args);
            (void)snprintf(args, sizeof args, "%s=%s", settings[i].flag,
                           settings[i].values[k]);
            parse(args);
        }
        (void)snprintf(args, sizeof args, "%s=", settings[i].flag);
        parse(args);
        parse(settings[i].flag);
        (void)snprintf(args, sizeof args, "%sx=1", settings[i].flag);
        parse(args);
    }
    golden("flags");
}

static void
each_variable_takes_the_same_and_a_flag_wins(void **state)
{
    char args[256];

    (void)state;
    for (size_t i = 0; i < SETTINGS; i++) {
        const char *env = settings[i].env;

        for (size_t k = 0; settings[i].values[k] != NULL; k++) {
            assert_int_equal(setenv(env, settings[i].values[k], 1), 0);
            journal("%s=%s: ", env, settings[i].values[k]);
            parse("");
            (void)snprintf(args, sizeof args, "%s=%s", settings[i].flag,
                           settings[i].values[0]);
            journal("%s=%s: ", env, settings[i].values[k]);
            parse(args);
        }
        assert_int_equal(setenv(env, "", 1), 0);
        journal("%s=: ", env);
        parse("");
        assert_int_equal(unsetenv(env), 0);
    }
    golden("variables");
}

static void
a_port_is_listened_on_when_nothing_else_is(void **state)
{
    (void)state;
    parse("--unix\na");
    parse("--unix\na\n--port\n1");
    parse("--mcp-port\n1");
    parse("--rest-port\n1");
    parse("--mcp-port\n1\n--rest-port\n2");
    parse("--mcp-port\n1\n--rest-port\n2\n--port\n3");
    parse("--grpc-port\n1");
    parse("--port\n0");
    journal_is("--unix|a = 0 [port -1] [unix_path a]\n"
               "--unix|a|--port|1 = 0 [port 1] [unix_path a]\n"
               "--mcp-port|1 = 0 [mcp_port 1]\n"
               "--rest-port|1 = 0 [rest_port 1]\n"
               "--mcp-port|1|--rest-port|2 = 0 [port -1] [mcp_port 1] "
               "[rest_port 2]\n"
               "--mcp-port|1|--rest-port|2|--port|3 = 0 [port 3] [mcp_port 1] "
               "[rest_port 2]\n"
               "--grpc-port|1 = 0 [grpc_port 1]\n"
               "--port|0 = 0 [port 0]\n");
}

#define DIGEST                                                                 \
    "--token-digest="                                                          \
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void
more_than_one_setting_is_taken(void **state)
{
    char args[1024] = "--allowed-origin=0";

    (void)state;
    parse("--confine\n--port\n1");
    parse("--confine\n0");
    parse("--port\n1\n--port=2\n--bind\n--port");
    parse("word");
    parse("--port\n1\nword\n--port\n2");
    parse(DIGEST "\n--token-for=all");
    parse("--token-for=all\n" DIGEST);
    parse(DIGEST "\n--token-for=control");
    for (int i = 1; i < WP_OPTIONS_ORIGINS_MAX; i++) {
        size_t len = strlen(args);

        (void)snprintf(args + len, sizeof args - len, "\n--allowed-origin\n%d",
                       i);
    }
    parse(args);
    (void)strcat(args, "\n--allowed-origin=more");
    parse(args);
    golden("many");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(it_says_what_can_be_set, begin),
        cmocka_unit_test_setup(each_flag_takes_what_it_may_be, begin),
        cmocka_unit_test_setup(each_variable_takes_the_same_and_a_flag_wins,
                               begin),
        cmocka_unit_test_setup(a_port_is_listened_on_when_nothing_else_is,
                               begin),
        cmocka_unit_test_setup(more_than_one_setting_is_taken, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
