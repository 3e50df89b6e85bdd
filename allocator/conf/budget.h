/* allocator/conf/budget.h - the setting autoscale_budgets as numbers. */
#ifndef WP_ALLOCATOR_CONF_BUDGET_H
#define WP_ALLOCATOR_CONF_BUDGET_H

#include "allocator/conf/conf.h"
#include "pool/pool.h"

enum {
    WP_CONF_BUDGETS_MAX = 64, /* As settings.def has it. */
};

/* out: room for WP_CONF_BUDGETS_MAX. INVALID_ARGUMENT: an item that is not
 * GROUP=TOTAL, or a group that is there twice; err names it. */
WP_MUST_CHECK enum wp_status wp_conf_budgets(const struct wp_conf *conf,
                                             struct wp_budget_total *out,
                                             uint32_t *n, struct wp_err *err);

#endif
