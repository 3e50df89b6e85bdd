/* allocator/stores/meter.h - stands before a lease store and counts.
 *
 * Passes every commit on and notes its kind, its outcome and how long it took;
 * knows of each thread whether it has committed something since it last
 * flushed. Two readings of the clock a commit, no lock, no allocation. */
#ifndef WP_ALLOCATOR_STORES_METER_H
#define WP_ALLOCATOR_STORES_METER_H

#include <stdatomic.h>

#include "pool/base/clock.h"
#include "pool/base/metrics.h"
#include "pool/lease_store.h"

enum {
    WP_LEASE_OP_KINDS = WP_LEASE_GET_SNAPSHOT + 1,
};

#define WP_LEASE_METER_DOUBT_NS (10 * WP_NS_PER_S)

struct wp_lease_meter {
    struct wp_lease_store store;   /* The one behind. */
    struct wp_lease_store_ops ops; /* What is shown instead. */
    const struct wp_clock *clock;
    _Atomic(uint64_t) commits[WP_LEASE_OP_KINDS][WP_STATUS_COUNT];
    struct wp_histogram latency; /* Of all but FETCH. */
    _Atomic(int64_t) pending;    /* Commits that are not answered yet. */
    /* When the store was last found out of reach, and when it last changed
     * something; monotonic, 0: never. */
    _Atomic(int64_t) failed_at_ns;
    _Atomic(int64_t) worked_at_ns;
};

/* Before any commit. store and clock are borrowed as long as meter is used. */
void wp_lease_meter_init(struct wp_lease_meter *meter,
                         struct wp_lease_store store,
                         const struct wp_clock *clock);
/* The same store, counted. */
struct wp_lease_store wp_lease_meter_store(struct wp_lease_meter *meter);

/* From here on the calling thread flushes before it sleeps: what it commits may
 * wait for that (wp_lease_op.gathered). Or it does so no more. Any thread. */
void wp_lease_meter_gather(bool flushes);
/* Has the calling thread committed since it last flushed? Only true for a store
 * that wants to be flushed. Who asks is a thread that flushes, as above. Any
 * thread; ctx is the meter. */
bool wp_lease_meter_wants_flush(void *ctx);
/* Any thread; ctx is the meter. */
void wp_lease_meter_flush(void *ctx);

/* False while the store is out of reach or cannot write: it answered
 * UNAVAILABLE, or not at all, and has changed nothing since. Any thread. */
bool wp_lease_meter_works(const struct wp_lease_meter *meter);
/* The same, but after WP_LEASE_METER_DOUBT_NS without an answer it may have
 * come back: only another commit can tell. Any thread. */
bool wp_lease_meter_may_work(const struct wp_lease_meter *meter);

/* "offer", "grant", ...: for metrics. */
const char *wp_lease_op_name(enum wp_lease_op_kind kind);

#endif
