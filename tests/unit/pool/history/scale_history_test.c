/* tests/unit/pool/history/scale_history_test.c - what is recorded comes out again, in bounded
 * memory, the oldest gone first; saved and loaded; clocks that step; CSV. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "pool/base/clock.h"
#include "pool/base/rng.h"
#include "pool/history/history.h"
#include "allocator/advice/replay.h"
#include "pool/scale/scaler.h"

#define S WP_NS_PER_S
#define Q WP_SCALE_QUANTUM_NS
/* Some day in 2026. */
#define DAY (INT64_C(1780000000) * S)

static struct wp_history_event
claims(int64_t wall_ns, uint32_t n, uint32_t missed)
{
    return (struct wp_history_event){.kind = WP_HISTORY_CLAIMS,
                                     .wall_ns = wall_ns,
                                     .n = n,
                                     .missed = missed};
}

static struct wp_history_event
ready(int64_t wall_ns, int64_t lead_ns)
{
    return (struct wp_history_event){
        .kind = WP_HISTORY_READY, .wall_ns = wall_ns, .lead_ns = lead_ns};
}

static struct wp_history_event
gap(int64_t wall_ns)
{
    return (struct wp_history_event){.kind = WP_HISTORY_GAP,
                                     .wall_ns = wall_ns};
}

/* Adds at a monotonic time that goes as the wall does. */
static void
add(struct wp_history *history, struct wp_history_event event)
{
    wp_history_add(history, event.wall_ns, &event);
}

static void
assert_event(const struct wp_history_event *got,
             const struct wp_history_event *want)
{
    assert_int_equal(got->kind, want->kind);
    assert_int_equal(got->wall_ns, want->wall_ns / Q * Q);
    assert_int_equal(got->n, want->n);
    assert_int_equal(got->missed, want->missed);
    assert_int_equal(got->lead_ns, wp_history_lead_round(want->lead_ns));
}

static void
assert_events(const struct wp_history *history,
              const struct wp_history_event *want, uint32_t n)
{
    struct wp_history_cursor cursor;
    struct wp_history_event event;

    wp_history_first(history, &cursor);
    for (uint32_t i = 0; i < n; i++) {
        assert_true(wp_history_next(&cursor, &event));
        assert_event(&event, &want[i]);
    }
    assert_false(wp_history_next(&cursor, &event));
    assert_false(wp_history_next(&cursor, &event));
}

static void
test_empty(void **state)
{
    struct wp_history *history = wp_history_create(WP_HISTORY_BYTES_MIN);
    struct wp_history_cursor cursor;
    struct wp_history_event event;
    int64_t from;
    int64_t until;
    char saved[64];

    (void)state;
    wp_history_first(history, &cursor);
    assert_false(wp_history_next(&cursor, &event));
    assert_false(wp_history_span(history, &from, &until));
    assert_int_equal(wp_history_claims(history), 0);
    assert_int_equal(wp_history_save(history, saved, sizeof saved), 0);
    /* A gap in nothing says nothing. */
    add(history, gap(DAY));
    assert_false(wp_history_span(history, &from, &until));
    wp_history_destroy(history);
}

/* Claims of one quantum become one event when nothing is between them. */
static void
test_claims_of_a_quantum_join(void **state)
{
    struct wp_history *history = wp_history_create(WP_HISTORY_BYTES_MIN);
    const struct wp_history_event want[] = {
        claims(DAY, 6, 3),        ready(DAY, 8 * S),
        claims(DAY, 2, 0),        claims(DAY + Q, UINT32_MAX, 0),
        claims(DAY + Q, 1, 0),    gap(DAY + 2 * Q),
        claims(DAY + 9 * Q, 0, 0)};
    int64_t from;
    int64_t until;

    (void)state;
    add(history, claims(DAY + 1, 1, 0));
    add(history, claims(DAY + 2, 5, 3));
    add(history, ready(DAY + 3, 8 * S));
    add(history, claims(DAY + 4, 2, 0));
    add(history, claims(DAY + Q, UINT32_MAX, 0));
    add(history, claims(DAY + Q, 1, 0));
    add(history, gap(DAY + 2 * Q));
    add(history, gap(DAY + 3 * Q));
    /* "Nothing came until now" is kept as its latest. */
    add(history, claims(DAY + 4 * Q, 0, 0));
    add(history, claims(DAY + 9 * Q, 0, 0));
    assert_events(history, want, WP_ARRAY_LEN(want));
    assert_true(wp_history_span(history, &from, &until));
    assert_int_equal(from, DAY);
    assert_int_equal(until, DAY + 9 * Q);
    assert_int_equal(wp_history_claims(history), 9 + (uint64_t)UINT32_MAX);
    wp_history_destroy(history);
}

/* What a scaler was told besides: it comes out as it went in, and claims that
 * were decided on one after the other stay apart; saved and loaded, too. */
static void
test_told(void **state)
{
    const int64_t far = INT64_MAX - 5;
    const struct wp_history_event told[] = {
        {.kind = WP_HISTORY_BEGIN, .n = 3, .clock_ns = DAY - 77 * S},
        {.kind = WP_HISTORY_POLICY, .n = UINT32_MAX},
        {.kind = WP_HISTORY_CLAIMS, .n = 1, .apart = true},
        {.kind = WP_HISTORY_CLAIMS, .n = 1, .apart = true},
        {.kind = WP_HISTORY_CLAIMS, .n = 7, .missed = 2, .apart = true},
        {.kind = WP_HISTORY_REPLICAS, .n = 0},
        {.kind = WP_HISTORY_CLOCK, .clock_ns = DAY + 3 * S + 1},
        {.kind = WP_HISTORY_UNSEEN, .n = 12345},
        {.kind = WP_HISTORY_RESTORED, .n = 1},
        {.kind = WP_HISTORY_RESERVED, .n = 9, .from_ns = 0, .until_ns = far},
        {.kind = WP_HISTORY_RESERVED,
         .n = 9,
         .from_ns = INT64_MIN,
         .until_ns = DAY},
        {.kind = WP_HISTORY_CANCELLED, .n = 255},
        {.kind = WP_HISTORY_STEP},
    };
    struct wp_history *history = wp_history_create(WP_HISTORY_BYTES_MIN);
    struct wp_history *loaded = wp_history_create(WP_HISTORY_BYTES_MIN);
    uint8_t saved[1024];
    struct wp_err err;
    size_t len;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(told); i++) {
        struct wp_history_event event = told[i];

        event.wall_ns = DAY;
        add(history, event);
    }
    len = wp_history_save(history, saved, sizeof saved);
    assert_int_equal(wp_history_load(loaded, saved, len, &err), WP_OK);
    for (int pass = 0; pass < 2; pass++) {
        struct wp_history_cursor cursor;
        struct wp_history_event event;

        wp_history_first(pass == 0 ? history : loaded, &cursor);
        for (size_t i = 0; i < WP_ARRAY_LEN(told); i++) {
            assert_true(wp_history_next(&cursor, &event));
            assert_int_equal(event.kind, told[i].kind);
            assert_int_equal(event.wall_ns, DAY);
            assert_int_equal(event.n, told[i].n);
            assert_int_equal(event.missed, told[i].missed);
            assert_int_equal(event.apart, told[i].apart);
            assert_int_equal(event.clock_ns, told[i].clock_ns);
            assert_int_equal(event.from_ns, told[i].from_ns);
            assert_int_equal(event.until_ns, told[i].until_ns);
        }
        assert_int_equal(wp_history_claims(pass == 0 ? history : loaded), 9);
    }
    wp_history_destroy(history);
    wp_history_destroy(loaded);
}

static void
test_lead_round(void **state)
{
    struct wp_rng rng;

    (void)state;
    wp_rng_init(&rng, 1);
    assert_int_equal(wp_history_lead_round(0), 0);
    assert_int_equal(wp_history_lead_round(-5), 0);
    for (int i = 0; i < 10000; i++) {
        double octave = wp_rng_unit(&rng) * 33;
        int64_t lead_ns = (int64_t)(1000.0 * (double)(1ULL << (int)octave) *
                                    (1 + octave - (int)octave));
        int64_t rounded = wp_history_lead_round(lead_ns);

        assert_in_range(rounded, lead_ns - lead_ns / 170,
                        lead_ns + lead_ns / 170 + 1);
        assert_int_equal(wp_history_lead_round(rounded), rounded);
    }
    assert_true(wp_history_lead_round(INT64_MAX) < 12 * 3600 * S);
}

static struct wp_history_event
random_event(struct wp_rng *rng, int64_t *at_ns)
{
    uint64_t kind = wp_rng_below(rng, 100);

    if (wp_rng_below(rng, 3) == 0) {
        *at_ns += (int64_t)wp_rng_below(rng, 5) == 0
                      ? (int64_t)wp_rng_below(rng, 10000 * (uint64_t)S)
                      : (int64_t)wp_rng_below(rng, (uint64_t)S);
    }
    if (kind == 0) {
        return gap(*at_ns);
    }
    if (kind < 40) {
        return ready(*at_ns, (int64_t)wp_rng_below(rng, 60 * (uint64_t)S));
    }
    if (kind < 70) {
        return claims(*at_ns, 1, 0);
    }
    uint32_t n = (uint32_t)wp_rng_below(rng, 1000);

    return claims(*at_ns, n, (uint32_t)wp_rng_below(rng, n + 1));
}

/* What a history of unlimited size would say, by the words of history.h. */
static uint32_t
model_add(struct wp_history_event *events, uint32_t n,
          struct wp_history_event event)
{
    struct wp_history_event *last = n > 0 ? &events[n - 1] : NULL;

    event.wall_ns = event.wall_ns / Q * Q;
    if (event.kind == WP_HISTORY_GAP &&
        (last == NULL || last->kind == WP_HISTORY_GAP)) {
        return n;
    }
    if (last != NULL && event.kind == WP_HISTORY_CLAIMS &&
        last->kind == WP_HISTORY_CLAIMS &&
        (last->wall_ns == event.wall_ns || (last->n == 0 && event.n == 0))) {
        last->wall_ns = event.wall_ns;
        last->n += event.n;
        last->missed += event.missed;
        return n;
    }
    events[n] = event;
    return n + 1;
}

/* The history's events are the last ones of the model's. */
static void
assert_tail(const struct wp_history *history,
            const struct wp_history_event *model, uint32_t n, bool all)
{
    struct wp_history_cursor cursor;
    struct wp_history_event event;
    uint32_t kept = 0;
    uint64_t kept_claims = 0;
    uint64_t model_claims = 0;

    wp_history_first(history, &cursor);
    while (wp_history_next(&cursor, &event)) {
        kept++;
    }
    assert_true(kept <= n && (!all || kept == n));
    wp_history_first(history, &cursor);
    for (uint32_t i = n - kept; i < n; i++) {
        assert_true(wp_history_next(&cursor, &event));
        assert_event(&event, &model[i]);
        kept_claims += model[i].n;
    }
    for (uint32_t i = 0; i < n; i++) {
        model_claims += model[i].n;
    }
    assert_int_equal(wp_history_claims(history), kept_claims);
    assert_int_equal(wp_history_dropped(history), model_claims - kept_claims);
}

enum {
    MODEL_EVENTS = 6000,
};

static void
check_random(uint64_t seed, size_t bytes_max)
{
    struct wp_history_event *model = calloc(MODEL_EVENTS, sizeof *model);
    struct wp_history *history = wp_history_create(bytes_max);
    struct wp_history *clone;
    struct wp_rng rng;
    int64_t at_ns = DAY;
    uint32_t n = 0;

    wp_rng_init(&rng, seed);
    for (uint32_t i = 0; i < MODEL_EVENTS; i++) {
        struct wp_history_event event = random_event(&rng, &at_ns);

        add(history, event);
        n = model_add(model, n, event);
        assert_true(wp_history_bytes(history) <= bytes_max);
    }
    assert_tail(history, model, n, bytes_max > 1000000);
    clone = wp_history_clone(history);
    wp_history_destroy(history);
    assert_tail(clone, model, n, bytes_max > 1000000);
    wp_history_destroy(clone);
    free(model);
}

static void
test_random_events_come_out_again(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        check_random(seed, WP_HISTORY_BYTES_MIN);
        check_random(seed, 10000 + seed * 777);
        check_random(seed, 2000000);
    }
}

/* What fits is nearly all there is room for. */
static void
test_bytes_for_a_claim(void **state)
{
    struct wp_history *history = wp_history_create(1 << 20);
    struct wp_rng rng;
    int64_t at_ns = DAY;

    (void)state;
    wp_rng_init(&rng, 7);
    for (int i = 0; i < 600000; i++) {
        at_ns += (int64_t)wp_rng_below(&rng, 400 * WP_NS_PER_MS);
        add(history, claims(at_ns, 1, 0));
        add(history,
            ready(at_ns, 8 * S + (int64_t)wp_rng_below(&rng, (uint64_t)S)));
    }
    print_message("claims with lead times kept in 1 MiB: %llu\n",
                  (unsigned long long)wp_history_claims(history));
    assert_true(wp_history_claims(history) > 300000);
    wp_history_destroy(history);
}

static void
test_clock_steps(void **state)
{
    struct wp_history *history = wp_history_create(WP_HISTORY_BYTES_MIN);
    struct wp_history_event event = claims(DAY, 1, 0);
    const struct wp_history_event want[] = {
        claims(DAY, 1, 0),
        /* An hour back: the monotonic clock goes on. */
        claims(DAY + 5 * S, 1, 0),
        /* Half a minute ahead: the same. */
        claims(DAY + 6 * S, 1, 0),
        /* Ahead by an hour: a gap from where the other clock is. */
        gap(DAY + 7 * S),
        claims(DAY + 3600 * S, 1, 0),
        claims(DAY + 3601 * S, 1, 0),
        /* A monotonic clock that goes back stands still. */
        claims(DAY + 3601 * S, 2, 0),
    };

    (void)state;
    wp_history_add(history, 100 * S, &event);
    event.wall_ns = DAY - 3600 * S;
    wp_history_add(history, 105 * S, &event);
    event.wall_ns = DAY + 36 * S;
    wp_history_add(history, 106 * S, &event);
    event.wall_ns = DAY + 3600 * S;
    wp_history_add(history, 107 * S, &event);
    event.wall_ns = DAY + 3601 * S;
    wp_history_add(history, 108 * S, &event);
    event = ready(DAY, S);
    wp_history_add(history, 50 * S, &event);
    event = claims(DAY, 2, 0);
    wp_history_add(history, 50 * S, &event);
    {
        struct wp_history_event all[WP_ARRAY_LEN(want) + 1];

        memcpy(all, want, sizeof want);
        all[7] = all[6];
        all[6] = ready(DAY + 3601 * S, S);
        assert_events(history, all, WP_ARRAY_LEN(all));
    }
    wp_history_destroy(history);
}

/* However little room there is, what is saved is the latest, and loads. */
static void
test_save_load(void **state)
{
    struct wp_history_event *model = calloc(MODEL_EVENTS, sizeof *model);
    struct wp_history *history = wp_history_create(1 << 20);
    struct wp_rng rng;
    int64_t at_ns = DAY;
    uint32_t n = 0;
    static uint8_t saved[1 << 20];
    size_t before = 0;

    (void)state;
    wp_rng_init(&rng, 5);
    for (uint32_t i = 0; i < MODEL_EVENTS - 1; i++) {
        struct wp_history_event event = random_event(&rng, &at_ns);

        add(history, event);
        n = model_add(model, n, event);
    }
    add(history, claims(at_ns, 3, 1));
    n = model_add(model, n, claims(at_ns, 3, 1));
    n = model_add(model, n, gap(at_ns));
    for (size_t cap = 0; cap < sizeof saved; cap += 1 + cap / 7) {
        struct wp_history *loaded = wp_history_create(1 << 20);
        size_t len = wp_history_save(history, saved, cap);
        struct wp_err err;

        assert_true(len <= cap && len >= before);
        before = len;
        if (len > 0) {
            assert_int_equal(wp_history_load(loaded, saved, len, &err), WP_OK);
            assert_true(wp_history_claims(loaded) > 0);
            wp_history_destroy(loaded);
            loaded = wp_history_create(1 << 20);
            assert_int_equal(wp_history_load(loaded, saved, len, &err), WP_OK);
            struct wp_history_cursor cursor;
            struct wp_history_event event;
            uint32_t kept = 0;

            wp_history_first(loaded, &cursor);
            while (wp_history_next(&cursor, &event)) {
                kept++;
            }
            /* Little of the room is left while there is more to say. */
            assert_true(kept == n || (kept < n && len + 100 >= cap));
            wp_history_first(loaded, &cursor);
            for (uint32_t i = n - kept; i < n; i++) {
                assert_true(wp_history_next(&cursor, &event));
                assert_event(&event, &model[i]);
            }
        }
        wp_history_destroy(loaded);
    }
    wp_history_destroy(history);
    free(model);
}

/* What was before goes before what is, and the time between is not known. */
static void
test_load_goes_before(void **state)
{
    struct wp_history *before = wp_history_create(WP_HISTORY_BYTES_MIN);
    struct wp_history *history = wp_history_create(WP_HISTORY_BYTES_MIN);
    struct wp_history_event event = claims(DAY + 50 * S, 2, 1);
    uint8_t saved[4096];
    size_t len;
    struct wp_err err;
    const struct wp_history_event want[] = {
        claims(DAY, 1, 0),           ready(DAY + 2 * S, 4 * S),
        claims(DAY + 100 * S, 1, 0), gap(DAY + 100 * S),
        claims(DAY + 100 * S, 2, 1), claims(DAY + 103 * S, 4, 0)};

    (void)state;
    add(before, claims(DAY, 1, 0));
    add(before, ready(DAY + 2 * S, 4 * S));
    add(before, claims(DAY + 100 * S, 1, 0));
    len = wp_history_save(before, saved, sizeof saved);
    /* The wall clock is behind what was saved. */
    wp_history_add(history, 0, &event);
    assert_int_equal(wp_history_load(history, saved, len, &err), WP_OK);
    event = claims(DAY + 53 * S, 4, 0);
    wp_history_add(history, 3 * S, &event);
    assert_events(history, want, WP_ARRAY_LEN(want));
    wp_history_destroy(before);
    wp_history_destroy(history);
}

static void
test_load_refuses_damage(void **state)
{
    struct wp_history *history = wp_history_create(WP_HISTORY_BYTES_MIN);
    uint8_t saved[4096];
    size_t len;
    struct wp_err err;

    (void)state;
    for (int i = 0; i < 20; i++) {
        add(history, claims(DAY + i * S, 3, 1));
        add(history, ready(DAY + i * S, S));
    }
    len = wp_history_save(history, saved, sizeof saved);
    assert_true(len > 40);
    wp_history_destroy(history);
    history = wp_history_create(WP_HISTORY_BYTES_MIN);
    for (size_t i = 0; i < len; i++) {
        assert_int_equal(wp_history_load(history, saved, i, &err),
                         WP_INVALID_ARGUMENT);
    }
    for (size_t i = 0; i < 4; i++) {
        saved[i] ^= 0x10;
        assert_int_equal(wp_history_load(history, saved, len, &err),
                         WP_INVALID_ARGUMENT);
        saved[i] ^= 0x10;
    }
    memset(saved + len, 0xff, 1); /* The beginning of one more chunk. */
    assert_int_equal(wp_history_load(history, saved, len + 1, &err),
                     WP_INVALID_ARGUMENT);
    assert_int_equal(wp_history_claims(history), 0);
    assert_int_equal(wp_history_load(history, saved, len, &err), WP_OK);
    assert_int_equal(wp_history_claims(history), 60);
    wp_history_destroy(history);
    /* The version before has eight bytes more behind its head. */
    history = wp_history_create(WP_HISTORY_BYTES_MIN);
    memmove(saved + 12, saved + 4, len - 4);
    saved[3] = '1';
    for (size_t i = 0; i < len + 8; i++) {
        assert_int_equal(wp_history_load(history, saved, i, &err),
                         WP_INVALID_ARGUMENT);
    }
    assert_int_equal(wp_history_load(history, saved, len + 8, &err), WP_OK);
    assert_int_equal(wp_history_claims(history), 60);
    wp_history_destroy(history);
}

static enum wp_status
feed(struct wp_history *history, const char *text, struct wp_err *err)
{
    struct wp_history_csv csv;
    enum wp_status status;

    wp_history_csv_init(&csv, history);
    status = wp_history_csv_feed(&csv, wp_str_from(text), err);
    return status != WP_OK
               ? status
               : wp_history_csv_feed(&csv, (struct wp_str){NULL, 0}, err);
}

static void
test_csv(void **state)
{
    const struct wp_history_event want[] = {
        claims(INT64_C(1706745599) * S, 3, 0),
        claims(INT64_C(1706745600) * S + S / 4, 0, 0),
        claims(INT64_C(1706745601) * S, 1, 0),
        claims(INT64_C(1709208000) * S, 7, 0),
    };
    struct wp_history *history = wp_history_create(WP_HISTORY_BYTES_MIN);
    struct wp_err err;

    (void)state;
    assert_int_equal(feed(history,
                          "claimed at, how many\r\n"
                          "\n"
                          "2024-01-31T23:59:59Z,2\r\n"
                          "1706745599\n"
                          "\"2024-02-01 02:00:00.2599999999+02:00\", \"0\"\n"
                          " 2024-01-31T23:30:01-0030 ,1\n"
                          "2024-02-29T12:00:00z,7",
                          &err),
                     WP_OK);
    assert_events(history, want, WP_ARRAY_LEN(want));
    wp_history_destroy(history);
}

static void
test_csv_names_the_bad_line(void **state)
{
    static const struct {
        const char *text;
        const char *says;
    } rows[] = {
        {"time\n1\n-2\n", "line 3: a time may not be negative, got '-2'"},
        {"1\n2\n1.5\n", "line 3: a time may not be before"},
        {"1\nabc\n", "line 2: expected a time in seconds or as"},
        {"a\nb\n", "line 2: expected a time"},
        {"1700000000000\n", "line 1: seconds expected: are these millisec"},
        {"1,x\n", "line 1: expected a count from 0 to 1000000"},
        {"1,1000001\n", "line 1: expected a count"},
        {"1,2,3\n", "line 1: expected a count"},
        {"1,\n", "line 1: expected a count"},
        {",1\n", "line 1: expected a time"},
        {"1.\n", "line 1: expected a time"},
        {"1e3\n", "line 1: expected a time"},
        {"2024-02-30T00:00:00Z\n", "line 1: expected a time"},
        {"2023-02-29T00:00:00Z\n", "line 1: expected a time"},
        {"2024-02-01T00:00:00\n", "line 1: expected a time"},
        {"2024-02-01T24:00:00Z\n", "line 1: expected a time"},
        {"2024-02-01T00:00:00+0:00\n", "line 1: expected a time"},
        {"1970-01-01T00:00:00+01:00\n", "line 1: expected a time"},
        {"2300-01-01T00:00:00Z\n", "line 1: expected a time"},
        {"1\n\x01\x7f\n", "got '?\?'"},
        {"-\n",
         "line 1: expected a time in seconds or as 2026-01-31T23:59:59Z, "
         "got '-'"},
        {"12\n-\n", "line 2: expected a time in seconds or as"},
        {"-a\n", "line 1: expected a time in seconds"},
        {"-9\n", "line 1: a time may not be negative, got '-9'"},
        {"9000000001\n", "line 1: expected a time in seconds"},
        {"17000000000\n", "line 1: seconds expected: are these milliseconds"},
        {"9000000000,1000001\n", "line 1: expected a count"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_history *history = wp_history_create(WP_HISTORY_BYTES_MIN);
        struct wp_err err;

        assert_int_equal(feed(history, rows[i].text, &err),
                         WP_INVALID_ARGUMENT);
        if (strstr(err.msg, rows[i].says) == NULL) {
            fail_msg("row %zu: '%s' does not say '%s'", i, err.msg,
                     rows[i].says);
        }
        wp_history_destroy(history);
    }
}

static void
test_csv_long_line(void **state)
{
    struct wp_history *history = wp_history_create(WP_HISTORY_BYTES_MIN);
    char text[400];
    struct wp_err err;

    (void)state;
    memset(text, ' ', sizeof text);
    text[0] = '1';
    text[256] = '\n';
    text[257] = '\0';
    assert_int_equal(feed(history, text, &err), WP_OK);
    text[256] = ' ';
    text[257] = '\n';
    text[258] = '\0';
    assert_int_equal(feed(history, text, &err), WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "line 1: longer than 256 bytes"));
    wp_history_destroy(history);
}

/* A first line that begins with any of these letters is none of times. */
static void
test_csv_bounds(void **state)
{
    static const char *const headers[] = {"a", "z", "A",    "Z",
                                          "#", "_", "\"t\""};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(headers); i++) {
        const struct wp_history_event want[] = {
            claims(INT64_C(1234567890) * S, 1000000, 0),
            claims(INT64_C(9000000000) * S, 1, 0)};
        struct wp_history *history = wp_history_create(WP_HISTORY_BYTES_MIN);
        struct wp_err err;
        char text[64];

        (void)snprintf(text, sizeof text,
                       "%s\n1234567890,1000000\n9000000000\n", headers[i]);
        assert_int_equal(feed(history, text, &err), WP_OK);
        assert_events(history, want, WP_ARRAY_LEN(want));
        wp_history_destroy(history);
    }
}

/* With every bound: never more than that, the latest events that fit, and all
 * of them as soon as there is room. */
static void
test_save_within_any_bound(void **state)
{
    struct wp_history *history = wp_history_create(WP_HISTORY_BYTES_MIN);
    static uint8_t bytes[4096];
    uint64_t before = 0;
    size_t whole;
    size_t least = 0;

    (void)state;
    for (int64_t i = 0; i < 200; i++) {
        const struct wp_history_event event =
            claims(DAY + i * i * 37 * S, 1 + (uint32_t)i % 3, 0);

        wp_history_add(history, i * i * 37 * S, &event);
    }
    whole = wp_history_save(history, bytes, sizeof bytes);
    assert_in_range(whole, 200, sizeof bytes - 1);
    for (size_t cap = 0; cap < sizeof bytes; cap++) {
        struct wp_history *copy = wp_history_create(WP_HISTORY_BYTES_MIN);
        uint8_t *exact = malloc(cap + 1);
        size_t len;
        struct wp_err err;

        assert_non_null(copy);
        assert_non_null(exact);
        exact[cap] = 0xa5;
        len = wp_history_save(history, exact, cap);
        assert_true(len <= cap);
        assert_int_equal(exact[cap], 0xa5);
        if (len > 0) {
            int64_t from_ns;
            int64_t until_ns;

            least = least > 0 ? least : cap;
            assert_int_equal(wp_history_load(copy, exact, len, &err), WP_OK);
            assert_true(wp_history_span(copy, &from_ns, &until_ns));
            assert_int_equal(until_ns, DAY + INT64_C(199) * 199 * 37 * S);
            assert_true(wp_history_claims(copy) >= before);
            before = wp_history_claims(copy);
        }
        free(exact);
        wp_history_destroy(copy);
    }
    assert_int_equal(before, wp_history_claims(history));
    /* A head, and room for one record, whatever it is. */
    assert_int_equal(least, 4 + 15 + 40);
    wp_history_destroy(history);
}

/* Claims only, and the time of gaps is left out. */
static void
test_replay_source(void **state)
{
    struct wp_history *history = wp_history_create(WP_HISTORY_BYTES_MIN);
    const struct wp_history_event want[] = {
        claims(DAY, 2, 0), claims(DAY + 5 * S, 1, 0), claims(DAY + 9 * S, 3, 0),
        claims(DAY + 10 * S, 4, 0)};
    struct wp_replay_source source;
    int64_t at_ns;
    uint32_t n;

    (void)state;
    add(history, claims(DAY, 2, 1));
    add(history, ready(DAY + S, S));
    add(history, claims(DAY + 2 * S, 0, 0));
    add(history, claims(DAY + 5 * S, 1, 0));
    add(history, gap(DAY + 6 * S));
    add(history, ready(DAY + 1000 * S, S));
    add(history, claims(DAY + 1003 * S, 3, 0));
    add(history, gap(DAY + 1004 * S));
    add(history, claims(DAY + 3000 * S, 4, 0));
    assert_true(wp_replay_source_history(history, &source));
    for (size_t i = 0; i < WP_ARRAY_LEN(want); i++) {
        assert_true(source.next(source.self, &at_ns, &n));
        assert_int_equal(at_ns, want[i].wall_ns - DAY);
        assert_int_equal(n, want[i].n);
    }
    assert_false(source.next(source.self, &at_ns, &n));
    wp_replay_source_history_end(&source);
    wp_history_destroy(history);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_claims_of_a_quantum_join),
        cmocka_unit_test(test_told),
        cmocka_unit_test(test_lead_round),
        cmocka_unit_test(test_random_events_come_out_again),
        cmocka_unit_test(test_bytes_for_a_claim),
        cmocka_unit_test(test_clock_steps),
        cmocka_unit_test(test_save_load),
        cmocka_unit_test(test_load_goes_before),
        cmocka_unit_test(test_load_refuses_damage),
        cmocka_unit_test(test_csv),
        cmocka_unit_test(test_replay_source),
        cmocka_unit_test(test_csv_names_the_bad_line),
        cmocka_unit_test(test_csv_long_line),
        cmocka_unit_test(test_csv_bounds),
        cmocka_unit_test(test_save_within_any_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
