/* pool/scale/need.h - how many claims came in the last lead time.
 *
 * That many sandboxes are on order in their stead; with less stock than that
 * the next claim misses. Counted in slots of about a 24th of the lead time. One
 * owner. */
#ifndef WP_POOL_SCALE_NEED_H
#define WP_POOL_SCALE_NEED_H

#include <stdint.h>

enum {
    WP_NEED_SLOTS = 64, /* Power of two; twice what a lead time takes. */
};

struct wp_need {
    int64_t slot_ns; /* A quantum times a power of two. */
    uint32_t n_slots;
    int64_t slot; /* Number of the latest. */
    uint32_t count[WP_NEED_SLOTS];
};

void wp_need_init(struct wp_need *need, int64_t mono_ns, double lead_s);
/* The lead time is another now. Cheap while it wavers little. */
void wp_need_set_lead(struct wp_need *need, int64_t mono_ns, double lead_s);
/* Goes on to mono_ns (never back), then adds n claims. O(1). */
void wp_need_add(struct wp_need *need, int64_t mono_ns, uint32_t n);
/* Claims in the lead time before mono_ns, up to where it has gone. O(slots). */
uint32_t wp_need_now(const struct wp_need *need);

#endif
