/* Decisions in words: one line in which every number can be checked. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "pool/base/assert.h"
#include "pool/scale/scaler.h"

static const struct {
    const char *word;
    const char *sentence;
} reasons[WP_SCALE_REASON_COUNT] = {
    [WP_SCALE_NOTHING_SEEN] = {"nothing-seen",
                               "no claim yet: spec.replicas within the bounds"},
    [WP_SCALE_FORECAST] = {"forecast", "what the next lead time will take"},
    [WP_SCALE_BURST] = {"burst", "a burst is under way: what such bursts took"},
    [WP_SCALE_RESERVED] = {"reserved", "announced demand on top"},
    [WP_SCALE_SCHEDULED] = {"scheduled", "raised to the floor of the schedule"},
    [WP_SCALE_MIN] = {"min", "raised to min"},
    [WP_SCALE_MAX] = {"max", "capped by max"},
    [WP_SCALE_QUOTA] = {"quota", "not raised: no room for more sandboxes"},
    [WP_SCALE_BUDGET] = {"budget", "capped by its share of the group's budget"},
    [WP_SCALE_HELD] = {"held", "less would do; scaled down slowly"},
    [WP_SCALE_NO_PROGRESS] = {"no-progress",
                              "not raised: nothing becomes ready"},
    [WP_SCALE_BY_HAND] = {"by-hand", "spec.replicas rules"},
    [WP_SCALE_SATURATED] = {"saturated",
                            "not raised: more claims come than can be made"},
    [WP_SCALE_BETWEEN] = {"between-bursts", "no burst is due yet"},
};

const char *
wp_scale_reason_word(enum wp_scale_reason reason)
{
    WP_ASSERT((unsigned)reason < WP_SCALE_REASON_COUNT);
    return reasons[reason].word;
}

/* Appends; what does not fit is cut. */
struct text {
    char *out;
    size_t cap;
    size_t len;
};

static void WP_PRINTF(2, 3) add(struct text *text, const char *fmt, ...)
{
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(text->out + text->len, text->cap - text->len, fmt, args);
    va_end(args);
    if (n > 0) {
        text->len += (size_t)n;
        text->len = text->len < text->cap ? text->len : text->cap - 1;
    }
}

static void
add_demand(struct text *text, const struct wp_scale_decision *decision)
{
    const double quantum_s = (double)WP_SCALE_QUANTUM_NS / WP_NS_PER_S;

    add(text, "%.4g claims/s", decision->rate_per_s);
    add(text, " x %.3g s lead", fmax(decision->lead_mean_s, quantum_s));
    if (decision->lead_mean_s < quantum_s) {
        add(text, " (the least that counts; measured %.2g s)",
            decision->lead_mean_s);
    }
    add(text, " = %.4g expected %s %.4g spread", decision->expected,
        decision->spread < 0 ? "-" : "+", fabs(decision->spread));
    if (decision->learned) {
        add(text, " (learned)");
    } else if (fabs(decision->dispersion - 1) > 0.05) {
        add(text, " (dispersion %.3g)", decision->dispersion);
    }
}

void
wp_scale_decision_format(const struct wp_scale_decision *decision, char *out,
                         size_t cap)
{
    struct text text = {out, cap, 0};

    if (cap == 0) {
        return;
    }
    out[0] = '\0';
    if (decision->target == decision->target_before) {
        add(&text, "target %u: ", decision->target);
    } else {
        add(&text, "target %u -> %u: ", decision->target_before,
            decision->target);
    }
    if (decision->reason == WP_SCALE_NOTHING_SEEN) {
        add(&text, "%s", reasons[decision->reason].sentence);
        return;
    }
    add_demand(&text, decision);
    if (decision->reserved > 0) {
        add(&text, " + %u reserved", decision->reserved);
    }
    add(&text, " = %u wanted", decision->wanted);
    if (decision->floor > 0) {
        add(&text, ", floor %u", decision->floor);
    }
    add(&text, "; %s", reasons[decision->reason].sentence);
    if (isfinite(decision->hit_rate)) {
        add(&text, "; expect %.3f %% hits with %.4g idle",
            100 * decision->hit_rate, decision->idle);
    }
    if (isfinite(decision->hit_rate_seen)) {
        add(&text, ", seen %.3f %%", 100 * decision->hit_rate_seen);
    }
    if (decision->at_once > 0 && decision->expected >= decision->at_once &&
        isfinite(decision->makes_per_s)) {
        add(&text, "; creation saturated: %.3g sandboxes/s can be made",
            decision->makes_per_s);
    }
    if (isfinite(decision->hit_rate_best)) {
        add(&text, "; the objective cannot be had within max, %.3f %% can",
            100 * decision->hit_rate_best);
    }
}
