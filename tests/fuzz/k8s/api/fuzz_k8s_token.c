/* The bytes of a token file: what comes out may stand in a header. */
#include <stdint.h>

#include "k8s/api/token.h"
#include "pool/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_str out;

    if (wp_token_trim((struct wp_str){(const char *)data, size}, &out)) {
        WP_ASSERT(out.len > 0 && out.len <= size);
        WP_ASSERT(wp_str_is_printable(out));
        WP_ASSERT(memchr(out.ptr, ' ', out.len) == NULL);
    }
    return 0;
}
