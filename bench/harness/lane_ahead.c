/* A lane's claims ahead of need: taken from a stock of libwarmpool, without a
 * call. What the stock has not is claimed as ever. */
#include "bench/harness/lane_parts.h"

#include <stdio.h>

#include "allocator/client/warmpool.h"
#include "bench/load/claim_codec.h"
#include "pool/base/clock.h"

bool
wp_lane_open_stock(struct wp_lane *lane, struct wp_err *err)
{
    const struct wp_plan *plan = lane->plan;
    const struct warmpool_options options = {
        .address = lane->config.target,
        .tls_ca = plan->tls_ca,
        .tls_cert = plan->tls_cert,
        .tls_key = plan->tls_key,
        .tls_name = plan->tls_name,
        .access_token_file = plan->access_token_file,
        .tenant = plan->tenant,
    };
    char pool[sizeof plan->pool_namespace + sizeof plan->pool + 1];
    const struct warmpool_stock_options wanted = {
        .pool = pool,
        .ahead = plan->ahead,
        .ttl_ms = plan->ttl_ns / WP_NS_PER_MS,
    };
    struct warmpool_error error;

    if (plan->ahead == 0) {
        return true;
    }
    (void)snprintf(pool, sizeof pool, "%s%s%s", plan->pool_namespace,
                   plan->pool_namespace[0] != '\0' ? "/" : "", plan->pool);
    lane->client = warmpool_connect(&options, &error);
    if (lane->client != NULL) {
        lane->stock = warmpool_stock_open(lane->client, &wanted, &error);
    }
    if (lane->stock == NULL) {
        (void)wp_err_set(err, WP_UNAVAILABLE, "leases ahead: %s",
                         error.message);
    }
    return lane->stock != NULL;
}

void
wp_lane_close_stock(struct wp_lane *lane)
{
    warmpool_stock_close(lane->stock);
    warmpool_disconnect(lane->client);
    lane->stock = NULL;
    lane->client = NULL;
}

bool
wp_lane_take_ahead(struct wp_lane *lane, struct wp_codec_lease *out,
                   struct warmpool_lease *lease)
{
    if (lane->stock == NULL || !warmpool_stock_take(lane->stock, lease)) {
        return false;
    }
    *out = (struct wp_codec_lease){
        .claim_id = wp_str_from(lease->claim_id),
        .sandbox = wp_str_from(lease->sandbox),
        .token = {(const char *)lease->token, sizeof lease->token},
        .fence = lease->fence,
        .served = 1, /* It was ready when it was granted. */
    };
    return true;
}
