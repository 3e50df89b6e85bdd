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
check_facts(const struct wp_advice_facts *is, const struct wp_advice_facts *was)
{
    assert_int_equal(is->from_wall_ns, was->from_wall_ns);
    assert_int_equal(is->until_wall_ns, was->until_wall_ns);
    assert_int_equal(is->known_ns, was->known_ns);
    assert_int_equal(is->run_up_ns, was->run_up_ns);
    assert_int_equal(is->claims, was->claims);
    assert_int_equal(is->dropped, was->dropped);
    assert_int_equal(is->n_gaps, was->n_gaps);
    assert_int_equal(is->n_leads, was->n_leads);
    assert_true(is->lead_mean_s == was->lead_mean_s);
    assert_true(is->lead_p99_s == was->lead_p99_s);
    assert_int_equal(is->at_once, was->at_once);
    assert_int_equal(is->peaks, was->peaks);
}

static void
check_row(const struct wp_advice_row *is, const struct wp_advice_row *was)
{
    assert_int_equal(is->kind, was->kind);
    assert_string_equal(is->name, was->name);
    assert_string_equal(is->setting, was->setting);
    assert_true(is->objective == was->objective);
    assert_int_equal(is->size, was->size);
    assert_int_equal(is->done, was->done);
    assert_true(is->hit_low == was->hit_low);
    assert_true(is->hit_high == was->hit_high);
    assert_int_equal(is->result.claims, was->result.claims);
    assert_true(is->result.hit_rate == was->result.hit_rate);
    assert_true(is->result.idle_mean == was->result.idle_mean);
    assert_true(is->result.idle_s == was->result.idle_s);
    assert_true(is->result.warming_s == was->result.warming_s);
    assert_true(is->result.wait_p50_s == was->result.wait_p50_s);
    assert_true(is->result.wait_p99_s == was->result.wait_p99_s);
    assert_int_equal(is->result.created, was->result.created);
    assert_int_equal(is->result.unused, was->result.unused);
    assert_int_equal(is->result.stock_max, was->result.stock_max);
}

static void
test_advise_request_round_trip(void **state)
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
    struct wp_wire_advise_request request_out;

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
}

static void
test_advise_response_round_trip(void **state)
{
    static const struct wp_advice_row rows[] = {
        {.kind = WP_ADVICE_TODAY,
         .name = "today",
         .setting = "replicas=9",
         .size = 9,
         .done = true,
         .result = {.claims = 7, .hit_rate = 0.5}},
        {.kind = WP_ADVICE_CLAIRVOYANT,
         .name = "clairvoyant",
         .objective = 0.999,
         .done = true,
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
        .facts = {.from_wall_ns = 1790000000001 * WP_NS_PER_MS,
                  .until_wall_ns = 1790000000002 * WP_NS_PER_MS,
                  .run_up_ns = 6 * WP_NS_PER_S,
                  .claims = 70,
                  .dropped = 71,
                  .n_gaps = 1,
                  .n_leads = 60,
                  .lead_mean_s = 8.5,
                  .lead_p99_s = 9.5,
                  .at_once = 4,
                  .peaks = 3,
                  .known_ns = 5 * WP_NS_PER_S},
        .rows = rows,
        .n_rows = 2,
        .words = {.lines = {"do this", "doubt"},
                  .n_lines = 2,
                  .recommended = -1},
    };
    struct wp_wire_advise_response out;

    (void)state;
    WIRE_PACK(advise_response, &response);
    WIRE_UNPACK(advise_response, &out);
    assert_true(out.has_report);
    assert_true(out.progress == 1);
    assert_int_equal(out.n_rows, 2);
    check_facts(&out.facts, &response.facts);
    for (size_t i = 0; i < 2; i++) {
        check_row(&out.rows[i], &rows[i]);
    }
    assert_int_equal(out.words.n_lines, 2);
    assert_string_equal(out.words.lines[0], "do this");
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
        WIRE_TEST(test_advise_request_round_trip),
        WIRE_TEST(test_advise_response_round_trip),
        WIRE_TEST(test_advise_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
