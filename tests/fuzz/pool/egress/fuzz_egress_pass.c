/* Any text as a pass, as it is and signed: what is not signed is none; what is
 * signed and is one, is written the same. */
#include <stdlib.h>
#include <string.h>

#include "pool/egress/pass.h"

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
    static const uint8_t key[WP_EGRESS_KEY_LEN] = {7};
    static char text[WP_EGRESS_PASS_TEXT_MAX + 3];
    static char again[WP_EGRESS_PASS_TEXT_MAX + 1];
    uint8_t bytes[WP_EGRESS_PASS_BYTES_MAX + 1];
    char room[WP_EGRESS_PASS_BYTES_MAX];
    struct wp_egress_pass pass;

    check(!wp_egress_pass_read(key, (struct wp_str){(const char *)data, size},
                               room, &pass));
    if (size > sizeof bytes - WP_EGRESS_KEY_LEN) {
        return 0;
    }
    /* Keys and passes are signed alike. */
    wp_egress_key_derive(key, (struct wp_str){(const char *)data, size}, bytes);
    if (size > 0) {
        memcpy(bytes + WP_EGRESS_KEY_LEN, data, size);
    }
    wp_hex_encode(bytes, WP_EGRESS_KEY_LEN + size, text);
    if (wp_egress_pass_read(key, wp_str_from(text), room, &pass)) {
        wp_egress_pass_write(key, &pass, again);
        check(strcmp(text, again) == 0);
    }
    return 0;
}
