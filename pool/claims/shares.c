/* pool/claims/shares.c - what each tenant may take of a pool's stock while
 * several claim.
 *
 * A tenant needs of the stock what it claims in the time that a new sandbox
 * takes. The stock is shared by needs (max-min fairness): whoever needs no more
 * than an equal part of what the smaller ones leave is below its share. It
 * takes its part of the stock in a lead time, and more as long as a quarter of
 * the others' parts is left: enough, since not all hurry at once.
 *
 * For those below their share the sum of their needs is kept, and three
 * standard deviations of it, as claims come by chance. Whoever needs more is
 * held back to an equal part of the rest in a lead time, and to what is ready
 * above all that is kept.
 *
 * A lone tenant is never held back. */
#include <math.h>

#include "pool/base/clock.h"
#include "pool/claims/accounts.h"

/* Claims of the last minutes count. */
#define MEMORY_S 60.0
/* Of who has just begun to claim so much is taken for known: the rest were
 * none. */
#define KNOWN_MIN 0.15

enum {
    /* Of the others' equal shares, what a tenant leaves that is below its own
     * but in haste: one in so many. */
    LEAVE_PART = 4,
    ROUNDS = 4, /* Of looking who is below the level; more change little. */
};

bool
wp_account_has_share(const struct wp_account *account, int64_t now_ns)
{
    return atomic_load_explicit(&account->share_ns, memory_order_relaxed) <=
           now_ns + atomic_load_explicit(&account->share.ahead_ns,
                                         memory_order_relaxed);
}

void
wp_account_take_share(struct wp_account *account, int64_t now_ns)
{
    int64_t gap =
        atomic_load_explicit(&account->share.gap_ns, memory_order_relaxed);
    int64_t at = atomic_load_explicit(&account->share_ns, memory_order_relaxed);

    while (!atomic_compare_exchange_weak_explicit(
        &account->share_ns, &at, (at > now_ns ? at : now_ns) + gap,
        memory_order_relaxed, memory_order_relaxed)) {
    }
}

void
wp_accounts_set_stock(struct wp_accounts *accounts, uint32_t pool_index,
                      bool kept, uint32_t target, int64_t lead_ns)
{
    struct wp_share_pool *share = &accounts->pool[pool_index].share;

    share->kept = kept && wp_accounts_active(accounts, pool_index) > 1;
    share->target = target;
    share->lead_s = (double)lead_ns / (double)WP_NS_PER_S;
}

static void
learn_rate(struct wp_account *account, double passed_s)
{
    uint64_t claims =
        atomic_load_explicit(&account->claims, memory_order_relaxed);
    double weight = passed_s / (MEMORY_S + passed_s);
    double rate = (double)(claims - account->claims_seen) / passed_s;

    account->claims_seen = claims;
    account->rate += (rate - account->rate) * weight;
    account->known += (1 - account->known) * weight;
}

static double
need_of(const struct wp_accounts *accounts, const struct wp_account *account)
{
    return account->rate / fmax(account->known, KNOWN_MIN) *
           accounts->pool[account->pool_index].share.lead_s;
}

/* The active tenants of pools that keep shares; NULL: that one is none. */
static struct wp_account *
sharing(const struct wp_accounts *accounts, uint32_t i)
{
    struct wp_account *account = &accounts->account[accounts->used[i]];

    return atomic_load_explicit(&account->active, memory_order_relaxed) &&
                   accounts->pool[account->pool_index].share.kept
               ? account
               : NULL;
}

/* The level from who is below the last one; under the lock. */
static void
find_level(struct wp_accounts *accounts)
{
    for (uint32_t p = 0; p < WP_POOLS_MAX; p++) {
        accounts->pool[p].share.below = 0;
        accounts->pool[p].share.beyond = 0;
    }
    for (uint32_t i = 0; i < accounts->n_used; i++) {
        const struct wp_account *account = sharing(accounts, i);
        struct wp_share_pool *share;
        double need;

        if (account == NULL) {
            continue;
        }
        share = &accounts->pool[account->pool_index].share;
        need = need_of(accounts, account);
        if (need <= share->level) {
            share->below += need;
        } else {
            share->beyond++;
        }
    }
    for (uint32_t p = 0; p < WP_POOLS_MAX; p++) {
        struct wp_share_pool *share = &accounts->pool[p].share;

        if (share->beyond > 0) {
            share->level = fmax(share->level,
                                (share->target - share->below) / share->beyond);
        }
    }
}

/* So many of the stock in a lead time, all of them at once if they were saved
 * up; what it leaves beyond that is leave. */
static void
set_share(struct wp_account_share *out, double lead_s, double share,
          double leave)
{
    double gap = lead_s / share * (double)WP_NS_PER_S;

    atomic_store_explicit(&out->leave, (uint32_t)leave, memory_order_relaxed);
    atomic_store_explicit(&out->ahead_ns, (int64_t)(gap * (share - 1)),
                          memory_order_relaxed);
    atomic_store_explicit(&out->gap_ns, (int64_t)gap + 1, memory_order_relaxed);
}

static void
set_below(struct wp_account_share *out, const struct wp_share_pool *share,
          double tenants)
{
    atomic_store_explicit(&out->beyond, false, memory_order_relaxed);
    set_share(out, share->lead_s, fmax(share->level, 1),
              share->target * (tenants - 1) / tenants / LEAVE_PART);
}

/* Who took what it liked until now has saved up nothing. */
static void
set_beyond(struct wp_account *account, const struct wp_share_pool *share,
           int64_t now_ns)
{
    struct wp_account_share *out = &account->share;
    double kept =
        fmin(share->below + 3 * sqrt(share->below) + 1, share->target);
    bool was =
        atomic_exchange_explicit(&out->beyond, true, memory_order_relaxed);

    set_share(out, share->lead_s,
              fmax((share->target - kept) / share->beyond, 1), ceil(kept));
    if (!was) {
        atomic_store_explicit(
            &account->share_ns,
            now_ns + atomic_load_explicit(&out->ahead_ns, memory_order_relaxed),
            memory_order_relaxed);
    }
}

static void
set_none(struct wp_account_share *out)
{
    atomic_store_explicit(&out->beyond, false, memory_order_relaxed);
    atomic_store_explicit(&out->gap_ns, 0, memory_order_relaxed);
}

static void
publish(struct wp_accounts *accounts)
{
    for (uint32_t p = 0; p < WP_POOLS_MAX; p++) {
        struct wp_account_pool *pool = &accounts->pool[p];

        if (pool->share.kept) {
            set_below(
                &pool->newcomer, &pool->share,
                atomic_load_explicit(&pool->tenants, memory_order_relaxed));
        } else {
            set_none(&pool->newcomer);
        }
    }
    for (uint32_t i = 0; i < accounts->n_used; i++) {
        struct wp_account *account = &accounts->account[accounts->used[i]];
        const struct wp_account_pool *pool =
            &accounts->pool[account->pool_index];

        if (sharing(accounts, i) == NULL) {
            set_none(&account->share);
        } else if (need_of(accounts, account) > pool->share.level) {
            set_beyond(account, &pool->share, accounts->shares_ns);
        } else {
            set_below(
                &account->share, &pool->share,
                atomic_load_explicit(&pool->tenants, memory_order_relaxed));
        }
    }
}

void
wp_accounts_find_shares(struct wp_accounts *accounts, int64_t now_ns)
{
    double passed_s;

    (void)pthread_mutex_lock(&accounts->lock);
    passed_s = (double)(now_ns - accounts->shares_ns) / (double)WP_NS_PER_S;
    accounts->shares_ns = now_ns;
    for (uint32_t p = 0; p < WP_POOLS_MAX; p++) {
        struct wp_account_pool *pool = &accounts->pool[p];

        pool->share.level =
            pool->share.target /
            fmax(atomic_load_explicit(&pool->tenants, memory_order_relaxed), 1);
    }
    for (uint32_t i = 0; passed_s > 0 && i < accounts->n_used; i++) {
        learn_rate(&accounts->account[accounts->used[i]], passed_s);
    }
    for (int round = 0; round < ROUNDS; round++) {
        find_level(accounts);
    }
    publish(accounts);
    (void)pthread_mutex_unlock(&accounts->lock);
}
