/* ClaimBatch: as many as can be had, or all or nothing; and nothing held for a
 * client that has gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/base/held_locks.h"
#include "tests/support/services/service_world.h"

static struct wp_world world;
static struct wp_fake_call a;
static struct wp_fake_call b;
static struct wp_fake_call c;

enum wp_status __real_wp_pools_claim(struct wp_pools *pools,
                                     struct wp_claim *claim);
enum wp_status __wrap_wp_pools_claim(struct wp_pools *pools,
                                     struct wp_claim *claim);
bool __real_wp_pools_cancel(struct wp_pools *pools, struct wp_claim *claim);
bool __wrap_wp_pools_cancel(struct wp_pools *pools, struct wp_claim *claim);

/* What the store answers on another thread while the claim that begins so is
 * given to the pool, or is withdrawn; NULL: nothing. */
static const char *answers_at_claim;
static const char *answers_at_cancel;
static enum wp_status answer_is;

static void
answer_at(const char **id, const struct wp_claim *claim)
{
    if (*id != NULL && wp_str_is(claim->claim_id, *id)) {
        *id = NULL;
        assert_int_equal(wp_rig_store_answer(&world.rig, answer_is), 1);
    }
}

enum wp_status
__wrap_wp_pools_claim(struct wp_pools *pools, struct wp_claim *claim)
{
    enum wp_status status = __real_wp_pools_claim(pools, claim);

    answer_at(&answers_at_claim, claim);
    return status;
}

bool
__wrap_wp_pools_cancel(struct wp_pools *pools, struct wp_claim *claim)
{
    bool cancelled = __real_wp_pools_cancel(pools, claim);

    answer_at(&answers_at_cancel, claim);
    return cancelled;
}

static int
setup(void **state)
{
    (void)state;
    wp_world_init(&world, 300, 4);
    wp_world_call(&world, &a);
    wp_world_call(&world, &b);
    wp_world_call(&world, &c);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    held_locks_are_free();
    wp_fake_call_fini(&a);
    wp_fake_call_fini(&b);
    wp_fake_call_fini(&c);
    wp_world_fini(&world);
    return 0;
}

/* Starts a batch of ids prefix-0 .. prefix-(n-1). */
static void
batch(struct wp_fake_call *fake, const char *prefix, uint32_t n,
      int64_t wait_ms, bool all_or_nothing)
{
    static char ids[WP_BATCH_MAX][32];
    struct wp_str claim_ids[WP_BATCH_MAX];
    const struct wp_wire_batch_request request = {
        .pool = {WP_STR("default"), WP_STR("p")},
        .claim_ids = claim_ids,
        .n_claims = n,
        .wait_ms = wait_ms,
        .all_or_nothing = all_or_nothing,
    };

    for (uint32_t i = 0; i < n; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "%s-%u", prefix, i);
        claim_ids[i] = wp_str_from(ids[i]);
    }
    WP_WORLD_START(&world.allocator, fake, "ClaimBatch", batch_request,
                   &request);
}

/* How many items have that code; all other items have another one. */
static uint32_t
count(const struct wp_fake_call *fake, enum wp_status status)
{
    struct wp_wire_batch_response response;
    uint32_t n = 0;

    wp_world_assert_ended(fake, WP_OK);
    WP_WORLD_REPLY(&world, fake, batch_response, &response);
    for (uint32_t i = 0; i < response.n_items; i++) {
        const struct wp_wire_batch_item *item = &response.items[i];

        assert_true((item->code == 0) == (item->grant != NULL));
        assert_true((item->code == 0) == (item->message.len == 0));
        n += item->code == wp_status_grpc_code(status);
    }
    return n;
}

static struct wp_pool_stats
stats(void)
{
    return wp_rig_stats(&world.rig);
}

/* Each claim that gets nothing has the whole reason. */
static void
test_says_why(void **state)
{
    struct wp_str ids[] = {WP_STR("a"), WP_STR("b")};
    const struct wp_wire_batch_request request = {
        .pool = {WP_STR("default"), WP_STR("p")},
        .claim_ids = ids,
        .n_claims = 2,
        .ttl_ms = 25 * 3600 * 1000,
    };
    struct wp_wire_batch_response response;

    (void)state;
    WP_WORLD_START(&world.allocator, &a, "ClaimBatch", batch_request, &request);
    wp_world_assert_ended(&a, WP_OK);
    WP_WORLD_REPLY(&world, &a, batch_response, &response);
    assert_int_equal(response.n_items, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(wp_str_eq(response.items[i].claim_id, ids[i]));
        assert_int_equal(response.items[i].code,
                         wp_status_grpc_code(WP_INVALID_ARGUMENT));
        assert_string_equal(response.items[i].message.ptr,
                            "ttl_ms: at most 86400000 expected, the longest "
                            "that this pool allows");
        assert_false(response.items[i].replayed);
    }
}

static void
test_all_served(void **state)
{
    (void)state;
    batch(&a, "id", 4, 0, true);
    assert_int_equal(count(&a, WP_OK), 4);
    assert_int_equal(stats().leased, 4);
    batch(&b, "id", 4, 0, false); /* The same again: the same leases. */
    assert_int_equal(count(&b, WP_OK), 4);
    assert_int_equal(stats().leased, 4);
}

static void
test_as_many_as_can_be_had(void **state)
{
    (void)state;
    batch(&a, "id", 6, 0, false);
    assert_int_equal(count(&a, WP_OK), 4);
    assert_int_equal(count(&a, WP_RESOURCE_EXHAUSTED), 2);
    assert_int_equal(stats().leased, 4);
}

static void
test_all_or_nothing_takes_nothing(void **state)
{
    (void)state;
    batch(&a, "id", 6, 0, true);
    wp_world_assert_ended(&a, WP_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(a.message, "claim_ids[0]: fewer sandboxes are ready "
                                      "than the batch needs"));
    assert_non_null(strstr(a.message, "none of the 6 is held"));
    assert_true(a.retry_after_ns > 0);
    wp_world_settle(&world);
    assert_int_equal(stats().leased, 0);
    assert_int_equal(stats().ready, 4);
    assert_int_equal(stats().undone_total, 0);
    assert_int_equal(stats().missed_total, 1);
}

/* Those that are held already need no other sandbox. */
static void
test_all_or_nothing_of_some_held(void **state)
{
    (void)state;
    batch(&a, "id", 3, 0, true);
    assert_int_equal(count(&a, WP_OK), 3);
    batch(&b, "id", 4, 0, true);
    assert_int_equal(count(&b, WP_OK), 4);
    assert_int_equal(stats().leased, 4);
}

static void
test_the_largest_batch(void **state)
{
    struct wp_err err;

    (void)state;
    assert_int_equal(
        wp_pools_set_target(world.rig.pools, 0, WP_BATCH_MAX, &err), WP_OK);
    wp_world_settle(&world);
    batch(&a, "id", WP_BATCH_MAX, 0, true);
    assert_int_equal(count(&a, WP_OK), WP_BATCH_MAX);
    assert_int_equal(stats().leased, WP_BATCH_MAX);
}

static void
test_waiting_claims_are_served(void **state)
{
    (void)state;
    batch(&a, "id", 7, 10000, true);
    assert_false(a.finished);
    assert_int_equal(stats().waiting, 3);
    wp_world_settle(&world); /* The refill serves them. */
    assert_int_equal(count(&a, WP_OK), 7);
    assert_int_equal(stats().leased, 7);
}

/* A claim that only repeats an older one is not the batch's to give back. */
static void
test_time_ends_all_or_nothing(void **state)
{
    (void)state;
    world.rig.backend.ready = WP_FAKE_READY_NEVER;
    wp_world_claim(&world, &c, "id-5", "", 0);
    batch(&a, "id", 8, 10000, true);
    assert_false(a.finished);
    wp_world_advance(&world, 11 * WP_NS_PER_S);
    wp_world_assert_ended(&a, WP_RESOURCE_EXHAUSTED);
    assert_int_equal(stats().waiting, 0);
    wp_world_settle(&world);
    assert_int_equal(stats().leased, 1);
}

/* The first one that gets nothing has those withdrawn that wait, at once. */
static void
test_conflicting_id_ends_all_or_nothing(void **state)
{
    const struct wp_wire_claim_request other = {
        .pool = {WP_STR("default"), WP_STR("p")},
        .claim_id = WP_STR("id-7"),
        .ttl_ms = 7000,
    };

    (void)state;
    world.rig.backend.ready = WP_FAKE_READY_NEVER;
    WP_WORLD_START(&world.allocator, &c, "Claim", claim_request, &other);
    wp_world_assert_ended(&c, WP_OK);
    batch(&a, "id", 9, 10000, true);
    /* id-0 .. id-2 were served, id-3 .. id-6 waited, id-8 was not tried. */
    wp_world_assert_ended(&a, WP_ALREADY_EXISTS);
    assert_non_null(strstr(a.message, "claim_ids[7]"));
    assert_int_equal(stats().waiting, 0);
    wp_world_settle(&world);
    assert_int_equal(stats().leased, 1);
    assert_int_equal(stats().ready, 3);
}

/* ... also when it fails later, on another thread's account. */
static void
test_late_failure_ends_all_or_nothing(void **state)
{
    (void)state;
    world.rig.backend.ready = WP_FAKE_READY_NEVER;
    world.rig.store_later = true;
    batch(&a, "id", 6, 10000, true);
    assert_int_equal(stats().waiting, 2);
    assert_int_equal(wp_rig_store_answer(&world.rig, WP_UNKNOWN_OUTCOME), 4);
    wp_world_assert_ended(&a, WP_UNAVAILABLE);
    assert_int_equal(stats().waiting, 0);
    assert_int_equal(stats().quarantined, 4);
}

static void
test_cancel_while_waiting(void **state)
{
    (void)state;
    world.rig.backend.ready = WP_FAKE_READY_NEVER;
    batch(&a, "id", 7, 10000, false);
    assert_false(a.finished);
    wp_fake_call_cancel(&a);
    wp_world_assert_ended(&a, WP_CANCELLED);
    wp_world_settle(&world);
    assert_int_equal(stats().waiting, 0);
    assert_int_equal(stats().leased, 0);
    assert_int_equal(stats().ready, 4);
}

static void
test_cancel_while_committing(void **state)
{
    (void)state;
    world.rig.store_later = true;
    batch(&a, "id", 7, 10000, true);
    wp_fake_call_cancel(&a); /* Withdraws three; four are being written. */
    assert_false(a.finished);
    assert_int_equal(wp_rig_store_answer(&world.rig, WP_OK), 4);
    wp_world_assert_ended(&a, WP_CANCELLED);
    world.rig.store_later = false;
    wp_world_settle(&world);
    assert_int_equal(stats().leased, 0);
    assert_int_equal(stats().waiting, 0);
}

static void
test_batches_are_bounded(void **state)
{
    (void)state;
    world.rig.backend.ready = WP_FAKE_READY_NEVER;
    batch(&a, "a", 5, 10000, false);
    batch(&b, "b", 5, 10000, false);
    batch(&c, "c", 5, 10000, false);
    wp_world_assert_ended(&c, WP_RESOURCE_EXHAUSTED);
    assert_string_equal(c.message,
                        "too many batches are in progress; try again");
    assert_int_equal(c.retry_after_ns, 100 * WP_NS_PER_MS);
    wp_fake_call_cancel(&a);
    wp_world_assert_ended(&a, WP_CANCELLED);
    batch(wp_world_again(&world, &c), "c", 1, 0, false);
    assert_true(c.finished);
    wp_fake_call_cancel(&b);
    wp_world_assert_ended(&b, WP_CANCELLED);
}

/* What is refused before it begins gives its batch object back. */
static void
test_bad_requests(void **state)
{
    struct wp_str id = WP_STR("id");
    struct wp_wire_batch_request request = {
        .pool = {WP_STR("default"), WP_STR("nope")},
        .claim_ids = &id,
        .n_claims = 1,
    };

    (void)state;
    for (int i = 0; i < 5; i++) {
        WP_WORLD_START(&world.allocator, wp_world_again(&world, &a),
                       "ClaimBatch", batch_request, &request);
        wp_world_assert_ended(&a, WP_NOT_FOUND);
        wp_fake_call_start(wp_world_again(&world, &a), &world.allocator,
                           "ClaimBatch", (const uint8_t *)"\xff", 1);
        wp_world_assert_ended(&a, WP_INVALID_ARGUMENT);
        batch(wp_world_again(&world, &a), "id", 0, 0, false);
        wp_world_assert_ended(&a, WP_INVALID_ARGUMENT);
        (void)snprintf(wp_world_again(&world, &a)->call.who.tenant, 8, "me");
        request.pool.name = WP_STR("p");
        request.tenant = WP_STR("other");
        WP_WORLD_START(&world.allocator, &a, "ClaimBatch", batch_request,
                       &request);
        wp_world_assert_ended(&a, WP_PERMISSION_DENIED);
        request.pool.name = WP_STR("nope");
        request.tenant = WP_STR("");
    }
}

/* ... and its batch object is given back. */
static void
test_no_memory_for_the_reply(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        wp_world_again(&world, &a)->no_memory = true;
        batch(&a, "id", 3, 0, false);
        wp_world_assert_ended(&a, WP_RESOURCE_EXHAUSTED);
        assert_string_equal(a.message, "no memory for the reply");
        assert_int_equal(a.retry_after_ns, 0);
        wp_world_settle(&world);
        assert_int_equal(stats().leased, 0);
        assert_int_equal(stats().ready, 4);
    }
}

/* What comes of one batch is nothing to the next one in the same object. */
static void
test_a_batch_after_one_that_failed(void **state)
{
    (void)state;
    batch(&a, "id", 6, 0, true);
    wp_world_assert_ended(&a, WP_RESOURCE_EXHAUSTED);
    assert_string_equal(a.message,
                        "claim_ids[0]: fewer sandboxes are ready than the "
                        "batch needs; none of the 6 is held");
    wp_world_settle(&world);
    batch(&b, "id", 4, 0, true);
    assert_int_equal(count(&b, WP_OK), 4);
    assert_int_equal(stats().leased, 4);
}

/* The first that got nothing is told of, with its own time to come again. */
static void
test_the_first_failure_is_told(void **state)
{
    (void)state;
    batch(&a, "id", 4, 0, true);
    assert_int_equal(count(&a, WP_OK), 4);
    batch(&b, "id", 5, 0, true);
    wp_world_assert_ended(&b, WP_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(b.message, "claim_ids[4]: "));
    assert_non_null(strstr(b.message, "; none of the 5 is held"));
    wp_world_claim(&world, &c, "another", "", 0);
    wp_world_assert_ended(&c, WP_RESOURCE_EXHAUSTED);
    assert_int_equal(b.retry_after_ns, c.retry_after_ns);
    wp_world_settle(&world);
    /* Those of the first batch are not the second's to give back. */
    assert_int_equal(stats().leased, 4);
}

/* One that is being written when another is given to the pool, and fails before
 * that one is known to wait: it is withdrawn all the same. */
static void
test_failure_while_claims_are_given(void **state)
{
    struct wp_err err;

    (void)state;
    assert_int_equal(wp_pools_set_target(world.rig.pools, 0, 1, &err), WP_OK);
    wp_world_settle(&world);
    assert_int_equal(stats().ready, 1);
    world.rig.backend.ready = WP_FAKE_READY_NEVER;
    world.rig.store_later = true;
    answers_at_claim = "id-2";
    answer_is = WP_UNAVAILABLE;
    batch(&a, "id", 4, 10000, true);
    assert_null(answers_at_claim);
    wp_world_assert_ended(&a, WP_UNAVAILABLE);
    assert_memory_equal(a.message, "claim_ids[0]: ", 14);
    assert_int_equal(stats().waiting, 0);
    assert_int_equal(stats().leased, 0);
}

/* The store answers while the claims of one who has gone are withdrawn: who is
 * last of the two gives all back. */
static void
test_answer_while_claims_are_withdrawn(void **state)
{
    (void)state;
    world.rig.store_later = true;
    answers_at_cancel = "id-0";
    answer_is = WP_OK;
    batch(&a, "id", 1, 0, false);
    wp_fake_call_cancel(&a);
    assert_null(answers_at_cancel);
    wp_world_assert_ended(&a, WP_CANCELLED);
    world.rig.store_later = false;
    wp_world_settle(&world);
    assert_int_equal(stats().leased, 0);
    assert_int_equal(stats().ready, 4);
    /* Its object is another's again. */
    for (int i = 0; i < 3; i++) {
        batch(wp_world_again(&world, &b), "id", 1, 0, false);
        wp_world_assert_ended(&b, WP_OK);
    }
}

static void
test_a_replica_that_does_not_serve(void **state)
{
    (void)state;
    atomic_store(&world.serves, false);
    batch(&a, "id", 2, 0, false);
    wp_world_assert_ended(&a, WP_UNAVAILABLE);
    assert_string_equal(a.message,
                        "this replica does not lead, and its lease store is "
                        "not shared; the leader serves");
    assert_int_equal(stats().leased, 0);
    atomic_store(&world.serves, true);
    batch(wp_world_again(&world, &a), "id", 2, 0, false);
    assert_int_equal(count(&a, WP_OK), 2);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_says_why),
        TEST(test_all_served),
        TEST(test_as_many_as_can_be_had),
        TEST(test_all_or_nothing_takes_nothing),
        TEST(test_all_or_nothing_of_some_held),
        TEST(test_the_largest_batch),
        TEST(test_waiting_claims_are_served),
        TEST(test_time_ends_all_or_nothing),
        TEST(test_conflicting_id_ends_all_or_nothing),
        TEST(test_late_failure_ends_all_or_nothing),
        TEST(test_cancel_while_waiting),
        TEST(test_cancel_while_committing),
        TEST(test_batches_are_bounded),
        TEST(test_bad_requests),
        TEST(test_no_memory_for_the_reply),
        TEST(test_a_batch_after_one_that_failed),
        TEST(test_the_first_failure_is_told),
        TEST(test_failure_while_claims_are_given),
        TEST(test_answer_while_claims_are_withdrawn),
        TEST(test_a_replica_that_does_not_serve),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
