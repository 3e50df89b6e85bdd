#include "allocator/stores/meter.h"

#include <string.h>

#include "pool/base/assert.h"

/* One store in a process is flushed, so one mark for each thread is enough. */
static _Thread_local bool dirty;
static _Thread_local bool gathers;

static bool
writes(enum wp_lease_op_kind kind)
{
    return kind != WP_LEASE_FETCH && kind != WP_LEASE_GET_SNAPSHOT;
}

static void
count(struct wp_lease_meter *meter, const struct wp_lease_op *op,
      enum wp_status status)
{
    int64_t now_ns = wp_clock_mono_ns(meter->clock);
    bool failed = status == WP_UNAVAILABLE || status == WP_UNKNOWN_OUTCOME;

    atomic_fetch_add_explicit(&meter->commits[op->kind][status], 1,
                              memory_order_relaxed);
    if (failed) {
        atomic_store_explicit(&meter->failed_at_ns, now_ns,
                              memory_order_relaxed);
    } else if (status == WP_OK && writes(op->kind)) {
        /* Reading may work where writing does not. */
        atomic_store_explicit(&meter->worked_at_ns, now_ns,
                              memory_order_relaxed);
    }
    if (writes(op->kind) && op->kind != WP_LEASE_PUT_SNAPSHOT) {
        wp_histogram_record(&meter->latency, now_ns - op->outer.begun_ns);
    }
}

static void
on_done(struct wp_lease_op *op, enum wp_status status)
{
    struct wp_lease_meter *meter = op->outer.self;

    count(meter, op, status);
    atomic_fetch_sub_explicit(&meter->pending, 1, memory_order_relaxed);
    op->done = op->outer.done;
    op->done(op, status);
}

static enum wp_status
commit(void *self, struct wp_lease_op *op)
{
    struct wp_lease_meter *meter = self;
    enum wp_status status;

    op->outer.self = meter;
    op->outer.done = op->done;
    op->outer.begun_ns = wp_clock_mono_ns(meter->clock);
    op->done = on_done;
    op->gathered = gathers && meter->ops.flush != NULL;
    dirty = meter->ops.flush != NULL;
    atomic_fetch_add_explicit(&meter->pending, 1, memory_order_relaxed);
    status = meter->store.ops->commit(meter->store.self, op);
    if (status == WP_PENDING) {
        return status; /* op may be gone already. */
    }
    op->done = op->outer.done;
    atomic_fetch_sub_explicit(&meter->pending, 1, memory_order_relaxed);
    count(meter, op, status);
    return status;
}

static void
flush(void *self)
{
    struct wp_lease_meter *meter = self;

    dirty = false;
    meter->store.ops->flush(meter->store.self);
}

static enum wp_status
load(void *self, void (*each)(void *ctx, const struct wp_lease_record *record),
     void *ctx, struct wp_err *err)
{
    struct wp_lease_meter *meter = self;

    return meter->store.ops->load(meter->store.self, each, ctx, err);
}

void
wp_lease_meter_init(struct wp_lease_meter *meter, struct wp_lease_store store,
                    const struct wp_clock *clock)
{
    memset(meter, 0, sizeof *meter);
    meter->store = store;
    meter->clock = clock;
    meter->ops = *store.ops;
    meter->ops.commit = commit;
    meter->ops.flush = store.ops->flush != NULL ? flush : NULL;
    meter->ops.load = store.ops->load != NULL ? load : NULL;
}

struct wp_lease_store
wp_lease_meter_store(struct wp_lease_meter *meter)
{
    return (struct wp_lease_store){&meter->ops, meter};
}

void
wp_lease_meter_gather(bool flushes)
{
    gathers = flushes;
}

bool
wp_lease_meter_wants_flush(void *ctx)
{
    (void)ctx;
    gathers = true;
    return dirty;
}

void
wp_lease_meter_flush(void *ctx)
{
    struct wp_lease_meter *meter = ctx;

    if (meter->ops.flush != NULL) {
        flush(meter);
    }
}

bool
wp_lease_meter_works(const struct wp_lease_meter *meter)
{
    return atomic_load_explicit(&meter->failed_at_ns, memory_order_relaxed) <=
           atomic_load_explicit(&meter->worked_at_ns, memory_order_relaxed);
}

bool
wp_lease_meter_may_work(const struct wp_lease_meter *meter)
{
    return wp_lease_meter_works(meter) ||
           wp_clock_mono_ns(meter->clock) -
                   atomic_load_explicit(&meter->failed_at_ns,
                                        memory_order_relaxed) >
               WP_LEASE_METER_DOUBT_NS;
}

const char *
wp_lease_op_name(enum wp_lease_op_kind kind)
{
    static const char *const names[WP_LEASE_OP_KINDS] = {
        [WP_LEASE_OFFER] = "offer",
        [WP_LEASE_GRANT] = "grant",
        [WP_LEASE_RENEW] = "renew",
        [WP_LEASE_RELEASE] = "release",
        [WP_LEASE_UNDO] = "undo",
        [WP_LEASE_EXPIRE] = "expire",
        [WP_LEASE_WITHDRAW] = "withdraw",
        [WP_LEASE_LOSE] = "lose",
        [WP_LEASE_FETCH] = "fetch",
        [WP_LEASE_FORGET] = "forget",
        [WP_LEASE_PUT_SNAPSHOT] = "put_snapshot",
        [WP_LEASE_GET_SNAPSHOT] = "get_snapshot",
    };

    WP_ASSERT((unsigned)kind < WP_LEASE_OP_KINDS);
    return names[kind];
}
