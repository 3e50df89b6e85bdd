#include "tests/support/stores/store_conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/leases/rules.h"
#include "tests/support/stores/conform.h"
#include "tests/support/stores/rule_cells.h"

/* The port is whole, and every kind of op is answered exactly once. */
static void
test_port_is_whole(void **state)
{
    (void)state;
    conform_open_store(true);
    assert_non_null(conform_store.ops->name);
    assert_int_equal(conform_store.ops->durable, conform_factory->durable);
    assert_int_equal(conform_store.ops->durable,
                     conform_store.ops->load != NULL);
    for (int kind = WP_LEASE_OFFER; kind <= WP_LEASE_FORGET; kind++) {
        struct conform_trial trial = {
            .op = {.kind = (enum wp_lease_op_kind)kind,
                   .uid = {1, 2, 3},
                   .fence = 1,
                   .deadline_wall_ms = 1,
                   .claim_id = WP_STR("c"),
                   .reason = WP_STR("r")}};

        conform_submit(&trial);
        conform_await_all(&trial, 1);
        assert_int_equal(atomic_load(&trial.answers), 1);
        if (!conform_store.ops->durable) {
            assert_int_equal(trial.status, WP_OK);
        }
    }
    conform_close_store();
}

static void
check_claim_leads(const struct rule_case *rule,
                  const struct wp_lease_record *expected)
{
    bool elsewhere = rule->cell->twist == RULE_CLAIM_HOLDS ||
                     rule->cell->twist == RULE_CLAIM_LOST;
    struct wp_lease_record led;
    enum wp_status status;

    status = conform_fetch_claim(wp_str_from(rule->claim_id),
                                 WP_STR("tenant-a"), &led);
    if (elsewhere) {
        assert_int_equal(status, WP_OK);
        assert_memory_equal(led.uid, rule->other_uid, WP_UID_LEN);
    } else if (wp_record_is_claimed(expected->state)) {
        assert_int_equal(status, WP_OK);
        assert_null(rule_record_differs(&led, expected));
    } else {
        assert_int_equal(status, WP_NOT_FOUND);
    }
}

/* Does one cell through the port; *after is what the store has then. */
static void
try_cell(const struct rule_case *rule, struct wp_lease_record *after)
{
    struct wp_lease_op steps[RULE_STEPS_MAX];
    struct wp_lease_record expected;
    struct wp_lease_record found = {0};
    struct wp_lease_op op;
    enum wp_status status;
    const char *field;

    for (size_t i = 0, n = rule_case_steps(rule, steps); i < n; i++) {
        assert_int_equal(conform_commit(&steps[i]), WP_OK);
    }
    rule_case_op(rule, &op);
    op.found = &found;
    status = conform_commit(&op);
    conform_fetch(rule->uid, after);
    rule_case_after(rule, &expected);
    field = rule_record_differs(after, &expected);
    if (status != rule->cell->status || field != NULL) {
        fail_msg("cell %d (op %d in state %d, fence %llu, twist %d): %s, not "
                 "%s; differs in: %s",
                 (int)(rule->cell - rule_cells), (int)op.kind,
                 (int)rule->cell->before, (unsigned long long)rule->fence,
                 (int)rule->cell->twist, wp_status_name(status),
                 wp_status_name(rule->cell->status),
                 field != NULL ? field : "nothing");
    }
    check_claim_leads(rule, &expected);
    if ((op.kind == WP_LEASE_FETCH && status == WP_OK) ||
        (op.kind == WP_LEASE_EXPIRE && status == WP_ABORTED)) {
        assert_null(rule_record_differs(&found, &expected));
    }
}

/* Each cell of the table with each fence, one after another in one store; then
 * the store is opened again and knows the same. */
static void
test_every_cell(void **state)
{
    struct wp_lease_record *records;
    unsigned number = 0;

    (void)state;
    conform_open_store(true);
    /* For each case its sandbox, and the one its claim had before. */
    records = calloc(rule_cell_count * 6, sizeof *records);
    assert_non_null(records);
    for (size_t i = 0; i < rule_cell_count; i++) {
        for (unsigned bit = RULE_OLDER; bit <= RULE_NEWER; bit *= 2) {
            struct rule_case rule;

            if ((rule_cells[i].fences & bit) == 0) {
                continue;
            }
            rule_case_init(&rule, &rule_cells[i], bit, number / 2);
            try_cell(&rule, &records[number]);
            conform_fetch(rule.other_uid, &records[number + 1]);
            number += 2;
        }
    }
    conform_reopen_and_compare(records, number);
    free(records);
    conform_close_store();
}

static int
count_status(const struct conform_trial *trials, size_t n,
             enum wp_status status)
{
    int count = 0;

    for (size_t i = 0; i < n; i++) {
        count += trials[i].status == status ? 1 : 0;
    }
    return count;
}

/* One claim, many sandboxes at the same moment: it gets one. */
static void
test_claim_gets_one_of_many(void **state)
{
    struct conform_trial trials[CONFORM_CROWD] = {0};
    struct wp_lease_record held;

    (void)state;
    conform_open_store(true);
    conform_offer_crowd();
    for (unsigned i = 0; i < CONFORM_CROWD; i++) {
        trials[i].op = (struct wp_lease_op){.kind = WP_LEASE_GRANT,
                                            .fence = 1,
                                            .deadline_wall_ms = 1,
                                            .claim_id = WP_STR("one"),
                                            .tenant = WP_STR("t")};
        conform_crowd_uid(&trials[i].op, i);
        conform_submit(&trials[i]);
    }
    conform_await_all(trials, CONFORM_CROWD);
    assert_int_equal(count_status(trials, CONFORM_CROWD, WP_OK), 1);
    assert_int_equal(count_status(trials, CONFORM_CROWD, WP_ALREADY_EXISTS),
                     CONFORM_CROWD - 1);
    assert_int_equal(conform_fetch_claim(WP_STR("one"), WP_STR("t"), &held),
                     WP_OK);
    for (unsigned i = 0; i < CONFORM_CROWD; i++) {
        if (trials[i].status == WP_OK) {
            assert_memory_equal(held.uid, trials[i].op.uid, WP_UID_LEN);
        }
    }
    conform_close_store();
}

/* One sandbox, many claims at the same moment: one gets it; its message
 * repeated is told that the claim has one. */
static void
test_sandbox_goes_to_one_of_many(void **state)
{
    char ids[CONFORM_CROWD][8];
    struct conform_trial trials[CONFORM_CROWD] = {0};
    struct conform_trial again[CONFORM_CROWD] = {0};
    struct wp_lease_op won = {0};

    (void)state;
    conform_open_store(true);
    conform_offer_crowd();
    for (unsigned i = 0; i < CONFORM_CROWD; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "c%u", i);
        trials[i].op = (struct wp_lease_op){.kind = WP_LEASE_GRANT,
                                            .fence = 1 + i,
                                            .deadline_wall_ms = 1,
                                            .claim_id = wp_str_from(ids[i])};
        conform_crowd_uid(&trials[i].op, 3);
        conform_submit(&trials[i]);
    }
    conform_await_all(trials, CONFORM_CROWD);
    assert_int_equal(count_status(trials, CONFORM_CROWD, WP_OK), 1);
    assert_int_equal(count_status(trials, CONFORM_CROWD, WP_TAKEN),
                     CONFORM_CROWD - 1);
    for (unsigned i = 0; i < CONFORM_CROWD; i++) {
        won = trials[i].status == WP_OK ? trials[i].op : won;
    }
    for (unsigned i = 0; i < CONFORM_CROWD; i++) {
        again[i].op = won;
        conform_submit(&again[i]);
    }
    conform_await_all(again, CONFORM_CROWD);
    assert_int_equal(count_status(again, CONFORM_CROWD, WP_ALREADY_EXISTS),
                     CONFORM_CROWD);
    conform_close_store();
}

/* After a lease was undone and the sandbox granted anew, every late message of
 * the first lease is refused and changes nothing. */
static void
test_stale_ops_do_no_harm(void **state)
{
    static const enum wp_lease_op_kind late[] = {
        WP_LEASE_RENEW, WP_LEASE_RELEASE, WP_LEASE_UNDO, WP_LEASE_EXPIRE,
        WP_LEASE_LOSE};
    struct wp_lease_op op = {.kind = WP_LEASE_OFFER,
                             .uid = {9},
                             .deadline_wall_ms = 5,
                             .claim_id = WP_STR("first")};
    struct wp_lease_record before;
    struct wp_lease_record after;

    (void)state;
    conform_open_store(true);
    assert_int_equal(conform_commit(&op), WP_OK);
    op.kind = WP_LEASE_GRANT;
    op.fence = 1;
    assert_int_equal(conform_commit(&op), WP_OK);
    op.kind = WP_LEASE_UNDO;
    assert_int_equal(conform_commit(&op), WP_OK);
    op.kind = WP_LEASE_GRANT;
    assert_int_equal(conform_commit(&op), WP_ABORTED);
    op.fence = 2;
    op.claim_id = WP_STR("second");
    assert_int_equal(conform_commit(&op), WP_OK);
    conform_fetch(op.uid, &before);
    op.fence = 1;
    op.claim_id = WP_STR("first");
    op.reason = WP_STR("late");
    for (size_t i = 0; i < WP_ARRAY_LEN(late); i++) {
        op.kind = late[i];
        assert_int_equal(conform_commit(&op), WP_ABORTED);
        conform_fetch(op.uid, &after);
        assert_null(rule_record_differs(&before, &after));
    }
    conform_close_store();
}

int
wp_store_conformance_run(const struct wp_store_factory *with)
{
    const struct CMUnitTest any_store[] = {
        cmocka_unit_test(test_port_is_whole),
        cmocka_unit_test(conform_test_threads_never_share),
        cmocka_unit_test(conform_test_nothing_stays_held_unshown),
    };
    const struct CMUnitTest durable_store[] = {
        cmocka_unit_test(test_every_cell),
        cmocka_unit_test(test_claim_gets_one_of_many),
        cmocka_unit_test(test_sandbox_goes_to_one_of_many),
        cmocka_unit_test(test_stale_ops_do_no_harm),
        cmocka_unit_test(conform_test_snapshots),
        cmocka_unit_test(conform_test_random_ops_follow_the_model),
    };
    int failed;

    conform_factory = with;
    failed = cmocka_run_group_tests(any_store, NULL, NULL);
    if (with->durable) {
        failed += cmocka_run_group_tests(durable_store, NULL, NULL);
    }
    return failed;
}
