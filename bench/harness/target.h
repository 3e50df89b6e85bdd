/* bench/harness/target.h - whom the load goes to, and what they say of it.
 *
 * Beside the load's own connections there is one for questions: how full is the
 * pool, which claims of ours are still held. It uses warmpoolctl's client, so
 * the two are reached and trusted alike. One thread at a time. */
#ifndef WP_BENCH_HARNESS_TARGET_H
#define WP_BENCH_HARNESS_TARGET_H

#include <stdint.h>

#include "allocator/ctl/calls.h"
#include "allocator/ctl/rpc_client.h"
#include "bench/harness/claim_objects.h"
#include "bench/harness/plan.h"
#include "proto/client/h2_tls.h"

struct wp_target {
    char address[600];
    struct wp_h2_tls *tls;                /* NULL: none. */
    char authorization[WP_RPC_TOKEN_MAX]; /* "": none. A secret. */
    bool echo;
    bool blind; /* It does not tell us of its pools. */
    bool asked; /* Claims were made there. */
    bool has_size;
    uint32_t size; /* What the pool's target was before we changed it. */

    struct wp_ctl ctl;   /* For questions. */
    int64_t patience_ns; /* How long one is asked again and again. */
    void *memory;
    /* Of SandboxClaims, instead; objects.api is NULL for gRPC. */
    struct wp_api_config server;
    struct wp_claim_objects objects;
};

/* second: plan->against, not plan->address. Not WP_OK: files or addresses make
 * no sense. Nobody is asked yet. */
enum wp_status wp_target_open(struct wp_target *target,
                              const struct wp_plan *plan, bool second,
                              struct wp_err *err);
/* Also what was opened in part. */
void wp_target_close(struct wp_target *target);

/* How a pool is now. False: it is not told; err has why, and a target that may
 * not tell is not asked again. quick: an answer that takes seconds is none. */
WP_MUST_CHECK bool wp_target_pool(struct wp_target *target,
                                  const struct wp_plan *plan, bool quick,
                                  struct wp_pool_stats *out,
                                  struct wp_err *err);
/* Gives the pool the plan's size, if it has one, and waits until it is full, a
 * minute is over without a change, or a signal came; without one, until it is
 * as full as it is to be. */
enum wp_status wp_target_prepare(struct wp_target *target,
                                 const struct wp_plan *plan,
                                 struct wp_err *err);
/* Puts back what prepare has changed. */
enum wp_status wp_target_restore(struct wp_target *target,
                                 const struct wp_plan *plan,
                                 struct wp_err *err);

/* What of a program's claims is left when all should be over. */
struct wp_leftovers {
    bool known;     /* The target has told. */
    uint64_t found; /* Held though nobody wants them any more. */
    uint64_t ended; /* Of these, released now. */
    uint64_t
        sandboxes; /* Of an API server: Sandboxes of claims that are gone. */
    struct wp_err why; /* When not known, or not all could be ended. */
};

/* Looks for claims with that tag, and ends them; not where none were made. A
 * signal that comes meanwhile ends the look. quick: from here on an answer that
 * takes seconds is none. */
void wp_target_settle(struct wp_target *target, const struct wp_plan *plan,
                      uint32_t tag, bool quick, struct wp_leftovers *out);

#endif
