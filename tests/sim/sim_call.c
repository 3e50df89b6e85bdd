/* What becomes of a call: the way there, what the replica does with it, and the
 * way back. */
#include "tests/sim/sim_call.h"

#include <stdlib.h>
#include <string.h>

#include "pool/base/fnv.h"

static int64_t
one_way_ns(struct sim *sim)
{
    int64_t ns = sim_between(sim, 50 * WP_NS_PER_US, 10 * SIM_MS);

    if (sim_has_fault(sim, SIM_CALLS_SLOW) && sim_chance(sim, 10)) {
        ns += sim_between(sim, 0, 4 * SIM_S);
    }
    return ns;
}

static bool
is_lost(struct sim *sim)
{
    return sim->calls_lost_until_ns > sim->now_ns && sim_chance(sim, 40);
}

void
sim_call_free(struct sim_call *call)
{
    call->client->out--;
    free(call);
}

/* The replica has answered; the call is not its any more. */
static void
send_back(struct sim_call *call)
{
    struct sim *sim = call->sim;

    wp_list_remove(&call->node);
    sim->calls_open--;
    if (call->cancelled || is_lost(sim)) {
        sim_call_free(call);
        return;
    }
    sim_send(sim, one_way_ns(sim), NULL, sim_client_hear, call);
}

static void
finish_claim(struct sim_call *call)
{
    struct sim *sim = call->sim;

    sim_trace(sim, "r%u: claim %s of c%u: %s%s%s%s", call->to->index,
              call->claim_id, call->client->index,
              wp_status_name(call->claim.status),
              call->claim.status == WP_OK ? " " : "",
              call->claim.status == WP_OK ? call->claim.grant.sandbox : "",
              call->claim.replayed ? ", as before" : "");
    call->status = call->claim.status;
    if (call->status == WP_OK && !call->claim.replayed &&
        wp_pools_holds_unseen(call->to->pools)) {
        sim_wrong(sim, "%s is granted, and may be gone: nobody has looked",
                  call->claim.grant.sandbox);
    }
    if (call->status == WP_UNAVAILABLE &&
        wp_pools_holds_unseen(call->to->pools)) {
        sim->n_met[SIM_MET_UNSEEN]++;
    }
    call->until_ns =
        sim->profile.store == SIM_STORE_MEMORY
            ? call->claim.grant.deadline_ns
            : sim_replica_true_ns(call->to, call->claim.grant.deadline_wall_ms);
    if (call->cancelled && call->status == WP_OK) {
        sim_trace(sim, "r%u: undoes it, its client has left", call->to->index);
        wp_pools_undo(call->to->pools, &call->claim);
    } else if (call->status == WP_OK) {
        sim_backend_find(sim, call->claim.grant.sandbox)->told = true;
    }
    send_back(call);
}

uint64_t
sim_call_binding(const struct sim *sim, const struct sim_client *client)
{
    uint32_t hash = wp_fnv32_str(wp_str_from(client->claim_id));

    /* Every other claim in every other world. */
    return sim->seed % 2 == 0 && hash % 2 == 0 ? (uint64_t)hash + 1 : 0;
}

static void
bind_done(struct wp_bind *bind)
{
    struct sim_call *call = bind->ctx;

    if (!call->to->ending) {
        finish_claim(call);
    }
}

/* True: it is granted, and its sandbox takes what it brings. */
static bool
binds(struct sim_call *call)
{
    if (call->claim.status != WP_OK || call->claim.binding == 0) {
        return false;
    }
    call->binding.fingerprint = call->claim.binding;
    call->bind.claim = &call->claim;
    call->bind.binding = &call->binding;
    call->bind.done = bind_done;
    call->bind.ctx = call;
    return wp_pools_bind(call->to->pools, &call->bind) == WP_PENDING;
}

static void
claim_done(struct wp_claim *claim)
{
    struct sim_call *call = claim->ctx;

    if (!call->to->ending && !binds(call)) {
        finish_claim(call);
    }
}

static void
finish_change(struct sim_call *call)
{
    call->status = call->change.status;
    sim_trace(call->sim, "r%u: %s %s of c%u: %s", call->to->index,
              call->kind == SIM_CALL_RENEW ? "renew" : "release",
              call->claim_id, call->client->index,
              wp_status_name(call->status));
    send_back(call);
}

static void
change_done(struct wp_lease_change *change)
{
    struct sim_call *call = change->ctx;

    if (!call->to->ending) {
        finish_change(call);
    }
}

static void
hand_over_claim(struct sim_call *call)
{
    struct wp_claim *claim = &call->claim;

    claim->pool_namespace = WP_STR("default");
    claim->pool = WP_STR("p");
    claim->claim_id = wp_str_from(call->claim_id);
    claim->tenant = wp_str_from(call->tenant);
    claim->done = claim_done;
    claim->ctx = call;
    if (claim->binding != 0) {
        struct wp_err err;

        claim->status = wp_pools_may_bind(
            call->to->pools, claim->pool_namespace, claim->pool, &err);
        if (claim->status != WP_OK) {
            claim->reason = "another replica keeps the sandboxes";
            finish_claim(call);
            return;
        }
    }
    if (wp_pools_claim(call->to->pools, claim) != WP_PENDING && !binds(call)) {
        finish_claim(call);
    }
}

static void
hand_over_change(struct sim_call *call)
{
    struct wp_lease_change *change = &call->change;
    enum wp_status status;

    change->done = change_done;
    change->ctx = call;
    /* A hold for a time that a lease may have is a renewal. Draws nothing. */
    change->hold = change->ttl_ns > 0 && call->id % 2 == 0;
    status = call->kind == SIM_CALL_RENEW
                 ? wp_pools_renew(call->to->pools, change)
                 : wp_pools_release(call->to->pools, change);
    if (status != WP_PENDING) {
        finish_change(call);
    }
}

/* Somebody asks some replica who holds the claim, while it is called. */
static void
look_at(struct sim *sim, const struct sim_call *call)
{
    /* Draws nothing: the seeds' course stays as it is. */
    struct sim_replica *replica = &sim->replicas[call->id % sim->n_replicas];
    struct wp_claim_info info;

    if (replica->pools == NULL) {
        return;
    }
    sim_replica_enter(replica);
    if (wp_pools_get(replica->pools, wp_str_from(call->tenant),
                     wp_str_from(call->claim_id), &info) == WP_OK &&
        !info.waiting) {
        sim->n_met[SIM_MET_LOOKED]++;
        sim_trace(sim, "r%u: tells that claim %s holds %s", replica->index,
                  call->claim_id, info.sandbox);
        sim_oracle_told(sim, call->claim_id, info.sandbox);
    }
}

static void
receive_call(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_call *call = ctx;

    (void)arg;
    call->received_ns = sim->now_ns;
    call->life = call->to->life;
    wp_list_push_back(&call->to->calls, &call->node);
    sim->calls_open++;
    look_at(sim, call);
    if (call->to->pools == NULL) {
        call->status = WP_UNAVAILABLE;
        call->claim.reason = "nobody answers at this address";
        send_back(call);
        return;
    }
    sim_replica_enter(call->to);
    if (call->kind == SIM_CALL_CLAIM) {
        hand_over_claim(call);
    } else {
        hand_over_change(call);
    }
}

static struct sim_replica *
some_replica(struct sim *sim)
{
    return &sim->replicas[wp_rng_below(&sim->rng, sim->n_replicas)];
}

struct sim_call *
sim_call_make(struct sim *sim, struct sim_client *client,
              enum sim_call_kind kind)
{
    struct sim_call *call = sim_alloc(sizeof *call);

    wp_list_init(&call->node);
    call->sim = sim;
    call->client = client;
    call->to = some_replica(sim);
    call->epoch = client->epoch;
    call->id = ++sim->next_call;
    call->kind = kind;
    call->about = client->holds;
    client->out++;
    memcpy(call->claim_id, client->claim_id, sizeof call->claim_id);
    memcpy(call->tenant, client->tenant, sizeof call->tenant);
    call->claim.ttl_ns = client->ttl_ns;
    call->claim.wait_ns = client->wait_ns;
    call->claim.binding = sim_call_binding(sim, client);
    memcpy(call->change.token, client->token, sizeof call->change.token);
    return call;
}

void
sim_call_send(struct sim_call *call)
{
    struct sim *sim = call->sim;

    if (is_lost(sim)) {
        sim_call_free(call);
        return;
    }
    sim_send(sim, one_way_ns(sim), call->to, receive_call, call);
}

/* --- Cancelling. --- */

static void
receive_cancel(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *replica = ctx;

    WP_LIST_FOREACH (node, &replica->calls) {
        struct sim_call *call = WP_CONTAINER_OF(node, struct sim_call, node);

        if (call->id == arg && replica->pools != NULL) {
            sim_trace(sim, "r%u: the client of claim %s leaves", replica->index,
                      call->claim_id);
            call->cancelled = true;
            sim_replica_enter(replica);
            if (wp_pools_cancel(replica->pools, &call->claim)) {
                send_back(call);
            } else {
                sim->n_met[SIM_MET_LEFT]++;
                sim->n_met[SIM_MET_LEFT_HELD] +=
                    call->client->holds != NULL &&
                    strcmp(call->client->claim_id, call->claim_id) == 0;
            }
            return;
        }
    }
}

void
sim_call_cancel(struct sim *sim, struct sim_client *client)
{
    if (!is_lost(sim)) {
        sim_in(sim, one_way_ns(sim), client->asked, receive_cancel,
               client->asked, client->call);
    }
}

bool
sim_call_waits(const struct sim *sim, const char *claim_id)
{
    for (uint32_t i = 0; i < sim->n_replicas; i++) {
        WP_LIST_FOREACH (node, &sim->replicas[i].calls) {
            const struct sim_call *call =
                WP_CONTAINER_OF(node, struct sim_call, node);

            if (strcmp(call->claim_id, claim_id) == 0) {
                return true;
            }
        }
    }
    return false;
}

void
sim_call_drop_all(struct sim_replica *replica)
{
    struct wp_list *node;

    /* A queue of waiting claims must not be given back with claims in it. */
    WP_LIST_FOREACH (waiting, &replica->calls) {
        struct sim_call *call = WP_CONTAINER_OF(waiting, struct sim_call, node);

        if (call->kind == SIM_CALL_CLAIM) {
            (void)wp_pools_cancel(replica->pools, &call->claim);
        }
    }
    while ((node = wp_list_pop_front(&replica->calls)) != NULL) {
        replica->sim->calls_open--;
        sim_call_free(WP_CONTAINER_OF(node, struct sim_call, node));
    }
}
