#include "pool/base/nearest.h"

#include <stdint.h>

#include "pool/base/assert.h"

static size_t
min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t
wp_word_distance(struct wp_str a, struct wp_str b)
{
    size_t d[WP_NEAREST_WORD_MAX + 1][WP_NEAREST_WORD_MAX + 1];

    WP_ASSERT(a.len <= WP_NEAREST_WORD_MAX && b.len <= WP_NEAREST_WORD_MAX);
    for (size_t i = 0; i <= a.len; i++) {
        for (size_t j = 0; j <= b.len; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            d[i][j] = min_size(d[i - 1][j], d[i][j - 1]) + 1;
            d[i][j] = min_size(d[i][j], d[i - 1][j - 1] +
                                            (a.ptr[i - 1] != b.ptr[j - 1]));
            if (i > 1 && j > 1 && a.ptr[i - 1] == b.ptr[j - 2] &&
                a.ptr[i - 2] == b.ptr[j - 1]) {
                d[i][j] = min_size(d[i][j], d[i - 2][j - 2] + 1);
            }
        }
    }
    return d[a.len][b.len];
}

void
wp_nearest_init(struct wp_nearest *nearest, struct wp_str typed)
{
    *nearest = (struct wp_nearest){typed, NULL, SIZE_MAX};
}

void
wp_nearest_offer(struct wp_nearest *nearest, const char *word)
{
    struct wp_str offered = wp_str_from(word);
    size_t far = offered.len / 3 > 0 ? offered.len / 3 : 1;
    size_t d;

    if (nearest->typed.len == 0 || nearest->typed.len > WP_NEAREST_WORD_MAX ||
        offered.len > WP_NEAREST_WORD_MAX) {
        return;
    }
    d = wp_word_distance(nearest->typed, offered);
    if (d > far && wp_str_starts_with(offered, nearest->typed) &&
        nearest->typed.len >= 2) {
        d = far;
    }
    if (d <= far && d < nearest->distance) {
        nearest->best = word;
        nearest->distance = d;
    }
}
