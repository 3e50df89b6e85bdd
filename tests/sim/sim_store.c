#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/mutant.h"
#include "pool/lease_memory.h"
#include "pool/lease_rules.h"
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
    struct wp_pool_note note; /* PUT_NOTE, GET_NOTE; its bytes are owned. */
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

/* --- The store itself. --- */

static struct wp_lease_record *
find_by_claim(struct sim_kept *kept, struct wp_str claim_id,
              struct wp_str tenant)
{
    for (uint32_t i = 0; i < kept->n; i++) {
        struct wp_lease_record *record = &kept->records[i];

        if (wp_record_is_claimed(record->state) &&
            wp_str_is(claim_id, record->claim_id) &&
            wp_str_is(tenant, record->tenant)) {
            return record;
        }
    }
    return NULL;
}

static struct wp_lease_record *
find_by_uid(struct sim_kept *kept, const uint8_t *uid)
{
    for (uint32_t i = 0; i < kept->n; i++) {
        if (memcmp(kept->records[i].uid, uid, WP_UID_LEN) == 0) {
            return &kept->records[i];
        }
    }
    return NULL;
}

static struct wp_lease_record *
add_record(struct sim_kept *kept)
{
    if (kept->n == kept->cap) {
        kept->cap = kept->cap == 0 ? 64 : 2 * kept->cap;
        kept->records =
            realloc(kept->records, kept->cap * sizeof *kept->records);
        WP_ASSERT(kept->records != NULL);
    }
    return &kept->records[kept->n++];
}

static int64_t
closed_until_ns(const struct sim *sim)
{
    return sim->store_stalled_until_ns > sim->store_away_until_ns
               ? sim->store_stalled_until_ns
               : sim->store_away_until_ns;
}

bool
sim_store_reachable(const struct sim *sim)
{
    return closed_until_ns(sim) <= sim->now_ns;
}

void
sim_store_add(struct sim_kept *kept, const struct wp_lease_record *record)
{
    *add_record(kept) = *record;
}

void
sim_store_copy(struct sim_kept *to, const struct sim_kept *from)
{
    to->generation = from->generation;
    to->closed = from->closed;
    to->closed_at = from->closed_at;
    memcpy(to->told_life, from->told_life, sizeof to->told_life);
    to->n = 0;
    for (uint32_t i = 0; i < from->n; i++) {
        sim_store_add(to, &from->records[i]);
    }
}

struct sim_kept *
sim_store_of(struct sim *sim, uint32_t run)
{
    if (run == sim->kept.run) {
        return &sim->kept;
    }
    return run != 0 && run == sim->old.run ? &sim->old : NULL;
}

/* The same with a note. Now and then it comes back damaged. */
static enum wp_status
apply_note(struct sim *sim, const struct wp_lease_op *op)
{
    struct wp_pool_note *note = op->note;

    if (op->kind == WP_LEASE_PUT_NOTE) {
        WP_ASSERT(note->len <= WP_NOTE_MAX);
        free(sim->note);
        sim->note = sim_alloc(note->len);
        sim->note_len = note->len;
        memcpy(sim->note, note->bytes, note->len);
        sim_trace(sim, "store: has a note of %zu bytes", note->len);
        return WP_OK;
    }
    sim_trace(sim, "store: is asked for its note of %zu bytes", sim->note_len);
    if (sim->note_len == 0 || sim->note_len > note->cap) {
        return WP_NOT_FOUND;
    }
    memcpy(note->bytes, sim->note, sim->note_len);
    note->len = sim->note_len;
    if (sim_chance(sim, 5)) {
        note->bytes[wp_rng_below(&sim->rng, note->len)] ^= 1;
    }
    return WP_OK;
}

static bool
is_note(const struct wp_lease_op *op)
{
    return op->kind == WP_LEASE_PUT_NOTE || op->kind == WP_LEASE_GET_NOTE;
}

/* What the store does with an op, in one indivisible step. */
static enum wp_status
apply(struct sim *sim, struct sim_kept *kept, const struct wp_lease_op *op,
      const struct sim_replica *from, uint32_t life,
      struct wp_lease_record *found)
{
    static const char *const names[] = {
        "offer",  "grant",    "renew", "release", "undo",
        "expire", "withdraw", "lose",  "fetch",   "forget"};
    struct wp_lease_record *record =
        op->kind == WP_LEASE_FETCH && op->claim_id.len > 0
            ? find_by_claim(kept, op->claim_id, op->tenant)
            : find_by_uid(kept, op->uid);
    const struct wp_lease_record *claimed = NULL;
    struct wp_lease_record none;
    struct wp_lease_record before;
    enum wp_status status;

    memset(&none, 0, sizeof none);
    if (is_note(op)) {
        *found = none;
        return apply_note(sim, op);
    }
    if (op->kind == WP_LEASE_GRANT) {
        claimed = find_by_claim(kept, op->claim_id, op->tenant);
    }
    if (record == NULL) {
        record = &none;
    }
    before = *record;
    status = wp_lease_rules_apply(op, claimed, record);
    *found = *record;
    if (record == &none) {
        if (record->state != WP_RECORD_NONE) {
            *add_record(kept) = *record;
        }
    } else if (record->state == WP_RECORD_NONE) {
        *record = kept->records[--kept->n];
    } else if (record->fence < before.fence) {
        sim_wrong(sim, "I5: the fence of a record went back");
    }
    if (sim->profile.store == SIM_STORE_SHARED && status == WP_OK &&
        memcmp(&before, found, sizeof before) != 0) {
        memcpy(found->uid, op->uid, sizeof found->uid);
        sim_feed_changed(sim, kept, found, from, life);
    }
    sim_trace(sim, "store: %s %.*s claim %.*s fence %llu: %s", names[op->kind],
              WP_STR_ARG(op->sandbox), WP_STR_ARG(op->claim_id),
              (unsigned long long)op->fence, wp_status_name(status));
    return status;
}

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
    if (is_note(op)) {
        request->note = (struct wp_pool_note){.bytes = sim_alloc(WP_NOTE_MAX),
                                              .cap = WP_NOTE_MAX};
        if (op->kind == WP_LEASE_PUT_NOTE) {
            request->note.len = op->note->len;
            memcpy(request->note.bytes, op->note->bytes, op->note->len);
        }
        request->op.note = &request->note;
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
    free(request->note.bytes);
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
    if (op->kind == WP_LEASE_GET_NOTE && status == WP_OK) {
        memcpy(op->note->bytes, request->note.bytes, request->note.len);
        op->note->len = request->note.len;
    }
    sim_replica_enter(request->from);
    op->done(op, status);
}

/* The generation that it was sent under is not believed in any more. */
static bool
is_late(const struct sim_request *request)
{
    return request->sim->profile.store == SIM_STORE_SHARED &&
           !is_note(&request->op) &&
           request->generation != request->from->generation;
}

/* Whoever says so may have been replaced: what it has done may be forgotten, and
 * the recovery may have passed it. */
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

/* The later of that time and the time of what went before on the same way. */
static int64_t
behind(int64_t *last_ns, int64_t at_ns)
{
    *last_ns = at_ns > *last_ns ? at_ns : *last_ns;
    return *last_ns;
}

/* Fences keep what comes late from doing harm, but for an offer: its record may
 * have come and gone. The store is taken to know the keeper's connection, and to
 * refuse offers that came over an earlier one. */
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
    int64_t closed_ns = kept == &sim->kept ? closed_until_ns(sim) : 0;

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
    request->status = request->stale
                          ? WP_UNAVAILABLE
                          : apply(sim, kept, &request->op, request->from,
                                  request->life, &request->found);
    if (request->whose == NULL) {
        free_request(request);
        return;
    }
    sim_at(sim,
           behind(&request->from->conn.last_reply_ns,
                  sim->now_ns + one_way_ns(sim) + request->from->conn.lag_ns),
           request->from, receive_reply, request, 0);
}

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
        int64_t from_ns = closed_until_ns(sim) > sim->now_ns
                              ? closed_until_ns(sim)
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
            (void)apply(sim, &sim->kept, &request->op, request->from,
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

void
sim_store_away(struct sim *sim, int64_t for_ns)
{
    sim->store_away_until_ns = sim->now_ns + for_ns;
}

void
sim_store_fini(struct sim *sim)
{
    free(sim->note);
    while (!wp_list_empty(&sim->requests)) {
        free_request(
            WP_CONTAINER_OF(sim->requests.next, struct sim_request, all));
    }
}

/* --- The port. --- */

/* A store in the same process: the answer is known when commit returns, though
 * now and then it is that nobody knows. */
static enum wp_status
commit_inline(struct sim_replica *replica, struct wp_lease_op *op)
{
    struct sim *sim = replica->sim;
    struct wp_lease_record found;
    enum wp_status status;

    if (sim->store_away_until_ns > sim->now_ns) {
        return WP_UNAVAILABLE;
    }
    if (sim->store_stalled_until_ns > sim->now_ns) {
        if (sim_chance(sim, 50)) {
            (void)apply(sim, &sim->kept, op, replica, replica->life, &found);
        }
        sim->n_unknown++;
        return WP_UNKNOWN_OUTCOME;
    }
    status = apply(sim, &sim->kept, op, replica, replica->life, &found);
    if (op->found != NULL && (status == WP_OK || status == WP_ABORTED)) {
        *op->found = found;
    }
    return status;
}

static enum wp_status
commit(void *self, struct wp_lease_op *op)
{
    struct sim_replica *replica = self;
    struct sim *sim = replica->sim;
    struct sim_conn *conn = &replica->conn;
    struct sim_request *request;

    if (replica->ending) {
        return WP_PENDING;
    }
    if (sim->profile.store_inline) {
        return commit_inline(replica, op);
    }
    if (sim->profile.store == SIM_STORE_SHARED && replica->generation == 0) {
        return WP_UNAVAILABLE; /* In doubt. */
    }
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

struct wp_lease_store
sim_store_port(struct sim_replica *replica)
{
    static const struct wp_lease_store_ops local = {
        .name = "local", .durable = true, .commit = commit};
    static const struct wp_lease_store_ops shared = {
        .name = "shared", .durable = true, .shared = true, .commit = commit};

    switch (replica->sim->profile.store) {
    case SIM_STORE_MEMORY:
        break;
    case SIM_STORE_LOCAL:
        return (struct wp_lease_store){&local, replica};
    case SIM_STORE_SHARED:
        return (struct wp_lease_store){&shared, replica};
    }
    return wp_lease_memory();
}
