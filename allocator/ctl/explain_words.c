/* A pool's size in sentences. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/advice/advice.h"
#include "allocator/ctl/policy.h"
#include "allocator/ctl/print.h"
#include "pool/base/clock.h"
#include "pool/scale/scaler.h"

enum {
    SENTENCES_MAX = 1024,
    DAY_MS = 86400 * 1000,
};

/* Orders that wait for less than this share of a lead time are not worth a
 * word. */
static const double QUEUE_SHARE = 0.1;

/* One paragraph; what does not fit is cut. */
struct words {
    char text[SENTENCES_MAX];
    size_t len;
};

static void WP_PRINTF(2, 3) say(struct words *words, const char *fmt, ...)
{
    size_t left = sizeof words->text - words->len;
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(words->text + words->len, left, fmt, args);
    va_end(args);
    words->len += n < 0 ? 0 : (size_t)n < left ? (size_t)n : left - 1;
}

static void
print(FILE *out, struct words *words)
{
    if (words->len > 0) {
        wp_print_paragraph(out, words->text);
        words->len = 0;
    }
}

/* "41 000". */
static const char *
count_text(double n, char out[32])
{
    uint64_t rest = n > 0 ? (uint64_t)(n + 0.5) : 0;

    if (rest >= 1000000) {
        (void)snprintf(out, 32, "%llu %03u %03u",
                       (unsigned long long)(rest / 1000000),
                       (unsigned)(rest / 1000 % 1000), (unsigned)(rest % 1000));
    } else if (rest >= 10000) {
        (void)snprintf(out, 32, "%u %03u", (unsigned)(rest / 1000),
                       (unsigned)(rest % 1000));
    } else {
        (void)snprintf(out, 32, "%u", (unsigned)rest);
    }
    return out;
}

/* "14:02 UTC", and the date where that is not within a day. */
static const char *
moment_text(const struct wp_scale_decision *d, int64_t unix_ms, char out[64])
{
    bool near = llabs(d->wall_ns / WP_NS_PER_MS - unix_ms) < DAY_MS;
    char text[32];

    (void)wp_time_format_rfc3339(unix_ms * WP_NS_PER_MS, text);
    (void)snprintf(out, 64, "%.5s UTC%s%.10s", text + 11, near ? "" : " of ",
                   near ? "" : text);
    return out;
}

/* What demand alone takes. */
static void
say_demand(struct words *words, const struct wp_scale_decision *d)
{
    double more = ceil(d->spread > 0 ? d->spread : 0);
    char lead[32];
    char moment[64];

    if (d->rate_per_s < 0.0005) {
        say(words, "hardly any claims come now");
    } else {
        say(words, "claims come at %.2g/s", d->rate_per_s);
    }
    say(words, ", a new one takes %s", wp_print_seconds(d->lead_mean_s, lead));
    if (d->learned && d->reason != WP_SCALE_BETWEEN && more > 0) {
        say(words, ", and bursts");
        if (d->burst_unix_ms > 0) {
            say(words, " like the one at %s",
                moment_text(d, d->burst_unix_ms, moment));
        }
        say(words, " need %.0f more.", more);
    } else if (more > 0) {
        say(words, ", and %.0f are for what chance adds.", more);
    } else {
        say(words, ".");
    }
}

/* What each reason adds, and whether demand alone would take another number. */
static const struct {
    const char *sentence;
    bool other;
} reasons[WP_SCALE_REASON_COUNT] = {
    [WP_SCALE_BURST] = {"A burst is under way: it keeps what such bursts took",
                        false},
    [WP_SCALE_SCHEDULED] = {"The schedule raises it", true},
    [WP_SCALE_MIN] = {"min raises it", true},
    [WP_SCALE_MAX] = {"max caps it", true},
    [WP_SCALE_QUOTA] = {"It is not raised, since slots_max or the cluster's "
                        "quota is used up",
                        true},
    [WP_SCALE_BUDGET] = {"The budget of its group (autoscale_budgets) leaves "
                         "no more",
                         true},
    [WP_SCALE_HELD] = {"It is lowered slowly (scale-down-window, "
                       "scale-down-rate)",
                       true},
    [WP_SCALE_NO_PROGRESS] = {"It is not raised, since nothing becomes ready",
                              true},
};

static void
say_reason(struct words *words, const struct wp_pool_stats *pool,
           const struct wp_scale_decision *d)
{
    char moment[64];

    if (reasons[d->reason].sentence != NULL) {
        say(words, " %s", reasons[d->reason].sentence);
        if (reasons[d->reason].other) {
            say(words, "; demand alone would take %u", d->wanted);
        }
        say(words, ".");
    }
    if (d->reason == WP_SCALE_BETWEEN) {
        say(words, " No burst is due: more are kept from %s on.",
            moment_text(d, d->due_unix_ms, moment));
    }
    if (d->reserved > 0) {
        say(words, " %u of them are announced.", d->reserved);
    }
    if (d->reason == WP_SCALE_NO_PROGRESS && pool->last_failure[0] != '\0') {
        say(words, " The latest failure: %s.", pool->last_failure);
    }
}

static void
say_size(struct words *words, const struct wp_pool_stats *pool,
         const struct wp_scale_decision *d)
{
    if (d->reason == WP_SCALE_NOTHING_SEEN) {
        say(words, "Keeping %u ready, as given: no claim has come yet.",
            d->target);
        return;
    }
    if (d->reason == WP_SCALE_BY_HAND) {
        say(words,
            "Keeping %u ready, as set by hand. The autoscaler would keep %u; "
            "a changed resume gives the pool back to it.",
            d->target, d->wanted);
        return;
    }
    say(words, "Keeping %u ready or in the making: ", d->target);
    say_demand(words, d);
    say_reason(words, pool, d);
}

/* What holds creation back. */
static void
say_capacity(struct words *words, const struct wp_scale_decision *d)
{
    const char *bound =
        d->shared_bound ? "sandbox_spawns_max" : "create-inflight-max";
    char queue[32];

    if (d->at_once == 0 || !isfinite(d->makes_per_s)) {
        return;
    }
    if (d->expected >= d->at_once) {
        say(words,
            "Creation is saturated: %.2g sandboxes/s can be made, %.2g "
            "claims/s come. More stock would not help for long; raise %s (%u "
            "at once), or have more ready before a peak (min, schedule).",
            d->makes_per_s, d->rate_per_s, bound, d->at_once);
    } else if (d->queue_s > QUEUE_SHARE * d->lead_mean_s) {
        say(words, "An order waits %s for its turn: %u are made at once (%s).",
            wp_print_seconds(d->queue_s, queue), d->at_once, bound);
    }
}

static double
objective_of(const struct wp_wire_pool_detail *detail)
{
    struct wp_scale_policy policy;
    struct wp_err err;

    wp_scale_policy_init(&policy);
    for (uint32_t i = 0; i < detail->n_autoscale; i++) {
        if (wp_str_is(detail->autoscale[i].key, "objective") &&
            wp_scale_policy_set(&policy, detail->autoscale[i].key,
                                detail->autoscale[i].value, &err) == WP_OK &&
            policy.objective == WP_SCALE_HIT_RATE) {
            return policy.hit_rate;
        }
    }
    return 0;
}

static void
say_outlook(struct words *words, const struct wp_wire_pool_detail *detail,
            const struct wp_scale_decision *d)
{
    double objective = objective_of(detail);
    char share[32];
    char of[32];

    if (isfinite(d->hit_rate)) {
        wp_advice_share_format(d->hit_rate, share, sizeof share);
        say(words, "Expected: %s of claims served at once", share);
        wp_advice_share_format(objective, of, sizeof of);
        if (d->hit_rate < objective) {
            say(words, ", less than the objective of %s", of);
        }
        say(words, "; %.3g ready on average.", d->idle);
    }
    if (isfinite(d->hit_rate_best)) {
        wp_advice_share_format(d->hit_rate_best, share, sizeof share);
        say(words, " Within max no more than %s can be had.", share);
    }
}

static void
say_seen(struct words *words, const struct wp_scale_decision *d)
{
    char share[32];
    char claims[32];

    if (isfinite(d->hit_rate_seen) && d->seen_claims >= 1) {
        wp_advice_share_format(d->hit_rate_seen, share, sizeof share);
        say(words, "Seen: %s of the latest %s claims were served at once.",
            share, count_text(d->seen_claims, claims));
    }
}

void
wp_ctl_explain_words(FILE *out, const struct wp_wire_pool_detail *detail)
{
    const struct wp_scale_decision *d = &detail->decisions[0];
    struct words words = {.len = 0};

    say_size(&words, detail->stats, d);
    print(out, &words);
    say_capacity(&words, d);
    print(out, &words);
    if (detail->stats->group_unknown) {
        say(&words, "Its budget-group is not in autoscale_budgets, so no "
                    "budget bounds it.");
        print(out, &words);
    }
    say_outlook(&words, detail, d);
    print(out, &words);
    say_seen(&words, d);
    print(out, &words);
}
