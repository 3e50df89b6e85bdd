#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim_call.h"

static void ask(struct sim *sim, struct sim_client *client);
static void become_idle(struct sim *sim, struct sim_client *client);
static void plan_next(struct sim *sim, struct sim_client *client,
                      int64_t delay_ns);

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
    struct sim_call *call = sim_call_make(sim, client, SIM_CALL_CLAIM);

    client->tries++;
    client->call = call->id;
    client->asked = call->to;
    sim_trace(sim, "c%u: asks r%u for claim %s", client->index, call->to->index,
              client->claim_id);
    sim_call_send(call);
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
            sim_call_cancel(sim, client);
        }
        ask(sim, client);
        return;
    }
    if (sim_chance(sim, 60)) {
        sim_call_cancel(sim, client);
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
        sim_call_send(sim_call_make(sim, client, SIM_CALL_RELEASE));
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
    sim_call_send(sim_call_make(sim, client, SIM_CALL_RELEASE));
    plan_next(sim, client, sim_between(sim, 0, 3 * SIM_S));
}

/* What else was asked under that id may be answered, and done, any time. */
static void
hear_released(struct sim *sim, const struct sim_call *call)
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
    struct sim_call *call;

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
        call = sim_call_make(sim, client, SIM_CALL_RENEW);
        call->change.ttl_ns = client->ttl_ns;
        sim_call_send(call);
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
hear_claim(struct sim *sim, struct sim_call *call)
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
hear_renew(struct sim *sim, struct sim_call *call)
{
    struct sim_client *client = call->client;
    struct sim_sandbox *sandbox = client->holds;
    int64_t ttl_ns = call->change.ttl_ns > 0 ? call->change.ttl_ns
                                             : sim->profile.ttl_max_ns / 2;

    if (call->status == WP_OK) {
        memcpy(client->token, call->change.new_token, sizeof client->token);
        sim_oracle_renewed(sim, client, call->received_ns,
                           call->received_ns + ttl_ns);
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
is_forgotten(struct sim *sim, const struct sim_call *call)
{
    const struct sim_sandbox *sandbox;

    if (!sim->profile.noted || call->status != WP_OK ||
        sim_replica_lives(call->to, call->life)) {
        return false;
    }
    sandbox = call->kind == SIM_CALL_CLAIM
                  ? sim_backend_find(sim, call->claim.grant.sandbox)
                  : NULL;
    return sandbox == NULL || !sim_backend_is_noted(sandbox, call->claim_id,
                                                    call->claim.grant.fence);
}

void
sim_client_hear(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_call *call = ctx;
    struct sim_client *client = call->client;

    (void)arg;
    if (call->kind != SIM_CALL_RELEASE && is_forgotten(sim, call)) {
        sim_call_free(call);
        return;
    }
    if (call->kind == SIM_CALL_RELEASE) {
        if (call->status != WP_OK && call->status != WP_UNAVAILABLE &&
            call->status != WP_ABORTED) {
            sim_wrong(sim, "a release by its holder is refused: %s",
                      wp_status_name(call->status));
        }
        hear_released(sim, call);
    } else if (call->epoch == client->epoch) {
        if (call->kind == SIM_CALL_CLAIM) {
            hear_claim(sim, call);
        } else if (call->about == client->holds) {
            hear_renew(sim, call);
        }
    }
    sim_call_free(call);
}

void
sim_client_rush(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->profile.n_clients; i++) {
        if (sim->clients[i].state == SIM_IDLE) {
            plan_next(sim, &sim->clients[i],
                      sim_between(sim, 0, 200 * WP_NS_PER_US));
        }
    }
}

void
sim_client_init(struct sim *sim, uint32_t index)
{
    struct sim_client *client = &sim->clients[index];

    client->index = index;
    (void)snprintf(client->tenant, sizeof client->tenant, "t%u", index % 3);
    plan_next(sim, client, sim_between(sim, 0, 3 * SIM_S));
}
