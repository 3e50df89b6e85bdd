#include "pool/policy/policy.h"

#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/extreme.h"
#include "pool/base/nearest.h"
#include "pool/policy/policy_parts.h"

/* There are too many of them for one error. */
#define ALL_KEYS "; all of them: warmpool-autoscale(7)"

static enum wp_status
find_row(struct wp_str key, const struct wp_policy_row **out,
         struct wp_err *err)
{
    const struct wp_policy_row *nearest = &wp_policy_rows[0];
    size_t distance = SIZE_MAX;
    char shown[WP_STR_SHOWN_MAX];

    for (size_t i = 0; i < WP_ARRAY_LEN(wp_policy_rows); i++) {
        if (wp_str_is(key, wp_policy_rows[i].key)) {
            *out = &wp_policy_rows[i];
            return WP_OK;
        }
    }
    if (key.len > WP_SCALE_KEY_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s: unknown key; the longest one is %d characters "
                          "long" ALL_KEYS,
                          wp_str_shown(key, shown), WP_SCALE_KEY_MAX);
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(wp_policy_rows); i++) {
        size_t d = wp_word_distance(key, wp_str_from(wp_policy_rows[i].key));

        if (d < distance) {
            distance = d;
            nearest = &wp_policy_rows[i];
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
    *policy = wp_policy_defaults;
}

enum wp_status
wp_scale_policy_set(struct wp_scale_policy *policy, struct wp_str key,
                    struct wp_str value, struct wp_err *err)
{
    struct wp_err own;
    const struct wp_policy_row *row;
    enum wp_status status;

    err = err != NULL ? err : &own;
    status = find_row(key, &row, err);
    if (status != WP_OK) {
        return status;
    }
    value = wp_str_trim(value);
    if (value.len == 0) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "%s: a value expected",
                          row->key);
    }
    if (row->read(policy, value, err) != WP_OK) {
        (void)wp_err_wrap(err, "%s", row->key);
        err->status = WP_INVALID_ARGUMENT;
        return WP_INVALID_ARGUMENT;
    }
    policy->given |= 1U << (row - wp_policy_rows);
    return WP_OK;
}

enum wp_status
wp_scale_policy_clear(struct wp_scale_policy *policy, struct wp_str key,
                      struct wp_err *err)
{
    const struct wp_policy_row *row;
    enum wp_status status = find_row(key, &row, err);

    if (status == WP_OK) {
        if (row->clear != NULL) {
            row->clear(policy);
        } else {
            memcpy((char *)policy + row->offset,
                   (const char *)&wp_policy_defaults + row->offset, row->size);
        }
        policy->given &= ~(1U << (row - wp_policy_rows));
    }
    return status;
}

static enum wp_status
check_objective(const struct wp_scale_policy *policy, struct wp_err *err)
{
    bool cost = policy->objective == WP_SCALE_COST;

    for (size_t i = 0; !is_given(policy, WP_POLICY_OBJECTIVE) &&
                       i < WP_ARRAY_LEN(wp_policy_rows);
         i++) {
        if (is_given(policy, i)) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "%s: an objective beside it expected, without "
                              "which nothing is scaled",
                              wp_policy_rows[i].key);
        }
    }
    if (cost && !is_given(policy, WP_POLICY_MISS_COST)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "miss-cost: expected with the objective cost");
    }
    if (!cost && is_given(policy, WP_POLICY_MISS_COST)) {
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
    if (is_given(policy, WP_POLICY_TIME_ZONE) && policy->n_floors == 0) {
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
    for (size_t i = 0; i < WP_ARRAY_LEN(wp_policy_rows); i++) {
        if (wp_str_is(key, wp_policy_rows[i].key) && is_given(policy, i)) {
            WP_ASSERT(cap >= WP_POLICY_SHORT_VALUE_MAX);
            wp_policy_rows[i].write(policy, out, cap);
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
    return i < WP_ARRAY_LEN(wp_policy_rows) ? wp_policy_rows[i].key : NULL;
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

        if (holds) {
            floor = wp_max_u32(floor, schedule->at_least);
        }
        *changes_at_ns = wp_min_i64(*changes_at_ns, changes_ns);
    }
    return floor;
}
