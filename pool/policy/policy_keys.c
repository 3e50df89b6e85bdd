/* The keys of a policy: how the value of each is read and written. */
#include "pool/policy/policy.h"

#include <stdio.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/duration.h"
#include "pool/policy/policy_parts.h"

enum {
    DECIMALS_MAX = 6,
};

#define DOWN_WINDOW_MAX_NS (24 * 3600 * WP_NS_PER_S)

const struct wp_scale_policy wp_policy_defaults = {
    .objective = WP_SCALE_PLAIN,
    .max = WP_SCALE_TARGET_MAX,
    .down_window_ns = 300 * WP_NS_PER_S,
    .down_rate = 0.1,
};

/* --- Values --- */

static enum wp_status
unexpected(struct wp_str value, const char *expected, struct wp_err *err)
{
    char shown[WP_STR_SHOWN_MAX];

    return wp_err_set(err, WP_INVALID_ARGUMENT, "%s expected, not '%s'",
                      expected, wp_str_shown(value, shown));
}

/* "12", "99.95": as value / scale, which keeps what was written exact. */
static bool
read_decimal(struct wp_str text, double *value, double *scale)
{
    struct wp_str whole_text;
    bool has_part = wp_str_cut(&text, '.', &whole_text);
    uint64_t whole;
    uint64_t part = 0;
    double ten = 1;

    if (!wp_str_to_u64(whole_text, &whole) || whole > UINT32_MAX ||
        text.len > DECIMALS_MAX || (has_part && !wp_str_to_u64(text, &part))) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        ten *= 10;
    }
    *value = (double)whole * ten + (double)part;
    *scale = ten;
    return true;
}

/* "10%" as 0.1. */
static bool
read_percent(struct wp_str text, double *share)
{
    double value;
    double scale;

    if (text.len == 0 || text.ptr[text.len - 1] != '%') {
        return false;
    }
    text.len--;
    if (!read_decimal(wp_str_trim(text), &value, &scale)) {
        return false;
    }
    *share = value / (scale * 100);
    return true;
}

/* What read_decimal takes, without needless zeros. */
static void
write_decimal(double value, const char *unit, char *out, size_t cap)
{
    char digits[WP_POLICY_SHORT_VALUE_MAX];
    int n = snprintf(digits, sizeof digits, "%.*f", DECIMALS_MAX, value);

    WP_ASSERT(n > 0 && (size_t)n < sizeof digits);
    while (digits[n - 1] == '0') {
        n--;
    }
    if (digits[n - 1] == '.') {
        n--;
    }
    (void)snprintf(out, cap, "%.*s%s", n, digits, unit);
}

static enum wp_status
read_count(struct wp_str value, uint32_t *out, struct wp_err *err)
{
    uint64_t count;

    if (!wp_str_to_u64(value, &count) || count > WP_SCALE_TARGET_MAX) {
        return unexpected(value, "a whole number from 0 to 1048576", err);
    }
    *out = (uint32_t)count;
    return WP_OK;
}

static enum wp_status
read_text(struct wp_str value, char *out, size_t cap, struct wp_err *err)
{
    if (value.len == 0 || value.len >= cap || !wp_str_is_printable(value)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "1 to %zu printable characters expected", cap - 1);
    }
    return wp_str_copy(value, out, cap)
               ? WP_OK
               : wp_err_set(err, WP_INVALID_ARGUMENT, "text expected");
}

/* --- Rows --- */

static enum wp_status
read_objective(struct wp_scale_policy *policy, struct wp_str value,
               struct wp_err *err)
{
    double share;

    if (wp_str_is(value, "cost")) {
        policy->objective = WP_SCALE_COST;
        policy->hit_rate = 0;
        return WP_OK;
    }
    if (!read_percent(value, &share) || share < 0.5 || share > 0.99999) {
        return unexpected(value,
                          "a share of claims from 50% to 99.999%, such as "
                          "99.9%, or cost",
                          err);
    }
    policy->objective = WP_SCALE_HIT_RATE;
    policy->hit_rate = share;
    return WP_OK;
}

static void
write_objective(const struct wp_scale_policy *policy, char *out, size_t cap)
{
    if (policy->objective == WP_SCALE_HIT_RATE) {
        write_decimal(policy->hit_rate * 100, "%", out, cap);
    } else {
        (void)snprintf(out, cap, "cost");
    }
}

static void
clear_objective(struct wp_scale_policy *policy)
{
    policy->objective = wp_policy_defaults.objective;
    policy->hit_rate = wp_policy_defaults.hit_rate;
}

static enum wp_status
read_miss_cost(struct wp_scale_policy *policy, struct wp_str value,
               struct wp_err *err)
{
    double number;
    double scale;

    if (!read_decimal(value, &number, &scale) || number / scale < 0.001 ||
        number / scale > 1e9) {
        return unexpected(
            value, "sandbox-seconds, a number from 0.001 to 1000000000,", err);
    }
    policy->miss_cost_s = number / scale;
    return WP_OK;
}

static void
write_miss_cost(const struct wp_scale_policy *policy, char *out, size_t cap)
{
    write_decimal(policy->miss_cost_s, "", out, cap);
}

static enum wp_status
read_min(struct wp_scale_policy *policy, struct wp_str value,
         struct wp_err *err)
{
    return read_count(value, &policy->min, err);
}

static void
write_min(const struct wp_scale_policy *policy, char *out, size_t cap)
{
    (void)snprintf(out, cap, "%u", policy->min);
}

static enum wp_status
read_max(struct wp_scale_policy *policy, struct wp_str value,
         struct wp_err *err)
{
    return read_count(value, &policy->max, err);
}

static void
write_max(const struct wp_scale_policy *policy, char *out, size_t cap)
{
    (void)snprintf(out, cap, "%u", policy->max);
}

static enum wp_status
read_down_window(struct wp_scale_policy *policy, struct wp_str value,
                 struct wp_err *err)
{
    int64_t window_ns;

    if (!wp_duration_parse(value, &window_ns) ||
        window_ns > DOWN_WINDOW_MAX_NS) {
        return unexpected(value, "a duration from 0s to 24h, such as 5m,", err);
    }
    policy->down_window_ns = window_ns;
    return WP_OK;
}

static void
write_down_window(const struct wp_scale_policy *policy, char *out, size_t cap)
{
    char text[WP_DURATION_TEXT_MAX];

    (void)snprintf(out, cap, "%s",
                   wp_duration_format(policy->down_window_ns, text));
}

static enum wp_status
read_down_rate(struct wp_scale_policy *policy, struct wp_str value,
               struct wp_err *err)
{
    double share;

    if (!read_percent(value, &share) || share < 0.01 || share > 1) {
        return unexpected(
            value, "a share of the target from 1% to 100%, such as 10%,", err);
    }
    policy->down_rate = share;
    return WP_OK;
}

static void
write_down_rate(const struct wp_scale_policy *policy, char *out, size_t cap)
{
    write_decimal(policy->down_rate * 100, "%", out, cap);
}

static enum wp_status
read_schedule(struct wp_scale_policy *policy, struct wp_str value,
              struct wp_err *err)
{
    struct wp_schedule floors[WP_SCALE_FLOORS_MAX];
    struct wp_str text;
    uint32_t n = 0;

    for (bool more = true; more; n++) {
        more = wp_str_cut(&value, ';', &text);
        if (n == WP_SCALE_FLOORS_MAX) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "at most %d floors expected",
                              WP_SCALE_FLOORS_MAX);
        }
        if (wp_schedule_parse(wp_str_trim(text), policy->zone,
                              WP_SCALE_TARGET_MAX, &floors[n], err) != WP_OK) {
            return wp_err_wrap(err, "floor %u", n + 1);
        }
    }
    policy->n_floors = n;
    memcpy(policy->floors, floors, n * sizeof floors[0]);
    return WP_OK;
}

static void
write_schedule(const struct wp_scale_policy *policy, char *out, size_t cap)
{
    size_t len = 0;

    for (uint32_t i = 0; i < policy->n_floors; i++) {
        char text[WP_SCHEDULE_TEXT_MAX];
        int n;

        wp_schedule_format(&policy->floors[i], text);
        n = snprintf(out + len, cap - len, "%s%s", i > 0 ? "; " : "", text);
        WP_ASSERT(n > 0 && (size_t)n < cap - len);
        len += (size_t)n;
    }
}

static void
use_zone(struct wp_scale_policy *policy, const struct wp_time_zone *zone)
{
    policy->zone = zone;
    for (uint32_t i = 0; i < policy->n_floors; i++) {
        policy->floors[i].zone = zone;
        wp_schedule_forget(&policy->floors[i]);
    }
}

static enum wp_status
read_time_zone(struct wp_scale_policy *policy, struct wp_str value,
               struct wp_err *err)
{
    const struct wp_time_zone *zone;
    char shown[WP_STR_SHOWN_MAX];

    if (wp_time_zone_find(value, &zone, err) != WP_OK) {
        return wp_err_wrap(err, "'%s'", wp_str_shown(value, shown));
    }
    use_zone(policy, zone);
    return WP_OK;
}

static void
write_time_zone(const struct wp_scale_policy *policy, char *out, size_t cap)
{
    (void)snprintf(out, cap, "%s", wp_time_zone_name(policy->zone));
}

static void
clear_time_zone(struct wp_scale_policy *policy)
{
    use_zone(policy, NULL);
}

static enum wp_status
read_budget_group(struct wp_scale_policy *policy, struct wp_str value,
                  struct wp_err *err)
{
    if (!wp_str_is_dns_name(value, WP_SCALE_BUDGET_GROUP_MAX)) {
        return unexpected(value, "a DNS name of at most 63 characters", err);
    }
    return read_text(value, policy->budget_group, sizeof policy->budget_group,
                     err);
}

static void
write_budget_group(const struct wp_scale_policy *policy, char *out, size_t cap)
{
    (void)snprintf(out, cap, "%s", policy->budget_group);
}

static enum wp_status
read_resume(struct wp_scale_policy *policy, struct wp_str value,
            struct wp_err *err)
{
    return read_text(value, policy->resume, sizeof policy->resume, err);
}

static void
write_resume(const struct wp_scale_policy *policy, char *out, size_t cap)
{
    (void)snprintf(out, cap, "%s", policy->resume);
}

#define FIELD(field)                                                           \
    offsetof(struct wp_scale_policy, field),                                   \
        sizeof((struct wp_scale_policy *)NULL)->field
/* The field is what to clear, unless that takes a function. */
#define ROW(key, name, field)                                                  \
    {                                                                          \
        key, read_##name, write_##name, NULL, FIELD(field)                     \
    }
#define ROW_CLEARED(key, name)                                                 \
    {                                                                          \
        key, read_##name, write_##name, clear_##name, 0, 0                     \
    }

/* In the order of warmpool-autoscale(7), which says what each means. */
const struct wp_policy_row wp_policy_rows[WP_POLICY_ROWS] = {
    ROW_CLEARED("objective", objective),
    ROW("miss-cost", miss_cost, miss_cost_s),
    ROW("min", min, min),
    ROW("max", max, max),
    ROW("scale-down-window", down_window, down_window_ns),
    ROW("scale-down-rate", down_rate, down_rate),
    ROW("schedule", schedule, n_floors),
    ROW_CLEARED("time-zone", time_zone),
    ROW("budget-group", budget_group, budget_group),
    ROW("resume", resume, resume),
};
