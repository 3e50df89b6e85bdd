/* advise: what another size or policy would have done. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocator/ctl/advise_local.h"
#include "allocator/ctl/calls.h"
#include "allocator/ctl/commands.h"
#include "allocator/ctl/print.h"
#include "proto/formats/json_text.h"

enum {
    BAR_WIDTH = 40,
};

/* Replays of a week may take as long, besides --timeout. */
#define REPLAY_NS (600 * WP_NS_PER_S)

/* What was found out, by the daemon or here. */
struct report {
    struct wp_ctl *ctl;
    bool bar; /* Drawn on the terminal. */
    bool whole;
    struct wp_advice_facts facts;
    const struct wp_advice_row *rows;
    uint32_t n_rows;
    struct wp_advice_words words;
};

/* --- Progress, on a terminal only --- */

static void
show_progress(void *ctx, double share)
{
    struct report *report = ctx;
    int done = (int)(fmin(fmax(share, 0), 1) * BAR_WIDTH);

    if (report->bar) {
        (void)fprintf(report->ctl->errors, "\rreplaying [%.*s%*s] %3.0f %%",
                      done, "########################################",
                      BAR_WIDTH - done, "", fmin(fmax(share, 0), 1) * 100);
        (void)fflush(report->ctl->errors);
    }
}

static void
clear_progress(const struct report *report)
{
    if (report->bar) {
        (void)fputs("\r\033[K", report->ctl->errors);
        (void)fflush(report->ctl->errors);
    }
}

/* --- What is printed --- */

static const char *
kind_word(enum wp_advice_kind kind)
{
    static const char *const WORDS[WP_ADVICE_KIND_COUNT] = {
        [WP_ADVICE_TODAY] = "today", [WP_ADVICE_OURS] = "objective",
        [WP_ADVICE_FIXED] = "fixed", [WP_ADVICE_CLAIRVOYANT] = "clairvoyant",
        [WP_ADVICE_OTHER] = "other",
    };

    return WORDS[kind];
}

static void
wait_text(double wait_s, char out[32])
{
    if (wait_s <= 0) {
        (void)snprintf(out, 32, "0");
    } else {
        (void)wp_print_seconds(wait_s, out);
    }
}

static void
print_row(struct wp_table *table, const struct wp_advice_row *row,
          bool recommended)
{
    char share[32];
    char low[32];
    char high[32];
    char wait[32];

    wp_table_add(table, "%s%s", recommended ? "* " : "  ", row->name);
    wp_table_add(table, "%s", row->setting);
    wp_advice_share_format(row->result.hit_rate, share, sizeof share);
    wp_advice_share_format(row->hit_low, low, sizeof low);
    wp_advice_share_format(row->hit_high, high, sizeof high);
    wp_table_add(table, "%s", share);
    wp_table_add(table, "%s to %s", low, high);
    wait_text(row->result.wait_p99_s, wait);
    wp_table_add(table, "%s", wait);
    wp_table_add(table, "%.1f", row->result.idle_mean);
    wp_table_add(table, "%.0f",
                 (row->result.idle_s + row->result.warming_s) / 3600);
    wp_table_add(table, "%.2f", wp_advice_made_per_claim(row));
}

static void
print_report(const struct report *report)
{
    static const char *const TITLES[] = {"SIZED BY",      "SETTING",  "AT ONCE",
                                         "95 % INTERVAL", "WAIT P99", "IDLE",
                                         "HOURS",         "MADE"};
    FILE *out = report->ctl->out;
    const struct wp_advice_facts *facts = &report->facts;
    char from[32];
    char until[32];
    struct wp_table table;

    (void)fprintf(out,
                  "%llu claims from %s to %s; lead time %.1f s on average, "
                  "%.1f s at the 99th percentile\n\n",
                  (unsigned long long)facts->claims,
                  wp_time_format_rfc3339(facts->from_wall_ns, from),
                  wp_time_format_rfc3339(facts->until_wall_ns, until),
                  facts->lead_mean_s, facts->lead_p99_s);
    wp_table_init(&table, TITLES, WP_ARRAY_LEN(TITLES), 0xf4);
    for (uint32_t i = 0; i < report->n_rows; i++) {
        print_row(&table, &report->rows[i],
                  (int)i == report->words.recommended);
    }
    wp_table_print(&table, out);
    wp_table_fini(&table);
    (void)fputs("HOURS: ready or in the making. MADE: for each claim.\n\n",
                out);
    for (uint32_t i = 0; i < report->words.n_lines; i++) {
        wp_print_paragraph(out, report->words.lines[i]);
    }
}

static json_t *
row_json(const struct wp_advice_row *row)
{
    return json_pack(
        "{s:s, s:o, s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, "
        "s:I, s:I}",
        "kind", kind_word(row->kind), "name", wp_json_from_text(row->name),
        "setting", wp_json_from_text(row->setting), "hit_rate",
        row->result.hit_rate, "hit_rate_low", row->hit_low, "hit_rate_high",
        row->hit_high, "wait_p50_s", row->result.wait_p50_s, "wait_p99_s",
        row->result.wait_p99_s, "idle_mean", row->result.idle_mean,
        "idle_sandbox_hours", row->result.idle_s / 3600,
        "warming_sandbox_hours", row->result.warming_s / 3600, "created",
        (json_int_t)row->result.created, "unused",
        (json_int_t)row->result.unused, "stock_max",
        (json_int_t)row->result.stock_max, "claims",
        (json_int_t)row->result.claims);
}

static void
print_report_json(const struct report *report)
{
    const struct wp_advice_facts *facts = &report->facts;
    int best = report->words.recommended;
    json_t *rows = json_array();
    json_t *lines = json_array();
    char from[32];
    char until[32];

    for (uint32_t i = 0; i < report->n_rows; i++) {
        (void)json_array_append_new(rows, row_json(&report->rows[i]));
    }
    for (uint32_t i = 0; i < report->words.n_lines; i++) {
        (void)json_array_append_new(lines,
                                    wp_json_from_text(report->words.lines[i]));
    }
    wp_print_json(
        report->ctl->out,
        json_pack("{s:s, s:s, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, "
                  "s:o, s:o, s:o}",
                  "from", wp_time_format_rfc3339(facts->from_wall_ns, from),
                  "until", wp_time_format_rfc3339(facts->until_wall_ns, until),
                  "known_s", (double)facts->known_ns / 1e9, "claims",
                  (json_int_t)facts->claims, "dropped",
                  (json_int_t)facts->dropped, "gaps", (json_int_t)facts->n_gaps,
                  "peaks", (json_int_t)facts->peaks, "at_once",
                  (json_int_t)facts->at_once, "lead_times",
                  (json_int_t)facts->n_leads, "lead_mean_s", facts->lead_mean_s,
                  "lead_p99_s", facts->lead_p99_s, "recommended",
                  best >= 0 ? row_json(&report->rows[best]) : json_null(),
                  "rows", rows, "lines", lines),
        true);
}

static enum wp_status
write_plot(const struct report *report, const char *path, struct wp_err *err)
{
    const struct wp_ctl_options *options = &report->ctl->options;
    char title[160];
    size_t len;
    char *svg;
    FILE *file;
    bool whole;

    (void)snprintf(title, sizeof title, "pool %.120s",
                   options->n_args > 0 ? options->args[0] : options->csv);
    svg = wp_advice_svg(title, &report->facts, report->rows, report->n_rows,
                        &len);
    if (svg == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory for the plot");
    }
    file = fopen(path, "we");
    whole = file != NULL && fwrite(svg, 1, len, file) == len;
    if (file != NULL) {
        whole = fclose(file) == 0 && whole;
    }
    free(svg);
    return whole ? WP_OK
                 : wp_err_sys(err, WP_INVALID_ARGUMENT, errno,
                              "--plot: %.120s cannot be written", path);
}

static int
print_all(const struct report *report)
{
    struct wp_ctl *ctl = report->ctl;
    struct wp_err err;

    if (ctl->options.plot != NULL &&
        write_plot(report, ctl->options.plot, &err) != WP_OK) {
        return wp_ctl_fail(ctl, &err, 0);
    }
    switch (ctl->options.output) {
    case WP_OUTPUT_TABLE:
        print_report(report);
        break;
    case WP_OUTPUT_JSON:
        print_report_json(report);
        break;
    case WP_OUTPUT_NAME:
        if (report->words.recommended >= 0) {
            (void)fprintf(ctl->out, "%s\n",
                          report->rows[report->words.recommended].setting);
        }
        break;
    }
    return WP_EXIT_OK;
}

/* --- Asking the daemon --- */

static bool
on_advise(void *ctx, const struct wp_wire_advise_response *message)
{
    struct report *report = ctx;

    show_progress(report, message->progress);
    if (message->has_report) {
        report->whole = true;
        report->facts = message->facts;
        report->rows = message->rows;
        report->n_rows = message->n_rows;
        report->words = message->words;
    }
    return true;
}

/* The claims of a CSV as the request takes them. */
static enum wp_status
put_claims(struct wp_ctl *ctl, const struct wp_history *history,
           struct wp_wire_advise_request *request, struct wp_err *err)
{
    uint32_t *gaps =
        wp_ctl_alloc(ctl, WP_WIRE_ADVISE_CLAIMS_MAX * sizeof *gaps);
    struct wp_history_cursor cursor;
    struct wp_history_event event;
    int64_t last_ms = -1;

    wp_history_first(history, &cursor);
    while (wp_history_next(&cursor, &event)) {
        int64_t at_ms = event.wall_ns / WP_NS_PER_MS;

        if (last_ms < 0) {
            request->first_wall_ms = at_ms;
            last_ms = at_ms;
        }
        for (uint32_t i = 0; i < event.n; i++) {
            if (request->n_claims == WP_WIRE_ADVISE_CLAIMS_MAX ||
                at_ms - last_ms > UINT32_MAX) {
                return wp_err_set(
                    err, WP_INVALID_ARGUMENT,
                    "--csv: the daemon takes %d claims with at most 49 days "
                    "between two of them; leave POOL out, and give --replicas "
                    "and --lead, to replay more here",
                    WP_WIRE_ADVISE_CLAIMS_MAX);
            }
            gaps[request->n_claims++] = (uint32_t)(at_ms - last_ms);
            last_ms = at_ms;
        }
    }
    request->claim_gaps_ms = gaps;
    return WP_OK;
}

static enum wp_status
put_request(struct report *report, const double *objectives,
            struct wp_wire_advise_request *request, struct wp_err *err)
{
    struct wp_ctl *ctl = report->ctl;
    enum wp_status status;
    struct wp_history *history;

    *request = (struct wp_wire_advise_request){
        .objectives = objectives,
        .n_objectives = ctl->options.n_objectives,
        .lead_ms = ctl->options.lead_ns / WP_NS_PER_MS,
    };
    status = wp_ctl_pool_parse(ctl, ctl->options.args[0], &request->pool, err);
    if (status != WP_OK || ctl->options.csv == NULL) {
        return status;
    }
    history = wp_advise_read_csv(ctl->options.csv, err);
    if (history == NULL) {
        return err->status;
    }
    status = put_claims(ctl, history, request, err);
    wp_history_destroy(history);
    return status;
}

static int
ask_daemon(struct report *report, const double *objectives)
{
    struct wp_ctl *ctl = report->ctl;
    struct wp_wire_advise_request request;
    struct wp_ctl_call call = {.wait_ns = REPLAY_NS};
    enum wp_status status;

    if (put_request(report, objectives, &request, &call.err) != WP_OK) {
        return wp_ctl_usage(ctl, &call.err);
    }
    status = wp_ctl_call_advise(ctl, &request, on_advise, report, &call);
    clear_progress(report);
    if (status == WP_OK && !report->whole) {
        status = wp_err_set(&call.err, WP_INTERNAL,
                            "the daemon ended without a report");
    }
    return status == WP_OK ? print_all(report)
                           : wp_ctl_fail(ctl, &call.err, call.retry_after_ns);
}

/* --- Without a daemon --- */

static enum wp_status
replay(struct report *report, const struct wp_advice_config *config,
       struct wp_advice **advice, struct wp_err *err)
{
    enum wp_status status = wp_advice_create(config, advice, err);

    if (status == WP_OK) {
        status = wp_advise_run_all(*advice, show_progress, report, err);
        clear_progress(report);
    }
    if (status == WP_OK) {
        report->facts = *wp_advice_facts(*advice);
        report->rows = wp_advice_row(*advice, 0);
        report->n_rows = wp_advice_n_rows(*advice);
        wp_advice_conclude(&report->facts, report->rows, report->n_rows,
                           &report->words);
    }
    return status;
}

static int
replay_here(struct report *report, const double *objectives)
{
    struct wp_ctl *ctl = report->ctl;
    const struct wp_ctl_options *options = &ctl->options;
    struct wp_advice_config config = {
        .has_today = options->replicas > 0,
        .replicas = options->replicas,
        .miss = WP_MISS_QUEUED,
        .lead_ns = options->lead_ns,
        .n_objectives = options->n_objectives,
        .seed = 1,
    };
    struct wp_advice *advice = NULL;
    struct wp_history *history;
    struct wp_err err;
    int code;

    if (options->lead_ns == 0) {
        (void)wp_err_set(&err, WP_INVALID_ARGUMENT,
                         "--lead: how long an order takes is needed without "
                         "POOL, since a CSV does not say it");
        return wp_ctl_usage(ctl, &err);
    }
    wp_scale_policy_init(&config.policy);
    memcpy(config.objectives, objectives,
           options->n_objectives * sizeof *objectives);
    history = wp_advise_read_csv(options->csv, &err);
    config.history = history;
    if (history != NULL && replay(report, &config, &advice, &err) == WP_OK) {
        code = print_all(report);
    } else {
        code = wp_ctl_fail(ctl, &err, 0);
    }
    wp_advice_destroy(advice);
    wp_history_destroy(history);
    return code;
}

/* "99.9%", as the policy's key takes it. */
static enum wp_status
read_objectives(const struct wp_ctl_options *options, double *out,
                struct wp_err *err)
{
    for (uint32_t i = 0; i < options->n_objectives; i++) {
        struct wp_scale_policy policy;

        wp_scale_policy_init(&policy);
        if (wp_scale_policy_set(&policy, WP_STR("objective"),
                                wp_str_from(options->objectives[i]),
                                err) != WP_OK) {
            return wp_err_wrap(err, "--objective");
        }
        if (policy.objective != WP_SCALE_HIT_RATE) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "--objective '%.40s': a hit rate expected, such "
                              "as 99.9%%",
                              options->objectives[i]);
        }
        out[i] = policy.hit_rate;
    }
    return WP_OK;
}

int
wp_cmd_advise(struct wp_ctl *ctl)
{
    struct report report = {
        .ctl = ctl,
        .bar = ctl->options.output == WP_OUTPUT_TABLE &&
               isatty(fileno(ctl->errors)) == 1,
    };
    double objectives[WP_CTL_OBJECTIVES_MAX] = {0};
    struct wp_err err;

    if (read_objectives(&ctl->options, objectives, &err) != WP_OK) {
        return wp_ctl_usage(ctl, &err);
    }
    if (ctl->options.n_args > 0) {
        return ask_daemon(&report, objectives);
    }
    if (ctl->options.csv == NULL) {
        (void)wp_err_set(&err, WP_INVALID_ARGUMENT,
                         "POOL, or --csv and --lead, expected");
        return wp_ctl_usage(ctl, &err);
    }
    return replay_here(&report, objectives);
}
