/* Any bytes as what the server in a Pod says of a binding. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "k8s/bind/bind_answer.h"
#include "pool/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct wp_str bytes = {(const char *)data, size};
    const struct wp_bind_brought brought = {"0123456789abcdef", size % 2 != 0};
    struct wp_bind_answer part;
    struct wp_bind_answer whole;

    if (size > WP_BIND_ANSWER_MAX) {
        return 0;
    }
    WP_ASSERT(wp_bind_answer_read(bytes, true, &brought, &whole));
    WP_ASSERT((whole.status == WP_OK) == (whole.reason[0] == '\0'));
    WP_ASSERT(strlen(whole.reason) <= WP_BIND_REASON_MAX &&
              (whole.status != WP_OK || !whole.lost));
    /* Known before its end, it is the same at its end. */
    if (wp_bind_answer_read(bytes, false, &brought, &part)) {
        WP_ASSERT(part.status == whole.status && part.lost == whole.lost &&
                  strcmp(part.reason, whole.reason) == 0);
    }
    return 0;
}
