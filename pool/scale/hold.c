#include "pool/scale/hold.h"

#include <math.h>

#include "pool/base/extreme.h"

static int64_t
part_of(const struct wp_hold *hold, int64_t mono_ns)
{
    return hold->part_ns > 0 ? mono_ns / hold->part_ns : 0;
}

void
wp_hold_init(struct wp_hold *hold, int64_t window_ns)
{
    *hold = (struct wp_hold){.part_ns = window_ns / (WP_HOLD_PARTS - 1)};
}

/* Parts that began since the latest one took nothing so far. */
static void
advance(struct wp_hold *hold, int64_t mono_ns)
{
    int64_t part = part_of(hold, mono_ns);
    int64_t n = part - hold->part;

    for (int64_t i = 1; i <= n && i <= WP_HOLD_PARTS; i++) {
        hold->needed[(uint64_t)(part - i + 1) % WP_HOLD_PARTS] = 0;
    }
    if (n > 0) {
        hold->part = part;
    }
}

uint32_t
wp_hold_most(struct wp_hold *hold, int64_t mono_ns)
{
    uint32_t most = 0;

    if (hold->part_ns == 0) {
        return 0;
    }
    advance(hold, mono_ns);
    for (unsigned i = 0; i < WP_HOLD_PARTS; i++) {
        most = wp_max_u32(most, hold->needed[i]);
    }
    return most;
}

int64_t
wp_hold_next_ns(struct wp_hold *hold, int64_t mono_ns)
{
    if (wp_hold_most(hold, mono_ns) == 0) {
        return WP_TIME_NEVER;
    }
    return wp_time_add(hold->part * hold->part_ns, hold->part_ns);
}

void
wp_hold_set_window(struct wp_hold *hold, int64_t mono_ns, int64_t window_ns)
{
    uint32_t most = wp_hold_most(hold, mono_ns);

    wp_hold_init(hold, window_ns);
    wp_hold_need(hold, mono_ns, most);
}

void
wp_hold_need(struct wp_hold *hold, int64_t mono_ns, uint32_t needed)
{
    uint32_t *at;

    if (hold->part_ns == 0) {
        return;
    }
    advance(hold, mono_ns);
    at = &hold->needed[(uint64_t)hold->part % WP_HOLD_PARTS];
    *at = wp_max_u32(*at, needed);
}

uint32_t
wp_hold_step(struct wp_hold *hold, int64_t mono_ns, double rate,
             uint32_t target, uint32_t wanted, int64_t *again_ns)
{
    double step;

    *again_ns = WP_TIME_NEVER;
    if (wanted >= target) {
        return wanted;
    }
    if (mono_ns >= hold->step_ends_ns) {
        step = fmax(1, floor(target * rate));
        hold->least = target - (uint32_t)fmin(step, target);
        hold->step_ends_ns = wp_time_add(mono_ns, WP_HOLD_STEP_NS);
    }
    if (wanted >= hold->least) {
        return wanted;
    }
    *again_ns = hold->step_ends_ns;
    /* It may have risen and fallen since the step began. */
    return wp_min_u32(hold->least, target);
}
