#include "bench/harness/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/rng.h"

enum {
    DRAWS = 2000,
};

static int
compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

void
wp_stats_sort(double *values, uint64_t n)
{
    if (n > 0) {
        qsort(values, n, sizeof *values, compare);
    }
}

double
wp_stats_linear(const double *sorted, uint64_t n, double q)
{
    double at = q * (double)(n - 1);
    uint64_t below = (uint64_t)at;

    if (n == 0) {
        return 0;
    }
    if (below + 1 >= n) {
        return sorted[n - 1];
    }
    return sorted[below] +
           (at - (double)below) * (sorted[below + 1] - sorted[below]);
}

double
wp_stats_nearest(const double *sorted, uint64_t n, double q)
{
    uint64_t rank = (uint64_t)ceil(q * (double)n);

    if (n == 0) {
        return 0;
    }
    return sorted[rank == 0 ? 0 : rank - 1];
}

double
wp_stats_mean(const double *values, uint64_t n)
{
    double sum = 0;

    for (uint64_t i = 0; i < n; i++) {
        sum += values[i];
    }
    return n > 0 ? sum / (double)n : 0;
}

/* The most events of a window, per second of the window; a window longer than
 * all of it counts as all of it. */
static double
best_of(const double *sorted, uint64_t n, double window_s)
{
    double span = n > 0 ? sorted[n - 1] - sorted[0] : 0;
    double length = span < window_s ? span : window_s;
    uint64_t most = 0;
    uint64_t first = 0;

    for (uint64_t last = 0; last < n; last++) {
        while (sorted[last] - sorted[first] > window_s) {
            first++;
        }
        most = last - first + 1 > most ? last - first + 1 : most;
    }
    return length > 0 ? (double)most / length : 0;
}

void
wp_stats_rate(const double *sorted_s, uint64_t n, struct wp_stats_rate *out)
{
    uint64_t tenth = n / 10;
    double span;

    *out = (struct wp_stats_rate){.count = n};
    if (n == 0) {
        return;
    }
    out->duration_s = sorted_s[n - 1] - sorted_s[0];
    out->overall = out->duration_s > 0 ? (double)n / out->duration_s : 0;
    span = sorted_s[n - 1 - tenth] - sorted_s[tenth];
    out->steady = span > 0 ? (double)(n - 2 * tenth) / span : 0;
    out->best_10s = best_of(sorted_s, n, 10);
    out->best_60s = best_of(sorted_s, n, 60);
}

static double
median_of_draw(const double *values, uint64_t n, double *room,
               struct wp_rng *rng)
{
    for (uint64_t i = 0; i < n; i++) {
        room[i] = values[wp_rng_below(rng, n)];
    }
    wp_stats_sort(room, n);
    return wp_stats_linear(room, n, 0.5);
}

static bool
finish(double *draws, uint64_t n, struct wp_stats_ratio *out)
{
    if (n < DRAWS / 2) {
        return false;
    }
    wp_stats_sort(draws, n);
    out->low = wp_stats_linear(draws, n, 0.025);
    out->high = wp_stats_linear(draws, n, 0.975);
    return true;
}

static double
median(const double *values, uint64_t n, double *room)
{
    memcpy(room, values, n * sizeof *room);
    wp_stats_sort(room, n);
    return wp_stats_linear(room, n, 0.5);
}

bool
wp_stats_ratio(const double *a, uint64_t n_a, const double *b, uint64_t n_b,
               struct wp_stats_ratio *out)
{
    double *room = calloc(n_a + n_b + 1, sizeof *room);
    double draws[DRAWS];
    struct wp_rng rng;
    uint64_t n = 0;
    double base;
    bool ok = false;

    WP_ASSERT(room != NULL);
    wp_rng_init(&rng, 1);
    base = n_a > 0 ? median(a, n_a, room) : 0;
    if (base > 0 && n_b > 0) {
        out->ratio = median(b, n_b, room) / base;
        for (int i = 0; i < DRAWS; i++) {
            double x = median_of_draw(a, n_a, room, &rng);

            if (x > 0) {
                draws[n++] = median_of_draw(b, n_b, room, &rng) / x;
            }
        }
        ok = finish(draws, n, out);
    }
    free(room);
    return ok;
}

bool
wp_stats_ratio_paired(const double *a, const double *b, uint64_t n,
                      struct wp_stats_ratio *out)
{
    double *ratios = calloc(2 * n + 1, sizeof *ratios);
    double *room = ratios + n;
    double draws[DRAWS];
    struct wp_rng rng;
    uint64_t n_ratios = 0;
    bool ok = false;

    WP_ASSERT(ratios != NULL);
    wp_rng_init(&rng, 1);
    for (uint64_t i = 0; i < n; i++) {
        if (a[i] > 0) {
            ratios[n_ratios++] = b[i] / a[i];
        }
    }
    if (n_ratios > 0) {
        out->ratio = median(ratios, n_ratios, room);
        for (int i = 0; i < DRAWS; i++) {
            draws[i] = median_of_draw(ratios, n_ratios, room, &rng);
        }
        ok = finish(draws, DRAWS, out);
    }
    free(ratios);
    return ok;
}
