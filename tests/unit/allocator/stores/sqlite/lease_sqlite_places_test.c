/* Where the records are: as the transactions that were committed have left
 * them; what was rolled back has never been. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "allocator/stores/sqlite/places.h"
#include "pool/base/rng.h"
#include "pool/leases/rules.h"

enum {
    RECORDS = 50,
    CHANGES = 20,
    TRANSACTIONS = 4000,
};

static struct wp_lease_record records[RECORDS];
static bool no_memory;

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *
__wrap_realloc(void *old, size_t size)
{
    return no_memory ? NULL : __real_realloc(old, size);
}

static bool
finds_sandbox(const struct wp_lease_places *places, uint32_t i)
{
    uint8_t uid[WP_UID_LEN] = {(uint8_t)i};
    uint64_t at = 0;
    int64_t row = wp_lease_places_of_sandbox(places, uid, &at);

    assert_true(row == 0 || row == (int64_t)i + 1);
    return row != 0;
}

static bool
finds_claim(const struct wp_lease_places *places, uint32_t i)
{
    char id[16];
    uint64_t at = 0;
    int64_t row;

    (void)snprintf(id, sizeof id, "c%u", i);
    row = wp_lease_places_of_claim(places, wp_str_from(id), WP_STR("t"), &at);
    assert_true(row == 0 || row == (int64_t)i + 1);
    return row != 0;
}

static void
check(const struct wp_lease_places *places)
{
    for (uint32_t i = 0; i < RECORDS; i++) {
        assert_int_equal(finds_sandbox(places, i),
                         records[i].state != WP_RECORD_NONE);
        assert_int_equal(finds_claim(places, i),
                         wp_record_is_claimed(records[i].state));
    }
}

static struct wp_lease_record
record_in(uint32_t i, enum wp_record_state state)
{
    struct wp_lease_record record = {.uid = {(uint8_t)i}, .state = state};

    if (wp_record_is_claimed(state)) {
        (void)snprintf(record.claim_id, sizeof record.claim_id, "c%u", i);
        (void)snprintf(record.tenant, sizeof record.tenant, "t");
    }
    return record;
}

static void
test_transactions(void **state)
{
    struct wp_lease_places places;
    struct wp_rng rng;

    (void)state;
    memset(records, 0, sizeof records);
    wp_rng_init(&rng, 3);
    assert_true(wp_lease_places_init(&places, 4, 2)); /* It grows. */
    for (int n = 0; n < TRANSACTIONS; n++) {
        struct wp_lease_record before[RECORDS];
        bool kept = wp_rng_unit(&rng) < 0.6;

        memcpy(before, records, sizeof before);
        assert_true(wp_lease_places_begin(&places, CHANGES));
        for (int k = 0; k < CHANGES; k++) {
            uint32_t i = (uint32_t)(wp_rng_unit(&rng) * RECORDS);
            struct wp_lease_record after =
                record_in(i, (enum wp_record_state)(wp_rng_unit(&rng) *
                                                    (WP_RECORD_ENDED + 1)));

            wp_lease_places_move(&places, (int64_t)i + 1, &records[i], &after);
            records[i] = after;
        }
        check(&places); /* Each is on what the ones before it left. */
        if (kept) {
            wp_lease_places_keep(&places);
        } else {
            memcpy(records, before, sizeof records);
        }
        wp_lease_places_undo(&places); /* Of what was kept: nothing. */
        check(&places);
    }
    wp_lease_places_fini(&places);
}

/* As many records as were said, in transactions of as many changes. */
static void
test_full_needs_no_more_memory(void **state)
{
    const struct wp_lease_record none = {.state = WP_RECORD_NONE};
    struct wp_lease_places places;
    struct wp_lease_places first;

    (void)state;
    assert_true(wp_lease_places_init(&places, RECORDS, CHANGES));
    first = places;
    for (uint32_t i = 0; i < RECORDS; i++) {
        struct wp_lease_record record = record_in(i, WP_RECORD_HELD);

        if (i % CHANGES == 0) {
            assert_true(wp_lease_places_begin(&places, CHANGES));
        }
        wp_lease_places_move(&places, (int64_t)i + 1, &none, &record);
    }
    assert_true(wp_lease_places_begin(&places, CHANGES));
    assert_ptr_equal(places.sandboxes.cells, first.sandboxes.cells);
    assert_ptr_equal(places.claims.cells, first.claims.cells);
    assert_ptr_equal(places.moves, first.moves);
    wp_lease_places_fini(&places);
}

/* A claim is its id and its tenant; neither alone finds it. */
static void
test_claims_of_one_id(void **state)
{
    static const char *const tenants[] = {"a", "b", ""};
    const struct wp_lease_record none = {.state = WP_RECORD_NONE};
    struct wp_lease_places places;
    uint64_t at;

    (void)state;
    assert_true(wp_lease_places_init(&places, 3, 3));
    assert_true(wp_lease_places_begin(&places, 3));
    for (int64_t i = 0; i < 3; i++) {
        struct wp_lease_record record = record_in((uint32_t)i, WP_RECORD_HELD);

        (void)snprintf(record.claim_id, sizeof record.claim_id, "same");
        (void)snprintf(record.tenant, sizeof record.tenant, "%s", tenants[i]);
        wp_lease_places_move(&places, i + 7, &none, &record);
    }
    wp_lease_places_keep(&places);
    for (int64_t i = 0; i < 3; i++) {
        struct wp_str tenant = wp_str_from(tenants[i]);

        at = 0;
        assert_int_equal(
            wp_lease_places_of_claim(&places, WP_STR("same"), tenant, &at),
            i + 7);
        assert_int_equal(
            wp_lease_places_of_claim(&places, WP_STR("same"), tenant, &at), 0);
        at = 0;
        assert_int_equal(
            wp_lease_places_of_claim(&places, WP_STR("other"), tenant, &at), 0);
    }
    at = 0;
    assert_int_equal(
        wp_lease_places_of_claim(&places, WP_STR("same"), WP_STR("c"), &at), 0);
    wp_lease_places_fini(&places);
}

/* Nobody can choose names that meet in one place: where they meet is another
 * place each time. */
static void
test_places_are_not_foreseen(void **state)
{
    struct wp_lease_places first;
    struct wp_lease_places second;

    (void)state;
    assert_true(wp_lease_places_init(&first, 4, 2));
    assert_true(wp_lease_places_init(&second, 4, 2));
    assert_memory_not_equal(&first.key, &second.key, sizeof first.key);
    wp_lease_places_fini(&first);
    wp_lease_places_fini(&second);
}

/* No transaction begins without room for its moves; the next try has it. */
static void
test_memory_lacks(void **state)
{
    struct wp_lease_places places;

    (void)state;
    memset(&places, 0, sizeof places);
    assert_true(wp_lease_places_init(&places, RECORDS, 1));
    no_memory = true;
    assert_true(wp_lease_places_begin(&places, 1));
    assert_false(wp_lease_places_begin(&places, CHANGES));
    no_memory = false;
    assert_true(wp_lease_places_begin(&places, CHANGES));
    wp_lease_places_fini(&places);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_lacks),
        cmocka_unit_test(test_transactions),
        cmocka_unit_test(test_full_needs_no_more_memory),
        cmocka_unit_test(test_claims_of_one_id),
        cmocka_unit_test(test_places_are_not_foreseen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
