#include "k8s/objects/names.h"

#include <stdio.h>
#include <string.h>

#include "pool/base/fnv.h"

void
wp_name_hash(struct wp_str name, char out[WP_NAME_HASH_LEN + 1])
{
    (void)snprintf(out, WP_NAME_HASH_LEN + 1, "%08x", wp_fnv32_str(name));
}

int
wp_name_key_compare(const void *a, const void *b)
{
    const struct wp_name_key *left = a;
    const struct wp_name_key *right = b;
    int order = strcmp(left->ns, right->ns);

    return order != 0 ? order : strcmp(left->name, right->name);
}
