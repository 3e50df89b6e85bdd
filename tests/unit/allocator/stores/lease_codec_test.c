/* The packed form of a lease record: every field survives, and what is not
 * exactly such a form is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "allocator/stores/codec.h"
#include "pool/base/rng.h"
#include "pool/leases/rules.h"

static void
random_text(struct wp_rng *rng, char *out, size_t max)
{
    size_t len = wp_rng_below(rng, 4) == 0 ? max : wp_rng_below(rng, max + 1);

    for (size_t i = 0; i < len; i++) {
        out[i] = (char)(1 + wp_rng_below(rng, 255));
    }
    out[len] = '\0';
}

#define RANDOM_TEXT(rng, field) random_text((rng), (field), sizeof(field) - 1)

static struct wp_lease_record
random_record(struct wp_rng *rng)
{
    struct wp_lease_record record;

    memset(&record, 0, sizeof record);
    record.state = (enum wp_record_state)wp_rng_below(rng, WP_RECORD_ENDED + 1);
    record.fence = wp_rng_next(rng) >> wp_rng_below(rng, 64);
    RANDOM_TEXT(rng, record.pool_namespace);
    RANDOM_TEXT(rng, record.pool);
    RANDOM_TEXT(rng, record.sandbox);
    RANDOM_TEXT(rng, record.endpoint);
    if (wp_record_is_claimed(record.state)) {
        record.deadline_wall_ms = (int64_t)wp_rng_next(rng);
        record.granted_wall_ms = (int64_t)wp_rng_next(rng);
        record.fingerprint = wp_rng_next(rng);
        record.served = (uint32_t)wp_rng_next(rng);
        record.claim_id[0] = 'c';
        random_text(rng, record.claim_id + 1, sizeof record.claim_id - 2);
        RANDOM_TEXT(rng, record.tenant);
    }
    if (record.state == WP_RECORD_LOST) {
        RANDOM_TEXT(rng, record.lost_reason);
    }
    return record;
}

static void
test_round_trip(void **state)
{
    struct wp_rng rng;

    (void)state;
    wp_rng_init(&rng, 7);
    for (int i = 0; i < 20000; i++) {
        struct wp_lease_record record = random_record(&rng);
        struct wp_lease_record again;
        char packed[WP_LEASE_PACKED_MAX];
        size_t len = wp_lease_pack(&record, packed);

        assert_true(len <= sizeof packed);
        memset(&again, 0, sizeof again);
        assert_true(wp_lease_unpack((struct wp_str){packed, len}, &again));
        assert_memory_equal(&again, &record, sizeof again);
    }
}

/* The longest of everything fits exactly. */
static void
test_longest(void **state)
{
    struct wp_lease_record record;
    char packed[WP_LEASE_PACKED_MAX];

    (void)state;
    memset(&record, 0, sizeof record);
    record.state = WP_RECORD_LOST;
    memset(record.pool_namespace, 'n', WP_NAMESPACE_MAX);
    memset(record.pool, 'p', WP_POOL_NAME_MAX);
    memset(record.sandbox, 's', WP_SANDBOX_NAME_MAX);
    memset(record.endpoint, 'e', WP_ENDPOINT_MAX);
    memset(record.claim_id, 'c', WP_CLAIM_ID_MAX);
    memset(record.tenant, 't', WP_TENANT_MAX);
    memset(record.lost_reason, 'r', WP_REASON_MAX);
    assert_int_equal(wp_lease_pack(&record, packed), WP_LEASE_PACKED_MAX);
}

/* Cut, lengthened, or with a byte changed: refused, or another record that
 * packs to just these bytes. */
static void
test_damaged_is_refused(void **state)
{
    struct wp_rng rng;
    int refused = 0;

    (void)state;
    wp_rng_init(&rng, 8);
    for (int i = 0; i < 20000; i++) {
        struct wp_lease_record record = random_record(&rng);
        char packed[WP_LEASE_PACKED_MAX + 1];
        char again[WP_LEASE_PACKED_MAX];
        size_t len = wp_lease_pack(&record, packed);
        size_t kind = wp_rng_below(&rng, 3);

        if (kind == 0) {
            len = wp_rng_below(&rng, len);
        } else if (kind == 1) {
            packed[len++] = '0';
        } else {
            packed[wp_rng_below(&rng, len)] = (char)wp_rng_below(&rng, 256);
        }
        if (!wp_lease_unpack((struct wp_str){packed, len}, &record)) {
            refused++;
            continue;
        }
        assert_int_equal(kind, 2);
        assert_int_equal(wp_lease_pack(&record, again), len);
        assert_memory_equal(again, packed, len);
    }
    assert_true(refused > 13000);
}

static void
test_a_lease_of_no_claim_is_refused(void **state)
{
    struct wp_lease_record record = {.state = WP_RECORD_HELD};
    struct wp_lease_record again = {.state = WP_RECORD_NONE};
    char packed[WP_LEASE_PACKED_MAX];
    size_t len;

    (void)state;
    for (int i = 0; i < 2; i++) {
        record.claim_id[0] = i == 0 ? '\0' : 'c';
        len = wp_lease_pack(&record, packed);
        assert_int_equal(wp_lease_unpack((struct wp_str){packed, len}, &again),
                         i);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_longest),
        cmocka_unit_test(test_damaged_is_refused),
        cmocka_unit_test(test_a_lease_of_no_claim_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
