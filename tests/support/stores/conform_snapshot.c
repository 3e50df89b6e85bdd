/* Notes: bytes of a pool beside its records. */
#include <stdlib.h>
#include <string.h>

#include "pool/base/rng.h"
#include "tests/support/stores/conform.h"

static enum wp_status
put(struct wp_str pool, const uint8_t *bytes, size_t len)
{
    struct wp_pool_snapshot snapshot = {.bytes = (uint8_t *)(uintptr_t)bytes,
                                        .len = len};
    struct wp_lease_op op = {.kind = WP_LEASE_PUT_SNAPSHOT,
                             .granted_wall_ms = 1700000000000,
                             .pool_namespace = WP_STR("team-a"),
                             .pool = pool,
                             .snapshot = &snapshot};

    return conform_commit(&op);
}

/* What the store has of it is exactly this; len 0: it has none. */
static void
expect(struct wp_str pool, const uint8_t *bytes, size_t len)
{
    uint8_t *got = malloc(WP_SNAPSHOT_MAX);
    struct wp_pool_snapshot snapshot = {.bytes = got, .cap = WP_SNAPSHOT_MAX};
    struct wp_lease_op op = {.kind = WP_LEASE_GET_SNAPSHOT,
                             .pool_namespace = WP_STR("team-a"),
                             .pool = pool,
                             .snapshot = &snapshot};

    assert_non_null(got);
    assert_int_equal(conform_commit(&op), len > 0 ? WP_OK : WP_NOT_FOUND);
    if (len > 0) {
        assert_int_equal(snapshot.len, len);
        assert_memory_equal(got, bytes, len);
        snapshot.cap = len - 1;
        assert_int_equal(conform_commit(&op), WP_NOT_FOUND);
    }
    free(got);
}

void
conform_test_snapshots(void **state)
{
    static const size_t lens[] = {1,    24,    4095, 4096,
                                  4097, 16384, 7,    WP_SNAPSHOT_MAX};
    const struct wp_str agents = WP_STR("agents");
    uint8_t *bytes;
    struct wp_rng rng;

    (void)state;
    conform_open_store(true);
    bytes = malloc(WP_SNAPSHOT_MAX);
    assert_non_null(bytes);
    wp_rng_init(&rng, 5);
    expect(agents, NULL, 0);
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        for (size_t at = 0; at < lens[i]; at++) {
            bytes[at] = (uint8_t)wp_rng_next(&rng);
        }
        assert_int_equal(put(agents, bytes, lens[i]), WP_OK);
        expect(agents, bytes, lens[i]);
    }
    conform_close_store();
    conform_open_store(false);
    expect(agents, bytes, WP_SNAPSHOT_MAX);
    conform_close_store();
    free(bytes);
}
