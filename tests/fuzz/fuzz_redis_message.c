/* Any bytes as what a replica hears from another: a change and a heartbeat. A
 * heartbeat that is taken is said again with the same bytes, but for the case
 * of hex digits. */
#include <stdlib.h>
#include <strings.h>

#include "allocator/lease_codec.h"
#include "allocator/redis_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_str payload = {(const char *)data, size};
    struct wp_lease_redis_peer peer;
    struct wp_redis_change change;
    char text[WP_REDIS_HEARTBEAT_MAX];
    char packed[WP_LEASE_PACKED_MAX];

    if (wp_redis_heartbeat_parse(payload, &peer) &&
        (wp_redis_heartbeat_make(&peer, text) != size ||
         strncasecmp(text, payload.ptr, size) != 0)) {
        abort();
    }
    memset(&change, 0, sizeof change);
    if (wp_redis_change_parse(payload, &change) &&
        wp_lease_pack(&change.record, packed) > size) {
        abort();
    }
    return 0;
}
