/* proto/wire/wire.h - the messages of warmpool.v1 as plain structs.
 *
 * The only border between bytes from outside and the core. For each message:
 *
 *   unpack  Decodes into the arena and checks every field against limits.h.
 *           Nothing is allocated elsewhere; what out points at lives as long as
 *           the arena is not reset. Not WP_OK: INVALID_ARGUMENT, and err names
 *           the field and what was expected. A message with so many parts that
 *           the arena cannot hold it is refused in the same way. Unknown fields
 *           are skipped.
 *   size    How many bytes pack will write.
 *   pack    Writes the message; returns how many bytes it wrote, size's number.
 *           Checks nothing: a client may pack what a server will refuse.
 *
 * Strings that unpack gives are terminated; strings given to size and pack must
 * be, with ptr[len] == '\0' (ptr may be NULL when len is 0). Of both a Binding
 * is the exception: it points into the bytes that were unpacked. Any thread. */
#ifndef WP_PROTO_WIRE_WIRE_H
#define WP_PROTO_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/arena.h"
#include "pool/base/status.h"
#include "pool/base/str.h"
#include "pool/claim.h"
#include "pool/limits.h"
#include "pool/pool.h"
#include "allocator/advice/advice.h"

enum {
    WP_WIRE_GRACE_MAX_MS = 3600 * 1000, /* DrainRequest.grace_ms */
    WP_WIRE_PAGE_DEFAULT = 100,         /* ListClaimsRequest.page_size 0 */
    WP_WIRE_PAGE_TOKEN_MAX = 64,
    WP_WIRE_TENANTS_MAX = 64, /* In one ListTenantsResponse. */
    WP_WIRE_ADVISE_CLAIMS_MAX = 16384,
    WP_WIRE_DECISIONS_MAX = 16,         /* In one Pool. */
    WP_WIRE_AUTOSCALE_MAX = 12,         /* Keys of a policy. */
    WP_WIRE_AUTOSCALE_BYTES_MAX = 1536, /* Of them in a SetPoolRequest. */
    WP_WIRE_MANIFEST_MAX = 60000,       /* CreatePoolRequest.manifest */
    WP_WIRE_MESSAGE_MAX = 65536,        /* No valid request is longer. */
    /* An arena of this size holds any valid request but those of ClaimBatch,
     * ClaimStream and CreatePool, ... */
    WP_WIRE_ARENA_MIN = 4096,
    /* ... this one a ClaimStreamRequest, ... */
    WP_WIRE_ARENA_STREAM = 24 * 1024,
    /* ... and for the other two this one suffices. */
    WP_WIRE_ARENA_BATCH = WP_WIRE_MESSAGE_MAX + 8192,
    /* For the parts of any Binding, whose texts stay where they lie. */
    WP_WIRE_ARENA_BINDING = 24 << 10,
    /* More, for the paths of files in archives. */
    WP_WIRE_ARENA_ARCHIVES =
        WP_BINDING_FILES_MAX * (2 * WP_BINDING_PATH_MAX + 2 + 16),
};

/* ReserveRequest: from not_before to until. */
#define WP_WIRE_RESERVE_MAX_MS (INT64_C(31) * 24 * 3600 * 1000)

/* A pool's name. Requests: an empty namespace arrives as "default". Where the
 * contract lets the pool unset, name.len is 0 and so is the namespace's. */
struct wp_wire_pool_ref {
    struct wp_str pool_namespace;
    struct wp_str name;
};

/* --- warmpool.v1.Allocator --- */

struct wp_wire_claim_request {
    struct wp_wire_pool_ref pool;
    struct wp_str claim_id;
    struct wp_str tenant;
    int64_t ttl_ms; /* 0: the pool's default. */
    int64_t wait_ms;
    /* The bytes of a Binding, for wp_wire_unpack_binding; ptr is NULL without
     * one. Not copied: as the request's own bytes. */
    struct wp_str binding;
};

/* What a sandbox has of its claim's binding. */
struct wp_wire_bound {
    const char *const *env;
    const char *const *secrets;
    const char *const *files;
    uint32_t n_env;
    uint32_t n_secrets;
    uint32_t n_files;
    const char *const *repositories; /* Their URLs. */
    uint32_t n_repositories;
    const char *const *volumes; /* Their names. */
    uint32_t n_volumes;
    const char *working_dir; /* "": the workspace. */
    bool started;
    const char *egress;   /* "": the pool's policy. */
    const char *identity; /* Its audience; "": none. */
};

struct wp_wire_claim_response {
    struct wp_str claim_id;
    /* ref, deadline_ns are not on the wire: unpack leaves them 0. Packing
     * borrows it; unpack puts it into the arena. */
    const struct wp_grant *grant;
    bool replayed;
    const struct wp_binding *binding;  /* Packing: it was bound; or NULL. */
    const struct wp_wire_bound *bound; /* Unpacked; or NULL. */
};

struct wp_wire_batch_request {
    struct wp_wire_pool_ref pool;
    const struct wp_str *claim_ids; /* No two the same. */
    uint32_t n_claims;              /* 1 .. WP_BATCH_MAX */
    struct wp_str tenant;
    int64_t ttl_ms;
    int64_t wait_ms;
    bool all_or_nothing;
};

struct wp_wire_batch_item {
    struct wp_str claim_id;
    int code; /* A google.rpc.Code; 0 is OK, and then grant is not NULL. */
    struct wp_str message;
    const struct wp_grant *grant;
    bool replayed;
};

struct wp_wire_batch_response {
    const struct wp_wire_batch_item *items;
    uint32_t n_items;
};

struct wp_wire_stream_open {
    struct wp_wire_pool_ref pool;
    struct wp_str stream_id;
    struct wp_str tenant;
    int64_t ttl_ms;
    uint32_t ahead; /* 1 .. WP_AHEAD_MAX */
    bool resume;
    const uint64_t *keep;
    uint32_t n_keep; /* .. WP_AHEAD_MAX */
};

/* ClaimStreamRequest. */
struct wp_wire_stream_request {
    bool has_open;
    struct wp_wire_stream_open open; /* When has_open. */
    const uint64_t *took;
    uint32_t n_took; /* .. WP_AHEAD_MAX */
    const uint64_t *back;
    uint32_t n_back; /* .. WP_AHEAD_MAX */
};

struct wp_wire_lease_ahead {
    uint64_t number;
    struct wp_str claim_id;
    const struct wp_grant *grant; /* As in wp_wire_claim_response. */
};

/* ClaimStreamResponse. */
struct wp_wire_stream_response {
    const struct wp_wire_lease_ahead *leases;
    uint32_t n_leases; /* .. WP_AHEAD_MAX */
    const uint64_t *taken;
    uint32_t n_taken; /* .. 2 * WP_AHEAD_MAX */
    const uint64_t *ended;
    uint32_t n_ended;      /* .. 2 * WP_AHEAD_MAX */
    int lacking_code;      /* gRPC's; 0: nothing new. */
    struct wp_str lacking; /* When it is not 0. */
};

struct wp_wire_renew_request {
    uint8_t token[WP_TOKEN_LEN];
    int64_t ttl_ms;
    bool hold;
};

struct wp_wire_renew_response {
    uint8_t token[WP_TOKEN_LEN];
    uint64_t fence;
    int64_t deadline_wall_ms;
};

struct wp_wire_release_request {
    uint8_t token[WP_TOKEN_LEN];
};

struct wp_wire_release_response {
    bool was_held;
};

struct wp_wire_get_claim_request {
    struct wp_str claim_id;
    struct wp_str tenant;
};

struct wp_wire_list_claims_request {
    struct wp_wire_pool_ref pool; /* May be unset: of all pools. */
    struct wp_str tenant;
    uint32_t page_size; /* 1 .. WP_PAGE_MAX; the default is filled in. */
    struct wp_str page_token;
};

struct wp_wire_list_claims_response {
    const struct wp_claim_info *claims; /* ref is not on the wire. */
    uint32_t n_claims;
    struct wp_str next_page_token;
};

struct wp_wire_list_tenants_request {
    struct wp_wire_pool_ref pool; /* May be unset: of all pools. */
    struct wp_str tenant;
    struct wp_str page_token;
};

struct wp_wire_list_tenants_response {
    const struct wp_tenant_stats *tenants;
    uint32_t n_tenants;
    struct wp_str next_page_token;
};

struct wp_wire_watch_pools_request {
    struct wp_wire_pool_ref pool; /* May be unset: all pools. */
};

/* ListPoolsResponse and WatchPoolsResponse, which have the same bytes. What the
 * message Pool lacks is 0 when unpacked. */
struct wp_wire_pools {
    const struct wp_pool_stats *pools;
    uint32_t n_pools;
};

/* --- warmpool.v1.PoolAdmin --- */

struct wp_wire_list_pools_request {
    char unused; /* The message has no field. */
};

struct wp_wire_get_pool_request {
    struct wp_wire_pool_ref pool;
};

/* A key of a scaling policy, without the group, and its value; neither is
 * checked but by wp_scale_policy_set. */
struct wp_wire_setting {
    struct wp_str key;
    struct wp_str value;
};

struct wp_wire_set_pool_request {
    struct wp_wire_pool_ref pool;
    bool has_target; /* Else it stays as it is. */
    uint32_t target; /* 0 .. WP_TARGET_MAX */
    /* Those without a value go. */
    const struct wp_wire_setting *autoscale;
    uint32_t n_autoscale; /* .. WP_WIRE_AUTOSCALE_MAX */
};

struct wp_wire_decision_text {
    char reason[32];
    char sentence[WP_SCALE_TEXT_MAX];
};

/* GetPool's and SetPool's reply: a Pool with its policy and all that is told of
 * its scaler. What the message lacks is 0 when unpacked, mono_ns among it. */
struct wp_wire_pool_detail {
    struct wp_pool_stats *stats;
    const struct wp_wire_setting *autoscale; /* Its policy. */
    uint32_t n_autoscale;
    const struct wp_scale_decision *decisions; /* The newest first. */
    /* What they were in the daemon's words, which may have reasons that are
     * unknown here (then reason is NOTHING_SEEN); not for packing. */
    const struct wp_wire_decision_text *texts;
    uint32_t n_decisions; /* .. WP_WIRE_DECISIONS_MAX */
    const struct wp_scale_reservation *reservations;
    uint32_t n_reservations; /* .. WP_SCALE_RESERVATIONS_MAX */
};

struct wp_wire_reserve_request {
    struct wp_wire_pool_ref pool;
    struct wp_str id;
    uint32_t sandboxes;    /* 1 .. WP_TARGET_MAX */
    int64_t not_before_ms; /* Wall; 0: now. */
    int64_t until_ms;      /* Later, and at most WP_WIRE_RESERVE_MAX_MS. */
};

struct wp_wire_cancel_reservation_request {
    struct wp_wire_pool_ref pool;
    struct wp_str id;
};

struct wp_wire_cancel_reservation_response {
    char unused; /* The message has no field. */
};

struct wp_wire_advise_request {
    struct wp_wire_pool_ref pool;
    const double *objectives; /* 0.5 .. 0.99999 */
    uint32_t n_objectives;    /* At most WP_ADVICE_OBJECTIVES_MAX. */
    int64_t lead_ms;
    const uint32_t *claim_gaps_ms;
    uint32_t n_claims; /* At most WP_WIRE_ADVISE_CLAIMS_MAX. */
    int64_t first_wall_ms;
};

struct wp_wire_advise_response {
    double progress;
    bool has_report; /* And what follows is given. */
    struct wp_advice_facts facts;
    const struct wp_advice_row *rows; /* All done. */
    uint32_t n_rows;                  /* At most WP_ADVICE_ROWS_MAX. */
    struct wp_advice_words words;
};

struct wp_wire_create_pool_request {
    struct wp_str manifest; /* 1 .. WP_WIRE_MANIFEST_MAX bytes, any. */
};

struct wp_wire_delete_pool_request {
    struct wp_wire_pool_ref pool;
};

struct wp_wire_delete_pool_response {
    uint32_t leased;
};

struct wp_wire_drain_request {
    struct wp_wire_pool_ref pool; /* May be unset: the whole daemon. */
    int64_t grace_ms;
    bool undo; /* Never for the whole daemon. */
};

struct wp_wire_drain_response {
    uint32_t leased;
};

/* For X(name, struct): wp_wire_unpack_name, wp_wire_size_name and
 * wp_wire_pack_name, as the head of this file says. */
#define WP_WIRE_MESSAGES(X)                                                    \
    X(claim_request, wp_wire_claim_request)                                    \
    X(claim_response, wp_wire_claim_response)                                  \
    X(batch_request, wp_wire_batch_request)                                    \
    X(batch_response, wp_wire_batch_response)                                  \
    X(renew_request, wp_wire_renew_request)                                    \
    X(renew_response, wp_wire_renew_response)                                  \
    X(release_request, wp_wire_release_request)                                \
    X(release_response, wp_wire_release_response)                              \
    X(get_claim_request, wp_wire_get_claim_request)                            \
    X(claim_info, wp_claim_info)                                               \
    X(list_claims_request, wp_wire_list_claims_request)                        \
    X(list_claims_response, wp_wire_list_claims_response)                      \
    X(list_tenants_request, wp_wire_list_tenants_request)                      \
    X(list_tenants_response, wp_wire_list_tenants_response)                    \
    X(watch_pools_request, wp_wire_watch_pools_request)                        \
    X(pools, wp_wire_pools)                                                    \
    X(list_pools_request, wp_wire_list_pools_request)                          \
    X(get_pool_request, wp_wire_get_pool_request)                              \
    X(set_pool_request, wp_wire_set_pool_request)                              \
    X(pool, wp_pool_stats)                                                     \
    X(pool_detail, wp_wire_pool_detail)                                        \
    X(reserve_request, wp_wire_reserve_request)                                \
    X(reservation, wp_scale_reservation)                                       \
    X(cancel_reservation_request, wp_wire_cancel_reservation_request)          \
    X(cancel_reservation_response, wp_wire_cancel_reservation_response)        \
    X(create_pool_request, wp_wire_create_pool_request)                        \
    X(delete_pool_request, wp_wire_delete_pool_request)                        \
    X(delete_pool_response, wp_wire_delete_pool_response)                      \
    X(drain_request, wp_wire_drain_request)                                    \
    X(drain_response, wp_wire_drain_response)                                  \
    X(advise_request, wp_wire_advise_request)                                  \
    X(advise_response, wp_wire_advise_response)                                \
    X(stream_request, wp_wire_stream_request)                                  \
    X(stream_response, wp_wire_stream_response)

#define WP_WIRE_DECLARE(name, type)                                            \
    WP_MUST_CHECK enum wp_status wp_wire_unpack_##name(                        \
        struct wp_arena *arena, const uint8_t *bytes, size_t len,              \
        struct type *out, struct wp_err *err);                                 \
    size_t wp_wire_size_##name(const struct type *message);                    \
    size_t wp_wire_pack_##name(const struct type *message, uint8_t *buf);

WP_WIRE_MESSAGES(WP_WIRE_DECLARE)
/* A ClaimRequest's. */
WP_WIRE_DECLARE(binding, wp_binding)
/* Bytes of the arena that wp_wire_unpack_binding needs for these. */
size_t wp_wire_binding_room(const uint8_t *bytes, size_t len);

#endif
