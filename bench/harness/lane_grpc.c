/* A lane's calls as gRPC: over a few connections, by a codec of its own. */
#include "bench/harness/lane_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/client/warmpool.h"
#include "bench/load/claim_codec.h"
#include "pool/base/clock.h"

enum {
    REPLY_ONE = 1024,   /* Of a Claim. */
    REPLY_ITEM = 512,   /* Of a claim of a batch. */
    REQUEST_SPARE = 64, /* The head, and rounding. */
};

struct grpc {
    struct wp_h2 *h2;
    unsigned claim_method;
    unsigned release_method;
    char timeout_text[32];
    char paths[2][64]; /* Of the methods. */
    struct wp_codec_request request;
    char tenant[32]; /* Of the latest request. */
    uint8_t *rooms;  /* The workers' buffers. */
};

/* --- What is asked. --- */

static size_t
write_claim(struct grpc *grpc, struct wp_worker *worker)
{
    const struct wp_lane *lane = worker->lane;
    char text[WP_PLAN_BATCH_MAX][WP_LANE_ID_MAX];
    struct wp_str ids[WP_PLAN_BATCH_MAX];

    for (uint32_t i = 0; i < lane->batch; i++) {
        ids[i] = wp_lane_id_of(worker, i, text[i]);
    }
    if (lane->plan->tenants > 0) {
        (void)snprintf(grpc->tenant, sizeof grpc->tenant, "load-%u",
                       (unsigned)(worker->number % lane->plan->tenants));
        grpc->request.tenant = wp_str_from(grpc->tenant);
    }
    return wp_codec_write_request(worker->call.request + WP_H2_FRAME_HEAD,
                                  &grpc->request, ids, lane->batch);
}

static bool
start(struct wp_worker *worker)
{
    struct grpc *grpc = worker->lane->carried;

    if (worker->releasing) {
        const struct wp_lane_token *token =
            &worker->tokens[worker->n_tokens - 1];

        worker->call.method = grpc->release_method;
        worker->call.request_len =
            wp_codec_write_release(worker->call.request + WP_H2_FRAME_HEAD,
                                   (struct wp_str){token->bytes, token->len});
    } else {
        worker->call.method = grpc->claim_method;
        worker->call.request_len = write_claim(grpc, worker);
    }
    return wp_h2_start(grpc->h2, &worker->call);
}

static unsigned
cancel(struct wp_worker *worker)
{
    struct grpc *grpc = worker->lane->carried;

    wp_h2_cancel(grpc->h2, &worker->call);
    return WP_TALLY_NO_ANSWER;
}

static enum wp_status
turn(struct wp_lane *lane, int64_t wait_ns, struct wp_err *err)
{
    struct grpc *grpc = lane->carried;

    return wp_h2_turn(grpc->h2, wait_ns, err);
}

/* --- What the answers say. --- */

static void
call_done(struct wp_h2_call *call)
{
    struct wp_worker *worker = call->ctx;
    int status = call->status;

    worker->lane->now_ns = wp_lane_now_ns();
    wp_lane_call_over(worker, status == WP_H2_NO_STATUS ? WP_TALLY_NO_ANSWER
                                                        : (unsigned)status);
}

/* Is the lease what claim i asked for? Then it is the worker's. */
static bool
take_lease(struct wp_worker *worker, uint32_t i,
           const struct wp_codec_lease *lease)
{
    struct wp_lane *lane = worker->lane;
    struct wp_lane_token *token;
    char id[WP_LANE_ID_MAX];

    /* Ahead of need the daemon makes up the ids. */
    if ((lane->stock == NULL &&
         !wp_str_eq(lease->claim_id, wp_lane_id_of(worker, i, id))) ||
        lease->fence == 0 || lease->replayed || lease->token.len == 0 ||
        lease->token.len > WP_LANE_TOKEN_MAX || lease->sandbox.len == 0) {
        lane->tally->bad_answers++;
        return false;
    }
    if (!wp_tally_name(lane->tally, wp_lane_name_hash(lane, lease->sandbox))) {
        lane->no_memory = true;
    }
    token = &worker->tokens[worker->n_tokens++];
    token->len = (uint16_t)lease->token.len;
    memcpy(token->bytes, lease->token.ptr, lease->token.len);
    return true;
}

static bool
take_ahead(struct wp_worker *worker)
{
    struct wp_lane *lane = worker->lane;
    struct warmpool_lease memory;
    struct wp_codec_lease lease;

    if (!wp_lane_take_ahead(lane, &lease, &memory)) {
        return false;
    }
    lane->now_ns = wp_lane_now_ns();
    worker->acked_ns = lane->now_ns;
    wp_lane_record(worker, 0, take_lease(worker, 0, &lease) ? 0 : 2,
                   (unsigned)lease.served, lane->now_ns);
    return true;
}

static void
read_batch(struct wp_worker *worker, int64_t done_ns)
{
    const uint8_t *bytes = worker->call.reply + WP_H2_FRAME_HEAD;
    struct wp_codec_item item;
    uint32_t n = 0;
    size_t at = 0;

    while (n < worker->lane->batch &&
           wp_codec_next_item(bytes, worker->call.reply_len, &at, &item)) {
        unsigned code = item.code < WP_TALLY_NO_ANSWER ? (unsigned)item.code
                                                       : 2; /* UNKNOWN */

        if (code == 0 && !take_lease(worker, n, &item.lease)) {
            code = 2;
        }
        wp_lane_record(worker, n, code, (unsigned)item.lease.served, done_ns);
        n++;
    }
    if (n < worker->lane->batch || at != worker->call.reply_len) {
        worker->lane->tally->bad_answers++;
    }
    for (; n < worker->lane->batch; n++) {
        wp_lane_record(worker, n, 2, 0, done_ns);
    }
}

static void
read_claim(struct wp_worker *worker, int64_t done_ns)
{
    struct wp_lane *lane = worker->lane;
    struct wp_codec_lease lease;

    worker->acked_ns = done_ns;
    lane->tally->replies++;
    lane->tally->reply_bytes += worker->call.reply_len;
    if (lane->plan->echo) {
        worker->n_tokens = 1;
        worker->tokens[0].len = WP_LANE_TOKEN_MAX / 2;
        wp_lane_record(worker, 0, 0, 1, done_ns);
    } else if (lane->plan->batch > 0) {
        read_batch(worker, done_ns);
    } else if (!wp_codec_read_claim(worker->call.reply + WP_H2_FRAME_HEAD,
                                    worker->call.reply_len, &lease)) {
        lane->tally->bad_answers++;
        wp_lane_record(worker, 0, 2, 0, done_ns);
    } else if (take_lease(worker, 0, &lease)) {
        wp_lane_record(worker, 0, 0, (unsigned)lease.served, done_ns);
    } else {
        wp_lane_record(worker, 0, 2, 0, done_ns);
    }
}

static bool
read_release(struct wp_worker *worker, bool *was_held)
{
    return worker->lane->plan->echo ||
           wp_codec_read_release(worker->call.reply + WP_H2_FRAME_HEAD,
                                 worker->call.reply_len, was_held);
}

/* --- Connections. --- */

static void
on_lost(void *ctx, unsigned conn, const struct wp_err *err)
{
    struct wp_lane *lane = ctx;

    (void)err;
    lane->tally->connections_lost++;
    wp_lane_lost(lane, conn);
    wp_lane_fail_calls(lane, conn);
}

static bool
reopen(struct wp_lane *lane, unsigned conn, struct wp_err *err)
{
    struct grpc *grpc = lane->carried;

    return wp_h2_reopen(grpc->h2, conn, err);
}

static pid_t
peer(const struct wp_lane *lane)
{
    const struct grpc *grpc = lane->carried;

    return wp_h2_peer(grpc->h2);
}

static bool
make_rooms(struct wp_lane *lane, struct grpc *grpc)
{
    size_t ids = lane->plan->batch > 0 ? lane->batch : 0;
    size_t request_cap =
        WP_CODEC_CLAIM_MAX + ids * WP_CODEC_ID_MAX + REQUEST_SPARE;
    size_t reply_cap = WP_H2_FRAME_HEAD + REPLY_ONE + ids * REPLY_ITEM;
    size_t room = request_cap + reply_cap;

    grpc->rooms = calloc(lane->n_workers, room);
    for (uint32_t i = 0; grpc->rooms != NULL && i < lane->n_workers; i++) {
        struct wp_h2_call *call = &lane->workers[i].call;

        call->done = call_done;
        call->ctx = &lane->workers[i];
        call->request = grpc->rooms + i * room;
        call->reply = call->request + request_cap;
        call->reply_cap = reply_cap;
    }
    return grpc->rooms != NULL;
}

static enum wp_status
connect_lane(struct wp_lane *lane, struct grpc *grpc, struct wp_err *err)
{
    const struct wp_plan *plan = lane->plan;
    const char *service =
        plan->echo ? "/warmpool.bench.Echo/" : "/warmpool.v1.Allocator/";
    const struct wp_h2_config config = {
        .target = lane->config.target,
        .connections = wp_lane_connections(&lane->config),
        .tls = lane->config.tls,
        .authorization = lane->config.authorization,
        .authority = lane->config.tls != NULL ? lane->config.target : NULL,
        .timeout = grpc->timeout_text,
        .on_lost = on_lost,
        .ctx = lane,
    };

    (void)snprintf(grpc->timeout_text, sizeof grpc->timeout_text,
                   "%" PRId64 "m",
                   (plan->timeout_ns + plan->wait_ns) / WP_NS_PER_MS + 1);
    grpc->h2 = wp_h2_open(&config, err);
    if (grpc->h2 == NULL) {
        return err->status;
    }
    (void)snprintf(grpc->paths[0], sizeof grpc->paths[0], "%s%s", service,
                   plan->batch > 0 ? "ClaimBatch" : "Claim");
    (void)snprintf(grpc->paths[1], sizeof grpc->paths[1], "%sRelease", service);
    grpc->claim_method = wp_h2_method(grpc->h2, grpc->paths[0]);
    grpc->release_method = wp_h2_method(grpc->h2, grpc->paths[1]);
    return WP_OK;
}

static enum wp_status
open_grpc(struct wp_lane *lane, struct wp_err *err)
{
    const struct wp_plan *plan = lane->plan;
    struct grpc *grpc = calloc(1, sizeof *grpc);

    lane->carried = grpc;
    if (grpc == NULL || !make_rooms(lane, grpc)) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory for %u calls",
                          lane->n_workers);
    }
    grpc->request = (struct wp_codec_request){
        .pool_namespace = wp_str_from(plan->pool_namespace),
        .pool = wp_str_from(plan->pool),
        .tenant = wp_str_from(plan->tenant),
        .ttl_ms = (uint64_t)(plan->ttl_ns / WP_NS_PER_MS),
        .wait_ms = (uint64_t)(plan->wait_ns / WP_NS_PER_MS),
    };
    if (connect_lane(lane, grpc, err) != WP_OK ||
        !wp_lane_open_stock(lane, err)) {
        return err->status;
    }
    return WP_OK;
}

static void
close_grpc(struct wp_lane *lane)
{
    struct grpc *grpc = lane->carried;

    wp_lane_close_stock(lane);
    if (grpc != NULL) {
        wp_h2_close(grpc->h2);
        free(grpc->rooms);
        free(grpc);
    }
}

const struct wp_carrier wp_carrier_grpc = {
    .open = open_grpc,
    .close = close_grpc,
    .start = start,
    .take_ahead = take_ahead,
    .cancel = cancel,
    .turn = turn,
    .reopen = reopen,
    .read_claim = read_claim,
    .read_release = read_release,
    .peer = peer,
};
