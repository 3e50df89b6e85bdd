#include "k8s/names.h"

#include <stdio.h>

void
wp_name_hash(struct wp_str name, char out[WP_NAME_HASH_LEN + 1])
{
    uint32_t hash = UINT32_C(2166136261);

    for (size_t i = 0; i < name.len; i++) {
        hash = (hash ^ (unsigned char)name.ptr[i]) * UINT32_C(16777619);
    }
    (void)snprintf(out, WP_NAME_HASH_LEN + 1, "%08x", hash);
}
