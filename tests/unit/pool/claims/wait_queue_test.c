/* tests/unit/pool/claims/wait_queue_test.c - order, fairness, bounds and time-outs of the
 * wait queue, by example and against a naive model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/rng.h"
#include "pool/claims/wait_queue.h"
#include "tests/support/base/asked_memory.h"

static bool
is_waiting(const struct wp_claim *claim)
{
    return claim->timed != 0;
}

static const struct wp_hash_key key = {1, 2};

static struct wp_claim
claim_of(const char *tenant, int64_t wait_until_ns)
{
    return (struct wp_claim){.tenant = wp_str_from(tenant),
                             .wait_until_ns = wait_until_ns};
}

/* One tenant: the order of arrival. */
static void
test_fifo_within_a_tenant(void **state)
{
    struct wp_wait_queue queue;
    struct wp_claim claims[5];

    (void)state;
    assert_true(wp_wait_queue_init(&queue, 10, 10, key));
    assert_null(wp_wait_queue_pop_next(&queue));
    for (int i = 0; i < 5; i++) {
        claims[i] = claim_of("a", 100 - i);
        assert_false(is_waiting(&claims[i]));
        assert_int_equal(wp_wait_queue_push(&queue, &claims[i]),
                         WP_WAIT_QUEUED);
        assert_true(is_waiting(&claims[i]));
    }
    for (int i = 0; i < 5; i++) {
        assert_ptr_equal(wp_wait_queue_pop_next(&queue), &claims[i]);
        assert_false(is_waiting(&claims[i]));
    }
    assert_null(wp_wait_queue_pop_next(&queue));
    wp_wait_queue_fini(&queue);
}

/* A tenant with many claims does not keep a later one with a single claim
 * waiting: "a a a a", then "b", then "c c" are served a b c a c a a. */
static void
test_tenants_take_turns(void **state)
{
    static const char pushed[] = "aaaabcc";
    static const char served[] = "abcacaa";
    struct wp_wait_queue queue;
    struct wp_claim claims[7];
    char names[7][2];

    (void)state;
    assert_true(wp_wait_queue_init(&queue, 7, 4, key));
    for (size_t i = 0; i < 7; i++) {
        names[i][0] = pushed[i];
        names[i][1] = '\0';
        claims[i] = claim_of(names[i], 0);
        assert_int_equal(wp_wait_queue_push(&queue, &claims[i]),
                         WP_WAIT_QUEUED);
    }
    for (size_t i = 0; i < 7; i++) {
        const struct wp_claim *claim = wp_wait_queue_pop_next(&queue);

        assert_non_null(claim);
        assert_int_equal(claim->tenant.ptr[0], served[i]);
    }
    wp_wait_queue_fini(&queue);
}

static void
test_each_bound_has_its_refusal(void **state)
{
    struct wp_wait_queue queue;
    struct wp_claim a[3] = {claim_of("a", 1), claim_of("a", 2),
                            claim_of("a", 3)};
    struct wp_claim b[2] = {claim_of("b", 1), claim_of("", 2)};

    (void)state;
    assert_true(wp_wait_queue_init(&queue, 3, 2, key));
    assert_int_equal(wp_wait_queue_push(&queue, &a[0]), WP_WAIT_QUEUED);
    assert_int_equal(wp_wait_queue_push(&queue, &a[1]), WP_WAIT_QUEUED);
    assert_int_equal(wp_wait_queue_push(&queue, &a[2]), WP_WAIT_TENANT_FULL);
    assert_int_equal(wp_wait_queue_push(&queue, &b[0]), WP_WAIT_QUEUED);
    assert_int_equal(wp_wait_queue_push(&queue, &b[1]), WP_WAIT_FULL);
    assert_false(is_waiting(&a[2]));
    assert_false(is_waiting(&b[1]));
    assert_int_equal(wp_wait_queue_count(&queue), 3);
    assert_int_equal(wp_wait_queue_tenant_count(&queue, WP_STR("a")), 2);
    assert_int_equal(wp_wait_queue_tenant_count(&queue, WP_STR("b")), 1);
    assert_int_equal(wp_wait_queue_tenant_count(&queue, WP_STR("c")), 0);
    /* A refused claim may come again when there is room. */
    assert_true(wp_wait_queue_remove(&queue, &a[0]));
    assert_int_equal(wp_wait_queue_push(&queue, &a[2]), WP_WAIT_QUEUED);
    while (wp_wait_queue_pop_next(&queue) != NULL) {
    }
    wp_wait_queue_fini(&queue);
}

/* The tenant after the last record is refused, and is taken once any other
 * tenant has no claim left. */
static void
test_tenants_are_bounded(void **state)
{
    enum {
        N = WP_WAIT_TENANTS_MAX + 1
    };
    static struct wp_claim claims[N];
    static char names[N][16];
    struct wp_wait_queue queue;

    (void)state;
    assert_true(wp_wait_queue_init(&queue, 2 * N, 2, key));
    for (int i = 0; i < N; i++) {
        (void)snprintf(names[i], sizeof names[i], "t%d", i);
        claims[i] = claim_of(names[i], i);
        assert_int_equal(wp_wait_queue_push(&queue, &claims[i]),
                         i < N - 1 ? WP_WAIT_QUEUED : WP_WAIT_TENANTS_FULL);
    }
    assert_true(wp_wait_queue_remove(&queue, &claims[17]));
    assert_int_equal(wp_wait_queue_push(&queue, &claims[N - 1]),
                     WP_WAIT_QUEUED);
    for (int i = 0; i < N; i++) {
        assert_int_equal(wp_wait_queue_tenant_count(&queue, claims[i].tenant),
                         i != 17);
    }
    while (wp_wait_queue_pop_next(&queue) != NULL) {
    }
    wp_wait_queue_fini(&queue);
}

/* Nobody may wait where a bound is 0. */
static void
test_zero_bounds(void **state)
{
    struct wp_wait_queue queue;
    struct wp_claim claim = claim_of("a", 1);

    (void)state;
    assert_true(wp_wait_queue_init(&queue, 0, 5, key));
    assert_int_equal(wp_wait_queue_push(&queue, &claim), WP_WAIT_FULL);
    assert_int_equal(wp_wait_queue_next_deadline(&queue), WP_TIME_NEVER);
    wp_wait_queue_fini(&queue);
    assert_true(wp_wait_queue_init(&queue, 5, 0, key));
    assert_int_equal(wp_wait_queue_push(&queue, &claim), WP_WAIT_TENANT_FULL);
    assert_null(wp_wait_queue_pop_next(&queue));
    wp_wait_queue_fini(&queue);
}

/* The memory plan says what a queue takes; it grows only, and all is given
 * back, also by one that memory lacks for. */
static void
test_memory(void **state)
{
    struct wp_wait_queue queue;

    (void)state;
    assert_int_equal(asked_bytes(), 0);
    for (uint32_t n = 0; n < 3; n++) {
        assert_true(wp_wait_queue_init(&queue, n, 5, key));
        assert_int_equal(asked_bytes(), wp_wait_queue_bytes(n));
        wp_wait_queue_fini(&queue);
        assert_int_equal(asked_bytes(), 0);
    }
    for (int piece = 1; piece <= 3; piece++) {
        asked.refuse = piece;
        assert_false(wp_wait_queue_init(&queue, 5, 5, key));
        assert_int_equal(asked.refuse, 0);
        assert_int_equal(asked_bytes(), 0);
        wp_wait_queue_fini(&queue); /* Again does no harm. */
    }
    assert_true(wp_wait_queue_init(&queue, 5, 5, key));
    asked.refuse = 1;
    assert_false(wp_wait_queue_resize(&queue, 9, 6));
    assert_int_equal(asked_bytes(), wp_wait_queue_bytes(5));
    assert_int_equal(queue.waiters_max, 5);
    assert_int_equal(queue.tenant_waiters_max, 5);
    assert_true(wp_wait_queue_resize(&queue, 9, 6));
    assert_int_equal(asked_bytes(), wp_wait_queue_bytes(9));
    assert_true(wp_wait_queue_resize(&queue, 3, 7));
    asked.refuse = 1; /* What was had before is there still. */
    assert_true(wp_wait_queue_resize(&queue, 9, 8));
    assert_int_equal(asked.refuse, 1);
    asked.refuse = 0;
    assert_int_equal(asked_bytes(), wp_wait_queue_bytes(9));
    assert_int_equal(queue.waiters_max, 9);
    assert_int_equal(queue.tenant_waiters_max, 8);
    wp_wait_queue_fini(&queue);
    assert_int_equal(asked_bytes(), 0);
}

/* Time-outs come by deadline, the deadline's own instant included, and cost
 * their tenant no turn. */
static void
test_time_outs(void **state)
{
    struct wp_wait_queue queue;
    struct wp_claim a[3] = {claim_of("a", 30), claim_of("a", 10),
                            claim_of("a", WP_TIME_NEVER)};
    struct wp_claim b = claim_of("b", 20);

    (void)state;
    assert_true(wp_wait_queue_init(&queue, 4, 4, key));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(wp_wait_queue_push(&queue, &a[i]), WP_WAIT_QUEUED);
    }
    assert_int_equal(wp_wait_queue_push(&queue, &b), WP_WAIT_QUEUED);
    assert_int_equal(wp_wait_queue_next_deadline(&queue), 10);
    assert_null(wp_wait_queue_pop_expired(&queue, 9));
    assert_ptr_equal(wp_wait_queue_pop_expired(&queue, 20), &a[1]);
    assert_ptr_equal(wp_wait_queue_pop_expired(&queue, 20), &b);
    assert_null(wp_wait_queue_pop_expired(&queue, 20));
    assert_ptr_equal(wp_wait_queue_pop_next(&queue), &a[0]);
    assert_int_equal(wp_wait_queue_next_deadline(&queue), WP_TIME_NEVER);
    assert_true(wp_wait_queue_remove(&queue, &a[2]));
    assert_false(wp_wait_queue_remove(&queue, &a[2]));
    wp_wait_queue_fini(&queue);
}

/* --- Against a model: arrays, and the rules said as plainly as can be. --- */

enum {
    MODEL_CLAIMS = 60,
    MODEL_TENANTS = 7,
    MODEL_STEPS = 40000,
};

static struct {
    struct wp_claim claims[MODEL_CLAIMS];
    int order[MODEL_CLAIMS]; /* Waiting claims by arrival. */
    int turn[MODEL_TENANTS]; /* Waiting tenants by turn. */
    int n_order;
    int n_turn;
} model;

static const char *const model_tenants[MODEL_TENANTS] = {
    "", "a", "b", "ab", "ba", "tenant", "tenant2"};

static int
model_tenant(int claim)
{
    for (int i = 0; i < MODEL_TENANTS; i++) {
        if (wp_str_is(model.claims[claim].tenant, model_tenants[i])) {
            return i;
        }
    }
    return -1;
}

static int
model_count(int tenant)
{
    int n = 0;

    for (int i = 0; i < model.n_order; i++) {
        n += model_tenant(model.order[i]) == tenant;
    }
    return n;
}

static void
array_remove(int *array, int *n, int value)
{
    for (int i = 0; i < *n; i++) {
        if (array[i] == value) {
            memmove(&array[i], &array[i + 1],
                    (size_t)(*n - i - 1) * sizeof *array);
            (*n)--;
            return;
        }
    }
}

static void
model_leave(int claim)
{
    int tenant = model_tenant(claim);

    array_remove(model.order, &model.n_order, claim);
    if (model_count(tenant) == 0) {
        array_remove(model.turn, &model.n_turn, tenant);
    }
}

static void
step_push(struct wp_wait_queue *queue, struct wp_rng *rng, int claim)
{
    int tenant = (int)wp_rng_below(rng, MODEL_TENANTS);
    enum wp_wait_result expected = WP_WAIT_QUEUED;

    if (is_waiting(&model.claims[claim])) {
        return;
    }
    model.claims[claim] =
        claim_of(model_tenants[tenant], (int64_t)wp_rng_below(rng, 100));
    if ((uint32_t)model.n_order >= queue->waiters_max) {
        expected = WP_WAIT_FULL;
    } else if ((uint32_t)model_count(tenant) >= queue->tenant_waiters_max) {
        expected = WP_WAIT_TENANT_FULL;
    }
    assert_int_equal(wp_wait_queue_push(queue, &model.claims[claim]), expected);
    if (expected == WP_WAIT_QUEUED) {
        if (model_count(tenant) == 0) {
            model.turn[model.n_turn++] = tenant;
        }
        model.order[model.n_order++] = claim;
    }
}

static void
step_pop(struct wp_wait_queue *queue)
{
    struct wp_claim *claim = wp_wait_queue_pop_next(queue);

    if (model.n_turn == 0) {
        assert_null(claim);
        return;
    }
    for (int i = 0; i < model.n_order; i++) {
        int tenant = model.turn[0];

        if (model_tenant(model.order[i]) == tenant) {
            assert_ptr_equal(claim, &model.claims[model.order[i]]);
            model_leave(model.order[i]);
            if (model_count(tenant) > 0) {
                array_remove(model.turn, &model.n_turn, tenant);
                model.turn[model.n_turn++] = tenant;
            }
            return;
        }
    }
    fail_msg("the model is inconsistent");
}

static int64_t
model_deadline(void)
{
    int64_t earliest = WP_TIME_NEVER;

    for (int i = 0; i < model.n_order; i++) {
        int64_t until = model.claims[model.order[i]].wait_until_ns;

        earliest = until < earliest ? until : earliest;
    }
    return earliest;
}

static void
step_expire(struct wp_wait_queue *queue, int64_t now_ns)
{
    int64_t earliest = model_deadline();
    struct wp_claim *claim = wp_wait_queue_pop_expired(queue, now_ns);

    if (earliest > now_ns) {
        assert_null(claim);
        return;
    }
    assert_non_null(claim);
    assert_int_equal(claim->wait_until_ns, earliest);
    model_leave((int)(claim - model.claims));
}

static void
step(struct wp_wait_queue *queue, struct wp_rng *rng)
{
    int claim = (int)wp_rng_below(rng, MODEL_CLAIMS);

    switch (wp_rng_below(rng, 8)) {
    case 0:
        step_pop(queue);
        break;
    case 1:
        step_expire(queue, (int64_t)wp_rng_below(rng, 100));
        break;
    case 2:
    case 3:
        if (wp_wait_queue_remove(queue, &model.claims[claim])) {
            model_leave(claim);
        }
        break;
    default:
        step_push(queue, rng, claim);
        break;
    }
}

static void
test_against_model(void **state)
{
    const char *given = getenv("WP_TEST_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : 20260131;
    struct wp_rng rng;
    struct wp_wait_queue queue;

    (void)state;
    print_message("seed %llu (set WP_TEST_SEED to change)\n",
                  (unsigned long long)seed);
    wp_rng_init(&rng, seed);
    assert_true(wp_wait_queue_init(&queue, 40, 9, key));
    for (int i = 0; i < MODEL_STEPS; i++) {
        step(&queue, &rng);
        assert_int_equal(wp_wait_queue_count(&queue), model.n_order);
        assert_int_equal(wp_wait_queue_next_deadline(&queue), model_deadline());
        for (int t = 0; t < MODEL_TENANTS; t++) {
            assert_int_equal(wp_wait_queue_tenant_count(
                                 &queue, wp_str_from(model_tenants[t])),
                             model_count(t));
        }
    }
    while (model.n_turn > 0) {
        step_pop(&queue);
    }
    assert_int_equal(wp_wait_queue_count(&queue), 0);
    wp_wait_queue_fini(&queue);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fifo_within_a_tenant),
        cmocka_unit_test(test_tenants_take_turns),
        cmocka_unit_test(test_each_bound_has_its_refusal),
        cmocka_unit_test(test_tenants_are_bounded),
        cmocka_unit_test(test_zero_bounds),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_time_outs),
        cmocka_unit_test(test_against_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
