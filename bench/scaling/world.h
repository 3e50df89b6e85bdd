/* bench/scaling/world.h - worlds that nobody tuned the autoscaler for: each is
 * drawn from its number. */
#ifndef WP_BENCH_SCALING_WORLD_H
#define WP_BENCH_SCALING_WORLD_H

#include "bench/scaling/figure.h"

struct wp_world {
    char name[32]; /* Its number, or its recipe's name. */
    char text[160];
    struct wp_trace_recipe recipe;
    struct wp_lead_regime regime;
};

/* How often claims come, how many come in a batch, how steeply, how far apart
 * batches are, how regular either is, how long a sandbox takes, and how many
 * can be made at once. claims_max: about so many claims at most, of at most
 * 50 000; with fewer the same world is shorter, as far as what recurs allows.
 * Measured is what comes after the third recurrence of
 * what recurs. */
struct wp_world wp_world_draw(unsigned number, uint32_t claims_max);
/* The recipe with leads of 8 s. */
struct wp_world wp_world_named(const struct wp_trace_recipe *recipe);

#endif
