/* pool/claims/claim_table.h - which claims exist: a lock-free set keyed by
 * claim id.
 *
 * The key is a 128-bit SipHash of (tenant, claim id) under a secret random key.
 * Two claims with equal hashes are taken for one: nobody who does not know the
 * key can find two such, and by chance, with 2^24 live claims, the probability
 * is below 2^-80, far under that of a wrong bit in memory.
 *
 * An entry is PENDING from the moment its claim is accepted, HELD once it has
 * its sandbox, and gone when it ends. Its owner is who was told WP_CLAIM_NEW:
 * until HELD, only the owner may hold or end it. Others may ask to be told of
 * its outcome (wp_claim_table_follow). An entry is named by {index,
 * generation}: once ended, the name is stale for ever.
 *
 * An entry counts on its tenant's account from before it is in the set until it
 * has ended. Nothing else counts there.
 *
 * Fixed capacity, one mapping, never allocates. All functions, init and fini
 * excepted, are for any thread and lock-free. */
#ifndef WP_POOL_CLAIMS_CLAIM_TABLE_H
#define WP_POOL_CLAIMS_CLAIM_TABLE_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/siphash.h"
#include "pool/base/str.h"
#include "pool/claims/accounts.h"
#include "pool/lease_record.h"
#include "pool/limits.h"
#include "pool/slot_ref.h"

struct wp_claim_ref {
    uint32_t index;
    uint32_t generation; /* 0: no entry. */
};

static inline uint64_t
wp_claim_ref_pack(struct wp_claim_ref ref)
{
    return (uint64_t)ref.generation << 32 | ref.index;
}

static inline struct wp_claim_ref
wp_claim_ref_unpack(uint64_t packed)
{
    return (struct wp_claim_ref){(uint32_t)packed, (uint32_t)(packed >> 32)};
}

enum {
    WP_CLAIMS_MAX = 1 << 25, /* Held or waiting, all pools together. */
};

struct wp_claim_entry {
    alignas(WP_CACHELINE) _Atomic(uint64_t) word; /* {generation, state} */
    _Atomic(uint64_t) next;                       /* {tag, flags, index} */
    _Atomic(uint64_t) hash[2];
    _Atomic(uint64_t) fingerprint;
    _Atomic(uint64_t) slot;
    _Atomic(uint64_t) granted; /* When, and the mark of who did. */
    _Atomic(uint64_t) meta;    /* Pool, how served, texts' lengths, account. */
    _Atomic(uint64_t) claim_id[WP_CLAIM_ID_MAX / 8];
    _Atomic(uint64_t) tenant[(WP_TENANT_MAX + 1) / 8];
};

struct wp_claim_table {
    struct wp_claim_entry *entries; /* Owned; claims_max of them. */
    _Atomic(uint64_t) *buckets;     /* Owned; bucket_mask + 1 links. */
    void *map;                      /* Owned: holds both. */
    size_t map_bytes;
    struct wp_accounts *accounts; /* Borrowed; NULL: nobody counts. */
    uint32_t claims_max;
    uint32_t bucket_mask;
    alignas(WP_CACHELINE) _Atomic(uint64_t) free_top; /* {tag, index + 1} */
    _Atomic(uint32_t) fresh; /* Entries from here on were never used. */
};

enum wp_claim_begin {
    WP_CLAIM_NEW,   /* ref is the caller's PENDING entry. */
    WP_CLAIM_FOUND, /* ref is an entry of the same id; it may end any time. */
    WP_CLAIM_FULL,  /* No entry is free; ref is {0, 0}. */
};

/* What a new entry says from the start. Strings are copied. */
struct wp_claim_key {
    struct wp_hash128 hash; /* wp_claim_hash of the two texts. */
    uint64_t fingerprint;   /* Of the rest of the request. */
    struct wp_str claim_id; /* 1..WP_CLAIM_ID_MAX bytes */
    struct wp_str tenant;   /* 0..WP_TENANT_MAX bytes */
    uint32_t pool_index;
    int64_t now_ns; /* Of a new claim; 0: known from elsewhere. */
    /* May be NULL: what a NEW entry was counted as. */
    struct wp_counted *counted;
};

/* A copy of an entry. */
struct wp_claim_view {
    struct wp_claim_ref ref;
    bool held; /* False: pending; then slot, granted and served are unset. */
    struct wp_hash128 hash;
    uint64_t fingerprint;
    uint32_t pool_index;
    struct wp_slot_ref slot;
    int64_t granted_wall_ms;
    uint32_t served; /* See wp_record_served_pack; 0 while pending. */
    char claim_id[WP_CLAIM_ID_MAX + 1];
    char tenant[WP_TENANT_MAX + 1];
};

/* False when memory lacks. claims_max is 1..WP_CLAIMS_MAX (asserted). accounts
 * outlive the table; NULL: claims are counted nowhere. */
WP_MUST_CHECK bool wp_claim_table_init(struct wp_claim_table *table,
                                       uint32_t claims_max,
                                       struct wp_accounts *accounts);
/* Is a claim of this pool held or under way? O(entries ever used). One that
 * begins meanwhile may be missed. */
bool wp_claim_table_has_pool(const struct wp_claim_table *table,
                             uint32_t pool_index);
/* After every thread has left. */
void wp_claim_table_fini(struct wp_claim_table *table);
/* Address space reserved. */
size_t wp_claim_table_memory_bytes(const struct wp_claim_table *table);

/* The key of a claim. The tenant's length is hashed too, so that no two pairs
 * of texts give one input. Lengths as in limits.h (asserted). */
struct wp_hash128 wp_claim_hash(struct wp_hash_key key, struct wp_str tenant,
                                struct wp_str claim_id);

/* The live entry of this id, or a new PENDING one: of all threads that begin
 * the same id while no such entry lives, exactly one is told NEW. */
WP_MUST_CHECK enum wp_claim_begin
wp_claim_table_begin(struct wp_claim_table *table,
                     const struct wp_claim_key *key, struct wp_claim_ref *ref);

/* PENDING -> HELD. By the owner, once (asserted). served as in a record; a time
 * that is no point between 1970 and 2109 becomes the nearest that is. True:
 * followers wait for the outcome and must be told now. Release, paired with the
 * acquire in read. */
WP_MUST_CHECK bool wp_claim_table_hold(struct wp_claim_table *table,
                                       struct wp_claim_ref ref,
                                       struct wp_slot_ref slot,
                                       int64_t granted_wall_ms,
                                       uint32_t served);

/* Ends the entry: its id is free for a new claim before this returns. True for
 * exactly one caller per entry; false when it has ended. *followers (may be
 * NULL): others wait for the outcome and must be told. A PENDING entry is ended
 * by its owner only. */
WP_MUST_CHECK bool wp_claim_table_end(struct wp_claim_table *table,
                                      struct wp_claim_ref ref, bool *followers);

/* Somebody besides its owner is told of a HELD entry, and will not leave: from
 * then on nobody who leaves ends it. False when it has ended: what was read of
 * its lease before is void. Acquire and release. */
WP_MUST_CHECK bool wp_claim_table_share(struct wp_claim_table *table,
                                        struct wp_claim_ref ref);
/* The same of somebody who may leave again. Of more than 254 none may. */
WP_MUST_CHECK bool wp_claim_table_share_once(struct wp_claim_table *table,
                                             struct wp_claim_ref ref);
/* The owner, or who was told of the HELD entry by share_once, was told nothing
 * after all; once for each of them. True: nobody is left, and the entry has
 * ended, as by wp_claim_table_end. */
WP_MUST_CHECK bool wp_claim_table_leave(struct wp_claim_table *table,
                                        struct wp_claim_ref ref);

/* Asks the owner of a PENDING entry to tell its followers: true when it will.
 * False when it is no longer pending: look again. Keep the follower in a list
 * under a lock that is held over this call and that the owner takes, after hold
 * or end said so, to read that list. */
WP_MUST_CHECK bool wp_claim_table_follow(struct wp_claim_table *table,
                                         struct wp_claim_ref ref);

/* The live entry of this id; false when there is none. */
WP_MUST_CHECK bool wp_claim_table_find(struct wp_claim_table *table,
                                       struct wp_hash128 hash,
                                       struct wp_claim_ref *ref);

/* A consistent copy; false when that entry has ended. */
WP_MUST_CHECK bool wp_claim_table_read(const struct wp_claim_table *table,
                                       struct wp_claim_ref ref,
                                       struct wp_claim_view *out);
/* The same for whatever live entry is at index; false when there is none. */
WP_MUST_CHECK bool wp_claim_table_read_at(const struct wp_claim_table *table,
                                          uint32_t index,
                                          struct wp_claim_view *out);
/* Indexes below this have been used; for walks with read_at. An entry that
 * lives during the whole walk is seen exactly once. */
uint32_t wp_claim_table_used_max(const struct wp_claim_table *table);
/* Aborts when an account counts other than the entries that it has. With all
 * threads quiet; O(entries ever used). */
void wp_claim_table_check(const struct wp_claim_table *table);

#endif
