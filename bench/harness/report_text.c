#include <string.h>

#include "bench/harness/report.h"
#include "pool/base/clock.h"

enum {
    RULE = 78,
};

#define MIB 1048576.0

const char *
wp_report_time(int64_t ns, char out[16])
{
    static const struct {
        double unit;
        const char *name;
    } units[] = {{1, "ns"}, {1e3, "us"}, {1e6, "ms"}, {1e9, "s"}};
    size_t i = 0;
    double value;
    int digits;

    while (i + 1 < WP_ARRAY_LEN(units) &&
           (double)ns >= 0.9995 * units[i + 1].unit) {
        i++;
    }
    value = (double)ns / units[i].unit;
    digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    (void)snprintf(out, 16, "%.*f %s", ns == 0 || i == 0 ? 0 : digits, value,
                   units[i].name);
    return out;
}

static void
print_times(FILE *out, const char *name, const struct wp_hist *hist)
{
    static const double quantiles[] = {0.5, 0.9, 0.99, 0.999};
    char text[16];

    if (hist->count == 0) {
        return;
    }
    (void)fprintf(out, "  %-22s", name);
    for (size_t i = 0; i < WP_ARRAY_LEN(quantiles); i++) {
        (void)fprintf(
            out, "%11s",
            wp_report_time(wp_hist_quantile_ns(hist, quantiles[i]), text));
    }
    (void)fprintf(out, "%11s\n", wp_report_time(hist->max_ns, text));
}

static void
print_failures(FILE *out, const struct wp_tally *t)
{
    static const char begin[] = "  failed:";
    size_t column = sizeof begin - 1;

    if (wp_tally_failed(t) == 0) {
        return;
    }
    (void)fputs(begin, out);
    for (unsigned code = 1; code < WP_TALLY_CODES; code++) {
        char text[64];
        size_t len;

        if (t->failed[code] == 0) {
            continue;
        }
        (void)snprintf(text, sizeof text, " %s %llu", wp_tally_code_name(code),
                       (unsigned long long)t->failed[code]);
        len = strlen(text);
        if (column + len > RULE) {
            (void)fputs("\n   ", out);
            column = 3;
        }
        (void)fputs(text, out);
        column += len;
    }
    (void)fputc('\n', out);
}

static void
print_outcome(FILE *out, const struct wp_run *run, const struct wp_outcome *o)
{
    const struct wp_tally *t = o->tally;
    double granted = t->granted > 0 ? (double)t->granted : 1;
    double calls = t->calls > 0 ? (double)t->calls : 1;
    char cpu[16] = "not known";
    struct wp_growth growth;
    char text[16];

    (void)fprintf(out, "\n%s", o->plan->name);
    if (run->n_targets > 1) {
        (void)fprintf(out, ", %s, turn %u", o->target == 0 ? "A" : "B",
                      o->turn + 1);
    }
    (void)fprintf(out, "%s\n", o->cut ? " (cut short)" : "");
    (void)fprintf(out, "  %llu of %llu claims granted, %.4g a second for %s\n",
                  (unsigned long long)t->granted, (unsigned long long)t->due,
                  wp_tally_rate(t), wp_report_time(t->elapsed_ns, text));
    if (!o->plan->echo) {
        (void)fprintf(out, "  warm %.4g %%, queued %llu, cold %llu\n",
                      100 * (double)t->served[1] / granted,
                      (unsigned long long)t->served[2],
                      (unsigned long long)t->served[3]);
    }
    print_failures(out, t);
    (void)fprintf(out, "  %-22s%11s%11s%11s%11s%11s\n", "", "p50", "p90", "p99",
                  "p99.9", "max");
    print_times(out, "claim, from when due", &t->claim);
    if (o->plan->arrivals != WP_ARRIVALS_CLOSED) {
        print_times(out, "claim, from when sent", &t->service);
        print_times(out, "sent late by", &t->late);
    }
    print_times(out, "release", &t->release);
    if (wp_outcome_growth(o, &growth)) {
        (void)fprintf(
            out,
            "  target's memory: %.4g, then %.4g MiB (%+.2f %%); descriptors "
            "%d, %d\n",
            growth.first_bytes / MIB, growth.last_bytes / MIB,
            100 * (growth.last_bytes / growth.first_bytes - 1),
            growth.first_descriptors, growth.last_descriptors);
    }
    if (o->server_cpu_ns >= 0) {
        (void)wp_report_time((int64_t)((double)o->server_cpu_ns / calls), cpu);
    }
    (void)fprintf(
        out, "  processor time of a call: target %s, this program %s\n", cpu,
        wp_report_time((int64_t)((double)t->client_cpu_ns / calls), text));
}

/* Sentences, in 78 columns. */
static void
print_sentence(FILE *out, const char *mark, const char *sentence)
{
    size_t column = strlen(mark);
    const char *at = sentence;

    (void)fputs(mark, out);
    while (*at != '\0') {
        size_t len = strcspn(at, " ");

        if (column + len > RULE) {
            (void)fputs("\n  ", out);
            column = 2;
        }
        (void)fprintf(out, "%.*s", (int)len, at);
        column += len;
        at += len;
        if (*at == ' ') {
            at++;
            (void)fputc(' ', out);
            column++;
        }
    }
    (void)fputc('\n', out);
}

void
wp_report_text(const struct wp_run *run, const struct wp_check *check,
               FILE *out)
{
    (void)fprintf(out, "Machine: %.68s\n", run->machine);
    for (uint32_t i = 0; i < run->n_targets; i++) {
        (void)fprintf(out, "Target%s: %.68s\n",
                      run->n_targets == 1 ? ""
                      : i == 0            ? " A"
                                          : " B",
                      run->targets[i].address);
    }
    for (uint32_t i = 0; i < run->n_outcomes; i++) {
        print_outcome(out, run, &run->outcomes[i]);
    }
    (void)fputc('\n', out);
    if (run->signal != 0) {
        (void)fprintf(out, "CUT SHORT by %s: what was seen until then.\n",
                      run->signal == 2 ? "SIGINT" : "SIGTERM");
    }
    for (uint32_t i = 0; i < check->n_doubts; i++) {
        print_sentence(out, "Note: ", check->doubt[i]);
    }
    for (uint32_t i = 0; i < check->n_breaches; i++) {
        print_sentence(out, "BREACH: ", check->breach[i]);
    }
    if (check->n_breaches == 0 && run->err.status == WP_OK) {
        (void)fputs(run->plan->echo
                        ? "Check: every call was answered.\n"
                        : "Check: no sandbox was given out twice, none lost, "
                          "none leaked.\n",
                    out);
    }
}
