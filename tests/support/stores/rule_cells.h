/* tests/support/stores/rule_cells.h - the table of pool/leases/rules.h as data.
 *
 * Written out by hand, independent of leases/rules.c: what an op does in each
 * state, for an older, the same and a newer fence. The unit test holds the
 * rules to it, the conformance suite every store. */
#ifndef WP_TESTS_SUPPORT_STORES_RULE_CELLS_H
#define WP_TESTS_SUPPORT_STORES_RULE_CELLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/lease_store.h"

enum {
    RULE_OLDER = 1,
    RULE_SAME = 2,
    RULE_NEWER = 4,
    RULE_ANY = RULE_OLDER | RULE_SAME | RULE_NEWER,
    RULE_FENCE = 10, /* Of the record before the op. */
    RULE_STEPS_MAX = 6,
};

/* What is unusual about the op. */
enum rule_twist {
    RULE_PLAIN,
    RULE_OTHER_CLAIM,    /* It comes from another claim id. */
    RULE_OTHER_TENANT,   /* The same claim id of another tenant. */
    RULE_OTHER_DEADLINE, /* It knows another deadline than the record. */
    RULE_EARLIER,        /* A deadline before the recorded one. */
    RULE_CLAIM_HOLDS,    /* Its claim holds another sandbox already. */
    RULE_CLAIM_LOST,     /* Its claim has lost another sandbox. */
    RULE_BY_CLAIM,       /* FETCH by claim id. */
};

struct rule_cell {
    enum wp_lease_op_kind kind;
    enum wp_record_state before;
    unsigned fences; /* Which ones this row is about. */
    enum rule_twist twist;
    enum wp_status status;
    enum wp_record_state after;
    bool changes; /* False: the record stays exactly as it was. */
};

extern const struct rule_cell rule_cells[];
extern const size_t rule_cell_count;

/* One cell with one fence, with names of its own, so that many can be tried in
 * one store. */
struct rule_case {
    const struct rule_cell *cell;
    uint64_t fence; /* The op's. */
    uint8_t uid[WP_UID_LEN];
    uint8_t other_uid[WP_UID_LEN]; /* Of the claim's other sandbox. */
    char claim_id[40];
    char other_id[40];
    char sandbox[40];
    char endpoint[40];
};

/* fence_bit: RULE_OLDER, RULE_SAME or RULE_NEWER. number: different for each
 * case of one store. */
void rule_case_init(struct rule_case *rule, const struct rule_cell *cell,
                    unsigned fence_bit, unsigned number);
/* The ops that lead an empty store to where the cell begins; returns how many.
 * They borrow rule's texts. */
size_t rule_case_steps(const struct rule_case *rule,
                       struct wp_lease_op steps[RULE_STEPS_MAX]);
void rule_case_op(const struct rule_case *rule, struct wp_lease_op *op);
/* The record before the op, and as it must be after it. */
void rule_case_before(const struct rule_case *rule,
                      struct wp_lease_record *record);
void rule_case_after(const struct rule_case *rule,
                     struct wp_lease_record *record);

/* Field by field; two records of state NONE are equal. NULL, or the name of
 * the first field that differs. */
const char *rule_record_differs(const struct wp_lease_record *a,
                                const struct wp_lease_record *b);

#endif
