#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/fnv.h"
#include "tests/sim/sim.h"

enum call_kind {
    CALL_CLAIM,
    CALL_RENEW,
    CALL_RELEASE,
};

/* A call: first a message to a replica, then in that replica's hands, then the
 * message back. */
struct call {
    struct wp_list node; /* In the replica's calls while it has it. */
    struct sim *sim;
    struct sim_client *client;
    struct sim_replica *to;
    uint32_t epoch; /* The client's when it called. */
    uint64_t id;
    const struct sim_sandbox *about; /* What the client held when it called. */
    enum call_kind kind;
    bool cancelled; /* The client has said that it will not hear the answer. */
    uint32_t life;  /* Of the replica, when it came there. */
    int64_t received_ns;
    int64_t until_ns; /* Of the grant, true time, by who granted it. */
    enum wp_status status;
    char claim_id[SIM_ID_MAX];
    char tenant[4];
    struct wp_claim claim;
    struct wp_binding binding;
    struct wp_bind bind;
    struct wp_lease_change change;
};

static void ask(struct sim *sim, struct sim_client *client);
static void become_idle(struct sim *sim, struct sim_client *client);
static void plan_next(struct sim *sim, struct sim_client *client,
                      int64_t delay_ns);

/* --- The way there and back. --- */

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

static void receive_answer(struct sim *sim, void *ctx, uint64_t arg);

static void
free_call(struct call *call)
{
    call->client->out--;
    free(call);
}

/* The replica has answered; the call is not its any more. */
static void
send_back(struct call *call)
{
    struct sim *sim = call->sim;

    wp_list_remove(&call->node);
    sim->calls_open--;
    if (call->cancelled || is_lost(sim)) {
        free_call(call);
        return;
    }
    sim_send(sim, one_way_ns(sim), NULL, receive_answer, call);
}

static void
finish_claim(struct call *call)
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
sim_client_binding(const struct sim *sim, const struct sim_client *client)
{
    uint32_t hash = wp_fnv32_str(wp_str_from(client->claim_id));

    /* Every other claim in every other world. */
    return sim->seed % 2 == 0 && hash % 2 == 0 ? (uint64_t)hash + 1 : 0;
}

static void
bind_done(struct wp_bind *bind)
{
    struct call *call = bind->ctx;

    if (!call->to->ending) {
        finish_claim(call);
    }
}

/* True: it is granted, and its sandbox takes what it brings. */
static bool
binds(struct call *call)
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
    struct call *call = claim->ctx;

    if (!call->to->ending && !binds(call)) {
        finish_claim(call);
    }
}

static void
finish_change(struct call *call)
{
    call->status = call->change.status;
    sim_trace(call->sim, "r%u: %s %s of c%u: %s", call->to->index,
              call->kind == CALL_RENEW ? "renew" : "release", call->claim_id,
              call->client->index, wp_status_name(call->status));
    send_back(call);
}

static void
change_done(struct wp_lease_change *change)
{
    struct call *call = change->ctx;

    if (!call->to->ending) {
        finish_change(call);
    }
}

static void
hand_over_claim(struct call *call)
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
hand_over_change(struct call *call)
{
    struct wp_lease_change *change = &call->change;
    enum wp_status status;

    change->done = change_done;
    change->ctx = call;
    status = call->kind == CALL_RENEW
                 ? wp_pools_renew(call->to->pools, change)
                 : wp_pools_release(call->to->pools, change);
    if (status != WP_PENDING) {
        finish_change(call);
    }
}

/* Somebody asks some replica who holds the claim, while it is called. */
static void
look_at(struct sim *sim, const struct call *call)
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
    struct call *call = ctx;

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
    if (call->kind == CALL_CLAIM) {
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

static struct call *
make_call(struct sim *sim, struct sim_client *client, enum call_kind kind)
{
    struct call *call = sim_alloc(sizeof *call);

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
    call->claim.binding = sim_client_binding(sim, client);
    memcpy(call->change.token, client->token, sizeof call->change.token);
    return call;
}

static void
send_call(struct call *call)
{
    struct sim *sim = call->sim;

    if (is_lost(sim)) {
        free_call(call);
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
        struct call *call = WP_CONTAINER_OF(node, struct call, node);

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

static void
send_cancel(struct sim *sim, struct sim_client *client)
{
    if (!is_lost(sim)) {
        sim_in(sim, one_way_ns(sim), client->asked, receive_cancel,
               client->asked, client->call);
    }
}

void
sim_client_forget(struct sim *sim, const struct sim_sandbox *sandbox)
{
    for (uint32_t i = 0; i < sim->profile.n_clients; i++) {
        struct sim_client *client = &sim->clients[i];

        if (client->holds == sandbox) {
            client->holds = NULL;
            become_idle(sim, client);
        }
    }
}

bool
sim_client_waits(const struct sim *sim, const char *claim_id)
{
    for (uint32_t i = 0; i < sim->n_replicas; i++) {
        WP_LIST_FOREACH (node, &sim->replicas[i].calls) {
            const struct call *call = WP_CONTAINER_OF(node, struct call, node);

            if (strcmp(call->claim_id, claim_id) == 0) {
                return true;
            }
        }
    }
    return false;
}

void
sim_client_drop_calls(struct sim_replica *replica)
{
    struct wp_list *node;

    /* A queue of waiting claims must not be given back with claims in it. */
    WP_LIST_FOREACH (waiting, &replica->calls) {
        struct call *call = WP_CONTAINER_OF(waiting, struct call, node);

        if (call->kind == CALL_CLAIM) {
            (void)wp_pools_cancel(replica->pools, &call->claim);
        }
    }
    while ((node = wp_list_pop_front(&replica->calls)) != NULL) {
        replica->sim->calls_open--;
        free_call(WP_CONTAINER_OF(node, struct call, node));
    }
}

/* --- What a client does. --- */

static void
become_idle(struct sim *sim, struct sim_client *client)
{
    if (client->holds != NULL) {
        client->holds->shown.given_up = true;
        client->holds = NULL;
    }
    client->epoch++;
    client->state = SIM_IDLE;
    plan_next(sim, client, sim_between(sim, 0, 2 * SIM_S));
}

static void
start_claim(struct sim *sim, struct sim_client *client)
{
    client->epoch++;
    client->tries = 0;
    client->state = SIM_ASKING;
    client->released = NULL;
    (void)snprintf(client->claim_id, sizeof client->claim_id, "c%u-%u",
                   client->index, client->epoch);
    client->ttl_ns = sim_chance(sim, 20)
                         ? 0
                         : sim_between(sim, SIM_S, sim->profile.ttl_max_ns);
    client->wait_ns = sim_chance(sim, 30) ? 0 : sim_between(sim, 0, 8 * SIM_S);
    ask(sim, client);
}

/* How long it waits for an answer; some do not wait for a commit. */
static int64_t
patience_ns(struct sim *sim)
{
    if (sim_has_fault(sim, SIM_CALLERS_GO) && sim_chance(sim, 60)) {
        return sim_between(sim, SIM_MS, 30 * SIM_MS);
    }
    return sim_between(sim, 20 * SIM_MS,
                       sim_chance(sim, 30) ? 50 * SIM_MS : 3 * SIM_S);
}

static void
ask(struct sim *sim, struct sim_client *client)
{
    struct call *call = make_call(sim, client, CALL_CLAIM);

    client->tries++;
    client->call = call->id;
    client->asked = call->to;
    sim_trace(sim, "c%u: asks r%u for claim %s", client->index, call->to->index,
              client->claim_id);
    send_call(call);
    plan_next(sim, client,
              client->state == SIM_HOLDING
                  ? sim_between(sim, 0, 2 * SIM_S)
                  : (sim_has_fault(sim, SIM_CALLERS_GO) ? 0 : client->wait_ns) +
                        patience_ns(sim));
}

/* No answer within the client's patience. */
static void
lose_patience(struct sim *sim, struct sim_client *client)
{
    if (client->tries < 6 && sim_chance(sim, 60)) {
        if (sim_chance(sim, 60)) {
            send_cancel(sim, client);
        }
        ask(sim, client);
        return;
    }
    if (sim_chance(sim, 60)) {
        send_cancel(sim, client);
    }
    become_idle(sim, client);
}

static void
release(struct sim *sim, struct sim_client *client)
{
    uint32_t times = sim_chance(sim, 25) ? 2 : 1;

    sim_trace(sim, "c%u: releases claim %s", client->index, client->claim_id);
    client->holds->shown.given_up = true;
    for (uint32_t i = 0; i < times; i++) {
        send_call(make_call(sim, client, CALL_RELEASE));
    }
    become_idle(sim, client);
}

/* To use its id again it waits for the answer. */
static void
release_to_claim_again(struct sim *sim, struct sim_client *client)
{
    sim_trace(sim, "c%u: releases claim %s, to ask for it again", client->index,
              client->claim_id);
    client->holds->shown.given_up = true;
    client->released = client->holds;
    client->holds = NULL;
    client->epoch++;
    client->state = SIM_RELEASING;
    send_call(make_call(sim, client, CALL_RELEASE));
    plan_next(sim, client, sim_between(sim, 0, 3 * SIM_S));
}

/* What else was asked under that id may be answered, and done, any time. */
static void
hear_released(struct sim *sim, const struct call *call)
{
    struct sim_client *client = call->client;

    if (call->epoch != client->epoch || client->state != SIM_RELEASING) {
        return;
    }
    if (call->status == WP_OK && client->out == 1 && !sim->healed) {
        sim->n_met[SIM_MET_CLAIMED_AGAIN]++;
        client->epoch++;
        client->tries = 0;
        client->state = SIM_ASKING;
        ask(sim, client);
    } else {
        become_idle(sim, client);
    }
}

static void
use_lease(struct sim *sim, struct sim_client *client)
{
    uint64_t what = wp_rng_below(&sim->rng, 100);
    struct call *call;

    if (!sim_oracle_is_live(sim, client->holds) || what < 5) {
        /* Over, or its client vanishes; its lease runs out. */
        become_idle(sim, client);
    } else if (what < 35) {
        if (sim->profile.claims_again && sim_chance(sim, 60)) {
            release_to_claim_again(sim, client);
        } else {
            release(sim, client);
        }
    } else if (what < 65) {
        call = make_call(sim, client, CALL_RENEW);
        call->change.ttl_ns = client->ttl_ns;
        send_call(call);
        plan_next(sim, client, sim_between(sim, 0, 3 * SIM_S));
    } else if (what < 75) {
        ask(sim, client);
    } else {
        plan_next(sim, client, sim_between(sim, 0, 5 * SIM_S));
    }
}

static void
act(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_client *client = ctx;

    if (arg != client->step) {
        return;
    }
    switch (client->state) {
    case SIM_IDLE:
        if (!sim->healed) {
            start_claim(sim, client);
        }
        break;
    case SIM_ASKING:
        lose_patience(sim, client);
        break;
    case SIM_HOLDING:
        use_lease(sim, client);
        break;
    case SIM_RELEASING:
        become_idle(sim, client);
        break;
    }
}

static void
plan_next(struct sim *sim, struct sim_client *client, int64_t delay_ns)
{
    client->step++;
    sim_in(sim, delay_ns, NULL, act, client, client->step);
}

/* --- What a client hears. --- */

/* Somebody else has ended the lease that this answer tells of, the client has
 * asked again, and has what it got for that. */
static bool
is_outdated(struct sim *sim, const struct sim_client *client,
            const struct wp_grant *grant)
{
    const struct sim_sandbox *sandbox = sim_backend_find(sim, grant->sandbox);

    return sandbox != NULL && sandbox->shown.given_up &&
           client->holds != NULL && client->holds != sandbox &&
           sim_oracle_is_live(sim, client->holds);
}

/* A replica that had not heard of the lease's end was the last to tell the store
 * of it: there it stands until the keeper hears of it. */
static void
hear_past(struct sim *sim, struct sim_client *client)
{
    if (sim->n_met[SIM_MET_FAILOVERS] == 0) {
        sim_wrong(sim, "I2: claim %s is shown %s, which it has released",
                  client->claim_id, client->released->name);
    }
    sim->n_met[SIM_MET_PAST_SHOWN]++;
    become_idle(sim, client);
}

static void
hear_claim(struct sim *sim, struct call *call)
{
    struct sim_client *client = call->client;

    if (call->status == WP_OK) {
        if (call->until_ns <= sim->now_ns ||
            is_outdated(sim, client, &call->claim.grant)) {
            return; /* It came too late to be of use. */
        }
        if (client->released != NULL &&
            strcmp(client->released->name, call->claim.grant.sandbox) == 0) {
            hear_past(sim, client);
            return;
        }
        sim_oracle_shown(sim, client, &call->claim.grant, call->until_ns);
        memcpy(client->token, call->claim.grant.token, sizeof client->token);
        if (client->state == SIM_ASKING) {
            client->state = SIM_HOLDING;
            plan_next(sim, client, sim_between(sim, 0, 3 * SIM_S));
        }
        return;
    }
    sim->n_refused++;
    sim->n_met[SIM_MET_OVER_QUOTA] +=
        call->claim.quota == WP_QUOTA_LEASES ? 1 : 0;
    if (call->status == WP_ALREADY_EXISTS || call->claim.reason == NULL) {
        sim_wrong(sim, "I2: claim %s is refused as if it were another's: %s",
                  client->claim_id, wp_status_name(call->status));
    }
    if (client->state == SIM_ASKING && call->id == client->call) {
        if (sim_chance(sim, 50)) {
            plan_next(sim, client, sim_between(sim, 0, SIM_S));
        } else {
            become_idle(sim, client);
        }
    }
}

static void
hear_renew(struct sim *sim, struct call *call)
{
    struct sim_client *client = call->client;
    struct sim_sandbox *sandbox = client->holds;
    int64_t ttl_ns = call->change.ttl_ns > 0 ? call->change.ttl_ns
                                             : sim->profile.ttl_max_ns / 2;

    if (call->status == WP_OK) {
        memcpy(client->token, call->change.new_token, sizeof client->token);
        sim_oracle_renewed(sim, client, call->received_ns + ttl_ns);
    } else if (call->status == WP_FAILED_PRECONDITION) {
        if (!sandbox->dead) {
            sim_wrong(sim, "claim %s is told that %s, which lives, is lost",
                      client->claim_id, sandbox->name);
        }
        release(sim, client);
    } else if (call->status != WP_UNAVAILABLE) {
        if (sim_oracle_is_live(sim, sandbox) && !sandbox->dead) {
            sim_wrong(sim, "I1: a live lease of %s is not renewed: %s (%s)",
                      sandbox->name, wp_status_name(call->status),
                      call->change.reason);
        }
        become_idle(sim, client);
    }
}

/* Whoever said it is gone, and the sandbox does not say so: the lease is
 * forgotten, or ends as it was before. */
static bool
is_forgotten(struct sim *sim, const struct call *call)
{
    const struct sim_sandbox *sandbox;

    if (!sim->profile.noted || call->status != WP_OK ||
        sim_replica_lives(call->to, call->life)) {
        return false;
    }
    sandbox = call->kind == CALL_CLAIM
                  ? sim_backend_find(sim, call->claim.grant.sandbox)
                  : NULL;
    return sandbox == NULL || !sim_backend_is_noted(sandbox, call->claim_id,
                                                    call->claim.grant.fence);
}

static void
receive_answer(struct sim *sim, void *ctx, uint64_t arg)
{
    struct call *call = ctx;
    struct sim_client *client = call->client;

    (void)arg;
    if (call->kind != CALL_RELEASE && is_forgotten(sim, call)) {
        free_call(call);
        return;
    }
    if (call->kind == CALL_RELEASE) {
        if (call->status != WP_OK && call->status != WP_UNAVAILABLE &&
            call->status != WP_ABORTED) {
            sim_wrong(sim, "a release by its holder is refused: %s",
                      wp_status_name(call->status));
        }
        hear_released(sim, call);
    } else if (call->epoch == client->epoch) {
        if (call->kind == CALL_CLAIM) {
            hear_claim(sim, call);
        } else if (call->about == client->holds) {
            hear_renew(sim, call);
        }
    }
    free_call(call);
}

void
sim_client_init(struct sim *sim, uint32_t index)
{
    struct sim_client *client = &sim->clients[index];

    client->index = index;
    (void)snprintf(client->tenant, sizeof client->tenant, "t%u", index % 3);
    plan_next(sim, client, sim_between(sim, 0, 3 * SIM_S));
}
