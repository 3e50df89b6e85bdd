#include "pool/leases/memory.h"

static enum wp_status
memory_commit(void *self, struct wp_lease_op *op)
{
    (void)self;
    (void)op;
    return WP_OK;
}

struct wp_lease_store
wp_lease_memory(void)
{
    static const struct wp_lease_store_ops ops = {.name = "memory",
                                                  .commit = memory_commit};

    return (struct wp_lease_store){&ops, NULL};
}
