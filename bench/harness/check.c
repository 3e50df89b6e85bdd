#include "bench/harness/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "pool/base/clock.h"

/* A thread that did not look for so long was stopped or starved. */
#define STALL_NS (250 * WP_NS_PER_MS)
#define LATE_NS (10 * WP_NS_PER_MS)

enum {
    DESCRIPTORS_SPARE = 4,
};

static void WP_PRINTF(3, 0) say(char list[WP_BREACHES_MAX][WP_BREACH_TEXT_MAX],
                                uint32_t *n, const char *fmt, va_list args)
{
    if (*n < WP_BREACHES_MAX) {
        (void)vsnprintf(list[(*n)++], WP_BREACH_TEXT_MAX, fmt, args);
    }
}

static void WP_PRINTF(2, 3) breach(struct wp_check *check, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    say(check->breach, &check->n_breaches, fmt, args);
    va_end(args);
}

static void WP_PRINTF(2, 3) doubt(struct wp_check *check, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    say(check->doubt, &check->n_doubts, fmt, args);
    va_end(args);
}

static void
check_promises(const struct wp_outcome *o, struct wp_check *check)
{
    const struct wp_tally *t = o->tally;
    const char *name = o->plan->name;

    if (t->bad_answers > 0) {
        breach(check, "%s: %llu answers that do not fit their questions", name,
               (unsigned long long)t->bad_answers);
    }
    if (t->lost > 0) {
        breach(check, "%s: %llu leases were over before they were released",
               name, (unsigned long long)t->lost);
    }
    if (t->failed[WP_TALLY_NO_ANSWER] > 0) {
        breach(check, "%s: %llu claims were never answered", name,
               (unsigned long long)t->failed[WP_TALLY_NO_ANSWER]);
    }
    if (t->releases_failed > 0) {
        breach(check, "%s: %llu releases failed", name,
               (unsigned long long)t->releases_failed);
    }
}

static void
check_enough(const struct wp_outcome *o, struct wp_check *check)
{
    const struct wp_tally *t = o->tally;
    const struct wp_plan *plan = o->plan;
    double share = t->due > 0 ? (double)t->granted / (double)t->due : 0;
    int64_t p99_ns = wp_hist_quantile_ns(&t->claim, 0.99);

    if (t->granted < plan->samples_min) {
        breach(check, "%s: %llu claims granted are too few (min-samples %llu)",
               plan->name, (unsigned long long)t->granted,
               (unsigned long long)plan->samples_min);
    }
    if (share < plan->granted_min) {
        breach(check,
               "%s: %.3g %% of the claims were granted (min-granted %.3g %%)",
               plan->name, 100 * share, 100 * plan->granted_min);
    }
    if (plan->p99_max_ns > 0 && p99_ns > plan->p99_max_ns) {
        breach(check, "%s: p99 is %.3g ms (max-p99 %.3g ms)", plan->name,
               (double)p99_ns / 1e6, (double)plan->p99_max_ns / 1e6);
    }
}

/* Descriptors come and go: a connection, a file that is written, those of each
 * sandbox that is held, which are more at one time than at another. */
static void
check_growth(const struct wp_outcome *o, struct wp_check *check)
{
    const char *name = o->plan->name;
    struct wp_growth growth;
    double share;

    if (o->plan->growth_max <= 0) {
        return;
    }
    if (!wp_outcome_growth(o, &growth)) {
        breach(check, "%s: the target's memory is not known (server-pid)",
               name);
        return;
    }
    share = growth.last_bytes / growth.first_bytes - 1;
    if (share > o->plan->growth_max) {
        breach(check,
               "%s: the target's memory grew by %.3g %% (max-growth "
               "%.3g %%)",
               name, 100 * share, 100 * o->plan->growth_max);
    }
    if (growth.last_descriptors > growth.first_descriptors +
                                      growth.first_descriptors / 10 +
                                      DESCRIPTORS_SPARE) {
        breach(check, "%s: the target's descriptors grew from %d to %d", name,
               growth.first_descriptors, growth.last_descriptors);
    }
}

static void
check_figures(const struct wp_outcome *o, struct wp_check *check)
{
    const struct wp_tally *t = o->tally;
    const char *name = o->plan->name;
    int64_t late_ns = wp_hist_quantile_ns(&t->late, 0.99);

    if (t->stall_max_ns > STALL_NS) {
        doubt(check, "%s: this program stood still for %.3g ms once", name,
              (double)t->stall_max_ns / 1e6);
    }
    if (late_ns > LATE_NS && t->held_back == 0) {
        doubt(check, "%s: claims were sent late, p99 %.3g ms: more --threads?",
              name, (double)late_ns / 1e6);
    }
    if (t->held_back > 0) {
        doubt(check, "%s: %llu claims waited here for max-in-flight %u", name,
              (unsigned long long)t->held_back, o->plan->in_flight);
    }
    if (t->connections_lost > 0) {
        doubt(check, "%s: %llu connections were lost", name,
              (unsigned long long)t->connections_lost);
    }
    if (t->client_cpu_ns > 0 && t->elapsed_ns > 0 && !o->plan->spin &&
        (double)t->client_cpu_ns >
            0.9 * (double)t->elapsed_ns * (double)o->plan->threads) {
        doubt(check, "%s: this program was the limit: more --threads?", name);
    }
}

static void
check_target(const struct wp_run *run, uint32_t i, struct wp_check *check)
{
    const struct wp_leftovers *left = &run->leftovers[i];
    const char *address = run->targets[i].address;
    uint64_t doubtful = 0;

    for (uint32_t k = 0; k < run->n_outcomes; k++) {
        const struct wp_tally *t = run->outcomes[k].tally;

        /* Who got no answer cannot release. */
        if (run->outcomes[k].target == i) {
            doubtful +=
                wp_tally_failed(t) + t->releases_failed + t->bad_answers;
        }
        doubtful += run->outcomes[k].cut ? UINT32_MAX : 0;
    }
    if (run->duplicates[i] > 0) {
        breach(check, "%llu sandboxes were given out twice",
               (unsigned long long)run->duplicates[i]);
    }
    if (!left->known) {
        if (!run->plan->echo && !run->plan->leave && !run->plan->blind) {
            doubt(check, "%.60s: nobody knows whether leases are left: %.120s",
                  address, left->why.msg);
        }
        return;
    }
    if (left->found > doubtful) {
        breach(check, "%.60s: %llu leases were still held after all releases",
               address, (unsigned long long)left->found);
    } else if (left->found > 0) {
        doubt(check, "%.60s: %llu leases without an answer were ended", address,
              (unsigned long long)left->ended);
    }
    if (left->sandboxes > 0) {
        breach(check, "%.60s: %llu Sandboxes are left of claims that are gone",
               address, (unsigned long long)left->sandboxes);
    }
    if (left->ended < left->found) {
        breach(check, "%.60s: %llu leases could not be ended: %.120s", address,
               (unsigned long long)(left->found - left->ended), left->why.msg);
    }
}

void
wp_check_run(const struct wp_run *run, struct wp_check *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < run->n_outcomes; i++) {
        check_promises(&run->outcomes[i], out);
        if (!run->outcomes[i].cut) {
            check_enough(&run->outcomes[i], out);
            check_growth(&run->outcomes[i], out);
        }
        check_figures(&run->outcomes[i], out);
    }
    for (uint32_t i = 0; i < run->n_targets; i++) {
        check_target(run, i, out);
    }
}
