#include "bench/load/compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/load/floor.h"
#include "bench/load/load.h"
#include "bench/load/procs.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"

enum {
    ECHO,
    CLAIM,
    SERVERS,
    SEEN_BITS = 22,
};

/* What is kept of one run; one column of the report each. */
enum metric {
    M_CALLS_PER_S,
    M_CLAIM_P50,
    M_CLAIM_P99,
    M_CLAIM_P999,
    M_CLAIM_MAX,
    M_RELEASE_P50,
    M_SERVER_CPU, /* us per call */
    M_CLIENT_CPU,
    M_SAMPLES, /* Claims. */
    METRICS,
};

static const char *const metric_names[METRICS] = {
    "calls/s",
    "claim p50 us",
    "p99",
    "p99.9",
    "max",
    "release p50",
    "server CPU us/call",
    "client CPU us/call",
    "claims",
};
static const int metric_decimals[METRICS] = {0, 1, 1, 1, 0, 1, 2, 2, 0};

struct compare {
    const struct wp_compare_config *config;
    struct wp_proc procs[SERVERS];
    struct wp_seen seen;
    double values[WP_COMPARE_CELLS_MAX][SERVERS][METRICS][WP_COMPARE_REPS_MAX];
    struct wp_load_result result; /* Of the last run. */
    size_t lens[4];               /* Requests and replies of Claim, Release. */
    uint64_t claims;
    uint64_t warm;
    uint64_t failed;
    uint64_t duplicates;
    uint64_t bad_answers;
};

static int
compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;

    return a < b ? -1 : a > b;
}

struct spread {
    double min;
    double median;
    double max;
};

static struct spread
spread_of(const double *values, unsigned n)
{
    double sorted[WP_COMPARE_REPS_MAX];

    memcpy(sorted, values, n * sizeof(*values));
    qsort(sorted, n, sizeof(*sorted), compare_doubles);
    return (struct spread){sorted[0], (sorted[(n - 1) / 2] + sorted[n / 2]) / 2,
                           sorted[n - 1]};
}

static double
us(int64_t ns)
{
    return (double)ns / 1000.0;
}

static void
keep(struct compare *cmp, unsigned cell, unsigned server, unsigned rep)
{
    const struct wp_load_result *r = &cmp->result;
    double calls = (double)wp_load_calls(r);
    const double values[METRICS] = {
        [M_CALLS_PER_S] = wp_load_calls_per_s(r),
        [M_CLAIM_P50] = us(wp_hist_quantile_ns(&r->claim, 0.5)),
        [M_CLAIM_P99] = us(wp_hist_quantile_ns(&r->claim, 0.99)),
        [M_CLAIM_P999] = us(wp_hist_quantile_ns(&r->claim, 0.999)),
        [M_CLAIM_MAX] = us(r->claim.max_ns),
        [M_RELEASE_P50] = us(wp_hist_quantile_ns(&r->release, 0.5)),
        [M_SERVER_CPU] = us(r->server_cpu_ns) / calls,
        [M_CLIENT_CPU] = us(r->client_cpu_ns) / calls,
        [M_SAMPLES] = (double)r->claim.count,
    };

    for (unsigned m = 0; m < METRICS; m++) {
        cmp->values[cell][server][m][rep] = values[m];
    }
    cmp->failed += r->failed;
    if (server == CLAIM) {
        cmp->claims += r->claim.count;
        cmp->warm += r->warm;
        cmp->duplicates += r->duplicates;
        cmp->bad_answers += r->bad_answers;
    }
}

static enum wp_status
run_cell(struct compare *cmp, unsigned cell_index, unsigned server,
         unsigned rep, struct wp_err *err)
{
    const struct wp_compare_cell *cell = &cmp->config->cells[cell_index];
    const struct wp_proc *proc = &cmp->procs[server];
    struct wp_load_config load = {
        .target = cell->tcp ? proc->tcp_target : proc->unix_target,
        .echo = server == ECHO,
        .pool_namespace = "default",
        .pool = "bench",
        .connections = cell->connections,
        .workers = cell->in_flight,
        .rate_per_s = cell->rate_per_s,
        .warmup_ns = cmp->config->warmup_ns,
        .run_ns = cmp->config->run_ns,
        .spin = !cell->same_core && cell->in_flight > 1,
        .server = proc->pid,
        .seen = &cmp->seen,
    };
    enum wp_status status;

    if (!wp_proc_pin(proc->pid, 0) ||
        !wp_proc_pin(0, cell->same_core ? 0 : wp_proc_cores() - 1)) {
        return wp_err_set(err, WP_INTERNAL, "cannot pin to a core");
    }
    status = wp_load_run(&load, &cmp->result, err);
    keep(cmp, cell_index, server, rep);
    return status;
}

/* One claim and one release tell how long the messages are, so that the echo
 * server can send as much. */
static enum wp_status
start_servers(struct compare *cmp, struct wp_err *err)
{
    const struct wp_compare_config *config = cmp->config;
    char path[SERVERS][96];
    char len[2][24];
    const char *claim_argv[] = {config->claim_server, "--unix", path[CLAIM],
                                NULL};
    const char *echo_argv[] = {
        config->echo_server, "--unix", path[ECHO], "--claim-reply", len[0],
        "--release-reply",   len[1],   NULL};
    struct wp_load_config probe = {
        .pool_namespace = "default",
        .pool = "bench",
        .connections = 1,
        .workers = 1,
        .claims_max = 100,
        .wait_ms = 5000,
        .seen = &cmp->seen,
    };
    enum wp_status status;

    (void)snprintf(path[CLAIM], sizeof(path[CLAIM]), "%s/claim",
                   config->directory);
    (void)snprintf(path[ECHO], sizeof(path[ECHO]), "%s/echo",
                   config->directory);
    status = wp_proc_start(&cmp->procs[CLAIM], claim_argv, path[CLAIM], err);
    if (status != WP_OK) {
        return status;
    }
    probe.target = cmp->procs[CLAIM].unix_target;
    status = wp_load_run(&probe, &cmp->result, err);
    if (status != WP_OK) {
        return status;
    }
    if (cmp->result.claim.count != probe.claims_max) {
        return wp_err_set(
            err, WP_FAILED_PRECONDITION, "only %u of %u claims were granted",
            (unsigned)cmp->result.claim.count, (unsigned)probe.claims_max);
    }
    cmp->lens[0] = cmp->result.claim_request_len;
    cmp->lens[1] = cmp->result.claim_reply_len;
    cmp->lens[2] = cmp->result.release_request_len;
    cmp->lens[3] = cmp->result.release_reply_len;
    (void)snprintf(len[0], sizeof(len[0]), "%zu", cmp->lens[1]);
    (void)snprintf(len[1], sizeof(len[1]), "%zu", cmp->lens[3]);
    return wp_proc_start(&cmp->procs[ECHO], echo_argv, path[ECHO], err);
}

/* --- The report. --- */

static void
print_load(const struct wp_compare_cell *cell)
{
    (void)printf("| %s, %s | ", cell->tcp ? "TCP" : "Unix",
                 cell->same_core ? "same core" : "split cores");
    if (cell->rate_per_s > 0) {
        (void)printf("%.0f claims/s, open | ", cell->rate_per_s);
    } else {
        (void)printf("%u in flight | ", cell->in_flight);
    }
}

static void
print_spread(struct spread s, int decimals)
{
    (void)printf(" %.*f (%.*f-%.*f) |", decimals, s.median, decimals, s.min,
                 decimals, s.max);
}

static void
print_cell(const struct compare *cmp, unsigned cell)
{
    static const char *const names[SERVERS] = {"echo", "claim"};
    unsigned reps = cmp->config->reps;

    for (unsigned server = 0; server < SERVERS; server++) {
        print_load(&cmp->config->cells[cell]);
        (void)printf("%s |", names[server]);
        for (unsigned m = 0; m < METRICS; m++) {
            print_spread(spread_of(cmp->values[cell][server][m], reps),
                         metric_decimals[m]);
        }
        (void)printf("\n");
    }
    print_load(&cmp->config->cells[cell]);
    (void)printf("claim / echo |");
    for (unsigned m = 0; m < METRICS; m++) {
        double ratios[WP_COMPARE_REPS_MAX];

        for (unsigned rep = 0; rep < reps; rep++) {
            double echo = cmp->values[cell][ECHO][m][rep];

            ratios[rep] =
                echo > 0 ? cmp->values[cell][CLAIM][m][rep] / echo : 0;
        }
        print_spread(spread_of(ratios, reps), 2);
    }
    (void)printf("\n");
}

static void
print_report(const struct compare *cmp)
{
    (void)printf("\nMessages in bytes: Claim %zu and %zu, Release %zu and %zu; "
                 "the echo's are as long.\nMedian (least-most) of %u "
                 "repetitions of %.1f s each, echo and claim by turns.\n\n",
                 cmp->lens[0], cmp->lens[1], cmp->lens[2], cmp->lens[3],
                 cmp->config->reps, (double)cmp->config->run_ns * 1e-9);
    (void)printf("| where | load | server |");
    for (unsigned m = 0; m < METRICS; m++) {
        (void)printf(" %s |", metric_names[m]);
    }
    (void)printf("\n|---|---|---|");
    for (unsigned m = 0; m < METRICS; m++) {
        (void)printf("---|");
    }
    (void)printf("\n");
    for (unsigned cell = 0; cell < cmp->config->n_cells; cell++) {
        print_cell(cmp, cell);
    }
    (void)printf(
        "\n%llu claims granted, %.2f %% of them warm; %llu calls "
        "failed; %llu wrong answers; %llu duplicates.\n",
        (unsigned long long)cmp->claims,
        cmp->claims > 0 ? 100.0 * (double)cmp->warm / (double)cmp->claims : 0.0,
        (unsigned long long)cmp->failed, (unsigned long long)cmp->bad_answers,
        (unsigned long long)cmp->duplicates);
}

static enum wp_status
print_floor(const struct compare *cmp, struct wp_err *err)
{
    struct wp_hist hist;

    (void)printf("\n| raw socket ping-pong, %zu bytes | p50 us | p99 us |\n"
                 "|---|---|---|\n",
                 cmp->lens[1]);
    for (int i = 0; i < 4; i++) {
        bool tcp = i >= 2;
        bool same = i % 2 == 0;
        struct wp_floor_config config = {
            .tcp = tcp,
            .message_len = cmp->lens[1],
            .server_core = 0,
            .client_core = same ? 0 : wp_proc_cores() - 1,
            .run_ns = cmp->config->run_ns,
        };
        enum wp_status status = wp_floor_run(&config, &hist, err);

        if (status != WP_OK) {
            return status;
        }
        (void)printf("| %s, %s | %.1f | %.1f |\n", tcp ? "TCP" : "Unix",
                     same ? "same core" : "split cores",
                     us(wp_hist_quantile_ns(&hist, 0.5)),
                     us(wp_hist_quantile_ns(&hist, 0.99)));
    }
    return WP_OK;
}

static enum wp_status
run_all(struct compare *cmp, struct wp_err *err)
{
    const struct wp_compare_config *config = cmp->config;
    enum wp_status status = start_servers(cmp, err);

    for (unsigned rep = 0; status == WP_OK && rep < config->reps; rep++) {
        for (unsigned cell = 0; status == WP_OK && cell < config->n_cells;
             cell++) {
            /* Who goes first changes too. */
            unsigned first = (rep + cell) % SERVERS;

            status = run_cell(cmp, cell, first, rep, err);
            if (status == WP_OK) {
                status = run_cell(cmp, cell, SERVERS - 1 - first, rep, err);
            }
        }
        (void)fprintf(stderr, "repetition %u of %u done\n", rep + 1,
                      config->reps);
    }
    if (status == WP_OK) {
        status = print_floor(cmp, err);
    }
    return status;
}

enum wp_status
wp_compare_run(const struct wp_compare_config *config, struct wp_err *err)
{
    struct compare *cmp = calloc(1, sizeof(*cmp));
    enum wp_status status;
    char machine[256];
    bool clean;

    WP_ASSERT(config->n_cells <= WP_COMPARE_CELLS_MAX && config->reps > 0 &&
              config->reps <= WP_COMPARE_REPS_MAX);
    WP_ASSERT(cmp != NULL && wp_seen_init(&cmp->seen, SEEN_BITS));
    cmp->config = config;
    wp_proc_machine(machine, sizeof(machine));
    (void)printf("Machine: %s.\n", machine);
    status = run_all(cmp, err);
    wp_proc_pin(0, WP_PROC_ANY_CORE);
    clean = wp_proc_stop(&cmp->procs[ECHO]);
    clean = wp_proc_stop(&cmp->procs[CLAIM]) && clean;
    if (status == WP_OK) {
        print_report(cmp);
        if (!clean) {
            status = wp_err_set(err, WP_INTERNAL,
                                "a server did not end as it should");
        } else if (cmp->duplicates > 0 || cmp->bad_answers > 0) {
            status = wp_err_set(err, WP_INTERNAL,
                                "there were duplicates or wrong answers");
        }
    }
    wp_seen_fini(&cmp->seen);
    free(cmp);
    return status;
}
