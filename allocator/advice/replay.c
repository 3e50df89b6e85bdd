/* allocator/advice/replay.c - the simulation's loop.
 *
 * At each moment at which something happens: first sandboxes become ready, then
 * ones in use end, then announcements are told, then claims come, then the
 * policy is asked, and at last the daemon's own refill policy
 * (pool/refill/refill.h) carries out what the target asks for. Between such
 * moments nothing is computed. */
#include "allocator/advice/replay.h"

#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/extreme.h"
#include "pool/refill/refill.h"
#include "allocator/advice/replay_parts.h"

/* Claims that wait, at most; more are served from elsewhere. */
#define WAITING_MAX (1U << 20)
/* A policy that wants to be asked again at once is asked so much later. */
#define POLICY_PAUSE_NS WP_NS_PER_MS

struct announcement {
    int64_t announced_ns;
    int64_t from_ns;
    int64_t until_ns;
    uint32_t n;
    uint32_t order; /* As told by the source: decides between equal times. */
};

/* Counted from the start of the simulation, warm-up included. */
struct tally {
    uint64_t claims;
    uint64_t hits;
    uint64_t served; /* From the pool: hits, and those that waited. */
    uint64_t created;
    uint64_t failed;
    uint64_t unused;
    uint64_t became_ready;
    uint64_t target_changes;
};

struct sim {
    const struct wp_replay_config *config;
    struct wp_replay_policy *policy;
    struct wp_refill refill;
    struct wp_replay_heap warming; /* what: ordered at, from
                                    * start_ns on, and whether it fails. */
    struct wp_replay_heap in_use;
    struct wp_replay_draw leads;
    struct wp_replay_draw holds;
    struct wp_replay_draw misses; /* Lead times of those served elsewhere. */
    struct announcement *announced;
    uint32_t n_announced;
    uint32_t announced_next;

    int64_t now_ns;
    int64_t start_ns;
    int64_t claim_ns; /* WP_TIME_NEVER: no more. */
    uint32_t claim_n;
    int64_t policy_ns;
    int64_t refill_ns;
    int64_t order_free_ns; /* When the capped backend takes the next one. */
    int64_t progress_ns;

    uint32_t ready;
    uint32_t target;
    int64_t *waiting; /* Ring of arrival times. */
    uint32_t waiting_cap;
    uint32_t waiting_from;
    uint32_t n_waiting;

    struct tally all;
    struct tally warm_up;
    bool measuring;
    double ready_ns; /* Summed over the measured time. */
    double warming_ns;
    struct wp_replay_waits waits;
    uint32_t stock_max;
    uint32_t over_target_max;
    bool out_of_memory;
    bool stopped;
};

static void
advance(struct sim *sim, int64_t to_ns)
{
    const struct wp_replay_config *config = sim->config;
    int64_t from = wp_max_i64(sim->now_ns, config->begin_ns);

    if (to_ns > from) {
        double dt = (double)(to_ns - from);

        sim->ready_ns += dt * sim->ready;
        sim->warming_ns += dt * sim->warming.n;
    }
    sim->now_ns = to_ns;
    if (!sim->measuring && to_ns >= config->begin_ns) {
        sim->measuring = true;
        sim->warm_up = sim->all;
    }
}

static void
add_wait(struct sim *sim, int64_t came_ns, int64_t wait_ns)
{
    if (came_ns >= sim->config->begin_ns) {
        wp_replay_waits_add(&sim->waits, wait_ns);
    }
}

static void
keep_waiting(struct sim *sim)
{
    if (sim->n_waiting == sim->waiting_cap) {
        uint32_t cap = sim->waiting_cap == 0 ? 256 : 2 * sim->waiting_cap;
        int64_t *ring = malloc(cap * sizeof(*ring));

        if (ring == NULL) {
            sim->out_of_memory = true;
            return;
        }
        for (uint32_t i = 0; i < sim->n_waiting; i++) {
            ring[i] = sim->waiting[(sim->waiting_from + i) % sim->waiting_cap];
        }
        free(sim->waiting);
        sim->waiting = ring;
        sim->waiting_cap = cap;
        sim->waiting_from = 0;
    }
    sim->waiting[(sim->waiting_from + sim->n_waiting++) % sim->waiting_cap] =
        sim->now_ns;
}

/* A claim has got a sandbox, from the pool or from elsewhere. */
static void
use(struct sim *sim, int64_t from_ns)
{
    const struct wp_replay_config *config = sim->config;

    if (config->hold_median_s > 0) {
        int64_t hold_ns = wp_replay_draw_lognormal_ns(
            &sim->holds, config->hold_median_s, config->hold_sigma);

        if (!wp_replay_heap_push(&sim->in_use, wp_time_add(from_ns, hold_ns),
                                 0)) {
            sim->out_of_memory = true;
        }
    }
}

static void
miss(struct sim *sim)
{
    bool fails;

    if (sim->config->miss == WP_MISS_QUEUED && sim->n_waiting < WAITING_MAX) {
        keep_waiting(sim);
        return;
    }
    add_wait(sim, sim->now_ns,
             wp_replay_draw_lead_ns(&sim->misses, &sim->config->lead, &fails));
    use(sim, sim->now_ns);
}

static void
next_claims(struct sim *sim)
{
    const struct wp_replay_source *source = &sim->config->source;
    int64_t before_ns = sim->claim_ns;

    do {
        if (!source->next(source->self, &sim->claim_ns, &sim->claim_n)) {
            sim->claim_ns = WP_TIME_NEVER;
            return;
        }
    } while (sim->claim_n == 0);
    sim->claim_ns = wp_max_i64(sim->claim_ns, before_ns);
}

static void
on_claims(struct sim *sim)
{
    struct wp_replay_policy *policy = sim->policy;
    uint32_t n = 0;
    uint32_t missed = 0;

    while (sim->claim_ns <= sim->now_ns) {
        for (uint32_t i = 0; i < sim->claim_n; i++) {
            if (sim->ready > 0) {
                sim->ready--;
                sim->all.hits++;
                sim->all.served++;
                use(sim, sim->now_ns);
            } else {
                missed++;
                miss(sim);
            }
        }
        n += sim->claim_n;
        next_claims(sim);
    }
    sim->all.claims += n;
    if (n > 0 && policy->on_claims != NULL) {
        policy->on_claims(policy->self, sim->now_ns, n, missed);
    }
}

static void
on_warm(struct sim *sim)
{
    struct wp_replay_policy *policy = sim->policy;
    struct wp_replay_due due = wp_replay_heap_pop(&sim->warming);
    int64_t lead_ns = due.at_ns - sim->start_ns - due.what / 2;

    if (due.what % 2 != 0) {
        sim->all.failed++;
        wp_refill_on_failed(&sim->refill, sim->now_ns);
        return;
    }
    sim->all.became_ready++;
    wp_refill_on_ready(&sim->refill, lead_ns);
    if (sim->n_waiting > 0) {
        int64_t came_ns = sim->waiting[sim->waiting_from];

        sim->waiting_from = (sim->waiting_from + 1) % sim->waiting_cap;
        sim->n_waiting--;
        sim->all.served++;
        add_wait(sim, came_ns, sim->now_ns - came_ns);
        use(sim, sim->now_ns);
    } else {
        sim->ready++;
    }
    if (policy->on_ready != NULL) {
        policy->on_ready(policy->self, sim->now_ns, lead_ns);
    }
}

static void
tell_announced(struct sim *sim)
{
    struct wp_replay_policy *policy = sim->policy;

    while (sim->announced_next < sim->n_announced &&
           sim->announced[sim->announced_next].announced_ns <= sim->now_ns) {
        const struct announcement *it = &sim->announced[sim->announced_next++];

        if (policy->on_announced != NULL) {
            policy->on_announced(policy->self, sim->now_ns, it->from_ns,
                                 it->until_ns, it->n);
        }
    }
}

static void
ask_policy(struct sim *sim)
{
    const struct wp_replay_view view = {
        .now_ns = sim->now_ns,
        .ready = sim->ready,
        .warming = sim->warming.n,
        .in_use = sim->in_use.n,
        .waiting = sim->n_waiting,
        .claims = sim->all.claims,
        .missed = sim->all.claims - sim->all.hits,
        .became_ready = sim->all.became_ready,
        .stuck = wp_refill_breaker_open(&sim->refill),
    };
    int64_t next_ns = WP_TIME_NEVER;
    uint32_t target = sim->policy->target(sim->policy->self, &view, &next_ns);

    sim->policy_ns =
        next_ns > sim->now_ns ? next_ns : sim->now_ns + POLICY_PAUSE_NS;
    if (target != sim->target) {
        sim->target = target;
        sim->all.target_changes++;
    }
}

static bool
at_ceiling(const struct sim *sim)
{
    const struct wp_replay_config *config = sim->config;

    return sim->now_ns >= config->ceiling_from_ns &&
           sim->now_ns < config->ceiling_until_ns &&
           (uint64_t)sim->ready + sim->warming.n + sim->in_use.n >=
               config->ceiling;
}

/* Orders one sandbox; false: the backend takes no more. */
static bool
order(struct sim *sim)
{
    const struct wp_replay_config *config = sim->config;
    int64_t begins_ns = sim->now_ns;
    int64_t lead_ns;
    bool fails;

    if (at_ceiling(sim)) {
        wp_refill_on_create_refused(&sim->refill, WP_RESOURCE_EXHAUSTED,
                                    sim->now_ns);
        return false;
    }
    if (config->creates_per_s_max > 0) {
        begins_ns = wp_max_i64(begins_ns, sim->order_free_ns);
        sim->order_free_ns = begins_ns + (int64_t)((double)WP_NS_PER_S /
                                                   config->creates_per_s_max);
    }
    lead_ns = wp_replay_draw_lead_ns(&sim->leads, &config->lead, &fails);
    if (!wp_replay_heap_push(&sim->warming, wp_time_add(begins_ns, lead_ns),
                             2 * (sim->now_ns - sim->start_ns) +
                                 (fails ? 1 : 0))) {
        sim->out_of_memory = true;
        return false;
    }
    sim->all.created++;
    return true;
}

static struct wp_refill_view
refill_view(const struct sim *sim)
{
    return (struct wp_refill_view){
        .target = sim->target,
        .ready = sim->ready,
        .warming = sim->warming.n,
        .waiting = sim->n_waiting,
        .create_inflight_max = sim->config->inflight_max,
        .slots_free = UINT32_MAX,
        .waiting_max = sim->config->waiting_orders_none ? 0 : UINT32_MAX,
        .now_ns = sim->now_ns,
    };
}

static void
note_stock(struct sim *sim)
{
    uint64_t stock = (uint64_t)sim->ready + sim->warming.n;
    uint64_t most = (uint64_t)sim->target + sim->n_waiting;

    if (sim->measuring) {
        sim->stock_max = wp_max_u32(sim->stock_max, (uint32_t)stock);
    }
    if (stock > most && stock - most > sim->over_target_max) {
        sim->over_target_max = (uint32_t)(stock - most);
    }
}

static void
refill(struct sim *sim)
{
    struct wp_refill_plan plan;

    do {
        struct wp_refill_view view = refill_view(sim);
        bool taken = true;

        plan = wp_refill_plan(&sim->refill, &view);
        for (uint32_t i = 0; i < plan.create && taken; i++) {
            taken = order(sim);
        }
        if (plan.create > 0) {
            note_stock(sim);
        }
        if (!taken) {
            /* What it was refused for decides when to ask again. */
            view = refill_view(sim);
            plan = wp_refill_plan(&sim->refill, &view);
        }
        sim->ready -= plan.destroy;
        sim->all.unused += plan.destroy;
        sim->refill_ns = plan.ask_again_ns;
    } while (sim->refill_ns <= sim->now_ns && !sim->out_of_memory);
}

/* Everything that happens at now_ns. */
static void
turn(struct sim *sim)
{
    while (wp_replay_heap_next_ns(&sim->warming) <= sim->now_ns) {
        on_warm(sim);
    }
    while (wp_replay_heap_next_ns(&sim->in_use) <= sim->now_ns) {
        (void)wp_replay_heap_pop(&sim->in_use);
    }
    tell_announced(sim);
    on_claims(sim);
    ask_policy(sim);
    refill(sim);
    WP_ASSERT(sim->all.created == sim->ready + sim->warming.n +
                                      sim->all.served + sim->all.failed +
                                      sim->all.unused);
}

static int64_t
next_ns(const struct sim *sim)
{
    int64_t at = wp_min_i64(wp_replay_heap_next_ns(&sim->warming),
                            wp_replay_heap_next_ns(&sim->in_use));

    at = wp_min_i64(at, wp_min_i64(sim->policy_ns, sim->refill_ns));
    if (sim->announced_next < sim->n_announced) {
        at = wp_min_i64(at, sim->announced[sim->announced_next].announced_ns);
    }
    return wp_min_i64(at, sim->claim_ns);
}

/* True: go on. */
static bool
tell_progress(struct sim *sim)
{
    const struct wp_replay_config *config = sim->config;
    int64_t whole_ns = config->end_ns - sim->start_ns;

    if (config->progress == NULL || sim->now_ns < sim->progress_ns) {
        return true;
    }
    sim->progress_ns = sim->now_ns + whole_ns / 100 + 1;
    sim->stopped = !config->progress(
        config->ctx, (double)(sim->now_ns - sim->start_ns) / (double)whole_ns);
    return !sim->stopped;
}

static void
run(struct sim *sim)
{
    int64_t end_ns = sim->config->end_ns;

    while (sim->now_ns < end_ns && !sim->out_of_memory && tell_progress(sim)) {
        turn(sim);
        advance(sim, wp_min_i64(next_ns(sim), end_ns));
    }
    for (uint32_t i = 0; i < sim->n_waiting; i++) {
        int64_t came_ns =
            sim->waiting[(sim->waiting_from + i) % sim->waiting_cap];

        add_wait(sim, came_ns, sim->now_ns - came_ns);
    }
}

static int
compare_announced(const void *a, const void *b)
{
    const struct announcement *x = a;
    const struct announcement *y = b;

    if (x->announced_ns != y->announced_ns) {
        return x->announced_ns < y->announced_ns ? -1 : 1;
    }
    return x->order < y->order ? -1 : 1;
}

static bool
load_announced(struct sim *sim)
{
    const struct wp_replay_source *source = &sim->config->source;
    struct announcement it = {0};
    uint32_t cap = 0;

    if (source->announced == NULL) {
        return true;
    }
    while (source->announced(source->self, it.order, &it.announced_ns,
                             &it.from_ns, &it.until_ns, &it.n)) {
        if (sim->n_announced == cap) {
            struct announcement *more;

            cap = cap == 0 ? 64 : 2 * cap;
            more = realloc(sim->announced, cap * sizeof(*more));
            if (more == NULL) {
                return false;
            }
            sim->announced = more;
        }
        sim->announced[sim->n_announced++] = it;
        it.order++;
    }
    if (sim->n_announced > 0) {
        qsort(sim->announced, sim->n_announced, sizeof(*sim->announced),
              compare_announced);
    }
    return true;
}

static enum wp_status
check(const struct wp_replay_config *config, struct wp_err *err)
{
    const struct wp_replay_lead *lead = &config->lead;

    if (config->begin_ns > config->end_ns || config->end_ns == WP_TIME_NEVER) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "replay: the end must be finite, and not before the "
                          "end of the warm-up");
    }
    if (!(lead->median_s >= 0) || !(lead->sigma >= 0) ||
        !(lead->slow_extra_s >= 0) ||
        !(lead->slow_share >= 0 && lead->slow_share <= 1) ||
        !(lead->fail_share >= 0 && lead->fail_share <= 1)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "replay: lead times must not be negative, shares "
                          "must be from 0 to 1");
    }
    if (!(config->hold_median_s >= 0) || !(config->hold_sigma >= 0) ||
        !(config->creates_per_s_max >= 0)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "replay: holding times and the rate of creations "
                          "must not be negative");
    }
    return WP_OK;
}

static void
report(const struct sim *sim, struct wp_replay_result *out)
{
    const struct tally *all = &sim->all;
    const struct tally *before = &sim->warm_up;
    int64_t span_ns = sim->now_ns - sim->config->begin_ns;

    *out = (struct wp_replay_result){
        .claims = all->claims - before->claims,
        .hits = all->hits - before->hits,
        .hit_rate = 1,
        .idle_s = sim->ready_ns / (double)WP_NS_PER_S,
        .warming_s = sim->warming_ns / (double)WP_NS_PER_S,
        .created = all->created - before->created,
        .failed = all->failed - before->failed,
        .unused = all->unused - before->unused,
        .stock_max = sim->stock_max,
        .over_target_max = sim->over_target_max,
        .target_changes = all->target_changes - before->target_changes,
        .stopped = sim->stopped,
    };
    if (!sim->measuring) {
        *out =
            (struct wp_replay_result){.hit_rate = 1, .stopped = sim->stopped};
        return;
    }
    if (span_ns > 0) {
        out->idle_mean = sim->ready_ns / (double)span_ns;
    }
    if (out->claims > 0) {
        out->hit_rate = (double)out->hits / (double)out->claims;
        out->wait_p50_s =
            wp_replay_waits_quantile_s(&sim->waits, out->claims, 0.5);
        out->wait_p99_s =
            wp_replay_waits_quantile_s(&sim->waits, out->claims, 0.99);
        out->wait_p999_s =
            wp_replay_waits_quantile_s(&sim->waits, out->claims, 0.999);
    }
}

enum wp_status
wp_replay_run(const struct wp_replay_config *config,
              struct wp_replay_policy *policy, struct wp_replay_result *out,
              struct wp_err *err)
{
    enum wp_status status = check(config, err);
    struct sim *sim;

    if (status != WP_OK) {
        return status;
    }
    sim = calloc(1, sizeof(*sim));
    if (sim == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "replay: no memory");
    }
    sim->config = config;
    sim->policy = policy;
    wp_refill_init(&sim->refill, config->seed);
    wp_replay_draw_init(&sim->leads, config->seed + 1);
    wp_replay_draw_init(&sim->holds, config->seed + 2);
    wp_replay_draw_init(&sim->misses, config->seed + 3);
    sim->claim_ns = INT64_MIN;
    sim->out_of_memory = !load_announced(sim);
    next_claims(sim);
    sim->start_ns = wp_min_i64(sim->claim_ns, config->begin_ns);
    if (sim->n_announced > 0) {
        sim->start_ns =
            wp_min_i64(sim->start_ns, sim->announced[0].announced_ns);
    }
    sim->now_ns = sim->start_ns;
    sim->progress_ns = sim->start_ns;
    advance(sim, sim->start_ns);
    run(sim);
    report(sim, out);
    if (sim->out_of_memory) {
        status = wp_err_set(err, WP_RESOURCE_EXHAUSTED, "replay: no memory");
    }
    wp_replay_heap_fini(&sim->warming);
    wp_replay_heap_fini(&sim->in_use);
    free(sim->announced);
    free(sim->waiting);
    free(sim);
    return status;
}
