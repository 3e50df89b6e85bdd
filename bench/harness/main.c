/* warmpool-load: a load of claims, and what became of them. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "bench/harness/compare.h"
#include "bench/harness/help.h"
#include "bench/harness/ladders.h"
#include "bench/harness/report.h"
#include "bench/harness/scenario.h"
#include "bench/load/signals.h"
#include "pool/base/nearest.h"

enum {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_NOT_FOUND = 3,
    EXIT_UNAVAILABLE = 4,
    EXIT_SIGNALLED = 128,
    WORDS_MAX = 128,
};

struct command {
    struct wp_plan plan;
    struct wp_plan_word words[WORDS_MAX];
    size_t n_words;
    const char *pool;
};

static int
usage_error(const struct wp_err *err)
{
    (void)fprintf(stderr,
                  "warmpool-load: %s\n"
                  "warmpool-load --help explains all options.\n",
                  err->msg);
    return EXIT_USAGE;
}

/* --- The command line. --- */

static const struct wp_key *
key_of(const char *word, size_t len, char letter)
{
    for (size_t i = 0; letter != '\0' && i < wp_plan_n_keys; i++) {
        if (wp_plan_keys[i].letter == letter) {
            return &wp_plan_keys[i];
        }
    }
    return letter != '\0' ? NULL : wp_plan_key((struct wp_str){word, len});
}

static enum wp_status
unknown_option(const char *word, size_t len, struct wp_err *err)
{
    struct wp_nearest nearest;

    wp_nearest_init(&nearest, (struct wp_str){word, len});
    for (size_t i = 0; i < wp_plan_n_keys; i++) {
        wp_nearest_offer(&nearest, wp_plan_keys[i].name);
        if (wp_plan_keys[i].alias != NULL) {
            wp_nearest_offer(&nearest, wp_plan_keys[i].alias);
        }
    }
    return wp_err_set(err, WP_INVALID_ARGUMENT, "unknown option '%.60s'%s%s",
                      word, nearest.best != NULL ? "; did you mean --" : "",
                      nearest.best != NULL ? nearest.best : "");
}

/* The option at argv[*at]; takes the next word when it is the value. */
static enum wp_status
take_option(struct command *command, int argc, char **argv, int *at,
            struct wp_err *err)
{
    const char *word = argv[*at];
    bool is_long = word[1] == '-';
    const char *name = is_long ? word + 2 : word + 1;
    const char *value = is_long ? strchr(name, '=') : NULL;
    size_t len = value != NULL ? (size_t)(value - name) : strlen(name);
    char letter = '\0';
    const struct wp_key *key;

    if (!is_long) {
        letter = name[0];
    }
    key = key_of(name, len, letter);
    if (key == NULL) {
        return unknown_option(name, len, err);
    }
    if (value != NULL) {
        value++;
    } else if (!is_long && name[1] != '\0') {
        value = name + 1;
    }
    if (key->type == WP_KEY_FLAG) {
        value = value != NULL ? value : "true";
    } else if (value == NULL) {
        if (*at + 1 >= argc) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "--%s needs a value: %s", key->name,
                              key->operand);
        }
        value = argv[++*at];
    }
    if (command->n_words == WORDS_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "too many options");
    }
    command->words[command->n_words++] = (struct wp_plan_word){key, value};
    if (wp_plan_set(&command->plan, key, value, err) != WP_OK) {
        return wp_err_wrap(err, "--%s", key->name);
    }
    return WP_OK;
}

static enum wp_status
read_command(struct command *command, int argc, char **argv, struct wp_err *err)
{
    wp_plan_init(&command->plan);
    for (int i = 1; i < argc; i++) {
        enum wp_status status = WP_OK;

        if (argv[i][0] == '-' && argv[i][1] != '\0') {
            status = take_option(command, argc, argv, &i, err);
        } else if (command->pool != NULL) {
            status = wp_err_set(err, WP_INVALID_ARGUMENT,
                                "'%.60s' is too much: one pool", argv[i]);
        } else {
            command->pool = argv[i];
            status = wp_plan_set_pool(&command->plan, argv[i], err);
        }
        if (status != WP_OK) {
            return status;
        }
    }
    return WP_OK;
}

/* --- What it writes. --- */

struct file_output {
    const char *path;
    void (*write)(const struct wp_run *run, FILE *out);
};

static bool
write_file(const char *path, const struct wp_run *run,
           const struct wp_check *check,
           void (*write)(const struct wp_run *run, FILE *out))
{
    FILE *file = fopen(path, "we");
    size_t len = strlen(path);
    bool ok = file != NULL;

    if (ok) {
        if (write != NULL) {
            write(run, file);
        } else {
            wp_report_page(run, check,
                           len > 4 && strcmp(path + len - 4, ".svg") == 0,
                           file);
        }
        ok = ferror(file) == 0;
        ok = fclose(file) == 0 && ok;
    }
    if (!ok) {
        (void)fprintf(stderr, "warmpool-load: cannot write %s: %s\n", path,
                      strerror(errno)); /* NOLINT(concurrency-mt-unsafe) */
    }
    return ok;
}

/* Can the file be made, or written where it is? */
static bool
is_writable(const char *path)
{
    char place[4096];
    const char *slash = strrchr(path, '/');
    struct stat st;

    if (stat(path, &st) == 0) {
        errno = S_ISDIR(st.st_mode) ? EISDIR : 0;
        return errno == 0 && access(path, W_OK) == 0;
    }
    (void)snprintf(place, sizeof place, "%.*s",
                   slash == NULL   ? 1
                   : slash == path ? 1
                                   : (int)(slash - path),
                   slash == NULL ? "." : path);
    return errno == ENOENT && access(place, W_OK | X_OK) == 0;
}

/* Said before the load, not after an hour of it. */
static bool
check_outputs(const struct wp_plan *plan)
{
    const char *const paths[] = {plan->hgrm, plan->pkb, plan->pkb_records,
                                 plan->summary, plan->report};

    for (size_t i = 0; i < WP_ARRAY_LEN(paths); i++) {
        if (paths[i] != NULL && !is_writable(paths[i])) {
            (void)fprintf(stderr, "warmpool-load: cannot write %s: %s\n",
                          paths[i],
                          strerror(errno)); /* NOLINT(concurrency-mt-unsafe) */
            return false;
        }
    }
    return true;
}

static bool
write_outputs(const struct wp_run *run, const struct wp_check *check)
{
    const struct wp_plan *plan = run->plan;
    const struct file_output files[] = {
        {plan->hgrm, wp_report_hgrm},
        {plan->pkb, wp_report_pkb},
        {plan->pkb_records, wp_report_pkb_records},
        {plan->summary, wp_report_summary},
        {plan->report, NULL},
    };
    json_t *json;
    bool ok = true;

    switch (plan->output) {
    case WP_PLAN_TABLE:
        wp_report_text(run, check, stdout);
        break;
    case WP_PLAN_JSON:
        json = wp_report_json(run, check);
        ok = json_dumpf(json, stdout,
                        JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0;
        (void)fputc('\n', stdout);
        json_decref(json);
        break;
    case WP_PLAN_JSONL:
        wp_report_jsonl(run, stdout);
        break;
    case WP_PLAN_CSV:
        wp_report_csv(run, stdout);
        break;
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(files); i++) {
        if (files[i].path != NULL) {
            ok &= write_file(files[i].path, run, check, files[i].write);
        }
    }
    if (fflush(stdout) != 0 || ferror(stdout) != 0) {
        (void)fputs("warmpool-load: cannot write the output\n", stderr);
        ok = false;
    }
    return ok;
}

/* An exit code that nobody who reads the output trusts in vain. */
static int
flushed(int code)
{
    if (fflush(stdout) == 0 && ferror(stdout) == 0) {
        return code;
    }
    (void)fputs("warmpool-load: cannot write the output\n", stderr);
    return code == EXIT_DONE ? EXIT_FAILED : code;
}

/* For those who read no table. */
static void
tell_breaches(const struct wp_run *run, const struct wp_check *check)
{
    if (run->plan->output != WP_PLAN_TABLE) {
        for (uint32_t i = 0; i < check->n_breaches; i++) {
            (void)fprintf(stderr, "warmpool-load: %s\n", check->breach[i]);
        }
        if (run->signal != 0) {
            (void)fputs("warmpool-load: cut short by a signal: what was seen "
                        "until then\n",
                        stderr);
        }
    }
    if (run->err.status != WP_OK) {
        (void)fprintf(stderr, "warmpool-load: %s\n", run->err.msg);
    }
}

static int
exit_code(const struct wp_run *run, const struct wp_check *check, bool written)
{
    if (run->signal != 0) {
        return EXIT_SIGNALLED + run->signal;
    }
    switch (wp_status_grpc_code(run->err.status)) {
    case 0:
        break;
    case 3: /* INVALID_ARGUMENT */
        return EXIT_USAGE;
    case 5: /* NOT_FOUND */
        return EXIT_NOT_FOUND;
    case 14: /* UNAVAILABLE */
        return EXIT_UNAVAILABLE;
    default:
        return EXIT_FAILED;
    }
    return check->n_breaches > 0 || !written ? EXIT_FAILED : EXIT_DONE;
}

/* --- The run. --- */

static enum wp_status
prepare(struct command *command, struct wp_region *region, struct wp_run *run)
{
    struct wp_plan *plan = &command->plan;
    struct wp_phases phases = {.max = WP_RUN_PHASES_MAX};
    enum wp_status status;

    run->phases = calloc(WP_RUN_PHASES_MAX, sizeof *run->phases);
    if (run->phases == NULL) {
        return wp_err_set(&run->err, WP_RESOURCE_EXHAUSTED, "out of memory");
    }
    phases.plans = run->phases;
    status = wp_scenario_phases(plan, command->words, command->n_words, &phases,
                                &run->err);
    run->n_phases = phases.n;
    *region = phases.region;
    if (status == WP_OK) {
        status = wp_run_read_times(run, &run->err);
    }
    if (status != WP_OK) {
        return status;
    }
    wp_signals_block(); /* Files may be pipes that nobody writes: not before. */
    plan->turns = run->phases[0].turns;
    plan->leave = run->phases[0].leave;
    run->plan = plan;
    for (uint32_t i = 0; i < (plan->against != NULL ? 2U : 1U); i++) {
        run->n_targets = i + 1;
        status = wp_target_open(&run->targets[i], plan, i == 1, &run->err);
        if (status != WP_OK) {
            return status;
        }
    }
    return WP_OK;
}

static int
run_load(struct command *command)
{
    static struct wp_check check;
    struct wp_run run = {.plan = &command->plan};
    struct wp_region region = {.blocks = NULL};
    int code;

    if (prepare(command, &region, &run) != WP_OK) {
        code = usage_error(&run.err);
    } else if (!check_outputs(&command->plan)) {
        code = EXIT_FAILED;
    } else {
        wp_run(&run);
        wp_check_run(&run, &check);
        if (run.err.status == WP_OK || run.outcomes[0].tally->due > 0) {
            bool written = write_outputs(&run, &check);

            tell_breaches(&run, &check);
            code = exit_code(&run, &check, written);
        } else {
            (void)fprintf(stderr, "warmpool-load: %s\n", run.err.msg);
            code = exit_code(&run, &check, true);
        }
        if (code == EXIT_DONE && command->plan.against != NULL &&
            command->plan.output == WP_PLAN_TABLE) {
            json_t *json = wp_report_json(&run, &check);

            wp_compare_targets(json, stdout);
            json_decref(json);
            code = flushed(code);
        }
    }
    wp_run_fini(&run);
    wp_region_free(&region);
    return code;
}

int
main(int argc, char **argv)
{
    static struct command command;
    struct wp_err err = {.status = WP_OK};

    (void)signal(SIGPIPE, SIG_IGN);
    if (argc >= 2 && strcmp(argv[1], "compare") == 0) {
        return flushed(wp_compare_main(argc - 1, argv + 1));
    }
    if (argc >= 2 && strcmp(argv[1], "ladders") == 0) {
        return flushed(wp_ladders_main(argc - 1, argv + 1));
    }
    if (argc == 2 && strcmp(argv[1], "scenarios") == 0) {
        wp_help_scenarios(stdout);
        return flushed(EXIT_DONE);
    }
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        (void)puts("warmpool-load " WP_VERSION);
        return flushed(EXIT_DONE);
    }
    if (argc == 1) {
        wp_help_usage(stderr);
        return EXIT_USAGE;
    }
    if (read_command(&command, argc, argv, &err) != WP_OK) {
        return usage_error(&err);
    }
    if (command.plan.help) {
        wp_help_all(stdout);
        return flushed(EXIT_DONE);
    }
    return run_load(&command);
}
