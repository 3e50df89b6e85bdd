/* pool/slots/slot_word.h - what a slot's word holds; for slot.c and slot_read.c
 * only.
 *
 * The word of a slot, low to high: state (8 bits), flags (8), unused (16),
 * generation (32). The word is changed by a CAS or by a fetch_and that clears a
 * flag; both are acq_rel, and every look at it is an acquire, so who sees a
 * state sees all that was written before the slot came into it. */
#ifndef WP_POOL_SLOTS_SLOT_WORD_H
#define WP_POOL_SLOTS_SLOT_WORD_H

#include "pool/slots/slot.h"

#define STATE_MASK UINT64_C(0xff)
/* Linked in the ready queue, or about to be by who moved it to READY. */
#define QUEUED (UINT64_C(1) << 8)
/* Its text is being written. */
#define WRITING (UINT64_C(1) << 9)
/* What the text is; neither: nothing yet. They last until the slot is FREE. */
#define HAS_ENDPOINT (UINT64_C(1) << 10)
#define HAS_REASON (UINT64_C(1) << 11)
/* What keeps a FREE slot from the free list. */
#define OBSTACLES (QUEUED | WRITING)
#define TEXT_KIND (WRITING | HAS_ENDPOINT | HAS_REASON)

static inline enum wp_slot_state
state_of(uint64_t word)
{
    return (enum wp_slot_state)(word & STATE_MASK);
}

static inline uint32_t
generation_of(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

static inline uint64_t
word_load(const struct wp_slots *slots, uint32_t index)
{
    return atomic_load_explicit(&slots->hot[index].word, memory_order_acquire);
}

static inline bool
ref_in_table(const struct wp_slots *slots, struct wp_slot_ref ref)
{
    return ref.index < slots->slots_max && ref.generation != 0;
}

/* --- Counts: see struct wp_slot_counts. --- */

static inline enum wp_slot_state
count_word(enum wp_slot_state state)
{
    return state == WP_SLOT_LEASED ? WP_SLOT_READY : state;
}

static inline int64_t
count_unit(enum wp_slot_state state)
{
    return state == WP_SLOT_LEASED ? INT64_C(1) << 32 : 1;
}

static inline int64_t
count_load(const struct wp_slot_counts *counts, enum wp_slot_state state)
{
    int64_t word = atomic_load_explicit(&counts->in_state[count_word(state)],
                                        memory_order_relaxed);
    int64_t low = (int32_t)(uint32_t)(uint64_t)word;

    if (state == WP_SLOT_LEASED) {
        return (word - low) / count_unit(WP_SLOT_LEASED);
    }
    return state == WP_SLOT_READY ? low : word;
}

#endif
