/* What can be asked of slots: nothing here changes a state. */
#include "pool/slots/slot.h"

#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/slots/slot_word.h"

/* Pairs with the release in slot.c's words_store: see there. */
static void
words_load(const _Atomic(uint64_t) *words, void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t word = atomic_load_explicit(&words[i], memory_order_acquire);

        memcpy((char *)bytes + i * 8, &word, 8);
    }
}

static inline bool
word_has_nul(uint64_t word)
{
    return ((word - UINT64_C(0x0101010101010101)) & ~word &
            UINT64_C(0x8080808080808080)) != 0;
}

/* Copies the text, max bytes at most; out holds one more. */
static void
text_load(const struct wp_slots *slots, uint32_t index, char *out, size_t max)
{
    char bytes[WP_SLOT_TEXT_WORDS * 8];

    for (size_t i = 0; i < WP_SLOT_TEXT_WORDS; i++) {
        uint64_t word = atomic_load_explicit(&slots->cold[index].text[i],
                                             memory_order_acquire);

        memcpy(bytes + i * 8, &word, 8);
        if (word_has_nul(word)) {
            break; /* What is behind it may be another's, and is not copied. */
        }
    }
    bytes[max] = '\0';
    memcpy(out, bytes, strlen(bytes) + 1);
}

void
wp_slot_uid(const struct wp_slots *slots, struct wp_slot_ref ref,
            uint8_t out[WP_UID_LEN])
{
    WP_ASSERT(ref_in_table(slots, ref));
    words_load(slots->cold[ref.index].uid, out, WP_UID_LEN / 8);
}

int64_t
wp_slot_created_ns(const struct wp_slots *slots, struct wp_slot_ref ref)
{
    WP_ASSERT(ref_in_table(slots, ref));
    return (int64_t)atomic_load_explicit(&slots->cold[ref.index].created_ns,
                                         memory_order_relaxed);
}

void
wp_slot_set_started_ns(struct wp_slots *slots, struct wp_slot_ref ref,
                       int64_t now_ns)
{
    WP_ASSERT(ref_in_table(slots, ref));
    if (wp_slot_state(slots, ref) == WP_SLOT_WARMING) {
        atomic_store_explicit(&slots->cold[ref.index].ready_ns,
                              (uint64_t)now_ns, memory_order_relaxed);
    }
}

int64_t
wp_slot_started_ns(const struct wp_slots *slots, struct wp_slot_ref ref)
{
    WP_ASSERT(ref_in_table(slots, ref));
    return (int64_t)atomic_load_explicit(&slots->cold[ref.index].ready_ns,
                                         memory_order_relaxed);
}

bool
wp_slot_is_ready(const struct wp_slots *slots, uint32_t index)
{
    return state_of(word_load(slots, index)) == WP_SLOT_READY;
}

enum wp_slot_state
wp_slot_state(const struct wp_slots *slots, struct wp_slot_ref ref)
{
    uint64_t word;

    if (!ref_in_table(slots, ref)) {
        return WP_SLOT_FREE;
    }
    word = word_load(slots, ref.index);
    return generation_of(word) == ref.generation ? state_of(word)
                                                 : WP_SLOT_FREE;
}

struct wp_slot_ref
wp_slot_ref_at(const struct wp_slots *slots, uint32_t index)
{
    uint32_t generation;

    WP_ASSERT(index < slots->slots_max);
    generation = generation_of(word_load(slots, index));
    return generation != 0 ? (struct wp_slot_ref){index, generation}
                           : WP_SLOT_REF_NONE;
}

static void
cold_copy(const struct wp_slots *slots, uint32_t index, uint64_t word,
          struct wp_slot_info *out)
{
    const struct wp_slot_cold *cold = &slots->cold[index];

    out->pool_index = atomic_load_explicit(&slots->hot[index].pool_index,
                                           memory_order_acquire);
    words_load(cold->uid, out->uid, WP_UID_LEN / 8);
    words_load(&cold->suffix, out->suffix, 1);
    out->suffix[WP_SANDBOX_SUFFIX_LEN] = '\0';
    words_load(&cold->created_ns, &out->created_ns, 1);
    words_load(&cold->ready_ns, &out->ready_ns, 1);
    out->endpoint[0] = '\0';
    out->lost_reason[0] = '\0';
    if ((word & WRITING) != 0 || (word & TEXT_KIND) == 0) {
        return;
    }
    if ((word & HAS_ENDPOINT) != 0) {
        text_load(slots, index, out->endpoint, WP_ENDPOINT_MAX);
    } else {
        text_load(slots, index, out->lost_reason, WP_REASON_MAX);
    }
}

bool
wp_slot_read(const struct wp_slots *slots, struct wp_slot_ref ref,
             struct wp_slot_info *out)
{
    uint64_t before;
    uint64_t after;

    if (!ref_in_table(slots, ref)) {
        return false;
    }
    after = word_load(slots, ref.index);
    do {
        before = after;
        if (generation_of(before) != ref.generation ||
            state_of(before) == WP_SLOT_FREE) {
            return false;
        }
        cold_copy(slots, ref.index, before, out);
        after = word_load(slots, ref.index);
        /* A text changes its kind at most four times a generation. */
    } while (((before ^ after) & TEXT_KIND) != 0 ||
             generation_of(after) != ref.generation ||
             state_of(after) == WP_SLOT_FREE);
    out->state = state_of(after);
    return true;
}

uint64_t
wp_slot_fence_next(struct wp_slots *slots, struct wp_slot_ref ref)
{
    _Atomic(uint64_t) *fence;
    uint64_t next;

    WP_ASSERT(ref_in_table(slots, ref));
    fence = &slots->hot[ref.index].fence;
    /* One owner at a time, and each comes through the word: relaxed is enough,
     * and nobody can come between the load and the store. */
    next = atomic_load_explicit(fence, memory_order_relaxed) + 1;
    atomic_store_explicit(fence, next, memory_order_relaxed);
    return next;
}

/* --- Counts --- */

uint32_t
wp_slots_count(const struct wp_slots *slots, uint32_t pool_index,
               enum wp_slot_state state)
{
    int64_t n;

    WP_ASSERT(pool_index < slots->pools_max && state < WP_SLOT_STATE_COUNT);
    n = count_load(&slots->counts[pool_index], state);
    /* A slot that moves on quickly may be subtracted before it is added. */
    return n > 0 ? (uint32_t)n : 0;
}

uint64_t
wp_slots_created(const struct wp_slots *slots, uint32_t pool_index)
{
    WP_ASSERT(pool_index < slots->pools_max);
    return atomic_load_explicit(&slots->counts[pool_index].created,
                                memory_order_relaxed);
}

uint64_t
wp_slots_destroyed(const struct wp_slots *slots, uint32_t pool_index)
{
    WP_ASSERT(pool_index < slots->pools_max);
    return atomic_load_explicit(&slots->counts[pool_index].destroyed,
                                memory_order_relaxed);
}

bool
wp_slots_none_left(const struct wp_slots *slots, uint32_t pool_index)
{
    const struct wp_slot_counts *counts = &slots->counts[pool_index];
    int64_t left =
        atomic_load_explicit(&counts->tombstones, memory_order_relaxed);

    for (uint32_t i = 0; i < wp_slots_used_max(slots); i++) {
        uint64_t word = word_load(slots, i);

        if (atomic_load_explicit(&slots->hot[i].pool_index,
                                 memory_order_relaxed) == pool_index &&
            (state_of(word) != WP_SLOT_FREE || (word & OBSTACLES) != 0)) {
            return false;
        }
    }
    for (int s = 0; s < WP_SLOT_STATE_COUNT && left == 0; s++) {
        left = atomic_load_explicit(&counts->in_state[s], memory_order_relaxed);
    }
    return left == 0;
}

uint32_t
wp_slots_tombstones(const struct wp_slots *slots, uint32_t pool_index)
{
    int64_t n;

    WP_ASSERT(pool_index < slots->pools_max);
    n = atomic_load_explicit(&slots->counts[pool_index].tombstones,
                             memory_order_relaxed);
    return n > 0 ? (uint32_t)n : 0;
}

uint32_t
wp_slots_used_max(const struct wp_slots *slots)
{
    return atomic_load_explicit(&slots->fresh, memory_order_acquire);
}

/* Compares what the words say with the counts. tally is zeroed. */
static void
check_words(const struct wp_slots *slots, int64_t *tally)
{
    uint32_t used = wp_slots_used_max(slots);

    for (uint32_t i = 0; i < used; i++) {
        uint32_t pool = atomic_load_explicit(&slots->hot[i].pool_index,
                                             memory_order_relaxed);
        enum wp_slot_state state = state_of(word_load(slots, i));

        if (state != WP_SLOT_FREE) {
            tally[pool * WP_SLOT_STATE_COUNT + state]++;
        }
    }
    for (uint32_t pool = 0; pool < slots->pools_max; pool++) {
        for (uint32_t s = 0; s < WP_SLOT_STATE_COUNT; s++) {
            WP_ASSERT(tally[pool * WP_SLOT_STATE_COUNT + s] ==
                      count_load(&slots->counts[pool], (enum wp_slot_state)s));
        }
    }
}

void
wp_slots_check(const struct wp_slots *slots)
{
    int64_t *tally =
        calloc((size_t)slots->pools_max * WP_SLOT_STATE_COUNT, sizeof *tally);

    WP_ASSERT(tally != NULL);
    check_words(slots, tally);
    for (uint32_t pool = 0; pool < slots->pools_max; pool++) {
        uint64_t sum = wp_slots_destroyed(slots, pool);

        for (uint32_t s = 0; s < WP_SLOT_STATE_COUNT; s++) {
            sum += (uint64_t)tally[pool * WP_SLOT_STATE_COUNT + s];
        }
        WP_ASSERT(sum == wp_slots_created(slots, pool));
    }
    free(tally);
}
