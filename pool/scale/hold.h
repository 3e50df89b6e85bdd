/* pool/scale/hold.h - scaling down slowly: what was needed a while ago may be
 * needed again.
 *
 * Two brakes. The window: the stock stays at what the claims of any lead time
 * within it took (what they took, not what was forecast: forecasts waver, and
 * the highest of many would be held for ever). The rate: at most so much of the
 * target goes in WP_HOLD_STEP_NS. One owner. */
#ifndef WP_POOL_SCALE_HOLD_H
#define WP_POOL_SCALE_HOLD_H

#include <stdint.h>

#include "pool/base/clock.h"

enum {
    WP_HOLD_PARTS = 8, /* The window is kept to an eighth. */
};

#define WP_HOLD_STEP_NS (30 * WP_NS_PER_S)

struct wp_hold {
    uint32_t needed[WP_HOLD_PARTS]; /* The most, part by part of the window. */
    int64_t part;                   /* Number of the latest part. */
    int64_t part_ns;                /* Length; 0: no window. */
    /* The rate: it may go down to `least` until step_ends_ns. */
    int64_t step_ends_ns;
    uint32_t least;
};

void wp_hold_init(struct wp_hold *hold, int64_t window_ns);
/* The window changed: what is held now is held for a whole new one. */
void wp_hold_set_window(struct wp_hold *hold, int64_t mono_ns,
                        int64_t window_ns);
/* So many were needed at mono_ns. */
void wp_hold_need(struct wp_hold *hold, int64_t mono_ns, uint32_t needed);
/* The most needed within the window before mono_ns. */
uint32_t wp_hold_most(struct wp_hold *hold, int64_t mono_ns);
/* When that may fall; WP_TIME_NEVER: it is 0, or there is no window. */
int64_t wp_hold_next_ns(struct wp_hold *hold, int64_t mono_ns);
/* How far down a target may go at mono_ns, at the given rate in a step. Returns
 * what it may be; *again_ns: when more may go, if that stopped it. */
uint32_t wp_hold_step(struct wp_hold *hold, int64_t mono_ns, double rate,
                      uint32_t target, uint32_t wanted, int64_t *again_ns);

#endif
