/* GetClaim and ListClaims. */
#include "proto/wire/wire.h"

#include "proto/wire/check.h"
#include "proto/wire/decode.h"
#include "proto/wire/encode.h"
#include "proto/wire/parts.h"

/* --- GetClaimRequest --- */

static enum wp_status
get_claim_request_in(const Warmpool__V1__GetClaimRequest *pb,
                     struct wp_wire_get_claim_request *out, struct wp_err *err)
{
    enum wp_status status;

    out->claim_id = wp_str_from(pb->claim_id);
    out->tenant = wp_str_from(pb->tenant);
    status =
        wp_wire_check_text("claim_id", out->claim_id, 1, WP_CLAIM_ID_MAX, err);
    if (status == WP_OK) {
        status =
            wp_wire_check_text("tenant", out->tenant, 0, WP_TENANT_MAX, err);
    }
    return status;
}

WP_WIRE_DEFINE_UNPACK(get_claim_request, wp_wire_get_claim_request,
                      Warmpool__V1__GetClaimRequest,
                      warmpool__v1__get_claim_request, get_claim_request_in)

static void
fill_get_claim_request(const struct wp_wire_get_claim_request *in,
                       Warmpool__V1__GetClaimRequest *pb)
{
    warmpool__v1__get_claim_request__init(pb);
    pb->claim_id = wp_wire_borrow_str(in->claim_id);
    pb->tenant = wp_wire_borrow_str(in->tenant);
}

WP_WIRE_DEFINE_PACK(get_claim_request, wp_wire_get_claim_request,
                    Warmpool__V1__GetClaimRequest, fill_get_claim_request)

/* --- ClaimInfo --- */

static enum wp_status
claim_info_in(const Warmpool__V1__ClaimInfo *pb, struct wp_claim_info *out,
              struct wp_err *err)
{
    const struct {
        const char *field;
        const char *text;
        char *out;
        size_t cap;
    } texts[] = {
        {"claim_id", pb->claim_id, out->claim_id, sizeof out->claim_id},
        {"tenant", pb->tenant, out->tenant, sizeof out->tenant},
        {"sandbox", pb->sandbox, out->sandbox, sizeof out->sandbox},
        {"endpoint", pb->endpoint, out->endpoint, sizeof out->endpoint},
        {"lost_reason", pb->lost_reason, out->lost_reason,
         sizeof out->lost_reason},
    };
    enum wp_status status;

    *out = (struct wp_claim_info){
        .fence = pb->fence,
        .granted_wall_ms = pb->granted_unix_ms,
        .deadline_wall_ms = pb->deadline_unix_ms,
        .served = wp_wire_served_in(pb->served),
        .waiting = pb->state == WARMPOOL__V1__CLAIM_STATE__CLAIM_STATE_WAITING,
        .lost = pb->state == WARMPOOL__V1__CLAIM_STATE__CLAIM_STATE_LOST,
    };
    status = wp_wire_pool_copy(pb->pool, out->pool_namespace, out->pool, err);
    for (size_t i = 0; status == WP_OK && i < WP_ARRAY_LEN(texts); i++) {
        status = wp_wire_copy_text(texts[i].field, texts[i].text, texts[i].out,
                                   texts[i].cap, err);
    }
    return status;
}

WP_WIRE_DEFINE_UNPACK(claim_info, wp_claim_info, Warmpool__V1__ClaimInfo,
                      warmpool__v1__claim_info, claim_info_in)

struct claim_info {
    Warmpool__V1__ClaimInfo info;
    Warmpool__V1__PoolRef pool;
};

static Warmpool__V1__ClaimState
claim_state(const struct wp_claim_info *in)
{
    if (in->waiting) {
        return WARMPOOL__V1__CLAIM_STATE__CLAIM_STATE_WAITING;
    }
    return in->lost ? WARMPOOL__V1__CLAIM_STATE__CLAIM_STATE_LOST
                    : WARMPOOL__V1__CLAIM_STATE__CLAIM_STATE_HELD;
}

static void
fill_claim_info(const struct wp_claim_info *in, struct claim_info *pb)
{
    warmpool__v1__pool_ref__init(&pb->pool);
    pb->pool.namespace_ = wp_wire_borrow(in->pool_namespace);
    pb->pool.name = wp_wire_borrow(in->pool);
    warmpool__v1__claim_info__init(&pb->info);
    pb->info.claim_id = wp_wire_borrow(in->claim_id);
    pb->info.tenant = wp_wire_borrow(in->tenant);
    pb->info.pool = &pb->pool;
    pb->info.state = claim_state(in);
    pb->info.sandbox = wp_wire_borrow(in->sandbox);
    pb->info.endpoint = wp_wire_borrow(in->endpoint);
    pb->info.fence = in->fence;
    pb->info.granted_unix_ms = in->granted_wall_ms;
    pb->info.deadline_unix_ms = in->deadline_wall_ms;
    pb->info.served = wp_wire_served_out(in->served);
    pb->info.lost_reason = wp_wire_borrow(in->lost_reason);
}

WP_WIRE_DEFINE_PACK(claim_info, wp_claim_info, struct claim_info,
                    fill_claim_info)

/* --- ListClaimsRequest --- */

static enum wp_status
list_claims_request_in(const Warmpool__V1__ListClaimsRequest *pb,
                       struct wp_wire_list_claims_request *out,
                       struct wp_err *err)
{
    enum wp_status status;

    out->tenant = wp_str_from(pb->tenant);
    out->page_token = wp_str_from(pb->page_token);
    status =
        wp_wire_check_range("page_size", pb->page_size, 0, WP_PAGE_MAX, err);
    if (status == WP_OK) {
        out->page_size =
            pb->page_size != 0 ? (uint32_t)pb->page_size : WP_WIRE_PAGE_DEFAULT;
        status = wp_wire_pool_in_optional(pb->pool, &out->pool, err);
    }
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

WP_WIRE_DEFINE_UNPACK(list_claims_request, wp_wire_list_claims_request,
                      Warmpool__V1__ListClaimsRequest,
                      warmpool__v1__list_claims_request, list_claims_request_in)

struct list_claims_request {
    Warmpool__V1__ListClaimsRequest request;
    Warmpool__V1__PoolRef pool;
};

static void
fill_list_claims_request(const struct wp_wire_list_claims_request *in,
                         struct list_claims_request *pb)
{
    warmpool__v1__list_claims_request__init(&pb->request);
    wp_wire_pool_out(&in->pool, &pb->pool);
    pb->request.pool = &pb->pool;
    pb->request.tenant = wp_wire_borrow_str(in->tenant);
    pb->request.page_size = (int32_t)in->page_size;
    pb->request.page_token = wp_wire_borrow_str(in->page_token);
}

WP_WIRE_DEFINE_PACK(list_claims_request, wp_wire_list_claims_request,
                    struct list_claims_request, fill_list_claims_request)

/* --- ListClaimsResponse --- */

enum wp_status
wp_wire_unpack_list_claims_response(struct wp_arena *arena,
                                    const uint8_t *bytes, size_t len,
                                    struct wp_wire_list_claims_response *out,
                                    struct wp_err *err)
{
    const Warmpool__V1__ListClaimsResponse *pb =
        wp_wire_decode(arena, &warmpool__v1__list_claims_response__descriptor,
                       bytes, len, err);
    struct wp_claim_info *claims;
    enum wp_status status;

    if (pb == NULL) {
        return WP_INVALID_ARGUMENT;
    }
    claims = wp_wire_list_in("claims", pb->n_claims, WP_PAGE_MAX,
                             sizeof *claims, arena, err);
    status = claims != NULL ? WP_OK : WP_INVALID_ARGUMENT;
    for (size_t i = 0; status == WP_OK && i < pb->n_claims; i++) {
        status = claim_info_in(pb->claims[i], &claims[i], err);
    }
    out->claims = claims;
    out->n_claims = (uint32_t)pb->n_claims;
    out->next_page_token = wp_str_from(pb->next_page_token);
    if (status == WP_OK) {
        status = wp_wire_check_text("next_page_token", out->next_page_token, 0,
                                    WP_WIRE_PAGE_TOKEN_MAX, err);
    }
    return status;
}

/* The response without its claims. */
static void
fill_page_token(const struct wp_wire_list_claims_response *in,
                Warmpool__V1__ListClaimsResponse *pb)
{
    warmpool__v1__list_claims_response__init(pb);
    pb->next_page_token = wp_wire_borrow_str(in->next_page_token);
}

WP_WIRE_DEFINE_PACK_LIST(list_claims_response, wp_wire_list_claims_response,
                         claims, struct claim_info, fill_claim_info,
                         Warmpool__V1__ListClaimsResponse, fill_page_token)
