#include "pool/scale/need.h"

#include <math.h>
#include <string.h>

#include "pool/base/clock.h"
#include "pool/scale/scaler.h"

enum {
    LEAD_SLOTS_MAX = WP_NEED_SLOTS / 2,
};

static uint32_t
add_kept(uint32_t a, uint64_t b)
{
    return b > UINT32_MAX - a ? UINT32_MAX : a + (uint32_t)b;
}

static int64_t
slot_of(int64_t mono_ns, int64_t slot_ns)
{
    return mono_ns / slot_ns;
}

/* The shortest slot of which a lead time takes no more than half the ring. */
static int64_t
slot_for(double lead_ns)
{
    int64_t slot_ns = WP_SCALE_QUANTUM_NS;

    while (lead_ns > (double)slot_ns * LEAD_SLOTS_MAX &&
           slot_ns < INT64_MAX / 4) {
        slot_ns *= 2;
    }
    return slot_ns;
}

static void
set_slots(struct wp_need *need, double lead_ns)
{
    double n = ceil(lead_ns / (double)need->slot_ns);

    need->n_slots = n < 1                ? 1
                    : n > LEAD_SLOTS_MAX ? LEAD_SLOTS_MAX
                                         : (uint32_t)n;
}

void
wp_need_init(struct wp_need *need, int64_t mono_ns, double lead_s)
{
    double lead_ns = lead_s * WP_NS_PER_S;

    *need = (struct wp_need){.slot_ns = slot_for(lead_ns)};
    need->slot = slot_of(mono_ns, need->slot_ns);
    set_slots(need, lead_ns);
}

/* The counts go into slots of another length: each to where it began. */
static void
set_slot_ns(struct wp_need *need, int64_t mono_ns, int64_t slot_ns)
{
    struct wp_need old = *need;

    need->slot_ns = slot_ns;
    need->slot = slot_of(mono_ns, slot_ns);
    memset(need->count, 0, sizeof need->count);
    for (int64_t i = 0; i < WP_NEED_SLOTS && i <= old.slot; i++) {
        int64_t slot = old.slot - i;
        int64_t now = slot_of(slot * old.slot_ns, slot_ns);
        uint32_t *at = &need->count[(uint64_t)now % WP_NEED_SLOTS];

        if (need->slot - now < WP_NEED_SLOTS) {
            *at = add_kept(*at, old.count[(uint64_t)slot % WP_NEED_SLOTS]);
        }
    }
}

void
wp_need_set_lead(struct wp_need *need, int64_t mono_ns, double lead_s)
{
    double lead_ns = lead_s * WP_NS_PER_S;
    int64_t slot_ns = slot_for(lead_ns);

    wp_need_add(need, mono_ns, 0);
    /* Not to and fro at the border: shorter slots only when well below it. */
    if (slot_ns > need->slot_ns ||
        lead_ns * 1.25 <= (double)need->slot_ns / 2 * LEAD_SLOTS_MAX) {
        if (slot_ns != need->slot_ns) {
            set_slot_ns(need, mono_ns, slot_ns);
        }
    }
    set_slots(need, lead_ns);
}

void
wp_need_add(struct wp_need *need, int64_t mono_ns, uint32_t n)
{
    int64_t slot = slot_of(mono_ns, need->slot_ns);
    uint32_t *at;

    if (slot - need->slot >= WP_NEED_SLOTS) {
        memset(need->count, 0, sizeof need->count);
        need->slot = slot;
    }
    while (need->slot < slot) {
        need->slot++;
        need->count[(uint64_t)need->slot % WP_NEED_SLOTS] = 0;
    }
    at = &need->count[(uint64_t)need->slot % WP_NEED_SLOTS];
    *at = add_kept(*at, n);
}

uint32_t
wp_need_now(const struct wp_need *need)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < need->n_slots; i++) {
        uint64_t slot = (uint64_t)need->slot - i;

        sum = add_kept(sum, need->count[slot % WP_NEED_SLOTS]);
    }
    return sum;
}
