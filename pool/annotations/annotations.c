#include "pool/annotations/annotations.h"

#include <stddef.h>
#include <string.h>

#include "pool/base/duration.h"
#include "pool/base/nearest.h"
#include "pool/egress/policy.h"

enum row_type {
    TIME,   /* int64_t, ns */
    COUNT,  /* uint32_t */
    COLD,   /* enum wp_cold_start, and that it was said */
    YES,    /* bool */
    EGRESS, /* char[WP_EGRESS_TEXT_MAX + 1] */
};

struct row {
    const char *key; /* With the group. */
    enum row_type type;
    size_t offset; /* Of the field in struct wp_pool_spec. */
    int64_t min;
    int64_t max;
};

#define ROW(key, type, field, min, max)                                        \
    {                                                                          \
        WP_POOL_ANNOTATIONS key, type, offsetof(struct wp_pool_spec, field),   \
            min, max                                                           \
    }

static const struct row rows[] = {
    ROW("cold-start", COLD, cold_start, 0, 0),
    ROW("ttl-default", TIME, ttl_default_ns, WP_TTL_MIN_NS, WP_TTL_MAX_NS),
    ROW("ttl-max", TIME, ttl_max_ns, WP_TTL_MIN_NS, WP_TTL_MAX_NS),
    ROW("hold-max", TIME, hold_max_ns, WP_TTL_MIN_NS, WP_TTL_MAX_NS),
    ROW("freeze-after", TIME, freeze_after_ns, WP_FREEZE_AFTER_MIN_NS,
        WP_TTL_MAX_NS),
    ROW("wait-max", TIME, wait_max_ns, 0, WP_WAIT_MAX_NS),
    ROW("waiters-max", COUNT, waiters_max, 0, WP_SLOTS_MAX),
    ROW("tenant-waiters-max", COUNT, tenant_waiters_max, 0, WP_SLOTS_MAX),
    ROW("tenant-leases-max", COUNT, tenant_leases_max, 0, WP_SLOTS_MAX),
    ROW("tenant-claims-per-minute", COUNT, tenant_claims_per_minute, 0,
        WP_CLAIM_RATE_MAX),
    ROW("fair-share", YES, fair_share, 0, 0),
    ROW("create-inflight-max", COUNT, create_inflight_max, 1, WP_SLOTS_MAX),
    ROW("ready-within", TIME, ready_within_ns, 10 * WP_NS_PER_MS,
        3600 * WP_NS_PER_S),
    ROW("bind-env", YES, bind_env, 0, 0),
    ROW("egress", EGRESS, egress, 0, 0),
};

/* So many letters of a group may be wrong; more where it names warmpool. */
enum {
    TYPOS_MAX = 2,
};

/* The group that key most likely means, without being of it; NULL: none. */
static const char *
misspelt_group(struct wp_str key)
{
    static const char name[] = "warmpool";
    const char *slash = memchr(key.ptr, '/', key.len);
    struct wp_str group = {key.ptr,
                           slash != NULL ? (size_t)(slash - key.ptr) + 1 : 0};
    struct wp_nearest nearest;

    wp_nearest_init(&nearest, group);
    wp_nearest_offer(&nearest, WP_POOL_ANNOTATIONS);
    wp_nearest_offer(&nearest, WP_SCALE_GROUP);
    if (nearest.best == NULL || nearest.distance == 0 ||
        (nearest.distance > TYPOS_MAX &&
         memmem(group.ptr, group.len, name, sizeof name - 1) == NULL)) {
        return NULL;
    }
    return nearest.best;
}

bool
wp_pool_annotation_is_ours(struct wp_str key)
{
    return wp_str_starts_with(key, WP_STR(WP_POOL_ANNOTATIONS)) ||
           wp_str_starts_with(key, WP_STR(WP_SCALE_GROUP)) ||
           misspelt_group(key) != NULL;
}

static enum wp_status
set_time(const struct row *row, struct wp_str value, int64_t *out,
         struct wp_err *err)
{
    char shown[WP_STR_SHOWN_MAX];
    int64_t ns;

    if (!wp_duration_parse(value, &ns)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s: a duration such as 500ms, 30s, 5m, 2h or 7d was "
                          "expected, not '%s'",
                          row->key, wp_str_shown(value, shown));
    }
    if (ns < row->min || ns > row->max) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s: a duration from %lldms to %llds was expected, "
                          "not '%s'",
                          row->key, (long long)(row->min / WP_NS_PER_MS),
                          (long long)(row->max / WP_NS_PER_S),
                          wp_str_shown(value, shown));
    }
    *out = ns;
    return WP_OK;
}

static enum wp_status
set_count(const struct row *row, struct wp_str value, uint32_t *out,
          struct wp_err *err)
{
    char shown[WP_STR_SHOWN_MAX];
    uint64_t count;

    if (!wp_str_to_u64(value, &count) || count < (uint64_t)row->min ||
        count > (uint64_t)row->max) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s: a whole number from %lld to %lld was expected, "
                          "not '%s'",
                          row->key, (long long)row->min, (long long)row->max,
                          wp_str_shown(value, shown));
    }
    *out = (uint32_t)count;
    return WP_OK;
}

static enum wp_status
set_yes(const struct row *row, struct wp_str value, bool *out,
        struct wp_err *err)
{
    char shown[WP_STR_SHOWN_MAX];

    if (!wp_str_is(value, "true") && !wp_str_is(value, "false")) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s: one of true, false was expected, not '%s'",
                          row->key, wp_str_shown(value, shown));
    }
    *out = wp_str_is(value, "true");
    return WP_OK;
}

static enum wp_status
set_cold(const struct row *row, struct wp_str value, struct wp_pool_spec *spec,
         struct wp_err *err)
{
    char shown[WP_STR_SHOWN_MAX];

    if (!wp_str_is(value, "never") && !wp_str_is(value, "allowed")) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s: one of never, allowed was expected, not '%s'",
                          row->key, wp_str_shown(value, shown));
    }
    spec->cold_start =
        wp_str_is(value, "never") ? WP_COLD_NEVER : WP_COLD_ALLOWED;
    spec->cold_start_said = true;
    return WP_OK;
}

/* "none" is kept as "", which is what a pool without the annotation has. */
static enum wp_status
set_egress(const struct row *row, struct wp_str value, char *out,
           struct wp_err *err)
{
    struct wp_egress_policy policy;

    if (wp_egress_policy_parse(value, (struct wp_str){NULL, 0}, &policy, err) !=
        WP_OK) {
        return wp_err_wrap(err, "%s", row->key);
    }
    if (policy.mode == WP_EGRESS_NONE) {
        value.len = 0;
    }
    return wp_str_copy(value, out, WP_EGRESS_TEXT_MAX + 1)
               ? WP_OK
               : wp_err_set(err, WP_INVALID_ARGUMENT,
                            "%s: text without NUL was expected", row->key);
}

static enum wp_status
unknown_key(struct wp_str key, struct wp_err *err)
{
    const size_t group_len = sizeof WP_POOL_ANNOTATIONS - 1;
    char shown[WP_STR_SHOWN_MAX];
    struct wp_nearest nearest;

    wp_nearest_init(&nearest,
                    (struct wp_str){key.ptr + group_len, key.len - group_len});
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        wp_nearest_offer(&nearest, rows[i].key + group_len);
    }
    return wp_err_set(
        err, WP_INVALID_ARGUMENT, "%s: unknown annotation; %s%s%s",
        wp_str_shown(key, shown),
        nearest.best != NULL ? "did you mean " WP_POOL_ANNOTATIONS : "",
        nearest.best != NULL ? nearest.best : "warmpoold(8) lists them",
        nearest.best != NULL ? "?" : "");
}

enum wp_status
wp_pool_annotation_set(struct wp_pool_spec *spec, struct wp_str key,
                       struct wp_str value, struct wp_err *err)
{
    const size_t scale_len = sizeof WP_SCALE_GROUP - 1;
    const char *meant = misspelt_group(key);
    char shown[WP_STR_SHOWN_MAX];

    if (meant != NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s: unknown group of annotations; did you mean %s?",
                          wp_str_shown(key, shown), meant);
    }
    if (wp_str_starts_with(key, WP_STR(WP_SCALE_GROUP))) {
        struct wp_str name = {key.ptr + scale_len, key.len - scale_len};

        return wp_scale_policy_set(&spec->scale, name, value, err) == WP_OK
                   ? WP_OK
                   : wp_err_wrap(err, "annotations of %s", WP_SCALE_GROUP);
    }
    if (!wp_pool_annotation_is_ours(key)) {
        return WP_OK;
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        void *field = (char *)spec + rows[i].offset;

        if (!wp_str_is(key, rows[i].key)) {
            continue;
        }
        switch (rows[i].type) {
        case TIME:
            return set_time(&rows[i], value, field, err);
        case COUNT:
            return set_count(&rows[i], value, field, err);
        case YES:
            return set_yes(&rows[i], value, field, err);
        case EGRESS:
            return set_egress(&rows[i], value, field, err);
        case COLD:
        default:
            return set_cold(&rows[i], value, spec, err);
        }
    }
    return unknown_key(key, err);
}

enum wp_status
wp_pool_annotations_check(struct wp_pool_spec *spec, struct wp_err *err)
{
    if (spec->ttl_default_ns > spec->ttl_max_ns) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          WP_POOL_ANNOTATIONS
                          "ttl-default: at most the longest lease, "
                          "which is %lld s (" WP_POOL_ANNOTATIONS
                          "ttl-max), was expected, not %lld s",
                          (long long)(spec->ttl_max_ns / WP_NS_PER_S),
                          (long long)(spec->ttl_default_ns / WP_NS_PER_S));
    }
    if (spec->tenant_waiters_max > spec->waiters_max) {
        /* One tenant alone may then fill the queue; nothing contradicts. */
        spec->tenant_waiters_max = spec->waiters_max;
    }
    return wp_scale_policy_check(&spec->scale, err) == WP_OK
               ? WP_OK
               : wp_err_wrap(err, "annotations of %s", WP_SCALE_GROUP);
}

void
wp_pool_annotations_keep(struct wp_pool_spec *spec,
                         const struct wp_pool_spec *held)
{
    struct wp_pool_spec kept = *held;

    memcpy(kept.pool_namespace, spec->pool_namespace,
           sizeof kept.pool_namespace);
    memcpy(kept.name, spec->name, sizeof kept.name);
    memcpy(kept.template_name, spec->template_name, sizeof kept.template_name);
    kept.target = spec->target;
    *spec = kept;
}
