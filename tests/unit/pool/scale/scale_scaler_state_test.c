/* What a scaler knows, saved and loaded into another one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/scale/bursts.h"
#include "pool/scale/hold.h"
#include "pool/scale/learn.h"
#include "pool/scale/scaler_impl.h"
#include "pool/scale/window.h"
#include "tests/support/pool/scaler_world.h"

/* Until what bursts need is learned. */
static struct wp_scale_decision
burst_often(struct world *w)
{
    struct wp_scale_decision last = {0};

    for (int i = 0; i < 30; i++) {
        (void)world_claims(w, 1, 200);
        last = world_claims(w, 100, 0.02);
    }
    return last;
}

#define ASSERT_SAME(a, b, part)                                                \
    assert_memory_equal(&(a)->part, &(b)->part, sizeof(a)->part)

/* All that was seen is known again, whatever will be decided of it. */
static void
assert_same(const struct wp_scaler *a, const struct wp_scaler *b)
{
    ASSERT_SAME(a, b, windows);
    ASSERT_SAME(a, b, lead);
    ASSERT_SAME(a, b, need.slot_ns);
    ASSERT_SAME(a, b, need.n_slots);
    ASSERT_SAME(a, b, need.slot);
    ASSERT_SAME(a, b, need.count);
    ASSERT_SAME(a, b, need.plan);
    ASSERT_SAME(a, b, need.most);
    ASSERT_SAME(a, b, need.state);
    ASSERT_SAME(a, b, need.due);
    ASSERT_SAME(a, b, trial);
    ASSERT_SAME(a, b, bursts);
    ASSERT_SAME(a, b, theory_stock);
    ASSERT_SAME(a, b, solve_at_ns);
    ASSERT_SAME(a, b, slack_log);
    ASSERT_SAME(a, b, slack_allowed);
    ASSERT_SAME(a, b, theory_slack_log);
    ASSERT_SAME(a, b, ordered_ns);
    ASSERT_SAME(a, b, background);
    ASSERT_SAME(a, b, background_ns);
    ASSERT_SAME(a, b, claims);
    ASSERT_SAME(a, b, claims_seen);
    ASSERT_SAME(a, b, missed_seen);
    ASSERT_SAME(a, b, gap_s);
    ASSERT_SAME(a, b, gaps);
    ASSERT_SAME(a, b, last_claim_ns);
    ASSERT_SAME(a, b, hold);
    ASSERT_SAME(a, b, target);
    ASSERT_SAME(a, b, decided);
    ASSERT_SAME(a, b, reason);
    ASSERT_SAME(a, b, other);
    ASSERT_SAME(a, b, decisions);
    assert_int_equal(a->learn != NULL, b->learn != NULL);
    if (a->learn != NULL) {
        ASSERT_SAME(a, b, learn[0]);
    }
}

/* Saved and loaded at once into a new one, whose monotonic clock began
 * elsewhere: the two decide alike from then on. */
static void
restart(void **state)
{
    struct world a = world_make(10);
    struct world b = world_make(10);
    static uint8_t bytes[16384];
    struct wp_err err;
    size_t len;

    (void)state;
    world_start(&a);
    (void)world_decide(&a);
    (void)world_claims(&a, 2000, 0.1);
    assert_int_equal(wp_scaler_reserve(a.scaler, WP_STR("r"), 9,
                                       a.view.wall_ns + 50 * S,
                                       a.view.wall_ns + 90 * S, &err),
                     WP_OK);
    len = wp_scaler_save(a.scaler, a.view.mono_ns, a.view.wall_ns, NULL, 0);
    assert_true(len <= sizeof bytes);
    assert_int_equal(wp_scaler_save(a.scaler, a.view.mono_ns, a.view.wall_ns,
                                    bytes, sizeof bytes),
                     len);
    world_start(&b);
    b.view = a.view;
    b.view.mono_ns = 5 * S;
    assert_int_equal(wp_scaler_load(b.scaler, b.view.mono_ns, b.view.wall_ns,
                                    bytes, len, &err),
                     WP_OK);
    assert_same(a.scaler, b.scaler);
    for (int i = 0; i < 3000; i++) {
        struct wp_scale_decision x = world_claims(&a, 1, i < 900 ? 0.02 : 0.5);
        struct wp_scale_decision y = world_claims(&b, 1, i < 900 ? 0.02 : 0.5);

        assert_int_equal(x.target, y.target);
        assert_int_equal(x.reason, y.reason);
        /* It has kept its own first one besides. */
        assert_int_equal(x.number + 1, y.number);
        assert_true(x.expected == y.expected);
        assert_true(a.next_ns - a.view.mono_ns == b.next_ns - b.view.mono_ns);
    }
    /* Cut anywhere: refused. */
    for (size_t i = 0; i < len; i += 11) {
        assert_int_equal(wp_scaler_load(b.scaler, b.view.mono_ns,
                                        b.view.wall_ns, bytes, i, &err),
                         WP_INVALID_ARGUMENT);
    }
    wp_scaler_destroy(a.scaler);
    wp_scaler_destroy(b.scaler);
}

/* Bursts again and again: what was learned survives too. */
static void
restart_learned(void **state)
{
    struct world a = world_make(10);
    struct world b = world_make(10);
    static uint8_t bytes[WP_SCALE_STATE_MAX];
    struct wp_scale_decision x;
    struct wp_err err;
    size_t len;

    (void)state;
    world_start(&a);
    (void)world_decide(&a);
    x = burst_often(&a);
    assert_true(x.learned);
    /* A promise for one burst: its hundred claims, some of them missed. */
    assert_in_range(x.target, 80, 130);
    len = wp_scaler_save(a.scaler, a.view.mono_ns, a.view.wall_ns, bytes,
                         sizeof bytes);
    assert_true(len <= sizeof bytes);
    world_start(&b);
    b.view = a.view;
    assert_int_equal(wp_scaler_load(b.scaler, b.view.mono_ns, b.view.wall_ns,
                                    bytes, len, &err),
                     WP_OK);
    assert_same(a.scaler, b.scaler);
    for (int i = 0; i < 1000; i++) {
        double each_s = i % 100 == 0 ? 150 : 0.03;
        struct wp_scale_decision y = world_claims(&b, 1, each_s);

        x = world_claims(&a, 1, each_s);
        assert_int_equal(x.target, y.target);
        assert_int_equal(x.learned, y.learned);
    }
    wp_scaler_destroy(a.scaler);
    wp_scaler_destroy(b.scaler);
}

/* Saved yesterday: what was usual is still believed, what is announced stays,
 * and nothing is given up before a whole window was seen. */
static void
restart_late(void **state)
{
    struct world a = world_make(0);
    struct world b = world_make(0);
    static uint8_t bytes[WP_SCALE_STATE_MAX];
    struct wp_scale_decision x;
    struct wp_scale_decision y;
    struct wp_err err;
    size_t len;

    (void)state;
    world_start(&a);
    (void)world_decide(&a);
    x = world_claims(&a, 3000, 0.2);
    len = wp_scaler_save(a.scaler, a.view.mono_ns, a.view.wall_ns, bytes,
                         sizeof bytes);
    world_start(&b);
    b.view.wall_ns = a.view.wall_ns + 24 * 3600 * S;
    assert_int_equal(wp_scaler_load(b.scaler, b.view.mono_ns, b.view.wall_ns,
                                    bytes, len, &err),
                     WP_OK);
    y = world_decide(&b);
    assert_true(y.target >= x.target);
    assert_true(fabs(y.lead_mean_s - x.lead_mean_s) < 1e-9);
    wp_scaler_destroy(a.scaler);
    wp_scaler_destroy(b.scaler);
}

/* Earlier versions have saved it so: nothing in it moves, and a reservation
 * takes as much as it has. */
static void
as_long_as_ever(void **state)
{
    struct world w = world_make(0);
    static uint8_t bytes[4096];
    struct wp_err err;
    size_t len;

    (void)state;
    len = wp_scaler_save(w.scaler, S, WALL0, NULL, 0);
    assert_int_equal(len, 3008);
    memset(bytes, 0xee, sizeof bytes);
    assert_int_equal(wp_scaler_save(w.scaler, S, WALL0, bytes, sizeof bytes),
                     len);
    assert_int_equal(bytes[len - 1], 0);
    assert_int_equal(bytes[len], 0xee);
    assert_int_equal(wp_scaler_reserve(w.scaler, WP_STR("r"), 1,
                                       WALL0 + 3600 * S, WALL0 + 7200 * S,
                                       &err),
                     WP_OK);
    assert_int_equal(wp_scaler_save(w.scaler, S, WALL0, NULL, 0),
                     len + 64 + 4 + 4 + 8 + 8);
    wp_scaler_destroy(w.scaler);
}

/* With all reservations: room for the largest table of what was learned
 * (WP_LEARN_STATES * WP_LEARN_BINS cells of 10 bytes, and a head), and of
 * bursts. */
static void
bound(void **state)
{
    struct world w = world_make(0);
    struct wp_err err;
    size_t len;

    (void)state;
    world_start(&w);
    (void)world_claims(&w, 100, 10);
    for (int i = 0; i < WP_SCALE_RESERVATIONS_MAX; i++) {
        char id[8];
        int n = snprintf(id, sizeof id, "r%d", i);

        assert_int_equal(wp_scaler_reserve(w.scaler,
                                           (struct wp_str){id, (size_t)n}, 1,
                                           w.view.wall_ns + 3600 * S,
                                           w.view.wall_ns + 7200 * S, &err),
                         WP_OK);
    }
    len = wp_scaler_save(w.scaler, w.view.mono_ns, w.view.wall_ns, NULL, 0);
    print_message("state: %zu bytes\n", len);
    assert_true(len + WP_LEARN_STATES * WP_LEARN_BINS * 10 + 300 +
                    WP_BURSTS * 20 <=
                WP_SCALE_STATE_MAX);
    wp_scaler_destroy(w.scaler);
}

/* What cannot be: a rate is known as of a later time than that of the whole. */
static void
what_cannot_be(void **state)
{
    static uint8_t bytes[WP_SCALE_STATE_MAX];
    struct world a = world_make(0);
    struct world b = world_make(0);
    /* Behind the head, what is said of claims, and two sums of each window. */
    const size_t at = 110 + 2 * 8 * WP_WINDOWS;
    struct wp_err err;
    size_t len;

    (void)state;
    wp_scaler_on_ready(a.scaler, S, 3 * S);
    len = wp_scaler_save(a.scaler, S, WALL0, bytes, sizeof bytes);
    bytes[at + 7] = 0x7f;
    assert_int_equal(wp_scaler_load(b.scaler, S, WALL0, bytes, len, &err),
                     WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, "scaler state: damaged");
    bytes[at + 7] = 0;
    assert_int_equal(wp_scaler_load(b.scaler, S, WALL0, bytes, len, &err),
                     WP_OK);
    wp_scaler_destroy(a.scaler);
    wp_scaler_destroy(b.scaler);
}

/* Into one that has decided nothing yet. */
static void
all_that_was_seen(void **state)
{
    struct world a = world_make(10);
    struct world b = world_make(0);
    static uint8_t bytes[WP_SCALE_STATE_MAX];
    struct wp_err err;
    size_t len;

    (void)state;
    world_start(&a);
    world_start(&b);
    (void)world_decide(&a);
    (void)burst_often(&a);
    for (int i = 0; i < 30; i++) {
        wp_scaler_on_ready(a.scaler, a.view.mono_ns,
                           a.view.mono_ns + (3 + i % 4) * S);
    }
    wp_scaler_on_claims(a.scaler, a.view.mono_ns, 9, 2);
    assert_non_null(a.scaler->learn);
    assert_true(a.scaler->missed_seen > 0);
    /* What came to nothing here, or to what a new one has, too. */
    a.scaler->background = 3.5;
    a.scaler->need.due = false;
    a.scaler->learn->missed = 0.25;
    a.scaler->learn->grouped_s = 77;
    len = wp_scaler_save(a.scaler, a.view.mono_ns, a.view.wall_ns, bytes,
                         sizeof bytes);
    assert_int_equal(wp_scaler_load(b.scaler, a.view.mono_ns, a.view.wall_ns,
                                    bytes, len, &err),
                     WP_OK);
    assert_same(a.scaler, b.scaler);
    wp_scaler_destroy(a.scaler);
    wp_scaler_destroy(b.scaler);
}

/* Where the first cell that holds anything is in the state. */
static uint8_t *
find_cell(const struct wp_scaler *scaler, uint8_t *bytes, size_t len)
{
    const float *claims = &scaler->learn->claims[0][0];
    const float *seconds = &scaler->learn->seconds[0][0];
    float cell[2];
    size_t at = 0;

    while (!(claims[at] > 0)) {
        at++;
    }
    cell[0] = claims[at];
    cell[1] = seconds[at];
    return memmem(bytes, len, cell, sizeof cell);
}

/* No claims were counted, or for no time that there is. */
static void
cells_that_cannot_be(void **state)
{
    static const float wrong[] = {-1, NAN, INFINITY, 1e30F};
    static uint8_t bytes[WP_SCALE_STATE_MAX];
    struct world a = world_make(10);
    struct world b = world_make(10);
    struct wp_err err;
    uint8_t *cell;
    size_t len;

    (void)state;
    world_start(&a);
    (void)world_decide(&a);
    (void)burst_often(&a);
    len = wp_scaler_save(a.scaler, a.view.mono_ns, a.view.wall_ns, bytes,
                         sizeof bytes);
    cell = find_cell(a.scaler, bytes, len);
    assert_non_null(cell);
    for (size_t i = 0; i < 2 * WP_ARRAY_LEN(wrong); i++) {
        uint8_t *part = cell + i % 2 * sizeof(float);
        float right;

        memcpy(&right, part, sizeof right);
        memcpy(part, &wrong[i / 2], sizeof right);
        assert_int_equal(wp_scaler_load(b.scaler, b.view.mono_ns,
                                        b.view.wall_ns, bytes, len, &err),
                         WP_INVALID_ARGUMENT);
        assert_string_equal(err.msg, "scaler state: damaged");
        memcpy(part, &right, sizeof right);
    }
    assert_int_equal(wp_scaler_load(b.scaler, b.view.mono_ns, b.view.wall_ns,
                                    bytes, len, &err),
                     WP_OK);
    wp_scaler_destroy(a.scaler);
    wp_scaler_destroy(b.scaler);
}

/* Of another version than this one or the one before: nothing of it counts. The
 * one before ends in a sum. */
static void
versions(void **state)
{
    static uint8_t bytes[WP_SCALE_STATE_MAX];
    struct world a = world_make(0);
    struct world b = world_make(0);
    struct wp_err err;
    size_t len;

    (void)state;
    world_start(&b);
    wp_scaler_on_ready(a.scaler, S, 3 * S);
    len = wp_scaler_save(a.scaler, S, WALL0, bytes, sizeof bytes);
    assert_int_equal(bytes[4], 9);
    for (uint8_t version = 7; version <= 10; version += 3) {
        bytes[4] = version;
        assert_int_equal(wp_scaler_load(b.scaler, S, WALL0, bytes, len, &err),
                         WP_INVALID_ARGUMENT);
        assert_non_null(strstr(err.msg, "version"));
        assert_true(fabs(world_decide(&b).lead_mean_s - 3) > 1e-6);
    }
    for (uint8_t version = 8; version <= 9; version++) {
        size_t sum = version == 8 ? 8 : 0;

        bytes[4] = version;
        for (size_t cut = 1; cut <= 10; cut++) {
            assert_int_equal(wp_scaler_load(b.scaler, S, WALL0, bytes,
                                            len + sum - cut, &err),
                             WP_INVALID_ARGUMENT);
        }
        assert_int_equal(
            wp_scaler_load(b.scaler, S, WALL0, bytes, len + sum, &err), WP_OK);
        assert_true(fabs(world_decide(&b).lead_mean_s - 3) < 1e-6);
        wp_scaler_destroy(b.scaler);
        b = world_make(0);
        world_start(&b);
    }
    bytes[4] = 8;
    for (size_t i = 0; i < 20; i++) {
        assert_int_equal(wp_scaler_load(b.scaler, S, WALL0, bytes, i, &err),
                         WP_INVALID_ARGUMENT);
    }
    wp_scaler_destroy(a.scaler);
    wp_scaler_destroy(b.scaler);
}

/* --- What cannot be, bound by bound --- */

/* At this time of the scaler it is saved. */
#define NOW (100 * S)

static struct world from;
static struct world into;

static int
set_up(void **state)
{
    (void)state;
    from = world_make(3);
    into = world_make(5);
    wp_scaler_on_ready(from.scaler, S, 3 * S);
    wp_scaler_on_claims(from.scaler, 2 * S, 9, 2);
    wp_scaler_go_on(from.scaler, NOW);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    wp_scaler_destroy(from.scaler);
    wp_scaler_destroy(into.scaler);
    return 0;
}

/* A scaler that was not told anything new is what it was, byte for byte. */
static void
expect_bytes(uint8_t *bytes, size_t len, bool sound, const char *what)
{
    static struct wp_scaler before;
    struct wp_err err = {.status = WP_OK};
    enum wp_status status;

    before = *into.scaler;
    status = wp_scaler_load(into.scaler, NOW, WALL0, bytes, len, &err);
    if (status != (sound ? WP_OK : WP_INVALID_ARGUMENT)) {
        fail_msg("%s is %s", what, sound ? "refused" : "taken");
    }
    if (!sound) {
        assert_string_equal(err.msg, "scaler state: damaged");
        assert_memory_equal(&before, into.scaler, sizeof before);
    }
}

static void
expect_load(bool sound, const char *what)
{
    static uint8_t bytes[WP_SCALE_STATE_MAX];
    size_t len = wp_scaler_save(from.scaler, NOW, WALL0, bytes, sizeof bytes);

    assert_true(len <= sizeof bytes);
    expect_bytes(bytes, len, sound, what);
}

/* With that value in the field. */
#define TRY(sound, field, value)                                               \
    do {                                                                       \
        struct wp_scaler was = *from.scaler;                                   \
                                                                               \
        from.scaler->field = (value);                                          \
        expect_load(sound, #field " = " #value);                               \
        *from.scaler = was;                                                    \
    } while (0)

static void
bounds_of_what_was_seen(void **state)
{
    double just_below = nextafter(1e18, 0);
    double claims = from.scaler->claims_seen;

    (void)state;
    expect_load(true, "what is");
    TRY(true, last_claim_ns, 0);
    TRY(true, last_claim_ns, NOW);
    TRY(false, last_claim_ns, NOW + 1);
    TRY(false, last_claim_ns, -1);
    TRY(true, now_ns, WP_SCALER_PASS_MAX_NS);
    TRY(false, now_ns, WP_SCALER_PASS_MAX_NS + 1);
    TRY(true, background, just_below);
    TRY(false, background, 1e18);
    TRY(false, background, -1);
    TRY(true, claims_seen, just_below);
    TRY(false, claims_seen, 1e18);
    TRY(true, missed_seen, claims);
    TRY(false, missed_seen, nextafter(claims, 1e9));
    TRY(false, gap_s, NAN);
    TRY(false, gap_s, INFINITY);
    TRY(false, gap_s, -0.001);
    TRY(true, gap_s, 1e300);
    TRY(true, solve_at_ns, 0);
    TRY(false, solve_at_ns, -1);
    TRY(true, slack_log, -99.99);
    TRY(false, slack_log, -100);
    TRY(false, slack_log, 100);
    TRY(true, theory_slack_log, 99.99);
    TRY(false, theory_slack_log, 100);
    TRY(false, theory_slack_log, -100);
    TRY(true, trial.claims, just_below);
    TRY(false, trial.claims, 1e18);
    TRY(true, trial.missed, from.scaler->trial.claims);
    TRY(false, trial.missed, from.scaler->trial.claims * (1 + 2e-9));
    TRY(true, reason, WP_SCALE_REASON_COUNT - 1);
    TRY(false, reason, WP_SCALE_REASON_COUNT);
}

static void
bounds_of_windows_and_needs(void **state)
{
    int64_t slots = NOW / from.scaler->need.slot_ns;
    int64_t parts = NOW / from.scaler->hold.part_ns;

    (void)state;
    TRY(true, windows.count[WP_WINDOWS - 1], 1e18);
    TRY(false, windows.count[WP_WINDOWS - 1], 1.001e18);
    TRY(true, windows.seen[0], 1);
    TRY(false, windows.seen[0], 1.001);
    TRY(true, windows.at_ns, 0);
    TRY(true, windows.at_ns, NOW);
    TRY(false, windows.at_ns, NOW + 1);
    TRY(false, windows.at_ns, -1);
    TRY(true, need.most[WP_NEED_SLOTS - 1], WP_LEARN_LEVELS - 1);
    TRY(false, need.most[WP_NEED_SLOTS - 1], WP_LEARN_LEVELS);
    TRY(true, need.state[0], WP_LEARN_STATES - 1);
    TRY(false, need.state[0], WP_LEARN_STATES);
    TRY(true, need.slot, slots);
    TRY(false, need.slot, slots + 1);
    TRY(true, need.slot, 0);
    TRY(false, need.slot, -1);
    TRY(true, need.n_slots, 1);
    TRY(false, need.n_slots, 0);
    TRY(true, need.n_slots, WP_NEED_SLOTS / 2 - 1);
    TRY(false, need.n_slots, WP_NEED_SLOTS / 2);
    from.scaler->need.slot = 0;
    TRY(true, need.slot_ns, WP_SCALE_QUANTUM_NS);
    TRY(false, need.slot_ns, WP_SCALE_QUANTUM_NS - 1);
    TRY(true, need.slot_ns, INT64_MAX / 2 - 1);
    TRY(false, need.slot_ns, INT64_MAX / 2);
    TRY(true, hold.part, parts);
    TRY(false, hold.part, parts + 1);
    TRY(false, hold.part, -1);
    TRY(true, hold.step_ends_ns, 0);
    TRY(false, hold.step_ends_ns, -1);
    TRY(false, hold.part_ns, -1);
    from.scaler->hold.part_ns = 0;
    TRY(true, hold.part, 0);
    TRY(false, hold.part, 1);
}

static void
bounds_of_lead_times(void **state)
{
    struct wp_lead_time *lead = &from.scaler->lead;

    (void)state;
    TRY(false, lead.unit, 0.999);
    TRY(true, lead.unit, 1);
    TRY(true, lead.unit, 9.99e109);
    TRY(false, lead.unit, 1e110);
    TRY(true, lead.sum_s, 1e8 * lead->total);
    TRY(false, lead.sum_s, 1.001e8 * lead->total);
    TRY(true, lead.long_sum_s, 1e8 * lead->long_total);
    TRY(false, lead.long_sum_s, 1.001e8 * lead->long_total);
    TRY(true, lead.long_sum_s2, 1e16 * lead->long_total);
    TRY(false, lead.long_sum_s2, 1.001e16 * lead->long_total);
    TRY(true, lead.long_total, 9.99e19);
    TRY(false, lead.long_total, 1e20);
    TRY(true, lead.total, lead->total * (1 + 9e-7));
    TRY(false, lead.total, lead->total * (1 + 3e-6));
    TRY(false, lead.total, lead->total * (1 - 3e-6));
    lead->long_sum_s = 0;
    lead->long_sum_s2 = 0;
    TRY(true, lead.long_total, 1e-6);
    TRY(false, lead.long_total, 0.99e-6);
    lead->sum_s = 0;
    memset(lead->weight, 0, sizeof lead->weight);
    TRY(false, lead.total, 0);
    /* Nothing was measured: there are no sums, then. */
    lead->measured = 0;
    TRY(true, lead.total, 0);
    TRY(true, lead.total, 9.99e119);
    TRY(false, lead.total, 1e120);
    TRY(true, lead.long_total, 0);
}

static void
bounds_of_bursts(void **state)
{
    struct wp_bursts *bursts = &from.scaler->bursts;

    (void)state;
    bursts->n = 2;
    bursts->of[0] = (struct wp_burst){20 * S, 7, 1e18};
    bursts->of[1] = (struct wp_burst){20 * S, 7, 3};
    bursts->latest_ns = 20 * S;
    TRY(true, bursts.latest_ns, 20 * S);
    TRY(false, bursts.latest_ns, 20 * S - 1);
    TRY(true, bursts.latest_ns, NOW);
    TRY(false, bursts.latest_ns, NOW + 1);
    TRY(false, bursts.of[0].missed, 1.001e18);
    TRY(false, bursts.of[0].began_ns, 20 * S + 1);
    TRY(true, bursts.of[0].began_ns, 0);
    TRY(false, bursts.of[0].began_ns, -1);
    TRY(true, bursts.n, 0);
    for (unsigned i = 0; i < WP_BURSTS; i++) {
        bursts->of[i] = bursts->of[1];
    }
    TRY(true, bursts.n, WP_BURSTS);
    TRY(false, bursts.n, WP_BURSTS + 1);
}

/* The same for what a table of cells begins with. */
#define TRY_LEARNED(sound, field, value)                                       \
    do {                                                                       \
        whole = *learn;                                                        \
        learn->field = (value);                                                \
        expect_load(sound, "learned " #field " = " #value);                    \
        *learn = whole;                                                        \
    } while (0)

static void
bounds_of_what_was_learned(void **state)
{
    static struct wp_learn whole;
    struct wp_learn *learn = malloc(sizeof *learn);

    (void)state;
    assert_non_null(learn);
    wp_learn_init(learn);
    from.scaler->learn = learn;
    for (unsigned i = 0; i < WP_LEARN_STATES; i++) {
        learn->group[i] = (uint8_t)(i / 4 * 4);
    }
    TRY_LEARNED(true, unit, 1);
    TRY_LEARNED(false, unit, 0.999);
    TRY_LEARNED(true, unit, 9.99e14);
    TRY_LEARNED(false, unit, 1e15);
    TRY_LEARNED(true, worth_s, 1e-3);
    TRY_LEARNED(false, worth_s, 0.99e-3);
    TRY_LEARNED(true, worth_s, 1e12);
    TRY_LEARNED(false, worth_s, 1.001e12);
    TRY_LEARNED(false, group[WP_LEARN_STATES - 1], WP_LEARN_STATES);
    learn->group[WP_LEARN_STATES - 1] = WP_LEARN_STATES - 1;
    TRY_LEARNED(false, group[0], 1);
    learn->group[0] = 0;
    TRY_LEARNED(false, group[9], 4);
    learn->group[9] = 9;
    TRY_LEARNED(false, group[10], 8);
}

static void
bounds_of_reservations(void **state)
{
    struct wp_reservations *all = &from.scaler->reservations;
    struct wp_err err;

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            wp_scaler_reserve(from.scaler, i == 0 ? WP_STR("a") : WP_STR("b"),
                              4, WALL0 + 200 * S, WALL0 + 300 * S, &err),
            WP_OK);
    }
#define TRY_ONE(sound, field, value)                                           \
    do {                                                                       \
        struct wp_scale_reservation one = all->all[1];                         \
                                                                               \
        all->all[1].field = (value);                                           \
        expect_load(sound, #field " = " #value);                               \
        all->all[1] = one;                                                     \
    } while (0)
    TRY_ONE(true, left, 4);
    TRY_ONE(true, left, 0);
    TRY_ONE(false, left, 5);
    TRY_ONE(true, from_wall_ns, WALL0 + 300 * S - 1);
    TRY_ONE(false, from_wall_ns, WALL0 + 300 * S);
    TRY_ONE(false, id[0], '\0');
    all->all[1].n = 5;
    TRY_ONE(false, id[0], 'a');
    memset(all->all[1].id, 'x', sizeof all->all[1].id);
    expect_load(false, "an id without an end");
    all->all[1].id[sizeof all->all[1].id - 1] = '\0';
    expect_load(true, "the longest id");
    assert_int_equal(into.scaler->reservations.n, 2);
    assert_memory_equal(&into.scaler->reservations.all[1], &all->all[1],
                        sizeof all->all[1]);
#undef TRY_ONE
}

/* Of a byte that is true or false; and of a cell that is not in the table. */
static void
bytes_that_cannot_be(void **state)
{
    static uint8_t bytes[WP_SCALE_STATE_MAX];
    const size_t known_at = 8 + 8 + 8 + 8 + 4;
    struct wp_learn *learn = malloc(sizeof *learn);
    const uint16_t cells = WP_LEARN_STATES * WP_LEARN_BINS;
    uint8_t *cell;
    size_t len;

    (void)state;
    assert_non_null(learn);
    wp_learn_init(learn);
    learn->claims[3][4] = 1.25F;
    learn->seconds[3][4] = 2.5F;
    from.scaler->learn = learn;
    for (unsigned i = 0; i < WP_LEARN_STATES; i++) {
        learn->group[i] = (uint8_t)i;
    }
    len = wp_scaler_save(from.scaler, NOW, WALL0, bytes, sizeof bytes);
    assert_int_equal(bytes[known_at], 1);
    bytes[known_at] = 2;
    expect_bytes(bytes, len, false, "neither true nor false");
    bytes[known_at] = 0;
    expect_bytes(bytes, len, true, "false");
    assert_false(into.scaler->replicas_known);
    cell = find_cell(from.scaler, bytes, len);
    assert_non_null(cell);
    cell[-2] = (uint8_t)cells;
    cell[-1] = (uint8_t)(cells >> 8);
    expect_bytes(bytes, len, false, "a cell beyond the table");
    cell[-2] = (uint8_t)(cells - 1);
    cell[-1] = (uint8_t)((cells - 1) >> 8);
    expect_bytes(bytes, len, true, "the last cell");
    assert_true(
        into.scaler->learn->claims[WP_LEARN_STATES - 1][WP_LEARN_BINS - 1] ==
        1.25F);
    assert_true(into.scaler->learn->claims[3][4] == 0);
}

/* Each state's group and stock, six numbers, and the cells that hold anything:
 * what another version of this program reads there. */
static void
bytes_of_what_was_learned(void **state)
{
    struct wp_learn *learn = malloc(sizeof *learn);
    size_t none = wp_scaler_save(from.scaler, NOW, WALL0, NULL, 0);
    const size_t empty = 6 * 8 + WP_LEARN_STATES + WP_LEARN_STATES * 4 + 4;

    (void)state;
    assert_non_null(learn);
    wp_learn_init(learn);
    from.scaler->learn = learn;
    assert_int_equal(wp_scaler_save(from.scaler, NOW, WALL0, NULL, 0) - none,
                     empty);
    learn->claims[0][0] = 1;
    learn->seconds[WP_LEARN_STATES - 1][WP_LEARN_BINS - 1] = 1;
    assert_int_equal(wp_scaler_save(from.scaler, NOW, WALL0, NULL, 0) - none,
                     empty + 2 * (2 + 4 + 4));
}

/* Only where there is room for all of it. */
static void
save_writes_all_or_nothing(void **state)
{
    static uint8_t bytes[WP_SCALE_STATE_MAX];
    size_t len = wp_scaler_save(from.scaler, NOW, WALL0, NULL, 0);

    (void)state;
    memset(bytes, 0xa5, sizeof bytes);
    assert_int_equal(wp_scaler_save(from.scaler, NOW, WALL0, bytes, len - 1),
                     len);
    for (size_t i = 0; i < len + 8; i++) {
        assert_int_equal(bytes[i], 0xa5);
    }
    assert_int_equal(wp_scaler_save(from.scaler, NOW, WALL0, bytes, len), len);
    assert_int_not_equal(bytes[len - 1], 0xa5);
    for (size_t i = len; i < len + 8; i++) {
        assert_int_equal(bytes[i], 0xa5);
    }
}

/* So long ago it was saved, but a year at most; or the clock was set back. */
static void
time_away_is_bounded(void **state)
{
    static const struct {
        int64_t saved_ns;
        int64_t loaded_ns;
        int64_t away_ns;
    } rows[] = {
        {WALL0, WALL0, 0},
        {WALL0, WALL0 - 5 * S, 0},
        {-1, WALL0, 0},
        {0, 7 * S, 7 * S},
        {WALL0, WALL0 + 3 * S + 14 * WP_NS_PER_MS, 3 * S + 10 * WP_NS_PER_MS},
        {WALL0, WALL0 + 365 * 86400 * S - 1,
         365 * 86400 * S - WP_SCALE_QUANTUM_NS},
        {WALL0, WALL0 + 365 * 86400 * S, 365 * 86400 * S},
        {WALL0, WALL0 + 366 * 86400 * S, 365 * 86400 * S},
    };
    static uint8_t bytes[WP_SCALE_STATE_MAX];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_err err;
        size_t len = wp_scaler_save(from.scaler, NOW, rows[i].saved_ns, bytes,
                                    sizeof bytes);

        assert_int_equal(wp_scaler_load(into.scaler, 12 * S, rows[i].loaded_ns,
                                        bytes, len, &err),
                         WP_OK);
        assert_int_equal(into.scaler->now_ns, NOW + rows[i].away_ns);
        assert_int_equal(into.scaler->last_claim_ns, 2 * S + rows[i].away_ns);
        assert_int_equal(into.scaler->background_ns, into.scaler->now_ns);
        assert_int_equal(into.scaler->other_since_ns, into.scaler->now_ns);
        assert_int_equal(wp_scaler_mono_ns(into.scaler, into.scaler->now_ns),
                         12 * S);
        assert_int_equal(into.scaler->wall_ns, rows[i].loaded_ns /
                                                   WP_SCALE_QUANTUM_NS *
                                                   WP_SCALE_QUANTUM_NS);
        assert_true(into.scaler->fresh);
        assert_int_equal(into.scaler->due_ns, WP_TIME_NEVER);
        assert_int_equal(into.scaler->shown.target, from.scaler->target);
        /* After any time away what there was is held for a whole window. */
        assert_int_equal(wp_hold_most(&into.scaler->hold, into.scaler->now_ns),
                         3);
    }
}

/* Under the same policy replicas are as they were; another one takes them from
 * where it finds them. */
static void
another_policy_takes_the_pool_back(void **state)
{
    static uint8_t bytes[WP_SCALE_STATE_MAX];
    struct wp_err err;
    size_t len;

    (void)state;
    from.scaler->by_hand = true;
    from.scaler->replicas = 77;
    len = wp_scaler_save(from.scaler, NOW, WALL0, bytes, sizeof bytes);
    expect_bytes(bytes, len, true, "what is");
    assert_true(into.scaler->by_hand);
    assert_int_equal(into.scaler->replicas, 77);
    assert_int_equal(into.scaler->hold.part_ns, from.scaler->hold.part_ns);
    into.scaler->replicas = 6;
    into.scaler->replicas_known = false;
    assert_int_equal(wp_scale_policy_set(&into.policy,
                                         WP_STR("scale-down-window"),
                                         WP_STR("70s"), &err),
                     WP_OK);
    world_start(&into);
    assert_int_equal(wp_scaler_load(into.scaler, NOW, WALL0, bytes, len, &err),
                     WP_OK);
    assert_false(into.scaler->by_hand);
    assert_int_equal(into.scaler->replicas, 6);
    assert_int_equal(into.scaler->hold.part_ns, 10 * S);
    assert_int_equal(into.scaler->miss, WP_MISS_LOST);
}

/* Also of a policy as long as one may be: floors at odd minutes. */
static void
prints_of_policies_differ(void **state)
{
    static char schedule[WP_SCALE_VALUE_MAX];
    struct wp_scale_policy policy;
    uint64_t prints[WP_SCALE_FLOORS_MAX + 1];
    size_t len = 0;

    (void)state;
    wp_scale_policy_init(&policy);
    prints[0] = wp_scaler_policy_print(&policy);
    for (unsigned i = 1; i <= WP_SCALE_FLOORS_MAX; i++) {
        struct wp_err err;

        len += (size_t)snprintf(
            schedule + len, sizeof schedule - len,
            "%s0,1,3,4,7,9,12,14,15,19,20,23,26,27,31,33,36,40,41,44,48,50,53,"
            "55,59 0,1,3,4,7,9,12,14,15,19,20,23 * * * for 1m at least %u",
            i > 1 ? "; " : "", i);
        assert_int_equal(wp_scale_policy_set(&policy, WP_STR("schedule"),
                                             (struct wp_str){schedule, len},
                                             &err),
                         WP_OK);
        prints[i] = wp_scaler_policy_print(&policy);
        for (unsigned k = 0; k < i; k++) {
            assert_true(prints[i] != prints[k]);
        }
    }
    assert_true(len > 1800);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restart),
        cmocka_unit_test(restart_learned),
        cmocka_unit_test(restart_late),
        cmocka_unit_test(as_long_as_ever),
        cmocka_unit_test(bound),
        cmocka_unit_test(what_cannot_be),
        cmocka_unit_test(cells_that_cannot_be),
        cmocka_unit_test(versions),
        cmocka_unit_test(all_that_was_seen),
        cmocka_unit_test(prints_of_policies_differ),
        cmocka_unit_test_setup_teardown(bounds_of_what_was_seen, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(bounds_of_windows_and_needs, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(bounds_of_lead_times, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(bounds_of_bursts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bounds_of_what_was_learned, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(bounds_of_reservations, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(bytes_that_cannot_be, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(bytes_of_what_was_learned, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(save_writes_all_or_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(time_away_is_bounded, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(another_policy_takes_the_pool_back,
                                        set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
