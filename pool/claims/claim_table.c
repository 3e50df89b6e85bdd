/* What entries say, and who may end them; how they are found: claim_set.c. */
#include "pool/claims/claim_table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pool/base/assert.h"
#include "pool/base/mutant.h"
#include "pool/base/pages.h"
#include "pool/claims/claim_set.h"
#include "pool/slots/slot.h"
#include "pool/slots/timing_wheel.h"

enum {
    ENTRIES_PER_BUCKET = 2,
    GRANTED_BITS = 42, /* Milliseconds since 1970. */
};
#define GRANTED_MAX ((UINT64_C(1) << GRANTED_BITS) - 1)

_Static_assert(WP_RECORD_MARK_MAX <= UINT64_MAX >> GRANTED_BITS,
               "a mark fits beside the time");

_Static_assert(WP_CLAIM_ID_MAX % 8 == 0 && (WP_TENANT_MAX + 1) % 8 == 0,
               "texts are whole words");
_Static_assert(sizeof(struct wp_slot) + sizeof(struct wp_slot_cold) +
                       sizeof(struct wp_ready_node) +
                       sizeof(struct wp_timing_node) +
                       sizeof(struct wp_claim_entry) +
                       2 * sizeof(uint64_t) / ENTRIES_PER_BUCKET <=
                   WP_SLOT_BYTES_MAX,
               "the memory promised for each slot, all tables together");

/* --- Table --- */

bool
wp_claim_table_init(struct wp_claim_table *table, uint32_t claims_max,
                    struct wp_accounts *accounts)
{
    size_t entries = sizeof(struct wp_claim_entry) * claims_max;
    size_t buckets = 1;
    char *map;

    WP_ASSERT(claims_max > 0 && claims_max <= WP_CLAIMS_MAX);
    while (buckets * ENTRIES_PER_BUCKET < claims_max) {
        buckets *= 2;
    }
    memset(table, 0, sizeof *table);
    table->map_bytes = entries + buckets * sizeof(uint64_t);
    map = mmap(NULL, table->map_bytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) {
        return false;
    }
    wp_advise_huge_pages(map, table->map_bytes);
    /* Zero pages are entries and buckets that were never used. */
    table->map = map;
    table->entries = (struct wp_claim_entry *)(void *)map;
    table->buckets = (_Atomic(uint64_t) *)(void *)(map + entries);
    table->accounts = accounts;
    table->claims_max = claims_max;
    table->bucket_mask = (uint32_t)(buckets - 1);
    wp_claim_set_init(table);
    return true;
}

void
wp_claim_table_fini(struct wp_claim_table *table)
{
    if (table->map != NULL) {
        (void)munmap(table->map, table->map_bytes);
        table->map = NULL;
    }
}

size_t
wp_claim_table_memory_bytes(const struct wp_claim_table *table)
{
    return table->map_bytes;
}

uint32_t
wp_claim_table_used_max(const struct wp_claim_table *table)
{
    return atomic_load_explicit(&table->fresh, memory_order_acquire);
}

bool
wp_claim_table_has_pool(const struct wp_claim_table *table, uint32_t pool_index)
{
    for (uint32_t i = 0; i < wp_claim_table_used_max(table); i++) {
        const struct wp_claim_entry *entry = &table->entries[i];

        if (state_of(load_acquire(&entry->word)) != ENTRY_FREE &&
            (load_acquire(&entry->meta) & UINT16_MAX) == pool_index) {
            return true;
        }
    }
    return false;
}

struct wp_hash128
wp_claim_hash(struct wp_hash_key key, struct wp_str tenant,
              struct wp_str claim_id)
{
    unsigned char text[1 + WP_TENANT_MAX + WP_CLAIM_ID_MAX];

    WP_ASSERT(tenant.len <= WP_TENANT_MAX && claim_id.len > 0 &&
              claim_id.len <= WP_CLAIM_ID_MAX);
    text[0] = (unsigned char)tenant.len;
    if (tenant.len > 0) {
        memcpy(text + 1, tenant.ptr, tenant.len);
    }
    memcpy(text + 1 + tenant.len, claim_id.ptr, claim_id.len);
    return wp_siphash128(key, text, 1 + tenant.len + claim_id.len);
}

static void
words_store(_Atomic(uint64_t) *words, struct wp_str text)
{
    for (size_t i = 0; i * 8 < text.len; i++) {
        size_t left = text.len - i * 8;
        uint64_t word = 0;

        memcpy(&word, text.ptr + i * 8, left < 8 ? left : 8);
        /* Pairs with the acquire in words_load. */
        atomic_store_explicit(&words[i], word, memory_order_release);
    }
}

static void
words_load(const _Atomic(uint64_t) *words, char *out, size_t len)
{
    for (size_t i = 0; i * 8 < len; i++) {
        size_t left = len - i * 8;
        uint64_t word = load_acquire(&words[i]);

        memcpy(out + i * 8, &word, left < 8 ? left : 8);
    }
    out[len] = '\0';
}

/* The meta word: pool index (16 bits), how served (8, 0 as yet), length of the
 * claim id (8), of the tenant (8), account (24). */
static uint64_t
meta_make(const struct wp_claim_key *key, uint32_t account)
{
    return (uint64_t)key->pool_index | (uint64_t)key->claim_id.len << 24 |
           (uint64_t)key->tenant.len << 32 | (uint64_t)account << 40;
}

static uint32_t
meta_account(uint64_t meta)
{
    return (uint32_t)(meta >> 40);
}

static uint64_t
granted_make(int64_t wall_ms, uint32_t mark)
{
    uint64_t ms = wall_ms < 0 ? 0 : (uint64_t)wall_ms;

    return (uint64_t)(mark & WP_RECORD_MARK_MAX) << GRANTED_BITS |
           (ms < GRANTED_MAX ? ms : GRANTED_MAX);
}

/* All stores are releases: see claim_set.c and wp_claim_table_read. */
static void
entry_fill(struct wp_claim_entry *entry, const struct wp_claim_key *key,
           uint32_t account)
{
    atomic_store_explicit(&entry->hash[0], key->hash.low, memory_order_release);
    atomic_store_explicit(&entry->hash[1], key->hash.high,
                          memory_order_release);
    atomic_store_explicit(&entry->fingerprint, key->fingerprint,
                          memory_order_release);
    atomic_store_explicit(&entry->meta, meta_make(key, account),
                          memory_order_release);
    words_store(entry->claim_id, key->claim_id);
    words_store(entry->tenant, key->tenant);
}

/* Gives an entry a new life; it is not in the set yet. */
static struct wp_claim_ref
entry_start(struct wp_claim_table *table, uint32_t index,
            const struct wp_claim_key *key)
{
    struct wp_claim_entry *entry = &table->entries[index];
    uint32_t generation = generation_of(atomic_load_explicit(
                              &entry->word, memory_order_relaxed)) +
                          1;
    struct wp_counted counted = {WP_ACCOUNT_OTHERS, 0};

    generation = generation != 0 ? generation : 1;
    if (table->accounts != NULL) {
        counted = wp_accounts_take(table->accounts, key->pool_index,
                                   key->tenant, key->now_ns);
    }
    if (key->counted != NULL) {
        *key->counted = counted;
    }
    entry_fill(entry, key, counted.account);
    /* Publishes the fields: pairs with the acquire in read. */
    atomic_store_explicit(&entry->word,
                          (uint64_t)generation << 32 | ENTRY_PENDING,
                          memory_order_release);
    return (struct wp_claim_ref){index, generation};
}

/* Takes back an entry that did not get into the set. */
static void
entry_cancel(struct wp_claim_table *table, struct wp_claim_ref ref)
{
    if (table->accounts != NULL) {
        wp_accounts_give(
            table->accounts,
            meta_account(load_acquire(&table->entries[ref.index].meta)));
    }
    atomic_store_explicit(&table->entries[ref.index].word,
                          (uint64_t)ref.generation << 32 | ENTRY_FREE,
                          memory_order_release);
    wp_claim_set_give(table, ref.index);
}

enum wp_claim_begin
wp_claim_table_begin(struct wp_claim_table *table,
                     const struct wp_claim_key *key, struct wp_claim_ref *ref)
{
    struct wp_claim_ref mine = {0, 0};
    struct wp_claim_place at;
    uint64_t word;

    WP_ASSERT(key->claim_id.len > 0 && key->claim_id.len <= WP_CLAIM_ID_MAX &&
              key->tenant.len <= WP_TENANT_MAX &&
              key->pool_index < WP_POOLS_MAX);
    for (;;) {
        if (wp_claim_set_find(table, key->hash, &at, &word)) {
            if (mine.generation != 0) {
                entry_cancel(table, mine);
            }
            *ref = (struct wp_claim_ref){wp_claim_place_entry(&at),
                                         generation_of(word)};
            return WP_CLAIM_FOUND;
        }
        if (mine.generation == 0) {
            uint32_t index = wp_claim_set_take(table);

            if (index == UINT32_MAX) {
                *ref = mine;
                return WP_CLAIM_FULL;
            }
            mine = entry_start(table, index, key);
        }
        if (wp_claim_set_insert(table, &at, mine.index)) {
            *ref = mine;
            return WP_CLAIM_NEW;
        }
    }
}

bool
wp_claim_table_find(struct wp_claim_table *table, struct wp_hash128 hash,
                    struct wp_claim_ref *ref)
{
    struct wp_claim_place at;
    uint64_t word;

    if (!wp_claim_set_find(table, hash, &at, &word)) {
        return false;
    }
    *ref =
        (struct wp_claim_ref){wp_claim_place_entry(&at), generation_of(word)};
    return true;
}

bool
wp_claim_table_hold(struct wp_claim_table *table, struct wp_claim_ref ref,
                    struct wp_slot_ref slot, int64_t granted_wall_ms,
                    uint32_t served)
{
    struct wp_claim_entry *entry;
    uint64_t meta;
    uint64_t word;

    WP_ASSERT(ref.index < table->claims_max);
    entry = &table->entries[ref.index];
    word = load_acquire(&entry->word);
    WP_ASSERT(generation_of(word) == ref.generation &&
              state_of(word) == ENTRY_PENDING);
    atomic_store_explicit(&entry->slot, wp_slot_ref_pack(slot),
                          memory_order_release);
    atomic_store_explicit(&entry->granted,
                          granted_make(granted_wall_ms, wp_record_mark(served)),
                          memory_order_release);
    meta = atomic_load_explicit(&entry->meta, memory_order_relaxed);
    atomic_store_explicit(&entry->meta,
                          meta | (uint64_t)wp_record_served(served) << 16,
                          memory_order_release);
    /* Release publishes the fields: pairs with the acquire in read. Acquire:
     * who set the followers flag wrote its list before. */
    while (!atomic_compare_exchange_weak_explicit(
        &entry->word, &word, (word & ~(STATE_MASK | OTHERS)) | ENTRY_HELD,
        memory_order_acq_rel, memory_order_acquire)) {
    }
    return (word & OTHERS) != 0;
}

/* Tells so many others more; OTHERS: for good. */
static bool
share(struct wp_claim_table *table, struct wp_claim_ref ref, uint64_t others)
{
    uint64_t word;
    uint64_t more;

    WP_ASSERT(ref.index < table->claims_max);
    word = load_acquire(&table->entries[ref.index].word);
    do {
        if (generation_of(word) != ref.generation ||
            state_of(word) != ENTRY_HELD) {
            return false;
        }
        more = (word & OTHERS) + others;
        more = more < OTHERS ? more : OTHERS;
        /* A write even when the word stays the same: so what the caller read of
         * the lease before was of this entry's. */
    } while (!atomic_compare_exchange_weak_explicit(
        &table->entries[ref.index].word, &word, (word & ~OTHERS) | more,
        memory_order_acq_rel, memory_order_acquire));
    return true;
}

bool
wp_claim_table_share(struct wp_claim_table *table, struct wp_claim_ref ref)
{
    return share(table, ref, OTHERS);
}

bool
wp_claim_table_share_once(struct wp_claim_table *table, struct wp_claim_ref ref)
{
    return share(table, ref, ONE_OTHER);
}

bool
wp_claim_table_follow(struct wp_claim_table *table, struct wp_claim_ref ref)
{
    uint64_t word;

    WP_ASSERT(ref.index < table->claims_max);
    word = load_acquire(&table->entries[ref.index].word);
    do {
        if (generation_of(word) != ref.generation ||
            state_of(word) != ENTRY_PENDING) {
            return false;
        }
        /* Release pairs with the acquire in hold and end. */
    } while (!atomic_compare_exchange_weak_explicit(
        &table->entries[ref.index].word, &word, word | ONE_OTHER,
        memory_order_acq_rel, memory_order_acquire));
    return true;
}

/* Ends the entry, or leaves it to others who are told of it; *last is what its
 * word was. */
static bool
entry_end(struct wp_claim_table *table, struct wp_claim_ref ref, bool leaves,
          uint64_t *last)
{
    struct wp_claim_entry *entry;
    struct wp_hash128 hash;
    uint64_t word;
    uint64_t meta;
    uint64_t next;

    WP_ASSERT(ref.index < table->claims_max);
    entry = &table->entries[ref.index];
    word = load_acquire(&entry->word);
    meta = load_acquire(&entry->meta);
    hash.low = load_acquire(&entry->hash[0]);
    hash.high = load_acquire(&entry->hash[1]);
    do {
        if (generation_of(word) != ref.generation ||
            state_of(word) == ENTRY_FREE ||
            (leaves && (word & OTHERS) == OTHERS)) {
            return false;
        }
        next = leaves && (word & OTHERS) != 0
                   ? word - ONE_OTHER
                   : (uint64_t)ref.generation << 32 | ENTRY_FREE;
        /* Acquire as in hold; release: a reader that sees the next life's
         * fields sees that this one ended. */
    } while (!atomic_compare_exchange_weak_explicit(
        &entry->word, &word, next, memory_order_acq_rel, memory_order_acquire));
    if (state_of(next) != ENTRY_FREE) {
        return false;
    }
    wp_claim_set_remove(table, ref, hash);
    if (table->accounts != NULL &&
        (state_of(word) == ENTRY_HELD || !WP_MUTANT(ACCOUNT_LEAKED))) {
        wp_accounts_give(table->accounts, meta_account(meta));
    }
    *last = word;
    return true;
}

bool
wp_claim_table_end(struct wp_claim_table *table, struct wp_claim_ref ref,
                   bool *followers)
{
    uint64_t last;

    if (!entry_end(table, ref, false, &last)) {
        return false;
    }
    if (followers != NULL) {
        *followers = (last & OTHERS) != 0;
    }
    return true;
}

bool
wp_claim_table_leave(struct wp_claim_table *table, struct wp_claim_ref ref)
{
    uint64_t last;

    return entry_end(table, ref, true, &last);
}

/* --- Reading --- */

static void
entry_copy(const struct wp_claim_entry *entry, uint64_t word,
           struct wp_claim_view *out)
{
    uint64_t meta = load_acquire(&entry->meta);
    size_t claim_len = (meta >> 24) & 0xff;
    size_t tenant_len = (meta >> 32) & 0xff;
    uint64_t granted;

    out->held = state_of(word) == ENTRY_HELD;
    out->hash.low = load_acquire(&entry->hash[0]);
    out->hash.high = load_acquire(&entry->hash[1]);
    out->fingerprint = load_acquire(&entry->fingerprint);
    out->pool_index = (uint32_t)(meta & 0xffff);
    out->slot = WP_SLOT_REF_NONE;
    out->granted_wall_ms = 0;
    out->served = 0;
    if (out->held) {
        out->slot = wp_slot_ref_unpack(load_acquire(&entry->slot));
        granted = load_acquire(&entry->granted);
        out->granted_wall_ms = (int64_t)(granted & GRANTED_MAX);
        out->served =
            wp_record_served_pack((enum wp_served)((meta >> 16) & 0xff),
                                  (uint32_t)(granted >> GRANTED_BITS));
    }
    words_load(entry->claim_id, out->claim_id, claim_len);
    words_load(entry->tenant, out->tenant, tenant_len);
}

/* Copies the life that word belongs to; false when it ended meanwhile. */
static bool
entry_read(const struct wp_claim_table *table, uint32_t index, uint64_t word,
           struct wp_claim_view *out)
{
    const struct wp_claim_entry *entry = &table->entries[index];

    for (;;) {
        uint64_t after;

        if (state_of(word) == ENTRY_FREE) {
            return false;
        }
        entry_copy(entry, word, out);
        after = load_acquire(&entry->word);
        if (generation_of(after) != generation_of(word)) {
            return false;
        }
        if (state_of(after) == state_of(word)) {
            out->ref = (struct wp_claim_ref){index, generation_of(word)};
            return true;
        }
        word = after; /* Pending to held, or ended: at most twice. */
    }
}

bool
wp_claim_table_read(const struct wp_claim_table *table, struct wp_claim_ref ref,
                    struct wp_claim_view *out)
{
    uint64_t word;

    WP_ASSERT(ref.index < table->claims_max);
    word = load_acquire(&table->entries[ref.index].word);
    return generation_of(word) == ref.generation &&
           entry_read(table, ref.index, word, out);
}

bool
wp_claim_table_read_at(const struct wp_claim_table *table, uint32_t index,
                       struct wp_claim_view *out)
{
    WP_ASSERT(index < table->claims_max);
    return entry_read(table, index, load_acquire(&table->entries[index].word),
                      out);
}

void
wp_claim_table_check(const struct wp_claim_table *table)
{
    uint32_t accounts = table->accounts->mask + 1;
    uint32_t *tally = calloc(accounts, sizeof *tally);

    WP_ASSERT(tally != NULL);
    for (uint32_t i = 0; i < wp_claim_table_used_max(table); i++) {
        const struct wp_claim_entry *entry = &table->entries[i];

        if (state_of(load_acquire(&entry->word)) != ENTRY_FREE) {
            tally[meta_account(load_acquire(&entry->meta))]++;
        }
    }
    for (uint32_t i = 0; i < accounts; i++) {
        WP_ASSERT(tally[i] == wp_account_live(&table->accounts->account[i]));
    }
    free(tally);
}
