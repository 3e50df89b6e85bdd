/* tests/support/http/http_calls_rig.h - the routes that claim sandboxes by
 * HTTP, with fakes below them: the HTTP server's requests, the pools, the loop
 * and its timers, the clock. Every call that is made to a fake is a line of
 * rig.journal. One thread. */
#ifndef WP_TESTS_SUPPORT_HTTP_HTTP_CALLS_RIG_H
#define WP_TESTS_SUPPORT_HTTP_HTTP_CALLS_RIG_H

#include "pool/pool.h"
#include "proto/formats/http_server.h"
#include "proto/loop/loop.h"
#include "tests/support/base/golden.h"
#include "tests/support/pool/manual_clock.h"

enum {
    RIG_REQS = 8,
    RIG_POOLS = 6,
    RIG_ASKED = 16, /* Claims that the pools may have at once. */
};

struct wp_http_req {
    const char *name; /* In the journal. */
    char head[2048];
    const char *body;
    struct wp_http_message message;
    void *user;
};

struct rig {
    struct golden journal;
    bool terse; /* It has only what clients are told, each once. */
    struct wp_clock_manual clock;
    struct wp_http_req reqs[RIG_REQS];
    uint32_t n_reqs;

    /* What the pools answer at once; PENDING: later. */
    enum wp_status claim_status;
    enum wp_status release_status;
    enum wp_status bind_status;
    enum wp_status may_bind_status;
    bool cancels; /* A claim can be withdrawn. */
    /* What goes with an answer. */
    bool replayed;
    const char *reason;
    int64_t retry_after_ns;
    /* The claim that is there; NULL: none. */
    const struct wp_claim_info *info;
    struct wp_pool_stats pools[RIG_POOLS];
    uint32_t n_pools;
    /* The latest that were asked, to be answered. */
    struct wp_claim *claim;
    struct wp_lease_change *change;
    struct wp_bind *bind;
    struct wp_claim *claims[RIG_ASKED]; /* All of them, in order. */
    uint32_t n_claims;

    bool channel_full; /* The loop takes no posts. */
    void (*tick)(evutil_socket_t fd, short what, void *ctx);
    void *tick_ctx;
    bool tick_set;
    uint32_t naps;     /* Of the test's thread, which do not take any time. */
    void (*nap)(void); /* Called in each; NULL: nothing happens. */
    int callocs;       /* So many succeed; < 0: all. */
    int texts;         /* The same of a JSON text's memory. */
    int text_fails;    /* That one alone does not; < 0: none. */
    bool no_timer;
};

extern struct rig rig;
/* What the routes are to be given as the pools. */
#define RIG_THE_POOLS ((struct wp_pools *)(void *)&rig)

/* Zeroes all; memory does not lack, nothing is there. */
int rig_begin(void **state);
/* One line. */
WP_PRINTF(1, 2) void rig_say(const char *fmt, ...);
/* Head without the empty line: "GET /path HTTP/1.1\r\nA: b\r\n". */
struct wp_http_req *rig_req(const char *name, const char *head,
                            const char *body);
/* The answers of what is pending, on a thread of the pools. */
void rig_claimed(struct wp_claim *claim, enum wp_status status);
void rig_released(enum wp_status status);
void rig_bound(enum wp_status status);
/* What was posted to the loop is run. */
void rig_turn(void);
/* The timer, which has to be set, runs out. */
void rig_run_tick(void);
/* Compares the journal with the file. */
void rig_is(const char *path);

#endif
