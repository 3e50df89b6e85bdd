/* Any bytes as the file of known pools: refused, or names that read back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/stores/known_pools.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_known_pool pools[8];
    struct wp_known_pool again[8];
    char text[8 * (sizeof pools[0] + 2)];
    size_t len = 0;
    uint32_t n;
    uint32_t m;

    if (!wp_known_pools_parse((struct wp_str){(const char *)data, size}, pools,
                              8, &n)) {
        return 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len, "%s/%s\n",
                                pools[i].pool_namespace, pools[i].pool);
    }
    if (!wp_known_pools_parse((struct wp_str){text, len}, again, 8, &m) ||
        m != n) {
        abort();
    }
    return 0;
}
