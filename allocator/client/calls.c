/* libwarmpool: single calls, for any thread. */
#include "allocator/client/internal.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "pool/base/clock.h"

/* For a call's answer, beside what the daemon may wait. */
#define ANSWER_NS (10 * WP_NS_PER_S)

enum {
    ARENA_SIZE = 16 << 10,
};

/* What the reply of a claim says, in the caller's struct. */
static int
read_lease(const struct wp_job *job, struct warmpool_lease *lease,
           struct warmpool_error *error)
{
    _Alignas(max_align_t) char room[ARENA_SIZE];
    struct wp_wire_claim_response response;
    struct wp_arena arena;
    struct wp_err err;

    wp_arena_init(&arena, room, sizeof room);
    if (wp_wire_unpack_claim_response(&arena, job->reply + WP_H2_FRAME_HEAD,
                                      job->call.reply_len, &response,
                                      &err) != WP_OK) {
        err.status = WP_INTERNAL;
        return wp_client_fail(error, &err);
    }
    wp_client_lease(response.claim_id, response.grant, lease);
    return WARMPOOL_OK;
}

int
/* NOLINTNEXTLINE(readability-function-size) */
warmpool_claim(struct warmpool *client, const char *pool, const char *claim_id,
               int64_t ttl_ms, int64_t wait_ms, struct warmpool_lease *lease,
               struct warmpool_error *error)
{
    struct wp_wire_claim_request request = {
        .tenant = wp_str_from(client->tenant),
        .ttl_ms = ttl_ms,
        .wait_ms = wait_ms,
    };
    struct wp_pool_name name;
    char made_up[64];
    struct wp_job job;
    int status;

    if (!wp_client_pool(pool, &name, error)) {
        return wp_status_grpc_code(WP_INVALID_ARGUMENT);
    }
    request.pool.pool_namespace = wp_str_from(name.pool_namespace);
    request.pool.name = wp_str_from(name.name);
    (void)snprintf(made_up, sizeof made_up, "%s-%llu", client->id,
                   (unsigned long long)atomic_fetch_add_explicit(
                       &client->n_ids, 1, memory_order_relaxed));
    request.claim_id = wp_str_from(claim_id != NULL ? claim_id : made_up);
    if (request.claim_id.len > WP_CLAIM_ID_MAX || wait_ms < 0 ||
        wait_ms > WP_WAIT_MAX_NS / WP_NS_PER_MS) {
        wp_client_error(error, wp_status_grpc_code(WP_INVALID_ARGUMENT),
                        "claim_id: at most 128 bytes expected; wait_ms: 0 to "
                        "600000");
        return wp_status_grpc_code(WP_INVALID_ARGUMENT);
    }
    wp_job_init(&job, client, WP_CALL_CLAIM,
                wait_ms * WP_NS_PER_MS + ANSWER_NS);
    job.call.request_len =
        wp_wire_pack_claim_request(&request, job.request + WP_H2_FRAME_HEAD);
    status = wp_job_run(&job, error);
    return status == WARMPOOL_OK ? read_lease(&job, lease, error) : status;
}

int
warmpool_renew(struct warmpool *client, struct warmpool_lease *lease,
               int64_t ttl_ms, struct warmpool_error *error)
{
    _Alignas(max_align_t) char room[ARENA_SIZE];
    struct wp_wire_renew_response response;
    struct wp_arena arena;
    struct wp_job job;
    struct wp_err err;
    int status;

    wp_job_init(&job, client, WP_CALL_RENEW, ANSWER_NS);
    wp_job_renew(&job, lease->token, ttl_ms);
    status = wp_job_run(&job, error);
    if (status != WARMPOOL_OK) {
        return status;
    }
    wp_arena_init(&arena, room, sizeof room);
    if (wp_wire_unpack_renew_response(&arena, job.reply + WP_H2_FRAME_HEAD,
                                      job.call.reply_len, &response,
                                      &err) != WP_OK) {
        err.status = WP_INTERNAL;
        return wp_client_fail(error, &err);
    }
    memcpy(lease->token, response.token, sizeof lease->token);
    lease->fence = response.fence;
    lease->deadline_unix_ms = response.deadline_wall_ms;
    return WARMPOOL_OK;
}

int
warmpool_release(struct warmpool *client, const struct warmpool_lease *lease,
                 struct warmpool_error *error)
{
    struct wp_job job;

    wp_job_init(&job, client, WP_CALL_RELEASE, ANSWER_NS);
    wp_job_release(&job, lease->token);
    return wp_job_run(&job, error);
}
