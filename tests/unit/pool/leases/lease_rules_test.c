/* tests/unit/pool/leases/lease_rules_test.c - what a commit does to a record: every cell of
 * the table, and what must hold whatever comes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/rng.h"
#include "pool/leases/rules.h"
#include "tests/support/stores/rule_cells.h"

static void
expect_record(const struct rule_case *rule, const char *what,
              const struct wp_lease_record *is,
              const struct wp_lease_record *expected)
{
    const char *field = rule_record_differs(is, expected);

    if (field != NULL) {
        fail_msg("cell %d (op %d in state %d, fence %llu, twist %d): %s: %s "
                 "differs",
                 (int)(rule->cell - rule_cells), (int)rule->cell->kind,
                 (int)rule->cell->before, (unsigned long long)rule->fence,
                 (int)rule->cell->twist, what, field);
    }
}

/* There is none, whatever else is in its memory. */
static void
set_none(struct wp_lease_record *record)
{
    memset(record, 'x', sizeof *record);
    record->state = WP_RECORD_NONE;
}

/* Walks the way to the cell; *claimed is what the op's claim leads to then. */
static void
walk(const struct rule_case *rule, struct wp_lease_record *record,
     struct wp_lease_record *claimed)
{
    struct wp_lease_op steps[RULE_STEPS_MAX];
    size_t n = rule_case_steps(rule, steps);

    set_none(record);
    set_none(claimed);
    for (size_t i = 0; i < n; i++) {
        bool other = memcmp(steps[i].uid, rule->other_uid, WP_UID_LEN) == 0;

        assert_int_equal(
            wp_lease_rules_apply(&steps[i], NULL, other ? claimed : record),
            WP_OK);
    }
}

static void
try_cell(const struct rule_cell *cell, unsigned fence_bit)
{
    struct wp_lease_record claimed;
    struct wp_lease_record record;
    struct wp_lease_record expected;
    const struct wp_lease_record *leads = NULL;
    struct rule_case rule;
    struct wp_lease_op op;
    enum wp_status status;

    rule_case_init(&rule, cell, fence_bit, 7);
    walk(&rule, &record, &claimed);
    rule_case_before(&rule, &expected);
    expect_record(&rule, "before", &record, &expected);
    rule_case_op(&rule, &op);
    if (op.kind == WP_LEASE_GRANT) {
        if (claimed.state != WP_RECORD_NONE) {
            leads = &claimed;
        } else if (wp_record_is_claimed(record.state) &&
                   cell->twist == RULE_PLAIN) {
            leads = &record;
        }
    }
    if (cell->kind == WP_LEASE_FETCH && cell->status == WP_NOT_FOUND) {
        /* The store found no record for the claim. */
        memset(&record, 0, sizeof record);
        expected = record;
    } else {
        rule_case_after(&rule, &expected);
    }
    status = wp_lease_rules_apply(&op, leads, &record);
    if (status != cell->status) {
        fail_msg("cell %d (op %d in state %d, fence %llu, twist %d): %s, not "
                 "%s",
                 (int)(cell - rule_cells), (int)cell->kind, (int)cell->before,
                 (unsigned long long)rule.fence, (int)cell->twist,
                 wp_status_name(status), wp_status_name(cell->status));
    }
    expect_record(&rule, "after", &record, &expected);
}

/* Each row of the table with each fence it is about. */
static void
test_every_cell(void **state)
{
    (void)state;
    for (size_t i = 0; i < rule_cell_count; i++) {
        for (unsigned bit = RULE_OLDER; bit <= RULE_NEWER; bit *= 2) {
            if ((rule_cells[i].fences & bit) != 0) {
                try_cell(&rule_cells[i], bit);
            }
        }
    }
}

/* The table says something about every op in every state for every fence, and
 * not two things about one. */
static void
test_table_is_whole(void **state)
{
    (void)state;
    for (int kind = WP_LEASE_OFFER; kind <= WP_LEASE_FORGET; kind++) {
        for (int before = WP_RECORD_NONE; before <= WP_RECORD_ENDED; before++) {
            unsigned seen = 0;

            for (size_t i = 0; i < rule_cell_count; i++) {
                const struct rule_cell *cell = &rule_cells[i];

                if ((int)cell->kind == kind && (int)cell->before == before &&
                    cell->twist == RULE_PLAIN) {
                    assert_int_equal(seen & cell->fences, 0);
                    seen |= cell->fences;
                }
            }
            assert_int_equal(seen, RULE_ANY);
        }
    }
}

/* Goal: a text ends where it ends, also where a longer one was. */
static void
test_texts_take_the_place_of_longer_ones(void **state)
{
    struct wp_lease_op op = {
        .kind = WP_LEASE_OFFER,
        .pool_namespace = WP_STR("ns"),
        .pool = WP_STR("p"),
        .sandbox = WP_STR("p-1"),
        .endpoint = WP_STR(""),
        .claim_id = WP_STR("c"),
        .tenant = WP_STR(""),
        .reason = WP_STR("gone"),
    };
    struct wp_lease_record record;

    (void)state;
    set_none(&record);
    assert_int_equal(wp_lease_rules_apply(&op, NULL, &record), WP_OK);
    assert_string_equal(record.pool_namespace, "ns");
    assert_string_equal(record.pool, "p");
    assert_string_equal(record.sandbox, "p-1");
    assert_string_equal(record.endpoint, "");
    memset(record.claim_id, 'x', sizeof record.claim_id - 1);
    memset(record.tenant, 'x', sizeof record.tenant - 1);
    op.kind = WP_LEASE_GRANT;
    op.fence = 1;
    assert_int_equal(wp_lease_rules_apply(&op, NULL, &record), WP_OK);
    assert_string_equal(record.claim_id, "c");
    assert_string_equal(record.tenant, "");
    memset(record.lost_reason, 'x', sizeof record.lost_reason - 1);
    op.kind = WP_LEASE_LOSE;
    assert_int_equal(wp_lease_rules_apply(&op, NULL, &record), WP_OK);
    assert_string_equal(record.lost_reason, "gone");
}

enum {
    SANDBOXES = 6,
    CLAIMS = 4,
    STEPS = 200000,
};

struct world {
    struct wp_rng rng;
    struct wp_lease_record records[SANDBOXES];
    char claims[CLAIMS][16];
};

static const struct wp_lease_record *
find_claimed(const struct world *world, const struct wp_lease_op *op)
{
    for (int i = 0; i < SANDBOXES; i++) {
        const struct wp_lease_record *record = &world->records[i];

        if (wp_record_is_claimed(record->state) &&
            wp_str_is(op->claim_id, record->claim_id) &&
            wp_str_is(op->tenant, record->tenant)) {
            return record;
        }
    }
    return NULL;
}

static void
random_op(struct world *world, int sandbox, struct wp_lease_op *op)
{
    const struct wp_lease_record *record = &world->records[sandbox];

    memset(op, 0, sizeof *op);
    op->kind =
        (enum wp_lease_op_kind)wp_rng_below(&world->rng, WP_LEASE_FORGET + 1);
    op->uid[3] = (uint8_t)(sandbox + 1);
    op->fence = record->fence + wp_rng_below(&world->rng, 4);
    op->fence -= op->fence > 0 ? 1 : 0;
    op->deadline_wall_ms = (int64_t)wp_rng_below(&world->rng, 2) + 1;
    op->claim_id =
        wp_str_from(world->claims[wp_rng_below(&world->rng, CLAIMS)]);
    op->tenant = wp_rng_below(&world->rng, 2) == 0 ? WP_STR("") : WP_STR("t");
    op->reason = WP_STR("gone");
}

/* What a record must look like in its state. */
static void
check_record(const struct wp_lease_record *record)
{
    bool claimed = wp_record_is_claimed(record->state);

    if (record->state == WP_RECORD_NONE) {
        return;
    }
    assert_int_equal(record->claim_id[0] != '\0', claimed);
    assert_int_equal(record->deadline_wall_ms != 0, claimed);
    assert_int_equal(record->lost_reason[0] != '\0',
                     record->state == WP_RECORD_LOST);
    if (!claimed) {
        assert_int_equal(record->granted_wall_ms, 0);
        assert_int_equal(record->fingerprint, 0);
        assert_string_equal(record->tenant, "");
    }
}

/* No claim leads to two records. */
static void
check_claims(const struct world *world)
{
    for (int i = 0; i < SANDBOXES; i++) {
        for (int k = i + 1; k < SANDBOXES; k++) {
            const struct wp_lease_record *a = &world->records[i];
            const struct wp_lease_record *b = &world->records[k];

            assert_false(wp_record_is_claimed(a->state) &&
                         wp_record_is_claimed(b->state) &&
                         strcmp(a->claim_id, b->claim_id) == 0 &&
                         strcmp(a->tenant, b->tenant) == 0);
        }
    }
}

static void
random_step(struct world *world)
{
    int sandbox = (int)wp_rng_below(&world->rng, SANDBOXES);
    struct wp_lease_record *record = &world->records[sandbox];
    struct wp_lease_record before = *record;
    struct wp_lease_record after;
    struct wp_lease_op op;
    enum wp_status status;

    random_op(world, sandbox, &op);
    status = wp_lease_rules_apply(&op, find_claimed(world, &op), record);
    if (status != WP_OK) {
        assert_null(rule_record_differs(&before, record));
    }
    if (before.state != WP_RECORD_NONE && record->state != WP_RECORD_NONE) {
        assert_true(record->fence >= before.fence);
    }
    if (before.state == WP_RECORD_ENDED) {
        assert_true(record->state == WP_RECORD_ENDED ||
                    record->state == WP_RECORD_NONE);
    }
    if (wp_record_is_claimed(before.state) && op.fence != before.fence) {
        assert_null(rule_record_differs(&before, record));
    }
    check_record(record);
    check_claims(world);
    /* The same message again does no harm. */
    after = *record;
    (void)wp_lease_rules_apply(&op, find_claimed(world, &op), record);
    assert_null(rule_record_differs(&after, record));
}

/* Whatever comes: fences never go back, a claim never leads to two records, a
 * refusal, an older fence and a repetition change nothing. */
static void
test_random_ops_keep_the_invariants(void **state)
{
    static struct world world;
    const char *fixed = getenv("WP_SEED");
    uint64_t seed;

    (void)state;
    wp_random_bytes(&seed, sizeof seed);
    if (fixed != NULL) {
        seed = strtoull(fixed, NULL, 10);
    }
    print_message("WP_SEED=%llu\n", (unsigned long long)seed);
    wp_rng_init(&world.rng, seed);
    for (int i = 0; i < CLAIMS; i++) {
        (void)snprintf(world.claims[i], sizeof world.claims[i], "c%d", i);
    }
    for (int i = 0; i < STEPS; i++) {
        random_step(&world);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_cell),
        cmocka_unit_test(test_table_is_whole),
        cmocka_unit_test(test_texts_take_the_place_of_longer_ones),
        cmocka_unit_test(test_random_ops_keep_the_invariants),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
