/* local/manifest/pool.c - SandboxWarmPool to struct wp_pool_spec. */
#include <string.h>

#include "local/manifest/manifest_impl.h"
#include "pool/base/duration.h"

#define GROUP "pool.warmpool.io/"

static bool
use_replicas(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_pool_spec *pool = out;
    int64_t value;

    if (!wp_decode_int(d, node, 0, WP_TARGET_MAX, &value)) {
        return false;
    }
    pool->target = (uint32_t)value;
    return true;
}

static bool
use_template_name(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_pool_spec *pool = out;

    if (!wp_decode_is(d, node, WP_YAML_STRING)) {
        return false;
    }
    if (!wp_str_is_dns_name(node->text, WP_TEMPLATE_NAME_MAX) ||
        !wp_str_copy(node->text, pool->template_name,
                     sizeof pool->template_name)) {
        return wp_decode_fail(
            d, node, "a DNS name of at most %d characters was expected",
            (int)WP_TEMPLATE_NAME_MAX);
    }
    return true;
}

static bool
use_template_ref(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const struct wp_field fields[] = {
        WP_REQUIRED("name", use_template_name),
    };

    return WP_DECODE_MAP(d, node, fields, out);
}

static bool
use_update_type(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const char *const words[] = {"OnReplenish", "Recreate", NULL};
    size_t index;

    (void)out;
    /* Templates are read once, at start: there is nothing to update. */
    return wp_decode_word(d, node, words, &index) &&
           (index == 0 ||
            wp_decode_note(d, node, "not enforced on one machine"));
}

static bool
use_update_strategy(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const struct wp_field fields[] = {
        WP_USED("type", use_update_type),
    };

    return WP_DECODE_MAP(d, node, fields, out);
}

/* --- Annotations: their values are strings, as Kubernetes has them. --- */

static bool
annotation_count(struct wp_decode *d, const struct wp_yaml *node, uint64_t min,
                 uint64_t max, uint32_t *out)
{
    uint64_t value;

    if (!wp_decode_is(d, node, WP_YAML_STRING)) {
        return false;
    }
    if (!wp_str_to_u64(node->text, &value) || value < min || value > max) {
        return wp_decode_fail(d, node,
                              "a whole number from %llu to %llu was expected",
                              (unsigned long long)min, (unsigned long long)max);
    }
    *out = (uint32_t)value;
    return true;
}

static bool
annotation_time(struct wp_decode *d, const struct wp_yaml *node, int64_t min_ns,
                int64_t max_ns, int64_t *out)
{
    if (!wp_decode_is(d, node, WP_YAML_STRING)) {
        return false;
    }
    if (!wp_duration_parse(node->text, out)) {
        return wp_decode_fail(d, node,
                              "a duration such as 500ms, 30s, 5m, 2h or 7d was"
                              " expected, not '%.40s'",
                              node->text.ptr);
    }
    if (*out < min_ns || *out > max_ns) {
        return wp_decode_fail(d, node,
                              "a duration from %lldms to %llds was expected",
                              (long long)(min_ns / WP_NS_PER_MS),
                              (long long)(max_ns / WP_NS_PER_S));
    }
    return true;
}

static bool
use_cold_start(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const char *const words[] = {"never", "allowed", NULL};
    struct wp_pool_spec *pool = out;
    size_t index;

    if (!wp_decode_word(d, node, words, &index)) {
        return false;
    }
    pool->cold_start = index == 0 ? WP_COLD_NEVER : WP_COLD_ALLOWED;
    return true;
}

static bool
use_ttl_default(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_pool_spec *pool = out;

    return annotation_time(d, node, WP_TTL_MIN_NS, WP_TTL_MAX_NS,
                           &pool->ttl_default_ns);
}

static bool
use_ttl_max(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_pool_spec *pool = out;

    return annotation_time(d, node, WP_TTL_MIN_NS, WP_TTL_MAX_NS,
                           &pool->ttl_max_ns);
}

static bool
use_wait_max(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_pool_spec *pool = out;

    return annotation_time(d, node, 0, WP_WAIT_MAX_NS, &pool->wait_max_ns);
}

static bool
use_ready_within(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_pool_spec *pool = out;

    return annotation_time(d, node, 10 * WP_NS_PER_MS, 3600 * WP_NS_PER_S,
                           &pool->ready_within_ns);
}

static bool
use_waiters_max(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_pool_spec *pool = out;

    return annotation_count(d, node, 0, WP_SLOTS_MAX, &pool->waiters_max);
}

static bool
use_tenant_waiters_max(struct wp_decode *d, const struct wp_yaml *node,
                       void *out)
{
    struct wp_pool_spec *pool = out;

    return annotation_count(d, node, 0, WP_SLOTS_MAX,
                            &pool->tenant_waiters_max);
}

static bool
use_create_inflight_max(struct wp_decode *d, const struct wp_yaml *node,
                        void *out)
{
    struct wp_pool_spec *pool = out;

    return annotation_count(d, node, 1, WP_SLOTS_MAX,
                            &pool->create_inflight_max);
}

static const struct wp_field annotation_fields[] = {
    WP_USED(GROUP "cold-start", use_cold_start),
    WP_USED(GROUP "ttl-default", use_ttl_default),
    WP_USED(GROUP "ttl-max", use_ttl_max),
    WP_USED(GROUP "wait-max", use_wait_max),
    WP_USED(GROUP "waiters-max", use_waiters_max),
    WP_USED(GROUP "tenant-waiters-max", use_tenant_waiters_max),
    WP_USED(GROUP "create-inflight-max", use_create_inflight_max),
    WP_USED(GROUP "ready-within", use_ready_within),
};

/* One of WP_SCALE_GROUP. */
static bool
use_policy(struct wp_decode *d, const struct wp_yaml *node,
           struct wp_pool_spec *pool)
{
    const size_t group_len = sizeof WP_SCALE_GROUP - 1;
    struct wp_str key = {node->key.ptr + group_len, node->key.len - group_len};
    struct wp_err err;

    if (!wp_decode_is(d, node, WP_YAML_STRING)) {
        return false;
    }
    return wp_scale_policy_set(&pool->scale, key, node->text, &err) == WP_OK ||
           wp_decode_fail(d, node, WP_SCALE_GROUP "%s", err.msg);
}

/* Ours go by tables, with unknown ones refused; others are not our business. */
static bool
read_annotations(struct wp_decode *d, const struct wp_yaml *annotations,
                 struct wp_pool_spec *pool)
{
    struct wp_yaml ours = *annotations;
    struct wp_err err;
    size_t metadata = wp_decode_enter(d, WP_STR("metadata"));
    size_t mark = wp_decode_enter(d, WP_STR("annotations"));

    for (const struct wp_yaml *node = annotations->first; node != NULL;
         node = node->next) {
        struct wp_yaml one = *node;

        if (wp_str_starts_with(node->key, WP_STR(WP_SCALE_GROUP))) {
            if (!use_policy(d, node, pool)) {
                return false;
            }
            continue;
        }
        if (!wp_str_starts_with(node->key, WP_STR(GROUP))) {
            continue;
        }
        one.next = NULL;
        ours.first = &one;
        if (!WP_DECODE_MAP(d, &ours, annotation_fields, pool)) {
            return false;
        }
    }
    if (wp_scale_policy_check(&pool->scale, &err) != WP_OK) {
        return wp_decode_fail(d, annotations, WP_SCALE_GROUP "%s", err.msg);
    }
    wp_decode_leave(d, mark);
    wp_decode_leave(d, metadata);
    return true;
}

bool
wp_manifest_pool(struct wp_decode *d, const struct wp_yaml *spec,
                 const struct wp_object_meta *meta, struct wp_pool_spec *pool)
{
    static const struct wp_field fields[] = {
        WP_USED("replicas", use_replicas),
        WP_REQUIRED("sandboxTemplateRef", use_template_ref),
        WP_USED("updateStrategy", use_update_strategy),
    };
    size_t mark = wp_decode_enter(d, WP_STR("spec"));

    pool->target = 1;
    if (!WP_DECODE_MAP(d, spec, fields, pool)) {
        return false;
    }
    wp_decode_leave(d, mark);
    if (meta->annotations != NULL &&
        !read_annotations(d, meta->annotations, pool)) {
        return false;
    }
    if (pool->ttl_default_ns > pool->ttl_max_ns) {
        return wp_decode_fail(d, spec,
                              "annotation " GROUP
                              "ttl-default is longer than the"
                              " longest lease, " GROUP "ttl-max");
    }
    if (pool->tenant_waiters_max > pool->waiters_max) {
        /* One tenant alone may then fill the queue; nothing contradicts. */
        pool->tenant_waiters_max = pool->waiters_max;
    }
    return true;
}
