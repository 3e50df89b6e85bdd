/* allocator/ctl/calls.h - warmpool.v1's methods as blocking C calls. */
#ifndef WP_ALLOCATOR_CTL_CALLS_H
#define WP_ALLOCATOR_CTL_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/ctl/ctl.h"

/* X(name, path, request message, its struct, reply message, its struct) */
#define WP_CTL_CALLS(X)                                                        \
    X(claim, "Allocator/Claim", claim_request, wp_wire_claim_request,          \
      claim_response, wp_wire_claim_response)                                  \
    X(claim_batch, "Allocator/ClaimBatch", batch_request,                      \
      wp_wire_batch_request, batch_response, wp_wire_batch_response)           \
    X(renew, "Allocator/Renew", renew_request, wp_wire_renew_request,          \
      renew_response, wp_wire_renew_response)                                  \
    X(release, "Allocator/Release", release_request, wp_wire_release_request,  \
      release_response, wp_wire_release_response)                              \
    X(get_claim, "Allocator/GetClaim", get_claim_request,                      \
      wp_wire_get_claim_request, claim_info, wp_claim_info)                    \
    X(list_claims, "Allocator/ListClaims", list_claims_request,                \
      wp_wire_list_claims_request, list_claims_response,                       \
      wp_wire_list_claims_response)                                            \
    X(list_tenants, "Allocator/ListTenants", list_tenants_request,             \
      wp_wire_list_tenants_request, list_tenants_response,                     \
      wp_wire_list_tenants_response)                                           \
    X(list_pools, "PoolAdmin/ListPools", list_pools_request,                   \
      wp_wire_list_pools_request, pools, wp_wire_pools)                        \
    X(get_pool, "PoolAdmin/GetPool", get_pool_request,                         \
      wp_wire_get_pool_request, pool, wp_pool_stats)                           \
    X(set_pool, "PoolAdmin/SetPool", set_pool_request,                         \
      wp_wire_set_pool_request, pool, wp_pool_stats)                           \
    X(change_pool, "PoolAdmin/SetPool", set_pool_request,                      \
      wp_wire_set_pool_request, pool_detail, wp_wire_pool_detail)              \
    X(explain_pool, "PoolAdmin/GetPool", get_pool_request,                     \
      wp_wire_get_pool_request, pool_detail, wp_wire_pool_detail)              \
    X(reserve, "PoolAdmin/Reserve", reserve_request, wp_wire_reserve_request,  \
      reservation, wp_scale_reservation)                                       \
    X(cancel_reservation, "PoolAdmin/CancelReservation",                       \
      cancel_reservation_request, wp_wire_cancel_reservation_request,          \
      cancel_reservation_response, wp_wire_cancel_reservation_response)        \
    X(create_pool, "PoolAdmin/CreatePool", create_pool_request,                \
      wp_wire_create_pool_request, pool, wp_pool_stats)                        \
    X(delete_pool, "PoolAdmin/DeletePool", delete_pool_request,                \
      wp_wire_delete_pool_request, delete_pool_response,                       \
      wp_wire_delete_pool_response)                                            \
    X(drain, "PoolAdmin/Drain", drain_request, wp_wire_drain_request,          \
      drain_response, wp_wire_drain_response)

/* Room for the defaults of a target. */
struct wp_ctl_target_text {
    char address[600];
    char token_file[600];
};

/* Where the options lead: what they do not say is the daemon's default, kept in
 * text. INVALID_ARGUMENT: the default directory is not to be trusted. */
struct wp_rpc_target;
enum wp_status wp_ctl_target(const struct wp_ctl_options *options,
                             struct wp_ctl_target_text *text,
                             struct wp_rpc_target *out, struct wp_err *err);

/* How a call is made, and what it brought besides its reply. */
struct wp_ctl_call {
    int64_t wait_ns; /* In: added to --timeout. */
    int64_t retry_after_ns;
    struct wp_err err;
};

/* wp_ctl_call_claim(ctl, &request, &reply, &call) and so on. Connects when that
 * has not been done. What reply points at lives as long as ctl->arena. Not
 * WP_OK: call->err says why. */
#define WP_CTL_CALL_DECLARE(name, path, in, in_type, out, out_type)            \
    enum wp_status wp_ctl_call_##name(                                         \
        struct wp_ctl *ctl, const struct in_type *request,                     \
        struct out_type *reply, struct wp_ctl_call *call);
WP_CTL_CALLS(WP_CTL_CALL_DECLARE)

/* Calls on_pools with the numbers now and after every change, until it answers
 * false or the daemon ends the stream. */
enum wp_status wp_ctl_call_watch_pools(
    struct wp_ctl *ctl, const struct wp_wire_watch_pools_request *request,
    bool (*on_pools)(void *ctx, const struct wp_wire_pools *pools), void *ctx,
    struct wp_ctl_call *call);

/* Calls on_advise with each message, the last of which has the report, until it
 * answers false. */
enum wp_status wp_ctl_call_advise(
    struct wp_ctl *ctl, const struct wp_wire_advise_request *request,
    bool (*on_advise)(void *ctx, const struct wp_wire_advise_response *message),
    void *ctx, struct wp_ctl_call *call);

#endif
