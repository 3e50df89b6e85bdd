#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pool/claims/claim_table.h"

enum {
    CLAIMS = 64,
    SERVED = 2,
};

static const struct wp_hash_key hash_key = {0x0123, 0x4567};
static const struct wp_slot_ref slot = {17, 4};
static struct wp_claim_table table;

static int
setup(void **state)
{
    (void)state;
    assert_true(wp_claim_table_init(&table, CLAIMS, NULL));
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    wp_claim_table_fini(&table);
    return 0;
}

static struct wp_claim_key
key_of(const char *tenant, const char *id)
{
    struct wp_claim_key key = {
        .fingerprint = 0xfeed,
        .claim_id = wp_str_from(id),
        .tenant = wp_str_from(tenant),
        .pool_index = 5,
    };

    key.hash = wp_claim_hash(hash_key, key.tenant, key.claim_id);
    return key;
}

static struct wp_claim_ref
begin_new(const char *id)
{
    struct wp_claim_key key = key_of("t", id);
    struct wp_claim_ref ref;

    assert_int_equal(wp_claim_table_begin(&table, &key, &ref), WP_CLAIM_NEW);
    return ref;
}

static bool
same(struct wp_claim_ref a, struct wp_claim_ref b)
{
    return a.index == b.index && a.generation == b.generation;
}

/* new -> found while pending and while held -> new again once ended. */
static void
knows_a_claim_until_it_ends(void **state)
{
    struct wp_claim_key key = key_of("t", "c");
    struct wp_claim_ref ref = begin_new("c");
    struct wp_claim_ref again;

    (void)state;
    assert_int_equal(wp_claim_table_begin(&table, &key, &again),
                     WP_CLAIM_FOUND);
    assert_true(same(ref, again));
    assert_false(wp_claim_table_hold(&table, ref, slot, 1, SERVED));
    assert_int_equal(wp_claim_table_begin(&table, &key, &again),
                     WP_CLAIM_FOUND);
    assert_true(same(ref, again));
    assert_true(wp_claim_table_find(&table, key.hash, &again));
    assert_true(same(ref, again));
    assert_true(wp_claim_table_end(&table, ref, NULL));
    assert_false(wp_claim_table_end(&table, ref, NULL));
    assert_false(wp_claim_table_find(&table, key.hash, &again));
    again = begin_new("c");
    assert_false(same(ref, again));
    assert_false(wp_claim_table_end(&table, ref, NULL));
}

/* Tenant and id do not run into each other. */
static void
tells_tenants_apart(void **state)
{
    struct wp_claim_key one = key_of("ab", "c");
    struct wp_claim_key two = key_of("a", "bc");
    struct wp_claim_key three = key_of("", "abc");
    struct wp_claim_ref ref;

    (void)state;
    assert_int_equal(wp_claim_table_begin(&table, &one, &ref), WP_CLAIM_NEW);
    assert_int_equal(wp_claim_table_begin(&table, &two, &ref), WP_CLAIM_NEW);
    assert_int_equal(wp_claim_table_begin(&table, &three, &ref), WP_CLAIM_NEW);
}

/* The capacity is exact: full refuses, known ids are still found, and an entry
 * that ends makes room for one. */
static void
refuses_when_full(void **state)
{
    struct wp_claim_ref refs[CLAIMS];
    struct wp_claim_key key;
    struct wp_claim_ref ref;
    char id[24];

    (void)state;
    for (int i = 0; i < CLAIMS; i++) {
        (void)snprintf(id, sizeof id, "claim-%d", i);
        refs[i] = begin_new(id);
    }
    key = key_of("t", "one more");
    assert_int_equal(wp_claim_table_begin(&table, &key, &ref), WP_CLAIM_FULL);
    assert_int_equal(ref.generation, 0);
    for (int i = 0; i < CLAIMS; i++) {
        (void)snprintf(id, sizeof id, "claim-%d", i);
        key = key_of("t", id);
        assert_int_equal(wp_claim_table_begin(&table, &key, &ref),
                         WP_CLAIM_FOUND);
        assert_true(same(ref, refs[i]));
    }
    assert_true(wp_claim_table_end(&table, refs[9], NULL));
    (void)begin_new("one more");
    key = key_of("t", "two more");
    assert_int_equal(wp_claim_table_begin(&table, &key, &ref), WP_CLAIM_FULL);
}

/* Against a model: random begins and ends of few ids in many turns. */
static void
agrees_with_a_model(void **state)
{
    struct wp_claim_ref model[2 * CLAIMS] = {{0, 0}};
    uint32_t seed = 12345;
    int live = 0;

    (void)state;
    for (int turn = 0; turn < 200000; turn++) {
        struct wp_claim_key key;
        struct wp_claim_ref ref;
        enum wp_claim_begin got;
        char id[24];
        uint32_t i;

        seed = seed * 1664525u + 1013904223u;
        i = (seed >> 8) % (2 * CLAIMS);
        (void)snprintf(id, sizeof id, "%u", i);
        key = key_of("", id);
        if ((seed >> 30) == 0) {
            assert_int_equal(wp_claim_table_end(&table, model[i], NULL),
                             model[i].generation != 0);
            live -= model[i].generation != 0;
            model[i].generation = 0;
            continue;
        }
        got = wp_claim_table_begin(&table, &key, &ref);
        if (model[i].generation != 0) {
            assert_int_equal(got, WP_CLAIM_FOUND);
            assert_true(same(ref, model[i]));
        } else if (live == CLAIMS) {
            assert_int_equal(got, WP_CLAIM_FULL);
        } else {
            assert_int_equal(got, WP_CLAIM_NEW);
            model[i] = ref;
            live++;
        }
    }
}

/* Entries whose hashes meet in one bucket are kept apart by the whole hash. */
static void
keeps_equal_buckets_apart(void **state)
{
    struct wp_claim_key key = key_of("t", "x");
    struct wp_claim_ref refs[8];
    struct wp_claim_ref ref;

    (void)state;
    for (uint64_t i = 0; i < 8; i++) {
        key.hash = (struct wp_hash128){7, (i * 5) % 8};
        assert_int_equal(wp_claim_table_begin(&table, &key, &refs[i]),
                         WP_CLAIM_NEW);
    }
    for (uint64_t i = 0; i < 8; i += 2) {
        assert_true(wp_claim_table_end(&table, refs[i], NULL));
    }
    for (uint64_t i = 0; i < 8; i++) {
        key.hash = (struct wp_hash128){7, (i * 5) % 8};
        assert_int_equal(wp_claim_table_find(&table, key.hash, &ref), i % 2);
        /* Equal halves the other way round, or in another bucket: no claim. */
        key.hash.low = 7 + (UINT64_C(1) << 63);
        assert_false(wp_claim_table_find(&table, key.hash, &ref));
    }
}

/* Buckets are split as entries come: every claim is found before and after, and
 * none twice. */
static void
finds_all_while_buckets_split(void **state)
{
    enum {
        MANY = 5000
    };
    static struct wp_claim_ref refs[MANY];
    struct wp_claim_table large;
    struct wp_claim_key key;
    struct wp_claim_ref ref;
    char id[24];

    (void)state;
    assert_true(wp_claim_table_init(&large, MANY, NULL));
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(id, sizeof id, "%d", i);
        key = key_of("t", id);
        assert_int_equal(wp_claim_table_begin(&large, &key, &refs[i]),
                         WP_CLAIM_NEW);
        for (int j = i; j > 0; j = j / 2 - 1) {
            (void)snprintf(id, sizeof id, "%d", j);
            key = key_of("t", id);
            assert_true(wp_claim_table_find(&large, key.hash, &ref));
            assert_true(same(ref, refs[j]));
        }
    }
    for (int i = 0; i < MANY; i++) {
        int j = (i * 7919 + 13) % MANY;

        assert_true(wp_claim_table_end(&large, refs[j], NULL));
        (void)snprintf(id, sizeof id, "%d", j);
        key = key_of("t", id);
        assert_false(wp_claim_table_find(&large, key.hash, &ref));
    }
    wp_claim_table_fini(&large);
}

/* A bucket that may not be in the list has this flag in its link. */
#define OUTSIDE (UINT64_C(1) << 28)

/* Buckets that were begun; all of them are in the list. */
static uint32_t
buckets_begun(const struct wp_claim_table *of)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i <= of->bucket_mask; i++) {
        uint64_t link = atomic_load(&of->buckets[i]);

        assert_true((link & OUTSIDE) == 0);
        n += link != 0;
    }
    return n;
}

/* The buckets in use follow the entries ever used. */
static void
few_claims_touch_few_buckets(void **state)
{
    struct wp_claim_table large;
    struct wp_claim_ref refs[65];
    char id[24];

    (void)state;
    assert_true(wp_claim_table_init(&large, 1 << 16, NULL));
    for (uint64_t i = 0; i < 1000; i++) {
        struct wp_hash128 unknown = {i, i};

        assert_false(wp_claim_table_find(&large, unknown, &refs[0]));
    }
    assert_int_equal(buckets_begun(&large), 64);
    for (int i = 0; i < 1000; i++) {
        struct wp_claim_key key;

        (void)snprintf(id, sizeof id, "%d", i);
        key = key_of("t", id);
        assert_int_equal(wp_claim_table_begin(&large, &key, &refs[0]),
                         WP_CLAIM_NEW);
        assert_true(wp_claim_table_end(&large, refs[0], NULL));
    }
    assert_int_equal(wp_claim_table_used_max(&large), 1);
    assert_int_equal(buckets_begun(&large), 64);
    for (int i = 0; i < 5000; i++) {
        struct wp_claim_key key;

        (void)snprintf(id, sizeof id, "%d", i);
        key = key_of("t", id);
        assert_int_equal(wp_claim_table_begin(&large, &key, &refs[i % 65]),
                         WP_CLAIM_NEW);
        if (i >= 64) {
            assert_true(wp_claim_table_end(&large, refs[(i + 1) % 65], NULL));
        }
    }
    assert_int_equal(wp_claim_table_used_max(&large), 65);
    assert_int_equal(buckets_begun(&large), 128);
    wp_claim_table_fini(&large);
}

/* No bucket has more than a few, however many claims there may be; and no page is
 * promised for buckets that nobody needs. */
static void
has_buckets_for_all(void **state)
{
    static const uint32_t counts[] = {1, 2, 3, 4, 5, 63, 64, 65, 1000, 1 << 20};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(counts); i++) {
        struct wp_claim_table many;
        uint64_t buckets;

        assert_true(wp_claim_table_init(&many, counts[i], NULL));
        buckets = many.bucket_mask + UINT64_C(1);
        assert_true(buckets * 2 >= counts[i]);
        assert_true(buckets < counts[i] || buckets == 1);
        wp_claim_table_fini(&many);
    }
}

/* What is read is what was written, with texts of the greatest length. */
static void
reads_back_what_was_written(void **state)
{
    char id[WP_CLAIM_ID_MAX + 1];
    char tenant[WP_TENANT_MAX + 1];
    struct wp_claim_view view;
    struct wp_claim_key key;
    struct wp_claim_ref ref;

    (void)state;
    memset(id, 'i', sizeof id);
    memset(tenant, 't', sizeof tenant);
    id[WP_CLAIM_ID_MAX] = '\0';
    tenant[WP_TENANT_MAX] = '\0';
    key = key_of(tenant, id);
    assert_int_equal(wp_claim_table_begin(&table, &key, &ref), WP_CLAIM_NEW);
    /* Nothing of what was there before shows. */
    memset(&view, 0x5a, sizeof view);
    assert_true(wp_claim_table_read(&table, ref, &view));
    assert_false(view.held);
    assert_true(wp_slot_ref_eq(view.slot, WP_SLOT_REF_NONE));
    assert_int_equal(view.granted_wall_ms, 0);
    assert_int_equal(view.served, 0);
    assert_false(wp_claim_table_hold(
        &table, ref, slot, 1234,
        wp_record_served_pack(WP_SERVED_QUEUED, WP_RECORD_MARK_MAX)));
    assert_true(wp_claim_table_read(&table, ref, &view));
    assert_true(view.held && same(view.ref, ref));
    assert_true(wp_slot_ref_eq(view.slot, slot));
    assert_int_equal(view.granted_wall_ms, 1234);
    assert_int_equal(wp_record_served(view.served), WP_SERVED_QUEUED);
    assert_int_equal(wp_record_mark(view.served), WP_RECORD_MARK_MAX);
    assert_true(view.hash.low == key.hash.low);
    assert_true(view.hash.high == key.hash.high);
    assert_int_equal(view.fingerprint, 0xfeed);
    assert_int_equal(view.pool_index, 5);
    assert_string_equal(view.claim_id, id);
    assert_string_equal(view.tenant, tenant);
    assert_true(wp_claim_table_end(&table, ref, NULL));
    assert_false(wp_claim_table_read(&table, ref, &view));
    assert_false(wp_claim_table_read_at(&table, ref.index, &view));
    /* A shorter claim in the same entry shows nothing of the longer one. */
    ref = begin_new("s");
    assert_true(wp_claim_table_read(&table, ref, &view));
    assert_string_equal(view.claim_id, "s");
    assert_string_equal(view.tenant, "t");
    assert_int_equal(view.served, 0);
}

/* Whatever a record says: the mark beside it stays what it is. */
static void
a_time_is_kept_within_its_bounds(void **state)
{
    static const struct {
        int64_t told, kept;
    } times[] = {{-1, 0},
                 {INT64_MIN, 0},
                 {(INT64_C(1) << 42) - 1, (INT64_C(1) << 42) - 1},
                 {INT64_C(1) << 42, (INT64_C(1) << 42) - 1},
                 {INT64_MAX, (INT64_C(1) << 42) - 1}};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(times); i++) {
        struct wp_claim_ref ref = begin_new("c");
        struct wp_claim_view view;

        assert_false(
            wp_claim_table_hold(&table, ref, slot, times[i].told,
                                wp_record_served_pack(WP_SERVED_WARM, 5)));
        assert_true(wp_claim_table_read(&table, ref, &view));
        assert_true(view.granted_wall_ms == times[i].kept);
        assert_int_equal(wp_record_mark(view.served), 5);
        assert_true(wp_claim_table_end(&table, ref, NULL));
    }
}

/* A walk by index sees each live entry once. */
static void
walks_over_live_entries(void **state)
{
    struct wp_claim_ref refs[10];
    struct wp_claim_view view;
    char id[24];
    int seen = 0;

    (void)state;
    for (int i = 0; i < 10; i++) {
        (void)snprintf(id, sizeof id, "%d", i);
        refs[i] = begin_new(id);
    }
    assert_true(wp_claim_table_end(&table, refs[0], NULL));
    assert_true(wp_claim_table_end(&table, refs[5], NULL));
    assert_int_equal(wp_claim_table_used_max(&table), 10);
    for (uint32_t i = 0; i < wp_claim_table_used_max(&table); i++) {
        if (wp_claim_table_read_at(&table, i, &view)) {
            int number = atoi(view.claim_id);

            assert_true(same(view.ref, refs[number]));
            assert_true(number != 0 && number != 5);
            seen++;
        }
    }
    assert_int_equal(seen, 8);
}

/* Hold and end tell their owner of followers, and no one else may follow. */
static void
tells_of_followers(void **state)
{
    struct wp_claim_ref ref = begin_new("a");
    bool followers = true;

    (void)state;
    assert_true(wp_claim_table_follow(&table, ref));
    assert_true(wp_claim_table_follow(&table, ref));
    assert_true(wp_claim_table_hold(&table, ref, slot, 1, SERVED));
    assert_false(wp_claim_table_follow(&table, ref));
    assert_true(wp_claim_table_end(&table, ref, NULL));
    assert_false(wp_claim_table_follow(&table, ref));

    ref = begin_new("b");
    assert_true(wp_claim_table_end(&table, ref, &followers));
    assert_false(followers);
    ref = begin_new("b");
    assert_true(wp_claim_table_follow(&table, ref));
    assert_true(wp_claim_table_end(&table, ref, &followers));
    assert_true(followers);
}

/* A lease that somebody else was shown is not undone; when all have gone, it is.
 * Followers may all have gone before they are told. */
static void
ends_for_who_leaves_last(void **state)
{
    struct wp_claim_ref ref = begin_new("a");

    (void)state;
    assert_false(wp_claim_table_share(&table, ref));
    assert_false(wp_claim_table_hold(&table, ref, slot, 1, SERVED));
    assert_true(wp_claim_table_leave(&table, ref));
    assert_false(wp_claim_table_leave(&table, ref));
    assert_false(wp_claim_table_share(&table, ref));
    assert_false(wp_claim_table_share_once(&table, ref));

    ref = begin_new("a");
    assert_false(wp_claim_table_hold(&table, ref, slot, 1, SERVED));
    assert_true(wp_claim_table_share(&table, ref));
    assert_false(wp_claim_table_leave(&table, ref));
    assert_true(wp_claim_table_end(&table, ref, NULL));

    ref = begin_new("a");
    assert_false(wp_claim_table_hold(&table, ref, slot, 1, SERVED));
    for (int i = 0; i < 254; i++) {
        assert_true(wp_claim_table_share_once(&table, ref));
    }
    for (int i = 0; i < 254; i++) {
        assert_false(wp_claim_table_leave(&table, ref));
    }
    assert_true(wp_claim_table_leave(&table, ref));

    ref = begin_new("a");
    assert_false(wp_claim_table_hold(&table, ref, slot, 1, SERVED));
    for (int i = 0; i < 300; i++) {
        assert_true(wp_claim_table_share_once(&table, ref));
    }
    for (int i = 0; i < 301; i++) {
        assert_false(wp_claim_table_leave(&table, ref));
    }
    assert_true(wp_claim_table_end(&table, ref, NULL));

    ref = begin_new("a");
    assert_true(wp_claim_table_follow(&table, ref));
    assert_true(wp_claim_table_hold(&table, ref, slot, 1, SERVED));
    assert_true(wp_claim_table_leave(&table, ref));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(knows_a_claim_until_it_ends, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(tells_tenants_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(refuses_when_full, setup, teardown),
        cmocka_unit_test_setup_teardown(agrees_with_a_model, setup, teardown),
        cmocka_unit_test_setup_teardown(keeps_equal_buckets_apart, setup,
                                        teardown),
        cmocka_unit_test(finds_all_while_buckets_split),
        cmocka_unit_test(few_claims_touch_few_buckets),
        cmocka_unit_test(has_buckets_for_all),
        cmocka_unit_test_setup_teardown(reads_back_what_was_written, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_time_is_kept_within_its_bounds, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(walks_over_live_entries, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(tells_of_followers, setup, teardown),
        cmocka_unit_test_setup_teardown(ends_for_who_leaves_last, setup,
                                        teardown),
    };

    return cmocka_run_group_tests_name("claim_table", tests, NULL, NULL);
}
