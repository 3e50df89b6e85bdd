#include "pool/scale/bursts.h"

#include <math.h>
#include <string.h>

#include "pool/base/extreme.h"

/* A small one is below this share of a usual one, which is the mean with each
 * weighed by itself. */
static const double SMALL = 0.25;
/* Of fewer gaps than that nothing follows, be they all the same. */
static const unsigned GAPS_LEAST = 4;
/* So much earlier than that, since clocks drift and summer time moves a day's
 * job by an hour. */
static const double MARGIN = 1.0 / 16;

static double
small(const struct wp_bursts *bursts)
{
    double sum = 0;
    double squares = 0;

    for (uint32_t i = 0; i < bursts->n; i++) {
        double missed = bursts->of[i].missed;

        sum += missed;
        squares += missed * missed;
    }
    return sum > 0 ? SMALL * squares / sum : 0;
}

/* Room for one more: a small one is of no use, else the oldest goes. */
static void
make_room(struct wp_bursts *bursts)
{
    if (bursts->n > 0 && bursts->of[bursts->n - 1].missed < small(bursts)) {
        bursts->n--;
    } else if (bursts->n == WP_BURSTS) {
        bursts->n--;
        memmove(&bursts->of[0], &bursts->of[1],
                bursts->n * sizeof bursts->of[0]);
    }
}

bool
wp_bursts_add(struct wp_bursts *bursts, int64_t now_ns, uint32_t needed,
              uint32_t missed, int64_t apart_ns)
{
    bool first = bursts->n == 0 || now_ns - bursts->latest_ns > apart_ns;
    struct wp_burst *burst;

    if (first) {
        make_room(bursts);
        bursts->of[bursts->n++] = (struct wp_burst){.began_ns = now_ns};
    }
    burst = &bursts->of[bursts->n - 1];
    burst->needed = wp_max_u32(burst->needed, needed);
    burst->missed += missed;
    bursts->latest_ns = now_ns;
    return first;
}

double
wp_bursts_spread(const struct wp_bursts *bursts)
{
    double least = small(bursts);
    double sum = 0;
    double squares = 0;
    unsigned n = 0;
    double mean;

    for (uint32_t i = 0; i < bursts->n; i++) {
        double needed = bursts->of[i].needed;

        if (bursts->of[i].missed >= least) {
            sum += needed;
            squares += needed * needed;
            n++;
        }
    }
    if (n < GAPS_LEAST + 1) {
        return INFINITY;
    }
    mean = sum / n;
    return sqrt(fmax(squares / n - mean * mean, 0));
}

int64_t
wp_bursts_due_ns(const struct wp_bursts *bursts, double early)
{
    double least = small(bursts);
    double least_ns = INFINITY;
    double sum_ns = 0;
    int64_t latest_ns = 0;
    unsigned found = 0;
    double n;
    double r;
    double sure_ns;

    for (uint32_t i = 0; i < bursts->n; i++) {
        if (bursts->of[i].missed < least) {
            continue;
        }
        if (found > 0) {
            double gap_ns = (double)(bursts->of[i].began_ns - latest_ns);

            least_ns = fmin(least_ns, gap_ns);
            sum_ns += gap_ns;
        }
        latest_ns = bursts->of[i].began_ns;
        found++;
    }
    if (found < GAPS_LEAST + 1) {
        return 0;
    }
    n = found - 1;
    r = fmax(pow((n + 1) * early, -1 / (n - 1)) - 1, 0);
    sure_ns = (1 - MARGIN) * (least_ns - r * (sum_ns / n - least_ns));
    return sure_ns > 0 ? latest_ns + (int64_t)sure_ns : 0;
}

bool
wp_bursts_are_sound(const struct wp_bursts *bursts, int64_t now_ns)
{
    int64_t before_ns = 0;

    if (bursts->n > WP_BURSTS) {
        return false;
    }
    for (uint32_t i = 0; i < bursts->n; i++) {
        if (bursts->of[i].began_ns < before_ns || bursts->of[i].missed > 1e18) {
            return false;
        }
        before_ns = bursts->of[i].began_ns;
    }
    return before_ns <= bursts->latest_ns && bursts->latest_ns <= now_ns;
}
