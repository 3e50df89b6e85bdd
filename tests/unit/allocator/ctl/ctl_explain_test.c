/* A pool's size in sentences, as `explain` says them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/ctl/policy.h"
#include "pool/base/clock.h"
#include "proto/wire/wire.h"

/* 2026-03-04 05:06:07 UTC. */
#define WALL_MS INT64_C(1772600767000)
#define HOUR_MS (INT64_C(3600) * 1000)

/* Five are kept, of a pool that has learned of its bursts. */
static struct wp_scale_decision
decision(enum wp_scale_reason reason)
{
    return (struct wp_scale_decision){
        .number = 7,
        .wall_ns = WALL_MS * WP_NS_PER_MS,
        .target = 5,
        .wanted = 5,
        .reason = reason,
        .rate_per_s = 0.05,
        .lead_mean_s = 8,
        .lead_p99_s = 12,
        .expected = 0.4,
        .spread = 3.6,
        .learned = true,
        .hit_rate = 0.9995,
        .idle = 12.5,
        .hit_rate_seen = NAN,
        .hit_rate_best = NAN,
        .makes_per_s = NAN,
        .burst_unix_ms = WALL_MS - 2 * HOUR_MS,
    };
}

/* On one line. */
static void
expect(const struct wp_scale_decision *one, const char *says)
{
    const struct wp_wire_setting policy = {WP_STR("objective"),
                                           WP_STR("99.9%")};
    struct wp_pool_stats stats = {.last_failure = ""};
    const struct wp_wire_pool_detail detail = {.stats = &stats,
                                               .autoscale = &policy,
                                               .n_autoscale = 1,
                                               .decisions = one,
                                               .n_decisions = 1};
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    assert_non_null(out);
    wp_ctl_explain_words(out, &detail);
    assert_int_equal(fclose(out), 0);
    for (size_t i = 0; i < len; i++) {
        text[i] = text[i] == '\n' ? ' ' : text[i];
    }
    if (strstr(text, says) == NULL) {
        fail_msg("'%s' has not '%s'", text, says);
    }
    free(text);
}

/* Bursts recur, and none is due: when more is kept, with its day where that is
 * another one. */
static void
between_bursts(void **state)
{
    struct wp_scale_decision one = decision(WP_SCALE_BETWEEN);

    (void)state;
    one.due_unix_ms = WALL_MS + 3 * HOUR_MS;
    expect(&one,
           "Keeping 5 ready or in the making: claims come at 0.05/s, a "
           "new one takes 8.0s, and 4 are for what chance adds. No burst is "
           "due: more are kept from 08:06 UTC on.");
    one.due_unix_ms = WALL_MS + 30 * HOUR_MS;
    expect(&one, "more are kept from 11:06 UTC of 2026-03-05 on.");
}

static void
for_a_burst(void **state)
{
    struct wp_scale_decision one = decision(WP_SCALE_FORECAST);

    (void)state;
    expect(&one, "and bursts like the one at 03:06 UTC need 4 more.");
    one.burst_unix_ms = WALL_MS - 26 * HOUR_MS;
    expect(&one, "and bursts like the one at 03:06 UTC of 2026-03-03 need 4 "
                 "more.");
    one.burst_unix_ms = 0;
    expect(&one, "and bursts need 4 more.");
    one.learned = false;
    expect(&one, "and 4 are for what chance adds.");
}

static void
outlook(void **state)
{
    struct wp_scale_decision one = decision(WP_SCALE_FORECAST);
    struct wp_scale_policy policy;

    (void)state;
    wp_scale_policy_init(&policy);
    expect(&one, "Expected: 99.95 % of claims served at once; 12.5 ready on "
                 "average.");
    assert_int_equal(wp_scale_policy_set(&policy, WP_STR("objective"),
                                         WP_STR("99.9%"), NULL),
                     WP_OK);
    one.hit_rate = policy.hit_rate;
    expect(&one, "Expected: 99.9 % of claims served at once; 12.5");
    one.hit_rate = 0.97;
    expect(&one, "Expected: 97.0 % of claims served at once, less than the "
                 "objective of 99.9 %; 12.5 ready on average.");
    one.hit_rate_seen = 0.998;
    one.seen_claims = 41234;
    expect(&one, "Seen: 99.8 % of the latest 41 234 claims were served at "
                 "once.");
}

/* All that is said, paragraphs as lines. stats: of the pool. */
static void
expect_whole(struct wp_pool_stats *stats, const struct wp_scale_decision *one,
             const char *expected)
{
    const struct wp_wire_setting policy[] = {
        {WP_STR("min"), WP_STR("1")}, {WP_STR("objective"), WP_STR("99.9%")}};
    const struct wp_wire_pool_detail detail = {.stats = stats,
                                               .autoscale = policy,
                                               .n_autoscale = 2,
                                               .decisions = one,
                                               .n_decisions = 1};
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    assert_non_null(out);
    wp_ctl_explain_words(out, &detail);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, expected);
    free(text);
}

static void
whole_explanation(void **state)
{
    struct wp_pool_stats stats = {.group_unknown = true};
    struct wp_scale_decision one = decision(WP_SCALE_NO_PROGRESS);

    (void)state;
    (void)snprintf(stats.last_failure, sizeof stats.last_failure,
                   "no such image");
    one.reserved = 2;
    one.wanted = 9;
    one.at_once = 4;
    one.makes_per_s = 0.5;
    one.queue_s = 1.5;
    one.hit_rate = 0.97;
    one.hit_rate_best = 0.98;
    one.hit_rate_seen = 0.998;
    one.seen_claims = 1;
    expect_whole(
        &stats, &one,
        "Keeping 5 ready or in the making: claims come at 0.05/s, a new one "
        "takes 8.0s,\n"
        "and bursts like the one at 03:06 UTC need 4 more. It is not raised, "
        "since\n"
        "nothing becomes ready; demand alone would take 9. 2 of them are "
        "announced. The\n"
        "latest failure: no such image.\n"
        "An order waits 1.5s for its turn: 4 are made at once "
        "(create-inflight-max).\n"
        "Its budget-group is not in autoscale_budgets, so no budget bounds "
        "it.\n"
        "Expected: 97.0 % of claims served at once, less than the objective "
        "of 99.9 %;\n"
        "12.5 ready on average. Within max no more than 98.0 % can be had.\n"
        "Seen: 99.8 % of the latest 1 claims were served at once.\n");
    /* Nothing that is not known is said. */
    stats = (struct wp_pool_stats){.group_unknown = false};
    one = decision(WP_SCALE_NO_PROGRESS);
    one.hit_rate = NAN;
    one.spread = 0;
    one.seen_claims = 0.5;
    one.hit_rate_seen = 1;
    expect_whole(&stats, &one,
                 "Keeping 5 ready or in the making: claims come at 0.05/s, a "
                 "new one takes 8.0s.\n"
                 "It is not raised, since nothing becomes ready; demand alone "
                 "would take 5.\n");
    /* A failure is not what holds it back where another reason does. */
    (void)snprintf(stats.last_failure, sizeof stats.last_failure, "x");
    one.reason = WP_SCALE_MIN;
    one.learned = false;
    one.spread = 0.1;
    one.rate_per_s = 0.0005;
    expect_whole(&stats, &one,
                 "Keeping 5 ready or in the making: claims come at 0.0005/s, a "
                 "new one takes 8.0s,\n"
                 "and 1 are for what chance adds. min raises it; demand alone "
                 "would take 5.\n");
    one.rate_per_s = 0.0004999;
    one.spread = -1;
    expect_whole(&stats, &one,
                 "Keeping 5 ready or in the making: hardly any claims come "
                 "now, a new one takes\n"
                 "8.0s. min raises it; demand alone would take 5.\n");
}

static void
by_hand_or_given(void **state)
{
    struct wp_pool_stats stats = {.last_failure = ""};
    struct wp_scale_decision one = decision(WP_SCALE_BY_HAND);

    (void)state;
    one.wanted = 9;
    one.hit_rate = NAN;
    expect_whole(&stats, &one,
                 "Keeping 5 ready, as set by hand. The autoscaler would keep "
                 "9; a changed resume\n"
                 "gives the pool back to it.\n");
    one.reason = WP_SCALE_NOTHING_SEEN;
    expect_whole(&stats, &one,
                 "Keeping 5 ready, as given: no claim has come yet.\n");
}

/* Each reason has its sentence, and says what demand alone would take where
 * that is another number. */
static void
reasons(void **state)
{
    static const struct {
        enum wp_scale_reason reason;
        const char *says;
    } rows[] = {
        {WP_SCALE_BURST,
         "4 more. A burst is under way: it keeps what such bursts took. "},
        {WP_SCALE_SCHEDULED,
         "4 more. The schedule raises it; demand alone would take 9. "},
        {WP_SCALE_MIN, "4 more. min raises it; demand alone would take 9. "},
        {WP_SCALE_MAX, "4 more. max caps it; demand alone would take 9. "},
        {WP_SCALE_QUOTA,
         "4 more. It is not raised, since slots_max or the cluster's quota is "
         "used up; demand alone would take 9. "},
        {WP_SCALE_BUDGET,
         "4 more. The budget of its group (autoscale_budgets) leaves no more; "
         "demand alone would take 9. "},
        {WP_SCALE_HELD,
         "4 more. It is lowered slowly (scale-down-window, scale-down-rate); "
         "demand alone would take 9. "},
        {WP_SCALE_NO_PROGRESS,
         "4 more. It is not raised, since nothing becomes ready; demand alone "
         "would take 9. "},
        {WP_SCALE_FORECAST, "4 more. Expected: "},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_scale_decision one = decision(rows[i].reason);

        one.wanted = 9;
        expect(&one, rows[i].says);
    }
}

/* At its bound creation is saturated; an order that waits a tenth of a lead
 * time is not worth a word. */
static void
what_holds_creation_back(void **state)
{
    struct wp_pool_stats stats = {.last_failure = ""};
    struct wp_scale_decision one = decision(WP_SCALE_NOTHING_SEEN);
    static const char given[] =
        "Keeping 5 ready, as given: no claim has come yet.\n";

    (void)state;
    one.hit_rate = NAN;
    one.at_once = 4;
    one.makes_per_s = 0.5;
    one.expected = 3.999;
    one.queue_s = 0.8;
    expect_whole(&stats, &one, given);
    one.queue_s = 0.9;
    one.shared_bound = true;
    expect(&one, "An order waits 900ms for its turn: 4 are made at once "
                 "(sandbox_spawns_max).");
    one.expected = 4;
    expect(&one, "Creation is saturated: 0.5 sandboxes/s can be made, 0.05 "
                 "claims/s come. More stock would not help for long; raise "
                 "sandbox_spawns_max (4 at once), or have more ready before a "
                 "peak (min, schedule).");
    one.makes_per_s = NAN;
    expect_whole(&stats, &one, given);
    one.makes_per_s = 0.5;
    one.at_once = 0;
    expect_whole(&stats, &one, given);
}

static void
counts_and_days(void **state)
{
    static const struct {
        double claims;
        const char *says;
    } rows[] = {{9999, "latest 9999 claims"},
                {10000, "latest 10 000 claims"},
                {999999, "latest 999 999 claims"},
                {1000000, "latest 1 000 000 claims"},
                {12034567.6, "latest 12 034 568 claims"}};
    struct wp_scale_decision one = decision(WP_SCALE_FORECAST);

    (void)state;
    one.hit_rate_seen = 1;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        one.seen_claims = rows[i].claims;
        expect(&one, rows[i].says);
    }
    /* Less than a day ago. */
    one.burst_unix_ms = WALL_MS - 24 * HOUR_MS + 1;
    expect(&one, "like the one at 05:06 UTC need");
    one.burst_unix_ms = WALL_MS - 24 * HOUR_MS;
    expect(&one, "like the one at 05:06 UTC of 2026-03-03 need");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(between_bursts),
        cmocka_unit_test(for_a_burst),
        cmocka_unit_test(outlook),
        cmocka_unit_test(whole_explanation),
        cmocka_unit_test(by_hand_or_given),
        cmocka_unit_test(reasons),
        cmocka_unit_test(what_holds_creation_back),
        cmocka_unit_test(counts_and_days),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
