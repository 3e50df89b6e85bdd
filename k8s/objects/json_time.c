/* The times of Kubernetes objects: RFC 3339 both ways. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "k8s/objects/json.h"
#include "pool/base/civil.h"
#include "pool/base/clock.h"

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

/* "2026-01-31T23:59:59" into out, and what is left below a second. */
static int64_t
write_seconds(int64_t wall_ns, char out[20])
{
    int64_t rest = wall_ns % WP_NS_PER_S;
    time_t seconds = (time_t)(wall_ns / WP_NS_PER_S);
    struct tm tm;

    if (rest < 0) {
        rest += WP_NS_PER_S;
        seconds--;
    }
    (void)gmtime_r(&seconds, &tm);
    (void)strftime(out, 20, "%Y-%m-%dT%H:%M:%S", &tm);
    return rest;
}

void
wp_json_time_seconds(int64_t wall_ns, char out[32])
{
    char seconds[20];

    (void)write_seconds(wall_ns, seconds);
    (void)snprintf(out, 32, "%sZ", seconds);
}

void
wp_json_time_nanos(int64_t wall_ns, char out[40])
{
    char seconds[20];
    int64_t rest = write_seconds(wall_ns, seconds);

    (void)snprintf(out, 40, "%s.%09dZ", seconds, (int)rest);
}

void
wp_json_time_micros(int64_t wall_ns, char out[40])
{
    char seconds[20];
    int64_t rest = write_seconds(wall_ns, seconds);

    (void)snprintf(out, 40, "%s.%06dZ", seconds, (int)(rest / WP_NS_PER_US));
}
