#include "pool/annotations/quantity.h"

#include <stdio.h>

enum {
    DIGITS_MAX = 40,
    ROOM = 64, /* DIGITS_MAX, and 19 of the largest binary suffix. */
    EXPONENT_MAX = 99,
    PLAIN_MAX = 15, /* Places of whole numbers written without exponent. */
    PLAIN_MIN = -4,
};

/* value = digits * 10^ten. */
struct number {
    uint8_t digits[ROOM]; /* The last one counts units. */
    int ten;
    bool minus;
};

static const struct {
    const char *text;
    int ten;
    int kibis; /* Powers of 1024. */
} suffixes[] = {
    {"", 0, 0},   {"n", -9, 0}, {"u", -6, 0}, {"m", -3, 0},
    {"k", 3, 0},  {"M", 6, 0},  {"G", 9, 0},  {"T", 12, 0},
    {"P", 15, 0}, {"E", 18, 0}, {"Ki", 0, 1}, {"Mi", 0, 2},
    {"Gi", 0, 3}, {"Ti", 0, 4}, {"Pi", 0, 5}, {"Ei", 0, 6},
};

static void
multiply(struct number *n, uint32_t factor, uint32_t carry)
{
    for (size_t i = ROOM; i-- > 0;) {
        carry += n->digits[i] * factor;
        n->digits[i] = (uint8_t)(carry % 10);
        carry /= 10;
    }
}

/* Digits with at most one point; what follows is left in *rest. */
static bool
parse_digits(struct wp_str text, struct number *n, struct wp_str *rest)
{
    size_t i = 0;
    bool any = false;
    bool point = false;
    int digits = 0;

    if (text.len > 0 && (text.ptr[0] == '+' || text.ptr[0] == '-')) {
        n->minus = text.ptr[i++] == '-';
    }
    for (; i < text.len; i++) {
        char c = text.ptr[i];

        if (c == '.' && !point) {
            point = true;
            continue;
        }
        if (c < '0' || c > '9') {
            break;
        }
        any = true;
        n->ten -= point ? 1 : 0;
        digits += digits > 0 || c != '0' ? 1 : 0;
        if (digits > DIGITS_MAX) {
            return false;
        }
        multiply(n, 10, (uint32_t)(c - '0'));
    }
    *rest = (struct wp_str){text.ptr + i, text.len - i};
    return any;
}

static bool
parse_exponent(struct wp_str rest, struct number *n)
{
    size_t sign;
    uint64_t value;

    if (rest.len < 2 || (rest.ptr[0] != 'e' && rest.ptr[0] != 'E')) {
        return false;
    }
    sign = rest.ptr[1] == '-' || rest.ptr[1] == '+' ? 1 : 0;
    if (!wp_str_to_u64(
            (struct wp_str){rest.ptr + 1 + sign, rest.len - 1 - sign},
            &value) ||
        value > EXPONENT_MAX) {
        return false;
    }
    n->ten += rest.ptr[1] == '-' ? -(int)value : (int)value;
    return true;
}

static bool
parse_number(struct wp_str text, struct number *n)
{
    struct wp_str rest;

    *n = (struct number){.ten = 0};
    if (text.len > INT16_MAX || !parse_digits(text, n, &rest)) {
        return false;
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(suffixes); i++) {
        if (wp_str_is(rest, suffixes[i].text)) {
            n->ten += suffixes[i].ten;
            for (int k = 0; k < suffixes[i].kibis; k++) {
                multiply(n, 1024, 0);
            }
            return true;
        }
    }
    return parse_exponent(rest, n);
}

static bool
push(uint64_t *value, uint64_t digit)
{
    if (*value > (INT64_MAX - digit) / 10) {
        return false;
    }
    *value = *value * 10 + digit;
    return true;
}

/* The number times 10^shift, rounded up; false above INT64_MAX. */
static bool
to_units(const struct number *n, int shift, uint64_t *out)
{
    int ten = n->ten + shift;
    uint64_t rest = 0;

    *out = 0;
    if (n->minus) {
        return false;
    }
    for (int i = 0; i < ROOM; i++) {
        uint64_t digit = n->digits[i];

        if (ten + ROOM - 1 - i < 0) {
            rest |= digit;
        } else if (!push(out, digit)) {
            return false;
        }
    }
    for (; ten > 0 && *out > 0; ten--) {
        if (!push(out, 0)) {
            return false;
        }
    }
    *out += rest > 0 ? 1 : 0;
    return *out <= INT64_MAX;
}

bool
wp_quantity_milli(struct wp_str text, uint64_t *out)
{
    struct number n;

    return parse_number(text, &n) && to_units(&n, 3, out);
}

bool
wp_quantity_whole(struct wp_str text, uint64_t *out)
{
    struct number n;

    return parse_number(text, &n) && to_units(&n, 0, out) &&
           *out <= UINT64_C(1) << 60;
}

/* As printf's %g: plain where that is short, else with an exponent. */
bool
wp_quantity_canonical(struct wp_str text, char out[WP_QUANTITY_TEXT_MAX])
{
    struct number n;
    int first = 0;
    int last = ROOM - 1;
    int top; /* The place of the first digit: 10^top. */
    int end; /* And of the last. */
    int exponent = 0;

    if (!parse_number(text, &n)) {
        return false;
    }
    while (first < ROOM && n.digits[first] == 0) {
        first++;
    }
    if (first == ROOM) {
        (void)snprintf(out, WP_QUANTITY_TEXT_MAX, "0");
        return true;
    }
    while (n.digits[last] == 0) {
        last--;
    }
    top = n.ten + ROOM - 1 - first;
    end = n.ten + ROOM - 1 - last;
    if (top < PLAIN_MIN || top >= PLAIN_MAX) {
        exponent = top;
        end -= top;
        top = 0;
    }
    if (n.minus) {
        *out++ = '-';
    }
    for (int at = top > 0 ? top : 0; at >= 0 || at >= end; at--) {
        bool is_digit = at <= top && at >= end;

        if (at == -1) {
            *out++ = '.';
        }
        *out++ = (char)('0' + (is_digit ? n.digits[first + top - at] : 0));
    }
    if (exponent != 0) {
        (void)snprintf(out, sizeof "e+123456", "e%+03d", exponent);
    } else {
        *out = '\0';
    }
    return true;
}
