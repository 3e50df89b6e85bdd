#include "proto/wire/lease.h"

#include "proto/wire/check.h"
#include "proto/wire/parts.h"
#include "proto/wire/write.h"

static uint64_t
waited_us(const struct wp_grant *grant)
{
    return grant->waited_ns > 0 ? (uint64_t)(grant->waited_ns / WP_NS_PER_US)
                                : 0;
}

void
wp_wire_lease_measure(struct wp_str claim_id, const struct wp_grant *grant,
                      struct wp_wire_lease_sizes *sizes)
{
    sizes->pool_namespace = strlen(grant->pool_namespace);
    sizes->pool_name = strlen(grant->pool);
    sizes->sandbox = strlen(grant->sandbox);
    sizes->endpoint = strlen(grant->endpoint);
    sizes->pool = wp_wire_bytes_size(sizes->pool_namespace) +
                  wp_wire_bytes_size(sizes->pool_name);
    sizes->lease = wp_wire_bytes_size(claim_id.len) +
                   wp_wire_message_size(sizes->pool) +
                   wp_wire_bytes_size(sizes->sandbox) +
                   wp_wire_bytes_size(sizes->endpoint) +
                   wp_wire_bytes_size(sizeof grant->token) +
                   wp_wire_int_size(grant->fence) +
                   wp_wire_int_size((uint64_t)grant->deadline_wall_ms) +
                   wp_wire_int_size((uint64_t)grant->served) +
                   wp_wire_int_size(waited_us(grant));
}

uint8_t *
wp_wire_lease_put(struct wp_str claim_id, const struct wp_grant *grant,
                  const struct wp_wire_lease_sizes *sizes, uint8_t *pos)
{
    pos = wp_wire_put_bytes(pos, 1, claim_id.ptr, claim_id.len);
    pos = wp_wire_put_head(pos, 2, sizes->pool);
    pos =
        wp_wire_put_bytes(pos, 1, grant->pool_namespace, sizes->pool_namespace);
    pos = wp_wire_put_bytes(pos, 2, grant->pool, sizes->pool_name);
    pos = wp_wire_put_bytes(pos, 3, grant->sandbox, sizes->sandbox);
    pos = wp_wire_put_bytes(pos, 4, grant->endpoint, sizes->endpoint);
    pos = wp_wire_put_bytes(pos, 5, grant->token, sizeof grant->token);
    pos = wp_wire_put_int(pos, 6, grant->fence);
    pos = wp_wire_put_int(pos, 7, (uint64_t)grant->deadline_wall_ms);
    pos = wp_wire_put_int(pos, 8, (uint64_t)grant->served);
    return wp_wire_put_int(pos, 9, waited_us(grant));
}

enum wp_status
wp_wire_lease_in(struct wp_arena *arena, const Warmpool__V1__Lease *pb,
                 struct wp_str *claim_id, const struct wp_grant **grant,
                 struct wp_err *err)
{
    struct wp_grant *out = wp_arena_alloc(arena, sizeof *out);
    const uint64_t waited_us_max = INT64_MAX / WP_NS_PER_US;
    enum wp_status status;

    if (out == NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "lease: a shorter message expected");
    }
    *out = (struct wp_grant){0};
    *claim_id = wp_str_from(pb->claim_id);
    status = wp_wire_check_text("lease.claim_id", *claim_id, 0, WP_CLAIM_ID_MAX,
                                err);
    if (status == WP_OK) {
        status =
            wp_wire_pool_copy(pb->pool, out->pool_namespace, out->pool, err);
    }
    if (status == WP_OK) {
        status = wp_wire_copy_text("lease.sandbox", pb->sandbox, out->sandbox,
                                   sizeof out->sandbox, err);
    }
    if (status == WP_OK) {
        status = wp_wire_copy_text("lease.endpoint", pb->endpoint,
                                   out->endpoint, sizeof out->endpoint, err);
    }
    if (status == WP_OK) {
        status =
            wp_wire_check_token(pb->token.data, pb->token.len, out->token, err);
    }
    out->fence = pb->fence;
    out->deadline_wall_ms = pb->deadline_unix_ms;
    out->served = wp_wire_served_in(pb->served);
    out->waited_ns = pb->waited_us > waited_us_max
                         ? INT64_MAX
                         : (int64_t)pb->waited_us * WP_NS_PER_US;
    *grant = out;
    return status;
}
