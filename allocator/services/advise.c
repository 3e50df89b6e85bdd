/* Advise: a replay takes seconds, so it has a thread of its own, with a lower
 * priority than all that serve claims; one at a time.
 *
 * The thread is started for a call and joined before the next one, or at the
 * end. advise->lock settles who owns the call: it is open as long as
 * advise->call points at it, and then whoever holds the lock may use it. A
 * client that goes has its call ended at once; the thread finds out within a
 * hundredth of a replay, and until it has, the next one is refused. */
#include <pthread.h>
#include <stdalign.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "allocator/services/services_private.h"
#include "pool/base/assert.h"
#include "allocator/advice/advice.h"
#include "proto/loop/thread.h"

/* Least time between two messages of progress. */
#define PROGRESS_NS (100 * WP_NS_PER_MS)
/* When to try again while another replay is going on. */
#define RETRY_NS (2 * WP_NS_PER_S)

enum {
    /* A request's bytes, each of which may be a number of four. */
    ARENA_BYTES = 6 * WP_WIRE_MESSAGE_MAX,
};

struct wp_advise {
    struct wp_services *services;
    pthread_mutex_t lock; /* guards: call, busy, blocked, joinable */
    struct wp_call *call; /* NULL: none, or it has been ended. */
    bool busy;            /* The thread has not come to its end. */
    bool blocked;         /* The last message is on its way. */
    bool joinable;
    pthread_t thread;

    /* The thread's, while it is busy; before that, the starter's. */
    struct wp_wire_advise_request request;
    uint32_t pool_index;
    struct wp_pool_stats stats;
    uint32_t row;
    uint32_t n_rows;
    int64_t said_ns;
    struct wp_wire_advise_response response;
    alignas(max_align_t) char arena[ARENA_BYTES];
};

bool
wp_service_advise_create(struct wp_services *services)
{
    services->advise = calloc(1, sizeof *services->advise);
    if (services->advise == NULL) {
        return false;
    }
    services->advise->services = services;
    WP_ASSERT(pthread_mutex_init(&services->advise->lock, NULL) == 0);
    return true;
}

/* Under the lock; ends the call, if it is open. */
static void
end(struct wp_advise *advise, enum wp_status status, const char *message)
{
    struct wp_call *call = advise->call;

    if (call != NULL) {
        advise->call = NULL;
        call->ops->finish(call, status, message, 0);
    }
}

void
wp_service_advise_stop(struct wp_services *services)
{
    (void)pthread_mutex_lock(&services->advise->lock);
    end(services->advise, WP_UNAVAILABLE, "the daemon is leaving");
    (void)pthread_mutex_unlock(&services->advise->lock);
}

void
wp_service_advise_destroy(struct wp_services *services)
{
    struct wp_advise *advise = services->advise;

    if (advise == NULL) {
        return;
    }
    WP_ASSERT(advise->call == NULL);
    if (advise->joinable) {
        (void)pthread_join(advise->thread, NULL);
    }
    (void)pthread_mutex_destroy(&advise->lock);
    free(advise);
    services->advise = NULL;
}

/* --- On its own thread --- */

/* Under the lock, with an open call. */
static void
say_progress(struct wp_advise *advise, double share)
{
    const struct wp_wire_advise_response message = {.progress = share};
    struct wp_call *call = advise->call;
    uint8_t *buf =
        call->ops->reserve(call, wp_wire_size_advise_response(&message));

    /* Progress that cannot be told is left out. */
    if (buf != NULL) {
        (void)wp_wire_pack_advise_response(&message, buf);
        advise->blocked = !call->ops->send(call);
    }
}

static bool
progress(void *ctx, double share)
{
    struct wp_advise *advise = ctx;
    int64_t now_ns = wp_clock_mono_ns(wp_clock_system());
    bool on;

    (void)pthread_mutex_lock(&advise->lock);
    on = advise->call != NULL;
    if (on && !advise->blocked && now_ns - advise->said_ns >= PROGRESS_NS) {
        advise->said_ns = now_ns;
        say_progress(advise, (advise->row + share) / advise->n_rows);
    }
    (void)pthread_mutex_unlock(&advise->lock);
    return on;
}

/* The claims that the request gives. NULL when memory lacks. */
static struct wp_history *
given_history(const struct wp_wire_advise_request *request)
{
    struct wp_history *history = wp_history_create(1 << 20);
    int64_t at_ns = request->first_wall_ms * WP_NS_PER_MS;

    for (uint32_t i = 0; history != NULL && i < request->n_claims; i++) {
        at_ns += request->claim_gaps_ms[i] * WP_NS_PER_MS;
        wp_history_add(history, at_ns,
                       &(struct wp_history_event){.kind = WP_HISTORY_CLAIMS,
                                                  .wall_ns = at_ns,
                                                  .n = 1});
    }
    return history;
}

/* 0: the pool has made no sandbox yet. */
static int64_t
usual_lead_ns(const struct wp_advise *advise)
{
    struct wp_histogram_view view;

    wp_histogram_read(
        wp_pools_lead_time(advise->services->config.pools, advise->pool_index),
        &view);
    return view.count > 0 ? wp_histogram_quantile_ns(&view, 0.5) : 0;
}

static struct wp_advice_config
advice_config(const struct wp_advise *advise, const struct wp_history *history)
{
    const struct wp_wire_advise_request *request = &advise->request;
    const struct wp_pool_spec *spec = &advise->stats.spec;
    struct wp_advice_config config = {
        .history = history,
        .has_today = true,
        .policy = spec->scale,
        .replicas = spec->target,
        .miss = spec->waiters_max > 0 ? WP_MISS_QUEUED : WP_MISS_LOST,
        .cold_start = spec->cold_start == WP_COLD_ALLOWED,
        .lead_ns = request->lead_ms * WP_NS_PER_MS,
        .at_once = advise->stats.at_once,
        .n_objectives = request->n_objectives,
        .seed = 1,
    };

    if (request->n_objectives > 0) {
        memcpy(config.objectives, request->objectives,
               request->n_objectives * sizeof *request->objectives);
    }
    /* Given claims come without lead times: the pool's own are the best
     * guess. */
    if (request->n_claims > 0 && config.lead_ns == 0) {
        config.lead_ns = usual_lead_ns(advise);
    }
    return config;
}

/* Under the lock, with an open call. */
static void
answer(struct wp_advise *advise, const struct wp_advice *advice)
{
    struct wp_wire_advise_response *response = &advise->response;
    struct wp_call *call = advise->call;
    uint8_t *buf;

    response->progress = 1;
    response->has_report = true;
    response->facts = *wp_advice_facts(advice);
    response->rows = wp_advice_row(advice, 0);
    response->n_rows = wp_advice_n_rows(advice);
    wp_advice_conclude(&response->facts, response->rows, response->n_rows,
                       &response->words);
    buf = call->ops->reserve(call, wp_wire_size_advise_response(response));
    if (buf == NULL) {
        end(advise, WP_RESOURCE_EXHAUSTED, "no memory for the reply");
        return;
    }
    (void)wp_wire_pack_advise_response(response, buf);
    end(advise, WP_OK, NULL);
}

static enum wp_status
replay(struct wp_advise *advise, const struct wp_history *history,
       struct wp_advice **advice, struct wp_err *err)
{
    struct wp_advice_config config = advice_config(advise, history);
    enum wp_status status = wp_advice_create(&config, advice, err);

    if (status != WP_OK) {
        return status;
    }
    advise->n_rows = wp_advice_n_rows(*advice);
    for (advise->row = 0; advise->row < advise->n_rows; advise->row++) {
        status = wp_advice_run(*advice, advise->row, progress, advise, err);
        if (status != WP_OK) {
            return status;
        }
    }
    return WP_OK;
}

static void *
advise_main(void *ctx)
{
    struct wp_advise *advise = ctx;
    struct wp_advice *advice = NULL;
    struct wp_history *history =
        advise->request.n_claims > 0
            ? given_history(&advise->request)
            : wp_pools_history(advise->services->config.pools,
                               advise->pool_index);
    struct wp_err err = {0};
    enum wp_status status;

    /* Of this thread only, on Linux. */
    (void)setpriority(PRIO_PROCESS, 0, 10);
    status = history != NULL
                 ? replay(advise, history, &advice, &err)
                 : wp_err_set(&err, WP_FAILED_PRECONDITION,
                              "pool: nothing of its claims is recorded "
                              "(history_max is 0, or memory lacks)");
    (void)pthread_mutex_lock(&advise->lock);
    if (status != WP_OK) {
        end(advise, status, err.msg);
    } else if (advise->call != NULL) {
        answer(advise, advice);
    }
    advise->busy = false;
    (void)pthread_mutex_unlock(&advise->lock);
    wp_advice_destroy(advice);
    wp_history_destroy(history);
    return NULL;
}

/* --- On the transport's thread --- */

static void
advise_cancelled(struct wp_call *call)
{
    struct wp_advise *advise = wp_services_of(call)->advise;

    (void)pthread_mutex_lock(&advise->lock);
    /* A call is not used again while its `cancelled` runs, so the same pointer
     * is the same call. */
    if (advise->call == call) {
        end(advise, WP_CANCELLED, NULL);
    }
    (void)pthread_mutex_unlock(&advise->lock);
}

static void
advise_writable(struct wp_call *call)
{
    struct wp_advise *advise = wp_services_of(call)->advise;

    (void)pthread_mutex_lock(&advise->lock);
    if (advise->call == call) {
        advise->blocked = false;
    }
    (void)pthread_mutex_unlock(&advise->lock);
}

/* Under the lock. */
static bool
start_thread(struct wp_advise *advise)
{
    if (advise->joinable) {
        (void)pthread_join(advise->thread, NULL);
    }
    advise->joinable =
        wp_thread_start(&advise->thread, advise_main, advise) == 0;
    return advise->joinable;
}

/* Under the lock, when no other one is busy. */
static void
begin(struct wp_advise *advise, struct wp_call *call, const uint8_t *bytes,
      size_t len)
{
    struct wp_services *services = advise->services;
    struct wp_arena arena;
    struct wp_err err;

    wp_arena_init(&arena, advise->arena, sizeof advise->arena);
    if (wp_wire_unpack_advise_request(&arena, bytes, len, &advise->request,
                                      &err) != WP_OK) {
        wp_service_refuse(call, &err);
        return;
    }
    advise->pool_index = wp_service_find_pool(call, &advise->request.pool);
    if (advise->pool_index == UINT32_MAX) {
        return;
    }
    if (advise->request.n_claims == 0 &&
        !wp_pools_is_keeper(services->config.pools)) {
        call->ops->finish(call, WP_UNAVAILABLE,
                          "another replica makes the sandboxes, and has the "
                          "record of all claims; ask that one",
                          0);
        return;
    }
    wp_pools_stats(services->config.pools, advise->pool_index, &advise->stats);
    call->cancelled = advise_cancelled;
    call->writable = advise_writable;
    advise->call = call;
    advise->busy = true;
    advise->blocked = false;
    advise->said_ns = 0;
    if (!start_thread(advise)) {
        advise->busy = false;
        end(advise, WP_RESOURCE_EXHAUSTED, "no thread for the replay");
    }
}

void
wp_service_advise_start(struct wp_call *call, const uint8_t *bytes, size_t len)
{
    struct wp_services *services = wp_services_of(call);
    struct wp_advise *advise = services->advise;

    (void)pthread_mutex_lock(&advise->lock);
    /* Acquire pairs with the release in watch_stop; under the lock, so that the
     * stop that follows there either finds this call or is seen here. */
    if (atomic_load_explicit(&services->stopping, memory_order_acquire)) {
        call->ops->finish(call, WP_UNAVAILABLE, "the daemon is leaving", 0);
    } else if (advise->busy) {
        call->ops->finish(call, WP_RESOURCE_EXHAUSTED,
                          "another replay is going on, and one is done at a "
                          "time",
                          RETRY_NS);
    } else {
        begin(advise, call, bytes, len);
    }
    (void)pthread_mutex_unlock(&advise->lock);
}
