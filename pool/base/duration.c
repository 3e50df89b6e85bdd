#include "pool/base/duration.h"

#include <stdio.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"

static const struct {
    const char *text;
    int64_t ns;
} units[] = {
    {"ms", WP_NS_PER_MS},           {"s", WP_NS_PER_S},
    {"m", 60 * WP_NS_PER_S},        {"h", 3600 * WP_NS_PER_S},
    {"d", 24 * 3600 * WP_NS_PER_S},
};

bool
wp_duration_parse(struct wp_str text, int64_t *out_ns)
{
    struct wp_str number = {text.ptr, 0};
    struct wp_str unit;
    uint64_t value;

    while (number.len < text.len && text.ptr[number.len] >= '0' &&
           text.ptr[number.len] <= '9') {
        number.len++;
    }
    if (!wp_str_to_u64(number, &value)) {
        return false;
    }
    unit = (struct wp_str){text.ptr + number.len, text.len - number.len};
    if (unit.len == 0 && value == 0) {
        *out_ns = 0;
        return true;
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(units); i++) {
        if (wp_str_is(unit, units[i].text)) {
            if (value > (uint64_t)(INT64_MAX / units[i].ns)) {
                return false;
            }
            *out_ns = (int64_t)value * units[i].ns;
            return true;
        }
    }
    return false;
}

char *
wp_duration_format(int64_t duration_ns, char out[WP_DURATION_TEXT_MAX])
{
    size_t unit = 0;

    WP_ASSERT(duration_ns >= 0);
    for (size_t i = 1; i < WP_ARRAY_LEN(units); i++) {
        if (duration_ns > 0 && duration_ns % units[i].ns == 0) {
            unit = i;
        }
    }
    (void)snprintf(out, WP_DURATION_TEXT_MAX, "%lld%s",
                   (long long)(duration_ns / units[unit].ns), units[unit].text);
    return out;
}
