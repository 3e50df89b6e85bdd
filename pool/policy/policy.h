/* pool/policy/policy.h - what a platform team states about a pool's size.
 *
 * A policy is read from the annotations of a SandboxWarmPool, the same on one
 * machine and in Kubernetes, or from SetPool. Every key is in the group
 * WP_SCALE_GROUP; each is a row of a table in policy.c, from which the manual,
 * the errors and the parser are made.
 *
 *   objective               "99.9%": of claims served from the ready queue at
 *                           once; or "cost": weigh misses against idling
 *   miss-cost               with "cost": sandbox-seconds of idling that one
 *                           miss is worth, e.g. "900"
 *   min, max                bounds of the target; 0 and the most a pool may
 *                           have when not given
 *   scale-down-window       "5m": no less than the last so long needed
 *   scale-down-rate         "10%": of the target, at most, in 30 s
 *                           (both, as long as neither is given another value:
 *                           until it has been learned what comes back)
 *   schedule                floors by the clock, ";" between several:
 *                           "<cron of 5 fields> for <duration> at least <n>"
 *   time-zone               of the schedule, e.g. "Europe/Zurich"; UTC
 *   budget-group            pools of the same group share its budget
 *   resume                  any text; a changed one takes a pool that was
 *                           scaled by hand back (pool/scale/scaler.h)
 *
 * Without an objective nothing is scaled: spec.replicas keeps its plain
 * meaning, and the other keys are refused, since they would do nothing. */
#ifndef WP_POOL_POLICY_POLICY_H
#define WP_POOL_POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/status.h"
#include "pool/base/str.h"
#include "pool/policy/schedule.h"

#define WP_SCALE_GROUP "autoscale.warmpool.io/"

enum {
    WP_SCALE_TARGET_MAX = 1 << 20, /* As pool/limits.h has it. */
    WP_SCALE_FLOORS_MAX = 16,
    WP_SCALE_BUDGET_GROUP_MAX = 63,
    WP_SCALE_RESUME_MAX = 63,
    WP_SCALE_KEY_MAX = 31,
    /* Of one value, with the final NUL: that of a schedule is the longest. */
    WP_SCALE_VALUE_MAX = WP_SCALE_FLOORS_MAX * (WP_SCHEDULE_TEXT_MAX + 1),
};

enum wp_scale_objective {
    WP_SCALE_PLAIN,    /* No objective: the target is spec.replicas. */
    WP_SCALE_HIT_RATE, /* The least idle that keeps hit_rate. */
    WP_SCALE_COST,     /* The least of miss_cost_s * misses + idle seconds. */
};

struct wp_scale_policy {
    uint32_t given; /* Bit i: the i-th key was set. */
    enum wp_scale_objective objective;
    double hit_rate;    /* 0.5 .. 0.99999, with WP_SCALE_HIT_RATE. */
    double miss_cost_s; /* 0.001 .. 1e9, with WP_SCALE_COST. */
    uint32_t min;
    uint32_t max;           /* At least min, at most WP_SCALE_TARGET_MAX. */
    int64_t down_window_ns; /* 0 .. 24 h; 5 min when not given. */
    double down_rate; /* In 30 s: 0.01 .. 1; 0.1 when not given. At least one
                       * sandbox may always go. */
    uint32_t n_floors;
    struct wp_schedule floors[WP_SCALE_FLOORS_MAX];
    const struct wp_time_zone *zone; /* Of all floors; NULL: UTC. */
    char budget_group[WP_SCALE_BUDGET_GROUP_MAX + 1]; /* Empty: none. */
    char resume[WP_SCALE_RESUME_MAX + 1];
};

/* WP_SCALE_PLAIN and the values that hold when not given. */
void wp_scale_policy_init(struct wp_scale_policy *policy);

/* One annotation: key without the group. INVALID_ARGUMENT: the key is unknown
 * (err names the nearest known one) or its value is malformed (err names the
 * key, what was expected and what was there); policy is as it was. A time zone
 * is read from disk the first time that it is named. */
enum wp_status wp_scale_policy_set(struct wp_scale_policy *policy,
                                   struct wp_str key, struct wp_str value,
                                   struct wp_err *err);
/* As if the key had never been set. INVALID_ARGUMENT: it is unknown. */
enum wp_status wp_scale_policy_clear(struct wp_scale_policy *policy,
                                     struct wp_str key, struct wp_err *err);
/* After the last key: do they agree with each other? INVALID_ARGUMENT: max
 * below min, keys without an objective, "cost" without miss-cost or the other
 * way round, a floor above max, a time zone without a schedule. */
enum wp_status wp_scale_policy_check(const struct wp_scale_policy *policy,
                                     struct wp_err *err);
/* The value of a key as wp_scale_policy_set would take it, for people, tests
 * and SetPool's answer. False: the key is unknown or was not set. cap: at least
 * WP_SCALE_VALUE_MAX for "schedule", 128 for all others. */
WP_MUST_CHECK bool wp_scale_policy_get(const struct wp_scale_policy *policy,
                                       struct wp_str key, char *out,
                                       size_t cap);
/* The same keys with the same meaning. */
bool wp_scale_policy_eq(const struct wp_scale_policy *a,
                        const struct wp_scale_policy *b);
/* The keys in the order of the manual; NULL after the last. */
const char *wp_scale_policy_key(unsigned i);

/* The highest floor that holds at wall_ns, and when that changes next (wall;
 * WP_TIME_NEVER: never). Cheap enough for each decision: floors remember. */
uint32_t wp_scale_policy_floor(struct wp_scale_policy *policy, int64_t wall_ns,
                               int64_t *changes_at_ns);

#endif
