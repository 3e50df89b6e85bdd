#include "bench/scaling/baseline_parts.h"

#include <math.h>

uint32_t
wp_baseline_clamp(const struct wp_baseline_config *config, double n)
{
    n = fmax(n, config->min);
    n = fmin(n, config->max);
    return (uint32_t)fmax(n, 0);
}

bool
wp_baseline_is_due(int64_t *due_ns, int64_t period_ns, int64_t now_ns)
{
    if (*due_ns == 0) {
        *due_ns = now_ns;
    }
    if (now_ns < *due_ns) {
        return false;
    }
    *due_ns += ((now_ns - *due_ns) / period_ns + 1) * period_ns;
    return true;
}

uint32_t
wp_baseline_stock_of_all(uint32_t all, uint32_t in_use)
{
    return all > in_use ? all - in_use : 0;
}

uint32_t
wp_baseline_recent_max(struct wp_baseline_recent *recent, uint32_t value)
{
    uint32_t most = 0;

    recent->values[recent->n++ % WP_BASELINE_RECENT_MAX] = value;
    for (uint32_t i = 0; i < WP_BASELINE_RECENT_MAX && i < recent->n; i++) {
        most = recent->values[i] > most ? recent->values[i] : most;
    }
    return most;
}
