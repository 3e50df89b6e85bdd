/* Addresses of listeners, sandboxes and peers: what is taken is written in one
 * spelling, which means the same. */
#include <stdint.h>
#include <string.h>

#include "pool/base/address.h"
#include "pool/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_str text = {(const char *)data, size};
    struct wp_address first;
    struct wp_address again;
    struct wp_err err;
    char told[512];

    if (wp_address_parse(text, &first, &err) != WP_OK) {
        WP_ASSERT(err.msg[0] != '\0');
        return 0;
    }
    (void)wp_address_format(&first, told, sizeof told);
    WP_ASSERT(wp_address_parse(wp_str_from(told), &again, &err) == WP_OK);
    WP_ASSERT(first.len == again.len && first.is_unix == again.is_unix &&
              first.is_loopback == again.is_loopback &&
              memcmp(&first.sa, &again.sa, first.len) == 0);
    if (!first.is_unix) {
        uint16_t port = wp_address_port(&first);

        wp_address_set_port(&first, (uint16_t)(port ^ 1));
        WP_ASSERT(wp_address_port(&first) == (port ^ 1));
    }
    return 0;
}
