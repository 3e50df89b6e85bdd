/* pool/base/extreme.h - the lesser and the greater of two numbers; pure. */
#ifndef WP_BASE_EXTREME_H
#define WP_BASE_EXTREME_H

#include <stdint.h>

static inline uint32_t
wp_min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline uint32_t
wp_max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static inline int64_t
wp_min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t
wp_max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

#endif
