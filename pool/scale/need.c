#include "pool/scale/need.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "pool/base/clock.h"
#include "pool/scale/learn.h"
#include "pool/scale/scaler.h"

enum {
    LEAD_SLOTS_MAX = 48,
    /* Who is behind by more lead times than that stays behind: no stock makes
     * up for it. */
    BEHIND_LEADS_MAX = 512,
};

static uint32_t
add_kept(uint32_t a, uint64_t b)
{
    return b > UINT32_MAX - a ? UINT32_MAX : a + (uint32_t)b;
}

static size_t
ring(int64_t slot)
{
    return (uint64_t)slot % WP_NEED_SLOTS;
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
    double n = round(lead_ns / (double)need->slot_ns);

    need->n_slots = n < 1                ? 1
                    : n > LEAD_SLOTS_MAX ? LEAD_SLOTS_MAX
                                         : (uint32_t)n;
}

void
wp_need_init(struct wp_need *need, int64_t mono_ns, double lead_s)
{
    double lead_ns = lead_s * WP_NS_PER_S;

    *need = (struct wp_need){.slot_ns = slot_for(lead_ns), .due = true};
    memset(need->state, (int)wp_need_state(need), sizeof need->state);
    need->slot = slot_of(mono_ns, need->slot_ns);
    set_slots(need, lead_ns);
}

/* The highest of a lead time. */
static unsigned
level(const struct wp_need *need)
{
    unsigned highest = 0;

    for (uint32_t i = 0; i <= need->n_slots; i++) {
        unsigned most = need->most[ring(need->slot - i)];

        highest = most > highest ? most : highest;
    }
    return highest;
}

/* The counts go into slots of another length: each to where it began. */
static void
set_slot_ns(struct wp_need *need, int64_t mono_ns, int64_t slot_ns)
{
    struct wp_need old = *need;

    /* What was in force counts as if it had been for long. */
    memset(need->state, (int)wp_need_state(&old), sizeof need->state);
    memset(need->most, (int)level(&old), sizeof need->most);
    for (unsigned i = 0; i < WP_NEED_SLOTS; i++) {
        need->plan[i] = old.plan[ring(old.slot)];
    }
    need->slot_ns = slot_ns;
    need->slot = slot_of(mono_ns, slot_ns);
    memset(need->count, 0, sizeof need->count);
    for (int64_t i = 0; i < WP_NEED_SLOTS && i <= old.slot; i++) {
        int64_t slot = old.slot - i;
        int64_t now = slot_of(slot * old.slot_ns, slot_ns);
        uint32_t *at = &need->count[ring(now)];

        if (need->slot - now < WP_NEED_SLOTS) {
            *at = add_kept(*at, old.count[ring(slot)]);
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
wp_need_set_at_once(struct wp_need *need, uint32_t n)
{
    need->at_once = n;
    need->behind = n > 0 ? need->behind : 0;
}

/* Orders wait for their turn. */
static bool
is_late(const struct wp_need *need)
{
    return need->at_once > 0 && need->behind > need->at_once;
}

/* What is made in n slots. */
static void
catch_up(struct wp_need *need, int64_t n)
{
    double made = (double)need->at_once * (double)n / need->n_slots;

    need->behind = fmax(need->behind - made, 0);
}

void
wp_need_add(struct wp_need *need, int64_t mono_ns, uint32_t n)
{
    int64_t slot = slot_of(mono_ns, need->slot_ns);
    uint32_t plan = need->plan[ring(need->slot)];
    unsigned now;
    uint8_t *most;

    if (slot - need->slot > WP_NEED_SLOTS) {
        /* Far beyond what is remembered: nothing of it is left. */
        memset(need->count, 0, sizeof need->count);
        memset(need->most, 0, sizeof need->most);
        memset(need->state, (int)wp_need_state(need), sizeof need->state);
        catch_up(need, slot - need->slot);
        need->slot = slot;
    }
    while (need->slot < slot) {
        wp_need_next_slot(need, plan);
    }
    need->count[ring(slot)] = add_kept(need->count[ring(slot)], n);
    if (!is_late(need)) {
        need->state_before = (uint8_t)wp_need_least_state(need);
        need->plan_before = wp_need_least_plan(need);
    }
    need->behind = fmin(need->behind + n,
                        (double)BEHIND_LEADS_MAX * (double)need->at_once);
    now = wp_learn_level(wp_need_now(need));
    most = &need->most[ring(slot)];
    *most = now > *most ? (uint8_t)now : *most;
}

void
wp_need_next_slot(struct wp_need *need, uint32_t plan)
{
    size_t at = ring(++need->slot);

    catch_up(need, 1);
    need->count[at] = 0;
    need->plan[at] = plan;
    need->most[at] = (uint8_t)wp_learn_level(wp_need_now(need));
    need->state[at] = (uint8_t)wp_need_state(need);
}

void
wp_need_plan(struct wp_need *need, uint32_t plan)
{
    uint32_t *at = &need->plan[ring(need->slot)];

    *at = plan < *at ? plan : *at;
}

uint32_t
wp_need_now(const struct wp_need *need)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < need->n_slots; i++) {
        sum = add_kept(sum, need->count[ring(need->slot - i)]);
    }
    return sum > need->behind ? sum : (uint32_t)(need->behind + 0.5);
}

unsigned
wp_need_state(const struct wp_need *need)
{
    return wp_learn_state(need->due, level(need));
}

/* What is lowered goes at once: it counts from here on. */
void
wp_need_set_due(struct wp_need *need, bool due)
{
    uint8_t *at = &need->state[ring(need->slot)];
    unsigned state;

    need->due = due;
    state = wp_need_state(need);
    *at = state < *at ? (uint8_t)state : *at;
}

unsigned
wp_need_least_state(const struct wp_need *need)
{
    unsigned least = is_late(need) ? need->state_before : WP_LEARN_STATES - 1;

    for (uint32_t i = 0; i < need->n_slots; i++) {
        unsigned state = need->state[ring(need->slot - i)];

        least = state < least ? state : least;
    }
    return least;
}

uint32_t
wp_need_least_plan(const struct wp_need *need)
{
    uint32_t least = is_late(need) ? need->plan_before : UINT32_MAX;

    for (uint32_t i = 0; i < need->n_slots; i++) {
        uint32_t plan = need->plan[ring(need->slot - i)];

        least = plan < least ? plan : least;
    }
    return least;
}
