/* tests/support/pool/scaler_seal.h - a scaler's saved state, made whole again
 * after a test has changed it. */
#ifndef WP_TESTS_SUPPORT_POOL_SCALER_SEAL_H
#define WP_TESTS_SUPPORT_POOL_SCALER_SEAL_H

#include <stddef.h>
#include <stdint.h>

#include "pool/base/siphash.h"

/* Sets the version and the checksum at the end. */
static inline void
scaler_seal(uint8_t *bytes, size_t len, uint8_t version)
{
    static const struct wp_hash_key key = {0x7761726d706f6f6c, 0x53617057};
    uint64_t sum;

    bytes[4] = version;
    sum = wp_siphash128(key, bytes, len - 8).low;
    for (unsigned i = 0; i < 8; i++) {
        bytes[len - 8 + i] = (uint8_t)(sum >> (8 * i));
    }
}

#endif
