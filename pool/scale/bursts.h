/* pool/scale/bursts.h - how far apart bursts come, and when none is due.
 *
 * A job that runs by a clock comes about as long after the last one as that
 * came after the one before. Until then what is kept for it idles.
 *
 * A burst is an episode of claims beyond the theory's stock (trial.h). Small
 * ones beside large ones are left out: only what much is kept for is worth a
 * look. The latest WP_BURSTS are remembered. One owner. */
#ifndef WP_POOL_SCALE_BURSTS_H
#define WP_POOL_SCALE_BURSTS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    WP_BURSTS = 32,
};

struct wp_bursts {
    struct wp_burst {
        int64_t began_ns;
        uint32_t needed; /* The most in a lead time. */
        double missed;   /* Claims beyond the theory's stock. */
    } of[WP_BURSTS];     /* The oldest first. */
    uint32_t n;
    int64_t latest_ns; /* The latest such claim. */
};

/* Of the claims that came at now_ns so many missed, by the theory's stock: not
 * 0; and so much was needed. What comes within apart_ns of each other is one
 * burst. True: it is the first of one. */
bool wp_bursts_add(struct wp_bursts *bursts, int64_t now_ns, uint32_t needed,
                   uint32_t missed, int64_t apart_ns);
/* By how much what is needed differs from burst to burst: the standard
 * deviation; INFINITY with too few of them. */
double wp_bursts_spread(const struct wp_bursts *bursts);
/* Before that the next one comes with a probability of `early` at most. 0: it
 * may come at any time.
 *
 * The time between two is taken for a least one, c, and an exponential one of
 * mean d on top. Of n of them with the least m and the mean M, the next one is
 * below m - r (M - m) with the probability (1 + r)^(1 - n) / (n + 1): it has to
 * be the least of n + 1, and n (m - c) / d is exponential, n (M - m) / d gamma
 * distributed with n - 1 as its shape. A memoryless process has no c that could
 * be told from 0. */
int64_t wp_bursts_due_ns(const struct wp_bursts *bursts, double early);
bool wp_bursts_are_sound(const struct wp_bursts *bursts, int64_t now_ns);

#endif
