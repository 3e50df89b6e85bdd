/* How the target was, moment after moment: some of them are kept, as far apart
 * as the length of the phase asks for. */
#include "bench/harness/run.h"
#include "bench/harness/stats.h"

void
wp_outcome_add_stock(struct wp_outcome *outcome, const struct wp_stock *now)
{
    uint32_t n = outcome->n_stock;

    if (n > 0 &&
        now->at_ns - outcome->stock[n - 1].at_ns < outcome->stock_apart_ns) {
        return;
    }
    if (n == WP_STOCK_MAX) { /* Every second one goes, from now on, too. */
        int64_t span_ns = now->at_ns - outcome->stock[0].at_ns;

        for (uint32_t i = 0; i < WP_STOCK_MAX / 2; i++) {
            outcome->stock[i] = outcome->stock[2 * i];
        }
        n = WP_STOCK_MAX / 2;
        outcome->stock_apart_ns = span_ns / n;
    }
    outcome->stock[n] = *now;
    outcome->n_stock = n + 1;
}

static double
median(double *v, uint32_t n)
{
    wp_stats_sort(v, n);
    return v[n / 2];
}

/* Of n moments. */
static double
median_bytes(const struct wp_stock *stock, uint32_t n)
{
    double bytes[WP_STOCK_MAX];

    for (uint32_t i = 0; i < n; i++) {
        bytes[i] = (double)stock[i].rss_bytes;
    }
    return median(bytes, n);
}

static int32_t
median_descriptors(const struct wp_stock *stock, uint32_t n)
{
    double descriptors[WP_STOCK_MAX];

    for (uint32_t i = 0; i < n; i++) {
        descriptors[i] = stock[i].descriptors;
    }
    return (int32_t)median(descriptors, n);
}

bool
wp_outcome_growth(const struct wp_outcome *outcome, struct wp_growth *out)
{
    const struct wp_stock *stock = outcome->stock;
    uint32_t n = outcome->n_stock;
    uint32_t tenth;

    while (n > 0 && stock->at_ns < 0) {
        stock++;
        n--;
    }
    tenth = n / 10;
    if (tenth == 0) {
        return false;
    }
    out->first_bytes = median_bytes(stock, tenth);
    out->last_bytes = median_bytes(stock + n - tenth, tenth);
    out->first_descriptors = median_descriptors(stock, tenth);
    out->last_descriptors = median_descriptors(stock + n - tenth, tenth);
    return out->first_bytes > 0 && out->last_bytes > 0;
}
