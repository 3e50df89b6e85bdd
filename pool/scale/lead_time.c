#include "pool/scale/lead_time.h"

#include <math.h>
#include <stdbool.h>

#include "pool/base/clock.h"
#include "pool/base/extreme.h"

enum {
    FINE_BINS = 128, /* 1 ms << 16: 65.5 s. */
    FINE_PER_OCTAVE = 8,
};

static const double FIRST_S = 0.001;
/* The unit is brought back to 1 long before a double would overflow. */
static const double UNIT_MAX = 1e100;
/* Standard errors between the two means from which on the short one is right:
 * the half-lives make about one independent look in each 300 measurements. */
static const double CONTRADICTS = 4;

void
wp_lead_time_init(struct wp_lead_time *lead)
{
    *lead = (struct wp_lead_time){.unit = 1};
}

static double
seconds_of(int64_t ns)
{
    return (double)wp_max_i64(ns, 0) / WP_NS_PER_S;
}

static unsigned
bin_of(double lead_s)
{
    double octaves = log2(lead_s / FIRST_S);
    double fine = octaves * FINE_PER_OCTAVE;
    double bin;

    if (!(fine > 0)) {
        return 0;
    }
    bin = fine < FINE_BINS
              ? fine
              : FINE_BINS + octaves - (double)FINE_BINS / FINE_PER_OCTAVE;
    return bin < WP_LEAD_BINS ? (unsigned)bin : WP_LEAD_BINS - 1;
}

/* Where bin begins; of WP_LEAD_BINS: where the last one ends. */
static double
bin_from_s(unsigned bin)
{
    if (bin == 0) {
        return 0;
    }
    if (bin <= FINE_BINS) {
        return FIRST_S * exp2((double)bin / FINE_PER_OCTAVE);
    }
    return FIRST_S *
           exp2((double)FINE_BINS / FINE_PER_OCTAVE + (bin - FINE_BINS));
}

static double
fade(double half_life)
{
    return exp2(-1 / half_life);
}

double
wp_lead_time_weight(const struct wp_lead_time *lead)
{
    return lead->total / lead->unit;
}

/* The long memory's mean is within what chance lets the short one be. */
static bool
long_holds(const struct wp_lead_time *lead)
{
    double mean = lead->long_sum_s / lead->long_total;
    double variance = lead->long_sum_s2 / lead->long_total - mean * mean;
    double error2 = variance / (wp_lead_time_weight(lead) + 1);
    double gap = lead->sum_s / lead->total - mean;

    return gap * gap <= CONTRADICTS * CONTRADICTS * error2 + 1e-12;
}

/* It was contradicted: it begins anew, with what the short memory holds. That
 * is part old, part new, so it gets a quarter of its weight, to count little
 * soon. */
static void
long_restart(struct wp_lead_time *lead)
{
    const double scale = 0.25 / lead->unit;

    lead->long_sum_s = lead->sum_s * scale;
    lead->long_total = lead->total * scale;
    lead->long_sum_s2 = 0;
    for (unsigned i = 0; i < WP_LEAD_BINS; i++) {
        double s = (bin_from_s(i) + bin_from_s(i + 1)) / 2;

        lead->long_sum_s2 += lead->weight[i] * scale * s * s;
    }
}

static void
rescale(struct wp_lead_time *lead)
{
    for (unsigned i = 0; i < WP_LEAD_BINS; i++) {
        lead->weight[i] /= lead->unit;
    }
    lead->sum_s /= lead->unit;
    lead->total /= lead->unit;
    lead->unit = 1;
}

void
wp_lead_time_add(struct wp_lead_time *lead, int64_t lead_ns)
{
    double s = seconds_of(lead_ns);
    double keep = fade((double)WP_LEAD_HALF_LIFE * WP_LEAD_LONG);

    lead->unit /= fade(WP_LEAD_HALF_LIFE);
    lead->weight[bin_of(s)] += lead->unit;
    lead->sum_s += lead->unit * s;
    lead->total += lead->unit;
    lead->measured++;
    lead->long_sum_s = lead->long_sum_s * keep + s;
    lead->long_sum_s2 = lead->long_sum_s2 * keep + s * s;
    lead->long_total = lead->long_total * keep + 1;
    if (!long_holds(lead)) {
        long_restart(lead);
    }
    if (lead->unit > UNIT_MAX) {
        rescale(lead);
    }
}

double
wp_lead_time_mean_s(const struct wp_lead_time *lead, int64_t prior_ns)
{
    if (lead->measured == 0) {
        return seconds_of(prior_ns);
    }
    return lead->long_sum_s / lead->long_total;
}

double
wp_lead_time_mean_square_s2(const struct wp_lead_time *lead, int64_t prior_ns)
{
    double mean_s = wp_lead_time_mean_s(lead, prior_ns);

    return lead->measured == 0 ? mean_s * mean_s
                               : lead->long_sum_s2 / lead->long_total;
}

double
wp_lead_time_quantile_s(const struct wp_lead_time *lead, double q,
                        int64_t prior_ns)
{
    double left = q * lead->total;

    if (lead->measured == 0) {
        return seconds_of(prior_ns);
    }
    for (unsigned i = 0; i < WP_LEAD_BINS; i++) {
        if (left <= lead->weight[i] && lead->weight[i] > 0) {
            double from = bin_from_s(i);

            return from + (bin_from_s(i + 1) - from) * left / lead->weight[i];
        }
        left -= lead->weight[i];
    }
    /* Rounding left a crumb: the end of the last bin that holds any. */
    for (unsigned i = WP_LEAD_BINS; i > 0; i--) {
        if (lead->weight[i - 1] > 0) {
            return bin_from_s(i);
        }
    }
    return 0;
}

void
wp_lead_time_ready(const struct wp_lead_time *lead, double step_s, unsigned n,
                   double *ready)
{
    double below = 0; /* Weight of the bins before this one. */
    double from = bin_from_s(0);
    double to = bin_from_s(1);
    unsigned bin = 0;

    for (unsigned i = 0; i < n; i++) {
        double s = step_s * i;

        while (bin < WP_LEAD_BINS && to <= s) {
            below += lead->weight[bin++];
            from = to;
            to = bin_from_s(bin + 1);
        }
        ready[i] = below;
        if (bin < WP_LEAD_BINS) {
            ready[i] += lead->weight[bin] * (s - from) / (to - from);
        }
        ready[i] = lead->total > 0 ? fmin(ready[i] / lead->total, 1) : 0;
    }
}
