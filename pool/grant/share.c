/* pool/grant/share.c - what a tenant may have: its quota, and its share of the
 * stock while others claim as well.
 *
 * Each tenant's share of a pool's stock is the target by the number of active
 * tenants. What a tenant has taken and what has not been made up for yet is its
 * debt: a sandbox that becomes ready lowers the debt of each active tenant by
 * the same part of one. Below its share, a tenant may take what is ready. Beyond
 * it, it may take only what the shares of the others leave: the ready sandboxes
 * above their part of the target. A lone tenant may take everything.
 *
 * The debts are kept as in start-time fair queueing: the pool's clock runs by
 * sandboxes, and an account holds the time on it when all that its tenant took
 * will be made up for. Nothing is kept, and nothing asked, while one tenant is
 * alone. */
#include "pool/base/assert.h"
#include "pool/base/mutant.h"
#include "pool/grant/claim_way.h"

/* One sandbox on the pool's clock. */
#define ONE (UINT64_C(1) << 16)

static struct wp_account *
account_of(const struct wp_claim *claim)
{
    return &wp_claim_pool(claim)->pools->accounts.account[claim->account];
}

static uint32_t
tenants_of(const struct wp_pool *pool)
{
    return atomic_load_explicit(&pool->fair_share, memory_order_relaxed)
               ? wp_accounts_active(&pool->pools->accounts, pool->index)
               : 0;
}

const char *
wp_claim_over_quota(struct wp_claim *claim, uint32_t live)
{
    struct wp_account *account = account_of(claim);
    int64_t retry_ns;

    switch (wp_accounts_check(&wp_claim_pool(claim)->pools->accounts,
                              (struct wp_counted){claim->account, live},
                              claim->arrived_ns, &retry_ns)) {
    case WP_ACCOUNT_LEASES:
        claim->quota = WP_QUOTA_LEASES;
        claim->quota_max = account->leases_max;
        return "this tenant has as many claims as its quota allows";
    case WP_ACCOUNT_RATE:
        claim->quota = WP_QUOTA_RATE;
        claim->quota_max = account->per_minute;
        claim->retry_after_ns = retry_ns;
        return "this tenant claims more often than its quota allows";
    case WP_ACCOUNT_OK:
        break;
    }
    return NULL;
}

bool
wp_claim_may_wait(struct wp_claim *claim)
{
    struct wp_account *account = account_of(claim);
    uint32_t max =
        atomic_load_explicit(&account->waiters_max, memory_order_relaxed);

    if (max == WP_QUOTA_NONE ||
        atomic_load_explicit(&account->waiting, memory_order_relaxed) < max) {
        return true;
    }
    (void)atomic_fetch_add_explicit(&account->refused, 1, memory_order_relaxed);
    claim->quota = WP_QUOTA_WAITING;
    claim->quota_max = max;
    return false;
}

static bool
below_share(const struct wp_claim *claim, uint32_t target, uint32_t tenants)
{
    uint64_t clock = atomic_load_explicit(&wp_claim_pool(claim)->share_clock,
                                          memory_order_relaxed);
    uint64_t taken =
        atomic_load_explicit(&account_of(claim)->taken, memory_order_relaxed);
    uint64_t share = target > tenants ? ONE * target / tenants : ONE;

    /* With the one that it asks for. */
    return taken <= clock || taken - clock + ONE <= share;
}

bool
wp_claim_may_take(const struct wp_claim *claim)
{
    const struct wp_pool *pool = wp_claim_pool(claim);
    uint32_t tenants = tenants_of(pool);
    uint32_t target;

    if (tenants <= 1) {
        return true;
    }
    target = atomic_load_explicit(&pool->target, memory_order_relaxed);
    return below_share(claim, target, tenants) ||
           wp_slots_count(&pool->pools->slots, pool->index, WP_SLOT_READY) >
               target - target / tenants;
}

bool
wp_claim_may_pass(const struct wp_claim *claim)
{
    const struct wp_pool *pool = wp_claim_pool(claim);

    if (atomic_load_explicit(&pool->waiting, memory_order_relaxed) == 0) {
        return wp_claim_may_take(claim);
    }
    /* Those who wait may be beyond their share, while sandboxes are ready. */
    return tenants_of(pool) > 1 &&
           atomic_load_explicit(&account_of(claim)->waiting,
                                memory_order_relaxed) == 0 &&
           wp_claim_may_take(claim);
}

void
wp_claim_count_taken(const struct wp_claim *claim)
{
    const struct wp_pool *pool = wp_claim_pool(claim);
    struct wp_account *account = account_of(claim);
    uint64_t clock;
    uint64_t taken;

    if (tenants_of(pool) <= 1) {
        return;
    }
    clock = atomic_load_explicit(&pool->share_clock, memory_order_relaxed);
    taken = atomic_load_explicit(&account->taken, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(
        &account->taken, &taken, (taken > clock ? taken : clock) + ONE,
        memory_order_relaxed, memory_order_relaxed)) {
    }
}

void
wp_pool_share_ready(struct wp_pool *pool)
{
    uint32_t tenants = tenants_of(pool);

    if (tenants > 1) {
        /* Rounded up: what is taken is made up for in full. */
        (void)atomic_fetch_add_explicit(&pool->share_clock,
                                        (ONE + tenants - 1) / tenants,
                                        memory_order_relaxed);
    }
}
