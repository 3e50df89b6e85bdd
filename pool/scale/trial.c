#include "pool/scale/trial.h"

#include <math.h>

#include "pool/base/extreme.h"

/* The sums fade to a half in the time of so many episodes, within these: what
 * comes once a week is as well remembered as what comes once an hour. */
static const double HALF_LIFE_EPISODES = 6;
static const double HALF_LIFE_MIN_S = 6 * 3600;
static const double HALF_LIFE_MAX_S = 60 * 86400;
/* That many are needed: the fourth of those that come as far apart as any. */
static const double EPISODES = 3;
/* So many times what chance does to the number of misses is too many; and so
 * many after that: just before a burst the sums look better than just after it.
 */
static const double FAILS = 2;
static const double FAILS_STILL = 1;
/* The mean of the time between two is over so many. */
static const double APART_OVER = 8;

double
wp_trial_half_life_s(const struct wp_trial *trial)
{
    if (trial->apart_s <= 0) {
        return HALF_LIFE_MAX_S;
    }
    return fmin(fmax(HALF_LIFE_EPISODES * trial->apart_s, HALF_LIFE_MIN_S),
                HALF_LIFE_MAX_S);
}

static void
begin_episode(struct wp_trial *trial)
{
    if (trial->episodes > 0) {
        double over = fmin(trial->episodes, APART_OVER);

        trial->apart_s += (trial->since_s - trial->apart_s) / fmax(over, 1);
    }
    trial->episodes++;
}

uint32_t
wp_trial_claims(struct wp_trial *trial, uint32_t stock, uint32_t before,
                uint32_t n, double apart_s)
{
    uint32_t served = stock - wp_min_u32(stock, before);
    uint32_t missed = n - wp_min_u32(n, served);

    trial->claims += n;
    if (missed > 0) {
        trial->missed += missed;
        if (trial->since_s > apart_s) {
            begin_episode(trial);
        }
        trial->since_s = 0;
    }
    return missed;
}

void
wp_trial_time(struct wp_trial *trial, double dt_s)
{
    double keep = exp2(-dt_s / wp_trial_half_life_s(trial));

    trial->claims *= keep;
    trial->missed *= keep;
    trial->episodes *= keep;
    trial->since_s += dt_s;
}

bool
wp_trial_doubts(const struct wp_trial *trial, double miss)
{
    return trial->episodes > EPISODES / 2 &&
           trial->missed > trial->claims * miss;
}

/* Misses come in clumps: their number wavers as so many single ones. */
static double
wavers(const struct wp_trial *trial, double allowed)
{
    return sqrt(allowed * trial->missed / fmax(trial->episodes, 1));
}

bool
wp_trial_belies(const struct wp_trial *trial, double miss, double apart_s)
{
    double allowed = trial->claims * miss;

    /* As many, of which a little has faded. */
    return trial->episodes > EPISODES - 0.5 && trial->apart_s > apart_s &&
           trial->missed > allowed + 2 * wavers(trial, allowed);
}

bool
wp_trial_fails(struct wp_trial *trial, double miss)
{
    double allowed = trial->claims * miss;
    double more =
        (trial->failed ? FAILS_STILL : FAILS) * wavers(trial, allowed);

    trial->failed = trial->episodes > EPISODES / (trial->failed ? 2 : 1) &&
                    trial->missed > 1.1 * allowed + more;
    return trial->failed;
}
