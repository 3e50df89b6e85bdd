/* What other tools read: HdrHistogram's plotter, PerfKitBenchmarker,
 * agent-sandbox's stress test. Their names, units and percentiles. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/harness/report.h"
#include "bench/harness/stats.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"

/* --- HdrHistogram. --- */

enum {
    TICKS = 5, /* Of each half of what is left to 100 %. */
};

static void
moments(const struct wp_hist *hist, double *mean, double *deviation)
{
    double sum = 0;
    double squares = 0;
    double n = (double)hist->count;

    for (unsigned i = 0; i < WP_HIST_BUCKETS; i++) {
        if (hist->bucket[i] > 0) {
            double ms = (double)wp_hist_bound_ns(i) / 1e6;

            sum += ms * (double)hist->bucket[i];
            squares += ms * ms * (double)hist->bucket[i];
        }
    }
    *mean = n > 0 ? sum / n : 0;
    *deviation = n > 0 ? sqrt(fmax(0, squares / n - *mean * *mean)) : 0;
}

void
wp_report_hgrm(const struct wp_run *run, FILE *out)
{
    struct wp_hist *all = calloc(1, sizeof *all);
    double mean;
    double deviation;

    WP_ASSERT(all != NULL);
    wp_hist_reset(all);
    for (uint32_t i = 0; i < run->n_outcomes; i++) {
        wp_hist_merge(all, &run->outcomes[i].tally->claim);
    }
    (void)fputs("       Value     Percentile TotalCount 1/(1-Percentile)\n\n",
                out);
    for (int half = 0; all->count > 0; half++) {
        double left = ldexp(1, -half);

        for (int tick = 0; tick < TICKS; tick++) {
            double q = 1 - left + left / 2 * tick / TICKS;

            (void)fprintf(out, "%12.3f %2.12f %10.0f %14.2f\n",
                          (double)wp_hist_quantile_ns(all, q) / 1e6, q,
                          ceil(q * (double)all->count), 1 / (1 - q));
        }
        if (left * (double)all->count < 1) {
            break;
        }
    }
    if (all->count > 0) {
        (void)fprintf(out, "%12.3f %2.12f %10llu\n", (double)all->max_ns / 1e6,
                      1.0, (unsigned long long)all->count);
    }
    moments(all, &mean, &deviation);
    (void)fprintf(out,
                  "#[Mean    = %12.3f, StdDeviation   = %12.3f]\n"
                  "#[Max     = %12.3f, Total count    = %12llu]\n"
                  "#[Buckets = %12d, SubBuckets     = %12d]\n",
                  mean, deviation, (double)all->max_ns / 1e6,
                  (unsigned long long)all->count, WP_HIST_OCTAVES,
                  1 << WP_HIST_SUB_BITS);
    free(all);
}

/* --- PerfKitBenchmarker. --- */

struct series {
    double *values; /* Owned; sorted by whoever needs that. */
    uint64_t n;
};

/* What a record says, in seconds; NAN: it does not say it. */
typedef double value_of(const struct wp_record *r);

static double
startup_of(const struct wp_record *r)
{
    return r->code == 0 ? (double)(r->done_ns - r->due_ns) / 1e9 : NAN;
}

static double
lifecycle_of(const struct wp_record *r)
{
    return r->code == 0 && r->released_ns >= 0
               ? (double)(r->released_ns - r->due_ns) / 1e9
               : NAN;
}

static double
due_of(const struct wp_record *r)
{
    return (double)r->due_ns / 1e9;
}

static double
ready_of(const struct wp_record *r)
{
    return r->code == 0 ? (double)r->done_ns / 1e9 : NAN;
}

/* How long the call itself took. */
static double
ack_of(const struct wp_record *r)
{
    return r->code == 0 && r->acked_ns >= 0
               ? (double)(r->acked_ns - r->sent_ns) / 1e9
               : NAN;
}

static struct series
collect(const struct wp_tally *t, value_of *value)
{
    struct series s = {calloc(t->n_records + 1, sizeof(double)), 0};

    WP_ASSERT(s.values != NULL);
    for (uint64_t i = 0; i < t->n_records; i++) {
        double v = value(&t->records[i]);

        if (!isnan(v)) {
            s.values[s.n++] = v;
        }
    }
    wp_stats_sort(s.values, s.n);
    return s;
}

/* Claims that were asked for and not yet given back, at most at one time. */
static uint64_t
peak_of(const struct wp_tally *t)
{
    struct series begin = collect(t, due_of);
    struct series end = {calloc(t->n_records + 1, sizeof(double)), 0};
    uint64_t peak = 0;
    uint64_t ended = 0;

    WP_ASSERT(end.values != NULL);
    for (uint64_t i = 0; i < t->n_records; i++) {
        const struct wp_record *r = &t->records[i];

        if (r->code != 0 || r->released_ns >= 0) {
            end.values[end.n++] =
                (double)(r->code != 0 ? r->done_ns : r->released_ns) / 1e9;
        }
    }
    wp_stats_sort(end.values, end.n);
    for (uint64_t i = 0; i < begin.n; i++) {
        while (ended < end.n && end.values[ended] <= begin.values[i]) {
            ended++;
        }
        peak = i + 1 - ended > peak ? i + 1 - ended : peak;
    }
    free(begin.values);
    free(end.values);
    return peak;
}

struct samples {
    const struct wp_run *run;
    const struct wp_outcome *outcome;
    FILE *out;
};

static void
sample(const struct samples *s, const char *metric, double value,
       const char *unit, const char *error_type)
{
    const struct wp_plan *plan = s->outcome->plan;
    json_t *metadata = json_pack(
        "{s:f, s:f, s:I, s:s, s:s, s:i, s:I}", "target_qps", plan->rate_per_s,
        "duration", (double)plan->duration_ns / 1e9, "total_claims",
        (json_int_t)s->outcome->tally->due, "phase", plan->name, "target",
        s->outcome->target == 0 ? "A" : "B", "turn", (int)s->outcome->turn + 1,
        "records_left_out", (json_int_t)s->outcome->tally->records_left_out);
    json_t *object =
        json_pack("{s:s, s:f, s:s, s:o, s:f}", "metric", metric, "value", value,
                  "unit", unit, "metadata", metadata, "timestamp",
                  (double)s->run->began_wall_ns / 1e9);

    if (error_type != NULL) {
        (void)json_object_set_new(metadata, "error_type",
                                  json_string(error_type));
    }
    (void)json_dumpf(object, s->out, JSON_COMPACT);
    (void)fputc('\n', s->out);
    json_decref(object);
}

static void
sample_times(const struct samples *s, const char *name, const struct series *v)
{
    static const struct {
        const char *suffix;
        double q;
    } quantiles[] = {
        {"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}, {"max", 1}};
    char metric[64];

    for (size_t i = 0; i < WP_ARRAY_LEN(quantiles); i++) {
        (void)snprintf(metric, sizeof metric, "%s_%s", name,
                       quantiles[i].suffix);
        sample(s, metric, wp_stats_linear(v->values, v->n, quantiles[i].q),
               "seconds", NULL);
    }
}

static double
per_second(uint64_t n, double span_s)
{
    return span_s > 0 ? (double)n / span_s : 0;
}

static void
sample_outcome(const struct samples *s)
{
    const struct wp_tally *t = s->outcome->tally;
    struct series startup = collect(t, startup_of);
    struct series lifecycle = collect(t, lifecycle_of);
    struct series due = collect(t, due_of);
    struct series ready = collect(t, ready_of);
    char metric[64];

    sample_times(s, "startup_time", &startup);
    if (lifecycle.n > 0) {
        sample_times(s, "total_lifecycle_s", &lifecycle);
    }
    sample(s, "submit_qps",
           due.n > 0 ? per_second(due.n, due.values[due.n - 1] - due.values[0])
                     : 0,
           "count/sec", NULL);
    sample(s, "completion_qps",
           ready.n > 0
               ? per_second(ready.n, ready.values[ready.n - 1] - due.values[0])
               : 0,
           "count/sec", NULL);
    sample(s, "peak_concurrency", (double)peak_of(t), "count", NULL);
    sample(s, "warm_served_fraction",
           t->granted > 0 ? (double)t->served[1] / (double)t->granted : 0,
           "fraction", NULL);
    sample(s, "success_count", (double)t->granted, "count", NULL);
    sample(s, "error_count", (double)wp_tally_failed(t), "count", NULL);
    for (unsigned code = 1; code < WP_TALLY_CODES; code++) {
        if (t->failed[code] > 0) {
            (void)snprintf(metric, sizeof metric, "error_count_%s",
                           wp_tally_code_name(code));
            sample(s, metric, (double)t->failed[code], "count",
                   wp_tally_code_name(code));
        }
    }
    free(startup.values);
    free(lifecycle.values);
    free(due.values);
    free(ready.values);
}

void
wp_report_pkb(const struct wp_run *run, FILE *out)
{
    for (uint32_t i = 0; i < run->n_outcomes; i++) {
        const struct samples s = {run, &run->outcomes[i], out};

        sample_outcome(&s);
    }
}

void
wp_report_pkb_records(const struct wp_run *run, FILE *out)
{
    uint64_t peak = 0;

    for (uint32_t i = 0; i < run->n_outcomes; i++) {
        const struct wp_outcome *o = &run->outcomes[i];
        uint64_t this_peak = peak_of(o->tally);

        peak = this_peak > peak ? this_peak : peak;
        for (uint64_t k = 0; k < o->tally->n_records; k++) {
            const struct wp_record *r = &o->tally->records[k];
            bool ok = r->code == 0;

            (void)fprintf(out,
                          "{\"name\":\"claim-%u-%llu\",\"requested_at\":%.9f,"
                          "\"ready_at\":",
                          i, (unsigned long long)r->number,
                          (double)r->due_ns / 1e9);
            if (ok) {
                (void)fprintf(out, "%.9f,\"error\":null,\"warm_served\":%s",
                              (double)r->done_ns / 1e9,
                              r->served == 1 ? "true" : "false");
            } else {
                (void)fprintf(out,
                              "null,\"error\":\"%s\",\"warm_served\":false",
                              wp_tally_code_name(r->code));
            }
            (void)fputs(",\"exec_started_at\":null,"
                        "\"exec_completed_at\":null,\"released_at\":",
                        out);
            if (r->released_ns >= 0) {
                (void)fprintf(out, "%.9f}\n", (double)r->released_ns / 1e9);
            } else {
                (void)fputs("null}\n", out);
            }
        }
    }
    (void)fprintf(out, "{\"summary\":{\"peak_concurrency\":%llu}}\n",
                  (unsigned long long)peak);
}

/* --- agent-sandbox. --- */

static json_t *
latency_stats(const double *sorted_s, uint64_t n)
{
    return json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "count",
                     (json_int_t)n, "minMs", n > 0 ? sorted_s[0] * 1e3 : 0.0,
                     "meanMs", wp_stats_mean(sorted_s, n) * 1e3, "p50Ms",
                     wp_stats_nearest(sorted_s, n, 0.5) * 1e3, "p90Ms",
                     wp_stats_nearest(sorted_s, n, 0.9) * 1e3, "p95Ms",
                     wp_stats_nearest(sorted_s, n, 0.95) * 1e3, "p99Ms",
                     wp_stats_nearest(sorted_s, n, 0.99) * 1e3, "maxMs",
                     n > 0 ? sorted_s[n - 1] * 1e3 : 0.0);
}

static json_t *
throughput_stats(const struct series *times)
{
    struct wp_stats_rate rate;

    wp_stats_rate(times->values, times->n, &rate);
    return json_pack("{s:I, s:f, s:f, s:f, s:f, s:f}", "count",
                     (json_int_t)rate.count, "durationSeconds", rate.duration_s,
                     "overallPerSecond", rate.overall, "steadyStatePerSecond",
                     rate.steady, "best10sPerSecond", rate.best_10s,
                     "best60sPerSecond", rate.best_60s);
}

/* Ten seconds each, by when claims were due; records are in that order. */
static json_t *
windows_of(const struct wp_tally *t)
{
    json_t *list = json_array();
    double *values = calloc(t->n_records + 1, sizeof *values);
    int64_t base_ns = t->n_records > 0 ? t->records[0].due_ns : 0;
    uint64_t i = 0;

    WP_ASSERT(values != NULL);
    for (int64_t window = 0; i < t->n_records; window++) {
        uint64_t arrivals = 0;
        uint64_t ready = 0;

        for (; i < t->n_records &&
               t->records[i].due_ns - base_ns < (window + 1) * 10 * WP_NS_PER_S;
             i++) {
            arrivals++;
            if (t->records[i].code == 0) {
                values[ready++] = startup_of(&t->records[i]);
            }
        }
        wp_stats_sort(values, ready);
        (void)json_array_append_new(
            list, json_pack("{s:f, s:f, s:I, s:I, s:o}", "startOffsetSeconds",
                            (double)window * 10, "endOffsetSeconds",
                            (double)(window + 1) * 10, "arrivals",
                            (json_int_t)arrivals, "ready", (json_int_t)ready,
                            "latency", latency_stats(values, ready)));
    }
    free(values);
    return list;
}

static json_t *
phase_summary(const struct wp_outcome *o, uint32_t number)
{
    const struct wp_tally *t = o->tally;
    struct series startup = collect(t, startup_of);
    struct series ack = collect(t, ack_of);
    struct series due = collect(t, due_of);
    struct series ready = collect(t, ready_of);
    bool all =
        t->n_records > 0 && ready.n == t->n_records && t->granted == t->due;
    json_t *object = json_pack(
        "{s:i, s:s, s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:{s:o, s:o}}",
        "phaseNumber", (int)number + 1, "name", o->plan->name, "kind",
        o->plan->arrivals == WP_ARRIVALS_BURST ? "claims-warm"
                                               : "claims-warm-sustained",
        "requested", (json_int_t)t->due, "created", (json_int_t)t->due, "ready",
        (json_int_t)t->granted, "failed", (json_int_t)wp_tally_failed(t),
        "durationSeconds", (double)t->elapsed_ns / 1e9, "startOffsetSeconds",
        0.0, "latency", "createAck", latency_stats(ack.values, ack.n),
        "endToEndReady", latency_stats(startup.values, startup.n));

    (void)json_object_set_new(
        object, "timeToAllReadySeconds",
        all ? json_real(ready.values[ready.n - 1] - due.values[0])
            : json_null());
    (void)json_object_set_new(object, "createThroughput",
                              throughput_stats(&due));
    (void)json_object_set_new(object, "readyThroughput",
                              throughput_stats(&ready));
    if (o->plan->arrivals != WP_ARRIVALS_BURST) {
        (void)json_object_set_new(object, "sustainedWindows", windows_of(t));
    }
    free(startup.values);
    free(ack.values);
    free(due.values);
    free(ready.values);
    return object;
}

void
wp_report_summary(const struct wp_run *run, FILE *out)
{
    json_t *phases = json_array();
    json_t *object;
    char began[32];

    for (uint32_t i = 0; i < run->n_outcomes; i++) {
        (void)json_array_append_new(phases,
                                    phase_summary(&run->outcomes[i], i));
    }
    object = json_pack("{s:s, s:o}", "startTime",
                       wp_time_format_rfc3339(run->began_wall_ns, began),
                       "phases", phases);
    (void)json_dumpf(object, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    (void)fputc('\n', out);
    json_decref(object);
}
