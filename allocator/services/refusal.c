/* Why a claim got nothing, with the names and numbers that its caller needs to
 * do better. The pool answers with a sentence in static storage, since it may
 * not allocate; what is known of the request is added here, off the way of
 * claims that are served. */
#include <string.h>

#include "allocator/services/services_private.h"

static const char *
fails(struct wp_services *services, const struct wp_claim *claim,
      struct wp_err *err)
{
    struct wp_pools *pools = services->config.pools;
    uint32_t index = wp_pools_index(pools, claim->pool_namespace, claim->pool);
    char why[WP_REASON_MAX + 1];

    if (index == UINT32_MAX || !wp_pools_fails(pools, index, why)) {
        return claim->reason;
    }
    (void)wp_err_set(err, claim->status,
                     "%s: the sandboxes of pool '%.*s' fail to start%s%s",
                     claim->reason, WP_STR_ARG(claim->pool),
                     why[0] != '\0' ? ", the latest one: " : "", why);
    return err->msg;
}

static const char *
over_quota(const struct wp_claim *claim, struct wp_err *err)
{
    static const struct {
        const char *what;
        const char *cure;
    } rows[] = {
        [WP_QUOTA_LEASES] = {"claims held or waiting", "release some"},
        [WP_QUOTA_WAITING] = {"claims waiting", "try again later"},
        [WP_QUOTA_RATE] = {"new claims a minute", "claim less often"},
    };

    (void)wp_err_set(err, claim->status,
                     "tenant: '%.*s' may have %u %s in pool '%.*s', which is "
                     "its quota; %s, or have the quota raised",
                     WP_STR_ARG(claim->tenant), claim->quota_max,
                     rows[claim->quota].what, WP_STR_ARG(claim->pool),
                     rows[claim->quota].cure);
    return err->msg;
}

const char *
wp_service_claim_reason(struct wp_services *services,
                        const struct wp_claim *claim, struct wp_err *err)
{
    if (claim->status == WP_NOT_FOUND) {
        (void)wp_service_no_pool(claim->pool_namespace, claim->pool, err);
        return err->msg;
    }
    if (claim->status == WP_INVALID_ARGUMENT && claim->ttl_max_ns > 0) {
        wp_service_ttl_too_long(claim->ttl_max_ns, err);
        return err->msg;
    }
    if (claim->status == WP_RESOURCE_EXHAUSTED &&
        claim->quota != WP_QUOTA_NOT) {
        return over_quota(claim, err);
    }
    return claim->status == WP_RESOURCE_EXHAUSTED ? fails(services, claim, err)
                                                  : claim->reason;
}

enum wp_status
wp_service_no_pool(struct wp_str pool_namespace, struct wp_str pool,
                   struct wp_err *err)
{
    return wp_err_set(err, WP_NOT_FOUND,
                      "pool: '%.*s' in namespace '%.*s' does not exist",
                      WP_STR_ARG(pool), WP_STR_ARG(pool_namespace));
}

void
wp_service_ttl_too_long(int64_t ttl_max_ns, struct wp_err *err)
{
    (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                     "ttl_ms: at most %lld expected, the longest that this "
                     "pool allows",
                     (long long)(ttl_max_ns / WP_NS_PER_MS));
}

enum wp_status
wp_service_no_claim(struct wp_services *services, struct wp_str tenant,
                    struct wp_str claim_id, struct wp_err *err)
{
    int64_t expired_ms =
        wp_pools_expired_wall_ms(services->config.pools, tenant, claim_id);
    int64_t now_ms = wp_clock_wall_ns(services->config.clock) / WP_NS_PER_MS;

    if (expired_ms == 0) {
        return wp_err_set(err, WP_NOT_FOUND, "claim_id: no such claim is held");
    }
    return wp_err_set(err, WP_NOT_FOUND,
                      "claim_id: EXPIRED: its lease ran out %lld s ago",
                      (long long)((now_ms - expired_ms) / 1000));
}
