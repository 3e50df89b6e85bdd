#include "pool/base/duration.h"

#include <stdio.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"

/* Largest last: formatting looks for the largest that divides. */
static const struct wp_unit duration_units[] = {
    {"ms", WP_NS_PER_MS},           {"s", WP_NS_PER_S},
    {"m", 60 * WP_NS_PER_S},        {"h", 3600 * WP_NS_PER_S},
    {"d", 24 * 3600 * WP_NS_PER_S},
};

bool
wp_unit_parse(struct wp_str text, const struct wp_unit *units, size_t n_units,
              int64_t *out)
{
    size_t digits = 0;
    struct wp_str rest;
    int64_t number;

    while (digits < text.len && text.ptr[digits] >= '0' &&
           text.ptr[digits] <= '9') {
        digits++;
    }
    if (!wp_str_to_i64((struct wp_str){text.ptr, digits}, &number)) {
        return false;
    }
    rest = (struct wp_str){text.ptr + digits, text.len - digits};
    for (size_t i = 0; i < n_units; i++) {
        if (wp_str_is(rest, units[i].name)) {
            return !__builtin_mul_overflow(number, units[i].factor, out);
        }
    }
    *out = 0;
    return rest.len == 0 && number == 0;
}

const char *
wp_unit_format(int64_t value, const struct wp_unit *units, size_t n_units,
               char out[32])
{
    size_t i = n_units - 1;

    while (i > 0 && (value == 0 || value % units[i].factor != 0)) {
        i--;
    }
    (void)snprintf(out, 32, "%lld%s", (long long)(value / units[i].factor),
                   value == 0 ? "" : units[i].name);
    return out;
}

bool
wp_duration_parse(struct wp_str text, int64_t *out_ns)
{
    return wp_unit_parse(text, duration_units, WP_ARRAY_LEN(duration_units),
                         out_ns);
}

const char *
wp_duration_format(int64_t duration_ns, char out[WP_DURATION_TEXT_MAX])
{
    WP_ASSERT(duration_ns >= 0);
    if (duration_ns == 0) {
        memcpy(out, "0ms", sizeof "0ms");
        return out;
    }
    return wp_unit_format(duration_ns, duration_units,
                          WP_ARRAY_LEN(duration_units), out);
}
