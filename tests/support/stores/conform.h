/* tests/support/stores/conform.h - what the parts of the conformance suite
 * share: the store under test, and ops whose answers are waited for. */
#ifndef WP_TESTS_SUPPORT_STORES_CONFORM_H
#define WP_TESTS_SUPPORT_STORES_CONFORM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <stdbool.h>

#include "tests/support/stores/store_conformance.h"

enum {
    CONFORM_CROWD = 16,
};

/* An op and what the store said to it. */
struct conform_trial {
    struct wp_lease_op op;
    struct wp_lease_record found;
    _Atomic(int) answers;
    enum wp_status status;
};

extern const struct wp_store_factory *conform_factory;
extern struct wp_lease_store conform_store;

/* How many random ops are asked for. */
uint32_t conform_steps(void);
/* Prints it, so that the run can be repeated. */
uint64_t conform_run_seed(void);

void conform_open_store(bool fresh);
void conform_close_store(void);

/* Ends the program. Any thread; cmocka's own way works only in the first. */
_Noreturn void conform_die(const char *what);

/* Commits, and notes the answer in trial, which outlives it. Any thread. */
void conform_submit(struct conform_trial *trial);
void conform_flush_store(void);
/* Waits for an answer; turn: on the thread that turns a store's loop where it
 * has none of its own. Any thread, with turn false. */
void conform_await(struct conform_trial *trial, bool turn);
/* Flushes, and waits for all of them. First thread. */
void conform_await_all(struct conform_trial *trials, size_t n);

/* Commits, flushes, waits, and returns the answer: the op is gathered where the
 * store does that. First thread, as the next ones. */
enum wp_status conform_commit(const struct wp_lease_op *op);
/* The record of uid; state NONE when there is none. */
void conform_fetch(const uint8_t uid[WP_UID_LEN],
                   struct wp_lease_record *record);
enum wp_status conform_fetch_claim(struct wp_str claim_id, struct wp_str tenant,
                                   struct wp_lease_record *record);
/* Opens the store again: it must know these records (NONE among them count for
 * nothing) and no others. */
void conform_reopen_and_compare(const struct wp_lease_record *expected,
                                size_t n);

/* CONFORM_CROWD sandboxes to fight for: their names, and all of them offered.
 */
void conform_crowd_uid(struct wp_lease_op *op, unsigned sandbox);
void conform_offer_crowd(void);

/* The tests that are in files of their own. */
void conform_test_random_ops_follow_the_model(void **state);
void conform_test_snapshots(void **state);
void conform_test_nothing_stays_held_unshown(void **state);
void conform_test_threads_never_share(void **state);

#endif
