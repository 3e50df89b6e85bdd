#include "allocator/advice/advice.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/extreme.h"
#include "allocator/advice/advice_parts.h"
#include "allocator/advice/replay_parts.h"

enum {
    CLAIMS_MIN = 10,
    LEADS_KEPT = 8192, /* A sample of so many stands for all. */
    NEED_MAX = 1 << 20,
    MAKERS_MAX = 4096, /* More at once are no bound worth looking at. */
};

/* What a fixed size that serves so many does not serve are peaks; two are apart
 * by so many lead times, and no less than a minute. */
static const double PEAK_ABOVE = 0.99;
static const double PEAK_LEADS = 4;
#define PEAK_APART_NS (60 * WP_NS_PER_S)

/* --- What the history says --- */

static int
compare_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return x < y ? -1 : x > y ? 1 : 0;
}

/* One pass: facts, and a sample of the lead times in which all have the same
 * chance. */
static void
read_history(struct wp_advice *advice)
{
    struct wp_advice_facts *facts = &advice->facts;
    struct wp_history_cursor cursor;
    struct wp_history_event event;
    struct wp_rng rng;
    int64_t gap_from_ns = -1;
    int64_t gaps_ns = 0;

    wp_rng_init(&rng, advice->config.seed);
    wp_history_first(advice->config.history, &cursor);
    while (wp_history_next(&cursor, &event)) {
        if (gap_from_ns >= 0) {
            gaps_ns += event.wall_ns - gap_from_ns;
            gap_from_ns = -1;
        }
        if (event.kind == WP_HISTORY_GAP) {
            gap_from_ns = event.wall_ns;
            facts->n_gaps++;
        } else if (event.kind == WP_HISTORY_READY) {
            uint64_t at = facts->n_leads++;

            at = at < LEADS_KEPT ? at : wp_rng_below(&rng, at + 1);
            if (at < LEADS_KEPT) {
                advice->leads_ns[at] = event.lead_ns;
            }
        }
    }
    facts->claims = wp_history_claims(advice->config.history);
    facts->dropped = wp_history_dropped(advice->config.history);
    facts->known_ns = facts->until_wall_ns - facts->from_wall_ns - gaps_ns;
}

static uint32_t
leads_kept(const struct wp_advice *advice)
{
    return wp_min_u32(advice->facts.n_leads, LEADS_KEPT);
}

static void
set_lead(struct wp_advice *advice)
{
    struct wp_advice_facts *facts = &advice->facts;
    uint32_t n = leads_kept(advice);
    uint32_t p99 = n * 99 / 100;

    if (advice->config.lead_ns > 0) {
        facts->n_leads = 0;
        facts->lead_mean_s =
            (double)advice->config.lead_ns / (double)WP_NS_PER_S;
        facts->lead_p99_s = facts->lead_mean_s;
        advice->lead = (struct wp_replay_lead){.median_s = facts->lead_mean_s};
        return;
    }
    qsort(advice->leads_ns, n, sizeof *advice->leads_ns, compare_i64);
    for (uint32_t i = 0; i < n; i++) {
        facts->lead_mean_s +=
            (double)advice->leads_ns[i] / (double)WP_NS_PER_S / n;
    }
    facts->lead_p99_s = (double)advice->leads_ns[p99] / (double)WP_NS_PER_S;
    advice->lead = (struct wp_replay_lead){.measured_ns = advice->leads_ns,
                                           .n_measured = n};
}

/* --- The rows --- */

static struct wp_advice_row *
add_row(struct wp_advice *advice, enum wp_advice_kind kind, const char *name)
{
    struct wp_advice_row *row = &advice->rows[advice->n_rows];

    WP_ASSERT(advice->n_rows < WP_ADVICE_ROWS_MAX);
    advice->n_rows++;
    row->kind = kind;
    (void)snprintf(row->name, sizeof row->name, "%s", name);
    return row;
}

static void
add_today(struct wp_advice *advice)
{
    const struct wp_scale_policy *policy = &advice->config.policy;
    struct wp_advice_row *row = add_row(advice, WP_ADVICE_TODAY, "today");
    char share[32];

    if (policy->objective == WP_SCALE_PLAIN) {
        row->size = advice->config.replicas;
        (void)snprintf(row->setting, sizeof row->setting, "replicas=%u",
                       row->size);
    } else if (policy->objective == WP_SCALE_COST) {
        (void)snprintf(row->setting, sizeof row->setting,
                       "objective=cost miss-cost=%g min=%u max=%u",
                       policy->miss_cost_s, policy->min, policy->max);
    } else {
        row->objective = policy->hit_rate;
        (void)snprintf(share, sizeof share, "%g%%", policy->hit_rate * 100);
        (void)snprintf(row->setting, sizeof row->setting,
                       "objective=%s min=%u max=%u", share, policy->min,
                       policy->max);
    }
}

static void
add_ours(struct wp_advice *advice, double objective)
{
    struct wp_advice_row *row;
    char name[WP_ADVICE_NAME_MAX];

    for (uint32_t i = 0; i < advice->n_rows; i++) {
        if (advice->rows[i].kind == WP_ADVICE_OURS &&
            fabs(advice->rows[i].objective - objective) < 1e-9) {
            return;
        }
    }
    (void)snprintf(name, sizeof name, "objective %g %%", objective * 100);
    row = add_row(advice, WP_ADVICE_OURS, name);
    row->objective = objective;
    (void)snprintf(row->setting, sizeof row->setting, "objective=%g%%",
                   objective * 100);
}

static void
add_fixed(struct wp_advice *advice, uint32_t size)
{
    struct wp_advice_row *row;
    char name[WP_ADVICE_NAME_MAX];

    for (uint32_t i = 0; i < advice->n_rows; i++) {
        if (advice->rows[i].kind == WP_ADVICE_FIXED &&
            advice->rows[i].size == size) {
            return;
        }
    }
    (void)snprintf(name, sizeof name, "fixed %u", size);
    row = add_row(advice, WP_ADVICE_FIXED, name);
    row->size = size;
    (void)snprintf(row->setting, sizeof row->setting, "replicas=%u", size);
}

/* Claims as they ask for stock: how many are under way when one comes, with one
 * ordered for each. */
struct needs {
    struct wp_replay_heap under_way;
    struct wp_replay_heap makers; /* When each is free; empty: no bound. */
    struct wp_replay_draw draw;
};

/* One more is ordered at at_ns. False when memory lacks. */
static bool
order_one(struct needs *needs, const struct wp_replay_lead *lead, int64_t at_ns)
{
    bool bounded = needs->makers.n > 0;
    bool fails;
    int64_t begins_ns =
        bounded ? wp_max_i64(wp_replay_heap_pop(&needs->makers).at_ns, at_ns)
                : at_ns;
    int64_t ready_ns = wp_time_add(
        begins_ns, wp_replay_draw_lead_ns(&needs->draw, lead, &fails));

    return wp_replay_heap_push(&needs->under_way, ready_ns, 0) &&
           (!bounded || wp_replay_heap_push(&needs->makers, ready_ns, 0));
}

static bool
begin_needs(struct needs *needs, const struct wp_advice *advice)
{
    uint32_t at_once = advice->config.at_once;

    *needs = (struct needs){.under_way = {0}};
    wp_replay_draw_init(&needs->draw, advice->config.seed);
    for (uint32_t i = 0; at_once <= MAKERS_MAX && i < at_once; i++) {
        if (!wp_replay_heap_push(&needs->makers, 0, 0)) {
            return false;
        }
    }
    return true;
}

/* need[n], if not NULL: claims that found n under way; a constant stock of more
 * would have served them at once. *peaks, from 0 on: times, apart from each
 * other, at which more than `above` were under way. False when memory lacks. */
static bool
walk_needs(const struct wp_advice *advice, uint64_t *need, uint32_t above,
           uint32_t *peaks)
{
    int64_t apart_ns = wp_max_i64(
        (int64_t)(PEAK_LEADS * advice->facts.lead_mean_s * WP_NS_PER_S),
        PEAK_APART_NS);
    struct needs needs;
    struct wp_replay_source source = {0};
    int64_t peak_ns = INT64_MIN / 2;
    int64_t at_ns;
    uint32_t n;
    bool whole = begin_needs(&needs, advice) &&
                 wp_replay_source_history(advice->config.history, &source);

    while (whole && source.next(source.self, &at_ns, &n)) {
        while (wp_replay_heap_next_ns(&needs.under_way) <= at_ns) {
            (void)wp_replay_heap_pop(&needs.under_way);
        }
        for (uint32_t i = 0; i < n && whole; i++) {
            if (need != NULL && at_ns >= advice->begin_ns) {
                need[wp_min_u32(needs.under_way.n, NEED_MAX - 1)]++;
            }
            whole = order_one(&needs, &advice->lead, at_ns);
        }
        if (needs.under_way.n > above) {
            *peaks += at_ns - peak_ns > apart_ns ? 1 : 0;
            peak_ns = at_ns;
        }
    }
    wp_replay_heap_fini(&needs.under_way);
    wp_replay_heap_fini(&needs.makers);
    if (source.self != NULL) {
        wp_replay_source_history_end(&source);
    }
    return whole;
}

/* The smallest constant size that serves such a share. */
static uint32_t
size_for(const uint64_t *need, double objective)
{
    double all = 0;
    double seen = 0;
    uint32_t size = 0;

    for (uint32_t i = 0; i < NEED_MAX; i++) {
        all += (double)need[i];
    }
    while (size < NEED_MAX && seen < objective * all) {
        seen += (double)need[size++];
    }
    return size;
}

/* The fixed sizes that would just reach each objective, and one between each
 * two of them, so that others are not compared with one that is far too large.
 */
static bool
add_fixed_sizes(struct wp_advice *advice, const double *objectives,
                uint32_t n_objectives)
{
    uint64_t *need = calloc(NEED_MAX, sizeof *need);
    uint32_t *peaks = &advice->facts.peaks;
    bool whole = need != NULL && walk_needs(advice, need, UINT32_MAX, peaks);

    for (uint32_t k = 0; k < n_objectives && whole; k++) {
        if (k > 0) {
            add_fixed(advice, size_for(need, 1 - sqrt((1 - objectives[k - 1]) *
                                                      (1 - objectives[k]))));
        }
        add_fixed(advice, size_for(need, objectives[k]));
    }
    whole =
        whole && walk_needs(advice, NULL, size_for(need, PEAK_ABOVE), peaks);
    free(need);
    return whole;
}

static bool
plan(struct wp_advice *advice)
{
    static const double DEFAULTS[] = {0.95, 0.99, 0.995, 0.999, 0.9999};
    const struct wp_advice_config *config = &advice->config;
    bool given = config->n_objectives > 0;
    const double *objectives = given ? config->objectives : DEFAULTS;
    uint32_t n =
        given ? config->n_objectives : (uint32_t)WP_ARRAY_LEN(DEFAULTS);

    if (config->has_today) {
        add_today(advice);
    }
    for (uint32_t i = 0; i < n; i++) {
        add_ours(advice, objectives[i]);
    }
    if (config->has_today && config->policy.objective == WP_SCALE_HIT_RATE) {
        add_ours(advice, config->policy.hit_rate);
    }
    if (!add_fixed_sizes(advice, objectives, n)) {
        return false;
    }
    (void)snprintf(
        add_row(advice, WP_ADVICE_CLAIRVOYANT, "clairvoyant")->setting,
        WP_ADVICE_SETTING_MAX, "knows every claim %.1f s in advance",
        advice->facts.lead_p99_s);
    return true;
}

static enum wp_status
check(const struct wp_advice_config *config,
      const struct wp_advice_facts *facts, struct wp_err *err)
{
    if (facts->claims < CLAIMS_MIN) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "too little history: %llu claims, at least %d "
                          "needed",
                          (unsigned long long)facts->claims, CLAIMS_MIN);
    }
    if (config->lead_ns <= 0 && facts->n_leads == 0) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "no sandbox became ready in this history: say how "
                          "long an order takes (lead)");
    }
    if (facts->known_ns <= 0) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "all claims of this history came at one moment");
    }
    return WP_OK;
}

enum wp_status
wp_advice_create(const struct wp_advice_config *config, struct wp_advice **out,
                 struct wp_err *err)
{
    struct wp_advice *advice = calloc(1, sizeof *advice);
    enum wp_status status;

    *out = NULL;
    if (advice == NULL ||
        (advice->leads_ns = calloc(LEADS_KEPT, sizeof(int64_t))) == NULL) {
        free(advice);
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "advice: no memory");
    }
    advice->config = *config;
    if (wp_history_span(config->history, &advice->facts.from_wall_ns,
                        &advice->facts.until_wall_ns)) {
        read_history(advice);
    }
    status = check(config, &advice->facts, err);
    if (status == WP_OK) {
        set_lead(advice);
        advice->facts.at_once = config->at_once;
        advice->facts.run_up_ns = advice->facts.known_ns / 10;
        if (advice->facts.run_up_ns > 86400 * WP_NS_PER_S) {
            advice->facts.run_up_ns = 86400 * WP_NS_PER_S;
        }
        advice->begin_ns = advice->facts.run_up_ns;
        advice->end_ns = advice->facts.known_ns;
        if (!plan(advice)) {
            status =
                wp_err_set(err, WP_RESOURCE_EXHAUSTED, "advice: no memory");
        }
    }
    if (status != WP_OK) {
        wp_advice_destroy(advice);
        return status;
    }
    *out = advice;
    return WP_OK;
}

void
wp_advice_destroy(struct wp_advice *advice)
{
    if (advice != NULL) {
        free(advice->leads_ns);
        free(advice);
    }
}

const struct wp_advice_facts *
wp_advice_facts(const struct wp_advice *advice)
{
    return &advice->facts;
}

uint32_t
wp_advice_n_rows(const struct wp_advice *advice)
{
    return advice->n_rows;
}

const struct wp_advice_row *
wp_advice_row(const struct wp_advice *advice, uint32_t i)
{
    WP_ASSERT(i < advice->n_rows);
    return &advice->rows[i];
}
