/* Any bytes as a packed lease record. What is taken packs to the very same
 * bytes again, so nothing is read that would not be written. */
#include <stdlib.h>

#include "allocator/stores/codec.h"
#include "pool/leases/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_lease_record record;
    char packed[WP_LEASE_PACKED_MAX];

    memset(&record, 0, sizeof record);
    if (wp_lease_unpack((struct wp_str){(const char *)data, size}, &record)) {
        size_t len = wp_lease_pack(&record, packed);

        if (len != size || memcmp(packed, data, len) != 0 ||
            (wp_record_is_claimed(record.state) &&
             record.claim_id[0] == '\0')) {
            abort();
        }
    }
    return 0;
}
