/* A chained hash table of peers, whose entries are reused once they count
 * nothing.
 *
 * Only the entering thread changes the table's structure; those who leave only
 * count down. There are twice as many entries as what they can count,
 * connections and calls, so at least half of them count nothing, and the hand
 * that looks for such an entry moves two steps in the mean: entries ahead of it
 * are only ever left, never entered anew. The hash is keyed: nobody can choose
 * addresses that share a bucket. */
#include "proto/sockets/peer_limits.h"

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "pool/base/assert.h"
#include "pool/base/siphash.h"

enum {
    NOWHERE = 0, /* Entry 0 is never used: the end of a chain. */
    LOOPBACK_NET = 127,
};

#define WATCHED_NS (2 * WP_NS_PER_S)
#define TURN_NS (20 * WP_NS_PER_MS)
#define WAIT_MAX_NS (2 * WP_NS_PER_S)

enum share {
    SHARE_TCP,
    SHARE_UNIX,
    SHARE_PRIVILEGED,
    SHARES,
};

struct entry {
    uint64_t id;
    uint32_t next;
    /* The entering thread counts up, any thread down. */
    _Atomic(uint32_t) count;
    _Atomic(uint32_t) calls; /* In progress; any thread counts. */
    _Atomic(int64_t) watched_until_ns;
    int64_t next_turn_ns; /* The entering thread's. */
    uint8_t kind;
    bool linked;
};

struct wp_peer_limits {
    struct wp_peer_limits_config config;
    struct wp_hash_key key;
    struct entry *entries; /* 1 .. n_entries. */
    uint32_t *buckets;
    uint32_t n_entries;
    uint32_t bucket_mask;
    uint32_t hand;
    _Atomic(uint32_t) used[SHARES];
    /* Calls in progress: the privileged's in the upper half, so that one
     * operation counts and sees both. */
    _Atomic(uint64_t) calls;
};

static struct wp_peer
ipv4_peer(uint32_t host)
{
    if (host >> 24 == LOOPBACK_NET) {
        host = INADDR_LOOPBACK;
    }
    return (struct wp_peer){.kind = WP_PEER_IPV4, .id = host};
}

struct wp_peer
wp_peer_from_address(const struct sockaddr *address)
{
    struct sockaddr_in ipv4;
    struct sockaddr_in6 ipv6;
    struct wp_peer peer = {.kind = WP_PEER_IPV6};
    uint32_t inner;

    if (address->sa_family == AF_INET) {
        memcpy(&ipv4, address, sizeof ipv4);
        return ipv4_peer(ntohl(ipv4.sin_addr.s_addr));
    }
    if (address->sa_family != AF_INET6) {
        return ipv4_peer(INADDR_ANY);
    }
    memcpy(&ipv6, address, sizeof ipv6);
    if (IN6_IS_ADDR_V4MAPPED(&ipv6.sin6_addr)) {
        memcpy(&inner, &ipv6.sin6_addr.s6_addr[12], sizeof inner);
        return ipv4_peer(ntohl(inner));
    }
    memcpy(&peer.id, ipv6.sin6_addr.s6_addr, sizeof peer.id);
    return peer;
}

struct wp_peer
wp_peer_from_uid(uid_t uid, bool privileged)
{
    return (struct wp_peer){
        .kind = WP_PEER_UNIX, .privileged = privileged, .id = uid};
}

struct wp_peer_limits *
wp_peer_limits_create(const struct wp_peer_limits_config *config,
                      struct wp_err *err)
{
    struct wp_peer_limits *limits;
    uint64_t kept = (uint64_t)config->privileged_kept + config->unix_kept;
    uint32_t n_buckets = 1;

    WP_ASSERT(config->all_max >= 1 && config->all_max <= UINT32_MAX / 8 &&
              config->calls_max <= UINT32_MAX / 8);
    if (kept >= config->all_max) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                         "of %u connections %llu are kept: none is left for "
                         "others",
                         config->all_max, (unsigned long long)kept);
        return NULL;
    }
    limits = calloc(1, sizeof *limits);
    if (limits == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "memory for peers");
        return NULL;
    }
    limits->config = *config;
    limits->n_entries = 2 * (config->all_max + config->calls_max);
    while (n_buckets < limits->n_entries) {
        n_buckets *= 2;
    }
    limits->bucket_mask = n_buckets - 1;
    limits->entries =
        calloc((size_t)limits->n_entries + 1, sizeof limits->entries[0]);
    limits->buckets = calloc(n_buckets, sizeof limits->buckets[0]);
    if (limits->entries == NULL || limits->buckets == NULL ||
        getrandom(&limits->key, sizeof limits->key, 0) !=
            (ssize_t)sizeof limits->key) {
        wp_peer_limits_destroy(limits);
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "memory for peers");
        return NULL;
    }
    return limits;
}

uint32_t
wp_peer_limits_entries(const struct wp_peer_limits *limits)
{
    return limits->n_entries + 1;
}

void
wp_peer_limits_destroy(struct wp_peer_limits *limits)
{
    if (limits != NULL) {
        free(limits->buckets);
        free(limits->entries);
        free(limits);
    }
}

static uint32_t *
bucket_of(struct wp_peer_limits *limits, uint8_t kind, uint64_t id)
{
    uint64_t words[2] = {id, kind};

    return &limits
                ->buckets[wp_siphash128(limits->key, words, sizeof words).low &
                          limits->bucket_mask];
}

static void
entry_unlink(struct wp_peer_limits *limits, uint32_t index)
{
    struct entry *entry = &limits->entries[index];
    uint32_t *link = bucket_of(limits, entry->kind, entry->id);

    while (*link != index) {
        link = &limits->entries[*link].next;
    }
    *link = entry->next;
    entry->linked = false;
}

/* Acquire: pairs with the release of a connection that leaves. Its calls had
 * begun by then, so they are seen; and no other can begin on this entry. */
static bool
counts_nothing(const struct entry *entry)
{
    return atomic_load_explicit(&entry->count, memory_order_acquire) == 0 &&
           atomic_load_explicit(&entry->calls, memory_order_relaxed) == 0;
}

/* An entry that counts nothing. There is one: those that count are at most as
 * many as connections that have not been counted down, all_max, and calls. */
static uint32_t
entry_reuse(struct wp_peer_limits *limits)
{
    struct entry *entry;

    do {
        limits->hand = limits->hand % limits->n_entries + 1;
        entry = &limits->entries[limits->hand];
    } while (!counts_nothing(entry));
    if (entry->linked) {
        entry_unlink(limits, limits->hand);
    }
    return limits->hand;
}

static uint32_t
entry_of(struct wp_peer_limits *limits, struct wp_peer peer)
{
    uint32_t *bucket = bucket_of(limits, (uint8_t)peer.kind, peer.id);
    uint32_t index = *bucket;

    while (index != NOWHERE && (limits->entries[index].id != peer.id ||
                                limits->entries[index].kind != peer.kind)) {
        index = limits->entries[index].next;
    }
    if (index == NOWHERE) {
        index = entry_reuse(limits);
        limits->entries[index].id = peer.id;
        limits->entries[index].kind = (uint8_t)peer.kind;
        limits->entries[index].linked = true;
        limits->entries[index].next_turn_ns = 0;
        atomic_store_explicit(&limits->entries[index].watched_until_ns, 0,
                              memory_order_relaxed);
        limits->entries[index].next = *bucket;
        *bucket = index;
    }
    return index;
}

/* Acquire: pairs with the release in wp_peer_limits_leave, so that an entry
 * was counted down before its place among all_max is free. */
static uint32_t
used_by(const struct wp_peer_limits *limits, enum share share)
{
    return atomic_load_explicit(&limits->used[share], memory_order_acquire);
}

static uint32_t
unused(uint32_t kept, uint32_t used)
{
    return kept > used ? kept - used : 0;
}

static bool
has_room(const struct wp_peer_limits *limits, enum share share)
{
    uint32_t privileged = used_by(limits, SHARE_PRIVILEGED);
    uint32_t users = used_by(limits, SHARE_UNIX);
    uint32_t taken = privileged + users + used_by(limits, SHARE_TCP);

    if (share != SHARE_PRIVILEGED) {
        taken += unused(limits->config.privileged_kept, privileged);
    }
    if (share == SHARE_TCP) {
        taken += unused(limits->config.unix_kept, users);
    }
    return taken < limits->config.all_max;
}

static enum share
share_of(struct wp_peer peer)
{
    if (peer.privileged) {
        return SHARE_PRIVILEGED;
    }
    return peer.kind == WP_PEER_UNIX ? SHARE_UNIX : SHARE_TCP;
}

enum wp_peer_verdict
wp_peer_limits_enter(struct wp_peer_limits *limits, struct wp_peer peer,
                     struct wp_peer_ticket *ticket)
{
    enum share share = share_of(peer);
    uint32_t bound = peer.privileged ? 0 : limits->config.peer_max;
    struct entry *entry;

    if (!has_room(limits, share)) {
        return WP_PEER_OVER_ALL;
    }
    ticket->share = share;
    ticket->entry = entry_of(limits, peer);
    entry = &limits->entries[ticket->entry];
    if (bound != 0 &&
        atomic_load_explicit(&entry->count, memory_order_relaxed) >= bound) {
        return WP_PEER_OVER_ITS_BOUND;
    }
    (void)atomic_fetch_add_explicit(&entry->count, 1, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&limits->used[share], 1,
                                    memory_order_relaxed);
    return WP_PEER_ADMITTED;
}

int64_t
wp_peer_limits_wait_ns(struct wp_peer_limits *limits,
                       struct wp_peer_ticket ticket, int64_t now_ns)
{
    struct entry *entry = &limits->entries[ticket.entry];
    int64_t turn_ns;

    if (ticket.share == SHARE_PRIVILEGED ||
        now_ns >= atomic_load_explicit(&entry->watched_until_ns,
                                       memory_order_relaxed)) {
        return 0;
    }
    turn_ns = entry->next_turn_ns > now_ns ? entry->next_turn_ns : now_ns;
    if (turn_ns - now_ns > WAIT_MAX_NS) {
        return WP_TIME_NEVER;
    }
    entry->next_turn_ns = turn_ns + TURN_NS;
    return turn_ns - now_ns;
}

void
wp_peer_limits_watch(struct wp_peer_limits *limits,
                     struct wp_peer_ticket ticket, int64_t now_ns)
{
    atomic_store_explicit(&limits->entries[ticket.entry].watched_until_ns,
                          now_ns + WATCHED_NS, memory_order_relaxed);
}

void
wp_peer_limits_leave(struct wp_peer_limits *limits,
                     struct wp_peer_ticket ticket)
{
    uint32_t before = atomic_fetch_sub_explicit(
        &limits->entries[ticket.entry].count, 1, memory_order_release);

    WP_ASSERT(before != 0);
    /* Release: pairs with the acquire in used_by. */
    before = atomic_fetch_sub_explicit(&limits->used[ticket.share], 1,
                                       memory_order_release);
    WP_ASSERT(before != 0);
}

static uint64_t
call_of(struct wp_peer_ticket ticket)
{
    return ticket.share == SHARE_PRIVILEGED ? UINT64_C(1) << 32 : 1;
}

/* Is there room for a call beside these? */
static bool
has_call_room(const struct wp_peer_limits *limits, struct wp_peer_ticket ticket,
              uint64_t calls)
{
    uint32_t privileged = (uint32_t)(calls >> 32);
    uint64_t taken = (uint64_t)privileged + (uint32_t)calls;

    if (ticket.share != SHARE_PRIVILEGED) {
        taken += unused(limits->config.privileged_calls_kept, privileged);
    }
    return taken < limits->config.calls_max;
}

enum wp_peer_verdict
wp_peer_limits_begin_call(struct wp_peer_limits *limits,
                          struct wp_peer_ticket ticket)
{
    _Atomic(uint32_t) *own = &limits->entries[ticket.entry].calls;
    uint32_t before = atomic_fetch_add_explicit(own, 1, memory_order_relaxed);
    enum wp_peer_verdict verdict = WP_PEER_OVER_ITS_BOUND;

    if (ticket.share == SHARE_PRIVILEGED ||
        before < limits->config.peer_calls_max) {
        uint64_t calls = atomic_fetch_add_explicit(
            &limits->calls, call_of(ticket), memory_order_relaxed);

        if (has_call_room(limits, ticket, calls)) {
            return WP_PEER_ADMITTED;
        }
        verdict = WP_PEER_OVER_ALL;
        (void)atomic_fetch_sub_explicit(&limits->calls, call_of(ticket),
                                        memory_order_relaxed);
    }
    (void)atomic_fetch_sub_explicit(own, 1, memory_order_relaxed);
    return verdict;
}

void
wp_peer_limits_end_call(struct wp_peer_limits *limits,
                        struct wp_peer_ticket ticket)
{
    uint64_t calls = atomic_fetch_sub_explicit(&limits->calls, call_of(ticket),
                                               memory_order_relaxed);
    uint32_t own = atomic_fetch_sub_explicit(
        &limits->entries[ticket.entry].calls, 1, memory_order_relaxed);

    WP_ASSERT(calls != 0 && own != 0);
}
