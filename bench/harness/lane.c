#include "bench/harness/lane_parts.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sys/prctl.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"

#define REOPEN_NS (200 * WP_NS_PER_MS)
/* How often it looks at the clock and at its signals when nothing happens. */
#define LOOK_NS (50 * WP_NS_PER_MS)

int64_t
wp_lane_now_ns(void)
{
    /* Never the wall clock: that may be set while a call is under way. */
    return wp_clock_mono_ns(wp_clock_system());
}

/* --- Connections that are lost. --- */

/* Its calls end without an answer: nobody knows whether they were heard. */
static void
fail_calls_of(struct wp_list *list, unsigned conn)
{
    struct wp_list *node = list->next;

    while (node != list) {
        struct wp_worker *worker =
            WP_CONTAINER_OF(node, struct wp_worker, link);

        /* A failed release may be followed by another on a connection that
         * lives, at the list's end. */
        node = node->next;
        if (worker->call.conn == conn) {
            wp_lane_call_over(worker, WP_TALLY_NO_ANSWER);
        }
    }
}

void
wp_lane_fail_calls(struct wp_lane *lane, unsigned conn)
{
    fail_calls_of(&lane->claiming, conn);
    fail_calls_of(&lane->releasing, conn);
}

void
wp_lane_lost(struct wp_lane *lane, unsigned conn)
{
    lane->now_ns = wp_lane_now_ns();
    if (lane->dead++ == 0) {
        lane->dead_since_ns = lane->now_ns;
    }
    lane->dead_mask |= UINT64_C(1) << conn;
    lane->reopen_ns = lane->now_ns;
}

uint32_t
wp_lane_connections(const struct wp_lane_config *config)
{
    uint32_t all = config->plan->connections > 0 ? config->plan->connections
                                                 : config->shares;

    if (config->server != NULL) {
        return 1; /* The watch: without it no answer is seen. */
    }
    return all / config->shares + (config->share < all % config->shares);
}

/* Tries to have each lost one again. Not WP_OK: none was had for so long that
 * the target must be gone. */
static enum wp_status
reopen(struct wp_lane *lane, struct wp_err *err)
{
    uint32_t all = wp_lane_connections(&lane->config);

    if (lane->dead == 0 || lane->now_ns < lane->reopen_ns) {
        return WP_OK;
    }
    for (unsigned i = 0; i < all; i++) {
        if ((lane->dead_mask >> i & 1) != 0 &&
            lane->carrier->reopen(lane, i, err)) {
            lane->dead_mask &= ~(UINT64_C(1) << i);
            lane->dead--;
        }
    }
    lane->now_ns = wp_lane_now_ns();
    lane->reopen_ns = lane->now_ns + REOPEN_NS;
    if (lane->dead < all) {
        lane->dead_since_ns = lane->now_ns;
    } else if (lane->now_ns - lane->dead_since_ns > lane->plan->timeout_ns) {
        err->status = WP_UNAVAILABLE;
        return wp_err_wrap(err, "the target has gone");
    }
    return WP_OK;
}

/* --- What is due. --- */

/* Is there a claim still to come? An open loop makes up for all that were due,
 * however late it is. */
static bool
may_start(const struct wp_lane *lane)
{
    int64_t next_ns = lane->plan->arrivals == WP_ARRIVALS_CLOSED
                          ? lane->now_ns
                          : lane->next_due_ns;

    return !lane->draining && lane->started < lane->started_max &&
           next_ns < lane->end_ns && lane->now_ns >= lane->config.start_ns;
}

static void
next_arrival(struct wp_lane *lane)
{
    lane->next_due_ns = wp_arrivals_next(&lane->arrivals, &lane->next_number);
    if (lane->next_due_ns != WP_TIME_NEVER) {
        lane->next_due_ns += lane->config.start_ns;
    }
}

static void
start_open(struct wp_lane *lane)
{
    bool held_back = lane->held_back;

    lane->held_back = false;
    while (lane->next_due_ns <= lane->now_ns && may_start(lane)) {
        if (lane->n_idle == 0) {
            lane->held_back = true;
            return;
        }
        lane->tally->held_back += held_back;
        lane->started += lane->next_due_ns >= lane->zero_ns ? lane->batch : 0;
        wp_lane_start_claim(lane, lane->next_due_ns, lane->next_number);
        next_arrival(lane);
    }
}

/* Those that were due but never found a worker: nobody answered them. */
static void
count_unsent(struct wp_lane *lane)
{
    if (lane->plan->arrivals == WP_ARRIVALS_CLOSED) {
        return;
    }
    while (lane->next_due_ns <= lane->now_ns &&
           lane->next_due_ns < lane->end_ns &&
           lane->started < lane->started_max) {
        if (lane->next_due_ns >= lane->zero_ns) {
            lane->started += lane->batch;
            lane->tally->due += lane->batch;
            lane->tally->failed[WP_TALLY_NO_ANSWER] += lane->batch;
        }
        next_arrival(lane);
    }
}

static uint32_t
workers_of(const struct wp_lane *lane)
{
    const struct wp_plan *plan = lane->plan;
    uint32_t all = plan->arrivals == WP_ARRIVALS_CLOSED && !plan->keep
                       ? plan->concurrency
                       : plan->in_flight;

    return all / lane->config.shares +
           (lane->config.share < all % lane->config.shares);
}

static void
start_closed(struct wp_lane *lane)
{
    uint32_t shares = lane->config.shares;
    uint32_t busy_max = lane->plan->concurrency / shares +
                        (lane->config.share < lane->plan->concurrency % shares);

    while (lane->active < busy_max && lane->n_idle > 0 && may_start(lane) &&
           lane->dead < wp_lane_connections(&lane->config)) {
        lane->started += lane->now_ns >= lane->zero_ns ? lane->batch : 0;
        wp_lane_start_claim(lane, lane->now_ns,
                            lane->next_number * shares + lane->config.share);
        lane->next_number++;
    }
}

static struct wp_worker *
first_of(const struct wp_list *list)
{
    return wp_list_empty(list)
               ? NULL
               : WP_CONTAINER_OF(list->next, struct wp_worker, link);
}

static void
start_due(struct wp_lane *lane)
{
    struct wp_worker *worker;

    while ((worker = first_of(&lane->holding)) != NULL &&
           (worker->due_ns <= lane->now_ns || lane->draining)) {
        wp_list_remove(&worker->link);
        wp_lane_start_release(worker);
    }
    while ((worker = first_of(&lane->pausing)) != NULL &&
           (worker->due_ns <= lane->now_ns || lane->draining)) {
        wp_list_remove(&worker->link);
        lane->active--;
        lane->idle[lane->n_idle++] = worker;
    }
    /* All of them are held at one time. */
    while (lane->draining && wp_list_empty(&lane->claiming) &&
           (worker = first_of(&lane->kept)) != NULL) {
        wp_list_remove(&worker->link);
        lane->active++;
        wp_lane_start_release(worker);
    }
    if (lane->plan->arrivals == WP_ARRIVALS_CLOSED) {
        start_closed(lane);
    } else {
        start_open(lane);
    }
}

/* Calls nobody has answered. */
static void
give_up(struct wp_lane *lane, struct wp_list *list, int64_t limit_ns)
{
    struct wp_worker *worker;

    while ((worker = first_of(list)) != NULL &&
           lane->now_ns - worker->sent_ns >= limit_ns) {
        wp_lane_call_over(worker, lane->carrier->cancel(worker));
    }
}

/* While no connection lives. A release that fails may be followed by another:
 * it comes to the list's end. */
static void
fail_unsent(struct wp_lane *lane)
{
    struct wp_worker *worker;

    while ((worker = first_of(&lane->unsent)) != NULL) {
        wp_lane_call_over(worker, 14); /* UNAVAILABLE */
    }
}

static int64_t
earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* How long there is nothing to do but to wait for answers. */
static int64_t
time_to_wait(const struct wp_lane *lane)
{
    const struct wp_plan *plan = lane->plan;
    int64_t until_ns = lane->now_ns + LOOK_NS;
    const struct wp_worker *worker;

    if (plan->spin) {
        return 0;
    }
    if (lane->now_ns < lane->config.start_ns) {
        return earlier(until_ns, lane->config.start_ns) - lane->now_ns;
    }
    if (may_start(lane) && lane->n_idle > 0 &&
        plan->arrivals != WP_ARRIVALS_CLOSED) {
        until_ns = earlier(until_ns, lane->next_due_ns);
    }
    if ((worker = first_of(&lane->holding)) != NULL) {
        until_ns = earlier(until_ns, worker->due_ns);
    }
    if ((worker = first_of(&lane->pausing)) != NULL) {
        until_ns = earlier(until_ns, worker->due_ns);
    }
    if ((worker = first_of(&lane->claiming)) != NULL) {
        until_ns = earlier(until_ns,
                           worker->sent_ns + plan->timeout_ns + plan->wait_ns);
    }
    if ((worker = first_of(&lane->releasing)) != NULL) {
        until_ns = earlier(until_ns, worker->sent_ns + plan->timeout_ns);
    }
    if (lane->dead > 0) {
        until_ns = earlier(until_ns, lane->reopen_ns);
    }
    return until_ns > lane->now_ns ? until_ns - lane->now_ns : 0;
}

static void
tell(struct wp_lane *lane)
{
    const struct wp_tally *tally = lane->tally;
    struct wp_lane_progress *p = &lane->progress;

    atomic_store_explicit(&p->due, tally->due, memory_order_relaxed);
    atomic_store_explicit(&p->granted, tally->granted, memory_order_relaxed);
    atomic_store_explicit(&p->warm, tally->served[1], memory_order_relaxed);
    atomic_store_explicit(&p->failed, wp_tally_failed(tally),
                          memory_order_relaxed);
    atomic_store_explicit(&p->in_flight, lane->active, memory_order_relaxed);
}

/* Is there no reason to start any more? */
static bool
must_drain(const struct wp_lane *lane)
{
    int64_t patience_ns = lane->plan->timeout_ns + lane->plan->wait_ns;
    bool closed = lane->plan->arrivals == WP_ARRIVALS_CLOSED;

    return atomic_load_explicit(&lane->config.signals->stop,
                                memory_order_relaxed) ||
           lane->no_memory || (lane->plan->keep && lane->n_idle == 0) ||
           lane->started >= lane->started_max ||
           (closed ? lane->now_ns : lane->next_due_ns) >= lane->end_ns ||
           lane->now_ns >= wp_time_add(lane->end_ns, patience_ns) ||
           (!closed && lane->next_due_ns == WP_TIME_NEVER);
}

/* Nothing more will be started, and all that was has ended. */
static bool
is_over(struct wp_lane *lane)
{
    if (!lane->draining && must_drain(lane)) {
        count_unsent(lane);
        lane->draining = true;
    }
    return lane->draining &&
           ((lane->under_way == 0 && wp_list_empty(&lane->holding) &&
             wp_list_empty(&lane->pausing) && wp_list_empty(&lane->kept)) ||
            atomic_load_explicit(&lane->config.signals->abort,
                                 memory_order_relaxed));
}

static enum wp_status
turns(struct wp_lane *lane, struct wp_err *err)
{
    const struct wp_plan *plan = lane->plan;
    int64_t slept_until_ns = wp_lane_now_ns();

    for (unsigned turn = 0; !is_over(lane); turn++) {
        int64_t wait_ns = time_to_wait(lane);
        enum wp_status status = lane->carrier->turn(lane, wait_ns, err);
        int64_t stall_ns;

        if (status != WP_OK) {
            return status;
        }
        lane->now_ns = wp_lane_now_ns();
        stall_ns = lane->now_ns - slept_until_ns - wait_ns;
        slept_until_ns = lane->now_ns;
        if (stall_ns > lane->tally->stall_max_ns) {
            lane->tally->stall_max_ns = stall_ns;
        }
        status = reopen(lane, err);
        if (status != WP_OK) {
            return status;
        }
        start_due(lane);
        fail_unsent(lane);
        give_up(lane, &lane->claiming, plan->timeout_ns + plan->wait_ns);
        give_up(lane, &lane->releasing, plan->timeout_ns);
        if (turn % 64 == 0 || wait_ns > WP_NS_PER_MS) {
            tell(lane);
        }
    }
    return WP_OK;
}

static int64_t
cpu_ns(void)
{
    struct timespec ts;

    return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts) != 0
               ? 0
               : (int64_t)ts.tv_sec * WP_NS_PER_S + ts.tv_nsec;
}

enum wp_status
wp_lane_run(struct wp_lane *lane, struct wp_err *err)
{
    const struct wp_plan *plan = lane->plan;
    int64_t before_ns = cpu_ns();
    enum wp_status status;

    /* Else the kernel rounds each sleep up by 50 us. */
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    lane->zero_ns = lane->config.start_ns + plan->warmup_ns;
    lane->end_ns = plan->claims > 0 || plan->arrivals == WP_ARRIVALS_CSV
                       ? WP_TIME_NEVER
                       : lane->zero_ns + plan->duration_ns;
    lane->started_max = UINT64_MAX;
    if (plan->claims > 0) {
        uint64_t shares = lane->config.shares;
        uint64_t calls = plan->claims / lane->batch;

        lane->started_max =
            (calls / shares + (lane->config.share < calls % shares)) *
            lane->batch;
    }
    if (plan->arrivals != WP_ARRIVALS_CLOSED) {
        wp_arrivals_init(&lane->arrivals, plan, lane->config.times,
                         lane->config.share, lane->config.shares);
        next_arrival(lane);
    }
    lane->now_ns = wp_lane_now_ns();
    status = turns(lane, err);
    lane->tally->client_cpu_ns = cpu_ns() - before_ns;
    if (lane->no_memory && status == WP_OK) {
        status = wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                            "no memory for the names of more sandboxes");
    }
    tell(lane);
    return status;
}

/* --- Made and unmade. --- */

static bool
make_workers(struct wp_lane *lane)
{
    lane->n_workers = workers_of(lane);
    lane->workers = calloc(lane->n_workers, sizeof *lane->workers);
    lane->idle = calloc(lane->n_workers, sizeof(struct wp_worker *));
    lane->tokens =
        calloc((size_t)lane->n_workers * lane->batch, sizeof *lane->tokens);
    if (lane->workers == NULL || lane->idle == NULL || lane->tokens == NULL) {
        return false;
    }
    /* The first is taken first, so that few are ever touched. */
    for (uint32_t i = lane->n_workers; i-- > 0;) {
        struct wp_worker *worker = &lane->workers[i];

        worker->lane = lane;
        worker->tokens = &lane->tokens[(size_t)i * lane->batch];
        wp_list_init(&worker->link);
        lane->idle[lane->n_idle++] = worker;
    }
    return true;
}

struct wp_lane *
wp_lane_create(const struct wp_lane_config *config, struct wp_err *err)
{
    const struct wp_plan *plan = config->plan;
    struct wp_lane *lane = calloc(1, sizeof *lane);

    if (lane != NULL) {
        lane->tally = wp_tally_create();
    }
    if (lane == NULL || lane->tally == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        wp_lane_destroy(lane);
        return NULL;
    }
    lane->config = *config;
    lane->plan = plan;
    lane->batch = plan->batch > 0 ? plan->batch : 1;
    lane->carrier =
        config->server != NULL ? &wp_carrier_objects : &wp_carrier_grpc;
    wp_list_init(&lane->claiming);
    wp_list_init(&lane->releasing);
    wp_list_init(&lane->holding);
    wp_list_init(&lane->pausing);
    wp_list_init(&lane->kept);
    wp_list_init(&lane->unsent);
    if (!make_workers(lane)) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory for %u calls",
                         lane->n_workers);
    } else if (lane->carrier->open(lane, err) == WP_OK) {
        return lane;
    }
    wp_lane_destroy(lane);
    return NULL;
}

void
wp_lane_destroy(struct wp_lane *lane)
{
    if (lane == NULL) {
        return;
    }
    if (lane->carrier != NULL) {
        lane->carrier->close(lane);
    }
    wp_tally_destroy(lane->tally);
    free(lane->workers);
    free(lane->tokens);
    free(lane->idle);
    free(lane);
}

const struct wp_lane_progress *
wp_lane_progress(const struct wp_lane *lane)
{
    return &lane->progress;
}

struct wp_tally *
wp_lane_tally(struct wp_lane *lane)
{
    return lane->tally;
}

pid_t
wp_lane_peer(const struct wp_lane *lane)
{
    return lane->carrier->peer != NULL ? lane->carrier->peer(lane) : 0;
}
