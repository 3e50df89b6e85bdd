/* pool/table/slot_bits.h - the two words of bits that a slot has besides its
 * state, and the one place where each of them changes. What the bits and the
 * events mean: slot_work.def and slot_control.def. */
#ifndef WP_POOL_TABLE_SLOT_BITS_H
#define WP_POOL_TABLE_SLOT_BITS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/slots/slot.h"

enum wp_work_at {
#define WP_WORK_BIT(name, meaning) WP_WORK_AT_##name,
#define WP_WORK_EVENT(name, when, sets, clears, needs, bars)
#include "pool/table/slot_work.def"
#undef WP_WORK_BIT
    WP_WORK_BIT_COUNT
};

enum wp_work_bit {
#define WP_WORK_BIT(name, meaning) WP_WORK_##name = 1 << WP_WORK_AT_##name,
#include "pool/table/slot_work.def"
#undef WP_WORK_BIT
#undef WP_WORK_EVENT
};

enum wp_work_event {
#define WP_WORK_BIT(name, meaning)
#define WP_WORK_EVENT(name, when, sets, clears, needs, bars) WP_WORK_ON_##name,
#include "pool/table/slot_work.def"
#undef WP_WORK_BIT
#undef WP_WORK_EVENT
    WP_WORK_EVENT_COUNT
};

enum wp_control_at {
#define WP_CONTROL_BIT(name, meaning) WP_CONTROL_AT_##name,
#define WP_CONTROL_EVENT(name, when, sets, clears, needs, bars)
#include "pool/table/slot_control.def"
#undef WP_CONTROL_BIT
    WP_CONTROL_BIT_COUNT
};

enum wp_control_bit {
#define WP_CONTROL_BIT(name, meaning)                                          \
    WP_CONTROL_##name = 1 << WP_CONTROL_AT_##name,
#include "pool/table/slot_control.def"
#undef WP_CONTROL_BIT
#undef WP_CONTROL_EVENT
};

enum wp_control_event {
#define WP_CONTROL_BIT(name, meaning)
#define WP_CONTROL_EVENT(name, when, sets, clears, needs, bars)                \
    WP_CONTROL_ON_##name,
#include "pool/table/slot_control.def"
#undef WP_CONTROL_BIT
#undef WP_CONTROL_EVENT
    WP_CONTROL_EVENT_COUNT
};

_Static_assert((int)WP_WORK_BIT_COUNT < 31, "bits of one word");
_Static_assert((int)WP_CONTROL_BIT_COUNT < 31, "bits of one word");

/* What an event does to its word; masks of bits. */
struct wp_bits_event {
    uint32_t sets;
    uint32_t clears;
    uint32_t needs;
    uint32_t bars;
};

extern const struct wp_bits_event wp_work_events[WP_WORK_EVENT_COUNT];
extern const struct wp_bits_event wp_control_events[WP_CONTROL_EVENT_COUNT];

/* The event befalls the slot. Aborts when a bit that it needs is not there, or
 * one that it bars is. True when a bit changed. Any thread, lock-free; orders
 * as an acquire and a release even when none did. */
bool wp_slot_work_change(struct wp_slot *slot, enum wp_work_event event);
/* The same of what control knows. Control thread. */
bool wp_slot_control_change(struct wp_slot *slot, enum wp_control_event event);

/* Some of these bits are there. Any thread. */
static inline bool
wp_slot_has_work(const struct wp_slot *slot, uint32_t bits)
{
    return (atomic_load_explicit(&slot->work, memory_order_relaxed) & bits) !=
           0;
}

/* The same; control thread. */
static inline bool
wp_slot_has_control(const struct wp_slot *slot, uint32_t bits)
{
    return (slot->control_bits & bits) != 0;
}

#endif
