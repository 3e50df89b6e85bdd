/* bench/harness/lane.h - one thread that makes its share of a phase's claims.
 *
 * It owns its connections, its calls and its tally. It sleeps until a claim is
 * due, an answer comes or a call is overdue, and then does all there is to do:
 * one write carries what has become due meanwhile. So a busy thread wakes up
 * less often than it makes calls. */
#ifndef WP_BENCH_HARNESS_LANE_H
#define WP_BENCH_HARNESS_LANE_H

#include <stdatomic.h>

#include "bench/harness/arrivals.h"
#include "bench/harness/tally.h"
#include "proto/client/h2_tls.h"
#include "k8s/api/api_config.h"
#include "pool/base/siphash.h"

/* Shared by all threads of a phase. */
struct wp_lane_signals {
    _Atomic(bool) stop;  /* No new claims; what is under way may end. */
    _Atomic(bool) abort; /* Not even that. */
};

struct wp_lane_config {
    const struct wp_plan *plan; /* All borrowed. */
    const struct wp_arrival_times *times;
    const char *target;
    const struct wp_h2_tls *tls;
    const char *authorization;
    /* The API server of SandboxClaims; NULL: target serves gRPC. */
    const struct wp_api_config *server;
    struct wp_lane_signals *signals;
    struct wp_hash_key key; /* Of names. */
    uint32_t tag;           /* In the ids of all claims of this program. */
    uint32_t phase;         /* The same; tells phases apart. */
    uint32_t share;         /* Which thread of how many. */
    uint32_t shares;
    int64_t start_ns; /* Of the warm-up. */
};

/* How it goes; any thread reads it. */
struct wp_lane_progress {
    _Atomic(uint64_t) due;
    _Atomic(uint64_t) granted;
    _Atomic(uint64_t) warm;
    _Atomic(uint64_t) failed;
    _Atomic(uint32_t) in_flight;
};

struct wp_lane; /* Opaque. */

/* Connects. NULL and err when it cannot. */
struct wp_lane *wp_lane_create(const struct wp_lane_config *config,
                               struct wp_err *err);
/* Makes the claims; on a thread of its own. Not WP_OK: it was cut short, err
 * says by what; the tally has what was seen. */
enum wp_status wp_lane_run(struct wp_lane *lane, struct wp_err *err);
void wp_lane_destroy(struct wp_lane *lane); /* NULL is fine. */

const struct wp_lane_progress *wp_lane_progress(const struct wp_lane *lane);
struct wp_tally *wp_lane_tally(struct wp_lane *lane);
/* See wp_h2_peer. */
pid_t wp_lane_peer(const struct wp_lane *lane);

/* The monotonic clock, which no leap of the wall clock moves. Any thread. */
int64_t wp_lane_now_ns(void);

enum {
    WP_LANE_ID_MAX = 40,
    WP_LANE_TAG_LEN = 14,    /* "load-0123abcd-": what all of a program have. */
    WP_LANE_NUMBER_LEN = 12, /* What ends a claim's. */
};
/* "load-0123abcd-0001-0000000000ff": what the claims of a program are called.
 * Returns the length. */
size_t wp_lane_claim_id(uint32_t tag, uint32_t phase, uint64_t number,
                        char out[WP_LANE_ID_MAX]);

#endif
