/* bench/scaling/outlook.h - what the controller said beforehand: the share of
 * claims that it expected to serve, as of its latest decision before each. */
#ifndef WP_BENCH_SCALING_OUTLOOK_H
#define WP_BENCH_SCALING_OUTLOOK_H

#include "allocator/advice/replay.h"

struct wp_outlook {
    struct wp_replay_policy ours;
    int64_t from_ns; /* Claims before are not counted. */
    double claims;
    double hits; /* Of these, as expected. */
};

/* Puts itself between *ours (wp_replay_policy_ours) and who replays it; ends
 * with its destroy. outlook outlives that. */
void wp_outlook_watch(struct wp_outlook *outlook, struct wp_replay_policy *ours,
                      int64_t from_ns);
/* The mean over the claims so far; 1: there were none. */
double wp_outlook_mean(const struct wp_outlook *outlook);

#endif
