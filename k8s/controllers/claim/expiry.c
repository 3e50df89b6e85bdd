#include "k8s/controllers/claim/expiry.h"

#include <string.h>

int64_t
wp_claim_expires_wall_ms(const struct wp_claim_view *claim)
{
    int64_t at = INT64_MAX;

    if (!claim->has_lifecycle) {
        return INT64_MAX;
    }
    if (claim->shutdown_wall_ms != 0) {
        at = claim->shutdown_wall_ms;
    }
    if (claim->ttl_after_finished_s >= 0 &&
        claim->finished.status == WP_CONDITION_TRUE &&
        claim->finished.transition_wall_ms > 0) {
        /* At most INT32_MAX by the schema; what is more never comes. */
        int64_t ttl_ms = claim->ttl_after_finished_s < INT64_MAX / 2000
                             ? claim->ttl_after_finished_s * 1000
                             : INT64_MAX / 2;
        int64_t end = claim->finished.transition_wall_ms < INT64_MAX / 2
                          ? claim->finished.transition_wall_ms + ttl_ms
                          : INT64_MAX;

        at = end < at ? end : at;
    }
    return at;
}

bool
wp_claim_says_expired(const struct wp_claim_view *claim)
{
    return strcmp(claim->ready.reason, WP_REASON_CLAIM_EXPIRED) == 0;
}
