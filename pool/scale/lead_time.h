/* pool/scale/lead_time.h - how long an order takes to become ready, measured.
 *
 * A histogram of logarithmic bins that forgets: each new measurement fades the
 * older ones (half of their weight after WP_LEAD_HALF_LIFE of them), so that a
 * new image or a busy node is believed within minutes. The mean, on which the
 * stock hangs most, is also kept over a memory WP_LEAD_LONG times as long, and
 * that one is believed as long as the short one does not contradict it: a slow
 * one in twenty makes a short mean waver by a sixth. One owner. */
#ifndef WP_POOL_SCALE_LEAD_TIME_H
#define WP_POOL_SCALE_LEAD_TIME_H

#include <stdint.h>

enum {
    WP_LEAD_HALF_LIFE = 200, /* Measurements. */
    WP_LEAD_BINS = 136,      /* Eight to an octave from 1 ms on to a minute,
                              * then one to an octave, to four hours. */
    WP_LEAD_LONG = 16,
};

struct wp_lead_time {
    double weight[WP_LEAD_BINS];
    double sum_s; /* Faded like the weights. */
    double total;
    double unit; /* Weight of the next one: grows instead of all others
                  * shrinking; rescaled before it overflows. */
    uint64_t measured;
    double long_sum_s; /* Of the long memory: plain decayed moments. */
    double long_sum_s2;
    double long_total;
};

void wp_lead_time_init(struct wp_lead_time *lead);
/* Negative ones count as 0. O(1), now and then O(bins). */
void wp_lead_time_add(struct wp_lead_time *lead, int64_t lead_ns);
/* Before the first measurement all of these say what prior_ns is. */
double wp_lead_time_mean_s(const struct wp_lead_time *lead, int64_t prior_ns);
/* The mean of their squares, over the same memory as the mean. */
double wp_lead_time_mean_square_s2(const struct wp_lead_time *lead,
                                   int64_t prior_ns);
/* Of the faded distribution; 0 < q < 1. O(bins). */
double wp_lead_time_quantile_s(const struct wp_lead_time *lead, double q,
                               int64_t prior_ns);
/* The share of the faded distribution that is ready after 0, 1 ... n - 1 steps.
 * O(bins + n). 0 throughout before the first measurement. */
void wp_lead_time_ready(const struct wp_lead_time *lead, double step_s,
                        unsigned n, double *ready);
/* Effective number of measurements: at most about WP_LEAD_HALF_LIFE / ln 2. */
double wp_lead_time_weight(const struct wp_lead_time *lead);

#endif
