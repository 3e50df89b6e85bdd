/* pool/scale/ahead.h - how soon what is announced has to be ordered.
 *
 * One job alone is ordered so long ahead that next to none of its sandboxes is
 * late. Where announced demand follows on announced demand that is more than it
 * takes: sandboxes are alike, and those ordered for what follows serve in place
 * of late ones. There each is ordered only as early as the mean lead time asks,
 * and what lead times and claims waver by, all together.
 *
 * Deterministic; what a call costs has a bound, whatever is announced. One
 * owner. */
#ifndef WP_POOL_SCALE_AHEAD_H
#define WP_POOL_SCALE_AHEAD_H

#include <stdint.h>

#include "pool/scale/lead_time.h"
#include "pool/scale/reservation.h"

struct wp_ahead {
    const struct wp_reservations *reservations; /* Borrowed, as is the next. */
    const struct wp_lead_time *lead;
    int64_t prior_lead_ns;
    int64_t wall_ns;
    double spare; /* Stock for what comes unannounced, beyond what is expected:
                   * it may make up for late ones. */
    double miss;  /* The share of misses that the objective allows; in 0..1. */
};

/* How many must be in stock or on order now; and when that changes next, or has
 * to be looked at again (wall; WP_TIME_NEVER: never). *ordered_ns is the
 * owner's to keep, at first 0: what begins until then (wall) is on order, and
 * stays so, since an order taken back is a sandbox made for nothing. */
uint32_t wp_ahead_due(const struct wp_ahead *ahead, int64_t *ordered_ns,
                      int64_t *changes_at_ns);

#endif
