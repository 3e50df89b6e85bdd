#include "k8s/objects/quantity.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    DIGITS_MAX = 40, /* Of what is read; longer texts are no quantities. */
};

static const struct {
    const char *suffix;
    double factor;
} suffixes[] = {
    {"", 1},        {"n", 1e-9},    {"u", 1e-6},    {"m", 1e-3},
    {"k", 1e3},     {"M", 1e6},     {"G", 1e9},     {"T", 1e12},
    {"P", 1e15},    {"E", 1e18},    {"Ki", 0x1p10}, {"Mi", 0x1p20},
    {"Gi", 0x1p30}, {"Ti", 0x1p40}, {"Pi", 0x1p50}, {"Ei", 0x1p60},
};

static size_t
number_length(struct wp_str s)
{
    size_t i = 0;

    while (i < s.len &&
           (s.ptr[i] == '.' || s.ptr[i] == '+' || s.ptr[i] == '-' ||
            (s.ptr[i] >= '0' && s.ptr[i] <= '9'))) {
        i++;
    }
    return i;
}

/* "e3", "E-2": an exponent, where "E" alone is a suffix. */
static bool
is_exponent(struct wp_str s)
{
    struct wp_str digits;
    int64_t value;

    if (s.len < 2 || (s.ptr[0] != 'e' && s.ptr[0] != 'E')) {
        return false;
    }
    digits = (struct wp_str){s.ptr + 1, s.len - 1};
    if (digits.ptr[0] == '+') {
        digits = (struct wp_str){digits.ptr + 1, digits.len - 1};
    }
    return wp_str_to_i64(digits, &value) && value > -100 && value < 100;
}

static bool
factor_of(struct wp_str suffix, double *factor)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(suffixes); i++) {
        if (wp_str_is(suffix, suffixes[i].suffix)) {
            *factor = suffixes[i].factor;
            return true;
        }
    }
    return false;
}

bool
wp_quantity_canonical(struct wp_str s, char out[WP_QUANTITY_TEXT_MAX])
{
    size_t length = number_length(s);
    struct wp_str suffix;
    char text[DIGITS_MAX + 1];
    char *end;
    double factor = 1;
    double value;

    if (length == 0) {
        return false;
    }
    suffix = (struct wp_str){s.ptr + length, s.len - length};
    if (is_exponent(suffix)) {
        length = s.len; /* strtod reads exponents as well. */
    } else if (!factor_of(suffix, &factor)) {
        return false;
    }
    if (!wp_str_copy((struct wp_str){s.ptr, length}, text, sizeof(text))) {
        return false;
    }
    value = strtod(text, &end);
    if (*end != '\0' || end == text) {
        return false;
    }
    (void)snprintf(out, WP_QUANTITY_TEXT_MAX, "%.15g", value * factor);
    return true;
}
