#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/mutant.h"
#include "tests/sim/sim.h"

/* How long a connection waits for an answer before it takes itself for dead. */
#define ANSWER_WITHIN_NS (1 * SIM_S)

/* An op on its way: a copy, as on a wire, with the texts it points to. */
struct sim_request {
    struct wp_list all;     /* In sim->requests. */
    struct wp_list waiting; /* In its connection, while that wants an answer. */
    struct sim *sim;
    struct sim_replica *from;
    uint32_t life;
    uint32_t epoch;            /* Of the connection. */
    struct wp_lease_op *whose; /* The core's; only while waiting. */
    struct wp_lease_op op;
    char texts[7][WP_CLAIM_ID_MAX + 1];
    struct wp_pool_snapshot snapshot; /* Its bytes are owned. */
    int64_t sent_ns;
    uint64_t generation;
    uint32_t store_run; /* To which process of the store it was sent. */
    bool arrived;
    bool stale;            /* Refused for its generation. */
    bool lost;             /* Its connection broke before it was sent whole. */
    int64_t extra_ns;      /* It stays in the network so much longer. */
    enum wp_status status; /* The store's answer. */
    struct wp_lease_record found;
};

/* --- The way there and back. --- */

static struct wp_str
keep_text(struct sim_request *request, int which, struct wp_str text)
{
    WP_ASSERT(text.len <= WP_CLAIM_ID_MAX);
    if (text.len > 0) {
        memcpy(request->texts[which], text.ptr, text.len);
    }
    return (struct wp_str){request->texts[which], text.len};
}

static struct sim_request *
make_request(struct sim_replica *replica, struct wp_lease_op *op)
{
    struct sim_request *request = sim_alloc(sizeof *request);

    request->sim = replica->sim;
    request->from = replica;
    request->life = replica->life;
    request->epoch = replica->conn.epoch;
    request->whose = op;
    request->sent_ns = replica->sim->now_ns;
    request->generation = replica->generation;
    request->store_run = replica->conn.store_run;
    request->op = *op;
    request->op.pool_namespace = keep_text(request, 0, op->pool_namespace);
    request->op.pool = keep_text(request, 1, op->pool);
    request->op.sandbox = keep_text(request, 2, op->sandbox);
    request->op.endpoint = keep_text(request, 3, op->endpoint);
    request->op.claim_id = keep_text(request, 4, op->claim_id);
    request->op.tenant = keep_text(request, 5, op->tenant);
    request->op.reason = keep_text(request, 6, op->reason);
    request->op.found = NULL;
    if (sim_store_is_snapshot(op)) {
        request->snapshot = (struct wp_pool_snapshot){
            .bytes = sim_alloc(WP_SNAPSHOT_MAX), .cap = WP_SNAPSHOT_MAX};
        if (op->kind == WP_LEASE_PUT_SNAPSHOT) {
            request->snapshot.len = op->snapshot->len;
            memcpy(request->snapshot.bytes, op->snapshot->bytes,
                   op->snapshot->len);
        }
        request->op.snapshot = &request->snapshot;
    }
    wp_list_push_back(&replica->sim->requests, &request->all);
    wp_list_init(&request->waiting);
    return request;
}

static void
free_request(struct sim_request *request)
{
    wp_list_remove(&request->all);
    wp_list_remove(&request->waiting);
    free(request->snapshot.bytes);
    free(request);
}

/* Gives the core its answer. The op may be gone when this returns. */
static void
answer(struct sim_request *request, enum wp_status status)
{
    struct wp_lease_op *op = request->whose;

    wp_list_remove(&request->waiting);
    request->whose = NULL;
    if (op->found != NULL && (status == WP_OK || status == WP_ABORTED)) {
        *op->found = request->found;
    }
    if (op->kind == WP_LEASE_GET_SNAPSHOT && status == WP_OK) {
        memcpy(op->snapshot->bytes, request->snapshot.bytes,
               request->snapshot.len);
        op->snapshot->len = request->snapshot.len;
    }
    sim_replica_enter(request->from);
    op->done(op, status);
}

/* The generation that it was sent under is not believed in any more. */
static bool
is_late(const struct sim_request *request)
{
    return request->sim->profile.store == SIM_STORE_SHARED &&
           !sim_store_is_snapshot(&request->op) &&
           request->generation != request->from->generation;
}

/* Whoever says so may have been replaced: what it has done may be forgotten,
 * and the recovery may have passed it. */
static enum wp_status
doubted(const struct sim_request *request)
{
    enum wp_status status = request->status;

    if (status == WP_OK && request->op.kind != WP_LEASE_FETCH) {
        request->sim->n_met[SIM_MET_LATE_OK]++;
        return WP_MUTANT(LATE_ANSWER_BELIEVED) ? WP_OK : WP_UNKNOWN_OUTCOME;
    }
    return status == WP_UNKNOWN_OUTCOME ? status : WP_UNAVAILABLE;
}

static void
receive_reply(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_request *request = ctx;

    (void)sim;
    (void)arg;
    if (request->whose != NULL &&
        sim_replica_lives(request->from, request->life)) {
        if (request->stale &&
            request->from->generation == request->generation) {
            sim_recover_doubt(request->from);
        }
        answer(request, is_late(request) ? doubted(request) : request->status);
    }
    free_request(request);
}

static int64_t
one_way_ns(struct sim *sim)
{
    int64_t ns = sim_between(sim, 20 * WP_NS_PER_US, 2 * SIM_MS);

    if (sim->store_slow_until_ns > sim->now_ns) {
        ns += sim_between(sim, 0, 700 * SIM_MS);
    }
    return ns;
}

/* It has done what it was asked, and stands still before it says so. */
static int64_t
late_ns(struct sim *sim)
{
    return sim->store_late_until_ns > sim->now_ns
               ? sim_between(sim, 0, 2 * ANSWER_WITHIN_NS)
               : 0;
}

/* The later of that time and the time of what went before on the same way. */
static int64_t
behind(int64_t *last_ns, int64_t at_ns)
{
    *last_ns = at_ns > *last_ns ? at_ns : *last_ns;
    return *last_ns;
}

/* Fences keep what comes late from doing harm, but for an offer: its record may
 * have come and gone. The store is taken to know the keeper's connection, and
 * to refuse offers that came over an earlier one. */
static bool
is_outdated(const struct sim_request *request)
{
    const struct sim_replica *from = request->from;
    const struct sim_replica *keeper = request->sim->lock;

    return request->epoch < from->conn.session ||
           (keeper != NULL && keeper->keeper && keeper != from);
}

static void
arrive(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_request *request = ctx;
    struct sim_kept *kept = sim_store_of(sim, request->store_run);
    int64_t closed_ns = kept == &sim->kept ? sim_store_closed_until_ns(sim) : 0;

    (void)arg;
    if (request->lost || kept == NULL) {
        /* Who waits for its answer will give up by itself. */
        if (request->whose == NULL) {
            free_request(request);
        }
        return;
    }
    if (request->extra_ns > 0) {
        sim_in(sim, request->extra_ns, NULL, arrive, request, 0);
        request->extra_ns = 0;
        return;
    }
    if (closed_ns > sim->now_ns) {
        sim_at(sim, closed_ns, NULL, arrive, request, 0);
        return;
    }
    request->arrived = true;
    if (request->op.kind == WP_LEASE_OFFER && is_outdated(request)) {
        sim_trace(sim, "store: refuses an old offer of %.*s",
                  WP_STR_ARG(request->op.sandbox));
        free_request(request);
        return;
    }
    request->stale = kept->closed || request->generation != kept->generation;
    request->status =
        request->stale ? WP_UNAVAILABLE
                       : sim_store_apply(sim, kept, &request->op, request->from,
                                         request->life, &request->found);
    if (request->whose == NULL) {
        free_request(request);
        return;
    }
    sim_at(sim,
           behind(&request->from->conn.last_reply_ns,
                  sim->now_ns + one_way_ns(sim) + late_ns(sim) +
                      request->from->conn.lag_ns),
           request->from, receive_reply, request, 0);
}

/* --- The connection. --- */

static void watch(struct sim *sim, void *ctx, uint64_t arg);

static void
plan_watch(struct sim_replica *replica)
{
    const struct sim_request *oldest;

    if (replica->conn.watched || wp_list_empty(&replica->conn.waiting)) {
        return;
    }
    oldest = WP_CONTAINER_OF(replica->conn.waiting.next, struct sim_request,
                             waiting);
    replica->conn.watched = true;
    sim_at(replica->sim, oldest->sent_ns + ANSWER_WITHIN_NS, replica, watch,
           replica, replica->conn.epoch);
}

/* An answer that is overdue means that the connection is dead. */
static void
watch(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *replica = ctx;
    const struct sim_request *oldest;

    if (arg != replica->conn.epoch) {
        return;
    }
    replica->conn.watched = false;
    if (wp_list_empty(&replica->conn.waiting)) {
        return;
    }
    oldest = WP_CONTAINER_OF(replica->conn.waiting.next, struct sim_request,
                             waiting);
    if (oldest->sent_ns + ANSWER_WITHIN_NS <= sim->now_ns) {
        sim_conn_break(replica);
    } else {
        plan_watch(replica);
    }
}

static void
reconnect(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_replica *replica = ctx;

    if (arg != replica->conn.epoch || replica->pools == NULL) {
        return;
    }
    if (!sim_store_reachable(sim)) {
        int64_t from_ns = sim_store_closed_until_ns(sim) > sim->now_ns
                              ? sim_store_closed_until_ns(sim)
                              : sim->now_ns;

        sim_at(sim, from_ns + sim_between(sim, SIM_MS, 100 * SIM_MS), replica,
               reconnect, replica, arg);
        return;
    }
    sim_trace(sim, "r%u: connected to the store", replica->index);
    replica->conn.store_run = sim->kept.run;
    sim_recover_met(replica);
    replica->conn.lag_ns = 0;
    replica->conn.up = true;
    replica->conn.session = replica->conn.epoch;
}

/* What was sent but did not arrive: the first of it may still do so, late, and
 * in order; the rest is lost. */
static void
cut(struct sim_replica *replica)
{
    struct sim *sim = replica->sim;
    int64_t extra_ns =
        sim_chance(sim, 50)
            ? 0
            : sim_between(sim, 1,
                          sim_chance(sim, 50) ? 50 * SIM_MS : 30 * SIM_S);
    bool lost = false;

    if (sim->profile.store == SIM_STORE_LOCAL) {
        extra_ns = 0;
    }
    replica->conn.epoch++;
    replica->conn.up = false;
    replica->conn.watched = false;
    replica->conn.last_arrival_ns = 0;
    replica->conn.last_reply_ns = 0;
    WP_LIST_FOREACH (node, &replica->conn.waiting) {
        struct sim_request *request =
            WP_CONTAINER_OF(node, struct sim_request, waiting);

        lost = lost || (!request->arrived && sim_chance(sim, 40));
        request->lost = lost;
        request->extra_ns = extra_ns;
        if (!lost && !request->arrived &&
            sim->profile.store == SIM_STORE_LOCAL) {
            /* A transaction is done or not done when its process ends. */
            (void)sim_store_apply(sim, &sim->kept, &request->op, request->from,
                                  request->life, &request->found);
            request->lost = true;
        }
    }
}

void
sim_conn_break(struct sim_replica *replica)
{
    struct sim *sim = replica->sim;
    struct wp_list *node;

    if (!replica->conn.up || replica->pools == NULL) {
        return;
    }
    sim_trace(sim, "r%u: its connection to the store breaks", replica->index);
    cut(replica);
    sim_in(sim, sim_between(sim, SIM_MS, 500 * SIM_MS), replica, reconnect,
           replica, replica->conn.epoch);
    while ((node = wp_list_pop_front(&replica->conn.waiting)) != NULL) {
        sim->n_unknown++;
        answer(WP_CONTAINER_OF(node, struct sim_request, waiting),
               WP_UNKNOWN_OUTCOME);
    }
}

void
sim_conn_drop(struct sim_replica *replica)
{
    struct wp_list *node;

    cut(replica);
    while ((node = wp_list_pop_front(&replica->conn.waiting)) != NULL) {
        WP_CONTAINER_OF(node, struct sim_request, waiting)->whose = NULL;
    }
}

void
sim_conn_init(struct sim_conn *conn, uint32_t store_run)
{
    uint32_t epoch = conn->epoch;

    memset(conn, 0, sizeof *conn);
    wp_list_init(&conn->waiting);
    conn->epoch = epoch + 1;
    conn->session = conn->epoch;
    conn->store_run = store_run;
    conn->up = true;
}

enum wp_status
sim_conn_send(struct sim_replica *replica, struct wp_lease_op *op)
{
    struct sim *sim = replica->sim;
    struct sim_conn *conn = &replica->conn;
    struct sim_request *request;

    if (!conn->up && sim_chance(sim, 50)) {
        return WP_UNAVAILABLE;
    }
    request = make_request(replica, op);
    if (!conn->up) {
        request->status = WP_UNAVAILABLE;
        sim_in(sim, sim_between(sim, 0, 5 * SIM_MS), replica, receive_reply,
               request, 0);
        return WP_PENDING;
    }
    wp_list_push_back(&conn->waiting, &request->waiting);
    plan_watch(replica);
    sim_at(sim, behind(&conn->last_arrival_ns, sim->now_ns + one_way_ns(sim)),
           NULL, arrive, request, 0);
    return WP_PENDING;
}

void
sim_conn_fini(struct sim *sim)
{
    while (!wp_list_empty(&sim->requests)) {
        free_request(
            WP_CONTAINER_OF(sim->requests.next, struct sim_request, all));
    }
}
