#include "allocator/conf/budget.h"

#include <string.h>

static bool
parse(const char *item, struct wp_budget_total *out)
{
    const char *equals = strchr(item, '=');
    struct wp_str group;
    uint64_t total;

    if (equals == NULL) {
        return false;
    }
    group = (struct wp_str){item, (size_t)(equals - item)};
    if (!wp_str_is_dns_name(group, WP_SCALE_BUDGET_GROUP_MAX) ||
        !wp_str_copy(group, out->group, sizeof out->group) ||
        !wp_str_to_u64(wp_str_from(equals + 1), &total) ||
        total > WP_SLOTS_MAX) {
        return false;
    }
    out->total = (uint32_t)total;
    return true;
}

enum wp_status
wp_conf_budgets(const struct wp_conf *conf, struct wp_budget_total *out,
                uint32_t *n, struct wp_err *err)
{
    *n = conf->autoscale_budgets.len;
    for (uint32_t i = 0; i < *n; i++) {
        const char *item = conf->autoscale_budgets.items[i];

        if (!parse(item, &out[i])) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "setting 'autoscale_budgets': expected "
                              "GROUP=TOTAL (a DNS name, a whole number up to "
                              "%d), got '%.80s'",
                              WP_SLOTS_MAX, item);
        }
        for (uint32_t j = 0; j < i; j++) {
            if (strcmp(out[i].group, out[j].group) == 0) {
                return wp_err_set(err, WP_INVALID_ARGUMENT,
                                  "setting 'autoscale_budgets': expected each "
                                  "group once, got '%s' twice",
                                  out[i].group);
            }
        }
    }
    return WP_OK;
}
