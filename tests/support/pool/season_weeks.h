/* tests/support/pool/season_weeks.h - weeks as the tests of the season live through
 * them: all alike, with a working day in each day. */
#ifndef WP_TESTS_SUPPORT_POOL_SEASON_WEEKS_H
#define WP_TESTS_SUPPORT_POOL_SEASON_WEEKS_H

#include <stdint.h>

#include "pool/base/clock.h"

#define S WP_NS_PER_S
#define HOUR (3600 * S)
#define WEEK (168 * HOUR)
/* Begin of a week of the epoch: 2025-12-25, a Thursday. */
#define WALL0 (2921 * WEEK)

/* The claims of an hour since WALL0: quiet ones, but from nine on busy ones. */
static inline uint32_t
step_at_nine(int64_t hour)
{
    return hour % 24 >= 9 && hour % 24 < 17 ? 8 * 3600 : 3600;
}

#endif
