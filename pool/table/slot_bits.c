#include "pool/table/slot_bits.h"

#include "pool/base/assert.h"

const struct wp_bits_event wp_work_events[WP_WORK_EVENT_COUNT] = {
#define WP_WORK_BIT(name, meaning)
#define WP_WORK_EVENT(name, when, sets, clears, needs, bars)                   \
    [WP_WORK_ON_##name] = {sets, clears, needs, bars},
#include "pool/table/slot_work.def"
#undef WP_WORK_BIT
#undef WP_WORK_EVENT
};

const struct wp_bits_event wp_control_events[WP_CONTROL_EVENT_COUNT] = {
#define WP_CONTROL_BIT(name, meaning)
#define WP_CONTROL_EVENT(name, when, sets, clears, needs, bars)                \
    [WP_CONTROL_ON_##name] = {sets, clears, needs, bars},
#include "pool/table/slot_control.def"
#undef WP_CONTROL_BIT
#undef WP_CONTROL_EVENT
};

static uint32_t
after(const struct wp_bits_event *event, uint32_t before)
{
    WP_ASSERT((before & event->needs) == event->needs);
    WP_ASSERT((before & event->bars) == 0);
    return (before | event->sets) & ~event->clears;
}

bool
wp_slot_work_change(struct wp_slot *slot, enum wp_work_event event)
{
    uint32_t before = atomic_load_explicit(&slot->work, memory_order_relaxed);
    uint32_t now;

    /* Written even when it stays the same: so who clears LISTED sees what was
     * done before every mark, not only the first. */
    do {
        now = after(&wp_work_events[event], before);
    } while (!atomic_compare_exchange_weak_explicit(
        &slot->work, &before, now, memory_order_acq_rel, memory_order_relaxed));
    return now != before;
}

bool
wp_slot_control_change(struct wp_slot *slot, enum wp_control_event event)
{
    uint32_t before = slot->control_bits;

    slot->control_bits = after(&wp_control_events[event], before);
    return slot->control_bits != before;
}
