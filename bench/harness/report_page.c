/* A page of one file: the figures, and plots by the code that draws advise's. */
#include <stdlib.h>

#include "allocator/advice/plot.h"
#include "bench/harness/report.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"

enum {
    POINTS_MAX = WP_STOCK_MAX,
    SERIES_MAX = 6,
    DRAWN_MAX = 12, /* Outcomes with a timeline of their own. */
};

/* What one plot draws. */
struct canvas {
    struct wp_plot_point points[SERIES_MAX][POINTS_MAX];
    struct wp_plot_series series[SERIES_MAX];
    uint32_t n;
};

static void
begin_series(struct canvas *canvas, const char *name)
{
    WP_ASSERT(canvas->n < SERIES_MAX);
    canvas->series[canvas->n] = (struct wp_plot_series){
        name, WP_PLOT_LINE, canvas->points[canvas->n], 0};
    canvas->n++;
}

static void
add_point(struct canvas *canvas, double x, double y)
{
    struct wp_plot_series *s = &canvas->series[canvas->n - 1];

    if (s->n_points < POINTS_MAX) {
        canvas->points[canvas->n - 1][s->n_points++] =
            (struct wp_plot_point){x, y, NULL};
    }
}

static void
draw(struct canvas *canvas, struct wp_plot *plot, FILE *out)
{
    size_t len;
    char *svg;

    plot->series = canvas->series;
    plot->n_series = canvas->n;
    svg = wp_plot_svg(plot, &len);
    if (svg != NULL) {
        (void)fwrite(svg, 1, len, out);
    }
    free(svg);
    canvas->n = 0;
}

static bool
has_rates(const struct wp_run *run)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < run->n_outcomes; i++) {
        n += run->outcomes[i].target == 0 && run->outcomes[i].turn == 0 &&
             run->outcomes[i].plan->rate_per_s > 0 &&
             run->outcomes[i].tally->granted > 0;
    }
    return n > 1;
}

static void
draw_ladder(const struct wp_run *run, struct canvas *canvas, FILE *out)
{
    static const struct {
        const char *name;
        double q;
    } lines[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}};
    struct wp_plot plot = {
        .title = "Latency over load",
        .reading = "Each step of the load is a dot: how many claims a second "
                   "were granted, and how long they took from when they were "
                   "due. Where the lines turn up, the target has had enough.",
        .x_label = "claims granted a second",
        .y_label = "latency of a claim (ms)",
        .x_scale = WP_PLOT_LOG,
        .y_scale = WP_PLOT_LOG,
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(lines); i++) {
        begin_series(canvas, lines[i].name);
        for (uint32_t k = 0; k < run->n_outcomes; k++) {
            const struct wp_outcome *o = &run->outcomes[k];

            if (o->target == 0 && o->turn == 0 && o->tally->granted > 0) {
                add_point(
                    canvas, wp_tally_rate(o->tally),
                    (double)wp_hist_quantile_ns(&o->tally->claim, lines[i].q) /
                        1e6);
            }
        }
    }
    draw(canvas, &plot, out);
}

static void
draw_percentiles(const struct wp_run *run, struct canvas *canvas, FILE *out)
{
    static const double quantiles[] = {0.5,  0.75,  0.9,   0.95,   0.975,
                                       0.99, 0.995, 0.999, 0.9995, 0.9999};
    static const char *const names[] = {"1st", "2nd", "3rd",
                                        "4th", "5th", "6th"};
    char name[SERIES_MAX][WP_PLAN_NAME_MAX + 8];
    struct wp_plot plot = {
        .title = "Latency of the claims",
        .reading = "How long claims took from when they were due: the share "
                   "on the lower axis took no longer than the line says. "
                   "Lower is better.",
        .x_label = "share of claims",
        .y_label = "latency of a claim (ms)",
        .x_scale = WP_PLOT_NINES,
        .y_scale = WP_PLOT_LOG,
    };

    for (uint32_t k = 0; k < run->n_outcomes && canvas->n < SERIES_MAX; k++) {
        const struct wp_outcome *o = &run->outcomes[k];

        (void)snprintf(name[canvas->n], sizeof name[0], "%s %s", o->plan->name,
                       run->n_outcomes > 1 ? names[canvas->n] : "");
        begin_series(canvas, name[canvas->n]);
        for (size_t i = 0; i < WP_ARRAY_LEN(quantiles); i++) {
            /* No more digits than there are samples for. */
            if ((double)o->tally->claim.count * (1 - quantiles[i]) >= 1) {
                add_point(canvas, quantiles[i],
                          (double)wp_hist_quantile_ns(&o->tally->claim,
                                                      quantiles[i]) /
                              1e6);
            }
        }
    }
    draw(canvas, &plot, out);
}

static void
draw_timeline(const struct wp_outcome *o, struct canvas *canvas, FILE *out)
{
    const struct wp_slices *s = &o->tally->slices;
    double width_s = (double)s->width_ns / 1e9;
    struct wp_plot plot = {
        .title = "Rate over time",
        .reading = "Claims that were due and claims that were granted, a "
                   "second. Where granted is below due, claims wait or fail.",
        .x_label = "time since the warm-up (s)",
        .y_label = "claims a second",
    };

    begin_series(canvas, "due");
    for (uint32_t i = 0; i < s->n; i++) {
        add_point(canvas, i * width_s, (double)s->slice[i].due / width_s);
    }
    begin_series(canvas, "granted");
    for (uint32_t i = 0; i < s->n; i++) {
        add_point(canvas, i * width_s, (double)s->slice[i].granted / width_s);
    }
    draw(canvas, &plot, out);
    plot.title = "Hits over time";
    plot.reading = "The share of the granted claims that found a sandbox "
                   "ready.";
    plot.y_label = "hits (% of granted claims)";
    begin_series(canvas, "hits");
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->slice[i].granted > 0) {
            add_point(canvas, i * width_s,
                      100 * (double)s->slice[i].warm /
                          (double)s->slice[i].granted);
        }
    }
    draw(canvas, &plot, out);
}

static void
draw_stock(const struct wp_outcome *o, struct canvas *canvas, FILE *out)
{
    struct wp_plot plot = {
        .title = "Stock over time",
        .reading = "Sandboxes that are ready, and claims that wait for one, as "
                   "the target tells ten times a second.",
        .x_label = "time since the warm-up (s)",
        .y_label = "sandboxes, claims",
    };

    if (o->n_stock == 0 || !o->stock[0].told) {
        return;
    }
    begin_series(canvas, "ready");
    for (uint32_t i = 0; i < o->n_stock; i++) {
        add_point(canvas, (double)o->stock[i].at_ns / 1e9, o->stock[i].ready);
    }
    begin_series(canvas, "waiting");
    for (uint32_t i = 0; i < o->n_stock; i++) {
        add_point(canvas, (double)o->stock[i].at_ns / 1e9, o->stock[i].waiting);
    }
    draw(canvas, &plot, out);
}

static void
put_escaped(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&':
            (void)fputs("&amp;", out);
            break;
        case '<':
            (void)fputs("&lt;", out);
            break;
        case '>':
            (void)fputs("&gt;", out);
            break;
        default:
            (void)fputc(*text, out);
        }
    }
}

static void
put_table(const struct wp_run *run, FILE *out)
{
    static const double quantiles[] = {0.5, 0.9, 0.99, 0.999};
    char text[16];

    (void)fputs("<table><tr><th>phase</th><th>granted</th><th>of</th><th>a "
                "second</th><th>warm</th><th>p50</th><th>p90</th><th>p99</th>"
                "<th>p99.9</th><th>max</th></tr>\n",
                out);
    for (uint32_t i = 0; i < run->n_outcomes; i++) {
        const struct wp_outcome *o = &run->outcomes[i];
        const struct wp_tally *t = o->tally;

        (void)fprintf(out,
                      "<tr><td>%s%s</td><td>%llu</td><td>%llu</td><td>%.4g</td>"
                      "<td>%.4g %%</td>",
                      o->plan->name,
                      run->n_targets > 1 ? (o->target ? ", B" : ", A") : "",
                      (unsigned long long)t->granted,
                      (unsigned long long)t->due, wp_tally_rate(t),
                      t->granted > 0
                          ? 100 * (double)t->served[1] / (double)t->granted
                          : 0.0);
        for (size_t k = 0; k < WP_ARRAY_LEN(quantiles); k++) {
            (void)fprintf(
                out, "<td>%s</td>",
                wp_report_time(wp_hist_quantile_ns(&t->claim, quantiles[k]),
                               text));
        }
        (void)fprintf(out, "<td>%s</td></tr>\n",
                      wp_report_time(t->claim.max_ns, text));
    }
    (void)fputs("</table>\n", out);
}

static void
put_check(const struct wp_check *check, FILE *out)
{
    (void)fputs("<ul>\n", out);
    for (uint32_t i = 0; i < check->n_breaches; i++) {
        (void)fputs("<li><b>Breach:</b> ", out);
        put_escaped(out, check->breach[i]);
        (void)fputs("</li>\n", out);
    }
    for (uint32_t i = 0; i < check->n_doubts; i++) {
        (void)fputs("<li>Note: ", out);
        put_escaped(out, check->doubt[i]);
        (void)fputs("</li>\n", out);
    }
    if (check->n_breaches == 0) {
        (void)fputs("<li>All checks passed.</li>\n", out);
    }
    (void)fputs("</ul>\n", out);
}

void
wp_report_page(const struct wp_run *run, const struct wp_check *check, bool svg,
               FILE *out)
{
    struct canvas *canvas = calloc(1, sizeof *canvas);

    WP_ASSERT(canvas != NULL);
    if (!svg) {
        (void)fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta "
                    "charset=\"utf-8\"/>\n<title>warmpool-load</title>\n"
                    "<style>body{font-family:sans-serif;max-width:60em;"
                    "margin:2em auto;padding:0 1em}table{border-collapse:"
                    "collapse}td,th{padding:.2em .7em;text-align:right}"
                    "svg{max-width:100%;height:auto}</style></head><body>\n"
                    "<h1>warmpool-load</h1>\n<p>",
                    out);
        put_escaped(out, run->machine);
        (void)fprintf(out, "%s</p>\n",
                      run->signal != 0 ? ". <b>Cut short by a signal.</b>"
                                       : "");
        put_table(run, out);
        put_check(check, out);
    }
    if (has_rates(run)) {
        draw_ladder(run, canvas, out);
    } else {
        draw_percentiles(run, canvas, out);
    }
    for (uint32_t i = 0; !svg && i < run->n_outcomes && i < DRAWN_MAX; i++) {
        (void)fprintf(out, "<h2>%s</h2>\n", run->outcomes[i].plan->name);
        draw_timeline(&run->outcomes[i], canvas, out);
        draw_stock(&run->outcomes[i], canvas, out);
    }
    if (!svg) {
        (void)fputs("</body></html>\n", out);
    }
    free(canvas);
}
