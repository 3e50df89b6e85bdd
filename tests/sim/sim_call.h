/* tests/sim/sim_call.h - a client's call of a replica. */
#ifndef WP_TESTS_SIM_SIM_CALL_H
#define WP_TESTS_SIM_SIM_CALL_H

#include "tests/sim/sim.h"

enum sim_call_kind {
    SIM_CALL_CLAIM,
    SIM_CALL_RENEW,
    SIM_CALL_RELEASE,
};

/* A call: first a message to a replica, then in that replica's hands, then the
 * message back. */
struct sim_call {
    struct wp_list node; /* In the replica's calls while it has it. */
    struct sim *sim;
    struct sim_client *client;
    struct sim_replica *to;
    uint32_t epoch; /* The client's when it called. */
    uint64_t id;
    const struct sim_sandbox *about; /* What the client held when it called. */
    enum sim_call_kind kind;
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

/* Of what the client holds and wants now; to some replica. */
struct sim_call *sim_call_make(struct sim *sim, struct sim_client *client,
                               enum sim_call_kind kind);
/* It is on its way, or lost; the answer, if there is one, is heard. */
void sim_call_send(struct sim_call *call);
/* Tells the replica of the client's latest call that nobody waits for it. */
void sim_call_cancel(struct sim *sim, struct sim_client *client);
void sim_call_free(struct sim_call *call);

/* --- sim_client.c --- */

/* A call's answer has come; ctx is the call, and is freed. */
void sim_client_hear(struct sim *sim, void *ctx, uint64_t arg);

#endif
