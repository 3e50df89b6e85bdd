/* Random ops beside a model.
 *
 * Ops in flight together may take effect in any order. So the world is cut into
 * parts that do not touch each other, and in each part so few are in flight
 * that all their orders can be tried on the model. */
#include <stdio.h>
#include <string.h>

#include "pool/base/rng.h"
#include "pool/leases/rules.h"
#include "tests/support/stores/conform.h"
#include "tests/support/stores/rule_cells.h"

enum {
    PARTS = 6,
    PART_SANDBOXES = 3,
    PART_CLAIMS = 2,
    GROUP = 3,
    ORDERS = 6,
    REOPENS = 4,
};

static const int orders[ORDERS][GROUP] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                          {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

struct part {
    struct wp_lease_record records[PART_SANDBOXES];
    uint8_t uids[PART_SANDBOXES][WP_UID_LEN];
    char claims[PART_CLAIMS][32];
    char names[PART_SANDBOXES][32];
    struct conform_trial trials[GROUP];
    int in_flight;
};

static struct part parts[PARTS];

static void
init_part(struct part *part, int number)
{
    memset(part, 0, sizeof *part);
    for (int i = 0; i < PART_SANDBOXES; i++) {
        memset(part->uids[i], 0xee, WP_UID_LEN);
        part->uids[i][7] = (uint8_t)number;
        part->uids[i][8] = (uint8_t)i;
        (void)snprintf(part->names[i], sizeof part->names[i], "s-%d-%d", number,
                       i);
    }
    for (int i = 0; i < PART_CLAIMS; i++) {
        (void)snprintf(part->claims[i], sizeof part->claims[i], "c-%d-%d",
                       number, i);
    }
}

static void
random_op(struct wp_rng *rng, const struct part *part,
          struct conform_trial *trial)
{
    uint64_t sandbox = wp_rng_below(rng, PART_SANDBOXES);
    const struct wp_lease_record *record = &part->records[sandbox];
    struct wp_lease_op *op = &trial->op;

    memset(trial, 0, sizeof *trial);
    op->kind = (enum wp_lease_op_kind)wp_rng_below(rng, WP_LEASE_FORGET + 1);
    memcpy(op->uid, part->uids[sandbox], WP_UID_LEN);
    op->fence = record->fence + wp_rng_below(rng, 4);
    op->fence -= op->fence > 0 ? 1 : 0;
    op->deadline_wall_ms = (int64_t)wp_rng_below(rng, 3) + 1;
    op->granted_wall_ms = (int64_t)wp_rng_below(rng, 1000);
    op->served = (uint32_t)wp_rng_below(rng, 3);
    op->fingerprint = wp_rng_next(rng);
    op->pool_namespace = WP_STR("team-a");
    op->pool = WP_STR("agents");
    op->sandbox = wp_str_from(part->names[sandbox]);
    op->endpoint = WP_STR("unix:/run/\xc3\xa9.sock");
    op->reason = WP_STR("gone");
    op->found = &trial->found;
    if (op->kind != WP_LEASE_FETCH || wp_rng_below(rng, 2) == 0) {
        op->claim_id =
            wp_str_from(part->claims[wp_rng_below(rng, PART_CLAIMS)]);
        op->tenant = wp_rng_below(rng, 4) == 0 ? WP_STR("t") : WP_STR("");
    }
}

static struct wp_lease_record *
model_claim(struct wp_lease_record *records, const struct wp_lease_op *op)
{
    for (int i = 0; i < PART_SANDBOXES; i++) {
        if (wp_record_is_claimed(records[i].state) &&
            wp_str_is(op->claim_id, records[i].claim_id) &&
            wp_str_is(op->tenant, records[i].tenant)) {
            return &records[i];
        }
    }
    return NULL;
}

/* Applies the trial's op to the model; true when the store's answer fits. */
static bool
model_fits(const struct part *part, struct wp_lease_record *records,
           const struct conform_trial *trial)
{
    const struct wp_lease_op *op = &trial->op;
    struct wp_lease_record *claimed = model_claim(records, op);
    struct wp_lease_record *record = NULL;
    struct wp_lease_record none = {0};
    enum wp_status status;

    for (int i = 0; i < PART_SANDBOXES; i++) {
        if (memcmp(part->uids[i], op->uid, WP_UID_LEN) == 0) {
            record = &records[i];
        }
    }
    if (op->kind == WP_LEASE_FETCH && op->claim_id.len > 0) {
        record = claimed != NULL ? claimed : &none;
    }
    status = wp_lease_rules_apply(
        op, op->kind == WP_LEASE_GRANT ? claimed : NULL, record);
    if (status != trial->status) {
        return false;
    }
    if ((op->kind == WP_LEASE_FETCH && status == WP_OK) ||
        (op->kind == WP_LEASE_EXPIRE && status == WP_ABORTED)) {
        return rule_record_differs(&trial->found, record) == NULL;
    }
    return true;
}

/* True when the ops in this order explain the answers and what the store has
 * now; then the model has it too. */
static bool
order_fits(struct part *part, const int order[GROUP],
           const struct wp_lease_record now[PART_SANDBOXES])
{
    struct wp_lease_record records[PART_SANDBOXES];

    memcpy(records, part->records, sizeof records);
    for (int i = 0; i < GROUP; i++) {
        if (order[i] < part->in_flight &&
            !model_fits(part, records, &part->trials[order[i]])) {
            return false;
        }
    }
    for (int i = 0; i < PART_SANDBOXES; i++) {
        if (rule_record_differs(&records[i], &now[i]) != NULL) {
            return false;
        }
    }
    memcpy(part->records, records, sizeof records);
    return true;
}

static void
check_part(struct part *part)
{
    struct wp_lease_record now[PART_SANDBOXES];

    for (int i = 0; i < PART_SANDBOXES; i++) {
        conform_fetch(part->uids[i], &now[i]);
    }
    for (int i = 0; i < ORDERS; i++) {
        if (order_fits(part, orders[i], now)) {
            return;
        }
    }
    for (int i = 0; i < part->in_flight; i++) {
        const struct conform_trial *trial = &part->trials[i];

        print_error(
            "op %d on %.*s, fence %llu, claim %.*s: %s\n", (int)trial->op.kind,
            WP_STR_ARG(trial->op.sandbox), (unsigned long long)trial->op.fence,
            WP_STR_ARG(trial->op.claim_id), wp_status_name(trial->status));
    }
    for (int i = 0; i < PART_SANDBOXES; i++) {
        print_error("%s: state %d fence %llu before, %d and %llu now\n",
                    part->names[i], (int)part->records[i].state,
                    (unsigned long long)part->records[i].fence,
                    (int)now[i].state, (unsigned long long)now[i].fence);
    }
    fail_msg("no order of these ops explains what the store did");
}

static void
random_round(struct wp_rng *rng, uint32_t *ops)
{
    for (int p = 0; p < PARTS; p++) {
        struct part *part = &parts[p];

        part->in_flight = 1 + (int)wp_rng_below(rng, GROUP);
        for (int i = 0; i < part->in_flight; i++) {
            random_op(rng, part, &part->trials[i]);
        }
    }
    for (int p = 0; p < PARTS; p++) {
        for (int i = 0; i < parts[p].in_flight; i++) {
            conform_submit(&parts[p].trials[i]);
            (*ops)++;
        }
    }
    for (int p = 0; p < PARTS; p++) {
        conform_await_all(parts[p].trials, (size_t)parts[p].in_flight);
        check_part(&parts[p]);
    }
}

static void
reopen_parts(void)
{
    struct wp_lease_record expected[PARTS * PART_SANDBOXES];

    for (int p = 0; p < PARTS; p++) {
        memcpy(&expected[p * PART_SANDBOXES], parts[p].records,
               sizeof parts[p].records);
    }
    conform_reopen_and_compare(expected, PARTS * PART_SANDBOXES);
}

/* Random ops, several in flight: each answer, and what the store has after it,
 * is what some order of them gives in the model; also across reopening. */
void
conform_test_random_ops_follow_the_model(void **state)
{
    uint32_t steps = conform_steps();
    uint32_t reopened = 0;
    uint32_t ops = 0;
    struct wp_rng rng;

    (void)state;
    conform_open_store(true);
    wp_rng_init(&rng, conform_run_seed());
    for (int p = 0; p < PARTS; p++) {
        init_part(&parts[p], p);
    }
    while (ops < steps) {
        random_round(&rng, &ops);
        if (ops >= steps / REOPENS * (reopened + 1)) {
            reopened++;
            reopen_parts();
        }
    }
    assert_true(reopened >= REOPENS);
    conform_close_store();
}
