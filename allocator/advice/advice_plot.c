#include <stdio.h>
#include <stdlib.h>

#include "pool/base/clock.h"
#include "allocator/advice/advice.h"
#include "allocator/advice/plot.h"

static int
compare_hits(const void *a, const void *b)
{
    const struct wp_plot_point *x = a;
    const struct wp_plot_point *y = b;

    return x->y < y->y ? -1 : x->y > y->y ? 1 : 0;
}

/* The rows of a kind, from the fewest hits to the most. */
static uint32_t
points_of(const struct wp_advice_row *rows, uint32_t n_rows,
          enum wp_advice_kind kind, struct wp_plot_point *out)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < n_rows; i++) {
        if (rows[i].kind == kind && rows[i].done) {
            out[n++] =
                (struct wp_plot_point){rows[i].result.idle_mean,
                                       rows[i].result.hit_rate, rows[i].name};
        }
    }
    qsort(out, n, sizeof *out, compare_hits);
    return n;
}

char *
wp_advice_svg(const char *pool, const struct wp_advice_facts *facts,
              const struct wp_advice_row *rows, uint32_t n_rows, size_t *len)
{
    static const struct {
        const char *name;
        enum wp_plot_style style;
    } KINDS[WP_ADVICE_KIND_COUNT] = {
        /* In the order drawn; the first two take the first two colours. */
        [WP_ADVICE_TODAY] = {"today's setting", WP_PLOT_STAR},
        [WP_ADVICE_OURS] = {"warmpool, by objective", WP_PLOT_LINE},
        [WP_ADVICE_FIXED] = {"fixed sizes", WP_PLOT_LINE},
        [WP_ADVICE_CLAIRVOYANT] = {"knowing every claim", WP_PLOT_POINTS},
        [WP_ADVICE_OTHER] = {"others", WP_PLOT_POINTS},
    };
    static const enum wp_advice_kind ORDER[] = {
        WP_ADVICE_OURS, WP_ADVICE_FIXED, WP_ADVICE_TODAY, WP_ADVICE_CLAIRVOYANT,
        WP_ADVICE_OTHER};
    struct wp_plot_point points[WP_ADVICE_KIND_COUNT][WP_ADVICE_ROWS_MAX];
    struct wp_plot_series series[WP_ADVICE_KIND_COUNT];
    uint32_t n = 0;
    char title[160];
    char reading[400];
    struct wp_plot plot = {
        .title = title,
        .reading = reading,
        .x_label = "idle: mean number of ready sandboxes",
        .y_label = "claims served at once",
        .x_scale = WP_PLOT_LOG,
        .y_scale = WP_PLOT_NINES,
        .series = series,
    };

    if (n_rows > WP_ADVICE_ROWS_MAX) {
        n_rows = WP_ADVICE_ROWS_MAX;
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(ORDER); i++) {
        uint32_t n_points = points_of(rows, n_rows, ORDER[i], points[n]);

        if (n_points > 0) {
            series[n] = (struct wp_plot_series){KINDS[ORDER[i]].name,
                                                KINDS[ORDER[i]].style,
                                                points[n], n_points};
            n++;
        }
    }
    plot.n_series = n;
    (void)snprintf(title, sizeof title,
                   "What it costs %s to have sandboxes ready", pool);
    (void)snprintf(
        reading, sizeof reading,
        "%llu claims of %.1f hours, each mark one way to size the pool: the "
        "further up, the more claims find a sandbox ready; the further left, "
        "the fewer sandboxes stand idle for it. Up and left is better; marks "
        "at the upper edge missed none.",
        (unsigned long long)facts->claims, (double)facts->known_ns / 3600e9);
    return wp_plot_svg(&plot, len);
}
