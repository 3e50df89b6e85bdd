/* pool/scale/gaps.h - how regularly claims come: the spread of the time between
 * two of them, remembered for some hundreds.
 *
 * Claims that come evenly spaced need less stock than independent ones. What
 * says so is believed only beyond chance, and forgotten soon. One owner. */
#ifndef WP_POOL_SCALE_GAPS_H
#define WP_POOL_SCALE_GAPS_H

#include <stdint.h>

struct wp_gaps {
    double n; /* Faded sums over claims. */
    double sum_s;
    double squares_s2;
};

/* n claims came at once, gap_s after the one before. */
void wp_gaps_add(struct wp_gaps *gaps, double gap_s, uint32_t n);
/* The squared variation of the gaps, which is variance over mean of the counts
 * of a long time: 1 where claims may be independent, less where they are surely
 * more regular. */
double wp_gaps_spread(const struct wp_gaps *gaps);
/* Variance over mean of the number of orders under way, when each is replaced
 * at once and a lead time has the mean and the mean square given: 1 where
 * claims may be independent, less where they are surely more regular. */
double wp_gaps_peakedness(const struct wp_gaps *gaps, double lead_s,
                          double lead_s2);

#endif
