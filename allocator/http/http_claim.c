#include "allocator/http/http_claim.h"

#include <stdio.h>
#include <string.h>

#include "pool/base/clock.h"

static bool
is_of_template(const struct wp_pool_stats *pool, const char *ns,
               const char *template_name)
{
    return !pool->removed && !pool->gone &&
           strcmp(pool->spec.pool_namespace, ns) == 0 &&
           strcmp(pool->spec.template_name, template_name) == 0;
}

bool
wp_http_pool_of(struct wp_pools *pools, const char *ns,
                const char *template_name, char pool[WP_POOL_NAME_MAX + 1])
{
    uint32_t count = wp_pools_count(pools);
    struct wp_pool_stats stats;
    bool found = false;

    for (uint32_t i = 0; i < count; i++) {
        wp_pools_stats(pools, i, &stats);
        if (is_of_template(&stats, ns, template_name) &&
            (!found || stats.ready > 0)) {
            found = wp_str_copy(wp_str_from(stats.spec.name), pool,
                                WP_POOL_NAME_MAX + 1);
            if (stats.ready > 0) {
                break;
            }
        }
    }
    return found;
}

static int
http_status_of(enum wp_status status)
{
    static const struct {
        enum wp_status status;
        int http;
    } table[] = {
        {WP_ALREADY_EXISTS, 409},     {WP_PERMISSION_DENIED, 403},
        {WP_RESOURCE_EXHAUSTED, 429}, {WP_ABORTED, 503},
        {WP_UNAVAILABLE, 503},        {WP_UNKNOWN_OUTCOME, 503},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(table); i++) {
        if (table[i].status == status) {
            return table[i].http;
        }
    }
    return 500;
}

void
wp_http_refuse_claim(struct wp_http_req *req, enum wp_status status,
                     const char *what, const char *reason,
                     int64_t retry_after_ns)
{
    int64_t whole = (retry_after_ns - 1) / WP_NS_PER_S + 1;
    char seconds[24];

    if (retry_after_ns > 0) {
        (void)snprintf(seconds, sizeof seconds, "%lld", (long long)whole);
        wp_http_add_header(req, "Retry-After", seconds);
    }
    wp_http_reply_error(req, http_status_of(status), "%s: %s", what,
                        reason != NULL ? reason : wp_status_text(status));
}
