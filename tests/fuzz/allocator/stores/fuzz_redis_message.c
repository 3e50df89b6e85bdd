/* Any bytes as what a replica hears from another: changes and a heartbeat. A
 * heartbeat that is taken is said again with the same bytes, but for the case
 * of hex digits. */
#include <stdlib.h>
#include <strings.h>

#include "allocator/stores/codec.h"
#include "allocator/stores/redis/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_str payload = {(const char *)data, size};
    struct wp_lease_redis_peer peer;
    struct wp_redis_changes changes;
    struct wp_redis_change change;
    struct wp_lease_record record;
    uint64_t number;
    char text[WP_REDIS_HEARTBEAT_MAX];
    char packed[WP_LEASE_PACKED_MAX];

    if (wp_redis_heartbeat_parse(payload, &peer) &&
        (wp_redis_heartbeat_make(&peer, text) != size ||
         strncasecmp(text, payload.ptr, size) != 0)) {
        abort();
    }
    if (!wp_redis_changes_open(payload, &changes)) {
        return 0;
    }
    number = changes.number;
    memset(&record, 0, sizeof record);
    while (wp_redis_changes_next(&changes, &change)) {
        if (change.number != number++) {
            abort();
        }
        if (wp_redis_change_read(&change, &record) &&
            wp_lease_pack(&record, packed) > change.packed.len) {
            abort();
        }
    }
    return 0;
}
