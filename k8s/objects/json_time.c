/* The times of Kubernetes objects, which are RFC 3339. */
#include "k8s/objects/json.h"
#include "pool/base/civil.h"

enum {
    DIGITS_MAX = 18, /* Of a fraction; what is finer than 1 ms is cut. */
};

/* Exactly len digits at *at, which moves behind them. */
static bool
take_number(const char **at, int len, int min, int max, int *out)
{
    int value = 0;

    for (int i = 0; i < len; i++) {
        char c = (*at)[i];

        if (c < '0' || c > '9') {
            return false;
        }
        value = value * 10 + (c - '0');
    }
    *at += len;
    *out = value;
    return value >= min && value <= max;
}

static bool
take_char(const char **at, char c)
{
    if (**at != c) {
        return false;
    }
    (*at)++;
    return true;
}

/* ".123456", if there is one. */
static bool
take_fraction(const char **at, int64_t *ms)
{
    int scale = 100;
    int digits = 0;

    *ms = 0;
    if (!take_char(at, '.')) {
        return true;
    }
    for (; **at >= '0' && **at <= '9'; (*at)++, digits++) {
        *ms += (**at - '0') * scale;
        scale /= 10;
    }
    return digits > 0 && digits <= DIGITS_MAX;
}

/* "Z", "+01:00": what is to be taken off the time to have UTC. */
static bool
take_offset(const char **at, int64_t *ms)
{
    char sign = **at;
    int hours;
    int minutes;

    *ms = 0;
    if (take_char(at, 'Z')) {
        return true;
    }
    if (sign != '+' && sign != '-') {
        return false;
    }
    (*at)++;
    if (!take_number(at, 2, 0, 23, &hours) || !take_char(at, ':') ||
        !take_number(at, 2, 0, 59, &minutes)) {
        return false;
    }
    *ms = (sign == '+' ? 1 : -1) * (hours * 60 + minutes) * INT64_C(60000);
    return true;
}

bool
wp_json_time(const char *text, int64_t *wall_ms)
{
    const char *at = text;
    int year;
    int month;
    int day;
    int hour;
    int minute;
    int second;
    int64_t fraction;
    int64_t offset;

    if (!take_number(&at, 4, 0, 9999, &year) || !take_char(&at, '-') ||
        !take_number(&at, 2, 1, 12, &month) || !take_char(&at, '-') ||
        !take_number(&at, 2, 1, wp_civil_days_in_month(year, month), &day) ||
        !take_char(&at, 'T') || !take_number(&at, 2, 0, 23, &hour) ||
        !take_char(&at, ':') || !take_number(&at, 2, 0, 59, &minute) ||
        !take_char(&at, ':') || !take_number(&at, 2, 0, 59, &second) ||
        !take_fraction(&at, &fraction) || !take_offset(&at, &offset) ||
        *at != '\0') {
        return false;
    }
    *wall_ms =
        ((wp_civil_to_days(year, month, day) * 24 + hour) * 60 + minute) *
            INT64_C(60000) +
        second * INT64_C(1000) + fraction - offset;
    return true;
}
