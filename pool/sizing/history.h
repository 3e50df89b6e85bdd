/* pool/sizing/history.h - what a pool's claims were, recorded for advice;
 * private to the files of pool/core.
 *
 * Every pool has one, with a policy or without, where wp_pools_config asks
 * for it; its latest part is in the pool's snapshot (snapshot.h). The
 * keeper's control thread writes claims in the pool's turns, from what
 * claims count anyway, so that recording costs the claim path nothing. Of a
 * pool that is scaled exactly its scaler's inputs are written, so that
 * the history replays to the same decisions. */
#ifndef WP_POOL_SIZING_HISTORY_H
#define WP_POOL_SIZING_HISTORY_H

#include "pool/history/history.h"
#include "pool/table/pools.h"

struct wp_pool_history {
    pthread_mutex_t lock; /* guards: history, n_leads, lead_at_ns */
    struct wp_history *history;
    uint32_t n_leads;   /* Lead times of add_lead that were recorded. */
    int64_t lead_at_ns; /* The latest of them. */

    /* Control thread only: how many were written already. */
    uint64_t claims_seen;
    uint64_t missed_seen;
    bool whole; /* What was saved is in it already. */
    bool away;  /* Another replica was the keeper since the last event. */
};

/* False when memory lacks. Before the pool is shown to anybody. */
WP_MUST_CHECK bool wp_pool_history_create(struct wp_pool *pool);
void wp_pool_history_destroy(struct wp_pool_history *history);

/* What happened now, its wall time left out. Under the lock of the pool's
 * scaler, if it has one. */
void wp_pool_history_add(struct wp_pool *pool, int64_t now_ns,
                         struct wp_history_event event);
/* The lead time of a sandbox that became ready now, of a pool without a scaler.
 * Who reads them wants a sample: after the first 64 one a second is kept. Any
 * thread. */
void wp_pool_history_add_lead(struct wp_pool *pool, int64_t now_ns,
                              int64_t lead_ns);
/* Only the keeper hears of all claims, so what comes before it is one, or is
 * again, is a gap. Before anything else is written in a turn. Control thread,
 * as the next. */
void wp_pool_history_look(struct wp_pool *pool, int64_t now_ns);
/* Writes what a pool that is not scaled was asked for since the last turn; true
 * when there was something. */
bool wp_pool_history_turn(struct wp_pool *pool, int64_t now_ns);

/* Memory that it takes; what is saved of it is no longer. */
size_t wp_pool_history_bytes(const struct wp_pool *pool);
/* The latest part, as bytes for the pool's snapshot; the length. Control
 * thread, as the next. */
size_t wp_pool_history_save(struct wp_pool *pool, int64_t now_ns, void *out,
                            size_t cap);
/* What was saved goes before what is; *taken: it did, and had not before. Of no
 * bytes there is nothing to take. INVALID_ARGUMENT: it is damaged. */
enum wp_status wp_pool_history_load(struct wp_pool *pool, struct wp_str saved,
                                    bool *taken, struct wp_err *err);

#endif
