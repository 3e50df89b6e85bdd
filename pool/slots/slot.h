/* pool/slots/slot.h - the slot table: one record for each sandbox that may
 * exist.
 *
 * All pools share one table. A slot is named by {index, generation}; its state
 * lives in one atomic word with the generation, so a stale name never moves
 * anything. All states change in slot.c, along the edges of slot_states.def.
 *
 * A slot that is linked in a ready queue cannot be used anew, even when its
 * sandbox is long gone: a `queued` bit in the word says so. A move to READY
 * sets it, taking the slot out of the queue clears it, and whoever clears the
 * last such bit of a FREE slot gives it to the free list. So the queue holds
 * bare indexes, and a sandbox that dies while ready costs its marker (a
 * tombstone) nothing but a skipped pop.
 *
 * Memory: one mapping made at init; pages never touched cost nothing. */
#ifndef WP_POOL_SLOTS_SLOT_H
#define WP_POOL_SLOTS_SLOT_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/backend.h"
#include "pool/base/assert.h"
#include "pool/base/compiler.h"
#include "pool/base/status.h"
#include "pool/base/str.h"
#include "pool/limits.h"
#include "pool/slot_ref.h"

enum wp_slot_state {
#define WP_SLOT_STATE(name, text, meaning) WP_SLOT_##name,
#define WP_SLOT_EDGE(from, to, reason)
#include "pool/slots/slot_states.def"
#undef WP_SLOT_STATE
#undef WP_SLOT_EDGE
    WP_SLOT_STATE_COUNT
};

enum {
    WP_SLOT_NONE = UINT32_MAX >> 1, /* "No slot" in the u32 links. */
    /* Words of a text that is the endpoint, or later the reason of a loss. */
    WP_SLOT_TEXT_WORDS = (WP_ENDPOINT_MAX + 8) / 8,
    /* Of a slot with its queue node, wheel node, claim entry and bucket. */
    WP_SLOT_BYTES_MAX = 512,
    WP_QUEUES_PER_POOL = 2, /* Ready queues, each with a dummy node. */
};

/* What every claim touches: one cache line. Its fields, the word excepted, are
 * for pool.c and the containers it is made of; they mean something only to who
 * owns the slot in its present state. */
struct wp_slot {
    alignas(WP_CACHELINE) _Atomic(uint64_t) word; /* slot.c only. */
    _Atomic(uint64_t) fence;      /* Of the latest lease; never goes back. */
    _Atomic(int64_t) deadline_ns; /* Of the lease; monotonic. */
    _Atomic(int64_t) deadline_wall_ms; /* The same as shown and recorded. */
    _Atomic(uint32_t) pool_index;      /* Set at alloc. */
    _Atomic(uint32_t) claim_entry;     /* Index in the claim table. */
    _Atomic(uint32_t) free_next;       /* slot.c only. */
    _Atomic(uint32_t) queue_node; /* ready_queue.c only: owned unless queued. */
    _Atomic(uint32_t) work_next;  /* List of slots that are marked. */
    _Atomic(uint32_t) work; /* Pending for control; pool/table/slot_bits.c. */
    _Atomic(uint32_t) gone; /* Latest generation with nothing of it left. */
    uint32_t control_bits;  /* What control knows; the same file. */
};

/* What few ask for. Each word is atomic, so that a reader may copy it while the
 * slot gets a new owner, and find out afterwards (wp_slot_read). */
struct wp_slot_cold {
    _Atomic(uint64_t) uid[WP_UID_LEN / 8];
    _Atomic(uint64_t) suffix;
    _Atomic(uint64_t) created_ns;
    _Atomic(uint64_t) ready_ns;
    _Atomic(uint64_t) text[WP_SLOT_TEXT_WORDS];
};

/* A node of a ready queue; see ready_queue.c. */
struct wp_ready_node {
    _Atomic(uint64_t) next; /* {tag, index of a node} */
    _Atomic(uint32_t) slot; /* Index of the slot it stands for. */
    uint32_t pad;
};

/* Numbers of one pool. They lag the words by the few instructions between a
 * move and its counting: exact once things are quiet. */
struct wp_slot_counts {
    /* READY and LEASED share the word of READY, as its low and high half: a
     * claim moves a slot from one to the other, with one addition. */
    alignas(WP_CACHELINE) _Atomic(int64_t) in_state[WP_SLOT_STATE_COUNT];
    alignas(WP_CACHELINE) _Atomic(uint64_t) created;
    _Atomic(uint64_t) destroyed;
    _Atomic(int64_t) tombstones;
};

struct wp_slots {
    struct wp_slot *hot;           /* Owned; slots_max of them, as all below. */
    struct wp_slot_cold *cold;     /* Owned. */
    struct wp_ready_node *nodes;   /* Owned; pools_max more. */
    struct wp_slot_counts *counts; /* Owned; pools_max of them. */
    void *map;                     /* Owned: holds all four. */
    size_t map_bytes;
    uint32_t slots_max;
    uint32_t pools_max;
    alignas(WP_CACHELINE) _Atomic(uint64_t) free_top; /* {tag, index + 1} */
    _Atomic(uint32_t) fresh; /* Slots from here on were never used. */
};

/* A copy of what a slot says; see wp_slot_read. */
struct wp_slot_info {
    enum wp_slot_state state;
    uint32_t pool_index;
    uint8_t uid[WP_UID_LEN];
    char suffix[WP_SANDBOX_SUFFIX_LEN + 1]; /* Name: pool name "-" suffix. */
    char endpoint[WP_ENDPOINT_MAX + 1];     /* "" until ready and when lost. */
    char lost_reason[WP_REASON_MAX + 1];    /* "" unless lost while leased. */
    int64_t created_ns;
    int64_t ready_ns; /* Until ready: when it was begun with; 0: not known. */
};

/* --- Table --- */

/* False when memory lacks. slots_max is 1..WP_SLOTS_MAX, pools_max is
 * 1..WP_POOLS_MAX (asserted). Before sharing. */
WP_MUST_CHECK bool wp_slots_init(struct wp_slots *slots, uint32_t slots_max,
                                 uint32_t pools_max);
/* After every thread has left. */
void wp_slots_fini(struct wp_slots *slots);
/* Address space reserved. */
size_t wp_slots_memory_bytes(const struct wp_slots *slots);

/* FREE -> WARMING: a slot for a new sandbox of this pool, with a generation it
 * never had, counted as created; WP_SLOT_REF_NONE when there is none free. The
 * caller owns its fields from here; claim_entry is cleared; work, work_next,
 * gone, fence and control_bits are as they were, deadline_ns is WP_TIME_NEVER.
 * uid has WP_UID_LEN bytes. Any thread, lock-free. */
WP_MUST_CHECK struct wp_slot_ref wp_slots_alloc(struct wp_slots *slots,
                                                uint32_t pool_index,
                                                const uint8_t *uid,
                                                int64_t now_ns);

/* Stores the suffix of the sandbox's name: 1..WP_SANDBOX_SUFFIX_LEN bytes. By
 * who allocated it, before anybody else learns of ref; the name may depend on
 * ref, which is why alloc does not take it. */
void wp_slot_set_suffix(struct wp_slots *slots, struct wp_slot_ref ref,
                        struct wp_str suffix);

/* How many slots of the pool are in the state; of FREE: always 0. Any
 * thread. */
uint32_t wp_slots_count(const struct wp_slots *slots, uint32_t pool_index,
                        enum wp_slot_state state);
/* Slots ever taken by wp_slots_alloc, and ever moved DYING -> FREE. */
uint64_t wp_slots_created(const struct wp_slots *slots, uint32_t pool_index);
uint64_t wp_slots_destroyed(const struct wp_slots *slots, uint32_t pool_index);
/* No slot is of the pool, not even a dead one that is linked in a queue or
 * being written to; and none of the pool's counts is still to be added to.
 * O(slots). By who alone allocates slots. */
bool wp_slots_none_left(const struct wp_slots *slots, uint32_t pool_index);
/* Dead slots that are still linked in the pool's ready queue. */
uint32_t wp_slots_tombstones(const struct wp_slots *slots, uint32_t pool_index);
/* Indexes below this have been used; for walks over the table. */
uint32_t wp_slots_used_max(const struct wp_slots *slots);
/* Aborts unless, for every pool, created = the sum of the live states +
 * destroyed (invariant I4), and the counts are what the words say. O(slots);
 * with every other thread quiet. Allocates. */
void wp_slots_check(const struct wp_slots *slots);

/* --- One slot. Any thread, lock-free, unless said otherwise. --- */

/* Moves the slot when it is of this generation and in `from`; false otherwise,
 * and nothing changed. The edge must be in slot_states.def (asserted). Release
 * on success, paired with the acquire in every function here.
 *
 * Edges that carry data have their own function, and are refused here: FREE ->
 * WARMING is wp_slots_alloc, WARMING -> READY wp_slot_make_ready, WARMING ->
 * LEASED wp_slot_restore_leased, LEASED -> READY wp_slot_reopen, LEASED -> LOST
 * wp_slot_lose. READY -> LEASED here leaves a tombstone in the ready queue;
 * claims take theirs by wp_ready_queue_pop. */
WP_MUST_CHECK bool wp_slot_move(struct wp_slots *slots, struct wp_slot_ref ref,
                                enum wp_slot_state from, enum wp_slot_state to);

/* WARMING -> READY, with where it answers (1..WP_ENDPOINT_MAX bytes). True: the
 * caller must push the slot, once, even if it dies in between. False when
 * stale, not warming, or somebody else is doing the same. */
WP_MUST_CHECK bool wp_slot_make_ready(struct wp_slots *slots,
                                      struct wp_slot_ref ref,
                                      struct wp_str endpoint, int64_t now_ns);

/* WARMING -> LEASED, with where it answers: a lease that a store kept. As
 * make_ready otherwise, but nothing is to be pushed. */
WP_MUST_CHECK bool wp_slot_restore_leased(struct wp_slots *slots,
                                          struct wp_slot_ref ref,
                                          struct wp_str endpoint,
                                          int64_t now_ns);

/* LEASED -> READY: the lease ended before its sandbox was shown to anybody. On
 * true the caller pushes the slot, once, if *push; else it is linked still.
 * False when stale or not leased. */
WP_MUST_CHECK bool wp_slot_reopen(struct wp_slots *slots,
                                  struct wp_slot_ref ref, bool *push);

/* LEASED -> LOST, with the reason (cut at WP_REASON_MAX). False when stale or
 * not leased. */
WP_MUST_CHECK bool wp_slot_lose(struct wp_slots *slots, struct wp_slot_ref ref,
                                struct wp_str reason);

/* The state of that generation; WP_SLOT_FREE when it is over. */
enum wp_slot_state wp_slot_state(const struct wp_slots *slots,
                                 struct wp_slot_ref ref);
/* The present generation of the slot, live or not; NONE when never used. */
struct wp_slot_ref wp_slot_ref_at(const struct wp_slots *slots, uint32_t index);

/* A consistent copy; false when that generation is over or never was. */
WP_MUST_CHECK bool wp_slot_read(const struct wp_slots *slots,
                                struct wp_slot_ref ref,
                                struct wp_slot_info *out);

/* The fence of a new lease: greater than any this slot had (invariant I5). By
 * who popped it. */
uint64_t wp_slot_fence_next(struct wp_slots *slots, struct wp_slot_ref ref);

/* The uid it was allocated with. By who owns the slot: not checked. */
void wp_slot_uid(const struct wp_slots *slots, struct wp_slot_ref ref,
                 uint8_t out[WP_UID_LEN]);
/* When its sandbox was ordered. By who owns the slot: not checked otherwise. */
int64_t wp_slot_created_ns(const struct wp_slots *slots,
                           struct wp_slot_ref ref);
/* While it warms: the backend has begun with it. As the one above. */
void wp_slot_set_started_ns(struct wp_slots *slots, struct wp_slot_ref ref,
                            int64_t now_ns);
/* 0: nobody has said so. */
int64_t wp_slot_started_ns(const struct wp_slots *slots,
                           struct wp_slot_ref ref);

bool wp_slot_edge_allowed(enum wp_slot_state from, enum wp_slot_state to);

/* The hot fields. index < wp_slots_used_max. */
static inline struct wp_slot *
wp_slot_at(struct wp_slots *slots, uint32_t index)
{
    WP_DASSERT(index < wp_slots_used_max(slots));
    return &slots->hot[index];
}

/* --- For ready_queue.c only --- */

/* Takes the slot out of its queue: clears the queued bit and, when it is READY,
 * moves it to `to` (LEASED or DYING). False: it was a tombstone, and is freed
 * now if its sandbox is gone. *ref is its name in both cases. */
WP_MUST_CHECK bool wp_slot_dequeue(struct wp_slots *slots, uint32_t index,
                                   enum wp_slot_state to,
                                   struct wp_slot_ref *ref);
/* True while it is READY: worth keeping in the queue. */
bool wp_slot_is_ready(const struct wp_slots *slots, uint32_t index);

#endif
