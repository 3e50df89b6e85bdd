#include "bench/harness/ladders.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#include "allocator/advice/plot.h"
#include "bench/harness/compare.h"
#include "bench/harness/run.h"
#include "pool/base/assert.h"

enum {
    RUNS_MAX = 7, /* As many lines as can be told apart. */
    EXIT_USAGE = 2,
};

#define GOAL_MS 1.0
#define REACHED 0.95 /* Of the rate asked for. */

struct ladder {
    const char *path;
    char name[32]; /* The file's, without what is around it. */
    struct wp_plot_point points[WP_RUN_PHASES_MAX];
    uint32_t n;
    double within; /* Claims a second with a p99 below the goal; 0: none. */
    double most;
};

static void
name_of(const char *path, char *out, size_t cap)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(base, '.');

    (void)snprintf(out, cap, "%.*s", dot != NULL ? (int)(dot - base) : (int)cap,
                   base);
}

/* False: it was told what is wrong. */
static bool
read_ladder(const char *path, struct ladder *out)
{
    json_t *run = wp_compare_load(path);
    const json_t *phase;
    size_t i;

    *out = (struct ladder){.path = path};
    name_of(path, out->name, sizeof out->name);
    json_array_foreach(json_object_get(run, "phases"), i, phase)
    {
        const json_t *load = json_object_get(phase, "load");
        double asked = json_number_value(json_object_get(load, "rate_per_s"));
        double granted =
            json_number_value(json_object_get(phase, "granted_per_s"));
        double p99_ms = json_number_value(
            json_object_get(json_object_get(phase, "claim"), "p99_ms"));

        if (granted <= 0 || out->n == WP_RUN_PHASES_MAX ||
            strcmp(json_string_value(json_object_get(phase, "target")), "A") !=
                0) {
            continue;
        }
        out->points[out->n++] = (struct wp_plot_point){granted, p99_ms, NULL};
        out->most = granted > out->most ? granted : out->most;
        if (p99_ms < GOAL_MS && granted >= REACHED * asked &&
            granted > out->within) {
            out->within = granted;
        }
    }
    if (run != NULL && out->n == 0) {
        (void)fprintf(stderr, "warmpool-load: %s: no claim was granted\n",
                      path);
    }
    json_decref(run);
    return out->n > 0;
}

static bool
draw(const char *path, const struct ladder *ladders, uint32_t n)
{
    struct wp_plot_series series[RUNS_MAX];
    const struct wp_plot plot = {
        .title = "p99 of a claim over load",
        .reading = "Each step of the load is a dot: how many claims a second "
                   "were granted, and how long the slowest of a hundred took "
                   "from when they were due. Where a line turns up, the target "
                   "has had enough.",
        .x_label = "claims granted a second",
        .y_label = "p99 of a claim (ms)",
        .x_scale = WP_PLOT_LOG,
        .y_scale = WP_PLOT_LOG,
        .series = series,
        .n_series = n,
    };
    FILE *file = fopen(path, "we");
    size_t len = 0;
    char *svg;
    bool ok;

    for (uint32_t i = 0; i < n; i++) {
        series[i] = (struct wp_plot_series){ladders[i].name, WP_PLOT_LINE,
                                            ladders[i].points, ladders[i].n};
    }
    svg = wp_plot_svg(&plot, &len);
    ok = file != NULL && svg != NULL && fwrite(svg, 1, len, file) == len;
    free(svg);
    ok = file != NULL && fclose(file) == 0 && ok;
    if (!ok) {
        (void)fprintf(stderr, "warmpool-load: cannot write %s: %s\n", path,
                      strerror(errno)); /* NOLINT(concurrency-mt-unsafe) */
    }
    return ok;
}

int
wp_ladders_main(int argc, char **argv)
{
    static struct ladder ladders[RUNS_MAX];
    uint32_t n = argc > 2 ? (uint32_t)argc - 2 : 0;
    bool help = argc == 2 && strcmp(argv[1], "--help") == 0;
    size_t len = argc > 1 ? strlen(argv[1]) : 0;
    struct stat st;

    if (n == 0 || n > RUNS_MAX || argv[1][0] == '-') {
        (void)fputs(
            "Usage: warmpool-load ladders OUT.svg A.json [B.json ...]\n"
            "Puts up to 7 runs with several rates, which --output json wrote, "
            "beside each\nother: a table, and a plot of p99 over load.\n",
            help ? stdout : stderr);
        return help ? 0 : EXIT_USAGE;
    }
    /* Else a run whose plot was forgotten would be written over. A device may
     * be called as it likes. */
    if ((len < 4 || strcmp(argv[1] + len - 4, ".svg") != 0) &&
        stat(argv[1], &st) == 0 && S_ISREG(st.st_mode)) {
        (void)fprintf(stderr,
                      "warmpool-load: ladders: expected OUT.svg first, found "
                      "'%.120s'\n",
                      argv[1]);
        return EXIT_USAGE;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!read_ladder(argv[2 + i], &ladders[i])) {
            return EXIT_USAGE;
        }
    }
    (void)puts("| run | claims/s, p99 below 1 ms | claims/s, at most |\n"
               "|---|---|---|");
    for (uint32_t i = 0; i < n; i++) {
        char within[24] = "none";

        if (ladders[i].within > 0) {
            (void)snprintf(within, sizeof within, "%.0f", ladders[i].within);
        }
        (void)printf("| %s | %s | %.0f |\n", ladders[i].name, within,
                     ladders[i].most);
    }
    return draw(argv[1], ladders, n) ? 0 : 1;
}
