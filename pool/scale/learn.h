/* pool/scale/learn.h - traffic that no formula fits: what one lead time asked
 * for, depending on what the one before it had asked for.
 *
 * A state is how much was needed of late (an octave each), and whether a burst
 * is due (bursts.h); those in which none is come first. For each there is kept,
 * fading: how many claims came that needed so much stock, and for how long so
 * much was needed. From that the stock of all states follows
 * together: the misses that the objective allows are spent where a sandbox more
 * would idle the longest for each miss it saves. Calm times get little, the
 * first sign of a burst gets all of it.
 *
 * Made only for pools that need it: it is the larger part of a scaler's memory.
 * One owner. */
#ifndef WP_POOL_SCALE_LEARN_H
#define WP_POOL_SCALE_LEARN_H

#include <stdbool.h>
#include <stdint.h>

enum {
    WP_LEARN_LEVELS = 16, /* 0, 1, 2..3, 4..7, ... */
    WP_LEARN_STATES = 2 * WP_LEARN_LEVELS,
    WP_LEARN_BINS = 112, /* 0..15, then 8 to an octave, to 64 k. */
};

struct wp_learn {
    float claims[WP_LEARN_STATES][WP_LEARN_BINS];
    float seconds[WP_LEARN_STATES][WP_LEARN_BINS];
    double unit;    /* Weight of what comes now; grows as the old fades. */
    double worth_s; /* Idle seconds that one miss is worth: found by solving. */
    /* States that are treated as one: the first of each one's group. Few
     * groups, since what a rare state was seen to need is mostly chance. */
    uint8_t group[WP_LEARN_STATES];
    double grouped_claims; /* Learned of when they were formed. */
    double grouped_s;
    /* What was solved last. */
    uint32_t stock[WP_LEARN_STATES];
    double missed; /* Share of all claims. */
    double idle;   /* Mean, with that stock. */
};

void wp_learn_init(struct wp_learn *learn);
/* The octave of a need: of the states the i-th in which no burst is due, or the
 * i-th of those in which one is. */
unsigned wp_learn_level(uint32_t need);
unsigned wp_learn_state(bool due, unsigned level);
/* n claims came in `state`, when `before` had come in the lead time. O(bins) at
 * most. */
void wp_learn_claims(struct wp_learn *learn, unsigned state, uint32_t before,
                     uint32_t n);
/* For dt_s so much was needed in `state`; what was learned before fades to a
 * half in half_life_s. */
void wp_learn_time(struct wp_learn *learn, unsigned state, uint32_t need,
                   double dt_s, double half_life_s);
/* The stock of all states such that a share of at most `miss` of the claims
 * finds none. A few steps of a search that goes on at the next call: O(states *
 * bins). */
void wp_learn_solve(struct wp_learn *learn, double miss);
/* The same for a price: each miss is worth so many idle seconds. */
void wp_learn_solve_cost(struct wp_learn *learn, double worth_s);
/* Seconds that a state was seen for, as far as not faded; and its group. */
double wp_learn_seen_s(const struct wp_learn *learn, unsigned state);
double wp_learn_group_s(const struct wp_learn *learn, unsigned state);

#endif
