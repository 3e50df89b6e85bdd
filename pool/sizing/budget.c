#include "pool/sizing/budget.h"

#include <stdio.h>
#include <stdlib.h>

#include "pool/base/assert.h"
#include "pool/base/extreme.h"
#include "pool/policy/budget.h"
#include "pool/sizing/scale.h"

enum {
    LABEL_MAX = WP_NAMESPACE_MAX + 1 + WP_POOL_NAME_MAX + 1,
    COST_SHARE = 20, /* One part in so many of a core, at most. */
};

/* No shorter lead time counts for a scaler. */
#define LEAD_LEAST_S ((double)WP_SCALE_QUANTUM_NS / WP_NS_PER_S)
#define PAUSE_NS (1 * WP_NS_PER_MS)

struct group {
    struct wp_budget_total total;
    bool dirty;     /* What is asked for has changed. */
    bool scarce;    /* More is asked for than there is. */
    bool is_over;   /* The mins alone are more, and that was said. */
    int64_t due_ns; /* Not to be shared before. */
};

/* A pool that takes part. */
struct member {
    struct wp_pool *pool;
    struct wp_pool_scale *scale;
    uint32_t floor;
    char label[LABEL_MAX]; /* "namespace/name" */
};

struct wp_pool_budgets {
    uint32_t n;
    struct group *groups;
    /* For one sharing: WP_POOLS_MAX of each. */
    struct member *members;
    struct wp_budget_pool *shares;
    uint32_t *heap;
};

bool
wp_pool_budgets_create(struct wp_pools *pools)
{
    const struct wp_pools_config *config = &pools->config;
    struct wp_pool_budgets *budgets;

    if (config->n_budgets == 0) {
        return true;
    }
    budgets = calloc(1, sizeof *budgets);
    if (budgets == NULL) {
        return false;
    }
    pools->budgets = budgets;
    budgets->n = config->n_budgets;
    budgets->groups = wp_pools_reserve(pools, budgets->n, sizeof(struct group));
    budgets->members =
        wp_pools_reserve(pools, WP_POOLS_MAX, sizeof(struct member));
    budgets->shares =
        wp_pools_reserve(pools, WP_POOLS_MAX, sizeof(struct wp_budget_pool));
    budgets->heap = wp_pools_reserve(pools, WP_POOLS_MAX, sizeof(uint32_t));
    if (budgets->groups == NULL || budgets->members == NULL ||
        budgets->shares == NULL || budgets->heap == NULL) {
        wp_pool_budgets_destroy(pools);
        return false;
    }
    for (uint32_t i = 0; i < budgets->n; i++) {
        WP_ASSERT(config->budgets[i].total <= WP_SLOTS_MAX);
        budgets->groups[i].total = config->budgets[i];
    }
    return true;
}

void
wp_pool_budgets_destroy(struct wp_pools *pools)
{
    struct wp_pool_budgets *budgets = pools->budgets;

    if (budgets != NULL) {
        free(budgets->groups);
        free(budgets->members);
        free(budgets->shares);
        free(budgets->heap);
        free(budgets);
        pools->budgets = NULL;
    }
}

const struct wp_budget_total *
wp_pools_budget(const struct wp_pools *pools, uint32_t i)
{
    /* Set before there is another thread; totals do not change. */
    return pools->budgets != NULL && i < pools->budgets->n
               ? &pools->budgets->groups[i].total
               : NULL;
}

/* NULL when the pool is of none that has a total. */
static struct group *
group_of(const struct wp_pools *pools, const struct wp_pool_scale *scale)
{
    return scale->group < (pools->budgets != NULL ? pools->budgets->n : 0)
               ? &pools->budgets->groups[scale->group]
               : NULL;
}

static void
mark(const struct wp_pools *pools, const struct wp_pool_scale *scale)
{
    struct group *group = group_of(pools, scale);

    if (group != NULL) {
        group->dirty = true;
    }
}

void
wp_pool_budget_join(struct wp_pool *pool, struct wp_pool_scale *scale,
                    const struct wp_scale_policy *policy)
{
    struct wp_pools *pools = pool->pools;
    uint32_t n = pools->budgets != NULL ? pools->budgets->n : 0;
    const struct group *groups = n > 0 ? pools->budgets->groups : NULL;
    uint32_t at = 0;

    mark(pools, scale);
    while (groups != NULL && at < n &&
           strcmp(groups[at].total.group, policy->budget_group) != 0) {
        at++;
    }
    if (at == n && policy->budget_group[0] != '\0' &&
        pools->config.budget_trouble != NULL) {
        pools->config.budget_trouble(pools->config.ctx, policy->budget_group,
                                     NULL, 0);
    }
    scale->group = at;
    if (at == n || policy->objective == WP_SCALE_PLAIN) {
        atomic_store_explicit(&scale->budget, UINT32_MAX, memory_order_relaxed);
    }
    mark(pools, scale);
}

/* --- What a pool asks for --- */

static bool
takes_part(const struct wp_pool *pool)
{
    const struct wp_pools *pools = pool->pools;

    return !atomic_load_explicit(&pool->draining, memory_order_relaxed) &&
           atomic_load_explicit(&pools->keeper, memory_order_relaxed) &&
           !pools->leaving;
}

static uint32_t
clamp(uint32_t value, const struct wp_scale_policy *policy)
{
    return wp_max_u32(wp_min_u32(value, policy->max), policy->min);
}

/* What its demand and the clock ask for. By hand: what the hand asks for. */
static uint32_t
want_of(const struct wp_pool *pool, const struct wp_pool_scale *scale)
{
    const struct wp_scale_decision *latest = &scale->latest;
    uint32_t want = wp_max_u32(latest->wanted, latest->floor);

    if (!takes_part(pool)) {
        return 0;
    }
    if (latest->number == 0) {
        return clamp(pool->spec.target, &pool->spec.scale);
    }
    return latest->reason == WP_SCALE_BY_HAND ? latest->target
                                              : clamp(want, &pool->spec.scale);
}

void
wp_pool_budget_look(struct wp_pool *pool, struct wp_pool_scale *scale)
{
    struct group *group = group_of(pool->pools, scale);
    uint32_t want;

    if (group == NULL) {
        return;
    }
    want = want_of(pool, scale);
    /* Where it is scarce, what one more is worth counts too, and that changes
     * with every decision. */
    if (want != scale->want || group->scarce) {
        scale->want = want;
        group->dirty = true;
    }
}

/* Misses a second that one more would save. What is reserved will be claimed,
 * so each of those is worth a lead time's claim. */
static double
worth(const void *self, uint32_t s)
{
    const struct wp_pool_scale *scale = self;
    const struct wp_scale_decision *latest = &scale->latest;

    if (s < latest->reserved) {
        double lead_s = latest->lead_mean_s;

        return 1 / (lead_s > LEAD_LEAST_S ? lead_s : LEAD_LEAST_S);
    }
    return wp_scaler_marginal(scale->scaler, s - latest->reserved);
}

/* --- Sharing --- */

static uint32_t
gather(struct wp_pools *pools, uint32_t group)
{
    struct wp_pool_budgets *budgets = pools->budgets;
    uint32_t n = 0;

    for (uint32_t i = 0; i < wp_pools_count(pools); i++) {
        struct wp_pool *pool = wp_pools_at(pools, i);
        struct wp_pool_scale *scale = wp_pool_scale_active(pool);
        struct member *member = &budgets->members[n];
        bool by_hand;
        uint32_t target;

        if (scale == NULL || scale->group != group || !takes_part(pool)) {
            continue;
        }
        by_hand = wp_pool_scale_by_hand(scale);
        target = atomic_load_explicit(&pool->target, memory_order_relaxed);
        scale->want = want_of(pool, scale);
        *member = (struct member){pool, scale, 0, ""};
        member->floor = by_hand ? scale->want
                                : clamp(scale->latest.floor, &pool->spec.scale);
        (void)snprintf(member->label, sizeof member->label, "%s/%s",
                       pool->spec.pool_namespace, pool->spec.name);
        budgets->shares[n++] = (struct wp_budget_pool){
            .name = wp_str_from(member->label),
            .min = by_hand ? scale->want : pool->spec.scale.min,
            /* What is only held still counts, but is worth little. */
            .wanted = wp_max_u32(scale->want, target),
            .worth = worth,
            .self = scale,
        };
    }
    return n;
}

/* Floors by the clock come first as well, where they all fit. */
static uint64_t
raise_mins(struct wp_pool_budgets *budgets, uint32_t n, uint32_t total)
{
    uint64_t mins = 0;
    uint64_t floors = 0;

    for (uint32_t i = 0; i < n; i++) {
        mins += budgets->shares[i].min;
        floors += budgets->members[i].floor;
    }
    for (uint32_t i = 0; floors <= total && i < n; i++) {
        budgets->shares[i].min = budgets->members[i].floor;
    }
    return mins;
}

static void
give(struct wp_pools *pools, uint32_t n, uint32_t total)
{
    struct wp_pool_budgets *budgets = pools->budgets;
    uint32_t shared = 0;
    uint32_t more;

    /* All together at most total. */
    for (uint32_t i = 0; i < n; i++) {
        shared += budgets->shares[i].share;
    }
    more = (total - shared) / n;
    for (uint32_t i = 0; i < n; i++) {
        struct wp_pool *pool = budgets->members[i].pool;
        struct wp_pool_scale *scale = budgets->members[i].scale;
        uint32_t budget = budgets->shares[i].share + more;
        uint32_t before = atomic_exchange_explicit(&scale->budget, budget,
                                                   memory_order_relaxed);

        /* To others it makes no difference now. */
        if (budget <
                atomic_load_explicit(&pool->target, memory_order_relaxed) ||
            (before < scale->want && budget > before)) {
            wp_pools_touch(pool);
        }
    }
}

static void
share(struct wp_pools *pools, uint32_t at)
{
    struct wp_pool_budgets *budgets = pools->budgets;
    struct group *group = &budgets->groups[at];
    uint32_t total = group->total.total;
    uint32_t n = gather(pools, at);
    uint64_t mins = raise_mins(budgets, n, total);
    uint64_t wants = 0;
    bool fits = wp_budget_share(budgets->shares, n, total, budgets->heap);

    for (uint32_t i = 0; i < n; i++) {
        wants += budgets->shares[i].wanted;
    }
    group->scarce = wants > total;
    if (n > 0) {
        give(pools, n, total);
    }
    if (fits == group->is_over) {
        group->is_over = !fits;
        if (pools->config.budget_trouble != NULL) {
            pools->config.budget_trouble(pools->config.ctx, group->total.group,
                                         &group->total, mins);
        }
    }
}

void
wp_pool_budgets_turn(struct wp_pools *pools, int64_t now_ns)
{
    struct wp_pool_budgets *budgets = pools->budgets;

    for (uint32_t i = 0; budgets != NULL && i < budgets->n; i++) {
        struct group *group = &budgets->groups[i];
        int64_t took_ns;

        if (!group->dirty || now_ns < group->due_ns) {
            continue;
        }
        group->dirty = false;
        share(pools, i);
        took_ns = wp_pools_now(pools) - now_ns;
        group->due_ns = wp_time_add(now_ns, PAUSE_NS + COST_SHARE * took_ns);
    }
}

int64_t
wp_pool_budgets_next_ns(const struct wp_pools *pools)
{
    const struct wp_pool_budgets *budgets = pools->budgets;
    int64_t next_ns = WP_TIME_NEVER;

    for (uint32_t i = 0; budgets != NULL && i < budgets->n; i++) {
        const struct group *group = &budgets->groups[i];

        if (group->dirty && group->due_ns < next_ns) {
            next_ns = group->due_ns;
        }
    }
    return next_ns;
}
