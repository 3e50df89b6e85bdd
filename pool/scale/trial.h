/* pool/scale/trial.h - how the theory's stock would have done.
 *
 * Followed beside what is in force: each claim is held against the least stock
 * that the theory asked for in the lead time before it. One owner. */
#ifndef WP_POOL_SCALE_TRIAL_H
#define WP_POOL_SCALE_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

struct wp_trial {
    double claims; /* Faded sums. */
    double missed;
    double episodes; /* Of misses, apart from each other. */
    double since_s;  /* Time since the latest miss. */
    double apart_s;  /* Mean time between episodes; 0: not known. */
    bool failed;     /* As of the last question. */
};

/* Misses within apart_s of each other are one episode: one jump of the rate,
 * and be it a large one, does not make a theory wrong. Returns how many missed.
 */
uint32_t wp_trial_claims(struct wp_trial *trial, uint32_t stock,
                         uint32_t before, uint32_t n, double apart_s);
void wp_trial_time(struct wp_trial *trial, double dt_s);
/* The time in which what was seen fades to a half. It follows the time between
 * two episodes, from 6 hours to 60 days. */
double wp_trial_half_life_s(const struct wp_trial *trial);
/* It missed more than that, twice: time to look at what comes. */
bool wp_trial_doubts(const struct wp_trial *trial, double miss);
/* It missed more than that, by more than chance has it, again and again, and
 * more than apart_s apart: what it promises is not to be had, whether or not
 * enough was seen to do without it. */
bool wp_trial_belies(const struct wp_trial *trial, double miss, double apart_s);
/* It missed clearly more than a share of `miss`, and again and again; from then
 * on a little less is enough. */
bool wp_trial_fails(struct wp_trial *trial, double miss);

#endif
