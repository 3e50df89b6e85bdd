/* M. Michael, "High performance dynamic lock-free hash tables and list-based
 * sets", SPAA 2002, in its form with tags, on indexes instead of pointers.
 *
 * A link is {tag, flags, index}; every change of a link adds one to its tag for
 * as long as the table lives, so that entries can be used anew at once. A
 * traversal checks, before it believes what it read of an entry, that the link
 * which led there is unchanged. A marked link means that the entry it belongs
 * to is leaving the list.
 *
 * All entries are in one list, and buckets are nodes in it that say where to
 * start: O. Shalev and N. Shavit, "Split-ordered lists", J. ACM 53 (2006). Its
 * order is that of the hash's low half with its bits reversed, in which
 * doubling the number of buckets splits each of them without moving an entry.
 * So the buckets in use follow the entries ever used, and few claims in a table
 * made for a million touch few lines: each line that memory has to bring costs
 * more than all the rest of a claim. */
#include "pool/claims/claim_set.h"

#include "pool/base/assert.h"

enum {
    BUCKETS_MIN = 64, /* In use from the start, if there are as many. */
};

/* What a link leads to: 0 nothing, index + 1 an entry, BUCKET | number a
 * bucket. Above that two flags and the tag, of 35 bits: to be fooled, a thread
 * has to sleep through exactly 2^35 changes of one link. */
#define BUCKET (UINT64_C(1) << 26)
#define INDEX_MASK (2 * BUCKET - 1)
/* The entry that the link belongs to is leaving. */
#define MARK (2 * BUCKET)
/* The bucket that the link belongs to may not be in the list yet. */
#define OUTSIDE (4 * BUCKET)
#define TAG_SHIFT 29

_Static_assert(WP_CLAIMS_MAX < BUCKET, "an index fits a link");

/* A place in the order: of a hash, or of a bucket. */
struct position {
    uint64_t key; /* The reversed bits; odd for a hash, even for a bucket. */
    struct wp_hash128 hash;
};

static inline bool
link_is_nil(uint64_t link)
{
    return (link & INDEX_MASK) == 0;
}

static inline bool
link_is_bucket(uint64_t link)
{
    return (link & BUCKET) != 0;
}

static inline uint32_t
link_entry(uint64_t link)
{
    return (uint32_t)(link & INDEX_MASK) - 1;
}

/* What replaces old and leads, without flags, where target leads. */
static inline uint64_t
link_like(uint64_t old, uint64_t target)
{
    return ((old >> TAG_SHIFT) + 1) << TAG_SHIFT | (target & INDEX_MASK);
}

void
wp_claim_set_init(struct wp_claim_table *table)
{
    /* All but the first bucket are made when they are first used. */
    atomic_init(&table->buckets[0], UINT64_C(1) << TAG_SHIFT);
}

uint32_t
wp_claim_place_entry(const struct wp_claim_place *at)
{
    return link_entry(at->link);
}

/* --- Free entries. While an entry is in no bucket its next links the free
 * list: the tag keeps growing through both lives. --- */

void
wp_claim_set_give(struct wp_claim_table *table, uint32_t index)
{
    struct wp_claim_entry *entry = &table->entries[index];
    uint64_t next = atomic_load_explicit(&entry->next, memory_order_relaxed);
    uint64_t top = atomic_load_explicit(&table->free_top, memory_order_relaxed);

    do {
        /* Release: a traversal that still reads this entry and sees this link
         * then sees that the link which led it here has changed. */
        atomic_store_explicit(&entry->next, link_like(next, top),
                              memory_order_release);
        /* Publishes next: pairs with the acquire in wp_claim_set_take. */
    } while (!atomic_compare_exchange_weak_explicit(
        &table->free_top, &top, link_like(top, (uint64_t)index + 1),
        memory_order_release, memory_order_relaxed));
}

/* UINT32_MAX when none is free. */
uint32_t
wp_claim_set_take(struct wp_claim_table *table)
{
    /* Pairs with the release in wp_claim_set_give. */
    uint64_t top = load_acquire(&table->free_top);
    uint32_t fresh;

    while (!link_is_nil(top)) {
        uint32_t index = link_entry(top);
        /* Another thread may own the entry by now; then the CAS fails. */
        uint64_t next = atomic_load_explicit(&table->entries[index].next,
                                             memory_order_relaxed);

        if (atomic_compare_exchange_weak_explicit(
                &table->free_top, &top, link_like(top, next),
                memory_order_acquire, memory_order_acquire)) {
            return index;
        }
    }
    fresh = atomic_load_explicit(&table->fresh, memory_order_relaxed);
    do {
        if (fresh >= table->claims_max) {
            return UINT32_MAX;
        }
    } while (!atomic_compare_exchange_weak_explicit(
        &table->fresh, &fresh, fresh + 1, memory_order_relaxed,
        memory_order_relaxed));
    return fresh;
}

/* --- The set --- */

static uint64_t
reverse_bits(uint64_t x)
{
    x = __builtin_bswap64(x);
    x = (x >> 4 & UINT64_C(0x0f0f0f0f0f0f0f0f)) |
        (x & UINT64_C(0x0f0f0f0f0f0f0f0f)) << 4;
    x = (x >> 2 & UINT64_C(0x3333333333333333)) |
        (x & UINT64_C(0x3333333333333333)) << 2;
    return (x >> 1 & UINT64_C(0x5555555555555555)) |
           (x & UINT64_C(0x5555555555555555)) << 1;
}

static struct position
position_of_hash(struct wp_hash128 hash)
{
    return (struct position){reverse_bits(hash.low) | 1, hash};
}

static struct position
position_of_bucket(uint32_t bucket)
{
    return (struct position){reverse_bits(bucket), {0, 0}};
}

static int
position_compare(const struct position *a, const struct position *b)
{
    if (a->key != b->key) {
        return a->key < b->key ? -1 : 1;
    }
    if (a->hash.low != b->hash.low) {
        return a->hash.low < b->hash.low ? -1 : 1;
    }
    if (a->hash.high != b->hash.high) {
        return a->hash.high < b->hash.high ? -1 : 1;
    }
    return 0;
}

/* Marks the entry that at->link leads to, unless its next has changed. */
static bool
entry_mark(struct wp_claim_table *table, uint32_t index, uint64_t next)
{
    uint64_t marked = link_like(next, next) | MARK;

    /* Release pairs with the acquire loads of links: who sees the mark sees
     * that the entry has ended. */
    return atomic_compare_exchange_strong_explicit(
        &table->entries[index].next, &next, marked, memory_order_release,
        memory_order_relaxed);
}

/* Takes the marked entry at `at` out of its list and frees it. */
static bool
entry_unlink(struct wp_claim_table *table, const struct wp_claim_place *at)
{
    uint64_t old = at->link;
    /* Release: who then finds the entry free or used anew also sees it gone
     * from here. Acquire: the entry is ours to free. */
    bool unlinked = atomic_compare_exchange_strong_explicit(
        at->prev, &old, link_like(old, at->next), memory_order_acq_rel,
        memory_order_relaxed);

    if (unlinked) {
        wp_claim_set_give(table, link_entry(at->link));
    }
    return unlinked;
}

/* One step at the node that at->link leads to: its place compared with the
 * wanted one. False when the list changed under us: start over. */
static bool
node_look(struct wp_claim_table *table, struct wp_claim_place *at,
          const struct position *wanted, int *order)
{
    struct position here;

    /* Acquire, all three: pair with the release stores of who fills in or frees
     * the entry; so if one of them reads what a later life of the entry wrote,
     * the check below sees that the entry was unlinked before. */
    if (link_is_bucket(at->link)) {
        uint32_t bucket = (uint32_t)(at->link & (BUCKET - 1));

        at->next = load_acquire(&table->buckets[bucket]);
        here = position_of_bucket(bucket);
    } else {
        struct wp_claim_entry *entry = &table->entries[link_entry(at->link)];
        struct wp_hash128 hash;

        at->next = load_acquire(&entry->next);
        hash.low = load_acquire(&entry->hash[0]);
        hash.high = load_acquire(&entry->hash[1]);
        here = position_of_hash(hash);
    }
    if (atomic_load_explicit(at->prev, memory_order_relaxed) != at->link) {
        return false;
    }
    *order = position_compare(&here, wanted);
    return true;
}

/* Finds, from a bucket that is in the list and before the wanted place, the
 * first unmarked node that is not before that place; true when it is there.
 * Unlinks what is marked on the way. */
static bool
set_search(struct wp_claim_table *table, uint32_t bucket,
           const struct position *wanted, struct wp_claim_place *at)
{
    int order;

restart:
    at->prev = &table->buckets[bucket];
    at->link = load_acquire(at->prev);
    while (!link_is_nil(at->link)) {
        if (!node_look(table, at, wanted, &order)) {
            goto restart;
        }
        if ((at->next & MARK) != 0) {
            (void)entry_unlink(table, at); /* Or another thread does. */
            goto restart;
        }
        if (order >= 0) {
            return order == 0;
        }
        at->prev = link_is_bucket(at->link)
                       ? &table->buckets[at->link & (BUCKET - 1)]
                       : &table->entries[link_entry(at->link)].next;
        at->link = at->next;
    }
    return false;
}

/* --- Buckets --- */

static bool
bucket_is_inside(struct wp_claim_table *table, uint32_t bucket)
{
    /* Acquire pairs with the release that put the bucket into the list. */
    uint64_t link = load_acquire(&table->buckets[bucket]);

    return link != 0 && (link & OUTSIDE) == 0;
}

/* Puts the bucket into the list; returns where to start for now: there, or at
 * the nearest bucket before it when another thread is just doing it. */
static uint32_t
bucket_make(struct wp_claim_table *table, uint32_t bucket)
{
    struct position here = position_of_bucket(bucket);
    _Atomic(uint64_t) *link = &table->buckets[bucket];
    uint32_t before = bucket;
    uint64_t own = 0;
    struct wp_claim_place at;

    do {
        /* Without its highest bit: what it was split from. Ends at bucket 0. */
        before &= ~(UINT32_C(1) << (31 - __builtin_clz(before)));
    } while (!bucket_is_inside(table, before));
    if (!atomic_compare_exchange_strong_explicit(
            link, &own, OUTSIDE, memory_order_relaxed, memory_order_relaxed)) {
        return before;
    }
    do {
        bool found = set_search(table, before, &here, &at);
        uint64_t old = at.link;

        WP_ASSERT(!found);
        own = link_like(own, at.link) | OUTSIDE;
        atomic_store_explicit(link, own, memory_order_release);
        /* Publishes our link: pairs with the acquire loads of links. */
        if (atomic_compare_exchange_strong_explicit(
                at.prev, &old, link_like(old, BUCKET | bucket),
                memory_order_release, memory_order_relaxed)) {
            break;
        }
    } while (true);
    /* Who changes the link in the list clears the flag too. */
    while ((own & OUTSIDE) != 0 &&
           !atomic_compare_exchange_weak_explicit(
               link, &own, link_like(own, own), memory_order_release,
               memory_order_relaxed)) {
    }
    return bucket;
}

/* Where to start for this hash. The buckets in use are the power of two that is
 * not below the number of entries ever used. */
static uint32_t
bucket_of(struct wp_claim_table *table, struct wp_hash128 hash)
{
    uint32_t used = atomic_load_explicit(&table->fresh, memory_order_relaxed);
    uint32_t mask = UINT32_MAX >> __builtin_clz(used | (BUCKETS_MIN - 1));
    uint32_t bucket = (uint32_t)hash.low & mask & table->bucket_mask;

    return bucket_is_inside(table, bucket) ? bucket
                                           : bucket_make(table, bucket);
}

static bool
set_search_hash(struct wp_claim_table *table, struct wp_hash128 hash,
                struct wp_claim_place *at)
{
    struct position wanted = position_of_hash(hash);

    return set_search(table, bucket_of(table, hash), &wanted, at);
}

/* Like set_search_hash, and the entry found has not ended: *word is its
 * word. */
bool
wp_claim_set_find(struct wp_claim_table *table, struct wp_hash128 wanted,
                  struct wp_claim_place *at, uint64_t *word)
{
    while (set_search_hash(table, wanted, at)) {
        uint32_t index = link_entry(at->link);

        *word = load_acquire(&table->entries[index].word);
        if (state_of(*word) != ENTRY_FREE) {
            /* Live: perhaps already another life of the entry, if this one
             * ended since the search; then the link has changed. */
            if (load_acquire(at->prev) == at->link) {
                return true;
            }
            continue;
        }
        /* Ended but not marked yet: do it for who ended it. */
        (void)entry_mark(table, index, at->next);
    }
    return false;
}

/* Puts a started entry where a search for its hash ended. */
bool
wp_claim_set_insert(struct wp_claim_table *table, struct wp_claim_place *at,
                    uint32_t index)
{
    struct wp_claim_entry *entry = &table->entries[index];
    uint64_t next = atomic_load_explicit(&entry->next, memory_order_relaxed);
    uint64_t old = at->link;

    /* Release for the same reason as in wp_claim_set_give. */
    atomic_store_explicit(&entry->next, link_like(next, at->link),
                          memory_order_release);
    /* Publishes the entry: pairs with the acquire loads of links. The tag makes
     * sure that nothing was inserted or unlinked here since the search. */
    return atomic_compare_exchange_strong_explicit(
        at->prev, &old, link_like(old, (uint64_t)index + 1),
        memory_order_release, memory_order_relaxed);
}

/* Takes an ended entry out of its bucket, unless others have done it. */
void
wp_claim_set_remove(struct wp_claim_table *table, struct wp_claim_ref ref,
                    struct wp_hash128 hash)
{
    struct wp_claim_place at;

    while (set_search_hash(table, hash, &at) &&
           link_entry(at.link) == ref.index) {
        uint64_t word = load_acquire(&table->entries[ref.index].word);

        if (generation_of(word) != ref.generation) {
            return;
        }
        if (entry_mark(table, ref.index, at.next) && entry_unlink(table, &at)) {
            return;
        }
    }
}
