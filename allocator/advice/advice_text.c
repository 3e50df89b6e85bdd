#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "allocator/advice/advice.h"
#include "pool/base/clock.h"

enum {
    /* Fewer misses than so many cannot tell an objective from the next. */
    MISSES_TELLING = 10,
    LEADS_TELLING = 50,
    /* Fewer peaks than so many are no rule. */
    PEAKS_TELLING = 5,
};

/* Idle sandboxes saved by less than this are not worth a change. */
static const double WORTH = 0.97;

double
wp_advice_made_per_claim(const struct wp_advice_row *row)
{
    return row->result.claims > 0
               ? (double)row->result.created / (double)row->result.claims
               : 0;
}

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

/* Ours with the least idle of those that keep the objective they state, which
 * is no laxer than `goal`, and serve at least so many; -1: none. */
static int
least_kept(const struct wp_advice_row *rows, uint32_t n, double goal,
           double hits)
{
    int best = -1;

    for (uint32_t i = 0; i < n; i++) {
        const struct wp_advice_row *row = &rows[i];

        if (row->kind == WP_ADVICE_OURS && row->done &&
            row->objective > goal - 1e-9 &&
            row->result.hit_rate >= fmax(row->objective, hits) &&
            (best < 0 || row->result.idle_mean < rows[best].result.idle_mean)) {
            best = (int)i;
        }
    }
    return best;
}

static void
recommend(struct wp_advice_words *words, const struct wp_advice_row *rows,
          int row)
{
    words->recommended = row;
    say(words,
        "it holds %.1f ready and %.1f in the making on average, and makes %.2f "
        "for each claim",
        rows[row].result.idle_mean,
        rows[row].result.idle_s > 0
            ? rows[row].result.idle_mean * rows[row].result.warming_s /
                  rows[row].result.idle_s
            : 0,
        wp_advice_made_per_claim(&rows[row]));
}

/* Why none keeps its objective, as far as that is known. */
static void
say_why(const struct wp_advice_facts *facts, struct wp_advice_words *words)
{
    double seconds = (double)facts->known_ns / (double)WP_NS_PER_S;
    double rate = seconds > 0 ? (double)facts->claims / seconds : 0;

    if (facts->at_once > 0 && rate * facts->lead_mean_s > facts->at_once) {
        say(words,
            "creation is saturated: %.2g sandboxes/s can be made, %u at once, "
            "and %.2g claims/s come; no size serves more for long",
            facts->at_once / facts->lead_mean_s, facts->at_once, rate);
    } else if (facts->peaks < PEAKS_TELLING) {
        say(words,
            "what takes the pool beyond its usual stock came %u times: it is "
            "known from its fifth time on, and the times before are in these "
            "figures",
            facts->peaks);
    }
}

/* No objective keeps `goal`: a floor does, or nothing. */
static void
recommend_floor(const struct wp_advice_facts *facts,
                const struct wp_advice_row *rows, uint32_t n, double goal,
                struct wp_advice_words *words)
{
    int fixed = least_idle(rows, n, WP_ADVICE_FIXED, goal);
    char share[32];
    char is[32];

    wp_advice_share_format(goal, share, sizeof share);
    if (fixed >= 0) {
        wp_advice_share_format(rows[fixed].result.hit_rate, is, sizeof is);
        say(words,
            "no objective here keeps %s with these claims; a floor does: with "
            "min=%u %s would be served at once",
            share, rows[fixed].size, is);
        recommend(words, rows, fixed);
    } else {
        say(words, "nothing here serves %s of these claims at once", share);
    }
    say_why(facts, words);
}

/* Today's setting states the objective `goal`. */
static void
recommend_kept(const struct wp_advice_facts *facts,
               const struct wp_advice_row *rows, uint32_t n, int today,
               struct wp_advice_words *words)
{
    double goal = rows[today].objective;
    bool keeps = rows[today].result.hit_rate >= goal;
    double idle = rows[today].result.idle_mean;
    int best = least_kept(rows, n, goal, goal);
    char share[32];
    char was[32];
    char is[32];

    wp_advice_share_format(goal, share, sizeof share);
    wp_advice_share_format(rows[today].result.hit_rate, was, sizeof was);
    if (keeps && (best < 0 || rows[best].result.idle_mean > WORTH * idle)) {
        say(words,
            "keep today's setting: it serves %s of claims at once, and none "
            "that keeps %s has noticeably fewer idle than its %.1f",
            was, share, idle);
        recommend(words, rows, today);
        return;
    }
    if (best >= 0) {
        wp_advice_share_format(rows[best].result.hit_rate, is, sizeof is);
        say(words,
            "set %s: it serves %s of claims at once with %.1f idle sandboxes "
            "on average; today's setting serves %s%s with %.1f",
            rows[best].setting, is, rows[best].result.idle_mean, was,
            keeps ? "" : ", less than its objective,", idle);
        recommend(words, rows, best);
        return;
    }
    say(words,
        "today's setting serves %s of claims at once, less than its objective "
        "of %s",
        was, share);
    recommend_floor(facts, rows, n, goal, words);
}

/* Today's setting states no objective: nothing may serve fewer than it does, as
 * far as its interval tells. */
static void
recommend_instead(const struct wp_advice_row *rows, uint32_t n, int today,
                  struct wp_advice_words *words)
{
    double idle = rows[today].result.idle_mean;
    int same = least_kept(rows, n, 0, rows[today].hit_low);
    int more = usual(rows, n);
    char was[32];
    char is[32];

    wp_advice_share_format(rows[today].result.hit_rate, was, sizeof was);
    if (same >= 0 && rows[same].result.idle_mean < WORTH * idle) {
        wp_advice_share_format(rows[same].result.hit_rate, is, sizeof is);
        say(words,
            "set %s: %s of claims served at once (today %s) would cost %.1f "
            "idle sandboxes on average instead of %.1f, %.0f %% less",
            rows[same].setting, is, was, rows[same].result.idle_mean, idle,
            100 * (1 - rows[same].result.idle_mean / idle));
        recommend(words, rows, same);
        return;
    }
    if (more >= 0 && rows[more].result.hit_rate >= rows[more].objective &&
        rows[more].hit_low > rows[today].hit_high) {
        wp_advice_share_format(rows[more].result.hit_rate, is, sizeof is);
        say(words,
            "today's setting serves %s of claims at once with %.1f idle "
            "sandboxes on average; %s would cost %.1f: set %s",
            was, idle, is, rows[more].result.idle_mean, rows[more].setting);
        recommend(words, rows, more);
        return;
    }
    say(words,
        "keep today's setting: no objective serves as many claims at once "
        "(%s) with noticeably fewer idle sandboxes than its %.1f",
        was, idle);
    recommend(words, rows, today);
}

/* Nothing is known of today's setting. */
static void
recommend_first(const struct wp_advice_facts *facts,
                const struct wp_advice_row *rows, uint32_t n,
                struct wp_advice_words *words)
{
    int first = usual(rows, n);
    double goal = first >= 0 ? rows[first].objective : 0;
    int best = least_kept(rows, n, goal, goal);
    char is[32];

    if (first < 0) {
        return;
    }
    if (best < 0) {
        recommend_floor(facts, rows, n, goal, words);
        return;
    }
    wp_advice_share_format(rows[best].result.hit_rate, is, sizeof is);
    say(words,
        "%s would serve %s of claims at once with %.1f idle sandboxes on "
        "average, %u at most",
        rows[best].setting, is, rows[best].result.idle_mean,
        rows[best].result.stock_max);
    recommend(words, rows, best);
}

/* What a fixed size would need for as many hits as the recommended row has, as
 * far as its interval tells; and who knew the future. */
static void
compare(const struct wp_advice_row *rows, uint32_t n,
        struct wp_advice_words *words)
{
    const struct wp_advice_row *row = &rows[words->recommended];
    double as_many = fmax(row->hit_low, row->objective);
    int fixed = row->kind == WP_ADVICE_FIXED
                    ? -1
                    : least_idle(rows, n, WP_ADVICE_FIXED,
                                 fmin(as_many, row->result.hit_rate));
    int bound = find_kind(rows, n, WP_ADVICE_CLAIRVOYANT);

    if (fixed >= 0) {
        say(words,
            "the smallest fixed size here that serves as many, as far as the "
            "intervals tell, is %u, with %.1f idle; it was found in hindsight",
            rows[fixed].size, rows[fixed].result.idle_mean);
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

/* The objective of the recommended row might be missed all the same. */
static void
doubt_interval(const struct wp_advice_row *rows, struct wp_advice_words *words)
{
    const struct wp_advice_row *row;
    char low[32];

    if (words->recommended < 0) {
        return;
    }
    row = &rows[words->recommended];
    if (row->objective > 0 && row->hit_low < row->objective) {
        wp_advice_share_format(row->hit_low, low, sizeof low);
        say(words,
            "doubt: the interval reaches down to %s: so few claims, or so "
            "clumped, do not show that the objective is kept",
            low);
    }
}

static void
doubt_peaks(const struct wp_advice_facts *facts, struct wp_advice_words *words)
{
    if (facts->peaks > 0 && facts->peaks < PEAKS_TELLING) {
        say(words,
            "doubt: what takes the pool beyond its usual stock came only %u "
            "times; how large and how often it comes is a guess",
            facts->peaks);
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

    doubt_interval(rows, words);
    doubt_peaks(facts, words);
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
    if (today >= 0 && rows[today].objective > 0) {
        recommend_kept(facts, rows, n_rows, today, out);
    } else if (today >= 0) {
        recommend_instead(rows, n_rows, today, out);
    } else {
        recommend_first(facts, rows, n_rows, out);
    }
    if (out->recommended >= 0) {
        compare(rows, n_rows, out);
    }
    doubt(facts, rows, n_rows, out);
}
