/* bench/load/ladder.c - what a call costs, step by step: the bare socket, a gRPC
 * echo, a claim.
 *
 *   ladder compare   both servers, all transports and loads, a report
 *   ladder drive     one load on any server that runs already */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "bench/load/compare.h"
#include "bench/load/load.h"
#include "bench/load/procs.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/str.h"

static const char usage[] =
    "usage: ladder compare --echo-server PROGRAM --claim-server PROGRAM\n"
    "                      [--reps 5] [--seconds 0.7] [--rate 10000]\n"
    "                      [--in-flight 1,16,64,256] [--unix-only]\n"
    "       ladder drive --target unix:PATH|HOST:PORT [--echo]\n"
    "                    [--pool NAMESPACE/NAME] [--in-flight 1]\n"
    "                    [--connections 1] [--seconds 2 | --claims N]\n"
    "                    [--warmup SECONDS] [--rate CLAIMS_PER_S]\n"
    "                    [--pause-ms MS] [--wait-ms MS] [--keep] [--spin]\n"
    "                    [--server-pid PID] [--core N]\n";

/* Aborts the program with a sentence when text is not a number in range. */
static double
number(const char *name, const char *text, double min, double max)
{
    char *end;
    double value;

    errno = 0;
    value = strtod(text, &end);
    if (errno != 0 || end == text || *end != '\0' || value < min ||
        value > max) {
        (void)fprintf(stderr,
                      "ladder: --%s '%s': expected a number from %g to %g\n",
                      name, text, min, max);
        exit(2);
    }
    return value;
}

static int64_t
seconds_ns(const char *name, const char *text)
{
    return (int64_t)(number(name, text, 0, 3600) * 1e9);
}

/* --- compare --- */

static void
add_cell(struct wp_compare_config *config, struct wp_compare_cell cell)
{
    if (config->n_cells == WP_COMPARE_CELLS_MAX) {
        (void)fprintf(stderr, "ladder: at most %d cells\n",
                      WP_COMPARE_CELLS_MAX);
        exit(2);
    }
    config->cells[config->n_cells++] = cell;
}

/* For each transport: serial on one core, then each load on two; then one open
 * loop over several connections. */
static void
add_cells(struct wp_compare_config *config, const char *loads, bool unix_only,
          double rate)
{
    for (int tcp = 0; tcp <= !unix_only; tcp++) {
        char copy[128];
        char *save = NULL;

        if (!wp_str_copy(wp_str_from(loads), copy, sizeof(copy))) {
            (void)fprintf(stderr, "ladder: --in-flight is too long\n");
            exit(2);
        }
        for (char *part = strtok_r(copy, ",", &save); part != NULL;
             part = strtok_r(NULL, ",", &save)) {
            struct wp_compare_cell cell = {
                .tcp = tcp != 0,
                .in_flight =
                    (unsigned)number("in-flight", part, 1, WP_LOAD_WORKERS_MAX),
                .connections = 1,
            };

            if (cell.in_flight == 1) {
                cell.same_core = true;
                add_cell(config, cell);
                cell.same_core = false;
            }
            add_cell(config, cell);
        }
        if (rate > 0) {
            add_cell(config, (struct wp_compare_cell){
                                 .tcp = tcp != 0,
                                 .in_flight = 1024,
                                 .rate_per_s = rate,
                                 .connections = 4,
                             });
        }
    }
}

static void
parse_compare(int argc, char **argv, struct wp_compare_config *config)
{
    static const struct option options[] = {
        {"echo-server", required_argument, NULL, 'e'},
        {"claim-server", required_argument, NULL, 'c'},
        {"reps", required_argument, NULL, 'n'},
        {"seconds", required_argument, NULL, 's'},
        {"rate", required_argument, NULL, 'r'},
        {"in-flight", required_argument, NULL, 'i'},
        {"unix-only", no_argument, NULL, 'u'},
        {NULL, 0, NULL, 0},
    };
    const char *loads = "1,16,64,256";
    bool unix_only = false;
    double rate = 10000;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'e':
            config->echo_server = optarg;
            break;
        case 'c':
            config->claim_server = optarg;
            break;
        case 'n':
            config->reps =
                (unsigned)number("reps", optarg, 1, WP_COMPARE_REPS_MAX);
            break;
        case 's':
            config->run_ns = seconds_ns("seconds", optarg);
            break;
        case 'r':
            rate = number("rate", optarg, 0, 1e6);
            break;
        case 'i':
            loads = optarg;
            break;
        case 'u':
            unix_only = true;
            break;
        default:
            (void)fputs(usage, stderr);
            exit(2);
        }
    }
    if (config->echo_server == NULL || config->claim_server == NULL) {
        (void)fputs(usage, stderr);
        exit(2);
    }
    add_cells(config, loads, unix_only, rate);
}

static int
compare(int argc, char **argv)
{
    struct wp_compare_config config = {
        .reps = 5,
        .warmup_ns = 200 * WP_NS_PER_MS,
        .run_ns = 700 * WP_NS_PER_MS,
    };
    char directory[] = "/tmp/warmpool-ladder-XXXXXX";
    struct wp_err err = {0};
    enum wp_status status;

    parse_compare(argc, argv, &config);
    if (mkdtemp(directory) == NULL) {
        perror("ladder: mkdtemp");
        return 1;
    }
    config.directory = directory;
    status = wp_compare_run(&config, &err);
    /* A server that was killed leaves its socket behind. */
    for (int i = 0; i < 2; i++) {
        char path[96];

        (void)snprintf(path, sizeof(path), "%s/%s", directory,
                       i == 0 ? "echo" : "claim");
        (void)unlink(path);
    }
    (void)rmdir(directory);
    if (status != WP_OK) {
        (void)fprintf(stderr, "ladder: %s\n", err.msg);
        return 1;
    }
    return 0;
}

/* --- drive --- */

static void
print_hist(const char *name, const struct wp_hist *hist)
{
    (void)printf("| %s | %llu | %.1f | %.1f | %.1f | %.1f |\n", name,
                 (unsigned long long)hist->count,
                 (double)wp_hist_quantile_ns(hist, 0.5) / 1000,
                 (double)wp_hist_quantile_ns(hist, 0.99) / 1000,
                 (double)wp_hist_quantile_ns(hist, 0.999) / 1000,
                 (double)hist->max_ns / 1000);
}

static void
print_result(const struct wp_load_result *result)
{
    double calls = (double)wp_load_calls(result);

    (void)printf("| call | samples | p50 us | p99 us | p99.9 us | max us |\n"
                 "|---|---|---|---|---|---|\n");
    print_hist("Claim", &result->claim);
    print_hist("Release", &result->release);
    (void)printf("\n%.0f calls/s", wp_load_calls_per_s(result));
    if (result->server_cpu_ns > 0 && calls > 0) {
        (void)printf(", server CPU %.2f us a call",
                     (double)result->server_cpu_ns / 1000 / calls);
    }
    (void)printf(
        "; served warm %llu, queued %llu, cold %llu; failed %llu",
        (unsigned long long)result->warm, (unsigned long long)result->queued,
        (unsigned long long)result->cold, (unsigned long long)result->failed);
    for (unsigned code = 0; code < WP_ARRAY_LEN(result->failed_by_code);
         code++) {
        if (result->failed_by_code[code] > 0) {
            (void)printf(" (code %u: %llu)", code,
                         (unsigned long long)result->failed_by_code[code]);
        }
    }
    (void)printf("; wrong answers %llu, duplicates %llu\n",
                 (unsigned long long)result->bad_answers,
                 (unsigned long long)result->duplicates);
}

struct drive_options {
    struct wp_load_config load;
    char pool_namespace[64];
    int core;
};

static void
set_pool(struct drive_options *drive, char *text)
{
    char *slash = strchr(text, '/');

    drive->load.pool = slash != NULL ? slash + 1 : text;
    if (slash != NULL &&
        !wp_str_copy((struct wp_str){text, (size_t)(slash - text)},
                     drive->pool_namespace, sizeof(drive->pool_namespace))) {
        (void)fprintf(stderr, "ladder: --pool: the namespace is too long\n");
        exit(2);
    }
}

static void
set_drive_option(struct drive_options *drive, int option, char *value)
{
    struct wp_load_config *load = &drive->load;

    switch (option) {
    case 't':
        load->target = value;
        break;
    case 'e':
        load->echo = true;
        break;
    case 'p':
        set_pool(drive, value);
        break;
    case 'i':
        load->workers =
            (unsigned)number("in-flight", value, 1, WP_LOAD_WORKERS_MAX);
        break;
    case 'c':
        load->connections = (unsigned)number("connections", value, 1, 64);
        break;
    case 's':
        load->run_ns = seconds_ns("seconds", value);
        break;
    case 'n':
        load->claims_max = (uint64_t)number("claims", value, 1, 1e9);
        break;
    case 'w':
        load->warmup_ns = seconds_ns("warmup", value);
        break;
    case 'r':
        load->rate_per_s = number("rate", value, 0.001, 1e6);
        break;
    case 'P':
        load->pause_ns = (int64_t)(number("pause-ms", value, 0, 60000) * 1e6);
        break;
    case 'W':
        load->wait_ms = (uint64_t)number("wait-ms", value, 0, 600000);
        break;
    case 'k':
        load->keep = true;
        break;
    case 'b':
        load->spin = true;
        break;
    case 'S':
        load->server = (pid_t)number("server-pid", value, 1, 1 << 22);
        break;
    case 'C':
        drive->core = (int)number("core", value, 0, wp_proc_cores() - 1);
        break;
    default:
        (void)fputs(usage, stderr);
        exit(2);
    }
}

static int
drive(int argc, char **argv)
{
    static const struct option options[] = {
        {"target", required_argument, NULL, 't'},
        {"echo", no_argument, NULL, 'e'},
        {"pool", required_argument, NULL, 'p'},
        {"in-flight", required_argument, NULL, 'i'},
        {"connections", required_argument, NULL, 'c'},
        {"seconds", required_argument, NULL, 's'},
        {"claims", required_argument, NULL, 'n'},
        {"warmup", required_argument, NULL, 'w'},
        {"rate", required_argument, NULL, 'r'},
        {"pause-ms", required_argument, NULL, 'P'},
        {"wait-ms", required_argument, NULL, 'W'},
        {"keep", no_argument, NULL, 'k'},
        {"spin", no_argument, NULL, 'b'},
        {"server-pid", required_argument, NULL, 'S'},
        {"core", required_argument, NULL, 'C'},
        {NULL, 0, NULL, 0},
    };
    static struct wp_load_result result;
    struct drive_options drive = {
        .load = {.pool = "bench",
                 .connections = 1,
                 .workers = 1,
                 .run_ns = 2 * WP_NS_PER_S},
        .pool_namespace = "default",
        .core = WP_PROC_ANY_CORE,
    };
    struct wp_seen seen;
    struct wp_err err = {0};
    enum wp_status status;
    char machine[256];
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        set_drive_option(&drive, option, optarg);
    }
    if (drive.load.target == NULL ||
        (drive.load.pause_ns > 0 && drive.load.workers != 1)) {
        (void)fputs(usage, stderr);
        return 2;
    }
    WP_ASSERT(wp_seen_init(&seen, 16));
    drive.load.seen = &seen;
    drive.load.pool_namespace = drive.pool_namespace;
    wp_proc_machine(machine, sizeof(machine));
    (void)printf("Machine: %s.\n\n", machine);
    if (drive.core != WP_PROC_ANY_CORE && !wp_proc_pin(0, drive.core)) {
        (void)fprintf(stderr, "ladder: cannot pin to core %d\n", drive.core);
        return 1;
    }
    status = wp_load_run(&drive.load, &result, &err);
    print_result(&result);
    wp_seen_fini(&seen);
    if (status != WP_OK) {
        (void)fprintf(stderr, "ladder: %s\n", err.msg);
        return 1;
    }
    return result.duplicates > 0 || result.bad_answers > 0;
}

int
main(int argc, char **argv)
{
    (void)signal(SIGPIPE, SIG_IGN);
    if (argc >= 2 && strcmp(argv[1], "compare") == 0) {
        return compare(argc - 1, argv + 1);
    }
    if (argc >= 2 && strcmp(argv[1], "drive") == 0) {
        return drive(argc - 1, argv + 1);
    }
    (void)fputs(usage, stderr);
    return 2;
}
