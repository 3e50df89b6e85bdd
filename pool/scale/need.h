/* pool/scale/need.h - how many claims came in the last lead time.
 *
 * That many sandboxes are on order in their stead; with less stock than that
 * the next claim misses. Where only so many are made at once, more are: those
 * that wait for their turn. Counted in slots, 25 to 48 to a lead time (fewer
 * below 250 ms). One owner. */
#ifndef WP_POOL_SCALE_NEED_H
#define WP_POOL_SCALE_NEED_H

#include <stdbool.h>
#include <stdint.h>

enum {
    WP_NEED_SLOTS = 128, /* Power of two; more than twice a lead time's. */
};

struct wp_need {
    int64_t slot_ns; /* A quantum times a power of two. */
    uint32_t n_slots;
    int64_t slot; /* Number of the latest. */
    uint32_t count[WP_NEED_SLOTS];
    uint32_t at_once; /* Made in a lead time; 0: as many as are ordered. */
    double behind;    /* On order, if no more than that are made. */
    /* While more than that are, what is ordered is late: what was in force when
     * it began is what claims are held against. */
    uint32_t plan_before;
    uint8_t state_before;
    /* What a claim is held against: what was in force a lead time before it,
     * and what was lowered since. As of the beginning of each slot. */
    uint32_t plan[WP_NEED_SLOTS]; /* The theory's stock. */
    uint8_t most[WP_NEED_SLOTS];  /* Level of the most needed in that slot. */
    uint8_t state[WP_NEED_SLOTS]; /* By the highest of a lead time: in force. */
    bool due;                     /* A burst is, now. */
};

void wp_need_init(struct wp_need *need, int64_t mono_ns, double lead_s);
/* The lead time is another now. Cheap while it wavers little. */
void wp_need_set_lead(struct wp_need *need, int64_t mono_ns, double lead_s);
/* So many are made at once from now on; 0: no bound, as at first. */
void wp_need_set_at_once(struct wp_need *need, uint32_t n);
/* Goes on to mono_ns (never back), then adds n claims. O(1). */
void wp_need_add(struct wp_need *need, int64_t mono_ns, uint32_t n);
/* Whether a burst is due from now on; at first it is. */
void wp_need_set_due(struct wp_need *need, bool due);
/* What is on order for the claims up to where it has gone. O(slots). */
uint32_t wp_need_now(const struct wp_need *need);
/* Ends the latest slot and begins the next, with this plan in force. */
void wp_need_next_slot(struct wp_need *need, uint32_t plan);
/* The plan is this now; what is higher counts from the next slot on. */
void wp_need_plan(struct wp_need *need, uint32_t plan);
/* The state in force now. */
unsigned wp_need_state(const struct wp_need *need);
/* The least of each in the lead time up to now: a claim that comes now is
 * served from the stock of that. */
unsigned wp_need_least_state(const struct wp_need *need);
uint32_t wp_need_least_plan(const struct wp_need *need);

#endif
