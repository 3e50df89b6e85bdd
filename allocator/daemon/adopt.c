#include "allocator/daemon/backend.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pool/base/log.h"

/* Between questions to a store that is out of reach. */
#define STORE_AGAIN_NS (100 * WP_NS_PER_MS)

/* Asked of the control thread. */
struct question {
    struct wp_pools *pools;
    const struct wp_local_found *found;
    struct wp_slot_ref ref;
    bool wanted;
};

/* What the store has of the sandbox, when the core, which hears of others'
 * changes a little later, does not want it. */
struct fetch {
    struct wp_lease_op op;
    pthread_mutex_t lock;
    pthread_cond_t answered;
    bool done;
    enum wp_status status;
    struct wp_lease_record record;
};

static void
on_fetched(struct wp_lease_op *op, enum wp_status status)
{
    struct fetch *fetch = WP_CONTAINER_OF(op, struct fetch, op);

    (void)pthread_mutex_lock(&fetch->lock);
    fetch->status = status;
    fetch->done = true;
    (void)pthread_cond_signal(&fetch->answered);
    (void)pthread_mutex_unlock(&fetch->lock);
}

static void
fetch_record(struct wp_lease_store store, const struct wp_local_found *found,
             struct fetch *fetch)
{
    enum wp_status status;

    memset(fetch, 0, sizeof *fetch);
    (void)pthread_mutex_init(&fetch->lock, NULL);
    (void)pthread_cond_init(&fetch->answered, NULL);
    fetch->op = (struct wp_lease_op){
        .kind = WP_LEASE_FETCH,
        .pool_namespace = found->pool_namespace,
        .pool = found->pool,
        .sandbox = found->name,
        .found = &fetch->record,
        .done = on_fetched,
    };
    memcpy(fetch->op.uid, found->uid, sizeof fetch->op.uid);
    /* When it is pending, the answer may be there before commit returns. */
    status = store.ops->commit(store.self, &fetch->op);
    if (status == WP_PENDING) {
        (void)pthread_mutex_lock(&fetch->lock);
        while (!fetch->done) {
            (void)pthread_cond_wait(&fetch->answered, &fetch->lock);
        }
        (void)pthread_mutex_unlock(&fetch->lock);
    } else {
        fetch->status = status;
    }
    (void)pthread_cond_destroy(&fetch->answered);
    (void)pthread_mutex_destroy(&fetch->lock);
}

struct news {
    struct wp_pools *pools;
    const struct wp_lease_record *record;
};

/* Control thread. */
static void
tell_record(void *ctx)
{
    const struct news *news = ctx;

    wp_pools_on_record(news->pools, news->record);
}

/* Has a signal come that ends the daemon, taken by main or by nobody yet? */
static bool
stop_wanted(const struct wp_daemon_core *core)
{
    sigset_t pending;

    return atomic_load_explicit(&core->stopping, memory_order_relaxed) ||
           (sigpending(&pending) == 0 && (sigismember(&pending, SIGTERM) == 1 ||
                                          sigismember(&pending, SIGINT) == 1));
}

/* Asks the store for as long as it takes: nothing else tells whether somebody
 * holds the sandbox. True: there is a record, and the core knows it now. */
static bool
store_knows(struct wp_daemon_core *core, struct wp_lease_store store,
            const struct wp_local_found *found)
{
    struct fetch fetch;
    struct news news = {core->pools, &fetch.record};
    bool warned = false;

    for (;;) {
        const struct timespec again = {0, STORE_AGAIN_NS};

        fetch_record(store, found, &fetch);
        if (fetch.status == WP_OK) {
            wp_loop_call(core->loop, tell_record, &news);
            return true;
        }
        if (fetch.status == WP_NOT_FOUND) {
            return false;
        }
        if (!warned) {
            wp_log_warn("waiting for the lease store, to know whose the "
                        "sandboxes are");
            warned = true;
        }
        (void)nanosleep(&again, NULL);
        if (stop_wanted(core)) {
            /* Only so is nothing destroyed that somebody may hold. */
            wp_log_warn("leaving everything as it is");
            _exit(EXIT_FAILURE);
        }
    }
}

/* Control thread. Is it as its pool has new ones made? */
static bool
is_current(struct wp_pools *pools, const struct wp_local_found *found)
{
    uint32_t index = wp_pools_index(pools, found->pool_namespace, found->pool);
    struct wp_pool_stats stats;

    if (!found->template_current || index == UINT32_MAX) {
        return found->template_current;
    }
    wp_pools_stats(pools, index, &stats);
    return wp_str_is(found->egress, stats.spec.egress);
}

/* Control thread. */
static void
ask_wanted(void *ctx)
{
    struct question *q = ctx;
    struct wp_pools *pools = q->pools;
    struct wp_claim_info info;

    /* An idle one of an older template, or of another egress policy, would only
     * be in the way. */
    q->wanted =
        (is_current(pools, q->found) ||
         wp_pools_find_sandbox(pools, q->found->name, &info) == WP_OK) &&
        wp_pools_seen(pools, q->found->uid, &q->ref);
}

bool
wp_daemon_adopt(struct wp_daemon_core *core, struct wp_lease_store store,
                const struct wp_local_found *found, struct wp_slot_ref *ref)
{
    struct question q = {.pools = core->pools, .found = found};

    wp_loop_call(core->loop, ask_wanted, &q);
    if (!q.wanted && store.ops->shared && store_knows(core, store, found)) {
        wp_loop_call(core->loop, ask_wanted, &q);
    }
    *ref = q.ref;
    return q.wanted;
}
