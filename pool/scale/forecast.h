/* pool/scale/forecast.h - what the next lead time will ask for.
 *
 * Pure functions of what was seen (window.h, lead_time.h) and of the objective.
 * The terms are those of struct wp_scale_decision. */
#ifndef WP_POOL_SCALE_FORECAST_H
#define WP_POOL_SCALE_FORECAST_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/policy/policy.h"
#include "pool/scale/stock.h"
#include "pool/scale/window.h"

struct wp_forecast {
    double rate_per_s;
    double rate_fast_per_s; /* Over about one lead time. */
    double rate_slow_per_s; /* Over the longest window. */
    double lead_measured_s; /* The mean; the next one is no less than a
                             * quantum. */
    double lead_mean_s;
    double lead_p99_s;
    double expected;
    double dispersion;
    double leeway;  /* So many times the misses that are allowed are planned:
                     * fewer came than were. 1 or more. */
    int64_t due_ns; /* When a burst is due that is not now; or never. */
    uint32_t stock; /* Expected and spread, whole. */
    bool learned;
    bool burst;     /* Learned, and one is under way. */
    bool between;   /* Learned, and less than when a burst is due. */
    bool saturated; /* More are expected than can be made. */
};

/* The stock that the objective asks for, by rate, expected, dispersion and, for
 * a hit rate, leeway. At most max + 1: more is of no interest, and the cost
 * stays bounded. */
uint32_t wp_forecast_stock(const struct wp_forecast *forecast,
                           const struct wp_scale_policy *policy,
                           enum wp_miss miss);
/* The misses to expect of a stock when a claims are expected in a lead time,
 * with idc as their dispersion; and the mean number ready. */
double wp_forecast_miss(enum wp_miss miss, uint32_t stock, double a,
                        double idc);
double wp_forecast_idle(enum wp_miss miss, uint32_t stock, double a,
                        double idc);
/* Where only at_once are made at a time: more stock, as orders queue; but with
 * more claims than can be made no more than keeps all of them busy. */
void wp_forecast_fit(struct wp_forecast *forecast,
                     const struct wp_scale_policy *policy, enum wp_miss miss,
                     uint32_t at_once);
/* Fills all but dispersion, leeway, learned, due and stock. spread:
 * of the gaps between claims, by wp_gaps_spread. */
void wp_forecast_rates(struct wp_forecast *forecast,
                       const struct wp_windows *windows, double spread);

#endif
