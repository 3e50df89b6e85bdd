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

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(between_bursts),
        cmocka_unit_test(for_a_burst),
        cmocka_unit_test(outlook),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
