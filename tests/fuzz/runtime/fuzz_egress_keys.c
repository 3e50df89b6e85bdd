/* Any bytes as a file of keys: what is taken can be put into a request without
 * ending a part of it, and a refusal names a line and shows nothing. */
#include <stdlib.h>
#include <string.h>

#include "runtime/egress/keys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(bool truth)
{
    if (!truth) {
        abort();
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_err err = {.msg = ""};
    struct wp_egress_keys *keys =
        wp_egress_keys_parse((struct wp_str){(const char *)data, size}, &err);
    const struct wp_egress_key *key;

    if (keys == NULL) {
        check(err.status == WP_INVALID_ARGUMENT &&
              strncmp(err.msg, "keys, line ", 11) == 0);
        return 0;
    }
    key = wp_egress_keys_find(keys, WP_STR("models"));
    if (key != NULL) {
        check(key->port != 0 && key->host.name[0] != '\0');
        check(key->path[0] == '\0' || key->path[0] == '/');
        check(strpbrk(key->path, " \r\n?#") == NULL);
        check(key->field[0] != '\0' && strpbrk(key->field, ": \r\n") == NULL);
        check(key->value[0] != '\0' && strpbrk(key->value, "\r\n") == NULL);
    }
    wp_egress_keys_destroy(keys);
    return 0;
}
