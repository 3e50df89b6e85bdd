#include "k8s/objects/names.h"

#include <stdio.h>

#include "pool/base/fnv.h"

void
wp_name_hash(struct wp_str name, char out[WP_NAME_HASH_LEN + 1])
{
    (void)snprintf(out, WP_NAME_HASH_LEN + 1, "%08x", wp_fnv32_str(name));
}
