#include "tests/support/stores/rule_cells.h"

#include <stdio.h>
#include <string.h>

enum {
    DEADLINE = 1000000,
    NEW_DEADLINE = 2000000,
    GRANTED = 500000,
    SERVED = 1,
};

/* More than what fits a signed number: a fingerprint is any 64 bits. */
#define FINGERPRINT UINT64_C(0xfedcba9876543210)
#define TENANT WP_STR("tenant-a")
#define REASON "its \"process\" died; exit 137"

#define NONE WP_RECORD_NONE
#define OPEN WP_RECORD_OPEN
#define HELD WP_RECORD_HELD
#define LOST WP_RECORD_LOST
#define ENDED WP_RECORD_ENDED

#define STAYS(kind, state, fences, twist, status)                              \
    {                                                                          \
        WP_LEASE_##kind, state, RULE_##fences, RULE_##twist, WP_##status,      \
            state, false                                                       \
    }
#define MOVES(kind, state, fences, twist, after)                               \
    {                                                                          \
        WP_LEASE_##kind, state, RULE_##fences, RULE_##twist, WP_OK, after,     \
            true                                                               \
    }

const struct rule_cell rule_cells[] = {
    MOVES(OFFER, NONE, ANY, PLAIN, OPEN),
    STAYS(OFFER, OPEN, ANY, PLAIN, OK),
    STAYS(OFFER, HELD, ANY, PLAIN, TAKEN),
    STAYS(OFFER, LOST, ANY, PLAIN, TAKEN),
    STAYS(OFFER, ENDED, ANY, PLAIN, TAKEN),

    STAYS(GRANT, NONE, ANY, PLAIN, NOT_FOUND),
    STAYS(GRANT, NONE, ANY, CLAIM_HOLDS, ALREADY_EXISTS),
    STAYS(GRANT, NONE, ANY, CLAIM_LOST, ALREADY_EXISTS),
    STAYS(GRANT, OPEN, OLDER, PLAIN, ABORTED),
    STAYS(GRANT, OPEN, SAME, PLAIN, ABORTED),
    MOVES(GRANT, OPEN, NEWER, PLAIN, HELD),
    STAYS(GRANT, OPEN, ANY, CLAIM_HOLDS, ALREADY_EXISTS),
    STAYS(GRANT, OPEN, ANY, CLAIM_LOST, ALREADY_EXISTS),
    STAYS(GRANT, HELD, ANY, PLAIN, ALREADY_EXISTS),
    STAYS(GRANT, HELD, ANY, OTHER_CLAIM, TAKEN),
    STAYS(GRANT, HELD, ANY, OTHER_TENANT, TAKEN),
    STAYS(GRANT, LOST, ANY, PLAIN, ALREADY_EXISTS),
    STAYS(GRANT, LOST, ANY, OTHER_CLAIM, TAKEN),
    STAYS(GRANT, ENDED, ANY, PLAIN, TAKEN),
    STAYS(GRANT, ENDED, ANY, CLAIM_HOLDS, ALREADY_EXISTS),

    STAYS(RENEW, NONE, ANY, PLAIN, NOT_FOUND),
    STAYS(RENEW, OPEN, ANY, PLAIN, NOT_FOUND),
    STAYS(RENEW, HELD, OLDER, PLAIN, ABORTED),
    MOVES(RENEW, HELD, SAME, PLAIN, HELD),
    STAYS(RENEW, HELD, SAME, EARLIER, OK),
    STAYS(RENEW, HELD, NEWER, PLAIN, NOT_FOUND),
    STAYS(RENEW, LOST, OLDER, PLAIN, ABORTED),
    STAYS(RENEW, LOST, SAME, PLAIN, FAILED_PRECONDITION),
    STAYS(RENEW, LOST, NEWER, PLAIN, NOT_FOUND),
    STAYS(RENEW, ENDED, ANY, PLAIN, NOT_FOUND),

    STAYS(RELEASE, NONE, ANY, PLAIN, NOT_FOUND),
    STAYS(RELEASE, OPEN, ANY, PLAIN, NOT_FOUND),
    STAYS(RELEASE, HELD, OLDER, PLAIN, ABORTED),
    MOVES(RELEASE, HELD, SAME, PLAIN, ENDED),
    STAYS(RELEASE, HELD, NEWER, PLAIN, NOT_FOUND),
    STAYS(RELEASE, LOST, OLDER, PLAIN, ABORTED),
    MOVES(RELEASE, LOST, SAME, PLAIN, ENDED),
    STAYS(RELEASE, LOST, NEWER, PLAIN, NOT_FOUND),
    STAYS(RELEASE, ENDED, ANY, PLAIN, NOT_FOUND),

    STAYS(UNDO, NONE, ANY, PLAIN, NOT_FOUND),
    STAYS(UNDO, OPEN, OLDER, PLAIN, NOT_FOUND),
    STAYS(UNDO, OPEN, SAME, PLAIN, OK),
    STAYS(UNDO, OPEN, NEWER, PLAIN, NOT_FOUND),
    STAYS(UNDO, HELD, OLDER, PLAIN, ABORTED),
    MOVES(UNDO, HELD, SAME, PLAIN, OPEN),
    STAYS(UNDO, HELD, SAME, OTHER_DEADLINE, ABORTED),
    STAYS(UNDO, HELD, NEWER, PLAIN, NOT_FOUND),
    STAYS(UNDO, LOST, OLDER, PLAIN, ABORTED),
    MOVES(UNDO, LOST, SAME, PLAIN, ENDED),
    STAYS(UNDO, LOST, SAME, OTHER_DEADLINE, ABORTED),
    STAYS(UNDO, LOST, NEWER, PLAIN, NOT_FOUND),
    STAYS(UNDO, ENDED, ANY, PLAIN, NOT_FOUND),

    STAYS(EXPIRE, NONE, ANY, PLAIN, NOT_FOUND),
    STAYS(EXPIRE, OPEN, ANY, PLAIN, NOT_FOUND),
    STAYS(EXPIRE, HELD, OLDER, PLAIN, ABORTED),
    MOVES(EXPIRE, HELD, SAME, PLAIN, ENDED),
    STAYS(EXPIRE, HELD, SAME, OTHER_DEADLINE, ABORTED),
    STAYS(EXPIRE, HELD, NEWER, PLAIN, NOT_FOUND),
    STAYS(EXPIRE, LOST, OLDER, PLAIN, ABORTED),
    MOVES(EXPIRE, LOST, SAME, PLAIN, ENDED),
    STAYS(EXPIRE, LOST, SAME, OTHER_DEADLINE, ABORTED),
    STAYS(EXPIRE, LOST, NEWER, PLAIN, NOT_FOUND),
    STAYS(EXPIRE, ENDED, ANY, PLAIN, NOT_FOUND),

    STAYS(WITHDRAW, NONE, ANY, PLAIN, NOT_FOUND),
    MOVES(WITHDRAW, OPEN, ANY, PLAIN, ENDED),
    STAYS(WITHDRAW, HELD, ANY, PLAIN, TAKEN),
    STAYS(WITHDRAW, LOST, ANY, PLAIN, TAKEN),
    STAYS(WITHDRAW, ENDED, ANY, PLAIN, OK),

    STAYS(LOSE, NONE, ANY, PLAIN, NOT_FOUND),
    STAYS(LOSE, OPEN, ANY, PLAIN, NOT_FOUND),
    STAYS(LOSE, HELD, OLDER, PLAIN, ABORTED),
    MOVES(LOSE, HELD, SAME, PLAIN, LOST),
    STAYS(LOSE, HELD, NEWER, PLAIN, NOT_FOUND),
    STAYS(LOSE, LOST, OLDER, PLAIN, ABORTED),
    STAYS(LOSE, LOST, SAME, PLAIN, OK),
    STAYS(LOSE, LOST, NEWER, PLAIN, NOT_FOUND),
    STAYS(LOSE, ENDED, ANY, PLAIN, NOT_FOUND),

    STAYS(FETCH, NONE, ANY, PLAIN, NOT_FOUND),
    STAYS(FETCH, OPEN, ANY, PLAIN, OK),
    STAYS(FETCH, HELD, ANY, PLAIN, OK),
    STAYS(FETCH, LOST, ANY, PLAIN, OK),
    STAYS(FETCH, ENDED, ANY, PLAIN, OK),
    STAYS(FETCH, NONE, ANY, BY_CLAIM, NOT_FOUND),
    STAYS(FETCH, OPEN, ANY, BY_CLAIM, NOT_FOUND),
    STAYS(FETCH, HELD, ANY, BY_CLAIM, OK),
    STAYS(FETCH, HELD, ANY, OTHER_TENANT, NOT_FOUND),
    STAYS(FETCH, LOST, ANY, BY_CLAIM, OK),
    STAYS(FETCH, ENDED, ANY, BY_CLAIM, NOT_FOUND),

    STAYS(FORGET, NONE, ANY, PLAIN, OK),
    MOVES(FORGET, OPEN, ANY, PLAIN, NONE),
    STAYS(FORGET, HELD, ANY, PLAIN, TAKEN),
    STAYS(FORGET, LOST, ANY, PLAIN, TAKEN),
    MOVES(FORGET, ENDED, ANY, PLAIN, NONE),
};
const size_t rule_cell_count = WP_ARRAY_LEN(rule_cells);

static void
make_uid(uint8_t uid[WP_UID_LEN], unsigned number, uint8_t kind)
{
    memset(uid, 0, WP_UID_LEN); /* Zero bytes within are allowed. */
    uid[0] = kind;
    uid[5] = (uint8_t)(number >> 8);
    uid[15] = (uint8_t)number;
}

void
rule_case_init(struct rule_case *rule, const struct rule_cell *cell,
               unsigned fence_bit, unsigned number)
{
    memset(rule, 0, sizeof *rule);
    rule->cell = cell;
    rule->fence = fence_bit == RULE_OLDER  ? RULE_FENCE - 1
                  : fence_bit == RULE_SAME ? RULE_FENCE
                                           : RULE_FENCE + 1;
    make_uid(rule->uid, number, 0xa5);
    make_uid(rule->other_uid, number, 0x5a);
    (void)snprintf(rule->claim_id, sizeof rule->claim_id, "claim '%u'", number);
    (void)snprintf(rule->other_id, sizeof rule->other_id, "other-%u", number);
    (void)snprintf(rule->sandbox, sizeof rule->sandbox, "agents-%u", number);
    (void)snprintf(rule->endpoint, sizeof rule->endpoint, "unix:/run/%u.sock",
                   number);
}

static void
make_op(const struct rule_case *rule, enum wp_lease_op_kind kind,
        uint64_t fence, struct wp_lease_op *op)
{
    memset(op, 0, sizeof *op);
    op->kind = kind;
    memcpy(op->uid, rule->uid, WP_UID_LEN);
    op->fence = fence;
    op->pool_namespace = WP_STR("team-a");
    op->pool = WP_STR("agents");
    op->sandbox = wp_str_from(rule->sandbox);
    op->endpoint = wp_str_from(rule->endpoint);
    if (kind != WP_LEASE_OFFER && kind != WP_LEASE_WITHDRAW &&
        kind != WP_LEASE_FORGET) {
        op->claim_id = wp_str_from(rule->claim_id);
        op->tenant = TENANT;
    }
    op->deadline_wall_ms = DEADLINE;
    if (kind == WP_LEASE_GRANT) {
        op->granted_wall_ms = GRANTED;
        op->served = SERVED;
        op->fingerprint = FINGERPRINT;
    } else if (kind == WP_LEASE_LOSE) {
        op->reason = WP_STR(REASON);
    }
}

size_t
rule_case_steps(const struct rule_case *rule,
                struct wp_lease_op steps[RULE_STEPS_MAX])
{
    enum wp_record_state before = rule->cell->before;
    enum rule_twist twist = rule->cell->twist;
    size_t n = 0;

    if (twist == RULE_CLAIM_HOLDS || twist == RULE_CLAIM_LOST) {
        make_op(rule, WP_LEASE_OFFER, 0, &steps[n++]);
        make_op(rule, WP_LEASE_GRANT, 1, &steps[n++]);
        if (twist == RULE_CLAIM_LOST) {
            make_op(rule, WP_LEASE_LOSE, 1, &steps[n++]);
        }
        for (size_t i = 0; i < n; i++) {
            memcpy(steps[i].uid, rule->other_uid, WP_UID_LEN);
        }
    }
    if (before == NONE) {
        return n;
    }
    make_op(rule, WP_LEASE_OFFER, before == OPEN ? RULE_FENCE : RULE_FENCE - 1,
            &steps[n++]);
    if (before == OPEN) {
        return n;
    }
    make_op(rule, WP_LEASE_GRANT, RULE_FENCE, &steps[n++]);
    if (twist == RULE_CLAIM_HOLDS || twist == RULE_CLAIM_LOST) {
        steps[n - 1].claim_id = wp_str_from(rule->other_id);
    }
    if (before == LOST) {
        make_op(rule, WP_LEASE_LOSE, RULE_FENCE, &steps[n++]);
    } else if (before == ENDED) {
        make_op(rule, WP_LEASE_RELEASE, RULE_FENCE, &steps[n++]);
    }
    return n;
}

void
rule_case_op(const struct rule_case *rule, struct wp_lease_op *op)
{
    enum rule_twist twist = rule->cell->twist;
    enum wp_lease_op_kind kind = rule->cell->kind;

    make_op(rule, kind, rule->fence, op);
    if (kind == WP_LEASE_RENEW || kind == WP_LEASE_GRANT ||
        twist == RULE_OTHER_DEADLINE) {
        op->deadline_wall_ms = NEW_DEADLINE;
    }
    if (twist == RULE_EARLIER) {
        op->deadline_wall_ms = DEADLINE - 1;
    } else if (twist == RULE_OTHER_CLAIM) {
        op->claim_id = wp_str_from(rule->other_id);
    } else if (twist == RULE_OTHER_TENANT) {
        op->tenant = WP_STR("tenant-b");
    } else if (kind == WP_LEASE_FETCH && twist == RULE_PLAIN) {
        op->claim_id = (struct wp_str){NULL, 0};
        op->tenant = (struct wp_str){NULL, 0};
    }
    if (kind == WP_LEASE_FETCH && op->claim_id.len > 0) {
        memset(op->uid, 0, WP_UID_LEN);
    }
}

static void
set_text(char *out, size_t cap, const char *text)
{
    (void)snprintf(out, cap, "%s", text);
}

#define SET(field, text) set_text(field, sizeof(field), text)

static void
make_record(const struct rule_case *rule, enum wp_record_state state,
            struct wp_lease_record *record)
{
    bool other = rule->cell->twist == RULE_CLAIM_HOLDS ||
                 rule->cell->twist == RULE_CLAIM_LOST;

    memset(record, 0, sizeof *record);
    if (state == NONE) {
        return;
    }
    memcpy(record->uid, rule->uid, WP_UID_LEN);
    record->state = state;
    record->fence = RULE_FENCE;
    SET(record->pool_namespace, "team-a");
    SET(record->pool, "agents");
    SET(record->sandbox, rule->sandbox);
    SET(record->endpoint, rule->endpoint);
    if (state == HELD || state == LOST) {
        record->deadline_wall_ms = DEADLINE;
        record->granted_wall_ms = GRANTED;
        record->fingerprint = FINGERPRINT;
        record->served = SERVED;
        SET(record->claim_id, other ? rule->other_id : rule->claim_id);
        SET(record->tenant, "tenant-a");
    }
    if (state == LOST) {
        SET(record->lost_reason, REASON);
    }
}

void
rule_case_before(const struct rule_case *rule, struct wp_lease_record *record)
{
    make_record(rule, rule->cell->before, record);
}

void
rule_case_after(const struct rule_case *rule, struct wp_lease_record *record)
{
    make_record(rule, rule->cell->after, record);
    if (!rule->cell->changes) {
        return;
    }
    if (rule->cell->kind == WP_LEASE_OFFER ||
        rule->cell->kind == WP_LEASE_GRANT) {
        record->fence = rule->fence;
    }
    if (rule->cell->kind == WP_LEASE_RENEW ||
        rule->cell->kind == WP_LEASE_GRANT) {
        record->deadline_wall_ms = NEW_DEADLINE;
    }
}

const char *
rule_record_differs(const struct wp_lease_record *a,
                    const struct wp_lease_record *b)
{
    if (a->state != b->state) {
        return "state";
    }
    if (a->state == NONE) {
        return NULL;
    }
#define NUMBER(field)                                                          \
    if (a->field != b->field) {                                                \
        return #field;                                                         \
    }
#define TEXT(field)                                                            \
    if (strcmp(a->field, b->field) != 0) {                                     \
        return #field;                                                         \
    }
    if (memcmp(a->uid, b->uid, WP_UID_LEN) != 0) {
        return "uid";
    }
    NUMBER(fence)
    NUMBER(deadline_wall_ms)
    NUMBER(granted_wall_ms)
    NUMBER(fingerprint)
    NUMBER(served)
    TEXT(pool_namespace)
    TEXT(pool)
    TEXT(sandbox)
    TEXT(endpoint)
    TEXT(claim_id)
    TEXT(tenant)
    TEXT(lost_reason)
#undef NUMBER
#undef TEXT
    return NULL;
}
