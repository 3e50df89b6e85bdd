/* The slot table and every move in it; slot_read.c answers questions. What a
 * slot's word holds and how it is ordered: slot_word.h. */
#include "pool/slots/slot.h"

#include <string.h>
#include <sys/mman.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/mutant.h"
#include "pool/base/pages.h"
#include "pool/slots/slot_word.h"

/* A link of the free list: index + 1 (0: none) below a tag that grows with each
 * change of the top, so that a CAS by a thread that slept through a pop and a
 * push of the same index fails. It would have to sleep through exactly 2^38 of
 * them to be fooled. */
#define LINK_INDEX_BITS 26
#define LINK_INDEX_MASK ((UINT64_C(1) << LINK_INDEX_BITS) - 1)

_Static_assert(sizeof(struct wp_slot) == WP_CACHELINE, "one line a slot");
_Static_assert(WP_SLOTS_MAX + 1 < LINK_INDEX_MASK, "an index fits a link");
_Static_assert(WP_SLOT_TEXT_WORDS * 8 > WP_REASON_MAX, "a reason fits");
_Static_assert(WP_SANDBOX_SUFFIX_LEN == 8, "the suffix is one word");

static const bool edges[WP_SLOT_STATE_COUNT][WP_SLOT_STATE_COUNT] = {
#define WP_SLOT_STATE(name, text, meaning)
#define WP_SLOT_EDGE(from, to, reason) [WP_SLOT_##from][WP_SLOT_##to] = true,
#include "pool/slots/slot_states.def"
#undef WP_SLOT_STATE
#undef WP_SLOT_EDGE
};

bool
wp_slot_edge_allowed(enum wp_slot_state from, enum wp_slot_state to)
{
    WP_ASSERT(from < WP_SLOT_STATE_COUNT && to < WP_SLOT_STATE_COUNT);
    return edges[from][to];
}

/* --- Table --- */

static size_t
pages(size_t bytes)
{
    return (bytes + 4095) / 4096 * 4096;
}

bool
wp_slots_init(struct wp_slots *slots, uint32_t slots_max, uint32_t pools_max)
{
    size_t hot = pages(sizeof(struct wp_slot) * slots_max);
    size_t cold = pages(sizeof(struct wp_slot_cold) * slots_max);
    size_t nodes =
        pages(sizeof(struct wp_ready_node) *
              ((size_t)slots_max + WP_QUEUES_PER_POOL * (size_t)pools_max));
    size_t counts = pages(sizeof(struct wp_slot_counts) * pools_max);
    char *map;

    WP_ASSERT(slots_max > 0 && slots_max <= WP_SLOTS_MAX);
    WP_ASSERT(pools_max > 0 && pools_max <= WP_POOLS_MAX);
    memset(slots, 0, sizeof *slots);
    slots->map_bytes = hot + cold + nodes + counts;
    map = mmap(NULL, slots->map_bytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) {
        return false;
    }
    wp_advise_huge_pages(map, slots->map_bytes);
    /* Zero pages are a table of slots that are FREE and were never used. */
    slots->map = map;
    slots->hot = (struct wp_slot *)(void *)map;
    slots->cold = (struct wp_slot_cold *)(void *)(map + hot);
    slots->nodes = (struct wp_ready_node *)(void *)(map + hot + cold);
    slots->counts = (struct wp_slot_counts *)(void *)(map + hot + cold + nodes);
    slots->slots_max = slots_max;
    slots->pools_max = pools_max;
    return true;
}

void
wp_slots_fini(struct wp_slots *slots)
{
    if (slots->map != NULL) {
        (void)munmap(slots->map, slots->map_bytes);
        slots->map = NULL;
    }
}

size_t
wp_slots_memory_bytes(const struct wp_slots *slots)
{
    return slots->map_bytes;
}

static void
free_push(struct wp_slots *slots, uint32_t index)
{
    uint64_t top = atomic_load_explicit(&slots->free_top, memory_order_relaxed);
    uint64_t link;

    do {
        atomic_store_explicit(&slots->hot[index].free_next,
                              (uint32_t)(top & LINK_INDEX_MASK),
                              memory_order_relaxed);
        link = ((top >> LINK_INDEX_BITS) + 1) << LINK_INDEX_BITS | (index + 1);
        /* Publishes free_next: pairs with the acquire in free_pop. */
    } while (!atomic_compare_exchange_weak_explicit(&slots->free_top, &top,
                                                    link, memory_order_release,
                                                    memory_order_relaxed));
}

/* WP_SLOT_NONE when the list is empty. */
static uint32_t
free_pop(struct wp_slots *slots)
{
    /* Pairs with the release in free_push. */
    uint64_t top = atomic_load_explicit(&slots->free_top, memory_order_acquire);
    uint64_t link;
    uint32_t index;

    do {
        if ((top & LINK_INDEX_MASK) == 0) {
            return WP_SLOT_NONE;
        }
        index = (uint32_t)(top & LINK_INDEX_MASK) - 1;
        /* Another thread may own the slot by now; then the CAS fails. */
        link = ((top >> LINK_INDEX_BITS) + 1) << LINK_INDEX_BITS |
               atomic_load_explicit(&slots->hot[index].free_next,
                                    memory_order_relaxed);
    } while (!atomic_compare_exchange_weak_explicit(&slots->free_top, &top,
                                                    link, memory_order_acquire,
                                                    memory_order_acquire));
    return index;
}

/* The next slot that was never used; WP_SLOT_NONE when there is none. */
static uint32_t
fresh_take(struct wp_slots *slots)
{
    uint32_t index = atomic_load_explicit(&slots->fresh, memory_order_relaxed);

    do {
        if (index >= slots->slots_max) {
            return WP_SLOT_NONE;
        }
    } while (!atomic_compare_exchange_weak_explicit(
        &slots->fresh, &index, index + 1, memory_order_relaxed,
        memory_order_relaxed));
    /* The first nodes are the queues' first dummies. */
    atomic_store_explicit(&slots->hot[index].queue_node,
                          WP_QUEUES_PER_POOL * slots->pools_max + index,
                          memory_order_relaxed);
    return index;
}

/* --- Words --- */

static void
count_move(struct wp_slot_counts *counts, enum wp_slot_state from,
           enum wp_slot_state to)
{
    if (from != WP_SLOT_FREE && count_word(from) == count_word(to)) {
        atomic_fetch_add_explicit(&counts->in_state[count_word(to)],
                                  count_unit(to) - count_unit(from),
                                  memory_order_relaxed);
        return;
    }
    if (from == WP_SLOT_FREE) {
        atomic_fetch_add_explicit(&counts->created, 1, memory_order_relaxed);
    } else {
        atomic_fetch_sub_explicit(&counts->in_state[count_word(from)],
                                  count_unit(from), memory_order_relaxed);
    }
    if (to == WP_SLOT_FREE) {
        atomic_fetch_add_explicit(&counts->destroyed, 1, memory_order_relaxed);
    } else {
        atomic_fetch_add_explicit(&counts->in_state[count_word(to)],
                                  count_unit(to), memory_order_relaxed);
    }
}

/* The one place where a state changes: *old -> new along an allowed edge. False
 * and *old reloaded when the word is no longer *old. */
static bool /* NOLINTNEXTLINE(readability-non-const-parameter): CAS writes. */
word_move(struct wp_slots *slots, uint32_t index, uint64_t *old, uint64_t new)
{
    struct wp_slot *slot = &slots->hot[index];
    uint64_t old_word = *old;
    enum wp_slot_state from = state_of(old_word);
    enum wp_slot_state to = state_of(new);
    struct wp_slot_counts *counts;

    WP_ASSERT(wp_slot_edge_allowed(from, to));
    /* Read before the move: afterwards the slot may be another pool's. */
    counts = &slots->counts[atomic_load_explicit(&slot->pool_index,
                                                 memory_order_relaxed)];
    if (!atomic_compare_exchange_strong_explicit(&slot->word, old, new,
                                                 memory_order_acq_rel,
                                                 memory_order_acquire)) {
        return false;
    }
    count_move(counts, from, to);
    if (from == WP_SLOT_READY && (new &QUEUED) != 0) {
        atomic_fetch_add_explicit(&counts->tombstones, 1, memory_order_relaxed);
    } else if (to == WP_SLOT_READY && (old_word & QUEUED) != 0) {
        atomic_fetch_sub_explicit(&counts->tombstones, 1, memory_order_relaxed);
    }
    if (to == WP_SLOT_FREE && (new &OBSTACLES) == 0) {
        free_push(slots, index);
    }
    return true;
}

/* Clears a flag that the caller has set or was given. */
static void
flag_clear(struct wp_slots *slots, uint32_t index, uint64_t flag)
{
    uint64_t old = atomic_fetch_and_explicit(&slots->hot[index].word, ~flag,
                                             memory_order_acq_rel);

    if (state_of(old) == WP_SLOT_FREE && (old & OBSTACLES) == flag) {
        free_push(slots, index);
    }
}

static inline uint64_t
with_state(uint64_t word, enum wp_slot_state state)
{
    return (word & ~STATE_MASK) | (uint64_t)state;
}

/* --- Words of text. A store is a release and a load an acquire, so that a
 * reader who sees a word of the slot's next owner also sees, when it looks at
 * the slot's word again, that the slot had become FREE. --- */

static void
words_store(_Atomic(uint64_t) *words, const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t word;

        memcpy(&word, (const char *)bytes + i * 8, 8);
        atomic_store_explicit(&words[i], word, memory_order_release);
    }
}

static void
text_store(struct wp_slots *slots, uint32_t index, struct wp_str text)
{
    char bytes[WP_SLOT_TEXT_WORDS * 8] = {0};

    if (text.len > 0) {
        memcpy(bytes, text.ptr, text.len);
    }
    words_store(slots->cold[index].text, bytes, text.len / 8 + 1);
}

/* --- Moves --- */

struct wp_slot_ref
wp_slots_alloc(struct wp_slots *slots, uint32_t pool_index, const uint8_t *uid,
               int64_t now_ns)
{
    uint32_t index = free_pop(slots);
    struct wp_slot_cold *cold;
    struct wp_slot *slot;
    uint32_t generation;
    uint64_t word;
    bool moved;

    WP_ASSERT(pool_index < slots->pools_max);
    if (index == WP_SLOT_NONE) {
        index = fresh_take(slots);
    }
    if (index == WP_SLOT_NONE) {
        return WP_SLOT_REF_NONE;
    }
    slot = &slots->hot[index];
    cold = &slots->cold[index];
    /* FREE and without flags: nobody else writes to the slot. */
    word = word_load(slots, index);
    generation = generation_of(word) + 1;
    generation = generation != 0 ? generation : 1;
    if (WP_MUTANT(GENERATION_REUSED) && generation > 1) {
        generation--;
    }
    atomic_store_explicit(&slot->pool_index, pool_index, memory_order_release);
    atomic_store_explicit(&slot->deadline_ns, WP_TIME_NEVER,
                          memory_order_relaxed);
    atomic_store_explicit(&slot->claim_entry, 0, memory_order_relaxed);
    words_store(cold->uid, uid, WP_UID_LEN / 8);
    atomic_store_explicit(&cold->suffix, 0, memory_order_release);
    atomic_store_explicit(&cold->created_ns, (uint64_t)now_ns,
                          memory_order_release);
    atomic_store_explicit(&cold->ready_ns, 0, memory_order_release);
    moved = word_move(slots, index, &word,
                      (uint64_t)generation << 32 | WP_SLOT_WARMING);
    WP_ASSERT(moved);
    return (struct wp_slot_ref){index, generation};
}

void
wp_slot_set_suffix(struct wp_slots *slots, struct wp_slot_ref ref,
                   struct wp_str suffix)
{
    uint64_t word = 0;

    WP_ASSERT(ref_in_table(slots, ref));
    WP_ASSERT(suffix.len > 0 && suffix.len <= WP_SANDBOX_SUFFIX_LEN);
    memcpy(&word, suffix.ptr, suffix.len);
    atomic_store_explicit(&slots->cold[ref.index].suffix, word,
                          memory_order_release);
}

/* Moves whose function does more than move. */
static bool
edge_is_special(enum wp_slot_state from, enum wp_slot_state to)
{
    return from == WP_SLOT_FREE || to == WP_SLOT_LOST || to == WP_SLOT_READY ||
           (from == WP_SLOT_WARMING && to == WP_SLOT_LEASED);
}

bool
wp_slot_move(struct wp_slots *slots, struct wp_slot_ref ref,
             enum wp_slot_state from, enum wp_slot_state to)
{
    uint64_t word;
    uint64_t new;

    WP_ASSERT(wp_slot_edge_allowed(from, to) && !edge_is_special(from, to));
    if (!ref_in_table(slots, ref)) {
        return false;
    }
    word = word_load(slots, ref.index);
    do {
        if (generation_of(word) != ref.generation || state_of(word) != from) {
            return false;
        }
        new = with_state(word, to);
        if (to == WP_SLOT_FREE) {
            new &= ~(HAS_ENDPOINT | HAS_REASON);
        }
    } while (!word_move(slots, ref.index, &word, new));
    return true;
}

bool
wp_slot_reopen(struct wp_slots *slots, struct wp_slot_ref ref, bool *push)
{
    uint64_t word;

    if (!ref_in_table(slots, ref)) {
        return false;
    }
    word = word_load(slots, ref.index);
    do {
        if (generation_of(word) != ref.generation ||
            state_of(word) != WP_SLOT_LEASED) {
            return false;
        }
        /* Still linked since another replica's grant: it is found there. Who
         * unlinks it now decides by the same word. */
        *push = (word & QUEUED) == 0;
    } while (!word_move(slots, ref.index, &word,
                        with_state(word, WP_SLOT_READY) | QUEUED));
    return true;
}

/* WARMING -> to, with the endpoint. */
static bool
leave_warming(struct wp_slots *slots, struct wp_slot_ref ref,
              struct wp_str endpoint, int64_t now_ns, enum wp_slot_state to)
{
    uint64_t queued = to == WP_SLOT_READY ? QUEUED : 0;
    uint64_t word;

    WP_ASSERT(endpoint.len > 0 && endpoint.len <= WP_ENDPOINT_MAX);
    if (!ref_in_table(slots, ref)) {
        return false;
    }
    word = word_load(slots, ref.index);
    do {
        if (generation_of(word) != ref.generation ||
            state_of(word) != WP_SLOT_WARMING || (word & WRITING) != 0) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(
        &slots->hot[ref.index].word, &word, word | WRITING,
        memory_order_acq_rel, memory_order_acquire));
    text_store(slots, ref.index, endpoint);
    atomic_store_explicit(&slots->cold[ref.index].ready_ns, (uint64_t)now_ns,
                          memory_order_release);
    word |= WRITING;
    while (state_of(word) == WP_SLOT_WARMING) {
        uint64_t new = with_state(word & ~WRITING, to) | queued | HAS_ENDPOINT;

        if (word_move(slots, ref.index, &word, new)) {
            return true;
        }
    }
    /* It died meanwhile; WRITING kept the slot from being used anew. */
    flag_clear(slots, ref.index, WRITING);
    return false;
}

bool
wp_slot_make_ready(struct wp_slots *slots, struct wp_slot_ref ref,
                   struct wp_str endpoint, int64_t now_ns)
{
    return leave_warming(slots, ref, endpoint, now_ns, WP_SLOT_READY);
}

bool
wp_slot_restore_leased(struct wp_slots *slots, struct wp_slot_ref ref,
                       struct wp_str endpoint, int64_t now_ns)
{
    return leave_warming(slots, ref, endpoint, now_ns, WP_SLOT_LEASED);
}

/* The reason is written: it takes the endpoint's place, unless the slot was
 * freed meanwhile. */
static void
reason_publish(struct wp_slots *slots, uint32_t index)
{
    uint64_t word = word_load(slots, index);
    uint64_t new;

    do {
        new = word & ~WRITING;
        if (state_of(word) != WP_SLOT_FREE) {
            new = (new & ~HAS_ENDPOINT) | HAS_REASON;
        }
    } while (!atomic_compare_exchange_weak_explicit(
        &slots->hot[index].word, &word, new, memory_order_acq_rel,
        memory_order_acquire));
}

bool
wp_slot_lose(struct wp_slots *slots, struct wp_slot_ref ref,
             struct wp_str reason)
{
    uint64_t word;

    if (!ref_in_table(slots, ref)) {
        return false;
    }
    reason.len = reason.len < WP_REASON_MAX ? reason.len : WP_REASON_MAX;
    word = word_load(slots, ref.index);
    do {
        if (generation_of(word) != ref.generation ||
            state_of(word) != WP_SLOT_LEASED) {
            return false;
        }
    } while (!word_move(slots, ref.index, &word,
                        with_state(word, WP_SLOT_LOST) | WRITING));
    text_store(slots, ref.index, reason);
    reason_publish(slots, ref.index);
    return true;
}

bool
wp_slot_dequeue(struct wp_slots *slots, uint32_t index, enum wp_slot_state to,
                struct wp_slot_ref *ref)
{
    uint64_t word = word_load(slots, index);
    uint32_t pool;

    WP_ASSERT((word & QUEUED) != 0);
    *ref = (struct wp_slot_ref){index, generation_of(word)};
    pool = atomic_load_explicit(&slots->hot[index].pool_index,
                                memory_order_relaxed);
    for (;;) {
        if (state_of(word) == WP_SLOT_READY) {
            if (word_move(slots, index, &word,
                          with_state(word & ~QUEUED, to))) {
                return true;
            }
            continue;
        }
        /* Not ready at the moment the bit is cleared: who reopens it later
         * pushes it anew. */
        if (atomic_compare_exchange_weak_explicit(
                &slots->hot[index].word, &word, word & ~QUEUED,
                memory_order_acq_rel, memory_order_acquire)) {
            break;
        }
    }
    atomic_fetch_sub_explicit(&slots->counts[pool].tombstones, 1,
                              memory_order_relaxed);
    if (state_of(word) == WP_SLOT_FREE && (word & OBSTACLES) == QUEUED) {
        free_push(slots, index);
    }
    return false;
}
