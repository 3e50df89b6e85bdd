/* From hashes to numbers: what was added and not taken out is found, and
 * nothing else, whatever collides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/hash_index.h"
#include "pool/base/rng.h"

enum {
    HASHES = 12,
    VALUES = 40,
    STEPS = 200000,
};

/* Many in few cells, some behind the end. */
static uint64_t
hash_of(uint32_t i)
{
    return i % 3 == 0 ? UINT64_MAX - i : (uint64_t)i << (i % 2 * 32);
}

static bool model[HASHES][VALUES + 1];

static void
check(const struct wp_hash_index *index)
{
    uint64_t count = 0;

    for (uint32_t h = 0; h < HASHES; h++) {
        bool seen[VALUES + 1] = {false};
        uint64_t at = 0;
        uint64_t value;

        while ((value = wp_hash_index_next(index, hash_of(h), &at)) != 0) {
            assert_in_range(value, 1, VALUES);
            assert_false(seen[value]);
            seen[value] = true;
            count++;
        }
        assert_memory_equal(seen, model[h], sizeof seen);
    }
    assert_int_equal(count, index->count);
}

static void
test_against_a_table(void **state)
{
    struct wp_hash_index index;
    struct wp_rng rng;

    (void)state;
    memset(model, 0, sizeof model);
    wp_rng_init(&rng, 5);
    assert_true(wp_hash_index_init(&index, 1));
    for (int i = 0; i < STEPS; i++) {
        uint32_t h = (uint32_t)(wp_rng_unit(&rng) * HASHES);
        uint32_t v = 1 + (uint32_t)(wp_rng_unit(&rng) * VALUES);

        if (model[h][v] || wp_rng_unit(&rng) < 0.3) {
            wp_hash_index_remove(&index, hash_of(h), v);
            model[h][v] = false;
        } else {
            assert_true(wp_hash_index_reserve(&index, 1));
            wp_hash_index_add(&index, hash_of(h), v);
            model[h][v] = true;
        }
        if (i % 1000 == 0) {
            check(&index);
        }
    }
    check(&index);
    wp_hash_index_fini(&index);
}

static void
test_room(void **state)
{
    struct wp_hash_index index;
    const struct wp_hash_cell *cells;

    (void)state;
    assert_int_equal(wp_hash_index_bytes(8), 16 * sizeof *cells);
    assert_int_equal(wp_hash_index_bytes(9), 32 * sizeof *cells);
    assert_true(wp_hash_index_init(&index, 1000));
    assert_int_equal((index.mask + 1) * sizeof *index.cells,
                     wp_hash_index_bytes(1000));
    cells = index.cells;
    for (uint64_t i = 1; i <= 1000; i++) {
        assert_true(wp_hash_index_reserve(&index, 1));
        wp_hash_index_add(&index, i * i, i);
    }
    assert_ptr_equal(index.cells, cells); /* It had the room. */
    for (uint64_t i = 1; i <= 1000; i++) {
        uint64_t at = 0;

        assert_int_equal(wp_hash_index_next(&index, i * i, &at), i);
    }
    wp_hash_index_fini(&index);
    assert_null(index.cells);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_a_table),
        cmocka_unit_test(test_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
