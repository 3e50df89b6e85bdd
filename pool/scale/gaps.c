#include "pool/scale/gaps.h"

#include <math.h>

/* Claims after which a gap counts for half. */
static const double HALF_LIFE = 256;
/* A spread is taken to be so many standard errors larger than it looks. */
static const double SURE = 3;
/* No traffic is as regular as to need no spread at all. */
static const double LEAST = 0.05;

void
wp_gaps_add(struct wp_gaps *gaps, double gap_s, uint32_t n)
{
    double keep = exp2(-(double)n / HALF_LIFE);

    gaps->n = gaps->n * keep + n;
    gaps->sum_s = gaps->sum_s * keep + gap_s;
    gaps->squares_s2 = gaps->squares_s2 * keep + gap_s * gap_s;
}

double
wp_gaps_spread(const struct wp_gaps *gaps)
{
    double mean_s = gaps->n > 0 ? gaps->sum_s / gaps->n : 0;
    double spread;

    if (!(mean_s > 0)) {
        return 1;
    }
    /* Of exponential gaps the square of their variation wavers by 8 / n. */
    spread = fmax(gaps->squares_s2 / gaps->n / (mean_s * mean_s) - 1, 0);
    spread = spread * (1 + SURE * sqrt(8 / gaps->n)) + 8 / gaps->n;
    return fmin(fmax(spread, LEAST), 1);
}

double
wp_gaps_peakedness(const struct wp_gaps *gaps, double lead_s, double lead_s2)
{
    double spread = wp_gaps_spread(gaps);
    double shared;

    if (spread >= 1 || !(lead_s > 0)) {
        return 1;
    }
    /* z = 1 + (c^2 - 1) E[min(L, L')] / E[L]; the last of these for a lognormal
     * law of lead times: erfc(sigma / 2). */
    shared = erfc(sqrt(log(fmax(lead_s2 / (lead_s * lead_s), 1))) / 2);
    return fmax(1 + (spread - 1) * shared, LEAST);
}
