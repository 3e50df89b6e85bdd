/* bench/harness/lane_parts.h - what the files of a lane share; see lane.h. */
#ifndef WP_BENCH_HARNESS_LANE_PARTS_H
#define WP_BENCH_HARNESS_LANE_PARTS_H

#include "bench/harness/lane.h"
#include "bench/load/claim_codec.h"
#include "pool/base/list.h"

enum {
    WP_LANE_TOKEN_MAX = 128,
};

struct warmpool;
struct warmpool_lease;
struct warmpool_stock;

struct wp_lane_token {
    uint16_t len;
    char bytes[WP_LANE_TOKEN_MAX];
};

/* Who makes one claim at a time, or one batch. In one list, or idle. */
struct wp_worker {
    struct wp_h2_call call;
    struct wp_list link;
    struct wp_lane *lane;
    int64_t due_ns;    /* Of the claim, then of what comes next. */
    int64_t sent_ns;   /* Of the call under way. */
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
    struct wp_h2 *h2;
    unsigned claim_method;
    unsigned release_method;
    char timeout_text[32];
    char paths[2][64];            /* Of the methods. */
    struct warmpool *client;      /* NULL: no leases ahead. */
    struct warmpool_stock *stock; /* The same. */
    struct wp_codec_request request;
    char tenant[32]; /* Of the latest request. */

    struct wp_worker *workers;
    uint8_t *rooms; /* Their buffers. */
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
/* The call under way ends without an answer, with that code. */
void wp_lane_fail_call(struct wp_worker *worker, unsigned code);
/* For struct wp_h2_call. */
void wp_lane_call_done(struct wp_h2_call *call);

#endif
