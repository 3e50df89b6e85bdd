/* tests/sim/sim.h - one simulated world: replicas, store, backend and clients
 * in one process, on one clock, driven by one seed.
 *
 *   sim_test.c     options, seeds, mutants
 *   sim.c          the queue of events, time, the end of a run
 *   sim_replica.c  replicas of the allocator: the real pool core
 *   sim_store.c    the lease store, and the port that the core has to it
 *   sim_conn.c     the connections to it, and what is on its way there and back
 *   sim_feed.c     what the store tells the replicas of each other's changes
 *   sim_recover.c  the way out when a store may have lost writes
 *   sim_failover.c processes of the store: one ends, another takes its place
 *   sim_backend.c  what makes and destroys sandboxes; they live in the world
 *   sim_client.c   clients that claim, retry, renew, release and vanish
 *   sim_call.c     their calls: the way to a replica, and back
 *   sim_nemesis.c  faults
 *   sim_shape.c    what others do to pools, leases and sandboxes
 *   sim_oracle.c   what must be true, from the world's point of view
 *
 * Everything that happens is an event at a time of the one true clock; nothing
 * looks at the machine's clock, at addresses or at another source of chance
 * than sim->rng. So a seed replays exactly. */
#ifndef WP_TESTS_SIM_SIM_H
#define WP_TESTS_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "pool/base/clock.h"
#include "pool/base/list.h"
#include "pool/base/rng.h"
#include "pool/pool.h"
#include "tests/support/pool/manual_clock.h"

enum {
    SIM_REPLICAS_MAX = 3,
    SIM_CLIENTS_MAX = 16,
    SIM_SLOTS_MAX = 40,
    SIM_ID_MAX = 32,
    SIM_EVENTS_PER_SEED_MAX = 1000000,
    SIM_TELLING_MAX = 4, /* Records that recovery tells at a time. */
    SIM_HAD_MAX = 256,
};

#define SIM_MS WP_NS_PER_MS
#define SIM_S WP_NS_PER_S

struct sim;
struct sim_replica;

typedef void (*sim_event_fn)(struct sim *sim, void *ctx, uint64_t arg);

struct sim_event {
    int64_t at_ns;
    int64_t due_ns; /* When it would have been, without a pause. */
    uint64_t seq;   /* Among equals in time: the older first. */
    sim_event_fn fn;
    void *ctx;
    uint64_t arg;
    struct sim_replica *to; /* Whom it reaches: late while that one pauses. */
    bool owned;             /* ctx is freed if it never comes to pass. */
};

/* Kinds of faults; a seed has some of them. */
#define SIM_FAULTS(X)                                                          \
    X(SANDBOX_DIES, "sandbox-dies")                                            \
    X(CREATE_FAILS, "create-fails")                                            \
    X(BACKEND_SLOW, "backend-slow")                                            \
    X(BACKEND_FULL, "backend-full")                                            \
    X(REPORTS_REPEAT, "reports-repeat")                                        \
    X(TARGET_MOVES, "target-moves")                                            \
    X(CALLS_LOST, "calls-lost")                                                \
    X(CALLS_SLOW, "calls-slow")                                                \
    X(CALLERS_GO, "callers-go")                                                \
    X(STORE_SLOW, "store-slow")                                                \
    X(STORE_STALLS, "store-stalls")                                            \
    X(STORE_AWAY, "store-away")                                                \
    X(STORE_LATE, "store-late")                                                \
    X(CONN_BREAKS, "conn-breaks")                                              \
    X(WALL_JUMPS, "wall-jumps")                                                \
    X(PAUSES, "pauses")                                                        \
    X(CRASHES, "crashes")                                                      \
    X(FEED_BREAKS, "feed-breaks")                                              \
    X(STORE_FORGETS, "store-forgets")                                          \
    X(STORE_RESTARTS, "store-restarts")                                        \
    X(LEASES_END, "leases-end")                                                \
    X(RETIRES, "retires")                                                      \
    X(FOUND, "found")                                                          \
    X(POOL_CHANGES, "pool-changes")                                            \
    X(POOL_GOES, "pool-goes")

enum sim_fault {
#define X(name, text) SIM_##name,
    SIM_FAULTS(X)
#undef X
    SIM_FAULT_COUNT
};

/* What is met in recoveries: that a situation arises is shown by its count. */
#define SIM_MET(X)                                                             \
    X(FAILOVERS, "failovers that lost writes")                                 \
    X(AGAIN, "more in mid-recovery")                                           \
    X(CLAIMED_AGAIN, "claim ids used again")                                   \
    X(REFUSED, "second leases refused")                                        \
    X(TOLD_AGAIN, "of them told again and taken")                              \
    X(LATE_OK, "late answers of OK")                                           \
    X(TWO_SERVERS, "recoveries that met another server")                       \
    X(COPIED, "copies of a recovery begun again")                              \
    X(PAST_SHOWN, "past leases shown")                                         \
    X(LEFT, "callers gone in mid-commit")                                      \
    X(LEFT_HELD, "of them at another replica by then")                         \
    X(TAKEN_BACK, "leases of nobody taken back")                               \
    X(LOOKED, "leases told of by a Get")                                       \
    X(OVER_QUOTA, "claims over a tenant's quota")                              \
    X(UNSEEN, "claims refused until it is known what lives")                   \
    X(REBUILT, "leases rebuilt from what sandboxes say")                       \
    X(FORGOTTEN, "leases that no sandbox told of in time")

enum sim_met {
#define X(name, text) SIM_MET_##name,
    SIM_MET(X)
#undef X
    SIM_MET_COUNT
};

/* What keeps the leases. */
enum sim_store_kind {
    SIM_STORE_MEMORY, /* The one of the product: nothing outlives a process. */
    SIM_STORE_LOCAL,  /* As SQLite: in the process, one replica, durable. */
    SIM_STORE_SHARED, /* As Redis: over a network, several replicas. */
};

/* What a seed is like; drawn at its start. */
struct sim_profile {
    uint32_t faults; /* Bits of enum sim_fault. */
    uint32_t n_replicas;
    uint32_t n_clients;
    uint32_t target;
    uint32_t tenant_leases_max; /* 0: no bound. */
    enum wp_cold_start cold_start;
    enum sim_store_kind store;
    bool store_inline; /* LOCAL: commits are answered at once. */
    bool noted; /* MEMORY: sandboxes outlive the process and say who leases
                 * them, as in a cluster. */
    bool claims_again;   /* Clients use the ids of released claims again. */
    int64_t skew_max_ns; /* Of a replica's wall clock, either way. */
    int64_t ttl_max_ns;
    int64_t lead_ns; /* Of a creation, without faults. */
    int64_t faults_end_ns;
    int64_t fault_gap_ns;         /* Mean time between two faults. */
    struct wp_scale_policy scale; /* PLAIN: the target is set from outside. */
};

/* What the clients were shown of a sandbox's lease. A sandbox is shown to one
 * claim in its life, so there is one of these. */
struct sim_shown {
    char claim_id[SIM_ID_MAX]; /* "": to none yet. */
    uint64_t fence;
    int64_t live_until_ns; /* True time, by the clock of who granted it. */
    int64_t renewed_ns;    /* When the latest renewal came in. */
    bool given_up;         /* Its client released it, or forgot it. */
};

/* What stands on a sandbox of its lease, for the next process. */
struct sim_note {
    bool there;
    char claim_id[SIM_ID_MAX];
    char tenant[4];
    uint64_t fence;
    int64_t deadline_wall_ms;
    int64_t until_wall_ms; /* No renewal goes beyond without another note. */
    int64_t granted_wall_ms;
    uint64_t fingerprint;
    uint32_t served;
};

struct sim_sandbox {
    uint32_t id;
    uint8_t uid[WP_UID_LEN];
    char name[WP_SANDBOX_NAME_MAX + 1];
    struct sim_replica *owner; /* Who ordered it or took it over. */
    uint32_t owner_life;
    struct wp_slot_ref ref;
    bool foreign; /* Somebody else made it. */
    bool answers; /* It became ready once. */
    bool dead;    /* It ended by itself. */
    bool destroying;
    bool gone;
    bool told;                /* Its lease was in an answer to somebody. */
    int64_t unshown_since_ns; /* It is held, and nobody has been told. */
    struct sim_shown shown;
    struct sim_note note;
    char claim_told[SIM_ID_MAX]; /* A Get said that it holds this. */
    uint64_t bound;              /* The binding that it has; 0: none. */
    struct sim_binding *binding; /* Under way to it; or NULL. */
};

/* What a process of the store has. */
struct sim_kept {
    uint32_t run; /* Which process; 0: none. */
    uint64_t generation;
    bool closed;
    uint32_t closed_at; /* Which process was told to; copies have it, too. */
    uint32_t restored_life[SIM_REPLICAS_MAX]; /* Who restored it. */
    struct wp_lease_record *records;          /* Owned; ENDED ones included. */
    uint32_t n;
    uint32_t cap;
};

/* One replica's connection to the store: FIFO in both directions until it
 * breaks. */
struct sim_conn {
    bool up;
    bool watched; /* A look at the oldest request is planned. */
    uint32_t epoch;
    uint32_t store_run; /* The store's process that it leads to. */
    uint32_t session;   /* The latest that the store has seen begin. */
    int64_t last_arrival_ns;
    int64_t last_reply_ns;
    int64_t lag_ns;         /* Of answers, since its process was replaced. */
    struct wp_list waiting; /* Requests without an answer, oldest first. */
};

/* What a replica hears of the changes that others make. */
struct sim_feed {
    bool up;      /* The store has its subscription. */
    bool syncing; /* It waits for a copy of all records. */
    bool missed;  /* It had no room for a record since it asked for one. */
    uint32_t epoch;
    uint32_t store_run; /* The store's process that it leads to. */
    int64_t up_since_ns;
    int64_t first_up_ns;        /* 0: never yet. */
    uint64_t synced_generation; /* What the latest copy is of. */
    int64_t last_ns;
    struct sim_told *told; /* Owned. */
    uint32_t n_told;
    uint32_t told_cap;
};

struct sim_replica {
    struct sim *sim;
    uint32_t index;
    uint32_t life; /* Counts its processes. */
    struct wp_clock_manual clock;
    int64_t wall_skew_ns;
    struct wp_pools *pools; /* NULL while it is down. */
    int64_t paused_until_ns;
    uint64_t turn; /* The turn that is planned; older plans are void. */
    int64_t turn_at_ns;
    bool ending; /* Its process is being ended: nothing leaves it. */
    bool keeper;
    int64_t start_ns;
    int64_t silent_since_ns; /* While it is down or stands still. */

    /* sim_recover.c, but for the first. */
    uint64_t generation;  /* Of the store, as it knows it; 0: in doubt. */
    uint64_t recovering;  /* The generation that it tells; 0: none. */
    uint64_t distrusted;  /* The one that it told in vain. */
    uint64_t recovery_nr; /* Of its steps: older ones are void. */
    uint32_t store_run;   /* The store's process that it has met. */
    uint32_t admin_run;   /* The one that its questions go to. */
    uint32_t restored_to; /* The one that it tells. */
    bool refused;         /* A lease, for its claim has another there. */
    bool again;           /* It tells for the second time. */
    int64_t refused_ns;
    bool one_left;  /* Another one was given up since the last recovery. */
    bool told_left; /* What it told knows of that. */
    uint32_t cursor;
    uint32_t n_telling;
    uint32_t n_had;
    struct wp_lease_record telling[SIM_HAD_MAX];
    struct wp_lease_record had[SIM_HAD_MAX];

    struct sim_conn conn;
    struct sim_feed feed; /* With a shared store. */
    struct wp_list calls; /* Calls it has not answered. */
};

enum sim_client_state {
    SIM_IDLE,
    SIM_ASKING,
    SIM_HOLDING,
    SIM_RELEASING, /* It will use the id again once that is answered. */
};

struct sim_client {
    uint32_t index;
    enum sim_client_state state;
    uint32_t epoch; /* Of its present claim: what belongs to others is void. */
    uint32_t step;  /* Of its timers: older ones are void. */
    uint32_t tries;
    uint32_t out;              /* Calls that somebody has. */
    uint64_t call;             /* Its latest claim call, for a cancel. */
    struct sim_replica *asked; /* Where that call went. */
    char claim_id[SIM_ID_MAX];
    char tenant[4];
    int64_t ttl_ns;
    int64_t wait_ns;
    uint8_t token[WP_TOKEN_LEN];
    struct sim_sandbox *holds;
    struct sim_sandbox *released; /* Under this claim id; or NULL. */
};

struct sim {
    uint64_t seed;
    struct wp_rng rng;
    bool trace;
    bool careful; /* What is dear to check is checked at each step, too. */
    int64_t now_ns;
    struct sim_profile profile;

    struct sim_event *events; /* Owned; a binary heap. */
    uint32_t n_events;
    uint32_t events_cap;
    uint64_t event_seq;
    uint64_t n_fired;
    struct sim_replica *stepped; /* Whom the present event concerned. */

    uint32_t n_replicas;
    struct sim_replica replicas[SIM_REPLICAS_MAX];
    struct sim_client clients[SIM_CLIENTS_MAX];
    uint32_t target; /* As last set. */
    uint32_t target_max;
    bool healed;              /* No more faults, no new claims. */
    struct sim_replica *lock; /* Who holds the sandboxes' lock; or NULL. */

    struct sim_sandbox **sandboxes; /* Owned, with what they point to. */
    uint32_t n_sandboxes;
    uint32_t sandboxes_cap;
    int64_t create_fails_until_ns;
    int64_t backend_slow_until_ns;
    int64_t backend_full_until_ns;

    struct sim_kept kept;    /* By the process of the store that counts. */
    struct sim_kept old;     /* By the one before, while it answers still. */
    struct sim_kept backup;  /* What the next one may have. */
    struct wp_list requests; /* All that are somewhere. */
    uint8_t *snapshot;       /* Of the pool, beside its records. Owned. */
    size_t snapshot_len;
    uint64_t last_generation;
    bool lossy; /* Until what it lost has been told. */
    int64_t backup_ns;
    int64_t store_away_until_ns;
    int64_t store_stalled_until_ns;
    int64_t store_slow_until_ns;
    int64_t store_late_until_ns;
    int64_t uncalm_ns; /* When something kept leases from being taken back. */
    int64_t calls_lost_until_ns;

    uint64_t next_call;
    uint32_t calls_open; /* Received by a replica, not answered. */
    uint64_t n_shown;
    uint64_t n_refused;
    uint64_t n_unknown;
    uint64_t n_faults;
    uint64_t n_met[SIM_MET_COUNT];
};

/* --- sim.c --- */

/* A run's whole life: init, run (returns only when all was well), fini. trace
 * makes it careful, too. */
void sim_init(struct sim *sim, uint64_t seed, bool trace);
void sim_run(struct sim *sim);
void sim_fini(struct sim *sim);

/* Has fn called at that time (or now, if it is past). to may be NULL. */
void sim_at(struct sim *sim, int64_t at_ns, struct sim_replica *to,
            sim_event_fn fn, void *ctx, uint64_t arg);
/* From now on. */
void sim_in(struct sim *sim, int64_t delay_ns, struct sim_replica *to,
            sim_event_fn fn, void *ctx, uint64_t arg);
/* The same with a message of its own, which fn frees. */
void sim_send(struct sim *sim, int64_t delay_ns, struct sim_replica *to,
              sim_event_fn fn, void *message);
/* Zeroed memory. */
void *sim_alloc(size_t size);
/* Uniform in [low, high). */
int64_t sim_between(struct sim *sim, int64_t low, int64_t high);
/* True with a chance of percent in a hundred. */
bool sim_chance(struct sim *sim, uint32_t percent);
bool sim_has_fault(const struct sim *sim, enum sim_fault fault);
const char *sim_fault_name(enum sim_fault fault);
/* One line of the trace; nothing without --trace. */
void sim_trace(struct sim *sim, const char *fmt, ...) WP_PRINTF(2, 3);
/* Says what is wrong and ends the process. */
WP_NORETURN void sim_wrong(struct sim *sim, const char *fmt, ...)
    WP_PRINTF(2, 3);

/* --- sim_replica.c --- */

void sim_replica_init(struct sim *sim, uint32_t index);
void sim_replica_fini(struct sim_replica *replica);
/* It stands still until then. */
void sim_replica_pause(struct sim_replica *replica, int64_t until_ns);
/* Its process ends at once, and another one starts later. */
void sim_replica_crash(struct sim_replica *replica);
/* What its pool is to be. */
struct wp_pool_spec sim_replica_spec(const struct sim_replica *replica);
/* Its feed has brought it up to date. */
void sim_replica_synced(struct sim_replica *replica);
/* The true time at which this wall clock shows wall_ms. */
int64_t sim_replica_true_ns(const struct sim_replica *replica, int64_t wall_ms);
/* Before each call into its core: its clock shows the time. */
void sim_replica_enter(struct sim_replica *replica);
/* True when a message for that life of it can be delivered. */
bool sim_replica_lives(const struct sim_replica *replica, uint32_t life);

/* --- sim_store.c --- */

struct wp_lease_store sim_store_port(struct sim_replica *replica);
void sim_store_fini(struct sim *sim);
void sim_store_away(struct sim *sim, int64_t for_ns);
bool sim_store_reachable(const struct sim *sim);
/* It is away or stands still until then; in the past when it is not. */
int64_t sim_store_closed_until_ns(const struct sim *sim);
void sim_store_add(struct sim_kept *kept, const struct wp_lease_record *record);
/* to has what from has; it stays the process that it is. */
void sim_store_copy(struct sim_kept *to, const struct sim_kept *from);
/* What that process has; NULL: it has ended. */
struct sim_kept *sim_store_of(struct sim *sim, uint32_t run);
/* What the store does with an op that came from that life of the replica, in
 * one indivisible step; found is the record as it is afterwards. */
enum wp_status sim_store_apply(struct sim *sim, struct sim_kept *kept,
                               const struct wp_lease_op *op,
                               const struct sim_replica *from, uint32_t life,
                               struct wp_lease_record *found);
/* It is about the pool's snapshot, not about a lease. */
bool sim_store_is_snapshot(const struct wp_lease_op *op);

/* --- sim_conn.c --- */

void sim_conn_init(struct sim_conn *conn, uint32_t store_run);
/* Frees what is under way, of all connections. */
void sim_conn_fini(struct sim *sim);
/* Every request on it gets an unknown outcome; it comes back by itself. */
void sim_conn_break(struct sim_replica *replica);
/* Nobody waits for answers any more: the replica is gone. */
void sim_conn_drop(struct sim_replica *replica);
/* A store's commit, over the network: PENDING, or UNAVAILABLE at once. */
enum wp_status sim_conn_send(struct sim_replica *replica,
                             struct wp_lease_op *op);

/* --- sim_failover.c --- */

void sim_failover_start(struct sim *sim);
/* The store's process ends, and another one has its records, perhaps while the
 * replica stands still. */
void sim_failover_restart(struct sim *sim, struct sim_replica *replica);
/* Another process takes its place without its last writes, if that can be
 * recovered now; the first one may go on for a while. */
void sim_failover_forget(struct sim *sim);
/* A recovery has begun: the next process may have been left in the midst of it,
 * and come in the midst of it. */
void sim_failover_closed(struct sim *sim);

/* --- sim_recover.c --- */

/* The replica commits nothing more until it has told what it knows. */
void sim_recover_doubt(struct sim_replica *replica);
/* It has a connection to the store that answers now. */
void sim_recover_met(struct sim_replica *replica);

/* --- sim_feed.c --- */

/* The record is like this now (state NONE: gone), by that replica's doing, in
 * that process of the store. */
void sim_feed_changed(struct sim *sim, const struct sim_kept *kept,
                      const struct wp_lease_record *record,
                      const struct sim_replica *writer, uint32_t writer_life);
/* Subscribes and reads everything; sim_replica_synced is called when that is
 * done. Again at any time. */
void sim_feed_follow(struct sim_replica *replica);
void sim_feed_break(struct sim_replica *replica);
/* What is on its way to the replica may be lost, before it knows of a break. */
void sim_feed_lose(struct sim_replica *replica);
void sim_feed_fini(struct sim_replica *replica);

/* --- sim_backend.c --- */

struct wp_backend sim_backend_port(struct sim_replica *replica);
/* A sandbox that lives ends by itself; its owner hears of it later. */
void sim_backend_kill(struct sim *sim, struct sim_sandbox *sandbox);
/* The replica takes the place of who had the sandboxes before. */
void sim_backend_take_over(struct sim_replica *replica);
/* A sandbox that somebody else made is found by the replica, which keeps the
 * sandboxes. */
void sim_backend_find_foreign(struct sim_replica *replica);
/* NULL when there never was one of that name. */
struct sim_sandbox *sim_backend_find(struct sim *sim, const char *name);
/* Does it say that this claim has it? */
bool sim_backend_is_noted(const struct sim_sandbox *sandbox,
                          const char *claim_id, uint64_t fence);
uint32_t sim_backend_living(const struct sim *sim);

/* --- sim_client.c --- */

void sim_client_init(struct sim *sim, uint32_t index);
/* All that have nothing ask for a claim within a fifth of a millisecond. */
void sim_client_rush(struct sim *sim);
/* The lease of the sandbox is forgotten: whoever has it goes on without. */
void sim_client_forget(struct sim *sim, const struct sim_sandbox *sandbox);

/* --- sim_call.c --- */

/* A replica has a call of this claim. */
bool sim_call_waits(const struct sim *sim, const char *claim_id);
/* Frees the calls that replica has not answered: it is gone. */
void sim_call_drop_all(struct sim_replica *replica);
/* What the client's claim brings; 0: nothing. Draws nothing. */
uint64_t sim_call_binding(const struct sim *sim,
                          const struct sim_client *client);

/* --- sim_nemesis.c --- */

void sim_profile_draw(struct sim *sim);
void sim_nemesis_start(struct sim *sim);
/* The n-th seed that has this fault and no other. */
uint64_t sim_fault_seed(enum sim_fault fault, uint64_t n);

/* --- sim_shape.c --- */

/* Somebody ends the lease of a sandbox, as a claim's object that is deleted. */
void sim_shape_end(struct sim *sim, struct sim_replica *replica);
/* The keeper gives up a sandbox that did not fail. */
void sim_shape_retire(struct sim *sim);
void sim_shape_found(struct sim *sim);
/* Demand is announced to the keeper, now and again until all is healed, which
 * has what it has learned saved, too. */
void sim_shape_announce(struct sim *sim, void *ctx, uint64_t arg);
/* Every replica's pool is another one for a while. */
void sim_shape_change(struct sim *sim, int64_t for_ns);
/* Every replica's pool is removed, and comes back. */
void sim_shape_remove(struct sim *sim, int64_t for_ns);

/* --- sim_oracle.c --- */

/* A client has been shown this grant for its claim. */
void sim_oracle_shown(struct sim *sim, struct sim_client *client,
                      const struct wp_grant *grant, int64_t until_ns);
/* A Get at some replica said that the claim holds the sandbox of that name. */
void sim_oracle_told(struct sim *sim, const char *claim_id, const char *name);
/* The client's lease was renewed until then, by what came in at received_ns. */
void sim_oracle_renewed(struct sim *sim, struct sim_client *client,
                        int64_t received_ns, int64_t until_ns);
/* A replica has ordered another sandbox: may it have? */
void sim_oracle_ordered(struct sim *sim, struct sim_replica *replica);
/* A replica has the sandbox destroyed. */
/* The process is gone: what was shown of the sandbox's lease holds as far as
 * the sandbox itself says so. */
void sim_oracle_crashed(struct sim *sim, struct sim_sandbox *sandbox,
                        int64_t noted_until_ns);
void sim_oracle_destroy(struct sim *sim, struct sim_sandbox *sandbox);
/* True while the lease that was shown must be honoured. */
bool sim_oracle_is_live(const struct sim *sim,
                        const struct sim_sandbox *sandbox);
/* After every event. */
void sim_oracle_step(struct sim *sim);
/* What is where, into the trace. */
void sim_oracle_describe(struct sim *sim);
/* Why the world is not at rest as it should be; NULL when it is. */
const char *sim_oracle_unrest(struct sim *sim);

#endif
