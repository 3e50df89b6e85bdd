#include "k8s/api/rate.h"

#include "pool/base/clock.h"

void
wp_rate_init(struct wp_rate *rate, double per_s, uint32_t burst, int64_t now_ns)
{
    double size = burst > 0 ? (double)burst : 1;

    *rate = (struct wp_rate){.per_ns = per_s / (double)WP_NS_PER_S,
                             .size = size,
                             .level = size,
                             .filled_ns = now_ns};
}

static double
level_at(const struct wp_rate *rate, int64_t now_ns)
{
    double level =
        rate->level + (double)(now_ns - rate->filled_ns) * rate->per_ns;

    return level < rate->size ? level : rate->size;
}

/* One that is larger than the bucket would never be left over. */
static double
needed(const struct wp_rate *rate, double reserve)
{
    return reserve + 1 <= rate->size ? reserve + 1 : rate->size;
}

bool
wp_rate_take(struct wp_rate *rate, double reserve, int64_t now_ns)
{
    if (rate->per_ns <= 0) {
        return true;
    }
    rate->level = level_at(rate, now_ns);
    rate->filled_ns = now_ns;
    if (rate->level < needed(rate, reserve)) {
        return false;
    }
    rate->level -= 1;
    return true;
}

int64_t
wp_rate_wait_ns(const struct wp_rate *rate, double reserve, int64_t now_ns)
{
    double missing = needed(rate, reserve) - level_at(rate, now_ns);

    if (rate->per_ns <= 0 || missing <= 0) {
        return 0;
    }
    /* Rounded up and a little more, so that it does not come twice. */
    return (int64_t)(missing / rate->per_ns) + 2;
}
