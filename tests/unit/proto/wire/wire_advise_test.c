/* PoolAdmin's Advise on the wire: there and back, and the bounds of what may be
 * asked. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pool/base/compiler.h"
#include "tests/support/services/wire_rig.h"

static void
test_advise_round_trip(void **state)
{
    static const double objectives[] = {0.5, 0.999};
    static const uint32_t gaps[] = {0, 5, UINT32_MAX};
    const struct wp_wire_advise_request request = {
        .pool = {WP_STR("team"), WP_STR("agents")},
        .objectives = objectives,
        .n_objectives = 2,
        .lead_ms = 8000,
        .claim_gaps_ms = gaps,
        .n_claims = 3,
        .first_wall_ms = 1790000000000,
    };
    static const struct wp_advice_row rows[] = {
        {.kind = WP_ADVICE_TODAY,
         .name = "today",
         .setting = "replicas=9",
         .size = 9,
         .done = true,
         .result = {.claims = 7, .hit_rate = 0.5}},
        {.kind = WP_ADVICE_CLAIRVOYANT,
         .name = "clairvoyant",
         .hit_low = 0.25,
         .hit_high = 0.75,
         .result = {.idle_mean = 1.5,
                    .idle_s = 7200,
                    .warming_s = 900,
                    .wait_p50_s = 0.125,
                    .wait_p99_s = 4,
                    .created = 8,
                    .unused = 2,
                    .stock_max = 3}}};
    struct wp_wire_advise_response response = {
        .progress = 1,
        .has_report = true,
        .facts = {.claims = 70,
                  .n_gaps = 1,
                  .n_leads = 60,
                  .lead_mean_s = 8.5,
                  .at_once = 4,
                  .peaks = 3,
                  .known_ns = 5 * WP_NS_PER_S},
        .rows = rows,
        .n_rows = 2,
        .words = {.lines = {"do this", "doubt"},
                  .n_lines = 2,
                  .recommended = -1},
    };
    struct wp_wire_advise_request request_out;
    struct wp_wire_advise_response out;

    (void)state;
    WIRE_PACK(advise_request, &request);
    WIRE_UNPACK(advise_request, &request_out);
    assert_true(wp_str_is(request_out.pool.name, "agents"));
    assert_int_equal(request_out.n_objectives, 2);
    assert_memory_equal(request_out.objectives, objectives, sizeof objectives);
    assert_int_equal(request_out.n_claims, 3);
    assert_memory_equal(request_out.claim_gaps_ms, gaps, sizeof gaps);
    assert_true(request_out.first_wall_ms == 1790000000000 &&
                request_out.lead_ms == 8000);
    WIRE_PACK(advise_response, &response);
    WIRE_UNPACK(advise_response, &out);
    assert_true(out.has_report);
    assert_true(out.n_rows == 2 && out.facts.claims == 70);
    assert_int_equal(out.facts.known_ns, 5 * WP_NS_PER_S);
    assert_true(out.facts.at_once == 4 && out.facts.peaks == 3);
    assert_int_equal(out.rows[0].kind, WP_ADVICE_TODAY);
    assert_string_equal(out.rows[0].setting, "replicas=9");
    assert_int_equal(out.rows[1].kind, WP_ADVICE_CLAIRVOYANT);
    assert_true(out.rows[1].hit_low == 0.25 && out.rows[1].hit_high == 0.75);
    assert_true(out.rows[1].result.idle_s == 7200 &&
                out.rows[1].result.warming_s == 900);
    assert_int_equal(out.rows[1].result.stock_max, 3);
    assert_string_equal(out.words.lines[1], "doubt");
    assert_int_equal(out.words.recommended, -1);
    response = (struct wp_wire_advise_response){.progress = 0.25};
    WIRE_PACK(advise_response, &response);
    WIRE_UNPACK(advise_response, &out);
    assert_false(out.has_report);
    assert_true(out.progress == 0.25);
}

/* Each bound of the request, a step beyond. */
static void
test_advise_bounds(void **state)
{
    static const double many[WP_ADVICE_OBJECTIVES_MAX + 1] = {
        0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9};
    static const double low[] = {0.49};
    static const double high[] = {0.999991};
    static const double not_a_number[] = {(double)NAN};
    static uint32_t gaps[WP_WIRE_ADVISE_CLAIMS_MAX + 1];
    static const struct {
        struct wp_wire_advise_request request;
        const char *says;
    } rows[] = {
        {{.objectives = many, .n_objectives = WP_ARRAY_LEN(many)},
         "objectives: 0 to 8 expected"},
        {{.objectives = low, .n_objectives = 1}, "objectives: 0.5 to"},
        {{.objectives = high, .n_objectives = 1}, "objectives: 0.5 to"},
        {{.objectives = not_a_number, .n_objectives = 1}, "objectives: 0.5"},
        {{.lead_ms = -1}, "lead_ms: 0 to 3600000 expected"},
        {{.lead_ms = 3600001}, "lead_ms: 0 to 3600000 expected"},
        {{.claim_gaps_ms = gaps, .n_claims = WP_ARRAY_LEN(gaps)},
         "claim_gaps_ms: 0 to 16384 expected"},
        {{.first_wall_ms = -1}, "first_unix_ms: 0 to"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_wire_advise_request request = rows[i].request;

        request.pool.name = WP_STR("agents");
        WIRE_PACK(advise_request, &request);
        assert_int_equal(wp_wire_unpack_advise_request(&wire_arena, wire_packed,
                                                       wire_packed_len,
                                                       &request, &wire_err),
                         WP_INVALID_ARGUMENT);
        if (strstr(wire_err.msg, rows[i].says) == NULL) {
            fail_msg("'%s' does not say '%s'", wire_err.msg, rows[i].says);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        WIRE_TEST(test_advise_round_trip),
        WIRE_TEST(test_advise_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
