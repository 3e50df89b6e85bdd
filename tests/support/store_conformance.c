#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pool/base/rng.h"
#include "pool/lease_rules.h"
#include "tests/support/rule_cells.h"
#include "tests/support/store_conformance.h"

enum {
    DEFAULT_STEPS = 4000,
    WAIT_S = 60,
};

/* An op and what the store said to it. */
struct trial {
    struct wp_lease_op op;
    struct wp_lease_record found;
    _Atomic(int) answers;
    enum wp_status status;
};

static const struct wp_store_factory *factory;
static struct wp_lease_store store;
static pthread_mutex_t answer_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t answered = PTHREAD_COND_INITIALIZER;

/* Any thread; cmocka's own way to fail works only in the first. */
static void
die(const char *what)
{
    (void)fprintf(stderr, "store %s: %s\n", factory->name, what);
    exit(1);
}

static void
open_store(bool fresh)
{
    store = factory->open(factory->ctx, fresh);
}

static void
close_store(void)
{
    factory->close(factory->ctx);
}

static void
on_done(struct wp_lease_op *op, enum wp_status status)
{
    struct trial *trial = WP_CONTAINER_OF(op, struct trial, op);

    (void)pthread_mutex_lock(&answer_lock);
    trial->status = status;
    if (atomic_fetch_add(&trial->answers, 1) != 0) {
        die("an op was answered twice");
    }
    (void)pthread_cond_broadcast(&answered);
    (void)pthread_mutex_unlock(&answer_lock);
}

static void
submit(struct trial *trial)
{
    enum wp_status status;

    trial->op.done = on_done;
    trial->op.next = NULL;
    status = store.ops->commit(store.self, &trial->op);
    if (status != WP_PENDING) {
        trial->status = status;
        if (atomic_fetch_add(&trial->answers, 1) != 0) {
            die("an op that was complete at once was answered as well");
        }
    }
}

static void
flush_store(void)
{
    if (store.ops->flush != NULL) {
        store.ops->flush(store.self);
    }
}

/* Waits for one answer, turning the store's loop where it has none. */
static void
await(struct trial *trial, bool turn)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    while (atomic_load(&trial->answers) == 0) {
        struct timespec now;

        if (turn && factory->settle != NULL) {
            factory->settle(factory->ctx);
            (void)clock_gettime(CLOCK_REALTIME, &now);
            if (now.tv_sec > until.tv_sec) {
                die("an op was not answered");
            }
            continue;
        }
        (void)pthread_mutex_lock(&answer_lock);
        while (atomic_load(&trial->answers) == 0) {
            if (pthread_cond_timedwait(&answered, &answer_lock, &until) ==
                ETIMEDOUT) {
                die("an op was not answered");
            }
        }
        (void)pthread_mutex_unlock(&answer_lock);
    }
}

static void
await_all(struct trial *trials, size_t n)
{
    flush_store();
    for (size_t i = 0; i < n; i++) {
        await(&trials[i], true);
    }
}

static enum wp_status
commit(const struct wp_lease_op *op)
{
    struct trial trial = {.op = *op};

    submit(&trial);
    await_all(&trial, 1);
    return trial.status;
}

/* The record of uid; state NONE when there is none. */
static void
fetch(const uint8_t uid[WP_UID_LEN], struct wp_lease_record *record)
{
    struct wp_lease_op op = {.kind = WP_LEASE_FETCH, .found = record};
    enum wp_status status;

    memcpy(op.uid, uid, WP_UID_LEN);
    memset(record, 0, sizeof *record);
    status = commit(&op);
    assert_true(status == WP_OK || status == WP_NOT_FOUND);
    if (status == WP_NOT_FOUND) {
        assert_int_equal(record->state, WP_RECORD_NONE);
    }
}

static enum wp_status
fetch_claim(struct wp_str claim_id, struct wp_str tenant,
            struct wp_lease_record *record)
{
    struct wp_lease_op op = {.kind = WP_LEASE_FETCH,
                             .claim_id = claim_id,
                             .tenant = tenant,
                             .found = record};

    memset(record, 0, sizeof *record);
    return commit(&op);
}

/* --- what load tells ----------------------------------------------------- */

struct loaded {
    struct wp_lease_record *records;
    size_t count;
    size_t cap;
};

static void
on_load(void *ctx, const struct wp_lease_record *record)
{
    struct loaded *loaded = ctx;

    assert_true(loaded->count < loaded->cap);
    assert_int_not_equal(record->state, WP_RECORD_NONE);
    loaded->records[loaded->count++] = *record;
}

/* Opens the store again: it must know these records (NONE among them count for
 * nothing) and no others. */
static void
reopen_and_compare(const struct wp_lease_record *expected, size_t n)
{
    struct loaded loaded = {.cap = n};
    struct wp_err err = {0};
    size_t live = 0;

    close_store();
    open_store(false);
    loaded.records = calloc(n, sizeof *loaded.records);
    assert_non_null(loaded.records);
    if (store.ops->load(store.self, on_load, &loaded, &err) != WP_OK) {
        fail_msg("load: %s", err.msg);
    }
    for (size_t i = 0; i < n; i++) {
        bool found = expected[i].state == WP_RECORD_NONE;

        live += found ? 0 : 1;
        for (size_t k = 0; k < loaded.count && !found; k++) {
            found =
                rule_record_differs(&expected[i], &loaded.records[k]) == NULL;
        }
        assert_true(found);
    }
    assert_int_equal(loaded.count, live);
    free(loaded.records);
}

/* --- tests --------------------------------------------------------------- */

/* The port is whole, and every kind of op is answered exactly once. */
static void
test_port_is_whole(void **state)
{
    (void)state;
    open_store(true);
    assert_non_null(store.ops->name);
    assert_int_equal(store.ops->durable, store.ops->load != NULL);
    for (int kind = WP_LEASE_OFFER; kind <= WP_LEASE_FORGET; kind++) {
        struct trial trial = {.op = {.kind = (enum wp_lease_op_kind)kind,
                                     .uid = {1, 2, 3},
                                     .fence = 1,
                                     .deadline_wall_ms = 1,
                                     .claim_id = WP_STR("c"),
                                     .reason = WP_STR("r")}};

        submit(&trial);
        await_all(&trial, 1);
        assert_int_equal(atomic_load(&trial.answers), 1);
        if (!store.ops->durable) {
            assert_int_equal(trial.status, WP_OK);
        }
    }
    close_store();
}

static void
check_claim_leads(const struct rule_case *rule,
                  const struct wp_lease_record *expected)
{
    bool elsewhere = rule->cell->twist == RULE_CLAIM_HOLDS ||
                     rule->cell->twist == RULE_CLAIM_LOST;
    struct wp_lease_record led;
    enum wp_status status;

    status = fetch_claim(wp_str_from(rule->claim_id), WP_STR("tenant-a"), &led);
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
        assert_int_equal(commit(&steps[i]), WP_OK);
    }
    rule_case_op(rule, &op);
    op.found = &found;
    status = commit(&op);
    fetch(rule->uid, after);
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
    open_store(true);
    if (!store.ops->durable) {
        close_store();
        skip();
    }
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
            fetch(rule.other_uid, &records[number + 1]);
            number += 2;
        }
    }
    reopen_and_compare(records, number);
    free(records);
    close_store();
}

enum {
    CROWD = 16,
};

static void
crowd_uid(struct wp_lease_op *op, unsigned sandbox)
{
    memset(op->uid, 0, sizeof op->uid);
    op->uid[0] = 0xc0;
    op->uid[1] = (uint8_t)sandbox;
}

static void
offer_crowd(void)
{
    for (unsigned i = 0; i < CROWD; i++) {
        struct wp_lease_op op = {.kind = WP_LEASE_OFFER};

        crowd_uid(&op, i);
        assert_int_equal(commit(&op), WP_OK);
    }
}

static int
count_status(const struct trial *trials, size_t n, enum wp_status status)
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
    struct trial trials[CROWD] = {0};
    struct wp_lease_record held;

    (void)state;
    open_store(true);
    if (!store.ops->durable) {
        close_store();
        skip();
    }
    offer_crowd();
    for (unsigned i = 0; i < CROWD; i++) {
        trials[i].op = (struct wp_lease_op){.kind = WP_LEASE_GRANT,
                                            .fence = 1,
                                            .deadline_wall_ms = 1,
                                            .claim_id = WP_STR("one"),
                                            .tenant = WP_STR("t")};
        crowd_uid(&trials[i].op, i);
        submit(&trials[i]);
    }
    await_all(trials, CROWD);
    assert_int_equal(count_status(trials, CROWD, WP_OK), 1);
    assert_int_equal(count_status(trials, CROWD, WP_ALREADY_EXISTS), CROWD - 1);
    assert_int_equal(fetch_claim(WP_STR("one"), WP_STR("t"), &held), WP_OK);
    for (unsigned i = 0; i < CROWD; i++) {
        if (trials[i].status == WP_OK) {
            assert_memory_equal(held.uid, trials[i].op.uid, WP_UID_LEN);
        }
    }
    close_store();
}

/* One sandbox, many claims at the same moment: one gets it; its message
 * repeated is answered the same, and leaves one lease. */
static void
test_sandbox_goes_to_one_of_many(void **state)
{
    char ids[CROWD][8];
    struct trial trials[CROWD] = {0};
    struct trial again[CROWD] = {0};
    struct wp_lease_op won = {0};

    (void)state;
    open_store(true);
    if (!store.ops->durable) {
        close_store();
        skip();
    }
    offer_crowd();
    for (unsigned i = 0; i < CROWD; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "c%u", i);
        trials[i].op = (struct wp_lease_op){.kind = WP_LEASE_GRANT,
                                            .fence = 1 + i,
                                            .deadline_wall_ms = 1,
                                            .claim_id = wp_str_from(ids[i])};
        crowd_uid(&trials[i].op, 3);
        submit(&trials[i]);
    }
    await_all(trials, CROWD);
    assert_int_equal(count_status(trials, CROWD, WP_OK), 1);
    assert_int_equal(count_status(trials, CROWD, WP_TAKEN), CROWD - 1);
    for (unsigned i = 0; i < CROWD; i++) {
        won = trials[i].status == WP_OK ? trials[i].op : won;
    }
    for (unsigned i = 0; i < CROWD; i++) {
        again[i].op = won;
        submit(&again[i]);
    }
    await_all(again, CROWD);
    assert_int_equal(count_status(again, CROWD, WP_OK), CROWD);
    close_store();
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
    open_store(true);
    if (!store.ops->durable) {
        close_store();
        skip();
    }
    assert_int_equal(commit(&op), WP_OK);
    op.kind = WP_LEASE_GRANT;
    op.fence = 1;
    assert_int_equal(commit(&op), WP_OK);
    op.kind = WP_LEASE_UNDO;
    assert_int_equal(commit(&op), WP_OK);
    op.kind = WP_LEASE_GRANT;
    assert_int_equal(commit(&op), WP_ABORTED);
    op.fence = 2;
    op.claim_id = WP_STR("second");
    assert_int_equal(commit(&op), WP_OK);
    fetch(op.uid, &before);
    op.fence = 1;
    op.claim_id = WP_STR("first");
    op.reason = WP_STR("late");
    for (size_t i = 0; i < WP_ARRAY_LEN(late); i++) {
        op.kind = late[i];
        assert_int_equal(commit(&op), WP_ABORTED);
        fetch(op.uid, &after);
        assert_null(rule_record_differs(&before, &after));
    }
    close_store();
}

/* --- random ops beside a model ------------------------------------------- */

/* Ops in flight together may take effect in any order. So the world is cut
 * into parts that do not touch each other, and in each part so few are in
 * flight that all their orders can be tried on the model. */
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
    char claims[PART_CLAIMS][16];
    char names[PART_SANDBOXES][16];
    struct trial trials[GROUP];
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
random_op(struct wp_rng *rng, const struct part *part, struct trial *trial)
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
    op->pool_namespace = WP_STR("default");
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
           const struct trial *trial)
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
        fetch(part->uids[i], &now[i]);
    }
    for (int i = 0; i < ORDERS; i++) {
        if (order_fits(part, orders[i], now)) {
            return;
        }
    }
    for (int i = 0; i < part->in_flight; i++) {
        const struct trial *trial = &part->trials[i];

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
            submit(&parts[p].trials[i]);
            (*ops)++;
        }
    }
    for (int p = 0; p < PARTS; p++) {
        await_all(parts[p].trials, (size_t)parts[p].in_flight);
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
    reopen_and_compare(expected, PARTS * PART_SANDBOXES);
}

static uint64_t
run_seed(void)
{
    const char *fixed = getenv("WP_SEED");
    uint64_t seed;

    wp_random_bytes(&seed, sizeof seed);
    if (fixed != NULL) {
        seed = strtoull(fixed, NULL, 10);
    }
    print_message("store %s, WP_SEED=%llu\n", factory->name,
                  (unsigned long long)seed);
    return seed;
}

/* Random ops, several in flight: each answer, and what the store has after it,
 * is what some order of them gives in the model; also across reopening. */
static void
test_random_ops_follow_the_model(void **state)
{
    uint32_t steps = factory->steps != 0 ? factory->steps : DEFAULT_STEPS;
    uint32_t reopened = 0;
    uint32_t ops = 0;
    struct wp_rng rng;

    (void)state;
    open_store(true);
    if (!store.ops->durable) {
        close_store();
        skip();
    }
    wp_rng_init(&rng, run_seed());
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
    close_store();
}

/* --- many threads -------------------------------------------------------- */

enum {
    THREADS = 4,
    THREAD_SANDBOXES = 8,
    THREAD_CLAIMS = 6,
    ROUND_OPS = 3, /* Grant, renew, undo. */
};

static const char *const thread_claims[THREAD_CLAIMS] = {"a", "b", "c",
                                                         "d", "e", "f"};
static _Atomic(uint64_t) next_fence[THREAD_SANDBOXES];
static _Atomic(int) sandbox_holder[THREAD_SANDBOXES];
static _Atomic(int) claim_holder[THREAD_CLAIMS];
static _Atomic(int) wins;
static _Atomic(int) finished;

struct worker {
    pthread_t thread;
    int number; /* From 1. */
    uint32_t rounds;
    struct wp_rng rng;
    struct trial *trials; /* rounds * ROUND_OPS, each used at most once. */
    size_t used;
};

static enum wp_status
worker_commit(struct worker *worker, enum wp_lease_op_kind kind,
              unsigned sandbox, uint64_t fence, unsigned claim)
{
    struct trial *trial = &worker->trials[worker->used++];

    trial->op.kind = kind;
    crowd_uid(&trial->op, sandbox);
    trial->op.fence = fence;
    trial->op.deadline_wall_ms = 1 + (int64_t)fence;
    trial->op.claim_id = wp_str_from(thread_claims[claim]);
    submit(trial);
    flush_store();
    await(trial, false);
    return trial->status;
}

static void
hold_a_while(struct worker *worker, unsigned sandbox, uint64_t fence,
             unsigned claim)
{
    if (atomic_exchange(&sandbox_holder[sandbox], worker->number) != 0) {
        die("a sandbox has two holders");
    }
    if (atomic_exchange(&claim_holder[claim], worker->number) != 0) {
        die("a claim has two sandboxes");
    }
    atomic_fetch_add(&wins, 1);
    if (wp_rng_below(&worker->rng, 2) == 0 &&
        worker_commit(worker, WP_LEASE_RENEW, sandbox, fence, claim) != WP_OK) {
        die("a holder could not renew");
    }
    atomic_store(&sandbox_holder[sandbox], 0);
    atomic_store(&claim_holder[claim], 0);
    if (worker_commit(worker, WP_LEASE_UNDO, sandbox, fence, claim) != WP_OK) {
        die("a holder could not undo");
    }
}

static void *
worker_main(void *arg)
{
    struct worker *worker = arg;

    for (uint32_t i = 0; i < worker->rounds; i++) {
        unsigned sandbox =
            (unsigned)wp_rng_below(&worker->rng, THREAD_SANDBOXES);
        unsigned claim = (unsigned)wp_rng_below(&worker->rng, THREAD_CLAIMS);
        uint64_t fence = atomic_fetch_add(&next_fence[sandbox], 1) + 1;
        enum wp_status status =
            worker_commit(worker, WP_LEASE_GRANT, sandbox, fence, claim);

        if (!store.ops->durable) {
            if (status != WP_OK) {
                die("a store that keeps nothing refused");
            }
        } else if (status == WP_OK) {
            hold_a_while(worker, sandbox, fence, claim);
        } else if (status != WP_TAKEN && status != WP_ABORTED &&
                   status != WP_ALREADY_EXISTS) {
            die("a grant ended in a way that the rules do not know");
        }
    }
    atomic_fetch_add(&finished, 1);
    return NULL;
}

static void
run_workers(struct worker workers[THREADS])
{
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(
            pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]),
            0);
    }
    while (factory->settle != NULL && atomic_load(&finished) < THREADS) {
        factory->settle(factory->ctx);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    }
}

/* Threads that want the same few sandboxes with the same few claims: nobody
 * ever shares one, and each op is answered exactly once. */
static void
test_threads_never_share(void **state)
{
    uint32_t steps = factory->steps != 0 ? factory->steps : DEFAULT_STEPS;
    struct worker workers[THREADS] = {0};
    uint64_t seed;

    (void)state;
    open_store(true);
    seed = run_seed();
    atomic_store(&finished, 0);
    if (store.ops->durable) {
        offer_crowd();
    }
    for (int i = 0; i < THREADS; i++) {
        workers[i].number = i + 1;
        workers[i].rounds = steps / THREADS;
        wp_rng_init(&workers[i].rng, seed + (uint64_t)i);
        workers[i].trials = calloc((size_t)workers[i].rounds * ROUND_OPS,
                                   sizeof *workers[i].trials);
        assert_non_null(workers[i].trials);
    }
    run_workers(workers);
    if (store.ops->durable) {
        assert_true(atomic_load(&wins) > 0);
        for (unsigned i = 0; i < THREAD_SANDBOXES; i++) {
            struct wp_lease_op op = {0};
            struct wp_lease_record record;

            crowd_uid(&op, i);
            fetch(op.uid, &record);
            assert_int_equal(record.state, WP_RECORD_OPEN);
            assert_true(record.fence <= atomic_load(&next_fence[i]));
        }
    }
    close_store();
    for (int i = 0; i < THREADS; i++) {
        for (size_t k = 0; k < workers[i].used; k++) {
            assert_int_equal(atomic_load(&workers[i].trials[k].answers), 1);
        }
        free(workers[i].trials);
    }
}

int
wp_store_conformance_run(const struct wp_store_factory *with)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_port_is_whole),
        cmocka_unit_test(test_every_cell),
        cmocka_unit_test(test_claim_gets_one_of_many),
        cmocka_unit_test(test_sandbox_goes_to_one_of_many),
        cmocka_unit_test(test_stale_ops_do_no_harm),
        cmocka_unit_test(test_random_ops_follow_the_model),
        cmocka_unit_test(test_threads_never_share),
    };

    factory = with;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
