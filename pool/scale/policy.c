#include "pool/scale/policy.h"

#include <stdio.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/duration.h"

enum {
    DECIMALS_MAX = 6,
    SHORT_VALUE_MAX = 128, /* With the final NUL; all but schedules. */
};

#define DOWN_WINDOW_MAX_NS (24 * 3600 * WP_NS_PER_S)

/* Of each key: how its value is read and written. read leaves policy as it was
 * when it fails; its message begins with what was expected. */
struct row {
    const char *key;
    const char *help;
    enum wp_status (*read)(struct wp_scale_policy *policy, struct wp_str value,
                           struct wp_err *err);
    void (*write)(const struct wp_scale_policy *policy, char *out, size_t cap);
    void (*clear)(struct wp_scale_policy *policy);
};

static const struct wp_scale_policy defaults = {
    .objective = WP_SCALE_PLAIN,
    .max = WP_SCALE_TARGET_MAX,
    .down_window_ns = 300 * WP_NS_PER_S,
    .down_rate = 0.1,
};

/* --- Values --- */

static struct wp_str
trim(struct wp_str s)
{
    while (s.len > 0 && strchr(" \t\r\n", s.ptr[0]) != NULL) {
        s.ptr++;
        s.len--;
    }
    while (s.len > 0 && strchr(" \t\r\n", s.ptr[s.len - 1]) != NULL) {
        s.len--;
    }
    return s;
}

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
    const char *point = text.len > 0 ? memchr(text.ptr, '.', text.len) : NULL;
    size_t whole_len = point != NULL ? (size_t)(point - text.ptr) : text.len;
    size_t decimals = point != NULL ? text.len - whole_len - 1 : 0;
    uint64_t whole;
    uint64_t part = 0;
    double ten = 1;

    if (!wp_str_to_u64((struct wp_str){text.ptr, whole_len}, &whole) ||
        whole > UINT32_MAX || decimals > DECIMALS_MAX ||
        (point != NULL &&
         !wp_str_to_u64((struct wp_str){point + 1, decimals}, &part))) {
        return false;
    }
    for (size_t i = 0; i < decimals; i++) {
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
    if (!read_decimal(trim(text), &value, &scale)) {
        return false;
    }
    *share = value / (scale * 100);
    return true;
}

/* What read_decimal takes, without needless zeros. */
static void
write_decimal(double value, const char *unit, char *out, size_t cap)
{
    char digits[SHORT_VALUE_MAX];
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
    policy->objective = defaults.objective;
    policy->hit_rate = defaults.hit_rate;
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

static void
clear_miss_cost(struct wp_scale_policy *policy)
{
    policy->miss_cost_s = defaults.miss_cost_s;
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

static void
clear_min(struct wp_scale_policy *policy)
{
    policy->min = defaults.min;
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

static void
clear_max(struct wp_scale_policy *policy)
{
    policy->max = defaults.max;
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

static void
clear_down_window(struct wp_scale_policy *policy)
{
    policy->down_window_ns = defaults.down_window_ns;
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

static void
clear_down_rate(struct wp_scale_policy *policy)
{
    policy->down_rate = defaults.down_rate;
}

static enum wp_status
read_schedule(struct wp_scale_policy *policy, struct wp_str value,
              struct wp_err *err)
{
    struct wp_schedule floors[WP_SCALE_FLOORS_MAX];
    uint32_t n = 0;

    for (size_t at = 0; at <= value.len; n++) {
        const char *from = value.ptr + at;
        const char *end = memchr(from, ';', value.len - at);
        size_t len = end != NULL ? (size_t)(end - from) : value.len - at;

        if (n == WP_SCALE_FLOORS_MAX) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "at most %d floors expected",
                              WP_SCALE_FLOORS_MAX);
        }
        if (wp_schedule_parse(trim((struct wp_str){from, len}), policy->zone,
                              WP_SCALE_TARGET_MAX, &floors[n], err) != WP_OK) {
            return wp_err_wrap(err, "floor %u", n + 1);
        }
        at += len + 1;
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
clear_schedule(struct wp_scale_policy *policy)
{
    policy->n_floors = 0;
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

static void
clear_budget_group(struct wp_scale_policy *policy)
{
    policy->budget_group[0] = '\0';
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

static void
clear_resume(struct wp_scale_policy *policy)
{
    policy->resume[0] = '\0';
}

#define ROW(key, name, help)                                                   \
    {                                                                          \
        key, help, read_##name, write_##name, clear_##name                     \
    }

static const struct row rows[] = {
    ROW("objective", objective,
        "99.9%: so many claims are served at once by a ready sandbox, with the "
        "fewest idle; or cost: the least of misses and idling; 50% to 99.999%"),
    ROW("miss-cost", miss_cost,
        "with cost: how many sandbox-seconds of idling one miss is worth, "
        "0.001 to 1000000000"),
    ROW("min", min, "the target is never below it; 0 to 1048576; 0"),
    ROW("max", max, "the target is never above it; 0 to 1048576; 1048576"),
    ROW("scale-down-window", down_window,
        "the target is no less than the most wanted in the last so long; 0s to "
        "24h; 5m"),
    ROW("scale-down-rate", down_rate,
        "the target falls by no more than this share, or one, in 30 s; 1% to "
        "100%; 10%"),
    ROW("schedule", schedule,
        "floors by the clock, such as \"0 8 * * mon-fri for 10h at least 20\": "
        "a cron expression, 1m to 7d, a number; several are parted by \";\""),
    ROW("time-zone", time_zone, "of schedule, such as Europe/Zurich; UTC"),
    ROW("budget-group", budget_group,
        "pools that name the same group share its budget, see "
        "autoscale_budgets "
        "in warmpoold.conf(5)"),
    ROW("resume", resume,
        "any text of at most 63 characters: a changed one gives a pool that "
        "was "
        "scaled by hand back to the autoscaler"),
};

enum {
    OBJECTIVE, /* The rows that wp_scale_policy_check asks for, by index. */
    MISS_COST,
    TIME_ZONE = 7,
};

_Static_assert(WP_ARRAY_LEN(rows) <= 32, "given has a bit for each");

/* --- Keys --- */

static size_t
least(size_t a, size_t b, size_t c)
{
    size_t ab = a < b ? a : b;

    return ab < c ? ab : c;
}

/* How many characters to insert, remove or replace to get from a to b; a is at
 * most WP_SCALE_KEY_MAX long. */
static size_t
edit_distance(struct wp_str a, struct wp_str b)
{
    size_t line[WP_SCALE_KEY_MAX + 1];

    for (size_t i = 0; i <= a.len; i++) {
        line[i] = i;
    }
    for (size_t j = 1; j <= b.len; j++) {
        size_t diagonal = line[0];

        line[0] = j;
        for (size_t i = 1; i <= a.len; i++) {
            size_t above = line[i];

            line[i] = least(line[i] + 1, line[i - 1] + 1,
                            diagonal + (a.ptr[i - 1] == b.ptr[j - 1] ? 0 : 1));
            diagonal = above;
        }
    }
    return line[a.len];
}

/* There are too many of them for one error. */
#define ALL_KEYS "; all of them: warmpool-autoscale(7)"

static enum wp_status
find_row(struct wp_str key, const struct row **out, struct wp_err *err)
{
    const struct row *nearest = &rows[0];
    size_t distance = SIZE_MAX;
    char shown[WP_STR_SHOWN_MAX];

    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        if (wp_str_is(key, rows[i].key)) {
            *out = &rows[i];
            return WP_OK;
        }
    }
    if (key.len > WP_SCALE_KEY_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s: unknown key; the longest one is %d characters "
                          "long" ALL_KEYS,
                          wp_str_shown(key, shown), WP_SCALE_KEY_MAX);
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        size_t d = edit_distance(key, wp_str_from(rows[i].key));

        if (d < distance) {
            distance = d;
            nearest = &rows[i];
        }
    }
    return wp_err_set(err, WP_INVALID_ARGUMENT,
                      "%s: unknown key; the nearest known one is %s" ALL_KEYS,
                      wp_str_shown(key, shown), nearest->key);
}

static bool
is_given(const struct wp_scale_policy *policy, size_t row)
{
    return (policy->given >> row & 1) != 0;
}

void
wp_scale_policy_init(struct wp_scale_policy *policy)
{
    *policy = defaults;
}

enum wp_status
wp_scale_policy_set(struct wp_scale_policy *policy, struct wp_str key,
                    struct wp_str value, struct wp_err *err)
{
    struct wp_err own;
    const struct row *row;
    enum wp_status status;

    err = err != NULL ? err : &own;
    status = find_row(key, &row, err);
    if (status != WP_OK) {
        return status;
    }
    value = trim(value);
    if (value.len == 0) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "%s: a value expected",
                          row->key);
    }
    if (row->read(policy, value, err) != WP_OK) {
        (void)wp_err_wrap(err, "%s", row->key);
        err->status = WP_INVALID_ARGUMENT;
        return WP_INVALID_ARGUMENT;
    }
    policy->given |= 1U << (row - rows);
    return WP_OK;
}

enum wp_status
wp_scale_policy_clear(struct wp_scale_policy *policy, struct wp_str key,
                      struct wp_err *err)
{
    const struct row *row;
    enum wp_status status = find_row(key, &row, err);

    if (status == WP_OK) {
        row->clear(policy);
        policy->given &= ~(1U << (row - rows));
    }
    return status;
}

static enum wp_status
check_objective(const struct wp_scale_policy *policy, struct wp_err *err)
{
    bool cost = policy->objective == WP_SCALE_COST;

    for (size_t i = 0; !is_given(policy, OBJECTIVE) && i < WP_ARRAY_LEN(rows);
         i++) {
        if (is_given(policy, i)) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "%s: an objective beside it expected, without "
                              "which nothing is scaled",
                              rows[i].key);
        }
    }
    if (cost && !is_given(policy, MISS_COST)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "miss-cost: expected with the objective cost");
    }
    if (!cost && is_given(policy, MISS_COST)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "miss-cost: only expected with the objective cost");
    }
    return WP_OK;
}

enum wp_status
wp_scale_policy_check(const struct wp_scale_policy *policy, struct wp_err *err)
{
    enum wp_status status = check_objective(policy, err);

    if (status != WP_OK) {
        return status;
    }
    if (policy->max < policy->min) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "max: at least min, which is %u, expected, not %u",
                          policy->min, policy->max);
    }
    for (uint32_t i = 0; i < policy->n_floors; i++) {
        if (policy->floors[i].at_least > policy->max) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "schedule: floor %u: at most max, which is %u, "
                              "expected, not %u",
                              i + 1, policy->max, policy->floors[i].at_least);
        }
    }
    if (is_given(policy, TIME_ZONE) && policy->n_floors == 0) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "time-zone: a schedule beside it expected, which it "
                          "is for");
    }
    return WP_OK;
}

bool
wp_scale_policy_get(const struct wp_scale_policy *policy, struct wp_str key,
                    char *out, size_t cap)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        if (wp_str_is(key, rows[i].key) && is_given(policy, i)) {
            WP_ASSERT(cap >= SHORT_VALUE_MAX);
            rows[i].write(policy, out, cap);
            return true;
        }
    }
    return false;
}

bool
wp_scale_policy_eq(const struct wp_scale_policy *a,
                   const struct wp_scale_policy *b)
{
    /* Numbers come from the same few texts: what is equal is so to the bit. */
    bool same = a->given == b->given && a->objective == b->objective &&
                a->hit_rate == b->hit_rate &&
                a->miss_cost_s == b->miss_cost_s && a->min == b->min &&
                a->max == b->max && a->down_window_ns == b->down_window_ns &&
                a->down_rate == b->down_rate && a->n_floors == b->n_floors &&
                a->zone == b->zone &&
                strcmp(a->budget_group, b->budget_group) == 0 &&
                strcmp(a->resume, b->resume) == 0;

    for (uint32_t i = 0; same && i < a->n_floors; i++) {
        same = wp_schedule_eq(&a->floors[i], &b->floors[i]);
    }
    return same;
}

const char *
wp_scale_policy_key(unsigned i)
{
    return i < WP_ARRAY_LEN(rows) ? rows[i].key : NULL;
}

const char *
wp_scale_policy_key_help(unsigned i)
{
    return i < WP_ARRAY_LEN(rows) ? rows[i].help : NULL;
}

uint32_t
wp_scale_policy_floor(struct wp_scale_policy *policy, int64_t wall_ns,
                      int64_t *changes_at_ns)
{
    uint32_t floor = 0;

    *changes_at_ns = WP_TIME_NEVER;
    for (uint32_t i = 0; i < policy->n_floors; i++) {
        struct wp_schedule *schedule = &policy->floors[i];
        int64_t changes_ns;
        bool holds = wp_schedule_holds(schedule, wall_ns, &changes_ns);

        if (holds && schedule->at_least > floor) {
            floor = schedule->at_least;
        }
        if (changes_ns < *changes_at_ns) {
            *changes_at_ns = changes_ns;
        }
    }
    return floor;
}
