/* pool/policy/budget.h - one total of sandboxes, shared by the pools of a
 * group.
 *
 * Each pool says how many it wants (its target without the budget), the least
 * that it must have, and what one more would be worth to it: misses a second
 * that it saves. First all get their least; what is left goes, one by one, to
 * the pool to which one more is worth most. Since what one more is worth only
 * falls, no other way of sharing saves more. Equal worth: the lesser name.
 *
 * Instead of one by one it is shared in steps that are halved (the proximity
 * theorem of resource allocation): with step k each pool ends at most k above
 * its true share, so the last step of each is taken back and shared again in
 * smaller ones. That is O(n log n log(total / n)), and the same to the last
 * sandbox. Pure; one owner. */
#ifndef WP_POOL_POLICY_BUDGET_H
#define WP_POOL_POLICY_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/str.h"

struct wp_budget_pool {
    struct wp_str name; /* Of no other pool of the group. */
    uint32_t min;       /* It gets these first; what is above wanted too. */
    uint32_t wanted;
    /* Misses a second that go away with sandbox s + 1; never rises with s. Not
     * a number: 0. */
    double (*worth)(const void *self, uint32_t s);
    const void *self;
    uint32_t share; /* Out. */

    /* Private while it is shared. */
    double next;
    uint32_t step;
};

/* Sets each pool's share: min at least, at most the larger of min and wanted;
 * all together total, or less when no more is wanted. False: the mins alone are
 * more than total; then the pools have total shared out of their mins, in the
 * order of their names. heap: room for n indexes. */
WP_MUST_CHECK bool wp_budget_share(struct wp_budget_pool *pools, uint32_t n,
                                   uint32_t total, uint32_t *heap);

#endif
