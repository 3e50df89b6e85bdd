/* The summary as JSON, and each claim as JSON lines or CSV. */
#include <math.h>

#include "bench/harness/report.h"
#include "pool/base/clock.h"
#include "proto/formats/json_text.h"

enum {
    SCHEMA = 1, /* Grows when a name changes its meaning or goes. */
};

static void
put(json_t *object, const char *name, json_t *value)
{
    (void)json_object_set_new(object, name, value);
}

static json_t *
count(uint64_t n)
{
    return json_integer((json_int_t)n);
}

static json_t *
milliseconds(int64_t ns)
{
    return json_real((double)ns / 1e6);
}

static json_t *
times_of(const struct wp_hist *hist)
{
    static const struct {
        const char *name;
        double q;
    } quantiles[] = {{"p50_ms", 0.5},     {"p75_ms", 0.75}, {"p90_ms", 0.9},
                     {"p95_ms", 0.95},    {"p99_ms", 0.99}, {"p999_ms", 0.999},
                     {"p9999_ms", 0.9999}};
    json_t *object = json_object();

    put(object, "count", count(hist->count));
    put(object, "min_ms", milliseconds(hist->count > 0 ? hist->min_ns : 0));
    for (size_t i = 0; i < WP_ARRAY_LEN(quantiles); i++) {
        put(object, quantiles[i].name,
            milliseconds(wp_hist_quantile_ns(hist, quantiles[i].q)));
    }
    put(object, "max_ms", milliseconds(hist->max_ns));
    return object;
}

static json_t *
slices_of(const struct wp_tally *t)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < t->slices.n; i++) {
        const struct wp_slice *slice = &t->slices.slice[i];
        json_t *object = json_object();

        put(object, "at_s",
            json_real((double)(t->slices.width_ns * (int64_t)i) / 1e9));
        put(object, "due", count(slice->due));
        put(object, "granted", count(slice->granted));
        put(object, "warm", count(slice->warm));
        put(object, "failed", count(slice->failed));
        put(object, "p50_ms",
            json_real(wp_slice_quantile_ns(slice, 0.5) / 1e6));
        put(object, "p99_ms",
            json_real(wp_slice_quantile_ns(slice, 0.99) / 1e6));
        (void)json_array_append_new(list, object);
    }
    return list;
}

static json_t *
stock_of(const struct wp_outcome *o)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < o->n_stock; i++) {
        json_t *object = json_object();

        const struct wp_stock *s = &o->stock[i];

        put(object, "at_s", json_real((double)s->at_ns / 1e9));
        put(object, "ready", s->told ? count(s->ready) : json_null());
        put(object, "waiting", s->told ? count(s->waiting) : json_null());
        put(object, "leased", s->told ? count(s->leased) : json_null());
        put(object, "server_rss_bytes",
            s->rss_bytes > 0 ? count(s->rss_bytes) : json_null());
        put(object, "server_descriptors",
            s->descriptors >= 0 ? count((uint64_t)s->descriptors)
                                : json_null());
        (void)json_array_append_new(list, object);
    }
    return list;
}

static json_t *
growth_of(const struct wp_outcome *o)
{
    json_t *object = json_object();
    struct wp_growth growth;

    if (!wp_outcome_growth(o, &growth)) {
        json_decref(object);
        return json_null();
    }
    put(object, "first_rss_bytes", json_real(growth.first_bytes));
    put(object, "last_rss_bytes", json_real(growth.last_bytes));
    put(object, "share", json_real(growth.last_bytes / growth.first_bytes - 1));
    put(object, "first_descriptors", json_integer(growth.first_descriptors));
    put(object, "last_descriptors", json_integer(growth.last_descriptors));
    return object;
}

static json_t *
load_of(const struct wp_plan *plan)
{
    json_t *object = json_object();

    put(object, "arrivals", json_string(wp_arrivals_words[plan->arrivals]));
    put(object, "rate_per_s", json_real(plan->rate_per_s));
    put(object, "burst", count(plan->burst));
    put(object, "duration_s", json_real((double)plan->duration_ns / 1e9));
    put(object, "claims", count(plan->claims));
    put(object, "warmup_s", json_real((double)plan->warmup_ns / 1e9));
    put(object, "concurrency", count(plan->concurrency));
    put(object, "connections",
        count(plan->connections > 0 ? plan->connections : plan->threads));
    put(object, "threads", count(plan->threads));
    put(object, "pause_s", json_real((double)plan->pause_ns / 1e9));
    put(object, "hold_s", json_real((double)plan->hold_ns / 1e9));
    put(object, "wait_s", json_real((double)plan->wait_ns / 1e9));
    put(object, "batch", count(plan->batch));
    put(object, "ahead", count(plan->ahead));
    put(object, "tenants", count(plan->tenants));
    put(object, "keep", json_boolean(plan->keep));
    put(object, "leave", json_boolean(plan->leave));
    put(object, "seed", count(plan->seed));
    return object;
}

static void
put_counts(json_t *object, const struct wp_tally *t)
{
    json_t *failed = json_object();

    put(object, "due", count(t->due));
    put(object, "granted", count(t->granted));
    put(object, "warm", count(t->served[1]));
    put(object, "queued", count(t->served[2]));
    put(object, "cold", count(t->served[3]));
    for (unsigned code = 1; code < WP_TALLY_CODES; code++) {
        if (t->failed[code] > 0) {
            put(failed, wp_tally_code_name(code), count(t->failed[code]));
        }
    }
    put(object, "failed", count(wp_tally_failed(t)));
    put(object, "failed_by_code", failed);
    put(object, "released", count(t->releases));
    put(object, "releases_failed", count(t->releases_failed));
    put(object, "held_back", count(t->held_back));
    put(object, "lost", count(t->lost));
    put(object, "bad_answers", count(t->bad_answers));
    put(object, "connections_lost", count(t->connections_lost));
    put(object, "records_left_out", count(t->records_left_out));
    put(object, "in_flight_max", count(t->in_flight_max));
}

static json_t *
outcome_of(const struct wp_run *run, const struct wp_outcome *o)
{
    const struct wp_tally *t = o->tally;
    json_t *object = json_object();

    put(object, "name", json_string(o->plan->name));
    put(object, "target", json_string(o->target == 0 ? "A" : "B"));
    put(object, "address", wp_json_from_text(run->targets[o->target].address));
    put(object, "turn", count(o->turn + 1));
    put(object, "cut", json_boolean(o->cut));
    put(object, "load", load_of(o->plan));
    put_counts(object, t);
    put(object, "elapsed_s", json_real((double)t->elapsed_ns / 1e9));
    put(object, "granted_per_s", json_real(wp_tally_rate(t)));
    put(object, "calls", count(t->calls));
    put(object, "claim_reply_bytes",
        t->replies > 0 ? json_real((double)t->reply_bytes / (double)t->replies)
                       : json_null());
    put(object, "client_cpu_s", json_real((double)t->client_cpu_ns / 1e9));
    put(object, "server_cpu_s",
        o->server_cpu_ns < 0 ? json_null()
                             : json_real((double)o->server_cpu_ns / 1e9));
    put(object, "stall_max_ms", milliseconds(t->stall_max_ns));
    put(object, "claim", times_of(&t->claim));
    put(object, "claim_from_sent", times_of(&t->service));
    put(object, "release", times_of(&t->release));
    put(object, "sent_late", times_of(&t->late));
    put(object, "slice_s", json_real((double)t->slices.width_ns / 1e9));
    put(object, "slices", slices_of(t));
    put(object, "stock", stock_of(o));
    put(object, "growth", growth_of(o));
    return object;
}

static json_t *
sentences(const char (*list)[WP_BREACH_TEXT_MAX], uint32_t n)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < n; i++) {
        (void)json_array_append_new(array, wp_json_from_text(list[i]));
    }
    return array;
}

static json_t *
check_of(const struct wp_run *run, const struct wp_check *check)
{
    json_t *object = json_object();
    uint64_t duplicates = 0;
    uint64_t found = 0;
    uint64_t sandboxes = 0;
    bool known = true;

    for (uint32_t i = 0; i < run->n_targets; i++) {
        duplicates += run->duplicates[i];
        found += run->leftovers[i].found;
        sandboxes += run->leftovers[i].sandboxes;
        known &= run->leftovers[i].known;
    }
    put(object, "passed",
        json_boolean(check->n_breaches == 0 && run->err.status == WP_OK &&
                     run->signal == 0));
    put(object, "duplicates", count(duplicates));
    put(object, "leases_left", known ? count(found) : json_null());
    put(object, "sandboxes_left",
        known && wp_plan_has_objects(run->plan) ? count(sandboxes)
                                                : json_null());
    put(object, "breaches", sentences(check->breach, check->n_breaches));
    put(object, "notes", sentences(check->doubt, check->n_doubts));
    return object;
}

json_t *
wp_report_json(const struct wp_run *run, const struct wp_check *check)
{
    json_t *object = json_object();
    json_t *list = json_array();
    char began[32];

    put(object, "schema", count(SCHEMA));
    put(object, "program", json_string("warmpool-load " WP_VERSION));
    put(object, "began",
        json_string(wp_time_format_rfc3339(run->began_wall_ns, began)));
    put(object, "machine", wp_json_from_text(run->machine));
    put(object, "pool",
        json_sprintf("%s/%s", run->plan->pool_namespace, run->plan->pool));
    put(object, "signal",
        run->signal == 0
            ? json_null()
            : json_string(run->signal == 2 ? "SIGINT" : "SIGTERM"));
    put(object, "error",
        run->err.status == WP_OK ? json_null()
                                 : wp_json_from_text(run->err.msg));
    for (uint32_t i = 0; i < run->n_outcomes; i++) {
        (void)json_array_append_new(list, outcome_of(run, &run->outcomes[i]));
    }
    put(object, "phases", list);
    put(object, "check", check_of(run, check));
    return object;
}

/* --- Each claim. --- */

static const char *
served_name(const struct wp_record *r)
{
    static const char *const names[] = {"", "warm", "queued", "cold"};

    return r->code == 0 ? names[r->served & 3] : "";
}

void
wp_report_jsonl(const struct wp_run *run, FILE *out)
{
    for (uint32_t i = 0; i < run->n_outcomes; i++) {
        const struct wp_outcome *o = &run->outcomes[i];

        for (uint64_t k = 0; k < o->tally->n_records; k++) {
            const struct wp_record *r = &o->tally->records[k];

            (void)fprintf(out,
                          "{\"phase\":\"%s\",\"target\":\"%s\",\"turn\":%u,"
                          "\"claim\":%llu,\"due_s\":%.9f,\"sent_s\":%.9f,"
                          "\"done_s\":%.9f,\"released_s\":",
                          o->plan->name, o->target == 0 ? "A" : "B",
                          o->turn + 1, (unsigned long long)r->number,
                          (double)r->due_ns / 1e9, (double)r->sent_ns / 1e9,
                          (double)r->done_ns / 1e9);
            if (r->released_ns >= 0) {
                (void)fprintf(out, "%.9f", (double)r->released_ns / 1e9);
            } else {
                (void)fputs("null", out);
            }
            (void)fprintf(out,
                          ",\"code\":\"%s\",\"served\":\"%s\","
                          "\"tenant\":%u}\n",
                          wp_tally_code_name(r->code), served_name(r),
                          r->tenant);
        }
    }
}

void
wp_report_csv(const struct wp_run *run, FILE *out)
{
    (void)fputs("phase,target,turn,claim,due_s,sent_s,done_s,released_s,code,"
                "served,tenant\n",
                out);
    for (uint32_t i = 0; i < run->n_outcomes; i++) {
        const struct wp_outcome *o = &run->outcomes[i];

        for (uint64_t k = 0; k < o->tally->n_records; k++) {
            const struct wp_record *r = &o->tally->records[k];

            (void)fprintf(out, "%s,%s,%u,%llu,%.9f,%.9f,%.9f,", o->plan->name,
                          o->target == 0 ? "A" : "B", o->turn + 1,
                          (unsigned long long)r->number,
                          (double)r->due_ns / 1e9, (double)r->sent_ns / 1e9,
                          (double)r->done_ns / 1e9);
            if (r->released_ns >= 0) {
                (void)fprintf(out, "%.9f", (double)r->released_ns / 1e9);
            }
            (void)fprintf(out, ",%s,%s,%u\n", wp_tally_code_name(r->code),
                          served_name(r), r->tenant);
        }
    }
}
