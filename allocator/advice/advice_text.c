#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "allocator/advice/advice.h"

enum {
    /* Fewer misses than so many cannot tell an objective from the next. */
    MISSES_TELLING = 10,
    LEADS_TELLING = 50,
};

/* Idle sandboxes saved by less than this are not worth a change; nor, where a
 * few more claims would miss than today, by less than the other. */
static const double WORTH = 0.97;
static const double WORTH_MISSES = 0.8;

void
wp_advice_share_format(double share, char *out, size_t cap)
{
    double missed = fmax((1 - share) * 100, 1e-9);
    int digits = 1 - (int)floor(log10(missed));
    int n;

    digits = share >= 1 || digits < 1 ? 1 : digits > 4 ? 4 : digits;
    n = snprintf(out, cap, "%.*f", digits, share * 100);
    while (n > 2 && (size_t)n < cap && out[n - 1] == '0' && out[n - 2] != '.') {
        n--;
    }
    if (n > 0 && (size_t)n < cap) {
        (void)snprintf(out + n, cap - (size_t)n, " %%");
    }
}

static void say(struct wp_advice_words *words, const char *fmt, ...)
    WP_PRINTF(2, 3);

static void
say(struct wp_advice_words *words, const char *fmt, ...)
{
    va_list args;

    if (words->n_lines < WP_ADVICE_LINES_MAX) {
        va_start(args, fmt);
        (void)vsnprintf(words->lines[words->n_lines], WP_ADVICE_LINE_MAX, fmt,
                        args);
        va_end(args);
        words->n_lines++;
    }
}

/* The row of a kind with the least idle among those with at least so many
 * hits; -1: none. */
static int
least_idle(const struct wp_advice_row *rows, uint32_t n,
           enum wp_advice_kind kind, double hits)
{
    int best = -1;

    for (uint32_t i = 0; i < n; i++) {
        if (rows[i].kind == kind && rows[i].done &&
            rows[i].result.hit_rate >= hits &&
            (best < 0 ||
             rows[i].result.idle_mean < rows[best].result.idle_mean)) {
            best = (int)i;
        }
    }
    return best;
}

static int
find_kind(const struct wp_advice_row *rows, uint32_t n,
          enum wp_advice_kind kind)
{
    for (uint32_t i = 0; i < n; i++) {
        if (rows[i].kind == kind && rows[i].done) {
            return (int)i;
        }
    }
    return -1;
}

/* Ours whose objective is nearest to 99.9 %. */
static int
usual(const struct wp_advice_row *rows, uint32_t n)
{
    int best = -1;

    for (uint32_t i = 0; i < n; i++) {
        if (rows[i].kind == WP_ADVICE_OURS && rows[i].done &&
            (best < 0 || fabs(rows[i].objective - 0.999) <
                             fabs(rows[best].objective - 0.999))) {
            best = (int)i;
        }
    }
    return best;
}

/* Ours with the most hits; -1: none. */
static int
most_hits(const struct wp_advice_row *rows, uint32_t n)
{
    int best = -1;

    for (uint32_t i = 0; i < n; i++) {
        if (rows[i].kind == WP_ADVICE_OURS && rows[i].done &&
            (best < 0 ||
             rows[i].result.hit_rate > rows[best].result.hit_rate)) {
            best = (int)i;
        }
    }
    return best;
}

/* Ours that does what today's setting does, with less; -1: none does. */
static int
cheaper(const struct wp_advice_row *today, const struct wp_advice_row *rows,
        uint32_t n)
{
    double idle = today->result.idle_mean;
    int same = least_idle(rows, n, WP_ADVICE_OURS, today->hit_low);

    if (same >= 0) {
        return rows[same].result.idle_mean < WORTH * idle ? same : -1;
    }
    same = most_hits(rows, n);
    return same >= 0 && rows[same].result.idle_mean < WORTH_MISSES * idle ? same
                                                                          : -1;
}

static void
recommend_instead(const struct wp_advice_row *today,
                  const struct wp_advice_row *rows, uint32_t n,
                  struct wp_advice_words *words)
{
    int same = cheaper(today, rows, n);
    int other = usual(rows, n);
    char was[32];
    char is[32];

    wp_advice_share_format(today->result.hit_rate, was, sizeof was);
    if (same >= 0) {
        const struct wp_advice_row *row = &rows[same];

        wp_advice_share_format(row->result.hit_rate, is, sizeof is);
        say(words,
            "set %s: %s of claims served at once (today %s) would cost %.1f "
            "idle sandboxes on average instead of %.1f, %.0f %% less",
            row->setting, is, was, row->result.idle_mean,
            today->result.idle_mean,
            100 * (1 - row->result.idle_mean / today->result.idle_mean));
        words->recommended = same;
        return;
    }
    if (other >= 0 && rows[other].result.hit_rate > today->result.hit_rate) {
        const struct wp_advice_row *row = &rows[other];

        wp_advice_share_format(row->result.hit_rate, is, sizeof is);
        say(words,
            "today's setting serves %s of claims at once with %.1f idle "
            "sandboxes on average; %s would cost %.1f: set %s",
            was, today->result.idle_mean, is, row->result.idle_mean,
            row->setting);
        words->recommended = other;
        return;
    }
    say(words,
        "keep today's setting: no objective serves as many claims at once "
        "(%s) with noticeably fewer idle sandboxes than its %.1f",
        was, today->result.idle_mean);
    words->recommended = find_kind(rows, n, WP_ADVICE_TODAY);
}

static void
recommend_first(const struct wp_advice_row *rows, uint32_t n,
                struct wp_advice_words *words)
{
    char is[32];

    words->recommended = usual(rows, n);
    if (words->recommended >= 0) {
        const struct wp_advice_row *row = &rows[words->recommended];

        wp_advice_share_format(row->result.hit_rate, is, sizeof is);
        say(words,
            "%s would serve %s of claims at once with %.1f idle sandboxes on "
            "average, %u at most",
            row->setting, is, row->result.idle_mean, row->result.stock_max);
    }
}

/* What others would need for as many hits as the recommended row has. */
static void
compare(const struct wp_advice_row *rows, uint32_t n,
        struct wp_advice_words *words)
{
    const struct wp_advice_row *row = &rows[words->recommended];
    int fixed = least_idle(rows, n, WP_ADVICE_FIXED, row->result.hit_rate);
    int baseline =
        least_idle(rows, n, WP_ADVICE_BASELINE, row->result.hit_rate);
    int bound = find_kind(rows, n, WP_ADVICE_CLAIRVOYANT);

    if (fixed >= 0) {
        say(words,
            "the smallest fixed size here that serves as many is %u, with "
            "%.1f idle",
            rows[fixed].size, rows[fixed].result.idle_mean);
    }
    if (baseline >= 0) {
        say(words, "of the others %s serves as many, with %.1f idle",
            rows[baseline].name, rows[baseline].result.idle_mean);
    } else if (find_kind(rows, n, WP_ADVICE_BASELINE) >= 0) {
        say(words, "none of the others, as their documents configure them, "
                   "serves as many");
    }
    if (bound >= 0) {
        char share[32];

        wp_advice_share_format(rows[bound].result.hit_rate, share,
                               sizeof share);
        say(words,
            "who knew every claim in advance would need %.1f idle for %s",
            rows[bound].result.idle_mean, share);
    }
}

/* Two objectives that so few claims cannot tell from each other. */
static void
doubt_objectives(const struct wp_advice_facts *facts,
                 const struct wp_advice_row *rows, uint32_t n,
                 struct wp_advice_words *words)
{
    double highest = 0;
    char share[32];

    for (uint32_t i = 0; i < n; i++) {
        if (rows[i].kind == WP_ADVICE_OURS && rows[i].objective > highest) {
            highest = rows[i].objective;
        }
    }
    if (highest > 0 && (double)facts->claims * (1 - highest) < MISSES_TELLING) {
        wp_advice_share_format(highest, share, sizeof share);
        say(words,
            "doubt: of %llu claims %s allows %.1f misses; to tell such "
            "objectives apart takes %.0f claims",
            (unsigned long long)facts->claims, share,
            (double)facts->claims * (1 - highest),
            ceil(MISSES_TELLING / (1 - highest)));
    }
}

static void
doubt(const struct wp_advice_facts *facts, const struct wp_advice_row *rows,
      uint32_t n, struct wp_advice_words *words)
{
    double days = (double)facts->known_ns / 86400e9;

    doubt_objectives(facts, rows, n, words);
    if (facts->n_leads == 0) {
        say(words,
            "doubt: every order is taken to last %.1f s; none was measured",
            facts->lead_mean_s);
    } else if (facts->n_leads < LEADS_TELLING) {
        say(words, "doubt: only %u lead times were measured", facts->n_leads);
    }
    if (days < 1) {
        say(words,
            "doubt: %.1f hours of history; what depends on the time of the "
            "day is not in it",
            days * 24);
    } else if (days < 6.9) {
        say(words,
            "doubt: %.1f days of history; what depends on the day of the week "
            "is not in it",
            days);
    }
    if (facts->n_gaps > 0) {
        say(words,
            "%u times in which the daemon was not there are left out: %.1f of "
            "%.1f hours",
            facts->n_gaps,
            (double)(facts->until_wall_ns - facts->from_wall_ns -
                     facts->known_ns) /
                3600e9,
            (double)(facts->until_wall_ns - facts->from_wall_ns) / 3600e9);
    }
    if (facts->dropped > 0) {
        say(words,
            "%llu older claims are not in the history any more, which is "
            "bounded",
            (unsigned long long)facts->dropped);
    }
}

void
wp_advice_conclude(const struct wp_advice_facts *facts,
                   const struct wp_advice_row *rows, uint32_t n_rows,
                   struct wp_advice_words *out)
{
    int today = find_kind(rows, n_rows, WP_ADVICE_TODAY);

    out->n_lines = 0;
    out->recommended = -1;
    if (today >= 0) {
        recommend_instead(&rows[today], rows, n_rows, out);
    } else {
        recommend_first(rows, n_rows, out);
    }
    if (out->recommended >= 0) {
        compare(rows, n_rows, out);
    }
    doubt(facts, rows, n_rows, out);
}
