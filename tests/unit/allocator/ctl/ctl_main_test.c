/* warmpoolctl's frame around its commands: which one runs with what, what is
 * said of a mistake or a failure, and the exit code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/ctl/ctl.h"
#include "allocator/ctl/run.h"
#include "pool/base/clock.h"
#include "tests/support/base/golden.h"

enum {
    WORDS_MAX = 8,
};

/* What the command "fail" fails with. */
static struct wp_err failure;
static int64_t retry_after_ns;

static int
run_fail(struct wp_ctl *ctl)
{
    return wp_ctl_fail(ctl, &failure, retry_after_ns);
}

/* Says what it was given. */
static int
run_show(struct wp_ctl *ctl)
{
    for (int i = 0; i < ctl->options.n_args; i++) {
        (void)fprintf(ctl->out, "operand %s\n", ctl->options.args[i]);
    }
    for (int i = 0; i < ctl->options.n_rest; i++) {
        (void)fprintf(ctl->out, "rest %s\n", ctl->options.rest[i]);
    }
    (void)fprintf(ctl->out, "timeout %lld ms, id %s\n",
                  (long long)(ctl->options.timeout_ns / WP_NS_PER_MS),
                  ctl->options.id != NULL ? ctl->options.id : "-");
    return 42;
}

static int
run_pool(struct wp_ctl *ctl)
{
    struct wp_wire_pool_ref pool;
    struct wp_err err;

    if (wp_ctl_pool_parse(ctl, ctl->options.args[0], &pool, &err) != WP_OK) {
        return wp_ctl_fail(ctl, &err, 0);
    }
    (void)fprintf(ctl->out, "namespace '%s' pool '%s'\n",
                  pool.pool_namespace.ptr != NULL ? pool.pool_namespace.ptr
                                                  : "",
                  pool.name.ptr);
    return WP_EXIT_OK;
}

static const char *const with_id[] = {"id", NULL};
static const char *const none[] = {NULL};
static const struct wp_ctl_command commands[] = {
    {"show", "[ONE] TWO", "shows", "It shows.\n\nExamples:\n  show 1\n",
     with_id, 1, 2, false, WP_SUBJECT_NONE, run_show},
    {"rest", "ONE -- COMMAND", "runs", "It runs.\n\n", none, 1, 1, true,
     WP_SUBJECT_NONE, run_show},
    {"fail", "", "fails", "It fails.\n\n", none, 0, 0, false, WP_SUBJECT_NONE,
     run_fail},
    {"rest-fails", "ONE -- COMMAND", "fails", "It fails.\n\n", none, 1, 1, true,
     WP_SUBJECT_NONE, run_fail},
    {"pool", "POOL", "parses", "It parses.\n\n", none, 1, 1, false,
     WP_SUBJECT_POOL, run_pool},
    {.name = NULL},
};

/* Appends what is said to the command line of these words. */
static void
run(FILE *transcript, const char *const *words)
{
    char *copies[WORDS_MAX + 2] = {strdup("warmpoolctl")};
    char *args[WORDS_MAX + 2] = {copies[0]}; /* Moved by the parser. */
    char *out_text = NULL;
    char *errors_text = NULL;
    size_t out_len = 0;
    size_t errors_len = 0;
    FILE *out = open_memstream(&out_text, &out_len);
    FILE *errors = open_memstream(&errors_text, &errors_len);
    int n = 1;
    int code;

    assert_non_null(out);
    assert_non_null(errors);
    (void)fputc('$', transcript);
    for (; words[n - 1] != NULL; n++) {
        copies[n] = strdup(words[n - 1]);
        args[n] = copies[n];
        (void)fprintf(transcript, " %s", args[n]);
    }
    code = wp_ctl_main(commands, n, args, out, errors);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(fclose(errors), 0);
    (void)fprintf(transcript, "\n%s%s%s= %d\n\n", out_text,
                  errors_len > 0 ? "! " : "", errors_text, code);
    free(out_text);
    free(errors_text);
    for (int i = 0; i < n; i++) {
        free(copies[i]);
    }
}

static void
compare(FILE *transcript, char **text, const char *name)
{
    char path[4096];

    assert_int_equal(fclose(transcript), 0);
    (void)snprintf(path, sizeof path, "%s/%s.txt", WP_TEST_GOLDEN, name);
    golden_compare(*text, path);
    free(*text);
}

static void
test_command_lines(void **state)
{
    static const char *const lines[][WORDS_MAX] = {
        {NULL},
        {"help"},
        {"--help"},
        {"help", "show"},
        {"help", "nothing"},
        {"--help", "fail"},
        {"show", "--help"},
        {"show"},
        {"show", "1"},
        {"show", "1", "2", "--id", "x"},
        {"--timeout", "5s", "show", "1"},
        {"show", "1", "2", "3"},
        {"show", "--idd", "x", "1"},
        {"shwo", "1"},
        {"zzzzzzzz"},
        {"--zzz", "show"},
        {"rest", "1"},
        {"rest", "1", "--"},
        {"rest", "1", "--", "ls", "-l"},
        {"rest", "1", "ls", "--id"},
        {"rest", "--zzz"},
        {"pool", "p"},
        {"pool", "n-1/p.2"},
        {"pool", "n/"},
        {"pool", "/p"},
        {"pool", "N/p"},
        {"pool", "a/b/c"},
    };
    char *text = NULL;
    size_t len = 0;
    FILE *transcript = open_memstream(&text, &len);

    (void)state;
    assert_non_null(transcript);
    for (size_t i = 0; i < WP_ARRAY_LEN(lines); i++) {
        run(transcript, lines[i]);
    }
    compare(transcript, &text, "command_lines");
}

/* For people, and as JSON; of a command that runs another one, too. */
static void
test_failures(void **state)
{
    static const struct {
        enum wp_status status;
        int64_t retry_ns;
        const char *message;
    } rows[] = {
        {WP_UNAVAILABLE, 0, "cannot reach unix:/s: No such file"},
        {WP_UNAVAILABLE, 0, "cannot reach unix:/s: Permission denied"},
        {WP_UNAVAILABLE, 0, "cannot reach h: the connection was closed"},
        {WP_UNAVAILABLE, 0, "cannot reach h: Connection reset by peer"},
        {WP_UNAVAILABLE, 1, "the pool drains"},
        {WP_INTERNAL, 0, "cannot reach it, which is internal"},
        {WP_UNAUTHENTICATED, 0, "a call over TCP needs the token"},
        {WP_UNAUTHENTICATED, 0, "who are you"},
        {WP_INTERNAL, 0, "a call over TCP failed"},
        {WP_PERMISSION_DENIED, 0, "not yours"},
        {WP_PERMISSION_DENIED, 0, "the sandbox refuses: not yours"},
        {WP_NOT_FOUND, 0, "pool: 'x' does not exist"},
        {WP_NOT_FOUND, 0, "claim_id: no such claim is held"},
        {WP_FAILED_PRECONDITION, 0, "pool: 'x' drains"},
        {WP_INVALID_ARGUMENT, 0, "ttl_ms: too long"},
        {WP_INVALID_ARGUMENT, 0, "wait_ms: too long"},
        {WP_INVALID_ARGUMENT, 0, "claim_id: too long"},
        {WP_INVALID_ARGUMENT, 0, "tenant: too long"},
        {WP_INVALID_ARGUMENT, 0, "grace_ms: too long"},
        {WP_INVALID_ARGUMENT, 0, "target: too many"},
        {WP_INVALID_ARGUMENT, 0, "other: is wrong"},
        {WP_INTERNAL, 0, "ttl_ms: is internal"},
        {WP_RESOURCE_EXHAUSTED, 1500 * WP_NS_PER_MS, "nothing is ready"},
        {WP_RESOURCE_EXHAUSTED, WP_NS_PER_MS + 1, "nothing is ready"},
        {WP_DEADLINE_EXCEEDED, 0, "too late"},
        {WP_ALREADY_EXISTS, 0, "\"it\" is \x1b there"},
        {WP_CANCELLED, 0, "gone"},
    };
    static const char *const plain[] = {"fail", NULL};
    static const char *const json[] = {"fail", "-o", "json", NULL};
    static const char *const rest[] = {"rest-fails", "1", "--", "x", NULL};
    char *text = NULL;
    size_t len = 0;
    FILE *transcript = open_memstream(&text, &len);

    (void)state;
    assert_non_null(transcript);
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        (void)wp_err_set(&failure, rows[i].status, "%s", rows[i].message);
        retry_after_ns = rows[i].retry_ns;
        run(transcript, plain);
        run(transcript, json);
        if (i % 8 == 0) {
            run(transcript, rest);
        }
    }
    compare(transcript, &text, "failures");
}

static char *
said(int argc, char **args, int *code)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    assert_non_null(out);
    *code = wp_ctl_main(commands, argc, args, out, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

/* Who starts it may leave out even its name. */
static void
test_no_words_at_all(void **state)
{
    char *nameless[] = {NULL, (char[]){"fail"}, NULL};
    char *wordless[] = {(char[]){"warmpoolctl"}, NULL};
    int code;
    int expected_code;
    char *text = said(0, nameless, &code);
    char *expected = said(1, wordless, &expected_code);

    (void)state;
    assert_string_equal(text, expected);
    assert_int_equal(code, expected_code);
    free(text);
    free(expected);
}

int
main(void)
{
    static const char *const names[] = {"WARMPOOL_ADDRESS", "WARMPOOL_HTTP",
                                        "WARMPOOL_TENANT",
                                        "WARMPOOL_ACCESS_TOKEN_FILE"};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_command_lines),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_no_words_at_all),
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(names); i++) {
        (void)unsetenv(names[i]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
