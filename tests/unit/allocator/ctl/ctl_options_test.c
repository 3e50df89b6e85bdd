/* tests/unit/allocator/ctl/ctl_options_test.c - warmpoolctl's flags, its suggestions, and the
 * consistency of its tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/ctl/commands.h"
#include "pool/base/nearest.h"
#include "allocator/ctl/options.h"
#include "allocator/ctl/run.h"
#include "pool/base/clock.h"
#include "tests/support/base/left_open.h"

static const char *const names[] = {"ttl", "wait",     "count", "env",
                                    "id",  "no-stdin", NULL};

enum {
    WORDS_MAX = 2 * WP_CTL_ENV_MAX
};

static struct wp_ctl_options options;
static struct wp_err err;
static char *words[WORDS_MAX];

/* Parses words up to NULL. */
static enum wp_status
parse(bool with_rest, const char *const *list)
{
    int n = 0;

    for (; list[n] != NULL; n++) {
        words[n] = (char *)(uintptr_t)list[n];
    }
    memset(&err, 0, sizeof err);
    wp_ctl_options_init(&options);
    return wp_ctl_options_parse(&options, names, with_rest, words, n, &err);
}

#define PARSE(...) parse(false, (const char *const[]){__VA_ARGS__, NULL})
#define PARSE_REST(...) parse(true, (const char *const[]){__VA_ARGS__, NULL})

static void
test_every_spelling(void **state)
{
    (void)state;
    assert_int_equal(PARSE("a", "--ttl", "30m", "--wait=500ms", "b", "-n", "3",
                           "-ojson", "--no-stdin"),
                     WP_OK);
    assert_int_equal(options.ttl_ns, 30 * 60 * WP_NS_PER_S);
    assert_int_equal(options.wait_ns, 500 * WP_NS_PER_MS);
    assert_int_equal(options.count, 3);
    assert_int_equal(options.output, WP_OUTPUT_JSON);
    assert_true(options.no_stdin);
    assert_int_equal(options.n_args, 2);
    assert_string_equal(options.args[0], "a");
    assert_string_equal(options.args[1], "b");
    assert_int_equal(options.n_rest, 0);
}

static void
test_defaults(void **state)
{
    (void)state;
    assert_int_equal(PARSE("x"), WP_OK);
    assert_int_equal(options.output, WP_OUTPUT_TABLE);
    assert_int_equal(options.timeout_ns, 10 * WP_NS_PER_S);
    assert_int_equal(options.grace_ns, 30 * WP_NS_PER_S);
    assert_int_equal(options.ttl_ns, 0);
    assert_int_equal(options.wait_ns, 0);
    assert_int_equal(options.count, 0);
    assert_false(options.help);
    assert_int_equal(PARSE("x", "-h"), WP_OK);
    assert_true(options.help);
}

/* Words behind "--", and a lone "-", are operands. */
static void
test_end_of_options(void **state)
{
    (void)state;
    assert_int_equal(PARSE("-", "--", "--ttl", "-x"), WP_OK);
    assert_int_equal(options.n_args, 3);
    assert_string_equal(options.args[0], "-");
    assert_string_equal(options.args[1], "--ttl");
    assert_string_equal(options.args[2], "-x");
}

/* A command for somebody else is not looked into, with or without "--". */
static void
test_rest(void **state)
{
    (void)state;
    assert_int_equal(
        PARSE_REST("id", "--ttl", "5s", "--", "ls", "-l", "--", "--ttl"),
        WP_OK);
    assert_int_equal(options.ttl_ns, 5 * WP_NS_PER_S);
    assert_int_equal(options.n_args, 1);
    assert_int_equal(options.n_rest, 4);
    assert_string_equal(options.rest[0], "ls");
    assert_string_equal(options.rest[3], "--ttl");

    assert_int_equal(PARSE_REST("--wait", "1s", "id", "ls", "-n", "x"), WP_OK);
    assert_string_equal(options.args[0], "id");
    assert_int_equal(options.n_rest, 3);
    assert_string_equal(options.rest[1], "-n");
    assert_int_equal(options.count, 0);

    assert_int_equal(PARSE_REST("id", "--"), WP_OK);
    assert_int_equal(options.n_rest, 0);
}

/* Each row: what is typed, and what the message must contain. */
static void
test_errors_name_the_word(void **state)
{
    static const struct {
        const char *word;
        const char *value;
        const char *said;
    } rows[] = {
        {"--tll", "5s", "did you mean --ttl?"},
        {"--nostdin", NULL, "did you mean --no-stdin?"},
        {"--adress", "x", "did you mean --address?"},
        {"--outptu", "x", "did you mean --output?"},
        {"--zzzzzz", NULL, "unknown option '--zzzzzz'"},
        {"--timeout", "0", "expected a time from 1ms to 1h"},
        {"--timeout", "3601s", "expected a time from 1ms to 1h"},
        {"-x", NULL, "unknown option '-x'"},
        /* Known, but not to this command. */
        {"--grace", "5s", "unknown option '--grace'"},
        {"--ttl", NULL, "--ttl needs a value: TIME"},
        {"--ttl", "5", "--ttl '5': expected a time from 1s to 30d"},
        {"--ttl", "0s", "expected a time from 1s to 30d"},
        {"--ttl", "31d", "expected a time from 1s to 30d"},
        {"--ttl", "-5s", "expected a time"},
        {"--ttl", "5 s", "expected a time"},
        {"--ttl", "99999999999999999999d", "expected a time"},
        {"--wait", "11m", "expected a time from 0 to 10m"},
        {"--count", "0", "expected a whole number from 1 to 256"},
        {"--count", "257", "expected a whole number from 1 to 256"},
        {"--count", "1x", "expected a whole number"},
        {"--output", "yaml", "expected table, json or name"},
        {"--env", "NOVALUE", "expected NAME=VALUE"},
        {"--env", "=x", "expected NAME=VALUE"},
        {"--no-stdin=yes", NULL, "--no-stdin takes no value"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        assert_int_equal(PARSE(rows[i].word, rows[i].value),
                         WP_INVALID_ARGUMENT);
        if (strstr(err.msg, rows[i].said) == NULL) {
            fail_msg("row %zu: %s", i, err.msg);
        }
    }
}

static void
test_takes_what_is_at_the_bounds(void **state)
{
    (void)state;
    assert_int_equal(
        PARSE("--ttl", "1s", "--timeout", "1ms", "--count", "1", "--wait", "0"),
        WP_OK);
    assert_int_equal(options.ttl_ns, WP_NS_PER_S);
    assert_int_equal(options.timeout_ns, WP_NS_PER_MS);
    assert_int_equal(options.count, 1);
    assert_int_equal(options.wait_ns, 0);
    assert_int_equal(PARSE("--ttl", "30d", "--timeout", "1h", "--count", "256",
                           "--wait", "10m"),
                     WP_OK);
    assert_int_equal(options.ttl_ns, 30 * 24 * 3600 * WP_NS_PER_S);
    assert_int_equal(options.timeout_ns, 3600 * WP_NS_PER_S);
    assert_int_equal(options.count, 256);
    assert_int_equal(options.wait_ns, 600 * WP_NS_PER_S);
}

static void
test_env_is_bounded(void **state)
{
    const char *list[2 * WP_CTL_ENV_MAX + 4] = {NULL};

    (void)state;
    assert_true(WORDS_MAX >= WP_CTL_ENV_MAX + 2);
    for (int i = 0; i < WP_CTL_ENV_MAX; i++) {
        list[i] = "-eA=b=c";
    }
    assert_int_equal(parse(false, list), WP_OK);
    assert_int_equal(options.n_env, WP_CTL_ENV_MAX);
    assert_string_equal(options.env[0], "A=b=c");
    list[WP_CTL_ENV_MAX] = "-eA=b";
    assert_int_equal(parse(false, list), WP_INVALID_ARGUMENT);
}

/* Each option that may be repeated is taken as often as there is room for it,
 * in order, and no oftener. */
static void
test_repeated_options_are_bounded(void **state)
{
    static const struct {
        const char *name;
        const char *value;
        int most;
        const char *said;
    } rows[] = {
        {"secret", "A=@b", 64, "--secret: at most 64 times"},
        {"volume", "v", 64, "--volume: at most 64 times"},
        {"autoscale", "min=1", 12, "--autoscale: at most 12 keys"},
        {"objective", "99%", 8, "--objective: at most 8"},
        {"env", "A=b", 256, "--env: at most 256 variables"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        const char *one[] = {rows[i].name, NULL};
        char word[40];
        char *list[WP_CTL_ENV_MAX + 1];

        (void)snprintf(word, sizeof word, "--%s=%s", rows[i].name,
                       rows[i].value);
        for (int k = 0; k <= rows[i].most; k++) {
            list[k] = word;
        }
        wp_ctl_options_init(&options);
        assert_int_equal(wp_ctl_options_parse(&options, one, false, list,
                                              rows[i].most, &err),
                         WP_OK);
        wp_ctl_options_init(&options);
        assert_int_equal(wp_ctl_options_parse(&options, one, false, list,
                                              rows[i].most + 1, &err),
                         WP_INVALID_ARGUMENT);
        assert_string_equal(err.msg, rows[i].said);
    }
    assert_int_equal(PARSE("x"), WP_OK);
    {
        const char *one[] = {"secret", NULL};
        char *list[] = {(char[]){"--secret=a"}, (char[]){"--secret"},
                        (char[]){"b"}};

        assert_int_equal(
            wp_ctl_options_parse(&options, one, false, list, 3, &err), WP_OK);
        assert_int_equal(options.secrets.n, 2);
        assert_string_equal(options.secrets.word[0], "a");
        assert_string_equal(options.secrets.word[1], "b");
    }
}

/* The environment gives defaults; a flag is stronger; empty means unset. */
static void
test_environment(void **state)
{
    (void)state;
    assert_int_equal(setenv("WARMPOOL_ADDRESS", "unix:/e", 1), 0);
    assert_int_equal(setenv("WARMPOOL_TENANT", "", 1), 0);
    assert_int_equal(PARSE("x"), WP_OK);
    assert_string_equal(options.address, "unix:/e");
    assert_null(options.tenant);
    assert_int_equal(PARSE("x", "-a", "unix:/f"), WP_OK);
    assert_string_equal(options.address, "unix:/f");
    assert_int_equal(unsetenv("WARMPOOL_ADDRESS"), 0);
    assert_int_equal(unsetenv("WARMPOOL_TENANT"), 0);
}

/* Every name a command lists is an option, letters are not given twice, and
 * each command explains itself with an example. */
static void
test_tables_are_consistent(void **state)
{
    (void)state;
    for (const struct wp_ctl_command *c = wp_ctl_commands; c->name != NULL;
         c++) {
        const char *const *lists[] = {wp_ctl_options_common, c->options};
        bool letters[128] = {false};

        assert_non_null(c->run);
        assert_non_null(strstr(c->help, "Examples:\n  warmpoolctl ") != NULL
                            ? c->help
                            : strstr(c->help, "Examples:\n  source "));
        for (size_t l = 0; l < 2; l++) {
            for (const char *const *p = lists[l]; *p != NULL; p++) {
                const struct wp_ctl_option *option = wp_ctl_option_find(*p);

                if (option == NULL) {
                    fail_msg("%s lists --%s, which is no option", c->name, *p);
                    return;
                }
                if (option->letter != '\0') {
                    assert_false(letters[(int)option->letter]);
                    letters[(int)option->letter] = true;
                }
            }
        }
    }
}

/* One option, and what it means to each of those that take it. */
static void
test_help_is_the_commands_own(void **state)
{
    const struct wp_ctl_option *id = wp_ctl_option_find("id");
    const struct wp_ctl_option *tenant = wp_ctl_option_find("tenant");

    (void)state;
    assert_non_null(strstr(wp_ctl_option_help(id, "claim"), "The claim's id"));
    assert_non_null(
        strstr(wp_ctl_option_help(id, "reserve"), "The reservation's id"));
    assert_non_null(strstr(wp_ctl_option_help(tenant, "list"), "Only this"));
    assert_ptr_equal(wp_ctl_option_help(tenant, "get"), tenant->help);
}

static const char *
nearest_command(const char *typed)
{
    struct wp_nearest nearest;

    wp_nearest_init(&nearest, wp_str_from(typed));
    for (const struct wp_ctl_command *c = wp_ctl_commands; c->name != NULL;
         c++) {
        wp_nearest_offer(&nearest, c->name);
    }
    return nearest.best;
}

static void
test_nearest(void **state)
{
    (void)state;
    assert_string_equal(nearest_command("calim"), "claim");
    assert_string_equal(nearest_command("relase"), "release");
    assert_string_equal(nearest_command("comp"), "completion");
    assert_string_equal(nearest_command("pool"), "pools");
    assert_null(nearest_command("frobnicate"));
    assert_null(nearest_command(""));
    assert_null(nearest_command("a-word-that-is-longer-than-any-command-is"));
}

static void
test_pool_names(void **state)
{
    static uint64_t room[64];
    struct wp_ctl ctl = {.errors = stderr};
    struct wp_wire_pool_ref ref;

    (void)state;
    wp_arena_init(&ctl.arena, room, sizeof room);
    assert_int_equal(wp_ctl_pool_parse(&ctl, "agents", &ref, &err), WP_OK);
    assert_true(wp_str_is(ref.name, "agents"));
    assert_int_equal(ref.pool_namespace.len, 0);
    assert_int_equal(wp_ctl_pool_parse(&ctl, "team-a/agents", &ref, &err),
                     WP_OK);
    assert_true(wp_str_is(ref.name, "agents"));
    assert_true(wp_str_is(ref.pool_namespace, "team-a"));
    assert_int_equal(wp_ctl_pool_parse(&ctl, "", &ref, &err),
                     WP_INVALID_ARGUMENT);
    assert_int_equal(wp_ctl_pool_parse(&ctl, "/a", &ref, &err),
                     WP_INVALID_ARGUMENT);
    assert_int_equal(wp_ctl_pool_parse(&ctl, "a/", &ref, &err),
                     WP_INVALID_ARGUMENT);
    assert_int_equal(wp_ctl_pool_parse(&ctl, "a/b/c", &ref, &err),
                     WP_INVALID_ARGUMENT);
    assert_int_equal(wp_ctl_pool_parse(&ctl, "Big", &ref, &err),
                     WP_INVALID_ARGUMENT);
}

/* Runs warmpoolctl in this process; returns its exit code, and what it printed
 * in out and errors (malloc'ed). */
static int
run(const char *const *list, char **out, char **errors)
{
    size_t out_len;
    size_t errors_len;
    FILE *out_file = open_memstream(out, &out_len);
    FILE *errors_file = open_memstream(errors, &errors_len);
    int n = 0;
    int code;

    for (; list[n] != NULL; n++) {
        words[n] = (char *)(uintptr_t)list[n];
    }
    assert_non_null(out_file);
    assert_non_null(errors_file);
    code = wp_ctl_main(wp_ctl_commands, n, words, out_file, errors_file);
    assert_int_equal(fclose(out_file), 0);
    assert_int_equal(fclose(errors_file), 0);
    return code;
}

/* The words, the exit code, what is printed, and where. */
struct printed {
    const char *const words[6];
    int code;
    const char *out;
    const char *errors;
};

static void
assert_printed(const struct printed *row, size_t number)
{
    char *out = NULL;
    char *errors = NULL;
    int code = run(row->words, &out, &errors);

    if (code != row->code ||
        (row->out != NULL ? strstr(out, row->out) == NULL : out[0] != '\0') ||
        (row->errors != NULL ? strstr(errors, row->errors) == NULL
                             : errors[0] != '\0')) {
        fail_msg("row %zu: code %d\nout: %s\nerrors: %s", number, code, out,
                 errors);
    }
    free(out);
    free(errors);
}

static void
test_main(void **state)
{
    static const struct printed rows[] = {
        {{"ctl"}, WP_EXIT_USAGE, NULL, "Commands:"},
        {{"ctl", "--help"}, WP_EXIT_OK, "Commands:", NULL},
        {{"ctl", "help"}, WP_EXIT_OK, "Commands:", NULL},
        {{"ctl", "help", "exec"}, WP_EXIT_OK, "Usage: warmpoolctl exec", NULL},
        {{"ctl", "claim", "-h"}, WP_EXIT_OK, "--all-or-nothing", NULL},
        {{"ctl", "--output", "json", "version"},
         WP_EXIT_OK,
         "\"version\"",
         NULL},
        {{"ctl", "clam"}, WP_EXIT_USAGE, NULL, "did you mean claim?"},
        {{"ctl", "claim"}, WP_EXIT_USAGE, NULL, "claim: expected POOL"},
        {{"ctl", "claim", "a", "b"}, WP_EXIT_USAGE, NULL, "'b' is too much"},
        {{"ctl", "claim", "a", "--all-or-nothing"},
         WP_EXIT_USAGE,
         NULL,
         "--all-or-nothing goes with --count"},
        {{"ctl", "exec", "id"}, WP_EXIT_EXEC_FAILED, NULL, "exec: expected ID"},
        {{"ctl", "cp", "a", "b"}, WP_EXIT_USAGE, NULL, "must be ID:PATH"},
        {{"ctl", "set", "a"}, WP_EXIT_USAGE, NULL, "--target or --autoscale"},
        {{"ctl", "set", "a", "--target", "x"},
         WP_EXIT_USAGE,
         NULL,
         "0 to 1048576"},
        {{"ctl", "set", "a", "-s", "min"},
         WP_EXIT_USAGE,
         NULL,
         "expected KEY=VALUE"},
        {{"ctl", "set", "a", "-s", "=3"},
         WP_EXIT_USAGE,
         NULL,
         "expected KEY=VALUE"},
        {{"ctl", "scale", "a", "-1"}, WP_EXIT_USAGE, NULL, "unknown option"},
        {{"ctl", "scale", "a", "1048577"}, WP_EXIT_USAGE, NULL, "0 to 1048576"},
        {{"ctl", "completion", "csh"}, WP_EXIT_USAGE, NULL, "bash, zsh or"},
        {{"ctl", "pools", "--address", "unix:rel"},
         WP_EXIT_USAGE,
         NULL,
         "absolute path"},
        {{"ctl", "pools", "--address", "192.0.2.1:1"},
         WP_EXIT_USAGE,
         NULL,
         "beyond loopback"},
        {{"ctl", "pools", "--tls-key", "k"},
         WP_EXIT_USAGE,
         NULL,
         "--tls-cert and --tls-key go together"},
        {{"ctl", "pools", "--tls-ca", "/no/such/file"},
         WP_EXIT_USAGE,
         NULL,
         "/no/such/file"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        assert_printed(&rows[i], i);
    }
}

/* Common options may come before the command, up to a "--". What looks like an
 * option after that is a command that there is not. */
static void
test_options_before_the_command(void **state)
{
    static const struct printed rows[] = {
        {{"ctl", "-ojson", "--output=name", "--", "version"},
         WP_EXIT_OK,
         ".",
         NULL},
        {{"ctl", "--", "-ojson", "claim", "a"},
         WP_EXIT_USAGE,
         NULL,
         "unknown command '-ojson'"},
        {{"ctl", "--", "--", "claim", "a"},
         WP_EXIT_USAGE,
         NULL,
         "unknown command '--'"},
        {{"ctl", "-", "claim"}, WP_EXIT_USAGE, NULL, "unknown command '-'"},
        {{"ctl", "--", "help"}, WP_EXIT_OK, "Commands:", NULL},
        {{"ctl", "--"}, WP_EXIT_USAGE, NULL, "Commands:"},
        {{"ctl", "-h", "--", "claim"}, WP_EXIT_OK, "--all-or-nothing", NULL},
        {{"ctl", "-o"}, WP_EXIT_USAGE, NULL, "--output needs a value"},
        {{"ctl", "--tll", "claim"}, WP_EXIT_USAGE, NULL, "option '--tll'"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        assert_printed(&rows[i], i);
    }
}

/* Nobody listens: exit code 4 and what to do about it; as JSON, for programs. */
static void
test_unreachable(void **state)
{
    static const char *const plain[] = {"ctl", "pools", "-a",
                                        "unix:/nonexistent/s", NULL};
    static const char *const json[] = {
        "ctl", "pools", "-o", "json", "-a", "unix:/nonexistent/s", NULL};
    char *out = NULL;
    char *errors = NULL;

    (void)state;
    assert_int_equal(run(plain, &out, &errors), WP_EXIT_UNAVAILABLE);
    assert_non_null(strstr(errors, "cannot reach warmpoold at "
                                   "unix:/nonexistent/s: there is no such"));
    assert_non_null(strstr(errors, "Is it running?"));
    free(out);
    free(errors);
    assert_int_equal(run(json, &out, &errors), WP_EXIT_UNAVAILABLE);
    assert_string_equal(out, "");
    assert_non_null(strstr(errors, "{\"error\":{\"code\":\"UNAVAILABLE\","));
    free(out);
    free(errors);
    wp_test_keeps_open(); /* gRPC has a poller of the process. */
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_spelling),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_end_of_options),
        cmocka_unit_test(test_rest),
        cmocka_unit_test(test_errors_name_the_word),
        cmocka_unit_test(test_takes_what_is_at_the_bounds),
        cmocka_unit_test(test_env_is_bounded),
        cmocka_unit_test(test_repeated_options_are_bounded),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_tables_are_consistent),
        cmocka_unit_test(test_help_is_the_commands_own),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_pool_names),
        cmocka_unit_test(test_main),
        cmocka_unit_test(test_options_before_the_command),
        cmocka_unit_test(test_unreachable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
