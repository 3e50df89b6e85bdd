/* ListTenants. */
#include "proto/wire/wire.h"

#include "proto/wire/check.h"
#include "proto/wire/decode.h"
#include "proto/wire/encode.h"
#include "proto/wire/parts.h"

/* --- ListTenantsRequest --- */

enum wp_status
wp_wire_unpack_list_tenants_request(struct wp_arena *arena,
                                    const uint8_t *bytes, size_t len,
                                    struct wp_wire_list_tenants_request *out,
                                    struct wp_err *err)
{
    const Warmpool__V1__ListTenantsRequest *pb =
        wp_wire_decode(arena, &warmpool__v1__list_tenants_request__descriptor,
                       bytes, len, err);
    enum wp_status status;

    if (pb == NULL) {
        return WP_INVALID_ARGUMENT;
    }
    out->tenant = wp_str_from(pb->tenant);
    out->page_token = wp_str_from(pb->page_token);
    status = wp_wire_pool_in_optional(pb->pool, &out->pool, err);
    if (status == WP_OK) {
        status =
            wp_wire_check_text("tenant", out->tenant, 0, WP_TENANT_MAX, err);
    }
    if (status == WP_OK) {
        status = wp_wire_check_text("page_token", out->page_token, 0,
                                    WP_WIRE_PAGE_TOKEN_MAX, err);
    }
    return status;
}

struct list_tenants_request {
    Warmpool__V1__ListTenantsRequest request;
    Warmpool__V1__PoolRef pool;
};

static void
fill_list_tenants_request(const struct wp_wire_list_tenants_request *in,
                          struct list_tenants_request *pb)
{
    warmpool__v1__list_tenants_request__init(&pb->request);
    wp_wire_pool_out(&in->pool, &pb->pool);
    pb->request.pool = &pb->pool;
    pb->request.tenant = wp_wire_borrow_str(in->tenant);
    pb->request.page_token = wp_wire_borrow_str(in->page_token);
}

WP_WIRE_DEFINE_PACK(list_tenants_request, wp_wire_list_tenants_request,
                    struct list_tenants_request, fill_list_tenants_request)

/* --- TenantUse --- */

static uint32_t
bound_in(uint32_t bound)
{
    return bound != 0 ? bound : WP_QUOTA_NONE;
}

static uint32_t
bound_out(uint32_t bound)
{
    return bound != WP_QUOTA_NONE ? bound : 0;
}

static enum wp_status
tenant_in(const Warmpool__V1__TenantUse *pb, struct wp_tenant_stats *out,
          struct wp_err *err)
{
    enum wp_status status;

    *out = (struct wp_tenant_stats){
        .quota = {bound_in(pb->leases_max), bound_in(pb->waiting_max),
                  bound_in(pb->claims_per_minute_max)},
        .leases = pb->leases,
        .waiting = pb->waiting,
        .claims_total = pb->claims_total,
        .refused_total = pb->refused_total,
        .active = pb->active,
    };
    status = wp_wire_pool_copy(pb->pool, out->pool_namespace, out->pool, err);
    return status == WP_OK
               ? wp_wire_copy_text("tenant", pb->tenant, out->tenant,
                                   sizeof out->tenant, err)
               : status;
}

struct tenant_use {
    Warmpool__V1__TenantUse use;
    Warmpool__V1__PoolRef pool;
};

static void
fill_tenant(const struct wp_tenant_stats *in, struct tenant_use *pb)
{
    warmpool__v1__pool_ref__init(&pb->pool);
    pb->pool.namespace_ = wp_wire_borrow(in->pool_namespace);
    pb->pool.name = wp_wire_borrow(in->pool);
    warmpool__v1__tenant_use__init(&pb->use);
    pb->use.pool = &pb->pool;
    pb->use.tenant = wp_wire_borrow(in->tenant);
    pb->use.leases = in->leases;
    pb->use.waiting = in->waiting;
    pb->use.leases_max = bound_out(in->quota.leases_max);
    pb->use.waiting_max = bound_out(in->quota.waiters_max);
    pb->use.claims_per_minute_max = bound_out(in->quota.claims_per_minute);
    pb->use.claims_total = in->claims_total;
    pb->use.refused_total = in->refused_total;
    pb->use.active = in->active;
}

/* --- ListTenantsResponse --- */

enum wp_status
wp_wire_unpack_list_tenants_response(struct wp_arena *arena,
                                     const uint8_t *bytes, size_t len,
                                     struct wp_wire_list_tenants_response *out,
                                     struct wp_err *err)
{
    const Warmpool__V1__ListTenantsResponse *pb =
        wp_wire_decode(arena, &warmpool__v1__list_tenants_response__descriptor,
                       bytes, len, err);
    struct wp_tenant_stats *tenants;
    enum wp_status status;

    if (pb == NULL) {
        return WP_INVALID_ARGUMENT;
    }
    tenants = wp_wire_list_in("tenants", pb->n_tenants, WP_WIRE_TENANTS_MAX,
                              sizeof *tenants, arena, err);
    status = tenants != NULL ? WP_OK : WP_INVALID_ARGUMENT;
    for (size_t i = 0; status == WP_OK && i < pb->n_tenants; i++) {
        status = tenant_in(pb->tenants[i], &tenants[i], err);
    }
    out->tenants = tenants;
    out->n_tenants = (uint32_t)pb->n_tenants;
    out->next_page_token = wp_str_from(pb->next_page_token);
    return status == WP_OK
               ? wp_wire_check_text("next_page_token", out->next_page_token, 0,
                                    WP_WIRE_PAGE_TOKEN_MAX, err)
               : status;
}

static void
fill_rest(const struct wp_wire_list_tenants_response *in,
          Warmpool__V1__ListTenantsResponse *pb)
{
    warmpool__v1__list_tenants_response__init(pb);
    pb->next_page_token = wp_wire_borrow_str(in->next_page_token);
}

WP_WIRE_DEFINE_PACK_LIST(list_tenants_response, wp_wire_list_tenants_response,
                         tenants, struct tenant_use, fill_tenant,
                         Warmpool__V1__ListTenantsResponse, fill_rest)
