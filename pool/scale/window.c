#include "pool/scale/window.h"

#include <math.h>
#include <stdbool.h>

#include "pool/base/clock.h"

/* A shorter window contradicts a longer one beyond so many standard errors that
 * chance alone does it seldom in the memory of the longest. The shorter it is,
 * the more often it has the chance: for a normal error that adds twice the
 * logarithm of the number of looks to the square. */
static const double CONTRADICTS_ONCE = 2.0;

/* A window that is so many times the shortest is not corrected for what it is
 * behind: what grows so slowly any stock forgives, and after a jump a longer
 * one would be too high for too long. */
static const double BEHIND_MAX = 128;

static double
contradicts(unsigned i)
{
    double looks = WP_WINDOWS - 1 - i; /* log2 */

    return sqrt(CONTRADICTS_ONCE * CONTRADICTS_ONCE + 2 * M_LN2 * looks);
}

double
wp_window_tau_s(unsigned i)
{
    return ldexp(WP_WINDOW_FIRST_S, (int)i);
}

void
wp_windows_init(struct wp_windows *windows, int64_t mono_ns, double quiet_s)
{
    *windows = (struct wp_windows){.at_ns = mono_ns};
    for (unsigned i = 0; i < WP_WINDOWS; i++) {
        windows->seen[i] =
            -expm1(-fmax(quiet_s, WP_WINDOW_FIRST_S) / wp_window_tau_s(i));
    }
}

/* What of the longest window is left at mono_ns; each shorter one's is the
 * square of that of the next longer. */
static double
kept(const struct wp_windows *windows, int64_t mono_ns)
{
    double dt_s = (double)(mono_ns - windows->at_ns) / WP_NS_PER_S;

    return exp(-dt_s / wp_window_tau_s(WP_WINDOWS - 1));
}

void
wp_windows_add(struct wp_windows *windows, int64_t mono_ns, double n)
{
    if (mono_ns > windows->at_ns) {
        double keep = kept(windows, mono_ns);

        for (unsigned i = WP_WINDOWS; i > 0; i--) {
            windows->count[i - 1] *= keep;
            windows->seen[i - 1] += (1 - windows->seen[i - 1]) * (1 - keep);
            keep *= keep;
        }
        windows->at_ns = mono_ns;
    }
    for (unsigned i = 0; i < WP_WINDOWS && n > 0; i++) {
        windows->count[i] += n;
    }
}

void
wp_windows_skip(struct wp_windows *windows, int64_t mono_ns)
{
    double keep;

    if (mono_ns <= windows->at_ns) {
        return;
    }
    keep = kept(windows, mono_ns);
    for (unsigned i = WP_WINDOWS; i > 0; i--) {
        windows->count[i - 1] *= keep;
        windows->seen[i - 1] *= keep;
        keep *= keep;
    }
    windows->at_ns = mono_ns;
}

double
wp_window_rate(const struct wp_windows *windows, unsigned i)
{
    /* After a long gap next to nothing is left of either. */
    double least = WP_WINDOW_FIRST_S / wp_window_tau_s(i);
    double seen = windows->seen[i] > least ? windows->seen[i] : least;

    return windows->count[i] / (wp_window_tau_s(i) * fmin(seen, 1));
}

/* The plain window that would give the rate of window i as exactly. */
static double
memory_s_of(const struct wp_windows *windows, unsigned i)
{
    double seen = fmax(windows->seen[i], 1e-9);

    /* (sum of weights)^2 / sum of squared weights. */
    return 2 * wp_window_tau_s(i) * seen / (2 - seen);
}

unsigned
wp_window_near(double tau_s)
{
    double i = tau_s > 0 ? round(log2(tau_s / WP_WINDOW_FIRST_S)) : 0;

    if (!(i > 0)) {
        return 0;
    }
    return i < WP_WINDOWS - 1 ? (unsigned)i : WP_WINDOWS - 1;
}

double
wp_windows_level(const struct wp_windows *windows, double shortest_s,
                 double longest_s, double idc)
{
    unsigned first = wp_window_near(shortest_s);
    unsigned last = wp_window_near(longest_s);
    double low = 0;
    double high = INFINITY;
    double level = wp_window_rate(windows, first);

    for (unsigned i = first; i <= last; i++) {
        double rate = wp_window_rate(windows, i);
        double memory_s = memory_s_of(windows, i);
        /* One more than was seen: none in a short time is no proof of none. */
        double error = sqrt(idc * (rate * memory_s + 1)) / memory_s;

        if (rate < low && wp_window_tau_s(i - 1) <= BEHIND_MAX * shortest_s) {
            /* It grows: this window is twice as far behind as the one before,
             * which is as far behind the rate of now. */
            level += level - rate;
        }
        if (rate < low || rate > high) {
            break;
        }
        level = rate;
        low = fmax(low, rate - contradicts(i) * error);
        high = fmin(high, rate + contradicts(i) * error);
    }
    return level;
}
