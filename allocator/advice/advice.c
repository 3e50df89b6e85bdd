#include "allocator/advice/advice.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "allocator/advice/advice_parts.h"
#include "allocator/advice/replay_parts.h"

enum {
    CLAIMS_MIN = 10,
    LEADS_KEPT = 8192, /* A sample of so many stands for all. */
    NEED_MAX = 1 << 20,
};

const struct wp_advice_baseline wp_advice_baselines[WP_ADVICE_BASELINES] = {
    {WP_BASELINE_HPA_CLAIM_RATE, 0.5, 0, 10, 100,
     "target 0.5 claims/s, 10 to 100 replicas"},
    {WP_BASELINE_KEDA_CLAIM_RATE, 0.05, 0, 0, 100,
     "0.05 claims/s a replica, 0 to 100 replicas"},
    {WP_BASELINE_AGONES_BUFFER, 5, 0, 0, UINT32_MAX, "bufferSize 5"},
    {WP_BASELINE_AGONES_PERCENT, 20, 0, 0, UINT32_MAX, "bufferSize 20%"},
    {WP_BASELINE_OPENSANDBOX, 2, 10, 0, UINT32_MAX,
     "bufferMin 2, bufferMax 10"},
    {WP_BASELINE_WATERMARK, 10, 0, 0, UINT32_MAX, "10 available, +- 10 %"},
    {WP_BASELINE_IN_USE_PLUS, 5, 0, 0, UINT32_MAX, "5 spare"},
    {WP_BASELINE_OPENWHISK, 1, 120, 0, UINT32_MAX,
     "1 for each cold start, 120 s"},
    {WP_BASELINE_KNATIVE_KPA, 70, 0, 0, UINT32_MAX, "70 % utilisation"},
};

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
    return advice->facts.n_leads < LEADS_KEPT ? advice->facts.n_leads
                                              : LEADS_KEPT;
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

/* How many were claimed in the lead time before each claim: need[n] claims
 * found n orders under way. A constant stock of more than n would have served
 * them at once. NULL when memory lacks. */
static uint64_t *
needs(const struct wp_advice *advice)
{
    uint64_t *need = calloc(NEED_MAX, sizeof *need);
    struct wp_replay_heap under_way = {0};
    struct wp_replay_draw draw;
    struct wp_replay_source source = {0};
    int64_t at_ns;
    uint32_t n;
    bool whole = need != NULL &&
                 wp_replay_source_history(advice->config.history, &source);

    wp_replay_draw_init(&draw, advice->config.seed);
    while (whole && source.next(source.self, &at_ns, &n)) {
        while (wp_replay_heap_next_ns(&under_way) <= at_ns) {
            (void)wp_replay_heap_pop(&under_way);
        }
        for (uint32_t i = 0; i < n && whole; i++) {
            bool fails;

            if (at_ns >= advice->begin_ns) {
                need[under_way.n < NEED_MAX ? under_way.n : NEED_MAX - 1]++;
            }
            whole = wp_replay_heap_push(
                &under_way,
                wp_time_add(at_ns, wp_replay_draw_lead_ns(&draw, &advice->lead,
                                                          &fails)),
                0);
        }
    }
    wp_replay_heap_fini(&under_way);
    if (source.self != NULL) {
        wp_replay_source_history_end(&source);
    }
    if (!whole) {
        free(need);
        return NULL;
    }
    return need;
}

/* The fixed sizes that would just reach each objective. */
static bool
add_fixed_sizes(struct wp_advice *advice, const double *objectives,
                uint32_t n_objectives)
{
    uint64_t *need = needs(advice);
    uint64_t all = 0;

    if (need == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < NEED_MAX; i++) {
        all += need[i];
    }
    for (uint32_t k = 0; k < n_objectives; k++) {
        double wanted = objectives[k] * (double)all;
        double seen = 0;
        uint32_t size = 0;

        while (size < NEED_MAX && seen < wanted) {
            seen += (double)need[size++];
        }
        add_fixed(advice, size);
    }
    free(need);
    return true;
}

static void
add_baselines(struct wp_advice *advice)
{
    for (size_t i = 0; i < WP_ADVICE_BASELINES; i++) {
        struct wp_advice_row *row;

        if (wp_baseline_name(wp_advice_baselines[i].baseline) == NULL) {
            continue;
        }
        row = add_row(advice, WP_ADVICE_BASELINE,
                      wp_baseline_name(wp_advice_baselines[i].baseline));
        row->cites = wp_baseline_cites(wp_advice_baselines[i].baseline);
        (void)snprintf(row->setting, sizeof row->setting, "%s",
                       wp_advice_baselines[i].setting);
        advice->baseline_at[advice->n_rows - 1] = (uint8_t)i;
    }
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
    add_baselines(advice);
    if (wp_baseline_name(WP_BASELINE_CLAIRVOYANT) != NULL) {
        (void)snprintf(
            add_row(advice, WP_ADVICE_CLAIRVOYANT, "clairvoyant")->setting,
            WP_ADVICE_SETTING_MAX, "knows every claim %.1f s in advance",
            advice->facts.lead_p99_s);
    }
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
