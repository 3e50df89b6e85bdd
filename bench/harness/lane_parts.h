/* bench/harness/lane_parts.h - what the files of a lane share; see lane.h. */
#ifndef WP_BENCH_HARNESS_LANE_PARTS_H
#define WP_BENCH_HARNESS_LANE_PARTS_H

#include "bench/harness/lane.h"
#include "proto/client/h2_client.h"
#include "pool/base/list.h"

enum {
    WP_LANE_TOKEN_MAX = 128,
};

struct wp_lane_token {
    uint16_t len;
    char bytes[WP_LANE_TOKEN_MAX];
};

struct warmpool;
struct warmpool_lease;
struct warmpool_stock;
struct wp_codec_lease;
struct wp_lane;
struct wp_worker;

/* How a lane's calls get to the target and back: one for each kind of target.
 * What it keeps is lane->carried. All on the lane's thread but open and close,
 * which are called when it does not run. */
struct wp_carrier {
    /* Connects. Not WP_OK: err says why; close undoes what was done. */
    enum wp_status (*open)(struct wp_lane *lane, struct wp_err *err);
    void (*close)(struct wp_lane *lane);
    /* Begins the worker's claim, or its release when it is releasing; the end
     * comes by wp_lane_call_over, never from within. False: nobody takes it. */
    bool (*start)(struct wp_worker *worker);
    /* A claim that needs no call: told as by read_claim. False: it needs one.
     * NULL: all do. */
    bool (*take_ahead)(struct wp_worker *worker);
    /* Gives up what start began. Returns the code that it counts as. */
    unsigned (*cancel)(struct wp_worker *worker);
    /* Sends what was begun, and waits at most so long for answers. Not WP_OK:
     * the run is over. */
    enum wp_status (*turn)(struct wp_lane *lane, int64_t wait_ns,
                           struct wp_err *err);
    /* A lost connection is tried again. */
    bool (*reopen)(struct wp_lane *lane, unsigned conn, struct wp_err *err);
    /* The claim's answer: tells wp_lane_record of each of its claims, and how
     * many leases the worker now has. */
    void (*read_claim)(struct wp_worker *worker, int64_t done_ns);
    /* False: that is no answer. */
    bool (*read_release)(struct wp_worker *worker, bool *was_held);
    /* The process that answers; 0: not known. NULL: it never is. */
    pid_t (*peer)(const struct wp_lane *lane);
};
extern const struct wp_carrier wp_carrier_grpc;
extern const struct wp_carrier wp_carrier_objects; /* SandboxClaims. */

/* Who makes one claim at a time, or one batch. In one list, or idle. */
struct wp_worker {
    struct wp_h2_call call; /* Of wp_carrier_grpc. */
    struct wp_list link;
    struct wp_lane *lane;
    int64_t due_ns;    /* Of the claim, then of what comes next. */
    int64_t sent_ns;   /* Of the call under way. */
    int64_t acked_ns;  /* When the claim was heard of; 0: not known. */
    uint64_t name;     /* Of wp_carrier_objects: the sandbox's, hashed. */
    uint64_t number;   /* Of the claim. */
    int64_t record;    /* Its index in the tally; -1: none. */
    bool counted;      /* Due after the warm-up. */
    bool releasing;    /* The call under way is a Release. */
    uint32_t n_tokens; /* Of leases to release. */
    struct wp_lane_token *tokens;
};

struct wp_lane {
    struct wp_lane_config config;
    const struct wp_plan *plan;
    struct wp_tally *tally;
    struct wp_lane_progress progress;
    const struct wp_carrier *carrier;
    void *carried;                /* The carrier's own. */
    struct warmpool *client;      /* NULL: no leases ahead. */
    struct warmpool_stock *stock; /* The same. */

    struct wp_worker *workers;
    struct wp_lane_token *tokens;
    uint32_t n_workers;
    uint32_t batch; /* Claims of one call; at least 1. */
    struct wp_worker **idle;
    uint32_t n_idle;
    /* Each in the order of what is due next. */
    struct wp_list claiming;
    struct wp_list releasing;
    struct wp_list holding;
    struct wp_list pausing;
    struct wp_list kept;   /* Until the end. */
    struct wp_list unsent; /* Calls that no connection took. */
    uint32_t under_way;    /* Claims and releases. */
    uint32_t active;       /* Closed loop: claims not yet over. */

    struct wp_arrivals arrivals;
    int64_t next_due_ns;
    uint64_t next_number;
    uint64_t started; /* Counted ones. */
    uint64_t started_max;
    int64_t zero_ns; /* End of the warm-up. */
    int64_t end_ns;
    int64_t now_ns;
    bool draining;
    bool no_memory;
    bool held_back; /* A claim was due, and no worker was idle. */

    uint32_t dead; /* Connections lost and not yet replaced. */
    uint64_t dead_mask;
    int64_t dead_since_ns;
    int64_t reopen_ns;
};

/* --- lane.c --- */

/* A connection is lost; its calls are ended by the carrier. Loads of a closed
 * loop pause while none is left. */
void wp_lane_lost(struct wp_lane *lane, unsigned conn);
/* How many there are to be. */
uint32_t wp_lane_connections(const struct wp_lane_config *config);
/* Ends, without an answer, the calls that are on that connection. */
void wp_lane_fail_calls(struct wp_lane *lane, unsigned conn);

/* --- lane_ahead.c --- */

/* Begins to fill the stock that the plan wants, if it wants one. */
WP_MUST_CHECK bool wp_lane_open_stock(struct wp_lane *lane, struct wp_err *err);
/* Also when it was not opened. */
void wp_lane_close_stock(struct wp_lane *lane);
/* False: there is no stock, or nothing in it. out borrows from lease. */
WP_MUST_CHECK bool wp_lane_take_ahead(struct wp_lane *lane,
                                      struct wp_codec_lease *out,
                                      struct warmpool_lease *lease);

/* --- lane_call.c --- */

/* A claim that is due then, by an idle worker. */
void wp_lane_start_claim(struct wp_lane *lane, int64_t due_ns, uint64_t number);
/* The last of the worker's leases. */
void wp_lane_start_release(struct wp_worker *worker);
/* The call under way has ended, now, with that code: gRPC's, or
 * WP_TALLY_NO_ANSWER. */
void wp_lane_call_over(struct wp_worker *worker, unsigned code);

/* For carriers. The id of claim i of a call. */
struct wp_str wp_lane_id_of(const struct wp_worker *worker, uint32_t i,
                            char out[WP_LANE_ID_MAX]);
uint64_t wp_lane_name_hash(const struct wp_lane *lane, struct wp_str sandbox);
/* What became of claim i: a code, and an enum wp_served. */
void wp_lane_record(struct wp_worker *worker, uint32_t i, unsigned code,
                    unsigned served, int64_t done_ns);

#endif
