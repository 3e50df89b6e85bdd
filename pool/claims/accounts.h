/* pool/claims/accounts.h - what each tenant has of each pool.
 *
 * One account for a pool and a tenant, in a fixed table. An account with live
 * claims stays where it is; one without may become another tenant's. To find it
 * and to count takes no lock: its word holds a generation and the count of live
 * claims, so that who has counted keeps the account, and a count never goes to
 * the tenant that follows. Making an account takes a lock: a tenant's first
 * claim of a pool does so.
 *
 * A tenant for which no account is free shares account 0 with all such.
 *
 * All functions are for any thread, unless said otherwise. */
#ifndef WP_POOL_CLAIMS_ACCOUNTS_H
#define WP_POOL_CLAIMS_ACCOUNTS_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>

#include "pool/base/compiler.h"
#include "pool/base/siphash.h"
#include "pool/base/clock.h"
#include "pool/tenants.h"

enum {
    WP_ACCOUNTS_MAX = 1 << 14,
    WP_ACCOUNT_OTHERS = 0, /* The one that is shared. */
};

/* Who has not claimed for so long is not active any more. */
#define WP_TENANT_ACTIVE_NS (60 * WP_NS_PER_S)

/* What a tenant may take of the stock while others claim as well. */
struct wp_account_share {
    _Atomic(int64_t) gap_ns;   /* Between two sandboxes; 0: as it likes. */
    _Atomic(int64_t) ahead_ns; /* How far ahead of that it may be. */
    _Atomic(uint32_t) leave;   /* Beyond that, more than so many are ready. */
    _Atomic(bool) beyond;      /* It needs more than its share. */
};

struct wp_account {
    alignas(WP_CACHELINE) _Atomic(uint64_t) word; /* {generation, live} */
    _Atomic(uint64_t) key;                        /* 0: between two tenants. */
    _Atomic(int64_t) last_ns;                     /* Its latest claim. */
    _Atomic(int64_t) rate_ns;  /* When its next claim would be in time. */
    _Atomic(int64_t) share_ns; /* The same, of what it takes of the stock. */
    _Atomic(uint64_t) claims;
    _Atomic(uint32_t) waiting; /* Kept by the wait queue. */
    _Atomic(bool) active;

    alignas(WP_CACHELINE) struct wp_account_share share; /* By shares.c. */
    _Atomic(uint32_t) leases_max;
    _Atomic(uint32_t) waiters_max;
    _Atomic(uint32_t) per_minute;
    _Atomic(uint64_t) refused;
    /* Under the lock. */
    uint32_t pool_index;
    char tenant[WP_TENANT_MAX + 1];
    uint64_t claims_seen; /* By shares.c, as the next two. */
    double rate;          /* Claims a second, and how much is known of them: */
    double known;         /* 0 to 1. */
};

/* What a pool gives a tenant that has no quota of its own. */
struct wp_account_pool {
    struct wp_quota quota;
    uint64_t identity;                /* As in wp_named_quota. */
    _Atomic(uint32_t) tenants;        /* Active ones. */
    struct wp_account_share newcomer; /* By shares.c, as the next. */
    struct wp_share_pool {
        double target;
        double lead_s;
        double level; /* More than that of the stock is beyond the share. */
        double below; /* What those below it need together. */
        uint32_t beyond;
        bool kept;
    } share;
};

struct wp_named_quota {
    struct wp_quota quota;
    uint64_t pool; /* wp_fnv_name; 0: every one. */
    char tenant[WP_TENANT_MAX + 1];
};

struct wp_accounts {
    struct wp_account *account; /* Owned; mask + 1. */
    size_t bytes;
    uint32_t mask;
    struct wp_hash_key hash_key;
    struct wp_account_pool *pool; /* Owned; WP_POOLS_MAX. */

    pthread_mutex_t lock; /* guards: all below, the quotas of pool, and what
                           * accounts say they are of */
    uint32_t *used;       /* Owned; those that were ever in use. */
    uint32_t n_used;
    struct wp_named_quota *named; /* Owned. */
    uint32_t n_named;
    int64_t shares_ns;           /* Found last. */
    _Atomic(uint32_t) newcomers; /* Since then. */
};

/* What a claim was counted as. */
struct wp_counted {
    uint32_t account; /* For wp_accounts_give. */
    uint32_t live;    /* The account's claims then, this one among them. */
};

enum wp_account_verdict {
    WP_ACCOUNT_OK,
    WP_ACCOUNT_LEASES, /* It has leases_max claims without this one. */
    WP_ACCOUNT_RATE,   /* It claims too often. */
};

/* Room for as many accounts as claims, at most WP_ACCOUNTS_MAX. False when
 * memory lacks. */
WP_MUST_CHECK bool wp_accounts_init(struct wp_accounts *accounts,
                                    uint32_t claims_max,
                                    struct wp_hash_key hash_key);
/* After every thread has left; harmless after zeroes alone. */
void wp_accounts_fini(struct wp_accounts *accounts);
/* Address space reserved. */
size_t wp_accounts_bytes(const struct wp_accounts *accounts);

/* Counts a claim of the tenant. now_ns 0: not a new claim, but one that is
 * known from elsewhere. O(1). */
struct wp_counted wp_accounts_take(struct wp_accounts *accounts,
                                   uint32_t pool_index, struct wp_str tenant,
                                   int64_t now_ns);
/* That claim has ended. */
void wp_accounts_give(struct wp_accounts *accounts, uint32_t account);
/* May the claim that was counted be served? It is counted in any case. Of those
 * that may be, never more than the bound live at once. After WP_ACCOUNT_RATE
 * *retry_ns is how long until the next one may be. */
enum wp_account_verdict wp_accounts_check(struct wp_accounts *accounts,
                                          struct wp_counted counted,
                                          int64_t now_ns, int64_t *retry_ns);

/* The quota of the pool's tenants from now on. identity: its wp_fnv_name. */
void wp_accounts_set_pool(struct wp_accounts *accounts, uint32_t pool_index,
                          uint64_t identity, const struct wp_quota *quota);
/* As wp_pools_set_quotas. */
WP_MUST_CHECK bool wp_accounts_set_named(struct wp_accounts *accounts,
                                         const struct wp_tenant_quota *quotas,
                                         uint32_t n);
/* Who has not claimed for WP_TENANT_ACTIVE_NS is not active any more. O(tenants
 * ever seen): now and then. */
void wp_accounts_sweep(struct wp_accounts *accounts, int64_t now_ns);

/* --- shares.c --- */

/* Before wp_accounts_find_shares: what the pool has. kept false: whoever comes
 * first takes all. The thread that finds shares. */
void wp_accounts_set_stock(struct wp_accounts *accounts, uint32_t pool_index,
                           bool kept, uint32_t target, int64_t lead_ns);
/* What each active tenant may take from here on, by what all have claimed
 * lately. Some four times O(tenants ever seen); about once a second. One thread
 * at a time. */
void wp_accounts_find_shares(struct wp_accounts *accounts, int64_t now_ns);
/* May a tenant that has a share take a sandbox now, whatever is left? */
WP_MUST_CHECK bool wp_account_has_share(const struct wp_account *account,
                                        int64_t now_ns);
/* It takes one. */
void wp_account_take_share(struct wp_account *account, int64_t now_ns);

/* Has a tenant begun to claim since this was asked last? The thread that finds
 * shares. */
static inline bool
wp_accounts_newcomers(struct wp_accounts *accounts)
{
    return atomic_load_explicit(&accounts->newcomers, memory_order_relaxed) >
               0 &&
           atomic_exchange_explicit(&accounts->newcomers, 0,
                                    memory_order_relaxed) > 0;
}

/* The pool's active tenants. */
static inline uint32_t
wp_accounts_active(const struct wp_accounts *accounts, uint32_t pool_index)
{
    return atomic_load_explicit(&accounts->pool[pool_index].tenants,
                                memory_order_relaxed);
}

static inline uint32_t
wp_account_live(const struct wp_account *account)
{
    return (uint32_t)atomic_load_explicit(&account->word, memory_order_relaxed);
}

/* Which accounts are told of. */
struct wp_account_filter {
    uint32_t pool_index;         /* UINT32_MAX: of every pool. */
    const struct wp_str *tenant; /* NULL: of every tenant. */
};
/* As wp_pools_tenants, but what of the names and of waiting claims it does not
 * know: pools[i] is the place of the pool that out[i] is of. */
uint32_t wp_accounts_list(struct wp_accounts *accounts,
                          const struct wp_account_filter *filter,
                          uint32_t *cursor, struct wp_tenant_stats *out,
                          uint32_t *pools, uint32_t max);

#endif
