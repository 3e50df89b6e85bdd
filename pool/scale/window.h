/* pool/scale/window.h - the rate of claims over many windows at once.
 *
 * Counts that fade, with time constants that double from WP_WINDOW_FIRST_S on.
 * A short one sees a change at once and wavers; a long one is steady and late.
 * wp_windows_level takes the longest that no shorter one contradicts: on steady
 * traffic hours, after a change moments. One owner. */
#ifndef WP_POOL_SCALE_WINDOW_H
#define WP_POOL_SCALE_WINDOW_H

#include <stdint.h>

enum {
    WP_WINDOWS = 17,
};

/* Time constant of the first; the last: over four hours. */
#define WP_WINDOW_FIRST_S 0.25

struct wp_windows {
    double count[WP_WINDOWS]; /* Faded sum of claims. */
    double seen[WP_WINDOWS];  /* 0..1: how much of its memory is filled. */
    int64_t at_ns;            /* Up to where they have been faded. */
};

/* quiet_s: so long before the beginning nothing came, for all we know. Without
 * it the first claim would pass for an endless rate. */
void wp_windows_init(struct wp_windows *windows, int64_t mono_ns,
                     double quiet_s);
/* Fades up to mono_ns (not before the last), then adds n claims. O(1). */
void wp_windows_add(struct wp_windows *windows, int64_t mono_ns, double n);
/* Time up to mono_ns in which nobody looked: the rates stay, but count as less
 * well known. */
void wp_windows_skip(struct wp_windows *windows, int64_t mono_ns);
double wp_window_tau_s(unsigned i);
/* Of window i: claims a second. 0 before anything was seen. */
double wp_window_rate(const struct wp_windows *windows, unsigned i);
/* The window with a time constant of about tau_s. */
unsigned wp_window_near(double tau_s);
/* The rate of the longest window from the one near shortest_s to the one near
 * longest_s that the shorter of these do not contradict; where the rate grows,
 * as that will be without its delay. idc: variance over mean of the
 * counts; 1 for independent claims, less for regular ones, whose rate is known
 * the sooner. */
double wp_windows_level(const struct wp_windows *windows, double shortest_s,
                        double longest_s, double idc);

#endif
