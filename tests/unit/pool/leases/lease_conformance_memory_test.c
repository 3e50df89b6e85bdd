/* tests/unit/pool/leases/lease_conformance_memory_test.c - the memory store and what the
 * suite asks of a store that keeps nothing. */
#include "pool/leases/memory.h"
#include "tests/support/stores/store_conformance.h"

static struct wp_lease_store
open_memory(void *ctx, bool fresh)
{
    (void)ctx;
    (void)fresh;
    return wp_lease_memory();
}

static void
close_memory(void *ctx)
{
    (void)ctx;
}

int
main(void)
{
    const struct wp_store_factory factory = {
        .name = "memory", .open = open_memory, .close = close_memory};

    return wp_store_conformance_run(&factory);
}
