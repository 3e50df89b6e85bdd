/* pool/sizing/budget.h - budgets that scaled pools share; private to the core's
 * files. Control thread only.
 *
 * A pool says in its turns what it wants; before the next turns the groups in
 * which that has changed are shared anew (pool/policy/budget.h). Wants that
 * come to less than the total leave room for each to grow before the next
 * sharing. Sharing again waits until twenty times of what the last one took are
 * over, so that even a thousand pools cost a twentieth of a core. */
#ifndef WP_POOL_SIZING_BUDGET_H
#define WP_POOL_SIZING_BUDGET_H

#include "pool/table/pools.h"

struct wp_pool_scale;

/* Memory for the groups of the configuration; false: there is none. */
WP_MUST_CHECK bool wp_pool_budgets_create(struct wp_pools *pools);
void wp_pool_budgets_destroy(struct wp_pools *pools);
/* The pool's policy is this one from now on. */
void wp_pool_budget_join(struct wp_pool *pool, struct wp_pool_scale *scale,
                         const struct wp_scale_policy *policy);
/* The pool has decided, or does not scale any more: does that change what it
 * asks of its group? */
void wp_pool_budget_look(struct wp_pool *pool, struct wp_pool_scale *scale);
/* Shares what is to be shared and is due; pools whose share has changed are
 * touched. */
void wp_pool_budgets_turn(struct wp_pools *pools, int64_t now_ns);
/* When it is to be called again; WP_TIME_NEVER: once a pool has changed. */
int64_t wp_pool_budgets_next_ns(const struct wp_pools *pools);

#endif
