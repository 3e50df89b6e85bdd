#include "pool/scale/trial.h"

#include <math.h>

/* Time in which the sums fade to a half. */
static const double HALF_LIFE_S = 6 * 3600;
static const double EPISODES = 3.5;

void
wp_trial_claims(struct wp_trial *trial, uint32_t stock, uint32_t before,
                uint32_t n, double apart_s)
{
    uint32_t served = stock > before ? stock - before : 0;

    trial->claims += n;
    if (n > served) {
        trial->missed += n - served;
        trial->episodes += trial->since_s > apart_s ? 1 : 0;
        trial->since_s = 0;
    }
}

void
wp_trial_time(struct wp_trial *trial, uint32_t stock, uint32_t need,
              double dt_s)
{
    double keep = exp2(-dt_s / HALF_LIFE_S);

    trial->claims *= keep;
    trial->missed *= keep;
    trial->episodes *= keep;
    trial->since_s += dt_s;
    trial->seconds = trial->seconds * keep + dt_s;
    trial->idle_s =
        trial->idle_s * keep + (stock > need ? (stock - need) * dt_s : 0);
}

bool
wp_trial_fails(const struct wp_trial *trial, double miss)
{
    double allowed = trial->claims * miss;

    /* Misses come in clumps: many times what single ones would waver. */
    return trial->episodes > EPISODES &&
           trial->missed > 1.3 * allowed + 6 * sqrt(allowed + 1);
}
