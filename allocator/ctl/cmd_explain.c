/* explain, reserve and unreserve: what a pool's scaler decides, and what it is
 * told of demand to come. */
#include <math.h>
#include <string.h>

#include "allocator/ctl/calls.h"
#include "allocator/ctl/commands.h"
#include "allocator/ctl/policy.h"
#include "allocator/ctl/print.h"
#include "pool/base/rng.h"
#include "pool/scale/scaler.h"
#include "proto/formats/json_text.h"

enum {
    FIELD = 10, /* Width of the titles. */
};

static const char *
seconds_text(double seconds, char out[32])
{
    if (!(seconds > 0) || seconds > 1e9) {
        (void)snprintf(out, 32, "-");
        return out;
    }
    return wp_print_seconds(seconds, out);
}

/* A rate that has faded away is none. */
static double
rate(double per_s)
{
    return per_s < 0.0005 ? 0 : per_s;
}

/* --- As JSON --- */

/* What is not known has no number. */
static json_t *
number_json(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *
decision_json(const struct wp_scale_decision *d,
              const struct wp_wire_decision_text *text)
{
    json_t *demand =
        json_pack("{s:o, s:o, s:o}", "rate_per_s", number_json(d->rate_per_s),
                  "rate_fast_per_s", number_json(d->rate_fast_per_s),
                  "rate_slow_per_s", number_json(d->rate_slow_per_s));
    json_t *terms = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:b, s:I, s:I}", "lead_mean_s",
        number_json(d->lead_mean_s), "lead_p99_s", number_json(d->lead_p99_s),
        "expected", number_json(d->expected), "spread", number_json(d->spread),
        "dispersion", number_json(d->dispersion), "learned", (int)d->learned,
        "reserved", (json_int_t)d->reserved, "floor", (json_int_t)d->floor);
    json_t *capacity = json_pack(
        "{s:I, s:b, s:o, s:o}", "at_once", (json_int_t)d->at_once, "shared",
        (int)d->shared_bound, "makes_per_s", number_json(d->makes_per_s),
        "queue_s", number_json(d->queue_s));
    json_t *outlook =
        json_pack("{s:o, s:o, s:o, s:o, s:o}", "hit_rate",
                  number_json(d->hit_rate), "idle", number_json(d->idle),
                  "hit_rate_seen", number_json(d->hit_rate_seen), "seen_claims",
                  number_json(d->seen_claims), "hit_rate_best",
                  number_json(d->hit_rate_best));

    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o}",
                     "number", (json_int_t)d->number, "unix_ms",
                     (json_int_t)(d->wall_ns / WP_NS_PER_MS), "target_before",
                     (json_int_t)d->target_before, "target",
                     (json_int_t)d->target, "wanted", (json_int_t)d->wanted,
                     "reason", wp_json_from_text(text->reason), "sentence",
                     wp_json_from_text(text->sentence), "demand", demand,
                     "terms", terms, "capacity", capacity, "outlook", outlook);
}

static json_t *
reservation_json(const struct wp_scale_reservation *r)
{
    return json_pack(
        "{s:o, s:I, s:I, s:I, s:I}", "id", wp_json_from_text(r->id),
        "sandboxes", (json_int_t)r->n, "left", (json_int_t)r->left,
        "not_before_unix_ms", (json_int_t)(r->from_wall_ns / WP_NS_PER_MS),
        "until_unix_ms", (json_int_t)(r->until_wall_ns / WP_NS_PER_MS));
}

static void
explain_json(const struct wp_ctl *ctl, const struct wp_wire_pool_detail *detail)
{
    const struct wp_pool_stats *pool = detail->stats;
    json_t *decisions = json_array();
    json_t *reservations = json_array();

    for (uint32_t i = 0; i < detail->n_decisions; i++) {
        (void)json_array_append_new(
            decisions, decision_json(&detail->decisions[i], &detail->texts[i]));
    }
    for (uint32_t i = 0; i < detail->n_reservations; i++) {
        (void)json_array_append_new(reservations,
                                    reservation_json(&detail->reservations[i]));
    }
    wp_print_json(
        ctl->out,
        json_pack(
            "{s:o, s:o, s:b, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o}",
            "namespace", wp_json_from_text(pool->spec.pool_namespace), "name",
            wp_json_from_text(pool->spec.name), "scaled", (int)pool->scaled,
            "target", (json_int_t)pool->spec.target, "replicas",
            (json_int_t)(pool->scaled ? pool->replicas : pool->spec.target),
            "ready", (json_int_t)pool->ready, "warming",
            (json_int_t)pool->warming, "missed_total",
            (json_int_t)pool->missed_total, "autoscale",
            wp_ctl_policy_json(detail), "decisions", decisions, "reservations",
            reservations),
        true);
}

/* --- For people --- */

static void
print_outlook(FILE *out, const struct wp_scale_decision *d)
{
    if (isfinite(d->hit_rate)) {
        wp_print_field(out, FIELD, "outlook",
                       "%.3f %% of claims served at once, %.1f ready in the "
                       "mean",
                       100 * d->hit_rate, d->idle);
    }
    if (isfinite(d->hit_rate_seen)) {
        wp_print_field(out, FIELD, "seen", "%.3f %% served at once",
                       100 * d->hit_rate_seen);
    }
    if (isfinite(d->hit_rate_best)) {
        wp_print_field(out, FIELD, "note",
                       "the objective cannot be had within max; the best is "
                       "%.3f %%",
                       100 * d->hit_rate_best);
    }
}

static void
print_terms(FILE *out, const struct wp_scale_decision *d)
{
    char mean[32];
    char p99[32];

    wp_print_field(out, FIELD, "claims",
                   "%.4g a second expected (lately %.4g, for long %.4g)",
                   rate(d->rate_per_s), rate(d->rate_fast_per_s),
                   rate(d->rate_slow_per_s));
    wp_print_field(out, FIELD, "lead time", "%s in the mean, %s p99%s",
                   seconds_text(d->lead_mean_s, mean),
                   seconds_text(d->lead_p99_s, p99),
                   d->lead_mean_s < (double)WP_SCALE_QUANTUM_NS / 1e9
                       ? "; less than 10ms counts as 10ms"
                       : "");
    wp_print_field(out, FIELD, "stock",
                   "%.1f claims in one lead time + %.1f spread (%s; "
                   "dispersion %.2f) = %u wanted",
                   d->expected, d->spread,
                   d->learned ? "learned from errors" : "by its form",
                   d->dispersion, d->wanted);
    if (d->reserved > 0) {
        wp_print_field(out, FIELD, "reserved", "%u announced", d->reserved);
    }
    if (d->floor > 0) {
        wp_print_field(out, FIELD, "floor", "%u by the schedule", d->floor);
    }
    if (d->at_once > 0) {
        wp_print_field(out, FIELD, "creation",
                       "%u at once%s; %s for its turn in the mean", d->at_once,
                       d->shared_bound ? ", of all pools" : "",
                       seconds_text(d->queue_s, mean));
    }
    print_outlook(out, d);
}

static void
print_decisions(FILE *out, const struct wp_wire_pool_detail *detail)
{
    static const char *const titles[] = {"TIME",   "FROM",        "TO",
                                         "WANTED", "REASON",      "CLAIMS/S",
                                         "LEAD",   "CLAIMS/LEAD", "SPREAD"};
    struct wp_table table;
    char text[32];
    /* The latest is told above; unless it changed something, it is none of
     * those that did. */
    bool unchanged = detail->n_decisions > 1 &&
                     detail->decisions[0].number == detail->decisions[1].number;

    wp_table_init(&table, titles, WP_ARRAY_LEN(titles), 0x1ee);
    for (uint32_t i = unchanged ? 1 : 0; i < detail->n_decisions; i++) {
        const struct wp_scale_decision *d = &detail->decisions[i];

        wp_table_add(&table, "%s", wp_time_format_rfc3339(d->wall_ns, text));
        wp_table_add(&table, "%u", d->target_before);
        wp_table_add(&table, "%u", d->target);
        wp_table_add(&table, "%u", d->wanted);
        wp_table_add(&table, "%s", detail->texts[i].reason);
        wp_table_add(&table, "%.3g", rate(d->rate_per_s));
        wp_table_add(&table, "%s", seconds_text(d->lead_mean_s, text));
        wp_table_add(&table, "%.1f", d->expected);
        wp_table_add(&table, "%.1f", d->spread);
    }
    wp_table_print(&table, out);
    wp_table_fini(&table);
}

static void
print_reservations(FILE *out, const struct wp_wire_pool_detail *detail)
{
    static const char *const titles[] = {"RESERVATION", "SANDBOXES", "LEFT",
                                         "NOT BEFORE", "UNTIL"};
    struct wp_table table;
    char text[32];

    if (detail->n_reservations == 0) {
        return;
    }
    wp_table_init(&table, titles, WP_ARRAY_LEN(titles), 0x6);
    for (uint32_t i = 0; i < detail->n_reservations; i++) {
        const struct wp_scale_reservation *r = &detail->reservations[i];

        wp_table_add(&table, "%s", r->id);
        wp_table_add(&table, "%u", r->n);
        wp_table_add(&table, "%u", r->left);
        wp_table_add(&table, "%s",
                     wp_time_format_rfc3339(r->from_wall_ns, text));
        wp_table_add(&table, "%s",
                     wp_time_format_rfc3339(r->until_wall_ns, text));
    }
    (void)fputc('\n', out);
    wp_table_print(&table, out);
    wp_table_fini(&table);
}

static void
explain_table(const struct wp_ctl *ctl,
              const struct wp_wire_pool_detail *detail)
{
    const struct wp_pool_stats *pool = detail->stats;
    FILE *out = ctl->out;

    wp_print_field(out, FIELD, "pool", "%s/%s", pool->spec.pool_namespace,
                   pool->spec.name);
    if (!pool->scaled) {
        wp_print_field(out, FIELD, "target",
                       "%u, as it was given: the pool has no objective (" //
                       WP_SCALE_GROUP "objective)",
                       pool->spec.target);
        return;
    }
    wp_print_field(
        out, FIELD, "target", "%u (%u given); %u ready, %u in the making",
        pool->spec.target, pool->replicas, pool->ready, pool->warming);
    wp_ctl_print_policy(out, FIELD, detail);
    if (detail->n_decisions == 0) {
        wp_print_field(out, FIELD, "why",
                       "nothing was decided here; the replica that makes the "
                       "sandboxes knows");
        return;
    }
    (void)fputc('\n', out);
    wp_ctl_explain_words(out, detail);
    if (ctl->options.terms) {
        (void)fputc('\n', out);
        wp_print_field(out, FIELD, "terms", "%s", detail->texts[0].sentence);
        print_terms(out, &detail->decisions[0]);
        (void)fputc('\n', out);
        print_decisions(out, detail);
    }
    print_reservations(out, detail);
}

int
wp_cmd_explain(struct wp_ctl *ctl)
{
    struct wp_wire_get_pool_request request;
    struct wp_wire_pool_detail detail;
    struct wp_ctl_call call = {0};

    if (wp_ctl_pool_parse(ctl, ctl->options.args[0], &request.pool,
                          &call.err) != WP_OK) {
        return wp_ctl_usage(ctl, &call.err);
    }
    if (wp_ctl_call_explain_pool(ctl, &request, &detail, &call) != WP_OK) {
        return wp_ctl_fail(ctl, &call.err, call.retry_after_ns);
    }
    switch (ctl->options.output) {
    case WP_OUTPUT_JSON:
        explain_json(ctl, &detail);
        break;
    case WP_OUTPUT_NAME:
        for (uint32_t i = 0; i < detail.n_decisions; i++) {
            wp_print_field(ctl->out, 0, "", "%s", detail.texts[i].sentence);
        }
        break;
    case WP_OUTPUT_TABLE:
        explain_table(ctl, &detail);
        break;
    }
    return WP_EXIT_OK;
}

/* --- reserve, unreserve --- */

/* "ctl-" and 16 hexadecimal digits. */
static struct wp_str
reservation_id(struct wp_ctl *ctl)
{
    uint8_t bytes[8];
    char hex[2 * sizeof bytes + 1];
    char *id = wp_ctl_alloc(ctl, 32);

    if (ctl->options.id != NULL) {
        return wp_str_from(ctl->options.id);
    }
    wp_random_bytes(bytes, sizeof bytes);
    wp_hex_encode(bytes, sizeof bytes, hex);
    (void)snprintf(id, 32, "ctl-%s", hex);
    return wp_str_from(id);
}

static void
print_reservation(const struct wp_ctl *ctl,
                  const struct wp_scale_reservation *r)
{
    struct wp_wire_pool_detail one = {.reservations = r, .n_reservations = 1};

    switch (ctl->options.output) {
    case WP_OUTPUT_JSON:
        wp_print_json(ctl->out, reservation_json(r), true);
        break;
    case WP_OUTPUT_NAME:
        wp_print_field(ctl->out, 0, "", "%s", r->id);
        break;
    case WP_OUTPUT_TABLE:
        print_reservations(ctl->out, &one);
        break;
    }
}

int
wp_cmd_reserve(struct wp_ctl *ctl)
{
    int64_t now_ms = wp_clock_wall_ns(wp_clock_system()) / WP_NS_PER_MS;
    int64_t in_ms = ctl->options.in_ns / WP_NS_PER_MS;
    struct wp_wire_reserve_request request = {
        .not_before_ms = in_ms > 0 ? now_ms + in_ms : 0,
        .until_ms = now_ms + in_ms + ctl->options.for_ns / WP_NS_PER_MS,
    };
    struct wp_scale_reservation reservation;
    struct wp_ctl_call call = {0};
    uint64_t n;

    if (wp_ctl_pool_parse(ctl, ctl->options.args[0], &request.pool,
                          &call.err) != WP_OK) {
        return wp_ctl_usage(ctl, &call.err);
    }
    if (!wp_str_to_u64(wp_str_from(ctl->options.args[1]), &n) || n < 1 ||
        n > WP_TARGET_MAX) {
        (void)wp_err_set(&call.err, WP_INVALID_ARGUMENT,
                         "'%.40s': expected for how many sandboxes, 1 to %d",
                         ctl->options.args[1], WP_TARGET_MAX);
        return wp_ctl_usage(ctl, &call.err);
    }
    request.sandboxes = (uint32_t)n;
    request.id = reservation_id(ctl);
    if (wp_ctl_call_reserve(ctl, &request, &reservation, &call) != WP_OK) {
        return wp_ctl_fail(ctl, &call.err, call.retry_after_ns);
    }
    print_reservation(ctl, &reservation);
    return WP_EXIT_OK;
}

int
wp_cmd_unreserve(struct wp_ctl *ctl)
{
    struct wp_wire_cancel_reservation_request request = {
        .id = wp_str_from(ctl->options.args[1])};
    struct wp_wire_cancel_reservation_response response;
    struct wp_ctl_call call = {0};

    if (wp_ctl_pool_parse(ctl, ctl->options.args[0], &request.pool,
                          &call.err) != WP_OK) {
        return wp_ctl_usage(ctl, &call.err);
    }
    if (wp_ctl_call_cancel_reservation(ctl, &request, &response, &call) !=
        WP_OK) {
        return wp_ctl_fail(ctl, &call.err, call.retry_after_ns);
    }
    if (ctl->options.output == WP_OUTPUT_JSON) {
        wp_print_json(ctl->out,
                      json_pack("{s:s}", "cancelled", ctl->options.args[1]),
                      true);
    } else {
        (void)fprintf(ctl->out, "%s is given up\n", ctl->options.args[1]);
    }
    return WP_EXIT_OK;
}
