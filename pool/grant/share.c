/* pool/grant/share.c - what a tenant may have: its quota, and what is left for
 * it while others claim as well. What that is, pool/claims/shares.c finds. */
#include "pool/grant/claim_way.h"

static struct wp_account *
account_of(const struct wp_claim *claim)
{
    return &wp_claim_pool(claim)->pools->accounts.account[claim->account];
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

static int64_t
now_of(const struct wp_claim *claim)
{
    return claim->wait_until_ns == 0
               ? claim->arrived_ns
               : wp_pools_now(wp_claim_pool(claim)->pools);
}

bool
wp_claim_may_take(const struct wp_claim *claim)
{
    const struct wp_pool *pool = wp_claim_pool(claim);
    const struct wp_account *account = account_of(claim);

    return atomic_load_explicit(&account->share.gap_ns, memory_order_relaxed) ==
               0 ||
           wp_account_has_share(account, now_of(claim)) ||
           wp_slots_count(&pool->pools->slots, pool->index, WP_SLOT_READY) >
               atomic_load_explicit(&account->share.leave,
                                    memory_order_relaxed);
}

bool
wp_claim_may_pass(const struct wp_claim *claim)
{
    const struct wp_pool *pool = wp_claim_pool(claim);
    const struct wp_account *account = account_of(claim);

    if (atomic_load_explicit(&pool->waiting, memory_order_relaxed) == 0) {
        return wp_claim_may_take(claim);
    }
    /* Those who wait may have no share left, while sandboxes are ready. */
    return atomic_load_explicit(&account->share.gap_ns, memory_order_relaxed) !=
               0 &&
           !atomic_load_explicit(&account->share.beyond,
                                 memory_order_relaxed) &&
           atomic_load_explicit(&account->waiting, memory_order_relaxed) == 0 &&
           wp_account_has_share(account, now_of(claim));
}

void
wp_claim_count_taken(const struct wp_claim *claim)
{
    struct wp_account *account = account_of(claim);

    if (atomic_load_explicit(&account->share.gap_ns, memory_order_relaxed) !=
        0) {
        wp_account_take_share(account, now_of(claim));
    }
}
