#include "pool/claims/accounts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/fnv.h"
#include "pool/base/pages.h"

enum {
    WAYS = 32, /* Where an account may be, from where its hash leads. */
};

/* A claim of the word: {generation (32), live (32)}. Generation 0: never used;
 * behind the first such place of its ways no account is. */
static uint32_t
generation_of(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

static uint64_t
load(const _Atomic(uint64_t) *from)
{
    return atomic_load_explicit(from, memory_order_acquire);
}

bool
wp_accounts_init(struct wp_accounts *accounts, uint32_t claims_max,
                 struct wp_hash_key hash_key)
{
    uint32_t n = 2 * WAYS;
    void *map;

    while (n < WP_ACCOUNTS_MAX && n < claims_max) {
        n *= 2;
    }
    *accounts = (struct wp_accounts){.mask = n - 1, .hash_key = hash_key};
    accounts->bytes = n * sizeof *accounts->account;
    map = mmap(NULL, accounts->bytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    (void)pthread_mutex_init(&accounts->lock, NULL);
    accounts->account = map != MAP_FAILED ? map : NULL;
    accounts->pool = calloc(WP_POOLS_MAX, sizeof *accounts->pool);
    accounts->used = calloc(n, sizeof *accounts->used);
    if (accounts->account == NULL || accounts->pool == NULL ||
        accounts->used == NULL) {
        wp_accounts_fini(accounts);
        return false;
    }
    for (uint32_t i = 0; i < WP_POOLS_MAX; i++) {
        accounts->pool[i].quota =
            (struct wp_quota){WP_QUOTA_NONE, WP_QUOTA_NONE, WP_QUOTA_NONE};
    }
    /* The shared one is held to no quota, since it is not one tenant. */
    accounts->account[WP_ACCOUNT_OTHERS].leases_max = WP_QUOTA_NONE;
    accounts->account[WP_ACCOUNT_OTHERS].waiters_max = WP_QUOTA_NONE;
    accounts->account[WP_ACCOUNT_OTHERS].per_minute = WP_QUOTA_NONE;
    return true;
}

void
wp_accounts_fini(struct wp_accounts *accounts)
{
    if (accounts->bytes == 0) {
        return;
    }
    if (accounts->account != NULL) {
        (void)munmap(accounts->account, accounts->bytes);
    }
    free(accounts->pool);
    free(accounts->used);
    free(accounts->named);
    (void)pthread_mutex_destroy(&accounts->lock);
    accounts->bytes = 0;
}

size_t
wp_accounts_bytes(const struct wp_accounts *accounts)
{
    return accounts->bytes + WP_POOLS_MAX * sizeof *accounts->pool +
           (accounts->mask + 1) * sizeof *accounts->used;
}

/* --- Quotas. Under the lock. --- */

static uint32_t
own_or(uint32_t own, uint32_t other)
{
    return own != WP_QUOTA_NONE ? own : other;
}

/* A bound of 0 is none, once nothing else can come in its place. */
static void
set_bound(_Atomic(uint32_t) *bound, uint32_t value)
{
    atomic_store_explicit(bound, value != 0 ? value : WP_QUOTA_NONE,
                          memory_order_relaxed);
}

/* What is said of the tenant in this pool goes before what is said of it in
 * all, that before what the pool says of every tenant. */
static void
set_quota(struct wp_accounts *accounts, struct wp_account *account)
{
    const struct wp_account_pool *pool = &accounts->pool[account->pool_index];
    struct wp_quota here = {WP_QUOTA_NONE, WP_QUOTA_NONE, WP_QUOTA_NONE};
    struct wp_quota anywhere = here;

    for (uint32_t i = 0; i < accounts->n_named; i++) {
        const struct wp_named_quota *named = &accounts->named[i];

        if (strcmp(named->tenant, account->tenant) != 0) {
            continue;
        }
        if (named->pool == 0) {
            anywhere = named->quota;
        } else if (named->pool == pool->identity) {
            here = named->quota;
        }
    }
    set_bound(&account->leases_max,
              own_or(here.leases_max,
                     own_or(anywhere.leases_max, pool->quota.leases_max)));
    set_bound(&account->waiters_max,
              own_or(here.waiters_max,
                     own_or(anywhere.waiters_max, pool->quota.waiters_max)));
    set_bound(
        &account->per_minute,
        own_or(here.claims_per_minute, own_or(anywhere.claims_per_minute,
                                              pool->quota.claims_per_minute)));
}

void
wp_accounts_set_pool(struct wp_accounts *accounts, uint32_t pool_index,
                     uint64_t identity, const struct wp_quota *quota)
{
    WP_ASSERT(pool_index < WP_POOLS_MAX);
    (void)pthread_mutex_lock(&accounts->lock);
    accounts->pool[pool_index].quota = *quota;
    accounts->pool[pool_index].identity = identity;
    for (uint32_t i = 0; i < accounts->n_used; i++) {
        struct wp_account *account = &accounts->account[accounts->used[i]];

        if (account->pool_index == pool_index) {
            set_quota(accounts, account);
        }
    }
    (void)pthread_mutex_unlock(&accounts->lock);
}

bool
wp_accounts_set_named(struct wp_accounts *accounts,
                      const struct wp_tenant_quota *quotas, uint32_t n)
{
    struct wp_named_quota *named = NULL;
    struct wp_named_quota *before;

    WP_ASSERT(n <= WP_TENANT_QUOTAS_MAX);
    if (n > 0) {
        named = calloc(n, sizeof *named);
        if (named == NULL) {
            return false;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        named[i].quota = quotas[i].quota;
        named[i].pool = quotas[i].pool[0] == '\0'
                            ? 0
                            : wp_fnv_name(wp_str_from(quotas[i].pool_namespace),
                                          wp_str_from(quotas[i].pool));
        memcpy(named[i].tenant, quotas[i].tenant, sizeof named[i].tenant);
    }
    (void)pthread_mutex_lock(&accounts->lock);
    before = accounts->named;
    accounts->named = named;
    accounts->n_named = n;
    for (uint32_t i = 0; i < accounts->n_used; i++) {
        set_quota(accounts, &accounts->account[accounts->used[i]]);
    }
    (void)pthread_mutex_unlock(&accounts->lock);
    free(before);
    return true;
}

/* --- Finding and making --- */

static uint64_t
key_of(const struct wp_accounts *accounts, uint32_t pool_index,
       struct wp_str tenant, uint32_t *place)
{
    unsigned char text[2 + WP_TENANT_MAX];
    struct wp_hash128 hash;

    text[0] = (unsigned char)pool_index;
    text[1] = (unsigned char)(pool_index >> 8);
    if (tenant.len > 0) {
        memcpy(text + 2, tenant.ptr, tenant.len);
    }
    hash = wp_siphash128(accounts->hash_key, text, 2 + tenant.len);
    *place = (uint32_t)hash.high;
    return hash.low | 1; /* 0 is none. */
}

/* The i-th place of an account; never that of the shared one. */
static uint32_t
way(const struct wp_accounts *accounts, uint32_t place, uint32_t i)
{
    uint32_t at = (place + i) & accounts->mask;

    return at != WP_ACCOUNT_OTHERS
               ? at
               : (place + WAYS) & accounts->mask; /* Behind the others. */
}

/* Counts a claim on the account that has the key; false: there is none. */
static bool
count_known(struct wp_accounts *accounts, uint64_t key, uint32_t place,
            struct wp_counted *out)
{
    for (uint32_t i = 0; i < WAYS; i++) {
        uint32_t at = way(accounts, place, i);
        struct wp_account *account = &accounts->account[at];
        uint64_t word = load(&account->word);

        if (generation_of(word) == 0) {
            return false;
        }
        /* The key is read between two looks at the word: of that generation,
         * or 0. Acquire pairs with the release in wp_accounts_give. */
        while (load(&account->key) == key) {
            if (atomic_compare_exchange_weak_explicit(
                    &account->word, &word, word + 1, memory_order_acq_rel,
                    memory_order_acquire)) {
                *out = (struct wp_counted){at, (uint32_t)word + 1};
                return true;
            }
        }
    }
    return false;
}

static void
leave_active(struct wp_accounts *accounts, struct wp_account *account)
{
    if (atomic_exchange_explicit(&account->active, false,
                                 memory_order_relaxed)) {
        (void)atomic_fetch_sub_explicit(
            &accounts->pool[account->pool_index].tenants, 1,
            memory_order_relaxed);
    }
}

/* Makes the place, which has no live claim, one with a claim of the next
 * generation, that nobody finds yet; false: somebody was faster to count. */
static bool
seize(struct wp_account *account)
{
    uint64_t word = load(&account->word);
    uint64_t key = atomic_load_explicit(&account->key, memory_order_relaxed);
    uint64_t next = (uint64_t)(generation_of(word) + 1) << 32;

    if (generation_of(word) == UINT32_MAX) {
        next = UINT64_C(1) << 32;
    }
    if ((uint32_t)word != 0) {
        return false;
    }
    /* Before the word, so that who finds the new generation finds no old key.
     * Who comes meanwhile finds none, and then waits for the lock. */
    atomic_store_explicit(&account->key, 0, memory_order_relaxed);
    if (atomic_compare_exchange_strong_explicit(&account->word, &word, next | 1,
                                                memory_order_acq_rel,
                                                memory_order_acquire)) {
        return true;
    }
    atomic_store_explicit(&account->key, key, memory_order_release);
    return false;
}

/* Of the places that nobody needs, one that was never used, else the one that
 * was left alone for the longest time; UINT32_MAX: there is none. */
static uint32_t
best_place(const struct wp_accounts *accounts, uint32_t place)
{
    uint32_t best = UINT32_MAX;
    int64_t oldest = INT64_MAX;

    for (uint32_t i = 0; i < WAYS; i++) {
        uint32_t at = way(accounts, place, i);
        const struct wp_account *account = &accounts->account[at];
        uint64_t word = load(&account->word);
        int64_t last =
            atomic_load_explicit(&account->last_ns, memory_order_relaxed);

        if (generation_of(word) == 0) {
            return at;
        }
        if ((uint32_t)word == 0 && last < oldest) {
            best = at;
            oldest = last;
        }
    }
    return best;
}

static void
open_account(struct wp_accounts *accounts, struct wp_account *account,
             uint32_t pool_index, struct wp_str tenant)
{
    bool fits = wp_str_copy(tenant, account->tenant, sizeof account->tenant);

    WP_ASSERT(fits);
    account->pool_index = pool_index;
    set_quota(accounts, account);
    atomic_store_explicit(&account->rate_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&account->last_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&account->share_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&account->share.gap_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&account->share.beyond, false, memory_order_relaxed);
    account->claims_seen = 0;
    account->rate = 0;
    account->known = 0;
    atomic_store_explicit(&account->claims, 0, memory_order_relaxed);
    atomic_store_explicit(&account->refused, 0, memory_order_relaxed);
}

/* The same as count_known when that found none; makes one. */
static struct wp_counted
count_new(struct wp_accounts *accounts, uint32_t pool_index,
          struct wp_str tenant, uint64_t key, uint32_t place)
{
    struct wp_counted counted;

    (void)pthread_mutex_lock(&accounts->lock);
    while (!count_known(accounts, key, place, &counted)) {
        uint32_t at = best_place(accounts, place);
        struct wp_account *account;
        bool fresh;

        counted = (struct wp_counted){at, 1};
        if (at == UINT32_MAX) {
            counted.account = WP_ACCOUNT_OTHERS;
            counted.live += (uint32_t)atomic_fetch_add_explicit(
                &accounts->account[WP_ACCOUNT_OTHERS].word, 1,
                memory_order_relaxed);
            break;
        }
        account = &accounts->account[at];
        fresh = generation_of(load(&account->word)) == 0;
        if (!seize(account)) {
            continue;
        }
        if (fresh) {
            accounts->used[accounts->n_used++] = at;
        } else {
            leave_active(accounts, account);
        }
        open_account(accounts, account, pool_index, tenant);
        /* Release: who finds the key finds what it opens. */
        atomic_store_explicit(&account->key, key, memory_order_release);
        break;
    }
    (void)pthread_mutex_unlock(&accounts->lock);
    return counted;
}

/* --- Counting --- */

static void
copy_share(struct wp_account_share *to, const struct wp_account_share *from)
{
    atomic_store_explicit(
        &to->leave, atomic_load_explicit(&from->leave, memory_order_relaxed),
        memory_order_relaxed);
    atomic_store_explicit(
        &to->ahead_ns,
        atomic_load_explicit(&from->ahead_ns, memory_order_relaxed),
        memory_order_relaxed);
    atomic_store_explicit(
        &to->gap_ns, atomic_load_explicit(&from->gap_ns, memory_order_relaxed),
        memory_order_relaxed);
}

/* Until more is known of it, a tenant has an equal share. */
static void
begin_active(struct wp_accounts *accounts, struct wp_account *account,
             uint32_t pool_index)
{
    struct wp_account_pool *pool = &accounts->pool[pool_index];

    if (atomic_exchange_explicit(&account->active, true,
                                 memory_order_relaxed)) {
        return;
    }
    copy_share(&account->share, &pool->newcomer);
    (void)atomic_fetch_add_explicit(&pool->tenants, 1, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&accounts->newcomers, 1,
                                    memory_order_relaxed);
}

struct wp_counted
wp_accounts_take(struct wp_accounts *accounts, uint32_t pool_index,
                 struct wp_str tenant, int64_t now_ns)
{
    struct wp_account *account;
    struct wp_counted counted;
    uint32_t place;
    uint64_t key;

    WP_ASSERT(pool_index < WP_POOLS_MAX && tenant.len <= WP_TENANT_MAX);
    key = key_of(accounts, pool_index, tenant, &place);
    if (!count_known(accounts, key, place, &counted)) {
        counted = count_new(accounts, pool_index, tenant, key, place);
    }
    if (now_ns == 0) {
        return counted;
    }
    account = &accounts->account[counted.account];
    atomic_store_explicit(&account->last_ns, now_ns, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&account->claims, 1, memory_order_relaxed);
    if (counted.account != WP_ACCOUNT_OTHERS &&
        !atomic_load_explicit(&account->active, memory_order_relaxed)) {
        begin_active(accounts, account, pool_index);
    }
    return counted;
}

void
wp_accounts_give(struct wp_accounts *accounts, uint32_t account)
{
    /* Release: who makes it another tenant's comes after all that was done for
     * this one. */
    uint64_t before = atomic_fetch_sub_explicit(
        &accounts->account[account].word, 1, memory_order_release);

    WP_ASSERT((uint32_t)before > 0);
}

/* The generic cell rate algorithm: a claim is in time when no more than the
 * allowance of them came before theirs. */
static enum wp_account_verdict
check_rate(struct wp_account *account, uint32_t per_minute, int64_t now_ns,
           int64_t *retry_ns)
{
    const int64_t interval = 60 * WP_NS_PER_S / (int64_t)per_minute;
    const int64_t spare = 10 * WP_NS_PER_S - interval;
    const int64_t allowance = spare > 0 ? spare : 0;
    int64_t due = atomic_load_explicit(&account->rate_ns, memory_order_relaxed);
    int64_t next;

    do {
        if (due > now_ns + allowance) {
            *retry_ns = due - now_ns - allowance;
            return WP_ACCOUNT_RATE;
        }
        next = (due > now_ns ? due : now_ns) + interval;
    } while (!atomic_compare_exchange_weak_explicit(&account->rate_ns, &due,
                                                    next, memory_order_relaxed,
                                                    memory_order_relaxed));
    return WP_ACCOUNT_OK;
}

enum wp_account_verdict
wp_accounts_check(struct wp_accounts *accounts, struct wp_counted counted,
                  int64_t now_ns, int64_t *retry_ns)
{
    struct wp_account *at = &accounts->account[counted.account];
    uint32_t per_minute =
        atomic_load_explicit(&at->per_minute, memory_order_relaxed);
    enum wp_account_verdict verdict = WP_ACCOUNT_OK;

    *retry_ns = 0;
    if (counted.live >
        atomic_load_explicit(&at->leases_max, memory_order_relaxed)) {
        verdict = WP_ACCOUNT_LEASES;
    } else if (per_minute != WP_QUOTA_NONE) {
        verdict = check_rate(at, per_minute, now_ns, retry_ns);
    }
    if (verdict != WP_ACCOUNT_OK) {
        (void)atomic_fetch_add_explicit(&at->refused, 1, memory_order_relaxed);
    }
    return verdict;
}

void
wp_accounts_sweep(struct wp_accounts *accounts, int64_t now_ns)
{
    (void)pthread_mutex_lock(&accounts->lock);
    for (uint32_t i = 0; i < accounts->n_used; i++) {
        struct wp_account *account = &accounts->account[accounts->used[i]];

        if (now_ns -
                atomic_load_explicit(&account->last_ns, memory_order_relaxed) >
            WP_TENANT_ACTIVE_NS) {
            leave_active(accounts, account);
        }
    }
    (void)pthread_mutex_unlock(&accounts->lock);
}

/* --- Reading --- */

static void
describe(const struct wp_account *account, struct wp_tenant_stats *out)
{
    uint32_t live = wp_account_live(account);
    uint32_t waiting = account->waiting;

    *out = (struct wp_tenant_stats){
        .quota = {.leases_max = account->leases_max,
                  .waiters_max = account->waiters_max,
                  .claims_per_minute = account->per_minute},
        .leases = live > waiting ? live - waiting : 0,
        .waiting = waiting,
        .claims_total = account->claims,
        .refused_total = account->refused,
        .active = account->active,
    };
    memcpy(out->tenant, account->tenant, sizeof out->tenant);
}

uint32_t
wp_accounts_list(struct wp_accounts *accounts,
                 const struct wp_account_filter *filter, uint32_t *cursor,
                 struct wp_tenant_stats *out, uint32_t *pools, uint32_t max)
{
    uint32_t n = 0;
    uint32_t i;

    (void)pthread_mutex_lock(&accounts->lock);
    for (i = *cursor; i < accounts->n_used && n < max; i++) {
        const struct wp_account *account =
            &accounts->account[accounts->used[i]];

        if ((filter->pool_index != UINT32_MAX &&
             account->pool_index != filter->pool_index) ||
            (filter->tenant != NULL &&
             !wp_str_is(*filter->tenant, account->tenant)) ||
            (!atomic_load_explicit(&account->active, memory_order_relaxed) &&
             wp_account_live(account) == 0)) {
            continue;
        }
        pools[n] = account->pool_index;
        describe(account, &out[n++]);
    }
    *cursor = i < accounts->n_used ? i : 0;
    (void)pthread_mutex_unlock(&accounts->lock);
    return n;
}
